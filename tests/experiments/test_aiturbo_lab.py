"""AITurbo's other workloads: arrivals as bursty as Philly's, and jobs like those of its laboratory."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from gpu_cluster_gym import workloads
from gpu_cluster_gym.baselines.aiturbo import Aiturbo
from gpu_cluster_gym.experiments import aiturbo
from gpu_cluster_gym.experiments._trials import sample_trials
from gpu_cluster_gym.workloads import Workload


def test_bursty_arrivals_keep_jobs_and_span() -> None:
    """The variance of arrival counts is near Poisson's without bursts, and far larger with bursts."""
    loads = sample_trials("aiturbo_ps", 10, seed=0)
    bursty = [aiturbo.as_bursty_as_philly(load) for load in loads]
    for load, other in zip(loads, bursty, strict=True):
        assert_frame_equal(other.table.drop(columns="submit_s"), load.table.drop(columns="submit_s"))
        assert other.table["submit_s"].iloc[-1] == pytest.approx(load.table["submit_s"].iloc[-1])
    plain, burst = (np.mean([dispersion(each) for each in some]) for some in (loads, bursty))
    assert plain < 2
    assert burst > 2 * plain


def dispersion(load: Workload) -> float:
    """Return variance over mean of the number of arrivals in 24 parts of the span."""
    counts = np.histogram(load.table["submit_s"], bins=24)[0]
    return float(counts.var() / counts.mean())


@cache
def bursts() -> pd.DataFrame:
    window = workloads.Window("test", 0)
    return pd.concat([aiturbo.lab_workload(window, seed, 0.125).table for seed in range(60)])


def test_the_laboratorys_jobs_have_the_fitted_shares() -> None:
    table = bursts()
    assert table["submit_s"].max() < 212
    shapes = table.groupby(["servers", "num_gpus"]).size() / len(table)
    assert shapes.to_dict() == pytest.approx({(1, 2): 28 / 60, (2, 1): 20 / 60, (2, 2): 12 / 60}, abs=0.03)
    assert (table["predictable_from"] < 1).mean() == pytest.approx(24 / 60, abs=0.03)
    assert (table["model"] == "googlenet").mean() == pytest.approx(8 / 60, abs=0.02)


def test_the_laboratorys_steps_take_the_simulators_time() -> None:
    """A job's run time is its steps times the simulator's seconds per iteration."""
    load = aiturbo.lab_workload(workloads.Window("test", 0), 3, 0.125)
    episode = load.episode()
    steps = load.table["duration_s"].to_numpy() / episode.jobs["iteration_s"][: len(load.table)]
    assert np.exp(np.log(steps).mean()) == pytest.approx(458, rel=0.4)
    slow, fast = (aiturbo.lab_workload(workloads.Window("test", 0), 3, gbs).table for gbs in (0.125, 1.25))
    assert (slow["duration_s"] > fast["duration_s"]).all()


def test_rounds_that_restart_all_jobs_lengthen_run_times() -> None:
    (load,) = sample_trials("aiturbo_ps", 1, seed=0)
    policies = dict.fromkeys(("fifo", "srtf"), Aiturbo)
    found = aiturbo.lab_settings([load], policies, {"fifo": 0.0, "srtf": 124.0})
    plain, never, often = (
        setting.workloads[0].table["duration_s"].to_numpy() for setting in (found[0], *found[2:])
    )
    assert never == pytest.approx(plain)
    assert often == pytest.approx(2 * plain)
