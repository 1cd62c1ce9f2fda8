"""Arrivals of batches in the Philly log and the similarity of their jobs: statistics and fitted parameters.

    python -m benchmarks.philly_batches [--file jobs.csv.gz [--write]]

The file is a table with `submitted_time, submit_s, num_gpus, duration_s, vc, passed`, of which the days that the
generator was fitted on are used. `--write` writes the blocks `batch_process` and `windows` into
`traces/data/philly_statistics.json`. Without a file, `batch_process` is read from there. The fitted parameters are
printed; `traces/_philly_generator.py` has them rounded.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import least_squares
from scipy.special import ndtri

from benchmarks.philly_fidelity import BUCKETS, cut, members, read_log, windows
from gpu_cluster_gym.traces import STATISTICS, runs

Floats = npt.NDArray[np.float64]

MIN_LARGE = 10  # jobs in a large batch
CLASSES = ("small_1gpu", "large_1gpu", "more_gpus")
LAGS = (1, 2, 3, 5, 10, 20, 50)
RATE_LAGS_H = (0, 1, 2, 3, 6, 12, 24, 48, 72)
ITERATIONS = 60  # each reduces the remaining error by the factor `continues`
MIN_BATCHES = 25  # batches of a virtual cluster whose correlations are computed
PROBE_S, PROBE_OFF_S = 600, 2
DEFINITION = (
    "batches as in batch_gap_60s, less the periodic probe (1-GPU jobs of VC 11cb48, alone in their batch, with "
    "another 600 s before or after). Large: 1-GPU batches of 10 jobs or more. Scores: normal scores of durations "
    "among jobs of the same class, GPU bucket and passed flag. Autocorrelations: of the mean scores of successive "
    "batches of a virtual cluster. Rates: pairs of batches of a virtual cluster at these distances in hours, over "
    "those expected by hour and weekday, less 1"
)

WINDOWS_DEFINITION = (
    "100 windows of 512 consecutive jobs, evenly spaced; ratio: mean JCT over mean run time under SRTF on 64 GPUs, by "
    "which windows are accepted; utilisation: GPU-seconds of run time over GPUs x makespan there; see "
    "benchmarks/philly_fidelity.py"
)


def block(log: pd.DataFrame) -> dict[str, Any]:
    """Return the statistics of the log's batches."""
    jobs = with_batches(log)
    batches = jobs.groupby("batch").agg(
        vc=("vc", "first"),
        kind=("kind", "first"),
        hour=("hour", "first"),
        submit_s=("submit_s", "first"),
        size=("vc", "size"),
        score=("score", "mean"),
    )
    batches = batches.sort_values("submit_s", kind="stable")
    large = batches["kind"] == CLASSES[1]
    halves = {"small": batches[~large], "large": batches[large]}
    return {
        "definition": DEFINITION,
        "large_batches": {
            str(vc): {"batches": len(own), "mean_size": rounded(own["size"].mean())}
            for vc, own in halves["large"].groupby("vc")
        },
        "classes": {kind: class_statistics(jobs[jobs["kind"] == kind]) for kind in CLASSES},
        "score_autocorrelation": {
            name: {str(lag): rounded(autocorrelation(own, lag)) for lag in LAGS}
            for name, own in halves.items()
        },
        "rate_correlation_by_hours": {
            name: {str(lag): rounded(rate_correlation(own, lag)) for lag in RATE_LAGS_H}
            for name, own in halves.items()
        },
    }


def with_batches(log: pd.DataFrame) -> pd.DataFrame:
    """Return the jobs without those of the probe, with batch, class of the batch, score, and hour since a Monday."""
    jobs = log.copy()
    jobs["batch"] = runs(log["vc"].to_numpy(), log["num_gpus"].to_numpy(), log["submit_s"].to_numpy())
    size = jobs.groupby("batch")["vc"].transform("size")
    times = pd.to_datetime(jobs["submitted_time"])
    jobs["hour"] = (times - times.iloc[0].normalize()).dt.total_seconds() / 3600
    jobs["hour"] += 24 * times.iloc[0].weekday()
    jobs["kind"] = np.select(
        [jobs["num_gpus"] > 1, size >= MIN_LARGE], [CLASSES[2], CLASSES[1]], default=CLASSES[0]
    )
    like_probe = (jobs["vc"] == "11cb48") & (jobs["num_gpus"] == 1) & (size == 1)
    at = jobs["submit_s"][(jobs["vc"] == "11cb48") & (jobs["num_gpus"] == 1)].to_numpy()
    probe = like_probe & (near(jobs["submit_s"] - PROBE_S, at) | near(jobs["submit_s"] + PROBE_S, at))
    kept: pd.DataFrame = jobs[~probe].copy()
    kept["score"] = scores(kept)
    return kept


def near(times: pd.Series, at: Floats) -> Any:
    """Return for each time whether one of `at`, in ascending order, is within two seconds of it."""
    place = np.minimum(np.searchsorted(at, times - PROBE_OFF_S), len(at) - 1)
    return np.abs(at[place] - times) <= PROBE_OFF_S


def scores(jobs: pd.DataFrame) -> pd.Series:
    """Return the normal score of each duration among jobs of its class, GPU bucket and passed flag."""
    bucket = np.select([members(jobs, name) for name in BUCKETS], range(len(BUCKETS)))
    among = jobs["duration_s"].groupby([jobs["kind"].to_numpy(), bucket, jobs["passed"].to_numpy()])
    return pd.Series(ndtri((among.rank() - 0.5) / among.transform("size")), jobs.index)


def class_statistics(jobs: pd.DataFrame) -> dict[str, Any]:
    """Return the number, passed share and durations of the jobs of a class."""
    return {
        "batches": jobs["batch"].nunique(),
        "jobs": len(jobs),
        "passed_share": rounded(jobs["passed"].mean()),
        "duration_s": {
            name: duration_statistics(jobs["duration_s"][jobs["passed"] == passed])
            for passed, name in enumerate(("not_passed", "passed"))
        },
    }


def duration_statistics(duration_s: pd.Series) -> dict[str, Any]:
    """Return number, mean logarithm and quantiles of durations."""
    levels = json.loads(STATISTICS.read_text())["quantile_levels"]
    return {
        "n": len(duration_s),
        "log_mean": rounded(np.log(duration_s).mean()),
        "quantiles": [rounded(quantile) for quantile in duration_s.quantile(levels)],
    }


def autocorrelation(batches: pd.DataFrame, lag: int) -> float:
    """Return the correlation of mean scores `lag` batches apart in a virtual cluster, over all clusters."""
    pairs = []
    for _, own in batches.groupby("vc"):
        if len(own) >= MIN_BATCHES:
            score = own["score"].to_numpy() - own["score"].mean()
            pairs.append(np.stack([score[:-lag], score[lag:]]))
    one, other = np.hstack(pairs)
    return float((one * other).mean() / np.sqrt((one**2).mean() * (other**2).mean()))


def rate_correlation(batches: pd.DataFrame, lag: int) -> float:
    """Return the pairs of a cluster's batches `lag` hours apart, over those expected by hour and weekday, less 1."""
    arrivals = json.loads(STATISTICS.read_text())["arrivals"]
    hours, days = (np.array(arrivals[f"share_by_{unit}"]) for unit in ("hour_of_day", "day_of_week_mon0"))
    first, last = int(np.ceil(batches["hour"].min())), int(batches["hour"].max())
    week = np.outer(days, hours).ravel()[np.arange(first, last) % 168]
    pairs = expected = 0.0
    for _, own in batches.groupby("vc"):
        if len(own) < MIN_BATCHES:
            continue
        in_hour = own["hour"][own["hour"].between(first, last, inclusive="left")].astype(int) - first
        counts = np.bincount(in_hour, minlength=last - first)
        mean = counts.mean() * week / week.mean()
        pairs += (counts[: len(counts) - lag] * counts[lag:]).sum() - counts.sum() * (lag == 0)
        expected += (mean[: len(mean) - lag] * mean[lag:]).sum()
    return float(pairs / expected - 1)


def fitted(process: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that fit a block, with the names in `Parameters`."""
    fits = [fit_continuation(process["score_autocorrelation"][half]) for half in ("small", "large")]
    return {
        "continues": tuple(continues for continues, _ in fits),
        "recent": tuple(recent for _, recent in fits),
        "modulations": tuple(
            fit_modulations(process["rate_correlation_by_hours"][half]) for half in ("small", "large")
        ),
    }


def fit_continuation(found: dict[str, float]) -> tuple[float, float]:
    """Return the share of batches that continue earlier work, and the exponent of the distance to that work.

    A third parameter of the fit is the share of the variance of a batch's mean score that the work explains.
    """
    wanted = np.array(list(found.values()))
    lags = [int(lag) for lag in found]

    def residuals(at: Floats) -> Floats:
        off: Floats = at[2] * same_work(at[0], at[1])[lags] - wanted
        return off

    fit = least_squares(residuals, (0.6, 0.7, 0.8), bounds=(0, (1, 9, 1)))
    return fit.x[0], fit.x[1]


def same_work(continues: float, recent: float, lags: int = 300) -> Floats:
    """Return the probability, by lag, that two batches of a stream belong to the same work.

    They do if the later one continues a batch of that work: p[k] = continues * sum over m of
    (m^-recent - (m + 1)^-recent) * p[|k - m|].
    """
    back = np.arange(1.0, lags + 1) ** -recent
    back -= np.arange(2.0, lags + 2) ** -recent
    lag = np.arange(lags)
    earlier, later = lag[:, None] - lag - 1, lag[:, None] + lag - 1  # m - 1 where |k - m| is the column
    chances = np.where(earlier >= 0, back[np.maximum(earlier, 0)], 0)
    chances += np.where((lag > 0) & (later < lags), back[np.clip(later, 0, lags - 1)], 0)
    chances[0] = 0
    same = np.zeros(lags)
    same[0] = 1.0
    for _ in range(ITERATIONS):
        same[1:] = continues * (chances[1:] * same).sum(axis=1)
    return same


def fit_modulations(found: dict[str, float]) -> Any:
    """Return the correlation per hour and the deviation of a fast and a slow modulation of the rate.

    For lognormal modulations, the correlation of the rates is exp(sum of deviation^2 * correlation^hours) - 1.
    """
    wanted, hours = np.log1p(list(found.values())), np.array([int(lag) for lag in found])

    def residuals(at: Floats) -> Floats:
        off: Floats = at[1] ** 2 * at[0] ** hours + at[3] ** 2 * at[2] ** hours - wanted
        return off

    fit = least_squares(residuals, (0.5, 0.7, 0.98, 0.5), bounds=((0, 0, 0.9, 0), (0.9, 3, 0.999, 3)))
    return tuple(map(tuple, fit.x.reshape(2, 2)))


def rounded(number: float) -> float:
    """Return a number with six significant digits."""
    return float(f"{number:.6g}")


def main() -> None:
    """Print the block and the fitted parameters."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--file", type=Path, help="job table of the log")
    flags.add_argument("--write", action="store_true", help="put the block into the published statistics")
    choices = flags.parse_args()
    statistics = json.loads(STATISTICS.read_text())
    process = block(read_log(choices.file)) if choices.file else statistics["batch_process"]
    print(json.dumps(process, indent=1))
    if choices.file and choices.write:
        figures = {name: rounded(figure) for name, figure in windows(cut(read_log(choices.file))).items()}
        added = {"batch_process": process, "windows": {"definition": WINDOWS_DEFINITION, **figures}}
        STATISTICS.write_text(json.dumps(statistics | added, indent=1) + "\n")
    for name, values in fitted(process).items():
        print(f"{name:12}", json.dumps(values, default=float))


if __name__ == "__main__":
    main()
