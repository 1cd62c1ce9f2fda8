"""Least attained service in rounds, with a way back to the top for jobs that starve (Tiresias, NSDI 2019).

Claim: without knowing how long jobs run, serving those first that have received the least service, GPUs x time, cuts
the mean completion time; a few queues instead of a continuous order avoid thrashing. Its simulator has three queues,
cut at 3,250 and 7,200 GPU-s, FIFO inside, and promotes a job to the top once it has waited since its last run for
`starve` times as long as it has run; AITurbo's code repeats this every 240 s and at arrivals. From memory, not checked
against the paper: a promoted job's service is counted from then on; `starve` is 8. Inferred: the wait is compared with
the whole run time of a job, not with that since its promotion, which would promote jobs too often for the cost of a
pause; FIFO is by submission; victims are chosen as in `simulator.priority_rounds`. Left out: consolidation by the skew
of a model's tensors.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from gpu_cluster_gym.baselines.las import LIMITS
from gpu_cluster_gym.simulator.compiled_policy import CompiledPolicy, Kernel
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_LEVELS, QUEUED, Tier
from gpu_cluster_gym.simulator.kernel.cluster.legality import list_queued_or_running
from gpu_cluster_gym.simulator.kernel.cluster.plan import (
    ASKS,
    DONE,
    Fields,
    allocating,
    begin_plan,
    compiled,
    dtype_of,
    entry,
    next_plan,
)
from gpu_cluster_gym.simulator.kernel.cluster.queues import ran_now
from gpu_cluster_gym.simulator.kernel.rounds import priority
from gpu_cluster_gym.simulator.priority_rounds import ROUND_S

FIELDS: Fields = (
    ("limits", "f8", (MAX_LEVELS,)),  # GPU-seconds at which the next queue begins; infinite beyond the last
    ("starve", "f8"),
    ("servers_on_gpus", "i1"),
    ("promoted_at_s", "f8", ("jobs",)),  # seconds that each job had run when it was last promoted to the top
    ("level", "i8", ("jobs",)),  # queue of each job of the order
)


@cache
def memory_dtype(size: Tier) -> np.dtype:
    """Return the record type of the policy's memory at a tier."""
    return dtype_of((*FIELDS, *priority.fields_at(size)), size)


@compiled
def level_of(m, service):
    """Return the queue of a job with some attained service, GPU-seconds."""
    level = 0
    while level < len(m.limits) and m.limits[level] <= service:
        level += 1
    return level


@allocating
def order_by_level(s, jobs, m):
    """Sort the queued and running jobs by queue, then by submission; promote those that starve."""
    count = list_queued_or_running(s, m.order)
    for k in range(count):
        job = m.order[k]
        ran_s = ran_now(s, job)
        m.promoted_at_s[job] = min(m.promoted_at_s[job], ran_s)  # a job that lost its progress has run less
        level = level_of(m, (ran_s - m.promoted_at_s[job]) * jobs[job].num_gpus)
        starves = (s.clock - s.phase_began[job]) / m.starve >= ran_s
        if s.phase[job] == QUEUED and level > 0 and starves:
            m.promoted_at_s[job] = ran_s
            level = 0
        m.level[k] = level
    m.order[:count] = m.order[:count][np.argsort(m.level[:count], kind="mergesort")]
    for k in range(count):
        job = m.order[k]
        m.wanted[k] = jobs[job].num_gpus + (jobs[job].servers if m.servers_on_gpus else 0)
    m.num_order = count


@compiled
def plan(s, jobs, m):
    """Carry out the order by attained service in a round, and between rounds if a job fits."""
    begin_plan(s, m)
    if priority.needs_order(s, jobs, m):
        order_by_level(s, jobs, m)
        priority.carry_out_order(s, jobs, m)
    priority.set_wait(s, jobs, m)
    return DONE


@entry
def step(states, e, memory, k, jobs):
    """Make the plan of this instant; return its status."""
    return plan(states[e], jobs, memory[k])


@entry
def run(states, e, memory, k, jobs):
    """Play an episode to its end; return the status."""
    s, m = states[e], memory[k]
    while next_plan(s, jobs, m):
        m.status = plan(s, jobs, m)
        if m.status >= ASKS:
            break
    return m.status


@dataclass
class Tiresias(CompiledPolicy):
    """One episode of the policy.

    servers_on_gpus: whether a job's parameter servers take GPUs, as in AITurbo's comparison, or CPU cores.
    limits: attained service at which the next queue begins, GPU-seconds.
    starve: seconds of waiting for each second run after which a job is in the top queue again; infinite for never.
    round_s: seconds between rounds.
    """

    servers_on_gpus: bool = False
    limits: tuple[float, ...] = LIMITS
    starve: float = 8.0
    round_s: float = ROUND_S

    kernel = Kernel(memory_dtype, step, run)

    def __post_init__(self) -> None:
        """Refuse too many queues; ValueError."""
        if len(self.limits) > MAX_LEVELS:
            raise ValueError(f"{len(self.limits)} limits between queues: expected at most {MAX_LEVELS}")
        super().__init__()

    def init_memory(self, memory: np.ndarray, states: np.ndarray) -> None:
        """Write the settings into a memory of zeros."""
        priority.init_memory(memory, self.round_s)
        memory["limits"] = np.inf
        memory["limits"][0, : len(self.limits)] = self.limits
        memory["starve"], memory["servers_on_gpus"] = self.starve, self.servers_on_gpus


policy = Tiresias
GRID = {
    "limits": (LIMITS, (600.0, 6000.0), (3600.0, 36_000.0), (21_600.0, 216_000.0)),
    "starve": (2.0, 8.0, 1e9),
    "round_s": (60.0, ROUND_S, 960.0),
}
