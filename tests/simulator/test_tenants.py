"""Tenants hold what their quotas allow, borrow idle GPUs, and take theirs back; a plain account agrees to the bit."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.errors import StalledEpisodeError
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.policy import Action, Placement, Policy, Preempt, Ranking, Start, Wait
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import Scenario, windows
from tests.accounts import tenants as account
from tests.accounts.reference import Job, Node, Outcome, Rules
from tests.accounts.tenants import Quotas
from tests.cases import scenarios
from tests.cases.scenarios import MIXED, outcomes, ranking_of
from tests.cases.tenants import compiled, episode_of, random_case
from tests.cases.uncompiled import with_the_compiler_off

Simulate = Callable[[Sequence[Job], Sequence[Node], Rules, Quotas], list[Outcome]]
SIMULATORS: list[Simulate] = [account.simulate, compiled]
either = pytest.mark.parametrize("simulate", SIMULATORS, ids=lambda simulate: simulate.__module__)

FIFO = Rules("submit", preempt=False, estimates=False)
SRTF = Rules("remaining", preempt=True, estimates=False)
EASY = FIFO._replace(discipline="easy")
STRICT = FIFO._replace(discipline="strict")
BORROWING = ("none", "idle", "reclaim")
ORDERS = (
    FIFO,
    STRICT,
    EASY,
    FIFO._replace(key="estimate"),
    SRTF,
    SRTF._replace(discipline="strict"),
    SRTF._replace(key="level"),
)
"""Rankings of the comparison with the account; the other rules are drawn."""


def job(submit: float, gpus: int, duration: float, **given: Any) -> Job:
    """Make a job with an exact estimate, 1 GiB and free preemption, unless given."""
    return Job(submit, gpus, duration, duration, 1.0, 0.0, 0.0)._replace(**given)


def nodes(*gpus: int) -> list[Node]:
    return [Node(count, 16.0, 48) for count in gpus]


def finishes(found: list[Outcome]) -> list[float]:
    return [outcome.finish_s for outcome in found]


# Timelines worked by hand; tenants are 0 and 1.


@either
@pytest.mark.parametrize(
    ("borrowing", "ends"),
    [("none", [600, 1200, 62]), ("idle", [600, 601, 660]), ("reclaim", [600, 661, 62])],
)
def test_two_tenants_with_half_of_the_cluster_each(
    simulate: Simulate, borrowing: str, ends: list[float]
) -> None:
    """A and B, of tenant 0, and C, of tenant 1, need four of eight GPUs each.

    none     A 0-600  B 600-1200          C 2-62
    idle     A 0-600  B 1-601 (borrowed)  C 600-660
    reclaim  A 0-600  B 1-2, paused for C, and 62-661 (borrowed)  C 2-62
    """
    jobs = [job(0, 4, 600), job(1, 4, 600), job(2, 4, 60)]
    assert finishes(simulate(jobs, nodes(8), FIFO, Quotas((0, 0, 1), (4, 4), borrowing))) == ends


@either
def test_free_gpus_that_others_claim_are_not_borrowed(simulate: Simulate) -> None:
    """A borrows two GPUs. B claims four, so that C may not have the other two: both start at 10.

    gpu 0-5  A 0-10   B 10-15
    gpu 6-7           C 10-17
    """
    jobs = [job(0, 6, 10), job(1, 4, 5), job(2, 2, 7)]
    assert finishes(simulate(jobs, nodes(8), FIFO, Quotas((0, 1, 0), (4, 4), "idle"))) == [10, 15, 17]


@either
def test_a_job_wider_than_the_rest_of_its_quota_claims_nothing(simulate: Simulate) -> None:
    """B needs five GPUs of a quota of four: it claims none, so that C borrows; B borrows too once five are free."""
    jobs = [job(0, 6, 10), job(1, 5, 5), job(2, 2, 7)]
    assert finishes(simulate(jobs, nodes(8), FIFO, Quotas((0, 1, 0), (4, 4), "idle"))) == [10, 15, 9]


@either
def test_the_youngest_borrower_is_paused_and_pays(simulate: Simulate) -> None:
    """C takes four GPUs back at 10 from B, which started last: it holds them until 15, and loads 35-38.

    gpu 0-3  A 0-100
    gpu 4-7  B 1-10, pauses 10-15   C 15-35   B loads 35-38, runs 38-79
    """
    jobs = [job(0, 4, 100), job(1, 4, 50, pause_s=5.0, load_s=3.0), job(10, 4, 20)]
    found = simulate(jobs, nodes(8), FIFO, Quotas((0, 0, 1), (4, 4), "reclaim"))
    assert finishes(found) == [100, 79, 35]
    assert [outcome.preemptions for outcome in found] == [0, 1, 0]
    assert found[1].overhead_s == 8


@either
def test_a_job_paused_by_reclaim_does_not_take_the_place_back(simulate: Simulate) -> None:
    """B fits only where A runs. Eight GPUs minus the four of its claim would let A, the first in order, begin again.

    node 0      A 0-10, pauses 10-15   B 15-35   A 35-75
    nodes 1, 2
    """
    jobs = [job(0, 4, 50, pause_s=5.0), job(10, 4, 20)]
    assert finishes(simulate(jobs, nodes(4, 2, 2), FIFO, Quotas((0, 1), (2, 6), "reclaim"))) == [75, 35]


@either
def test_reclaim_spares_whom_it_does_not_need(simulate: Simulate) -> None:
    """D needs a node. C, then B, are paused until it has one: C, on the other node, is spared.

    node 0  B 0-3   D 3-8   B 8-15
    node 1  A 0-10, C 1-11
    """
    jobs = [job(0, 1, 10), job(0, 2, 10), job(1, 1, 10), job(3, 2, 5)]
    quotas = Quotas((0, 0, 0, 1), (1, 3), "reclaim")
    assert finishes(simulate(jobs, nodes(2, 2), FIFO._replace(placement="spread"), quotas)) == [10, 15, 11, 8]


@either
def test_of_those_not_needed_the_first_started_is_spared(simulate: Simulate) -> None:
    """D needs three GPUs. C, B and A are paused until it has them; without either C or B there are enough.

    gpu 0-1  A 0-3           D 3-8  A 8-15
    gpu 2    B 1-11
    gpu 3    C 2-3           D 3-8  C 8-17
    """
    jobs = [job(0, 2, 10), job(1, 1, 10), job(2, 1, 10), job(3, 3, 5)]
    quotas = Quotas((0, 0, 0, 1), (1, 3), "reclaim")
    assert finishes(simulate(jobs, nodes(4), FIFO, quotas)) == [15, 11, 17, 8]


@either
def test_two_jobs_take_back_gpus_of_two(simulate: Simulate) -> None:
    """D and E come at 3 and need a GPU each: both B and C, which started last, are paused for them.

    gpu 0  A 0-10
    gpu 1  B 1-3   D 3-8  B 8-16
    gpu 2  C 2-3   E 3-8  C 8-17
    """
    jobs = [job(0, 1, 10), job(1, 1, 10), job(2, 1, 10), job(3, 1, 5), job(3, 1, 5)]
    quotas = Quotas((0, 0, 0, 1, 1), (1, 2), "reclaim")
    assert finishes(simulate(jobs, nodes(3), FIFO, quotas)) == [10, 16, 17, 8, 8]


@either
def test_no_more_is_taken_back_than_was_borrowed(simulate: Simulate) -> None:
    """Tenant 0 holds its quota after B is paused, so A keeps its GPUs and D waits for C."""
    jobs = [job(0, 2, 100), job(1, 2, 100), job(2, 2, 10), job(3, 2, 10)]
    assert finishes(simulate(jobs, nodes(4), FIFO, Quotas((0, 0, 1, 1), (2, 2), "reclaim"))) == [
        100,
        121,
        12,
        22,
    ]


@either
def test_srtf_pauses_a_job_of_the_same_tenant(simulate: Simulate) -> None:
    """C (10 s) takes the place of A (100 s), of its tenant, not of B (200 s). C 5-15, A 15-110."""
    jobs = [job(0, 2, 100), job(0, 2, 200), job(5, 2, 10)]
    for borrowing in BORROWING:
        quotas = Quotas((0, 1, 0), (2, 2), borrowing)
        assert finishes(simulate(jobs, nodes(4), SRTF, quotas)) == [110, 200, 15]


@either
def test_srtf_pauses_for_the_quota_though_gpus_are_free(simulate: Simulate) -> None:
    """Two GPUs are free, but tenant 0 may have two only: B 5-15 takes the place of A, which ends at 110."""
    jobs = [job(0, 2, 100), job(5, 2, 10)]
    assert finishes(simulate(jobs, nodes(4), SRTF, Quotas((0, 0), (2, 2)))) == [110, 15]


@either
def test_a_borrower_swaps_its_own_jobs_if_nobody_claims_the_gpus(simulate: Simulate) -> None:
    """A and B hold all four GPUs, two of them borrowed. C takes those that the placement rule names, of A."""
    jobs = [job(0, 2, 100), job(0, 2, 200), job(5, 2, 10)]
    assert finishes(simulate(jobs, nodes(4), SRTF, Quotas((0, 0, 0), (2, 2), "idle"))) == [110, 200, 15]


@either
def test_easy_reserves_the_quota_for_the_head(simulate: Simulate) -> None:
    """B waits for A's GPUs to count no more. C would run 2-14 and delay it; D ends in time.

    tenant 0, of 3  A 0-10 on 2, D 3-8, B 10-20 on 3, C 20-32
    """
    jobs = [job(0, 2, 10), job(1, 3, 10), job(2, 1, 12), job(3, 1, 5)]
    assert finishes(simulate(jobs, nodes(6), EASY, Quotas((0,) * 4, (3, 3)))) == [10, 20, 32, 8]


@either
def test_easy_counts_what_is_left_of_a_paused_job(simulate: Simulate) -> None:
    """A resumes at 60 and has 90 s left, so that C may start at 150: D ends before, and starts at once.

    gpu 0-1  A 0-10  B 10-60  A 60-150  C 150-160
    gpu 2    A 0-10           A 60-150  C 150-160
    gpu 3                     D 80-140  C 150-160
    """
    jobs = [job(0, 3, 100), job(10, 2, 50), job(70, 4, 10), job(80, 1, 60)]
    assert finishes(simulate(jobs, nodes(4), EASY, Quotas((0, 1, 0, 0), (2, 2), "reclaim"))) == [
        150,
        60,
        160,
        140,
    ]


@either
@pytest.mark.parametrize("rules", [STRICT, EASY], ids=lambda rules: rules.discipline)
def test_a_blocked_head_holds_back_its_own_tenant_only(simulate: Simulate, rules: Rules) -> None:
    """B waits for A, of its tenant; C, of the other, starts at once."""
    jobs = [job(0, 2, 10), job(1, 2, 10), job(2, 2, 100)]
    assert finishes(simulate(jobs, nodes(4), rules, Quotas((0, 0, 1), (2, 2)))) == [10, 20, 102]


# The account agrees.


def random_orders(seeds: Sequence[int], count: int) -> list[tuple[list[Job], Rules, Quotas]]:
    cases = []
    for borrowing in BORROWING:
        for seed in seeds:
            jobs, quotas, drawn = random_case(seed, borrowing, count)
            cases += [
                (jobs, drawn._replace(key=o.key, preempt=o.preempt, discipline=o.discipline), quotas)
                for o in ORDERS
            ]
    return cases


def differing(cases: list[tuple[list[Job], Rules, Quotas]]) -> list[tuple[Rules, Quotas]]:
    return [
        (rules, quotas)
        for jobs, rules, quotas in cases
        if compiled(jobs, MIXED, rules, quotas) != account.simulate(jobs, MIXED, rules, quotas)
    ]


def test_the_account_agrees_on_random_jobs() -> None:
    assert differing(random_orders(range(2), 30)) == []


@pytest.mark.slow  # the account takes minutes for these thousand cases
def test_the_account_agrees_on_many_random_jobs() -> None:
    assert differing(random_orders(range(2, 50), 60)) == []


def test_random_jobs_borrow_wait_for_quotas_and_are_paused() -> None:
    """Each mode of borrowing gives other results, and jobs are paused by the ranking and by reclaim."""
    ends = {}
    for borrowing in BORROWING:
        jobs, quotas, rules = random_case(1, "none", 120)
        quotas = quotas._replace(borrowing=borrowing)
        found = compiled(jobs, MIXED, rules, quotas)
        ends[borrowing] = finishes(found)
        assert (sum(outcome.preemptions for outcome in found) > 0) == (borrowing == "reclaim")
        srtf = compiled(jobs, MIXED, rules._replace(key="remaining", preempt=True), quotas)
        assert sum(outcome.preemptions for outcome in srtf) > 5
    ends["off"] = finishes(scenarios.compiled(jobs, MIXED, rules))
    assert len({tuple(each) for each in ends.values()}) == 4


def few_results() -> list[list[Outcome]]:
    return [compiled(jobs, MIXED, rules, quotas) for jobs, rules, quotas in random_orders(range(1), 12)]


def test_it_means_the_same_with_the_compiler_off() -> None:
    plain = [[Outcome(*row) for row in rows] for rows in with_the_compiler_off(few_results)]
    assert plain == few_results()


def test_a_tenant_with_all_gpus_is_as_none() -> None:
    for order in ORDERS:
        jobs, _, drawn = random_case(0, "idle")
        rules = drawn._replace(key=order.key, preempt=order.preempt, discipline=order.discipline)
        one = Quotas((0,) * len(jobs), (30,))
        assert compiled(jobs, MIXED, rules, one) == scenarios.compiled(jobs, MIXED, rules), rules


# Policies.


def crowded(physics: str, borrowing: str) -> Episode:
    scenario = Scenario(
        jobs=60,
        cluster="4x8",
        physics=physics,
        quotas="proportional",
        borrowing=borrowing,  # type: ignore[arg-type]
        drop_too_large=True,
        all_windows=True,
        target_load=1.5,
    )
    return windows(scenario, "validation", 1)[0].episode()


def held_beyond(policy: Policy, episode: Episode) -> int:
    """Let a policy act to the end; return the number of instants at which a tenant held more than its quota."""
    beyond = 0
    while not episode.done and episode.advance():
        while not isinstance(action := policy(episode.view), Wait):
            episode.apply(action)
        episode.apply(action)
        assert legality.check(episode.states, 0, episode.jobs) == 0
        tenants = episode.view.tenants
        beyond += bool((tenants.num_gpus > tenants.quota).any())
    assert episode.done
    return beyond


@pytest.mark.parametrize(
    "policy",
    [Ranking("weighted", "cost_aware", exponent=1.0, margin=1.0), Rule()],
    ids=["xion_threshold", "union"],
)
def test_policies_obey_quotas(policy: Any) -> None:
    """Also where GPUs are shared and jobs change their size; with borrowing they hold more at times."""
    whole = {}
    for borrowing in ("none", "reclaim"):
        beyond = held_beyond(policy, crowded("standard", borrowing))
        assert (beyond > 0) == (borrowing == "reclaim")
        whole[borrowing] = run(policy, crowded("standard", borrowing)).state
        assert not whole[borrowing].endless
    assert whole["none"].present_seconds != whole["reclaim"].present_seconds


@pytest.mark.parametrize(("held", "is_legal"), [(4, True), (3, False)])
def test_a_job_takes_over_the_gpus_of_a_free_pause(held: int, *, is_legal: bool) -> None:
    """A borrows; it is paused at no cost for C, of its tenant, which needs four GPUs; B, of the other, claims two."""
    jobs = [job(0, held, 100), job(1, 2, 10), job(1, 4, 10)]
    episode = episode_of(jobs, nodes(4), FIFO, Quotas((0, 1, 0), (2, 2), "idle"))
    episode.advance()
    episode.apply(Start(0, Placement(tuple(range(held)))))
    episode.advance()
    assert episode.view.why_not(Start(2, Placement((0, 1, 2, 3)))) is not None
    episode.apply(Preempt(0))
    assert (episode.view.why_not(Start(2, Placement((0, 1, 2, 3)))) is None) == is_legal
    assert episode.view.why_not(Start(1, Placement((0, 1)))) is None


def test_a_policy_may_wait_until_claims_are_void() -> None:
    """A may not borrow what B claims. The policy leaves the cluster idle once, but not twice."""
    episode = episode_of([job(0, 4, 10), job(0, 2, 10)], nodes(4), FIFO, Quotas((0, 1), (2, 2), "idle"))
    episode.advance()
    assert episode.view.startable.tolist() == [1]
    episode.apply(Wait())
    episode.advance()
    assert episode.view.now == 0
    assert episode.view.startable.tolist() == [0, 1]
    assert "a job could start" in (episode.view.why_not(Wait()) or "")


@pytest.mark.parametrize("paused", [0, 1])
def test_a_job_paused_by_reclaim_is_not_startable_though_its_like_is(paused: int) -> None:
    """One of two equal jobs is paused at 10 for D, and may not borrow; the other may, as many GPUs are unclaimed.

    C, of the tenant that takes its GPUs back, runs all the time: in an idle cluster claims would be void.
    """
    jobs = [job(0, 4, 50), job(0, 4, 50), job(0, 2, 99), job(10, 4, 20), job(11, 6, 20)]
    episode = episode_of(jobs, nodes(4, 2, 2, 2), FIFO, Quotas((0, 0, 1, 1, 0), (2, 8), "reclaim"))
    episode.advance()
    episode.apply(Start(paused, Placement((0, 1, 2, 3))))
    episode.apply(Start(2, Placement((4, 5))))
    while episode.view.now < 11:
        episode.apply(Wait())
        episode.advance()
    assert episode.view.running.tolist() == [2]
    assert episode.view.startable.tolist() == [1 - paused, 3]
    assert episode.view.place(paused) is None
    assert episode.view.place(1 - paused) is not None


def test_a_tenant_is_seen_with_its_quota_and_gpus() -> None:
    jobs, rules = [job(0, 3, 10), job(1, 1, 10)], FIFO
    episode = episode_of(jobs, nodes(4), rules, Quotas((1, 0), (1, 3), "idle"))
    episode.advance()
    episode.apply(Start(0, Placement((0, 1, 2))))
    view = episode.view
    assert view.tenants.quota.tolist() == [1, 3]
    assert view.tenants.num_gpus.tolist() == [0, 3]
    assert view.jobs.tenant.tolist() == [1]
    assert view.borrowing == "idle"


def test_a_start_beyond_the_quota_is_illegal_and_says_so() -> None:
    episode = episode_of([job(0, 2, 10), job(0, 2, 10)], nodes(4), FIFO, Quotas((0, 0), (2, 2)))
    episode.advance()
    episode.apply(Start(0, Placement((0, 1))))
    assert "more GPUs than its quota" in (episode.view.why_not(Start(1, Placement((2, 3)))) or "")
    assert episode.view.place(1) is None
    assert episode.view.startable.tolist() == []


def test_a_reservation_of_own_gpus_being_freed_is_within_the_quota() -> None:
    """B is given the GPUs that A, of its tenant, is releasing, though the tenant holds its quota."""
    jobs = [job(0, 2, 100, pause_s=5.0), job(1, 2, 10), job(1, 2, 10)]
    episode = episode_of(jobs, nodes(4), FIFO, Quotas((0, 0, 1), (2, 2)))
    episode.advance()
    episode.apply(Start(0, Placement((0, 1))))
    episode.advance()
    calls.pause(episode.states, 0, episode.jobs, 0)
    assert episode.view.why_not(Start(1, Placement((0, 1)))) is None
    assert episode.view.why_not(Start(1, Placement((1, 2)))) is not None
    episode.apply(Start(1, Placement((0, 1))))
    episode.advance()
    assert episode.view.now == 6
    assert episode.view.tenants.num_gpus.tolist() == [2, 0]
    assert legality.check(episode.states, 0, episode.jobs) == 0


def test_a_compiled_start_beyond_the_quota_ends_the_episode_with_an_error() -> None:
    """Compiled policies make their moves unasked: the kernel notices."""

    class Careless:
        def __call__(self, view: View) -> Action:
            return Wait()

        def run_compiled(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
            calls.advance(states, 0, jobs)
            seat = legality.Seat(np.arange(4, dtype=np.int32), 0.0, -1, 0, -1)
            calls.start_as(states, 0, jobs, 0, seat, False)
            return bool(calls.advance(states, 0, jobs))

    episode = episode_of([job(0, 4, 10)], nodes(4), FIFO, Quotas((0,), (4,)))
    episode.state.quota[0] = 3
    with pytest.raises(StalledEpisodeError, match="quota does not allow"):
        episode.run_compiled(Careless())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("quotas", "told"),
    [
        (Quotas((0,), (9,)), "guarantee 9 GPUs, but the cluster has 8"),
        (
            Quotas((0,), (3, 5)),
            r"1 of 1 jobs request more GPUs than their tenant's quota and could never start \(the first is",
        ),
    ],
)
def test_quotas_that_cannot_be_kept_are_refused(quotas: Quotas, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        episode_of([job(0, 4, 10)], nodes(8), FIFO, quotas)


def test_a_pool_knows_no_tenants() -> None:
    pooled = FIFO._replace(placement="pooled")
    with pytest.raises(ValueError, match="pooled does not support quotas"):
        episode_of([job(0, 4, 10)], nodes(8), pooled, Quotas((0,), (8,)))


def test_step_by_step_is_whole() -> None:
    for jobs, rules, quotas in random_orders(range(2, 3), 30):
        whole = compiled(jobs, MIXED, rules, quotas)
        episode = episode_of(jobs, MIXED, rules, quotas)
        assert outcomes(run(ranking_of(rules), episode, step_by_step=True, oracle=True)) == whole, rules
