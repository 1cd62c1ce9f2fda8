"""GPU memory: when jobs take it, and which job fails where it runs over."""

from gpu_cluster_gym.simulator.kernel._compile import compiled
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    ANYONE,
    CHARGED,
    GROWER,
    MAX_SHARE,
    MODULUS,
    MULTIPLIER,
    NOBODY,
    ROUNDING,
)
from gpu_cluster_gym.simulator.kernel.cluster.machines import is_alone


@compiled
def drawn(s, count):
    """Draw one of `count` numbers evenly."""
    s.dice = s.dice * MULTIPLIER % MODULUS
    return s.dice * count // MODULUS


@compiled
def grows_later(s, jobs, job):
    """Tell whether a job beside others has not run long enough to need its peak memory.

    One that is alone has it from the beginning, which changes nothing: so no instant tells how long it will run.
    """
    grown = s.peak_at * jobs[job].duration_s * (1.0 - ROUNDING)
    return s.max_share > 1 and s.attained_s[job] < grown and not is_alone(s, job)


@compiled
def charge(s, jobs, job):
    """Take the job's peak memory on all its GPUs; return the first that runs over, or NOBODY."""
    s.charged[job] = CHARGED
    over = NOBODY
    slot = s.first_slot[job]
    while slot != NOBODY:
        gpu = slot // MAX_SHARE
        s.free_memory[gpu] -= jobs[job].gpu_memory_gib
        if s.free_memory[gpu] < -ROUNDING and over == NOBODY:
            over = gpu
        slot = s.next_slot[slot]
    return over


@compiled
def victim_on(s, gpu, grower):
    """Return which of the jobs that take memory of a GPU fails, since `grower` has made it run over."""
    if s.oom_victim == GROWER:
        return grower
    chosen = NOBODY
    count = 0
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        count += s.job_in[slot] != NOBODY and s.charged[s.job_in[slot]] == CHARGED
    wanted = drawn(s, count) if s.oom_victim == ANYONE else 0
    for slot in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        job = s.job_in[slot]
        if job == NOBODY or s.charged[job] != CHARGED:
            continue
        if s.oom_victim == ANYONE:
            if wanted == 0:
                return job
            wanted -= 1
        elif chosen == NOBODY or s.began[job] > s.began[chosen]:
            chosen = job
    return chosen
