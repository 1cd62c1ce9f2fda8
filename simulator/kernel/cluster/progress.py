"""Progress of running jobs: accumulating it, and scheduling the next event of each job as its speed changes."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import queues
from gpu_cluster_gym.simulator.kernel.cluster.layout import LOADS, MAX_SHARE, NOBODY, RUNNING, UNCHANGED
from gpu_cluster_gym.simulator.kernel.cluster.machines import note_occupancy_change
from gpu_cluster_gym.simulator.kernel.cluster.node_bounds import update_bounds
from gpu_cluster_gym.simulator.kernel.cluster.readings import bank_readings
from gpu_cluster_gym.simulator.kernel.cluster.speed import (
    demand_on,
    is_rigid,
    links_busy_on,
    pressure_on,
    set_speed,
    shared_fraction_of,
)


@compiled
def schedule(s, job, time):
    """Set the next event of a job, inserting it into the event heap if necessary."""
    known = s.place_in_events[job] != NOBODY
    s.event_at[job] = time
    if known:
        at = s.place_in_events[job]
        queues.rise(s.events, 0, s.place_in_events, s.event_at, at)
        queues.sink(s.events, 0, s.num_active, s.place_in_events, s.event_at, s.place_in_events[job])
    else:
        queues.push(s.events, 0, s.num_active, s.place_in_events, s.event_at, job)
        s.num_active += 1


@compiled
def retire(s, job):
    """Remove a job without further events from the event heap."""
    queues.remove(s.events, 0, s.num_active, s.place_in_events, s.event_at, job)
    s.num_active -= 1
    s.place_in_events[job] = NOBODY


@compiled
def share_time(s, jobs, job, share):
    """Return when a running job will reach this fraction of its progress, at its current speed."""
    return s.banked[job] + (share * jobs[job].duration_s - s.attained_s[job]) / s.rate[job]


@compiled
def finish_time(s, jobs, job):
    """Return when a running job will finish, at its current speed."""
    return share_time(s, jobs, job, 1.0)


@compiled
def grow_time(s, jobs, job):
    """Return when a running job will need its peak memory, at its current speed; infinity if it already has it."""
    if s.charged[job]:
        return np.inf
    return share_time(s, jobs, job, s.peak_at)


@compiled
def rise_time(s, jobs, job):
    """Return when a running job will rise a level: after a number of GPU-seconds of running, whatever its speed."""
    if s.level[job] >= s.num_limits or s.width[job] == 0:
        return np.inf
    ran = s.attained_s[job] + s.delay_s[job] + s.lost_s[job]
    # The number of GPUs of an elastic job changes: divide its GPU-seconds by the current number.
    if not is_rigid(jobs, job):
        ran = (s.run_gpu_s[job] + s.lost_gpu_s[job]) / s.width[job]
    return s.banked[job] + (s.limits[s.level[job]] / s.width[job] - ran)


@compiled
def crash_time(s, jobs, job):
    """Return when a running job will crash by itself; infinity if it does not, or has already done so."""
    if s.crashed[job] or not 0 < jobs[job].crash_at < 1:
        return np.inf
    return share_time(s, jobs, job, jobs[job].crash_at)


@compiled
def predict_time(s, jobs, job):
    """Return when the estimate of a running job will become good; infinity if it already is, or never will be."""
    if s.predictable[job] or jobs[job].predictable_from >= 1:
        return np.inf
    return share_time(s, jobs, job, jobs[job].predictable_from)


@compiled
def plan(s, jobs, job):
    """Schedule the next event of a running job."""
    # The earliest of: finish, growth of memory, rise of level, crash, good estimate. Never in the past,
    # despite rounding.
    time = min(finish_time(s, jobs, job), grow_time(s, jobs, job), rise_time(s, jobs, job))
    time = min(time, crash_time(s, jobs, job), predict_time(s, jobs, job))
    schedule(s, job, max(time, s.clock))
    update_bounds(s, jobs, job)


@compiled
def note_saved(s, job):
    """Record that the attained progress is saved."""
    s.checkpointed_s[job] = s.attained_s[job]
    s.checkpointed_wall_s[job] = s.attained_s[job] + s.delay_s[job]


@compiled
def run(s, jobs, job):
    """Start making progress."""
    s.phase[job] = RUNNING
    s.phase_began[job] = s.clock
    s.banked[job] = s.read_at[job] = s.clock
    # Progress at the start of running is saved: a failure returns at least to it.
    note_saved(s, job)
    s.shared_fraction[job] = shared_fraction_of(s, jobs, job)
    set_speed(s, jobs, job)
    note_occupancy_change(s, job, True)
    plan(s, jobs, job)


@compiled
def bank(s, job):
    """Accumulate what a running job has done at its current rates since the last call."""
    bank_readings(s, job)
    spent = s.clock - s.banked[job]
    # Wall-clock time splits into progress (at `rate`) and delay.
    s.attained_s[job] += s.rate[job] * spent
    s.delay_s[job] += (1.0 - s.rate[job]) * spent
    # GPU time counts as busy only up to the last submission, so that the drain of a window does not dilute
    # utilisation.
    s.busy_s[job] += s.efficiency[job] * spent
    s.busy_gpu_s[job] += (
        s.width[job] * s.efficiency[job] * max(min(s.clock, s.busy_until) - s.banked[job], 0.0)
    )
    s.shared_s[job] += s.shared_fraction[job] * spent
    s.shared_gpu_s[job] += s.width[job] * s.shared_fraction[job] * spent
    s.run_gpu_s[job] += s.width[job] * spent
    s.banked[job] = s.clock


@compiled
def bank_previous(s, job, read, used):
    """Bank the readings of a running job with its state (`read`) and efficiency (`used`) before a change around it."""
    new_read, new_used = s.undisturbed[job], s.efficiency[job]
    s.undisturbed[job], s.efficiency[job] = read, used
    bank_readings(s, job)
    s.undisturbed[job], s.efficiency[job] = new_read, new_used


@compiled
def retune(s, jobs, job):
    """Recompute the speed of a running job after a change around it."""
    shared = shared_fraction_of(s, jobs, job)
    rate, used, read = s.rate[job], s.efficiency[job], s.undisturbed[job]
    set_speed(s, jobs, job)
    if read != s.undisturbed[job]:
        bank_previous(s, job, read, used)
    if rate == s.rate[job] and used == s.efficiency[job] and shared == s.shared_fraction[job]:
        return
    # Progress up to now was made at the old rate and efficiency: restore them, bank, then apply the new ones.
    new_rate, new_used = s.rate[job], s.efficiency[job]
    s.rate[job], s.efficiency[job] = rate, used
    bank(s, job)
    s.rate[job], s.efficiency[job], s.shared_fraction[job] = new_rate, new_used, shared
    plan(s, jobs, job)


@compiled
def refresh(s, jobs):
    """Recompute speeds on all nodes with pending changes."""
    affects = False
    for k in range(s.num_changes):
        node = s.changes[k]
        pressure, links = pressure_on(s, node), s.links_busy[node]
        s.demanded_gbs[node] = demand_on(s, jobs, node)
        s.links_busy[node] = links_busy_on(s, jobs, node)
        feels_it = pressure != pressure_on(s, node) or links != s.links_busy[node]
        # Loads may change without effect, for instance below `pressure_from`: no job needs a new speed then.
        if not feels_it and s.changed[node] == LOADS:
            s.changed[node] = UNCHANGED
        affects |= s.changed[node] != UNCHANGED
    if affects:
        # Rescheduling reorders the event heap: iterate over a copy.
        for k in range(s.num_active):
            s.noted[k] = s.events[k]
        for k in range(s.num_active):
            job = s.noted[k]
            if s.phase[job] == RUNNING and is_affected(s, job):
                retune(s, jobs, job)
    for k in range(s.num_changes):
        s.changed[s.changes[k]] = UNCHANGED
    s.num_changes = 0


@compiled
def is_affected(s, job):
    """Return whether an active job is on a node with a pending change."""
    if s.node_of[job] != NOBODY:
        return s.changed[s.node_of[job]] != UNCHANGED
    slot = s.first_slot[job]
    while slot != NOBODY:
        if s.changed[s.gpu_node[slot // MAX_SHARE]]:
            return True
        slot = s.next_slot[slot]
    return False
