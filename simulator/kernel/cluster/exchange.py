"""What workers exchange at the end of each iteration, and how long that takes; the formula is told in `speed`."""

from typing import NamedTuple

from gpu_cluster_gym.simulator.kernel._compile import compiled

PLENTY_OF_CORES = 1e9  # cores


class Setting(NamedTuple):
    """In what a job runs: workers, parameter servers, the nodes on which they lie, and the cores that feed a worker."""

    workers: int
    servers: int
    nodes: int
    cores: float


class Burden(NamedTuple):
    """How many times longer it takes than undisturbed to compute, to go through memory, and to cross between nodes."""

    slowdown: float
    pressure: float
    crossing: float


UNDISTURBED = Burden(1.0, 1.0, 1.0)


@compiled
def transfer_time(s, jobs, job, setting):
    """Seconds of an iteration in which links carry what workers exchange, if no other job crosses them."""
    k, servers, traffic = setting.workers, setting.servers, jobs[job].sync_gb
    if servers > 0:
        return 2 * traffic * k / servers / s.inter_gbs
    speed = s.intra_gbs if setting.nodes == 1 else s.inter_gbs
    return 2 * (k - 1) / k * traffic / speed


@compiled
def through_host(jobs, job, setting):
    """GB of an iteration that the host of each worker takes in and gives out: none where GPUs exchange directly."""
    k, nodes = setting.workers, setting.nodes
    if setting.servers > 0:
        return 2 * jobs[job].sync_gb
    return 2 * (k - 1) / k * jobs[job].sync_gb * nodes / k if nodes > 1 else 0.0


@compiled
def sync_time(s, jobs, job, setting, burden):
    """Seconds of an iteration in which workers exchange what they have learned."""
    k, servers, nodes = setting.workers, setting.servers, setting.nodes
    if jobs[job].sync_gb == 0 or (
        servers == 0 and k < 2
    ):  # what exchanges nothing does not wait for links either
        return 0.0
    transfer = transfer_time(s, jobs, job, setting)
    if nodes > 1:
        transfer *= burden.crossing
    if s.exchange_core_s > 0:
        host = through_host(jobs, job, setting) * s.exchange_core_s * burden.pressure / setting.cores
        transfer = max(transfer, host)
    if servers > 0:
        return transfer
    return transfer + (s.intra_s * (k / nodes - 1) + s.inter_s * (nodes - 1))
