"""What the kernel would do next, told as moves: it does it on the scratch record, and the two records are compared."""

from collections.abc import Sequence

import numpy as np

from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    KEYS,
    NOBODY,
    PAUSING,
    PLACEMENTS,
    QUEUED,
    RESERVED,
    SERVER_CORES,
)
from gpu_cluster_gym.simulator.kernel.rankings import granting
from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Ranking, Start, Wait
from gpu_cluster_gym.simulator.source import Source
from gpu_cluster_gym.traces import unknown

RULES = PLACEMENTS[:3]
"""Of placement; `pooled` is another cluster."""
PREEMPTIONS = ("never", "by_order", "cost_aware")


def adopt(states: np.ndarray, e: int, jobs: np.ndarray, ranking: Ranking) -> None:
    """Put a ranking in force on a record."""
    calls.adopt(
        states,
        e,
        jobs,
        KEYS.index(ranking.key),
        ranking.exponent,
        ranking.margin,
        PREEMPTIONS.index(ranking.preempt),
    )


def put_in_force(source: Source, ranking: Ranking) -> None:
    """Copy the state to the scratch record and put a ranking in force there."""
    source.states[1] = source.states[0]
    adopt(source.states, 1, source.jobs, ranking)


def next_move(source: Source, ranking: Ranking) -> Action:
    """Return what is left of a ranking's pass at this instant: its preemptions, then its starts, then Wait."""
    if source.moves_at != source.instant:
        put_in_force(source, ranking)
        calls.walk(source.states, 1, source.jobs)
        source.moves, source.moves_at = moves_made(source), source.instant
    return source.moves.pop() if source.moves else Wait()


def picked(source: Source, job: int) -> list[Action]:
    """Return the moves by which a queued job starts, the last first; see `View.pick`."""
    if source.state.phase[job] != QUEUED:
        raise ValueError(f"job {job} is not queued, so it cannot be picked")
    source.states[1] = source.states[0]
    calls.pick(source.states, 1, source.jobs, job)
    return moves_made(source)


def start_first(source: Source, order: Sequence[int] | np.ndarray, cores: float | None) -> Start | None:
    """Return the start of the first of these queued jobs that fits where the rule puts it; see `View.start_first`."""
    job = int(granting.first_that_fits(source.states, 0, source.jobs, source.known(order), cores or 0.0))
    if job == NOBODY:
        return None
    count = int(source.jobs["num_gpus"][job])
    if count == 0:
        return Start(job, Placement((), node=int(source.state.chosen_node[0])))
    servers = SERVER_CORES * int(source.jobs["servers"][job]) / count
    each = None if cores is None else cores + servers
    return Start(job, Placement(tuple(source.state.gpus[:count].tolist()), each))


def place(
    source: Source, job: int, cores: float | None, gpus: int | None, rule: str | None = None
) -> Placement | None:
    """Return where a rule, the scenario's unless named, would start a job on free GPUs; see `View.place`."""
    if rule is not None:
        if rule not in RULES:
            raise ValueError(unknown("rule of placement", rule, RULES))
        own = int(source.states["placement"][0])
        source.states["placement"][0] = PLACEMENTS.index(rule)
        try:
            return place(source, job, cores, gpus)
        finally:
            source.states["placement"][0] = own
    states, jobs = source.states, source.jobs
    count = int(jobs["num_gpus"][job] if gpus is None else gpus)
    asked = calls.cores_asked(states, 0, jobs, job, count, 0, -1)
    if not calls.place(states, 0, jobs, job, count, float(asked if cores is None else cores)):
        return None
    if count == 0:
        return Placement((), cores, node=int(source.state.chosen_node[0]))
    return Placement(tuple(source.state.gpus[:count].tolist()), cores)


def moves_made(source: Source) -> list[Action]:
    """Return the moves that lead from the state to the scratch record, the last first."""
    state, after, seen = source.state, source.after, source.arrived
    moved = np.flatnonzero(after.phase[:seen] != state.phase[:seen])
    paused = moved[(after.phase[moved] == PAUSING) | (after.phase[moved] == QUEUED)]
    begun = np.setdiff1d(moved, paused)
    # What starts first may take cores that the next lacks.
    begun = begun[np.argsort(-after.began[begun], kind="stable")]
    starts: list[Action] = []
    for job in begun.tolist():
        owner = after.reserved_for if after.phase[job] == RESERVED else after.first_owner
        gpus = np.flatnonzero(owner[: after.num_gpus] == job)
        node = int(after.node_of[job]) if after.node_of[job] != NOBODY else None
        held = after.next_cores if after.phase[job] == RESERVED else after.core_count
        cores = float(held[job]) if state.cpu_limited else None
        starts.append(Start(job, Placement(tuple(gpus.tolist()), cores, node)))
    return starts + [Preempt(job) for job in paused.tolist()]
