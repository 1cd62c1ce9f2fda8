"""Warm-up before the tests: two processes compile the kernel before more processes start.

`python -m tests.cases.first backwards` is the other process: it starts from the far end, and each finds on disk
what the other has compiled.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.account import Account
from gpu_cluster_gym.simulator.cluster import philly
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel._compile import CACHE
from gpu_cluster_gym.simulator.kernel._pipeline import say
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.policy import Ranking, RunsCompiled
from gpu_cluster_gym.simulator.relaxations import lower_bound
from gpu_cluster_gym.simulator.source import source_of
from tests.cases import tiny
from tests.cases.mixed_jobs import OUTAGES, Whims, mixed_table, workload

ROOT = Path(__file__).resolve().parent.parent.parent
RANKINGS = (Ranking("submit", discipline="easy"), Ranking("weighted", "cost_aware", exponent=1.0, margin=0.0))
POLICIES = ("union", "xonar", "aiturbo", "gavel", "coda", "xion", "muri", "fitgpp", "gittins", "lookahead")
KINDS: tuple[dict[str, str], ...] = (
    {"placed_by": "agent", "victims_by": "agent"},
    {"reward": "rollout_advantage"},
)


def episode(**choices: Any) -> Episode:
    """Return a small episode in which all kinds of events occur."""
    return workload(mixed_table(np.random.default_rng(0), 20), **OUTAGES | choices).episode()


def play_ranking(ranking: Ranking) -> None:
    """Carry out a ranking at once, step by step, and with an account."""
    run(ranking, episode())
    run(ranking, episode(), step_by_step=True)
    run(ranking, episode(), account=Account())


def play_policy(name: str) -> None:
    """Let a policy act, also step by step if it would run compiled."""
    policy = baselines.load(name)
    run(made := baselines.make(policy), episode(), oracle=True)
    if isinstance(made, RunsCompiled):
        run(baselines.make(policy), episode(), step_by_step=True)


def play_whims() -> None:
    """Make random moves of every kind, and check the record against the invariants."""
    chosen = episode()
    run(Whims(lambda action: chosen.why_not(action) is None, seed=0, moves=250), chosen, account=Account())
    assert legality.check(chosen.states, 0, chosen.jobs) == 0


def play_agent(**choices: str) -> None:
    """Take some steps of an environment."""
    with tempfile.TemporaryDirectory() as folder:
        chosen = tiny.scenario(Path(folder), physics="all")
        env = tiny.make(chosen, **choices)
        list(islice(tiny.wander(env), 100))


def ask() -> None:
    """Call the remaining queries of an episode; prepare one on many machines."""
    chosen = episode()
    lower_bound(chosen)
    calls.rollout(episode().states, 0, episode().jobs, 60.0)
    chosen.advance()
    episode(cluster=philly())
    asked = source_of(chosen.view)
    assert asked.expected.shape[1] == asked.readings.shape[1] == asked.arrived
    assert calls.next_pick(chosen.states, 0, chosen.jobs) == 0
    assert calls.pick(chosen.states, 0, chosen.jobs, 0)


def play_batch(action: str) -> None:
    """Take some steps of environments on the rule, and of a steering policy."""
    batch = gymnasium.make_vec(
        "GPUCluster-mixed-v2", num_envs=2, action=action, count=2, scenario={"jobs": 40}
    )
    batch.reset(seed=0)
    for _ in range(3):
        batch.step(np.zeros_like(batch.action_space.sample()))


PLAYS: tuple[Callable[[], None], ...] = (
    *(partial(play_ranking, ranking) for ranking in RANKINGS),
    play_whims,
    *(partial(play_policy, name) for name in POLICIES),
    ask,
    *(partial(play_batch, action) for action in ("steer", "moves")),
    *(partial(play_agent, **kinds) for kinds in KINDS),
)


def play(*, backwards: bool = False) -> None:
    """Play everything, from the first or from the last."""
    for each in reversed(PLAYS) if backwards else PLAYS:
        each()


def compile_all() -> None:
    """Compile everything: in this process, and in another one from the far end if the cache is empty.

    A file next to the compiled code says that everything has been played; then there is nothing to do.
    """
    played = CACHE / f"played-{sha256(Path(__file__).read_bytes()).hexdigest()[:16]}"
    if played.exists():
        return
    if any(CACHE.rglob("*.nbc")):
        play()
    else:
        say()
        with subprocess.Popen([sys.executable, "-m", "tests.cases.first", "backwards"], cwd=ROOT) as other:
            play()
        if other.returncode:
            raise RuntimeError(f"the other process that compiles the kernel ended with {other.returncode}")
    played.touch()


if __name__ == "__main__":
    play(backwards="backwards" in sys.argv)
