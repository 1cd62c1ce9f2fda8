"""Truths about unfinished jobs that no scheduler may see, and alternative truths."""

from typing import Any

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.layout import CHARGED, JOB, RUNNING

VISIBLE = {
    *("submit_s", "num_gpus", "servers", "min_workers", "max_workers", "user", "deadline_s", "request_class"),
    *("barred", "priority"),
    *("profiled_duration_s", "profiled_memory_gib", "profiled_active_ms", "profiled_idle_ms"),
    *("profiled_interference", "pause_s", "load_s", "startup_s", "cores_each", "type_speed", "fitted"),
}
"""Requested and profiled columns, and those known of a kind of job; all other columns are hidden."""


def change(jobs: np.ndarray, s: Any, factor: float) -> None:
    """Multiply all hidden values of the unfinished jobs, given their state."""
    count = len(jobs)
    left, predictable = np.isnan(s.finish_s[:count]), s.predictable[:count] > 0
    shown = {
        "gbs_each": (s.attained_s[:count] > 0) | (s.phase[:count] == RUNNING),  # measured by a monitor
        "gpu_memory_gib": s.charged[:count] == CHARGED,  # visible as the free memory of its GPUs
        "duration_s": np.full(count, bool(s.exact)),
        "predicted_duration_s": predictable,
        "predictable_from": predictable,
    }
    for name in set(JOB.names or ()) - VISIBLE:
        jobs[name][left & ~shown.get(name, np.zeros(count, bool))] *= factor
