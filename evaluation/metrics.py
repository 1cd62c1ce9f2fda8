"""Metrics of a policy, each declared once, and `summarise`, which computes them all from a results table."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from gpu_cluster_gym.simulator.results import refuse_unfinished

EPISODE = ["window", "seed"]
"""Columns that identify an episode in a results table."""
SLOWDOWN_THRESHOLD_S = 10.0
"""Minimum run time in the bounded slowdown, as in Feitelson et al., JSSPP 1997."""

Form = Literal["", "seconds", "count", "share", "ratio"]


@dataclass(frozen=True)
class Windows:
    """A results table grouped by window and seed.

    gpus, cores: number of GPUs and CPU cores of the cluster.
    """

    results: pd.DataFrame
    gpus: int
    cores: float

    @cached_property
    def _episodes(self) -> Any:
        return self.results[EPISODE].groupby(EPISODE)

    @cached_property
    def index(self) -> pd.MultiIndex:
        """Windows and seeds, in ascending order."""
        found: pd.MultiIndex = self._episodes.size().index
        return found

    @cached_property
    def number(self) -> pd.Series:
        """Position in `index` of each job's window and seed."""
        places: pd.Series = self._episodes.ngroup()
        return places

    @cached_property
    def _grouped(self) -> Any:
        return self.results.groupby(self.number)

    def by(self, column: pd.Series) -> Any:
        """Return a column with a value per job, grouped by window and seed."""
        return column.groupby(self.number)

    def __getitem__(self, name: str) -> Any:
        """Return a column of the results, grouped by window and seed; all columns share one grouping."""
        return self._grouped[name]

    @cached_property
    def finished(self) -> pd.Series:
        """Whether a job has finished."""
        return self.results["finish_s"].notna()

    def of_finished(self, name: str, where: pd.Series | bool = True) -> Any:
        """Return a column grouped by window and seed, NaN for unfinished jobs and those not selected by `where`."""
        return self.by(self.results[name].where(self.finished & where))

    @cached_property
    def slowdown(self) -> pd.Series:
        """Bounded slowdown of each job: max(1, jct / max(run, 10 s)), with the run time under this policy."""
        run_s = self.results["run_s"].clip(lower=SLOWDOWN_THRESHOLD_S)
        return (self.results["jct_s"] / run_s).clip(lower=1.0)

    @cached_property
    def finish_time_fairness(self) -> pd.Series:
        """JCT of each finished GPU job / its JCT with an equal share of the GPUs, see `equal_share_jct_s`."""
        columns = [
            self.results[name].to_numpy(float) for name in ("submit_s", "finish_s", "run_s", "num_gpus")
        ]
        judged, windows = (self.on_gpus & self.finished).to_numpy(), self.number.to_numpy()
        shared_s = np.full(len(windows), math.nan)
        for window in np.unique(windows[judged]):
            jobs = judged & (windows == window)
            shared_s[jobs] = equal_share_jct_s(*(column[jobs] for column in columns), gpus=self.gpus)
        ratio: pd.Series = self.results["jct_s"] / shared_s
        return ratio

    @cached_property
    def makespan_s(self) -> pd.Series:
        """Last completion minus first submission."""
        each = self.results
        # an unfinished job ends where its recorded time ends, which is when the window was cut
        cut_s = each["submit_s"] + each["wait_s"] + (each["run_s"] + each["overhead_s"] + each["lost_s"])
        span: pd.Series = self.by(each["finish_s"].fillna(cut_s)).max() - self["submit_s"].min()
        return span

    @cached_property
    def arriving_s(self) -> pd.Series:
        """Last submission minus first; NaN if all jobs are submitted at once."""
        span: pd.Series = (self["submit_s"].max() - self["submit_s"].min()).replace(0.0, math.nan)
        return span

    def gpu_seconds(self, seconds: str) -> Any:
        """Return a column of seconds times each job's requested GPUs, grouped by window and seed."""
        return self.by(self.results["num_gpus"] * self.results[seconds])

    @cached_property
    def late_s(self) -> pd.Series:
        """Tardiness of each job, 0 if it met its deadline; NaN without a deadline or if unfinished."""
        late = (self.results["finish_s"] - self.results["deadline_s"]).clip(lower=0.0)
        return late.where(self.results["deadline_s"] > 0)

    @cached_property
    def on_gpus(self) -> pd.Series:
        """Whether a job requests GPUs."""
        return self.results["num_gpus"] > 0


@dataclass(frozen=True)
class Metric:
    """One metric of a summary.

    meaning: definition, as printed in the documentation.
    of: function that computes it for each window and seed; None for fairness, which needs the owners of jobs.
    heading, form: column heading and number format in the table; empty for a metric that is only saved.
    narrow: whether the metric is in the table without `--wide`.
    shown_with: metric that must be known and, if it is a count, not 0 throughout for this one to be in the table;
        empty for a metric that is always in the table.
    may_lack: whether the metric can be undefined in all windows, in which case the summary has no such column.
    summed: whether a GPU counts once for each co-located job.
    best: which direction is better; empty for neither.
    """

    meaning: str
    of: Callable[[Windows], pd.Series] | None
    heading: str = ""
    form: Form = ""
    shown_with: str = ""
    may_lack: bool = False
    summed: bool = False
    best: Literal["", "low", "high"] = ""
    narrow: bool = False


def equal_share_jct_s(
    submit_s: np.ndarray, finish_s: np.ndarray, run_s: np.ndarray, num_gpus: np.ndarray, *, gpus: int
) -> np.ndarray:
    """Return the JCT of each job of a window if it had an equal share of the GPUs: float64 (jobs,).

    The share is GPUs / number of jobs present, at each moment under the policy that is judged. A job that requests more
    runs proportionally slower, for the run time that it had. JCT / this is finish-time fairness: Mahajan et al.,
    "Themis", NSDI 2020; their share is of the average number of jobs.
    """
    times = np.unique(np.concatenate([submit_s, finish_s]))
    arrived, ended = (np.searchsorted(np.sort(each), times, "right") for each in (submit_s, finish_s))
    present = np.maximum((arrived - ended)[:-1], 1)
    found = np.empty(len(submit_s))
    for size in np.unique(num_gpus):
        speed = np.minimum(1.0, gpus / (size * present))
        done = np.concatenate([[0.0], np.cumsum(speed * np.diff(times))])
        these = num_gpus == size
        goal = np.interp(submit_s[these], times, done) + run_s[these]
        late = np.maximum(goal - done[-1], 0.0)  # after the last job of this policy the cluster is empty
        found[these] = np.interp(goal, done, times) + late - submit_s[these]
    return found


def top_share(durations: pd.Series) -> float:
    """Return the share of the sum in the largest 5 % of values, rounded up to a whole number of values."""
    ascending = np.sort(durations.dropna().to_numpy(float))
    longest = math.ceil(0.05 * len(ascending))
    return float(ascending[len(ascending) - longest :].sum() / ascending.sum()) if longest else math.nan


PER_JOB = "; a GPU counts once for each co-located job"
JAIN = "Jain's index of the {}' mean slowdowns"

METRICS: Mapping[str, Metric] = {
    "jobs": Metric("jobs, finished or not", lambda w: w["job_id"].size()),
    "unfinished": Metric("jobs unfinished when the window was cut", lambda w: w.by(~w.finished).sum()),
    "mean_jct_s": Metric(
        "mean job completion time",
        lambda w: w["jct_s"].mean(),
        "mean\nJCT",
        "seconds",
        best="low",
        narrow=True,
    ),
    "median_jct_s": Metric("median job completion time", lambda w: w["jct_s"].median()),
    "p95_jct_s": Metric(
        "95th percentile of job completion time",
        lambda w: w["jct_s"].quantile(0.95),
        "p95\nJCT",
        "seconds",
        best="low",
    ),
    "p99_jct_s": Metric(
        "99th percentile of job completion time",
        lambda w: w["jct_s"].quantile(0.99),
        "p99\nJCT",
        "seconds",
        best="low",
    ),
    "max_jct_s": Metric("longest job completion time", lambda w: w["jct_s"].max()),
    "jct_variance_s2": Metric("variance of job completion time", lambda w: w["jct_s"].var(ddof=0)),
    "mean_wait_s": Metric(
        "mean time without GPUs",
        lambda w: w.of_finished("wait_s").mean(),
        "mean\nwait",
        "seconds",
        best="low",
        narrow=True,
    ),
    "max_wait_s": Metric(
        "longest time without GPUs",
        lambda w: w.of_finished("wait_s").max(),
        "longest\nwait",
        "seconds",
        best="low",
        narrow=True,
    ),
    "mean_idle_s": Metric(
        "mean time without progress: without GPUs, pausing and loading",
        lambda w: w.of_finished("wait_s").mean() + w.of_finished("overhead_s").mean(),
    ),
    "mean_slowdown": Metric(
        f"mean bounded slowdown, threshold {SLOWDOWN_THRESHOLD_S:g} s",
        lambda w: w.by(w.slowdown).mean(),
        "mean\nslowdown",
        "ratio",
        best="low",
        narrow=True,
    ),
    "p99_slowdown": Metric(
        f"99th percentile of bounded slowdown, threshold {SLOWDOWN_THRESHOLD_S:g} s",
        lambda w: w.by(w.slowdown).quantile(0.99),
        "p99 slow-\ndown",
        "ratio",
        best="low",
    ),
    "max_finish_time_fairness": Metric(
        "largest finish-time fairness of GPU jobs: JCT / JCT with an equal share of the GPUs",
        lambda w: w.by(w.finish_time_fairness).max(),
        "worst\nFTF",
        "ratio",
        shown_with="max_finish_time_fairness",
        may_lack=True,
        best="low",
    ),
    "unfair_share": Metric(
        "share of GPU jobs with a finish-time fairness above 1",
        lambda w: w.by((w.finish_time_fairness > 1).where(w.finish_time_fairness.notna())).mean(),
        "FTF\n> 1",
        "share",
        shown_with="max_finish_time_fairness",
        may_lack=True,
        best="low",
    ),
    "jct_over_run_time": Metric(
        "mean job completion time / mean run time",
        lambda w: w["jct_s"].mean() / w.of_finished("run_s").mean(),
    ),
    "makespan_s": Metric("last completion minus first submission", lambda w: w.makespan_s),
    "preemptions": Metric(
        "number of preemptions", lambda w: w["preemptions"].sum(), "preemp-\ntions", "count"
    ),
    "gpu_goodput_share": Metric(
        f"GPU-seconds of work that was not lost / (GPUs x makespan){PER_JOB}",
        lambda w: w["run_gpu_s"].sum() / (w.gpus * w.makespan_s),
        "goodput\nshare",
        "share",
        summed=True,
        best="high",
    ),
    "gpu_allocated_share": Metric(
        f"allocated GPU-seconds / (GPUs x makespan){PER_JOB}",
        lambda w: (
            w.by(w.results["run_gpu_s"] + w.results["overhead_gpu_s"] + w.results["lost_gpu_s"]).sum()
            / (w.gpus * w.makespan_s)
        ),
        summed=True,
    ),
    "gpu_busy_share": Metric(
        f"busy GPU-seconds / (GPUs x time from first to last submission){PER_JOB}",
        lambda w: w.gpu_seconds("busy_s").sum(min_count=1) / (w.gpus * w.arriving_s),
        "busy\nshare",
        "share",
        shown_with="mean_cpu_wait_s",
        may_lack=True,
        summed=True,
        best="high",
    ),
    "cpu_utilisation": Metric(
        "allocated core-seconds / (cores x makespan)",
        lambda w: w["core_s"].sum(min_count=1) / (w.cores * w.makespan_s),
        may_lack=True,
    ),
    "mean_cpu_wait_s": Metric(
        "mean waiting time of CPU jobs",
        lambda w: w.of_finished("wait_s", ~w.on_gpus).mean(),
        "CPU\nwait",
        "seconds",
        shown_with="mean_cpu_wait_s",
        may_lack=True,
        best="low",
    ),
    "mean_gpu_wait_s": Metric(
        "mean waiting time of GPU jobs",
        lambda w: w.of_finished("wait_s", w.on_gpus).mean(),
        may_lack=True,
    ),
    "shared_gpu_hours": Metric(
        "GPU-hours of jobs on GPUs shared with another job",
        lambda w: w["shared_gpu_s"].sum() / 3600,
        "shared\nGPU-h",
        "ratio",
        shown_with="shared_gpu_hours",
    ),
    "oom_restarts": Metric(
        "restarts after running out of GPU memory",
        lambda w: w["oom_restarts"].sum(),
        "out of\nmemory",
        "count",
        shown_with="shared_gpu_hours",
        best="low",
    ),
    "resizes": Metric(
        "restarts on other GPUs: migrations and changes of size",
        lambda w: w["resizes"].sum(),
        "moves",
        "count",
        "resizes",
    ),
    "failures": Metric(
        "restarts after a failure of a job or a node",
        lambda w: w["failures"].sum(),
        "fail-\nures",
        "count",
        "failures",
    ),
    "deadline_miss_share": Metric(
        "share of jobs with a deadline that missed it",
        lambda w: w.by((w.late_s > 0).where(w.late_s.notna())).mean(),
        "missed\ndeadl.",
        "share",
        shown_with="deadline_miss_share",
        may_lack=True,
        best="low",
        narrow=True,
    ),
    "mean_tardiness_s": Metric(
        "mean tardiness of jobs with a deadline, 0 for those that met it",
        lambda w: w.by(w.late_s).mean(),
        "mean\ntardin.",
        "seconds",
        shown_with="deadline_miss_share",
        may_lack=True,
        best="low",
    ),
    "overhead_gpu_hours": Metric(
        "GPU-hours spent pausing and loading", lambda w: w["overhead_gpu_s"].sum() / 3600
    ),
    "lost_gpu_hours": Metric("GPU-hours of lost work", lambda w: w["lost_gpu_s"].sum() / 3600),
    "top5_duration_share": Metric(
        "share of all run time in the longest 5 % of jobs",
        lambda w: w.of_finished("run_s").agg(top_share),
    ),
    "user_fairness": Metric(
        f"{JAIN.format('users')}; 1 is perfectly fair",
        None,
        "Jain,\nusers",
        "ratio",
        "user_fairness",
        True,
        best="high",
    ),
    "vc_fairness": Metric(
        f"{JAIN.format('virtual clusters')}; 1 is perfectly fair",
        None,
        "Jain,\nVCs",
        "ratio",
        "vc_fairness",
        True,
        best="high",
    ),
    "tenant_fairness": Metric(
        f"{JAIN.format('tenants')}; 1 is perfectly fair",
        None,
        "Jain,\ntenants",
        "ratio",
        "tenant_fairness",
        True,
        best="high",
    ),
}
"""All metrics by name: their columns in a summary and keys in JSON files."""


def in_table(summaries: Mapping[str, pd.DataFrame], *, wide: bool) -> Iterator[tuple[str, Metric]]:
    """Yield name and metric of each column in the wide or narrow table of these summaries, in order."""
    for name, number in METRICS.items():
        if (
            number.heading
            and (wide or number.narrow)
            and (not number.shown_with or _matters(number.shown_with, summaries))
        ):
            yield name, number


def _matters(name: str, summaries: Mapping[str, pd.DataFrame]) -> bool:
    """Return whether a metric is known and, unless it may be undefined, differs from 0 somewhere."""
    known = [each[name] for each in summaries.values() if name in each]
    return bool(known) and (METRICS[name].may_lack or any(column.any() for column in known))


OWNERS = {"user": "user_fairness", "vc": "vc_fairness", "tenant": "tenant_fairness"}
"""Fairness metric by owner column."""


def summarise(
    results: pd.DataFrame,
    *,
    gpus: int,
    cores: float = math.nan,
    owners: pd.DataFrame | None = None,
    allow_unfinished: bool = False,
) -> pd.DataFrame:
    """Return all metrics of a results table: one row per window and seed, with those two columns and `METRICS`.

    results: one row per job, as `simulator.results` declares it.
    gpus: number of GPUs of the cluster. A GPU shared by k jobs counts k times in the GPU shares, which can then
        exceed 1.
    cores: number of its CPU cores; without it, core utilisation is undefined.
    owners: table with `job_id` (and `window`, if ids repeat over windows) and some of `OWNERS`, such as the job table;
        each gives a fairness metric. Jobs with a NaN owner are left out.
    allow_unfinished: whether jobs may be unfinished. JCT, its ratio to run time, wait, slowdown and duration share
        are then those of finished jobs; counts and GPU time are those of all.

    Quantiles interpolate linearly. The bounded slowdown of a job is max(1, jct / max(run, 10 s)), as in
    Feitelson et al., "Theory and Practice in Parallel Job Scheduling", JSSPP 1997.
    `jct_over_run_time` is the mean JCT over the mean *duration* if nothing slows a running job. Jain's index of n
    values is sum(x)^2 / (n sum(x^2)). A metric that is undefined in all windows, such as the wait of CPU jobs without
    such jobs, has no column. ValueError if a job is unfinished without `allow_unfinished`.
    """
    refuse_unfinished(results, allow_unfinished=allow_unfinished)
    windows = Windows(results, gpus, cores)
    summary = pd.DataFrame({name: metric.of(windows) for name, metric in METRICS.items() if metric.of})
    summary = summary.set_axis(windows.index)
    if owners is not None:
        summary = summary.join(_fairness(windows, owners))
    lacking = {name for name in summary if METRICS[str(name)].may_lack and summary[name].isna().all()}
    return summary[[name for name in METRICS if name in summary and name not in lacking]].reset_index()


def pool(summary: pd.DataFrame) -> pd.Series:
    """Return each metric averaged over windows with equal weight, whatever their number of jobs.

    Seeds of a window are averaged first. So `max_jct_s` is the mean of the windows' maxima, and a count is a count per
    window.
    """
    windows = summary.drop(columns="seed").groupby("window").mean()
    return windows.mean()


def late_work(results: pd.DataFrame, last_arrival_s: float) -> tuple[float, int]:
    """Return an upper bound of the share of GPU time after the last arrival, and the number of jobs that end after it.

    A job that is paused after the last arrival may run less than that.
    """
    late_s = (results["finish_s"] - last_arrival_s).clip(lower=0.0)
    gpu_s = results["num_gpus"] * results["run_s"]
    late = (results["num_gpus"] * np.minimum(late_s, results["run_s"])).sum()
    return float(late / gpu_s.sum()), int((late_s > 0).sum())


def _fairness(windows: Windows, owners: pd.DataFrame) -> pd.DataFrame:
    """Return Jain's index of the owners' mean slowdowns for each window and seed, a column per kind of owner."""
    jobs = windows.results.assign(slowdown=windows.slowdown)
    known = [owner for owner in OWNERS if owner in owners]
    key = [name for name in ("window", "job_id") if name in owners]
    owned = jobs.merge(owners[key + known], on=key, how="left", validate="many_to_one", indicator=True)
    strangers = owned.loc[owned["_merge"] == "left_only", "job_id"]
    if not strangers.empty:
        raise ValueError(
            f"{len(strangers)} jobs of the results are missing from the owners' table (the first is "
            f"{strangers.iloc[0]}): pass the owners of the same jobs"
        )
    fairness = {}
    for owner in known:
        means = owned.groupby([*EPISODE, owner])["slowdown"].mean().dropna()
        fairness[OWNERS[owner]] = means.groupby(level=EPISODE).agg(jain)
    return pd.DataFrame(fairness)


def jain(values: pd.Series) -> float:
    """Return Jain's index of some values: 1 if all are equal, 1 / n if all but one are 0."""
    return float(values.sum() ** 2 / (len(values) * (values**2).sum()))
