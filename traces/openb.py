"""Alibaba's openb trace of 2023: `openb_pod_list*.csv`, pods that may ask for a share of a GPU.

Source: github.com/alibaba/clusterdata, cluster-trace-gpu-v2023 (Weng et al., ATC'23).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from gpu_cluster_gym.traces import _delimited
from gpu_cluster_gym.traces._delimited import numbers, text
from gpu_cluster_gym.traces._log import LOGGED_END, UNFINISHED, ZERO, File, Head, Options, Reader
from gpu_cluster_gym.traces._times import Times

COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase", "creation_time",
    "deletion_time", "scheduled_time",
)  # fmt: skip
MILLI = 1000


def looks_like(head: Head) -> bool:
    """Return whether a file has the columns of pods."""
    return {"cpu_milli", "num_gpu", "gpu_milli", "pod_phase"} <= set(head.fields(","))


def read(file: File, options: Options) -> pd.DataFrame:
    """Read the pods as jobs that run from scheduling to deletion; a pod of one GPU may request a share, `gpu_milli`."""
    _delimited.require(_delimited.header_of(file), COLUMNS, file, reader.what)
    whole, seconds = numbers(whole=True), numbers(blank=("",))
    log = _delimited.log(
        file,
        {
            **dict.fromkeys(("name", "gpu_spec", "qos", "pod_phase"), text),
            **dict.fromkeys(("cpu_milli", "num_gpu", "gpu_milli"), whole),
            "creation_time": numbers(),
            **dict.fromkeys(("deletion_time", "scheduled_time"), seconds),
        },
    )
    wrong = (log["num_gpu"] > 0) & ((log["gpu_milli"] > MILLI) | (log["gpu_milli"] <= 0))
    log.refuse(wrong, "gpu_milli", log["gpu_milli"], "thousandths of a GPU from 1 to 1,000")
    log.unfinished = options.unfinished
    never = ~np.isfinite(log["scheduled_time"])
    log.leave_out(
        never & np.isfinite(log["deletion_time"]) if log.unfinished else never,
        "jobs left out, never scheduled (pending)",
    )
    log.leave_out_unfinished(~np.isfinite(log["deletion_time"]), UNFINISHED)
    names = ("scheduled_time", "deletion_time")
    submit, start, end = (Times(log[name], log[name]) for name in ("creation_time", *names))
    log.put_in_order(submit, start, end, names)
    log["duration_s"] = log[LOGGED_END] - log["logged_start_s"]
    log.leave_out(log["duration_s"] <= 0, ZERO)
    share = np.where(log["num_gpu"] == 1, log["gpu_milli"] / MILLI, 1.0)
    log.round_up_gpus(log["num_gpu"] * share, "num_gpu")
    log["cpu_cores"] = np.maximum(np.ceil(log["cpu_milli"] / MILLI), 1)
    log["job_id"] = log["name"]
    for name, heading in (("status", "pod_phase"), ("qos", "qos"), ("gpu_type", "gpu_spec")):
        log.set_text(name, log[heading])
    return log.table()


reader = Reader("openb's pod list", looks_like, read)
