"""Logs in the Standard Workload Format of the Parallel Workloads Archive, a processor taken as a GPU.

Format: cs.huji.ac.il/labs/parallel/workload (Chapin et al., JSSPP 1999).
"""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpu_cluster_gym.traces._columns import NOTHING
from gpu_cluster_gym.traces._log import LOGGED_END, ZERO, File, Head, Log, Options, Reader
from gpu_cluster_gym.traces._table import TraceError, quote, read_bytes, refuse_no_text

FIELDS = (
    "job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time", "used memory",
    "requested processors", "requested time", "requested memory", "status", "user", "group", "executable", "queue",
    "partition", "preceding job", "think time",
)  # fmt: skip
STATUS = {-1: NOTHING, 0: "failed", 1: "completed", 5: "cancelled"}
ENDED = (0, 1, 5)
PARTS = (2, 3, 4)
"""Status of a line about a part of a job that was swapped out; the job has a line of its own too."""
MAX_NUMBER = 1e15
_ROW = re.compile(r"\s*(?:-?\d+(?:\.\d+)?\s+){17}-?\d+(?:\.\d+)?\s*", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,15})?", re.ASCII)
_STRANGE = re.compile(rb"[^0-9+\-. \t\r\n]")


def looks_like(head: Head) -> bool:
    """Return whether a file begins with a comment or a line of 18 numbers."""
    line = head.first_line
    return line.lstrip().startswith(";") or bool(_ROW.fullmatch(line))


def read(file: File, options: Options) -> pd.DataFrame:
    """Read the jobs: processors as GPUs, allocated ones first, groups as tenants, requested times as limits.

    A preceding job becomes a dependency, which binds a job only if `Scenario.constraints` names it.
    """
    data = read_bytes(file)
    refuse_no_text(data, file)
    body, first_line, comments = _after_comments(data.removeprefix(b"\xef\xbb\xbf"))
    cells, line = _fast(body, first_line) or _strict(body, first_line, file)
    log = Log(file, {name: cells[:, at] for at, name in enumerate(FIELDS)}, line)
    log.refuse(~(log["job number"] >= 0), "job number", log["job number"], "a number >= 0")
    log.leave_out(np.isin(log["status"], PARTS), "lines left out, on parts of jobs that were swapped out")
    log.refuse(~(log["submit time"] >= 0), "submit time", log["submit time"], "seconds >= 0")
    for name in FIELDS[2:]:
        log.refuse(~(log[name] >= -1), name, log[name], "a number, or -1 where it is unknown")
    log.unfinished = options.unfinished
    unfinished = (log["run time"] < 0) & ~np.isin(log["status"], ENDED)
    log.leave_out((log["run time"] <= 0) & ~(unfinished & log.unfinished), ZERO)
    _set_columns(log)
    log.notes += _machines(comments)
    return log.table()


reader = Reader("a log in the Standard Workload Format", looks_like, read)


def _set_columns(log: Log) -> None:
    used, asked = log["allocated processors"], log["requested processors"]
    gpus = np.where(used > 0, used, asked)
    log.refuse(
        ~(gpus > 0), "allocated processors", used, "processors, allocated or requested, for a job that ran"
    )
    log.count(
        (used > 0) & (asked > 0) & (used != asked),
        "jobs whose allocated processors differ from the requested ones, used as allocated",
    )
    log.round_up_gpus(gpus, "allocated processors")
    log.notes.append("a processor is taken as a GPU")
    log["job_id"] = _words(log["job number"])
    log["submit_s"], log["duration_s"] = log["submit time"], log["run time"]
    if log.unfinished:
        for name in ("wait time", "run time"):
            log[name] = np.where(log[name] < 0, np.nan, log[name])
        log["duration_s"] = log["run time"]
        log["logged_start_s"] = log["submit_s"] + log["wait time"]
    elif (log["wait time"] >= 0).all():
        log["logged_start_s"] = log["submit_s"] + log["wait time"]
        log[LOGGED_END] = log["logged_start_s"] + log["duration_s"]
    else:
        log.count(log["wait time"] < 0, "jobs whose wait time is unknown, so that logged starts are not used")
    log.set_limits(np.where(log["requested time"] > 0, log["requested time"], np.nan))
    for name, heading in (("user", "user"), ("tenant", "group"), ("vc", "queue"), ("partition", "partition")):
        log.set_text(name, _words(log[heading]), blank=("-1",))
    _set_dependencies(log)
    status = log["status"].astype(np.int64)
    log["status"] = np.array([STATUS.get(each, str(each)) for each in status.tolist()], object)


def _set_dependencies(log: Log) -> None:
    before = log["preceding job"]
    known = (before > 0) & np.isin(before, log["job number"])
    log.count(
        (before > 0) & ~known, "jobs whose preceding job was left out or is unknown, taken as independent"
    )
    log.count(known & (log["think time"] > 0), "think times after a preceding job, not simulated")
    log.set_text("depends_on", _words(np.where(known, before, -1)), blank=("-1",))


def _words(numbers: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """Return numbers as text; equal ones share memory."""
    known: dict[float, str] = {}
    words = np.empty(len(numbers), object)
    words[:] = [known.setdefault(each, f"{each:.15g}") for each in numbers.tolist()]
    return words


def _after_comments(data: bytes) -> tuple[bytes, int, str]:
    """Return the file below its first comments, the number of its first line, and the comments."""
    at = 0
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end + 1
        line = data[at:end].strip()
        if line and not line.startswith(b";"):
            break
        at = end
    return data[at:].rstrip(), data.count(b"\n", 0, at) + 1, data[:at].decode("utf-8")


def _fast(body: bytes, first_line: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]] | None:
    """Return the numbers of a file without comments in between, and their lines; None where it has a fault."""
    if not body or _STRANGE.search(body) or b"\n\n" in body or b"\n\r" in body:
        return None
    try:
        found = pd.read_csv(
            io.BytesIO(body), sep=r"\s+", header=None, names=range(len(FIELDS)), dtype=float, index_col=False
        ).to_numpy()
    except (ValueError, OverflowError):  # a field that is no number, or too many of them
        return None
    wide = body.count(b"\n") + 1
    if len(found) != wide or not (np.abs(found) < MAX_NUMBER).all():
        return None
    return found, np.arange(first_line, first_line + len(found))


def _strict(
    body: bytes, first_line: int, file: File
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return the numbers of each line and its number; TraceError for the first fault."""
    rows, lines = [], []
    for number, line in enumerate(body.decode("utf-8").split("\n"), first_line):
        fields = line.split()
        if not fields or fields[0].startswith(";"):
            continue
        if len(fields) != len(FIELDS):
            raise TraceError(
                file, number, None, f"{len(fields)} fields", f"{len(FIELDS)} numbers separated by blanks"
            )
        for name, cell in zip(FIELDS, fields, strict=True):
            if not _NUMBER.fullmatch(cell):
                raise TraceError(file, number, name, quote(cell), "a number, or -1 where it is unknown")
        rows.append([float(cell) for cell in fields])
        lines.append(number)
    return np.array(rows).reshape(-1, len(FIELDS)), np.array(lines, np.int64)


def _machines(comments: str) -> list[str]:
    """Return a note on the cluster that the header describes, and the flag for it."""
    found = dict(re.findall(r"^;\s*(MaxProcs|MaxNodes):\s*(\d{1,9})\s*$", comments, re.MULTILINE | re.ASCII))
    if not {"MaxProcs", "MaxNodes"} <= found.keys():
        return []
    procs, nodes = int(found["MaxProcs"]), int(found["MaxNodes"])
    if not nodes or procs % nodes:
        return [f"the log's machines: {procs:,} processors on {nodes:,} nodes"]
    return [
        f"the log's machines: {procs:,} processors on {nodes:,} nodes (--cluster {nodes}x{procs // nodes})"
    ]
