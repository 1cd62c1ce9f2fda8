"""Second opinion on the legality of actions on a `Fluid`."""

import math

from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Resize, Start, Throttle, Wait
from tests.accounts.fluid import TINY, Fluid
from tests.accounts.formulas import Shape, Task, fewest_cores
from tests.accounts.lives import OPEN, Life, shape_of

LEAST_THROTTLE = 0.1
MAX_SERVERS = 10


def is_legal(fluid: Fluid, action: Action) -> bool:
    """Return whether an action is legal now."""
    if isinstance(action, Wait):
        return may_wait(fluid, action.seconds)
    if not 0 <= action.job < len(fluid.lives):
        return False
    life = fluid.lives[action.job]
    fresh, runs = life.touched == fluid.instant, life.phase == "running"
    match action:
        case Start(_, placement, claim):
            return life.phase == "queued" and not fresh and may_start(fluid, life.task, placement, claim)
        case Preempt():
            return runs and not fresh
        case Throttle(_, level):
            return runs and not life.task.gpus and LEAST_THROTTLE <= level <= 1
        case Resize(job, None, placement):
            return runs and not fresh and placement is not None and may_move(fluid, job, placement)
        case Resize(_, cores, None):
            return runs and fluid.physics.cores and may_have(fluid, life, cores or 0.0)
    return False


def may_wait(fluid: Fluid, seconds: float | None) -> bool:
    """Return whether time may pass: not if nothing is pending and a job could start."""
    able = any(fluid.lives[job].touched != fluid.instant for job in fluid.ground.those("queued"))
    return (seconds is None or seconds > 0) and (fluid.is_pending() or not able)


def may_start(fluid: Fluid, task: Task, placement: Placement, claim: bool) -> bool:
    """Return whether a queued job may have, or claim, this placement."""
    ground, gpus, cores = fluid.ground, placement.gpus, placement.cores
    if not is_sound(fluid, task, placement):
        return False
    least = fewest_cores(task, shape_of(task, placement))
    if not gpus:
        asked = cores or (least if task.gpus else task.cores)
        return asked <= ground.spare_cores(placement.node or 0) + TINY
    if not all(is_open(fluid, gpu, claim) for gpu in gpus):
        return False
    if claim and any(ground.residents(gpu) for gpu in gpus):
        return True
    if any(ground.is_being_freed(gpu) for gpu in gpus):
        return all(ground.is_being_freed(gpu) or not ground.residents(gpu) for gpu in gpus)
    return not fluid.physics.cores or (cores or least) <= ground.cores_for(placement) + TINY


def may_move(fluid: Fluid, job: int, placement: Placement) -> bool:
    """Return whether a running job may resume in this placement: on GPUs that no other job will hold or inherits."""
    task, ground = fluid.lives[job].task, fluid.ground
    return (
        task.gpus > 0
        and is_sound(fluid, task, placement)
        and all(
            not ground.heirs(gpu) and (not ground.residents(gpu) or ground.is_being_freed(gpu, job))
            for gpu in placement.gpus
        )
    )


def is_sound(fluid: Fluid, task: Task, placement: Placement) -> bool:
    """Return whether a job could ever run so: its shape, large enough GPUs on open nodes, a valid number of cores.

    The nodes must be those that its constraints allow.
    """
    ground, gpus, shape = fluid.ground, placement.gpus, shape_of(task, placement)
    if not (is_shape(task, shape) and is_sane(fluid, task, shape, placement.cores)):
        return False
    if not gpus:
        node = -1 if placement.node is None else placement.node
        return node in task.nodes and ground.closed[node] == OPEN
    return len(set(gpus)) == len(gpus) and all(
        gpu in range(len(ground.node_of)) and ground.node_of[gpu] in task.nodes and is_large(fluid, gpu, task)
        for gpu in gpus
    )


def is_shape(task: Task, shape: Shape) -> bool:
    """Return whether a job can have these numbers of workers, servers and GPUs."""
    if not task.gpus:
        return shape == (0, 0, 0)
    if not (shape.gpus in (shape.workers, shape.workers + shape.servers) or (not shape.gpus and task.on_cpu)):
        return False
    exchange = 1 <= shape.servers <= MAX_SERVERS if task.servers else shape.servers == 0
    return exchange and task.least <= shape.workers <= task.most


def is_sane(fluid: Fluid, task: Task, shape: Shape, cores: float | None) -> bool:
    """Return whether a job may ever have this number of cores, per GPU or in total."""
    if cores is None:
        return True
    least = fewest_cores(task, shape)
    if task.gpus and not shape.gpus:
        return cores == least
    if not task.gpus and cores > task.cores + TINY:
        return False
    return cores < math.inf and (cores >= least - TINY if fluid.physics.cores else cores > 0)


def is_large(fluid: Fluid, gpu: int, task: Task) -> bool:
    """Return whether a GPU has enough memory, on a node where jobs may start."""
    node = fluid.ground.node_of[gpu]
    large = fluid.cluster.node_gpu_memory_gib[node] >= task.memory_gib
    return large and fluid.ground.closed[node] == OPEN


def is_open(fluid: Fluid, gpu: int, claim: bool) -> bool:
    """Return whether a GPU can accept a job now, or after its jobs have paused, or with a claim after its one job."""
    ground = fluid.ground
    most = 2 if claim else fluid.physics.max_share
    room = ground.is_being_freed(gpu) or len(ground.residents(gpu)) < most
    return room and not ground.heirs(gpu)


def may_have(fluid: Fluid, life: Life, cores: float) -> bool:
    """Return whether a running job may have this number of cores."""
    task, ground, more = life.task, fluid.ground, cores - life.cores
    if not life.gpus and task.gpus:
        return False
    if not task.gpus:
        return 1 <= cores <= task.cores + TINY and more <= ground.spare_cores(life.node) + TINY
    counts = ground.on_nodes(life.gpus)
    return cores >= fewest_cores(task, life.shape) - TINY and all(
        more * count <= ground.spare_cores(node) + TINY for node, count in counts.items()
    )
