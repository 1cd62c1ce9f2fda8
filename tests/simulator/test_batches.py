"""Cached expectations of batches equal those computed from scratch, at each decision."""

from dataclasses import replace

import numpy as np
import pytest

from gpu_cluster_gym.simulator.kernel._compile import entry
from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE
from gpu_cluster_gym.simulator.kernel.union import estimates
from gpu_cluster_gym.simulator.policy import Wait
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.simulator.source import source_of
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import Scenario, named, windows

FEW = 60  # jobs
FAILING = replace(named("mixed"), physics="all", node_mtbf_h=10.0, drain_every_h=30.0)


@entry
def both(states, e, memory, k, jobs, out):
    """Write run time left and core need of each unfinished job, each cached and computed from scratch: (4, J)."""
    s, m = states[e], memory[k]
    for job in range(s.num_arrived):
        if s.phase[job] == DONE:
            continue
        out[0, job] = estimates.believed_left(s, jobs, m, job)
        out[1, job] = max(estimates.expected_remaining(s, jobs, m, job), 1.0)
        out[2, job] = estimates.learned_need(s, jobs, m, job)
        estimates.count_finished(s, jobs, m)
        if m.num_cells > 0 and jobs[job].num_gpus > 0 and jobs[job].servers == 0:
            out[3, job] = np.exp(estimates.expected_log_cores(s, jobs, m, job))


def cached_and_computed(view: View, rng: np.random.Generator) -> np.ndarray:
    """Return cached and recomputed values, after a random change of trust."""
    source = source_of(view)
    memory: np.ndarray = source.rule_memory
    if rng.random() < 0.3:
        memory["trust_times"] = rng.choice([0.0, 1.0])
        memory["state_seen"] = -1
    memory, out = memory.copy(), np.zeros((4, len(source.jobs)))
    trusts = bool(memory["trust_times"][0] > 0)
    both(source.states, 0, memory, 0, source.jobs, out)
    return out if trusts else out[2:]


@pytest.mark.parametrize("scenario", [named("mixed"), FAILING], ids=["mixed", "failing"])
def test_cached_expectations_equal_computed_ones(scenario: Scenario) -> None:
    with_history = replace(scenario, run_time_predictor="mixed", jobs=FEW)
    episode, rule = windows(with_history, "train", 1)[0].episode(), Rule(trust_cores=1, trust_times=1)
    rng, compared = np.random.default_rng(0), 0
    while not episode.done and episode.advance():
        while True:
            action = rule(episode.view)
            for cached, computed in cached_and_computed(episode.view, rng).reshape(-1, 2, len(episode.jobs)):
                np.testing.assert_allclose(cached, computed, rtol=1e-9)
                compared += int((cached > 1).sum())
            episode.apply(action)
            if isinstance(action, Wait):
                break
    assert compared > 10 * FEW
