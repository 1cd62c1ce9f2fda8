"""A generator of jobs like Philly's, fitted to published statistics of its log.

Similar jobs come in batches, seconds apart. Each virtual cluster has two streams of batches: small ones on any number
of GPUs, and large ones of 1-GPU jobs, which bring most jobs. A stream is a Poisson process whose rate follows the hour,
the weekday and two rate modulations of its own, one of hours and one of days. Most batches continue the work of an
earlier batch of their stream, the more likely the more recent it is: same GPUs, same level of duration, same pass
probability.

A level is a standard normal number, shifted by virtual cluster. All levels that share a GPU bucket and a status form a
mixture with a known distribution function, which maps them onto the published quantiles. So durations are right by
construction, as are, on average, the shares of virtual clusters, GPU counts and passed jobs. The log's 600-s probe is
added to these.

Parameters that the statistics leave open are constants below, as pairs for small and large batches. Each is fitted to
the figures in the block `batch_process` of `data/philly_statistics.json` by `benchmarks/philly_batches.py`, which
prints both, unless its comment says otherwise.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import expit, logit, ndtr

from gpu_cluster_gym.traces._asking import refuse_while_asking
from gpu_cluster_gym.traces._fill import STATISTICS
from gpu_cluster_gym.traces._streams import stream
from gpu_cluster_gym.traces._table import check

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SMALL_TAIL = 2.5
"""P(small batch >= n) = n^-2.5."""
WITHIN = ((0.12, 0.9), (0.25, 1.5), (0.12, 0.9))
"""Share of a level's variance inside its batch: parameters of a beta distribution for small 1-GPU batches, large 1-GPU
batches, and batches of larger jobs. Set by hand on seeds 0-2, until the deviation of durations inside batches was the
log's."""
CONTINUES = (0.69, 0.80)
"""Share of batches that continue the work of an earlier batch of their stream."""
RECENT = (0.53, 0.81)
"""P(that batch is n or more places back) = n^-recent."""
MODULATIONS = (((0.41, 0.6), (0.97, 0.42)), ((0.65, 1.35), (0.98, 0.7)))
"""Rate modulations, two for each kind of batch: correlation from hour to hour, standard deviation of the log rate.

Those of large batches were set by hand on seeds 0-2, until the median Fano factors of nine tables as long as the log
were the log's. The deviations fitted to the rate correlations of large batches are smaller, 0.97 and 0.77; but tables
of 51 days drawn with these seldom contain the rare busy hours that cause most of that correlation, and show half of it.
"""
PASS_CORRELATION = 0.26
"""A batch's pass probability is Beta(0.26 p, 0.26 (1 - p)), so most batches pass or fail as one: our choice."""
GAP_S, GAP_SPREAD = 6.0, 0.8
"""Median of a batch's mean gap between submissions, and standard deviation of its log: our choice."""
MAX_GAP_S = 60.0
"""Longest gap inside a batch, as in the statistics."""
PROBE_TURNS = 0.25
"""Share of the probe's periods at which its state, on or off, is drawn again: our choice."""

PROBE_VC = "11cb48"
_COUNTED_FROM = 10  # minimum size of a large batch in the statistics
_ONE_GPU = {"small_1gpu": 0, "large_1gpu": -1}  # bucket by kind of 1-GPU batch
_MIN_LARGE = 2  # large batches of a cluster from which their size is estimated: our choice

_BUCKET_ENDS = (1, 2, 4, 8, 16)  # maximum GPUs of each bucket but the last
_STATES = ("not_passed", "passed")
_HOUR_S, _WEEK_H = 3600, 168
_BEFORE_H = 2 * _WEEK_H  # the first job is drawn from two weeks: most windows of a log begin in busy hours
_WARM_UP_H = 3  # earlier batches that may still be arriving at the first job
_DEFAULT_JOBS = 4_000

_PROBE_EVERY_S = 600

# The statistics do not distinguish Killed from Failed.
_STATUS = np.array(["Killed or Failed", "Pass"], dtype=object)


def generate(seed: int, jobs: int | None = None, scale: float = 1.0) -> pd.DataFrame:
    """Return a table of `jobs` (default 4,000) consecutive jobs, from a random job of a random week on.

    scale: batches per hour relative to the log's; virtual clusters keep their shares, and the probe its period
    """
    refuse_while_asking("a trace")
    jobs = _DEFAULT_JOBS if jobs is None else jobs
    if jobs < 1:
        raise ValueError(f"jobs {jobs}: expected at least 1")
    if not scale > 0:
        raise ValueError(f"scale {scale:g}: expected more than 0")
    philly = replace(fitted := _fit(), batches_per_hour=scale * fitted.batches_per_hour)
    hours = _BEFORE_H + 72 + int(jobs / (50 * scale))  # 67 jobs arrive per hour on average
    while True:
        rng = stream(seed, "philly")
        table = _stretch(rng, stream(seed, "philly works"), philly, hours)
        start = int(rng.integers(np.searchsorted(table["submit_s"], _BEFORE_H * _HOUR_S)))
        if start + jobs <= len(table["submit_s"]):
            break
        hours *= 2
    cut = pd.DataFrame({name: cells[start : start + jobs] for name, cells in table.items()})
    cut["submit_s"] -= cut["submit_s"].iloc[0]
    cut["job_id"] = np.arange(jobs).astype(str)
    cut.attrs["origin"] = dict.fromkeys(cut.columns, "filled: drawn from Philly's statistics")
    return check(cut, file="philly generator")


def _stretch(
    rng: np.random.Generator, works: np.random.Generator, philly: _Philly, hours: int
) -> dict[str, npt.NDArray[Any]]:
    """Draw all jobs of `hours` hours, from a random hour of the week on, in order of submission."""
    of_stream, start_s = _starts(rng, philly, hours + _WARM_UP_H)
    kinds = _batched(rng, works, philly, of_stream, start_s), _probes(rng, philly, hours + _WARM_UP_H)
    table = {name: np.concatenate([kind[name] for kind in kinds]) for name in kinds[0]}
    table["submit_s"] = np.floor(table["submit_s"]) - _WARM_UP_H * _HOUR_S
    order = np.argsort(table["submit_s"], kind="stable")
    at = table["submit_s"][order]
    order = order[(at >= 0) & (at < hours * _HOUR_S)]
    return {name: cells[order] for name, cells in table.items()}


def _starts(rng: np.random.Generator, philly: _Philly, hours: int) -> tuple[Ints, Floats]:
    """Draw the stream and the time of every batch, ordered by both."""
    week = philly.week[(rng.integers(_WEEK_H) + np.arange(hours)) % _WEEK_H]
    modulations = np.concatenate(
        [modulation(rng, len(philly.clusters), hours, *scales) for scales in MODULATIONS]
    )
    counts = rng.poisson(philly.batches_per_hour[:, None] * week * modulations)
    of_stream, hour = np.divmod(np.repeat(np.arange(counts.size), counts.ravel()), hours)
    start_s = (hour + rng.random(len(hour))) * _HOUR_S
    return of_stream, start_s[np.lexsort((start_s, of_stream))]


def modulation(rng: np.random.Generator, streams: int, hours: int, *scales: tuple[float, float]) -> Floats:
    """Draw relative rates [stream, hour] of mean 1: a product of lognormal autoregressions."""
    log_rate = np.zeros((hours, streams))
    for correlation, deviation in scales:
        modulation = rng.standard_normal((hours, streams))
        modulation[1:] *= np.sqrt(1 - correlation**2)
        for hour in range(1, hours):
            modulation[hour] += correlation * modulation[hour - 1]
        log_rate += deviation * modulation - deviation**2 / 2
    return np.exp(log_rate).T


def _batched(
    rng: np.random.Generator, works: np.random.Generator, philly: _Philly, of_stream: Ints, start_s: Floats
) -> dict[str, npt.NDArray[Any]]:
    """Draw the jobs of all batches, batch by batch."""
    large = (philly.large_size[of_stream] > 0).astype(int)
    fresh = rng.random(len(of_stream)) >= np.take(CONTINUES, large)
    back = np.floor((1 - works.random(len(of_stream))) ** (-1 / np.take(RECENT, large)))
    work = _works(fresh, of_stream, np.minimum(back, len(of_stream)).astype(np.int64))
    count = np.sum(rng.random(len(of_stream))[:, None] > philly.gpus_up_to[of_stream, :-1], axis=1)[work]
    bucket = philly.bucket[large, count]
    chance = philly.passes[of_stream, bucket]
    pass_probability = rng.beta(PASS_CORRELATION * chance, PASS_CORRELATION * (1 - chance))[work]
    level = rng.standard_normal(len(of_stream))[work]
    kind = np.where(count == 0, large, 2)
    within = rng.beta(*np.take(WITHIN, kind, axis=0).T)[work]
    batch = np.repeat(np.arange(len(of_stream)), _sizes(rng, philly, of_stream))
    passed = (rng.random(len(batch)) < pass_probability[batch]).astype(int)
    levels = np.sqrt(1 - within)[batch] * level[batch]
    levels += np.sqrt(within)[batch] * rng.standard_normal(len(batch))
    levels += philly.shift[of_stream[batch]]
    return {
        "submit_s": start_s[batch] + since_start(rng, batch),
        "num_gpus": philly.gpus[count[batch]],
        "duration_s": _durations(philly, bucket[batch], passed, levels),
        "vc": philly.clusters[of_stream[batch] % len(philly.clusters)],
        "status": _STATUS[passed],
    }


def _works(fresh: npt.NDArray[np.bool_], of_stream: Ints, back: Ints) -> Ints:
    """Return for each batch the first batch of its work: itself, or that of the batch `back` places before it."""
    batch = np.arange(len(of_stream))
    earlier = np.maximum(batch - back, 0)
    begins = fresh | (of_stream[earlier] != of_stream) | (earlier == batch)
    work = np.where(begins, batch, earlier)
    while (work[work] != work).any():
        work = work[work]
    return work


def _sizes(rng: np.random.Generator, philly: _Philly, of_stream: Ints) -> Ints:
    large = 1 + np.floor(rng.exponential(philly.large_size[of_stream]))
    small = np.floor((1 - rng.random(len(of_stream))) ** (-1 / SMALL_TAIL))
    return np.minimum(np.where(philly.large_size[of_stream] > 0, large, small), philly.largest).astype(
        np.int64
    )


def since_start(rng: np.random.Generator, batch: Ints) -> Floats:
    """Draw the seconds from a batch's first job to each of its jobs."""
    pace = GAP_S * np.exp(GAP_SPREAD * rng.standard_normal(int(batch[-1]) + 1))
    elapsed: Floats = np.cumsum(np.minimum(rng.exponential(pace[batch]), MAX_GAP_S))
    since: Floats = elapsed - elapsed[_last(np.r_[True, batch[1:] != batch[:-1]])]
    return since


def _durations(philly: _Philly, bucket: Ints, passed: Ints, levels: Floats) -> Floats:
    seconds = np.empty(len(levels))
    for group in np.ndindex(philly.log_duration.shape[:2]):
        members = (bucket == group[0]) & (passed == group[1])
        seconds[members] = np.exp(np.interp(levels[members], philly.grid, philly.log_duration[group]))
    return np.maximum(np.rint(seconds), 1)


def _probes(rng: np.random.Generator, philly: _Philly, hours: int) -> dict[str, npt.NDArray[Any]]:
    """Draw the probe's periodic jobs, which are on for a while and off for a while."""
    turns = rng.random(hours * _HOUR_S // _PROBE_EVERY_S) < PROBE_TURNS
    on_share = philly.probes_per_day * _PROBE_EVERY_S / (24 * _HOUR_S)
    on = (rng.random(len(turns)) < on_share)[_last(turns)]
    submit_s = (np.flatnonzero(on) + rng.random()) * _PROBE_EVERY_S
    number = len(submit_s)
    passed = (rng.random(number) < philly.probe_passes).astype(int)
    return {
        "submit_s": submit_s,
        "num_gpus": np.ones(number, np.int64),
        "duration_s": np.rint(np.exp(np.interp(rng.random(number), *philly.probe_durations))),
        "vc": np.full(number, PROBE_VC, object),
        "status": _STATUS[passed],
    }


def _last(fresh: npt.NDArray[np.bool_]) -> Ints:
    """Return for each place the last fresh place up to it; the first place counts as fresh."""
    last: Ints = np.maximum.accumulate(np.where(fresh, np.arange(len(fresh)), 0))
    return last


@dataclass(frozen=True)
class _Philly:
    """The statistics by stream: the small batches of each virtual cluster, then the large ones of each."""

    clusters: npt.NDArray[Any]  # [vc] names
    gpus: Ints  # [count] GPU counts
    bucket: Ints  # [size, count] bucket of each count in small and in large batches
    batches_per_hour: Floats  # [stream]
    week: Floats  # [hour of the week] relative rate, mean 1
    gpus_up_to: Floats  # [stream, count] cumulative distribution of a batch's GPUs
    large_size: Floats  # [stream] mean size, 0 where batches are small
    largest: float  # jobs in the largest batch
    passes: Floats  # [stream, bucket] probability that a job passes
    shift: Floats  # [stream] mean level
    grid: Floats  # [point] levels
    log_duration: Floats  # [bucket, passed, point] log duration at each level of the grid
    probes_per_day: float
    probe_passes: float
    probe_durations: tuple[Floats, Floats]  # cumulative distribution, log duration


@cache
def _fit() -> _Philly:
    """Read the statistics and prepare them for drawing."""
    statistics = json.loads(STATISTICS.read_text())
    clusters, arrivals = statistics["virtual_clusters"], statistics["arrivals"]
    probe, buckets = arrivals["periodic_probe_11cb48"], statistics["duration_s"]["by_gpu_bucket"]
    gpus = np.array([int(count) for count in statistics["gpu_count"]["counts"]])
    bucket = np.searchsorted(_BUCKET_ENDS, gpus)
    jobs = np.array([_jobs_by_gpus(cluster, gpus) for cluster in clusters.values()])
    jobs[list(clusters).index(PROBE_VC), 0] -= probe["jobs"]
    streams, size, large_size = _streams(jobs, statistics)
    total = streams.sum(axis=1, keepdims=True)
    in_bucket = _in_buckets(streams, bucket, len(buckets))
    by_cluster = in_bucket.reshape(2, len(clusters), -1).sum(axis=0)
    passes = np.tile(_passes(statistics, by_cluster), (2, 1))
    shift = np.tile(_shift(statistics, by_cluster), 2)
    grid = np.linspace(-9, 9, 721)
    hour, day = (np.array(arrivals[f"share_by_{unit}"]) for unit in ("hour_of_day", "day_of_week_mon0"))
    return _Philly(
        clusters=np.array(list(clusters), dtype=object),
        gpus=gpus,
        bucket=np.stack([bucket, np.where(gpus == 1, in_bucket.shape[1] - 1, bucket)]),
        batches_per_hour=streams.sum(axis=1) / size / (statistics["fit_window"]["days"] * 24),
        week=np.outer(day * 7, hour * 24).ravel(),
        gpus_up_to=np.cumsum(streams / np.where(total > 0, total, 1), axis=1),
        large_size=large_size,
        largest=arrivals["batch_gap_60s"]["size_quantiles_50_75_90_95_99_999_max"][-1],
        passes=passes,
        shift=shift,
        grid=grid,
        log_duration=_log_durations(statistics, in_bucket, passes, shift, grid),
        probes_per_day=probe["per_day"],
        probe_passes=probe["passed_share"],
        probe_durations=_distribution(statistics, probe["duration_s"]),
    )


def _jobs_by_gpus(cluster: dict[str, Any], gpus: Ints) -> list[float]:
    return [cluster["jobs"] * cluster["gpu_count_share"].get(str(count), 0.0) for count in gpus]


def _streams(jobs: Floats, statistics: dict[str, Any]) -> tuple[Floats, Floats, Floats]:
    """Return jobs [stream, count], mean batch size [stream], and the parameter of large sizes [stream].

    Large sizes are 1 + the whole part of an exponential variable.
    """
    small = np.sum(np.arange(1, 1001) ** -SMALL_TAIL)  # mean, as the sum of P(size >= n)
    exponential, large_batches = _large_batches(statistics)
    large = 1 / (1 - np.exp(-1 / exponential))  # mean of 1 + its whole part
    in_large = np.minimum(large_batches * large / jobs[:, 0], 1)  # share of a cluster's 1-GPU jobs
    one_gpu = np.zeros(jobs.shape[1])
    one_gpu[0] = 1
    large_jobs = jobs * in_large[:, None] * one_gpu
    return (
        np.concatenate([jobs - large_jobs, large_jobs]),
        np.concatenate([np.full(len(jobs), small), large]),
        np.concatenate([np.zeros(len(jobs)), exponential]),
    )


def _in_buckets(streams: Floats, bucket: Ints, buckets: int) -> Floats:
    """Return jobs [stream, bucket]; 1-GPU jobs of large batches have their own bucket, the last."""
    jobs: Floats = np.stack([streams[:, bucket == place].sum(axis=1) for place in range(buckets)], axis=1)
    jobs = np.c_[jobs, np.zeros(len(streams))]
    jobs[len(streams) // 2 :] = np.roll(jobs[len(streams) // 2 :], -1, axis=1)
    return jobs


def _large_batches(statistics: dict[str, Any]) -> tuple[Floats, Floats]:
    """Return the parameter of large sizes and the number of large batches [vc], from batches of 10 jobs or more.

    An exponential variable has no memory, so the mean size of batches of 10 or more is 10 + the mean of all large ones
    - 1.
    """
    found = statistics["batch_process"]["large_batches"]
    mean, batches = (
        np.array([found.get(vc, {}).get(what, 0.0) for vc in statistics["virtual_clusters"]])
        for what in ("mean_size", "batches")
    )
    known = batches >= _MIN_LARGE
    mean = np.where(known, mean, mean[known].min())
    exponential: Floats = 1 / np.log1p(1 / (mean - _COUNTED_FROM))
    large: Floats = np.where(known, batches * np.exp((_COUNTED_FROM - 1) / exponential), 0.0)
    return exponential, large


def _passed_jobs(statistics: dict[str, Any], jobs: Floats) -> Floats:
    """Return the passed jobs [bucket] without the probe's; those of 1 GPU are split between both kinds of batch."""
    probe = statistics["arrivals"]["periodic_probe_11cb48"]
    shares = statistics["status"]["passed_share_by_gpu_bucket"].values()
    counts = [bucket["n"] for bucket in statistics["duration_s"]["by_gpu_bucket"].values()]
    by_bucket = np.array([share * count for share, count in zip(shares, counts, strict=True)])
    by_bucket[0] -= probe["jobs"] * probe["passed_share"]
    kinds = statistics["batch_process"]["classes"]
    small, large = (kinds[kind]["passed_share"] * jobs[place] for kind, place in _ONE_GPU.items())
    divided: Floats = np.r_[by_bucket, by_bucket[0] * large / (small + large)]
    divided[0] -= divided[-1]
    return divided


def _passes(statistics: dict[str, Any], jobs: Floats) -> Floats:
    """Return pass probabilities [vc, bucket] that agree with the shares of each cluster and of each bucket.

    The logit is a sum of a cluster's and a bucket's term, fitted in turn.
    """
    by_bucket = _passed_jobs(statistics, jobs.sum(axis=0))
    probe = statistics["arrivals"]["periodic_probe_11cb48"]
    clusters = statistics["virtual_clusters"]
    by_cluster = np.array([cluster["passed_share"] * cluster["jobs"] for cluster in clusters.values()])
    by_cluster[list(clusters).index(PROBE_VC)] -= probe["jobs"] * probe["passed_share"]
    wanted = [np.clip(by_cluster / jobs.sum(axis=1), 0.02, 0.98), by_bucket / jobs.sum(axis=0)]
    log_odds = [np.zeros(len(jobs)), np.zeros(jobs.shape[1])]
    for turn in range(400):  # far past convergence
        side = turn % 2
        chances = expit(log_odds[0][:, None] + log_odds[1])
        have = np.sum(chances * jobs, axis=1 - side) / jobs.sum(axis=1 - side)
        log_odds[side] += logit(wanted[side]) - logit(have)
    return expit(log_odds[0][:, None] + log_odds[1])


def _shift(statistics: dict[str, Any], jobs: Floats) -> Floats:
    """Return the excess of a cluster's mean log duration over that of its GPU buckets, in standard deviations."""
    probe, durations = statistics["arrivals"]["periodic_probe_11cb48"], statistics["duration_s"]
    clusters = statistics["virtual_clusters"]
    total = np.array([c["jobs"] * c["duration_s"]["log_mean"] for c in clusters.values()])
    total[list(clusters).index(PROBE_VC)] -= probe["jobs"] * probe["duration_s"]["log_mean"]
    buckets = durations["by_gpu_bucket"].values()
    log_mean = np.array([bucket["log_mean"] for bucket in buckets])
    kinds = statistics["batch_process"]["classes"]
    small, large = (_log_mean(kinds[kind]["duration_s"]) for kind in _ONE_GPU)
    log_mean = np.r_[small, log_mean[1:], large]
    number = jobs.sum(axis=1)
    shift: Floats = (total - jobs @ log_mean) / number / durations["all"]["log_std"]
    return shift


def _log_mean(by_state: dict[str, Any]) -> float:
    """Return the mean log duration of jobs of both states."""
    total = sum(durations["n"] for durations in by_state.values())
    return float(sum(durations["n"] * durations["log_mean"] for durations in by_state.values()) / total)


def _log_durations(
    statistics: dict[str, Any], jobs: Floats, passes: Floats, shift: Floats, grid: Floats
) -> Floats:
    """Return the published quantile at each level's place in the mixture of all streams' levels."""
    tables = np.empty((jobs.shape[1], len(_STATES), len(grid)))
    by_bucket = list(statistics["duration_s"]["by_gpu_bucket_and_status"].values())
    small, large = (statistics["batch_process"]["classes"][kind]["duration_s"] for kind in _ONE_GPU)
    for place, by_state in enumerate([small, *by_bucket[1:], large]):
        for passed, state in enumerate(_STATES):
            up_to, log_duration = _distribution(statistics, by_state[state])
            weights = jobs[:, place] * (passes[:, place] if passed else 1 - passes[:, place])
            mixture = weights @ ndtr(grid - shift[:, None]) / weights.sum()
            tables[place, passed] = np.interp(mixture, up_to, log_duration)
    return tables


def _distribution(statistics: dict[str, Any], durations: dict[str, Any]) -> tuple[Floats, Floats]:
    """Return the cumulative distribution and the log duration at the published quantiles."""
    return np.array(statistics["quantile_levels"], float), np.log(np.array(durations["quantiles"], float))
