"""Snapshots: which jobs run and which queue at a time, from a log or from `squeue --json`, and which have ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.traces._log import File, Options
from gpu_cluster_gym.traces._table import TraceError, quote
from gpu_cluster_gym.traces._times import Clock, is_time

if TYPE_CHECKING:
    import pandas as pd

    from gpu_cluster_gym.traces._squeue import Held


HOUR_S, DAY_S = 3600.0, 86_400.0


@dataclass(frozen=True)
class Snapshot:
    """Jobs that run or queue at a time.

    now_s: the time, on the clock of the tables
    present: a job table sorted by submission; `logged_start_s` is NaN for a queued job, `duration_s` for all jobs
    history: a job table of those that have ended, with `logged_start_s`; empty where the file has none
    held: nodes and GPUs of running jobs by id, where the file has them
    priority: priority of queued jobs by id at a nice value of 0, where the file has it
    zero_s: the tables' time 0 in seconds since 1970, or on the log's own clock
    notes: what was left out or changed, with counts
    """

    now_s: float
    present: pd.DataFrame
    history: pd.DataFrame
    held: dict[str, list[Held]] = field(default_factory=dict)
    priority: dict[str, float] = field(default_factory=dict)
    zero_s: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def running(self) -> pd.DataFrame:
        """The running jobs."""
        return self.present[self.present["logged_start_s"].notna()]

    @property
    def queued(self) -> pd.DataFrame:
        """The queued jobs."""
        return self.present[self.present["logged_start_s"].isna()]


def snapshot(
    file: File,
    name: str | None = None,
    *,
    columns: tuple[tuple[str, str], ...] = (),
    time_zone: str | None = None,
    at: str | None = None,
) -> Snapshot:
    """Return the snapshot in a file: the JSON of `squeue --json`, or a log with running and queued jobs.

    name: format of the log; None to detect it from the beginning of the file
    columns: pairs of a column of the job table and its heading in the file
    time_zone: zone of times that have none; None for UTC
    at: the time, as the log writes times; all later events of the log are hidden. None for the file's latest time

    TraceError for a malformed file, and where no job of a log runs or queues then; a queue may be empty.
    """
    from gpu_cluster_gym.traces import _readers, _squeue
    from gpu_cluster_gym.traces._delimited import head_of

    late: list[str] = []
    is_queue = name is None and _squeue.looks_like(head_of(file))
    if is_queue:
        if columns:
            found_columns = "--columns for squeue --json, whose columns are known"
            raise TraceError(
                file, None, None, found_columns, "no --columns, or a --history with such headings"
            )
        table, found, now_s = _squeue.read(file)
        if at is not None:
            raise TraceError(
                file, None, None, "--at for squeue --json", "no --at, since this file has a single time"
            )
    else:
        table = _readers.read(name, file, Options(columns, time_zone, unfinished=True))
        found = _squeue.Queue({}, {})
        now_s = last_s = _latest(table)
        if at is not None:
            now_s = _moment(at, table, file, time_zone)
            if now_s > last_s + HOUR_S:
                late = [f"hours between the log's last event and --at: {(now_s - last_s) / HOUR_S:,.0f}"]
    if "logged_start_s" not in table:
        raise TraceError(file, None, None, "no starts of jobs", "the column logged_start_s, for running jobs")
    now = cut(table, now_s, file, may_be_empty=is_queue)
    unstated = _without_times(table, now) if table.attrs.get("blank_is_queued") else []
    return replace(now, held=found.held, priority=found.priority, notes=(*late, *now.notes, *unstated))


def has_known_columns(file: File) -> bool:
    """Return whether a file looks like a format whose columns are known, so that it needs no `columns`."""
    from gpu_cluster_gym.traces import _readers, _squeue
    from gpu_cluster_gym.traces._delimited import head_of

    head = head_of(file)
    if head.text == "PAR1":  # whose headings are not in its beginning
        return False
    return _squeue.looks_like(head) or any(each.looks_like(head) for each in _readers.readers().values())


def finished(
    file: File, *, columns: tuple[tuple[str, str], ...] = (), time_zone: str | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """Return the jobs on GPUs of a log that have ended, and notes on those left out; TraceError for a malformed log.

    columns: as for `snapshot`.
    """
    from gpu_cluster_gym.traces import _readers

    table = _readers.read(None, file, Options(columns, time_zone, unfinished=True))
    on_gpus, ended = table["num_gpus"] > 0, table["duration_s"].notna()
    why = {"without GPUs": ~on_gpus, "that still run or queue": on_gpus & ~ended}
    notes = [
        f"jobs of the history {what} left out: {gone.sum():,}" for what, gone in why.items() if gone.any()
    ]
    if not (on_gpus & ended).any():
        raise TraceError(
            file, None, None, "no job on GPUs that has ended", "at least one: pass a log of finished jobs"
        )
    return table[on_gpus & ended].reset_index(drop=True), notes


def cut(
    table: pd.DataFrame, now_s: float, file: File = "job table", *, may_be_empty: bool = False
) -> Snapshot:
    """Return a snapshot of a job table at a time; run times and starts of later times are hidden.

    table: a job table with logged starts. At the end of the log, a queued job has NaN as start and run time,
        a running job NaN as run time.
    TraceError where no job runs or queues then, unless `may_be_empty`.
    """
    notes = list(table.attrs.get("notes", ()))
    start_s, end_s = table["logged_start_s"], table["logged_start_s"] + table["duration_s"]
    ended, come = end_s <= now_s, table["submit_s"] <= now_s
    present = table[come & ~ended]
    if later := int((~come & ~ended).sum()):
        notes.append(f"jobs submitted later than the snapshot, hidden: {later:,}")
    if on_cpu := int((present["num_gpus"] == 0).sum()):
        notes.append(f"jobs without GPUs left out of the snapshot: {on_cpu:,}")
        present = present[present["num_gpus"] > 0]
    if present.empty and not may_be_empty:
        raise TraceError(
            file,
            None,
            None,
            "no running or queued job on GPUs",
            "at least one (in a log, choose a time with such jobs: --at TIME)",
        )
    hidden = np.where(start_s[present.index] <= now_s, start_s[present.index], np.nan)
    present = present.assign(logged_start_s=hidden, duration_s=np.nan).reset_index(drop=True)
    history = table[ended & (table["num_gpus"] > 0)].reset_index(drop=True)
    for each in (present, history):
        each.attrs = {"notes": [], "origin": table.attrs.get("origin", {})}
    return Snapshot(now_s, present, history, zero_s=table.attrs.get("zero_s", 0.0), notes=tuple(notes))


def _without_times(table: pd.DataFrame, now: Snapshot) -> list[str]:
    """Return a note on the queued jobs that a log without states gives no start and no end; none without such jobs."""
    blank = table["job_id"][table["logged_start_s"].isna() & table["duration_s"].isna()]
    submit_s = now.queued["submit_s"][now.queued["job_id"].isin(set(blank))]
    if submit_s.empty:
        return []
    oldest_s = now.now_s - float(submit_s.min())
    age = f"{oldest_s / DAY_S:,.1f} days" if oldest_s >= 2 * DAY_S else f"{oldest_s / HOUR_S:.1f} h"
    remedy = "give jobs that were cancelled before they ran an end, or leave out their rows"
    return [
        f"rows without a start and an end, taken as queued ({remedy}): {len(submit_s):,}, the oldest for {age}"
    ]


def _latest(table: pd.DataFrame) -> float:
    """Return the latest time in the table of a log."""
    found = [float(table.attrs.get("latest_s", -np.inf)), float(table["submit_s"].max())]
    if "logged_start_s" in table:
        ends = table["logged_start_s"] + table["duration_s"]
        found += [float(each) for each in (table["logged_start_s"].max(), ends.max()) if np.isfinite(each)]
    return max(found)


def _moment(at: str, table: pd.DataFrame, file: File, time_zone: str | None) -> float:
    """Return a time of the log's own clock on the clock of its table."""
    if not is_time(at):
        try:
            number = float(at)
        except ValueError:
            number = np.nan
        if not np.isfinite(number):
            raise ValueError(f"--at {quote(at)}: expected a time like 2024-03-31T02:00, or seconds")
        return number - float(table.attrs.get("zero_s", 0.0))
    if "zero_s" not in table.attrs:
        raise ValueError(
            f"--at {quote(at)}: expected seconds since the first submission, for this log's format"
        )
    seconds = Clock(time_zone).times([at], [0], "--at", file).early[0]
    return float(seconds) - float(table.attrs["zero_s"])
