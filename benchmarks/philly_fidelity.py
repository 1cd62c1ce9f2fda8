"""Fidelity of the generated Philly jobs: statistics of the log and of the generator side by side.

    python -m benchmarks.philly_fidelity [--file jobs.csv.gz] [--seed 0] [--seeds 5]

The file is a table with `submit_s, num_gpus, duration_s, vc, passed` (1 or 0); if it has `submitted_time`, it is cut to
the days that the generator was fitted on. Without a file, the published statistics stand for the log. Mean, minimum and
maximum over several seeds are printed, since the number of busy days varies between seeds. Windows are cut from each
generated table as from the log; the last column has windows that are generated with a seed each, as in simulations.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpu_cluster_gym import traces
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.traces import STATISTICS, runs
from gpu_cluster_gym.workloads import Scenario, filled, prepare
from gpu_cluster_gym.workloads._windows import ACCEPTANCE, SRTF, in_range

Figures = dict[str, float]

FITTED = ("2017-09-24", "2017-11-14")
SPANS_S = {"1min": 60, "10min": 600, "1h": 3_600, "6h": 21_600, "1d": 86_400}
BUCKETS = {"1": (1, 1), "2": (2, 2), "3-4": (3, 4), "5-8": (5, 8), "9-16": (9, 16), ">16": (17, 10_000)}
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
SIZE_LEVELS = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
LAGS = (1, 10, 200)
WINDOW, WINDOWS = 512, 100
RATIO, UTILISATION = "JCT / run time", "GPU utilisation"


def figures(table: pd.DataFrame) -> Figures:
    """Return the compared statistics of a table with submit_s, num_gpus, duration_s, vc and passed."""
    return mix(table) | durations(table) | burstiness(table["submit_s"].to_numpy()) | batches(table)


def mix(table: pd.DataFrame) -> Figures:
    """Return the shares of GPU counts, of virtual clusters and of passed jobs."""
    gpus, passed = table["num_gpus"], table["passed"]
    shares = {f"share of {count}-GPU jobs": float((gpus == count).mean()) for count in (1, 2, 4, 8, 16)}
    clusters = {f"share of vc {name}": float((table["vc"] == name).mean()) for name in clusters_by_size()}
    kept = {f"passed, {name} GPUs": float(passed[members(table, name)].mean()) for name in BUCKETS}
    return shares | clusters | {"passed": float(passed.mean())} | kept


def durations(table: pd.DataFrame) -> Figures:
    """Return quantiles of the duration by GPU bucket, and the mean number of GPUs in use if no job waited."""
    span = table["submit_s"].iloc[-1] - table["submit_s"].iloc[0]
    held = float((table["num_gpus"] * table["duration_s"]).sum() / span)
    cells = {name: table["duration_s"][members(table, name)] for name in BUCKETS}
    return {
        f"duration, {name} GPUs, {level:.0%}": float(cell.quantile(level))
        for name, cell in cells.items()
        for level in LEVELS
    } | {"GPUs held if no job waited": held}


def burstiness(submit_s: npt.NDArray[np.float64]) -> Figures:
    """Return the variance of arrival counts over their mean, for spans from a minute to a day."""
    found = {}
    for name, span in SPANS_S.items():
        counts = np.bincount(((submit_s - submit_s[0]) // span).astype(int))[:-1]
        found[f"Fano factor, {name}"] = float(counts.var() / counts.mean())
    return found


def batches(table: pd.DataFrame) -> Figures:
    """Return the sizes of batches of similar jobs (at most 60 s apart) and the similarity of their durations."""
    log = np.log(table["duration_s"].to_numpy())
    first = runs(table["vc"].to_numpy(), table["num_gpus"].to_numpy(), table["submit_s"].to_numpy())
    _, batch, size = np.unique(first, return_inverse=True, return_counts=True)
    rest = log - (np.bincount(batch, weights=log) / size)[batch]
    within = np.sqrt(np.bincount(batch, weights=rest**2)[size > 1] / (size[size > 1] - 1))
    found = {f"batch size, {level:.1%}": float(np.quantile(size, level)) for level in SIZE_LEVELS}
    found["mean batch size"] = float(size.mean())
    found["share of jobs in batches >= 10"] = float(size[size >= 10].sum() / size.sum())
    found["log duration variance between batches"] = float(
        1 - (rest**2).sum() / ((log - log.mean()) ** 2).sum()
    )
    found["median log duration deviation in batches"] = float(np.median(within))
    own = [log[table["vc"].to_numpy() == name] for name in table["vc"].unique()]
    for lag in LAGS:
        pairs = [np.stack([one[:-lag], one[lag:]]) for one in own if len(one) > lag]
        found[f"log duration autocorrelation, {lag}"] = float(np.corrcoef(np.hstack(pairs))[0, 1])
    return found


def windows(tables: list[pd.DataFrame]) -> Figures:
    """Return statistics of windows of consecutive jobs on 64 GPUs under SRTF, of all and of accepted windows."""
    every = pd.DataFrame([window(table, seed) for seed, table in enumerate(tables)])
    accepted = every[[in_range(ratio) for ratio in every[RATIO]]]
    found = {"share of windows accepted": len(accepted) / len(every)}
    for which, some in (("all", every), ("accepted", accepted)):
        for name in every:
            for level in (0.1, 0.5, 0.9):
                found[f"{name}, {which}, {level:.0%}"] = float(some[name].quantile(level))
        found[f"{UTILISATION}, {which}, mean"] = float(some[UTILISATION].mean())
    return found


def window(table: pd.DataFrame, seed: int) -> Figures:
    """Return the figures of a window, times in hours; SRTF runs with the settings `ACCEPTANCE`, as for acceptance."""
    jobs = traces.check(table[["job_id", "submit_s", "num_gpus", "duration_s", "vc"]].reset_index(drop=True))
    scenario = Scenario(physics="exclusive")  # logged run times include start-ups
    filled_in = filled(jobs, scenario, seed=seed)
    workload = prepare(filled_in, replace(scenario, drop_too_large=True, **ACCEPTANCE))
    finish_s = run(SRTF, workload.episode()).state.finish_s[: len(workload.jobs)]
    submit_s, duration_s, gpus = (workload.jobs[name] for name in ("submit_s", "duration_s", "num_gpus"))
    makespan_s = finish_s.max() - submit_s.min()
    return {
        "span (h)": (submit_s.max() - submit_s.min()) / 3600,
        "mean duration (h)": duration_s.mean() / 3600,
        "share of longest 5 %": np.sort(duration_s)[-(WINDOW // 20) :].sum() / duration_s.sum(),
        RATIO: (finish_s - submit_s).mean() / duration_s.mean(),
        UTILISATION: (gpus * duration_s).sum() / (workload.cluster.num_gpus * makespan_s),
    }


def cut(table: pd.DataFrame) -> list[pd.DataFrame]:
    """Return evenly spaced windows of a table."""
    starts = np.linspace(0, len(table) - WINDOW, WINDOWS).astype(int)
    return [table[start : start + WINDOW] for start in starts]


def published() -> Figures:
    """Return the figures that the published statistics have."""
    statistics = json.loads(STATISTICS.read_text())
    arrivals, length = statistics["arrivals"], statistics["duration_s"]["by_gpu_bucket"]
    levels, batch = statistics["quantile_levels"], arrivals["batch_gap_60s"]
    succession = statistics["succession_within_vc"]["log_duration_autocorrelation"]
    passed = statistics["status"]["passed_share_by_gpu_bucket"]
    share = statistics["gpu_count"]["share_of_jobs"]
    clusters = statistics["virtual_clusters"]
    found = {f"share of {count}-GPU jobs": share[str(count)] for count in (1, 2, 4, 8, 16)}
    found |= {f"share of vc {name}": clusters[name]["share_of_jobs"] for name in clusters_by_size()}
    found |= {"passed": statistics["status"]["passed_share_jobs"]}
    found |= {f"passed, {name} GPUs": passed[name] for name in BUCKETS}
    for name in BUCKETS:
        for level in LEVELS:
            found[f"duration, {name} GPUs, {level:.0%}"] = length[name]["quantiles"][levels.index(level)]
    found |= {f"Fano factor, {name}": arrivals["counts"][name]["fano"] for name in SPANS_S}
    sizes = batch["size_quantiles_50_75_90_95_99_999_max"]
    found |= {f"batch size, {level:.1%}": size for level, size in zip(SIZE_LEVELS, sizes, strict=False)}
    found["mean batch size"] = batch["mean_size"]
    found["share of jobs in batches >= 10"] = batch["share_of_jobs_in_batches_of_10_or_more"]
    found["log duration variance between batches"] = batch["log_duration_variance_explained_by_batch"]
    found["median log duration deviation in batches"] = batch["within_batch_log_duration_std_median"]
    found |= {f"log duration autocorrelation, {lag}": succession[str(lag)] for lag in LAGS}
    return found | {name: figure for name, figure in statistics["windows"].items() if name != "definition"}


def members(table: pd.DataFrame, bucket: str) -> "pd.Series[bool]":
    """Return whether each job is in a bucket of GPU counts: bool, a row per job."""
    return table["num_gpus"].between(*BUCKETS[bucket])


def clusters_by_size() -> list[str]:
    """Return the names of the eight largest virtual clusters."""
    clusters: dict[str, Any] = json.loads(STATISTICS.read_text())["virtual_clusters"]
    return sorted(clusters, key=lambda name: -clusters[name]["jobs"])[:8]


def read_log(file: Path) -> pd.DataFrame:
    """Read the jobs of the log, cut to the fitted days if it has `submitted_time`."""
    table = pd.read_csv(file, dtype={"job_id": str, "vc": str})
    if "submitted_time" in table:
        table = table[table["submitted_time"].between(*FITTED)]
    return table.sort_values("submit_s", kind="stable").reset_index(drop=True)


def generated(seed: int, jobs: int) -> pd.DataFrame:
    """Return generated jobs with a column `passed`."""
    table = traces.load("philly", seed=seed, jobs=jobs)
    return table.assign(passed=(table["status"] == "Pass").astype(int))


def main() -> None:
    """Print the statistics of the log and of the generator."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--file", type=Path, help="job table of the log; default: the published statistics")
    flags.add_argument("--seed", type=int, default=0)
    flags.add_argument("--seeds", type=int, default=5, help="number of seeds, from --seed on")
    choices = flags.parse_args()
    log, jobs = published(), 82_163
    if choices.file:
        table = read_log(choices.file)
        jobs = len(table)
        log = figures(table) | windows(cut(table))
    seeds = range(choices.seed, choices.seed + choices.seeds)
    tables = [generated(seed, jobs) for seed in seeds]
    drawn = pd.DataFrame([figures(table) | windows(cut(table)) for table in tables])
    own_seeds = [traces.seed_from(choices.seed, "window", number) for number in range(WINDOWS)]
    separate = windows([generated(seed, WINDOW) for seed in own_seeds])
    print(f"{'':44}{'philly':>11}{'generator':>11}{'min':>11}{'max':>11}{'own seeds':>11}")
    for name, cells in drawn.items():
        found = [log.get(str(name), np.nan), cells.mean(), cells.min(), cells.max()]
        found += [separate[str(name)]] if name in separate else []
        print(f"{name!s:44}" + "".join(f"{number:11.4g}" for number in found))
    print(
        f"\n{WINDOWS} windows of {WINDOW} jobs. JCT / run time: the ratio of the means under SRTF, by which windows "
        "are accepted. GPU utilisation: GPU-seconds of run time over GPUs x makespan. Own seeds: a seed per window."
    )


if __name__ == "__main__":
    main()
