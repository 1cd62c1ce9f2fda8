"""With estimates on, no policy sees or acts on a true duration before its end, nor on a job before its arrival."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.envs.env import GPUClusterEnv
from gpu_cluster_gym.simulator.episode import Episode, asking, discipline_of, run
from gpu_cluster_gym.simulator.history import History
from gpu_cluster_gym.simulator.kernel.union.estimates import NUM_GPU_CLASSES
from gpu_cluster_gym.simulator.policy import Action, Policy, Ranking
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import Scenario, full_trace
from tests.cases import tiny

KINDS = [
    {"observation": "tables", "placed_by": "agent", "victims_by": "agent"},
    {"observation": "tables"},
    {"observation": "slots"},
]
ON_THE_RULE = ("moves", "steer")  # with a custom observation
PHYSICS = ("all", "estimates")
# Who has lost progress had made more than it has, so that another truth may have been over by then.
NOTHING_LOST = "memory,preemption,estimates,locality,cores,bandwidth,cpu_jobs,elastic"
MOMENTS = 2  # of an episode, at which the truth is replaced
HONEST = [name for name in baselines.names() if not name.endswith("_oracle")]


class Moment(NamedTuple):
    """An observation or action: its time, and each job's progress, s, and whether it had ended."""

    seen: bytes
    now: float
    attained_s: np.ndarray
    done: np.ndarray


def moment(seen: Any, episode: Episode) -> Moment:
    attained = np.zeros(len(episode.jobs))
    attained[: len(episode.view.jobs.attained_s)] = episode.view.jobs.attained_s
    done = ~np.isnan(episode.state.finish_s[: len(attained)])
    return Moment(tiny.bits(seen), episode.view.now, attained, done)


def moments(env: GPUClusterEnv, seed: int) -> Iterator[Moment]:
    """Yield the observations of a random agent; equal masks lead to equal actions."""
    for seen in tiny.wander(env, seed):
        # The window's scale and the reward are for training, and made of the truth.
        yield moment((seen.observation, seen.mask, seen.info["unseen"]), env.episode)


def moments_on_the_rule(chosen: dict[str, Any], action: str) -> Iterator[Moment]:
    """Yield the observations of an agent that chooses moves of the rule, or steers it."""
    env: Any = gymnasium.make("GPUCluster-v2", scenario=chosen, action=action, disable_env_checker=True)
    env, rng = env.unwrapped, np.random.default_rng(0)
    seen, info = env.reset(seed=0)
    over = False
    while not over:
        yield moment((seen, info.get("action_mask", 1)), env.batch.episode(0))
        made = int(rng.choice(np.flatnonzero(info["action_mask"]))) if action == "moves" else None
        seen, _, over, _, info = env.step(
            rng.uniform(-1, 1, env.action_space.shape) if made is None else made
        )


def other_truth(table: pd.DataFrame, at: Moment, rng: np.random.Generator) -> pd.DataFrame:
    """Return the jobs with other durations for jobs unfinished at a moment, all of them later than that moment.

    Nor does any fail by itself: when one does is a share of its duration, which may be before the moment.
    """
    longer = at.attained_s + rng.integers(1, 5000, len(table))
    return table.assign(duration_s=np.where(at.done, table["duration_s"], longer))


def some(rng: np.random.Generator, seen: list[Moment]) -> list[int]:
    """Choose some moments before the last."""
    chosen: list[int] = rng.choice(len(seen) - 1, MOMENTS, replace=False).tolist()
    return chosen


@pytest.mark.parametrize("physics", PHYSICS)
@pytest.mark.parametrize("kinds", KINDS, ids=lambda kinds: "-".join(kinds.values()))
def test_an_agent_does_not_see_true_durations(kinds: dict[str, str], physics: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = tiny.jobs().assign(crash_at=1.0)
    before = list(moments(tiny.make(tiny.scenario(tmp_path, table, physics=physics), **kinds), seed=0))
    for last in some(rng, before):
        changed = tiny.scenario(tmp_path, other_truth(table, before[last], rng), physics=physics)
        after = list(islice(moments(tiny.make(changed, **kinds), seed=0), last + 1))
        assert [at.seen for at in after] == [at.seen for at in before[: last + 1]]


@pytest.mark.parametrize("physics", PHYSICS)
@pytest.mark.parametrize("action", ON_THE_RULE)
def test_an_agent_on_the_rule_does_not_see_true_durations(action: str, physics: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = tiny.jobs().assign(crash_at=1.0)
    before = list(moments_on_the_rule(tiny.scenario(tmp_path, table, physics=physics), action))
    assert len(before) > 8
    for last in some(rng, before):
        changed = tiny.scenario(tmp_path, other_truth(table, before[last], rng), physics=physics)
        after = list(islice(moments_on_the_rule(changed, action), last + 1))
        assert [at.seen for at in after] == [at.seen for at in before[: last + 1]]


def test_with_exact_estimates_it_does(tmp_path: Path) -> None:
    """The test above can fail."""
    table = tiny.jobs().assign(crash_at=1.0)
    first, *_ = moments(tiny.make(tiny.scenario(tmp_path, table, physics="none")), seed=0)
    changed = other_truth(table, first, np.random.default_rng(0))
    other, *_ = moments(tiny.make(tiny.scenario(tmp_path, changed, physics="none")), seed=0)
    assert other.seen != first.seen
    for action in ON_THE_RULE:
        truths = (tiny.scenario(tmp_path, each, physics="none") for each in (table, changed))
        one, another = (next(moments_on_the_rule(each, action)) for each in truths)
        assert one.seen != another.seen


@pytest.mark.parametrize("kinds", KINDS, ids=lambda kinds: "-".join(kinds.values()))
def test_an_agent_does_not_see_future_jobs(kinds: dict[str, str], tmp_path: Path) -> None:
    table = tiny.jobs().assign(crash_at=1.0)

    def begin(count: int, until: float) -> list[bytes]:
        """Return the observations of the first jobs before a moment."""
        seen = moments(tiny.make(tiny.scenario(tmp_path, table[:count]), **kinds), seed=0)
        return [at.seen for at in takewhile(lambda at: at.now < until, seen)]

    for jobs in (12, 18, 24):
        # Once the last has come, and nothing runs, that waiting is illegal shows that nobody else will.
        until = float(table["submit_s"][jobs - 1])
        start = begin(jobs, until)
        assert start == begin(len(table), until)
        assert len(start) > jobs // 2


@pytest.mark.parametrize("action", ON_THE_RULE)
def test_an_agent_on_the_rule_does_not_see_future_jobs(action: str, tmp_path: Path) -> None:
    """A steering agent decides after a fixed number of arrivals; a fixed number per window would reveal its length."""
    table = tiny.jobs().assign(crash_at=1.0)
    others = table.assign(duration_s=1 + table["duration_s"].to_numpy()[::-1], num_gpus=1)

    def begin(later: pd.DataFrame, first: int) -> list[bytes]:
        """Return the observations of the first jobs before the next arrival."""
        jobs = pd.concat([table[:first], later[first:]], ignore_index=True)
        seen = moments_on_the_rule(tiny.scenario(tmp_path, jobs), action)
        return [at.seen for at in takewhile(lambda at: at.now < table["submit_s"][first], seen)]

    for first in (12, 18):
        start = begin(table, first)
        assert start == begin(others, first)
        assert len(start) >= first // 3


class EnoughSeen(Exception):  # noqa: N818 - nothing went wrong
    """The number of recorded actions is that of compared ones."""


class Recorder:
    """A policy that repeats another and records its actions and times, up to a limit."""

    def __init__(self, policy: Policy, episode: Episode, most: int | None) -> None:
        self.policy, self.episode, self.most = policy, episode, most
        self.moments: list[Moment] = []

    def __call__(self, view: View) -> Action:
        action = asking(self.policy, self.episode)()
        self.moments.append(moment((type(action).__name__, action), self.episode))
        if len(self.moments) == self.most:
            raise EnoughSeen
        return action


def actions(name: str, chosen: dict[str, Any], most: int | None = None) -> list[Moment]:
    """Return the actions of a policy, or the first `most`, step by step."""
    episode = full_trace(Scenario(**chosen)).episode()
    policy = baselines.make(baselines.load(name))
    if isinstance(policy, Ranking):
        episode.set_levels(policy.levels)
        episode.state.discipline = discipline_of(policy, episode.discipline)
    recorder = Recorder(policy, episode, most)
    with suppress(EnoughSeen):
        run(recorder, episode)
    return recorder.moments


@pytest.mark.parametrize("physics", PHYSICS)
@pytest.mark.parametrize("name", HONEST)
def test_a_policy_does_not_act_on_true_durations(name: str, physics: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = tiny.jobs(20, seed=1).assign(crash_at=1.0)
    before = actions(name, tiny.scenario(tmp_path, table, physics=physics))
    for last in some(rng, before):
        changed = tiny.scenario(tmp_path, other_truth(table, before[last], rng), physics=physics)
        after = actions(name, changed, last + 1)
        assert [at.seen for at in after] == [at.seen for at in before[: last + 1]]


def test_an_oracle_does(tmp_path: Path) -> None:
    table = tiny.jobs(seed=1).assign(crash_at=1.0)
    before = actions("srtf_oracle", tiny.scenario(tmp_path, table))
    nothing_done = before[0]
    changed = other_truth(table, nothing_done, np.random.default_rng(0))
    after = actions("srtf_oracle", tiny.scenario(tmp_path, changed))
    done = sum(at.now <= before[-1].now / 2 for at in before)
    assert [at.seen for at in after[:done]] != [at.seen for at in before[:done]]


def beliefs(chosen: dict[str, Any], count: int | None = None) -> list[Moment]:
    """Return the predictions of a view at each instant under SRTF, or at the first `count`."""
    episode = full_trace(Scenario(**chosen)).episode()
    policy = Ranking("remaining", "by_order")
    seen: list[Moment] = []
    episode.set_levels(policy.levels)

    def noting(view: View) -> Action:
        if not seen or seen[-1].now < view.now:
            jobs = view.jobs
            shown = (jobs.expected_s, jobs.expected_remaining_s, jobs.expected_cores)
            seen.append(moment((*shown, jobs.busy_share_alone, jobs.cores_when_busy), episode))
            if len(seen) == count:
                raise EnoughSeen
        return asking(policy, episode)()

    with suppress(EnoughSeen):
        run(noting, episode)
    return seen


def learned(folder: Path) -> str:
    """Write a run-time predictor with one kind of profile and return the file's name."""
    file = folder / "learned" / "history.json"
    cell = (0.0, 0.0, 0.0, 0.0, 1.0, 3.0)
    History(
        0.3, 1.0, 0.4, 1.5, (6.0,) * NUM_GPU_CLASSES, alike=0.1, spread=0.5, cells=(cell,), gap_s=600.0
    ).write(file)
    return str(file)


@pytest.mark.parametrize("physics", ["all", "estimates"])
def test_predictions_do_not_reveal_true_durations(physics: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    table, history = tiny.jobs(seed=2).assign(crash_at=1.0), learned(tmp_path)
    before = beliefs(tiny.scenario(tmp_path, table, physics=physics, run_time_predictor=history))
    for last in some(rng, before):
        changed = other_truth(table, before[last], rng)
        after = beliefs(
            tiny.scenario(tmp_path, changed, physics=physics, run_time_predictor=history), last + 1
        )
        assert [at.seen for at in after] == [at.seen for at in before[: last + 1]]
    assert len({at.seen for at in before}) > len(before) // 2


def test_predictions_do_not_reveal_needs_before_a_job_runs(tmp_path: Path) -> None:
    """Jobs that have not started get another input cost, which shows only later."""
    table, history = tiny.jobs(seed=2).assign(crash_at=1.0, input_core_s=0.3), learned(tmp_path)
    chosen = {"physics": "estimates,cores", "run_time_predictor": history}
    before = beliefs(tiny.scenario(tmp_path, table, **chosen))
    for last in (len(before) // 4, len(before) // 2):
        not_started = before[last].attained_s == 0
        other = table.assign(input_core_s=np.where(not_started, 0.9, 0.3))
        after = beliefs(tiny.scenario(tmp_path, other, **chosen))
        assert not_started.any()
        assert [at.seen for at in after[: last + 1]] == [at.seen for at in before[: last + 1]]
        assert [at.seen for at in after] != [at.seen for at in before]
