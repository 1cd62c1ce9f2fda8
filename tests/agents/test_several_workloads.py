"""Training on several workloads: side-by-side environments, and a validation of each workload."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.vec_env import VecNormalize

from gpu_cluster_gym.agents import checkpoint, load_policy
from gpu_cluster_gym.agents.callbacks import Validated
from gpu_cluster_gym.agents.learn import learn, learner_of
from gpu_cluster_gym.agents.steer import SideBySide, SteerLearner, chosen
from gpu_cluster_gym.agents.training import SteerTraining
from gpu_cluster_gym.agents.vec_env import ClusterVecEnv, batch
from gpu_cluster_gym.envs.steer import WEIGHTS
from gpu_cluster_gym.simulator.choice import ChoiceError
from gpu_cluster_gym.simulator.kernel.union.load import LOAD
from gpu_cluster_gym.simulator.rule_policy import Steered
from gpu_cluster_gym.workloads import TRAINING_SHIFTS, Scenario, applicable, describe_shift, named
from tests.cases import tiny
from tests.cases.crowd import crowded

ALSO = ("xonar_mix", "aiturbo_ps")
BOTH = replace(named("mixed"), jobs=40), named("xonar_mix")
FEW = SteerTraining(
    total_timesteps=48,
    windows=2,
    validation_windows=2,
    validate_every=48,
    num_envs=5,
    n_steps=6,
    batch_size=15,
    learning_rate=0.1,
    extra_workloads=ALSO,
)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return crowded(tmp_path_factory.mktemp("crowd"))


def part(scenario: Scenario, count: int, **choices: int) -> ClusterVecEnv:
    return ClusterVecEnv(batch(count, scenario, action="steer", count=2, **choices))


def test_side_by_side_each_plays_as_by_itself() -> None:
    together = SideBySide(
        [part(BOTH[0], 2, arrivals_per_decision=10), part(BOTH[1], 1, arrivals_per_decision=10)]
    )
    alone = part(BOTH[0], 2, arrivals_per_decision=10), part(BOTH[1], 1, arrivals_per_decision=10)
    together.seed(3)
    alone[0].seed(3)
    alone[1].seed(5)  # the third of three
    assert tiny.bits(together.reset()) == tiny.bits(np.concatenate([each.reset() for each in alone]))
    rng, ends = np.random.default_rng(0), np.zeros(3, int)
    for _ in range(12):
        actions = rng.uniform(-1, 1, (3, len(WEIGHTS)))
        found = together.step(actions)
        wanted = alone[0].step(actions[:2]), alone[1].step(actions[2:])
        for place in range(3):
            assert tiny.bits(found[place]) == tiny.bits(np.concatenate([each[place] for each in wanted]))
        assert tiny.bits(found[3]) == tiny.bits([*wanted[0][3], *wanted[1][3]])
        ends += found[2]
    assert (ends > 0).all()
    assert together.get_attr("windows") == [*alone[0].get_attr("windows"), *alone[1].get_attr("windows")]


def test_side_by_side_the_spaces_are_the_same() -> None:
    other = ClusterVecEnv(batch(1, BOTH[0], action="steer", count=1, weights=("price",)))
    with pytest.raises(ValueError, match="equal observation and action spaces"):
        SideBySide([part(BOTH[1], 1), other])


def test_an_agent_learns_on_all_and_is_validated_on_each(scenario: Scenario, tmp_path: Path) -> None:
    seen: list[Validated] = []
    best = learn(scenario, FEW, tmp_path, validated=seen.append)
    first, last = seen[0].own, seen[-1].own
    assert list(first.by_workload) == ["own", *ALSO]
    assert set(first.by_workload.values()) == {1.0}
    assert last.by_workload["own"] != 1.0
    assert last.ratio == pytest.approx(np.mean(list(last.by_workload.values())))
    kept: Any = checkpoint.load(best).training
    assert kept.extra_workloads == ALSO
    rows = (tmp_path / "validation.csv").read_text().splitlines()
    assert {"greedy_ratio_on_own", "sampled_ratio_on_xonar_mix"} <= set(rows[0].split(","))
    policy = load_policy(best)
    assert isinstance(policy, Steered)
    assert policy.every == 4  # arrivals: 40 jobs in 12 decisions, on whatever workload it plays


def test_each_workload_has_its_share_of_the_environments(scenario: Scenario) -> None:
    learner = learner_of(scenario, FEW)
    assert isinstance(learner, SteerLearner)
    envs: Any = learner.environments()
    assert [each.num_envs for each in envs.parts] == [2, 2, 1]
    assert [each.venv.env.batch.every for each in envs.parts] == [4, 4, 4]


def test_an_agent_learns_under_shifts_too(scenario: Scenario, tmp_path: Path) -> None:
    """Only shifts that change the scenario, with a fifth of the validation windows each."""
    seen: list[Validated] = []
    few = replace(
        FEW, extra_workloads=(), domain_randomization=True, validation_windows=5, num_envs=9, batch_size=54
    )
    learner = learner_of(scenario, few)
    shifts = [f"own, {describe_shift(each)}" for each in applicable(scenario, TRAINING_SHIFTS)]
    assert [each.shift for each in learner.scenarios.values()] == [
        None,
        *applicable(scenario, TRAINING_SHIFTS),
    ]
    learn(scenario, few, tmp_path, validated=seen.append)
    last = seen[-1].own
    assert list(last.by_workload) == ["own", *shifts]
    assert last.ratio == pytest.approx(
        np.average(list(last.by_workload.values()), weights=[5, *(1 for _ in shifts)])
    )


def test_all_workloads_are_varied(scenario: Scenario) -> None:
    """Each has the shifts that change it: fewer without estimation errors and pause times."""
    several = replace(FEW, extra_workloads=("xonar_memory",), domain_randomization=True, num_envs=20)
    other = named("xonar_memory")
    found = learner_of(scenario, several).scenarios
    expected = ["own", "xonar_memory"]
    expected += [f"own, {describe_shift(each)}" for each in applicable(scenario, TRAINING_SHIFTS)]
    fewer = applicable(other, TRAINING_SHIFTS)
    expected += [f"xonar_memory, {describe_shift(each)}" for each in fewer]
    assert 0 < len(fewer) < len(applicable(scenario, TRAINING_SHIFTS))
    assert list(found) == expected
    assert found["xonar_memory, load x 0.9"] == replace(other, shift="load=0.9")


def test_invalid_options_are_refused(scenario: Scenario) -> None:
    with pytest.raises(ChoiceError, match=r"did you mean 'xonar_mix'"):
        SteerTraining(extra_workloads=("xonar_mx",))
    with pytest.raises(ValueError, match="requires a scenario without --shift load=2"):
        learner_of(replace(scenario, shift="load=2"), SteerTraining(domain_randomization=True))
    with pytest.raises(ValueError, match="--extra-workloads xonar_mix: it is a training workload already"):
        learner_of(scenario, replace(FEW, extra_workloads=(*ALSO, ALSO[0])))
    with pytest.raises(ValueError, match="--extra-workloads busy: it is a training workload already"):
        learner_of(named("busy"), replace(FEW, extra_workloads=("busy",)))
    with pytest.raises(ValueError, match="expected at least 3, one per workload"):
        learner_of(scenario, replace(FEW, num_envs=2)).model()


def test_a_network_that_saw_normalized_loads_is_kept_as_one_that_sees_them_as_they_are(
    scenario: Scenario, tmp_path: Path
) -> None:
    learner = learner_of(scenario, replace(FEW, normalize=True))
    assert isinstance(learner, SteerLearner)
    model = learner.model()
    model.learn(learner.training.total_timesteps)
    normalized = model.get_vec_normalize_env()
    assert normalized is not None
    load = np.random.default_rng(0).uniform(-1, 1, (7, len(LOAD))).astype(np.float32)
    assert not np.allclose(np.asarray(normalized.normalize_obs(load)), load, atol=0.1)
    wanted = model.predict(normalized.normalize_obs(load), deterministic=True)[0]
    assert chosen(model, load, sampled=False).tolist() == wanted.tolist()
    network = learner.network(model)
    found = np.clip([network.choose(each) for each in load], -1, 1)
    assert found == pytest.approx(wanted, abs=1e-4)
    assert np.abs(found).max() > 0.01


def test_returns_of_every_workload_are_paid_by_their_own_deviation(scenario: Scenario) -> None:
    learner = learner_of(scenario, replace(FEW, normalize=True))
    assert isinstance(learner, SteerLearner)
    whole = learner.environments()
    assert isinstance(whole, VecNormalize)
    parts = whole.venv.parts  # type: ignore[attr-defined]
    whole.reset()
    rng = np.random.default_rng(0)
    for _ in range(12):
        _, rewards, _, _ = whole.step(rng.uniform(-1, 1, (5, len(learner.training.weights))))
        raw = np.concatenate([part.get_original_reward() for part in parts])
    scales = np.concatenate([np.full(part.num_envs, np.sqrt(part.ret_rms.var)) for part in parts])
    assert len(set(scales)) == 3
    assert rewards == pytest.approx(raw / scales, rel=1e-3)
