"""Faults to plant into the physics: each changes the state after a call, so that a named account differs."""

from collections.abc import Callable

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    CLOSED,
    DRAINING,
    GROWER,
    LOADING,
    MAX_SHARE,
    NOBODY,
    OPEN,
    PAUSING,
    RUNNING,
)
from tests.simulator.test_planted_faults import Fault, Record, just_done

FAULTS: list[tuple[str, str, Fault, str]] = []
"""The call after which something is wrong, what then differs, what is done wrong, and where to look for it first."""


def planted_in(*called: str, found_by: str, first: str = "") -> Callable[[Fault], Fault]:
    """Register a fault after some calls: a function of the record now, the record before, the jobs and the job.

    first: configuration that exercises the fault, which is played first.
    """

    def register(fault: Fault) -> Fault:
        FAULTS.extend((call, found_by, fault, first) for call in called)
        return fault

    return register


def just_failed(now: Record, before: Record) -> np.ndarray:
    """Return the jobs that have just run out of memory."""
    return np.flatnonzero(now.oom_restarts > before.oom_restarts)


def forget_changes(now: Record) -> None:
    """Leave all speeds as they are."""
    now.changed[:] = 0
    now.num_changes = 0


@planted_in("advance", found_by="memory")
def memory_is_not_given_back_on_one_shared_gpu(now, before, jobs):
    left = (now.num_jobs_on < before.num_jobs_on) & (now.num_jobs_on > 0)
    gpus = np.flatnonzero(left & (now.free_memory > before.free_memory))[:1]
    now.free_memory[gpus] = before.free_memory[gpus]


@planted_in("advance", found_by="memory")
def memory_does_not_grow(now, before, jobs):
    for job in np.flatnonzero((now.charged == 1) & (before.charged == 0) & (before.phase == RUNNING)):
        seats = np.flatnonzero(now.job_in == job)
        now.free_memory[seats // MAX_SHARE] += jobs["gpu_memory_gib"][job]


@planted_in("advance", found_by="progress")
def no_job_speeds_up_when_a_neighbour_ends(now, before, jobs):
    if len(just_done(now, before)):
        forget_changes(now)


@planted_in("pause", "resize", found_by="progress")
def no_job_changes_speed_after_an_action(now, before, jobs, *passed):
    forget_changes(now)


@planted_in("advance", found_by="progress")
def no_job_slows_down_when_a_neighbour_has_loaded(now, before, jobs):
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
    now.core_s[job] = before.core_s[job]


@planted_in("resize", found_by="run")
def a_resize_costs_a_restart(now, before, jobs, job, cores):
    now.attained_s[job] = 0.0
    now.banked[job] = now.clock


@planted_in("advance", found_by="free cores")
def a_resized_job_returns_its_requested_cores(now, before, jobs):
    for job in just_done(now, before):
        seats = np.flatnonzero(before.job_in == job)
        nodes = now.gpu_node[seats // MAX_SHARE]
        np.add.at(now.free_cores, nodes, jobs["cores_each"][job] - before.core_count[job])


@planted_in("start_as", found_by="spare cores")
def the_core_kept_for_a_gpu_is_not_given_with_it(now, before, jobs, *passed):
    taken = np.flatnonzero((now.num_jobs_on > 0) & (before.num_jobs_on == 0))
    np.add.at(now.unreserved_cores, now.gpu_node[taken], -1.0)


@planted_in("start_as", "advance", found_by="progress")
def lost_work_is_kept(now, before, jobs, *passed):
    failed = just_failed(now, before)
    now.attained_s[failed] = before.attained_s[failed]


@planted_in("start_as", "advance", found_by="lost")
def lost_work_is_not_recorded(now, before, jobs, *passed):
    now.lost_s[:] = before.lost_s


@planted_in("start_as", found_by="restarts")
def a_restart_is_not_counted(now, before, jobs, *passed):
    now.oom_restarts[:] = before.oom_restarts


@planted_in("advance", found_by="the next instant")
def the_delay_before_a_restart_is_skipped(now, before, jobs):
    now.restart_delay = 1e-3


@planted_in("advance", "start_as", found_by="must load")
def restarted_jobs_load_a_missing_checkpoint(now, before, jobs, *passed):
    now.saved[just_failed(now, before)] = 1


@planted_in("advance", found_by="phase")
def the_wrong_job_fails(now, before, jobs):
    now.oom_victim = GROWER


@planted_in("advance", found_by="shared")
def time_in_company_is_not_counted(now, before, jobs):
    now.shared_s[:] = before.shared_s


@planted_in("advance", found_by="busy")
def gpus_are_busy_after_the_last_submission(now, before, jobs):
    now.busy_until = np.inf


@planted_in("advance", found_by="run")
def waiting_for_cores_is_no_running(now, before, jobs):
    now.delay_s[:] = np.minimum(now.delay_s, 0.0)


@planted_in("advance", found_by="residents")
def a_finished_job_keeps_its_share_slot(now, before, jobs):
    for job in just_done(now, before)[:1]:
        seats = np.flatnonzero(before.job_in == job)[:1]
        now.job_in[seats] = job


@planted_in("advance", found_by="legal")
def everything_is_allowed(now, before, jobs):
    now.max_share = 4


# Shapes.


@planted_in("move", found_by="resizes")
def a_move_is_not_counted(now, before, jobs, *passed):
    now.resizes[:] = before.resizes


@planted_in("move", found_by="preemptions")
def a_move_counts_as_a_preemption(now, before, jobs, job, *passed):
    now.preemptions[job] += 1


@planted_in("move", found_by="phase")
def a_move_costs_no_load(now, before, jobs, job, *passed):
    jobs["load_s"][job] = 0.0


@planted_in("move", found_by="heir")
def the_target_of_a_move_is_not_reserved(now, before, jobs, *passed):
    now.reserved_for[:] = before.reserved_for


@planted_in("move", found_by="GPUs")
def a_move_keeps_the_number_of_gpus(now, before, jobs, job, *passed):
    now.next_width[job] = now.width[job]


@planted_in("start_as", found_by="free cores")
def cores_of_servers_are_not_taken(now, before, jobs, job, *passed):
    if now.phase[job] in (LOADING, RUNNING) and now.servers[job] and now.width[job] == now.workers[job]:
        now.free_cores[now.gpu_node[passed[0].gpus[0]]] += 5.0 * now.servers[job]


@planted_in("start_as", found_by="workers")
def every_shape_is_as_fast_as_the_requested_one(now, before, jobs, job, *passed):
    now.workers[job] = jobs["num_gpus"][job]


@planted_in("advance", found_by="progress")
def workers_scale_without_loss(now, before, jobs):
    jobs["scaling_loss"] = 0.0


@planted_in("advance", found_by="progress", first="sharing")
def memory_does_not_lengthen_turns(now, before, jobs):
    jobs["interference"] = jobs["gpu_utilization"]


@planted_in("advance", found_by="progress", first="sharing")
def all_jobs_hold_a_shared_gpu_equally(now, before, jobs):
    jobs["interference_hold"] = 1.0


@planted_in("advance", found_by="area")
def gpu_seconds_are_those_of_the_requested_gpus(now, before, jobs):
    done = just_done(now, before)
    now.run_gpu_s[done] = jobs["num_gpus"][done] * (now.attained_s[done] + now.delay_s[done])


@planted_in("start_as", found_by="progress", first="types")
def every_gpu_is_of_the_fastest_type(now, before, jobs, *passed):
    now.node_type[: now.num_nodes] = 6


# Start-up, links, and exchange through hosts.


@planted_in("start_as", found_by="phase", first="start-up")
def no_job_starts_up(now, before, jobs, job, *passed):
    if now.phase[job] == LOADING and not now.saved[job]:
        now.phase[job] = RUNNING


@planted_in("advance", found_by="the next instant", first="start-up")
def a_start_takes_as_long_as_a_load(now, before, jobs):
    jobs["startup_s"] = jobs["load_s"]


@planted_in("advance", found_by="phase", first="start-up")
def a_profile_is_taken_at_no_cost(now, before, jobs):
    now.profiling = 0.0


@planted_in("advance", found_by="progress", first="links")
def links_are_enough_for_all(now, before, jobs):
    now.shares_links = 0
    now.links_busy[:] = 0.0


@planted_in("advance", found_by="progress", first="exchange")
def an_exchange_needs_no_core(now, before, jobs):
    now.exchange_core_s = 1e-9


@planted_in("advance", found_by="progress", first="exchange")
def an_exchange_draws_nothing_from_memory(now, before, jobs):
    now.exchange_passes = 0.0


@planted_in("advance", found_by="progress", first="no sharing")
def memory_slows_no_job_before_it_is_full(now, before, jobs):
    now.pressure_from = 1.0


# Failures.


def just_fell_back(now: Record, before: Record) -> np.ndarray:
    """Return the jobs that have just failed by themselves or with a node."""
    return np.flatnonzero(now.failures > before.failures)


@planted_in("advance", found_by="progress")
def failing_jobs_lose_all_progress(now, before, jobs):
    now.attained_s[just_fell_back(now, before)] = 0.0


@planted_in("advance", found_by="lost")
def more_time_is_lost_than_progress(now, before, jobs):
    failed = just_fell_back(now, before)
    now.lost_s[failed] += 0.5 * (now.attained_s[failed] + now.delay_s[failed])
    now.attained_s[failed] *= 0.5


@planted_in("advance", found_by="failures")
def a_failure_is_not_counted(now, before, jobs):
    now.failures[:] = before.failures


@planted_in("advance", found_by="the next instant")
def a_job_fails_by_itself_again(now, before, jobs):
    now.crashed[:] = 0


@planted_in("advance", found_by="must load")
def jobs_that_fell_back_load_nothing(now, before, jobs):
    now.saved[just_fell_back(now, before)] = 0


@planted_in("advance", found_by="heir")
def closed_gpus_are_given_out(now, before, jobs):
    now.reserved_for[: now.num_gpus][now.reserved_for[: now.num_gpus] == CLOSED] = NOBODY


@planted_in("advance", found_by="closed")
def a_drain_is_not_announced(now, before, jobs):
    now.closed[now.closed == DRAINING] = OPEN


@planted_in("advance", found_by="phase")
def jobs_outlive_their_node(now, before, jobs):
    failed = just_fell_back(now, before)
    now.phase[failed] = before.phase[failed]


@planted_in("advance", found_by="predictable")
def no_estimate_becomes_good(now, before, jobs):
    now.predictable[:] = before.predictable


@planted_in("advance", found_by="predictable")
def a_good_estimate_is_lost_with_the_progress(now, before, jobs):
    now.predictable[just_fell_back(now, before)] = 0
