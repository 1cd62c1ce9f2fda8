"""Rollouts: before `union` makes its own choice, the other listed moves are tried in sampled futures.

In a future f, run times are sampled from the belief and no job arrives (`beliefs`); all moves of a decision share it.
With C_f(k) the job-seconds that follow if move k is made now and `union` continues from there,

    C_f(k) = integral from now on of exp(-(u - now) / tau) x jobs present du, cut at 4 tau,
    advantage of k = C_f(own) - C_f(k), its mean over futures, and its standard error.

All moves are screened in a few futures; the finalists, those with the highest advantage, are compared in others, so
that selection and evaluation are independent. The best move replaces the choice of `union` if its advantage exceeds
`margin_s` and `z` standard errors.
"""

from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import events
from gpu_cluster_gym.simulator.kernel.cluster.events import HORIZON, discounted, step_cost
from gpu_cluster_gym.simulator.kernel.cluster.plan import WAIT as NOTHING
from gpu_cluster_gym.simulator.kernel.cluster.plan import carry_out_next
from gpu_cluster_gym.simulator.kernel.cluster.readings import WORD, mixed
from gpu_cluster_gym.simulator.kernel.moves.beliefs import sample_belief
from gpu_cluster_gym.simulator.kernel.moves.move_list import MAX_MOVES, WAIT, clear_list, list_moves
from gpu_cluster_gym.simulator.kernel.moves.move_steps import close_instant, list_own_choice, propose_listed
from gpu_cluster_gym.simulator.kernel.union.decide import (
    GIVE_UP,
    act,
    clear_moves,
    divide_cores,
    find_next_moves,
    is_legal,
    next_legal_move,
    note_wait_time,
    set_wake,
)
from gpu_cluster_gym.simulator.kernel.union.state_cache import read_state
from gpu_cluster_gym.simulator.kernel.union.steering import MAX_INSTANTS_PER_JOB

NEVER_ENDS_S = 1e9
FUTURE, ROLLOUT = range(2)  # states of the buffers: the start of a future, and its continuation
POLICY, CONTINUED = range(2)  # memories: the policy's own, and that of the continuation


class RolloutBuffers(NamedTuple):
    """Buffers for rollouts: states, jobs and memories, with views of them as words for fast copies.

    states: (2,) records, FUTURE and ROLLOUT.
    jobs: (J,) records.
    memory: (2,) records, POLICY and CONTINUED.
    now, jobs_now: uint64, words of the episode's own state and jobs.
    state_words, job_words, memory_words: uint64, a row for each record of the buffers.
    """

    states: np.ndarray
    jobs: np.ndarray
    memory: np.ndarray
    now: np.ndarray
    jobs_now: np.ndarray
    state_words: np.ndarray
    job_words: np.ndarray
    memory_words: np.ndarray


class RolloutOptions(NamedTuple):
    """Options of look-ahead; see `simulator.look_ahead_policy.LookAhead`."""

    draws: int
    screening: int
    finalists: int
    rounds: int
    queued: int
    running: int
    z: float
    margin_s: float
    tau_s: float
    rest_s: float
    contention: float


# Evaluation of moves.


@compiled
def copy_words(origin, target):
    """Copy a record by its words."""
    for k in range(len(origin)):
        target[k] = origin[k]


@compiled
def start_future(num_arrived, buffers, seed, contention):
    """Start a future of the current state; contention: factor on the slowdown of shared GPUs."""
    copy_words(buffers.now[0], buffers.state_words[FUTURE])
    for job in range(num_arrived):
        copy_words(buffers.jobs_now[job], buffers.job_words[job])
    buffers.states[FUTURE].contention *= contention
    sample_belief(buffers.states[FUTURE], buffers.jobs, buffers.memory[POLICY], seed)


@compiled
def discounted_cost(s, jobs, m, origin, tau):
    """Continue `union` from the end of an instant; return the discounted job-seconds from there.

    If jobs never end, or not within `MAX_INSTANTS_PER_JOB` counted instants per job, those left are assumed to stay
    until the horizon, `NEVER_ENDS_S` at most.
    """
    cost, end = 0.0, min(HORIZON * tau, NEVER_ENDS_S)
    max_instants = events.instants_that_count(s) + MAX_INSTANTS_PER_JOB * s.num_jobs
    while s.num_done < s.num_jobs and s.clock - origin < end:
        begin, present = s.clock - origin, s.num_arrived - s.num_done
        step = step_cost(s, jobs, origin, tau) if events.instants_that_count(s) < max_instants else -1.0
        if step < 0:
            return cost + discounted(present, begin, end, tau)
        cost += step
        act(s, jobs, m)
    return cost


@compiled
def rollout_cost(v, buffers, k, tau):
    """Make the k-th move in the current future and continue `union`; return the discounted job-seconds."""
    copy_words(buffers.state_words[FUTURE], buffers.state_words[ROLLOUT])
    copy_words(buffers.memory_words[POLICY], buffers.memory_words[CONTINUED])
    s, jobs, m = buffers.states[ROLLOUT], buffers.jobs, buffers.memory[CONTINUED]
    m.window_s = np.inf  # no measurement windows: in a future, beliefs about cores are true
    v.waits = 0
    propose_listed(s, jobs, m, v, k)
    if v.waits:
        close_instant(s, jobs, m, v)
    else:
        act(s, jobs, m)
    return discounted_cost(s, jobs, m, s.clock, tau)


@compiled
def evaluate_moves(s, v, buffers, first, count, options):
    """Try the selected moves in `count` futures, and add up their advantages over the choice of `union`.

    first: index of the first future, which determines its seed.
    """
    for draw in range(first, first + count):
        seed = mixed(mixed(int(s.instant) & WORD) ^ draw)
        start_future(s.num_arrived, buffers, seed, options.contention)
        own = rollout_cost(v, buffers, v.own, options.tau_s)
        for k in range(v.num):
            if v.is_evaluated[k]:
                advantage = own - rollout_cost(v, buffers, k, options.tau_s)
                v.num_futures[k] += 1
                v.advantage_sum[k] += advantage
                v.advantage_squares[k] += advantage * advantage


@compiled
def mean_advantage(v, k):
    """Return the mean advantage of a move, in job-seconds."""
    return v.advantage_sum[k] / max(v.num_futures[k], 1)


@compiled
def advantage_error(v, k):
    """Return the standard error of the mean advantage; 0 for a single future."""
    n = v.num_futures[k]
    if n < 2:
        return 0.0
    return np.sqrt(max(v.advantage_squares[k] - v.advantage_sum[k] ** 2 / n, 0.0) / (n - 1) / n)


@compiled
def clear_evaluations(v):
    """Clear the advantages of all moves."""
    v.num_futures[:] = 0
    v.advantage_sum[:] = 0.0
    v.advantage_squares[:] = 0.0


@compiled
def keep_finalists(v, count):
    """Select up to `count` moves with the highest positive advantage; return their number."""
    kept = 0
    v.is_evaluated[:] = 0
    while kept < count:
        best = -1
        for k in range(v.num):
            if (
                not v.is_evaluated[k]
                and v.advantage_sum[k] > 0
                and (best < 0 or v.advantage_sum[k] > v.advantage_sum[best])
            ):
                best = k
        if best < 0:
            break
        v.is_evaluated[best] = 1
        kept += 1
    return kept


@compiled
def find_best(s, v, buffers, options):
    """Return the position of the move to make."""
    clear_evaluations(v)
    for k in range(v.num):
        v.is_evaluated[k] = k != v.own
    if options.screening > 0:
        evaluate_moves(s, v, buffers, 0, options.screening, options)
        if keep_finalists(v, options.finalists) == 0:
            return v.own
        clear_evaluations(v)
    evaluate_moves(s, v, buffers, options.screening, options.draws, options)
    best = v.own
    for k in range(v.num):
        mean = mean_advantage(v, k)
        certain = v.is_evaluated[k] and mean > options.margin_s and mean > options.z * advantage_error(v, k)
        if certain and (best == v.own or v.advantage_sum[k] > v.advantage_sum[best]):
            best = k
    return best


# The policy.


@compiled
def count_events(s):
    """Return a number that grows with every event after which a new comparison is worthwhile."""
    return s.num_arrived + s.num_done + s.num_starts + s.num_pauses


@compiled
def is_comparison_due(s, m, options):
    """Return whether to compare moves now: not too often at an instant, and only if something has changed."""
    if m.num_rounds >= options.rounds:
        return False
    return m.num_moves > 0 or m.num_events != count_events(s) or s.clock >= m.compared_at + options.rest_s


@compiled
def compare_moves(s, jobs, m, v, buffers, options):
    """Decide between the proposal of `union` and other moves; return whether a move is to be made.

    It is then proposed, or nothing more is started at this instant.
    """
    if not is_comparison_due(s, m, options):
        return m.num_moves > 0
    m.num_events, m.compared_at = count_events(s), s.clock
    clear_list(v)
    if m.num_moves > 0:
        list_own_choice(s, jobs, m, v)
    list_moves(s, jobs, m, v, options.queued, options.running, MAX_MOVES, False)
    if v.own < 0:
        return False
    best = v.own
    if v.num > 1:
        best = find_best(s, v, buffers, options)
    if best != v.own:
        m.num_rounds += 1
    elif v.kind[best] == WAIT:
        return False
    v.waits = 0
    propose_listed(s, jobs, m, v, best)
    m.waits, m.max_wait_s = v.waits, v.max_wait_s
    return True


@compiled
def find_next_ahead(s, jobs, m, v, buffers, options):
    """Propose the next moves; return whether there are any, or waiting has just been chosen."""
    if m.waits:
        read_state(s, jobs, m)
        return divide_cores(s, jobs, m)
    found = find_next_moves(s, jobs, m)
    if found and not m.is_choice:
        return True
    return compare_moves(s, jobs, m, v, buffers, options)


@compiled
def decide_ahead(s, jobs, m, v, buffers, options):
    """Return the kind of the next move, or NOTHING to wait; its place on the list is `next_move - 1`."""
    if m.instant != s.instant:
        clear_moves(m)
        m.waits = 0
        m.num_rounds = 0
    while m.next_move < m.num_moves or find_next_ahead(s, jobs, m, v, buffers, options):
        if m.next_move == m.num_moves:
            continue
        kind = next_legal_move(s, jobs, m)
        if kind >= 0:
            return kind
        if kind == GIVE_UP:
            break
    note_wait_time(s, jobs, m)
    if m.waits:
        m.wait_s = min(m.wait_s, m.max_wait_s)
    return NOTHING


@entry
def next_move(states, jobs, lists, buffers, options):
    """Return the kind of the next move; its place on the list of the policy's memory is `next_move - 1`."""
    return decide_ahead(states[0], jobs, buffers.memory[POLICY], lists[0], buffers, options)


@compiled
def act_ahead(s, jobs, m, v, buffers, options):
    """Make all moves of this instant."""
    kind = decide_ahead(s, jobs, m, v, buffers, options)
    while kind != NOTHING:
        carry_out_next(s, jobs, m, kind)
        kind = decide_ahead(s, jobs, m, v, buffers, options)
    set_wake(s, jobs, m)


@entry
def act_until(states, jobs, lists, buffers, options, until):
    """Act at this instant and run to the first instant at `until` or later; return whether jobs are left there.

    False also if jobs never end.
    """
    s, m, v = states[0], buffers.memory[POLICY], lists[0]
    act_ahead(s, jobs, m, v, buffers, options)
    while s.num_done < s.num_jobs:
        if not events.advance(s, jobs):
            return False
        if s.clock >= until:
            return True
        act_ahead(s, jobs, m, v, buffers, options)
    return False


# Labels for imitation.


@entry
def label(states, jobs, lists, buffers, options):
    """List the moves at this instant and evaluate all of them in all futures; return whether there is a choice.

    The records are copies: forced moves before the choice are made in them.
    """
    s, m, v = states[0], buffers.memory[POLICY], lists[0]
    clear_list(v)
    found = find_next_moves(s, jobs, m)
    while found and not m.is_choice:
        m.next_move = 0
        while m.next_move < m.num_moves:
            if not is_legal(s, jobs, m, m.next_move):
                return False
            m.next_move += 1
            carry_out_next(s, jobs, m, m.move_kind[m.next_move - 1])
        found = find_next_moves(s, jobs, m)
    if found:
        list_own_choice(s, jobs, m, v)
    list_moves(s, jobs, m, v, options.queued, options.running, MAX_MOVES, False)
    clear_evaluations(v)
    v.is_evaluated[:] = 1
    evaluate_moves(s, v, buffers, 0, options.draws, options)
    return v.num > 1


@entry
def evaluate_listed(states, lists, buffers, place, kinds, options):
    """Evaluate a move of an existing list, or for -1 all moves of some kinds, in all futures.

    kinds: whether each kind of move is evaluated.
    The policy's memory in the buffers is that with which the list was made. Memory and state are only read.
    """
    s, v = states[0], lists[0]
    clear_evaluations(v)
    if place == v.own:
        return
    for k in range(v.num):
        v.is_evaluated[k] = k != v.own and (k == place or (place < 0 and kinds[v.kind[k]]))
    evaluate_moves(s, v, buffers, 0, options.draws, options)
    v.waits = 0
