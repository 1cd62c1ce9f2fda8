"""`mixed` and `busy` have the figures that `docs/workloads.md` claims."""

from functools import cache
from typing import get_args

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import workloads
from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.workloads import Split, _small_cluster, busy, filled, mixed, named, windows

WORKLOADS = {"mixed": mixed, "busy": busy}
JOBS = 9_600  # in all the training episodes that are looked at


@pytest.fixture(params=WORKLOADS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@cache
def episodes(name: str) -> list[pd.DataFrame]:
    """Return training windows as simulated."""
    scenario = named(name)
    return [
        filled(workloads.load(name, seed=seed), scenario, seed=seed) for seed in range(JOBS // scenario.jobs)
    ]


@cache
def training(name: str) -> pd.DataFrame:
    """Return all GPU jobs with the needs of their models."""
    table = pd.concat(episodes(name), ignore_index=True)
    table = table[table["num_gpus"] > 0].reset_index(drop=True)
    asked = table["cpu_cores"] / table["num_gpus"]
    fed_s = (table["active_ms"] + table["idle_ms"]) / 1000
    return table.assign(
        asked=asked, need=table["input_core_s"] / fed_s, restart_s=table["pause_s"] + table["load_s"]
    )


@pytest.mark.parametrize("jobs", [1, 2, 7, 240])
def test_the_number_of_jobs_is_the_requested_one(name: str, jobs: int) -> None:
    table = workloads.load(name, seed=3, jobs=jobs)
    assert len(table) == jobs
    assert table["submit_s"].iloc[0] == 0
    assert (table["kind"] == "cpu").sum() == round(_small_cluster.CPU_SHARE * jobs)


def test_splits_are_drawn_apart(name: str) -> None:
    first = {split: windows(named(name), split, 1)[0] for split in get_args(Split)}
    assert len({float(load.table["duration_s"].sum()) for load in first.values()}) == len(first)


def test_every_episode_is_offered_the_same_load(name: str) -> None:
    """The load refers to the cluster's GPUs, up to the share of the span in the last gaps."""
    gpus = cluster(named(name).cluster_name).num_gpus
    load = WORKLOADS[name].LOAD
    for table in episodes(name):
        held_s = table["duration_s"] + table["startup_s"]
        work = float((table["num_gpus"] * held_s).sum())
        assert load <= work / (gpus * table["submit_s"].max()) < 1.15 * load


def test_the_jobs_have_the_stated_figures(name: str) -> None:
    """Each with its expected value and tolerance; the longest twentieth and sharing by episode."""
    table = training(name)
    alike = ["user", "model", "num_gpus", "asked"]
    as_before = (table[alike].shift() == table[alike]).all(axis=1)
    turns = table["predictable_from"]
    held_s, estimate_s, late_s = (
        table[column] + table["startup_s"]
        for column in ("duration_s", "profiled_duration_s", "predicted_duration_s")
    )
    error, late = np.log(estimate_s / held_s), np.log(late_s / held_s)
    faster = np.average(
        np.maximum(table["need"] / table["asked"], 1), weights=table["num_gpus"] * table["duration_s"]
    )
    shares, longest = [], []
    for each in episodes(name):
        memory = each.loc[each["num_gpus"] > 0, "gpu_memory_gib"].to_numpy()
        over = memory[:, None] + memory > _small_cluster.GPU_GIB
        shares.append(over[np.triu_indices(len(memory), 1)].mean())
        longest.append(np.sort(each["duration_s"])[-len(each) // 20 :].sum() / each["duration_s"].sum())
    figures = {
        "in runs of similar jobs": ((as_before | as_before.shift(-1, fill_value=False)).mean(), 0.78, 0.03),
        "mean GPUs": (table["num_gpus"].mean(), (1.54 + 3.72) / 2, (3.72 - 1.54) / 2),
        "median GPUs": (table["num_gpus"].median(), 1, 0),
        "mean run time, min": (held_s.mean() / 60, 45, 4),
        "median run time, min": (held_s.median() / 60, 18.6, 3),
        "work of the longest twentieth": (np.mean(longest), 0.31, 0.04),
        "pairs that cannot share": (np.mean(shares), 0.44, 0.03),
        "more cores than needed": ((table["asked"] > table["need"]).mean(), 0.76, 0.03),
        "time lost by cores": (1 - 1 / faster, 0.16, 0.04),
        "speed on twice the workers": (
            (2 / (1 + table["scaling_loss"]))[table["num_gpus"] == 1].mean(),
            1.5,
            0.05,
        ),
        "good at once": ((turns == 0).mean(), 0.45, 0.03),
        "never good": ((turns == 1).mean(), 0.15, 0.03),
        "error if good": (error[turns == 0].std(), 0.25, 0.02),
        "error if bad": (error[turns > 0].std(), 1, 0.05),
        "error later": (late.std(), 0.25, 0.02),
    }
    off = {
        what: found
        for what, (found, expected, apart) in figures.items()
        if found != pytest.approx(expected, abs=apart)
    }
    assert off == {}
    assert set(table["num_gpus"]) == set(_small_cluster.WIDTHS)
    assert held_s.between(*_small_cluster.RUN_S).all()
    assert table["gpu_memory_gib"].max() <= _small_cluster.GPU_GIB
    assert table["asked"].quantile([0.25, 0.5, 0.75]).tolist() == [3, 4, 5]
    assert (table["min_workers"] == 1).all()
    assert (table["max_workers"] == 2 * table["num_gpus"]).all()


def test_restarts_cost_minutes_on_mixed() -> None:
    table = training("mixed")
    assert table["restart_s"].between(5, 600).all()
    assert table["restart_s"].median() == pytest.approx(97, abs=15)
    assert (table["restart_s"] > 0.2 * table["duration_s"]).mean() == pytest.approx(0.35, abs=0.05)


def test_no_job_is_larger_than_the_cluster(name: str) -> None:
    assert all(len(load.table) == WORKLOADS[name].JOBS for load in windows(named(name), "train", 5))


# When jobs come on `busy`.


def test_busy_restarts_are_the_measured_ones() -> None:
    assert training("busy")["restart_s"].median() < training("mixed")["restart_s"].median() / 4


def test_busy_starts_at_the_quietest_hour_and_is_fullest_at_noon() -> None:
    """If all hours were alike: e^(0.75 sin) over its mean, I0(0.75) = 1.146, from 0.41 to 1.85."""
    shares = []
    for seed in range(400):
        times_s = busy._moments((np.arange(512) + 0.5) / 512, busy.DAY_S, seed)
        shares.append(np.histogram(times_s, 24, (0, busy.DAY_S))[0] / 512 * 24)
    rate = np.mean(shares, axis=0)
    assert np.argmin(rate) in (22, 23, 0, 1)
    assert np.argmax(rate) in (10, 11, 12, 13)
    assert rate[[0, -1]].mean() == pytest.approx(0.41, abs=0.06)
    assert rate[11:13].mean() == pytest.approx(1.85, abs=0.12)


def test_busy_hours_are_correlated_as_in_phillys_generator() -> None:
    hours = busy._correlated(0, 20_000)
    assert hours.std() == pytest.approx(1, abs=0.03)
    assert np.corrcoef(hours[1:], hours[:-1])[0, 1] == pytest.approx(0.41, abs=0.03)


def test_busy_hours_differ_as_much_as_those_of_phillys_virtual_clusters() -> None:
    """Fano factors by the hour of those with 1,000 to 4,000 jobs in 51 days: 3.7, 12.7, 37 and 156."""
    counts = [
        np.histogram(t["submit_s"], np.arange(0, t["submit_s"].max(), 3600.0))[0] for t in episodes("busy")
    ]
    assert 3.7 < np.mean([each.var() / each.mean() for each in counts]) < 156


def test_a_busy_window_is_about_a_day_and_a_third_of_it_is_waiting() -> None:
    found = windows(busy.scenario, "train", 16)
    tables = [each.results(run(Rule(), each.episode())) for each in found]
    waiting = sum(table["wait_s"].mean() for table in tables) / sum(table["jct_s"].mean() for table in tables)
    assert waiting == pytest.approx(1 / 3, abs=0.06)
    assert np.mean([each.table["submit_s"].max() for each in found]) == pytest.approx(busy.DAY_S, rel=0.15)
