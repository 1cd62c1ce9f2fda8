"""Data of the report's replay: what each job did in one window under each policy, packed for a page.

A job's history is its segments of `evaluation.record`, from its submission to its end without gaps. Times are whole
seconds from the first submission of the window.
"""

import base64
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from gpu_cluster_gym.evaluation.plot import run_tables
from gpu_cluster_gym.evaluation.plot.run_tables import Run, window_rows

PHASES = ("queued", "reserved", "loading", "running", "pausing", "restarting")
"""Phases of a job, by their number in the page."""
LEVEL = 5
"""Level of compression: level 9 takes five times as long for two percent of the size."""
MAX_SEGMENTS = 2_000_000
"""Segments of all windows of a page, some eight bytes each."""
DECIDED, TAIL = 0.99, 1.05
"""The time shown has this share of the starts and pauses under every policy, and is then this much longer."""


def packed(content: Mapping[str, Any]) -> str:
    """Return an object as the base64 of its deflated JSON, which `html_report_replay.js` unpacks."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), LEVEL)).decode("ascii")


def replayed(run: Run) -> list[int]:
    """Return the windows that a page can replay: the first ones, up to `MAX_SEGMENTS` segments of all policies."""
    if not run.recorded:
        return []
    every = pd.concat([each["window"] for each in run.segments.values()])
    total = every.value_counts().reindex(list(run.windows)).cumsum()
    return [window for window in run.windows if total[window] <= MAX_SEGMENTS]


def by_window(run: Run, windows: Sequence[int]) -> Iterator[Run]:
    """Yield a run for each of these windows, whose tables have the rows of the window only."""
    tables = {name: getattr(run, name) for name in ("jobs", "segments", "timeline", "decisions")}
    split = {
        name: {policy: dict(iter(table.groupby("window"))) for policy, table in each.items()}
        for name, each in tables.items()
    }
    for window in windows:
        own: dict[str, Any] = {
            name: {policy: rows.get(window, tables[name][policy].iloc[:0]) for policy, rows in each.items()}
            for name, each in split.items()
        }
        yield replace(run, **own)


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
    phase = pd.Categorical(own["phase"], PHASES).codes.astype(int)
    (gpus, all_gpus), (cores, all_cores) = (pd.factorize(own[name].to_numpy()) for name in ("gpus", "cores"))
    each, distinct = pd.factorize(gpus * len(all_cores) + cores)
    numbers = [
        places.setdefault(
            (str(all_gpus[at // len(all_cores)]), float(all_cores[at % len(all_cores)])), len(places)
        )
        for at in distinct.tolist()
    ]
    place = np.array(numbers, np.int64)[each]
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
    """Return the reasons of one policy's decisions by columns, which `html_report_replay.js` joins to rows.

    texts: rules, descriptions of keys, names of terms and of options, each once; other columns have their places.
    By decision: time, s since the decision before; kind, 0 for a start, 1 for a pause and 2 for a resize; job, by
    number; rule; keys; key; place; ranked; skipped; and how many entries it has in each list. Lists: earlier, later and
    cause, of jobs and their keys; terms, of names and values, which are a job where the name ends in ", job"; options,
    of names, jobs or -1 for none, values and minima. Keys and values are whole tenths, null for infinity.
    """
    number = {name: place for place, name in enumerate(jobs)}
    texts: dict[str, int] = {}

    def text(words: str) -> int:
        return texts.setdefault(words, len(texts))

    parts = [reason.partition('"own":') for reason in decisions["reason"].to_numpy(object)]
    found = json.loads(f"[{','.join(f'{{{mark}{rest}' for _, mark, rest in parts)}]")
    known = np.array([each["own"][0] in number for each in found], bool)
    heads = [head for (head, _, _), own in zip(parts, known, strict=True) if own]
    found = [each for each, own in zip(found, known, strict=True) if own]
    rules = {head: json.loads(f"{head.rstrip(',')}}}") for head in dict.fromkeys(heads)}
    places = {head: (text(each["rule"]), text(each["keys"])) for head, each in rules.items()}
    own = [each["own"] for each in found]
    columns: dict[str, Any] = {
        "time": np.diff(decisions["time_s"].to_numpy()[known].round().astype(int), prepend=0).tolist(),
        "kind": pd.Categorical(decisions["action"], ACTIONS).codes[known].tolist(),
        "job": [number[name] for name, _ in own],
        "rule": [places[head][0] for head in heads],
        "keys": [places[head][1] for head in heads],
        "key": _tenths([key for _, key in own]),
        **{name: [each[name] for each in found] for name in ("place", "ranked", "skipped")},
    }
    for name in ("earlier", "later", "cause"):
        lists = [each.get(name, ()) for each in found]
        if name == "cause":
            lists = [(each,) if each else () for each in lists]
        listed = [[pair for pair in each if pair[0] in number] for each in lists]
        columns[name] = {
            "count": [len(each) for each in listed],
            "job": [number[job] for each in listed for job, _ in each],
            "key": _tenths([key for each in listed for _, key in each]),
        }
    terms = [each.get("terms", ()) for each in found]
    columns["terms"] = {
        "count": [len(each) for each in terms],
        "name": [text(name) for each in terms for name, _ in each],
        "value": _tenths(
            [
                number.get(value, -1) / 10 if isinstance(value, str) else value
                for each in terms
                for _, value in each
            ]
        ),
    }
    options = [each.get("options", ()) for each in found]
    columns["options"] = {
        "count": [len(each) for each in options],
        "name": [text(name) for each in options for name, *_ in each],
        "job": [number.get(job, -1) for each in options for _, job, _, _ in each],
        "value": _tenths([value for each in options for _, _, value, _ in each]),
        "minimum": _tenths([minimum for each in options for *_, minimum in each]),
    }
    return {"texts": list(texts), **columns}


ACTIONS = ("start", "pause", "resize")
"""Kinds of decisions, by their number in the page."""


def _tenths(values: list[float | None]) -> list[int | None]:
    """Return numbers as whole tenths; none for infinity."""
    exact = np.array(values, float)  # NaN for none
    known = np.isfinite(exact)
    found: list[int | None] = np.where(known, np.rint(10 * exact), 0).astype(int).tolist()
    for place in np.flatnonzero(~known).tolist():
        found[place] = None
    return found


def _timeline(run: Run, policy: str, window: int, to_s: float) -> dict[str, list[float]]:
    """Return the means of a window's totals over equal parts of the time shown."""
    edges = np.linspace(0.0, to_s, run_tables.TIMELINE_BINS + 1)
    means = run_tables.timeline_means(run, policy, window, edges).round(1)
    columns = {"allocated": "held_gpus", "busy": "busy_gpus", "queued": "queued"}
    return {key: [_short(value) for value in means[name].tolist()] for key, name in columns.items()}


def _short(value: float) -> float:
    """Return a whole number as an integer, which takes fewer characters."""
    return int(value) if value == int(value) else value
