"""Locality, cores, bandwidth, and accounting, worked by hand. `A 0-10`: A runs from 0 to 10.

A is the first job of the list.
"""

import numpy as np
import pytest

from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Preempt, Ranking, Resize, Start, Throttle, Wait
from tests.accounts.twins import Twins
from tests.cases.by_hand import (
    CORES,
    EVERYTHING,
    FED,
    ONE,
    SHARED,
    SUDDEN,
    TWO,
    Lines,
    at,
    booked,
    ends,
    job,
    on,
    played,
)
from tests.cases.mixed_jobs import table_of, workload

# Where the GPUs of a gang are. A: 60 ms of computing, 1.5 GB to exchange.


@pytest.mark.parametrize(("gpus", "end"), [((0, 1), 100), ((0, 2), 100 * 0.32 / 0.12)])
def test_a_gang_is_slower_on_two_nodes(gpus: tuple[int, ...], end: float) -> None:
    """2 GPUs exchange 2 x 1/2 x 1.5 GB: 60 ms at 25 GB/s; at 6.25 GB/s 240 ms, and 20 for the second node."""
    gang = job(100, num_gpus=2, active_ms=54.0, idle_ms=6.0, sync_gb=1.5)
    results = played([gang], {0: [Start(0, on(*gpus))]}, cluster=TWO, physics="memory,locality")
    assert ends(results) == [end]


@pytest.mark.parametrize(("gpus", "end"), [((0, 1, 2, 3), 100), ((0, 2, 4, 6), 100 * 0.48 / 0.45)])
def test_a_large_gang_is_as_fast_as_can_be_on_as_few_nodes_as_can_be(
    gpus: tuple[int, ...], end: float
) -> None:
    """4 GPUs exchange 2 x 3/4 x 1.5 GB at 6.25 GB/s: 360 ms. On 2 nodes 10 and 20 ms more, on 4 nodes 3 x 20."""
    links = Cluster(
        "four nodes", (2,) * 4, (16.0,) * 4, (16,) * 4, 40.0, 25.0, 6.25, intra_ms=10.0, inter_ms=20.0
    )
    gang = job(100, num_gpus=4, active_ms=54.0, idle_ms=6.0, sync_gb=1.5)
    results = played([gang], {0: [Start(0, on(*gpus))]}, cluster=links, physics="memory,locality")
    assert ends(results) == [end]


# Cores. FED: 100 ms of computing, for which four cores bring the input in time.


@pytest.mark.parametrize(
    ("asked", "given", "end"),
    [(4, 1.0, 400), (4, 2.0, 200), (4, 4.0, 100), (4, 8.0, 100), (2, 4.0, 50), (2, 8.0, 50)],
)
def test_cores_limit_speed_up_to_the_need(asked: int, given: float, end: float) -> None:
    """An iteration takes 0.4 / cores s, but no less than 0.1. The 100 s are those with the cores asked."""
    fed = job(100, **FED | {"cpu_cores": asked})
    assert ends(played([fed], {0: [Start(0, on(0, cores=given))]}, physics=CORES)) == [end]


def test_cores_may_change_while_a_job_runs() -> None:
    """Two cores: 20 s done by 40. Four: 60 s by 80. One: the other 40 take 160 s. Nothing is paused for it."""
    lines: Lines = {
        0: [Start(0, on(0, cores=2.0))],
        40: [Resize(0, 4.0)],
        80: [Resize(0, 1.0)],
    }
    results = played([job(100, **FED)], lines, physics=CORES)
    assert ends(results) == [240]
    assert booked(results, 0, "wait_s run_s overhead_s preemptions") == [0, 240, 0, 0]
    assert booked(results, 0, "core_s") == [40 * 2 + 40 * 4 + 160 * 1]


def test_the_node_with_fewest_cores_binds() -> None:
    """One GPU each on two nodes of eight cores, five of node 1 taken: three each, though four are asked. 3/4 speed."""
    pair = Cluster("two nodes", (1, 1), (16.0, 16.0), (8, 8))
    jobs = [job(75, num_gpus=2, **FED | {"cpu_cores": 8}), job(300, num_gpus=0, cpu_cores=5)]
    results = played(jobs, {0: [Start(1, at(1)), Start(0, on(0, 1))]}, cluster=pair, physics=CORES)
    assert ends(results) == [100, 300]
    assert booked(results, 0, "core_s") == [600]


def test_a_job_starts_with_the_cores_that_are_left_and_may_grow() -> None:
    """A CPU job has four of six cores, one is kept for each GPU: B gets one of the four it asks, 25 s done by 100.

    Then A is done, and B may have five: 75 s more.
    """
    small = Cluster("few cores", (2,), (16.0,), (6,))
    jobs = [job(100, num_gpus=0, cpu_cores=4), job(100, **FED)]
    lines: Lines = {0: [Start(0, at(0)), Start(1, on(0))], 100: [Resize(1, 5.0)]}
    assert ends(played(jobs, lines, cluster=small, physics=CORES)) == [100, 175]


def test_the_last_cores_are_kept_for_gpus_without_a_job() -> None:
    """Six cores, two GPUs: CPU jobs may have four. A GPU with a job keeps none but what the job has."""
    small = Cluster("few cores", (2,), (16.0,), (6,))
    jobs = [job(100, num_gpus=0, cpu_cores=4), job(100, num_gpus=0), job(100, **FED), job(100, **FED)]
    twins = Twins(workload(table_of(*jobs), small, physics=CORES))
    twins.advance()
    twins.apply(Start(0, at(0)))
    assert not twins.legal(Start(1, at(0)))
    assert not twins.legal(Start(2, on(0, cores=2.0)))
    twins.apply(Start(2, on(0)))
    twins.apply(Start(3, on(1, cores=1.0)))
    assert not twins.legal(Resize(2, 2.0))
    assert not twins.legal(Start(1, at(0)))
    assert (twins.episode.view.nodes.free_cores.tolist(), twins.differences) == ([0.0], [])


def test_a_cpu_job_runs_by_its_cores() -> None:
    """Two of four cores: 20 s done by 40; then all four: 80 s more. It may not have five."""
    lines: Lines = {0: [Start(0, at(0, cores=2.0))], 40: [Resize(0, 4.0)]}
    results = played([job(100, num_gpus=0, cpu_cores=4)], lines, physics=CORES)
    assert ends(results) == [120]
    assert booked(results, 0, "core_s") == [40 * 2 + 80 * 4]
    twins = Twins(workload(table_of(job(100, num_gpus=0, cpu_cores=4)), ONE, physics=CORES))
    twins.advance()
    assert not twins.legal(Start(0, at(0, cores=5.0)))
    twins.apply(Start(0, at(0)))
    assert not twins.legal(Resize(0, 5.0))


# Bandwidth: 40 GB/s a node.

HOG = {"num_gpus": 0, "cpu_cores": 4, "bandwidth_gbs": 60.0}


def test_excess_bandwidth_slows_all_jobs_until_throttled() -> None:
    """A draws 20 GB/s and B, a CPU job, 60: both wait twice as long, 20 s done by 40.

    B throttled to half: 50 GB/s, A 0.8 and B 0.5 x 0.8; A has 60 s by 90, B 40. Let go: A 0-170, when B has 80.
    B alone draws 1.5 times what there is: its last 20 take 30.
    """
    lines: Lines = {
        0: [Start(0, on(0)), Start(1, at(0))],
        40: [Throttle(1, 0.5)],
        90: [Throttle(1, 1.0)],
    }
    results = played([job(100, **FED, bandwidth_gbs=20.0), job(100, **HOG)], lines, physics=EVERYTHING)
    assert ends(results) == [170, 200]


def test_a_cpu_job_with_half_of_its_cores_draws_half() -> None:
    """20 + 30 GB/s: A 0.8; B half of 0.8, and from 125 on, alone at 30 of 40, half: 50 done, then 100 s more."""
    lines: Lines = {0: [Start(0, on(0)), Start(1, at(0, cores=2.0))]}
    results = played([job(100, **FED, bandwidth_gbs=20.0), job(100, **HOG)], lines, physics=EVERYTHING)
    assert ends(results) == [125, 225]


def test_jobs_without_bandwidth_do_not_wait_for_it() -> None:
    """B overdraws its node, 0-150. Neither A, which waits for no input, nor C, which draws nothing, notices."""
    jobs = [job(100), job(100, **HOG), job(100, num_gpus=0)]
    lines: Lines = {0: [Start(0, on(0)), Start(1, at(0)), Start(2, at(0))]}
    assert ends(played(jobs, lines, physics=EVERYTHING)) == [100, 150, 100]


def test_the_worst_node_of_a_gang_binds_and_draws_are_by_gpu() -> None:
    """A, 40 GB/s in all, has a GPU on each node. B draws 60 on node 1: 20 + 60 there, A and B at half speed, A 0-200.

    B has 100 by then, and ends 30 s later, since alone it draws 1.5 times what there is.
    """
    gang = job(100, num_gpus=2, **FED | {"cpu_cores": 8}, bandwidth_gbs=40.0)
    lines: Lines = {0: [Start(0, on(0, 2)), Start(1, at(1))]}
    cluster = Cluster("two nodes", (2, 2), (16.0, 16.0), (16, 16), bandwidth_gbs=40.0)
    physics = "memory,cores,bandwidth,cpu_jobs"
    assert ends(played([gang, job(120, **HOG)], lines, cluster=cluster, physics=physics)) == [200, 230]


def test_a_throttle_ends_with_the_run() -> None:
    """Half speed 0-40, 20 done; paused 40-50; then at full speed: 50-130."""
    lines: Lines = {
        0: [Start(0, at(0)), Throttle(0, 0.5)],
        40: [Preempt(0)],
        50: [Start(0, at(0))],
    }
    assert ends(played([job(100, num_gpus=0, pause_s=10.0)], lines, physics=CORES)) == [130]


def test_only_running_cpu_jobs_are_throttled() -> None:
    twins = Twins(workload(table_of(job(100), job(100, num_gpus=0)), ONE, physics=CORES))
    twins.advance()
    assert not twins.legal(Throttle(1, 0.5))
    twins.apply(Start(0, on(0)))
    twins.apply(Start(1, at(0)))
    assert twins.legal(Throttle(1, 0.5))
    wrong = [Throttle(0, 0.5), Throttle(1, 0.0), Throttle(1, 1.5), Throttle(1, np.nan), Throttle(2, 0.5)]
    assert not any(twins.legal(action) for action in wrong)
    assert twins.differences == []


# Reservations.


def test_a_reserved_gpu_waits_for_its_last_pausing_job() -> None:
    """A (pause 10) and D (pause 20) leave GPU 0 at 20. B starts at 40, with the two cores it wants: half speed.

    A and D go on together on GPU 1, 40-120. B 40-140.
    """
    jobs = [job(100, **FED, pause_s=10.0), job(50, **FED), job(100), job(100, pause_s=20.0)]
    lines: Lines = {0: [Start(0, on(0)), Start(3, on(0)), Start(2, on(1))]}
    lines |= {
        20: [Preempt(0), Preempt(3), Start(1, on(0, cores=2.0))],
        40: [Start(0, on(1))],
        100: [Start(3, on(1))],
    }
    results = played(jobs, lines, physics=EVERYTHING, contention_form="excess")
    assert ends(results) == [120, 140, 100, 180]
    assert booked(results, 1, "start_s wait_s") == [40, 40]


def test_reserved_gpus_are_closed_and_running_ones_cannot_be_reserved() -> None:
    """A pauses on GPU 0, B runs on GPU 1. A gang may have neither both, nor a GPU that is reserved already."""
    jobs = [job(100, pause_s=10.0), job(100), job(100, num_gpus=2), job(100), job(100)]
    twins = Twins(workload(table_of(*jobs), ONE, physics=SHARED))
    twins.advance()
    for action in (Start(0, on(0)), Start(1, on(1)), Wait(5.0)):
        twins.apply(action)
    assert twins.advance()
    twins.apply(Preempt(0))
    assert not twins.legal(Start(2, on(0, 1)))
    twins.apply(Start(3, on(0)))
    assert not twins.legal(Start(4, on(0)))
    assert twins.legal(Start(4, on(1)))
    assert twins.differences == []


# What is counted.


@pytest.mark.parametrize("step_by_step", [False, True])
def test_levels_rise_with_the_time_run_and_not_with_progress(step_by_step: bool) -> None:
    """A and B draw twice the bandwidth there is. At 30 both have run 30 s, made 15, and are one level down.

    C, since 5, displaces A: C 30-40, while B runs at full speed. A and B at half speed 40-190: B is done, A has 90.
    """
    jobs = [job(100, **FED, bandwidth_gbs=40.0), job(100, **FED, bandwidth_gbs=40.0), job(10, submit_s=5.0)]
    work = workload(table_of(*jobs), ONE, physics="memory,preemption,cores,bandwidth", **SUDDEN)
    las = Ranking("level", "by_order", levels=(30.0,))
    results = work.results(run(las, work.episode(), step_by_step=step_by_step))
    assert ends(results) == [200, 190, 40]


def test_a_gpu_is_busy_as_much_as_its_job_is_faster_with_plenty_of_cores() -> None:
    """With two cores of four A computes half of the time: 20 s busy until the last submission, at 40."""
    jobs = [job(100, **FED), job(10, submit_s=40.0)]
    lines: Lines = {0: [Start(0, on(0, cores=2.0))], 40: [Start(1, on(1))]}
    results = played(jobs, lines, physics=CORES)
    assert results["busy_s"].tolist() == pytest.approx([20, 0])


@pytest.mark.parametrize("step_by_step", [False, True])
def test_a_ranking_hands_out_the_last_cores_the_same_way_step_by_step(step_by_step: bool) -> None:
    """At 600 C takes five of six spare cores; then D, who asks seven, displaces A and gets two: half speed.

    A 0-600, C 600-700, D 600-620, A 620-1020; B 0-1000.
    """
    node = Cluster("eight cores", (2,), (16.0,), (8,))
    jobs = [job(1000), job(1000), job(100, submit_s=600.0, num_gpus=0, cpu_cores=5)]
    jobs.append(job(10, submit_s=600.0, **FED | {"cpu_cores": 7}))
    work = workload(table_of(*jobs), node, physics=CORES)
    pays = Ranking("weighted", "cost_aware", exponent=1.0, margin=0.0)
    assert ends(work.results(run(pays, work.episode(), step_by_step=step_by_step))) == [1020, 1000, 700, 620]
