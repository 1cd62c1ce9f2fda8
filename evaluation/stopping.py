"""Termination of a run by a signal, and of its workers when their parent ends."""

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
SIGNALLED = 128
"""Exit codes above this are of signals."""
PATIENCE_S = 6.0
"""Time from a signal to the end of the process, whatever it waits for."""
LEAVE_S = 2.0
"""Time for what is registered by `atexit` after a signal."""
CHECK_S = 0.5
"""Interval at which a worker looks for its parent."""
RETRY_S = 0.01
"""Time after which a signal that came within LLVM is sent again."""


class Stopped(KeyboardInterrupt):
    """A signal that ends the run, like Ctrl-C."""

    def __init__(self, message: str = "", number: int = signal.SIGINT) -> None:
        """Take a message for the user and the number of the signal."""
        super().__init__(message)
        self.number = number


def exit_code(stop: KeyboardInterrupt) -> int:
    """Return the exit code after a signal, 128 + its number: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    number: int = stop.number if isinstance(stop, Stopped) else signal.SIGINT
    return SIGNALLED + number


def with_message(stop: KeyboardInterrupt, message: str) -> Stopped:
    """Return a stop with another message."""
    return Stopped(message, exit_code(stop) - SIGNALLED)


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` on SIGINT, SIGTERM and SIGHUP, unless ignored; end the process after `PATIENCE_S` at the latest.

    A signal within LLVM's Python layer is sent again until that has returned: an exception there would be lost, or
    leave modules that are linked in part, whose release is a segmentation fault.

    Without effect outside the main thread, which alone receives signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    timers: list[threading.Timer] = []

    def later(wait_s: float, call: Callable[..., Any], *args: int) -> None:
        timer = threading.Timer(wait_s, call, args)
        timer.daemon = True
        timer.start()
        timers.append(timer)

    def stop(number: int, frame: FrameType | None) -> None:
        if not timers:
            later(PATIENCE_S, os._exit, SIGNALLED + number)
        if _is_within("llvmlite", frame):
            later(RETRY_S, os.kill, os.getpid(), number)
        else:
            raise Stopped(number=number)

    taken = [each for each in SIGNALS if signal.getsignal(each) not in (signal.SIG_IGN, None)]
    before = {each: signal.signal(each, stop) for each in taken}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for timer in timers:
            timer.cancel()


def _is_within(package: str, frame: FrameType | None) -> bool:
    """Return whether a function of a package is running."""
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] != package:
        frame = frame.f_back
    return frame is not None


def leave(code: int) -> NoReturn:
    """End the process with an exit code; after a signal at once, except that functions registered by `atexit` run.

    The normal end of the interpreter, which frees all modules and compiled code, took nine seconds on a busy machine.
    """
    if code <= SIGNALLED:
        sys.exit(code)
    timer = threading.Timer(LEAVE_S, os._exit, [code])
    timer.daemon = True
    timer.start()
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    for each in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            each.flush()
    os._exit(code)


def until_parent_ends() -> dict[str, Any]:
    """Return the keywords of `joblib.Parallel` whose workers end with this process."""
    return {"initializer": end_with, "initargs": (os.getpid(),)}


def end_with(parent: int) -> None:
    """End this worker when its parent, a process ID, has ended, even by `kill -9`; ignore Ctrl-C, which it handles."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(CHECK_S)
    os._exit(1)
