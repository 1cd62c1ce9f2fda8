"""`--init-from srtf`: the network imitates a teacher that sees what it sees, and PPO goes on from there."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from stable_baselines3.common.logger import configure

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents.imitation import ImitationFirst, shortest_first
from gpu_cluster_gym.agents.learn import learner_of
from gpu_cluster_gym.agents.plain import PlainLearner, play
from gpu_cluster_gym.agents.set_network import SetNetwork
from gpu_cluster_gym.agents.training import PlainTraining
from gpu_cluster_gym.agents.vec_env import batch
from gpu_cluster_gym.envs.windows import shared_windows
from gpu_cluster_gym.evaluation.comparison import compare
from gpu_cluster_gym.evaluation.metrics import summarise
from gpu_cluster_gym.evaluation.runner import simulate
from gpu_cluster_gym.simulator.kernel.slots.features import (
    CLAIM,
    GPUS,
    IS_LEGAL,
    MAY_PAUSE,
    NUM_RUNNING,
    PRESENT,
    QUEUE_FEATURES,
    REMAINING,
    RUNNING_GPUS,
    RUNNING_REMAINING,
    TOTALS,
)
from gpu_cluster_gym.workloads import named

FEW = PlainTraining(
    init_from="srtf", windows=8, validation_windows=4, num_envs=16, n_steps=32, learning_seed=0
)
SCENARIO = FEW.practice(named("philly"))
WAIT = 4
"""The last action, after two slots of each kind."""


class Teacher:
    """The teacher in the place of a network."""

    slots = FEW.queue_slots

    def observing(self, slots: int) -> "Teacher":
        """Return the teacher for the same number of slots."""
        assert slots == self.slots
        return self

    def choose(self, seen: torch.Tensor, generator: torch.Generator | None = None) -> torch.Tensor:
        """Return its actions."""
        return torch.tensor([shortest_first(each, self.slots, 32) for each in seen.numpy()])


@pytest.fixture(scope="module")
def learner() -> PlainLearner:
    """Return the learner of an imitating agent."""
    found = learner_of(SCENARIO, FEW)
    assert isinstance(found, PlainLearner)
    return found


def test_the_teacher_is_like_srtf() -> None:
    """By mean JCT, although it sees the slots only and pauses no job within half an hour."""
    envs = batch(4, SCENARIO, **FEW.environment(), split="validation", count=4)
    table, _ = play(envs, Teacher(), None)  # type: ignore[arg-type]
    by_teacher = summarise(table, gpus=32)
    others = {name: by_policy(name) for name in ("srtf", "fifo")}
    assert compare(by_teacher, others["srtf"]).ratio == pytest.approx(1.0, abs=0.05)
    assert compare(by_teacher, others["fifo"]).ratio < 0.8


def by_policy(name: str) -> pd.DataFrame:
    """Return a summary of the same windows under a policy."""
    workloads = shared_windows(SCENARIO, "validation", 4)
    return summarise(
        simulate({name: partial(baselines.make, baselines.load(name))}, workloads)[name], gpus=32
    )


def test_it_displaces_the_longest_job_for_a_much_shorter_one() -> None:
    """Neither for one that is hardly shorter, nor for a short one that fits anyway."""
    assert shortest_first(observed(queued_s=600.0, running_s=[9000.0, 7200.0]), 2, 2) == 0
    assert shortest_first(observed(queued_s=4000.0, running_s=[7200.0, 7200.0]), 2, 2) == WAIT
    assert shortest_first(observed(queued_s=600.0, running_s=[9000.0, 7200.0], choosing=True), 2, 2) == 2
    assert shortest_first(observed(queued_s=600.0, running_s=[7200.0, 9000.0], choosing=True), 2, 2) == 3


def observed(*, queued_s: float, running_s: list[float], choosing: bool = False) -> np.ndarray:
    """Return an observation of two slots of each kind: one queued job on two GPUs, and two running on one each."""
    queue, totals = np.zeros((2, len(QUEUE_FEATURES))), np.zeros(len(TOTALS))
    queue[0, [PRESENT, GPUS, REMAINING]] = 1.0, np.log2(3.0) / 7, in_feature(queued_s)
    running = np.zeros((2, NUM_RUNNING))
    running[:, [RUNNING_GPUS, MAY_PAUSE]] = 1.0 / 7, 1.0
    running[:, RUNNING_REMAINING] = [in_feature(each) for each in running_s]
    running[:, IS_LEGAL], totals[CLAIM] = choosing, np.log2(3.0) / 7 * choosing
    legal = np.array([not choosing, False, True])
    return np.concatenate([queue.ravel(), totals, legal, running.ravel()]).astype(np.float32)


def in_feature(time_s: float) -> float:
    """Return a time as a feature."""
    return float(np.log1p(time_s / 60.0) / 4.0)


def test_the_network_becomes_like_its_teacher_and_ppo_goes_on(learner: PlainLearner, tmp_path: Path) -> None:
    model = learner.model()
    assert isinstance(model, ImitationFirst)
    model.first = 10 * 16 * 32
    model.set_logger(configure(str(tmp_path), []))
    network = learner.network(model)
    before = agreement(network)
    model.learn(model.first)
    assert not model.in_first
    assert before < 0.5 < 0.75 < agreement(network)
    assert not model.arrays()  # the lessons are over
    critic = [each.detach().clone() for each in network.critic.parameters()]
    model.learn(2 * 16 * 32, reset_num_timesteps=False)
    assert model.rollouts == 2
    assert any((a != b).any() for a, b in zip(critic, network.critic.parameters(), strict=True))


def agreement(network: SetNetwork) -> float:
    """Return the share of the teacher's actions along its own path that a network finds most likely."""
    envs, agreed = batch(4, SCENARIO, **FEW.environment(), split="validation", count=4), []
    seen, _ = envs.reset(seed=0)
    for _ in range(150):
        taught = Teacher().choose(torch.from_numpy(seen))
        agreed += (network.choose(torch.from_numpy(seen)) == taught).tolist()
        seen = envs.step(taught.numpy())[0]
    return float(np.mean(agreed))
