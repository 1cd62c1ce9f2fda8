"""Evaluate predictions from finished jobs: `python -m benchmarks.history [--workload NAME ...] [--write]`.

It prints errors on validation windows, which are not used for fitting: of the remaining run time, by user estimates and
by predictions (root mean square of log(prediction / truth), at several shares of the run), and of the CPU cores needed
per GPU, as requested, as first guessed by CODA's tuner, and as predicted. The truth is read for evaluation only. It
also prints the mean JCT of policies that order jobs by estimates and by predictions, on the same windows.

--write fits the files of `workloads/run_time_predictors` on training windows, which a policy plays, and prints their
statistics. The estimate of each job is recorded at its submission, the rest from the view at the end: only what a
scheduler could have observed by then.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich import box
from rich.table import Table
from scipy.cluster.vq import kmeans2

from gpu_cluster_gym import baselines
from gpu_cluster_gym.baselines.fixed_cores import cores_for_each
from gpu_cluster_gym.evaluation.table import MAX_WIDTH, console
from gpu_cluster_gym.simulator.episode import Episode, asking, run, set_up
from gpu_cluster_gym.simulator.history import History, batches, nearest, profiles
from gpu_cluster_gym.simulator.kernel.cluster.readings import TARGET_BUSY_SHARE
from gpu_cluster_gym.simulator.kernel.union.estimates import MAX_CELLS, NUM_GPU_CLASSES
from gpu_cluster_gym.simulator.policy import Action, Policy, Ranking, Start, Wait
from gpu_cluster_gym.simulator.priority_rounds import PriorityRounds, Requests, requests_by
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.simulator.search import queued_or_running
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import Scenario, Workload, named, windows

PREDICTORS = Path(__file__).parent.parent / "workloads" / "run_time_predictors"
WORKLOADS = {
    "mixed": named("mixed"),
    "busy": named("busy"),
    "philly_backlog": named("philly_backlog"),
    "coda_mix": named("coda_mix"),
}
TRAINING = {"mixed": 64, "busy": 32, "philly_backlog": 32, "coda_mix": 3}  # windows
VALIDATION = {"mixed": 20, "busy": 12, "philly_backlog": 8, "coda_mix": 2}
RECORDING_POLICY = "coda"  # it tunes cores and never shares GPUs, which gives the most readings
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)  # of the run time
START = Rule().first_guess
AMPLE_CORES = 1e9
ROUNDING = 1e-6  # cores
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


class Recorder:
    """Policy that delegates to another one and records predictions and truth at several shares of each run."""

    def __init__(self, policy: Policy, episode: Episode) -> None:
        """Start without records."""
        self._ask, self._jobs = asking(policy, episode), episode.jobs
        self._records: list[pd.DataFrame] = []
        self._next = np.zeros(len(episode.jobs), int)  # share at which a job is recorded next
        self._instant = -1

    def __call__(self, view: View) -> Action:
        """Record the jobs that have arrived, and return the other policy's action."""
        if view.instant != self._instant:
            self._instant = view.instant
            self._record(view)
        return self._ask()

    def _record(self, view: View) -> None:
        attained_s = view.jobs.attained_s
        jobs = self._jobs[: len(attained_s)]
        done = attained_s / jobs["duration_s"]
        marks = np.array([*SHARES, np.inf])
        due = np.flatnonzero((done >= marks[self._next[: len(done)]]) & (done < 1))
        if not len(due):
            return
        at = np.searchsorted(SHARES, done[due], side="right") - 1
        self._next[due] = at + 1
        record = {
            "job": due,
            "share": np.array(SHARES)[at],
            "good": view.jobs.is_predictable[due],
            "left": (jobs["duration_s"] - attained_s)[due],
            "estimated": view.jobs.remaining_s[due],
            "expected": view.jobs.expected_remaining_s[due],
            "gpus": jobs["num_gpus"][due],
            "need": needed(jobs[due]),
            "requested": view.jobs.cores_each[due],
            "first guess": np.full(len(due), START),
            "expected cores": view.jobs.expected_cores[due],
        }
        self._records.append(pd.DataFrame(record))

    @property
    def records(self) -> pd.DataFrame:
        """Predictions and truth, a row per job and share."""
        return pd.concat(self._records, ignore_index=True)


def needed(jobs: np.ndarray) -> np.ndarray:
    """Return the minimum number of cores with which GPUs are busy for TARGET_BUSY_SHARE of the time, at least one."""
    exchange_s = jobs["ideal_iteration_s"] - jobs["gpu_s"]
    within_s = np.maximum((jobs["gpu_s"] + exchange_s) / TARGET_BUSY_SHARE - exchange_s, 1 / AMPLE_CORES)
    cores: np.ndarray = np.maximum(jobs["input_core_s"] / within_s, 1.0)
    return cores


def in_rounds(seconds: Callable[[View], np.ndarray]) -> Policy:
    """Return the preemptive policy that runs the jobs with the least remaining time, in rounds."""

    def requests(view: View) -> Requests:
        here = queued_or_running(view)
        return requests_by(here, view.jobs.num_gpus[here], seconds(view)[here])

    return PriorityRounds(requests)


def shortest(seconds: Callable[[View], np.ndarray], cores: Callable[[View], np.ndarray] | None) -> Policy:
    """Return the policy that starts the shortest job that fits.

    seconds: run time of each job. cores: cores per GPU of each job, rounded up and at most a GPU's share of its node;
    None for the requested ones.
    """

    def policy(view: View) -> Action:
        queue, wanted = view.queue, None if cores is None else np.ceil(cores(view) - ROUNDING)
        for job in queue[np.argsort(seconds(view)[queue], kind="stable")].tolist():
            asked = wanted is None or view.jobs.is_cpu_job[job]
            each = None if wanted is None or asked else cores_for_each(view, float(wanted[job]))
            if not view.just_paused(job) and (placement := view.place(job, each)):
                return Start(job, placement)
        return Wait()

    return policy


USES: dict[str, Callable[[], Policy]] = {
    "least remaining, in rounds: estimated": lambda: in_rounds(lambda view: view.jobs.remaining_s),
    "least remaining, in rounds: expected": lambda: in_rounds(lambda view: view.jobs.expected_remaining_s),
    "shortest: estimated, requested cores": lambda: shortest(lambda view: view.jobs.estimate_s, None),
    "shortest: expected, requested cores": lambda: shortest(lambda view: view.jobs.expected_s, None),
    "shortest: expected, expected cores": lambda: shortest(
        lambda view: view.jobs.expected_s, lambda view: view.jobs.expected_cores
    ),
}


def recorded(loads: Sequence[Workload]) -> pd.DataFrame:
    """Return predictions and truth for the jobs of workloads under SRTF."""
    found = []
    for load in loads:
        episode = load.episode()
        recorder = Recorder(Ranking("remaining", "by_order"), episode)
        run(recorder, episode)
        found.append(recorder.records)
    return pd.concat(found, ignore_index=True)


def mean_jct(load: Workload, make: Callable[[], Policy]) -> float:
    """Return the mean JCT (s) of a policy on a workload."""
    state = run(make(), load.episode()).state
    return float((state.finish_s[: len(load.jobs)] - load.jobs["submit_s"]).mean())


def log_rms(predicted: pd.Series, truth: pd.Series) -> float:
    """Return the root mean square of log(prediction / truth)."""
    return rms(np.log(predicted / truth))


def times(records: pd.DataFrame) -> Table:
    """Return the errors of the remaining run time."""
    shown = headed("remaining run time: share done", "jobs", "estimated", "expected", "expected / estimated")
    by_class = [
        ("predictable" if good else "not predictable", rows) for good, rows in records.groupby("good")
    ]
    for name, rows in [*records.groupby("share"), *by_class]:
        before, after = log_rms(rows["estimated"], rows["left"]), log_rms(rows["expected"], rows["left"])
        shown.add_row(str(name), f"{len(rows):,}", f"{before:.3f}", f"{after:.3f}", f"{after / before:.3f}")
    return shown


def cores(records: pd.DataFrame) -> Table:
    """Return the errors of the needed cores: before a job has run, and after 30 % of its run."""
    shown = headed("cores needed", "jobs", "rms of log", "median error", "rms error, cores", "too few")
    for share in (0.0, 0.3):
        rows = records[(records["share"] == share) & (records["gpus"] > 0)]
        for name in ("requested", "first guess", "expected cores"):
            error = rows[name] - rows["need"]
            cells = log_rms(rows[name], rows["need"]), error.abs().median(), math.sqrt((error**2).mean())
            few = (np.ceil(rows[name] - 1e-6) < rows["need"]).mean()
            shown.add_row(
                f"{name}, {share:.0%} done",
                f"{len(rows):,}",
                *(f"{cell:.3f}" for cell in cells),
                f"{few:.1%}",
            )
    return shown


def is_exact(scenario: Scenario) -> bool:
    """Return whether estimates are exact, so that run times need no prediction."""
    return "estimates" not in scenario.parts


def uses(loads: Sequence[Workload]) -> Table:
    """Return the mean JCT of SRTF and of policies that use predictions (only of cores if estimates are exact)."""
    shown = headed("policy", "mean JCT, s", "/ SRTF", "standard error")
    exact = is_exact(loads[0].scenario)
    used = {name: make for name, make in USES.items() if not exact or name.startswith("shortest: expected")}
    makers: dict[str, Callable[[], Policy]] = {"srtf": lambda: Ranking("remaining", "by_order"), **used}
    found = pd.DataFrame({name: [mean_jct(load, make) for load in loads] for name, make in makers.items()})
    for name in found:
        ratio = found[name] / found["srtf"]
        error = ratio.std() / math.sqrt(len(ratio)) if len(ratio) > 1 else math.nan
        shown.add_row(str(name), f"{found[name].mean():,.0f}", f"{ratio.mean():.4f}", f"{error:.4f}")
    return shown


def headed(*headings: str) -> Table:
    """Return an empty table whose first column is left-aligned."""
    shown = Table(box=box.HORIZONTALS, padding=(0, 1, 0, 0), show_edge=False)
    for number, heading in enumerate(headings):
        shown.add_column(heading, justify="right" if number else "left", no_wrap=True)
    return shown


def write(name: str, scenario: Scenario, count: int) -> pd.Series:
    """Fit on training windows and write the file; return the statistics of the fit."""
    loads = windows(scenario, "train", count)
    rows = pd.concat([written_down(load, baselines.make(baselines.load(RECORDING_POLICY))) for load in loads])
    source = (
        f"{count} training windows of {name}, physics {scenario.physics_name}, played by {RECORDING_POLICY}"
    )
    fitted = fit(rows, source, cores="cores" in scenario.parts)
    fitted.history.write(PREDICTORS / f"{name}.json")
    return pd.Series(fitted.figures)


class Fitted(NamedTuple):
    """A history, and the figures of its quality."""

    history: History
    figures: dict[str, float]


class EstimateRecorder:
    """A policy that delegates to another, and records the first estimate of each job and whether it was reliable."""

    def __init__(self, policy: Policy, episode: Episode) -> None:
        """Prepare the policy for an episode."""
        if isinstance(policy, Ranking):
            set_up(policy, episode)
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
        "good_error": rms((rows["last"] - rows["run"])[rows["good_at_last"]]),
        "bad_error": rms((rows["first"] - rows["run"])[~rows["good_at_first"]]),
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
    best = int(np.argmin([rms(each) for each in errors]))
    constant = read.loc[half, "need"].mean()
    limited = read["share"][~half] < TARGET_BUSY_SHARE
    alike = max(_within(errors[best][limited], read["batch"][~half][limited]), MIN_SPREAD)
    return {
        "scale": SCALES[best],
        "cells": tuple(tuple(row) for row in _cells(read, SCALES[best]).round(4).tolist()),
        "alike": alike,
        "spread": _remaining_std(rms(errors[best]) ** 2, alike, MIN_SPREAD),
        "left_out": rms(errors[best]),
        "left_out_constant": rms(_need_errors(constant, read[~half])),
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


def rms(values: Any) -> float:
    """Return the root mean square, 0 without values."""
    return float(np.sqrt((values**2).mean())) if len(values) else 0.0


def main(args: Sequence[str] | None = None) -> None:
    """Print the errors of predictions and their effect for each workload."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument(
        "--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), help="default: all"
    )
    flags.add_argument(
        "--windows", type=int, help="number of validation windows, and of training windows with --write"
    )
    flags.add_argument("--write", action="store_true", help="fit the files on training windows first")
    chosen = flags.parse_args(args)
    out = console(sys.stdout, MAX_WIDTH)
    for name in chosen.workload:
        if chosen.write:
            out.print(write(name, WORKLOADS[name], chosen.windows or TRAINING[name]).round(3).to_string())
        scenario = replace(WORKLOADS[name], run_time_predictor=name)
        loads = windows(scenario, "validation", chosen.windows or VALIDATION[name])
        records = recorded(loads)
        shown = [cores(records)] if is_exact(scenario) else [times(records), cores(records)]
        out.print(f"\n{name}: {len(loads)} validation windows", *shown, uses(loads), sep="\n")


if __name__ == "__main__":
    main()
