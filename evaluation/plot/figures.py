"""Figures for papers, in the width of a column or a page: policies of a run, sweeps, logs, learning curves."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gpu_cluster_gym.envs.render import LOADING, PAUSING, job_colours
from gpu_cluster_gym.evaluation.metrics import Windows
from gpu_cluster_gym.evaluation.plot import run_tables
from gpu_cluster_gym.evaluation.plot.run_tables import SIZES, Run, Shares, window_rows
from gpu_cluster_gym.evaluation.plot.style import (
    BLUE,
    GREY,
    INCHES,
    INK,
    ORANGE,
    RED,
    SKY,
    Width,
    log_time_axis,
    look,
    marker,
    spread_out,
    time_axis,
    unit_of,
)
from gpu_cluster_gym.evaluation.run_folder import CHOICES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpu_cluster_gym.evaluation.describe import Load


BAR_HEIGHT = 0.9  # share of a GPU's row


def ratios(run: Run, width: Width, window: int | None = None) -> "Figure":
    """Draw each policy's mean JCT over the reference's, with its 95 % interval."""
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
    windows = len(run.windows)
    over = f"{windows} windows" if windows > 1 else "blocks of time"
    reference = run.reference if len(run.reference) < LONG_NAME else "the reference"
    # texts of the figure, not of the panel, which long names leave narrow
    figure.suptitle(
        f"Mean job completion time / {reference}", x=0.01, horizontalalignment="left", fontsize="medium"
    )
    figure.supxlabel(
        f"Ratio with 95 % interval over {over}" if run.has_intervals else "Ratio, one window",
        fontsize="medium",
    )
    axes.locator_params(axis="x", nbins=6)
    return figure


def cdf(run: Run, width: Width, window: int | None = None) -> "Figure":
    """Draw the cumulative distribution of job completion times by policy."""
    figure, axes = _figure(width, 2.4)
    for place, (policy, jobs) in enumerate(run.jobs.items()):
        colour, dashes = look(place)
        time_s, share = run_tables.cdf(jobs["jct_s"])
        axes.step(time_s, 100 * share, dashes, where="post", color=colour, linewidth=1.2, label=policy)
    log_time_axis(axes)
    axes.set_ylim(0, 100)
    axes.set_xlabel("Job completion time (logarithmic scale)")
    axes.set_ylabel("Jobs completed, %")
    _key(figure, axes, "Cumulative distribution of job completion times")
    return figure


def fairness(run: Run, width: Width, window: int | None = None) -> "Figure":
    """Draw the cumulative distribution of the finish-time fairness of GPU jobs by policy."""
    from matplotlib.ticker import LogLocator, NullFormatter

    figure, axes = _figure(width, 2.4)
    for place, (policy, jobs) in enumerate(run.jobs.items()):
        colour, dashes = look(place)
        found = Windows(jobs, len(run.node_of_gpu), math.nan).finish_time_fairness
        ratio, share = run_tables.cdf(found)
        axes.step(ratio, 100 * share, dashes, where="post", color=colour, linewidth=1.2, label=policy)
    axes.axvline(1, color=GREY, linewidth=0.8, zorder=0)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 100 * low else (1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(0, 100)
    axes.set_xlabel("JCT / JCT with an equal share (logarithmic scale)")
    axes.set_ylabel("Jobs on GPUs, %")
    _key(figure, axes, "Finish-time fairness; above 1 is less than an equal share")
    return figure


def sizes(run: Run, width: Width, window: int | None = None) -> "Figure":
    """Draw the mean JCT of each size class by policy."""
    table = run_tables.jct_by_size(run)
    first = table[table["policy"] == run.policies[0]].set_index("size")["jobs"]
    classes = [size for size in SIZES if size in set(table["size"])]
    figure, axes = _figure(width, 0.9 + 0.42 * len(classes))
    for place, policy in enumerate(run.policies):
        own = table[table["policy"] == policy].set_index("size").reindex(classes)
        offset = 0.6 * ((place + 0.5) / len(run.policies) - 0.5)
        heights = np.arange(len(classes)) + offset
        axes.plot(
            own["mean_jct_s"], heights, marker(place), color=look(place)[0], markersize=3.5, label=policy
        )
    log_time_axis(axes)
    axes.set_yticks(range(len(classes)), [f"{size}\n({first[size]:,} jobs)" for size in classes])
    axes.set_ylim(len(classes) - 0.5, -0.5)
    for border in range(1, len(classes)):
        axes.axhline(border - 0.5, color="#dddddd", linewidth=0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("Mean job completion time (logarithmic scale)")
    _key(figure, axes, "Mean job completion time by requested GPUs")
    return figure


def timeline(run: Run, width: Width, window: int | None = None) -> "Figure":
    """Draw GPUs allocated and busy, and queued jobs, over one window by policy."""
    chosen = run.windows[0] if window is None else window
    edges = run_tables.time_edges(run, chosen, run_tables.TIMELINE_BINS)
    frames = {policy: run_tables.timeline_means(run, policy, chosen, edges) for policy in run.timeline}
    gpus, longest = len(run.node_of_gpu), max(frame["queued"].max() for frame in frames.values())
    busiest = max(gpus, *(frame["busy_gpus"].max() for frame in frames.values()))
    figure, rows, columns = _panels(width, len(frames), 1.9)
    grid = figure.add_gridspec(2 * rows, columns, height_ratios=[1.5, 1] * rows)
    for place, (policy, frame) in enumerate(frames.items()):
        row, column = divmod(place, columns)
        above = figure.add_subplot(grid[2 * row, column])
        below = figure.add_subplot(grid[2 * row + 1, column], sharex=above)
        above.stairs(frame["held_gpus"], edges, fill=True, color="#d5d5d5", label="allocated")
        above.stairs(
            frame["busy_gpus"],
            edges,
            color=BLUE,
            linewidth=0.9,
            label="busy: GPUs x relative speed",
        )
        above.axhline(gpus, color=GREY, linewidth=0.6, linestyle=":", label=f"cluster: {gpus:,} GPUs")
        above.set(title=policy, ylim=(0, 1.05 * busiest))
        above.tick_params(axis="x", labelbottom=False)
        below.stairs(frame["queued"], edges, fill=True, color=ORANGE, alpha=0.7)
        below.set(ylim=(0, 1.05 * max(longest, 1)))
        time_axis(below, edges[-1], _marks(width), _begin_s(run))
        _outer(below, above, row, column, rows, len(frames), columns)
        if column == 0:
            above.set_ylabel("GPUs")
            below.set_ylabel("Queue")
    title = f"GPUs and queued jobs over time, {_window_name(run, chosen)}"
    _key(figure, figure.axes[0], title)
    return figure


def gantt(
    run: Run, width: Width, window: int | None = None, *, max_bars: int = run_tables.MAX_BARS
) -> "Figure":
    """Draw the Gantt chart of each policy over one window, or shares of GPUs allocated if there are too many bars."""
    chosen = run.windows[0] if window is None else window
    panels = run_tables.gantts(run, chosen, max_bars=max_bars)
    rows_high = min(len(run.node_of_gpu), run_tables.SHARE_ROWS)
    figure, rows, columns = _panels(width, len(panels), 0.55 + min(max(0.055 * rows_high, 0.9), 2.4))
    grid = figure.add_gridspec(rows, columns)
    span_s = run.span_s(chosen)
    means_s = {policy: window_rows(run.jobs[policy], chosen)["jct_s"].mean() for policy in panels}
    unit, seconds = unit_of(max(1.0, *means_s.values()) / 2)  # one unit in all titles
    for place, (policy, found) in enumerate(panels.items()):
        row, column = divmod(place, columns)
        axes = figure.add_subplot(grid[row, column])
        if isinstance(found, Shares):
            _draw_shares(axes, found, span_s)
        else:
            _draw_bars(axes, run, found)
        axes.set_title(
            f"{policy}: mean JCT {means_s[policy] / seconds:#.3g} {unit}".replace(". ", " "),
            fontsize=None if len(policy) < LONG_NAME or width == "column" else "small",
        )
        time_axis(axes, span_s, _marks(width), _begin_s(run))
        _outer(axes, None, row, column, rows, len(panels), columns)
        if column == 0:
            axes.set_ylabel("GPUs by node" if len(run.node_gpus) > 1 else "GPUs")
    shares = isinstance(found, Shares)
    what = f"Share of GPUs allocated, a row per {found.row}" if isinstance(found, Shares) else "Jobs by GPU"
    _phases(figure, f"{what} over time, {_window_name(run, chosen)}", is_bars=not shares)
    return figure


PICTURES: dict[str, Callable[[Run, Width, int | None], "Figure"]] = {
    "ratios": ratios,
    "cdf": cdf,
    "fairness": fairness,
    "sizes": sizes,
    "timeline": timeline,
    "gantt": gantt,
}
"""Pictures by name."""
NEED_RECORD = ("timeline", "gantt")
LONG_NAME = 14
"""Letters of a policy whose title has a smaller font, so that it fits above its panel."""


def _draw_bars(axes: "Axes", run: Run, bars: pd.DataFrame) -> None:
    """Draw a bar for each period that a job uses neighbouring GPUs."""
    from matplotlib.collections import PolyCollection

    height = BAR_HEIGHT / bars["lanes"].to_numpy()
    low = bars["gpu"].to_numpy() - BAR_HEIGHT / 2 + bars["lane"].to_numpy() * height
    high = np.where(bars["lanes"] > 1, low + height, low + BAR_HEIGHT + bars["num_gpus"].to_numpy() - 1)
    for bottom, top, rows in _stacked(bars, low, high):
        left, right = bars["from_s"].to_numpy()[rows], bars["to_s"].to_numpy()[rows]
        corners = [[left, bottom], [right, bottom], [right, top], [left, top]]
        shapes: Any = np.stack([np.stack(each, axis=-1) for each in corners], axis=1)
        axes.add_collection(PolyCollection(shapes, facecolors=_colours(run, bars.iloc[rows]), linewidths=0))
    axes.set_ylim(len(run.node_of_gpu) - 0.5, -0.5)
    first = np.concatenate([[0], np.cumsum(run.node_gpus)])
    for border in first[1:-1]:
        axes.axhline(border - 0.5, color=INK, linewidth=0.4)
    middles = (first[:-1] + first[1:] - 1) / 2
    named = range(0, len(middles), -(-len(middles) // 8))
    axes.set_yticks(middles[list(named)], [str(node) for node in named])
    axes.tick_params(axis="y", length=0)


def _stacked(
    bars: pd.DataFrame, low: np.ndarray, high: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield bottoms, tops and row indices: the bars of jobs that share no GPU whole, the others GPU by GPU."""
    whole = np.flatnonzero(bars["lanes"] == 1)
    yield low[whole], high[whole], whole
    shared = np.flatnonzero(bars["lanes"] > 1)
    rows = np.repeat(shared, bars["num_gpus"].to_numpy()[shared])
    offset = pd.Series(rows).groupby(rows).cumcount().to_numpy()
    yield low[rows] + offset, high[rows] + offset, rows


def _colours(run: Run, bars: pd.DataFrame) -> np.ndarray:
    """Return the colour of each bar, shape (bars, 4) from 0 to 1: by job while it runs, else by phase."""
    from matplotlib.colors import to_rgba_array  # converts each colour once, not once per bar

    jobs = run.job_ids
    pausing, loading = to_rgba_array([PAUSING, LOADING])
    colours = to_rgba_array(job_colours())
    phase = bars["phase"].to_numpy()[:, np.newaxis]
    found = colours[jobs.get_indexer(pd.Index(bars["job_id"])) % len(colours)]
    chosen: np.ndarray = np.where(phase == "loading", loading, np.where(phase == "pausing", pausing, found))
    return chosen


def _draw_shares(axes: "Axes", found: Shares, span_s: float) -> None:
    """Draw the share of GPUs allocated by row and time."""
    rows = len(found.shares)
    axes.imshow(
        found.shares, aspect="auto", cmap="Blues", vmin=0, vmax=1, extent=(0, span_s, rows - 0.5, -0.5)
    )
    axes.set_yticks([])


def _begin_s(run: Run) -> float:
    """Return the time at which a part of a window begins, s from the first submission; 0 for a whole window."""
    return run.cut_s[0] if run.cut_s else 0.0


def _window_name(run: Run, window: int) -> str:
    """Return the name of a window in a title."""
    name = "the whole trace" if run.choices["scenario"]["full_trace"] else f"window {window}"
    if not run.cut_s:
        return name
    begin_h, end_h = (seconds / 3600 for seconds in run.cut_s)
    return f"{name}, hours {begin_h:g} to {end_h:g}"


def _phases(figure: "Figure", title: str, *, is_bars: bool) -> None:
    """Write the title above the panels, with the colours' meanings."""
    from matplotlib.patches import Patch

    patches = [
        Patch(color=SKY, label="running, one colour per job"),
        Patch(color=LOADING, label="loading"),
        Patch(color=PAUSING, label="pausing"),
    ]
    shares = [
        Patch(color="#08519c", label="all GPUs allocated"),
        Patch(color="#deebf7", label="few allocated"),
    ]
    _legend(figure, patches if is_bars else shares, title)


def _figure(width: Width, height: float) -> "tuple[Figure, Axes]":
    """Return a figure with one panel."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(INCHES[width], height), layout="constrained")
    return figure, figure.add_subplot()


def _panels(width: Width, count: int, height: float) -> "tuple[Figure, int, int]":
    """Return a figure for `count` panels of a height in inches, and its numbers of rows and columns."""
    from matplotlib.figure import Figure

    columns = min(count, 1 if width == "column" else 2 if count == 4 else 3)
    rows = -(-count // columns)
    return Figure(figsize=(INCHES[width], 0.35 + height * rows), layout="constrained"), rows, columns


def _marks(width: Width) -> int:
    return 6 if width == "column" else 5


def _outer(axes: "Axes", above: Any, row: int, column: int, rows: int, count: int, columns: int) -> None:
    """Remove the labels that panels on the left and below repeat."""
    last = row == rows - 1 or (row + 1) * columns + column >= count
    if not last:
        axes.set_xlabel("")
    if column > 0:
        for each in filter(None, (axes, above)):
            each.tick_params(axis="y", labelleft=False)


def _key(figure: "Figure", axes: "Axes", title: str) -> None:
    """Write the title above the panels, with the names of the curves."""
    _legend(figure, axes.get_legend_handles_labels()[0], title)


ROWS_INSIDE, ROW_INCHES = 2, 0.2
"""Rows of a legend for which figures have room, and the height that each further row adds, inches."""


def _legend(figure: "Figure", handles: Sequence[Any], title: str) -> None:
    """Write a title above all panels, and below it the labels of the handles in as many columns as fit."""
    inches = [0.35 + 0.062 * len(str(handle.get_label())) for handle in handles]
    width = figure.get_figwidth()
    columns = len(handles) if sum(inches) < width else max(1, int(width / max(inches)))
    rows = -(-len(handles) // columns)
    figure.set_figheight(figure.get_figheight() + ROW_INCHES * max(rows - ROWS_INSIDE, 0))
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


SWEEP = "sweep"
"""Name of the picture of several runs together."""
AXES = {"steady_load": "Offered load", "target_load": "Offered load"}
"""Labels of fields of a scenario on an axis; others are named as they are."""


def swept(runs: Sequence[Run]) -> tuple[str, pd.DataFrame]:
    """Return the field of the scenario by which runs differ, and a row per value and policy that all runs have.

    Columns: the field, policy, ratio, low, high, mean_jct_s, mean_wait_s and mean_slowdown, by ascending value.
    ValueError unless the runs have one reference and differ in one field, which is a number.
    """
    scenarios = [run.choices["scenario"] for run in runs]
    differing = [
        name for name, value in scenarios[0].items() if any(each.get(name) != value for each in scenarios)
    ]
    values: list[Any] = [each.get(differing[0]) if differing else None for each in scenarios]
    if len(differing) != 1 or not all(isinstance(each, int | float) for each in values):
        found = f"in {', '.join(differing)}" if differing else "in nothing"
        raise ValueError(
            f"a sweep requires runs that differ in one number of the scenario, such as --steady-load: these "
            f"{len(runs)} differ {found}"
        )
    if len(set(values)) < len(values):
        raise ValueError(f"a sweep requires runs that differ, but two have the same {differing[0]}: drop one")
    if len(references := {run.reference for run in runs}) > 1:
        raise ValueError(
            f"a sweep requires runs with one reference, but these have {', '.join(sorted(references))}: name the same "
            "policy first in all runs"
        )
    rows = [
        {
            differing[0]: value,
            "policy": policy,
            **{name: getattr(run.ratios[policy], name) for name in ("ratio", "low", "high")},
            **{
                name: run.summary["mean_over_windows"][policy][name]
                for name in ("mean_jct_s", "mean_wait_s", "mean_slowdown")
            },
        }
        for value, run in sorted(zip(values, runs, strict=True), key=lambda pair: pair[0])
        for policy in runs[0].policies
        if all(policy in each.policies for each in runs)
    ]
    return differing[0], pd.DataFrame(rows)


def sweep(field: str, table: pd.DataFrame, reference: str, width: Width) -> "Figure":
    """Draw the ratio of mean JCT with its interval, mean JCT and mean slowdown over a field, a line per policy.

    field, table: as `swept` returns them.
    """
    from matplotlib.figure import Figure

    policies = list(dict.fromkeys(table["policy"]))
    rows, columns = (3, 1) if width == "column" else (1, 3)
    figure = Figure(figsize=(INCHES[width], 0.6 + 2.0 * rows), layout="constrained")
    ratios_, means, slowdowns = figure.subplots(rows, columns, sharex=True).tolist()
    unit, seconds = unit_of(max(1.0, float(table["mean_jct_s"].median())))
    for place, policy in enumerate(policies):
        own = table[table["policy"] == policy]
        colour, dashes = look(place)
        line: Any = {"color": colour, "linestyle": dashes, "linewidth": 1.2, "marker": "o", "markersize": 3}
        ratios_.plot(own[field], own["ratio"], label=policy, **line)
        ratios_.vlines(own[field], own["low"], own["high"], colour, linewidth=0.8, alpha=0.7)
        means.plot(own[field], own["mean_jct_s"] / seconds, **line)
        slowdowns.plot(own[field], own["mean_slowdown"], **line)
    ratios_.axhline(1, color=GREY, linewidth=0.8, zorder=0)
    ratios_.set_title(f"Mean JCT / {reference}")
    means.set_title(f"Mean JCT, {unit}")
    means.set_ylim(bottom=0)
    _slowdown_axis(slowdowns, table["mean_slowdown"])
    values = sorted(set(table[field]))
    means.set_xticks(values, [f"{each:g}" for each in values])
    figure.supxlabel(AXES.get(field, field.replace("_", " ")), fontsize="medium")
    _key(figure, ratios_, "Policies, with 95 % intervals")
    return figure


def _slowdown_axis(axes: "Axes", slowdown: pd.Series) -> None:
    """Title an axis of slowdowns; it is logarithmic where they differ more than tenfold, since FIFO's exceed 100."""
    from matplotlib.ticker import LogLocator, NullFormatter

    if slowdown.max() <= 10 * slowdown.min():
        axes.set_title("Mean slowdown")
        axes.set_ylim(bottom=0)
        return
    axes.set_title("Mean slowdown (logarithmic)")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(
        LogLocator(subs=(1.0,) if slowdown.max() > 100 * slowdown.min() else (1.0, 2.0, 5.0))
    )
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


SHORTEST_S = 1.0
"""Run times and waits of a log below count as this on logarithmic axes."""


def log(jobs: pd.DataFrame, load: "Load") -> "Figure":
    """Draw a log: GPUs held over time, distributions of widths, run times and waits, and the largest tenants.

    jobs: the job table. load: its load over time.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(INCHES["page"], 4.2), layout="constrained")
    over_time, widths, times, owners = figure.subplots(2, 2).flat
    begin_s = np.append(load.begin_s - load.begin_s[0], len(load.begin_s) * load.step_s)
    for gpus, colour, width, label in ((load.peak, GREY, 0.8, "peak"), (load.mean, BLUE, None, "mean")):
        over_time.step(
            begin_s, np.append(gpus, gpus[-1]), where="post", color=colour, linewidth=width, label=label
        )
    time_axis(over_time, float(load.begin_s[-1] - load.begin_s[0]) + load.step_s)
    over_time.set_title("GPUs held")
    over_time.set_ylim(bottom=0)
    over_time.legend(frameon=False)
    on_gpus = jobs[jobs["num_gpus"] > 0]
    gpus, count = np.unique(on_gpus["num_gpus"], return_counts=True)
    widths.bar([str(each) for each in gpus[:12]], 100 * count[:12] / count.sum(), color=BLUE)
    widths.set_title("Jobs by GPUs, %")
    seconds = {"run time": (on_gpus["duration_s"], BLUE)}
    if "logged_start_s" in on_gpus:
        seconds["wait"] = on_gpus["logged_start_s"] - on_gpus["submit_s"], RED
    for label, (each, colour) in seconds.items():
        time_s, share = run_tables.cdf(each.clip(lower=SHORTEST_S))
        times.step(time_s, 100 * share, where="post", color=colour, label=label)
    log_time_axis(times)
    times.set_title("Jobs with at most this run time or wait, %")
    times.legend(frameon=False)
    name = next((column for column in ("tenant", "user") if column in on_gpus), None)
    gpu_s = on_gpus["num_gpus"] * on_gpus["duration_s"]
    by_owner = gpu_s.groupby(on_gpus[name] if name else pd.Series("all", index=on_gpus.index)).sum()
    largest = (100 * by_owner / gpu_s.sum()).sort_values(ascending=False).head(8)[::-1]
    owners.barh([str(each)[:16] for each in largest.index], largest, color=BLUE)
    owners.set_title(f"GPU time by {name or 'tenant'}, %")
    return figure


VALIDATION_CURVE = "validation.csv"
RATIO = "_ratio_to_start"
"""End of columns of a validation curve: mean JCT over the initial policy's."""
AGENT = f"agent{RATIO}"
"""Column of the agent as it acts in use; other names before this end, but for greedy and sampled, are of heuristics."""
MAX_RATIO = 1.05
"""Largest ratio shown."""


def learning_curves(folder: Path) -> list[pd.DataFrame]:
    """Return the validation curve of each agent in a run of `train_agent.py`; none if the folder is no such run."""
    files = sorted(folder.glob(f"seed-*/{VALIDATION_CURVE}")) or [*folder.glob(VALIDATION_CURVE)]
    return [pd.read_csv(file) for file in files]


def training_name(folder: Path) -> str:
    """Return the workload or trace of a training run, and whether run times were predicted from finished jobs.

    ValueError if the choices of the run cannot be read.
    """
    try:
        choices = json.loads((folder / CHOICES).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{folder / CHOICES} cannot be read ({error}): expected the choices of a run of train_agent.py"
        ) from None
    scenario = choices["scenario"]
    jobs_of_philly = "philly" if scenario.get("steady_load") else "philly_backlog"
    name = choices.get("workload") or scenario["trace"] or scenario["trace_file"] or jobs_of_philly
    return f"{name}{', with predictions' if scenario.get('run_time_predictor') else ''}"


def learning(runs: Sequence[tuple[str, Sequence[pd.DataFrame]]], width: Width = "page") -> "Figure":
    """Draw each run's agents over training steps, with lines for the heuristics, a panel per run.

    runs: name and validation curves of each.
    """
    from matplotlib.figure import Figure

    height = 3.2 if len(runs) == 1 else 2.2
    figure = Figure(figsize=(INCHES[width], height), layout="constrained", facecolor="white")
    for place, (name, agents) in enumerate(runs):
        axes = figure.add_subplot(1, len(runs), place + 1)
        _learning_panel(axes, agents)
        axes.set_title(name)
    references = {name for _, agents in runs for name, level in _levels(agents).items() if level == 1}
    reference = references.pop() if len(references) == 1 else ""
    figure.supylabel(f"Mean JCT / {reference or 'initial policy'}", fontsize=8)
    figure.supxlabel("Decisions, thousands", fontsize=8)
    return figure


def _learning_panel(axes: "Axes", agents: Sequence[pd.DataFrame]) -> None:
    """Draw a line per agent, the lowest ratio of all, and a named line for each heuristic that is as good."""
    levels = _levels(agents)
    lowest = min(min(float(each[AGENT].min()) for each in agents), *levels.values())
    shown = sorted((level, name) for name, level in levels.items() if level < MAX_RATIO)
    for level, _ in shown:
        axes.axhline(level, color=GREY, linewidth=0.6, linestyle=":", zorder=0)
    for number, each in enumerate(agents):
        label = ("agents" if len(agents) > 1 else "agent") if number == 0 else None
        axes.plot(each["step"] / 1000, each[AGENT].clip(upper=2), color=BLUE, linewidth=1.1, label=label)
    best = min(agents, key=lambda each: float(each[AGENT].min()))
    row = best.iloc[int(best[AGENT].to_numpy().argmin())]
    axes.plot(row["step"] / 1000, row[AGENT], "o", color=INK, markersize=3, label="lowest ratio")
    axes.set_xlim(0, max(float(each["step"].max()) for each in agents) / 1000)
    margin = 0.03 * (MAX_RATIO - lowest)
    axes.set_ylim(lowest - margin, MAX_RATIO)
    data: Any = ("axes fraction", "data")
    for (level, name), height in zip(
        shown, spread_out([level for level, _ in shown], 1.7 * margin), strict=True
    ):
        line = {"arrowstyle": "-", "color": GREY, "linewidth": 0.4, "shrinkA": 0, "shrinkB": 0}
        axes.annotate(name, (1, level), (1.03, height), data, data, line, va="center", fontsize=7)
    axes.legend(framealpha=1, edgecolor="none", loc="upper right")


def _levels(agents: Sequence[pd.DataFrame]) -> dict[str, float]:
    """Return each heuristic's mean JCT over the initial policy's."""
    own = (AGENT, f"greedy{RATIO}", f"sampled{RATIO}")
    names = [str(name) for name in agents[0] if str(name).endswith(RATIO) and name not in own]
    return {name.removesuffix(RATIO): float(agents[0][name].iloc[0]) for name in names} or {"": 1.0}
