"""From a job table to the kernel's array of jobs: here pandas stops."""

from typing import TYPE_CHECKING

import numpy as np

from envs.cluster import Cluster
from envs.kernel.layout import JOB

if TYPE_CHECKING:
    import pandas as pd


def jobs_array(table: "pd.DataFrame", cluster: Cluster, physics: frozenset[str]) -> np.ndarray:
    """Return the jobs of a filled table as the kernel reads them, with the named parts of physics on.

    Without `memory` a job asks for none; without `preemption` pausing and loading take no time; without
    `estimates` a policy is told the duration.
    """
    jobs = np.zeros(len(table), JOB)
    jobs["submit"] = table["submit_s"]
    jobs["num_gpus"] = table["num_gpus"]
    jobs["duration"] = table["duration_s"]
    jobs["estimate"] = table["profiled_duration_s" if "estimates" in physics else "duration_s"]
    jobs["predictable_from"] = table["predictable_from"] if "estimates" in physics else 0.0
    jobs["cores"] = np.minimum(table["cpu_cores"] / table["num_gpus"], cluster.cores_per_gpu)
    if "memory" in physics:
        jobs["memory"] = table["gpu_memory_gib"]
    if "preemption" in physics:
        jobs["pause"] = table["pause_s"]
        jobs["load"] = table["load_s"]
    return jobs
