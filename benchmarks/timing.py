"""Timing of our work against a yardstick: both alternate in one process, and the minimum time of each counts.

A row of the table is a function that returns a `Comparison`, registered with its unit and its target:

    @row("name of the row", unit="us", target=2.0)
    def some_row(quick: bool) -> Comparison: ...

The function only prepares the comparison; nothing in it is timed. It raises SkippedError if the row cannot be measured.
"""

import os
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

Unit = Literal["s", "ms", "us", "/s", "x"]
SCALE = {"s": 1.0, "ms": 1e3, "us": 1e6}
MAX_REPETITIONS, MAX_S = 5, 12.0  # no repetition starts after MAX_S seconds


class SkippedError(Exception):
    """A row cannot be measured on this machine; the message has the reason."""


class Work(NamedTuple):
    """Work to be timed: `run` gets the return value of `prepare`, which is not timed, and does `amount` units."""

    run: Callable[[Any], object]
    amount: float = 1.0
    prepare: Callable[[], Any] = lambda: None


class Comparison(NamedTuple):
    """Our work and the yardstick, which does comparable work.

    against: name of the yardstick in the table.
    warm: called first and not timed, to compile the code that `ours` needs; by default `ours` runs once.
    """

    ours: Work
    yardstick: Work | None = None
    against: str = ""
    warm: Callable[[], object] | None = None


class Row(NamedTuple):
    """A row of the table.

    unit: unit of the figure; x is the time of our work over that of the yardstick, each per unit of work.
    target: upper bound of the figure, or lower bound if the unit is a rate.
    large: whether the row is measured on request only.
    make: function that returns the comparison; its argument `quick` asks for a small case, which has no target.
    """

    name: str
    unit: Unit
    target: float | None
    large: bool
    make: Callable[[bool], Comparison]

    @property
    def about(self) -> str:
        """Description of the measured work."""
        return (self.make.__doc__ or "").partition("\n")[0]

    @property
    def is_rate(self) -> bool:
        """Whether more is better."""
        return self.unit == "/s"


class Measured(NamedTuple):
    """Result of a row.

    bar: the target; None for quick cases.
    met: whether the figure meets the target.
    faster: the yardstick's time over ours, each per unit of work.
    against: name of the yardstick.
    first_s: wall-clock seconds of the first run, which compiles.
    skipped: reason why the row was not measured.
    """

    name: str
    about: str
    unit: str
    figure: float | None = None
    bar: float | None = None
    met: bool | None = None
    faster: float | None = None
    against: str = ""
    repetitions: int = 0
    first_s: float | None = None
    skipped: str = ""


ROWS: dict[str, Row] = {}


def row(
    name: str, *, unit: Unit, target: float | None = None, large: bool = False
) -> Callable[[Callable[[bool], Comparison]], Callable[[bool], Comparison]]:
    """Register a row of the table."""

    def register(make: Callable[[bool], Comparison]) -> Callable[[bool], Comparison]:
        if name in ROWS:
            raise ValueError(f"row {name!r} is already registered")
        ROWS[name] = Row(name, unit, target, large, make)
        return make

    return register


def cpu_time_s() -> float:
    """Return the CPU seconds of this process and of its child processes that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def timed(work: Work) -> float:
    """Return the CPU seconds of work, without its preparation."""
    prepared = work.prepare()
    start = cpu_time_s()
    work.run(prepared)
    return cpu_time_s() - start


def fastest(comparison: Comparison, repetitions: int = MAX_REPETITIONS) -> tuple[float, float | None, int]:
    """Return the minimum CPU seconds of our work and of the yardstick, and the number of repetitions."""
    start = time.perf_counter()
    ours: list[float] = []
    others: list[float] = []
    while not ours or (len(ours) < repetitions and time.perf_counter() - start < MAX_S):
        ours.append(timed(comparison.ours))
        if comparison.yardstick:
            others.append(timed(comparison.yardstick))
    return min(ours), min(others, default=None), len(ours)


def measure(row: Row, *, quick: bool = False) -> Measured:
    """Measure a row; if it cannot be measured, the result has the reason."""
    try:
        comparison = row.make(quick)
    except SkippedError as why:
        return Measured(row.name, row.about, row.unit, skipped=str(why))
    start = time.perf_counter()
    if comparison.warm:
        comparison.warm()
    else:
        timed(comparison.ours)
    first_s = time.perf_counter() - start
    ours_s, other_s, count = fastest(comparison)
    faster = None
    if comparison.yardstick and other_s is not None:
        faster = (other_s / comparison.yardstick.amount) / (ours_s / comparison.ours.amount)
    figure = figure_of(row, ours_s / comparison.ours.amount, faster)
    target = None if quick else row.target
    met = None if target is None else (figure >= target if row.is_rate else figure <= target)
    names = row.name, row.about, row.unit
    return Measured(*names, figure, target, met, faster, comparison.against, count, first_s)


def figure_of(row: Row, each_s: float, faster: float | None) -> float:
    """Return a row's figure, given the seconds per unit of our work."""
    if row.unit == "x":
        assert faster is not None, f"{row.name}: a ratio requires a reference"
        return 1 / faster
    return 1 / each_s if row.is_rate else each_s * SCALE[row.unit]
