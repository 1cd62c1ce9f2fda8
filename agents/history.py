"""Predictors of run times and core needs, fitted to the finished jobs of training windows.

A policy plays the windows. The estimate of each job is recorded at its submission, the rest from the view at the end:
only what a scheduler could have observed by then.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.cluster.vq import kmeans2

from gpu_cluster_gym.simulator.episode import Episode, asking, discipline_of, run
from gpu_cluster_gym.simulator.history import History, batches, nearest, profiles
from gpu_cluster_gym.simulator.kernel.cluster.readings import TARGET_BUSY_SHARE
from gpu_cluster_gym.simulator.kernel.union.estimates import MAX_CELLS, NUM_GPU_CLASSES
from gpu_cluster_gym.simulator.policy import Action, Policy, Ranking
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import Workload

PROFILE = ["log_odds_of_duty", "log_iteration", "log_memory", "log_cores_asked"]
FINE = (0.25, 0.05, 0.035)  # scales of duty, iteration and memory: about the default errors of a profile
SCALES = (
    (*FINE, 100.0),
    (*FINE, 0.1),
)  # requested cores may carry no information, or much: held-out windows select one of the two
HELD_OUT_ERRORS = ("left_out", "left_out_constant")
JOBS_A_CELL = 8  # minimum mean number of jobs per cell
MIN_ERROR, MIN_SPREAD = 0.01, 0.05
GAP_S = 60.0  # maximum gap between submissions of a batch, s, as in Philly's statistics


class Fitted(NamedTuple):
    """A history, and the figures of its quality."""

    history: History
    figures: dict[str, float]


class EstimateRecorder:
    """A policy that delegates to another, and records the first estimate of each job and whether it was reliable."""

    def __init__(self, policy: Policy, episode: Episode) -> None:
        """Prepare the policy for an episode."""
        if isinstance(policy, Ranking):
            episode.set_levels(policy.levels)
            episode.state.discipline = discipline_of(policy, episode.discipline)
        self._ask = asking(policy, episode)
        self.estimate_s = np.empty(0)
        self.predictable = np.empty(0, bool)

    def __call__(self, view: View) -> Action:
        """Record newly arrived jobs, and return the action of the other policy."""
        known = len(self.estimate_s)
        if len(view.jobs.num_gpus) > known:
            self.estimate_s = np.append(self.estimate_s, view.jobs.estimate_s[known:])
            self.predictable = np.append(self.predictable, view.jobs.is_predictable[known:])
        return self._ask()


def written_down(load: Workload, policy: Policy) -> pd.DataFrame:
    """Return what a scheduler could observe of the jobs of a workload by the end of a policy's run, one row per job."""
    episode = load.episode()
    recorder = EstimateRecorder(policy, episode)
    jobs = run(recorder, episode).view.jobs
    active_ms, idle_ms = jobs.profiled_active_ms, jobs.profiled_idle_ms
    profile = profiles(active_ms, idle_ms, jobs.profiled_memory_gib, jobs.cores_each)
    whole_s = (active_ms + idle_ms) / 1000
    known = {
        "window": load.window.number,
        "batch": batches(jobs.user, jobs.num_gpus, jobs.submit_s, whole_s, GAP_S),
        "size": [min(int(gpus).bit_length(), NUM_GPU_CLASSES - 1) for gpus in jobs.num_gpus],
        "run": np.log(np.maximum(jobs.attained_s, 1.0)),
        "first": np.log(np.maximum(recorder.estimate_s, 1.0)),
        "last": np.log(np.maximum(jobs.estimate_s, 1.0)),
        "good_at_first": recorder.predictable,
        "good_at_last": jobs.is_predictable,
        "share": np.where((jobs.num_gpus > 0) & (jobs.servers == 0), jobs.busy_share_alone, 0.0),
        "need": np.log(np.maximum(jobs.cores_when_busy, 1.0)),
    }
    return pd.DataFrame(known).assign(**dict(zip(PROFILE, profile.T, strict=True)))


def fit(rows: pd.DataFrame, fitted_on: str = "", *, cores: bool = True) -> Fitted:
    """Return the history fitted to jobs of several windows.

    rows: jobs as returned by `written_down`.
    fitted_on: name of the workload.
    cores: whether to fit core needs.
    """
    rows = rows.assign(batch=rows.groupby(["window", "batch"]).ngroup())
    errors = {
        "good_error": _rms((rows["last"] - rows["run"])[rows["good_at_last"]]),
        "bad_error": _rms((rows["first"] - rows["run"])[~rows["good_at_first"]]),
    }
    usual = max(errors.values())  # for a kind without jobs
    level = rows.groupby("size")["run"].mean().reindex(range(NUM_GPU_CLASSES)).fillna(rows["run"].mean())
    about = rows["run"] - rows["size"].map(level)
    within = _within(about, rows["batch"])
    figures: dict[str, Any] = {
        **{name: max(error or usual, MIN_ERROR) for name, error in errors.items()},
        "within": max(within, MIN_ERROR),
        "between": _remaining_std(float(about.var()), within, MIN_ERROR),
    }
    read = rows[rows["share"] > 0]
    needs = fit_cores(read) if cores and len(read["window"].unique()) > 1 else {}
    held_out: dict[str, float] = {name: needs.pop(name) for name in HELD_OUT_ERRORS if name in needs}
    history = History(**figures, **needs, level=tuple(level.round(4)), gap_s=GAP_S, fitted_on=fitted_on)
    return Fitted(history, {**figures, "jobs": len(rows), "read": len(read), **held_out})


def fit_cores(read: pd.DataFrame) -> dict[str, Any]:
    """Return the fields `cells`, `scale`, `alike` and `spread` of `History`, and the errors on held-out windows.

    left_out, left_out_constant: error of the log need on one half of the windows, predicted from the other half by
    cells, and by its mean.
    """
    half = read["window"] % 2 == read["window"].min() % 2
    errors = [_errors(read[~half], _cells(read[half], scale), scale) for scale in SCALES]
    best = int(np.argmin([_rms(each) for each in errors]))
    constant = read.loc[half, "need"].mean()
    limited = read["share"][~half] < TARGET_BUSY_SHARE
    alike = max(_within(errors[best][limited], read["batch"][~half][limited]), MIN_SPREAD)
    return {
        "scale": SCALES[best],
        "cells": tuple(tuple(row) for row in _cells(read, SCALES[best]).round(4).tolist()),
        "alike": alike,
        "spread": _remaining_std(_rms(errors[best]) ** 2, alike, MIN_SPREAD),
        "left_out": _rms(errors[best]),
        "left_out_constant": _rms(_need_errors(constant, read[~half])),
    }


def _cells(read: pd.DataFrame, scale: Sequence[float]) -> np.ndarray:
    """Return rows of centre, mean log need, and number of jobs, for clusters of jobs with similar profiles.

    A reading from a job with busy GPUs is an upper bound of its need. It counts where it is below the mean of the
    cluster's jobs without busy GPUs, or of all its jobs where there are none.
    """
    points = read[PROFILE].to_numpy() / np.array(scale)
    count = int(np.clip(len(points) // JOBS_A_CELL, 1, MAX_CELLS))
    _, cell = kmeans2(points, count, minit="++", seed=np.random.default_rng(0), missing="warn")
    rows = []
    for number in np.unique(cell):
        here = cell == number
        need, limited = read["need"].to_numpy()[here], read["share"].to_numpy()[here] < TARGET_BUSY_SHARE
        first = need[limited].mean() if limited.any() else need.mean()
        counted = need[limited | (need <= first)]
        rows.append([*points[here].mean(axis=0), counted.mean(), len(counted)])
    return np.array(rows)


def _errors(read: pd.DataFrame, cells: np.ndarray, scale: Sequence[float]) -> pd.Series:
    """Return the errors of the log needs of jobs, predicted from their nearest cells."""
    width = len(PROFILE)
    cell = nearest(read[PROFILE].to_numpy() / np.array(scale), cells[:, :width])
    return _need_errors(cells[cell, width], read)


def _need_errors(predicted: Any, read: pd.DataFrame) -> pd.Series:
    """Return the errors of predicted log needs; where GPUs were busy, only overestimates count."""
    error: pd.Series = predicted - read["need"]
    return error.where(read["share"] < TARGET_BUSY_SHARE, error.clip(lower=0))


def _within(values: pd.Series, group: pd.Series) -> float:
    """Return the pooled standard deviation within groups."""
    freedom = len(values) - group.nunique()
    apart = values - values.groupby(group).transform("mean")
    return float(np.sqrt((apart**2).sum() / freedom)) if freedom > 0 else 0.0


def _remaining_std(variance: float, component_std: float, minimum: float) -> float:
    """Return the standard deviation that is left of a variance without one component, at least `minimum`."""
    return float(np.sqrt(max(variance - component_std**2, minimum**2)))


def _rms(values: pd.Series) -> float:
    """Return the root mean square, 0 without values."""
    return float(np.sqrt((values**2).mean())) if len(values) else 0.0
