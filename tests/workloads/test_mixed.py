"""The workload on which four levers count has the figures that `docs/mixed.md` claims for it."""

from functools import cache
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import workloads
from simulator.cluster import cluster
from workloads import Split, filled, mixed, named, windows

SCENARIO = named("mixed")
EPISODES = 40


@cache
def episodes() -> list[pd.DataFrame]:
    """Return the training episodes as they are simulated."""
    return [filled(workloads.load("mixed", seed=seed), SCENARIO, seed=seed) for seed in range(EPISODES)]


@cache
def training() -> pd.DataFrame:
    """Return the jobs with GPUs of all of them, with what they need."""
    table = pd.concat(episodes(), ignore_index=True)
    table = table[table["num_gpus"] > 0].reset_index(drop=True)
    asked = table["cpu_cores"] / table["num_gpus"]
    fed_s = (table["active_ms"] + table["idle_ms"]) / 1000
    return table.assign(
        asked=asked, need=table["input_core_s"] / fed_s, restart_s=table["pause_s"] + table["load_s"]
    )


def test_a_seed_decides_the_table() -> None:
    table = workloads.load("mixed", seed=1, jobs=50)
    assert_frame_equal(table, workloads.load("mixed", seed=1, jobs=50))
    assert not table["duration_s"].equals(workloads.load("mixed", seed=2, jobs=50)["duration_s"])


@pytest.mark.parametrize("jobs", [1, 2, 7, 240])
def test_there_are_as_many_jobs_as_are_asked_for(jobs: int) -> None:
    table = workloads.load("mixed", seed=3, jobs=jobs)
    assert len(table) == jobs
    assert table["submit_s"].iloc[0] == 0
    assert (table["kind"] == "cpu").sum() == round(mixed.CPU_SHARE * jobs)


def test_splits_are_drawn_apart() -> None:
    first = {split: windows(SCENARIO, split, 1)[0] for split in get_args(Split)}
    assert len({float(load.table["duration_s"].sum()) for load in first.values()}) == len(first)


def test_every_episode_is_offered_the_same_load() -> None:
    """Of the cluster's GPUs, up to what the last gaps leave of the span."""
    gpus = cluster(SCENARIO.cluster_name).num_gpus
    assert gpus == mixed.MACHINES.num_gpus
    for table in episodes():
        held_s = table["duration_s"] + table["startup_s"]
        work = float((table["num_gpus"] * held_s).sum())
        assert mixed.LOAD <= work / (gpus * table["submit_s"].max()) < 1.15 * mixed.LOAD


def test_jobs_come_in_runs_of_like_jobs() -> None:
    table = training()
    alike = (
        table[["user", "model", "num_gpus", "asked"]].shift() == table[["user", "model", "num_gpus", "asked"]]
    )
    in_run = alike.all(axis=1) | alike.all(axis=1).shift(-1, fill_value=False)
    assert in_run.mean() == pytest.approx(0.78, abs=0.03)


def test_widths_lie_between_phillys_and_helios() -> None:
    gpus = training()["num_gpus"]
    assert 1.54 < gpus.mean() < 3.72
    assert gpus.median() == 1
    assert set(gpus) == set(mixed.WIDTHS)


def test_run_times_are_phillys_within_bounds() -> None:
    run_s = training()["duration_s"] + training()["startup_s"]
    least, most = mixed.RUN_S
    assert run_s.between(least, most).all()
    assert run_s.mean() / 60 == pytest.approx(45, abs=4)
    assert run_s.median() / 60 == pytest.approx(18.6, abs=3)
    longest = np.mean([np.sort(t["duration_s"])[-12:].sum() / t["duration_s"].sum() for t in episodes()])
    assert longest == pytest.approx(0.31, abs=0.04)


def test_many_jobs_can_share_and_many_cannot() -> None:
    shares = []
    for table in episodes():
        memory = table.loc[table["num_gpus"] > 0, "gpu_memory_gib"].to_numpy()
        assert memory.max() <= mixed.MACHINES.largest_gpu_gib
        over = memory[:, None] + memory > mixed.MACHINES.largest_gpu_gib
        shares.append(over[np.triu_indices(len(memory), 1)].mean())
    assert np.mean(shares) == pytest.approx(0.44, abs=0.03)


def test_users_ask_for_cores_whatever_they_train() -> None:
    table = training()
    assert table["asked"].quantile([0.25, 0.5, 0.75]).tolist() == [3, 4, 5]
    assert (table["asked"] > table["need"]).mean() == pytest.approx(0.76, abs=0.03)
    work = table["num_gpus"] * table["duration_s"]
    faster = np.average(np.maximum(table["need"] / table["asked"], 1), weights=work)
    assert 1 - 1 / faster == pytest.approx(0.16, abs=0.04)


def test_restarts_cost_minutes() -> None:
    table = training()
    assert table["restart_s"].between(5, 600).all()
    assert table["restart_s"].median() == pytest.approx(97, abs=15)
    assert (table["restart_s"] > 0.2 * table["duration_s"]).mean() == pytest.approx(0.35, abs=0.05)


def test_jobs_can_shrink_to_one_worker_and_double() -> None:
    table = training()
    assert (table["min_workers"] == 1).all()
    assert (table["max_workers"] == 2 * table["num_gpus"]).all()
    one = table[table["num_gpus"] == 1]
    assert (2 / (1 + one["scaling_loss"])).mean() == pytest.approx(1.5, abs=0.05)


def test_estimates_are_good_at_once_later_or_never() -> None:
    table = training()
    turns = table["predictable_from"]
    assert (turns == 0).mean() == pytest.approx(0.45, abs=0.03)
    assert (turns == 1).mean() == pytest.approx(0.15, abs=0.03)
    held_s, told_s = (
        table["duration_s"] + table["startup_s"],
        table["profiled_duration_s"] + table["startup_s"],
    )
    error = np.log(told_s / held_s)
    assert error[turns == 0].std() == pytest.approx(0.25, abs=0.02)
    assert error[turns > 0].std() == pytest.approx(1, abs=0.05)
    late = np.log((table["predicted_duration_s"] + table["startup_s"]) / held_s)
    assert late.std() == pytest.approx(0.25, abs=0.02)


def test_no_job_is_larger_than_the_cluster() -> None:
    assert all(len(load.table) == mixed.JOBS for load in windows(SCENARIO, "train", 5))
