"""What a scheduler could honestly know now, read-only."""

from typing import TYPE_CHECKING

import numpy as np

from simulator import readings
from simulator.columns import Column, Reading, Record, read_only
from simulator.kernel import calls
from simulator.kernel.layout import (
    KEYS,
    LOADING,
    MAX_SHARE,
    NOBODY,
    PAUSING,
    QUEUED,
    RESERVED,
    RUNNING,
)
from simulator.legality import why_not
from simulator.policy import Action, Placement, Preempt, Ranking, Start, Wait

if TYPE_CHECKING:
    from simulator.slots import Slots

PREEMPTIONS = ("never", "by_order", "if_it_pays")


class View:
    """The present state of an episode, without the future: arrays over the jobs that have arrived, GPUs, or nodes.

    What a profiler tells of a job may be wrong, what is measured has an error; both hold for every policy alike.
    """

    num_gpus = Column("job", "num_gpus", "GPUs a job asks for, a worker on each; 0 for a CPU job.")
    asked_servers = Column(
        "job", "servers", "Parameter servers a job asks for; 0 where its workers need none."
    )
    min_workers = Column("job", "least", "Fewest workers with which a job can run.")
    max_workers = Column("job", "most", "Most workers with which a job can run.")
    cpu_slowdown = Column(
        "job", "on_cpu", "How many times slower a worker on CPU cores is; 0 where there is none."
    )
    user = Column("job", "user", "Number of who submitted a job; all the same where the trace does not tell.")
    submit_s = Column("job", "submit", "When a job was submitted.")
    memory_gib = Column("job", "memory", "Memory a job takes on each GPU as profiled, GiB.")
    cores = Column(
        "job", "cores", "CPU cores a job asks for, for each GPU, servers included; as a whole if it has none."
    )
    active_ms = Column("job", "active", "Profiled time of an iteration in which a job's GPUs are busy.")
    idle_ms = Column("job", "idle", "Profiled time of an iteration in which they are idle.")
    pause_s = Column("job", "pause", "Seconds a job holds its GPUs while it pauses.")
    load_s = Column("job", "load", "Seconds a paused job holds its GPUs before it runs on.")
    phase = Column("state", "phase", "Phase of a job, a number of `simulator.kernel.layout`.")
    since_s = Column("state", "since", "When a job's present phase began.")
    preemptions = Column("state", "preemptions", "How often a job has been paused.")
    oom_restarts = Column("state", "ooms", "How often a job has run out of memory.")
    resizes = Column("state", "resizes", "How often a job has been restarted to hold other GPUs.")
    failures = Column("state", "failures", "How often a job has failed by itself or with a node.")
    throttle = Column("state", "throttle", "Level of a CPU job; 1 is none.")
    node_of = Column("state", "node_of", "Node of an active job that has no GPU, else -1.")
    holder = Column("gpus", "holder", "The job that has held each GPU longest, or -1.")
    num_residents = Column("gpus", "num_residents", "How many jobs hold each GPU.")
    heir = Column(
        "gpus", "heir", "The job each GPU is reserved for; -1 for none, -2 where the node is closed."
    )
    gpu_node = Column("gpus", "gpu_node", "The node of each GPU.")
    free_memory_gib = Column("gpus", "free_memory", "Measured free memory of each GPU, GiB.")
    node_gpus = Column("nodes", "node_gpus", "GPUs of each node.")
    node_memory_gib = Column("nodes", "node_memory", "Memory of a GPU of each node, GiB.")
    free_gpus = Column("nodes", "free", "GPUs of each node that are neither held nor reserved.")
    free_cores = Column("nodes", "free_cores", "Free CPU cores of each node.")
    spare_cores = Column("nodes", "spare_cores", "Free CPU cores but for one for each GPU without a job.")
    node_cores = Column("nodes", "node_cores", "CPU cores of each node.")
    node_type = Column(
        "nodes", "node_type", "Type of each node's GPUs, a number of `simulator.kernel.layout.GPU_TYPES`."
    )
    node_closed = Column("nodes", "closed", "Whether jobs may start on a node: OPEN, DRAINING or DOWN.")
    is_predictable = Reading(readings.is_predictable)
    estimate_s = Reading(readings.estimate_s)
    workers = Reading(readings.workers)
    servers = Reading(readings.servers)
    gpus_now = Reading(readings.gpus_now)
    server_cores = Reading(readings.server_cores)
    gpu_seconds = Reading(readings.gpu_seconds)
    core_seconds = Reading(readings.core_seconds)
    node_until_s = Reading(readings.node_until_s)
    duty = Reading(readings.duty)
    cores_now = Reading(readings.cores_now)
    ran_s = Reading(readings.ran_s)
    busy_s = Reading(readings.busy_s)
    bandwidth_gbs = Reading(readings.bandwidth_gbs)
    node_bandwidth_gbs = Reading(readings.node_bandwidth_gbs)
    unclaimed_memory_gib = Reading(readings.unclaimed_memory_gib)
    must_load = Reading(readings.must_load)

    def __init__(self, states: np.ndarray, jobs: np.ndarray, rng: np.random.Generator) -> None:
        """Look at the first of two records; the second is scratch."""
        self._states = states
        self._jobs = jobs
        self._state, self._after = Record(states, 0), Record(states, 1)
        self._shown = {name: read_only(self._jobs[name]) for name in jobs.dtype.names or ()}
        self._moves: list[Action] = []
        self._moves_at = -1
        self._progress_at = (-1, -1)
        self._progress = np.empty((2, len(jobs)))
        self._list = np.empty(len(jobs), np.int64)
        self._errors: dict[str, tuple[int, np.ndarray]] = {}  # of the readings of an instant, by name
        self.rng = rng

    @property
    def now(self) -> float:
        """Seconds on the episode's clock."""
        return float(self._state.clock)

    @property
    def instant(self) -> int:
        """How many instants there have been."""
        return int(self._state.instant)

    @property
    def nothing_pending(self) -> bool:
        """Whether nothing will happen by itself: no end, no arrival."""
        return bool(np.isinf(calls.next_event(self._states, 0, self._jobs)))

    def type_speed(self, job: int) -> np.ndarray:
        """Return how fast a job computes on the GPUs of each node, over a V100, as profiled.

        1 where types make no difference.
        """
        speed: np.ndarray = self._jobs["type_speed"][job][self.node_type]
        return np.where(speed > 0, speed, 1.0)

    def profile(self, job: int) -> np.ndarray:
        """Return what a profiler measured of a job alone: rows of (workers, servers, on CPU, s of an iteration).

        A few shapes, each with a lognormal error of 5 % that is the same whenever it is read.
        """
        return readings.profile(self._states, self._jobs, job)

    @property
    def max_share(self) -> int:
        """How many jobs may hold a GPU at the same time."""
        return int(self._state.max_share)

    @property
    def cores_bind(self) -> bool:
        """Whether cores are given out, so that they may be changed; else every job has those it asks for."""
        return bool(self._state.cores_bind)

    @property
    def is_cpu_job(self) -> np.ndarray:
        """Whether a job has no GPU."""
        on_cpu: np.ndarray = self.num_gpus == 0
        return on_cpu

    @property
    def bandwidth_limit_gbs(self) -> float:
        """GB/s that the memory of a node gives; infinite where bandwidth does not matter."""
        return float(self._state.node_gbs) if self._state.bandwidth_binds else float("inf")

    @property
    def residents(self) -> np.ndarray:
        """The jobs on each GPU, one in each of `max_share` seats, -1 where one is empty: (GPUs, seats)."""
        seats = self._state.resident[: MAX_SHARE * self._state.num_gpus].reshape(-1, MAX_SHARE)
        return read_only(seats[:, : self.max_share])

    @property
    def attained_s(self) -> np.ndarray:
        """Seconds of progress of a job so far."""
        self._update_progress()
        return read_only(self._progress[0, : self._state.num_arrived])

    @property
    def remaining_s(self) -> np.ndarray:
        """Seconds of run time left: max(estimate - attained, 0.2 x attained, 15), exact with exact estimates."""
        self._update_progress()
        return read_only(self._progress[1, : self._state.num_arrived])

    def _update_progress(self) -> None:
        moment = self.instant, int(self._state.num_begun)  # a start may make others lose their progress
        if self._progress_at != moment:
            calls.progress(self._states, 0, self._jobs, self._progress[0], self._progress[1])
            self._progress_at = moment

    @property
    def queue(self) -> np.ndarray:
        """The queued jobs by (submit, job)."""
        count = calls.queued_jobs(self._states, 0, self._list)
        return np.sort(self._list[:count])

    @property
    def startable(self) -> np.ndarray:
        """The queued jobs that the scenario's placement rule could start now, by (submit, job)."""
        count = calls.startable(self._states, 0, self._jobs, self._list)
        return np.sort(self._list[:count])

    def _active(self, phase: int) -> np.ndarray:
        active: np.ndarray = self._state.events[: self._state.num_active]
        phases: np.ndarray = self._state.phase[active]
        return np.sort(active[phases == phase])

    @property
    def running(self) -> np.ndarray:
        """The running jobs."""
        return self._active(RUNNING)

    @property
    def loading(self) -> np.ndarray:
        """The jobs that load before they run on."""
        return self._active(LOADING)

    @property
    def pausing(self) -> np.ndarray:
        """The jobs that still hold GPUs while they pause."""
        return self._active(PAUSING)

    @property
    def preemptible(self) -> np.ndarray:
        """The running jobs that were not started at this very instant."""
        running = self.running
        older: np.ndarray = running[self._state.touched[running] != self._state.instant]
        return older

    def place(self, job: int, cores: float | None = None, *, gpus: int | None = None) -> Placement | None:
        """Return where the scenario's rule would start a job on free GPUs, None if it does not fit.

        cores: for each GPU, or as a whole for a CPU job, instead of those it asks for. gpus: instead of those.
        """
        count = int(self._jobs["num_gpus"][job] if gpus is None else gpus)
        asked = calls.cores_asked(self._states, 0, self._jobs, job, count, 0, -1)
        if not calls.place(self._states, 0, self._jobs, job, count, float(asked if cores is None else cores)):
            return None
        if count == 0:
            return Placement((), cores, node=int(self._state.chosen_node[0]))
        return Placement(tuple(self._state.gpus[:count].tolist()), cores)

    def just_paused(self, job: int) -> bool:
        """Tell whether a queued job was paused, or failed, at this very instant, so that it may not start at it."""
        return bool(self._state.touched[job] == self._state.instant)

    def why_not(self, action: object) -> str | None:
        """Return why an action is illegal now, or None."""
        return why_not(self, self._states, self._jobs, action)

    def can_hold(self, job: int) -> np.ndarray:
        """Tell of each node whether its GPUs are large enough for a job alone; nothing else may be started there."""
        able: np.ndarray = self.node_memory_gib >= self._jobs["peak"][job]
        return able

    def gpus_of(self, job: int) -> list[int]:
        """Return the GPUs an active job holds."""
        gpus = []
        seat = self._state.first_seat[job]
        while seat != NOBODY:
            gpus.append(int(seat) // MAX_SHARE)
            seat = self._state.next_seat[seat]
        return gpus

    def next_move(self, ranking: Ranking) -> Action:
        """Return what is left of a ranking's walk at this instant: its preemptions, then its starts, then Wait."""
        if self._moves_at != self.instant:
            self._moves = self._walk(ranking)
            self._moves_at = self.instant
        return self._moves.pop() if self._moves else Wait()

    def _walk(self, ranking: Ranking) -> list[Action]:
        """Carry out a ranking's walk on the scratch record and return the moves it made, the last first."""
        self._copy(ranking)
        calls.walk(self._states, 1, self._jobs)
        return self._moves_made()

    def pick(self, job: int) -> list[Action]:
        """Return the moves by which a queued job starts, victims paused for it if it needs them; the last first.

        The victims are found as for `xion_threshold`; there are no moves where the job neither fits nor has victims.
        """
        self._states[1] = self._states[0]
        calls.pick(self._states, 1, self._jobs, job)
        return self._moves_made()

    def look(self, slots: "Slots", ranking: Ranking) -> None:
        """Fill an agent's slots: the queue in a ranking's order, and the ranking's own choice as the prior."""
        self._copy(ranking)
        slots.refresh(self._states, 1, self._jobs)

    def _copy(self, ranking: Ranking) -> None:
        """Copy the state to the scratch record and put a ranking in force there."""
        self._states[1] = self._states[0]
        adopt(self._states, 1, self._jobs, ranking)

    def _moves_made(self) -> list[Action]:
        """Return the moves that lead from the state to the scratch record, the last first."""
        after = self._after
        seen = self._state.num_arrived
        moved = np.flatnonzero(after.phase[:seen] != self._state.phase[:seen])
        paused = moved[(after.phase[moved] == PAUSING) | (after.phase[moved] == QUEUED)]
        begun = np.setdiff1d(moved, paused)
        # Who starts first may take cores that the next lacks.
        begun = begun[np.argsort(-after.began[begun], kind="stable")]
        starts: list[Action] = []
        for job in begun.tolist():
            owner = after.heir if after.phase[job] == RESERVED else after.holder
            gpus = np.flatnonzero(owner[: after.num_gpus] == job)
            node = int(after.node_of[job]) if after.node_of[job] != NOBODY else None
            held = after.next_cores if after.phase[job] == RESERVED else after.core_count
            cores = float(held[job]) if self.cores_bind else None
            starts.append(Start(job, Placement(tuple(gpus.tolist()), cores, node)))
        return starts + [Preempt(job) for job in paused.tolist()]


def adopt(states: np.ndarray, e: int, jobs: np.ndarray, ranking: Ranking) -> None:
    """Put a ranking in force on a record."""
    calls.adopt(
        states,
        e,
        jobs,
        KEYS.index(ranking.key),
        ranking.exponent,
        ranking.margin,
        PREEMPTIONS.index(ranking.preempt),
    )
