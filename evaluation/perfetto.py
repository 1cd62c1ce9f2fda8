"""An episode as a trace that the Perfetto UI (ui.perfetto.dev) and chrome://tracing open.

The format is the JSON of Chrome's Trace Event Format: `X` is a slice with a beginning and a length, `C` a counter, `M`
a name; times are microseconds, here of simulated time. A node is a process and a place on a GPU is a thread: a GPU that
several jobs share has a thread for each of them, since slices of a thread may not overlap. No thread has the
number of a process: the Perfetto UI would take it for the main one and put it first.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from gpu_cluster_gym.evaluation.gantt_bars import node_of_gpus, places

MICROSECONDS = 1_000_000
COUNTERS = {
    "jobs": ("queued", "reserved", "restarting"),
    "GPUs": ("running_gpus", "idle_gpus"),
    "GPUs held": ("held_gpus",),
    "GPUs busy": ("busy_gpus",),
    "memory, GiB": ("memory_gib",),
    "cores": ("cores",),
}
"""The tracks of totals over time, with the columns of `timeline.csv` that each shows."""
CLUSTER = 0  # process of the totals; nodes are counted from 1


def text(segments: pd.DataFrame, timeline: pd.DataFrame, node_gpus: Sequence[int]) -> str:
    """Return one window's segments and totals as the text of a trace, an event a line."""
    lines = ",\n".join(
        json.dumps(event, separators=(",", ":")) for event in events(segments, timeline, node_gpus)
    )
    return f'{{"displayTimeUnit":"ms","traceEvents":[\n{lines}\n]}}\n'


def events(
    segments: pd.DataFrame, timeline: pd.DataFrame, node_gpus: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Yield the events of one window: names, slices by GPU, and counters."""
    node_of = node_of_gpus(node_gpus)
    first = np.concatenate([[0], np.cumsum(node_gpus)])
    held = places(segments)
    most = int(held["lane"].max()) + 1 if len(held) else 1

    def thread(gpu: int, lane: int) -> int:
        return len(node_gpus) + 1 + gpu * most + lane

    yield named("process_name", CLUSTER, 0, "cluster")
    for node in range(len(node_gpus)):
        yield named("process_name", node + 1, 0, f"node {node}")
        yield {
            "ph": "M",
            "name": "process_sort_index",
            "pid": node + 1,
            "tid": 0,
            "args": {"sort_index": node},
        }
    for gpu, lane in sorted({*zip(held["gpu"].tolist(), held["lane"].tolist(), strict=True)}):
        node = int(node_of[gpu])
        beside = f", place {lane + 1}" if lane else ""
        yield named("thread_name", node + 1, thread(gpu, lane), f"GPU {gpu - first[node]}{beside}")
    yield from slices(segments, held, node_of, thread)
    yield from counters(timeline)


def named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    """Return the event that names a process or a thread."""
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def slices(
    segments: pd.DataFrame, held: pd.DataFrame, node_of: np.ndarray, thread: Callable[[int, int], int]
) -> Iterator[dict[str, Any]]:
    """Yield a slice for each segment and GPU; thread: the number of that of a GPU and a place on it."""
    columns = ["job_id", "phase", "from_s", "to_s", "num_gpus", "cores", "shared"]
    rows = segments[columns].astype({"phase": str, "job_id": str}).to_dict("records")
    for row, gpu, lane in zip(
        held["segment"].tolist(), held["gpu"].tolist(), held["lane"].tolist(), strict=True
    ):
        each = rows[row]
        began = round(each["from_s"] * MICROSECONDS)
        running = each["phase"] == "running"
        yield {
            "ph": "X",
            "name": each["job_id"] if running else f"{each['job_id']} {each['phase']}",
            "cat": each["phase"],
            "pid": int(node_of[gpu]) + 1,
            "tid": thread(gpu, lane),
            "ts": began,
            "dur": round(each["to_s"] * MICROSECONDS) - began,
            "args": {name: each[name] for name in ("job_id", "num_gpus", "cores", "shared")},
        }


def counters(timeline: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the value of each counter at each time."""
    for row in timeline.to_dict("records"):
        at = {"ph": "C", "pid": CLUSTER, "tid": 0, "ts": round(row["time_s"] * MICROSECONDS)}
        for name, columns in COUNTERS.items():
            yield {**at, "name": name, "args": {column: row[column] for column in columns}}
