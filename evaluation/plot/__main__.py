"""Draw figures and write tables of run folders for a paper: `gpu-cluster-gym plot RUN...`.

Runs of `evaluate.py` are drawn one by one, each in several figures and in tables of policies, users, virtual clusters
and tenants (CSV, LaTeX), or together as a sweep over a number by which they differ; all runs of `train_agent.py`
together in one figure of learning curves.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from gpu_cluster_gym.evaluation import run_folder
from gpu_cluster_gym.evaluation.plot import figures, paper_tables, run_tables
from gpu_cluster_gym.evaluation.plot.style import IN_PRINT, INCHES, save, style

KINDS = ("png", "svg", "pdf")
PICTURES = "pictures"  # folder of the files of a run


def main(args: Sequence[str] | None = None) -> int:
    """Draw the pictures chosen by the arguments; return the exit code, 2 for an error."""
    chosen = parser().parse_args(args)
    try:
        learned = {folder: curves for folder in chosen.runs if (curves := figures.learning_curves(folder))}
        if learned:
            draw_learning(learned, chosen)
        scored = [folder for folder in chosen.runs if folder not in learned]
        if figures.SWEEP in (chosen.picture or ()):
            draw_sweep(scored, chosen)
            chosen.picture.remove(figures.SWEEP)
            scored = scored if chosen.picture or chosen.table else []
        names = [folder.resolve().name for folder in scored]
        if chosen.out and len({*names}) < len(names):
            raise ValueError(
                "--out requires runs whose folders have different names; without it each run has its own"
            )
        for folder, name in zip(scored, names, strict=True):
            place = chosen.out / name if chosen.out and len(scored) > 1 else chosen.out
            draw(folder, chosen, place or folder / PICTURES)
    except ValueError as error:
        print(f"gpu-cluster-gym plot: {error}", file=sys.stderr)
        return 2
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    found = argparse.ArgumentParser("gpu-cluster-gym plot", description=__doc__.splitlines()[0])
    found.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="run folder; for runs of train_agent.py only --width, --kind and --out apply",
    )
    found.add_argument(
        "--policy",
        nargs="+",
        action="extend",
        default=[],
        help="policies to draw, in this order; default: all",
    )
    found.add_argument(
        "--name",
        nargs="+",
        action="extend",
        default=[],
        type=named,
        metavar="POLICY=NAME",
        help="names of policies in figures and tables, as in mylab.mine:policy=Ours",
    )
    found.add_argument("--window", type=int, help="window of timeline and gantt; default: the first")
    found.add_argument(
        "--hours",
        nargs=2,
        type=float,
        metavar=("FROM", "TO"),
        help="part of the window in timeline and gantt, h from its first submission; default: all of it",
    )
    found.add_argument(
        "--picture",
        nargs="+",
        choices=(*figures.PICTURES, figures.SWEEP),
        help="figures to draw; default: none with --table, else all for which the run has data, without sweep, which "
        "draws all runs over the number by which they differ",
    )
    found.add_argument(
        "--table",
        nargs="+",
        choices=(paper_tables.POLICY, *paper_tables.WORDS),
        help="tables to write: of policies, or of owners; default: all that the run has, or none with --picture",
    )
    found.add_argument(
        "--width", choices=INCHES, default="page", help="3.33 in (column) or 7 in (page); default: page"
    )
    found.add_argument("--kind", nargs="+", choices=KINDS, default=KINDS, help="file types; default: all")
    found.add_argument(
        "--out",
        type=Path,
        help="output folder, in which each of several runs has a folder, except for a figure of all runs; default: "
        f"{PICTURES}/ in each run folder, or in the first one for a figure of all runs",
    )
    return found


def draw_learning(learned: Mapping[Path, Sequence[pd.DataFrame]], chosen: argparse.Namespace) -> None:
    """Draw the learning curves of runs, a panel per run, and print the files."""
    place = chosen.out or next(iter(learned)) / PICTURES
    place.mkdir(parents=True, exist_ok=True)
    with style(IN_PRINT):
        panels = [(figures.training_name(folder), curves) for folder, curves in learned.items()]
        print(*save(figures.learning(panels, chosen.width), place, "learning", chosen.kind), sep="\n")


def named(text: str) -> tuple[str, str]:
    """Return a policy and its name; ArgumentTypeError without both."""
    policy, _, name = text.partition("=")
    if not (policy and name):
        raise argparse.ArgumentTypeError(f"{text!r}: expected POLICY=NAME, as in mylab.mine:policy=Ours")
    return policy, name


def run_of(folder: Path, chosen: argparse.Namespace) -> run_tables.Run:
    """Return a run folder with the chosen policies and names."""
    return run_tables.renamed(run_tables.read(folder, chosen.policy), dict(chosen.name))


def draw_sweep(folders: Sequence[Path], chosen: argparse.Namespace) -> None:
    """Draw runs over the number by which they differ, write the table behind it, and print the files."""
    runs = [run_of(folder, chosen) for folder in folders]
    if len(runs) < 2:
        raise ValueError("a sweep requires two or more runs of evaluate.py --policy")
    field, table = figures.swept(runs)
    place = chosen.out or folders[0] / PICTURES
    place.mkdir(parents=True, exist_ok=True)
    with style(IN_PRINT):
        figure = figures.sweep(field, table, runs[0].reference, chosen.width)
        print(*save(figure, place, figures.SWEEP, chosen.kind), sep="\n")
    table.to_csv(place / f"{figures.SWEEP}.csv", index=False, float_format="%.10g")
    print(place / f"{figures.SWEEP}.csv")


def draw(folder: Path, chosen: argparse.Namespace, place: Path) -> None:
    """Draw the pictures of one run in `place`, and print the files; ValueError for a missing window or record."""
    run = run_of(folder, chosen)
    if why := run_folder.unfinished(folder):
        print(f"Note: {why}; policies without results are left out.")
    if chosen.window is not None and chosen.window not in run.windows:
        raise ValueError(
            f"{folder} has no window {chosen.window}: expected one of {', '.join(map(str, run.windows))}"
        )
    drawable = [name for name in figures.PICTURES if run.recorded or name not in figures.NEED_RECORD]
    wanted = chosen.picture or ([] if chosen.table else drawable)
    tables = chosen.table or ([] if chosen.picture else [paper_tables.POLICY, *paper_tables.known(run)])
    if not run.recorded and set(figures.NEED_RECORD) & set(wanted):
        raise ValueError(f"{folder} was not recorded: timeline and gantt require evaluate.py --record")
    shown = run_tables.between(run, *(3600 * each for each in chosen.hours)) if chosen.hours else run
    place.mkdir(parents=True, exist_ok=True)
    with style(IN_PRINT):
        for name in wanted:
            figure = figures.PICTURES[name](shown, chosen.width, chosen.window)
            print(*save(figure, place, name, chosen.kind), sep="\n")
    for column in tables:
        policies = column == paper_tables.POLICY
        files = (
            paper_tables.write_policies(run, place) if policies else paper_tables.write(run, column, place)
        )
        print(*files, sep="\n")
    if len(wanted) < len(figures.PICTURES) and not chosen.picture and not chosen.table:
        print("No timeline and gantt: the run was not recorded (evaluate.py --record).")


if __name__ == "__main__":
    sys.exit(main())
