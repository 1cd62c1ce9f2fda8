"""Mutants of the kernel's formulas, one at a time and without the compiler: the plain account finds each.

Compiled functions cannot be replaced inside one another, so this runs in a separate process.
"""

import math
import pkgutil
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from gpu_cluster_gym.simulator import kernel
from gpu_cluster_gym.simulator.kernel.cluster import actions, holding, machines, outages, progress, speed
from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE, LOADING, MAX_SHARE, NOBODY, RUNNING
from tests.cases.mixed_jobs import Whims
from tests.cases.uncompiled import with_the_compiler_off
from tests.simulator.mutants_of_speed import MUTANTS, instead_of, running_on
from tests.simulator.test_laws_physics import CONFIGS, twins_of

MODULES: tuple[ModuleType, ...] = tuple(
    import_module(found.name) for found in pkgutil.walk_packages(kernel.__path__, f"{kernel.__name__}.")
)


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


@instead_of(speed.cores_asked)
def every_shape_requests_the_same_cores(jobs, job, count, workers, servers, sound=speed.cores_asked):
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
def loading_jobs_draw_bandwidth(s, jobs, node, sound=speed.demand_on):
    phases = s.phase.copy()
    s.phase[s.phase == LOADING] = RUNNING
    total = sound(s, jobs, node)
    s.phase[:] = phases
    return total


@instead_of(progress.is_affected)
def a_gang_notices_its_first_node_only(s, job):
    node = s.node_of[job] if s.first_slot[job] == NOBODY else s.gpu_node[s.first_slot[job] // MAX_SHARE]
    return s.changed[node] > 0


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
def no_job_fails_by_itself(s, jobs, job):
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


@instead_of(holding.grows_later)
def a_peak_is_taken_at_once(s, jobs, job):
    return False


@instead_of(holding.victim_on)
def the_oldest_fails(s, gpu, grower):
    return min(
        (job for job in running_on(s, gpu, *range(DONE)) if s.charged[job] == 1), key=lambda job: s.began[job]
    )


@instead_of(machines.available_cores)
def the_node_with_most_cores_binds(s, gpus, sound=machines.available_cores):
    nodes = {int(s.gpu_node[gpu]) for gpu in gpus}
    return max(sound(s, [gpu for gpu in gpus if s.gpu_node[gpu] == node]) for node in nodes)


@instead_of(machines.available_cores)
def reserved_cores_are_not_for_arrivals(s, gpus):
    count = {int(s.gpu_node[gpu]): 0 for gpu in gpus}
    for gpu in gpus:
        count[int(s.gpu_node[gpu])] += 1
    return max(min(s.unreserved_cores[node] / number for node, number in count.items()), 0.0)


@instead_of(actions.must_wait_for)
def pausing_jobs_are_joined(s, gpu):
    return s.num_jobs_on[gpu] >= s.max_share and not running_on(s, gpu, RUNNING, LOADING)


def put(old: Callable[..., Any], new: Callable[..., Any]) -> None:
    """Replace a function wherever the kernel uses it."""
    for module in MODULES:
        for name, value in list(vars(module).items()):
            if value is old:
                setattr(module, name, new)


def is_found() -> bool:
    """Return whether some random episode differs from its account, or cannot continue."""
    for config in CONFIGS:
        for seed in range(2):
            twins = twins_of(config, seed, 14)
            if twins.play(Whims(twins.legal, seed, 150)):
                return True
    return False


def not_found() -> list[str]:
    """Return the mutants that are not found, and `none` if the original is not accepted."""
    missed = ["none"] if is_found() else []
    for name, (sound, faulty) in MUTANTS.items():
        put(sound, faulty)
        if not is_found():
            missed.append(name)
        put(faulty, sound)
    return missed


@pytest.mark.slow  # the core is slow with the compiler off
def test_every_mutant_is_found() -> None:
    assert with_the_compiler_off(not_found) == []
