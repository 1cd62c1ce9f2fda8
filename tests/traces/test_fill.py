"""Missing columns of a trace are filled in from profiles, and present columns stay unchanged."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import traces
from tests.cases.bad_input import HEADER
from tests.cases.some_jobs import some_jobs


def filled(table: pd.DataFrame, seed: int = 0, largest_gpu_gib: float = 16.0, **choices: Any) -> pd.DataFrame:
    return traces.fill(table, seed=seed, largest_gpu_gib=largest_gpu_gib, **choices)


def test_every_drawable_column_is_present_with_its_origin() -> None:
    table = filled(some_jobs())
    undrawn = {column.name for column in traces.COLUMNS if not (column.filled or column.required)}
    assert {"user", "tenant", "status", "logged_start_s"} <= undrawn
    assert set(table.columns) == {column.name for column in traces.COLUMNS} - undrawn
    origin = table.attrs["origin"]
    assert set(origin) == set(table.columns)
    assert {name for name, how in origin.items() if how == "measured"} == set(HEADER.split(","))
    assert all(how == "measured" or how.startswith("filled: ") for how in origin.values())


def test_a_filled_table_is_a_good_table() -> None:
    table = filled(some_jobs())
    pd.testing.assert_frame_equal(traces.check(table), table)


def test_one_seed_fills_identically_and_another_does_not() -> None:
    pd.testing.assert_frame_equal(filled(some_jobs(), seed=1), filled(some_jobs(), seed=1))
    other = filled(some_jobs(), seed=2)
    for name in ("model", "gpu_memory_gib", "pause_s", "load_s", "profiled_duration_s", "predictable_from"):
        assert not other[name].equals(filled(some_jobs(), seed=1)[name])


GIVEN: dict[str, list[Any]] = {
    "cpu_cores": [3] * 500,
    "checkpoint_gib": [1.5] * 500,
    "predictable_from": [0.25] * 500,
    "profiled_duration_s": [77.0] * 500,
    "pause_s": [9.0] * 500,
    "active_ms": [5.0] * 500,
    "user": ["ann"] * 500,
}
FOLLOWS = {
    "checkpoint_gib": {"pause_s", "load_s", "startup_s"},
    "predictable_from": {"profiled_duration_s", "predicted_duration_s"},
    "profiled_duration_s": {"predicted_duration_s"},
    "cpu_cores": {"bandwidth_gbs"},
    "active_ms": {"bandwidth_gbs", "cpu_slowdown", "profiled_active_ms", "profiled_idle_ms"},
}


@pytest.mark.parametrize("given_column", GIVEN)
def test_a_present_column_is_unchanged_and_changes_no_other(given_column: str) -> None:
    without = filled(some_jobs())
    table = filled(some_jobs(500, **{given_column: GIVEN[given_column]}))
    assert table[given_column].tolist() == GIVEN[given_column]
    assert table.attrs["origin"][given_column] == "measured"
    for name in set(without.columns) - {given_column} - FOLLOWS.get(given_column, set()):
        pd.testing.assert_series_equal(table[name], without[name])


def test_filling_a_job_does_not_depend_on_later_jobs() -> None:
    pd.testing.assert_frame_equal(filled(some_jobs()).head(123), filled(some_jobs().head(123)))


@pytest.mark.parametrize("largest", [2.5, 8.0, 12.0, 16.0, 80.0])
def test_nothing_is_larger_than_the_largest_gpu(largest: float) -> None:
    table = filled(some_jobs(3_000), largest_gpu_gib=largest)
    assert table["gpu_memory_gib"].between(0.1, largest).all()
    assert table["profiled_memory_gib"].equals(table["gpu_memory_gib"].rename("profiled_memory_gib"))


def test_a_gpu_too_small_for_every_model_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"fits a GPU of 1 GiB: expected GPUs of at least 2\.00"):
        filled(some_jobs(), largest_gpu_gib=1.0)


def test_jobs_of_a_run_train_one_model() -> None:
    """Six 1-GPU jobs of one virtual cluster, at most a minute apart, are a run; another cluster's job is not."""
    table = some_jobs(
        8,
        submit_s=[0, 60, 90, 90, 100, 150, 210, 271],
        num_gpus=[1, 1, 1, 4, 1, 1, 1, 1],
        vc=["a", "a", "a", "b", "a", "a", "a", "a"],
    )
    models = [filled(table, seed=seed)["model"].tolist() for seed in range(30)]
    run = [[names[row] for row in (0, 1, 2, 4, 5, 6)] for names in models]
    assert all(len(set(names)) == 1 for names in run)
    assert any(names[7] != names[0] for names in models)
    assert any(names[3] != names[0] for names in models)


def test_cores_stay_within_the_share_of_a_jobs_gpus() -> None:
    table = traces.fill(some_jobs(3_000), seed=0, largest_gpu_gib=16.0, cores_per_gpu=3)
    each = table["cpu_cores"] / table["num_gpus"]
    assert (each.min(), each.max()) == (1, 3)


@pytest.mark.parametrize(("cost", "least"), [("measured", 2), ("high", 5)])
def test_a_restart_costs_whole_seconds_up_to_600(cost: str, least: int) -> None:
    """As measured, pause and load are rounded separately."""
    table = filled(some_jobs(3_000), restart_cost=cost)
    assert (table["pause_s"] + table["load_s"]).between(least, 600 + 2).all()
    assert (table[["pause_s", "load_s"]] % 1 == 0).all(axis=None)


@pytest.mark.parametrize(
    ("cost", "median_s"), [("high", 222.0), ("measured", 2 + (20 + 20 + 2.045) * np.exp(-(1.45**2) / 2))]
)
def test_the_median_restart_costs_are_the_profiles(cost: str, median_s: float) -> None:
    """resnet50 on one GPU: 20 s start-up, 200 s of data, 204.5 MB written and read at 200 MB/s: 222 s.

    As measured a tenth of the data, noise whose mean is 1, and 2 s to end the processes.
    """
    jobs = 4_001
    table = filled(some_jobs(jobs, model=["resnet50"] * jobs, num_gpus=[1] * jobs), restart_cost=cost)
    assert (table["pause_s"] + table["load_s"]).median() == pytest.approx(median_s, rel=0.06)
    assert table["checkpoint_gib"][0] == pytest.approx(0.2045e9 / 2**30)


def test_a_load_is_a_start_and_the_checkpoint_that_a_pause_writes() -> None:
    table = filled(some_jobs(500))
    assert table["load_s"].equals(table["startup_s"] + table["pause_s"] - 2)
    high = filled(some_jobs(500), restart_cost="high")
    assert (high["startup_s"] <= high["load_s"]).all()
    assert table["load_s"].mean() < high["load_s"].mean() / 2


def test_estimates_have_the_stated_errors() -> None:
    """The log error has a standard deviation of 0.25 for 70 % of the jobs, 1 for the others, and no bias."""
    table = filled(some_jobs(20_000, duration_s=[5_000.0] * 20_000))
    error = np.log(table["profiled_duration_s"] / table["duration_s"])
    good = table["predictable_from"] == 0
    assert set(table["predictable_from"]) == {0.0, 1.0}
    assert good.mean() == pytest.approx(0.7, abs=0.015)
    assert error[good].std() == pytest.approx(0.25, rel=0.03)
    assert error[~good].std() == pytest.approx(1.0, rel=0.04)
    assert abs(error[good].mean()) < 0.01


def test_profiles_have_the_requested_errors_and_none_by_default() -> None:
    """Duty cycle (log odds) and memory have their own errors, memory up to the largest GPU's; iterations have none."""
    jobs = some_jobs(2000)
    exact, wrong = filled(jobs), filled(jobs, duty_error=0.25, memory_error=0.025)
    for name in ("active_ms", "idle_ms", "gpu_memory_gib"):
        assert exact[name].equals(wrong[name])
    assert exact["profiled_active_ms"].equals(exact["active_ms"])
    assert exact["profiled_idle_ms"].equals(exact["idle_ms"])
    assert exact["profiled_memory_gib"].equals(exact["gpu_memory_gib"])
    some = (exact["active_ms"] > 0) & (exact["idle_ms"] > 0)
    odds = [table["profiled_active_ms"][some] / table["profiled_idle_ms"][some] for table in (exact, wrong)]
    assert np.log(odds[1] / odds[0]).std() == pytest.approx(0.25, rel=0.1)
    whole = [table["profiled_active_ms"] + table["profiled_idle_ms"] for table in (exact, wrong)]
    np.testing.assert_allclose(whole[1], whole[0])
    small = exact["gpu_memory_gib"] < 12
    memory = np.log(wrong["profiled_memory_gib"] / exact["gpu_memory_gib"])[small]
    assert memory.std() == pytest.approx(0.025, rel=0.1)
    assert wrong["profiled_memory_gib"].max() <= 16.0


def test_input_and_exchange_follow_from_the_models_batch() -> None:
    """resnet50 takes 4.15 core-ms and 80.3 MiB per image, plus 3,000 MiB; 40 % of its 102.2 MB are not hidden."""
    table = filled(some_jobs(300, model=["resnet50"] * 300))
    batch = (table["gpu_memory_gib"] * 1024 - 3000) / 80.3
    assert table["input_core_s"].to_numpy() == pytest.approx(0.00415 * batch.to_numpy())
    assert table["sync_gb"].to_numpy() == pytest.approx(0.04088)


def test_bandwidth_of_a_job_short_of_cores_follows_its_input() -> None:
    """One core reads 1 / 4.15 ms = 241 images of 5 MB per second at any batch size: 1.2 GB/s per GPU."""
    gpus = [1, 2, 4, 8]
    table = filled(some_jobs(4, model=["resnet50"] * 4, num_gpus=gpus, cpu_cores=gpus))
    assert table["bandwidth_gbs"].tolist() == pytest.approx([each * 5e-3 / 0.00415 for each in gpus])


def test_bandwidth_of_a_job_with_enough_cores_follows_its_gpus() -> None:
    table = filled(some_jobs(300, model=["resnet50"] * 300, num_gpus=[2] * 300, cpu_cores=[96] * 300))
    batch = table["input_core_s"] / 0.00415
    seconds = (table["active_ms"] + table["idle_ms"]) / 1000
    assert table["bandwidth_gbs"].to_numpy() == pytest.approx((2 * batch / seconds * 5e-3).to_numpy())


def test_an_unknown_model_gets_a_profile_with_a_note() -> None:
    table = filled(some_jobs(3, model=["ours", "resnet50", "lstm"]))
    assert table.attrs["notes"] == ["models without a profile, simulated with that of resnet50: ours"]
    assert table["checkpoint_gib"][0] == table["checkpoint_gib"][1] != table["checkpoint_gib"][2]


def test_a_cpu_job_holds_no_gpu_memory() -> None:
    table = filled(some_jobs(2, kind=["cpu", "gpu"], num_gpus=[0, 1]))
    assert table["model"][0] == "none"
    nothing = ["gpu_memory_gib", "checkpoint_gib", "active_ms", "input_core_s", "sync_gb", "bandwidth_gbs"]
    assert not table[nothing].iloc[0].any()
    assert table["cpu_cores"][0] == 6
