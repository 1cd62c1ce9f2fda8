"""Windows ready to be begun again and again: a fresh record, its jobs, and what the default rule makes of them."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from gpu_cluster_gym.envs.validation import weights, whole_number, word
from gpu_cluster_gym.simulator.choice import changed
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.rule_policy import Rule, memory_of
from gpu_cluster_gym.workloads import Scenario, Split, Workload, cached, full_trace, make_scenario, windows

DEFAULT = Rule()
"""What actions begin as unless other weights are named: `union`."""


class Opening:
    """A window as it begins, with profiles fitted, and the run on it of a rule, the default one."""

    def __init__(self, workload: Workload, rule: Rule = DEFAULT) -> None:
        """Take the window and the default rule; nothing is simulated before it is asked for."""
        self.workload, self.rule = workload, rule

    @cached_property
    def episode(self) -> Episode:
        """The window at its beginning."""
        return self.workload.episode()

    @cached_property
    def memory(self) -> np.ndarray:
        """What the default rule keeps at its beginning, one record; the jobs' profiles are fitted."""
        episode = self.episode
        return memory_of(self.rule, episode.states, episode.jobs, episode.histories)

    @cached_property
    def default_finish_s(self) -> np.ndarray:
        """When each job ends under the default rule, s: (jobs,)."""
        played = run(self.rule, self.workload.episode())
        finish: np.ndarray = played.state.finish_s[: len(played.jobs)].copy()
        return finish

    @cached_property
    def default_job_seconds(self) -> float:
        """Sum of the job completion times under the default rule, s."""
        return float((self.default_finish_s - self.episode.jobs["submit_s"]).sum())


@cached(8)
def openings(scenario: Scenario, split: Split, count: int, rule: Rule = DEFAULT) -> tuple[Opening, ...]:
    """Return windows that all environments of a process share; the whole trace as the only one if so chosen."""
    found = (full_trace(scenario),) if scenario.full_trace else windows(scenario, split, count)
    return tuple(Opening(workload, rule) for workload in found)


def opened(
    scenario: Mapping[str, Any] | None,
    workload: str | None,
    split: Split,
    count: int,
    start: Mapping[str, float] | None = None,
) -> tuple[Opening, ...]:
    """Return the windows of a named workload, Philly's without one; scenario: fields that differ from its own.

    start: weights of the default rule that differ from `union`'s. ValueError for what is none, or out of bounds.
    """
    rule = changed(DEFAULT, weights("start", start))
    return openings(
        make_scenario(workload, scenario), word("split", split), whole_number("count", count), rule
    )
