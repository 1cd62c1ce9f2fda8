"""Simulation of policies on the same workloads, with their summaries and the check against the lower bound."""

import operator
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from gpu_cluster_gym.evaluation.comparison import compare, paired_ratios
from gpu_cluster_gym.evaluation.each import DIED, LostError, each
from gpu_cluster_gym.evaluation.journal import Journal
from gpu_cluster_gym.evaluation.metrics import OWNERS, pool, summarise
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.simulator.relaxations import gap_closed, lower_bound

if TYPE_CHECKING:
    from gpu_cluster_gym.workloads import Workload

Maker = Callable[[], Policy]
"""A function without arguments that returns a new policy for an episode."""

Outcome = TypeVar("Outcome")

BOUND = "lower bound"
ROUNDING = 1e-9
"""Relative rounding error allowed in a mean JCT."""


@dataclass(frozen=True)
class Failure:
    """The error of a policy.

    why: the window and the error, in a sentence
    traceback: the error's traceback; empty for a result that is refused
    """

    why: str
    traceback: str = ""


def simulate(
    makers: Mapping[str, Maker],
    workloads: Sequence["Workload"],
    *,
    processes: int = 1,
    done: Callable[[str, pd.DataFrame], None] | None = None,
    failed: dict[str, Failure] | None = None,
    journal: Journal | None = None,
) -> dict[str, pd.DataFrame]:
    """Return each policy's results table over all workloads; see `run_all` for the arguments."""
    how: dict[str, Any] = {"processes": processes, "done": done, "failed": failed, "journal": journal}
    parts = run_all(run_window, makers, workloads, **how)
    return {name: pd.concat(tables, ignore_index=True) for name, tables in parts.items()}


def run_all(
    run_one: Callable[..., Outcome],
    makers: Mapping[str, Maker],
    workloads: Sequence["Workload"],
    *,
    processes: int = 1,
    done: Callable[[str, Outcome], None] | None = None,
    failed: dict[str, Failure] | None = None,
    journal: Journal | None = None,
    of_tables: Callable[[Sequence[pd.DataFrame]], Any] = operator.itemgetter(0),
) -> dict[str, list[Outcome]]:
    """Run each policy on each workload and return the outcomes by policy, in the order of the workloads.

    run_one: function of a maker, a workload and the keyword `oracle`, such as `run_window`.
    makers: a `Maker` for each policy name.
    workloads: windows of one split; all policies run on the first before any runs on the second.
    processes: number of worker processes, see `each`; the outcomes do not depend on it.
    done: callback with the policy's name and the outcome, called as each simulation ends.
    failed: dictionary to which the first error of each policy that fails in a window is added, by name; such a policy
        has no outcomes. None: an error is raised, and no outcomes are returned.
    journal: outcomes, a table or a tuple of tables, are read from it where it has them, and else committed to it.
    of_tables: makes an outcome of its tables in the journal.

    ValueError for windows of more than one split, since results identify a window by its number alone.
    """
    if len(splits := {load.window.split for load in workloads}) > 1:
        raise ValueError(f"expected windows of one split, got {' and '.join(sorted(splits))}")
    attempt = _attempt if failed is not None else _plainly
    cells = [(name, workload) for workload in workloads for name in makers]
    found: dict[int, Any] = {}

    def came(cell: int, outcome: Any) -> None:
        found[cell] = outcome
        if done and not isinstance(outcome, Failure):
            done(cells[cell][0], outcome)

    if journal:
        for cell, (name, workload) in enumerate(cells):
            kept = attempt(partial(journal.read, name, workload.window.number), workload)
            if kept is not None:
                came(cell, kept if isinstance(kept, Failure) else of_tables(kept))
    left = [cell for cell in range(len(cells)) if cell not in found]
    tasks: list[Callable[[], Any]] = []
    for name, workload in (cells[cell] for cell in left):
        task = partial(run_one, makers[name], workload, oracle=is_oracle(name))
        tasks.append(partial(attempt, task, workload))
    try:
        for place, outcome in each(tasks, processes):
            name, workload = cells[left[place]]
            if journal and not isinstance(outcome, Failure):
                tables = outcome if isinstance(outcome, tuple) else (outcome,)
                write = partial(journal.write, name, workload.window.number, tables)
                outcome = attempt(write, workload) or outcome  # the error, if it cannot be written
            came(left[place], outcome)
    except LostError as lost:
        if failed is None:
            raise
        for place in lost.places:
            found[left[place]] = Failure(f"window {cells[left[place]][1].window.number}: {DIED}")
    outcomes: dict[str, list[Outcome]] = {name: [] for name in makers}
    for (name, _), outcome in zip(cells, map(found.__getitem__, range(len(cells))), strict=True):
        if failed is not None and isinstance(outcome, Failure):
            failed.setdefault(name, outcome)
        else:
            outcomes[name].append(outcome)
    return {name: each for name, each in outcomes.items() if not failed or name not in failed}


def _plainly(task: Callable[[], Outcome], workload: "Workload") -> Outcome:
    """Return the outcome of a task; its error is raised."""
    return task()


def _attempt(task: Callable[[], Outcome], workload: "Workload") -> Outcome | Failure:
    """Return the outcome of a task, or its error; an error of unknown kind with the line that raised it."""
    try:
        return task()
    except Exception as error:
        return Failure(f"window {workload.window.number}: {reason_of(error)}", traceback.format_exc())


def reason_of(error: Exception) -> str:
    """Return the text of an error; of one that the simulator does not raise, also its kind and its line."""
    if isinstance(error, ValueError | RuntimeError) and str(error):
        return str(error)
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(at.filename).name}, line {at.lineno})"


def is_oracle(name: str) -> bool:
    """Return whether the name is that of an oracle, which may read true run times."""
    return name.endswith("_oracle")


def run_window(make: Maker, workload: "Workload", *, oracle: bool = False) -> pd.DataFrame:
    """Return the results table of a new policy on a workload; oracle: whether it may read true run times."""
    return workload.results(run(make(), workload.episode(), oracle=oracle))


def score(
    tables: Mapping[str, pd.DataFrame],
    workloads: Sequence["Workload"],
    least: pd.DataFrame | None = None,
    failed: dict[str, Failure] | None = None,
) -> dict[str, pd.DataFrame]:
    """Return each policy's summary, one row per window, with fairness if the trace has `OWNERS`.

    tables: results by policy, as `simulate` returns them. workloads: the windows that were simulated.
    least: their lower bounds, as `bounds` returns them; computed if not given.
    failed: dictionary to which policies with a mean JCT below its lower bound are added, with the reason; these have no
        summary. None: RuntimeError.
    """
    cluster, owned = workloads[0].cluster, owners(workloads)
    summaries = {
        name: summarise(table, gpus=cluster.num_gpus, cores=sum(cluster.node_cores), owners=owned)
        for name, table in tables.items()
    }
    least = bounds(workloads) if least is None else least
    if failed is None:
        check_bounds(summaries, least)
        return summaries
    for name, summary in summaries.items():
        if why := below_bound(summary, least):
            failed[name] = Failure(why)
    return {name: each for name, each in summaries.items() if name not in failed}


def owners(workloads: Sequence["Workload"]) -> pd.DataFrame | None:
    """Return `window`, `job_id` and those of `OWNERS` that all windows have, a row per counted job; None for none."""
    tables = [with_tenants(load)[load.counted].assign(window=load.window.number) for load in workloads]
    known = [name for name in OWNERS if all(name in each for each in tables)]
    return pd.concat(each[["window", "job_id", *known]] for each in tables) if known else None


def with_tenants(load: "Workload") -> pd.DataFrame:
    """Return a workload's job table, in which quotas name the tenants if there are any."""
    if not load.tenants:
        return load.table
    return load.table.assign(tenant=np.array(load.tenants.names, object)[load.tenants.of_job])


def bounds(workloads: Sequence["Workload"]) -> pd.DataFrame:
    """Return a lower bound of each window's `mean_jct_s` over all schedules, in the form of a summary."""
    return pd.DataFrame(
        {
            "window": [load.window.number for load in workloads],
            "seed": [load.scenario.seed for load in workloads],
            "mean_jct_s": [lower_bound(load.episode(), load.counted) for load in workloads],
        }
    )


def check_bounds(summaries: Mapping[str, pd.DataFrame], bounds: pd.DataFrame) -> None:
    """Raise RuntimeError if a mean JCT is below its lower bound."""
    for name, summary in summaries.items():
        if why := below_bound(summary, bounds):
            raise RuntimeError(f"{name}: {why}")


def below_bound(summary: pd.DataFrame, bounds: pd.DataFrame) -> str:
    """Return a sentence about the first window whose mean JCT is below its lower bound; empty if none is."""
    both = summary.merge(bounds, on=["window", "seed"], suffixes=("", "_least"), validate="one_to_one")
    wrong = both[both["mean_jct_s"] < both["mean_jct_s_least"] * (1 - ROUNDING)]
    if not len(wrong):
        return ""
    window, jct_s, least_s = wrong[["window", "mean_jct_s", "mean_jct_s_least"]].iloc[0]
    return (
        f"the mean JCT of window {window:.0f}, {jct_s:g} s, is below the theoretical lower bound of {least_s:g} s: the "
        "simulator's state was corrupted"
    )


def document(
    summaries: Mapping[str, pd.DataFrame],
    bounds: pd.DataFrame,
    reference: str,
    intervals: Mapping[str, tuple[float, float]] | None = None,
) -> dict[str, Any]:
    """Return the content of summary.json: means over windows, ratios to the reference, and every window's numbers.

    intervals: of the ratios in a full trace, by policy.
    """
    ratios = {name: compare(each, summaries[reference])._asdict() for name, each in summaries.items()}
    for name, (low, high) in (intervals or {}).items():
        ratios[name] |= {"low": low, "high": high}
    return {
        "reference": reference,
        "lower_bound_mean_jct_s": float(pool(bounds)["mean_jct_s"]),
        "gap_closed": gaps_closed(summaries, bounds, reference),
        "mean_over_windows": {name: pool(each).to_dict() for name, each in summaries.items()},
        "mean_jct_ratio": ratios,
        "by_window": {name: each.to_dict("records") for name, each in summaries.items()},
    }


def gaps_closed(
    summaries: Mapping[str, pd.DataFrame], bounds: pd.DataFrame, reference: str
) -> dict[str, float]:
    """Return the share of the gap from the reference to the lower bound that each policy closes; {} without a gap.

    Gaps are differences of mean JCT ratios to the reference, averaged over windows as in the table.
    """
    ratios = {
        name: float(paired_ratios([each], [summaries[reference]]).mean())
        for name, each in (*summaries.items(), (BOUND, bounds))
    }
    if (least := ratios.pop(BOUND)) >= 1 - ROUNDING:
        return {}
    return {name: gap_closed(1.0, ratio, least) for name, ratio in ratios.items()}
