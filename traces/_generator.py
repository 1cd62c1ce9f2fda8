"""A generator of jobs like those of a log of which only summaries are published: Helios, PAI, Acme.

The figures are those of `data/NAME_statistics.json`. Each cluster of a log is a virtual cluster of the table.

- Widths are powers of two. Jobs of one GPU are `ONE_GPU` of all; the shares of the others fall by a constant factor,
  such that the mean is the published one.
- The logarithm of a run time is normal. Its mean depends on the job's end and, linearly, on the logarithm of its width.
  The parameters are solved for the published median, mean, and GPU time of each end, with run times cut at the longest.
- Jobs come in batches of one width and one end, whose sizes follow a power law. Batches are a Poisson process with a
  rate that follows the hour, the weekday and two lognormal modulations, one of hours and one of days. Law and
  modulations are solved for the published variances of arrival counts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import brentq, root
from scipy.special import ndtr

from gpu_cluster_gym.traces._asking import refuse_while_asking
from gpu_cluster_gym.traces._fill import DATA
from gpu_cluster_gym.traces._philly_generator import modulation, since_start
from gpu_cluster_gym.traces._streams import stream
from gpu_cluster_gym.traces._table import check

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ONE_GPU = 0.55
"""Share of jobs of one GPU where only mean and median of the widths are published: our choice."""
WITHIN = 0.13
"""Share of the variance of log run times inside batches: Philly's (`data/philly_statistics.json`, batch_gap_60s)."""
EXPONENTS = 1.01, 5.0
"""Range of the exponents of batch sizes."""
SLOW = 0.97
"""Correlation from hour to hour of the rate modulation of days: Philly's."""

_HOUR_S, _WEEK_H = 3600, 168
_WARM_UP_H = 3  # earlier batches that may still be arriving at the first job
_DEFAULT_JOBS = 4_000


def generate(
    name: str, file: None = None, *, seed: int, jobs: int | None = None, scale: float = 1.0
) -> pd.DataFrame:
    """Return `jobs` (default 4,000) consecutive jobs like a log's, from a random job of a random week on.

    file: none, since the trace's reader reads logs
    scale: arrivals per hour relative to the log's; virtual clusters keep their shares
    """
    return draw(fitted(name), name, seed, jobs, scale)


def rates(name: str) -> Rates:
    """Return the rates of generated jobs at a scale of 1."""
    return fitted(name).rates


def draw(log: Log, name: str, seed: int, jobs: int | None = None, scale: float = 1.0) -> pd.DataFrame:
    """Return jobs with the parameters of a log; see `generate`."""
    refuse_while_asking("a trace")
    jobs = _DEFAULT_JOBS if jobs is None else jobs
    if jobs < 1:
        raise ValueError(f"jobs {jobs}: expected at least 1")
    if not scale > 0:
        raise ValueError(f"scale {scale:g}: expected more than 0")
    rng = stream(seed, name)
    hours = int(_WEEK_H + 24 + 1.5 * jobs / (log.rates.jobs_per_hour * scale))
    while True:
        table = _stretch(rng, log, hours, scale)
        start = int(rng.integers(max(int(np.searchsorted(table["submit_s"], _WEEK_H * _HOUR_S)), 1)))
        if start + jobs <= len(table["submit_s"]):
            break
        hours *= 2
    cut = pd.DataFrame({column: cells[start : start + jobs] for column, cells in table.items()})
    cut["submit_s"] -= cut["submit_s"].iloc[0]
    cut["job_id"] = np.arange(jobs).astype(str)
    cut.attrs["origin"] = dict.fromkeys(cut.columns, f"filled: drawn from statistics of {name}")
    return check(cut, file=f"{name} generator")


@dataclass(frozen=True)
class Cluster:
    """The jobs of one cluster of a log.

    jobs_per_hour: mean
    widths, width_up_to: GPU counts, and their cumulative distribution
    ends, end_up_to: words for the end of a job, and their cumulative distribution; empty where none is published
    log_run_s: mean of the log run time [width, end], with the deviation `spread`
    longest_s: longest run time
    """

    jobs_per_hour: float
    widths: Ints
    width_up_to: Floats
    ends: tuple[str, ...]
    end_up_to: Floats
    log_run_s: Floats
    spread: float
    longest_s: float

    @property
    def gpus_held(self) -> float:
        """Mean number of GPUs held if no job waited."""
        shares = np.outer(np.diff(self.width_up_to, prepend=0), np.diff(self.end_up_to, prepend=0))
        run_s = clipped_mean(self.log_run_s, self.spread, self.longest_s)
        return float((shares * self.widths[:, None] * run_s).sum() * self.jobs_per_hour / _HOUR_S)


@dataclass(frozen=True)
class Arrivals:
    """The arrivals of batches in one cluster.

    week: relative rate by hour of the week, mean 1
    modulations: correlation from hour to hour, and deviation of the log rate, of hours and of days
    size_exponent, largest: P(batch >= n) = n^-exponent for n up to the largest
    """

    week: Floats
    modulations: tuple[tuple[float, float], tuple[float, float]]
    size_exponent: float
    largest: int

    @property
    def sizes_up_to(self) -> Floats:
        """Cumulative distribution of the batch sizes 1, 2, ..., largest."""
        return 1 - np.append(np.arange(2, self.largest + 1) ** -self.size_exponent, 0.0)

    @property
    def mean_size(self) -> float:
        """Mean batch size."""
        return float(np.sum(np.arange(1, self.largest + 1) ** -self.size_exponent))


class Rates(NamedTuple):
    """Mean number of jobs per hour, and of GPUs held if no job waited."""

    jobs_per_hour: float
    gpus_held: float


@dataclass(frozen=True)
class Log:
    """The parameters of a log: its clusters by name, and the arrivals of each."""

    clusters: dict[str, Cluster]
    arrivals: Arrivals

    @property
    def rates(self) -> Rates:
        """The rates of all clusters together."""
        parts = self.clusters.values()
        return Rates(sum(each.jobs_per_hour for each in parts), sum(each.gpus_held for each in parts))


@cache
def fitted(name: str) -> Log:
    """Return the parameters of a log that its published figures determine."""
    return fit(statistics(name))


def statistics(name: str) -> dict[str, Any]:
    """Return the published figures of a log."""
    found: dict[str, Any] = json.loads((DATA / f"{name}_statistics.json").read_text(encoding="utf-8"))
    return found


def fit(figures: dict[str, Any]) -> Log:
    """Return the parameters that figures as in `data/NAME_statistics.json` determine."""
    own = figures["arrivals"]
    process = statistics(own["process"])["arrivals"] if "process" in own else own
    clusters = {each: _cluster(found, figures["days"]) for each, found in figures["clusters"].items()}
    return Log(clusters, _arrivals(process, _week(process | own)))


# The jobs.


def _stretch(rng: np.random.Generator, log: Log, hours: int, scale: float) -> dict[str, npt.NDArray[Any]]:
    """Draw all jobs of `hours` hours, from a random hour of the week on, in order of submission."""
    first = int(rng.integers(_WEEK_H))
    parts = [_jobs(rng, name, log, first, hours, scale) for name in log.clusters]
    table = {column: np.concatenate([part[column] for part in parts]) for column in parts[0]}
    table["submit_s"] = np.floor(table["submit_s"]) - _WARM_UP_H * _HOUR_S
    order = np.argsort(table["submit_s"], kind="stable")
    at = table["submit_s"][order]
    order = order[(at >= 0) & (at < hours * _HOUR_S)]
    return {column: cells[order] for column, cells in table.items()}


def _jobs(
    rng: np.random.Generator, name: str, log: Log, first: int, hours: int, scale: float
) -> dict[str, npt.NDArray[Any]]:
    """Draw the jobs of one cluster, batch by batch."""
    cluster, arrivals = log.clusters[name], log.arrivals
    hours += _WARM_UP_H
    rate = arrivals.week[(first + np.arange(hours)) % _WEEK_H]
    for scales in arrivals.modulations:
        rate = rate * modulation(rng, 1, hours, scales)[0]
    batches = rng.poisson(scale * cluster.jobs_per_hour / arrivals.mean_size * rate)
    hour = np.repeat(np.arange(hours), batches)
    start_s = (hour + rng.random(len(hour))) * _HOUR_S
    size = 1 + np.searchsorted(arrivals.sizes_up_to, rng.random(len(hour)), side="right")
    width = np.searchsorted(cluster.width_up_to, rng.random(len(hour)), side="right")
    end = np.searchsorted(cluster.end_up_to, rng.random(len(hour)), side="right")
    level = rng.standard_normal(len(hour))
    batch = np.repeat(np.arange(len(hour)), size)
    levels = np.sqrt(1 - WITHIN) * level[batch] + np.sqrt(WITHIN) * rng.standard_normal(len(batch))
    log_run_s = cluster.log_run_s[width[batch], end[batch]] + cluster.spread * levels
    table = {
        "submit_s": start_s[batch] + since_start(rng, batch) if len(batch) else start_s,
        "num_gpus": cluster.widths[width[batch]],
        "duration_s": np.clip(np.rint(np.exp(log_run_s)), 1, cluster.longest_s),
        "vc": np.full(len(batch), name, object),
    }
    if cluster.ends:
        table["status"] = np.array(cluster.ends, dtype=object)[end[batch]]
    return table


# Parameters from published figures.


def _cluster(figures: dict[str, Any], days: float) -> Cluster:
    """Return the parameters of a cluster, solved for its published figures."""
    widths, shares = _widths(figures)
    states = figures.get("states", {})
    # Published shares are rounded to 3 digits, so that their sum may differ from 1.
    share = np.array([each["share"] for each in states.values()] or [1.0])
    share = share / share.sum()
    total = np.array([each["gpu_time_s"] for each in states.values()]) / figures["jobs"] if states else None
    log_run_s, spread = _run_times(figures, np.log2(widths), shares, share, total)
    return Cluster(
        jobs_per_hour=figures["jobs"] / (24 * days),
        widths=widths,
        width_up_to=_up_to(shares),
        ends=tuple(states),
        end_up_to=_up_to(share),
        log_run_s=log_run_s,
        spread=spread,
        longest_s=figures["max_run_s"],
    )


def _up_to(shares: Floats) -> Floats:
    """Return the cumulative distribution of shares; its last element is exactly 1."""
    found: Floats = np.append(np.cumsum(shares)[:-1], 1.0)
    return found


def _widths(figures: dict[str, Any]) -> tuple[Ints, Floats]:
    """Return GPU counts and their shares: published ones, or geometric ones with the published mean."""
    if "widths" in figures:
        found = figures["widths"]
        return np.array([int(count) for count in found]), np.array(list(found.values()), float)
    widths = 2 ** np.arange(int(np.log2(figures["max_gpus"])) + 1)

    def shares(factor: float) -> Floats:
        rest = factor ** np.arange(len(widths) - 1)
        found: Floats = np.r_[ONE_GPU, (1 - ONE_GPU) * rest / rest.sum()]
        return found

    factor = brentq(lambda each: float(shares(each) @ widths) - figures["mean_gpus"], 1e-6, 2.0)
    return widths, shares(float(factor))


def _run_times(
    figures: dict[str, Any], doublings: Floats, widths: Floats, ends: Floats, total: Floats | None
) -> tuple[Floats, float]:
    """Return means [width, end] of log run times and their deviation.

    doublings: log2 of the widths. widths, ends: shares. total: GPU-seconds of each end, per job of any end; None where
    they are not published, so that run times are independent of widths.
    """
    shares, gpus = np.outer(widths, ends), 2.0**doublings
    longest_s, median_s = figures["max_run_s"], figures["median_run_s"]

    def means(slope: float, middle: float, extra: Floats) -> Floats:
        found: Floats = middle + slope * doublings[:, None] + np.r_[0.0, extra]
        return found

    def split(found: Floats) -> tuple[Floats, float]:
        log_run_s = means(found[2], found[0], found[3:]) if total is not None else np.full((1, 1), found[0])
        return np.broadcast_to(log_run_s, shares.shape), float(np.exp(found[1]))

    def differences(found: Floats) -> Floats:
        log_run_s, spread = split(found)
        run_s = clipped_mean(log_run_s, spread, longest_s)
        below = (shares * ndtr((np.log(median_s) - log_run_s) / spread)).sum()
        errors = [below - 0.5, np.log((shares * run_s).sum() / figures["mean_run_s"])]
        if total is not None:
            errors += list(np.log((shares * run_s * gpus[:, None]).sum(axis=0) / total))
        return np.array(errors)

    guess = [np.log(median_s), np.log(np.sqrt(2 * np.log(figures["mean_run_s"] / median_s)))]
    guess += [0.0] * len(ends) if total is not None else []
    solved = root(differences, guess)
    if not solved.success:
        raise ValueError(
            f"no distribution of run times matches the published figures ({solved.message}): correct the figures"
        )
    log_run_s, spread = split(solved.x)
    return np.array(log_run_s), spread


def clipped_mean(log_mean: Floats, spread: float, longest: float) -> Floats:
    """Return the mean of min(lognormal, longest)."""
    beyond = (np.log(longest) - log_mean) / spread
    found: Floats = np.exp(log_mean + spread**2 / 2) * ndtr(beyond - spread) + longest * ndtr(-beyond)
    return found


def _week(figures: dict[str, Any]) -> Floats:
    """Return the relative rate of each hour of the week, mean 1."""
    hour, day = (np.array(figures[f"share_by_{each}"]) for each in ("hour_of_day", "day_of_week_mon0"))
    found: Floats = np.outer(day / day.mean(), hour / hour.mean()).ravel()
    return found


def _arrivals(process: dict[str, Any], week: Floats) -> Arrivals:
    """Return the batches and modulations whose Fano factors (variance over mean of counts) are the published ones.

    For counts of mean m, Fano = F + m V, where F = E[size^2] / E[size] and V is the relative variance of the rate over
    the interval. It is nearly the same for 10 minutes and an hour, so both give V and F. A modulation whose variance
    would be negative, as in a log of a few days, is left out.
    """
    fano, hourly = process["fano"], process["jobs_per_hour"]
    rate = (fano["1h"] - fano["10min"]) / (hourly - hourly / 6)
    size = fano["1h"] - hourly * rate
    own = _week(process)
    by_day = own.reshape(7, 24).mean(axis=1)
    # 1 + relative variance of the rate: of the modulation of days, and of that of hours
    days = max((1 + (fano["1d"] - size) / (24 * hourly)) / np.mean(by_day**2), 1.0)
    hours = max((1 + rate) / np.mean(own**2) / days, 1.0)
    covariance = 1 + process["autocorrelation_1h"] * fano["1h"] / hourly
    next_hour = covariance / np.mean(own * np.roll(own, 1)) / (1 + SLOW * (days - 1))
    correlation = float(np.clip((next_hour - 1) / (hours - 1), 0.0, SLOW)) if hours > 1 else 0.0
    largest = int(process["max_in_10min"])
    sizes = np.arange(1, largest + 1, dtype=float)

    def ratio(exponent: float) -> float:
        at_least = sizes**-exponent
        return float(((2 * sizes - 1) * at_least).sum() / at_least.sum())

    lowest, highest = EXPONENTS
    wanted = float(np.clip(size, ratio(highest), ratio(lowest)))
    exponent = float(brentq(lambda each: ratio(each) - wanted, lowest, highest))
    deviations = np.sqrt(np.log([hours, days])).tolist()
    return Arrivals(week, ((correlation, deviations[0]), (SLOW, deviations[1])), exponent, largest)
