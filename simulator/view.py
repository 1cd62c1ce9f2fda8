"""What a scheduler could honestly know now, read-only."""

from collections.abc import Sequence

import numpy as np

from gpu_cluster_gym.simulator import measurements
from gpu_cluster_gym.simulator.entities import Gpus, Jobs, Nodes
from gpu_cluster_gym.simulator.kernel.cluster.layout import LOADING, PAUSING, RUNNING
from gpu_cluster_gym.simulator.legality import why_not
from gpu_cluster_gym.simulator.next_moves import next_move, picked, place, start_first
from gpu_cluster_gym.simulator.policy import Action, Placement, Ranking, Start
from gpu_cluster_gym.simulator.source import Part, Source, look, source_of


class View:
    """The present state of an episode, without the future: jobs that have arrived, GPUs, nodes, and the clock.

    `view.jobs.num_gpus[job]`, `view.gpus.free_memory_gib[gpu]`, `view.nodes.free_cores[node]`: arrays by entity, which
    show the present and cannot be written. What is reached through attributes from here, the `base` of arrays included,
    holds no truth and can change nothing; to search the interpreter's memory, or private names of the simulator's
    modules, is not prevented.
    """

    __slots__ = ("__weakref__", "_gpus", "_jobs", "_nodes")

    def __init__(self, source: Source) -> None:
        """Look at a source."""
        look(self, source)
        self._gpus, self._nodes, self._jobs = Gpus(), Nodes(), Jobs()
        for entities in (self._gpus, self._nodes, self._jobs):
            look(entities, source)

    @property
    def jobs(self) -> Jobs:
        """Arrays over the jobs that have arrived."""
        source = source_of(self)
        if source.shown != source.arrived:
            source.shown, self._jobs = source.arrived, Jobs()
            look(self._jobs, source)
        return self._jobs

    def jobs_of(self, some: Sequence[int] | np.ndarray) -> Jobs:
        """Return what `jobs` shows, of some jobs alone and as it is now; ValueError if one has not arrived."""
        source, jobs = source_of(self), Jobs()
        look(jobs, Part(source, source.known(some)))
        return jobs

    @property
    def gpus(self) -> Gpus:
        """Arrays over the GPUs."""
        return self._gpus

    @property
    def nodes(self) -> Nodes:
        """Arrays over the nodes."""
        return self._nodes

    @property
    def now(self) -> float:
        """Seconds on the episode's clock."""
        return float(source_of(self).state.clock)

    @property
    def instant(self) -> int:
        """How many instants there have been."""
        return source_of(self).instant

    @property
    def rng(self) -> np.random.Generator:
        """Random numbers for a policy that draws."""
        return source_of(self).rng

    @property
    def nothing_pending(self) -> bool:
        """Whether nothing will happen by itself: no end, no arrival."""
        return source_of(self).nothing_pending

    @property
    def max_share(self) -> int:
        """How many jobs may hold a GPU at the same time."""
        return int(source_of(self).state.max_share)

    @property
    def cpu_limited(self) -> bool:
        """Whether cores are allocated, so that they may be changed; else every job has those it asks for."""
        return bool(source_of(self).state.cpu_limited)

    @property
    def bandwidth_limit_gbs(self) -> float:
        """GB/s that the memory of a node gives; infinite where bandwidth does not matter."""
        state = source_of(self).state
        return float(state.node_gbs) if state.bandwidth_binds else float("inf")

    @property
    def queue(self) -> np.ndarray:
        """The queued jobs by (submit, job)."""
        return source_of(self).queue

    @property
    def waiting(self) -> np.ndarray:
        """The queued jobs that were not paused, nor failed, at this very instant, by (submit, job)."""
        return source_of(self).waiting

    @property
    def startable(self) -> np.ndarray:
        """The queued jobs that the scenario's placement rule could start now, by (submit, job)."""
        return source_of(self).startable

    @property
    def running(self) -> np.ndarray:
        """The running jobs."""
        return source_of(self).active(RUNNING)

    @property
    def loading(self) -> np.ndarray:
        """The jobs that load before they run on."""
        return source_of(self).active(LOADING)

    @property
    def pausing(self) -> np.ndarray:
        """The jobs that still hold GPUs while they pause."""
        return source_of(self).active(PAUSING)

    @property
    def preemptible(self) -> np.ndarray:
        """The running jobs that were not started at this very instant."""
        return source_of(self).preemptible

    def type_speed(self, job: int) -> np.ndarray:
        """Return how fast a job computes on the GPUs of each node, over a V100, as profiled; 1 where all are alike."""
        source = self._arrived(job)
        speed: np.ndarray = source.jobs["type_speed"][job][self.nodes.gpu_type]
        return np.where(speed > 0, speed, 1.0)

    def profile(self, job: int) -> np.ndarray:
        """Return what a profiler measured of a job alone: rows of (workers, servers, on CPU, s of an iteration).

        A few shapes, each with a lognormal error of 5 % that is the same whenever it is read.
        """
        return measurements.profile(self._arrived(job), job)

    def place(
        self, job: int, cores: float | None = None, *, gpus: int | None = None, rule: str | None = None
    ) -> Placement | None:
        """Return where the scenario's rule would start a job on free GPUs, None if it does not fit.

        cores: for each GPU, or as a whole for a CPU job, instead of those it asks for. gpus: instead of those. rule:
        first_fit, best_fit or spread instead of the scenario's; ValueError for another.
        """
        return place(self._arrived(job), job, cores, gpus, rule)

    def start_first(self, order: Sequence[int] | np.ndarray, cores: float | None = None) -> Start | None:
        """Return the start of the first of these queued jobs that fits where the scenario's rule puts it, or None.

        cores: to feed each GPU of a job that has some, instead of those it asks for; its servers' come on top.
        ValueError if a job has not arrived.
        """
        return start_first(source_of(self), order, cores)

    def just_paused(self, job: int) -> bool:
        """Tell whether a queued job was paused, or failed, at this very instant, so that it may not start at it."""
        source = self._arrived(job)
        return bool(source.state.last_action_instant[job] == source.state.instant)

    def why_not(self, action: object) -> str | None:
        """Return why an action is illegal now, or None."""
        return why_not(source_of(self), action)

    def can_hold(self, job: int) -> np.ndarray:
        """Tell of each node whether its GPUs are large enough for a job alone; nothing else may be started there."""
        able: np.ndarray = self.nodes.gpu_memory_gib >= self._arrived(job).jobs["gpu_memory_gib"][job]
        return able

    def gpus_of(self, job: int) -> list[int]:
        """Return the GPUs an active job holds."""
        return self._arrived(job).gpus_of(job)

    def next_move(self, ranking: Ranking) -> Action:
        """Return what is left of a ranking's pass at this instant: its preemptions, then its starts, then Wait."""
        return next_move(source_of(self), honest(ranking))

    def pick(self, job: int) -> list[Action]:
        """Return the moves by which a queued job starts, victims paused for it if it needs them; the last first.

        The victims are found as for `xion_threshold`; there are no moves where the job neither fits nor has victims.
        ValueError if the job is not queued.
        """
        return picked(self._arrived(job), job)

    def _arrived(self, job: int) -> Source:
        """Return the source if a job has arrived; else ValueError."""
        source = source_of(self)
        source.check(job)
        return source


def honest(ranking: Ranking) -> Ranking:
    """Return a ranking that needs no truth; ValueError for one that does."""
    if ranking.is_oracle:
        raise ValueError(
            f"a ranking by {ranking.key!r} is told the truth, which a view does not show: such a policy is a Ranking "
            "itself, in a module whose name ends in _oracle"
        )
    return ranking
