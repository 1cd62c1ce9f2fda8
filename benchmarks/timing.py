"""How speed is measured: contests of our work and a yardstick's in one process, taken in turn, the least time of each.

A row of the table is a function that makes a `Contest`, registered with its unit and its bar:

    @row("name of the row", unit="us", bar=2.0)
    def some_row(setting: Setting) -> Contest: ...

It makes what the contest needs and returns; nothing in it is timed. SkippedError says why a row cannot be measured.
"""

import os
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

Unit = Literal["s", "ms", "us", "/s", "x"]
SCALE = {"s": 1.0, "ms": 1e3, "us": 1e6}
REPETITIONS, ENOUGH_S = 5, 12.0  # at most so many, and none begins after so many seconds


class SkippedError(Exception):
    """A row cannot be measured here; the message says why."""


class Work(NamedTuple):
    """Something to time: what `prepare` returns is handed to `run`, which does `amount` units of work."""

    run: Callable[[Any], object]
    amount: float = 1.0
    prepare: Callable[[], Any] = lambda: None


class Contest(NamedTuple):
    """Our work and what it is compared with: `yardstick` does the like, and is told apart by its name.

    warm: is called first, and not timed: it compiles what `ours` needs. Without it `ours` runs once for that.
    """

    ours: Work
    yardstick: Work | None = None
    against: str = ""
    warm: Callable[[], object] | None = None


class Setting(NamedTuple):
    """How much is measured: `quick` takes small cases, which have no bars."""

    quick: bool = False


class Row(NamedTuple):
    """A row: what it measures is in `unit`, to be at most `bar`, or at least where the unit is a rate.

    Unit x is the time of our work over the yardstick's, each for a unit of work. large: measured on request only.
    """

    name: str
    unit: Unit
    bar: float | None
    large: bool
    make: Callable[[Setting], Contest]

    @property
    def about(self) -> str:
        """What is measured."""
        return (self.make.__doc__ or "").partition("\n")[0]

    @property
    def is_rate(self) -> bool:
        """Whether more is better."""
        return self.unit == "/s"


class Measured(NamedTuple):
    """What a row came to; `faster` is the yardstick's time over ours, each for a unit of work."""

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
    name: str, *, unit: Unit, bar: float | None = None, large: bool = False
) -> Callable[[Callable[[Setting], Contest]], Callable[[Setting], Contest]]:
    """Register a row of the table."""

    def register(make: Callable[[Setting], Contest]) -> Callable[[Setting], Contest]:
        if name in ROWS:
            raise ValueError(f"there are two rows {name!r}")
        ROWS[name] = Row(name, unit, bar, large, make)
        return make

    return register


def spent_s() -> float:
    """Seconds of the processor that this process has taken, with those that it has started and that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def taken(work: Work) -> float:
    """Seconds of the processor that work takes, without what it needs to be prepared."""
    prepared = work.prepare()
    begin = spent_s()
    work.run(prepared)
    return spent_s() - begin


def least(contest: Contest, repetitions: int = REPETITIONS) -> tuple[float, float | None, int]:
    """Seconds of our work and of the yardstick's, the least of turns taken one after the other, and their number."""
    begin = time.perf_counter()
    ours: list[float] = []
    others: list[float] = []
    while not ours or (len(ours) < repetitions and time.perf_counter() - begin < ENOUGH_S):
        ours.append(taken(contest.ours))
        if contest.yardstick:
            others.append(taken(contest.yardstick))
    return min(ours), min(others, default=None), len(ours)


def measure(row: Row, setting: Setting) -> Measured:
    """Measure a row; one that cannot be measured says why."""
    try:
        contest = row.make(setting)
    except SkippedError as why:
        return Measured(row.name, row.about, row.unit, skipped=str(why))
    begin = time.perf_counter()
    if contest.warm:
        contest.warm()
    else:
        taken(contest.ours)
    first_s = time.perf_counter() - begin
    ours_s, other_s, count = least(contest)
    faster = None
    if contest.yardstick and other_s is not None:
        faster = (other_s / contest.yardstick.amount) / (ours_s / contest.ours.amount)
    figure = figure_of(row, ours_s / contest.ours.amount, faster)
    bar = None if setting.quick else row.bar
    met = None if bar is None else (figure >= bar if row.is_rate else figure <= bar)
    names = row.name, row.about, row.unit
    return Measured(*names, figure, bar, met, faster, contest.against, count, first_s)


def figure_of(row: Row, each_s: float, faster: float | None) -> float:
    """Return a row's figure from the seconds of a unit of our work."""
    if row.unit == "x":
        assert faster is not None, f"{row.name}: a ratio needs a yardstick"
        return 1 / faster
    return 1 / each_s if row.is_rate else each_s * SCALE[row.unit]
