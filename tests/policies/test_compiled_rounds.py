"""AITurbo, Optimus and Gavel, which are compiled, make the moves of their plain forms.

They recheck less often where nothing can have changed, so moves are compared together with their times.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_gym.baselines.aiturbo import Aiturbo
from gpu_cluster_gym.baselines.gavel import Gavel
from gpu_cluster_gym.baselines.optimus import Optimus
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.policy import Action, Policy, Preempt, Resize, Start, Wait
from gpu_cluster_gym.workloads import Scenario, full_trace
from tests.accounts.aiturbo_by_hand import AiturboByHand
from tests.accounts.gavel_by_hand import GavelByHand
from tests.accounts.optimus_by_hand import OptimusByHand
from tests.cases import tiny
from tests.cases.shaped_jobs import TROUBLES, shaped
from tests.policies.test_elastic_policies import lively
from tests.simulator.test_rule import one_window

Pair = tuple[Callable[[], Policy], Callable[[], Policy]]


def both(policy: Any, plain: Any, **choices: Any) -> Any:
    """Return a parameter: functions that make a policy, and its plain form, with some settings."""
    named = " ".join(f"{name}={value}" for name, value in choices.items())
    return pytest.param(
        partial(policy, **choices), partial(plain, **choices), id=f"{policy.__name__} {named}".strip()
    )


AITURBO, OPTIMUS, GAVEL = (Aiturbo, AiturboByHand), (Optimus, OptimusByHand), (Gavel, GavelByHand)
USUAL = [both(*AITURBO), both(*OPTIMUS), both(*GAVEL)]
PARTS = [
    both(*AITURBO, borda=False),
    both(*AITURBO, queues=True),
    both(*AITURBO, elastic=False),
    both(*AITURBO, cpu_workers=False),
    both(*AITURBO, predictable="all"),
    both(*AITURBO, servers_on_gpus=True),
    both(*AITURBO, predictable="all", servers_on_gpus=True, round_s=50.0),
    both(*OPTIMUS, error=0.5),
    both(*OPTIMUS, round_s=1000.0),
    both(*GAVEL, objective="throughput"),
    both(*GAVEL, round_s=1000.0),
]


def moves(policy: Policy, episode: Episode) -> list[tuple[float, Action]]:
    """Play an episode to its end; return all actions except waits, with their times."""
    made: list[tuple[float, Action]] = []
    while not episode.done:
        assert episode.advance()
        while not isinstance(action := policy(episode.view), Wait):
            made.append((episode.view.now, action))
            episode.apply(action)
        episode.apply(action)
    return made


@pytest.mark.parametrize(("new", "plain"), USUAL + PARTS)
@pytest.mark.parametrize("seed", range(2))
def test_moves_are_those_of_the_plain_form(new: Any, plain: Any, seed: int) -> None:
    """Jobs queue for eight GPUs; some have servers, some may be resized or run on CPU cores."""
    expected = moves(plain(), lively(seed))
    assert moves(new(), lively(seed)) == expected
    assert {Start, Preempt} <= {type(move) for _, move in expected} or Resize in {
        type(move) for _, move in expected
    }


@pytest.mark.parametrize(("new", "plain"), USUAL)
@pytest.mark.parametrize("seed", range(2))
def test_they_are_on_small_nodes_that_fail(tmp_path: Path, new: Any, plain: Any, seed: int) -> None:
    """Jobs crash and run out of memory, share no GPUs, and nodes of two types close."""
    chosen = tiny.scenario(tmp_path, shaped(seed), physics="all", seed=seed, **TROUBLES)
    load = full_trace(Scenario(**chosen))
    assert moves(new(), load.episode()) == moves(plain(), load.episode())


@pytest.mark.parametrize(("new", "plain"), USUAL)
@pytest.mark.parametrize("workload", ["mixed", "aiturbo_ps", "two_types"])
def test_they_are_on_windows(workload: str, new: Any, plain: Any) -> None:
    load = one_window(workload)
    assert moves(new(), load.episode()) == moves(plain(), load.episode())


@pytest.mark.parametrize("new", [Aiturbo, Optimus, partial(Optimus, error=0.5), Gavel])
def test_a_copy_continues_like_the_original(new: Any) -> None:
    episode, policy = lively(0), new()
    while episode.view.now < 2000.0:
        assert episode.advance()
        while not isinstance(action := policy(episode.view), Wait):
            episode.apply(action)
        episode.apply(action)
    kept, going_on = deepcopy((episode, policy))
    assert moves(policy, episode) == moves(going_on, kept)


def ended(policy: Policy, episode: Episode, *, step_by_step: bool) -> tuple[int, list[float]]:
    """Return the number of instants, and the times at which jobs ended."""
    run(policy, episode, step_by_step=step_by_step)
    return int(episode.state.instant), episode.state.finish_s[: len(episode.jobs)].tolist()


@pytest.mark.parametrize(
    "new",
    [
        Aiturbo,
        partial(Aiturbo, queues=True),
        partial(Aiturbo, servers_on_gpus=True, predictable="all"),
        Optimus,
        partial(Optimus, error=0.5),
        Gavel,
    ],
)
def test_inside_the_kernel_they_do_as_they_do_move_by_move(tmp_path: Path, new: Any) -> None:
    """On eight GPUs, and on small nodes of two types that fail."""
    load = full_trace(Scenario(**tiny.scenario(tmp_path, shaped(0), physics="all", **TROUBLES)))
    for episode in (partial(lively, 0), load.episode):
        inside = ended(new(), episode(), step_by_step=False)
        assert inside == ended(new(), episode(), step_by_step=True)
