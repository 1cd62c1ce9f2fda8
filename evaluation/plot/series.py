"""What pictures show, as numbers: the same for figures in print and for the page."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from gpu_cluster_gym.evaluation import gantt_bars
from gpu_cluster_gym.evaluation.plot.frames import SIZES, Run, of_window, size_classes

POINTS = 300
"""Of a curve, at most; between two of them lie as many jobs each."""
BINS = 240
"""Times over which the totals of a window are averaged, for one picture."""
MOST_BARS, MOST_GPUS = 8_000, 256
"""Of one Gantt chart; beyond, bars are narrower or lower than what a screen shows."""
ROWS, COLUMNS = 64, 400
"""Of a picture of shares instead, at most."""


class Shares(NamedTuple):
    """The shares of GPUs that are held, (rows, columns), where bars could not be told apart; what a row is."""

    shares: np.ndarray
    row: str


def cdf(jobs: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return job completion times, ascending, and the shares of jobs that took at most so long."""
    ascending = np.sort(jobs["jct_s"].dropna().to_numpy(float))
    places = np.unique(np.linspace(0, len(ascending) - 1, POINTS).round().astype(int))
    return ascending[places], (places + 1) / len(ascending)


def by_size(run: Run) -> pd.DataFrame:
    """Return the mean JCT and the number of jobs by policy and class of size: policy, size, mean_jct_s, jobs."""
    parts = []
    for policy, jobs in run.jobs.items():
        each = jobs.groupby(size_classes(jobs["num_gpus"]))["jct_s"].agg(["mean", "size"])
        found = pd.DataFrame(
            {
                "policy": policy,
                "size": [SIZES[place] for place in each.index],
                "mean_jct_s": each["mean"].to_numpy(),
                "jobs": each["size"].to_numpy(),
            }
        )
        parts.append(found)
    return pd.concat(parts, ignore_index=True)


def over_time(run: Run, policy: str, window: int, edges: np.ndarray) -> pd.DataFrame:
    """Return the means between edges of the GPUs held and busy, the jobs in the queue and the memory taken, GiB."""
    totals = of_window(run.timeline[policy], window)
    time_s = totals["time_s"].to_numpy()
    columns = ("held_gpus", "busy_gpus", "queued", "memory_gib")
    means = {name: gantt_bars.binned(time_s, totals[name].to_numpy(float), edges) for name in columns}
    return pd.DataFrame({"from_s": edges[:-1], **means})


def edges(run: Run, window: int, bins: int) -> np.ndarray:
    """Return the edges of so many equal times of a window, from 0 to the end of its last job."""
    return np.linspace(0.0, run.span_s(window), bins + 1)


def gantt(run: Run, policy: str, window: int, *, most: int = MOST_BARS) -> "pd.DataFrame | Shares":
    """Return the bars of a Gantt chart by GPU, or shares by row and time where there would be too many to see."""
    segments = of_window(run.segments[policy], window)
    if len(run.node_of_gpu) > MOST_GPUS or (segments["num_gpus"] > 0).sum() > 2 * most:
        return shares(run, segments, window)
    found = gantt_bars.bars(segments, run.node_gpus)
    return found if len(found) <= most else shares(run, segments, window)


def gantts(run: Run, window: int, *, most: int = MOST_BARS) -> "dict[str, pd.DataFrame | Shares]":
    """Return what `gantt` does by policy, bars of all or shares of all."""
    found = {policy: gantt(run, policy, window, most=most) for policy in run.policies}
    if not any(isinstance(each, Shares) for each in found.values()):
        return found
    return {policy: shares(run, of_window(run.segments[policy], window), window) for policy in found}


def shares(run: Run, segments: pd.DataFrame, window: int) -> Shares:
    """Return the share of GPUs held by GPU, node or group of nodes, whichever are few enough rows."""
    nodes, gpus = len(run.node_gpus), len(run.node_of_gpu)
    if gpus <= ROWS:
        rows, row = np.arange(gpus), "GPU"
    else:
        group = -(-nodes // ROWS)
        rows, row = run.node_of_gpu // group, "node" if group == 1 else f"group of {group} nodes"
    return Shares(gantt_bars.held_by_row(segments, rows, edges(run, window, COLUMNS)), row)
