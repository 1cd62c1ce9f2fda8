"""Logs of other programs become the hand-computed table, and every oddity is counted."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import traces
from gpu_cluster_gym.traces import _delimited
from tests.cases.bad_input import HEADER, TARGET_BUSY_SHARE, Bad
from tests.cases.bad_logs import (
    BAD_LOGS,
    HELIOS_HEADER,
    HELIOS_JOB,
    SLURM_HEADER,
    SLURM_JOB,
    SWF_HEADER,
    SWF_JOB,
)

BESIDE = (folder / "shared" / "data" / "samples" for folder in Path(__file__).resolve().parents)
SAMPLES = next((folder for folder in BESIDE if folder.is_dir()), Path("no samples"))


def read(folder: Path, text: str, name: str = "log.csv", **options: Any) -> pd.DataFrame:
    """Return the job table of a file with this text."""
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return traces.load(file=file, seed=0, **options)


def slurm(folder: Path, *jobs: str, **options: Any) -> pd.DataFrame:
    return read(folder, "\n".join([SLURM_HEADER, *jobs, ""]), "sacct.txt", **options)


def swf(folder: Path, *jobs: str) -> pd.DataFrame:
    return read(folder, SWF_HEADER + "".join(f"{job}\n" for job in jobs), "log.swf")


def helios(folder: Path, *jobs: str, **options: Any) -> pd.DataFrame:
    return read(folder, "\n".join([HELIOS_HEADER, *jobs, ""]), **options)


def changed(job: str, *pairs: tuple[str, str]) -> str:
    """Return a line with the first occurrence of each text replaced."""
    for old, new in pairs:
        assert old in job
        job = job.replace(old, new, 1)
    return job


def noted(table: pd.DataFrame, what: str) -> int:
    """Return the count of the one note that contains a text."""
    (note,) = (note for note in table.attrs["notes"] if what in note)
    return int(note.rpartition(": ")[2].replace(",", ""))


# Bad files


@pytest.mark.parametrize("bad", BAD_LOGS, ids=lambda bad: bad.case)
def test_a_bad_log_is_named_with_its_line_and_column(tmp_path: Path, bad: Bad) -> None:
    file = tmp_path / bad.name
    file.write_bytes(bad.content)
    with pytest.raises(traces.TraceError) as caught:
        traces.load(file=file, seed=0)
    assert (caught.value.line, caught.value.column) == (bad.line, bad.column), str(caught.value)
    assert bad.word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_logs_that_bad_ones_are_made_from_are_good(tmp_path: Path) -> None:
    for table in (slurm(tmp_path, SLURM_JOB), swf(tmp_path, SWF_JOB), helios(tmp_path, HELIOS_JOB)):
        assert table[["submit_s", "duration_s"]].to_numpy().tolist() == [[0, 3600]]


# Which format


@pytest.mark.parametrize(
    ("name", "text", "looks"),
    [
        ("slurm", f"{HELIOS_HEADER}\n{HELIOS_JOB}\n", "Helios's cluster_log.csv"),
        ("helios", f"{SLURM_HEADER}\n{SLURM_JOB}\n", "Slurm's sacct --parsable2"),
        ("philly", f"{SWF_HEADER}{SWF_JOB}\n", "a log in the Standard Workload Format"),
        ("swf", TARGET_BUSY_SHARE, "a table in the job table's own columns"),
    ],
)
def test_a_file_that_looks_like_another_format_is_told_so(
    tmp_path: Path, name: str, text: str, looks: str
) -> None:
    file = tmp_path / "log"
    file.write_text(text)
    with pytest.raises(
        traces.TraceError, match=f"found what looks like {looks}, expected .*drop --trace {name}"
    ):
        traces.load(name, file, seed=0)


def test_the_format_that_was_found_is_printed(tmp_path: Path) -> None:
    assert "read as Helios's cluster_log.csv" in helios(tmp_path, HELIOS_JOB).attrs["notes"]


def test_a_format_without_a_generator_asks_for_a_file() -> None:
    for name in ("slurm", "swf", "openb"):
        with pytest.raises(traces.TraceError, match=r"--trace-file FILE\), since it has no generator"):
            traces.load(name, seed=0)


# Slurm


def test_sacct_gives_arrivals_gpus_run_times_tenants_and_limits(tmp_path: Path) -> None:
    table = slurm(tmp_path, SLURM_JOB, changed(SLURM_JOB, ("101", "102"), ("T01:00:00", "T01:05:00")))
    assert table.iloc[1].to_dict() == {
        "job_id": "102",
        "submit_s": 300.0,
        "num_gpus": 2,
        "duration_s": 3600.0,
        "cpu_cores": 8,
        "user": "u1",
        "tenant": "physics",
        "partition": "gpu",
        "qos": "normal",
        "time_limit_s": 7200.0,
        "status": "COMPLETED",
        "logged_start_s": 600.0,
        "profiled_duration_s": 7200.0,
        "predictable_from": 1.0,
    }


STEP = changed(SLURM_JOB, ("101", "101.batch"))


def test_steps_are_skipped(tmp_path: Path) -> None:
    steps = [STEP, changed(STEP, (".batch", ".extern")), changed(STEP, (".batch", ".0"))]
    table = slurm(tmp_path, SLURM_JOB, *steps)
    assert (len(table), noted(table, "steps of jobs, skipped")) == (1, 3)


def test_tasks_of_an_array_are_jobs_and_its_pending_rest_is_not(tmp_path: Path) -> None:
    tasks = [changed(SLURM_JOB, ("101", f"101_{task}")) for task in (1, 2)]
    rest = changed(SLURM_JOB, ("101", "101_[3-9%2]"), ("COMPLETED", "PENDING"), ("T01:10:00", "X"))
    rest = rest.replace("2024-03-01X", "Unknown")
    table = slurm(tmp_path, *tasks, rest)
    assert table["job_id"].tolist() == ["101_1", "101_2"]
    assert noted(table, "pending, or the rest of an array") == 1


def test_attempts_of_a_requeued_job_are_one_job(tmp_path: Path) -> None:
    """600 s from 1:10, preempted and submitted again at 1:20; then 3,600 s from 2:00: 4,200 s."""
    first = changed(
        SLURM_JOB,
        ("COMPLETED", "PREEMPTED"),
        ("2024-03-01T02:10:00", "2024-03-01T01:20:00"),
        ("|3600|", "|600|"),
    )
    again = SLURM_JOB.replace("T01:00:00", "T01:20:00").replace("T01:10:00", "T02:00:00")
    again = again.replace("T02:10:00", "T03:00:00")
    table = slurm(tmp_path, first, again)
    assert table[["submit_s", "logged_start_s", "duration_s"]].to_numpy().tolist() == [[0, 600, 4200]]
    assert table["status"].tolist() == ["COMPLETED"]
    assert noted(table, "requeued jobs, whose attempts are merged") == 1


def test_components_of_a_heterogeneous_job_are_one_gang(tmp_path: Path) -> None:
    parts = [
        changed(SLURM_JOB, ("101", "101+0")),
        changed(SLURM_JOB, ("101", "101+1"), (",gres/gpu=2,mem", ",gres/gpu=4,mem")),
    ]
    table = slurm(tmp_path, *parts)
    assert table[["num_gpus", "cpu_cores", "duration_s"]].to_numpy().tolist() == [[6, 16, 3600]]
    assert noted(table, "heterogeneous jobs, run as one gang") == 1


@pytest.mark.parametrize(
    ("tres", "gpus", "kind"),
    [
        ("cpu=8,gres/gpu=4", 4, None),
        ("cpu=8,gres/gpu:a100=3", 3, "a100"),
        ("cpu=8,gres/gpu:a100=1,gres/gpu:v100=2,gres/gpu=3", 3, "a100+v100"),
        ("cpu=8,gres/gpu:a100_3g.20gb=3", 2, "a100_3g.20gb"),  # nine sevenths
        ("cpu=8,gres/gpu=3,gres/gpu:1g.5gb=2", 2, "1g.5gb"),  # a GPU without a type and two sevenths
        ("gres/gpu=3,gres/gpu:a100=2,gres/gpu:3g.20gb=1", 3, "3g.20gb+a100"),  # two GPUs and three sevenths
        (
            "gres/gpu=4,gres/gpu:a100=2,gres/gpu:1g.5gb=1",
            4,
            "1g.5gb+a100",
        ),  # one of the whole GPUs has no type
        ("billing=9,cpu=8,energy=12345,fs/disk=1,gres/gpu=1,mem=1.50G,node=2", 1, None),
    ],
)
def test_gpus_are_counted_from_tres(tmp_path: Path, tres: str, gpus: int, kind: str | None) -> None:
    table = slurm(tmp_path, changed(SLURM_JOB, ("billing=8,cpu=8,gres/gpu=2,mem=64G,node=1", tres)))
    assert table["num_gpus"].tolist() == [gpus]
    assert table.get("gpu_type", pd.Series([None])).tolist() == [kind]


def test_a_job_on_shards_has_a_whole_gpu_on_each_node(tmp_path: Path) -> None:
    """Of shards, or of MPS; GPUs beside shards count alone, and no shards are none."""
    usual = "|1|8|cpu=8,gres/gpu=2|billing=8,cpu=8,gres/gpu=2,mem=64G,node=1"
    tres = ("gres/shard=3", "gres/mps:a100=50", "gres/gpu=2,gres/shard=3", "gres/shard=0")
    rows = [
        changed(SLURM_JOB, ("101", f"10{number}"), (usual, f"|{nodes}|8||cpu=8,{cell}"))
        for number, (cell, nodes) in enumerate(zip(tres, (1, 3, 1, 1), strict=True), 1)
    ]
    table = slurm(tmp_path, *rows)
    assert table["num_gpus"].tolist() == [1, 3, 2, 0]
    assert noted(table, "given one whole GPU on each node") == 2


def test_slices_that_are_rounded_up_are_counted(tmp_path: Path) -> None:
    """A hundred jobs of a seventh of a GPU."""
    rows = [
        changed(SLURM_JOB, ("101", str(number)), ("gres/gpu=2,mem", "gres/gpu:a100_1g.5gb=1,mem"))
        for number in range(100)
    ]
    table = slurm(tmp_path, *rows)
    assert table["num_gpus"].sum() == 100
    assert noted(table, "jobs on MIG slices, counted as sevenths of a GPU") == 100
    assert noted(table, "(14.29 GPUs requested, 100 simulated)") == 100


def test_gres_of_old_versions_are_counted_for_each_node(tmp_path: Path) -> None:
    old = f"{SLURM_HEADER.replace('AllocTRES', 'AllocGRES')}\n" + changed(
        SLURM_JOB, ("|1|8|", "|2|8|"), ("billing=8,cpu=8,gres/gpu=2,mem=64G,node=1", "gpu:tesla:4(S:0-1)")
    )
    assert read(tmp_path, f"{old}\n", "sacct.txt")["num_gpus"].tolist() == [8]


def test_a_job_arrives_when_it_is_eligible(tmp_path: Path) -> None:
    later = changed(
        SLURM_JOB,
        ("101", "102"),
        ("|2024-03-01T01:00:00|2024-03-01T01:10", "|2024-03-01T01:04:00|2024-03-01T01:10"),
    )
    table = slurm(tmp_path, SLURM_JOB, later)
    assert table["submit_s"].tolist() == [0, 240]
    assert noted(table, "eligible after their submission") == 1


def test_running_jobs_count_until_the_log_was_taken_and_pending_ones_do_not(tmp_path: Path) -> None:
    running = changed(
        SLURM_JOB,
        ("101", "102"),
        ("COMPLETED", "RUNNING"),
        ("2024-03-01T02:10:00", "Unknown"),
        ("|3600|", "|50|"),
    )
    pending = changed(SLURM_JOB, ("101", "103"), ("COMPLETED", "PENDING"), ("2024-03-01T01:10:00", "Unknown"))
    table = slurm(tmp_path, SLURM_JOB, running, pending)
    assert table["duration_s"].tolist() == [3600, 50]
    assert (noted(table, "still running"), noted(table, "unfinished")) == (1, 1)


def test_jobs_cancelled_before_they_ran_are_left_out(tmp_path: Path) -> None:
    gone = changed(
        SLURM_JOB,
        ("101", "102"),
        ("COMPLETED", "CANCELLED by 1000"),
        ("2024-03-01T01:10:00", "None"),
        ("|3600|", "|0|"),
    )
    table = slurm(tmp_path, SLURM_JOB, gone)
    assert (len(table), noted(table, "no run time")) == (1, 1)


def test_jobs_without_gpus_are_cpu_jobs(tmp_path: Path) -> None:
    without = SLURM_JOB.replace("101", "102").replace(",gres/gpu=2", "")
    assert slurm(tmp_path, SLURM_JOB, without)["kind"].tolist() == ["gpu", "cpu"]


def test_jobs_without_a_limit_get_the_longest(tmp_path: Path) -> None:
    table = slurm(tmp_path, SLURM_JOB, changed(SLURM_JOB, ("101", "102"), ("|120|", "|UNLIMITED|")))
    assert table["time_limit_s"].tolist() == [7200, 7200]
    assert noted(table, "without a time limit") == 1


def test_a_night_on_which_the_clock_goes_forward_is_read_in_its_zone(tmp_path: Path) -> None:
    """From 01:59 to 03:05 on 31 March 2024 six minutes passed in Berlin."""
    job = (
        SLURM_JOB.replace("2024-03-01T01:00:00", "2024-03-31T01:59:00")
        .replace("2024-03-01T01:10:00", "2024-03-31T03:05:00")
        .replace("2024-03-01T02:10:00", "2024-03-31T04:05:00")
    )
    assert slurm(tmp_path, job)["logged_start_s"].tolist() == [66 * 60]
    assert slurm(tmp_path, job, time_zone="Europe/Berlin")["logged_start_s"].tolist() == [6 * 60]
    with pytest.raises(traces.TraceError, match="a time that exists in Europe/Berlin"):
        slurm(tmp_path, job.replace("T03:05:00", "T02:05:00"), time_zone="Europe/Berlin")


def test_times_in_messages_are_those_of_the_log(tmp_path: Path) -> None:
    job = SLURM_JOB.replace("2024-03-01T01:10:00", "2024-03-01T00:10:00")
    with pytest.raises(
        traces.TraceError, match="found '2024-03-01 00:10:00 Europe/Berlin', expected a time not"
    ):
        slurm(tmp_path, job, time_zone="Europe/Berlin")
    with pytest.raises(
        traces.TraceError, match="found '2024-03-01 00:10:00 UTC', expected a time not before"
    ):
        slurm(tmp_path, job)


def test_an_hour_that_the_clock_shows_twice_is_read_in_order(tmp_path: Path) -> None:
    """On 27 October 2024, 02:50 and then 02:10 are 20 minutes apart in Berlin, from the second 02:10."""
    job = (
        SLURM_JOB.replace("2024-03-01T01:00:00", "2024-10-27T02:50:00")
        .replace("2024-03-01T01:10:00", "2024-10-27T02:10:00")
        .replace("2024-03-01T02:10:00", "2024-10-27T03:10:00")
    )
    table = slurm(tmp_path, job, time_zone="Europe/Berlin")
    assert table[["logged_start_s", "duration_s"]].to_numpy().tolist() == [[1200, 3600]]
    assert noted(table, "clock showed twice") == 3  # submission, eligibility and start


def test_a_start_in_an_hour_shown_twice_is_read_by_the_run_time(tmp_path: Path) -> None:
    """From 02:10 to 03:10 in Berlin are two hours, or the logged one from the second 02:10."""
    job = (
        SLURM_JOB.replace("2024-03-01T01:00:00", "2024-10-27T01:00:00")
        .replace("2024-03-01T01:10:00", "2024-10-27T02:10:00")
        .replace("2024-03-01T02:10:00", "2024-10-27T03:10:00")
    )
    table = slurm(tmp_path, job, time_zone="Europe/Berlin")
    assert table[["logged_start_s", "duration_s"]].to_numpy().tolist() == [[7800, 3600]]
    assert noted(table, "placed in the second one by the run time") == 1
    first = slurm(tmp_path, job.replace("|3600|", "|7200|"), time_zone="Europe/Berlin")
    assert first[["logged_start_s", "duration_s"]].to_numpy().tolist() == [[4200, 7200]]


def test_all_columns_that_a_table_lacks_are_named_at_once(tmp_path: Path) -> None:
    (file := tmp_path / "jobs.csv").write_text("id,submitted,gpus,began,ended\na,0,1,5,9\n")
    with pytest.raises(traces.TraceError) as caught:
        traces.load(file=file, seed=0, columns="num_gpus=gpus")
    assert str(caught.value).endswith(
        "expected a column named submit_s and one named duration_s (or --columns "
        "submit_s=HEADING,duration_s=HEADING; logged_start_s and logged_end_s can replace duration_s)"
    )


# The Standard Workload Format


def test_swf_gives_processors_as_gpus(tmp_path: Path) -> None:
    table = swf(tmp_path, SWF_JOB)
    assert table.to_dict("records") == [
        {
            "job_id": "1",
            "submit_s": 0.0,
            "num_gpus": 16,
            "duration_s": 3600.0,
            "user": "3",
            "vc": "1",
            "tenant": "2",
            "partition": "1",
            "time_limit_s": 7200.0,
            "status": "completed",
            "logged_start_s": 30.0,
            "profiled_duration_s": 7200.0,
            "predictable_from": 1.0,
        }
    ]
    assert "the log's machines: 64 processors on 16 nodes (--cluster 16x4)" in table.attrs["notes"]


def test_swf_oddities_are_counted(tmp_path: Path) -> None:
    table = swf(
        tmp_path,
        SWF_JOB,
        "2 10 -1 -1 8 -1 -1 8 3600 -1 5 3 2 1 1 1 -1 -1",  # cancelled before it ran
        "3 20 5 60 4 -1 -1 8 -1 -1 0 3 2 1 1 1 -1 -1",  # 4 of 8 processors, no limit
        "4 -1 5 60 4 -1 -1 4 3600 -1 2 3 2 1 1 1 -1 -1",  # a later part of a job, without a submission
        "5 40 -1 60 -1 -1 -1 2 3600 -1 1 -1 -1 1 -1 -1 -1 -1",  # requested processors only, wait unknown
    )
    assert table["num_gpus"].tolist() == [16, 4, 2]
    assert table["time_limit_s"].tolist() == [7200, 7200, 3600]
    assert table["tenant"].tolist() == ["2", "2", "none"]
    assert "logged_start_s" not in table
    for what in (
        "no run time",
        "allocated processors differ from",
        "without a time limit",
        "parts of jobs",
        "wait time is",
    ):
        assert noted(table, what) == 1


def test_a_preceding_job_of_swf_is_a_dependency(tmp_path: Path) -> None:
    """Job 3 follows job 1 after a pause for thought; job 4 follows one that never ran, job 5 one of another log."""
    table = swf(
        tmp_path,
        SWF_JOB,
        "2 10 -1 -1 8 -1 -1 8 3600 -1 5 3 2 1 1 1 -1 -1",
        "3 20 5 60 4 -1 -1 4 3600 -1 1 3 2 1 1 1 1 90",
        "4 30 5 60 4 -1 -1 4 3600 -1 1 3 2 1 1 1 2 -1",
        "5 40 5 60 4 -1 -1 4 3600 -1 1 3 2 1 1 1 77 -1",
    )
    assert dict(zip(table["job_id"], table["depends_on"], strict=True)) == {
        "1": "none",
        "3": "1",
        "4": "none",
        "5": "none",
    }
    assert noted(table, "preceding job was left out or is unknown") == 2
    assert noted(table, "think times after a preceding job") == 1


def test_comments_and_blank_lines_between_jobs_are_skipped(tmp_path: Path) -> None:
    table = swf(tmp_path, SWF_JOB, "; a comment", "", changed(SWF_JOB, ("1 0", "2 5")))
    assert table["job_id"].tolist() == ["1", "2"]


# Helios


def test_helios_gives_virtual_clusters_as_tenants(tmp_path: Path) -> None:
    table = helios(tmp_path, HELIOS_JOB)
    assert table.to_dict("records") == [
        {
            "job_id": "11",
            "submit_s": 0.0,
            "num_gpus": 4,
            "duration_s": 3600.0,
            "cpu_cores": 16,
            "user": "u1",
            "vc": "v1",
            "tenant": "v1",
            "status": "COMPLETED",
            "logged_start_s": 30.0,
        }
    ]


def test_helios_oddities_are_counted(tmp_path: Path) -> None:
    table = helios(
        tmp_path,
        HELIOS_JOB,
        changed(HELIOS_JOB, ("11", "12"), (",3600,", ",3000,")),  # another run time than end - start
        changed(HELIOS_JOB, ("11", "13"), ("2020-06-01 10:00:30", "None"), (",3600,", ",0,")),
        changed(HELIOS_JOB, ("11", "14"), ("2020-06-01 11:00:30", ""), (",3600,", ",0,")),
        changed(HELIOS_JOB, ("11", "15"), (",4,16,", ",0,16,")),
    )
    assert table["duration_s"].tolist() == [3600, 3000, 3600]
    assert table["kind"].tolist() == ["gpu", "gpu", "cpu"]
    for what in ("differ from the end minus", "no run time", "unfinished"):
        assert noted(table, what) == 1


# Tables with headings of their own


OWN = '"job id",submit,start,end,gpus,group\nj1,{0},{1},{2},2,a\nj2,{0},{1},{2},0.5,b\n'
MAP = 'job_id="job id",submit_s=submit,logged_start_s=start,logged_end_s=end,num_gpus=gpus,tenant=group'


def test_headings_are_mapped_and_run_times_follow_from_ends(tmp_path: Path) -> None:
    text = OWN.format("2024-03-01 10:00", "2024-03-01T10:05:00Z", "2024-03-01 11:35:00.5+01:00")
    table = read(tmp_path, text, columns=MAP)
    assert table.to_dict("list") == {
        "job_id": ["j1", "j2"],
        "submit_s": [0, 0],
        "num_gpus": [2, 1],
        "duration_s": [1800.5, 1800.5],
        "tenant": ["a", "b"],
        "logged_start_s": [300, 300],
    }
    assert noted(table, "(0.50 GPUs requested, 1 simulated)") == 1


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (
            "j3,2024-03-01 10:00,2024-03-01 10:05,2024-03-01 10:04,1,a",
            "end (logged_end_s): found '2024-03-01 10:04',",
        ),
        ("j3,2024-03-01 10:00,2024-03-01 10:05,2024-03-01 11:35,,a", "gpus (num_gpus): found '',"),
        ("j3,x,2024-03-01 10:05,2024-03-01 11:35,1,a", "submit (submit_s): found 'x',"),
        ("j2,2024-03-01 10:00,2024-03-01 10:05,2024-03-01 11:35,1,a", "job id (job_id): found 'j2',"),
    ],
)
def test_an_error_has_the_files_own_heading_and_cell(tmp_path: Path, line: str, place: str) -> None:
    text = OWN.format("2024-03-01 10:00", "2024-03-01 10:05", "2024-03-01 11:35")
    with pytest.raises(traces.TraceError) as caught:
        read(tmp_path, f"{text}{line}\n", columns=MAP, time_zone="Europe/Berlin")
    assert f", line 4, column {place}" in str(caught.value)


def test_times_of_another_form_are_named_with_the_form_that_is_read(tmp_path: Path) -> None:
    text = OWN.format("03/01/2024 10:00", "03/01/2024 10:05", "03/01/2024 11:35")
    with pytest.raises(traces.TraceError, match=r"or a time like 2024-03-31 01:59:00$"):
        read(tmp_path, text, columns=MAP)


def test_seconds_stay_as_they_are(tmp_path: Path) -> None:
    table = read(tmp_path, OWN.format(7, 9, 20), columns=MAP)
    assert table[["submit_s", "logged_start_s", "duration_s"]].to_numpy().tolist() == [[7, 9, 11]] * 2


@pytest.mark.parametrize("delimiter", ["\t", ";", "|"])
def test_other_delimiters_are_found(tmp_path: Path, delimiter: str) -> None:
    text = TARGET_BUSY_SHARE.replace(",", delimiter)
    pd.testing.assert_frame_equal(read(tmp_path, text), read(tmp_path, TARGET_BUSY_SHARE))


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        ("job_id=id", "found only 'job_id, submit_s"),
        ("job=job_id", "unknown column 'job': expected one of job_id"),
        ("job_id", "expected a pair such as job_id=NAME"),
        ('job_id="a', "a closing quote is missing"),
        ("job_id=a,submit_s=a", "'a' is given twice"),
    ],
)
def test_a_wrong_map_is_one_sentence(tmp_path: Path, columns: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        read(tmp_path, TARGET_BUSY_SHARE, columns=columns)


def test_durations_may_be_written_with_days(tmp_path: Path) -> None:
    table = read(tmp_path, f"{HEADER}\na,0,1,1-02:03:04\nb,0,1,01:00:00\n")
    assert table["duration_s"].tolist() == [93784, 3600]


def test_limits_of_a_table_are_its_estimates(tmp_path: Path) -> None:
    table = read(tmp_path, f"{HEADER},time_limit_s\na,0,1,60,600\n")
    assert table["profiled_duration_s"].tolist() == [600]


def test_a_file_with_quotes_gives_the_same_table_as_one_without(tmp_path: Path) -> None:
    """The first is split by pandas in pieces, the second by the standard library."""
    rng = np.random.default_rng(0)
    rows = [f"j{k},{k},{1 + rng.integers(8)},{1 + rng.integers(9999)},u{rng.integers(9)}" for k in range(300)]
    plain = "\n".join([f"{HEADER},user", *rows, ""])
    quoted = "\n".join([f"{HEADER},user", *('"' + row.replace(",", '","') + '"' for row in rows), ""])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_delimited, "ROWS_AT_ONCE", 64)
        pd.testing.assert_frame_equal(read(tmp_path, plain), read(tmp_path, quoted))


def test_parquet_gives_the_same_table_where_pyarrow_is_installed(tmp_path: Path) -> None:
    file = tmp_path / "jobs.parquet"
    file.write_bytes(b"PAR1 and no more")
    with pytest.raises(traces.TraceError, match=r"pyarrow|a complete Parquet file"):
        traces.load(file=file, seed=0)
    pytest.importorskip("pyarrow", reason="pyarrow is optional")
    table = read(tmp_path, TARGET_BUSY_SHARE)
    table.to_parquet(file)
    pd.testing.assert_frame_equal(traces.load(file=file, seed=0), table)


# Samples in the original schemas, where they are


@pytest.mark.parametrize(
    ("sample", "ids", "gpus"),
    [
        ("helios/cluster_log.csv", ["9000001", "9000002", "9000004", "9000005", "9000006"], [1, 16, 4, 8, 8]),
        ("swf/sample.swf", ["1", "2", "3"], [16, 1, 64]),
    ],
)
def test_samples_of_the_original_files(sample: str, ids: list[str], gpus: list[int]) -> None:
    if not (file := SAMPLES / sample).is_file():
        pytest.skip(f"no sample {sample} beside the checkout")
    table = traces.load(file=file, seed=0).query("num_gpus > 0")
    assert table["job_id"].tolist() == ids
    assert table["num_gpus"].tolist() == gpus


def test_a_table_without_ids_is_numbered_where_its_headings_are_named(tmp_path: Path) -> None:
    table = read(
        tmp_path, "at,gpus,run\n0,1,60\n5,2,30\n", columns="submit_s=at,num_gpus=gpus,duration_s=run"
    )
    assert table["job_id"].tolist() == [1, 2]
    assert "jobs are numbered by their rows, since no column has their ids" in table.attrs["notes"]


def test_a_blank_run_time_follows_from_start_and_end(tmp_path: Path) -> None:
    """Job c has no end either: it still ran when the log was taken."""
    rows = "a,0,1,1,9,\nb,5,1,7,12,5\nc,6,1,8,,\n"
    table = read(tmp_path, f"job_id,submit_s,num_gpus,logged_start_s,logged_end_s,duration_s\n{rows}")
    assert dict(zip(table["job_id"], table["duration_s"], strict=True)) == {"a": 8.0, "b": 5.0}


@pytest.mark.parametrize("other", ["600", "0-01:00:00"])
@pytest.mark.parametrize("cell", ["UNLIMITED", ""])
def test_an_unreadable_limit_is_answered_with_that_for_none(other: str, cell: str, tmp_path: Path) -> None:
    """In seconds and as a duration; the run time of a job has no such form."""
    rows = f"job,submit_s,num_gpus,duration_s,Wall\na,0,1,60,{other}\nb,1,1,60,{cell}\n"
    columns = "job_id=job,time_limit_s=Wall"
    with pytest.raises(
        ValueError, match=r"line 3, column Wall \(time_limit_s\): .* expected .*; 0: no limit"
    ):
        read(tmp_path, rows, columns=columns)
    with pytest.raises(ValueError, match="column duration_s") as found:
        read(tmp_path, rows.replace(f"b,1,1,60,{cell}", "b,1,1,x,600"), columns=columns)
    assert "no limit" not in str(found.value)
