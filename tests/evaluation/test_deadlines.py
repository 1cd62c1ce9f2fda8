"""Deadlines: a column, a baseline, two metrics and a flag, each declared once."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import baselines, traces
from gpu_cluster_gym.evaluate import main
from gpu_cluster_gym.evaluation.metrics import summarise
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace
from tests.cases import tiny
from tests.cases.some_jobs import some_jobs


def three_jobs(folder: Path, **columns: object) -> Workload:
    """Return three jobs of one GPU each, submitted at once: 100, 200 and 300 s."""
    jobs = {"job_id": list("abc"), "submit_s": 0.0, "num_gpus": 1, "duration_s": [100.0, 200.0, 300.0]}
    return full_trace(
        Scenario(**tiny.scenario(folder, pd.DataFrame(jobs | columns), cluster="1x1", physics="none"))
    )


def ends(policy: str, load: Workload) -> list[float]:
    made: Policy = baselines.make(baselines.load(policy))
    found: list[float] = load.results(run(made, load.episode()))["finish_s"].tolist()
    return found


def test_the_earliest_deadline_starts_first(tmp_path: Path) -> None:
    """C is due at 350, B at 900; A has no deadline: C 0-300, B 300-500, A 500-600."""
    assert ends("edf", three_jobs(tmp_path, deadline_s=[0.0, 900.0, 350.0])) == [600, 500, 300]


def test_without_deadlines_it_is_first_in_first_out(tmp_path: Path) -> None:
    load = three_jobs(tmp_path)
    assert ends("edf", load) == ends("fifo", load) == [100, 300, 600]


def test_missed_deadlines_and_tardiness_are_counted(tmp_path: Path) -> None:
    """Under FIFO A ends at 100, B at 300, C at 600; due at 150, 250 and never."""
    load = three_jobs(tmp_path, deadline_s=[150.0, 250.0, 0.0])
    results = load.results(run(baselines.make(baselines.load("fifo")), load.episode()))
    assert results["deadline_s"].tolist() == [150, 250, 0]
    numbers = summarise(results, gpus=1)
    assert numbers["deadline_miss_share"].tolist() == [0.5]
    assert numbers["mean_tardiness_s"].tolist() == [25.0]


def test_without_deadlines_both_metrics_are_missing(tmp_path: Path) -> None:
    load = three_jobs(tmp_path)
    results = load.results(run(baselines.make(baselines.load("fifo")), load.episode()))
    assert not {"deadline_miss_share", "mean_tardiness_s"} & set(summarise(results, gpus=1))


@pytest.mark.parametrize("slack", [0.25, 2.0])
def test_deadlines_are_drawn_from_profiled_run_times(slack: float) -> None:
    jobs = some_jobs(2000)
    made = traces.fill(jobs, seed=3, largest_gpu_gib=16.0, deadline_slack=slack)
    given = ((made["deadline_s"] - made["submit_s"]) / made["profiled_duration_s"]).to_numpy() - 1
    assert given.min() >= 0
    assert given.max() <= 2 * slack
    assert given.mean() == pytest.approx(slack, rel=0.05)
    longer = jobs.assign(duration_s=3 * jobs["duration_s"], profiled_duration_s=made["profiled_duration_s"])
    same = traces.fill(longer, seed=3, largest_gpu_gib=16.0, deadline_slack=slack)
    assert np.array_equal(same["deadline_s"], made["deadline_s"])


def test_without_slack_none_are_drawn_and_those_of_a_trace_are_kept() -> None:
    jobs = some_jobs(20)
    assert (traces.fill(jobs, seed=3, largest_gpu_gib=16.0)["deadline_s"] == 0).all()
    own = jobs.assign(deadline_s=np.arange(20.0))
    made = traces.fill(own, seed=3, largest_gpu_gib=16.0, deadline_slack=1.0)
    assert made["deadline_s"].tolist() == own["deadline_s"].tolist()


def test_the_command_shows_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ("--windows", "2", "--jobs", "60", "--cluster", "2x8", "--all-windows", "--drop-too-large")
    arguments = ("--policy", "edf", "fifo", "--deadline-slack", "1", *small, "--out", str(tmp_path / "run"))
    assert main(list(arguments)) == 0
    out = capsys.readouterr().out
    assert "deadl." in out
    assert "tardin." not in out, "the other column is in the wide table"
    notes = (tmp_path / "run" / "notes.txt").read_text(encoding="utf-8")
    assert "scaling_loss, cpu_slowdown, deadline_s." in notes
    assert pd.read_csv(tmp_path / "run" / "edf" / "jobs.csv")["deadline_s"].gt(0).all()
