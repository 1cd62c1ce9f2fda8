"""Jobs of Kubernetes and workloads of Kueue, as `kubectl get ... -A -o json` prints them.

`kubectl get workloads.kueue.x-k8s.io -A -o json` has the time at which each workload was admitted, so waits are known.
A plain Job (`kubectl get jobs -A -o json`) has only the time at which its controller started it, before its pods are
scheduled. The tenant of a workload is its cluster queue. One that is not admitted has the cluster queue of others from
its local queue, else the local queue. Sources: the API references of batch/v1 and of kueue.x-k8s.io/v1beta1.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from gpu_cluster_gym.traces._columns import NOTHING
from gpu_cluster_gym.traces._json import Objects
from gpu_cluster_gym.traces._log import (
    LOGGED_END,
    ZERO,
    File,
    Head,
    Log,
    Options,
    Reader,
)
from gpu_cluster_gym.traces._table import TraceError, quote
from gpu_cluster_gym.traces._times import Clock

QUEUE = "kueue.x-k8s.io/queue-name"
TYPE_LABELS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "accelerator")
_GPU = re.compile(r"[\w.\-]+/(?:gpu|GPU)", re.ASCII)
_SLICE = re.compile(r"[\w.\-]+/mig-(\d)g\.\d+gb(?:\.\w+)?", re.ASCII)
_QUANTITY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(m|)", re.ASCII)
SLICES = 7
"""Compute slices of a GPU that is divided by MIG."""
LARGEST_S = 1_000_000_000
"""Largest time limit of a job, s."""


def looks_like(head: Head) -> bool:
    """Return whether a file is a list of objects of Kubernetes."""
    return head.text.lstrip()[:1] in ("{", "[") and '"apiVersion"' in head.text


def read(file: File, options: Options) -> pd.DataFrame:
    """Read the jobs that started and ended, with `options.unfinished` also those that run or wait.

    A Job whose workload of Kueue is in the file too counts once, as the workload.
    """
    clock = Clock(options.time_zone)
    counts: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    lines, jobs = list[int](), list[int]()
    for line, item in Objects(file, items="items"):
        found = _Item(item, file, line)
        kind = found.text("kind")
        if kind == "Workload":
            row = _workload(found, counts)
        elif kind == "Job":
            row = _job(found)
            jobs.append(len(rows))
        else:
            counts["objects left out that are neither Jobs nor Workloads"] += 1
            continue
        rows.append(row)
        lines.append(line)
    _set_tenants(rows)
    log = Log(file, _columns(rows), np.array(lines, np.int64), dict(counts))
    if not len(log):
        return log.table()
    doubled = np.zeros(len(log), bool)
    owners = {owner for row in rows for owner in row["owners"]}
    doubled[jobs] = [rows[at]["uid"] in owners for at in jobs]
    log.leave_out(doubled, "Jobs left out whose Workload is also in the file")
    for name in ("submit", "start", "end"):
        log[name] = clock.times(log[name], log.line, name, file, ("",))
    log.unfinished = options.unfinished
    log.leave_out_unstarted("start", "end", log["end"].known | (log["status"] == "Failed"))
    log.put_in_order(log["submit"], log["start"], log["end"], ("startTime", "completionTime"))
    log["duration_s"] = log[LOGGED_END] - log["logged_start_s"]
    log.leave_out(log["duration_s"] <= 0, ZERO)
    log.count(log["slices"], "jobs on MIG slices, counted as sevenths of a GPU")
    log.count(log["plain"], "Jobs without a queue of Kueue: the wait of their pods counts as run time")
    log.count(
        log["waves"], "Jobs with more completions than parallelism, run as one gang of their parallelism"
    )
    log.round_up_gpus(log["gpus"], "nvidia.com/gpu")
    log["cpu_cores"] = np.maximum(np.ceil(log["cores"]), 1)
    log.set_limits(log["limit_s"])
    for name in ("tenant", "qos", "gpu_type", "partition"):
        log.set_text(name, log[name], ("", NOTHING))
    return log.table(clock)


reader = Reader("Jobs or workloads of Kubernetes (kubectl -o json)", looks_like, read)


class _Item:
    """A part of a JSON object, whose fields are checked when they are read."""

    def __init__(self, value: dict[str, Any], file: File, line: int, path: str = "") -> None:
        self._value, self._file, self._line, self._path = value, file, line, path

    def get(self, key: str, kind: type, usual: Any) -> Any:
        """Return a field, or `usual` where it is absent or null; TraceError for one of another type."""
        found = self._value.get(key)
        if found is None:
            return usual
        if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
            words = {str: "text", int: "a whole number", list: "a list", dict: "an object"}
            raise self.error(key, quote(found), words[kind])
        return found

    def text(self, key: str) -> str:
        """Return a field of text that must be there."""
        found: str = self.get(key, str, "")
        if not found:
            raise self.error(key, "nothing", "text")
        return found

    def inside(self, *keys: str) -> _Item:
        """Return the object under some keys, empty where there is none."""
        item = self
        for key in keys:
            item = _Item(item.get(key, dict, {}), self._file, self._line, item.at(key))
        return item

    def each(self, key: str) -> list[_Item]:
        """Return the objects in a list."""
        found = self.get(key, list, [])
        for value in found:
            if not isinstance(value, dict):
                raise self.error(key, quote(value), "objects")
        return [_Item(value, self._file, self._line, self.at(key)) for value in found]

    def at(self, key: str) -> str:
        """Return the path of a field."""
        return f"{self._path}.{key}".lstrip(".")

    def number(self, key: str, usual: int, largest: int = 1_000_000) -> int:
        """Return a whole number, `usual` where it is absent; TraceError unless it is from 0 to `largest`."""
        found: int = self.get(key, int, usual)
        if not 0 <= found <= largest:
            raise self.error(key, quote(found), f"a whole number from 0 to {largest:,}")
        return found

    def quantities(self) -> dict[str, float]:
        """Return the amounts of GPUs, slices and cores among resources."""
        amounts = {}
        for key, value in self._value.items():
            if key == "cpu" or _GPU.fullmatch(key) or _SLICE.fullmatch(key):
                match = _QUANTITY.fullmatch(str(value)) if isinstance(value, str | int | float) else None
                if not match or isinstance(value, bool):
                    raise self.error(key, quote(value), "a quantity like 8 or 500m")
                amounts[key] = float(match[1]) / (1000 if match[2] else 1)
        return amounts

    def error(self, key: str, found: str, expected: str) -> TraceError:
        """Return the error of a field."""
        return TraceError(self._file, self._line, self.at(key), found, expected)


def _set_tenants(rows: list[dict[str, Any]]) -> None:
    """Set missing tenants: the cluster queue of another row from the same local queue, else the local queue."""
    cluster_queue = {(row["partition"], row["queue"]): row["tenant"] for row in rows if row["tenant"]}
    for row in rows:
        row["tenant"] = row["tenant"] or cluster_queue.get((row["partition"], row["queue"]), row["queue"])


def _columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return rows as columns, text as objects."""
    columns = {}
    for name in rows[0] if rows else ():
        if name not in ("owners", "uid"):
            cells = [row[name] for row in rows]
            columns[name] = np.array(cells, object if isinstance(cells[0], str) else None)
    return columns


def _pods(template: _Item, count: int) -> dict[str, Any]:
    """Return the total request of `count` pods of a template: GPUs, cores, and the type of GPU."""
    spec = template.inside("spec")
    gpus = slices = cores = 0.0
    for container in spec.each("containers"):
        resources = container.inside("resources")
        asked = resources.inside("requests").quantities()
        for key, value in resources.inside("limits").quantities().items():
            asked[key] = max(asked.get(key, 0.0), value)
        for key, value in asked.items():
            if match := _SLICE.fullmatch(key):
                slices += value * int(match[1]) / SLICES
            elif key == "cpu":
                cores += value
            else:
                gpus += value
    labels = spec.get("nodeSelector", dict, {})
    kind = next((str(labels[name]) for name in TYPE_LABELS if name in labels), "")
    return {
        "gpus": count * (gpus + slices),
        "slices": slices > 0,
        "cores": count * cores,
        "gpu_type": kind,
    }


def _conditions(status: _Item) -> dict[str, tuple[str, str]]:
    """Return the status of each condition, `True` where it holds, and the time of its last change, by type."""
    return {
        each.text("type"): (each.text("status"), each.get("lastTransitionTime", str, ""))
        for each in status.each("conditions")
    }


def _named(item: _Item) -> dict[str, Any]:
    """Return the fields of every object: id, submission, namespace as the partition, uid, and uids of its owners."""
    meta = item.inside("metadata")
    name = meta.text("name")
    space = meta.get("namespace", str, "default")
    return {
        "job_id": f"{space}/{name}",
        "submit": meta.text("creationTimestamp"),
        "partition": space,
        "uid": meta.get("uid", str, ""),
        "owners": [owner.get("uid", str, "") for owner in meta.each("ownerReferences")],
    }


def _job(item: _Item) -> dict[str, Any]:
    """Return the row of a Job."""
    spec, status = item.inside("spec"), item.inside("status")
    parallel, conditions = spec.number("parallelism", 1), _conditions(status)
    labels = item.inside("metadata").get("labels", dict, {})
    queue = str(labels.get(QUEUE, ""))
    end = status.get("completionTime", str, "")
    failed, since = conditions.get("Failed", ("", ""))
    if not end and failed == "True":
        end = since
    template = spec.inside("template")
    return {
        **_named(item),
        "start": status.get("startTime", str, ""),
        "end": end,
        **_pods(template, parallel),
        "waves": spec.number("completions", parallel) > parallel,
        "plain": not queue,
        "limit_s": float(spec.number("activeDeadlineSeconds", 0, LARGEST_S)) or np.nan,
        "tenant": "",
        "queue": queue,
        "qos": template.inside("spec").get("priorityClassName", str, ""),
        "status": "Failed" if failed == "True" else "Complete" if end else "Active",
    }


def _workload(item: _Item, counts: Counter[str]) -> dict[str, Any]:
    """Return the row of a workload of Kueue: from its last admission to its end."""
    spec, status = item.inside("spec"), item.inside("status")
    conditions = _conditions(status)
    if "Evicted" in conditions:
        counts["workloads that were evicted, of which only the last admission counts"] += 1
    admitted, start = conditions.get("Admitted", ("", ""))
    finished, end = conditions.get("Finished", ("", ""))
    if admitted != "True" and finished == "True":  # finished workloads give their quota back
        start = conditions.get("QuotaReserved", ("", start))[1] or start
    pods = [_pods(each.inside("template"), each.number("count", 1)) for each in spec.each("podSets")]
    return {
        **_named(item),
        "start": start,
        "end": end if finished == "True" else "",
        "gpus": sum(each["gpus"] for each in pods),
        "slices": any(each["slices"] for each in pods),
        "cores": sum(each["cores"] for each in pods),
        "gpu_type": "+".join(sorted({each["gpu_type"] for each in pods} - {""})),
        "waves": False,
        "plain": False,
        "limit_s": float(spec.number("maximumExecutionTimeSeconds", 0, LARGEST_S)) or np.nan,
        "tenant": status.inside("admission").get("clusterQueue", str, ""),
        "queue": spec.get("queueName", str, ""),
        "qos": spec.get("priorityClassName", str, ""),
        "status": "Finished" if finished == "True" else "Active",
    }
