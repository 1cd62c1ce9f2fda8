"""Speed of a job, given its GPUs, CPU cores and co-located jobs.

An iteration of a job of w workers on GPUs of N nodes, with c cores per GPU feeding each worker, takes

    t_iter = max(t_gpu * work * crowding / type_speed, input * w0 / w * pressure / c) + t_sync
    work   = (1 + a (w - 1)) / w, divided by the same with the w0 workers that it asks for
    t_sync = max(X / B * crossing, Y * h * pressure / c) + L_intra * (w / N - 1) + L_inter * (N - 1)
    X      = 2 (w - 1) / w * traffic                 0 if w = 1
    Y      = X * N / w                               0 if N = 1
    t_sync = max(2 traffic * w / p / B_inter * crossing, 2 traffic * h * pressure / c)     with p parameter servers

seconds. B is the bandwidth inside a node if N = 1, else between nodes, in GB/s; `crossing` applies between
nodes only. h is the core-seconds per GB exchanged, traffic the GB per worker, input the core-seconds of feeding
a GPU, a the scaling loss. A worker without a GPU computes for t_gpu * work * cpu_slowdown instead of the
maximum.

A running job makes progress at the rate t_iter at the reference over t_iter now. The reference is V100s,
exclusive, with the shape and cores that the job asks for, on as few nodes as the placement rule needs on the
empty cluster.

The formula and its coefficients are fitted to public measurements. docs/rules.md, section "Speed", explains
each term; `benchmarks/calibration.py` prints the errors.
"""

from typing import NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    MAX_SERVERS,
    MAX_SHARE,
    NOBODY,
    RUNNING,
    SERVER_CORES,
    TURNS,
    WORKER_CORES,
)
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_on
from gpu_cluster_gym.simulator.kernel.cluster.placement import largest_node, place


@compiled
def work_of_each(jobs, job, workers):
    """Return the computing per worker and iteration, relative to that with the requested number of workers."""
    asked = jobs[job].num_gpus
    if workers == asked:
        return 1.0
    # Amdahl's law: w workers are w / (1 + loss * (w - 1)) times as fast as one.
    loss = jobs[job].scaling_loss
    return (1 + loss * (workers - 1)) / workers / ((1 + loss * (asked - 1)) / asked)


@compiled
def iteration_time(s, jobs, job, setting, burden):
    """Return the seconds of an iteration on GPUs."""
    row, workers = jobs[job], setting.workers
    # Computing: fewer workers do more each; co-located jobs and slower GPU types slow it.
    computing = row.gpu_s * work_of_each(jobs, job, workers) * burden.slowdown
    if row.input_core_s > 0:
        # Input for all workers takes the same core-seconds in every shape; it overlaps with computing.
        bringing = row.input_core_s * (row.num_gpus / workers) * burden.pressure / setting.cores
        computing = max(computing, bringing)
    return computing + sync_time(s, jobs, job, setting, burden)


@compiled
def iteration_on_cpu(s, jobs, job, workers, servers):
    """Return the seconds of an iteration of workers without GPUs."""
    row = jobs[job]
    computing = row.gpu_s * work_of_each(jobs, job, workers) * row.cpu_slowdown
    return computing + sync_time(s, jobs, job, Setting(workers, servers, 1, PLENTY_OF_CORES), UNDISTURBED)


@compiled
def cores_of_servers(servers, workers, width):
    """Return the cores per GPU that parameter servers take; 0 if they have GPUs of their own."""
    return SERVER_CORES * servers / width if 0 < width == workers else 0.0


@compiled
def feeding(s, jobs, job):
    """Return the cores per GPU that feed an active job's workers."""
    if not s.cpu_limited:
        row = jobs[job]
        return row.cores_each - cores_of_servers(row.servers, row.num_gpus, row.num_gpus)
    return s.core_count[job] - cores_of_servers(s.servers[job], s.workers[job], s.width[job])


@compiled
def crowding(s, beyond, running):
    """Return the slowdown of computing with `running` jobs on a GPU; for `beyond` see `crowding_on`."""
    if running < 2:
        return 1.0
    return 1.0 + s.contention * beyond + s.contention_loss * (running - 1)


@compiled
def crowding_on(s, jobs, gpu, victim):
    """Return the slowdown of a job's computing by the other jobs that run on a GPU; 1 if there are none.

    1 + contention * beyond + contention_loss * others, where `beyond` is

        excess: total utilisation of all jobs on the GPU beyond 1
        turns:  sum over the others of interference * 2 hold / (hold + own hold)

    Under `turns` jobs alternate on the GPU. `hold` (`interference_hold`) is the relative length of a job's turns, and
    `interference` its utilisation times sqrt(memory / 4 GiB). A job whose turns are long makes others wait longer and
    itself waits less. The form is fitted to measured pairs: docs/rules.md, section "Jobs on one GPU".
    """
    demand = 0.0
    waited = 0.0
    running = 0
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        job = s.job_in[slot]
        if job != NOBODY and s.phase[job] == RUNNING:
            running += 1
            # Total utilisation of the running jobs, for the form `excess`.
            demand += jobs[job].gpu_utilization
            if job != victim and jobs[job].interference > 0:
                interference_hold = jobs[job].interference_hold
                waited += (
                    jobs[job].interference
                    * 2.0
                    * interference_hold
                    / (interference_hold + jobs[victim].interference_hold)
                )
    beyond = waited if s.contention_form == TURNS else max(demand - 1.0, 0.0)
    return crowding(s, beyond, running)


@compiled
def pressure_on(s, node):
    """Return the slowdown of host-memory traffic on a node: its time over that on an idle node."""
    used = s.demanded_gbs[node] / s.node_gbs
    if used <= s.pressure_from:
        return 1.0
    # 1 up to `pressure_from`, rising linearly to `pressure_at_full` at full bandwidth, then with demand
    # (Kelp, HPCA 2019).
    risen = (min(used, 1.0) - s.pressure_from) / (1.0 - s.pressure_from) if s.pressure_from < 1.0 else 1.0
    return max(used, 1.0) * (1.0 + (s.pressure_at_full - 1.0) * risen)


@compiled
def setting_now(s, jobs, job):
    """Return the setting in which an active job runs."""
    return Setting(s.workers[job], s.servers[job], s.span[job], feeding(s, jobs, job))


@compiled
def link_share(s, jobs, job):
    """Return the fraction of time for which an active job, undisturbed, needs the links between its nodes."""
    if s.span[job] < 2 or jobs[job].sync_gb == 0 or (s.servers[job] == 0 and s.workers[job] < 2):
        return 0.0
    now = setting_now(s, jobs, job)
    alone = iteration_time(s, jobs, job, now, Burden(slowdown_by_type(s, jobs, job), 1.0, 1.0))
    return transfer_time(s, jobs, job, now) / alone


@compiled
def links_busy_on(s, jobs, node):
    """Return the sum of `link_share` over the jobs that run both on a node and on others."""
    total = 0.0
    if not s.shares_links or s.num_spanning == 0:
        return total
    for k in range(s.num_active):
        job = s.events[k]
        if s.phase[job] == RUNNING and s.span[job] > 1 and is_on(s, job, node):
            total += link_share(s, jobs, job)
    return total


@compiled
def cpu_rate(s, jobs, job):
    """Return the progress rate of a CPU job: cores held / cores requested x throttle, slowed by memory contention."""
    # Linear in cores; no faster than requested, since a job never holds more than it asks for.
    rate = s.core_count[job] / jobs[job].cores_each * s.throttle[job]
    return rate / pressure_on(s, s.node_of[job]) if jobs[job].gbs_each > 0 else rate


@compiled
def slowdown_by_type(s, jobs, job):
    """Return the slowdown of an active job's computing by its slowest GPU type, relative to a V100."""
    if not s.typed:
        return 1.0
    speed = np.inf
    slot = s.first_slot[job]
    while slot != NOBODY:
        speed = min(speed, jobs[job].type_speed[s.node_type[s.gpu_node[slot // MAX_SHARE]]])
        slot = s.next_slot[slot]
    return 1.0 / speed


@compiled
def iteration_now(s, jobs, job, by_type):
    """Return the seconds of an active job's iteration under current conditions: its worst GPU and worst node count."""
    crowding = 1.0
    pressure = 1.0
    crossing = 1.0
    if s.varying:
        slot = s.first_slot[job]
        while slot != NOBODY:
            gpu = slot // MAX_SHARE
            if s.num_jobs_on[gpu] > 1:
                crowding = max(crowding, crowding_on(s, jobs, gpu, job))
            pressure = max(pressure, pressure_on(s, s.gpu_node[gpu]))
            crossing = max(crossing, s.links_busy[s.gpu_node[gpu]])
            slot = s.next_slot[slot]
    # Only then can missing cores be what the GPUs wait for: a precondition of the monitor readings in
    # `readings.py`.
    s.undisturbed[job] = s.workers[job] == jobs[job].num_gpus and pressure == 1.0 and crossing == 1.0
    burden = Burden(crowding * by_type, pressure, crossing)
    return iteration_time(s, jobs, job, setting_now(s, jobs, job), burden)


@compiled
def fed_now(s, jobs, job, by_type):
    """Return the seconds of an undisturbed iteration with plenty of cores on few nodes, in the current shape."""
    workers, servers = s.workers[job], s.servers[job]
    if by_type == 1.0 and workers == jobs[job].num_gpus and servers == jobs[job].servers:
        return jobs[job].ideal_iteration_s
    nodes = (s.width[job] - 1) // largest_node(s, jobs, job) + 1
    fed = Setting(workers, servers, nodes, PLENTY_OF_CORES)
    return iteration_time(s, jobs, job, fed, Burden(by_type, 1.0, 1.0))


@compiled
def set_speed(s, jobs, job):
    """Set the progress rate of a job and the efficiency with which it uses its GPUs, under current conditions."""
    s.rate[job] = 1.0
    s.efficiency[job] = 1.0 if s.width[job] > 0 else 0.0
    s.undisturbed[job] = s.width[job] > 0
    if jobs[job].num_gpus == 0:
        s.rate[job] = cpu_rate(s, jobs, job)
    # CPU jobs, and GPU jobs whose iterations are not simulated.
    if jobs[job].iteration_s <= 0:
        return
    if s.width[job] == 0:
        now = iteration_on_cpu(s, jobs, job, s.workers[job], s.servers[job])
        s.rate[job] = jobs[job].iteration_s / now
        return
    by_type = slowdown_by_type(s, jobs, job)
    now = iteration_now(s, jobs, job, by_type)
    s.rate[job] = jobs[job].iteration_s / now
    s.efficiency[job] = fed_now(s, jobs, job, by_type) / now


@compiled
def shared_fraction_of(s, jobs, job):
    """Return the fraction of a job's GPUs that other jobs also hold."""
    if s.max_share == 1 or s.width[job] == 0:
        return 0.0
    count = 0
    slot = s.first_slot[job]
    while slot != NOBODY:
        count += s.num_jobs_on[slot // MAX_SHARE] > 1
        slot = s.next_slot[slot]
    return count / s.width[job]


@compiled
def drawn_by_each(s, jobs, job):
    """Return the host-memory bandwidth that an active job demands per GPU, GB/s: for input and for exchange."""
    drawn = jobs[job].gbs_each
    if s.bandwidth_binds and s.exchange_passes > 0 and jobs[job].sync_gb > 0 and jobs[job].iteration_s > 0:
        moved = through_host(jobs, job, setting_now(s, jobs, job))
        # Servers carry the same traffic as their workers, through the memory of the same nodes.
        servers_too = 2.0 if s.servers[job] > 0 else 1.0
        drawn += s.exchange_passes * servers_too * moved / jobs[job].iteration_s
    return drawn


@compiled
def demand_on(s, jobs, node):
    """Return the host-memory bandwidth that running jobs demand on a node, GB/s, each at its undisturbed speed."""
    total = 0.0
    if not s.bandwidth_binds:
        return total
    # A job usually holds neighbouring GPUs: compute its demand once for all of them.
    last, drawn = NOBODY, 0.0
    for gpu in range(s.node_first[node], s.node_first[node] + s.node_gpus[node]):
        for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + s.max_share):
            job = s.job_in[slot]
            if job == NOBODY or s.phase[job] != RUNNING:
                continue
            if job != last:
                last, drawn = job, drawn_by_each(s, jobs, job)
            total += drawn
    for k in range(s.num_active if s.num_on_cores > 0 else 0):
        job = s.events[k]
        if s.node_of[job] == node and s.phase[job] == RUNNING and jobs[job].num_gpus == 0:
            total += jobs[job].gbs_each * s.core_count[job] / jobs[job].cores_each * s.throttle[job]
    return total


@compiled
def set_iterations(s, jobs):
    """Set the reference iteration time of each job, as requested and with plenty of cores."""
    nodes_of = s.granted
    nodes_of[:] = 0
    for job in range(s.num_jobs):
        if jobs[job].num_gpus == 0:
            continue
        if nodes_of[jobs[job].request_class] == 0:
            # The reference number of nodes is that of a placement on the empty cluster; all jobs of a class
            # share it.
            place(s, jobs, job)
            nodes_of[jobs[job].request_class] = max(s.num_chosen, 1)
        set_iteration(s, jobs, job, nodes_of[jobs[job].request_class])


@compiled
def set_iteration(s, jobs, job, nodes):
    """Set the reference iteration time of a job on a number of nodes, as requested and with plenty of cores."""
    workers, servers = jobs[job].num_gpus, jobs[job].servers
    cores = jobs[job].cores_each - cores_of_servers(servers, workers, workers)
    asked = Setting(workers, servers, nodes, cores)
    fed = Setting(workers, servers, nodes, PLENTY_OF_CORES)
    jobs[job].iteration_s = iteration_time(s, jobs, job, asked, UNDISTURBED)
    jobs[job].ideal_iteration_s = iteration_time(s, jobs, job, fed, UNDISTURBED)


PLENTY_OF_CORES = 1e9  # cores


class Setting(NamedTuple):
    """Setting in which a job runs.

    workers: number of workers.
    servers: number of parameter servers.
    nodes: number of nodes they are on.
    cores: CPU cores that feed each worker.
    """

    workers: int
    servers: int
    nodes: int
    cores: float


class Burden(NamedTuple):
    """Slowdowns by other jobs, each 1 if undisturbed.

    slowdown: of computing, by co-located jobs and GPU type.
    pressure: of host-memory traffic.
    crossing: of transfers between nodes.
    """

    slowdown: float
    pressure: float
    crossing: float


UNDISTURBED = Burden(1.0, 1.0, 1.0)


@compiled
def transfer_time(s, jobs, job, setting):
    """Return the seconds per iteration for which links carry the exchange, without other jobs on them."""
    k, servers, traffic = setting.workers, setting.servers, jobs[job].sync_gb
    if servers > 0:
        # Each of p servers receives and returns 1/p of the traffic of each of k workers.
        return 2 * traffic * k / servers / s.inter_gbs
    speed = s.intra_gbs if setting.nodes == 1 else s.inter_gbs
    # Ring all-reduce: each worker sends and receives 2 (k - 1) / k of its gradients.
    return 2 * (k - 1) / k * traffic / speed


@compiled
def through_host(jobs, job, setting):
    """Return the GB per iteration that the host of each worker sends and receives; 0 if GPUs exchange directly."""
    k, nodes = setting.workers, setting.nodes
    if setting.servers > 0:
        return 2 * jobs[job].sync_gb
    return 2 * (k - 1) / k * jobs[job].sync_gb * nodes / k if nodes > 1 else 0.0


@compiled
def sync_time(s, jobs, job, setting, burden):
    """Return the seconds per iteration in which workers exchange gradients."""
    k, servers, nodes = setting.workers, setting.servers, setting.nodes
    if jobs[job].sync_gb == 0 or (servers == 0 and k < 2):
        return 0.0  # no exchange, hence no latency either
    transfer = transfer_time(s, jobs, job, setting)
    if nodes > 1:
        transfer *= burden.crossing
    if s.exchange_core_s > 0:
        # Where cores carry the exchange, the slower of links and hosts counts.
        host = through_host(jobs, job, setting) * s.exchange_core_s * burden.pressure / setting.cores
        transfer = max(transfer, host)
    if servers > 0:
        return transfer
    # Latency of each additional GPU of a node and of each additional node.
    return transfer + (s.intra_s * (k / nodes - 1) + s.inter_s * (nodes - 1))


@compiled
def resolved_shape(jobs, job, count, workers, servers):
    """Return the workers and servers of a placement on `count` GPUs, which may leave them open (0 and -1)."""
    if workers == 0:
        workers = count if count > 0 else jobs[job].num_gpus
    return workers, jobs[job].servers if servers < 0 else servers


@compiled
def is_rigid(jobs, job):
    """Return whether a job always holds as many GPUs as it asks for."""
    return (
        jobs[job].min_workers == jobs[job].max_workers
        and jobs[job].servers == 0
        and jobs[job].cpu_slowdown == 0
    )


@compiled
def is_shape(jobs, job, count, workers, servers):
    """Return whether a job can run with these numbers of GPUs, workers and servers."""
    row = jobs[job]
    if row.num_gpus == 0:
        return count == 0 and workers == 0 and servers == 0
    if (
        not row.min_workers <= workers <= row.max_workers
        or servers > MAX_SERVERS
        or (servers > 0) != (row.servers > 0)
    ):
        return False
    if count == 0:
        return row.cpu_slowdown > 0
    return count == workers or count == workers + servers


@compiled
def cores_asked(jobs, job, count, workers, servers):
    """Return the cores per GPU that a job asks for in a shape, servers included; cores in total without GPUs."""
    row = jobs[job]
    if row.num_gpus == 0 or (count == row.num_gpus == workers and servers == row.servers):
        return row.cores_each
    if count == 0:
        return WORKER_CORES * workers + SERVER_CORES * servers
    # Every shape is fed by as many cores per GPU as the requested shape.
    fed = row.cores_each - cores_of_servers(row.servers, row.num_gpus, row.num_gpus)
    return fed + cores_of_servers(servers, workers, count)


@compiled
def set_shape(s, job, count, workers, servers):
    """Set the shape of a job."""
    s.width[job] = count
    s.workers[job] = workers
    s.servers[job] = servers
