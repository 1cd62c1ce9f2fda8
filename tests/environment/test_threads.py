"""Threads change the speed of a batch, not its results."""

import multiprocessing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from tests.cases import tiny

COUNT = 5


def batch(scenario: dict[str, Any], by: str, threads: int) -> Any:
    choices: dict[str, Any] = {"scenario": scenario, "threads": threads, "queue_slots": 8}
    choices |= {"hints": True, "placed_by": by, "victims_by": by, "min_run_s": 60.0, "illegal": "raise"}
    return gymnasium.make_vec("GPUCluster-v2", COUNT, autoreset="SameStep", **choices)


def played(env: Any, steps: int) -> list[bytes]:
    """Return the results of random steps."""
    rng = np.random.default_rng(0)
    seen, info = env.reset(seed=0)
    found = [tiny.bits(seen)]
    for _ in range(steps):
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in info["action_mask"]])
        seen, rewards, terminated, truncated, info = env.step(actions)
        found.append(tiny.bits((seen, rewards, terminated, truncated)))
    return found


@pytest.mark.parametrize("by", ["rule", "agent"])
@pytest.mark.parametrize("threads", [2, 8])
def test_threads_change_nothing(by: str, threads: int, tmp_path: Path) -> None:
    scenario = tiny.scenario(tmp_path, physics="all")
    alone, shared = (played(batch(scenario, by, count), 150) for count in (1, threads))
    assert alone == shared
    assert len(set(alone)) == len(alone)


def test_a_batch_has_a_thread_at_least(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="threads 0: expected a whole number, at least 1"):
        batch(tiny.scenario(tmp_path), "rule", 0)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_has_its_own_threads(tmp_path: Path) -> None:
    """A forked child has no threads of its parent's pool and would wait for them forever."""
    env = batch(tiny.scenario(tmp_path), "rule", 2)
    played(env, 2)
    child = multiprocessing.get_context("fork").Process(target=played, args=(env, 2), daemon=True)
    child.start()
    child.join(60)
    assert child.exitcode == 0
