"""Whatever a policy does, an agent can do through the environment, step by step, with the same results table."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from pandas.testing import assert_frame_equal

from gpu_cluster_gym import baselines
from gpu_cluster_gym.envs.actions._room import asked_cores, next_cores, shape_of
from gpu_cluster_gym.envs.actions.elastic import CHANGES, LEVEL, TURNS, WINDOW_S, Elastic, Numbers
from gpu_cluster_gym.envs.env import GPUClusterEnv
from gpu_cluster_gym.envs.slots import Shape
from gpu_cluster_gym.simulator.episode import Episode, asking, discipline_of, run
from gpu_cluster_gym.simulator.policy import (
    Action,
    Placement,
    Policy,
    Preempt,
    Ranking,
    Resize,
    Start,
    Throttle,
    Wait,
)
from gpu_cluster_gym.simulator.view import View
from tests.cases import tiny
from tests.cases.shaped_jobs import TROUBLES, Whims, shaped
from tests.cases.turns import in_turn

JOBS = 8  # each takes many small steps
LESS = ("none", "memory,preemption,estimates", "sharing,cpu_jobs")


class NoSuchCores(Exception):  # noqa: N818 - nothing went wrong
    """Steps are of whole cores."""


def steps(env: GPUClusterEnv, action: Action) -> list[int]:
    """Return the small steps that make up an action of a policy."""
    slots, view = env._slots, env.episode.view
    at = Elastic().numbers(slots, view)
    queue, running = slots.queue.tolist(), slots.running.tolist()
    match action:
        case Start(job, placement):
            return [queue.index(job), *begun(env.episode, at, job, placement)]
        case Resize(job, None, Placement() as placement):
            return [at.move + running.index(job), *composed(view, at, job, placement)]
        case Preempt(job):
            return [at.pause + running.index(job)]
        case Resize(job, cores):
            shape = shape_of(view, job)
            asked = asked_cores(view, job, shape)
            way, count = towards(float(view.jobs.cores_now[job]), asked, shape, float(cores or 0))
            kind = TURNS.index((Resize, way))
        case Throttle(job, level):
            count = round((level - view.jobs.throttle[job]) / LEVEL)
            kind = TURNS.index((Throttle, 1 if count > 0 else -1))
        case Wait(None):
            return [at.wait]
        case Wait(float(seconds)):  # in small steps: who waits for several minutes says so again after one
            assert seconds == pytest.approx(WINDOW_S * round(seconds / WINDOW_S), abs=1e-6)
            return [at.wait + Elastic.waits.index(WINDOW_S)]
    return [at.turn + kind * len(running) + running.index(job)] * abs(count)


def begun(episode: Episode, at: Numbers, job: int, placement: Placement) -> list[int]:
    """Return the steps of a start, which leave its cores open where only that comes to the very same.

    A ranking tells the cores that a job will get: where fewer are left than it asks for, any fraction of what is left.
    """
    try:
        return composed(episode.view, at, job, placement)
    except NoSuchCores:
        left_open = placement._replace(cores=None)
        assert started(episode, job, left_open) == started(episode, job, placement)
        return composed(episode.view, at, job, left_open)


def started(episode: Episode, job: int, placement: Placement) -> bytes:
    """Return the state after a start, which is not carried out."""
    copy = deepcopy(episode)
    copy.apply(Start(job, placement))
    return copy.states.tobytes()


def composed(view: View, at: Numbers, job: int, placement: Placement) -> list[int]:
    """Return the steps from the shape that a job has to all that a placement says."""
    now, then = shape_of(view, job), shape_in(view, job, placement)
    if then.on_cores:
        now = now._replace(apart=False)  # as workers go onto cores so do servers
    changes = []
    for field, here, there in zip(Shape._fields, now, then, strict=True):
        if more := int(there) - int(here):
            changes += [at.change + CHANGES.index((field, 1 if more > 0 else -1))] * abs(more)
    if placement.cores is not None:
        asked = asked_cores(view, job, then)
        way, count = towards(asked, asked, then, placement.cores)
        changes += [at.change + CHANGES.index(("cores", way))] * count
    node = [] if placement.node is None else [at.nodes + placement.node]
    return [*changes, *(at.gpus + gpu for gpu in placement.gpus), *node]


def shape_in(view: View, job: int, placement: Placement) -> Shape:
    """Return the shape that a placement gives to a job."""
    gpus, asked = len(placement.gpus), int(view.jobs.num_gpus[job])
    workers = placement.workers or gpus or asked
    servers = int(view.jobs.servers[job]) if placement.servers is None else placement.servers
    return Shape(workers, servers, on_cores=gpus == 0, apart=gpus > workers)


def towards(now: float, asked: float, shape: Shape, cores: float) -> tuple[int, int]:
    """Return the direction, and how many steps, in which a number of cores becomes another."""
    way, count = (1 if cores > now else -1), 0
    while way * (cores - now) > 1e-6:
        now, count = next_cores(now, asked, shape, way), count + 1
    if abs(now - cores) > 1e-6:
        raise NoSuchCores(f"steps do not come to {cores:g} cores where {asked:g} are asked for")
    return way, count


def played(env: GPUClusterEnv, policy: Policy) -> Any:
    """Let a policy act through the environment and return the results table."""
    env.reset(options={"window": 0})
    if isinstance(policy, Ranking):
        env.episode.set_levels(policy.levels)
        env.episode.state.discipline = discipline_of(policy, env.episode.discipline)
    over = False
    while not over:
        action = asking(policy, env.episode)()
        for number in steps(env, action):
            _, _, over, truncated, _ = env.step(number)
            assert not truncated
    return env.results()


def directly(env: GPUClusterEnv, policy: Policy) -> Any:
    """Return the results of a policy that runs straight on the episode, asked at the same instants."""
    episode = env.workload.episode()
    return env.workload.results(run(policy, episode, step_by_step=True, oracle=True))


@pytest.mark.parametrize(
    ("name", "physics"), [*((name, "all") for name in baselines.names()), *in_turn(LESS)]
)
def test_every_policy_is_played_step_by_step(name: str, physics: str, tmp_path: Path) -> None:
    chosen = tiny.scenario(tmp_path, tiny.mixed(0)[:JOBS], physics=physics)
    env = tiny.make(chosen, action="elastic", tau_s=None)
    found = baselines.load(name)
    assert_frame_equal(
        played(env, baselines.make(found)), directly(env, baselines.make(found)), check_exact=True
    )


@pytest.mark.parametrize("name", baselines.names())
def test_so_it_is_where_jobs_have_shapes_and_nodes_fail(name: str, tmp_path: Path) -> None:
    env = tiny.make(
        tiny.scenario(tmp_path, shaped(0)[:JOBS], physics="all", **TROUBLES), action="elastic", tau_s=None
    )
    found = baselines.load(name)
    assert_frame_equal(
        played(env, baselines.make(found)), directly(env, baselines.make(found)), check_exact=True
    )


@pytest.mark.parametrize("seed", range(2))
def test_so_it_is_whatever_shapes_a_policy_chooses(seed: int, tmp_path: Path) -> None:
    chosen = tiny.scenario(tmp_path, shaped(seed), physics="all", seed=seed, **TROUBLES)
    env = tiny.make(chosen, action="elastic", tau_s=None)
    whims, same_whims = Whims(seed), Whims(seed)
    results = played(env, whims)
    assert_frame_equal(results, directly(env, same_whims), check_exact=True)
    assert results["resizes"].sum() > 5
