"""Windows of a trace: train, validation and test apart in time, and accepted only where jobs queue moderately.

A window is a number of consecutive jobs, `Window(split, number)`. It is accepted if its mean JCT / mean run time under
SRTF with the rules of `ACCEPTANCE` lies in 1.3-2.5: below, scheduling makes no difference; above, a backlog dominates.
Acceptance is the same for every policy and hidden from all. For default scenarios it is listed in `accepted/`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from sys import maxsize
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.traces import stream, unknown
from gpu_cluster_gym.workloads._scenario import EXCLUSIVE, Scenario, Split, WholeLog, Window
from gpu_cluster_gym.workloads._steady import cut, stretch_of, with_the_load
from gpu_cluster_gym.workloads._workload import Workload, generate, prepare, read, with_physics

if TYPE_CHECKING:
    import pandas as pd

ACCEPTED_RANGE = (1.3, 2.5)
ACCEPTANCE: dict[str, Any] = {
    "physics": EXCLUSIVE,
    "placement": "best_fit",
    "discipline": "greedy",
    "tick": 300.0,
    "restart_cost": "high",
    "shift": None,
    "quotas": None,
    "constraints": None,
    "partitions": None,
}
"""Fields of the scenario for acceptance, independent of those for the policies."""
SHARES: dict[Split, tuple[float, float]] = {
    "train": (0.0, 0.6),
    "validation": (0.6, 0.8),
    "test": (0.8, 1.0),
}
"""Parts of the trace's time."""
GAP_S = 2 * 86_400.0  # between the parts of a trace of twenty days or more
GAP_SHARE = 0.1  # of the time of a shorter one, so that a week of a cluster has test windows too
MAX_CANDIDATES = 40  # per requested window, before giving up
SRTF = Ranking("remaining", "by_order")
ACCEPTED = Path(__file__).parent / "accepted"


class TooFewWindowsError(ValueError):
    """A part of a trace has fewer windows than are asked for."""


def windows(scenario: Scenario, split: Split, count: int) -> list[Workload]:
    """Return the first `count` accepted windows of a split; TooFewWindowsError if there are fewer."""
    found = _first(scenario, split, count)
    if len(found) < count:
        raise TooFewWindowsError(_too_few(len(found), scenario, split, count))
    return found


def up_to(scenario: Scenario, split: Split, count: int) -> list[Workload]:
    """Return the first accepted windows of a split, at most `count`; TooFewWindowsError if there are none."""
    found = _first(scenario, split, count)
    if not found:
        raise TooFewWindowsError(_too_few(0, scenario, split, count))
    return found


def of_whole_log(scenario: Scenario, count: int | None = None) -> list[Workload]:
    """Return the accepted windows of a whole log, or the first `count`, all disjoint; ValueError if there are fewer.

    For logs whose test part has too few windows. Nothing may be tuned or learned on such a log.
    """
    if not scenario.trace_file:
        raise ValueError(
            "windows of a whole log require a log (--trace-file), since a generator has no last window"
        )
    found = list(islice(accepted(with_physics(scenario), "all", most=maxsize), count))
    if len(found) < (count or 1):
        raise TooFewWindowsError(_too_few(len(found), scenario, "all", count or 1))
    return found


def _first(scenario: Scenario, split: Split, count: int) -> list[Workload]:
    scenario = with_physics(scenario)
    if split not in SHARES:
        raise ValueError(unknown("split", split, SHARES))
    if count < 1:
        raise ValueError(f"{count} windows: expected at least 1")
    return list(islice(accepted(scenario, split, most=count * MAX_CANDIDATES), count))


def _too_few(found: int, scenario: Scenario, split: Split | WholeLog, count: int) -> str:
    """Return the message for too few windows, with its remedies."""
    part = "log" if split == "all" else f"{split} part"
    if scenario.steady_load is not None:
        days = stretch_of(scenario).end_s / 86_400
        return (
            f"only {found} of {count} steady windows of {days:g} days were found in the {part}: ask for fewer "
            "windows, for shorter ones (--warm-days, --counted-days, --after-days)"
            + (", or for all parts if nothing was tuned on the log (--split all)" if split == "test" else "")
        )
    scenario = with_physics(scenario)
    remedies = ["fewer windows", "smaller ones (--jobs)"]
    wanted = ""
    if not scenario.all_windows:
        low, high = ACCEPTED_RANGE
        wanted = f" with a mean JCT / mean run time of {low}-{high} on {scenario.cluster_name}"
        remedies += ["another cluster (--cluster)", "windows of any load (--all-windows)"]
    if scenario.trace_file:
        submit_s = read(scenario)["submit_s"].to_numpy()
        begin, end = rows_of(submit_s, split)
        gap_days = round(gap_s(submit_s) / 86_400, 1) if split in ("validation", "test") else 0
        after = f" after a gap of {gap_days:g} days" if gap_days else ""
        jobs = max(0, end - begin)
        part += f" ({jobs:,} {'job' if jobs == 1 else 'jobs'}{after})"
        remedies += ["all parts if nothing was tuned on the log (--split all)"] * (split == "test")
    if split not in ("train", "validation"):  # training requires windows
        remedies += ["the full trace (--full-trace)"]
    return (
        f"only {found} of {count} windows of {scenario.jobs} jobs{wanted} were found in the {part}: "
        f"ask for {', '.join(remedies[:-1])}, or {remedies[-1]}"
    )


def accepted(scenario: Scenario, split: Split | WholeLog, *, most: int) -> Iterator[Workload]:
    """Yield the accepted windows of a split in their fixed order, out of the first `most` candidates.

    Every steady window is accepted.
    """
    scenario = with_physics(scenario)
    if scenario.steady_load is not None and not scenario.all_windows:
        scenario = replace(scenario, all_windows=True)
    known = listed_ratios(scenario, split)
    make = make_judged = table_maker(scenario, split)
    # Restart costs and start-ups change the columns that are drawn, so acceptance then needs tables of its own.
    drawn_alike = scenario.restart_cost == ACCEPTANCE["restart_cost"] and "startup" not in scenario.parts
    if not scenario.all_windows and not drawn_alike:
        make_judged = table_maker(replace(scenario, **ACCEPTANCE), split)
    for number in range(most):
        if not scenario.all_windows and number in known and not in_range(known[number]):
            continue
        table = make(number)
        if table is None:
            return
        if (
            scenario.all_windows
            or number in known
            or in_range(jct_over_run_time(make_judged(number), scenario))
        ):
            yield prepare(table, scenario, window=Window(split, number))


def in_range(value: float) -> bool:
    """Return whether a window with this mean JCT / mean run time is accepted."""
    return ACCEPTED_RANGE[0] <= value <= ACCEPTED_RANGE[1]


def jct_over_run_time(table: pd.DataFrame | None, scenario: Scenario) -> float:
    """Return mean JCT / mean run time of a filled table under SRTF with the rules of `ACCEPTANCE`.

    Jobs that are infeasible under these rules are dropped.
    """
    from gpu_cluster_gym.simulator.episode import run

    assert table is not None, "the number of windows does not depend on random draws"
    workload = prepare(table, replace(scenario, drop_too_large=True, **ACCEPTANCE))
    state = run(SRTF, workload.episode()).state
    jct = state.finish_s[: len(workload.jobs)] - workload.jobs["submit_s"]
    return float(jct.mean() / workload.jobs["duration_s"].mean())


Make = Callable[[int], "pd.DataFrame | None"]


def table_maker(scenario: Scenario, split: Split | WholeLog) -> Make:
    """Return a function that makes the filled table of a numbered window, or None past the last."""
    scenario = with_physics(scenario)
    if scenario.trace_file:
        return _of_file(scenario, split)
    assert split != "all", "a generator has no last window"
    return lambda number: generate(scenario, Window(split, number))


def _of_file(scenario: Scenario, split: Split | WholeLog) -> Make:
    """Return a function that cuts windows out of a trace file.

    Disjoint windows come first, in random order; then those that begin half a window later, and so on. Windows of the
    test part, and of a whole log, are all disjoint, so that each counts as an independent sample.
    """
    table = read(scenario)
    if scenario.steady_load is not None:
        every = _starts_s(table["submit_s"].to_numpy(), split, stretch_of(scenario).end_s)
        table, starts_s = with_the_load(table, scenario, every)
        return lambda number: cut(table, scenario, Window(split, number), starts_s)
    begin, end = rows_of(table["submit_s"].to_numpy(), split)
    rng = stream(scenario.seed, "order of windows", split)
    starts: list[int] = []
    for offset in (0.0,) if split in ("test", "all") else (0.0, 0.5, 0.25, 0.75):
        grid = np.arange(begin + int(offset * scenario.jobs), end - scenario.jobs + 1, scenario.jobs)
        starts += rng.permutation(grid).tolist()

    def make(number: int) -> pd.DataFrame | None:
        if number >= len(starts):
            return None
        rows = table.iloc[starts[number] : starts[number] + scenario.jobs].reset_index(drop=True)
        rows.attrs = table.attrs
        return rows

    return make


def _starts_s(submit_s: np.ndarray, split: Split | WholeLog, length_s: float) -> list[float]:
    """Return the times at which disjoint windows of this length begin in a part of a log."""
    begin, end = rows_of(submit_s, split)
    if begin >= end:
        return []
    count = int((submit_s[end - 1] - submit_s[begin]) / length_s)
    return [float(submit_s[begin]) + number * length_s for number in range(count)]


def rows_of(submit_s: np.ndarray, split: Split | WholeLog) -> tuple[int, int]:
    """Return the first row of a split and the row after its last; splits are `gap_s` apart."""
    if split == "all":
        return 0, len(submit_s)
    first, last = submit_s[0], submit_s[-1]
    low, high = (first + share * (last - first) for share in SHARES[split])
    if split != "train":
        low += gap_s(submit_s)
    begin = int(np.searchsorted(submit_s, low))
    return begin, len(submit_s) if split == "test" else int(np.searchsorted(submit_s, high))


def gap_s(submit_s: np.ndarray) -> float:
    """Return the seconds between the parts of a trace: two days, or a tenth of its time if that is less."""
    return min(GAP_S, GAP_SHARE * float(submit_s[-1] - submit_s[0]))


def list_file(scenario: Scenario) -> Path:
    """Return the file that lists the windows of a generator's scenario with that ratio, whether or not it exists."""
    return ACCEPTED / f"{scenario.trace_name}-{scenario.cluster_name}-{scenario.jobs}.csv"


def listed_ratios(scenario: Scenario, split: Split | WholeLog) -> dict[int, float]:
    """Return mean JCT / mean run time by listed window; empty where the scenario changes jobs or arrivals."""
    usual = Scenario()
    changed = scenario.trace_file or any(
        getattr(scenario, field) != getattr(usual, field) for field in ("seed", "target_load", "max_duration")
    )
    file = list_file(scenario)
    if changed or not file.is_file():
        return {}
    with file.open(newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["split"] == split]
    return {int(row["number"]): float(row["jct_over_run_time"]) for row in rows}
