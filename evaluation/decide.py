"""Print a policy's actions for the jobs of a snapshot as JSON, or its order as `scontrol` commands; execute nothing."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluation import command
from gpu_cluster_gym.evaluation.describe import FIRST_DATE_S, add_format, pairs_of
from gpu_cluster_gym.evaluation.runner import is_oracle
from gpu_cluster_gym.simulator.choice import changed
from gpu_cluster_gym.simulator.episode import Episode, ask_at_this_instant, asking, run, set_up
from gpu_cluster_gym.simulator.policy import (
    Action,
    Placement,
    Policy,
    Preempt,
    Ranking,
    Resize,
    Start,
    Throttle,
)
from gpu_cluster_gym.traces import Snapshot, finished, has_known_columns, snapshot
from gpu_cluster_gym.traces import asking as asking_policies
from gpu_cluster_gym.workloads import Present, Scenario, present, refuse_ineffective

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "gpu-cluster-gym/decision/1"
"""Name and version of the document's schema; `docs/your_own_log.md` describes it."""
MAX_NICE = 2_147_483_645
"""Largest nice value that Slurm accepts."""


class Decision(NamedTuple):
    """Actions of a policy at an instant, in order, with jobs by their rows in the present table."""

    actions: list[Action]
    now: Present


def decision(now: Present, policy: Policy) -> Decision:
    """Return the actions of a policy at the present instant, up to its wait."""
    return Decision(acted(policy, now.episode()) if len(now.table) else [], now)


def acted(policy: Policy, episode: Episode) -> list[Action]:
    """Ask a policy at the next instant until it waits; carry out its actions and return them."""
    if isinstance(policy, Ranking):
        set_up(policy, episode)
    episode.advance()
    with asking_policies(), command.without_collection():  # which would take longer than a decision
        actions, _ = ask_at_this_instant(asking(policy, episode), episode)
    return actions


def planned_order(now: Present, policy: Policy) -> list[int]:
    """Return the queued jobs in the order of their starts, if every job ran as long as its limit and none arrived."""
    if not len(now.queued):
        return []
    episode = run(policy, now.episode())
    start_s = episode.state.start_s[now.queued]
    order = np.lexsort((episode.state.began[now.queued], start_s))
    found: list[int] = now.queued[order].tolist()
    return found


# The document.


def document(found: Decision, policy: str, snapshot_: Snapshot) -> dict[str, Any]:
    """Return a decision as the document of `SCHEMA`."""
    now, ids = found.now, found.now.table["job_id"].to_numpy(str)
    actions = [_described(action, ids, now) for action in found.actions]
    for place, each in enumerate(actions, 1):
        each["order"] = place
    return {
        "schema": SCHEMA,
        "policy": policy,
        "time_s": now.now_s + snapshot_.zero_s,
        "cluster": {"name": now.cluster.name, "nodes": now.cluster.num_nodes, "gpus": now.cluster.num_gpus},
        "running": int(len(now.table) - len(now.queued)),
        "queued": len(now.queued),
        "actions": actions,
        "notes": [*now.notes, *_why_nothing(found)],
    }


def _why_nothing(found: Decision) -> list[str]:
    """Return a note on the free GPUs where jobs queue and the policy does nothing."""
    if found.actions or not len(found.now.queued):
        return []
    machines, held = found.now.cluster, [gpu for place in found.now.places for gpu in place or ()]
    node_of = np.repeat(np.arange(machines.num_nodes), machines.node_gpus)
    free = np.array(machines.node_gpus) - np.bincount(node_of[held], minlength=machines.num_nodes)
    return [
        f"no action: {free.sum():,} of {machines.num_gpus:,} GPUs are free, at most {free.max():,} of them on one node"
    ]


def _described(action: Action, ids: np.ndarray, now: Present) -> dict[str, Any]:
    """Return an action in the words of the schema."""
    match action:
        case Start(job, placement):
            gpus = int(now.table["num_gpus"].iloc[job])
            return {"action": "start", "job_id": ids[job], "gpus": gpus, "places": _places(placement, now)}
        case Preempt(job):
            places = _places(Placement(now.places[job] or ()), now)
            gpus = int(now.table["num_gpus"].iloc[job])
            return {"action": "preempt", "job_id": ids[job], "gpus": gpus, "places": places}
        case Resize(job, cores, placement):
            moved = _places(placement, now) if placement else []
            return {"action": "resize", "job_id": ids[job], "cores_per_gpu": cores, "places": moved}
        case Throttle(job, level):
            return {"action": "throttle", "job_id": ids[job], "level": level}
    raise AssertionError(f"unexpected action {action}")


def _places(placement: Placement, now: Present) -> list[dict[str, Any]]:
    """Return GPUs by node: the node's name, or its number where it has none, and the indices of GPUs on it."""
    first = np.cumsum((0, *now.cluster.node_gpus))
    by_node: dict[int, list[int]] = {}
    for gpu in sorted(placement.gpus):
        node = int(np.searchsorted(first, gpu, side="right")) - 1
        by_node.setdefault(node, []).append(int(gpu - first[node]))
    names: Sequence[Any] = now.cluster.node_names or range(now.cluster.num_nodes)
    return [{"node": names[node], "gpus": gpus} for node, gpus in by_node.items()]


# Nice values.


def nice_values(ids: Sequence[str], priority: Mapping[str, float]) -> list[int]:
    """Return nice values >= 0 with which Slurm orders these jobs as listed.

    priority: priority of each job at a nice value of 0; if empty, all priorities are assumed to be equal.
    ValueError where Slurm's priorities are too small for that, since 0 would hold a job.
    """
    known = [priority.get(each) for each in ids]
    if not priority:
        return list(range(len(ids)))
    nice, before = [], np.inf
    for name, own in zip(ids, known, strict=True):
        if own is None:
            raise ValueError(
                f"job {name} has no priority in the snapshot although others do: run squeue --json again"
            )
        target = min(own, before - 1)
        if target < 1:
            raise ValueError(
                f"job {name} would need a priority below 1, which holds it in Slurm: raise the priorities of all jobs "
                "first (PriorityWeightAge or PriorityWeightQOS in slurm.conf)"
            )
        nice.append(int(own - target))
        before = target
    if max(nice, default=0) > MAX_NICE:
        raise ValueError(
            f"nice value {max(nice):,}: Slurm accepts at most {MAX_NICE:,} (lower the priorities)"
        )
    return nice


# The command.


def main(args: Sequence[str] | None = None) -> int:
    """Print what a policy would do now; return the exit code, 2 for an unreadable snapshot."""
    return command.run("gpu-cluster-gym decide", work, args)


def work(args: Sequence[str]) -> None:
    """Print the decision, or with --nice the commands for Slurm."""
    chosen = parser().parse_args(args)
    found, now, policy = prepared(chosen)
    if not chosen.nice:
        text = json.dumps(document(decision(now, policy()), chosen.policy, found), indent=1)
        sys.stdout.write(f"{text}\n")
        return
    order = planned_order(now, policy())
    ids = now.table["job_id"].to_numpy(str)[order].tolist()
    if ids and not found.priority:
        command.log(
            f"{chosen.file} has no priorities of Slurm: they are taken as equal, and otherwise the order does not hold "
            "(pass the output of squeue --json)"
        )
    for name, nice in zip(ids, nice_values(ids, found.priority), strict=True):
        sys.stdout.write(f"scontrol update JobId={name} Nice={nice}\n")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    found = argparse.ArgumentParser("gpu-cluster-gym decide", description=__doc__)
    add_snapshot(found)
    found.add_argument(
        "--nice",
        action="store_true",
        help="print scontrol commands that give Slurm's queue the policy's order, instead of actions",
    )
    return found


def add_snapshot(found: argparse.ArgumentParser) -> None:
    """Add the arguments that name a snapshot, a cluster and a policy."""
    found.add_argument("file", help="output of squeue --json, or a log with running and queued jobs")
    found.add_argument(
        "--policy",
        default="easy",
        help="name of a baseline (evaluate.py --list policies), or module:attribute; default: easy",
    )
    found.add_argument(
        "--cluster",
        required=True,
        help="nodes x GPUs, as in 4x8; a CSV file of nodes; or a file that ends in .json, the output of scontrol show "
        "nodes --json",
    )
    found.add_argument("--history", help="log of finished jobs; default: those in the snapshot's own file")
    found.add_argument(
        "--at",
        help="time of the snapshot, in the log's format; default: the latest time in the log. The output of squeue has "
        "its own",
    )
    add_format(found)
    found.add_argument(
        "--placement",
        default="best_fit",
        choices=("first_fit", "best_fit", "spread", "pooled"),
        help="rule that chooses nodes; default: best_fit",
    )
    found.add_argument(
        "--constraints",
        help="columns that bind jobs: gpu_type, partition, depends_on, priority (comma-separated), or all; default: "
        "none",
    )
    found.add_argument(
        "--partitions",
        help="nodes of each partition, NAME=0-3,OTHER=4-7; required by --constraints partition",
    )


def prepared(chosen: argparse.Namespace) -> tuple[Snapshot, Present, "partial[Policy]"]:
    """Return the snapshot, its jobs on the cluster, and the maker of the policy; ValueError for a wrong choice."""
    policy = baselines.load(chosen.policy)
    if is_oracle(chosen.policy):
        raise ValueError(
            f"--policy {chosen.policy} requires true run times, which are unknown here: choose another policy"
        )
    columns = pairs_of(chosen.columns)
    of_history = columns if chosen.history and columns and not has_known_columns(chosen.history) else ()
    if of_history and chosen.trace is None and has_known_columns(chosen.file):
        columns = ()
    found = snapshot(chosen.file, chosen.trace, columns=columns, time_zone=chosen.time_zone, at=chosen.at)
    if chosen.history:
        history, notes = finished(chosen.history, columns=of_history, time_zone=chosen.time_zone)
        history, later = _ended_by(history, found.now_s + found.zero_s)
        notes = [f"run times from {Path(chosen.history).name}", *notes, *later]
        found = replace(found, history=history, notes=(*found.notes, *notes))
    of_jobs = {name: getattr(chosen, name) for name in ("cluster", "placement", "constraints", "partitions")}
    scenario = changed(Scenario(physics="estimates"), of_jobs)
    refuse_ineffective(scenario, of_jobs)
    return found, present(found, scenario), partial(baselines.make, policy)


def _ended_by(history: "pd.DataFrame", time_s: float) -> tuple["pd.DataFrame", list[str]]:
    """Return the jobs of a history that ended by a time, s since 1970, and a note on the others; all without dates."""
    begin_s = history["logged_start_s" if "logged_start_s" in history else "submit_s"]
    end_s = (begin_s + history["duration_s"]).to_numpy(float) + history.attrs.get("zero_s", 0.0)
    later = end_s > time_s
    if min(time_s, end_s.min()) < FIRST_DATE_S or not later.any():
        return history, []
    if later.all():
        raise ValueError(
            "--history: all its jobs ended after the snapshot: pass a log of jobs that ended before it"
        )
    note = f"jobs of the history that ended after the snapshot left out: {later.sum():,}"
    return history[~later].reset_index(drop=True), [note]
