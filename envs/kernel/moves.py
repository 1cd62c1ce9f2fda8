"""The things a policy can do to a job: start it on GPUs, reserve GPUs for it, or pause it."""

from envs.kernel._compile import compiled
from envs.kernel.events import begin, queue_again, reserve, schedule
from envs.kernel.layout import NOBODY, PAUSING, RUNNING
from envs.kernel.placement import place
from envs.kernel.queues import dequeue


@compiled
def start_on(s, jobs, job, gpus):
    """Start a queued job on GPUs, or reserve them for it where some are still held by pausing jobs."""
    dequeue(s, jobs, job)
    s.num_queued -= 1
    for k in range(jobs[job].num_gpus):
        if s.holder[gpus[k]] != NOBODY:
            reserve(s, jobs, job, gpus)
            return
    s.wait[job] += s.clock - s.since[job]
    begin(s, jobs, job, gpus)


@compiled
def start(s, jobs, job):
    """Start a queued job where the rule in force puts it; tell whether it fitted."""
    if place(s, jobs, job) == 0:
        return False
    start_on(s, jobs, job, s.gpus)
    return True


@compiled
def pause(s, jobs, job):
    """Begin to pause a running job; it holds its GPUs until the pause is done."""
    s.attained[job] += s.clock - s.since[job]
    s.preemptions[job] += 1
    s.num_pauses += 1
    s.touched[job] = s.instant
    if jobs[job].pause > 0:
        s.phase[job] = PAUSING
        s.since[job] = s.clock
        schedule(s, job, s.clock + jobs[job].pause)
    else:
        queue_again(s, jobs, job)


@compiled
def may_pause(s, job):
    """Tell whether a job runs and was not started at this very instant."""
    return s.phase[job] == RUNNING and s.touched[job] != s.instant
