"""Reader of Slurm's queue: output of `squeue --json`, data parsers v0.0.38 to v0.0.43 (Slurm 22.05 to 25.05).

Numbers are plain or objects {set, infinite, number}, and states are words or lists of words. The start of a pending job
is the scheduler's estimate and is not read. Sources: the OpenAPI specifications of slurmrestd, and output of Slurm.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpu_cluster_gym.traces._columns import NOTHING
from gpu_cluster_gym.traces._json import Objects
from gpu_cluster_gym.traces._log import File, Head
from gpu_cluster_gym.traces._table import TraceError, check, open_text, quote, read_bytes
from gpu_cluster_gym.traces.slurm import (
    ENDED,
    QUEUED,
    RUNNING,
    SHARDS,
    SHARED,
    SLICE,
    array_tasks,
)

if TYPE_CHECKING:
    import pandas as pd

BLOCKED = (
    "Dependency",
    "DependencyNeverSatisfied",
    "JobHeldAdmin",
    "JobHeldUser",
    "BeginTime",
    "JobArrayTaskLimit",
)
"""Reasons for which a pending job could not start on an empty cluster: it is held, or waits for a time or a job."""
NEVER = re.compile(
    r"BadConstraints|InvalidAccount|InvalidQOS|AccountNotAllowed|QOSNotAllowed|ReservationDeleted|JobHoldMaxRequeue"
    r"|DeadLine|MaxMemPerLimit|Partition(?:Down|Inactive|Config|NodeLimit|TimeLimit)"
    r"|(?:QOS|Assoc)(?:Max\w*Per(?:Job|Node)(?:Limit)?|Min\w+)",
    re.ASCII,
)
"""Reasons for which a pending job cannot start until an administrator or its user changes something."""
ORDINARY = ("", "None", "Priority", "Resources", "Prolog", "Cleaning", "SchedDefer")
"""Reasons of a pending job that waits for resources, or for its turn."""
READ_AS = "read as the output of squeue --json"
RUNS_ON_SLICES = "running jobs whose MIG slices are not counted, since several jobs may run on one GPU"
QUEUES_FOR_SLICES = "queued jobs whose MIG slices are not counted, since the simulated cluster has no slices"
MINUTE = 60.0
_HOSTS = re.compile(r"([^,\[\]]+)(?:\[([\d,\-]+)\])?([^,\[\]]*)", re.ASCII)
_GPUS = re.compile(r"gres/gpu(?::([^=,]+))?=(\d{1,6})", re.ASCII)
_DETAIL = re.compile(r"gpu(?::[^:(]+)?:(\d{1,4})(?:\(IDX:([\d,\-]*)\))?", re.ASCII)
_UPDATE = re.compile(
    r'"last_update"\s*:\s*(?:(\d{1,12})|\{[^{}]*"number"\s*:\s*(\d{1,12})[^{}]*\})', re.ASCII
)
_MAX_HOSTS = 100_000
NO_VALUE = (4_294_967_294, 4_294_967_295)
"""Slurm's numbers for unset and unlimited."""


class Held(NamedTuple):
    """Part of a running job on a node.

    node: name of the node.
    num_gpus: number of GPUs.
    gpus: their indices on the node; empty if unknown.
    """

    node: str
    num_gpus: int
    gpus: tuple[int, ...]


class Queue(NamedTuple):
    """GPUs held by running jobs, and priorities of queued jobs without their nice values, by job id."""

    held: dict[str, list[Held]]
    priority: dict[str, float]


def looks_like(head: Head) -> bool:
    """Return whether a file begins like the output of `squeue --json`."""
    text = head.text
    return text.lstrip()[:1] == "{" and ('"slurm"' in text.casefold() or '"job_state"' in text)


def read(file: File) -> tuple[pd.DataFrame, Queue, float]:
    """Return the job table, held GPUs and priorities, and the time of the snapshot, s since 1970.

    The table of an idle cluster is empty. TraceError for a malformed file.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    queue = Queue({}, {})
    counts: Counter[str] = Counter()
    for line, job in Objects(file, items="jobs"):
        for row in _rows(job, file, line, counts):
            rows.append(row)
            lines.append(line)
            if np.isfinite(row["logged_start_s"]):
                queue.held[row["job_id"]] = _held(job, row["num_gpus"])
            elif np.isfinite(priority := _number(job, "priority", file, line, np.nan)):
                queue.priority[row["job_id"]] = priority + _number(job, "nice", file, line, 0.0)
    notes = [f"{what}: {number:,}" for what, number in counts.items()]
    if not rows:
        _refuse_other(file)
    table = pd.DataFrame(rows) if rows else _no_jobs()
    now_s = _now(file, table, notes)
    if not rows:
        table.attrs["notes"] = [READ_AS, *notes]
        return table, queue, now_s
    limit = table["time_limit_s"]
    if limit.notna().any():
        if limit.isna().any():
            notes.append(f"jobs without a time limit, given the longest one: {int(limit.isna().sum()):,}")
        limit = limit.fillna(limit.max())
        table = table.assign(time_limit_s=limit, profiled_duration_s=limit, predictable_from=1.0)
    else:
        table = table.drop(columns="time_limit_s")
    start_s = table["logged_start_s"].to_numpy(float)
    checked = check(
        table.assign(
            logged_start_s=np.where(np.isfinite(start_s), start_s, table["submit_s"]), duration_s=1.0
        ),
        file=file,
        line=lines,
    )
    starts = dict(zip(table["job_id"], start_s, strict=True))
    checked["logged_start_s"] = [starts[each] for each in checked["job_id"]]
    checked["duration_s"] = np.nan
    checked.attrs["notes"] = [READ_AS, *notes, *checked.attrs["notes"]]
    return checked, queue, now_s


def _no_jobs() -> pd.DataFrame:
    """Return the job table of an empty queue."""
    import pandas as pd

    numbers = {name: np.zeros(0) for name in ("submit_s", "logged_start_s", "duration_s", "time_limit_s")}
    table = pd.DataFrame({"job_id": np.zeros(0, object), "num_gpus": np.zeros(0, np.int64), **numbers})
    table.attrs["origin"] = {}
    return table


def _refuse_other(file: File) -> None:
    """Raise TraceError where a file without jobs is no empty queue: where it has no list of jobs, or has errors."""
    found = json.loads(open_text(file).read())
    if "jobs" not in found:
        nodes = ", but one of nodes" if {"nodes", "sinfo"} & {*found} else ""
        expected = "the output of squeue --all --json (nodes are passed with --cluster)"
        raise TraceError(file, None, None, f"no list named jobs{nodes}", expected)
    if errors := found.get("errors"):
        expected = "the output of squeue --all --json without errors: run it again"
        raise TraceError(file, None, None, f"no jobs, but errors: {quote(json.dumps(errors))}", expected)


def _rows(job: dict[str, Any], file: File, line: int, counts: Counter[str]) -> list[dict[str, Any]]:
    """Return the rows of a job: one, none if it cannot run, or one for each pending task of an array."""

    def number(name: str, usual: float = np.nan) -> float:
        return _number(job, name, file, line, usual)

    state = _state(job, file, line)
    if state in ENDED:
        counts["jobs left out, ended"] += 1
        return []
    ids, running = _ids(job, file, line, number), state in RUNNING
    reason = str(job.get("state_reason") or "")
    if not running and reason in BLOCKED:
        counts[f"jobs left out, waiting for something other than resources ({reason})"] += len(ids)
        return []
    if not running and NEVER.fullmatch(reason):
        counts[f"jobs left out, which cannot start ({reason})"] += len(ids)
        return []
    tres = str(job.get("tres_alloc_str" if running else "tres_req_str") or job.get("tres_req_str") or "")
    gpus, slices = _gpus(tres)
    if (
        not running and not gpus and any(map(SHARED.fullmatch, tres.split(",")))
    ):  # running ones may share a GPU
        gpus = int(number("node_count", 1.0))
        counts[SHARDS] += 1
    start_s, submit_s = number("start_time"), number("submit_time")
    if not np.isfinite(submit_s) or (running and not np.isfinite(start_s)):
        name = "start_time" if np.isfinite(submit_s) else "submit_time"
        raise TraceError(file, line, name, quote(job.get(name)), "seconds since 1970")
    eligible_s = number("eligible_time")
    if np.isfinite(eligible_s) and eligible_s > submit_s and not (running and eligible_s > start_s):
        submit_s = eligible_s
    row = {
        "submit_s": min(submit_s, start_s) if running else submit_s,
        "num_gpus": gpus,
        "kind": "gpu" if gpus else "cpu",
        "logged_start_s": start_s if running else np.nan,
        "time_limit_s": MINUTE * number("time_limit") or np.nan,
        "user": str(job.get("user_name") or job.get("user_id") or NOTHING),
        "tenant": str(job.get("account") or NOTHING),
        "partition": str(job.get("partition") or NOTHING),
        "qos": str(job.get("qos") or NOTHING),
        "status": state,
    }
    if not running and gpus and reason not in ORDINARY:
        limit = f"jobs that wait for a limit that is not simulated, taken as waiting for resources ({reason})"
        counts[limit] += len(ids)
    if slices:
        counts[RUNS_ON_SLICES if running else QUEUES_FOR_SLICES] += len(ids)
    return [{"job_id": name, **row} for name in ids]


def _ids(job: dict[str, Any], file: File, line: int, number: Any) -> list[str]:
    """Return the id of a job as Slurm writes it, and those of the pending tasks of an array."""
    own, array = number("job_id"), number("array_job_id", 0)
    if not np.isfinite(own):
        raise TraceError(file, line, "job_id", quote(job.get("job_id")), "a number")
    if not array:
        return [f"{own:.0f}"]
    if rest := str(job.get("array_task_string") or ""):
        if not (tasks := array_tasks(rest)):
            raise TraceError(file, line, "array_task_string", quote(rest), "tasks like 3-9%2")
        return [f"{array:.0f}_{task}" for task in tasks]
    task = number("array_task_id")
    return [f"{array:.0f}_{task:.0f}" if np.isfinite(task) else f"{own:.0f}"]


def _number(job: dict[str, Any], name: str, file: File, line: int, usual: float) -> float:
    """Return a number, plain or as {set, infinite, number}; `usual` where it is not set or infinite."""
    found = job.get(name)
    if isinstance(found, dict):
        if not found.get("set", True) or found.get("infinite", False):
            return usual
        found = found.get("number")
    if found is None or found in NO_VALUE:
        return usual
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < 1e12:
        raise TraceError(file, line, name, quote(found), "a number >= 0 and < 1e12")
    return float(found)


def _state(job: dict[str, Any], file: File, line: int) -> str:
    """Return the state of a job: the first of its words that is a known state."""
    found = job.get("job_state")
    words = [str(each) for each in (found if isinstance(found, list) else [found])]
    for word in words:
        if word in (*RUNNING, *QUEUED, *ENDED):
            return word
    raise TraceError(file, line, "job_state", quote(found), "a state of a job, like PENDING")


def _gpus(tres: str) -> tuple[int, int]:
    """Return the numbers of whole GPUs and of MIG slices in a text like cpu=8,gres/gpu=2,gres/gpu:a100=2.

    The total without a type counts the GPUs and MIG slices of the typed entries, and whole GPUs without a type.
    """
    total = typed = slices = 0
    for kind, count in _GPUS.findall(tres):
        if not kind:
            total += int(count)
        elif SLICE.search(kind):
            slices += int(count)
        else:
            typed += int(count)
    return max(total - slices, typed), slices


def _held(job: dict[str, Any], gpus: int) -> list[Held]:
    """Return the GPUs that a running job holds on each node; empty if the file does not say."""
    nodes = hosts(str(job.get("nodes") or ""))
    detail = job.get("gres_detail") or []
    found = [_DETAIL.match(str(each)) for each in detail]
    if nodes and len(found) == len(nodes) and all(found):
        held = [
            Held(node, int(each[1]), tuple(map(int, array_tasks(each[2] or ""))))
            for node, each in zip(nodes, found, strict=True)
            if each
        ]
    elif nodes and gpus % len(nodes) == 0:
        held = [Held(node, gpus // len(nodes), ()) for node in nodes]
    else:
        return []
    return held if sum(each.num_gpus for each in held) == gpus else []


def hosts(text: str) -> list[str]:
    """Return the names in a list of hosts like n[01-03,7],login."""
    names: list[str] = []
    for before, numbers, after in _HOSTS.findall(text):
        if not numbers:
            names.append(before + after)
            continue
        for part in numbers.split(","):
            low, _, high = part.partition("-")
            if not low or int(high or low) - int(low) > _MAX_HOSTS:
                return []
            names += [f"{before}{each:0{len(low)}d}{after}" for each in range(int(low), int(high or low) + 1)]
    return names


def _now(file: File, table: pd.DataFrame, notes: list[str]) -> float:
    """Return the time of the snapshot: as Slurm states, else the file's modification time, with a note."""
    times = table[["submit_s", "logged_start_s"]].to_numpy(float)
    latest = float(np.nanmax(times)) if len(table) else 0.0
    if said := _UPDATE.search(read_bytes(file).decode("utf-8")):
        return max(float(said[1] or said[2]), latest)
    written = Path(file).stat().st_mtime
    notes.append("the output has no time of its own: the modification time of the file is used")
    return max(written, latest)
