"""A choice: a field of a frozen dataclass, declared with what it may be, and checked wherever it is made."""

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
    """The numbers that are allowed; None where nothing bounds them."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None

    def holds(self, number: float) -> bool:
        """Whether a number is allowed; NaN never is."""
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
    """A field, what was given for it, and what is expected instead."""

    name: str
    given: object
    expected: str

    def __str__(self) -> str:
        return f"{self.name} {_shown(self.given)}: expected {self.expected}"


class ChoiceError(ValueError):
    """Choices that cannot be: which, what was given for each, and what is expected."""

    def __init__(self, wrong: Iterable[Wrong]) -> None:
        self.wrong = tuple(wrong)
        super().__init__("; ".join(map(str, self.wrong)))

    @property
    def as_flags(self) -> str:
        """The same with the fields written as flags."""
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
    """Declare a field of a dataclass of choices: its default, and what it may be beside the values of its type.

    expected: says of a value what is expected instead, None of one that is right. about: kept as metadata.
    """
    allowed = Range(least, above, most, below)
    return field(default=default, metadata={"allowed": allowed, "expected": expected} | about)


def check(choices: Any) -> None:
    """Refuse values that a dataclass of choices does not allow; ChoiceError names each."""
    kind: type = type(choices)
    faults = {name: fault(kind, name, value) for name, value in vars(choices).items() if name in hints(kind)}
    if any(faults.values()):
        raise ChoiceError(Wrong(name, getattr(choices, name), said) for name, said in faults.items() if said)


def fault(kind: type, name: str, value: object) -> str | None:
    """Return what is expected of a field instead of this value; None if the value is right."""
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
    """Tell whether a value is of a field's type; whole numbers are numbers, but truth values are none."""
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
    """Say what the values of a type are."""
    if get_origin(hint) is Literal:
        return ", ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return "a list of words"
    words = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a word"}
    return words.get(hint) or f"a {hint.__name__}"


@cache
def hints(kind: type) -> dict[str, tuple[Any, bool]]:
    """Return the type of each field of a dataclass without its None, and whether it may be None."""
    found = {}
    for name in declared(kind):
        hint = get_type_hints(kind)[name]
        options = [option for option in get_args(hint) if option is not NoneType]
        optional = NoneType in get_args(hint)
        found[name] = (options[0] if optional else hint, optional)
    return found


def metadata(kind: type, name: str) -> Mapping[str, Any]:
    """Return what is declared of a field beside its type and default."""
    return declared(kind)[name].metadata


@cache
def declared(kind: type) -> dict[str, "Field[Any]"]:
    """Return the fields of a dataclass by name."""
    return {each.name: each for each in fields(kind)}


def is_group(kind: type, name: str) -> bool:
    """Tell whether a field of a dataclass of choices holds choices itself."""
    return is_dataclass(hints(kind)[name][0])


@cache
def names(kind: type) -> dict[str, type]:
    """Return the choices of a dataclass and of those inside it: the dataclass of each by the field's name."""
    found: dict[str, type] = {}
    for name, (hint, _) in hints(kind).items():
        found |= names(hint) if is_group(kind, name) else {name: kind}
    return found


def changed(choices: C, given: Mapping[str, Any]) -> C:
    """Return choices with others in their place, by the name of a field of theirs or of a group inside.

    ValueError names a field that does not exist, those that do and the nearest, or what a value cannot be.
    """
    kind: type = type(choices)
    if not isinstance(given, Mapping):
        raise ValueError(f"{given!r}: expected a dict of fields of {kind.__name__}")
    for name in given:
        if name not in names(kind):
            raise ValueError(unknown("choice", name, names(kind)))
    own = {name: value for name, value in given.items() if name in hints(kind)}
    for group in (name for name in hints(kind) if is_group(kind, name)):
        inside: Any = getattr(choices, group)
        named = names(hints(kind)[group][0])
        wanted = {name: value for name, value in given.items() if name in named}
        own |= {group: changed(inside, wanted)} if wanted else {}
    made: C = replace(choices, **own)  # type: ignore[type-var]
    return made


def flag(name: str) -> str:
    """Return a field as it is written on a command line."""
    return f"--{name.replace('_', '-')}"


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)
