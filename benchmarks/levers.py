"""Levers, which are mechanisms such as preemption, that each policy uses: `python -m benchmarks.levers [--write]`.

Every policy runs on training windows of `mixed`; its schedules show the levers. `--write` puts the table into
docs/results.md.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.table import AGENT, ROOT, fill
from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import shipped_policy
from gpu_cluster_gym.evaluation.runner import is_oracle
from gpu_cluster_gym.evaluation.table_notes import lever_off
from gpu_cluster_gym.simulator.account import Account
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel.cluster.layout import ROUNDING
from gpu_cluster_gym.traces import stream
from gpu_cluster_gym.workloads import named, prepare, windows

if TYPE_CHECKING:
    import pandas as pd

    from gpu_cluster_gym.simulator.policy import Policy
    from gpu_cluster_gym.workloads import Workload

WORKLOAD = "mixed"
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
STEADY = ("order", "preemption")


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
    off = [name for name in rows if lever_off(name, windows_of) or is_oracle(name)]
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
        f"Without their lever there: {', '.join(name for name in off if not is_oracle(name))}."
    )


def main(args: Sequence[str] | None = None) -> None:
    """Print the table, and write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into docs/results.md")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder with docs/")
    chosen = parser.parse_args(args)
    lines = [*levers_table(windows(named(WORKLOAD), "train", OBSERVED))]
    print(*lines, sep="\n")
    if chosen.write:
        fill(chosen.root / "docs" / "results.md", MARK, lines)


if __name__ == "__main__":
    main()
