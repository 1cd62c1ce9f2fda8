"""The shapes a job can have: how many workers and parameter servers, on GPUs or on CPU cores."""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import MOST_SERVERS, SERVER_CORES, WORKER_CORES
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_of_servers


@compiled
def meant(jobs, job, count, workers, servers):
    """Return the workers and servers of a placement on so many GPUs that may leave them open (0 and -1)."""
    if workers == 0:
        workers = count if count > 0 else jobs[job].num_gpus
    return workers, jobs[job].servers if servers < 0 else servers


@compiled
def is_rigid(jobs, job):
    """Tell whether a job always holds as many GPUs as it asks for."""
    return (
        jobs[job].min_workers == jobs[job].max_workers
        and jobs[job].servers == 0
        and jobs[job].cpu_slowdown == 0
    )


@compiled
def is_shape(jobs, job, count, workers, servers):
    """Tell whether a job can run with so many GPUs, workers and servers."""
    row = jobs[job]
    if row.num_gpus == 0:
        return count == 0 and workers == 0 and servers == 0
    if (
        not row.min_workers <= workers <= row.max_workers
        or servers > MOST_SERVERS
        or (servers > 0) != (row.servers > 0)
    ):
        return False
    if count == 0:
        return row.cpu_slowdown > 0
    return count == workers or count == workers + servers


@compiled
def cores_asked(jobs, job, count, workers, servers):
    """Cores a GPU that a job asks for in a shape, those of its servers included; as a whole without GPUs."""
    row = jobs[job]
    if row.num_gpus == 0 or (count == row.num_gpus == workers and servers == row.servers):
        return row.cores_each
    if count == 0:
        return WORKER_CORES * workers + SERVER_CORES * servers
    fed = row.cores_each - cores_of_servers(row.servers, row.num_gpus, row.num_gpus)
    return fed + cores_of_servers(servers, workers, count)


@compiled
def take_shape(s, job, count, workers, servers):
    """Give a job a shape."""
    s.width[job] = count
    s.workers[job] = workers
    s.servers[job] = servers


@compiled
def ask_again(s, jobs, job):
    """Give a job that holds nothing the shape it asks for."""
    take_shape(s, job, jobs[job].num_gpus, jobs[job].num_gpus, jobs[job].servers)


@compiled
def plan_shape(s, job, count, workers, servers, cores, node):
    """Write down what a job will have that waits for GPUs."""
    s.next_width[job] = count
    s.next_workers[job] = workers
    s.next_servers[job] = servers
    s.next_cores[job] = cores
    s.next_node[job] = node
