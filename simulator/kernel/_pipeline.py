"""Numba's compiler with a progress message and less garbage collection."""

import gc
import os
import sys
from typing import Any

from numba.core import types
from numba.core.compiler import Compiler

MESSAGE = "Compiling the simulator (once for workloads and clusters of about this size; a minute or two)"
ANNOUNCED = "GPU_CLUSTER_GYM_COMPILING"  # environment variable, inherited by child processes
# Compiling creates many long-lived objects: garbage collection at the usual rate took an eighth of the time.
GC_THRESHOLDS = 100_000, 50, 100

# Numba prints types at each step, and our records have more than a hundred fields: this took a seventh of the time.
setattr(types.Record, "__repr__", types.Type.__repr__)  # noqa: B010 - mypy refuses an assignment


class Pipeline(Compiler):
    """Compiler that works like Numba's."""

    def compile_extra(self, func: Any) -> Any:
        """Compile, after printing a message."""
        say()
        before = gc.get_threshold()
        gc.set_threshold(*GC_THRESHOLDS)
        try:
            return super().compile_extra(func)
        finally:
            gc.set_threshold(*before)


def say() -> None:
    """Print on stderr, once for this process and its children, that compilation takes a while."""
    if ANNOUNCED not in os.environ:
        os.environ[ANNOUNCED] = "1"
        sys.stderr.write(MESSAGE + "\n")
