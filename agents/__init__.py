"""Policies that learn: how they are trained, kept in a folder, and asked like any other policy.

Torch and Stable-Baselines3 are imported in here alone, and only when something is learned or a learned policy is
asked for: simulating alone does not need them.
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
    """ValueError, which says what to install, where a library that agents need is missing, or the tracker named."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        which = ", ".join(missing)
        raise ValueError(f'agents that learn need {which}, not installed here: pip install -e ".[train]"')
    if tracker and getattr(find_spec(tracker), "origin", None) is None:  # a mere folder of that name has none
        raise ValueError(f'--track {tracker}: it is not installed here: pip install -e ".[{tracker}]"')


def load_policy(folder: str | Path) -> "Policy":
    """Return the agent that `train_agent.py` left in a folder, as a policy that takes its most likely action.

    ValueError if the folder holds no agent, or one that reads other features than there are, or if Torch is missing.
    """
    check_installed()
    from gpu_cluster_gym.agents.learned import load

    return load(folder)


def shipped_policy(workload: str | None) -> tuple["Policy", str]:
    """Return the agent that comes with the project for a workload, or for all others, and a sentence that says which.

    ValueError as `load_policy`, or if there is none.
    """
    from gpu_cluster_gym.agents.pretrained import shipped_for

    found = shipped_for(workload)
    return load_policy(found.folder), found.told
