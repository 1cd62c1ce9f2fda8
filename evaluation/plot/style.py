"""Style of figures: colours, widths of papers, time axes and the spacing of labels."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titleweight": "normal",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "xtick.major.width": 0.8,
    "ytick.major.width": 0.8,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "none",  # keep text as text
    "svg.hashsalt": "gpu-cluster-gym",  # the same figure gives the same file
    "pdf.fonttype": 42,  # TrueType, which publishers require
}
IN_PRINT: dict[Any, Any] = STYLE | {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
}
"""Style of figures for a paper."""

INK, GREY, BLUE, SKY, RED, GREEN, ORANGE, PURPLE = (
    "#222222",
    "#8a8a8a",
    "#0072b2",
    "#56b4e9",
    "#d55e00",
    "#009e73",
    "#e69f00",
    "#cc79a7",
)
"""Colour-blind-safe colours (Okabe and Ito)."""
PALETTE = (INK, BLUE, RED, GREEN, ORANGE, PURPLE, SKY, GREY)
"""Colours of policies in the order of the table; after the last the colours repeat with other dashes and markers."""
MARKERS = "os^Dv"
DASHES = ("-", "--", ":", "-.")

Width = Literal["column", "page"]
INCHES: dict[Width, float] = {"column": 3.33, "page": 7.0}
"""Widths in a two-column paper."""

TIMES = (
    {"1 s": 1, "1 min": 60, "1 h": 3600, "1 d": 86_400, "100 d": 8_640_000},
    {"10 s": 10, "10 min": 600, "10 h": 36_000, "10 d": 864_000},
    {"2 min": 120, "30 min": 1800, "2 h": 7200, "5 h": 18_000, "2 d": 172_800, "30 d": 2_592_000},
    {"5 s": 5, "20 s": 20, "5 min": 300, "20 min": 1200, "3 h": 10_800, "20 h": 72_000, "5 d": 432_000},
)
"""Ticks of a logarithmic time axis, s, by priority: a tick is drawn unless it is too close to one of an earlier row."""
_SHORT = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 14_400, 21_600, 43_200)
STEPS = (*_SHORT, *(86_400 * days for days in (1, 2, 5, 10, 20, 50, 100, 200, 500)))
"""Distances between ticks of a time axis, s."""


def style(chosen: dict[Any, Any] | None = None) -> "AbstractContextManager[None]":
    """Return the context manager in which to draw and save figures."""
    import matplotlib as mpl

    return mpl.rc_context(STYLE if chosen is None else chosen)


def look(place: int) -> tuple[str, str]:
    """Return colour and dashes of the policy in this row of the table."""
    return PALETTE[place % len(PALETTE)], DASHES[place // len(PALETTE) % len(DASHES)]


def marker(place: int) -> str:
    """Return the marker of the policy in this row of the table; policies of one colour have different ones."""
    return MARKERS[place // len(PALETTE) % len(MARKERS)]


def time_axis(axes: "Axes", span_s: float, max_ticks: int = 5, begin_s: float = 0.0) -> None:
    """Label a horizontal axis of seconds in whole minutes, hours or days. begin_s: time at its 0."""
    step = next((each for each in STEPS if span_s / each <= max_ticks), STEPS[-1])
    unit, seconds = unit_of(step)
    times = [step * number for number in range(-int(-begin_s // step), int((begin_s + span_s) // step) + 1)]
    axes.set_xticks([time - begin_s for time in times], [f"{time / seconds:g}" for time in times])
    axes.set_xlim(0, span_s)
    axes.set_xlabel(f"Time, {unit}")


def unit_of(step_s: float) -> tuple[str, int]:
    """Return the largest time unit not longer than a step, and its seconds."""
    units = (("days", 86_400), ("hours", 3600), ("minutes", 60), ("s", 1))
    return next(each for each in units if step_s >= each[1])


def duration_text(seconds: float) -> str:
    """Return a duration in its largest whole unit, to three digits."""
    unit, size = unit_of(max(seconds, 1))
    return f"{seconds / size:#.3g} {unit}".replace(". ", " ")


def log_time_axis(axes: "Axes") -> None:
    """Make a horizontal axis of seconds logarithmic, with ticks from seconds to days."""
    from math import log

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    inches = axes.figure.bbox.width / axes.figure.dpi
    spacing = log(high / low) / (1.6 * inches)  # a tick label needs five eighths of an inch
    chosen: dict[str, int] = {}
    for row in TIMES:
        for text, place in row.items():
            near = any(abs(log(place / other)) < spacing for other in chosen.values())
            if low <= place <= high and not near:
                chosen[text] = place
    axes.set_xticks(list(chosen.values()), list(chosen))
    axes.set_xticks([], minor=True)


def percent(axis: "Axis", symbol: str = " %") -> None:
    """Label the shares along an axis as percentages."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=symbol))


def spread_out(heights: Sequence[float], gap: float) -> list[float]:
    """Return ascending heights moved at least a gap apart, each group of close heights around its mean."""
    # merge a height with the group below it as long as the two, spread out around their means, would overlap
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


def pixels(figure: "Figure", dpi: int) -> np.ndarray:
    """Return a figure as an image, uint8, shape (height, width, 3)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(dpi)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    image: np.ndarray = np.asarray(canvas.buffer_rgba())[..., :3].copy()
    return image


def save(figure: "Figure", folder: Path, name: str, kinds: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write a figure as a file of each kind (png, svg, pdf), byte for byte reproducible; return the files."""
    metadata: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    files = [folder / f"{name}.{kind}" for kind in kinds]
    for file, kind in zip(files, kinds, strict=True):
        figure.savefig(file, dpi=200, metadata=metadata[kind])
    return files
