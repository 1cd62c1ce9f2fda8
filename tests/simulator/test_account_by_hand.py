"""Accounts of timelines worked by hand. `A 0-10`: job A, first in the list, runs from 0 to 10."""

from typing import Any

import pytest

from gpu_cluster_gym.simulator.account import Account
from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Policy, Preempt, Ranking, Resize, Start, Throttle
from tests.cases.by_hand import CORES, FED, ONE, SHARED, SUDDEN, Lines, Script, at, job, on
from tests.cases.mixed_jobs import table_of, workload

Life = list[tuple[Any, ...]]  # phases of a job: name, start and end, and additional fields
SINGLE = Cluster("one GPU", (1,), (16.0,), (8,))
FAILING = "memory,preemption,failures"


def account_of(
    jobs: list[dict[str, Any]],
    policy: Policy | Lines,
    *,
    cluster: Cluster = ONE,
    physics: str = SHARED,
    **choices: Any,
) -> Account:
    """Return the account of an episode of these jobs, under a policy or a script."""
    work = workload(table_of(*jobs), cluster, physics=physics, **(SUDDEN | choices))
    account = Account()
    run(Script(policy) if isinstance(policy, dict) else policy, work.episode(), account=account)
    return account


def life(account: Account, number: int, *beside: str) -> Life:
    """Return the segments of a job: phase, from, to and other columns; times and levels rounded to a millionth."""
    rows = account.segments().query("job == @number")
    columns = [rows[name].tolist() for name in ("phase", "from_s", "to_s", *beside)]
    return [tuple(rounded(value) for value in row) for row in zip(*columns, strict=True)]


def held(account: Account, number: int, *beside: str) -> Life:
    """Return the holdings of a job: GPUs, from, to and other columns."""
    rows = account.holdings().query("job == @number")
    columns = [rows[name].tolist() for name in ("gpus", "from_s", "to_s", *beside)]
    return [tuple(rounded(value) for value in row) for row in zip(*columns, strict=True)]


def rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def totals(account: Account, *names: str) -> list[tuple[float, ...]]:
    """Return some columns over time."""
    rows = account.over_time()
    return [tuple(map(rounded, row)) for row in zip(*(rows[name].tolist() for name in names), strict=True)]


@pytest.mark.parametrize("step_by_step", [False, True])
def test_pauses_and_loads(step_by_step: bool) -> None:
    """Loading A cannot be paused for C, which comes at 40, only when it is loaded at 55.

    A 0-10, pauses 10-15; B 15-35; A loads 35-55, pauses 55-60; C 60-70; A loads 70-90, runs its 90 s to 180.
    """
    jobs = [job(100, pause_s=5.0, load_s=20.0), job(20, submit_s=10.0), job(10, submit_s=40.0)]
    work, account = workload(table_of(*jobs), SINGLE, physics="memory,preemption"), Account()
    run(Ranking("remaining", "by_order"), work.episode(), step_by_step=step_by_step, account=account)
    assert life(account, 0, "num_gpus", "holding") == [
        ("running", 0, 10, 1, 0),
        ("pausing", 10, 15, 1, 0),
        ("queued", 15, 35, 0, -1),
        ("loading", 35, 55, 1, 1),
        ("pausing", 55, 60, 1, 1),
        ("queued", 60, 70, 0, -1),
        ("loading", 70, 90, 1, 2),
        ("running", 90, 180, 1, 2),
    ]
    assert life(account, 1) == [("queued", 10, 15), ("running", 15, 35)]
    assert life(account, 2) == [("queued", 40, 60), ("running", 60, 70)]
    assert held(account, 0) == [((0,), 0, 15), ((0,), 35, 60), ((0,), 70, 180)]
    assert totals(account, "time_s", "present", "queued", "running_gpus", "idle_gpus") == [
        (0, 1, 0, 1, 0),
        (10, 2, 1, 0, 1),
        (15, 2, 1, 1, 0),
        (35, 1, 0, 0, 1),
        (40, 2, 1, 0, 1),
        (55, 2, 1, 0, 1),
        (60, 2, 1, 1, 0),
        (70, 1, 0, 0, 1),
        (90, 1, 0, 1, 0),
        (180, 0, 0, 0, 0),
    ]


def test_a_temporary_job_shares_while_it_runs() -> None:
    """Utilisation .9 + .9 and 1.25 x .8 = 1: half speed together. A 0-140, B 20-100, each of 3 GiB."""
    busy: dict[str, Any] = {"active_ms": 90.0, "idle_ms": 10.0, "gpu_memory_gib": 3.0}
    lines: Lines = {0: [Start(0, on(0))], 20: [Start(1, on(0))]}
    jobs = [job(100, **busy), job(40, **busy)]
    account = account_of(jobs, lines, contention_form="excess", contention=1.25)
    assert life(account, 0, "shared", "holding") == [
        ("running", 0, 20, 0, 0),
        ("running", 20, 100, 1, 0),
        ("running", 100, 140, 0, 0),
    ]
    assert life(account, 1, "shared", "holding") == [("queued", 0, 20, 0, -1), ("running", 20, 100, 1, 1)]
    assert totals(account, "time_s", "held_gpus", "running_gpus", "busy_gpus", "memory_gib") == [
        (0, 1, 1, 1, 3),
        (20, 1, 2, 1, 6),
        (100, 1, 1, 1, 3),
        (140, 0, 0, 0, 0),
    ]


def test_a_job_that_overflows_at_once_has_held_nothing() -> None:
    """B, 10 GiB, joins A, 10 GiB, on 16 GiB, and is queued again after 25 s; then it has the other GPU."""
    jobs = [job(100, gpu_memory_gib=10.0), job(100, gpu_memory_gib=10.0)]
    lines: Lines = {0: [Start(0, on(0))], 40: [Start(1, on(0))], 70: [Start(1, on(1))]}
    account = account_of(jobs, lines)
    assert life(account, 0, "shared") == [("running", 0, 100, 0)]
    assert life(account, 1) == [
        ("queued", 0, 40),
        ("restarting", 40, 65),
        ("queued", 65, 70),
        ("running", 70, 170),
    ]
    assert held(account, 1) == [((1,), 70, 170)]
    assert totals(account, "time_s", "queued", "restarting", "memory_gib") == [
        (0, 1, 0, 10),
        (40, 0, 1, 10),
        (65, 1, 0, 10),
        (70, 0, 0, 20),
        (100, 0, 0, 10),
        (170, 0, 0, 0),
    ]


def test_memory_is_taken_when_it_is_needed() -> None:
    """B, who joins A at 20, needs its 3 GiB from half of its 80 s on, at 60; A is alone and has them at once."""
    lines: Lines = {0: [Start(0, on(0))], 20: [Start(1, on(0))]}
    jobs = [job(100, gpu_memory_gib=3.0), job(80, gpu_memory_gib=3.0)]
    account = account_of(jobs, lines, contention_form="excess", peak_at=0.5)
    assert totals(account, "time_s", "memory_gib") == [(0, 3), (20, 3), (60, 6), (100, 0)]


def test_servers_that_have_gpus_too() -> None:
    """One worker and one server, each on a GPU: the job holds two."""
    lines: Lines = {0: [Start(0, on(0, 1, workers=1, servers=1))]}
    account = account_of([job(100, servers=1)], lines, physics="memory,preemption,elastic")
    assert [row[3:] for row in held(account, 0, "workers", "servers", "node")] == [(1, 1, -1)]
    assert totals(account, "held_gpus", "running_gpus")[0] == (2, 2)


def test_cores_that_change_while_a_job_runs() -> None:
    """Two cores of four are half speed: 20 s done by 40. Four: 60 s by 80. One: the other 40 take 160 s."""
    lines: Lines = {0: [Start(0, on(0, cores=2.0))], 40: [Resize(0, 4.0)], 80: [Resize(0, 1.0)]}
    account = account_of([job(100, **FED)], lines, physics=CORES)
    assert life(account, 0, "cores", "holding") == [
        ("running", 0, 40, 2, 0),
        ("running", 40, 80, 4, 0),
        ("running", 80, 240, 1, 0),
    ]
    assert totals(account, "time_s", "cores", "busy_gpus") == [
        (0, 2, 0.5),
        (40, 4, 1),
        (80, 1, 0.25),
        (240, 0, 0),
    ]


def test_a_throttled_cpu_job() -> None:
    """Three of four cores 0-40, 30 done; half as fast 40-80, 45 done; without a throttle, 55 more take 73.333."""
    lines: Lines = {0: [Start(0, at(0, cores=3.0))], 40: [Throttle(0, 0.5)], 80: [Throttle(0, 1.0)]}
    account = account_of([job(100, num_gpus=0, cpu_cores=4)], lines, physics=CORES)
    end = rounded(80 + 55 * 4 / 3)
    assert life(account, 0, "throttle", "cores", "num_gpus", "node") == [
        ("running", 0, 40, 1, 3, 0, 0),
        ("running", 40, 80, 0.5, 3, 0, 0),
        ("running", 80, end, 1, 3, 0, 0),
    ]
    assert held(account, 0, "workers", "node") == [((), 0, end, 0, 0)]
    assert totals(account, "time_s", "cores", "held_gpus")[0] == (0, 3, 0)


def test_a_moving_job_waits_for_the_gpu_of_another() -> None:
    """At 20 A (on one of two GPUs, at half speed) moves to both, of which B's is free at 30: B pauses 20-30, A 20-24.

    A has 10 s done: 30-120 on two. B has 20: 120-150.
    """
    jobs = [job(100, num_gpus=2, min_workers=1, pause_s=4.0), job(50, pause_s=10.0)]
    lines: Lines = {
        0: [Start(0, on(0)), Start(1, on(1))],
        20: [Preempt(1), Resize(0, placement=on(0, 1))],
        120: [Start(1, on(1))],
    }
    account = account_of(jobs, lines, physics="memory,preemption,elastic")
    assert life(account, 0, "num_gpus") == [
        ("running", 0, 20, 1),
        ("pausing", 20, 24, 1),
        ("reserved", 24, 30, 0),
        ("running", 30, 120, 2),
    ]
    assert held(account, 0, "workers") == [((0,), 0, 24, 1), ((0, 1), 30, 120, 2)]
    assert life(account, 1) == [
        ("running", 0, 20),
        ("pausing", 20, 30),
        ("queued", 30, 120),
        ("running", 120, 150),
    ]
    assert totals(account, "time_s", "present", "queued", "reserved", "held_gpus") == [
        (0, 2, 0, 0, 2),
        (20, 2, 0, 0, 2),
        (24, 2, 0, 1, 1),
        (30, 2, 1, 0, 2),
        (120, 1, 0, 0, 1),
        (150, 0, 0, 0, 0),
    ]


def test_a_move_that_takes_no_time_is_another_holding() -> None:
    """A runs on GPU 0 for 0-40 and goes on at once on GPU 1."""
    lines: Lines = {0: [Start(0, on(0))], 40: [Resize(0, placement=on(1))]}
    account = account_of([job(100)], lines, physics="memory,preemption,elastic")
    assert life(account, 0, "holding") == [("running", 0, 40, 0), ("running", 40, 100, 1)]
    assert held(account, 0) == [((0,), 0, 40), ((1,), 40, 100)]


def test_a_job_that_fails_in_another_shape() -> None:
    """One GPU 0-40: 20 of 100 s, saved. Two 40-70: A fails, keeps 20, and runs again from 95 on: on two to 175."""
    jobs = [job(100, num_gpus=2, min_workers=1, crash_at=0.5)]
    lines: Lines = {0: [Start(0, on(1))], 40: [Resize(0, placement=on(0, 1))], 95: [Start(0, on(0, 1))]}
    account = account_of(jobs, lines, physics=f"{FAILING},elastic")
    assert life(account, 0, "num_gpus", "holding") == [
        ("running", 0, 40, 1, 0),
        ("running", 40, 70, 2, 1),
        ("restarting", 70, 95, 0, -1),
        ("running", 95, 175, 2, 2),
    ]
    assert held(account, 0) == [((1,), 0, 40), ((0, 1), 40, 70), ((0, 1), 95, 175)]


def test_a_node_that_goes_down() -> None:
    """The node is drained at 3960-4140. B 3500-3960, keeps 400 s, waits, loads till 4150 and runs its last 600."""
    drains: dict[str, Any] = {"drain_every_h": 1.0, "drain_notice_h": 0.1, "drain_length_h": 0.05}
    jobs = [job(100), job(1000, submit_s=3500.0, load_s=10.0)]
    lines: Lines = {0: [Start(0, on(0))], 3500: [Start(1, on(0))], 4140: [Start(1, on(0))]}
    account = account_of(jobs, lines, physics=FAILING, checkpoint_every=200.0, **drains)
    assert life(account, 1) == [
        ("running", 3500, 3960),
        ("restarting", 3960, 3985),
        ("queued", 3985, 4140),
        ("loading", 4140, 4150),
        ("running", 4150, 4750),
    ]
    assert held(account, 1) == [((0,), 3500, 3960), ((0,), 4140, 4750)]
