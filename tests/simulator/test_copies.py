"""A copy of a running episode or environment continues exactly like the original, and does not affect it."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.envs.env import GPUClusterEnv
from gpu_cluster_gym.simulator.episode import Episode, asking, run
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.policy import Action, Wait
from gpu_cluster_gym.simulator.rule_policy import Offsets, Rule, Steered
from gpu_cluster_gym.simulator.source import source_of
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace
from tests.cases import tiny

KINDS = (
    {"placed_by": "agent", "victims_by": "agent", "reward": "gain"},
    {"placed_by": "rule", "victims_by": "rule", "reward": "rollout_advantage"},
)
PHYSICS = ("memory,preemption,estimates", "all")
STEPS = 40  # before the copy, and after it


def pickled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


WAYS = pytest.mark.parametrize("duplicate", [copy.deepcopy, pickled])


def taken(env: Any, rng: np.random.Generator, steps: int) -> list[bytes]:
    """Take random legal actions; return everything that the environment returned."""
    seen = []
    for _ in range(steps):
        mask = env.get_wrapper_attr("action_masks")()
        observation, reward, ended, cut, info = env.step(int(rng.choice(np.flatnonzero(mask))))
        seen.append(tiny.bits((observation, reward, ended, cut, info["elapsed"])))
        if ended or cut:
            break
    return seen


@WAYS
@pytest.mark.parametrize("physics", PHYSICS)
@pytest.mark.parametrize("kinds", KINDS, ids=lambda kinds: kinds["placed_by"])
def test_a_copied_environment_continues_identically(
    kinds: dict[str, str], physics: str, duplicate: Callable[[Any], Any], tmp_path: Path
) -> None:
    chosen = tiny.scenario(tmp_path, tiny.mixed(2), physics=physics)
    env = tiny.make(chosen, **kinds)
    env.reset(seed=0)
    taken(env, np.random.default_rng(0), STEPS)
    other = duplicate(env)
    assert other.episode.state.clock == env.episode.state.clock
    ahead = taken(
        other, np.random.default_rng(1), STEPS
    )  # first, so that it would show if the original moved too
    assert taken(env, np.random.default_rng(1), STEPS) == ahead


@WAYS
def test_so_does_one_in_its_wrappers_and_its_next_window(
    duplicate: Callable[[Any], Any], tmp_path: Path
) -> None:
    env = gymnasium.make("GPUCluster-v2", scenario=tiny.scenario(tmp_path), reward="jct")
    env.reset(seed=3)
    taken(env, np.random.default_rng(0), STEPS)
    other = duplicate(env)
    assert taken(other, np.random.default_rng(1), 10_000) == taken(env, np.random.default_rng(1), 10_000)
    seen = [tiny.bits(each.reset()[0]) for each in (env, other)]
    assert seen[0] == seen[1]


def started(load: Workload, name: str) -> tuple[Episode, Callable[[Episode], Callable[[], Action]]]:
    """Return an episode on which a policy has acted for a while, and a factory of policies with equal knowledge."""
    episode = load.episode()
    policy = baselines.make(baselines.load(name))
    go_on(episode, asking(policy, episode), STEPS)
    return episode, lambda other: asking(copy.deepcopy(policy), other)


def go_on(episode: Episode, ask: Callable[[], Action], instants: int) -> None:
    for _ in range(instants):
        if episode.done or not episode.advance():
            return
        while not isinstance(action := ask(), Wait):
            episode.apply(action)
        episode.apply(action)


@WAYS
@pytest.mark.parametrize(
    "name",
    ["srtf", "random", "aiturbo", "coda", "gavel", "optimus", "tiresias", "union", "lookahead", "xonar"],
)
def test_a_copied_episode_ends_identically(
    name: str, duplicate: Callable[[Any], Any], tmp_path: Path
) -> None:
    load = full_trace(Scenario(**tiny.scenario(tmp_path, tiny.mixed(3), physics="all")))
    episode, ask = started(load, name)
    other = duplicate(episode)
    asks = ask(other), ask(episode)
    go_on(other, asks[0], 10_000)
    assert not episode.done
    go_on(episode, asks[1], 10_000)
    assert other.done
    assert load.results(other).equals(load.results(episode))


@WAYS
def test_a_policy_that_steers_keeps_nothing_of_an_episode(
    duplicate: Callable[[Any], Any], tmp_path: Path
) -> None:
    """One and the same object goes on in a copy, then in the original: each ends as where nobody interrupts."""
    load = full_trace(Scenario(**tiny.scenario(tmp_path, tiny.mixed(3), physics="all")))
    direction = np.random.default_rng(0).normal(size=(len(LOAD), 1))
    steered = Steered(Offsets(Rule(), ("price",)), 3, lambda seen: np.sin(9 * seen @ direction))
    episode, alone = load.episode(), run(steered, load.episode())
    go_on(episode, asking(steered, episode), STEPS)
    assert not episode.done
    for each in (duplicate(episode), episode):
        go_on(each, asking(steered, each), 10_000)
        assert load.results(each).equals(load.results(alone))
    assert not load.results(alone).equals(load.results(run(Rule(), load.episode())))


def test_policies_that_steer_do_not_take_one_anothers_weights(tmp_path: Path) -> None:
    """Asked in turn about one episode, each chooses its own, though only what chooses differs."""
    episode = full_trace(Scenario(**tiny.scenario(tmp_path, tiny.mixed(3), physics="all"))).episode()

    def always(offset: float) -> Steered:
        return Steered(Offsets(Rule(), ("price",)), 3, lambda seen: np.array([offset]))

    low, high = always(-1.0), always(1.0)
    episode.advance()
    prices = []
    for policy in (low, high, high, low):
        policy(episode.view)
        memory: Any = source_of(episode.view).rule_memory
        prices.append(float(memory["price"][0]))
    assert prices[0] == prices[3] < prices[1] == prices[2]


@WAYS
def test_a_copy_in_the_middle_of_an_instant_keeps_the_moves_that_are_left(
    duplicate: Callable[[Any], Any], tmp_path: Path
) -> None:
    load = full_trace(Scenario(**tiny.scenario(tmp_path)))
    episode, ranking = load.episode(), baselines.load("fifo")
    ask = asking(ranking, episode)
    while len(source_of(episode.view).moves) < 2:
        if isinstance(action := ask(), Wait):
            episode.apply(action)
            episode.advance()
        else:
            episode.apply(action)
    other = duplicate(episode)
    assert asking(ranking, other)() == ask()


@WAYS
def test_a_copy_has_the_very_types_that_the_kernel_knows(
    duplicate: Callable[[Any], Any], tmp_path: Path
) -> None:
    episode = full_trace(Scenario(**tiny.scenario(tmp_path))).episode()
    other = duplicate(episode)
    assert other.jobs.dtype is JOB
    assert other.states.dtype is episode.states.dtype
    assert np.shares_memory(other.state["phase"], other.states)


def test_a_shallow_copy_shares_no_record_either(tmp_path: Path) -> None:
    episode = full_trace(Scenario(**tiny.scenario(tmp_path))).episode()
    other = copy.copy(episode)
    for mine, its in (
        (episode.jobs, other.jobs),
        (episode.states, other.states),
        (episode.histories, other.histories),
    ):
        assert not np.shares_memory(mine, its)
    other.advance()
    assert episode.state.instant != other.state.instant


def test_a_copied_environment_shares_only_what_never_changes(tmp_path: Path) -> None:
    env = tiny.make(tiny.scenario(tmp_path))
    env.reset(seed=0)
    other: GPUClusterEnv = copy.deepcopy(env)
    assert other.workload is env.workload
    assert not np.shares_memory(other.episode.states, env.episode.states)
    assert not np.shares_memory(other.episode.jobs, env.episode.jobs)
