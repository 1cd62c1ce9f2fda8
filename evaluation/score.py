"""Score a policy file for a search: one JSON object with a score and a text of feedback, from a process with limits.

The process has a time limit, a memory limit, a folder of its own and few environment variables. That stops accidents,
not attacks: run programs that you do not trust in a container without a network.
"""

import argparse
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpu_cluster_gym.evaluation import command

SCHEMA = "gpu-cluster-gym/score/1"
NAME = "candidate"
REFERENCE, YARDSTICK = "fifo", "srtf"
PASSED_ON = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV", "XDG_CACHE_HOME", "OMP_NUM_THREADS")
GIB = 1 << 30
WORST = 3  # windows named in the feedback
LAST_LINES = 6  # lines of an error in the feedback
METRICS = ("mean_jct_s", "mean_wait_s", "max_wait_s", "mean_slowdown")


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code: 0 if the policy has a score, 1 if it failed, 2 for a wrong argument."""
    codes: list[int] = []
    return command.run("gpu-cluster-gym score", lambda given: codes.append(_score(given)), args) or sum(codes)


def _score(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="gpu-cluster-gym score",
        description="Score a policy file: print a JSON object. The score is mean JCT relative to FIFO's, the mean of "
        "the windows' ratios; lower is better.",
    )
    parser.add_argument("file", type=Path, help="Python file that defines `policy`")
    parser.add_argument("--workload", default="quick", help="workload; default: quick")
    parser.add_argument("--windows", type=int, default=4, help="number of windows; default: 4")
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        help="seed of the jobs; default: 1. Do not search on seed 0, which the benchmark uses",
    )
    parser.add_argument("--seconds", type=int, default=300, help="time limit, s; default: 300")
    parser.add_argument(
        "--memory-gib", type=float, default=8.0, help="limit on the address space, GiB; default: 8"
    )
    chosen = parser.parse_args(list(given))
    if not chosen.file.is_file():
        raise ValueError(f"{chosen.file}: file not found; expected a Python file that defines `policy`")
    found = score(
        chosen.file,
        ["--workload", chosen.workload, "--windows", str(chosen.windows), "--seed", str(chosen.seed)],
        seconds=chosen.seconds,
        memory_gib=chosen.memory_gib,
    )
    sys.stdout.write(f"{json.dumps(found, indent=1)}\n")
    return int(found["score"] is None)


def score(file: Path, choices: Sequence[str], *, seconds: int, memory_gib: float) -> dict[str, Any]:
    """Return the score of a policy file, which is None if the policy failed, its metrics and feedback.

    choices: flags of `gpu-cluster-gym evaluate`.
    """
    with TemporaryDirectory() as folder:
        shutil.copy(file, Path(folder, f"{NAME}.py"))
        policies = [REFERENCE, YARDSTICK, f"{NAME}:policy"]
        asked = ["--policy", *policies, "--no-floors", "--out", "out", *choices]
        error = _run(["evaluate", *asked], folder, seconds, memory_gib)
        summary = Path(folder, "out", "summary.json")
        if error or not summary.exists():
            if (tracebacks := Path(folder, "out", "errors.txt")).exists():
                error = _last(tracebacks.read_text(encoding="utf-8"))
            return {
                "schema": SCHEMA,
                "score": None,
                "metrics": {},
                "feedback": error or "no result was written",
            }
        return _read(json.loads(summary.read_text(encoding="utf-8")))


def _run(args: Sequence[str], folder: str, seconds: int, memory_gib: float) -> str:
    """Run the project's command within limits; return the error, or an empty text."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (int(memory_gib * GIB),) * 2)

    process = subprocess.Popen(
        [sys.executable, "-m", "gpu_cluster_gym", *args],
        cwd=folder,
        env={
            name: value
            for name, value in os.environ.items()
            if name in PASSED_ON or name.startswith("NUMBA_")
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=limit,
    )
    try:
        _, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"the policy took more than {seconds} s"
    if process.returncode == 0:
        return ""
    if process.returncode == -signal.SIGXCPU:
        return f"the policy took more than {seconds} s of CPU time"
    if process.returncode < 0:
        return f"the process was ended by signal {-process.returncode}: it reached a limit of time or memory"
    return _last(said)


def _last(text: str) -> str:
    """Return the last lines of a text."""
    return "\n".join(text.strip().splitlines()[-LAST_LINES:])


def _read(summary: dict[str, Any]) -> dict[str, Any]:
    """Return the score, metrics and feedback of a finished run."""
    name = next(each for each in summary["mean_over_windows"] if each.startswith(NAME))
    ratios, means = summary["mean_jct_ratio"], summary["mean_over_windows"]
    metrics = {each: means[name][each] for each in METRICS if each in means[name]}
    own, other = ratios[name], ratios[YARDSTICK]
    beside = {
        each: f"{REFERENCE} {means[REFERENCE][each]:,.1f}, {YARDSTICK} {means[YARDSTICK][each]:,.1f}"
        for each in metrics
    }
    by_window = [
        mine["mean_jct_s"] / base["mean_jct_s"]
        for mine, base in zip(summary["by_window"][name], summary["by_window"][YARDSTICK], strict=True)
    ]
    worst = sorted(range(len(by_window)), key=lambda window: -by_window[window])[:WORST]
    lines = [
        f"mean JCT / {REFERENCE}: {own['ratio']:.3f} ({YARDSTICK}: {other['ratio']:.3f}); lower is better",
        *(f"{each}: {value:,.1f} ({beside[each]})" for each, value in metrics.items()),
        f"worst windows, mean JCT / {YARDSTICK}: "
        + ", ".join(f"window {window} {by_window[window]:.3f}" for window in worst),
    ]
    value = own["ratio"]
    return {
        "schema": SCHEMA,
        "score": value if math.isfinite(value) else None,
        "metrics": metrics,
        "feedback": "\n".join(lines),
    }


if __name__ == "__main__":
    sys.exit(main())
