"""Cost of a preemption: the job holds its GPUs without progress while it pauses, and again while it loads.

A paused job holds its resources for `pause_s` without progress; then it is queued again, or resumes on GPUs
reserved for it. Its progress is saved. When it starts again, it holds its GPUs for `load_s` before it runs
(`holding.begin`). Both times are accounted as overhead (`holding.account_overhead`). Pause and load times are
drawn per job from measurements: see docs/rules.md, section "Restart costs".
"""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.holding import join_queue, release, start_ready
from gpu_cluster_gym.simulator.kernel.cluster.layout import PAUSING, RESERVED, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.machines import note_occupancy_change
from gpu_cluster_gym.simulator.kernel.cluster.node_bounds import update_bounds
from gpu_cluster_gym.simulator.kernel.cluster.progress import bank, note_saved, retire, schedule
from gpu_cluster_gym.simulator.kernel.cluster.tenants import note_held


@compiled
def may_pause(s, job):
    """Return whether a job runs and was not started at this instant."""
    return s.phase[job] == RUNNING and s.last_action_instant[job] != s.instant


@compiled
def pause(s, jobs, job):
    """Preempt a running job by decision of the policy; its tenant may hand over the GPUs to another of its jobs."""
    if s.num_tenants > 0:
        note_held(s, s.tenant[job])
    preempt(s, jobs, job)


@compiled
def preempt(s, jobs, job):
    """Preempt a running job; it holds its GPUs until the pause is done."""
    s.preemptions[job] += 1
    s.num_pauses += 1
    save(s, jobs, job)


@compiled
def end_pause(s, jobs, job):
    """End a pause: release the GPUs, then queue the job or let it resume where GPUs are reserved for it."""
    note_saved(s, job)
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
    """Stop a running job and start saving its progress."""
    bank(s, job)
    s.saved[job] = 1
    s.last_action_instant[job] = s.instant
    if jobs[job].pause_s > 0:
        s.phase[job] = PAUSING
        update_bounds(s, jobs, job)
        s.phase_began[job] = s.clock
        note_occupancy_change(s, job, True)
        schedule(s, job, s.clock + jobs[job].pause_s)
    # A pause of length 0 is skipped within the instant.
    else:
        end_pause(s, jobs, job)
        start_ready(s, jobs)
