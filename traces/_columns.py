"""The columns of the job table, declared once: unit and rules, filling, readers, visibility.

The checks of a file, the simulator's array of jobs, the view of a policy and the notes under a table are derived from
these declarations. A missing column is drawn by its function in `traces._fill`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NOTHING = "none"
"""Text in place of a blank cell, where a column of text may be blank."""
SHORTEST_S = 1e-6  # shortest run time; much shorter ones underflow in ratios
MAX_SERVERS = 10  # parameter servers of a job, as in the simulator

LIMITS = {
    "s": 1e11,
    "ms": 1e9,
    "GiB": 1e6,
    "GPUs": 1e6,
    "cores": 1e6,
    "share": 1.0,
    "GB/s": 1e6,
    "core-s": 1e9,
    "GB": 1e6,
    "workers": 1e6,
    "servers": MAX_SERVERS,
    "times": 1e6,
    "points": 1e15,
}
"""Largest value by unit."""

_WORDS = {
    "s": "a number of seconds",
    "ms": "a number of milliseconds",
    "GiB": "a number of GiB",
    "GPUs": "a whole number of GPUs",
    "cores": "a whole number of cores",
    "share": "a share",
    "GB/s": "a number of GB/s",
    "core-s": "a number of core-seconds",
    "GB": "a number of GB",
    "workers": "a whole number of workers",
    "servers": "a whole number of parameter servers",
    "times": "a ratio",
    "points": "a number",
}


@dataclass(frozen=True)
class Column:
    """A column of the job table.

    name: its name in tables, in a CSV file and in a view
    dtype: str, int or float
    unit: a key of LIMITS, or empty
    meaning: a noun phrase for tables and documentation
    required: whether a trace must have it
    minimum: smallest value
    choices: the words allowed in a cell of text; empty for any
    may_be_blank: whether a cell of text may be blank, which is read as NOTHING
    expects: the rule for a cell, in words, where it is not the usual one of the unit
    filled: how it is drawn where a trace lacks it; empty for a column that cannot be drawn
    parts: the parts of physics that use it
    asked_by: the field of the scenario that requests it; without such a request a missing column stays missing
    simulated: whether JOB has a field of this name
    always: whether the simulator reads it in any case; otherwise it reads `neutral` unless one of `parts` is on
    neutral: a number, or the name of an earlier column whose values stand in
    gpus_only: whether it is 0 for a CPU job
    estimate_of: the column that it equals where estimates are exact
    shown: whether policies see it
    in_results: whether the results table has it too
    """

    name: str
    dtype: type
    unit: str
    meaning: str
    required: bool = False
    minimum: float = 0.0
    choices: tuple[str, ...] = ()
    may_be_blank: bool = False
    expects: str = ""
    filled: str = ""
    parts: tuple[str, ...] = ()
    asked_by: str = ""
    simulated: bool = False
    always: bool = False
    neutral: float | str = 0.0
    gpus_only: bool = False
    estimate_of: str = ""
    shown: bool = False
    in_results: bool = False

    def expected(self, number: float = 0.0) -> str:
        """Return the rule for a cell in words, for an error about `number`."""
        if self.expects or self.choices:
            return self.expects or " or ".join(self.choices)
        if self.dtype is str:
            return "printable text, not blank"
        limit = LIMITS[self.unit]
        if number > limit or self.unit == "share":
            return f"{_WORDS[self.unit]} from {self.minimum:g} to {limit:,.0f}"
        if self.minimum == -np.inf:
            return _WORDS[self.unit]
        return f"{_WORDS[self.unit]} >= {self.minimum:g}"


GPUS = "a whole number of GPUs from 1 to 1,000,000 (0: a CPU job)"

COLUMNS: tuple[Column, ...] = (
    Column("job_id", str, "", "the job's name in the log, written back unchanged", required=True),
    Column("submit_s", float, "s", "submission", required=True, simulated=True, always=True, shown=True),
    Column(
        "num_gpus",
        int,
        "GPUs",
        "GPUs requested as a gang, one worker on each; 0 for a CPU job",
        required=True,
        expects=GPUS,
        simulated=True,
        always=True,
        shown=True,
    ),
    Column(
        "duration_s",
        float,
        "s",
        "run time alone on V100s that are as close together as possible",
        required=True,
        minimum=SHORTEST_S,
        simulated=True,
        always=True,
    ),
    Column(
        "kind",
        str,
        "",
        "gpu or cpu job",
        choices=("gpu", "cpu"),
        filled="gpu where GPUs are requested",
        parts=("cpu_jobs",),
    ),
    Column(
        "model",
        str,
        "",
        "network that is trained, by its name in models.csv",
        filled="drawn from models that fit the largest GPU, one for each run of similar jobs",
        parts=("memory", "gpu_types"),
    ),
    Column(
        "gpu_memory_gib",
        float,
        "GiB",
        "true peak on each GPU",
        filled="the model's memory at a batch size drawn around its default",
        parts=("memory",),
        simulated=True,
        gpus_only=True,
    ),
    Column(
        "cpu_cores",
        int,
        "cores",
        "cores of the whole job",
        minimum=1,
        filled="the cores that the model's input needs, at most the cluster's share for its GPUs",
        parts=("cores",),
    ),
    Column("user", str, "", "user who submitted it"),
    Column("vc", str, "", "virtual cluster it was submitted to"),
    Column(
        "tenant",
        str,
        "",
        "tenant whose quota its GPUs count against: an account, a team, a virtual cluster; else the vc",
    ),
    Column(
        "partition",
        str,
        "",
        "partition or queue it was submitted to, or several, joined by +",
        may_be_blank=True,
    ),
    Column("qos", str, "", "quality of service or priority class"),
    Column("gpu_type", str, "", "type of GPU that it may use, or several, joined by +", may_be_blank=True),
    Column(
        "depends_on",
        str,
        "",
        "ids of the jobs that must end before it may start, joined by +",
        may_be_blank=True,
    ),
    Column(
        "priority",
        float,
        "points",
        "priority in the log, a higher one first; 0 where constraints do not name it",
        minimum=-np.inf,
        simulated=True,
        shown=True,
    ),
    Column("time_limit_s", float, "s", "limit of duration_s, at which the job is ended; 0 = none"),
    Column("status", str, "", "how it ended in the log"),
    Column("logged_start_s", float, "s", "its start in the log, on the clock of submit_s", minimum=-np.inf),
    Column(
        "profiled_duration_s",
        float,
        "s",
        "estimate of duration_s that policies see",
        minimum=SHORTEST_S,
        filled="lognormal error, 0.25, or 1 where never predictable",
        parts=("estimates",),
        simulated=True,
        always=True,
        estimate_of="duration_s",
    ),
    Column(
        "profiled_memory_gib",
        float,
        "GiB",
        "estimate of gpu_memory_gib that policies see",
        filled="gpu_memory_gib, with a lognormal error, memory_error",
        parts=("memory",),
        simulated=True,
        gpus_only=True,
        estimate_of="gpu_memory_gib",
        shown=True,
    ),
    Column(
        "active_ms",
        float,
        "ms",
        "time in one iteration for which the GPU is busy",
        filled="the model's iteration on a V100 times its GPU utilisation",
        parts=("sharing",),
        simulated=True,
        always=True,
        gpus_only=True,
    ),
    Column(
        "idle_ms",
        float,
        "ms",
        "time in one iteration for which the GPU is idle",
        filled="the rest of that iteration",
        parts=("sharing",),
        simulated=True,
        always=True,
        gpus_only=True,
    ),
    Column(
        "profiled_active_ms",
        float,
        "ms",
        "estimate of active_ms that policies see",
        filled="the same iteration, its share with an error in the log odds, duty_error",
        parts=("profiles",),
        simulated=True,
        neutral="active_ms",
        gpus_only=True,
        estimate_of="active_ms",
        shown=True,
    ),
    Column(
        "profiled_idle_ms",
        float,
        "ms",
        "estimate of idle_ms that policies see",
        filled="the rest of that iteration",
        parts=("profiles",),
        simulated=True,
        neutral="idle_ms",
        gpus_only=True,
        estimate_of="idle_ms",
        shown=True,
    ),
    Column(
        "checkpoint_gib",
        float,
        "GiB",
        "checkpoint that a pause writes and a resume reads",
        filled="the model's weights and optimiser state",
    ),
    Column(
        "pause_s",
        float,
        "s",
        "duration of a pause, in which it holds its GPUs without progress",
        filled="write to shared storage and a teardown, lognormal noise; at most 600 s with load_s; see restart_cost",
        parts=("preemption",),
        simulated=True,
        shown=True,
    ),
    Column(
        "load_s",
        float,
        "s",
        "duration of a load when it is resumed, in which it holds its GPUs without progress",
        filled="start-up, data and checkpoint from shared storage, the same noise; see restart_cost",
        parts=("preemption",),
        simulated=True,
        shown=True,
    ),
    Column(
        "startup_s",
        float,
        "s",
        "duration of the start-up when it starts from scratch, in which it holds its GPUs without progress",
        filled="a load without its checkpoint; subtracted from the run times of a log",
        parts=("startup",),
        simulated=True,
        gpus_only=True,
        shown=True,
    ),
    Column(
        "predictable_from",
        float,
        "share",
        "share of progress from which the estimate is accurate; 1 = never",
        filled="0 for 70 % of jobs, 1 for the others",
        parts=("estimates",),
        simulated=True,
    ),
    Column(
        "bandwidth_gbs",
        float,
        "GB/s",
        "host memory bandwidth of the whole job at full speed",
        filled="traffic of the model's samples at the requested cores; none for CPU jobs",
        parts=("bandwidth",),
    ),
    Column(
        "input_core_s",
        float,
        "core-s",
        "core-seconds per GPU for the input of one iteration",
        filled="the model's input at that batch size; none for CPU jobs",
        parts=("cores", "bandwidth"),
        simulated=True,
        gpus_only=True,
    ),
    Column(
        "sync_gb",
        float,
        "GB",
        "data that each GPU exchanges in one iteration and computation does not hide",
        filled="the model's gradients, times the share of the transfer that is not hidden",
        parts=("locality", "elastic"),
        simulated=True,
        gpus_only=True,
    ),
    Column(
        "servers",
        int,
        "servers",
        "requested parameter servers; 0 where workers exchange among themselves",
        filled="none",
        parts=("elastic",),
        simulated=True,
        gpus_only=True,
        shown=True,
    ),
    Column(
        "min_workers",
        int,
        "workers",
        "minimum number of workers",
        filled="1",
        parts=("elastic",),
        simulated=True,
        neutral="num_gpus",
        shown=True,
    ),
    Column(
        "max_workers",
        int,
        "workers",
        "maximum number of workers",
        filled="twice the requested GPUs",
        parts=("elastic",),
        simulated=True,
        neutral="num_gpus",
        gpus_only=True,
        shown=True,
    ),
    Column(
        "scaling_loss",
        float,
        "share",
        "a: w workers are w / (1 + a (w - 1)) times as fast as one",
        filled="the share of the model's iteration that does not depend on the batch",
        parts=("elastic",),
        simulated=True,
    ),
    Column(
        "cpu_slowdown",
        float,
        "times",
        "slowdown of a worker on 5 cores; 0 where it cannot run on cores",
        filled="the model's step time on five cores over that on a V100, where measured",
        parts=("elastic",),
        simulated=True,
        gpus_only=True,
        shown=True,
    ),
    Column(
        "predicted_duration_s",
        float,
        "s",
        "estimate of duration_s once it is predictable",
        minimum=SHORTEST_S,
        filled="lognormal error 0.25 where a job becomes predictable",
        simulated=True,
        always=True,
        estimate_of="duration_s",
    ),
    Column(
        "crash_at",
        float,
        "share",
        "share of its run at which it fails by itself, once; 1 = never",
        filled="18.5 % of jobs of an hour or more, uniform over their run",
        parts=("failures",),
        simulated=True,
        neutral=1.0,
    ),
    Column(
        "deadline_s",
        float,
        "s",
        "deadline, on the clock of submit_s; 0 = none",
        filled="slack drawn uniformly from 0 to twice deadline_slack, in estimated run times",
        asked_by="deadline_slack",
        simulated=True,
        always=True,
        shown=True,
        in_results=True,
    ),
)
