"""Judgements of trained agents: interquartile means, Holm's correction, profiles; shifts change what they say."""

from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluation import protocol
from evaluation.protocol import LEVELS, holm, interquartile, judged, p_value
from evaluation.shifts import SHIFTS, shifted
from workloads import Workload, named, windows


def summary(mean_jct_s: list[float]) -> pd.DataFrame:
    """Return a summary with a window for each number."""
    return pd.DataFrame({"window": range(len(mean_jct_s)), "seed": 0, "mean_jct_s": mean_jct_s})


def test_the_interquartile_mean_is_that_of_the_middle_half() -> None:
    ratios = np.array([[0.1, 0.8, 0.9, 1.0], [0.7, 0.85, 0.95, 9.0]])
    assert interquartile(ratios).ratio == pytest.approx((0.8 + 0.85 + 0.9 + 0.95) / 4)


def test_its_interval_holds_the_truth_as_often_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over agents and windows that both vary: of 40 intervals some 38 hold the middle of what they are drawn from."""
    monkeypatch.setattr(protocol, "RESAMPLES", 300)  # enough for the limits of one
    rng, held = np.random.default_rng(0), 0
    for _ in range(40):
        agents, places = rng.normal(0, 0.04, (8, 1)), rng.normal(0, 0.05, (1, 40))
        found = interquartile(1.0 + agents + places + rng.normal(0, 0.02, (8, 40)))
        held += found.low <= 1.0 <= found.high
    assert 33 <= held <= 40


def test_holm_multiplies_the_least_by_all_and_never_falls() -> None:
    """Holm 1979's step-down: .01 x 4, .02 x 3, .03 x 2 is less than that, .5."""
    p = {"c": 0.03, "a": 0.01, "d": 0.5, "b": 0.02}
    assert holm(p) == pytest.approx({"c": 0.06, "a": 0.04, "d": 0.5, "b": 0.06})
    assert list(holm(p)) == list(p)
    assert holm({"x": 0.9, "y": 0.8}) == {"x": 1.0, "y": 1.0}


def test_windows_are_tested_by_signed_ranks() -> None:
    """With n windows all on one side the two-sided p is 2 / 2^n."""
    assert p_value(np.full((1, 6), 0.9) + np.arange(6) / 100) == pytest.approx(2 / 2**6)
    assert p_value(np.ones((3, 6))) == 1.0


def test_a_judgement_has_every_number_against_every_policy() -> None:
    agents = [summary([90.0, 80.0, 70.0, 60.0]), summary([110.0, 80.0, 70.0, 100.0])]
    held = [summary([100.0] * 4), summary([200.0] * 4)]
    found = judged(agents, {"fifo": summary([100.0] * 4), "held": held})
    fifo = found["fifo"]
    assert fifo.mean.ratio == pytest.approx((0.9 + 0.8 + 0.7 + 0.6 + 1.1 + 0.8 + 0.7 + 1.0) / 8)
    assert fifo.wins == 3  # by the mean of both agents: the first window is a tie
    assert dict(zip(LEVELS, fifo.profile, strict=True))[0.8] == 5 / 8
    assert fifo.holm >= fifo.p
    assert found["held"].mean.ratio == pytest.approx((0.9 + 0.8 + 0.7 + 0.6 + 0.55 + 0.4 + 0.35 + 0.5) / 8)
    with pytest.raises(ValueError, match="different windows"):
        judged(agents, {"short": summary([1.0])})


@pytest.fixture(scope="module")
def window() -> Workload:
    return windows(replace(named("mixed"), jobs=40), "test", 1)[0]


@pytest.mark.parametrize("name", SHIFTS)
def test_a_shift_changes_what_it_says_and_nothing_else(name: str, window: Workload) -> None:
    (found,) = shifted([window], SHIFTS[name])
    changed = {column for column in window.table if not window.table[column].equals(found.table[column])}
    choices = {
        field for field, value in vars(window.scenario).items() if getattr(found.scenario, field) != value
    }
    times = {"duration_s", "profiled_duration_s", "predicted_duration_s"}
    wanted = {
        "as it is": set(),
        "run times and gaps x 2": {"submit_s"} | times & set(window.table),
        "pauses and loads x 0.4": {"pause_s", "load_s"},
        "pauses and loads x 2.5": {"pause_s", "load_s"},
        "estimates with an error of 0.5 more": {"profiled_duration_s"},
        "the other form of contention": set(),
        "half as many nodes, twice as wide": set(),
    }
    assert changed == wanted.get(name, {"submit_s"})
    assert choices == {
        "the other form of contention": {"contention_form"},
        "half as many nodes, twice as wide": {"cluster"},
    }.get(name, set())
    assert found.window == window.window
    assert found.cluster.num_gpus == window.cluster.num_gpus


def test_estimates_err_anew_in_each_window() -> None:
    found = windows(replace(named("mixed"), jobs=40), "test", 2)
    name = next(each for each in SHIFTS if each.startswith("estimates"))
    errors = [
        shifted([load], SHIFTS[name])[0].table["profiled_duration_s"] / load.table["profiled_duration_s"]
        for load in found
    ]
    assert np.log(errors[0]).std() == pytest.approx(0.5, rel=0.4)
    assert abs(np.corrcoef(np.log(errors))[0, 1]) < 0.5


def test_shifted_arrivals_come_as_said(window: Workload) -> None:
    def gaps(name: str) -> np.ndarray:
        return np.diff(shifted([window], SHIFTS[name])[0].table["submit_s"].to_numpy())

    usual = gaps("as it is")
    assert gaps("load x 0.8") == pytest.approx(usual / 0.8)
    assert gaps("load x 1.25") == pytest.approx(usual / 1.25)
    bunched = gaps("arrivals in bunches of 8")
    assert [place for place, gap in zip(count(1), bunched, strict=False) if gap > 0] == [8, 16, 24, 32]


def test_shifts_are_left_out_where_they_would_change_nothing() -> None:
    def applied(**choices: Any) -> set[str]:
        scenario = replace(named("mixed"), **choices)
        return {name for name, shift in SHIFTS.items() if not shift.applies(scenario)}

    assert applied() == set()
    assert applied(cluster="3x8") == {"half as many nodes, twice as wide"}
    assert applied(cluster="4x8-k80") == {"half as many nodes, twice as wide"}
    assert "the other form of contention" in applied(physics="exclusive")
    assert {"pauses and loads x 0.4", "estimates with an error of 0.5 more"} <= applied(physics="none")
