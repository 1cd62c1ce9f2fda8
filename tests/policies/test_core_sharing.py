"""Compiled CODA makes the moves of its plain form, with all its parts and without each."""

from typing import Any

import pytest

from gpu_cluster_gym.baselines.coda import Coda
from gpu_cluster_gym.simulator.core_sharing import CoreSharing
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.policy import Action, Resize, Start, Throttle
from gpu_cluster_gym.simulator.view import View
from tests.accounts.coda_by_hand import CodaByHand
from tests.policies.test_core_policies import episode, jobs, on_cpu
from tests.simulator.test_rule import one_window

PARTS = [
    {},
    {"tuning": False},
    {"eliminator": False},
    {"arrays": False},
    {"reserve": 1.0, "window_s": 30.0},
]


class Beside:
    """Policy that compares both forms, fails if they differ, and records its actions."""

    def __init__(self, **parts: Any) -> None:
        self.plain, self.policy = CodaByHand(**parts), Coda(**parts)
        self.done: list[Action] = []

    def __call__(self, view: View) -> Action:
        expected, action = self.plain(view), self.policy(view)
        assert action == expected, f"at {view.now} s"
        self.done.append(action)
        return action


@pytest.mark.parametrize("parts", PARTS, ids=str)
@pytest.mark.parametrize("workload", ["mixed", "coda_mix", "aiturbo_ps", "quick"])
def test_the_compiled_policy_equals_the_plain_one(workload: str, parts: dict[str, Any]) -> None:
    both = Beside(**parts)
    load = one_window(workload)
    beside = run(both, load.episode())
    assert any(isinstance(action, Start) for action in both.done)
    assert same_ends(run(Coda(**parts), load.episode()), beside)


def same_ends(one: Episode, other: Episode) -> bool:
    """Return whether all jobs end at the same times."""
    ends: list[list[float]] = [each.state.finish_s[: len(each.jobs)].tolist() for each in (one, other)]
    return ends[0] == ends[1]


def test_widths_take_turns_in_the_kernel_as_move_by_move() -> None:
    load = one_window("mixed", jobs=200)
    whole, stepped = (run(Coda(), load.episode(), step_by_step=each) for each in (False, True))
    assert same_ends(whole, stepped)
    assert not same_ends(whole, run(Coda(by_width=False), load.episode()))


def test_they_throttle_and_release_the_same_jobs() -> None:
    """A node gives 200 GB/s; B and C draw 290 beside A, B alone for a minute."""
    both = Beside()
    work = jobs(
        {"gbs_each": 20, "input_core_s": 6.0},
        on_cpu(4, gbs_each=170, duration_s=60),
        on_cpu(4, gbs_each=120),
        on_cpu(1, submit_s=5000),
    )
    run(both, episode(work, (1, 1, 16)))
    assert {Start, Resize, Throttle} <= {type(action) for action in both.done}


def test_nothing_is_divided_before_a_look() -> None:
    load = one_window("coda_mix")
    with pytest.raises(ValueError, match="call look before"):
        CoreSharing().divide(load.episode().view, 3.0)
