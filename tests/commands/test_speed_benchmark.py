"""`benchmarks/speed.py` measures against yardsticks that do the same work, and reports the ratios."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks import speed, timing, yardsticks
from benchmarks.speed_rows import one_gpu_jobs, ranking
from benchmarks.timing import Contest, Measured, Row, Setting, SkippedError, Work, measure
from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.simulator.episode import Episode, run

ROOT = Path(__file__).resolve().parent.parent.parent
Textbook = Callable[[Sequence[yardsticks.Job], int], list[float]]


@pytest.mark.parametrize(
    ("policy", "textbook"), [("fifo", yardsticks.fifo), ("sjf", yardsticks.sjf), ("srtf", yardsticks.srtf)]
)
@pytest.mark.parametrize("seed", range(3))
def test_a_textbook_does_the_kernels_work(policy: str, textbook: Textbook, seed: int) -> None:
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


def slowed(work: int, other: int, unit: timing.Unit, bar: float) -> Row:
    """Return a row of which our work is to count so far, and the yardstick's so far."""

    def make(setting: Setting) -> Contest:
        return Contest(counting(work), counting(other), "less")

    return Row("counting", unit, bar, False, make)


@pytest.mark.parametrize(("bar", "met"), [(50.0, True), (2.0, False)])
def test_a_ratio_is_held_against_its_bar(bar: float, met: bool) -> None:
    found = measure(slowed(2_000_000, 200_000, "x", bar), Setting())
    assert found.met is met
    assert found.figure is not None
    assert found.faster == pytest.approx(1 / found.figure)
    assert 4 < found.figure < 25


def test_a_rate_is_to_be_at_least_its_bar() -> None:
    assert measure(slowed(2_000_000, 1, "/s", 1e9), Setting()).met is False
    assert measure(slowed(2_000_000, 1, "/s", 1e-9), Setting()).met is True


def test_a_row_that_cannot_be_measured_says_why() -> None:
    def make(setting: Setting) -> Contest:
        raise SkippedError("no such thing exists yet")

    found = measure(Row("nothing", "s", 1.0, False, make), Setting())
    assert (found.figure, found.met, found.skipped) == (None, None, "no such thing exists yet")


def test_a_comparison_takes_the_speed_of_the_machine_out() -> None:
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


def test_it_writes_the_figures_that_it_prints(tmp_path: Path) -> None:
    line = [
        sys.executable,
        "-m",
        "benchmarks.speed",
        "--quick",
        "--rows",
        "fifo_po,batch_plain",
        "--json",
        str(tmp_path / "new"),
    ]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    written = json.loads((tmp_path / "new").read_text())
    rows = {row["name"]: row for row in written["rows"]}
    assert rows["fifo_pool"]["faster"] > 1
    assert list(rows) == ["fifo_pool", "batch_plain", "batch_plain_by_agent"]
    assert all(name in done.stdout for name in rows)
    assert written["machine"]["loop_s"] > 0


@pytest.mark.slow  # two minutes: a small case of every row
def test_every_row_can_be_measured(tmp_path: Path) -> None:
    assert speed.main(["--quick", "--json", str(tmp_path / "all.json")]) == 0
    rows = json.loads((tmp_path / "all.json").read_text())["rows"]
    assert [row["name"] for row in rows if row["figure"] is None and not row["skipped"]] == []
