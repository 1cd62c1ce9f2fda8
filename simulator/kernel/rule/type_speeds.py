"""How fast jobs are on each type of GPU, over the fastest that can hold them, and when fast GPUs come free."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, NOBODY, QUEUED
from gpu_cluster_gym.simulator.kernel.rule.trust import left_now


@compiled
def look_up_machines(s, m):
    """Write, once, which types of GPUs there are, and the fair share of cores of a GPU."""
    if m.num_kinds > 0:
        return
    cores = 0.0
    for node in range(s.num_nodes):
        cores += s.node_cores[node]
        known = False
        for k in range(m.num_kinds):
            known |= m.kinds[k] == s.node_type[node]
        if not known:
            m.kinds[m.num_kinds] = s.node_type[node]
            m.num_kinds += 1
    m.typed = s.typed > 0 and m.num_kinds > 1
    m.fair_cores = cores / max(s.num_gpus, 1)


@compiled
def speed_on(s, jobs, job, node):
    """Speed of a job on the GPUs of a node over that on a V100, as profiled."""
    speed = jobs[job].type_speed[s.node_type[node]]
    return speed if speed > 0 else 1.0


@compiled
def speed_at_best(s, jobs, m, job):
    """Speed of a job on the fastest GPUs that can hold it, over that on a V100; 1 where none can."""
    if m.fastest[job] == 0.0:
        for node in range(s.num_nodes):
            if s.node_memory[node] >= jobs[job].gpu_memory_gib:
                m.fastest[job] = max(m.fastest[job], speed_on(s, jobs, job, node))
        if m.fastest[job] == 0.0:
            m.fastest[job] = 1.0
    return m.fastest[job]


@compiled
def slow_on(s, jobs, m, job, node):
    """Slowdown of a job by the type of the GPUs of a node, over the fastest that can hold it."""
    if not m.typed:
        return 1.0
    return speed_at_best(s, jobs, m, job) / speed_on(s, jobs, job, node)


@compiled
def left_at_best(s, jobs, m, job):
    """Seconds of run time left, in the shape asked for, on the fastest GPUs, as the rule believes."""
    left = left_now(s, jobs, m, job)
    return left / speed_at_best(s, jobs, m, job) if m.typed else left


@compiled
def left_anew(s, jobs, m, job):
    """Seconds that a job has to go if it starts, or starts again, as asked and alone on its fastest GPUs."""
    if s.phase[job] == QUEUED:
        return m.left_s[job]
    return left_at_best(s, jobs, m, job) + jobs[job].load_s


@compiled
def sort_by_freeing(s, m):
    """List the GPUs by when the last of the jobs on them ends, as things are; the last order is nearly right."""
    for gpu in range(s.num_gpus):
        m.frees_s[gpu] = 0.0
        for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
            if s.job_in[slot] != NOBODY:
                m.frees_s[gpu] = max(m.frees_s[gpu], m.left_s[s.job_in[slot]])
    if m.by_freeing[0] == m.by_freeing[1]:
        for gpu in range(s.num_gpus):
            m.by_freeing[gpu] = gpu
    for k in range(1, s.num_gpus):
        gpu, at = m.by_freeing[k], k
        while at > 0 and m.frees_s[m.by_freeing[at - 1]] > m.frees_s[gpu]:
            m.by_freeing[at] = m.by_freeing[at - 1]
            at -= 1
        m.by_freeing[at] = gpu


@compiled
def note_types(s, jobs, m, job):
    """Write a job's slowdown by the type of each node's GPUs, infinite where they cannot hold it."""
    for node in range(s.num_nodes):
        holds = s.node_memory[node] >= jobs[job].gpu_memory_gib
        m.by_type[node] = slow_on(s, jobs, m, job, node) if holds else np.inf


@compiled
def waits_s(s, m, ahead):
    """Return the seconds until so many GPUs come free that are not too slow for a job, or as many as there are.

    Its slowdown by their type has been noted.
    """
    wait, count = np.inf, 0
    for k in range(s.num_gpus):
        gpu = m.by_freeing[k]
        if m.by_type[s.gpu_node[gpu]] <= m.most_slow:
            wait = m.frees_s[gpu]
            count += 1
            if count == ahead:
                break
    return wait
