"""Numba's compiler, which says that it is at work, and spends less of Python's time meanwhile."""

import gc
import os
import sys
from typing import Any

from numba.core import types
from numba.core.compiler import Compiler

MESSAGE = "Compiling the simulator (once for workloads and clusters of about this size; a minute or two)"
SAID = "GPU_CLUSTER_GYM_COMPILING"  # in the environment, for processes that are started
# Compiling makes many objects that live on: looking for garbage as often as usual took an eighth of the time.
SELDOM = 100_000, 50, 100

# Numba writes types out at each step, and our records have more than a hundred fields: a seventh of the time.
setattr(types.Record, "__repr__", types.Type.__repr__)  # noqa: B010 - mypy refuses an assignment


class Pipeline(Compiler):
    """Compiles a function as Numba does."""

    def compile_extra(self, func: Any) -> Any:
        """Compile, after a word about it."""
        say()
        before = gc.get_threshold()
        gc.set_threshold(*SELDOM)
        try:
            return super().compile_extra(func)
        finally:
            gc.set_threshold(*before)


def say() -> None:
    """Say on stderr, once for this process and those that it starts, that compiling takes a while."""
    if SAID not in os.environ:
        os.environ[SAID] = "1"
        sys.stderr.write(MESSAGE + "\n")
