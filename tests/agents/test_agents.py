"""Agents of action plain score all slots equally, obey all rules, and are ordinary policies."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from gpu_cluster_gym.agents.checkpoint import Agent, new_network, policy_of
from gpu_cluster_gym.agents.learn import learner_of
from gpu_cluster_gym.agents.plain import play, untrained
from gpu_cluster_gym.agents.set_network import READ, Jobs, SetNetwork
from gpu_cluster_gym.agents.training import SLOTS_IN_USE, Training
from gpu_cluster_gym.agents.vec_env import batch
from gpu_cluster_gym.envs.agent_policy import AgentPolicy
from gpu_cluster_gym.envs.observations import Sizes, sets
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel.slots.features import FITS, PRESENT, QUEUE_FEATURES, TOTALS
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.workloads import Scenario
from tests.cases.crowd import TINY, batch_of, crowded, env_of, opinionated


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return crowded(tmp_path_factory.mktemp("crowd"))


def some_observations(scenario: Scenario, count: int = 64, training: Training = TINY) -> torch.Tensor:
    """Return what an agent that draws legal actions sees first."""
    env = env_of(scenario, training)
    env.action_space.seed(0)
    seen = [env.reset(options={"window": 0})[0]]
    while len(seen) < count:
        seen.append(env.step(env.action_space.sample())[0])
    return torch.from_numpy(np.stack(seen))


def greedy(network: SetNetwork) -> Policy:
    """Return the policy that takes a network's most likely action."""
    return AgentPolicy(lambda seen, mask: int(network.choose(torch.from_numpy(seen)[None])), **TINY.acting())


def permuted(flat: torch.Tensor, order: torch.Tensor, order_running: torch.Tensor) -> torch.Tensor:
    """Return observations with their queue slots and running slots in another order."""
    parts = split_sets(flat)
    starts = torch.cat([order, torch.tensor([TINY.queue_slots])])
    found = (
        parts["queue"][:, order],
        parts["totals"],
        parts["legal"][:, starts],
        parts["running"][:, order_running],
    )
    return torch.cat([part.flatten(1) for part in found], dim=1)


def split_sets(flat: torch.Tensor, slots: int = TINY.queue_slots) -> dict[str, torch.Tensor]:
    """Return the parts of observations of `sets`, by the module's own description."""
    parts = sets.observation.parts(Sizes(slots, TINY.running_slots, 16, 2))
    found = torch.split_with_sizes(flat, [part.size for part in parts.values()], dim=1)
    return {
        name: each.reshape(len(flat), *parts[name].shape) for name, each in zip(parts, found, strict=True)
    }


@pytest.mark.parametrize("seed", range(5))
def test_permuted_slots_give_permuted_logits_and_the_same_value(scenario: Scenario, seed: int) -> None:
    network, seen = opinionated(), some_observations(scenario)
    rng = np.random.default_rng(seed)
    order, running = (torch.from_numpy(rng.permutation(n)) for n in (TINY.queue_slots, TINY.running_slots))
    logits, values = network(seen)
    logits_after, values_after = network(permuted(seen, order, running))
    both = torch.cat([order, TINY.queue_slots + running, torch.tensor([logits.shape[1] - 1])])
    torch.testing.assert_close(logits_after, logits[:, both], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(values_after, values, rtol=1e-5, atol=1e-5)


def test_an_empty_slot_changes_nothing(scenario: Scenario) -> None:
    """The same jobs in fewer slots have the same logits and value, so that the number of slots may differ in use."""
    network, flat = opinionated(), some_observations(scenario)
    parts = split_sets(flat)
    few = parts["queue"][:, -1, 0] == 0
    assert few.any()
    fewer = network.observing(TINY.queue_slots - 1)
    legal = torch.cat([parts["legal"][:, :-2], parts["legal"][:, -1:]], dim=1)
    shorter = [parts["queue"][:, :-1], parts["totals"], legal, parts["running"]]
    narrow = torch.cat([part.flatten(1) for part in shorter], dim=1)[few]
    logits, values = network(flat[few])
    kept = [k for k in range(logits.shape[1]) if k != TINY.queue_slots - 1]
    torch.testing.assert_close(fewer(narrow)[0], logits[:, kept], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(fewer(narrow)[1], values, rtol=1e-5, atol=1e-5)
    assert network.slots == TINY.queue_slots


def test_in_use_an_agent_observes_a_longer_queue(scenario: Scenario) -> None:
    """It is validated so, and may start a job that would have been hidden in training."""
    assert TINY.queue_slots < SLOTS_IN_USE == TINY.in_use().queue_slots
    envs = batch(2, scenario, **learner_of(scenario, TINY).environment_in_use(), split="validation", count=2)
    seen, _ = envs.reset(options={"window": [0, 1]})
    hidden = np.zeros((SLOTS_IN_USE, len(QUEUE_FEATURES)), np.float32)
    hidden[TINY.queue_slots :, PRESENT] = hidden[TINY.queue_slots :, FITS] = 1.0
    seen[:, : hidden.size] = hidden.ravel()
    legal = seen[:, hidden.size + len(TOTALS) :]
    slots = np.arange(SLOTS_IN_USE + 1)  # the last is waiting
    legal[:, : len(slots)] = (slots >= TINY.queue_slots) & (slots < SLOTS_IN_USE)
    chosen = (
        opinionated().observing(SLOTS_IN_USE).choose(torch.from_numpy(seen), torch.Generator().manual_seed(0))
    )
    assert ((chosen >= TINY.queue_slots) & (chosen < SLOTS_IN_USE)).all()


def test_nothing_of_the_base_policy_is_read(scenario: Scenario) -> None:
    """Features of victims, and the rank in the base policy's order, do not change a logit or a value."""
    network, flat = opinionated(), some_observations(scenario)
    by_rule = [k for k, name in enumerate(QUEUE_FEATURES) if name == "rank" or "victims" in name]
    assert len(by_rule) == 10
    parts = split_sets(flat.clone())
    parts["queue"][:, :, by_rule] = 0.5
    changed = torch.cat([part.flatten(1) for part in parts.values()], dim=1)
    assert not torch.equal(changed, flat)
    assert all(torch.equal(*pair) for pair in zip(network(changed), network(flat), strict=True))


def test_an_untrained_agent_prefers_no_start_and_hardly_pauses(scenario: Scenario) -> None:
    torch.manual_seed(0)
    network, seen = new_network(TINY), some_observations(scenario, training=replace(TINY, when_full="wait"))
    assert isinstance(network, SetNetwork)
    shares = network.forward_actor(seen).softmax(1)
    legal = Jobs.of(seen, TINY.queue_slots).legal
    starts, pauses = slice(TINY.queue_slots), slice(TINY.queue_slots, -1)
    several = legal[:, starts].sum(1) > 1
    least = shares[:, starts].masked_fill(~legal[:, starts], 1.0).amin(1)
    assert (shares[several, starts].amax(1) / least[several]).max() < 1.2
    assert legal[:, pauses].any()
    assert shares[:, pauses].max() < 0.01


def test_an_untrained_agent_hardly_displaces(scenario: Scenario) -> None:
    torch.manual_seed(0)
    network, seen = new_network(TINY), some_observations(scenario, count=256)
    assert isinstance(network, SetNetwork)
    shares, starts = network.forward_actor(seen).softmax(1), slice(TINY.queue_slots)
    jobs = Jobs.of(seen, TINY.queue_slots)
    fits = torch.zeros(jobs.legal[:, starts].shape, dtype=torch.bool)
    fits = fits.index_put(jobs.queue_at, jobs.queued[:, READ.index(FITS)] > 0)
    displaces = jobs.legal[:, starts] & ~fits
    waits = jobs.legal[:, -1]
    assert displaces[waits].any()
    assert shares[:, starts][displaces & waits[:, None]].max() < 0.01


def test_the_policy_is_the_environment_played_greedily(scenario: Scenario) -> None:
    """Inside the kernel and asked step by step."""
    envs, network = batch_of(scenario), opinionated(seed=1)
    torch.nn.init.constant_(network.actor.claim, 30.0)  # it displaces a lot
    table, counts = play(envs, network)
    learned = greedy(network)
    load = envs.batch.windows[0].workload
    compiled = load.episode()
    pd.testing.assert_frame_equal(table, load.results(run(learned, compiled)))
    assert counts["pauses"] == compiled.state.num_pauses > 0
    pd.testing.assert_frame_equal(table, load.results(run(learned, load.episode(), step_by_step=True)))


def test_agents_draw_by_the_jobs_of_the_window(scenario: Scenario) -> None:
    """Twice the same window is the same, whatever was played before, also step by step."""
    windows = [each.workload for each in batch_of(scenario, 2).batch.windows]
    agent = untrained(TINY)
    first, second, again = (load.results(run(agent, load.episode())) for load in (*windows, windows[0]))
    pd.testing.assert_frame_equal(first, again)
    by_steps = windows[0].results(run(agent, windows[0].episode(), step_by_step=True))
    pd.testing.assert_frame_equal(first, by_steps)
    assert not first["finish_s"].equals(second["finish_s"])


def test_windows_side_by_side_are_windows_one_by_one(scenario: Scenario) -> None:
    envs, network = batch_of(scenario, 2), opinionated()
    together, _ = play(envs, network)
    learned = greedy(network)
    alone = [
        load.results(run(learned, load.episode())) for load in (each.workload for each in envs.batch.windows)
    ]
    pd.testing.assert_frame_equal(together, pd.concat(alone, ignore_index=True))


@pytest.mark.parametrize("sampled", [False, True])
def test_no_illegal_action_is_ever_chosen(scenario: Scenario, sampled: bool) -> None:
    network, seen = opinionated(), some_observations(scenario, count=200)
    legal = Jobs.of(seen, TINY.queue_slots).legal
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
