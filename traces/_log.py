"""Conversion of a log to a job table: options of reading, rows left out with a reason, and counts of every oddity."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_cluster_gym.traces._columns import COLUMNS, NOTHING, SHORTEST_S
from gpu_cluster_gym.traces._registry import unknown
from gpu_cluster_gym.traces._table import TraceError, check, quote
from gpu_cluster_gym.traces._times import Clock, Times

if TYPE_CHECKING:
    import pandas as pd

File = str | PathLike[str]
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

LOGGED_END = "logged_end_s"
"""Name of a column of end times, for `--columns`; run times are computed from it if the file has none."""
SHARES = "jobs that request a fraction of a GPU, rounded up to whole GPUs"
ZERO = "jobs left out, no run time (cancelled or failed before they ran)"
TOLERANCE_S = 1.0
"""Seconds by which a run time may differ from the end minus the start without being counted."""
UNFINISHED = "jobs left out, unfinished when the log was taken"
MAY_LACK = ("logged_start_s", "duration_s")
"""Columns that may have no value: a queued job has neither, a running job no run time."""


class Options(NamedTuple):
    """Options of reading a log.

    columns: pairs of a column of the job table and its heading in the file
    time_zone: zone of times that have none; None for UTC
    unfinished: whether jobs that run or queue are kept, with NaN for the run time and the start that they lack
    """

    columns: tuple[tuple[str, str], ...] = ()
    time_zone: str | None = None
    unfinished: bool = False


class Head(NamedTuple):
    """The beginning of a file: its name without folders, and its first characters."""

    name: str
    text: str

    @property
    def first_line(self) -> str:
        """The first line that is not blank."""
        return next((line for line in self.text.splitlines() if line.strip()), "")

    def fields(self, delimiter: str) -> list[str]:
        """Return the fields of the first line."""
        return [cell.strip().strip('"') for cell in self.first_line.split(delimiter)]


class Reader(NamedTuple):
    """A format of logs.

    what: the format in words, for messages
    looks_like: whether the beginning of a file looks like it
    read: returns the job table of a file; TraceError for a malformed one
    """

    what: str
    looks_like: Callable[[Head], bool]
    read: Callable[[File, Options], pd.DataFrame]


def columns_given(text: str | None) -> tuple[tuple[str, str], ...]:
    """Return the pairs of `job_id="job id",submit_s=submit`; ValueError for another form or an unknown column."""
    if not text:
        return ()
    known = [*(column.name for column in COLUMNS), LOGGED_END]
    pairs = []
    for item in next(csv.reader([_quoted(text)], strict=True)):
        own, joined, heading = item.partition("=")
        own, heading = own.strip(), heading.strip().strip('"')
        if not joined or not heading:
            raise ValueError(f"{item!r}: expected a pair such as job_id=NAME")
        if own not in known:
            raise ValueError(unknown("column", own, known))
        pairs.append((own, heading))
    for place, what in ((0, "column"), (1, "heading")):
        names = [pair[place] for pair in pairs]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"the {what} {twice!r} is given twice: give it once")
    return tuple(pairs)


def _quoted(text: str) -> str:
    """Return pairs with quotes around each pair instead of its heading only, as the module csv requires."""
    parts = text.split('"')
    if len(parts) % 2 == 0:
        raise ValueError('a closing quote is missing: expected pairs such as job_id="job id",submit_s=submit')
    for at in range(1, len(parts), 2):
        before, comma, own = parts[at - 1].rpartition(",")
        parts[at - 1], parts[at] = before + comma, f'"{own}{parts[at]}"'
    return "".join(parts)


def among(cells: npt.NDArray[Any], words: Iterable[str]) -> Mask:
    """Return which cells of text are one of some words."""
    known = frozenset(words)
    return np.fromiter((cell in known for cell in cells), bool, len(cells))


@dataclass
class Log:
    """Rows of a log while they become a job table.

    file: where they come from
    columns: an array or `Times` for each column
    line: line of the file that each row came from
    counts: number of rows with each oddity, by the text of its note
    notes: notes without a number
    unfinished: whether jobs that run or queue are kept, see `Options`
    latest_s: the latest time in the log other than a submission, start or end, on the log's clock
    """

    file: File
    columns: dict[str, Any]
    line: npt.NDArray[np.int64]
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unfinished: bool = False
    latest_s: float = -np.inf

    def __getitem__(self, name: str) -> Any:
        """Return a column."""
        return self.columns[name]

    def __setitem__(self, name: str, cells: Any) -> None:
        """Replace or add a column."""
        self.columns[name] = cells

    def __contains__(self, name: str) -> bool:
        """Return whether there is a column of this name."""
        return name in self.columns

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.line)

    def count(self, which: Mask | int, what: str) -> None:
        """Count an oddity. which: mask of the rows that have it, or their number. what: the text of its note."""
        if number := int(np.sum(which)):
            self.counts[what] = self.counts.get(what, 0) + number

    def keep(self, rows: npt.NDArray[Any]) -> None:
        """Keep some rows, given by a mask or by their numbers, in that order."""
        self.line = self.line[rows]
        self.columns = {name: cells[rows] for name, cells in self.columns.items()}

    def leave_out(self, gone: Mask, why: str) -> None:
        """Leave rows out and count them."""
        self.count(gone, why)
        if gone.any():
            self.keep(~gone)

    def leave_out_unfinished(self, gone: Mask, why: str) -> None:
        """Leave out and count jobs that run or queue, unless they are kept."""
        if not self.unfinished:
            self.leave_out(gone, why)

    def refuse(self, wrong: Mask, column: str, cells: npt.NDArray[Any], expected: str) -> None:
        """Raise TraceError for the first wrong cell, if there is one."""
        if wrong.any():
            row = int(np.argmax(wrong))
            raise TraceError(self.file, int(self.line[row]), column, quote(cells[row]), expected)

    def put_in_order(self, submit: Times, start: Times, end: Times, names: tuple[str, str]) -> None:
        """Set submit_s, logged_start_s and logged_end_s; TraceError where a job starts or ends too early.

        names: headings of the start and the end in the file.
        """
        submit_s = submit.early
        start_s = start.after(submit_s)
        end_s = end.after(start_s)
        self.refuse_early(start, submit_s, names[0], "submission")
        self.refuse_early(end, start_s, names[1], "start")
        self["submit_s"], self["logged_start_s"], self[LOGGED_END] = submit_s, start_s, end_s

    def refuse_early(self, times: Times, before: Floats, column: str, what: str) -> None:
        """Raise TraceError for the first time that lies before another one; NaN never does."""
        if (wrong := times.after(before) < before).any():
            self.refuse(wrong, column, times.text(), f"a time not before the {what} ({EARLY})")

    def leave_out_unstarted(self, start: str, end: str, ended: Mask, why: str = ZERO) -> None:
        """Leave out jobs without a start, and those without an end, and count them.

        ended: jobs that have ended, with or without a start. why: the note on jobs without a start.
        """
        unstarted = ~self[start].known
        self.leave_out(unstarted & ended if self.unfinished else unstarted, why)
        self.leave_out_unfinished(~self[end].known, UNFINISHED)

    def set_run_times(self, logged_s: Floats) -> None:
        """Set duration_s: as logged, else from start to end. Jobs without any are left out, contradictions counted."""
        between = self[LOGGED_END] - self["logged_start_s"]
        known = np.isfinite(logged_s)
        differ = known & (np.abs(np.where(known, logged_s, 0.0) - between) > TOLERANCE_S)
        self.count(differ, "run times that differ from the end minus the start, used as logged")
        self["duration_s"] = np.where(known, logged_s, between)
        self.leave_out(self["duration_s"] < SHORTEST_S, ZERO)

    def round_up_gpus(self, gpus: Floats, heading: str) -> None:
        """Set num_gpus, fractions rounded up and counted; TraceError for a negative number or one too large."""
        self.refuse(~(gpus >= 0) | (gpus > 1e6), heading, gpus, "a number of GPUs from 0 to 1,000,000")
        whole = np.ceil(gpus - 1e-9)
        if (part := whole != np.rint(gpus * 1e6) / 1e6).any():
            asked, given = float(gpus[part].sum()), int(whole[part].sum())
            self.count(part, f"{SHARES} ({asked:,.2f} GPUs requested, {given:,} simulated)")
        self["num_gpus"] = whole.astype(np.int64)

    def set_text(self, name: str, cells: npt.NDArray[Any], blank: Iterable[str] = ("",)) -> None:
        """Set a column of text, NOTHING where the log is blank; no column where all cells are."""
        empty = among(cells, blank)
        if empty.all():
            self.columns.pop(name, None)
        else:
            self[name] = np.where(empty, NOTHING, cells).astype(object)

    def set_limits(self, limit_s: Floats) -> None:
        """Set time_limit_s, and with it the estimate; a job without limit gets the longest one, and is counted."""
        known = np.isfinite(limit_s) & (limit_s > 0)
        if not known.any():
            return
        self.count(~known, "jobs without a time limit, given the longest one of the log")
        limit_s = np.where(known, limit_s, limit_s[known].max())
        self["time_limit_s"] = limit_s
        self["profiled_duration_s"] = limit_s
        self["predictable_from"] = np.ones(len(self))
        self.notes.append("estimates of run times are the time limits of the log")

    def table(self, clock: Clock | None = None, *, absolute: bool = False) -> pd.DataFrame:
        """Return the checked job table, on a clock that starts at the first submission unless `absolute`.

        `attrs["zero_s"]` is the table's time 0 on the log's clock. TraceError where no job is left.
        """
        import pandas as pd

        if not len(self):
            why = "; ".join(f"{what}: {number:,}" for what, number in self.counts.items())
            raise TraceError(
                self.file, None, None, f"no job that ran ({why})" if why else "no jobs", "at least one"
            )
        known = {column.name for column in COLUMNS}
        cells = {name: each for name, each in self.columns.items() if name in known}
        if not absolute:
            first = cells["submit_s"].min()
            for name in ("submit_s", "logged_start_s", "deadline_s"):
                if name in cells:
                    cells[name] = cells[name] - first
        table = pd.DataFrame(cells)
        notes = [f"{what}: {number:,}" for what, number in self.counts.items()]
        table.attrs["notes"] = [*notes, *self.notes, *(clock.notes() if clock else [])]
        zero_s = 0.0 if absolute else float(first)
        if self.unfinished:
            found = self._checked_without(table)
            found.attrs["latest_s"] = self.latest_s - zero_s
        else:
            found = check(table, file=self.file, line=self.line)  # type: ignore[arg-type]
        found.attrs["zero_s"] = zero_s
        return found

    def _checked_without(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the checked table, with NaN where a job has no start or no run time yet."""
        lacks = {name: table["job_id"][table[name].isna()] for name in MAY_LACK if name in table}
        filled = table.copy(deep=False)
        for name in lacks:
            usual = table["submit_s"] if name == "logged_start_s" else 1.0
            filled[name] = table[name].where(table[name].notna(), usual)
        filled.attrs = table.attrs
        checked = check(filled, file=self.file, line=self.line)  # type: ignore[arg-type]
        for name, ids in lacks.items():
            checked.loc[checked["job_id"].isin(set(ids.astype(str))), name] = np.nan
        return checked


EARLY = "or the log's clock changed: see --time-zone"
