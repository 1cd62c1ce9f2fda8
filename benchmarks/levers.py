"""Ablation of `union`: `python -m benchmarks.levers [--windows 20] [--seed 0] [--processes 1]`.

On test windows of the workload `mixed`: `union`, `union` without each lever, the papers' policies, which use one lever
each, and some well-known policies. A ratio of mean JCT to that of union in the same window is averaged over windows;
its interval is the paired bootstrap. Above 1, union is better.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluation.table import MAX_WIDTH, console
from gpu_cluster_gym.experiments import Outcome, Setting, simulate
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.workloads import named, windows

if TYPE_CHECKING:
    from rich.table import Table

    from gpu_cluster_gym.evaluation.runner import Maker

WORKLOAD, UNION = "mixed", "union"
LEVERS: dict[str, Callable[[], Rule]] = {
    "sharing": partial(Rule, sharing=False),
    "preemption": partial(Rule, preemption=False),
    "sizing": partial(Rule, sizing=False),
    "cores": partial(Rule, cores=False),
}
PAPERS = ("xonar", "xion", "aiturbo", "coda")
KNOWN = ("fifo", "sjf", "srtf", "las", "xion_threshold", "lucid", "synergy", "tiresias", "optimus")
COLUMNS = {
    "mean_jct_s": ("mean\nJCT", "{:,.0f}"),
    "p95_jct_s": ("p95\nJCT", "{:,.0f}"),
    "mean_wait_s": ("mean\nwait", "{:,.0f}"),
    "preemptions": ("paused", "{:.0f}"),
    "resizes": ("resized", "{:.0f}"),
    "shared_gpu_hours": ("shared\nGPU-h", "{:.0f}"),
    "oom_restarts": ("OoM", "{:.0f}"),
}


def policies() -> "dict[str, Maker]":
    """Return a factory for each policy; those of papers have default settings."""
    made: dict[str, Maker] = {UNION: Rule}
    made |= {without(lever): maker for lever, maker in LEVERS.items()}
    return made | {name: partial(baselines.make, baselines.load(name)) for name in (*PAPERS, *KNOWN)}


def without(lever: str) -> str:
    """Return the name of union without a lever."""
    return f"union without {lever}"


def table(outcome: Outcome) -> "Table":
    """Return a row for each policy: its ratio to union with the interval, and mean metrics."""
    from rich import box
    from rich.table import Table

    title = f"Test windows of {WORKLOAD} ({outcome.counts()[WORKLOAD]}), seconds"
    shown = Table(title=title, title_justify="left", box=box.HORIZONTALS, show_edge=False)
    shown.add_column("policy", vertical="bottom")
    for heading in ("JCT /\nunion's", "95 %\ninterval", *(heading for heading, _ in COLUMNS.values())):
        shown.add_column(heading, justify="right", vertical="bottom", no_wrap=True)
    for policy in outcome.policies(WORKLOAD):
        case = WORKLOAD, policy
        mean, low, high = outcome.ratio(case, (WORKLOAD, UNION))
        interval = "" if policy == UNION else f"{low:.3f}-{high:.3f}"
        numbers = (form.format(outcome.mean(case, name).mean) for name, (_, form) in COLUMNS.items())
        shown.add_row(policy, f"{mean:.3f}", interval, *numbers)
    return shown


def conclusions(outcome: Outcome) -> Iterator[str]:
    """Yield a sentence on each lever and each paper's policy, with its distance from union."""
    for policy in (*map(without, LEVERS), *PAPERS):
        ratio = outcome.ratio((WORKLOAD, policy), (WORKLOAD, UNION))
        verdict = "better" if ratio.low > 1 else "worse" if ratio.high < 1 else "not significantly better"
        mean, low, high = (f"{100 * (figure - 1):+.1f}" for figure in ratio)
        yield f"union is {verdict} than {policy}, whose mean JCT is {mean} % longer ({low} to {high})"


def main(args: Sequence[str] | None = None) -> None:
    """Simulate, and print the table and its conclusions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=20, help="number of test windows")
    parser.add_argument("--seed", type=int, default=0, help="seed of the windows")
    parser.add_argument("--processes", type=int, default=1, help="number of processes")
    chosen = parser.parse_args(args)
    scenario = replace(named(WORKLOAD), seed=chosen.seed)
    setting = Setting(WORKLOAD, windows(scenario, "test", chosen.windows), policies())
    found = simulate([setting], processes=chosen.processes)
    out = console(sys.stdout, MAX_WIDTH)
    out.print(table(found))
    for line in conclusions(found):
        out.print(line)


if __name__ == "__main__":
    main()
