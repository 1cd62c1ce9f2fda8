"""Figures for papers: curves with their intervals, each named where it ends, and nothing that says nothing."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpu_cluster_gym.evaluation.comparison import Estimate
from gpu_cluster_gym.evaluation.plot.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    RED,
    SKY,
    STYLE,
    apart,
    percent,
    save,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["BLUE", "GREEN", "GREY", "INK", "ORANGE", "RED", "SKY", "percent", "save", "style"]

BESIDE = 3.0  # points between the intervals of two curves at one place


class Look(NamedTuple):
    """How a policy is drawn, and what it is called there."""

    label: str
    colour: str
    dashes: str = "-"
    width: float = 1.6


def one_and_two() -> "tuple[Figure, list[Axes]]":
    """Return a figure with a large panel on the left and two small ones, one above the other, on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.4, 4.9), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1.4, 1), height_ratios=(1.25, 1))
    panels = [figure.add_subplot(grid[:, 0]), figure.add_subplot(grid[0, 1])]
    return figure, [*panels, figure.add_subplot(grid[1, 1])]


def side_by_side() -> "tuple[Figure, list[Axes]]":
    """Return a figure with two panels that have their rows in common."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.4, 3.2), layout="constrained")
    grid = figure.add_gridspec(1, 2, width_ratios=(1.4, 1))
    first = figure.add_subplot(grid[0, 0])
    second = figure.add_subplot(grid[0, 1], sharey=first)
    second.tick_params(axis="y", labelleft=False)
    return figure, [first, second]


def bracket(axes: "Axes", place: float, low: float, high: float, text: str) -> None:
    """Mark the distance between two rising curves at a place, and say in the upper left what it is."""
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
    """Say in small print below the panels how to read them."""
    text = f"Means over {trials} trials and their 95 % intervals; ratios are those of each trial, averaged."
    figure.supxlabel(text, x=0.01, ha="left", fontsize=9, color=GREY)


def curves(
    axes: "Axes",
    places: Sequence[float],
    lines: Mapping[str, Sequence[Estimate]],
    looks: Mapping[str, Look],
    *,
    names: bool = True,
) -> None:
    """Draw each policy's means over the places, with intervals as bars side by side, and its name at the right end."""
    for number, (policy, each) in enumerate(lines.items()):
        look = looks[policy]
        low, mean, high = ([getattr(e, name) for e in each] for name in ("low", "mean", "high"))
        level = len(set(mean)) == 1  # such a line was not measured at certain places
        ends = slice(len(mean) - 1, None) if level else slice(None)
        aside = BESIDE * (number - (len(lines) - 1) / 2)
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
    """Draw a thin bar from low to high at each place, so many points to the side; limits: places, lows and highs."""
    from matplotlib.transforms import ScaledTranslation

    moved = ScaledTranslation(aside / 72, 0, axes.figure.dpi_scale_trans)
    bars = axes.vlines(*limits, color=colour, linewidth=1, alpha=0.55, clip_on=False)
    bars.set_transform(axes.transData + moved)


def dots(axes: "Axes", rows: Mapping[str, Estimate], colour: str, offset: float = 0.0) -> None:
    """Draw a dot with its interval in each row, moved up by a share of a row."""
    places = [offset - row for row in range(len(rows))]
    low, mean, high = ([getattr(each, name) for each in rows.values()] for name in ("low", "mean", "high"))
    axes.hlines(places, low, high, color=colour)
    axes.plot(mean, places, "o", color=colour, markersize=4.5)
    axes.set_yticks([-row for row in range(len(rows))], list(rows))
    axes.tick_params(axis="y", length=0)


def mark(axes: "Axes", place: float, text: str, *, beyond: bool = False) -> None:
    """Draw a thin line up a panel and say at its top, on its left or beyond it, what it is."""
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
    """Draw a thin line across a panel and say above it, from a place on, what it is."""
    axes.axhline(height, color=INK, linewidth=0.8, linestyle=":")
    axes.annotate(text, (place, height), (0, 3), textcoords="offset points", color=INK)


def logarithmic(axes: "Axes", places: Sequence[float]) -> None:
    """Make the horizontal axis logarithmic, with these places on it, and say so in its label, if that is there."""
    axes.set_xscale("log")
    axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.set_xticks([], minor=True)
    axes.set_xlabel(f"{axes.get_xlabel()} (logarithmic scale)")


def name_ends(axes: "Axes", place: float, ends: Mapping[Look, float]) -> None:
    """Write each name beside the end of its curve, moved apart where two would touch."""
    low, high = axes.get_ylim()
    line = 1.2 * STYLE["font.size"] / 72 * axes.figure.dpi / axes.get_window_extent().height
    order = sorted(ends, key=lambda look: ends[look])
    heights = apart([ends[look] for look in order], line * (high - low))
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
