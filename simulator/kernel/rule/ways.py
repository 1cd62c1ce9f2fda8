"""What profiles tell of a job: how busy it keeps GPUs, and how long an iteration takes in the shapes it can have."""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SERVERS, NOBODY, SERVER_CORES
from gpu_cluster_gym.simulator.kernel.rule.rule_memory import MOST_GPUS

WIDTHS = (1, 2, 4, 8, 16)  # numbers of workers that are considered beside what a job asks for
EPS = 1e-6  # of sums of cores


@compiled
def duty_of(jobs, job):
    """Share of its GPUs' time that a job alone keeps them busy, as profiled; 0 for a CPU job."""
    whole = jobs[job].profiled_active_ms + jobs[job].profiled_idle_ms
    return jobs[job].profiled_active_ms / whole if whole > 0 else 0.0


@compiled
def seconds_of(jobs, job, workers, servers, on_cpu):
    """Seconds of an iteration in a shape by the fitted coefficients (`simulator.speed_model`)."""
    th = jobs[job].fitted
    on_gpu = th[0] / workers + th[1] + workers * (th[2] / max(servers, 1) + th[3]) + th[4] * servers
    return on_gpu + on_cpu * (th[5] / workers + th[6])


@compiled
def pace_of(jobs, job, workers, servers):
    """Seconds with so many workers and servers over those with as many as a job asks for."""
    if workers == jobs[job].num_gpus and servers == jobs[job].servers:
        return 1.0
    as_asked = seconds_of(jobs, job, max(jobs[job].num_gpus, 1), jobs[job].servers, 0.0)
    return seconds_of(jobs, job, workers, servers, 0.0) / as_asked


@compiled
def most_on_a_node(s, jobs, job):
    """GPUs of the largest node that can hold a job; 0 if none can."""
    most = 0
    for node in range(s.num_nodes):
        if s.node_memory[node] >= jobs[job].gpu_memory_gib:
            most = max(most, s.node_gpus[node])
    return most


@compiled
def may_spread(s, jobs, m, job):
    """Tell whether a job may be put on several nodes: with servers, or where types differ if no node is large enough.

    Workers with servers are as fast wherever they are.
    """
    asked = jobs[job].num_gpus
    if asked > MOST_GPUS:
        return False
    return jobs[job].servers > 0 or (m.typed > 0 and asked > most_on_a_node(s, jobs, job))


@compiled
def is_beyond_a_node(s, jobs, m, job):
    """Tell whether a job, as it asks, is larger than any node that can hold it, and may not be spread."""
    if jobs[job].num_gpus == 1:
        return False
    return jobs[job].num_gpus > most_on_a_node(s, jobs, job) and not may_spread(s, jobs, m, job)


@compiled
def best_servers(s, jobs, m, job, workers):
    """Return the servers with which so many workers are fastest, by what a fair share of the cores is enough for."""
    if jobs[job].servers == 0:
        return 0
    most = MAX_SERVERS
    if s.cpu_limited:
        left = m.fair_cores - jobs[job].cores_each + SERVER_CORES * jobs[job].servers / jobs[job].num_gpus
        most = min(max(int(left * workers / SERVER_CORES + EPS), 1), MAX_SERVERS)
    best = 1
    least = seconds_of(jobs, job, workers, 1, 0.0)
    for servers in range(2, most + 1):
        takes = seconds_of(jobs, job, workers, servers, 0.0)
        if takes < least:
            best, least = servers, takes
    return best


@compiled
def add_way(jobs, m, job, workers, servers):
    """Note a shape, and the pace in it."""
    m.way_workers[m.num_ways] = workers
    m.way_servers[m.num_ways] = servers
    m.pace[m.num_ways] = pace_of(jobs, job, workers, servers)
    m.num_ways += 1


@compiled
def find_ways(s, jobs, m, job):
    """Write the shapes in which a job may run, and its pace in each: numbers of workers, each with its best servers.

    Without sizing what it asks for is the only one; with it, that is one of them.
    """
    m.num_ways = 0
    asked, servers = jobs[job].num_gpus, jobs[job].servers
    if m.sizing == 0:
        add_way(jobs, m, job, asked, servers)
        return
    most = jobs[job].max_workers
    if not may_spread(s, jobs, m, job):
        most = min(most, most_on_a_node(s, jobs, job))
    last = NOBODY
    for width in WIDTHS:
        if last < asked < width:
            add_way(jobs, m, job, asked, best_servers(s, jobs, m, job, asked))
        if jobs[job].min_workers <= width <= most or width == asked:
            add_way(jobs, m, job, width, best_servers(s, jobs, m, job, width))
        last = width
    if asked > last:
        add_way(jobs, m, job, asked, best_servers(s, jobs, m, job, asked))
    if best_servers(s, jobs, m, job, asked) != servers:
        add_way(jobs, m, job, asked, servers)
