"""Comparisons are paired by window, have intervals, and refuse summaries of different windows."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from gpu_cluster_gym.evaluation.comparison import (
    RESAMPLES,
    compare,
    compare_agents,
    compare_metric,
    estimate,
    two_level,
)


def summary(*jcts: float, seed: int = 0) -> pd.DataFrame:
    """Return a summary of windows 1, 2, ... with these mean JCTs."""
    return pd.DataFrame({"window": range(1, len(jcts) + 1), "seed": seed, "mean_jct_s": jcts})


def test_ratios_are_paired_by_window_in_any_row_order() -> None:
    result = compare(summary(50, 300, 20)[::-1], summary(100, 200, 40))
    assert result.ratio == pytest.approx((0.5 + 1.5 + 0.5) / 3)
    assert (result.wins, result.windows) == (2, 3)


def test_a_policy_against_itself_has_ratio_one_and_no_wins() -> None:
    assert compare(summary(3, 5, 8), summary(3, 5, 8)) == (1, 1, 1, 0, 3)


def test_the_interval_is_the_percentile_bootstrap_of_scipy() -> None:
    ratios = np.random.default_rng(1).lognormal(sigma=0.3, size=20)
    ours = compare(summary(*ratios), summary(*np.ones(20)))
    theirs = scipy.stats.bootstrap(
        (ratios,), np.mean, method="percentile", n_resamples=RESAMPLES, rng=np.random.default_rng(2)
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.005)


def test_each_resample_draws_as_many_windows_as_there_are() -> None:
    """Of the ratios 1 and 3 a quarter of all resamples are 1, 1 and a quarter 3, 3: the interval is from 1 to 3."""
    result = compare(summary(1, 3), summary(1, 1))
    assert (result.ratio, result.low, result.high) == (2, 1, 3)


def test_the_same_seed_gives_the_same_interval() -> None:
    pair = summary(3, 5, 8), summary(4, 4, 9)
    assert compare(*pair, seed=5) == compare(*pair, seed=5)


def test_another_seed_draws_other_resamples() -> None:
    ratios = np.random.default_rng(1).lognormal(sigma=0.3, size=20)
    pair = summary(*ratios), summary(*np.ones(20))
    assert compare(*pair, seed=5).low != compare(*pair, seed=6).low


def test_one_window_gives_a_ratio_and_no_interval() -> None:
    result = compare(summary(3), summary(4))
    assert result.ratio == 0.75
    assert math.isnan(result.low)
    assert math.isnan(result.high)


def test_seeds_of_one_window_are_one_sample() -> None:
    policy = pd.concat([summary(50, 100), summary(150, 100, seed=1)])
    reference = pd.concat([summary(100, 200), summary(100, 200, seed=1)])
    result = compare(policy, reference)
    assert result.ratio == 0.75
    assert (result.wins, result.windows) == (1, 2)


@pytest.mark.parametrize("other", [summary(1, 2), summary(1, 2, 3, 4), summary(1, 2, 3, seed=1)])
def test_unequal_windows_are_refused(other: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="different windows"):
        compare(summary(1, 2, 3), other)


def test_a_window_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        compare(pd.concat([summary(1, 2), summary(1, 2)]), summary(1, 2))


def test_another_metric_can_be_compared() -> None:
    policy, reference = (summary(1, 1).assign(mean_wait_s=wait) for wait in (10.0, 40.0))
    assert compare(policy, reference, metric="mean_wait_s").ratio == 0.25


def test_a_metric_that_is_0_in_the_reference_has_no_ratio() -> None:
    """A policy may have a 0 itself: its ratio is 0 there."""
    some, none = summary(1, 1).assign(mean_wait_s=[10.0, 40.0]), summary(1, 1).assign(mean_wait_s=[0.0, 40.0])
    assert compare_metric(some, none, "mean_wait_s") is None
    found = compare_metric(none, some, "mean_wait_s")
    assert found is not None
    assert (found.ratio, found.wins) == (0.5, 1)


@pytest.mark.parametrize(("more", "rest"), [(5, ""), (7, " and 2 more")])
def test_the_first_five_unequal_windows_are_named(more: int, rest: str) -> None:
    """Windows 1 and 2 are in both summaries."""
    with pytest.raises(ValueError, match="different windows") as caught:
        compare(summary(1, 2), summary(*range(1, more + 3)))
    named = ", ".join(f"({window}, 0)" for window in (3, 4, 5, 6, 7))
    assert str(caught.value).endswith(f"in one only: {named}{rest}")


def test_one_value_has_a_mean_and_no_interval() -> None:
    one, many = estimate([3.0]), estimate([1.0, 3.0])
    assert one.mean == 3
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    assert many == (2, 1, 3)  # a quarter of all resamples are 1, 1 and a quarter 3, 3


def test_different_seeds_widen_the_interval() -> None:
    windows = np.linspace(0.9, 1.1, 40)
    alike, unlike = (windows + np.array(offsets)[:, np.newaxis] for offsets in ([0, 0, 0], [-0.2, 0, 0.2]))
    narrow, wide = two_level(alike), two_level(unlike)
    assert narrow.ratio == pytest.approx(wide.ratio)
    assert wide.high - wide.low > 3 * (narrow.high - narrow.low)


def test_identical_agents_are_no_more_evidence_than_one() -> None:
    ratios = np.linspace(0.8, 1.2, 30)
    one = compare(summary(*ratios), summary(*np.ones(30)))
    many = two_level(np.tile(ratios, (8, 1)))
    assert (many.low, many.high) == pytest.approx((one.low, one.high), abs=0.005)


def test_agents_are_compared_as_one() -> None:
    agents = [summary(50, 300, 20), summary(100, 200, 60)]
    result = compare_agents(agents, [summary(100, 200, 40)] * 2)
    assert result.ratio == pytest.approx((0.5 + 1.5 + 0.5 + 1 + 1 + 1.5) / 6)
    assert (result.wins, result.windows) == (1, 3)  # of the agents' means 0.75, 1.25 and 1
    assert (result.ratio, result.low, result.high) == pytest.approx(two_level([[0.5, 1.5, 0.5], [1, 1, 1.5]]))
    assert compare_agents(agents[:1], agents[1:]) == compare(agents[0], agents[1])


@pytest.mark.parametrize("shape", [(1, 5), (5, 1)])
def test_one_seed_or_one_window_has_no_interval(shape: tuple[int, int]) -> None:
    result = two_level(np.ones(shape))
    assert result.ratio == 1
    assert math.isnan(result.low)


@pytest.mark.parametrize("ratios", [[1.0, 2.0], [[1.0, math.nan]], [[]], [[[1.0, 2.0], [2.0, 1.0]]]])
def test_ratios_must_be_a_complete_table(ratios: list[Any]) -> None:
    with pytest.raises(ValueError, match="shape"):
        two_level(ratios)
