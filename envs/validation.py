"""What keywords of environments may be; where one is something else, a ValueError says so in a sentence."""

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """Return a number that must be whole and at least so much."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} {value!r}: expected a whole number, at least {least}")
    return int(value)


def finite(name: str, value: Any, least: float = -math.inf) -> float:
    """Return a number that must be finite and at least so much."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value) or value < least:
        wanted = "a finite number" if least == -math.inf else f"a finite number, at least {least:g}"
        raise ValueError(f"{name} {value!r}: expected {wanted}")
    return float(value)


def time_constant(name: str, value: Any) -> float:
    """Return a time constant, s, which must be more than 0; infinite for None."""
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, float | Real) or not float(value) > 0:
        raise ValueError(f"{name} {value!r}: expected seconds, more than 0, or None for no discount")
    return float(value)


def slots(queue: Any, running: Any) -> tuple[int, int]:
    """Return how many slots there are for queued and for running jobs."""
    return whole_number("queue_slots", queue), whole_number("running_slots", running, least=0)


def word(name: str, value: Any) -> Any:
    """Return what must be a text."""
    if not isinstance(value, str):
        raise ValueError(f"{name} {value!r}: expected a word")
    return value


def names(name: str, given: Any) -> Any:
    """Return what must be a list of texts."""
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
        raise ValueError(f"{name} {given!r}: expected a list of words")
    return given


def either(name: str, value: Any) -> bool:
    """Return what must be True or False."""
    if value not in (True, False) or not isinstance(value, bool | Integral):
        raise ValueError(f"{name} {value!r}: expected True or False")
    return bool(value)


def weights(name: str, given: Any) -> Any:
    """Return weights by name, each of which must be a finite number; none for None, and what is no mapping as it is."""
    if not isinstance(given, Mapping):
        return given or {}
    return {each: finite(f"{name} {each}", value) for each, value in given.items()}
