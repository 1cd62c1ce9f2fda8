"""Steps of the action `moves`: carry out a choice, and advance the episode to the next one.

`union` decides the starts of CPU jobs, starts on GPUs that were freed for a job, and unless `cores` is set, cores and
throttles: these are not choices. An agent that always takes the choice of `union` does exactly what `union` does.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster import events, plan
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY
from gpu_cluster_gym.simulator.kernel.cluster.placement import place
from gpu_cluster_gym.simulator.kernel.cluster.plan import carry_out_next
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
    append_move,
    clear_list,
    describe_move,
    is_division,
    list_moves,
    list_own_division,
    propose_core_move,
    servers_of_move,
)
from gpu_cluster_gym.simulator.kernel.union.candidates import (
    find_best_move,
    find_cheapest_seats,
    find_job_for_slow_gpus,
    note_placement,
)
from gpu_cluster_gym.simulator.kernel.union.decide import (
    GIVE_UP,
    clear_moves,
    divide_cores,
    find_next_moves,
    needs_requested_cores,
    next_legal_move,
    note_wait_time,
    propose_move,
    propose_placed_start,
    propose_start,
    set_wake,
)
from gpu_cluster_gym.simulator.kernel.union.job_shapes import MAX_NAMED_GPUS
from gpu_cluster_gym.simulator.kernel.union.preemption import find_multi_node_displacement, propose_pauses
from gpu_cluster_gym.simulator.kernel.union.state_cache import read_state
from gpu_cluster_gym.simulator.kernel.union.steering import NEVER_ENDS_GAIN, describe_step, job_seconds

MINUTE = 60.0


@compiled
def list_own_choice(s, jobs, m, v):
    """List the proposal of `union` first, and withdraw it."""
    last = m.num_moves - 1
    kind, job = m.move_kind[last], m.move_job[last]
    if m.pending_job != NOBODY and kind == plan.PAUSE:
        too_many = m.num_pending > MAX_NAMED_GPUS
        own = append_move(v, DISPLACE, m.pending_job, m.pending_gpus[: 0 if too_many else m.num_pending], 1)
        v.seating[own] = PLACED if too_many else NAMED
        v.servers[own] = m.pending_servers
        v.num_victims[own] = min(m.num_moves, MAX_NAMED_GPUS)
        for at in range(v.num_victims[own]):
            v.victims[own, at] = m.move_job[at]
        m.pending_job = NOBODY
        m.num_pending = 0
    else:
        unnamed = m.is_placed or m.num_gpus > MAX_NAMED_GPUS
        gpus = m.gpus[: 0 if unnamed else m.num_gpus]
        own = append_move(v, START if kind == plan.START else MOVE, job, gpus, 1)
        v.servers[own] = m.servers
        if unnamed:
            v.seating[own] = PLACED if m.is_placed else SEATED
    v.own = own
    clear_moves(m)
    describe_move(s, jobs, m, v, own, 0.0, 0.0, 0.0)


@compiled
def propose_many_gpus(s, jobs, m, kind, job):
    """Propose the start or move by `union` of a job on more GPUs than a list can name."""
    if kind == START:
        if not find_cheapest_seats(s, jobs, m, job, needs_requested_cores(s, jobs, m, job)):
            find_job_for_slow_gpus(s, jobs, m)
        propose_start(s, jobs, m, job)
    else:
        find_best_move(s, jobs, m, job, 0.0)
        propose_move(s, jobs, m, job)


@compiled
def propose_listed(s, jobs, m, v, k):
    """Propose the k-th move of the list, with the moves that it needs."""
    kind, job = v.kind[k], v.job[k]
    gpus = v.gpus[k, : v.num_gpus[k]]
    servers = servers_of_move(jobs, v, k)
    if kind == DIVIDE:
        return  # it is proposed already
    if v.kind[v.own] == DIVIDE:
        m.has_divided = 1  # so that it is not proposed again
    clear_moves(m)
    m.node = NOBODY
    m.lacking[: s.num_nodes] = 0.0
    if kind > DIVIDE:
        propose_core_move(s, m, kind, job)
    elif kind in (WAIT, WAIT_A_MINUTE):
        v.waits = 1
        v.max_wait_s = MINUTE if kind == WAIT_A_MINUTE else np.inf
    elif kind == DISPLACE and v.seating[k] == PLACED:
        find_multi_node_displacement(s, jobs, m, job)
        propose_pauses(
            m, job, m.best_gpus[: m.num_best_gpus], m.best_servers, m.best_victims[: m.num_best_victims]
        )
    elif kind == DISPLACE:
        propose_pauses(m, job, gpus, servers, v.victims[k, : v.num_victims[k]])
    elif kind == PAUSE:
        plan.propose(m, plan.PAUSE, job, 0.0)
    elif v.seating[k] == SEATED:
        propose_many_gpus(s, jobs, m, kind, job)
    elif kind == MOVE:
        note_placement(jobs, m, job, gpus, servers)
        propose_move(s, jobs, m, job)
    elif v.seating[k] == PLACED:
        place(s, jobs, job)
        propose_placed_start(s, jobs, m, job)
    elif len(gpus) == 0:
        m.num_gpus = 0
        m.node = v.node[k]
        plan.propose(m, plan.START, job, 0.0)
    else:
        note_placement(jobs, m, job, gpus, servers)
        propose_start(s, jobs, m, job)


@compiled
def carry_out_moves(s, jobs, m, v):
    """Make the proposed moves; an illegal one ends the list, and also the instant unless a retry is allowed."""
    while m.next_move < m.num_moves:
        kind = next_legal_move(s, jobs, m)
        if kind >= 0:
            carry_out_next(s, jobs, m, kind)
        elif kind == GIVE_UP:
            v.waits = 1
            v.max_wait_s = np.inf


@compiled
def close_instant(s, jobs, m, v):
    """Divide the cores, and set the time until which to wait."""
    going = True
    while going:
        clear_moves(m)
        read_state(s, jobs, m)
        going = divide_cores(s, jobs, m)
        v.waits = 0
        carry_out_moves(s, jobs, m, v)
        going &= not v.waits
    v.waits = 0
    clear_moves(m)
    note_wait_time(s, jobs, m)
    m.wait_s = min(m.wait_s, v.max_wait_s)
    set_wake(s, jobs, m)


@compiled
def list_division(s, jobs, m, v, sizes):
    """List the division of cores that `union` proposes, and the other moves."""
    clear_list(v)
    list_own_division(s, jobs, m, v)
    list_moves(s, jobs, m, v, sizes[0], sizes[1], sizes[2], True)


@compiled
def advance_to_choice(s, jobs, m, v, sizes):
    """Continue to the next choice and list its moves; return whether there is one before the episode ends."""
    cores = sizes[3] > 0
    while s.num_done < s.num_jobs:
        carry_out_moves(s, jobs, m, v)
        # Before time goes on: is there a division of cores to choose?
        divides = False
        if v.waits and cores:
            clear_moves(m)
            read_state(s, jobs, m)
            divides = divide_cores(s, jobs, m)
        if divides:
            v.waits = 0
            list_division(s, jobs, m, v, sizes)
            return True
        if v.waits:
            close_instant(s, jobs, m, v)
            if not events.advance(s, jobs):
                return False
            continue
        found = find_next_moves(s, jobs, m)
        if found and cores and is_division(m):
            list_division(s, jobs, m, v, sizes)
            return True
        if found and not m.is_choice:
            continue
        clear_list(v)
        if found:
            list_own_choice(s, jobs, m, v)
        list_moves(s, jobs, m, v, sizes[0], sizes[1], sizes[2], cores)
        if v.num > 2 or (v.num == 2 and v.own != 0) or (v.num == 2 and v.kind[0] != WAIT):
            return True
        propose_listed(s, jobs, m, v, v.own)
    return False


@entry
def step(states, memory, lists, jobs, chosen, sizes, default, outputs):
    """Let each environment make the chosen move, or begin, and continue to its next choice or its end.

    chosen: (N,), positions on the lists; -1 for an environment that has just been reset.
    sizes: (4,), queued jobs, running jobs, maximum number of moves, and 1 if cores and throttles are moves too, else 0.
    The other arguments are those of `steering.steer`.
    """
    gain, more = outputs.gain, outputs.more
    finish, total = default
    for e in range(len(states)):
        gain[e] = 0.0
        if not more[e]:
            continue
        s, m, v = states[e], memory[e], lists[e]
        spent = s.present_seconds
        if chosen[e] >= 0:
            v.core_moves += v.kind[chosen[e]] > DIVIDE
            propose_listed(s, jobs[e], m, v, chosen[e])
        else:
            v.waits = 0
            v.default_spent = 0.0
            v.core_instant = -1
            events.advance(s, jobs[e])
        more[e] = advance_to_choice(s, jobs[e], m, v, sizes)
        by_default = job_seconds(s, jobs[e], finish[e], s.clock if more[e] else np.inf)
        gain[e] = (by_default - v.default_spent - (s.present_seconds - spent)) / total[e]
        v.default_spent = by_default
        if not more[e] and s.num_done < s.num_jobs:
            gain[e] = NEVER_ENDS_GAIN
        describe_step(s, jobs, m, e, default, outputs)
