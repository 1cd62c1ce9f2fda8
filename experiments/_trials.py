"""Trials: policies compared with each other on the same sampled workloads, in several settings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluation import runner
from gpu_cluster_gym.evaluation.comparison import Estimate, compare, estimate
from gpu_cluster_gym.evaluation.journal import Journal
from gpu_cluster_gym.evaluation.runner import Maker
from gpu_cluster_gym.workloads import Workload, named, prepare, windows

Case = tuple[str, str]
"""Names of a setting and a policy."""


class Setting(NamedTuple):
    """Conditions under which policies are compared.

    name: of the setting. workloads: one per trial, the same for all policies. policies: a maker for each name.
    """

    name: str
    workloads: Sequence[Workload]
    policies: Mapping[str, Maker]


def sample_trials(workload: str, trials: int, seed: int, **choices: Any) -> list[Workload]:
    """Return the trials of a named workload: its first test windows, without the filter for moderate queueing.

    choices: fields of the scenario that differ from the named workload's.
    """
    scenario = named(workload)
    return windows(replace(scenario, seed=seed, all_windows=True, **choices), "test", trials)


def change_trials(
    workloads: Sequence[Workload],
    change: Callable[[pd.DataFrame], pd.DataFrame] | None = None,
    /,
    **choices: Any,
) -> list[Workload]:
    """Return the same trials with changed job tables, changed fields of the scenario, or both."""
    return [
        prepare(
            change(load.table) if change else load.table,
            replace(load.scenario, **choices),
            window=load.window,
        )
        for load in workloads
    ]


def default_policies(*names: str) -> dict[str, Maker]:
    """Return policies of `baselines/` with their default settings."""
    return {name: partial(baselines.make, baselines.load(name)) for name in names}


def size(settings: Sequence[Setting]) -> int:
    """Return the number of simulations in the settings."""
    return sum(len(setting.workloads) * len(setting.policies) for setting in settings)


def simulate(
    settings: Sequence[Setting],
    *,
    processes: int = 1,
    done: Callable[[str, pd.DataFrame], None] | None = None,
    journal: Journal | None = None,
) -> "Outcome":
    """Run every policy on every workload of every setting; see `runner.run_all` for the keywords.

    RuntimeError after a setting in which a policy fails: it names setting, policy and window.
    """
    results: dict[Case, pd.DataFrame] = {}
    summaries: dict[Case, pd.DataFrame] = {}
    for setting in settings:
        own = journal and journal.within(
            setting.name
        )  # settings have the same policies and windows, on other jobs
        failed: dict[str, runner.Failure] = {}
        how: dict[str, Any] = {"processes": processes, "done": done, "journal": own, "failed": failed}
        tables = runner.simulate(setting.policies, setting.workloads, **how)
        scores = runner.score(tables, setting.workloads, failed=failed)
        for policy, failure in failed.items():
            raise RuntimeError(f"{setting.name}: {policy}, {failure.why}")
        results |= {(setting.name, policy): table for policy, table in tables.items()}
        summaries |= {(setting.name, policy): summary for policy, summary in scores.items()}
    return Outcome(results, summaries)


@dataclass(frozen=True)
class Outcome:
    """Outcome of all trials.

    results: by case, a row per job. summaries: by case, a row of metrics per trial.
    """

    results: dict[Case, pd.DataFrame]
    summaries: dict[Case, pd.DataFrame]

    def counts(self) -> dict[str, int]:
        """Return the number of trials of each setting."""
        return {setting: len(summary) for (setting, _), summary in self.summaries.items()}

    def policies(self, setting: str) -> list[str]:
        """Return the policies of a setting, in order."""
        return [policy for place, policy in self.summaries if place == setting]

    def mean(self, case: Case, number: str = "mean_jct_s") -> Estimate:
        """Return the mean of a metric over trials."""
        return estimate(self.summaries[case][number])

    def ratio(self, case: Case, reference: Case, number: str = "mean_jct_s") -> Estimate:
        """Return the mean over trials of the ratio of a metric to the reference's in the same trial."""
        found = compare(self.summaries[case], self.summaries[reference], metric=number)
        return Estimate(found.ratio, found.low, found.high)

    def saving(self, case: Case, reference: Case, number: str = "mean_jct_s") -> Estimate:
        """Return 1 - ratio: the share by which a metric is below the reference's."""
        ratio = self.ratio(case, reference, number)
        return Estimate(1 - ratio.mean, 1 - ratio.high, 1 - ratio.low)

    def difference(self, case: Case, reference: Case, number: str) -> Estimate:
        """Return the mean over trials of a metric minus the reference's in the same trial."""
        ours, theirs = (
            self.summaries[each].set_index(["window", "seed"])[number] for each in (case, reference)
        )
        return estimate(ours - theirs)

    def table(self) -> pd.DataFrame:
        """Return all summaries as one table, a row per trial and case."""
        parts = []
        for (setting, policy), summary in self.summaries.items():
            part = summary.copy()
            part.insert(0, "setting", setting)
            part.insert(1, "policy", policy)
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    def numbers(self) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
        """Return mean and interval of every metric, by setting, policy and metric."""
        means: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
        for (setting, policy), summary in self.summaries.items():
            values = summary.drop(columns=["window", "seed"])
            each = {str(name): estimate(column)._asdict() for name, column in values.items()}
            means.setdefault(setting, {})[policy] = each
        return means
