"""Forecast the starts of queued jobs: quantiles over simulated futures of a snapshot.

In each future, the run time of a job is sampled from similar finished jobs, given how long it has run and its limit,
and the later arrivals are those of random days of the history. The policy then schedules all of them. If the history
has starts, the forecasts are calibrated: they are repeated at past times, and the intervals are widened, or narrowed,
until they cover the actual starts as often as they should. Without calibration, intervals are too narrow, since run
times of the same week are more alike than independent samples.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from gpu_cluster_gym.evaluation import command, decide, table
from gpu_cluster_gym.evaluation.describe import FIRST_DATE_S, LAST_DATE_S, duration, local_time
from gpu_cluster_gym.simulator.cluster import cluster as cluster_of
from gpu_cluster_gym.simulator.episode import Episode, run, set_up
from gpu_cluster_gym.simulator.policy import Policy, Ranking
from gpu_cluster_gym.traces import cut, stream
from gpu_cluster_gym.workloads import Present, Scenario, present

if TYPE_CHECKING:
    from rich.console import Console

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

QUANTILES = (0.05, 0.5, 0.95)
FUTURES = 200
DAY_S = 86_400.0
MIN_JOBS = 20
"""Minimum number of finished jobs in a group from which a run time is sampled; with fewer, a wider group is used."""
MIN_LONGER = 5
"""Minimum number of these that ran longer than the job has run already."""
RECENT = 200
"""Number of most recent finished jobs of a group to sample from, since users change what they run."""
BATCH_GAP_S = 3_600.0
"""Longest gap between submissions of a batch, which are jobs of one owner and width."""
DAYS = (2, 14)
"""Days of later arrivals; the second number is used if some job has not started within the first."""
PAST_TIMES = 30
"""Number of past times at which forecasts are compared with actual waits."""
MIN_PAST_TIMES = 8
"""Minimum number of past times with queued jobs."""
WARM_UP_SHARE = 0.2
"""Share of the history before the first past time."""
PAST_FUTURES = 40
LOG_OFFSET_S = 60.0
"""Offset added to a wait before its logarithm is taken."""
MIN_HALF_WIDTH, MIN_FACTOR = 0.05, 0.2
"""Lower bounds of the half-width of an interval, on that logarithm, and of the factor by which it is stretched."""
LEVELS = (0.95, 0.96, 0.97, 0.98, 0.99, 1.0)
"""Quantiles of past errors that are tried for the factor."""
MAX_FACTOR = 10.0
"""Largest factor; beyond it the log's scheduler is too far from the simulated one, and stretching does not help."""
GROUPS = (
    "owner and width",
    "owner",
    "width",
    "all jobs",
    "none (Pareto from the time run, or uniform up to the limit)",
)
"""Groups of finished jobs; run times are sampled from the first group that has enough jobs."""


class RunTimes(NamedTuple):
    """Distribution of a job's run time.

    group: index in `GROUPS`.
    time_s: possible run times, longer than the job has run, sorted; empty for the last group.
    share: survival function at each time, given the time that the job has run.
    """

    group: int
    time_s: Floats
    share: Floats


class Forecast(NamedTuple):
    """Starts of the queued jobs in each future.

    jobs: their rows in the present table.
    start_s: (futures, jobs), infinite for a job that never starts.
    sources: distribution of the run time of each present job.
    batch_correlation: correlation of run times within a batch, in normal scores.
    days: number of whole days of arrivals in the history; 0 where nothing arrives later.
    """

    jobs: Ints
    start_s: Floats
    sources: list[RunTimes]
    batch_correlation: float
    days: int


def forecast(
    now: Present,
    policy: Callable[[], Policy],
    *,
    futures: int = FUTURES,
    arrivals: bool = True,
    seed: int = 0,
    done: Callable[[int], None] = lambda _: None,
) -> Forecast:
    """Return the starts of the queued jobs in simulated futures.

    policy: factory of the policy.
    arrivals: whether further jobs arrive.
    done: called with 1 after each future.
    """
    history = now.history
    sources = sources_of(now)
    batch, past_batch = batches(now.table), batches(history)
    like = batch_correlation(history, past_batch)
    days = days_of(history, now.past) if arrivals else []
    found = np.full((futures, len(now.queued)), np.inf)
    for number in range(futures):
        rng = stream(seed, "future", number)
        run_s = drawn_run_times(now, sources, batch, like, rng)
        numbers = rng.integers(len(days), size=DAYS[-1]) if days else np.zeros(0, np.int64)
        for length in DAYS:
            later = later_jobs(now.past, [days[each] for each in numbers[:length]], now.now_s)
            episode = now.episode(run_s, later, seed=seed + number)
            found[number] = starts(policy(), episode, now.queued, now.now_s)
            if not len(numbers) or found[number].max() < now.now_s + length * DAY_S:
                break
        done(1)
    return Forecast(now.queued, found, sources, like, len(days))


# Run times.


def owner_of(table: pd.DataFrame) -> "pd.Series[str]":
    """Return the user of each job, else its tenant, else its virtual cluster; empty strings without these columns."""
    for name in ("user", "tenant", "vc"):
        if name in table:
            return table[name].astype(str)
    return pd.Series("", index=table.index, dtype=str)


def sources_of(now: Present) -> list[RunTimes]:
    """Return the distribution of the run time of each present job.

    Running jobs count as censored observations, since recently finished jobs alone are biased towards short ones.
    """
    history, running = now.history, now.table[now.table["logged_start_s"].notna()]
    ran_s = now.now_s - running["logged_start_s"].to_numpy(float)
    begin_s = history["logged_start_s"] if "logged_start_s" in history else history["submit_s"]
    last = np.lexsort((np.concatenate([begin_s, running["logged_start_s"]]),))
    owner = np.concatenate([owner_of(history), owner_of(running)]).astype(str)[last]
    width = np.concatenate([history["num_gpus"], running["num_gpus"]]).astype(int)[last]
    run_s = np.concatenate([history["duration_s"], ran_s])[last]
    ended = (np.arange(len(last)) < len(history))[last]
    groups: list[dict[object, list[int]]] = [{}, {}, {}, {}]
    for row, (mine, wide) in enumerate(zip(owner.tolist(), width.tolist(), strict=True)):
        for group, key in zip(groups, ((mine, wide), mine, wide, None), strict=True):
            group.setdefault(key, []).append(row)
    curves = [
        {key: survival(run_s[rows[-RECENT:]], ended[rows[-RECENT:]]) for key, rows in group.items()}
        for group in groups
    ]
    found = []
    has_run_s = np.nan_to_num(now.now_s - now.start_s)
    for mine, wide, ran in zip(owner_of(now.table), now.table["num_gpus"], has_run_s, strict=True):
        keys: tuple[object, ...] = ((str(mine), int(wide)), str(mine), int(wide), None)
        known = ((number, curves[number][key]) for number, key in enumerate(keys) if key in curves[number])
        tries = (RunTimes(number, *_beyond(curve, float(ran))) for number, curve in known)
        enough = (each for each in tries if len(each.time_s) >= MIN_LONGER)
        found.append(next(enough, RunTimes(len(GROUPS) - 1, np.zeros(0), np.zeros(0))))
    return found


def survival(run_s: Floats, ended: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return the sorted run times of the jobs that ended, and the share of all jobs that run longer than each.

    This is the estimate of Kaplan and Meier (1958), in which jobs that have not ended are censored. Both arrays are
    empty for fewer than `MIN_JOBS` ended jobs.
    """
    if ended.sum() < MIN_JOBS:
        return np.zeros(0), np.zeros(0)
    order = np.lexsort((~ended, run_s))
    left = np.arange(len(order), 0, -1)
    share = np.asarray(np.cumprod(1 - ended[order] / left), np.float64)
    in_order = ended[order]
    return run_s[order][in_order], share[in_order]


def _beyond(curve: tuple[Floats, Floats], ran_s: float) -> tuple[Floats, Floats]:
    """Return a survival curve given that a job has run for some time."""
    time_s, share = curve
    at = int(np.searchsorted(time_s, ran_s, side="right"))
    before = share[at - 1] if at else 1.0
    return time_s[at:], share[at:] / before if before > 0 else share[at:]


def batches(table: pd.DataFrame) -> Ints:
    """Return the batch number of each job: a batch has one owner, one width and no long gap between submissions."""
    _, owner = np.unique(owner_of(table).to_numpy(str), return_inverse=True)
    width, submit_s = table["num_gpus"].to_numpy(int), table["submit_s"].to_numpy(float)
    order = np.lexsort((submit_s, width, owner))
    begins = np.ones(len(table), bool)
    same = (np.diff(owner[order]) == 0) & (np.diff(width[order]) == 0)
    begins[1:] = ~same | (np.diff(submit_s[order]) > BATCH_GAP_S)
    number = np.empty(len(table), np.int64)
    number[order] = np.cumsum(begins) - 1
    return number


def batch_correlation(history: pd.DataFrame, batch: Ints) -> float:
    """Return the correlation of the run times of successive jobs of a batch, in normal scores of their owner's jobs."""
    if len(history) < MIN_JOBS:
        return 0.0
    ranks = history["duration_s"].groupby(owner_of(history)).rank(pct=True, method="average").to_numpy(float)
    score = ndtri(np.clip(ranks, 1e-3, 1 - 1e-3))
    order = np.lexsort((history["submit_s"].to_numpy(float), batch))
    pair = np.diff(batch[order]) == 0
    if pair.sum() < MIN_JOBS:
        return 0.0
    before, after = score[order][:-1][pair], score[order][1:][pair]
    if not before.std() or not after.std():
        return 0.0
    return float(np.clip(np.corrcoef(before, after)[0, 1], 0.0, 0.99))


def drawn_run_times(
    now: Present, sources: Sequence[RunTimes], batch: Ints, like: float, rng: np.random.Generator
) -> Floats:
    """Sample a run time for each present job, longer than it has run and at most its limit."""
    of_batch = rng.standard_normal(int(batch.max()) + 1)[batch]
    share = ndtr(np.sqrt(like) * of_batch + np.sqrt(1 - like) * rng.standard_normal(len(batch)))
    ran_s = np.nan_to_num(now.now_s - now.start_s)
    limit_s = now.table["limit_s"].to_numpy(float)
    run_s = np.empty(len(batch))
    for job, (_, time_s, longer) in enumerate(sources):
        left = 1 - share[job]
        at = int(np.searchsorted(-longer, -left))  # the first time that at most this share of jobs survives
        if at < len(time_s):
            run_s[job] = time_s[at]
        elif len(time_s):  # beyond the longest ended job, P(run > x) falls as 1 / x
            run_s[job] = time_s[-1] * longer[-1] / left
        else:  # without data, the same beyond the time it has run; a queued job is uniform up to its limit
            run_s[job] = ran_s[job] / left if ran_s[job] > 0 else share[job] * limit_s[job]
    capped: Floats = np.minimum(run_s, np.maximum(limit_s, ran_s + 1.0))
    return capped


# Arrivals.


def days_of(history: pd.DataFrame, past: np.ndarray) -> list[Ints]:
    """Return the jobs of each whole day of a history, in the order of submission."""
    submit_s = history["submit_s"].to_numpy(float)
    if not len(submit_s):
        return []
    day = np.floor((submit_s - submit_s.min()) / DAY_S).astype(int)
    order = np.argsort(submit_s, kind="stable")
    return [order[day[order] == each] for each in range(int(day.max()))]  # without the last day, which is cut


def later_jobs(past: np.ndarray, days: Sequence[Ints], now_s: float) -> np.ndarray | None:
    """Return the jobs of some days of the history as future arrivals; None without any.

    days: rows in `past` of the jobs of each day, in the order of submission.
    """
    if not any(map(len, days)):
        return None
    rows = np.concatenate(days)
    day = np.repeat(np.arange(len(days)), [len(each) for each in days])
    since_s = (past["submit_s"][rows] - past["submit_s"].min()) % DAY_S
    order = np.lexsort((since_s, day))
    later = past[rows[order]]
    later["submit_s"] = now_s + day[order] * DAY_S + since_s[order]
    return later


# Futures.


def starts(policy: Policy, episode: Episode, jobs: Ints, now_s: float) -> Floats:
    """Return the starts of some jobs under a policy, infinite without a start.

    Under a ranking, the simulation stops after the last of them has started.
    """
    if not isinstance(policy, Ranking):
        run(policy, episode)
        return _starts(episode, jobs)
    set_up(policy, episode)
    step_s = DAY_S / 4
    until = now_s + step_s
    while True:
        episode.run_until(policy, until)
        found = _starts(episode, jobs)
        if (
            np.isfinite(found).all()
            or episode.done
            or (episode.nothing_pending and not len(episode.view.startable))
        ):
            return found
        step_s *= 2
        until += step_s


def _starts(episode: Episode, jobs: Ints) -> Floats:
    found: Floats = episode.state.start_s[jobs]
    return np.where(np.isnan(found), np.inf, found)


# Calibration.


class PastForecast(NamedTuple):
    """Forecast at a past time: quantiles of each queued job's wait from that time on, and its actual wait, s.

    at_s: the past time, on the clock of the log.
    """

    low_s: Floats
    middle_s: Floats
    high_s: Floats
    actual_s: Floats
    at_s: float = 0.0


class Calibration(NamedTuple):
    """Factors by which the lower and the upper half of an interval are stretched, on the logarithm of the wait.

    times: number of past times at which forecasts were compared with actual waits.
    jobs: number of their queued jobs.
    coverage: share of actual waits inside the interval before it is stretched, with equal weight per time.
    """

    low: float
    high: float
    times: int
    jobs: int
    coverage: float


def calibrated(found: Sequence[PastForecast]) -> Calibration:
    """Return the factors with which 5 % of the waits at another time lie below their intervals, and 5 % above.

    Past times have equal weight, and so do the jobs of a past time.
    """
    below, above = [], []
    for each in found:
        low, middle, high, was = (np.log(time_s + LOG_OFFSET_S) for time_s in each[:4])
        below.append((middle - was) / np.maximum(middle - low, MIN_HALF_WIDTH))
        above.append((was - middle) / np.maximum(high - middle, MIN_HALF_WIDTH))
    inside = [((a <= 1) & (b <= 1)).mean() for a, b in zip(below, above, strict=True)]
    jobs = sum(map(len, below))
    return Calibration(factor(below), factor(above), len(found), jobs, float(np.mean(inside)))


def factor(needed: Sequence[Floats]) -> float:
    """Return the factor of one half of the intervals. needed: by past time, the factor that each job would have needed.

    Jobs that queue at the same time have similar errors, so that the 95 % quantile of a few past times is too small for
    another time. The quantile is raised until factors from all past times but one suffice for 95 % of the jobs of that
    one, in the mean over past times (leave-one-out cross-validation).
    """
    places = range(len(needed))
    for level in LEVELS:
        others = ([*needed[:k], *needed[k + 1 :]] for k in places)
        missed = [(needed[k] > _quantile(each, level)).mean() for k, each in zip(places, others, strict=True)]
        if np.mean(missed) <= 1 - QUANTILES[-1]:
            break
    return max(_quantile(needed, level), MIN_FACTOR)


def _quantile(groups: Sequence[Floats], level: float) -> float:
    """Return a quantile of groups with equal weights: the least value up to which the weights sum to this level."""
    values = np.concatenate(groups)
    weights = np.concatenate([np.full(len(each), 1 / len(each)) for each in groups])
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order][min(int(np.searchsorted(total, level * total[-1])), len(order) - 1)])


def stretched(low_s: Floats, middle_s: Floats, high_s: Floats, by: Calibration) -> tuple[Floats, Floats]:
    """Return the ends of intervals of waits after calibration, s."""
    low, middle, high = (np.log(each + LOG_OFFSET_S) for each in (low_s, middle_s, high_s))
    down = middle - by.low * np.maximum(middle - low, MIN_HALF_WIDTH)
    up = middle + by.high * np.maximum(high - middle, MIN_HALF_WIDTH)
    return np.maximum(np.exp(down) - LOG_OFFSET_S, 0.0), np.exp(up) - LOG_OFFSET_S


def backtest(
    table: pd.DataFrame,
    scenario: Scenario,
    policy: Callable[[], Policy],
    *,
    now_s: float,
    times: int = PAST_TIMES,
    futures: int = PAST_FUTURES,
    held: Mapping[str, Any] | None = None,
    done: Callable[[int], None] = lambda _: None,
) -> list[PastForecast]:
    """Return forecasts at past times of a log, at equal distances over its later part, with the actual waits.

    Times without queued jobs, with a queued job that has not started until now, or at which jobs held more GPUs than
    the cluster has now, are left out.

    table: a job table with starts; NaN for jobs that have not started, and for unknown run times.
    now_s: the present.
    held: known nodes and GPUs of jobs by id, as in a snapshot.
    done: called with 1 after each time.
    """
    start_s, most = table["logged_start_s"], cluster_of(scenario.cluster_name).num_gpus
    end = start_s + table["duration_s"].fillna(np.inf)
    begin_s = float(table["submit_s"].min())
    waits = table["submit_s"][start_s.isna()]
    end_s = min(now_s, float(waits.min()) if len(waits) else np.inf)
    started = dict(zip(table["job_id"], start_s, strict=True))
    found = []
    for at in np.linspace(begin_s + WARM_UP_SHARE * (end_s - begin_s), end_s, times, endpoint=False):
        queued = table[(table["submit_s"] <= at) & (start_s > at) & (table["num_gpus"] > 0)]
        held_gpus = table["num_gpus"][(start_s <= at) & (end > at)].sum()
        if len(queued) and held_gpus <= most:
            now = present(replace(cut(table, float(at)), held=dict(held or {})), scenario)
            guess = forecast(now, policy, futures=futures)
            ids = now.table["job_id"].to_numpy()[guess.jobs]
            actual_s = np.array([started[each] for each in ids]) - at
            found.append(PastForecast(*waits_of(guess, at), actual_s, float(at)))
        done(1)
    return found


def waits_of(found: Forecast, now_s: float) -> tuple[Floats, Floats, Floats]:
    """Return the quantiles of each queued job's wait from now on, s, before calibration."""
    low, middle, high = np.quantile(found.start_s, QUANTILES, axis=0, method="inverted_cdf") - now_s
    return low, middle, high


# The command.


def main(args: Sequence[str] | None = None) -> int:
    """Print when the queued jobs of a snapshot start; return the exit code, 2 for an unreadable snapshot."""
    return command.run("gpu-cluster-gym forecast", work, args)


def work(args: Sequence[str]) -> None:
    """Print the forecast, and write it to a file on request."""
    chosen = parser().parse_args(args)
    snapshot, now, policy = decide.prepared(chosen)
    out = table.console(sys.stdout)
    at = clock_time(now.now_s + snapshot.zero_s, chosen.time_zone)
    if not len(now.queued):
        nothing = f"No job is queued on {now.cluster.name}, nothing to forecast (in a log, --at chooses another time)"
        notes = [f"Note: {note}." for note in now.notes]
        out.print(*at, nothing, *notes, sep="\n", markup=False, highlight=False)
        _write(no_rows(), now.now_s + snapshot.zero_s, chosen, out)
        return
    with command.progress("forecasting", chosen.futures) as done:
        found = forecast(
            now, policy, futures=chosen.futures, arrivals=not chosen.no_arrivals, seed=chosen.seed, done=done
        )
    by, why = _calibration(now, policy, chosen)
    rows = rows_of(now, found, by)
    out.print(
        *at,
        *about(chosen, now, found, by, why),
        "",
        *lines(rows, calibrated=by is not None, width=out.width),
        sep="\n",
        markup=False,
        highlight=False,
    )
    _write(rows, now.now_s + snapshot.zero_s, chosen, out)


def _write(rows: pd.DataFrame, at_s: float, chosen: argparse.Namespace, out: "Console") -> None:
    """Write the starts to the file of --csv, if there is one, and print its name. at_s: as for `on_clock`."""
    if chosen.csv:
        on_clock(rows, at_s, chosen.time_zone).to_csv(chosen.csv, index=False)
        unit = "" if at_s >= FIRST_DATE_S else ", s"
        out.print(f"Starts on the clock of the log{unit}: {chosen.csv}", markup=False, highlight=False)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    found = argparse.ArgumentParser("gpu-cluster-gym forecast", description=__doc__)
    decide.add_snapshot(found)
    found.add_argument(
        "--futures", type=_count, default=FUTURES, help=f"number of simulated futures; default: {FUTURES}"
    )
    found.add_argument(
        "--calibrate", type=_count, default=PAST_TIMES,
        help=f"number of past times at which forecasts are calibrated, 0 for none; default: {PAST_TIMES}",
    )  # fmt: skip
    found.add_argument("--no-arrivals", action="store_true", help="simulate no further arrivals")
    found.add_argument("--seed", type=_count, default=0, help="random seed; default: 0")
    found.add_argument(
        "--csv", help="CSV file for the forecast starts: dates, or seconds for a log without dates"
    )
    return found


def _count(text: str) -> int:
    """Return a whole number >= 0; ArgumentTypeError for another text."""
    if not text.isdecimal() or not text.isascii() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"expected a whole number >= 0, got {text!r}")
    return int(text)


def _calibration(
    now: Present, policy: Callable[[], Policy], chosen: argparse.Namespace
) -> tuple[Calibration | None, str]:
    """Return the calibration on the history, or None and the reason."""
    if not chosen.calibrate:
        return None, "--calibrate 0"
    if "logged_start_s" not in now.history:
        return None, "the history has no starts"
    if chosen.history:
        log, now_s = now.history, float((now.history["logged_start_s"] + now.history["duration_s"]).max())
    else:
        log, now_s = pd.concat([now.history, now.table], ignore_index=True), now.now_s
    if len(log) < MIN_JOBS:
        return None, f"the history has fewer than {MIN_JOBS} jobs"
    with command.progress("comparing with the past", chosen.calibrate) as done:
        found = backtest(log, now.scenario, policy, now_s=now_s, times=chosen.calibrate, done=done)
    if len(found) < MIN_PAST_TIMES:
        return (
            None,
            f"{len(found)} of {chosen.calibrate} past times can be compared, fewer than {MIN_PAST_TIMES}: jobs must "
            f"have queued, on no more GPUs than {now.cluster.name} has{_before_the_oldest(now, chosen)}",
        )
    by = calibrated(found)
    halves = {"lower": by.low, "upper": by.high}
    # Not a number where a job never started.
    far = [half for half, by_much in halves.items() if not by_much <= MAX_FACTOR]
    if far:
        return None, (
            f"at {by.times} past times {100 * by.coverage:.0f} % of {by.jobs:,} jobs were within 90 % intervals, whose "
            f"{' and '.join(far)} halves would have to be more than {MAX_FACTOR:g} times as long on a "
            f"logarithmic scale: the history is too short, or the log had another scheduler than {chosen.policy} "
            "(compare candidates with `gpu-cluster-gym evaluate --full-trace` and pass the nearest as --policy), or "
            "partitions and limits that are not simulated"
        )
    return by, ""


def _before_the_oldest(now: Present, chosen: argparse.Namespace) -> str:
    """Return a clause on the job that has queued for longest, before which past times lie; none with --history."""
    if chosen.history:
        return ""
    oldest = now.table.iloc[now.queued].nsmallest(1, "submit_s").iloc[0]
    waited = duration(now.now_s - float(oldest["submit_s"]))
    return f", before the submission of the job that has queued for longest ({oldest['job_id']}, {waited})"


def clock_time(time_s: float, zone: str | None) -> list[str]:
    """Return a line on the time of the snapshot by the clock; none for a log without dates.

    time_s: s since 1970, or since the first submission of a log without dates.
    """
    if time_s < FIRST_DATE_S:
        return []
    return [f"Snapshot of {local_time(time_s, zone):%Y-%m-%d %H:%M:%S %Z}; starts count from then"]


def on_clock(rows: pd.DataFrame, at_s: float, zone: str | None) -> pd.DataFrame:
    """Return the rows of `rows_of` with starts on the clock of the log.

    at_s: the time of the snapshot, as in `clock_time`. For a log with dates, `low`, `middle` and `high` are dates and
    times with their offset from UTC, in ISO 8601; otherwise `low_s`, `middle_s` and `high_s` are seconds. A start is
    empty where the job never starts, and as a date also from `LAST_DATE_S` on, since years of dates end at 9999.
    """
    found = rows.copy()
    for name in ("low", "middle", "high"):
        time_s = (rows[f"{name}_s"] + at_s).replace(np.inf, np.nan)
        if at_s < FIRST_DATE_S:
            found[f"{name}_s"] = time_s
        else:
            dates = [local_time(each, zone).isoformat() if each < LAST_DATE_S else "" for each in time_s]
            found = found.assign(**{f"{name}_s": dates}).rename(columns={f"{name}_s": name})
    return found


def rows_of(now: Present, found: Forecast, by: Calibration | None) -> pd.DataFrame:
    """Return a row per queued job: id, owner, GPUs, wait so far, and quantiles of its remaining wait, s."""
    low, middle, high = waits_of(found, now.now_s)
    if by:
        low, high = stretched(low, middle, high, by)
    rows = now.table.iloc[found.jobs]
    return pd.DataFrame(
        {
            "job_id": rows["job_id"].to_numpy(),
            "owner": owner_of(rows).to_numpy(),
            "num_gpus": rows["num_gpus"].to_numpy(),
            "waited_s": now.now_s - rows["submit_s"].to_numpy(float),
            "low_s": low,
            "middle_s": middle,
            "high_s": high,
        }
    )


def no_rows() -> pd.DataFrame:
    """Return the table of `rows_of` without rows."""
    names = ("job_id", "owner", "num_gpus", "waited_s", "low_s", "middle_s", "high_s")
    return pd.DataFrame({name: np.zeros(0) for name in names})


def about(
    chosen: argparse.Namespace, now: Present, found: Forecast, by: Calibration | None, why: str
) -> list[str]:
    """Return the lines on the inputs of the forecast."""
    groups = Counter(GROUPS[source.group] for source in found.sources)
    drawn = ", ".join(f"{name} {count:,}" for name, count in groups.most_common())
    later = (
        f"random days out of {found.days:,} whole days of the history"
        if found.days
        else "none"
        if chosen.no_arrivals
        else "none, since the history has no whole day"
    )
    lines = [
        f"{len(now.table) - len(found.jobs):,} running and {len(found.jobs):,} queued jobs on {now.cluster.name}; "
        f"policy {chosen.policy}, {chosen.futures:,} futures",
        f"Run times sampled from {len(now.history):,} finished jobs, of the same (number of jobs): {drawn}; "
        f"correlation within a batch {found.batch_correlation:.2f}",
        f"Later arrivals: {later}",
    ]
    if by:
        lines.append(
            f"Calibrated at {by.times} past times: {100 * by.coverage:.0f} % of {by.jobs:,} waits were inside their "
            f"intervals, whose lower halves are stretched by {by.low:.2f}, upper halves by {by.high:.2f}, to cover 90 %"
        )
    else:
        lines.append(f"Not calibrated ({why}): intervals are too narrow, since errors of jobs are correlated")
    return [*lines, *(f"Note: {note}." for note in now.notes)]


def lines(rows: pd.DataFrame, *, calibrated: bool, width: int = table.PLAIN_WIDTH) -> list[str]:
    """Return the table of starts as lines, the earliest first; ends of uncalibrated intervals have a question mark.

    width: characters of a line, up to which jobs and owners are as wide as the longest; longer ones keep their end.
    """
    heads = ("waited", "5 %", "50 %", "95 %") if calibrated else ("waited", "5 % (?)", "50 %", "95 % (?)")
    room = max(width - 6 - 12 * len(heads), 26)
    job, owner = (
        max([least, *rows[name].astype(str).str.len() + 1]) for name, least in (("job_id", 16), ("owner", 14))
    )
    owner = min(owner, max(10, room - job))
    job = min(job, room - owner)
    found = [f"{'job':>{job}}{'owner':>{owner}}{'GPUs':>6}" + "".join(f"{head:>12}" for head in heads)]
    for row in rows.sort_values("middle_s", kind="stable").itertuples():
        spans = (row.waited_s, row.low_s, row.middle_s, row.high_s)
        cells = "".join(
            f"{'never' if np.isinf(each) else duration(each):>12}" for each in map(float, map(str, spans))
        )
        names = f"{_end_of(str(row.job_id), job - 1):>{job}}{_end_of(str(row.owner), owner - 1):>{owner}}"
        found.append(f"{names}{row.num_gpus:6}{cells}")
    return found


def _end_of(text: str, width: int) -> str:
    """Return a text, or its end after three dots if it is longer than this."""
    return text if len(text) <= width else f"...{text[3 - width :]}"
