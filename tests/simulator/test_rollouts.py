"""A rollout continues the rule from any state; a sampled belief depends on observable information alone."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from benchmarks.speed_rows import Rollouts
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.cluster.readings import TARGET_BUSY_SHARE
from gpu_cluster_gym.simulator.kernel.union import decide
from gpu_cluster_gym.simulator.policy import Policy, Wait
from gpu_cluster_gym.simulator.rule_policy import Rule, memory_of
from gpu_cluster_gym.simulator.source import source_of
from gpu_cluster_gym.simulator.vocabulary import DONE
from gpu_cluster_gym.workloads import Workload, named, windows
from tests.cases import hidden_fields

FEW = 60  # jobs
MANY_ERRORS = 5  # standard errors
RULE = Rule(price=3.0, growth=2.0)


@cache
def window(workload: str = "mixed", history: str | None = None) -> Workload:
    """Return a training window of a few jobs."""
    chosen = replace(named(workload), jobs=FEW, all_windows=True, run_time_predictor=history)
    return windows(chosen, "train", 1)[0]


def midway(load: Workload, share: float = 0.5) -> tuple[Episode, np.ndarray]:
    """Return an episode under the rule once that share of its jobs has arrived, and the rule's memory."""
    episode = load.episode()
    memory = memory_of(RULE, episode.states, episode.jobs, episode.histories)
    until = float(episode.jobs["submit_s"][int(share * FEW)])
    assert decide.run_until(episode.states, 0, memory, 0, episode.jobs, until)
    return episode, memory


def rollouts_of(episode: Episode, memory: np.ndarray) -> Rollouts:
    """Return buffers for rollouts, filled with the current state of an episode."""
    rollouts = Rollouts(episode.states, memory, episode.jobs)
    rollouts.copy(episode.states, 0, memory, 0, episode.jobs)
    return rollouts


def play(policy: Policy, episode: Episode, until: float = np.inf) -> None:
    """Run a policy to the end, or to the first instant after a time."""
    while not episode.done and episode.state.clock < until:
        assert episode.advance()
        while not isinstance(action := policy(episode.view), Wait):
            episode.apply(action)
        episode.apply(action)


@pytest.mark.parametrize("workload", ["mixed", "coda_mix", "philly_backlog"])
@pytest.mark.parametrize("share", [0.2, 0.7])
def test_a_rollout_to_the_end_is_the_rest_of_the_run(workload: str, share: float) -> None:
    load = window(workload)
    episode, memory = midway(load, share)
    before = episode.states.tobytes(), memory.tobytes(), episode.jobs.tobytes()
    rollouts = rollouts_of(episode, memory)
    cost = rollouts.run()
    whole = run(RULE, load.episode()).state
    assert rollouts.states[0].finish_s[:FEW].tolist() == whole.finish_s[:FEW].tolist()
    assert cost == pytest.approx(whole.present_seconds - episode.state.present_seconds)
    assert (episode.states.tobytes(), memory.tobytes(), episode.jobs.tobytes()) == before


def test_a_rollout_without_arrivals_equals_the_policy_step_by_step() -> None:
    """From the middle on no job arrives; the rollout and the policy each continue from there."""
    episode = window().episode()
    play(RULE, episode, float(episode.jobs["submit_s"][FEW // 2]))
    episode.states["num_jobs"][0] = episode.state.num_arrived
    rollouts = rollouts_of(episode, source_of(episode.view).rule_memory)
    rollouts.run()
    play(RULE, episode)
    found, expected = rollouts.states[0].finish_s, episode.state.finish_s
    assert np.isfinite(expected).sum() == episode.state.num_arrived
    assert np.array_equal(found, expected, equal_nan=True)


def test_a_rollout_ends_at_a_time() -> None:
    episode, memory = midway(window())
    rollouts, until = rollouts_of(episode, memory), float(episode.state.clock) + 600
    spent = rollouts.run(until)
    assert rollouts.states[0].clock >= until
    assert 0 < spent < rollouts_of(episode, memory).run()


@pytest.mark.parametrize("history", [None, "mixed"])
@pytest.mark.parametrize("workload", ["mixed", "coda_mix", "aiturbo_ps", "philly_backlog"])
def test_a_belief_depends_on_no_hidden_truth(workload: str, history: str | None) -> None:
    """Other truths of unfinished and future jobs lead to the same sampled future."""
    episode, memory = midway(window(workload, history))
    costs = []
    for factor in (1.0, 1.7):
        rollouts = rollouts_of(episode, memory)
        hidden_fields.change(rollouts.jobs[:FEW], episode.state, factor)
        rollouts.sample_belief(seed=3)
        costs.append(rollouts.run())
        assert legality.check(rollouts.states, 0, rollouts.jobs) == 0
        assert rollouts.states[0].num_done == episode.state.num_arrived
    assert costs[0] == costs[1] > 0


def expected_median(episode: Episode) -> np.ndarray:
    """Return the median run time of each arrived job before it runs, by Bayes' rule in closed form."""
    jobs = episode.view.jobs
    ended = np.isfinite(episode.state.finish_s[: len(jobs.estimate_s)])
    known = np.log(np.where(ended, jobs.attained_s, jobs.estimate_s))
    error2 = np.where(ended, 0.0, np.where(jobs.is_predictable, 0.25, 1.0) ** 2)
    mean = known.mean()
    spread = max(((known - mean) ** 2).sum() - error2.sum(), 0.0)
    variance = (10 * 2.0 + spread) / (10 + len(known))  # the prior variance counts for ten jobs
    median: np.ndarray = np.exp(mean + variance / (variance + error2) * (known - mean))
    return median


def test_sampled_run_times_exceed_the_attained_ones_and_differ_by_seed() -> None:
    episode, memory = midway(window())
    arrived = int(episode.state.num_arrived)
    left = np.flatnonzero(np.isnan(episode.state.finish_s[:arrived]))
    attained = episode.view.jobs.attained_s[left]
    drawn = []
    for seed in range(200):
        rollouts = rollouts_of(episode, memory)
        rollouts.sample_belief(seed)
        drawn.append(rollouts.jobs["duration_s"][left])
        assert (drawn[-1] > attained).all()
    untouched = attained == 0
    middle = np.median(drawn, axis=0)[untouched] / expected_median(episode)[left][untouched]
    np.testing.assert_allclose(middle, 1.0, atol=0.35)  # 200 draws of a deviation of 1 at most
    assert (np.std(drawn, axis=0) > 0).all()


def test_with_a_history_samples_lie_about_its_expectations() -> None:
    """The mean logarithm of sampled run times is that of the view's expectation; so are the sampled core needs."""
    episode, memory = midway(window("mixed", "mixed"))
    jobs = episode.view.jobs
    left = np.flatnonzero((jobs.phase != DONE) & (jobs.num_gpus > 0))
    assert len(left)
    rollouts = rollouts_of(episode, memory)
    drawn = []
    for seed in range(200):
        rollouts.copy(episode.states, 0, memory, 0, episode.jobs)
        rollouts.sample_belief(seed)
        drawn.append(np.log(rollouts.jobs["duration_s"][left]))
    error = np.std(drawn, axis=0) / np.sqrt(len(drawn))
    apart = abs(np.mean(drawn, axis=0) - np.log(jobs.expected_s[left]))
    assert (apart < MANY_ERRORS * error + 0.01).all()
    fed = left[episode.jobs["input_core_s"][left] > 0]
    cores = TARGET_BUSY_SHARE * rollouts.jobs["input_core_s"][fed] / rollouts.jobs["gpu_s"][fed]
    np.testing.assert_allclose(cores, jobs.expected_cores[fed])
