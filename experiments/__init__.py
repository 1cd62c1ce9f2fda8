"""Experiments: each paper's claims, tested on a workload of their own, one module per paper.

A module defines `paper`, a `Paper`: the settings to simulate, and the tables, claims and figure made from the outcome.
"""

if __name__ != "gpu_cluster_gym.experiments":
    raise ImportError("experiments is part of a package: import gpu_cluster_gym.experiments, not experiments")

from gpu_cluster_gym.experiments._paper import Paper
from gpu_cluster_gym.experiments._trials import Outcome, Setting, simulate, size
from gpu_cluster_gym.traces import find

__all__ = ["Outcome", "Paper", "Setting", "load", "simulate", "size"]


def load(name: str) -> Paper:
    """Return the experiment of a paper; ValueError lists the papers and suggests the nearest name."""
    found: Paper = find("experiments", name, "paper")
    return found
