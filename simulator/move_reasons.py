"""Reasons of policies that compare listed moves, look-ahead and agents of the action `moves`: what each move is worth.

The list, `simulator.kernel.moves.move_list`, is the one of the last comparison. What the policy did without comparing
moves it did as `union` does.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from gpu_cluster_gym.simulator.kernel.moves.move_list import (
    DISPLACE,
    DIVIDE,
    FEWER_CORES,
    MORE_CORES,
    MOVE,
    NAMED,
    OWNED,
    PAUSE,
    RELEASE,
    START,
    THROTTLE,
    WAIT,
    WAIT_A_MINUTE,
)
from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Resize, Start
from gpu_cluster_gym.simulator.reasons import Option, Ranked, Reason, of_moves

WORDS = {
    WAIT: "wait",
    WAIT_A_MINUTE: "wait a minute",
    DIVIDE: "divide the cores as the rule does",
    MORE_CORES: "give {job} a core more",
    FEWER_CORES: "give {job} a core less",
    THROTTLE: "throttle {job}",
    RELEASE: "throttle {job} less",
    PAUSE: "pause {job}",
    START: "start {job} on ",
    DISPLACE: "start {job} on ",
    MOVE: "move {job} to ",
}
OWN_CHOICE = ", the rule's own choice"


def moves_in_words(v: np.record, gpu_node: np.ndarray) -> list[str]:
    """Return each move of a list in words, `{job}` for its job. gpu_node: node of each GPU."""
    return [
        WORDS[int(v["kind"][k])] + _place(v, k, gpu_node) + (OWN_CHOICE if k == v["own"] else "")
        for k in range(int(v["num"]))
    ]


def _place(v: np.record, k: int, gpu_node: np.ndarray) -> str:
    """Return the GPUs of the k-th move in words; empty for a move without any."""
    kind = int(v["kind"][k])
    if kind not in (START, DISPLACE, MOVE):
        return ""
    gpus = v["gpus"][k, : v["num_gpus"][k]]
    if not len(gpus):
        return f"CPU cores of node {v['node'][k]}" if v["seating"][k] == NAMED else "GPUs of several nodes"
    nodes = np.unique(gpu_node[gpus])
    where = f"node {nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} nodes"
    found = f"{len(gpus)} GPU{'s' if len(gpus) > 1 else ''} of {where}"
    if victims := int(v["num_victims"][k]):
        return f"{found} in place of {victims} other job{'s' if victims > 1 else ''}"
    return found if v["features"][k, OWNED] == 1 else f"{found}, shared with others"


def options(
    v: np.record, values: Mapping[int, float], minima: Mapping[int, float], gpu_node: np.ndarray
) -> dict[int, Option]:
    """Return moves of a list as options, by their position.

    values: of the compared moves, by position. minima: of those that must exceed a value.
    """
    words, no_minimum = moves_in_words(v, gpu_node), Option._field_defaults["minimum"]
    return {
        k: Option(words[k], int(v["job"][k]), value, minima.get(k, no_minimum)) for k, value in values.items()
    }


def best(compared: Mapping[int, Option], own: int) -> int:
    """Return the position of the best of the moves that exceed their minimum; own: the choice of the rule."""
    enough = [k for k, each in compared.items() if k != own and each.value > each.minimum]
    return max(enough, key=lambda k: compared[k].value, default=own)


def actions_of_move(v: np.record, k: int) -> Iterator[Action]:
    """Yield the actions that the k-th move of a list begins with; none for those on cores and for waits.

    Where a list has no room for the GPUs of a job, the placement names none.
    """
    job, gpus = int(v["job"][k]), tuple(v["gpus"][k, : v["num_gpus"][k]].tolist())
    match int(v["kind"][k]):
        case kind if kind == START:
            node = int(v["node"][k])
            yield Start(job, Placement(gpus, node=node if node >= 0 else None))
        case kind if kind == MOVE:
            yield Resize(job, placement=Placement(gpus))
        case kind if kind == PAUSE:
            yield Preempt(job)
        case kind if kind == DISPLACE:
            yield from (Preempt(int(victim)) for victim in v["victims"][k, : v["num_victims"][k]])


def is_of_move(action: Action, v: np.record, k: int) -> bool:
    """Return whether an action belongs to the k-th move of a list."""
    return any(
        type(each) is type(action) and each.job == action.job  # type: ignore[union-attr] # none is a Wait
        for each in actions_of_move(v, k)
    )


def reason(
    rule: str, keys: str, action: Action, v: np.record, k: int, compared: Mapping[int, Option]
) -> Reason:
    """Return the reason of an action of the k-th move of a list. compared: the compared moves, by position."""
    value = compared[k].value
    own = Ranked(action.job, value)  # type: ignore[union-attr] # none is a Wait
    cause = Ranked(int(v["job"][k]), value) if v["kind"][k] == DISPLACE else None
    return of_moves(rule, keys, own, [*compared.values()], [*compared].index(k), cause=cause)
