"""A table that is being filled in, and the profiles of its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpu_cluster_gym.traces._profiles import STAND_IN, Floats, models
from gpu_cluster_gym.traces._streams import stream


@dataclass(frozen=True)
class Filling:
    """A table that is being filled, column by column, and a random stream for each."""

    table: dict[str, npt.NDArray[Any]]
    largest_gpu_gib: float
    cores_per_gpu: int
    seed: int
    choices: Mapping[str, Any]

    def stream(self, column: str) -> np.random.Generator:
        """Return the random stream of a column."""
        return stream(self.seed, "column", column)

    @property
    def rows(self) -> int:
        """Number of jobs."""
        return len(self.table["num_gpus"])

    @cached_property
    def profiles(self) -> npt.NDArray[np.int64]:
        """The row of each job's model among the profiles; one without a profile borrows resnet50's."""
        index = models().index
        (stand_in,) = index.get_indexer(pd.Index([STAND_IN]))
        row = index.get_indexer(pd.Index(self.table["model"]))
        return np.where(row < 0, stand_in, row)


def profile(job: Filling, figure: str) -> Floats:
    """Look up a figure of each job's model."""
    return models()[figure].to_numpy()[job.profiles]
