"""What Philly's published statistics say of each stream of batches, made ready for drawing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit, ndtr

from gpu_cluster_gym.traces._philly_parameters import Parameters
from gpu_cluster_gym.traces._profiles import STATISTICS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

PROBE_VC = "11cb48"

_COUNTED_FROM = 10  # jobs in a large batch of the statistics, at least
_ONE_GPU = {"small_1gpu": 0, "large_1gpu": -1}  # their buckets
_FEWEST_LARGE = 2  # such batches of a cluster from which their size is told; our choice

_BUCKET_ENDS = (1, 2, 4, 8, 16)  # most GPUs of each bucket but the last
_STATES = ("not_passed", "passed")


@dataclass(frozen=True)
class Philly:
    """The statistics by stream: the small batches of each virtual cluster, then the large ones of each."""

    parameters: Parameters
    clusters: npt.NDArray[Any]  # [vc] names
    gpus: Ints  # [count] the GPU counts seen
    bucket: Ints  # [size, count] the bucket of each in small and in large batches
    batches_per_hour: Floats  # [stream]
    week: Floats  # [hour of the week] relative rate, mean 1
    gpus_up_to: Floats  # [stream, count] distribution function of a batch's GPUs
    large_size: Floats  # [stream] mean size, 0 where batches are small
    largest: float  # jobs in the largest batch
    passes: Floats  # [stream, bucket] a job's chance to pass
    shift: Floats  # [stream] mean level
    spread: Floats  # [stream, bucket] deviation of levels
    grid: Floats  # [point] levels
    log_duration: Floats  # [bucket, passed, point] the logarithm of the duration at each level of the grid
    probes_per_day: float
    probe_passes: float
    probe_durations: tuple[Floats, Floats]  # distribution function, logarithm of the duration


@cache
def fit(parameters: Parameters) -> Philly:
    """Return the fit; the file is read once for each set of parameters."""
    statistics = json.loads(STATISTICS.read_text())
    clusters, arrivals = statistics["virtual_clusters"], statistics["arrivals"]
    probe, buckets = arrivals["periodic_probe_11cb48"], statistics["duration_s"]["by_gpu_bucket"]
    gpus = np.array([int(count) for count in statistics["gpu_count"]["counts"]])
    bucket = np.searchsorted(_BUCKET_ENDS, gpus)
    jobs = np.array([_jobs_by_gpus(cluster, gpus) for cluster in clusters.values()])
    jobs[list(clusters).index(PROBE_VC), 0] -= probe["jobs"]
    streams, size, large_size = _streams(jobs, statistics, parameters)
    total = streams.sum(axis=1, keepdims=True)
    counted = parameters.large_share is None
    in_bucket = _in_buckets(streams, bucket, len(buckets), counted)
    by_cluster = in_bucket.reshape(2, len(clusters), -1).sum(axis=0)
    passes = np.tile(_passes(statistics, by_cluster, counted), (2, 1))
    shift = np.tile(_shift(statistics, by_cluster, counted), 2)
    spread = np.full(in_bucket.shape, parameters.level[2])
    spread[:, 0] = np.repeat(parameters.level[:2], len(clusters))
    spread[:, -1] = parameters.level[1] if counted else spread[:, -1]
    grid = np.linspace(-9, 9, 721)
    hour, day = (np.array(arrivals[f"share_by_{unit}"]) for unit in ("hour_of_day", "day_of_week_mon0"))
    return Philly(
        parameters=parameters,
        clusters=np.array(list(clusters), dtype=object),
        gpus=gpus,
        bucket=np.stack([bucket, np.where(counted & (gpus == 1), in_bucket.shape[1] - 1, bucket)]),
        batches_per_hour=streams.sum(axis=1) / size / (statistics["fit_window"]["days"] * 24),
        week=np.outer(day * 7, hour * 24).ravel(),
        gpus_up_to=np.cumsum(streams / np.where(total > 0, total, 1), axis=1),
        large_size=large_size,
        largest=arrivals["batch_gap_60s"]["size_quantiles_50_75_90_95_99_999_max"][-1],
        passes=passes,
        shift=shift,
        spread=spread,
        grid=grid,
        log_duration=_log_durations(statistics, in_bucket, passes, shift, spread, grid, counted),
        probes_per_day=probe["per_day"],
        probe_passes=probe["passed_share"],
        probe_durations=_distribution(statistics, probe["duration_s"]),
    )


def _jobs_by_gpus(cluster: dict[str, Any], gpus: Ints) -> list[float]:
    return [cluster["jobs"] * cluster["gpu_count_share"].get(str(count), 0.0) for count in gpus]


def _streams(
    jobs: Floats, statistics: dict[str, Any], parameters: Parameters
) -> tuple[Floats, Floats, Floats]:
    """Return jobs [stream, count], mean batch size [stream], and the parameter of large sizes [stream].

    Large sizes are 1 + the whole part of an exponential variable.
    """
    small = np.sum(np.arange(1, 1001) ** -parameters.small_tail)  # mean, as the sum of P(size >= n)
    if parameters.large_share is None:
        exponential, large_batches = _large_batches(statistics)
        large = 1 / (1 - np.exp(-1 / exponential))  # mean of 1 + its whole part
        in_large = np.minimum(large_batches * large / jobs[:, 0], 1)
    else:
        exponential = _sizes_from_fano(statistics)
        large = 1 / (1 - np.exp(-1 / exponential))
        share = parameters.large_share
        in_large = share * large / (share * large + (1 - share) * small)  # share of a cluster's 1-GPU jobs
    one_gpu = np.zeros(jobs.shape[1])
    one_gpu[0] = 1
    large_jobs = jobs * in_large[:, None] * one_gpu
    return (
        np.concatenate([jobs - large_jobs, large_jobs]),
        np.concatenate([np.full(len(jobs), small), large]),
        np.concatenate([np.zeros(len(jobs)), exponential]),
    )


def _in_buckets(streams: Floats, bucket: Ints, buckets: int, counted: bool) -> Floats:
    """Return jobs [stream, bucket]; as counted, 1-GPU jobs of large batches are a bucket of their own, the last."""
    jobs = np.stack([streams[:, bucket == place].sum(axis=1) for place in range(buckets)], axis=1)
    if counted:
        jobs = np.c_[jobs, np.zeros(len(streams))]
        jobs[len(streams) // 2 :] = np.roll(jobs[len(streams) // 2 :], -1, axis=1)
    return jobs


def _large_batches(statistics: dict[str, Any]) -> tuple[Floats, Floats]:
    """Return the parameter of large sizes and the number of large batches [vc], as those of 10 jobs or more tell.

    The rest of an exponential variable is like the whole: the mean size of those is 10 and that of the others less 1.
    """
    found = statistics["batch_process"]["large_batches"]
    mean, batches = (
        np.array([found.get(vc, {}).get(what, 0.0) for vc in statistics["virtual_clusters"]])
        for what in ("mean_size", "batches")
    )
    known = batches >= _FEWEST_LARGE
    mean = np.where(known, mean, mean[known].min())
    exponential: Floats = 1 / np.log1p(1 / (mean - _COUNTED_FROM))
    large: Floats = np.where(known, batches * np.exp((_COUNTED_FROM - 1) / exponential), 0.0)
    return exponential, large


def _sizes_from_fano(statistics: dict[str, Any]) -> Floats:
    """Return the parameter of large sizes [vc].

    Batches that come independently have the Fano factor E[n^2] / E[n]. For exponential sizes that is twice
    the mean, so a cluster's Fano factor tells how large its large batches are.
    """
    fano = np.array([cluster["fano_hourly"] for cluster in statistics["virtual_clusters"].values()])
    return np.maximum(fano / 2, 1)


def _passed_jobs(statistics: dict[str, Any], jobs: Floats, counted: bool) -> Floats:
    """Return the passed jobs [bucket] but for the probe's: of 1 GPU as many as published, divided as counted."""
    probe = statistics["arrivals"]["periodic_probe_11cb48"]
    shares = statistics["status"]["passed_share_by_gpu_bucket"].values()
    counts = [bucket["n"] for bucket in statistics["duration_s"]["by_gpu_bucket"].values()]
    by_bucket = np.array([share * count for share, count in zip(shares, counts, strict=True)])
    by_bucket[0] -= probe["jobs"] * probe["passed_share"]
    if not counted:
        return by_bucket
    kinds = statistics["batch_process"]["classes"]
    small, large = (kinds[kind]["passed_share"] * jobs[place] for kind, place in _ONE_GPU.items())
    divided: Floats = np.r_[by_bucket, by_bucket[0] * large / (small + large)]
    divided[0] -= divided[-1]
    return divided


def _passes(statistics: dict[str, Any], jobs: Floats, counted: bool) -> Floats:
    """Return chances to pass [vc, bucket] that agree with the shares of each cluster and of each bucket.

    Their logits are a sum of one term for the cluster and one for the bucket, found by setting them in turn.
    """
    by_bucket = _passed_jobs(statistics, jobs.sum(axis=0), counted)
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


def _shift(statistics: dict[str, Any], jobs: Floats, counted: bool) -> Floats:
    """Return how much longer a cluster's jobs are than their GPUs suggest, in deviations of log duration."""
    probe, durations = statistics["arrivals"]["periodic_probe_11cb48"], statistics["duration_s"]
    clusters = statistics["virtual_clusters"]
    total = np.array([c["jobs"] * c["duration_s"]["log_mean"] for c in clusters.values()])
    total[list(clusters).index(PROBE_VC)] -= probe["jobs"] * probe["duration_s"]["log_mean"]
    buckets = durations["by_gpu_bucket"].values()
    log_mean = np.array([bucket["log_mean"] for bucket in buckets])
    log_mean[0] = statistics["without_probe"]["duration_s_1gpu"]["log_mean"]
    if counted:
        kinds = statistics["batch_process"]["classes"]
        small, large = (_log_mean(kinds[kind]["duration_s"]) for kind in _ONE_GPU)
        log_mean = np.r_[small, log_mean[1:], large]
    number = jobs.sum(axis=1)
    shift: Floats = (total - jobs @ log_mean) / number / durations["all"]["log_std"]
    return shift


def _log_mean(by_state: dict[str, Any]) -> float:
    """Return the mean logarithm of the duration of jobs of both states."""
    total = sum(durations["n"] for durations in by_state.values())
    return float(sum(durations["n"] * durations["log_mean"] for durations in by_state.values()) / total)


def _log_durations(
    statistics: dict[str, Any],
    jobs: Floats,
    passes: Floats,
    shift: Floats,
    spread: Floats,
    grid: Floats,
    counted: bool,
) -> Floats:
    """Return the published quantile at each level's place in the mixture of all streams' levels."""
    tables = np.empty((jobs.shape[1], len(_STATES), len(grid)))
    by_bucket = list(statistics["duration_s"]["by_gpu_bucket_and_status"].values())
    if counted:
        small, large = (statistics["batch_process"]["classes"][kind]["duration_s"] for kind in _ONE_GPU)
        by_bucket = [small, *by_bucket[1:], large]
    for place, by_state in enumerate(by_bucket):
        for passed, state in enumerate(_STATES):
            durations = by_state[state]
            up_to, log_duration = _distribution(statistics, durations)
            if place == 0 and not counted:  # the probe's jobs, which have 1 GPU, are drawn apart
                up_to, log_duration = _without_probe(statistics, durations, bool(passed))
            weights = jobs[:, place] * (passes[:, place] if passed else 1 - passes[:, place])
            mixture = weights @ ndtr((grid - shift[:, None]) / spread[:, place, None]) / weights.sum()
            tables[place, passed] = np.interp(mixture, up_to, log_duration)
    return tables


def _without_probe(
    statistics: dict[str, Any], durations: dict[str, Any], passed: bool
) -> tuple[Floats, Floats]:
    """Return the distribution of 1-GPU jobs of one status less that of the probe's jobs among them."""
    probe = statistics["arrivals"]["periodic_probe_11cb48"]
    share = probe["jobs"] / durations["n"] * (probe["passed_share"] if passed else 1 - probe["passed_share"])
    all_up_to, all_log = _distribution(statistics, durations)
    probe_up_to, probe_log = _distribution(statistics, probe["duration_s"])
    log_duration = np.union1d(all_log, probe_log)
    rest = np.interp(log_duration, all_log, all_up_to) - share * np.interp(
        log_duration, probe_log, probe_up_to
    )
    return np.clip(np.maximum.accumulate(rest / (1 - share)), 0, 1), log_duration


def _distribution(statistics: dict[str, Any], durations: dict[str, Any]) -> tuple[Floats, Floats]:
    """Return the distribution function and the logarithm of the duration at the published quantiles."""
    return np.array(statistics["quantile_levels"], float), np.log(np.array(durations["quantiles"], float))
