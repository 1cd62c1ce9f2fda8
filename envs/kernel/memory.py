"""GPU memory: who takes it when, and who fails where it runs over."""

from envs.kernel._compile import compiled
from envs.kernel.layout import ANYONE, CHARGED, GROWER, MAX_SHARE, NOBODY
from envs.kernel.machines import ROUNDING

# A generator of whole numbers that is the same everywhere (Park and Miller, CACM 31(10), 1988).
MULTIPLIER, MODULUS = 48_271, 2**31 - 1


@compiled
def drawn(s, count):
    """Draw one of `count` numbers, by the seed and how many jobs have failed so far."""
    number = (s.seed + 1 + 7_919 * s.num_ooms) % MODULUS
    for _ in range(3):
        number = number * MULTIPLIER % MODULUS
    return number % count


@compiled
def grows_later(s, jobs, job):
    """Tell whether a job has not run long enough to need its peak memory."""
    return s.max_share > 1 and jobs[job].num_gpus > 0 and s.attained[job] < s.peak_at * jobs[job].duration


@compiled
def charge(s, jobs, job):
    """Take the job's peak memory on all its GPUs; return the first that runs over, or NOBODY."""
    s.charged[job] = CHARGED
    over = NOBODY
    seat = s.first_seat[job]
    while seat != NOBODY:
        gpu = seat // MAX_SHARE
        s.free_memory[gpu] -= jobs[job].peak
        if s.free_memory[gpu] < -ROUNDING and over == NOBODY:
            over = gpu
        seat = s.next_seat[seat]
    return over


@compiled
def victim_on(s, gpu, grower):
    """Return which of the jobs that take memory of a GPU fails, since `grower` has made it run over."""
    if s.oom_victim == GROWER:
        return grower
    chosen = NOBODY
    count = 0
    for seat in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        count += s.resident[seat] != NOBODY and s.charged[s.resident[seat]] == CHARGED
    wanted = drawn(s, count) if s.oom_victim == ANYONE else NOBODY
    for seat in range(MAX_SHARE * gpu, MAX_SHARE * gpu + MAX_SHARE):
        job = s.resident[seat]
        if job == NOBODY or s.charged[job] != CHARGED:
            continue
        if wanted == 0 or (wanted < 0 and (chosen == NOBODY or is_newer(s, job, chosen))):
            chosen = job
        wanted -= s.oom_victim == ANYONE
    return chosen


@compiled
def is_newer(s, job, other):
    """Tell whether a job was started after another, the later job among those of one instant."""
    return s.began[job] > s.began[other] or (s.began[job] == s.began[other] and job > other)
