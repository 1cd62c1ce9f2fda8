"""Malformed files are refused, and valid ones are read unchanged."""

import gzip
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_cluster_gym import traces
from gpu_cluster_gym.simulator.vocabulary import MAX_SERVERS
from tests.cases.bad_input import BAD_CSV, HEADER, TARGET_BUSY_SHARE, Bad
from tests.cases.some_jobs import some_jobs

ROOT = Path(__file__).resolve().parent.parent.parent


def read(folder: Path, content: str | bytes, name: str = "jobs.csv", jobs: int | None = None) -> pd.DataFrame:
    """Return the job table of a file with this content."""
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return traces.load(file=file, seed=0, jobs=jobs)


# Bad files


@pytest.mark.parametrize("bad", BAD_CSV, ids=lambda bad: bad.case)
def test_a_bad_file_is_named_with_its_line_and_column(tmp_path: Path, bad: Bad) -> None:
    with pytest.raises(traces.TraceError) as caught:
        read(tmp_path, bad.content, bad.name)
    error = caught.value
    assert (error.line, error.column) == (bad.line, bad.column)
    assert bad.word in str(error)
    assert str(error).startswith(str(tmp_path / bad.name))


def test_cells_that_a_spreadsheet_would_run_are_counted(tmp_path: Path) -> None:
    """A number with a sign is none, nor is a sign inside a name."""
    rows = "=1+1,0,1,9,a\n@SUM(1),0,1,9,+cmd\n-5,0,1,9,a=b\n+1e3,0,1,9,a\n"
    table = read(tmp_path, f"{HEADER},user\n{rows}".encode(), "jobs.csv")
    assert any(
        "like a formula of a spreadsheet" in note and ": 3; import" in note for note in table.attrs["notes"]
    )
    harmless = read(tmp_path, f"{HEADER}\n-5,0,1,9\na-b,0,1,9\n".encode(), "jobs.csv")
    assert not harmless.attrs["notes"]


@pytest.mark.parametrize("place", ["nowhere.csv", ".", "/dev/zero", "nowhere.csv.gz"])
def test_a_path_that_is_no_file_is_an_error(tmp_path: Path, place: str) -> None:
    with pytest.raises(traces.TraceError, match=r"expected a .*file"):
        traces.load(file=tmp_path / place, seed=0)


def test_an_error_names_place_and_expectation() -> None:
    error = traces.TraceError("jobs.csv", 7, "duration_s", "'-3'", "a number of seconds > 0")
    assert str(error) == "jobs.csv, line 7, column duration_s: found '-3', expected a number of seconds > 0"
    assert isinstance(error, ValueError)


def test_an_error_can_be_pickled() -> None:
    error = traces.TraceError("jobs.csv", 7, None, "nothing", "something")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_line_numbers_are_those_of_the_file_with_multiline_fields(tmp_path: Path) -> None:
    with pytest.raises(traces.TraceError) as caught:
        read(tmp_path, f'{HEADER},remark\na,0,1,60,"one\ntwo"\nb,30,2,x,three\n')
    assert (caught.value.line, caught.value.column) == (4, "duration_s")


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
def test_a_bomb_is_refused_within_memory(tmp_path: Path) -> None:
    """400 kB hold 400 MB of rows; refusing them may take 500 MB, interpreter and libraries included."""
    bomb = tmp_path / "bomb.csv.gz"
    with gzip.open(bomb, "wb") as stream:
        stream.write(f"{HEADER}\n".encode())
        for _ in range(400):
            stream.write(b"1,0,1,1\n" * 125_000)
    assert bomb.stat().st_size < 1_000_000
    code = f"""
import resource
from gpu_cluster_gym import traces
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
try:
    traces.load(file={str(bomb)!r}, seed=0)
except traces.TraceError as error:
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print("refused:", error.expected, peak.split()[1])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("refused: at most")
    assert int(done.stdout.split()[-1]) < 500_000  # kB


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_mutation_gives_a_table_or_a_trace_error(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(
        data.draw(
            st.sampled_from([TARGET_BUSY_SHARE.encode(), gzip.compress(TARGET_BUSY_SHARE.encode(), mtime=0)])
        )
    )
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 5))
        content[place : place + length] = data.draw(st.binary(max_size=6) | st.sampled_from(TROUBLE))
    for name in ("jobs.csv", "jobs.csv.gz"):
        try:
            table = read(tmp_path, bytes(content), name)
        except traces.TraceError:
            continue
        else:
            assert np.isfinite(table["submit_s"]).all()
            assert (table["duration_s"] > 0).all()
            assert (table["num_gpus"] >= 1).all()
            assert table["job_id"].is_unique


TROUBLE = [b"nan", b"-", b"1e999", b'"', b"\r", b"\n", b",", b"\x00", "٣".encode(), b"\xff", b"9" * 40]


def test_a_trace_may_ask_for_as_many_servers_as_the_simulator_has(tmp_path: Path) -> None:
    header = f"{HEADER},servers\n"
    assert read(tmp_path, f"{header}a,0,1,60,{MAX_SERVERS}\n")["servers"].tolist() == [MAX_SERVERS]
    with pytest.raises(traces.TraceError, match=f"from 0 to {MAX_SERVERS}"):
        read(tmp_path, f"{header}a,0,1,60,{MAX_SERVERS + 1}\n")


# Good files


def test_a_good_file_is_read_as_it_is(tmp_path: Path) -> None:
    table = read(tmp_path, TARGET_BUSY_SHARE)
    assert table.to_dict("list") == {
        "job_id": ["a", "b", "c"],
        "submit_s": [0.0, 30.0, 45.5],
        "num_gpus": [1, 2, 1],
        "duration_s": [60.0, 3600.0, 7.25],
    }
    origin = dict.fromkeys(table.columns, "measured")
    assert table.attrs == {"origin": origin, "notes": [], "zero_s": 0.0}, "time 0 is the first submission"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("jobs.csv.gz", gzip.compress(TARGET_BUSY_SHARE.encode())),
        ("jobs.csv", TARGET_BUSY_SHARE.replace("\n", "\r\n").encode()),
        ("jobs.csv", TARGET_BUSY_SHARE.replace("\n", "\r").encode()),
        ("jobs.csv", b"\xef\xbb\xbf" + TARGET_BUSY_SHARE.encode()),  # Excel's mark of UTF-8
        ("jobs.csv", TARGET_BUSY_SHARE.rstrip("\n").encode()),
        ("jobs.csv", TARGET_BUSY_SHARE.encode() + b"\n\n"),
        (
            "jobs.csv",
            "".join(
                f"{d},{i},{s},{n}\n" for i, s, n, d in (line.split(",") for line in TARGET_BUSY_SHARE.split())
            ),
        ),
        (
            "jobs.csv",
            "\n".join(
                ",".join(f'"{cell}"' for cell in line.split(",")) for line in TARGET_BUSY_SHARE.split()
            ),
        ),
    ],
    ids=[
        "gzip",
        "Windows",
        "old Macintosh",
        "Excel",
        "no last line end",
        "blank lines at the end",
        "other order",
        "quoted",
    ],
)
def test_equivalent_files_give_the_same_table(tmp_path: Path, name: str, content: str | bytes) -> None:
    pd.testing.assert_frame_equal(
        read(tmp_path, content, name), read(tmp_path, TARGET_BUSY_SHARE, "good.csv")
    )


def test_times_and_ids_are_unchanged(tmp_path: Path) -> None:
    table = read(tmp_path, f'{HEADER}\n007,1507593600,1,60\n1e3,1507593600.25,1,0.1\n" x ",1507593601,1,1\n')
    assert table["job_id"].tolist() == ["007", "1e3", " x "]
    assert table["submit_s"].tolist() == [1507593600.0, 1507593600.25, 1507593601.0]
    assert table["duration_s"][1] == 0.1


def test_an_unsorted_file_is_sorted_stably_with_a_note(tmp_path: Path) -> None:
    table = read(tmp_path, f"{HEADER}\nlate,50,1,60\nb,30,1,60\na,30,1,60\nfirst,0,1,60\n")
    assert table["job_id"].tolist() == ["first", "b", "a", "late"]
    assert table.index.tolist() == [0, 1, 2, 3]
    assert table.attrs["notes"] == ["sorted by submit_s: jobs out of order at 2 places"]


def test_known_columns_are_read_and_unknown_ones_noted(tmp_path: Path) -> None:
    table = read(tmp_path, f"queue,{HEADER},user,prio\nq,a,0,1,60,ann,3\n")
    assert table.columns.tolist() == [*HEADER.split(","), "user"]
    assert table.attrs["notes"] == ["columns ignored, unknown to the job table: 'queue', 'prio'"]


def test_cpu_jobs_have_no_gpus(tmp_path: Path) -> None:
    table = read(tmp_path, f"{HEADER},kind\na,0,0,60,cpu\nb,1,1,60,gpu\n")
    assert table["num_gpus"].tolist() == [0, 1]
    pd.testing.assert_frame_equal(read(tmp_path, f"{HEADER}\na,0,0,60\nb,1,1,60\n"), table, check_like=True)


def test_the_first_jobs_of_a_file_can_be_requested(tmp_path: Path) -> None:
    table = read(tmp_path, TARGET_BUSY_SHARE, jobs=2)
    assert table["job_id"].tolist() == ["a", "b"]
    assert table.attrs["notes"] == ["the first 2 of 3 jobs are used"]


def test_checking_twice_changes_nothing() -> None:
    table = some_jobs()
    pd.testing.assert_frame_equal(traces.check(table), table)
    assert traces.check(table).attrs == table.attrs


def test_a_table_in_memory_is_checked_the_same_way() -> None:
    with pytest.raises(traces.TraceError, match=r"job table, line 12, column num_gpus: found '2.5'"):
        some_jobs(num_gpus=[1.0] * 10 + [2.5] + [1.0] * 489)


def test_integers_are_ids_too() -> None:
    assert some_jobs(3, job_id=[30, 10, 20])["job_id"].tolist() == [30, 10, 20]


def test_a_full_trace_is_unchanged_by_writing_and_reading(tmp_path: Path) -> None:
    """120,000 jobs are more than the reader's chunk."""
    table = some_jobs(120_000)
    file = tmp_path / "jobs.csv"
    table.to_csv(file, index=False)
    pd.testing.assert_frame_equal(traces.load(file=file, seed=0), table)


# Names


def test_every_trace_is_a_module_and_the_generic_one_is_not_named() -> None:
    assert "philly" in traces.names()
    assert {"generic", "_table"}.isdisjoint(traces.names())


def test_an_error_for_an_unknown_trace_lists_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match=r"unknown trace 'filly': expected one of .*philly.*did you mean 'philly'"
    ):
        traces.load("filly", seed=0)


def test_a_trace_without_generator_asks_for_a_file() -> None:
    with pytest.raises(traces.TraceError, match="--trace-file"):
        traces.load(seed=0)


def test_names_are_listed_without_loading_pandas() -> None:
    code = "import sys\nfrom gpu_cluster_gym import traces\ntraces.names()\n"
    code += "print({'pandas', 'scipy'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("columns", "good", "bad", "column"),
    [
        ("min_workers,max_workers", "1,8", "8,1", "max_workers"),
        ("active_ms,idle_ms", "0,1", "0,0", "active_ms"),
        ("deadline_s", "30", "29", "deadline_s"),
        ("profiled_duration_s", "1", "1e-308", "profiled_duration_s"),
        ("predicted_duration_s", "1", "1e-308", "predicted_duration_s"),
    ],
)
def test_cells_that_contradict_each_other_are_refused(
    columns: str, good: str, bad: str, column: str, tmp_path: Path
) -> None:
    text = f"job_id,submit_s,num_gpus,duration_s,{columns}\na,30,2,10,{{}}\n"
    assert len(read(tmp_path, text.format(good).encode(), "good.csv")) == 1
    with pytest.raises(traces.TraceError) as caught:
        read(tmp_path, text.format(bad).encode(), "bad.csv")
    assert (caught.value.line, caught.value.column) == (2, column)


@pytest.mark.parametrize(("unit", "noted"), [(1_000, True), (1, False)])
def test_run_times_that_look_like_milliseconds_are_noted(unit: int, noted: bool, tmp_path: Path) -> None:
    rows = "".join(f"{job},{job},1,{3_600 * unit}\n" for job in range(3))
    table = read(tmp_path, f"job_id,submit_s,num_gpus,duration_s\n{rows}".encode(), "jobs.csv")
    assert any("milliseconds" in note for note in table.attrs["notes"]) == noted
