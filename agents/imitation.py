"""First phase of `--action plain --init-from srtf`: the network imitates SRTF before PPO, by observations alone.

The teacher sees what the agent sees. Half of the actions after the first rollouts are the network's own, so that it
visits the states they lead to, and all observations are kept (DAgger: Ross, Gordon and Bagnell, AISTATS 2011).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv
from torch.nn.functional import cross_entropy

from gpu_cluster_gym.agents.ppo import moments_of, put_moments, take_step
from gpu_cluster_gym.agents.set_network import SetNetwork
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
from gpu_cluster_gym.traces import stream

WORTH = 2.0
"""Multiple of a queued job's remaining time that a running job must have left, after the restart, to be displaced."""
OWN_SHARE, TEACHER_ROLLOUTS = 0.5, 2
"""Share of the network's own actions, after as many rollouts of the teacher's alone."""
GRADIENT_STEPS, BATCH, RATE = 64, 512, 2e-3
"""Gradient steps after each rollout, their batch size, and the learning rate of Adam."""


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


class ImitationFirst(TimedPPO):
    """PPO after imitation of `shortest_first`.

    first: steps of the imitation. gpus: GPUs of the cluster.
    """

    _rng: np.random.Generator

    def __init__(self, *args: Any, gpus: int, **kwargs: Any) -> None:
        """Take the arguments of `TimedPPO`, and those of the class."""
        super().__init__(*args, **kwargs)
        self._gpus, self._rng = gpus, stream(self.seed or 0, "imitation")
        self._seen: list[NDArray[np.float32]] = []
        self._taught: list[NDArray[np.int64]] = []
        self._optimizer = torch.optim.Adam(self._network.actor.parameters(), lr=RATE)

    @property
    def _network(self) -> SetNetwork:
        network = self.policy.network
        assert isinstance(network, SetNetwork)
        return network

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the lessons so far, and the moments of the optimizer; none after the first phase."""
        if not self._seen:
            return {}
        lessons: dict[str, np.ndarray] = {"seen": np.array(self._seen), "taught": np.array(self._taught)}
        return lessons | moments_of(self._optimizer)

    def put_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restore the lessons and the moments."""
        self._seen, self._taught = list(arrays.get("seen", ())), list(arrays.get("taught", ()))
        own = ("seen", "taught")
        put_moments(self._optimizer, {name: it for name, it in arrays.items() if name not in own})

    def play(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Play, and keep the teacher's actions; or play a rollout of PPO."""
        if not self.in_first:
            return super().play(env, callback, rollout_buffer, n_rollout_steps)
        callback.on_rollout_start()
        share = OWN_SHARE if len(self._seen) >= TEACHER_ROLLOUTS * n_rollout_steps else 0.0
        for _ in range(n_rollout_steps):
            seen: Any = self._last_obs
            taught = np.array([shortest_first(each, self._network.slots, self._gpus) for each in seen])
            self._seen.append(seen.copy())
            self._taught.append(taught)
            own, _ = self.policy.predict(seen)
            if not take_step(self, env, np.where(self._rng.random(len(seen)) < share, own, taught), callback):
                return False
        callback.on_rollout_end()
        return True

    def train(self) -> None:
        """Raise the likelihood of the teacher's actions in all observations; or update PPO."""
        if not self._seen:
            return super().train()
        seen, taught = map(torch.from_numpy, (np.concatenate(self._seen), np.concatenate(self._taught)))
        losses = []
        for _ in range(GRADIENT_STEPS):
            some = torch.from_numpy(self._rng.integers(len(seen), size=BATCH))
            loss = cross_entropy(self._network.forward_actor(seen[some]), taught[some])
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()
            losses.append(loss.item())
        self.logger.record("train/loss", float(np.mean(losses)))
        if not self.in_first:
            self._seen, self._taught = [], []
        return None
