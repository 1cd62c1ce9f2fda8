"""A job table is prepared for a cluster: in full or as a window, at the requested load, without infeasible jobs."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.jobs import jobs_array
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.workloads import FULL_TRACE, PARTS, Scenario, Workload, full_trace, windows
from tests.cases import tiny

FIFO = Ranking("submit")


def made(folder: Path, table: pd.DataFrame | None = None, **fields: Any) -> Workload:
    return full_trace(Scenario(**tiny.scenario(folder, table, **fields)))


def load_of(work: Workload) -> float:
    """Return sum(g x min(d, T)) / (GPUs x T), where T is the span of submissions."""
    table = work.table
    span = table["submit_s"].max() - table["submit_s"].min()
    return float(
        sum(table["num_gpus"] * np.minimum(table["duration_s"], span)) / (work.cluster.num_gpus * span)
    )


# All of it.


def test_a_full_trace_has_every_job_unchanged(tmp_path: Path) -> None:
    table = tiny.jobs()
    work = made(tmp_path, table)
    assert_frame_equal(work.table[table.columns], table, check_dtype=False)
    assert work.window == FULL_TRACE


def test_results_are_a_row_a_job(tmp_path: Path) -> None:
    work = made(tmp_path, tiny.jobs().assign(status="Pass"), seed=3)
    results = work.results(run(FIFO, work.episode()))
    assert results["job_id"].tolist() == tiny.jobs()["job_id"].tolist()
    assert set(results["status"]) == {"Pass"}
    assert set(results["seed"]) == {3}
    assert set(results["window"]) == {0}


def test_an_unfinished_episode_has_no_results(tmp_path: Path) -> None:
    work = made(tmp_path)
    with pytest.raises(ValueError, match="32 of 32 jobs are unfinished"):
        work.results(work.episode())


def test_a_generator_replays_the_requested_number_of_jobs() -> None:
    work = full_trace(Scenario(jobs=50, full_trace=True, physics="exclusive"))
    assert len(work.table) == 50
    assert work.cluster.num_gpus == 2490


# Load and length.


@pytest.mark.parametrize("load", [0.3, 1.0, 4.0])
def test_the_requested_load_is_reached(load: float, tmp_path: Path) -> None:
    assert load_of(made(tmp_path, target_load=load)) == pytest.approx(load, rel=1e-6)


def test_only_the_gaps_are_scaled(tmp_path: Path) -> None:
    plain, scaled = made(tmp_path).table, made(tmp_path, target_load=1.0).table
    assert_frame_equal(plain.drop(columns="submit_s"), scaled.drop(columns="submit_s"))
    assert scaled["submit_s"].iloc[0] == plain["submit_s"].iloc[0]
    gaps, before = np.diff(scaled["submit_s"]), np.diff(plain["submit_s"])
    assert gaps[before == 0].max() == 0
    assert np.ptp(gaps[before > 0] / before[before > 0]) < 1e-9


def test_each_window_has_the_requested_load(tmp_path: Path) -> None:
    fields = {"full_trace": False, "jobs": 32, "all_windows": True, "target_load": 0.8}
    scenario = Scenario(**tiny.scenario(tmp_path, tiny.month(), **fields))
    assert [load_of(window) for window in windows(scenario, "train", 5)] == pytest.approx([0.8] * 5, rel=1e-6)


def test_the_array_of_jobs_follows_scaled_arrivals(tmp_path: Path) -> None:
    work = made(tmp_path, target_load=0.8, deadline_slack=1.0)
    again = jobs_array(work.table, work.cluster, work.scenario.parts)
    assert (work.jobs["submit_s"] == again["submit_s"]).all()
    assert (work.jobs["deadline_s"] == again["deadline_s"]).all()
    assert work.jobs["deadline_s"].all()


def test_a_load_beyond_reach_is_refused(tmp_path: Path) -> None:
    """With simultaneous arrivals the load is the requested GPUs over the GPUs of the cluster."""
    most = tiny.jobs()["num_gpus"].sum() / 16
    with pytest.raises(ValueError, match=rf"a load of 1000: 32 jobs reach {most:.3g} at most"):
        made(tmp_path, target_load=1e3)


def test_run_times_are_capped(tmp_path: Path) -> None:
    table = tiny.jobs()
    work = made(tmp_path, table, max_duration=600.0)
    assert work.table["duration_s"].tolist() == table["duration_s"].clip(upper=600.0).tolist()
    assert work.jobs["duration_s"].max() == 600.0
    assert work.jobs["profiled_duration_s"].max() == 600.0


def test_the_load_is_that_of_capped_run_times(tmp_path: Path) -> None:
    assert load_of(made(tmp_path, max_duration=600.0, target_load=1.2)) == pytest.approx(1.2, rel=1e-6)


# What cannot run.


def with_giants() -> pd.DataFrame:
    """Return jobs whose second and fifth are too large, in GPUs and in memory."""
    table = tiny.jobs()
    table.loc[1, ["num_gpus", "cpu_cores", "gpu_memory_gib"]] = 17, 17, 4.0
    table.loc[4, ["num_gpus", "cpu_cores", "gpu_memory_gib"]] = 1, 6, 20.0
    return table


def test_too_large_jobs_are_listed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="2 jobs can never run") as error:
        made(tmp_path, with_giants())
    assert str(error.value).splitlines() == [
        "2 jobs can never run on 2x8 (16 GPUs, the largest of 16 GiB, 48 cores on a node); "
        "--drop-too-large drops them:",
        "  job j1: 17 GPUs",
        "  job j4: 1 GPUs of 20.0 GiB",
    ]


def test_an_infeasible_job_is_listed_with_its_cores(tmp_path: Path) -> None:
    table = tiny.mixed(0)
    table.loc[4, "cpu_cores"] = 100
    with pytest.raises(ValueError, match=r"48 cores on a node(.|\n)*job j4: 100 cores, no GPU"):
        made(tmp_path, table, physics="all")


def test_no_more_than_ten_are_listed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="32 jobs can never run") as error:
        made(tmp_path, tiny.jobs().assign(num_gpus=17))
    assert str(error.value).splitlines()[-1] == "  and 22 more"


def test_too_large_jobs_are_dropped_and_counted(tmp_path: Path) -> None:
    work = made(tmp_path, with_giants(), drop_too_large=True)
    kept = [name for name in tiny.jobs()["job_id"] if name not in ("j1", "j4")]
    assert work.table["job_id"].tolist() == kept
    assert "jobs larger than the cluster dropped: 2" in work.table.attrs["notes"]
    assert len(work.results(run(FIFO, work.episode()))) == len(kept)


def test_the_load_is_that_of_the_remaining_jobs(tmp_path: Path) -> None:
    work = made(tmp_path, with_giants(), drop_too_large=True, target_load=1.0)
    assert load_of(work) == pytest.approx(1.0, rel=1e-6)
    assert "jobs larger than the cluster dropped: 2" in work.table.attrs["notes"]


def test_nothing_to_keep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="none of the 32 jobs can ever run on 2x8"):
        made(tmp_path, tiny.jobs().assign(num_gpus=17), drop_too_large=True)


def test_without_memory_only_gpus_count(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"(?s)^1 job can never run.*job j1: [^\n]*$"):
        made(tmp_path, with_giants(), physics="preemption")


def test_a_gang_larger_than_a_node_fits_in_nodes_and_in_a_pool(tmp_path: Path) -> None:
    """A gang of nine GPUs fits a pool of eighteen, and nine nodes of two as well."""
    table = tiny.jobs(1).assign(num_gpus=9, cpu_cores=9)
    for placement in ("best_fit", "pooled"):
        work = made(tmp_path, table, cluster="9x2", placement=placement)
        assert run(FIFO, work.episode()).done


def test_a_log_without_gpus_is_refused_with_the_remedy(tmp_path: Path) -> None:
    table = tiny.jobs().assign(kind="cpu", num_gpus=0)
    with pytest.raises(ValueError, match=r"none of the 32 jobs has GPUs: .*AccountingStorageTRES"):
        made(tmp_path, table)


def test_cpu_jobs_are_taken_out_unless_they_are_simulated(tmp_path: Path) -> None:
    table = tiny.jobs().assign(kind=["cpu"] * 3 + ["gpu"] * 29)
    table.loc[:2, "num_gpus"] = 0
    work = made(tmp_path, table)
    assert len(work.jobs) == 29
    assert work.jobs["num_gpus"].all()
    assert "CPU jobs of the log left out, since cpu_jobs is off: 3" in work.table.attrs["notes"]
    assert len(made(tmp_path, table, physics="memory,cpu_jobs").jobs) == 32


# Physics.


@pytest.mark.parametrize("physics", ["none", "all", *PARTS, "memory,estimates", "estimates, profiles"])
def test_parts_are_switched_off_each_by_itself(physics: str, tmp_path: Path) -> None:
    table = tiny.jobs()
    work = made(tmp_path, table, physics=physics)
    on = {part: physics == "all" or part in physics for part in PARTS}
    estimates = table["profiled_duration_s" if on["estimates"] else "duration_s"]
    assert work.jobs["profiled_duration_s"].tolist() == estimates.tolist()
    exact = work.jobs["profiled_memory_gib"] == table["gpu_memory_gib"] * on["memory"]
    assert bool(exact.all()) != (on["profiles"] and on["memory"])
    assert work.jobs["pause_s"].tolist() == (table["pause_s"] * on["preemption"]).tolist()
    assert work.jobs["load_s"].tolist() == (table["load_s"] * on["preemption"]).tolist()
    assert work.jobs["startup_s"].tolist() == (table["startup_s"] * on["startup"]).tolist()
    exact = work.jobs["profiled_active_ms"] == work.jobs["active_ms"]
    assert bool(exact.all()) != on["profiles"]
    assert bool(work.episode().state.exact) != on["estimates"]


def test_start_ups_are_taken_out_of_a_logs_run_times(tmp_path: Path) -> None:
    """Estimates are reduced too, by at most half; a table with start-ups is unchanged."""
    table = tiny.jobs().drop(columns="startup_s")
    off, on = (made(tmp_path, table, physics=physics).table for physics in ("estimates", "estimates,startup"))
    assert on["startup_s"].tolist() == np.minimum(off["startup_s"], table["profiled_duration_s"] / 2).tolist()
    assert (on["startup_s"] > 0).any()
    for name in ("duration_s", "profiled_duration_s"):
        assert off[name].tolist() == table[name].tolist()
        rest = np.maximum(table[name] - on["startup_s"], table[name] / 2)
        assert on[name].tolist() == rest.tolist()
    assert on.attrs["origin"]["startup_s"].startswith("filled")
    with_startup = made(tmp_path, tiny.jobs(), physics="estimates,startup").table
    assert with_startup["duration_s"].tolist() == table["duration_s"].tolist()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"physics": "memory,preemtion"},
            "physics 'memory,preemtion': expected .*; did you mean 'preemption'",
        ),
        ({"placement": "bestfit"}, "placement 'bestfit': expected .*; did you mean 'best_fit'"),
        ({"discipline": "fifo"}, "discipline 'fifo': expected greedy, strict, easy"),
        ({"cluster": "huge"}, "cluster 'huge' is unknown: expected NxG"),
        ({"trace": "phily"}, "unknown trace 'phily': expected one of .*; did you mean 'philly'"),
    ],
)
def test_an_error_for_an_unknown_name_lists_the_known_ones(
    fields: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=words):
        made(tmp_path, **fields)
