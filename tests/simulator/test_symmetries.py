"""Irrelevant changes have no effect: units and origin of time, GPU indices, useless machines."""

import itertools

import numpy as np
import pytest

from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.policy import Action, Placement, Start
from tests.accounts.ledger import Ledger
from tests.accounts.reference import Job, Node, Outcome, Rules
from tests.cases.scenarios import MIXED, Restless, compiled, episode_of, outcomes, random_jobs

LEVELS = (3250.0, 7200.0)
EXACT = [
    Rules(key, preempt, placement, discipline, estimates=False, levels=LEVELS)
    for (key, preempt, discipline), placement in itertools.product(
        [
            ("submit", False, "greedy"),
            ("submit", False, "strict"),
            ("estimate", False, "easy"),
            ("remaining", True, "greedy"),
            ("remaining_area", True, "strict"),
            ("level", True, "greedy"),
        ],
        ["best_fit", "spread", "pooled"],
    )
]
TIMES = ("submit_s", "duration_s", "estimate_s", "pause_s", "load_s")


def name(rules: Rules) -> str:
    return f"{rules.key}-{rules.placement}-{rules.discipline}"


def drawn(seed: int = 0, count: int = 100) -> list[Job]:
    return random_jobs(np.random.default_rng(seed), count)


def in_other_units(job: Job, factor: float) -> Job:
    return job._replace(**{time: factor * getattr(job, time) for time in TIMES})


def stretched(outcome: Outcome, factor: float) -> Outcome:
    start, finish, wait, run, overhead = (factor * seconds for seconds in outcome[:5])
    return Outcome(start, finish, wait, run, overhead, outcome.preemptions)


# Time.


@pytest.mark.parametrize("rules", EXACT, ids=name)
def test_the_unit_of_time_does_not_matter(rules: Rules) -> None:
    """Multiplying by a power of two is exact and commutes with sums; there is no tick and no floor of 15 s."""
    factor = 0.25
    other = rules._replace(levels=tuple(factor * limit for limit in LEVELS))
    jobs = [in_other_units(job, 1 / 7) for job in drawn()]
    expected = [stretched(outcome, factor) for outcome in compiled(jobs, MIXED, rules)]
    assert compiled([in_other_units(job, factor) for job in jobs], MIXED, other) == expected


@pytest.mark.parametrize("rules", EXACT, ids=name)
def test_the_origin_of_time_does_not_matter(rules: Rules) -> None:
    """Sums of whole seconds are exact. Levels are reached at fractions of a second: there, to rounding."""
    jobs = drawn()
    before = np.array(compiled(jobs, MIXED, rules))
    later = compiled([job._replace(submit_s=job.submit_s + 86_400) for job in jobs], MIXED, rules)
    before[:, :2] += 86_400
    assert np.allclose(later, before, rtol=0, atol=1e-6 if rules.key == "level" else 0)


def test_with_ticks_the_origin_moves_by_whole_ticks() -> None:
    rules = Rules("remaining", preempt=True)
    jobs = drawn()
    before = np.array(compiled(jobs, MIXED, rules))
    before[:, :2] += 3_000
    later = compiled([job._replace(submit_s=job.submit_s + 3_000) for job in jobs], MIXED, rules)
    assert np.array_equal(later, before)


# Machines.


@pytest.mark.parametrize("rules", [rules for rules in EXACT if rules.placement != "pooled"], ids=name)
def test_nodes_that_can_hold_no_job_do_not_matter(rules: Rules) -> None:
    """A placement looks only at nodes whose GPUs are large enough. In a pool, all GPUs are alike."""
    jobs = [job._replace(gpu_memory_gib=max(job.gpu_memory_gib, 8.0)) for job in drawn()]
    useless = Node(8, 4.0, 48)
    assert compiled(jobs, [useless, *MIXED, useless], rules) == compiled(jobs, MIXED, rules)


def renamed(action: Action, names: np.ndarray) -> Action:
    match action:
        case Start(job, placement):
            return Start(job, Placement(tuple(names[list(placement.gpus)].tolist())))
    return action


def replay(moves: list[tuple[float, Action]], episode: Episode) -> Ledger:
    """Make the same moves again; each wait ends an instant."""
    actions = iter([action for _, action in moves])
    return Ledger(episode).play(lambda view: next(actions))


@pytest.mark.parametrize("seed", range(4))
def test_names_of_gpus_do_not_matter(seed: int) -> None:
    """The same moves on GPUs named otherwise inside their nodes: which GPU of a node it is means nothing."""
    rules = Rules("submit", preempt=False)
    first = Ledger(episode_of(drawn(seed, 60), MIXED, rules)).play(Restless(seed))
    nodes = first.episode.view.gpus.node
    names = np.lexsort((np.random.default_rng(seed).random(len(nodes)), nodes))
    assert not np.array_equal(names, np.arange(len(nodes)))
    moves = [(clock, renamed(action, names)) for clock, action in first.moves]
    again = replay(moves, episode_of(drawn(seed, 60), MIXED, rules))
    assert outcomes(again.episode) == outcomes(first.episode)
    assert [clock for clock, _ in again.moves] == [clock for clock, _ in first.moves]
