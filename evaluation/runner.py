"""Simulation of policies on the same workloads, with their summaries and the check against the lower bound."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd

from gpu_cluster_gym.evaluation.comparison import compare, paired_ratios
from gpu_cluster_gym.evaluation.journal import journalled, only
from gpu_cluster_gym.evaluation.lower_bound import gap_closed, lower_bound
from gpu_cluster_gym.evaluation.metrics import pool, summarise
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Policy

if TYPE_CHECKING:
    from gpu_cluster_gym.workloads import Workload

Maker = Callable[[], Policy]
"""A function without arguments that returns a new policy for an episode."""

Outcome = TypeVar("Outcome")

BOUND = "lower bound"
ROUNDING = 1e-9
"""Relative rounding error allowed in a mean JCT."""


def simulate(
    makers: Mapping[str, Maker],
    workloads: Sequence["Workload"],
    *,
    processes: int = 1,
    done: Callable[[str, pd.DataFrame], None] | None = None,
) -> dict[str, pd.DataFrame]:
    """Return each policy's results table over all workloads; see `run_all` for the arguments."""
    parts = run_all(run_window, makers, workloads, processes=processes, done=done)
    return {name: pd.concat(tables, ignore_index=True) for name, tables in parts.items()}


def run_all(
    run_one: Callable[..., Outcome],
    makers: Mapping[str, Maker],
    workloads: Sequence["Workload"],
    *,
    processes: int = 1,
    done: Callable[[str, Outcome], None] | None = None,
) -> dict[str, list[Outcome]]:
    """Run each policy on each workload and return the outcomes by policy, in the order of the workloads.

    run_one: function of a maker, a workload and the keyword `oracle`, such as `run_window`.
    makers: a `Maker` for each policy name.
    workloads: windows of one split; all policies run on the first before any runs on the second.
    processes: number of worker processes; the outcomes do not depend on it.
    done: callback with the policy's name and the outcome, called as each simulation ends.

    ValueError for windows of more than one split, since results identify a window by its number alone.
    """
    if len(splits := {load.window.split for load in workloads}) > 1:
        raise ValueError(f"expected windows of one split, got {' and '.join(sorted(splits))}")
    outcomes: dict[str, list[Outcome]] = {name: [] for name in makers}
    pairs = [(name, workload) for workload in workloads for name in makers]
    tasks = [partial(run_one, makers[name], workload, oracle=is_oracle(name)) for name, workload in pairs]
    for (name, _), outcome in zip(pairs, _in_order(tasks, processes), strict=True):
        outcomes[name].append(outcome)
        if done:
            done(name, outcome)
    return outcomes


def is_oracle(name: str) -> bool:
    """Return whether the name is that of an oracle, which may read true run times."""
    return name.endswith("_oracle")


@journalled(only)
def run_window(make: Maker, workload: "Workload", *, oracle: bool = False) -> pd.DataFrame:
    """Return the results table of a new policy on a workload; oracle: whether it may read true run times."""
    return workload.results(run(make(), workload.episode(), oracle=oracle))


def _in_order(tasks: Sequence[Callable[[], Outcome]], processes: int) -> Iterator[Outcome]:
    """Yield the outcomes of tasks in their order, computed by worker processes if there are several."""
    if processes == 1:
        yield from (task() for task in tasks)
        return
    from joblib import Parallel, delayed

    with warnings.catch_warnings():
        # joblib replaces a worker whose memory has grown, as it does once the simulator or Torch is loaded
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
        yield from Parallel(processes, return_as="generator", batch_size=1)(delayed(task)() for task in tasks)


def score(
    tables: Mapping[str, pd.DataFrame], workloads: Sequence["Workload"], least: pd.DataFrame | None = None
) -> dict[str, pd.DataFrame]:
    """Return each policy's summary, one row per window, with fairness if the trace has users or virtual clusters.

    tables: results by policy, as `simulate` returns them. workloads: the windows that were simulated.
    least: their lower bounds, as `bounds` returns them; computed if not given.

    RuntimeError if a mean JCT is below its lower bound.
    """
    cluster = workloads[0].cluster
    owner_columns = [name for name in ("user", "vc") if all(name in load.table for load in workloads)]
    owned = [load.table[["job_id", *owner_columns]].assign(window=load.window.number) for load in workloads]
    owners = pd.concat(owned) if owner_columns else None
    summaries = {
        name: summarise(table, gpus=cluster.num_gpus, cores=sum(cluster.node_cores), owners=owners)
        for name, table in tables.items()
    }
    check_bounds(summaries, bounds(workloads) if least is None else least)
    return summaries


def bounds(workloads: Sequence["Workload"]) -> pd.DataFrame:
    """Return a lower bound of each window's `mean_jct_s` over all schedules, in the form of a summary."""
    return pd.DataFrame(
        {
            "window": [load.window.number for load in workloads],
            "seed": [load.scenario.seed for load in workloads],
            "mean_jct_s": [lower_bound(load.episode()) for load in workloads],
        }
    )


def check_bounds(summaries: Mapping[str, pd.DataFrame], bounds: pd.DataFrame) -> None:
    """Raise RuntimeError if a mean JCT is below its lower bound."""
    for name, summary in summaries.items():
        both = summary.merge(bounds, on=["window", "seed"], suffixes=("", "_least"), validate="one_to_one")
        wrong = both[both["mean_jct_s"] < both["mean_jct_s_least"] * (1 - ROUNDING)]
        if len(wrong):
            window, jct_s, least_s = wrong[["window", "mean_jct_s", "mean_jct_s_least"]].iloc[0]
            raise RuntimeError(
                f"{name}: the mean JCT of window {window:.0f}, {jct_s:g} s, is below the theoretical lower bound "
                f"of {least_s:g} s: the simulator's state was corrupted"
            )


def document(summaries: Mapping[str, pd.DataFrame], bounds: pd.DataFrame, reference: str) -> dict[str, Any]:
    """Return the content of summary.json: means over windows, ratios to the reference, and every window's numbers."""
    return {
        "reference": reference,
        "lower_bound_mean_jct_s": float(pool(bounds)["mean_jct_s"]),
        "gap_closed": gaps_closed(summaries, bounds, reference),
        "mean_over_windows": {name: pool(each).to_dict() for name, each in summaries.items()},
        "mean_jct_ratio": {
            name: compare(each, summaries[reference])._asdict() for name, each in summaries.items()
        },
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
