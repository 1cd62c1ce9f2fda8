"""Slurm's accounting: `sacct --parsable2` with the fields of `EXPORT`, in the time zone of the host that printed it.

Sources: the manual pages of sacct and slurm.conf. Rules: steps are skipped; each task of an array is a job; components
of a heterogeneous job are one job with all their GPUs; attempts of a requeued job (`--duplicates`) are one job, with
the first submission and the sum of the run times; a job that had to wait for others, or for its begin time, arrives
when it is eligible.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpu_cluster_gym.traces import _delimited
from gpu_cluster_gym.traces._columns import SHORTEST_S
from gpu_cluster_gym.traces._delimited import text
from gpu_cluster_gym.traces._log import (
    UNFINISHED,
    ZERO,
    File,
    Floats,
    Head,
    Log,
    Mask,
    Options,
    Reader,
    among,
)
from gpu_cluster_gym.traces._table import TraceError, quote
from gpu_cluster_gym.traces._times import Clock, spans

EXPORT = (
    "sacct --allusers --duplicates --parsable2 --starttime 2024-01-01 --format JobID,User,Account,Partition,QOS,State,"
    "Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,NNodes,NCPUS,ReqTRES,AllocTRES"
)
"""A command that exports what is read here."""
BLANK = ("", "Unknown", "None", "N/A")
NO_LIMIT = ("", "UNLIMITED", "Partition_Limit", "INVALID", "Unknown", "None")
RUNNING = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
QUEUED = ("PENDING", "CONFIGURING", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "REVOKED", "RESV_DEL_HOLD")
ENDED = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REQUEUED",
    "TIMEOUT", "LAUNCH_FAILED",
)  # fmt: skip
STATES = {*RUNNING, *QUEUED, *ENDED}
TRES = ("AllocTRES", "AllocGRES", "ReqTRES", "ReqGRES")
"""Fields that may name GPUs, in order of preference; those of GRES count the GPUs of each node."""
_JOB = re.compile(r"\d{1,12}(?:_(?:\d{1,12}|\[[^\]|]{1,4000}\]))?(?:\+\d{1,6})?", re.ASCII)
_STEP = re.compile(_JOB.pattern + r"\.[\w+.\-]{1,64}", re.ASCII)
_AMOUNT = re.compile(r"(\d{1,9})(?:\.\d+)?[KMGTP]?[nc]?", re.ASCII)
SLICE = re.compile(r"(\d)g\.\d+gb", re.IGNORECASE | re.ASCII)
"""Type of a MIG slice, with its number of compute slices."""
ON_SLICES = "jobs on MIG slices, counted as sevenths of a GPU"
_GRES = re.compile(r"(?:gres[/:])?gpu(?::([^:=(),\s]+))??(?:[:=](\d{1,6}))?(?:\([^()]*\))?", re.ASCII)
SHARED = re.compile(r"(?:gres[/:])?(?:shard|mps)(?::[^:=(),\s]+)??[:=][1-9]\d{0,5}(?:\([^()]*\))?", re.ASCII)
"""Parts of GPUs that several jobs share: the log does not say how many parts a GPU has."""
SHARDS = "jobs on shards of GPUs (gres/shard, gres/mps), given one whole GPU on each node"
_NO_GPU_COUNT = re.compile(r"(?:gres[/:])?gpu(?![a-z])", re.ASCII)
_TASKS = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,6}))?)?", re.ASCII)
MAX_TASKS = 100_000
"""Maximum number of tasks of an array."""
SLICES = 7
"""Compute slices of a GPU that is divided by MIG."""


def looks_like(head: Head) -> bool:
    """Return whether a file begins with the headings of `sacct`, separated by bars."""
    names = set(head.fields("|"))
    return bool({"JobID", "JobIDRaw"} & names) and bool({"Submit", "State", "Start", "Elapsed"} & names)


def read(file: File, options: Options) -> pd.DataFrame:
    """Read the jobs that started, with `options.unfinished` also those that wait.

    A job that still runs has its run time until then, with `options.unfinished` none (NaN). Notes count the jobs that
    are left out, merged or rounded.
    """
    clock = Clock(options.time_zone)
    headings = _delimited.header_of(file, "|")
    job_id = "JobID" if "JobID" in headings else "JobIDRaw"
    _delimited.require(headings, (job_id, "State", "Submit", "Start"), file, f"Slurm's sacct ({EXPORT})")
    if not {"ElapsedRaw", "Elapsed", "End"} & set(headings):
        raise TraceError(file, 1, "ElapsedRaw", quote(", ".join(headings)), "ElapsedRaw, Elapsed or End")
    tres = [name for name in TRES if name in headings]
    if not tres:
        raise TraceError(
            file,
            1,
            "AllocTRES",
            quote(", ".join(headings)),
            f"a field that names GPUs, one of {', '.join(TRES)}: {EXPORT}",
        )
    words = (
        "User",
        "Account",
        "Partition",
        "QOS",
        "State",
        "Elapsed",
        "ElapsedRaw",
        "Timelimit",
        "TimelimitRaw",
    )
    moments = ("Submit", "Eligible", "Start", "End")
    counts = ("NNodes", "AllocNodes", "NCPUS", "AllocCPUS")
    wanted: dict[str, _delimited.Convert] = dict.fromkeys((job_id, *words, *moments, *counts, *tres), text)
    log = _delimited.log(
        file, {name: each for name, each in wanted.items() if name in headings}, delimiter="|"
    )
    log["JobID"] = log[job_id]
    log.unfinished = options.unfinished
    _leave_out_steps(log)
    _check_states(log)
    if log.unfinished:
        _expand_arrays(log)
    for name in moments:
        if name in log:
            log[name] = clock.times(log[name], log.line, name, file, BLANK)
    log.refuse(~log["Submit"].known, "Submit", np.full(len(log), "", object), "a time")
    _leave_out_what_never_ran(log)
    _set_times(log)
    _set_gpus(log, tres)
    _set_limits(log)
    for name, heading in (
        ("user", "User"),
        ("tenant", "Account"),
        ("partition", "Partition"),
        ("qos", "QOS"),
    ):
        if heading in log:
            log.set_text(name, log[heading])
    log["status"] = log["state"]
    components = np.fromiter(("+" in each for each in log["JobID"]), bool, len(log))
    _merge(log, np.array([each.partition("+")[0] for each in log["JobID"]], object), components, "gang")
    _merge(log, log["JobID"], np.ones(len(log), bool), "attempts")
    log["job_id"] = log["JobID"]
    return log.table(clock)


reader = Reader("Slurm's sacct --parsable2", looks_like, read)


def _leave_out_steps(log: Log) -> None:
    """Leave out the steps of jobs; TraceError for an id of another form."""
    ids = log["JobID"]
    step = np.fromiter((bool(_STEP.fullmatch(each)) for each in ids), bool, len(ids))
    job = np.fromiter((bool(_JOB.fullmatch(each)) for each in ids), bool, len(ids))
    log.refuse(~step & ~job, "JobID", ids, "an id like 101, 101_7, 101+1 or 101.batch")
    log.leave_out(step, "steps of jobs, skipped")


def _expand_arrays(log: Log) -> None:
    """Replace the pending rest of an array, as in 101_[3-9,12%4], by its tasks."""
    rows: list[int] = []
    ids: list[str] = []
    for row, name in enumerate(log["JobID"]):
        array, bracket, rest = name.partition("_[")
        tasks = array_tasks(rest.rstrip("]")) if bracket else [""]
        if not tasks or len(tasks) > MAX_TASKS:
            expected = f"tasks of an array like 101_[3-9%2], at most {MAX_TASKS:,}"
            raise TraceError(log.file, int(log.line[row]), "JobID", quote(name), expected)
        rows += [row] * len(tasks)
        ids += [f"{array}_{task}" if bracket else name for task in tasks]
    log.count(len(rows) - len(log), "pending tasks of arrays that share a line with another task")
    log.keep(np.array(rows, np.int64))
    log["JobID"] = np.array(ids, object)


def array_tasks(text: str) -> list[str]:
    """Return the tasks in a text like 3-9,12%4 or 0-20:5; empty for another text."""
    tasks: list[str] = []
    for part in text.partition("%")[0].split(","):
        match = _TASKS.fullmatch(part)
        if not match:
            return []
        low, high, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if step < 1 or high < low or (high - low) // step >= MAX_TASKS:
            return []
        tasks += map(str, range(low, high + 1, step))
    return tasks


def _check_states(log: Log) -> None:
    """Set `state` to the first word of State, as in CANCELLED by 1000; TraceError for an unknown one."""
    known: dict[str, str] = {}
    state = np.empty(len(log), object)
    state[:] = [known.setdefault(each, each.split(" by ")[0]) for each in log["State"]]
    log.refuse(~among(state, STATES), "State", log["State"], "a state of a job, like COMPLETED")
    log["state"] = state


def _leave_out_what_never_ran(log: Log) -> None:
    pending = among(log["state"], QUEUED)
    rest = np.fromiter(("[" in each for each in log["JobID"]), bool, len(log))
    log.leave_out_unfinished(pending | rest, f"{UNFINISHED} (pending, or the rest of an array)")
    unstarted = ~log["Start"].known
    log.leave_out(unstarted & among(log["state"], ENDED) if log.unfinished else unstarted, ZERO)


def _set_times(log: Log) -> None:
    """Set arrivals, starts and run times: elapsed times where the log has them, since these exclude suspensions."""
    submit = log["Submit"]
    if "Eligible" in log:
        eligible = log["Eligible"].after(submit.early)
        later = log["Eligible"].known & (eligible > submit.early)
        start_s = log["Start"].after(submit.early)
        later &= eligible <= start_s
        log.count(
            later,
            "jobs that became eligible after their submission (dependencies, begin times), and arrive then",
        )
        early, late = (np.where(later, eligible, each) for each in (submit.early, submit.late))
        submit = replace(submit, early=early, late=late)
    running = among(log["state"], RUNNING)
    end = log.columns.get("End")
    elapsed = _elapsed(log)
    start_s = log["Start"].after(submit.early)
    if end is not None:  # in an hour that the clock showed twice
        latest_s, begun_s = log["Start"].late, end.early - elapsed
        second = (end.early == end.late) & (np.abs(begun_s - latest_s) < np.abs(begun_s - start_s))
        log.count(
            second, "starts in an hour that the clock showed twice, placed in the second one by the run time"
        )
        start_s = np.where(second, latest_s, start_s)
    log.refuse_early(replace(log["Start"], early=start_s), submit.early, "Start", "submission")
    log["submit_s"], log["logged_start_s"] = submit.early, start_s
    if end is not None:
        end_s = end.after(start_s)
        log.refuse_early(end, start_s, "End", "start")
        between = end_s - start_s
        differ = np.isfinite(elapsed) & np.isfinite(between) & (np.abs(elapsed - between) > 1) & ~running
        log.count(differ, "run times that differ from the end minus the start, used as logged (Elapsed)")
        elapsed = np.where(np.isfinite(elapsed), elapsed, between)
    log["duration_s"] = elapsed
    if log.unfinished:
        until = (start_s + elapsed)[running & np.isfinite(elapsed)]
        log.latest_s = float(until.max(initial=-np.inf))
        pending = among(log["state"], QUEUED)
        log["logged_start_s"] = np.where(pending, np.nan, start_s)
        log["duration_s"] = np.where(pending | running, np.nan, elapsed)
        log.leave_out(log["duration_s"] < SHORTEST_S, ZERO)
        return
    log.leave_out(running & ~(elapsed >= SHORTEST_S), UNFINISHED)
    running = among(log["state"], RUNNING)
    log.count(running, "jobs still running when the log was taken, with their run time until then")
    log.leave_out(~(log["duration_s"] >= SHORTEST_S), ZERO)


def _elapsed(log: Log) -> Floats:
    """Return the elapsed times of the log, NaN without any."""
    for name in ("ElapsedRaw", "Elapsed"):
        if name in log:
            return spans(log[name], log.line, name, log.file, BLANK)
    return np.full(len(log), np.nan)


def _set_limits(log: Log) -> None:
    """Set time limits: TimelimitRaw is in minutes."""
    if "TimelimitRaw" in log:
        log.set_limits(60.0 * spans(log["TimelimitRaw"], log.line, "TimelimitRaw", log.file, NO_LIMIT))
    elif "Timelimit" in log:
        log.set_limits(spans(log["Timelimit"], log.line, "Timelimit", log.file, NO_LIMIT))


def _set_gpus(log: Log, fields: list[str]) -> None:
    """Set num_gpus, gpu_type and cpu_cores.

    fields: read in order up to the first that names GPUs, which sets the GPUs and their type. The last one read that
      has cores sets the cores.
    """
    nodes = _counts(log, ("NNodes", "AllocNodes"), 1.0)
    known: dict[tuple[str, str], tuple[float, float, float, str, bool]] = {}
    gpus, cores = np.zeros(len(log)), np.full(len(log), np.nan)
    slices, shards = np.zeros(len(log), bool), np.zeros(len(log), bool)
    kinds = np.full(len(log), "", object)
    for row in range(len(log)):
        for name in fields:
            cell = log[name][row]
            if not cell:
                continue
            if (name, cell) not in known:
                try:
                    known[name, cell] = *_resources(cell), any(map(SHARED.fullmatch, cell.split(",")))
                except ValueError as error:
                    expected = f"resources like cpu=8,gres/gpu:a100=2 ({error})"
                    raise TraceError(log.file, int(log.line[row]), name, quote(cell), expected) from None
            count, parts, cpus, kind, shared = known[name, cell]
            each_node = nodes[row] if name.endswith("GRES") else 1.0
            gpus[row], slices[row], kinds[row] = (count + parts / SLICES) * each_node, parts > 0, kind
            cores[row] = cpus if cpus > 0 else cores[row]
            if count or parts:
                break
            if shared:
                gpus[row], shards[row] = nodes[row], True
                break
    log.count(shards, SHARDS)
    log.count(slices, ON_SLICES)
    log.round_up_gpus(gpus, fields[0])
    log.set_text("gpu_type", kinds)
    if (seen := sorted({kind for kind in kinds if kind})) and len(seen) > 1:
        log.notes.append(
            f"types of GPUs in the log, which bind jobs only with --constraints gpu_type: {', '.join(seen[:20])}"
        )
    cores = np.where(np.isfinite(cores), cores, _counts(log, ("NCPUS", "AllocCPUS"), np.nan))
    if np.isfinite(cores).all() and len(cores):
        log["cpu_cores"] = np.maximum(cores, 1.0)


def _counts(log: Log, names: tuple[str, ...], usual: float) -> Floats:
    """Return the whole numbers of the first of these fields that the log has, `usual` where there is none: (rows,)."""
    name = next((each for each in names if each in log), None)
    if name is None:
        return np.full(len(log), usual)
    found: Floats = _delimited.numbers(blank=("", "0"), whole=True)(log[name], log.line, name, log.file)
    return np.where(np.isfinite(found), found, usual)


def _resources(cell: str) -> tuple[float, float, float, str]:
    """Return whole GPUs, compute slices, cores and the type of GPU in a field of TRES or GRES.

    ValueError for another text.
    An entry without a type, as the first of `gres/gpu=2,gres/gpu:a100=2`, is a total that includes the GPUs and MIG
    slices of the typed entries.
    """
    total, typed, slices, parts, cores, kinds = 0.0, 0.0, 0.0, 0.0, 0.0, list[str]()
    for item in re.split(r",(?![^()]*\))", cell):
        name, joined, amount = item.partition("=")
        if match := _GRES.fullmatch(item):
            count = float(match[2] or 1)
            if match[1] is None:
                total += count
            elif piece := SLICE.search(match[1]):
                slices += count
                parts += count * int(piece[1])
                kinds.append(match[1])
            else:
                typed += count
                kinds.append(match[1])
        elif _NO_GPU_COUNT.match(item):
            raise ValueError(f"not {item[:40]!r}")
        elif (
            joined and name and re.fullmatch(r"[\w/:.\-]{1,80}", name, re.ASCII) and _AMOUNT.fullmatch(amount)
        ):
            if name == "cpu":
                cores = float(amount) if amount.isdigit() else 0.0
        elif not re.fullmatch(r"[A-Za-z][\w.\-]{0,40}(?::[\w.\-]{1,40}){0,3}(?:\([^()]*\))?", item, re.ASCII):
            raise ValueError(f"not {item[:40]!r}")
    return max(total - slices, typed), parts, cores, "+".join(sorted(set(kinds)))


def _merge(log: Log, ids: npt.NDArray[Any], among: Mask, how: str) -> None:
    """Merge the rows of an id: components of a gang that runs at once, or attempts one after another.

    among: rows that may be merged. how: "gang" or "attempts".
    """
    frame = pd.DataFrame({"id": ids, "among": among, "row": np.arange(len(log))})
    frame["start"] = np.nan_to_num(log["logged_start_s"], nan=np.inf)  # the last attempt may be pending
    several = frame["among"] & frame.duplicated(["id", "among"], keep=False)
    if not several.any():
        return
    keys = ["id", "start"] if how == "gang" else ["id"]  # components of one attempt start at once
    groups = frame[several].groupby(keys, sort=False)
    gone = np.zeros(len(log), bool)
    merged = 0
    for rows in groups["row"].apply(list):
        if len(rows) < 2:
            continue
        rows = sorted(rows, key=lambda row: (log["submit_s"][row], frame["start"][row]))
        head, merged = rows[0], merged + 1
        gone[rows[1:]] = True
        if how == "gang":
            for name in ("num_gpus", "cpu_cores"):
                if name in log:
                    log[name][head] = log[name][rows].sum()
            log["duration_s"][head] = log["duration_s"][rows].max()
        else:
            log["duration_s"][head] = log["duration_s"][rows].sum()
            if np.isnan(log["duration_s"][head]):  # the last attempt runs or queues
                log["logged_start_s"][head] = log["logged_start_s"][rows[-1]]
            log["num_gpus"][head] = log["num_gpus"][rows[-1]]
            log["status"][head] = log["status"][rows[-1]]
        if "time_limit_s" in log:
            for name in ("time_limit_s", "profiled_duration_s"):
                log[name][head] = log[name][rows].max()
    log.count(
        merged,
        "heterogeneous jobs, run as one gang of all their components"
        if how == "gang"
        else "requeued jobs, whose attempts are merged into one job (first submission; sum of run times, without the "
        "time between attempts, so that one GPU may appear to be held by two jobs)",
    )
    log.leave_out(
        gone, "components of heterogeneous jobs, merged" if how == "gang" else "further attempts, merged"
    )
