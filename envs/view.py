"""What a scheduler could honestly know now, read-only."""

from typing import TYPE_CHECKING

import numpy as np

from envs.kernel import calls
from envs.kernel.layout import (
    KEYS,
    LOADING,
    NOBODY,
    PAUSING,
    QUEUED,
    RESERVED,
    RUNNING,
)
from envs.policy import Action, Placement, Preempt, Ranking, Start, Wait

if TYPE_CHECKING:
    from envs.slots import Slots

PREEMPTIONS = ("never", "by_order", "if_it_pays")


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view of an array through which it cannot be changed."""
    shown = array.view()
    shown.flags.writeable = False
    return shown


class View:
    """The present state of an episode, without the future: arrays are over the jobs that have arrived.

    Per job (index `job`): num_gpus, submit_s, estimate_s, memory_gib, cores (a GPU), pause_s, load_s,
    predictable_from, attained_s, remaining_s (estimated), since_s, preemptions, phase. Per GPU: holder, heir,
    free_memory_gib, gpu_node. Per node: node_gpus, free_gpus, free_cores, node_memory_gib.
    """

    def __init__(self, states: np.recarray, jobs: np.ndarray, rng: np.random.Generator) -> None:
        """Look at the first of two records; the second is scratch."""
        self._states = states
        self._jobs = jobs
        self._state = states[0]
        self._moves: list[Action] = []
        self._moves_at = -1
        self._progress_at = -1
        self._progress = np.empty((2, len(jobs)))
        self._list = np.empty(len(jobs), np.int64)
        self.rng = rng

    @property
    def now(self) -> float:
        """Seconds on the episode's clock."""
        return float(self._state.clock)

    @property
    def instant(self) -> int:
        """How many instants there have been."""
        return int(self._state.instant)

    def _job_field(self, name: str) -> np.ndarray:
        return read_only(self._jobs[name][: self._state.num_arrived])

    def _state_field(self, name: str, count: int) -> np.ndarray:
        return read_only(self._state[name][:count])

    @property
    def num_gpus(self) -> np.ndarray:
        """GPUs a job asks for."""
        return self._job_field("num_gpus")

    @property
    def submit_s(self) -> np.ndarray:
        """When a job was submitted."""
        return self._job_field("submit")

    @property
    def estimate_s(self) -> np.ndarray:
        """Profiled run time of a job."""
        return self._job_field("estimate")

    @property
    def predictable_from(self) -> np.ndarray:
        """Share of progress from which a job's estimate is good; 1 is never."""
        return self._job_field("predictable_from")

    @property
    def memory_gib(self) -> np.ndarray:
        """Memory a job takes on each GPU, GiB."""
        return self._job_field("memory")

    @property
    def cores(self) -> np.ndarray:
        """CPU cores a job takes for each GPU."""
        return self._job_field("cores")

    @property
    def pause_s(self) -> np.ndarray:
        """Seconds a job holds its GPUs while it pauses."""
        return self._job_field("pause")

    @property
    def load_s(self) -> np.ndarray:
        """Seconds a paused job holds its GPUs before it runs on."""
        return self._job_field("load")

    @property
    def phase(self) -> np.ndarray:
        """Phase of a job, a number of `envs.kernel.layout`."""
        return self._state_field("phase", self._state.num_arrived)

    @property
    def since_s(self) -> np.ndarray:
        """When a job's present phase began."""
        return self._state_field("since", self._state.num_arrived)

    @property
    def preemptions(self) -> np.ndarray:
        """How often a job has been paused."""
        return self._state_field("preemptions", self._state.num_arrived)

    @property
    def has_run(self) -> np.ndarray:
        """Whether a job has started before, so that it must load when it starts again."""
        started: np.ndarray = np.isfinite(self._state.start[: self._state.num_arrived])
        return started

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
        if self._progress_at != self.instant:
            calls.progress(self._states, 0, self._jobs, self._progress[0], self._progress[1])
            self._progress_at = self.instant

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

    @property
    def holder(self) -> np.ndarray:
        """The job that holds each GPU, or -1."""
        return self._state_field("holder", self._state.num_gpus)

    @property
    def heir(self) -> np.ndarray:
        """The job each GPU is reserved for, or -1."""
        return self._state_field("heir", self._state.num_gpus)

    @property
    def gpu_node(self) -> np.ndarray:
        """The node of each GPU."""
        return self._state_field("gpu_node", self._state.num_gpus)

    @property
    def free_memory_gib(self) -> np.ndarray:
        """Free memory of each GPU, GiB."""
        return self._state_field("free_memory", self._state.num_gpus)

    @property
    def node_gpus(self) -> np.ndarray:
        """GPUs of each node."""
        return self._state_field("node_gpus", self._state.num_nodes)

    @property
    def node_memory_gib(self) -> np.ndarray:
        """Memory of a GPU of each node, GiB."""
        return self._state_field("node_memory", self._state.num_nodes)

    @property
    def free_gpus(self) -> np.ndarray:
        """GPUs of each node that are neither held nor reserved."""
        return self._state_field("free", self._state.num_nodes)

    @property
    def free_cores(self) -> np.ndarray:
        """Free CPU cores of each node."""
        return self._state_field("free_cores", self._state.num_nodes)

    @property
    def node_cores(self) -> np.ndarray:
        """CPU cores of each node."""
        return self._state_field("node_cores", self._state.num_nodes)

    def place(self, job: int) -> Placement | None:
        """Return the free GPUs on which the scenario's rule would start a queued job, None if it does not fit."""
        count = calls.place(self._states, 0, self._jobs, job)
        return Placement(tuple(self._state.gpus[:count].tolist())) if count else None

    def gpus_of(self, job: int) -> list[int]:
        """Return the GPUs an active job holds."""
        gpus = []
        gpu = self._state.first_gpu[job]
        while gpu != NOBODY:
            gpus.append(int(gpu))
            gpu = self._state.next_gpu[gpu]
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
        after = self._states[1]
        seen = self._state.num_arrived
        moved = np.flatnonzero(after.phase[:seen] != self._state.phase[:seen])
        paused = moved[(after.phase[moved] == PAUSING) | (after.phase[moved] == QUEUED)]
        begun = np.setdiff1d(moved, paused)
        starts: list[Action] = []
        for job in begun.tolist():
            owner = after.heir if after.phase[job] == RESERVED else after.holder
            gpus = np.flatnonzero(owner[: after.num_gpus] == job)
            starts.append(Start(job, Placement(tuple(gpus.tolist()))))
        return starts + [Preempt(job) for job in paused.tolist()]


def adopt(states: np.recarray, e: int, jobs: np.ndarray, ranking: Ranking) -> None:
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
