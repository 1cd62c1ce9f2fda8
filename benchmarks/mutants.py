"""Faults that tests must see: `python -m benchmarks.mutants [--only WORD]`, about half an hour.

Each fault of `benchmarks/mutants_list.py` is planted alone into a copy of the checkout, where its tests then run. A
fault is seen if a test fails or does not end. Kernel faults run without the compiler, which would take a minute
for each. Prints a line per fault, the score and the survivors; exit code 1 if any survived, or could not be planted.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from benchmarks.mutants_list import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[1]
SLOWER, MORE_S = 5.0, 60.0
"""Times the duration of tests without a fault, and s beyond, after which tests do not end."""
SKIPPED = shutil.ignore_patterns(
    ".git", ".venv", ".cache", ".*_cache", ".hypothesis", "__pycache__", "runs", "site"
)
Verdict = Literal["seen", "survived", "broken"]


def planted(text: str, mutant: Mutant) -> str:
    """Return a source with the fault; ValueError unless the sound text occurs in it exactly once."""
    if (count := text.count(mutant.sound)) != 1:
        raise ValueError(f"{mutant.name}: {mutant.file} has {count} places of {mutant.sound!r}, expected one")
    return text.replace(mutant.sound, mutant.faulty)


@contextmanager
def copied() -> Iterator[Path]:
    """Copy the checkout into a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder) / "checkout"
        shutil.copytree(ROOT, copy, symlinks=True, ignore=SKIPPED)
        yield copy


def verdict(copy: Path, tests: Sequence[str], *, compiled: bool, limit_s: float | None = None) -> Verdict:
    """Return whether tests of a copy fail, or do not end within a limit: `broken` if they could not run."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    env = os.environ | {"PYTHONPATH": str(copy / ".typing"), "PYTHONDONTWRITEBYTECODE": "1"}
    if not compiled:  # NumPy warns where compiled code does not
        env["NUMBA_DISABLE_JIT"] = "1"
        command += ["-W", "ignore::RuntimeWarning"]
    try:
        done = subprocess.run(command, cwd=copy, env=env, capture_output=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return "seen"
    found: dict[int, Verdict] = {0: "survived", 1: "seen"}
    return found.get(done.returncode, "broken")


def judged(copy: Path, mutant: Mutant, limit_s: float) -> Verdict:
    """Plant a fault into a copy, run its tests, and take it out again."""
    file = copy / mutant.file
    sound = file.read_text(encoding="utf-8")
    file.write_text(planted(sound, mutant), encoding="utf-8")
    try:
        return verdict(copy, mutant.tests, compiled=mutant.compiled, limit_s=limit_s)
    finally:
        file.write_text(sound, encoding="utf-8")


def limits(copy: Path, mutants: Sequence[Mutant]) -> dict[tuple[tuple[str, ...], bool], float]:
    """Return the time limit of each set of tests, s, from a run without a fault; ValueError where some fail then."""
    found, failing = {}, []
    for tests, compiled in sorted({(mutant.tests, mutant.compiled) for mutant in mutants}):
        began = time.monotonic()
        if verdict(copy, tests, compiled=compiled) != "survived":
            failing.append(" ".join(tests))
        found[tests, compiled] = SLOWER * (time.monotonic() - began) + MORE_S
    if failing:
        raise ValueError(f"These tests fail without a fault: {'; '.join(failing)}")
    return found


def main(args: Sequence[str] | None = None) -> int:
    """Plant all faults, or those with a word in their name or file; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="WORD", help="faults with this in their name or file")
    word = parser.parse_args(args).only
    mutants = [mutant for mutant in MUTANTS if word in f"{mutant.name} {mutant.file}"]
    with copied() as copy:
        try:
            limits_s = limits(copy, mutants)
        except ValueError as error:
            print(error)
            return 1
        missed = []
        for mutant in mutants:
            found = judged(copy, mutant, limits_s[mutant.tests, mutant.compiled])
            print(f"{found:8}  {mutant.name} ({mutant.file})", flush=True)
            if found != "seen":
                missed.append(mutant.name)
    print(f"{len(mutants) - len(missed)} of {len(mutants)} faults seen")
    if missed:
        print(f"Not seen: {'; '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
