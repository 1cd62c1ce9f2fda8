"""What a view shows of jobs, of GPUs and of nodes."""

from gpu_cluster_gym.simulator import measurements
from gpu_cluster_gym.simulator.columns import Column, Entities, Reading
from gpu_cluster_gym.traces import COLUMNS


class Jobs(Entities):
    """Of each job that has arrived: what its profile and its user say, how it is doing, what is measured of it.

    What a profiler tells of a job may be wrong, what is measured has an error; both hold for every policy alike. Every
    column of the job table that policies may see (`traces.COLUMNS`) is here by its name.
    """

    count = "num_arrived"

    user = Column("job", "user", "Number of its user; all the same where the trace does not tell.")
    cores_each = Column(
        "job", "cores_each", "CPU cores asked for each GPU, servers included; as a whole without GPUs."
    )
    phase = Column("state", "phase", "Phase of a job, a number of `simulator.vocabulary`.")
    phase_began_s = Column("state", "phase_began", "When a job's present phase began.")
    preemptions = Column("state", "preemptions", "How often a job has been paused.")
    oom_restarts = Column("state", "oom_restarts", "How often a job has run out of memory.")
    resizes = Column("state", "resizes", "How often a job has been restarted to hold other GPUs.")
    failures = Column("state", "failures", "How often a job has failed by itself or with a node.")
    throttle = Column("state", "throttle", "Level of a CPU job; 1 is none.")
    node = Column("state", "node_of", "Node of an active job that has no GPU, else -1.")
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
    """Of each GPU: where it is, which jobs hold it, and what of its memory is free."""

    count = "num_gpus"

    node = Column("state", "gpu_node", "The node of each GPU.")
    first_owner = Column("state", "first_owner", "The job that has held each GPU longest, or -1.")
    num_jobs = Column("state", "num_jobs_on", "How many jobs hold each GPU.")
    reserved_for = Column(
        "state", "reserved_for", "The job each GPU is kept for; -1 for none, -2 where the node is closed."
    )
    free_memory_gib = Column("state", "free_memory", "Measured free memory of each GPU, GiB.")
    unclaimed_memory_gib = Reading(measurements.unclaimed_memory_gib)
    jobs = Reading(measurements.jobs_on_gpus)


class Nodes(Entities):
    """Of each node: its GPUs and cores, and what of them is free."""

    count = "num_nodes"

    num_gpus = Column("state", "node_gpus", "GPUs of each node.")
    gpu_memory_gib = Column("state", "node_memory", "Memory of a GPU of each node, GiB.")
    gpu_type = Column("state", "node_type", "Type of its GPUs, a number of `simulator.vocabulary.GPU_TYPES`.")
    cores = Column("state", "node_cores", "CPU cores of each node.")
    free_gpus = Column("state", "free", "GPUs of each node that are neither held nor reserved.")
    free_cores = Column("state", "free_cores", "Free CPU cores of each node.")
    unreserved_cores = Column(
        "state", "unreserved_cores", "Free CPU cores but for one for each GPU without a job."
    )
    closed = Column("state", "closed", "Whether jobs may start on a node: OPEN, DRAINING or DOWN.")
    down_at_s = Reading(measurements.down_at_s)
    drawn_gbs = Reading(measurements.node_drawn_gbs)
