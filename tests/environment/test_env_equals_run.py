"""An agent that acts like a policy gets that policy's results table, if the slots hold all jobs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from gpu_cluster_gym import baselines
from gpu_cluster_gym.envs.env import GPUClusterEnv
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel.cluster.layout import BEST_FIT
from gpu_cluster_gym.simulator.kernel.slots.stepping import RULES
from gpu_cluster_gym.simulator.policy import Ranking
from tests.cases import tiny

PHYSICS = ("all", "none", "memory,preemption", "estimates")

Choose = Callable[[GPUClusterEnv, Any], int]


def driven(env: GPUClusterEnv, choose: Choose, window: int = 0) -> pd.DataFrame:
    """Return the results of an episode with these actions."""
    observation, info = env.reset(options={"window": window})
    over = False
    while not over:
        observation, _, over, truncated, info = env.step(choose(env, observation))
        assert not truncated
        assert info["agrees"] or env.batch.actions.places > 1
    return env.results()


def direct(env: GPUClusterEnv, ranking: Ranking) -> pd.DataFrame:
    """Return the results of the ranking on the window just played."""
    return env.workload.results(run(ranking, env.workload.episode()))


def by_the_base_policy(env: GPUClusterEnv, observation: np.ndarray) -> int:
    """Choose the highest of the base policy's logits, as an untrained agent does."""
    logits = observation[-2 * len(env.action_masks()) : -len(env.action_masks())]
    return int(logits.argmax())


def by(key: Callable[[GPUClusterEnv, int], float]) -> Choose:
    """Start, by best fit, the queued job with the smallest key among those that fit."""

    def choose(env: GPUClusterEnv, observation: Any) -> int:
        mask = env.action_masks()
        rule = RULES.index(BEST_FIT)
        slots = [slot for slot in range(tiny.COUNT) if mask[len(RULES) * slot + rule]]
        if not slots:
            return len(mask) - 1
        queue = env.queue
        return len(RULES) * min(slots, key=lambda slot: (key(env, int(queue[slot])), queue[slot])) + rule

    return choose


@pytest.mark.parametrize("physics", ["all", "none"])
@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("margin", [0.0, 1.0, 8.0, float("inf")])
def test_the_base_policy_alone_is_its_heuristic(
    exponent: float, margin: float, physics: str, tmp_path: Path
) -> None:
    pauses = 0.0
    for seed in range(2):
        chosen = tiny.scenario(tmp_path, tiny.jobs(seed=seed), physics=physics)
        env = tiny.make(chosen, exponent=exponent, margin=margin)
        ranking = Ranking("weighted", "cost_aware", exponent=exponent, margin=margin)
        played = driven(env, by_the_base_policy)
        assert_frame_equal(played, direct(env, ranking), check_exact=True)
        pauses += played["preemptions"].sum()
    assert (pauses > 0) == (margin < float("inf"))


@pytest.mark.parametrize("placement", ["first_fit", "spread", "pooled"])
def test_so_it_is_under_other_rules_of_placement(placement: str, tmp_path: Path) -> None:
    env = tiny.make(tiny.scenario(tmp_path, placement=placement), margin=1.0)
    assert_frame_equal(driven(env, by_the_base_policy), direct(env, env.base_policy), check_exact=True)


def test_so_it_is_window_by_window(tmp_path: Path) -> None:
    table = tiny.jobs(6 * tiny.COUNT)
    chosen = tiny.scenario(tmp_path, table, full_trace=False, all_windows=True, jobs=tiny.COUNT)
    env = tiny.make(chosen, count=3)
    for window in (2, 0, 1, 2):
        played = driven(env, by_the_base_policy, window)
        assert_frame_equal(played, direct(env, env.base_policy), check_exact=True)
        assert env.batch.windows[window].reference_mean_jct_s == played["jct_s"].mean()


@pytest.mark.parametrize("physics", PHYSICS)
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("fifo", lambda env, job: 0.0),
        ("sjf", lambda env, job: env.episode.view.jobs.estimate_s[job]),
    ],
)
def test_primitive_moves_make_a_ranking(
    name: str, key: Callable[[GPUClusterEnv, int], float], physics: str, tmp_path: Path
) -> None:
    for seed in range(2):
        chosen = tiny.scenario(tmp_path, tiny.jobs(seed=seed), physics=physics)
        env = tiny.make(chosen, placed_by="agent", victims_by="agent", when_full="wait")
        policy = baselines.load(name)
        assert isinstance(policy, Ranking)
        assert_frame_equal(driven(env, by(key)), direct(env, policy), check_exact=True)


@pytest.mark.parametrize("slots", [1, 5])
@pytest.mark.parametrize("physics", PHYSICS)
def test_the_base_policy_needs_no_more_than_a_slot(physics: str, slots: int, tmp_path: Path) -> None:
    """Its own choice is always shown, even if other jobs are not."""
    chosen = tiny.scenario(tmp_path, physics=physics)
    env = tiny.make(chosen, queue_slots=slots, margin=1.0)
    assert_frame_equal(driven(env, by_the_base_policy), direct(env, env.base_policy), check_exact=True)


@pytest.mark.parametrize("by", ["rule", "agent"])
def test_jobs_beyond_the_slots_are_reported(by: str, tmp_path: Path) -> None:
    env = tiny.make(tiny.scenario(tmp_path), placed_by=by, victims_by=by, queue_slots=2)
    unseen = []
    for seen in tiny.wander(env):
        unseen.append(seen.info["unseen"])
        assert unseen[-1] == max(len(env.episode.view.queue) - 2, 0)
    assert max(unseen) > 5
