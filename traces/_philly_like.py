"""Jobs like Philly's, drawn from published statistics of its log.

Like jobs come in batches, seconds apart. Each virtual cluster has two streams of them: small batches on any
number of GPUs, and large ones of 1-GPU jobs, which bring most jobs. A stream is a Poisson process whose rate
follows the hour, the weekday and two rate modulations of its own, one of hours and one of days. Most batches go on with
the work of an earlier one of their stream, the likelier the later it came: same GPUs, same level of duration, same
pass probability. What the statistics leave open stands in `_philly_parameters.py`.

A level is Gaussian. All levels that share a GPU bucket and a status form a mixture with a known distribution
function, which maps them onto the published quantiles; so durations are right by construction, as are, on
average, the shares of virtual clusters, GPU counts and passed jobs. The log's 600-s probe runs beside this.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpu_cluster_gym.traces import _philly_parameters, _streams
from gpu_cluster_gym.traces._philly_fit import PROBE_VC, Floats, Ints, Philly, fit
from gpu_cluster_gym.traces._philly_parameters import Parameters
from gpu_cluster_gym.traces._table import check

_HOUR_S, _WEEK_H = 3600, 168
_BEFORE_H = 2 * _WEEK_H  # the first job is any job of so long: most windows of a log begin in busy hours
_WARM_UP_H = 3  # batches that began so early may still be coming in when the first job is drawn
_DEFAULT_JOBS = 4_000

_PROBE_EVERY_S = 600

# The statistics do not tell Killed and Failed apart.
_STATUS = np.array(["Killed or Failed", "Pass"], dtype=object)


def generate(seed: int, jobs: int | None = None) -> pd.DataFrame:
    """Return `jobs` (default 4,000) consecutive jobs of a random week, from a random job on, as a table."""
    jobs = _DEFAULT_JOBS if jobs is None else jobs
    if jobs < 1:
        raise ValueError(f"{jobs} jobs were asked for; at least 1 is needed")
    philly = fit(_philly_parameters.in_force)
    hours = _BEFORE_H + 72 + jobs // 50  # 67 jobs come in an hour on average
    while True:
        rng = _streams.stream(seed, "philly")
        table = _stretch(rng, _streams.stream(seed, "philly works"), philly, hours)
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
    rng: np.random.Generator, works: np.random.Generator, philly: Philly, hours: int
) -> dict[str, npt.NDArray[Any]]:
    """Draw all jobs of so many hours, from a random hour of the week on, in order of submission."""
    stream, start_s = _starts(rng, philly, hours + _WARM_UP_H)
    kinds = _batched(rng, works, philly, stream, start_s), _probes(rng, philly, hours + _WARM_UP_H)
    table = {name: np.concatenate([kind[name] for kind in kinds]) for name in kinds[0]}
    table["submit_s"] = np.floor(table["submit_s"]) - _WARM_UP_H * _HOUR_S
    order = np.argsort(table["submit_s"], kind="stable")
    at = table["submit_s"][order]
    order = order[(at >= 0) & (at < hours * _HOUR_S)]
    return {name: cells[order] for name, cells in table.items()}


def _starts(rng: np.random.Generator, philly: Philly, hours: int) -> tuple[Ints, Floats]:
    """Draw the stream and the time of every batch, ordered by both."""
    week = philly.week[(rng.integers(_WEEK_H) + np.arange(hours)) % _WEEK_H]
    modulations = np.concatenate(
        [_modulation(rng, len(philly.clusters), hours, *scales) for scales in philly.parameters.modulations]
    )
    counts = rng.poisson(philly.batches_per_hour[:, None] * week * modulations)
    stream, hour = np.divmod(np.repeat(np.arange(counts.size), counts.ravel()), hours)
    start_s = (hour + rng.random(len(hour))) * _HOUR_S
    return stream, start_s[np.lexsort((start_s, stream))]


def _modulation(rng: np.random.Generator, streams: int, hours: int, *scales: tuple[float, float]) -> Floats:
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
    rng: np.random.Generator, works: np.random.Generator, philly: Philly, stream: Ints, start_s: Floats
) -> dict[str, npt.NDArray[Any]]:
    """Draw the jobs of all batches, batch by batch."""
    parameters = philly.parameters
    large = (philly.large_size[stream] > 0).astype(int)
    fresh = rng.random(len(stream)) >= np.take(parameters.continues, large)
    back = np.floor((1 - works.random(len(stream))) ** (-1 / np.take(parameters.recent, large)))
    work = _works(fresh, stream, np.minimum(back, len(stream)).astype(np.int64))
    count = np.sum(rng.random(len(stream))[:, None] > philly.gpus_up_to[stream, :-1], axis=1)[work]
    bucket = philly.bucket[large, count]
    chance = philly.passes[stream, bucket]
    alike = parameters.pass_correlation
    pass_probability = rng.beta(alike * chance, alike * (1 - chance))[work]
    level = rng.standard_normal(len(stream))[work]
    kind = np.where(count == 0, large, 2)
    within = rng.beta(*np.take(parameters.within, kind, axis=0).T)[work]
    batch = np.repeat(np.arange(len(stream)), _sizes(rng, philly, stream))
    passed = (rng.random(len(batch)) < pass_probability[batch]).astype(int)
    levels = np.sqrt(1 - within)[batch] * level[batch]
    levels += np.sqrt(within)[batch] * rng.standard_normal(len(batch))
    levels = philly.shift[stream[batch]] + philly.spread[stream, bucket][batch] * levels
    return {
        "submit_s": start_s[batch] + _since_start(rng, parameters, batch),
        "num_gpus": philly.gpus[count[batch]],
        "duration_s": _durations(philly, bucket[batch], passed, levels),
        "vc": philly.clusters[stream[batch] % len(philly.clusters)],
        "status": _STATUS[passed],
    }


def _works(fresh: npt.NDArray[np.bool_], stream: Ints, back: Ints) -> Ints:
    """Return for each batch the one that began the work it does: its own, or that of the one so many before it."""
    batch = np.arange(len(stream))
    earlier = np.maximum(batch - back, 0)
    begins = fresh | (stream[earlier] != stream) | (earlier == batch)
    work = np.where(begins, batch, earlier)
    while (work[work] != work).any():
        work = work[work]
    return work


def _sizes(rng: np.random.Generator, philly: Philly, stream: Ints) -> Ints:
    large = 1 + np.floor(rng.exponential(philly.large_size[stream]))
    small = np.floor((1 - rng.random(len(stream))) ** (-1 / philly.parameters.small_tail))
    return np.minimum(np.where(philly.large_size[stream] > 0, large, small), philly.largest).astype(np.int64)


def _since_start(rng: np.random.Generator, parameters: Parameters, batch: Ints) -> Floats:
    """Draw the seconds from a batch's first job to each of its jobs."""
    pace = parameters.gap_s * np.exp(parameters.gap_spread * rng.standard_normal(int(batch[-1]) + 1))
    elapsed: Floats = np.cumsum(np.minimum(rng.exponential(pace[batch]), parameters.gap_most_s))
    since: Floats = elapsed - elapsed[_last(np.r_[True, batch[1:] != batch[:-1]])]
    return since


def _durations(philly: Philly, bucket: Ints, passed: Ints, levels: Floats) -> Floats:
    seconds = np.empty(len(levels))
    for group in np.ndindex(philly.log_duration.shape[:2]):
        members = (bucket == group[0]) & (passed == group[1])
        seconds[members] = np.exp(np.interp(levels[members], philly.grid, philly.log_duration[group]))
    return np.maximum(np.rint(seconds), 1)


def _probes(rng: np.random.Generator, philly: Philly, hours: int) -> dict[str, npt.NDArray[Any]]:
    """Draw the periodic jobs of one virtual cluster, on for a while and off for a while."""
    turns = rng.random(hours * _HOUR_S // _PROBE_EVERY_S) < philly.parameters.probe_turns
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
    """Return for each place the last fresh one up to it; the first place counts as fresh."""
    last: Ints = np.maximum.accumulate(np.where(fresh, np.arange(len(fresh)), 0))
    return last
