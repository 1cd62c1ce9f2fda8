"""An order of jobs is carried out with few pauses, of the last jobs, and each of them for a start.

`A 0-10` means that A runs from 0 to 10; jobs are named A, B, C ... in the order of the list.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym.simulator.cluster import Cluster, uniform
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.physics import Physics
from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Start, Wait
from gpu_cluster_gym.simulator.priority_rounds import PriorityRounds, Requests, requests_by
from gpu_cluster_gym.simulator.search import queued_or_running
from gpu_cluster_gym.simulator.view import View
from tests.policies.test_baselines import jobs, named

A, B, C, D, E = range(5)
NODE = uniform(1, 4)


def started(work: np.ndarray, cluster: Cluster, held: Sequence[tuple[int, ...]], **choices: Any) -> Episode:
    """Return an episode at 100 s, at which the first jobs have run on these GPUs, or on the first node, since 0."""
    episode = Episode(work, cluster, exact=True, **choices)
    episode.advance()
    for job, gpus in enumerate(held):
        episode.apply(Start(job, Placement(gpus, node=None if gpus else 0)))
    while episode.view.now < 100:
        episode.apply(Wait(100.0 - episode.view.now))
        episode.advance()
    return episode


def granted(episode: Episode, order: Sequence[int]) -> list[Action]:
    """Return the moves of a round at this instant for jobs in this order, having made them."""
    rounds = PriorityRounds(lambda view: requests(view, order))
    made: list[Action] = []
    while not isinstance(move := rounds(episode.view), Wait):
        episode.apply(move)
        made.append(move)
    assert legality.check(episode.states, 0, episode.jobs) == 0
    return made


def requests(view: View, order: Sequence[int]) -> Requests:
    jobs = np.array(order)
    return Requests(jobs, view.jobs.num_gpus[jobs])


def paused(moves: Sequence[Action]) -> list[int]:
    return sorted(move.job for move in moves if isinstance(move, Preempt))


@pytest.mark.parametrize(
    ("wanted", "order", "victims"),
    [
        pytest.param(1, [D, A, B, C], [C], id="the last, although another holds the lowest GPU"),
        pytest.param(1, [D, C, B, A], [A], id="the last, even if it has more than is needed"),
        pytest.param(2, [D, A, B, C], [A], id="one rather than two"),
        pytest.param(2, [A, D, B, C], [B, C], id="nobody who comes before"),
        pytest.param(2, [A, B, D, C], [], id="nobody in vain"),
        pytest.param(3, [D, A, B, C], [A, C], id="two, the last"),
        pytest.param(4, [D, C, A, B], [A, B, C], id="all"),
    ],
)
def test_the_fewest_are_paused_and_the_last_in_order(
    wanted: int, order: list[int], victims: list[int]
) -> None:
    """Of four GPUs A holds two, B and C one each; D comes at 100."""
    work = jobs((0, 2, 1000), (0, 1, 1000), (0, 1, 1000), (100, wanted, 10), pause=5)
    episode = started(work, NODE, [(0, 1), (2,), (3,)])
    moves = granted(episode, order)
    assert paused(moves) == victims
    assert [move.job for move in moves if isinstance(move, Start)] == ([D] if victims else [])


def test_gpus_that_are_being_freed_are_kept_for_the_job_they_are_freed_for() -> None:
    """A and B pause -105; C has both reserved, so that D, which comes at 101, does not start before it has ended."""
    work = jobs((0, 1, 1000), (0, 1, 1000), (100, 2, 10), (101, 1, 10), pause=5)
    episode = started(work, uniform(1, 2), [(0,), (1,)])
    assert paused(granted(episode, [C, A, B])) == [A, B]
    episode.apply(Wait())
    episode.advance()
    assert granted(episode, [D]) == []
    run(named("sjf"), episode)
    assert episode.state.start_s[C] == 105
    assert episode.state.start_s[D] == 115


def test_no_other_job_is_paused_while_pauses_in_flight_suffice() -> None:
    """A, with two GPUs, pauses for C at 100 and D takes the other; only for E another job must pause."""
    work = jobs((0, 2, 1000), (0, 2, 1000), (100, 1, 10), (100, 1, 10), (100, 1, 10), pause=5)
    episode = started(work, NODE, [(0, 1), (2, 3)])
    moves = granted(episode, [C, D, E, B, A])
    assert [type(move).__name__ for move in moves] == ["Preempt", "Start", "Start", "Preempt", "Start"]
    assert paused(moves[:3]) == [A]


def test_no_job_is_paused_between_rounds() -> None:
    """B comes at 100, before A in the order only after 150: A is paused in the next round, 240 s after B came."""
    episode = started(jobs((0, 4, 1000), (100, 1, 10)), NODE, [(0, 1, 2, 3)])
    rounds = PriorityRounds(lambda view: requests(view, [A, B] if view.now < 150 else [B, A]))
    while not isinstance(move := rounds(episode.view), Preempt):
        episode.apply(move)
        if isinstance(move, Wait):
            episode.advance()
    assert (episode.view.now, move.job) == (340, A)


def test_whole_nodes_are_cleared_for_a_gang_beyond_one() -> None:
    """Three nodes of two: A and B share the first, C and D have one each and come last. E takes these two."""
    work = jobs((0, 1, 1000), (0, 1, 1000), (0, 2, 1000), (0, 2, 1000), (100, 4, 10), pause=5)
    episode = started(work, uniform(3, 2), [(0,), (1,), (2, 3), (4, 5)])
    moves = granted(episode, [E, C, D, A, B])
    assert paused(moves) == [C, D]
    assert moves[-1] == Start(E, Placement((2, 3, 4, 5)))


def test_of_equal_nodes_that_of_the_last_job_is_cleared() -> None:
    episode = started(jobs((0, 1, 1000), (0, 1, 1000), (100, 1, 10)), uniform(2, 1), [(0,), (1,)])
    assert paused(granted(episode, [C, A, B])) == [B]


def test_a_job_that_shares_a_gpu_is_not_paused() -> None:
    """A and B share the first GPU, and A has the second too; C, which comes before them, has the third."""
    work = jobs((0, 2, 1000), (0, 1, 1000), (0, 1, 1000), (100, 1, 10))
    episode = started(work, uniform(1, 3), [(0, 1), (0,), (2,)], physics=Physics(max_share=2))
    assert paused(granted(episode, [D, C, A, B])) == [C]


def with_cores(work: np.ndarray, *cores: float) -> np.ndarray:
    work["cores_each"], work["gpu_s"] = cores, 1.0
    return work


@pytest.mark.parametrize(("cores", "victims"), [(4, [A]), (5, [])])
def test_no_job_is_paused_where_the_cores_would_not_do(cores: float, victims: list[int]) -> None:
    """A has the only GPU and one of ten cores, the CPU job B six."""
    work = with_cores(jobs((0, 1, 1000), (0, 0, 1000), (100, 1, 10)), 1, 6, cores)
    episode = started(work, uniform(1, 1, cores=10), [(0,), ()], physics=Physics(cores=True))
    assert paused(granted(episode, [C, A, B])) == victims


def test_no_job_is_paused_for_a_cpu_job() -> None:
    work = with_cores(jobs((0, 1, 1000), (0, 0, 1000), (100, 0, 10)), 4, 4, 4)
    episode = started(work, uniform(1, 1, cores=8), [(0,), ()], physics=Physics(cores=True))
    assert granted(episode, [C, A, B]) == []


class Shuffled:
    """A policy of another random order every ten minutes, that notes which jobs were paused for a job behind them."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.rounds = PriorityRounds(self.order, 600.0)
        self.place: dict[int, int] = {}
        self.unjust: list[tuple[int, int]] = []
        self.pending: list[int] = []

    def order(self, view: View) -> Requests:
        here = queued_or_running(view)
        requests = requests_by(
            here, view.jobs.num_gpus[here], self.rng.permutation(len(view.jobs.phase))[here]
        )
        self.place, self.pending = {job: place for place, job in enumerate(requests.jobs.tolist())}, []
        return requests

    def __call__(self, view: View) -> Action:
        move = self.rounds(view)
        match move:
            case Preempt(job):
                self.pending.append(job)
            case Start(job):
                self.unjust += [(job, one) for one in self.pending if self.place[one] < self.place[job]]
                self.pending = []
        return move


@pytest.mark.parametrize("pause", [0.0, 30.0])
@pytest.mark.parametrize("seed", range(3))
def test_any_order_is_carried_out_lawfully(seed: int, pause: float) -> None:
    """All gangs run to their end; a pause is always for the start of a job that comes before."""
    rng = np.random.default_rng(seed)
    rows = zip(
        np.sort(rng.uniform(0, 20_000, 80)),
        rng.choice([1, 2, 4, 6, 8], 80),
        rng.exponential(900, 80),
        strict=True,
    )
    work = jobs(
        *((submit, int(gpus), 1 + seconds) for submit, gpus, seconds in rows), pause=pause, load=pause
    )
    episode, shuffled = (
        Episode(work, Cluster("uneven", (4, 4, 2), (16.0,) * 3, (24,) * 3), exact=True),
        Shuffled(seed),
    )
    run(shuffled, episode)
    assert episode.done
    assert legality.check(episode.states, 0, episode.jobs) == 0
    assert shuffled.unjust == []
    assert shuffled.pending == []
    assert episode.state.num_pauses > 20
