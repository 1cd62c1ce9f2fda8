"""Waits and occupancy of the whole Philly log on its own machines, with and without quotas of its virtual clusters.

    python -m benchmarks.philly_quotas FOLDER

FOLDER has `philly_jobs*.csv*` (`submitted_time, submit_s, num_gpus, duration_s, vc`), `philly_vc_nodes.csv` (`vc, node
num`: the nodes of eight GPUs that the authors of Helios assumed for each virtual cluster) and
`philly_node_sequence*.csv*` (`time, active, total`: the nodes that ran a job). Physics is off, since the log has
neither memory nor locality. Figures are of the jobs submitted, and of the GPUs held, from 2017-10-03 on, from which the
log's active nodes are known, and of the last quarter of these days.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.account import Account
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.tenants import proportional
from gpu_cluster_gym.traces import STATISTICS
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace

BEGIN = pd.Timestamp("2017-10-03")
POLICIES, BORROWING = ("fifo", "fifo_strict"), ("none", "idle", "reclaim")
Spans = dict[str, tuple[float, float]]
"""Start and end of each period that figures are about, s, by name."""


def workload(jobs: Path, cluster: str, quotas: str | None, borrowing: str) -> Workload:
    """Return the log as one episode, without the jobs that could never start."""
    return full_trace(
        Scenario(
            trace_file=str(jobs),
            cluster=cluster,
            physics="none",
            full_trace=True,
            quotas=quotas,
            borrowing=borrowing,  # type: ignore[arg-type]
            drop_too_large=True,
        )
    )


def by_nodes(file: Path, gpus: int) -> str:
    """Return quotas in proportion to the nodes of each virtual cluster that add up to a number of GPUs."""
    table = pd.read_csv(file, dtype={"vc": str})
    quotas = proportional(table["node num"].to_numpy(float), gpus)
    return ",".join(f"{vc}={quota}" for vc, quota in zip(table["vc"], quotas, strict=True))


def figures(work: Workload, policy: str, spans: Spans) -> list[str]:
    """Return a cell for each span: mean and median wait, s; share of GPUs held; number of nodes with a held GPU."""
    account = Account()
    episode = run(baselines.make(baselines.load(policy)), work.episode(), account=account)
    waits, held = work.results(episode), account.holdings()
    cells = []
    for begin_s, end_s in spans.values():
        wait_s = waits["wait_s"][waits["submit_s"].between(begin_s, end_s)]
        from_s, to_s = held["from_s"].clip(lower=begin_s), held["to_s"].clip(upper=end_s)
        parts = held.assign(from_s=from_s, to_s=to_s)[to_s > from_s].explode("gpus", ignore_index=True)
        gpu_s = (parts["to_s"] - parts["from_s"]).sum()
        parts["node"] = episode.state.gpu_node[parts["gpus"].astype(int)]
        parts = parts.sort_values(["node", "from_s"], ignore_index=True)
        # A node is active from each start, or from the end of what it has run so far, to the job's end.
        before = parts.groupby("node")["to_s"].cummax().groupby(parts["node"]).shift(fill_value=-np.inf)
        node_s = (parts["to_s"] - np.maximum(parts["from_s"], before)).clip(lower=0).sum()
        share, nodes = (each / (end_s - begin_s) for each in (gpu_s / work.cluster.num_gpus, node_s))
        cells.append(f"{wait_s.mean():,.1f} s, {wait_s.median():,.0f} s, {100 * share:.0f} %, {nodes:.1f}")
    return cells


def published(folder: Path, zero: pd.Timestamp, spans: Spans) -> list[str]:
    """Return the lines of published figures: waits of the whole log, and the nodes that the log says were active."""
    known = json.loads(STATISTICS.read_text(encoding="utf-8"))["published_whole_trace_figures"]
    summary = known["each_attempt_as_a_job"]
    waits = f"{summary['mean_queue_s']:,.1f} s, {summary['median_queue_s']:,.0f} s"
    table = pd.read_csv(next(folder.glob("philly_node_sequence*.csv*")), parse_dates=["time"])
    at_s = (table["time"] - zero).dt.total_seconds()
    nodes = [f"{table['active'][at_s.between(*span)].mean():.1f}" for span in spans.values()]
    return [
        f"published for the whole trace, each attempt as a job ({summary['source']}): {waits}",
        f"nodes that ran a job by the log: {', '.join(nodes)}",
    ]


def main(args: Sequence[str] | None = None) -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder with the files named above")
    parser.add_argument("--cluster", default="philly", help="as in evaluate.py")
    given = parser.parse_args(args)
    jobs = next(given.folder.glob("philly_jobs*.csv*"))
    times = pd.read_csv(jobs, usecols=["submitted_time", "submit_s"], parse_dates=["submitted_time"])
    zero = (times["submitted_time"] - pd.to_timedelta(times["submit_s"], unit="s")).min()
    begin_s, end_s = max(0.0, (BEGIN - zero).total_seconds()), float(times["submit_s"].max())
    spans = {"all days": (begin_s, end_s), "last quarter": (end_s - (end_s - begin_s) / 4, end_s)}
    gpus = workload(jobs, given.cluster, None, "none").cluster.num_gpus
    quotas = {
        "proportional": "proportional",
        "by nodes": by_nodes(given.folder / "philly_vc_nodes.csv", gpus),
    }
    print("Mean wait, median wait, GPUs held, active nodes:\n")
    print(f"| policy | quotas | borrowing | {' | '.join(spans)} | dropped |\n|---|---|---|---|---|---|")
    for policy, (name, borrowing) in itertools.product(
        POLICIES, [("none", "none"), *itertools.product(quotas, BORROWING)]
    ):
        work = workload(jobs, given.cluster, quotas.get(name), borrowing)
        cells = [policy, name, borrowing if name in quotas else "", *figures(work, policy, spans)]
        print(f"| {' | '.join(cells)} | {len(times) - len(work.table)} |", flush=True)
    print("", *published(given.folder, zero, spans), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
