"""PPO that discounts by simulated time instead of by the number of decisions, without the noise of arrivals.

Many decisions share one instant while hours may pass between others, so the discount factor of a step is
exp(-elapsed / tau), with the elapsed seconds from `info["elapsed"]`. Before the critic knows what time costs, an action
after which no time passes looks better than waiting, so the actor is not trained in the first rollouts.

Jobs that arrive in a step cost the same whatever the action was, and they are most of the noise of a return. The value
is a sum over jobs, so that the part of jobs which have just arrived can be left out of the step's advantage: a control
variate like the input-dependent baselines of Mao et al. (ICLR 2019), from one copy of the arrivals instead of several.

Rewards are costs in job-seconds, by default those of `envs.rewards.balanced_regret`.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.vec_env import VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from gpu_cluster_gym.agents.networks import ScoringPolicy
from gpu_cluster_gym.agents.ppo import TwoPhases
from gpu_cluster_gym.agents.set_network import SetNetwork
from gpu_cluster_gym.agents.vec_env import ClusterVecEnv

JOBS = 16.0
"""Jobs whose cost over one time constant is 1, so that values are of the order of 1."""


class TimedBuffer(RolloutBuffer):
    """A rollout buffer with the simulated seconds of each step."""

    elapsed_s: NDArray[np.float32]
    """(steps, environments)"""

    network: SetNetwork | None = None
    """Network whose value of arrivals is left out; None leaves out nothing."""

    def __init__(self, *args: Any, tau_s: float, **kwargs: Any) -> None:
        """Store the time constant, s."""
        self.tau_s = tau_s
        super().__init__(*args, **kwargs)

    def reset(self) -> None:
        """Clear the rollout."""
        super().reset()
        self.elapsed_s = np.zeros((self.buffer_size, self.n_envs), np.float32)

    def compute_returns_and_advantage(self, last_values: Tensor, dones: NDArray[np.bool_]) -> None:
        """Estimate advantages (Schulman et al. 2016) and returns with a discount factor for each step.

        delta_t = r_t + g_t (V_t+1 - N_t+1) - V_t and A_t = delta_t + lambda g_t A_t+1, where g_t is
        exp(-elapsed_t / tau), or 0 where the episode ended. N_t+1 is the part of V_t+1 of jobs that arrived in step t;
        it is unknown, and left in, in the last step.
        """
        ended = np.vstack([self.episode_starts[1:], dones])
        factors = np.exp(-self.elapsed_s / self.tau_s) * (1.0 - ended)
        next_values = np.vstack([self.values[1:], last_values.cpu().numpy().ravel()])
        deltas = self.rewards + factors * (next_values - self._value_of_arrivals()) - self.values
        advantage = np.zeros(self.n_envs, np.float32)
        for step in reversed(range(self.buffer_size)):
            advantage = deltas[step] + self.gae_lambda * factors[step] * advantage
            self.advantages[step] = advantage
        self.returns = self.advantages + self.values

    def _value_of_arrivals(self) -> NDArray[np.float32]:
        """Return the part of the next values that comes from jobs that arrived in the step: (steps, environments)."""
        found = np.zeros_like(self.values)
        if self.network is not None:
            for step in range(self.buffer_size - 1):
                after, elapsed_s = map(torch.from_numpy, (self.observations[step + 1], self.elapsed_s[step]))
                found[step] = self.network.value_of_arrivals(after, elapsed_s).numpy()
        return found


class TimedPPO(TwoPhases):
    """PPO of Stable-Baselines3 on a `TimedBuffer`, whose actor learns after the first rollouts.

    Gradients of actor and critic are clipped separately, so that a large error of the critic does not stop the actor.

    critic_first: number of rollouts from which only the critic learns.
    without_arrivals: whether advantages leave out the value of jobs that arrive.
    """

    rollout_buffer: TimedBuffer
    policy: ScoringPolicy
    counters = ("rollouts",)

    def __init__(self, *args: Any, critic_first: int, without_arrivals: bool, **kwargs: Any) -> None:
        """Take the arguments of PPO, and the further ones of the class."""
        self.critic_first, self.without_arrivals, self.rollouts = critic_first, without_arrivals, 0
        super().__init__(*args, **kwargs)

    @property
    def network(self) -> SetNetwork:
        """The network of actor and critic."""
        network = self.policy.network
        assert isinstance(network, SetNetwork)
        return network

    def _setup_model(self) -> None:
        super()._setup_model()
        network = self.network
        self.rollout_buffer.network = network if self.without_arrivals else None
        parts, norm, self.max_grad_norm = (network.actor, network.critic), self.max_grad_norm, np.inf

        def clip(*_: Any) -> None:
            for part in parts:
                clip_grad_norm_(part.parameters(), norm)

        self.policy.optimizer.register_step_pre_hook(clip)

    def train(self) -> None:
        """Update the network from the rollout."""
        self.rollouts += 1
        for parameter in self.network.actor.parameters():
            parameter.requires_grad_(self.rollouts > self.critic_first)
        super().train()

    def _update_info_buffer(
        self, infos: list[dict[str, Any]], dones: NDArray[np.bool_] | None = None
    ) -> None:
        """Store the elapsed time, just before the step is added to the buffer."""
        super()._update_info_buffer(infos, dones)
        self.rollout_buffer.elapsed_s[self.rollout_buffer.pos] = [info["elapsed"] for info in infos]


class Endless(VecEnvWrapper):
    """Environments with rewards in units of `JOBS` x `tau_s` job-seconds, in all windows, and episodes without an end.

    A window ends at a stated time, which the cluster's state does not show, so that an end is worth the value of the
    state there (`TimeLimit.truncated`).
    """

    def __init__(self, venv: ClusterVecEnv, tau_s: float) -> None:
        """Wrap environments whose infos have `scale`. tau_s: time constant of discounting, s."""
        self.unit = np.float32(JOBS * tau_s)
        super().__init__(venv)

    def reset(self) -> Any:
        """Begin a window in every environment."""
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        """Return the step with rewards in the common unit."""
        seen, rewards, dones, infos = self.venv.step_wait()
        for i in np.flatnonzero(dones).tolist():
            infos[i]["TimeLimit.truncated"] = True
        return (
            seen,
            rewards * np.array([info["scale"] for info in infos], np.float32) / self.unit,
            dones,
            infos,
        )
