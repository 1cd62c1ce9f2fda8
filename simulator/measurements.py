"""What a view tells that no field says: what is measured, with its error, and what follows from several fields."""

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

PROFILE_ERROR = 0.05  # deviation of the logarithm of a profiled iteration: our assumption


def is_cpu_job(source: Source) -> np.ndarray:
    """Whether a job has no GPU."""
    on_cpu: np.ndarray = source.declared("num_gpus") == 0
    return on_cpu


def attained_s(source: Source) -> np.ndarray:
    """Seconds of progress of a job so far."""
    attained: np.ndarray = source.progress[0].copy()
    return attained


def remaining_s(source: Source) -> np.ndarray:
    """Seconds of run time left: max(estimate - attained, 0.2 x attained, 15), exact with exact estimates."""
    remaining: np.ndarray = source.progress[1].copy()
    return remaining


def expected_s(source: Source) -> np.ndarray:
    """Run time of a job, expected from its estimate and the like jobs of its batch; of one that has ended, its own.

    The estimate, or what has come in its place, where the scenario names no `history`; see
    `simulator.kernel.rule.history`.
    """
    seconds: np.ndarray = source.believed[0].copy()
    return seconds


def expected_remaining_s(source: Source) -> np.ndarray:
    """Seconds of run time left, expected likewise; `remaining_s` where the scenario names no `history`."""
    seconds: np.ndarray = source.believed[1].copy()
    return seconds


def expected_cores(source: Source) -> np.ndarray:
    """Cores that each GPU of a job needs, expected from earlier jobs of like profile, its batch and its own readings.

    Those it asks for where the scenario names no `history`, or where it has no GPUs.
    """
    cores: np.ndarray = source.believed[2].copy()
    return cores


def busy_share_alone(source: Source) -> np.ndarray:
    """Share of the time in which a job's GPUs were busy that were read for its need of cores; 0 where not for a minute.

    They are read where it has them alone, in the shape it asks for, and neither links nor bandwidth of host memory are
    short: while they are busy for less than 96 %; where that was for less than a minute, while they are so for more.
    """
    share: np.ndarray = source.readings[0].copy()
    return share


def cores_when_busy(source: Source) -> np.ndarray:
    """Cores that would keep a job's GPUs busy for 96 % of the time, by that reading; nan where there is none.

    It needs no more than these, and no less where `busy_share_alone` is lower.
    """
    cores: np.ndarray = source.readings[1].copy()
    return cores


def is_predictable(source: Source) -> np.ndarray:
    """Whether a job's estimate has become good; when it will is not told."""
    good: np.ndarray = source.present("predictable") > 0
    return good


def estimate_s(source: Source) -> np.ndarray:
    """Run time of a job in the shape it asks for, as profiled, or once it is predictable as predicted."""
    later, first = source.declared("predicted_duration_s"), source.declared("profiled_duration_s")
    return np.where(is_predictable(source), later, first)


def workers_now(source: Source) -> np.ndarray:
    """Workers that a job has, or will have where it waits for GPUs, or else asks for."""
    return _shape(source, "workers")


def servers_now(source: Source) -> np.ndarray:
    """Parameter servers that a job has, will have, or asks for."""
    return _shape(source, "servers")


def gpus_now(source: Source) -> np.ndarray:
    """GPUs that an active job holds, or one that waits for GPUs will; 0 for others."""
    phase = source.present("phase")
    return np.where((phase >= RESERVED) & (phase <= PAUSING), _shape(source, "width"), 0)


def server_cores(source: Source) -> np.ndarray:
    """Cores beside each GPU that are its job's parameter servers', of those it holds or else asks for."""
    workers, servers, gpus = (_shape(source, what) for what in ("workers", "servers", "width"))
    return np.where((gpus > 0) & (gpus == workers), SERVER_CORES * servers / np.maximum(gpus, 1), 0.0)


def gpu_seconds(source: Source) -> np.ndarray:
    """GPU-seconds that a job has run so far, in whatever shape."""
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
    """CPU cores an active job holds for each GPU, or as a whole if it has none; 0 for others."""
    phase = source.present("phase")
    return np.where((phase >= LOADING) & (phase <= PAUSING), source.present("core_count"), 0.0)


def ran_s(source: Source) -> np.ndarray:
    """Seconds that a job has run since it last began from nothing, whatever its speed."""
    seconds = np.empty(len(source.listed))
    calls.ran(source.states, 0, source.listed, seconds)
    return seconds


def busy_s(source: Source) -> np.ndarray:
    """Seconds that a job's GPUs were busy with it so far, the mean over them, as a monitor reads it.

    The difference of two readings over the seconds between them is the utilisation in between; see BUSY_ERROR_S.
    """
    busy: np.ndarray = source.present("busy_s") + source.present("efficiency") * _since_banked(source)
    return busy + BUSY_ERROR_S * source.errors("busy_s") * (busy > 0)


def drawn_gbs(source: Source) -> np.ndarray:
    """GB/s of host memory that a running job draws on each of its GPUs' behalf, as a whole if it has none."""
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
    """Seconds that a job holds GPUs without progress when it starts: it loads what was saved, or starts up."""
    seconds = np.empty(len(source.listed))
    calls.loading(source.states, 0, source.jobs, source.listed, seconds)
    return seconds


def must_load(source: Source) -> np.ndarray:
    """Whether a pause has saved progress of a job, so that it must load when it starts again."""
    saved: np.ndarray = source.present("saved") > 0
    return saved


def jobs_on_gpus(source: Source) -> np.ndarray:
    """Jobs on each GPU, one in each of `max_share` slots, -1 where one is empty: (GPUs, slots)."""
    return source.jobs_on_gpus.copy()


def unclaimed_memory_gib(source: Source) -> np.ndarray:
    """Memory of each GPU less what the jobs on it take as profiled, GiB."""
    here = source.jobs_on_gpus
    taken = np.where(here >= 0, source.declared("profiled_memory_gib")[here], 0.0).sum(axis=1)
    node = source.state.gpu_node[: source.state.num_gpus]
    unclaimed: np.ndarray = source.state.node_memory[node] - taken
    return unclaimed


def down_at_s(source: Source) -> np.ndarray:
    """When a draining node goes down; infinite for others: how long a repair takes is not known."""
    nodes = source.state.num_nodes
    return np.where(source.state.closed[:nodes] == DRAINING, source.state.until[:nodes], np.inf)


def node_drawn_gbs(source: Source) -> np.ndarray:
    """GB/s that running jobs draw from the memory of each node, as they do when time goes on from here."""
    total = np.zeros(source.state.num_nodes)
    drawn, node = drawn_gbs(source), source.present("node_of")
    on_cpu = np.flatnonzero((node >= 0) & (drawn > 0))
    np.add.at(total, node[on_cpu], drawn[on_cpu])
    here = source.jobs_on_gpus
    gpus, slots = np.nonzero(here >= 0)
    np.add.at(total, source.state.gpu_node[gpus], drawn[here[gpus, slots]])
    return total


def _shape(source: Source, what: str) -> np.ndarray:
    coming = (source.present("phase") == RESERVED) | (source.present("moves") > 0)
    return np.where(coming, source.present(f"next_{what}"), source.present(what))


def _since_banked(source: Source) -> np.ndarray:
    """Return the seconds since a running job's progress was banked; 0 for others."""
    running = source.present("phase") == RUNNING
    return np.where(running, source.state.clock - source.present("banked"), 0.0)


def profile(source: Source, job: int) -> np.ndarray:
    """Return what a profiler measured of a job; see `View.profile`."""
    return profiled(source.states, source.jobs, job)


def profiled(states: np.ndarray, jobs: np.ndarray, job: int) -> np.ndarray:
    """Return what a profiler measured of a job of the first record; see `View.profile`."""
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
