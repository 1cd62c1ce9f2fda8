"""Compiled calls that a signal can end, although Python runs signal handlers only between its own instructions."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.layout import INTERRUPTED

PATIENCE_S = 1.0
"""Longest wait for the end of the instant at which a signal came."""


def interruptible(states: np.ndarray, compiled: Callable[..., Any], *args: Any) -> Any:
    """Return what a compiled function returns that runs an episode of these records.

    It runs in a thread, without the GIL, while this one waits: a signal handler that raises, as that of Ctrl-C does,
    ends the episode at its next instant. Outside the main thread, which alone handles signals, it is called directly.
    """
    if threading.current_thread() is not threading.main_thread():
        return compiled(*args)
    found: Future[Any] = Future()
    thread = threading.Thread(target=_fulfil, args=(found, compiled, args), daemon=True)
    thread.start()
    try:
        return found.result()
    except BaseException:
        states["endless"] = INTERRUPTED
        thread.join(PATIENCE_S)
        raise


def _fulfil(found: "Future[Any]", compiled: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        found.set_result(compiled(*args))
    except BaseException as error:
        found.set_exception(error)
