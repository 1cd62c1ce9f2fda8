"""Access to an episode's record, kept apart from the view: a policy cannot reach it through its view."""

from collections.abc import Sequence
from typing import Any
from weakref import ref

import numpy as np

from gpu_cluster_gym.simulator.history import records_of
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster import legality, readings
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    KEYS,
    NOBODY,
    PAUSING,
    PLACEMENTS,
    QUEUED,
    RESERVED,
    RUNNING,
    SERVER_CORES,
)
from gpu_cluster_gym.simulator.kernel.cluster.parameters import MAX_SHARE
from gpu_cluster_gym.simulator.kernel.rankings import granting
from gpu_cluster_gym.simulator.kernel.slots import claims
from gpu_cluster_gym.simulator.kernel.union import estimates
from gpu_cluster_gym.simulator.policy import (
    MOST,
    Action,
    Placement,
    Preempt,
    Ranking,
    Resize,
    Start,
    Throttle,
    Wait,
    number,
    plain,
    whole,
)
from gpu_cluster_gym.simulator.shadow import Shadow
from gpu_cluster_gym.traces import unknown

PLACEMENT_RULES = PLACEMENTS[:3]
"""Rules that choose nodes; `pooled`, the fourth, ignores node boundaries."""
PREEMPTIONS = ("never", "by_order", "cost_aware")
MIN_THROTTLE = 0.1
SCAN = 32
"""Arrived jobs per queued one up to which reading all phases is quicker than sorting the queue."""

REASONS = {
    1: "it is not queued",
    2: "it was paused at this very instant",
    3: "its placement has another number of GPUs than it requests",
    4: "a GPU of the placement is neither free, nor about to be freed, nor open to one more job",
    5: "a GPU of the placement has too little memory for it",
    6: "the placement names a GPU twice",
    7: "a placement without GPUs must name an open node of the cluster",
    8: "the requested cores are not available",
    9: "it cannot run with this number of workers and servers on this number of GPUs",
    10: "it is a CPU job, or is not running",
    11: "its tenant would hold more GPUs than its quota, and may not borrow them",
    12: "its constraints do not allow a node of the placement (GPU type or partition)",
}
"""Messages by the code that `kernel.cluster.legality` returns for an illegal action."""


class Record:
    """The fields of one of the kernel's records: arrays, which are never copied, and current numbers.

    Reading is several times faster than through the record itself, which looks up each name at each access.
    """

    def __init__(self, states: np.ndarray, e: int) -> None:
        """Read record `e` of `states`, which must not be moved."""
        self._states, self._e = states, e
        self._numbers: dict[str, np.ndarray] = {}

    def __getattr__(self, name: str) -> Any:
        """Return a number, or an array at its first access."""
        try:
            return self.__dict__["_numbers"][name][0]
        except KeyError:
            return self._found(name)

    def _found(self, name: str) -> Any:
        """Look up a field at its first access; most fields are never read."""
        states = self.__dict__.get("_states")
        if states is None or name not in states.dtype.names:
            raise AttributeError(name) from None
        field = states[name]
        if field.ndim == 1:
            return self.number(name)[0]
        array = self.__dict__[name] = field[self._e]
        return array

    def number(self, name: str) -> np.ndarray:
        """Return a number as an array of one element, which follows the record."""
        if (found := self._numbers.get(name)) is None:
            found = self._numbers[name] = self._states[name][self._e : self._e + 1]
        return found

    def array(self, name: str) -> np.ndarray:
        """Return an array."""
        found: np.ndarray = getattr(self, name)
        return found


class Source:
    """The records of an episode and its jobs, truth included, with caches of the current instant.

    states: (>= 2,) records; the first is the episode, the second is scratch
    jobs: (N,) array of JOB, in order of submission
    rng: the generator that policies draw from
    histories: records of run-time predictions; None predicts nothing
    """

    def __init__(
        self,
        states: np.ndarray,
        jobs: np.ndarray,
        rng: np.random.Generator,
        histories: np.ndarray | None = None,
    ) -> None:
        """Read these records."""
        self.states, self.jobs, self.rng = states, jobs, rng
        self.histories = records_of(None, jobs, states) if histories is None else histories
        self.state, self.after = Record(states, 0), Record(states, 1)
        self._instant, self._arrived = self.state.number("instant"), self.state.number("num_arrived")
        self._done, self._total = self.state.number("num_done"), self.state.number("num_jobs")
        self._list = np.empty(len(jobs), np.int64)
        self.moves: list[Action] = []  # remaining actions of a ranking's pass, the next one last
        self.moves_at = -1  # instant of that pass
        self.ranked: object = None  # the ranking that the view was last asked for
        self.fixed: Any = None  # and its copy
        self.rule: object = None  # the policy that asks `union` step by step
        self.rule_memory = np.empty(0)  # and its memory
        self.room: object = None  # look-ahead's rollout buffers, created again where missing
        self.shadow = Shadow(jobs)
        self.of_jobs: dict[str, Any] = {}  # arrays of the view's table of jobs by name
        self.copied: list[tuple[dict[str, Any], str]] = []  # copies of the record in the view's tables
        self.copied_at = self.shown = -1  # instant of those copies; number of jobs in the table
        self._errors: dict[str, tuple[int, np.ndarray]] = {}  # by reading: instant, errors
        self._progress_at = (-1, -1)
        self._progress = np.empty((2, 0))
        self._expected_at = (-1, -1)
        self._expected = np.empty((3, 0))

    @property
    def instant(self) -> int:
        """Number of instants so far."""
        return int(self._instant.item())

    def forget_copies(self) -> None:
        """Let the view copy the record again: an action may have changed it."""
        if self.copied:
            for table, name in self.copied:
                table.pop(name, None)
            self.copied.clear()

    def forget_old_copies(self) -> None:
        """Let the view copy again what a later instant may have changed."""
        if self.copied_at != (instant := self._instant.item()):
            self.copied_at = instant
            self.forget_copies()
            if self.shown != (arrived := self._arrived.item()):
                self.shown = arrived
                self.of_jobs.clear()

    @property
    def is_over(self) -> bool:
        """Whether every job has ended."""
        return bool(self._done[0] == self._total[0])

    @property
    def arrived(self) -> int:
        """Number of jobs that have arrived."""
        return int(self._arrived.item())

    @property
    def listed(self) -> np.ndarray:
        """Jobs that measurements cover: all that have arrived."""
        return np.arange(self.arrived)

    @property
    def progress(self) -> np.ndarray:
        """Attained and remaining seconds of each job that has arrived: (2, jobs)."""
        moment = self.instant, int(self.state.num_starts)  # a start may cost other jobs their progress
        if self._progress_at != moment:
            self._progress = np.empty((2, self.arrived))
            calls.progress(self.states, 0, self.jobs, self.listed, *self._progress)
            self._progress_at = moment
        return self._progress

    @property
    def expected(self) -> np.ndarray:
        """Predicted run time, s, remaining run time, s, and cores per GPU of each arrived job: (3, jobs)."""
        moment = self.instant, int(self.state.num_starts)
        if self._expected_at != moment:
            self._expected = np.empty((3, self.arrived))
            estimates.expectations(self.states, 0, self.jobs, self.histories, self._expected)
            self._expected_at = moment
        return self._expected

    @property
    def readings(self) -> np.ndarray:
        """Busy share of each job's GPUs while it had them alone, and the cores per GPU it implies: (2, jobs)."""
        read = np.empty((2, self.arrived))
        estimates.readings(self.states, 0, self.jobs, read)
        return read

    def declared(self, field: str) -> np.ndarray:
        """Return a field of the jobs that never changes."""
        found: np.ndarray = self.jobs[field][: self.arrived]
        return found

    def present(self, field: str) -> np.ndarray:
        """Return a field of the record over jobs."""
        return self.state.array(field)[: self.arrived]

    @property
    def known_tenants(self) -> int:
        """Number of tenants up to the last one with a quota, or with a job that has arrived."""
        if not (total := int(self.state.num_tenants)):
            return 0
        with_quota = np.flatnonzero(self.state.quota[:total]).max(initial=-1)
        return 1 + int(max(with_quota, self.present("tenant").max(initial=-1)))

    def check(self, job: object) -> int:
        """Return a job as an integer of the built-in type, for use in its place; ValueError if it has not arrived."""
        found = whole(job, "job")
        if not 0 <= found < self.arrived:
            raise ValueError(
                f"job {found} has not arrived: expected the number of one of the {self.arrived} jobs so far, from 0"
            )
        return found

    def known(self, order: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return a copy of jobs as an array of integers; ValueError if one has not arrived."""
        given = np.asarray(order)
        if given.ndim != 1 or (len(given) and given.dtype.kind not in "iu"):
            raise ValueError(f"jobs {order!r}: expected a list or an array of integers")
        jobs = np.array(given, np.int64, order="C")
        if (strange := legality.first_unknown(jobs, self.arrived)) < len(jobs):
            self.check(int(jobs[strange]))
        return jobs

    @property
    def nothing_pending(self) -> bool:
        """Whether no event is due: no completion, no arrival."""
        return bool(calls.next_event(self.states, 0, self.jobs) == np.inf)

    @property
    def queue(self) -> np.ndarray:
        """Queued jobs by (submit, job)."""
        phase = self.present("phase")
        if len(phase) < SCAN * self.state.num_queued:
            return np.flatnonzero(phase == QUEUED)
        return self._list[: legality.queued(self.states, 0, self._list)].copy()

    @property
    def waiting(self) -> np.ndarray:
        """Queued jobs that may start at this instant, by (submit, job)."""
        queue = self.queue
        may: np.ndarray = queue[self.state.last_action_instant[queue] != self.state.instant]
        return may

    @property
    def startable(self) -> np.ndarray:
        """Queued jobs that the placement rule could start now, by (submit, job)."""
        return np.sort(self._list[: calls.startable(self.states, 0, self.jobs, self._list)])

    def active(self, phase: int) -> np.ndarray:
        """Return the active jobs in a phase."""
        return self._list[: legality.active(self.states, 0, phase, self._list)].copy()

    @property
    def preemptible(self) -> np.ndarray:
        """Running jobs that did not start at this very instant."""
        return self._list[: legality.preemptible(self.states, 0, self._list)].copy()

    def gpus_of(self, job: int) -> list[int]:
        """Return the GPUs an active job holds."""
        gpus = []
        slot = self.state.first_slot[job]
        while slot != NOBODY:
            gpus.append(int(slot) // MAX_SHARE)
            slot = self.state.next_slot[slot]
        return gpus

    @property
    def jobs_on_gpus(self) -> np.ndarray:
        """Jobs on each GPU, -1 in empty share slots: (GPUs, max_share)."""
        slots = self.state.job_in[: MAX_SHARE * self.state.num_gpus].reshape(-1, MAX_SHARE)
        here: np.ndarray = slots[:, : int(self.state.max_share)]
        return here

    def errors(self, reading: str) -> np.ndarray:
        """Return standard normal errors of a reading at this instant; reading again does not change them."""
        instant, errors = self._errors.get(reading, (-1, np.empty(0)))
        if instant != self.instant:
            errors = np.empty(self.arrived)
            readings.errors(self.states, 0, readings.READINGS.index(reading), errors)
            self._errors[reading] = self.instant, errors
        return errors

    def why_not(self, action: object) -> str | None:
        """Return why an action is illegal now, or None."""
        try:
            return self.why_illegal(plain(action))
        except ValueError as error:
            return str(error)

    def why_illegal(self, action: Action) -> str | None:
        """Return why an action of built-in types (`plain`) is illegal now, or None."""
        states, jobs, phase = self.states, self.jobs, self.present("phase")
        if isinstance(action, Wait):
            return self._why_no_wait(action)
        if not 0 <= action.job < len(phase):
            return f"job {action.job} has not arrived"
        match action:
            case Start(job, placement, claim):
                reason = legality.legal_start(states, 0, jobs, job, seat_of(placement), claim)
                why = REASONS[reason] if reason else None
                given: object = placement
                if reason in (3, 7, 9) and given is None:
                    why = "its placement is None, which View.place returns where a job does not fit"
                elif reason == 3:
                    why = f"it requests {jobs['num_gpus'][job]} GPUs, and its placement names {len(placement.gpus)}"
                return f"job {job} cannot start: {why}" if why else None
            case Preempt(job):
                if phase[job] != RUNNING:
                    return f"job {job} cannot be paused: it is not running"
                legal = self.state.last_action_instant[job] != self.state.instant
                return None if legal else f"job {job} cannot be paused: it was started at this very instant"
            case Resize(job, None, placement) if placement is not None:
                reason = legality.legal_move(states, 0, jobs, job, seat_of(placement))
                return f"job {job} cannot be resized: {REASONS[reason]}" if reason else None
            case Resize(job, cores, None) if cores is not None:
                legal = legality.legal_resize(states, 0, jobs, job, cores)
                return None if legal else f"job {job} cannot have {cores} cores: {self._why_no_cores(job)}"
            case Throttle(job, level):
                legal = phase[job] == RUNNING and jobs["num_gpus"][job] == 0 and MIN_THROTTLE <= level <= 1
                expected = f"expected a running CPU job, and a level from {MIN_THROTTLE} to 1"
                return None if legal else f"job {job} cannot be throttled to {level}: {expected}"
        return f"resizing job {action.job} is illegal: pass either cores or a placement"

    def _why_no_cores(self, job: int) -> str:
        if self.state.phase[job] != RUNNING:
            return "it is not running"
        if not self.state.cpu_limited:
            return "cores are not allocated, since the physics do not include them"
        return "expected at least 1 per GPU or CPU job, at most those free on its nodes, or requested by a CPU job"

    def _why_no_wait(self, wait: Wait) -> str | None:
        if wait.seconds is not None and not wait.seconds > 0:
            return f"waiting for {wait.seconds} s is illegal: expected a positive number, or None for the next event"
        if legality.must_start(self.states, 0, self.jobs):
            return "waiting is illegal: no event is pending, and a job could start, so start one"
        return None

    def wait(self, seconds: float | None) -> bool:
        """Wait until the next event, or for `seconds` if that is sooner; return whether that is legal."""
        if seconds is not None and not seconds > 0:
            return False
        longest = np.nan if seconds is None else seconds
        return bool(legality.wait(self.states, 0, self.jobs, longest))

    def copy_under(self, ranking: Ranking) -> None:
        """Copy the state to the scratch record and put a ranking in force there."""
        self.states[1] = self.states[0]
        adopt(self.states, 1, self.jobs, ranking)

    def next_move(self, ranking: Ranking) -> Action:
        """Return the next action of a ranking's pass at this instant: preemptions first, then starts, then Wait."""
        if self.moves_at != self.instant:
            self.copy_under(ranking)
            calls.walk(self.states, 1, self.jobs)
            self.moves, self.moves_at = self._moves_made(), self.instant
        return self.moves.pop() if self.moves else Wait()

    def pick(self, job: int) -> list[Action]:
        """Return the actions by which a queued job starts, the last first; see `View.pick`."""
        if self.state.phase[job] != QUEUED:
            raise ValueError(f"job {job} is not queued: pick one of view.queue")
        self.states[1] = self.states[0]
        calls.pick(self.states, 1, self.jobs, job)
        return self._moves_made()

    def _moves_made(self) -> list[Action]:
        """Return the actions that lead from the state to the scratch record, the last first."""
        state, after, seen = self.state, self.after, self.arrived
        moved = np.flatnonzero(after.phase[:seen] != state.phase[:seen])
        paused = moved[(after.phase[moved] == PAUSING) | (after.phase[moved] == QUEUED)]
        started = np.setdiff1d(moved, paused)
        # In order of their starts: an earlier one may take cores that a later one then lacks.
        started = started[np.argsort(-after.began[started], kind="stable")]
        reserved, own = (
            _by_job(owner[: after.num_gpus], started) for owner in (after.reserved_for, after.first_owner)
        )
        starts: list[Action] = []
        for place, job in enumerate(started.tolist()):
            gpus = (reserved if after.phase[job] == RESERVED else own)[place]
            node = int(after.node_of[job]) if after.node_of[job] != NOBODY else None
            granted = after.next_cores if after.phase[job] == RESERVED else after.core_count
            cores = float(granted[job]) if state.cpu_limited else None
            starts.append(Start(job, Placement(tuple(gpus.tolist()), cores, node)))
        return starts + [Preempt(job) for job in paused.tolist()]

    def start_first(self, order: Sequence[int] | np.ndarray, cores: float | None) -> Start | None:
        """Return the start of the first of these queued jobs that fits under the placement rule."""
        cores = None if cores is None else number(cores, "cores")
        job = int(granting.first_that_fits(self.states, 0, self.jobs, self.known(order), cores or 0.0))
        if job == NOBODY:
            return None
        count = int(self.jobs["num_gpus"][job])
        if count == 0:
            return Start(job, Placement((), node=int(self.state.chosen_node[0])))
        servers = SERVER_CORES * int(self.jobs["servers"][job]) / count
        each = None if cores is None else cores + servers
        return Start(job, Placement(tuple(self.state.gpus[:count].tolist()), each))

    def place(
        self, job: int, cores: float | None, gpus: int | None, rule: str | None = None
    ) -> Placement | None:
        """Return where a rule, by default the scenario's, would start a job on free GPUs; see `View.place`."""
        if rule is not None:
            rule = str(rule)
            if rule not in PLACEMENT_RULES:
                raise ValueError(unknown("placement rule", rule, PLACEMENT_RULES))
            own = int(self.states["placement"][0])
            self.states["placement"][0] = PLACEMENTS.index(rule)
            try:
                return self.place(job, cores, gpus)
            finally:
                self.states["placement"][0] = own
        states, jobs = self.states, self.jobs
        count = int(jobs["num_gpus"][job]) if gpus is None else whole(gpus, "number of GPUs", MOST)
        cores = None if cores is None else number(cores, "cores")
        if count < 0:
            raise ValueError(f"number of GPUs {count}: expected 0 or more")
        asked = calls.cores_asked(states, 0, jobs, job, count, 0, -1)
        if not calls.place(states, 0, jobs, job, count, float(asked) if cores is None else cores):
            return None
        if count == 0:
            return Placement((), cores, node=int(self.state.chosen_node[0]))
        return Placement(tuple(self.state.gpus[:count].tolist()), cores)

    def place_claim(self, job: int) -> Placement | None:
        """Return the GPUs that a job would claim, or None; see `View.place_claim`."""
        if not claims.place(self.states, 0, self.jobs, job):
            return None
        return Placement(tuple(self.state.gpus[: int(self.jobs["num_gpus"][job])].tolist()))


def _by_job(owner: np.ndarray, jobs: np.ndarray) -> list[np.ndarray]:
    """Return the GPUs of each of these jobs, ascending. owner: the job of each GPU."""
    order = np.argsort(owner, kind="stable")
    owners = owner[order]
    ends = zip(np.searchsorted(owners, jobs), np.searchsorted(owners, jobs, "right"), strict=True)
    return [order[begin:end] for begin, end in ends]


class Part(Source):
    """Measurements of some of a source's jobs at this instant."""

    def __init__(self, source: Source, some: np.ndarray) -> None:
        """Cover these jobs, which must have arrived."""
        self.source, self.some = source, some
        self.states, self.jobs, self.state = source.states, source.jobs, source.state

    @property
    def listed(self) -> np.ndarray:
        """Jobs that measurements cover."""
        return self.some

    @property
    def progress(self) -> np.ndarray:
        """Attained and remaining seconds: (2, jobs)."""
        seconds = np.empty((2, len(self.some)))
        calls.progress(self.states, 0, self.jobs, self.some, *seconds)
        return seconds

    @property
    def expected(self) -> np.ndarray:
        """Predictions; see `Source.expected`."""
        found: np.ndarray = self.source.expected[:, self.some]
        return found

    @property
    def readings(self) -> np.ndarray:
        """Readings of busy GPUs; see `Source.readings`."""
        found: np.ndarray = self.source.readings[:, self.some]
        return found

    def declared(self, field: str) -> np.ndarray:
        """Return a field of the jobs that never changes."""
        found: np.ndarray = self.jobs[field][self.some]
        return found

    def present(self, field: str) -> np.ndarray:
        """Return a field of the record over jobs."""
        found: np.ndarray = self.state.array(field)[self.some]
        return found

    def errors(self, reading: str) -> np.ndarray:
        """Return the errors of a reading."""
        found: np.ndarray = self.source.errors(reading)[self.some]
        return found


_SOURCES: dict[ref[object], Source] = {}  # a plain dictionary reads twice as fast as WeakKeyDictionary


def attach(viewer: object, source: Source) -> None:
    """Let a view, or one of its tables, read from a source from now on."""
    _SOURCES[ref(viewer, _SOURCES.pop)] = source


def source_of(viewer: object) -> Source:
    """Return the source that a view, or one of its tables, reads from."""
    return _SOURCES[ref(viewer)]


def adopt(states: np.ndarray, e: int, jobs: np.ndarray, ranking: Ranking) -> None:
    """Put a ranking in force on record `e`."""
    calls.adopt(
        states,
        e,
        jobs,
        KEYS.index(ranking.key),
        ranking.exponent,
        ranking.margin,
        PREEMPTIONS.index(ranking.preempt),
    )


def seat_of(placement: Placement | None) -> legality.Seat:
    """Return a plain placement in the kernel's form; invalid cores become -1.

    None, which `View.place` returns where a job does not fit, becomes a placement on nothing.
    ValueError for a GPU whose number is too large to exist.
    """
    placement = placement or Placement(())
    try:
        gpus = np.array(sorted(placement.gpus), np.int32)
    except OverflowError:
        raise ValueError(f"GPUs {placement.gpus}: expected numbers of GPUs of the cluster, from 0") from None
    cores = 0.0 if placement.cores is None else placement.cores
    sound = placement.cores is None or 0 < cores < np.inf
    node = NOBODY if placement.node is None else placement.node
    workers = 0 if placement.workers is None else max(placement.workers, -1) or -1
    servers = -1 if placement.servers is None else max(placement.servers, 0)
    return legality.Seat(gpus, cores if sound else -1.0, node, workers, servers)
