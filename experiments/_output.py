"""Tables and figures of experiments: policies side by side, sweeps over settings, and curves with intervals."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpu_cluster_gym.evaluation.comparison import ESTIMATOR, Estimate
from gpu_cluster_gym.evaluation.plot.style import GREY, INK, STYLE, spread_out
from gpu_cluster_gym.experiments._trials import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpu_cluster_gym.evaluation.table import ResultTable

Shown = tuple[str, str, str]
"""Name of a metric, its column heading, and the format of its mean."""

TIMES: tuple[Shown, ...] = (
    ("mean_jct_s", "mean\nJCT", "{:,.0f}"),
    ("p95_jct_s", "p95\nJCT", "{:,.0f}"),
    ("mean_wait_s", "mean\nwait", "{:,.0f}"),
)


def grid(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], *, labels: int = 1
) -> "ResultTable":
    """Return a table of texts; the first `labels` columns are left-aligned labels, the others numbers."""
    from gpu_cluster_gym.evaluation.table import Column, ResultTable

    columns = [Column(heading, [row[at] for row in rows]) for at, heading in enumerate(headings)]
    return ResultTable(columns[:labels], columns[labels:], title=title)


def comparison(
    title: str,
    outcome: Outcome,
    setting: str,
    reference: str,
    *,
    numbers: Sequence[Shown] = TIMES,
    ratios: Sequence[tuple[str, str]] = (("mean_jct_s", "JCT"),),
) -> "ResultTable":
    """Return a setting's policies with means of metrics and ratios of metrics to a reference's.

    numbers: the metrics whose means to show. ratios: name and heading of each metric whose ratio to show.
    """
    headings = ["policy", *(heading for _, heading, _ in numbers)]
    for _, what in ratios:
        headings += [f"{what} /\n{reference}", "95 %\ninterval"]
    rows = []
    for policy in outcome.policies(setting):
        row = [policy]
        row += [
            number_text(outcome.mean((setting, policy), number).mean, form) for number, _, form in numbers
        ]
        for number, _ in ratios:
            row += texts(
                outcome.ratio((setting, policy), (setting, reference), number), itself=policy == reference
            )
        rows.append(row)
    return grid(f"{title} ({outcome.counts()[setting]} trials)", headings, rows)


def sweep(title: str, outcome: Outcome, settings: dict[str, str], policies: Sequence[str]) -> "ResultTable":
    """Return the mean JCT of some policies over settings; settings: the heading of each."""
    rows = [
        [policy, *("\n".join(texts(outcome.mean((setting, policy)), "{:,.0f}")) for setting in settings)]
        for policy in policies
    ]
    trials = outcome.counts()[next(iter(settings))]
    return grid(f"{title} ({trials} trials)", ["policy", *settings.values()], rows)


def share(found: Estimate) -> str:
    """Return an estimate of a share for a sentence, as a percentage with its interval."""
    percent = Estimate(*(100 * figure for figure in found))
    return f"{percent.mean:.1f} %" + _in_brackets(limits(percent, "{:.1f}"))


def times(found: Estimate) -> str:
    """Return an estimate of a ratio for a sentence, with its interval."""
    return f"{found.mean:.2f}{_in_brackets(limits(found, '{:.2f}'))} times"


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def texts(found: Estimate, form: str = "{:.3f}", *, itself: bool = False) -> tuple[str, str]:
    """Return a mean and its interval as printed; itself: whether it is the reference, without an interval."""
    return number_text(found.mean, form), "" if itself else limits(found, form)


def limits(found: Estimate, form: str) -> str:
    """Return an interval as text; empty if it is unknown."""
    if math.isnan(found.low):
        return ""
    low, high = (number_text(limit, form) for limit in (found.low, found.high))
    low = low.removesuffix(" %")
    return f"{low} to {high}" if found.low < 0 else f"{low}-{high}"


def number_text(value: float, form: str) -> str:
    """Return a number in a format, with a space before a percent sign."""
    return form.format(value).replace("%", " %")


INTERVAL_GAP = 3.0  # points between the intervals of two curves at one place


class Look(NamedTuple):
    """Label, colour and line style of a policy."""

    label: str
    colour: str
    dashes: str = "-"
    width: float = 1.6


def one_and_two() -> "tuple[Figure, list[Axes]]":
    """Return a figure with a large panel on the left and two small panels stacked on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.4, 4.9), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1.4, 1), height_ratios=(1.25, 1))
    panels = [figure.add_subplot(grid[:, 0]), figure.add_subplot(grid[0, 1])]
    return figure, [*panels, figure.add_subplot(grid[1, 1])]


def side_by_side() -> "tuple[Figure, list[Axes]]":
    """Return a figure with two panels that share their rows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.4, 3.2), layout="constrained")
    grid = figure.add_gridspec(1, 2, width_ratios=(1.4, 1))
    first = figure.add_subplot(grid[0, 0])
    second = figure.add_subplot(grid[0, 1], sharey=first)
    second.tick_params(axis="y", labelleft=False)
    return figure, [first, second]


def bracket(axes: "Axes", place: float, low: float, high: float, text: str) -> None:
    """Mark the distance between two rising curves at a place, with its text in the upper left."""
    arrow = {"arrowstyle": "<->", "color": INK, "linewidth": 0.8, "shrinkA": 2, "shrinkB": 2}
    axes.annotate("", (place, low), (place, high), arrowprops=arrow)
    line = {"arrowstyle": "-", "color": INK, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
    axes.annotate(
        text,
        (place, high),
        xytext=(0.05, 0.72),
        textcoords="axes fraction",
        ha="left",
        va="bottom",
        color=INK,
        arrowprops=line,
    )


def caption(figure: "Figure", trials: int) -> None:
    """Write below the panels how to read them."""
    text = (
        f"Means over {trials} trials with 95 % intervals; a ratio is the {ESTIMATOR}, trials being windows."
    )
    figure.supxlabel(text, x=0.01, ha="left", fontsize=9, color=GREY)


def curves(
    axes: "Axes",
    places: Sequence[float],
    lines: Mapping[str, Sequence[Estimate]],
    looks: Mapping[str, Look],
    *,
    names: bool = True,
) -> None:
    """Draw each policy's means with intervals over the places, and its name at the right end.

    places: x values. lines: the estimates of each policy, one per place. looks: style of each policy.
    names: whether to write the names.
    """
    for number, (policy, each) in enumerate(lines.items()):
        look = looks[policy]
        low, mean, high = ([getattr(e, name) for e in each] for name in ("low", "mean", "high"))
        level = len(set(mean)) == 1  # constant: not measured at each place
        ends = slice(len(mean) - 1, None) if level else slice(None)
        aside = INTERVAL_GAP * (number - (len(lines) - 1) / 2)
        intervals(axes, (places[ends], low[ends], high[ends]), look.colour, aside)
        (line,) = axes.plot(places, mean, look.dashes, color=look.colour, linewidth=look.width, clip_on=False)
        line.set(marker="" if level else "o", markersize=2 + look.width)
    axes.margins(x=0)
    axes.locator_params(axis="y", nbins=6)
    if names:
        name_ends(axes, places[-1], {looks[policy]: each[-1].mean for policy, each in lines.items()})


def intervals(
    axes: "Axes",
    limits: tuple[Sequence[float], Sequence[float], Sequence[float]],
    colour: str,
    aside: float,
) -> None:
    """Draw a thin bar from low to high at each place; limits: places, lows and highs. aside: offset in points."""
    from matplotlib.transforms import ScaledTranslation

    moved = ScaledTranslation(aside / 72, 0, axes.figure.dpi_scale_trans)
    bars = axes.vlines(*limits, color=colour, linewidth=1, alpha=0.55, clip_on=False)
    bars.set_transform(axes.transData + moved)


def dots(axes: "Axes", rows: Mapping[str, Estimate], colour: str, offset: float = 0.0) -> None:
    """Draw a dot with its interval in each row; offset: upward shift as a share of a row."""
    places = [offset - row for row in range(len(rows))]
    low, mean, high = ([getattr(each, name) for each in rows.values()] for name in ("low", "mean", "high"))
    axes.hlines(places, low, high, color=colour)
    axes.plot(mean, places, "o", color=colour, markersize=4.5)
    axes.set_yticks([-row for row in range(len(rows))], list(rows))
    axes.tick_params(axis="y", length=0)


def mark(axes: "Axes", place: float, text: str, *, beyond: bool = False) -> None:
    """Draw a thin vertical line with its text at the top, on the left or, with `beyond`, on the right."""
    axes.axvline(place, color=INK, linewidth=0.8, linestyle=":")
    beside = axes.get_xaxis_transform()
    axes.annotate(
        text,
        (place, 1),
        (4 if beyond else -4, -1),
        xycoords=beside,
        textcoords="offset points",
        color=INK,
        ha="left" if beyond else "right",
        va="top",
    )


def level(axes: "Axes", height: float, text: str, place: float) -> None:
    """Draw a thin horizontal line with its text above it, starting at a place."""
    axes.axhline(height, color=INK, linewidth=0.8, linestyle=":")
    axes.annotate(text, (place, height), (0, 3), textcoords="offset points", color=INK)


def logarithmic(axes: "Axes", places: Sequence[float]) -> None:
    """Make the horizontal axis logarithmic with ticks at the places, and add that to its label."""
    axes.set_xscale("log")
    axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(f"{axes.get_xlabel()} (logarithmic scale)")


def name_ends(axes: "Axes", place: float, ends: Mapping[Look, float]) -> None:
    """Write each name beside the end of its curve, spread out so that none overlap."""
    low, high = axes.get_ylim()
    line = 1.2 * STYLE["font.size"] / 72 * axes.figure.dpi / axes.get_window_extent().height
    order = sorted(ends, key=lambda look: ends[look])
    heights = spread_out([ends[look] for look in order], line * (high - low))
    for look, height in zip(order, heights, strict=True):
        axes.annotate(
            look.label,
            (place, height),
            xytext=(11, 0),
            textcoords="offset points",
            color=look.colour,
            va="center",
            annotation_clip=False,
        )
