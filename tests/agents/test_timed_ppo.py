"""PPO in simulated time: discount factors, the value of arrivals, the unit of rewards, and which part learns first."""

from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from stable_baselines3 import PPO

from gpu_cluster_gym.agents.plain import PlainLearner
from gpu_cluster_gym.agents.set_network import Jobs
from gpu_cluster_gym.agents.timed_ppo import Endless, TimedBuffer
from gpu_cluster_gym.agents.vec_env import ClusterVecEnv
from gpu_cluster_gym.workloads import Scenario
from tests.cases.crowd import TINY, batch_of, crowded, env_of, opinionated


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return crowded(tmp_path_factory.mktemp("crowd"))


def buffer_of(tau_s: float) -> TimedBuffer:
    """Return a rollout of three steps in which 0 s, one time constant, and 0 s pass; the second ends an episode."""
    seen, done = Box(0.0, 1.0, (1,), np.float32), Discrete(2)
    buffer = TimedBuffer(3, seen, done, "cpu", gae_lambda=0.5, gamma=1.0, n_envs=2, tau_s=tau_s)
    buffer.rewards[:] = [[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]]
    buffer.values[:] = [[0.5, 0.5], [1.0, 1.0], [2.0, 2.0]]
    buffer.elapsed_s[:] = [[0.0, 0.0], [100.0, 100.0], [0.0, 0.0]]
    buffer.episode_starts[:] = [[1.0, 1.0], [0.0, 0.0], [0.0, 1.0]]
    return buffer


def test_advantages_are_discounted_by_the_time_that_passes() -> None:
    buffer = buffer_of(tau_s=100.0)
    buffer.compute_returns_and_advantage(torch.tensor([[10.0], [10.0]]), np.array([False, True]))
    g = np.exp(-1.0)
    third = (4 + 10 - 2, 4 - 2)  # no time passes; in the second environment the episode ends
    second = (2 + g * 2 - 1 + 0.5 * g * third[0], 2 - 1)
    first = tuple(1 + 1 - 0.5 + 0.5 * later for later in second)
    np.testing.assert_allclose(buffer.advantages, [first, second, third], rtol=1e-6)
    assert buffer.returns[0, 0] == pytest.approx(first[0] + 0.5)


def test_the_value_of_jobs_that_arrive_is_left_out_of_the_next_value() -> None:
    """The network values arrivals at ten times what is seen next, plus one for each time constant that passes."""

    class Arrivals:
        def value_of_arrivals(self, after: torch.Tensor, elapsed_s: torch.Tensor) -> torch.Tensor:
            return 10 * after[:, 0] + elapsed_s / 100.0

    buffer = buffer_of(tau_s=100.0)
    buffer.network = Arrivals()  # type: ignore[assignment]
    buffer.observations[:] = np.array([0.1, 0.2, 0.3])[:, np.newaxis, np.newaxis]
    buffer.compute_returns_and_advantage(torch.tensor([[10.0], [10.0]]), np.array([False, True]))
    g = np.exp(-1.0)
    third = (4 + 10 - 2, 4 - 2)  # arrivals in the last step are unknown
    second = (2 + g * (2 - (3 + 1)) - 1 + 0.5 * g * third[0], 2 - 1)
    first = tuple(1 + (1 - 2) - 0.5 + 0.5 * later for later in second)
    np.testing.assert_allclose(buffer.advantages, [first, second, third], rtol=1e-6)


@pytest.mark.parametrize("without", [True, False])
def test_arrivals_are_left_out_only_where_that_is_chosen(scenario: Scenario, without: bool) -> None:
    learner = PlainLearner(scenario, replace(TINY, without_arrivals=without))
    model = learner.model()
    assert model.rollout_buffer.network is (learner.network(model) if without else None)


def test_gradients_of_actor_and_critic_are_clipped_apart(scenario: Scenario) -> None:
    """A gradient of 1 in each weight of the critic is clipped to the limit; a small one of the actor is kept."""
    learner = PlainLearner(scenario, TINY)
    model = learner.model()
    network = learner.network(model)
    assert model.max_grad_norm == np.inf  # Stable-Baselines3 clips both at once
    for part, size in ((network.actor, 1e-6), (network.critic, 1.0)):
        for each in part.parameters():
            each.grad = torch.full_like(each, size)
    model.policy.optimizer.step()

    def norm(part: torch.nn.Module) -> float:
        return float(sum((each.grad**2).sum() for each in part.parameters() if each.grad is not None) ** 0.5)

    actors = sum(each.numel() for each in network.actor.parameters())
    assert norm(network.critic) == pytest.approx(signature(PPO).parameters["max_grad_norm"].default, rel=1e-3)
    assert norm(network.actor) == pytest.approx(1e-6 * actors**0.5, rel=1e-3)


def test_without_a_time_constant_nothing_is_discounted() -> None:
    buffer, plain = buffer_of(tau_s=np.inf), buffer_of(tau_s=100.0)
    last, dones = torch.tensor([[10.0], [10.0]]), np.array([False, True])
    buffer.compute_returns_and_advantage(last, dones)
    super(TimedBuffer, plain).compute_returns_and_advantage(last, dones)  # Stable-Baselines3's own, gamma 1
    np.testing.assert_allclose(buffer.advantages, plain.advantages, rtol=1e-6)


def test_each_step_of_a_rollout_has_the_time_that_passed_in_it(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = PlainLearner(scenario, TINY).model()
    env, passed = model.get_env(), []
    assert env is not None
    step = env.step_wait

    def noted() -> Any:
        result = step()
        passed.append([info["elapsed"] for info in result[-1]])
        return result

    monkeypatch.setattr(env, "step_wait", noted)
    model.learn(TINY.rollout * TINY.num_envs)
    assert model.rollout_buffer.elapsed_s.tolist() == np.array(passed, np.float32).tolist()


def test_the_actor_rests_while_the_critic_learns_first(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = PlainLearner(scenario, replace(TINY, critic_first=1))
    model = learner.model()
    network, train, seen = learner.network(model), model.train, []

    def weights() -> list[torch.Tensor]:
        parts = network.actor, network.critic
        return [torch.cat([each.detach().flatten() for each in part.parameters()]) for part in parts]

    def noted() -> None:
        train()
        seen.append(weights())

    begun = weights()
    monkeypatch.setattr(model, "train", noted)
    model.learn(3 * TINY.rollout * TINY.num_envs)
    moved = [
        [not torch.equal(a, b) for a, b in zip(before, after, strict=True)]
        for before, after in zip([begun, *seen], seen, strict=False)
    ]
    assert moved[:2] == [[False, True], [True, True]]


def test_the_value_of_arrivals_is_that_of_the_jobs_that_were_not_there_before(scenario: Scenario) -> None:
    """Jobs are compared by their numbers, which the network does not see."""
    env, network = env_of(scenario), opinionated()
    rng, found = np.random.default_rng(0), 0
    _, info = env.reset(options={"window": 0})
    while found < 20:
        known = set(env.queue.tolist())
        action = rng.choice(np.flatnonzero(info["action_mask"]))
        waits = action == len(info["action_mask"]) - 1
        after, _, ended, _, info = env.step(action)
        if ended or (env.queue >= 0).sum() == TINY.queue_slots:
            _, info = env.reset(options={"window": int(rng.integers(2))})
            continue
        seen = Jobs.of(torch.from_numpy(after)[None], TINY.queue_slots)
        each_value = network.critic(seen)[0].detach()
        new = [job not in known for job in env.queue[env.queue >= 0].tolist()]
        if waits and env.episode.jobs["submit_s"][env.queue[env.queue >= 0]].min() >= 0:
            fresh = env.episode.state.began[env.queue[env.queue >= 0]] == 0
            wanted = float(each_value[torch.tensor(new) & torch.from_numpy(fresh)].sum())
            elapsed = torch.tensor([float(info["elapsed"])])
            found_here = float(network.value_of_arrivals(torch.from_numpy(after)[None], elapsed))
            assert found_here == pytest.approx(wanted, abs=1e-4)
            found += any(new)


@pytest.mark.parametrize("window", [0, 1])
def test_rewards_are_in_the_same_unit_and_an_end_is_a_truncation(scenario: Scenario, window: int) -> None:
    """By Little's law, those of `jct` add up to the total JCT, whatever the window's scale."""
    tau_s, vector = 3600.0, batch_of(scenario, reward="jct")
    plain = ClusterVecEnv(vector)
    envs, total, done = Endless(plain, tau_s), 0.0, False
    envs.set_options({"window": window})
    envs.reset()
    while not done:
        _, rewards, dones, infos = envs.step(plain.action_masks().argmax(1))
        assert infos[0]["TimeLimit.truncated"] == bool(dones[0])
        total, done = total - float(rewards[0]) * 16.0 * tau_s, bool(dones[0])
    jobs = len(vector.env.batch.windows[window].workload.jobs)
    assert total == pytest.approx(infos[0]["mean_jct_s"] * jobs, rel=1e-4)
    assert infos[0]["TimeLimit.truncated"]
