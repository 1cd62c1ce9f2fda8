"""The workloads of the papers' experiments have their documented figures, and each variant changes one thing."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from gpu_cluster_gym import traces, workloads
from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.workloads import coda_mix, named, windows, xion_small

NAMES = ("coda_mix", "xion_small", "xonar_memory", "xonar_mix")
DRAWN = (*NAMES, "aiturbo_ps", "mixed", "busy")
DAYS = 8  # of coda_mix, drawn by as many seeds


@cache
def many(name: str, jobs: int = 40_000, seed: int = 5) -> pd.DataFrame:
    return workloads.load(name, seed=seed, jobs=jobs)


@pytest.fixture(scope="module")
def days() -> pd.DataFrame:
    """Return several days of CODA's jobs, one after another."""
    return pd.concat([workloads.load("coda_mix", seed=seed) for seed in range(DAYS)], ignore_index=True)


@pytest.fixture(scope="module")
def training(days: pd.DataFrame) -> pd.DataFrame:
    """Return the GPU jobs with the cores per GPU that their users ask for."""
    table = days[days["kind"] == "gpu"].reset_index(drop=True)
    return table.assign(asked=table["cpu_cores"] / table["num_gpus"])


# All of them


@pytest.mark.parametrize("name", DRAWN)
def test_a_generated_table_is_valid_and_decided_by_its_seed(name: str) -> None:
    """Filling adds missing columns only; no file is read."""
    table = workloads.load(name, seed=1, jobs=30)
    assert_frame_equal(table, workloads.load(name, seed=1, jobs=30))
    assert_frame_equal(traces.check(table), table)
    other = workloads.load(name, seed=2, jobs=30)
    assert not table["duration_s"].equals(other["duration_s"])
    assert len(table) == len(other) == 30
    assert set(table.attrs["origin"]) == set(table.columns)
    assert all("drawn for" in how for how in table.attrs["origin"].values())
    assert [note for note in table.attrs["notes"] if "sorted" in note] == []
    full = traces.fill(table, seed=1, largest_gpu_gib=32.0)
    assert_frame_equal(full[list(table.columns)], table)
    undrawn = {column.name for column in traces.COLUMNS if not (column.filled or column.required)}
    assert {column.name for column in traces.COLUMNS} - undrawn <= set(full.columns)
    assert not any("without a profile" in note for note in full.attrs["notes"])
    with pytest.raises(traces.TraceError, match="this trace is generated"):
        workloads.load(name, "jobs.csv", seed=0)
    with pytest.raises(ValueError, match="jobs 0: expected at least 1"):
        workloads.load(name, seed=0, jobs=0)


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_fits_its_cluster(name: str) -> None:
    scenario = named(name)
    assert scenario.trace == name
    for work in windows(scenario, "test", 2):
        usual = workloads.load(name, seed=0)
        share = 0.1 if name == "coda_mix" else 0.0  # its days are of different numbers of jobs
        assert len(work.table) == pytest.approx(len(usual), rel=share)


# Xonar


DUTY = {0.05: 0.369, 0.25: 0.572, 0.5: 0.789, 0.75: 0.885, 0.95: 0.955}
ITERATION_MS = {0.05: 56.2, 0.25: 133.6, 0.5: 314.9, 0.75: 726.5, 0.95: 2445.0}
MEMORY = {0.1: 0.933, 0.25: 1.189, 0.5: 4.745, 0.75: 9.095, 0.9: 17.031, 0.95: 17.289, 1.0: 31.137}


def profiles(name: str) -> pd.DataFrame:
    """Return duty, iteration and memory of many jobs."""
    table = many(name)
    iteration_ms = table["active_ms"] + table["idle_ms"]
    duty = table["active_ms"] / iteration_ms
    return pd.DataFrame({"duty": duty, "iteration_ms": iteration_ms, "memory_gib": table["gpu_memory_gib"]})


def test_xonars_jobs_have_the_quantiles_of_the_profiles() -> None:
    found = profiles("xonar_mix")
    assert found["duty"].quantile(list(DUTY)).tolist() == pytest.approx(list(DUTY.values()), rel=0.02)
    assert (found["duty"] < 0.5).mean() == pytest.approx(0.22, abs=0.01)
    iterations = found["iteration_ms"].quantile(list(ITERATION_MS))
    assert iterations.tolist() == pytest.approx(list(ITERATION_MS.values()), rel=0.05)
    assert found["memory_gib"].quantile(list(MEMORY)).tolist() == list(MEMORY.values())
    ranks = found.corr(method="spearman")  # large jobs have long iterations and leave their GPUs idle
    pairs = [("duty", "memory_gib"), ("memory_gib", "iteration_ms"), ("duty", "iteration_ms")]
    assert [ranks.loc[pair] for pair in pairs] == pytest.approx([-0.58, 0.78, -0.63], abs=0.02)


def test_a_job_of_xonars_is_a_startup_and_110_iterations() -> None:
    table = many("xonar_mix")
    assert table["duration_s"].to_numpy() == pytest.approx(0.11 * profiles("xonar_mix")["iteration_ms"])
    assert (table["startup_s"] == 18).all()
    (load,) = windows(named("xonar_mix"), "test", 1)
    alone = load.results(run(Ranking("submit"), load.episode())).sort_values("finish_s")
    took_s = np.diff(alone["finish_s"], prepend=0.0)
    assert took_s == pytest.approx(load.table["duration_s"] + 18)


@pytest.mark.parametrize(("name", "share"), [("xonar_mix", 0.119), ("xonar_memory", 0.36)])
def test_as_many_pairs_overflow_a_gpu_as_printed(name: str, share: float) -> None:
    memory = many(name)["gpu_memory_gib"].to_numpy()
    assert (memory[::2] + memory[1::2] > 32.0).mean() == pytest.approx(share, abs=0.01)
    assert memory.max() < 32.0


def test_xonars_jobs_are_queued_at_once_on_two_gpus_each() -> None:
    """A larger set starts with the smaller one; the memory set is of the large settings."""
    table = workloads.load("xonar_mix", seed=5)
    assert len(table) == 10
    assert (table["submit_s"] == 0).all()
    assert (table["num_gpus"] == 2).all()
    assert not table[["input_core_s", "sync_gb", "bandwidth_gbs"]].any(axis=None)
    assert_frame_equal(many("xonar_mix", 30).head(10), table)
    assert (many("xonar_memory")["gpu_memory_gib"] > 8).all()


# Xion


def test_xions_jobs_have_the_figures_of_their_regime() -> None:
    table = many("xion_small")
    length = table["duration_s"]
    overhead = table["pause_s"] + table["load_s"]
    assert length.mean() == pytest.approx(900, rel=0.02)
    assert length.std() / length.mean() == pytest.approx(0.7, rel=0.03)
    assert overhead.median() == pytest.approx(200, rel=0.02)
    assert np.log(overhead).std() == pytest.approx(0.7, rel=0.02)
    assert (table["pause_s"] / overhead).to_numpy() == pytest.approx(0.4)
    assert length.sum() / (2 * table["submit_s"].max()) == pytest.approx(0.8, rel=0.02)
    assert (table["num_gpus"] == 1).all()


@pytest.mark.parametrize("median_s", [0, 30, 100, 200, 400])
def test_only_overheads_change_with_their_median(median_s: float) -> None:
    table = many("xion_small")
    other = xion_small.with_overhead(table, median_s)
    assert (other["pause_s"] + other["load_s"]).median() == pytest.approx(median_s, rel=0.02)
    both = ["pause_s", "load_s"]
    assert_frame_equal(other.drop(columns=both), table.drop(columns=both))
    assert other.attrs == table.attrs
    if median_s == 200:
        assert_frame_equal(other, table)


@pytest.mark.parametrize("load", [0.6, 0.8])
def test_only_arrivals_change_with_the_load_of_xions_jobs(load: float) -> None:
    table = many("xion_small")
    other = xion_small.with_load(table, load)
    assert table["duration_s"].sum() / (2 * other["submit_s"].max()) == pytest.approx(load, rel=0.02)
    assert_frame_equal(other.drop(columns="submit_s"), table.drop(columns="submit_s"))


# CODA


SYNERGYS = {  # cores a GPU beyond which Synergy's curves are flat: best speed over that at 3 cores, x 3
    "shufflenet_v2": 8.67,
    "resnet18_imagenet": 7.2,
    "mobilenet_v2": 4.65,
    "resnet50": 3.45,
    "m5_audio": 7.5,
    "deepspeech2": 3.0,
}


def test_codas_training_has_the_stated_figures(training: pd.DataFrame) -> None:
    """The load with ample cores; requested GPUs and cores; core needs of Synergy's curves; nine models."""
    gpus = training["num_gpus"].to_numpy()
    needs = seconds(training), training["input_core_s"].to_numpy(), training["sync_gb"].to_numpy(), gpus
    asked, plenty = training["asked"].to_numpy(), np.full(len(training), 1e9)
    fed = training["duration_s"] * coda_mix.iteration_s(*needs, plenty) / coda_mix.iteration_s(*needs, asked)
    assert (fed.mean(), fed.std()) == pytest.approx((5400, 5400), rel=0.06)
    assert (gpus * fed).sum() / (80 * 86_400 * DAYS) == pytest.approx(1.1, rel=0.08)
    widths, models = (training[name].value_counts(normalize=True) for name in ("num_gpus", "model"))
    assert [widths[width] for width in (1, 2, 4, 8)] == pytest.approx([0.5, 0.2, 0.2, 0.1], abs=0.02)
    assert set(asked[gpus < 8]) == {1, 2, 3, 4, 8}
    assert set(asked[gpus == 8]) == {1, 2, 3, 4, 5}
    assert set(models.index) == set(coda_mix.MODELS)
    assert models.to_numpy() == pytest.approx(1 / 9, abs=0.02)
    cores = (training["input_core_s"] / seconds(training)).groupby(training["model"]).median()
    assert cores[list(SYNERGYS)].tolist() == pytest.approx(list(SYNERGYS.values()), rel=0.25)
    assert (cores.drop(list(SYNERGYS)) < 0.1).all()


def test_codas_cpu_jobs_have_the_stated_figures(days: pd.DataFrame) -> None:
    on_cpu = days[days["kind"] == "cpu"]
    work = (on_cpu["cpu_cores"] * on_cpu["duration_s"]).sum()
    assert work / (400 * 86_400 * DAYS) == pytest.approx(0.25, rel=0.08)
    assert set(on_cpu["cpu_cores"]) == set(range(1, 17))
    assert on_cpu["duration_s"].mean() == pytest.approx(900, rel=0.04)
    assert (on_cpu["bandwidth_gbs"] > 0).mean() == pytest.approx(0.2, abs=0.02)
    assert not on_cpu[["num_gpus", "gpu_memory_gib", "active_ms", "input_core_s", "sync_gb"]].any(axis=None)
    assert days["submit_s"].between(0, 86_400).all()
    assert days["submit_s"].mean() == pytest.approx(43_200, rel=0.02)
    assert days["user"].nunique() == 20


def test_an_iteration_waits_for_its_slowest_part() -> None:
    """Four GPUs exchange 2 x 3/4 x 0.52 GB at 26 GB/s, 30 ms, and 3 ms; 0.6 core-seconds on 2 cores take 300 ms."""
    whole = coda_mix.iteration_s(
        np.array([0.1, 0.1, 0.4]),
        np.array([0.6, 0.6, 0.6]),
        np.array([0.52, 0.52, 0.52]),
        np.array([4, 1, 4]),
        np.array([2.0, 2.0, 2.0]),
    )
    assert whole.tolist() == pytest.approx([0.333, 0.3, 0.433])


def test_the_simulator_takes_an_iteration_for_as_long() -> None:
    work = windows(named("coda_mix"), "test", 1)[0]
    jobs = work.episode().jobs[: len(work.table)]
    asked = work.table["cpu_cores"] / work.table["num_gpus"].clip(lower=1)
    rows = jobs["num_gpus"] > 0
    assert jobs["cores_each"].tolist() == asked.tolist()
    table = work.table[rows]
    needs = table["input_core_s"].to_numpy(), table["sync_gb"].to_numpy(), table["num_gpus"].to_numpy()
    ours = coda_mix.iteration_s(seconds(table), *needs, asked[rows].to_numpy())
    assert rows.sum() > 300
    assert jobs["iteration_s"][rows] == pytest.approx(ours)


def test_only_bandwidth_changes_with_the_share_of_heavy_jobs() -> None:
    table = workloads.load("coda_mix", seed=4)
    none, some, more = (coda_mix.with_heavy(table, share, 4) for share in (0.0, 0.2, 0.4))
    assert_frame_equal(some, table)
    for other in (none, more):
        assert_frame_equal(other.drop(columns="bandwidth_gbs"), table.drop(columns="bandwidth_gbs"))
    on_cpu = table["kind"] == "cpu"
    heavy = [set(other.index[on_cpu & (other["bandwidth_gbs"] > 0)]) for other in (none, some, more)]
    assert heavy[0] == set()
    assert heavy[1] < heavy[2]
    assert (more["bandwidth_gbs"] / more["cpu_cores"])[list(heavy[2])].tolist() == [12.5] * len(heavy[2])


def test_the_first_jobs_of_a_day_can_be_requested() -> None:
    day = workloads.load("coda_mix", seed=6)
    assert_frame_equal(workloads.load("coda_mix", seed=6, jobs=100), day.head(100))


def seconds(table: pd.DataFrame) -> np.ndarray:
    """Return the seconds of an iteration on GPUs with plenty of cores."""
    return (table["active_ms"] + table["idle_ms"]).to_numpy() / 1000


# Clusters


@pytest.mark.parametrize(
    ("name", "memory_gib", "cores"),
    [("2x4", 16.0, 24), ("2x4-32gb", 32.0, 24), ("2x4-40c", 16.0, 40), ("2x4-24.5gb-20c", 24.5, 20)],
)
def test_a_name_sets_memory_and_cores(name: str, memory_gib: float, cores: int) -> None:
    machines = cluster(name)
    assert machines.name == name
    assert machines.node_gpus == (4, 4)
    assert machines.node_gpu_memory_gib == (memory_gib,) * 2
    assert machines.node_cores == (cores,) * 2


def test_a_name_sets_the_links_of_all_its_parts() -> None:
    """Without a name the defaults hold; parts with different links cannot form a cluster."""
    fields = ("intra_gbs", "inter_gbs", "intra_ms", "inter_ms")
    linked, plain = cluster("2x4-k80-32gb-40c-pcie-ethernet"), cluster("2x4")
    assert linked.name == "2x4-k80-32gb-40c-pcie-ethernet"
    assert [getattr(linked, field) for field in fields] == [1.9, 0.6, 2.8, 0.9]
    assert [getattr(plain, field) for field in fields] == [26.0, 5.0, 1.0, 2.3]
    assert cluster("2x4+1x2-k80").intra_gbs == plain.intra_gbs
    both = cluster("2x4-nvlink-ib+1x2-k80-nvlink-ib")
    assert (both.inter_gbs, both.num_gpus) == (7.6, 10)
    with pytest.raises(ValueError, match="expected the same links in all parts"):
        cluster("2x4-nvlink-ib+2x4")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("1x2-20c-32gb", "unknown: expected NxG"),
        ("1x2-nvlink", "unknown: expected NxG"),
        ("1x2-32g", "unknown: expected NxG"),
        ("1x2-0gb", "expected more than 0 GiB of GPU memory"),
        ("1x8-7c", "node 0 has 7 cores for 8 GPUs: expected at least one core per GPU"),
    ],
)
def test_an_invalid_cluster_is_refused(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        cluster(name)
