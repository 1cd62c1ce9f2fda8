"""Places: the GPUs among which those of a job must be, a node's or, where it may be spread, those of several nodes."""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.machines import count_on
from gpu_cluster_gym.simulator.kernel.cluster.speed import cores_asked
from gpu_cluster_gym.simulator.kernel.rule.ways import EPS, may_spread


@compiled
def num_places(s, jobs, m, job):
    """Return the number of places of a job: the nodes; then each type of GPU, if there are several; then all GPUs."""
    if not may_spread(s, jobs, m, job):
        return s.num_nodes
    return s.num_nodes + (m.num_kinds + 1 if m.typed else 1)


@compiled
def list_gpus(s, m, place):
    """List the GPUs of a place in `among`, and return their number; nodes with most empty GPUs come first."""
    if place < s.num_nodes:
        for k in range(s.node_gpus[place]):
            m.among[k] = s.node_first[place] + k
        return s.node_gpus[place]
    kind = place - s.num_nodes
    every = not m.typed or kind == m.num_kinds
    nodes = 0
    for node in range(s.num_nodes):
        if not every and s.node_type[node] != m.kinds[kind]:
            continue
        at = nodes
        while at > 0 and m.empties[m.node_order[at - 1]] < m.empties[node]:
            m.node_order[at] = m.node_order[at - 1]
            at -= 1
        m.node_order[at] = node
        nodes += 1
    count = 0
    for k in range(nodes):
        node = m.node_order[k]
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            m.among[count] = gpu
            count += 1
    return count


@compiled
def count_empty(m, count):
    """Return how many of the GPUs of a place, which have been listed, are free for anybody."""
    empty = 0
    for k in range(count):
        empty += m.is_empty[m.among[k]]
    return empty


@compiled
def finds_cores(s, jobs, m, job, way, count):
    """Tell whether the nodes of the GPUs ranked first have the cores that a job asks for in a way.

    One is kept for each GPU that is free. count: GPUs that have been ranked.
    """
    workers = m.way_workers[way]
    each = cores_asked(jobs, job, workers, workers, m.way_servers[way])
    if each <= 1.0:
        return True
    if workers > count:
        return False
    for k in range(workers):
        node = s.gpu_node[m.ranked[k]]
        here = empty = 0
        for other in range(workers):
            if s.gpu_node[m.ranked[other]] == node:
                here += 1
                empty += m.is_empty[m.ranked[other]]
        if s.unreserved_cores[node] + empty + EPS < each * here:
            return False
    return True


@compiled
def can_serve(s, jobs, m, job, way):
    """Tell whether the nodes of the GPUs chosen have the cores for the servers that a running job would have there.

    Those that it holds are among them.
    """
    workers, servers = m.way_workers[way], m.way_servers[way]
    if servers == 0 or not s.cpu_limited:
        return True
    each = cores_asked(jobs, job, workers, workers, servers)
    for k in range(workers):
        node = s.gpu_node[m.chosen[k]]
        here = empty = kept = 0
        for other in range(workers):
            gpu = m.chosen[other]
            if s.gpu_node[gpu] == node:
                here += 1
                empty += m.is_empty[gpu]
                kept += count_on(s, gpu, job) > 0
        own = 0
        for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
            own += count_on(s, gpu, job) > 0
        there = s.unreserved_cores[node] + empty + own * s.core_count[job] - (own - kept)
        if there + EPS < each * here:
            return False
    return True
