"""Constraints of a job table: GPU types, partitions and dependencies of its columns, on the nodes of a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.constraints import Constraints, circle_in
from gpu_cluster_gym.traces import NOTHING
from gpu_cluster_gym.workloads._scenario import BINDING, EVERY, Scenario, partitions_in

if TYPE_CHECKING:
    import pandas as pd

WAYS_OUT = "correct depends_on, or drop it from --constraints"
MAX_LISTED = 6
"""Largest number of nodes of a partition that are all named."""
MET = "dependencies on jobs that are not simulated, taken as met"
"""Beginning of a note, before a number."""


def columns_that_bind(table: pd.DataFrame, scenario: Scenario) -> tuple[str, ...]:
    """Return the columns of the jobs that are simulated as constraints; ValueError where the jobs lack one."""
    if scenario.constraints is None:
        return ()
    if scenario.constraints == EVERY:
        usable = (name for name in BINDING if name != "partition" or scenario.partitions)
        return tuple(name for name in usable if name in table)
    wanted = tuple(name.strip() for name in scenario.constraints.split(","))
    if missing := [name for name in wanted if name not in table]:
        raise ValueError(
            f"constraints {scenario.constraints}: the jobs have no column {missing[0]}: add it to the log, or drop it "
            "from the constraints"
        )
    return wanted


def constraints_of(table: pd.DataFrame, scenario: Scenario, machines: Cluster) -> tuple[Constraints, int]:
    """Return the constraints of a job table, and the number of dependencies on jobs that are not in it."""
    columns = columns_that_bind(table, scenario)
    choices = []
    if "gpu_type" in columns:
        choices.append(([{name.casefold()} for name in machines.types], table["gpu_type"]))
    if "partition" in columns:
        choices.append((partitions_of(scenario, machines), table["partition"]))
    found = Constraints()
    if choices:
        labels = [tuple(frozenset(each[node]) for each, _ in choices) for node in range(machines.num_nodes)]
        kinds = list(dict.fromkeys(labels))
        may_use = np.ones((len(table), len(kinds)), bool)
        for at, (_, cells) in enumerate(choices):
            may_use &= among([kind[at] for kind in kinds], cells)
        found = Constraints(*without_equal_kinds(np.array([kinds.index(label) for label in labels]), may_use))
    if "depends_on" not in columns:
        return found, 0
    waits_for, unknown = dependencies_of(table)
    return Constraints(found.node_kind, found.may_use, waits_for), len(unknown)


def without_equal_kinds(node_kind: np.ndarray, may_use: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both arrays (see `Constraints`) with kinds of nodes that no job distinguishes merged into the first."""
    _, first, of_kind = np.unique(may_use, axis=1, return_index=True, return_inverse=True)
    kept = np.sort(first)
    return np.searchsorted(kept, first[of_kind.reshape(-1)])[node_kind], may_use[:, kept]


def among(kinds: list[frozenset[str]], cells: pd.Series) -> np.ndarray:
    """Return whether a cell names any of the names of each kind of node, or none at all: (jobs, kinds)."""
    texts, of_job = np.unique(cells.astype(str).to_numpy(), return_inverse=True)
    each = np.empty((len(texts), len(kinds)), bool)
    for row, text in enumerate(texts.tolist()):
        wanted = named_in(text)
        each[row] = [not wanted or not wanted.isdisjoint(kind) for kind in kinds]
    return each[of_job]


def named_in(text: str) -> frozenset[str]:
    """Return the names in a cell, in lower case, joined by + | or commas; empty for a blank cell."""
    names = (name.strip().casefold() for name in re.split(r"[+|,]", text))
    return frozenset(name for name in names if name and name != NOTHING)


def partitions_of(scenario: Scenario, machines: Cluster) -> list[set[str]]:
    """Return the partitions of each node, in lower case.

    ValueError where the scenario names none, or for a node that the cluster lacks.
    """
    if scenario.partitions is None:
        raise ValueError(
            "constraints partition: expected the nodes of each partition as well, --partitions NAME=0-3,OTHER=4-7"
        )
    found: list[set[str]] = [set() for _ in range(machines.num_nodes)]
    numbered = machines.numbered
    for name, numbers in (partitions_in(scenario.partitions) or {}).items():
        if (last := max(numbers)) >= len(numbered):
            every = ", in the order of the file and with those left out" if machines.names_in_file else ""
            raise ValueError(
                f"partitions {name}: {machines.name} has no node {last}, since its nodes are numbered 0 to "
                f"{len(numbered) - 1}{every}: correct the partitions, or choose a larger cluster"
            )
        for node in (numbered[number] for number in numbers):
            if node is not None:
                found[node].add(name.casefold())
    return found


def named_nodes(scenario: Scenario, machines: Cluster) -> list[str]:
    """Return a note on the names of the nodes of each partition; none where partitions, or names, are unknown."""
    names, there = machines.names_in_file, {*machines.node_names}
    if not names or scenario.partitions is None:
        return []
    clauses = []
    for partition, numbers in (partitions_in(scenario.partitions) or {}).items():
        nodes = [names[number] for number in dict.fromkeys(numbers) if number < len(names)]
        gone = [name for name in nodes if name not in there]
        clauses.append(f"{partition} has {_listed(nodes)}" + f" (left out: {_listed(gone)})" * bool(gone))
    return [f"nodes of --partitions by name: {'; '.join(clauses)}"]


def _listed(names: list[str]) -> str:
    """Return some names, those of long lists shortened to the first and the last."""
    return (
        ", ".join(names) if len(names) <= MAX_LISTED else f"{names[0]} ... {names[-1]} ({len(names):,} nodes)"
    )


def unnamed_partitions(table: pd.DataFrame, scenario: Scenario) -> str:
    """Return a clause on the jobs whose partitions the scenario does not name; empty without such jobs."""
    if "partition" not in columns_that_bind(table, scenario):
        return ""
    named = list(partitions_in(scenario.partitions or "") or {})
    known = {name.casefold() for name in named}
    counts = table["partition"].astype(str).value_counts()
    others = {
        cell: count for cell, count in counts.items() if (own := named_in(str(cell))) and not own & known
    }
    if not others:
        return ""
    shown = ", ".join(map(str, [*others][:5])) + ", ..." * (len(others) > 5)
    return f"--partitions names {', '.join(named)}, but {sum(others.values()):,} jobs are in {shown}"


def dependencies_of(table: pd.DataFrame) -> tuple[np.ndarray, list[tuple[str, str]]]:
    """Return (job, job that it waits for) by row, and (id, id that it names) where no job of the table has that id.

    Ids in a cell are joined by + or spaces.
    """
    ids = table["job_id"].astype(str).tolist()
    row_of = {name: row for row, name in enumerate(ids)}
    pairs: dict[tuple[int, int], None] = {}
    unknown: list[tuple[str, str]] = []
    for row, text in enumerate(table["depends_on"].astype(str).tolist()):
        if text == NOTHING:
            continue
        for name in [text] if text in row_of else ids_in(text):
            if name in row_of:
                pairs[row, row_of[name]] = None
            else:
                unknown.append((ids[row], name))
    return np.array(list(pairs), np.int64).reshape(-1, 2), unknown


def ids_in(text: str) -> Iterable[str]:
    """Return the ids in a cell."""
    return (name for name in re.split(r"[+\s]+", text) if name)


def refuse_wrong_dependencies(table: pd.DataFrame, file: str | None) -> None:
    """Raise ValueError where jobs of a whole log wait for an unknown job, or for one another."""
    waits_for, unknown = dependencies_of(table)
    if unknown:
        job, name = unknown[0]
        more = f" (such dependencies: {len(unknown):,})" if len(unknown) > 1 else ""
        raise ValueError(
            f"{file}: job {job} depends on {name}, but no job of the log has this id{more}: {WAYS_OUT}"
        )
    refuse_circles(table, waits_for, str(file))


def refuse_circles(table: pd.DataFrame, waits_for: np.ndarray, where: str) -> None:
    """Raise ValueError where jobs of a table wait for one another. where: name of the table."""
    if circle := circle_in(waits_for):
        ids = table["job_id"].astype(str)
        named = " -> ".join(ids[row] for row in (*circle, circle[0]))
        raise ValueError(f"{where}: jobs depend on one another in a circle ({named}): {WAYS_OUT}")


def not_simulated(table: pd.DataFrame, scenario: Scenario) -> list[str]:
    """Return the columns that would bind jobs, but are not simulated, if their cells differ."""
    simulated = columns_that_bind(table, scenario)
    other = [name for name in BINDING if name in table and name not in simulated]
    return [name for name in other if len(set(table[name].tolist())) > 1]


def asked_for(row: pd.Series, columns: Iterable[str]) -> str:
    """Return the nodes that a job's constraints allow, in words that follow its request."""
    words = {"gpu_type": ", only on {}", "partition": ", only in partition {}"}
    return "".join(
        words[name].format(row[name]) for name in columns if name in words and row[name] != NOTHING
    )
