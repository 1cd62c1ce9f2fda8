"""What profiles tell of a job: how busy it keeps GPUs, and how long an iteration takes in the shapes it can have."""

from simulator.kernel._compile import compiled
from simulator.kernel.layout import NOBODY

WIDTHS = (1, 2, 4, 8, 16)  # numbers of workers that are considered beside what a job asks for


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
def pace_of(jobs, job, workers):
    """Seconds with so many workers over those with as many as a job asks for."""
    asked, servers = max(jobs[job].num_gpus, 1), jobs[job].servers
    return seconds_of(jobs, job, workers, servers, 0.0) / seconds_of(jobs, job, asked, servers, 0.0)


@compiled
def most_on_a_node(s, jobs, job):
    """GPUs of the largest node that can hold a job; 0 if none can."""
    most = 0
    for node in range(s.num_nodes):
        if s.node_memory[node] >= jobs[job].gpu_memory_gib:
            most = max(most, s.node_gpus[node])
    return most


@compiled
def add_way(jobs, m, job, workers):
    """Note a number of workers, and the pace with them."""
    m.workers[m.num_ways] = workers
    m.pace[m.num_ways] = pace_of(jobs, job, workers)
    m.num_ways += 1


@compiled
def find_ways(s, jobs, m, job):
    """Write the numbers of workers with which a job may run on one node, and its pace with each.

    What it asks for is the only one without sizing, and for jobs with parameter servers.
    """
    m.num_ways = 0
    asked = jobs[job].num_gpus
    if m.sizing == 0 or jobs[job].servers > 0:
        add_way(jobs, m, job, asked)
        return
    most = min(jobs[job].max_workers, most_on_a_node(s, jobs, job))
    last = NOBODY
    for width in WIDTHS:
        if last < asked < width:
            add_way(jobs, m, job, asked)
        if jobs[job].min_workers <= width <= most or width == asked:
            add_way(jobs, m, job, width)
        last = width
    if asked > last:
        add_way(jobs, m, job, asked)


@compiled
def pace_with(m, workers):
    """Return the pace with so many workers, 1 if it is none of the ways that have been found."""
    for k in range(m.num_ways):
        if m.workers[k] == workers:
            return m.pace[k]
    return 1.0
