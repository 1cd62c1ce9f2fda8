"""What the kernel has decided on, as the actions that a policy returns; see `simulator.kernel.cluster.decided`."""

from math import isfinite

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.decided import CORES, PAUSE, START, THROTTLE, WAIT
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY
from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Resize, Start, Throttle, Wait


def written_down(memory: np.ndarray, kind: int) -> Action:
    """Return the move that is written down in the first of these memories, or the wait."""
    if kind == WAIT:
        return wait(float(memory["wait_s"][0]))
    return move(memory, kind, int(memory["victim" if kind == PAUSE else "move_job"][0]))


def next_listed(memory: np.ndarray, kind: int) -> Action:
    """Return the move of the first memory's list that has just been decided on, or the wait."""
    if kind == WAIT:
        return wait(float(memory["wait_s"][0]))
    at = memory["next_move"][0] - 1
    return move(memory, kind, int(memory["move_job"][0, at]), float(memory["move_value"][0, at]))


def wait(seconds: float) -> Wait:
    """Return the wait for so long at most, NaN or infinite for no end."""
    return Wait(seconds if isfinite(seconds) else None)


def move(memory: np.ndarray, kind: int, job: int, value: float = 0.0) -> Action:
    """Return a move of a job; value: its cores, 0 for what it asks for, or the level of a throttle."""
    if kind == PAUSE:
        return Preempt(job)
    if kind == CORES:
        return Resize(job, value)
    if kind == THROTTLE:
        return Throttle(job, value)
    node, workers, servers = (int(memory[name][0]) for name in ("node", "workers", "servers"))
    placement = Placement(
        tuple(memory["gpus"][0, : memory["num_gpus"][0]].tolist()),
        cores=value or None,
        node=node if node != NOBODY else None,
        workers=workers or None,
        servers=servers if servers >= 0 else None,
    )
    return Start(job, placement) if kind == START else Resize(job, placement=placement)
