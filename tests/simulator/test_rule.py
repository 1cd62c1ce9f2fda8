"""Golden results of `union`, laws that hold for any weights, and faults that these tests must notice."""

import csv
import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY
from gpu_cluster_gym.simulator.kernel.union import decide
from gpu_cluster_gym.simulator.policy import Action, Policy, Preempt, Wait
from gpu_cluster_gym.simulator.rule_policy import RULE_PARAMETERS, Rule, memory_of
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import Workload, named, windows

GOLDEN = Path(__file__).resolve().parents[2] / "benchmarks" / "per_window.csv"
WORKLOADS = ("aiturbo_ps", "mixed", "philly_backlog", "two_types", "xonar_memory", "coda_mix")
NUM_JOBS = 30
STANDARD = "standard"
TRUSTS = ("trust_cores", "trust_times")


@cache
def golden() -> dict[str, tuple[str, str]]:
    """Return mean JCT and digest of finish times of `union` in the first test window of each workload."""
    with GOLDEN.open(newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["policy"] == "union" and row["window"] == "0"]
    return {row["workload"]: (row["mean_jct_s"], row["digest"]) for row in rows}


@cache
def first_test_window(workload: str) -> Workload:
    return windows(named(workload), "test", 1)[0]


def outcome(policy: Policy, workload: str, *, step_by_step: bool = False) -> tuple[str, str]:
    """Return mean JCT and digest of finish times, as `benchmarks.per_window` does."""
    load = first_test_window(workload)
    table = load.results(run(policy, load.episode(), step_by_step=step_by_step))
    digest = hashlib.sha256(table["finish_s"].to_numpy(float).tobytes()).hexdigest()[:16]
    return repr(float(table["jct_s"].mean())), digest


@pytest.mark.parametrize("step_by_step", [False, True])
def test_results_equal_the_frozen_ones(step_by_step: bool) -> None:
    """`tests/policies/test_frozen_results.py` has smaller workloads; `benchmarks.per_window` all, nightly.

    For windows of more than 512 jobs the kernel would be compiled once more, which takes most of a minute.
    """
    assert outcome(Rule(), "philly_backlog", step_by_step=step_by_step) == golden()["philly_backlog"]


def moved(name: str) -> Rule:
    """Return the rule with one weight moved by half of it, or a switch off."""
    weight = next(each for each in RULE_PARAMETERS if each.name == name)
    if weight.scale == 0:
        return Rule(**{name: 0.0})
    value = 1.5 * weight.default if weight.default else 0.5
    return Rule(**{name: value if value <= weight.high else weight.default / 1.5})


@pytest.mark.parametrize("name", [each.name for each in RULE_PARAMETERS if each.name not in TRUSTS])
def test_frozen_results_notice_each_weight(name: str) -> None:
    """A fault that disables any lever or weight changes a frozen result."""
    assert any(
        outcome(moved(name), workload) != golden()[workload] for workload in ("mixed", "philly_backlog")
    )


def any_rule(rng: np.random.Generator, spread: float) -> Rule:
    """Draw weights around the defaults; each switch is off with probability 0.1."""
    weights = {}
    for each in RULE_PARAMETERS:
        if each.name in TRUSTS:
            weights[each.name] = rng.choice([0.0, rng.random(), 1.0])
            continue
        moved = each.default + spread * each.scale * rng.standard_normal()
        switch = float(rng.random() > 0.1)
        weights[each.name] = float(np.clip(moved, each.low, each.high)) if each.scale else switch
    return Rule(**weights)


def one_window(workload: str, number: int = 0, **fields: object) -> Workload:
    """Return a training window of a workload, a few jobs from an empty cluster."""
    few = {"jobs": NUM_JOBS, "all_windows": True, "steady_load": None}
    scenario = replace(named(workload), **few | fields)  # type: ignore[arg-type]
    return windows(scenario, "train", number + 1)[number]


def finishes(policy: Policy, load: Workload, *, step_by_step: bool = False) -> list[float]:
    """Return the finish time of each job, after a check of the final state."""
    episode: Episode = run(policy, load.episode(), step_by_step=step_by_step)
    assert legality.check(episode.states, 0, episode.jobs) == 0
    ends: list[float] = episode.state.finish_s[: len(episode.jobs)].tolist()
    assert np.isfinite(ends).all()
    return ends


def legal_and_equal(rule: Rule, load: Workload) -> bool:
    """Return whether step by step, where illegal actions raise, jobs end as in the compiled run."""
    return finishes(rule, load) == finishes(rule, load, step_by_step=True)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("workload", WORKLOADS)
def test_any_weights_are_legal_and_the_same_step_by_step(workload: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rule = any_rule(rng, rng.choice([0.5, 1.0, 3.0]))
    physics = {"physics": STANDARD} if workload == "philly_backlog" else {}
    assert legal_and_equal(rule, one_window(workload, seed % 2, **physics))


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_jobs_larger_than_any_node(spread: float) -> None:
    rule = any_rule(np.random.default_rng(7), spread)
    assert legal_and_equal(rule, one_window("philly_backlog", physics="exclusive", cluster="18x2"))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("workload", ["mixed", "philly_backlog", "coda_mix"])
def test_any_weights_with_history(workload: str, seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    rule = replace(any_rule(rng, 0.5), cores=1.0, trust_cores=(1.0, 0.5)[seed % 2], trust_times=1.0)
    physics = {"physics": STANDARD} if workload == "philly_backlog" else {}
    load = one_window(workload, seed % 2, **physics | {"run_time_predictor": workload})
    assert load.episode().histories[0].num_cells
    assert legal_and_equal(rule, load)
    assert finishes(rule, load) != finishes(replace(rule, trust_cores=0, trust_times=0), load)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("workload", ["philly_backlog", "aiturbo_ps"])
def test_any_weights_with_gpu_types_and_other_levers(workload: str, seed: int) -> None:
    """Sharing, sizes, cores or servers, on V100s and K80s."""
    rng = np.random.default_rng(seed)
    rule, scenario = any_rule(rng, rng.choice([0.5, 1.0, 3.0])), named(workload)
    parts = ",".join(sorted(scenario.parts | {"gpu_types"}))
    machines = {"philly_backlog": "2x8+2x8-k80", "aiturbo_ps": "2x4-64c+2x4-k80-64c"}[workload]
    load = one_window(workload, seed % 2, physics=parts, cluster=machines, drop_too_large=True)
    assert legal_and_equal(rule, load)


# Laws of decisions, where GPUs are exclusive and cores do not matter.


def idles(view: View, action: Action) -> bool:
    """Return whether a policy waits although a queued job fits and no GPUs are being freed for another."""
    return isinstance(action, Wait) and len(view.startable) > 0 and len(view.pausing) == 0


def pauses_without_gain(view: View, action: Action) -> bool:
    """Return whether a job is paused that is no longer than every queued job, or within a minute of its start."""
    if not isinstance(action, Preempt):
        return False
    left = view.jobs.remaining_s
    ran_s = view.now - view.jobs.phase_began_s[action.job]
    return bool(left[action.job] <= left[view.queue].min() or ran_s < Rule().settled)


def count_breaches(policy: Policy, breach: Callable[[View, Action], bool], workload: str) -> int:
    """Return how many actions of an episode break a law."""
    found = 0

    def watched(view: View) -> Action:
        nonlocal found
        action = policy(view)
        found += breach(view, action)
        return action

    run(watched, one_window(workload, jobs=120, physics="exclusive").episode())
    return found


def idle_for_a_while(view: View) -> Action:
    """Follow `union`, but start nothing in the first hour."""
    return Wait(600.0) if view.now < view.jobs.submit_s[0] + 3600.0 else ORDER(view)


def pause_anything(view: View) -> Action:
    """Pause a running job whenever one may be, if others wait; else start what fits."""
    if len(view.queue) and len(view.preemptible) and view.instant % 5 == 0 and not len(view.pausing):
        return Preempt(int(view.preemptible[0]))
    return view.start_first(view.waiting) or Wait()


ORDER = Rule()


@pytest.mark.parametrize("workload", ["philly_backlog", "quick", "xion_small"])
@pytest.mark.parametrize("law", [idles, pauses_without_gain])
def test_it_conserves_work_and_pauses_for_shorter_jobs_only(
    law: Callable[[View, Action], bool], workload: str
) -> None:
    assert count_breaches(Rule(), law, workload) == 0


@pytest.mark.parametrize(("law", "fault"), [(idles, idle_for_a_while), (pauses_without_gain, pause_anything)])
def test_the_laws_notice_planted_faults(law: Callable[[View, Action], bool], fault: Policy) -> None:
    assert count_breaches(fault, law, "philly_backlog") > 0


def test_no_pause_pays_at_an_infinite_price_of_others_losses() -> None:
    load = one_window("xion_small", jobs=120)
    paused = load.results(run(Rule(), load.episode()))["preemptions"].sum()
    assert paused > 0
    for weights in ({"caution": 1e6, "backlog": 0.0}, {"settled": 1e6}):
        assert load.results(run(Rule(**weights), load.episode()))["preemptions"].sum() == 0


def test_without_a_history_trust_changes_nothing() -> None:
    load = one_window("mixed")
    assert finishes(Rule(trust_cores=1, trust_times=1), load) == finishes(Rule(), load)


def changed_midway(load: Workload, former: Rule, later: Rule, *, fresh_memory: bool) -> list[float]:
    """Return finish times under a rule that changes midway: its weights alone, or its memory as well."""
    episode = load.episode()
    states, jobs = episode.states, episode.jobs
    memory = memory_of(former, states, jobs, episode.histories)
    middle = float(jobs["submit_s"][len(jobs) // 2])
    decide.run_until(states, 0, memory, 0, jobs, middle)
    while memory["pending_job"][0] != NOBODY:
        decide.run_until(states, 0, memory, 0, jobs, states["clock"][0] + 1.0)
    if fresh_memory:
        memory = memory_of(later, states, jobs, episode.histories)
    for each in RULE_PARAMETERS:
        memory[each.name] = getattr(later, each.name)
    decide.run_until(states, 0, memory, 0, jobs, np.inf)
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
def test_no_cache_depends_on_former_weights(name: str, former: float, later: float) -> None:
    load = one_window("busy", jobs=240, run_time_predictor="mixed")
    before, after = (Rule(cores=0, **{name: value}) for value in (former, later))
    assert changed_midway(load, before, after, fresh_memory=False) == changed_midway(
        load, before, after, fresh_memory=True
    )
    assert changed_midway(load, before, after, fresh_memory=False) != changed_midway(
        load, before, before, fresh_memory=False
    )


def test_weights_out_of_bounds_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"price -1: expected 0 to 1e\+06; caution nan: expected"):
        Rule(price=-1, caution=float("nan"))
