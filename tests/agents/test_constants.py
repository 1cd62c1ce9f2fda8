"""Constants found by searches: the files that are kept, and their use as initial policies."""

import json
from dataclasses import replace

import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents.checkpoint import Agent, policy_of
from gpu_cluster_gym.agents.learn import learner_of
from gpu_cluster_gym.agents.steer import SteerLearner
from gpu_cluster_gym.agents.training import SteerTraining
from gpu_cluster_gym.simulator.choice import ChoiceError
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.rule_policy import Offsets, Rule
from gpu_cluster_gym.workloads import named, windows
from gpu_cluster_gym.workloads import names as workload_names

KEPT = sorted(file.stem for file in baselines.CONSTANTS.glob("*.json"))


@pytest.mark.parametrize("workload", KEPT)
def test_constants_are_a_rule_and_name_their_source(workload: str) -> None:
    kept = json.loads((baselines.CONSTANTS / f"{workload}.json").read_text(encoding="utf-8"))
    name = workload.removesuffix(baselines.WITH_HISTORY)
    of = kept["workloads"] if name == baselines.TOGETHER else [name]
    assert set(of) <= set(workload_names())
    assert (len(of) > 1) == (name == baselines.TOGETHER)
    assert kept.get("with_history", False) == (name != workload)
    found = baselines.best_constants(of, with_history=name != workload)
    assert found
    assert (" with history" in found.source) == (name != workload)
    rule = baselines.vary(Rule(), **found.settings)
    assert rule != Rule()
    assert kept["validation"] < 1
    assert {"command", "physics", "seed", "commit", "windows"} <= kept.keys()


def test_an_agent_may_be_initialised_as_constants() -> None:
    """All weights start as the constants, steered or not; rewards are relative to `union` all the same."""
    few = SteerTraining(init_from="constants", windows=2, num_envs=2, validation_windows=2)
    learner, found = learner_of(named("mixed"), few), baselines.constants("mixed").settings
    assert isinstance(learner, SteerLearner)
    agent = Agent(learner.network(learner.model()), learner.training, learner.scenario, learner.initial.rule)
    assert learner.start == Rule() != learner.initial.rule == baselines.vary(Rule(), **found)
    load = windows(named("mixed"), "train", 1)[0]
    initial, kept, union = (
        run(policy, load.episode()).state.finish_s[: len(load.jobs)].tolist()
        for policy in (policy_of(agent), learner.initial.rule, learner.start)
    )
    assert initial == kept != union


def test_offsets_to_a_rule_out_of_reach_are_clipped() -> None:
    offsets = Offsets(Rule(), ["price", "settled"])
    assert offsets.of_rule(Rule(price=1000.0, settled=60.0)).tolist() == [1.0, 0.0]


def test_constants_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ChoiceError, match=r"init_from 'constants': expected a single training workload"):
        SteerTraining(init_from="constants", extra_workloads=("busy",))
    few = SteerTraining(init_from="constants")
    with pytest.raises(ValueError, match="--init-from constants requires a named workload"):
        learner_of(replace(named("mixed"), jobs=33), few)
    with pytest.raises(ValueError, match="no constants exist for workload 'quick'"):
        learner_of(named("quick"), few)
