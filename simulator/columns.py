"""Arrays of a view: fields of jobs, or of the state, that can be read and not changed."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from simulator.view import View


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view of an array through which it cannot be changed."""
    shown = array.view()
    shown.flags.writeable = False
    return shown


class Record:
    """The fields of one of the kernel's records: arrays, which are never copied, and numbers, as they are now.

    It reads several times faster than the record itself, for which every name is looked up anew.
    """

    def __init__(self, states: np.ndarray, e: int) -> None:
        """Take the record's place in `states`; it must stay where it is."""
        fields = {name: states[name] for name in states.dtype.names or ()}
        self._numbers = {name: field[e : e + 1] for name, field in fields.items() if field.ndim == 1}
        self._arrays = {name: field[e] for name, field in fields.items() if field.ndim > 1}
        self.__dict__.update(self._arrays)
        self.shown = {name: read_only(array) for name, array in self._arrays.items()}

    def __getattr__(self, name: str) -> Any:
        """Return a number."""
        try:
            return self.__dict__["_numbers"][name][0]
        except KeyError:
            raise AttributeError(name) from None

    def array(self, name: str) -> np.ndarray:
        """Return an array."""
        found: np.ndarray = self._arrays[name]
        return found


class Column:
    """An array of the view: a field of the jobs that have arrived, or of the state over jobs, GPUs or nodes."""

    def __init__(self, source: Literal["job", "state", "gpus", "nodes"], field: str, meaning: str) -> None:
        """Name the field and say what it means."""
        self.source, self.field = source, field
        self._count = "num_arrived" if source in ("job", "state") else f"num_{source}"
        self.__doc__ = meaning

    def __get__(self, view: "View", owner: type | None = None) -> np.ndarray:
        """Return the array as it is now."""
        fields = view._shown if self.source == "job" else view._state.shown
        return fields[self.field][: getattr(view._state, self._count)]


class Reading:
    """An array of the view that a function makes of it."""

    def __init__(self, function: "Callable[[View], np.ndarray]") -> None:
        """Take the function, and its docstring."""
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, view: "View", owner: type | None = None) -> np.ndarray:
        """Return the array as it is now."""
        return self.function(view)
