"""Data of the report's replay: what each job did in one window under each policy, packed for a page.

A job's history is its segments of `evaluation.record`, from its submission to its end without gaps. Times are whole
seconds from the first submission of the window.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from gpu_cluster_gym.evaluation.plot import run_tables
from gpu_cluster_gym.evaluation.plot.run_tables import Run, window_rows

PHASES = ("queued", "reserved", "loading", "running", "pausing", "restarting")
"""Phases of a job, by their number in the page."""
MAX_SEGMENTS = 2_000_000
"""Segments of all windows of a page, some eight bytes each."""
DECIDED, TAIL = 0.99, 1.05
"""The time shown has this share of the starts and pauses under every policy, and is then this much longer."""


def packed(content: Mapping[str, Any]) -> str:
    """Return an object as the base64 of its deflated JSON, which `html_report_replay.js` unpacks."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")


def replayed(run: Run) -> list[int]:
    """Return the windows that a page can replay: the first ones, up to `MAX_SEGMENTS` segments of all policies."""
    if not run.recorded:
        return []
    every = pd.concat([each["window"] for each in run.segments.values()])
    total = every.value_counts().reindex(list(run.windows)).cumsum()
    return [window for window in run.windows if total[window] <= MAX_SEGMENTS]


def window_data(run: Run, window: int) -> dict[str, Any]:
    """Return one window as the page reads it.

    to: end of the time shown, s. end: finish of the last job that counts. jobs: by number, in the order of submission:
    their names, times of submission and requested GPUs, and whether they count. places: GPUs as intervals, and cores;
    place 0 is none. policies: of each its lives, its totals over time, and why it decided where it gives reasons.
    """
    tables = {policy: window_rows(table, window) for policy, table in run.segments.items()}
    shown_to, end_s = time_shown(run, window)
    jobs = _jobs(run, window, tables, end_s)
    places: dict[tuple[str, float], int] = {("", 0.0): 0}
    policies: dict[str, Any] = {}
    for policy, table in tables.items():
        policies[policy] = {
            "lives": lives(table, list(jobs.index), places),
            "timeline": _timeline(run, policy, window, shown_to),
        }
        if policy in run.decisions:
            policies[policy]["why"] = why(window_rows(run.decisions[policy], window), list(jobs.index))
    return {
        "to": round(shown_to),
        "end": round(end_s),
        "jobs": {
            "id": list(jobs.index),
            "submit": jobs["submit_s"].round().astype(int).tolist(),
            "gpus": jobs["gpus"].astype(int).tolist(),
            "counted": jobs["counted"].astype(int).tolist(),
        },
        "places": [[gpus, _short(cores)] for gpus, cores in places],
        "policies": policies,
    }


def time_shown(run: Run, window: int) -> tuple[float, float]:
    """Return the end of the time in which jobs that count are started and paused, s, and that of the whole window.

    Of the time after it, `DECIDED` leaves a few starts; else jobs only run to their ends.
    """
    end_s = run.span_s(window)
    last = 0.0
    for policy, table in run.segments.items():
        counted = set(window_rows(run.jobs[policy], window)["job_id"])
        own = window_rows(table, window)
        decided = own[own["job_id"].isin(counted) & own["phase"].isin(("loading", "running", "pausing"))]
        last = max(last, float(decided["from_s"].quantile(DECIDED))) if len(decided) else last
    return min(end_s, max(last * TAIL, 60.0)), end_s


def _jobs(run: Run, window: int, tables: Mapping[str, pd.DataFrame], end_s: float) -> pd.DataFrame:
    """Return the jobs of a window that are present before its end, by name: submission, requested GPUs, counted."""
    every = pd.concat(tables.values(), ignore_index=True)
    lives = every.groupby("job_id", sort=False)
    found = pd.DataFrame(
        {"submit_s": lives["from_s"].min(), "to_s": lives["to_s"].max(), "gpus": lives["num_gpus"].max()}
    )
    counted = window_rows(run.jobs[run.policies[0]], window).set_index("job_id")
    found["counted"] = found.index.isin(counted.index)
    found.loc[counted.index, "gpus"] = counted["num_gpus"]
    present = found[(found["to_s"] > 0) & (found["submit_s"] <= end_s)]
    return present.sort_values("submit_s", kind="stable")


def lives(table: pd.DataFrame, jobs: list[str], places: dict[tuple[str, float], int]) -> list[int]:
    """Return the lives of jobs under one policy: for each its number of segments, then three integers per segment.

    The integers are the phase, the duration in s, and the place, which is added to `places` if it is new. Consecutive
    segments without a difference are one.
    """
    wanted = pd.Index(jobs)
    own = table.assign(number=wanted.get_indexer(pd.Index(table["job_id"])))
    own = own[own["number"] >= 0].sort_values(["number", "from_s", "to_s"], kind="stable")
    phase = own["phase"].astype(str).map(PHASES.index).to_numpy()
    place = np.fromiter(
        (
            places.setdefault((gpus, cores), len(places))
            for gpus, cores in zip(own["gpus"].tolist(), own["cores"].tolist(), strict=True)
        ),
        np.int64,
        len(own),
    )
    number = own["number"].to_numpy()
    new = np.ones(len(own), bool)
    new[1:] = (number[1:] != number[:-1]) | (phase[1:] != phase[:-1]) | (place[1:] != place[:-1])
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(own)) - 1
    edges = own["from_s"].round().to_numpy()[starts], own["to_s"].round().to_numpy()[ends]
    rows = np.stack([phase[starts], edges[1] - edges[0], place[starts]], axis=1).astype(int)
    counts = np.bincount(number[starts], minlength=len(jobs))
    found: list[int] = []
    begin = 0
    for count in counts.tolist():
        found.append(count)
        found += rows[begin : begin + count].ravel().tolist()
        begin += count
    return found


def why(decisions: pd.DataFrame, jobs: list[str]) -> dict[str, Any]:
    """Return the reasons of one policy's decisions.

    texts: rules, meanings of keys and names of terms, each once. rows: of each decision the time in s, 0 for a start, 1
    for a pause and 2 for a resize, the job by number, rule and keys as texts, the job's key, its place, the jobs in the
    order, the earlier ones skipped, the lists of earlier and later ones with their keys, the cause with its key or
    nothing, and the terms.
    """
    number = {name: place for place, name in enumerate(jobs)}
    texts: dict[str, int] = {}

    def text(words: str) -> int:
        return texts.setdefault(words, len(texts))

    def ranked(found: list[list[Any]]) -> list[list[Any]]:
        return [[number[name], _rounded(key)] for name, key in found if name in number]

    rows = []
    for time_s, action, reason in zip(
        decisions["time_s"].tolist(), decisions["action"], decisions["reason"], strict=True
    ):
        each = json.loads(reason)
        name, key = each["own"]
        if name not in number:
            continue
        terms = [
            [text(term), number.get(value, -1) if isinstance(value, str) else _rounded(value)]
            for term, value in each.get("terms", ())
        ]
        rows.append(
            [
                round(time_s),
                ("start", "pause", "resize").index(action),
                number[name],
                text(each["rule"]),
                text(each["keys"]),
                _rounded(key),
                *(each[field] for field in ("place", "ranked", "skipped")),
                *(ranked(each.get(field, [])) for field in ("earlier", "later")),
                next(iter(ranked([each["cause"]] if each.get("cause") else [])), 0),
                terms,
            ]
        )
    return {"texts": list(texts), "rows": rows}


def _rounded(value: float | None) -> float | None:
    """Return a number to a tenth; none for infinity."""
    return None if value is None else _short(round(value, 1))


def _timeline(run: Run, policy: str, window: int, to_s: float) -> dict[str, list[float]]:
    """Return the means of a window's totals over equal parts of the time shown."""
    edges = np.linspace(0.0, to_s, run_tables.TIMELINE_BINS + 1)
    means = run_tables.timeline_means(run, policy, window, edges).round(1)
    columns = {"allocated": "held_gpus", "busy": "busy_gpus", "queued": "queued"}
    return {key: [_short(value) for value in means[name].tolist()] for key, name in columns.items()}


def _short(value: float) -> float:
    """Return a whole number as an integer, which takes fewer characters."""
    return int(value) if value == int(value) else value
