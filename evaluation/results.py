"""The numbers of results tables: means, tails, shares and counts, each window by itself."""

import math

import pandas as pd

from gpu_cluster_gym.evaluation.metrics import EPISODE, NUMBERS, Windows
from gpu_cluster_gym.simulator.results import refuse_unfinished

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
    windows = Windows(results, gpus, cores)
    summary = pd.DataFrame({name: number.of(windows) for name, number in NUMBERS.items() if number.of})
    summary = summary.set_axis(windows.index)
    if owners is not None:
        summary = summary.join(_fairness(windows, owners))
    lacking = {name for name in summary if NUMBERS[str(name)].may_lack and summary[name].isna().all()}
    return summary[[name for name in NUMBERS if name in summary and name not in lacking]].reset_index()


def pool(summary: pd.DataFrame) -> pd.Series:
    """Return each number averaged over windows, every window counting once whatever its number of jobs.

    Seeds of one window are averaged first. So `max_jct_s` is the mean of the windows' longest, and a count is
    a count per window.
    """
    windows = summary.drop(columns="seed").groupby("window").mean()
    return windows.mean()


def _fairness(windows: Windows, owners: pd.DataFrame) -> pd.DataFrame:
    jobs = windows.results.assign(slowdown=windows.slowdown)
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
        means = owned.groupby([*EPISODE, owner])["slowdown"].mean().dropna()
        fairness[_OWNERS[owner]] = means.groupby(level=EPISODE).agg(_jain)
    return pd.DataFrame(fairness)


def _jain(values: pd.Series) -> float:
    return float(values.sum() ** 2 / (len(values) * (values**2).sum()))
