"""Tables of a run folder, and the curves, bars and shares computed from them for figures and the HTML report."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gpu_cluster_gym.evaluation.comparison import Comparison
from gpu_cluster_gym.evaluation.provenance import PROVENANCE
from gpu_cluster_gym.evaluation.record import (
    COMPARED_FILE,
    DECISIONS_FILE,
    SEGMENTS_FILE,
    TIMELINE_FILE,
    Record,
    allocated_by_row,
    gantt_bars,
    node_of_gpus,
    time_means,
)
from gpu_cluster_gym.evaluation.run_folder import CHOICES, JOBS, OWNERS, RECORDED, SUMMARY, folder_name
from gpu_cluster_gym.traces import unknown
from gpu_cluster_gym.workloads import Workload

SIZES = ("CPU only", "1 GPU", "2-4 GPUs", "5-8 GPUs", "9 or more")
"""Size classes of jobs by requested GPUs."""
_MAX_GPUS = (0, 1, 4, 8)  # of each class except the last
TIME_COLUMNS = ("submit_s", "start_s", "finish_s", "from_s", "to_s", "time_s")
"""Columns that are points in time, of any table."""
TEXT_COLUMNS = (
    "job_id",
    "kind",
    "status",
    "phase",
    "gpus",
    "nodes",
    "action",
    "rule",
    "keys",
    "role",
    "name",
    "user",
    "vc",
    "tenant",
)
"""Columns that are text, of any table."""
MAX_CURVE_POINTS = 300
"""Points of a curve, each the same number of jobs apart."""
TIMELINE_BINS = 240
"""Time bins over which the totals of a window are averaged for a picture."""
MAX_BARS, MAX_GPUS = 8_000, 256
"""Bars and GPUs of one Gantt chart; beyond, bars are too narrow or too thin for a screen."""
SHARE_ROWS, SHARE_BINS = 64, 400
"""Maximum rows, and time bins, of the shares shown in place of such a chart."""


@dataclass(frozen=True)
class Run:
    """Content of a run folder, with tables by policy in the order of the comparison table.

    choices, summary, provenance: the JSON files. jobs: results, a row per job. segments, timeline: of
    `evaluation.record`, without the schedule of the log, empty if the run was not recorded; decisions, compared:
    likewise, of the policies that give reasons.
    owners: user, virtual cluster and tenant of each job, as far as the trace has them; None if it has none.
    cut_s: part of each window to which segments and timeline are cut, see `between`; None for whole windows.
    Points in time count from the first submission of their window, or from the begin of that part.
    """

    folder: Path
    choices: dict[str, Any]
    summary: dict[str, Any]
    provenance: dict[str, Any]
    jobs: dict[str, pd.DataFrame]
    segments: dict[str, pd.DataFrame]
    timeline: dict[str, pd.DataFrame]
    decisions: dict[str, pd.DataFrame] = field(default_factory=dict)
    compared: dict[str, pd.DataFrame] = field(default_factory=dict)
    owners: pd.DataFrame | None = None
    cut_s: tuple[float, float] | None = None

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies, in the order of the comparison table."""
        return tuple(self.jobs)

    @property
    def reference(self) -> str:
        """Policy with which the others are compared."""
        return str(self.summary["reference"])

    @cached_property
    def windows(self) -> tuple[int, ...]:
        """Numbers of the windows."""
        return tuple(int(number) for number in self.jobs[self.policies[0]]["window"].unique())

    @cached_property
    def job_ids(self) -> pd.Index:
        """Jobs: those with results, then those that only hold GPUs, as around the scored jobs of a steady window."""
        scored = self.jobs[self.policies[0]]["job_id"]
        others = (table["job_id"] for table in self.segments.values())
        found: pd.Index = pd.Index(list(dict.fromkeys(pd.concat([scored, *others]))))
        return found

    @property
    def node_gpus(self) -> list[int]:
        """Number of GPUs of each node."""
        counts: list[int] = self.provenance["node_gpus"]
        return counts

    @property
    def node_of_gpu(self) -> np.ndarray:
        """Node of each GPU, shape (gpus,)."""
        return node_of_gpus(self.node_gpus)

    @cached_property
    def ratios(self) -> dict[str, Comparison]:
        """Mean JCT over the reference's, by policy, with its interval; the limits are NaN where they are unknown."""
        rows: dict[str, dict[str, Any]] = {  # JSON has null for NaN
            name: {key: math.nan if value is None else value for key, value in row.items()}
            for name, row in self.summary["mean_jct_ratio"].items()
        }
        return {name: Comparison(**rows[name]) for name in self.policies}

    @property
    def has_intervals(self) -> bool:
        """Whether ratios have intervals: over windows, or over blocks of time of a full trace."""
        return not all(math.isnan(each.low) for each in self.ratios.values())

    @property
    def recorded(self) -> bool:
        """Whether segments and timelines were recorded."""
        return bool(self.segments)

    def span_s(self, window: int) -> float:
        """Return the time at which the last job of a window finished under any policy, or at which the part ends."""
        if self.cut_s:
            return self.cut_s[1] - self.cut_s[0]
        last = (each.loc[each["window"] == window, "finish_s"].max() for each in self.jobs.values())
        return float(max(last))


def read(
    folder: Path, policies: Sequence[str] = (), *, columns: Mapping[str, list[str]] | None = None
) -> Run:
    """Return the content of a run folder.

    policies: those to read, all by default. columns: those to read by file of `evaluation.record`, all by default.
    ValueError if the folder is not a run of `evaluate.py --policy`, or lacks a policy, or if an older version recorded
    other columns.
    """
    summary = _json(folder / SUMMARY)
    if "mean_over_windows" not in summary:
        raise ValueError(
            f"{folder} is not a run of policies: pass the folder of a run of evaluate.py --policy"
        )
    known = list(summary["mean_over_windows"])
    if missing := [name for name in policies if name not in known]:
        raise ValueError(f"{folder}: {unknown('policy', missing[0], known)}")
    places = {name: folder / folder_name(name) for name in policies or known}
    jobs = {name: _table(place / JOBS) for name, place in places.items()}
    starts = next(iter(jobs.values())).groupby("window")["submit_s"].min()
    columns = columns or {}
    if COMPARED_FILE in columns:
        for place in places.values():
            if (place / DECISIONS_FILE).is_file() and not (place / COMPARED_FILE).is_file():
                raise ValueError(_older(place / DECISIONS_FILE, f"without {COMPARED_FILE}"))
    return Run(
        folder=folder,
        choices=_json(folder / CHOICES),
        summary=summary,
        provenance=_json(folder / PROVENANCE) if (folder / PROVENANCE).is_file() else {},
        jobs={name: _from_window_start(table, starts) for name, table in jobs.items()},
        segments=_tables(places, SEGMENTS_FILE, starts, columns),
        timeline=_tables(places, TIMELINE_FILE, starts, columns),
        decisions=_reasons(places, DECISIONS_FILE, starts, columns),
        compared=_reasons(places, COMPARED_FILE, starts, columns),
        owners=_table(folder / OWNERS) if (folder / OWNERS).is_file() else None,
    )


def renamed(run: Run, names: Mapping[str, str]) -> Run:
    """Return a run whose policies have other names; ValueError for an unknown policy or a name used twice."""
    known = list(run.policies)
    if missing := [name for name in names if name not in known]:
        raise ValueError(f"{run.folder}: {unknown('policy', missing[0], known)}")
    new = [names.get(name, name) for name in known]
    if len(set(new)) < len(new):
        raise ValueError(f"--name: expected a different name for each policy, not {', '.join(new)}")

    def keyed(content: Mapping[str, Any]) -> dict[str, Any]:
        return {names.get(name, name): each for name, each in content.items()}

    by_policy = ("gap_closed", "mean_over_windows", "mean_jct_ratio", "by_window")
    summary = run.summary | {part: keyed(run.summary[part]) for part in by_policy if part in run.summary}
    return replace(
        run,
        summary=summary | {"reference": names.get(run.reference, run.reference)},
        jobs=keyed(run.jobs),
        segments=keyed(run.segments),
        timeline=keyed(run.timeline),
        decisions=keyed(run.decisions),
        compared=keyed(run.compared),
    )


def between(run: Run, begin_s: float, end_s: float) -> Run:
    """Return a run whose segments and timeline are cut to a part of each window; ValueError for an empty part.

    begin_s, end_s: s from the first submission of the window. Jobs and metrics stay those of the whole window.
    """
    if not end_s > begin_s:
        raise ValueError(f"--hours {begin_s / 3600:g} {end_s / 3600:g}: expected an end after the begin")

    def cut(table: pd.DataFrame) -> pd.DataFrame:
        inside = table[(table["to_s"] > begin_s) & (table["from_s"] < end_s)]
        ends = {name: inside[name].clip(begin_s, end_s) - begin_s for name in ("from_s", "to_s")}
        return inside.assign(**ends).reset_index(drop=True)

    def cut_totals(table: pd.DataFrame) -> pd.DataFrame:
        # the last row before the part holds at its begin
        later = table.groupby("window")["time_s"].shift(-1).fillna(np.inf)
        inside = table[(later > begin_s) & (table["time_s"] < end_s)]
        return inside.assign(time_s=inside["time_s"].clip(lower=begin_s) - begin_s).reset_index(drop=True)

    return replace(
        run,
        segments={name: cut(table) for name, table in run.segments.items()},
        timeline={name: cut_totals(table) for name, table in run.timeline.items()},
        cut_s=(begin_s, end_s),
    )


def from_records(records: Mapping[str, Record], workload: Workload) -> Run:
    """Return the records of a workload by policy as a run without a folder and with an empty summary."""
    jobs = {name: each.results for name, each in records.items()}
    starts = next(iter(jobs.values())).groupby("window")["submit_s"].min()
    return Run(
        folder=Path(),
        choices={"scenario": asdict(workload.scenario)},
        summary={},
        provenance={"node_gpus": list(workload.cluster.node_gpus)},
        jobs={name: _from_window_start(table, starts) for name, table in jobs.items()},
        segments={name: _from_window_start(each.segments, starts) for name, each in records.items()},
        timeline={name: _from_window_start(each.timeline, starts) for name, each in records.items()},
    )


def size_classes(num_gpus: pd.Series) -> pd.Series:
    """Return the size class of each job, as an index of `SIZES`, given its requested GPUs."""
    return pd.Series(np.searchsorted(_MAX_GPUS, num_gpus.to_numpy()), index=num_gpus.index)


def window_rows(table: pd.DataFrame, window: int) -> pd.DataFrame:
    """Return the rows of one window, with a new index."""
    return table[table["window"] == window].reset_index(drop=True)


def _tables(
    places: dict[str, Path], name: str, starts: pd.Series, columns: Mapping[str, list[str]]
) -> dict[str, pd.DataFrame]:
    """Return the table of each simulated policy, or none if one lacks it; a log's own schedule has no such table."""
    files = {policy: place / name for policy, place in places.items() if policy != RECORDED}
    if not all(file.is_file() for file in files.values()):
        return {}
    return {
        policy: _from_window_start(_table(file, columns.get(name)), starts) for policy, file in files.items()
    }


def _reasons(
    places: dict[str, Path], name: str, starts: pd.Series, columns: Mapping[str, list[str]]
) -> dict[str, pd.DataFrame]:
    """Return the table of each policy that gives reasons."""
    return {
        policy: _from_window_start(_table(place / name, columns.get(name)), starts)
        for policy, place in places.items()
        if (place / name).is_file()
    }


def _from_window_start(table: pd.DataFrame, starts: pd.Series) -> pd.DataFrame:
    """Return a table with its points in time relative to the first submission of their window."""
    start = table["window"].map(starts)
    return table.assign(**{name: table[name] - start for name in TIME_COLUMNS if name in table})


def _table(file: Path, columns: list[str] | None = None) -> pd.DataFrame:
    """Return a CSV table, or these columns of it; only numbers can be missing, so that a job may be named NA."""
    try:
        known = [*map(str, pd.read_csv(file, nrows=0))]
        if lacking := [name for name in columns or () if name not in known]:
            raise ValueError(_older(file, f"without the columns {', '.join(lacking)}"))
        read = set(columns or known)
        missing: dict[str, Sequence[str]] = {name: [""] for name in read - set(TEXT_COLUMNS)}
        texts = dict.fromkeys(read & set(TEXT_COLUMNS), str)
        return pd.read_csv(file, usecols=columns, dtype=texts, keep_default_na=False, na_values=missing)
    except OSError as error:
        raise ValueError(f"cannot read {file}: {error.strerror}") from None


def _older(file: Path, how: str) -> str:
    """Return the reason for which the record of a policy cannot be read, and what to do."""
    folder = file.parent.parent
    return (
        f"{folder}: an older version recorded {file.parent.name}/{file.name} {how}; repeat the run with "
        f"--again {folder}"
    )


def _json(file: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"{file.parent} is not a run folder with results: cannot read {file.name}: {reason}"
        ) from None
    return content


class Shares(NamedTuple):
    """Shares of GPUs that are allocated, shape (rows, time bins), and what a row is, such as "node"."""

    shares: np.ndarray
    row: str


def cdf(seconds: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return ascending times of jobs, such as their JCT, and for each the share of jobs with at most that time."""
    ascending = np.sort(seconds.dropna().to_numpy(float))
    places = np.unique(np.linspace(0, len(ascending) - 1, MAX_CURVE_POINTS).round().astype(int))
    return ascending[places], (places + 1) / len(ascending)


def jct_by_size(run: Run) -> pd.DataFrame:
    """Return the mean JCT by policy and size class; columns policy, size, mean_jct_s and jobs."""
    parts = []
    for policy, jobs in run.jobs.items():
        each = jobs.groupby(size_classes(jobs["num_gpus"]))["jct_s"].agg(["mean", "size"])
        part = pd.DataFrame(
            {
                "policy": policy,
                "size": [SIZES[place] for place in each.index],
                "mean_jct_s": each["mean"].to_numpy(),
                "jobs": each["size"].to_numpy(),
            }
        )
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def timeline_means(run: Run, policy: str, window: int, edges: np.ndarray) -> pd.DataFrame:
    """Return means between edges: GPUs allocated and busy, queued jobs, and allocated GPU memory, GiB."""
    totals = window_rows(run.timeline[policy], window)
    time_s = totals["time_s"].to_numpy()
    columns = ("held_gpus", "busy_gpus", "queued", "memory_gib")
    means = {name: time_means(time_s, totals[name].to_numpy(float), edges) for name in columns}
    return pd.DataFrame({"from_s": edges[:-1], **means})


def held_share(run: Run, policy: str) -> float:
    """Return the share of the cluster's GPUs that any job holds, mean over windows; NaN where all jobs come at once.

    From the first to the last submission of the scored jobs, those around them included; a shared GPU counts once.
    """
    shares = []
    for window in run.windows:
        totals = window_rows(run.timeline[policy], window)
        edges = np.array([0.0, window_rows(run.jobs[policy], window)["submit_s"].max()])
        if edges[1] > 0:
            held = time_means(totals["time_s"].to_numpy(), totals["held_gpus"].to_numpy(float), edges)
            shares.append(held[0] / len(run.node_of_gpu))
    return float(np.mean(shares)) if shares else math.nan


def time_edges(run: Run, window: int, bins: int) -> np.ndarray:
    """Return the edges of equal time bins from the first submission of a window to the finish of its last job."""
    return np.linspace(0.0, run.span_s(window), bins + 1)


def gantt(run: Run, policy: str, window: int, *, max_bars: int = MAX_BARS) -> "pd.DataFrame | Shares":
    """Return the bars of a Gantt chart by GPU, or shares by row and time if there are too many bars or GPUs."""
    segments = window_rows(run.segments[policy], window)
    if len(run.node_of_gpu) > MAX_GPUS or (segments["num_gpus"] > 0).sum() > 2 * max_bars:
        return shares(run, segments, window)
    bars = gantt_bars(segments, run.node_gpus)
    return bars if len(bars) <= max_bars else shares(run, segments, window)


def gantts(run: Run, window: int, *, max_bars: int = MAX_BARS) -> "dict[str, pd.DataFrame | Shares]":
    """Return `gantt` of each policy: bars for all, or shares for all if some policy has too many bars."""
    charts = {policy: gantt(run, policy, window, max_bars=max_bars) for policy in run.segments}
    if not any(isinstance(each, Shares) for each in charts.values()):
        return charts
    return {policy: shares(run, window_rows(run.segments[policy], window), window) for policy in charts}


def shares(run: Run, segments: pd.DataFrame, window: int) -> Shares:
    """Return the share of GPUs allocated by GPU, node or group of nodes, whichever first gives few enough rows."""
    nodes, gpus = len(run.node_gpus), len(run.node_of_gpu)
    if gpus <= SHARE_ROWS:
        rows, row = np.arange(gpus), "GPU"
    else:
        group = -(-nodes // SHARE_ROWS)
        rows, row = run.node_of_gpu // group, "node" if group == 1 else f"group of {group} nodes"
    return Shares(allocated_by_row(segments, rows, time_edges(run, window, SHARE_BINS)), row)
