"""The profiles of models and machines, `data/models.csv` and `data/hardware.csv`, from which a trace is filled."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]

DATA = Path(__file__).parent / "data"
STATISTICS = DATA / "philly_statistics.json"
NO_MODEL = "none"
STAND_IN = "resnet50"
LEAST_START_S = 5.0  # that a job takes to start up: our choice
FIGURES = (
    "alpha_s",
    "amp_gain_V100",
    "beta_s_per_sample_V100_fp32",
    "checkpoint_MB",
    "cpu_only_core_s_per_sample",
    "data_reopen_s",
    "default_batch_per_gpu",
    "gpu_util_default_pct",
    "host_mem_bw_MB_per_sample_est",
    "input_core_s_per_sample",
    "input_cores_at_default_V100",
    "mem_default_MiB",
    "mem_fixed_MiB",
    "mem_per_sample_MiB",
    "min_batch",
    "speed_A100_tf32",
    "speed_K80",
    "speed_P100",
    "speed_RTX2080Ti",
    "speed_RTX3090",
    "speed_T4",
    "speed_V100",
    "startup_s",
    "sync_MB",
    "sync_factor_kappa",
)


@cache
def models() -> pd.DataFrame:
    """Read the profiles, by model, with a row for jobs that train none: they only start up."""
    figures = pd.read_csv(DATA / "models.csv", index_col="model")[list(FIGURES)].astype(float)
    figures.loc[NO_MODEL] = 0.0
    figures.loc[NO_MODEL, "startup_s"] = LEAST_START_S
    return figures


@cache
def default(parameter: str) -> float:
    """Return what hardware.csv recommends for a parameter."""
    hardware = pd.read_csv(DATA / "hardware.csv")
    (value,) = hardware.loc[(hardware["kind"] == "default") & (hardware["name"] == parameter), "value"]
    return float(value)


def speed_on(gpu_type: str, names: pd.Series) -> Floats:
    """Return how fast each model computes on a type of GPU, over its speed on a V100."""
    known = {name.removeprefix("speed_").removesuffix("_tf32").lower(): name for name in FIGURES}
    speed = models()[known[gpu_type]] / models()["speed_V100"]
    filled: Floats = speed.reindex(names).fillna(speed[STAND_IN]).to_numpy()
    return filled
