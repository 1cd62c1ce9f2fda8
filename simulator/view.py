"""A scheduler's read-only view of an episode: arrays over jobs, GPUs and nodes, without the future."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from gpu_cluster_gym.simulator import measurements
from gpu_cluster_gym.simulator.kernel.cluster.layout import BORROWING, LOADING, PAUSING, RUNNING
from gpu_cluster_gym.simulator.policy import Action, Placement, Ranking, Start, fixed
from gpu_cluster_gym.simulator.shadow import snapshot
from gpu_cluster_gym.simulator.source import Part, Source, attach, source_of
from gpu_cluster_gym.traces import COLUMNS, did_you_mean


class Entities:
    """A table of arrays over the jobs that have arrived, over GPUs, or over nodes."""

    count: str
    """Field of the record that holds their number."""

    def __getattr__(self, name: str) -> np.ndarray:
        """Refuse an unknown name; AttributeError lists the known ones."""
        known = sorted(name for name in dir(type(self)) if not name.startswith("_"))
        what = type(self).__name__.lower()
        raise AttributeError(
            f"{what} have no field {name!r}: expected one of {', '.join(known)}{did_you_mean(name, known)}"
        )


class Column:
    """A field of the jobs, or of the record over jobs, GPUs or nodes, shown as a copy.

    The copy is made once for each table; a table is valid until the simulation advances.
    """

    def __init__(self, origin: Literal["job", "state"], field: str, meaning: str) -> None:
        """Show a field of the jobs (`job`) or of the record (`state`)."""
        self.origin, self.field, self.name = origin, field, field
        self.__doc__ = meaning

    def __set_name__(self, owner: type, name: str) -> None:
        """Store the attribute's name."""
        self.name = name

    def __get__(self, entities: Entities | None, owner: type | None = None) -> Any:
        """Return the array."""
        if entities is None:
            return self
        source = source_of(entities)
        if isinstance(source, Part):
            return (source.declared if self.origin == "job" else source.present)(self.field)
        if self.origin == "job":
            shown = source.shadow.column(self.field, source.arrived)
        else:
            shown = snapshot(source.state.array(self.field)[: getattr(source.state, entities.count)])
            source.copied.append((entities.__dict__, self.name))
        entities.__dict__[self.name] = shown
        return shown


class Reading:
    """A measurement: an array that a function computes at each access."""

    def __init__(self, function: Callable[[Source], np.ndarray]) -> None:
        """Take the function, and its docstring."""
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, entities: Entities | None, owner: type | None = None) -> Any:
        """Return the current array."""
        return self if entities is None else self.function(source_of(entities))


class Jobs(Entities):
    """Arrays over the jobs that have arrived: their profile and request, their state, their measurements.

    Profiles may be wrong and measurements have errors; both are the same for every policy. Every column of the job
    table that policies may see (`traces.COLUMNS`) is here by its name.
    """

    count = "num_arrived"

    user = Column(
        "job", "user", "User of each job, as a number; the same for all jobs where the trace has no users."
    )
    cores_each = Column(
        "job", "cores_each", "Requested CPU cores per GPU, servers included; in total for a job without GPUs."
    )
    phase = Column("state", "phase", "Phase of a job, a number of `simulator.vocabulary`.")
    phase_began_s = Column("state", "phase_began", "Time at which a job's current phase began, s.")
    preemptions = Column("state", "preemptions", "Number of times that a job has been paused.")
    oom_restarts = Column("state", "oom_restarts", "Number of times that a job has run out of memory.")
    resizes = Column(
        "state", "resizes", "Number of times that a job has been restarted to change its GPUs or shape."
    )
    failures = Column("state", "failures", "Number of times that a job has failed, by itself or with a node.")
    throttle = Column(
        "state", "throttle", "Share of full speed to which a CPU job is throttled; 1 for a job that is not."
    )
    node = Column("state", "node_of", "Node of an active job that has no GPU, else -1.")
    tenant = Column("state", "tenant", "Tenant of a job, as a row of `View.tenants`; 0 without tenants.")
    is_cpu_job = Reading(measurements.is_cpu_job)
    is_predictable = Reading(measurements.is_predictable)
    estimate_s = Reading(measurements.estimate_s)
    attained_s = Reading(measurements.attained_s)
    remaining_s = Reading(measurements.remaining_s)
    expected_s = Reading(measurements.expected_s)
    expected_remaining_s = Reading(measurements.expected_remaining_s)
    expected_cores = Reading(measurements.expected_cores)
    busy_share_alone = Reading(measurements.busy_share_alone)
    cores_when_busy = Reading(measurements.cores_when_busy)
    workers_now = Reading(measurements.workers_now)
    servers_now = Reading(measurements.servers_now)
    gpus_now = Reading(measurements.gpus_now)
    cores_now = Reading(measurements.cores_now)
    server_cores = Reading(measurements.server_cores)
    gpu_seconds = Reading(measurements.gpu_seconds)
    core_seconds = Reading(measurements.core_seconds)
    gpu_utilization = Reading(measurements.gpu_utilization)
    ran_s = Reading(measurements.ran_s)
    busy_s = Reading(measurements.busy_s)
    drawn_gbs = Reading(measurements.drawn_gbs)
    loading_s = Reading(measurements.loading_s)
    must_load = Reading(measurements.must_load)


for _column in COLUMNS:
    if _column.simulated and _column.shown:
        setattr(
            Jobs,
            _column.name,
            Column("job", _column.name, f"{_column.meaning[0].upper()}{_column.meaning[1:]}."),
        )


class Gpus(Entities):
    """Arrays over the GPUs: node, jobs and free memory of each."""

    count = "num_gpus"

    node = Column("state", "gpu_node", "Node of each GPU.")
    first_owner = Column("state", "first_owner", "Job that has held each GPU longest, or -1.")
    num_jobs = Column("state", "num_jobs_on", "Number of jobs that hold each GPU.")
    reserved_for = Column(
        "state",
        "reserved_for",
        "Job that each GPU is reserved for; -1 for none, -2 where the node is closed.",
    )
    free_memory_gib = Column("state", "free_memory", "Measured free memory of each GPU, GiB.")
    unclaimed_memory_gib = Reading(measurements.unclaimed_memory_gib)
    jobs = Reading(measurements.jobs_on_gpus)


class Nodes(Entities):
    """Arrays over the nodes: GPUs and cores of each, and how many are free."""

    count = "num_nodes"

    num_gpus = Column("state", "node_gpus", "GPUs of each node.")
    gpu_memory_gib = Column("state", "node_memory", "Memory of a GPU of each node, GiB.")
    gpu_type = Column(
        "state",
        "node_type",
        "Type of each node's GPUs, an index of `simulator.vocabulary.GPU_TYPES`; 0 without GPU types.",
    )
    cores = Column("state", "node_cores", "CPU cores of each node.")
    free_gpus = Column("state", "free", "GPUs of each node that are neither held nor reserved.")
    free_cores = Column("state", "free_cores", "Free CPU cores of each node.")
    unreserved_cores = Column(
        "state", "unreserved_cores", "Free CPU cores less one for each GPU without a job."
    )
    closed = Column("state", "closed", "Whether jobs may start on a node: OPEN, DRAINING or DOWN.")
    down_at_s = Reading(measurements.down_at_s)
    drawn_gbs = Reading(measurements.node_drawn_gbs)


class Tenants(Entities):
    """Arrays over the tenants: quota and GPUs of each; empty without quotas.

    A tenant without a quota is not shown before its first job arrives.
    """

    count = "num_tenants"

    quota = Reading(measurements.quota)
    num_gpus = Reading(measurements.tenant_gpus)


class View:
    """The current state of an episode, without the future: jobs that have arrived, GPUs, nodes, and the clock.

    `view.jobs.num_gpus[job]`, `view.gpus.free_memory_gib[gpu]`, `view.nodes.free_cores[node]` are read-only copies;
    read them again after an action. Nothing that attributes lead to from here, the `base` of arrays and the memory
    around them included, holds the truth or can change the simulation. Searching the interpreter's memory, or private
    names of the simulator's modules, is not prevented (see SECURITY.md).
    """

    __slots__ = ("__weakref__", "_gpus", "_jobs", "_nodes", "_tenants")

    def __init__(self, source: Source) -> None:
        """Read from a source."""
        attach(self, source)
        self._gpus, self._nodes, self._jobs, self._tenants = Gpus(), Nodes(), Jobs(), Tenants()
        for entities in (self._gpus, self._nodes, self._jobs, self._tenants):
            attach(entities, source)
        source.of_jobs = self._jobs.__dict__

    @property
    def jobs(self) -> Jobs:
        """Arrays over the jobs that have arrived."""
        source_of(self).forget_old_copies()
        return self._jobs

    def jobs_of(self, some: Sequence[int] | np.ndarray) -> Jobs:
        """Return copies of the arrays of `jobs` for some jobs; ValueError if one has not arrived."""
        source, jobs = source_of(self), Jobs()
        attach(jobs, Part(source, source.known(some)))
        return jobs

    @property
    def gpus(self) -> Gpus:
        """Arrays over the GPUs."""
        source_of(self).forget_old_copies()
        return self._gpus

    @property
    def nodes(self) -> Nodes:
        """Arrays over the nodes."""
        source_of(self).forget_old_copies()
        return self._nodes

    @property
    def tenants(self) -> Tenants:
        """Arrays over the tenants."""
        source_of(self).forget_old_copies()
        return self._tenants

    @property
    def borrowing(self) -> str:
        """Rule for GPUs beyond a quota: none, idle or reclaim."""
        return BORROWING[int(source_of(self).state.borrowing)]

    @property
    def now(self) -> float:
        """Seconds on the episode's clock."""
        return float(source_of(self).state.clock)

    @property
    def instant(self) -> int:
        """Number of instants so far."""
        return source_of(self).instant

    @property
    def rng(self) -> np.random.Generator:
        """Random numbers for policies that draw."""
        return source_of(self).rng

    @property
    def nothing_pending(self) -> bool:
        """Whether no event is due: no completion, no arrival."""
        return source_of(self).nothing_pending

    @property
    def max_share(self) -> int:
        """Maximum number of jobs on a GPU."""
        return int(source_of(self).state.max_share)

    @property
    def cpu_limited(self) -> bool:
        """Whether cores are allocated and can be changed; else every job has the cores it asks for."""
        return bool(source_of(self).state.cpu_limited)

    @property
    def bandwidth_limit_gbs(self) -> float:
        """GB/s of a node's host memory; infinite where bandwidth does not matter."""
        state = source_of(self).state
        return float(state.node_gbs) if state.bandwidth_binds else float("inf")

    @property
    def queue(self) -> np.ndarray:
        """Queued jobs by (submit, job)."""
        return source_of(self).queue

    @property
    def waiting(self) -> np.ndarray:
        """Queued jobs that were neither paused nor failed at this very instant, by (submit, job)."""
        return source_of(self).waiting

    @property
    def startable(self) -> np.ndarray:
        """Queued jobs that the scenario's placement rule could start now, by (submit, job)."""
        return source_of(self).startable

    @property
    def running(self) -> np.ndarray:
        """Running jobs."""
        return source_of(self).active(RUNNING)

    @property
    def loading(self) -> np.ndarray:
        """Jobs that load a checkpoint, or start up, before they run."""
        return source_of(self).active(LOADING)

    @property
    def pausing(self) -> np.ndarray:
        """Jobs that still hold GPUs while they pause."""
        return source_of(self).active(PAUSING)

    @property
    def preemptible(self) -> np.ndarray:
        """Running jobs that did not start at this very instant."""
        return source_of(self).preemptible

    def type_speed(self, job: int) -> np.ndarray:
        """Return a job's profiled compute speed on the GPUs of each node relative to a V100; 1 where all are alike."""
        source, job = self._arrived(job)
        speed: np.ndarray = source.jobs["type_speed"][job][self.nodes.gpu_type]
        return np.where(speed > 0, speed, 1.0)

    def profile(self, job: int) -> np.ndarray:
        """Return a profiler's measurements of a job alone: rows of (workers, servers, on CPU, s per iteration).

        The rows cover a few shapes. Each has a lognormal error of 5 %, drawn once.
        """
        source, job = self._arrived(job)
        return measurements.profiled(source.states, source.jobs, job)

    def place(
        self, job: int, cores: float | None = None, *, gpus: int | None = None, rule: str | None = None
    ) -> Placement | None:
        """Return where the scenario's rule would start a job on free GPUs, None if it does not fit.

        cores: per GPU, or in total for a CPU job, in place of the cores it asks for
        gpus: in place of the number of GPUs it asks for
        rule: first_fit, best_fit or spread, in place of the scenario's; ValueError for another name
        """
        source, job = self._arrived(job)
        return source.place(job, cores, gpus, rule)

    def place_claim(self, job: int) -> Placement | None:
        """Return GPUs for `Start(job, placement, claim=True)`, those expected to be released first, or None.

        None where too few GPUs are left that no other job has reserved, or the tenant's quota forbids the start.
        ValueError if the job has not arrived.
        """
        source, job = self._arrived(job)
        return source.place_claim(job)

    def start_first(self, order: Sequence[int] | np.ndarray, cores: float | None = None) -> Start | None:
        """Return the start of the first of these queued jobs that fits under the scenario's rule, or None.

        cores: per GPU of a job that has GPUs, in place of the cores it asks for; its servers' cores are added.
        ValueError if a job has not arrived.
        """
        return source_of(self).start_first(order, cores)

    def just_paused(self, job: int) -> bool:
        """Return whether a queued job was paused, or failed, at this very instant and so may not start yet."""
        source, job = self._arrived(job)
        return bool(source.state.last_action_instant[job] == source.state.instant)

    def why_not(self, action: object) -> str | None:
        """Return why an action is illegal now, or None."""
        return source_of(self).why_not(action)

    def can_hold(self, job: int) -> np.ndarray:
        """Return for each node whether a job may use it, and its GPUs have the memory for the job alone.

        It may not start on others.
        """
        source, job = self._arrived(job)
        able: np.ndarray = self.nodes.gpu_memory_gib >= source.jobs["gpu_memory_gib"][job]
        if barred := int(source.jobs["barred"][job]):
            groups = source.state.array("node_group")[: len(able)]
            able &= (barred >> groups) & 1 == 0
        return able

    def gpus_of(self, job: int) -> list[int]:
        """Return the GPUs an active job holds."""
        source, job = self._arrived(job)
        return source.gpus_of(job)

    def next_move(self, ranking: Ranking) -> Action:
        """Return the next action of a ranking's pass at this instant: preemptions first, then starts, then Wait."""
        source = source_of(self)
        if source.ranked is not ranking:
            source.ranked, source.fixed = ranking, fixed(ranking)
        return source.next_move(source.fixed)

    def pick(self, job: int) -> list[Action]:
        """Return the actions that start a queued job, preemptions included, in reverse order: pop them from the end.

        Victims are chosen as by `xion_threshold`. The list is empty where the job neither fits nor has victims.
        ValueError if the job is not queued.
        """
        source, job = self._arrived(job)
        return source.pick(job)

    def _arrived(self, job: int) -> tuple[Source, int]:
        """Return the source, and a job as a built-in integer; ValueError if it has not arrived."""
        source = source_of(self)
        return source, source.check(job)
