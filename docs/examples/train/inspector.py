"""Train an inspector of SJF: PPO of Stable-Baselines3 accepts each start that SJF chooses, or holds it back.

This is the idea of SchedInspector (Zhang et al., HPDC 2022) in this environment. Inferred, since the text was not
available: the features are those of the environment, an inspector may hold a job back as often as it likes, and the
reward is that of the environment, not the gain in per cent at the end of an episode.

python -m docs.examples.train.inspector 100000 --seed 0
python evaluate.py --workload quick --policy docs.examples.train.inspector:policy sjf
"""

from functools import cache
from math import prod
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from docs.examples.train.slots import JctCurve, command, training_envs
from gpu_cluster_gym.envs.agent_policy import AgentPolicy

WINDOWS: dict[str, Any] = {"workload": "quick"}
CHOICES: dict[str, Any] = {
    "running_slots": 0,
    "when_full": "wait",
}  # nothing is paused, and only starts that fit are legal
torch.set_num_threads(1)  # the network is small: more threads only add overhead
NAME, FILE = "inspector", "runs/inspector.zip"
ENVIRONMENTS, ROLLOUT = 16, 128
ACCEPT, HOLD = 0, 1


class Choice:
    """The start that SJF chooses, and what the inspector sees of it."""

    def __init__(self) -> None:
        """Read the layout of observations."""
        env: Any = gymnasium.make("gpu_cluster_gym:GPUCluster-v2", **CHOICES).unwrapped
        self.shapes, columns = env.shapes, env.columns["queue"]
        self.estimate, self.size = (
            columns.index("estimate"),
            self.shapes["queue"][1] + self.shapes["totals"][0],
        )

    def __call__(self, seen: np.ndarray, masks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the slots of the shortest jobs that fit (N,), and the features of job and cluster (N, size)."""
        ends = np.cumsum([prod(shape) for shape in self.shapes.values()])
        queue, totals = (
            seen[:, : ends[0]].reshape(len(seen), *self.shapes["queue"]),
            seen[:, ends[0] : ends[1]],
        )
        slots = np.where(masks[:, :-1], queue[:, :, self.estimate], np.inf).argmin(axis=1)
        return slots, np.concatenate([queue[np.arange(len(seen)), slots], totals], axis=1)


class Inspected(VecEnvWrapper):
    """Environments whose two actions accept the start that SJF chooses, and hold it back until the next event."""

    def __init__(self, venv: Any) -> None:
        """Wrap a batch of environments."""
        self.choice = Choice()
        self.wait = venv.action_space.n - 1
        self.slots = np.zeros(venv.num_envs, np.int64)
        space = Box(-np.inf, np.inf, (self.choice.size,), np.float32)
        super().__init__(venv, observation_space=space, action_space=Discrete(2))

    def _inspect(self, seen: Any) -> np.ndarray:
        masks = np.stack(self.venv.env_method("action_masks"))
        self.slots, features = self.choice(seen, masks)
        return features

    def reset(self) -> Any:
        """Begin a window in every environment."""
        return self._inspect(self.venv.reset())

    def step_async(self, actions: np.ndarray) -> None:
        """Start the chosen jobs that are accepted, and wait in the other environments."""
        self.venv.step_async(np.where(actions == ACCEPT, self.slots, self.wait))

    def step_wait(self) -> VecEnvStepReturn:
        """Return the features of the next choices, rewards, ends and infos."""
        seen, rewards, dones, infos = self.venv.step_wait()
        features = self._inspect(seen)
        for i in np.flatnonzero(dones):
            infos[i]["terminal_observation"] = np.zeros_like(features[i])  # never read: no episode is cut
        return features, rewards, dones, infos


def train(steps: int, seed: int = 0) -> None:
    """Train on a batch of training windows and save."""
    env = Inspected(training_envs(ENVIRONMENTS, WINDOWS | CHOICES))
    rollout = max(2, min(ROLLOUT, steps // ENVIRONMENTS))
    shown: dict[str, Any] = {
        "verbose": 1,
        "tensorboard_log": "runs/tensorboard",
        "seed": seed,
        "device": "cpu",
    }
    # Undiscounted: with a short horizon, an inspector holds long jobs back for ever.
    size: dict[str, Any] = {"n_steps": rollout, "batch_size": 4 * rollout, "gamma": 1.0, "gae_lambda": 0.98}
    model = PPO("MlpPolicy", env, **size, **shown)
    last: Any = model.policy.action_net
    torch.nn.init.constant_(last.bias[HOLD:], -3.0)  # begins near SJF: it holds back one start in twenty
    model.learn(steps, callback=JctCurve(), tb_log_name=NAME)
    model.save(FILE)


@cache
def model() -> tuple[PPO, Choice]:
    """Load the trained model, once."""
    return PPO.load(FILE, device="cpu"), Choice()


def predict(observation: Any, mask: Any) -> int:
    """Return the slot of the start that SJF chooses, or the action that waits; the more likely one."""
    inspector, choice = model()
    slots, features = choice(observation[None], mask[None])
    held = inspector.predict(features, deterministic=True)[0][0] == HOLD
    return len(mask) - 1 if held else int(slots[0])


policy = AgentPolicy(predict, **CHOICES)

if __name__ == "__main__":
    command(NAME, train, WINDOWS["workload"])
