"""Attacks on what users must be able to trust, each with its result and target: `python -m benchmarks.trust`.

`--rows NAME,...` selects attacks, and `--list` names them. Exit code 1 where one misses its target.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from gpu_cluster_gym.agents import load_policy, resumption
from gpu_cluster_gym.agents.callbacks import CURVE
from gpu_cluster_gym.agents.pretrained import SHIPPED, shipped
from gpu_cluster_gym.evaluation import run_folder
from gpu_cluster_gym.evaluation.provenance import ROOT

FLIPS = 300


class Figure(NamedTuple):
    """A result of an attack: how often it was tried and how often something went wrong, with examples."""

    what: str
    tried: int
    wrong: int
    examples: tuple[str, ...] = ()


def flipped_bits(names: Sequence[str] | None = None, flips: int = FLIPS) -> Iterator[Figure]:
    """Flip one random bit of each file of each shipped agent, `flips` times; wrong is an agent that still loads."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for name in names or shipped():
            copy = Path(folder) / name
            shutil.copytree(SHIPPED / name, copy)
            load_policy(copy)  # whole, it loads
            for file in sorted(copy.iterdir()):
                whole, accepted = file.read_bytes(), []
                for _ in range(flips):
                    bit = int(rng.integers(8 * len(whole)))
                    file.write_bytes(flipped(whole, bit))
                    if loads(copy):
                        accepted.append(f"bit {bit} of {name}/{file.name}")
                file.write_bytes(whole)
                yield Figure(
                    f"flipped bits accepted in {name}/{file.name}", flips, len(accepted), (*accepted[:3],)
                )


def flipped(content: bytes, bit: int) -> bytes:
    """Return content with one bit flipped."""
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def loads(folder: Path) -> bool:
    """Return whether an agent loads; ValueError counts as a refusal, any other error is raised."""
    try:
        load_policy(folder)
    except ValueError:
        return False
    return True


TRAINING = (
    *(
        "train_agent.py",
        "--workload",
        "quick",
        "--total-timesteps",
        "6000",
        "--windows",
        "4",
        "--num-envs",
        "16",
    ),
    *("--validation-windows", "4", "--test-windows", "2", "--validate-every", "1000", "--processes", "2"),
)
"""A short training run: a search, then PPO."""
ENDED = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129, "SIGKILL": -9}
"""Exit codes after signals."""
LIMIT_S, GRACE_S = 10.0, 3.0
"""Time in which a signal must end a run, and in which its workers must follow."""
STARTED_S = 120.0


def signals(names: Sequence[str] = tuple(ENDED), rounds: int = 5, within_s: float = 12.0) -> Iterator[Figure]:
    """Send each signal to training runs at random moments; wrong are late ends, other exit codes, orphans, statuses."""
    rng = np.random.default_rng(1)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            faults = [
                stopped(Path(folder) / f"{k}", name, float(rng.uniform(0, within_s))) for k in range(rounds)
            ]
        wrong = [each for each in faults if each]
        yield Figure(f"{name}: runs not ended, or orphans left", rounds, len(wrong), tuple(wrong[:3]))


def resumes(runs: int = 5, kills: int = 4, within_s: float = 12.0) -> Iterator[Figure]:
    """Kill training runs at random moments, `kills` times each, and resume them; wrong are other files or curves."""
    rng = np.random.default_rng(2)
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        finish([*TRAINING, "--out", str(whole)])
        wrong, moments = [], 0
        for number in range(runs):
            out = Path(folder) / f"killed-{number}"
            flags: tuple[str, ...] = ()
            for _ in range(kills):
                with started(out, *flags) as run:
                    with suppress(subprocess.TimeoutExpired):
                        run.wait(float(rng.uniform(0, within_s)))
                    moments += run.poll() is None
                flags = ("train_agent.py", "--resume", str(out), "--processes", "2")
            if run_folder.status_of(out) != "finished":
                finish(flags)
            wrong += [f"{name} of run {number}" for name in apart(whole, out)]
        yield Figure(f"resumed runs that differ, after {moments} kills", runs, len(wrong), tuple(wrong[:3]))


def apart(whole: Path, resumed: Path) -> list[str]:
    """Return the agents, checkpoints, results and curves of two runs that differ."""
    lists = [
        sorted(str(each.relative_to(run)) for each in run.rglob("*.safetensors")) for run in (whole, resumed)
    ]
    agents = [name for name in lists[0] if not name.startswith(run_folder.RESUMABLE)]
    names = [*agents, CURVE, run_folder.SUMMARY, "agent/jobs.csv"]
    differ = [
        name
        for name in names
        if not (resumed / name).exists() or (whole / name).read_bytes() != (resumed / name).read_bytes()
    ]
    return differ + (["curves"] if points(whole) != points(resumed) else [])


def points(run: Path) -> list[tuple[str, int, float]]:
    """Return every point of the curves in TensorBoard's files, in order, except those of time."""
    return [
        (value.tag, int(event.step), float(value.tensor.float_val[0]))
        for file in sorted(run.glob(resumption.CURVES))
        for event in EventFileLoader(str(file)).Load()
        for value in event.summary.value
        if value.tensor.float_val and not value.tag.startswith("time/")
    ]


def finish(flags: Sequence[str]) -> None:
    """Run a training to its end."""
    subprocess.run([sys.executable, *flags], cwd=ROOT, check=True, capture_output=True)


def stopped(folder: Path, name: str, after_s: float) -> str:
    """Send a signal to a training run some seconds after its start; return what went wrong, or nothing."""
    with started(folder) as run:
        time.sleep(after_s)
        if run.poll() is not None:
            return f"ended by itself with {run.returncode} before {after_s:.1f} s"
        workers = children(run.pid)
        began = time.monotonic()
        run.send_signal(getattr(signal, name))
        try:
            code = run.wait(3 * LIMIT_S)
        except subprocess.TimeoutExpired:
            return f"still running {3 * LIMIT_S:.0f} s after {name}"
        spent = time.monotonic() - began
        time.sleep(GRACE_S)
        if orphans := [pid for pid in workers if is_alive(pid)]:
            return f"{len(orphans)} orphans after {name} at {after_s:.1f} s"
    status = run_folder.status_of(folder)
    expected = "killed" if name == "SIGKILL" else "interrupted"
    if code != ENDED[name] or spent > LIMIT_S or status != expected:
        return f"exit code {code} after {spent:.1f} s, status {status}, {name} at {after_s:.1f} s"
    return ""


@contextmanager
def started(folder: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start the training run in a folder, wait until it has a status, and end it at the end."""
    for number in (signal.SIGINT, signal.SIGHUP):  # a process inherits what is ignored, as in the background
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    command = [sys.executable, *(flags or (*TRAINING, "--out", str(folder)))]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=ROOT, stdout=quiet, stderr=quiet) as run:
        limit = time.monotonic() + STARTED_S
        while run_folder.status_of(folder) != "running" and run.poll() is None and time.monotonic() < limit:
            time.sleep(0.02)
        try:
            yield run
        finally:
            run.kill()


def children(pid: int) -> list[int]:
    """Return the processes below one, on Linux."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(fields[1]) == pid:
                found += [int(entry.name), *children(int(entry.name))]
    return found


def is_alive(pid: int) -> bool:
    """Return whether a process is running."""
    return run_folder.process(pid)["start"] is not None


ATTACKS: dict[str, Callable[[], Iterator[Figure]]] = {
    "flipped_bits": flipped_bits,
    "signals": signals,
    "resumes": resumes,
}
"""Every attack, by name."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the attacks and print a line for each figure; return 1 where something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default=",".join(ATTACKS), help="names of attacks, joined by commas")
    parser.add_argument("--list", action="store_true", help="names of all attacks")
    chosen = parser.parse_args(args)
    if chosen.list:
        print(*ATTACKS, sep="\n")
        return 0
    if unknown := sorted(set(chosen.rows.split(",")) - set(ATTACKS)):
        parser.error(f"--rows {unknown[0]}: expected {', '.join(ATTACKS)}")
    wrong = 0
    for name in chosen.rows.split(","):
        began = time.perf_counter()
        for figure in ATTACKS[name]():
            wrong += figure.wrong
            verdict = "ok" if figure.wrong == 0 else f"WRONG: {'; '.join(figure.examples)}"
            print(f"{figure.what:<60} {figure.wrong:>5} of {figure.tried:<6} {verdict}", flush=True)
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
