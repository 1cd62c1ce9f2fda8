"""Histories of finished jobs with chosen parameters, and workloads that use them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpu_cluster_gym.simulator.history import History
from gpu_cluster_gym.simulator.kernel.union.estimates import NUM_GPU_CLASSES
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace
from tests.cases import tiny

LEVEL = tuple(5.0 + 0.1 * size for size in range(NUM_GPU_CLASSES))
HISTORY = History(good_error=0.25, bad_error=1.0, within=0.4, between=1.5, level=LEVEL)


def kept(folder: Path, history: History) -> str:
    """Write a history and return the name of its file."""
    file = folder / "kept" / f"{abs(hash(history))}.json"
    history.write(file)
    return str(file)


def load_of(folder: Path, table: pd.DataFrame, history: History | None = HISTORY, **fields: Any) -> Workload:
    chosen = tiny.scenario(
        folder, table, run_time_predictor=None if history is None else kept(folder, history)
    )
    return full_trace(Scenario(**chosen | fields))


def with_cells(cores: float) -> History:
    """Return a history in which all jobs are believed to need this number of cores."""
    cell = (0.0, 0.0, 0.0, 0.0, float(np.log(cores)), 5.0)
    return replace(HISTORY, alike=0.1, spread=0.5, cells=(cell,))
