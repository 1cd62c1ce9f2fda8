"""Figures of a run for a paper: each is made of what `frames.read` returns, in the width of a column or a page."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gpu_cluster_gym.envs.render import JOBS, LOADING, PAUSING
from gpu_cluster_gym.evaluation.plot import series
from gpu_cluster_gym.evaluation.plot.frames import SIZES, Run, of_window
from gpu_cluster_gym.evaluation.plot.series import Shares
from gpu_cluster_gym.evaluation.plot.style import (
    BLUE,
    GREY,
    INCHES,
    INK,
    ORANGE,
    Width,
    in_words,
    log_time_axis,
    look,
    time_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LANES = 0.9  # of the height of a GPU's row, that bars fill


def ratios(run: Run, width: Width, window: int | None = None) -> "Figure":
    """Draw each policy's mean JCT against the reference's, with its 95 % interval over windows."""
    found = run.ratios
    figure, axes = _figure(width, 0.5 + 0.2 * len(found))
    places = range(len(found))
    means = [each.ratio for each in found.values()]
    axes.hlines(places, [each.low for each in found.values()], [each.high for each in found.values()], BLUE)
    axes.plot(means, places, "o", color=BLUE, markersize=4)
    axes.axvline(1, color=GREY, linewidth=0.8, zorder=0)
    axes.set_yticks(places, [f"{name}  {each.ratio:.2f}" for name, each in found.items()])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(found) - 0.5, -0.5)
    several = len(run.windows) > 1
    axes.set_title(f"Mean job completion time / {run.reference}'s")
    axes.set_xlabel(
        f"Ratio, 95 % interval over {len(run.windows)} windows" if several else "Ratio, one window"
    )
    axes.locator_params(axis="x", nbins=6)
    return figure


def cdf(run: Run, width: Width, window: int | None = None) -> "Figure":
    """Draw the share of jobs that completed within each time."""
    figure, axes = _figure(width, 2.4)
    for place, (policy, jobs) in enumerate(run.jobs.items()):
        colour, dashes = look(place)
        time_s, share = series.cdf(jobs)
        axes.step(time_s, 100 * share, dashes, where="post", color=colour, linewidth=1.2, label=policy)
    log_time_axis(axes)
    axes.set_ylim(0, 100)
    axes.set_xlabel("Job completion time, logarithmic scale")
    axes.set_ylabel("Jobs completed, %")
    _key(figure, axes, "Share of jobs that completed within a time")
    return figure


def sizes(run: Run, width: Width, window: int | None = None) -> "Figure":
    """Draw the mean JCT of the jobs of each size, by policy."""
    table = series.by_size(run)
    first = table[table["policy"] == run.policies[0]].set_index("size")["jobs"]
    classes = [size for size in SIZES if size in set(table["size"])]
    figure, axes = _figure(width, 0.9 + 0.42 * len(classes))
    for place, policy in enumerate(run.policies):
        own = table[table["policy"] == policy].set_index("size").reindex(classes)
        offset = 0.6 * ((place + 0.5) / len(run.policies) - 0.5)
        heights = np.arange(len(classes)) + offset
        axes.plot(own["mean_jct_s"], heights, "o", color=look(place)[0], markersize=3.5, label=policy)
    log_time_axis(axes)
    axes.set_yticks(range(len(classes)), [f"{size}\n({first[size]:,} jobs)" for size in classes])
    axes.set_ylim(len(classes) - 0.5, -0.5)
    for border in range(1, len(classes)):
        axes.axhline(border - 0.5, color="#dddddd", linewidth=0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("Mean job completion time, logarithmic scale")
    _key(figure, axes, "Mean job completion time by what jobs ask for")
    return figure


def timeline(run: Run, width: Width, window: int | None = None) -> "Figure":
    """Draw, by policy, the GPUs held and busy and the jobs in the queue over one window."""
    chosen = run.windows[0] if window is None else window
    edges = series.edges(run, chosen, series.BINS)
    frames = {policy: series.over_time(run, policy, chosen, edges) for policy in run.policies}
    gpus, longest = len(run.node_of_gpu), max(frame["queued"].max() for frame in frames.values())
    busiest = max(gpus, *(frame["busy_gpus"].max() for frame in frames.values()))
    figure, rows, columns = _panels(width, len(frames), 1.9)
    grid = figure.add_gridspec(2 * rows, columns, height_ratios=[1.5, 1] * rows)
    for place, (policy, frame) in enumerate(frames.items()):
        row, column = divmod(place, columns)
        above = figure.add_subplot(grid[2 * row, column])
        below = figure.add_subplot(grid[2 * row + 1, column], sharex=above)
        above.stairs(frame["held_gpus"], edges, fill=True, color="#d5d5d5", label="held by jobs")
        above.stairs(
            frame["busy_gpus"], edges, color=BLUE, linewidth=0.9, label="busy: of running jobs x speed"
        )
        above.axhline(gpus, color=GREY, linewidth=0.6, linestyle=":", label=f"all {gpus:,} of the cluster")
        above.set(title=policy, ylim=(0, 1.05 * busiest))
        above.tick_params(axis="x", labelbottom=False)
        below.stairs(frame["queued"], edges, fill=True, color=ORANGE, alpha=0.7)
        below.set(ylim=(0, 1.05 * max(longest, 1)))
        time_axis(below, edges[-1], _marks(width))
        _outer(below, above, row, column, rows, len(frames), columns)
        if column == 0:
            above.set_ylabel("GPUs")
            below.set_ylabel("Queue")
    title = f"GPUs, and jobs in the queue, over time, {_named(run, chosen)}"
    _key(figure, figure.axes[0], title)
    return figure


def gantt(run: Run, width: Width, window: int | None = None, *, most: int = series.MOST_BARS) -> "Figure":
    """Draw, by policy, which job was on which GPU over one window; of all the shares held, if one has too many bars."""
    chosen = run.windows[0] if window is None else window
    panels = series.gantts(run, chosen, most=most)
    rows_high = min(len(run.node_of_gpu), series.ROWS)
    figure, rows, columns = _panels(width, len(run.policies), 0.55 + min(max(0.055 * rows_high, 0.9), 2.4))
    grid = figure.add_gridspec(rows, columns)
    span_s = run.span_s(chosen)
    for place, (policy, found) in enumerate(panels.items()):
        row, column = divmod(place, columns)
        axes = figure.add_subplot(grid[row, column])
        if isinstance(found, Shares):
            _draw_shares(axes, found, span_s)
        else:
            _draw_bars(axes, run, found)
        axes.set_title(f"{policy}: mean JCT {in_words(of_window(run.jobs[policy], chosen)['jct_s'].mean())}")
        time_axis(axes, span_s, _marks(width))
        _outer(axes, None, row, column, rows, len(run.policies), columns)
        if column == 0:
            axes.set_ylabel("GPUs by node" if len(run.node_gpus) > 1 else "GPUs")
    shares = isinstance(found, Shares)
    what = f"Share of GPUs held, a row a {found.row}" if isinstance(found, Shares) else "Jobs by GPU"
    _phases(figure, f"{what}, over time, {_named(run, chosen)}", is_bars=not shares)
    return figure


PICTURES: dict[str, Callable[[Run, Width, int | None], "Figure"]] = {
    "ratios": ratios,
    "cdf": cdf,
    "sizes": sizes,
    "timeline": timeline,
    "gantt": gantt,
}
"""What can be drawn, by name; the last two need a run that was recorded."""
OF_A_RECORD = ("timeline", "gantt")


def _draw_bars(axes: "Axes", run: Run, found: pd.DataFrame) -> None:
    """Draw a bar for each time of a job on neighbouring GPUs."""
    from matplotlib.collections import PolyCollection

    height = LANES / found["lanes"].to_numpy()
    low = found["gpu"].to_numpy() - LANES / 2 + found["lane"].to_numpy() * height
    high = np.where(found["lanes"] > 1, low + height, low + LANES + found["num_gpus"].to_numpy() - 1)
    for bottom, top, rows in _stacked(found, low, high):
        left, right = found["from_s"].to_numpy()[rows], found["to_s"].to_numpy()[rows]
        corners = [[left, bottom], [right, bottom], [right, top], [left, top]]
        shapes: Any = np.stack([np.stack(each, axis=-1) for each in corners], axis=1)
        axes.add_collection(PolyCollection(shapes, facecolors=_colours(run, found.iloc[rows]), linewidths=0))
    axes.set_ylim(len(run.node_of_gpu) - 0.5, -0.5)
    first = np.concatenate([[0], np.cumsum(run.node_gpus)])
    for border in first[1:-1]:
        axes.axhline(border - 0.5, color=INK, linewidth=0.4)
    middles = (first[:-1] + first[1:] - 1) / 2
    named = range(0, len(middles), -(-len(middles) // 8))
    axes.set_yticks(middles[list(named)], [str(node) for node in named])
    axes.tick_params(axis="y", length=0)


def _stacked(
    found: pd.DataFrame, low: np.ndarray, high: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield lower and upper ends and rows: bars of jobs by themselves whole, of those beside others GPU by GPU."""
    alone = np.flatnonzero(found["lanes"] == 1)
    yield low[alone], high[alone], alone
    beside = np.flatnonzero(found["lanes"] > 1)
    rows = np.repeat(beside, found["num_gpus"].to_numpy()[beside])
    again = pd.Series(rows).groupby(rows).cumcount().to_numpy()
    yield low[rows] + again, high[rows] + again, rows


def _colours(run: Run, found: pd.DataFrame) -> np.ndarray:
    """Return the colour of each bar, (bars, 4) from 0 to 1: by job while it runs, else by phase."""
    from matplotlib.colors import to_rgba_array  # of few colours: each of a name costs as much as a bar

    colours = to_rgba_array([*JOBS, LOADING, PAUSING])
    jobs, phase = pd.Index(_names(run)), found["phase"].to_numpy()
    number = jobs.get_indexer(pd.Index(found["job_id"])) % len(JOBS)
    number = np.where(phase == "loading", len(JOBS), number)
    return np.asarray(colours[np.where(phase == "pausing", len(JOBS) + 1, number)])


def _names(run: Run) -> Sequence[str]:
    """Return the names of all jobs."""
    return list(dict.fromkeys(run.jobs[run.policies[0]]["job_id"]))


def _draw_shares(axes: "Axes", found: Shares, span_s: float) -> None:
    """Draw the share of GPUs held by row and time."""
    rows = len(found.shares)
    axes.imshow(
        found.shares, aspect="auto", cmap="Blues", vmin=0, vmax=1, extent=(0, span_s, rows - 0.5, -0.5)
    )
    axes.set_yticks([])


def _named(run: Run, window: int) -> str:
    """Return how a window is called in a title."""
    return "the whole trace" if run.choices["scenario"]["full_trace"] else f"window {window}"


def _phases(figure: "Figure", title: str, *, is_bars: bool) -> None:
    """Say above the panels what is seen, and what the colours mean."""
    from matplotlib.patches import Patch

    patches = [
        Patch(color=JOBS[0], label="running, a colour a job"),
        Patch(color=LOADING, label="loading"),
        Patch(color=PAUSING, label="pausing"),
    ]
    shares = [Patch(color="#08519c", label="all GPUs held"), Patch(color="#deebf7", label="few held")]
    _legend(figure, patches if is_bars else shares, title)


def _figure(width: Width, height: float) -> "tuple[Figure, Axes]":
    """Return a figure of a width with one panel."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(INCHES[width], height), layout="constrained")
    return figure, figure.add_subplot()


def _panels(width: Width, count: int, high: float) -> "tuple[Figure, int, int]":
    """Return a figure for so many small panels of a height, its rows and its columns."""
    from matplotlib.figure import Figure

    columns = min(count, 1 if width == "column" else 2 if count == 4 else 3)
    rows = -(-count // columns)
    return Figure(figsize=(INCHES[width], 0.35 + high * rows), layout="constrained"), rows, columns


def _marks(width: Width) -> int:
    return 6 if width == "column" else 5


def _outer(axes: "Axes", above: Any, row: int, column: int, rows: int, count: int, columns: int) -> None:
    """Leave out what the panels on the left and below say already."""
    last = row == rows - 1 or (row + 1) * columns + column >= count
    if not last:
        axes.set_xlabel("")
    if column > 0:
        for each in filter(None, (axes, above)):
            each.tick_params(axis="y", labelleft=False)


def _key(figure: "Figure", axes: "Axes", title: str) -> None:
    """Say above the panels what is seen, and name the curves."""
    _legend(figure, axes.get_legend_handles_labels()[0], title)


def _legend(figure: "Figure", handles: Sequence[Any], title: str) -> None:
    """Write a title above all panels, and below it what the handles are called, in as many columns as fit."""
    longest = max(len(str(handle.get_label())) for handle in handles)
    columns = max(1, int(figure.get_figwidth() / (0.35 + 0.062 * longest)))
    figure.legend(
        handles=handles,
        title=title,
        loc="outside upper left",
        ncols=min(columns, len(handles)),
        frameon=False,
        handlelength=1.4,
        columnspacing=1.2,
        alignment="left",
        title_fontsize=8,
        borderaxespad=0.2,
    )
