"""Levers, which are mechanisms such as preemption: those that each policy uses, and the gain of `union` by each.

`python -m benchmarks.levers --write` runs every policy on training windows of `mixed`, and writes the levers that it
uses there into docs/results.md. `python -m benchmarks.levers --shares` varies the shares of jobs that may change width
or share GPUs.

`python -m benchmarks.levers [--windows 20] [--seed 0] [--processes 1]` is an ablation of `union`. On test windows of
`mixed`: `union`, `union` without each lever, the papers' policies, and some well-known policies. A ratio of mean JCT to
that of union in the same window is averaged over windows; its interval is the paired bootstrap. Above 1, union is
better.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.table import AGENT, ROOT, fill
from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import shipped_policy
from gpu_cluster_gym.evaluation import runner
from gpu_cluster_gym.evaluation.comparison import compare
from gpu_cluster_gym.evaluation.table import MAX_WIDTH, console
from gpu_cluster_gym.evaluation.table_notes import lever_off
from gpu_cluster_gym.experiments import Outcome, Setting, simulate
from gpu_cluster_gym.simulator.account import Account
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel.cluster.layout import ROUNDING
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.traces import stream
from gpu_cluster_gym.workloads import named, prepare, windows

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from gpu_cluster_gym.evaluation.runner import Maker
    from gpu_cluster_gym.simulator.policy import Policy
    from gpu_cluster_gym.workloads import Scenario, Workload

WORKLOAD, UNION = "mixed", "union"
LEVERS: dict[str, Callable[[], Rule]] = {
    "sharing": partial(Rule, sharing=False),
    "preemption": partial(Rule, preemption=False),
    "sizing": partial(Rule, sizing=False),
    "cores": partial(Rule, cores=False),
}
PULLED = {
    "order": "where jobs can only be ordered and paused, the schedule is not that of FIFO, strict FIFO or EASY",
    "preemption": "pauses running jobs",
    "sharing": "lets jobs share GPUs",
    "sizing": "gives jobs more or fewer workers than requested",
    "cores": "often gives jobs more or fewer cores than requested, or throttles CPU jobs",
    "estimates": "the schedule changes if estimated run times are exchanged between jobs",
    "placement": "chooses GPUs itself, so that the schedule is the same under the placement rules best_fit and spread",
}
"""Levers, and how each is seen in a schedule."""
FIFOS = ("fifo", "fifo_strict", "easy")
MARK = "levers"
OFTEN = 0.05  # share of the time segments of running jobs; a start on reserved GPUs may find fewer cores
OBSERVED = 3  # training windows in which policies are observed
SHARES: tuple[dict[str, Any], ...] = (
    *({"elastic_share": share} for share in (0.0, 0.2)),
    *({"sharing_share": share} for share in (0.0, 0.2)),
    *({"elastic_share": share, "sharing_share": share} for share in (0.0, 0.2, 1.0)),
)
"""Shares of jobs that may change width and share GPUs; all where none is given."""
VARIED = ("union", "xion", "srtf")
STEADY = ("order", "preemption")
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


def pulled(policy: "Policy | type", loads: "Sequence[Workload]") -> set[str]:
    """Return the levers of `PULLED` that a policy uses in at least one of the windows."""
    found: set[str] = set()
    for load in loads:
        account = Account()
        episode = run(baselines.make(policy), load.episode(), account=account)
        results, segments, holdings = load.results(episode), account.segments(), account.holdings()
        table, jobs = load.table, load.jobs
        plain = changed(load, physics="exclusive")
        in_order_of_arrival = [finishes(baselines.load(name), plain) for name in FIFOS]
        on_gpus = segments[(segments["num_gpus"] > 0) & (segments["phase"] == "running")]
        cores = on_gpus["cores"] - jobs["cores_each"][on_gpus["job"]]
        held = holdings[holdings["gpus"].map(len) > 0]
        levers = {
            "order": not any(finishes(policy, plain).equals(each) for each in in_order_of_arrival),
            "preemption": bool((results["preemptions"] > 0).any()),
            "sharing": bool((segments["shared"] > 0).any()),
            "sizing": bool((held["workers"].to_numpy() != table["num_gpus"].to_numpy()[held["job"]]).any()),
            "cores": bool((cores.abs() > ROUNDING).mean() > OFTEN or (segments["throttle"] < 1).any()),
            "estimates": not finishes(policy, exchanged(load)).equals(results["finish_s"]),
            "placement": finishes(policy, changed(load, placement="spread")).equals(results["finish_s"]),
        }
        found |= {name for name, is_pulled in levers.items() if is_pulled}
    return found


def exchanged(load: "Workload") -> "Workload":
    """Return the window with the estimates of run times in another order."""
    names = ["profiled_duration_s", "predicted_duration_s"]
    rows = stream(load.scenario.seed, "levers", *load.window).permutation(len(load.table))
    table = load.table.assign(**{name: load.table[name].to_numpy()[rows] for name in names})
    return prepare(table, replace(load.scenario, target_load=None), window=load.window)


def changed(load: "Workload", **fields: Any) -> "Workload":
    """Return the same jobs in a scenario with other fields."""
    return prepare(load.table, replace(load.scenario, target_load=None, **fields), window=load.window)


def finishes(policy: "Policy | type", load: "Workload") -> "pd.Series":
    """Return the time at which each job finishes, s."""
    found: pd.Series = load.results(run(baselines.make(policy), load.episode()))["finish_s"]
    return found


def levers_table(windows_of: "Sequence[Workload]") -> "Iterator[str]":
    """Yield the lines of the table of levers, a row per policy, and of its notes."""
    rows = {name: baselines.load(name) for name in baselines.quick_names()}
    off = [name for name in rows if lever_off(name, windows_of) or name.endswith("_oracle")]
    asked: dict[str, Policy | type] = {name: rows[name] for name in rows if name not in off}
    found = {name: pulled(policy, windows_of) for name, policy in asked.items()}
    found[AGENT] = pulled(shipped_policy(WORKLOAD)[0], windows_of)
    yield f"| policy | {' | '.join(PULLED)} | same levers: steady | same levers: {WORKLOAD} |"
    yield f"|---|{'---|' * (len(PULLED) + 2)}"
    for name, levers in sorted(found.items()):
        marks = ["x" if lever in levers else "" for lever in PULLED]
        same = ["yes" if set(wanted) <= levers else "" for wanted in (STEADY, found[AGENT] - {"placement"})]
        yield f"| {name} | {' | '.join([*marks, *same])} |"
    yield ""
    yield (
        f"Made by `python -m benchmarks.levers --write` from schedules of {len(windows_of)} training windows of "
        f"`{WORKLOAD}`. {'; '.join(f'*{name}*: {how}' for name, how in PULLED.items())}. Same levers: the policy does "
        f"what {AGENT} does on the steady workloads ({' and '.join(STEADY)}), or on `{WORKLOAD}`, placement aside. "
        f"Without their lever there: {', '.join(name for name in off if not name.endswith('_oracle'))}."
    )


def shares_table(scenario: "Scenario", count: int, processes: int) -> "Iterator[str]":
    """Yield the lines of a table of mean JCT relative to FIFO's over the shares of elastic and of sharing jobs."""
    yield f"| may change width | may share GPUs | {' | '.join(VARIED)} |"
    yield f"|---|---|{'---|' * len(VARIED)}"
    makers = {name: partial(baselines.make, baselines.load(name)) for name in ("fifo", *VARIED)}
    for fields in SHARES:
        varied = replace(scenario, **fields)
        loads = windows(varied, "test", count)
        found = runner.score(runner.simulate(makers, loads, processes=processes), loads)
        ratios = (compare(found[name], found["fifo"]) for name in VARIED)
        cells = [f"{each.ratio:.3f} ({each.low:.3f}-{each.high:.3f})" for each in ratios]
        shares = (f"{100 * share:.0f} %" for share in (varied.elastic_share, varied.sharing_share))
        yield f"| {' | '.join([*shares, *cells])} |"


def main(args: Sequence[str] | None = None) -> None:
    """Simulate, and print the table and its conclusions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=20, help="number of test windows")
    parser.add_argument("--seed", type=int, default=0, help="seed of the windows")
    parser.add_argument("--processes", type=int, default=1, help="number of processes")
    parser.add_argument("--write", action="store_true", help="write the table of levers into docs/results.md")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder with docs/")
    parser.add_argument(
        "--shares", action="store_true", help="vary the shares of elastic and of sharing jobs"
    )
    chosen = parser.parse_args(args)
    scenario = replace(named(WORKLOAD), seed=chosen.seed)
    if chosen.write:
        lines = [*levers_table(windows(scenario, "train", OBSERVED))]
        print(*lines, sep="\n")
        fill(chosen.root / "docs" / "results.md", MARK, lines)
        return
    if chosen.shares:
        for line in shares_table(scenario, chosen.windows, chosen.processes):
            print(line, flush=True)
        return
    setting = Setting(WORKLOAD, windows(scenario, "test", chosen.windows), policies())
    found = simulate([setting], processes=chosen.processes)
    out = console(sys.stdout, MAX_WIDTH)
    out.print(table(found))
    for line in conclusions(found):
        out.print(line)


if __name__ == "__main__":
    main()
