"""Jobs that wait for others do not count for the policies that act in rounds until they are released."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym.baselines.aiturbo import Aiturbo
from gpu_cluster_gym.baselines.gavel import Gavel
from gpu_cluster_gym.baselines.optimus import Optimus
from gpu_cluster_gym.simulator.compiled_policy import CompiledPolicy
from gpu_cluster_gym.simulator.constraints import Constraints
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.policy import Policy, Wait
from gpu_cluster_gym.simulator.priority_rounds import PriorityRounds, Requests, requests_by
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import Workload
from tests.policies.test_elastic_policies import work


def waiting(loads: Workload, *waits_for: tuple[int, int]) -> Workload:
    """Return the same jobs, with pairs of a job and one that it waits for."""
    return replace(loads, constraints=Constraints(waits_for=np.array(waits_for)))


def acted(policy: Policy, episode: Episode) -> None:
    """Let a policy act at the next instant."""
    episode.advance()
    while not isinstance(action := policy(episode.view), Wait):
        episode.apply(action)
    episode.apply(action)


def test_optimus_gives_a_held_job_no_share() -> None:
    """A could use all four GPUs. B waits for A: were it counted, each would get two."""
    both = work({"num_gpus": 1}, {"num_gpus": 1})
    for load, workers in ((both, [2, 2]), (waiting(both, (1, 0)), [4])):
        episode = load.episode()
        acted(Optimus(), episode)
        running = episode.view.running
        assert episode.state.workers[running].tolist() == workers


def test_gavel_gives_a_held_job_no_share() -> None:
    """Three jobs want all four GPUs, of which C waits for A: A and B get half of the time each, not a third."""
    three = waiting(work(*({"num_gpus": 4},) * 3, physics="estimates"), (2, 0))
    policy, episode = Gavel(), three.episode()
    acted(policy, episode)
    shares = policy.memory(episode.states)[0]["share"][:3, 0]
    assert shares.tolist() == [0.5, 0.5, 0.0]


def shortest_first(view: View) -> Requests:
    there = np.concatenate([view.queue, view.running])
    return requests_by(there, view.jobs.num_gpus[there], view.jobs.estimate_s[there])


def test_a_release_is_an_arrival_for_priority_rounds() -> None:
    """C, of four GPUs, waits for B, and comes before A. It pauses A at its release, not at the next round at 240.

    A 0-100, 110-10,010   B 0-100   C 100-110
    """
    b, c = {"num_gpus": 2, "duration_s": 100.0}, {"num_gpus": 4, "duration_s": 10.0}
    jobs = work({"num_gpus": 2}, b, c, physics="preemption,estimates")
    episode = run(PriorityRounds(shortest_first), waiting(jobs, (2, 1)).episode())
    assert episode.state.finish_s[:3].tolist() == [10_010, 100, 110]


@pytest.mark.parametrize("new", [Aiturbo, Optimus, Gavel])
def test_released_jobs_are_listed_by_number(new: type[CompiledPolicy]) -> None:
    """B and C wait for A, of 100 s, and E for F, of 60 s; D, E and F come at 50."""
    each: dict[str, Any] = {"num_gpus": 1, "max_workers": 1}
    jobs = [each | {"duration_s": 100.0}, each, each, *({"submit_s": 50.0} | each for _ in range(3))]
    jobs[5]["duration_s"] = 60.0
    episode = waiting(work(*jobs), (1, 0), (2, 0), (4, 5)).episode()
    policy, listed = new(), []
    for _ in range(4):
        acted(policy, episode)
        memory = policy.memory(episode.states)[0]
        listed.append(memory["present"][: memory["num_present"]].tolist())
    assert listed == [[0], [0, 3, 5], [1, 2, 3, 5], [1, 2, 3, 4]]
