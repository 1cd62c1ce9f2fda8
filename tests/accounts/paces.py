"""How fast each job runs beside the others, found anew whenever it is asked for."""

from tests.accounts.formulas import crowding, exchange_s, fed_s, iteration_s, pressures, reference_s
from tests.accounts.lives import Ground, Life


def speeds_of(ground: Ground) -> dict[int, tuple[float, float]]:
    """Return, for each running job, its progress a second, and the utilisation that its GPUs show."""
    pressure = pressures(ground.drawn_gbs(), ground.physics, ground.cluster)
    return {job: speed(ground, ground.lives[job], pressure) for job in ground.those("running")}


def speed(ground: Ground, life: Life, pressure: dict[int, float]) -> tuple[float, float]:
    """Return the progress a second, and the utilisation, of a job on nodes of such a pressure."""
    task = life.task
    if not task.gpus:
        slower = pressure[life.node] if task.bandwidth_gbs else 1.0
        return life.cores / task.cores * life.level / slower, 0.0
    now_s = now(ground, life, pressure)
    if not now_s:
        return 1.0, 1.0
    fed = fed_s(task, life.shape, type_speed(ground, life), ground.cluster)
    return reference_s(task, ground.cluster) / now_s, fed / now_s


def now(ground: Ground, life: Life, pressure: dict[int, float]) -> float:
    """Return the seconds that a job with workers needs for an iteration."""
    task, spread = life.task, ground.on_nodes(life.gpus)
    sync_s = exchange_s(task, life.shape, len(spread), ground.cluster)
    if not spread:
        return iteration_s(task, life.shape, 1.0, 1.0, 1.0, 1.0, sync_s)
    beside = [
        [other.task for k in ground.residents(gpu, "running") if (other := ground.lives[k]) is not life]
        for gpu in life.gpus
    ]
    crowd = max(crowding(task, others, ground.physics) for others in beside)
    cores = life.cores - life.shape.server_cores if ground.physics.cores else task.cores
    worst = max(pressure[node] for node in spread)
    return iteration_s(task, life.shape, crowd, type_speed(ground, life), worst, cores, sync_s)


def type_speed(ground: Ground, life: Life) -> float:
    """Return how fast the slowest of a job's GPUs computes."""
    types = [ground.cluster.types[node] for node in ground.on_nodes(life.gpus)]
    return min((life.task.type_speed[name] for name in types), default=1.0)
