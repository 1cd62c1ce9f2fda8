"""Queue slots and running slots: which queued and running jobs are observed one by one, and their features.

Queued jobs are shown in the order of the active ranking: the first ones, or in the order of arrival the first and the
last. Running jobs are those on claimed GPUs, then those with most time remaining.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.rankings.cost_aware import MIN_RUN_S
from gpu_cluster_gym.simulator.kernel.slots import claims, displacing, features, slot_features
from gpu_cluster_gym.simulator.kernel.slots.feature_cache import cache_dtype
from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Start


class Slots:
    """Buffers with the observation and the legal starts and pauses of an episode; `refresh` fills them.

    queue: int64 (K,), job of each queue slot, -1 where empty.
    running: int64 (R,), job of each running slot, -1 where empty.
    queue_mask: int8 (K + 1,), 1 where the slot's job can start, if need be with victims; the last entry is unused.
    claim_mask: int8 (K,), 1 where the slot's job may claim GPUs.
    claim: job whose claim is pending, or -1.
    displace_mask: int8 (K,), 1 where the slot's job can start by displacing others.
    starter: job that starts once its victims are chosen, or -1.
    victim_mask: int8 (R,), 1 where the job may be the next victim.
    running_mask: int8 (R,), 1 where the job may be paused.
    can_wait: whether any event is pending.
    observation: float32 (n,): `queue_features`, totals, `base_logits` and K + 1 entries for a mask; then the features
    of the running jobs, and the free share of the memory of each GPU and of the cores of each node; see `parts_of`.
    """

    def __init__(self, queue_slots: int, running_slots: int, min_run_s: float = MIN_RUN_S) -> None:
        """Make empty buffers; ValueError without a queue slot.

        min_run_s: time since its last start after which a job may be paused, s.
        """
        if queue_slots < 1 or running_slots < 0:
            raise ValueError(
                f"queue_slots {queue_slots}, running_slots {running_slots}: expected at least 1 queue slot and no "
                "negative number"
            )
        self.queue = np.full(queue_slots, -1, np.int64)
        self.running = np.full(running_slots, -1, np.int64)
        self.queue_mask = np.zeros(queue_slots + 1, np.int8)
        self.running_mask = np.zeros(running_slots, np.int8)
        self.claim_mask, self.claim = np.zeros(queue_slots, np.int8), -1
        self.displace_mask, self.starter = np.zeros(queue_slots, np.int8), -1
        self.victim_mask = np.zeros(running_slots, np.int8)
        self.can_wait = True
        self._min_run_s = min_run_s
        self.observation = np.zeros(0, np.float32)
        self._caches = np.zeros(0)
        self._jobs: np.ndarray = np.zeros(0)
        self._states: np.ndarray = np.zeros(0)
        self._e = 0

    @property
    def queue_part(self) -> np.ndarray:
        """The part of the observation about the queue, including base logits and mask."""
        return self.observation[: width(len(self.queue))]

    @property
    def queue_features(self) -> np.ndarray:
        """Features of the queued jobs: (K, len(QUEUE_FEATURES))."""
        return self.observation[: len(self.queue) * features.NUM_FEATURES].reshape(len(self.queue), -1)

    @property
    def running_features(self) -> np.ndarray:
        """Features of the running slots: (R, len(RUNNING_FEATURES))."""
        first, count = width(len(self.queue)), len(self.running)
        return self.observation[first : first + count * features.NUM_RUNNING].reshape(
            count, features.NUM_RUNNING
        )

    @property
    def base_logits(self) -> np.ndarray:
        """Logits of the active ranking: (K + 1,), the last for waiting."""
        return self.queue_part[-2 * len(self.queue_mask) : -len(self.queue_mask)]

    @property
    def own_choice(self) -> int:
        """Slot of the job that the active ranking would start next, K for waiting."""
        return int(self.base_logits.argmax())

    def refresh(self, states: np.ndarray, e: int, jobs: np.ndarray) -> None:
        """Observe record `e`, whose active ranking gives the order of the queue and the base logits."""
        if self._jobs is not jobs:
            sizes = int(states["num_gpus"][0]), int(states["num_nodes"][0])
            parts = parts_of(len(self.queue), len(self.running), *sizes)
            self._caches, self._jobs = np.zeros(1, cache_dtype(states.dtype)), jobs
            self.observation = np.zeros(parts["free_cores"].stop, np.float32)
        caches, end = self._caches, width(len(self.queue))
        queue = self.queue, self.observation[:end], self.queue_mask
        running = self.running, self._min_run_s, self.observation[end:], self.running_mask
        slot_features.observe_queue(states, e, jobs, caches, *queue)
        slot_features.observe_running(states, e, jobs, caches, *running)
        self.claim = int(claims.claimants(states, e, jobs, self.queue, self.claim_mask))
        seen = self.queue, self.running, self.running_features
        self.starter = displacing.list_choices(
            states, e, jobs, caches, *seen, self.displace_mask, self.victim_mask
        )
        self.can_wait = bool(calls.next_event(states, e, jobs) < np.inf)
        self._states, self._e = states, e

    def choose(self, job: int) -> list[Action]:
        """Choose a queued job to start by displacing others, or its next victim.

        Return the pauses and the start once the chosen victims suffice, otherwise an empty list.
        """
        starter = job if self.starter < 0 else self.starter
        victims = np.zeros(len(self.running), np.int64)
        seen = self.running, self.running_features
        count = displacing.choose_next(self._states, self._e, self._jobs, self._caches, *seen, job, victims)
        if count < 0:
            return []
        gpus = self._states["gpus"][self._e, : int(self._jobs["num_gpus"][starter])].tolist()
        pauses = [Preempt(victim) for victim in victims[:count].tolist()]
        return [*pauses, Start(starter, Placement(tuple(gpus)))]


def width(queue_slots: int) -> int:
    """Return the size of the observation of the queue, including base logits and mask."""
    return queue_slots * features.NUM_FEATURES + features.NUM_TOTALS + 2 * (queue_slots + 1)


def parts_of(queue_slots: int, running_slots: int, gpus: int, nodes: int) -> dict[str, slice]:
    """Return the slice of each part within an observation, by name."""
    queue, queue_part = queue_slots * features.NUM_FEATURES, width(queue_slots)
    running = queue_part + running_slots * features.NUM_RUNNING
    return {
        "free_memory": slice(running, running + gpus),
        "free_cores": slice(running + gpus, running + gpus + nodes),
        "queue": slice(queue),
        "running": slice(queue_part, running),
        "totals": slice(queue, queue + features.NUM_TOTALS),
    }
