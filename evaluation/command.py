"""What the two commands share: how they begin and end, and what they show on stderr while the user waits."""

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import Any

from gpu_cluster_gym.evaluation import cli_info
from gpu_cluster_gym.simulator.choice import ChoiceError

PATIENCE_S = 10.0
"""Without a terminal nothing is said of what takes less."""
SPAN_S = 600.0
"""Over which the speed is measured that tells how much time is left: it outlasts a pause, such as a validation."""


def run(name: str, work: Callable[[Sequence[str]], None], args: Sequence[str] | None) -> int:
    """Run a command; return its exit code, 2 if what was asked for cannot be, which one sentence on stderr says.

    An interrupt is told if it says what is left of the run.
    """
    given = sys.argv[1:] if args is None else args
    try:
        if answer := cli_info.answer(given):
            print(answer)
            return 0
        work(given)
    except ChoiceError as error:
        return told(name, error.as_flags, 2)
    except ValueError as error:
        return told(name, str(error), 2)
    except KeyboardInterrupt as stop:
        return told(name, str(stop), 130)
    except BrokenPipeError:  # whoever read what is printed, as `head` does, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def told(name: str, said: str, code: int) -> int:
    """Say on stderr why a command ends, if there is something to say, and return the exit code."""
    if said:
        tell(f"{name}: {said}")
    return code


def tell(said: str) -> None:
    """Say something on stderr."""
    print(said, file=sys.stderr, flush=True)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say on stderr what is being waited for: at once on a terminal, else if it takes long."""
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status(what):
            yield
        return
    late = told_late(what)
    try:
        yield
    finally:
        late.cancel()


def told_late(what: str) -> Timer:
    """Say on stderr what is being waited for once that has taken long; cancelled, say nothing."""
    late = Timer(PATIENCE_S, tell, [f"{what} ..."])
    late.daemon = True
    late.start()
    return late


@contextmanager
def progress(what: str, total: int, before: str | None = None) -> Iterator[Callable[..., None]]:
    """Show a bar on stderr, or a line each tenth where that is no terminal; give what moves it on by so much.

    What moves it on may be told where it is. before: what is waited for before the first step, if that may be long.
    """
    if not sys.stderr.isatty():
        late = told_late(before) if before else None
        try:
            yield Tenths(what, total, late).moved
        finally:
            if late:
                late.cancel()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        "{task.description}",
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    how: dict[str, Any] = {"transient": True, "speed_estimate_period": SPAN_S}
    with Progress(*columns, console=Console(stderr=True), redirect_stdout=sys.stdout.isatty(), **how) as bar:
        task = bar.add_task(before or what, total=total)

        def moved(by: int, now: str | None = None) -> None:
            bar.update(task, advance=by, description=now or what)

        yield moved


class Tenths:
    """How far something is, in lines: one each tenth, but none within a while of the first step, or of another."""

    def __init__(self, what: str, total: int, late: Timer | None = None) -> None:
        """Begin; time counts from the first step, before which much may be prepared: `late` tells of that."""
        self._what, self._total, self._late = what, max(total, 1), late
        self._done = self._said = self._first = 0
        self._began = self._last = math.nan

    def moved(self, by: int, now: str | None = None) -> None:
        """Move on by so much."""
        if self._late:
            self._late.cancel()
        self._done += by
        time_s = time.monotonic()
        if math.isnan(self._began):
            self._began = self._last = time_s
            self._first = self._done
        tenth = 10 * self._done // self._total
        if tenth <= self._said or time_s - self._last < PATIENCE_S:
            return
        self._said, self._last = tenth, time_s
        spent = time_s - self._began
        left = spent * max(self._total - self._done, 0) / max(self._done - self._first, 1)
        share = min(100 * self._done // self._total, 100)
        tell(
            f"{self._what}: {share} % ({self._done:,} of {self._total:,}) after {clock(spent)}, "
            f"about {clock(left)} left"
        )


def clock(seconds: float) -> str:
    """Return a time as people say it."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
