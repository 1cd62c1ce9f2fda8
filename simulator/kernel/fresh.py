"""A fresh record for an episode: machines empty, no job arrived."""

from collections.abc import Sequence

import numpy as np

from simulator.kernel import calls
from simulator.kernel.holding import LEAST_CORES
from simulator.kernel.layout import MAX_LEVELS, MODULUS, NOBODY, state_dtype, tier
from traces import stream


def fresh(
    jobs: np.ndarray,
    *,
    node_gpus: Sequence[int],
    node_memory: Sequence[float],
    node_cores: Sequence[float],
    node_type: Sequence[int],
    rows: int = 2,
    **choices: float,
) -> np.ndarray:
    """Return `rows` records, the first ready for the first instant, the others blank for clones.

    `jobs` has the dtype JOB, sorted by submission; its `demand`, and what is left open, are written here. `choices`
    are scalar fields of the record: the rule in force, `tick`, `exact`, `pooled`. ValueError where the tiers do not
    reach or memory sizes are too many.
    """
    size = tier(len(jobs), len(node_gpus), int(sum(node_gpus)))
    states = np.zeros(rows, state_dtype(size))
    s = states[0]
    for name, usual in (("least", "num_gpus"), ("most", "num_gpus"), ("late_estimate", "estimate")):
        jobs[name] = np.where(jobs[name] > 0, jobs[name], jobs[usual])
    for name, value in choices.items():
        s[name] = value
    s.num_jobs, s.num_nodes, s.num_gpus = len(jobs), len(node_gpus), sum(node_gpus)
    s.wake = np.inf
    s.dice = stream(s.seed, "out of memory").integers(1, MODULUS)
    s.node_dice[: s.num_nodes] = stream(s.seed, "outages").integers(1, MODULUS, s.num_nodes)
    s.clock = jobs["submit"][0] if len(jobs) else 0.0
    lay_out_jobs(s, jobs)
    lay_out_machines(s, np.asarray(node_gpus), np.asarray(node_memory, float), np.asarray(node_cores, float))
    s.node_type[: len(node_gpus)] = node_type
    lay_out_queues(s, jobs)
    calls.begin(states, 0, jobs)
    return states


def lay_out_jobs(s: np.record, jobs: np.ndarray) -> None:
    """Write that no job has arrived, and what each asks for."""
    for name in ("start", "finish"):
        s[name][:] = np.nan
    s.busy_until = jobs["submit"][-1] if len(jobs) else 0.0
    s.throttle[:] = 1.0
    s.width[: len(jobs)] = s.workers[: len(jobs)] = jobs["num_gpus"]
    s.servers[: len(jobs)] = jobs["servers"]
    s.predictable[: len(jobs)] = jobs["predictable_from"] <= 0
    for name in ("first_seat", "place_in_events", "holder", "resident", "next_seat", "heir", "node_of"):
        s[name][:] = NOBODY
    s.touched[:] = -1


def lay_out_machines(s: np.record, gpus: np.ndarray, memory: np.ndarray, cores: np.ndarray) -> None:
    """Write the nodes and their GPUs, all free."""
    nodes = len(gpus)
    sizes = np.unique(memory)
    if len(sizes) > MAX_LEVELS:
        raise ValueError(f"{len(sizes)} sizes of GPU memory in one cluster: at most {MAX_LEVELS}")
    s.node_gpus[:nodes] = s.free[:nodes] = gpus
    s.node_first[:nodes] = np.cumsum(gpus) - gpus
    s.node_memory[:nodes] = memory
    s.node_cores[:nodes] = s.free_cores[:nodes] = cores
    s.spare_cores[:nodes] = cores - gpus
    s.node_level[:nodes] = np.searchsorted(sizes, memory)
    s.gpu_node[: gpus.sum()] = np.repeat(np.arange(nodes), gpus)
    s.free_memory[: gpus.sum()] = np.repeat(memory, gpus)
    s.num_free = gpus.sum()
    s.num_levels = len(sizes)
    s.level_memory[: len(sizes)] = sizes
    for level, size in enumerate(sizes):
        s.level_largest[level] = gpus[memory >= size].max()
    np.add.at(s.bucket, (s.node_level[:nodes], gpus), 1)


def lay_out_queues(s: np.record, jobs: np.ndarray) -> None:
    """Give each demand (GPUs, cores, and which nodes can hold it) its stretch of the queue."""
    level = np.searchsorted(s.level_memory[: s.num_levels], jobs["peak"])
    if s.cores_bind:
        jobs["cores"] = np.maximum(jobs["cores"], LEAST_CORES)
    cores = jobs["cores"] * s.cores_bind
    _, jobs["demand"], counts = np.unique(
        np.stack([jobs["num_gpus"], level, cores]), axis=1, return_inverse=True, return_counts=True
    )
    s.num_demands = len(counts)
    s.queue_start[: len(counts)] = np.cumsum(counts) - counts
