"""Experiments: each paper's claims on the workload they are about, one module a paper.

A module defines `paper`, a `Paper`: what to simulate, and which tables, claims and figure to make of it.
"""

from experiments._paper import Paper
from experiments._trials import Found, Setting, simulate, size
from traces import find

__all__ = ["Found", "Paper", "Setting", "load", "simulate", "size"]


def load(name: str) -> Paper:
    """Return the experiment of a paper; ValueError names those that exist and the nearest."""
    found: Paper = find("experiments", name, "paper")
    return found
