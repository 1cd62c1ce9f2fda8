"""Make random invalid edits of good logs, and count those for which the reader's error does not name the place.

`python -m benchmarks.bad_logs [--edits N] [--seed S]`

An edit puts a value that a field cannot have into one field of one job, or adds or removes a field of it, in a log of
each format that `traces` reads. The reader must raise a TraceError in one line, with the line of the file and, for a
value, the column; no edit may be repaired in silence. Every fault is printed; the exit code is 1 if there is any.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from gpu_cluster_gym import traces

EDITS = 20_000
WORDS = (
    "x",
    "one",
    "-",
    "--5",
    "1e",
    "nan",
    "inf",
    "-inf",
    "0x10",
    "1_000",
    "1 000",
    "½",
    "\u0663",
    "NaN.0",
    "1.2.3",
    "?",
)
"""Texts that are not numbers."""
NEGATIVE = ("-2", "-17", "-0.5", "-1e9")
NOT_WHOLE = ("0.5", "1.25", "3.0001")
NO_TIMES = (
    "yesterday", "2024-02-30 10:00:00", "2024-13-01 10:00:00", "2024-03-01 25:00:00", "2024-03-01 10:61:00", "10:00:00",
    "01/03/2024 10:00", "2024-3-1 10:00:00", "2024-03-01 10:00:00 CET", "2024-03-01 10:00:00+99:00", "now",
    "2024-03-01T", "NaT",
)  # fmt: skip
EARLY = ("1970-01-02 00:00:00",)
"""A time before every submission."""
NO_SPANS = (*WORDS, "-5", "00:61:00", "00:00:61", "1-25:00:00", "1-", "01:02:03:04")


class Field(NamedTuple):
    """A field of a format.

    name: its heading. good: returns the cell of a job, by its number. bad: cells that it cannot have. named: the column
    that an error must name, where it is not the heading.
    """

    name: str
    good: Callable[[int], str]
    bad: Sequence[str] = ()
    named: str = ""


class Format(NamedTuple):
    """A format: a file's name, its fields and delimiter, and the lines above the jobs."""

    file: str
    fields: Sequence[Field]
    delimiter: str = ","
    above: str = ""
    header: bool = True


def at(minute: int, shape: str = "2024-03-01 {:02}:{:02}:00") -> str:
    """Return a time of the first of March 2024."""
    return shape.format(minute // 60, minute % 60)


SLURM_TIME = "2024-03-01T{:02}:{:02}:00"
FORMATS = (
    Format(
        "jobs.csv",
        (
            Field("job_id", lambda k: f"j{k}", ("", " ", "j\x07")),
            Field("submit_s", lambda k: str(60 * k), (*WORDS, *NEGATIVE, "", *NO_TIMES)),
            Field("num_gpus", lambda k: str(1 + k % 8), (*WORDS, *NEGATIVE, "", "0", "1000001")),
            Field("duration_s", lambda k: str(100 + k), (*WORDS, *NEGATIVE, "", "0", "1e12")),
            Field("user", lambda k: f"u{k % 3}", ("", "  ")),
        ),
    ),
    Format(
        "tables.tsv",
        (
            Field("job_id", lambda k: f"j{k}", ("", " ")),
            Field("submit_s", lambda k: at(k), (*WORDS, *NO_TIMES, "", "60")),
            Field("num_gpus", lambda k: str(1 + k % 8), (*WORDS, *NEGATIVE, "")),
            Field("duration_s", lambda k: f"0{k % 9}:01:00", NO_SPANS),
            Field("logged_start_s", lambda k: at(k + 5), (*WORDS, *NO_TIMES, "")),
        ),
        "\t",
    ),
    Format(
        "sacct.txt",
        (
            Field("JobID", lambda k: str(100 + k), ("", "x", "-1", "1.", "1_", "1+", "_1", "1 2")),
            Field("User", lambda k: f"u{k % 3}"),
            Field("State", lambda k: "COMPLETED", ("", "DONE", "completed", "COMPLETE", "C", "0")),
            Field("Submit", lambda k: at(k, SLURM_TIME), (*WORDS, *NO_TIMES, "", "20240301", "Unknown")),
            Field("Start", lambda k: at(k + 5, SLURM_TIME), (*WORDS, *NO_TIMES, *EARLY)),
            Field("End", lambda k: at(k + 65, SLURM_TIME), (*WORDS, *NO_TIMES, *EARLY)),
            Field("ElapsedRaw", lambda k: "3600", NO_SPANS),
            Field("TimelimitRaw", lambda k: "120", NO_SPANS),
            Field("NCPUS", lambda k: "8", (*WORDS, *NEGATIVE, *NOT_WHOLE)),
            Field(
                "AllocTRES",
                lambda k: f"cpu=8,gres/gpu={1 + k % 4},node=1",
                (
                    "gres/gpu=x",
                    "gres/gpu=-1",
                    "gres/gpu=1.5",
                    "cpu=8;gres/gpu=2",
                    "=3",
                    "cpu==8",
                    "gres/gpu=2,,node=1",
                    "17",
                ),
            ),
        ),
        "|",
    ),
    Format(
        "log.swf",
        (
            Field("job number", lambda k: str(k + 1), (*WORDS, "-5", "1e3")),
            Field("submit time", lambda k: str(60 * k), (*WORDS, "-5", "-1", "1e3")),
            Field("wait time", lambda k: "30", (*WORDS, "-5", "1e3")),
            Field("run time", lambda k: "600", (*WORDS, "-5", "1e3")),
            Field("allocated processors", lambda k: "4", (*WORDS, "-5", "1e3")),
            *(Field(name, lambda k: "-1", (*WORDS, "-5")) for name in ("average CPU time", "used memory")),
            Field("requested processors", lambda k: "4", (*WORDS, "-5")),
            Field("requested time", lambda k: "900", (*WORDS, "-5")),
            Field("requested memory", lambda k: "-1", (*WORDS, "-5")),
            Field("status", lambda k: "1", (*WORDS, "-5")),
            *(
                Field(name, lambda k: "1", (*WORDS, "-5"))
                for name in (
                    "user",
                    "group",
                    "executable",
                    "queue",
                    "partition",
                    "preceding job",
                    "think time",
                )
            ),
        ),
        " ",
        "; Version: 2.2\n",
        header=False,
    ),
    Format(
        "cluster_log.csv",
        (
            Field("job_id", lambda k: str(9000 + k), ("", " ")),
            Field("user", lambda k: "u1", ("",)),
            Field("vc", lambda k: "v1", ("",)),
            *(
                Field(name, lambda k: "4", (*WORDS, *NEGATIVE, *NOT_WHOLE, ""))
                for name in ("gpu_num", "cpu_num")
            ),
            Field("node_num", lambda k: "1"),
            Field("state", lambda k: "COMPLETED"),
            Field("submit_time", at, (*WORDS, *NO_TIMES, "")),
            Field("start_time", lambda k: at(k + 5), (*WORDS, *NO_TIMES, *EARLY)),
            Field("end_time", lambda k: at(k + 65), (*WORDS, *NO_TIMES, *EARLY)),
            Field("duration", lambda k: "3600", (*WORDS, *NEGATIVE)),
            Field("queue", lambda k: "300"),
        ),
    ),
    Format(
        "trace_seren.csv",
        (
            Field("job_id", lambda k: str(700 + k), ("", " ")),
            Field("user", lambda k: "u1", ("",)),
            Field("node_num", lambda k: "1"),
            *(
                Field(name, lambda k: "4", (*WORDS, *NEGATIVE, *NOT_WHOLE, ""))
                for name in ("gpu_num", "cpu_num")
            ),
            Field("type", lambda k: "Other"),
            Field("state", lambda k: "COMPLETED"),
            Field("submit_time", lambda k: at(k) + "+08:00", (*WORDS, *NO_TIMES, "")),
            Field("start_time", lambda k: at(k + 5) + "+08:00", (*WORDS, *NO_TIMES, *EARLY)),
            Field("end_time", lambda k: at(k + 65) + "+08:00", (*WORDS, *NO_TIMES, *EARLY)),
            Field("duration", lambda k: "3600", (*WORDS, *NEGATIVE)),
            Field("queue", lambda k: "300"),
            Field("gpu_time", lambda k: "1.0"),
        ),
    ),
    Format(
        "openb_pod_list.csv",
        (
            Field("name", lambda k: f"p{k}", ("", " "), "job_id"),
            Field("cpu_milli", lambda k: "6000", (*WORDS, *NEGATIVE, *NOT_WHOLE, "")),
            Field("memory_mib", lambda k: "1000"),
            Field("num_gpu", lambda k: "1", (*WORDS, *NEGATIVE, *NOT_WHOLE, "")),
            Field("gpu_milli", lambda k: "500", (*WORDS, *NEGATIVE, *NOT_WHOLE, "", "0", "1001")),
            Field("gpu_spec", lambda k: "T4"),
            Field("qos", lambda k: "LS"),
            Field("pod_phase", lambda k: "Succeeded"),
            Field("creation_time", lambda k: str(100 + k), (*WORDS, *NEGATIVE, *NO_TIMES, "")),
            Field("deletion_time", lambda k: str(900 + k), (*WORDS, *NEGATIVE, *NO_TIMES, "7")),
            Field("scheduled_time", lambda k: str(200 + k), (*WORDS, *NEGATIVE, *NO_TIMES, "7")),
        ),
    ),
    Format(
        "job_info_df.csv",
        (
            Field("job_name", lambda k: str(k), ("", " "), "job_id"),
            Field("organization", lambda k: "13"),
            Field("gpu_model", lambda k: "A10"),
            Field("cpu_request", lambda k: "20", (*WORDS, *NEGATIVE, "")),
            Field("gpu_request", lambda k: "1", (*WORDS, *NEGATIVE, "")),
            Field("worker_num", lambda k: "2", (*WORDS, *NEGATIVE, *NOT_WHOLE, "", "0")),
            Field("submit_time", lambda k: str(10 * k), (*WORDS, *NEGATIVE, *NO_TIMES, "")),
            Field("duration", lambda k: "500", (*WORDS, *NEGATIVE, *NO_TIMES, "")),
            Field("job_type", lambda k: "HP", ("", "hp", "High", "0")),
        ),
    ),
    Format(
        "pai_job_table.csv",
        (
            Field("job_name", lambda k: f"j{k}"),
            Field("inst_id", lambda k: f"i{k}"),
            Field("user", lambda k: "u1"),
            Field("status", lambda k: "Terminated", ("", "Done", "terminated")),
            Field("start_time", lambda k: str(1000 + k), (*WORDS, *NEGATIVE, *NO_TIMES)),
            Field("end_time", lambda k: str(5000 + k), (*WORDS, *NEGATIVE, *NO_TIMES)),
        ),
        header=False,
    ),
)
"""Line-based formats; the tests have a list of bad files for those in JSON."""
JOBS = 4


class Edit(NamedTuple):
    """An invalid file: its name and text, and the line and the column (None for none) that the error must name."""

    name: str
    text: str
    line: int
    column: str | None


def edits(count: int, seed: int) -> Iterator[Edit]:
    """Yield invalid files, the same ones for a seed."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield _edit(FORMATS[int(rng.integers(len(FORMATS)))], rng)


def good(found: Format) -> str:
    """Return the log of a format before an edit."""
    return _text(found, _rows(found))


def fault(edit: Edit, folder: Path) -> str | None:
    """Return what is wrong with the reader's answer to an invalid file; None for nothing."""
    file = folder / edit.name
    file.write_text(edit.text, encoding="utf-8")
    (folder / "pai_task_table.csv").write_text(
        "".join(
            f"j{k},worker,1.0,Terminated,{1100 + k}.0,{4000 + k}.0,600.0,29.0,100.0,T4\n" for k in range(JOBS)
        )
    )
    try:
        traces.load(file=file, seed=0)
    except traces.TraceError as error:
        if "\n" in str(error):
            return f"more than a line: {error}"
        if (error.line, error.column) != (edit.line, edit.column):
            return f"expected line {edit.line}, column {edit.column}: {error}"
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "read in silence"


def main(args: Sequence[str] | None = None) -> int:
    """Try all edits; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--edits", type=int, default=EDITS, help="number of edits")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(args)
    began, faults, tried = time.process_time(), Counter[str](), Counter[str]()
    with TemporaryDirectory() as folder:
        for edit in edits(chosen.edits, chosen.seed):
            tried[edit.name] += 1
            if found := fault(edit, Path(folder)):
                faults[edit.name] += 1
                print(f"{edit.name}: {found}\n{edit.text}")
    for name, count in tried.items():
        print(f"{name:20} {count:6,} edits, {faults[name]:,} faults")
    print(f"{chosen.edits:,} edits, {faults.total():,} faults, {time.process_time() - began:.0f} s of CPU")
    return int(faults.total() > 0)


def _rows(found: Format) -> list[list[str]]:
    return [[field.good(number) for field in found.fields] for number in range(JOBS)]


def _text(found: Format, rows: Sequence[Sequence[str]]) -> str:
    names = [[field.name for field in found.fields]] if found.header else []
    return found.above + "".join(f"{found.delimiter.join(row)}\n" for row in (*names, *rows))


def _edit(found: Format, rng: np.random.Generator) -> Edit:
    """Return a file with one invalid job."""
    rows, row = _rows(found), int(rng.integers(1, JOBS))
    line = found.above.count("\n") + found.header + row + 1
    editable = [place for place, field in enumerate(found.fields) if field.bad]
    kind = rng.random()
    if kind < 0.1:  # a field too many or too few
        place = int(rng.integers(len(found.fields)))
        if rng.random() < 0.5:
            rows[row].insert(place, "1")
        else:
            del rows[row][place]
        return Edit(found.file, _text(found, rows), line, None)
    field = found.fields[place := editable[int(rng.integers(len(editable)))]]
    cell = field.bad[int(rng.integers(len(field.bad)))]
    blanks = found.delimiter == " " and (" " in cell)
    rows[row][place] = cell
    named = None if blanks else field.named or field.name
    return Edit(found.file, _text(found, rows), line, named)


if __name__ == "__main__":
    sys.exit(main())
