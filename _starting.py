"""Ctrl-C while a command still imports: one line and exit code 130, as later in `evaluation.stopping`."""

import os
import signal
import sys
from pathlib import Path
from types import FrameType

COMMANDS = ("-m", "gpu-cluster-gym", "evaluate.py", "train_agent.py")
"""Names of the running program while it is imported: Python's `-m` (until the module is found), or a script."""


def end_if_interrupted() -> None:
    """Handle Ctrl-C from now on if a command starts, unless it is handled or ignored already."""
    is_command = Path(next(iter(sys.argv), "")).name in COMMANDS
    if is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"gpu-cluster-gym: interrupted\n")
    os._exit(128 + number)
