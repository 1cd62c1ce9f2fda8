"""Jobs generated from published figures have these figures, and can be scaled."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

from benchmarks import log_generators
from benchmarks.log_generators import arrivals
from gpu_cluster_gym import traces
from gpu_cluster_gym.traces import _generator
from gpu_cluster_gym.workloads import Scenario, windows
from gpu_cluster_gym.workloads._steady import load_of, stretch_of

NAMES = ("acme", "helios", "pai")
JOBS = 100_000


@pytest.fixture(scope="module")
def drawn() -> dict[str, pd.DataFrame]:
    """Return 100,000 jobs of two seeds of each log."""
    return {
        name: pd.concat([traces.load(name, seed=seed, jobs=JOBS) for seed in range(2)], ignore_index=True)
        for name in NAMES
    }


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_gives_one_table_and_two_give_two(name: str) -> None:
    one, same, other = (traces.load(name, seed=seed, jobs=512) for seed in (3, 3, 4))
    pd.testing.assert_frame_equal(one, same)
    assert not one["duration_s"].equals(other["duration_s"])
    assert [len(traces.load(name, seed=0, jobs=jobs)) for jobs in (1, 2)] == [1, 2]
    assert (len(one), one["submit_s"][0]) == (512, 0)
    assert all(how == f"filled: drawn from statistics of {name}" for how in one.attrs["origin"].values())


def test_a_number_or_a_scale_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        traces.load("helios", seed=0, jobs=0)
    with pytest.raises(ValueError, match="scale 0: expected more than 0"):
        traces.load("helios", seed=0, jobs=2, scale=0)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_give_the_published_figures(name: str) -> None:
    """Medians, means, and the GPU time of each end, by the distribution itself."""
    known = _generator.statistics(name)
    for cluster, found in known["clusters"].items():
        own = _generator.fitted(name).clusters[cluster]
        shares = np.outer(np.diff(own.width_up_to, prepend=0), np.diff(own.end_up_to, prepend=0))
        run_s = _generator.clipped_mean(own.log_run_s, own.spread, own.longest_s)
        below = ndtr((np.log(found["median_run_s"]) - own.log_run_s) / own.spread)
        assert (shares * below).sum() == pytest.approx(0.5, abs=1e-6)
        assert (shares * run_s).sum() == pytest.approx(found["mean_run_s"])
        if "mean_gpus" in found:
            assert shares.sum(axis=1) @ own.widths == pytest.approx(found["mean_gpus"])
            gpu_s = [state["gpu_time_s"] for state in found["states"].values()]
            assert own.gpus_held == pytest.approx(sum(gpu_s) / (known["days"] * 86_400))
            by_end = (shares * run_s * own.widths[:, None]).sum(axis=0)
            assert by_end / by_end.sum() == pytest.approx(np.array(gpu_s) / sum(gpu_s))


@pytest.mark.parametrize("name", NAMES)
def test_generated_jobs_have_the_published_figures(name: str, drawn: dict[str, pd.DataFrame]) -> None:
    """Quantiles and shares, which have little noise; the mean of a heavy tail has more."""
    known = _generator.statistics(name)["clusters"]
    table = drawn[name]
    total = sum(found["jobs"] for found in known.values())
    for cluster, found in known.items():
        jobs = table[table["vc"] == cluster]
        assert len(jobs) / len(table) == pytest.approx(found["jobs"] / total, rel=0.4)  # of 12 days each
        assert jobs["duration_s"].median() == pytest.approx(found["median_run_s"], rel=0.15)
        assert jobs["duration_s"].mean() == pytest.approx(found["mean_run_s"], rel=0.3)
        assert jobs["duration_s"].max() <= found["max_run_s"]
        for state, each in found.get("states", {}).items():
            assert (jobs["status"] == state).mean() == pytest.approx(each["share"], abs=0.03)
    assert (table[["submit_s", "duration_s"]] % 1 == 0).all(axis=None)


def test_alone_venus_arrives_as_bursty_as_its_log() -> None:
    log = _generator.fitted("helios")
    alone = _generator.Log({"Venus": log.clusters["Venus"]}, log.arrivals)
    found = pd.DataFrame(
        [arrivals(_generator.draw(alone, "helios", seed, 120_000)["submit_s"]) for seed in range(4)]
    )
    fano = _generator.statistics("helios")["arrivals"]["fano"]
    for name, tolerance in (("10min", 0.25), ("1h", 0.15), ("1d", 0.3)):
        assert found[f"Fano factor, {name}"].mean() == pytest.approx(fano[name], rel=tolerance)


def test_a_scale_multiplies_arrivals_and_nothing_else(drawn: dict[str, pd.DataFrame]) -> None:
    tenth = pd.concat([traces.load("helios", seed=seed, jobs=20_000, scale=0.1) for seed in range(3)])
    whole = drawn["helios"]
    rates = [3600 * len(each) / each["submit_s"].max() for each in (tenth[:20_000], whole[:JOBS])]
    assert rates[0] == pytest.approx(0.1 * rates[1], rel=0.3)
    assert tenth["duration_s"].median() == pytest.approx(whole["duration_s"].median(), rel=0.15)
    assert tenth["num_gpus"].eq(1).mean() == pytest.approx(whole["num_gpus"].eq(1).mean(), abs=0.03)


@pytest.mark.parametrize("cluster", ["1x8", "128x64"])
def test_steady_windows_are_of_any_size(cluster: str) -> None:
    """Of 8 GPUs and of 8,192, more than the log's jobs use."""
    days = {"warm_days": 0.5, "counted_days": 0.5, "after_days": 1.0}
    scenario = Scenario(trace="acme", cluster=cluster, physics="none", steady_load=1.0, **days)  # type: ignore[arg-type]
    table = windows(replace(scenario, max_duration=36_000.0), "train", 1)[0].table
    assert load_of(
        table, 8 if cluster == "1x8" else 8192, stretch_of(scenario).end_s, 36_000
    ) == pytest.approx(1.0, abs=0.05)


# The benchmark.


def test_the_benchmark_ranks_policies_on_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "jobs.csv"
    log = traces.load("philly", seed=7, jobs=20_000)
    log.to_csv(file, index=False)
    log_generators.main(["philly", "--log", str(file), "--seeds", "1", "--windows", "2"])
    lines = {line[:32].strip(): line[32:].split() for line in capsys.readouterr().out.splitlines()}
    assert lines["run time, 50%, s"][0] == f"{log['duration_s'].median():.4g}"
    assert lines["mean JCT / fifo, windows"] == ["2", "2", "2"]
    assert float(lines["srtf"][0]) < 1
    assert all(-1 <= float(each) <= 1 for each in lines["Kendall's tau with the log"])
