"""The Acme trace of 2023: `trace_seren.csv` and `trace_kalos.csv`, jobs that develop large language models.

Source: github.com/InternLM/AcmeTrace (Hu et al., NSDI'24).
Without a file, jobs are generated from published statistics of all its GPU jobs.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from gpu_cluster_gym.traces import _delimited, _generator
from gpu_cluster_gym.traces._delimited import numbers, text
from gpu_cluster_gym.traces._log import LOGGED_END, TOLERANCE_S, ZERO, File, Head, Options, Reader, among
from gpu_cluster_gym.traces._times import Clock

COLUMNS = (
    "job_id", "user", "node_num", "gpu_num", "cpu_num", "type", "state", "submit_time", "start_time", "end_time",
    "duration", "queue",
)  # fmt: skip
BLANK = ("", "None")
ENDED = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")

trace = partial(_generator.generate, "acme")
rates = partial(_generator.rates, "acme")


def looks_like(head: Head) -> bool:
    """Return whether a file has Acme's columns."""
    return {"node_num", "gpu_num", "type", "state", "gpu_time"} <= set(head.fields(","))


def read(file: File, options: Options) -> pd.DataFrame:
    """Read the jobs: run times from start to end, since those of Kalos may count from the submission."""
    clock = Clock(options.time_zone)
    _delimited.require(_delimited.header_of(file), COLUMNS, file, reader.what)
    log = _delimited.log(
        file,
        {
            **dict.fromkeys(("job_id", "user", "type", "state"), text),
            **dict.fromkeys(("gpu_num", "cpu_num"), numbers(whole=True)),
            "submit_time": clock.reader(),
            **dict.fromkeys(("start_time", "end_time"), clock.reader(BLANK)),
            "duration": numbers(blank=BLANK),
        },
    )
    log.unfinished = options.unfinished
    log.leave_out_unstarted("start_time", "end_time", among(log["state"], ENDED))
    log.put_in_order(log["submit_time"], log["start_time"], log["end_time"], ("start_time", "end_time"))
    between = log[LOGGED_END] - log["logged_start_s"]
    logged = np.where(np.isfinite(log["duration"]), log["duration"], between)
    from_submission = np.abs(logged - (log[LOGGED_END] - log["submit_s"])) <= TOLERANCE_S
    differ = np.abs(logged - between) > TOLERANCE_S
    log.count(
        differ & from_submission, "durations that count from the submission, replaced by end minus start"
    )
    log.count(differ & ~from_submission, "durations that differ from end minus start, which is used")
    log["duration_s"] = between
    log.leave_out(between <= 0, ZERO)
    log.round_up_gpus(log["gpu_num"], "gpu_num")
    log["cpu_cores"] = np.maximum(log["cpu_num"], 1)
    log.set_text("status", log["state"])
    return log.table(clock)


reader = Reader("Acme's trace_seren.csv or trace_kalos.csv", looks_like, read)
