"""Orders that a policy keeps within an instant are those that it would sort again, and so is the view's queue."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.baselines.qssf import Qssf
from gpu_cluster_gym.baselines.xion import Xion, without
from gpu_cluster_gym.simulator import source as sources
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Preempt, Wait
from gpu_cluster_gym.workloads import Workload, named, windows

PHYSICS = ("exclusive", "all", "estimates")
"""In the third, pauses take no time."""


def crowded(physics: str, **choices: Any) -> list[Workload]:
    """Return windows in which dozens of jobs queue on 16 GPUs."""
    usual = replace(named("philly_backlog"), jobs=150, physics=physics, drop_too_large=True, all_windows=True)
    return windows(replace(usual, cluster="2x8", max_duration=20_000.0, **choices), "train", 2)


def sorted_again(policy: Any) -> Any:
    """Return a policy that forgets its order before each question."""

    def ask(view: Any) -> Any:
        policy._order = policy._order[:0]
        return policy(view)

    return ask


@pytest.mark.parametrize("physics", PHYSICS)
@pytest.mark.parametrize("make", [Xion, Qssf])
def test_a_kept_order_is_the_one_that_would_be_sorted(make: Any, physics: str) -> None:
    starts = 0
    for load in crowded(physics):
        kept = load.results(run(make(), load.episode()))
        again = load.results(run(sorted_again(make()), load.episode()))
        pd.testing.assert_frame_equal(kept, again, check_exact=True)
        starts += len(kept) - kept["start_s"].nunique()
    assert starts > 0, "jobs start at one instant"


@pytest.mark.parametrize("make", [Xion, Qssf])
def test_a_job_that_joins_the_queue_joins_the_order(make: Any) -> None:
    """Another policy pauses a job at no cost, and asks once more at that instant."""
    policy, paused = make(), list[int]()

    def ask(view: Any) -> Any:
        if paused and paused[-1] == view.instant and len(view.queue):
            policy(view)
            order = policy._by_effort(view, view.queue) if make is Xion else policy._order
            assert sorted(order) == view.queue.tolist()
            return Wait()
        if not isinstance(action := policy(view), Wait) or len(paused) == 5:
            return action
        if not len(view.preemptible) or not np.isin(policy._order, view.queue).any():
            return action
        paused.append(view.instant)
        return Preempt(int(view.preemptible[0]))

    run(ask, crowded("estimates")[0].episode())
    assert len(paused) == 5


def test_xion_with_tenants_keeps_an_order_for_all() -> None:
    choices = {"quotas": "proportional", "borrowing": "reclaim"}
    for load in crowded("exclusive", **choices):
        kept, again = (run(policy, load.episode()) for policy in (Xion(), sorted_again(Xion())))
        pd.testing.assert_frame_equal(load.results(kept), load.results(again), check_exact=True)


def test_displaced_jobs_are_left_out_of_a_queue() -> None:
    queue = np.array([2, 3, 5, 8])
    assert without(queue, [5, 9, 1, 2]).tolist() == [3, 8]
    assert without(queue, [9]) is queue
    assert without(queue, []) is queue
    assert without(queue[:0], [3]).tolist() == []


def test_the_queue_is_the_same_by_phases_and_by_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[int, list[list[int]]] = {0: [], 10**9: []}
    load = crowded("all")[0]
    for scan, queues in seen.items():
        monkeypatch.setattr(sources, "SCAN", scan)
        policy = Xion()

        def ask(view: Any, policy: Xion = policy, queues: list[list[int]] = queues) -> Any:
            queues.append(view.queue.tolist())
            return policy(view)

        run(ask, load.episode())
    assert seen[0] == seen[10**9]
    assert max(map(len, seen[0])) > 20
