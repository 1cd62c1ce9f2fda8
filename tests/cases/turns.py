"""Policies in turn: each is tried in one of several ways, and in the others with `-m slow`."""

from collections.abc import Sequence
from typing import Any

import pytest

from gpu_cluster_gym import baselines


def in_turn(ways: Sequence[str]) -> list[Any]:
    """Return every pair of a policy and a way; where the way is another policy's turn, marked as slow."""
    return [
        pytest.param(name, way, marks=() if turn == number % len(ways) else pytest.mark.slow)
        for number, name in enumerate(baselines.names())
        for turn, way in enumerate(ways)
    ]
