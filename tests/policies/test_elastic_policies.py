"""AITurbo and Optimus do on cases known by hand what is claimed of them."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym.baselines import aiturbo
from gpu_cluster_gym.baselines.aiturbo import Aiturbo
from gpu_cluster_gym.baselines.optimus import Optimus
from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster.layout import RUNNING
from gpu_cluster_gym.simulator.policy import Placement, Policy, Resize, Start, Wait
from gpu_cluster_gym.workloads import Workload
from tests.cases.mixed_jobs import table_of, workload

FOUR = Cluster("four", (4,), (16.0,), (64,))
ALONE = {"duration_s": 10_000.0, "scaling_loss": 0.0, "max_workers": 4, "cpu_cores": 1}


def work(*jobs: dict[str, Any], cluster: Cluster = FOUR, **choices: Any) -> Workload:
    """Return elastic jobs of 10,000 s that scale without loss and estimates that are exact, unless stated."""
    wanted = {"physics": "memory,preemption,estimates,elastic"} | choices
    return workload(table_of(*(ALONE | job for job in jobs)), cluster, **wanted)


def begin(*jobs: dict[str, Any], **choices: Any) -> Episode:
    """Return an episode in which the first jobs have come."""
    episode = work(*jobs, **choices).episode()
    episode.advance()
    return episode


def moves(policy: Policy, episode: Episode) -> list[Any]:
    """Let a policy act at this instant; return its actions except the wait."""
    made = []
    while not isinstance(action := policy(episode.view), Wait):
        episode.apply(action)
        made.append(action)
    episode.apply(action)
    return made


def until(policy: Policy, episode: Episode, time: float) -> list[Any]:
    """Let a policy act until some time; return its actions with their times."""
    made = []
    while not episode.done and episode.view.now < time and episode.advance():
        made += [(episode.view.now, action) for action in moves(policy, episode)]
    return made


# AITurbo.

SURE, UNSURE = {"predictable_from": 0.0}, {"predictable_from": 1.0}


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let profilers measure without error."""
    monkeypatch.setattr("gpu_cluster_gym.simulator.measurements.PROFILE_ERROR", 0.0)


@pytest.mark.usefixtures("exact")
def test_a_predictable_job_grows_by_a_worker_a_round_while_no_job_waits() -> None:
    """1 worker 0-240, 2 from 270, 3 from 540, 4 from 810, each after a restart of 30 s: 1,440 s done by 780.

    Rounds are looked for every 60 s, counted from the last event, and a job is left alone for 240 s.
    """
    episode = begin(SURE | {"pause_s": 10.0, "load_s": 20.0})
    policy = Aiturbo()
    assert moves(policy, episode) == [Start(0, Placement((0,)))]
    made = until(policy, episode, np.inf)
    assert [time for time, _ in made] == [240, 510, 780]
    assert [len(action.placement.gpus) for _, action in made] == [2, 3, 4]
    assert episode.state.finish_s[0] == pytest.approx(810 + (10_000 - 1_440) / 4)


@pytest.mark.usefixtures("exact")
def test_a_step_that_does_not_pay_for_its_restart_is_not_taken() -> None:
    """A second worker would save less than 500 s, and costs 600."""
    episode = begin(SURE | {"duration_s": 1_000.0, "profiled_duration_s": 1_000.0, "load_s": 600.0})
    policy = Aiturbo()
    moves(policy, episode)
    assert until(policy, episode, np.inf) == []
    assert episode.state.finish_s[0] == 1_000


@pytest.mark.usefixtures("exact")
def test_a_server_is_added_where_exchange_binds() -> None:
    """Of .5 s, .4 are exchange: with two servers .2, with two workers .8. One step is taken at once, one in a round."""
    episode = begin(SURE | {"servers": 1, "sync_gb": 1.0})
    policy = Aiturbo()
    assert moves(policy, episode) == [Start(0, Placement((0,), servers=2))]
    assert until(policy, episode, 240) == [(240, Resize(0, placement=Placement((0,), servers=3)))]


def test_an_unpredictable_job_gets_its_requested_shape() -> None:
    episode = begin(UNSURE | {"num_gpus": 2})
    policy = Aiturbo()
    assert moves(policy, episode) == [Start(0, Placement((0, 1)))]
    assert until(policy, episode, np.inf) == []
    assert episode.state.finish_s[0] == 10_000


@pytest.mark.parametrize(
    ("choices", "grows"),
    [({"predictable": "none"}, False), ({"elastic": False}, False), ({"predictable": "all"}, True)],
)
@pytest.mark.usefixtures("exact")
def test_the_adjusted_jobs_can_be_selected(choices: dict[str, Any], grows: bool) -> None:
    for kind in SURE, UNSURE:
        episode = begin(kind)
        policy = Aiturbo(**choices)
        moves(policy, episode)
        assert bool(until(policy, episode, 300)) == grows


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ({"borda": True, "queues": False}, [3, 0, 1, 2]),
        ({"borda": False, "queues": False}, [3, 2, 1, 0]),
        ({"borda": False, "queues": True}, [3, 0, 1, 2]),
    ],
)
def test_votes_are_positions_and_a_missing_vote_is_filled_with_the_other(
    monkeypatch: pytest.MonkeyPatch, kind: dict[str, bool], expected: list[int]
) -> None:
    """Service attained: A 1,000, B 500, C 150, D 0, so positions 3, 2, 1, 0. Benefit: A before C, so 0 and 3.

    Points: A 3 + 0, B 2 + 2, C 1 + 3, D 0 + 0; B comes before C, who has as many, since it arrived before it. Without
    Borda A 6, B 4, C 2. With feedback queues, of which the second begins at 2 for four jobs, D comes first.
    """
    monkeypatch.setattr(aiturbo, "attained_service", lambda _, job: (1000.0, 500.0, 150.0, 0.0)[job])
    monkeypatch.setattr(aiturbo, "places_of", plain(aiturbo.places_of))
    benefit = np.array([9.0, np.nan, 5.0, np.nan])
    memory = SimpleNamespace(num_order=4, order=np.arange(4), benefit=benefit, **kind)
    plain(aiturbo.order_by_votes)(None, memory)
    assert memory.order.tolist() == expected


def plain(function: Any) -> Any:
    """Return a compiled function as it is in Python."""
    return getattr(function, "py_func", function)


def test_of_equal_values_the_first_comes_first() -> None:
    assert plain(aiturbo.places_of)(np.array([5.0, 1.0, 5.0, 0.0])).tolist() == [2, 1, 3, 0]


@pytest.mark.parametrize(
    ("apart", "cores", "starts"), [(False, 16, [0]), (False, 14, [0]), (True, 14, [0, 1])]
)
def test_servers_have_cores_or_gpus(apart: bool, cores: int, starts: list[int]) -> None:
    """Of 4 GPUs each keeps a core; A and B, of a worker, have two servers each of 5 cores, or of a GPU each.

    With GPUs of their own A and B would have six GPUs, so that B has a server less.
    """
    few = Cluster("few", (4,), (16.0,), (cores,))
    servers = 1 if apart else 2
    episode = begin(UNSURE | {"servers": servers}, UNSURE | {"servers": servers}, cluster=few)
    made = moves(Aiturbo(servers_on_gpus=apart), episode)
    assert [action.job for action in made] == starts
    assert [len(action.placement.gpus) for action in made] == [1 + servers * apart] * len(starts)


@pytest.mark.parametrize(("servers", "gpus"), [(1, [(1, 3)]), (0, [])])
def test_a_job_with_servers_is_spread_if_it_fits_on_no_node(servers: int, gpus: list[Any]) -> None:
    """A and B hold a GPU of each node; without servers a gang that a node could hold waits for one."""
    two = Cluster("two", (2, 2), (16.0, 16.0), (32, 32))
    episode = begin(UNSURE, UNSURE, UNSURE | {"num_gpus": 2, "servers": servers}, cluster=two)
    for job, gpu in (0, 0), (1, 2):
        episode.apply(Start(job, Placement((gpu,))))
    assert [action.placement.gpus for action in moves(Aiturbo(), episode)] == gpus


@pytest.mark.parametrize(("slowdown", "starts"), [(5.0, True), (8.0, False), (0.0, False)])
@pytest.mark.usefixtures("exact")
def test_cpu_workers_are_taken_by_a_job_that_has_waited_long_enough(slowdown: float, starts: bool) -> None:
    """A has the GPU, B comes at 100. At 300, when C comes, B has waited 200 s, and a restart costs it 30."""
    one = Cluster("one", (1,), (16.0,), (32,))
    waiting = UNSURE | {"submit_s": 100.0, "cpu_slowdown": slowdown, "pause_s": 10.0, "load_s": 20.0}
    third = {"submit_s": 300.0, "num_gpus": 0, "gpu_memory_gib": 0.0, "min_workers": 0, "max_workers": 0}
    for on_cores in True, False:
        policy, episode = (
            Aiturbo(cpu_workers=on_cores, round_s=5_000.0),
            begin(UNSURE, waiting, third, cluster=one),
        )
        moves(policy, episode)
        made = [action for _, action in until(policy, episode, 300) if action.job == 1]
        assert made == [Start(1, Placement((), node=0))] * (starts and on_cores)


def lively(seed: int, **choices: Any) -> Episode:
    """Return an episode of jobs that queue for eight GPUs, some of which are predictable, some run on cores."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "submit_s": 400.0 * number,
            "num_gpus": int(rng.choice([1, 2, 4])),
            "duration_s": float(rng.uniform(500, 6_000)),
            "scaling_loss": 0.05,
            "servers": int(rng.integers(0, 3)),
            "sync_gb": 0.05,
            "predictable_from": float(rng.choice([0.0, 0.3, 1.0])),
            "cpu_slowdown": float(rng.choice([0.0, 4.0])),
            "pause_s": 5.0,
            "load_s": 15.0,
        }
        for number in range(16)
    ]
    return begin(*rows, cluster=Cluster("two", (4, 4), (16.0, 16.0), (48, 48)), seed=seed, **choices)


@pytest.mark.parametrize("new", [Aiturbo, Optimus, lambda: Aiturbo(servers_on_gpus=True)])
@pytest.mark.parametrize("seed", range(3))
def test_only_jobs_with_another_shape_or_other_gpus_restart(new: Any, seed: int) -> None:
    episode, policy, restarts = lively(seed), new(), 0
    while not episode.done:
        while not isinstance(action := policy(episode.view), Wait):
            if isinstance(action, Resize):
                job, placement, view = action.job, action.placement, episode.view
                assert placement is not None
                assert action.cores is None
                workers = len(placement.gpus) if placement.workers is None else placement.workers
                servers = view.jobs.servers[job] if placement.servers is None else placement.servers
                before = view.jobs.workers_now[job], view.jobs.servers_now[job], *view.gpus_of(job)
                assert (workers, servers, *placement.gpus) != before or placement.node is not None
                restarts += 1
            episode.apply(action)
        episode.apply(action)
        episode.advance()
    assert restarts > 0


@pytest.mark.parametrize("seed", range(3))
def test_unpredictable_jobs_never_have_another_size(seed: int) -> None:
    episode, policy = lively(seed), Aiturbo()
    while not episode.done:
        moves(policy, episode)
        view = episode.view
        unsure = (view.jobs.phase == RUNNING) & ~view.jobs.is_predictable
        assert (view.jobs.workers_now == view.jobs.num_gpus)[unsure].all()
        assert (view.jobs.servers_now == view.jobs.servers)[unsure].all()
        episode.advance()


@pytest.mark.parametrize("new", [Aiturbo, Optimus, lambda: Optimus(error=1.0)])
def test_the_same_seed_gives_the_same_ends(new: Any) -> None:
    ends = [run(new(), lively(4)).state.finish_s[:16].tolist() for _ in range(2)]
    assert ends[0] == ends[1]


# Optimus.


@pytest.mark.parametrize(
    ("gpus", "jobs", "shares"),
    [
        (4, [{}, {"duration_s": 100.0}], [3, 1]),  # it cuts more of the long job's time, yet each has one
        (4, [{}, {}], [2, 2]),
        (3, [{"scaling_loss": 0.5}, {}], [1, 2]),  # 2,500 s against 5,000
        (4, [{"scaling_loss": 0.5}, {}], [2, 2]),  # 2,500 s against 1,667, of a third worker of the other
        (4, [{"min_workers": 2, "num_gpus": 2}, {"max_workers": 1}], [3, 1]),
    ],
)
@pytest.mark.usefixtures("exact")
def test_a_worker_goes_to_the_job_with_the_largest_saving(
    gpus: int, jobs: list[dict[str, Any]], shares: list[int]
) -> None:
    episode = begin(*jobs, cluster=Cluster("one", (gpus,), (16.0,), (32,)))
    made = moves(Optimus(), episode)
    assert [len(action.placement.gpus) for action in made] == shares


@pytest.mark.usefixtures("exact")
def test_a_server_goes_to_the_job_whose_exchange_binds() -> None:
    """Of A's .5 s .4 are exchange with its server, of B's next to nothing; a server takes 5 of 14 cores."""
    few = Cluster("few", (2,), (16.0,), (17,))
    episode = begin({"servers": 1, "sync_gb": 1.0}, {"servers": 1, "sync_gb": 0.001}, cluster=few)
    made = {action.job: action.placement.servers for action in moves(Optimus(), episode)}
    assert made == {0: 2, 1: None}


def test_a_worse_estimate_is_drawn_once_a_job() -> None:
    policy, episode = Optimus(error=2.0), lively(0)
    until(policy, episode, 3_000)
    memory = policy.memory(episode.states)
    first = memory["error"][0, : memory["num_drawn"][0]].tolist()
    until(policy, episode, 6_000)
    assert memory["error"][0, : len(first)].tolist() == first
    assert len(set(first)) == len(first) > 0
