"""Evolution strategies on the weights of the actor: whole windows are played by mirrored pairs of networks.

With theta the actor's weights, sigma the deviation, and e_j a standard normal draw for each pair, both networks theta +
sigma e_j and theta - sigma e_j play the same window, and (Salimans et al. 2017, arXiv 1703.03864, mirrored sampling)

    gradient = mean over pairs of e_j x d_j / sigma,    d_j = (return of the first - return of the second) / 2.

Returns enter by their size over the mean size of all differences, cut at `MOST`, so that no window decides alone. What
is paid within a window, and when, does not matter here, and there is no critic.
"""

from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from gpu_cluster_gym.traces import stream

MOST = 3.0  # mean sizes that a difference counts at most
Layer = tuple[np.ndarray, np.ndarray]


class Evolution(PPO):
    """Evolution strategies in the place of PPO: networks, environments, curves and callbacks are those of PPO."""

    def __init__(self, *args: Any, deviation: float, **kwargs: Any) -> None:
        """Take what PPO takes, of which only the learning rate counts here, and the deviation of weights."""
        super().__init__(*args, **kwargs)
        self.deviation = deviation
        self._rng = stream(self.seed or 0, "pairs of networks")
        self._draws, self._returns = np.empty(0), np.empty(0)

    def actor(self) -> list[torch.nn.Parameter]:
        """Return the weights and biases of the actor's two layers."""
        policy: Any = self.policy
        return [*policy.mlp_extractor.policy_net[0].parameters(), *policy.action_net.parameters()]

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Play a window in every environment, each two of which are a pair; keep their returns."""
        callback.on_rollout_start()
        count, size = env.num_envs, sum(each.numel() for each in self.actor())
        self._draws = self._rng.standard_normal(((count + 1) // 2, size))
        networks = self.perturbed(mirrored(self._draws, count))
        env.set_options([{"window": number} for number in groups_of_windows(env, self._rng, 2)])
        seen: Any = env.reset()
        self._returns, going = np.zeros(count), np.ones(count, bool)
        while going.any():
            seen, rewards, dones, infos = env.step(np.clip(acts(networks, seen), -1.0, 1.0))
            self.num_timesteps += count
            self._returns += rewards * going
            self._update_info_buffer([info for info, on in zip(infos, going, strict=True) if on])
            callback.update_locals({"rewards": rewards[going], "infos": infos})
            if not callback.on_step():
                return False
            going &= ~dones
        callback.on_rollout_end()
        return True

    def perturbed(self, draws: np.ndarray) -> list[Layer]:
        """Return the layers of a network for each draw (N, weights): (N, out, in) and (N, out)."""
        parts, begin = [], 0
        for each in self.actor():
            own = draws[:, begin : begin + each.numel()].reshape(len(draws), *each.shape)
            parts.append(each.detach().numpy() + self.deviation * own)
            begin += each.numel()
        return list(zip(parts[::2], parts[1::2], strict=True))

    def train(self) -> None:
        """Take a step of Adam up the gradient."""
        self._update_learning_rate(self.policy.optimizer)
        self.policy.optimizer.zero_grad()
        gradient = torch.as_tensor(ascent(self._draws, self._returns), dtype=torch.float32)
        begin = 0
        for each in self.actor():
            each.grad = -gradient[begin : begin + each.numel()].reshape(each.shape)
            begin += each.numel()
        self.policy.optimizer.step()
        self.logger.record("train/gradient_norm", float(gradient.norm()))


def mirrored(draws: np.ndarray, count: int) -> np.ndarray:
    """Return each draw and its mirror image, one after the other, as many as asked: (count, weights)."""
    return np.stack([draws, -draws], axis=1).reshape(-1, draws.shape[1])[:count]


def groups_of_windows(env: VecEnv, rng: np.random.Generator, size: int) -> list[int]:
    """Return a random window for each environment, the same for each so many that have the same windows."""
    numbers: list[int] = []
    every = env.get_attr("windows")
    for i, windows in enumerate(every):
        alike = i % size > 0 and windows == every[i - 1]
        numbers.append(numbers[-1] if alike else int(rng.choice(windows)))
    return numbers


def acts(networks: list[Layer], seen: np.ndarray) -> np.ndarray:
    """Return what each network answers to what it sees, (N, loads): (N, weights)."""
    (weights, biases), (last, offsets) = networks
    hidden = np.tanh(np.einsum("nij,nj->ni", weights, seen) + biases)
    found: np.ndarray = np.einsum("nij,nj->ni", last, hidden) + offsets
    return found


def ascent(draws: np.ndarray, returns: np.ndarray) -> np.ndarray:
    """Return the direction in which returns grow, (weights,), by the whole pairs; 0 where nothing differs."""
    pairs = len(returns) // 2
    apart = (returns[: 2 * pairs : 2] - returns[1 : 2 * pairs : 2]) / 2
    scale = np.abs(apart).mean() if pairs else 0.0
    if scale == 0:
        return np.zeros(draws.shape[1])
    found: np.ndarray = np.clip(apart / scale, -MOST, MOST) @ draws[:pairs] / pairs
    return found
