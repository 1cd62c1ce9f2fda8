"""Mean waits by the number of nodes are those computed by hand."""

from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_gym import evaluate
from gpu_cluster_gym.evaluation import what_if
from gpu_cluster_gym.evaluation.what_if import Size
from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.workloads import Scenario


def four(folder: Path) -> str:
    """Return the path of a log of four jobs of 100 s on a GPU, submitted at once, and one much later."""
    file = folder / "jobs.csv"
    rows = [f"j{number},0,1,100" for number in range(4)]
    file.write_text("\n".join(["job_id,submit_s,num_gpus,duration_s", *rows, "late,99000,1,100", ""]))
    return str(file)


def test_the_knee_is_farthest_below_the_line() -> None:
    """The line from 100 to 0 over four nodes is at 50 in the middle; waits of 40, 20, 10 are 35, 30, 15 below it."""
    found = [
        Size(nodes, nodes, wait, wait, wait) for nodes, wait in enumerate((100.0, 40.0, 20.0, 10.0, 0.0), 1)
    ]
    assert what_if.knee(found) == found[1]
    assert what_if.knee(found[1:]) == found[2], (
        "beyond the first size, 20 and 10 are 20 / 3 and 10 / 3 below the line"
    )
    assert what_if.knee(found[:2]) is None
    assert what_if.knee([each._replace(mean_s=1.0) for each in found]) is None


def test_a_long_range_is_spread_over_twelve_sizes() -> None:
    """The cluster's own size is one of them: inside the range, the nearest size gives way to it."""
    tens = [*range(10, 121, 10)]
    for own in (1, 10, 70, 120, 121):
        assert what_if.nodes_of("nodes=10..120", f"{own}x1") == tens
    assert what_if.nodes_of("nodes=10..120", "74x1") == [*tens[:6], 74, *tens[7:]]
    assert what_if.nodes_of("nodes=10..120", "11x1") == [10, 11, *tens[2:]]
    assert what_if.nodes_of("nodes=2..4", "3x1") == [2, 3, 4]
    assert what_if.nodes_of("nodes=2..3", "9x1") == [2, 3]


def test_the_help_names_the_largest_number_of_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        evaluate.main(["--help"])
    assert f"at most {what_if.MAX_SIZES} sizes" in " ".join(capsys.readouterr().out.split())


def test_sizes_that_are_left_out_are_counted(tmp_path: Path) -> None:
    scenario = Scenario(trace_file=four(tmp_path), cluster="8x1", full_trace=True)
    note = what_if.notes(scenario, what_if.nodes_of("nodes=4..40", "8x1"))[-1]
    assert note == "Note: of the 37 sizes from 4 to 40 nodes, 12 are simulated."
    every = what_if.notes(scenario, what_if.nodes_of("nodes=4..15", "8x1"))
    assert not any("sizes" in each for each in every)


@pytest.mark.parametrize("flags", [{}, {"quotas": "proportional"}, {"shift": "load=2"}])
def test_jobs_too_wide_for_the_smallest_size_are_dropped_at_all(
    tmp_path: Path, flags: dict[str, Any]
) -> None:
    """Of jobs of 1, 2 and 3 GPUs, two nodes hold the first two, a quota of a GPU the first only.

    Tenants a and b hold half of the GPU time each, before b's jobs, the widest, are dropped.
    """
    file = tmp_path / "jobs.csv"
    rows = [f"j{number},{number},{1 + number % 3},100,{'aab'[number % 3]}" for number in range(9)]
    file.write_text("\n".join(["job_id,submit_s,num_gpus,duration_s,tenant", *rows, ""]))
    scenario = Scenario(trace_file=str(file), cluster="3x1", full_trace=True, drop_too_large=True, **flags)
    for work in what_if.on_sizes(scenario, [2, 3, 4]):
        assert {*work.table["num_gpus"]} == ({1} if "quotas" in flags else {1, 2})
        assert work.table["submit_s"].iloc[-1] == (3.5 if "shift" in flags else 6 if "quotas" in flags else 7)
        assert work.scenario.shift == scenario.shift
        if "quotas" not in flags:
            assert work.table.attrs.get(what_if.FEWER, 0) == (3 if work.cluster.num_nodes > 2 else 0)
    assert work.tenants.quotas == ((2, 2) if "quotas" in flags else ())
    note = "Note: jobs larger than the cluster dropped: 3 (on 2 nodes, and the same jobs on more)."
    assert note in what_if.notes(scenario, [2, 3, 4])


def printed(capsys: pytest.CaptureFixture[str], file: str, nodes: str, *flags: str) -> list[str]:
    """Return the lines that the command prints for fifo on these nodes of a GPU."""
    args = ["--policy", "fifo", "--what-if", f"nodes={nodes}", "--trace-file", file, "--full-trace", *flags]
    assert evaluate.main(args) == 0
    return capsys.readouterr().out.splitlines()


def test_the_command_prints_a_line_for_each_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a node the waits are 0, 100, 200, 300 and 0 s, on two 0, 0, 100, 100 and 0, on three 0, 0, 0, 100 and 0."""
    lines = printed(capsys, four(tmp_path), "1..3", "--cluster", "2x1")
    at = lines.index("fifo, mean wait in s by the number of nodes")
    head, *sizes, over, log, last = (line.split() for line in lines[at + 1 :])
    assert head == ["nodes", "GPUs", "mean", "wait"]
    assert sizes == [["1", "1", "120"], ["2", "2", "40"], ["3", "3", "20"]]
    assert " ".join(over[:6]) == "No intervals: 5 jobs in 2"
    assert " ".join(log).startswith("No comparison with the log: the log has no starts")
    assert last[:3] == ["Knee:", "2", "nodes,"]


def test_intervals_and_the_log_are_beside_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two jobs of 100 s come at once, every 200 s for 10,000 s: one of them waits on a node, none on two.

    Every block of 1,000 s has five pairs, but for the last, which also has that of its end: all means are equal. In the
    log each job waits for 60 s.
    """
    file = tmp_path / "jobs.csv"
    rows = [f"j{number},{number // 2 * 200},1,100,{number // 2 * 200 + 60}" for number in range(102)]
    file.write_text("\n".join(["job_id,submit_s,num_gpus,duration_s,logged_start_s", *rows, ""]))
    lines = printed(capsys, str(file), "1..2", "--cluster", "2x1")
    assert lines[0].startswith("Note: not simulated, ")
    at = lines.index("fifo, mean wait in s by the number of nodes, with its 95 % interval")
    assert [line.split() for line in lines[at + 1 : at + 4]] == [
        ["nodes", "GPUs", "mean", "wait", "from", "to"],
        ["1", "1", "50", "50", "50"],
        ["2", "2", "0", "0", "0"],
    ]
    assert lines[at + 4].startswith("Intervals: over 10 blocks of 16.7 min of submissions; ")
    assert lines[at + 5].startswith("Mean wait on 2 nodes: 60 s in the log, 0 s under fifo. ")
    outside = printed(capsys, str(file), "1..2", "--cluster", "3x1")[at + 5]
    assert outside == "No comparison with the log: the range lacks the 3 nodes of --cluster."


@pytest.mark.parametrize(
    ("name", "text", "shape"),
    [
        ("4x8-pcie-ib", "", "x8-pcie-ib"),
        ("1x8-40c+3x8-40c", "", "x8-40c"),
        ("nodes.csv", "gpus,gpu_memory_gib,cores,gpu_type\n4,24.5,32,t4\n4,24.5,32,t4\n", "x4-t4-24.5gb-32c"),
        ("8x8.json", '{"nodes": [{"name": "a", "gres": "gpu:8", "cpus": 64}]}', "x8-v100-16.0gb-64c"),
    ],
)
def test_nodes_of_one_kind_have_a_shape(name: str, text: str, shape: str, tmp_path: Path) -> None:
    """A cluster of the shape has the same nodes; of a file, the name does not count."""
    if text:
        (tmp_path / name).write_text(text)
        name = str(tmp_path / name)
    assert what_if.shape_of_nodes(name) == shape
    same, own = cluster(f"2{shape}"), cluster(name)
    for field in ("types", "node_gpus", "node_cores", "node_gpu_memory_gib"):
        assert {*getattr(same, field)} == {*getattr(own, field)}


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (("--what-if", "nodes=8"), "a range of nodes like nodes=8..24"),
        (("--what-if", "nodes=9..8"), "a range of nodes like nodes=8..24"),
        (("--what-if", "nodes=1..2"), "requires --policy and --full-trace"),
        (
            ("--what-if", "nodes=1..2", "--full-trace", "--cluster", "philly"),
            "2 kinds of nodes: pass --cluster NxG",
        ),
        (("--what-if", "nodes=1..2", "--full-trace", "--out", "here"), "only prints a table: drop --out"),
        (("--what-if", "nodes=1..2", "--full-trace", "--report"), "only prints a table: drop --out"),
    ],
)
def test_a_wrong_range_is_one_sentence(
    flags: tuple[str, ...], word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate.main(["--policy", "fifo", "--trace-file", four(tmp_path), *flags]) == 2
    out, said = capsys.readouterr()
    (line,) = said.splitlines()
    assert word in line
    assert out == ""
