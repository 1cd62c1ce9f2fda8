"""Preemptive rankings where node borders do not matter: the same walk by counts alone."""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import heaps
from gpu_cluster_gym.simulator.kernel.cluster.actions import start
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, PAUSING, RUNNING, STRICT
from gpu_cluster_gym.simulator.kernel.cluster.pausing import pause
from gpu_cluster_gym.simulator.kernel.cluster.queues import dequeue, enqueue, first_open, open_all
from gpu_cluster_gym.simulator.kernel.rankings.rivals import gather_rivals


@compiled
def not_granted_yet(s, jobs, num_rivals):
    """GPUs that are free, in flight, or held by preemption candidates."""
    count = s.num_free
    for k in range(s.num_active):
        if s.phase[s.events[k]] == PAUSING:
            count += s.width[s.events[k]]
    for k in range(num_rivals):
        count += s.width[s.candidates[k]]
    return count


@compiled
def next_in_order(s, num_rivals):
    """Return the next job of the pass, queued or a rival, or NOBODY; the rivals are a heap."""
    job = first_open(s)
    if num_rivals > 0 and (job == NOBODY or heaps.before(s.order, s.candidates[0], job)):
        return s.candidates[0]
    return job


@compiled
def walk_counts(s, jobs, num_rivals):
    """Grant counts of GPUs in key order; return how many queued jobs were granted and how many must pause."""
    left = not_granted_yet(s, jobs, num_rivals)
    for k in range(num_rivals):
        heaps.push(s.candidates, 0, k, s.place_in_queue, s.order, s.candidates[k])
    num_granted = 0
    num_victims = 0
    closed = False
    job = next_in_order(s, num_rivals)
    while job != NOBODY:
        wanted = s.width[job]
        running = s.phase[job] == RUNNING
        granted = wanted <= left and (running or not closed)
        if granted:
            left -= wanted
        if running:
            heaps.remove(s.candidates, 0, num_rivals, s.place_in_queue, s.order, job)
            num_rivals -= 1
            if not granted:
                s.victims[num_victims] = job
                num_victims += 1
        elif granted:
            dequeue(s, jobs, job)
            s.granted[num_granted] = job
            num_granted += 1
        else:
            s.exhausted[jobs[job].request_class] = 1
        if not granted and s.discipline == STRICT:
            closed = True
        job = next_in_order(s, num_rivals)
    return num_granted, num_victims


@compiled
def walk_pool(s, jobs):
    """One walk of a preemptive ranking over a pool of GPUs."""
    open_all(s)
    head = first_open(s)
    if head == NOBODY:
        return
    num_granted, num_victims = walk_counts(s, jobs, gather_rivals(s, jobs, head))
    for k in range(num_granted):
        enqueue(s, jobs, s.granted[k])
    for k in range(num_victims):
        pause(s, jobs, s.victims[k])
    budget = s.num_free
    for k in range(num_granted):
        job = s.granted[k]
        budget -= jobs[job].num_gpus
        if budget >= 0:
            start(s, jobs, job)
