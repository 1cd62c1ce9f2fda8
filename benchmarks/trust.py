"""Attacks on what users must be able to trust, each with its result and target: `python -m benchmarks.trust`.

`--rows NAME,...` selects attacks, and `--list` names them. Exit code 1 where one misses its target.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.agents import load_policy
from gpu_cluster_gym.agents.pretrained import SHIPPED, shipped

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


ATTACKS: dict[str, Callable[[], Iterator[Figure]]] = {"flipped_bits": flipped_bits}
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
