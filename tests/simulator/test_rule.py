"""The compiled rule over moves does, move by move, what the plain one does, with any weights, on every workload."""

from dataclasses import replace

import numpy as np
import pytest

from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY
from gpu_cluster_gym.simulator.kernel.rule import rule_over_moves
from gpu_cluster_gym.simulator.policy import Action, Policy, Resize, Start
from gpu_cluster_gym.simulator.rule import RULE_PARAMETERS, Rule, memory_of
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import Workload, named, names, windows
from tests.accounts.rule_by_hand import RuleByHand

FEW = 30  # jobs
FEWER = 16  # where the plain rule takes long
STANDARD = "standard"
TRUSTS = ("trust_cores", "trust_times")


def in_order(action: Action) -> Action:
    """Return an action with the GPUs of its placement in ascending order."""
    if isinstance(action, Start | Resize) and action.placement:
        gpus = tuple(sorted(int(gpu) for gpu in action.placement.gpus))
        return action._replace(placement=action.placement._replace(gpus=gpus))
    return action


def beside(plain: Policy, rule: Rule) -> Policy:
    """Return a policy that does what both say, and fails where they differ."""

    def both(view: View) -> Action:
        expected, action = in_order(plain(view)), in_order(rule(view))
        assert action == expected, f"at {view.now} s"
        return action

    return both


def any_rule(rng: np.random.Generator, spread: float) -> Rule:
    """Draw weights around the defaults, switches now and then off."""
    weights = {}
    for each in RULE_PARAMETERS:
        if each.name in TRUSTS:
            weights[each.name] = rng.choice([0.0, rng.random(), 1.0])
            continue
        moved = each.default + spread * each.scale * rng.standard_normal()
        switched = float(rng.random() > 0.1)
        weights[each.name] = float(np.clip(moved, each.low, each.high)) if each.scale else switched
    return Rule(**weights)


def one_window(workload: str, number: int = 0, **fields: object) -> Workload:
    """Return a training window of a workload."""
    scenario = replace(named(workload), **{"jobs": FEW, "all_windows": True} | fields)  # type: ignore[arg-type]
    return windows(scenario, "train", number + 1)[number]


def finishes(policy: Policy, load: Workload, *, step_by_step: bool = False) -> list[float]:
    """Return when each job ends."""
    episode: Episode = run(policy, load.episode(), step_by_step=step_by_step)
    ends: list[float] = episode.state.finish_s[: len(episode.jobs)].tolist()
    return ends


@pytest.mark.parametrize("workload", names())
def test_default_weights_move_by_move_on_every_workload(workload: str) -> None:
    load = one_window(workload)
    expected = finishes(beside(RuleByHand(Rule()), Rule()), load)
    assert finishes(Rule(), load) == expected


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_moves_for_jobs_larger_than_any_node(spread: float) -> None:
    rule = any_rule(np.random.default_rng(7), spread)
    load = one_window("philly_exclusive", cluster="18x2")
    assert finishes(rule, load) == finishes(beside(RuleByHand(rule), rule), load)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("workload", ["mixed", "philly", "coda_mix", "aiturbo_ps", "two_types"])
def test_any_weights_move_by_move(workload: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rule = any_rule(rng, rng.choice([0.5, 1.0, 3.0]))
    physics = {"physics": STANDARD} if workload == "philly" else {}
    load = one_window(workload, seed % 2, **physics | {"jobs": FEWER})
    assert finishes(rule, load) == finishes(beside(RuleByHand(rule), rule), load)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("workload", ["mixed", "philly", "coda_mix"])
def test_any_weights_move_by_move_with_what_finished_jobs_teach(workload: str, seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    rule = replace(any_rule(rng, 0.5), cores=1.0, trust_cores=(1.0, 0.5)[seed % 2], trust_times=1.0)
    physics = {"physics": STANDARD} if workload == "philly" else {}
    load = one_window(workload, seed % 2, **physics | {"jobs": FEWER}, run_time_predictor=workload)
    learns = bool(load.episode().histories[0].num_cells)
    assert learns
    expected = finishes(beside(RuleByHand(rule, learns=learns), rule), load)
    assert finishes(rule, load) == expected != finishes(replace(rule, trust_cores=0, trust_times=0), load)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("workload", ["philly", "aiturbo_ps"])
def test_any_weights_move_by_move_where_types_differ_beside_other_levers(workload: str, seed: int) -> None:
    """Sharing, sizes, cores or servers, on V100s and K80s."""
    rng = np.random.default_rng(seed)
    rule, scenario = any_rule(rng, rng.choice([0.5, 1.0, 3.0])), named(workload)
    parts = ",".join(sorted(scenario.parts | {"gpu_types"}))
    machines = {"philly": "2x8+2x8-k80", "aiturbo_ps": "2x4-64c+2x4-k80-64c"}[workload]
    load = one_window(workload, seed % 2, physics=parts, cluster=machines, jobs=FEWER, drop_too_large=True)
    assert finishes(rule, load) == finishes(beside(RuleByHand(rule), rule), load)


def test_without_a_history_trust_changes_nothing() -> None:
    load = one_window("mixed")
    assert finishes(Rule(trust_cores=1, trust_times=1), load) == finishes(Rule(), load)


@pytest.mark.slow
@pytest.mark.parametrize("workload", names())
def test_two_hundred_weights_move_by_move(workload: str) -> None:
    """As above; minutes a workload."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        rule = any_rule(rng, rng.choice([0.5, 1.0, 3.0]))
        physics = {"physics": STANDARD} if workload == "philly" else {}
        load = one_window(workload, 0, **physics | {"jobs": 30, "seed": seed})
        assert finishes(rule, load) == finishes(beside(RuleByHand(rule), rule), load), (seed, rule)


def played_on(load: Workload, former: Rule, later: Rule, *, afresh: bool) -> list[float]:
    """Return when jobs end whose rule changes midway: its weights alone, or all that it keeps as well."""
    episode = load.episode()
    states, jobs = episode.states, episode.jobs
    memory = memory_of(former, states, jobs, episode.histories)
    middle = float(jobs["submit_s"][len(jobs) // 2])
    rule_over_moves.run_until(states, 0, memory, 0, jobs, middle)
    while memory["kept_for"][0] != NOBODY:
        rule_over_moves.run_until(states, 0, memory, 0, jobs, states["clock"][0] + 1.0)
    if afresh:
        memory = memory_of(later, states, jobs, episode.histories)
    for each in RULE_PARAMETERS:
        memory[each.name] = getattr(later, each.name)
    rule_over_moves.run_until(states, 0, memory, 0, jobs, np.inf)
    ends: list[float] = states["finish_s"][0, : len(jobs)].tolist()
    return ends


@pytest.mark.parametrize(
    ("name", "former", "later"),
    [
        ("by_age", 3, 0),
        ("trust_times", 1, 0),
        ("exponent", 3, -1),
        ("most_busy", 0.8, 1.7),
        ("most_slow", 1, 3),
    ],
)
def test_nothing_that_follows_from_former_weights_is_kept(name: str, former: float, later: float) -> None:
    load = one_window("busy", jobs=240, run_time_predictor="mixed")
    before, after = (Rule(cores=0, **{name: value}) for value in (former, later))
    assert played_on(load, before, after, afresh=False) == played_on(load, before, after, afresh=True)
    assert played_on(load, before, after, afresh=False) != played_on(load, before, before, afresh=False)


def test_step_by_step_is_the_whole_run() -> None:
    load = one_window("mixed")
    assert finishes(Rule(), load) == finishes(Rule(), load, step_by_step=True)
    assert finishes(Rule(price=1), load) != finishes(Rule(), load)


def test_weights_out_of_bounds_are_refused() -> None:
    with pytest.raises(ValueError, match=r"price -1: expected 0 to 1e\+06; caution nan: expected"):
        Rule(price=-1, caution=float("nan"))
