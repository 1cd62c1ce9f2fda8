"""Public simulators receive the jobs that ours simulates, and a job that ends at another second is reported."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import public_simulators
from benchmarks.public_simulators import (
    FOLDERS,
    ROWS,
    LasByCounts,
    Row,
    SrtfByCounts,
    for_them,
    in_whole_units,
    main,
    our_ends,
    their_ends,
    workload,
)
from gpu_cluster_gym.simulator.cluster import uniform
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB
from tests.policies.test_baselines import finishes, jobs, named

HELIOS, COSTLY, TIRESIAS = ROWS[0], ROWS[5], ROWS[6]
STAND_INS = {
    "Helios/cluster.py": """
class VC:
    def __init__(self, name, nodes, gpus, cpus):
        assert (name, nodes, gpus) == ("all", 8, 8)
""",
    "Helios/job.py": """
class Job(dict):
    def __init__(self, series):
        self.update(series.to_dict())
class Trace:
    def __init__(self):
        self.job_list = []
    def append_job(self, job):
        self.job_list.append(job)
""",
    "Helios/policies.py": """
class Alone:
    def __init__(self, trace, vc, placement, log_dir, logger, start):
        assert start == 0
        self.trace = trace
    def ckpt_overhead(self, job):
        return 7
    def simulate(self):
        for job in self.trace.job_list:
            job["end_time"] = job["submit_time"] + job["remain"] + self.ckpt_overhead(job)
FirstInFirstOut = ShortestJobFirst = ShortestRemainingTimeFirst = Alone
""",
    "Tiresias/run_sim.py": """
import csv, os, sys
def main():
    given = dict(word.lstrip("-").split("=") for word in sys.argv[1:])
    assert given["scheme"] == "count" and given["num_node_p_switch"] == given["num_gpu_p_node"] == "8"
    os.mkdir(given["log_path"])
    with open(given["trace_file"]) as jobs, open(given["log_path"] + "/job.csv", "w") as ends:
        print("time,job_id,end_time", file=ends)
        for job in reversed(list(csv.DictReader(jobs))):
            end = min(int(job["submit_time"]) + int(job["duration"]), sys.maxint)
            print(end, job["job_id"], end, sep=",", file=ends)
""",
}
"""Of each clone what the drivers call, in which no job waits; in that of Helios each pays for a pause."""


@pytest.fixture
def clones(tmp_path: Path) -> dict[str, Path]:
    """Return the folders of both stand-ins."""
    for name, text in STAND_INS.items():
        simulator, _, file = name.partition("/")
        folder = tmp_path / simulator / FOLDERS[simulator]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")
    return {name: tmp_path / name for name in FOLDERS}


def command(clones: dict[str, Path], *more: str) -> int:
    return main(["--helios", str(clones["Helios"]), "--tiresias", str(clones["Tiresias"]), *more])


def some(*each: tuple[float, int, float]) -> np.ndarray:
    array = np.zeros(len(each), JOB)
    for name, column in zip(("submit_s", "num_gpus", "duration_s"), zip(*each, strict=True), strict=True):
        array[name] = column
    return array


@pytest.mark.parametrize(("row", "later"), [(HELIOS, 0), (COSTLY, 7), (TIRESIAS, 0)])
def test_a_clone_reads_the_jobs_and_its_ends_are_read(clones: dict[str, Path], row: Row, later: int) -> None:
    """Submission + run time by job, in any order; pauses are costly in that row only."""
    ends = their_ends(clones[row.simulator], row, for_them(some((0, 1, 100), (5, 16, 40), (5, 8, 41))))
    assert ends.tolist() == [100 + later, 45 + later, 46 + later]


def test_jobs_have_distinct_whole_seconds_and_whole_nodes() -> None:
    columns = {"submit_s": [7.5, 8.4, 9.6], "num_gpus": [8, 9, 3], "duration_s": [4.2, 3.0, 4.9]}
    made = in_whole_units(pd.DataFrame(columns))
    assert made["submit_s"].tolist() == [0, 0, 2]
    assert made["num_gpus"].tolist() == [8, 16, 3]
    assert made["duration_s"].tolist() == made["profiled_duration_s"].tolist() == [5, 3, 6]


def test_jobs_of_the_comparison_queue_and_some_take_several_nodes() -> None:
    load = workload(100, 0)
    table = for_them(load.jobs)
    assert table["duration"].is_unique
    assert table["duration"].max() < 4 * 3600 + 100
    assert (table["num_gpu"] > 8).any()
    assert ((table["num_gpu"] <= 8) | (table["num_gpu"] % 8 == 0)).all()
    alone = (table["submit_time"] + table["duration"]).to_numpy()
    assert (our_ends(load, HELIOS) > alone).mean() > 0.2


@pytest.mark.parametrize(("late", "code"), [("", 0), ("its las", 1), ("las", 0)])
def test_a_job_that_ends_a_second_late_fails_a_row_that_must_agree(
    clones: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    late: str,
    code: int,
) -> None:
    load = workload(30, 1)

    def ends(folder: Path, row: Row, jobs: pd.DataFrame) -> np.ndarray:
        theirs = our_ends(load, row)
        theirs[3] += row.name == late
        return theirs

    monkeypatch.setattr(public_simulators, "their_ends", ends)
    assert command(clones, "--jobs", "30", "--seed", "1") == code
    printed = capsys.readouterr().out
    assert printed.count("DIFFERS") == code
    assert printed.count("known") == sum(bool(row.unlike) for row in ROWS)
    assert max(map(len, printed.splitlines()[: len(ROWS) + 2])) <= 120


def test_without_a_clone_nothing_is_run(clones: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert command(clones | {"Helios": clones["Tiresias"]}) == 2
    assert "there is no framework/QSSF Service" in capsys.readouterr().err


def test_a_job_selected_by_counting_may_not_fit() -> None:
    """A and B leave two GPUs on each of two nodes. C, on three, is to run beside them, and waits for B to end at 30.

    Ours looks at nodes: of B, C and A, in this order, C is put on A's node, and A is paused from 1 to 30.
    """
    work = jobs((0, 2, 100), (0, 2, 30), (1, 3, 50))
    assert finishes(SrtfByCounts(), work, uniform(2, 4), "spread") == [100, 30, 80]
    assert finishes(named("srtf"), work, uniform(2, 4), "spread") == [129, 30, 51]


def test_running_jobs_precede_waiting_ones_in_a_queue() -> None:
    """A 0-1000 and C 2-1002 on a GPU each; B, between them, needs both, and is let in at 1000 only by las."""
    work = jobs((0, 1, 1000), (1, 2, 100), (2, 1, 1000))
    assert finishes(LasByCounts(), work, uniform(1, 2)) == [1000, 1102, 1002]
    assert finishes(named("las"), work, uniform(1, 2)) == [1000, 1100, 1102]


def test_a_job_on_two_gpus_leaves_its_queue_late() -> None:
    """At 100, when B comes, A has run 100 s: it is looked at again after (3250 - 100) / 2 s, not at 1625."""
    work = jobs((0, 2, 5000), (100, 2, 10))
    assert finishes(LasByCounts(), work, uniform(1, 2)) == [5010, 1685]
    assert finishes(named("las"), work, uniform(1, 2)) == [5010, 1635]


@pytest.mark.slow(reason="both public simulators take ten seconds, and stand-ins are run above")
def test_public_simulators_agree_with_ours(shared_data: Path) -> None:
    places = {name: shared_data / "simulators" / name.lower() for name in FOLDERS}
    if not all((places[name] / inside).is_dir() for name, inside in FOLDERS.items()):
        pytest.skip("no clones of Helios and Tiresias beside the checkout")
    assert command(places) == 0
