"""What a pause costs: while it lasts, and while the job loads afterwards, GPUs are held without progress.

A running job that is paused holds what it has for `pause_s`, in which nothing is done; then it is queued again, or goes
on where GPUs are kept for it. What it has attained is saved. When it starts again it holds its GPUs for `load_s` before
it runs (`holding.begin`). Both are booked as overhead (`holding.book_overhead`).
"""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.holding import join_queue, release, start_ready
from gpu_cluster_gym.simulator.kernel.cluster.layout import PAUSING, RESERVED, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.machines import note_coming_or_going
from gpu_cluster_gym.simulator.kernel.cluster.node_bounds import note_pace
from gpu_cluster_gym.simulator.kernel.cluster.progress import bank, keep, retire, schedule


@compiled
def may_pause(s, job):
    """Tell whether a job runs and was not started at this very instant."""
    return s.phase[job] == RUNNING and s.last_action_instant[job] != s.instant


@compiled
def pause(s, jobs, job):
    """Begin to pause a running job; it holds its GPUs until the pause is done."""
    s.preemptions[job] += 1
    s.num_pauses += 1
    save(s, jobs, job)


@compiled
def end_pause(s, jobs, job):
    """End a pause: the GPUs are free, the job waits, or goes on where GPUs are kept for it."""
    keep(s, job)
    release(s, jobs, job)
    retire(s, job)
    s.phase_began[job] = s.clock
    if not s.moves[job]:
        join_queue(s, jobs, job)
        return
    s.moves[job] = 0
    s.phase[job] = RESERVED
    if s.awaited[job] == 0:
        s.ready[s.num_ready] = job
        s.num_ready += 1


@compiled
def save(s, jobs, job):
    """Let a running job save its progress and stop."""
    bank(s, job)
    s.saved[job] = 1
    s.last_action_instant[job] = s.instant
    if jobs[job].pause_s > 0:
        s.phase[job] = PAUSING
        note_pace(s, jobs, job)
        s.phase_began[job] = s.clock
        note_coming_or_going(s, job, True)
        schedule(s, job, s.clock + jobs[job].pause_s)
    else:
        end_pause(s, jobs, job)
        start_ready(s, jobs)
