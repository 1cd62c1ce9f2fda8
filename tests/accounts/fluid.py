"""Slow second account of an episode with interference, elastic shapes and failures, moved by actions.

Failure times of nodes and out-of-memory victims are random: they are read from the episode's record.
"""

import math
from collections import Counter

from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Resize, Start, Throttle, Wait
from gpu_cluster_gym.workloads import Workload
from tests.accounts.formulas import fewest_cores, tasks
from tests.accounts.lives import DOWN, HOLDING, OPEN, Ground, Life, shape_of
from tests.accounts.outages import Outages
from tests.accounts.paces import speeds_of

ROUNDING = 1e-6  # s
TINY = 1e-9
BOOKED = {  # where the seconds of a phase are booked
    "queued": "wait",
    "reserved": "wait",
    "restarting": "wait",
    "held": "wait",
    "running": "run",
    "loading": "overhead",
    "pausing": "overhead",
}


class Fluid:
    """A cluster, its jobs and the time. All speeds are recomputed between any two instants."""

    def __init__(self, work: Workload, limits: tuple[float, ...] = ()) -> None:
        self.ground = Ground(tasks(work), work.cluster, work.physics)
        self.lives, self.physics, self.cluster = self.ground.lives, work.physics, work.cluster
        self.tick_s = work.scenario.tick if "estimates" in work.scenario.parts else 0.0
        self.clock = self.lives[0].task.submit_s
        self.outages = Outages(work.physics, work.cluster.num_nodes, self.clock)
        self.last_submit = self.lives[-1].task.submit_s
        self.limits = (*limits, math.inf)  # GPU-seconds of running
        self.wake, self.instant = math.inf, 0
        self.starts = 0
        self.seen: Counter[str] = Counter()  # number of events of each kind
        self.waits_for: list[set[int]] = [set() for _ in self.lives]
        for job, other in work.constraints.waits_for.tolist():
            self.waits_for[job].add(other)
        self.fated: list[int] = []  # how often each job has run out of memory in the episode

    # Time.

    def advance(self, clock: float) -> list[str]:
        """Advance to the next instant and end the due phases; return an error in its time."""
        speeds = speeds_of(self.ground)
        expected = self.next_event(speeds)
        if not abs(clock - expected) <= ROUNDING:
            return [f"the next instant is {clock!r}, expected {expected!r}"]
        self.pass_time(clock, speeds)
        self.clock, self.wake, self.instant = clock, math.inf, self.instant + 1
        self.end_due_phases()
        self.close_and_open()
        for job in self.ground.those("running"):
            self.lives[job].rank += self.until_next_limit(self.lives[job]) <= ROUNDING
        for job in [job for job in self.ground.those("running") if self.is_to_grow(self.lives[job])]:
            if self.lives[job].phase == "running":
                self.grow(job)
        for life in self.lives:
            if life.phase == "future" and life.task.submit_s <= clock:
                life.phase = "held"
            life.predictable |= life.phase != "future" and self.has_reached(life, life.task.predictable_from)
        ended = {*self.ground.those("done")}
        for job in self.ground.those("held"):
            if self.waits_for[job] <= ended:
                self.lives[job].phase = "queued"
        return []

    def next_event(self, speeds: dict[int, tuple[float, float]]) -> float:
        """Return the time of the next event."""
        times = [self.wake, self.outages.next_time(self.ground.closed), *(life.end for life in self.lives)]
        times += [life.task.submit_s for life in self.lives if life.phase == "future"]
        for job, (rate, _) in speeds.items():
            life = self.lives[job]
            times += [self.clock + (goal - life.progress) / rate for goal in self.goals(life)]
            times.append(self.clock + self.until_next_limit(life))
        if self.tick_s and self.ground.those("queued"):
            times.append((self.clock // self.tick_s + 1) * self.tick_s)
        return min(times)

    def goals(self, life: Life) -> list[float]:
        """Return the progress values at which something happens to a running job."""
        task = life.task
        goals = [task.duration_s]
        if not life.grown:
            goals.append(self.peak_s(life))
        if not life.predictable and task.predictable_from < 1:
            goals.append(task.predictable_from * task.duration_s)
        if not life.crashed and task.crash_at < 1:
            goals.append(task.crash_at * task.duration_s)
        return goals

    def has_reached(self, life: Life, share: float) -> bool:
        """Return whether a job has made a fraction of its progress, where 1 stands for never."""
        return share < 1 and life.progress >= share * life.task.duration_s - ROUNDING

    def until_next_limit(self, life: Life) -> float:
        """Return the seconds of running until a job reaches its next limit."""
        return (self.limits[life.rank] - life.service) / len(life.gpus) if life.gpus else math.inf

    def peak_s(self, life: Life) -> float:
        """Return the progress at which a co-located job needs its peak memory."""
        return self.physics.peak_at * life.task.duration_s

    def pass_time(self, clock: float, speeds: dict[int, tuple[float, float]]) -> None:
        """Account for the seconds from now to then."""
        seconds, early = clock - self.clock, max(0.0, min(clock, self.last_submit) - self.clock)
        for job, life in enumerate(self.lives):
            if life.phase in BOOKED:
                life.spent[BOOKED[life.phase]] += seconds
            if life.phase in HOLDING:
                life.spent["core"] += seconds * life.cores * max(1, len(life.gpus))
                life.spent[f"{BOOKED[life.phase]} area"] += seconds * len(life.gpus)
            if job in speeds:
                rate, used = speeds[job]
                life.progress += rate * seconds
                life.spent["busy"] += used * early * len(life.gpus)
                beside = [gpu for gpu in life.gpus if len(self.ground.residents(gpu)) > 1]
                life.spent["shared"] += seconds * len(beside) / max(1, len(life.gpus))
                life.spent["shared area"] += seconds * len(beside)

    def end_due_phases(self) -> None:
        """End phases until none is due at this moment."""
        while due := [life for life in self.lives if self.is_over(life) or self.is_to_crash(life)]:
            for life in due:
                self.end_phase(life)

    def is_over(self, life: Life) -> bool:
        if life.phase == "running":
            return life.task.duration_s - life.progress <= ROUNDING
        return life.end <= self.clock + ROUNDING

    def is_to_crash(self, life: Life) -> bool:
        return life.phase == "running" and not life.crashed and self.has_reached(life, life.task.crash_at)

    def is_to_grow(self, life: Life) -> bool:
        return not life.grown and self.peak_s(life) - life.progress <= ROUNDING

    def end_phase(self, life: Life) -> None:
        life.end = math.inf
        match life.phase:
            case "loading":
                life.phase = "running"
                life.mark()
            case "restarting":
                life.phase = "queued"
            case "running" if self.is_to_crash(life):
                life.crashed = True
                self.fail_to_checkpoint(life)
            case "running":
                life.phase = "done"
                self.release(life)
            case "pausing":
                life.saved = True
                self.end_pause(life)
        self.start_the_ready()

    def end_pause(self, life: Life) -> None:
        """Queue a job that has paused, or let it wait for its new GPUs."""
        self.release(life)
        life.phase = "reserved" if life.wanted else "queued"

    def release(self, life: Life) -> None:
        """Release the resources of a job."""
        life.gpus, life.node, life.cores, life.level, life.grown = (), -1, 0.0, 1.0, False
        life.shape = life.task.shape

    def start_the_ready(self) -> None:
        """Start the jobs whose reserved GPUs are all free now."""
        for heir in self.lives:
            if heir.phase != "reserved" or heir.wanted is None:
                continue
            if not any(self.ground.residents(gpu) for gpu in heir.wanted.gpus):
                self.begin(heir, heir.wanted)

    # Actions.

    def apply(self, action: Action) -> None:
        """Carry out a legal action."""
        match action:
            case Start(job, placement, claim) if any(self.waits(gpu, claim) for gpu in placement.gpus):
                self.lives[job].phase, self.lives[job].wanted = "reserved", placement
                self.seen["claim" if claim else "reservation"] += 1
            case Start(job, placement):
                self.begin(self.lives[job], placement)
            case Preempt(job):
                self.lives[job].preemptions += 1
                self.pause(self.lives[job])
            case Resize(job, None, placement):
                self.lives[job].resizes += 1
                self.lives[job].wanted = placement
                self.pause(self.lives[job])
            case Resize(job, cores):
                self.lives[job].cores = cores or 0.0
            case Throttle(job, level):
                self.lives[job].level = level
            case Wait(seconds):
                idle = not self.is_pending()
                self.wake = self.clock + (
                    seconds or (0.0 if idle and self.ground.those("queued") else math.inf)
                )
        self.end_due_phases()

    def waits(self, gpu: int, claim: bool) -> bool:
        """Return whether a start on a GPU waits for its release: by pausing jobs, or with a claim by any."""
        return bool(self.ground.residents(gpu)) if claim else self.ground.is_being_freed(gpu)

    def is_pending(self) -> bool:
        """Return whether something will happen by itself, except nodes that close."""
        return bool(self.ground.those("future", "restarting", *HOLDING)) or any(self.ground.closed)

    def pause(self, life: Life) -> None:
        life.touched = self.instant
        life.phase, life.end = "pausing", self.clock + life.task.pause_s

    def begin(self, life: Life, placement: Placement) -> None:
        """Let a job hold a placement, with the cores available; queue it if they are too few."""
        life.wanted, shape = None, shape_of(life.task, placement)
        cores = self.ground.cores_given(life.task, placement)
        if not self.are_enough(life, placement, cores):
            life.phase = "queued"
            self.seen["no cores"] += 1
            return
        life.cores, life.shape = cores, shape
        self.seen["on cores"] += life.task.gpus > 0 == shape.gpus
        self.seen["servers on GPUs"] += shape.gpus > shape.workers
        life.gpus = tuple(sorted(placement.gpus))
        life.node = -1 if placement.gpus or placement.node is None else placement.node
        begins, life.turn, self.starts = life.turn < 0, self.starts, self.starts + 1
        life.touched = self.instant
        life.phase, life.end = "loading", self.clock + self.idle_s(life, begins)
        life.mark()
        alone = all(self.ground.residents(gpu) == [self.lives.index(life)] for gpu in life.gpus)
        if alone or self.peak_s(life) - life.progress <= TINY:
            self.grow(self.lives.index(life))
        self.end_due_phases()

    def idle_s(self, life: Life, begins: bool) -> float:
        """Return the seconds that a job holds its resources before it runs."""
        if life.saved:
            return life.task.load_s
        return life.task.startup_s + (self.physics.profiling if begins and life.task.gpus else 0.0)

    def are_enough(self, life: Life, placement: Placement, cores: float) -> bool:
        """Return whether a job can run with this number of cores."""
        if placement.node is not None and not placement.gpus and self.ground.closed[placement.node]:
            return False
        least = fewest_cores(life.task, shape_of(life.task, placement))
        return not self.physics.cores or cores >= least - TINY

    # Failures.

    def fail_to_checkpoint(self, life: Life) -> None:
        """Fail a job, back to the last point from which it can resume."""
        self.seen[f"failed {life.phase}"] += 1
        every_s, (began, ran_s) = self.physics.checkpoint_every, life.started
        made = life.progress - began
        kept = max(began, (life.progress + ROUNDING) // every_s * every_s)
        share = (life.progress - kept) / made if made > ROUNDING else 0.0
        seconds = share * (life.spent["run"] - ran_s)
        self.lose(life, seconds, seconds * len(life.gpus))
        life.progress, life.saved = kept, kept > 0
        life.failures += 1

    def lose(self, life: Life, seconds: float, area: float) -> None:
        """Account for lost running time of a job, and queue it again after a delay."""
        for book, amount in (("", seconds), (" area", area)):
            life.spent[f"run{book}"] -= amount
            life.spent[f"lost{book}"] += amount
        life.phase, life.end = "restarting", self.clock + self.physics.restart_delay
        life.touched, life.wanted = self.instant, None
        self.release(life)

    def close_and_open(self) -> None:
        """Let the nodes that are due fail, drain or come back."""
        closed = self.ground.closed
        for node in range(self.cluster.num_nodes):
            while self.outages.due(node, closed[node]) <= self.clock + ROUNDING:
                closed[node] = self.outages.change(node, closed[node], self.clock)
                if closed[node] != OPEN:
                    self.give_up_reservations(node)
                if closed[node] == DOWN:
                    for life in self.lives:
                        if node in self.ground.nodes_of(life):
                            self.fail_to_checkpoint(life)
                    self.start_the_ready()
                    self.end_due_phases()

    def give_up_reservations(self, node: int) -> None:
        """Queue the jobs that wait for GPUs of a node."""
        for life in self.lives:
            if life.wanted and node in self.ground.on_nodes(life.wanted.gpus):
                self.seen[f"gave up {life.phase}"] += 1
                life.wanted = None
                life.phase = "queued" if life.phase == "reserved" else life.phase

    # Memory.

    def grow(self, job: int) -> None:
        """Let a job take its peak memory; if it overflows, a victim fails."""
        life = self.lives[job]
        life.grown = True
        while over := [gpu for gpu in life.gpus if self.ground.memory(gpu) < -TINY]:
            victims = self.victims(over, job)
            self.seen["late failure"] += self.instant > life.touched
            if not victims:
                return  # the accounts will differ
            for victim in victims:
                self.restart_from_zero(self.lives[victim])

    def victims(self, over: list[int], grower: int) -> list[int]:
        """Return the jobs that fail now, among those that use memory of these GPUs."""
        here = [[job for job in self.ground.residents(gpu) if self.lives[job].grown] for gpu in over]
        match self.physics.oom_victim:
            case "grower":
                return [grower]
            case "newcomer":
                return here[0][-1:]
        # Victims are drawn at random, one by one: only the set of candidates can be predicted.
        return [
            job for job in {job for jobs in here for job in jobs} if self.fated[job] > self.lives[job].ooms
        ]

    def restart_from_zero(self, life: Life) -> None:
        """Remove all progress of a job."""
        self.lose(life, life.spent["run"], life.spent["run area"])
        life.progress, life.saved, life.ooms = 0.0, False, life.ooms + 1
        self.start_the_ready()
