"""Irrelevant changes have no effect: units and origin of time, GPU indices, useless machines, cloning."""

import itertools
import math

import numpy as np
import pytest

from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.policy import Action, Placement, Ranking, Start
from gpu_cluster_gym.simulator.source import adopt
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
PAYING = Ranking("weighted", "cost_aware", exponent=1.0, margin=0.5)
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


@pytest.mark.parametrize("factor", [2.0, 0.25])
@pytest.mark.parametrize("rules", EXACT, ids=name)
def test_the_unit_of_time_does_not_matter(rules: Rules, factor: float) -> None:
    """Multiplying by a power of two is exact and commutes with sums; there is no tick and no floor of 15 s."""
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


@pytest.mark.parametrize("rules", EXACT, ids=name)
def test_no_job_waits_if_all_fit(rules: Rules) -> None:
    """With a node for each job, a job finds a free one when it arrives, and no other is ever in its way."""
    jobs = drawn(count=30)
    plenty = [Node(16, 24.0, 96)] * len(jobs)
    assert all(
        outcome == Outcome(job.submit_s, job.submit_s + job.duration_s, 0.0, job.duration_s, 0.0, 0)
        for job, outcome in zip(jobs, compiled(jobs, plenty, rules), strict=True)
    )


@pytest.mark.parametrize("seed", range(10))
def test_another_gpu_in_a_pool_delays_no_job_under_strict_fifo(seed: int) -> None:
    """By induction: if all before it start no later, they are gone no later, and start before it as ever."""
    strict = Rules("submit", preempt=False, placement="pooled", discipline="strict", memory=False)
    jobs = drawn(seed)
    fewer, more = (compiled(jobs, [Node(gpus, 24.0, 96)], strict) for gpus in (20, 21))
    assert all(b.start_s <= a.start_s for a, b in zip(fewer, more, strict=True))
    assert more != fewer


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


# Clones.


def stopped(ranking: Ranking, placement: str = "best_fit", instants: int = 90) -> Episode:
    """Carry a ranking out for some instants, the last one's walk not yet done."""
    episode = episode_of(drawn(3, 80), MIXED, Rules("submit", preempt=False, placement=placement))
    episode.set_levels(ranking.levels)
    adopt(episode.states, 0, episode.jobs, ranking)
    for _ in range(instants):
        calls.walk(episode.states, 0, episode.jobs)
        episode.advance()
    assert not episode.done
    return episode


def clone(episode: Episode) -> None:
    """Copy the episode's record over the second one."""
    episode.states[1] = episode.states[0]


RUNNING = {
    "fifo": Ranking("submit"),
    "srtf": Ranking("remaining", "by_order"),
    "las": Ranking("level", "by_order", levels=LEVELS),
    "paying": PAYING,
}


@pytest.mark.parametrize("placement", ["best_fit", "pooled"])
@pytest.mark.parametrize("ranking", RUNNING.values(), ids=RUNNING)
def test_a_clone_goes_on_as_the_original_does(ranking: Ranking, placement: str) -> None:
    episode = stopped(ranking, placement)
    clone(episode)
    for row in (1, 0):
        calls.walk(episode.states, row, episode.jobs)
        assert calls.run_rule(episode.states, row, episode.jobs)
    assert episode.states[1].tobytes() == episode.states[0].tobytes()


def jobs_present(episode: Episode) -> tuple[np.ndarray, np.ndarray]:
    """Carry the rule in force to the end; return the times of the instants, and the jobs present after each."""
    times, present = [], []
    while not episode.done:
        calls.walk(episode.states, 0, episode.jobs)
        times.append(float(episode.state.clock))
        present.append(int(episode.state.num_arrived - episode.state.num_done))
        episode.advance()
    return np.array([*times, float(episode.state.clock)]), np.array(present)


@pytest.mark.parametrize("tau", [60.0, 2_000.0, 1e6])
@pytest.mark.parametrize("ranking", RUNNING.values(), ids=RUNNING)
def test_a_rollout_is_the_discounted_integral_of_jobs_present(ranking: Ranking, tau: float) -> None:
    """Integrate exp(-u / tau) n(u) by midpoints, up to 4 tau."""
    episode = stopped(ranking)
    clone(episode)
    cost = calls.rollout(episode.states, 1, episode.jobs, tau)
    times, present = jobs_present(episode)
    ages = times - times[0]
    edges = np.linspace(0, min(4 * tau, ages[-1]), 400_001)
    middles = (edges[1:] + edges[:-1]) / 2
    there = present[np.searchsorted(ages, middles, side="right") - 1]
    assert cost == pytest.approx((there * np.exp(-middles / tau)).sum() * edges[1], rel=1e-4)


@pytest.mark.parametrize("ranking", RUNNING.values(), ids=RUNNING)
def test_an_endless_rollout_is_the_plain_integral(ranking: Ranking) -> None:
    episode = stopped(ranking)
    clone(episode)
    before = float(episode.state.present_seconds)
    cost = calls.rollout(episode.states, 1, episode.jobs, math.inf)
    times, present = jobs_present(episode)
    assert cost == pytest.approx((np.diff(times) * present).sum(), rel=1e-12)
    assert cost == pytest.approx(episode.state.present_seconds - before, rel=1e-12)


@pytest.mark.parametrize("wait", [True, False], ids=["waiting", "picking"])
def test_an_advantage_is_the_difference_of_two_futures(wait: bool) -> None:
    """With an endless horizon that is a difference in total JCT; here the rule would pick another job."""
    episode = next(
        found for found in map(stopped, [PAYING] * 40, ["best_fit"] * 40, range(50, 90)) if choice(found)
    )
    job = -1 if wait else choice(episode)
    alone, other = episode.states.copy(), episode.states.copy()
    assert calls.next_pick(alone, 0, episode.jobs) != job
    if wait:
        calls.advance(other, 0, episode.jobs)
    else:
        assert calls.pick(other, 0, episode.jobs, job)
    for future in (alone, other):
        calls.walk(future, 0, episode.jobs)
        assert calls.run_rule(future, 0, episode.jobs)
    gain = calls.advantage(episode.states, 0, 1, episode.jobs, job, math.inf)
    assert gain == pytest.approx(alone["present_seconds"][0] - other["present_seconds"][0], abs=1e-6)
    assert gain != 0


def choice(episode: Episode) -> int:
    """Return a job that could be picked though the rule prefers another, 0 if there is none."""
    able = episode.view.startable.tolist()
    return next((job for job in able if job != calls.next_pick(episode.states, 0, episode.jobs)), 0)


def test_trying_futures_leaves_the_present_alone() -> None:
    episode = stopped(PAYING)
    clone(episode)
    before = episode.states[0].tobytes()
    calls.rollout(episode.states, 1, episode.jobs, 1e4)
    calls.advantage(episode.states, 0, 1, episode.jobs, -1, 1e4)
    assert episode.states[0].tobytes() == before
