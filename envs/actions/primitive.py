"""Start a queued job by a placement rule, or pause a running one: every move by itself."""

import numpy as np

from gpu_cluster_gym.envs.actions import Legal, PrimitiveStepper
from gpu_cluster_gym.envs.slots import Slots
from gpu_cluster_gym.simulator.kernel.cluster.layout import PLACEMENTS
from gpu_cluster_gym.simulator.kernel.slots.features import FITS
from gpu_cluster_gym.simulator.kernel.slots.stepping import RULES
from gpu_cluster_gym.simulator.policy import Action, Preempt, Start
from gpu_cluster_gym.simulator.view import View


class Primitive:
    """Discrete(3 K + R + 1): slot i of the queue by rule p (number 3 i + p), pause slot r of the running, wait."""

    waits: tuple[float | None, ...] = (None,)
    stepper = PrimitiveStepper

    def space(self, slots: Slots, view: View) -> Legal:
        """Return the action space."""
        return Legal(self.wait(slots, view) + 1)

    def wait(self, slots: Slots, view: View) -> int:
        """Return the number of the action that waits."""
        return len(RULES) * len(slots.queue) + len(slots.running)

    def mask(self, slots: Slots, view: View) -> np.ndarray:
        """Tell what is legal: starts that fit; pauses while a job is queued; waiting while something is pending."""
        fits = slots.queue_features[:, FITS].astype(np.int8)
        pauses = slots.running_mask * np.int8(slots.queue[0] >= 0)
        moves = np.concatenate([np.repeat(fits, len(RULES)), pauses])
        return np.append(moves, np.int8(slots.can_wait or not moves.any()))

    def moves(self, number: int, slots: Slots, view: View) -> list[Action]:
        """Return the start, or the pause, of one job."""
        starts = len(RULES) * len(slots.queue)
        if number >= starts:
            return [Preempt(int(slots.running[number - starts]))]
        slot, rule = divmod(number, len(RULES))
        job = int(slots.queue[slot])
        placement = view.place(job, rule=PLACEMENTS[RULES[rule]])
        assert placement, "its job fits"
        return [Start(job, placement)]


action = Primitive()
