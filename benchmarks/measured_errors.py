"""How far the simulator's speed function is from public measurements, part by part.

    python benchmarks/speed_errors.py --data DIR

DIR holds `speed_measurements.csv`, `colocation.csv` and, for restarts, `preemption_measurements.csv`: figures of the
sources in `traces/data/SOURCES.md`, not kept here. What is computed is the kernel's: jobs as measured are put on a
cluster and asked how long an iteration takes, or how far they come in a second beside another. Their parameters are
those that traces are filled with. An error is |computed / measured - 1| in percent: the mean and (the median).
`constant` is that of the median of a row's measurements, `stated` what was reported where parameters were fitted.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from rich import box
from rich.table import Table

from benchmarks.measured_links import by_name
from benchmarks.measured_pairs import PAIRS, colocation
from benchmarks.measured_pauses import PAUSES, preemption
from benchmarks.measured_repeats import repeats
from benchmarks.measured_speeds import (
    SPEEDS,
    Points,
    cores,
    gangs,
    measurements,
    single_gpu,
    spread,
    synchronisation,
)
from gpu_cluster_gym.evaluation.table import MAX_WIDTH, console

STATED = {
    "GPU: all, by setting": "17.2 (11.8)",
    "GPU: fp32 and tf32, by setting": "13.9 (9.4)",
    "gang: gavel V100": "24",
    "gang: sia A100": "19",
    "gang: all": "15.3",
    "gang: held out": "23",
    "nodes: chronus": "12",
    "cores: all but flat": "5.0",
    "pair: K80": "16",
    "pair: P100": "16",
    "pair: V100": "23",
    "pair: RTX3090": "7.6",
}
HELD_OUT = "\nleft out"
JUDGED = {
    "GPU": ("alpha + beta b",),
    "gang": ("links by\ndefault", f"links named{HELD_OUT}"),
    "nodes": ("links by\ndefault", f"links named{HELD_OUT}"),
    "cores": ("as profiled",),
    "pair": (f"turns{HELD_OUT}", f"excess{HELD_OUT}"),
    "restart": (f"measured{HELD_OUT}",),
}
"""What of each part is compared with a constant in words: where it was fitted, with the rows left out."""
NOTES = {
    "repeats": "How far apart repeated measurements of one setting are: so exact a profile can be. None repeats GPU "
    "utilisation, which is shown over batch sizes instead, or memory, of which a line in the batch errs by 2.5 %.",
    "GPU": "Seconds of an iteration on one GPU, in sample. Constant: the median of each model. Stated for 140 "
    "settings, not quite these. The worst on V100s is Sia's NCF, which waits for its host.",
    "gang": "Seconds on several GPUs over those on one. Stated for 14,221 points, more than are in these files, after "
    "fits to each cluster and to its single GPUs. Held out: Sia's scalability files. Named: the links of its kind, "
    "fitted to all clusters of that kind, or, left out, to the others. Constant: the cluster's own median.",
    "nodes": "Seconds on several nodes over those of the same job on one. Chronus tells neither GPU, batch nor links.",
    "cores": "Speed with 1 to 24 cores a GPU over that with 3. Stated for knee and cap fitted to each model.",
    "pair": "Slowdown on a shared GPU, of both jobs. Fitted: k to each type of GPU; left out: to the pairs without the "
    "models of a pair. Stated for hidden demands fitted to each model (Gavel), or for excess beyond 0.943 (RTX3090). "
    "Gavel tells no utilisation: its jobs have their profiles'.",
    "restart": "Seconds that a restart, or a first start, takes: means over jobs like those measured, or quantiles. "
    "Left out: how much of its data a start opens again, or the constant, one for all, is fitted to the other sources; "
    "the noise is TACC's. Sia's are what dear costs were fitted to; Salus's start-ups are in the profiles.",
}


def plain(cells: pd.DataFrame) -> Table:
    """Return a table of words and numbers as it is."""
    shown = Table(box=box.HORIZONTALS, padding=(0, 1, 0, 0), show_edge=False)
    for name in cells:
        shown.add_column("" if name == "what" else str(name), justify="left" if name == "what" else "right")
    for row in cells.itertuples(index=False):
        shown.add_row(*[f"{cell:.1f}" if isinstance(cell, float) else f"{cell}" for cell in row])
    return shown


def table(part: str, points: Points) -> Table:
    """Return the errors of each row of a part, and of what was compared with them."""
    shown = Table(box=box.HORIZONTALS, padding=(0, 1, 0, 0), show_edge=False)
    schemes = [str(name) for name in points if name not in ("what", "measured", "setting", "constant")]
    shown.add_column("", no_wrap=True)
    for heading in ("points", *schemes, "constant", "stated"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for what, rows in points.groupby("what", sort=False):
        middle = rows.get("constant", pd.Series(rows["measured"].median(), rows.index))
        texts = [error(rows, computed) for computed in (*(rows[name] for name in schemes), middle)]
        counted = rows["setting"].nunique() if "setting" in rows else 0
        shown.add_row(str(what), f"{counted or len(rows):,}", *texts, STATED.get(f"{part}: {what}", ""))
    return shown


def verdicts(part: str, points: Points) -> Iterator[str]:
    """Say in words of which rows a part is worse than a constant."""
    for scheme in JUDGED[part]:
        beside = (
            f"constant{HELD_OUT}"
            if scheme.endswith(HELD_OUT) and f"constant{HELD_OUT}" in points
            else "constant"
        )
        worse, rows = [], 0
        for what, each in points.groupby("what", sort=False):
            middle = pd.Series(each["measured"].median(), each.index)
            computed, constant = (mean_error(each, each.get(name, middle)) for name in (scheme, beside))
            rows += computed >= 0
            worse += [str(what)] if computed > constant else []
        said = (
            f"Worse than a constant in {len(worse)} of {rows} rows: {', '.join(worse)}"
            if worse
            else "Nowhere worse than a constant"
        )
        yield f"{said} ({' '.join(scheme.split())}{', both' if beside != 'constant' else ''})."


def mean_error(rows: Points, computed: "pd.Series[float]") -> float:
    """Return the mean error in percent of what was computed for the points of a row, as it is shown."""
    errors = 100 * (computed / rows["measured"] - 1).abs()
    if "setting" in rows and rows["setting"].notna().all():
        errors = errors.groupby(rows["setting"]).mean()
    return float(errors.mean())


def error(rows: Points, computed: "pd.Series[float]") -> str:
    """Return the mean and median error in percent of what was computed for the points of a row."""
    errors = 100 * (computed / rows["measured"] - 1).abs()
    if "setting" in rows and rows["setting"].notna().all():
        errors = errors.groupby(rows["setting"]).mean()
    return "" if errors.isna().all() else f"{errors.mean():.1f} ({errors.median():.1f})"


def main(args: list[str] | None = None) -> int:
    """Print the errors part by part; return the exit code, 2 if there are no measurements."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--data", type=Path, required=True, help="folder of the measurements")
    folder = flags.parse_args(args).data
    if missing := [name for name in (SPEEDS, PAIRS) if not (folder / name).is_file()]:
        print(f"speed_errors.py: there is no {' and no '.join(missing)} in {folder}", file=sys.stderr)
        return 2
    speeds = measurements(folder)
    many = gangs(speeds)
    many = many.join(by_name(many))
    parts = {"GPU": single_gpu(speeds), "gang": synchronisation(many), "nodes": spread(many)}
    parts |= {"cores": cores(speeds), "pair": colocation(folder)}
    parts |= {"restart": preemption(folder)} if (folder / PAUSES).is_file() else {}
    out = console(sys.stdout, MAX_WIDTH)
    for part, points in parts.items():
        out.print(NOTES[part], table(part, points), *verdicts(part, points), "", sep="\n")
    out.print(NOTES["repeats"], plain(repeats(folder)), sep="\n")
    return 0
