"""Agents of moves start as the rule, score moves whatever their order, and learn the advantages of look-ahead."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
import torch

from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.callbacks import Validated, Validator
from gpu_cluster_gym.agents.checkpoint import Agent, BestMove, policy_of
from gpu_cluster_gym.agents.learn import learn
from gpu_cluster_gym.agents.moves import MARGINS, MovesLearner, Student, play
from gpu_cluster_gym.agents.networks import OWN, Listed, MoveNetwork, flat
from gpu_cluster_gym.agents.training import MOVE_KINDS, MovesTraining, SteerTraining, Training
from gpu_cluster_gym.agents.vec_env import batch
from gpu_cluster_gym.envs.agent_policy import MovesAgent
from gpu_cluster_gym.envs.vector import GPUClusterVectorEnv
from gpu_cluster_gym.simulator.choice import ChoiceError, hints
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel.moves.move_list import DIVIDE, FEATURES, KINDS
from gpu_cluster_gym.simulator.policy import Preempt, Start
from gpu_cluster_gym.simulator.reasons import Decisions
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.workloads import named, windows

FEW = MovesTraining(
    total_timesteps=96,
    windows=3,
    validation_windows=2,
    validate_every=48,
    num_envs=3,
    n_steps=16,
    batch_size=16,
    n_epochs=4,
    hidden=8,
    base_logit_scale=2.0,
)
SCENARIO = replace(named("mixed"), jobs=30, all_windows=True)


def environments(count: int = 2) -> GPUClusterVectorEnv:
    made = batch(count, SCENARIO, action="moves", split="validation", count=count)
    assert isinstance(made, GPUClusterVectorEnv)
    return made


def network_of(sure: float, training: Training = FEW, seed: int = 0) -> MoveNetwork:
    """Return a network with random scores of some magnitude."""
    torch.manual_seed(seed)
    network = checkpoint.new_network(training)
    assert isinstance(network, MoveNetwork)
    torch.nn.init.normal_(network.score.weight, std=sure)
    return network


def some_lists(count: int = 40) -> torch.Tensor:
    """Return observations of the first steps of two windows."""
    envs, rng = environments(), np.random.default_rng(0)
    seen, _ = envs.reset(options={"window": list(envs.env.windows)})
    found = [flat(seen)]
    while len(found) < count:
        seen, *_ = envs.step(rng.integers(envs.action_masks().sum(1)))
        found.append(flat(seen))
    return torch.cat(found)


def student(**choices: Any) -> Student:
    model: Any = MovesLearner(SCENARIO, replace(FEW, learning_seed=0, **choices)).model()
    assert isinstance(model, Student)
    model._setup_learn(FEW.total_timesteps)
    return model


def test_moves_in_another_order_have_the_same_logits_and_the_same_value() -> None:
    network, vectors = network_of(3.0), some_lists()
    seen = Listed.of(vectors)
    order = torch.from_numpy(np.random.default_rng(0).permutation(seen.legal.shape[1]))
    parts = [seen.load, seen.legal[:, order].float(), seen.moves[:, order].flatten(1)]
    logits, values = network(vectors)
    logits_after, values_after = network(torch.cat(parts, dim=1))
    torch.testing.assert_close(logits_after, logits[:, order], rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(values_after, values, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sampled", [False, True])
def test_only_moves_on_the_list_are_chosen(sampled: bool) -> None:
    network, vectors = network_of(30.0), some_lists()
    generator = torch.Generator().manual_seed(0) if sampled else None
    chosen = network.choose(vectors, generator)
    assert Listed.of(vectors).legal.gather(1, chosen.unsqueeze(1)).all()
    assert len(set(chosen.tolist())) > 3


@pytest.mark.parametrize("sampled", [False, True])
def test_only_moves_of_allowed_kinds_replace_the_rules_own(sampled: bool) -> None:
    """By default no waits and pauses, although the network scores them highest; all, where all are allowed."""
    seen = Listed.of(vectors := some_lists(200))

    def chosen_kinds(allowed: tuple[str, ...]) -> set[str]:
        found, lists = set[str](), torch.arange(len(vectors))
        for seed in range(3):
            network = network_of(30.0, replace(FEW, allowed_moves=allowed), seed)
            chosen = network.choose(vectors, torch.Generator().manual_seed(0) if sampled else None)
            kinds = seen.kinds[lists, chosen].argmax(1)
            found |= {KINDS[kind] for kind in kinds[~seen.own[lists, chosen]]}
        return found

    assert {"start", "move"} <= chosen_kinds(FEW.allowed_moves) <= {"start", "displace", "move"}
    assert chosen_kinds(("move",)) == {"move"}
    assert chosen_kinds(MOVE_KINDS) & {"wait", "wait_a_minute", "pause"}
    assert chosen_kinds(()) == set()


def test_the_kinds_that_are_chosen_from_are_the_kernels() -> None:
    assert KINDS[:DIVIDE] == MOVE_KINDS


def test_an_untrained_agent_is_the_rule() -> None:
    envs = environments(1)
    table, agreement = play(envs, network_of(0.0))
    load = windows(SCENARIO, "validation", 1)[0]
    pd.testing.assert_frame_equal(table, load.results(run(Rule(), load.episode())))
    assert agreement == 1.0


def test_the_policy_is_the_environment_played_greedily() -> None:
    envs, network = environments(1), network_of(12.0)
    table, agreement = play(envs, network)
    load = windows(SCENARIO, "validation", 1)[0]
    learned = policy_of(Agent(network, FEW, SCENARIO))
    pd.testing.assert_frame_equal(table, load.results(run(learned, load.episode())))
    assert agreement < 0.99


def test_a_saved_agent_acts_the_same_and_keeps_its_rule(tmp_path: Path) -> None:
    start = Rule(caution=2.0, widening=0.0)
    checkpoint.save(tmp_path, Agent(network_of(3.0), FEW, SCENARIO, start))
    loaded = checkpoint.load(tmp_path)
    vectors = some_lists(4)
    assert isinstance(loaded.network, MoveNetwork)
    assert loaded.network.forward_actor(vectors).tolist() == network_of(3.0).forward_actor(vectors).tolist()
    assert loaded.start == start


def test_a_student_learns_the_advantages_of_its_teacher() -> None:
    """A teacher that prefers many GPUs: after some training the widest moves have the highest scores."""
    model, feature = student(learning_rate=0.01), FEATURES.index("gpus")
    vectors = some_lists(60)
    seen = Listed.of(vectors)
    won = (seen.moves[:, :, feature] - (seen.moves[:, :, [feature]] * seen.moves[:, :, [OWN]]).sum(1)) * 700
    won *= seen.legal
    for _ in range(80):
        model._seen, model._advantages_s = [vectors], [won]
        model.train()
    others = model.network.others(seen)
    target = (won / model._scale).clamp(-5, 5)
    assert model.loss(vectors, won) < 0.2 * (target.square() * others).sum() / others.sum()
    chosen = model.network.choose(vectors)
    reached = won.gather(1, chosen.unsqueeze(1)).mean()
    assert reached > 0.7 * won.masked_fill(~others, 0.0).amax(1).mean() > 0


def test_a_student_deviates_only_beyond_the_margin() -> None:
    """A move is not chosen if its score exceeds that of the rule's own by at most `base_logit_scale`."""
    network, vectors = network_of(12.0), some_lists()
    seen = Listed.of(vectors)
    scores = network.scores(seen)
    over = scores - (scores * seen.own).sum(1, keepdim=True)
    over = over.masked_fill(~network.others(seen), -1e9)
    deviates = network.choose(vectors) != seen.moves[:, :, OWN].argmax(1)
    assert deviates.tolist() == (over.amax(1) > network.base_logit_scale).tolist()
    assert 0 < deviates.sum() < len(deviates)


def test_half_the_margin_is_half_the_preference_of_the_rules_own_choice() -> None:
    """The margin does not change the network in training."""
    model, vectors = student(), some_lists()
    with torch.no_grad():
        model.network.score.weight.normal_(std=30.0, generator=torch.Generator().manual_seed(0))
    whole = model.playing().choose(vectors)
    model.margin = 0.5
    half = model.playing().choose(vectors)
    assert model.network.choose(vectors).tolist() == whole.tolist() != half.tolist()
    model.network.base_logit_scale /= 2.0
    assert model.network.choose(vectors).tolist() == half.tolist()


def test_a_student_keeps_the_margin_that_does_best_on_validation_windows(tmp_path: Path) -> None:
    """Four margins are validated each time; before training, only the first."""
    model, tried = student(), list[float]()
    ratios = dict(zip(MARGINS, (0.9, 0.95, 0.8, 0.85), strict=True))

    def score(model: Student, *, sampled: bool) -> Any:
        assert not sampled
        tried.append(model.margin)
        return SimpleNamespace(ratio=ratios[model.margin])

    validation: Any = SimpleNamespace(score=score)
    validator = Validator(MovesLearner(SCENARIO, FEW), validation, tmp_path, lambda validated: None)
    assert validator._greedy(model).ratio == 0.9
    model._scale = 1.0
    assert validator._greedy(model).ratio == 0.8
    assert tried == [1.0, *MARGINS]
    assert model.margin == 0.25


def test_a_student_mostly_plays_the_rule() -> None:
    model, vectors = student(), some_lists(200)
    with torch.no_grad():
        model.network.score.weight.normal_(std=30.0)
    own = Listed.of(vectors).moves[:, :, OWN].argmax(1).numpy()
    chosen = model.choices(model.playing(), vectors)
    assert 0.6 < (chosen == own).mean() < 0.95
    seen = Listed.of(vectors)
    reach = model.network.reach(seen)
    assert reach.sum() < seen.legal.sum()
    assert reach.gather(1, torch.from_numpy(chosen).unsqueeze(1)).all()


def test_a_student_learns_nothing_of_moves_that_it_may_not_make() -> None:
    """Advantages of waits and pauses change neither the scale nor the loss."""
    vectors, found = some_lists(60), list[tuple[float, float]]()
    seen = Listed.of(vectors)
    others = student().network.others(seen)
    won = torch.where(others, 100.0, 0.0)
    for beyond in (0.0, 1e6):
        model = student()
        model._seen, model._advantages_s = (
            [vectors],
            [torch.where(seen.legal & ~others & ~seen.own, beyond, won)],
        )
        model.train()
        found.append((model._scale, model.loss(vectors, model._advantages_s[0]).item()))
    assert found[0] == found[1]
    assert found[0][0] == pytest.approx(100.0)


@pytest.mark.parametrize("reward", get_args(hints(MovesTraining)["reward"][0]))
def test_the_reward_of_ppo_is_the_environments_of_that_name(reward: Any) -> None:
    model = MovesLearner(SCENARIO, replace(FEW, algorithm="ppo", reward=reward)).model()
    envs: Any = model.env
    assert envs.unwrapped.env.batch._reward.__module__.endswith(f".rewards.{reward}")


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"algorithm": "ppo", "reward": "rollout_advantage"},
        {"algorithm": "ppo", "reward": "gain", "gamma": 0.97},
    ],
    ids=["student", "ppo", "ppo_gain"],
)
def test_an_agent_is_learned_and_kept(how: dict[str, Any], tmp_path: Path) -> None:
    seen: list[Validated] = []
    training = replace(FEW, learning_rate=0.02, base_logit_scale=0.2, **how)
    best = learn(SCENARIO, training, tmp_path, validated=seen.append)
    assert seen[0].own.ratio == pytest.approx(1.0)
    assert seen[0].own.metrics["agreement_with_start"] == 1.0
    last: Any = checkpoint.load(max((tmp_path / "checkpoints").iterdir())).network
    assert last.score.weight.abs().max() > 0.01
    assert checkpoint.load(best).training == replace(training, learning_seed=0)


def test_each_action_kind_has_its_algorithms() -> None:
    with pytest.raises(ChoiceError, match="algorithm 'distillation': expected student, ppo"):
        MovesTraining(algorithm="distillation")  # type: ignore[arg-type]
    with pytest.raises(ChoiceError, match="algorithm 'student': expected ppo, search, distillation"):
        SteerTraining(algorithm="student")  # type: ignore[arg-type]


def test_ten_reasons_show_the_scores_and_reproduce_the_choice() -> None:
    """Ten random decisions: the best option shown is what was done, its value is from the network's logits."""
    training, decisions = replace(FEW, allowed_moves=MOVE_KINDS), Decisions()
    load = windows(replace(SCENARIO, cluster="2x4", drop_too_large=True), "train", 1)[0]
    network = network_of(3.0, training)
    policy = policy_of(Agent(network, training, SCENARIO))
    assert isinstance(policy, MovesAgent)
    predict, noted = policy.predict, []

    class Noting(BestMove):
        def __call__(self, observation: Any, mask: np.ndarray) -> int:
            chosen = super().__call__(observation, mask)
            with torch.no_grad():
                noted.append(
                    (chosen, observation["moves"].copy(), network.forward_actor(flat(observation))[0].numpy())
                )
            return chosen

    assert isinstance(predict, BestMove)
    watched = replace(policy, predict=Noting(network, predict.keys))
    table = load.results(run(watched, load.episode(), decisions=decisions))
    pd.testing.assert_frame_equal(table, load.results(run(policy, load.episode())))
    starts = sum(isinstance(each.action, Start) for each in decisions.rows)
    pauses = sum(isinstance(each.action, Preempt) for each in decisions.rows)
    assert pauses == table["preemptions"].sum() > 0
    assert starts == len(table) + pauses
    compared = [each for each in decisions.rows if each.reason.options]
    assert len(compared) > 30
    for at in np.random.default_rng(0).choice(len(compared), 10, replace=False).tolist():
        action, options = compared[at].action, compared[at].reason.options
        enough = [each.value if each.value > each.minimum else -np.inf for each in options]
        assert np.argmax(enough) == 0
        assert action.job == compared[at].reason.own.job
        if isinstance(action, Start):
            assert action.placement is not None
            where = len(action.placement.gpus)
            assert options[0].name.startswith(
                f"start {{job}} on {where} GPU" if where else "start {job} on CPU"
            )
            assert options[0].job == action.job
        found = [
            logits[chosen] - logits[own] + (FEW.base_logit_scale if chosen != own else 0.0)
            for chosen, moves, logits in noted
            for own in [int(moves[:, OWN].argmax())]
        ]
        assert np.abs(np.array(found) - options[0].value).min() < 1e-4
