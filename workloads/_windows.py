"""Which windows are simulated: train, validation and test apart in time, and only where jobs queue.

A window is so many consecutive jobs, `Window(split, number)`. It is accepted if its mean JCT / mean run time
under SRTF with the rules of `ACCEPTANCE` lies in 1.3-2.5: below, no policy could win anything; above, a backlog
decides. The choice is the same for every policy and shown to none. For the defaults the list is kept in
`accepted/`.
"""

import csv
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.traces import stream, unknown
from gpu_cluster_gym.workloads._scenario import EXCLUSIVE, Scenario, Split, Window
from gpu_cluster_gym.workloads._workload import Workload, generate, prepare, read

ACCEPTED_RANGE = (1.3, 2.5)
ACCEPTANCE: dict[str, Any] = {
    "physics": EXCLUSIVE,
    "placement": "best_fit",
    "discipline": "greedy",
    "tick": 300.0,
    "restart_cost": "high",
    "shift": None,
}
"""Fields of the scenario in which windows are accepted, whatever is chosen or usual for the policies there."""
SHARES: dict[Split, tuple[float, float]] = {
    "train": (0.0, 0.6),
    "validation": (0.6, 0.8),
    "test": (0.8, 1.0),
}  # of the trace's time
GAP_S = 2 * 86_400.0  # between the parts of a trace
MOST_TRIED = 40  # candidates looked at for each window asked for, before giving up
SRTF = Ranking("remaining", "by_order")
ACCEPTED = Path(__file__).parent / "accepted"


def windows(scenario: Scenario, split: Split, count: int) -> list[Workload]:
    """Return the first `count` accepted windows of a split; ValueError if there are not so many."""
    found = _first(scenario, split, count)
    if len(found) < count:
        raise ValueError(_too_few(len(found), scenario, split, count))
    return found


def up_to(scenario: Scenario, split: Split, count: int) -> list[Workload]:
    """Return the first `count` accepted windows of a split, or as many as there are; ValueError if there is none."""
    found = _first(scenario, split, count)
    if not found:
        raise ValueError(_too_few(0, scenario, split, count))
    return found


def _first(scenario: Scenario, split: Split, count: int) -> list[Workload]:
    """Return the first accepted windows, at most so many; ValueError where none can be asked for."""
    if split not in SHARES:
        raise ValueError(unknown("split", split, SHARES))
    if count < 1:
        raise ValueError(f"{count} windows: expected at least 1")
    return list(islice(accepted(scenario, split, most=count * MOST_TRIED), count))


def _too_few(found: int, scenario: Scenario, split: Split, count: int) -> str:
    """Say that there are not so many windows, and what to do about it."""
    low, high = ACCEPTED_RANGE
    wanted = f" with a mean JCT / mean run time of {low}-{high} on {scenario.cluster_name}" * (
        not scenario.all_windows
    )
    instead = ", another cluster, --all-windows" * (not scenario.all_windows)
    if scenario.trace_file:
        begin, end = rows_of(read(scenario)["submit_s"].to_numpy(), split)
        after = f" after a gap of {GAP_S / 86_400:g} days" * (split != "train")
        wanted += f", which has {max(0, end - begin):,} jobs{after}"
    return (
        f"only {found} of {count} windows of {scenario.jobs} jobs were found in the {split} part{wanted}: "
        f"ask for fewer, for smaller ones (--jobs){instead}, or the whole trace (--full-trace)"
    )


def accepted(scenario: Scenario, split: Split, *, most: int) -> Iterator[Workload]:
    """Yield the accepted windows of a split in their fixed order, looking at `most` candidates at the most."""
    known = kept_list(scenario, split)
    make = judged = made(scenario, split)
    if not scenario.all_windows and not is_drawn_as_accepted(scenario):
        judged = made(replace(scenario, **ACCEPTANCE), split)
    for number in range(most):
        if not scenario.all_windows and number in known and not in_range(known[number]):
            continue
        table = make(number)
        if table is None:
            return
        if scenario.all_windows or number in known or in_range(ratio_of(judged(number), scenario)):
            yield prepare(table, scenario, window=Window(split, number))


def is_drawn_as_accepted(scenario: Scenario) -> bool:
    """Tell whether what decides about acceptance is drawn as it is there."""
    return scenario.restart_cost == ACCEPTANCE["restart_cost"] and "startup" not in scenario.parts


def ratio_of(table: pd.DataFrame | None, scenario: Scenario) -> float:
    """Return mean JCT / mean run time of a window that there is."""
    assert table is not None, "what is drawn decides about no job"
    return jct_over_run_time(table, scenario)


def in_range(value: float) -> bool:
    """Tell whether a window with this mean JCT / mean run time is accepted."""
    return ACCEPTED_RANGE[0] <= value <= ACCEPTED_RANGE[1]


def jct_over_run_time(table: pd.DataFrame, scenario: Scenario) -> float:
    """Return mean JCT / mean run time of a filled table under SRTF with the rules of `ACCEPTANCE`.

    Jobs that these cannot hold are left out: whether they stop the run is for the rules chosen to say.
    """
    workload = prepare(table, replace(scenario, drop_too_large=True, **ACCEPTANCE))
    state = run(SRTF, workload.episode()).state
    jct = state.finish_s[: len(workload.jobs)] - workload.jobs["submit_s"]
    return float(jct.mean() / workload.jobs["duration_s"].mean())


Make = Callable[[int], pd.DataFrame | None]


def made(scenario: Scenario, split: Split) -> Make:
    """Return what makes the filled table of a numbered window."""
    return of_file(scenario, split) if scenario.trace_file else of_generator(scenario, split)


def of_generator(scenario: Scenario, split: Split) -> Make:
    """Return what makes the filled table of a numbered window, from a seed of its own."""
    return lambda number: generate(scenario, Window(split, number))


def of_file(scenario: Scenario, split: Split) -> Make:
    """Return what cuts the filled table of a numbered window out of a trace file, None past the last.

    Windows that share no job come first, in random order; then those that begin half a window later, and so on, but
    not in the test part, where each counts as a sample of its own.
    """
    table = read(scenario)
    begin, end = rows_of(table["submit_s"].to_numpy(), split)
    rng = stream(scenario.seed, "order of windows", split)
    starts: list[int] = []
    for offset in (0.0,) if split == "test" else (0.0, 0.5, 0.25, 0.75):
        grid = np.arange(begin + int(offset * scenario.jobs), end - scenario.jobs + 1, scenario.jobs)
        starts += rng.permutation(grid).tolist()

    def make(number: int) -> pd.DataFrame | None:
        if number >= len(starts):
            return None
        rows = table.iloc[starts[number] : starts[number] + scenario.jobs].reset_index(drop=True)
        rows.attrs = table.attrs
        return rows

    return make


def rows_of(submit_s: np.ndarray, split: Split) -> tuple[int, int]:
    """Return the first row of a split and the row after its last: parts of the trace's time, two days apart."""
    first, last = submit_s[0], submit_s[-1]
    low, high = (first + share * (last - first) for share in SHARES[split])
    if split != "train":
        low += GAP_S
    begin = int(np.searchsorted(submit_s, low))
    return begin, len(submit_s) if split == "test" else int(np.searchsorted(submit_s, high))


def list_file(scenario: Scenario) -> Path:
    """Return where the windows of a generator's scenario are listed with that ratio, if they are."""
    return ACCEPTED / f"{scenario.trace_name}-{scenario.cluster_name}-{scenario.jobs}.csv"


def kept_list(scenario: Scenario, split: Split) -> dict[int, float]:
    """Return mean JCT / mean run time of each listed window; empty where the scenario changes jobs or arrivals."""
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


def write_list(scenario: Scenario, counts: dict[Split, int]) -> Path:
    """Simulate and list mean JCT / mean run time, and the latter, of the first so many windows of each split."""
    file = list_file(scenario)
    file.parent.mkdir(exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    with partial.open("w", newline="") as lines:
        out = csv.writer(lines)
        out.writerow(("split", "number", "jct_over_run_time", "mean_duration_s"))
        for split, count in counts.items():
            make = of_generator(replace(scenario, **ACCEPTANCE), split)
            for number in range(count):
                table = make(number)
                assert table is not None, "a generator never ends"
                value, duration_s = jct_over_run_time(table, scenario), table["duration_s"].mean()
                out.writerow((split, number, f"{value:.4f}", f"{duration_s:.3f}"))
    partial.replace(file)
    return file
