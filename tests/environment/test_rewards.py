"""Rewards add up to their documented sums."""

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from gpu_cluster_gym.envs.env import GPUClusterEnv
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY
from gpu_cluster_gym.traces import modules
from tests.cases import tiny

PHYSICS = ("all", "none")
FEW = 3  # slots that are far too few
SCRATCH = 1  # record
ADVANTAGE = {"reward": "rollout_advantage"}
BY_AGENT = {"placed_by": "agent", "victims_by": "agent"}


def total_jct(env: GPUClusterEnv) -> float:
    return float(env.results()["jct_s"].sum())


# Job-seconds.


@pytest.mark.parametrize("slots", [FEW, tiny.COUNT])
@pytest.mark.parametrize("physics", PHYSICS)
@pytest.mark.parametrize("kind", [BY_AGENT, {}], ids=["by agent", "by rule"])
def test_the_return_is_minus_the_total_jct(
    kind: dict[str, str], physics: str, slots: int, tmp_path: Path
) -> None:
    for seed in range(2):
        chosen = tiny.scenario(tmp_path, tiny.jobs(seed=seed), physics=physics)
        env = tiny.make(chosen, **kind, reward="jct", queue_slots=slots)
        steps = list(tiny.wander(env, seed))
        paid = sum(seen.reward for seen in steps)
        assert paid * steps[0].info["scale"] == pytest.approx(-total_jct(env), rel=1e-12)
        assert all(seen.reward <= 0 for seen in steps)


@pytest.mark.parametrize("action", ["plain", "steer"])
def test_in_a_steady_window_the_return_is_of_all_jobs_present(action: str) -> None:
    """From the first decision to the end of the last job that counts; the ratio is of the jobs that count."""
    env: Any = gymnasium.make(
        "GPUCluster-quick-v2", scenario={"warm_days": 0.5}, count=1, action=action, reward="jct"
    ).unwrapped
    _, info = env.reset(seed=0)
    began_s, paid, over = env.batch._clock()[0][0], 0.0, False
    while not over:
        chosen = env.action_space.low if action == "steer" else int(np.flatnonzero(env.action_masks())[0])
        _, got, over, cut, info = env.step(chosen)
        paid += got
        assert not cut
    ended_s, table = env.batch._clock()[0][0], env.workload.jobs
    finish_s = np.nan_to_num(env.batch.states[0]["finish_s"][: len(table)], nan=np.inf)
    present_s = np.minimum(finish_s, ended_s) - np.maximum(table["submit_s"], began_s)
    assert paid * info["scale"] == pytest.approx(-np.maximum(present_s, 0.0).sum(), rel=1e-9)
    counted = env.workload.counted
    assert 0 < counted.sum() < len(table)
    assert finish_s[counted].max() <= ended_s
    assert info["mean_jct_s"] == pytest.approx((finish_s - table["submit_s"])[counted].mean())


def minus_slowdown(slowdown_regret: np.ndarray) -> np.ndarray:
    return 0.0 - slowdown_regret


@pytest.mark.parametrize("kind", ["regret", "slowdown_regret"])
@pytest.mark.parametrize("action", [{}, BY_AGENT, {"action": "moves"}, {"action": "steer"}], ids=str)
def test_regrets_add_up_to_the_total_less_what_the_jobs_had_to_cost(
    action: dict[str, Any], kind: str, tmp_path: Path
) -> None:
    """The total is that of JCT, or of slowdowns times 100 s. What each job has to cost counts when it arrives."""
    reward: Any = "regret" if kind == "regret" else minus_slowdown
    env: Any = gymnasium.make(
        "GPUCluster-v2", scenario=tiny.scenario(tmp_path), reward=reward, **action
    ).unwrapped
    _, info = env.reset()
    batch, over, paid, known = env.batch, False, 0.0, np.zeros(1, np.int64)
    had_to_s = 0.0
    while not over:
        arrived = batch.states["num_arrived"][:1].copy()
        had_to_s += (batch._least_cost(kind, arrived) - batch._least_cost(kind, known))[0]
        known = arrived
        chosen = env.action_space.low if action.get("action") == "steer" else int(env.action_masks().argmax())
        _, got, over, _, info = env.step(chosen)
        paid += got
    slowdowns = env.results()["jct_s"] / np.maximum(env.workload.jobs["duration_s"], 10.0)
    total = total_jct(env) if kind == "regret" else 100.0 * float(slowdowns.sum())
    assert paid * info["scale"] == pytest.approx(had_to_s - total, rel=1e-9)


def test_balanced_regret_is_the_sum_of_both_regrets(tmp_path: Path) -> None:
    def each(reward: Any) -> np.ndarray:
        env = tiny.make(tiny.scenario(tmp_path), reward=reward)
        return np.array([seen.reward for seen in tiny.wander(env)])

    both = each("balanced_regret")
    assert both == pytest.approx(each("regret") + each(minus_slowdown))
    assert both.min() < each("regret").min()


@pytest.mark.parametrize("reward", ["gain", lambda gain: gain], ids=["gain", "own"])
def test_gains_of_windows_of_several_sizes_add_up(reward: Any) -> None:
    """Windows of a steady load have different numbers of jobs; an environment has the records of one window only."""
    scenario = {"warm_days": 0.5, "counted_days": 0.5, "after_days": 0.5}
    env: Any = gymnasium.make("GPUCluster-quick-v2", scenario=scenario, count=2, reward=reward).unwrapped
    sizes = []
    for window in env.windows:
        _, info = env.reset(options={"window": window})
        paid, over = 0.0, False
        while not over:
            _, got, over, _, info = env.step(int(env.action_masks().argmax()))
            paid += got
        sizes.append(len(env.workload.jobs))
        finish_s, submit_s = env.batch.finish[0, : sizes[-1]], env.workload.jobs["submit_s"]
        own_s = np.nan_to_num(env.batch.states[0]["finish_s"][: sizes[-1]], nan=np.inf)
        end_s = np.inf if env.episode.done else env.batch._clock()[0][0]
        saved = np.maximum(np.minimum(finish_s, end_s) - submit_s, 0.0).sum()
        saved -= np.maximum(np.minimum(own_s, end_s) - submit_s, 0.0).sum()
        assert paid * info["scale"] == pytest.approx(saved, rel=1e-6, abs=1.0)
    assert len(set(sizes)) == 2


@pytest.mark.parametrize(
    "wrong", [lambda gain: None, lambda gain: "much", lambda gain: [1.0, 2.0]], ids=["None", "text", "two"]
)
def test_a_reward_that_is_no_number_is_refused(wrong: Any, tmp_path: Path) -> None:
    env = gymnasium.make("GPUCluster-v2", scenario=tiny.scenario(tmp_path), reward=wrong)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"reward '<lambda>' returned .*: expected a number per environment"):
        env.step(env.action_space.sample())


def of_jobs(folder: Path, cluster: str, gpus: list[int], duration_s: list[float]) -> Any:
    """Return an environment of jobs that are all submitted at once, and neither load nor pause."""
    table = tiny.jobs(len(gpus)).assign(submit_s=0.0, num_gpus=gpus, duration_s=duration_s, cpu_cores=1.0)
    chosen = tiny.scenario(folder, table, cluster=cluster, physics="none")
    env = gymnasium.make("GPUCluster-v2", scenario=chosen, reward="regret").unwrapped
    env.reset()
    return env


def test_the_least_cost_by_hand(tmp_path: Path) -> None:
    """16 GPUs do the work in 50, 200 and 100 s; the shortest first, it ends after 50, 150 and 350 s.

    The first job needs 100 s by itself, and that of 4 GPUs 400 s.
    """
    batch = of_jobs(tmp_path, "2x8", [8, 16, 4], [100.0, 200.0, 400.0]).batch
    assert batch._least_cost("regret", np.array([3])).tolist() == [100.0 + 350.0 + 400.0]
    assert batch._least_cost("regret", np.array([1])).tolist() == [100.0], "only the jobs that count"
    assert batch._least_cost("regret", np.array([0])).tolist() == [0.0]


def test_the_least_cost_in_slowdowns_by_hand(tmp_path: Path) -> None:
    """16 GPUs do the work in 100 and 50 s; per weight, 1 and 1/4, in 100 and 200 s: the first job comes first."""
    batch = of_jobs(tmp_path, "2x8", [16, 2], [100.0, 400.0]).batch
    cost = batch._least_cost("slowdown_regret", np.array([2]))[0]
    assert cost == pytest.approx(1.0 * 100.0 + 0.25 * 400.0)
    assert batch._least_cost("regret", np.array([2])).tolist() == [150.0 + 400.0], "the other order"


@pytest.mark.parametrize(("first", "regret_s"), [(0, 0.0), (1, 100.0), (2, 500.0)])
def test_an_action_is_regretted_at_once(first: int, regret_s: float, tmp_path: Path) -> None:
    """On one GPU, jobs of 100, 200 and 400 s cost 100 + 300 + 700 s; else 200 + 300 + 700 or 400 + 500 + 700."""
    env = of_jobs(tmp_path, "1x1", [1, 1, 1], [100.0, 200.0, 400.0])
    regrets_s = []
    for action in (first, 0):  # the next one is the shortest left
        _, got, _, _, info = env.step(action)
        regrets_s.append(-got * info["scale"])
    assert regrets_s == pytest.approx([regret_s, 0.0], abs=1e-6)


@pytest.mark.parametrize("action", [{}, BY_AGENT, {"action": "moves"}, {"action": "steer"}], ids=str)
def test_the_return_of_slowdown_is_minus_the_mean_slowdown(action: dict[str, Any]) -> None:
    """One window after the other."""
    choices: dict[str, Any] = {
        "workload": "philly_backlog",
        "scenario": {"jobs": 30, "all_windows": True, "physics": "exclusive", "cluster": "4x8"},
        "count": 2,
        "reward": "slowdown",
    }
    env: Any = gymnasium.make("GPUCluster-v2", **choices, **action).unwrapped
    for window in (0, 1, 0):
        env.reset(options={"window": window})
        paid, over = 0.0, False
        while not over:
            masks = env.action_masks()
            chosen_ = (
                env.action_space.low if action.get("action") == "steer" else int(np.flatnonzero(masks)[0])
            )
            _, got, over, _, _ = env.step(chosen_)
            paid += got
        least_s = np.maximum(env.workload.jobs["duration_s"], 10.0)
        assert paid == pytest.approx(-(env.results()["jct_s"] / least_s).mean(), rel=1e-9)


@pytest.mark.parametrize("reward", modules("envs.rewards"))
def test_the_scale_is_the_base_policys_mean_jct(reward: str, tmp_path: Path) -> None:
    env = tiny.make(tiny.scenario(tmp_path), reward=reward)
    *_, last = tiny.wander(env)
    results = env.workload.results(run(env.base_policy, env.workload.episode()))
    assert last.info["scale"] == results["jct_s"].mean()
    assert last.info["jct_ratio"] == env.results()["jct_s"].mean() / results["jct_s"].mean()


def test_a_function_is_a_reward(tmp_path: Path) -> None:
    def halved(job_seconds: np.ndarray) -> np.ndarray:
        return -0.5 * job_seconds

    own, known = (tiny.make(tiny.scenario(tmp_path), reward=reward) for reward in (halved, "jct"))
    received = [[2 * seen.reward for seen in tiny.wander(own)], [seen.reward for seen in tiny.wander(known)]]
    assert received[0] == received[1]
    assert any(received[1])


def test_a_reward_is_named_by_the_path_of_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_rewards.py").write_text("def mine(job_seconds):\n    return -2.0 * job_seconds\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    own, known = (tiny.make(tiny.scenario(tmp_path), reward=reward) for reward in ("own_rewards:mine", "jct"))
    received = [[seen.reward for seen in tiny.wander(own)], [2 * seen.reward for seen in tiny.wander(known)]]
    assert received[0] == received[1]


def test_a_function_of_unknown_quantities_is_refused(tmp_path: Path) -> None:
    def mine(slowdowns: np.ndarray) -> np.ndarray:
        return -slowdowns

    with pytest.raises(ValueError, match=r"reward 'mine': .*did you mean 'slowdown'"):
        tiny.make(tiny.scenario(tmp_path), reward=mine)


def test_the_time_that_passed_adds_up(tmp_path: Path) -> None:
    env = tiny.make(tiny.scenario(tmp_path))
    passed = sum(seen.info.get("elapsed", 0.0) for seen in tiny.wander(env))
    results = env.results()
    assert passed == pytest.approx(results["finish_s"].max() - results["submit_s"].min())


@pytest.mark.parametrize("kind", [BY_AGENT, {}], ids=["by agent", "by rule"])
def test_the_return_of_gain_is_the_reduction_of_the_total_jct(kind: dict[str, str], tmp_path: Path) -> None:
    """Also where the agent ends before, or after, the reference run."""
    for seed in range(2):
        env = tiny.make(tiny.scenario(tmp_path, tiny.jobs(seed=seed)), **kind, reward="gain")
        steps = list(tiny.wander(env, seed))
        reference = env.batch.windows[0].reference_job_seconds
        difference = reference - total_jct(env)
        assert abs(difference) > 1
        assert sum(seen.reward for seen in steps) * steps[0].info["scale"] == pytest.approx(
            difference, rel=1e-9
        )


@pytest.mark.parametrize("action", ["moves", "steer"])
def test_rewards_of_the_other_actions_are_in_percent_of_the_default_rules_total_jct(action: str) -> None:
    """Minus the ratio for `jct`, the reduction for `gain`; the scale converts both to job-seconds."""
    choices: dict[str, Any] = {"workload": "mixed", "scenario": {"jobs": 20}, "count": 1, "action": action}
    paid = {}
    for reward in ("jct", "gain"):
        env: Any = gymnasium.make("GPUCluster-v2", reward=reward, **choices).unwrapped
        env.reset(seed=0)
        paid[reward], over = 0.0, False
        while not over:
            action_ = env.action_space.low if action == "steer" else int(env.action_masks().sum()) - 1
            _, got, over, _, info = env.step(action_)
            paid[reward] += got
        assert info["scale"] == env.batch.total[0] / 100
        ratio = info["jct_ratio"]
    assert paid == pytest.approx({"jct": -100 * ratio, "gain": 100 * (1 - ratio)}, rel=1e-9)


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"placed_by": "agent"}, "requires placed_by='rule' and victims_by='rule'"),
        ({"victims_by": "agent"}, "requires placed_by='rule' and victims_by='rule'"),
        ({"action": "steer"}, "does not apply to action 'steer'"),
    ],
)
def test_an_advantage_that_cannot_be_measured_is_refused(choices: dict[str, Any], reason: str) -> None:
    with pytest.raises(
        ValueError, match=f"reward 'rollout_advantage' {reason}.*use reward='jct' or reward='gain'"
    ):
        gymnasium.make("GPUCluster-v2", workload="quick", count=1, reward="rollout_advantage", **choices)


# Advantages over the base policy.


@pytest.mark.parametrize("slots", [FEW, tiny.COUNT])
@pytest.mark.parametrize("physics", PHYSICS)
@pytest.mark.parametrize(("exponent", "margin"), [(0.5, 8.0), (0.0, 0.0), (1.0, float("inf"))])
def test_undiscounted_advantages_add_up_to_the_difference_of_total_jct(
    exponent: float, margin: float, physics: str, slots: int, tmp_path: Path
) -> None:
    chosen = tiny.scenario(tmp_path, physics=physics)
    base = {"exponent": exponent, "margin": margin}
    env = tiny.make(chosen, **ADVANTAGE, **base, tau_s=None, queue_slots=slots)
    steps = list(tiny.wander(env))
    scale = steps[0].info["scale"]
    difference = scale * tiny.COUNT - total_jct(env)
    assert abs(difference) > 1
    assert sum(seen.reward for seen in steps) * scale == pytest.approx(difference, rel=1e-6)


@pytest.mark.parametrize("tau_s", [None, 900.0])
def test_the_base_policys_own_choice_is_worth_nothing(tau_s: float | None, tmp_path: Path) -> None:
    env = tiny.make(tiny.scenario(tmp_path), **ADVANTAGE, tau_s=tau_s)
    steps = list(tiny.wander(env))[1:]
    assert all(seen.reward == 0 for seen in steps if seen.info["agrees"])
    assert sum(seen.reward != 0 for seen in steps) > 10


@pytest.mark.parametrize("tau_s", [np.inf, 900.0])
def test_simulating_the_own_choice_finds_that_too(tau_s: float, tmp_path: Path) -> None:
    env = tiny.make(tiny.scenario(tmp_path))
    for _ in tiny.wander(env):
        own = env.own_choice
        job = int(env.queue[own]) if own < tiny.COUNT else NOBODY
        value = calls.advantage(env.episode.states, 0, SCRATCH, env.episode.jobs, job, tau_s)
        assert value == pytest.approx(0.0, abs=1e-8)


def cost(env: GPUClusterEnv, tau_s: float, action: int | None) -> float:
    """Return the sum over jobs of the discounted seconds of their presence within four time constants.

    From now on, after an action, or that of the base policy, the base policy decides to the end.
    """
    states, jobs = env.episode.states[:1].copy(), env.episode.jobs
    now = env.episode.view.now
    if action == tiny.COUNT:
        calls.advance(states, 0, jobs)
    elif action is not None:
        calls.pick(states, 0, jobs, env.queue[action])
    calls.walk(states, 0, jobs)
    calls.run_rule(states, 0, jobs)
    begin = np.clip(jobs["submit_s"] - now, 0, 4 * tau_s)
    end = np.clip(states["finish_s"][0, : tiny.COUNT] - now, begin, 4 * tau_s)
    return float((tau_s * (np.exp(-begin / tau_s) - np.exp(-end / tau_s))).sum())


@pytest.mark.parametrize("physics", PHYSICS)
@pytest.mark.parametrize("tau_s", [60.0, 900.0, 3600.0])
def test_a_discounted_advantage_is_the_difference_of_two_futures(
    tau_s: float, physics: str, tmp_path: Path
) -> None:
    env = tiny.make(tiny.scenario(tmp_path, physics=physics), **ADVANTAGE, tau_s=tau_s)
    rng = np.random.default_rng(1)
    env.reset(seed=1)
    deviations = 0
    while not env.episode.done:
        action = int(rng.choice(np.flatnonzero(env.action_masks())))
        gain = cost(env, tau_s, None) - cost(env, tau_s, action)
        _, reward, _, _, info = env.step(action)
        assert reward * info["scale"] == pytest.approx(gain, rel=1e-9, abs=1e-6)
        deviations += not info["agrees"]
    assert deviations > 10


def test_measuring_does_not_disturb(tmp_path: Path) -> None:
    chosen = tiny.scenario(tmp_path)
    plain = tiny.make(chosen, reward="jct")
    measured = tiny.make(chosen, **ADVANTAGE)
    for one, other in zip(tiny.wander(plain), tiny.wander(measured), strict=True):
        assert tiny.bits((one.observation, one.info, one.mask)) == tiny.bits(
            (other.observation, other.info, other.mask)
        )
