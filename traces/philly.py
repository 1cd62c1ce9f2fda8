"""Microsoft's Philly trace of 2017: its job log and a generator fitted to it.

The log is `cluster_job_log` of github.com/msr-fiddle/philly-traces (Jeon et al., USENIX ATC'19).
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime
from os import PathLike
from typing import Any

import pandas as pd

from gpu_cluster_gym.traces._json import Objects
from gpu_cluster_gym.traces._log import Head, Options, Reader
from gpu_cluster_gym.traces._philly_generator import generate
from gpu_cluster_gym.traces._table import TraceError, check, first, quote

File = str | PathLike[str]

_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.ASCII)
_EPOCH = datetime(1970, 1, 1)
_NO_TIME = (None, "", "None")


def trace(
    file: File | None = None, *, seed: int, jobs: int | None = None, scale: float = 1.0
) -> pd.DataFrame:
    """Return Philly's jobs: those of the log `file`, or `jobs` generated ones, determined by `seed`.

    `duration_s` is the time GPUs were held, summed over a job's attempts; `num_gpus` are those of its first attempt;
    `submit_s` counts from the first job kept. Jobs without a usable attempt are left out and counted in the notes.
    scale: batches per hour of generated jobs relative to the log's
    """
    if file is None:
        return generate(seed, jobs, scale)
    return first(read(file, Options()), jobs)


def looks_like(head: Head) -> bool:
    """Return whether a file looks like the job log: a JSON array of jobs with attempts."""
    return head.text.lstrip().startswith("[") and '"attempts"' in head.text and '"vc"' in head.text


def read(file: File, options: Options) -> pd.DataFrame:
    """Read the jobs of the log; see `trace`. Its times have no zone, and its clock did not change in winter."""
    notes: Counter[str] = Counter()
    lines, rows = [], []
    for line, job in Objects(file):
        if row := _row(job, notes, file, line):
            lines.append(line)
            rows.append(row)
    if not rows:
        raise TraceError(file, None, None, "no job that held a GPU", "at least one")
    table = pd.DataFrame(rows)
    start = table["submit_s"].min()
    table = table.assign(submit_s=table["submit_s"] - start, logged_start_s=table["logged_start_s"] - start)
    table.attrs["notes"] = [f"{what}: {count:,}" for what, count in notes.items() if count]
    checked = check(table, file=file, line=lines)
    checked.attrs["zero_s"] = float(start)
    return checked


reader = Reader("Philly's cluster_job_log", looks_like, read)


def _row(job: dict[str, Any], notes: Counter[str], file: File, line: int) -> dict[str, Any] | None:
    """Return a row of the job table, or None (and count a note) if the job never held a GPU."""
    job_id, vc, user, status = (_get(job, key, str, file, line) for key in ("jobid", "vc", "user", "status"))
    submit_s = _time(job, "submitted_time", file, line)
    if submit_s is None:
        raise TraceError(file, line, "submitted_time", quote(job.get("submitted_time")), "a time")
    attempts = [_attempt(attempt, file, line) for attempt in _get(job, "attempts", list, file, line)]
    spans = [(start, end) for start, end, _ in attempts if start is not None and end is not None]
    notes["attempts skipped, start or end unknown"] += len(attempts) - len(spans)
    notes["jobs still running when the log was taken, last attempt not counted"] += bool(
        attempts and attempts[-1][0] is not None and attempts[-1][1] is None
    )
    num_gpus = attempts[0][2] if attempts else 0
    duration_s = sum(end - start for start, end in spans)
    unusable = not (num_gpus and duration_s)
    notes["jobs left out, no attempt that held GPUs for a known time"] += unusable
    if unusable:
        return None
    return {
        "job_id": job_id,
        "submit_s": submit_s,
        "num_gpus": num_gpus,
        "duration_s": duration_s,
        "user": user,
        "vc": vc,
        "tenant": vc,
        "status": status,
        "logged_start_s": spans[0][0],
    }


def _attempt(attempt: Any, file: File, line: int) -> tuple[int | None, int | None, int]:
    """Return start, end and number of GPUs of an attempt."""
    if not isinstance(attempt, dict):
        raise TraceError(file, line, "attempts", quote(attempt), "objects")
    start, end = (_time(attempt, key, file, line) for key in ("start_time", "end_time"))
    if start is not None and end is not None and end < start:
        raise TraceError(
            file, line, "end_time", quote(attempt["end_time"]), f"a time not before {attempt['start_time']}"
        )
    servers = _get(attempt, "detail", list, file, line)
    if not all(isinstance(server, dict) for server in servers):
        raise TraceError(file, line, "detail", quote(servers), "a list of objects")
    return start, end, sum(len(_get(server, "gpus", list, file, line)) for server in servers)


def _get(where: dict[str, Any], key: str, kind: type, file: File, line: int) -> Any:
    if not isinstance(found := where.get(key), kind):
        expected = "text" if kind is str else "a list"
        raise TraceError(file, line, key, quote(found) if key in where else "nothing", expected)
    return found


def _time(where: dict[str, Any], key: str, file: File, line: int) -> int | None:
    """Return seconds since 1970 on the log's clock, or None where the log has no time."""
    found = where.get(key)
    if found in _NO_TIME:
        return None
    try:
        if isinstance(found, str) and _TIME.fullmatch(found):
            return int((datetime.fromisoformat(found) - _EPOCH).total_seconds())
    except ValueError:
        pass  # no such day, such as the 30th of February
    raise TraceError(file, line, key, quote(found), "a time like 2017-10-10 08:00:00")
