"""A judgement of trained agents: against each policy over seeds and windows, and how sure one can be of it.

As rliable has it (Agarwal et al., NeurIPS 2021, arXiv 2108.13264): interquartile means and performance profiles beside
means, with intervals from resampling. Here both the agents, one a training seed, and the windows are resampled.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import trim_mean, wilcoxon

from gpu_cluster_gym.evaluation.comparison import Interval, compare_agents, paired_ratios

Floats = NDArray[np.float64]
LEVELS = (0.7, 0.8, 0.9, 0.95, 1.0, 1.05)
"""Ratios at which a profile is read."""
RESAMPLES = 2_000
QUARTER = 0.25


class Judgement(NamedTuple):
    """How agents do against one policy, as ratios of mean JCT: below 1 they are better."""

    mean: Interval
    iqm: Interval
    """The mean of the middle half of all agents' windows, which no few windows decide."""
    geometric: float
    wins: int
    windows: int
    p: float
    """Of Wilcoxon's signed-rank test over windows, of the agents' mean log ratio; two-sided."""
    holm: float
    """The same after Holm's correction for all policies compared."""
    profile: tuple[float, ...]
    """The share of the agents' windows with a ratio of at most each of `LEVELS`."""


def judged(
    agents: Sequence[pd.DataFrame], others: Mapping[str, pd.DataFrame | Sequence[pd.DataFrame]]
) -> dict[str, Judgement]:
    """Judge agents by their summaries against each other policy's: one summary, or one for each agent.

    ValueError where windows differ, as `compare`.
    """
    several = {
        name: [other] * len(agents) if isinstance(other, pd.DataFrame) else list(other)
        for name, other in others.items()
    }
    tables = {name: paired_ratios(agents, other) for name, other in several.items()}
    p = {name: p_value(ratios) for name, ratios in tables.items()}
    corrected = holm(p)
    found = {}
    for name, ratios in tables.items():
        whole = compare_agents(agents, several[name])
        found[name] = Judgement(
            mean=Interval(whole.ratio, whole.low, whole.high),
            iqm=interquartile(ratios),
            geometric=whole.geometric,
            wins=whole.wins,
            windows=whole.windows,
            p=p[name],
            holm=corrected[name],
            profile=tuple(float((ratios <= level).mean()) for level in LEVELS),
        )
    return found


def interquartile(ratios: Floats, *, seed: int = 0) -> Interval:
    """Mean of the middle half of ratios (agents, windows), and its interval over both, NaN for one window."""
    if ratios.shape[1] < 2:
        return Interval(float(trim_mean(ratios, QUARTER, axis=None)), math.nan, math.nan)
    rng = np.random.default_rng(seed)
    rows, columns = (rng.integers(size, size=(RESAMPLES, size)) for size in ratios.shape)
    again = [ratios[np.ix_(mine, theirs)] for mine, theirs in zip(rows, columns, strict=True)]
    low, high = np.quantile([trim_mean(each, QUARTER, axis=None) for each in again], [0.025, 0.975])
    return Interval(float(trim_mean(ratios, QUARTER, axis=None)), float(low), float(high))


def p_value(ratios: Floats) -> float:
    """Return how likely agents that are as good would be as far apart, over windows; 1 where nothing differs."""
    each = np.log(ratios).mean(axis=0)
    return float(wilcoxon(each).pvalue) if np.any(each != 0) else 1.0


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """Return p values corrected for their number (Holm 1979): the k-th least times those left, never falling."""
    found: dict[str, float] = {}
    least = 0.0
    for place, name in enumerate(sorted(p, key=lambda name: p[name])):
        least = max(least, min(1.0, p[name] * (len(p) - place)))
        found[name] = least
    return {name: found[name] for name in p}
