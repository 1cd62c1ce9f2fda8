"""Search: settings of a policy tried on training windows, as far as a budget of simulated events goes.

An event is an instant that a simulation handles; whoever learns from simulations, by search or by gradient, can be
given the same number of them. Which settings there are is published as a grid beside the policy.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from envs.episode import run
from envs.policy import Policy, Ranking
from envs.windows import FIRST_SEED

if TYPE_CHECKING:
    from joblib import Parallel

    from envs.scenario import Split
    from envs.workload import Workload

REFERENCE = Ranking("submit")
FINALISTS = 5  # settings that the validation windows choose among, the published ones apart
IN_VAIN = 2  # settings without any difference after which a grid is taken to decide nothing here

Settings = dict[str, Any]
Grid = Mapping[str, Sequence[Any]]
Make = Callable[..., Policy]
"""Makes a policy anew, with settings as keywords; without any as it is published."""


class Trial(NamedTuple):
    """Settings and how they did: score is the mean over windows of mean JCT / FIFO's; events were simulated for it."""

    settings: Settings
    score: float
    events: int


class Outcome(NamedTuple):
    """What a search found: the best settings, all that were tried in their order, and those that were validated.

    `training` and `validation` begin with the published settings, which are written as none.
    """

    best: Settings
    training: list[Trial]
    validation: list[Trial]

    @property
    def events(self) -> int:
        """Events simulated on training windows: what the budget was for."""
        return sum(trial.events for trial in self.training)


def search(
    make: Make,
    grid: Grid,
    training: Sequence["Workload"],
    validation: Sequence["Workload"],
    *,
    budget: int,
    seed: int = 0,
    processes: int = 1,
) -> Outcome:
    """Try the published settings and then those of the grid, in random order, and return what was found.

    Each is simulated on all training windows, until the next would exceed the budget of events or nothing is left.
    Of the published settings and the best few the validation windows choose; those they cannot tell apart rank as
    published. The same whatever the number of processes. ValueError if a window is of another split than its
    argument says, or if the budget is too small for the published settings.
    """
    from joblib import Parallel

    check_split(training, "train")
    check_split(validation, "validation")
    with Parallel(processes) as parallel:
        tried = list(within(budget, trials(make, candidates(grid, seed), training, parallel)))
        if not tried:
            raise ValueError(f"a budget of {budget:,} events is too small to simulate a policy once")
        few = sorted(tried[1:], key=lambda trial: trial.score)[:FINALISTS]
        finalists = [trial.settings for trial in (tried[0], *few)]
        validated = list(trials(make, finalists, validation, parallel))
    best = min(validated, key=lambda trial: trial.score)
    return Outcome(best.settings, tried, validated)


def check_split(workloads: Sequence["Workload"], split: "Split") -> None:
    """Refuse windows of another part of a trace; ValueError."""
    if wrong := [load.window for load in workloads if split_of(load) != split]:
        raise ValueError(f"window {wrong[0]} is none of the {split} part: a search may not see it")


def split_of(workload: "Workload") -> "Split | None":
    """Return the split that a window is of, by its number; None for a whole trace, which is no window."""
    if workload.scenario.whole:
        return None
    return max((first, split) for split, first in FIRST_SEED.items() if first <= workload.window)[1]


def candidates(grid: Grid, seed: int) -> Iterator[Settings]:
    """Yield the published settings, written as none, and then every combination of the grid in random order."""
    yield {}
    sizes = [len(values) for values in grid.values()]
    for number in np.random.default_rng(seed).permutation(math.prod(sizes)).tolist() if sizes else ():
        places = np.unravel_index(number, sizes)
        yield {name: values[place] for (name, values), place in zip(grid.items(), places, strict=True)}


def trials(
    make: Make,
    each: Iterator[Settings] | Sequence[Settings],
    workloads: Sequence["Workload"],
    parallel: "Parallel",
) -> Iterator[Trial]:
    """Yield what comes of settings on all windows; those that make no other policy than published are passed over."""
    usual = fifo(workloads, parallel)
    published = make()
    for settings in each:
        if settings and make(**settings) == published:
            continue
        jct, events = simulate(make, settings, workloads, parallel)
        yield Trial(settings, float((jct / usual).mean()), int(events.sum()))


def within(budget: int, found: Iterator[Trial]) -> Iterator[Trial]:
    """Yield trials while they stay within a budget of events, and not many if all score the same."""
    spent, scores = 0, []
    for trial in found:
        spent += trial.events
        if spent > budget:
            return
        yield trial
        scores.append(trial.score)
        if len(scores) > IN_VAIN and len(set(scores)) == 1:
            return


def fifo(workloads: Sequence["Workload"], parallel: "Parallel") -> np.ndarray:
    """Return FIFO's mean JCT in each window."""
    return simulate(lambda: REFERENCE, {}, workloads, parallel)[0]


def simulate(
    make: Make, settings: Settings, workloads: Sequence["Workload"], parallel: "Parallel"
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean JCT and the events of each window under new policies with these settings."""
    from joblib import delayed

    pairs = parallel(delayed(counted)(make, settings, load) for load in workloads)
    jct, events = zip(*pairs, strict=True)
    return np.array(jct), np.array(events)


def counted(make: Make, settings: Settings, workload: "Workload") -> tuple[float, int]:
    """Return the mean JCT of a window under a new policy with these settings, and the events it took."""
    episode = run(make(**settings), workload.episode())
    return float(workload.results(episode)["jct_s"].mean()), int(episode.state.instant)
