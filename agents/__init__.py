"""Policies that learn: how they are trained, kept in a folder, and asked like any other policy.

Torch and Stable-Baselines3 are imported in here alone, and only when something is learned or a learned policy is
asked for.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.policy import Policy

__all__ = ["load_policy"]


def load_policy(folder: str | Path) -> "Policy":
    """Return the agent that `train_agent.py` left in a folder, as a policy that takes its most likely action.

    ValueError if the folder holds no agent, or one that reads other features than there are.
    """
    from agents.learned import Learned

    return Learned.load(folder)
