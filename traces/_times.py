"""Times of a log: ISO dates and times with or without a zone, clock changes, and durations like 1-02:03:04."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_cluster_gym.traces._registry import did_you_mean
from gpu_cluster_gym.traces._table import TraceError, quote

Floats = npt.NDArray[np.float64]
File = str | PathLike[str]

EXAMPLE = "a time like 2024-03-31 01:59:00"
NO_ZONE = (
    "times without a zone are read as UTC: where the log is of local times, --time-zone Europe/Berlin (or another "
    "zone) keeps changes of the clock from adding an hour to waits"
)

_PLAIN = re.compile(r"(?:\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\n)*", re.ASCII)
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d)?([.,]\d{1,9})?[ ]?(Z|UTC|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)
_SECONDS = re.compile(r"\d{1,11}(?:\.\d{1,9})?", re.ASCII)
_SPAN = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,6}):(\d\d(?:\.\d{1,9})?)", re.ASCII)
_DAYS_ONLY = re.compile(r"(\d{1,6})-(\d\d)(?::(\d\d))?", re.ASCII)


@dataclass(frozen=True)
class Times:
    """Seconds since 1970, NaN where a cell is blank: two readings of an hour that a clock showed twice, else equal.

    zone: zone of the log, in which messages show times
    """

    early: Floats
    late: Floats
    zone: str = "UTC"

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Cells that are not blank."""
        return np.isfinite(self.early)

    def __getitem__(self, rows: Any) -> Times:
        """Return the times of some rows."""
        return Times(self.early[rows], self.late[rows], self.zone)

    def after(self, before: Floats) -> Floats:
        """Return the earlier reading, or the later one where the earlier would lie before `before`."""
        return np.where(self.early < before, self.late, self.early)

    def text(self) -> npt.NDArray[Any]:
        """Return the times as text for a message, to the second."""
        import pandas as pd

        times = pd.DatetimeIndex(np.floor(self.early).astype("datetime64[s]"), tz="UTC").tz_convert(self.zone)
        return times.strftime(f"%Y-%m-%d %H:%M:%S {self.zone}").to_numpy()


@dataclass
class Clock:
    """The clock of a log: its zone, and counts of what was read.

    zone: name of the zone of times that have none; None for UTC
    numeric: whether a column has seconds since 1970, which its first cell decides
    counts: cells with and without a zone of their own, and those in an hour that the clock showed twice
    """

    zone: str | None = None
    counts: Counter[str] = field(default_factory=Counter)
    numeric: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown zone."""
        if self.zone is not None and (expected := zone_expected(self.zone)):
            raise ValueError(f"--time-zone {quote(self.zone)}: expected {expected}")

    def times(
        self,
        cells: Sequence[str] | npt.NDArray[Any],
        line: Sequence[int] | npt.NDArray[Any],
        column: str,
        file: File,
        blank: Collection[str] = (),
    ) -> Times:
        """Return the times in cells of text, a cell of `blank` as NaN; TraceError for the first that is no time.

        Numbers are seconds since 1970, in a column that has nothing else.
        """
        seconds = np.full(len(cells), np.nan)
        here = np.arange(len(cells))
        if blank:
            known = set(blank)
            here = np.flatnonzero(np.fromiter((cell not in known for cell in cells), bool, len(cells)))
        texts = [cells[at] for at in here.tolist()]
        shift = np.full(len(texts), np.nan)  # seconds east of Greenwich, NaN where a cell does not say
        parsed = _parsed
        if texts and self.numeric.setdefault(column, bool(_SECONDS.fullmatch(texts[0]))):
            parsed = _as_numbers
        try:
            seconds[here] = parsed(texts, shift)
        except ValueError:
            for at, text in zip(here.tolist(), texts, strict=True):
                _refuse_strange(parsed, text, int(line[at]), column, file)
            raise
        self.counts["zone"] += int(np.isfinite(shift).sum())
        local = here[np.isnan(shift)]
        self.counts["no zone"] += len(local)
        seconds[here] -= np.where(np.isnan(shift), 0.0, shift)
        late = seconds.copy()
        if self.zone is not None and len(local):
            early, later = _in_zone(seconds[local], self.zone)
            if (gone := np.isnan(early)).any():
                at = int(local[int(np.argmax(gone))])
                expected = (
                    f"a time that exists in {self.zone} (its clock was put forward then; see --time-zone)"
                )
                raise TraceError(file, int(line[at]), column, quote(cells[at]), expected)
            seconds[local], late[local] = early, later
            self.counts["twice"] += int((early != later).sum())
        return Times(seconds, late, self.zone or "UTC")

    def reader(self, blank: Collection[str] = ()) -> Callable[..., Times]:
        """Return `times` with these blank cells, as a converter of a column."""
        return partial(self.times, blank=blank)

    def notes(self) -> list[str]:
        """Return notes on the zone and on clock changes."""
        notes = []
        if self.zone is None and self.counts["no zone"]:
            notes.append(NO_ZONE)
        if self.zone is not None and not self.counts["no zone"]:
            notes.append(f"--time-zone {self.zone} is not used, since every time of the log has its zone")
        if count := self.counts["twice"]:
            notes.append(
                "times in an hour that the clock showed twice, read as in the first one unless the order of a job's "
                f"times requires the second: {count:,}"
            )
        return notes


def zone_expected(name: str) -> str | None:
    """Return a description of time zones for an error about an unknown one; None for a known one."""
    from zoneinfo import ZoneInfo, available_timezones

    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        known = available_timezones()
        cities = {zone.rpartition("/")[2]: zone for zone in known}
        hint = f"; did you mean {cities[name]!r}?" if name in cities else did_you_mean(name, known)
        return f"a time zone like Europe/Berlin or UTC{hint}"
    return None


def is_time(text: str) -> bool:
    """Return whether a text has the form of a date, with or without a time."""
    return bool(_TIME.fullmatch(text))


def spans(
    cells: Sequence[str] | npt.NDArray[Any],
    line: Sequence[int] | npt.NDArray[Any],
    column: str,
    file: File,
    blank: Collection[str] = (),
) -> Floats:
    """Return durations in seconds, plain or as [days-]hours:minutes:seconds; a cell of `blank` is NaN."""
    known: dict[str, float] = dict.fromkeys(blank, np.nan)
    found = np.empty(len(cells))
    for at, cell in enumerate(cells):
        if cell not in known:
            known[cell] = _span(cell)
            if np.isnan(known[cell]):
                raise TraceError(
                    file, int(line[at]), column, quote(cell), "a duration like 3600 or 1-02:03:04"
                )
        found[at] = known[cell]
    return found


def _span(text: str) -> float:
    """Return the seconds of a duration, NaN for another text."""
    if _SECONDS.fullmatch(text):
        return float(text)
    if match := _DAYS_ONLY.fullmatch(text):
        days, hours, minutes = (float(each or 0) for each in match.groups())
        if minutes >= 60 or hours >= 24:
            return np.nan
        return 86_400 * days + 3600 * hours + 60 * minutes
    if not (match := _SPAN.fullmatch(text)):
        return np.nan
    days, hours, minutes, seconds = (float(each or 0) for each in match.groups())
    if seconds >= 60 or (minutes >= 60 and match[2] is not None) or (hours >= 24 and match[1] is not None):
        return np.nan
    return 86_400 * days + 3600 * hours + 60 * minutes + seconds


def _parsed(texts: Sequence[str], shift: Floats) -> Floats:
    """Return the texts as seconds since 1970 on their own clocks; write each one's zone into `shift`."""
    if _PLAIN.fullmatch("\n".join(texts) + "\n" * bool(texts)):
        return np.array(texts, "datetime64[s]").astype(np.int64).astype(float)
    plain, fraction = [], np.zeros(len(texts))
    for at, text in enumerate(texts):
        if not (match := _TIME.fullmatch(text)):
            raise ValueError(text)
        day, minute, second, part, zone = match.groups()
        plain.append(f"{day}T{minute or '00:00'}{second or ':00'}")
        if part:
            fraction[at] = float(f"0.{part[1:]}")
        if zone:
            shift[at] = _east(zone)
    return np.array(plain, "datetime64[s]").astype(np.int64).astype(float) + fraction


def _as_numbers(texts: Sequence[str], shift: Floats) -> Floats:
    """Return numbers of seconds since 1970, which need no zone."""
    if strange := next((text for text in texts if not _SECONDS.fullmatch(text)), None):
        raise ValueError(strange)
    shift[:] = 0.0
    return np.array([float(text) for text in texts])


def _east(zone: str) -> float:
    """Return the seconds by which a zone like +02:00 is ahead of UTC; ValueError for more than a day."""
    if zone in ("Z", "UTC"):
        return 0.0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 15 or minutes > 59:
        raise ValueError(zone)
    return (hours * 3600.0 + minutes * 60.0) * (-1 if zone[0] == "-" else 1)


def _refuse_strange(
    parsed: Callable[[Sequence[str], Floats], Floats], text: str, line: int, column: str, file: File
) -> None:
    """Raise TraceError where a text is no time."""
    try:
        parsed([text], np.empty(1))
    except ValueError:
        expected = EXAMPLE if parsed is _parsed else "seconds since 1970, as in the first row"
        raise TraceError(file, line, column, quote(text), expected) from None


def _in_zone(local_s: Floats, zone: str) -> tuple[Floats, Floats]:
    """Return local times as seconds since 1970, early and late where the clock showed them twice; NaN if never."""
    import pandas as pd

    part = local_s - np.floor(local_s)
    index = pd.DatetimeIndex(np.floor(local_s).astype("datetime64[s]"))
    both = []
    for first in (True, False):
        placed = index.tz_localize(zone, ambiguous=np.full(len(index), first), nonexistent="NaT")
        naive = placed.tz_convert("UTC").tz_localize(None)
        seconds = naive.to_numpy().astype("datetime64[s]").astype(np.int64).astype(float)
        both.append(np.where(naive.isna(), np.nan, seconds + part))
    return both[0], both[1]
