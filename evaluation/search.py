"""Search: settings of a policy tried on training windows, as far as a budget of simulated events goes.

An event is an instant that a simulation handles; whoever learns from simulations, by search or by gradient, can be
given the same number of them. Which settings there are is published as a grid beside the policy.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simulator.episode import run
from simulator.policy import Policy, Ranking
from traces import stream

if TYPE_CHECKING:
    from joblib import Parallel

    from workloads import Split, Workload

REFERENCE = Ranking("submit")
ROUNDS = 3  # of a search, each with a like share of the budget
GROWTH = 4  # times as many windows in each as in the one before
FINALISTS = 5  # settings that the validation windows choose among, the published ones apart

Settings = dict[str, Any]
Grid = Mapping[str, Sequence[Any]]
Make = Callable[..., Policy]
"""Makes a policy anew, with settings as keywords; without any as it is published."""


class Trial(NamedTuple):
    """Settings and how they did: mean JCT / FIFO's in each window so far, and the events simulated for that."""

    settings: Settings
    ratios: tuple[float, ...] = ()
    events: int = 0

    @property
    def score(self) -> float:
        """The mean of the ratios."""
        return sum(self.ratios) / len(self.ratios)


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
    """Try the published settings and those of the grid, as far as a budget of events goes, and return what was found.

    Of the best few after the last round of `race`, and the published, the validation windows choose; those they cannot
    tell apart rank as published. The same whatever the number of processes. ValueError if a window is of another split
    than its argument says, or if the budget is too small for the published settings.
    """
    from joblib import Parallel

    check_split(training, "train")
    check_split(validation, "validation")
    with Parallel(processes) as parallel:
        published, *others = race(Course(make, training, parallel), grid, budget, seed)
        whole = [trial for trial in others if len(trial.ratios) == len(training)]
        few = sorted(whole, key=lambda trial: trial.score)[:FINALISTS]
        course = Course(make, validation, parallel)
        validated = [course.run(Trial(trial.settings), len(validation)) for trial in (published, *few)]
    best = min(validated, key=lambda trial: trial.score)
    return Outcome(best.settings, [published, *others], validated)


class Course:
    """Windows in their order, on which policies are compared with FIFO."""

    def __init__(self, make: Make, workloads: Sequence["Workload"], parallel: "Parallel") -> None:
        """Run FIFO on all of them."""
        self.make, self.workloads, self._parallel = make, workloads, parallel
        self._usual = fifo(workloads, parallel)

    def run(self, trial: Trial, count: int) -> Trial:
        """Return what comes of settings on the first so many windows, of which some may have been run before."""
        done = len(trial.ratios)
        jct, events = simulate(self.make, trial.settings, self.workloads[done:count], self._parallel)
        ratios = (jct / self._usual[done:count]).tolist()
        return Trial(trial.settings, (*trial.ratios, *ratios), trial.events + int(events.sum()))


def race(course: Course, grid: Grid, budget: int, seed: int) -> list[Trial]:
    """Return all settings that were tried as far as each came, the published first, which are run on all windows.

    Successive halving (Jamieson and Talwalkar, AISTATS 2016): the settings of the grid, in random order, are run on the
    first few windows, those who did best there on more, best first, then on all; each round until the next settings
    would exceed its share of what is left of the budget. A grid that changes nothing in the first round is given up.
    """
    count = len(course.workloads)
    published = course.run(Trial({}), count)
    if (left := budget - published.events) < 0:
        raise ValueError(f"a budget of {budget:,} events is too small to simulate a policy once")
    usual = course.make()
    others = [Trial(each) for each in candidates(grid, seed) if each and course.make(**each) != usual]
    tried: list[Trial] = []
    for later in reversed(range(ROUNDS)):
        windows, share = math.ceil(count / GROWTH**later), left // (later + 1)
        done = list(within(share, others, (course.run(trial, windows) for trial in others)))
        left -= sum(after.events - before.events for before, after in zip(others, done, strict=False))
        passed = {str(trial.settings): trial for trial in done}
        tried = [passed.get(str(trial.settings), trial) for trial in tried] or done
        if all(trial.ratios == published.ratios[:windows] for trial in done):
            break
        others = sorted(done, key=lambda trial: trial.score)
    return [published, *tried]


def within(budget: int, before: Sequence[Trial], found: Iterator[Trial]) -> Iterator[Trial]:
    """Yield trials while what they took more than before stays within a budget of events."""
    for old, new in zip(before, found, strict=True):
        budget -= new.events - old.events
        if budget < 0:
            return
        yield new


def check_split(workloads: Sequence["Workload"], split: "Split") -> None:
    """Refuse windows of another part of a trace; ValueError."""
    if wrong := [load.window for load in workloads if load.window.split != split]:
        raise ValueError(f"{wrong[0]} is no window of the {split} part: a search may not see it")


def candidates(grid: Grid, seed: int) -> Iterator[Settings]:
    """Yield the published settings, written as none, and then every combination of the grid in random order."""
    yield {}
    sizes = [len(values) for values in grid.values()]
    for number in stream(seed, "settings").permutation(math.prod(sizes)).tolist() if sizes else ():
        places = np.unravel_index(number, sizes)
        yield {name: values[place] for (name, values), place in zip(grid.items(), places, strict=True)}


def fifo(workloads: Sequence["Workload"], parallel: "Parallel") -> np.ndarray:
    """Return FIFO's mean JCT in each window."""
    return simulate(lambda: REFERENCE, {}, workloads, parallel)[0]


def simulate(
    make: Make, settings: Settings, workloads: Sequence["Workload"], parallel: "Parallel"
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean JCT and the events of each window under new policies with these settings."""
    from joblib import delayed

    pairs = parallel(delayed(counted)(make, settings, load) for load in workloads)
    jct, events = np.array(pairs, float).reshape(-1, 2).T
    return jct, events.astype(int)


def counted(
    make: Make, settings: Settings, workload: "Workload", *, oracle: bool = False
) -> tuple[float, int]:
    """Return the mean JCT of a window under a new policy with these settings, and the events it took."""
    episode = run(make(**settings), workload.episode(), oracle=oracle)
    return float(workload.results(episode)["jct_s"].mean()), int(episode.state.instant)
