"""Every policy finishes every job with all physics on, in agreement with a plain account and all invariants."""

import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.episode import discipline_of
from gpu_cluster_gym.simulator.policy import Ranking
from tests.accounts.twins import Twins
from tests.cases.turns import in_turn
from tests.simulator.test_laws_physics import twins_of

CONFIGS = ("all", "three a GPU", "no sharing")


@pytest.mark.parametrize(("name", "config"), in_turn(CONFIGS))
def test_every_policy_obeys_the_laws_with_all_physics(name: str, config: str) -> None:
    """Held against the account at every instant and after every action: time, memory, cores, progress, legality."""
    obeys(name, twins_of(config, seed=3, count=9))


@pytest.mark.parametrize("name", baselines.names())
def test_every_policy_obeys_constraints(name: str) -> None:
    """Some jobs may use some nodes only, some wait for others; no job is ever on a node that it may not use."""
    obeys(name, twins_of("bound", seed=3, count=9))


def obeys(name: str, twins: Twins) -> None:
    """Assert that a policy ends every job in agreement with the account."""
    policy = baselines.make(baselines.load(name))
    if isinstance(policy, Ranking):
        twins = Twins(twins.work, policy.levels)
        twins.episode.state.discipline = discipline_of(policy, twins.episode.discipline)
    twins.play(policy)
    assert twins.differences == []
    assert twins.episode.done
