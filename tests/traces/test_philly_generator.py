"""The generator of Philly's jobs keeps the log's statistics."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.philly_batches import block, fitted
from benchmarks.philly_fidelity import batches, burstiness, members, read_log
from gpu_cluster_gym import traces
from gpu_cluster_gym.traces import _philly_generator
from gpu_cluster_gym.traces._philly_generator import PROBE_VC
from gpu_cluster_gym.workloads import Scenario
from gpu_cluster_gym.workloads._windows import in_range, list_file

STATISTICS = json.loads((Path(traces.__file__).parent / "data" / "philly_statistics.json").read_text())
JOBS = 40_000
SEEDS = range(6)
WIDTHS = ("1", "2", "3-4", "5-8")


@pytest.fixture(scope="module")
def drawn() -> pd.DataFrame:
    """Return 40,000 jobs of each of six seeds, concatenated, because busy weeks of one seed are chance."""
    tables = [traces.load("philly", seed=seed, jobs=JOBS).assign(seed=seed) for seed in SEEDS]
    return pd.concat(tables, ignore_index=True)


def test_a_seed_and_a_number_of_jobs_decide_the_table(drawn: pd.DataFrame) -> None:
    one, same, other = (traces.load("philly", seed=seed, jobs=512) for seed in (3, 3, 4))
    pd.testing.assert_frame_equal(one, same)
    assert not one["duration_s"].equals(other["duration_s"])
    for jobs in (1, 2, 512):
        table = traces.load("philly", seed=0, jobs=jobs)
        assert (len(table), table["submit_s"][0], table["job_id"].is_unique) == (jobs, 0, True)
        assert all(how.startswith("filled: drawn") for how in table.attrs["origin"].values())
    with pytest.raises(ValueError, match="at least 1"):
        traces.load("philly", seed=0, jobs=0)
    assert (drawn[["submit_s", "duration_s"]] % 1 == 0).all(axis=None)
    assert drawn["duration_s"].max() <= STATISTICS["duration_s"]["all"]["quantiles"][-1]


def test_jobs_arrive_as_often_as_the_logs(drawn: pd.DataFrame) -> None:
    days = drawn.groupby("seed")["submit_s"].max().sum() / 86_400
    assert len(drawn) / days == pytest.approx(STATISTICS["arrivals"]["jobs_per_day"]["mean"], rel=0.15)


def test_shares_of_gpus_clusters_and_passed_jobs_are_the_logs(drawn: pd.DataFrame) -> None:
    """Jobs of 16 GPUs are few, from about a hundred works. The log: few jobs of more than a week pass."""
    known, passed = STATISTICS["gpu_count"]["share_of_jobs"], drawn["status"] == "Pass"
    for gpus in (1, 2, 4, 8, 16):
        share = (drawn["num_gpus"] == gpus).mean()
        assert share == pytest.approx(known[str(gpus)], rel=0.2 if gpus < 16 else 0.4), gpus
    for name, cluster in list(STATISTICS["virtual_clusters"].items())[:8]:
        own = drawn[drawn["vc"] == name]
        assert len(own) / len(drawn) == pytest.approx(cluster["share_of_jobs"], rel=0.35), name
        single = (own["num_gpus"] == 1).mean()
        assert single == pytest.approx(cluster["gpu_count_share"]["1"], abs=0.12), name
    for name, share in STATISTICS["status"]["passed_share_by_gpu_bucket"].items():
        if name in WIDTHS:
            assert passed[members(drawn, name)].mean() == pytest.approx(share, abs=0.06), name
    assert passed[drawn["duration_s"].between(1_800, 3_600)].mean() > 0.8
    assert passed[drawn["duration_s"] > 604_800].mean() < 0.4


def test_durations_have_the_logs_quantiles(drawn: pd.DataFrame) -> None:
    """At published durations the generated cumulative distribution equals the log's within 0.05."""
    for name in WIDTHS:
        lengths = drawn["duration_s"][members(drawn, name)]
        published = STATISTICS["duration_s"]["by_gpu_bucket"][name]["quantiles"]
        for level in (0.1, 0.5, 0.9, 0.99):
            at = published[STATISTICS["quantile_levels"].index(level)]
            assert (lengths < at).mean() - 0.05 <= level <= (lengths <= at).mean() + 0.05, (name, level)


def test_submissions_are_as_bursty_as_the_logs(drawn: pd.DataFrame) -> None:
    found = pd.DataFrame([burstiness(table["submit_s"].to_numpy()) for _, table in drawn.groupby("seed")])
    for span, factor in {"1min": 1.4, "10min": 1.4, "1h": 1.5, "6h": 1.7, "1d": 2.0}.items():
        fano = STATISTICS["arrivals"]["counts"][span]["fano"]
        assert fano / factor <= found[f"Fano factor, {span}"].mean() <= fano * factor, span


def test_jobs_arrive_in_batches_of_similar_jobs(drawn: pd.DataFrame) -> None:
    """The log: 66 % in batches of 10 or more, 87 % of the variance between batches, autocorrelation .65."""
    found = pd.DataFrame([batches(table) for _, table in drawn.groupby("seed")]).mean()
    published = STATISTICS["arrivals"]["batch_gap_60s"]
    share, variance = "share_of_jobs_in_batches_of_10_or_more", "log_duration_variance_explained_by_batch"
    assert found["share of jobs in batches >= 10"] == pytest.approx(published[share], abs=0.07)
    assert found["mean batch size"] == pytest.approx(published["mean_size"], rel=0.2)
    assert found["log duration variance between batches"] == pytest.approx(published[variance], abs=0.05)
    likeness = STATISTICS["succession_within_vc"]["log_duration_autocorrelation"]
    for lag in (1, 10, 200):
        assert found[f"log duration autocorrelation, {lag}"] == pytest.approx(likeness[str(lag)], abs=0.12)


def test_the_logs_probe_arrives_every_ten_minutes(drawn: pd.DataFrame) -> None:
    """The log has 121 a day of 144 that would fit: 1-GPU jobs with another just 600 s before."""
    probe = STATISTICS["arrivals"]["periodic_probe_11cb48"]
    per_day = []
    for _, table in drawn[(drawn["vc"] == "11cb48") & (drawn["num_gpus"] == 1)].groupby("seed"):
        at = table["submit_s"].to_numpy()
        followed = np.isin(at + 600, at)
        per_day.append(followed.sum() / (at[-1] - at[0]) * 86_400)
    assert np.mean(per_day) == pytest.approx(probe["per_day"], rel=0.15)


@pytest.fixture(scope="module")
def counted(drawn: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the figures that are published of the log's batches for each seed."""
    table = drawn.assign(passed=(drawn["status"] == "Pass").astype(int))
    table["submitted_time"] = pd.Timestamp("2017-10-02") + pd.to_timedelta(table["submit_s"], unit="s")
    return [block(own.reset_index(drop=True)) for _, own in table.groupby("seed")]


@pytest.mark.parametrize("half", ["small", "large"])
def test_work_continues_for_as_long_as_in_the_log(counted: list[dict[str, Any]], half: str) -> None:
    """The log: mean scores of a cluster's small batches correlate .25 one apart, .06 ten apart; large .48, .17."""
    published = STATISTICS["batch_process"]["score_autocorrelation"][half]
    for lag in ("1", "2", "3", "5", "10"):
        found = np.mean([process["score_autocorrelation"][half][lag] for process in counted])
        assert found == pytest.approx(published[lag], abs=0.08 if half == "small" else 0.2), lag


@pytest.mark.parametrize("kind", ["small_1gpu", "large_1gpu"])
def test_jobs_of_small_and_of_large_batches_pass_and_last_as_the_logs(
    counted: list[dict[str, Any]], kind: str
) -> None:
    """The log: 64 % of 1-GPU jobs of small batches pass, 84 % of those of large ones, which are never as long."""
    published = STATISTICS["batch_process"]["classes"][kind]
    found = [process["classes"][kind] for process in counted]
    assert np.mean([own["passed_share"] for own in found]) == pytest.approx(
        published["passed_share"], abs=0.06
    )
    levels = STATISTICS["quantile_levels"]
    for level, apart in ((0.5, 0.4), (0.9, 0.6), (0.99, 0.7)):
        at = levels.index(level)
        logs = [np.log(own["duration_s"]["passed"]["quantiles"][at]) for own in found]
        assert np.mean(logs) == pytest.approx(
            np.log(published["duration_s"]["passed"]["quantiles"][at]), abs=apart
        ), level


@pytest.mark.parametrize("name", ["6214e9", "6c71a0", "b436b2"])
def test_large_batches_are_as_many_and_as_large_as_the_logs(
    counted: list[dict[str, Any]], drawn: pd.DataFrame, name: str
) -> None:
    published = STATISTICS["batch_process"]["large_batches"][name]
    found = [process["large_batches"].get(name, {"batches": 0, "mean_size": 0}) for process in counted]
    number, jobs = (
        sum(each)
        for each in zip(*((own["batches"], own["batches"] * own["mean_size"]) for own in found), strict=True)
    )
    days = drawn.groupby("seed")["submit_s"].max().sum() / 86_400
    assert number / days == pytest.approx(published["batches"] / 51, rel=0.5)
    assert jobs / number == pytest.approx(published["mean_size"], rel=0.25)


def test_the_parameters_fit_the_published_statistics() -> None:
    """Except the modulations of large batches, which were set by hand."""
    found, used = fitted(STATISTICS["batch_process"]), vars(_philly_generator)
    assert used["CONTINUES"] == pytest.approx(found["continues"], abs=0.005)
    assert used["RECENT"] == pytest.approx(found["recent"], abs=0.005)
    assert np.ravel(used["MODULATIONS"][0]) == pytest.approx(np.ravel(found["modulations"][0]), abs=0.005)


def test_published_statistics_of_batches_are_the_logs(shared_data: Path) -> None:
    log = read_log(shared_data / "philly" / "philly_jobs_first75.csv.gz")
    assert block(log) == STATISTICS["batch_process"]


def test_windows_contend_as_the_logs_do() -> None:
    """Mean JCT / mean run time under SRTF: of 1,000 windows listed, against 100 of the log; 1.54 and 2.41."""
    published = STATISTICS["windows"]
    listed = pd.read_csv(list_file(Scenario()))["jct_over_run_time"]
    assert listed.median() == pytest.approx(published["JCT / run time, all, 50%"], abs=0.15)
    assert listed.quantile(0.9) == pytest.approx(published["JCT / run time, all, 90%"], abs=0.3)
    share = np.mean([in_range(ratio) for ratio in listed])
    assert share == pytest.approx(published["share of windows accepted"], abs=0.08)


def test_windows_of_512_jobs_look_like_the_logs() -> None:
    """The log: 512 jobs within 1.3, 5.8 and 16 hours (10, 50, 90 %); the longest 5 % hold .41, .72, .91."""
    windows = [traces.load("philly", seed=1_000 + number, jobs=512) for number in range(150)]
    span = np.quantile([table["submit_s"].iloc[-1] / 3_600 for table in windows], (0.1, 0.5, 0.9))
    top = [table["duration_s"].nlargest(25).sum() / table["duration_s"].sum() for table in windows]
    assert np.log(span / [1.3, 5.8, 16]) == pytest.approx(0, abs=0.5)
    assert np.quantile(top, (0.1, 0.5, 0.9)) == pytest.approx([0.41, 0.72, 0.91], abs=0.15)


def test_a_scale_multiplies_batches_but_not_the_probe(drawn: pd.DataFrame) -> None:
    """Four times the jobs in the same time, but for the virtual cluster of the probe; a scale of 1 changes no draw."""
    same = traces.load("philly", seed=0, jobs=JOBS, scale=1.0)
    pd.testing.assert_frame_equal(same, drawn[:JOBS].drop(columns="seed"))
    more = pd.concat(
        traces.load("philly", seed=seed, jobs=4 * JOBS, scale=4.0).assign(seed=seed) for seed in SEEDS
    )
    span_s = [table.groupby("seed")["submit_s"].max().sum() for table in (drawn, more)]
    of_probe = [(table["vc"] == PROBE_VC).sum() for table in (drawn, more)]
    others = [(table["vc"] != PROBE_VC).sum() for table in (drawn, more)]
    assert others[1] / span_s[1] == pytest.approx(4 * others[0] / span_s[0], rel=0.15)
    assert 1.5 < of_probe[1] / span_s[1] / (of_probe[0] / span_s[0]) < 3
    with pytest.raises(ValueError, match="scale 0: expected more than 0"):
        traces.load("philly", seed=0, jobs=2, scale=0)
