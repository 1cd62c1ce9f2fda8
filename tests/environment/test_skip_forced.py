"""No instant with a choice is skipped, and no other instant is a decision."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

from gpu_cluster_gym.envs.env import GPUClusterEnv, PlainActions
from gpu_cluster_gym.envs.observations.tables import observation as tables
from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.slots.features import IS_LEGAL
from gpu_cluster_gym.simulator.slots import Slots
from tests.cases import tiny

COUNT = 150
WAIT = COUNT
SCRATCH = 1  # record


def may_pick_any(env: GPUClusterEnv, states: np.ndarray) -> bool:
    """Return whether any queued job can be picked, tried on copies by the plain search for victims."""
    jobs, queued = env.episode.jobs, np.empty(COUNT, np.int64)
    for job in queued[: legality.queued(states, 0, queued)].tolist():
        states[SCRATCH] = states[0]
        if calls.pick(states, SCRATCH, jobs, job):
            return True
    return False


def after(env: GPUClusterEnv, action: int) -> tuple[np.ndarray, int]:
    """Return the records after an action, instant by instant, and the number of instants skipped."""
    states, jobs = env.episode.states.copy(), env.episode.jobs
    state, passed = states[0], -1
    if action != WAIT:
        calls.pick(states, 0, jobs, env.queue[action])
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
def test_skipped_instants_have_no_choice(physics: str, least: int, tmp_path: Path) -> None:
    """Jobs of hours with ticks every five minutes, unless estimates are exact: most instants are skipped."""
    chosen = tiny.scenario(tmp_path, tiny.month(COUNT), physics=physics, cluster="1x8", drop_too_large=True)
    env = tiny.make(chosen, queue_slots=COUNT, running_slots=0)
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
def test_primitives_equal_their_moves_and_the_skipped_time(
    cluster: str, physics: str, tmp_path: Path
) -> None:
    """Each action equals its moves made one by one, then time that passes to the next event with a choice."""
    chosen = tiny.scenario(tmp_path, tiny.month(COUNT), physics=physics, cluster=cluster, drop_too_large=True)
    env = tiny.make(chosen, queue_slots=8, running_slots=6, placed_by="agent", victims_by="agent")
    numbering = env.batch.actions
    rng, done = np.random.default_rng(0), False
    seen, _ = env.reset(seed=0)
    for _ in range(200):
        if done:
            break
        plain, slots = deepcopy(env.episode), Slots(8, 6)
        look(plain, slots)
        legal = numbering.mask(slots)
        assert tiny.bits(env.action_masks()) == tiny.bits(legal.astype(bool))
        slots.running_features[:, IS_LEGAL] = legal[numbering.pausing]
        assert tiny.bits(seen) == tiny.bits(tables(slots.observation, env.batch.sizes))
        number = int(rng.choice(np.flatnonzero(env.action_masks())))
        if number < numbering.wait:
            for move in numbering.moves(number, slots, plain.view):
                plain.apply(move)
            look(plain, slots)
        else:
            to_the_next_instant(plain, slots)
        while not (plain.done or has_a_choice(plain, slots, numbering)):
            to_the_next_instant(plain, slots)
        seen, _, done, _, _ = env.step(number)
        for field in ("clock", "instant", "present_seconds", "num_starts", "num_pauses"):
            assert env.episode.state[field] == plain.state[field]
        assert env.episode.state.phase.tolist() == plain.state.phase.tolist()
        assert done == plain.done


def look(episode: Episode, slots: Slots) -> None:
    """Observe an episode."""
    slots.refresh(episode.states, 0, episode.jobs)


def has_a_choice(episode: Episode, slots: Slots, numbering: PlainActions) -> bool:
    """Return whether an arrived job can be started or paused."""
    return bool(episode.state.num_arrived) and bool(numbering.mask(slots)[:-1].any())


def to_the_next_instant(episode: Episode, slots: Slots) -> None:
    """Advance to the next event, by an hour at most; with nothing pending, to another instant at the same time."""
    limit_s = 3600.0 if episode.num_present else np.inf
    episode.state.wake = episode.state.clock + (0.0 if episode.nothing_pending else limit_s)
    episode.advance(ticks=False)
    look(episode, slots)


@pytest.mark.parametrize("physics", ["memory,preemption,estimates", "none", "all"])
@pytest.mark.parametrize("cluster", ["1x8", "4x4"])
def test_cached_state_between_steps_equals_recomputed_state(
    cluster: str, physics: str, tmp_path: Path
) -> None:
    """Jobs in the slots, their start options and all features, at every step."""
    chosen = tiny.scenario(tmp_path, tiny.month(COUNT), physics=physics, cluster=cluster, drop_too_large=True)
    env = tiny.make(chosen, queue_slots=8, running_slots=0)
    rng, steps, done = np.random.default_rng(1), 0, False
    env.reset(seed=0)
    while not done and steps < 400:
        recomputed = Slots(8, 0)
        recomputed.refresh(env.episode.states.copy(), 0, env.episode.jobs)
        kept, width = env.batch._rows[0], len(recomputed.queue_part) - len(recomputed.queue_mask)
        assert env.queue.tolist() == recomputed.queue.tolist()
        assert env.action_masks()[:-1].tolist() == recomputed.queue_mask[:-1].tolist()
        assert kept[:width].tolist() == recomputed.queue_part[:width].tolist()
        own = env.own_choice
        picks = own if rng.random() < 0.7 else int(rng.choice(np.flatnonzero(env.action_masks())))
        *_, done, _, _ = env.step(picks)
        steps += 1
    assert steps > COUNT / 2
