"""Shapes and speeds of jobs, by their profiles.

A shape is a number of workers (GPUs) and of parameter servers. Its relative time is the time of an iteration in it over
that in the shape a job asks for: 0.5 is twice as fast. Speeds on GPU types are relative to the fastest type that can
hold the job.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SERVERS, NOBODY, SERVER_CORES
from gpu_cluster_gym.simulator.kernel.cluster.placement import can_hold

MAX_NAMED_GPUS = 16  # maximum number of GPUs that a listed move names
WORKER_COUNTS = (1, 2, 4, 8, 16)  # considered in addition to the requested number
CORE_EPS = 1e-6  # tolerance for sums of cores


@compiled
def gpu_utilization(jobs, job):
    """Return the share of its GPUs' time for which a job alone keeps them busy, as profiled; 0 for a CPU job."""
    whole = jobs[job].profiled_active_ms + jobs[job].profiled_idle_ms
    return jobs[job].profiled_active_ms / whole if whole > 0 else 0.0


@compiled
def iteration_seconds(jobs, job, workers, servers, on_cpu):
    """Return the seconds of an iteration in a shape, by the fitted coefficients (`simulator.speed_model`).

    on_cpu: 1 if the workers run on CPU cores instead of GPUs, else 0.
    """
    th = jobs[job].fitted
    on_gpu = th[0] / workers + th[1] + workers * (th[2] / max(servers, 1) + th[3]) + th[4] * servers
    return on_gpu + on_cpu * (th[5] / workers + th[6])


@compiled
def relative_time(jobs, job, workers, servers):
    """Return the time of an iteration with these workers and servers, over that in the shape the job asks for."""
    if workers == jobs[job].num_gpus and servers == jobs[job].servers:
        return 1.0
    as_asked = iteration_seconds(jobs, job, max(jobs[job].num_gpus, 1), jobs[job].servers, 0.0)
    return iteration_seconds(jobs, job, workers, servers, 0.0) / as_asked


@compiled
def max_gpus_on_a_node(s, jobs, job):
    """Return the number of GPUs of the largest node that can hold a job; 0 if none can."""
    count = 0
    for node in range(s.num_nodes):
        if can_hold(s, jobs, job, node):
            count = max(count, s.node_gpus[node])
    return count


@compiled
def may_spread(s, jobs, m, job):
    """Return whether a job may be placed on several nodes.

    It may if it has servers, since its workers then run equally fast anywhere, or if GPU types differ and no node is
    large enough.
    """
    asked = jobs[job].num_gpus
    if asked > MAX_NAMED_GPUS:
        return False
    return jobs[job].servers > 0 or (m.typed > 0 and asked > max_gpus_on_a_node(s, jobs, job))


@compiled
def exceeds_any_node(s, jobs, m, job):
    """Return whether a job, as it asks, exceeds every node that can hold it and may not be spread."""
    if jobs[job].num_gpus == 1:
        return False
    return jobs[job].num_gpus > max_gpus_on_a_node(s, jobs, job) and not may_spread(s, jobs, m, job)


@compiled
def find_best_servers(s, jobs, m, job, workers):
    """Return the number of servers with which these workers are fastest, within a fair share of the cores."""
    if jobs[job].servers == 0:
        return 0
    max_servers = MAX_SERVERS
    if s.cpu_limited:
        # Cores that a worker's fair share leaves for servers, once its own input pipeline is fed.
        left = m.fair_cores - jobs[job].cores_each + SERVER_CORES * jobs[job].servers / jobs[job].num_gpus
        max_servers = min(max(int(left * workers / SERVER_CORES + CORE_EPS), 1), MAX_SERVERS)
    best = 1
    best_time = iteration_seconds(jobs, job, workers, 1, 0.0)
    for servers in range(2, max_servers + 1):
        time = iteration_seconds(jobs, job, workers, servers, 0.0)
        if time < best_time:
            best, best_time = servers, time
    return best


@compiled
def add_shape(jobs, m, job, workers, servers):
    """Append a shape and its relative time to the list of shapes."""
    m.shape_workers[m.num_shapes] = workers
    m.shape_servers[m.num_shapes] = servers
    m.shape_time[m.num_shapes] = relative_time(jobs, job, workers, servers)
    m.num_shapes += 1


@compiled
def find_shapes(s, jobs, m, job):
    """List the shapes in which a job may run: numbers of workers, each with its best number of servers.

    The requested shape is always listed; without sizing it is the only one.
    """
    m.num_shapes = 0
    asked, servers = jobs[job].num_gpus, jobs[job].servers
    if m.sizing == 0:
        add_shape(jobs, m, job, asked, servers)
        return
    max_workers = jobs[job].max_workers
    if not may_spread(s, jobs, m, job):
        # Other gangs stay within a node: profiles do not show how slow they are across nodes.
        max_workers = min(max_workers, max_gpus_on_a_node(s, jobs, job))
    last = NOBODY
    for width in WORKER_COUNTS:
        if last < asked < width:
            add_shape(jobs, m, job, asked, find_best_servers(s, jobs, m, job, asked))
        if jobs[job].min_workers <= width <= max_workers or width == asked:
            add_shape(jobs, m, job, width, find_best_servers(s, jobs, m, job, width))
        last = width
    if asked > last:
        add_shape(jobs, m, job, asked, find_best_servers(s, jobs, m, job, asked))
    if find_best_servers(s, jobs, m, job, asked) != servers:
        add_shape(jobs, m, job, asked, servers)


@compiled
def note_machines(s, m):
    """Note, once, the GPU types of the cluster and the fair share of cores of a GPU."""
    if m.num_gpu_types > 0:
        return
    cores = 0.0
    for node in range(s.num_nodes):
        cores += s.node_cores[node]
        known = False
        for k in range(m.num_gpu_types):
            known |= m.gpu_types[k] == s.node_type[node]
        if not known:
            m.gpu_types[m.num_gpu_types] = s.node_type[node]
            m.num_gpu_types += 1
    m.typed = s.typed > 0 and m.num_gpu_types > 1
    m.fair_cores = cores / max(s.num_gpus, 1)


@compiled
def speed_on(s, jobs, job, node):
    """Return the profiled speed of a job on the GPUs of a node, relative to a V100."""
    speed = jobs[job].type_speed[s.node_type[node]]
    return speed if speed > 0 else 1.0


@compiled
def find_best_speed(s, jobs, m, job):
    """Return the speed of a job on the fastest GPUs that can hold it, relative to a V100; 1 if none can."""
    if m.best_speed[job] == 0.0:
        for node in range(s.num_nodes):
            if can_hold(s, jobs, job, node):
                m.best_speed[job] = max(m.best_speed[job], speed_on(s, jobs, job, node))
        if m.best_speed[job] == 0.0:
            m.best_speed[job] = 1.0
    return m.best_speed[job]


@compiled
def type_slowdown_on(s, jobs, m, job, node):
    """Return the slowdown of a job on the GPUs of a node, relative to the fastest that can hold it."""
    if not m.typed:
        return 1.0
    return find_best_speed(s, jobs, m, job) / speed_on(s, jobs, job, node)


@compiled
def note_node_slowdowns(s, jobs, m, job):
    """Note a job's slowdown by the GPU type of each node, infinite where the GPUs cannot hold it."""
    for node in range(s.num_nodes):
        holds = can_hold(s, jobs, job, node)
        m.node_slowdown[node] = type_slowdown_on(s, jobs, m, job, node) if holds else np.inf
