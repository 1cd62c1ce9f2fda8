"""Compiled searches of policies give the results of plain Python in any state.

A cluster is filled and emptied at random; at each instant every search is compared with its form in `tests.accounts`.
"""

from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest

from gpu_cluster_gym.simulator import search
from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.physics import Physics
from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Start, Wait
from gpu_cluster_gym.simulator.view import View
from tests.accounts import grants_by_hand, room_by_hand, sharing_by_hand
from tests.policies.test_baselines import jobs

UNEVEN = Cluster("uneven", (4, 4, 2), (16.0, 16.0, 32.0), (12, 16, 24))


def drawn(rng: np.random.Generator) -> np.ndarray:
    """Draw 30 jobs of 0 to 6 GPUs, some with servers, which request 0 to 5 cores and 1 to 20 GiB for each."""
    rows = zip(np.sort(rng.uniform(0, 6000, 30)), rng.choice([0, 1, 1, 2, 3, 4, 6], 30), strict=True)
    work = jobs(*((submit, int(gpus), 1 + float(rng.exponential(600))) for submit, gpus in rows))
    work["pause_s"], work["load_s"] = rng.choice([0.0, 5.0, 40.0], 30), rng.choice([0.0, 20.0], 30)
    work["cores_each"] = np.where(work["num_gpus"] > 0, rng.integers(0, 4, 30), rng.integers(1, 5, 30))
    work["gpu_memory_gib"] = np.where(work["num_gpus"] > 0, rng.choice([2.0, 9.0, 20.0], 30), 0.0)
    work["gpu_memory_gib"] = np.where(work["num_gpus"] > 2, 9.0, work["gpu_memory_gib"])
    work["profiled_memory_gib"] = work["gpu_memory_gib"] * rng.choice([0.6, 1.0, 1.2], 30)
    work["servers"] = np.where(work["num_gpus"] == 2, rng.choice([0, 1], 30), 0)
    work["cores_each"][work["servers"] > 0] = 4.5  # five of them are the server's
    work["min_workers"] = work["max_workers"] = work["num_gpus"]
    work["gpu_s"], work["iteration_s"], work["ideal_iteration_s"] = 1.0, 1.0, 1.0
    return work


class Comparing:
    """Random policy that compares every search with its plain form at each decision."""

    def __init__(self, seed: int, compare: Callable[[View, np.random.Generator], bool]) -> None:
        self.rng, self.compare, self.instant = np.random.default_rng(seed), compare, -1
        self.substantial = 0  # comparisons with a result

    def __call__(self, view: View) -> Action:
        if view.instant != self.instant:
            self.instant = view.instant
        self.substantial += self.compare(view, self.rng)
        running = view.preemptible
        if len(running) and self.rng.random() < 0.15:
            return Preempt(int(self.rng.choice(running)))
        if len(view.queue) and self.rng.random() < 0.8 and (start := self.start(view)):
            return start
        stuck = view.nothing_pending and len(view.startable)
        job = int(view.startable[0]) if stuck else -1
        return (
            Start(job, view.place(job) or Placement(())) if stuck else Wait(float(self.rng.uniform(1, 200)))
        )

    def start(self, view: View) -> Start | None:
        """Return a start on free GPUs, next to other jobs, or on GPUs that are being freed."""
        job = int(self.rng.choice(view.queue))
        groups = sharing_by_hand.open_groups(view).gpus
        kinds = [np.flatnonzero(view.gpus.num_jobs == 0), *groups, view.gpus.node * 0 + np.arange(10)]
        gpus = kinds[self.rng.integers(len(kinds))]
        count = int(view.jobs.num_gpus[job])
        if count == 0 or count > len(gpus):
            return view.start_first(np.array([job]))
        start = Start(job, Placement(tuple(sorted(self.rng.permutation(gpus)[:count].tolist()))))
        return None if view.why_not(start) else start


def simulated(seed: int, share: int, compare: Callable[[View, np.random.Generator], bool]) -> int:
    """Return the number of comparisons with a result in a random episode."""
    work, physics = drawn(np.random.default_rng(seed)), Physics(max_share=share, cores=bool(seed % 2))
    policy = Comparing(seed, compare)
    run(policy, Episode(work, UNEVEN, exact=bool(seed % 3), physics=physics))
    return policy.substantial


def few(rng: np.random.Generator, jobs: np.ndarray) -> list[int]:
    """Return a random job, since plain Python is slow for all jobs of a long queue."""
    chosen: list[int] = rng.permutation(jobs)[:1].tolist()
    return chosen


def same_starts(view: View, rng: np.random.Generator) -> bool:
    """Compare the first that fits, and lists of jobs."""
    order = rng.permutation(view.queue)
    fitting = [job for job in order.tolist() if not view.just_paused(job) and view.place(job)]
    start = view.start_first(order)
    assert (start.job if start else None) == next(iter(fitting), None)
    assert not start or start.placement == view.place(start.job)
    assert search.may_any_start(view) == bool(fitting)
    assert search.displaceable(view).tolist() == room_by_hand.alone(view, view.preemptible).tolist()
    return bool(fitting)


def same_joins(view: View, rng: np.random.Generator) -> bool:
    """Compare groups, their possible members, and the cheapest start."""
    order = np.array([job for job in rng.permutation(view.queue).tolist() if not view.just_paused(job)], int)
    groups, knows = sharing_by_hand.open_groups(view), bool(rng.random() < 0.7)
    left = view.gpus.unclaimed_memory_gib if knows else np.full(len(view.gpus.node), np.inf)
    joins = search.Joins(view, order, knows_memory=knows)
    if not len(order) or not len(groups.gpus):
        return len(joins.job) > 0
    fits = sharing_by_hand.can_join(view, groups, order, left)
    starts = [
        [
            sharing_by_hand.join(view, gpus, job, left) if may else None
            for gpus, may in zip(groups.gpus, row, strict=True)
        ]
        for job, row in zip(order.tolist(), fits.T, strict=True)
    ]
    found = [(j, g) for j, row in enumerate(starts) for g, start in enumerate(row) if start]
    assert np.array_equal(joins.members, groups.members)
    assert np.array_equal(joins.by_memory, fits.T)
    assert list(zip(joins.job.tolist(), joins.group.tolist(), strict=True)) == found
    assert [joins.start(j, g) for j, g in found] == [starts[j][g] for j, g in found]
    cost = rng.choice([1.0, 2.0, np.inf], fits.shape)
    expected = sharing_by_hand.cheapest(view, groups, order, cost, left)
    assert joins.cheapest(cost[joins.group, joins.job]) == expected
    return expected is not None


def same_room(view: View, rng: np.random.Generator) -> bool:
    """Compare the cheapest victims, the GPUs freed by a single victim, and the wait for GPUs."""
    queue = view.queue[view.jobs.num_gpus[view.queue] > 0]
    victims = rng.permutation(room_by_hand.alone(view, view.preemptible))[: rng.integers(1, 9)]
    effort = view.jobs.remaining_s + view.jobs.loading_s
    cost = rng.choice([1.0, 2.0, 3.0], len(effort))
    substantial = False
    for job in few(rng, queue):
        found, expected = (
            search.room_for(view, job, victims, cost),
            room_by_hand.make_room(view, job, victims, cost),
        )
        assert (found and tuple(found)) == (expected and tuple(expected))
        wait = room_by_hand.time_until(view, job, room_by_hand.free_at(view, effort))
        assert search.wait_for_room(view, job) == wait
        substantial |= expected is not None and len(expected.victims) > 0
    there = room_by_hand.ledger(view, victims)
    single = ((job, room_by_hand.room_of_one(view, job, victims, there)) for job in queue.tolist())
    free_to_start = ((job, room) for job, room in single if room and not view.just_paused(job))
    job, room = next(free_to_start, (-1, None))
    found_one = search.room_by_one(view, queue, victims)
    assert (found_one and (found_one[0], *found_one[1])) == (room and (job, *room))
    return substantial


def same_grants(view: View, rng: np.random.Generator) -> bool:
    """Compare the first moves of a pass, and the GPUs available before some jobs on some nodes."""
    order = rng.permutation(np.concatenate((view.queue, view.running)))
    wanted = view.jobs.num_gpus[order] + np.where(rng.random(len(order)) < 0.3, view.jobs.servers[order], 0)
    requests = list(map(grants_by_hand.Request, order.tolist(), wanted.tolist()))
    pausing = bool(rng.random() < 0.8)
    expected = list(islice(grants_by_hand.grants(view, requests, pausing=pausing), 1))
    assert list(islice(search.grants(view, order, wanted, pausing=pausing), 1)) == expected
    after = rng.permutation(room_by_hand.alone(view, view.preemptible)).tolist()
    among = np.array([True, rng.random() < 0.5, True])
    for job in few(rng, view.queue[view.jobs.num_gpus[view.queue] > 0]):
        request = grants_by_hand.Request(job, int(view.jobs.num_gpus[job]))
        room = grants_by_hand.make_room(view, request, grants_by_hand.ledger_of(view, after), among)
        found = search.room_before(view, job, after, among)
        assert (found and (found.victims, list(found.gpus))) == (room and (room.victims, sorted(room.gpus)))
    return bool(expected)


@pytest.mark.parametrize("compare", [same_starts, same_joins, same_room, same_grants])
@pytest.mark.parametrize("seed", range(4))
def test_compiled_searches_equal_those_in_python(
    seed: int, compare: Callable[[View, np.random.Generator], bool]
) -> None:
    assert simulated(seed, 3, compare) > 5
    if compare is not same_joins:
        simulated(seed, 1, compare)
