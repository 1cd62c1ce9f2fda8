"""A thousand environments fit into the memory of a small machine."""

import tracemalloc
from typing import Any

import gymnasium
import numpy as np
import pytest

import gpu_cluster_gym  # noqa: F401 - registers the environments

MANY, MOST_BYTES = 1_024, 2e9
FEW, MORE = 8, 24


def allocated(count: int, **choices: Any) -> int:
    """Return the bytes that a batch allocates until its windows have been drawn."""
    mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT

    def made() -> Any:
        batch = gymnasium.make_vec(
            "GPUCluster-philly_backlog-v2", count, vectorization_mode=mode, count=2, **choices
        )
        batch.reset(seed=0)
        if "reward" in choices:
            batch.step(np.zeros(count, int))  # simulates futures
        return batch

    made()
    tracemalloc.start()
    try:
        kept = made()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    kept.close()
    return size


@pytest.mark.parametrize(
    "choices",
    [
        {"action": "plain"},
        {"action": "steer"},
        {"action": "moves"},
        {"action": "moves", "reward": "rollout_advantage"},
    ],
    ids=lambda choices: "-".join(choices.values()),
)
def test_a_thousand_environments_take_less_than_two_gigabytes(choices: dict[str, str]) -> None:
    """On windows of 512 jobs of Philly, with every lever; measured per additional environment."""
    each = (allocated(MORE, **choices) - allocated(FEW, **choices)) / (MORE - FEW)
    assert 100_000 < each < MOST_BYTES / MANY
