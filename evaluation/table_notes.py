"""Heading, legend and notes of a comparison table: the scenario, the meaning of its numbers, the origin of its jobs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from gpu_cluster_gym import baselines
from gpu_cluster_gym.envs.floors import FLOORS
from gpu_cluster_gym.evaluation import runner, table
from gpu_cluster_gym.evaluation.comparison import ESTIMATOR
from gpu_cluster_gym.evaluation.metrics import SLOWDOWN_THRESHOLD_S, late_work, pool
from gpu_cluster_gym.simulator.choice import flag
from gpu_cluster_gym.simulator.kernel.cluster.parameters import PARAMETERS, Parameters
from gpu_cluster_gym.simulator.policy import Policy, Ranking
from gpu_cluster_gym.traces import COLUMNS
from gpu_cluster_gym.workloads import (
    ACCEPTANCE,
    ACCEPTED_RANGE,
    PARTS,
    PROPORTIONAL,
    Scenario,
    describe_shift,
    offered_in_words,
    parts_in_words,
)

if TYPE_CHECKING:
    from gpu_cluster_gym.workloads import Workload

USED = {part: tuple(column.name for column in COLUMNS if part in column.parts) for part in PARTS}
"""Columns read by each part of physics, in addition to those required of every trace."""

FULL_WINDOWS = 20
"""Number of windows from which the bootstrap interval has its nominal coverage; see `evaluation.comparison.compare`."""

USUAL = tuple(part for part in PARTS if part in Scenario(physics="standard").parts)
"""Parts of physics that are on for generated jobs."""

MEASURED = "measured"
"""Origin of a column read from a trace."""

DROPPED = (
    "jobs larger than the cluster dropped: ",
    "jobs larger than the nodes that they may use dropped: ",
    "CPU jobs taken out, since cpu_jobs is off: ",
    "dependencies on jobs that are not simulated, taken as met: ",
)
"""Prefixes of the notes that `workloads._workload.prepare` makes on each window; other notes are on the whole trace."""

WHOLE_LOG = "windows are of the whole log, so no policy may have been tuned or trained on any part of it"


class Lever(NamedTuple):
    """A feature of a workload that some policies exploit.

    present: whether a workload has it. absent: the words of the note if no workload has it.
    """

    present: Callable[["Workload"], bool]
    absent: str


def _has_elastic_jobs(load: "Workload") -> bool:
    jobs = load.jobs
    return "elastic" in load.scenario.parts and bool((jobs["max_workers"] > jobs["min_workers"]).any())


LEVERS = {
    "sharing": Lever(lambda load: "sharing" in load.scenario.parts, "physics without sharing"),
    "cores": Lever(lambda load: "cores" in load.scenario.parts, "physics without cores"),
    "elastic": Lever(_has_elastic_jobs, "no elastic jobs"),
    "gpu_types": Lever(
        lambda load: "gpu_types" in load.scenario.parts and len(set(load.cluster.types)) > 1,
        "one type of GPU",
    ),
    "priorities": Lever(lambda load: bool((load.jobs["priority"] != 0).any()), "no priorities"),
    "deadlines": Lever(lambda load: bool((load.jobs["deadline_s"] > 0).any()), "no deadlines"),
    "users": Lever(
        lambda load: bool(load.tenants) or len(set(load.jobs["user"].tolist())) > 1, "one user, no tenants"
    ),
}
"""Levers by name, as `baselines.lever` returns them."""


def heading(workloads: Sequence["Workload"]) -> list[str]:
    """Return the lines above a table: trace, cluster, windows and the rules that apply to all policies."""
    scenario, cluster = workloads[0].scenario, workloads[0].cluster
    trace = trace_used(scenario)
    size = f"{_counted(cluster.num_nodes, 'node')}, {_counted(cluster.num_gpus, 'GPU')}"
    given = "" if scenario.cluster or scenario.trace_name else ", the default"
    lines = [
        f"{trace} on {cluster.name} ({size}{given})",
        f"{_extent(workloads)}, seed {scenario.seed}",
        offered_in_words(workloads),
        f"placement {scenario.placement}, discipline {scenario.discipline}, {_physics(scenario)}",
    ]
    if "estimates" not in scenario.parts:
        lines.append("estimates: exact")
    if scenario.target_load is not None:
        lines.append(
            f"arrivals scaled to a load of {scenario.target_load:g} (run times capped at the window's span)"
        )
    if scenario.shift is not None:
        lines.append(
            f"distribution shift: {describe_shift(scenario.shift)}, on the windows of the original scenario"
        )
    if scenario.with_history:
        lines.append(
            f"run times predicted from finished jobs of {scenario.run_time_predictor}, for all policies"
        )
    if tenants := workloads[0].tenants:
        lines.append(
            f"quotas {scenario.quotas}, borrowing {scenario.borrowing}: {_counted(len(tenants.names), 'tenant')}, "
            f"{sum(tenants.quotas):,} of {cluster.num_gpus:,} GPUs guaranteed"
            + " (in the first window)"
            * (len(workloads) > 1 and scenario.quotas == PROPORTIONAL)
        )
    if scenario.constraints is not None:
        partitions = f", partitions {scenario.partitions}" if scenario.partitions else ""
        lines.append(f"constraints {scenario.constraints}{partitions}")
    if scenario.max_duration is not None:
        lines.append(f"run times capped at {scenario.max_duration:,g} s")
    return lines


def _counted(count: int, what: str) -> str:
    """Return a count with its noun, in the plural unless it is 1."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def trace_used(scenario: Scenario) -> str:
    """Return the trace of a scenario as it is named to people: generated, or read from a file."""
    if not scenario.trace_file:
        return f"{scenario.trace_name} (generated)"
    return scenario.trace_file + (f" (read as {scenario.trace_name})" if scenario.trace_name else "")


def _extent(workloads: Sequence["Workload"]) -> str:
    scenario, jobs = workloads[0].scenario, sum(len(load.table) for load in workloads)
    if scenario.full_trace:
        return f"{_counted(jobs, 'job')} as one episode"
    if scenario.steady_load is not None:
        return f"{_counted(len(workloads), 'steady window')}: {parts_in_words(workloads)}"
    low, high = ACCEPTED_RANGE
    which = (
        "without a filter"
        if scenario.all_windows
        else f"with a mean JCT / mean run time of {low}-{high} under SRTF"
    )
    sizes = sorted({len(load.table) for load in workloads})
    size = " to ".join(f"{jobs:,}" for jobs in dict.fromkeys((sizes[0], sizes[-1])))
    what = "window" if workloads[0].window.split == "all" else "test window"
    return f"{_counted(len(workloads), what)} of {size} jobs {which}"


def _physics(scenario: Scenario) -> str:
    parts = [part for part in USED if part in scenario.parts]
    sharing = f"; up to {scenario.max_share} jobs per GPU" if "sharing" in parts else ""
    tick = f"; policies are called at least every {scenario.tick:g} s"
    ticks = tick if scenario.tick and "estimates" in parts else ""
    return f"physics {', '.join(parts) or 'none'}{sharing}{ticks}"


def legend(
    workloads: Sequence["Workload"], summaries: Mapping[str, pd.DataFrame], reference: str
) -> list[str]:
    """Return the short lines printed below a table; `footnotes` explains all its numbers."""
    windows = len(workloads)
    over = f", means over {windows} windows" if windows > 1 else ""
    lines = [
        f"Times in seconds{over}. Slowdown: JCT / run time under the policy ({SLOWDOWN_THRESHOLD_S:g} s or more)."
    ]
    if len(summaries) > 1:
        mean = f", {ESTIMATOR}" if windows > 1 else ""
        lines.append(f"JCT / {reference}{mean}: below 1 is shorter.")
        if 1 < windows < FULL_WINDOWS:
            lines.append(f"Intervals are too narrow below {FULL_WINDOWS} windows.")
    lines += [yardstick(workloads[0].scenario)] if "fifo" in summaries else []
    lines += levers_off(summaries, workloads)
    floors = [name for name in FLOORS if name in summaries]
    lines += (
        [f"Floors: {' and '.join(floors)}, agents that use only the mask of legal actions."] if floors else []
    )
    summed = " Summed shares count a GPU once per co-located job." if table.shares_gpus(summaries) else ""
    return [*lines, f"Lower bound: no schedule has a shorter mean JCT.{summed}"]


YARDSTICKS = {
    "greedy": "skips jobs that do not fit; fifo_strict waits for them",
    "strict": "waits for a job that does not fit",
    "easy": "skips a job that does not fit where that does not delay it by the estimates",
}
"""What `fifo` does with a job that does not fit, by the scenario's discipline."""


def yardstick(scenario: Scenario) -> str:
    """Return a sentence on which FIFO `fifo` is under the scenario's discipline."""
    return f"fifo {YARDSTICKS[scenario.discipline]}."


def footnotes(
    workloads: Sequence["Workload"],
    summaries: Mapping[str, pd.DataFrame],
    policies: Mapping[str, Policy | type],
    reference: str,
    bounds: pd.DataFrame,
) -> list[str]:
    """Return all notes on a table: its numbers, policies that differ from their description here, origin of columns.

    workloads: the windows simulated. summaries, bounds: of `runner.score` and `runner.bounds`.
    policies: the policies by name. reference: the policy whose mean JCT the ratios are relative to.
    """
    scenario = workloads[0].scenario
    return [
        *_meanings(summaries, reference, len(workloads)),
        *([yardstick(scenario)] if "fifo" in summaries else []),
        *_gap_to_bound(summaries, reference, bounds),
        *_identical(summaries, reference),
        *levers_off(summaries, workloads),
        *_contention(summaries, scenario),
        *_disciplines(policies, scenario),
        *parts_off(scenario),
        *origins_in_short(workloads[0].table, scenario),
        *trace_notes(workloads),
    ]


def late_in_words(tables: Mapping[str, pd.DataFrame], workloads: Sequence["Workload"]) -> list[str]:
    """Return a note on the work of scored jobs that is done after the last arrival of steady windows.

    tables: results by policy.
    """
    if workloads[0].scenario.steady_load is None:
        return []
    texts = []
    for name, results in tables.items():
        of_window = dict(iter(results.groupby("window")))
        late = [late_work(of_window[each.window.number], each.jobs["submit_s"][-1]) for each in workloads]
        shares, jobs = zip(*late, strict=True)
        texts.append(
            f"{name} {100 * np.mean(shares):.1f} % (at most {100 * max(shares):.1f} % in a window; "
            f"jobs: {sum(jobs):,} of {len(results):,})"
        )
    return [
        f"Scored GPU time after the last arrival, mean over windows, and scored jobs that end then: {', '.join(texts)}."
    ]


def parts_off(scenario: Scenario) -> list[str]:
    """Return notes on what is not simulated of a log, with the flags that draw it; empty without a log."""
    if not scenario.trace_file:
        return []
    idle = [
        f"{flag(each.name)} (requires --physics measured,{each.part})"
        for each in PARAMETERS
        if each.part not in (None, *scenario.parts)
        and getattr(scenario, each.name) != getattr(Parameters, each.name)
    ]
    notes = [f"Note: flags without effect: {', '.join(idle)}."] if idle else []
    if not (off := [part for part in USUAL if part not in scenario.parts]):
        return notes
    free = " A pause costs nothing." * ("preemption" in off)
    exact = " Policies see true run times." * ("estimates" in off)
    return [
        *notes,
        f"Note: not simulated, since the log lacks their inputs or --physics omits them: {', '.join(off)}."
        f"{free}{exact} "
        f"--physics measured,{off[0]} draws what {off[0]} needs, --physics standard everything.",
    ]


READING = ("Times in seconds", "Mean JCT /", "Lower bound:")
"""Prefixes of the notes on the meaning of a table's numbers."""


def _meanings(summaries: Mapping[str, pd.DataFrame], reference: str, windows: int) -> list[str]:
    over = f", each the mean over {windows} windows of the window's own metric" if windows > 1 else ""
    threshold = SLOWDOWN_THRESHOLD_S
    lines = [
        f"Times in seconds{over}. Slowdown: JCT / run time under the policy, run times below {threshold:g} s counted "
        f"as {threshold:g} s. {_shares(summaries)}"
    ]
    if len(summaries) > 1:
        pairing = f": {ESTIMATOR}, with its bootstrap interval over windows" if windows > 1 else ""
        narrow = (
            f" With fewer than {FULL_WINDOWS} windows the interval is too narrow."
            if 1 < windows < FULL_WINDOWS
            else ""
        )
        lines.append(f"Mean JCT / {reference}{pairing}; below 1 is shorter than under {reference}.{narrow}")
    return lines


def _shares(summaries: Mapping[str, pd.DataFrame]) -> str:
    """Return the definitions of the shares of GPU time in the table."""
    text = "Goodput share: GPU time of work that was not lost / (GPUs x makespan)."
    if "gpu_busy_share" in table.metrics_shown(summaries, wide=True):
        text += " Busy share: busy GPU time / (GPUs x time from first to last submission)."
    if table.shares_gpus(summaries):
        text += " Summed: a shared GPU counts once for each co-located job, so a share can exceed 100 %."
    return text


def _gap_to_bound(summaries: Mapping[str, pd.DataFrame], reference: str, bounds: pd.DataFrame) -> list[str]:
    """Return the meaning of the lower bound and, for several policies, the share of the gap to it that each closes."""
    line = (
        "Lower bound: no schedule has a shorter mean JCT, whatever it shares, resizes or migrates. "
        "It may be unattainable."
    )
    closed = runner.gaps_closed(summaries, bounds, reference)
    shares = [f"{name} {100 * share:.0f}\N{NO-BREAK SPACE}%" for name, share in closed.items() if share > 0]
    return [
        f"{line} Share of the gap from {reference} that is closed: {', '.join(shares)}." if shares else line
    ]


def _identical(summaries: Mapping[str, pd.DataFrame], reference: str) -> list[str]:
    """Return notes on policies with equal metrics in all windows, fifo and the reference first."""
    groups: list[list[str]] = []
    for name in sorted(summaries, key=lambda name: (name != "fifo", name != reference)):
        equal = (group for group in groups if summaries[group[0]].equals(summaries[name]))
        if group := next(equal, None):
            group.append(name)
        else:
            groups.append([name])
    return [
        f"Identical to {group[0]} in all windows: {', '.join(group[1:])}." for group in groups if group[1:]
    ]


def lever_off(policy: str, workloads: Sequence["Workload"]) -> str | None:
    """Return the lever of a policy of baselines/ if none of these workloads has it, else None."""
    lever = baselines.lever(policy)
    return lever if lever and not any(LEVERS[lever].present(load) for load in workloads) else None


def levers_off(policies: Iterable[str], workloads: Sequence["Workload"]) -> list[str]:
    """Return a note on the policies that exploit a feature which no workload has."""
    lacking: dict[str, list[str]] = {}
    for name in policies:
        if name in baselines.names() and (lever := lever_off(name, workloads)):
            lacking.setdefault(lever, []).append(name)
    reasons = [f"{', '.join(names)} ({LEVERS[lever].absent})" for lever, names in lacking.items()]
    return [f"Reduced to a simpler policy in this scenario: {'; '.join(reasons)}."] if reasons else []


def _contention(summaries: Mapping[str, pd.DataFrame], scenario: Scenario) -> list[str]:
    """Return the share of run time in the longest jobs, and the queueing under srtf in the default physics."""
    share = pool(next(iter(summaries.values())))["top5_duration_share"]
    lines = [f"The longest 5 % of jobs take {100 * share:.0f} % of all run time."]
    usual = replace(scenario, **ACCEPTANCE)
    same = replace(scenario, physics=usual.physics) == usual and scenario.parts == usual.parts
    if "srtf" in summaries and same:
        ratio = summaries["srtf"]["jct_over_run_time"]
        span = f"{ratio.min():.2f}-{ratio.max():.2f}" if len(ratio) > 1 else f"{ratio.iloc[0]:.2f}"
        lines[0] += f" Mean JCT / mean run time under srtf: {span}."
    return lines


def _disciplines(policies: Mapping[str, Policy | type], scenario: Scenario) -> list[str]:
    """Return notes on the policies to which the scenario's queueing discipline does not apply."""
    rankings = {name: each for name, each in policies.items() if isinstance(each, Ranking)}
    own = [f"{name} ({each.discipline})" for name, each in rankings.items() if each.discipline]
    lines = [f"With a fixed discipline: {', '.join(own)}."] if own else []
    if scenario.discipline == "easy":
        as_greedy = [
            name for name, each in rankings.items() if each.preempt == "by_order" and not each.discipline
        ]
        lines += (
            [f"Ran as greedy, since easy does not apply to preemptive rankings: {', '.join(as_greedy)}."]
            if as_greedy
            else []
        )
    free = [name for name in policies if name not in rankings or rankings[name].preempt == "cost_aware"]
    if free and scenario.discipline != "greedy":
        lines.append(f"Independent of the discipline: {', '.join(free)}.")
    return lines


def origins(table: pd.DataFrame, scenario: Scenario) -> list[str]:
    """Return lines with the relevant columns that were measured, and the source of each drawn one."""
    reasons = _origins(table, scenario)
    measured = reasons.pop(MEASURED, [])
    lines = [f"Measured: {', '.join(measured)}."] if measured else []
    filled = [
        f"{', '.join(columns)}: {origin.removeprefix('filled: ')}" for origin, columns in reasons.items()
    ]
    return lines + (["Drawn, not measured:", *(f"  {line}" for line in filled)] if filled else [])


def origins_in_short(table: pd.DataFrame, scenario: Scenario) -> list[str]:
    """Return the relevant columns in two sentences: those that were measured, and those that were drawn."""
    reasons = _origins(table, scenario)
    measured = reasons.pop(MEASURED, [])
    drawn = [column for columns in reasons.values() for column in columns]
    parts = {"Measured": measured, "Drawn, not measured (sources: provenance.json in the run folder)": drawn}
    return [f"{part}: {', '.join(columns)}." for part, columns in parts.items() if columns]


def _origins(table: pd.DataFrame, scenario: Scenario) -> dict[str, list[str]]:
    """Return the columns that this scenario uses, by origin."""
    used = [column for part, columns in USED.items() if part in scenario.parts for column in columns]
    used += [column.name for column in COLUMNS if column.asked_by and getattr(scenario, column.asked_by)]
    reasons: dict[str, list[str]] = {}
    for column, origin in table.attrs.get("origin", {}).items():
        if column in used or column in ("submit_s", "num_gpus", "duration_s"):
            reasons.setdefault(origin, []).append(column)
    return reasons


def trace_notes(workloads: Sequence["Workload"]) -> list[str]:
    """Return the notes on trace, windows and cluster, each once, and the numbers of dropped jobs over all windows."""
    notes = [note for load in workloads for note in load.table.attrs.get("notes", [])]
    of_trace = dict.fromkeys(note for note in notes if not note.startswith(DROPPED))
    counted = []
    for prefix in DROPPED:
        counts = [
            int(note.removeprefix(prefix).replace(",", "")) for note in notes if note.startswith(prefix)
        ]
        counted += [f"{prefix}{sum(counts):,}"] if sum(counts) else []
    whole = [WHOLE_LOG] if workloads[0].window.split == "all" else []
    cluster = workloads[0].cluster
    of_cluster = [cluster.left_out] if cluster.left_out else []
    if cluster.without_speed:
        of_cluster.append(
            f"the speed of {', '.join(cluster.without_speed)} is not simulated: run times are those of the trace"
        )
    return [f"Note: {note}." for note in (*of_trace, *counted, *whole, *of_cluster)]
