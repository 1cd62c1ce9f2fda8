"""Mutants of the speed and loading-time formulas, one change each; `test_mutants_of_physics.py` uses them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster import queues, speed
from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE, MAX_SHARE, NOBODY, RUNNING, TURNS

MUTANTS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}


def instead_of(sound: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a replacement for a function."""

    def register(faulty: Callable[..., Any]) -> Callable[..., Any]:
        MUTANTS[faulty.__name__] = (sound, faulty)
        return faulty

    return register


def running_on(s: Any, gpu: int, *phases: int) -> Any:
    """Return the jobs on a GPU that run, or are in one of these phases."""
    seats = s.job_in[MAX_SHARE * gpu : MAX_SHARE * gpu + MAX_SHARE]
    return [job for job in seats if job != NOBODY and s.phase[job] in (phases or (RUNNING,))]


@instead_of(speed.crowding_on)
def loading_or_pausing_jobs_slow_others(s, jobs, gpu, victim, sound=speed.crowding_on):
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
    beyond = sum(jobs[job].gpu_utilization for job in here) - 1
    return 1 + s.contention * beyond + s.contention_loss * (len(here) - 1) if len(here) > 1 else 1.0


@instead_of(speed.crowding_on)
def a_job_waits_for_itself(s, jobs, gpu, victim, sound=speed.crowding_on):
    return sound(s, jobs, gpu, NOBODY) if s.contention_form == TURNS else sound(s, jobs, gpu, victim)


@instead_of(speed.crowding_on)
def all_jobs_on_a_gpu_wait_equally(s, jobs, gpu, victim, sound=speed.crowding_on):
    return max(sound(s, jobs, gpu, job) for job in running_on(s, gpu) or [victim])


@instead_of(speed.crowding_on)
def the_strong_wait_for_the_weak(s, jobs, gpu, victim, sound=speed.crowding_on):
    holds = jobs["interference_hold"].copy()
    jobs["interference_hold"] = 1 / np.maximum(holds, 1e-9)
    found = sound(s, jobs, gpu, victim)
    jobs["interference_hold"] = holds
    return found


@instead_of(speed.sync_time)
def links_are_those_of_one_node(s, jobs, job, setting, burden, sound=speed.sync_time):
    return sound(s, jobs, job, setting._replace(nodes=1), burden)


@instead_of(speed.sync_time)
def distance_costs_no_time(s, jobs, job, setting, burden, sound=speed.sync_time):
    found, nodes = sound(s, jobs, job, setting, burden), setting.nodes
    if setting.servers or not found:
        return found
    return found - s.intra_s * (setting.workers / nodes - 1) - s.inter_s * (nodes - 1)


@instead_of(speed.sync_time)
def servers_exchange_as_a_ring(s, jobs, job, setting, burden, sound=speed.sync_time):
    return sound(s, jobs, job, setting._replace(servers=0), burden)


@instead_of(speed.sync_time)
def one_server_is_as_good_as_many(s, jobs, job, setting, burden, sound=speed.sync_time):
    return sound(s, jobs, job, setting._replace(servers=min(setting.servers, 1)), burden)


@instead_of(speed.iteration_time)
def input_is_not_brought_meanwhile(s, jobs, job, setting, burden):
    row = jobs[job]
    bringing = row.input_core_s * row.num_gpus / setting.workers * burden.pressure / setting.cores
    computing = row.gpu_s * speed.work_of_each(jobs, job, setting.workers) * burden.slowdown
    return computing + bringing + speed.sync_time(s, jobs, job, setting, burden)


@instead_of(speed.iteration_time)
def input_is_the_same_for_few_workers(s, jobs, job, setting, burden):
    row = jobs[job]
    computing = row.gpu_s * speed.work_of_each(jobs, job, setting.workers) * burden.slowdown
    bringing = row.input_core_s * burden.pressure / setting.cores
    return max(computing, bringing) + speed.sync_time(s, jobs, job, setting, burden)


@instead_of(speed.iteration_time)
def no_gpu_job_waits_for_bandwidth(s, jobs, job, setting, burden, sound=speed.iteration_time):
    return sound(s, jobs, job, setting, burden._replace(pressure=1.0))


@instead_of(speed.sync_time)
def a_link_is_there_for_each(s, jobs, job, setting, burden, sound=speed.sync_time):
    return sound(s, jobs, job, setting, burden._replace(crossing=1.0))


@instead_of(speed.sync_time)
def exchange_bypasses_memory(s, jobs, job, setting, burden, sound=speed.sync_time):
    return sound(s, jobs, job, setting, burden._replace(pressure=1.0))


@instead_of(speed.link_share)
def a_gang_needs_its_links_all_the_time(s, jobs, job, sound=speed.link_share):
    return float(sound(s, jobs, job) > 0)


@instead_of(speed.through_host)
def hosts_of_a_wide_gang_carry_all_of_it_each(jobs, job, setting, sound=speed.through_host):
    return sound(jobs, job, setting._replace(nodes=setting.workers) if setting.nodes > 1 else setting)


@instead_of(queues.loading_time)
def a_start_up_is_as_long_as_a_load(s, jobs, job):
    return jobs[job].load_s


@instead_of(queues.loading_time)
def a_profile_is_taken_at_each_start(s, jobs, job, sound=queues.loading_time):
    again = s.profiling if not s.saved[job] and s.start_s[job] == s.start_s[job] else 0.0
    return sound(s, jobs, job) + again * (jobs[job].num_gpus > 0)


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
