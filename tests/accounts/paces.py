"""Speed of each job among the others, recomputed at every call."""

from tests.accounts.formulas import crowding, exchange, fed_s, iteration_s, pressures, reference_s
from tests.accounts.lives import Ground, Life


def speeds_of(ground: Ground) -> dict[int, tuple[float, float]]:
    """Return, for each running job, its progress per second and the utilisation of its GPUs."""
    pressure = pressures(ground.drawn_gbs(), ground.physics, ground.cluster)
    links = busy_links(ground)
    return {job: speed(ground, ground.lives[job], pressure, links) for job in ground.those("running")}


def busy_links(ground: Ground) -> dict[int, float]:
    """Return for each node the sum of the shares of time for which jobs that cross there need its links."""
    busy = dict.fromkeys(range(ground.cluster.num_nodes), 0.0)
    for job in ground.those("running") if ground.physics.links else ():
        life = ground.lives[job]
        spread = ground.on_nodes(life.gpus)
        if len(spread) > 1:
            sync = exchange(life.task, life.shape, len(spread), ground.cluster)
            alone_s = seconds(ground, life, 1.0, 1.0, 1.0)
            for node in spread:
                busy[node] += sync.links_s / alone_s
    return busy


def speed(
    ground: Ground, life: Life, pressure: dict[int, float], links: dict[int, float]
) -> tuple[float, float]:
    """Return the progress per second, and the utilisation, of a job under this pressure and link load."""
    task = life.task
    if not task.gpus:
        slower = pressure[life.node] if task.bandwidth_gbs else 1.0
        return life.cores / task.cores * life.level / slower, 0.0
    now_s = now(ground, life, pressure, links)
    if not now_s:
        return 1.0, 1.0
    fed = fed_s(task, life.shape, type_speed(ground, life), ground.cluster)
    return reference_s(task, ground.cluster, ground.physics) / now_s, fed / now_s


def now(ground: Ground, life: Life, pressure: dict[int, float], links: dict[int, float]) -> float:
    """Return the current iteration time of a job with workers."""
    spread = ground.on_nodes(life.gpus)
    if not spread:
        sync = exchange(life.task, life.shape, 0, ground.cluster)
        return iteration_s(life.task, life.shape, 1.0, 1.0, 1.0, 1.0, sync.links_s + sync.hops_s)
    beside = [
        [other.task for k in ground.residents(gpu, "running") if (other := ground.lives[k]) is not life]
        for gpu in life.gpus
    ]
    crowd = max(crowding(life.task, others, ground.physics) for others in beside)
    worst = max(pressure[node] for node in spread)
    crossing = max(1.0, *(links[node] for node in spread))
    return seconds(ground, life, crowd, worst, crossing)


def seconds(ground: Ground, life: Life, crowd: float, pressure: float, crossing: float) -> float:
    """Return the seconds of an iteration on a job's GPUs, with these slowdowns."""
    task, nodes = life.task, len(ground.on_nodes(life.gpus))
    cores = life.cores - life.shape.server_cores if ground.physics.cores else task.cores
    sync = exchange(task, life.shape, nodes, ground.cluster)
    sync_s = sync.takes_s(ground.physics, crossing, pressure, cores)
    return iteration_s(task, life.shape, crowd, type_speed(ground, life), pressure, cores, sync_s)


def type_speed(ground: Ground, life: Life) -> float:
    """Return the computing speed of a job's slowest GPU."""
    types = [ground.cluster.types[node] for node in ground.on_nodes(life.gpus)]
    return min((life.task.type_speed[name] for name in types), default=1.0)
