"""Philly's log is read according to its authors' description."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_cluster_gym import traces
from tests.cases.bad_input import BAD_LOG, JOB, Bad


def read(folder: Path, *jobs: dict[str, Any]) -> pd.DataFrame:
    """Return the job table of a log of these jobs."""
    file = folder / "cluster_job_log"
    file.write_text(json.dumps(jobs, indent=1))
    return traces.load("philly", file, seed=0)


def job(
    jobid: str, *attempts: tuple[str | None, str | None, int], submitted: str = "08:00:00"
) -> dict[str, Any]:
    """Return a job in the log's format: attempts of start, end and GPUs, all on one day."""
    return {
        "status": "Killed",
        "vc": "ee9e8c",
        "jobid": jobid,
        "attempts": [
            {
                "start_time": on_the_day(start),
                "end_time": on_the_day(end),
                "detail": [{"ip": f"m{gpu}", "gpus": ["gpu0"]} for gpu in range(gpus)],
            }
            for start, end, gpus in attempts
        ],
        "submitted_time": on_the_day(submitted),
        "user": "u1",
    }


def on_the_day(time: str | None) -> str | None:
    return f"2017-10-10 {time}" if time and time != "None" else time


# The log


def test_a_job_holds_gpus_from_start_to_end(tmp_path: Path) -> None:
    table = read(tmp_path, job("j1", ("08:05:00", "09:05:30", 4), submitted="08:00:10"))
    assert table.to_dict("records") == [
        {
            "job_id": "j1",
            "submit_s": 0.0,
            "num_gpus": 4,
            "duration_s": 3630.0,
            "user": "u1",
            "vc": "ee9e8c",
            "tenant": "ee9e8c",
            "status": "Killed",
            "logged_start_s": 290.0,
        }
    ]
    assert table.attrs["notes"] == []


def test_attempts_add_up_and_the_wait_between_them_does_not(tmp_path: Path) -> None:
    """Sixty seconds on 2 GPUs, an hour's wait, 30 s on 8: 90 s on the first attempt's 2 GPUs, from its start."""
    table = read(tmp_path, job("j1", ("08:05:00", "08:06:00", 2), ("09:06:00", "09:06:30", 8)))
    assert table[["num_gpus", "duration_s", "logged_start_s"]].iloc[0].tolist() == [2, 90, 300]


@pytest.mark.parametrize("unknown", [None, "", "None"])
def test_attempts_without_times_are_skipped_and_counted(tmp_path: Path, unknown: str | None) -> None:
    attempts = [(unknown, "08:30:00", 1), ("08:05:00", "08:06:00", 1), ("08:40:00", unknown, 1)]
    table = read(tmp_path, job("j1", *attempts))
    assert table["duration_s"].tolist() == [60]
    assert table["logged_start_s"].tolist() == [300]
    assert table.attrs["notes"] == [
        "attempts skipped, start or end unknown: 2",
        "jobs still running when the log was taken, last attempt not counted: 1",
    ]


def test_jobs_without_gpus_are_left_out_and_counted(tmp_path: Path) -> None:
    """Jobs without attempts, times, duration or GPUs are left out; the first job kept is at time 0."""
    table = read(
        tmp_path,
        job("never started", submitted="07:00:00"),
        job("unknown", (None, None, 1), submitted="07:00:00"),
        job("instant", ("08:00:00", "08:00:00", 1)),
        job("no GPU", ("08:00:00", "09:00:00", 0)),
        job("kept", ("08:30:00", "08:31:00", 1), submitted="08:20:00"),
    )
    assert table[["job_id", "submit_s"]].to_numpy().tolist() == [["kept", 0.0]]
    assert "jobs left out, no attempt that held GPUs for a known time: 4" in table.attrs["notes"]


def test_a_log_in_any_order_is_sorted(tmp_path: Path) -> None:
    late = job("late", ("09:00:00", "09:10:00", 1), submitted="08:30:00")
    early = job("early", ("09:00:00", "09:10:00", 1), submitted="08:10:00")
    table = read(tmp_path, late, early)
    assert table["job_id"].tolist() == ["early", "late"]
    assert table["submit_s"].tolist() == [0, 1200]


@pytest.mark.parametrize("bad", BAD_LOG, ids=lambda bad: bad.case)
def test_a_bad_log_is_named_with_its_line_and_field(tmp_path: Path, bad: Bad) -> None:
    file = tmp_path / bad.name
    file.write_bytes(bad.content)
    with pytest.raises(traces.TraceError) as caught:
        traces.load("philly", file, seed=0)
    assert (caught.value.line, caught.value.column) == (bad.line, bad.column)
    assert bad.word in str(caught.value)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_mutated_log_gives_a_table_or_a_trace_error(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(f"[{JOB},\n{JOB.replace('j1', 'j2')}]".encode())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content)))
        trouble = st.sampled_from([b"null", b"[", b"{}", b'"', b"NaN", b"-1", b"\\u0000", b"1e999"])
        content[place : place + data.draw(st.integers(0, 8))] = data.draw(trouble | st.binary(max_size=4))
    file = tmp_path / "cluster_job_log"
    file.write_bytes(content)
    try:
        table = traces.load("philly", file, seed=0)
    except traces.TraceError:
        return
    assert (table["duration_s"] > 0).all()
    assert (table["num_gpus"] >= 1).all()


def test_the_sample_of_the_original_schema_is_read(shared_data: Path) -> None:
    table = traces.load("philly", shared_data / "samples" / "philly" / "cluster_job_log", seed=0)
    assert table["num_gpus"].tolist() == [1, 16, 1]
    assert table["duration_s"].tolist() == [3600, 74 + 7200, 150]
