"""Test runs in forks of a process that has imported the libraries, but nothing of the project: `ForkedTests`.

As a script, it reads a line per run from its standard input, with a limit in seconds and arguments of pytest, and
writes the exit code of the run. A run that exceeds its limit is ended by a signal, which is a code below 0.
"""

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

LIBRARIES = (
    "hypothesis",
    "matplotlib.figure",
    "numba",
    "pandas",
    "pytest",
    "scipy.stats",
    "stable_baselines3",
)
"""Libraries that take long to import."""
SCRIPT = "benchmarks/forked_tests.py"


class ForkedTests:
    """Runs of tests in a checkout, each in a process of its own, without the time that imports of libraries take."""

    def __init__(self, checkout: Path, python: str) -> None:
        """Import the libraries. python: interpreter that has them."""
        self._server = subprocess.Popen(
            [python, SCRIPT],
            cwd=checkout,
            env=os.environ | {"PYTHONPATH": str(checkout / ".typing"), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def code(self, *args: str, limit_s: float) -> int:
        """Return the exit code of pytest with some arguments; RuntimeError where the process has ended."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(f"{limit_s:.0f}", *args, file=self._server.stdin, flush=True)
        if not (line := self._server.stdout.readline()):
            raise RuntimeError(f"{SCRIPT} ended with code {self._server.wait()}")
        return int(line)

    def close(self) -> None:
        """End the process that imported the libraries."""
        self._server.communicate()


def main() -> None:
    """Run the tests of each line."""
    for name in LIBRARIES:
        importlib.import_module(name)
    for line in sys.stdin:
        if not (child := os.fork()):
            _run(line)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(line: str) -> None:
    """Run the tests of a line in silence, and exit."""
    import pytest

    limit_s, *args = line.split()
    silence = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(silence, descriptor)
    signal.alarm(int(limit_s))
    # A library has imported a plugin, whose assertions pytest then cannot rewrite.
    quiet = ["-q", "-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
    os._exit(pytest.main(["-x", *quiet, "-p", "no:cacheprovider", *args]))


if __name__ == "__main__":
    main()
