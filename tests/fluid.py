"""A slow second account of an episode in which jobs slow one another, moved by the same actions."""

import math
from dataclasses import dataclass, field

from envs.policy import Action, Placement, Preempt, Resize, Start, Throttle, Wait
from envs.workload import Workload
from tests.formulas import Task, crowding, exchange_s, fed_s, iteration_s, pressures, reference_s, tasks

ROUNDING = 1e-6  # s
TINY = 1e-9
HOLDING = ("running", "loading", "pausing")
BOOKED = {  # where the seconds of a phase are booked
    "queued": "wait",
    "reserved": "wait",
    "restarting": "wait",
    "running": "run",
    "loading": "overhead",
    "pausing": "overhead",
}
BOOKS = ("wait", "run", "overhead", "lost", "busy", "shared", "core")


@dataclass
class Life:
    """What has become of a job so far; `end` is when its phase ends by itself, unless it runs."""

    task: Task
    phase: str = "future"  # a name of envs.kernel.layout.PHASES
    end: float = math.inf
    progress: float = 0.0  # s
    gpus: tuple[int, ...] = ()  # held
    wanted: Placement | None = None  # reserved
    node: int = -1  # of a CPU job
    cores: float = 0.0  # a GPU; of the whole CPU job
    level: float = 1.0  # of a throttled CPU job
    turn: int = -1  # how many starts there were before its own
    grown: bool = False  # whether it takes its peak memory
    saved: bool = False  # whether it must load
    touched: int = -1  # the instant of its last start or pause
    ooms: int = 0
    preemptions: int = 0
    rank: int = 0  # how many limits of attained service it has reached
    spent: dict[str, float] = field(default_factory=lambda: dict.fromkeys(BOOKS, 0.0))


class Fluid:
    """A cluster, its jobs and the time. All speeds are found anew between any two instants."""

    def __init__(self, work: Workload, limits: tuple[float, ...] = ()) -> None:
        self.lives = [Life(task) for task in tasks(work)]
        self.cluster, self.physics = work.cluster, work.physics
        self.tick_s = work.scenario.tick if "estimates" in work.scenario.parts else 0.0
        self.node_of = [node for node, gpus in enumerate(self.cluster.node_gpus) for _ in range(gpus)]
        self.clock = self.lives[0].task.submit_s
        self.last_submit = self.lives[-1].task.submit_s
        self.limits = (*limits, math.inf)  # GPU-seconds of running
        self.wake, self.instant = math.inf, 0
        self.starts = self.reservations = self.late_failures = 0
        self.fated: list[int] = []  # how often each job has run out of memory in the episode

    # Who is where.

    def those(self, *phases: str) -> list[int]:
        return [job for job, life in enumerate(self.lives) if life.phase in phases]

    def residents(self, gpu: int, *phases: str) -> list[int]:
        """Return the jobs on a GPU, in these phases if any are named, the oldest first."""
        here = [job for job, life in enumerate(self.lives) if gpu in life.gpus]
        here = [job for job in here if not phases or self.lives[job].phase in phases]
        return sorted(here, key=lambda job: self.lives[job].turn)

    def heirs(self, gpu: int) -> list[int]:
        return [job for job, life in enumerate(self.lives) if life.wanted and gpu in life.wanted.gpus]

    def is_being_freed(self, gpu: int) -> bool:
        """Tell whether all jobs on a GPU pause, and there are some."""
        return bool(self.residents(gpu)) and not self.residents(gpu, "running", "loading")

    def on_nodes(self, gpus: tuple[int, ...]) -> dict[int, int]:
        """Count GPUs by node."""
        nodes = [self.node_of[gpu] for gpu in gpus]
        return {node: nodes.count(node) for node in nodes}

    def memory(self, gpu: int) -> float:
        """Return what is free of a GPU's memory; below 0 it runs over."""
        taken = sum(self.lives[job].task.memory_gib for job in self.residents(gpu) if self.lives[job].grown)
        return self.cluster.node_gpu_memory_gib[self.node_of[gpu]] - taken

    def free_cores(self, node: int) -> float:
        """Return the cores of a node that nobody holds."""
        here = [life.cores for life in self.lives if life.node == node]
        here += [life.cores for life in self.lives for gpu in life.gpus if self.node_of[gpu] == node]
        return self.cluster.node_cores[node] - sum(here)

    def spare_cores(self, node: int) -> float:
        """Return the free cores of a node less one for each GPU that nobody holds."""
        held = {gpu for life in self.lives for gpu in life.gpus}
        kept = [gpu for gpu, home in enumerate(self.node_of) if home == node and gpu not in held]
        return self.free_cores(node) - len(kept)

    def cores_for(self, placement: Placement) -> float:
        """Return the cores that a start could get, a GPU; what is kept for empty GPUs goes with them."""
        if placement.node is not None and not placement.gpus:
            return self.spare_cores(placement.node)
        room = []
        for node, count in self.on_nodes(placement.gpus).items():
            kept = [gpu for gpu in placement.gpus if self.node_of[gpu] == node and not self.residents(gpu)]
            room.append((self.spare_cores(node) + len(kept)) / count)
        return max(0.0, min(room))

    # How fast.

    def drawn_gbs(self) -> dict[int, float]:
        """Return the bandwidth that running jobs draw from each node, at full speed."""
        drawn = dict.fromkeys(range(self.cluster.num_nodes), 0.0)
        for job in self.those("running"):
            life, task = self.lives[job], self.lives[job].task
            if not task.gpus:
                drawn[life.node] += task.bandwidth_gbs * life.cores / task.cores * life.level
            for node, count in self.on_nodes(life.gpus).items():
                drawn[node] += task.bandwidth_gbs * count / task.gpus
        return drawn

    def speeds(self) -> dict[int, tuple[float, float]]:
        """Return, for each running job, its progress a second, and the utilisation that its GPUs show."""
        pressure = pressures(self.drawn_gbs(), self.physics, self.cluster)
        return {job: self.speed(self.lives[job], pressure) for job in self.those("running")}

    def speed(self, life: Life, pressure: dict[int, float]) -> tuple[float, float]:
        task = life.task
        if not task.gpus:
            slower = pressure[life.node] if task.bandwidth_gbs else 1.0
            return life.cores / task.cores * life.level / slower, 0.0
        spread = self.on_nodes(life.gpus)
        duties = [[self.lives[k].task.duty for k in self.residents(gpu, "running")] for gpu in life.gpus]
        crowd = max(crowding(here, self.physics) for here in duties)
        sync_s = exchange_s(task, spread.values(), self.cluster)
        cores = life.cores if self.physics.cores else task.cores
        now_s = iteration_s(task, crowd, max(pressure[node] for node in spread), cores, sync_s)
        if not now_s:
            return 1.0, 1.0
        return reference_s(task, self.cluster) / now_s, fed_s(task, self.cluster) / now_s

    # Time.

    def advance(self, clock: float) -> list[str]:
        """Let time pass to the next instant, and end what is due then; return what is wrong with that time."""
        speeds = self.speeds()
        expected = self.next_event(speeds)
        if not abs(clock - expected) <= ROUNDING:
            return [f"the next instant is {clock!r}, expected {expected!r}"]
        self.pass_time(clock, speeds)
        self.clock, self.wake, self.instant = clock, math.inf, self.instant + 1
        self.end_what_is_due()
        for job in self.those("running"):
            self.lives[job].rank += self.until_next_limit(self.lives[job]) <= ROUNDING
        for job in [job for job in self.those("running") if self.is_to_grow(self.lives[job])]:
            if self.lives[job].phase == "running":
                self.grow(job)
        for life in self.lives:
            if life.phase == "future" and life.task.submit_s <= clock:
                life.phase = "queued"
        return []

    def next_event(self, speeds: dict[int, tuple[float, float]]) -> float:
        """Return when something happens next."""
        times = [self.wake, *(life.end for life in self.lives)]
        times += [life.task.submit_s for life in self.lives if life.phase == "future"]
        for job, (rate, _) in speeds.items():
            life = self.lives[job]
            goals = [life.task.duration_s] + [self.peak_s(life.task)] * (not life.grown)
            times += [self.clock + (goal - life.progress) / rate for goal in goals]
            times.append(self.clock + self.until_next_limit(life))
        if self.tick_s and self.those("queued"):
            times.append((self.clock // self.tick_s + 1) * self.tick_s)
        return min(times)

    def until_next_limit(self, life: Life) -> float:
        """Return the seconds of running until a job reaches its next limit."""
        ran_s = life.spent["run"] + life.spent["lost"]
        return self.limits[life.rank] / life.task.gpus - ran_s if life.task.gpus else math.inf

    def peak_s(self, task: Task) -> float:
        """Return the progress at which a job that has joined others needs its peak memory."""
        return self.physics.peak_at * task.duration_s

    def pass_time(self, clock: float, speeds: dict[int, tuple[float, float]]) -> None:
        """Book the seconds from here to then."""
        seconds, early = clock - self.clock, max(0.0, min(clock, self.last_submit) - self.clock)
        for job, life in enumerate(self.lives):
            if life.phase in BOOKED:
                life.spent[BOOKED[life.phase]] += seconds
            if life.phase in HOLDING:
                life.spent["core"] += seconds * life.cores * max(1, len(life.gpus))
            if job in speeds:
                rate, used = speeds[job]
                life.progress += rate * seconds
                life.spent["busy"] += used * early
                beside = [gpu for gpu in life.gpus if len(self.residents(gpu)) > 1]
                life.spent["shared"] += seconds * len(beside) / max(1, len(life.gpus))

    def end_what_is_due(self) -> None:
        """End phases until none is due at this moment."""
        while due := [job for job, life in enumerate(self.lives) if self.is_over(life)]:
            for job in due:
                self.end_phase(self.lives[job])

    def is_over(self, life: Life) -> bool:
        if life.phase == "running":
            return life.task.duration_s - life.progress <= ROUNDING
        return life.end <= self.clock + ROUNDING

    def is_to_grow(self, life: Life) -> bool:
        return not life.grown and self.peak_s(life.task) - life.progress <= ROUNDING

    def end_phase(self, life: Life) -> None:
        life.end = math.inf
        match life.phase:
            case "loading":
                life.phase = "running"
            case "restarting":
                life.phase = "queued"
            case "running":
                life.phase = "done"
                self.release(life)
            case "pausing":
                life.phase, life.saved = "queued", True
                self.release(life)

    def release(self, life: Life) -> None:
        """Give back what a job holds, and start those who waited for the last of it."""
        life.gpus, life.node, life.cores, life.level, life.grown = (), -1, 0.0, 1.0, False
        for heir in self.lives:
            if heir.wanted and not any(self.residents(gpu) for gpu in heir.wanted.gpus):
                self.begin(heir, heir.wanted)

    # Actions.

    def apply(self, action: Action) -> None:
        """Carry out a legal action."""
        match action:
            case Start(job, placement) if any(self.is_being_freed(gpu) for gpu in placement.gpus):
                self.lives[job].phase, self.lives[job].wanted = "reserved", placement
                self.reservations += 1
            case Start(job, placement):
                self.begin(self.lives[job], placement)
            case Preempt(job):
                life = self.lives[job]
                life.preemptions += 1
                life.touched = self.instant
                life.phase, life.end = "pausing", self.clock + life.task.pause_s
            case Resize(job, cores):
                self.lives[job].cores = cores
            case Throttle(job, level):
                self.lives[job].level = level
            case Wait(seconds):
                idle = not self.those("future", "restarting", *HOLDING)
                self.wake = self.clock + (seconds or (0.0 if idle and self.those("queued") else math.inf))
        self.end_what_is_due()

    def begin(self, life: Life, placement: Placement) -> None:
        """Let a job hold what a placement says, with so many cores as there are."""
        life.cores = min(placement.cores or life.task.cores, self.cores_for(placement))
        life.gpus, life.wanted = tuple(sorted(placement.gpus)), None
        life.node = -1 if placement.gpus or placement.node is None else placement.node
        life.touched, life.turn, self.starts = self.instant, self.starts, self.starts + 1
        life.phase, life.end = "loading", self.clock + life.task.load_s * life.saved
        alone = all(self.residents(gpu) == [self.lives.index(life)] for gpu in life.gpus)
        if alone or self.peak_s(life.task) - life.progress <= TINY:
            self.grow(self.lives.index(life))
        self.end_what_is_due()

    # Memory.

    def grow(self, job: int) -> None:
        """Let a job take its peak memory; where it runs over, somebody fails."""
        life = self.lives[job]
        life.grown = True
        while over := [gpu for gpu in life.gpus if self.memory(gpu) < -TINY]:
            victims = self.victims(over, job)
            self.late_failures += self.instant > life.touched
            if not victims:
                return  # the accounts will differ
            for victim in victims:
                self.fail(self.lives[victim])

    def victims(self, over: list[int], grower: int) -> list[int]:
        """Return who fails now, of those who take memory of these GPUs."""
        here = [[job for job in self.residents(gpu) if self.lives[job].grown] for gpu in over]
        match self.physics.oom_victim:
            case "grower":
                return [grower]
            case "newcomer":
                return here[0][-1:]
        # They are drawn at random, one by one: only who may be drawn can be told.
        return [
            job for job in {job for jobs in here for job in jobs} if self.fated[job] > self.lives[job].ooms
        ]

    def fail(self, life: Life) -> None:
        """Let a job lose its progress, and queue again after a while."""
        life.phase, life.end = "restarting", self.clock + self.physics.restart_delay
        life.spent["lost"] += life.spent["run"]
        life.spent["run"] = life.progress = 0.0
        life.saved, life.touched, life.ooms = False, self.instant, life.ooms + 1
        self.release(life)
