"""What a policy asks that divides CPU cores: readings, moves of CPU jobs and cores, throttles; proposed, not made."""

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cores.cores import (
    change_cores,
    divide,
    note_wishes,
    start_beside_reserves,
)
from gpu_cluster_gym.simulator.kernel.cores.throttling import any_throttled, throttle_one
from gpu_cluster_gym.simulator.kernel.cores.tuning import begin_windows, know, list_running, watch


@compiled
def read(s, jobs, m, tunes):
    """Take readings, once an instant, and note what the running jobs want; the list of moves is empty then."""
    list_running(s, m)
    if m.instant != s.instant and tunes:
        watch(s, jobs, m)
    m.instant = s.instant
    if not tunes:
        for at in range(m.num_running):
            know(m, m.running[at])
            m.want[m.running[at]] = jobs[m.running[at]].cores_each
    note_wishes(s, jobs, m)
    m.num_moves = 0


@compiled
def start_first_on_cores(s, jobs, m, queue):
    """Propose the start of the first of these queued jobs that is a CPU job and fits beside the reserves, if one does.

    It comes after what others give back for it. Tell whether there is one.
    """
    for job in queue:
        barred = jobs[job].num_gpus > 0 or s.last_action_instant[job] == s.instant
        if not barred and start_beside_reserves(s, jobs, m, job):
            return True
    return False


@compiled
def share_anew(s, jobs, m, least_share):
    """Propose the changes by which the cores are divided anew, those that free cores first."""
    m.lacking[: s.num_nodes] = 0.0
    divide(s, jobs, m, least_share)
    change_cores(s, m, False, False)


@compiled
def watch_on(s, jobs, m, tunes):
    """Begin windows where cores have changed; tell whether any is of use, or a job is throttled."""
    list_running(s, m)
    of_use = tunes and begin_windows(s, jobs, m)
    return of_use or any_throttled(s, m)


@entry
def look(states, e, memory, k, jobs, tunes):
    """Take readings, once an instant, and note what the running jobs want; the list of moves is empty then.

    tunes: whether cores are found by trying; else each job wants what it asks for.
    """
    read(states[e], jobs, memory[k], tunes)


@entry
def start_on_cores(states, e, memory, k, jobs, queue, reserve):
    """Propose the start of the first of these queued jobs that is a CPU job and fits beside the reserves, if one does.

    It comes after what others give back for it.
    """
    memory[k].reserve = reserve
    start_first_on_cores(states[e], jobs, memory[k], queue)


@entry
def share(states, e, memory, k, jobs, reserve, least_share):
    """Propose the changes by which the cores are divided anew, those that free cores first."""
    memory[k].reserve = reserve
    share_anew(states[e], jobs, memory[k], least_share)


@entry
def throttle(states, e, memory, k, jobs):
    """Propose one step of throttling or of releasing a CPU job, as the only move; tell whether there is one."""
    memory[k].num_moves = 0
    return throttle_one(states[e], jobs, memory[k])


@entry
def end_instant(states, e, memory, k, jobs, tunes):
    """Begin windows where cores have changed; tell whether any is of use, or a job is throttled."""
    return watch_on(states[e], jobs, memory[k], tunes)
