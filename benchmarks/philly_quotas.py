"""Waiting and occupancy of the real Philly log on its own machines, under FIFO with and without quotas.

`python -m benchmarks.philly_quotas JOBS MACHINES REVISED NODES [--nodes-of-log FILE] [--csv FILE]` simulates all jobs
of a log as one episode per setting, and prints mean and median wait and occupancy beside published figures.

JOBS: CSV with `submitted_time, submit_s, num_gpus, duration_s, vc`. MACHINES, REVISED: Microsoft's machine list, and
the same with the GPUs seen in use (github.com/Qinghao-Hu/Philly-Trace-Scripts). NODES: CSV with `vc, node num`, the
nodes of each virtual cluster chosen by the authors of Helios (S-Lab-System-Group/HeliosArtifact), of eight GPUs each.
`--nodes-of-log`: CSV with `time, active, total`, the nodes that ran a job in each minute; only jobs submitted in these
minutes count, else those from 2017-10-03 on.

Physics is off: the log has neither memory nor locality of jobs. Jobs wider than the quota of their virtual cluster are
dropped and counted without borrowing.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gpu_cluster_gym.baselines.fifo import policy as fifo
from gpu_cluster_gym.baselines.fifo_strict import policy as fifo_strict
from gpu_cluster_gym.simulator.account import Account
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.traces.philly import machine_list
from gpu_cluster_gym.workloads import Scenario, full_trace

BEGIN = "2017-10-03 00:00:00"
GIB, CORES = 24.0, 6  # of each GPU; not used, since physics is off
PUBLISHED = (
    ("Acme's summary of Philly, attempts as jobs", 3760.6, 189.0, None),
    ("the log, nodes that run a job, of 420", None, None, "active"),
)
"""Figures to compare with: mean and median wait, s (InternLM/AcmeTrace, cluster_summary.csv; Hu et al., NSDI'24)."""


Intervals = dict[str, tuple[float, float]]
"""Begin and end, s, of intervals by name."""


class Setting(NamedTuple):
    """A row: the machines, the policy, the quotas and what tenants may borrow."""

    machines: str
    policy: str
    quotas: str
    borrowing: str


SETTINGS = (
    Setting("published", "fifo", "", "none"),
    Setting("revised", "fifo", "", "none"),
    Setting("published", "fifo_strict", "", "none"),
    Setting("published", "fifo", "proportional", "none"),
    Setting("published", "fifo", "proportional", "idle"),
    Setting("published", "fifo", "proportional", "reclaim"),
    Setting("published", "fifo_strict", "proportional", "none"),
    Setting("revised", "fifo", "nodes", "none"),
    Setting("revised", "fifo", "nodes", "idle"),
    Setting("revised", "fifo_strict", "nodes", "none"),
)
POLICIES: dict[str, Ranking] = {"fifo": fifo, "fifo_strict": fifo_strict}


class Files(NamedTuple):
    """Files of a folder that scenarios read: the jobs, each list of machines, the quotas by nodes."""

    jobs: str
    machines: dict[str, str]
    quotas: str


def written(folder: Path, jobs: pd.DataFrame, machines: dict[str, Path], nodes: Path) -> Files:
    """Write the inputs in the forms that scenarios read."""
    columns = {"submit_s": jobs["submit_s"], "num_gpus": jobs["num_gpus"], "duration_s": jobs["duration_s"]}
    table = pd.DataFrame({"job_id": np.arange(len(jobs)), **columns, "tenant": jobs["vc"]})
    table.to_csv(folder / "jobs.csv", index=False)
    lists: dict[str, Path] = {}
    for name, file in machines.items():
        gpus = machine_list(file)["num_gpus"]
        rows = pd.DataFrame({"gpus": gpus[gpus > 0], "gpu_memory_gib": GIB, "cores": CORES * gpus[gpus > 0]})
        rows.to_csv(lists.setdefault(name, folder / f"{name}.csv"), index=False)
    by_node = pd.read_csv(nodes)
    quotas = pd.DataFrame({"tenant": by_node["vc"], "gpus": 8 * by_node["node num"]})
    quotas.to_csv(folder / "nodes.csv", index=False)
    files = {name: str(place) for name, place in lists.items()}
    return Files(str(folder / "jobs.csv"), files, str(folder / "nodes.csv"))


def simulated(setting: Setting, files: Files, intervals: Intervals) -> dict[str, dict[str, float]]:
    """Return the figures of a setting for the jobs submitted in each interval, and for its machines there."""
    work = full_trace(
        Scenario(
            trace_file=files.jobs,
            cluster=files.machines[setting.machines],
            physics="none",
            full_trace=True,
            quotas=files.quotas if setting.quotas == "nodes" else setting.quotas or None,
            borrowing=setting.borrowing,  # type: ignore[arg-type]
            drop_too_large=True,
        )
    )
    account = Account()
    episode = run(POLICIES[setting.policy], work.episode(), account=account)
    results, holdings, machines = work.results(episode), account.holdings(), work.cluster
    dropped = len(pd.read_csv(files.jobs, usecols=["job_id"])) - len(results)
    found = {}
    for name, (begin_s, end_s) in intervals.items():
        counted = results[results["submit_s"].between(begin_s, end_s, inclusive="left")]
        gpus, nodes = occupied(holdings, episode.state.gpu_node, begin_s, end_s)
        figures: dict[str, Any] = {
            "mean_wait_s": counted["wait_s"].mean(),
            "median_wait_s": counted["wait_s"].median(),
            "p95_wait_s": counted["wait_s"].quantile(0.95),
            "waiting_share": (counted["wait_s"] > 0).mean(),
            "gpus_held_share": gpus / machines.num_gpus,
            "nodes_active_share": nodes / machines.num_nodes,
            "jobs": len(counted),
            "dropped": dropped,
            "preemptions": results["preemptions"].sum(),
        }
        found[name] = {figure: float(value) for figure, value in figures.items()}
    return found


def occupied(
    holdings: pd.DataFrame, node_of: np.ndarray, begin_s: float, end_s: float
) -> tuple[float, float]:
    """Return the mean numbers of GPUs held, and of nodes with a held GPU, in an interval."""
    from_s, to_s = holdings["from_s"].clip(lower=begin_s), holdings["to_s"].clip(upper=end_s)
    inside = (to_s > from_s).to_numpy()
    spans = pd.DataFrame(
        {"from_s": from_s[inside], "to_s": to_s[inside], "gpus": holdings["gpus"][inside].map(list)}
    )
    gpu_s = ((spans["to_s"] - spans["from_s"]) * spans["gpus"].map(len)).sum()
    each = spans.explode("gpus")
    each = each.assign(node=node_of[each["gpus"].astype(int)]).drop(columns="gpus").drop_duplicates()
    each = each.sort_values(["node", "from_s"], ignore_index=True)
    # Time that some job runs on a node: each interval counts from the latest end before it.
    before = each.groupby("node")["to_s"].cummax().groupby(each["node"]).shift(fill_value=-np.inf)
    node_s = (each["to_s"] - np.maximum(each["from_s"], before)).clip(lower=0).sum()
    return float(gpu_s / (end_s - begin_s)), float(node_s / (end_s - begin_s))


def main(args: Sequence[str] | None = None) -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("jobs", "machines", "revised", "nodes"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--nodes-of-log", type=Path)
    parser.add_argument("--csv", type=Path, help="file for all figures")
    given = parser.parse_args(args)
    jobs = pd.read_csv(given.jobs, dtype={"vc": str}).sort_values("submit_s", kind="stable")
    zero = pd.to_datetime(jobs["submitted_time"].iloc[0]) - pd.Timedelta(seconds=jobs["submit_s"].iloc[0])
    begin_s = (pd.Timestamp(BEGIN) - zero).total_seconds()
    end_s = float(jobs["submit_s"].iloc[-1])
    active = float("nan")
    if given.nodes_of_log:
        log = pd.read_csv(given.nodes_of_log, parse_dates=["time"])
        begin_s, end_s = ((log["time"].iloc[each] - zero).total_seconds() for each in (0, -1))
        active = float((log["active"] / log["total"]).mean())
    intervals = {"all": (begin_s, end_s), "last quarter": (begin_s + 0.75 * (end_s - begin_s), end_s)}
    with tempfile.TemporaryDirectory(prefix="philly-") as folder:
        machines = {"published": given.machines, "revised": given.revised}
        files = written(Path(folder), jobs, machines, given.nodes)
        found: list[dict[str, object]] = []
        for setting in SETTINGS:
            for days, figures in simulated(setting, files, intervals).items():
                found.append({**setting._asdict(), "days": days, **figures})
                shown = (f"{name} {value:,.6g}" for name, value in figures.items())
                print(", ".join([*filter(None, setting), days, *shown]), flush=True)
    for what, mean_s, median_s, share in PUBLISHED:
        said = f"mean wait {mean_s:,.0f} s, median {median_s:,.0f} s" if mean_s else f"{active:.3f}"
        print(f"published, {what}: {said}" if share is None or given.nodes_of_log else f"{what}: not given")
    if given.csv:
        pd.DataFrame(found).to_csv(given.csv, index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
