"""What a scheduler looks at in places of fixed number: the first queued jobs in order, the longest running ones."""

import numpy as np

from simulator.kernel import calls, features


class Slots:
    """Buffers of what may be seen and done now; `refresh` fills them from an episode.

    queue, running: job of each slot, -1 where it is empty. queue_mask, running_mask: what may be picked or paused.
    queue_features: (K, len(QUEUE_FEATURES)). running_features: (R, len(RUNNING_FEATURES)). totals: (len(TOTALS),).
    base_logits: (K + 1,) logits of the active ranking, the last for waiting.
    """

    def __init__(self, queue_slots: int, running_slots: int) -> None:
        """Make empty buffers."""
        self.queue = np.full(queue_slots, -1, np.int64)
        self.queue_features = np.zeros((queue_slots, len(features.QUEUE_FEATURES)), np.float32)
        self.queue_mask = np.zeros(queue_slots + 1, np.int8)
        self.base_logits = np.zeros(queue_slots + 1, np.float32)
        self.totals = np.zeros(len(features.TOTALS), np.float32)
        self.running = np.full(running_slots, -1, np.int64)
        self.running_features = np.zeros((running_slots, len(features.RUNNING_FEATURES)), np.float32)
        self.running_mask = np.zeros(running_slots, np.int8)
        self.can_wait = True

    def refresh(self, states: np.ndarray, e: int, jobs: np.ndarray) -> None:
        """Look at record `e` as it is now, whose active ranking gives the order and the base logits."""
        features.observe_queue(
            states, e, jobs, self.queue, self.queue_features, self.totals, self.queue_mask, self.base_logits
        )
        if len(self.running):
            features.observe_running(states, e, jobs, self.running, self.running_features, self.running_mask)
        self.can_wait = bool(calls.next_event(states, e, jobs) < np.inf)

    @property
    def own_choice(self) -> int:
        """The slot that the active ranking would pick, or the number of slots for waiting."""
        return int(self.base_logits.argmax())
