"""Initial state of an episode: empty machines, no job arrived."""

from collections.abc import Sequence

import numpy as np

from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    MAX_GROUPS,
    MAX_TENANTS,
    MIN_CORES,
    MODULUS,
    NOBODY,
    state_dtype,
    tier,
)
from gpu_cluster_gym.traces import stream

USUAL = (
    ("min_workers", "num_gpus"),
    ("max_workers", "num_gpus"),
    ("predicted_duration_s", "profiled_duration_s"),
    ("profiled_active_ms", "active_ms"),
    ("profiled_idle_ms", "idle_ms"),
)
"""Optional job fields and the fields that they default to."""


def fresh(
    jobs: np.ndarray,
    *,
    node_gpus: Sequence[int],
    node_memory: Sequence[float],
    node_cores: Sequence[float],
    node_type: Sequence[int],
    rows: int = 2,
    room: int = 0,
    tenant: np.ndarray | None = None,
    quotas: Sequence[int] = (),
    node_kind: np.ndarray | None = None,
    may_use: np.ndarray | None = None,
    waits_for: np.ndarray | None = None,
    **choices: float,
) -> np.ndarray:
    """Return `rows` records, the first ready for the first instant, the others blank for clones.

    jobs: dtype JOB, sorted by submission; `request_class` and optional fields are written here.
    node_gpus, node_memory, node_cores, node_type: GPUs, GiB per GPU, CPU cores and index of the GPU type of
    each node.
    room: number of jobs for which the records have room at least.
    tenant, quotas: tenant of each job, and the guaranteed GPUs of each; without quotas there are no tenants.
    node_kind, may_use: kind of each node, and whether each job may use the nodes of each kind, (jobs, kinds); without
    them every job may use every node.
    waits_for: (dependencies, 2), a job and one that must end before it may start.
    choices: scalar fields of the record: the active ranking, `tick`, `exact`, `pooled`, and physics.

    ValueError if the largest tier is exceeded, or if there are too many groups of nodes.
    """
    pairs = np.empty((0, 2), np.int64) if waits_for is None else waits_for
    size = tier(max(len(jobs), len(pairs), room), len(node_gpus), int(sum(node_gpus)))
    states = np.zeros(rows, state_dtype(size))
    s = states[0]
    for name, usual in USUAL:
        jobs[name] = np.where(jobs[name] > 0, jobs[name], jobs[usual])
    for name, value in choices.items():
        s[name] = value
    s.num_jobs, s.num_nodes, s.num_gpus = len(jobs), len(node_gpus), sum(node_gpus)
    s.wake = np.inf
    s.rng_state = stream(s.seed, "out of memory").integers(1, MODULUS)
    s.node_rng_state[: s.num_nodes] = stream(s.seed, "outages").integers(1, MODULUS, s.num_nodes)
    s.clock = jobs["submit_s"][0] if len(jobs) else 0.0
    lay_out_jobs(s, jobs)
    lay_out_tenants(s, jobs, tenant, quotas)
    lay_out_dependencies(s, pairs)
    kind = np.zeros(s.num_nodes, np.int64) if node_kind is None else node_kind
    machines = (np.asarray(node_gpus), np.asarray(node_memory, float), np.asarray(node_cores, float))
    lay_out_machines(s, *machines, kind)
    bar_nodes(s, jobs, kind, may_use)
    s.node_type[: len(node_gpus)] = node_type
    lay_out_queues(s, jobs)
    calls.begin(states, 0, jobs)
    return states


def lay_out_jobs(s: np.record, jobs: np.ndarray) -> None:
    """Initialise the jobs: none has arrived."""
    for name in ("start_s", "finish_s"):
        s[name][:] = np.nan
    s.busy_until = jobs["submit_s"][-1] if len(jobs) else 0.0
    s.throttle[:] = 1.0
    s.width[: len(jobs)] = s.workers[: len(jobs)] = jobs["num_gpus"]
    s.servers[: len(jobs)] = jobs["servers"]
    s.predictable[: len(jobs)] = jobs["predictable_from"] <= 0
    for name in (
        "first_slot",
        "place_in_events",
        "first_owner",
        "job_in",
        "next_slot",
        "reserved_for",
        "node_of",
        "blocked_job",
    ):
        s[name][:] = NOBODY
    s.last_action_instant[:] = -1


def lay_out_tenants(s: np.record, jobs: np.ndarray, tenant: np.ndarray | None, quotas: Sequence[int]) -> None:
    """Write the tenants and their quotas; ValueError if there are too many."""
    if len(quotas) > MAX_TENANTS:
        raise ValueError(f"{len(quotas)} tenants: expected at most {MAX_TENANTS}; merge some of them")
    s.num_tenants = len(quotas)
    s.quota[: len(quotas)] = quotas
    if tenant is not None:
        s.tenant[: len(jobs)] = tenant
    s.pass_tenant = NOBODY
    s.tenant_head[:] = NOBODY
    s.free_limit = s.num_gpus


def lay_out_dependencies(s: np.record, waits_for: np.ndarray) -> None:
    """Write which jobs wait for which; waits_for: (dependencies, 2), a job and one that it waits for."""
    order = np.lexsort((waits_for[:, 0], waits_for[:, 1]))
    s.num_dependencies = len(waits_for)
    s.dependents[: len(waits_for)] = waits_for[order, 0]
    s.unmet[: s.num_jobs] = np.bincount(waits_for[:, 0], minlength=s.num_jobs)
    s.dependents_end[: s.num_jobs] = np.cumsum(np.bincount(waits_for[:, 1], minlength=s.num_jobs))


def bar_nodes(s: np.record, jobs: np.ndarray, kind: np.ndarray, may_use: np.ndarray | None) -> None:
    """Write the groups of nodes that each job may not use; a group has nodes of one kind."""
    jobs["barred"] = 0
    if may_use is None:
        return
    for group in range(s.num_groups):
        of_group = kind[np.argmax(s.node_group[: s.num_nodes] == group)]
        jobs["barred"] |= np.where(may_use[:, of_group], 0, 1 << group)
    s.binds = jobs["barred"].any()


def lay_out_machines(
    s: np.record, gpus: np.ndarray, memory: np.ndarray, cores: np.ndarray, kind: np.ndarray
) -> None:
    """Initialise the nodes and their GPUs, all free; those of one memory and kind are a group, by memory first."""
    nodes = len(gpus)
    groups, of_node = np.unique(np.column_stack([memory, kind]), axis=0, return_inverse=True)
    of_node = of_node.reshape(-1)
    if len(groups) > MAX_GROUPS:
        raise ValueError(
            f"{len(groups)} kinds of nodes in one cluster, by GPU memory, and by type and partition where jobs are "
            f"constrained to them: expected at most {MAX_GROUPS}"
        )
    s.node_gpus[:nodes] = s.free[:nodes] = gpus
    s.node_first[:nodes] = np.cumsum(gpus) - gpus
    s.node_memory[:nodes] = memory
    s.node_cores[:nodes] = s.free_cores[:nodes] = cores
    s.unreserved_cores[:nodes] = cores - gpus
    s.estimates_end_at[:nodes] = -np.inf
    s.earliest_start[:nodes] = s.min_overhead_s[:nodes] = np.inf
    s.node_group[:nodes] = of_node
    s.gpu_node[: gpus.sum()] = np.repeat(np.arange(nodes), gpus)
    s.free_memory[: gpus.sum()] = np.repeat(memory, gpus)
    s.num_free = gpus.sum()
    s.num_groups = len(groups)
    s.group_memory[: len(groups)] = groups[:, 0]
    np.maximum.at(s.group_largest, of_node, gpus)
    np.add.at(s.bucket, (s.node_group[:nodes], gpus), 1)


def lay_out_queues(s: np.record, jobs: np.ndarray) -> None:
    """Assign request classes (GPUs, nodes, cores, tenant), by first submission, and a stretch of the queue to each."""
    level = np.searchsorted(np.unique(s.group_memory[: s.num_groups]), jobs["gpu_memory_gib"])
    if s.cpu_limited:
        jobs["cores_each"] = np.maximum(jobs["cores_each"], MIN_CORES)
    cores = jobs["cores_each"] * s.cpu_limited
    _, first, of_each, counts = np.unique(
        np.stack([jobs["num_gpus"], level, cores, s.tenant[: len(jobs)], jobs["barred"]]),
        axis=1,
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    by_submission = np.argsort(first)  # the numbers of the first jobs do not depend on later ones
    jobs["request_class"] = np.argsort(by_submission)[of_each]
    counts = counts[by_submission]
    s.num_classes = len(counts)
    s.class_tenant[jobs["request_class"]] = s.tenant[: len(jobs)]
    s.queue_start[: len(counts)] = np.cumsum(counts) - counts
