"""A table in the job table's own columns (CSV, TSV or Parquet), for logs of no known format.

Headings of another name are mapped by `--columns job_id="job id",submit_s=submit`; times may be seconds or ISO times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpu_cluster_gym.traces import _delimited
from gpu_cluster_gym.traces._columns import COLUMNS, SHORTEST_S, Column
from gpu_cluster_gym.traces._log import (
    LOGGED_END,
    MAY_LACK,
    UNFINISHED,
    File,
    Floats,
    Head,
    Log,
    Mask,
    Options,
    Reader,
)
from gpu_cluster_gym.traces._table import TraceError, parse_numbers, quote, values
from gpu_cluster_gym.traces._times import EXAMPLE, Clock, Times, is_time, spans

REQUIRED = [column.name for column in COLUMNS if column.required]
CLOCKED = ("submit_s", "logged_start_s", LOGGED_END, "deadline_s")
"""Columns that may hold ISO times."""
SPANS = ("duration_s", "time_limit_s")
"""Columns that may hold durations like 1-02:03:04."""
UNSTARTED = "jobs left out, no start (they never ran, or were queued when the log was taken)"


def looks_like(head: Head) -> bool:
    """Return whether a file has the required columns, or is Parquet."""
    if head.text == "PAR1":
        return True
    return set(REQUIRED[:2]) <= set(head.fields(_delimited.delimiter_of(head)))


def read(file: File, options: Options) -> pd.DataFrame:
    """Read the job table, whose columns may be in any order.

    In a log with starts, a blank start is a job that has not run, a blank end or run time one that runs; both are left
    out unless `options.unfinished`. Numbers and ids are unchanged; ISO times become seconds from the first submission.
    Unknown columns are left out and named in the notes. TraceError with its line for the first malformed cell.
    """
    head = _delimited.head_of(file)
    delimiter = _delimited.delimiter_of(head)
    packed = _delimited.parquet(file) if head.text == "PAR1" else None
    headings = _delimited.header_of(file, delimiter) if packed is None else [*packed]
    own = _own_names(headings, options, file)
    try:
        return _table(file, options, delimiter, packed, headings, own)
    except TraceError as error:
        raise _as_written(error, own, delimiter if packed is None else None) from None


def _table(
    file: File,
    options: Options,
    delimiter: str,
    packed: dict[str, npt.NDArray[Any]] | None,
    headings: Sequence[str],
    own: Mapping[str, str],
) -> pd.DataFrame:
    """Return the job table. packed: columns of a Parquet file. own: column of the job table, by heading."""
    clock, kinds = Clock(options.time_zone), dict[str, str]()
    may_lack = (
        {*MAY_LACK, LOGGED_END} if options.unfinished or "logged_start_s" in own.values() else set[str]()
    )
    converters = {
        heading: _Cells(name, clock, kinds, may_be_blank=name in may_lack) for heading, name in own.items()
    }
    if packed is None:
        found, line, _ = _delimited.read(file, converters, delimiter=delimiter)
    else:
        line = np.arange(1, len(next(iter(packed.values()), ())) + 1)
        found = {
            name: convert(_as_text(packed[name]), line, name, file) for name, convert in converters.items()
        }
    log = Log(file, {}, line, unfinished=options.unfinished)
    if not len(line):
        raise TraceError(file, None, None, "no jobs", "at least one")
    times = {name: found[heading] for heading, name in own.items() if name in CLOCKED}
    for heading, name in own.items():
        if name == "num_gpus":
            log.round_up_gpus(found[heading], heading)  # 0 stays 0: a CPU job
        elif name not in CLOCKED:
            log[name] = found[heading]
    iso = any(kind == "time" for kind in kinds.values())
    if iso and (
        mixed := [name for name in times if kinds.get(name, "time") != "time" and name != "deadline_s"]
    ):
        raise TraceError(
            file, int(line[0]), mixed[0], "a number", "a time with its date, like the other times"
        )
    if "job_id" not in log:
        log["job_id"] = np.arange(1, len(log) + 1)
        log.notes.append("jobs are numbered by their rows, since no column has their ids")
    _set_times(log, times, {name: heading for heading, name in own.items()})
    if "time_limit_s" in log and "profiled_duration_s" not in log:
        log.set_limits(log["time_limit_s"])
    if ignored := [heading for heading in headings if heading not in own]:
        log.notes.append(f"columns ignored, unknown to the job table: {', '.join(map(repr, ignored))}")
    table = log.table(clock, absolute=not iso)
    if options.unfinished:
        table.attrs["blank_is_queued"] = True
    return table


def _as_written(error: TraceError, own: Mapping[str, str], delimiter: str | None) -> TraceError:
    """Return an error with the file's own heading and cell; delimiter: None for Parquet, which has no lines."""
    heading = next((each for each in own if error.column in (each, own[each])), None)
    if heading is None:
        return error
    name, found = own[heading], error.found
    if delimiter and error.line is not None and error.line > 1:
        found = quote(_delimited.cell(error.file, error.line, heading, delimiter))
    column = heading if heading == name else f"{heading} ({name})"
    none = "; 0: no limit" if name == "time_limit_s" else ""
    return TraceError(error.file, error.line, column, found, f"{error.expected}{none}")


reader = Reader("a table in the job table's own columns", looks_like, read)


def _own_names(headings: Sequence[str], options: Options, file: File) -> dict[str, str]:
    """Return the column of the job table that each heading is read as."""
    for name, heading in options.columns:
        if heading not in headings:
            found = f"only {quote(', '.join(headings))}"
            raise TraceError(file, 1, heading, found, f"a column of this name, for --columns {name}=")
    given = {heading: name for name, heading in options.columns}
    mapped = set(given.values())
    known = {column.name for column in COLUMNS} | {LOGGED_END}
    own = {
        heading: given.get(heading, heading)
        for heading in headings
        if heading in given or (heading in known and heading not in mapped)
    }
    follows = set(own.values())
    if {LOGGED_END, "logged_start_s"} <= follows:
        follows.add("duration_s")
    if options.columns:
        follows.add("job_id")
    if missing := [name for name in REQUIRED if name not in follows]:
        found = f"only {quote(', '.join(headings))}"
        pairs = ",".join(f"{name}=HEADING" for name in missing)
        instead = f"; logged_start_s and {LOGGED_END} can replace duration_s" * ("duration_s" in missing)
        expected = f"a column named {' and one named '.join(missing)} (or --columns {pairs}{instead})"
        raise TraceError(file, 1, missing[0], found, expected)
    return own


class _Cells:
    """Conversion of a column's cells; the first cell of a file decides between numbers and ISO times.

    name: the column. clock: reads times. kinds: how each column is read, written by the first piece.
    may_be_blank: whether a blank cell is NaN.
    """

    def __init__(self, name: str, clock: Clock, kinds: dict[str, str], *, may_be_blank: bool) -> None:
        self._name, self._clock, self._kinds = name, clock, kinds
        self._may_be_blank = may_be_blank
        self._column = next((column for column in COLUMNS if column.name == name), _END)

    def __call__(self, cells: npt.NDArray[Any], line: npt.NDArray[np.int64], heading: str, file: File) -> Any:
        """Return the cells in the column's type, as `Times` in a column of times; TraceError for the first bad one."""
        if (
            self._may_be_blank
            and (blank := np.fromiter((not cell for cell in cells), bool, len(cells))).any()
        ):
            return self._with_blanks(cells, blank, line, heading, file)
        if self._name in CLOCKED:
            is_first = self._name not in self._kinds
            kind = self._kinds.setdefault(
                self._name, "time" if len(cells) and is_time(cells[0]) else "number"
            )
            if kind == "time":
                return self._clock.times(cells, line, heading, file)
            try:
                found = values(self._column, cells, line, file)
            except TraceError as error:
                if not is_first or error.line != line[0]:
                    raise
                expected = f"{error.expected}, or {EXAMPLE}"
                raise TraceError(file, error.line, error.column, error.found, expected) from None
            return Times(found, found)
        if self._name in SPANS and any(":" in cell for cell in cells[:100]):
            return spans(cells, line, heading, file)
        if self._name == "num_gpus":
            return _gpus(self._column, cells, line, file)
        if self._column.dtype is str:
            cells = _delimited.text(cells, line, heading, file)
        return values(self._column, cells, line, file)

    def _with_blanks(
        self, cells: npt.NDArray[Any], blank: Mask, line: npt.NDArray[np.int64], heading: str, file: File
    ) -> Any:
        """Return the cells in the column's type, NaN where they are blank."""
        seconds = np.full(len(cells), np.nan)
        if blank.all():
            return Times(seconds, seconds, self._clock.zone or "UTC") if self._name in CLOCKED else seconds
        found = self(cells[~blank], line[~blank], heading, file)
        if not isinstance(found, Times):
            seconds[~blank] = found
            return seconds
        late = seconds.copy()
        seconds[~blank], late[~blank] = found.early, found.late
        return Times(seconds, late, found.zone)


_END = Column(LOGGED_END, float, "s", "end in the log", minimum=-np.inf)


def _gpus(column: Column, cells: npt.NDArray[Any], line: npt.NDArray[np.int64], file: File) -> Floats:
    """Return numbers of GPUs, fractions included; TraceError for anything else."""
    found = parse_numbers(cells)
    if (bad := ~(found >= 0) | ~(found <= 1e6)).any():
        row = int(np.argmax(bad))
        raise TraceError(file, int(line[row]), column.name, quote(cells[row]), column.expected(found[row]))
    return found


def _set_times(log: Log, times: Mapping[str, Times], heading: Mapping[str, str]) -> None:
    """Set the columns of times, and run times that follow from starts and ends; a job without any is left out."""
    submit = times["submit_s"]
    log["submit_s"] = submit.early
    if "deadline_s" in times:
        log["deadline_s"] = times["deadline_s"].after(submit.early)
    if "logged_start_s" not in times:
        return
    if "duration_s" in log:
        log["logged_start_s"] = times["logged_start_s"].after(submit.early)
        if not log.unfinished:
            if LOGGED_END in times:
                start_s, run_s = log["logged_start_s"], log["duration_s"]
                log["duration_s"] = np.where(
                    np.isnan(run_s), times[LOGGED_END].after(start_s) - start_s, run_s
                )
            log.leave_out(np.isnan(log["logged_start_s"]) & np.isnan(log["duration_s"]), UNSTARTED)
            log.leave_out(np.isnan(log["duration_s"]), UNFINISHED)
            blank, expected = np.full(len(log), "", object), "a start, since the job has a run time"
            log.refuse(np.isnan(log["logged_start_s"]), heading["logged_start_s"], blank, expected)
        return
    for name in ("submit_s", "logged_start_s", LOGGED_END):
        log[name] = times[name]
    log.leave_out_unstarted("logged_start_s", LOGGED_END, log[LOGGED_END].known, UNSTARTED)
    names = heading["logged_start_s"], heading[LOGGED_END]
    log.put_in_order(log["submit_s"], log["logged_start_s"], log[LOGGED_END], names)
    log["duration_s"] = log[LOGGED_END] - log["logged_start_s"]
    log.leave_out(log["duration_s"] < SHORTEST_S, "jobs left out, they end when they start")


def _as_text(cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the cells of Parquet as text: numbers in full, times as ISO times, missing ones blank."""
    found = np.empty(len(cells), object)
    found[:] = [_text(cell) for cell in cells.tolist()] if cells.dtype.kind != "M" else _iso(cells)
    return found


def _text(cell: object) -> str:
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return ""
    return repr(cell) if isinstance(cell, float) else str(cell)


def _iso(cells: npt.NDArray[Any]) -> list[str]:
    return ["" if text == "NaT" else text for text in np.datetime_as_string(cells.astype("datetime64[us]"))]
