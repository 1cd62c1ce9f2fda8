"""How fast a job runs, given its GPUs, cores and neighbours.

An iteration of a job on k GPUs over N nodes, with c cores a GPU, takes

    t_iter = max(t_gpu * crowding, input * pressure / c) + t_sync
    t_sync = 2 (k - 1) / k * traffic / B + L_intra * (k / N - 1) + L_inter * (N - 1),   0 where k = 1

seconds, B being the bandwidth inside a node where N = 1, else between nodes. A running job makes
progress at the rate t_iter at the reference (alone, with the cores asked, as close together as can be) over t_iter now.
The formula and its figures are fitted to public measurements; `benchmarks/speed_errors.py` prints how well it does.
"""

from envs.kernel._compile import compiled
from envs.kernel.layout import MAX_SHARE, NOBODY, RUNNING
from envs.kernel.placement import place

PLENTY = 1e9  # cores


@compiled
def sync_time(s, jobs, job, nodes):
    """Seconds of an iteration in which the GPUs of a job on so many nodes exchange what they have learned."""
    k = jobs[job].num_gpus
    traffic = jobs[job].traffic
    if k < 2 or traffic == 0:  # what exchanges nothing does not wait for links either
        return 0.0
    speed = s.intra_gbs if nodes == 1 else s.inter_gbs
    hops = s.intra_s * (k / nodes - 1) + s.inter_s * (nodes - 1)
    return 2 * (k - 1) / k * traffic / speed + hops


@compiled
def iteration_time(s, jobs, job, crowding, pressure, cores, nodes):
    """Seconds of an iteration."""
    row = jobs[job]
    computing = row.gpu_time * crowding
    if row.input > 0:
        computing = max(computing, row.input * pressure / cores)
    return computing + sync_time(s, jobs, job, nodes)


@compiled
def crowding_on(s, jobs, gpu):
    """Slowdown of computing on a GPU by its running residents: 1 where they demand no more than there is."""
    demand = 0.0
    running = 0
    for seat in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        job = s.resident[seat]
        if job != NOBODY and s.phase[job] == RUNNING:
            demand += jobs[job].duty
            running += 1
    if running < 2:
        return 1.0
    return 1.0 + s.contention * max(demand - 1.0, 0.0) + s.contention_loss * (running - 1)


@compiled
def pressure_on(s, node):
    """How many times the bandwidth of a node's memory is demanded, at least 1."""
    return max(s.demanded_gbs[node] / s.node_gbs, 1.0)


@compiled
def cpu_rate(s, jobs, job):
    """Progress of a CPU job: in proportion to its cores, throttled, and slowed where it fights for bandwidth."""
    rate = s.core_count[job] / jobs[job].cores * s.throttle[job]
    return rate / pressure_on(s, s.node_of[job]) if jobs[job].bandwidth > 0 else rate


@compiled
def iteration_now(s, jobs, job):
    """Seconds of an iteration of an active job where and how it runs now: its worst GPU and node bind."""
    crowding = 1.0
    pressure = 1.0
    if s.varying:
        seat = s.first_seat[job]
        while seat != NOBODY:
            gpu = seat // MAX_SHARE
            if s.num_residents[gpu] > 1:
                crowding = max(crowding, crowding_on(s, jobs, gpu))
            pressure = max(pressure, pressure_on(s, s.gpu_node[gpu]))
            seat = s.next_seat[seat]
    cores = s.core_count[job] if s.cores_bind else jobs[job].cores
    return iteration_time(s, jobs, job, crowding, pressure, cores, s.span[job])


@compiled
def set_speed(s, jobs, job):
    """Find the rate of a job, and how much of its GPUs it makes use of, as things are."""
    s.rate[job] = s.used[job] = 1.0
    if jobs[job].num_gpus == 0:
        s.rate[job] = cpu_rate(s, jobs, job)
        s.used[job] = 0.0
    if jobs[job].iteration <= 0:
        return
    now = iteration_now(s, jobs, job)
    s.rate[job] = jobs[job].iteration / now
    s.used[job] = jobs[job].fed / now


@compiled
def company_of(s, jobs, job):
    """Share of a job's GPUs that it does not have alone."""
    if s.max_share == 1 or jobs[job].num_gpus == 0:
        return 0.0
    count = 0
    seat = s.first_seat[job]
    while seat != NOBODY:
        count += s.num_residents[seat // MAX_SHARE] > 1
        seat = s.next_seat[seat]
    return count / jobs[job].num_gpus


@compiled
def bank(s, job):
    """Bank what a running job has done so far at its present rate."""
    spent = s.clock - s.banked[job]
    s.attained[job] += s.rate[job] * spent
    s.delay[job] += (1.0 - s.rate[job]) * spent
    s.busy[job] += s.used[job] * spent
    s.busy_early[job] += s.used[job] * max(min(s.clock, s.busy_until) - s.banked[job], 0.0)
    s.shared[job] += s.in_company[job] * spent
    s.banked[job] = s.clock


@compiled
def demand_on(s, jobs, node):
    """GB/s that running jobs draw from a node's memory, each at the speed it has alone."""
    total = 0.0
    if not s.bandwidth_binds:
        return total
    begin = MAX_SHARE * s.node_first[node]
    for seat in range(begin, begin + MAX_SHARE * s.node_gpus[node]):
        job = s.resident[seat]
        if job != NOBODY and s.phase[job] == RUNNING:
            total += jobs[job].bandwidth
    for k in range(s.num_active):
        job = s.events[k]
        if s.node_of[job] == node and s.phase[job] == RUNNING:
            total += jobs[job].bandwidth * s.core_count[job] / jobs[job].cores * s.throttle[job]
    return total


@compiled
def set_iterations(s, jobs):
    """Write the seconds of every job's iteration at the reference, and of that with plenty of cores.

    As close together as can be is where the placement rule puts it on the machines, which are all free.
    """
    nodes_of = s.granted
    nodes_of[:] = 0
    for job in range(s.num_jobs):
        if jobs[job].num_gpus == 0:
            continue
        if nodes_of[jobs[job].demand] == 0:
            place(s, jobs, job)
            nodes_of[jobs[job].demand] = max(s.num_chosen, 1)
        nodes = nodes_of[jobs[job].demand]
        jobs[job].iteration = iteration_time(s, jobs, job, 1.0, 1.0, jobs[job].cores, nodes)
        jobs[job].fed = iteration_time(s, jobs, job, 1.0, 1.0, PLENTY, nodes)
