"""Loads, waits and ends of steady windows over cluster sizes, loads, lengths and caps: `python -m benchmarks.steady`.

The standards follow a rule in which no agent has part: under the best published policy, waiting is at least a quarter
of mean JCT (mean over windows), and little of the counted work ends after the last arrival.

`--windows N` of each seed. `--workload NAME ...` measures named workloads instead of the sweep. `--plot FILE` draws
mean JCT and slowdown of `philly` over the load, with policies as lines.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluation.metrics import SLOWDOWN_THRESHOLD_S, late_work
from gpu_cluster_gym.evaluation.plot.style import INCHES, look, style
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import Scenario, Workload, named, names, windows

POLICIES = ("fifo_strict", "fifo", "easy", "sjf", "las", "srtf", "xion_threshold")
PUBLISHED = ("sjf", "las", "srtf", "xion_threshold")
SEEDS = (0, 1)
DAY_S = 86_400.0
CLUSTERS, LOADS = ("8x8", "16x8", "32x8"), (0.9, 1.0, 1.15)
DAYS, CAPS = ((2.0, 5.0, 5.0), (7.0, 3.0, 14.0), (7.0, 7.0, 14.0)), (2.0, 5.0, None)


class Measured(NamedTuple):
    """Means over windows of a policy: mean JCT, s, waiting over JCT, slowdown, share of work after the last arrival."""

    jct_s: float
    waiting: float
    slowdown: float
    late: float


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
    return Measured(*np.mean(rows, axis=0))


def sweep() -> Iterator[Scenario]:
    """Yield the settings of the sweep."""
    for cluster in CLUSTERS:
        for warm, counted, after in DAYS:
            for cap in CAPS:
                for load in LOADS:
                    yield Scenario(
                        cluster=cluster,
                        physics="exclusive",
                        steady_load=load,
                        warm_days=warm,
                        counted_days=counted,
                        after_days=after,
                        max_duration=None if cap is None else cap * DAY_S,
                    )


def lines(settings: Iterable[Scenario], count: int) -> Iterator[str]:
    """Yield a table with a line for each setting."""
    yield "| cluster | load | days | cap, days | best | waiting | FIFO / best | slowdown, FIFO and best | late work |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for scenario in settings:
        yield line(scenario, count)


def line(scenario: Scenario, count: int) -> str:
    """Return the line of a setting."""
    loads = windows_of(scenario, count)
    found = {name: measured(loads, name) for name in ("fifo", *PUBLISHED)}
    best = min(PUBLISHED, key=lambda name: found[name].jct_s)
    top, fifo = found[best], found["fifo"]
    lengths = f"{scenario.warm_days:g} + {scenario.counted_days:g} + {scenario.after_days:g}"
    cap = "none" if scenario.max_duration is None else f"{scenario.max_duration / DAY_S:g}"
    return (
        f"| {scenario.cluster_name} | {scenario.steady_load:g} | {lengths} | {cap} | {best} | {top.waiting:.2f} | "
        f"{fifo.jct_s / top.jct_s:.2f} | {fifo.slowdown:.1f}, {top.slowdown:.2f} | {top.late:.2f} |"
    )


def windows_of(scenario: Scenario, count: int) -> list[Workload]:
    """Return validation windows of both seeds."""
    return [load for seed in SEEDS for load in windows(replace(scenario, seed=seed), "validation", count)]


def draw(file: Path, count: int) -> None:
    """Draw mean JCT and slowdown of the policies over the load of `philly`."""
    from matplotlib.figure import Figure

    loads = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2)
    found = {
        name: [
            measured(windows_of(replace(named("philly"), steady_load=load), count), name) for load in loads
        ]
        for name in POLICIES
    }
    with style():
        figure = Figure(figsize=(INCHES["page"], 2.7), layout="constrained", facecolor="white")
        left, right = figure.subplots(1, 2)
        for place, (name, points) in enumerate(found.items()):
            colour, dashes = look(place)
            for axes, values in (
                (left, [each.jct_s / 3600 for each in points]),
                (right, [each.slowdown for each in points]),
            ):
                axes.plot(
                    loads, values, dashes, color=colour, marker="o", markersize=3, linewidth=1.2, label=name
                )
                axes.set(yscale="log", xticks=loads)
                axes.yaxis.set_major_formatter("{x:g}")
        left.set_title("Mean JCT, hours")
        right.set_title("Mean slowdown")
        figure.supxlabel("Offered load", fontsize=10)
        lines = left.get_legend_handles_labels()
        figure.legend(
            *lines, loc="outside upper left", ncols=len(found), frameon=False, fontsize=8, handlelength=1.4
        )
        figure.savefig(file, dpi=200)


def steady_names() -> list[str]:
    """Return the names of the steady workloads."""
    return [name for name in names() if named(name).steady_load is not None]


def main(args: Sequence[str] | None = None) -> int:
    """Print the sweep, or draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=8, help="validation windows of each seed")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw mean JCT and slowdown over the load")
    parser.add_argument(
        "--workload", nargs="+", choices=steady_names(), help="measure these instead of the sweep"
    )
    chosen = parser.parse_args(args)
    if chosen.plot:
        draw(chosen.plot, chosen.windows)
        return 0
    settings = map(named, chosen.workload) if chosen.workload else sweep()
    for each in lines(settings, chosen.windows):
        print(each, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
