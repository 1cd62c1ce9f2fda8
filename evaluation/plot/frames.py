"""A run folder as tables: the one place where what a run has left is read for pictures."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpu_cluster_gym.evaluation.comparison import Comparison
from gpu_cluster_gym.evaluation.gantt_bars import node_of_gpus
from gpu_cluster_gym.evaluation.provenance import ABOUT
from gpu_cluster_gym.evaluation.record import SEGMENTS_FILE, TIMELINE_FILE, Record
from gpu_cluster_gym.evaluation.run_folder import CHOICES, JOBS, SUMMARY, folder_name
from gpu_cluster_gym.traces import unknown
from gpu_cluster_gym.workloads import Workload

SIZES = ("CPU only", "1 GPU", "2-4 GPUs", "5-8 GPUs", "9 or more")
"""The classes of jobs by the GPUs that they ask for."""
_LARGEST = (0, 1, 4, 8)  # GPUs of each class but the last
POINTS = ("submit_s", "start_s", "finish_s", "from_s", "to_s", "time_s")
TEXTS = ("job_id", "kind", "status", "phase", "gpus", "nodes")


@dataclass(frozen=True)
class Run:
    """What a run has left: its numbers, where they come from, and tables by policy, in the order of its table.

    Points in time are counted from the first submission of their window, whatever the log counts from.
    """

    folder: Path
    choices: dict[str, Any]
    summary: dict[str, Any]
    about: dict[str, Any]
    jobs: dict[str, pd.DataFrame]
    segments: dict[str, pd.DataFrame]
    timeline: dict[str, pd.DataFrame]

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies, in the order of the table."""
        return tuple(self.jobs)

    @property
    def reference(self) -> str:
        """The policy that the others are compared with."""
        return str(self.summary["reference"])

    @cached_property
    def windows(self) -> tuple[int, ...]:
        """The numbers of the windows."""
        return tuple(int(number) for number in self.jobs[self.policies[0]]["window"].unique())

    @property
    def node_gpus(self) -> list[int]:
        """The GPUs of each node."""
        found: list[int] = self.about["node_gpus"]
        return found

    @property
    def node_of_gpu(self) -> np.ndarray:
        """The node of each GPU, (gpus,)."""
        return node_of_gpus(self.node_gpus)

    @cached_property
    def ratios(self) -> dict[str, Comparison]:
        """Mean JCT against the reference's, by policy, with its interval; NaN where there is none."""
        rows = self.summary[f"mean_jct_s / {self.reference}'s"]
        return {name: Comparison(**_numbers(rows[name])) for name in self.policies}

    @property
    def recorded(self) -> bool:
        """Whether it was recorded who held what."""
        return bool(self.segments)

    def span_s(self, window: int) -> float:
        """Return when the last job of a window ended, under whatever policy."""
        last = (each.loc[each["window"] == window, "finish_s"].max() for each in self.jobs.values())
        return float(max(last))


def read(folder: Path, policies: Sequence[str] = ()) -> Run:
    """Return what a run has left in its folder, of some policies or of all; ValueError where there is no such."""
    summary = _json(folder / SUMMARY)
    if "mean_over_windows" not in summary:
        raise ValueError(f"{folder}: no run of policies; those of evaluate.py --policy can be drawn")
    known = list(summary["mean_over_windows"])
    if strange := [name for name in policies if name not in known]:
        raise ValueError(f"{folder}: {unknown('policy', strange[0], known)}")
    places = {name: folder / folder_name(name) for name in policies or known}
    jobs = {name: _table(place / JOBS) for name, place in places.items()}
    starts = next(iter(jobs.values())).groupby("window")["submit_s"].min()
    return Run(
        folder=folder,
        choices=_json(folder / CHOICES),
        summary=summary,
        about=_json(folder / ABOUT) if (folder / ABOUT).is_file() else {},
        jobs={name: _counted_from(starts, table) for name, table in jobs.items()},
        segments=_tables(places, SEGMENTS_FILE, starts),
        timeline=_tables(places, TIMELINE_FILE, starts),
    )


def of_records(records: Mapping[str, Record], workload: Workload) -> Run:
    """Return what was recorded of a workload by policy, as a run without a folder whose summary tells nothing."""
    jobs = {name: each.results for name, each in records.items()}
    starts = next(iter(jobs.values())).groupby("window")["submit_s"].min()
    return Run(
        folder=Path(),
        choices={"scenario": asdict(workload.scenario)},
        summary={},
        about={"node_gpus": list(workload.cluster.node_gpus)},
        jobs={name: _counted_from(starts, table) for name, table in jobs.items()},
        segments={name: _counted_from(starts, each.segments) for name, each in records.items()},
        timeline={name: _counted_from(starts, each.timeline) for name, each in records.items()},
    )


def size_classes(num_gpus: pd.Series) -> pd.Series:
    """Return the class of each job by the GPUs that it asks for, as a place in `SIZES`."""
    return pd.Series(np.searchsorted(_LARGEST, num_gpus.to_numpy()), index=num_gpus.index)


def of_window(table: pd.DataFrame, window: int) -> pd.DataFrame:
    """Return the rows of one window, numbered anew."""
    return table[table["window"] == window].reset_index(drop=True)


def _tables(places: dict[str, Path], name: str, starts: pd.Series) -> dict[str, pd.DataFrame]:
    """Return a table of each policy, or none where one lacks it."""
    files = {policy: place / name for policy, place in places.items()}
    if not all(file.is_file() for file in files.values()):
        return {}
    return {policy: _counted_from(starts, _table(file)) for policy, file in files.items()}


def _counted_from(starts: pd.Series, table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its points in time counted from the first submission of each window."""
    began = table["window"].map(starts)
    return table.assign(**{name: table[name] - began for name in POINTS if name in table})


def _table(file: Path) -> pd.DataFrame:
    try:
        columns = set(map(str, pd.read_csv(file, nrows=0)))
        # Numbers alone may lack: a job may be called NA.
        lacking: dict[str, Sequence[str]] = {name: [""] for name in columns - set(TEXTS)}
        texts = dict.fromkeys(columns & set(TEXTS), str)
        return pd.read_csv(file, dtype=texts, keep_default_na=False, na_values=lacking)
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from None


def _json(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{file}: no run folder, or one without results: {error}") from None
    return found


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the numbers that JSON lacks."""
    return {name: float("nan") if value is None else value for name, value in row.items()}
