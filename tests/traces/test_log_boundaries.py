"""Rules of the readers hold at their boundaries, and what is read fast is what the strict reading gives."""

import sys
from datetime import datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import traces
from gpu_cluster_gym.traces import _delimited, philly, slurm, swf
from gpu_cluster_gym.traces._log import Head
from gpu_cluster_gym.traces._times import NO_ZONE, Clock, Times, spans
from tests.cases.bad_logs import SLURM_HEADER, SLURM_JOB, SWF_HEADER, SWF_JOB

DAY, HOUR = 86_400.0, 3_600.0


def read(folder: Path, text: str, name: str = "log.csv", **options: Any) -> pd.DataFrame:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return traces.load(file=file, seed=0, **options)


def sacct(folder: Path, *jobs: str, header: str = SLURM_HEADER, **options: Any) -> pd.DataFrame:
    return read(folder, "\n".join([header, *jobs, ""]), "sacct.txt", **options)


def job(number: int = 101, **fields: str) -> str:
    """Return a line of `sacct` that differs from `SLURM_JOB` in some fields."""
    cells = dict(zip(SLURM_HEADER.split("|"), SLURM_JOB.split("|"), strict=True))
    return "|".join((cells | {"JobID": str(number)} | fields).values())


def logs_of_processors(folder: Path, *jobs: str) -> pd.DataFrame:
    return read(folder, SWF_HEADER + "".join(f"{each}\n" for each in jobs), "log.swf")


def count(table: pd.DataFrame, what: str) -> int:
    """Return the count of the notes that contain a text, 0 without any."""
    found = [note for note in table.attrs["notes"] if what in note]
    return sum(int(note.rpartition(": ")[2].replace(",", "")) for note in found)


# Times and durations


def seconds(*texts: str, zone: str | None = None) -> Times:
    return Clock(zone).times(texts, range(len(texts)), "at", "log")


@pytest.mark.parametrize(
    ("zone", "east_s"),
    [
        ("", 0.0),
        ("Z", 0.0),
        ("UTC", 0.0),
        ("+02", 2 * HOUR),
        ("-08", -8 * HOUR),
        ("+05:30", 5.5 * HOUR),
        ("-0330", -3.5 * HOUR),
        ("+15:59", 15 * HOUR + 59 * 60),
    ],
)
def test_a_zone_is_subtracted(zone: str, east_s: float) -> None:
    noon = datetime(2024, 3, 1, 12, tzinfo=ZoneInfo("UTC")).timestamp()
    assert seconds(f"2024-03-01 12:00:00{zone}").early.tolist() == [noon - east_s]


@pytest.mark.parametrize("zone", ["+16:00", "+05:60", "-99"])
def test_a_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(traces.TraceError, match="a time like"):
        seconds(f"2024-03-01 12:00:00{zone}")


def test_parts_of_a_time_may_lack() -> None:
    texts = "2024-03-01", "2024-03-01 10:05", "2024-03-01T10:05:06.25", "2024-03-01 10:05:06,5Z"
    midnight = datetime(2024, 3, 1, tzinfo=ZoneInfo("UTC")).timestamp()
    minutes = 10 * HOUR + 5 * 60
    assert (seconds(*texts).early - midnight).tolist() == [0.0, minutes, minutes + 6.25, minutes + 6.5]


def test_an_hour_shown_twice_has_both_readings_with_their_fractions() -> None:
    zone = ZoneInfo("Europe/Berlin")
    first, second = (datetime(2024, 10, 27, 2, 30, tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    found = seconds("2024-10-27 02:30:00.5", "2024-10-27 04:00:00", zone="Europe/Berlin")
    later = datetime(2024, 10, 27, 4, tzinfo=zone).timestamp()
    assert found.early.tolist() == [first + 0.5, later]
    assert found.late.tolist() == [second + 0.5, later]
    assert second - first == HOUR


def test_the_later_reading_counts_only_where_the_earlier_is_too_early() -> None:
    two = Times(np.array([10.0, 10.0, 10.0]), np.array([20.0, 20.0, 20.0]))
    assert two.after(np.array([9.0, 10.0, 11.0])).tolist() == [10.0, 10.0, 20.0]


@pytest.mark.parametrize(
    ("cells", "found"),
    [(("7", "2024-03-01 10:00:00"), "'2024-03-01 10:00:00'"), (("2024-03-01 10:00:00", "7"), "'7'")],
)
def test_the_first_cell_decides_whether_times_are_numbers(cells: tuple[str, ...], found: str) -> None:
    with pytest.raises(traces.TraceError, match=found) as caught:
        seconds(*cells)
    assert (caught.value.line, caught.value.column) == (1, "at")


@pytest.mark.parametrize(
    ("zone", "texts", "expected"),
    [
        (None, ("2024-03-01 10:00:00",), [NO_ZONE]),
        (None, ("2024-03-01 10:00:00Z",), []),
        ("Europe/Berlin", ("2024-03-01 10:00:00", "2024-03-01 10:00:00Z"), []),
        (
            "Europe/Berlin",
            ("2024-03-01 10:00:00Z",),
            ["--time-zone Europe/Berlin is not used, since every time of the log has its zone"],
        ),
    ],
)
def test_notes_say_where_a_zone_is_missing_or_unused(
    zone: str | None, texts: tuple[str, ...], expected: list[str]
) -> None:
    clock = Clock(zone)
    clock.times(texts, range(len(texts)), "at", "log")
    assert clock.notes() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0.0),
        ("90.5", 90.5),
        ("59:59", 3599.0),
        ("90:00", 5400.0),  # minutes alone may be many
        ("01:59:59", 2 * HOUR - 1),
        ("25:00:00", 25 * HOUR),  # so may hours
        ("1-23:59:59", 2 * DAY - 1),
        ("1-02:03:04.5", DAY + 2 * HOUR + 3 * 60 + 4.5),
        ("2-03", 2 * DAY + 3 * HOUR),
        ("2-03:04", 2 * DAY + 3 * HOUR + 4 * 60),
    ],
)
def test_a_duration_is_the_sum_of_its_parts(text: str, expected: float) -> None:
    assert spans([text], [1], "ran", "log").tolist() == [expected]


@pytest.mark.parametrize("text", ["59:60", "01:60:00", "1-24:00:00", "1-24", "1-23:60", "-1", ""])
def test_a_duration_whose_parts_are_too_large_is_refused(text: str) -> None:
    with pytest.raises(traces.TraceError, match="a duration like") as caught:
        spans(["5", text], [3, 4], "ran", "log")
    assert (caught.value.line, caught.value.column) == (4, "ran")


# Slurm


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("5-5", ["5"]),
        ("1-7:2,9", ["1", "3", "5", "7", "9"]),
        ("3,4%1", ["3", "4"]),
        ("1-3:0", []),
        ("4-3", []),
        ("0-100000", []),
        ("1,x", []),
    ],
)
def test_tasks_of_an_array_are_listed(text: str, tasks: list[str]) -> None:
    assert slurm.array_tasks(text) == tasks


def test_an_array_may_have_a_hundred_thousand_tasks() -> None:
    assert len(slurm.array_tasks("0-99999")) == slurm.MAX_TASKS == 100_000
    assert slurm.array_tasks("0-199998:2")[-1] == "199998"
    assert slurm.array_tasks("0-200000:2") == []


def test_an_array_of_too_many_tasks_is_refused(tmp_path: Path) -> None:
    """Each part has few enough, both together one too many."""
    rest = job(State="PENDING", Start="Unknown", End="Unknown").replace("101", "101_[0-99999,100000]", 1)
    file = tmp_path / "sacct.txt"
    file.write_text("\n".join([SLURM_HEADER, rest, ""]))
    with pytest.raises(traces.TraceError, match="at most 100,000") as caught:
        traces.snapshot(file)
    assert (caught.value.line, caught.value.column) == (2, "JobID")


def pending(number: str) -> str:
    return job(State="PENDING", Start="Unknown", End="Unknown").replace("101", number, 1)


def snapshot_of(folder: Path, *jobs: str) -> traces.Snapshot:
    (file := folder / "sacct.txt").write_text("\n".join([SLURM_HEADER, *jobs, ""]))
    return traces.snapshot(file)


def test_the_one_task_left_of_an_array_is_a_job_of_its_own_name(tmp_path: Path) -> None:
    """Its first attempt, which ended on a node that failed, is the same job."""
    failed = job(State="NODE_FAIL").replace("101", "101_3", 1)
    found = snapshot_of(tmp_path, failed, pending("101_[3]"))
    assert found.queued["job_id"].tolist() == ["101_3"]
    assert found.history.empty
    assert not any("tasks of arrays" in note for note in found.notes)


def test_further_tasks_of_a_pending_array_are_counted(tmp_path: Path) -> None:
    found = snapshot_of(tmp_path, job(), pending("102_[3-5]"), pending("103_[1,9]"))
    assert found.queued["job_id"].tolist() == ["102_3", "102_4", "102_5", "103_1", "103_9"]
    what = "pending tasks of arrays that share a line with another task: 3"
    assert what in found.notes


def test_a_running_job_without_a_run_time_is_unfinished(tmp_path: Path) -> None:
    running = job(102, State="RUNNING", End="Unknown", ElapsedRaw="0")
    table = sacct(tmp_path, job(), running)
    assert table["job_id"].tolist() == ["101"]
    assert count(table, "unfinished when the log was taken") == 1


@pytest.mark.parametrize(("eligible", "arrival_s"), [("01:09:59", 599), ("01:10:00", 600), ("01:10:01", 0)])
def test_eligibility_after_the_start_is_no_arrival(tmp_path: Path, eligible: str, arrival_s: float) -> None:
    """The second job is submitted with the first at 01:00 and starts at 01:10."""
    later = job(102, Eligible=f"2024-03-01T{eligible}")
    assert sorted(sacct(tmp_path, job(), later)["submit_s"])[1] == arrival_s


@pytest.mark.parametrize(
    ("elapsed", "counted"), [("3599", 0), ("3600", 0), ("3601", 0), ("3602", 1), ("3598", 1)]
)
def test_a_run_time_may_differ_by_a_second_from_end_minus_start(
    tmp_path: Path, elapsed: str, counted: int
) -> None:
    table = sacct(tmp_path, job(ElapsedRaw=elapsed))
    assert table["duration_s"].tolist() == [float(elapsed)]
    assert count(table, "differ from the end minus the start") == counted


@pytest.mark.parametrize("elapsed", ["3590", "3600", "3610"])
def test_a_start_shown_twice_is_the_one_nearer_to_the_run_time(tmp_path: Path, elapsed: str) -> None:
    """To 03:10 in Berlin it is an hour from the second 02:10, 130 minutes after 01:00, and two from the first."""
    day = "2024-10-27T"
    submitted = f"{day}01:00:00"
    fields = {"Submit": submitted, "Eligible": submitted, "Start": f"{day}02:10:00", "End": f"{day}03:10:00"}
    row = job(101, **fields, ElapsedRaw=elapsed)
    assert sacct(tmp_path, row, time_zone="Europe/Berlin")["logged_start_s"].tolist() == [130 * 60]


def without(*names: str) -> tuple[str, str]:
    """Return the header and a line of `sacct` without some fields."""
    cells = zip(SLURM_HEADER.split("|"), SLURM_JOB.split("|"), strict=True)
    kept = [(name, cell) for name, cell in cells if name not in names]
    return "|".join(name for name, _ in kept), "|".join(cell for _, cell in kept)


def test_without_elapsed_time_a_run_lasts_from_start_to_end(tmp_path: Path) -> None:
    header, line = without("ElapsedRaw")
    assert sacct(tmp_path, line, header=header)["duration_s"].tolist() == [3600]


def test_a_limit_may_have_hours_minutes_and_seconds(tmp_path: Path) -> None:
    header, line = SLURM_HEADER.replace("TimelimitRaw", "Timelimit"), job(TimelimitRaw="1-01:00:00")
    assert sacct(tmp_path, line, header=header)["time_limit_s"].tolist() == [25 * HOUR]


def test_cores_come_from_tres_or_else_from_their_own_field(tmp_path: Path) -> None:
    """Memory has no cores; a job without any has one."""
    rows = [
        job(101, NCPUS="4", ReqTRES="", AllocTRES="cpu=6,gres/gpu=1"),
        job(102, NCPUS="4", ReqTRES="", AllocTRES="mem=6G,gres/gpu=1"),
    ]
    assert sacct(tmp_path, *rows)["cpu_cores"].tolist() == [6, 4]
    header, line = without("NCPUS")
    table = sacct(tmp_path, line.replace("cpu=8", "mem=8G").replace("billing=8,mem=8G,", ""), header=header)
    assert "cpu_cores" not in table


def test_types_of_gpus_are_noted_where_there_are_several(tmp_path: Path) -> None:
    rows = [job(101 + k, AllocTRES=f"cpu=8,gres/gpu:{kind}=1") for k, kind in enumerate(("v100", "a100"))]
    what = "types of GPUs in the log, which bind jobs only with --constraints gpu_type"
    assert f"{what}: a100, v100" in sacct(tmp_path, *rows).attrs["notes"]
    assert not any(what in note for note in sacct(tmp_path, rows[0]).attrs["notes"])


def test_a_total_beside_types_counts_the_same_gpus(tmp_path: Path) -> None:
    cells = ("gres/gpu=2,gres/gpu:a100=3", "gres/gpu=4,gres/gpu:a100=3", "gres/gpu:a100", "gres/gpu")
    rows = [job(101 + k, AllocTRES=f"cpu=8,{cell}") for k, cell in enumerate(cells)]
    assert sacct(tmp_path, *rows)["num_gpus"].tolist() == [3, 4, 1, 1]


def test_the_request_counts_where_nothing_was_allocated(tmp_path: Path) -> None:
    rows = [job(101, AllocTRES=""), job(102, AllocTRES="cpu=8"), job(103, AllocTRES="cpu=8,gres/gpu=1")]
    assert sacct(tmp_path, *rows)["num_gpus"].tolist() == [2, 2, 1]


def test_merged_jobs_have_the_longest_limit(tmp_path: Path) -> None:
    """Components run at once, for as long as the longest of them; attempts run one after another."""
    parts = [
        job(ElapsedRaw=elapsed, TimelimitRaw=limit).replace("101", f"101+{k}", 1)
        for k, (elapsed, limit) in enumerate([("3600", "120"), ("3500", "180"), ("3400", "60")])
    ]
    table = sacct(tmp_path, *parts)
    assert table[["duration_s", "time_limit_s", "profiled_duration_s"]].to_numpy().tolist() == [
        [3600, 180 * 60, 180 * 60]
    ]
    assert (count(table, "run as one gang"), count(table, "components of heterogeneous jobs, merged")) == (
        1,
        2,
    )


def test_attempts_have_the_gpus_and_the_state_of_the_last(tmp_path: Path) -> None:
    """In any order of lines: 600 s on 2 GPUs from 01:10, then 1,800 s on 4 from 03:00."""
    first = job(State="NODE_FAIL", End="2024-03-01T01:20:00", ElapsedRaw="600")
    last = job(
        Submit="2024-03-01T01:20:00",
        Eligible="2024-03-01T01:20:00",
        Start="2024-03-01T03:00:00",
        End="2024-03-01T03:30:00",
        ElapsedRaw="1800",
        AllocTRES="cpu=8,gres/gpu=4",
        TimelimitRaw="240",
    )
    for rows in ((first, last), (last, first)):
        table = sacct(tmp_path, *rows)
        assert table[["submit_s", "logged_start_s", "duration_s", "num_gpus"]].to_numpy().tolist() == [
            [0, 600, 2400, 4]
        ]
        assert (table["status"].tolist(), table["time_limit_s"].tolist()) == (["COMPLETED"], [240 * 60])
        assert (
            count(table, "requeued jobs, whose attempts are merged"),
            count(table, "further attempts, merged"),
        ) == (1, 1)


@pytest.mark.parametrize("form", ["slurm", "swf"])
def test_a_log_that_begins_with_a_blank_line(tmp_path: Path, form: str) -> None:
    """Slurm's has no header then; numbers need none."""
    file = tmp_path / "log.txt"
    file.write_text("\n" + (f"{SLURM_HEADER}\n{SLURM_JOB}\n" if form == "slurm" else f"{SWF_JOB}\n"))
    if form == "swf":
        assert traces.load(form, file, seed=0)["num_gpus"].tolist() == [16]
        return
    with pytest.raises(traces.TraceError, match="found a blank line, expected a header") as caught:
        traces.load(form, file, seed=0)
    assert caught.value.line == 1


# The Standard Workload Format

BODY = b"1 0 30 3600 16 -1 -1 16 7200 -1 1 3 2 1 1 1 -1 -1\n2 5.5 0 60 1 -1 -1 1 -1 -1 1 3 2 1 1 1 -1 -1"


def test_numbers_are_read_fast_and_as_the_strict_reading_reads_them() -> None:
    fast = swf._fast(BODY, 4)
    assert fast is not None
    for found, expected in zip(fast, swf._strict(BODY, 4, "log.swf"), strict=True):
        assert found.tolist() == expected.tolist()
    assert fast[1].tolist() == [4, 5]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        BODY.replace(b"5.5", b"x"),
        BODY.replace(b" 5.5", b""),
        BODY.replace(b"5.5", b"1000000000000000"),
        BODY.replace(b"\n", b"\n\n"),
        BODY.replace(b"\n", b"\n\r\n"),
        BODY.replace(b"\n", b"\n  \n"),
        BODY.replace(b"\n", b"\n; a comment\n"),
    ],
    ids=["empty", "a word", "17 fields", "too large", "a blank line", "a bare end", "blanks", "a comment"],
)
def test_other_numbers_are_read_strictly(body: bytes) -> None:
    assert swf._fast(body, 1) is None


def test_a_line_of_blanks_is_counted(tmp_path: Path) -> None:
    with pytest.raises(traces.TraceError) as caught:
        logs_of_processors(tmp_path, SWF_JOB, "   ", SWF_JOB.replace("1 0 30", "2 -5 30"))
    assert (caught.value.line, caught.value.column) == (6, "submit time")


def test_0_is_no_number_of_processors_and_no_limit_but_a_wait(tmp_path: Path) -> None:
    table = logs_of_processors(
        tmp_path,
        "0 0 0 60 0 -1 -1 3 0 -1 1 3 2 1 1 1 -1 -1",  # nothing allocated: as requested
        "1 0 0 60 4 -1 -1 0 60 -1 1 3 2 1 1 1 -1 -1",  # nothing requested: no difference
        "2 0 7 60 8 -1 -1 4 1 -1 1 3 2 1 1 1 -1 -1",  # more than requested
        "3 0 0 1 1 -1 -1 1 60 -1 1 3 2 1 1 1 -1 -1",
        "4 0 0 0 1 -1 -1 1 60 -1 1 3 2 1 1 1 -1 -1",  # no run time
    )
    assert table["job_id"].tolist() == ["0", "1", "2", "3"]
    assert table["num_gpus"].tolist() == [3, 4, 8, 1]
    assert table["time_limit_s"].tolist() == [60, 60, 1, 60]
    assert table["logged_start_s"].tolist() == [0, 0, 7, 0]
    for what in ("allocated processors differ from", "without a time limit", "no run time"):
        assert count(table, what) == 1


@pytest.mark.parametrize(
    ("start", "column"),
    [
        ("-1 0 30 ", "job number"),
        ("1 -1 30 ", "submit time"),
        ("1 0 -2 ", "wait time"),
        ("1 0 -1.5 ", "wait time"),
    ],
)
def test_a_number_just_below_its_least_is_refused(tmp_path: Path, start: str, column: str) -> None:
    with pytest.raises(traces.TraceError) as caught:
        logs_of_processors(tmp_path, SWF_JOB.replace("1 0 30 ", start))
    assert (caught.value.line, caught.value.column) == (4, column)


def test_a_wait_of_0_is_known(tmp_path: Path) -> None:
    waits = [SWF_JOB.replace("1 0 30 ", f"{number} 0 {wait} ") for number, wait in enumerate((0, 5, -1), 1)]
    table = logs_of_processors(tmp_path, *waits)
    assert "logged_start_s" not in table
    assert count(table, "wait time is unknown") == 1


@pytest.mark.parametrize(
    ("comments", "note"),
    [
        ("; MaxProcs: 8\n; MaxNodes: 4\n", "the log's machines: 8 processors on 4 nodes (--cluster 4x2)"),
        ("; MaxProcs: 9\n; MaxNodes: 4\n", "the log's machines: 9 processors on 4 nodes"),
        ("; MaxProcs: 9\n; MaxNodes: 0\n", "the log's machines: 9 processors on 0 nodes"),
        ("; MaxProcs: 9\n", None),
        ("", None),
    ],
)
def test_the_machines_of_a_header_are_noted(tmp_path: Path, comments: str, note: str | None) -> None:
    table = read(tmp_path, f"{comments}{SWF_JOB}\n", "log.swf")
    assert [each for each in table.attrs["notes"] if "machines" in each] == ([note] if note else [])


# Which format


@pytest.mark.parametrize(
    ("text", "is_philly"),
    [
        (' [{"vc": "a", "attempts": []}]', True),
        ('{"vc": "a", "attempts": []}', False),
        ('[{"vc": "a"}]', False),
        ('[{"attempts": []}]', False),
    ],
)
def test_phillys_log_is_a_list_of_jobs_with_attempts(text: str, is_philly: bool) -> None:
    assert philly.looks_like(Head("log", text)) == is_philly


@pytest.mark.parametrize(
    ("line", "is_slurm"),
    [
        ("JobID|Submit|User", True),
        ("JobIDRaw|Elapsed", True),
        ("JobID|User", False),
        ("Submit|State", False),
        ("JobID,Submit", False),
    ],
)
def test_slurms_log_has_ids_and_times_between_bars(line: str, is_slurm: bool) -> None:
    assert slurm.looks_like(Head("log", f"{line}\n")) == is_slurm


@pytest.mark.parametrize(
    ("line", "is_swf"), [(SWF_JOB, True), ("; a comment", True), ("1 2 3", False), (f"{SWF_JOB} 5", False)]
)
def test_a_log_of_numbers_has_18_or_a_comment(line: str, is_swf: bool) -> None:
    assert swf.looks_like(Head("log", f"{line}\n")) == is_swf


# Delimited text


def test_a_column_of_numbers_has_its_least_and_its_blanks() -> None:
    def found(*cells: str, **options: Any) -> list[float]:
        lines = np.arange(7, 9, dtype=np.int64)
        column: list[float] = _delimited.numbers(**options)(
            np.array(cells, object), lines, "n", "log"
        ).tolist()
        return column

    assert found("0", "2.5") == [0.0, 2.5]
    assert found("-3", "2", least=-np.inf, whole=True) == [-3.0, 2.0]
    blank, known = found("", "2", blank=("",), least=2.0)
    assert np.isnan(blank)
    assert known == 2.0
    for cells, options, expected in (
        (("1", "-1"), {}, "a number >= 0"),
        (("1", "0.5"), {"whole": True}, "a whole number >= 0"),
        (("3", "1"), {"least": 2.0}, "a number >= 2"),
        (("1", "1e15"), {}, "a number >= 0"),
        (("1", "-1e15"), {"least": -np.inf}, "a number"),
    ):
        with pytest.raises(traces.TraceError) as caught:
            found(*cells, **options)
        assert (caught.value.line, caught.value.column, caught.value.expected) == (8, "n", expected)


def plain(body: bytes, width: int = 2) -> bool:
    return _delimited._is_plain(body, ",", width)


@pytest.mark.parametrize("bytes_at_once", [1, 4, 2**24])
def test_lines_of_equal_width_without_quotes_are_split_fast(
    bytes_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_delimited, "BYTES_AT_ONCE", bytes_at_once)
    assert plain(b"a,b\nc,d\nee,ff")
    assert plain(b"a,b")
    assert plain(b"a,b,c\nd,e,", 3)
    assert not plain(b"a,b,c\nd\ne,f"), "the second line lacks what the first has too many"
    assert not plain(b"a\nd,b,c\ne,f")
    assert not plain(b"a,b\nd,b,c\ne")
    assert not plain(b"a,b\nc")
    assert not plain(b'a,"b"\nc,d')
    assert not plain(b"a,b\n\nc,d")
    assert not plain(b"a,b\0\nc,d")
    assert not plain(b"a\nb", 1)


@pytest.mark.parametrize("length", [131_072, 131_073])
def test_a_line_longer_than_the_standard_library_reads_is_refused_by_it(length: int) -> None:
    """131,072 bytes, its limit of a field, including the end of the line."""
    line = b"a," + b"b" * (length - 3)
    assert plain(line + b"\nc,d") == (length <= _delimited.MAX_LINE)


def test_a_header_has_at_most_a_hundred_thousand_columns() -> None:
    def headings(number: int) -> list[str]:
        row = ",".join(f"c{k}" for k in range(number))
        return _delimited._first_row(f"{row}\n".encode(), "log", ",")[0]

    assert len(headings(100_000)) == 100_000
    with pytest.raises(traces.TraceError, match="100,001 columns, expected at most 100,000") as caught:
        headings(100_001)
    assert caught.value.line == 1


def test_a_header_with_an_open_quote_is_refused(tmp_path: Path) -> None:
    (file := tmp_path / "log.csv").write_text('a,"b\n1,2\n')
    with pytest.raises(traces.TraceError, match="expected a header") as caught:
        _delimited.header_of(file)
    assert (caught.value.line, caught.value.column) == (1, None)


def test_a_header_of_four_mebibytes_is_read_to_its_end(tmp_path: Path) -> None:
    names = [f"{k:045}" for k in range((4 << 20) // 46)]
    (file := tmp_path / "log.csv").write_text(",".join(names) + "\n")
    assert file.stat().st_size > (4 << 20) - 46
    assert _delimited.header_of(file)[-1] == names[-1]


def test_the_first_delimiter_of_the_header_counts() -> None:
    for line, expected in (("a;b,c", ","), ("a;b|c", ";"), ("a\tb;c", "\t"), ("a|b", "|"), ("a", ",")):
        assert _delimited.delimiter_of(Head("log", f"{line}\n")) == expected


@pytest.fixture
def parquet(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Replace pyarrow: files of two groups of rows, of some bytes each, whose table or error is set by a test."""
    held = SimpleNamespace(sizes=[1, 1], frame=pd.DataFrame({"a": [1]}), error=None)

    class ArrowError(Exception):
        """An error of pyarrow."""

    def opened(file: object) -> SimpleNamespace:
        if held.error:
            raise held.error
        groups = [SimpleNamespace(total_byte_size=size) for size in held.sizes]
        metadata = SimpleNamespace(num_row_groups=len(groups), row_group=groups.__getitem__)
        return SimpleNamespace(metadata=metadata, read=lambda: SimpleNamespace(to_pandas=lambda: held.frame))

    module, part = ModuleType("pyarrow"), ModuleType("pyarrow.parquet")
    part.ParquetFile = opened  # type: ignore[attr-defined]
    module.ArrowException, module.parquet = ArrowError, part  # type: ignore[attr-defined]
    held.ArrowError = ArrowError
    monkeypatch.setitem(sys.modules, "pyarrow", module)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", part)
    return held


def test_a_parquet_file_may_unpack_to_four_gibibytes(parquet: SimpleNamespace) -> None:
    parquet.sizes = [3 << 30, 1 << 30]
    assert {name: cells.tolist() for name, cells in _delimited.parquet("log").items()} == {"a": [1]}
    parquet.sizes = [3 << 30, (1 << 30) + 1]
    with pytest.raises(
        traces.TraceError, match=r"4,294,967,297 bytes when unpacked, expected at most 4,294,967,296"
    ):
        _delimited.parquet("log")


def test_a_damaged_parquet_file_is_refused(parquet: SimpleNamespace) -> None:
    for error in (parquet.ArrowError("cut"), OSError("cut"), ValueError("cut")):
        parquet.error = error
        with pytest.raises(traces.TraceError, match=r"found 'cut', expected a complete Parquet file"):
            _delimited.parquet("log")
