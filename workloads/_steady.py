"""Steady windows: a stretch of days at a stated load, which begins with running and queued jobs.

A window has three parts. In the first, jobs are scheduled by FIFO, so that every policy begins at the same state of the
cluster. The jobs submitted in the second count. In the third, jobs keep arriving, so that the counted ones do not
finish on a cluster that empties. A generator, whose rate is scaled to the cluster if possible,
makes more jobs than needed; whole batches of them are removed at random until the load is the stated one, so that the
variation over hours and days is preserved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpu_cluster_gym import traces
from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.simulator.policy import Ranking

if TYPE_CHECKING:
    import pandas as pd

    from gpu_cluster_gym.workloads._scenario import Scenario, Window
    from gpu_cluster_gym.workloads._workload import Workload

HOUR_S, DAY_S = 3600.0, 86_400.0
BATCH_GAP_S = 60.0
"""Longest gap between jobs of a batch, as in the statistics of Philly's log."""
JOBS_PER_DAY = 2_000
"""Jobs generated at first, per day of a window; more if their arrivals end before the window does."""
TOLERANCE = 0.02
"""Largest relative difference of a generated window's load from the stated one."""
TOLERANCE_OF_LOGS = 0.1
"""The same for windows of a log, which cannot be drawn again."""
MORE, MORE_EACH = 1.5, 1.2
"""Load of a scaled generator relative to the stated load: at first, and the factor by which it grows if too low."""
MAX_DRAWS = 200
MAX_CHOICES = 200
"""Random choices of batches that are tried in a window of a log."""
BEFORE = Ranking("submit")
"""FIFO, the policy before the counted jobs."""


class Stretch(NamedTuple):
    """The parts of a steady window, in seconds after its begin.

    from_s: the first time at which a submitted job counts
    to_s: the time from which on submitted jobs no longer count
    end_s: the end of arrivals
    """

    from_s: float
    to_s: float
    end_s: float


def stretch_of(scenario: Scenario) -> Stretch:
    """Return the parts of the steady windows of a scenario."""
    from_s, counted_s = scenario.warm_days * DAY_S, scenario.counted_days * DAY_S
    return Stretch(from_s, from_s + counted_s, from_s + counted_s + scenario.after_days * DAY_S)


def counted(scenario: Scenario, submit_s: np.ndarray) -> np.ndarray:
    """Return whether each job of a steady window counts: bool (jobs,).

    submit_s: submission of each job after the begin of the window, s.
    """
    stretch = stretch_of(scenario)
    inside: np.ndarray = (submit_s >= stretch.from_s) & (submit_s < stretch.to_s)
    return inside


def load_of(table: pd.DataFrame, gpus: int, length_s: float, limit_s: float = np.inf) -> float:
    """Return sum(GPUs x min(duration, limit)) / (GPUs of the cluster x length)."""
    return float((table["num_gpus"] * table["duration_s"].clip(upper=limit_s)).sum() / (gpus * length_s))


def peak_load(table: pd.DataFrame, gpus: int, length_s: float) -> float:
    """Return the load of the work that is submitted in the busiest hour, over the GPU-seconds of an hour."""
    hour = (table["submit_s"] // 3600.0).astype(int)
    work = (table["num_gpus"] * table["duration_s"].clip(upper=length_s)).groupby(hour).sum()
    return float(work.max() / (gpus * 3600.0))


def draw(scenario: Scenario, window: Window) -> pd.DataFrame:
    """Return the jobs of a steady window from a generator, thinned to the stated load; ValueError if that is too high.

    The jobs are the first draw, of those made from the window's seed, whose load can be met within `TOLERANCE`, and of
    which some count.
    """
    from gpu_cluster_gym.workloads._workload import load

    assert scenario.steady_load is not None
    end_s, gpus = stretch_of(scenario).end_s, cluster(scenario.cluster_name).num_gpus
    jobs, most, scale = int(JOBS_PER_DAY * end_s / DAY_S), 0.0, 1.0
    if rates := traces.rates(scenario.trace_name):
        scale = MORE * scenario.steady_load * gpus / rates.gpus_held
        jobs = int(1.1 * rates.jobs_per_hour * scale * end_s / 3600.0) + 1
    for number in range(MAX_DRAWS):
        seed = traces.seed_from(scenario.seed, "steady", *window, number)
        table = load(scenario.trace_name, seed=seed, jobs=jobs, scale=scale)
        while (last := float(table["submit_s"].iloc[-1])) < end_s:
            jobs = int(jobs * max(1.2, 1.1 * end_s / max(last, 1.0)))
            table = load(scenario.trace_name, seed=seed, jobs=jobs, scale=scale)
        table = table[(table["submit_s"] < end_s) & (table["num_gpus"] <= gpus)].reset_index(drop=True)
        if scenario.max_duration is not None:
            table["duration_s"] = table["duration_s"].clip(upper=scenario.max_duration)
        offered = load_of(table, gpus, end_s, end_s)
        most = max(most, offered)
        if rates and offered < scenario.steady_load:
            scale, jobs = MORE_EACH * scale, int(MORE_EACH * jobs)
        kept = thinned(table, gpus, end_s, scenario.steady_load, traces.stream(seed, "thinning"))
        if kept is not None and counted(scenario, kept["submit_s"].to_numpy()).any():
            return kept.assign(job_id=np.arange(len(kept)).astype(str))
    raise ValueError(
        f"steady_load {scenario.steady_load:g}: the jobs of {scenario.trace_name} offer a load of at most "
        f"{most:.3g} to {scenario.cluster_name} (choose a smaller cluster or load)"
    )


def with_the_load(
    table: pd.DataFrame, scenario: Scenario, starts_s: Sequence[float]
) -> tuple[pd.DataFrame, Sequence[float]]:
    """Return a log with a note on windows that offer too little load, and the times at which the others begin.

    ValueError where all offer too little.
    """
    assert scenario.steady_load is not None
    gpus, end_s = cluster(scenario.cluster_name).num_gpus, stretch_of(scenario).end_s
    offered = [load_of(_rows(table, scenario, begin_s), gpus, end_s, end_s) for begin_s in starts_s]
    enough = [load >= (1 - TOLERANCE_OF_LOGS) * scenario.steady_load for load in offered]
    if starts_s and not any(enough):
        raise ValueError(
            f"steady_load {scenario.steady_load:g}: no steady window of {scenario.trace_file} has that load on "
            f"{scenario.cluster_name}: the busiest has {max(offered):.3g} (choose a lower load or a smaller cluster)"
        )
    if all(enough):
        return table, starts_s
    note = (
        f"steady windows left out, since the log offers less than the load of {scenario.steady_load:g} there: "
        f"{enough.count(False)} of {len(enough)}"
    )
    noted = table.copy()
    noted.attrs = {**table.attrs, "notes": [*table.attrs.get("notes", []), note]}
    return noted, [begin_s for begin_s, kept in zip(starts_s, enough, strict=True) if kept]


def _rows(table: pd.DataFrame, scenario: Scenario, begin_s: float) -> pd.DataFrame:
    """Return the jobs of a log's window that the cluster can hold, their times relative to its begin."""
    gpus, end_s = cluster(scenario.cluster_name).num_gpus, stretch_of(scenario).end_s
    inside = (table["submit_s"] >= begin_s) & (table["submit_s"] < begin_s + end_s)
    rows = table[inside & (table["num_gpus"] <= gpus)].reset_index(drop=True)
    rows = rows.assign(submit_s=rows["submit_s"] - begin_s)
    rows.attrs = {**table.attrs, "zero_s": table.attrs.get("zero_s", 0.0) + begin_s}
    return rows


def cut(
    table: pd.DataFrame, scenario: Scenario, window: Window, starts_s: Sequence[float]
) -> pd.DataFrame | None:
    """Return the jobs of a steady window of a log, thinned to the stated load; None past the last window.

    starts_s: times at which the log's windows begin. ValueError where no choice of batches has the stated load, or
    where no job counts.
    """
    assert scenario.steady_load is not None
    if window.number >= len(starts_s):
        return None
    gpus, end_s = cluster(scenario.cluster_name).num_gpus, stretch_of(scenario).end_s
    rows = _rows(table, scenario, starts_s[window.number])
    for attempt in range(MAX_CHOICES if len(rows) else 0):  # a large batch may come where it misses the load
        rng = traces.stream(scenario.seed, "thinning", *window, *([attempt] if attempt else []))
        kept = thinned(rows, gpus, end_s, scenario.steady_load, rng, TOLERANCE_OF_LOGS)
        if kept is not None:
            break
    else:
        offered = load_of(rows, gpus, end_s, end_s)
        raise ValueError(
            f"steady_load {scenario.steady_load:g}: window {window.number} of {scenario.trace_file} offers "
            f"{offered:.3g} to {scenario.cluster_name}, and none of {MAX_CHOICES} random choices of its jobs has "
            f"a load within {100 * TOLERANCE_OF_LOGS:g} % of {scenario.steady_load:g} (choose another load or cluster)"
        )
    if not counted(scenario, kept["submit_s"].to_numpy()).any():
        first, last, _ = (seconds / DAY_S for seconds in stretch_of(scenario))
        raise ValueError(
            f"{window} of {scenario.trace_file} has no job to count, since none is submitted from day {first:g} to day "
            f"{last:g} (choose more --counted-days, another --warm-days or another --steady-load)"
        )
    return kept


def thinned(
    table: pd.DataFrame,
    gpus: int,
    length_s: float,
    wanted: float,
    rng: np.random.Generator,
    tolerance: float = TOLERANCE,
) -> pd.DataFrame | None:
    """Return the jobs of random batches whose load is the wanted one; None where no number of batches has it."""
    work = (table["num_gpus"] * table["duration_s"].clip(upper=length_s)).to_numpy(float) / (gpus * length_s)
    batch = batches(table)
    order = rng.permutation(batch.max() + 1)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    of_batch = np.bincount(batch, work, minlength=len(order))[order]
    loads = np.cumsum(of_batch)
    nearest = int(np.abs(loads - wanted).argmin())
    if abs(loads[nearest] - wanted) > tolerance * wanted:
        return None
    kept: pd.DataFrame = table[place[batch] <= nearest].reset_index(drop=True)
    kept.attrs = table.attrs
    return kept


def batches(table: pd.DataFrame) -> np.ndarray:
    """Return the number of each job's batch: jobs of a virtual cluster at most `BATCH_GAP_S` apart, int64 (jobs,)."""
    owner = table["vc"].to_numpy() if "vc" in table else np.zeros(len(table))
    _, owners = np.unique(owner.astype(str), return_inverse=True)
    submit_s = table["submit_s"].to_numpy()
    order = np.lexsort((submit_s, owners))
    begins = np.ones(len(table), bool)
    begins[1:] = (np.diff(owners[order]) > 0) | (np.diff(submit_s[order]) > BATCH_GAP_S)
    number = np.empty(len(table), np.int64)
    number[order] = np.cumsum(begins) - 1
    return number


class Offered(NamedTuple):
    """Load that jobs offer: sum(GPUs x run time) / (GPUs of the cluster x time in which they arrive).

    capped: with run times capped at the time in which jobs arrive
    uncapped: with whole run times
    peak: of the work that is submitted in the busiest hour, over the GPU-seconds of an hour; NaN where jobs arrive
        within less than an hour
    """

    capped: float
    uncapped: float
    peak: float


def offered(work: Workload) -> Offered:
    """Return the load of a workload; infinite if all jobs come at once.

    Jobs arrive in all days of a steady window, and in others from the first submission to the last.
    """
    table, gpus = work.table, work.cluster.num_gpus
    submit_s = table["submit_s"]
    steady = work.scenario.steady_load is not None
    length_s = stretch_of(work.scenario).end_s if steady else float(submit_s.max() - submit_s.min())
    if length_s <= 0:
        return Offered(np.inf, np.inf, np.inf)
    capped, uncapped = (load_of(table, gpus, length_s, limit) for limit in (length_s, np.inf))
    return Offered(capped, uncapped, peak_load(table, gpus, length_s) if length_s >= HOUR_S else np.nan)


def offered_in_words(workloads: Sequence[Workload]) -> str:
    """Return a phrase about the loads of some windows, from the smallest to the largest."""
    capped, uncapped, peak = zip(*map(offered, workloads), strict=True)
    if not np.isfinite(capped).all():
        return "all jobs arrive at once" if len(workloads) == 1 else "all jobs of a window arrive at once"
    busiest = f", busiest hour {_range(peak, '.3g')}" if np.isfinite(peak).all() else ""
    return f"offered load {_range(capped, '.2f')} (uncapped {_range(uncapped, '.2f')}{busiest})"


def parts_in_words(workloads: Sequence[Workload]) -> str:
    """Return a phrase about the parts of steady windows."""
    stretch = stretch_of(workloads[0].scenario)
    counted = [int(each.counted.sum()) for each in workloads]
    jobs = [len(each.table) for each in workloads]
    days = [f"{seconds / DAY_S:g}" for seconds in stretch]
    return (
        f"FIFO schedules the first {days[0]} days; the {_range(counted, ',')} jobs of days {days[0]} to {days[1]} are "
        f"scored; jobs arrive until day {days[2]} ({_range(jobs, ',')})"
    )


def _range(numbers: Sequence[float], form: str) -> str:
    return " to ".join(dict.fromkeys((format(min(numbers), form), format(max(numbers), form))))
