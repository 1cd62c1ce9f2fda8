"""No instant at which something can be picked is passed over, and no other is stopped at."""

from pathlib import Path

import numpy as np
import pytest

from envs.env import GPUClusterEnv
from envs.task import SCRATCH
from simulator.kernel import calls, listing
from simulator.slots import Slots
from tests.cases import tiny

COUNT = 150
WAIT = COUNT


def may_pick_any(env: GPUClusterEnv, states: np.ndarray) -> bool:
    """Try to pick each queued job on a copy, by the plain search for victims."""
    jobs, queued = env.episode.jobs, np.empty(COUNT, np.int64)
    for job in queued[: listing.queued(states, 0, queued)].tolist():
        states[SCRATCH] = states[0]
        if calls.pick(states, SCRATCH, jobs, job):
            return True
    return False


def after(env: GPUClusterEnv, action: int) -> tuple[np.ndarray, int]:
    """Return the records after an action, gone through instant by instant, and how many of those were passed over."""
    states, jobs = env.episode.states.copy(), env.episode.jobs
    state, passed = states[0], -1
    if action != WAIT:
        calls.pick(states, 0, jobs, env._slots.queue[action])
    while action == WAIT or not may_pick_any(env, states):
        action = -1
        if state.num_done == state.num_jobs:
            break
        state.wake = state.clock if np.isinf(calls.next_event(states, 0, jobs)) else np.inf
        calls.advance(states, 0, jobs)
        passed += 1
    return states, passed


@pytest.mark.parametrize(
    ("physics", "least"), [("memory,preemption,estimates", 100), ("none", 1), ("all", 100)]
)
def test_what_is_passed_over_is_no_choice(physics: str, least: int, tmp_path: Path) -> None:
    """Jobs of hours, seen every five minutes unless estimates are exact: time passes while nothing else happens."""
    chosen = tiny.scenario(tmp_path, tiny.month(COUNT), physics=physics, cluster="1x8", drop_too_large=True)
    env = tiny.make(chosen, action="pick", observation="slots", queue_slots=COUNT, running_slots=0)
    rng, passed = np.random.default_rng(0), 0
    env.reset(seed=0)
    for _ in range(120):
        legal = np.flatnonzero(env.action_masks())
        action = WAIT if rng.random() < 0.5 and legal[-1] == WAIT else int(rng.choice(legal))
        states, count = after(env, action)
        *_, done, _, _ = env.step(action)
        assert env.episode.state.instant == states[0].instant
        assert env.episode.state.clock == states[0].clock
        assert env.episode.state.present_seconds == states[0].present_seconds
        assert env.episode.state.phase.tolist() == states[0].phase.tolist()
        passed += max(count, 0)
        if done:
            break
    assert passed >= least


@pytest.mark.parametrize("physics", ["memory,preemption,estimates", "none", "all"])
@pytest.mark.parametrize("cluster", ["1x8", "4x4"])
def test_what_is_kept_between_steps_is_what_is_found_anew(cluster: str, physics: str, tmp_path: Path) -> None:
    """Which jobs are in the slots, how they can be picked and all that is seen of them, at every step."""
    chosen = tiny.scenario(tmp_path, tiny.month(COUNT), physics=physics, cluster=cluster, drop_too_large=True)
    env = tiny.make(chosen, action="pick", observation="slots", queue_slots=8, running_slots=0)
    rng, steps, done = np.random.default_rng(1), 0, False
    env.reset(seed=0)
    while not done and steps < 400:
        anew = Slots(8, 0)
        anew.refresh(env.episode.states.copy(), 0, env.episode.jobs)
        kept = env._slots
        assert kept.queue.tolist() == anew.queue.tolist()
        assert kept.queue_mask[:-1].tolist() == anew.queue_mask[:-1].tolist()
        assert kept.seen[: -len(kept.queue_mask)].tolist() == anew.seen[: -len(kept.queue_mask)].tolist()
        own = env._choice
        picks = own if rng.random() < 0.7 else int(rng.choice(np.flatnonzero(env.action_masks())))
        *_, done, _, _ = env.step(picks)
        steps += 1
    assert steps > COUNT / 2
