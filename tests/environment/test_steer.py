"""Action `steer`: zero offsets reproduce the default run, and rewards are the job-seconds saved against it."""

from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import gymnasium
import numpy as np
import pandas as pd
import pytest
from gymnasium.utils.env_checker import check_env

from gpu_cluster_gym.envs.steer import TRUSTS, WEIGHTS, SteerBatch, SteerEnv
from gpu_cluster_gym.envs.windows import PreparedWindow
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.rule_policy import (
    HIGHEST,
    RULE_PARAMETERS,
    Offsets,
    Rule,
    Steered,
    decision_times,
)
from gpu_cluster_gym.workloads import named, windows
from tests.cases import tiny

FEW = 60  # jobs
SCENARIO = replace(named("mixed"), jobs=FEW)
MANY_CORES = "4x8-1200c"
"""Cluster with more cores per GPU than the bounds of an observation."""


@cache
def found() -> list[PreparedWindow]:
    """Return two prepared training windows of a few jobs."""
    return [PreparedWindow(load) for load in windows(SCENARIO, "train", 2)]


def played(batch: SteerBatch, *actions: float) -> float:
    """Play a window with actions that are equal for all weights, the last one repeated; return the sum of gains."""
    batch.begin(0, 0)
    won, step = 0.0, 0
    while batch.more[0]:
        batch.step(np.full((1, len(batch.offsets.names)), actions[min(step, len(actions) - 1)]))
        won, step = won + float(batch.gain[0]), step + 1
    return won


def test_no_offset_is_the_default_run() -> None:
    batch = SteerBatch(found(), 1)
    assert played(batch, 0.0) == pytest.approx(0.0, abs=1e-12)
    assert batch.states[0].finish_s[:FEW].tolist() == found()[0].reference_finish_s.tolist()


def test_a_constant_offset_is_the_rule_with_that_weight() -> None:
    """An action of 1 moves a weight by three times its scale."""
    scale = {each.name: each.scale for each in RULE_PARAMETERS}["price"]
    batch = SteerBatch(found(), 1, weights=("price",))
    won = played(batch, 1.0)
    alone = run(Rule(price=Rule().price + 3 * scale), found()[0].workload.episode()).state.finish_s[:FEW]
    assert batch.states[0].finish_s[:FEW].tolist() == alone.tolist()
    assert won == pytest.approx(1 - batch.final_info(0)[1])
    assert won != 0


def test_zero_offsets_of_another_base_are_that_rule_and_gains_refer_to_the_default() -> None:
    """Weights that are not steered are also the base's, in each window again."""
    base = {"most_slow": 1.5, "price": 4.0}
    batch = SteerBatch(found(), 1, weights=("price",), base_weights=base)
    alone = run(Rule(**base), found()[0].workload.episode()).state.finish_s[:FEW]
    for _ in range(2):
        won = played(batch, 0.0)
        assert batch.states[0].finish_s[:FEW].tolist() == alone.tolist()
        assert won == pytest.approx(1 - alone_over_default(alone)) != 0
    with pytest.raises(ValueError, match="most_slow"):
        SteerBatch(found(), 1, base_weights={"most_slow": 0.0})


def alone_over_default(finish_s: np.ndarray) -> float:
    """Return the mean JCT in the first window over the default rule's, given the end of each job."""
    opening = found()[0]
    submit_s = opening.workload.jobs["submit_s"]
    return float((finish_s - submit_s).sum() / opening.reference_job_seconds)


def test_decisions_come_at_like_shares_of_arrivals() -> None:
    env = SteerEnv(asdict(SCENARIO), count=1, decisions_per_window=6)
    env.reset(seed=0)
    arrived, over = [int(env.batch.states[0].num_arrived)], False
    while not over:
        _, _, over, _, _ = env.step(np.zeros(len(WEIGHTS)))
        arrived.append(int(env.batch.states[0].num_arrived))
    assert len(arrived) == 7
    np.testing.assert_array_less(np.abs(np.array(arrived[1:6]) - np.arange(10, 60, 10)), 10)
    assert arrived[-1] == FEW


def test_jobs_that_come_at_once_give_one_decision() -> None:
    assert len(decision_times(np.full(FEW, 5.0), 5, first_s=5.0)) == 0


def test_times_before_the_begin_of_a_steady_window_are_no_decisions() -> None:
    assert decision_times(np.arange(12.0), 3, first_s=6.0).tolist() == [9.0]


def test_in_a_steady_window_as_elsewhere_a_steered_policy_is_the_environment_played() -> None:
    """Time passes between decisions, and jobs that arrived in the warm-up do not count towards their number."""
    steady = named("quick")
    prepared = [PreparedWindow(windows(steady, "train", 1)[0])]
    load, weights = prepared[0].workload, ("price", "harm")
    batch = SteerBatch(prepared, 1, weights=weights, decisions_per_window=24)
    assert batch.every == -(-steady.jobs // 24)

    def choose(seen: np.ndarray) -> np.ndarray:
        return np.array([np.sin(9 * seen.sum()), np.cos(9 * seen.sum())])

    batch.begin(0, 0)
    decisions = 0
    while not batch.over[0]:
        batch.step(choose(batch.observe()[0])[None])
        decisions += 1
        assert batch.elapsed_s[0] > 0
    assert decisions > 2
    mine = slice(load.first_counted, load.last_counted + 1)
    steered = Steered(Offsets(Rule(), weights), batch.every, choose)
    for step_by_step in (False, True):
        played = run(steered, load.episode(), step_by_step=step_by_step)
        assert played.state.finish_s[mine].tolist() == batch.states[0].finish_s[mine].tolist()


def test_threads_change_nothing() -> None:
    alone, shared = (SteerBatch(found(), 6, threads=threads) for threads in (1, 3))
    actions = np.random.default_rng(1).uniform(-1, 1, (6, len(WEIGHTS)))
    for batch in (alone, shared):
        for e in range(6):
            batch.begin(e, e % 2)
        while batch.more.any():
            batch.step(actions)
    np.testing.assert_array_equal(alone.states["finish_s"], shared.states["finish_s"])
    assert (alone.load == shared.load).all()
    with pytest.raises(ValueError, match="threads 0"):
        SteerBatch(found(), 1, threads=0)


def test_gymnasium_finds_no_fault() -> None:
    check_env(SteerEnv(asdict(SCENARIO), count=2, privileged=True), skip_render_check=True)


def test_observations_reveal_no_truth_and_no_length() -> None:
    """Different run times of future jobs, or fewer of them, change nothing at the first decision."""
    load = found()[0].workload
    later = load.jobs.copy()
    later["duration_s"][5:] *= 3
    fewer = replace(load, jobs=load.jobs[:40])
    batch = SteerBatch([found()[0], PreparedWindow(replace(load, jobs=later)), PreparedWindow(fewer)], 3)
    for e in range(3):
        batch.begin(e, e)
    assert (batch.load[0] == batch.load[1]).all()
    assert (batch.load[0] == batch.load[2]).all()
    assert batch.load.shape == (3, len(LOAD))


@pytest.mark.parametrize(("contention", "sign"), [(0.48, 0), (1.5, 1), (0.1, -1)])
def test_it_is_seen_how_jobs_slow_one_another_in_truth(contention: float, sign: int) -> None:
    """Relative to the believed slowdown (0.48 per GPU of excess demand, 0.04 per other job)."""
    physics = "memory,preemption,estimates,sharing"
    crowded = replace(SCENARIO, physics=physics, contention_form="excess", shift="load=4")
    scenario = replace(crowded, contention=contention, contention_loss=0.04)
    batch = SteerBatch(
        [PreparedWindow(each) for each in windows(scenario, "train", 1)], 1, arrivals_per_decision=5
    )
    batch.begin(0, 0)
    seen = []
    while batch.more[0]:
        seen.append(dict(zip(LOAD, batch.load[0].tolist(), strict=True)))
        batch.step(np.zeros((1, len(batch.offsets.names))))
    sharing = [each["slower_than_believed"] for each in seen if each["shared_gpus"] > 0]
    assert len(sharing) >= 3
    assert set(np.sign(np.round(sharing, 6))) <= {0, sign}  # 0 where no more is demanded than there is
    assert (max(map(abs, sharing)) > 0.05) == (sign != 0)
    assert {each["slower_than_believed"] for each in seen if each["shared_gpus"] == 0} <= {0.0}


@pytest.mark.parametrize(
    ("cluster", "history", "weights"),
    [
        (SCENARIO.cluster, None, ("price", "harm", "exponent")),
        (MANY_CORES, None, ("price", "harm", "exponent")),
        (SCENARIO.cluster, "mixed", ("price", *TRUSTS)),
    ],
)
def test_a_steered_policy_is_the_environment_played(
    cluster: str | None, history: str | None, weights: tuple[str, ...]
) -> None:
    """Inside the kernel, step by step, and in the environment: equal to the digit, also beyond the space's bounds."""
    load = windows(replace(SCENARIO, cluster=cluster, run_time_predictor=history), "train", 1)[0]
    prepared = [PreparedWindow(load)]
    batch = SteerBatch(prepared, 1, weights=weights)
    direction = np.random.default_rng(0).normal(size=(len(LOAD), len(weights)))

    def choose(load: np.ndarray) -> np.ndarray:
        return np.sin(load @ direction)

    batch.begin(0, 0)
    assert (batch.load > HIGHEST).any() == (cluster == MANY_CORES)
    while batch.more[0]:
        batch.step(choose(batch.observe()[0])[None])
    steered = Steered(Offsets(Rule(), weights), batch.every, choose)
    for step_by_step in (False, True):
        played = run(steered, prepared[0].workload.episode(), step_by_step=step_by_step)
        assert played.state.finish_s[:FEW].tolist() == batch.states[0].finish_s[:FEW].tolist()
    assert batch.final_info(0)[1] != 1


def test_actions_may_be_offsets_from_another_rule() -> None:
    env = SteerEnv(asdict(SCENARIO), count=1, default_weights={"price": 2.0}, weights=("harm",))
    env.reset(seed=0)
    over = False
    while not over:
        _, reward, over, _, info = env.step(np.zeros(1))
        assert reward == pytest.approx(0.0, abs=1e-10)
    assert info["jct_ratio"] == pytest.approx(1.0)
    alone = run(Rule(price=2.0), found()[0].workload.episode())
    assert env.results()["jct_s"].mean() == pytest.approx(
        alone.state.finish_s[:FEW].mean() - alone.jobs["submit_s"].mean()
    )


@pytest.mark.parametrize("weights", [("prize",), ("sharing",)], ids=str)
def test_an_unknown_weight_is_refused(weights: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="unknown adjustable weight"):
        Offsets(Rule(), weights)


def test_a_policy_is_not_cut_however_many_instants_it_takes() -> None:
    """An environment is truncated after as many instants as only endless pausing reaches; a policy is not."""
    load, many = found()[0].workload, 1_000_000
    batch = SteerBatch(found(), 1)
    batch.begin(0, 0)
    batch.states["instant"] += many
    batch.step(np.zeros((1, len(WEIGHTS)), np.float32))
    assert batch.ends()[1].tolist() == [True]
    episode = load.episode()
    episode.states["instant"] += many
    steered = Steered(Offsets(Rule(), WEIGHTS), batch.every, lambda seen: np.zeros(len(WEIGHTS)))
    assert steered.run_compiled(episode.states, episode.jobs, episode.histories)


def test_long_jobs_that_queue_are_not_cut_for_the_ticks_that_pass(tmp_path: Path) -> None:
    """Three jobs of four days on one GPU, with a tick every five minutes while a job waits."""
    table = pd.DataFrame({"job_id": list("abc"), "submit_s": 0.0, "num_gpus": 1, "duration_s": 320_000.0})
    env = gymnasium.make(
        "GPUCluster-v2", action="steer", scenario=tiny.scenario(tmp_path, table, cluster="1x1")
    )
    env.reset(seed=0)
    *_, ended, cut, _ = env.step(np.zeros(len(WEIGHTS), np.float32))
    assert (ended, cut) == (True, False)
