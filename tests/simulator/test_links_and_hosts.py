"""Shared links, hosts that carry the exchange, memory contention, and start-up, worked by hand."""

from dataclasses import replace

from gpu_cluster_gym.simulator.policy import Preempt, Start, Wait
from tests.cases.by_hand import EVERYTHING, FED, ONE, TWO, Lines, at, ends, job, on, played
from tests.cases.mixed_jobs import table_of, workload

HOG = {"num_gpus": 0, "cpu_cores": 4, "bandwidth_gbs": 60.0}

# What is exchanged: 6.25 GB/s between nodes, 20 ms for the hop.

BUSY_LINK = {
    "num_gpus": 2,
    "active_ms": 54.0,
    "idle_ms": 6.0,
    "sync_gb": 1.0,
}  # 60 + 160 + 20 = 240 ms over links


def test_jobs_that_cross_the_same_nodes_share_their_links() -> None:
    """Two gangs over both nodes, each on links 160 of 240 ms: 4/3 in all, so a transfer takes 640/3 ms.

    At the reference, inside a node, an iteration takes 60 + 40 = 100 ms: 880/3 ms each now. A and B have 100 s of work,
    B half of it: B 0-440/3, when A has 50 left at 240 ms: 120 s more.
    """
    jobs = [job(100, **BUSY_LINK), job(50, **BUSY_LINK)]
    lines: Lines = {0: [Start(0, on(0, 2)), Start(1, on(1, 3))]}
    results = played(jobs, lines, cluster=TWO, physics="memory,locality,links")
    assert ends(results) == [440 / 3 + 120, 440 / 3]


def test_exchange_between_nodes_passes_through_hosts() -> None:
    """1 GB an iteration by the one core of each GPU at 2 s a GB: 2000 ms, and links need 160. 60 + 2000 + 20 ms.

    With ten cores it is 200 ms: 280. Inside a node nothing goes through hosts: 100 ms, the reference.
    """
    physics = "memory,locality,cores,exchange"
    for cores, gpus, takes in ((1.0, (0, 2), 20.8), (10.0, (0, 2), 2.8), (1.0, (0, 1), 1.0)):
        results = played(
            [job(100, **BUSY_LINK)],
            {0: [Start(0, on(*gpus, cores=cores))]},
            cluster=TWO,
            physics=physics,
            exchange_core_s=2.0,
        )
        assert ends(results) == [100 * takes]


def test_exchange_through_hosts_uses_their_memory() -> None:
    """Each GB twice: A, whose reference iteration is 100 ms, draws 2 x 1 / 0.1 = 20 GB/s of 40 on each node.

    B, a CPU job on node 0, asks for 60: twice as much as there is in all. The 160 ms of links are hidden by hosts,
    10 cores at 2 s a GB: 200 ms, now 400. 60 + 400 + 20 = 480 ms. B 0-200, when A has 200 / 4.8 s; then 280 ms.
    """
    machines = replace(TWO, bandwidth_gbs=40.0)
    results = played(
        [job(100, **BUSY_LINK), job(100, **HOG)],
        {0: [Start(0, on(0, 2, cores=10.0)), Start(1, at(0))]},
        cluster=machines,
        physics="memory,locality,cores,bandwidth,exchange,cpu_jobs",
        exchange_core_s=2.0,
        exchange_passes=2.0,
    )
    assert ends(results) == [200 + (100 - 200 / 4.8) * 2.8, 200]


# Memory: 40 GB/s.


def test_memory_slows_before_all_of_it_is_drawn() -> None:
    """From half of 40 GB/s on, to 3 times at 40. A draws 10 and B 20: 30 is half way, A twice as slow, and B too.

    A 0-200; B, 120 s of work, has 100 by then. Alone at 20 it is not slowed: 200-220.
    """
    results = played(
        [job(100, **FED, bandwidth_gbs=10.0), job(120, **HOG | {"bandwidth_gbs": 20.0})],
        {0: [Start(0, on(0)), Start(1, at(0))]},
        physics=EVERYTHING,
        pressure_from=0.5,
        pressure_at_full=3.0,
    )
    assert ends(results) == [200, 220]


# Starting up.


def test_a_start_from_nothing_takes_its_time_and_a_profile_only_once() -> None:
    """A profiles and starts up 0-15, runs to 40, pauses to 42, loads to 45, runs to 95. It has lost nothing.

    B fails at half of its 20 s, after 5 + 10 s, is queued again 25 s later, loads nothing it has saved, and starts up.
    """
    jobs = [job(75, startup_s=10.0, pause_s=2.0, load_s=3.0), job(20, startup_s=5.0, crash_at=0.5)]
    lines: Lines = {
        0: [Start(0, on(0)), Start(1, on(1))],
        40: [Preempt(0)],
        42: [Start(0, on(0))],
        45: [Start(1, on(1))],
    }
    physics = "memory,preemption,startup,profiles,failures"
    results = played(jobs, lines, physics=physics, profiling=5.0)
    assert ends(results) == [95, 70]
    assert results["overhead_s"].tolist() == [20, 15]


def test_a_policy_sees_how_long_a_start_takes_and_has_taken() -> None:
    """For a queued job, a loading job and a job that has loaded: profiling happens once."""
    work = workload(
        table_of(job(75, startup_s=10.0, pause_s=2.0, load_s=3.0)),
        ONE,
        physics="memory,preemption,startup,profiles",
        profiling=5.0,
    )
    episode = work.episode()
    seen = []
    for action in (None, Start(0, on(0)), Wait(20.0), Preempt(0), Wait(5.0), Start(0, on(0))):
        if action is not None:
            episode.apply(action)
        if action is None or isinstance(action, Wait):
            episode.advance()
        seen.append(float(episode.view.jobs.loading_s[0]))
    assert seen == [15, 15, 10, 3, 3, 3]
