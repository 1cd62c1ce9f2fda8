"""Windows ready to be begun again and again: a fresh record and its jobs, and what the default rule makes of each."""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from simulator.choice import changed
from simulator.episode import Episode, run
from simulator.rule import Rule, memory_of
from workloads import Scenario, Split, Workload, named, whole, windows

DEFAULT = Rule()


class Opening:
    """A window as it begins, with profiles fitted, and the run of the default rule on it."""

    def __init__(self, workload: Workload) -> None:
        """Take the window; nothing is simulated before it is asked for."""
        self.workload = workload

    @cached_property
    def episode(self) -> Episode:
        """The window at its beginning."""
        return self.workload.episode()

    @cached_property
    def memory(self) -> np.ndarray:
        """What the default rule keeps at its beginning, one record; the jobs' profiles are fitted."""
        episode = self.episode
        return memory_of(DEFAULT, episode.states, episode.jobs, episode.histories)

    @cached_property
    def default_finish_s(self) -> np.ndarray:
        """When each job ends under the default rule, s: (jobs,)."""
        played = run(DEFAULT, self.workload.episode())
        finish: np.ndarray = played.state.finish_s[: len(played.jobs)].copy()
        return finish

    @cached_property
    def default_job_seconds(self) -> float:
        """Sum of the job completion times under the default rule, s."""
        return float((self.default_finish_s - self.episode.jobs["submit_s"]).sum())

    def parts(self, count: int) -> np.ndarray:
        """Return when each of `count` like shares of the arrivals begins, s, the first left out.

        They are fewer where many jobs come at once.
        """
        submit_s: np.ndarray = self.episode.jobs["submit_s"]
        begins = np.unique(submit_s[np.arange(1, count) * len(submit_s) // count])
        later: np.ndarray = begins[begins > submit_s[0]]
        return later


@lru_cache(maxsize=8)
def openings(scenario: Scenario, split: Split, count: int) -> tuple[Opening, ...]:
    """Return windows that all environments of a process share; the whole trace as the only one if so chosen."""
    found = (whole(scenario),) if scenario.whole else windows(scenario, split, count)
    return tuple(Opening(workload) for workload in found)


def opened(
    scenario: Mapping[str, Any] | None, workload: str | None, split: Split, count: int
) -> tuple[Opening, ...]:
    """Return the windows of a named workload, Philly's without one; scenario: fields that differ from its own."""
    return openings(changed(named(workload) if workload else Scenario(), scenario or {}), split, count)
