"""Waits on fewer or more nodes: `evaluate.py --what-if nodes=8..24`."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpu_cluster_gym.evaluation import runner
from gpu_cluster_gym.evaluation.describe import column, duration
from gpu_cluster_gym.evaluation.table_notes import parts_off, trace_notes
from gpu_cluster_gym.evaluation.verdict import interval_of_mean, over_blocks, recorded, why_none
from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.workloads import full_trace, prepare

if TYPE_CHECKING:
    import pandas as pd

    from gpu_cluster_gym.evaluation.runner import Maker
    from gpu_cluster_gym.workloads import Scenario, Workload

MAX_SIZES = 12
"""Largest number of sizes to simulate: those of a longer range are spread over it."""
MAX_NODES = 100_000
_RANGE = re.compile(r"nodes=(\d{1,6})\.\.(\d{1,6})", re.ASCII)
_NODES = re.compile(r"\d+(x[^+]+)", re.ASCII)


FEWER = "fewer"
"""Attribute of a table: number of jobs that fit, but are dropped since the smallest size cannot hold them."""


class Size(NamedTuple):
    """A cluster's size, and the mean wait on it with its 95 % interval over blocks of time, s."""

    nodes: int
    gpus: int
    mean_s: float
    low_s: float
    high_s: float


def expected(text: str) -> str | None:
    """Return the expected form of a range of nodes, for an error message; None for a valid text."""
    found = _RANGE.fullmatch(text)
    if found and 1 <= int(found[1]) < int(found[2]) <= MAX_NODES:
        return None
    return "a range of nodes like nodes=8..24"


def nodes_of(text: str, name: str) -> list[int]:
    """Return the numbers of nodes to simulate, at most `MAX_SIZES`, both ends included.

    name: of the cluster, or a file of nodes; a size inside the range is included
    """
    found, own = _RANGE.fullmatch(text), cluster(name).num_nodes
    assert found, "the choice was checked"
    low, high = int(found[1]), int(found[2])
    spread = np.rint(np.linspace(low, high, min(MAX_SIZES, high - low + 1))).astype(int)
    if low < own < high:
        spread[1 + np.abs(spread[1:-1] - own).argmin()] = own
    return [int(each) for each in spread]


def notes(scenario: "Scenario", nodes: Sequence[int]) -> list[str]:
    """Return lines about the log, what is not simulated of it, and the sizes."""
    own = cluster(scenario.cluster_name)
    fewest = next(on_sizes(scenario, nodes))
    same = f" (on {_counted(nodes[0])}, and the same jobs on more)."
    found = [
        f"{note[:-1]}{same}" if " dropped: " in note else note
        for note in trace_notes([replace(fewest, cluster=own)])
    ]
    found += parts_off(fewest.scenario)
    every = nodes[-1] - nodes[0] + 1
    if len(nodes) < every:
        sizes = f"{every:,} sizes from {nodes[0]:,} to {_counted(nodes[-1])}"
        found.append(f"Note: of the {sizes}, {len(nodes)} are simulated.")
    return found


def _counted(nodes: int) -> str:
    return f"{nodes:,} node{'s' * (nodes != 1)}"


def shape_of_nodes(name: str) -> str:
    """Return what follows the number of nodes in a cluster's name, as in x8-40c; ValueError where the nodes differ.

    name: of a cluster, or a file of nodes
    """
    own = cluster(name)
    kinds = {*zip(own.node_gpus, own.types, own.node_gpu_memory_gib, own.node_cores, strict=True)}
    if len(kinds) > 1:
        raise ValueError(
            f"--what-if requires a cluster of identical nodes, but {name} has {len(kinds)} kinds of nodes: pass "
            "--cluster NxG, such as 8x8, or a file of identical nodes"
        )
    if not Path(name).is_file() and (found := _NODES.match(name)):
        return found[1]
    ((gpus, kind, memory_gib, cores),) = kinds
    return f"x{gpus}-{kind}-{memory_gib}gb-{cores}c"


def on_sizes(scenario: "Scenario", nodes: Sequence[int]) -> Iterator["Workload"]:
    """Yield the full trace on the scenario's cluster with each number of nodes, in ascending order.

    All have the same jobs: those that the smallest size drops are dropped at every size. ValueError for a cluster with
    different nodes, or on which some job cannot run, for partitions, and for a load to which arrivals would be scaled
    at each size.
    """
    if scenario.target_load:
        raise ValueError(
            "--what-if keeps the arrivals of the jobs, and --target-load changes them with each size: drop it"
        )
    if scenario.partitions:
        raise ValueError(
            "--what-if adds nodes, which would belong to none of --partitions: compare the jobs of one partition on "
            "its own nodes, without --partitions"
        )
    shape = shape_of_nodes(scenario.cluster_name)
    kept: pd.Series | None = None
    for number in nodes:
        work = full_trace(replace(scenario, cluster=f"{number}{shape}"))
        kept = work.table["job_id"] if kept is None else kept
        yield work if len(work.table) == len(kept) else _with_jobs(work, kept)


def _with_jobs(work: "Workload", kept: "pd.Series") -> "Workload":
    """Return a full trace with some of its jobs only, and the same quotas; the attribute `fewer` counts the others."""
    table = work.table[work.table["job_id"].isin(kept)].reset_index(drop=True)
    table.attrs = work.table.attrs | {FEWER: len(work.table) - len(table)}
    quotas = dict(zip(work.tenants.names, work.tenants.quotas, strict=True)) if work.tenants else None
    plain = replace(work.scenario, shift=None)  # which has changed the table already
    return replace(prepare(table, plain, quotas=quotas), scenario=work.scenario)


def knee(found: Sequence[Size]) -> Size | None:
    """Return the size farthest below the line from the first to the last, both axes scaled to 1; None without one."""
    wait = np.array([each.mean_s for each in found])
    if len(found) < 3 or not wait[0] > wait[-1]:
        return None
    nodes = np.array([each.nodes for each in found], float)
    across = (nodes - nodes[0]) / (nodes[-1] - nodes[0])
    below = 1 - across - (wait - wait[-1]) / (wait[0] - wait[-1])
    return found[int(np.argmax(below))] if below.max() > 0 else None


def lines(
    name: str, scenario: "Scenario", make: "Maker", nodes: Sequence[int], done: Callable[[int], None]
) -> list[str]:
    """Return the table of waits, a line for each size, and a line on the knee. done: advances a progress bar."""
    found, own = list[Size](), cluster(scenario.cluster_name).num_nodes
    compared = f"No comparison with the log: the range lacks the {_counted(own)} of --cluster."
    for work in on_sizes(scenario, nodes):
        results = runner.simulate({name: make}, [work])[name]
        found.append(Size(work.cluster.num_nodes, work.cluster.num_gpus, *interval_of_mean(results)))
        if work.cluster.num_nodes == own:
            compared = _beside_log(name, work, found[-1])
        done(1)
    enough, over = over_blocks(results["submit_s"].to_numpy(float))
    headings = ("mean wait", "from", "to")[: 3 if enough else 1]
    shown = len(headings)
    unit, cells = column([each for size in found for each in size[2 : 2 + shown]])
    table = [
        f"{name}, mean wait in {unit} by the number of nodes" + ", with its 95 % interval" * enough,
        f"{'nodes':>8}{'GPUs':>8}" + "".join(f"{heading:>12}" for heading in headings),
    ]
    for at, size in enumerate(found):
        row = "".join(f"{cell:>12}" for cell in cells[shown * at : shown * at + shown])
        table.append(f"{size.nodes:8,}{size.gpus:8,}{row}")
    table += [over, compared] if scenario.trace_file else [over]
    if best := knee(found):
        wait = duration(best.mean_s)
        return [
            *table,
            f"Knee: {best.nodes:,} nodes, with a mean wait of {wait}: the size farthest below the line from the first "
            "to the last, in this range.",
        ]
    return [*table, "No knee: the mean wait does not fall faster at first than later in this range."]


def _beside_log(name: str, work: "Workload", size: Size) -> str:
    """Return a sentence with the logged and the simulated mean wait on a size, or why they cannot be compared."""
    if why := why_none(work):
        return f"No comparison with the log: {why}."
    if fewer := work.table.attrs.get(FEWER, 0):
        return f"No comparison with the log: {fewer:,} of its jobs that fit on {_counted(size.nodes)} are dropped."
    logged_s = float(recorded(work)["wait_s"].mean())
    return (
        f"Mean wait on {_counted(size.nodes)}: {duration(logged_s)} in the log, {duration(size.mean_s)} under {name}. "
        "Without --what-if, the verdict gives the simulator's own error on this log."
    )
