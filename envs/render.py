"""Rendering of the cluster: as text, as an image of nodes and GPUs by job, or as that image in a window."""

import os
import sys
from colorsys import hsv_to_rgb
from functools import cache
from string import ascii_letters
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.simulator.vocabulary import OPEN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODES = ["ansi", "rgb_array", "human"]
WIDTH, HEIGHT = 640, 480
"""Size of an image, pixels."""
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND")
METADATA = {
    "render_modes": MODES
    if sys.platform in ("darwin", "win32") or any(map(os.getenv, DISPLAYS))
    else MODES[:-1],
    "render_fps": 8,
}
"""Metadata for Gymnasium; without a display, `human` is left out."""

LOADING, PAUSING = "#3a3a3a", "#d55e00"
MAX_COLOURS = 512
"""Number of different colours of jobs; beyond it they repeat."""
GOLDEN_ANGLE = 0.381966
"""Share of a turn; any number of hues in a row lie far apart."""
UNLIKE = 0.3
"""Minimum distance, in red, green and blue from 0 to 1, of a job's colour from that of pausing."""

_DPI = 100
_ACROSS = 32  # maximum number of GPUs in a row; a larger node has several rows
_QUEUE = 40  # number of queued jobs drawn
_PARTS = (1, 2, 6, 12)  # rows of a GPU's cell by max_share, so that 1 to 4 jobs divide it evenly
_STATES = {"loading": LOADING, "pausing": PAUSING, "idle": "#eeeeee", "node closed": "#c4c4c4"}
_NOTHING = "#ffffff"
_MARGINS = {
    "height_ratios": (9, 1),
    "left": 0.11,
    "right": 0.98,
    "top": 0.93,
    "bottom": 0.09,
    "hspace": 0.2,
}
_SATURATION, _VALUE = (0.55, 0.65, 0.35), (0.9, 0.8, 0.95)  # of the three levels of colours
_MOST_LINES = 64  # maximum number of rows with lines between them


def text(view: View) -> str:
    """Return the time, the number of running and queued jobs, and a line per node with the job on each GPU."""
    letters = {
        job: ascii_letters[job % len(ascii_letters)] for job in view.gpus.first_owner.tolist() if job >= 0
    }
    letters[-1] = "."
    rows = [f"{view.now:12.0f} s  {len(view.running)} running, {len(view.queue)} queued"]
    for node in range(len(view.nodes.num_gpus)):
        gpus = view.gpus.first_owner[view.gpus.node == node].tolist()
        rows.append(
            f"node {node:3d}  {''.join(letters[job] for job in gpus)}  {view.nodes.free_cores[node]:.0f} cores free"
        )
    return "\n".join(rows)


class Screen:
    """Renderer of an environment in one mode; matplotlib is loaded at the first image.

    is_live: whether the environment renders after every step.
    """

    def __init__(self, mode: str | None) -> None:
        """Store a mode of `MODES`, or None for no rendering; ValueError for any other."""
        if mode is not None and mode not in MODES:
            raise ValueError(f"render_mode {mode!r}: expected one of {', '.join(MODES)}")
        self.mode, self.is_live = mode, mode == "human"
        self._picture: Picture | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the picture, which is created again."""
        return vars(self) | {"_picture": None}

    def draw(self, view: View) -> str | np.ndarray | None:
        """Return the text or the image, uint8 (HEIGHT, WIDTH, 3); with `human`, draw it in the window and return None.

        ValueError with `human` if there is no display.
        """
        match self.mode:
            case None:
                return None
            case "ansi":
                return text(view)
        if self._picture is None:
            if self.is_live:
                _refuse_without_display()
            self._picture = Picture(shows=self.is_live)
        image = self._picture.image(view)
        return None if self.is_live else image

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._picture is not None:
            self._picture.close()
        self._picture = None


class Picture:
    """Figure of the cluster: a row of squares per node, the clock above, the queue below.

    A GPU has the colour of its job, or the colours of the jobs that share it.
    """

    def __init__(self, *, shows: bool) -> None:
        """Create the figure, in a window if `shows`."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        self._figure = _figure(shows=shows)
        self._shows = shows
        self._canvas: Any = self._figure.canvas if shows else FigureCanvasAgg(self._figure)

    def image(self, view: View) -> np.ndarray:
        """Draw the cluster and return the image; empty if drawn in a window."""
        from matplotlib.patches import Patch

        self._figure.clear()
        above, below = self._figure.subplots(2, 1, gridspec_kw=_MARGINS)
        cells = _cells(view)
        above.imshow(cells, aspect="auto", interpolation="nearest", extent=(0, cells.shape[1], len(cells), 0))
        _lines(above, view, cells.shape)
        above.set_title(
            f"{clock(view.now)}   jobs running: {len(view.running)}, in the queue: {len(view.queue)}",
            loc="left",
        )
        below.imshow(_queue(view), aspect="auto", interpolation="nearest")
        below.set_title(f"Queue, the first {_QUEUE}", loc="left", fontsize=9)
        below.set_xticks(np.arange(_QUEUE + 1) - 0.5, [])
        below.grid(visible=True, color=_NOTHING, linewidth=1.5)
        for axes in (above, below):
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
        below.set_yticks([])
        patches = [Patch(color=colour, label=name) for name, colour in _STATES.items()]
        patches = [Patch(color=_colour(0), label="running, one colour per job"), *patches]
        self._figure.legend(
            handles=patches, loc="lower left", ncols=5, fontsize=8, frameon=False, handlelength=1
        )
        return self._shown()

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._shows:
            from matplotlib import pyplot

            pyplot.close(self._figure)

    def _shown(self) -> np.ndarray:
        if self._shows:
            from matplotlib import pyplot

            self._canvas.draw_idle()
            pyplot.pause(0.001)
            return np.empty((0, 0, 3), np.uint8)
        self._canvas.draw()
        return np.asarray(self._canvas.buffer_rgba())[..., :3].copy()


def clock(seconds: float) -> str:
    """Return a time as day, hours, minutes and seconds."""
    days, rest = divmod(int(seconds), 86_400)
    return f"day {days}  {rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def _figure(*, shows: bool) -> "Figure":
    from matplotlib.figure import Figure

    size = {"figsize": (WIDTH / _DPI, HEIGHT / _DPI), "dpi": _DPI}
    if shows:
        from matplotlib import pyplot

        figure = pyplot.figure(**size)  # type: ignore[arg-type]
        figure.show()
    else:
        figure = Figure(**size)  # type: ignore[arg-type]
    return figure


@cache
def job_colours() -> list[str]:
    """Return `MAX_COLOURS` colours of jobs as hexadecimal text, neighbours differing most.

    Hues are a golden angle apart, at three levels that show on light and dark; colours like that of pausing are left
    out.
    """
    hues = [(number * GOLDEN_ANGLE + 0.6) % 1 for number in range(2 * MAX_COLOURS)]
    drawn = np.array([hsv_to_rgb(hue, _SATURATION[at % 3], _VALUE[at % 3]) for at, hue in enumerate(hues)])
    unlike = np.linalg.norm(drawn - _rgb([PAUSING]) / 255, axis=1) > UNLIKE
    rounded = (255 * drawn[unlike][:MAX_COLOURS]).round().astype(np.uint8)
    return [f"#{bytes(each).hex()}" for each in rounded]


def _colour(job: int) -> str:
    """Return the colour of a job, the same in all images of a window."""
    return job_colours()[job % MAX_COLOURS]


def _rgb(colours: list[str]) -> np.ndarray:
    """Return colours such as #56b4e9 as uint8 of shape (colours, 3)."""
    return np.array([tuple(bytes.fromhex(colour[1:])) for colour in colours], np.uint8).reshape(-1, 3)


def _cells(view: View) -> np.ndarray:
    """Return the colours of all GPUs, (rows x parts, GPUs in a row, 3)."""
    rows, columns = _places(view)
    parts = _PARTS[view.max_share - 1]
    cells = np.tile(_rgb([_NOTHING]), ((int(rows.max()) + 1) * parts, int(columns.max()) + 1, 1))
    phase = dict.fromkeys(view.loading.tolist(), "loading") | dict.fromkeys(view.pausing.tolist(), "pausing")
    closed = (view.nodes.closed != OPEN)[view.gpus.node]
    for gpu, jobs in enumerate(view.gpus.jobs.tolist()):
        here = [job for job in jobs if job >= 0]
        empty = "node closed" if closed[gpu] else "idle"
        colours = [_STATES[phase[job]] if job in phase else _colour(job) for job in here] or [_STATES[empty]]
        top = rows[gpu] * parts
        cells[top : top + parts, columns[gpu]] = np.repeat(_rgb(colours), parts // len(colours), axis=0)
    return cells


def _places(view: View) -> tuple[np.ndarray, np.ndarray]:
    """Return the row and the column of each GPU."""
    sizes = view.nodes.num_gpus
    across = min(int(sizes.max()), _ACROSS)
    high = -(-sizes // across)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])[view.gpus.node]
    within = np.arange(len(view.gpus.node)) - first
    top = np.concatenate([[0], np.cumsum(high)[:-1]])[view.gpus.node]
    return top + within // across, within % across


def _lines(axes: Any, view: View, shape: tuple[int, ...]) -> None:
    """Draw lines between GPUs, unless there are too many, and label up to 16 nodes."""
    parts = _PARTS[view.max_share - 1]
    rows, _ = _places(view)
    tops = np.array([rows[view.gpus.node == node].min() for node in np.unique(view.gpus.node)]) * parts
    if shape[0] // parts <= _MOST_LINES:
        width = min(2.0, 40 * parts / shape[0])
        axes.hlines(np.arange(0, shape[0], parts), 0, shape[1], color=_NOTHING, linewidth=width)
        axes.vlines(np.arange(shape[1]), 0, shape[0], color=_NOTHING, linewidth=width)
    every = -(-len(tops) // 16)
    names = np.unique(view.gpus.node)[::every]
    axes.set_yticks(tops[::every] + parts / 2, [f"node {node}" for node in names])
    axes.set_xticks([])


def _queue(view: View) -> np.ndarray:
    """Return the colours of the first jobs in the queue, (1, _QUEUE, 3)."""
    colours = [_colour(job) for job in view.queue[:_QUEUE].tolist()]
    return _rgb(colours + [_NOTHING] * (_QUEUE - len(colours)))[np.newaxis]


def _refuse_without_display() -> None:
    """Raise ValueError if matplotlib has no GUI backend."""
    import matplotlib as mpl
    from matplotlib.backends.registry import BackendFilter, backend_registry

    backend, registry = mpl.get_backend(), cast("Any", backend_registry)
    if backend.lower() not in registry.list_builtin(BackendFilter.INTERACTIVE):
        raise ValueError(
            f"render_mode 'human': matplotlib has no GUI backend here (it uses {backend}); use render_mode='rgb_array' "
            "with a notebook or RecordVideo, or run with a display and a GUI toolkit such as Tk"
        )
