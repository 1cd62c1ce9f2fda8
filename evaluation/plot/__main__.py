"""Draw the pictures of runs for a paper: `gpu-cluster-gym plot RUN...`.

A run is a folder of `evaluate.py`, or one of `train_agent.py`: of all those of the latter there is one picture, how
their agents learned.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from gpu_cluster_gym.evaluation.plot import figures, frames, learning
from gpu_cluster_gym.evaluation.plot.style import IN_PRINT, INCHES, save, style

KINDS = ("png", "svg", "pdf")


def main(args: Sequence[str] | None = None) -> int:
    """Draw what the arguments ask for; return the exit code, 2 if it cannot be."""
    chosen = parser().parse_args(args)
    try:
        learned = {folder: found for folder in chosen.runs if (found := learning.curves(folder))}
        if learned:
            draw_learning(learned, chosen)
        for folder in chosen.runs:
            if folder not in learned:
                draw(folder, chosen)
    except ValueError as error:
        print(f"gpu-cluster-gym plot: {error}", file=sys.stderr)
        return 2
    return 0


def parser() -> argparse.ArgumentParser:
    """Return what reads the arguments."""
    found = argparse.ArgumentParser("gpu-cluster-gym plot", description=__doc__.splitlines()[0])
    found.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="folder of a run; flags but --width, --kind and --out are of runs of evaluate.py",
    )
    found.add_argument("--policy", nargs="+", default=(), help="draw these alone, in this order")
    found.add_argument("--window", type=int, help="which window timeline and gantt show; the first")
    found.add_argument(
        "--picture", nargs="+", choices=figures.PICTURES, help="which pictures; all that can be"
    )
    found.add_argument("--width", choices=INCHES, default="page", help="column (3.33 in) or page (7 in)")
    found.add_argument("--kind", nargs="+", choices=KINDS, default=KINDS, help="kinds of files; all three")
    found.add_argument("--out", type=Path, help="folder for them; pictures/ in the run's")
    return found


def draw_learning(learned: Mapping[Path, Sequence[pd.DataFrame]], chosen: argparse.Namespace) -> None:
    """Draw how the agents of runs learned, a panel a run, and print where it is."""
    place = chosen.out or next(iter(learned)) / "pictures"
    place.mkdir(parents=True, exist_ok=True)
    with style(IN_PRINT):
        panels = [(learning.title(folder), found) for folder, found in learned.items()]
        print(*save(learning.learning(panels, chosen.width), place, "learning", chosen.kind), sep="\n")


def draw(folder: Path, chosen: argparse.Namespace) -> None:
    """Draw the pictures of one run, and print where they are; ValueError where that cannot be."""
    run = frames.read(folder, chosen.policy)
    if chosen.window is not None and chosen.window not in run.windows:
        raise ValueError(f"{folder} has no window {chosen.window}: {', '.join(map(str, run.windows))}")
    wanted = chosen.picture or [name for name in figures.PICTURES if run.recorded or not needs_record(name)]
    if not run.recorded and any(map(needs_record, wanted)):
        raise ValueError(f"{folder} was not recorded, as timeline and gantt need: run with --record")
    place = chosen.out or folder / "pictures"
    place.mkdir(parents=True, exist_ok=True)
    with style(IN_PRINT):
        for name in wanted:
            figure = figures.PICTURES[name](run, chosen.width, chosen.window)
            print(*save(figure, place, name, chosen.kind), sep="\n")
    if len(wanted) < len(figures.PICTURES) and not chosen.picture:
        print("Not recorded (evaluate.py --record), so without timeline and gantt.")


def needs_record(name: str) -> bool:
    """Tell whether a picture shows who held what."""
    return name in figures.OF_A_RECORD


if __name__ == "__main__":
    sys.exit(main())
