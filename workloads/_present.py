"""The state of a cluster at a snapshot: an episode at that time, with its running and its queued jobs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.cluster import cluster as cluster_of
from gpu_cluster_gym.simulator.constraints import NO_CONSTRAINTS, Constraints
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB
from gpu_cluster_gym.simulator.policy import Placement
from gpu_cluster_gym.traces import NOTHING, Snapshot
from gpu_cluster_gym.workloads._constraints import (
    MET,
    columns_that_bind,
    constraints_of,
    dependencies_of,
    named_nodes,
    not_simulated,
    refuse_circles,
    unnamed_partitions,
)
from gpu_cluster_gym.workloads._scenario import Scenario
from gpu_cluster_gym.workloads._workload import filled, prepare

if TYPE_CHECKING:
    import pandas as pd

    from gpu_cluster_gym.simulator.episode import Episode

SHORTEST_REST_S = 1.0
"""Minimum remaining run time of a running job."""
Part = tuple[str, int, tuple[int, ...]]
"""Part of a running job: node, number of GPUs and their indices on the node, as in `Snapshot.held`."""
KEPT = ("job_id", "submit_s", "num_gpus", "user", "tenant")
"""Columns that are read in addition to those that constrain jobs."""
OF_NODES = ("gpu_type", "partition")
"""Columns that bind jobs to nodes."""


@dataclass(frozen=True)
class Present:
    """Jobs that run or queue now, on a cluster.

    table: the jobs that the cluster can hold, sorted by submission, with `logged_start_s` (NaN for a queued job) and
        the `limit_s` that policies see as the estimate.
    jobs: the same as an array of JOB, with placeholders as run times; `barred` has a bit per kind of nodes.
    places: GPUs of each running job, None for a queued one.
    now_s: time of the snapshot.
    cluster: the machines.
    scenario: rules that apply to every policy.
    notes: notes on jobs left out and on assumptions.
    history: job table of finished jobs that the cluster can hold.
    past: the same as an array of JOB.
    constraints: nodes and other jobs that bind the jobs.
    """

    table: pd.DataFrame
    jobs: np.ndarray
    places: tuple[tuple[int, ...] | None, ...]
    now_s: float
    cluster: Cluster
    scenario: Scenario
    notes: tuple[str, ...]
    history: pd.DataFrame
    past: np.ndarray
    constraints: Constraints = NO_CONSTRAINTS

    @property
    def start_s(self) -> np.ndarray:
        """Start of each job, NaN for a queued one."""
        found: np.ndarray = self.table["logged_start_s"].to_numpy(float)
        return found

    @property
    def queued(self) -> np.ndarray:
        """Indices of the queued jobs."""
        return np.flatnonzero(np.isnan(self.start_s))

    def episode(
        self, duration_s: np.ndarray | None = None, later: np.ndarray | None = None, *, seed: int = 0
    ) -> Episode:
        """Return an episode whose next instant is now: running jobs hold their GPUs, and nothing else has started.

        duration_s: run time of each job, which is longer than a running job has run; None for the limits.
        later: future arrivals as an array of JOB like those of `past`, sorted by submission.
        """
        from gpu_cluster_gym.simulator.episode import Episode
        from gpu_cluster_gym.simulator.kernel import calls
        from gpu_cluster_gym.simulator.source import seat_of

        jobs = self.jobs.copy()
        run_s = self.table["limit_s"].to_numpy(float) if duration_s is None else duration_s
        start_s = self.start_s
        ran_s = np.nan_to_num(self.now_s - start_s)
        jobs["duration_s"] = np.where(ran_s > 0, np.maximum(run_s, ran_s + SHORTEST_REST_S), run_s)
        if later is not None and len(later):
            jobs = np.concatenate([jobs, later])
        binding = self.constraints
        if binding.bind_nodes:
            kinds = np.arange(binding.may_use.shape[1])
            binding = replace(binding, may_use=(jobs["barred"][:, None] >> kinds) & 1 == 0)
        episode = Episode(
            jobs,
            self.cluster,
            placement=self.scenario.placement,
            discipline=self.scenario.discipline,
            tick_s=self.scenario.tick,
            seed=seed,
            constraints=binding,
        )
        for job in np.argsort(start_s, kind="stable")[: int(np.isfinite(start_s).sum())].tolist():
            _pass_until(episode, float(start_s[job]))
            calls.advance(episode.states, 0, episode.jobs)
            gpus = self.places[job]
            assert gpus is not None, "a running job has a place"
            calls.start_as(episode.states, 0, episode.jobs, job, seat_of(Placement(gpus)), False)
        _pass_until(episode, self.now_s)
        return episode


def present(snapshot: Snapshot, scenario: Scenario, *, history: pd.DataFrame | None = None) -> Present:
    """Return the jobs of a snapshot on the scenario's cluster, with time limits as estimates.

    history: finished jobs, on any clock; by default those of the snapshot's own file.
    ValueError where the running jobs hold more GPUs than the cluster has, where a constraint lacks its column, and
    where jobs wait for one another.
    """
    machines = cluster_of(scenario.cluster_name)
    history = snapshot.history if history is None else history
    now, notes = snapshot.present, list(snapshot.notes)
    notes += [machines.left_out] if machines.left_out else []
    notes += named_nodes(scenario, machines)
    if now.empty:  # also without the columns that bind jobs
        return _idle(now, snapshot.now_s, machines, scenario, notes)
    if off := not_simulated(now, scenario):
        notes.append(f"columns of the log without effect: {', '.join(off)} (see --constraints)")
    binding = columns_that_bind(now, scenario)
    scenario = replace(scenario, constraints=",".join(binding) or None)
    of_futures = replace(
        scenario, constraints=",".join(each for each in binding if each != "depends_on") or None
    )
    if len(history) and (missing := [name for name in binding if name not in history]):
        raise ValueError(
            f"constraints {missing[0]}: the history has no such column: add it to the history, or drop it from the "
            "constraints"
        )
    now, held, about = _on_nodes(now, snapshot.held, machines)
    notes += about
    now, gone = _that_fit(now, machines, now["logged_start_s"].notna())
    if gone:
        notes.append(f"jobs wider than {machines.name} ({machines.num_gpus:,} GPUs) left out: {gone:,}")
    notes += filter(None, [unnamed_partitions(now, of_futures)])
    now, gone = _that_their_nodes_fit(now, machines, of_futures, now["logged_start_s"].notna())
    if gone:
        notes.append(f"jobs wider than the nodes that they may use left out: {gone:,}")
    if now.empty:
        return _idle(now, snapshot.now_s, machines, scenario, notes)
    past, wide = _that_fit(history, machines)
    if wide:
        notes.append(f"jobs of the history wider than {machines.name} left out: {wide:,}")
    past, wide = _that_their_nodes_fit(past, machines, of_futures)
    if wide:
        notes.append(f"jobs of the history wider than the nodes that they may use left out: {wide:,}")
    limit_s, past_limit_s, about = _limits(now, past, snapshot.now_s)
    notes += about
    now = now.assign(limit_s=limit_s)
    places, about = places_of(now, held, machines, _nodes_of(now, of_futures, machines))
    notes += about
    now, about = _free_elsewhere(now, places, of_futures, machines)
    notes += about
    jobs, past_jobs, constraints = _arrays(now, past.assign(limit_s=past_limit_s), of_futures)
    if "depends_on" in binding:
        waits_for, about = _waits(now, set(history["job_id"].astype(str)))
        constraints, notes = replace(constraints, waits_for=waits_for), notes + about
    return Present(
        now, jobs, places, snapshot.now_s, machines, scenario, tuple(notes), past, past_jobs, constraints
    )


def _idle(
    table: pd.DataFrame, now_s: float, machines: Cluster, scenario: Scenario, notes: Sequence[str]
) -> Present:
    """Return the state of a cluster without jobs, also without a history. table: without rows."""
    none, table = np.zeros(0, JOB), table.assign(limit_s=table["duration_s"])
    return Present(table, none, (), now_s, machines, scenario, tuple(notes), table, none)


def _nodes_of(table: pd.DataFrame, scenario: Scenario, machines: Cluster) -> np.ndarray | None:
    """Return whether each job may use each node, (jobs, nodes); None where no constraint binds jobs to nodes."""
    if table.empty:
        return None
    found, _ = constraints_of(table, scenario, machines)
    return found.may_use[:, found.node_kind] if found.bind_nodes else None


def _that_their_nodes_fit(
    table: pd.DataFrame, machines: Cluster, scenario: Scenario, running: pd.Series | bool = False
) -> tuple[pd.DataFrame, int]:
    """Return the jobs that the nodes they may use can hold, running ones in any case, and the number of others."""
    may_use = _nodes_of(table, scenario, machines)
    if may_use is None:
        return table, 0
    fits = ((table["num_gpus"] <= may_use @ np.array(machines.node_gpus)) | running).to_numpy(bool)
    return table[fits].reset_index(drop=True), int((~fits).sum())


def _free_elsewhere(
    now: pd.DataFrame, places: tuple[tuple[int, ...] | None, ...], scenario: Scenario, machines: Cluster
) -> tuple[pd.DataFrame, list[str]]:
    """Return the jobs, without the constraints of those that run on nodes that they may not use, and notes."""
    may_use = _nodes_of(now, scenario, machines)
    if may_use is None:
        return now, []
    node_of = np.repeat(np.arange(machines.num_nodes), machines.node_gpus)
    wrong = np.array(
        [gpus is not None and not may_use[job, node_of[list(gpus)]].all() for job, gpus in enumerate(places)]
    )
    if not wrong.any():
        return now, []
    note = (
        f"running jobs on nodes that their constraints do not allow, taken as bound to none: {wrong.sum():,}"
    )
    return now.assign(**{name: now[name].mask(wrong, NOTHING) for name in OF_NODES if name in now}), [note]


def _waits(now: pd.DataFrame, ended: set[str]) -> tuple[np.ndarray, list[str]]:
    """Return (queued job, present job that it waits for) by row, and notes. ended: ids of the history."""
    waits_for, unknown = dependencies_of(now)
    waits_for = waits_for[now["logged_start_s"].isna().to_numpy(bool)[waits_for[:, 0]]]
    refuse_circles(now, waits_for, "snapshot")
    met = sum(name not in ended for _, name in unknown)
    return waits_for, [f"{MET}: {met:,}"] if met else []


def _that_fit(
    table: pd.DataFrame, machines: Cluster, running: pd.Series | bool = False
) -> tuple[pd.DataFrame, int]:
    """Return the jobs that are not wider than the cluster, running ones in any case, and the number of others."""
    fits = ((table["num_gpus"] <= machines.num_gpus) | running).to_numpy(bool)
    return table[fits].reset_index(drop=True), int((~fits).sum())


def _on_nodes(
    table: pd.DataFrame, held: Mapping[str, Sequence[Part]], machines: Cluster
) -> tuple[pd.DataFrame, Mapping[str, Sequence[Part]], list[str]]:
    """Return the jobs and their parts on the named nodes of the cluster, and notes.

    A node that drains is not in the cluster: a job that still runs there holds none of the cluster's GPUs.
    """
    if not (names := {*machines.node_names}):
        return table, held, []
    kept = {job: [part for part in parts if part[0] in names] for job, parts in held.items()}
    moved = table["job_id"].isin([job for job, parts in held.items() if len(kept[job]) < len(parts)])
    if not moved.any():
        return table, held, []
    here = table["job_id"].map({job: sum(part[1] for part in parts) for job, parts in kept.items()})
    width = table["num_gpus"].where(~moved, here).astype(table["num_gpus"].dtype)
    gpus = int((table["num_gpus"] - width).sum())
    found = table.assign(num_gpus=width)[(width > 0).to_numpy(bool)].reset_index(drop=True)
    note = (
        f"running jobs on nodes that {machines.name} leaves out or lacks, without their {gpus:,} GPUs there"
    )
    return found, kept, [f"{note}: {int(moved.sum()):,}"]


def _limits(now: pd.DataFrame, past: pd.DataFrame, now_s: float) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return the time limits of present and past jobs, and notes; without any, one that no job has exceeded."""
    if "time_limit_s" in now:
        longest = float(now["time_limit_s"].max())
        before = (
            past["time_limit_s"].to_numpy(float) if "time_limit_s" in past else np.full(len(past), longest)
        )
        return now["time_limit_s"].to_numpy(float), before, []
    ran_s = (now_s - now["logged_start_s"]).max(skipna=True)
    times = [float(each) for each in (ran_s, past["duration_s"].max() if len(past) else np.nan) if each > 0]
    if not times:
        raise ValueError(
            "the snapshot has no time limits and no finished jobs, from which run times could be estimated: pass a log "
            "of finished jobs with --history"
        )
    longest = max(times)
    note = f"no time limits: every job is given the longest run time known, {longest:,.0f} s, as its limit"
    return np.full(len(now), longest), np.full(len(past), longest), [note]


def _arrays(
    now: pd.DataFrame, past: pd.DataFrame, scenario: Scenario
) -> tuple[np.ndarray, np.ndarray, Constraints]:
    """Return the present and the past jobs as arrays of JOB, and what binds the present ones to nodes.

    Equal users have equal numbers in both arrays. Bit k of `barred`: the job may not use nodes of kind k.
    """
    import pandas as pd

    both = []
    for number, table in enumerate((past, now)):
        kept = (*KEPT, *(scenario.constraints or "").split(","))
        columns = {name: table[name] for name in kept if name in table} | {
            "job_id": [f"{number}.{row}" for row in range(len(table))],
            "duration_s": table["duration_s"].fillna(1.0),
            "profiled_duration_s": table["limit_s"],
            "predicted_duration_s": table["limit_s"],
            "predictable_from": 1.0,
            "submit_s": (2.0 * number + np.arange(len(table)) / max(len(table), 1)),  # keeps the order
        }
        both.append(pd.DataFrame(columns))
    shared = [name for name in both[1] if name in both[0] or not len(both[0])]
    table = pd.concat([each[shared] for each in both if len(each)], ignore_index=True)
    table.attrs = {"notes": [], "origin": {}}
    work = prepare(filled(table, scenario, seed=scenario.seed), scenario)
    jobs, past_jobs = work.jobs[len(past) :].copy(), work.jobs[: len(past)].copy()
    jobs["submit_s"], past_jobs["submit_s"] = now["submit_s"], past["submit_s"]
    binding = work.constraints
    if not binding.bind_nodes:
        return jobs, past_jobs, binding
    barred = ~binding.may_use @ (1 << np.arange(binding.may_use.shape[1]))
    past_jobs["barred"], jobs["barred"] = np.split(barred, [len(past)])
    return jobs, past_jobs, replace(binding, may_use=binding.may_use[len(past) :])


def places_of(
    table: pd.DataFrame,
    held: Mapping[str, Sequence[Part]],
    machines: Cluster,
    may_use: np.ndarray | None = None,
) -> tuple[tuple[tuple[int, ...] | None, ...], list[str]]:
    """Return the GPUs of each running job, None for a queued one, and notes.

    held: parts of each job, by its id. A job whose nodes are unknown is placed on as few nodes as possible, of those
    that it may use if they suffice: the job with the fewest GPUs to choose from first, then the widest.
    may_use: (jobs, nodes); None where jobs may use every node.
    ValueError where there are not enough GPUs.
    """
    first = np.cumsum((0, *machines.node_gpus)).tolist()
    free = [list(range(first[node], first[node + 1])) for node in range(machines.num_nodes)]
    runs = table["logged_start_s"].notna().to_numpy(bool)
    width, ids = table["num_gpus"].to_numpy(int), table["job_id"].to_numpy()
    if (asked := int(width[runs].sum())) > machines.num_gpus:
        raise ValueError(
            f"the running jobs hold {asked:,} GPUs, and {machines.name} has {machines.num_gpus:,}: pass the "
            "cluster of the snapshot with --cluster (for an export of one partition, the nodes of that partition)"
        )
    places: list[tuple[int, ...] | None] = [None] * len(table)
    number = _numbers(held, machines)
    left = []
    for job in np.flatnonzero(runs).tolist():
        parts = [(number.get(node, -1), count, gpus) for node, count, gpus in held.get(ids[job], ())]
        places[job] = _named_place(parts, free, first)
        if places[job] is None:
            left.append(job)
    allowed = np.ones((len(table), machines.num_nodes), bool) if may_use is None else may_use
    choice = allowed @ np.array(machines.node_gpus)
    for job in sorted(left, key=lambda job: (choice[job], -width[job])):
        places[job] = _any_place(int(width[job]), free, np.flatnonzero(allowed[job]).tolist())
    if not left:
        return tuple(places), []
    why = "the snapshot does not say where, or names other nodes than the cluster has"
    return tuple(places), [f"running jobs placed on as few nodes as possible, since {why}: {len(left):,}"]


def _numbers(held: Mapping[str, Sequence[Part]], machines: Cluster) -> dict[str, int]:
    """Return the index of each named node: by the cluster's names, or on equal nodes in the order of names."""
    if machines.node_names:
        return {name: node for node, name in enumerate(machines.node_names)}
    names = sorted({part[0] for parts in held.values() for part in parts}, key=_natural)
    if len(names) > machines.num_nodes or len({*machines.node_gpus}) > 1:
        return {}
    return {name: node for node, name in enumerate(names)}


def _natural(name: str) -> list[tuple[bool, int, str]]:
    return [
        (not part.isdigit(), int(part) if part.isdigit() else 0, part)
        for part in re.findall(r"\d+|\D+", name)
    ]


def _named_place(
    parts: Sequence[tuple[int, int, tuple[int, ...]]], free: list[list[int]], first: Sequence[int]
) -> tuple[int, ...] | None:
    """Take the GPUs that a job is known to hold and return them; None where they are not known or not free."""
    if not parts or any(node < 0 for node, _, _ in parts):
        return None
    taken: list[int] = []
    for node, count, gpus in parts:
        own = [first[node] + each for each in gpus] if len(gpus) == count else free[node][:count]
        if len(own) < count or not {*own} <= {*free[node]}:
            return None
        taken += own
    if max(Counter(taken).values()) > 1:
        return None
    for node in {node for node, _, _ in parts}:
        free[node] = [gpu for gpu in free[node] if gpu not in {*taken}]
    return tuple(taken)


def _any_place(width: int, free: list[list[int]], nodes: Sequence[int]) -> tuple[int, ...]:
    """Take GPUs on as few nodes as possible, those with the fewest free ones that suffice, and return them.

    nodes: allowed nodes; all nodes are used if these have too few free GPUs.
    """
    taken: list[int] = []
    if sum(len(free[node]) for node in nodes) < width:
        nodes = range(len(free))
    while width > len(taken):
        rest = width - len(taken)
        fitting = [node for node in nodes if len(free[node]) >= rest]
        node = (
            min(fitting, key=lambda node: len(free[node]))
            if fitting
            else max(nodes, key=lambda node: len(free[node]))
        )
        taken += free[node][:rest]
        free[node] = free[node][rest:]
    return tuple(taken)


def _pass_until(episode: Episode, time_s: float) -> None:
    """Let jobs arrive until a time, which is then the next instant."""
    from gpu_cluster_gym.simulator.kernel import calls

    state = episode.state
    while calls.next_event(episode.states, 0, episode.jobs) < time_s:
        calls.advance_past_ticks(episode.states, 0, episode.jobs)
    if state.clock < time_s:
        state.present_seconds += (time_s - state.clock) * (state.num_arrived - state.num_done)
    state.clock = state.wake = time_s
