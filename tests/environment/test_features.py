"""Each feature has the value that its name states, within its range."""

from math import log, log1p, log2
from pathlib import Path

import numpy as np
import pytest

from gpu_cluster_gym.envs.env import GPUClusterEnv
from gpu_cluster_gym.envs.observations import Sizes
from gpu_cluster_gym.envs.observations.tables import observation as tables
from gpu_cluster_gym.envs.spaces import row
from gpu_cluster_gym.simulator.kernel.slots import features
from gpu_cluster_gym.simulator.kernel.slots.features import QUEUE_FEATURES, RUNNING_FEATURES, TOTALS
from gpu_cluster_gym.simulator.policy import Placement, Start
from gpu_cluster_gym.simulator.slots import Slots
from tests.cases import tiny

STATES = ("is_loading", "is_pausing", "is_reserved", "is_legal")
YES_OR_NO = {"present", "predictable", "fits", "has_victims", "may_pause", *STATES}
SHARES = {
    *("claimed", "free_on_node", "claim_gpus"),
    *("gpus", "preemptions", "memory", "cores", "rank", "left_on_node"),
    *("victims_most_preempted", "victims_unpredictable", "victims_surplus"),
    *("free_share", "running", "loading", "pausing_gpus", "gpus_free_in_5_min", "queued", "unseen"),
    *("arrivals_last_hour", *(name for name in TOTALS if name.startswith("nodes_with"))),
}
OTHERS = {
    "progress": (0.0, 2.0),
    "victims": (0.0, 4.0),
    "victims_worth": (-1.0, 1.0),
    "victims_worth_free": (-1.0, 1.0),
}
BY_AGENT = {"placed_by": "agent", "victims_by": "agent"}
A_DAY = 2.0  # longer than any time here, on the scale of times


def limits(name: str) -> tuple[float, float]:
    return OTHERS.get(name, (0.0, 1.0 if name in SHARES | YES_OR_NO else A_DAY))


def test_each_feature_of_the_queue_has_its_number() -> None:
    columns = {name: number for number, name in enumerate(QUEUE_FEATURES)}
    columns["wait"] = columns.pop("wait_without_preemption")
    assert {name: getattr(features, name.upper()) for name in columns} == columns


def table(observation: dict[str, np.ndarray], name: str, columns: tuple[str, ...]) -> list[dict[str, float]]:
    """Return a part of the observation as a dict per row."""
    rows = observation[name].reshape(-1, len(columns)).tolist()
    return [dict(zip(columns, row, strict=True)) for row in rows]


def seen_now(env: GPUClusterEnv) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Return the first queued job, the running one with most time remaining, and the totals."""
    observation = row(env.batch.observations(), 0)
    parts = ("queue", QUEUE_FEATURES), ("running", RUNNING_FEATURES), ("totals", TOTALS)
    queued, running, totals = (table(observation, name, columns)[0] for name, columns in parts)
    return queued, running, totals


def time(seconds: float) -> float:
    return log1p(seconds / 60) / 4


@pytest.mark.parametrize("physics", ["all", "none"])
def test_every_feature_is_in_its_range(physics: str, tmp_path: Path) -> None:
    columns = (*QUEUE_FEATURES, *RUNNING_FEATURES, *TOTALS)
    low, high = zip(*map(limits, columns), strict=True)
    yes_or_no = [name in YES_OR_NO for name in columns]
    for seed in range(4):
        chosen = tiny.scenario(tmp_path, tiny.jobs(seed=seed), physics=physics)
        env = tiny.make(chosen, placed_by="agent", victims_by="agent")
        for seen in tiny.wander(env, seed):
            queue = seen.observation["queue"].reshape(tiny.COUNT, -1)
            running = seen.observation["running"].reshape(tiny.COUNT, -1)
            totals = np.tile(seen.observation["totals"], (tiny.COUNT, 1))
            rows = np.hstack([queue, running, totals])
            assert ((rows >= low) & (rows <= high)).all()
            assert np.isin(rows[:, yes_or_no], (0, 1)).all()
            assert (queue[:, 0] == 1).sum() == len(env.episode.view.queue)
            assert not queue[queue[:, 0] == 0].any()
            assert not running[running[:, 0] == 0].any()


@pytest.fixture
def two_jobs(tmp_path: Path) -> GPUClusterEnv:
    """Let A run for 100 s of its estimated 900 s, on 4 of 8 GPUs; B has just arrived and needs all."""
    jobs = tiny.jobs(2).assign(
        submit_s=[0.0, 100.0],
        num_gpus=[4, 8],
        duration_s=[500.0, 50.0],
        profiled_duration_s=[900.0, 60.0],
        gpu_memory_gib=[8.0, 4.0],
        cpu_cores=[8, 24],
        pause_s=[10.0, 1.0],
        load_s=[20.0, 2.0],
        predictable_from=[1.0, 0.0],
    )
    env = tiny.make(
        tiny.scenario(tmp_path, jobs, cluster="1x8"), queue_slots=4, running_slots=2, margin=2.0, **BY_AGENT
    )
    env.reset(seed=0)
    env.step(0)
    assert env.episode.view.now == 100
    return env


def test_a_queued_job_that_does_not_fit(two_jobs: GPUClusterEnv) -> None:
    queued, _, _ = seen_now(two_jobs)
    assert queued == pytest.approx(
        {
            "present": 1,
            "gpus": log2(9) / 7,
            "estimate": time(60),
            "remaining": time(60),
            "remaining_area": time(60 * 8),
            "attained": 0,
            "progress": 0,
            "restart": time(1 + 2),
            "age": 0,
            "predictable": 1,
            "preemptions": 0,
            "memory": 4 / 16,
            "cores": 3 / 8,
            "rank": 0,
            "wait_without_preemption": time(800),
            "fits": 0,
            "left_on_node": 0,
            "has_victims": 1,
            "victims": 1 / 4,
            "victims_overhead": time(30),
            "victims_least_remaining": time(800),
            "victims_worth": log(800 / (60 + 2 * 30)) / 4,
            "victims_worth_free": log(800 / 60) / 4,
            "victims_most_preempted": 0,
            "victims_unpredictable": 1,
            "victims_surplus": 0,
        }
    )


def test_a_running_job(two_jobs: GPUClusterEnv) -> None:
    _, running, _ = seen_now(two_jobs)
    assert running == pytest.approx(
        {
            "present": 1,
            "gpus": log2(5) / 7,
            "estimate": time(900),
            "remaining": time(800),
            "attained": time(100),
            "pause": time(10),
            "load": time(20),
            "predictable": 0,
            "preemptions": 0,
            "memory": 8 / 16,
            "cores": 2 / 8,
            "running_for": time(100),
            "may_pause": 1,
            "claimed": 0,
            "free_on_node": 4 / 8,
            **dict.fromkeys(STATES, 0),
            "is_legal": 1,
        }
    )


def test_totals(two_jobs: GPUClusterEnv) -> None:
    _, _, totals = seen_now(two_jobs)
    nodes = {f"nodes_with_{free}_free": float(free == 4) for free in range(9)}
    waits = {f"wait_for_{gpus}": time(800 if gpus > 4 else 0) for gpus in (1, 2, 4, 8, 16)}
    assert totals == pytest.approx(
        {
            "free_share": 4 / 8,
            **nodes,
            "queued": log1p(1) / 6,
            "unseen": 0,
            "running": 1 / 8,
            "loading": 0,
            "pausing_gpus": 0,
            "queued_gpu_time": time(60 * 8 / 8),
            "running_gpu_time": time(800 * 4 / 8),
            "gpus_free_in_5_min": 4 / 8,
            **waits,
            "arrivals_last_hour": log1p(2) / 6,
            **dict.fromkeys(("claim_gpus", "claim_remaining", "claim_age", "claim_wait"), 0),
        }
    )


def test_a_pending_claim(two_jobs: GPUClusterEnv) -> None:
    """B claims all GPUs, of which A holds four."""
    queued, running, totals = seen_now(claimed(two_jobs))
    assert queued["present"] == 0
    assert running["claimed"] == 1
    assert running["free_on_node"] == 0
    expected = {
        "claim_gpus": log2(9) / 7,
        "claim_remaining": time(60),
        "claim_age": 0,
        "claim_wait": time(800),
    }
    assert {name: totals[name] for name in expected} == pytest.approx(expected)


def claimed(two_jobs: GPUClusterEnv) -> GPUClusterEnv:
    """Let B claim GPUs."""
    two_jobs.step(0)
    assert two_jobs.episode.view.now == 100
    return two_jobs


def test_jobs_on_claimed_gpus_are_shown_first(tmp_path: Path) -> None:
    """Three jobs run, A the longest; D claims the GPUs of C, the shortest, which are free first."""
    jobs = tiny.jobs(4).assign(
        submit_s=[0.0, 0.0, 0.0, 100.0],
        num_gpus=[2, 2, 2, 2],
        profiled_duration_s=[900.0, 800.0, 700.0, 50.0],
        duration_s=[900.0, 800.0, 700.0, 50.0],
    )
    env = tiny.make(tiny.scenario(tmp_path, jobs, cluster="1x6"), **BY_AGENT)
    env.reset(seed=0)
    while env.episode.view.now < 100:
        env.step(0)
    assert env.running[:4].tolist() == [0, 1, 2, -1]
    env.step(0)
    assert env.running[:4].tolist() == [2, 0, 1, 3]


@pytest.mark.parametrize(
    ("slots", "shown"),
    [(8, [0, 1, 2, 3, 4, 5, 6, 7]), (7, [0, 1, 2, 3, 5, 6, 7]), (4, [0, 1, 6, 7]), (1, [0])],
)
def test_of_a_long_queue_the_first_and_the_last_arrivals_are_shown(
    slots: int, shown: list[int], tmp_path: Path
) -> None:
    """Jobs of two request classes arrive in turn, while a job on all GPUs runs."""
    jobs = tiny.jobs(9).assign(
        submit_s=[0.0, *np.arange(8)], num_gpus=[8, *[1, 2] * 4], duration_s=1000.0, pause_s=0.0
    )
    chosen = tiny.scenario(tmp_path, jobs, cluster="1x8")
    env = tiny.make(chosen, queue_slots=slots, queue_order="arrival", min_run_s=1e9, **BY_AGENT)
    env.reset(seed=0)
    env.step(0)
    while env.episode.view.now < 7:
        env.step(len(env.action_masks()) - 1)
    assert [job - 1 for job in env.queue.tolist()] == shown


def test_a_paused_job_remembers(two_jobs: GPUClusterEnv) -> None:
    """A is paused from 100 to 110 and queued since, behind B, with 100 s done."""
    pause, wait = 12, 14
    two_jobs.step(pause)
    two_jobs.step(wait)
    observation = row(two_jobs.batch.observations(), 0)
    paused = table(observation, "queue", QUEUE_FEATURES)[1]
    assert two_jobs.episode.view.now == 110
    expected = {"attained": time(100), "remaining": time(800), "preemptions": 1 / 5, "progress": 1 / 9}
    assert {name: paused[name] for name in expected} == pytest.approx(expected)
    assert paused["fits"] == 1
    assert paused["left_on_node"] == 4 / 8


def test_free_memory_and_cores_are_shares(two_jobs: GPUClusterEnv) -> None:
    observation = row(two_jobs.batch.observations(), 0)
    assert observation["free_memory"].tolist() == [0.5] * 4 + [1.0] * 4
    assert observation["free_cores"].tolist() == pytest.approx([40 / 48])


def test_memory_that_is_used_up_but_for_a_rounding_is_none(tmp_path: Path) -> None:
    """16 - 0.3 - 0.3 - 15.4 is -1.8e-15."""
    assert 16 - 0.3 - 0.3 - 15.4 < 0
    jobs = tiny.jobs(3).assign(submit_s=0.0, num_gpus=1, gpu_memory_gib=[0.3, 0.3, 15.4], cpu_cores=1)
    shared = {"cluster": "1x1", "physics": "memory,sharing", "max_share": 3}
    env = tiny.make(tiny.scenario(tmp_path, jobs, **shared), **BY_AGENT)
    env.reset(seed=0)
    for job in range(3):
        env.episode.apply(Start(job, Placement((0,))))
    slots = Slots(1, 1)
    slots.refresh(env.episode.states, 0, env.episode.jobs)
    assert tables(slots.observation, Sizes(1, 1, 1, 1))["free_memory"].tolist() == [0.0]
