"""The kernel's bounds on the remaining time of a node's running jobs hold for each job at every instant."""

import numpy as np
import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.node_bounds import max_remaining
from gpu_cluster_gym.simulator.kernel.cluster.parameters import MAX_SHARE
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.simulator.source import adopt
from gpu_cluster_gym.workloads import named, windows

ROUNDING = 1e-6  # s
BOUND = getattr(max_remaining, "py_func", max_remaining)  # as plain Python, compiled or not
INSTANTS = 150


def running(episode: Episode) -> list[int]:
    return [int(job) for job in np.flatnonzero(episode.state.phase[: len(episode.jobs)] == RUNNING)]


def nodes_of(episode: Episode, job: int) -> set[int]:
    slot, nodes = int(episode.state.first_slot[job]), set()
    while slot != NOBODY:
        nodes.add(int(episode.state.gpu_node[slot // MAX_SHARE]))
        slot = int(episode.state.next_slot[slot])
    return nodes


def broken(episode: Episode) -> list[tuple[int, int]]:
    """Return the running jobs, with one of their nodes, for which a bound of the node does not hold."""
    state, view, wrong = episode.state, episode.view, []
    for job in running(episode):
        overhead = episode.jobs["pause_s"][job] + episode.jobs["load_s"][job]
        for node in nodes_of(episode, job):
            held = (
                BOUND(state, node) + ROUNDING >= view.jobs.remaining_s[job]
                and state.min_overhead_s[node] <= overhead
                and state.widest[node] >= state.width[job]
            )
            if not held:
                wrong.append((job, node))
    return wrong


@pytest.mark.parametrize("workload", ["quick", "philly", "mixed"])
@pytest.mark.parametrize("policy", ["srtf", "xion_threshold", "las"])
def test_bounds_hold_for_every_running_job(workload: str, policy: str) -> None:
    episode = windows(named(workload), "test", 1)[0].episode()
    ranking = baselines.make(baselines.load(policy))
    assert isinstance(ranking, Ranking)
    episode.set_levels(ranking.levels)
    adopt(episode.states, 0, episode.jobs, ranking)
    seen = 0
    for _ in range(INSTANTS):
        if not episode.advance():
            break
        calls.walk(episode.states, 0, episode.jobs)
        seen += len(running(episode))
        assert broken(episode) == []
    assert seen > INSTANTS, "jobs ran"
