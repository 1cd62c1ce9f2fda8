"""A rollout is what the rule does from any state on; what it imagines depends on nothing that is not known."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.cluster.readings import TARGET_BUSY_SHARE
from gpu_cluster_gym.simulator.kernel.union import decide
from gpu_cluster_gym.simulator.policy import Policy, Wait
from gpu_cluster_gym.simulator.rule_policy import Rollouts, Rule, memory_of
from gpu_cluster_gym.simulator.source import source_of
from gpu_cluster_gym.simulator.vocabulary import DONE
from gpu_cluster_gym.workloads import Workload, named, windows
from tests.cases import untold

FEW = 60  # jobs
MANY_ERRORS = 5  # standard errors
RULE = Rule(price=3.0, growth=2.0)


@cache
def window(workload: str = "mixed", history: str | None = None) -> Workload:
    """Return a training window of a few jobs."""
    chosen = replace(named(workload), jobs=FEW, all_windows=True, run_time_predictor=history)
    return windows(chosen, "train", 1)[0]


def midway(load: Workload, share: float = 0.5) -> tuple[Episode, np.ndarray]:
    """Return an episode under the rule when that share of its jobs has come, and what the rule keeps."""
    episode = load.episode()
    memory = memory_of(RULE, episode.states, episode.jobs, episode.histories)
    until = float(episode.jobs["submit_s"][int(share * FEW)])
    assert decide.run_until(episode.states, 0, memory, 0, episode.jobs, until)
    return episode, memory


def room_for(episode: Episode, memory: np.ndarray) -> Rollouts:
    """Return a rollout that begins where an episode is."""
    room = Rollouts(episode.states, memory, episode.jobs)
    room.copy(episode.states, 0, memory, 0, episode.jobs)
    return room


def play(policy: Policy, episode: Episode, until: float = np.inf) -> None:
    """Let a policy play on, to the end or to the first instant after a time."""
    while not episode.done and episode.state.clock < until:
        assert episode.advance()
        while not isinstance(action := policy(episode.view), Wait):
            episode.apply(action)
        episode.apply(action)


@pytest.mark.parametrize("workload", ["mixed", "coda_mix", "philly"])
@pytest.mark.parametrize("share", [0.2, 0.7])
def test_a_rollout_to_the_end_is_the_rest_of_the_run(workload: str, share: float) -> None:
    load = window(workload)
    episode, memory = midway(load, share)
    before = episode.states.tobytes(), memory.tobytes(), episode.jobs.tobytes()
    room = room_for(episode, memory)
    cost = room.run()
    whole = run(RULE, load.episode()).state
    assert room.states[0].finish_s[:FEW].tolist() == whole.finish_s[:FEW].tolist()
    assert cost == pytest.approx(whole.present_seconds - episode.state.present_seconds)
    assert (episode.states.tobytes(), memory.tobytes(), episode.jobs.tobytes()) == before


def test_a_rollout_without_arrivals_equals_the_policy_step_by_step() -> None:
    """From the middle on no job arrives; the rollout and the policy each continue from there."""
    episode = window().episode()
    play(RULE, episode, float(episode.jobs["submit_s"][FEW // 2]))
    episode.states["num_jobs"][0] = episode.state.num_arrived
    room = room_for(episode, source_of(episode.view).rule_memory)
    room.run()
    play(RULE, episode)
    found, expected = room.states[0].finish_s, episode.state.finish_s
    assert np.isfinite(expected).sum() == episode.state.num_arrived
    assert np.array_equal(found, expected, equal_nan=True)


def test_a_rollout_ends_at_a_time() -> None:
    episode, memory = midway(window())
    room, until = room_for(episode, memory), float(episode.state.clock) + 600
    spent = room.run(until)
    assert room.states[0].clock >= until
    assert 0 < spent < room_for(episode, memory).run()


@pytest.mark.parametrize("history", [None, "mixed"])
@pytest.mark.parametrize("workload", ["mixed", "coda_mix", "aiturbo_ps", "philly"])
def test_what_is_imagined_knows_no_truth(workload: str, history: str | None) -> None:
    """Other truths of the jobs that have not ended, and of those to come, lead to the same imagined future."""
    episode, memory = midway(window(workload, history))
    costs = []
    for factor in (1.0, 1.7):
        room = room_for(episode, memory)
        untold.change(room.jobs[:FEW], episode.state, factor)
        room.sample_belief(seed=3)
        costs.append(room.run())
        assert legality.check(room.states, 0, room.jobs) == 0
        assert room.states[0].num_done == episode.state.num_arrived
    assert costs[0] == costs[1] > 0


def expected_median(episode: Episode) -> np.ndarray:
    """Return the median run time of each job that has arrived, none of it being done, in one line of Bayes' rule."""
    jobs = episode.view.jobs
    ended = np.isfinite(episode.state.finish_s[: len(jobs.estimate_s)])
    known = np.log(np.where(ended, jobs.attained_s, jobs.estimate_s))
    error2 = np.where(ended, 0.0, np.where(jobs.is_predictable, 0.25, 1.0) ** 2)
    mean = known.mean()
    spread = max(((known - mean) ** 2).sum() - error2.sum(), 0.0)
    variance = (10 * 2.0 + spread) / (10 + len(known))  # ten jobs' worth of what is usual
    median: np.ndarray = np.exp(mean + variance / (variance + error2) * (known - mean))
    return median


def test_what_is_imagined_lasts_longer_than_what_was_attained_and_differs_by_seed() -> None:
    episode, memory = midway(window())
    arrived = int(episode.state.num_arrived)
    left = np.flatnonzero(np.isnan(episode.state.finish_s[:arrived]))
    attained = episode.view.jobs.attained_s[left]
    drawn = []
    for seed in range(200):
        room = room_for(episode, memory)
        room.sample_belief(seed)
        drawn.append(room.jobs["duration_s"][left])
        assert (drawn[-1] > attained).all()
    untouched = attained == 0
    middle = np.median(drawn, axis=0)[untouched] / expected_median(episode)[left][untouched]
    np.testing.assert_allclose(middle, 1.0, atol=0.35)  # 200 draws of a deviation of 1 at most
    assert (np.std(drawn, axis=0) > 0).all()


def test_with_a_history_what_is_imagined_lies_about_what_it_teaches() -> None:
    """The mean logarithm of what is drawn is that of what the view expects; so are the cores that are imagined."""
    episode, memory = midway(window("mixed", "mixed"))
    jobs = episode.view.jobs
    left = np.flatnonzero((jobs.phase != DONE) & (jobs.num_gpus > 0))
    assert len(left)
    room = room_for(episode, memory)
    drawn = []
    for seed in range(200):
        room.copy(episode.states, 0, memory, 0, episode.jobs)
        room.sample_belief(seed)
        drawn.append(np.log(room.jobs["duration_s"][left]))
    error = np.std(drawn, axis=0) / np.sqrt(len(drawn))
    apart = abs(np.mean(drawn, axis=0) - np.log(jobs.expected_s[left]))
    assert (apart < MANY_ERRORS * error + 0.01).all()
    fed = left[episode.jobs["input_core_s"][left] > 0]
    cores = TARGET_BUSY_SHARE * room.jobs["input_core_s"][fed] / room.jobs["gpu_s"][fed]
    np.testing.assert_allclose(cores, jobs.expected_cores[fed])
