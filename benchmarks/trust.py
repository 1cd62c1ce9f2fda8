"""Attacks on guarantees that users rely on, each with its result and target: `python -m benchmarks.trust`.

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
from functools import partial
from itertools import count, islice, product
from pathlib import Path

import numpy as np
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from benchmarks import trust_knowledge as knowledge
from benchmarks.trust_knowledge import Figure, figure
from gpu_cluster_gym.agents import load_policy, resumption
from gpu_cluster_gym.agents.callbacks import CURVE
from gpu_cluster_gym.agents.pretrained import SHIPPED, shipped
from gpu_cluster_gym.evaluation import run_folder
from gpu_cluster_gym.evaluation.provenance import ROOT
from tests.cases.bad_input import BAD_CSV

FLIPS = 300


def flipped_bits(names: Sequence[str] | None = None, flips: int = FLIPS) -> Iterator[Figure]:
    """Flip one random bit of each file of each shipped agent, `flips` times; a failure is an agent that still loads."""
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


SHORT = (
    *("train_agent.py", "--cluster", "2x8", "--jobs", "64", "--windows", "4", "--num-envs", "16"),
    *("--validation-windows", "2", "--test-windows", "1", "--validate-every", "1000", "--processes", "1"),
)
TRAININGS = {
    "plain": (
        *(*SHORT, "--action", "plain", "--total-timesteps", "3000", "--n-steps", "16", "--batch-size", "256"),
        *("--critic-first", "3"),
    ),
    "steer": (*SHORT, "--action", "steer", "--total-timesteps", "6000"),
}
"""Short training runs: PPO from random weights, and a search, then PPO."""
ENDED = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129, "SIGKILL": -9}
"""Exit codes after signals."""
LIMIT_S, GRACE_S = 10.0, 3.0
"""Time in which a signal must end a run, and in which its workers must follow."""
STARTED_S = 600.0


def signals(
    names: Sequence[str] = tuple(ENDED),
    rounds: int = 5,
    within_s: float = 12.0,
    limit_s: float = LIMIT_S,
    actions: Sequence[str] = tuple(TRAININGS),
) -> Iterator[Figure]:
    """Send each signal to training runs at random moments; failures are late ends, other exit codes, orphans, statuses.

    Runs that finish before their signal do not count.
    """
    rng = np.random.default_rng(1)
    for action, name in product(actions, names):
        with tempfile.TemporaryDirectory() as folder:
            outs = (Path(folder) / f"{k}" for k in count())
            found = (stopped(action, out, name, float(rng.uniform(0, within_s)), limit_s) for out in outs)
            faults = list(islice((fault for fault in found if fault is not None), rounds))
        yield figure(f"{name}: {action} runs not ended, or orphans left", faults)


def resumes(kills: int = 20, actions: Sequence[str] = tuple(TRAININGS)) -> Iterator[Figure]:
    """Kill training runs at random moments until they end by themselves; failures are runs that then differ.

    kills: number of kills for each action kind. Each run has a figure with the moments of its kills; the
        last figure also has how many kills left a state to continue from.
    """
    rng = np.random.default_rng(2)
    for action in actions:
        with tempfile.TemporaryDirectory() as folder:
            whole = Path(folder) / "whole"
            began = time.monotonic()
            finish([*TRAININGS[action], "--out", str(whole)])
            length_s = time.monotonic() - began
            faults: list[str] = []
            moments = continued = 0
            while moments < kills:
                out = Path(folder) / f"killed-{len(faults)}"
                flags: tuple[str, ...] = (*TRAININGS[action], "--out", str(out))
                killed: list[str] = []
                while run_folder.status_of(out) != "finished" and moments < kills:
                    with started(out, *flags) as run:
                        began, after_s = time.monotonic(), float(rng.uniform(0, length_s))
                        with suppress(subprocess.TimeoutExpired):
                            run.wait(after_s)
                        is_killed = run.poll() is None
                    if not is_killed and not killed:
                        length_s = min(length_s, time.monotonic() - began)  # the first may have compiled
                    elif is_killed:
                        moments += 1
                        continued += (has_state := resumption.saved(out))
                        killed.append(f"{after_s:.0f} s" + ("" if has_state else " (no state)"))
                    flags = resuming(out)
                if run_folder.status_of(out) != "finished":
                    finish(flags)
                faults.append(", ".join(apart(whole, out)))
                moment = ", ".join(killed) or "never"
                yield figure(
                    f"{action} run {len(faults)} of {length_s:.0f} s, killed at {moment}", faults[-1:]
                )
        yield figure(f"{action} runs that differ after {moments} kills, {continued} with a state", faults)


def resuming(out: Path) -> tuple[str, ...]:
    """Return the command that continues a training run, or begins it again where nothing was saved."""
    return ("train_agent.py", "--resume", str(out), "--processes", "1")


SPACES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Sizes of full disks, as shares of what a run needs."""
ON_A_SMALL_DISK = """
set -e
mount -t tmpfs -o size={size} none {disk}
{python} {flags} --out {disk}/run && code=0 || code=$?
echo $code > {kept}/code
mount -o remount,size=1g {disk}
if [ -e {disk}/run/resumable ]; then {python} {resuming}; fi
cp -r {disk}/run {kept}/run || true
"""


def full_disks(
    spaces: Sequence[float] = SPACES, actions: Sequence[str] = tuple(TRAININGS)
) -> Iterator[Figure]:
    """Train on disks that are too small, then resume on a larger one; failures are other exit codes, files or curves.

    A run that is stopped before its first checkpoint has nothing to continue, and is only judged by its exit code.
    """
    for action in actions:
        yield full_disk(action, spaces)


def full_disk(action: str, spaces: Sequence[float]) -> Figure:
    """Return the figure of one action kind."""
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        finish([*TRAININGS[action], "--out", str(whole)])
        needed = sum(file.stat().st_size for file in whole.rglob("*") if file.is_file())
        faults, resumed = [], 0
        for space in spaces:
            disk, kept = Path(folder) / f"disk-{space}", Path(folder) / f"kept-{space}"
            disk.mkdir()
            kept.mkdir()
            script = ON_A_SMALL_DISK.format(
                size=int(space * needed),
                disk=disk,
                kept=kept,
                python=sys.executable,
                flags=" ".join(TRAININGS[action]),
                resuming=" ".join(resuming(disk / "run")),
            )
            namespace = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", script]
            done = subprocess.run(namespace, cwd=ROOT, capture_output=True, text=True, check=False)
            if not (kept / "code").exists():
                return Figure(
                    f"full disks: not tried, since no small disk can be mounted ({done.stderr.strip()})", 0, 0
                )
            code = int((kept / "code").read_text())
            differ: list[str] = []
            if (kept / "run" / run_folder.RESUMABLE).exists():
                resumed += 1
                differ = apart(whole, kept / "run")
            right = code == 2 and not differ and "Traceback" not in done.stderr
            faults.append(
                "" if right else f"{space:.0%}: code {code}, {', '.join(differ) or done.stderr[-3000:]}"
            )
    return figure(
        f"full disks: {action} runs not ended in a sentence, or not resumed ({resumed} were)", faults
    )


EVALUATION = ("--cluster", "4x8", "--jobs", "256", "--all-windows", "--windows", "6", "--processes", "2")
EVALUATED = ("fifo", "sjf", "srtf", "las", "xion", "tiresias")


def evaluations(kills: int = 10) -> Iterator[Figure]:
    """Kill evaluations at random moments and resume them, then repeat one; failures are other results."""
    rng = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        command = ("evaluate.py", "--policy", *EVALUATED, *EVALUATION)
        began = time.monotonic()
        finish([*command, "--out", str(whole)])
        length_s = time.monotonic() - began
        faults, moments = [], 0
        for number in range(kills):
            out = Path(folder) / f"killed-{number}"
            with started(out, *command, "--out", str(out)) as run:
                with suppress(subprocess.TimeoutExpired):
                    run.wait(float(rng.uniform(0, length_s)))
                moments += run.poll() is None
            if run_folder.status_of(out) != "finished":
                finish(["evaluate.py", "--resume", str(out), "--processes", "2"])
            faults.append(", ".join(f"{name} of run {number}" for name in results_apart(whole, out)))
        yield figure(f"evaluations killed ({moments} in the middle) and resumed that differ", faults)
        again = Path(folder) / "again"
        finish(["evaluate.py", "--again", str(whole), "--out", str(again)])
        yield figure("evaluations repeated that differ", [", ".join(results_apart(whole, again))])


def results_apart(whole: Path, other: Path) -> list[str]:
    """Return the results of two evaluations that differ."""
    names = [f"{name}/{run_folder.JOBS}" for name in EVALUATED] + [run_folder.SUMMARY]
    return [
        name
        for name in names
        if not (other / name).exists() or (whole / name).read_bytes() != (other / name).read_bytes()
    ]


SHARED = tuple(each / "shared" / "faults" / "trust" / "traces" for each in (ROOT.parent, ROOT))
MOST_S, MOST_KIB = 2.0, 500 * 1024


def hostile_traces(folder: Path | None = None) -> Iterator[Figure]:
    """Evaluate a policy on each file of a folder; failures are tracebacks, other exit codes, 2 s or 500 MB more.

    The time is processor time beyond that of a sound trace, most of which is spent on starting Python.

    folder: default: `shared/faults/trust/traces` beside the checkout, else the invalid files of the tests.
    """
    folder = folder or next(filter(Path.is_dir, SHARED), None)
    with tempfile.TemporaryDirectory() as out:
        files = sorted(folder.iterdir()) if folder else refused_by_tests(Path(out))
        sound = Path(out) / "sound.csv"
        sound.write_text("job_id,submit_s,num_gpus,duration_s\na,0,1,60\n", encoding="utf-8")
        whole = [evaluated(sound, Path(out) / f"{k}") for k in range(2)]
        faults = ["refused" if printed.returncode else fault_of(printed) for printed, _, _ in whole]
        yield figure("sound traces without a table", faults)
        usual_s, faults = min(spent_s for _, spent_s, _ in whole), []
        for number, file in enumerate(files):
            printed, spent_s, kib = evaluated(file, Path(out) / f"file-{number}")
            fault = fault_of(printed)
            if spent_s - usual_s > MOST_S or kib > MOST_KIB:
                fault += f" {spent_s - usual_s:.1f} s, {kib / 1024:.0f} MiB"
            faults.append(f"{file.name}: {fault}" if fault else "")
    yield figure("hostile traces that end in no sentence, or too late", faults)


def refused_by_tests(folder: Path) -> list[Path]:
    """Write the invalid files of the tests; return them."""
    files = []
    for number, bad in enumerate(BAD_CSV):
        files.append(folder / f"{number}-{bad.name}")
        files[-1].write_bytes(bad.content)
    return files


def evaluated(file: Path, out: Path) -> tuple[subprocess.CompletedProcess[str], float, int]:
    """Evaluate FIFO on a file; return the process, its processor time in s, and its peak memory in KiB."""
    code = "import resource, sys, subprocess; done = subprocess.run(sys.argv[1:]); "
    code += "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
    code += "print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr); sys.exit(done.returncode)"
    flags = ("--policy", "fifo", "--full-trace", "--cluster", "1x4")
    places = ("--trace-file", str(file), "--out", str(out))
    command = [sys.executable, "-c", code, sys.executable, "evaluate.py", *flags, *places]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    spent_s, kib = done.stderr.splitlines()[-1].split()
    return done, float(spent_s), int(kib)


def fault_of(done: subprocess.CompletedProcess[str]) -> str:
    """Return what is wrong with a command's end: it must print a table, or one sentence and exit with 2.

    A sentence may end in an indented list, such as the jobs that do not fit.
    """
    said = done.stderr.splitlines()[:-1]
    if "Traceback" in done.stderr:
        return f"a traceback: {said[-1]}"
    if done.returncode not in (0, 2):
        return f"exit code {done.returncode}"
    if done.returncode == 2 and sum(not line.startswith("  ") for line in said) != 1:
        return f"{len(said)} lines: {' / '.join(said)[:200]}"
    if done.returncode == 0 and "fifo" not in done.stdout:
        return "no table"
    return ""


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


def stopped(action: str, folder: Path, name: str, after_s: float, limit_s: float) -> str | None:
    """Send a signal to a training run some seconds after its start; return what went wrong, or an empty string.

    Return None where the run had finished before.
    """
    with started(folder, *TRAININGS[action], "--out", str(folder)) as run:
        time.sleep(after_s)
        if run.poll() is not None:
            return f"exit code {run.returncode} before the signal" if run.returncode else None
        workers = children(run.pid)
        began = time.monotonic()
        run.send_signal(getattr(signal, name))
        try:
            code = run.wait(3 * limit_s)
        except subprocess.TimeoutExpired:
            return f"still running {3 * limit_s:.0f} s after {name}"
        spent = time.monotonic() - began
        time.sleep(GRACE_S)
        if orphans := [pid for pid in workers if is_alive(pid)]:
            return f"{len(orphans)} orphans after {name} at {after_s:.1f} s"
    if (status := run_folder.status_of(folder)) == "finished":
        return None
    expected = "killed" if name == "SIGKILL" else "interrupted"
    if code != ENDED[name] or spent > limit_s or status != expected:
        return f"exit code {code} after {spent:.1f} s, status {status}, {name} at {after_s:.1f} s"
    return ""


@contextmanager
def started(folder: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a run in a folder, wait until it has a status, and end it at the end."""
    for number in (signal.SIGINT, signal.SIGHUP):  # a process inherits what is ignored, as in the background
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    command = [sys.executable, *flags]
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
    "full_disks": full_disks,
    "evaluations": evaluations,
    "hostile_traces": hostile_traces,
    "leaks": knowledge.leaks,
    "planted_leaks": knowledge.planted_leaks,
    "ways": knowledge.ways,
    "fuzz": knowledge.fuzz,
    "slowdown": knowledge.slowdown,
}
"""Every attack, by name."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the attacks and print a line for each figure; return 1 where something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default=",".join(ATTACKS), help="names of attacks, joined by commas")
    parser.add_argument(
        "--traces",
        type=Path,
        metavar="FOLDER",
        help="hostile traces; default: shared/faults/trust/traces beside the checkout, else those of the tests",
    )
    parser.add_argument("--list", action="store_true", help="names of all attacks")
    chosen = parser.parse_args(args)
    if chosen.list:
        print(*ATTACKS, sep="\n")
        return 0
    if unknown := sorted(set(chosen.rows.split(",")) - set(ATTACKS)):
        parser.error(f"--rows {unknown[0]}: expected {', '.join(ATTACKS)}")
    attacks = ATTACKS | {"hostile_traces": partial(hostile_traces, chosen.traces)}
    wrong = 0
    for name in chosen.rows.split(","):
        began = time.perf_counter()
        for found in attacks[name]():
            wrong += found.wrong
            print(found, flush=True)
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
