"""Figure of a log: GPUs held over time, and distributions of widths, run times and waits."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gpu_cluster_gym.evaluation.plot.style import BLUE, GREY, IN_PRINT, RED, log_time_axis, style, time_axis

if TYPE_CHECKING:
    from gpu_cluster_gym.evaluation.describe import Load

SHORTEST_S = 1.0
"""Run times and waits below count as this on logarithmic axes."""


def draw(jobs: pd.DataFrame, load: "Load", file: Path) -> Path:
    """Draw a job table and its load over time; return the file. ValueError for an unknown type of file."""
    from matplotlib import pyplot as plt

    on_gpus = jobs[jobs["num_gpus"] > 0]
    with style(IN_PRINT):
        figure, axes = plt.subplots(2, 2, figsize=(7.0, 4.2), layout="constrained")
        over_time, widths, times, tenants = axes.flat
        begin_s = np.append(load.begin_s - load.begin_s[0], len(load.begin_s) * load.step_s)
        over_time.step(
            begin_s,
            np.append(load.peak, load.peak[-1]),
            where="post",
            color=GREY,
            linewidth=0.8,
            label="peak",
        )
        over_time.step(begin_s, np.append(load.mean, load.mean[-1]), where="post", color=BLUE, label="mean")
        time_axis(over_time, float(load.begin_s[-1] - load.begin_s[0]) + load.step_s)
        over_time.set_title("GPUs held")
        over_time.legend(frameon=False)
        gpus, count = np.unique(on_gpus["num_gpus"], return_counts=True)
        widths.bar([str(each) for each in gpus[:12]], 100 * count[:12] / count.sum(), color=BLUE)
        widths.set_title("Jobs by GPUs, %")
        _cumulative(times, on_gpus["duration_s"].to_numpy(), BLUE, "run time")
        if "logged_start_s" in on_gpus:
            _cumulative(times, (on_gpus["logged_start_s"] - on_gpus["submit_s"]).to_numpy(), RED, "wait")
        log_time_axis(times)
        times.set_title("Jobs with at most this run time or wait, %")
        times.legend(frameon=False)
        _owners(tenants, on_gpus)
        try:
            figure.savefig(file, dpi=200)
        except (ValueError, OSError) as error:
            raise ValueError(f"--plot {file}: {error}") from None
        finally:
            plt.close(figure)
    return file


def _cumulative(axes: object, seconds: np.ndarray, colour: str, label: str) -> None:
    """Draw a cumulative distribution."""
    ordered = np.sort(np.maximum(seconds, SHORTEST_S))
    share = 100 * np.arange(1, len(ordered) + 1) / len(ordered)
    axes.step(ordered, share, where="post", color=colour, label=label)  # type: ignore[attr-defined]


def _owners(axes: object, jobs: pd.DataFrame) -> None:
    """Draw the share of GPU time of the largest tenants, or users."""
    name = next((column for column in ("tenant", "user") if column in jobs), None)
    gpu_s = jobs["num_gpus"] * jobs["duration_s"]
    by_owner = gpu_s.groupby(jobs[name] if name else pd.Series("all", index=jobs.index)).sum()
    largest = (100 * by_owner / gpu_s.sum()).sort_values(ascending=False).head(8)[::-1]
    axes.barh([str(each)[:16] for each in largest.index], largest, color=BLUE)  # type: ignore[attr-defined]
    axes.set_title(f"GPU time by {name or 'tenant'}, %")  # type: ignore[attr-defined]
