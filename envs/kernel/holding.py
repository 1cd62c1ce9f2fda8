"""How a job comes to hold GPUs or cores, and how it loses them."""

import numpy as np

from envs.kernel._compile import compiled
from envs.kernel.layout import (
    GROWING,
    LOADING,
    MAX_SHARE,
    NOBODY,
    PAUSING,
    QUEUED,
    RESERVED,
    RESTARTING,
    RUNNING,
)
from envs.kernel.machines import (
    ROUNDING,
    count_cores,
    count_free,
    hold,
    hold_cores,
    leave_seat,
    note_change_around,
    take_cores,
    tidy_cores,
)
from envs.kernel.memory import charge, grows_later, victim_on
from envs.kernel.pace import retire, run, schedule
from envs.kernel.queues import enqueue
from envs.kernel.speed import bank


@compiled
def release(s, jobs, job):
    """Take back all that the job holds; a GPU that is reserved becomes its heir's."""
    note_change_around(s, job)
    count_cores(s, jobs, job)
    seat = s.first_seat[job]
    s.first_seat[job] = NOBODY
    if s.node_of[job] != NOBODY:
        take_cores(s, s.node_of[job], -s.core_count[job])
        s.node_of[job] = NOBODY
    while seat != NOBODY:
        after = s.next_seat[seat]
        gpu = seat // MAX_SHARE
        if leave_seat(s, jobs, job, seat):
            pass_on(s, gpu)
        seat = after
    s.charged[job] = 0
    s.throttle[job] = 1.0


@compiled
def pass_on(s, gpu):
    """Count a GPU that nobody holds any more as free, or as there for its heir, who is ready with the last."""
    heir = s.heir[gpu]
    if heir == NOBODY:
        count_free(s, gpu, 1)
        tidy_cores(s, s.gpu_node[gpu])
        return
    s.awaited[heir] -= 1
    if s.awaited[heir] == 0:
        s.ready[s.num_ready] = heir
        s.num_ready += 1


@compiled
def reserve(s, jobs, job, gpus, cores):
    """Keep GPUs, free or about to be, for a job that has left the queue."""
    s.phase[job] = RESERVED
    s.core_count[job] = cores
    s.awaited[job] = 0
    for k in range(jobs[job].num_gpus):
        gpu = gpus[k]
        if s.holder[gpu] == NOBODY:
            count_free(s, gpu, -1)
        else:
            s.awaited[job] += 1
        s.heir[gpu] = job


@compiled
def start_ready(s, jobs):
    """Start the jobs all of whose reserved GPUs are there, by job."""
    while s.num_ready > 0:
        first = 0
        for k in range(s.num_ready):
            if s.ready[k] < s.ready[first]:
                first = k
        job = s.ready[first]
        s.num_ready -= 1
        s.ready[first] = s.ready[s.num_ready]
        inherit(s, jobs, job)


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
    begin(s, jobs, job, gpus, s.core_count[job], NOBODY)


@compiled
def begin(s, jobs, job, gpus, cores, node):
    """Let a job hold free GPUs, or cores of a node: it runs, or loads first what a pause has saved."""
    s.touched[job] = s.instant
    if jobs[job].num_gpus > 0:
        hold(s, jobs, job, gpus, cores)
    else:
        hold_cores(s, jobs, job, node, cores)
    if not grows_later(s, jobs, job):
        s.charged[job] = GROWING
    if np.isnan(s.start[job]):
        s.start[job] = s.clock
    if s.saved[job] and jobs[job].load > 0:
        s.phase[job] = LOADING
        s.since[job] = s.clock
        schedule(s, job, s.clock + jobs[job].load)
    else:
        run(s, jobs, job)
    note_change_around(s, job)
    if s.charged[job] == GROWING:
        fill(s, jobs, job)


@compiled
def fill(s, jobs, job):
    """Let a job take its peak memory; where that runs over a victim fails."""
    gpu = charge(s, jobs, job)
    while gpu != NOBODY:
        fail(s, jobs, victim_on(s, gpu, job))
        gpu = first_over(s, job)


@compiled
def first_over(s, job):
    """Return the first GPU of an active job whose memory runs over, or NOBODY."""
    seat = s.first_seat[job]
    while seat != NOBODY:
        if s.free_memory[seat // MAX_SHARE] < -ROUNDING:
            return seat // MAX_SHARE
        seat = s.next_seat[seat]
    return NOBODY


@compiled
def fail(s, jobs, job):
    """Let a job run out of memory: all progress is lost, and it is queued again after a delay."""
    if s.phase[job] == RUNNING:
        bank(s, job)
    elif s.phase[job] == LOADING or s.phase[job] == PAUSING:
        s.overhead[job] += s.clock - s.since[job]
    s.lost[job] += s.attained[job] + s.delay[job]
    s.attained[job] = 0.0
    s.delay[job] = 0.0
    s.saved[job] = 0
    s.ooms[job] += 1
    s.touched[job] = s.instant
    release(s, jobs, job)
    s.phase[job] = RESTARTING
    s.since[job] = s.clock
    schedule(s, job, s.clock + s.restart_delay)


@compiled
def queue_again(s, jobs, job):
    """End a pause: the GPUs are free, the job waits."""
    release(s, jobs, job)
    retire(s, job)
    s.since[job] = s.clock
    join_queue(s, jobs, job)


@compiled
def join_queue(s, jobs, job):
    """Let a job wait."""
    s.phase[job] = QUEUED
    s.num_queued += 1
    enqueue(s, jobs, job)
