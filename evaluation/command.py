"""Shared parts of the commands: exit codes, `--list` and `--version`, progress on stderr."""

import ast
import errno
import gc
import math
import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from typing import Any

from gpu_cluster_gym import __version__
from gpu_cluster_gym.evaluation.stopping import exit_code, stoppable
from gpu_cluster_gym.simulator.choice import ChoiceError
from gpu_cluster_gym.traces import VERSION, modules, plug_ins, unknown

LISTS = {"policies": "baselines", "workloads": "workloads", "traces": "traces", "papers": "experiments"}
"""The package behind each list."""
ADDITIONAL = {
    "baselines": {
        "ppo": "The pretrained agent for the workload, or the general one.",
        "plain": "The pretrained agent that starts and pauses single jobs, trained from random weights.",
        "tuned": "The policy that did best in a search on the workload's training windows; tuned:NAME for one policy.",
        "constants": "union with the weights found by a search for the workload.",
        "lookahead:NAME": "Look-ahead on top of union, constants, ppo or the folder of a steering agent.",
        "random_legal": "Random legal actions of the default environment; unlike random, it also pauses jobs and "
        "waits; a floor in every table.",
        "first_legal": "The first legal action of the default environment; a floor in every table.",
        "recorded": "The schedule of a log that has starts, as it was (with --full-trace); not simulated.",
        "all": "Every policy above except lookahead, which takes seconds to minutes per window.",
        "module:attribute": "A policy of your own.",
    }
}
"""Names that a list has in addition to the modules of its package."""
SCRIPT = "gpu-cluster-gym"
"""The installed command."""
FLAGS = ("--help", "--list", "--version")
"""Flags that set no choice."""
FULL = (errno.ENOSPC, errno.EDQUOT)
WIDTH = 80
PATIENCE_S = 10.0
"""Without a terminal, only waits longer than this are reported."""
SPAN_S = 600.0
"""Period over which speed is averaged for the remaining time; it is longer than a pause such as a validation."""


def run(name: str, work: Callable[[Sequence[str]], None], args: Sequence[str] | None) -> int:
    """Run a command and return its exit code.

    A ValueError is printed on stderr as one sentence, with exit code 2. The message of a KeyboardInterrupt is printed
    too, with 130, or 128 + the number of another signal.
    """
    given = sys.argv[1:] if args is None else args
    try:
        if answer := answered(given):
            print(answer)
            return 0
        with stoppable():
            work(given)
    except ChoiceError as error:
        return _failed(name, error.as_flags, 2)
    except ValueError as error:
        return _failed(name, str(error), 2)
    except KeyboardInterrupt as stop:
        return _failed(name, str(stop) or "interrupted", exit_code(stop))
    except OSError as error:
        if error.errno in FULL:
            return _failed(
                name, f"no space is left on the disk ({error.filename or error.strerror}): free some", 2
            )
        if not isinstance(error, BrokenPipeError):
            raise
        # the reader of stdout, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _failed(name: str, message: str, code: int) -> int:
    if message:
        log(as_called(f"{name}: {message}"))
    return code


def as_called(text: str) -> str:
    """Return a text that names the two commands as they were called: `gpu-cluster-gym evaluate` if installed."""
    if Path(sys.argv[0]).name != SCRIPT:
        return text
    return re.sub(r"(?:python )?\b(evaluate|train)(?:_agent)?\.py\b", rf"{SCRIPT} \1", text)


def processors(asked: int | None) -> int:
    """Return the number of processes to use: as many as asked for, None for all processors, and never more than these.

    A smaller number than asked for is said on stderr.
    """
    most = len(os.sched_getaffinity(0))
    if asked and asked > most:
        log(f"--processes {asked}: {most} are used, one for each processor that this process may use")
    return min(asked or most, most)


def log(message: str) -> None:
    """Print a line on stderr."""
    print(message, file=sys.stderr, flush=True)


# Lists and versions.


def answered(args: Sequence[str]) -> str | None:
    """Return the text for `--version` or `--list`, None without either; ValueError for an unknown list."""
    if "--version" in args:
        return versions()
    lists = [at for at, arg in enumerate(args) if arg.partition("=")[0] == "--list"]
    if not lists:
        return None
    _, joined, name = args[lists[0]].partition("=")
    name = name if joined else next(iter(args[lists[0] + 1 : lists[0] + 2]), "")
    if name not in LISTS:
        raise ValueError(
            f"--list: {unknown('list', name, LISTS)}"
            if name
            else f"--list: expected one of {', '.join(LISTS)}"
        )
    package = LISTS[name]
    found = {each: first_sentence(package, each) for each in modules(package) if each != "generic"}
    installed = {each: f"Entry point {point.value}." for each, point in plug_ins(package).items()}
    additional = ADDITIONAL.get(package, {})
    return "\n\n".join(listed(each) for each in (found, installed, additional) if each)


def versions() -> str:
    """Return the version of the package, and that of its random draws."""
    return f"gpu-cluster-gym {__version__}, random draws of version {VERSION}"


def listed(found: Mapping[str, str]) -> str:
    """Return names and their descriptions, wrapped to 80 characters."""
    width = max(map(len, found)) + 2
    return "\n".join(
        textwrap.fill(text, WIDTH, initial_indent=f"{name:{width}}", subsequent_indent=" " * width)
        for name, text in found.items()
    )


def first_sentence(package: str, name: str) -> str:
    """Return the first paragraph of a module's docstring, without importing the module."""
    spec = find_spec(f"gpu_cluster_gym.{package}.{name}")
    assert spec
    assert spec.origin
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())


# Progress.


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on stderr what is in progress: at once on a terminal, else after `PATIENCE_S`."""
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status(what):
            yield
        return
    notice = delayed_notice(what)
    try:
        yield
    finally:
        notice.cancel()


def delayed_notice(what: str) -> Timer:
    """Return a started timer that prints what is in progress after `PATIENCE_S`, unless it is cancelled."""
    notice = Timer(PATIENCE_S, log, [f"{what} ..."])
    notice.daemon = True
    notice.start()
    return notice


@contextmanager
def progress(what: str, total: int, before: str | None = None) -> Iterator[Callable[..., None]]:
    """Show a progress bar on stderr, or a line per tenth without a terminal; yield the function that advances it.

    The function takes the number of steps done and, optionally, a text to show.
    before: description of the preparation before the first step, where that may be long.
    """
    if not sys.stderr.isatty():
        notice = delayed_notice(before) if before else None
        try:
            yield Tenths(what, total, notice).advance
        finally:
            if notice:
                notice.cancel()
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

        def advance(by: int, now: str | None = None) -> None:
            bar.update(task, advance=by, description=now or what)

        yield advance


@contextmanager
def without_collection() -> Iterator[None]:
    """Keep the garbage collector from running."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Tenths:
    """Progress in lines: one per tenth, at most one per `PATIENCE_S`."""

    def __init__(self, what: str, total: int, notice: Timer | None = None) -> None:
        """Start at zero; time counts from the first step. notice: timer of the preparation, cancelled then."""
        self._what, self._total, self._notice = what, max(total, 1), notice
        self._done = self._shown = self._first = 0
        self._began = self._last = math.nan

    def advance(self, by: int, now: str | None = None) -> None:
        """Count steps, and print a line where one is due."""
        if self._notice:
            self._notice.cancel()
        self._done += by
        time_s = time.monotonic()
        if math.isnan(self._began):
            self._began = self._last = time_s
            self._first = self._done
        tenth = 10 * self._done // self._total
        if tenth <= self._shown or time_s - self._last < PATIENCE_S:
            return
        self._shown, self._last = tenth, time_s
        spent = time_s - self._began
        left = spent * max(self._total - self._done, 0) / max(self._done - self._first, 1)
        share = min(100 * self._done // self._total, 100)
        log(
            f"{self._what}: {share} % ({self._done:,} of {self._total:,}) after {clock(spent)}, "
            f"about {clock(left)} left"
        )


def clock(seconds: float) -> str:
    """Return a duration in seconds or minutes."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
