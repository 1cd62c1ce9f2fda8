"""What a view looks at, kept apart from it: a policy that holds the view holds none of this."""

from collections.abc import Sequence
from typing import Any
from weakref import ref

import numpy as np

from gpu_cluster_gym.simulator.history import records_of
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster import legality, readings
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, NOBODY
from gpu_cluster_gym.simulator.kernel.rule import history as kernel_history
from gpu_cluster_gym.simulator.policy import Action


class Record:
    """The fields of one of the kernel's records: arrays, which are never copied, and numbers, as they are now.

    It reads several times faster than the record itself, for which every name is looked up anew.
    """

    def __init__(self, states: np.ndarray, e: int) -> None:
        """Take the record's place in `states`; it must stay where it is."""
        self._states, self._e = states, e
        self._numbers: dict[str, np.ndarray] = {}

    def __getattr__(self, name: str) -> Any:
        """Return a number, or an array the first time that it is asked for."""
        try:
            return self.__dict__["_numbers"][name][0]
        except KeyError:
            return self._found(name)

    def _found(self, name: str) -> Any:
        """Find a field when it is first asked for, which most never are."""
        states = self.__dict__.get("_states")
        if states is None or name not in states.dtype.names:
            raise AttributeError(name) from None
        field = states[name]
        if field.ndim == 1:
            return self.number(name)[0]
        array = self.__dict__[name] = field[self._e]
        return array

    def number(self, name: str) -> np.ndarray:
        """Return a number as an array of one, which shows it as it is now."""
        if (found := self._numbers.get(name)) is None:
            found = self._numbers[name] = self._states[name][self._e : self._e + 1]
        return found

    def array(self, name: str) -> np.ndarray:
        """Return an array."""
        found: np.ndarray = getattr(self, name)
        return found


class Source:
    """The records of an episode and its jobs, truths included, and what a view has already found at this instant.

    states: the episode's record, and a scratch record behind it. histories: records of what is believed.
    """

    def __init__(
        self,
        states: np.ndarray,
        jobs: np.ndarray,
        rng: np.random.Generator,
        histories: np.ndarray | None = None,
    ) -> None:
        """Look at the first of two records, the second being scratch; without histories nothing is learned."""
        self.states, self.jobs, self.rng = states, jobs, rng
        self.histories = records_of(None, jobs, states) if histories is None else histories
        self.state, self.after = Record(states, 0), Record(states, 1)
        self._instant, self._arrived = self.state.number("instant"), self.state.number("num_arrived")
        self._done, self._total = self.state.number("num_done"), self.state.number("num_jobs")
        self._list = np.empty(len(jobs), np.int64)
        self.moves: list[Action] = []
        self.moves_at = -1
        self.rule: object = None  # what asks the rule over moves step by step, and what it keeps
        self.rule_memory = np.empty(0)
        self.room: object = None  # where it imagines futures, made again where it is not there
        self.shown = -1  # how many jobs the view's arrays are of
        self._errors: dict[str, tuple[int, np.ndarray]] = {}  # of the readings of an instant, by name
        self._progress_at = (-1, -1)
        self._progress = np.empty((2, 0))
        self._believed_at = (-1, -1)
        self._believed = np.empty((3, 0))

    @property
    def instant(self) -> int:
        """How many instants there have been."""
        return int(self._instant.item())

    @property
    def is_over(self) -> bool:
        """Whether every job has ended."""
        return bool(self._done[0] == self._total[0])

    @property
    def arrived(self) -> int:
        """How many jobs have arrived."""
        return int(self._arrived.item())

    @property
    def listed(self) -> np.ndarray:
        """The jobs that are told of: those that have arrived."""
        return np.arange(self.arrived)

    @property
    def progress(self) -> np.ndarray:
        """Attained and remaining seconds of each job that has arrived: (2, jobs)."""
        moment = self.instant, int(self.state.num_starts)  # a start may make others lose their progress
        if self._progress_at != moment:
            self._progress = np.empty((2, self.arrived))
            calls.progress(self.states, 0, self.jobs, self.listed, *self._progress)
            self._progress_at = moment
        return self._progress

    @property
    def believed(self) -> np.ndarray:
        """Seconds of run time of each job that has arrived, those left, and cores a GPU, as expected: (3, jobs)."""
        moment = self.instant, int(self.state.num_starts)
        if self._believed_at != moment:
            self._believed = np.empty((3, self.arrived))
            kernel_history.believed(self.states, 0, self.jobs, self.histories, self._believed)
            self._believed_at = moment
        return self._believed

    @property
    def readings(self) -> np.ndarray:
        """How busy each job's GPUs were that it had alone, and cores a GPU that follow: (2, jobs)."""
        read = np.empty((2, self.arrived))
        kernel_history.readings(self.states, 0, self.jobs, read)
        return read

    def declared(self, field: str) -> np.ndarray:
        """Return what is fixed about the jobs that have arrived."""
        found: np.ndarray = self.jobs[field][: self.arrived]
        return found

    def present(self, field: str) -> np.ndarray:
        """Return what has become of the jobs that have arrived."""
        return self.state.array(field)[: self.arrived]

    def check(self, job: int) -> None:
        """Raise ValueError if a job has not arrived."""
        if not 0 <= job < self.arrived:
            raise ValueError(f"job {job} has not arrived: there are {self.arrived} jobs so far")

    def known(self, order: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return jobs as an array of integers; ValueError if one of them has not arrived."""
        jobs = np.ascontiguousarray(order, np.int64)
        if (strange := legality.first_unknown(jobs, self.arrived)) < len(jobs):
            self.check(int(jobs[strange]))
        return jobs

    @property
    def waiting(self) -> np.ndarray:
        """The queued jobs that may start at this instant, by (submit, job)."""
        queue = self.queue
        may: np.ndarray = queue[self.state.last_action_instant[queue] != self.state.instant]
        return may

    @property
    def nothing_pending(self) -> bool:
        """Whether nothing will happen by itself: no end, no arrival."""
        return bool(calls.next_event(self.states, 0, self.jobs) == np.inf)

    @property
    def queue(self) -> np.ndarray:
        """The queued jobs by (submit, job)."""
        return self._list[: legality.queued(self.states, 0, self._list)].copy()

    @property
    def startable(self) -> np.ndarray:
        """The queued jobs that the placement rule could start now, by (submit, job)."""
        return np.sort(self._list[: calls.startable(self.states, 0, self.jobs, self._list)])

    def active(self, phase: int) -> np.ndarray:
        """Return the active jobs in a phase."""
        return self._list[: legality.active(self.states, 0, phase, self._list)].copy()

    @property
    def preemptible(self) -> np.ndarray:
        """The running jobs that were not started at this very instant."""
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
        """The jobs on each GPU, -1 where a share slot is empty: (GPUs, slots)."""
        slots = self.state.job_in[: MAX_SHARE * self.state.num_gpus].reshape(-1, MAX_SHARE)
        here: np.ndarray = slots[:, : int(self.state.max_share)]
        return here

    def errors(self, reading: str) -> np.ndarray:
        """Return standard normal errors of a reading at this instant, the same however often it is read."""
        instant, errors = self._errors.get(reading, (-1, np.empty(0)))
        if instant != self.instant:
            errors = np.empty(self.arrived)
            readings.errors(self.states, 0, readings.READINGS.index(reading), errors)
            self._errors[reading] = self.instant, errors
        return errors


class Part(Source):
    """What a source tells of some jobs alone, at this instant."""

    def __init__(self, whole: Source, some: np.ndarray) -> None:
        """Take the jobs, which have arrived."""
        self.whole, self.some = whole, some
        self.states, self.jobs, self.state = whole.states, whole.jobs, whole.state

    @property
    def listed(self) -> np.ndarray:
        """The jobs that are told of."""
        return self.some

    @property
    def progress(self) -> np.ndarray:
        """Attained and remaining seconds of each: (2, jobs)."""
        seconds = np.empty((2, len(self.some)))
        calls.progress(self.states, 0, self.jobs, self.some, *seconds)
        return seconds

    @property
    def believed(self) -> np.ndarray:
        """What is expected of each; see `Source.believed`."""
        found: np.ndarray = self.whole.believed[:, self.some]
        return found

    @property
    def readings(self) -> np.ndarray:
        """What is read of each; see `Source.readings`."""
        found: np.ndarray = self.whole.readings[:, self.some]
        return found

    def declared(self, field: str) -> np.ndarray:
        """Return what is fixed about them."""
        found: np.ndarray = self.jobs[field][self.some]
        return found

    def present(self, field: str) -> np.ndarray:
        """Return what has become of them."""
        found: np.ndarray = self.state.array(field)[self.some]
        return found

    def errors(self, reading: str) -> np.ndarray:
        """Return the errors of a reading of each."""
        found: np.ndarray = self.whole.errors(reading)[self.some]
        return found


_SOURCES: dict[ref[object], Source] = {}  # a plain dictionary reads twice as fast as one of weak keys


def look(viewer: object, source: Source) -> None:
    """Let a view, or a part of one, look at a source from now on."""
    _SOURCES[ref(viewer, _SOURCES.pop)] = source


def source_of(viewer: object) -> Source:
    """Return what a view, or a part of one, looks at."""
    return _SOURCES[ref(viewer)]
