"""Alibaba's trace of 2026 with spot jobs: `job_info_df.csv`, without starts.

Source: github.com/alibaba/clusterdata, cluster-trace-v2026-spot-gpu.
"""

from __future__ import annotations

import pandas as pd

from gpu_cluster_gym.traces import _delimited
from gpu_cluster_gym.traces._delimited import numbers, text
from gpu_cluster_gym.traces._log import ZERO, File, Head, Options, Reader

COLUMNS = (
    "job_name", "organization", "gpu_model", "cpu_request", "gpu_request", "worker_num", "submit_time", "duration",
    "job_type",
)  # fmt: skip
TYPES = ("HP", "Spot")


def looks_like(head: Head) -> bool:
    """Return whether a file has the columns of jobs."""
    return {"organization", "gpu_request", "worker_num", "job_type"} <= set(head.fields(","))


def read(file: File, options: Options) -> pd.DataFrame:
    """Read the jobs: GPUs of all workers as a gang, organisations as tenants, the type of job as quality of service."""
    _delimited.require(_delimited.header_of(file), COLUMNS, file, reader.what)
    log = _delimited.log(
        file,
        {
            **dict.fromkeys(("job_name", "organization", "gpu_model", "job_type"), text),
            **dict.fromkeys(("cpu_request", "gpu_request", "submit_time", "duration"), numbers()),
            "worker_num": numbers(least=1, whole=True),
        },
    )
    wrong = [kind not in TYPES for kind in log["job_type"]]
    log.refuse(pd.array(wrong, dtype=bool), "job_type", log["job_type"], " or ".join(TYPES))  # type: ignore[arg-type]
    log.leave_out(log["duration"] <= 0, ZERO)
    log["job_id"], log["submit_s"], log["duration_s"] = log["job_name"], log["submit_time"], log["duration"]
    log.round_up_gpus(log["gpu_request"] * log["worker_num"], "gpu_request")
    for name, heading in (("tenant", "organization"), ("qos", "job_type"), ("gpu_type", "gpu_model")):
        log.set_text(name, log[heading])
    return log.table()


reader = Reader("the job table of Alibaba's spot trace", looks_like, read)
