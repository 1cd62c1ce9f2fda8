"""Score all policies on all workloads: `python -m benchmarks.table [--windows N] [--processes P] [--policy NAME ...]`.

Rows are the policies of `baselines/` with default settings, tuned policies where a search found other settings
(`python -m benchmarks.tune`), and the shipped agents (`ppo`). Columns are the workloads of `workloads/`. The table is
written between the marks in docs/results.md; some of its rows and columns are written to README.md, and every number
and interval to docs/results.csv. `--kept` writes the tables and the picture docs/images/policies.png from that file,
without simulating.

`--log LOG` scores the policies on the real Philly log instead: Microsoft's job log, or a table of its jobs. It has
arrivals, GPUs and run times; the other columns are drawn as for the generator. A column of the table has its busy test
windows, which are filtered like the generator's, and the text between its marks describes them.
docs/results_of_log.csv has the numbers of the generator's windows (from docs/results.csv) and of consecutive windows of
the log without a filter, too.
"""

import argparse
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from docs.pages.fill import filled
from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import shipped_policy
from gpu_cluster_gym.evaluation import table_notes
from gpu_cluster_gym.evaluation.comparison import ESTIMATOR, compare
from gpu_cluster_gym.evaluation.each import each, in_order
from gpu_cluster_gym.evaluation.metrics import summarise
from gpu_cluster_gym.evaluation.plot.style import BLUE, GREY, IN_PRINT, INCHES, RED, save, style
from gpu_cluster_gym.evaluation.runner import is_oracle, run_window
from gpu_cluster_gym.workloads import Workload, named, windows
from gpu_cluster_gym.workloads import names as workload_names

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "python -m benchmarks.table"
SEARCH = "python -m benchmarks.tune"
REFERENCE = "fifo"
TUNED = "tuned"  # row of the policy and settings with the best validation score
HUNDRED = (
    "aiturbo_ps",
    "coda_mix",
    "large",
    "mixed",
    "philly",
    "philly_backlog",
    "quick",
    "two_types",
    "xion_small",
    "xonar_memory",
    "xonar_mix",
)
WINDOWS = {"busy": 40} | dict.fromkeys(HUNDRED, 100)
DEFAULT_WINDOWS = 20
TABLE = "all policies"  # name of the marks
GENERATED, LOG = (
    "philly_backlog",
    "the log",
)  # a workload, and the column of the real log behind it, to its right
LOG_MARK = "the real log"  # name of the marks
OF_LOG = "results_of_log"  # file of the log's results
MAX_REASON = 120  # characters
BRIEF_DIGITS = 2
BRIEF_ROWS = ("fifo", "las", "sjf", "srtf", "xion", "xonar", "coda", "aiturbo", "union", "ppo")
WAITS_ROWS = (*BRIEF_ROWS, "fifo_strict", "easy")
BRIEF_COLUMNS = ("philly", "mixed", "xion_small", "xonar_mix", "coda_mix", "aiturbo_ps")
HOUR_S = 3600.0
DRAWN_ROWS = BRIEF_ROWS[::-1]
DRAWN_COLUMNS = ("philly", "busy", "coda_mix", "aiturbo_ps")
AGENT = "ppo"
PICTURE = "policies"
DEFAULT = "default settings"
OFF = "lever off"
RATIO_ROW = 0.19  # inches, in the picture
NUMBERS = ("mean_jct_s", "mean_wait_s", "max_wait_s")
NOT_RUN = "\N{EN DASH}"


class Row(NamedTuple):
    """Row of the table: its label, its policy, and the settings found by a search."""

    label: str
    policy: str
    settings: dict[str, Any]


class Cell(NamedTuple):
    """Result of a policy on a workload: the ratio to FIFO's mean JCT with its interval, or why it could not run."""

    workload: str
    policy: str
    windows: int = 0
    mean_jct_s: float = math.nan
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    reason: str = ""
    mean_wait_s: float = math.nan
    max_wait_s: float = math.nan


def rows(workload: str, policies: Sequence[str] = ()) -> list[Row]:
    """Return the policies to simulate on a workload: with default settings, and with tuned ones that differ.

    policies: only these and FIFO; all by default.
    """
    found = [Row(name, name, {}) for name in (*baselines.quick_names(), AGENT)]
    tuned = [each for each in found_for(workload) if each.settings]
    found += [Row(f"{each.policy}, {TUNED}", each.policy, each.settings) for each in tuned]
    return [row for row in found if not policies or row.policy in (*policies, REFERENCE)]


def found_for(workload: str) -> list[baselines.Tuned]:
    """Return the search results of a workload for existing policies."""
    known = baselines.names()
    return [baselines.tuned(workload, name) for name in baselines.searched(workload) if name in known]


def policy_of(row: Row, workload: str) -> Any:
    """Return the policy of a row, which may be the agent shipped for the workload; ValueError if there is none."""
    if row.policy != AGENT:
        return baselines.vary(baselines.load(row.policy), **row.settings)
    return shipped_policy(workload)[0]


def attempt(row: Row, name: str, workload: Workload) -> tuple[dict[str, float], str, float]:
    """Return the metrics of a policy in a window, the reason if it cannot run there, and the CPU seconds."""
    start, found, reason = time.process_time(), dict.fromkeys(NUMBERS, math.nan), ""
    if row.policy in baselines.names() and table_notes.lever_off(row.policy, [workload]):
        return found, OFF, 0.0
    try:
        policy = policy_of(row, name)
        results = run_window(partial(baselines.make, policy), workload, oracle=is_oracle(row.policy))
        summary = summarise(results, gpus=workload.cluster.num_gpus)
        found = {number: float(summary[number].item()) for number in NUMBERS}
    except (ValueError, RuntimeError) as error:
        reason = (str(error) or repr(error)).splitlines()[0][:MAX_REASON]
    return found, reason, time.process_time() - start


def column(
    name: str, workloads: Sequence[Workload], processes: int, policies: Sequence[str] = ()
) -> Iterator[tuple[Cell, float]]:
    """Yield the cell of each policy on a workload, FIFO first, with its CPU seconds."""
    order = sorted(rows(name, policies), key=lambda row: row.label != REFERENCE)
    tasks = [partial(attempt, row, name, load) for row in order for load in workloads]
    results = in_order(each(tasks, processes))
    keys = {
        "window": [load.window.number for load in workloads],
        "seed": [load.scenario.seed for load in workloads],
    }
    reference = pd.DataFrame()
    for row in order:
        numbers, reasons, seconds = zip(*(next(results) for _ in workloads), strict=True)
        cell = Cell(name, row.label, len(workloads), reason=next(filter(None, reasons), ""))
        if not cell.reason:
            summary = pd.DataFrame(numbers).assign(**keys)
            reference = summary if row.label == REFERENCE else reference
            ratio, low, high, *_ = compare(summary, reference)
            means: dict[str, Any] = {number: float(summary[number].mean()) for number in NUMBERS}
            cell = cell._replace(ratio=ratio, low=low, high=high, **means)
        yield cell, sum(seconds)


def of_search(workload: str, cells: Sequence[Cell]) -> Iterator[Cell]:
    """Yield cells that need no simulation: policies whose defaults are best, and the best of the search."""
    tuned = found_for(workload)
    off = {cell.policy for cell in cells if cell.reason == OFF}
    default = [each.policy for each in tuned if not each.settings and each.policy not in off]
    yield from (Cell(workload, f"{name}, {TUNED}", reason=DEFAULT) for name in default)
    if tuned:
        name, settings, _ = baselines.tuned(workload)
        label = f"{name}, {TUNED}" if settings else name
        yield from (cell._replace(policy=TUNED) for cell in cells if cell.policy == label)


def brief(cells: Sequence[Cell]) -> list[str]:
    """Return the lines of the short table for README.md: waits on `philly`, ratios, and the best baselines."""
    at = {(cell.workload, cell.policy): cell for cell in cells}
    workloads = [name for name in BRIEF_COLUMNS if (name, REFERENCE) in at]
    waiting = [name for name in workloads if not math.isnan(at[name, REFERENCE].max_wait_s)][:1]
    heads = [*(f"mean / longest wait, h: {name}" for name in waiting), *workloads]
    lines = [f"| mean JCT / {REFERENCE}'s | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    best = {
        name: min(
            (
                at[name, label].ratio
                for label in BRIEF_ROWS
                if (name, label) in at and eligible(at[name, label])
            ),
            default=math.nan,
        )
        for name in workloads
    }
    for label in BRIEF_ROWS:
        found = [wait_h(at.get((name, label))) for name in waiting]
        found += [text(at.get((name, label)), best[name], BRIEF_DIGITS) for name in workloads]
        lines.append(f"| {label} | {' | '.join(found)} |")
    baselines_there = [best_baseline(cells, name) for name in workloads]
    return (
        [*lines, f"| *best baseline* | {'| ' * len(waiting)}{' | '.join(baselines_there)} |"]
        if workloads
        else []
    )


def wait_h(cell: Cell | None) -> str:
    """Return the mean and the longest wait of a cell, h, each the mean over windows; empty where unknown."""
    if cell is None or math.isnan(cell.max_wait_s):
        return ""
    return f"{cell.mean_wait_s / HOUR_S:.1f} / {cell.max_wait_s / HOUR_S:.0f}"


def waits(cells: Sequence[Cell]) -> list[str]:
    """Return the lines of the table of some policies' mean and longest waits, each the mean over windows, if known."""
    known = {(cell.workload, cell.policy): cell for cell in cells if not math.isnan(cell.max_wait_s)}
    if not known:
        return []
    workloads, labels = (list(dict.fromkeys(each)) for each in zip(*known, strict=True))
    lines = [f"| mean / longest wait, h | {' | '.join(workloads)} |", f"|---|{'---|' * len(workloads)}"]
    shown = sorted(name for name in labels if name in WAITS_ROWS or is_oracle(name))
    lines += [
        f"| {each} | {' | '.join(wait_h(known.get((name, each))) for name in workloads)} |" for each in shown
    ]
    return ["", *lines]


def best_baseline(cells: Sequence[Cell], workload: str) -> str:
    """Return the best policy of a workload except agents and `union`, including tuned policies, with its ratio."""
    ours = (AGENT, "union", TUNED)
    others = [
        cell
        for cell in cells
        if cell.workload == workload and eligible(cell) and cell.policy.partition(", ")[0] not in ours
    ]
    best = min(others, key=lambda cell: cell.ratio)
    return f"{best.policy}: {text(best, -1, BRIEF_DIGITS)}"


def table(cells: Sequence[Cell]) -> list[str]:
    """Return the lines of the table: a row per policy with a result, oracles last, the best of a column in bold.

    A cell has the ratio with default settings and, after a comma, that with tuned ones. The row before the last has the
    median half-width of a column's intervals.
    """
    at = {(cell.workload, cell.policy): cell for cell in cells}
    workloads = list(dict.fromkeys(cell.workload for cell in cells))
    policies = {cell.policy.partition(", ")[0] for cell in cells}
    labels = sorted(policies, key=lambda label: (is_oracle(label), label == TUNED, label))
    best = {
        name: min(each.ratio for each in cells if each.workload == name and eligible(each))
        for name in workloads
    }
    lines = [f"| policy | {' | '.join(workloads)} |", f"|---|{'---|' * len(workloads)}"]
    for label in labels:
        if is_oracle(label) and not any(line.startswith("| *oracle") for line in lines):
            lines.append(f"| *oracle:* |{' |' * len(workloads)}")
        pairs = [[at.get((name, each)) for each in (label, f"{label}, {TUNED}")] for name in workloads]
        texts = [
            ", ".join(filter(None, (ratio_of(cell, best[name]) for cell in pair)))
            for name, pair in zip(workloads, pairs, strict=True)
        ]
        if any(texts):
            lines.append(f"| {label} | {' | '.join(texts)} |")
    widths = [half_width(cells, name) for name in workloads]
    reference = [f"{at[name, REFERENCE].mean_jct_s:,.0f} s" for name in workloads]
    return [
        *lines,
        f"| *median half-width* | {' | '.join(widths)} |",
        f"| *{REFERENCE}'s mean JCT* | {' | '.join(reference)} |",
    ]


def half_width(cells: Sequence[Cell], workload: str) -> str:
    """Return the median half-width of the intervals of a workload; empty if it has none."""
    halves = [
        (cell.high - cell.low) / 2 for cell in cells if cell.workload == workload and cell.high > cell.low
    ]
    return f"{float(np.median(halves)):.3f}" if halves else ""


def eligible(cell: Cell) -> bool:
    """Return whether a cell may be the best of its workload."""
    return not is_oracle(cell.policy) and not cell.reason


def ratio_of(cell: Cell | None, best: float, digits: int = 3) -> str:
    """Return the ratio of a cell without its interval, with `digits` decimals; a sign where it has none."""
    if cell is None:
        return ""
    if cell.reason:
        return {DEFAULT: "=", OFF: ""}.get(cell.reason, NOT_RUN)
    if cell.ratio == cell.low == cell.high == 1 or cell.policy == REFERENCE:
        return "1"
    ratio = f"{cell.ratio:.{digits}f}"
    return f"**{ratio}**" if eligible(cell) and ratio == f"{best:.{digits}f}" else ratio


def text(cell: Cell | None, best: float, digits: int) -> str:
    """Return the text of a cell with its interval, with `digits` decimals."""
    shown = ratio_of(cell, best, digits)
    if cell is None or shown in ("", "=", NOT_RUN, "1") or math.isnan(cell.low):
        return shown
    return f"{shown} ({cell.low:.{digits}f}-{cell.high:.{digits}f})"


def shown_cells(root: Path, cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells of the table in docs/results.md: these, with the log's beside those of its generator."""
    known = (root / "docs" / f"{OF_LOG}.csv").is_file()
    of_log = [cell for cell in kept_cells(root, OF_LOG) if cell.workload == LOG] if known else []
    at = max((place for place, cell in enumerate(cells, 1) if cell.workload == GENERATED), default=0)
    return [*cells[:at], *(of_log if at else []), *cells[at:]]


def notes(cells: Sequence[Cell], command: str) -> list[str]:
    """Return the notes below the table: command, legend, tuned settings, and policies that could not run."""
    count = {cell.workload: cell.windows for cell in cells if cell.policy == REFERENCE}
    few = [name for name, windows in count.items() if windows < table_notes.FULL_WINDOWS]
    narrow = f" Intervals over fewer than {table_notes.FULL_WINDOWS} windows are too narrow." * bool(few)
    found = {name: baselines.tuned(name)[0] for name in count if baselines.searched(name)}
    earlier = any(baselines.tuned(name).earlier for name in count if baselines.searched(name))
    lines = [
        f"Made by `{command}`. Mean JCT / {REFERENCE}'s: {ESTIMATOR}; the best is in bold. The median half-width is "
        f"that of a column's 95 % intervals. An oracle uses true run times. fifo {table_notes.YARDSTICKS['greedy']}. "
        f"Test windows (seed 0): {grouped(count)}.{narrow}",
        "",
        f"The second figure of a cell is with settings that `{SEARCH}` found on training windows; = means that none "
        f"were better than the defaults. A bare 1 means the same result as {REFERENCE} in every window. A cell is "
        "empty where the workload does not simulate the policy's mechanism, or the policy was not run. "
        f"The row {TUNED} is the policy with the best score on validation windows: "
        f"{grouped(found) or 'none yet'}.{' Searched on windows of an earlier version.' * earlier}",
    ]
    failed_cells = [cell for cell in cells if cell.reason not in ("", DEFAULT, OFF)]
    failed = [f"- {cell.policy} on {cell.workload}: {cell.reason}" for cell in failed_cells]
    return [*lines, *(["", f"{NOT_RUN}: could not run.", "", *failed] if failed else [])]


def grouped(values: Mapping[str, object]) -> str:
    """Return each value with the workloads that have it."""
    names = {value: [name for name, each in values.items() if each == value] for value in values.values()}
    return "; ".join(f"{value} on {', '.join(those)}" for value, those in names.items())


def about(name: str, workloads: Sequence[Workload]) -> list[str]:
    """Return the description of a workload, and which of its columns are measured or drawn."""
    lines = [*table_notes.heading(workloads), *table_notes.origins(workloads[0].table, workloads[0].scenario)]
    return [
        f"### {name}",
        "",
        *(f"{'  ' if line.startswith('  ') else ''}- {line.strip()}" for line in lines),
        "",
    ]


def fill(file: Path, mark: str, lines: Sequence[str]) -> None:
    """Replace the text between the marks in a file; ValueError if the file lacks them."""
    file.write_text(filled(file, {mark: lambda: "\n".join(lines)}), encoding="utf-8")


def check(root: Path) -> None:
    """Raise ValueError or OSError unless a folder has the files and marks for the table."""
    for name in ("README.md", "docs/results.md"):
        filled(root / name, {TABLE: str})


def main(args: Sequence[str] | None = None) -> None:
    """Simulate everything, print the progress, and write the tables."""
    known = workload_names()
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--workload", nargs="+", choices=known, default=known, help="default: all")
    parser.add_argument(
        "--windows", type=int, help=f"windows per workload; default: {DEFAULT_WINDOWS}, except {WINDOWS}"
    )
    parser.add_argument("--processes", type=int, default=1, help="number of processes")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder with README.md and docs/")
    policy_help = "simulate only these; other rows are kept from the file of results"
    parser.add_argument("--policy", nargs="+", default=(), help=policy_help)
    parser.add_argument("--log", type=Path, help="job log of Philly, on which to score the policies instead")
    kept_help = "simulate nothing: write the tables and the picture from docs/results.csv"
    parser.add_argument("--kept", action="store_true", help=kept_help)
    chosen = parser.parse_args(args)
    check(chosen.root)
    if chosen.log:
        if chosen.kept or chosen.workload != known:
            parser.error("--log simulates the windows of the log only: drop --workload and --kept")
        score_log(chosen)
        return
    if chosen.kept:
        write(chosen.root, kept_cells(chosen.root), COMMAND)
        return
    kept = kept_cells(chosen.root) if chosen.policy else []
    if lost := sorted({cell.workload for cell in kept} - set(chosen.workload)):
        parser.error(
            f"--policy: docs/results.csv has {', '.join(lost)} too, whose rows would be lost: add them to --workload"
        )
    cells: list[Cell] = []
    for name in chosen.workload:
        scenario = replace(named(name), seed=0)
        workloads = windows(scenario, "test", chosen.windows or WINDOWS.get(name, DEFAULT_WINDOWS))
        print("\n".join(about(name, workloads)), flush=True)
        before = [cell for cell in kept if cell.workload == name]
        cells += scored(name, workloads, chosen.processes, chosen.policy, before)
    given = f" --windows {chosen.windows}" if chosen.windows else ""
    given += f" --workload {' '.join(chosen.workload)}" if chosen.workload != known else ""
    print("\n".join([*table(cells), "", *notes(cells, COMMAND + given)]))
    pd.DataFrame(cells).to_csv(chosen.root / "docs" / "results.csv", index=False)
    write(chosen.root, cells, COMMAND + given)


def score_log(chosen: argparse.Namespace) -> None:
    """Simulate the windows of the log, and write its column and the text about it."""
    results = chosen.root / "docs" / "results.md"
    filled(results, {LOG_MARK: str})  # fails early if the marks are missing
    cells = [cell for cell in kept_cells(chosen.root) if cell.workload == GENERATED]
    kept = kept_cells(chosen.root, OF_LOG) if chosen.policy else []
    described: list[str] = []
    for label, all_windows in ((LOG, False), (f"{LOG}, all windows", True)):
        usual = replace(named(GENERATED), physics=named(GENERATED).physics_name, seed=0)
        scenario = replace(usual, trace_file=str(chosen.log), all_windows=all_windows)
        workloads = windows(scenario, "test", chosen.windows or DEFAULT_WINDOWS)
        heading = (each.replace(str(chosen.log), chosen.log.name) for each in table_notes.heading(workloads))
        lines = [f"- *{label}*: {line}" for line in list(heading)[:3]]
        described += [] if all_windows else lines
        print(*lines, sep="\n", flush=True)
        before = [cell for cell in kept if cell.workload == label]
        found = scored(GENERATED, workloads, chosen.processes, chosen.policy, before)
        cells += [cell._replace(workload=label) for cell in found]
    pd.DataFrame(cells, columns=Cell._fields).to_csv(results.with_name(f"{OF_LOG}.csv"), index=False)
    shown = shown_cells(chosen.root, kept_cells(chosen.root))
    write(chosen.root, kept_cells(chosen.root), COMMAND)
    count = {cell.workload: cell.windows for cell in shown if cell.policy == REFERENCE}
    note = f"Made by `{COMMAND} --log LOG`. Test windows (seed 0): {LOG} {count[LOG]}."
    fill(results, LOG_MARK, [note, "", *described])


def scored(
    name: str,
    workloads: Sequence[Workload],
    processes: int,
    policies: Sequence[str] = (),
    before: Sequence[Cell] = (),
) -> list[Cell]:
    """Return the cells of a workload, printing each result; ValueError if `before` has other windows.

    policies: policies to simulate; all by default.
    before: previous cells, which are kept for policies that are not simulated.
    """
    start = time.perf_counter()
    cells = {cell.policy: cell for cell in before if cell.reason != DEFAULT and cell.policy != TUNED}
    for cell, seconds in column(name, workloads, processes, policies):
        print(f"  {cell.policy:24s} {cell.reason or f'{cell.ratio:.3f}'}  ({seconds:.1f} s)", flush=True)
        was = cells.get(REFERENCE)
        if cell.policy == REFERENCE and was and not math.isclose(was.mean_jct_s, cell.mean_jct_s):
            raise ValueError(
                f"{name}: docs/results.csv is of other windows; simulate all rows (drop --policy)"
            )
        cells[cell.policy] = cell
    print(f"  {len(workloads)} windows in {time.perf_counter() - start:.0f} s\n", flush=True)
    return [*cells.values(), *of_search(name, list(cells.values()))]


def kept_cells(root: Path, name: str = "results") -> list[Cell]:
    """Return the cells in docs/results.csv, or in another such file."""
    numbers = {name: [""] for name in ("windows", *NUMBERS, "ratio", "low", "high")}
    table = pd.read_csv(root / "docs" / f"{name}.csv", keep_default_na=False, na_values=numbers)
    return [Cell(*row) for row in table.reindex(columns=list(Cell._fields)).itertuples(index=False)]


def write(root: Path, cells: Sequence[Cell], command: str) -> None:
    """Write the short table to README.md, the full one to docs/results.md, and the picture, from docs/results.csv."""
    if few := brief(cells):
        fill(root / "README.md", TABLE, few)
    shown = [*table(shown_cells(root, cells)), "", *notes(cells, command), *waits(cells)]
    fill(root / "docs" / "results.md", TABLE, shown)
    draw(root)


def draw(root: Path) -> None:
    """Draw the picture of some policies and workloads from docs/results.csv."""
    table = pd.read_csv(root / "docs" / "results.csv")
    columns = [name for name in DRAWN_COLUMNS if name in set(table["workload"])]
    if columns:
        (root / "docs" / "images").mkdir(exist_ok=True)
        with style(IN_PRINT):
            figure = ratio_dots(table, DRAWN_ROWS, columns, marked=AGENT)
            save(figure, root / "docs" / "images", PICTURE, ("png",))


def ratio_dots(
    table: pd.DataFrame, policies: Sequence[str], workloads: Sequence[str], *, marked: str
) -> Figure:
    """Draw mean JCT ratios of policies, from top to bottom, with their intervals, a panel per workload.

    table: columns workload, policy, ratio, low and high, as in docs/results.csv; a missing row is left empty.
    marked: policy in a different colour.
    """
    figure = Figure(
        figsize=(INCHES["page"], 0.75 + RATIO_ROW * len(policies)), layout="constrained", facecolor="white"
    )
    drawn = table["policy"].isin(policies) & table["workload"].isin(workloads)
    highest = 1.05 * float(table.loc[drawn, "high"].max())
    for place, workload in enumerate(workloads):
        axes = figure.add_subplot(1, len(workloads), place + 1)
        own = table[table["workload"] == workload].set_index("policy").reindex(list(policies))
        for row, (policy, found) in enumerate(own.iterrows()):
            colour = RED if policy == marked else BLUE
            axes.axhline(row, color="#e4e4e4", linewidth=0.5, zorder=0)
            axes.hlines(row, found["low"], found["high"], colour, linewidth=1.4)
            axes.plot(found["ratio"], row, "o", color=colour, markersize=4)
        axes.axvline(1, color=GREY, linewidth=0.8, zorder=0)
        axes.set_ylim(len(own) - 0.5, -0.5)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlim(0, highest)
        axes.set_title(workload)
        axes.set_yticks(range(len(policies)), policies if place == 0 else [])
    figure.supxlabel(
        "Mean job completion time / FIFO's, with 95 % interval over held-out windows", fontsize=8
    )
    return figure


if __name__ == "__main__":
    main()
