"""Invariants find faults planted into the kernel: each fault names the law that must report it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE, LOADING, NOBODY, PAUSING, QUEUED, RESERVED
from tests.accounts.ledger import Ledger
from tests.accounts.reference import Rules
from tests.cases.scenarios import MIXED, Restless, episode_of, random_jobs

Record = np.record
Fault = Callable[..., Any]

FAULTS: list[tuple[str, str, Fault]] = []  # fault, call in which it is planted, and the law that finds it


def planted_in(call: str, found_by: str) -> Callable[[Fault], Fault]:
    """Register a fault: a function of the record after the call, the record before it, the jobs, and the arguments.

    Its return value, unless None, replaces the call's own.
    """

    def register(fault: Fault) -> Fault:
        FAULTS.append((call, found_by, fault))
        return fault

    return register


def just_freed(now: Record, before: Record) -> np.ndarray:
    """Return the GPUs that were held before and are free now."""
    return np.flatnonzero((before.first_owner >= 0) & (now.first_owner < 0) & (now.reserved_for < 0))


def just_done(now: Record, before: Record) -> np.ndarray:
    return np.flatnonzero((now.phase == DONE) & (before.phase != DONE))


@planted_in("advance", found_by="memory adds up")
def memory_is_not_released_on_one_gpu(now, before, jobs):
    freed = just_freed(now, before)[:1]
    now.free_memory[freed] = before.free_memory[freed]


@planted_in("advance", found_by="cores add up")
def a_core_is_not_released(now, before, jobs):
    now.free_cores[now.gpu_node[just_freed(now, before)[:1]]] -= 1.0


@planted_in("pause", found_by="served work is requested work")
def remaining_work_is_lost_at_preemption(now, before, jobs, job):
    now.attained_s[job] = 0.0


@planted_in("pause", found_by="served work is requested work")
def progress_is_won_at_preemption(now, before, jobs, job):
    now.attained_s[job] += 0.5 * (jobs[job].duration_s - now.attained_s[job])


@planted_in("pause", found_by="clock never runs back")
def the_event_of_the_end_is_stale_after_a_pause(now, before, jobs, job):
    if now.phase[job] == PAUSING:
        now.event_at[job] = before.event_at[job]


@planted_in("advance", found_by="queue has the queued jobs")
def a_job_is_lost_at_its_third_preemption(now, before, jobs):
    for job in np.flatnonzero((now.phase == QUEUED) & (now.preemptions == 3) & (before.phase == PAUSING)):
        demand = jobs[job].request_class
        last = now.queue_start[demand] + now.queue_size[demand] - 1
        now.queue[now.queue_start[demand] + now.place_in_queue[job]] = now.queue[last]
        now.queue_size[demand] -= 1


@planted_in("advance", found_by="free gpus are counted")
def an_ending_job_overlaps_with_one_that_starts(now, before, jobs):
    if len(just_done(now, before)):
        freed = just_freed(now, before)
        np.subtract.at(now.free, now.gpu_node[freed], 1)
        now.num_free -= len(freed)


@planted_in("advance", found_by="job ends once")
def a_job_ends_twice(now, before, jobs):
    now.finish_s[np.flatnonzero(before.phase == DONE)[:1]] = now.clock


@planted_in("advance", found_by="job ends once")
def an_end_is_counted_twice(now, before, jobs):
    now.num_done += len(just_done(now, before))


@planted_in("legal_start", found_by="what looks possible is legal")
def nothing_can_ever_start(now, before, jobs, job, seat, claim):
    return 4


@planted_in("advance", found_by="served work is requested work")
def work_has_no_length(now, before, jobs):
    jobs["duration_s"][before.num_arrived : now.num_arrived] = 0.0


@planted_in("advance", found_by="pauses and loads take their time")
def a_pause_takes_no_time(now, before, jobs):
    jobs["pause_s"][before.num_arrived : now.num_arrived] = 0.0


@planted_in("start_as", found_by="gang has all or nothing")
def a_gang_starts_without_one_of_its_gpus(now, before, jobs, job, seat, claim):
    now.first_owner[seat.gpus[0]] = NOBODY


@planted_in("start_as", found_by="gang has all or nothing")
def a_gpu_is_given_away_while_in_use(now, before, jobs, job, seat, claim):
    holders = np.flatnonzero(before.first_owner >= 0)
    if now.phase[job] != RESERVED:
        now.first_owner[holders[:1]] = job


@planted_in("start_as", found_by="reservations are for gpus being freed")
def a_reservation_is_forgotten_on_one_gpu(now, before, jobs, job, seat, claim):
    if now.phase[job] == RESERVED:
        now.reserved_for[seat.gpus[0]] = NOBODY


@planted_in("advance", found_by="clock never runs back")
def the_clock_runs_back(now, before, jobs):
    if now.instant == 30:
        now.clock = before.clock - 1.0


@planted_in("advance", found_by="submitted jobs have arrived")
def a_job_arrives_before_it_is_submitted(now, before, jobs):
    now.phase[now.num_arrived] = QUEUED


@planted_in("advance", found_by="no job exceeds its work")
def progress_is_counted_twice(now, before, jobs):
    ahead = np.flatnonzero(now.preemptions[: len(jobs)] > 0)
    now.attained_s[ahead] = 2 * jobs["duration_s"][ahead]


@planted_in("start_as", found_by="columns match observations")
def the_wait_is_counted_twice(now, before, jobs, job, seat, claim):
    now.wait_s[job] += now.wait_s[job] - before.wait_s[job]


@planted_in("advance", found_by="jct is wait run and overhead")
def loading_is_not_booked_as_overhead(now, before, jobs):
    loaded = np.flatnonzero((before.phase == LOADING) & (now.phase != LOADING))
    now.overhead_s[loaded] = before.overhead_s[loaded]


@planted_in("advance", found_by="busy is useful and overhead")
def pausing_is_booked_twice(now, before, jobs):
    now.overhead_s[:] += now.overhead_s - before.overhead_s


@planted_in("advance", found_by="jobs present are times in system")
def arrivals_are_counted_an_interval_early(now, before, jobs):
    now.present_seconds += (now.num_arrived - before.num_arrived) * (now.clock - before.clock)


@planted_in("advance", found_by="every job ends")
def time_stands_still_in_the_end(now, before, jobs):
    return now.num_done < now.num_jobs - 1


def plant(monkeypatch: pytest.MonkeyPatch, call: str, fault: Fault) -> None:
    """Let a call do its work, and then the fault."""
    module = legality if call == "legal_start" else calls
    sound = getattr(module, call)

    def faulty(states, e, jobs, *passed):
        before = states[e].copy()
        answer = sound(states, e, jobs, *passed)
        instead = fault(states[e], before, jobs, *passed)
        return answer if instead is None else instead

    monkeypatch.setattr(module, call, faulty)


def broken_laws(seed: int) -> set[str]:
    """Return the laws that a random episode breaks."""
    jobs = random_jobs(np.random.default_rng(seed), 40)
    return set(Ledger(episode_of(jobs, MIXED, Rules("submit", preempt=False))).play(Restless(seed)).broken)


@pytest.mark.parametrize(
    ("call", "found_by", "fault"), FAULTS, ids=[fault.__name__.replace("_", " ") for _, _, fault in FAULTS]
)
def test_fault_is_found(monkeypatch: pytest.MonkeyPatch, call: str, found_by: str, fault: Fault) -> None:
    plant(monkeypatch, call, fault)
    assert any(found_by in broken_laws(seed) for seed in range(2))
