"""What to know of a table of scores: what was simulated, what the numbers mean, what the trace did not tell."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluation import report, results
from gpu_cluster_gym.evaluation.metrics import SLOWDOWN_THRESHOLD_S
from gpu_cluster_gym.simulator.policy import Policy, Ranking
from gpu_cluster_gym.traces import COLUMNS
from gpu_cluster_gym.workloads import ACCEPTANCE, ACCEPTED_RANGE, PARTS, Scenario, describe_shift

if TYPE_CHECKING:
    from gpu_cluster_gym.workloads import Workload

USED = {part: tuple(column.name for column in COLUMNS if part in column.parts) for part in PARTS}
"""The columns that each part of physics reads, beside those that a trace must have."""

FULL_WINDOWS = 20
"""Windows from which the bootstrap's interval is as wide as it claims; see `evaluation.comparison.compare`."""

MEASURED = "measured"
"""The origin of a column that was read from a trace."""

DROPPED = ("jobs larger than the cluster dropped: ", "CPU jobs taken out, since cpu_jobs is off: ")
"""How `workloads._workload.prepare` begins its notes on a window; other notes are on the trace as a whole."""


class Lever(NamedTuple):
    """What some policies are of no use without: whether a workload has it, and how to say that none does."""

    there: Callable[["Workload"], bool]
    lacks: str


def _elastic(load: "Workload") -> bool:
    jobs = load.jobs
    return "elastic" in load.scenario.parts and bool((jobs["max_workers"] > jobs["min_workers"]).any())


def _types(load: "Workload") -> bool:
    return "gpu_types" in load.scenario.parts and len(set(load.cluster.types)) > 1


LEVERS = {
    "sharing": Lever(lambda load: "sharing" in load.scenario.parts, "no sharing among the parts of physics"),
    "cores": Lever(lambda load: "cores" in load.scenario.parts, "no cores among the parts of physics"),
    "elastic": Lever(_elastic, "no elastic jobs"),
    "gpu_types": Lever(_types, "one type of GPU"),
    "deadlines": Lever(lambda load: bool((load.jobs["deadline_s"] > 0).any()), "no deadlines"),
    "users": Lever(lambda load: len(set(load.jobs["user"].tolist())) > 1, "one user"),
}
"""By the names that `baselines.lever` tells."""


def heading(workloads: Sequence["Workload"]) -> list[str]:
    """Say what is simulated: trace, cluster, windows and the rules that hold for every policy."""
    scenario, machines = workloads[0].scenario, workloads[0].cluster
    trace = _trace(scenario)
    size = f"{_counted(machines.num_nodes, 'node')}, {_counted(machines.num_gpus, 'GPU')}"
    given = "" if scenario.cluster or scenario.trace_name else ", since none was named"
    lines = [
        f"{trace} on {machines.name} ({size}{given})",
        f"{_extent(workloads)}, seed {scenario.seed}",
        f"placement {scenario.placement}, discipline {scenario.discipline}, {_physics(scenario)}",
    ]
    if "estimates" not in scenario.parts:
        lines.append("estimates: exact")
    if scenario.target_load is not None:
        lines.append(f"arrivals scaled to a load of {scenario.target_load:g} (run times capped at the span)")
    if scenario.shift is not None:
        lines.append(f"shifted: {describe_shift(scenario.shift)}; the windows are those without it")
    if scenario.with_history:
        lines.append(
            f"taught by finished jobs, every policy alike: run-time predictor {scenario.run_time_predictor}"
        )
    if scenario.max_duration is not None:
        lines.append(f"run times capped at {scenario.max_duration:,g} s")
    return lines


def _counted(count: int, what: str) -> str:
    """Return how many of something there are, in words."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def _trace(scenario: Scenario) -> str:
    if not scenario.trace_file:
        return f"{scenario.trace_name} (generated)"
    return scenario.trace_file + (f" (read as {scenario.trace_name})" if scenario.trace_name else "")


def _extent(workloads: Sequence["Workload"]) -> str:
    scenario, jobs = workloads[0].scenario, sum(len(load.table) for load in workloads)
    if scenario.full_trace:
        return f"{jobs:,} jobs as one episode"
    low, high = ACCEPTED_RANGE
    which = (
        "without a filter"
        if scenario.all_windows
        else f"with a mean JCT / mean run time of {low}-{high} under SRTF"
    )
    sizes = sorted({len(load.table) for load in workloads})
    size = " to ".join(f"{jobs:,}" for jobs in dict.fromkeys((sizes[0], sizes[-1])))
    return f"{_counted(len(workloads), 'test window')} of {size} jobs {which}"


def _physics(scenario: Scenario) -> str:
    parts = [part for part in USED if part in scenario.parts]
    sharing = f"; up to {scenario.max_share} jobs a GPU" if "sharing" in parts else ""
    tick = f"; policies are also asked every {scenario.tick:g} s"
    ticks = tick if scenario.tick and "estimates" in parts else ""
    return f"physics {', '.join(parts) or 'none'}{sharing}{ticks}"


def footnotes(
    workloads: Sequence["Workload"],
    summaries: Mapping[str, pd.DataFrame],
    policies: Mapping[str, Policy | type],
    reference: str,
    bounds: pd.DataFrame,
) -> list[str]:
    """Say how to read the table, which policies have a discipline of their own, and what was measured and filled in."""
    scenario = workloads[0].scenario
    return [
        *_reading(summaries, reference, len(workloads)),
        *_bound(summaries, reference, bounds),
        *_alike(summaries, reference),
        *levers_off(summaries, workloads),
        *_contention(summaries, scenario),
        *_disciplines(policies, scenario),
        *origins_in_short(workloads[0].table, scenario),
        *_notes(workloads),
    ]


def _reading(summaries: Mapping[str, pd.DataFrame], reference: str, count: int) -> list[str]:
    over = f", each the mean over {count} windows of the window's own number" if count > 1 else ""
    threshold = SLOWDOWN_THRESHOLD_S
    lines = [
        f"Times in seconds{over}. Slowdown: JCT / run time, run times below {threshold:g} s counting as "
        f"{threshold:g} s. {_shares(summaries)}"
    ]
    if len(summaries) > 1:
        pairing = ": the windows' own ratios, averaged, and its bootstrap over windows" if count > 1 else ""
        narrow = (
            f" Over fewer than {FULL_WINDOWS} windows the interval is too narrow."
            if 1 < count < FULL_WINDOWS
            else ""
        )
        lines.append(f"Mean JCT / {reference}'s{pairing}; below 1 is shorter than {reference}'s.{narrow}")
    return lines


def _shares(summaries: Mapping[str, pd.DataFrame]) -> str:
    """Say what each share of GPU time in the table is a share of, and what it counts where GPUs are shared."""
    said = "Goodput share: GPU time of kept progress / (GPUs x makespan)."
    if "gpu_busy_share" in report.numbers_shown(summaries):
        said += " Busy share: GPU time in use / (GPUs x time from first to last submission)."
    if report.shares_gpus(summaries):
        said += " Summed: a GPU that several jobs share counts once for each of them, so a share can exceed 100 %."
    return said


def _bound(summaries: Mapping[str, pd.DataFrame], reference: str, bounds: pd.DataFrame) -> list[str]:
    """Say what the bound is, and how much of the gap to it each policy closes, where there is one to compare with."""
    line = "Lower bound: no schedule has a shorter mean JCT, whatever it shares, sizes or moves; none need reach it."
    closed = report.gaps_closed(summaries, bounds, reference)
    shares = [f"{name} {100 * share:.0f}\N{NO-BREAK SPACE}%" for name, share in closed.items() if share > 0]
    told = f"{line} Share of the gap between {reference} and it that is closed: {', '.join(shares)}."
    return [told if shares else line]


def _alike(summaries: Mapping[str, pd.DataFrame], reference: str) -> list[str]:
    """Say which policies did the same as another before them, number by number in every window."""
    groups: list[list[str]] = []
    for name in sorted(summaries, key=lambda name: (name != "fifo", name != reference)):
        like = (group for group in groups if summaries[group[0]].equals(summaries[name]))
        if group := next(like, None):
            group.append(name)
        else:
            groups.append([name])
    return [
        f"The same as {group[0]} in every window: {', '.join(group[1:])}." for group in groups if group[1:]
    ]


def lever_off(policy: str, workloads: Sequence["Workload"]) -> str | None:
    """Return the lever of a policy of baselines/ where these workloads lack it, else None."""
    lever = baselines.lever(policy)
    return lever if lever and not any(LEVERS[lever].there(load) for load in workloads) else None


def levers_off(policies: Iterable[str], workloads: Sequence["Workload"]) -> list[str]:
    """Say which policies pull a lever that this scenario lacks, and so do only what is left."""
    lacking: dict[str, list[str]] = {}
    for name in policies:
        if name in baselines.names() and (lever := lever_off(name, workloads)):
            lacking.setdefault(lever, []).append(name)
    said = [f"{', '.join(names)} ({LEVERS[lever].lacks})" for lever, names in lacking.items()]
    return [f"Their lever is off here, so they do what is left: {'; '.join(said)}."] if said else []


def _contention(summaries: Mapping[str, pd.DataFrame], scenario: Scenario) -> list[str]:
    share = results.pool(next(iter(summaries.values())))["top5_duration_share"]
    lines = [f"The longest 5 % of jobs hold {100 * share:.0f} % of all run time."]
    usual = replace(scenario, **ACCEPTANCE)
    same = replace(scenario, physics=usual.physics) == usual and scenario.parts == usual.parts
    if "srtf" in summaries and same:
        ratio = summaries["srtf"]["jct_over_run_time"]
        span = f"{ratio.min():.2f}-{ratio.max():.2f}" if len(ratio) > 1 else f"{ratio.iloc[0]:.2f}"
        lines[0] += f" Mean JCT / mean run time under srtf: {span}."
    return lines


def _disciplines(policies: Mapping[str, Policy | type], scenario: Scenario) -> list[str]:
    rankings = {name: each for name, each in policies.items() if isinstance(each, Ranking)}
    own = [f"{name} ({each.discipline})" for name, each in rankings.items() if each.discipline]
    lines = [f"With a discipline of its own: {', '.join(own)}."] if own else []
    if scenario.discipline == "easy":
        bent = [name for name, each in rankings.items() if each.preempt == "by_order" and not each.discipline]
        lines += (
            [f"Ran as greedy, since easy is not for rankings that pause: {', '.join(bent)}."] if bent else []
        )
    free = [name for name in policies if name not in rankings or rankings[name].preempt == "cost_aware"]
    if free and scenario.discipline != "greedy":
        lines.append(f"Decide for themselves which jobs wait, whatever the discipline: {', '.join(free)}.")
    return lines


def origins(table: pd.DataFrame, scenario: Scenario) -> list[str]:
    """Say which columns that matter here were measured, and from what the others were drawn."""
    reasons = _origins(table, scenario)
    measured = reasons.pop(MEASURED, [])
    lines = [f"Measured: {', '.join(measured)}."] if measured else []
    filled = [
        f"{', '.join(columns)}: {origin.removeprefix('filled: ')}" for origin, columns in reasons.items()
    ]
    return lines + (["Drawn, not measured:", *(f"  {line}" for line in filled)] if filled else [])


def origins_in_short(table: pd.DataFrame, scenario: Scenario) -> list[str]:
    """Say which columns that matter here were measured, and which were not."""
    reasons = _origins(table, scenario)
    measured = reasons.pop(MEASURED, [])
    drawn = [column for columns in reasons.values() for column in columns]
    said = {"Measured": measured, "Drawn, not measured (about.json in the run folder says how)": drawn}
    return [f"{what}: {', '.join(columns)}." for what, columns in said.items() if columns]


def _origins(table: pd.DataFrame, scenario: Scenario) -> dict[str, list[str]]:
    """Return the columns that matter here by where they are from."""
    used = [column for part, columns in USED.items() if part in scenario.parts for column in columns]
    used += [column.name for column in COLUMNS if column.asked_by and getattr(scenario, column.asked_by)]
    reasons: dict[str, list[str]] = {}
    for column, origin in table.attrs.get("origin", {}).items():
        if column in used or column in ("submit_s", "num_gpus", "duration_s"):
            reasons.setdefault(origin, []).append(column)
    return reasons


def _notes(workloads: Sequence["Workload"]) -> list[str]:
    """Return the notes on the trace, each once, and those on jobs taken out, summed over the windows."""
    notes = [note for load in workloads for note in load.table.attrs.get("notes", [])]
    of_trace = dict.fromkeys(note for note in notes if not note.startswith(DROPPED))
    counted = []
    for what in DROPPED:
        gone = sum(int(note.removeprefix(what).replace(",", "")) for note in notes if note.startswith(what))
        counted += [f"{what}{gone:,}"] if gone else []
    return [f"Note: {note}." for note in (*of_trace, *counted)]
