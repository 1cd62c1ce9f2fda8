"""How a view shows the simulator's memory: arrays that can be read and not changed, and that lead to nothing else.

What is reached through the attributes of what is shown, `base` included, holds no truth and cannot be written. To read
memory by its address is not prevented.
"""

from collections.abc import Callable
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from gpu_cluster_gym.simulator.source import Part, Source, source_of
from gpu_cluster_gym.traces import did_you_mean


class _Lender:
    """What an array has its memory from: it knows nothing but where that is."""

    __slots__ = ("__array_interface__", "__weakref__")

    __array_interface__: dict[str, Any]


_LENT: WeakKeyDictionary[_Lender, np.ndarray] = WeakKeyDictionary()  # keeps what is lent alive


def detached(array: np.ndarray) -> np.ndarray:
    """Return an array of the same memory, now and later, that cannot be written and whose base is no array."""
    lender = _Lender()
    where = array.__array_interface__
    lender.__array_interface__ = where | {"data": (where["data"][0], True)}
    _LENT[lender] = array
    return np.asarray(lender)


class Entities:
    """Arrays over the jobs that have arrived, over GPUs, or over nodes; each is made when it is first asked for."""

    count: str
    """The number of the record that says how many there are."""

    def __getattr__(self, name: str) -> np.ndarray:
        """Refuse a name that is no array here; AttributeError names those that are."""
        known = sorted(name for name in dir(type(self)) if not name.startswith("_"))
        what = type(self).__name__.lower()
        raise AttributeError(
            f"{what} have no {name!r}: there are {', '.join(known)}{did_you_mean(name, known)}"
        )


class Column:
    """An array that shows a field of the jobs, or of the record over jobs, GPUs or nodes.

    It shows the same memory as long as its entities live, so it is looked up once for each of them.
    """

    def __init__(self, origin: Literal["job", "state"], field: str, meaning: str) -> None:
        """Name the field and say what it means."""
        self.origin, self.field, self.name = origin, field, field
        self.__doc__ = meaning

    def __set_name__(self, owner: type, name: str) -> None:
        """Learn by which name it is shown."""
        self.name = name

    def __get__(self, entities: Entities | None, owner: type | None = None) -> Any:
        """Return the array."""
        if entities is None:
            return self
        source = source_of(entities)
        if isinstance(source, Part):
            return (source.declared if self.origin == "job" else source.present)(self.field)
        field = source.jobs[self.field] if self.origin == "job" else source.state.array(self.field)
        shown = detached(field[: getattr(source.state, entities.count)])
        entities.__dict__[self.name] = shown
        return shown


class Reading:
    """An array that a function makes of what a view looks at, each time anew."""

    def __init__(self, function: Callable[[Source], np.ndarray]) -> None:
        """Take the function, and its docstring."""
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, entities: Entities | None, owner: type | None = None) -> Any:
        """Return the array as it is now."""
        return self if entities is None else self.function(source_of(entities))
