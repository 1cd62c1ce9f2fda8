"""What each listed move wins in imagined futures (`look_ahead`), for who learns it."""

from gpu_cluster_gym.simulator.kernel._compile import entry
from gpu_cluster_gym.simulator.kernel.cluster.decided import carry_out_next
from gpu_cluster_gym.simulator.kernel.moves.look_ahead import NOW, forget_tries, try_moves
from gpu_cluster_gym.simulator.kernel.moves.move_list import MOST_MOVES, clear
from gpu_cluster_gym.simulator.kernel.moves.move_options import list_moves
from gpu_cluster_gym.simulator.kernel.moves.move_steps import put_own_choice
from gpu_cluster_gym.simulator.kernel.rule.levers import find_moves
from gpu_cluster_gym.simulator.kernel.rule.rule_over_moves import is_legal


@entry
def label(states, jobs, lists, room, choices):
    """List the moves at this instant and try all of them in all futures; tell whether there is a choice.

    The records are copies: what the rule must do before there is a choice is done in them.
    """
    s, m, v = states[0], room.memory[NOW], lists[0]
    clear(v)
    found = find_moves(s, jobs, m)
    while found and not m.is_choice:
        m.next_move = 0
        while m.next_move < m.num_moves:
            if not is_legal(s, jobs, m, m.next_move):
                return False
            m.next_move += 1
            carry_out_next(s, jobs, m, m.move_kind[m.next_move - 1])
        found = find_moves(s, jobs, m)
    if found:
        put_own_choice(s, jobs, m, v)
    list_moves(s, jobs, m, v, choices.queued, choices.running, MOST_MOVES, False)
    forget_tries(v)
    v.tried[:] = 1
    try_moves(s, v, room, 0, choices.draws, choices)
    return v.num > 1


@entry
def try_listed(states, lists, room, place, kinds, choices):
    """Try a move of a list that has been made, or for -1 all of some kinds, in all futures; write what each wins there.

    kinds: for each kind of move, whether it is tried.
    The first memory of the room is that with which the list was made; like the record it is only read.
    """
    s, v = states[0], lists[0]
    forget_tries(v)
    if place == v.own:
        return
    for k in range(v.num):
        v.tried[k] = k != v.own and (k == place or (place < 0 and kinds[v.kind[k]]))
    try_moves(s, v, room, 0, choices.draws, choices)
    v.waits = 0
