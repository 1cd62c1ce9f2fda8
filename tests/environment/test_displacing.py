"""Starts that displace running jobs: which are legal, found without the mask, and what they do."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.envs.env import GPUClusterEnv
from gpu_cluster_gym.simulator.policy import Preempt
from tests.cases import tiny

MIN_RUN_S = 60.0
KEYWORDS = {"victims_by": "agent", "when_full": "displace", "min_run_s": MIN_RUN_S, "observation": "sets"}
GPUS = 8  # of each node


def obtainable(env: GPUClusterEnv, *, by_pauses: bool) -> list[list[int]]:
    """Return the GPUs of each node that are free; with `by_pauses`, also those of jobs that pause or may be paused."""
    view = env.episode.view
    able = [job for job in view.running.tolist() if may_be_paused(env, job)] if by_pauses else []
    pausing = view.pausing.tolist() if by_pauses else []
    found: list[list[int]] = [[] for _ in view.nodes.cores]
    for gpu, node in enumerate(view.gpus.node.tolist()):
        holders = [
            job
            for job in (*view.running, *view.loading, *view.pausing)
            if gpu in list(view.gpus_of(int(job)))
        ]
        if view.gpus.reserved_for[gpu] == -1 and len(holders) <= 1 and set(holders) <= {*able, *pausing}:
            found[node].append(gpu)
    return found


def may_be_paused(env: GPUClusterEnv, job: int) -> bool:
    view = env.episode.view
    return view.now - view.jobs.phase_began_s[job] >= MIN_RUN_S and env.episode.why_not(Preempt(job)) is None


def enough(env: GPUClusterEnv, job: int, rooms: list[list[int]]) -> bool:
    """Return whether a job has its GPUs on one node, or a gang whole nodes and the rest on one more."""
    wanted = int(env.episode.view.jobs.num_gpus[job])
    able = env.episode.view.can_hold(job)
    rooms_left = sorted(len(room) for room, holds in zip(rooms, able, strict=True) if holds)
    while wanted > GPUS and rooms_left and rooms_left[-1] == GPUS:
        wanted -= rooms_left.pop()
    return bool(rooms_left) and wanted <= rooms_left[-1]


def legal_starts(env: GPUClusterEnv) -> list[bool]:
    """Return whether each queued job can start, at once or by displacing."""
    view = env.episode.view
    free, all_rooms = (obtainable(env, by_pauses=by_pauses) for by_pauses in (False, True))
    found = []
    for job in env.queue.tolist():
        displaces = (
            job >= 0
            and not view.just_paused(job)
            and view.jobs.num_gpus[job] > 0
            and enough(env, job, all_rooms)
            and not enough(env, job, free)
        )
        found.append(job >= 0 and (displaces or (not view.just_paused(job) and view.place(job) is not None)))
    return found


def legal_victims(env: GPUClusterEnv, starter: int, chosen: list[int]) -> list[bool]:
    """Return which running slots hold a job that may be the next victim."""
    view = env.episode.view
    wanted, rooms = int(view.jobs.num_gpus[starter]), obtainable(env, by_pauses=True)
    able = view.can_hold(starter)
    nodes = {n for n, room in enumerate(rooms) if able[n] and (wanted > GPUS or len(room) >= wanted)}
    if wanted <= GPUS and chosen:
        nodes = {min(n for n in nodes if held_on(env, chosen[0], n))}
    return [
        job >= 0
        and job not in chosen
        and may_be_paused(env, job)
        and any(set(view.gpus_of(job)) & set(rooms[n]) for n in nodes)
        for job in env.running.tolist()
    ]


def held_on(env: GPUClusterEnv, job: int, node: int) -> bool:
    view = env.episode.view
    return any(view.gpus.node[gpu] == node for gpu in view.gpus_of(job))


@pytest.mark.parametrize("physics", ["exclusive", "none", "all"])
def test_a_start_that_does_not_fit_displaces_the_chosen_jobs(physics: str, tmp_path: Path) -> None:
    displaced, gangs, several = 0, 0, 0
    for seed in range(3):
        env = tiny.make(tiny.scenario(tmp_path, tiny.jobs(seed=seed), physics=physics), **KEYWORDS)
        rng = np.random.default_rng(seed)
        _, info = env.reset(seed=0)
        over, starter, chosen = False, -1, list[int]()
        while not over:
            mask = info["action_mask"].astype(bool)
            slots = len(env.queue)
            if starter < 0:
                assert mask[:slots].tolist() == legal_starts(env)
                assert not mask[slots:-1].any(), "nothing pauses on its own"
            else:
                assert not mask[:slots].any()
                assert not mask[-1]
                assert mask[slots:-1].tolist() == legal_victims(env, starter, chosen)
            action = int(rng.choice(np.flatnonzero(mask)))
            job = int(np.append(env.batch.listed[0], -1)[action])
            began = env.episode.view.now
            before = env.episode.state.preemptions.copy()
            fits = action < slots and env.episode.view.place(job) is not None
            _, _, over, truncated, info = env.step(action)
            assert not truncated
            if action < slots and not fits:
                starter, chosen = job, []
            elif starter >= 0:
                chosen.append(job)
            if starter >= 0 and (over or starter not in env.queue.tolist()):
                paused = np.flatnonzero(env.episode.state.preemptions > before)
                assert sorted(chosen) == paused.tolist(), "all victims pause together"
                displaced += len(chosen) > 0
                several += len(chosen) > 1
                gangs += env.episode.view.jobs.num_gpus[starter] > GPUS
                starter, chosen = -1, []
            elif starter >= 0:
                assert (env.episode.state.preemptions == before).all()
                assert env.episode.view.now == began, "victims are chosen at one instant"
        env.results()
    assert displaced > 20
    assert several > 5
    assert gangs > 0


def test_by_hand(tmp_path: Path) -> None:
    """A holds all GPUs from 0 s; B arrives at 100 s and displaces A, which pauses for 10 s; no job has a start-up."""
    table = tiny.jobs(2).assign(
        submit_s=[0.0, 100.0],
        num_gpus=[8, 4],
        duration_s=[500.0, 50.0],
        cpu_cores=[8, 4],
        pause_s=[10.0, 1.0],
        load_s=[20.0, 2.0],
        predictable_from=[1.0, 1.0],
    )
    env = tiny.make(
        tiny.scenario(tmp_path, table, cluster="1x8", physics="exclusive"),
        queue_slots=2,
        running_slots=2,
        **KEYWORDS,
    )
    _, info = env.reset(seed=0)
    masks = []
    for action in (0, 0, 2):  # start A; choose B, at 100 s; pause A
        masks.append(info["action_mask"].tolist())
        _, _, over, _, info = env.step(action)
    assert masks == [[1, 0, 0, 0, 1], [1, 0, 0, 0, 1], [0, 0, 1, 0, 0]]
    while not over:
        _, _, over, _, info = env.step(int(np.flatnonzero(info["action_mask"])[0]))
    found: pd.DataFrame = env.results()
    assert found["finish_s"].tolist()[1] == 100.0 + 10.0 + 50.0
    assert found["preemptions"].tolist() == [1, 0]
