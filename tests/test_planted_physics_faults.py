"""Faults planted into the physics are found by the plain account: what is done wrong, and where the accounts differ."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from envs.kernel.layout import GROWER, LOADING, MAX_SHARE, PAUSING, RUNNING
from tests.mixed_jobs import Whims
from tests.test_laws_physics import twins_of
from tests.test_planted_faults import Fault, Record, just_done, plant

PLAYED = [("late peaks", 1), ("late peaks, newcomers", 0), ("all", 0), ("no sharing", 2), ("three a GPU", 0)]

FAULTS: list[tuple[str, str, Fault]] = []  # the call after which something is wrong, and what then differs


def planted_in(*called: str, found_by: str) -> Callable[[Fault], Fault]:
    """Register a fault after some calls: a function of the record now, the record before, the jobs and the job."""

    def register(fault: Fault) -> Fault:
        FAULTS.extend((call, found_by, fault) for call in called)
        return fault

    return register


def just_failed(now: Record, before: Record) -> np.ndarray:
    """Return the jobs that have just run out of memory."""
    return np.flatnonzero(now.ooms > before.ooms)


def forget_changes(now: Record) -> None:
    """Leave all speeds as they are."""
    now.changed[:] = 0
    now.num_changes = 0


@planted_in("advance", found_by="memory")
def memory_is_not_given_back_on_one_shared_gpu(now, before, jobs):
    left = (now.num_residents < before.num_residents) & (now.num_residents > 0)
    gpus = np.flatnonzero(left & (now.free_memory > before.free_memory))[:1]
    now.free_memory[gpus] = before.free_memory[gpus]


@planted_in("advance", found_by="memory")
def memory_does_not_grow(now, before, jobs):
    for job in np.flatnonzero((now.charged == 1) & (before.charged == 0) & (before.phase == RUNNING)):
        seats = np.flatnonzero(now.resident == job)
        now.free_memory[seats // MAX_SHARE] += jobs["peak"][job]


@planted_in("advance", found_by="progress")
def nobody_speeds_up_as_a_neighbour_ends(now, before, jobs):
    if len(just_done(now, before)):
        forget_changes(now)


@planted_in("pause", "resize", found_by="progress")
def nobody_changes_speed_when_something_is_done(now, before, jobs, *passed):
    forget_changes(now)


@planted_in("advance", found_by="progress")
def nobody_slows_down_as_a_neighbour_has_loaded(now, before, jobs):
    if ((before.phase == LOADING) & (now.phase == RUNNING)).any():
        forget_changes(now)


@planted_in("throttle", found_by="progress")
def a_throttle_has_no_effect(now, before, job, level):
    forget_changes(now)


@planted_in("throttle", found_by="throttle")
def a_throttle_is_forgotten(now, before, job, level):
    now.throttle[job] = 1.0


@planted_in("pause", found_by="throttle")
def a_throttle_outlives_the_run(now, before, jobs, job):
    if now.phase[job] != PAUSING:
        now.throttle[job] = before.throttle[job]


@planted_in("resize", found_by="free cores")
def a_resize_takes_no_cores(now, before, jobs, job, cores):
    now.free_cores[:] = before.free_cores


@planted_in("resize", found_by="core of")
def core_seconds_are_counted_with_the_new_cores(now, before, jobs, job, cores):
    now.counted[job] = before.counted[job]
    now.core_seconds[job] = before.core_seconds[job]


@planted_in("resize", found_by="run")
def a_resize_costs_a_restart(now, before, jobs, job, cores):
    now.attained[job] = 0.0
    now.banked[job] = now.clock


@planted_in("advance", found_by="free cores")
def a_resized_job_gives_back_what_it_asked_for(now, before, jobs):
    for job in just_done(now, before):
        seats = np.flatnonzero(before.resident == job)
        nodes = now.gpu_node[seats // MAX_SHARE]
        np.add.at(now.free_cores, nodes, jobs["cores"][job] - before.core_count[job])


@planted_in("start_on", found_by="spare cores")
def the_core_kept_for_a_gpu_is_not_given_with_it(now, before, jobs, *passed):
    taken = np.flatnonzero((now.num_residents > 0) & (before.num_residents == 0))
    np.add.at(now.spare_cores, now.gpu_node[taken], -1.0)


@planted_in("start_on", "advance", found_by="progress")
def what_is_lost_is_kept(now, before, jobs, *passed):
    failed = just_failed(now, before)
    now.attained[failed] = before.attained[failed]


@planted_in("start_on", "advance", found_by="lost")
def what_is_lost_is_not_booked(now, before, jobs, *passed):
    now.lost[:] = before.lost


@planted_in("start_on", found_by="restarts")
def a_restart_is_not_counted(now, before, jobs, *passed):
    now.ooms[:] = before.ooms


@planted_in("advance", found_by="the next instant")
def the_delay_before_a_restart_is_skipped(now, before, jobs):
    now.restart_delay = 1e-3


@planted_in("advance", "start_on", found_by="phase")
def who_begins_anew_loads_what_is_not_there(now, before, jobs, *passed):
    now.saved[just_failed(now, before)] = 1


@planted_in("advance", found_by="phase")
def the_wrong_one_fails(now, before, jobs):
    now.oom_victim = GROWER


@planted_in("advance", found_by="shared")
def time_in_company_is_not_counted(now, before, jobs):
    now.shared[:] = before.shared


@planted_in("advance", found_by="busy")
def gpus_are_busy_after_the_last_submission(now, before, jobs):
    now.busy_until = np.inf


@planted_in("advance", found_by="run")
def waiting_for_cores_is_no_running(now, before, jobs):
    now.delay[:] = np.minimum(now.delay, 0.0)


@planted_in("advance", found_by="residents")
def who_is_done_keeps_its_seat(now, before, jobs):
    for job in just_done(now, before)[:1]:
        seats = np.flatnonzero(before.resident == job)[:1]
        now.resident[seats] = job


@planted_in("advance", found_by="legal")
def everything_is_allowed(now, before, jobs):
    now.max_share = 4


def differences() -> Iterator[str]:
    """Yield where some episodes without sense and their accounts differ."""
    for config, seed in PLAYED:
        twins = twins_of(config, seed, 16)
        yield from twins.play(Whims(twins.legal, seed, 200))


@pytest.mark.parametrize(
    ("call", "found_by", "fault"), FAULTS, ids=[f"{fault.__name__}-{call}" for call, _, fault in FAULTS]
)
def test_fault_is_found(monkeypatch: pytest.MonkeyPatch, call: str, found_by: str, fault: Fault) -> None:
    plant(monkeypatch, call, fault)
    assert any(found_by in difference for difference in differences())


def test_nothing_is_found_where_nothing_is_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    for call in {call for call, _, _ in FAULTS}:
        plant(monkeypatch, call, lambda *_: None)
    assert list(differences()) == []
