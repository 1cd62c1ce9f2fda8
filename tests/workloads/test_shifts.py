"""A shift changes the columns or fields it names, in the same windows, and nothing else."""

from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym.simulator.choice import ChoiceError
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.workloads import (
    SHIFTS,
    TRAINING_SHIFTS,
    Scenario,
    Workload,
    applicable,
    describe_shift,
    named,
    shifted,
    windows,
)

SMALL = replace(named("mixed"), jobs=40)
TIMES = {"submit_s", "duration_s", "profiled_duration_s", "predicted_duration_s"}
COLUMNS = {"pauses": {"pause_s", "load_s"}, "estimates": {"profiled_duration_s"}, "run_times": TIMES}
FIELDS = {
    "other_contention": {"contention_form"},
    "wider_nodes": {"cluster"},
    "true_run_times": {"physics"},
}


@pytest.fixture(scope="module")
def window() -> Workload:
    return windows(SMALL, "test", 1)[0]


@pytest.mark.parametrize("shift", dict.fromkeys((*SHIFTS, *TRAINING_SHIFTS, "true_run_times")))
def test_a_shift_changes_only_its_columns_and_fields(shift: str, window: Workload) -> None:
    kind, _, strength = shift.partition("=")
    found = shifted(window, shift)
    changed = {column for column in window.table if not window.table[column].equals(found.table[column])}
    fields = {name for name, value in vars(SMALL).items() if getattr(found.scenario, name) != value}
    assert changed == COLUMNS.get(kind, set() if kind in FIELDS else {"submit_s"}) & set(window.table)
    assert fields == FIELDS.get(kind, set()) | {"shift"}
    assert found.window == window.window
    assert found.cluster.num_gpus == window.cluster.num_gpus
    assert strength in describe_shift(shift)


def test_a_scenario_with_a_shift_has_the_same_windows_under_it() -> None:
    """Windows are accepted without the shift, which applies after scaling and dropping jobs."""
    scenario = replace(SMALL, target_load=0.8, seed=3)
    ours = windows(replace(scenario, shift="load=2"), "train", 3)
    for plain, found in zip(windows(scenario, "train", 3), ours, strict=True):
        assert found.window == plain.window
        assert found.table["submit_s"].to_numpy() == pytest.approx(plain.table["submit_s"].to_numpy() / 2)
        assert found.scenario == replace(scenario, shift="load=2")


def test_more_load_makes_jobs_wait(window: Workload) -> None:
    jct_s = {}
    for load in (window, shifted(window, "load=2")):
        finish_s = run(Rule(), load.episode()).state.finish_s[: len(load.jobs)]
        jct_s[load.scenario.shift] = (finish_s - load.jobs["submit_s"]).mean()
    assert jct_s[None] < jct_s["load=2"]


def test_errors_of_estimates_differ_by_window() -> None:
    found = windows(SMALL, "test", 2)
    errors = [
        shifted(load, "estimates=0.5").table["profiled_duration_s"] / load.table["profiled_duration_s"]
        for load in found
    ]
    assert np.log(errors[0]).std() == pytest.approx(0.5, rel=0.4)
    assert abs(np.corrcoef(np.log(errors))[0, 1]) < 0.5


def test_shifted_arrivals_follow_the_strength(window: Workload) -> None:
    def gaps(load: Workload) -> np.ndarray:
        return np.diff(load.table["submit_s"].to_numpy())

    usual = gaps(window)
    assert gaps(shifted(window, "load=0.8")) == pytest.approx(usual / 0.8)
    assert gaps(shifted(window, "load=1.25")) == pytest.approx(usual / 1.25)
    bunched = gaps(shifted(window, "bunches=8"))
    assert [place for place, gap in zip(count(1), bunched, strict=False) if gap > 0] == [8, 16, 24, 32]


def slack_s(load: Workload) -> np.ndarray:
    """Return the time from submission to deadline of each job."""
    assert (load.table["deadline_s"] > 0).all()
    assert np.array_equal(load.table["deadline_s"], load.jobs["deadline_s"])
    return (load.table["deadline_s"] - load.table["submit_s"]).to_numpy()


@pytest.mark.parametrize("shift", ["load=0.8", "load=2", "bunches=8", "run_times=2"])
def test_deadlines_move_with_arrivals(shift: str) -> None:
    """The time to the deadline is stretched with all other times."""
    due = windows(replace(SMALL, deadline_slack=1.0), "test", 1)[0]
    times = 2 if shift == "run_times=2" else 1
    assert slack_s(shifted(due, shift)) == pytest.approx(times * slack_s(due), rel=1e-6)


def test_deadlines_move_with_scaled_arrivals() -> None:
    scenario = replace(SMALL, jobs=60, deadline_slack=1.0, all_windows=True)
    plain, scaled = (windows(each, "test", 1)[0] for each in (scenario, replace(scenario, target_load=0.3)))
    assert np.ptp(scaled.table["submit_s"]) != pytest.approx(np.ptp(plain.table["submit_s"]), rel=0.1)
    assert slack_s(scaled) == pytest.approx(slack_s(plain), rel=1e-6)


@pytest.mark.parametrize("shift", ["load=2", "bunches=8", "run_times=2"])
def test_a_job_has_a_deadline_under_a_shift_where_it_had_one(shift: str, window: Workload) -> None:
    """Also if it was due before it arrived, so that the deadline would be before the clock's start."""
    had_deadline = np.arange(len(window.table)) % 2 > 0
    table = window.table.assign(deadline_s=np.where(had_deadline, 1.0, 0.0))
    table.attrs = window.table.attrs
    found = shifted(replace(window, table=table), shift).table["deadline_s"].to_numpy()
    assert np.array_equal(found > 0, had_deadline)
    assert (found >= 0).all()


def test_shifts_are_left_out_where_they_would_change_nothing(window: Workload) -> None:
    def left_out(**choices: Any) -> set[str]:
        return set(SHIFTS) - set(applicable(replace(named("mixed"), **choices)))

    assert left_out() == set()
    assert left_out(cluster="3x8") == {"wider_nodes"}
    assert left_out(cluster="4x8-k80") == {"wider_nodes"}
    assert "other_contention" in left_out(physics="exclusive")
    assert {"pauses=0.4", "estimates=0.5"} <= left_out(physics="none")
    with pytest.raises(ValueError, match="other form of contention has no effect"):
        windows(replace(SMALL, physics="exclusive", shift="other_contention"), "train", 1)


def test_true_run_times_replace_estimates(window: Workload) -> None:
    """Estimates equal the durations of GPU jobs; without the shift their log errors exceed one half."""
    for load, most in ((shifted(window, "true_run_times"), 1e-6), (window, np.inf)):
        view = run(Rule(), load.episode()).view
        error = np.abs(np.log(view.jobs.estimate_s / load.table["duration_s"].to_numpy()))
        gpus = load.table["num_gpus"].to_numpy() > 0
        assert error[gpus].max() <= most
    assert error[gpus].max() > 0.5


@pytest.mark.parametrize("shift", ["loads=2", "load", "load=-1", "load=much", "wider_nodes=2", ""])
def test_an_invalid_shift_is_refused(shift: str) -> None:
    with pytest.raises(ChoiceError, match="load=NUMBER"):
        Scenario(shift=shift)
    with pytest.raises(ChoiceError, match="did you mean 'load'" if shift == "loads=2" else "shift"):
        Scenario(shift=shift)
