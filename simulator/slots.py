"""What a scheduler looks at in places of fixed number: the first queued jobs in order, the longest running ones."""

import numpy as np

from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.slots import features, looking
from gpu_cluster_gym.simulator.kernel.slots.sight import sight_dtype


class Slots:
    """Buffers of what may be seen and done now; `refresh` fills them from an episode.

    queue, running: job of each slot, -1 where it is empty. queue_mask, running_mask: what may be picked or paused.
    seen: what is seen of the queue, one behind the other: `queue_features`, (K, len(QUEUE_FEATURES)); `totals`,
    (len(TOTALS),); `base_logits`, (K + 1,) logits of the active ranking, the last for waiting; and K + 1 places for a
    mask. shown: all of that, then of the running jobs (R, len(RUNNING_FEATURES)), then the free share of the memory of
    each GPU and of the cores of each node; `parts` are where those begin and end.
    """

    def __init__(self, queue_slots: int, running_slots: int) -> None:
        """Make empty buffers; ValueError without a slot of the queue."""
        if queue_slots < 1 or running_slots < 0:
            raise ValueError(
                f"queue_slots {queue_slots}, running_slots {running_slots}: expected 1 and 0, or more"
            )
        self._listed = np.full((1, queue_slots + running_slots), -1, np.int64)  # as a batch of one
        self._slots = queue_slots
        self._shown = np.zeros((1, width(queue_slots) + running_slots * features.NUM_RUNNING), np.float32)
        self._seen = width(queue_slots)
        self.parts: dict[str, slice] = {}
        self.queue_mask = np.zeros(queue_slots + 1, np.int8)
        self.running_mask = np.zeros(running_slots, np.int8)
        self.can_wait = True
        self.sights = np.zeros(0)
        self._jobs = np.zeros(0)

    def rows(self, *, running: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the jobs of all slots and what is seen, of the queue alone or of the rest too, as batches of one."""
        return self._listed, self._shown if running else self._shown[:, : self._seen]

    @property
    def running_rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The running jobs, what is seen of them and of the machines, and their mask."""
        return self.running, self._shown[0, self._seen :], self.running_mask

    @property
    def queue(self) -> np.ndarray:
        """Job of each slot of the queue."""
        row: np.ndarray = self._listed[0, : self._slots]
        return row

    @property
    def running(self) -> np.ndarray:
        """Job of each slot of the running ones."""
        row: np.ndarray = self._listed[0, self._slots :]
        return row

    @property
    def seen(self) -> np.ndarray:
        """All that is seen of the queue."""
        row: np.ndarray = self._shown[0, : self._seen]
        return row

    @property
    def shown(self) -> np.ndarray:
        """All that is seen."""
        row: np.ndarray = self._shown[0]
        return row

    @property
    def queue_features(self) -> np.ndarray:
        """Features of the queued jobs, a row a slot."""
        return self.seen[: len(self.queue) * features.NUM_FEATURES].reshape(len(self.queue), -1)

    @property
    def totals(self) -> np.ndarray:
        """Features of the whole."""
        begin = self._slots * features.NUM_FEATURES
        return self.seen[begin : begin + features.NUM_TOTALS]

    @property
    def base_logits(self) -> np.ndarray:
        """Logits of the active ranking."""
        return self.seen[-2 * len(self.queue_mask) : -len(self.queue_mask)]

    def refresh(self, states: np.ndarray, e: int, jobs: np.ndarray) -> None:
        """Look at record `e` as it is now, whose active ranking gives the order and the base logits."""
        self.prepare(states, jobs)
        looking.observe_queue(states, e, jobs, self.sights, self.queue, self.seen, self.queue_mask)
        looking.observe_running(states, e, jobs, self.sights, *self.running_rows)
        self.can_wait = bool(calls.next_event(states, e, jobs) < np.inf)

    def prepare(self, states: np.ndarray, jobs: np.ndarray) -> None:
        """Forget what is known of other jobs than these."""
        if self._jobs is jobs:
            return
        self.sights = np.zeros(1, sight_dtype(states.dtype))
        self._jobs = jobs
        self.parts = parts_of(
            len(self.queue), len(self.running), int(states["num_gpus"][0]), int(states["num_nodes"][0])
        )
        if (size := self.parts["free_cores"].stop) != self._shown.shape[1]:
            self._shown = np.zeros((1, size), np.float32)

    @property
    def own_choice(self) -> int:
        """The slot that the active ranking would pick, or the number of slots for waiting."""
        return int(self.base_logits.argmax())


def width(queue_slots: int) -> int:
    """Return how many numbers are seen of a queue with so many slots."""
    return queue_slots * features.NUM_FEATURES + features.NUM_TOTALS + 2 * (queue_slots + 1)


def parts_of(queue_slots: int, running_slots: int, gpus: int, nodes: int) -> dict[str, slice]:
    """Return where the parts of what is shown begin and end, by the names under which `tables` shows them."""
    queue, seen = queue_slots * features.NUM_FEATURES, width(queue_slots)
    running = seen + running_slots * features.NUM_RUNNING
    return {
        "free_memory": slice(running, running + gpus),
        "free_cores": slice(running + gpus, running + gpus + nodes),
        "queue": slice(queue),
        "running": slice(seen, running),
        "totals": slice(queue, queue + features.NUM_TOTALS),
    }
