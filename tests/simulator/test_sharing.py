"""Co-located jobs: interference, and out-of-memory failures. `A 0-10`: A runs from 0 to 10.

A is the first job of the list. Jobs with utilisation 90/10 are busy 90 ms of an iteration and idle 10.
"""

from functools import partial
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym.simulator.policy import Preempt, Start, Wait
from tests.accounts.twins import Twins
from tests.cases import by_hand
from tests.cases.by_hand import BUSY, ONE, SHARED, TWO, Lines, booked, ends, job, on
from tests.cases.mixed_jobs import table_of, workload

played = partial(by_hand.played, contention_form="excess")
in_turns = partial(by_hand.played, contention_form="turns")

# Sharing a GPU.


def test_two_jobs_within_the_capacity_do_not_slow_each_other() -> None:
    """Utilisation .5 + .5: A 0-100, B 0-80."""
    assert ends(played([job(100), job(80)], {0: [Start(0, on(0)), Start(1, on(0))]})) == [100, 80]


@pytest.mark.parametrize(("contention", "end"), [(0.48, 138.4), (1.0, 180.0), (0.0, 100.0)])
def test_contention_is_for_demand_beyond_one_gpu(contention: float, end: float) -> None:
    """Utilisation .9 + .9: both 1 + contention x .8 times slower from 0 to the end."""
    jobs = [job(100, **BUSY), job(100, **BUSY)]
    results = played(jobs, {0: [Start(0, on(0)), Start(1, on(0))]}, contention=contention)
    assert ends(results) == [end, end]
    assert results["run_s"].tolist() == results["shared_s"].tolist() == pytest.approx([end, end])


def test_a_temporary_job_slows_others_while_it_runs() -> None:
    """Contention 1.25 x .8 = 1: half speed together. A alone 0-20; both 20-100, when B's 40 are done.

    A has 20 + 40 = 60 by then, and runs its last 40 alone: A 0-140, B 20-100.
    """
    jobs = [job(100, **BUSY), job(40, **BUSY)]
    results = played(jobs, {0: [Start(0, on(0))], 20: [Start(1, on(0))]}, contention=1.25)
    assert ends(results) == [140, 100]
    assert results["shared_s"].tolist() == pytest.approx([80, 80])


def test_every_co_runner_costs_its_loss_until_it_leaves() -> None:
    """Loss .25. Three: 1.5 times slower; C's 40 are done at 60, A and B have 40. Two: 1.25 times, 60 more take 75."""
    jobs = [job(100, active_ms=20.0, idle_ms=80.0), job(100, active_ms=20.0, idle_ms=80.0), job(40)]
    lines: Lines = {0: [Start(0, on(0)), Start(1, on(0)), Start(2, on(0))]}
    assert ends(played(jobs, lines, max_share=3, contention_loss=0.25)) == [135, 135, 60]


def test_in_turns_a_job_waits_for_the_other_by_its_duty_and_memory() -> None:
    """Contention .8, iterations alike. A waits .8 x .9 x sqrt(9 / 4) = 1.08 for B, and B .8 x .5 x sqrt(1 / 4) = .2.

    B is 1.2 times slower and ends at 120. A has 120 / 2.08 by then, and runs the rest alone.
    """
    jobs = [job(100), job(100, gpu_memory_gib=9.0, **BUSY)]
    results = in_turns(jobs, {0: [Start(0, on(0)), Start(1, on(0))]}, contention=0.8)
    assert ends(results) == [120 + 100 - 120 / 2.08, 120]


def test_in_turns_long_iterations_delay_others_and_wait_little() -> None:
    """Contention 1. Iterations of 1.6 and 129.6 ms hold it as 1 to 3: A waits 2 x 3 / 4 for B, and B 2 x 1 / 4.

    A is 2.5 times slower: 0-150. B has 150 / 1.5 = 100 by then and 20 to go: 0-170.
    """
    busy = {"idle_ms": 0.0, "gpu_memory_gib": 4.0}
    jobs = [job(60, active_ms=1.6, **busy), job(120, active_ms=129.6, **busy)]
    results = in_turns(jobs, {0: [Start(0, on(0)), Start(1, on(0))]}, contention=1.0)
    assert ends(results) == [150, 170]


def test_in_turns_a_job_waits_for_every_other() -> None:
    """Contention .5, three of 4 GiB, busy for .9: each is 1 + .5 x 1.8 = 1.9 times slower, and .1 more by the loss."""
    jobs = [job(100, gpu_memory_gib=4.0, **BUSY) for _ in range(3)]
    lines: Lines = {0: [Start(each, on(0)) for each in range(3)]}
    assert ends(in_turns(jobs, lines, max_share=3, contention=0.5, contention_loss=0.05)) == [200] * 3


def test_in_turns_a_job_of_unknown_memory_is_a_common_one() -> None:
    """Without the part memory: contention .5 x utilisation .9 as with 4 GiB, so 1.45 times slower."""
    jobs = [job(100, gpu_memory_gib=9.0, **BUSY) for _ in range(2)]
    lines: Lines = {0: [Start(0, on(0)), Start(1, on(0))]}
    assert ends(in_turns(jobs, lines, physics="sharing", contention=0.5)) == [145, 145]


def test_the_worst_of_its_gpus_sets_the_pace_of_a_gang() -> None:
    """Contention 1. A on GPUs 0 and 1; B (duty .9) on 1: A and B 1.8 times slower. C (.5) on 0: 1.4 times.

    B ends at 90 (50 done). Then GPU 0 sets A's pace: 1.4. C has 90/1.4 and ends at 140 (100 done). At 140 A has
    50 + 50/1.4; alone it needs 14.2857 more.
    """
    jobs = [job(100, num_gpus=2, **BUSY), job(50, **BUSY), job(100)]
    lines: Lines = {0: [Start(0, on(0, 1)), Start(1, on(1)), Start(2, on(0))]}
    results = played(jobs, lines, contention=1.0)
    assert ends(results) == [140 + 100 / 7, 90, 140]
    assert results["shared_s"].tolist() == pytest.approx([(140 + 90) / 2, 90, 140])


def test_computing_slows_but_not_the_exchange() -> None:
    """A: 60 ms of computing, 60 of exchange (1.5 GB over 25 GB/s); B beside it on one GPU.

    Computing is twice as slow. A: 180 ms instead of 120, so 0-150. B: 75 done till then, and alone for 25: 0-175.
    """
    gang = job(100, num_gpus=2, active_ms=54.0, idle_ms=6.0, sync_gb=1.5)
    lines: Lines = {0: [Start(0, on(0, 1)), Start(1, on(0))]}
    results = played(
        [gang, job(100, **BUSY)], lines, cluster=TWO, physics=SHARED + ",locality", contention=1.25
    )
    assert ends(results) == [150, 175]


def test_pausing_and_loading_jobs_slow_no_other() -> None:
    """Together at half speed 0-20. B pauses 20-30, waits, loads 40-60: A runs alone 20-60 and has 50 then.

    Together again 60-160, when A is done; B has 10 + 50, and 40 to go: B ends at 200.
    """
    jobs = [job(100, **BUSY), job(100, **BUSY, pause_s=10.0, load_s=20.0)]
    lines: Lines = {0: [Start(0, on(0)), Start(1, on(0))]}
    lines |= {20: [Preempt(1)], 40: [Start(1, on(0))]}
    results = played(jobs, lines, contention=1.25)
    assert ends(results) == [160, 200]
    assert booked(results, 1, "wait_s run_s overhead_s") == [10, 160, 30]
    assert results["shared_s"].tolist() == pytest.approx([150, 120])  # while it runs itself


# Memory: each GPU has 16 GiB, and these jobs take 10.


def large(duration: float, **given: Any) -> dict[str, Any]:
    return job(duration, **{"gpu_memory_gib": 10.0} | given)


def test_the_last_job_fails_at_once_if_memory_does_not_suffice() -> None:
    """A 0-100. B comes to it at 10, fails, is queued again at 35, and runs 35-85 on the other GPU."""
    lines: Lines = {0: [Start(0, on(0))], 10: [Start(1, on(0))], 35: [Start(1, on(1))]}
    results = played([large(100), large(50)], lines)
    assert ends(results) == [100, 85]
    assert results["oom_restarts"].tolist() == [0, 1]
    assert booked(results, 1, "start_s wait_s run_s lost_s") == [10, 35, 50, 0]


def test_no_failed_job_may_start_before_its_delay_is_over() -> None:
    twins = Twins(workload(table_of(large(100), large(50)), ONE, physics=SHARED, restart_delay=30.0))
    twins.advance()
    for action in (Start(0, on(0)), Start(1, on(0))):
        twins.apply(action)
    for wait in (29.0, None):
        assert not twins.legal(Start(1, on(1)))
        twins.apply(Wait(wait))
        assert twins.advance()
    assert twins.fluid.clock == 30.0
    assert twins.legal(Start(1, on(1)))


# Peak memory after half of a run, for a job that joins others: H, of 1 GiB, is there before them.

LATE: dict[str, Any] = {"peak_at": 0.5, "max_share": 3, "contention": 0.0}
HOST = job(300)


@pytest.mark.parametrize(
    ("victim", "fails", "finish", "lost"), [("grower", 1, [175, 70], 50), ("newcomer", 2, [100, 135], 40)]
)
def test_memory_runs_over_when_a_job_needs_its_peak(
    victim: Any, fails: int, finish: list[float], lost: float
) -> None:
    """A 0-; B, since 10, has its 10 GiB from 40 on. At 50 A wants 10 more: too many.

    If A, who has just grown, fails, it loses 50 s and runs 75-175. If B, who came last, does, it loses 40: 75-135.
    """
    jobs = [HOST, large(100), large(60, submit_s=10.0)]
    lines: Lines = {0: [Start(0, on(0)), Start(1, on(0))], 10: [Start(2, on(0))], 75: [Start(fails, on(1))]}
    results = played(jobs, lines, oom_victim=victim, **LATE)
    assert ends(results) == [300, *finish]
    assert booked(results, fails, "lost_s wait_s oom_restarts") == [lost, 25, 1]
    assert results["run_s"].tolist() == [300, 100, 60]


def test_a_job_that_was_alone_has_its_peak_from_the_beginning() -> None:
    """A, alone 0-, has its 10 GiB, though half of its run is at 100. B joins at 10, and grows at 40: too many."""
    lines: Lines = {0: [Start(0, on(0))], 10: [Start(1, on(0))], 65: [Start(1, on(1))]}
    results = played([large(200), large(60)], lines, oom_victim="grower", peak_at=0.5)
    assert ends(results) == [200, 125]
    assert booked(results, 1, "lost_s wait_s") == [30, 35]


def test_a_slow_job_loses_its_time_and_not_its_progress() -> None:
    """Half speed together. B reaches its peak, 50 s of progress, at 100 and fails. A alone 100-150, B 125-225."""
    lines: Lines = {0: [Start(0, on(0)), Start(1, on(0))], 125: [Start(1, on(1))]}
    results = played([large(100, **BUSY), large(100, **BUSY)], lines, peak_at=0.5, contention=1.25)
    assert ends(results) == [150, 225]
    assert booked(results, 1, "lost_s run_s wait_s") == [100, 100, 25]


def test_a_job_without_progress_has_nothing_to_load() -> None:
    """B has its peak from the beginning. A 0-20, pauses 20-23, loads 30-35, runs 35-65: there it grows, and fails.

    Queued from 90 on, it starts over at 120, when B is done: A 120-220. It waited 7 and 55 s, lost 20 + 30.
    """
    jobs = [large(100, pause_s=3.0, load_s=5.0), large(120)]
    lines: Lines = {
        0: [Start(1, on(0)), Start(0, on(0))],
        20: [Preempt(0)],
        30: [Start(0, on(0))],
        120: [Start(0, on(0))],
    }
    results = played(jobs, lines, peak_at=0.5)
    assert ends(results) == [220, 120]
    assert booked(results, 0, "wait_s run_s overhead_s lost_s") == [62, 100, 8, 50]


def test_a_job_that_had_its_peak_takes_it_again_as_it_loads() -> None:
    """A 0-60, alone. At 70, past half of its run, it joins B: it fails at once, and loads nothing. Again 95-195."""
    lines: Lines = {
        0: [Start(0, on(0)), Start(1, on(1))],
        60: [Preempt(0)],
        70: [Start(0, on(1))],
        95: [Start(0, on(0))],
    }
    results = played([large(100, load_s=5.0), large(100)], lines, peak_at=0.5)
    assert ends(results) == [195, 100]
    assert booked(results, 0, "overhead_s lost_s") == [0, 60]


@pytest.mark.parametrize("first", [0, 1])
def test_a_job_that_ends_as_another_grows_frees_memory_for_it(first: int) -> None:
    """At 50 one ends, and the other, which joined it, needs its peak; whichever is named first."""
    jobs = [large(100), large(50)] if first else [large(50), large(100)]
    results = played(jobs, {0: [Start(first, on(0)), Start(1 - first, on(0))]}, peak_at=0.5)
    assert sorted(results["finish_s"]) == [50, 100]
    assert not results["oom_restarts"].any()


def test_a_job_that_has_paused_as_another_grows_frees_memory_for_it() -> None:
    """B, first, pauses 40-50; at 50 A grows, till 100. B loads nothing and runs 100-120."""
    lines: Lines = {0: [Start(1, on(0)), Start(0, on(0))], 40: [Preempt(1)], 100: [Start(1, on(0))]}
    results = played([large(100), large(60, pause_s=10.0)], lines, peak_at=0.5)
    assert ends(results) == [100, 120]
    assert not results["oom_restarts"].any()


@pytest.mark.parametrize(("victim", "fails"), [("newcomer", 1), ("grower", 2)])
def test_of_two_jobs_that_grow_together_one_fails(victim: Any, fails: int) -> None:
    """B is started before A, at 0; both grow at 50. A came last; B, the later job, grows last."""
    lines: Lines = {0: [Start(0, on(0)), Start(2, on(0)), Start(1, on(0))], 75: [Start(fails, on(1))]}
    results = played([HOST, large(100), large(100)], lines, oom_victim=victim, **LATE)
    assert booked(results, fails, "finish_s lost_s") == [175, 50]
    assert results["oom_restarts"].sum() == 1


@pytest.mark.parametrize(("victim", "finish"), [("newcomer", [100, 140, 150]), ("grower", [180, 70, 80])])
def test_every_gpu_of_a_gang_that_runs_over_has_its_victim(victim: Any, finish: list[float]) -> None:
    """A on both GPUs grows at 50. B on GPU 0 and C on GPU 1, since 10, took their peaks at 40 and 45.

    Both fail, as they came last, and start over at 80; or A does, for both.
    """
    jobs = [HOST, large(100, num_gpus=2), large(60), large(70)]
    lines: Lines = {0: [Start(0, on(0)), Start(1, on(0, 1))], 10: [Start(2, on(0)), Start(3, on(1))]}
    lines[80] = [Start(1, on(0, 1))] if victim == "grower" else [Start(2, on(0)), Start(3, on(1))]
    assert ends(played(jobs, lines, oom_victim=victim, **LATE)) == [300, *finish]


def victims(seed: int, failures: int) -> list[int]:
    """Return the jobs that fail, in order, of three that share a GPU with memory for two."""
    work = workload(
        table_of(*[large(1e4, gpu_memory_gib=6.0)] * 3),
        ONE,
        physics=SHARED,
        oom_victim="random",
        max_share=3,
        restart_delay=1.0,
        seed=seed,
    )
    episode = work.episode()
    failed: list[int] = []
    while len(failed) < failures:
        episode.advance()
        for queued in episode.view.queue.tolist():
            before = episode.view.jobs.oom_restarts.copy()
            episode.apply(Start(queued, on(0)))
            failed += np.flatnonzero(episode.view.jobs.oom_restarts > before).tolist()
        episode.apply(Wait())
    return failed


def test_a_random_victim_is_drawn_by_the_seed_and_evenly() -> None:
    drawn = [victims(seed, 30) for seed in range(20)]
    assert drawn == [victims(seed, 30) for seed in range(20)]
    firsts = [failed[0] for failed in drawn]
    assert min(firsts.count(victim) for victim in range(3)) >= 2  # of 20; less has a chance of 1 in 100
    counts = np.bincount(np.concatenate(drawn))
    assert (abs(counts - 200) < 35).all()  # three deviations
    again = np.mean([failed[k] == failed[k + 1] for failed in drawn for k in range(29)])
    assert abs(again - 1 / 3) < 0.06  # three deviations
