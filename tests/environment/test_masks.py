"""The mask allows exactly the actions that do not raise, and always at least one."""

import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from gpu_cluster_gym.envs.env import GPUClusterEnv
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.rankings.cost_aware import MIN_RUN_S
from gpu_cluster_gym.simulator.kernel.slots.stepping import RULES
from gpu_cluster_gym.simulator.policy import Preempt, Start, Wait
from tests.cases import tiny

KINDS = tuple(
    {"placed_by": place, "victims_by": victims}
    for place in ("rule", "agent")
    for victims in ("rule", "agent")
)
SCRATCH = 1  # record
PHYSICS = ("all", "none", "memory,preemption", "estimates")
FEWER = 20  # jobs, where every action of every choice is tried


def may_start(env: GPUClusterEnv, job: int, rule: int) -> bool:
    """Return whether the episode allows a queued job to start under a placement rule."""
    usual, env.episode.state.placement = env.episode.state.placement, rule
    placement = env.episode.view.place(job)
    env.episode.state.placement = usual
    return placement is not None and env.episode.why_not(Start(job, placement)) is None


def claim_is_pending(env: GPUClusterEnv) -> bool:
    """Return whether a job that does not pause holds a GPU that is reserved for another one."""
    view = env.episode.view
    reserved = np.flatnonzero(view.gpus.reserved_for >= 0).tolist()
    held = {gpu: job for job in (*view.running, *view.loading) for gpu in view.gpus_of(int(job))}
    return any(held.get(gpu, view.gpus.reserved_for[gpu]) != view.gpus.reserved_for[gpu] for gpu in reserved)


def may_claim(env: GPUClusterEnv, job: int) -> bool:
    """Return whether the episode allows a queued job of several GPUs to claim some, and no claim is pending."""
    narrow = env.episode.view.jobs.num_gpus[job] < 2
    placement = None if narrow or claim_is_pending(env) else env.episode.view.place_claim(job)
    return placement is not None and env.episode.why_not(Start(job, placement, claim=True)) is None


def may_pause(env: GPUClusterEnv, job: int) -> bool:
    """Return whether the episode allows a pause, which an agent may make after a minute and if a job waits for GPUs."""
    view = env.episode.view
    waits = len(view.queue) > 0 or claim_is_pending(env)
    lately = view.now - view.jobs.phase_began_s[job] < MIN_RUN_S
    return waits and not lately and env.episode.why_not(Preempt(job)) is None


def may_pick(env: GPUClusterEnv, job: int) -> bool:
    """Return whether a job can be picked, by trying it on a copy of the episode."""
    states = env.episode.states
    states[SCRATCH] = states[0]
    picked = bool(calls.pick(states, SCRATCH, env.episode.jobs, job))
    assert legality.check(states, SCRATCH, env.episode.jobs) == 0
    phase = states["phase"][:, job]
    assert picked != (phase[SCRATCH] == phase[0])
    return picked


def legal(env: GPUClusterEnv, kind: dict[str, str]) -> list[bool]:
    """Return the legal actions, found without the mask; slots hold all jobs."""
    queue, running = env.queue.tolist(), env.running.tolist()
    assert sorted(queue)[queue.count(-1) :] == env.episode.view.queue.tolist()
    shown = [job for job in running if job >= 0]
    assert sorted(shown[: len(env.episode.view.running)]) == env.episode.view.running.tolist()
    assert not set(shown) & set(queue)
    rules = RULES if kind["placed_by"] == "agent" else [env.episode.state.placement]
    if kind["victims_by"] == "rule":
        moves = [job >= 0 and may_pick(env, job) for job in queue for _ in rules]
    else:
        claims = [job >= 0 and may_claim(env, job) for job in queue]
        moves = [
            may or (job >= 0 and may_start(env, job, rule))
            for job, may in zip(queue, claims, strict=True)
            for rule in rules
        ]
        moves += [job >= 0 and may_pause(env, job) for job in running]
    return [*moves, env.episode.why_not(Wait()) is None]


@pytest.mark.parametrize("physics", PHYSICS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind.values()))
def test_the_mask_has_the_actions_that_the_episode_allows(
    kind: dict[str, str], physics: str, tmp_path: Path
) -> None:
    env = tiny.make(tiny.scenario(tmp_path, physics=physics), **kind, observation="tables")
    for seen in tiny.wander(env):
        assert seen.mask.dtype == bool
        assert seen.mask.tolist() == legal(env, kind)


@pytest.mark.parametrize("physics", ["all", "none"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind.values()))
def test_masked_actions_raise_and_change_nothing(kind: dict[str, str], physics: str, tmp_path: Path) -> None:
    env = tiny.make(tiny.scenario(tmp_path, tiny.jobs(FEWER), physics=physics), **kind)
    for seen in tiny.wander(env):
        if env.episode.done:
            break
        before = env.episode.states.tobytes()
        for action in np.flatnonzero(~seen.mask):
            with pytest.raises(ValueError, match=f"action {action} is illegal now"):
                env.step(action)
        for beyond in (-1, len(seen.mask)):
            with pytest.raises(
                ValueError, match=f"{beyond} does not exist: choose one of 0 to {len(seen.mask) - 1}"
            ):
                env.step(beyond)
        assert env.episode.states.tobytes() == before
        assert tiny.bits(env.action_masks()) == tiny.bits(seen.mask)


@pytest.mark.parametrize("when_full", ["claim", "displace", "wait"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind.values()))
def test_each_illegal_action_has_a_reason_and_no_legal_one(
    kind: dict[str, str], when_full: str, tmp_path: Path
) -> None:
    env = tiny.make(tiny.scenario(tmp_path, tiny.jobs(FEWER)), **kind, when_full=when_full)
    for seen in tiny.wander(env):
        if env.episode.done:
            break
        before = env.episode.states.tobytes()
        reasons = [env.why_not(action) for action in range(len(seen.mask))]
        assert [reason is None for reason in reasons] == seen.mask.tolist()
        assert env.episode.states.tobytes() == before


def test_the_reason_of_an_illegal_action_by_hand(tmp_path: Path) -> None:
    """Jobs of 8 and 6 GPUs fill one node and most of the other; the next, of 4, claims GPUs, so another may not."""
    table = tiny.jobs(5).assign(submit_s=0.0, num_gpus=[8, 6, 4, 4, 1], duration_s=100.0, cpu_cores=1.0)
    chosen = tiny.scenario(tmp_path, table, cluster="2x8", physics="none")
    env: Any = gymnasium.make("GPUCluster-v2", scenario=chosen, illegal="raise").unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.why_not(0)
    env.reset()
    wait = env.action_space.n - 1
    assert env.why_not(0) is None
    assert env.why_not(5) == "queue slot 5 is empty: 5 of 64 hold a job"
    assert env.why_not(wait) == "no event is pending, so that waiting would never end: choose another action"
    env.step(0)
    assert env.why_not(64) == "job 0 cannot be paused: it was started at this very instant"
    env.step(0)
    env.step(0)  # job 2 claims GPUs
    said = "job 3 does not fit (GPUs requested: 4, free: 2, free on one node: 2), and job 2 has a claim"
    assert env.why_not(0).startswith(said)
    with pytest.raises(ValueError, match=re.escape(f"action 0 is illegal now ({said}")):
        env.step(0)
    while not (env.batch.over[0]):
        env.step(int(env.action_masks().argmax()))
    assert env.why_not(0) == "the episode has ended: call reset"


def test_a_warning_says_why_an_action_is_illegal(tmp_path: Path) -> None:
    env = gymnasium.make("GPUCluster-v2", scenario=tiny.scenario(tmp_path, tiny.jobs(4))).unwrapped
    env.reset()
    with pytest.warns(UserWarning, match=r"action 63 is illegal now \(queue slot 63 is empty"):
        env.step(63)


@pytest.mark.parametrize("physics", ["all", "none"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind.values()))
def test_unmasked_actions_do_not_raise(kind: dict[str, str], physics: str, tmp_path: Path) -> None:
    env = tiny.make(tiny.scenario(tmp_path, tiny.jobs(FEWER), physics=physics), **kind)
    for seen in tiny.wander(env):
        before = env.episode.states.copy()
        for action in np.flatnonzero(seen.mask):
            env.step(action)
            assert legality.check(env.episode.states, 0, env.episode.jobs) == 0
            assert env.episode.states[0].tobytes() != before[0].tobytes() or env.episode.done
            env.episode.states[:] = before
            env.batch.refresh(0)
        assert tiny.bits(env.action_masks()) == tiny.bits(seen.mask)


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("physics", ["all", "none"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind.values()))
def test_one_action_is_always_legal(kind: dict[str, str], physics: str, slots: int, tmp_path: Path) -> None:
    chosen = tiny.scenario(tmp_path, physics=physics)
    env = tiny.make(chosen, **kind, queue_slots=slots, running_slots=slots)
    for seed in range(2):
        assert all(seen.mask.any() for seen in tiny.wander(env, seed))
        assert env.episode.done


def test_time_passes_if_only_unseen_jobs_could_start(tmp_path: Path) -> None:
    """A runs 0-100 on the only GPU and is paused for free; only A is shown, and it cannot restart at this instant."""
    table = tiny.jobs(3).assign(submit_s=[0.0, 0.0, 100.0], num_gpus=1, duration_s=[1000.0, 2000.0, 3000.0])
    chosen = tiny.scenario(tmp_path, table, physics="none", cluster="1x1")
    env = tiny.make(chosen, queue_slots=1, running_slots=1, placed_by="agent", victims_by="agent")
    env.reset(seed=0)
    start, pause = 0, 3
    env.step(start)
    instant = env.episode.view.instant
    assert env.episode.view.now == 100
    env.step(pause)
    assert (env.episode.view.now, env.episode.view.instant) == (100, instant + 1)
    assert env.action_masks()[start]
    assert env.queue.tolist() == [0]


def test_sampled_actions_are_legal(tmp_path: Path) -> None:
    env = tiny.make(tiny.scenario(tmp_path))
    for seen in tiny.wander(env):
        drawn = {int(env.action_space.sample()) for _ in range(50)}
        assert drawn <= set(np.flatnonzero(seen.mask).tolist())


def test_actions_sampled_after_seeding_are_legal_at_the_start(tmp_path: Path) -> None:
    """Gymnasium's checkers seed, sample, and only then reset."""
    table = tiny.jobs(8 * tiny.COUNT)
    env = tiny.make(
        tiny.scenario(tmp_path, table, full_trace=False, all_windows=True, jobs=tiny.COUNT), count=4
    )
    for window in range(4):
        env.reset(options={"window": window})
    for _ in range(20):
        env.step(env.action_space.sample())
    for seed in range(50):
        env.action_space.seed(seed)
        assert env.action_masks()[first := env.action_space.sample()]
        assert env.action_space.opening[first]


def test_a_mask_of_ones_own_may_be_sampled(tmp_path: Path) -> None:
    env = tiny.make(tiny.scenario(tmp_path))
    env.reset(seed=0)
    only = np.zeros(len(env.action_masks()), np.int8)
    only[7] = 1
    assert env.action_space.sample(mask=only) == 7
    assert env.action_space.sample(probability=only.astype(float)) == 7
