"""SenseTime's Helios trace of 2020: `cluster_log.csv` of one of its four clusters.

Source: github.com/S-Lab-System-Group/HeliosData (Hu et al., SC'21).
Without a file, jobs are generated from published statistics of all its GPU jobs.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from gpu_cluster_gym.traces import _delimited, _generator
from gpu_cluster_gym.traces._delimited import numbers, text
from gpu_cluster_gym.traces._log import File, Head, Options, Reader, among
from gpu_cluster_gym.traces._times import Clock

COLUMNS = (
    "job_id", "user", "vc", "gpu_num", "cpu_num", "node_num",
    "state", "submit_time", "start_time", "end_time", "duration", "queue",
)  # fmt: skip
BLANK = ("", "None")
ENDED = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL")

trace = partial(_generator.generate, "helios")
rates = partial(_generator.rates, "helios")


def looks_like(head: Head) -> bool:
    """Return whether a file has Helios's columns."""
    return {"vc", "gpu_num", "cpu_num", "submit_time", "duration"} <= set(head.fields(","))


def read(file: File, options: Options) -> pd.DataFrame:
    """Read the jobs: run times as logged, virtual clusters as tenants; jobs that never ran are left out and counted."""
    clock = Clock(options.time_zone)
    _delimited.require(_delimited.header_of(file), COLUMNS, file, reader.what)
    whole = numbers(whole=True)
    log = _delimited.log(
        file,
        {
            **dict.fromkeys(("job_id", "user", "vc", "state"), text),
            **dict.fromkeys(("gpu_num", "cpu_num"), whole),
            "submit_time": clock.reader(),
            **dict.fromkeys(("start_time", "end_time"), clock.reader(BLANK)),
            "duration": numbers(blank=BLANK),
        },
    )
    log.unfinished = options.unfinished
    log.leave_out_unstarted("start_time", "end_time", among(log["state"], ENDED))
    log.put_in_order(log["submit_time"], log["start_time"], log["end_time"], ("start_time", "end_time"))
    log.set_run_times(log["duration"])
    log.round_up_gpus(log["gpu_num"], "gpu_num")
    log["cpu_cores"] = np.maximum(log["cpu_num"], 1)
    log.set_text("status", log["state"])
    log.set_text("tenant", log["vc"])
    return log.table(clock)


reader = Reader("Helios's cluster_log.csv", looks_like, read)
