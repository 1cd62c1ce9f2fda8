"""Search the weights of the rule over moves by evolution (CMA-ES): constants, or a network that sets them by the load.

All candidates of a generation play the same training windows, and are judged by mean JCT / the default rule's on each.
The means of generations are compared on validation windows, and the best is kept.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cma
import numpy as np
from numpy.typing import NDArray

from gpu_cluster_gym.envs.steer import DECISIONS, SteerBatch
from gpu_cluster_gym.envs.windows import PreparedWindow
from gpu_cluster_gym.simulator.choice import check, choice
from gpu_cluster_gym.simulator.kernel.rule.load import LOAD
from gpu_cluster_gym.simulator.rule import RULE_PARAMETERS, Rule
from gpu_cluster_gym.simulator.steered import REACH, Offsets
from gpu_cluster_gym.traces import stream

SEARCHED = tuple(each.name for each in RULE_PARAMETERS if each.scale > 0)
Floats = NDArray[np.float64]
Act = Callable[[NDArray[np.floating[Any]]], Floats]
"""Returns offsets of the weights, in units of their scales, (N, weights), for what is seen of the load, (N, loads)."""


@dataclass(frozen=True)
class Searching:
    """How to search."""

    weights: tuple[str, ...] = SEARCHED
    """What is searched; the others keep their defaults."""
    hidden: int = choice(0, least=0)
    """Hidden units of a network from the load to the weights; without any, the weights are constants."""
    loads: tuple[str, ...] = LOAD
    """What such a network sees of the load (`simulator.kernel.rule.load`)."""
    population: int = choice(16, least=4)
    """Candidates a generation."""
    sigma: float = choice(0.5, above=0)
    """Deviation of the first candidates, in units of the weights' scales."""
    generations: int = choice(50, least=1)
    minutes: float | None = choice(None, above=0)
    """After so many no generation begins; without this a search repeats to the digit."""
    windows: int = choice(16, least=1)
    """Training windows a generation."""
    validate_every: int = choice(2, least=1)
    """Generations between those whose mean is tried on the validation windows."""
    seed: int = choice(0, least=0)

    def __post_init__(self) -> None:
        """Refuse what cannot be; ChoiceError names each field."""
        check(self)


class Found(NamedTuple):
    """The vector that did best on validation windows, its mean ratio to the default rule there, and its generation.

    generations: how many there were. minutes: that all took.
    """

    vector: Floats
    validation: float
    generation: int
    generations: int
    minutes: float


class Course:
    """Windows on which candidates are compared with the default rule."""

    def __init__(self, found: Sequence[PreparedWindow], rows: int, searching: Searching) -> None:
        """Make room for `rows` of the windows at a time; those whose records are of one size go side by side."""
        self.searching = searching
        decisions = DECISIONS if searching.hidden else 1
        sizes = [each.episode.states.dtype for each in found]
        self._alike = [[k for k, size in enumerate(sizes) if size == one] for one in dict.fromkeys(sizes)]
        self._batches = [
            SteerBatch(
                [found[k] for k in alike],
                min(rows, len(alike)),
                weights=searching.weights,
                decisions_per_window=decisions,
            )
            for alike in self._alike
        ]

    def mean(self, vector: Floats, which: Sequence[int]) -> float:
        """Return the mean over windows of a vector's ratios."""
        return float(self.ratios(acting(vector, self.searching), which).mean())

    def ratios(self, act: Act, which: Sequence[int]) -> Floats:
        """Return mean JCT / the default rule's on windows, each named once; infinite where jobs never end."""
        found = np.empty(len(which))
        for alike, batch in zip(self._alike, self._batches, strict=True):
            rows = [row for row, window in enumerate(which) if window in alike]
            found[rows] = played(batch, act, [alike.index(which[row]) for row in rows])
        return found


def played(batch: SteerBatch, act: Act, which: Sequence[int]) -> Floats:
    """Return the same of some windows of a batch."""
    won = np.zeros(batch.count)
    for row, window in enumerate(which):
        batch.begin(row, window)
    while batch.more.any():
        batch.step(act(batch.load) / REACH)
        won += batch.gain
    done, _ = batch.ends()
    ratios: Floats = np.where(done, 1 - won, np.inf)[: len(which)]
    return ratios


def search(
    training: Sequence[PreparedWindow],
    validation: Sequence[PreparedWindow],
    searching: Searching,
    *,
    start: Floats | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Found:
    """Search from `start`, by default `first`, and return the best mean of a generation on validation, or the start."""
    began, rng = time.perf_counter(), stream(searching.seed, "search of weights")
    course = Course(training, searching.windows, searching)
    judge = Course(validation, len(validation), searching)
    begin = first(searching, rng) if start is None else start
    best = Found(begin, judge.mean(begin, range(len(validation))), 0, 0, 0)
    evolution = evolution_of(begin, searching, rng)
    limit = np.inf if searching.minutes is None else searching.minutes
    while evolution.countiter < searching.generations and minutes_since(began) < limit:
        which = rng.choice(len(training), searching.windows, replace=False).tolist()
        candidates = evolution.ask()
        values = np.array([course.mean(each, which) for each in candidates])
        evolution.tell(candidates, values)
        if evolution.countiter % searching.validate_every:
            continue
        value = judge.mean(evolution.mean, range(len(validation)))
        tell(
            f"{minutes_since(began):5.1f} min  generation {evolution.countiter:3d}  training {values.mean():.4f}  "
            f"its mean on validation {value:.4f}  sigma {evolution.sigma:.3f}"
        )
        if value < best.validation:
            best = best._replace(vector=evolution.mean, validation=value, generation=evolution.countiter)
    return best._replace(generations=evolution.countiter, minutes=minutes_since(began))


def evolution_of(begin: Floats, searching: Searching, rng: np.random.Generator) -> cma.CMAEvolutionStrategy:
    """Return what draws candidates round `begin`, and learns from their values; all chance is of this generator."""
    choices = {
        "popsize": searching.population,
        "randn": lambda *shape: rng.standard_normal(shape),
        "seed": np.nan,  # leaves NumPy's own generator alone
        "verbose": -9,
    }
    return cma.CMAEvolutionStrategy(begin, searching.sigma, choices)


def minutes_since(began: float) -> float:
    """Return the minutes since a reading of `time.perf_counter`."""
    return (time.perf_counter() - began) / 60


def first(searching: Searching, rng: np.random.Generator, constants: Floats | None = None) -> Floats:
    """Return where to begin: constants, by default the default weights, or a network that always answers with them."""
    held = np.zeros(len(searching.weights)) if constants is None else constants
    if not searching.hidden:
        return held
    inner = rng.standard_normal((len(searching.loads) + 1, searching.hidden))
    inner /= np.sqrt(len(searching.loads))
    return np.concatenate([inner.ravel(), np.zeros(searching.hidden * len(held)), held])


def acting(vector: Floats, searching: Searching) -> Act:
    """Return what a vector stands for: offsets that are always the same, or a network with one hidden layer of tanh."""
    if not searching.hidden:
        return lambda load: np.broadcast_to(vector, (len(load), len(vector)))
    seen = [LOAD.index(name) for name in searching.loads]
    shapes = (len(seen), searching.hidden), (searching.hidden,), (searching.hidden, len(searching.weights))
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    parts = np.split(vector, ends)
    inner, level, outer = (part.reshape(shape) for part, shape in zip(parts, shapes, strict=False))
    return lambda load: np.tanh(load[:, seen] @ inner + level) @ outer + parts[-1]


def rule_of(vector: Floats, searching: Searching) -> Rule:
    """Return the rule with the constants of a vector, held to their bounds as in a search."""
    return Offsets(Rule(), searching.weights).rule(vector / REACH)
