"""Experiments: each paper's claims on the workload they are about, one module a paper.

A module defines `paper`, a `Paper`: what to simulate, and which tables, claims and figure to make of it.
"""

if __name__ != "gpu_cluster_gym.experiments":
    raise ImportError("experiments is part of a package: import gpu_cluster_gym.experiments, not experiments")

from gpu_cluster_gym.experiments._paper import Paper
from gpu_cluster_gym.experiments._trials import Found, Setting, simulate, size
from gpu_cluster_gym.traces import find

__all__ = ["Found", "Paper", "Setting", "load", "simulate", "size"]


def load(name: str) -> Paper:
    """Return the experiment of a paper; ValueError names those that exist and the nearest."""
    found: Paper = find("experiments", name, "paper")
    return found
