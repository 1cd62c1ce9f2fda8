"""Agents start as their base policy, score all slots equally, obey all rules, and are ordinary policies."""

import numpy as np
import pandas as pd
import pytest
import torch

from gpu_cluster_gym.agents.checkpoint import Agent, policy_of
from gpu_cluster_gym.agents.plain import play
from gpu_cluster_gym.agents.slot_network import Observation
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import Scenario
from tests.cases.crowd import TINY, batch_of, crowded, env_of, opinionated


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return crowded(tmp_path_factory.mktemp("crowd"))


def some_observations(scenario: Scenario, count: int = 64) -> torch.Tensor:
    """Return what an agent that draws legal actions sees first."""
    env = env_of(scenario)
    env.action_space.seed(0)
    seen = [env.reset(options={"window": 0})[0]]
    while len(seen) < count:
        seen.append(env.step(env.action_space.sample())[0])
    return torch.from_numpy(np.stack(seen))


def permuted(flat: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Return observations with their slots in another order."""
    seen = Observation.of(flat, TINY.queue_slots)
    waiting = torch.tensor([TINY.queue_slots])
    actions = torch.cat([order, waiting])
    parts = [
        seen.slots[:, order].flatten(1),
        seen.totals,
        seen.base_logits[:, actions],
        seen.legal[:, actions].float(),
    ]
    return torch.cat(parts, dim=1)


@pytest.mark.parametrize("seed", range(5))
def test_permuted_slots_give_permuted_logits_and_the_same_value(scenario: Scenario, seed: int) -> None:
    network, seen = opinionated(), some_observations(scenario)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(TINY.queue_slots))
    logits, values = network(seen)
    logits_after, values_after = network(permuted(seen, order))
    torch.testing.assert_close(logits_after[:, :-1], logits[:, order], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logits_after[:, -1], logits[:, -1], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(values_after, values, rtol=1e-5, atol=1e-5)


def test_an_empty_slot_changes_nothing(scenario: Scenario) -> None:
    network, flat = opinionated(), some_observations(scenario)
    seen = Observation.of(flat, TINY.queue_slots)
    few = seen.slots[:, :, 0].sum(1) < TINY.queue_slots
    assert few.any()
    one_less = [seen.slots[few, :-1].flatten(1), seen.totals[few]]
    both = [
        part[few][:, [*range(TINY.queue_slots - 1), -1]] for part in (seen.base_logits, seen.legal.float())
    ]
    wide = network.residual(Observation.of(flat[few], TINY.queue_slots))
    narrow = network.residual(Observation.of(torch.cat([*one_less, *both], 1), TINY.queue_slots - 1))
    torch.testing.assert_close(wide[:, :-2], narrow[:, :-1], rtol=1e-5, atol=1e-5)


def test_an_untrained_agent_is_its_base_policy(scenario: Scenario) -> None:
    envs = batch_of(scenario)
    table, agreement = play(envs, opinionated(sure=0.0))
    load = envs.batch.windows[0].workload
    pd.testing.assert_frame_equal(table, load.results(run(TINY.base_policy, load.episode())))
    assert agreement == 1.0


def test_the_policy_is_the_environment_played_greedily(scenario: Scenario) -> None:
    envs, network = batch_of(scenario), opinionated()
    table, agreement = play(envs, network)
    learned = policy_of(Agent(network, TINY, scenario))
    load = envs.batch.windows[0].workload
    pd.testing.assert_frame_equal(table, load.results(run(learned, load.episode())))
    assert agreement < 0.9


def test_windows_side_by_side_are_windows_one_by_one(scenario: Scenario) -> None:
    envs, network = batch_of(scenario, 2), opinionated()
    together, _ = play(envs, network)
    learned = policy_of(Agent(network, TINY, scenario))
    alone = [
        load.results(run(learned, load.episode())) for load in (each.workload for each in envs.batch.windows)
    ]
    pd.testing.assert_frame_equal(together, pd.concat(alone, ignore_index=True))


@pytest.mark.parametrize("sampled", [False, True])
def test_no_illegal_action_is_ever_chosen(scenario: Scenario, sampled: bool) -> None:
    network, seen = opinionated(), some_observations(scenario, count=200)
    legal = Observation.of(seen, TINY.queue_slots).legal
    generator = torch.Generator().manual_seed(0) if sampled else None
    for _ in range(20 if sampled else 1):
        chosen = network.choose(seen, generator)
        assert int((~legal.gather(1, chosen.unsqueeze(1))).sum()) == 0


def test_the_policy_forgets_an_episode_that_was_left(scenario: Scenario) -> None:
    env = env_of(scenario)
    env.reset(options={"window": 0})
    learned = policy_of(Agent(opinionated(), TINY, scenario))
    left = env.workload.episode()
    left.advance()
    learned(left.view)  # a pick may be half done
    fresh = policy_of(Agent(opinionated(), TINY, scenario))
    used, new = (env.workload.results(run(each, env.workload.episode())) for each in (learned, fresh))
    pd.testing.assert_frame_equal(used, new)
