"""Vector environments: Gymnasium's in one process or several, and a batch stepped by one compiled call.

python -m docs.examples.train.vectors 1000
"""

import sys
from typing import Any

import gymnasium
import numpy as np

import gpu_cluster_gym  # noqa: F401 - registers GPUCluster-v2

WINDOWS: dict[str, Any] = {"workload": "quick"}
CHOICES: dict[str, Any] = {}
MODES: dict[str, dict[str, Any]] = {
    "sync": {"vectorization_mode": "sync"},
    "async": {"vectorization_mode": "async", "vector_kwargs": {"context": "spawn"}},
    "batch": {},  # the fastest; `threads=4` divides the work
}


def play(mode: str, steps: int, count: int = 2) -> np.ndarray:
    """Take the first legal action `steps` times in each environment; return the last observations, one per row."""
    vector: Any = gymnasium.make_vec("GPUCluster-v2", count, **MODES[mode], **WINDOWS, **CHOICES)
    seen, info = vector.reset(seed=list(range(count)))  # the same seeds in every mode
    for _ in range(steps):
        seen, _, _, _, info = vector.step(np.stack(info["action_mask"]).argmax(axis=1))
    vector.close()
    last: np.ndarray = seen
    return last


if __name__ == "__main__":
    shown = [play(mode, int(sys.argv[1])) for mode in MODES]
    assert all(np.array_equal(shown[0], each) for each in shown), "the three modes differ"
