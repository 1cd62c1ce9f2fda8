"""Arrays of a view: fields of jobs, or of the state, that can be read and not changed."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from envs.view import View


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view of an array through which it cannot be changed."""
    shown = array.view()
    shown.flags.writeable = False
    return shown


class Column:
    """An array of the view: a field of the jobs that have arrived, or of the state over jobs, GPUs or nodes."""

    def __init__(self, source: Literal["job", "state", "gpus", "nodes"], field: str, meaning: str) -> None:
        """Name the field and say what it means."""
        self.source, self.field = source, field
        self.__doc__ = meaning

    def __get__(self, view: "View", owner: type | None = None) -> np.ndarray:
        """Return the array as it is now."""
        state = view._state
        match self.source:
            case "job":
                return read_only(view._jobs[self.field][: state.num_arrived])
            case "state":
                return read_only(state[self.field][: state.num_arrived])
            case _:
                return read_only(state[self.field][: state[f"num_{self.source}"]])


class Reading:
    """An array of the view that a function makes of it."""

    def __init__(self, function: "Callable[[View], np.ndarray]") -> None:
        """Take the function, and its docstring."""
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, view: "View", owner: type | None = None) -> np.ndarray:
        """Return the array as it is now."""
        return self.function(view)
