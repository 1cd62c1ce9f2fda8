"""Records add up to the results, GPU by GPU, and their files follow the formats of evalys and Perfetto."""

import json
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluate import main
from gpu_cluster_gym.evaluation import record
from gpu_cluster_gym.evaluation.record import (
    COMPARED,
    DECISIONS,
    JOBSET,
    SEGMENTS,
    TIMELINE,
    Record,
    allocated_by_row,
    format_intervals,
    gantt_bars,
    gpu_lanes,
    parse_intervals,
    time_means,
)
from gpu_cluster_gym.evaluation.runner import run_window
from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.simulator.policy import Placement, Preempt, Start
from gpu_cluster_gym.simulator.reasons import Decision, Decisions, Option, Ranked, Reason
from gpu_cluster_gym.traces import load
from gpu_cluster_gym.workloads import Workload
from tests.cases import tiny
from tests.simulator.test_laws_physics import twins_of

WAITING, OVERHEAD = ("queued", "reserved", "restarting"), ("loading", "pausing")


def made(policy: str) -> Callable[[], Any]:
    return lambda: baselines.make(baselines.load(policy))


@pytest.fixture(scope="module")
def work() -> Workload:
    """Return 24 jobs with all parts of physics: they share GPUs, are resized, fail, and some have no GPU."""
    return twins_of("all", 2, 24).work


@pytest.fixture(scope="module")
def recorded(work: Workload) -> Record:
    return record.record_window(made("union"), work)


def segments_of(*rows: tuple[str, str, float, float, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["job_id", "phase", "from_s", "to_s", "gpus"])


# Tables.


def test_recording_does_not_change_the_results(work: Workload, recorded: Record) -> None:
    pd.testing.assert_frame_equal(recorded.results, run_window(made("union"), work))


def test_columns_are_those_that_are_declared(recorded: Record) -> None:
    assert list(recorded.segments) == list(SEGMENTS)
    assert list(recorded.timeline) == list(TIMELINE)
    assert list(recorded.executions) == [*JOBSET, "job", "window"]


def test_gpus_and_nodes_match_the_allocation(work: Workload, recorded: Record) -> None:
    segments = recorded.segments
    assert [len(parse_intervals(text)) for text in segments["gpus"]] == segments["num_gpus"].tolist()
    node_of = np.repeat(np.arange(work.cluster.num_nodes), work.cluster.node_gpus)
    on_gpus = segments[segments["num_gpus"] > 0]
    assert [parse_intervals(text) for text in on_gpus["nodes"]] == [
        sorted({*node_of[parse_intervals(text)].tolist()}) for text in on_gpus["gpus"]
    ]
    on_cores = segments[(segments["num_gpus"] == 0) & (segments["cores"] > 0)]
    assert len(on_cores)
    assert {len(parse_intervals(text)) for text in on_cores["nodes"]} == {1}


def test_executions_for_evalys_match_the_segments(recorded: Record) -> None:
    """Names are unique, no row starts before its submission, and GPU-seconds are those of the segments."""
    rows = recorded.executions
    assert rows["job_id"].is_unique
    assert (rows["waiting_time"] >= 0).all()
    area = (
        rows["execution_time"] * rows["allocated_resources"].map(lambda text: len(parse_intervals(text)))
    ).sum()
    segments = recorded.segments
    assert area == pytest.approx(((segments["to_s"] - segments["from_s"]) * segments["num_gpus"]).sum())
    named = set(rows["job_id"].str.partition("#")[0])
    assert named == set(recorded.results.loc[recorded.results["kind"] == "gpu", "job_id"])


# Texts and places.


def test_intervals_can_be_parsed_again() -> None:
    assert format_intervals([0, 1, 2, 3, 6, 8, 9]) == "0-3 6 8-9"
    assert parse_intervals("0-3 6 8-9") == [0, 1, 2, 3, 6, 8, 9]
    assert (format_intervals([]), parse_intervals("")) == ("", [])


def test_jobs_on_one_gpu_have_separate_lanes() -> None:
    """On GPU 0: a from 0 to 9, b in a second lane from 2 to 5, then c in that lane; on GPU 1 a alone."""
    lanes = gpu_lanes(
        segments_of(("a", "running", 0, 9, "0-1"), ("b", "running", 2, 5, "0"), ("c", "running", 5, 7, "0"))
    )
    assert lanes.to_numpy().tolist() == [
        [0, 0, 0, False],
        [1, 0, 1, False],
        [2, 0, 1, False],
        [0, 1, 0, True],
    ]


def test_a_bar_spans_the_gpus_of_a_node_and_changes_of_cores() -> None:
    """Job a loads, then runs on GPUs 0-2 of two nodes of two; its second running segment differs in cores alone."""
    found = gantt_bars(
        segments_of(
            ("a", "queued", 0, 1, ""),
            ("a", "loading", 1, 2, "0-2"),
            ("a", "running", 2, 4, "0-2"),
            ("a", "running", 4, 8, "0-2"),
        ),
        (2, 2),
    )
    drawn = found[["phase", "from_s", "to_s", "gpu", "num_gpus", "lane", "lanes"]].to_numpy().tolist()
    assert drawn == [
        ["loading", 1, 2, 0, 2, 0, 1],
        ["loading", 1, 2, 2, 1, 0, 1],
        ["running", 2, 8, 0, 2, 0, 1],
        ["running", 2, 8, 2, 1, 0, 1],
    ]


def test_bars_cover_the_segments(work: Workload, recorded: Record) -> None:
    found = gantt_bars(recorded.segments, work.cluster.node_gpus)
    area = ((found["to_s"] - found["from_s"]) * found["num_gpus"]).sum()
    segments = recorded.segments
    assert area == pytest.approx(((segments["to_s"] - segments["from_s"]) * segments["num_gpus"]).sum())
    assert found["lanes"].max() > 1, "some share GPUs"


def test_time_means_of_a_step_function() -> None:
    """4 from 1 to 3, then 0 until 5, then 2."""
    found = time_means(np.array([1.0, 3.0, 5.0]), np.array([4.0, 0.0, 2.0]), np.array([0.0, 2.0, 4.0, 8.0]))
    assert found.tolist() == [2.0, 2.0, 1.5]


def test_a_shared_gpu_counts_once() -> None:
    held = allocated_by_row(
        segments_of(("a", "running", 0, 6, "0"), ("b", "running", 2, 8, "0-1")),
        np.array([0, 0]),
        np.array([0.0, 2.0, 6.0, 10.0]),
    )
    assert held.tolist() == [[0.5, 1.0, 0.5]]


def test_allocated_gpus_are_those_of_the_timeline(work: Workload, recorded: Record) -> None:
    edges = np.linspace(0, recorded.segments["to_s"].max(), 13)
    rows = allocated_by_row(recorded.segments, np.zeros(work.cluster.num_gpus, int), edges)
    totals = recorded.timeline
    means = time_means(totals["time_s"].to_numpy(), totals["held_gpus"].to_numpy(), edges)
    assert (rows[0] * work.cluster.num_gpus).tolist() == pytest.approx(means.tolist())


# Perfetto.

NUMBER = (int, float)
REQUIRED: dict[str, dict[str, Any]] = {
    "X": {"name": str, "cat": str, "pid": int, "tid": int, "ts": NUMBER, "dur": NUMBER, "args": dict},
    "C": {"name": str, "pid": int, "tid": int, "ts": NUMBER, "args": dict},
    "M": {"name": str, "pid": int, "tid": int, "args": dict},
}
"""The fields of each kind of event in the Trace Event Format, and their types."""


def test_events_follow_the_trace_event_format(work: Workload, recorded: Record) -> None:
    text = record.perfetto_text(recorded.segments, recorded.timeline, work.cluster.node_gpus)
    trace = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert set(trace) == {"traceEvents", "displayTimeUnit"}
    kinds = {event["ph"] for event in trace["traceEvents"]}
    assert kinds == set(REQUIRED)
    for event in trace["traceEvents"]:
        fields = REQUIRED[event["ph"]]
        assert set(event) == {"ph", *fields}
        assert all(isinstance(event[name], kind) for name, kind in fields.items()), event
        if event["ph"] == "C":
            assert all(isinstance(value, NUMBER) for value in event["args"].values())


def test_slices_of_a_thread_never_overlap_and_each_has_a_name(work: Workload, recorded: Record) -> None:
    events = list(record.perfetto_events(recorded.segments, recorded.timeline, work.cluster.node_gpus))
    slices = [event for event in events if event["ph"] == "X"]
    assert sum(event["dur"] for event in slices) > 0
    named = {(each["pid"], each["tid"]) for each in events if each.get("name") == "thread_name"}
    by_thread: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in slices:
        by_thread.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["dur"]))
    assert set(by_thread) == named
    assert not {each["pid"] for each in events} & {thread for _, thread in named}, "none is a main thread"
    for each in by_thread.values():
        each.sort()
        assert all(ts + dur <= later for (ts, dur), (later, _) in pairwise(each))


def test_a_paused_job_has_a_line_for_the_whole_and_one_for_each_part() -> None:
    """Hand-worked: job 1 runs once; job 3 runs for 30 s on four GPUs, 60 s on two, 30 s on four: on three in the mean.

    Job 2 has no GPUs. Later parts have no submission, and wait since the part before.
    """
    rows = [
        (0, 0, 0, 5, "0", 1),
        (2, 10, 20, 50, "0-3", 4),
        (2, 50, 60, 120, "0-1", 4),
        (2, 120, 150, 180, "0-3", 4),
    ]
    columns = ["job", "submission_time", "starting_time", "finish_time", "allocated_resources"]
    executions = pd.DataFrame(rows, columns=[*columns, "requested_number_of_resources"])
    text = record.swf_text(executions, cluster("1x4"))
    comments = [line for line in text.splitlines() if line.startswith(";")]
    assert {"; MaxJobs: 2", "; MaxRecords: 5", "; Preemption: Double", "; MaxProcs: 4"} < {*comments}
    assert text.splitlines()[len(comments) :] == [
        "1 0 0 5 1 -1 -1 1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1",
        "3 10 10 120 3 -1 -1 4 -1 -1 1 -1 -1 -1 -1 -1 -1 -1",
        "3 10 10 30 4 -1 -1 4 -1 -1 2 -1 -1 -1 -1 -1 -1 -1",
        "3 -1 10 60 2 -1 -1 4 -1 -1 2 -1 -1 -1 -1 -1 -1 -1",
        "3 -1 30 30 4 -1 -1 4 -1 -1 3 -1 -1 -1 -1 -1 -1 -1",
    ]
    assert "; Preemption: No\n" in record.swf_text(executions[:2], cluster("1x4"))


def test_executions_in_the_standard_workload_format_are_read_again(
    work: Workload, recorded: Record, tmp_path: Path
) -> None:
    """Our own reader of logs finds each job once, and times to the second; a run below half a second becomes one."""
    (tmp_path / "0.swf").write_text(record.swf_text(recorded.executions, work.cluster))
    read = load("swf", str(tmp_path / "0.swf"), seed=0)
    jobs = recorded.executions.groupby("job")
    first = jobs["job_id"].first()
    assert (read["job_id"].astype(int) - 1).tolist() == first.index.tolist()
    assert work.table["job_id"].to_numpy()[first.index].tolist() == first.tolist()
    once = (jobs.size() == 1).to_numpy()
    assert 0 < once.sum() < len(once), "some jobs were paused or restarted"
    gpus = jobs["allocated_resources"].first().map(lambda text: len(parse_intervals(text)))
    assert read["num_gpus"][once].tolist() == gpus[once].tolist()
    zero_s = np.round(recorded.executions["submission_time"].min())
    for ours, theirs, within in (
        (read["submit_s"] + zero_s, jobs["submission_time"].first(), 0.5),
        (read["logged_start_s"] + zero_s, jobs["starting_time"].first(), 0.5),
        (read["duration_s"], jobs["execution_time"].sum(), jobs.size()),
    ):
        assert (np.abs(ours.to_numpy() - theirs.to_numpy()) <= np.asarray(within) + 1e-6).all()
    machines = f"the log's machines: {work.cluster.num_gpus} processors on {work.cluster.num_nodes} nodes"
    assert any(note.startswith(machines) for note in read.attrs["notes"])


# Decisions.


def test_decisions_are_listed_with_what_they_compared() -> None:
    """Hand-worked: a start before b and after c, a pause of a for c, and a move among two.

    Infinity and a missing job are empty; a term of a job has its name.
    """
    decided = Decisions()
    start = Reason(
        "In order.", "run time, s", Ranked(0, 60.0), 2, 3, 1, (Ranked(2, 0.123456789),), (Ranked(1, 70.0),)
    )
    terms = (("head of the queue, job", 2.0), ("it could start in, s", math.inf))
    pause = Reason("In order.", "run time, s", Ranked(0, math.inf), 3, 3, cause=Ranked(2, 5.0), terms=terms)
    options = (Option("start {job}", 1, 9.0, 0.5), Option("wait", -1, 0.0))
    move = Reason("The best move.", "JCT saved, s", Ranked(1, 9.0), 1, 2, options=options)
    begins = Placement((0,), 1)
    decided.rows += [
        Decision(1.5, Start(0, begins), start),
        Decision(4.0, Preempt(0), pause),
        Decision(4.0, Start(1, begins), move),
    ]
    decisions, compared = record.decision_tables(["a", "b", "c"], decided)
    assert decisions.to_csv(index=False).splitlines() == [
        ",".join(list(DECISIONS)[2:]),
        '0,1.5,start,a,In order.,"run time, s",60.0,2,3,1',
        '1,4.0,pause,a,In order.,"run time, s",,3,3,0',
        '2,4.0,start,b,The best move.,"JCT saved, s",9.0,1,2,0',
    ]
    assert compared.to_csv(index=False).splitlines() == [
        ",".join(list(COMPARED)[2:]),
        "0,earlier,,c,0.1234568,",
        "0,later,,b,70.0,",
        "1,cause,,c,5.0,",
        '1,term,"head of the queue, job",c,,',
        '1,term,"it could start in, s",,,',
        "2,option,start {job},b,9.0,0.5",
        "2,option,wait,,0.0,",
    ]


def test_a_policy_without_reasons_has_empty_tables_of_decisions() -> None:
    decisions, compared = record.decision_tables(["a"], None)
    assert len(decisions) == len(compared) == 0
    assert [*decisions, *compared] == [*list(DECISIONS)[2:], *list(COMPARED)[2:]]


# By the command.


def test_the_command_writes_the_requested_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = tiny.scenario(tmp_path)
    flags = [f"--{flag.replace('_', '-')}={value}" for flag, value in chosen.items() if flag != "full_trace"]
    asked = ["--policy", "srtf", "fifo", *flags, "--full-trace"]
    assert main([*asked, "--out", str(tmp_path / "plain")]) == 0
    assert main([*asked, "--out", str(tmp_path / "kept"), "--record", "--perfetto"]) == 0
    capsys.readouterr()
    plain, kept = (tmp_path / name / "srtf" for name in ("plain", "kept"))
    assert {path.name for path in plain.iterdir()} == {"jobs.csv"}
    names = {"jobs.csv", "segments.csv", "timeline.csv", "decisions.csv", "compared.csv"}
    names |= {"evalys", "swf", "perfetto"}
    assert {path.name for path in kept.iterdir()} == names
    assert (plain / "jobs.csv").read_bytes() == (kept / "jobs.csv").read_bytes()
    assert (plain.parent / "choices.json").read_bytes() == (kept.parent / "choices.json").read_bytes()
    assert list(pd.read_csv(kept / "evalys" / "0.csv")) == list(JOBSET)
    parts = pd.read_csv(kept / "evalys" / "0.csv")["job_id"].astype(str)
    assert len(load("swf", str(kept / "swf" / "0.swf"), seed=0)) == parts.str.partition("#")[0].nunique()
    assert json.loads((kept / "perfetto" / "0.json").read_text())["traceEvents"]
    provenance = json.loads((kept.parent / "provenance.json").read_text())
    assert provenance["node_gpus"] == [8, 8]
    assert any("Measured: " in note for note in provenance["notes"])


def test_a_paper_cannot_be_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--paper", "xion", "--report"]) == 2
    assert "--record, --report and --perfetto require --policy" in capsys.readouterr().err
