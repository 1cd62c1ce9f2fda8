"""Who stood where on which GPU: segments as bars of a Gantt chart, and held GPUs by node and time."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

BARS = {
    "job_id": "the job's name",
    "phase": "its phase",
    "from_s": "when it began",
    "to_s": "when it ended",
    "gpu": "the first GPU",
    "num_gpus": "how many from there on, all of one node",
    "lane": "its place on them, from 0",
    "lanes": "places side by side on them: 1 where it has them alone",
}
"""The columns of what `bars` returns. Times are seconds."""


def intervals(numbers: Iterable[int]) -> str:
    """Return ascending numbers as intervals, such as 0-3 6."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def numbers_of(text: str) -> list[int]:
    """Return the numbers in a text of intervals; none of an empty one."""
    parts = (part.partition("-") for part in text.split())
    return [number for low, _, high in parts for number in range(int(low), int(high or low) + 1)]


def node_of_gpus(node_gpus: Sequence[int]) -> np.ndarray:
    """Return the node of each GPU, (gpus,), given the GPUs of each node."""
    return np.repeat(np.arange(len(node_gpus)), node_gpus)


def places(segments: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each segment of one window and each GPU of it, by (gpu, time).

    segment: its row, counted from 0. gpu. lane: the job's place on the GPU; jobs that are there at once have different
    ones. apart: whether no other is there while the segment lasts.
    """
    known = {text: numbers_of(text) for text in segments["gpus"].unique()}
    gpus = [known[text] for text in segments["gpus"]]
    segment = np.repeat(np.arange(len(gpus)), [len(each) for each in gpus])
    gpu = np.fromiter((number for each in gpus for number in each), np.int64, len(segment))
    began, ended = segments["from_s"].to_numpy()[segment], segments["to_s"].to_numpy()[segment]
    order = np.lexsort((ended, began, gpu))
    segment, gpu, began, ended = segment[order], gpu[order], began[order], ended[order]
    reach = pd.Series(ended).groupby(gpu).cummax().to_numpy()
    same = gpu[1:] == gpu[:-1]
    apart = np.ones(len(gpu), bool)
    apart[1:] &= ~(same & (began[1:] < reach[:-1]))
    apart[:-1] &= ~(same & (began[1:] < ended[:-1]))
    jobs = pd.factorize(segments["job_id"])[0][segment]
    lane = np.zeros(len(gpu), np.int64) if apart.all() else _lanes(gpu, began, ended, jobs)
    return pd.DataFrame({"segment": segment, "gpu": gpu, "lane": lane, "apart": apart})


def _lanes(gpu: np.ndarray, began: np.ndarray, ended: np.ndarray, jobs: np.ndarray) -> np.ndarray:
    """Return the lane of each row by (gpu, time): a job's own while it stays, else the first that is free."""
    found = np.zeros(len(gpu), np.int64)
    free_from: list[float] = []
    owners: list[int] = []
    here = -1
    for row, (place, start, end, job) in enumerate(
        zip(gpu.tolist(), began.tolist(), ended.tolist(), jobs.tolist(), strict=True)
    ):
        if place != here:
            here, free_from, owners = place, [], []
        free = [lane for lane, time in enumerate(free_from) if time <= start]
        own = [lane for lane in free if owners[lane] == job and free_from[lane] == start]
        lane = (own or free or [len(owners)])[0]
        if lane == len(owners):
            free_from.append(end)
            owners.append(job)
        free_from[lane], owners[lane] = end, job
        found[row] = lane
    return found


def bars(segments: pd.DataFrame, node_gpus: Sequence[int]) -> pd.DataFrame:
    """Return the bars of a Gantt chart by GPU of one window; columns: `BARS`.

    Times in which only cores changed are one bar, and so are neighbouring GPUs that a job holds alike.
    """
    held = places(segments)
    chosen = segments.iloc[held["segment"]]
    found = pd.DataFrame(
        {
            "job_id": chosen["job_id"].to_numpy(),
            "phase": chosen["phase"].astype(str).to_numpy(),
            "from_s": chosen["from_s"].to_numpy(),
            "to_s": chosen["to_s"].to_numpy(),
            "gpu": held["gpu"].to_numpy(),
            "num_gpus": 1,
            "lane": np.where(held["apart"], 0, held["lane"]),
            "lanes": np.where(held["apart"], 1, held["lane"].max() + 1) if len(held) else 1,
        }
    )
    alike = ["job_id", "phase", "lane", "lanes"]
    found = found.sort_values(["gpu", "lanes", "lane", "from_s"], kind="stable")
    goes_on = (found[["gpu", *alike]] == found[["gpu", *alike]].shift()).all(axis=1)
    goes_on &= found["from_s"] == found["to_s"].shift()
    found = found.groupby((~goes_on).cumsum().to_numpy()).agg(
        {name: "last" if name == "to_s" else "first" for name in BARS}
    )
    found["node"] = node_of_gpus(node_gpus)[found["gpu"]]
    alike += ["node", "from_s", "to_s"]
    found = found.sort_values([*alike, "gpu"], kind="stable")
    beside = (found[alike] == found[alike].shift()).all(axis=1) & (found["gpu"] == found["gpu"].shift() + 1)
    found = found.groupby((~beside).cumsum().to_numpy()).agg(
        {name: "sum" if name == "num_gpus" else "first" for name in BARS}
    )
    return found.sort_values(["from_s", "gpu"], kind="stable").reset_index(drop=True)


def binned(time_s: np.ndarray, values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the means, between edges, of what has each value from its time on until the next; 0 before the first."""
    lasted = np.diff(time_s)
    integral = np.concatenate([[0.0], np.cumsum(values[:-1] * lasted)])
    reached = np.interp(edges, time_s, integral)
    after = np.maximum(edges - time_s[-1], 0.0) * values[-1]
    return np.asarray(np.diff(reached + after) / np.diff(edges))


def held_by_row(segments: pd.DataFrame, row_of_gpu: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the share of each row's GPUs that some job holds, (rows, edges - 1); one that is shared counts once.

    row_of_gpu: (gpus,), such as the node of each.
    """
    held = places(segments)
    chosen = segments.iloc[held["segment"]]
    began, ended = chosen["from_s"].to_numpy(), chosen["to_s"].to_numpy()
    gpu = held["gpu"].to_numpy()
    if not held["apart"].all():  # what was there before counts, what comes beside it only after that has gone
        reach = pd.Series(ended).groupby(gpu).cummax().groupby(gpu).shift().fillna(-np.inf).to_numpy()
        began = np.minimum(np.maximum(began, reach), ended)
    rows = row_of_gpu[gpu]
    found = np.zeros((int(row_of_gpu.max()) + 1, len(edges) - 1))
    for row, size in enumerate(np.bincount(row_of_gpu)):
        here = rows == row
        time = np.concatenate([began[here], ended[here]])
        change = np.repeat([1.0, -1.0], here.sum())
        if len(time):
            order = np.argsort(time, kind="stable")
            found[row] = binned(time[order], np.cumsum(change[order]), edges) / size
    return found
