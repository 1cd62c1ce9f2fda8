"""What may be done, by a second opinion: the rules of actions on a `Fluid`."""

import math

from envs.policy import Action, Placement, Preempt, Resize, Start, Throttle, Wait
from tests.fluid import HOLDING, TINY, Fluid, Life
from tests.formulas import Task

LEAST_THROTTLE = 0.1


def is_legal(fluid: Fluid, action: Action) -> bool:
    """Tell whether an action may be taken now."""
    if isinstance(action, Wait):
        return may_wait(fluid, action.seconds)
    if not 0 <= action.job < len(fluid.lives):
        return False
    life = fluid.lives[action.job]
    fresh = life.touched == fluid.instant
    match action:
        case Start(_, placement):
            return life.phase == "queued" and not fresh and may_start(fluid, life.task, placement)
        case Preempt():
            return life.phase == "running" and not fresh
        case Throttle(_, level):
            return life.phase == "running" and not life.task.gpus and LEAST_THROTTLE <= level <= 1
        case Resize(_, cores):
            return life.phase == "running" and fluid.physics.cores and may_have(fluid, life, cores)


def may_wait(fluid: Fluid, seconds: float | None) -> bool:
    """Tell whether time may pass: not while nothing is pending and a job could start."""
    idle = not fluid.those("future", "restarting", *HOLDING)
    able = any(fluid.lives[job].touched != fluid.instant for job in fluid.those("queued"))
    return (seconds is None or seconds > 0) and not (idle and able)


def may_start(fluid: Fluid, task: Task, placement: Placement) -> bool:
    """Tell whether a queued job may have what a placement says."""
    gpus, cores = placement.gpus, placement.cores
    if len(gpus) != task.gpus or len(set(gpus)) < len(gpus) or not (cores is None or is_sane(fluid, cores)):
        return False
    if not task.gpus:
        if placement.node is None or placement.node not in range(fluid.cluster.num_nodes):
            return False
        return (cores or task.cores) <= min(task.cores, fluid.spare_cores(placement.node)) + TINY
    if not all(gpu in range(len(fluid.node_of)) and is_open(fluid, gpu, task) for gpu in gpus):
        return False
    if any(fluid.is_being_freed(gpu) for gpu in gpus):
        return all(fluid.is_being_freed(gpu) or not fluid.residents(gpu) for gpu in gpus)
    return not fluid.physics.cores or (cores or 1.0) <= fluid.cores_for(placement) + TINY


def is_sane(fluid: Fluid, cores: float) -> bool:
    """Tell whether a job may ever have so many cores for a GPU, or as a whole."""
    return cores < math.inf and (cores >= 1 if fluid.physics.cores else cores > 0)


def is_open(fluid: Fluid, gpu: int, task: Task) -> bool:
    """Tell whether a GPU can take a job in, now or when those on it have paused."""
    room = fluid.is_being_freed(gpu) or len(fluid.residents(gpu)) < fluid.physics.max_share
    large = fluid.cluster.node_gpu_memory_gib[fluid.node_of[gpu]] >= task.memory_gib
    return room and large and not fluid.heirs(gpu)


def may_have(fluid: Fluid, life: Life, cores: float) -> bool:
    """Tell whether a running job may have so many cores."""
    more = cores - life.cores
    if not life.task.gpus:
        return 1 <= cores <= life.task.cores + TINY and more <= fluid.spare_cores(life.node) + TINY
    counts = fluid.on_nodes(life.gpus)
    return cores >= 1 and all(
        more * count <= fluid.spare_cores(node) + TINY for node, count in counts.items()
    )
