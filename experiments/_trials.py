"""Trials: policies compared with each other on the same drawn workloads, under several circumstances."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluation import report
from gpu_cluster_gym.evaluation.comparison import Estimate, compare, estimate
from gpu_cluster_gym.evaluation.report import Maker
from gpu_cluster_gym.workloads import Workload, named, prepare, windows

Case = tuple[str, str]
"""A setting and a policy, by their names."""


class Setting(NamedTuple):
    """Circumstances under which policies are compared: the same workloads, one a trial, for each of them."""

    name: str
    workloads: Sequence[Workload]
    policies: Mapping[str, Maker]


def drawn(workload: str, trials: int, seed: int, **choices: Any) -> list[Workload]:
    """Return the trials of a named workload: its first test windows, without a filter.

    choices: fields of the scenario that are to be others than the workload's.
    """
    scenario = named(workload)
    return windows(replace(scenario, seed=seed, all_windows=True, **choices), "test", trials)


def changed(
    workloads: Sequence[Workload],
    change: Callable[[pd.DataFrame], pd.DataFrame] | None = None,
    /,
    **choices: Any,
) -> list[Workload]:
    """Return the same trials with their job tables changed, or with other choices in their scenarios."""
    return [
        prepare(
            change(load.table) if change else load.table,
            replace(load.scenario, **choices),
            window=load.window,
        )
        for load in workloads
    ]


def by_default(*names: str) -> dict[str, Maker]:
    """Return policies of `baselines/` with their default settings."""
    return {name: partial(baselines.make, baselines.load(name)) for name in names}


def size(settings: Sequence[Setting]) -> int:
    """Return how many simulations the settings ask for."""
    return sum(len(setting.workloads) * len(setting.policies) for setting in settings)


def simulate(
    settings: Sequence[Setting],
    *,
    processes: int = 1,
    done: Callable[[str, pd.DataFrame], None] | None = None,
) -> "Found":
    """Run every policy on every workload of every setting, the same whatever the number of processes."""
    results: dict[Case, pd.DataFrame] = {}
    summaries: dict[Case, pd.DataFrame] = {}
    for setting in settings:
        tables = report.simulate(setting.policies, setting.workloads, processes=processes, done=done)
        results |= {(setting.name, policy): table for policy, table in tables.items()}
        scores = report.score(tables, setting.workloads)
        summaries |= {(setting.name, policy): summary for policy, summary in scores.items()}
    return Found(results, summaries)


@dataclass(frozen=True)
class Found:
    """What came of all trials: a results table and a summary, one row a trial, for each case."""

    results: dict[Case, pd.DataFrame]
    summaries: dict[Case, pd.DataFrame]

    def counts(self) -> dict[str, int]:
        """Return how many trials each setting has."""
        return {setting: len(summary) for (setting, _), summary in self.summaries.items()}

    def policies(self, setting: str) -> list[str]:
        """Return the policies that ran in a setting, in their order there."""
        return [policy for place, policy in self.summaries if place == setting]

    def mean(self, case: Case, number: str = "mean_jct_s") -> Estimate:
        """Return the mean over trials of a number."""
        return estimate(self.summaries[case][number])

    def ratio(self, case: Case, reference: Case, number: str = "mean_jct_s") -> Estimate:
        """Return the mean over trials of the ratio of a number to the reference's in the same trial."""
        found = compare(self.summaries[case], self.summaries[reference], number=number)
        return Estimate(found.ratio, found.low, found.high)

    def saving(self, case: Case, reference: Case, number: str = "mean_jct_s") -> Estimate:
        """Return 1 - ratio: the share by which a number lies below the reference's."""
        ratio = self.ratio(case, reference, number)
        return Estimate(1 - ratio.mean, 1 - ratio.high, 1 - ratio.low)

    def difference(self, case: Case, reference: Case, number: str) -> Estimate:
        """Return the mean over trials of a number less the reference's in the same trial."""
        ours, theirs = (
            self.summaries[each].set_index(["window", "seed"])[number] for each in (case, reference)
        )
        return estimate(ours - theirs)

    def other_ends(self, case: Case, reference: Case) -> Estimate:
        """Return how many jobs a trial complete at another time than under the reference."""
        ours, theirs = self.results[case], self.results[reference]
        assert ours[["window", "job_id"]].equals(theirs[["window", "job_id"]]), "results of different jobs"
        return estimate((ours["finish_s"] != theirs["finish_s"]).groupby(ours["window"]).sum())

    def table(self) -> pd.DataFrame:
        """Return every summary, one row a trial and case."""
        parts = []
        for (setting, policy), summary in self.summaries.items():
            part = summary.copy()
            part.insert(0, "setting", setting)
            part.insert(1, "policy", policy)
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    def numbers(self) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
        """Return the mean of every number and its interval, by setting, policy and number."""
        means: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
        for (setting, policy), summary in self.summaries.items():
            values = summary.drop(columns=["window", "seed"])
            each = {str(name): estimate(column)._asdict() for name, column in values.items()}
            means.setdefault(setting, {})[policy] = each
        return means
