"""Figures for papers: curves with their intervals, each named where it ends, and nothing that says nothing."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from evaluation.comparison import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

STYLE: dict[Any, Any] = {
    "font.size": 12,
    "axes.titlesize": 12,
    "axes.titleweight": "normal",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "xtick.major.width": 0.8,
    "ytick.major.width": 0.8,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "gpu-cluster-gym",  # and the same figures give the same file
}
INK, GREY, BLUE, SKY, RED, GREEN, ORANGE = (
    "#222222",
    "#8a8a8a",
    "#0072b2",
    "#56b4e9",
    "#d55e00",
    "#009e73",
    "#e69f00",
)
"""Colours that colour-blind readers can tell apart (Okabe and Ito)."""


class Look(NamedTuple):
    """How a policy is drawn, and what it is called there."""

    label: str
    colour: str
    dashes: str = "-"
    width: float = 1.6


def style() -> "AbstractContextManager[None]":
    """Return the context in which figures are drawn and saved."""
    import matplotlib as mpl

    return mpl.rc_context(STYLE)


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
    """Mark the distance between two curves at a place, and say below it what it is."""
    arrow = {"arrowstyle": "<->", "color": INK, "linewidth": 0.8, "shrinkA": 2, "shrinkB": 2}
    axes.annotate("", (place, low), (place, high), arrowprops=arrow)
    axes.annotate(
        text, (place, low), xytext=(0, -15), textcoords="offset points", ha="center", va="top", color=INK
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
    """Draw each policy's means over the places, with the interval as a band, and its name at the right end."""
    for policy, each in lines.items():
        look = looks[policy]
        low, mean, high = ([getattr(e, name) for e in each] for name in ("low", "mean", "high"))
        axes.fill_between(places, low, high, color=look.colour, alpha=0.16, linewidth=0)
        marker = "o" if len(set(mean)) > 1 else ""  # a level line was not measured at certain places
        (line,) = axes.plot(places, mean, look.dashes, color=look.colour, linewidth=look.width, clip_on=False)
        line.set(marker=marker, markersize=2 + look.width)
    axes.margins(x=0)
    axes.locator_params(axis="y", nbins=6)
    if names:
        name_ends(axes, places[-1], {looks[policy]: each[-1].mean for policy, each in lines.items()})


def dots(axes: "Axes", rows: Mapping[str, Estimate], colour: str, offset: float = 0.0) -> None:
    """Draw a dot with its interval in each row, moved up by a share of a row."""
    places = [offset - row for row in range(len(rows))]
    low, mean, high = ([getattr(each, name) for each in rows.values()] for name in ("low", "mean", "high"))
    axes.hlines(places, low, high, color=colour)
    axes.plot(mean, places, "o", color=colour, markersize=4.5)
    axes.set_yticks([-row for row in range(len(rows))], list(rows))
    axes.tick_params(axis="y", length=0)


def mark(axes: "Axes", place: float, text: str) -> None:
    """Draw a thin line up a panel and say on the left of its top what it is."""
    axes.axvline(place, color=INK, linewidth=0.8, linestyle=":")
    beside = axes.get_xaxis_transform()
    axes.annotate(
        text,
        (place, 1),
        (-4, 0),
        xycoords=beside,
        textcoords="offset points",
        color=INK,
        ha="right",
        va="top",
    )


def level(axes: "Axes", height: float, text: str, place: float) -> None:
    """Draw a thin line across a panel and say above it, from a place on, what it is."""
    axes.axhline(height, color=INK, linewidth=0.8, linestyle=":")
    axes.annotate(text, (place, height), (0, 3), textcoords="offset points", color=INK)


def logarithmic(axes: "Axes", places: Sequence[float]) -> None:
    """Make the horizontal axis logarithmic, with these places on it."""
    axes.set_xscale("log")
    axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.set_xticks([], minor=True)


def percent(axis: "Axis", symbol: str = " %") -> None:
    """Write the shares along an axis as percentages."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=symbol))


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
            xytext=(7, 0),
            textcoords="offset points",
            color=look.colour,
            va="center",
            annotation_clip=False,
        )


def apart(heights: Sequence[float], gap: float) -> list[float]:
    """Return ascending heights at least a gap apart, each group that was too close about its own middle."""
    groups: list[list[float]] = []
    for height in heights:
        groups.append([height])
        while len(groups) > 1 and _bottom(groups[-1], gap) - _top(groups[-2], gap) < gap:
            close = groups.pop()
            groups[-1] += close
    return [_bottom(group, gap) + gap * number for group in groups for number in range(len(group))]


def _bottom(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) - gap * (len(group) - 1) / 2


def _top(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) + gap * (len(group) - 1) / 2


def save(figure: "Figure", folder: Path, name: str) -> list[Path]:
    """Write a figure as a picture and as a drawing; return both files."""
    files = [folder / f"{name}.png", folder / f"{name}.svg"]
    figure.savefig(files[0], dpi=200)
    figure.savefig(files[1], metadata={"Date": None})
    return files
