"""Windows of an environment: preparation, choice at a reset, and seeds of the members of a batch."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from gpu_cluster_gym.envs.validation import weights, whole_number, word
from gpu_cluster_gym.simulator.choice import changed
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.simulator.rule_policy import Rule, memory_of
from gpu_cluster_gym.simulator.source import adopt
from gpu_cluster_gym.traces import unknown
from gpu_cluster_gym.workloads import (
    DEFAULT as COMMANDS_WORKLOAD,
)
from gpu_cluster_gym.workloads import (
    Scenario,
    Split,
    Workload,
    base,
    cached,
    full_trace,
    make_scenario,
    named,
    windows,
)

DEFAULT = Rule()
"""The policy `union`: reference of the actions `moves` and `steer` unless other weights are given."""
WORKLOAD = "quick"
"""The workload of an environment unless another one, or a log, is named."""
MAX_INSTANTS_PER_JOB = 1000  # an episode is truncated after this many instants for each of its jobs
RESET_OPTIONS = ("split", "window")


@cached(8)
def shared_windows(scenario: Scenario, split: Split, count: int) -> tuple[Workload, ...]:
    """Return windows that all environments of a process share; the full trace as one if the scenario says so."""
    return (full_trace(scenario),) if scenario.full_trace else of_one_size(windows(scenario, split, count))


def of_one_size(found: Sequence[Workload]) -> tuple[Workload, ...]:
    """Return windows that can be batched: each record has room for as many jobs or dependencies as any window has."""
    most = max((each.room for each in found), default=0)
    return tuple(each if each.room == most else replace(each, min_room=most) for each in found)


class PreparedWindow:
    """A window ready to be played many times, with the results of its reference policy.

    workload: the window.
    reference: the policy to which `jct_ratio` and rewards compare an agent: the base policy of action `plain`, or the
    default rule of `moves` and `steer`.
    """

    def __init__(self, workload: Workload, reference: Ranking | Rule = DEFAULT) -> None:
        """Store the window and the reference; nothing is simulated before it is needed."""
        self.workload, self.reference = workload, reference

    def __deepcopy__(self, memo: dict[int, Any]) -> "PreparedWindow":
        """Return itself: a prepared window never changes."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return the window and the reference; the rest is computed again."""
        return {"workload": self.workload, "reference": self.reference}

    @cached_property
    def episode(self) -> Episode:
        """The episode at its beginning, never played; a reference that is a ranking is active in it."""
        episode = self.workload.episode()
        if isinstance(self.reference, Ranking):
            adopt(episode.states, 0, episode.jobs, self.reference)
        return episode

    @cached_property
    def memory(self) -> np.ndarray:
        """Initial memory of a reference that is a rule: one record. Access fits speed models to the jobs' profiles."""
        assert isinstance(self.reference, Rule)
        episode = self.episode
        return memory_of(self.reference, episode.states, episode.jobs, episode.histories)

    @cached_property
    def reference_finish_s(self) -> np.ndarray:
        """End of each job under the reference policy, s: float64 (jobs,)."""
        played = run(self.reference, self.workload.episode())
        finish: np.ndarray = played.state.finish_s[: len(played.jobs)].copy()
        return finish

    @cached_property
    def reference_job_seconds(self) -> float:
        """Sum of the completion times of the jobs that count, under the reference policy, s."""
        return float((self.reference_finish_s - self.episode.jobs["submit_s"])[self.workload.counted].sum())

    @cached_property
    def reference_mean_jct_s(self) -> float:
        """Mean completion time of the jobs that count, under the reference policy, s."""
        return float((self.reference_finish_s - self.episode.jobs["submit_s"])[self.workload.counted].mean())


@cached(8)
def prepared_windows(
    scenario: Scenario, split: Split, count: int, reference: Ranking | Rule = DEFAULT
) -> tuple[PreparedWindow, ...]:
    """Return prepared windows that all environments of a process share."""
    return tuple(PreparedWindow(workload, reference) for workload in shared_windows(scenario, split, count))


def prepare(
    scenario: Mapping[str, Any] | None,
    workload: str | None,
    split: Split,
    count: int,
    reference: Ranking | Rule = DEFAULT,
) -> tuple[PreparedWindow, ...]:
    """Return the prepared windows of a named workload.

    scenario: fields that differ from the workload's.
    workload: None for `quick`; but where the fields name a log, another trace, or a choice that only windows with a
      fixed number of jobs have, for those of `workloads.base`, as in the commands.
    """
    fields = scenario if isinstance(scenario, Mapping) else {}
    if workload is None and base(fields) == named(COMMANDS_WORKLOAD):
        workload = WORKLOAD
    found = make_scenario(workload, scenario)
    return prepared_windows(found, word("split", split), whole_number("count", count), reference)


def default_rule(default_weights: Mapping[str, float] | None) -> Rule:
    """Return `union` with some weights changed; ValueError for an unknown weight or one out of bounds."""
    return changed(DEFAULT, weights("default_weights", default_weights))


def window_number(numbers: Sequence[int], number: int | None, rng: np.random.Generator) -> int:
    """Return a window's number if it is one of `numbers`, or a random one for None; else ValueError."""
    if number is None:
        return numbers[int(rng.integers(len(numbers)))]
    if number not in numbers:
        raise ValueError(
            f"window {number!r}: expected one of this environment's {len(numbers)} windows: "
            f"{', '.join(map(str, numbers))}"
        )
    return number


def window_option(options: Mapping[str, Any] | None, split: str) -> Any:
    """Return the window that the options of a reset name, or None.

    Options are `window` and `split`, as an `info` has them. ValueError for another option, or for another split than
    the environment's.
    """
    given = options or {}
    for name in given:
        if name not in RESET_OPTIONS:
            raise ValueError(unknown("reset option", name, RESET_OPTIONS))
    wanted = {str(each) for each in np.ravel(given.get("split", split))}
    if other := sorted(wanted - {split}):
        raise ValueError(
            f"split {other[0]!r}: this environment was created with split={split!r}; create another with "
            f"split={other[0]!r}"
        )
    return given.get("window")


def member_seeds(seed: int, num_envs: int) -> list[int]:
    """Return the seeds of the members of a batch that is reset with one seed.

    Member i has a 128-bit seed from `numpy.random.SeedSequence(seed, spawn_key=(i,))`. Batches with different seeds
    therefore share no random stream, which they would with the seeds seed + i. A single environment that is reset with
    the i-th of these seeds draws the windows of member i.
    """
    sequences = (np.random.SeedSequence(operator.index(seed), spawn_key=(i,)) for i in range(num_envs))
    return [int.from_bytes(each.generate_state(4, np.uint32).tobytes(), "little") for each in sequences]


def python_int(seed: Any) -> Any:
    """Return a NumPy integer as a Python integer, which Gymnasium requires of seeds; other values unchanged."""
    return int(seed) if isinstance(seed, np.integer) else seed
