"""A search of the rule's weights keeps what did best on validation windows."""

import json
from dataclasses import asdict, replace
from functools import cache

import numpy as np
import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents.checkpoint import Agent
from gpu_cluster_gym.agents.constants import Course, Searching, acting, first, rule_of, search
from gpu_cluster_gym.agents.learn import learner_of
from gpu_cluster_gym.agents.learned import policy_of
from gpu_cluster_gym.agents.steer import SteerLearner
from gpu_cluster_gym.agents.training import PICK, STEER
from gpu_cluster_gym.envs.steer import SteerBatch
from gpu_cluster_gym.envs.windows import PreparedWindow
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel.rule.load import LOAD
from gpu_cluster_gym.simulator.rule import RULE_PARAMETERS, Rule
from gpu_cluster_gym.simulator.steered import REACH, Offsets
from gpu_cluster_gym.workloads import Split, named, windows
from gpu_cluster_gym.workloads import names as workload_names

FEW = 60  # jobs
TWO = ("price", "exponent")
KEPT = sorted(file.stem for file in baselines.CONSTANTS.glob("*.json"))


@cache
def found(split: Split = "train") -> list[PreparedWindow]:
    """Return three windows of a few jobs, ready to begin."""
    return [PreparedWindow(load) for load in windows(replace(named("mixed"), jobs=FEW), split, 3)]


# Candidates.


def test_no_offset_is_the_default_rule_with_or_without_a_network() -> None:
    for hidden in (0, 4):
        searching = Searching(hidden=hidden)
        held = first(searching, np.random.default_rng(0))
        ratios = Course(found(), 3, searching).ratios(acting(held, searching), range(3))
        assert ratios == pytest.approx(1, abs=1e-12)


def test_constants_are_the_rule_with_these_weights() -> None:
    searching = Searching()
    vector = np.random.default_rng(1).standard_normal(len(searching.weights))
    ratios = Course(found(), 3, searching).ratios(acting(vector, searching), range(3))
    for ratio, opening in zip(ratios, found(), strict=True):
        state = run(rule_of(vector, searching), opening.workload.episode()).state
        total = float((state.finish_s[:FEW] - opening.episode.jobs["submit_s"]).sum())
        assert ratio == pytest.approx(total / opening.reference_job_seconds)
        assert ratio != 1


def test_windows_of_several_sizes_are_each_judged_by_themselves() -> None:
    """Records of more than 512 jobs are of another type: they are not put into a batch with others."""
    large = [
        PreparedWindow(load)
        for load in windows(replace(named("quick"), jobs=520, all_windows=True), "train", 2)
    ]
    searching = Searching(weights=TWO)
    act = acting(np.array([1.0, -1.0]), searching)
    several = [found()[0], large[0], found()[1], large[1]]
    together = Course(several, 3, searching).ratios(act, [2, 1, 0])
    alone = [Course([several[k]], 1, searching).ratios(act, [0])[0] for k in (2, 1, 0)]
    assert together.tolist() == alone
    assert len(set(alone)) == 3
    with pytest.raises(ValueError, match="windows of 60 to 520 jobs cannot be batched"):
        SteerBatch(several, 2)


def test_weights_are_held_to_their_bounds_and_to_the_reach() -> None:
    known = {each.name: each for each in RULE_PARAMETERS}
    for offset in (-99.0, 99.0):
        rule = asdict(rule_of(np.full(2, offset), Searching(weights=TWO)))
        for name in TWO:
            each = known[name]
            reached = each.default + np.sign(offset) * REACH * each.scale
            assert rule[name] == pytest.approx(np.clip(reached, each.low, each.high))


def test_a_network_is_two_layers_and_answers_each_load_by_itself() -> None:
    seen = LOAD[2:12:3]
    searching = Searching(hidden=3, weights=TWO, loads=seen)
    rng = np.random.default_rng(2)
    vector = rng.standard_normal(len(first(searching, rng)))
    load = rng.random((2, len(LOAD)))
    inner, level = vector[:12].reshape(4, 3), vector[12:15]
    outer, held = vector[15:21].reshape(3, 2), vector[21:]
    for row in range(2):
        hidden = [np.tanh(sum(load[row, 2:12:3] * inner[:, unit]) + level[unit]) for unit in range(3)]
        answer = [sum(hidden[unit] * outer[unit, out] for unit in range(3)) + held[out] for out in range(2)]
        assert acting(vector, searching)(load)[row] == pytest.approx(answer)


# The search.


def test_a_search_leaves_a_bad_beginning_and_repeats() -> None:
    """It begins where time on GPUs costs nothing, however many jobs wait, and wide jobs are as early as narrow ones."""
    searching = Searching(weights=TWO, generations=10, population=8, windows=3, sigma=1.0)
    bad, validation = np.array([-2.0, -2.0]), found("validation")
    best, again = (search(found(), validation, searching, start=bad) for _ in range(2))
    judge = Course(validation, 3, searching)
    assert best.validation == judge.mean(best.vector, range(3)) < judge.mean(bad, range(3))
    assert best.generation > 0
    assert best.vector.tolist() == again.vector.tolist()


def test_a_search_that_finds_nothing_keeps_its_beginning() -> None:
    searching = Searching(weights=TWO, generations=1, population=4, windows=1, validate_every=2)
    best = search(found(), found("validation"), searching)
    assert (best.vector.tolist(), best.generation, best.generations) == ([0, 0], 0, 1)


# What is kept.


@pytest.mark.parametrize("workload", KEPT)
def test_constants_that_are_kept_are_a_rule_and_say_where_they_are_from(workload: str) -> None:
    kept = json.loads((baselines.CONSTANTS / f"{workload}.json").read_text(encoding="utf-8"))
    name = workload.removesuffix(baselines.TAUGHT)
    of = kept["workloads"] if name == baselines.TOGETHER else [name]
    assert set(of) <= set(workload_names())
    assert (len(of) > 1) == (name == baselines.TOGETHER)
    assert kept.get("history", False) == (name != workload)
    found = baselines.best_constants(of, taught=name != workload)
    assert found
    assert (" with what finished jobs teach" in found.source) == (name != workload)
    rule = baselines.vary(Rule(), **found.settings)
    assert rule != Rule()
    assert kept["choosing"] < 1
    assert {"command", "physics", "seed", "commit", "minutes", "windows"} <= kept.keys()


def test_learning_may_begin_at_constants() -> None:
    """All weights are at first those that were found, steered or not; what is won is told over `union` all the same."""
    few = replace(STEER, begin="constants", windows=2, environments=2, validation_windows=2)
    learner, found = learner_of(named("mixed"), few), baselines.constants("mixed").settings
    assert isinstance(learner, SteerLearner)
    agent = Agent(learner.network(learner.model()), learner.training, learner.scenario, learner.begun.rule)
    assert learner.start == Rule() != learner.begun.rule == baselines.vary(Rule(), **found)
    load = windows(named("mixed"), "train", 1)[0]
    begun, kept, union = (
        run(policy, load.episode()).state.finish_s[: len(load.jobs)].tolist()
        for policy in (policy_of(agent), learner.begun.rule, learner.start)
    )
    assert begun == kept != union


def test_offsets_to_a_rule_out_of_reach_go_as_far_as_they_can() -> None:
    offsets = Offsets(Rule(), ["price", "settled"])
    assert offsets.to(Rule(price=1000.0, settled=60.0)).tolist() == [1.0, 0.0]


def test_where_there_are_no_constants_nothing_begins_at_them() -> None:
    with pytest.raises(ValueError, match="begin constants: of what learns on one workload"):
        learner_of(named("mixed"), replace(STEER, begin="constants", also=("busy",)))
    with pytest.raises(ValueError, match="begin constants: of what steers or chooses moves"):
        learner_of(named("mixed"), replace(PICK, begin="constants"))
    with pytest.raises(ValueError, match="begin constants: this scenario is none of the workloads"):
        learner_of(replace(named("mixed"), jobs=33), replace(STEER, begin="constants")).model()
    with pytest.raises(ValueError, match="no constants were searched for workload 'large'"):
        learner_of(named("large"), replace(STEER, begin="constants")).model()
