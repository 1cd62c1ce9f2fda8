"""Reading some jobs equals reading all jobs, and omitting ticks changes nothing."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.policy import Action, Preempt, Wait
from gpu_cluster_gym.simulator.view import Column, Jobs, Reading, View
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace
from tests.cases import tiny
from tests.cases.by_hand import ends, job
from tests.cases.mixed_jobs import table_of, workload
from tests.cases.shaped_jobs import TROUBLES, shaped
from tests.policies.test_elastic_policies import lively

NAMES = sorted(name for name, value in vars(Jobs).items() if isinstance(value, Column | Reading))


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Workload:
    """Return a workload of jobs of all shapes that fail, share GPUs and run on cores."""
    folder: Path = tmp_path_factory.mktemp("jobs")
    chosen = tiny.scenario(folder, shaped(0), physics="all", **TROUBLES)
    return full_trace(Scenario(**chosen))


def moments(load: Workload) -> Iterator[View]:
    """Yield views of a FIFO episode with some pauses, every few instants."""
    episode = load.episode()
    for instant in range(200):
        if episode.done or not episode.advance():
            return
        while start := episode.view.start_first(episode.view.waiting):
            episode.apply(start)
        if instant % 7 == 3 and len(running := episode.view.preemptible):
            episode.apply(Preempt(int(running[0])))
        if instant % 5 == 0:
            yield episode.view
        episode.apply(Wait())


def test_some_jobs_read_like_all(load: Workload) -> None:
    rng = np.random.default_rng(0)
    looks = 0
    for view in moments(load):
        some = rng.permutation(len(view.jobs.phase))[:9]
        for name in NAMES:
            of_all = np.asarray(getattr(view.jobs, name))
            assert np.array_equal(getattr(view.jobs_of(some), name), of_all[some], equal_nan=True), name
        looks += 1
    assert looks > 20


def test_arrays_of_some_jobs_are_copies(load: Workload) -> None:
    view = next(moments(load))
    read = view.jobs_of([0]).phase
    before = int(view.jobs.phase[0])
    read[0] = before + 1
    assert view.jobs.phase[0] == before


@pytest.mark.parametrize("number", [-1, 10_000])
def test_jobs_to_come_are_not_read(number: int, load: Workload) -> None:
    view = next(moments(load))
    with pytest.raises(ValueError, match=f"job {number} has not arrived"):
        view.jobs_of([0, number])


class Pausing:
    """FIFO policy that pauses the first running job at each arrival, whether or not it is called at ticks."""

    def __init__(self, *, ticks: bool) -> None:
        self.ticks, self.asked, self.seen = ticks, 0, 0

    def __call__(self, view: View) -> Action:
        """Return the next action."""
        self.asked += 1
        if len(view.jobs.phase) > self.seen and len(view.preemptible):
            self.seen = len(view.jobs.phase)
            return Preempt(int(view.preemptible[0]))
        return view.start_first(view.waiting) or Wait(ticks=self.ticks)


def played(policy: Pausing, episode: Episode) -> tuple[int, list[float]]:
    """Return the number of instants and the completion times."""
    run(policy, episode)
    return int(episode.state.instant), episode.state.finish_s[: len(episode.jobs)].tolist()


@pytest.mark.parametrize("seed", range(3))
def test_ticks_left_out_change_nothing(seed: int) -> None:
    """With or without pause costs; a job paused for free may start at the next instant, which may be a tick."""
    with_ticks, without = Pausing(ticks=True), Pausing(ticks=False)
    assert played(without, lively(seed, tick=30.0)) == played(with_ticks, lively(seed, tick=30.0))
    assert without.asked < with_ticks.asked


def test_ticks_left_out_change_nothing_where_nodes_fail(load: Workload) -> None:
    with_ticks, without = Pausing(ticks=True), Pausing(ticks=False)
    assert played(without, load.episode()) == played(with_ticks, load.episode())


@pytest.mark.parametrize("ticks", [True, False])
def test_a_freely_paused_job_starts_at_the_next_tick(ticks: bool) -> None:
    """Two GPUs, two jobs: A 0-100, 300-1200, paused when B comes; B 100-1100."""
    rows = [job(1000), job(1000, submit_s=100.0)]
    work = workload(table_of(*rows), Cluster("one", (2,), (16.0,), (8,)), physics="preemption,estimates")
    assert ends(work.results(run(Pausing(ticks=ticks), work.episode()))) == [1200, 1100]


class Patient:
    """Policy that waits for a hundred seconds before it starts jobs, and notes when it was asked."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def __call__(self, view: View) -> Action:
        """Return the next action."""
        self.asked.append(view.now)
        if view.now < 300.0:
            return Wait(100.0, ticks=False)
        return view.start_first(view.waiting) or Wait()


def test_ticks_do_not_lengthen_a_timed_wait() -> None:
    """One job arrives at 50 s and the next much later; ticks pass each 30 s."""
    work = workload(
        table_of(job(1000, submit_s=50.0), job(1000, submit_s=9000.0)),
        Cluster("one", (2,), (16.0,), (8,)),
        physics="estimates",
        tick=30.0,
    )
    policy = Patient()
    work.results(run(policy, work.episode()))
    assert policy.asked[:4] == [50.0, 150.0, 250.0, 350.0]
