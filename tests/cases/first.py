"""What is played once before the tests begin, so that the kernel is compiled by one process and not by each."""

import tempfile
from itertools import islice
from pathlib import Path

import numpy as np

import baselines
from simulator.episode import run
from simulator.policy import Ranking
from tests.cases import tiny
from tests.cases.mixed_jobs import OUTAGES, Whims, mixed_table, workload

RANKINGS = (Ranking("submit", discipline="easy"), Ranking("weighted", "if_it_pays", exponent=1.0, margin=0.0))
POLICIES = ("union", "xonar", "aiturbo")
KINDS = (
    ("tables", "primitive", "jct"),
    ("slots", "pick", "rollout_advantage"),
    ("elastic", "elastic", "jct"),
)


def play() -> None:
    """Make every kind of move in episodes of the smallest sizes: by rankings, by policies, without sense, by agents."""
    work = workload(mixed_table(np.random.default_rng(0), 20), **OUTAGES)
    for ranking in RANKINGS:
        run(ranking, work.episode())
        run(ranking, work.episode(), step_by_step=True)
    for name in POLICIES:
        run(baselines.make(baselines.load(name)), work.episode())
    episode = work.episode()
    run(Whims(lambda action: episode.why_not(action) is None, seed=0, moves=250), episode)
    with tempfile.TemporaryDirectory() as folder:
        chosen = tiny.scenario(Path(folder), physics="all")
        for observation, action, reward in KINDS:
            env = tiny.make(chosen, observation=observation, action=action, reward=reward)
            list(islice(tiny.wander(env), 100))
