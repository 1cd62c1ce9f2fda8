"""Jobs that change their shape, parameter servers, workers on cores, and GPUs of other types, worked by hand.

A is the first job of the list; `A 0-10` runs from 0 to 10. An iteration takes 0.1 s on a V100.
"""

from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym import traces
from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import (
    Action,
    Placement,
    Preempt,
    Ranking,
    Resize,
    Start,
    Throttle,
    Wait,
)
from gpu_cluster_gym.simulator.view import View
from tests.accounts.twins import Twins
from tests.cases.by_hand import FED, Lines, Script, at, booked, ends, job, on, played
from tests.cases.mixed_jobs import table_of, workload

FOUR = Cluster("one node", (4,), (16.0,), (24,), inter_gbs=6.25)
PAIRS = Cluster("two nodes", (2, 2), (16.0, 16.0), (16, 16), inter_gbs=6.25, inter_ms=20.0)
ELASTIC = "memory,preemption,elastic"


def two(duration: float = 100, **given: Any) -> dict[str, Any]:
    """Return a job that requests two workers and can have one to four."""
    return job(duration, num_gpus=2, min_workers=1, max_workers=4, **given)


def to(*gpus: int, job: int = 0, **shape: int) -> Resize:
    return Resize(job, placement=on(*gpus, **shape))


# Workers.


@pytest.mark.parametrize(("loss", "end"), [(0.0, 100), (0.5, 120), (1.0, 130)])
def test_a_job_that_grows_pauses_loads_and_runs_faster(loss: float, end: float) -> None:
    """Two GPUs 0-40; pauses with them 40-50, loads with four 50-70. 60 s are left.

    Four are 4 / (1 + 3a) times as fast as one, two 2 / (1 + a): 2, 1.2 or 1 times as fast as two.
    """
    lines: Lines = {0: [Start(0, on(0, 1))], 40: [to(0, 1, 2, 3)]}
    results = played(
        [two(scaling_loss=loss, pause_s=10.0, load_s=20.0)], lines, cluster=FOUR, physics=ELASTIC
    )
    assert ends(results) == [end]
    assert booked(results, 0, "wait_s run_s overhead_s resizes preemptions") == [0, end - 30, 30, 1, 0]
    assert booked(results, 0, "run_gpu_s overhead_gpu_s") == [80 + 4 * (end - 70), 20 + 80]


def test_fewer_workers_do_more_each() -> None:
    """One of two, a = .25: 1 / (2 / 1.25) of the speed from the start. 100 s take 160."""
    results = played([two(scaling_loss=0.25)], {0: [Start(0, on(3))]}, cluster=FOUR, physics=ELASTIC)
    assert ends(results) == [160]
    assert booked(results, 0, "run_gpu_s") == [160]


def test_a_growing_job_waits_for_gpus_that_are_being_freed() -> None:
    """B pauses 40-70. A pauses 40-50, has given up its two GPUs, which nobody else gets, and loads 70-75 with four.

    It has 60 s left and runs twice as fast: 75-105. B loads nothing: 105-165.
    """
    jobs = [two(pause_s=10.0, load_s=5.0), two(pause_s=30.0)]
    lines: Lines = {
        0: [Start(0, on(0, 1)), Start(1, on(2, 3))],
        40: [Preempt(1), to(0, 1, 2, 3)],
        105: [Start(1, on(2, 3))],
    }
    results = played(jobs, lines, cluster=FOUR, physics=ELASTIC)
    assert ends(results) == [105, 165]
    assert booked(results, 0, "wait_s run_s overhead_s resizes") == [20, 70, 15, 1]


def test_a_job_that_moves_keeps_its_gpus_from_others() -> None:
    """It may go to free GPUs, its own, and those of who pauses; not to others' nor to what is kept for others."""
    jobs = [two(pause_s=10.0), two(pause_s=10.0), job(100), job(100)]
    twins = Twins(workload(table_of(*jobs), FOUR, physics=ELASTIC))
    assert twins.advance()
    for action in (Start(0, on(0, 1)), Start(2, on(2)), Wait(5.0)):
        twins.apply(action)
    assert twins.advance()
    assert not twins.legal(to(0, 1, 2))
    assert not twins.legal(to(0, 0))
    assert not twins.legal(to())
    assert not twins.legal(Resize(0))
    assert not twins.legal(Resize(0, 1.0, on(3)))
    twins.apply(to(0, 3))
    assert not twins.legal(Start(3, on(3)))
    assert not twins.legal(Start(3, on(0)))
    assert twins.legal(Start(3, on(1)))
    assert twins.legal(to(1, job=2))
    assert not twins.legal(to(3, job=2))
    assert not twins.legal(to(0, 3))
    assert not twins.legal(Preempt(0))
    assert twins.episode.view.gpus.reserved_for.tolist() == [0, -1, -1, 0]
    assert twins.differences == []


@pytest.mark.parametrize("count", [0, 5])
def test_workers_have_a_minimum_and_a_maximum(count: int) -> None:
    wide = Cluster("one node", (5,), (16.0,), (24,))
    jobs = [two(), job(10, submit_s=1.0)]
    twins = Twins(workload(table_of(*jobs), wide, physics=ELASTIC))
    assert twins.advance()
    assert not twins.legal(Start(0, on(*range(count))))
    assert twins.legal(Start(0, on(0)))
    assert not twins.legal(Start(0, on(0, servers=1)))
    twins.apply(Start(0, on(0, 1, 2, 3)))
    assert twins.differences == []


def test_without_elastic_a_job_has_its_requested_shape() -> None:
    twins = Twins(workload(table_of(two(servers=2, cpu_slowdown=2.0)), FOUR, physics="memory,preemption"))
    assert twins.advance()
    assert not any(twins.legal(Start(0, here)) for here in (on(0), on(0, 1, 2), at(0), on(0, 1, servers=2)))
    assert twins.legal(Start(0, on(0, 1)))
    assert twins.differences == []


# Parameter servers. 0.625 GB: two workers exchange with one server for 2 x .625 x 2 / 6.25 = 0.4 s an iteration.


@pytest.mark.parametrize(("servers", "end"), [(1, 100), (2, 60), (4, 40), (10, 28)])
def test_more_servers_exchange_faster(servers: int, end: float) -> None:
    """0.1 s and 0.4 / servers. They take five cores each of those of the two workers, who ask for one."""
    roomy = Cluster("one node", (4,), (16.0,), (64,), inter_gbs=6.25)
    lines: Lines = {0: [Start(0, on(0, 1, servers=servers))]}
    results = played([two(servers=1, sync_gb=0.625)], lines, cluster=roomy, physics=ELASTIC)
    assert ends(results) == [end]
    assert booked(results, 0, "core_s run_gpu_s") == [end * (2 + 5 * servers), 2 * end]


def test_one_worker_exchanges_with_its_server_too() -> None:
    """One worker of two does twice the work, 0.2 s, and exchanges for 0.2 s: 0.4 s instead of 0.5."""
    lines: Lines = {0: [Start(0, on(0))]}
    results = played([two(servers=1, sync_gb=0.625)], lines, cluster=FOUR, physics=ELASTIC)
    assert ends(results) == [80]
    assert booked(results, 0, "core_s") == [80 * 6]


def test_servers_on_gpus_have_a_whole_gpu_each_and_no_cores() -> None:
    """As fast as on cores, wherever they are: 100 s with three GPUs of one core each, of which one is elsewhere."""
    lines: Lines = {0: [Start(0, on(0, 1, 2, workers=2, servers=1))]}
    results = played([two(servers=1, sync_gb=0.625)], lines, cluster=PAIRS, physics=ELASTIC)
    assert ends(results) == [100]
    assert booked(results, 0, "run_gpu_s core_s") == [300, 300]


def test_servers_may_need_all_cores_of_a_node() -> None:
    """13 cores for two servers and three workers: 13 / 3 for each GPU, the fewest being 1 + 2 x 5 / 3.

    The first is the lesser of the two as numbers are rounded. The job asks for six cores for each GPU.
    """
    tight = Cluster("one node", (3,), (16.0,), (13,))
    asking = [job(100, num_gpus=3, servers=2, cpu_cores=8)]
    alone = workload(table_of(*asking), tight, physics=ELASTIC)
    assert run(Ranking("submit"), alone.episode(), step_by_step=True).done
    lines: Lines = {0: [Start(0, on(0, 1, 2, cores=13 / 3))], 10: [Resize(0, 13 / 3)]}
    assert booked(played(asking, lines, cluster=tight, physics=ELASTIC), 0, "core_s") == [1300]


def test_no_job_gets_fewer_cores_than_its_servers_need() -> None:
    """Eight cores, two kept for GPUs. One worker and its server need six: with one GPU taken there are seven."""
    few = Cluster("few cores", (2,), (16.0,), (8,), inter_gbs=6.25)
    jobs = [job(100, servers=1), job(100), job(100, num_gpus=0, cpu_cores=1)]
    twins = Twins(workload(table_of(*jobs), few, physics="memory,preemption,elastic,cpu_jobs"))
    assert twins.advance()
    assert not twins.legal(Start(0, on(0, cores=5.0)))
    assert not twins.legal(Start(0, on(0, servers=2)))
    assert not twins.legal(Start(0, on(0, 1, workers=1, servers=2)))
    assert twins.legal(Start(0, on(0, 1, workers=1, servers=1)))
    assert twins.legal(Start(0, on(0, cores=7.0)))
    twins.apply(Start(2, at(0)))
    assert twins.legal(Start(0, on(0)))
    twins.apply(Start(1, on(1, cores=2.0)))
    assert not twins.legal(Start(0, on(0)))
    assert twins.differences == []


def test_a_job_without_cores_for_its_servers_after_waiting_is_queued() -> None:
    """A pauses 10-20 for B, which needs six cores a GPU. C has six of eight by then: B is queued, and starts at 50."""
    few = Cluster("few cores", (2,), (16.0,), (8,), inter_gbs=6.25)
    jobs = [job(100, pause_s=10.0), job(100, servers=1), job(40)]
    lines: Lines = {
        0: [Start(0, on(0)), Wait(10.0)],
        10: [Preempt(0), Start(1, on(0)), Start(2, on(1, cores=6.0))],
        50: [Start(1, on(0))],
        150: [Start(0, on(0))],
    }
    results = played(jobs, lines, cluster=few, physics=ELASTIC)
    assert ends(results) == [240, 150, 50]
    assert booked(results, 1, "wait_s start_s") == [50, 50]


def test_workers_get_the_cores_that_servers_leave() -> None:
    """Four cores feed it in time; of seven a GPU the server takes five: half speed. Then nine: the other 50 in 50."""
    lines: Lines = {0: [Start(0, on(0, cores=7.0))], 100: [Resize(0, 9.0)]}
    results = played([job(100, servers=1, **FED)], lines, cluster=FOUR, physics=f"{ELASTIC},cores")
    assert ends(results) == [150]


# Workers on cores.


def test_workers_on_cores_are_slower_and_hold_no_gpu() -> None:
    """Two workers of five cores each, three times slower than on two GPUs."""
    results = played([two(cpu_slowdown=3.0)], {0: [Start(0, at(0))]}, cluster=FOUR, physics=ELASTIC)
    assert ends(results) == [300]
    assert booked(results, 0, "core_s run_gpu_s busy_s") == [3000, 0, 0]


def test_a_job_goes_from_cores_to_gpus_and_back() -> None:
    """A third of the speed 0-60: 20 done. Pauses 60-70, loads with four GPUs 70-75, twice the speed 75-95: 60 done.

    Pauses 95-105, loads 105-110 with one worker on cores, a sixth of the speed: 40 s take 240.
    """
    lines: Lines = {
        0: [Start(0, at(0))],
        60: [to(0, 1, 2, 3)],
        95: [Resize(0, placement=at(0, workers=1))],
    }
    jobs = [two(cpu_slowdown=3.0, pause_s=10.0, load_s=5.0)]
    results = played(jobs, lines, cluster=FOUR, physics=ELASTIC)
    assert ends(results) == [350]
    assert booked(results, 0, "overhead_s run_gpu_s overhead_gpu_s resizes") == [30, 80, 60, 2]
    assert booked(results, 0, "core_s") == [10 * 70 + 4 * 35 + 5 * 245]


def test_workers_on_cores_need_all_of_theirs() -> None:
    """24 cores, of which four are kept: two workers and a server have fifteen, no more, no fewer."""
    jobs = [two(cpu_slowdown=3.0, servers=1), job(100)]
    twins = Twins(workload(table_of(*jobs), FOUR, physics=ELASTIC))
    assert twins.advance()
    wrong = [at(0, cores=14.0), at(0, cores=16.0), at(0, servers=3), at(0, workers=5), at(1), Placement(())]
    assert not any(twins.legal(Start(0, here)) for here in wrong)
    assert not twins.legal(Start(1, at(0)))
    twins.apply(Start(0, at(0)))
    assert not any(twins.legal(action) for action in (Resize(0, 15.0), Resize(0, 20.0), Throttle(0, 0.5)))
    assert twins.episode.view.nodes.free_cores.tolist() == [9.0]
    assert twins.differences == []


def test_workers_that_find_no_cores_after_their_pause_are_queued() -> None:
    """A pauses 10-30 for fifteen cores; B has taken twelve of twenty meanwhile. A is queued, and goes on at 60."""
    jobs = [two(cpu_slowdown=3.0, servers=1, pause_s=20.0), job(100, num_gpus=0, cpu_cores=12)]
    lines: Lines = {
        0: [Start(0, on(0, 1, servers=1))],
        10: [Resize(0, placement=at(0))],
        20: [Start(1, at(0, cores=12.0))],
        60: [Start(0, on(0, 1))],
    }
    physics = "memory,preemption,elastic,cpu_jobs"
    few = Cluster("one node", (4,), (16.0,), (28,), inter_gbs=6.25)
    results = played(jobs, lines, cluster=few, physics=physics)
    assert ends(results) == [150, 120]
    assert booked(results, 0, "wait_s overhead_s resizes") == [30, 20, 1]


# Levels.


def test_levels_rise_with_gpu_seconds_in_whatever_shape() -> None:
    """Two GPUs 0-40: 80 GPU-s. Four from 70 on: 160 at 90, and 200 at 100, when A is done."""
    work = workload(table_of(two(pause_s=10.0, load_s=20.0)), FOUR, physics=ELASTIC)
    twins, times = Twins(work, (160.0, 500.0)), []
    lines = Script({0: [Start(0, on(0, 1))], 40: [to(0, 1, 2, 3)]})

    def watched(view: View) -> Action:
        times.append((view.now, float(view.jobs.gpu_seconds[0])))
        return lines(view)

    assert twins.play(watched) == []
    assert dict(times) == pytest.approx({0: 0, 40: 80, 50: 80, 70: 80, 90: 160, 100: 200})


# Types.


@pytest.fixture
def halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every model be half as fast on a K80, and twice as fast on an A100."""
    speeds = {"k80": 0.5, "a100": 2.0}
    monkeypatch.setattr(traces, "speed_on", lambda name, models: np.full(len(models), speeds.get(name, 1.0)))


@pytest.mark.usefixtures("halves")
@pytest.mark.parametrize(
    ("gpus", "end"), [((0, 1), 100), ((2, 3), 200), ((4, 5), 50), ((1, 2), 200), ((0, 4), 100), ((3, 5), 200)]
)
def test_the_slowest_gpu_sets_the_pace(gpus: tuple[int, ...], end: float) -> None:
    three = Cluster("types", (2, 2, 2), (16.0, 12.0, 40.0), (16,) * 3, node_types=("v100", "k80", "a100"))
    results = played([two()], {0: [Start(0, on(*gpus))]}, cluster=three, physics="memory,gpu_types")
    assert ends(results) == [end]
    assert ends(played([two()], {0: [Start(0, on(*gpus))]}, cluster=three, physics="memory")) == [100]


@pytest.mark.usefixtures("halves")
def test_a_faster_gpu_does_not_bring_input_faster() -> None:
    """Fed in time on a V100 with four cores: on an A100 as fast; with eight cores twice."""
    fast = Cluster("a100", (1,), (40.0,), (16,), node_types=("a100",))
    physics = "memory,cores,gpu_types"
    for cores, end in ((4.0, 100), (8.0, 50)):
        lines: Lines = {0: [Start(0, on(0, cores=cores))]}
        assert ends(played([job(100, **FED)], lines, cluster=fast, physics=physics)) == [end]
