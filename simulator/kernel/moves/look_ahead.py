"""Look-ahead on the rule over moves: before it makes its own choice, the others listed are tried in imagined futures.

In a future f the run times are drawn from what is believed and no job arrives (`beliefs`); it is the same for all moves
of a decision. With C_f(k) the job-seconds that follow if move k is made now and the rule goes on from there,

    C_f(k) = integral from now on of exp(-(u - now) / tau) x jobs present du, cut at 4 tau,
    won of k = C_f(own) - C_f(k), its mean over futures, and its standard error.

All moves are screened in a few futures; those that win most there are compared in others, so that what they are chosen
by is not what they are judged by. The best is made instead of the rule's own if it wins more than `margin` and than `z`
errors.
"""

from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import events
from gpu_cluster_gym.simulator.kernel.cluster.decided import START, carry_out_next
from gpu_cluster_gym.simulator.kernel.cluster.decided import WAIT as NOTHING
from gpu_cluster_gym.simulator.kernel.cluster.events import HORIZON, discounted, step_cost
from gpu_cluster_gym.simulator.kernel.cluster.readings import WORD, mixed
from gpu_cluster_gym.simulator.kernel.moves.beliefs import believe_all
from gpu_cluster_gym.simulator.kernel.moves.move_list import MOST_MOVES, WAIT, clear
from gpu_cluster_gym.simulator.kernel.moves.move_options import list_moves
from gpu_cluster_gym.simulator.kernel.moves.move_steps import choose, close_instant, put_own_choice
from gpu_cluster_gym.simulator.kernel.rule.levers import drop_moves, feed, find_moves
from gpu_cluster_gym.simulator.kernel.rule.rule_over_moves import act, is_legal, note_wait, wait
from gpu_cluster_gym.simulator.kernel.rule.rule_sight import look
from gpu_cluster_gym.simulator.kernel.rule.steering import MOST_INSTANTS

NEVER_S = 1e9
BASE, GOES_ON = range(2)  # records of a room: a future as it begins, and as it goes on
NOW, THEN = range(2)  # memories: the policy's own, and that which goes on with a future


class Room(NamedTuple):
    """Where futures are imagined: records, jobs, and the policy's memory, with the same as words, to be copied.

    states: (2,). jobs: (J,). memory: (2,), the first of which is the policy's own. Words: uint64, a row a record;
    `now` and `jobs_now` are those of the episode itself.
    """

    states: np.ndarray
    jobs: np.ndarray
    memory: np.ndarray
    now: np.ndarray
    jobs_now: np.ndarray
    state_words: np.ndarray
    job_words: np.ndarray
    memory_words: np.ndarray


class Choices(NamedTuple):
    """How far to look; see `simulator.look_ahead.LookAhead`."""

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


@compiled
def copy_words(origin, target):
    """Copy a record by its words."""
    for k in range(len(origin)):
        target[k] = origin[k]


@compiled
def begin_future(num_arrived, room, seed, contention):
    """Imagine a future of this very state, with so many times the contention that there is on shared GPUs."""
    copy_words(room.now[0], room.state_words[BASE])
    for job in range(num_arrived):
        copy_words(room.jobs_now[job], room.job_words[job])
    room.states[BASE].contention *= contention
    believe_all(room.states[BASE], room.jobs, room.memory[NOW], seed)


@compiled
def go_on(s, jobs, m, origin, tau):
    """Carry the rule on from the end of an instant; return the discounted job-seconds from there.

    Where jobs never end, or not by so many instants that count, those that are left are taken to stay until `NEVER_S`.
    """
    cost, end = 0.0, min(HORIZON * tau, NEVER_S)
    most = events.instants_that_count(s) + MOST_INSTANTS * s.num_jobs
    while s.num_done < s.num_jobs and s.clock - origin < end:
        begin, present = s.clock - origin, s.num_arrived - s.num_done
        step = step_cost(s, jobs, origin, tau) if events.instants_that_count(s) < most else -1.0
        if step < 0:
            return cost + discounted(present, begin, end, tau)
        cost += step
        act(s, jobs, m)
    return cost


@compiled
def cost_of(v, room, k, tau):
    """Make the k-th move in the future that has begun, and let the rule go on; return the discounted job-seconds."""
    copy_words(room.state_words[BASE], room.state_words[GOES_ON])
    copy_words(room.memory_words[NOW], room.memory_words[THEN])
    s, jobs, m = room.states[GOES_ON], room.jobs, room.memory[THEN]
    m.window_s = np.inf  # what is believed of cores would be confirmed, so that to watch would only take time
    v.waits = 0
    choose(s, jobs, m, v, k)
    if v.waits:
        close_instant(s, jobs, m, v)
    else:
        act(s, jobs, m)
    return go_on(s, jobs, m, s.clock, tau)


@compiled
def try_moves(s, v, room, first, count, choices):
    """Carry on the moves to be tried in so many futures, and add up what they win over the rule's own."""
    m = room.memory[NOW]
    for draw in range(first, first + count):
        seed = mixed(mixed(int(s.instant) & WORD) ^ draw)
        begin_future(s.num_arrived, room, seed, choices.contention)
        own = cost_of(v, room, v.own, choices.tau_s)
        m.num_rollouts += 1
        for k in range(v.num):
            if v.tried[k]:
                won = own - cost_of(v, room, k, choices.tau_s)
                v.futures[k] += 1
                v.won[k] += won
                v.won_squared[k] += won * won
                m.num_rollouts += 1


@compiled
def mean_won(v, k):
    """Return the job-seconds that a move wins in a future, on average."""
    return v.won[k] / max(v.futures[k], 1)


@compiled
def error_of_won(v, k):
    """Return the standard error of that mean; 0 in a single future."""
    n = v.futures[k]
    if n < 2:
        return 0.0
    return np.sqrt(max(v.won_squared[k] - v.won[k] ** 2 / n, 0.0) / (n - 1) / n)


@compiled
def forget_tries(v):
    """Forget what moves have won."""
    v.futures[:] = 0
    v.won[:] = 0.0
    v.won_squared[:] = 0.0


@compiled
def keep_best(v, count):
    """Let only the moves that win most be tried on, at most so many, and none that wins nothing; return how many."""
    kept = 0
    v.tried[:] = 0
    while kept < count:
        best = -1
        for k in range(v.num):
            if not v.tried[k] and v.won[k] > 0 and (best < 0 or v.won[k] > v.won[best]):
                best = k
        if best < 0:
            break
        v.tried[best] = 1
        kept += 1
    return kept


@compiled
def best_of(s, v, room, choices):
    """Return the place of the move to be made."""
    forget_tries(v)
    for k in range(v.num):
        v.tried[k] = k != v.own
    if choices.screening > 0:
        try_moves(s, v, room, 0, choices.screening, choices)
        if keep_best(v, choices.finalists) == 0:
            return v.own
        forget_tries(v)
    try_moves(s, v, room, choices.screening, choices.draws, choices)
    best = v.own
    for k in range(v.num):
        mean = mean_won(v, k)
        certain = v.tried[k] and mean > choices.margin_s and mean > choices.z * error_of_won(v, k)
        if certain and (best == v.own or v.won[k] > v.won[best]):
            best = k
    return best


@compiled
def happened(s):
    """Return a number that grows with all that makes it worth while to compare moves again."""
    return s.num_arrived + s.num_done + s.num_starts + s.num_pauses


@compiled
def is_worth_comparing(s, m, choices):
    """Tell whether moves are to be compared now: not too often at an instant, and not where nothing has changed."""
    if m.rounds_made >= choices.rounds:
        return False
    return m.num_moves > 0 or m.news != happened(s) or s.clock >= m.compared_at + choices.rest_s


@compiled
def compare(s, jobs, m, v, room, choices):
    """Decide between the rule's own choice, which has been found, and others; tell whether there is one to be made.

    If there is, it is put on the list of moves to be made, or it is to start nothing more at this instant.
    """
    if not is_worth_comparing(s, m, choices):
        return m.num_moves > 0
    m.news, m.compared_at = happened(s), s.clock
    clear(v)
    if m.num_moves > 0:
        put_own_choice(s, jobs, m, v)
    list_moves(s, jobs, m, v, choices.queued, choices.running, MOST_MOVES, False)
    if v.own < 0:
        return False
    best = v.own
    if v.num > 1:
        best = best_of(s, v, room, choices)
        m.num_compared += 1
    if best != v.own:
        m.rounds_made += 1
        m.deviations[v.kind[best]] += 1
    elif v.kind[best] == WAIT:
        return False
    v.waits = 0
    choose(s, jobs, m, v, best)
    m.waits, m.longest_wait = v.waits, v.longest_wait
    return True


@compiled
def find_next(s, jobs, m, v, room, choices):
    """Put on the list what to do next; tell whether there is anything, or it has just been decided to start nothing."""
    if m.waits:
        look(s, jobs, m)
        return feed(s, jobs, m)
    found = find_moves(s, jobs, m)
    if found and not m.is_choice:
        return True
    return compare(s, jobs, m, v, room, choices)


@compiled
def decide(s, jobs, m, v, room, choices):
    """Return the kind of the next move, whose place on the list is noted; that to wait if there is none."""
    if m.instant != s.instant:
        drop_moves(m)
        m.waits = 0
        m.rounds_made = 0
    while m.next_move < m.num_moves or find_next(s, jobs, m, v, room, choices):
        at = m.next_move
        if at == m.num_moves:
            continue
        if is_legal(s, jobs, m, at):
            m.next_move += 1
            return m.move_kind[at]
        kind, job = m.move_kind[at], m.move_job[at]
        drop_moves(m)
        if kind != START or m.refused_at[job] == s.instant:
            break
        m.refused_at[job] = s.instant
    wait(s, jobs, m)
    if m.waits:
        m.wait_s = min(m.wait_s, m.longest_wait)
    return NOTHING


@entry
def next_move(states, jobs, lists, room, choices):
    """Return the kind of the next move; its place on the list of the room's first memory is `next_move - 1`."""
    return decide(states[0], jobs, room.memory[NOW], lists[0], room, choices)


@compiled
def act_ahead(s, jobs, m, v, room, choices):
    """Carry out the policy at this instant."""
    kind = decide(s, jobs, m, v, room, choices)
    while kind != NOTHING:
        carry_out_next(s, jobs, m, kind)
        kind = decide(s, jobs, m, v, room, choices)
    note_wait(s, jobs, m)


@entry
def act_until(states, jobs, lists, room, choices, until):
    """Carry out the policy at this instant, and on to the first at `until` or later; tell whether jobs are left there.

    False too where jobs never end.
    """
    s, m, v = states[0], room.memory[NOW], lists[0]
    act_ahead(s, jobs, m, v, room, choices)
    while s.num_done < s.num_jobs:
        if not events.advance(s, jobs):
            return False
        if s.clock >= until:
            return True
        act_ahead(s, jobs, m, v, room, choices)
    return False
