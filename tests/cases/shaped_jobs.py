"""Table of jobs that can change their number of workers and parameter servers."""

from typing import Any

import numpy as np
import pandas as pd

from tests.cases import tiny

TROUBLES: dict[str, Any] = {
    "cluster": "1x4-40c+1x4-k80-48c+1x3-20c",
    "node_mtbf_h": 2.0,
    "checkpoint_every": 60.0,
    "node_repair_h": 0.3,
    "drain_every_h": 3.0,
    "drain_notice_h": 0.4,
    "drain_length_h": 0.3,
    "drop_too_large": True,
}
MODELS = ("resnet50", "vgg16", "bert_base")


def shaped(seed: int, count: int = tiny.COUNT) -> pd.DataFrame:
    """Draw jobs with and without GPUs, half of them with servers, of which most can be wider, narrower or on cores."""
    rng = np.random.default_rng(seed)
    table = tiny.mixed(seed)[:count]
    gpus = np.minimum(table["num_gpus"], 4)
    some = gpus > 0
    return table.assign(
        num_gpus=gpus,
        model=np.where(some, rng.choice(MODELS, count), "none"),
        cpu_cores=np.where(some, gpus * rng.integers(1, 4, count), table["cpu_cores"]),
        duration_s=np.minimum(table["duration_s"], 5000.0),
        sync_gb=rng.choice([0.0, 0.2], count) * some,
        servers=rng.choice([0, 1, 2], count, p=[0.5, 0.3, 0.2]) * some,
        min_workers=np.maximum(gpus - rng.integers(0, 3, count), 1) * some,
        max_workers=gpus + rng.integers(0, 3, count) * some,
        scaling_loss=rng.uniform(0, 0.3, count) * some,
        cpu_slowdown=rng.choice([0.0, 3.0, 8.0], count) * some,
        predicted_duration_s=np.minimum(table["duration_s"], 5000.0) * rng.lognormal(0, 0.1, count),
        predictable_from=rng.choice([0.0, 0.3, 0.7, 1.0], count),
        crash_at=rng.choice([0.2, 0.5, 1.0], count, p=[0.15, 0.15, 0.7]),
    )
