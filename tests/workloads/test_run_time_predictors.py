"""Predictors fitted to finished jobs recover the parameters of the jobs, from observations only."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.history import PROFILE, fit, log_rms, recorded, uses, written_down
from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.history import nearest
from gpu_cluster_gym.simulator.kernel.cluster.readings import TARGET_BUSY_SHARE
from gpu_cluster_gym.simulator.kernel.union.estimates import PROFILE_WIDTH as WIDTH
from gpu_cluster_gym.workloads import Scenario, full_trace, named, windows
from gpu_cluster_gym.workloads._scenario import PREDICTORS
from gpu_cluster_gym.workloads._workload import predictor
from tests.cases import tiny

WITHIN, BETWEEN, GOOD_ERROR, BAD_ERROR = 0.3, 1.2, 0.2, 0.9
NEEDS = {0: 1.5, 1: 3.0, 2: 6.0}  # cores, of three kinds of profile


def drawn(batches: int = 600, each: int = 4) -> pd.DataFrame:
    """Return the observations of random jobs of two windows."""
    rng = np.random.default_rng(0)
    batch = np.repeat(np.arange(batches), each)
    count, kind = len(batch), batch % len(NEEDS)
    run = 6.0 + (BETWEEN * rng.standard_normal(batches))[batch] + WITHIN * rng.standard_normal(count)
    good = rng.random(count) < 0.5
    estimate = run + np.where(good, GOOD_ERROR, BAD_ERROR) * rng.standard_normal(count)
    cores = rng.integers(1, 9, count)
    need = np.array([NEEDS[number] for number in kind.tolist()])
    share = np.minimum(TARGET_BUSY_SHARE * cores / need, 1.0)
    known = {
        "window": batch % 2,
        "batch": batch,
        "size": 1,
        "run": run,
        "first": estimate,
        "last": estimate,
        "good_at_first": good,
        "good_at_last": good,
        "share": share,
        "need": np.log(np.maximum(TARGET_BUSY_SHARE * cores / share, 1.0)),
    }
    profile = {name: kind + 0.01 * rng.standard_normal(count) for name in PROFILE}
    return pd.DataFrame(known | profile)


def test_errors_and_deviations_come_back() -> None:
    history = fit(drawn()).history
    found = [history.within, history.between, history.good_error, history.bad_error]
    assert found == pytest.approx([WITHIN, BETWEEN, GOOD_ERROR, BAD_ERROR], rel=0.1)
    assert history.level[1] == pytest.approx(6.0, abs=0.2)


def test_the_cores_of_each_kind_of_profile_come_back() -> None:
    history = fit(drawn()).history
    cells = np.array(history.cells)
    for kind, need in NEEDS.items():
        point = np.full((1, WIDTH), float(kind)) / np.array(history.scale)
        cell = nearest(point, cells[:, :WIDTH])[0]
        assert np.exp(cells[cell, WIDTH]) == pytest.approx(need, rel=0.02)


def test_cells_predict_better_than_the_mean() -> None:
    figures = fit(drawn()).figures
    assert figures["left_out"] < 0.5 * figures["left_out_constant"]


def test_where_cores_do_not_matter_there_are_no_cells() -> None:
    assert fit(drawn(), cores=False).history.cells == ()


def test_records_match_the_finished_jobs(tmp_path: Path) -> None:
    load = full_trace(Scenario(**tiny.scenario(tmp_path, physics="all")))
    rows = written_down(load, baselines.make(baselines.load("srtf")))
    assert np.exp(rows["run"]).to_numpy() == pytest.approx(load.jobs["duration_s"])
    assert np.exp(rows["first"]).to_numpy() == pytest.approx(load.jobs["profiled_duration_s"])
    assert (rows["good_at_first"].to_numpy() == (load.jobs["predictable_from"] <= 0)).all()
    assert fit(rows, cores=False).history.within > 0


@pytest.mark.parametrize("name", sorted(file.stem for file in PREDICTORS.iterdir()))
def test_stored_predictors_belong_to_workloads_and_load(name: str) -> None:
    history = predictor(name)
    assert history is not None
    assert history.cells
    assert name in history.fitted_on
    assert name.startswith(str(named(name).trace_name))


def test_the_history_of_mixed_predicts_better_than_estimates_and_requests() -> None:
    records = recorded(windows(replace(named("mixed"), run_time_predictor="mixed"), "validation", 2))
    running = records[records["share"].between(0.05, 0.6)]
    assert log_rms(running["expected"], running["left"]) < 0.75 * log_rms(
        running["estimated"], running["left"]
    )
    trained = records[records["gpus"] > 0]
    assert log_rms(trained["expected cores"], trained["need"]) < 0.5 * log_rms(
        trained["requested"], trained["need"]
    )


def test_every_use_of_predictions_runs_to_the_end() -> None:
    scenario = replace(named("mixed"), run_time_predictor="mixed", jobs=80)
    shown = uses(windows(scenario, "validation", 2))
    assert shown.row_count == 6
    ratios = [float(str(cell)) for cell in shown.columns[2].cells]
    assert ratios[0] == 1
    assert min(ratios) > 0.3
