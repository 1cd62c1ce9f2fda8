"""Rows of what comes first, in seconds of the processor: a first result in a new process, and the compiler."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.timing import Contest, Setting, SkippedError, Work, row

ROOT = Path(__file__).resolve().parent.parent
FIRST_BAR_S, COMPILING_BAR_S = 2.0, 60.0
FIRST = """
from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import named, windows
load = windows(named("{workload}"), "test", 1)[0]
run(baselines.make(baselines.load("{policy}")), load.episode())
"""


def fresh(workload: str, policy: str, cache: str | None = None) -> None:
    """Play a window in a new process; cache: the folder of what is compiled, the user's own if none is given."""
    where = os.environ | ({"XDG_CACHE_HOME": cache} if cache else {})
    program = FIRST.format(workload=workload, policy=policy)
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, cwd=ROOT, env=where, capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(ended.stderr)


@row("first_result", unit="s", bar=FIRST_BAR_S)
def first_result(setting: Setting) -> Contest:
    """Play a window of philly by sjf in a new process, imports included, all of it compiled before."""
    return Contest(Work(lambda _: fresh("quick" if setting.quick else "philly", "sjf")))


def compiling_row(policy: str, workload: str) -> None:
    """Register a row of what it takes to compile a policy."""

    @row(f"compiling_{policy}", unit="s", bar=COMPILING_BAR_S)
    def make(setting: Setting) -> Contest:
        if setting.quick:
            raise SkippedError("compiling has no small case")

        def work(_: object) -> None:
            with tempfile.TemporaryDirectory() as cache:
                fresh(workload, policy, cache)

        return Contest(Work(work), warm=lambda: None)

    make.__doc__ = f"Play a window of {workload} by {policy} in a new process, with nothing compiled before"


compiling_row("sjf", "philly")
compiling_row("union", "mixed")
