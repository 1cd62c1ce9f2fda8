"""Actions on jobs except pausing: start, reserve, move, change cores, throttle. Legality is checked elsewhere."""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.holding import begin, reserve, start_ready
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SHARE, NOBODY, OVER_QUOTA, PAUSING, RESERVED
from gpu_cluster_gym.simulator.kernel.cluster.machines import count_cores, note_change_around, take_cores
from gpu_cluster_gym.simulator.kernel.cluster.pausing import save
from gpu_cluster_gym.simulator.kernel.cluster.placement import place
from gpu_cluster_gym.simulator.kernel.cluster.queues import dequeue
from gpu_cluster_gym.simulator.kernel.cluster.readings import bank_readings
from gpu_cluster_gym.simulator.kernel.cluster.speed import set_shape
from gpu_cluster_gym.simulator.kernel.cluster.tenants import may_take_these


@compiled
def must_wait_for(s, gpu):
    """Return whether a GPU is held, by pausing jobs only: it can be reserved, not shared."""
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        if s.job_in[slot] != NOBODY and s.phase[s.job_in[slot]] != PAUSING:
            return False
    return s.num_jobs_on[gpu] > 0


@compiled
def reserves(s, gpus, claim):
    """Return whether a start on these GPUs has to wait for jobs that hold some of them; a claim waits for any job."""
    for gpu in gpus:
        if must_wait_for(s, gpu) or (claim and s.num_jobs_on[gpu] > 0):
            return True
    return False


@compiled
def start_on(s, jobs, job, gpus, cores, node):
    """Start a queued job in the requested shape on the first of these GPUs, or on a node if it is a CPU job."""
    count = jobs[job].num_gpus
    start_as(s, jobs, job, gpus[:count], count, jobs[job].servers, cores, node, False)


@compiled
def start_as(s, jobs, job, gpus, workers, servers, cores, node, claim):
    """Start a queued job on these GPUs, or on a node, in this shape.

    If pausing jobs still hold some of the GPUs, or with a claim any jobs, all of them are reserved for it instead.
    """
    # Claims include those of queued jobs, this one excepted: judge before it leaves the queue.
    if not may_take_these(s, jobs, job, gpus):
        s.endless = OVER_QUOTA
    dequeue(s, jobs, job)
    s.num_queued -= 1
    if reserves(s, gpus, claim):
        reserve(s, job, gpus, workers, servers, cores, node)
        s.phase[job] = RESERVED
        return
    s.wait_s[job] += s.clock - s.phase_began[job]
    set_shape(s, job, len(gpus), workers, servers)
    begin(s, jobs, job, gpus, cores, node)
    # A start may fail a co-located job out of memory, whose release may complete a reservation.
    start_ready(s, jobs)


@compiled
def start_placed(s, jobs, job):
    """Start a queued job where `place` has just put it."""
    start_on(s, jobs, job, s.gpus, jobs[job].cores_each, s.chosen_node[0])


@compiled
def start(s, jobs, job):
    """Start a queued job where the placement rule puts it; return whether it fits."""
    if not place(s, jobs, job):
        return False
    start_placed(s, jobs, job)
    return True


@compiled
def move(s, jobs, job, gpus, workers, servers, cores, node):
    """Pause a running job so that it resumes on these GPUs, or this node, in this shape; they are reserved for it."""
    s.resizes[job] += 1
    s.moves[job] = 1
    reserve(s, job, gpus, workers, servers, cores, node)
    save(s, jobs, job)


@compiled
def resize(s, jobs, job, cores):
    """Change a running job's cores, per GPU or in total if it has none, at once and without a restart."""
    count_cores(s, job)
    bank_readings(s, job)
    more = cores - s.core_count[job]
    s.core_count[job] = cores
    if s.node_of[job] != NOBODY:
        take_cores(s, s.node_of[job], more)
    slot = s.first_slot[job]
    while slot != NOBODY:
        take_cores(s, s.gpu_node[slot // MAX_SHARE], more)
        slot = s.next_slot[slot]
    note_change_around(s, job)


@compiled
def throttle(s, job, level):
    """Throttle a running CPU job to a fraction of its speed."""
    s.throttle[job] = level
    note_change_around(s, job)
