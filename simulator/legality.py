"""What a policy may do now, and why not."""

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, RUNNING
from gpu_cluster_gym.simulator.policy import Placement, Preempt, Resize, Start, Throttle, Wait
from gpu_cluster_gym.simulator.source import Source

LEAST_THROTTLE = 0.1

REASONS = {
    1: "it is not queued",
    2: "it was paused at this very instant",
    3: "the placement has another number of GPUs than it asks for, or is None because it does not fit",
    4: "a GPU of the placement is neither free, nor about to be freed, nor open to one more job",
    5: "a GPU of the placement is too small for it",
    6: "the placement names a GPU twice",
    7: "it gets no GPU, and the placement names no node of the cluster that is open",
    8: "so many cores are not to be had",
    9: "it cannot run with so many workers and servers on so many GPUs",
    10: "it is a CPU job, or does not run",
}


def seat_of(placement: Placement | None) -> legality.Seat:
    """Return a placement as the kernel reads it; cores that make no sense are -1.

    None, which `View.place` gives where a job does not fit, is a placement on nothing.
    """
    placement = placement or Placement(())
    gpus = np.array(sorted(placement.gpus), np.int32)
    cores = 0.0 if placement.cores is None else float(placement.cores)
    sound = placement.cores is None or 0 < cores < np.inf
    node = NOBODY if placement.node is None else int(placement.node)
    workers = 0 if placement.workers is None else max(int(placement.workers), -1) or -1
    servers = -1 if placement.servers is None else max(int(placement.servers), 0)
    return legality.Seat(gpus, cores if sound else -1.0, node, workers, servers)


def why_not(source: Source, action: object) -> str | None:
    """Return why an action is illegal now, or None."""
    if isinstance(action, Wait):
        return _why_no_wait(source, action)
    given: object = getattr(action, "placement", None)
    if not isinstance(given, Placement | None):
        return f"{given!r} is no Placement: give one, as View.place does, or Placement((0, 1)) of GPUs"
    states, jobs, phase = source.states, source.jobs, source.present("phase")
    match action:
        case Start(job) | Preempt(job) | Resize(job) | Throttle(job) if not 0 <= job < len(phase):
            return f"job {job} has not arrived"
        case Start(job, placement):
            reason = legality.legal_start(states, 0, jobs, job, seat_of(placement))
            return f"job {job} cannot start: {REASONS[reason]}" if reason else None
        case Preempt(job):
            legal = phase[job] == RUNNING and job in source.preemptible
            return None if legal else f"job {job} cannot be paused"
        case Resize(job, None, placement) if placement is not None:
            reason = legality.legal_move(states, 0, jobs, job, seat_of(placement))
            return f"job {job} cannot be resized: {REASONS[reason]}" if reason else None
        case Resize(job, cores, None) if cores is not None:
            legal = legality.legal_resize(states, 0, jobs, job, float(cores))
            return None if legal else f"job {job} cannot have {cores} cores"
        case Resize(job):
            return f"resizing job {job} is illegal: give cores or a placement, one of the two"
        case Throttle(job, level):
            legal = phase[job] == RUNNING and jobs["num_gpus"][job] == 0 and LEAST_THROTTLE <= level <= 1
            return None if legal else f"job {job} cannot be throttled to {level}"
        case _:
            return f"{action!r} is no action: expected Start, Preempt, Resize, Throttle or Wait"


def wait(source: Source, seconds: float | None) -> bool:
    """Note that the policy waits, till the next event or for so many seconds; tell whether that is legal."""
    if seconds is not None and not seconds > 0:
        return False
    longest = np.nan if seconds is None else float(seconds)
    return bool(legality.wait(source.states, 0, source.jobs, longest))


def _why_no_wait(source: Source, wait: Wait) -> str | None:
    if wait.seconds is not None and not wait.seconds > 0:
        return f"waiting for {wait.seconds} s is illegal: time goes on"
    stuck = source.nothing_pending and len(source.startable)
    return "waiting is illegal: nothing is pending and a job could start" if stuck else None
