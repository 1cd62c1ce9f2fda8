"""Timelines worked by hand, for every simulator. `A 0-10`: job A, first in the list, runs from 0 to 10."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.accounts.reference import Job, Node, Outcome, Rules, simulate
from tests.cases.scenarios import compiled

Simulate = Callable[[Sequence[Job], Sequence[Node], Rules], list[Outcome]]
SIMULATORS: list[Simulate] = [simulate, compiled]
pytestmark = pytest.mark.parametrize("simulate", SIMULATORS, ids=lambda simulate: simulate.__module__)

FIFO = Rules("submit", preempt=False, estimates=False)
SJF = Rules("estimate", preempt=False, estimates=False)
SRTF = Rules("remaining", preempt=True, estimates=False)
SRSF = Rules("remaining_area", preempt=True, estimates=False)
LAS = Rules("level", preempt=True, estimates=False, levels=(10.0, 16.0))
EASY = FIFO._replace(discipline="easy")


def job(submit: float, gpus: int, duration: float, **given: Any) -> Job:
    """Make a job with an exact estimate, 1 GiB and free preemption, unless given."""
    return Job(submit, gpus, duration, duration, 1.0, 0.0, 0.0)._replace(**given)


def cluster(*gpus: int, gib: Sequence[float] = (16.0, 16.0, 16.0, 16.0)) -> list[Node]:
    """Make a node for each count of GPUs, at most four unless `gib` is given."""
    return [Node(count, memory, 48) for count, memory in zip(gpus, gib, strict=False)]


def finishes(outcomes: list[Outcome]) -> list[float]:
    return [outcome.finish_s for outcome in outcomes]


@pytest.mark.parametrize(("discipline", "ends"), [("greedy", [10, 37, 7, 27]), ("strict", [10, 20, 25, 40])])
def test_fifo_passes_the_head_or_waits(simulate: Simulate, discipline: str, ends: list[float]) -> None:
    """B needs all four GPUs. Under skip, C and D use the one beside A, so all four are free only at 27.

    skip    gpu 0-2  A 0-10                 B 27-37      strict  gpu 0-2  A 0-10  B 10-20  C 20-25, D 20-40
            gpu 3       C 2-7  D 7-27       B                    gpu 3            B
    """
    jobs = [job(0, 3, 10), job(1, 4, 10), job(2, 1, 5), job(3, 1, 20)]
    assert finishes(simulate(jobs, cluster(4), FIFO._replace(discipline=discipline))) == ends


def test_sjf_takes_the_shortest_waiting_job(simulate: Simulate) -> None:
    """A 0-10, then by length: C (3) 10-13; D and E (5, equal in all) by index, 13-18 and 18-23; B 23-31."""
    jobs = [job(0, 1, 10), job(1, 1, 8), job(2, 1, 3), job(3, 1, 5), job(3, 1, 5)]
    assert finishes(simulate(jobs, cluster(1), SJF)) == [10, 31, 13, 18, 23]


def test_sjf_orders_by_the_estimate_when_estimates_are_on(simulate: Simulate) -> None:
    """A 0-10, then C (est. 2, takes 20) 10-30, then B (est. 50, takes 5) 30-35."""
    jobs = [job(0, 1, 10), job(1, 1, 5, estimate_s=50), job(1, 1, 20, estimate_s=2)]
    assert finishes(simulate(jobs, cluster(1), SJF._replace(estimates=True))) == [10, 35, 30]


def test_a_job_that_arrives_as_another_finishes_is_in_the_walk(simulate: Simulate) -> None:
    """At 10 A ends and C arrives: C (3) goes before B (8), without waiting. A 0-10, C 10-13, B 13-21."""
    outcomes = simulate([job(0, 1, 10), job(1, 1, 8), job(10, 1, 3)], cluster(1), SJF)
    assert [(outcome.wait_s, outcome.finish_s) for outcome in outcomes] == [(0, 10), (12, 21), (0, 13)]


def test_easy_backfills_jobs_that_end_by_the_shadow_time(simulate: Simulate) -> None:
    """Only A and B, which both end at 10, let C start: the shadow is 10. D 2-10 ends exactly then.

    gpu 0-1  A 0-10        C 10-15
    gpu 2-3  B 0-10        C
    gpu 4        D 2-10    C
    """
    jobs = [job(0, 2, 10), job(0, 2, 10), job(1, 5, 5), job(2, 1, 8)]
    assert finishes(simulate(jobs, cluster(5), EASY)) == [10, 10, 15, 10]


def test_easy_refuses_a_job_that_ends_a_second_late(simulate: Simulate) -> None:
    """B, not C, is the head; D would run 2-11, over its shadow at 10. B 10-20, then C 20-50, D 20-29."""
    jobs = [job(0, 3, 10), job(1, 4, 10), job(1, 2, 30), job(2, 1, 9)]
    assert finishes(simulate(jobs, cluster(4), EASY)) == [10, 20, 50, 29]


def test_easy_gives_spare_gpus_once(simulate: Simulate) -> None:
    """At the shadow, 10, B takes five of six GPUs: one is to spare. C has it for 2-22; D finds none until 20.

    gpu 0-3  A 0-10          B 10-20
    gpu 4         C 2-22
    gpu 5                    B        D 20-40
    """
    jobs = [job(0, 4, 10), job(1, 5, 10), job(2, 1, 20), job(3, 1, 20)]
    assert finishes(simulate(jobs, cluster(6), EASY)) == [10, 20, 22, 40]


def test_easy_believes_the_estimates(simulate: Simulate) -> None:
    """A (est. 0-3) lets C start, so D (est. 2-3) is in time. At 7 A and B (est. 0-4) seem to end now.

    So E, too, seems harmless to C, which in truth waits for B.

    gpu 0-1  A 0-10           C 20-30
    gpu 2-3  B 0-20           C on one
    gpu 4        D 2-6  E 7-57
    """
    jobs = [job(0, 2, 10, estimate_s=3), job(0, 2, 20, estimate_s=4), job(1, 3, 10)]
    jobs += [job(2, 1, 4, estimate_s=1), job(7, 1, 50)]
    assert finishes(simulate(jobs, cluster(5), EASY._replace(estimates=True))) == [10, 20, 30, 6, 57]


@pytest.mark.parametrize(("a", "b", "d"), [(10, 30, 60), (30, 10, 52)])
def test_easy_considers_the_placement_of_a_backfill(simulate: Simulate, a: int, b: int, d: int) -> None:
    """A (node 0) and B (node 1) leave one GPU each; C needs a node, at 10. The rule puts D (50 s) on node 0.

    It is to be C's if A ends at 10: D waits, and has node 1 for 10-60. If B does, C has node 1: D 2-52.
    """
    jobs = [job(0, 3, a), job(0, 3, b), job(1, 4, 10), job(2, 1, 50)]
    assert finishes(simulate(jobs, cluster(4, 4), EASY)) == [a, b, 20, d]


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        ("first_fit", [10, 21, 49, 33, 44]),
        ("best_fit", [10, 21, 7, 37, 50]),
        ("spread", [10, 21, 26, 33, 44]),
    ],
)
def test_placement_rules_differ(simulate: Simulate, placement: str, expected: list[float]) -> None:
    """The nodes 0, 1, 2 have 2, 4 and 3 GPUs. Which node, and when, with what each job needs.

                A (1)       B (2)       C (4)         D (3)        E (2)
    first_fit   0: 0-10     1: 1-21     1: 44-49      2: 3-33      1: 4-44    C waits for E
    best_fit    0: 0-10     2: 1-21     1: 2-7        1: 7-37      0: 10-50   D waits for C, E for A
    spread      1: 0-10     1: 1-21     1: 21-26      2: 3-33      0: 4-44    C waits for B
    """
    jobs = [job(0, 1, 10), job(1, 2, 20), job(2, 4, 5), job(3, 3, 30), job(4, 2, 40)]
    assert finishes(simulate(jobs, cluster(2, 4, 3), FIFO._replace(placement=placement))) == expected


def test_a_large_gang_takes_whole_nodes_and_a_rest(simulate: Simulate) -> None:
    """Nodes of 4, 4, 2, 1. A is on node 3 for 0-10, so B (5) takes node 0 and one GPU of node 2, for 1-11.

    C has node 1 for 2-7. At 11 all is idle: D (8) takes the largest, nodes 0 and 1, for 11-16. So there is no
    node for E (3) before 16; had D taken the small ones first, it would leave three GPUs on node 1.
    """
    jobs = [job(0, 1, 10), job(1, 5, 10), job(2, 4, 5), job(3, 8, 5), job(12, 3, 5)]
    assert finishes(simulate(jobs, cluster(4, 4, 2, 1), FIFO)) == [10, 11, 7, 16, 21]


def test_the_rest_of_a_large_gang_is_on_one_node(simulate: Simulate) -> None:
    """At first 1, 1 and 4 GPUs are free; C is 4 and a rest of 2, which waits for A until 10: C 10-15."""
    jobs = [job(0, 3, 10), job(0, 3, 20), job(1, 6, 5)]
    assert finishes(simulate(jobs, cluster(4, 4, 4), FIFO)) == [10, 20, 15]


@pytest.mark.parametrize(("placement", "c"), [("best_fit", 15), ("pooled", 6)])
def test_a_gang_that_fits_one_node_is_kept_on_one(simulate: Simulate, placement: str, c: int) -> None:
    """A leaves two GPUs on node 0, B one on node 1: C (3) waits for A, 10-15. In a pool it need not: 1-6."""
    jobs = [job(0, 2, 10), job(0, 3, 20), job(1, 3, 5)]
    assert finishes(simulate(jobs, cluster(4, 4), FIFO._replace(placement=placement))) == [10, 20, c]


@pytest.mark.parametrize(("memory", "expected"), [(True, [10, 15, 7]), (False, [10, 6, 11])])
def test_memory_excludes_nodes(simulate: Simulate, memory: bool, expected: list[float]) -> None:
    """Two nodes of two GPUs, of 12 and 24 GiB. A and B need more than 12, C exactly 12.

    With memory, A 0-10 and then B 10-15 on node 1, and C 2-7 on node 0.
    Without, A is on node 0, B has node 1 for 1-6, and then C for 6-11.
    """
    needs = [
        job(0, 1, 10, gpu_memory_gib=16),
        job(1, 2, 5, gpu_memory_gib=20),
        job(2, 2, 5, gpu_memory_gib=12),
    ]
    assert finishes(simulate(needs, cluster(2, 2, gib=[12, 24]), FIFO._replace(memory=memory))) == expected


def test_a_gang_is_split_if_the_nodes_that_can_hold_it_are_small(simulate: Simulate) -> None:
    """Node 0 has 8 GPUs, with too little memory for A and C. A (6) spans nodes 1, 2; B 1-6; C waits for A."""
    jobs = [job(0, 6, 10, gpu_memory_gib=20), job(1, 8, 5), job(2, 3, 5, gpu_memory_gib=20)]
    assert finishes(simulate(jobs, cluster(8, 4, 4, gib=[12, 24, 24]), FIFO)) == [10, 6, 15]


def test_srtf_runs_the_least_remaining(simulate: Simulate) -> None:
    """A 0-2, B 2-3, C 3-4, B 4-6. At 6 A and D have both 8 left: A by index, 6-14, then D 14-22."""
    outcomes = simulate([job(0, 1, 10), job(2, 1, 3), job(3, 1, 1), job(4, 1, 8)], cluster(1), SRTF)
    assert [(o.preemptions, o.finish_s) for o in outcomes] == [(1, 14), (1, 6), (0, 4), (0, 22)]


def test_pausing_and_loading_hold_gpus_without_progress(simulate: Simulate) -> None:
    """Loading A cannot be paused for C at 40, only when it is loaded at 55, with no progress in between.

    A 0-10, pauses 10-15; B 15-35; A loads 35-55, pauses 55-60; C 60-70; A loads 70-90, runs its 90 s to 180.
    With preemption free: A 0-10, B 10-30, A 30-40, C 40-50, A 50-130.
    """
    jobs = [job(0, 1, 100, pause_s=5, load_s=20), job(10, 1, 20), job(40, 1, 10)]
    outcomes = simulate(jobs, cluster(1), SRTF)
    assert outcomes[0] == Outcome(0, 180, wait_s=30, run_s=100, overhead_s=50, preemptions=2)
    assert finishes(outcomes) == [180, 35, 70]
    assert finishes(simulate(jobs, cluster(1), SRTF._replace(preemption=False))) == [130, 30, 50]


def test_the_victim_holds_the_chosen_gpus(simulate: Simulate) -> None:
    """C takes the lowest-numbered GPU, A's, though B has more left. A 0-10, C 10-20, A 20-60; B 0-100."""
    outcomes = simulate([job(0, 1, 50), job(0, 1, 100), job(10, 1, 10)], cluster(2), SRTF)
    assert [(o.preemptions, o.finish_s) for o in outcomes] == [(1, 60), (0, 100), (0, 20)]


@pytest.mark.parametrize(("rules", "expected"), [(SRSF, [33, 16, 24]), (SRTF, [18, 33, 9])])
def test_srsf_weighs_by_gpus(simulate: Simulate, rules: Rules, expected: list[float]) -> None:
    """At 1 A has 9 s x 2 GPUs = 18, B 15, C 8 x 2 = 16: B 1-16 takes a GPU. C 16-24, then A 24-33.

    By time alone C (8) is first, then A (9), then B (15): C 1-9, A 9-18, B 18-33.
    """
    assert finishes(simulate([job(0, 2, 10), job(1, 1, 15), job(1, 2, 8)], cluster(2), rules)) == expected


def test_las_demotes_at_exactly_the_limits(simulate: Simulate) -> None:
    """Two GPUs each, so the limits are 5 and 8 s of running. Jobs of equal level go by index.

    A 0-5 down; B 5-8; C 8-12; A 12-13; D (new) 13-18 down; A 18-20 down (8 s); D 20-23 down (8 s); A 23-27;
    D 27-29. B has to wait for the level change itself: nothing else happens at 5.
    """
    outcomes = simulate([job(0, 2, 12), job(1, 2, 3), job(6, 2, 4), job(13, 2, 10)], cluster(2), LAS)
    assert [(o.preemptions, o.finish_s) for o in outcomes] == [(3, 27), (0, 8), (0, 12), (2, 29)]


def test_a_grant_waits_for_a_pause_in_flight_and_starts_no_other(simulate: Simulate) -> None:
    """C (110 left) pauses B (195), not A (95), for 5-15. At 8 D (50) comes first; B's GPU is enough for it.

    gpu 0  A 0-100                       B loads 100-104, runs 104-299
    gpu 1  B 0-5, pauses 5-15  D 15-65   C 65-175
    """
    jobs = [job(0, 1, 100, pause_s=10), job(0, 1, 200, pause_s=10, load_s=4), job(5, 1, 110), job(8, 1, 50)]
    outcomes = simulate(jobs, cluster(2), SRTF)
    assert [(o.preemptions, o.finish_s) for o in outcomes] == [(0, 100), (1, 299), (0, 175), (0, 65)]


def test_a_grant_is_recomputed_and_never_takes_loading_jobs(simulate: Simulate) -> None:
    """At 5 C pauses A; at 6 B ends, so C starts there and waits no more. At 18 A loads: D pauses C instead.

    gpu 0  A 0-5, pauses 5-15       A loads 15-25, runs 25-120
    gpu 1  B 1-6             C 6-18       D 18-21  C 21-29
    """
    jobs = [job(0, 1, 100, pause_s=10, load_s=10), job(1, 1, 5), job(5, 1, 20), job(18, 1, 3)]
    assert finishes(simulate(jobs, cluster(2), SRTF)) == [120, 6, 29, 21]


@pytest.mark.parametrize("placement", ["best_fit", "pooled"])
@pytest.mark.parametrize(("discipline", "d"), [("strict", 40), ("greedy", 32), ("easy", 32)])
def test_strict_bars_queued_jobs(simulate: Simulate, discipline: str, d: int, placement: str) -> None:
    """C (3 GPUs) does not fit while A runs. Strict bars D from the free GPU 3; B, behind D in order, runs on.

    strict: at 10 C takes A's GPUs and GPU 3, D the one of B: C 10-30, D 10-40, B 30-120.
    skip: D 2-32 on GPU 3; at 10 C takes A's GPUs and B's: C 10-30, B 30-120. A preemptive easy is skip.
    """
    jobs = [job(0, 2, 10), job(0, 1, 100), job(1, 3, 20), job(2, 1, 30)]
    rules = SRTF._replace(discipline=discipline, placement=placement)
    assert finishes(simulate(jobs, cluster(4), rules)) == [10, 120, 30, d]


def test_a_pool_starts_jobs_that_fit_the_free_count(simulate: Simulate) -> None:
    """At 10 B (3 GPUs) has one free and waits for A's pause, 10-15. At 12 C goes first, on the free one.

    A 0-10, pauses 10-15; C 12-22; B 15-35 on what A left; A loads 35-40, runs 40-130. D 22-36: at 36
    loading A leaves one GPU, and E comes before D. E 36-46, D 46-232.
    """
    jobs = [
        job(0, 3, 100, pause_s=5, load_s=5),
        job(10, 3, 20),
        job(12, 1, 10),
        job(22, 1, 200),
        job(36, 1, 10),
    ]
    outcomes = simulate(jobs, cluster(2, 2), SRTF._replace(placement="pooled"))
    assert finishes(outcomes) == [130, 35, 22, 232, 46]


def test_in_a_pool_a_waiting_grant_blocks_later_ones(simulate: Simulate) -> None:
    """At 10 C and D are granted all: A leaves at once, B pauses 10-15. C (3) keeps A's two GPUs: D waits too.

    A 0-10, B 0-10; C 15-35, D 15-45; A 35-125 as three GPUs are free; B 45-145.
    """
    jobs = [job(0, 2, 100), job(0, 2, 110, pause_s=5), job(10, 3, 20), job(10, 1, 30)]
    assert finishes(simulate(jobs, cluster(2, 2), SRTF._replace(placement="pooled"))) == [125, 145, 35, 45]


@pytest.mark.parametrize(("tick_s", "expected"), [(30.0, [240, 120, 130]), (0.0, [240, 135, 105])])
def test_a_tick_notices_an_overrun(simulate: Simulate, tick_s: float, expected: list[float]) -> None:
    """A (est. 20) seems to have 15 s left, the floor, from 5 to 75; then a fifth of what it ran, 18 at 90.

    So at the tick of 90 B (16) passes A. At 95 B (max(11, 1, 15) = 15) and C (est. 5: 15) tie: B by index.
    Ticks: A 0-90, B 90-120, C 120-130, A 130-240. None: C arrives at 95, when C has 15, B 16 and A 19:
    A 0-95, C 95-105, B 105-135, A 135-240.
    """
    jobs = [job(0, 1, 200, estimate_s=20), job(10, 1, 30, estimate_s=16), job(95, 1, 10, estimate_s=5)]
    assert finishes(simulate(jobs, cluster(1), SRTF._replace(estimates=True, tick_s=tick_s))) == expected


@pytest.mark.parametrize(("key", "expected"), [("remaining", [30, 21]), ("true_remaining", [10, 30])])
def test_the_oracle_sees_through_estimates(simulate: Simulate, key: str, expected: list[float]) -> None:
    """At 1 B (est. 2, floor 15) passes A (99): B 1-21, A 21-30. In truth A has 9, B 20: A 0-10, B 10-30."""
    jobs = [job(0, 1, 10, estimate_s=100), job(1, 1, 20, estimate_s=2)]
    assert finishes(simulate(jobs, cluster(1), SRTF._replace(estimates=True, key=key))) == expected


def srtf_by_seconds(jobs: list[Job], gpus: int) -> list[float]:
    """Find the finishes under SRTF in a pool, going second by second."""
    left, ends, second = [j.duration_s for j in jobs], [0.0] * len(jobs), 0
    while any(left):
        second += 1
        room = gpus
        present = [(left[i], i) for i, j in enumerate(jobs) if left[i] and j.submit_s < second]
        for _, i in sorted(present):
            if jobs[i].num_gpus <= room:
                room -= jobs[i].num_gpus
                left[i] -= 1
                ends[i] = second
    return ends


@pytest.mark.parametrize("seed", range(6))
def test_a_pool_agrees_with_a_count_by_seconds(simulate: Simulate, seed: int) -> None:
    draw = random.Random(seed)
    submits = sorted(draw.randrange(60) for _ in range(20))
    jobs = [job(submit, draw.choice([1, 1, 2, 4]), draw.randrange(1, 30)) for submit in submits]
    pooled = SRTF._replace(placement="pooled")
    assert finishes(simulate(jobs, cluster(3, 3), pooled)) == srtf_by_seconds(jobs, 6)


@pytest.mark.parametrize("seed", range(12))
def test_time_adds_up_and_gpus_are_never_oversold(simulate: Simulate, seed: int) -> None:
    draw = random.Random(seed)
    costs = {"pause_s": draw.choice([0.0, 3.0]), "load_s": draw.choice([0.0, 7.5])}
    submits = sorted(draw.randrange(200) for _ in range(15))
    jobs = [job(submit, draw.choice([1, 2, 3, 6]), draw.uniform(1, 90), **costs) for submit in submits]
    jobs = [j._replace(estimate_s=j.duration_s * draw.uniform(0.3, 3.0), gpu_memory_gib=10.0) for j in jobs]
    rules = draw.choice([FIFO, SJF, SRTF, SRSF, LAS])._replace(
        placement=draw.choice(["first_fit", "best_fit", "spread", "pooled"]),
        discipline=draw.choice(["greedy", "strict", "easy"]),
        estimates=draw.random() < 0.5,
        tick_s=7.5,
    )
    outcomes = simulate(jobs, cluster(4, 3, 1, gib=[16, 12, 8]), rules)
    for j, o in zip(jobs, outcomes, strict=True):
        assert o.finish_s - j.submit_s == pytest.approx(o.wait_s + o.run_s + o.overhead_s, rel=1e-12)
    whole = [(j.num_gpus, o) for j, o in zip(jobs, outcomes, strict=True) if o.preemptions == 0]
    for _, new in whole:
        assert sum(gpus for gpus, o in whole if o.start_s <= new.start_s < o.finish_s) <= 8
