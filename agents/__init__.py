"""Learned policies: training, checkpoints, and their use as any other policy.

Torch and Stable-Baselines3 are imported only here, and only for training or a learned policy: simulation alone does not
need them.
"""

if __name__ != "gpu_cluster_gym.agents":
    raise ImportError("agents is part of a package: import gpu_cluster_gym.agents, not agents")

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.policy import Policy

__all__ = ["check_installed", "load_policy", "shipped_policy"]

NEEDED = ("torch", "stable_baselines3", "tensorboard", "safetensors")


def check_installed(tracker: str | None = None) -> None:
    """Raise ValueError, with the command to install it, where a library of agents or the tracker is missing."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        which = ", ".join(missing)
        raise ValueError(
            f'learned agents require {which}, not installed here: run pip install -e ".[train]" in the clone'
        )
    if tracker and getattr(find_spec(tracker), "origin", None) is None:  # a mere folder of that name has none
        raise ValueError(
            f'--track {tracker} requires {tracker}, not installed here: run pip install -e ".[{tracker}]" in the clone'
        )


def load_policy(folder: str | Path) -> "Policy":
    """Return the agent that `train_agent.py` saved in a folder, as a policy that takes its most likely action.

    Raise ValueError without a readable agent, for one with another observation format, or without Torch.
    """
    check_installed()
    from gpu_cluster_gym.agents import checkpoint

    return checkpoint.policy_of(checkpoint.load(folder))


def shipped_policy(workload: str | None) -> tuple["Policy", str]:
    """Return the pretrained agent for a workload, or the general one, and its description as a sentence.

    Raise ValueError as `load_policy`, or where none exists.
    """
    from gpu_cluster_gym.agents.pretrained import shipped_for

    found = shipped_for(workload)
    return load_policy(found.folder), found.description
