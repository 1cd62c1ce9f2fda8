"""What an environment plays: its windows, what is seen, done and paid, and the base policy."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from gpu_cluster_gym.envs.validation import finite, whole_number, word
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.simulator.source import adopt
from gpu_cluster_gym.traces import find, unknown
from gpu_cluster_gym.workloads import Scenario, Split, Workload, cached, full_trace, windows

SCRATCH, BEFORE = 1, 2  # records of an episode, the last of which keeps the state before an action
MOST_INSTANTS = 1000  # for each job; an agent that only pauses and restarts jobs is cut there
OPTIONS = ("split", "window")  # of a reset
WITH_PICK = {"slots", "rollout_advantage"}  # what shows or pays the slots that one may pick, and no more

Illegal = Literal["raise", "first_legal"]
"""What happens on an action that is illegal: ValueError, or the first legal one instead."""


def forgives(illegal: str) -> bool:
    """Tell whether the first legal action takes the place of an illegal one; ValueError for an unknown choice."""
    if illegal not in get_args(Illegal):
        raise ValueError(f"illegal {illegal!r}: expected one of {', '.join(get_args(Illegal))}")
    return illegal == "first_legal"


@cached(8)
def shared_windows(scenario: Scenario, split: Split, count: int) -> tuple[Workload, ...]:
    """Return windows that all environments of a process share; the whole trace as the only one if so chosen."""
    return (full_trace(scenario),) if scenario.full_trace else tuple(windows(scenario, split, count))


class Task:
    """The windows and kinds of an environment, which never change; episodes at their beginning.

    workloads: by window's number. windows: their numbers. split: of which. observation, action, reward: the kinds.
    looks_ahead: whether a reward may simulate what would have been.
    """

    def __init__(
        self,
        scenario: Scenario,
        base_policy: Ranking,
        *,
        split: Split,
        count: int,
        observation: str,
        action: str,
        reward: str,
    ) -> None:
        """Find the windows and kinds; ValueError where there is no such, or they do not go together."""
        self.base_policy = base_policy
        found = shared_windows(scenario, word("split", split), whole_number("count", count))
        self.workloads = {load.window.number: load for load in found}
        self.windows, self.split = tuple(self.workloads), found[0].window.split
        self.observation, self.action = seen_and_done(observation, action)
        self.reward = find("envs.rewards", reward, "reward")
        refuse_without_pick(action, reward)
        self.looks_ahead = reward != "jct"
        self._scales: dict[int, float] = {}
        self._templates: dict[int, Episode] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> "Task":
        """Return itself: it never changes, but for what it has made already."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the templates, which are made again."""
        return vars(self) | {"_templates": {}}

    def window(self, number: int | None, rng: np.random.Generator) -> int:
        """Return a window's number if there is that window, or a random one for None; ValueError if there is not."""
        return one_of_windows(self.windows, number, rng)

    def template(self, number: int) -> Episode:
        """Return an episode at its beginning, under the base policy, that is made once and never played."""
        if number not in self._templates:
            episode = self.workloads[number].episode(rows=BEFORE + 1)
            adopt(episode.states, 0, episode.jobs, self.base_policy)
            self._templates[number] = episode
        return self._templates[number]

    def episode(self, number: int) -> Episode:
        """Return an episode at its beginning, under the base policy."""
        return copy.deepcopy(self.template(number))

    def base_jct(self, number: int) -> float:
        """Return the mean JCT of the base policy on a window, s."""
        if number not in self._scales:
            episode = run(self.base_policy, self.workloads[number].episode())
            self._scales[number] = mean_jct(episode.states[0], episode.jobs)
        return self._scales[number]


def base_policy(exponent: float, margin: float) -> Ranking:
    """Return the heuristic that orders the slots, and that an agent may begin as; see `baselines.xion_threshold`.

    ValueError for what is no exponent, or no margin: an infinite one never pauses a job.
    """
    finite("exponent", exponent)
    if margin != np.inf:
        finite("margin", margin, least=0)
    return Ranking("weighted", "cost_aware", exponent=exponent, margin=margin)


def seen_and_done(observation: str, action: str) -> tuple[Any, Any]:
    """Return an observation and an action by name; ValueError where there is no such, or they do not go together."""
    found = (
        find("envs.observations", observation, "observation"),
        find("envs.actions", action, "action"),
    )
    refuse_without_pick(action, observation)
    return found


def refuse_without_pick(action: str, kind: str) -> None:
    """ValueError for an observation, or a reward, of the slots that one may pick with another action."""
    if action != "pick" and kind in WITH_PICK:
        raise ValueError(f"{kind} goes with the action 'pick', not with {action!r}")


def mean_jct(state: np.record, jobs: np.ndarray) -> float:
    """Return the mean job completion time of an episode that has ended, s."""
    return float((state.finish_s[: len(jobs)] - jobs["submit_s"]).mean())


def one_of_windows(windows: Sequence[int], number: int | None, rng: np.random.Generator) -> int:
    """Return a window's number if it is among these, or a random one for None; ValueError if it is not."""
    if number is None:
        return windows[int(rng.integers(len(windows)))]
    if number not in windows:
        raise ValueError(
            f"there is no window {number} among the {len(windows)}: {', '.join(map(str, windows))}"
        )
    return number


def window_named(options: Mapping[str, Any] | None, split: str) -> Any:
    """Return the window that the options of a reset name, None for none.

    They are as an `info` tells them: `window`, and `split`, which must be the environment's own. ValueError for others.
    """
    given = options or {}
    for name in given:
        if name not in OPTIONS:
            raise ValueError(unknown("option of a reset", name, OPTIONS))
    wanted = {str(each) for each in np.ravel(given.get("split", split))}
    if other := sorted(wanted - {split}):
        raise ValueError(
            f"split {other[0]!r}: this environment has windows of {split!r} alone; make another with split={other[0]!r}"
        )
    return given.get("window")


def pythons_own(seed: Any) -> Any:
    """Return a seed as an integer of Python, where it is one of NumPy, which Gymnasium takes for none."""
    return int(seed) if isinstance(seed, np.integer) else seed


def why_illegal(action: int, count: int) -> str:
    """Say that an action is illegal, and what would work; count: of all actions."""
    if not 0 <= action < count:
        return f"there is no action {action}: they are 0 to {count - 1}"
    return (
        f"action {action} is illegal now: see action_masks(), which MaskablePPO of sb3-contrib asks, or "
        "info['action_mask']; illegal='first_legal' takes the first legal action instead"
    )
