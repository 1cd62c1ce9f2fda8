"""Describe a log before it is simulated: load over time, widths, run times, waits and tenants."""

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpu_cluster_gym.evaluation import command, table
from gpu_cluster_gym.evaluation.record import time_means
from gpu_cluster_gym.traces import columns_given, load

Floats = npt.NDArray[np.float64]

DAY = 86_400.0
QUANTILES = (0.1, 0.5, 0.9, 0.99)
MAX_ROWS = 14
"""Largest number of intervals of the load, and of tenants."""
INTERVALS = tuple(each * 3600.0 for each in (1 / 60, 1 / 6, 1, 3, 6, 12, 24, 48, 168, 720, 8760))
"""Lengths of intervals of the load, s."""
WIDTHS = (0, 1, 2, 4, 8, 16, 32, 64, 128)
"""Upper bounds of the classes of GPUs; more than the last are a class too."""
FIRST_DATE_S = 1e9
"""Smallest time that is taken for one since 1970, in 2001."""
LAST_DATE_S = 253_402_214_400.0
"""Begin of 31 December 9999, s since 1970; from then on it is the year 10000 in some time zones, which has no date."""
BAR = 30  # characters
UNITS = (("days", DAY), ("h", 3600.0), ("min", 60.0), ("s", 1.0))


class Load(NamedTuple):
    """GPUs held over time in intervals of equal length.

    begin_s: start of each interval. mean, peak: GPUs held in it. submitted: jobs. step_s: length of an interval.
    """

    begin_s: Floats
    mean: Floats
    peak: Floats
    submitted: npt.NDArray[np.int64]
    step_s: float


def main(args: Sequence[str] | None = None) -> int:
    """Describe the log that the arguments name; return the exit code, 2 for an unreadable log."""
    return command.run("gpu-cluster-gym describe", work, args)


def work(args: Sequence[str]) -> None:
    """Print the description of a log, and draw it where that is wanted."""
    chosen = parser().parse_args(args)
    pairs_of(chosen.columns)  # an error in the flag comes before one in the file
    jobs = load(chosen.trace, chosen.file, seed=0, columns=chosen.columns, time_zone=chosen.time_zone)
    out = table.console(sys.stdout)
    out.print(*description(jobs, Path(chosen.file).name), sep="\n", markup=False, highlight=False)
    if chosen.plot:
        draw(jobs, chosen.plot)
        out.print(f"Figure: {chosen.plot}", highlight=False)


def draw(jobs: pd.DataFrame, file: str) -> None:
    """Draw a log; ValueError for an unknown type of file, or a file that cannot be written."""
    from gpu_cluster_gym.evaluation.plot import figures
    from gpu_cluster_gym.evaluation.plot.style import IN_PRINT, style

    with style(IN_PRINT):
        figure = figures.log(jobs, load_over_time(jobs))
        try:
            figure.savefig(file, dpi=200)
        except (ValueError, OSError) as error:
            raise ValueError(f"--plot {file}: {error}") from None


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    found = argparse.ArgumentParser("gpu-cluster-gym describe", description=__doc__)
    found.add_argument("file", help="log in a format that evaluate.py --trace-file reads")
    add_format(found)
    found.add_argument(
        "--plot",
        nargs="?",
        const="log.png",
        help="also write a figure: to this file, or to log.png without a name",
    )
    return found


def add_format(found: argparse.ArgumentParser) -> None:
    """Add the arguments about the format of a log."""
    found.add_argument("--trace", help="trace whose format the log has; default: detected from the content")
    found.add_argument(
        "--columns", help='headings of columns with other names, as in job_id="job id",submit_s=submit'
    )
    found.add_argument("--time-zone", help="time zone of times that do not state one; default: UTC")


def pairs_of(columns: str | None) -> tuple[tuple[str, str], ...]:
    """Return the pairs of --columns; ValueError for a text of another form."""
    try:
        return columns_given(columns)
    except ValueError as error:
        raise ValueError(f"--columns {columns}: {error}") from None


def description(jobs: pd.DataFrame, name: str) -> list[str]:
    """Return the lines about a job table."""
    on_gpus = jobs[jobs["num_gpus"] > 0]
    span_s = float(jobs["submit_s"].max() - jobs["submit_s"].min())
    lines = [f"{name}: {len(jobs):,} jobs within {duration(span_s)}, {len(on_gpus):,} of them on GPUs"]
    lines += [f"Note: {note}." for note in jobs.attrs["notes"]]
    if on_gpus.empty:
        return lines
    lines += ["", *_load(on_gpus), "", *_widths(on_gpus), "", *_times(on_gpus)]
    for column, word in (("tenant", "Tenant"), ("vc", "Tenant"), ("user", "User")):
        if column in on_gpus:
            return [*lines, "", *_owners(on_gpus, column, word)]
    return lines


def load_over_time(jobs: pd.DataFrame) -> Load:
    """Return GPUs held over time, from the logged starts, or from the submissions where the log has none."""
    begin = _starts(jobs)
    end, gpus = begin + jobs["duration_s"].to_numpy(), jobs["num_gpus"].to_numpy().astype(float)
    first, last = float(min(jobs["submit_s"].min(), begin.min())), float(end.max())
    step = next((each for each in INTERVALS if (last - first) / each <= MAX_ROWS), (last - first) / MAX_ROWS)
    edges = np.asarray(first + step * np.arange(max(1, int(np.ceil((last - first) / step))) + 1), np.float64)
    time, held = gpus_held(begin, end, gpus)
    peak = np.array(
        [
            held[
                max(0, int(np.searchsorted(time, low, side="right")) - 1) : int(np.searchsorted(time, high))
            ].max(initial=0.0)
            for low, high in pairwise(edges)
        ]
    )
    submitted, _ = np.histogram(jobs["submit_s"], edges)
    return Load(edges[:-1], time_means(time, held, edges), peak, submitted, step)


def gpus_held(begin: Floats, end: Floats, gpus: Floats) -> tuple[Floats, Floats]:
    """Return the times at which the number of GPUs held changes, and the number from each time on."""
    time, place = np.unique(np.concatenate([begin, end]), return_inverse=True)
    change = np.zeros(len(time))
    np.add.at(change, place[: len(begin)], gpus)
    np.add.at(change, place[len(begin) :], -gpus)
    return time, np.rint(np.cumsum(change) * 1e6) / 1e6


def waits(jobs: pd.DataFrame) -> Floats | None:
    """Return the logged wait of each job, s; None where the log has no starts."""
    if "logged_start_s" not in jobs:
        return None
    wait: Floats = (jobs["logged_start_s"] - jobs["submit_s"]).to_numpy()
    return wait


def duration(seconds: float) -> str:
    """Return a duration in the largest unit of which there are two or more, or in seconds."""
    unit, (cell,) = column([seconds], seconds)
    return f"{cell} {unit}"


def local_time(time_s: float, zone: str | None) -> datetime:
    """Return a time in s since 1970 as a date of a time zone, by default UTC, to the second."""
    return datetime.fromtimestamp(round(time_s), ZoneInfo(zone or "UTC"))


def column(seconds: Sequence[float] | Floats, size_s: float | None = None) -> tuple[str, list[str]]:
    """Return the unit of a column of durations, and its cells, all in that unit.

    size_s: duration that chooses the unit, the largest of which it has two or more; default: the lower median of those
        above 0
    """
    found = np.asarray(seconds, float)
    if size_s is None:
        size_s = float(np.quantile(found[found > 0], 0.5, method="lower")) if (found > 0).any() else 0.0
    unit, length = next((each for each in UNITS if size_s >= 2 * each[1]), UNITS[-1])
    return unit, [f"{each / length:,.{0 if unit == 's' else 1}f}" for each in found]


def _starts(jobs: pd.DataFrame) -> Floats:
    """Return the logged starts, or the submissions where the log has none."""
    name = "logged_start_s" if "logged_start_s" in jobs else "submit_s"
    starts: Floats = jobs[name].to_numpy().astype(float)
    return starts


def _load(jobs: pd.DataFrame) -> list[str]:
    found = load_over_time(jobs)
    most = found.peak.max()
    source = "logged starts" if "logged_start_s" in jobs else "submissions, since the log has no starts"
    lines = [f"Load (GPUs held, from {source}): {most:,.0f} at most"]
    unit, begin_of = column(found.begin_s - found.begin_s[0], found.step_s)
    lines.append(f"{f'from, {unit}':>12}{'jobs':>9}{'mean':>9}{'peak':>9}")
    for at, mean, peak, count in zip(begin_of, *found[1:4], strict=True):
        bar = "#" * round(BAR * mean / most)
        lines.append(f"{at:>12}{count:9,}{mean:9,.1f}{peak:9,.0f}  {bar}")
    return lines


def _widths(jobs: pd.DataFrame) -> list[str]:
    gpu_s, wait = jobs["num_gpus"] * jobs["duration_s"], waits(jobs)
    rows, waited = [], []
    for low, high in zip(WIDTHS, [*WIDTHS[1:], None], strict=True):
        here = (jobs["num_gpus"] > low) & ((jobs["num_gpus"] <= high) if high else True)
        if not here.any():
            continue
        name = f"over {low}" if high is None else f"{low + 1}-{high}" if high > low + 1 else f"{high}"
        share, of_time = here.mean(), gpu_s[here].sum() / gpu_s.sum()
        rows.append(f"{name:>12}{here.sum():9,}{100 * share:7.1f} %{100 * of_time:7.1f} %")
        waited.append(np.nan if wait is None else wait[here.to_numpy()].mean())
    return _with_waits(f"{'GPUs':>12}{'jobs':>9}{'share':>9}{'GPU time':>9}", rows, waited)


def _with_waits(heading: str, rows: Sequence[str], waited: Sequence[float]) -> list[str]:
    """Return a table with a column of mean waits, which are NaN where they are unknown."""
    if np.isnan(waited).all():
        return [heading, *rows]
    unit, cells = column(waited)
    return [
        f"{heading}{f'mean wait, {unit}':>17}",
        *(f"{row}{cell:>17}" for row, cell in zip(rows, cells, strict=True)),
    ]


def _times(jobs: pd.DataFrame) -> list[str]:
    rows = {"run time": jobs["duration_s"].to_numpy(), "wait": waits(jobs)}
    known = {
        name: [seconds.mean(), *np.quantile(seconds, QUANTILES)]
        for name, seconds in rows.items()
        if seconds is not None
    }
    names = ["mean", *(f"p{100 * each:.0f}" for each in QUANTILES)]
    lines = [f"{'':14}" + "".join(f"{name:>12}" for name in names)]
    for name, seconds in known.items():
        unit, cells = column(seconds)
        lines.append(f"{f'{name}, {unit}':>14}" + "".join(f"{cell:>12}" for cell in cells))
    if rows["wait"] is None:
        lines.append("The log has no starts, so waits are unknown.")
    return lines


def _owners(jobs: pd.DataFrame, column: str, word: str) -> list[str]:
    frame = pd.DataFrame({"owner": jobs[column], "gpu_s": jobs["num_gpus"] * jobs["duration_s"]})
    frame["wait"] = waits(jobs) if "logged_start_s" in jobs else np.nan
    groups = frame.groupby("owner", sort=False)
    found = groups.agg(jobs=("gpu_s", "size"), gpu_s=("gpu_s", "sum"), wait=("wait", "mean"))
    found = found.sort_values("gpu_s", ascending=False, kind="stable")
    shown = found.head(MAX_ROWS)
    share = 100 * shown["gpu_s"] / found["gpu_s"].sum()
    rows = [
        f"{str(name)[:23]:24}{count:9,}{part:7.1f} %"
        for name, count, part in zip(shown.index, shown["jobs"], share, strict=True)
    ]
    lines = _with_waits(f"{word:24}{'jobs':>9}{'GPU time':>9}", rows, shown["wait"].tolist())
    if (more := len(found) - MAX_ROWS) > 0:
        lines.append(f"and {more:,} more")
    return lines
