"""No episode goes on without progress, through ticks at which nothing changes, or after a signal."""

import copy
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.errors import StalledEpisodeError
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.policy import Action, Policy, Preempt, Ranking, Resize, Start, Wait
from gpu_cluster_gym.simulator.priority_rounds import PriorityRounds, Requests
from gpu_cluster_gym.simulator.search import queued_or_running
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.traces import load
from tests.cases.by_hand import FED, ONE, TWO, job
from tests.cases.mixed_jobs import table_of, workload

LONG_S = 1e11


def first_startable(view: View) -> Action:
    """Start the first job that fits, or wait."""
    for each in view.startable.tolist():
        if place := view.place(each):
            return Start(each, place)
    return Wait()


def thrash(view: View) -> Action:
    """Pause whatever runs."""
    for each in view.preemptible.tolist():
        return Preempt(each)
    return first_startable(view)


class EverySecond:
    """A policy that pauses its job after each second, and starts it again a second later."""

    def __call__(self, view: View) -> Action:
        """Return the next action of this instant."""
        action = thrash(view)
        return Wait(1.0) if isinstance(action, Wait) else action


def fidget(view: View) -> Action:
    """Change the cores of a running job again and again, and never wait."""
    if len(view.running):
        return Resize(0, cores=1.0 + float(view.jobs.cores_now[0] < 2.0))
    return first_startable(view)


def never_both_up() -> Episode:
    """Return an episode of a job that needs both nodes, each of which is up for 20 s and then down for an hour."""
    outages: dict[str, Any] = {"node_mtbf_h": 20 / 3600, "node_repair_h": 1.0}
    jobs = table_of(job(1e6, num_gpus=4))
    return workload(jobs, TWO, physics="memory,preemption,failures", **outages).episode()


def test_a_policy_that_pauses_all_it_starts_is_stopped_with_the_jobs_named() -> None:
    """Each is paused as soon as it has loaded, so that no job gets anywhere."""
    jobs = [job(1000, pause_s=10.0, load_s=20.0), job(200, submit_s=100.0)]
    episode = workload(table_of(*jobs), ONE, physics="preemption").episode()
    with pytest.raises(StalledEpisodeError, match=r"no progress at [\d,.]+ s: .* job 0 \([\d,]+ pauses\)"):
        run(thrash, episode)


@pytest.mark.parametrize("name", ["fifo", "tiresias", "union", "gavel"])
def test_so_is_a_policy_inside_the_kernel_whose_jobs_cannot_run(name: str) -> None:
    """A ranking, and compiled policies: nodes come and go, and never are both up."""
    with pytest.raises(StalledEpisodeError, match=r"no progress at .* job 0 \(0 pauses\)"):
        run(baselines.make(baselines.load(name)), never_both_up())


def test_a_policy_that_acts_on_and_on_at_one_instant_is_stopped() -> None:
    episode = workload(table_of(job(100, **FED)), ONE, physics="memory,cores").episode()
    with pytest.raises(StalledEpisodeError, match="without waiting"):
        run(fidget, episode)


def test_thousands_of_pauses_with_progress_are_allowed() -> None:
    """It runs 0-1, 2-3, 4-5 ...: 2,500 s of work end at 4,999, after 2,499 pauses."""
    work = workload(table_of(job(2500)), ONE, physics="memory,preemption")
    results = work.results(run(EverySecond(), work.episode()))
    assert results[["finish_s", "preemptions"]].to_numpy().tolist() == [[4999, 2499]]


@pytest.mark.parametrize(
    ("ranking", "ends"),
    [
        (Ranking("submit"), [LONG_S, LONG_S + 10]),
        (Ranking("estimate"), [LONG_S, LONG_S + 10]),
        (Ranking("level", "by_order", levels=(10.0,)), [LONG_S + 5, LONG_S + 10]),
    ],
)
def test_ticks_that_change_nothing_are_skipped(ranking: Ranking, ends: list[float]) -> None:
    """Three hundred million ticks pass while B waits for both GPUs.

    By level B has them from 10, when A has run for 10 s, to 15, when B has used 10 GPU-seconds.
    """
    jobs = [job(LONG_S), job(10, submit_s=1.0, num_gpus=2)]
    work = workload(table_of(*jobs), ONE, physics="memory,estimates")
    run(ranking, workload(table_of(jobs[1]), ONE, physics="memory,estimates").episode())  # compiles
    began = time.process_time()
    assert work.results(run(ranking, work.episode()))["finish_s"].tolist() == ends
    assert time.process_time() - began < 2.0


def test_skipped_ticks_leave_the_state_that_they_would() -> None:
    """One record goes through them at once, the other tick by tick."""
    jobs = [job(100_000), job(10, submit_s=1.0, num_gpus=2)]
    episode = workload(table_of(*jobs), ONE, physics="memory,estimates").episode()
    for _ in range(2):
        episode.advance()
        calls.walk(episode.states, 0, episode.jobs)
    states = episode.states
    states[1] = states[0]
    calls.advance_past_ticks(states, 0, episode.jobs)
    while states["clock"][1] < states["clock"][0]:
        calls.advance(states, 1, episode.jobs)
    for name in ("clock", "instant", "ticks", "num_done"):
        assert states[name][0] == states[name][1], name
    assert states["ticks"][0] == 333  # at 300, 600 ... 99,900 s
    assert states["present_seconds"][0] == pytest.approx(states["present_seconds"][1], rel=1e-12)


class StopError(Exception):
    """What a signal handler raises."""


@pytest.fixture
def alarm() -> Iterator[None]:
    """Have a signal come after a quarter of a second, whose handler raises StopError."""

    def stop(number: int, frame: object) -> None:
        raise StopError

    before = signal.signal(signal.SIGALRM, stop)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def by_arrival(view: View) -> Requests:
    """Return the jobs in the order of their submission."""
    here = queued_or_running(view)
    return Requests(here, view.jobs.num_gpus[here])


@pytest.mark.parametrize(
    "policy",
    [Ranking("submit", discipline="easy"), PriorityRounds(by_arrival)],
    ids=["never asked", "asked often"],
)
def test_a_signal_ends_a_long_compiled_episode_within_a_second(policy: Policy, alarm: None) -> None:
    """EASY moves its reservation at each tick, of which there are three hundred million; the error is the handler's.

    In rounds, the order is asked for as often.
    """
    jobs = [job(LONG_S), job(10, submit_s=1.0, num_gpus=2)]
    short, long = (workload(table_of(*rows), ONE, physics="memory,estimates") for rows in (jobs[1:], jobs))
    run(copy.deepcopy(policy), short.episode())  # compiles
    episode, began = long.episode(), time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.25)
    with pytest.raises(StopError):
        run(policy, episode)
    assert time.monotonic() - began < 1.25


def test_twenty_thousand_columns_are_read_within_two_seconds(tmp_path: Path) -> None:
    names = ["job_id", "submit_s", "num_gpus", "duration_s", *(f"c{number}" for number in range(20_000))]
    file = tmp_path / "wide.csv"
    file.write_text(f"{','.join(names)}\na,0,1,1{',1' * 20_000}\n", encoding="utf-8")
    began = time.process_time()
    assert load(file=file, seed=0).columns.tolist() == names[:4]
    assert time.process_time() - began < 2.0
