"""How time moves: what ends, arrives or changes level at the next instant."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.holding import (
    book_overhead,
    fall_back,
    fill,
    join_queue,
    release,
    start_ready,
)
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    DONE,
    GROWING,
    LOADING,
    PAUSING,
    RESTARTING,
    RUNNING,
)
from gpu_cluster_gym.simulator.kernel.cluster.outages import change_nodes
from gpu_cluster_gym.simulator.kernel.cluster.pausing import end_pause
from gpu_cluster_gym.simulator.kernel.cluster.progress import (
    crash_time,
    finish_time,
    grow_time,
    plan,
    predict_time,
    refresh,
    retire,
    rise_time,
    run,
)
from gpu_cluster_gym.simulator.kernel.cluster.speed import bank


@compiled
def complete(s, jobs, job):
    """End a job."""
    bank(s, job)
    release(s, jobs, job)
    retire(s, job)
    s.attained_s[job] = jobs[job].duration_s
    s.phase[job] = DONE
    s.finish_s[job] = s.clock
    s.done_in_order[s.num_done] = job
    s.num_done += 1


@compiled
def handle(s, jobs, job):
    """Carry out the event of a job that is due; tell whether its memory is about to grow."""
    if s.phase[job] == PAUSING:
        book_overhead(s, job)
        end_pause(s, jobs, job)
    elif s.phase[job] == LOADING:
        book_overhead(s, job)
        run(s, jobs, job)
    elif s.phase[job] == RESTARTING:
        retire(s, job)
        join_queue(s, jobs, job)  # the delay counts as waiting
    elif s.clock >= finish_time(s, jobs, job):
        complete(s, jobs, job)
    elif s.clock >= crash_time(s, jobs, job):
        s.crashed[job] = 1
        fall_back(s, jobs, job)
    elif s.clock >= grow_time(s, jobs, job):
        s.charged[job] = GROWING  # in earnest when all that ends has ended
        plan(s, jobs, job)
        return True
    else:
        s.level[job] += s.clock >= rise_time(s, jobs, job)
        s.predictable[job] |= s.clock >= predict_time(s, jobs, job)
        plan(s, jobs, job)
    return False


@compiled
def next_tick(s):
    """Return the first multiple of the tick after now."""
    count = np.floor(s.clock / s.tick) - 1
    while count * s.tick <= s.clock:
        count += 1
    return count * s.tick


@compiled
def next_event(s, jobs):
    """When something that may be waited for happens by itself; infinite if nothing is pending.

    An end, an arrival, or a closed node that goes down or is up again.
    """
    time = s.next_opening
    if s.num_active > 0:
        time = s.event_at[s.events[0]]
    if s.num_arrived < s.num_jobs:
        time = min(time, jobs[s.num_arrived].submit_s)
    return time


@compiled
def settle(s, jobs):
    """Carry out all events that are due: what ends, then nodes that close or open, then whose memory grows."""
    count = 0
    while s.num_active > 0 and s.event_at[s.events[0]] <= s.clock:
        job = s.events[0]
        if handle(s, jobs, job):
            s.noted[count] = job
            count += 1
        start_ready(s, jobs)
    if s.clock >= s.next_closing:
        change_nodes(s, jobs)
    for k in range(count):
        job = s.noted[k]
        if s.phase[job] == RUNNING and s.charged[job] == GROWING:
            fill(s, jobs, job)
            start_ready(s, jobs)


@compiled
def arrive(s, jobs):
    """Let the jobs that have been submitted join the queue."""
    while s.num_arrived < s.num_jobs and jobs[s.num_arrived].submit_s <= s.clock:
        s.phase_began[s.num_arrived] = s.clock
        join_queue(s, jobs, s.num_arrived)
        s.num_arrived += 1


@compiled
def advance(s, jobs):
    """Move to the next instant and let happen what happens; tell whether there was one, none if a job never ends.

    Order within an instant: all that ends, nodes that close or open, then arrivals.
    """
    if s.endless:
        return False
    if s.num_changes > 0:
        refresh(s, jobs)
    time = min(next_event(s, jobs), s.wake)
    if s.tick > 0 and s.num_queued > 0:
        tick = next_tick(s)
        s.ticks += tick < min(time, s.next_closing) and time < np.inf
        time = min(time, tick)
    if time == np.inf:
        return False
    time = min(time, s.next_closing)
    s.present_seconds += (time - s.clock) * (s.num_arrived - s.num_done)
    s.clock = time
    s.instant += 1
    s.wake = np.inf
    settle(s, jobs)
    arrive(s, jobs)
    return True


@compiled
def instants_that_count(s):
    """Return how many instants there were but for ticks on the way to an event, of which a long job has many."""
    return s.instant - s.ticks


@compiled
def any_held_back(s):
    """Tell whether a queued job was paused, or failed, at this very instant, so that it may start at the next."""
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            if s.last_action_instant[s.queue[at]] == s.instant:
                return True
    return False


@compiled
def advance_past_ticks(s, jobs):
    """Move to the next instant at which more than a tick happens, or what was held back may start; tell whether one is.

    Every tick on the way is an instant all the same.
    """
    if any_held_back(s):
        return advance(s, jobs)
    while True:
        if s.num_changes > 0:
            refresh(s, jobs)
        until = min(next_event(s, jobs), s.next_closing, s.wake)
        if not advance(s, jobs):
            return False
        if s.clock >= until:
            return True
