"""Train unmodified PPO of Stable-Baselines3 to steer the rule `union`, with several seeds and a control.

python -m docs.examples.train.sb3_steer 18432
python evaluate.py --workload busy --policy union docs.examples.train.sb3_steer:policy

Each of the three seeds takes a minute on a core of its own; `ep_rew_mean` is the percentage by which mean JCT is lower.
Three details matter: noise that is constant within a window (gSDE), so that its effect can be separated from chance;
an actor that is initialised to zero, which is the unchanged rule; and the control `mean_action_policy`, which always
applies the agent's mean action. An agent that does not beat this control gains nothing from the state.
"""

import sys
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

import gpu_cluster_gym  # noqa: F401 - registers GPUCluster-v2
from gpu_cluster_gym.agents.vec_env import ClusterVecEnv
from gpu_cluster_gym.envs.agent_policy import AgentPolicy
from gpu_cluster_gym.simulator.policy import Policy

WINDOWS: dict[str, Any] = {"workload": "busy"}
CHOICES: dict[str, Any] = {"action": "steer"}
JOBS = 512  # per window of `busy`; the policy decides after equal shares of this number of arrivals, on any trace
torch.set_num_threads(1)  # the networks are small: more threads only add overhead
SEEDS = 3
FILE = "runs/sb3_steer_{}.zip"
HELD = "runs/sb3_steer_{}.npy"
ENVIRONMENTS, ROLLOUT, VALIDATION = 64, 12, 20  # decisions between updates; validation windows


def train(steps: int, seed: int = 0) -> None:
    """Train on training windows and save; measure the mean action on validation windows."""
    batch: Any = gymnasium.make_vec("GPUCluster-v2", ENVIRONMENTS, autoreset="Disabled", **WINDOWS, **CHOICES)
    model = PPO(
        "MlpPolicy",
        VecMonitor(ClusterVecEnv(batch)),
        learning_rate=lambda left: 1e-3 * left,
        n_steps=ROLLOUT,
        batch_size=ENVIRONMENTS * ROLLOUT // 2,
        n_epochs=5,
        gamma=0.97,
        clip_range=0.3,
        use_sde=True,
        sde_sample_freq=-1,
        policy_kwargs={"log_std_init": -2.0, "net_arch": {"pi": [16], "vf": [64, 64]}},
        seed=seed,
        device="cpu",
        verbose=1,
    )
    with torch.no_grad():
        for parameter in model.policy.action_net.parameters():
            parameter.zero_()
    model.learn(steps, log_interval=4)
    model.save(FILE.format(seed))
    np.save(HELD.format(seed), average(model))


def average(model: PPO) -> np.ndarray:
    """Return the mean action on validation windows."""
    env: Any = gymnasium.make("GPUCluster-v2", split="validation", count=VALIDATION, **WINDOWS, **CHOICES)
    taken: list[np.ndarray] = []
    for window in env.unwrapped.windows:
        seen, _ = env.reset(options={"window": window})
        over = False
        while not over:
            taken.append(model.predict(seen, deterministic=True)[0])
            seen, _, over, _, _ = env.step(taken[-1])
    found: np.ndarray = np.mean(taken, axis=0)
    return found


@cache
def learned(seed: int) -> PPO:
    """Load the trained model, once."""
    return PPO.load(FILE.format(seed), device="cpu")


@cache
def mean_action(seed: int) -> np.ndarray:
    """Load the mean action, once."""
    found: np.ndarray = np.load(HELD.format(seed))
    return found


def agent(seed: int) -> Policy:
    """Return the agent of one seed as a policy."""
    return AgentPolicy(
        lambda load, mask: learned(seed).predict(load, deterministic=True)[0], jobs=JOBS, **CHOICES
    )


seed_0, seed_1, seed_2 = (agent(seed) for seed in range(SEEDS))
policy = seed_0
mean_action_policy = AgentPolicy(lambda load, mask: mean_action(0), jobs=JOBS, **CHOICES)

if __name__ == "__main__":
    for each in range(SEEDS):
        train(int(sys.argv[1]), each)
