"""Results known without a simulator: waiting times of queues by formula, and best schedules by enumeration."""

import itertools
import math
import random
from functools import cache

import numpy as np
import pytest

from tests.accounts.reference import Job, Node, Rules
from tests.cases.scenarios import compiled

FIFO = Rules("submit", preempt=False, placement="pooled", estimates=False)
SRPT = Rules("remaining", preempt=True, placement="pooled", estimates=False)


def job(submit: float, duration: float, gpus: int = 1) -> Job:
    return Job(submit, gpus, duration, duration, 0.0, 0.0, 0.0)


def pool(gpus: int) -> list[Node]:
    return [Node(1, 16.0, 6)] * gpus


# Queues with a formula.


def erlang_c(servers: int, load: float) -> float:
    """Return the share of arrivals that must wait in M/M/c, at `load` = arrival rate / service rate."""
    busy = load**servers / math.factorial(servers) * servers / (servers - load)
    return busy / (sum(load**n / math.factorial(n) for n in range(servers)) + busy)


def in_system(servers: int, load: float) -> np.ndarray:
    """Return the chances of finding 0, 1, 2 ... jobs in M/M/c."""
    steps = load / np.minimum(np.arange(1, 400), servers)
    chances = np.cumprod([1.0, *steps])
    return np.asarray(chances / chances.sum())


def mean_wait(rng: np.random.Generator, servers: int, load: float, count: int = 300) -> float:
    """Measure the mean wait of `count` arrivals, the first at time 0, when the queue is as it is in the long run.

    Who is there then has an exponential time to go, whatever it has had: so nothing need be cut off.
    """
    there = rng.choice(400, p=in_system(servers, load))
    submit = np.concatenate([np.zeros(there + 1), np.cumsum(rng.exponential(1 / load, count - 1))])
    durations = rng.exponential(1.0, there + count)
    jobs = [job(*row) for row in zip(submit.tolist(), durations.tolist(), strict=True)]
    return float(np.mean([outcome.wait_s for outcome in compiled(jobs, pool(servers), FIFO)[there:]]))


@pytest.mark.parametrize(("servers", "use"), [(1, 0.5), (1, 0.8), (2, 0.7), (8, 0.9), (30, 0.95)])
def test_mean_waits_agree_with_queueing_theory(servers: int, use: float) -> None:
    """Two hundred queues of 300 arrivals, 60,000 in all: the mean is within three standard errors of Erlang's."""
    load = servers * use
    rng = np.random.default_rng([servers, int(100 * use)])
    means = np.array([mean_wait(rng, servers, load) for _ in range(200)])
    error = means.std(ddof=1) / np.sqrt(len(means))
    theory = erlang_c(servers, load) / (servers - load)
    assert abs(means.mean() - theory) < 3 * error
    assert error < theory / 5


# All schedules tried.


def tiny(seed: int) -> list[Job]:
    """Draw two to five jobs of one to four seconds that crowd together."""
    draw = random.Random(seed)
    submits = sorted(draw.randrange(7) for _ in range(draw.randint(2, 5)))
    return [job(submit, draw.randint(1, 4)) for submit in submits]


def least_total_jct(jobs: list[Job]) -> float:
    """Return the least total time in system over all schedules that choose one job, or none, each second."""

    @cache
    def cost_from(second: int, left: tuple[float, ...]) -> float:
        if not any(left):
            return 0.0
        able = [j for j, job in enumerate(jobs) if left[j] and job.submit_s <= second]
        choices = [(*left[:j], left[j] - 1, *left[j + 1 :]) for j in able]
        return len(able) + min(cost_from(second + 1, after) for after in (choices or [left]))

    return cost_from(0, tuple(job.duration_s for job in jobs))


def total_jct(jobs: list[Job], rules: Rules) -> float:
    return sum(o.finish_s - j.submit_s for j, o in zip(jobs, compiled(jobs, pool(1), rules), strict=True))


def test_srpt_is_the_best_of_all_schedules_on_one_gpu() -> None:
    for seed in range(600):
        assert total_jct(tiny(seed), SRPT) == least_total_jct(tiny(seed))


def test_fifo_is_not() -> None:
    worse = sum(total_jct(tiny(seed), FIFO) > least_total_jct(tiny(seed)) for seed in range(100))
    assert worse > 30


def first_come_first_served(jobs: list[Job], gpus: int) -> list[float]:
    """Return the finishes if each job starts as soon as those before it have and its GPUs are free."""
    starts: list[float] = []
    for j, job in enumerate(jobs):
        earliest = max([job.submit_s, *starts])
        ends = [start + other.duration_s for start, other in zip(starts, jobs[:j], strict=True)]
        for start in sorted({earliest, *(end for end in ends if end > earliest)}):
            held = sum(other.num_gpus for end, other in zip(ends, jobs, strict=False) if end > start)
            if held + job.num_gpus <= gpus:
                starts.append(start)
                break
    return [start + job.duration_s for start, job in zip(starts, jobs, strict=True)]


def test_strict_fifo_follows_its_definition() -> None:
    for seed, gpus in itertools.product(range(300), (1, 4)):
        draw = random.Random(seed)
        jobs = [one._replace(num_gpus=draw.randint(1, gpus)) for one in tiny(seed)]
        found = compiled(jobs, pool(gpus), FIFO._replace(discipline="strict"))
        assert [outcome.finish_s for outcome in found] == first_come_first_served(jobs, gpus)
