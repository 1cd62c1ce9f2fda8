"""Paired comparisons of policies on the same windows: mean ratios with intervals, tests and profiles.

Comparisons of trained agents follow rliable (Agarwal et al., NeurIPS 2021, arXiv 2108.13264): interquartile means and
performance profiles in addition to means, with bootstrap intervals. Agents, one per training seed, and windows are
resampled. The argument `seed` is the seed of the resampling.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95
"""Share of resampled means inside an interval."""

RESAMPLES = 9_999

ESTIMATOR = "mean of the windows' ratios"
"""The estimator of every ratio to another policy's metric, in words: windows of any length have equal weights."""


class Interval(NamedTuple):
    """A mean ratio and its 95 % interval; the limits are NaN where the spread is unknown, as for a single window."""

    ratio: float
    low: float
    high: float


class Estimate(NamedTuple):
    """A mean over windows and its 95 % interval; the limits are NaN for a single window."""

    mean: float
    low: float
    high: float


class Comparison(NamedTuple):
    """Comparison of a policy with a reference by ratios policy / reference: below 1 the policy is better.

    ratio: `ESTIMATOR`. low, high: its 95 % interval.
    wins: number of windows with a ratio below 1. windows: number of windows.
    """

    ratio: float
    low: float
    high: float
    wins: int
    windows: int


def compare(
    policy: pd.DataFrame, reference: pd.DataFrame, *, metric: str = "mean_jct_s", seed: int = 0
) -> Comparison:
    """Compare two summaries (see `evaluation.metrics.summarise`) window by window, by one of their metrics.

    metric: a column of both summaries.
    Several seeds of a window are paired by seed and their ratios averaged, since a window is one sample. The interval
    is the percentile bootstrap over windows. It is NaN for one window, and a few percent too narrow for fewer than 20.
    ValueError unless both summaries have the same windows and seeds, each once.
    """
    ratios = _ratios(_paired(policy, reference, metric))
    low, high = _limits(ratios[np.newaxis], seed) if len(ratios) > 1 else (math.nan, math.nan)
    return Comparison(
        ratio=float(ratios.mean()),
        low=low,
        high=high,
        wins=int((ratios < 1).sum()),
        windows=len(ratios),
    )


def compare_metric(policy: pd.DataFrame, reference: pd.DataFrame, metric: str) -> Comparison | None:
    """Compare as `compare` does on a metric that may be 0, such as a wait; None where the reference has a 0."""
    return compare(policy, reference, metric=metric) if (reference[metric] > 0).all() else None


def compare_agents(
    agents: Sequence[pd.DataFrame], references: Sequence[pd.DataFrame], *, seed: int = 0
) -> Comparison:
    """Compare agents that differ only in their training seed, as one policy, by their mean ratio in each window.

    agents: a summary per agent. references: a summary per agent, which may be the same for all.

    With several agents the interval is that of `two_level`, over agents and windows. ValueError as for `compare`.
    """
    if len(agents) == 1:
        return compare(agents[0], references[0], seed=seed)
    ratios = paired_ratios(agents, references)
    mean, low, high = two_level(ratios, seed=seed)
    each = ratios.mean(axis=0)
    return Comparison(
        ratio=mean,
        low=low,
        high=high,
        wins=int((each < 1).sum()),
        windows=len(each),
    )


def paired_ratios(agents: Sequence[pd.DataFrame], references: Sequence[pd.DataFrame]) -> NDArray[np.float64]:
    """Return each agent's mean JCT over its reference's, shape (agents, windows). ValueError as for `compare`."""
    pairs = [_paired(agent, other, "mean_jct_s") for agent, other in zip(agents, references, strict=True)]
    return np.array([_ratios(pair) for pair in pairs])


def two_level(ratios: ArrayLike, *, seed: int = 0) -> Interval:
    """Return the mean of ratios, shape (training seeds, windows), and its interval over seeds and windows.

    All agents run on the same windows, so seeds and windows are resampled independently, and a resample is the block
    of the drawn rows and columns. The limits are NaN for one seed or one window, whose spread is unknown.
    ValueError unless the ratios are a complete two-dimensional table.
    """
    table = np.asarray(ratios, dtype=float)
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise ValueError(f"ratios of shape {table.shape}: expected finite ratios of shape (seeds, windows)")
    low, high = _limits(table, seed) if min(table.shape) > 1 else (math.nan, math.nan)
    return Interval(float(table.mean()), low, high)


def estimate(values: ArrayLike, *, seed: int = 0) -> Estimate:
    """Return the mean of one value per window, such as a paired difference, and its interval over windows.

    values: shape (windows,).
    """
    each = np.asarray(values, dtype=float)
    low, high = _limits(each[np.newaxis], seed) if len(each) > 1 else (math.nan, math.nan)
    return Estimate(float(each.mean()), low, high)


def _paired(
    policy: pd.DataFrame, reference: pd.DataFrame, metric: str
) -> tuple[pd.Series, pd.Series, NDArray[np.int64]]:
    """Return a metric of both summaries in the same order, and the window of each row."""
    (own, ours), (other, theirs) = _by_window(policy, metric), _by_window(reference, metric)
    if not np.array_equal(own, other):
        apart = sorted(map(str, set(map(tuple, own.tolist())) ^ set(map(tuple, other.tolist()))))
        raise ValueError(
            "the two summaries have different windows: compare runs of the same windows; (window, seed) in one only: "
            + ", ".join(apart[:5])
            + (f" and {len(apart) - 5} more" if len(apart) > 5 else "")
        )
    return ours, theirs, own[:, 0]


def _by_window(summary: pd.DataFrame, metric: str) -> tuple[NDArray[np.int64], pd.Series]:
    """Return windows and seeds in ascending order, shape (rows, 2), and the metric of each row."""
    key = summary[["window", "seed"]].to_numpy()
    order = np.lexsort((key[:, 1], key[:, 0]))
    key = key[order]
    if (twice := (key[1:] == key[:-1]).all(axis=1)).any():
        raise ValueError(
            f"the summary has (window, seed) {tuple(key[1:][twice][0].tolist())} twice: "
            "compare the summary of a single policy"
        )
    return key, pd.Series(summary[metric].to_numpy()[order])


def _ratios(pair: tuple[pd.Series, pd.Series, NDArray[np.int64]]) -> NDArray[np.float64]:
    """Return the ratio of each window, averaged over its seeds."""
    ours, theirs, windows = pair
    ratios = ours / theirs
    means = ratios.groupby(windows).mean() if (windows[1:] == windows[:-1]).any() else ratios
    return np.asarray(means, dtype=float)


def _limits(ratios: NDArray[np.float64], seed: int) -> tuple[float, float]:
    """Return the percentile limits of the mean over resamples of rows and columns, drawn with replacement."""
    # A resample is represented by how often it draws each row and column (r and c). Its mean is r' ratios c / size, so
    # two matrix products give the means of all resamples without copying the table.
    rows, columns = _draws(ratios.shape, seed)
    means = ((rows @ ratios) * columns).sum(axis=1) / ratios.size
    return percentile_limits(means)


def percentile_limits(resampled: NDArray[np.float64]) -> tuple[float, float]:
    """Return the limits of the percentile bootstrap, given a statistic of each resample."""
    low, high = np.quantile(resampled, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


@lru_cache(maxsize=4)
def _draws(shape: tuple[int, ...], seed: int) -> tuple[NDArray[np.int64], ...]:
    """Return, for each axis of a table, how often each of its indices is drawn, shape (resamples, size)."""
    rng = np.random.default_rng(seed)
    return tuple(rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) for n in shape)


PROFILE_RATIOS = (0.7, 0.8, 0.9, 0.95, 1.0, 1.05)
"""Ratios at which a performance profile is reported."""
IQM_RESAMPLES = 2_000


class AgentComparison(NamedTuple):
    """Comparison of trained agents with one policy by ratios of mean JCT: below 1 the agents are better.

    mean: `ESTIMATOR`, over agents too. iqm: interquartile mean, the mean of the middle half of all ratios, on
    which a few extreme windows have no effect. wins: windows in which the agents' mean ratio is below 1.
    p_value: of Wilcoxon's two-sided signed-rank test over windows, on the agents' mean log ratio.
    p_holm: the same after Holm's correction for the number of policies compared.
    profile: share of all ratios that are at most each of `PROFILE_RATIOS`.
    """

    mean: Interval
    iqm: Interval
    wins: int
    windows: int
    p_value: float
    p_holm: float
    profile: tuple[float, ...]


def compare_with_each(
    agents: Sequence[pd.DataFrame], others: Mapping[str, pd.DataFrame | Sequence[pd.DataFrame]]
) -> dict[str, AgentComparison]:
    """Compare agents with each of several policies.

    agents: a summary per agent. others: by policy, one summary, or one per agent. ValueError as for `compare`.
    """
    several = {
        name: [other] * len(agents) if isinstance(other, pd.DataFrame) else list(other)
        for name, other in others.items()
    }
    tables = {name: paired_ratios(agents, other) for name, other in several.items()}
    p_values = {name: signed_rank_p(ratios) for name, ratios in tables.items()}
    corrected = holm(p_values)
    found = {}
    for name, ratios in tables.items():
        overall = compare_agents(agents, several[name])
        found[name] = AgentComparison(
            mean=Interval(overall.ratio, overall.low, overall.high),
            iqm=interquartile_mean(ratios),
            wins=overall.wins,
            windows=overall.windows,
            p_value=p_values[name],
            p_holm=corrected[name],
            profile=tuple(float((ratios <= level).mean()) for level in PROFILE_RATIOS),
        )
    return found


def interquartile_mean(ratios: NDArray[np.float64], *, seed: int = 0) -> Interval:
    """Return the mean of the middle half of ratios, shape (agents, windows), and its interval over agents and windows.

    The limits are NaN for one window.
    """
    from scipy.stats import trim_mean  # slow to import

    mean = float(trim_mean(ratios, 0.25, axis=None))
    if ratios.shape[1] < 2:
        return Interval(mean, math.nan, math.nan)
    rng = np.random.default_rng(seed)
    rows, columns = (rng.integers(size, size=(IQM_RESAMPLES, size)) for size in ratios.shape)
    resamples = [ratios[np.ix_(drawn, over)] for drawn, over in zip(rows, columns, strict=True)]
    low, high = np.quantile([trim_mean(each, 0.25, axis=None) for each in resamples], [0.025, 0.975])
    return Interval(mean, float(low), float(high))


def signed_rank_p(ratios: NDArray[np.float64]) -> float:
    """Return the p-value of Wilcoxon's two-sided signed-rank test over windows, of the hypothesis of no difference.

    ratios: shape (agents, windows); the test is on the mean log ratio of each window. The p-value is 1 where all of
    these are 0.
    """
    from scipy.stats import wilcoxon  # slow to import

    each = np.log(ratios).mean(axis=0)
    return float(wilcoxon(each).pvalue) if np.any(each != 0) else 1.0


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return p-values corrected for multiple comparisons (Holm 1979).

    The k-th smallest of n is multiplied by n - k + 1, and no corrected value is below that of a smaller one.
    """
    corrected: dict[str, float] = {}
    largest = 0.0
    for place, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, p_values[name] * (len(p_values) - place)))
        corrected[name] = largest
    return {name: corrected[name] for name in p_values}
