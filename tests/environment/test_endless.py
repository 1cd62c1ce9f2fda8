"""An episode whose jobs never end has no better return than one that ends."""

from dataclasses import replace

import numpy as np
import pytest

from gpu_cluster_gym.envs.batch import UnionBatch
from gpu_cluster_gym.envs.moves import MovesBatch
from gpu_cluster_gym.envs.steer import SteerBatch
from gpu_cluster_gym.envs.windows import PreparedWindow
from gpu_cluster_gym.workloads import named, windows


@pytest.mark.parametrize("kind", [MovesBatch, SteerBatch])
def test_jobs_that_fail_for_ever_cost_as_much_as_all_jobs_of_the_default_run(kind: type[UnionBatch]) -> None:
    """Otherwise the rest of the default run would count as saved."""
    load = windows(replace(named("mixed"), jobs=60, all_windows=True), "train", 1)[0]
    batch = kind([PreparedWindow(load)], 1)
    batch.begin(0, 0)
    batch.states["endless"] = 1
    batch.step(np.zeros((1, *(batch.action_space.shape or ())), batch.action_space.dtype))
    done, cut = batch.terminated, batch.truncated
    assert (done[0], cut[0], batch.gain[0]) == (False, True, -1.0)
