"""Comparison of trained agents with policies: interquartile means, Holm's correction, profiles."""

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.evaluation import comparison
from gpu_cluster_gym.evaluation.comparison import (
    PROFILE_RATIOS,
    compare_with_each,
    holm,
    interquartile_mean,
    signed_rank_p,
)


def summary(mean_jct_s: list[float]) -> pd.DataFrame:
    """Return a summary with a window for each number."""
    return pd.DataFrame({"window": range(len(mean_jct_s)), "seed": 0, "mean_jct_s": mean_jct_s})


def test_the_interquartile_mean_is_that_of_the_middle_half() -> None:
    ratios = np.array([[0.1, 0.8, 0.9, 1.0], [0.7, 0.85, 0.95, 9.0]])
    assert interquartile_mean(ratios).ratio == pytest.approx((0.8 + 0.85 + 0.9 + 0.95) / 4)


def test_one_window_has_no_interval() -> None:
    found = interquartile_mean(np.array([[0.9], [0.8]]))
    assert found.ratio == pytest.approx(0.85)
    assert np.isnan([found.low, found.high]).all()


def test_the_interval_has_its_nominal_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    """With variation over agents and windows, some 38 of 40 intervals contain the centre of the distribution."""
    monkeypatch.setattr(comparison, "IQM_RESAMPLES", 300)  # enough for one interval
    rng, covered = np.random.default_rng(0), 0
    for _ in range(40):
        agents, places = rng.normal(0, 0.04, (8, 1)), rng.normal(0, 0.05, (1, 40))
        found = interquartile_mean(1.0 + agents + places + rng.normal(0, 0.02, (8, 40)))
        covered += found.low <= 1.0 <= found.high
    assert 33 <= covered <= 40


def test_holm_multiplies_the_least_by_all_and_never_falls() -> None:
    """Holm 1979: .01 x 4, .02 x 3, then .03 x 2, which is not below the previous, and .5."""
    p = {"c": 0.03, "a": 0.01, "d": 0.5, "b": 0.02}
    assert holm(p) == pytest.approx({"c": 0.06, "a": 0.04, "d": 0.5, "b": 0.06})
    assert list(holm(p)) == list(p)
    assert holm({"x": 0.9, "y": 0.8}) == {"x": 1.0, "y": 1.0}


def test_windows_are_tested_by_signed_ranks() -> None:
    """With n windows all on one side the two-sided p is 2 / 2^n."""
    assert signed_rank_p(np.full((1, 6), 0.9) + np.arange(6) / 100) == pytest.approx(2 / 2**6)
    assert signed_rank_p(np.ones((3, 6))) == 1.0


def test_agents_are_compared_with_each_policy() -> None:
    agents = [summary([90.0, 80.0, 70.0, 60.0]), summary([110.0, 80.0, 70.0, 100.0])]
    other = [summary([100.0] * 4), summary([200.0] * 4)]
    found = compare_with_each(agents, {"fifo": summary([100.0] * 4), "other": other})
    fifo = found["fifo"]
    assert fifo.mean.ratio == pytest.approx((0.9 + 0.8 + 0.7 + 0.6 + 1.1 + 0.8 + 0.7 + 1.0) / 8)
    assert fifo.wins == 3  # by the mean of both agents: the first window is a tie
    # The ratios are 0.6, 0.7, 0.7, 0.8, 0.8, 0.9, 1.0 and 1.1.
    counts = {0.7: 3, 0.8: 5, 0.9: 6, 0.95: 6, 1.0: 7, 1.05: 7}
    assert dict(zip(PROFILE_RATIOS, fifo.profile, strict=True)) == {k: n / 8 for k, n in counts.items()}
    assert fifo.p_holm >= fifo.p_value
    assert found["other"].mean.ratio == pytest.approx((0.9 + 0.8 + 0.7 + 0.6 + 0.55 + 0.4 + 0.35 + 0.5) / 8)
    with pytest.raises(ValueError, match="different windows"):
        compare_with_each(agents, {"short": summary([1.0])})
