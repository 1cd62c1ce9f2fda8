"""Validation of keywords: return the value, or raise a ValueError that states what was expected."""

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any


def whole_number(name: str, value: Any, minimum: int = 1) -> int:
    """Return a whole number of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ValueError(f"{name} {value!r}: expected a whole number, at least {minimum}")
    return int(value)


def finite(name: str, value: Any, minimum: float = -math.inf) -> float:
    """Return a finite number of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value) or value < minimum:
        wanted = "a finite number" if minimum == -math.inf else f"a finite number, at least {minimum:g}"
        raise ValueError(f"{name} {value!r}: expected {wanted}")
    return float(value)


def time_constant(name: str, value: Any) -> float:
    """Return a time constant, s, greater than 0; infinity for None."""
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, float | Real) or not float(value) > 0:
        raise ValueError(f"{name} {value!r}: expected seconds > 0, or None for no discounting")
    return float(value)


def word(name: str, value: Any) -> Any:
    """Return a string."""
    if not isinstance(value, str):
        raise ValueError(f"{name} {value!r}: expected a string")
    return value


def choice(name: str, value: Any, allowed: Sequence[str]) -> Any:
    """Return one of the allowed strings."""
    if value not in allowed:
        raise ValueError(f"{name} {value!r}: expected one of {', '.join(allowed)}")
    return value


def names(name: str, value: Any) -> Any:
    """Return a list of strings."""
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{name} {value!r}: expected a list of names")
    return value


def boolean(name: str, value: Any) -> bool:
    """Return True or False."""
    if value not in (True, False) or not isinstance(value, bool | Integral):
        raise ValueError(f"{name} {value!r}: expected True or False")
    return bool(value)


def weights(name: str, value: Any) -> Any:
    """Return weights by name, each a finite number; {} for None. Values that are no mapping are returned unchanged."""
    if not isinstance(value, Mapping):
        return value or {}
    return {each: finite(f"{name} {each}", number) for each, number in value.items()}
