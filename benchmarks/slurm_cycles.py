"""Slurm's scheduling cycles on nodes, in plain Python, to explain differences from EASY backfilling.

By slurm.conf(5) and what its logs show, the main cycle starts jobs in order of priority until one does not fit; a
backfill cycle also starts later ones that do not delay the planned start of that one. Two things differ from EASY. The
plan is coarse: running jobs are taken away by end time in groups of 30 s, each group twice as long as the one before
(`bf_window_linear` changes that), so that the planned start is up to half a minute late. And it reserves whole nodes,
the first that fit, so that later jobs may use all others.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

FIRST_GROUP_S, GROWTH = 30.0, 2
"""Length of the first group of running jobs that a plan takes away at once, and the growth of later ones."""
EARLIEST_S = 0.0
"""First group with which a plan is that of EASY: one end time after the other."""


class Job(NamedTuple):
    """A job of the referee: submission, run time and limit in s, nodes, and GPUs on each of them."""

    submit_s: float
    run_s: float
    limit_s: float
    nodes: int
    gpus: int


class Running(NamedTuple):
    """A running job: the time at which its limit ends, its GPUs on each node, and its nodes."""

    limit_ends_s: float
    gpus: int
    nodes: Sequence[int]


class Plan(NamedTuple):
    """The planned start of the first job that waits, and the nodes reserved for it from then on."""

    start_s: float
    nodes: Sequence[int]


NO_PLAN = Plan(np.inf, ())


def chosen(free: Sequence[int], job: Job, without: Sequence[int] = ()) -> list[int] | None:
    """Return the nodes that Slurm gives a job, None where it does not fit.

    The first of the run of adjacent nodes that is large enough and has fewest free GPUs; else the first of all.
    free: GPUs by node. without: nodes that it may not use.
    """
    runs: list[list[int]] = [[]]
    for node, count in enumerate(free):
        if count >= job.gpus and node not in without:
            runs[-1].append(node)
        elif runs[-1]:
            runs.append([])
    able = [run for run in runs if len(run) >= job.nodes]
    every = [node for run in runs for node in run]
    nodes = min(able, key=lambda run: sum(free[node] for node in run), default=every)
    return nodes[: job.nodes] if len(nodes) >= job.nodes else None


def planned(free: Sequence[int], job: Job, running: Sequence[Running], first_group_s: float) -> Plan:
    """Return the start that is planned for a job as running jobs reach their limits."""
    left, group_s = list(free), first_group_s
    in_order, at = sorted(running, key=lambda each: each.limit_ends_s), 0
    while at < len(in_order):
        until_s = in_order[at].limit_ends_s + group_s
        while at < len(in_order) and in_order[at].limit_ends_s <= until_s:
            for node in in_order[at].nodes:
                left[node] += in_order[at].gpus
            at += 1
        if nodes := chosen(left, job):
            return Plan(in_order[at - 1].limit_ends_s, nodes)
        group_s *= GROWTH
    return NO_PLAN


def started(
    now_s: float,
    free: list[int],
    queue: Mapping[int, Job],
    running: list[Running],
    *,
    backfills: bool,
    first_group_s: float = FIRST_GROUP_S,
) -> dict[int, list[int]]:
    """Return the nodes of each job that a cycle starts, by its number; `free` and `running` are changed.

    queue: jobs by number, in order of priority. backfills: whether jobs behind one that waits may start.
    """
    found, plan = dict[int, list[int]](), NO_PLAN
    for number, job in queue.items():
        ends_s = np.floor(now_s) + job.limit_s  # Slurm plans in whole seconds
        nodes = chosen(free, job, plan.nodes if ends_s > plan.start_s else ())
        if nodes is not None:
            found[number] = nodes
            running.append(Running(ends_s, job.gpus, nodes))
            for node in nodes:
                free[node] -= job.gpus
        elif not backfills:
            break
        elif plan is NO_PLAN:
            plan = planned(free, job, running, first_group_s)
    return found


def simulated(
    jobs: Sequence[Job],
    cycles: Sequence[tuple[float, bool]],
    nodes: int,
    gpus: int,
    first_group_s: float = FIRST_GROUP_S,
) -> np.ndarray:
    """Return the start of each job, s; NaN for one that the last cycle leaves.

    jobs: in order of submission. cycles: time of each, and whether it backfills.
    """
    start_s, free, queue = np.full(len(jobs), np.nan), [gpus] * nodes, dict[int, Job]()
    ends: list[tuple[float, int, Running]] = []
    arrived = 0
    for now_s, backfills in cycles:
        while ends and ends[0][0] <= now_s:
            *_, ended = heapq.heappop(ends)
            for node in ended.nodes:
                free[node] += ended.gpus
        while arrived < len(jobs) and jobs[arrived].submit_s <= now_s:
            queue[arrived] = jobs[arrived]
            arrived += 1
        running = [each for *_, each in ends]
        found = started(now_s, free, queue, running, backfills=backfills, first_group_s=first_group_s)
        for number, given in found.items():
            job = queue.pop(number)
            start_s[number] = now_s
            own = Running(np.floor(now_s) + job.limit_s, job.gpus, given)
            heapq.heappush(ends, (now_s + job.run_s, number, own))
    return start_s


class Agreement(NamedTuple):
    """Starts that a model and Slurm make at the same cycles from Slurm's own states, and those that one alone makes."""

    both: int
    slurm_alone: int
    model_alone: int


def agreement(
    jobs: Sequence[Job],
    start_s: np.ndarray,
    places: Sequence[Sequence[int]],
    cycles: Sequence[tuple[float, bool]],
    nodes: int,
    gpus: int,
    first_group_s: float = FIRST_GROUP_S,
) -> Agreement:
    """Ask the model at every cycle what it would start, with the jobs that wait and run in Slurm then.

    start_s, places: Slurm's start of each job and its nodes. The other arguments are those of `simulated`.
    """
    submit_s, end_s = (np.array([each.submit_s for each in jobs]), start_s + [each.run_s for each in jobs])
    both = slurm_alone = model_alone = 0
    next_s = [*(time for time, _ in cycles[1:]), np.inf]
    for (now_s, backfills), later_s in zip(cycles, next_s, strict=True):
        running, free = [], [gpus] * nodes
        for number in np.flatnonzero((start_s < now_s) & (end_s > now_s)).tolist():
            job = jobs[number]
            running.append(Running(np.floor(start_s[number]) + job.limit_s, job.gpus, places[number]))
            for node in places[number]:
                free[node] -= job.gpus
        waits = np.flatnonzero((submit_s <= now_s) & (start_s >= now_s)).tolist()
        queue = {number: jobs[number] for number in waits}
        model = {*started(now_s, free, queue, running, backfills=backfills, first_group_s=first_group_s)}
        slurm = {number for number in queue if start_s[number] < later_s}
        both += len(model & slurm)
        slurm_alone, model_alone = slurm_alone + len(slurm - model), model_alone + len(model - slurm)
    return Agreement(both, slurm_alone, model_alone)
