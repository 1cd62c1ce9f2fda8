"""Instants at which no queued job can be picked, told without a look at each."""

import numpy as np

from simulator.kernel import bounds
from simulator.kernel._compile import compiled
from simulator.kernel.clearing import LEAST_RUN
from simulator.kernel.cost_aware import fewest_of, may_pay, widest_running
from simulator.kernel.displacing import clear_best_listed, fits, gang_may_find
from simulator.kernel.events import next_event, next_tick
from simulator.kernel.layout import ROUNDING, RUNNING, WEIGHTED
from simulator.kernel.placement import largest_node
from simulator.kernel.queues import LEAST_SECONDS, LEAST_SHARE, attained_now
from simulator.kernel.sight import list_holders, sort_ends
from simulator.kernel.standing import effort_of

CLOSE = 1e-3  # s; times nearer than this may change their order by rounding


@compiled
def surely_no_choice(s, jobs, sight):
    """Tell, looking at the first of each request class alone, that no queued job can be picked.

    It needs no more than those behind it under a rule by weighted time, but for rounding.
    """
    if s.num_queued == 0:
        return True
    if s.key != WEIGHTED:
        return False
    least = np.inf
    may = False
    widest, longest = widest_running(s), longest_left(s)
    for request_class in range(s.num_classes):
        if s.queue_size[request_class] > 0:
            job = s.queue[s.queue_start[request_class]]
            if (
                jobs[job].num_gpus == 0
                or s.last_action_instant[job] == s.instant
                or fits(s, jobs, sight, job)
            ):
                return False
            effort = effort_of(s, jobs, sight, job) * (1.0 - ROUNDING)
            least = min(least, effort)
            may = may or may_gain(s, jobs, job, effort, widest, longest)
    sight.least_effort = least
    return not may or all_hopeless(s, jobs, sight)


@compiled
def longest_left(s):
    """Seconds of run time that any running job has left at most."""
    longest = 0.0
    for node in range(s.num_nodes):
        longest = max(longest, bounds.most_left(s, node))
    return longest


@compiled
def may_gain(s, jobs, job, effort, widest, longest):
    """Tell what `may_pay` tells of free pauses, at once where no job that runs has enough left.

    widest: see `cost_aware.widest_running`. longest: see `longest_left`.
    """
    wanted = jobs[job].num_gpus
    if wanted > s.num_free and longest <= fewest_of(s, wanted, widest) * effort:
        return False
    return may_pay(s, jobs, job, effort, 0.0)


@compiled
def all_hopeless(s, jobs, sight):
    """Tell that of no request class, of whose first all is known and none fits, a job displaces anybody."""
    sort_ends(s, jobs, sight)
    for request_class in range(s.num_classes):
        first = s.queue[s.queue_start[request_class]]
        if s.queue_size[request_class] > 0 and not is_hopeless(s, jobs, sight, first):
            return False
    for node in range(s.num_nodes):
        if sight.tight_at[node] == s.node_stamp[node]:
            continue
        if bounds.most_left(s, node) > longest_holder(s, sight, node) + bounds.HAIR:
            bounds.tighten(s, jobs, node)
            sight.tight_at[node] = s.node_stamp[node]
    return True


@compiled
def is_hopeless(s, jobs, sight, job):
    """Tell whether neither the first of a request class, which does not fit, nor one behind it displaces anybody."""
    wanted = jobs[job].num_gpus
    effort = sight.effort[job] * (1.0 - ROUNDING)
    if wanted == 0 or sight.most_left <= effort:
        return True
    if not sight.are_listed:
        list_holders(s, sight)
    if wanted > largest_node(s, jobs, job):
        return not gang_may_find(s, jobs, sight, job, effort)
    if jobs[job].servers > 0:
        return False
    clear_best_listed(s, jobs, sight, job, effort)
    return sight.hopeless[jobs[job].request_class] <= effort


@compiled
def longest_holder(s, sight, node):
    """Most seconds that a job on a node has left that may be displaced by a queued one."""
    if not sight.are_listed:
        return sight.most_left
    return sight.holder_left[s.node_first[node]] if sight.num_holders[node] > 0 else 0.0


@compiled
def quiet_until(s, jobs, sight):
    """Return until when time alone makes no job pickable where `surely_no_choice` has just found that none is.

    That holds while nothing ends or arrives, no further job has run for LEAST_RUN, and what remains of those that count
    falls alike, so that their order stays: all run at speed 1, and none is at the floor of `queues.remaining_now`,
    from which that rises again. Those count of which more remains than any queued job needs. Then victims are those of
    now or fewer, and worth less. Minus infinity where that is not so, or where no tick comes before the next event.
    """
    until = min(next_event(s, jobs), s.next_closing)
    if s.num_queued == 0 or s.tick == 0 or s.num_changes > 0 or until <= next_tick(s):
        return -np.inf
    before = np.inf
    sort_ends(s, jobs, sight)
    for k in range(sight.num_ends - 1, -1, -1):
        job = sight.ends[k]
        if s.phase[job] != RUNNING or s.width[job] == 0:
            continue
        left, attained = sight.left[k], attained_now(s, job)
        if s.rate[job] != 1.0:
            return -np.inf
        if left <= sight.least_effort:
            until = min(until, s.clock + sight.least_effort / LEAST_SHARE - attained)
            continue
        if before - left < CLOSE:
            return -np.inf
        before = left
        to_floor = min((left - LEAST_SHARE * attained) / (1.0 + LEAST_SHARE), left - LEAST_SECONDS)
        until = min(until, s.clock + to_floor)
        if s.clock - s.phase_began[job] < LEAST_RUN:
            until = min(until, s.phase_began[job] + LEAST_RUN)
    return until - CLOSE
