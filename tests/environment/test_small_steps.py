"""The elastic actions: each small step is legal exactly where what it leads to can be completed."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from itertools import combinations, islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym.envs.actions._room import asked_cores, shape_of, whole_action
from gpu_cluster_gym.envs.actions.elastic import CHANGES, TURNS, Elastic, turned
from gpu_cluster_gym.envs.env import GPUClusterEnv
from gpu_cluster_gym.envs.slots import PartialAction, Shape
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SERVERS, SERVER_CORES
from gpu_cluster_gym.simulator.policy import Preempt, Wait
from gpu_cluster_gym.simulator.view import View
from tests.cases import tiny
from tests.cases.shaped_jobs import TROUBLES, shaped

CORES = 8  # of the larger node
TIGHT = TROUBLES | {"cluster": f"1x3-{CORES}c+1x2-k80-6c"}
PHYSICS = ("all", "elastic", "sharing,cores,elastic", "sharing,cpu_jobs", "none")


def restless(
    folder: Path, seed: int, steps: int, physics: str = "all", **fields: Any
) -> tuple[GPUClusterEnv, Iterator[tiny.Seen]]:
    """Return an environment with small nodes and jobs of many shapes, and some random steps in it."""
    chosen = tiny.scenario(folder, shaped(seed), physics=physics, seed=seed, **TIGHT, **fields)
    env = tiny.make(chosen, action="elastic", tau_s=None, observation="elastic")
    return env, islice(tiny.wander(env, seed), steps)


def after(partial: PartialAction, field: str, way: int, view: View) -> PartialAction | None:
    """Return the partial action after a change; None where it was settled, or would go back."""
    ways = partial.ways | {field: way}
    settled = partial.gpus or "cores" in partial.ways or view.jobs.is_cpu_job[partial.job]
    if partial.gpus or partial.ways.get(field, way) != way or (settled and field != "cores"):
        return None
    if field == "cores":
        if not view.cpu_limited:
            return None
        now = partial.cores or asked_cores(view, partial.job, partial.shape)
        own = now - servers_of(partial.shape)
        whole = np.floor(own + 1e-9) + 1 if way > 0 else np.ceil(own - 1e-9) - 1
        return replace(partial, cores=float(whole) + servers_of(partial.shape), ways=ways)
    now = getattr(partial.shape, field)
    if isinstance(now, bool) and now == (way > 0):
        return None
    shape = partial.shape._replace(**{field: way > 0 if isinstance(now, bool) else now + way})
    if field == "apart" and (shape.on_cores or not shape.servers):
        return None
    return replace(partial, shape=shape._replace(apart=shape.apart and not shape.on_cores), ways=ways)


def servers_of(shape: Shape) -> float:
    """Return the cores that servers have beside each GPU."""
    return SERVER_CORES * shape.servers / shape.gpus if shape.gpus == shape.workers > 0 else 0.0


def agrees(then: Shape, partial: PartialAction) -> bool:
    """Tell whether a shape can still become of the partial action."""
    if partial.gpus or "cores" in partial.ways:
        return then == partial.shape
    pairs = zip(Shape._fields, then, partial.shape, strict=True)
    right = {field: partial.ways.get(field, 0) * (int(value) - int(now)) >= 0 for field, value, now in pairs}
    return all(right[field] for field in Shape._fields if field != "apart" or not then.on_cores)


def wholes(partial: PartialAction, view: View) -> Iterator[PartialAction]:
    """Yield all that the partial action can become, legal or not."""
    job, gpus = partial.job, len(view.gpus.first_owner)
    workers = range(int(view.jobs.min_workers[job]), int(view.jobs.max_workers[job]) + 1)
    servers = range(1, MAX_SERVERS + 1) if view.jobs.servers[job] else [0]
    ways = [Shape(*shape) for shape in product(workers, servers, (False, True), (False, True))]
    if view.jobs.is_cpu_job[job]:
        ways = [partial.shape]
    for shape in ways:
        if (
            not agrees(shape, partial)
            or shape.gpus > gpus
            or (shape.apart and (shape.on_cores or not shape.servers))
        ):
            continue
        some = (servers_of(shape) + number for number in range(1, CORES + 1))
        for cores in (None, *(number for number in some if number <= CORES)):
            turned_so = partial.ways.get("cores", 0)
            if partial.gpus and cores != partial.cores:
                continue
            if turned_so and (cores is None or turned_so * (cores - (partial.cores or 0)) < 0):
                continue
            rest = [gpu for gpu in range(gpus) if gpu not in partial.gpus]
            for more in combinations(rest, shape.gpus - len(partial.gpus)):
                yield replace(partial, shape=shape, cores=cores, gpus=[*partial.gpus, *more])


def possible(partial: PartialAction, view: View) -> bool:
    """Try all that the partial action can become."""
    nodes = range(len(view.nodes.num_gpus))
    return any(
        view.why_not(whole_action(whole, node)) is None
        for whole in wholes(partial, view)
        for node in ([None] if whole.gpus else nodes)
    )


def expected(env: GPUClusterEnv) -> list[bool]:
    """Return what is legal now, found without the mask, but for pauses, turns and waits."""
    slots, view = env._slots, env.episode.view
    partial, nodes, gpus = slots.partial, range(len(view.nodes.num_gpus)), range(len(view.gpus.first_owner))
    if partial.job < 0:
        fresh = [
            [
                job >= 0
                and job not in partial.dropped
                and possible(PartialAction(job, moves, shape_of(view, job)), view)
                for job in jobs
            ]
            for moves, jobs in ((False, slots.queue.tolist()), (True, slots.running.tolist()))
        ]
        return [*fresh[0], False, *[False] * (len(CHANGES) + len(gpus) + len(nodes)), *fresh[1]]
    changes = [after(partial, *change, view) for change in CHANGES]
    named = [replace(partial, gpus=[*partial.gpus, gpu]) for gpu in gpus if partial.shape.gpus]
    return [
        *[False] * len(slots.queue),
        True,
        *[changed is not None and possible(changed, view) for changed in changes],
        *(
            [gpu not in partial.gpus and possible(named[gpu], view) for gpu in gpus]
            if named
            else [False] * len(gpus)
        ),
        *[not named and view.why_not(whole_action(partial, node)) is None for node in nodes],
        *[False] * len(slots.running),
    ]


@pytest.mark.parametrize("physics", PHYSICS)
def test_a_step_is_legal_where_what_it_leads_to_can_be_completed(physics: str, tmp_path: Path) -> None:
    env, seen = restless(tmp_path, PHYSICS.index(physics), 70, physics)
    for mask in (step.mask for step in seen):
        at = Elastic().numbers(env._slots, env.episode.view)
        assert [*mask[: at.pause], *mask[at.move : at.turn]] == expected(env), env._slots.partial


@pytest.mark.parametrize("physics", PHYSICS)
def test_pauses_turns_and_waits_are_masked_as_the_episode_allows(physics: str, tmp_path: Path) -> None:
    """In hand there is nothing but the next step, and to wait; what was turned one way is not turned back."""
    env, seen = restless(tmp_path, 1, 100, physics)
    for mask in (step.mask for step in seen):
        slots, view = env._slots, env.episode.view
        at, running = Elastic().numbers(slots, view), slots.running.tolist()
        free = slots.partial.job < 0
        pauses = [free and job >= 0 and view.why_not(Preempt(job)) is None for job in running]
        ways = [(*turn, job) for turn in TURNS for job in running]
        turns = [
            free
            and job >= 0
            and slots.partial.turned.get((kind, job), way) == way
            and view.why_not(turned(view, job, kind, way)) is None
            for kind, way, job in ways
        ]
        waits = [view.why_not(Wait(seconds)) is None for seconds in Elastic.waits]
        assert [*mask[at.pause : at.move], *mask[at.turn :]] == [*pauses, *turns, *waits]


@pytest.mark.parametrize("physics", PHYSICS)
def test_what_is_masked_raises_and_changes_nothing_and_the_rest_does_not(
    physics: str, tmp_path: Path
) -> None:
    env, seen = restless(tmp_path, 5, 40, physics)
    for mask in (step.mask for step in seen):
        before, partial = env.episode.states.tobytes(), deepcopy(env._slots.partial)
        for number in np.flatnonzero(~mask):
            with pytest.raises(ValueError, match=f"action {number} is illegal now"):
                env.step(number)
        assert env.episode.states.tobytes() == before
        assert env._slots.partial == partial
        assert legality.check(env.episode.states, 0, env.episode.jobs) == 0


def test_random_steps_come_to_an_end(tmp_path: Path) -> None:
    """An instant has no end of steps only if something can be done again and again at it."""
    env, seen = restless(tmp_path, 3, 900)
    counts: dict[int, int] = {}
    for step in seen:
        assert step.observation in env.observation_space
        counts[env.episode.view.instant] = counts.get(env.episode.view.instant, 0) + 1
    assert len(counts) > 50
    assert max(counts.values()) < 500


def test_rigid_jobs_have_no_shapes_to_choose_from(tmp_path: Path) -> None:
    """The actions are the same in number, and none that changes a shape is ever legal."""
    sizes = set()
    for physics in ("all", "none"):
        env, seen = restless(tmp_path, 0, 150, physics)
        masks = np.stack([step.mask for step in seen])
        at = Elastic().numbers(env._slots, env.episode.view)
        sizes.add(masks.shape[1])
        shapes = [at.change + number for number, (field, _) in enumerate(CHANGES) if field != "cores"]
        assert masks[:, shapes].any() == (physics == "all")
    assert len(sizes) == 1
