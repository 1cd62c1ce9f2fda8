"""Data of the report's replay: what each job did in one window under each policy, packed for a page.

A job's history is its segments of `evaluation.record`, from its submission to its end without gaps. Times are whole
seconds from the first submission of the window.
"""

import base64
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from gpu_cluster_gym.evaluation.plot import run_tables
from gpu_cluster_gym.evaluation.plot.run_tables import Run
from gpu_cluster_gym.evaluation.record import (
    COMPARED,
    COMPARED_FILE,
    DECISIONS,
    DECISIONS_FILE,
    SEGMENTS_FILE,
    TIMELINE_FILE,
    time_means,
)

COLUMNS = {
    SEGMENTS_FILE: ["window", "job_id", "phase", "from_s", "to_s", "num_gpus", "gpus", "cores"],
    TIMELINE_FILE: ["window", "time_s", "held_gpus", "busy_gpus", "queued"],
    DECISIONS_FILE: [name for name in DECISIONS if name != "seed"],
    COMPARED_FILE: [name for name in COMPARED if name != "seed"],
}
"""Columns that the report reads, by file."""
PHASES = ("queued", "reserved", "loading", "running", "pausing", "restarting")
"""Phases of a job, by their number in the page."""
HOLDING = {"loading", "running", "pausing"}
"""Phases that begin with a decision: a start or a pause."""
LEVEL = 4
"""Level of compression: level 5 takes 1.7 times as long for five percent of the size, level 9 11 times for seven."""
MAX_SEGMENTS = 2_000_000
"""Maximum number of segments of all windows of a page; a segment takes about eight bytes."""
DECIDED, TAIL = 0.99, 1.05
"""Share of starts and pauses that the time shown includes under every policy, and the factor that then extends it."""


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
    tables = {name: getattr(run, name) for name in ("jobs", "segments", "timeline", "decisions", "compared")}
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
    """Return one window as the page reads it; run: with the rows of this window only, as `by_window` yields it.

    to: end of the time shown, s. end: finish of the last job that counts. jobs: by number, in the order of submission:
    their names, times of submission and requested GPUs, and whether they count. places: GPUs as intervals, and cores;
    place 0 is none. policies: of each its lives, its totals over time, and why it decided where it gives reasons.
    """
    shown_to, end_s = time_shown(run, window)
    jobs = _jobs(run, end_s)
    names = jobs.index.tolist()
    places: dict[tuple[str, float], int] = {("", 0.0): 0}
    policies: dict[str, Any] = {}
    for policy, table in run.segments.items():
        policies[policy] = {
            "lives": lives(table, names, places),
            "timeline": _timeline(run.timeline[policy], shown_to),
        }
        if policy in run.decisions:
            policies[policy]["why"] = why(run.decisions[policy], run.compared[policy], names)
    return {
        "to": round(shown_to),
        "end": round(end_s),
        "jobs": {
            "id": names,
            "submit": jobs["submit_s"].round().astype(int).tolist(),
            "gpus": jobs["gpus"].astype(int).tolist(),
            "counted": jobs["counted"].astype(int).tolist(),
        },
        "places": [[gpus, _short(cores)] for gpus, cores in places],
        "policies": policies,
    }


def time_shown(run: Run, window: int) -> tuple[float, float]:
    """Return the end of the time in which jobs that count are started and paused, s, and that of the whole window.

    run: with the rows of this window only. After that end come the last 1 - `DECIDED` of the starts and
    pauses at most; otherwise jobs only run to completion.
    """
    end_s = run.span_s(window)
    last = 0.0
    for policy, table in run.segments.items():
        counted = set(run.jobs[policy]["job_id"].to_numpy(object))
        segments = zip(*(table[name].tolist() for name in ("job_id", "phase", "from_s")), strict=True)
        decided = [from_s for job, phase, from_s in segments if phase in HOLDING and job in counted]
        last = max(last, float(np.quantile(decided, DECIDED))) if decided else last
    return min(end_s, max(last * TAIL, 60.0)), end_s


def _jobs(run: Run, end_s: float) -> pd.DataFrame:
    """Return the jobs of a window that are present before its end, by name: submission, requested GPUs, counted."""
    columns = ["job_id", "from_s", "to_s", "num_gpus"]
    every = pd.concat([table[columns] for table in run.segments.values()], ignore_index=True)
    lives = every.groupby("job_id", sort=False)
    found = pd.DataFrame(
        {"submit_s": lives["from_s"].min(), "to_s": lives["to_s"].max(), "gpus": lives["num_gpus"].max()}
    )
    counted = run.jobs[run.policies[0]].set_index("job_id")
    found["counted"] = found.index.isin(counted.index)
    found.loc[counted.index, "gpus"] = counted["num_gpus"]
    present = found[(found["to_s"] > 0) & (found["submit_s"] <= end_s)]
    return present.sort_values("submit_s", kind="stable")


def lives(table: pd.DataFrame, jobs: list[str], places: dict[tuple[str, float], int]) -> list[int]:
    """Return the lives of jobs under one policy: for each its number of segments, then three integers per segment.

    The integers are the phase, the duration in s, and the place, which is added to `places` if it is new. Consecutive
    segments without a difference are one.
    """
    numbers = {name: number for number, name in enumerate(jobs)}
    number = np.array([numbers.get(name, -1) for name in table["job_id"].to_numpy(object)], int)
    order = np.lexsort((table["to_s"], table["from_s"], number))
    order = order[number[order] >= 0]
    number = number[order]
    phases = {name: phase for phase, name in enumerate(PHASES)}
    phase = np.array([phases[name] for name in table["phase"].to_numpy(object)[order]], int)
    held = zip(
        table["gpus"].to_numpy(object)[order], table["cores"].to_numpy(float)[order].tolist(), strict=True
    )
    place = np.array([places.setdefault(each, len(places)) for each in held], int)
    new = np.ones(len(order), bool)
    new[1:] = (number[1:] != number[:-1]) | (phase[1:] != phase[:-1]) | (place[1:] != place[:-1])
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(order)) - 1
    from_s, to_s = (table[name].to_numpy()[order].round() for name in ("from_s", "to_s"))
    lasts = to_s[ends] - from_s[starts]
    rows = np.stack([phase[starts], lasts, place[starts]], axis=1).astype(int)
    counts = np.bincount(number[starts], minlength=len(jobs))
    found: list[int] = np.insert(rows.ravel(), 3 * (np.cumsum(counts) - counts), counts).tolist()
    return found


def why(decisions: pd.DataFrame, compared: pd.DataFrame, jobs: list[str]) -> dict[str, Any]:
    """Return the reasons of one policy's decisions by columns, which `html_report_replay.js` joins to rows.

    texts: rules, descriptions of keys, names of terms and of options, each once; other columns have their places.
    By decision: time, s since the decision before; kind, 0 for a start, 1 for a pause and 2 for a resize; job, by
    number; rule; keys; key; place; ranked; skipped; and how many entries it has in each list. Lists: earlier, later and
    cause, of jobs and their keys; terms, of names and values, which are a job where the name ends in ", job"; options,
    of names, jobs or -1 for none, values and minima. Keys and values are whole tenths, null for infinity.
    """
    number = {name: place for place, name in enumerate(jobs)}
    texts: dict[str, int] = {}

    def text(column: np.ndarray | pd.Series) -> list[int]:
        places: list[int] = _mapped(column, lambda each: texts.setdefault(each, len(texts))).tolist()
        return places

    def job(column: pd.Series) -> np.ndarray:
        return _mapped(column, lambda each: number.get(each, -1))

    own = job(decisions["job_id"])
    known = own >= 0
    decided = decisions[known]
    columns: dict[str, Any] = {
        "time": np.diff(decided["time_s"].to_numpy().round().astype(int), prepend=0).tolist(),
        "kind": _mapped(decided["action"], ACTIONS.index).tolist(),
        "job": own[known].tolist(),
        "rule": text(decided["rule"]),
        "keys": text(decided["keys"]),
        "key": _tenths(decided["key"].to_numpy()),
        **{name: decided[name].tolist() for name in ("place", "ranked", "skipped")},
    }
    row = np.where(known, np.cumsum(known) - 1, -1)[compared["decision"].to_numpy(int)]
    role = np.where(row >= 0, _mapped(compared["role"], ROLES.index), -1)
    other, names = job(compared["job_id"]), compared["name"].to_numpy(object)
    values, minima = (compared[name].to_numpy(float) for name in ("value", "minimum"))
    for at, list_name in enumerate(LISTS):
        listed = role == at
        found: dict[str, Any] = {}
        match list_name:
            case "terms":
                of_job = _mapped(names[listed], lambda each: each.endswith(", job")) == 1
                found["name"] = text(names[listed])
                found["value"] = _tenths(np.where(of_job, other[listed] / 10, values[listed]))
            case "options":
                found["name"], found["job"] = text(names[listed]), other[listed].tolist()
                found["value"], found["minimum"] = _tenths(values[listed]), _tenths(minima[listed])
            case _:
                listed &= other >= 0
                found["job"], found["key"] = other[listed].tolist(), _tenths(values[listed])
        columns[list_name] = {"count": np.bincount(row[listed], minlength=len(decided)).tolist(), **found}
    return {"texts": list(texts), **columns}


ACTIONS = ("start", "pause", "resize")
"""Kinds of decisions, by their number in the page."""
ROLES = ("earlier", "later", "cause", "term", "option")
"""Roles in `evaluation.record.COMPARED`."""
LISTS = ("earlier", "later", "cause", "terms", "options")
"""Their names in the page."""


def _mapped(column: np.ndarray | pd.Series, number: Callable[[str], int]) -> np.ndarray:
    """Return the number of each text in a column; the function is called once for each different text."""
    texts = column.tolist()
    numbers = {each: number(each) for each in dict.fromkeys(texts)}
    return np.fromiter(map(numbers.__getitem__, texts), int, len(texts))


def _tenths(exact: np.ndarray) -> list[int | None]:
    """Return numbers as whole tenths; none for infinity, which is NaN."""
    known = np.isfinite(exact)
    found: list[int | None] = np.where(known, np.rint(10 * exact), 0).astype(int).tolist()
    for place in np.flatnonzero(~known).tolist():
        found[place] = None
    return found


def _timeline(totals: pd.DataFrame, to_s: float) -> dict[str, list[float]]:
    """Return the means of a window's totals over equal parts of the time shown."""
    time_s = totals["time_s"].to_numpy()
    edges = np.linspace(0.0, to_s, run_tables.TIMELINE_BINS + 1)
    found = {}
    for key, name in (("allocated", "held_gpus"), ("busy", "busy_gpus"), ("queued", "queued")):
        means = time_means(time_s, totals[name].to_numpy(float), edges).round(1)
        found[key] = [_short(value) for value in means.tolist()]
    return found


def _short(value: float) -> float:
    """Return a whole number as an integer, which takes fewer characters."""
    return int(value) if value == int(value) else value
