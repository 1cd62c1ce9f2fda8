"""Moves chosen one after another: what a choice does, and how the episode goes on to the next choice.

CPU jobs and starts on GPUs that have been kept for a job follow by the rule (`levers`): they are no choices, nor are
cores and throttles unless they are asked for (`choosing_cores`). Who always takes the rule's own choice does exactly
what the rule does.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import decided, events
from gpu_cluster_gym.simulator.kernel.cluster.decided import carry_out_next
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY
from gpu_cluster_gym.simulator.kernel.cluster.placement import place
from gpu_cluster_gym.simulator.kernel.moves.choosing_cores import is_division, propose_cores, put_division
from gpu_cluster_gym.simulator.kernel.moves.move_features import describe_move
from gpu_cluster_gym.simulator.kernel.moves.move_list import (
    DISPLACE,
    DIVIDE,
    MOVE,
    NAMED,
    PAUSE,
    PLACED,
    SEATED,
    START,
    WAIT,
    WAIT_A_MINUTE,
    add,
    clear,
    servers_of,
)
from gpu_cluster_gym.simulator.kernel.moves.move_options import list_moves
from gpu_cluster_gym.simulator.kernel.rule.giving_way import displace_for, find_room_beyond
from gpu_cluster_gym.simulator.kernel.rule.levers import (
    drop_moves,
    feed,
    find_moves,
    needs_as_asked,
    propose_move,
    propose_placed,
    sit,
)
from gpu_cluster_gym.simulator.kernel.rule.offers import best_move_of, best_seats, fill_placement
from gpu_cluster_gym.simulator.kernel.rule.rule_memory import MOST_GPUS
from gpu_cluster_gym.simulator.kernel.rule.rule_over_moves import is_legal, note_wait, wait
from gpu_cluster_gym.simulator.kernel.rule.rule_sight import look
from gpu_cluster_gym.simulator.kernel.rule.slow_types import find_slow_start
from gpu_cluster_gym.simulator.kernel.rule.steering import NEVER_ENDS, job_seconds, tell

MINUTE = 60.0


@compiled
def put_own_choice(s, jobs, m, v):
    """Put what the rule has just decided on first on the list, and take it back."""
    last = m.num_moves - 1
    kind, job = m.move_kind[last], m.move_job[last]
    if m.kept_for != NOBODY and kind == decided.PAUSE:
        too_many = m.num_kept > MOST_GPUS
        own = add(v, DISPLACE, m.kept_for, m.kept_gpus[: 0 if too_many else m.num_kept], 1)
        v.seating[own] = PLACED if too_many else NAMED
        v.servers[own] = m.kept_servers
        v.num_victims[own] = min(m.num_moves, MOST_GPUS)
        for at in range(v.num_victims[own]):
            v.victims[own, at] = m.move_job[at]
        m.kept_for = NOBODY
        m.num_kept = 0
    else:
        unnamed = m.is_placed or m.num_gpus > MOST_GPUS
        gpus = m.gpus[: 0 if unnamed else m.num_gpus]
        own = add(v, START if kind == decided.START else MOVE, job, gpus, 1)
        v.servers[own] = m.servers
        if unnamed:
            v.seating[own] = PLACED if m.is_placed else SEATED
    v.own = own
    drop_moves(m)
    describe_move(s, jobs, m, v, own, 0.0, 0.0, 0.0)


@compiled
def seat_again(s, jobs, m, kind, job):
    """Propose the rule's start or move of a job on more GPUs than a list names."""
    if kind == START:
        if not best_seats(s, jobs, m, job, needs_as_asked(s, jobs, m, job)):
            find_slow_start(s, jobs, m)
        sit(s, jobs, m, job)
    else:
        best_move_of(s, jobs, m, job, 0.0)
        propose_move(s, jobs, m, job)


@compiled
def choose(s, jobs, m, v, k):
    """Decide on the k-th move of the list: put what it takes on the list of moves to be made."""
    kind, job = v.kind[k], v.job[k]
    gpus = v.gpus[k, : v.num_gpus[k]]
    servers = servers_of(jobs, v, k)
    if kind == DIVIDE:
        return  # it is decided on already
    if v.kind[v.own] == DIVIDE:
        m.has_divided = 1  # and is not decided on again
    drop_moves(m)
    m.node = NOBODY
    m.lacking[: s.num_nodes] = 0.0
    if kind > DIVIDE:
        propose_cores(s, m, kind, job)
    elif kind in (WAIT, WAIT_A_MINUTE):
        v.waits = 1
        v.longest_wait = MINUTE if kind == WAIT_A_MINUTE else np.inf
    elif kind == DISPLACE and v.seating[k] == PLACED:
        find_room_beyond(s, jobs, m, job)
        displace_for(m, job, m.wanted[: m.num_wanted], m.wanted_servers, m.to_evict[: m.num_evicted])
    elif kind == DISPLACE:
        displace_for(m, job, gpus, servers, v.victims[k, : v.num_victims[k]])
    elif kind == PAUSE:
        decided.propose(m, decided.PAUSE, job, 0.0)
    elif v.seating[k] == SEATED:
        seat_again(s, jobs, m, kind, job)
    elif kind == MOVE:
        fill_placement(jobs, m, job, gpus, servers)
        propose_move(s, jobs, m, job)
    elif v.seating[k] == PLACED:
        place(s, jobs, job)
        propose_placed(s, jobs, m, job)
    elif len(gpus) == 0:
        m.num_gpus = 0
        m.node = v.node[k]
        decided.propose(m, decided.START, job, 0.0)
    else:
        fill_placement(jobs, m, job, gpus, servers)
        sit(s, jobs, m, job)


@compiled
def make_moves(s, jobs, m, v):
    """Make the moves that have been decided on; one that is illegal ends the list.

    As for the rule, an illegal start is not tried again at this instant, and any other ends the instant.
    """
    while m.next_move < m.num_moves:
        at = m.next_move
        kind, job = m.move_kind[at], m.move_job[at]
        if is_legal(s, jobs, m, at):
            m.next_move += 1
            carry_out_next(s, jobs, m, kind)
            continue
        drop_moves(m)
        if kind != decided.START or m.refused_at[job] == s.instant:
            v.waits = 1
            v.longest_wait = np.inf
        m.refused_at[job] = s.instant


@compiled
def close_instant(s, jobs, m, v):
    """Divide the cores, and say until when to wait."""
    going = True
    while going:
        drop_moves(m)
        look(s, jobs, m)
        going = feed(s, jobs, m)
        v.waits = 0
        make_moves(s, jobs, m, v)
        going &= not v.waits
    v.waits = 0
    drop_moves(m)
    wait(s, jobs, m)
    m.wait_s = min(m.wait_s, v.longest_wait)
    note_wait(s, jobs, m)


@compiled
def find_division(s, jobs, m):
    """Find what the rule would divide before time goes on, if that was not refused at this instant."""
    drop_moves(m)
    look(s, jobs, m)
    return feed(s, jobs, m)


@compiled
def list_division(s, jobs, m, v, sizes):
    """List what the rule has found to divide, and what else there is to do."""
    clear(v)
    put_division(s, jobs, m, v)
    list_moves(s, jobs, m, v, sizes[0], sizes[1], sizes[2], True)


@compiled
def to_choice(s, jobs, m, v, sizes):
    """Go on until there is something to choose, which is listed; tell whether there is, or the episode has ended."""
    cores = sizes[3] > 0
    while s.num_done < s.num_jobs:
        make_moves(s, jobs, m, v)
        if v.waits and cores and find_division(s, jobs, m):
            v.waits = 0
            list_division(s, jobs, m, v, sizes)
            return True
        if v.waits:
            close_instant(s, jobs, m, v)
            if not events.advance(s, jobs):
                return False
            continue
        found = find_moves(s, jobs, m)
        if found and cores and is_division(m):
            list_division(s, jobs, m, v, sizes)
            return True
        if found and not m.is_choice:
            continue
        clear(v)
        if found:
            put_own_choice(s, jobs, m, v)
        list_moves(s, jobs, m, v, sizes[0], sizes[1], sizes[2], cores)
        if v.num > 2 or (v.num == 2 and v.own != 0) or (v.num == 2 and v.kind[0] != WAIT):
            return True
        choose(s, jobs, m, v, v.own)
    return False


@entry
def step(states, memory, lists, jobs, chosen, sizes, default, told):
    """Let each environment make the move chosen, or begin, and go on to its next choice, or to its end.

    chosen: (N,), places on the lists; -1 for an environment that has just been laid out. sizes: how many queued and
    running jobs are looked at, how many moves there are at most, and 1 where cores and throttles are moves too, else
    0. The others as for `steering.steer`.
    """
    gain, more = told.gain, told.more
    finish, total = default
    for e in range(len(states)):
        gain[e] = 0.0
        if not more[e]:
            continue
        s, m, v = states[e], memory[e], lists[e]
        spent = s.present_seconds
        if chosen[e] >= 0:
            v.core_moves += v.kind[chosen[e]] > DIVIDE
            choose(s, jobs[e], m, v, chosen[e])
        else:
            v.waits = 0
            v.default_spent = 0.0
            v.core_instant = -1
            events.advance(s, jobs[e])
        more[e] = to_choice(s, jobs[e], m, v, sizes)
        by_default = job_seconds(s, jobs[e], finish[e], s.clock if more[e] else np.inf)
        gain[e] = (by_default - v.default_spent - (s.present_seconds - spent)) / total[e]
        v.default_spent = by_default
        if not more[e] and s.num_done < s.num_jobs:
            gain[e] = NEVER_ENDS
        tell(s, jobs, m, e, default, told)
