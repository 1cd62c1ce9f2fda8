"""Every number of a summary, declared once: what it is, how it is made, its heading in a table and when it is shown."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

EPISODE = ["window", "seed"]
SLOWDOWN_THRESHOLD_S = 600.0
"""Jobs shorter than this count as this long in the slowdown."""

Form = Literal["", "seconds", "count", "share", "ratio"]


@dataclass(frozen=True)
class Windows:
    """A results table by window and seed, and the machines that it ran on."""

    results: pd.DataFrame
    gpus: int
    cores: float

    @cached_property
    def _episodes(self) -> Any:
        return self.results[EPISODE].groupby(EPISODE)

    @cached_property
    def index(self) -> pd.MultiIndex:
        """Each window and seed, in ascending order."""
        found: pd.MultiIndex = self._episodes.size().index
        return found

    @cached_property
    def number(self) -> pd.Series:
        """The place in `index` of each job's window and seed."""
        places: pd.Series = self._episodes.ngroup()
        return places

    @cached_property
    def _grouped(self) -> Any:
        return self.results.groupby(self.number)

    def by(self, column: pd.Series) -> Any:
        """Return a column of all jobs grouped by the number of their window and seed."""
        return column.groupby(self.number)

    def __getitem__(self, name: str) -> Any:
        """Return a column of the results grouped so; what is found once of the groups serves all columns."""
        return self._grouped[name]

    @cached_property
    def finished(self) -> pd.Series:
        """Whether a job has finished."""
        return self.results["finish_s"].notna()

    def of_finished(self, name: str, where: pd.Series | bool = True) -> Any:
        """Return a column of the finished jobs, of those `where` says, grouped; NaN for others."""
        return self.by(self.results[name].where(self.finished & where))

    @cached_property
    def slowdown(self) -> pd.Series:
        """Bounded slowdown of each job: max(1, jct / max(run, 600 s))."""
        run_s = self.results["run_s"].clip(lower=SLOWDOWN_THRESHOLD_S)
        return (self.results["jct_s"] / run_s).clip(lower=1.0)

    @cached_property
    def makespan_s(self) -> pd.Series:
        """Last completion minus first submission; of an unfinished job, to where its time is booked."""
        each = self.results
        cut_s = each["submit_s"] + each["wait_s"] + (each["run_s"] + each["overhead_s"] + each["lost_s"])
        span: pd.Series = self.by(each["finish_s"].fillna(cut_s)).max() - self["submit_s"].min()
        return span

    @cached_property
    def arriving_s(self) -> pd.Series:
        """Last submission minus first; NaN where all come at once."""
        span: pd.Series = (self["submit_s"].max() - self["submit_s"].min()).replace(0.0, math.nan)
        return span

    def gpu_seconds(self, seconds: str) -> Any:
        """Return seconds of jobs times the GPUs that each asks for, grouped."""
        return self.by(self.results["num_gpus"] * self.results[seconds])

    @cached_property
    def late_s(self) -> pd.Series:
        """How long after its deadline each job completed, at least 0; NaN without a deadline, or unfinished."""
        late = (self.results["finish_s"] - self.results["deadline_s"]).clip(lower=0.0)
        return late.where(self.results["deadline_s"] > 0)

    @cached_property
    def on_gpus(self) -> pd.Series:
        """Whether a job asks for GPUs."""
        return self.results["num_gpus"] > 0


@dataclass(frozen=True)
class Number:
    """One number of a summary.

    of: makes it for each window and seed; None for those made of who owns the jobs. heading, form: in the table; empty
    for one that is only saved. shown_with: the number on which it depends whether it is shown: it must be known, and
    not 0 in every window where it counts something; empty for always. may_lack: whether it can be unknown in all
    windows, and then has no column. best: which is better, low or high; empty where neither is.
    """

    meaning: str
    of: Callable[[Windows], pd.Series] | None
    heading: str = ""
    form: Form = ""
    shown_with: str = ""
    may_lack: bool = False
    summed: bool = False
    best: Literal["", "low", "high"] = ""


def top_share(durations: pd.Series) -> float:
    """Return the share of the sum that the largest 5 % of values hold, at least one of them."""
    ascending = np.sort(durations.dropna().to_numpy(float))
    longest = math.ceil(0.05 * len(ascending))
    return float(ascending[len(ascending) - longest :].sum() / ascending.sum()) if longest else math.nan


PER_JOB = "; a GPU counts once per job on it"

NUMBERS: Mapping[str, Number] = {
    "jobs": Number("jobs, finished or not", lambda w: w["job_id"].size()),
    "unfinished": Number("jobs unfinished when the window was cut", lambda w: w.by(~w.finished).sum()),
    "mean_jct_s": Number(
        "mean job completion time", lambda w: w["jct_s"].mean(), "mean\nJCT", "seconds", best="low"
    ),
    "median_jct_s": Number("median job completion time", lambda w: w["jct_s"].median()),
    "p95_jct_s": Number(
        "95th percentile of job completion time",
        lambda w: w["jct_s"].quantile(0.95),
        "p95\nJCT",
        "seconds",
        best="low",
    ),
    "p99_jct_s": Number(
        "99th percentile of job completion time",
        lambda w: w["jct_s"].quantile(0.99),
        "p99\nJCT",
        "seconds",
        best="low",
    ),
    "max_jct_s": Number("longest job completion time", lambda w: w["jct_s"].max()),
    "jct_variance_s2": Number("variance of job completion time", lambda w: w["jct_s"].var(ddof=0)),
    "mean_wait_s": Number(
        "mean time without GPUs",
        lambda w: w.of_finished("wait_s").mean(),
        "mean\nwait",
        "seconds",
        best="low",
    ),
    "mean_idle_s": Number(
        "mean time without progress: without GPUs, pausing and loading",
        lambda w: w.of_finished("wait_s").mean() + w.of_finished("overhead_s").mean(),
    ),
    "mean_slowdown": Number(
        "mean bounded slowdown, threshold 600 s",
        lambda w: w.by(w.slowdown).mean(),
        "slow-\ndown",
        "ratio",
        best="low",
    ),
    "jct_over_run_time": Number(
        "mean job completion time / mean run time",
        lambda w: w["jct_s"].mean() / w.of_finished("run_s").mean(),
    ),
    "makespan_s": Number("last completion minus first submission", lambda w: w.makespan_s),
    "preemptions": Number(
        "pauses of running jobs", lambda w: w["preemptions"].sum(), "preemp-\ntions", "count"
    ),
    "gpu_goodput_share": Number(
        f"GPU-seconds of kept progress / (GPUs x makespan){PER_JOB}",
        lambda w: w["run_gpu_s"].sum() / (w.gpus * w.makespan_s),
        "goodput\nshare",
        "share",
        summed=True,
        best="high",
    ),
    "gpu_allocated_share": Number(
        f"GPU-seconds held / (GPUs x makespan){PER_JOB}",
        lambda w: (
            w.by(w.results["run_gpu_s"] + w.results["overhead_gpu_s"] + w.results["lost_gpu_s"]).sum()
            / (w.gpus * w.makespan_s)
        ),
        summed=True,
    ),
    "gpu_busy_share": Number(
        f"GPU-seconds busy / (GPUs x time of submissions){PER_JOB}",
        lambda w: w.gpu_seconds("busy_s").sum(min_count=1) / (w.gpus * w.arriving_s),
        "busy\nshare",
        "share",
        shown_with="mean_cpu_wait_s",
        may_lack=True,
        summed=True,
        best="high",
    ),
    "cpu_utilisation": Number(
        "core-seconds held / (cores x makespan)",
        lambda w: w["core_s"].sum(min_count=1) / (w.cores * w.makespan_s),
        may_lack=True,
    ),
    "mean_cpu_wait_s": Number(
        "mean waiting time of CPU jobs",
        lambda w: w.of_finished("wait_s", ~w.on_gpus).mean(),
        "CPU\nwait",
        "seconds",
        shown_with="mean_cpu_wait_s",
        may_lack=True,
        best="low",
    ),
    "mean_gpu_wait_s": Number(
        "mean waiting time of jobs with GPUs",
        lambda w: w.of_finished("wait_s", w.on_gpus).mean(),
        may_lack=True,
    ),
    "shared_gpu_hours": Number(
        "GPU-hours that jobs ran beside another job",
        lambda w: w["shared_gpu_s"].sum() / 3600,
        "shared\nGPU-h",
        "ratio",
        shown_with="shared_gpu_hours",
    ),
    "oom_restarts": Number(
        "restarts after running out of GPU memory",
        lambda w: w["oom_restarts"].sum(),
        "OoM",
        "count",
        shown_with="shared_gpu_hours",
        best="low",
    ),
    "resizes": Number(
        "restarts to hold other GPUs", lambda w: w["resizes"].sum(), "moves", "count", "resizes"
    ),
    "failures": Number(
        "restarts after a failure of a job or a node",
        lambda w: w["failures"].sum(),
        "fail-\nures",
        "count",
        "failures",
    ),
    "deadline_miss_share": Number(
        "share of the jobs with a deadline that completed after it",
        lambda w: w.by((w.late_s > 0).where(w.late_s.notna())).mean(),
        "missed\ndeadl.",
        "share",
        shown_with="deadline_miss_share",
        may_lack=True,
        best="low",
    ),
    "mean_tardiness_s": Number(
        "mean time by which jobs with a deadline completed after it, 0 for those in time",
        lambda w: w.by(w.late_s).mean(),
        "mean\ntardin.",
        "seconds",
        shown_with="deadline_miss_share",
        may_lack=True,
        best="low",
    ),
    "overhead_gpu_hours": Number(
        "GPU-hours held while pausing and loading", lambda w: w["overhead_gpu_s"].sum() / 3600
    ),
    "lost_gpu_hours": Number(
        "GPU-hours of running whose progress was lost", lambda w: w["lost_gpu_s"].sum() / 3600
    ),
    "top5_duration_share": Number(
        "share of all run time held by the longest 5 % of jobs",
        lambda w: w.of_finished("run_s").agg(top_share),
    ),
    "user_fairness": Number(
        "Jain's index over users of their mean slowdown; 1 is equal treatment", None, may_lack=True
    ),
    "vc_fairness": Number(
        "Jain's index over virtual clusters of their mean slowdown; 1 is equal treatment", None, may_lack=True
    ),
}
"""The numbers of a summary, each by the name under which it is printed, saved and plotted."""


def shown(summaries: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, Number]]:
    """Yield the numbers of a table of these summaries, by name, in order."""
    for name, number in NUMBERS.items():
        if number.heading and (not number.shown_with or _matters(number.shown_with, summaries)):
            yield name, number


def _matters(name: str, summaries: Mapping[str, pd.DataFrame]) -> bool:
    """Tell whether a number is known, and not 0 throughout where it counts something that need not happen."""
    known = [each[name] for each in summaries.values() if name in each]
    return bool(known) and (NUMBERS[name].may_lack or any(column.any() for column in known))
