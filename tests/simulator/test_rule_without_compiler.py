"""`union`, its moves, sampled futures and look-ahead give the same results with the compiler off.

Except for the last digits: the compiler rounds exp differently. Look-ahead therefore has a margin here, and
observations are compared with a tolerance.
"""

from dataclasses import asdict, replace

import gymnasium
import numpy as np
import pytest

import gpu_cluster_gym  # noqa: F401 - registers the environments
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.look_ahead_policy import LookAhead
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.workloads import named, windows
from tests.cases.uncompiled import with_the_compiler_off

JOBS, STEPS = 7, 2
FEW = replace(named("mixed"), jobs=JOBS, run_time_predictor="mixed")
QUICK = LookAhead(draws=2, screening=1, finalists=1, tau_s=600.0, queued=2, running=2, z=0.0, margin_s=1.0)


def figures() -> dict[str, list[float]]:
    """Return finish times under the rule and look-ahead, and observations and rewards of random moves."""
    load = windows(FEW, "train", 1)[0]
    found: dict[str, list[float]] = {
        name: run(policy, load.episode()).state.finish_s[:JOBS].tolist()
        for name, policy in (("rule", Rule()), ("look-ahead", QUICK))
    }
    env = gymnasium.make(
        "GPUCluster-v2", scenario=asdict(FEW), count=1, action="moves", reward="rollout_advantage", futures=1
    )
    rng = np.random.default_rng(0)
    seen, info = env.reset(seed=0)
    found |= {"seen": [], "paid": []}
    for _ in range(STEPS):
        found["seen"] += [float(seen["moves"].sum()), float(seen["load"].sum()), float(seen["mask"].sum())]
        seen, paid, _, _, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
        found["paid"].append(float(paid))
    return found


def test_results_are_equal_with_the_compiler_off() -> None:
    plain = with_the_compiler_off(figures)
    for name, numbers in figures().items():
        assert plain[name] == pytest.approx(numbers, rel=1e-6, abs=1e-9), name
    assert plain["rule"] != plain["look-ahead"]
    assert any(plain["paid"])
