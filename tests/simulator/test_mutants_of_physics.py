"""Formulas of the core made wrong, one at a time, with the compiler off: the plain account finds each.

Compiled functions cannot be replaced inside one another, so all this happens in a process of its own.
"""

import math
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from simulator import kernel
from simulator.kernel import actions, holding, machines, memory, outages, progress, shapes, speed
from simulator.kernel.layout import DONE, LOADING, MAX_SHARE, NOBODY, RUNNING, TURNS
from tests.cases.mixed_jobs import Whims
from tests.conftest import ROOT
from tests.simulator.test_laws_physics import CONFIGS, twins_of

MODULES: tuple[ModuleType, ...] = tuple(
    import_module(f"{kernel.__name__}.{found.name}") for found in pkgutil.iter_modules(kernel.__path__)
)
MUTANTS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}


def instead_of(sound: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function to be put in the place of another."""

    def register(faulty: Callable[..., Any]) -> Callable[..., Any]:
        MUTANTS[faulty.__name__] = (sound, faulty)
        return faulty

    return register


def running_on(s: Any, gpu: int, *phases: int) -> Any:
    """Return the jobs on a GPU that run, or are in one of these phases."""
    seats = s.job_in[MAX_SHARE * gpu : MAX_SHARE * gpu + MAX_SHARE]
    return [job for job in seats if job != NOBODY and s.phase[job] in (phases or (RUNNING,))]


@instead_of(speed.crowding_on)
def who_loads_or_pauses_slows_too(s, jobs, gpu, victim, sound=speed.crowding_on):
    here = running_on(s, gpu, *range(DONE))
    phases = s.phase.copy()
    s.phase[here] = RUNNING
    found = sound(s, jobs, gpu, victim)
    s.phase[:] = phases
    return found


@instead_of(speed.crowding_on)
def co_runners_cost_nothing_by_themselves(s, jobs, gpu, victim, sound=speed.crowding_on):
    return sound(s, jobs, gpu, victim) - s.contention_loss * max(len(running_on(s, gpu)) - 1, 0)


@instead_of(speed.crowding_on)
def two_halves_are_faster_than_one_whole(s, jobs, gpu, victim, sound=speed.crowding_on):
    if s.contention_form == TURNS:
        return sound(s, jobs, gpu, victim)
    here = running_on(s, gpu)
    return 1 + s.contention * (sum(jobs[job].duty for job in here) - 1) if here else 1.0


@instead_of(speed.crowding_on)
def a_job_waits_for_itself(s, jobs, gpu, victim, sound=speed.crowding_on):
    return sound(s, jobs, gpu, NOBODY) if s.contention_form == TURNS else sound(s, jobs, gpu, victim)


@instead_of(speed.crowding_on)
def all_on_a_gpu_wait_alike(s, jobs, gpu, victim, sound=speed.crowding_on):
    return max(sound(s, jobs, gpu, job) for job in running_on(s, gpu) or [victim])


@instead_of(speed.crowding_on)
def the_strong_wait_for_the_weak(s, jobs, gpu, victim, sound=speed.crowding_on):
    grips = jobs["grip"].copy()
    jobs["grip"] = 1 / np.maximum(grips, 1e-9)
    found = sound(s, jobs, gpu, victim)
    jobs["grip"] = grips
    return found


@instead_of(speed.sync_time)
def links_are_those_of_one_node(s, jobs, job, k, servers, nodes, sound=speed.sync_time):
    return sound(s, jobs, job, k, servers, 1)


@instead_of(speed.sync_time)
def distance_costs_no_time(s, jobs, job, k, servers, nodes, sound=speed.sync_time):
    if servers:
        return sound(s, jobs, job, k, servers, nodes)
    traffic = jobs[job].sync_gb
    return 2 * (k - 1) / k * traffic / (s.intra_gbs if nodes == 1 else s.inter_gbs) if k > 1 else 0.0


@instead_of(speed.sync_time)
def servers_exchange_as_a_ring(s, jobs, job, k, servers, nodes, sound=speed.sync_time):
    return sound(s, jobs, job, k, 0, nodes)


@instead_of(speed.sync_time)
def one_server_is_as_good_as_many(s, jobs, job, k, servers, nodes, sound=speed.sync_time):
    return sound(s, jobs, job, k, min(servers, 1), nodes)


@instead_of(speed.iteration_time)
def input_is_not_brought_meanwhile(s, jobs, job, workers, servers, slowdown, pressure, cores, nodes):
    row = jobs[job]
    bringing = row.input_core_s * row.num_gpus / workers * pressure / cores
    return (
        row.gpu_s * speed.work_of_each(jobs, job, workers) * slowdown
        + bringing
        + speed.sync_time(s, jobs, job, workers, servers, nodes)
    )


@instead_of(speed.iteration_time)
def input_is_the_same_for_few_workers(s, jobs, job, workers, servers, slowdown, pressure, cores, nodes):
    row = jobs[job]
    computing = row.gpu_s * speed.work_of_each(jobs, job, workers) * slowdown
    sync = speed.sync_time(s, jobs, job, workers, servers, nodes)
    return max(computing, row.input_core_s * pressure / cores) + sync


@instead_of(speed.iteration_time)
def no_gpu_job_waits_for_bandwidth(
    s, jobs, job, workers, servers, slowdown, pressure, cores, nodes, sound=speed.iteration_time
):
    return sound(s, jobs, job, workers, servers, slowdown, 1.0, cores, nodes)


@instead_of(speed.work_of_each)
def workers_do_as_much_each_however_many(jobs, job, workers):
    return 1.0


@instead_of(speed.work_of_each)
def workers_scale_without_loss(jobs, job, workers):
    return jobs[job].num_gpus / workers


@instead_of(speed.iteration_on_cpu)
def workers_on_cores_exchange_nothing(s, jobs, job, workers, servers):
    return jobs[job].gpu_s * speed.work_of_each(jobs, job, workers) * jobs[job].cpu_slowdown


@instead_of(speed.cores_of_servers)
def servers_need_no_cores(servers, workers, width):
    return 0.0


@instead_of(speed.slowdown_by_type)
def the_first_gpu_sets_the_pace(s, jobs, job):
    node = s.gpu_node[s.first_slot[job] // MAX_SHARE]
    return 1 / jobs[job].type_speed[s.node_type[node]] if s.typed else 1.0


@instead_of(holding.lose_since_checkpoint)
def time_is_lost_as_if_at_full_speed(s, job):
    kept = max(s.attained_s[job] // s.checkpoint_every * s.checkpoint_every, s.checkpointed_s[job])
    gone = s.attained_s[job] - kept
    s.attained_s[job] = kept
    s.lost_s[job] += gone
    s.run_gpu_s[job] -= s.width[job] * gone
    s.lost_gpu_s[job] += s.width[job] * gone


@instead_of(holding.lose_since_checkpoint)
def a_node_takes_no_progress(s, job):
    pass


@instead_of(holding.can_serve)
def servers_may_starve(s, gpus, workers, servers):
    return True


@instead_of(shapes.cores_asked)
def every_shape_asks_for_the_same_cores(jobs, job, count, workers, servers, sound=shapes.cores_asked):
    return jobs[job].cores_each if count else sound(jobs, job, count, workers, servers)


@instead_of(outages.first_on)
def workers_on_cores_outlive_their_node(s, node, sound=outages.first_on):
    kept = s.node_of.copy()
    s.node_of[s.workers > 0] = NOBODY
    job = sound(s, node)
    s.node_of[:] = kept
    return job


@instead_of(speed.pressure_on)
def bandwidth_to_spare_makes_faster(s, node):
    return max(s.demanded_gbs[node] / s.node_gbs, 0.5)


@instead_of(speed.cpu_rate)
def cpu_jobs_never_wait_for_bandwidth(s, jobs, job):
    return s.core_count[job] / jobs[job].cores_each * s.throttle[job]


@instead_of(speed.cpu_rate)
def cpu_jobs_that_draw_nothing_wait_too(s, jobs, job):
    return s.core_count[job] / jobs[job].cores_each * s.throttle[job] / speed.pressure_on(s, s.node_of[job])


@instead_of(speed.demand_on)
def a_throttled_job_draws_as_much(s, jobs, node, sound=speed.demand_on):
    levels = s.throttle.copy()
    s.throttle[:] = 1.0
    total = sound(s, jobs, node)
    s.throttle[:] = levels
    return total


@instead_of(speed.demand_on)
def who_loads_draws_bandwidth(s, jobs, node, sound=speed.demand_on):
    phases = s.phase.copy()
    s.phase[s.phase == LOADING] = RUNNING
    total = sound(s, jobs, node)
    s.phase[:] = phases
    return total


@instead_of(progress.is_affected)
def a_gang_notices_its_first_node_only(s, job):
    node = s.node_of[job] if s.first_slot[job] == NOBODY else s.gpu_node[s.first_slot[job] // MAX_SHARE]
    return s.changed[node] == 1


@instead_of(progress.rise_time)
def levels_rise_with_progress(s, jobs, job):
    if s.level[job] >= s.num_limits or s.width[job] == 0:
        return math.inf
    rest = s.limits[s.level[job]] / s.width[job] - s.attained_s[job]
    return s.banked[job] + rest / s.rate[job]


@instead_of(progress.rise_time)
def levels_rise_with_the_gpus_held_now(s, jobs, job):
    if s.level[job] >= s.num_limits or s.width[job] == 0:
        return math.inf
    ran = s.attained_s[job] + s.delay_s[job] + s.lost_s[job]
    return s.banked[job] + s.limits[s.level[job]] / s.width[job] - ran


@instead_of(progress.crash_time)
def nobody_fails_by_itself(s, jobs, job):
    return math.inf


@instead_of(progress.predict_time)
def estimates_become_good_with_time(s, jobs, job, sound=progress.predict_time):
    due = jobs[job].predictable_from * jobs[job].duration_s
    ran = s.attained_s[job] + s.delay_s[job]
    return s.banked[job] + max(due - ran, 0.0) if sound(s, jobs, job) < math.inf else math.inf


@instead_of(progress.grow_time)
def memory_grows_with_time(s, jobs, job):
    rest = s.peak_at * jobs[job].duration_s - s.attained_s[job] - s.delay_s[job]
    return math.inf if s.charged[job] else s.banked[job] + max(rest, 0.0)


@instead_of(memory.grows_later)
def a_peak_is_taken_at_once(s, jobs, job):
    return False


@instead_of(memory.victim_on)
def the_oldest_fails(s, gpu, grower):
    return min(
        (job for job in running_on(s, gpu, *range(DONE)) if s.charged[job] == 1), key=lambda job: s.began[job]
    )


@instead_of(machines.available_cores)
def the_node_with_most_cores_binds(s, gpus, sound=machines.available_cores):
    nodes = {int(s.gpu_node[gpu]) for gpu in gpus}
    return max(sound(s, [gpu for gpu in gpus if s.gpu_node[gpu] == node]) for node in nodes)


@instead_of(machines.available_cores)
def kept_cores_are_not_for_who_comes(s, gpus):
    count = {int(s.gpu_node[gpu]): 0 for gpu in gpus}
    for gpu in gpus:
        count[int(s.gpu_node[gpu])] += 1
    return max(min(s.unreserved_cores[node] / number for node, number in count.items()), 0.0)


@instead_of(actions.must_wait_for)
def who_pauses_is_joined(s, gpu):
    return s.num_jobs_on[gpu] >= s.max_share and not running_on(s, gpu, RUNNING, LOADING)


def put(old: Callable[..., Any], new: Callable[..., Any]) -> None:
    """Put a function in the place of another wherever the core uses it."""
    for module in MODULES:
        for name, value in list(vars(module).items()):
            if value is old:
                setattr(module, name, new)


def is_found() -> bool:
    """Tell whether some episode without sense differs from its account, or cannot go on."""
    for config in CONFIGS:
        for seed in range(2):
            twins = twins_of(config, seed, 14)
            if twins.play(Whims(twins.legal, seed, 150)):
                return True
    return False


def not_found() -> list[str]:
    """Return the mutants that pass for sound, and `none` if what is sound does not."""
    missed = ["none"] if is_found() else []
    for name, (sound, faulty) in MUTANTS.items():
        put(sound, faulty)
        if not is_found():
            missed.append(name)
        put(faulty, sound)
    return missed


@pytest.mark.slow  # the core is slow with the compiler off
def test_every_mutant_is_found() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from tests.simulator.test_mutants_of_physics import not_found; print(not_found())",
        ],
        cwd=ROOT,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
