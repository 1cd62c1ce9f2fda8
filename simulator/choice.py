"""Choices: fields of frozen dataclasses, each declared with its allowed values and checked on construction."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, field, fields, is_dataclass, replace
from functools import cache
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from gpu_cluster_gym.traces import did_you_mean, unknown

C = TypeVar("C")


class Range(NamedTuple):
    """Bounds of a number; None where there is no bound."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None

    def holds(self, number: float) -> bool:
        """Return whether a number lies within the bounds; NaN never does."""
        return (
            (self.least is None or number >= self.least)
            and (self.above is None or number > self.above)
            and (self.most is None or number <= self.most)
            and (self.below is None or number < self.below)
        )

    def __str__(self) -> str:
        words = {
            "at least": self.least,
            "more than": self.above,
            "at most": self.most,
            "less than": self.below,
        }
        return " and ".join(f"{word} {bound:g}" for word, bound in words.items() if bound is not None)


class Wrong(NamedTuple):
    """A field, its invalid value, and the expected values."""

    name: str
    given: object
    expected: str

    def __str__(self) -> str:
        return f"{self.name} {_shown(self.given)}: expected {self.expected}"


class ChoiceError(ValueError):
    """Invalid choices: each field, its value, and the expected values."""

    def __init__(self, wrong: Iterable[Wrong]) -> None:
        self.wrong = tuple(wrong)
        super().__init__("; ".join(map(str, self.wrong)))

    def __reduce__(self) -> "tuple[type[ChoiceError], tuple[tuple[Wrong, ...]]]":
        """Return what pickle needs: the argument, where an exception by default gives its message."""
        return ChoiceError, (self.wrong,)

    @property
    def as_flags(self) -> str:
        """The message with fields written as command-line flags."""
        return "; ".join(str(each._replace(name=flag(each.name))) for each in self.wrong)


def choice(
    default: Any,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    expected: Callable[[Any], str | None] | None = None,
    **about: Any,
) -> Any:
    """Declare a field of a dataclass of choices.

    default: value of the field.
    least, above, most, below: inclusive and exclusive bounds of a number.
    expected: returns a description of the expected values for an invalid value, None for a valid one.
    about: further metadata of the field.
    """
    allowed = Range(least, above, most, below)
    return field(default=default, metadata={"allowed": allowed, "expected": expected} | about)


def check(choices: Any) -> None:
    """Raise ChoiceError with every invalid field of a dataclass of choices."""
    kind: type = type(choices)
    faults = {name: fault(kind, name, value) for name, value in vars(choices).items() if name in hints(kind)}
    if any(faults.values()):
        raise ChoiceError(Wrong(name, getattr(choices, name), each) for name, each in faults.items() if each)


def fault(kind: type, name: str, value: object) -> str | None:
    """Return a description of the expected values of a field for an invalid value; None for a valid one."""
    hint, optional = hints(kind)[name]
    if value is None:
        return None if optional else what(hint)
    if get_origin(hint) is Literal and value not in get_args(hint):
        return what(hint) + did_you_mean(str(value), get_args(hint))
    if not _is_of(hint, value):
        return what(hint)
    about = metadata(kind, name)
    allowed: Range = about.get("allowed", Range())
    if isinstance(value, Real) and not allowed.holds(float(value)):
        return str(allowed)
    expected: Callable[[Any], str | None] | None = about.get("expected")
    return expected(value) if expected else None


def _is_of(hint: Any, value: object) -> bool:
    """Return whether a value has a field's type; an int is also a float, a bool is neither."""
    if hint is bool or isinstance(value, bool):
        return hint is bool and isinstance(value, bool)
    if hint is int:
        return isinstance(value, Integral)
    if hint is float:
        return isinstance(value, Real) and math.isfinite(float(value))
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_is_of(get_args(hint)[0], each) for each in value)
    return get_origin(hint) is Literal or isinstance(value, hint)


def what(hint: Any) -> str:
    """Return a description of the values of a type."""
    if get_origin(hint) is Literal:
        return ", ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return "a list of names"
    words = {bool: "true or false", int: "an integer", float: "a finite number", str: "a word"}
    return words.get(hint) or f"a {hint.__name__}"


@cache
def hints(kind: type) -> dict[str, tuple[Any, bool]]:
    """Return the type of each field of a dataclass, without None, and whether the field is optional."""
    found = {}
    for name in declared(kind):
        hint = get_type_hints(kind)[name]
        options = [option for option in get_args(hint) if option is not NoneType]
        optional = NoneType in get_args(hint)
        found[name] = (options[0] if optional else hint, optional)
    return found


def metadata(kind: type, name: str) -> Mapping[str, Any]:
    """Return the metadata of a field."""
    return declared(kind)[name].metadata


@cache
def declared(kind: type) -> dict[str, "Field[Any]"]:
    """Return the fields of a dataclass by name."""
    return {each.name: each for each in fields(kind)}


def groups(choices: Any) -> dict[str, Any]:
    """Return the fields of a dataclass of choices that are dataclasses of choices themselves."""
    return {name: value for name, value in vars(choices).items() if is_dataclass(value)}


def names(choices: Any) -> dict[str, type]:
    """Return the names of all choices in a dataclass and its groups, each with the dataclass that declares it.

    choices: an instance, or a class, which stands for its default instance.
    """
    choices = choices() if isinstance(choices, type) else choices
    kind: type = type(choices)
    found: dict[str, type] = dict.fromkeys(hints(kind), kind)
    for name, inside in groups(choices).items():
        del found[name]
        found |= names(inside)
    return found


def changed(choices: C, given: Mapping[str, Any]) -> C:
    """Return choices with some replaced, by the name of a field or of a field in a group.

    Raise ValueError for an unknown name, with the nearest one, or for an invalid value.
    """
    kind: type = type(choices)
    if not isinstance(given, Mapping):
        raise ValueError(f"choices {given!r}: expected a dict of fields of {kind.__name__}")
    known = names(choices)
    for name in given:
        if name not in known:
            raise ValueError(unknown("field", name, known))
    own = {name: value for name, value in given.items() if name in hints(kind)}
    for group, inside in groups(choices).items():
        part = {name: value for name, value in given.items() if name in names(inside)}
        own |= {group: changed(inside, part)} if part else {}
    made: C = replace(choices, **own)  # type: ignore[type-var]
    return made


def flag(name: str) -> str:
    """Return the command-line flag of a field."""
    return f"--{name.replace('_', '-')}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else repr(value)
