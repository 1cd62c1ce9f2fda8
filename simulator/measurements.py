"""Measurements that a view shows, with their errors, and quantities derived from several fields."""

from functools import cache

import numpy as np

from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    DRAINING,
    LOADING,
    MAX_SERVERS,
    PAUSING,
    RESERVED,
    RUNNING,
    SERVER_CORES,
)
from gpu_cluster_gym.simulator.kernel.cluster.readings import BANDWIDTH_ERROR, BUSY_ERROR_S
from gpu_cluster_gym.simulator.source import Source
from gpu_cluster_gym.traces import stream

PROFILE_ERROR = 0.05  # standard deviation of the log of a profiled iteration: our assumption


def is_cpu_job(source: Source) -> np.ndarray:
    """Whether a job has no GPU."""
    on_cpu: np.ndarray = source.declared("num_gpus") == 0
    return on_cpu


def attained_s(source: Source) -> np.ndarray:
    """Seconds of progress so far."""
    attained: np.ndarray = source.progress[0].copy()
    return attained


def remaining_s(source: Source) -> np.ndarray:
    """Seconds of run time left: max(estimate - attained, 0.2 x attained, 15); exact with exact estimates."""
    remaining: np.ndarray = source.progress[1].copy()
    return remaining


def expected_s(source: Source) -> np.ndarray:
    """Run time of a job, s, predicted from its estimate and similar jobs of its batch; the true one once it has ended.

    Without a `run_time_predictor` it is the current estimate. See `simulator.kernel.union.estimates`.
    """
    seconds: np.ndarray = source.expected[0].copy()
    return seconds


def expected_remaining_s(source: Source) -> np.ndarray:
    """Predicted seconds of run time left; `remaining_s` without a `run_time_predictor`."""
    seconds: np.ndarray = source.expected[1].copy()
    return seconds


def expected_cores(source: Source) -> np.ndarray:
    """Cores that each GPU of a job needs, predicted from earlier jobs of similar profile, its batch and its readings.

    Without a `run_time_predictor`, or without GPUs, it is the number of cores the job asks for.
    """
    cores: np.ndarray = source.expected[2].copy()
    return cores


def busy_share_alone(source: Source) -> np.ndarray:
    """Busy share of a job's GPUs in the readings that show its need of cores; 0 with less than a minute of readings.

    Readings count while the job has its GPUs alone, in the shape it asks for, with enough link and host-memory
    bandwidth: those below 96 % busy, or, with less than a minute of them, those above.
    """
    share: np.ndarray = source.readings[0].copy()
    return share


def cores_when_busy(source: Source) -> np.ndarray:
    """Cores per GPU that would keep a job's GPUs busy for 96 % of the time by `busy_share_alone`; nan without readings.

    The job needs no more than these cores, and no fewer where `busy_share_alone` is below 96 %.
    """
    cores: np.ndarray = source.readings[1].copy()
    return cores


def is_predictable(source: Source) -> np.ndarray:
    """Whether a job's estimate has become accurate; when it will is hidden."""
    good: np.ndarray = source.present("predictable") > 0
    return good


def estimate_s(source: Source) -> np.ndarray:
    """Estimated run time of a job in the shape it asks for: profiled, then predicted once the job is predictable."""
    later, first = source.declared("predicted_duration_s"), source.declared("profiled_duration_s")
    return np.where(is_predictable(source), later, first)


def workers_now(source: Source) -> np.ndarray:
    """Workers of a job: held, or promised while it waits for GPUs, or else asked for."""
    return _shape(source, "workers")


def servers_now(source: Source) -> np.ndarray:
    """Parameter servers of a job: held, promised, or else asked for."""
    return _shape(source, "servers")


def gpus_now(source: Source) -> np.ndarray:
    """GPUs that an active job holds, or is promised while it waits for them; 0 for other jobs."""
    phase = source.present("phase")
    return np.where((phase >= RESERVED) & (phase <= PAUSING), _shape(source, "width"), 0)


def server_cores(source: Source) -> np.ndarray:
    """Cores per GPU that a job's parameter servers take of those it holds, or else asks for."""
    workers, servers, gpus = (_shape(source, what) for what in ("workers", "servers", "width"))
    return np.where((gpus > 0) & (gpus == workers), SERVER_CORES * servers / np.maximum(gpus, 1), 0.0)


def gpu_seconds(source: Source) -> np.ndarray:
    """GPU-seconds that a job has run so far, in any shape."""
    ran = source.present("run_gpu_s") + source.present("lost_gpu_s")
    served: np.ndarray = ran + source.present("width") * _since_banked(source)
    return served


def core_seconds(source: Source) -> np.ndarray:
    """CPU core-seconds that a job has held so far."""
    held = cores_now(source) * np.maximum(source.present("width"), 1)
    total: np.ndarray = source.present("core_s") + held * (source.state.clock - source.present("counted"))
    return total


def gpu_utilization(source: Source) -> np.ndarray:
    """Share of its GPUs' time that a job alone keeps them busy, as profiled; 0 for a CPU job."""
    active_ms = source.declared("profiled_active_ms")
    whole = active_ms + source.declared("profiled_idle_ms")
    share: np.ndarray = active_ms / np.where(whole > 0, whole, 1.0)
    return share


def cores_now(source: Source) -> np.ndarray:
    """CPU cores an active job holds per GPU, or in total without GPUs; 0 for other jobs."""
    phase = source.present("phase")
    return np.where((phase >= LOADING) & (phase <= PAUSING), source.present("core_count"), 0.0)


def ran_s(source: Source) -> np.ndarray:
    """Seconds that a job has run since it last started from scratch, at any speed."""
    seconds = np.empty(len(source.listed))
    calls.ran(source.states, 0, source.listed, seconds)
    return seconds


def busy_s(source: Source) -> np.ndarray:
    """Seconds that a job's GPUs were busy with it so far, mean over its GPUs, as read by a monitor.

    The difference of two readings over the seconds between them is the utilisation in between. The error of a reading
    has a standard deviation of BUSY_ERROR_S.
    """
    busy: np.ndarray = source.present("busy_s") + source.present("efficiency") * _since_banked(source)
    return busy + BUSY_ERROR_S * source.errors("busy_s") * (busy > 0)


def drawn_gbs(source: Source) -> np.ndarray:
    """GB/s of host memory that a running job draws per GPU, or in total without GPUs."""
    on_cpu = is_cpu_job(source)
    asked = np.maximum(source.declared("cores_each"), 1e-9)
    cores = np.where(on_cpu, source.present("core_count") / asked, 1.0)
    draws = (source.present("phase") == RUNNING) & (on_cpu | (source.present("width") > 0))
    each = np.empty(len(source.listed))
    calls.drawn_by_each(source.states, 0, source.jobs, source.listed, each)
    drawn = each * cores * source.present("throttle") * draws
    read: np.ndarray = drawn * (1.0 + BANDWIDTH_ERROR * source.errors("drawn_gbs"))
    return read


def loading_s(source: Source) -> np.ndarray:
    """Seconds without progress at a job's start: it loads its checkpoint, or starts up."""
    seconds = np.empty(len(source.listed))
    calls.loading(source.states, 0, source.jobs, source.listed, seconds)
    return seconds


def must_load(source: Source) -> np.ndarray:
    """Whether a pause has saved a job's progress, so that it must load it at its next start."""
    saved: np.ndarray = source.present("saved") > 0
    return saved


def jobs_on_gpus(source: Source) -> np.ndarray:
    """Jobs on each GPU in its `max_share` slots, -1 in empty ones: (GPUs, slots)."""
    return source.jobs_on_gpus.copy()


def unclaimed_memory_gib(source: Source) -> np.ndarray:
    """Memory of each GPU less the profiled memory of the jobs on it, GiB."""
    here = source.jobs_on_gpus
    taken = np.where(here >= 0, source.declared("profiled_memory_gib")[here], 0.0).sum(axis=1)
    node = source.state.gpu_node[: source.state.num_gpus]
    unclaimed: np.ndarray = source.state.node_memory[node] - taken
    return unclaimed


def down_at_s(source: Source) -> np.ndarray:
    """Seconds on the clock at which a draining node goes down; infinite for other nodes. Repair times are not known."""
    nodes = source.state.num_nodes
    return np.where(source.state.closed[:nodes] == DRAINING, source.state.until[:nodes], np.inf)


def node_drawn_gbs(source: Source) -> np.ndarray:
    """GB/s that running jobs draw from the memory of each node after the actions of this instant."""
    total = np.zeros(source.state.num_nodes)
    drawn, node = drawn_gbs(source), source.present("node_of")
    on_cpu = np.flatnonzero((node >= 0) & (drawn > 0))
    np.add.at(total, node[on_cpu], drawn[on_cpu])
    here = source.jobs_on_gpus
    gpus, slots = np.nonzero(here >= 0)
    np.add.at(total, source.state.gpu_node[gpus], drawn[here[gpus, slots]])
    return total


def _shape(source: Source, what: str) -> np.ndarray:
    """Return a dimension of each job's shape: the promised one while it waits for GPUs, else the current one."""
    coming = (source.present("phase") == RESERVED) | (source.present("moves") > 0)
    return np.where(coming, source.present(f"next_{what}"), source.present(what))


def quota(source: Source) -> np.ndarray:
    """GPUs guaranteed to each tenant."""
    guaranteed: np.ndarray = source.state.quota[: source.known_tenants].copy()
    return guaranteed


def tenant_gpus(source: Source) -> np.ndarray:
    """GPUs that each tenant's jobs hold, shared ones in full for each job, and free ones reserved for them."""
    held: np.ndarray = source.state.tenant_gpus[: source.known_tenants].copy()
    return held


def _since_banked(source: Source) -> np.ndarray:
    """Return the seconds since a running job's progress was banked; 0 for others."""
    running = source.present("phase") == RUNNING
    return np.where(running, source.state.clock - source.present("banked"), 0.0)


def profiled(states: np.ndarray, jobs: np.ndarray, job: int) -> np.ndarray:
    """Return a profiler's measurements of a job of the first record; see `View.profile`."""
    row = jobs[job]
    shapes = profiled_shapes(
        int(row["min_workers"]),
        int(row["num_gpus"]),
        int(row["max_workers"]),
        has_servers=bool(row["servers"]),
        has_places=bool(row["cpu_slowdown"] > 0),
    )
    seconds = np.empty(len(shapes))
    calls.iterations(states, 0, jobs, job, shapes, seconds)
    errors = stream(states["seed"][0], "profile", job).standard_normal(len(shapes))
    return np.column_stack([shapes, seconds * np.exp(PROFILE_ERROR * errors)])


@cache
def profiled_shapes(least: int, asked: int, most: int, *, has_servers: bool, has_places: bool) -> np.ndarray:
    """Return the shapes in which a job is profiled: rows of (workers, servers, on CPU)."""
    workers = sorted({w for w in (1, 2, 4, 8, 16, asked, most) if least <= w <= most})
    servers = [p for p in (1, 2, 4, 8) if p <= MAX_SERVERS] if has_servers else [0]
    places = (0, 1) if has_places else (0,)
    return np.array([(w, p, on_cpu) for w in workers for p in servers for on_cpu in places])
