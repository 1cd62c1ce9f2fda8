"""Policies for jobs of fixed size, by rounds, by history or by size alone, act as documented.

`A 0-10` means that A runs from 0 to 10; jobs are named A, B, C ... in the order of the list. Pauses are free if no
others are named.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym.baselines.gittins import STEPS, Gittins, by_step, indices
from gpu_cluster_gym.baselines.qssf import Qssf
from gpu_cluster_gym.baselines.themis import Themis
from gpu_cluster_gym.baselines.tiresias import Tiresias
from gpu_cluster_gym.simulator.cluster import uniform
from tests.policies.test_baselines import finishes, jobs, mean_jct, named, play

A, B, C, D = range(4)
NODE = uniform(1, 4)

# Tiresias.


@pytest.mark.parametrize(("gpus", "first"), [(1, 3400), (2, 1720)])
def test_a_job_is_demoted_in_the_round_after_its_limit(gpus: int, first: float) -> None:
    """After 3250 GPU-s; rounds come at 1000, when B does, and every 240 s: A 0-3400 or 1720, B for 100 s, A to 5100."""
    work = jobs((0, gpus, 5000), (1000, gpus, 100))
    assert finishes(Tiresias(), work, uniform(1, gpus)) == [5100, first + 100]


def test_equal_jobs_take_turns_once_a_queue() -> None:
    """A to 3250, B to 3250, A to 7200, B to 7200, A to its end: each is paused twice, and a little late."""
    state = play(Tiresias(), jobs((0, 1, 20_000), (10, 1, 20_000)), uniform(1, 1)).state
    assert state.preemptions[:2].tolist() == [2, 2]
    assert 27_200 <= state.finish_s[A] <= 27_200 + 4 * 240
    assert state.finish_s[B] == 40_000


@pytest.mark.parametrize(("starve", "last"), [(float("inf"), True), (8.0, True), (2.0, False), (1.0, False)])
def test_a_starving_job_comes_back_to_the_top(starve: float, last: bool) -> None:
    """A stream of short jobs would keep A, demoted after 3250 s, waiting for as long as it lasts: to 25,000."""
    work = jobs((0, 1, 5000), *((1000.0 * k, 1, 1000) for k in range(1, 21)))
    ends = finishes(Tiresias(starve=starve), work, uniform(1, 1))
    assert (ends[A] == 25_000) == last
    if not last:
        assert ends[A] <= 5000 + starve * 3490 + 1000 + 2 * 300


def test_starving_costs_few_pauses() -> None:
    """The time that A has run, and with it its patience, grows: it comes back less and less often."""
    work = jobs((0, 1, 40_000), *((900.0 * k, 1, 1000) for k in range(1, 300)), pause=20, load=40)
    episode = play(Tiresias(starve=1.0), work, uniform(1, 1))
    assert 2 <= episode.state.preemptions[A] <= 12
    assert episode.state.finish_s[A] < episode.state.finish_s[: len(work)].max()


def test_servers_that_no_job_has_take_no_gpus() -> None:
    work = heavy(0)
    assert finishes(Tiresias(True), work, NODE) == finishes(Tiresias(False), work, NODE)


def heavy(seed: int, count: int = 120, sigma: float = 2.0) -> np.ndarray:
    """Draw jobs of a GPU for four, most of minutes and a few of days."""
    rng = np.random.default_rng(seed)
    seconds = rng.lognormal(np.log(1500), sigma, count)
    submit = np.cumsum(rng.exponential(seconds.mean() / 4 / 0.9, count))
    return jobs(*((at, 1, lasts) for at, lasts in zip(submit, seconds, strict=True)))


def alike(seconds: float = 9000.0) -> np.ndarray:
    return jobs(*((60.0 * k, 1, seconds) for k in range(24)))


def means(work: Sequence[np.ndarray], *policies: Any) -> list[float]:
    """Return the mean JCT of each policy, a name or what makes one."""
    made = [partial(named, policy) if isinstance(policy, str) else policy for policy in policies]
    return [float(np.mean([mean_jct(new(), one, NODE) for one in work])) for new in made]


# Gittins.


def test_an_index_is_the_best_chance_of_an_end_for_the_time_it_takes() -> None:
    """Of 1,000 and 100,000 GPU-s: half end in the first step; beyond it an end comes nearer with all service."""
    index = indices(by_step(np.repeat([1000.0, 100_000.0], 10)), fewest=5)
    assert index[0] == pytest.approx(0.5 / ((1000 + 3250) / 2))
    assert index[1] == pytest.approx(1 / (100_000 - 3250))
    known = int(np.searchsorted(STEPS, 100_000)) + 1
    assert np.all(np.diff(index[1:known]) > 0)
    assert np.all(index[known:] == 0)


def test_an_index_needs_some_sizes() -> None:
    sizes = np.array([1000.0] * 10 + [5000.0] * 4)
    assert indices(by_step(sizes), fewest=5)[1] == 0
    assert indices(by_step(sizes), fewest=4)[1] == 1 / 1750


def test_gittins_lets_equal_jobs_run_to_completion() -> None:
    """Before the first has ended the profiles say as much; LAS makes them take turns."""
    assert finishes(Gittins(), alike(), NODE) == finishes(named("fifo"), alike(), NODE)
    gittins, tiresias = means([alike()], Gittins, Tiresias)
    assert gittins < 0.9 * tiresias


def two_kinds(seed: int) -> np.ndarray:
    """Draw jobs of one GPU for four GPUs: of five, four take ten minutes and one takes seven hours, unknown which."""
    rng = np.random.default_rng(seed)
    seconds = np.where(rng.random(120) < 0.2, 25_000.0, 600.0)
    work = jobs(
        *((at, 1, lasts) for at, lasts in zip(np.cumsum(rng.exponential(1600, 120)), seconds, strict=True))
    )
    work["profiled_duration_s"] = rng.permutation(seconds)
    return work


def test_gittins_learns_from_the_jobs_that_have_ended() -> None:
    """By their profiles all are long, so that they would run in the order of their coming."""
    works = [two_kinds(seed) for seed in range(2)]
    for work in works:
        work["profiled_duration_s"] = 25_000.0
    fifo, gittins, blind = means(works, "fifo", Gittins, partial(Gittins, enough=1000))
    assert gittins < 0.85 * fifo
    assert blind > 0.95 * fifo


# History.


def test_a_prediction_is_half_history_of_the_user_half_profile() -> None:
    """A 0-100, B 100-5100. C is its user's second: sqrt(100 x 1000); D sqrt(5000 x 900): C before D, unlike SJF."""
    work = jobs((0, 1, 100), (0, 1, 5000), (200, 1, 50), (201, 1, 50))
    work["user"], work["profiled_duration_s"] = [0, 1, 0, 1], [1000, 1500, 1000, 900]
    assert finishes(Qssf(), work, uniform(1, 1)) == [100, 5100, 5150, 5200]
    assert finishes(named("sjf"), work, uniform(1, 1)) == [100, 5100, 5200, 5150]


def test_a_new_user_is_taken_for_anybody_and_a_new_size_at_its_profile() -> None:
    """At 5000 C, a new user's, counts sqrt(5000 x 100); D, of two GPUs, its profile alone twice, which is less."""
    work = jobs((0, 1, 5000), (0, 1, 5000), (10, 1, 50), (11, 2, 50))
    work["user"], work["profiled_duration_s"] = [0, 0, 1, 1], [5000, 5000, 100, 300]
    assert finishes(Qssf(), work, uniform(1, 2)) == [5000, 5000, 5100, 5050]
    work["profiled_duration_s"][D] = 400
    assert finishes(Qssf(), work, uniform(1, 2)) == [5000, 5000, 5050, 5100]


# Themis.


def test_a_lease_is_kept_and_then_goes_to_the_worst_treated_job() -> None:
    """B waits for A's lease of 1200 s, to the round at 100 + 5 x 240: A 0-1300, B 1300-2300, A 2300-11000."""
    work = jobs((0, 1, 10_000), (100, 1, 1000))
    assert finishes(Themis(), work, uniform(1, 1)) == [11_000, 2300]


def test_the_shorter_of_two_that_have_waited_as_long_is_treated_worse() -> None:
    """After A at 1000: C's rho is 990 / 100 + 1, B's 990 / 1000 + 1."""
    work = jobs((0, 1, 1000), (10, 1, 1000), (10, 1, 100))
    assert finishes(Themis(), work, uniform(1, 1)) == [1000, 2100, 1100]


# Floor lines.


def test_by_size_alone() -> None:
    """A 0-10 holds all; then the one with fewest GPUs, or with most, of those that fit, the first of equals."""
    work = jobs((0, 4, 10), (1, 2, 10), (2, 1, 10), (3, 4, 10), (4, 1, 10))
    assert finishes(named("smallest"), work, NODE) == [10, 20, 20, 30, 20]
    assert finishes(named("utilisation"), work, NODE) == [10, 30, 30, 20, 30]
