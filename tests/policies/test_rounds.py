"""Compiled rounds make the moves of their plain form, one by one and in a whole run."""

from typing import Any

import pytest

from gpu_cluster_gym.baselines.gittins import Gittins
from gpu_cluster_gym.baselines.tiresias import Tiresias
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.policy import Action, Policy, Preempt, Start
from gpu_cluster_gym.simulator.view import View
from tests.accounts.rounds_by_hand import LevelsByHand, RoundsByHand
from tests.simulator.test_rule import one_window


class Beside:
    """Policy that compares both forms, fails if they differ, and records its actions."""

    def __init__(self, plain: Policy, policy: Policy) -> None:
        self.plain, self.policy = plain, policy
        self.done: set[type[Action]] = set()

    def __call__(self, view: View) -> Action:
        expected, action = self.plain(view), self.policy(view)
        assert action == expected, f"at {view.now} s"
        self.done.add(type(action))
        return action


def ends(played: Episode) -> list[float]:
    """Return when each job ends."""
    found: list[float] = played.state.finish_s[: len(played.jobs)].tolist()
    return found


CHOICES: list[dict[str, Any]] = [
    {},
    {"servers_on_gpus": True},
    {"limits": (60.0, 600.0, 6000.0), "starve": 0.5},
]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
@pytest.mark.parametrize("workload", ["mixed", "busy", "philly_backlog", "aiturbo_ps"])
def test_the_compiled_policy_equals_the_plain_one(workload: str, choices: dict[str, Any]) -> None:
    load = one_window(workload, jobs=60)
    both = Beside(RoundsByHand(LevelsByHand(**choices)), Tiresias(**choices))
    played = run(both, load.episode())
    assert Start in both.done
    assert ends(run(Tiresias(**choices), load.episode())) == ends(played)


@pytest.mark.parametrize("workload", ["mixed", "busy"])
def test_a_requested_order_is_carried_out_as_in_plain_python(workload: str) -> None:
    load = one_window(workload, jobs=120)
    both = Beside(RoundsByHand(Gittins()._requests), Gittins())
    played = run(both, load.episode())
    assert {Start, Preempt} <= both.done
    assert ends(run(Gittins(), load.episode())) == ends(played)


def test_the_number_of_levels_is_limited() -> None:
    with pytest.raises(ValueError, match="limits: expected at most 8, not 9"):
        Tiresias(limits=tuple(map(float, range(1, 10))))
