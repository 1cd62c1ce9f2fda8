"""Whatever a policy does, an agent can do through the environment, step by step, with the same results table."""

from pathlib import Path
from typing import Any

import pytest
from pandas.testing import assert_frame_equal

import baselines
from envs.actions.elastic import CORE, LEVEL, TURNS, Elastic
from envs.env import GPUClusterEnv
from envs.episode import discipline_of, run
from envs.policy import Action, Policy, Preempt, Ranking, Resize, Start, Throttle, Wait
from tests import tiny

PHYSICS = ("all", "none", "memory,preemption,estimates", "sharing,cpu_jobs")


def steps(env: GPUClusterEnv, action: Action) -> list[int]:
    """Return the small steps that make up an action of a policy."""
    slots, view = env._slots, env.episode.view
    at = Elastic().numbers(slots, view)
    queue, running = slots.queue.tolist(), slots.running.tolist()
    match action:
        case Start(job, placement):
            wanted = 0 if placement.cores is None else round((placement.cores - view.cores[job]) / CORE)
            cores = [at.cores + (wanted > 0)] * abs(wanted)
            node = [] if placement.node is None else [at.nodes + placement.node]
            return [queue.index(job), *cores, *(at.gpus + gpu for gpu in placement.gpus), *node]
        case Preempt(job):
            return [at.pause + running.index(job)]
        case Resize(job, cores):
            count = round((cores - view.cores_now[job]) / CORE)
            kind = TURNS.index((Resize, 1 if count > 0 else -1))
        case Throttle(job, level):
            count = round((level - view.throttle[job]) / LEVEL)
            kind = TURNS.index((Throttle, 1 if count > 0 else -1))
        case Wait(seconds):
            return [at.wait + Elastic.waits.index(seconds)]
    return [at.turn + kind * len(running) + running.index(job)] * abs(count)


def played(env: GPUClusterEnv, policy: Policy) -> Any:
    """Let a policy act through the environment and return the results table."""
    env.reset(options={"window": 0})
    if isinstance(policy, Ranking):
        env.episode.set_levels(policy.levels)
        env.episode.state.discipline = discipline_of(policy, env.episode.discipline)
    over = False
    while not over:
        action = policy(env.episode.view)
        for number in steps(env, action):
            _, _, over, truncated, _ = env.step(number)
            assert not truncated
    return env.results()


def directly(env: GPUClusterEnv, policy: Policy) -> Any:
    """Return the results of a policy that runs straight on the episode, asked at the same instants."""
    episode = env.workload.episode()
    return env.workload.results(run(policy, episode, step_by_step=True))


@pytest.mark.parametrize("physics", PHYSICS)
@pytest.mark.parametrize("name", baselines.names())
def test_every_policy_is_played_step_by_step(name: str, physics: str, tmp_path: Path) -> None:
    chosen = tiny.scenario(tmp_path, tiny.mixed(0), physics=physics)
    env = tiny.make(chosen, action="elastic", tau_s=None)
    found = baselines.load(name)
    assert_frame_equal(
        played(env, baselines.make(found)), directly(env, baselines.make(found)), check_exact=True
    )
