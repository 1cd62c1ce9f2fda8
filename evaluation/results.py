"""The numbers of results tables: means, tails, shares and counts, each window by itself, and a bound on them."""

import heapq
import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from simulator.results import refuse_unfinished

NUMBERS = {
    "jobs": "jobs, finished or not",
    "unfinished": "jobs unfinished when the window was cut",
    "mean_jct_s": "mean job completion time",
    "median_jct_s": "median job completion time",
    "p95_jct_s": "95th percentile of job completion time",
    "p99_jct_s": "99th percentile of job completion time",
    "max_jct_s": "longest job completion time",
    "mean_wait_s": "mean time without GPUs",
    "mean_slowdown": "mean bounded slowdown, threshold 600 s",
    "jct_over_run_time": "mean job completion time / mean run time",
    "makespan_s": "last completion minus first submission",
    "gpu_goodput_share": "GPU-seconds of kept progress / (GPUs x makespan); a GPU counts once per job on it",
    "gpu_allocated_share": "GPU-seconds held / (GPUs x makespan); a GPU counts once per job on it",
    "gpu_busy_share": "GPU-seconds busy / (GPUs x time of submissions); a GPU counts once per job on it",
    "cpu_utilisation": "core-seconds held / (cores x makespan)",
    "mean_cpu_wait_s": "mean waiting time of CPU jobs",
    "mean_gpu_wait_s": "mean waiting time of jobs with GPUs",
    "shared_gpu_hours": "GPU-hours that jobs ran beside another job",
    "preemptions": "pauses of running jobs",
    "overhead_gpu_hours": "GPU-hours held while pausing and loading",
    "oom_restarts": "restarts after running out of GPU memory",
    "resizes": "restarts to hold other GPUs",
    "failures": "restarts after a failure of a job or a node",
    "lost_gpu_hours": "GPU-hours of running whose progress was lost",
    "top5_duration_share": "share of all run time held by the longest 5 % of jobs",
    "user_fairness": "Jain's index over users of their mean slowdown; 1 is equal treatment",
    "vc_fairness": "Jain's index over virtual clusters of their mean slowdown; 1 is equal treatment",
}
"""The numbers of a summary, each by the name under which it is printed, saved and plotted."""

SLOWDOWN_THRESHOLD_S = 600.0
"""Jobs shorter than this count as this long in the slowdown."""

_EPISODE = ["window", "seed"]
_NOT_ALWAYS = ("gpu_busy_share", "cpu_utilisation", "mean_cpu_wait_s", "mean_gpu_wait_s")
_OWNERS = {"user": "user_fairness", "vc": "vc_fairness"}


def summarise(
    results: pd.DataFrame,
    *,
    gpus: int,
    cores: float = math.nan,
    owners: pd.DataFrame | None = None,
    allow_unfinished: bool = False,
) -> pd.DataFrame:
    """Return every number of a results table: one row a window and seed, then the columns of `NUMBERS`.

    gpus: the GPUs of the cluster. A GPU that k jobs share counts k times in what is held, kept and busy, so on
        shared GPUs these shares can exceed 1.
    cores: its CPU cores; not known by default, like the shares that need them.
    owners: a table with `job_id` (and `window`, if ids repeat over windows) and with `user`, `vc` or both,
        such as the job table; each gives its fairness, and without it the column is absent. Jobs whose owner
        is NaN are left out.

    Quantiles interpolate linearly. The bounded slowdown of a job is max(1, jct / max(run, 600 s)), as in
    Feitelson et al., "Theory and Practice in Parallel Job Scheduling", JSSPP 1997, with a threshold of our choice.
    `jct_over_run_time` is the mean JCT over the mean *duration* wherever nothing slows a running job. Jain's
    index of n values is sum(x)^2 / (n sum(x^2)). In a cut window (`allow_unfinished`) the JCT, its ratio to run
    time, the wait, slowdown and duration share are those of finished jobs; counts and GPU time are those of
    all. Raises `ValueError` if a job is unfinished without `allow_unfinished`. What cannot be told of any
    window, such as the wait of CPU jobs where there are none, has no column.
    """
    refuse_unfinished(results, allow_unfinished=allow_unfinished)
    jobs = _per_job(results)
    summary = _times(jobs).join(_amounts(jobs, gpus, cores))
    if owners is not None:
        summary = summary.join(_fairness(jobs, owners))
    unknown = [name for name in _NOT_ALWAYS if summary[name].isna().all()]
    names = [name for name in NUMBERS if name in summary and name not in unknown]
    return summary[names].reset_index()


def pool(summary: pd.DataFrame) -> pd.Series:
    """Return each number averaged over windows, every window counting once whatever its number of jobs.

    Seeds of one window are averaged first. So `max_jct_s` is the mean of the windows' longest, and a count is
    a count per window.
    """
    windows = summary.drop(columns="seed").groupby("window").mean()
    return windows.mean()


def lower_bound(jobs: pd.DataFrame, gpus: int) -> float:
    """Return a mean JCT in seconds that no schedule of a job table on `gpus` GPUs can beat.

    Valid while a GPU serves one job at a time and no job runs faster than its `duration_s` says: then a job
    needs its duration, and the cluster is at most one machine that does `gpus` GPU-seconds a second, on which
    shortest remaining work first is optimal (Schrage 1968). The bound is the larger of the two means.
    Placement, preemption costs, lost work and slower GPUs only make schedules worse. Not valid with GPU
    sharing, elastic jobs, or GPUs faster than the reference. CPU jobs count with their duration. Raises
    `ValueError` for a job larger than the cluster.
    """
    duration = jobs["duration_s"].to_numpy(float)
    wanted = jobs["num_gpus"].to_numpy(float)
    if (wanted > gpus).any():
        raise ValueError(f"a job asks for {wanted.max():.0f} GPUs and the cluster has {gpus}: drop it first")
    on_gpus = wanted > 0
    submit = jobs["submit_s"].to_numpy(float)[on_gpus]
    pooled = _srpt_total_jct(submit, (wanted * duration)[on_gpus] / gpus)
    ideal = duration[on_gpus].sum()
    return float((max(pooled, ideal) + duration[~on_gpus].sum()) / len(jobs))


def _per_job(results: pd.DataFrame) -> pd.DataFrame:
    """Return the results with what each job adds to the numbers; NaN where an unfinished job adds nothing."""
    finished = results["finish_s"].notna()
    held = results["run_s"] + results["overhead_s"] + results["lost_s"]
    return results.assign(
        unfinished=~finished,
        end_s=results["finish_s"].fillna(results["submit_s"] + results["wait_s"] + held),
        slowdown=(results["jct_s"] / results["run_s"].clip(lower=SLOWDOWN_THRESHOLD_S)).clip(lower=1.0),
        finished_wait_s=results["wait_s"].where(finished),
        finished_run_s=results["run_s"].where(finished),
        held_gpu_s=results["run_gpu_s"] + results["overhead_gpu_s"] + results["lost_gpu_s"],
        busy_gpu_s=results["num_gpus"] * results["busy_s"],
        shared_gpu_s=results["num_gpus"] * results["shared_s"],
        cpu_wait_s=results["wait_s"].where(finished & (results["num_gpus"] == 0)),
        gpu_wait_s=results["wait_s"].where(finished & (results["num_gpus"] > 0)),
    )


def _times(jobs: pd.DataFrame) -> pd.DataFrame:
    episodes = jobs.groupby(_EPISODE)
    jct = episodes["jct_s"]
    return pd.DataFrame(
        {
            "mean_jct_s": jct.mean(),
            "median_jct_s": jct.median(),
            "p95_jct_s": jct.quantile(0.95),
            "p99_jct_s": jct.quantile(0.99),
            "max_jct_s": jct.max(),
            "mean_wait_s": episodes["finished_wait_s"].mean(),
            "mean_slowdown": episodes["slowdown"].mean(),
            "jct_over_run_time": jct.mean() / episodes["finished_run_s"].mean(),
            "top5_duration_share": episodes["finished_run_s"].agg(_top_share),
        }
    )


def _amounts(jobs: pd.DataFrame, gpus: int, cores: float) -> pd.DataFrame:
    episodes = jobs.groupby(_EPISODE)
    first = episodes["submit_s"].min()
    makespan = episodes["end_s"].max() - first
    arriving = (episodes["submit_s"].max() - first).replace(0.0, math.nan)
    return pd.DataFrame(
        {
            "jobs": episodes["job_id"].size(),
            "unfinished": episodes["unfinished"].sum(),
            "makespan_s": makespan,
            "gpu_goodput_share": episodes["run_gpu_s"].sum() / (gpus * makespan),
            "gpu_allocated_share": episodes["held_gpu_s"].sum() / (gpus * makespan),
            "gpu_busy_share": episodes["busy_gpu_s"].sum(min_count=1) / (gpus * arriving),
            "cpu_utilisation": episodes["core_s"].sum(min_count=1) / (cores * makespan),
            "mean_cpu_wait_s": episodes["cpu_wait_s"].mean(),
            "mean_gpu_wait_s": episodes["gpu_wait_s"].mean(),
            "shared_gpu_hours": episodes["shared_gpu_s"].sum() / 3600,
            "preemptions": episodes["preemptions"].sum(),
            "overhead_gpu_hours": episodes["overhead_gpu_s"].sum() / 3600,
            "oom_restarts": episodes["oom_restarts"].sum(),
            "resizes": episodes["resizes"].sum(),
            "failures": episodes["failures"].sum(),
            "lost_gpu_hours": episodes["lost_gpu_s"].sum() / 3600,
        }
    )


def _top_share(durations: pd.Series) -> float:
    """Return the share of the sum that the largest 5 % of values hold, at least one of them."""
    ascending = np.sort(durations.dropna().to_numpy(float))
    longest = math.ceil(0.05 * len(ascending))
    return float(ascending[len(ascending) - longest :].sum() / ascending.sum()) if longest else math.nan


def _fairness(jobs: pd.DataFrame, owners: pd.DataFrame) -> pd.DataFrame:
    known = [owner for owner in _OWNERS if owner in owners]
    key = [name for name in ("window", "job_id") if name in owners]
    owned = jobs.merge(owners[key + known], on=key, how="left", validate="many_to_one", indicator=True)
    strangers = owned.loc[owned["_merge"] == "left_only", "job_id"]
    if not strangers.empty:
        raise ValueError(
            f"{len(strangers)} jobs of the results are not among the owners, e.g. {strangers.iloc[0]}"
        )
    fairness = {}
    for owner in known:
        means = owned.groupby([*_EPISODE, owner])["slowdown"].mean().dropna()
        fairness[_OWNERS[owner]] = means.groupby(level=_EPISODE).agg(_jain)
    return pd.DataFrame(fairness)


def _jain(values: pd.Series) -> float:
    return float(values.sum() ** 2 / (len(values) * (values**2).sum()))


def _srpt_total_jct(submit: NDArray[np.float64], work: NDArray[np.float64]) -> float:
    """Return the summed JCT on one machine of speed 1 that always serves the least remaining work.

    The shortest of the queue stays the shortest while it is served, so a heap of remaining work is all that
    is needed, whichever job it belongs to.
    """
    if not len(submit):
        return 0.0
    order = np.argsort(submit, kind="stable")
    arrivals = submit[order] - submit.min()
    remaining: list[float] = []
    clock = completions = 0.0
    for arrival, amount in zip(arrivals.tolist(), work[order].tolist(), strict=True):
        while remaining and clock + remaining[0] <= arrival:
            clock += heapq.heappop(remaining)
            completions += clock
        if remaining:
            heapq.heapreplace(remaining, remaining[0] - (arrival - clock))
        clock = arrival
        heapq.heappush(remaining, amount)
    for amount in sorted(remaining):
        clock += amount
        completions += clock
    return completions - float(arrivals.sum())
