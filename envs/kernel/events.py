"""How time moves: what ends, arrives or changes level at the next instant."""

import numpy as np

from envs.kernel import heaps
from envs.kernel._compile import compiled
from envs.kernel.layout import DONE, LOADING, NOBODY, PAUSING, QUEUED, RESERVED, RUNNING
from envs.kernel.queues import enqueue, ever_ran


@compiled
def is_free(s, gpu):
    """Tell whether a GPU is neither held nor reserved."""
    return s.holder[gpu] == NOBODY and s.heir[gpu] == NOBODY


@compiled
def count_free(s, gpu, change):
    """Count a GPU in (1) or out of (-1) the free ones of its node."""
    node = s.gpu_node[gpu]
    level = s.node_level[node]
    s.bucket[level, s.free[node]] -= 1
    s.free[node] += change
    s.bucket[level, s.free[node]] += 1
    s.num_free += change


@compiled
def hold(s, jobs, job, gpus):
    """Give the job free GPUs, and its share of memory and cores."""
    chain = NOBODY
    for k in range(jobs[job].num_gpus - 1, -1, -1):
        gpu = gpus[k]
        count_free(s, gpu, -1)
        s.holder[gpu] = job
        s.free_memory[gpu] -= jobs[job].memory
        s.free_cores[s.gpu_node[gpu]] -= jobs[job].cores
        s.next_gpu[gpu] = chain
        chain = gpu
    s.first_gpu[job] = chain


@compiled
def release(s, jobs, job):
    """Take back all that the job holds; a GPU that is reserved becomes its heir's, who starts with the last."""
    gpu = s.first_gpu[job]
    s.first_gpu[job] = NOBODY
    while gpu != NOBODY:
        after = s.next_gpu[gpu]
        node = s.gpu_node[gpu]
        s.holder[gpu] = NOBODY
        s.free_memory[gpu] = s.node_memory[node]
        s.free_cores[node] += jobs[job].cores
        heir = s.heir[gpu]
        if heir == NOBODY:
            count_free(s, gpu, 1)
            if s.free[node] == s.node_gpus[node]:
                s.free_cores[node] = s.node_cores[node]  # no rounding is carried along
        else:
            s.awaited[heir] -= 1
            if s.awaited[heir] == 0:
                inherit(s, jobs, heir)
        gpu = after


@compiled
def reserve(s, jobs, job, gpus):
    """Keep GPUs, free or about to be, for a job that has left the queue."""
    s.phase[job] = RESERVED
    s.awaited[job] = 0
    for k in range(jobs[job].num_gpus):
        gpu = gpus[k]
        if s.holder[gpu] == NOBODY:
            count_free(s, gpu, -1)
        else:
            s.awaited[job] += 1
        s.heir[gpu] = job


@compiled
def inherit(s, jobs, job):
    """Start a job on the GPUs reserved for it: the last of them has been released."""
    gpus = s.inherited
    count = 0
    for gpu in range(s.num_gpus):
        if s.heir[gpu] == job:
            s.heir[gpu] = NOBODY
            count_free(s, gpu, 1)
            gpus[count] = gpu
            count += 1
    s.wait[job] += s.clock - s.since[job]
    begin(s, jobs, job, gpus)


@compiled
def begin(s, jobs, job, gpus):
    """Let a job hold free GPUs: it runs, or loads first if it was paused before."""
    s.touched[job] = s.instant
    hold(s, jobs, job, gpus)
    if not ever_ran(s, job):
        s.start[job] = s.clock
        run(s, jobs, job)
    elif jobs[job].load > 0:
        s.phase[job] = LOADING
        s.since[job] = s.clock
        schedule(s, job, s.clock + jobs[job].load)
    else:
        run(s, jobs, job)


@compiled
def schedule(s, job, time):
    """Set the next event of a job, active or not so far."""
    known = s.place_in_events[job] != NOBODY
    s.event_at[job] = time
    if known:
        at = s.place_in_events[job]
        heaps.rise(s.events, 0, s.place_in_events, s.event_at, at)
        heaps.sink(s.events, 0, s.num_active, s.place_in_events, s.event_at, s.place_in_events[job])
    else:
        heaps.push(s.events, 0, s.num_active, s.place_in_events, s.event_at, job)
        s.num_active += 1


@compiled
def retire(s, job):
    """Take a job out of the events: it holds nothing any more."""
    heaps.remove(s.events, 0, s.num_active, s.place_in_events, s.event_at, job)
    s.num_active -= 1
    s.place_in_events[job] = NOBODY


@compiled
def finish_time(s, jobs, job):
    """When a running job will end, at the speed it runs now."""
    return s.since[job] + (jobs[job].duration - s.attained[job])


@compiled
def run(s, jobs, job):
    """Begin to make progress."""
    s.phase[job] = RUNNING
    s.since[job] = s.clock
    time = finish_time(s, jobs, job)
    if s.level[job] < s.num_limits:
        limit = s.limits[s.level[job]] / jobs[job].num_gpus
        time = min(time, s.clock + (limit - s.attained[job]))
    schedule(s, job, time)


@compiled
def queue_again(s, jobs, job):
    """End a pause: the GPUs are free, the job waits."""
    release(s, jobs, job)
    retire(s, job)
    s.phase[job] = QUEUED
    s.since[job] = s.clock
    s.num_queued += 1
    enqueue(s, jobs, job)


@compiled
def complete(s, jobs, job):
    """End a job."""
    release(s, jobs, job)
    retire(s, job)
    s.attained[job] = jobs[job].duration
    s.phase[job] = DONE
    s.finish[job] = s.clock
    s.num_done += 1


@compiled
def rise_level(s, jobs, job):
    """Move a running job to the next lower queue of a ranking by level."""
    s.level[job] += 1
    time = finish_time(s, jobs, job)
    if s.level[job] < s.num_limits:
        limit = s.limits[s.level[job]] / jobs[job].num_gpus
        time = min(time, s.since[job] + (limit - s.attained[job]))
    schedule(s, job, time)


@compiled
def handle(s, jobs, job):
    """Carry out the event of a job that is due."""
    if s.phase[job] == PAUSING:
        s.overhead[job] += s.clock - s.since[job]
        queue_again(s, jobs, job)
    elif s.phase[job] == LOADING:
        s.overhead[job] += s.clock - s.since[job]
        run(s, jobs, job)
    elif s.clock >= finish_time(s, jobs, job):
        complete(s, jobs, job)
    else:
        rise_level(s, jobs, job)


@compiled
def next_tick(s):
    """Return the first multiple of the tick after now."""
    count = np.floor(s.clock / s.tick) - 1
    while count * s.tick <= s.clock:
        count += 1
    return count * s.tick


@compiled
def next_event(s, jobs):
    """When something happens by itself: an end or an arrival; infinite if nothing is pending."""
    time = np.inf
    if s.num_active > 0:
        time = s.event_at[s.events[0]]
    if s.num_arrived < s.num_jobs:
        time = min(time, jobs[s.num_arrived].submit)
    return time


@compiled
def advance(s, jobs):
    """Move to the next instant and let happen what happens; tell whether there was one.

    Order within an instant: all that ends, then arrivals, then level changes and ticks.
    """
    time = min(next_event(s, jobs), s.wake)
    if s.tick > 0 and s.num_queued > 0:
        time = min(time, next_tick(s))
    if time == np.inf:
        return False
    s.present_seconds += (time - s.clock) * (s.num_arrived - s.num_done)
    s.clock = time
    s.instant += 1
    s.wake = np.inf
    while s.num_active > 0 and s.event_at[s.events[0]] <= s.clock:
        handle(s, jobs, s.events[0])
    while s.num_arrived < s.num_jobs and jobs[s.num_arrived].submit <= s.clock:
        job = s.num_arrived
        s.num_arrived += 1
        s.phase[job] = QUEUED
        s.since[job] = s.clock
        s.num_queued += 1
        enqueue(s, jobs, job)
    return True
