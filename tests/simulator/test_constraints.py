"""Jobs run only on nodes that their constraints allow, after the jobs that they wait for; plain accounts agree."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.constraints import Constraints, circle_in
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.cluster.layout import HELD, MAX_GROUPS
from gpu_cluster_gym.simulator.policy import Placement, Ranking, Start, Wait
from tests.accounts import reference
from tests.accounts import tenants as account
from tests.accounts.reference import Bound, Job, Node, Outcome, Rules
from tests.accounts.tenants import Quotas
from tests.cases import tenants as cases
from tests.cases.bound import compiled, constraints_of, episode_of, random_bound
from tests.cases.scenarios import MIXED, outcomes, random_jobs
from tests.cases.uncompiled import with_the_compiler_off

Simulate = Callable[[Sequence[Job], Sequence[Node], Rules, Bound], list[Outcome]]


def plain(jobs: Sequence[Job], nodes: Sequence[Node], rules: Rules, bound: Bound) -> list[Outcome]:
    return reference.simulate(jobs, nodes, rules, bound=bound)


either = pytest.mark.parametrize("simulate", [plain, compiled], ids=["account", "kernel"])

FIFO = Rules("submit", preempt=False, estimates=False)
EASY = FIFO._replace(discipline="easy")
SRTF = Rules("remaining", preempt=True, estimates=False)
ORDERS = (
    FIFO,
    FIFO._replace(discipline="strict"),
    EASY,
    FIFO._replace(key="estimate"),
    SRTF,
    SRTF._replace(discipline="strict"),
    SRTF._replace(key="level", levels=(3250.0, 7200.0)),
)
"""Rankings of the comparison with the accounts: fifo, strict, easy, sjf, srtf, las."""


def job(submit: float, gpus: int, duration: float, **given: Any) -> Job:
    """Make a job with an exact estimate, 1 GiB and free preemption, unless given."""
    return Job(submit, gpus, duration, duration, 1.0, 0.0, 0.0)._replace(**given)


def nodes(*gpus: int) -> list[Node]:
    return [Node(count, 16.0, 48) for count in gpus]


def bound(*allowed: set[int], waits_for: dict[int, set[int]] | None = None) -> Bound:
    waits = waits_for or {}
    return Bound(
        tuple(map(frozenset, allowed)),
        tuple(frozenset(waits.get(index, ())) for index in range(len(allowed))),
    )


def finishes(found: list[Outcome]) -> list[float]:
    return [outcome.finish_s for outcome in found]


# Timelines worked by hand.

BOTH = {0, 1}


@either
def test_a_job_waits_for_its_own_node_though_another_is_idle(simulate: Simulate) -> None:
    """A 0-10 and B 10-20 on node 0; C, which may use both nodes, 2-12 on node 1."""
    jobs = [job(0, 2, 10), job(1, 2, 10), job(2, 2, 10)]
    assert finishes(simulate(jobs, nodes(2, 2), FIFO, bound({0}, {0}, BOTH))) == [10, 20, 12]


@either
def test_a_gang_spans_only_nodes_that_it_may_use(simulate: Simulate) -> None:
    """B, of four GPUs, may use nodes 0 and 2, of two GPUs; A holds one until 10. Node 1, of four, is always idle."""
    jobs = [job(0, 2, 10), job(1, 4, 5)]
    found = simulate(jobs, nodes(2, 4, 2), FIFO, bound({0}, {0, 2}))
    assert finishes(found) == [10, 15]


@either
def test_a_job_is_paused_only_where_that_helps(simulate: Simulate) -> None:
    """C, of 5 s, may use node 1 only: it takes the place of B (50 s, 2-52), not of A (100 s)."""
    jobs = [job(0, 2, 100), job(0, 2, 50), job(2, 2, 5)]
    assert finishes(simulate(jobs, nodes(2, 2), SRTF, bound({0}, {1}, {1}))) == [100, 55, 7]


@either
def test_easy_reserves_on_nodes_that_the_head_may_use(simulate: Simulate) -> None:
    """B waits for A on node 0 until 10. C, of 20 s, would delay it there, and D on node 1 does not.

    node 0  A 0-10   B 10-15   C 15-35
    node 1  D 3-23 on one GPU, and the other is idle
    """
    jobs = [job(0, 1, 10), job(1, 2, 5), job(2, 1, 20), job(3, 1, 20)]
    assert finishes(simulate(jobs, nodes(2, 2), EASY, bound({0}, {0}, {0}, {1}))) == [10, 15, 35, 23]


@either
def test_easy_reserves_for_a_head_of_each_partition(simulate: Simulate) -> None:
    """B waits for node 0 until 10, and D for node 1 until 12; E, of 20 s, would delay D, and F, of 7 s, does not.

    node 0  A 0-10   B 10-15
    node 1  C 2-12 on one GPU   F 5-12 on the other   D 12-17   E 17-37
    """
    jobs = [job(0, 1, 10), job(1, 2, 5), job(2, 1, 10), job(3, 2, 5), job(4, 1, 20), job(5, 1, 7)]
    found = simulate(jobs, nodes(2, 2), EASY, bound({0}, {0}, {1}, {1}, {1}, {1}))
    assert finishes(found) == [10, 15, 12, 17, 37, 12]


@either
def test_a_job_starts_when_the_last_that_it_waits_for_ends(simulate: Simulate) -> None:
    """C waits for A (0-10) and B (0-30), though GPUs are idle; its wait counts from its submission at 5."""
    jobs = [job(0, 1, 10), job(0, 1, 30), job(5, 1, 10)]
    found = simulate(jobs, nodes(4), FIFO, bound({0}, {0}, {0}, waits_for={2: {0, 1}}))
    assert finishes(found) == [10, 30, 40]
    assert found[2].wait_s == 25


@either
def test_a_job_may_wait_for_one_that_is_submitted_later(simulate: Simulate) -> None:
    """A, of 0, waits for B, of 50: B 50-60, A 60-70."""
    jobs = [job(0, 1, 10), job(50, 1, 10)]
    assert finishes(simulate(jobs, nodes(1), FIFO, bound({0}, {0}, waits_for={0: {1}}))) == [70, 60]


@either
def test_a_held_job_does_not_block_the_queue(simulate: Simulate) -> None:
    """Under strict FIFO B, which waits for A, is not in the queue: C starts at 2."""
    jobs = [job(0, 1, 100), job(1, 1, 10), job(2, 1, 10)]
    strict = FIFO._replace(discipline="strict")
    found = simulate(jobs, nodes(2), strict, bound({0}, {0}, {0}, waits_for={1: {0}}))
    assert finishes(found) == [100, 110, 12]


@either
def test_a_blocked_job_blocks_only_nodes_that_it_may_use(simulate: Simulate) -> None:
    """Under strict FIFO B, which waits for A on node 0, does not block C on node 1.

    D, which may use both nodes, waits for B, and E, which may use node 1, for D.

    node 0  A 0-10   B 10-20
    node 1  C 2-7    D and E 10-15
    """
    jobs = [job(0, 2, 10), job(1, 2, 10), job(2, 1, 5), job(3, 1, 5), job(4, 1, 5)]
    strict = FIFO._replace(discipline="strict")
    found = simulate(jobs, nodes(2, 2), strict, bound({0}, {0}, {1}, BOTH, {1}))
    assert finishes(found) == [10, 20, 7, 15, 15]


@either
def test_with_pauses_a_blocked_job_blocks_only_nodes_that_it_may_use(simulate: Simulate) -> None:
    """Under strict SRTF C, longer than A, waits for node 0; D, longer than both, displaces B on node 1 all the same.

    node 0  A 0-30   C 30-80
    node 1  B 0-2    D 2-62 on one GPU   B 62-160
    """
    jobs = [job(0, 2, 30), job(0, 2, 100), job(1, 2, 50), job(2, 1, 60)]
    strict = SRTF._replace(discipline="strict")
    found = simulate(jobs, nodes(2, 2), strict, bound({0}, {1}, {0}, {1}))
    assert finishes(found) == [30, 160, 80, 62]


def test_a_held_job_is_present_but_not_queued() -> None:
    jobs = [job(0, 1, 10), job(0, 1, 10)]
    episode = episode_of(jobs, nodes(4), FIFO, bound({0}, {0}, waits_for={1: {0}}))
    episode.advance()
    view = episode.view
    assert view.queue.tolist() == [0]
    assert view.jobs.phase[1] == HELD
    assert episode.num_present == 2
    assert "not queued" in (view.why_not(Start(1, Placement((0,)))) or "")


def test_a_start_on_another_node_is_illegal_and_says_so() -> None:
    episode = episode_of([job(0, 1, 10)], nodes(1, 1), FIFO, bound({1}))
    episode.advance()
    view = episode.view
    assert view.can_hold(0).tolist() == [False, True]
    assert "constraints do not allow" in (view.why_not(Start(0, Placement((0,)))) or "")
    assert view.why_not(Start(0, Placement((1,)))) is None
    assert (placed := view.place(0)) is not None
    assert placed.gpus == (1,)


def test_the_invariants_catch_a_job_on_a_wrong_node() -> None:
    """The check of the state counts a job that holds GPUs of a node that its constraints do not allow."""
    episode = episode_of([job(0, 1, 10)], nodes(1, 1), FIFO, bound({1}))
    episode.advance()
    episode.apply(Start(0, Placement((1,))))
    assert legality.check(episode.states, 0, episode.jobs) == 0
    episode.jobs["barred"] = ~episode.jobs["barred"] & 3
    assert legality.check(episode.states, 0, episode.jobs) > 0


# Refusals.


def test_jobs_that_wait_for_one_another_are_refused() -> None:
    circle = Constraints(waits_for=np.array([[0, 1], [1, 2], [2, 1]]))
    with pytest.raises(ValueError, match="in a circle and could never start: 1, 2; correct"):
        circle.check("best_fit")
    assert circle_in(np.array([[3, 3]])) == [3]
    assert circle_in(np.array([[3, 2], [2, 1], [3, 1], [2, 0], [1, 0]])) == []


def test_jobs_bound_to_nodes_are_refused_in_a_pool() -> None:
    with pytest.raises(ValueError, match="placement pooled does not support jobs that are bound to nodes"):
        episode_of([job(0, 1, 10)], nodes(2), FIFO._replace(placement="pooled"), bound({0}))


def test_jobs_that_fit_no_allowed_node_are_refused() -> None:
    with pytest.raises(ValueError, match=r"1 jobs can never run on test \(the first is job 0"):
        episode_of([job(0, 2, 10)], nodes(1, 2), FIFO, bound({0}))


def test_the_kinds_of_nodes_are_limited() -> None:
    count = MAX_GROUPS + 1
    one_each = bound(*({number} for number in range(count)))
    with pytest.raises(
        ValueError, match=f"{count} kinds of nodes in one cluster.*expected at most {MAX_GROUPS}"
    ):
        episode_of([job(0, 1, 10)] * count, nodes(*[1] * count), FIFO, one_each)


# The accounts agree.


def random_case(seed: int, count: int) -> tuple[list[Job], Rules, Bound]:
    rng = np.random.default_rng([seed, 5])
    rules = FIFO._replace(
        placement=("best_fit", "first_fit", "spread")[seed % 3],
        estimates=seed % 2 == 0,
        preemption=seed % 4 != 3,
        levels=(3250.0, 7200.0),
    )
    jobs = random_jobs(rng, count)
    return jobs, rules, random_bound(rng, jobs, MIXED, rules)


def under(order: Rules, rules: Rules) -> Rules:
    return rules._replace(key=order.key, preempt=order.preempt, discipline=order.discipline)


def differing(seeds: Sequence[int], count: int) -> list[Rules]:
    wrong = []
    for seed in seeds:
        jobs, drawn, binds = random_case(seed, count)
        for rules in (under(order, drawn) for order in ORDERS):
            expected = reference.simulate(jobs, MIXED, rules, bound=binds)
            ways = (compiled(jobs, MIXED, rules, binds, step_by_step=stepwise) for stepwise in (False, True))
            wrong += [rules for found in ways if found != expected]
    return wrong


def test_the_account_agrees_on_random_jobs() -> None:
    assert differing(range(4), 60) == []


@pytest.mark.slow  # the account takes minutes for these cases
def test_the_account_agrees_on_many_random_jobs() -> None:
    assert differing(range(4, 60), 120) == []


def test_random_constraints_matter() -> None:
    """Without them, without dependencies, or without nodes, jobs end at other times."""
    jobs, rules, binds = random_case(0, 60)
    free = Bound((frozenset(range(len(MIXED))),) * 60, (frozenset(),) * 60)
    ways = [binds, binds._replace(nodes=free.nodes), binds._replace(waits_for=free.waits_for), free]
    ends = {tuple(finishes(compiled(jobs, MIXED, rules, each))) for each in ways}
    assert len(ends) == 4
    assert any(other > index for index, each in enumerate(binds.waits_for) for other in each)
    assert constraints_of(binds, len(MIXED)).may_use.shape[1] == 4


def differing_with_tenants(seeds: Sequence[int], count: int) -> list[tuple[Rules, str]]:
    wrong = []
    for seed in seeds:
        for borrowing in ("none", "idle", "reclaim"):
            jobs, quotas, drawn = cases.random_case(seed, borrowing, count)
            binds = random_bound(np.random.default_rng([seed, 6]), jobs, MIXED, drawn)
            for rules in (under(order, drawn) for order in ORDERS):
                if strict_borrowing_may_wait_forever(rules, quotas):
                    continue
                found = compiled(jobs, MIXED, rules, binds, quotas)
                if found != account.simulate(jobs, MIXED, rules, quotas, binds):
                    wrong.append((rules, borrowing))
    return wrong


def strict_borrowing_may_wait_forever(rules: Rules, quotas: Quotas) -> bool:
    """Return whether a queue's first job may wait for GPUs that others claim, which docs/rules.md names an error."""
    return rules.discipline == "strict" and quotas.borrowing != "none"


def test_the_account_agrees_with_tenants() -> None:
    assert differing_with_tenants(range(2), 30) == []


@pytest.mark.slow  # the account takes minutes for these cases
def test_the_account_agrees_with_tenants_on_many_random_jobs() -> None:
    assert differing_with_tenants(range(2, 30), 60) == []


def test_constraints_that_allow_everything_change_nothing() -> None:
    for seed in range(2):
        jobs, drawn, _ = random_case(seed, 60)
        kind = np.arange(len(MIXED))
        allowed = Constraints(kind, np.ones((60, len(MIXED)), bool))
        for order in ORDERS:
            rules = under(order, drawn)
            free = Bound((frozenset(kind.tolist()),) * 60, (frozenset(),) * 60)
            assert compiled(jobs, MIXED, rules, free) == reference.simulate(jobs, MIXED, rules)
        assert allowed.bind_nodes


def few_results() -> list[list[Outcome]]:
    found = []
    for seed in range(2):
        jobs, drawn, binds = random_case(seed, 25)
        found += [compiled(jobs, MIXED, under(order, drawn), binds) for order in ORDERS]
    return found


def test_it_means_the_same_with_the_compiler_off() -> None:
    plain_results = [[Outcome(*row) for row in rows] for rows in with_the_compiler_off(few_results)]
    assert plain_results == few_results()


# Policies.


@pytest.mark.parametrize(
    "name", ["xion", "xion_threshold", "union", "srtf", "easy", "gavel", "themis", "tiresias"]
)
def test_a_policy_keeps_constraints_at_every_action(name: str) -> None:
    """The invariants hold, held jobs stay held, and each job starts after those that it waits for have ended."""
    jobs, rules, binds = random_case(2, 60)
    episode = episode_of(jobs, MIXED, rules, binds)
    policy = baselines.make(baselines.load(name))
    if isinstance(policy, Ranking):
        episode = run(policy, episode, step_by_step=True)
    else:
        while not episode.done and episode.advance():
            while not isinstance(action := policy(episode.view), Wait):
                episode.apply(action)
                assert legality.check(episode.states, 0, episode.jobs) == 0
            episode.apply(action)
    assert episode.done
    found = outcomes(episode)
    for index, others in enumerate(binds.waits_for):
        assert all(found[index].start_s >= found[other].finish_s for other in others)
