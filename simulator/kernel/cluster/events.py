"""Event loop: what finishes, fails, arrives or changes at the next instant; discounted cost of time."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster import queues
from gpu_cluster_gym.simulator.kernel.cluster.holding import (
    account_overhead,
    allocate_peak_memory,
    fail_to_checkpoint,
    join_queue,
    release,
    start_ready,
)
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    DONE,
    GROWING,
    HELD,
    LOADING,
    NO_BORROWING,
    PAUSING,
    RECLAIM,
    RESTARTING,
    RUNNING,
    STALL_INSTANTS,
    STALL_INSTANTS_PER_JOB,
    STALL_WORK_S,
    STALLED,
)
from gpu_cluster_gym.simulator.kernel.cluster.outages import change_nodes
from gpu_cluster_gym.simulator.kernel.cluster.pausing import end_pause
from gpu_cluster_gym.simulator.kernel.cluster.progress import (
    bank,
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
from gpu_cluster_gym.simulator.kernel.cluster.reclaim import take_back


@compiled
def complete(s, jobs, job):
    """Finish a job."""
    bank(s, job)
    release(s, jobs, job)
    retire(s, job)
    s.attained_s[job] = jobs[job].duration_s
    s.phase[job] = DONE
    s.finish_s[job] = s.clock
    s.done_in_order[s.num_done] = job
    s.num_done += 1
    if s.num_dependencies > 0:
        let_go(s, jobs, job)


@compiled
def let_go(s, jobs, job):
    """Queue the held jobs for which the end of a job was the last that they waited for."""
    begin = s.dependents_end[job - 1] if job > 0 else 0
    for at in range(begin, s.dependents_end[job]):
        other = s.dependents[at]
        s.unmet[other] -= 1
        if s.unmet[other] == 0 and s.phase[other] == HELD:
            s.num_held -= 1
            join_queue(s, jobs, other)  # the time until now counts as waiting


@compiled
def handle(s, jobs, job):
    """Carry out the due event of a job; return whether its memory is about to grow."""
    if s.phase[job] == PAUSING:
        account_overhead(s, job)
        end_pause(s, jobs, job)
    elif s.phase[job] == LOADING:
        account_overhead(s, job)
        run(s, jobs, job)
    elif s.phase[job] == RESTARTING:
        retire(s, job)
        join_queue(s, jobs, job)  # the delay counts as waiting
    # A running job may have several reasons for its event; the order of these tests decides.
    elif s.clock >= finish_time(s, jobs, job):
        complete(s, jobs, job)
    elif s.clock >= crash_time(s, jobs, job):
        s.crashed[job] = 1
        fail_to_checkpoint(s, jobs, job)
    elif s.clock >= grow_time(s, jobs, job):
        s.charged[job] = GROWING  # allocated only after all events of the instant have released resources
        plan(s, jobs, job)
        return True
    else:
        s.level[job] += s.clock >= rise_time(s, jobs, job)
        s.predictable[job] |= s.clock >= predict_time(s, jobs, job)
        plan(s, jobs, job)
    return False


@compiled
def next_tick(s):
    """Return the first multiple of the tick after the current time."""
    count = np.floor(s.clock / s.tick) - 1
    # Floating-point division may be off by one; step until the product exceeds the clock.
    while count * s.tick <= s.clock:
        count += 1
    return count * s.tick


@compiled
def next_event(s, jobs):
    """Return the next time at which something happens without a policy's action; infinity if nothing is pending.

    That is a job's event, an arrival, or a closed node that goes down or comes up.
    """
    time = s.next_opening
    if s.num_active > 0:
        time = s.event_at[s.events[0]]
    if s.num_arrived < s.num_jobs:
        time = min(time, jobs[s.num_arrived].submit_s)
    return time


@compiled
def settle(s, jobs):
    """Carry out all due events: first jobs' events, then closing and opening nodes, then growing memory."""
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
        # Memory grows last, and only for jobs that still run after all that ended or failed.
        if s.phase[job] == RUNNING and s.charged[job] == GROWING:
            allocate_peak_memory(s, jobs, job)
            start_ready(s, jobs)


@compiled
def arrive(s, jobs):
    """Queue the jobs that have been submitted; those that wait for other jobs are held."""
    while s.num_arrived < s.num_jobs and jobs[s.num_arrived].submit_s <= s.clock:
        s.phase_began[s.num_arrived] = s.clock
        if s.unmet[s.num_arrived] > 0:
            s.phase[s.num_arrived] = HELD
            s.num_held += 1
        else:
            join_queue(s, jobs, s.num_arrived)
        s.num_arrived += 1


@compiled
def advance(s, jobs):
    """Advance to the next instant and carry out its events; return whether there was one.

    There is none if nothing is pending, if a job never ends, or if jobs make no progress. Order within an instant:
    everything that ends, nodes that close or open, arrivals, tenants that take GPUs back.
    """
    if s.endless:
        return False
    if instants_that_count(s) >= s.next_look and is_stalled(s):
        s.endless = STALLED
        return False
    if s.num_changes > 0:
        refresh(s, jobs)
    time = min(next_event(s, jobs), s.wake)
    # Ticks pass only while a job is queued. `ticks` counts those that another event follows.
    if s.tick > 0 and s.num_queued > 0:
        tick = next_tick(s)
        s.ticks += tick < min(time, s.next_closing) and time < np.inf
        time = min(time, tick)
    was_idle, s.idle = s.idle, s.borrowing != NO_BORROWING and s.num_active == 0 and s.num_queued > 0
    if time == np.inf:
        if was_idle or not s.idle:
            return False
        time = s.clock  # once more, since claims are void now
    # A node that closes does not count as pending (checked above), but closes on time.
    time = min(time, s.next_closing)
    # Integral of the number of jobs present: the undiscounted cost of rewards.
    s.present_seconds += (time - s.clock) * (s.num_arrived - s.num_done)
    s.clock = time
    s.instant += 1
    s.wake = np.inf
    settle(s, jobs)
    arrive(s, jobs)
    if s.borrowing == RECLAIM:
        take_back(s, jobs)
    return True


@compiled
def instants_that_count(s):
    """Return the number of instants except ticks before another event, of which a long job has many."""
    return s.instant - s.ticks


@compiled
def is_stalled(s):
    """Return whether the jobs present have made no progress since the last look, and set the time of the next one.

    Progress is an arrival, a completion, or work of STALL_WORK_S per instant, lost work included: what fails is bounded
    by MAX_FAILURES. Work is measured only once a span has passed without arrivals and completions.
    """
    present = s.num_arrived - s.num_done
    span = STALL_INSTANTS + STALL_INSTANTS_PER_JOB * present
    s.next_look = instants_that_count(s) + span
    milestones = s.num_arrived + s.num_done
    if present == 0 or milestones != s.seen_milestones:
        s.seen_milestones = milestones
        s.seen_work_s = -1.0
        return False
    work = work_of_present(s)
    if s.seen_work_s >= 0 and work - s.seen_work_s < STALL_WORK_S * span:
        return True
    s.seen_work_s = work
    return False


@compiled
def work_of_present(s):
    """Return the work done for the jobs present, lost work included, s."""
    work = 0.0
    for job in range(s.num_arrived):
        if s.phase[job] != DONE:
            work += queues.attained_now(s, job) + s.lost_s[job]
    return work


@compiled
def any_held_back(s):
    """Return whether a queued job was paused or failed at this instant, so that it may start only at the next."""
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            if s.last_action_instant[s.queue[at]] == s.instant:
                return True
    return False


@compiled
def advance_past_ticks(s, jobs):
    """Advance past instants that are only ticks; return whether there was another instant.

    Stops at the next instant at which something else happens, or at which a held-back job may start. Each tick
    on the way is an instant, too.
    """
    if any_held_back(s):
        return advance(s, jobs)
    wake = s.wake
    while True:
        if s.num_changes > 0:
            refresh(s, jobs)
        s.wake = wake  # a tick on the way does not end a timed wait
        until = min(next_event(s, jobs), s.next_closing, wake)
        if s.tick > 0 and s.num_queued > 0 and until < np.inf:
            skip_ticks(s, until)
        if not advance(s, jobs):
            return False
        if s.clock >= until:
            return True


@compiled
def skip_ticks(s, until):
    """Pass all ticks but the last one before a time, at which nothing happens."""
    last = np.ceil(until / s.tick)
    while last * s.tick >= until:
        last -= 1
    passed = last - next_tick(s) / s.tick
    if passed >= 1:
        last -= 1
        s.present_seconds += (last * s.tick - s.clock) * (s.num_arrived - s.num_done)
        s.clock = last * s.tick
        s.instant += np.int64(np.round(passed))
        s.ticks += np.int64(np.round(passed))


HORIZON = 4.0  # time constants after which rollouts are cut


@compiled
def discounted(present, begin, end, tau):
    """Return the integral of exp(-u / tau) over [begin, end], times the number of jobs present."""
    if tau == np.inf:
        return present * (end - begin)
    return present * tau * (np.exp(-begin / tau) - np.exp(-end / tau))


@compiled
def step_cost(s, jobs, origin, tau):
    """Advance to the next instant; return the discounted job-seconds on the way, or -1 if there is no next instant."""
    begin = s.clock - origin
    present = s.num_arrived - s.num_done
    if not advance(s, jobs):
        return -1.0
    return discounted(present, begin, min(s.clock - origin, HORIZON * tau), tau)
