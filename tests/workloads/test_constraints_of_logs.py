"""A log's GPU types, partitions, dependencies and priorities bind its jobs where the scenario names them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluate import main
from gpu_cluster_gym.evaluation.table_notes import trace_notes
from gpu_cluster_gym.simulator.choice import ChoiceError
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Ranking, Start, Wait
from gpu_cluster_gym.traces import check
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace, make_scenario, windows

EXTRA = """job_id,submit_s,num_gpus,duration_s,gpu_type,priority,time_limit_s,depends_on,partition
a,0,4,600,A100,0,300,,big
b,5,1,60,T4,9,3600,a,small
"""
TWO_TYPES = "1x4-a100+1x4-t4"
FIFO = Ranking("submit")


def made(folder: Path, text: str = EXTRA, **fields: Any) -> Workload:
    (folder / "jobs.csv").write_text(text)
    usual: dict[str, Any] = {"cluster": TWO_TYPES, "physics": "none", "full_trace": True}
    return full_trace(make_scenario(fields={"trace_file": str(folder / "jobs.csv")} | usual | fields))


def times(work: Workload, policy: Ranking = FIFO) -> dict[str, tuple[float, float]]:
    """Return the start and the end of each job."""
    found = work.results(run(policy, work.episode()))
    return {row.job_id: (row.start_s, row.finish_s) for row in found.itertuples()}  # type: ignore[misc]


def test_a_runs_to_its_limit_and_b_waits_for_it(tmp_path: Path) -> None:
    """A has all A100s from 0 to 300, its time limit; B, of 60 s, waits for A, and runs on a T4."""
    work = made(tmp_path, constraints="gpu_type,depends_on")
    assert times(work) == {"a": (0, 300), "b": (300, 360)}
    episode = work.episode()
    where: dict[int, list[int]] = {}
    while not episode.done and episode.advance():
        while isinstance(action := FIFO(episode.view), Start):
            episode.apply(action)
            where[action.job] = episode.view.gpus.node[episode.view.gpus_of(action.job)].tolist()
        episode.apply(action)
    assert where == {0: [0] * 4, 1: [1]}


@pytest.mark.parametrize(
    ("constraints", "cluster", "partitions", "expected"),
    [
        (None, TWO_TYPES, None, {"a": (0, 300), "b": (5, 65)}),
        ("gpu_type", TWO_TYPES, None, {"a": (0, 300), "b": (5, 65)}),
        ("gpu_type", "1x4-t4+1x4-a100", None, {"a": (0, 300), "b": (5, 65)}),
        ("depends_on", TWO_TYPES, None, {"a": (0, 300), "b": (300, 360)}),
        ("partition", "2x4", "big=0,small=1", {"a": (0, 300), "b": (5, 65)}),
        ("partition", "2x4", "big=1,small=0-1", {"a": (0, 300), "b": (5, 65)}),
        ("partition", "1x4+1x2", "BIG=0,small=0", {"a": (0, 300), "b": (300, 360)}),
        ("all", TWO_TYPES, "big=0,small=1", {"a": (0, 300), "b": (300, 360)}),
    ],
)
def test_constraints_are_named_one_by_one(
    constraints: str | None,
    cluster: str,
    partitions: str | None,
    expected: dict[str, tuple[float, float]],
    tmp_path: Path,
) -> None:
    work = made(tmp_path, constraints=constraints, cluster=cluster, partitions=partitions)
    assert times(work) == expected


ON_CPU = """job_id,submit_s,num_gpus,duration_s,cpu_cores,partition,kind
a,0,4,600,16,one,gpu
b,10,0,60,8,one,cpu
"""


def test_a_cpu_job_runs_in_its_partition_though_another_has_more_cores(tmp_path: Path) -> None:
    fields = {"cluster": "2x4", "physics": "cores,cpu_jobs", "constraints": "partition"}
    work = made(tmp_path, ON_CPU, partitions="one=0,two=1", **fields)
    policy, episode = baselines.make(baselines.load("union")), work.episode()
    nodes = []
    while not episode.done and episode.advance():
        while not isinstance(action := policy(episode.view), Wait):
            episode.apply(action)
            if isinstance(action, Start) and action.job == 1:
                nodes.append((episode.view.now, int(episode.state.node_of[1])))
        episode.apply(action)
    assert nodes == [(10.0, 0)]


def test_several_types_are_joined(tmp_path: Path) -> None:
    """B may use either type, C a P100 or a T4, D anything: B takes the place of the lower number."""
    text = "job_id,submit_s,num_gpus,duration_s,gpu_type\nb,0,4,10,t4+A100\nc,1,4,10,P100|T4\nd,2,4,10,\n"
    assert times(made(tmp_path, text, constraints="gpu_type")) == {"b": (0, 10), "c": (1, 11), "d": (10, 20)}


def test_nodes_that_no_job_distinguishes_are_of_one_kind(tmp_path: Path) -> None:
    """Of eighteen partitions of a node each the jobs name two: three kinds of nodes, of the limit of 16."""
    text = (
        "job_id,submit_s,num_gpus,duration_s,partition\n"
        "a,0,1,10,p3\nb,0,1,10,p3\nc,0,2,10,p5+p3\nd,0,8,10,p5\ne,0,1,10,\n"
    )
    partitions = ",".join(f"p{node}={node}" for node in range(18))
    work = made(
        tmp_path, text, cluster="18x2", constraints="partition", partitions=partitions, drop_too_large=True
    )
    found = work.constraints
    assert found.may_use.shape == (4, 3), "D is too wide for its node"
    allowed = [np.flatnonzero(row[found.node_kind]).tolist() for row in found.may_use]
    assert allowed == [[3], [3], [3, 5], list(range(18))]
    assert times(work) == {"a": (0, 10), "b": (0, 10), "c": (0, 10), "e": (0, 10)}
    every = "\n".join([text.splitlines()[0], *(f"j{node},0,1,10,p{node}" for node in range(17))])
    with pytest.raises(ValueError, match=r"18 kinds of nodes in one cluster.*expected at most 16"):
        made(tmp_path, every, cluster="18x2", constraints="partition", partitions=partitions)


@pytest.mark.parametrize("dropped", [False, True])
def test_a_partition_of_the_log_that_is_not_named_is_an_error(tmp_path: Path, *, dropped: bool) -> None:
    """Job c may also run in a partition that is named. If the others are dropped, c is left."""
    text = "job_id,submit_s,num_gpus,duration_s,partition\na,0,1,10,gpu\nb,0,1,10,gpu\n"
    fields = {"cluster": "2x4", "constraints": "partition", "partitions": "big=0", "drop_too_large": dropped}
    with pytest.raises(ValueError, match="--partitions names big, but 2 jobs are in gpu: name their nodes"):
        made(tmp_path, text, **fields)
    if dropped:
        assert len(made(tmp_path, f"{text}c,0,1,10,gpu+big\n", **fields).table) == 1


def test_several_dependencies_are_joined_by_plus_or_spaces(tmp_path: Path) -> None:
    """An id that has a plus itself is one id."""
    text = (
        "job_id,submit_s,num_gpus,duration_s,depends_on\n"
        "a,0,1,10,\na+b,0,1,20,none\nb,0,1,30,\nc,1,1,5,a+b\nd,1,1,5,a b\n"
    )
    found = times(made(tmp_path, text, constraints="depends_on"))
    assert (found["c"][0], found["d"][0]) == (20, 30)


def test_a_ranking_by_priority_starts_the_highest_first(tmp_path: Path) -> None:
    """One GPU: A runs, then D (9) before B and C (0, by submission) before E (-3)."""
    text = (
        "job_id,submit_s,num_gpus,duration_s,priority\n"
        "a,0,1,10,0\nb,1,1,10,0\nc,2,1,10,0\nd,3,1,10,9\ne,1.5,1,10,-3\n"
    )
    work = made(tmp_path, text, cluster="1x1", constraints="priority")
    order = sorted(times(work, Ranking("priority")).items(), key=lambda each: each[1])
    assert [name for name, _ in order] == ["a", "d", "b", "c", "e"]
    view = (episode := work.episode()).view
    episode.advance()
    assert view.jobs.priority.tolist() == [0.0]
    plain = made(tmp_path, text, cluster="1x1")
    assert not plain.jobs["priority"].any()
    assert times(plain, Ranking("priority")) == times(plain)


def test_a_higher_priority_preempts_if_the_ranking_does(tmp_path: Path) -> None:
    text = "job_id,submit_s,num_gpus,duration_s,priority\na,0,1,10,1\nb,2,1,5,2\n"
    work = made(tmp_path, text, cluster="1x1", constraints="priority")
    assert times(work, Ranking("priority", "by_order")) == {"a": (0, 15), "b": (2, 7)}


# Refusals.


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"constraints": "gpu_typ"},
            "constraints 'gpu_typ': expected all, or a comma-separated list of gpu_type",
        ),
        ({"constraints": "gpu_type,gpu_type"}, "each once"),
        ({"partitions": "a=0"}, "partitions 'a=0': expected constraints partition as well"),
        ({"constraints": "partition", "partitions": "a=3-1"}, "expected NAME=NODES"),
        ({"constraints": "partition", "partitions": "a"}, "expected NAME=NODES"),
        ({"constraints": "partition", "partitions": "a=0,a=1"}, "each name once"),
    ],
)
def test_a_wrong_choice_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ChoiceError, match=message):
        make_scenario(fields={"trace_file": "jobs.csv", "physics": "none"} | fields)


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        (
            EXTRA,
            {"constraints": "partition"},
            "expected the nodes of each partition as well, --partitions NAME=0-3",
        ),
        (
            EXTRA,
            {"constraints": "partition", "partitions": "big=0-2"},
            f"partitions big: {TWO_TYPES.replace('+', '.')} has no node 2, since its nodes are numbered 0 to 1",
        ),
        (
            EXTRA,
            {"constraints": "gpu_type", "placement": "pooled"},
            "placement pooled does not support jobs that",
        ),
        (EXTRA, {"constraints": "gpu_type", "cluster": "2x4-a100"}, "job b: .* only on T4"),
        (EXTRA, {"constraints": "gpu_type", "cluster": "2x2-a100+1x4-t4+1x1-a100"}, None),
        (EXTRA.replace(",gpu_type", ",qos"), {"constraints": "gpu_type"}, "the jobs have no column gpu_type"),
        (
            EXTRA.replace("3600,a,", "3600,x,"),
            {"constraints": "depends_on"},
            "job b depends on x, but no job of",
        ),
        (
            EXTRA.replace("300,,", "300,b,"),
            {"constraints": "depends_on"},
            r"in a circle \(a -> b -> a\): correct",
        ),
        (
            EXTRA.replace("3600,a,", "3600,b,"),
            {"constraints": "depends_on"},
            r"in a circle \(b -> b\): correct",
        ),
    ],
)
def test_wrong_constraints_are_refused(
    text: str, fields: dict[str, Any], message: str | None, tmp_path: Path
) -> None:
    if message is None:  # two nodes of two A100s hold a gang of four
        assert times(made(tmp_path, text, **fields))["a"] == (0, 300)
        return
    with pytest.raises(ValueError, match=message):
        made(tmp_path, text, **fields)


def test_unknown_and_circular_dependencies_are_read_without_the_constraint(tmp_path: Path) -> None:
    for text in (EXTRA.replace("3600,a,", "3600,x,"), EXTRA.replace("300,,", "300,b,")):
        assert times(made(tmp_path, text)) == {"a": (0, 300), "b": (5, 65)}


# Notes.


def test_columns_without_effect_are_named(tmp_path: Path) -> None:
    expected = "Note: columns of the log without effect: gpu_type, partition, depends_on, priority (see --constraints)."
    assert expected in trace_notes([made(tmp_path)])
    expected = "Note: columns of the log without effect: partition (see --constraints)."
    assert expected in trace_notes([made(tmp_path, constraints="all")])
    whole = made(tmp_path, constraints="all", partitions="big=0,small=1")
    assert not [note for note in trace_notes([whole]) if "without effect" in note]


def test_nodes_of_partitions_are_listed_by_the_names_of_their_file(tmp_path: Path) -> None:
    """Only Slurm's file names nodes; a list of more than six has its ends."""
    nodes = [{"name": f"n{each}", "state": ["IDLE"], "gres": "gpu:4", "cpus": 8} for each in range(9)]
    (file := tmp_path / "nodes.json").write_text(json.dumps({"nodes": nodes}))
    partitions = {"constraints": "partition", "partitions": "big=0-6,small=7+8"}
    notes = trace_notes([made(tmp_path, cluster=str(file), **partitions)])
    assert "Note: nodes of --partitions by name: big has n0 ... n6 (7 nodes); small has n7, n8." in notes
    assert not any("by name" in note for note in trace_notes([made(tmp_path, cluster="9x4", **partitions)]))


def test_jobs_that_fit_no_node_are_dropped_and_counted(tmp_path: Path) -> None:
    """B is dropped; C, which waits for it, does not wait."""
    text = EXTRA + "c,6,1,10,A100,0,3600,b,big\n"
    work = made(tmp_path, text, constraints="gpu_type,depends_on", cluster="2x4-a100", drop_too_large=True)
    notes = trace_notes([work])
    assert "Note: jobs larger than the nodes that they may use dropped: 1." in notes
    assert "Note: dependencies on jobs that are not simulated, taken as met: 1." in notes
    assert times(work) == {"a": (0, 300), "c": (6, 16)}


def test_dependencies_on_jobs_outside_a_window_are_met(tmp_path: Path) -> None:
    """Each job waits for the one before; the first of a window waits for none."""
    count = 200
    table = pd.DataFrame(
        {
            "job_id": [f"j{number}" for number in range(count)],
            "submit_s": [10.0 * number for number in range(count)],
            "num_gpus": 1,
            "duration_s": 100.0,
            "depends_on": ["", *(f"j{number}" for number in range(count - 1))],
        }
    )
    table.to_csv(tmp_path / "jobs.csv", index=False)
    scenario = Scenario(
        trace_file=str(tmp_path / "jobs.csv"),
        cluster="1x8",
        physics="none",
        jobs=10,
        all_windows=True,
        constraints="depends_on",
    )
    loads = windows(scenario, "train", 2)
    for load in loads:
        state = run(FIFO, load.episode()).state
        first_s = load.jobs["submit_s"][0]
        assert (state.start_s[:10] - first_s).tolist() == [100.0 * number for number in range(10)]
    assert "Note: dependencies on jobs that are not simulated, taken as met: 2." in trace_notes(loads)


def test_a_blank_cell_binds_nothing() -> None:
    table = pd.DataFrame({"job_id": ["a"], "submit_s": [0], "num_gpus": [1], "duration_s": [1.0]})
    checked = check(table.assign(depends_on="", gpu_type=" ", partition=[float("nan")]))
    assert checked[["depends_on", "gpu_type", "partition"]].iloc[0].tolist() == ["none"] * 3


def test_the_command_has_the_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "jobs.csv").write_text(EXTRA)
    flags = ["--trace-file", str(tmp_path / "jobs.csv"), "--cluster", TWO_TYPES, "--physics", "none"]
    flags += ["--full-trace", "--policy", "fifo", "--constraints", "all", "--partitions", "big=0,small=1"]
    assert main([*flags, "--out", str(tmp_path / "out")]) == 0
    notes = (tmp_path / "out" / "notes.txt").read_text()
    assert "constraints all, partitions big=0,small=1" in notes
    capsys.readouterr()
