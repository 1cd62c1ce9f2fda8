"""Reasons of the actions of `union`, also with steered weights: order of jobs, cost of GPUs, gain of pauses and moves.

The numbers are those in the memory of the rule right after its decision. The costs of all placements are computed by
the kernel's own functions, which the rule itself calls only until it has found the least.
"""

from typing import Any

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.layout import QUEUED
from gpu_cluster_gym.simulator.kernel.cluster.plan import entry
from gpu_cluster_gym.simulator.kernel.cluster.tenants import most_gpus
from gpu_cluster_gym.simulator.kernel.union.candidates import find_best_move, placement_cost
from gpu_cluster_gym.simulator.kernel.union.decide import needs_requested_cores
from gpu_cluster_gym.simulator.kernel.union.job_shapes import MAX_NAMED_GPUS, find_shapes
from gpu_cluster_gym.simulator.kernel.union.seats import (
    find_seats,
    has_requested_cores,
    list_gpus,
    num_places,
    rank_gpus,
)
from gpu_cluster_gym.simulator.policy import Action, Preempt, Resize, Start
from gpu_cluster_gym.simulator.reasons import Ranked, Reason, Terms, in_order
from gpu_cluster_gym.simulator.source import Source

START_RULE = (
    "Jobs are tried in this order; each that finds GPUs starts on those of least cost: its own time there, the wait of "
    "other jobs for these GPUs, and the loss of the jobs that share them."
)
FREED_RULE = "Running jobs were paused to free GPUs for this job, which starts on them."
SLOW_RULE = "A job starts on slower GPUs while it waits for fast ones if it ends sooner that way."
PLACED_RULE = "A job that exceeds every node starts where the placement rule of the scenario puts it."
CPU_RULE = "Jobs without GPUs start in this order where a node has cores for them."
PAUSE_RULE = (
    "Running jobs are paused for one of the first queued jobs if it gains more than they and other jobs lose."
)
MOVE_RULE = "A running job moves to other GPUs if that gains more than its pause and load take."
LEFT = "estimated remaining time, s"
TIE = 1e-9
"""Relative difference up to which two placements cost the same."""


@entry
def placement_costs(states, e, memory, k, jobs, job, costs):
    """Write the cost of a queued job in each shape (rows) at each place (columns); infinite where it cannot start.

    Only scratch fields of the memory change.
    """
    s, m = states[e], memory[k]
    as_asked = needs_requested_cores(s, jobs, m, job)
    find_seats(s, jobs, m, job, -1)
    find_shapes(s, jobs, m, job)
    for place in range(num_places(s, jobs, m, job)):
        count = list_gpus(s, m, place)
        rank_gpus(m, count)
        for shape in range(m.num_shapes):
            if m.shape_workers[shape] > most_gpus(s, jobs, job):
                continue
            if as_asked and not has_requested_cores(s, jobs, m, job, shape, count):
                continue
            costs[shape, place] = placement_cost(s, jobs, m, job, shape, count, np.inf)


@entry
def move_gain(states, e, memory, k, jobs, job):
    """Return the gain of a running job by its best move, s; 0 if none gains. The placement of the move is noted."""
    return find_best_move(states[e], jobs, memory[k], job, 0.0)


def reason(source: Source, action: Action) -> Reason | None:
    """Return the reason of an action that the rule has just returned; None for changes of cores and throttles."""
    m = source.rule_memory[0]
    match action:
        case Start(job, placement) if not placement.gpus:
            cpu_jobs = m.cpu_jobs[: m.num_cpu_jobs]
            return _in_order(
                source, CPU_RULE, "time of submission, s", job, cpu_jobs, source.jobs["submit_s"]
            )
        case Start(job, placement):
            rule, terms = _start(source, m, job, placement.gpus)
            return _in_order(source, rule, _keys(m), job, m.takers[: m.num_takers], m.key, terms=terms)
        case Preempt(job):
            cause = int(m.pending_job)
            own = Ranked(job, float(m.left_s[job]))
            for_job = Ranked(cause, float(m.left_s[cause]))
            return Reason(PAUSE_RULE, LEFT, own, 0, 0, cause=for_job, terms=_pauses(source, m, cause))
        case Resize(job, None, placement) if placement:
            own = Ranked(job, float(m.left_s[job]))
            if not m.is_choice:
                return Reason(FREED_RULE, LEFT, own, 0, 0)
            gain = float(move_gain(source.states, 0, source.rule_memory, 0, source.jobs, job))
            restart = float(source.jobs["pause_s"][job] + source.jobs["load_s"][job])
            terms = (("its pause and load, s", restart), ("gain beyond that, s", gain))
            return Reason(MOVE_RULE, LEFT, own, 0, 0, terms=terms)
    return None


def _in_order(
    source: Source, rule: str, keys: str, job: int, order: np.ndarray, key: np.ndarray, **more: Any
) -> Reason | None:
    """Return the reason of a start in this order of jobs; None if the order lacks it."""
    if job not in order:
        return None
    phase = source.state.phase
    return in_order(
        rule, keys, job, order, key[order], lambda each: each != job and phase[each] == QUEUED, **more
    )


def _keys(m: Any) -> str:
    """Return a description of the keys by which the rule orders jobs, with their unit."""
    power = f" x GPUs ** {m.exponent:.3g}" if m.exponent else ""
    weights = ("by_duty", "by_memory", "by_doubt", "by_age")
    weighted = " x weights of the job" if any(m[name] for name in weights) else ""
    return f"estimated remaining time{power}{weighted}, s"


def _start(source: Source, m: Any, job: int, gpus: tuple[int, ...]) -> tuple[str, Terms]:
    """Return the rule by which a job starts on these GPUs, and its costs: in total, in parts, and of the next best."""
    if m.is_placed:
        return PLACED_RULE, ()
    if not m.is_choice:
        return FREED_RULE, ()
    places = int(source.state.num_nodes + m.num_gpu_types + 1)
    costs = np.full((len(m.shape_workers), places), np.inf)
    placement_costs(source.states, 0, source.rule_memory, 0, source.jobs, job, costs)
    if np.isinf(costs).all():
        return SLOW_RULE, ()
    shape = int(costs.min(axis=1).argmin())
    own_s, left_s = m.shape_time[shape] * m.slowdown[list(gpus)].max(), max(float(m.left_s[job]), 1.0)
    owned = m.is_empty[list(gpus)].sum()
    others_s = own_s * m.gpu_price * (owned + m.shared_price * (len(gpus) - owned))
    terms = [
        ("cost, s", costs.min() * left_s),
        ("its own time there, s", own_s * left_s),
        ("the wait of other jobs for these GPUs, s", others_s * left_s),
    ]
    if owned < len(gpus):
        harm_s = max(costs.min() - own_s - others_s, 0.0)
        terms.append(("the loss of the jobs that share them, s", harm_s * left_s))
    dearer = np.where(costs > costs.min() * (1 + TIE), costs, np.inf)
    if np.isfinite(dearer).any():
        other, place = np.unravel_index(int(dearer.argmin()), costs.shape)
        where = f"node {place}" if place < source.state.num_nodes else "several nodes"
        workers = m.shape_workers[other]
        name = f"next best, {workers} GPU{'s' if workers > 1 else ''} on {where}, s"
        terms.append((name, dearer.min() * left_s))
    return START_RULE, tuple((name, float(value)) for name, value in terms)


def _pauses(source: Source, m: Any, job: int) -> Terms:
    """Return the comparison by which running jobs are paused for a job: its ends, the loss of others, and the gain."""
    jobs, state = source.jobs, source.state
    victims, gpus = m.best_victims[: m.num_best_victims], m.best_gpus[: m.num_best_gpus]
    nodes, servers = np.unique(state.gpu_node[gpus]), jobs["servers"][job] > 0
    # `preemption.find_multi_node_displacement` seats a gang of several nodes, except where `may_spread` holds.
    is_gang = len(nodes) > 1 and not (len(gpus) <= MAX_NAMED_GPUS and (servers or m.typed))
    pause_s, width = jobs["pause_s"][victims], state.width[victims]
    restart_s = pause_s + jobs["load_s"][victims]
    own_pause_s = 0.0 if state.phase[job] == QUEUED else jobs["pause_s"][job]
    pauses_s = max(pause_s.max(), own_pause_s)
    if is_gang:
        end_s = pauses_s + m.left_s[job]
    else:
        is_shape = (m.shape_workers == len(gpus)) & (m.shape_servers == m.best_servers)
        shape = int(np.flatnonzero(is_shape[: m.num_shapes])[0])
        end_s = pauses_s + m.shape_time[shape] * m.best_slowdown * m.own_left_s
    loss_s = len(victims) * end_s + jobs["load_s"][victims].sum()
    loss_s = m.caution * (loss_s + (max(m.num_order, 1) - 1) * (restart_s * width).sum() / state.num_gpus)
    weight = m.backlog * (1 - 1 / m.num_order) if m.num_order > 1 else 0.0
    if is_gang:  # when its GPUs would be free without pauses is unknown
        held_s = weight * (m.left_s[victims] * width).sum() / width.sum()
        terms = [
            ("its wait while they hold their GPUs, s", held_s),
            ("its wait for the pauses, s", pauses_s),
            ("loss of paused and waiting jobs, s", loss_s),
            ("gain, s", held_s - pauses_s - loss_s),
        ]
    else:
        terms = [
            ("its end without the pauses in, s", m.unaided_end_s),
            ("its end with them in, s", end_s),
            ("loss of paused and waiting jobs, s", loss_s),
        ]
        if len(nodes) == 1 and not servers:  # else the GPUs that each victim frees are not known
            on_node = state.gpu_node[: state.num_gpus] == nodes[0]
            freed = (m.victim_on[: state.num_gpus][on_node, None] == victims).sum(axis=0)
            held_s = (m.left_s[victims] * freed).sum() / freed.sum()
            waits_s = weight * max(held_s - m.unaided_start_s, 0.0)
            terms.append(("further wait for GPUs that others take, s", waits_s))
            terms.append(("gain, s", m.unaided_end_s - end_s - loss_s + waits_s))
    return tuple((name, float(value)) for name, value in terms)
