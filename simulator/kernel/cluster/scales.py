"""Scales of what agents see: every time and memory comes into about [0, 1]."""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled


@compiled
def as_time(seconds):
    """Bring a time onto the scale of the other features."""
    return np.log1p(max(seconds, 0.0) / 60.0) / 4.0


@compiled
def largest_memory(s):
    """Memory of the largest GPU, GiB."""
    return s.level_memory[s.num_levels - 1]
