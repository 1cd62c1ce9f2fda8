"""Comparisons: one policy against another on the same windows, with the uncertainty of the answer."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

LEVEL = 0.95
"""Share of resampled means inside an interval."""

RESAMPLES = 9_999


class Interval(NamedTuple):
    """A mean ratio and the interval it lies in; the limits are NaN where there is nothing to resample."""

    ratio: float
    low: float
    high: float


class Estimate(NamedTuple):
    """A mean over windows and the interval it lies in; the limits are NaN where there is nothing to resample."""

    mean: float
    low: float
    high: float


class Comparison(NamedTuple):
    """How one policy does against a reference, in ratios policy / reference: below 1 the policy is better.

    `ratio` is the mean over windows of the windows' ratios and `low`, `high` its 95 % interval; `geometric`
    is their geometric mean; `pooled` is the ratio of the two means over windows, in which windows with long
    JCTs weigh more; `wins` counts the windows whose ratio is below 1.
    """

    ratio: float
    low: float
    high: float
    geometric: float
    pooled: float
    wins: int
    windows: int


def compare(
    policy: pd.DataFrame, reference: pd.DataFrame, *, number: str = "mean_jct_s", seed: int = 0
) -> Comparison:
    """Compare two summaries (see `evaluation.results.summarise`) window by window, on one of their numbers.

    Several seeds of a window are paired seed by seed and their ratios averaged, since the window stays one
    sample. The interval is the percentile bootstrap over windows; it is undefined (NaN) with one window and
    some percent too narrow below twenty. Raises `ValueError` if the summaries do not hold the same windows
    and seeds, each once.
    """
    ours, theirs, _ = pair = _paired(policy, reference, number)
    ratios = _ratios(pair)
    low, high = _limits(ratios[np.newaxis], seed) if len(ratios) > 1 else (math.nan, math.nan)
    return Comparison(
        ratio=float(ratios.mean()),
        low=low,
        high=high,
        geometric=geometric_mean(ratios),
        pooled=float(ours.mean() / theirs.mean()),
        wins=int((ratios < 1).sum()),
        windows=len(ratios),
    )


def compare_agents(
    agents: Sequence[pd.DataFrame], references: Sequence[pd.DataFrame], *, seed: int = 0
) -> Comparison:
    """Compare agents that were trained alike, each from its own seed, as one: means over agents, then as `compare`.

    references: one for each, the same or not. With several agents the interval is that of `two_level`: over agents and
    windows. Raises `ValueError` as `compare`.
    """
    if len(agents) == 1:
        return compare(agents[0], references[0], seed=seed)
    pairs = [_paired(agent, other, "mean_jct_s") for agent, other in zip(agents, references, strict=True)]
    ratios = paired_ratios(agents, references)
    ours, theirs = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    mean, low, high = two_level(ratios, seed=seed)
    each = ratios.mean(axis=0)
    return Comparison(
        ratio=mean,
        low=low,
        high=high,
        geometric=geometric_mean(ratios),
        pooled=float(ours.mean() / theirs.mean()),
        wins=int((each < 1).sum()),
        windows=len(each),
    )


def paired_ratios(agents: Sequence[pd.DataFrame], references: Sequence[pd.DataFrame]) -> NDArray[np.float64]:
    """Return each agent's mean JCT / its reference's, (agents, windows). Raises `ValueError` as `compare`."""
    pairs = [_paired(agent, other, "mean_jct_s") for agent, other in zip(agents, references, strict=True)]
    return np.array([_ratios(pair) for pair in pairs])


def two_level(ratios: ArrayLike, *, seed: int = 0) -> Interval:
    """Return the mean of ratios (training seeds x windows) and its interval over both.

    Every agent is scored on the same windows, so seeds and windows are resampled each for itself, and a
    resample is the block where they cross. With one seed or one window the limits are NaN: nothing is known
    of how it would vary. Raises `ValueError` unless the ratios form a table without gaps.
    """
    table = np.asarray(ratios, dtype=float)
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise ValueError(f"the ratios must be finite and of shape (seeds, windows), not {table.shape}")
    low, high = _limits(table, seed) if min(table.shape) > 1 else (math.nan, math.nan)
    return Interval(float(table.mean()), low, high)


def estimate(values: ArrayLike, *, seed: int = 0) -> Estimate:
    """Return the mean of one value a window, such as a paired difference, and its interval over windows."""
    each = np.asarray(values, dtype=float)
    low, high = _limits(each[np.newaxis], seed) if len(each) > 1 else (math.nan, math.nan)
    return Estimate(float(each.mean()), low, high)


def _paired(
    policy: pd.DataFrame, reference: pd.DataFrame, number: str
) -> tuple[pd.Series, pd.Series, NDArray[np.int64]]:
    """Return a number of two summaries, whose windows and seeds must be the same, and the window of each."""
    (own, ours), (other, theirs) = _by_window(policy, number), _by_window(reference, number)
    if not np.array_equal(own, other):
        apart = sorted(map(str, set(map(tuple, own.tolist())) ^ set(map(tuple, other.tolist()))))
        raise ValueError(
            "the two summaries hold different windows, (window, seed): only in one are "
            + ", ".join(apart[:5])
            + (f" and {len(apart) - 5} more" if len(apart) > 5 else "")
        )
    return ours, theirs, own[:, 0]


def _by_window(summary: pd.DataFrame, number: str) -> tuple[NDArray[np.int64], pd.Series]:
    """Return windows and seeds, (rows, 2), in ascending order, and the number of each."""
    key = summary[["window", "seed"]].to_numpy()
    order = np.lexsort((key[:, 1], key[:, 0]))
    key = key[order]
    if (twice := (key[1:] == key[:-1]).all(axis=1)).any():
        raise ValueError(
            f"a summary holds (window, seed) {tuple(key[1:][twice][0].tolist())} twice: "
            "compare one policy's summary at a time"
        )
    return key, pd.Series(summary[number].to_numpy()[order])


def _ratios(pair: tuple[pd.Series, pd.Series, NDArray[np.int64]]) -> NDArray[np.float64]:
    """Return the ratio of each window, the mean over its seeds."""
    ours, theirs, windows = pair
    ratios = ours / theirs
    means = ratios.groupby(windows).mean() if (windows[1:] == windows[:-1]).any() else ratios
    return np.asarray(means, dtype=float)


def _limits(ratios: NDArray[np.float64], seed: int) -> tuple[float, float]:
    """Return the percentile limits of the mean when rows and columns are drawn anew, with replacement.

    A resample is told by how often each row and column is drawn, so it is two products instead of a copied
    table.
    """
    rows, columns = _draws(ratios.shape, seed)
    means = ((rows @ ratios) * columns).sum(axis=1) / ratios.size
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


@lru_cache(maxsize=4)
def _draws(shape: tuple[int, ...], seed: int) -> tuple[NDArray[np.int64], ...]:
    """Return, for each side of a table, how often each of its places is drawn in every resample."""
    rng = np.random.default_rng(seed)
    return tuple(rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) for n in shape)


def geometric_mean(ratios: np.ndarray) -> float:
    """Return the geometric mean; 0 where a ratio is 0."""
    return float(np.exp(np.log(ratios).mean())) if (ratios > 0).all() else 0.0
