"""Room to learn: the difference between agents that use only the action mask and the best schedule, on each workload.

`python -m benchmarks.room [--workload NAME ...] [--windows 12] [--seed 0 ...] [--write]` simulates, on test windows of
each workload: the floors `random_legal` and `first_legal`; `fifo`; the best published policy, chosen on validation
windows of the first seed among all with default settings and with those of `baselines/tuned`, each searched with the
same budget; `union`; its constants; look-ahead on top of these, on the first `--ahead` windows and where windows are
small; the constants with true run times, which no scheduler has; and a lower bound on any schedule. All are compared
with the constants, or with `union` where none were searched. In steady windows only jobs that count are in the results.

There are two kinds of floors. `random_legal` and `first_legal` act in the default environment: the queue is in order of
arrival, and the agent pauses jobs itself. `random_legal_hints` and `first_legal_hints` act with `hints=True,
victims_by="rule"`: a heuristic sorts the queue, and a start pauses the jobs that the heuristic would pause for it. They
take minutes in large windows, where they are left out.

Luck split: do other weights suit other windows? Settings of the rule near its constants run each window under several
draws of its run times: each job keeps its estimate and takes the error of another job of similar estimate. The best
setting of each window is chosen on half of the draws and judged on the others, which excludes the luck of the choice,
and compared with the one setting that is best over all windows, chosen and judged in the same way.

`--write` keeps the results in docs/room.csv, beside those of workloads that were not simulated, and updates the table
of docs/workloads.md.
"""

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.table import fill
from gpu_cluster_gym import baselines
from gpu_cluster_gym.envs.floors import FLOORS
from gpu_cluster_gym.envs.steer import WEIGHTS
from gpu_cluster_gym.evaluation import runner
from gpu_cluster_gym.evaluation.comparison import ESTIMATOR, compare
from gpu_cluster_gym.evaluation.each import each, in_order
from gpu_cluster_gym.evaluation.metrics import pool
from gpu_cluster_gym.evaluation.table_notes import lever_off
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.look_ahead_policy import LookAhead
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.simulator.rule_policy import Offsets, Rule
from gpu_cluster_gym.traces import stream
from gpu_cluster_gym.workloads import Workload, applicable, named, offered, prepare, shifted, up_to
from gpu_cluster_gym.workloads import names as workload_names

ROOT = Path(__file__).resolve().parent.parent
FILE, MARK = "room", "room"
BEST, AHEAD, TRUE, CONSTANTS, UNION = "best published", "look-ahead", "true run times", "constants", "union"
TRUTH = "true_run_times"  # the shift
SUFFIX = "_hints"  # of the names of floors with hints
COLUMNS = ("fifo", BEST, UNION, AHEAD, TRUE, runner.BOUND)  # floors are in the table of floors
OURS = (UNION, "lookahead")  # not published
CHOOSING = 4  # validation windows on which the best published policy is chosen
SMALL = 3_500  # jobs of the largest windows with the floors with hints
AHEAD_JOBS = 250  # largest windows with look-ahead, which takes minutes in larger ones
SETTINGS, SPREAD = 16, 0.25  # settings of the luck split, and standard deviation of their offsets
NEIGHBOURS = 16  # jobs of similar estimate that exchange errors
ROOM = 0.05  # share of mean JCT from which a workload is said to have room
Maker = Callable[[], Policy]


class Row(NamedTuple):
    """One policy on a workload, relative to the constants.

    name: of the policy behind the row. ratio, low, high: of mean JCT. jct_to_best, slowdown_to_best: ratios of mean JCT
    and of mean bounded slowdown to the best published policy's. seed: of the windows.
    """

    workload: str
    row: str
    name: str
    windows: int
    ratio: float
    low: float
    high: float
    jct_to_best: float = math.nan
    slowdown_to_best: float = math.nan
    mean_jct_s: float = math.nan
    mean_wait_s: float = math.nan
    max_wait_s: float = math.nan
    seed: int = 0

    @property
    def label(self) -> str:
        """The workload, and the seed unless it is 0."""
        return f"{self.workload}, seed {self.seed}" if self.seed else self.workload


HINTED = {name + SUFFIX: partial(floor, hints=True, victims_by="rule") for name, floor in FLOORS.items()}
"""Floors in the environment where a heuristic sorts the queue and chooses the jobs to pause, by name."""


class Luck(NamedTuple):
    """Shares of mean JCT that weights of each window gain over the best for all: on other draws, and on the same."""

    gain: float
    error: float
    with_luck: float


def measured(
    name: str, best: tuple[str, Maker], windows: int, seed: int, ahead: int, redraws: int, processes: int
) -> list[Row]:
    """Return the rows of a workload; best: name and maker of the best published policy."""
    scenario = replace(named(name), seed=seed)
    loads = up_to(scenario, "test", windows)
    rule, largest = rule_of(name), max(len(load.table) for load in loads)
    makers: dict[str, Maker] = {**FLOORS, **(HINTED if largest <= SMALL else {})}
    makers |= {"fifo": partial(baselines.make, baselines.load("fifo")), BEST: best[1]}
    makers |= {UNION: Rule, CONSTANTS: partial(baselines.make, rule)}

    def play(makers: Mapping[str, Maker], loads: Sequence[Workload]) -> dict[str, pd.DataFrame]:
        return runner.score(runner.simulate(makers, loads, processes=processes), loads)

    found = play(makers, loads)
    bounds = runner.bounds(loads)
    known = {BEST: best[0], CONSTANTS: CONSTANTS if name in baselines.with_constants() else UNION}
    if applicable(scenario, (TRUTH,)):
        found |= play({TRUE: partial(baselines.make, rule)}, [shifted(load, TRUTH) for load in loads])
    if ahead and largest <= AHEAD_JOBS:
        found |= play({AHEAD: partial(LookAhead, rule)}, loads[:ahead])
    found[runner.BOUND] = bounds
    rows = [row_of(name, row, known.get(row, row), found) for row in found]
    rows.append(
        Row(
            name,
            "load",
            "offered load",
            len(loads),
            float(np.median([offered(each).uncapped for each in loads])),
            math.nan,
            math.nan,
        )
    )
    if redraws and applicable(scenario, (TRUTH,)):
        luck = luck_of(costs(rule, loads, redraws, seed, processes))
        rows.append(Row(name, "luck split", "gain, standard error, with luck", len(loads), *luck))
    return [row._replace(seed=seed) for row in rows]


def rule_of(workload: str) -> Rule:
    """Return the rule with the constants searched for a workload, with its default weights where none were."""
    known = baselines.with_constants()
    return Rule(**(baselines.constants(workload).settings if workload in known else {}))


def best_published(workload: str, seed: int, processes: int) -> tuple[str, Maker]:
    """Return the name and maker of the policy with the lowest mean ratio to FIFO on validation windows of a seed.

    Policies that fail are left out.
    """
    loads = up_to(replace(named(workload), seed=seed), "validation", CHOOSING)
    makers: dict[str, Maker] = {}
    for name in baselines.quick_names():
        if name in OURS or runner.is_oracle(name) or lever_off(name, loads):
            continue
        policy = baselines.load(name)
        makers[name] = partial(baselines.make, policy)
        settings = baselines.tuned(workload, name).settings if name in baselines.searched(workload) else {}
        if settings:
            makers[f"{name}, tuned"] = partial(baselines.make, baselines.vary(policy, **settings))
    failed: dict[str, runner.Failure] = {}
    tables = runner.simulate(makers, loads, processes=processes, failed=failed)
    found = runner.score(tables, loads, failed=failed)
    ratios = {name: compare(each, found["fifo"]).ratio for name, each in found.items()}
    best = min(ratios, key=lambda name: ratios[name])
    return best, makers[best]


def row_of(workload: str, row: str, name: str, found: Mapping[str, pd.DataFrame]) -> Row:
    """Return a policy's row, on the windows that it was simulated on."""
    ours = found[row]
    control, best = (found[other][found[other]["window"].isin(ours["window"])] for other in (CONSTANTS, BEST))
    ratio, seconds = compare(ours, control), pool(ours)
    of_jct, of_slowdown = (
        compare(ours, best, metric=number).ratio if number in ours else math.nan
        for number in ("mean_jct_s", "mean_slowdown")
    )
    times = [float(seconds.get(each, math.nan)) for each in ("mean_jct_s", "mean_wait_s", "max_wait_s")]
    numbers = ratio.ratio, ratio.low, ratio.high, of_jct, of_slowdown, times[0], times[1], times[2]
    return Row(workload, row, name, ratio.windows, *numbers)


# The luck split.


def redrawn(load: Workload, number: int) -> Workload:
    """Return the window with other run times: each job has its estimate, and the error of one of similar estimate."""
    table = load.table
    rng = stream(load.scenario.seed, "room redraw", number, *load.window)
    error = table["duration_s"].to_numpy() / table["profiled_duration_s"].to_numpy()
    known = table["predictable_from"].to_numpy() > 0
    drawn = np.empty(len(table))
    for kind in (False, True):
        jobs = np.flatnonzero(known == kind)
        jobs = jobs[np.argsort(table["profiled_duration_s"].to_numpy()[jobs], kind="stable")]
        for first in range(0, len(jobs), NEIGHBOURS):
            alike = jobs[first : first + NEIGHBOURS]
            drawn[alike] = error[rng.permutation(alike)]
    longer = drawn / error
    columns = {name: table[name] * longer for name in ("duration_s", "predicted_duration_s")}
    return prepare(table.assign(**columns), replace(load.scenario, target_load=None), window=load.window)


def settings_near(rule: Rule, seed: int) -> list[Rule]:
    """Return the rule, `union`, and rules with weights sampled around those of the first."""
    offsets = Offsets(rule, WEIGHTS)
    rng = stream(seed, "room settings")
    drawn = rng.normal(0.0, SPREAD, (SETTINGS - 2, len(WEIGHTS)))
    return [rule, Rule(), *(offsets.rule_at(each) for each in drawn)]


def costs(rule: Rule, loads: Sequence[Workload], redraws: int, seed: int, processes: int) -> np.ndarray:
    """Return the mean JCT of each setting over the first's: float64 (windows, settings, redraws)."""
    rules = settings_near(rule, seed)
    tasks = [partial(costs_in, rules, load, number) for load in loads for number in range(redraws)]
    return (
        np.array([*in_order(each(tasks, processes))])
        .reshape(len(loads), redraws, len(rules))
        .transpose(0, 2, 1)
    )


def costs_in(rules: Sequence[Rule], load: Workload, number: int) -> np.ndarray:
    """Return the mean JCT of each rule over the first's in one draw of a window."""
    other = redrawn(load, number)
    means = np.array([other.results(run(rule, other.episode()))["jct_s"].mean() for rule in rules])
    return np.asarray(means / means[0])


def luck_of(found: np.ndarray) -> Luck:
    """Return the luck split of costs (windows, settings, redraws): the mean of both ways to halve the draws."""
    halves = found[:, :, ::2].mean(axis=2), found[:, :, 1::2].mean(axis=2)
    gains, lucky = [], []
    for chosen_on, judged_on in (halves, halves[::-1]):
        rows = np.arange(len(found))
        one, each = chosen_on.mean(axis=0).argmin(), chosen_on.argmin(axis=1)
        gains.append(judged_on[:, one] - judged_on[rows, each])
        lucky.append(chosen_on[:, one] - chosen_on[rows, each])
    gain = np.mean(gains, axis=0)
    error = float(gain.std(ddof=1) / math.sqrt(len(gain))) if len(gain) > 1 else math.nan
    return Luck(float(gain.mean()), error, float(np.mean(lucky)))


# The tables.


def room_table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of the table of ratios to the constants, a row per workload and seed."""
    lines = [
        f"| workload | windows | load | {' | '.join(COLUMNS)} | luck split |",
        f"|---|{'---|' * (len(COLUMNS) + 3)}",
    ]
    for workload, found in by_workload(rows):
        cells = [text_of(found.get(column), column) for column in COLUMNS]
        luck = found.get("luck split")
        split = f"{100 * luck.ratio:+.1f} % (se {100 * luck.low:.1f})" if luck else ""
        offered = f"{found['load'].ratio:.2f}" if math.isfinite(found["load"].ratio) else "at once"
        count = found[CONSTANTS].windows
        lines.append(f"| {workload} | {count} | {offered} | {' | '.join(cells)} | {split} |")
    return lines


def text_of(row: Row | None, column: str) -> str:
    """Return the text of a cell; empty for a policy that was not simulated."""
    if row is None:
        return ""
    name = f"{row.name}: " if column == BEST else ""
    if row.ratio == row.low == row.high == 1:
        return "1"
    interval = f" ({row.low:.3f}-{row.high:.3f})" if row.windows > 1 else ""
    return f"{name}{row.ratio:.3f}{interval}"


def floors_table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of the table of floors and FIFO over the best published policy, in mean JCT and slowdown."""
    names = [*FLOORS, *HINTED, "fifo"]
    lines = [f"| workload | {' | '.join(names)} | waits in JCT |", f"|---|{'---|' * (len(names) + 1)}"]
    for workload, found in by_workload(rows):
        best = found[BEST]
        rows_shown = [found.get(name) for name in names]
        cells = [f"{row.jct_to_best:.2f} / {row.slowdown_to_best:.1f}" if row else "" for row in rows_shown]
        waits = best.mean_wait_s / best.mean_jct_s
        lines.append(f"| {workload} | {' | '.join(cells)} | {100 * waits:.0f} % |")
    return lines


def verdicts(rows: Sequence[Row]) -> list[str]:
    """Return a sentence per workload on whether it has room."""
    lines = []
    for workload, found in by_workload(rows):
        gains = {}
        if ahead := found.get(AHEAD):
            gains["look-ahead"] = 1 - ahead.ratio, 1 - ahead.high
        if luck := found.get("luck split"):
            gains["weights by window"] = luck.ratio, luck.ratio - 2 * luck.low
        shown = ", ".join(f"{what} {100 * gain:.1f} %" for what, (gain, _) in gains.items())
        sure = any(least >= ROOM for _, least in gains.values())
        maybe = any(gain >= ROOM for gain, _ in gains.values())
        verdict = "room" if sure else "perhaps room" if maybe else "no room seen"
        lines.append(f"- `{workload}`: {verdict} ({shown})." if gains else f"- `{workload}`: not measured.")
    return lines


def by_workload(rows: Sequence[Row]) -> Iterator[tuple[str, dict[str, Row]]]:
    """Yield each workload and seed with its rows by name."""
    for label in dict.fromkeys(row.label for row in rows):
        yield label, {row.row: row for row in rows if row.label == label}


def legend() -> str:
    """Return the note below the table."""
    return (
        f"Made by `python -m benchmarks.room`. Mean JCT / the constants', {ESTIMATOR}, with 95 % intervals, on test "
        "windows. Intervals over fewer than 20 windows are too narrow."
    )


def kept(root: Path) -> list[Row]:
    """Return the rows of docs/room.csv; none without the file."""
    file = root / "docs" / f"{FILE}.csv"
    if not file.is_file():
        return []
    return [Row(*each) for each in pd.read_csv(file)[list(Row._fields)].itertuples(index=False)]


def write(root: Path, rows: Sequence[Row]) -> None:
    """Write docs/room.csv and the table of docs/workloads.md."""
    pd.DataFrame(rows).to_csv(root / "docs" / f"{FILE}.csv", index=False)
    fill(root / "docs" / "workloads.md", MARK, [*room_table(rows), "", legend()])


def main(args: Sequence[str] | None = None) -> None:
    """Simulate, print the tables, and write them if asked."""
    known = workload_names()
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--workload", nargs="+", choices=known, default=known, help="default: all")
    parser.add_argument("--windows", type=int, default=12, help="test windows per workload")
    parser.add_argument(
        "--seed",
        type=int,
        nargs="+",
        default=[0],
        help="seeds of the windows, a row each; the first chooses the best published policy",
    )
    parser.add_argument("--ahead", type=int, default=4, help="windows with look-ahead; 0 for none")
    parser.add_argument(
        "--redraws", type=int, default=4, help="draws of run times for the luck split; 0 for none"
    )
    parser.add_argument("--processes", type=int, default=1, help="number of processes")
    parser.add_argument("--write", action="store_true", help="update docs/room.csv and docs/workloads.md")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder with docs/")
    chosen = parser.parse_args(args)
    if chosen.redraws == 1:
        parser.error(
            "--redraws 1: expected 0 or at least 2, since half of the draws select and the other half evaluate"
        )
    rows = kept(chosen.root) if chosen.write else []
    for name in chosen.workload:
        best = best_published(name, chosen.seed[0], chosen.processes)
        for seed in chosen.seed:
            found = measured(name, best, chosen.windows, seed, chosen.ahead, chosen.redraws, chosen.processes)
            rows = [row for row in rows if row.label != found[0].label] + found
            print("\n".join([*room_table(found), *floors_table(found), *verdicts(found)]), flush=True)
            if chosen.write:
                write(chosen.root, sorted(rows, key=lambda row: (known.index(row.workload), row.seed)))


if __name__ == "__main__":
    main()
