"""Pick a queued job: it starts, and where it does not fit the rule's victims are paused for it."""

import numpy as np

from gpu_cluster_gym.envs.actions import Legal, PickStepper
from gpu_cluster_gym.envs.slots import Slots
from gpu_cluster_gym.simulator.policy import Action
from gpu_cluster_gym.simulator.view import View


class Pick:
    """Discrete(K + 1): slot k of the queue, or wait."""

    waits: tuple[float | None, ...] = (None,)
    stepper = PickStepper

    def space(self, slots: Slots, view: View) -> Legal:
        """Return the action space."""
        return Legal(len(slots.queue) + 1)

    def wait(self, slots: Slots, view: View) -> int:
        """Return the number of the action that waits."""
        return len(slots.queue)

    def mask(self, slots: Slots, view: View) -> np.ndarray:
        """Tell what is legal: a slot whose job fits or has victims; waiting while something is pending."""
        mask = slots.queue_mask.copy()
        mask[-1] = slots.can_wait or not mask[:-1].any()
        return mask

    def moves(self, number: int, slots: Slots, view: View) -> list[Action]:
        """Return the start of the job of a slot, behind the pauses of its victims if it needs them."""
        return view.pick(int(slots.queue[number]))[::-1]


action = Pick()
