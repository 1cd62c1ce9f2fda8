"""`python -m benchmarks.speed` measures against yardsticks that do the same work, and reports the ratios."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks import cost, speed, timing, yardsticks
from benchmarks.speed_rows import one_gpu_jobs, ranking
from benchmarks.timing import Comparison, Measured, Row, Work, measure
from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.simulator.episode import Episode, run

Textbook = Callable[[Sequence[yardsticks.Job], int], list[float]]


@pytest.mark.parametrize(
    ("policy", "textbook"), [("fifo", yardsticks.fifo), ("sjf", yardsticks.sjf), ("srtf", yardsticks.srtf)]
)
@pytest.mark.parametrize("seed", range(3))
def test_textbook_simulations_equal_the_kernel(policy: str, textbook: Textbook, seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = one_gpu_jobs(1, 300, 8)
    jobs["num_gpus"] = rng.choice([1, 2, 4, 8], 300)
    jobs["duration_s"] = jobs["profiled_duration_s"] = rng.permutation(300) + 10.0
    jobs["submit_s"] = np.sort(rng.integers(0, 9_000, 300))
    episode = run(ranking(policy), Episode(jobs, cluster("2x8"), placement="pooled", exact=True))
    rows = jobs[["submit_s", "num_gpus", "duration_s"]].tolist()
    assert textbook(rows, 16) == pytest.approx(episode.state.finish_s[:300].tolist(), abs=1e-6)


def counting(count: int) -> Work:
    return Work(lambda _: sum(range(count)))


def counting_row(work: int, other: int, unit: timing.Unit, target: float) -> Row:
    """Return a row in which our work counts to `work` and the yardstick to `other`."""

    def make(quick: bool) -> Comparison:
        return Comparison(counting(work), counting(other), "less")

    return Row("counting", unit, target, False, make)


@pytest.mark.parametrize(("target", "met"), [(50.0, True), (2.0, False)])
def test_a_ratio_is_compared_with_its_target(target: float, met: bool) -> None:
    found = measure(counting_row(2_000_000, 200_000, "x", target))
    assert found.met is met
    assert found.figure is not None
    assert found.faster == pytest.approx(1 / found.figure)
    assert 4 < found.figure < 25


def test_comparisons_are_scaled_by_the_speed_of_the_machine() -> None:
    old = {
        "machine": {"loop_s": 1.0},
        "rows": [
            {"name": "time", "unit": "s", "figure": 3.0},
            {"name": "rate", "unit": "/s", "figure": 10.0},
            {"name": "ratio", "unit": "x", "figure": 2.0},
        ],
    }
    now = [Measured("time", "", "s", 6.0), Measured("rate", "", "/s", 5.0), Measured("ratio", "", "x", 3.0)]
    assert speed.compared(now, 2.0, old) == {"time": 1.0, "rate": 1.0, "ratio": 1.5}


@pytest.mark.slow  # two minutes: a small case of every row
def test_every_row_can_be_measured(tmp_path: Path) -> None:
    assert speed.main(["--quick", "--json", str(tmp_path / "all.json")]) == 0
    rows = json.loads((tmp_path / "all.json").read_text())["rows"]
    assert [row["name"] for row in rows if row["figure"] is None and not row["skipped"]] == []


def test_the_cost_of_a_job_is_measured_in_processes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cost, "ROWS", [(1, "srtf"), (1, "union")])
    assert cost.main([]) == 0
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in capsys.readouterr().out.splitlines()
    ]
    assert head == ["GPUs", "policy", "jobs", "CPU time per job", "memory"]
    assert [row[:3] for row in rows] == [["8", "`srtf`", "80"], ["8", "`union`", "80"]]
    for row in rows:
        assert 0 < float(row[3].removesuffix(" ms")) < 100
        assert 50 < float(row[4].removesuffix(" MB").replace(",", "")) < 5_000
