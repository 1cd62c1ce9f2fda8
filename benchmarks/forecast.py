"""Coverage of forecasts on the later part of two logs, and the time of a decision with 10,000 queued jobs.

Neither log has starts, so EASY gives them on a cluster of a size at which jobs queue; forecasts know what a scheduler
would: the places of running jobs, one time limit for all jobs, and the run times of jobs that have ended. A forecast is
calibrated on forecasts at earlier times whose outcomes were known by then.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpu_cluster_gym import baselines, traces
from gpu_cluster_gym.evaluation import decide, forecast
from gpu_cluster_gym.evaluation.forecast import PastForecast
from gpu_cluster_gym.simulator.account import Account
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import Scenario, filled, prepare, present

DAY_S = 86_400.0
LOGS = {"philly": 215, "dlrm": 19}
"""Number of nodes of eight GPUs for each log."""
RESAMPLES = 4_999
QUEUED, RUNNING = 10_000, 400
TIMED, REPEATS = ("fifo", "easy", "sjf", "srtf", "xion"), 50


def philly(folder: Path) -> pd.DataFrame:
    """Return the jobs of Philly from day 40 on, when its log is complete; their owners are virtual clusters."""
    table = traces.load(file=folder / "philly" / "philly_jobs_first75.csv.gz", seed=0)
    return table[table["submit_s"] >= 40 * DAY_S][["job_id", "submit_s", "num_gpus", "duration_s", "vc"]]


def dlrm(folder: Path) -> pd.DataFrame:
    """Return the instances with GPUs of Alibaba's trace of 2025 that began and ended in it, by application."""
    log = pd.read_csv(folder / "alibaba" / "disaggregated_DLRM_trace_v2025.csv.gz")
    log = log[(log["gpu_request"] > 0) & (log["deletion_time"] > log["creation_time"])]
    columns = {
        "job_id": "instance_sn",
        "submit_s": "creation_time",
        "num_gpus": "gpu_request",
        "user": "app_name",
    }
    table = pd.DataFrame({name: log[heading] for name, heading in columns.items()})
    table["num_gpus"] = table["num_gpus"].astype(int)
    table["duration_s"] = log["deletion_time"] - log["creation_time"]
    return table.sort_values("submit_s", kind="stable")


def scheduled(table: pd.DataFrame, rules: Scenario) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the jobs with the starts that EASY gives them, and the nodes and GPUs that each held, by id."""
    limit_s = float(table["duration_s"].max())
    columns = ("time_limit_s", "profiled_duration_s", "predicted_duration_s")
    table = table.reset_index(drop=True).assign(predictable_from=1.0, **dict.fromkeys(columns, limit_s))
    table.attrs = {"notes": [], "origin": {}}
    work = prepare(filled(table, rules, seed=0), rules)
    account = Account()
    found = work.results(run(baselines.make(baselines.load("easy")), work.episode(), account=account))
    names, held, width = work.cluster.node_names, {}, work.cluster.node_gpus[0]
    ids = work.table["job_id"].to_numpy()
    for job, gpus in zip(account.holdings()["job"], account.holdings()["gpus"], strict=True):
        nodes = sorted({gpu // width for gpu in gpus})
        inside = [tuple(gpu % width for gpu in gpus if gpu // width == node) for node in nodes]
        held[ids[job]] = [(names[node], len(own), own) for node, own in zip(nodes, inside, strict=True)]
    kept = [
        name
        for name in ("job_id", "submit_s", "num_gpus", "duration_s", "time_limit_s", "user", "vc")
        if name in table
    ]
    log = work.table[kept].assign(logged_start_s=found["start_s"].to_numpy())
    log.attrs = {"notes": [], "origin": {}}
    return log, held


def covered(found: Sequence[PastForecast]) -> tuple[list[float], list[float]]:
    """Return the share of jobs within their interval at each later time, before and after calibration."""
    raw, after = [], []
    for place, each in enumerate(found):
        known = [past for past in found[:place] if past.at_s + past.actual_s.max() < each.at_s][
            -forecast.PAST_TIMES :
        ]
        if len(known) < forecast.MIN_PAST_TIMES:
            continue
        ends = forecast.stretched(each.low_s, each.middle_s, each.high_s, forecast.calibrated(known))
        raw.append(_within(each.actual_s, each.low_s, each.high_s))
        after.append(_within(each.actual_s, *ends))
    return raw, after


def _within(actual_s: np.ndarray, low_s: np.ndarray, high_s: np.ndarray) -> float:
    return float(((actual_s >= low_s - 1) & (actual_s <= high_s + 1)).mean())


def interval(shares: Sequence[float]) -> str:
    """Return a mean in per cent with its 95 % interval, by bootstrap over times."""
    values = np.array(shares)
    rows = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.quantile(values[rows].mean(axis=1), (0.025, 0.975))
    return f"{100 * values.mean():.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def coverage(name: str, folder: Path, times: int) -> str:
    """Return a line on the coverage of 90 % intervals on a log."""
    jobs = {"philly": philly, "dlrm": dlrm}[name](folder)
    nodes = [{"name": f"n{each:04d}", "gres": "gpu:8", "cpus": 48} for each in range(LOGS[name])]
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "nodes.json"
        file.write_text(json.dumps({"nodes": nodes}), encoding="utf-8")
        rules = Scenario(cluster=str(file), physics="estimates", drop_too_large=True)
        log, held = scheduled(jobs, rules)
        policy = partial(baselines.make, baselines.load("easy"))
        end_s = float(log["submit_s"].max())
        found = forecast.backtest(log, rules, policy, now_s=end_s, times=times, held=held)
    raw, after = covered(found)
    count = sum(len(each.actual_s) for each in found[-len(after) :])
    return (
        f"{name} on {LOGS[name]}x8: {len(after)} times, {count:,} queued jobs: 90 % intervals hold "
        f"{interval(after)}; before calibration {interval(raw)}"
    )


def latency() -> list[str]:
    """Return lines on the times of decisions with 10,000 queued jobs, the policies in turn, and of the parts before."""
    rng = np.random.default_rng(0)
    count = QUEUED + RUNNING
    jobs = pd.DataFrame(
        {
            "job_id": [f"j{each}" for each in range(count)],
            "submit_s": np.sort(rng.uniform(0, DAY_S, count)),
            "num_gpus": rng.choice([1, 2, 4, 8], count, p=[0.5, 0.2, 0.2, 0.1]),
            "duration_s": np.nan,
            "logged_start_s": np.nan,
            "time_limit_s": rng.choice([1.0, 4.0, 24.0, 96.0], count) * 3600,
            "user": rng.integers(100, size=count).astype(str),
        }
    )
    jobs.loc[: RUNNING - 1, "logged_start_s"] = jobs["submit_s"][:RUNNING] + 1
    jobs.attrs = {"notes": [], "origin": {}}
    gpus = int(jobs["num_gpus"][:RUNNING].sum())
    rules = Scenario(cluster=f"{-(-gpus // 8) + 8}x8", physics="estimates")
    makers = {name: partial(baselines.make, baselines.load(name)) for name in TIMED}
    begin = time.perf_counter()
    now = present(traces.cut(jobs, DAY_S), rules)
    prepared = time.perf_counter() - begin
    built, actions = list[float](), dict[str, int]()
    took = {name: list[tuple[float, float]]() for name in TIMED}
    for repeat in range(REPEATS + 1):
        for name, make in makers.items():
            begin = time.perf_counter()
            episode = now.episode()
            built.append(time.perf_counter() - begin)
            starts = time.perf_counter(), time.process_time()
            actions[name] = len(decide.acted(make(), episode))
            if repeat:  # the first one compiles
                took[name].append((time.perf_counter() - starts[0], time.process_time() - starts[1]))
    lines = [
        f"decide: {len(now.queued):,} queued jobs; before a decision, the table takes {1000 * prepared:.0f} ms and the "
        f"state {1000 * np.median(built):.0f} ms; median and p99 of {REPEATS}:"
    ]
    for name in TIMED:
        (wall, cpu), (wall_99, cpu_99) = 1000 * np.quantile(took[name], [0.5, 0.99], axis=0)
        lines.append(
            f"  {name}: {actions[name]} actions; {wall:.1f} and {wall_99:.1f} ms, of CPU time {cpu:.1f} and "
            f"{cpu_99:.1f} ms"
        )
    return lines


def main(args: Sequence[str] | None = None) -> None:
    """Print coverage and latency."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of philly/ and alibaba/ (the job tables)")
    parser.add_argument("--times", type=int, default=120, help="times per log")
    parser.add_argument("--logs", nargs="*", default=[*LOGS], choices=[*LOGS])
    chosen = parser.parse_args(args)
    print(*latency(), sep="\n", flush=True)
    for name in chosen.logs if chosen.data else ():
        print(coverage(name, chosen.data, chosen.times), flush=True)


if __name__ == "__main__":
    main()
