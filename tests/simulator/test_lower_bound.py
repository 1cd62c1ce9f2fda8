"""No schedule beats the lower bound: compared with what the simulator can do with tiny workloads, tried one by one."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym.simulator import relaxations
from gpu_cluster_gym.simulator.cluster import Cluster, uniform
from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.physics import Physics
from gpu_cluster_gym.simulator.relaxations import gap_closed, lower_bound
from tests.accounts.every_schedule import Search
from tests.cases.levers import some, work

ROUNDING = 1e-9


def bound(jobs: np.ndarray, gpus: int = 1, cluster: Cluster | None = None, **physics: Any) -> float:
    """Return the bound of jobs on one node."""
    chosen = Physics(**{"contention_form": "excess"} | physics)
    return lower_bound(Episode(jobs, cluster or uniform(1, gpus), exact=True, physics=chosen))


def episodes(seeds: range, count: int) -> Iterator[Episode]:
    """Yield random episodes with `count` jobs, skipping those with a job that can never run."""
    for seed in seeds:
        try:
            yield some(seed, count)
        except ValueError:  # a job could never run
            continue


@cache
def tried(seeds: range, count: int) -> list[tuple[Episode, float]]:
    """Return random episodes, each with the least mean JCT that was found."""
    return [(episode, Search(episode).mean_jct_s) for episode in episodes(seeds, count)]


def beaten(cases: list[tuple[Episode, float]]) -> Iterator[tuple[int, float, float]]:
    """Yield where a schedule has a shorter mean JCT than the bound: the number, the JCT and the bound."""
    for number, (episode, best) in enumerate(cases):
        if best < (least := lower_bound(episode)) * (1 - ROUNDING):
            yield number, best, least


TWO, THREE = range(240), range(12)


@pytest.mark.parametrize(("seeds", "count"), [(TWO, 2), (THREE, 3)])
def test_no_schedule_of_a_tiny_workload_beats_the_bound(seeds: range, count: int) -> None:
    assert list(beaten(tried(seeds, count))) == []


@pytest.mark.slow(reason="thousands of workloads take minutes")
@pytest.mark.parametrize(("seeds", "count"), [(range(1000, 5000), 2), (range(1000, 1500), 3)])
def test_no_schedule_of_thousands_beats_the_bound(seeds: range, count: int) -> None:
    assert list(beaten(tried(seeds, count))) == []


def test_a_job_alone_ends_no_sooner_than_it_starts_up_and_runs() -> None:
    """The bound of ten seconds of start-up and a hundred of work is 110, which the job alone takes."""
    assert bound(work((0, 1, 100), startup_s=10.0)) == pytest.approx(110.0)


def test_moments_of_progress_are_those_of_serving_the_least_work_first() -> None:
    """A has 10 s of work at 0 and B 4 s at 8: A is served 0-8, B 8-12 and A 12-14.

    The mean moments are (8 x 4 + 2 x 13) / 10 = 5.8 and 10; half of the minimum times, 5 and 2, come in addition.
    """
    seconds = np.array([0.0, 8.0]), np.array([10.0, 4.0]), np.array([10.0, 4.0])
    assert relaxations._by_mean_moment(*seconds) == pytest.approx([5.8 + 5, 10 - 8 + 2])


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {}


def planted(fault: Callable[[pytest.MonkeyPatch], None]) -> Callable[[pytest.MonkeyPatch], None]:
    """Register a fault by which the bound is too high somewhere."""
    FAULTS[fault.__name__] = fault
    return fault


@planted
def a_gpu_serves_one_job(patch: pytest.MonkeyPatch) -> None:
    def alone(
        states: Any, e: int, base: float, by_utilization: float, utilization: float, *rest: float
    ) -> float:
        return base + by_utilization * utilization

    patch.setattr(calls, "max_total", alone)


@planted
def jobs_are_shaped_as_they_ask(patch: pytest.MonkeyPatch) -> None:
    sound = calls.min_resources

    def as_asked(states: Any, e: int, jobs: np.ndarray, *rest: Any) -> None:
        rigid = jobs.copy()
        rigid["min_workers"] = rigid["max_workers"] = rigid["num_gpus"]
        sound(states, e, rigid, *rest)

    patch.setattr(calls, "min_resources", as_asked)


@planted
def company_slows_by_nothing_but_counts_as_if(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calls, "crowding", lambda *_: 3.0)
    sound = calls.max_total
    patch.setattr(calls, "max_total", lambda *args: sound(*args[:-1], 1.0))


@planted
def every_job_needs_a_gpu(patch: pytest.MonkeyPatch) -> None:
    sound = calls.min_resources

    def on_gpus(states: Any, e: int, jobs: np.ndarray, *rest: Any) -> None:
        sound(states, e, jobs, *rest)
        rest[-1][jobs["num_gpus"] > 0] = np.inf

    patch.setattr(calls, "min_resources", on_gpus)


@planted
def cores_are_needed_twice(patch: pytest.MonkeyPatch) -> None:
    sound = calls.min_resources

    def twice(
        states: Any, e: int, jobs: np.ndarray, slowdown: float, gpus: Any, cores: Any, alone: Any
    ) -> None:
        sound(states, e, jobs, slowdown, gpus, cores, alone)
        cores *= 2
        alone *= 2

    patch.setattr(calls, "min_resources", twice)


@planted
def types_are_as_fast_as_the_slowest(patch: pytest.MonkeyPatch) -> None:
    sound = relaxations._capacity
    kinds = (0, 1)

    def smallest(episode: Episode, least: np.ndarray, kind: int) -> float:
        return min(sound(episode, least, other) for other in kinds[: least.shape[1]])

    patch.setattr(relaxations, "_capacity", smallest)


@planted
def no_job_is_faster_than_requested(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Episode, "fastest_s", property(lambda self: self.jobs["duration_s"].copy()))


@planted
def a_job_ends_its_whole_time_after_its_mean_moment(patch: pytest.MonkeyPatch) -> None:
    sound = relaxations._by_mean_moment
    patch.setattr(relaxations, "_by_mean_moment", lambda submit, work, least: sound(submit, work, 2 * least))


@planted
def the_longest_job_is_served(patch: pytest.MonkeyPatch) -> None:
    sound = relaxations._served
    patch.setattr(
        relaxations,
        "_served",
        lambda submit, work, by_remaining: sound(submit, work[::-1], by_remaining=False),
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bound_that_is_too_high_is_beaten(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    cases = tried(TWO, 2)
    FAULTS[fault](monkeypatch)
    assert any(beaten(cases))


def test_the_bound_is_reached_where_every_job_fills_the_cluster() -> None:
    rng = np.random.default_rng(0)
    for _ in range(40):
        rows = rng.integers((0, 1, 1), (5, 2, 5), size=(3, 3))
        episode = Episode(work(*sorted(map(tuple, rows.tolist()))), uniform(1, 1), exact=True)
        assert lower_bound(episode) == pytest.approx(Search(episode).mean_jct_s)


def test_a_shorter_job_goes_first_on_a_full_cluster() -> None:
    """Time 0 to 2: the long job; 2 to 3: the short one, JCT 1; 3 to 6: the rest of the long one, JCT 6."""
    assert bound(work((0, 2, 5), (2, 2, 1)), 2) == 3.5


def test_jobs_that_do_not_fill_the_cluster_still_take_their_time() -> None:
    """Three jobs of one GPU have the mean moments 2.5, 7.5 and 12.5 s at least, and go on for 5 s after them."""
    assert bound(work((0, 1, 10), (0, 1, 10), (0, 1, 10)), 2) == pytest.approx(12.5)


def test_without_contention_the_bound_is_the_mean_duration() -> None:
    assert bound(work((0, 1, 30), (5, 1, 10)), 8) == 20


def test_the_bound_does_not_depend_on_when_the_clock_started() -> None:
    early, late = (work((start, 2, 5), (start + 2, 2, 1)) for start in (0, 1_500_000_000))
    assert bound(early, 2) == bound(late, 2)


def test_cpu_jobs_need_their_duration_and_no_gpu() -> None:
    jobs = work((0, 2, 5), (0, 0, 11), (2, 2, 1))
    assert bound(jobs, 2, cores=True) == pytest.approx((7 + 11) / 3)


def test_cpu_jobs_queue_for_cores() -> None:
    """Each needs five of six cores: mean moments 25/6 and 75/6 s, and 5 s after each."""
    jobs = work((0, 0, 10), (0, 0, 10), cores_each=5.0)
    assert bound(jobs, cores=True) == pytest.approx((25 / 6 + 75 / 6) / 2 + 5)


def test_jobs_that_fit_together_share() -> None:
    assert bound(work((0, 1, 10), (0, 1, 10), gpu_utilization=0.5), max_share=2) == 10


def test_jobs_that_need_a_whole_gpu_gain_nothing_by_sharing() -> None:
    """Together each is half as fast: one after the other is better, 10 and 20 s."""
    assert bound(work((0, 1, 10), (0, 1, 10)), max_share=2, contention=1.0) == pytest.approx(15)


def test_half_of_the_contention_is_gained_by_sharing() -> None:
    """Together they make 4/3 s of progress a second: mean moments 3.75 and 11.25 s, and 5 s after each."""
    jobs = work((0, 1, 10), (0, 1, 10))
    assert bound(jobs, max_share=2, contention=0.5) == pytest.approx(12.5)
    jobs["interference"] = jobs["interference_hold"] = (
        1.0  # in turns each waits for the other as long as it would run: as much as above
    )
    assert bound(jobs, max_share=2, contention=0.5, contention_form="turns") == pytest.approx(12.5)


def test_an_elastic_job_has_its_best_width() -> None:
    assert bound(work((0, 1, 10), max_workers=2), 2) == 5


def test_gpus_of_another_type_count_as_for_the_job_that_gains_most() -> None:
    """A V100 and half of one do 1.5 s a second: mean moments 10/3 and 10 s, and 5 s after each."""
    jobs = work((0, 1, 10), (0, 1, 10))
    jobs["type_speed"][:, 1] = 0.5
    types = Cluster("two types", (1, 1), (16.0, 12.0), (5, 5), node_types=("v100", "k80"))
    assert bound(jobs, cluster=types, typed=True) == pytest.approx((10 / 3 + 10) / 2 + 5)


def test_the_closed_gap_is_a_share_of_the_possible_gain() -> None:
    assert gap_closed(baseline=10, policy=7, bound=4) == 0.5
    assert gap_closed(baseline=10, policy=10, bound=4) == 0
    assert gap_closed(baseline=10, policy=4, bound=4) == 1
