"""How figures look: colours, widths of papers, and what keeps labels apart."""

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
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "gpu-cluster-gym",  # and the same figures give the same file
    "pdf.fonttype": 42,  # letters that publishers take
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
"""For figures that go into a paper as they are."""

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
"""Colours that colour-blind readers can tell apart (Okabe and Ito)."""
PALETTE = (INK, BLUE, RED, GREEN, ORANGE, PURPLE, SKY, GREY)
"""Colours of policies, in the order of the table; then again, with other dashes."""
DASHES = ("-", "--", ":", "-.")

Width = Literal["column", "page"]
INCHES: dict[Width, float] = {"column": 3.33, "page": 7.0}
"""Widths of a paper of two columns."""

TIMES = (
    {"1 s": 1, "1 min": 60, "1 h": 3600, "1 d": 86_400, "100 d": 8_640_000},
    {"10 s": 10, "10 min": 600, "10 h": 36_000, "10 d": 864_000},
    {"2 min": 120, "30 min": 1800, "2 h": 7200, "5 h": 18_000, "2 d": 172_800, "30 d": 2_592_000},
    {"5 s": 5, "20 s": 20, "5 min": 300, "20 min": 1200, "3 h": 10_800, "20 h": 72_000, "5 d": 432_000},
)
"""Places on a logarithmic axis of time, s: those of a row where those of the rows before leave room."""
_SHORT = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 14_400, 21_600, 43_200)
STEPS = (*_SHORT, *(86_400 * days for days in (1, 2, 5, 10, 20, 50, 100, 200, 500)))
"""Between marks on an axis of time, s."""


def style(chosen: dict[Any, Any] | None = None) -> "AbstractContextManager[None]":
    """Return the context in which figures are drawn and saved."""
    import matplotlib as mpl

    return mpl.rc_context(STYLE if chosen is None else chosen)


def look(place: int) -> tuple[str, str]:
    """Return the colour and the dashes of the policy at this place of the table."""
    return PALETTE[place % len(PALETTE)], DASHES[place // len(PALETTE) % len(DASHES)]


def time_axis(axes: "Axes", span_s: float, marks: int = 5) -> None:
    """Mark a horizontal axis of seconds in whole minutes, hours or days, and name the unit."""
    step = next((each for each in STEPS if span_s / each <= marks), STEPS[-1])
    unit, seconds = unit_of(step)
    places = [step * number for number in range(int(span_s // step) + 1)]
    axes.set_xticks(places, [f"{place / seconds:g}" for place in places])
    axes.set_xlim(0, span_s)
    axes.set_xlabel(f"Time, {unit}")


def unit_of(step_s: float) -> tuple[str, int]:
    """Return the unit in which steps of so many seconds are written, and its seconds."""
    units = (("days", 86_400), ("hours", 3600), ("minutes", 60), ("s", 1))
    return next(each for each in units if step_s >= each[1])


def in_words(seconds: float) -> str:
    """Return a time in its largest whole unit, to three digits."""
    unit, size = unit_of(max(seconds, 1))
    return f"{seconds / size:#.3g} {unit}".replace(". ", " ")


def log_time_axis(axes: "Axes") -> None:
    """Make a horizontal axis of seconds logarithmic, marked in seconds to days."""
    from math import log

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    inches = axes.figure.bbox.width / axes.figure.dpi
    room = log(high / low) / (1.6 * inches)  # a mark needs five eighths of an inch
    chosen: dict[str, int] = {}
    for row in TIMES:
        for text, place in row.items():
            near = any(abs(log(place / other)) < room for other in chosen.values())
            if low <= place <= high and not near:
                chosen[text] = place
    axes.set_xticks(list(chosen.values()), list(chosen))
    axes.set_xticks([], minor=True)


def percent(axis: "Axis", symbol: str = " %") -> None:
    """Write the shares along an axis as percentages."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=symbol))


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


def pixels(figure: "Figure", dpi: int) -> np.ndarray:
    """Return a figure as an image, uint8 of shape (height, width, 3)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(dpi)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    image: np.ndarray = np.asarray(canvas.buffer_rgba())[..., :3].copy()
    return image


def save(figure: "Figure", folder: Path, name: str, kinds: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write a figure as a file of each kind (png, svg, pdf), the same bytes each time; return the files."""
    metadata: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    files = [folder / f"{name}.{kind}" for kind in kinds]
    for file, kind in zip(files, kinds, strict=True):
        figure.savefig(file, dpi=200, metadata=metadata[kind])
    return files
