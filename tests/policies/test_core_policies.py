"""Policies that divide CPU cores do so by measurements, and neither side starves; others choose as they claim.

A node of two GPUs and ten cores is the usual case: two cores are kept for GPUs without a job, and CODA's reserve for
jobs with GPUs is six.
"""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

from gpu_cluster_gym.baselines import load, make
from gpu_cluster_gym.baselines.coda import Coda
from gpu_cluster_gym.baselines.drf import dominant_shares
from gpu_cluster_gym.baselines.fitgpp import FitGpp
from gpu_cluster_gym.baselines.fixed_cores import FixedCores
from gpu_cluster_gym.simulator.account import Account
from gpu_cluster_gym.simulator.cluster import uniform
from gpu_cluster_gym.simulator.core_sharing import CoreSharing
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB
from gpu_cluster_gym.simulator.physics import Physics
from gpu_cluster_gym.simulator.policy import Action, Placement, Policy, Preempt, Resize, Start, Throttle, Wait
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import Workload
from tests.cases.mixed_jobs import bound, mixed_table, workload
from tests.cases.uncompiled import with_the_compiler_off

VISION, LANGUAGE = 6.0, 0.1  # cores a GPU that keep it busy


def jobs(*rows: dict[str, float]) -> np.ndarray:
    """Make jobs of a GPU, of an hour with the cores they request and three asked, unless stated."""
    array = np.zeros(len(rows), JOB)
    usual = {
        "num_gpus": 1,
        "duration_s": 3600.0,
        "cores_each": 3.0,
        "gpu_s": 1.0,
        "active_ms": 1000.0,
        "gpu_utilization": 1.0,
    }
    for record, row in zip(array, rows, strict=True):
        for name, value in (usual | row).items():
            record[name] = value
    array["profiled_duration_s"] = array["duration_s"]
    return array


def on_cpu(cores: float, **row: float) -> dict[str, float]:
    return {"num_gpus": 0, "cores_each": cores, "gpu_s": 0.0, "active_ms": 0.0, "gpu_utilization": 0.0} | row


def episode(work: np.ndarray, cluster: tuple[int, int, int] = (1, 2, 10)) -> Episode:
    nodes, gpus, cores = cluster
    physics = Physics(cores=True, bandwidth=True)
    return Episode(work, uniform(nodes, gpus, cores=cores), exact=True, physics=physics)


class Recorder:
    """A policy that does what another does and remembers what, when, and the cores held at the end of an instant."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.actions: list[tuple[float, Action]] = []
        self.held: dict[float, list[float]] = {}

    def __call__(self, view: View) -> Action:
        action = self.policy(view)
        self.actions.append((view.now, action))
        if isinstance(action, Wait):
            self.held[view.now] = view.jobs.cores_now.tolist()
        return action

    def of_kind(self, kind: type) -> list[Any]:
        return [action for _, action in self.actions if isinstance(action, kind)]


def recorded(policy: Policy, played: Episode) -> Recorder:
    recorder = Recorder(policy)
    run(recorder, played)
    return recorder


# The eliminator.


def throttled(played: Episode) -> Iterator[tuple[int, float]]:
    """Yield each step of throttling that the eliminator takes at this instant."""
    sharing = CoreSharing()
    sharing.look(played.view)
    while move := sharing.throttle(played.view):
        played.apply(move)
        yield move.job, move.level


def started(work: np.ndarray, cluster: tuple[int, int, int]) -> Episode:
    """Return an episode in which all jobs of the first instant run, on the first node."""
    played = episode(work, cluster)
    played.advance()
    gpu = 0
    for job in range(int(played.state.num_arrived)):
        gpus = tuple(range(gpu, gpu := gpu + int(work["num_gpus"][job])))
        played.apply(Start(job, Placement(gpus, node=None if gpus else 0)))
    return played


def test_the_heaviest_job_is_throttled_first_and_released_when_bandwidth_is_free() -> None:
    """A node gives 200 GB/s; A draws 20 on a GPU, B 170 until it ends at 100, C 120: B and C go down together."""
    work = jobs(
        {"gbs_each": 20},
        on_cpu(4, gbs_each=170, duration_s=60),
        on_cpu(4, gbs_each=120),
        on_cpu(1, submit_s=5000),
    )
    played = started(work, (1, 1, 16))
    steps = list(throttled(played))
    assert [job for job, _ in steps[:3]] == [1, 1, 1]
    levels = played.view.jobs.throttle
    assert played.view.nodes.drawn_gbs[0] <= 200
    assert abs(170 * levels[1] - 120 * levels[2]) < 20
    played.apply(Wait())
    played.advance()
    assert list(throttled(played))[-1] == (2, 1.0)


def test_no_job_is_throttled_without_gpus_to_protect() -> None:
    played = started(jobs(on_cpu(4, gbs_each=170), on_cpu(4, gbs_each=170)), (1, 1, 16))
    assert list(throttled(played)) == []


def test_gpus_that_idle_for_want_of_cores_throttle_no_job() -> None:
    """A could use twelve cores and gets four at most beside B and C, which draw seven tenths of the bandwidth."""
    work = jobs({"input_core_s": 12.0}, on_cpu(3, gbs_each=70), on_cpu(3, gbs_each=70))
    recorder = recorded(Coda(), episode(work, (1, 1, 10)))
    assert recorder.of_kind(Throttle) == []


def test_cpu_jobs_are_throttled_where_memory_is_slow_and_not_only_where_it_is_exhausted() -> None:
    """B and C draw 160 of 200 GB/s beside A, which slows input; down a level and two they draw 144 and 128."""
    work = jobs({"input_core_s": 12.0}, on_cpu(3, gbs_each=80), on_cpu(3, gbs_each=80))
    throttled_to = {}
    for share in (0.75, 1.0):
        recorder = recorded(Coda(hurts_from=share), episode(work, (1, 1, 10)))
        throttled_to[share] = sorted(action.level for action in recorder.of_kind(Throttle))[:2]
    assert throttled_to == {0.75: [0.9, 0.9], 1.0: []}
    assert len(recorder.of_kind(Resize)) > 0


# The arrays.


def test_a_cpu_job_borrows_the_reserve_and_gives_it_back_by_shrinking() -> None:
    """A has the eight cores that need not be kept. B comes at 600 for both GPUs: A keeps four till B has ended."""
    work = jobs(
        on_cpu(8),
        {"submit_s": 600, "num_gpus": 2, "input_core_s": 3.0, "duration_s": 600},
        on_cpu(1, submit_s=9000),
    )
    played = episode(work)
    recorder = recorded(Coda(), played)
    assert recorder.held[0.0] == [8]
    assert recorder.held[600.0] == [4, 3]
    assert played.state.wait_s[:2].tolist() == [0, 0]
    ended = float(played.state.finish_s[1])
    assert recorder.held[ended] == [8, 0]
    assert 3600 < played.state.finish_s[0] <= 3600 + 600 / 2


def test_the_last_job_shrinks_first() -> None:
    work = jobs(on_cpu(4), on_cpu(4, submit_s=10), {"submit_s": 600, "num_gpus": 2, "input_core_s": 6.0})
    recorder = recorded(Coda(), episode(work))
    assert recorder.held[10.0] == [4, 4]
    assert recorder.held[600.0] == [2, 2, 3]


def test_a_job_with_gpus_returns_cores_beyond_its_reserve() -> None:
    """A grows to the eight cores a GPU that it can use; B asks for six of sixteen, and A keeps five for each."""
    work = jobs({"num_gpus": 2, "input_core_s": 8.0, "duration_s": 7200}, on_cpu(6, submit_s=1800))
    played = episode(work, (1, 2, 16))
    recorder = recorded(Coda(), played)
    before = max(now for now in recorder.held if now < 1800)
    assert recorder.held[before] == [8]
    assert recorder.held[1800.0] == [5, 6]
    assert played.state.wait_s[1] == 0


def test_without_arrays_a_cpu_job_waits_for_remaining_cores() -> None:
    work = jobs({"num_gpus": 2, "input_core_s": 8.0, "duration_s": 7200}, on_cpu(6, submit_s=1800))
    played = episode(work, (1, 2, 16))
    run(Coda(arrays=False), played)
    assert played.state.start_s[1] == played.state.finish_s[0]


def test_nothing_is_divided_before_a_look() -> None:
    played = started(jobs({}), (1, 1, 16))
    with pytest.raises(ValueError, match="call look"):
        CoreSharing().divide(played.view, 3.0)


# What each part is worth.


def mix(seed: int, needs: list[float], count: int = 60) -> np.ndarray:
    """Draw jobs of half an hour for two nodes of four GPUs and twenty cores, and CPU jobs beside them."""
    rng = np.random.default_rng(seed)
    rows = []
    for submit in np.sort(rng.uniform(0, 4 * 3600, count)):
        if rng.random() < 0.25:
            rows.append(on_cpu(float(rng.integers(1, 9)), submit_s=submit, duration_s=rng.exponential(600)))
        else:
            need = float(rng.choice(needs))
            seconds = rng.exponential(2400) * max(need / 3, 1)  # with the three cores it asks for
            rows.append(
                {
                    "submit_s": submit,
                    "num_gpus": rng.choice([1, 2]),
                    "duration_s": seconds,
                    "input_core_s": need,
                }
            )
    return jobs(*rows)


def test_cpu_jobs_are_neither_paused_nor_kept_waiting() -> None:
    work = mix(0, [VISION, LANGUAGE])
    on_cpus = work["num_gpus"] == 0
    waits = {}
    for policy in (FixedCores(), Coda()):
        played = episode(work, (2, 4, 20))
        recorder = recorded(policy, played)
        waits[type(policy)] = played.state.wait_s[: len(work)][on_cpus].mean()
        assert recorder.of_kind(Preempt) == []
    assert waits[Coda] <= 1.05 * waits[FixedCores]


# The others.


def test_fixed_cores_gives_each_job_three() -> None:
    """A asks for one, B for eight, C for two as a whole."""
    recorder = recorded(FixedCores(), episode(jobs({"cores_each": 1}, {"cores_each": 8}, on_cpu(2))))
    assert recorder.held[0.0] == [3, 3, 2]


def test_fixed_cores_takes_the_cores_per_gpu_of_a_node() -> None:
    recorder = recorded(FixedCores(), episode(jobs({}, {}), (1, 2, 4)))
    assert recorder.held[0.0] == [2, 2]


def test_synergy_moves_cores_from_a_job_that_does_not_need_them() -> None:
    """Both have five to begin with; A needs one, B could use nine."""
    work = jobs({"input_core_s": LANGUAGE, "cores_each": 5}, {"input_core_s": 9.0, "cores_each": 5})
    recorder = recorded(make(load("synergy")), episode(work))
    assert recorder.held[0.0] == [5, 5]
    assert [1, 9] in recorder.held.values()


def test_dominant_shares_even_out_as_in_the_paper() -> None:
    """One user's jobs need 1 of 9 GPUs and 12 of 54 cores, the other's 3 GPUs and 3 cores: three run, and two."""
    one = {"user": 0, "num_gpus": 1, "cores_each": 12.0}
    other = {"user": 1, "num_gpus": 3, "cores_each": 1.0}
    played = episode(jobs(*[one] * 6, *[other] * 6), (1, 9, 54))
    drf = make(load("drf"))
    played.advance()
    while not isinstance(action := drf(played.view), Wait):
        played.apply(action)
    running = played.view.running
    assert np.bincount(played.view.jobs.user[running]).tolist() == [3, 2]
    assert dominant_shares(played.view) == pytest.approx([2 / 3, 2 / 3])


@pytest.mark.parametrize(("pauses", "victim"), [((10, 10, 10), 1), ((30, 60, 20), 2)])
def test_fitgpp_displaces_the_long_job_of_least_score(pauses: tuple[float, ...], victim: int) -> None:
    """A has two GPUs, B and C one each; where all take as long to pause, B and C are the smaller, B the first."""
    long = [
        {"num_gpus": gpus, "pause_s": pause, "load_s": 5.0}
        for gpus, pause in zip((2, 1, 1), pauses, strict=True)
    ]
    work = jobs(*long, {"submit_s": 100, "duration_s": 600})
    recorder = recorded(FitGpp(), Episode(work, uniform(1, 4), exact=True))
    assert [(now, action) for now, action in recorder.actions if isinstance(action, Preempt)] == [
        (100.0, Preempt(victim))
    ]


def test_fitgpp_pauses_no_job_twice_and_none_for_a_long_job() -> None:
    work = jobs(
        {"pause_s": 10},
        {"submit_s": 50},
        {"submit_s": 100, "duration_s": 600},
        {"submit_s": 200, "duration_s": 600},
    )
    recorder = recorded(FitGpp(), Episode(work, uniform(1, 1), exact=True))
    assert recorder.of_kind(Preempt) == [Preempt(0)]


# CODA under constraints.


def bound_jobs(seed: int) -> Workload:
    """Return jobs, half of them without GPUs, of which many may use some nodes only, and some wait for others."""
    return bound(workload(mixed_table(np.random.default_rng(seed), 40, cpu_share=0.5)), seed)


def ends_under_coda(seed: int) -> list[float]:
    played = run(make(load("coda")), bound_jobs(seed).episode())
    return cast("list[float]", played.state.finish_s[:40].tolist())


@pytest.mark.parametrize("seed", range(3))
def test_coda_keeps_cpu_jobs_on_nodes_that_they_may_use(seed: int) -> None:
    """Inside the kernel, move by move and without the compiler it does the same, and no job breaks a constraint."""
    work, account = bound_jobs(seed), Account()
    played = run(make(load("coda")), work.episode(), account=account)
    may_use = work.constraints.may_use[:, work.constraints.node_kind]
    held = account.holdings()
    on_cpu = held[held["node"] >= 0]
    assert may_use[on_cpu["job"], on_cpu["node"]].all()
    assert not may_use[on_cpu["job"]].all(), "some may not use every node"
    assert legality.check(played.states, 0, played.jobs) == 0
    step_by_step = run(make(load("coda")), work.episode(), step_by_step=True)
    ends = ends_under_coda(seed)
    assert step_by_step.state.finish_s[:40].tolist() == ends == played.state.finish_s[:40].tolist()
    assert with_the_compiler_off(ends_under_coda, seed) == ends
    start_s, (job, other) = played.state.start_s, work.constraints.waits_for.T
    assert (start_s[job] >= played.state.finish_s[other]).all()
