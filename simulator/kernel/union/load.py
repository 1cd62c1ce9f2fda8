"""Load features: the observation of the `steer` and `moves` actions.

Each is a share, a count or a time of the present state that neither grows with the cluster nor reveals the length of
the window.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import LOADING, PAUSING, RUNNING
from gpu_cluster_gym.simulator.kernel.cluster.queues import remaining_now
from gpu_cluster_gym.simulator.kernel.cluster.readings import as_time
from gpu_cluster_gym.simulator.kernel.union.job_shapes import gpu_utilization, relative_time

LOAD = (
    "jobs_queued",  # queued jobs with GPUs; log1p / 6
    "queued_gpus",  # requested GPUs / all GPUs; log1p
    "queued_time",  # sum of remaining time x GPUs / all GPUs; time
    "mean_wait",  # mean wait of the queued jobs so far; time
    "longest_wait",  # longest wait of a queued job so far; time
    "queued_short",  # share of the queued jobs with less than 10 minutes left
    "queued_doubtful",  # share of the queued jobs without an accurate estimate
    "queued_wide",  # share of requested GPUs that belong to jobs of more than one GPU
    "queued_duty",  # mean profiled duty of the queued jobs
    "queued_on_cores",  # queued CPU jobs; log1p / 6
    "jobs_running",  # jobs on GPUs / all GPUs
    "running_time",  # sum of remaining time x GPUs / all GPUs; time
    "running_left",  # mean remaining time; time
    "running_short",  # share of running jobs with less than 10 minutes left
    "running_restart",  # mean pause and load; time
    "running_on_cores",  # running CPU jobs; log1p / 6
    "free_gpus",  # share of GPUs that are free
    "shared_gpus",  # share of GPUs with several jobs
    "idle_gpus",  # share of GPUs held by jobs that pause or load
    "demand",  # mean profiled duty on a GPU / 2
    "slowdown",  # mean believed slowdown of running jobs by co-located jobs, minus 1
    "slower_than_believed",  # mean log of slowdown measured on shared GPUs, a lack of cores included / believed
    "free_memory",  # free share of the GPUs' memory
    "free_cores",  # free share of the cores
    "cores_a_gpu",  # cores per GPU of the cluster / 16
    "arrivals_10_min",  # arrivals in the last 10 minutes; log1p / 4
    "arrivals_1_h",  # arrivals in the last hour; log1p / 6
    "arrived_time_1_h",  # estimated GPU time that arrived in the last hour / the cluster's GPU time; log1p
    "hour_sin",  # sine of the hour of the day
    "hour_cos",  # cosine of the hour of the day
    "gpus",  # GPUs of the cluster; log2 / 12
    "gpus_a_node",  # GPUs per node / 8
    "queued_elastic",  # share of the queued jobs that may have another number of workers
    "queued_restart",  # mean pause and load of the queued jobs; time
    "queued_memory",  # mean profiled memory of the queued jobs / the largest GPU's memory
    "may_share",  # jobs that may hold a GPU at the same time, minus 1
    "gpu_types",  # 1 if GPUs differ in speed
)
"""Load features; times are log1p(s / 60) / 4."""
(
    JOBS_QUEUED,
    QUEUED_GPUS,
    QUEUED_TIME,
    MEAN_WAIT,
    LONGEST_WAIT,
    QUEUED_SHORT,
    QUEUED_DOUBTFUL,
    QUEUED_WIDE,
    QUEUED_DUTY,
    QUEUED_ON_CORES,
    JOBS_RUNNING,
    RUNNING_TIME,
    RUNNING_LEFT,
    RUNNING_SHORT,
    RUNNING_RESTART,
    RUNNING_ON_CORES,
    FREE_GPUS,
    SHARED_GPUS,
    IDLE_GPUS,
    DEMAND,
    SLOWDOWN,
    SLOWER_THAN_BELIEVED,
    FREE_MEMORY,
    FREE_CORES,
    CORES_A_GPU,
    ARRIVALS_10_MIN,
    ARRIVALS_1_H,
    ARRIVED_TIME_1_H,
    HOUR_SIN,
    HOUR_COS,
    GPUS,
    GPUS_A_NODE,
    QUEUED_ELASTIC,
    QUEUED_RESTART,
    QUEUED_MEMORY,
    MAY_SHARE,
    TYPES,
) = range(len(LOAD))
SHORT_S = 600.0
MIN_RATE = 1e-3  # bound for jobs that have nearly stalled
DAY_S = 86_400.0


@compiled
def describe_queue(s, jobs, m, out):
    """Write the features of the queue."""
    count, gpus, area, waited, longest = 0, 0, 0.0, 0.0, 0.0
    elastic, restart, memory = 0, 0.0, 0.0
    short, doubtful, wide, duty, on_cores = 0, 0, 0, 0.0, 0
    for request_class in range(s.num_classes):
        begin = s.queue_start[request_class]
        for at in range(begin, begin + s.queue_size[request_class]):
            job = s.queue[at]
            asked = jobs[job].num_gpus
            if asked == 0:
                on_cores += 1
                continue
            left, wait = remaining_now(s, jobs, job), s.clock - s.phase_began[job]
            count += 1
            gpus += asked
            area += left * asked
            waited += wait
            longest = max(longest, wait)
            short += left < SHORT_S
            doubtful += not s.predictable[job]
            wide += asked * (asked > 1)
            duty += gpu_utilization(jobs, job)
            elastic += jobs[job].max_workers > jobs[job].min_workers
            restart += jobs[job].pause_s + jobs[job].load_s
            memory += jobs[job].profiled_memory_gib
    each = max(count, 1)
    out[QUEUED_ELASTIC] = elastic / each
    out[QUEUED_RESTART] = as_time(restart / each)
    out[QUEUED_MEMORY] = memory / each / s.group_memory[s.num_groups - 1]
    out[JOBS_QUEUED] = np.log1p(count) / 6.0
    out[QUEUED_GPUS] = np.log1p(gpus / s.num_gpus)
    out[QUEUED_TIME] = as_time(area / s.num_gpus)
    out[MEAN_WAIT] = as_time(waited / each)
    out[LONGEST_WAIT] = as_time(longest)
    out[QUEUED_SHORT] = short / each
    out[QUEUED_DOUBTFUL] = doubtful / each
    out[QUEUED_WIDE] = wide / max(gpus, 1)
    out[QUEUED_DUTY] = duty / each
    out[QUEUED_ON_CORES] = np.log1p(on_cores) / 6.0


@compiled
def slower_than_believed(s, jobs, m, job):
    """Return the log of a running job's measured slowdown, over its believed slowdown by co-located jobs."""
    believed = (
        relative_time(jobs, job, s.workers[job], s.servers[job])
        * m.type_slowdown[job]
        * m.shared_slowdown[job]
    )
    return -np.log(max(s.rate[job], MIN_RATE) * believed)


@compiled
def describe_running_jobs(s, jobs, m, out):
    """Write the features of the running jobs; the GPUs have been read."""
    count, area, lefts, short, restart, slow, on_cores, idle = 0, 0.0, 0.0, 0, 0.0, 0.0, 0, 0
    sharing, slower = 0, 0.0
    for k in range(s.num_active):
        job = s.events[k]
        if s.phase[job] == PAUSING or s.phase[job] == LOADING:
            idle += s.width[job]
        if s.phase[job] != RUNNING:
            continue
        if s.width[job] == 0:
            on_cores += 1
            continue
        left = remaining_now(s, jobs, job)
        count += 1
        area += left * s.width[job]
        lefts += left
        short += left < SHORT_S
        restart += jobs[job].pause_s + jobs[job].load_s
        slow += m.shared_slowdown[job] - 1.0
        if m.shared_slowdown[job] > 1.0:
            sharing += 1
            slower += slower_than_believed(s, jobs, m, job)
    each = max(count, 1)
    out[JOBS_RUNNING] = count / s.num_gpus
    out[RUNNING_TIME] = as_time(area / s.num_gpus)
    out[RUNNING_LEFT] = as_time(lefts / each)
    out[RUNNING_SHORT] = short / each
    out[RUNNING_RESTART] = as_time(restart / each)
    out[RUNNING_ON_CORES] = np.log1p(on_cores) / 6.0
    out[IDLE_GPUS] = idle / s.num_gpus
    out[SLOWDOWN] = slow / each
    out[SLOWER_THAN_BELIEVED] = slower / max(sharing, 1)


@compiled
def describe_machines(s, m, out):
    """Write the features of GPUs and nodes, which have been read."""
    shared, demand, memory, total_memory, cores, total_cores = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    for gpu in range(s.num_gpus):
        shared += s.num_jobs_on[gpu] > 1
        demand += m.demand[gpu]
        memory += m.free_memory_gib[gpu]
        total_memory += s.node_memory[s.gpu_node[gpu]]
    for node in range(s.num_nodes):
        cores += s.free_cores[node]
        total_cores += s.node_cores[node]
    out[FREE_GPUS] = s.num_free / s.num_gpus
    out[SHARED_GPUS] = shared / s.num_gpus
    out[DEMAND] = demand / s.num_gpus / 2.0
    out[FREE_MEMORY] = memory / total_memory
    out[FREE_CORES] = max(cores, 0.0) / max(total_cores, 1.0)
    out[CORES_A_GPU] = total_cores / s.num_gpus / 16.0
    out[GPUS] = np.log2(s.num_gpus) / 12.0
    out[GPUS_A_NODE] = s.num_gpus / s.num_nodes / 8.0
    out[MAY_SHARE] = s.max_share - 1.0
    out[TYPES] = s.typed


@compiled
def describe_arrivals(s, jobs, out):
    """Write the features of recent arrivals, and the hour."""
    recent, area = s.num_arrived, 0.0
    out[ARRIVALS_10_MIN] = 0.0
    while recent > 0 and jobs[recent - 1].submit_s > s.clock - 3600.0:
        recent -= 1
        out[ARRIVALS_10_MIN] += jobs[recent].submit_s > s.clock - 600.0
        area += jobs[recent].profiled_duration_s * jobs[recent].num_gpus
    out[ARRIVALS_10_MIN] = np.log1p(out[ARRIVALS_10_MIN]) / 4.0
    out[ARRIVALS_1_H] = np.log1p(s.num_arrived - recent) / 6.0
    out[ARRIVED_TIME_1_H] = np.log1p(area / (3600.0 * s.num_gpus))
    turn = 2.0 * np.pi * s.clock / DAY_S
    out[HOUR_SIN] = np.sin(turn)
    out[HOUR_COS] = np.cos(turn)


@compiled
def describe_load(s, jobs, m, out):
    """Write the load features: float32 (len(LOAD),). The GPUs have been read (`state_cache.read_gpus_and_jobs`)."""
    describe_queue(s, jobs, m, out)
    describe_running_jobs(s, jobs, m, out)
    describe_machines(s, m, out)
    describe_arrivals(s, jobs, out)
