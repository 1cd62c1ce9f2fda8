"""Waits and ends of steady windows over clusters, loads, lengths, caps and quotas: `python -m benchmarks.steady`.

A setting is accepted by a rule that does not involve agents: under the best published policy, waiting is at least a
quarter of mean JCT (mean over windows); random order has at least 1.25 times its mean JCT; and at most a twentieth of
the counted work is done after the last arrival.

`--windows N` is the number of windows of each seed. `--workload NAME ...` measures named workloads instead of the
sweep. `--write` keeps the sweep in docs/sweep.csv, and the settings that differ in one choice from `philly` in
docs/workloads.md.
"""

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.table import ROOT, fill
from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluation.comparison import ESTIMATOR, compare
from gpu_cluster_gym.evaluation.metrics import SLOWDOWN_THRESHOLD_S, late_work
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import Scenario, Workload, named, names, windows

PUBLISHED = ("sjf", "las", "srtf", "xion_threshold")
SEEDS = (0, 1)
DAY_S = 86_400.0
WAITING, RANDOM, LATE = 0.25, 1.25, 0.05
STANDARD: dict[str, Any] = {
    "cluster": "16x8",
    "load": 1.0,
    "days": "7 + 3 + 14",
    "cap_days": 2.0,
    "quotas": "",
}
"""The choices of `philly`."""
LOADS, CAPS = (0.7, 0.85, 1.0, 1.15), (2.0, 5.0, np.inf)
SWEEP: list[dict[str, Any]] = [
    *({"load": load, "cap_days": cap} for load in LOADS for cap in CAPS),
    *(
        {"load": load, "cap_days": cap, "days": days}
        for days, load, cap in itertools.product(("2 + 5 + 5", "7 + 7 + 14"), LOADS[-2:], (2.0, np.inf))
    ),
    *({"cluster": cluster, "load": load} for cluster in ("8x8", "32x8") for load in LOADS[1:]),
    *({"cluster": "64x8", "load": load} for load in LOADS[-2:]),
    {"cluster": "64x8", "load": 1.15, "days": "2 + 5 + 5", "cap_days": np.inf},
    *({"quotas": borrowing, "load": load} for borrowing in ("none", "idle") for load in (0.85, 1.0)),
]
"""Settings by their differences from the standard. quotas: what virtual clusters may borrow, with proportional ones."""
COLUMNS = "cluster", "load", "days", "cap_days", "quotas"
HEADS = (
    *("cluster", "load", "days", "cap, days", "quotas", "jobs", "best", "waiting", "late work"),
    *("random", "verdict"),
)
"""Columns of the table: the choices, and what the verdict depends on. docs/sweep.csv has more."""


class Measured(NamedTuple):
    """Means over windows of a policy: mean JCT, s, waiting over JCT, slowdown, share of work after the last arrival.

    of_windows: `window`, `seed` and `mean_jct_s` of each
    """

    jct_s: float
    waiting: float
    slowdown: float
    late: float
    of_windows: pd.DataFrame


def measured(loads: Sequence[Workload], policy: str) -> Measured:
    """Simulate a policy on steady windows."""
    rows = []
    for load in loads:
        results = load.results(run(baselines.make(baselines.load(policy)), load.episode()))
        jct_s = results["jct_s"]
        rows.append(
            (
                jct_s.mean(),
                results["wait_s"].mean() / jct_s.mean(),
                (jct_s / results["run_s"].clip(lower=SLOWDOWN_THRESHOLD_S)).clip(lower=1.0).mean(),
                late_work(results, load.jobs["submit_s"][-1])[0],
            )
        )
    each = {"window": [load.window.number for load in loads], "seed": [load.scenario.seed for load in loads]}
    of_windows = pd.DataFrame(each | {"mean_jct_s": [row[0] for row in rows]})
    jct_s, waiting, slowdown, late = np.mean(rows, axis=0)
    return Measured(jct_s, waiting, slowdown, late, of_windows)


def scenario_of(setting: dict[str, Any]) -> Scenario:
    """Return the scenario of a setting of the sweep."""
    warm, counted, after = map(float, setting["days"].split(" + "))
    cap = setting["cap_days"] * DAY_S
    quotas: dict[str, Any] = {
        "quotas": "proportional",
        "borrowing": setting["quotas"],
        "drop_too_large": True,
    }
    return Scenario(
        cluster=setting["cluster"],
        physics="exclusive",
        steady_load=setting["load"],
        warm_days=warm,
        counted_days=counted,
        after_days=after,
        max_duration=cap if np.isfinite(cap) else None,
        **(quotas if setting["quotas"] else {}),
    )


def choices_of(scenario: Scenario) -> dict[str, Any]:
    """Return the choices of a named workload as those of a setting."""
    days = f"{scenario.warm_days:g} + {scenario.counted_days:g} + {scenario.after_days:g}"
    cap = np.inf if scenario.max_duration is None else scenario.max_duration / DAY_S
    cells = scenario.cluster_name, scenario.steady_load, days, cap, ""
    return dict(zip(COLUMNS, cells, strict=True))


def row_of(choices: dict[str, Any], scenario: Scenario, count: int) -> dict[str, Any]:
    """Simulate the policies on the windows of a setting, and return its row of the sweep."""
    loads = windows_of(scenario, count)
    found = {name: measured(loads, name) for name in ("random", "fifo_strict", "fifo", *PUBLISHED)}
    to_fifo = {name: compare(found[name].of_windows, found["fifo"].of_windows).ratio for name in PUBLISHED}
    best = min(PUBLISHED, key=lambda name: to_fifo[name])
    top = found[best]
    row = choices | {"jobs": round(float(np.mean([len(each.jobs) for each in loads]))), "best": best}
    row |= {"waiting": top.waiting, "late_work": top.late}
    for name in ("random", "fifo_strict", "fifo"):
        row[name] = compare(found[name].of_windows, top.of_windows).ratio
    row |= {"fifo_slowdown": found["fifo"].slowdown, "best_slowdown": top.slowdown}
    return row | {"verdict": verdict(row)}


def verdict(row: dict[str, Any]) -> str:
    """Return whether a setting is accepted, or the criteria that it fails."""
    failed = [
        *(["waits too little"] if row["waiting"] < WAITING else []),
        *(["order matters too little"] if row["random"] < RANDOM else []),
        *(["late work"] if row["late_work"] > LATE else []),
    ]
    return ", ".join(failed) or "accepted"


def line(row: dict[str, Any]) -> str:
    """Return the line of a row in the printed table."""
    cap = f"{row['cap_days']:g}" if np.isfinite(row["cap_days"]) else "none"
    quotas = f"borrowing {row['quotas']}" if row["quotas"] else "none"
    cells = [row["cluster"], f"{row['load']:g}", row["days"], cap, quotas, f"{row['jobs']:,}", row["best"]]
    cells += [f"{row['waiting']:.2f}", f"{row['late_work']:.3f}", f"{row['random']:.2f}", row["verdict"]]
    return f"| {' | '.join(cells)} |"


def write(root: Path, rows: Sequence[dict[str, Any]], count: int) -> None:
    """Write docs/sweep.csv, and the table of docs/workloads.md."""
    rows = [
        {name: round(cell, 4) if isinstance(cell, float) else cell for name, cell in row.items()}
        for row in rows
    ]
    pd.DataFrame(rows).to_csv(root / "docs" / "sweep.csv", index=False)
    near = [row for row in rows if sum(row[name] != STANDARD[name] for name in COLUMNS) <= 1]
    note = (
        f"Made by `python -m benchmarks.steady --write`. Validation windows: {count} of each of seeds 0 and 1. Random: "
        f"mean JCT / that of the best published policy, {ESTIMATOR}. `docs/sweep.csv` has FIFO and slowdowns, too."
    )
    fill(root / "docs" / "workloads.md", "sweep", [*table_head(), *map(line, near), "", note])


def table_head() -> list[str]:
    """Return the first two lines of the table."""
    return [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]


def windows_of(scenario: Scenario, count: int) -> list[Workload]:
    """Return validation windows of both seeds."""
    return [load for seed in SEEDS for load in windows(replace(scenario, seed=seed), "validation", count)]


def steady_names() -> list[str]:
    """Return the names of the steady workloads."""
    return [name for name in names() if named(name).steady_load is not None]


def main(args: Sequence[str] | None = None) -> int:
    """Print the sweep, or the named workloads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=8, help="validation windows of each seed")
    parser.add_argument(
        "--workload", nargs="+", choices=steady_names(), help="measure these instead of the sweep"
    )
    parser.add_argument("--write", action="store_true", help="update docs/sweep.csv and docs/workloads.md")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder with docs/")
    chosen = parser.parse_args(args)
    if chosen.write and chosen.workload:
        parser.error("--write keeps the sweep: drop --workload")
    settings = [STANDARD | each for each in SWEEP]
    asked = [(each, scenario_of(each)) for each in settings]
    if chosen.workload:
        asked = [(choices_of(each), each) for each in map(named, chosen.workload)]
    print(*table_head(), sep="\n")
    rows = []
    for choices, scenario in asked:
        rows.append(row_of(choices, scenario, chosen.windows))
        print(line(rows[-1]), flush=True)
    if chosen.write:
        write(chosen.root, rows, chosen.windows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
