"""Job table from which several tests start."""

from typing import Any

import numpy as np
import pandas as pd

from gpu_cluster_gym import traces


def some_jobs(count: int = 500, **columns: Any) -> pd.DataFrame:
    """Return a checked table of jobs of 1, 2, 4 or 8 GPUs that come in runs."""
    rng = np.random.default_rng(7)
    required = {
        "job_id": [f"j{row}" for row in range(count)],
        "submit_s": np.cumsum(rng.choice([1.0, 500.0], count)),
        "num_gpus": np.repeat(rng.choice([1, 2, 4, 8], count), 3)[:count],
        "duration_s": np.ceil(rng.lognormal(7, 2, count)),
    }
    return traces.check(pd.DataFrame(required | columns))
