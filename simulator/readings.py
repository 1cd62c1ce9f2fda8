"""What a view tells that no field says: what is measured, with its error, and what follows from several fields."""

from typing import TYPE_CHECKING

import numpy as np

from simulator.kernel import calls
from simulator.kernel.layout import DRAINING, LOADING, MOST_SERVERS, PAUSING, RESERVED, RUNNING, SERVER_CORES
from traces import stream

if TYPE_CHECKING:
    from simulator.view import View

BUSY_ERROR_S = 0.85  # standard error of a reading of busy seconds: 2 points of utilisation over 60 s; ours
BANDWIDTH_ERROR = 0.02  # standard error of a reading of bandwidth, as a share of it; ours
PROFILE_ERROR = 0.05  # deviation of the logarithm of a profiled iteration: ours


def is_predictable(view: "View") -> np.ndarray:
    """Whether a job's estimate has become good; nobody is told when it will."""
    good: np.ndarray = view._state.predictable[: view._state.num_arrived] > 0
    return good


def estimate_s(view: "View") -> np.ndarray:
    """Run time of a job in the shape it asks for, as profiled, or once it is predictable as predicted."""
    seen = view._state.num_arrived
    return np.where(view.is_predictable, view._jobs["late_estimate"][:seen], view._jobs["estimate"][:seen])


def workers(view: "View") -> np.ndarray:
    """Workers that a job has, or will have where it waits for GPUs, or else asks for."""
    return _shape(view, "workers")


def servers(view: "View") -> np.ndarray:
    """Parameter servers that a job has, will have, or asks for."""
    return _shape(view, "servers")


def gpus_now(view: "View") -> np.ndarray:
    """GPUs that an active job holds, or one that waits for GPUs will; 0 for others."""
    held = (view.phase >= RESERVED) & (view.phase <= PAUSING)
    return np.where(held, _shape(view, "width"), 0)


def server_cores(view: "View") -> np.ndarray:
    """Cores beside each GPU that are its job's parameter servers', of those it holds or else asks for."""
    workers, servers, gpus = (_shape(view, what) for what in ("workers", "servers", "width"))
    return np.where((gpus > 0) & (gpus == workers), SERVER_CORES * servers / np.maximum(gpus, 1), 0.0)


def gpu_seconds(view: "View") -> np.ndarray:
    """GPU-seconds that a job has run so far, in whatever shape."""
    state, seen = view._state, view._state.num_arrived
    spent = np.where(view.phase == RUNNING, state.clock - state.banked[:seen], 0.0)
    served: np.ndarray = state.run_area[:seen] + state.lost_area[:seen] + state.width[:seen] * spent
    return served


def core_seconds(view: "View") -> np.ndarray:
    """CPU core-seconds that a job has held so far."""
    state, seen = view._state, view._state.num_arrived
    held = view.cores_now * np.maximum(state.width[:seen], 1)
    total: np.ndarray = state.core_seconds[:seen] + held * (state.clock - state.counted[:seen])
    return total


def node_until_s(view: "View") -> np.ndarray:
    """When a draining node goes down; infinite for others: how long a repair takes nobody knows."""
    draining = view.node_closed == DRAINING
    return np.where(draining, view._state.until[: view._state.num_nodes], np.inf)


def duty(view: "View") -> np.ndarray:
    """Share of its GPUs' time that a job alone keeps them busy, as profiled; 0 for a CPU job."""
    whole = view.active_ms + view.idle_ms
    return view.active_ms / np.where(whole > 0, whole, 1.0)


def cores_now(view: "View") -> np.ndarray:
    """CPU cores an active job holds for each GPU, or as a whole if it has none; 0 for others."""
    active = (view.phase >= LOADING) & (view.phase <= PAUSING)
    return np.where(active, view._state.core_count[: view._state.num_arrived], 0.0)


def ran_s(view: "View") -> np.ndarray:
    """Seconds that a job has run since it last began from nothing, whatever its speed."""
    state, seen = view._state, view._state.num_arrived
    spent = np.where(view.phase == RUNNING, state.clock - state.banked[:seen], 0.0)
    ran: np.ndarray = state.attained[:seen] + state.delay[:seen] + spent
    return ran


def busy_s(view: "View") -> np.ndarray:
    """Seconds that a job's GPUs were busy with it so far, the mean over them, as a monitor reads it.

    The difference of two readings over the seconds between them is the utilisation in between; see BUSY_ERROR_S.
    """
    state, seen = view._state, view._state.num_arrived
    spent = np.where(view.phase == RUNNING, state.clock - state.banked[:seen], 0.0)
    busy: np.ndarray = state.busy[:seen] + state.used[:seen] * spent
    return busy + BUSY_ERROR_S * _errors(view, "busy_s")[:seen] * (busy > 0)


def bandwidth_gbs(view: "View") -> np.ndarray:
    """GB/s of host memory that a running job draws on each of its GPUs' behalf, as a whole if it has none."""
    state, seen = view._state, view._state.num_arrived
    cores = np.where(view.is_cpu_job, state.core_count[:seen] / np.maximum(view.cores, 1e-9), 1.0)
    draws = (view.phase == RUNNING) & (view.is_cpu_job | (state.width[:seen] > 0))
    drawn = view._jobs["bandwidth"][:seen] * cores * view.throttle * draws
    read: np.ndarray = drawn * (1.0 + BANDWIDTH_ERROR * _errors(view, "bandwidth_gbs")[:seen])
    return read


def node_bandwidth_gbs(view: "View") -> np.ndarray:
    """GB/s that running jobs draw from the memory of each node, as they do when time goes on from here."""
    total = np.zeros(len(view.node_gpus))
    drawn = view.bandwidth_gbs
    on_cpu = np.flatnonzero((view.node_of >= 0) & (drawn > 0))
    np.add.at(total, view.node_of[on_cpu], drawn[on_cpu])
    gpus, seats = np.nonzero(view.residents >= 0)
    np.add.at(total, view.gpu_node[gpus], drawn[view.residents[gpus, seats]])
    return total


def unclaimed_memory_gib(view: "View") -> np.ndarray:
    """Memory of each GPU less what its residents take as profiled, GiB."""
    here = view.residents
    taken = np.where(here >= 0, view.memory_gib[here], 0.0).sum(axis=1)
    unclaimed: np.ndarray = view.node_memory_gib[view.gpu_node] - taken
    return unclaimed


def must_load(view: "View") -> np.ndarray:
    """Whether a pause has saved progress of a job, so that it must load when it starts again."""
    saved: np.ndarray = view._state.saved[: view._state.num_arrived] > 0
    return saved


def _shape(view: "View", what: str) -> np.ndarray:
    seen = view._state.num_arrived
    coming = (view.phase == RESERVED) | (view._state.moves[:seen] > 0)
    shape: np.ndarray = np.where(
        coming, view._state.array(f"next_{what}")[:seen], view._state.array(what)[:seen]
    )
    return shape


def _errors(view: "View", reading: str) -> np.ndarray:
    """Return standard normal errors of a reading at this instant, the same however often it is read."""
    instant, errors = view._errors.get(reading, (-1, np.empty(0)))
    if instant != view.instant:
        errors = stream(view._state.seed, reading, view.instant).standard_normal(len(view._jobs))
        view._errors[reading] = view.instant, errors
    return errors


def profile(states: np.ndarray, jobs: np.ndarray, job: int) -> np.ndarray:
    """Return what a profiler measured of a job; see `View.profile`."""
    row = jobs[job]
    workers = sorted(
        {
            w
            for w in (1, 2, 4, 8, 16, int(row["num_gpus"]), int(row["most"]))
            if row["least"] <= w <= row["most"]
        }
    )
    servers = [p for p in (1, 2, 4, 8) if p <= MOST_SERVERS] if row["servers"] else [0]
    places = (0, 1) if row["on_cpu"] > 0 else (0,)
    shapes = [(w, p, on_cpu) for w in workers for p in servers for on_cpu in places]
    seconds = np.array([calls.iteration(states, 0, jobs, job, *shape) for shape in shapes])
    errors = stream(states[0]["seed"], "profile", job).standard_normal(len(shapes))
    return np.column_stack([np.array(shapes, float), seconds * np.exp(PROFILE_ERROR * errors)])
