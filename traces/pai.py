"""Alibaba's PAI trace of 2020: `pai_job_table.csv` and, in the same folder, `pai_task_table.csv`, without headers.

Source: github.com/alibaba/clusterdata, cluster-trace-gpu-v2020 (Weng et al., NSDI'22).
Without a file, jobs are generated from published statistics of all its GPU jobs.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpu_cluster_gym.traces import _delimited, _generator
from gpu_cluster_gym.traces._delimited import numbers, text
from gpu_cluster_gym.traces._log import LOGGED_END, UNFINISHED, ZERO, File, Head, Log, Options, Reader, among
from gpu_cluster_gym.traces._table import TraceError
from gpu_cluster_gym.traces._times import Times

JOBS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
TASKS = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu",
    "gpu_type",
)  # fmt: skip
STATES = ("Running", "Terminated", "Failed", "Waiting")
JOB_TABLE, TASK_TABLE = "pai_job_table", "pai_task_table"
PER_CENT = 100
NO_CPU_TYPE = ("", "CPU")

trace = partial(_generator.generate, "pai")
rates = partial(_generator.rates, "pai")


def looks_like(head: Head) -> bool:
    """Return whether a file is one of the trace's tables, by its name or its fields."""
    fields = head.fields(",")
    is_job = len(fields) == len(JOBS) and fields[3] in STATES
    is_task = len(fields) == len(TASKS) and fields[3] in STATES
    return is_job or is_task or (head.name.startswith("pai_") and "_table" in head.name)


def read(file: File, options: Options) -> pd.DataFrame:
    """Read the jobs: all instances of all tasks as a gang, from the start of the first task to the end of the last."""
    jobs_file, tasks_file = _tables(Path(file))
    seconds = numbers(blank=("",))
    log = _delimited.log(
        jobs_file,
        {
            **dict.fromkeys(("job_name", "user", "status"), text),
            **dict.fromkeys(("start_time", "end_time"), seconds),
        },
        names=JOBS,
    )
    log.refuse(~among(log["status"], STATES), "status", log["status"], " or ".join(STATES))
    tasks = _tasks(tasks_file)
    log.leave_out(log["status"] == "Waiting", f"{UNFINISHED} (waiting)")
    log.leave_out(log["status"] == "Running", f"{UNFINISHED} (running)")
    log.leave_out(~np.isfinite(log["start_time"]), "jobs left out, no submission")
    row = tasks.index.get_indexer(pd.Index(log["job_name"]))
    for name in tasks.columns:
        cells = tasks[name].to_numpy()
        log[name] = cells[np.maximum(row, 0)] if len(cells) else np.zeros(len(log), cells.dtype)
    log["has_task"] = row >= 0
    log.leave_out(~log["has_task"], "jobs left out, no task in the task table")
    log.leave_out(~(np.isfinite(log["first_s"]) & np.isfinite(log["last_s"])), ZERO)
    start, end = (Times(log[name], log[name]) for name in ("first_s", "last_s"))
    early = log["first_s"] < log["start_time"]
    log.count(early, "jobs whose first task starts before their submission, arriving at its start")
    submit_s = np.minimum(log["start_time"], log["first_s"])
    log.put_in_order(Times(submit_s, submit_s), start, end, ("start_time", "end_time"))
    log["duration_s"] = log[LOGGED_END] - log["logged_start_s"]
    log.leave_out(log["duration_s"] <= 0, ZERO)
    log.count(log["num_tasks"] > 1, "jobs of several tasks, run as one gang of all their instances")
    log.round_up_gpus(log["gpus"], "plan_gpu")
    log["cpu_cores"] = np.maximum(np.ceil(log["cores"]), 1)
    log["job_id"] = log["job_name"]
    log.set_text("user", log["user"])
    log.set_text("gpu_type", log["kinds"])
    return log.table()


reader = Reader(f"PAI's {JOB_TABLE}.csv (with {TASK_TABLE}.csv)", looks_like, read)


def _tables(file: Path) -> tuple[Path, Path]:
    """Return the paths of both tables; TraceError where the other is not in the same folder."""
    for own, other in ((JOB_TABLE, TASK_TABLE), (TASK_TABLE, JOB_TABLE)):
        if own in file.name:
            beside = file.with_name(file.name.replace(own, other))
            if not beside.is_file():
                raise TraceError(
                    file, None, None, "one of two tables", f"{beside.name} too, in the same folder"
                )
            return (file, beside) if own == JOB_TABLE else (beside, file)
    raise TraceError(
        file,
        None,
        None,
        f"a table named {file.name}",
        f"{JOB_TABLE}.csv and, in the same folder, {TASK_TABLE}.csv",
    )


def _tasks(file: Path) -> pd.DataFrame:
    """Return for each job, by its name: GPUs, cores, types of GPUs, number of tasks, first start and last end."""
    seconds, amount = numbers(blank=("",)), numbers(blank=("",))
    log = _delimited.log(
        file,
        {
            **dict.fromkeys(("job_name", "status", "gpu_type"), text),
            "inst_num": numbers(least=1, whole=True),
            **dict.fromkeys(("start_time", "end_time"), seconds),
            **dict.fromkeys(("plan_cpu", "plan_gpu"), amount),
        },
        names=TASKS,
    )
    log.refuse(~among(log["status"], STATES), "status", log["status"], " or ".join(STATES))
    log.refuse(
        log["end_time"] < log["start_time"], "end_time", log["end_time"], "a time not before the start"
    )
    frame = pd.DataFrame(
        {
            "job_name": log["job_name"],
            "gpus": np.nan_to_num(log["plan_gpu"]) / PER_CENT * log["inst_num"],
            "cores": np.nan_to_num(log["plan_cpu"]) / PER_CENT * log["inst_num"],
            "first_s": log["start_time"],
            "last_s": log["end_time"],
            "num_tasks": 1,
        }
    )
    groups = frame.groupby("job_name", sort=False)
    found = groups.agg({"gpus": "sum", "cores": "sum", "first_s": "min", "last_s": "max", "num_tasks": "sum"})
    return found.assign(kinds=_kinds(log, found.index))


def _kinds(log: Log, names: pd.Index) -> npt.NDArray[Any]:
    """Return the types of GPUs of each job, joined by +; blank without any."""
    kinds: dict[str, set[str]] = {}
    for name, kind in zip(log["job_name"], log["gpu_type"], strict=True):
        if kind not in NO_CPU_TYPE:
            kinds.setdefault(name, set()).add(kind)
    found = np.empty(len(names), object)
    found[:] = ["+".join(sorted(kinds.get(name, ()))) for name in names]
    return found
