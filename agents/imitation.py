"""First phase of `--action plain --init-from srtf`: the network imitates SRTF before PPO, by observations alone.

The teacher sees what the agent sees; see `agents.lessons`.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gpu_cluster_gym.agents.lessons import LessonsFirst
from gpu_cluster_gym.agents.timed_ppo import TimedPPO
from gpu_cluster_gym.simulator.kernel.slots.features import (
    CLAIM,
    FITS,
    FREE_SHARE,
    GPUS,
    IS_LEGAL,
    MAY_PAUSE,
    NUM_RUNNING,
    PRESENT,
    QUEUE_FEATURES,
    REMAINING,
    RESTART,
    RUNNING_GPUS,
    RUNNING_REMAINING,
    TOTALS,
)

WORTH = 2.0
"""Multiple of a queued job's remaining time that a running job must have left, after the restart, to be displaced."""


def shortest_first(seen: NDArray[np.float32], slots: int, gpus: int) -> int:
    """Return the action of SRTF for one observation of sets (n,): the shortest job that can start.

    A job that fits nowhere starts if running jobs that have more than `WORTH` times its remaining time left hold GPUs
    enough; the longest of them are displaced. slots: queue slots K. gpus: GPUs of the cluster.
    """
    sizes = np.cumsum((slots * len(QUEUE_FEATURES), len(TOTALS), slots + 1))
    queue, totals, legal, running = np.split(seen, sizes)
    queue, running = queue.reshape(slots, -1), running.reshape(-1, NUM_RUNNING)
    starts, left_s, wait = legal[:-1] > 0, seconds(running[:, RUNNING_REMAINING]), slots + len(running)
    if not starts.any():
        victims = running[:, IS_LEGAL] > 0
        choosing = totals[CLAIM] > 0 and victims.any()
        return slots + int(np.where(victims, left_s, -1.0).argmax()) if choosing else wait
    remaining_s, wanted = seconds(queue[:, REMAINING]), gpus_of(queue[:, GPUS])
    held, free = gpus_of(running[:, RUNNING_GPUS]), totals[FREE_SHARE] * gpus
    for slot in np.argsort(remaining_s):
        if queue[slot, PRESENT] == 0 or not starts[slot]:
            continue
        worth_s = WORTH * remaining_s[slot] + seconds(queue[slot, RESTART])
        longer = (running[:, MAY_PAUSE] > 0) & (left_s > worth_s)
        if queue[slot, FITS] > 0 or free + held[longer].sum() >= wanted[slot]:
            return int(slot)
    return wait if legal[-1] > 0 else int(starts.argmax())


def seconds(feature: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the times, s, of features that are log1p(s / 60) / 4."""
    return np.asarray(60.0 * np.expm1(4.0 * feature.astype(np.float64)))


def gpus_of(feature: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the numbers of GPUs of features that are log2(1 + GPUs) / 7."""
    return np.rint(2.0 ** (7.0 * feature.astype(np.float64)) - 1.0)


class ImitationFirst(LessonsFirst, TimedPPO):
    """PPO after imitation of `shortest_first`.

    gpus: GPUs of the cluster.
    """

    lesson_steps, teacher_rollouts, plays_greedily = 64, 2, False

    def __init__(self, *args: Any, gpus: int, **kwargs: Any) -> None:
        """Take the arguments of `TimedPPO`, and those of the class."""
        self._gpus = gpus
        super().__init__(*args, stream_name="imitation", **kwargs)

    def imitating_parameters(self) -> Iterable[nn.Parameter]:
        """Return the parameters of the actor."""
        return self.network.actor.parameters()

    def teach(self, seen: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the actions of `shortest_first`: (N,)."""
        return np.array([shortest_first(each, self.network.slots, self._gpus) for each in seen])

    def error(self, seen: Tensor, targets: Tensor) -> Tensor:
        """Return the cross entropy of the actor's choices and the teacher's actions."""
        return cross_entropy(self.network.forward_actor(seen), targets)
