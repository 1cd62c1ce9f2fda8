"""What is made of a scenario is kept for a process, but not beyond a change of a file that the scenario names."""

from collections.abc import Callable
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from gpu_cluster_gym.workloads._scenario import Scenario

F = TypeVar("F", bound=Callable[..., Any])
FILES = ("trace_file", "cluster", "run_time_predictor")
"""Fields of a scenario that may name a file."""


def kept(maxsize: int) -> Callable[[F], F]:
    """Keep what a function of a scenario, and of more, has returned for the latest so many, as `lru_cache` does."""

    def keeping(function: F) -> F:
        @lru_cache(maxsize)
        def known(_: tuple[tuple[int, int] | None, ...], *asked: Any) -> Any:
            return function(*asked)

        @wraps(function)
        def found(scenario: Scenario, *rest: Any) -> Any:
            return known(stamps(scenario), scenario, *rest)

        return cast("F", found)

    return keeping


def stamps(scenario: Scenario) -> tuple[tuple[int, int] | None, ...]:
    """Return when each file that a scenario names was changed last, ns, and its bytes; None for what is no file."""
    named = (getattr(scenario, name) for name in FILES)
    return tuple(stamp(Path(name)) if name else None for name in named)


def stamp(file: Path) -> tuple[int, int] | None:
    """Return when a file was changed last, ns, and its bytes; None where there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
