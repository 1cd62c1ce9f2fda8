"""Shares of time on GPU types solve the linear program, and rounds give jobs their shares.

`A 0-10` means that A runs from 0 to 10; jobs are named A, B, C ... in the order of the list. Pauses are free if no
others are named.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym.baselines.gavel import (
    ROUND_S,
    Gavel,
    Objective,
    Shares,
    alike,
    has_room_for_all,
    program,
)
from gpu_cluster_gym.simulator.cluster import Cluster, cluster
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster.layout import GPU_TYPES
from gpu_cluster_gym.simulator.physics import Physics
from gpu_cluster_gym.simulator.policy import Action, Preempt, Resize, Start
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import named, windows
from tests.cases.mixed_jobs import table_of, workload
from tests.policies.test_baselines import finishes, jobs

A, B, C, D = range(4)
HALF, TENTH = 0.5, 0.1  # speeds on a K80
K80 = GPU_TYPES.index("k80")


@pytest.mark.parametrize("seed", range(5))
def test_where_all_fit_at_once_the_program_need_not_be_solved(seed: int) -> None:
    """One type of GPU; some jobs cannot run at all."""
    rng = np.random.default_rng(seed)
    gpus = rng.choice([1, 2, 4, 8], rng.integers(1, 30))
    able = rng.random(len(gpus)) < 0.9
    speed = np.column_stack([able, np.zeros(len(gpus))]).astype(float)
    least = int(gpus[able].sum())
    for sizes in (np.array([least]), np.array([least + 3])):
        assert has_room_for_all(gpus, speed, sizes)
        for objective in ("fairness", "throughput"):
            assert np.array_equal(
                solved(gpus, speed, sizes, objective), shares(gpus, speed, sizes, objective)
            )
    assert not has_room_for_all(gpus, speed, np.array([least - 1]))


@pytest.mark.parametrize("seed", range(10))
def test_on_gpus_of_one_type_fair_shares_are_an_optimum_of_the_program(seed: int) -> None:
    """The least gain and then the sum are those of the solver; more jobs than GPUs, some of which cannot run at all."""
    rng = np.random.default_rng(seed)
    gpus = rng.choice([1, 2, 4, 8, 16], rng.integers(2, 60))
    able = np.append(rng.random(len(gpus) - 1) < 0.9, True)
    speed = np.column_stack([able, np.zeros(len(gpus))]).astype(float)
    sizes = np.array([rng.integers(1, max(int(gpus[able].sum()), 2))])
    found, program = (each(gpus, speed, sizes, "fairness")[:, 0] * gpus for each in (shares, solved))
    assert found[able].min() == pytest.approx(program[able].min(), rel=1e-5)
    assert found.sum() == pytest.approx(program.sum())
    assert not found[~able].any()
    assert (found <= gpus).all()
    level = found.max()  # no job has more while one that could use more has less
    assert (np.isclose(found, level) | np.isclose(found, gpus))[able].all()


def shares(
    gpus: np.ndarray, speed: np.ndarray, sizes: np.ndarray, objective: Objective = "fairness"
) -> np.ndarray:
    return Shares(objective)(gpus, speed, sizes)


def solved(gpus: np.ndarray, speed: np.ndarray, sizes: np.ndarray, objective: Objective) -> np.ndarray:
    """Return the shares by the linear program, also where the policy needs none."""
    rows, count, row_of = alike(gpus, speed)
    return np.take(program(rows, count, sizes, objective), row_of, axis=0)


class Watched:
    """Policy that records its actions with their times, and checks at each step the types of GPUs of each job."""

    def __init__(self, **settings: Any) -> None:
        self.policy, self.moves = Gavel(**settings), list[tuple[float, Action]]()
        self.most_types = 0

    def __call__(self, view: View) -> Action:
        """Do as the policy does."""
        action = self.policy(view)
        self.moves.append((view.now, action))
        held = {
            job: {int(view.nodes.gpu_type[view.gpus.node[gpu]]) for gpu in view.gpus_of(job)}
            for job in view.running
        }
        self.most_types = max([self.most_types, *map(len, held.values())])
        return action


def typed(work: np.ndarray, machines: Cluster, *on_k80: float) -> Episode:
    """Return an episode in which jobs have these speeds on K80s."""
    work["type_speed"], work["gpu_s"] = 1.0, 0.1
    work["type_speed"][:, K80] = on_k80
    return Episode(work, machines, exact=True, physics=Physics(typed=True))


# The program.


def test_the_job_that_loses_least_by_the_slow_type_is_sent_there() -> None:
    """Two like A (half as fast on the K80) and two like B (a tenth), a GPU of each type.

    Equal shares are worth 0.75 and 0.55 an hour. B stays off the K80; A fills it and takes a of the V100:
    (a + 0.5) / 0.75 = (1 - a) / 0.55, so a = 0.475 / 1.3.
    """
    given = shares(np.ones(4), np.array([[1, HALF], [1, HALF], [1, TENTH], [1, TENTH]]), np.array([1, 1]))
    a = 0.475 / 1.3
    assert given == pytest.approx(np.array([[a, 1], [a, 1], [1 - a, 0], [1 - a, 0]]) / 2, abs=1e-5)


def test_shares_are_equal_on_equal_gpus() -> None:
    assert shares(np.ones(5), np.ones((5, 1)), np.array([2])) == pytest.approx(np.full((5, 1), 0.4))


def test_a_gang_has_the_gpu_time_of_a_single_job() -> None:
    """On four GPUs, a gang of four and four alone: a fifth of all GPU-time each."""
    given = shares(np.array([4, 1, 1, 1, 1]), np.ones((5, 1)), np.array([4]))
    assert given[:, 0] == pytest.approx([0.2, 0.8, 0.8, 0.8, 0.8], abs=1e-5)


def test_no_time_is_left_over_that_a_job_could_use() -> None:
    """The least is 1, that of the job of one GPU; the gang of two has the rest of its time too."""
    assert shares(np.array([1, 2]), np.ones((2, 1)), np.array([4])) == pytest.approx(np.ones((2, 1)))


def test_a_job_that_cannot_run_takes_no_share() -> None:
    given = shares(np.ones(3), np.array([[1, 0], [0, 0], [1, HALF]]), np.array([1, 1]))
    assert (given[1] == 0).all()
    assert given[A, 0] + given[C, 0] == pytest.approx(1)


def test_a_gang_larger_than_any_type_has_a_share_of_all_together() -> None:
    """A takes all of two V100s and a K80; the least is B's 1 / 0.83 where it is always on a V100, so A has half."""
    given = shares(np.array([3, 1]), np.array([[0, 0, HALF], [1, HALF, 0]]), np.array([2, 1]))
    assert given == pytest.approx(np.array([[0, 0, 0.5], [1, 0, 0]]), abs=1e-5)


def test_the_largest_sum_may_give_a_job_nothing() -> None:
    """B gains 1 / 0.55 of the V100, A 1 / 0.75."""
    given = shares(np.ones(2), np.array([[1, HALF], [1, TENTH]]), np.array([1, 1]), "throughput")
    assert given == pytest.approx(np.array([[0, 1], [1, 0]]))


# Rounds.


def test_time_received_comes_to_the_shares() -> None:
    """One V100, two K80s; by (A's x on the V100) 0.75 + 0.75 x = 2.5 - 2.25 x, so x = 7 / 12."""
    episode = typed(jobs((0, 1, 1e6), (0, 1, 1e6), pause=1), cluster("1x1+2x1-k80"), HALF, TENTH)
    policy = Gavel()
    until(episode, policy, 400 * ROUND_S)
    received = policy.memory(episode.states)["received_s"][0, : len(episode.jobs), :2] / episode.view.now
    assert received == pytest.approx(np.array([[7, 5], [5, 7]]) / 12, abs=0.01)


def test_jobs_on_equal_gpus_take_turns() -> None:
    episode = Episode(jobs(*[(0, 1, 1e6)] * 5, pause=1), cluster("1x2"), exact=True)
    until(episode, Gavel(), 500 * ROUND_S)
    assert episode.view.jobs.attained_s / episode.view.now == pytest.approx([0.4] * 5, abs=0.01)


def until(episode: Episode, policy: Gavel, end_s: float) -> None:
    """Play to a moment."""
    episode.advance()
    while episode.view.now < end_s:
        episode.apply(action := policy(episode.view))
        if not isinstance(action, Start | Preempt | Resize):
            episode.advance()


def test_a_job_that_is_alone_for_long_does_not_pay_for_it() -> None:
    """A has run 10 h when B comes: they take turns from then on, and B ends after 2 h in a bit more than 4 h."""
    ends = finishes(Gavel(), jobs((0, 1, 100_000), (36_000, 1, 7200)), cluster("1x1"))
    assert 36_000 + 2 * 7200 - ROUND_S <= ends[B] <= 36_000 + 2 * 7200 + 3 * ROUND_S


def test_a_running_job_moves_to_the_faster_gpu_in_the_round_after_it_is_free() -> None:
    """A 0-100 on the V100, B on the K80 till the round, which is 40 s late: 200 of its 1000 s by 400, then the rest."""
    episode = run(Gavel(), typed(jobs((0, 1, 100), (0, 1, 1000)), cluster("1x1+1x1-k80"), HALF, HALF))
    assert episode.state.finish_s[:2].tolist() == [100, 1200]
    assert episode.state.resizes[:2].tolist() == [0, 1]


def test_gangs_use_one_type_and_no_job_is_paused_between_rounds() -> None:
    work = windows(
        replace(named("two_types"), cluster="4x8+4x8-k80", jobs=100, steady_load=None, all_windows=True),
        "train",
        1,
    )[0]
    policy = Watched()
    run(policy, work.episode())
    assert policy.most_types == 1
    rounds = sorted({now for now, action in policy.moves if isinstance(action, Preempt | Resize)})
    assert len(rounds) > 10
    assert np.diff(rounds).min() >= ROUND_S


def test_a_gang_larger_than_any_type_runs_on_both() -> None:
    """It takes turns with B and C, which are never through before it."""
    work = jobs((0, 3, 1000), (0, 1, 50_000), (0, 1, 50_000))
    ends = run(Gavel(), typed(work, cluster("1x2+1x1-k80"), HALF, HALF, HALF)).state.finish_s
    assert ends[A] < 20_000


def test_cpu_jobs_start_where_they_fit() -> None:
    table = table_of(
        {"duration_s": 100.0}, {"duration_s": 50.0, "num_gpus": 0, "kind": "cpu", "cpu_cores": 2}
    )
    work = workload(table, cluster("1x1-k80"), physics="memory,preemption,cores,cpu_jobs")
    assert work.results(run(Gavel(), work.episode()))["wait_s"].tolist() == [0.0, 0.0]
