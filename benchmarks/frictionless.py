"""What a schedule without friction would have: `python benchmarks/frictionless.py [--workload philly] [--windows 24]`.

GPUs have no nodes, pauses, loads and moves cost nothing, cores suffice, and at every arrival and end each job's width
is chosen anew; but nobody shares a GPU. Jobs stand in order by what they have left times their GPUs to a power; each is
given the width at which its time, and what that costs others at a price, is least; what remains goes where a further
GPU speeds up most what has little left. On training windows the mean JCT is compared with that of the constants kept
for the workload, under its physics: from the first submission, and from the last one on, in the state in which those
leave the window. The less lies between them, the less is left for a scheduler that knows no more. Not a bound: other
orders might do better.
"""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluation.comparison import estimate
from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE
from gpu_cluster_gym.simulator.kernel.union import decide
from gpu_cluster_gym.simulator.rule_policy import Rule, memory_of
from gpu_cluster_gym.workloads import named, windows

SCHEDULES = [(price, exponent) for exponent in (0.5, 0.8, 1.0, 1.2) for price in (1.0, 2.0, 4.0)]
LEAST_SHARE, LEAST_S = (
    0.2,
    15.0,
)  # of what was attained, and s, that are taken to be left, as in the simulator


class Jobs(NamedTuple):
    """Jobs with GPUs, an array each: s, GPUs asked for and at most, the share of an iteration that does not scale."""

    submit_s: np.ndarray
    duration_s: np.ndarray
    estimate_s: np.ndarray
    left_s: np.ndarray
    asked: np.ndarray
    most: np.ndarray
    loss: np.ndarray


@numba.njit
def speed(jobs: Jobs, job: int, width: int) -> float:
    """Return the speed of a job on so many GPUs, over that on those it asks for."""
    loss = jobs.loss[job]
    return 0.0 if width == 0 else 1.0 / ((1.0 - loss) * jobs.asked[job] / width + loss)


@numba.njit
def widths(
    jobs: Jobs, left: np.ndarray, present: np.ndarray, gpus: int, price: float, exponent: float
) -> np.ndarray:
    """Return the GPUs of each job: those it is worth a price to have, in order, and then those that are over."""
    chosen, free = np.zeros(len(left), np.int64), gpus
    here = np.flatnonzero(present)
    each = price * len(here) / gpus
    for job in here[np.argsort(left[here] * jobs.asked[here] ** exponent)]:
        least = np.inf
        for width in range(1, min(jobs.most[job], free) + 1):
            cost = (1.0 + each * width) / speed(jobs, job, width)
            if cost < least:
                least, chosen[job] = cost, width
        free -= chosen[job]
    while free > 0:
        best, most = np.int64(-1), 0.0
        for job in here:
            if chosen[job] < jobs.most[job]:
                gain = (speed(jobs, job, chosen[job] + 1) - speed(jobs, job, chosen[job])) / left[job]
                if gain > most:
                    best, most = job, gain
        if best < 0:
            break
        chosen[best] += 1
        free -= 1
    return chosen


@numba.njit
def finish_s(jobs: Jobs, gpus: int, price: float, exponent: float) -> np.ndarray:
    """Return when each job ends, s, those that have nothing left at once."""
    count, now, arrived = len(jobs.submit_s), float(jobs.submit_s.min()), 0
    left, finish, present = jobs.left_s.copy(), jobs.submit_s.copy(), np.zeros(count, np.bool_)
    while True:
        while arrived < count and jobs.submit_s[arrived] <= now:
            present[arrived] = left[arrived] > 0
            arrived += 1
        if arrived == count and not present.any():
            return finish
        attained = jobs.duration_s - left
        believed = np.maximum(np.maximum(jobs.estimate_s - attained, LEAST_SHARE * attained), LEAST_S)
        chosen = widths(jobs, believed, present, gpus, price, exponent)
        step = jobs.submit_s[arrived] - now if arrived < count else np.inf
        for job in np.flatnonzero(chosen):
            step = min(step, left[job] / speed(jobs, job, chosen[job]))
        now += step
        for job in np.flatnonzero(chosen):
            left[job] -= step * speed(jobs, job, chosen[job])
            if left[job] <= 1e-6:
                left[job], finish[job], present[job] = 0.0, now, False


def jobs_of(episode: Episode, left_s: np.ndarray, submit_s: np.ndarray, *, knows: bool) -> Jobs:
    """Return the jobs of an episode that use GPUs; knows: the true run times in the place of estimates."""
    of, keep = episode.jobs, episode.jobs["num_gpus"] > 0
    believed = of["duration_s"] if knows else of["profiled_duration_s"]
    submit, duration, estimated, left, asked, loss = (
        np.ascontiguousarray(each[keep], float)
        for each in (submit_s, of["duration_s"], believed, left_s, of["num_gpus"], of["scaling_loss"])
    )
    most = np.ascontiguousarray(of["max_workers"][keep], np.int64)
    return Jobs(submit, duration, estimated, left, asked, most, loss)


def left_of(episode: Episode) -> np.ndarray:
    """Return the seconds of run time that each job has left now, all having arrived; 0 of those that have ended."""
    done = episode.states["phase"][0, : len(episode.jobs)] == DONE
    left: np.ndarray = np.where(done, 0.0, episode.jobs["duration_s"] - episode.view.jobs.attained_s)
    return left


class Compared(NamedTuple):
    """Job-seconds of a window, from its first submission and from its last: the rule's, and each schedule's over it."""

    rule_s: tuple[float, float]
    ratios: np.ndarray
    """(2, schedules, 2): by where they begin, and by whether they know true run times."""


def compared(episode: Episode, rule: Rule) -> Compared:
    """Play a window by a rule to its last submission, and on to its end, and by every schedule from both."""
    jobs, states = episode.jobs, episode.states
    count, gpus, gpu_jobs = len(jobs), int(states["num_gpus"][0]), jobs["num_gpus"] > 0
    memory = memory_of(rule, states, jobs, episode.histories)
    decide.run_until(states, 0, memory, 0, jobs, float(jobs["submit_s"][-1]))
    now = float(states["clock"][0])
    left = left_of(episode)
    decide.run_until(states, 0, memory, 0, jobs, np.inf)
    ended = states["finish_s"][0, :count]
    spent = (
        float((ended - jobs["submit_s"])[gpu_jobs].sum()),
        float((ended - now)[gpu_jobs & (left > 0)].sum()),
    )
    ratios = np.zeros((2, len(SCHEDULES), 2))
    for begin, (left_s, submit_s) in enumerate(
        ((jobs["duration_s"], jobs["submit_s"]), (left, np.full(count, now)))
    ):
        for knows in (False, True):
            found = jobs_of(episode, left_s, submit_s, knows=knows)
            for number, schedule in enumerate(SCHEDULES):
                took = (finish_s(found, gpus, *schedule) - found.submit_s).sum()
                ratios[begin, number, int(knows)] = took / spent[begin]
    return Compared(spent, ratios)


def main(args: Sequence[str] | None = None) -> None:
    """Print a line a schedule, the best last."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", default="philly", choices=baselines.with_constants())
    parser.add_argument("--windows", type=int, default=24)
    chosen = parser.parse_args(args)
    rule = Rule(**baselines.constants(chosen.workload).settings)
    loads = windows(named(chosen.workload), "train", chosen.windows)
    found = [compared(each.episode(), rule) for each in loads]
    after = sum(each.rule_s[1] for each in found) / sum(each.rule_s[0] for each in found)
    print(
        f"{len(found)} training windows; {after:.0%} of the constants' job-seconds come after the last submission"
    )
    ratios = np.array([each.ratios for each in found])
    print(
        "Mean JCT / the constants', from the first submission and from the last; the same by true run times"
    )
    print(f"{'price':>5} {'exponent':>8}")
    for number in np.argsort(-ratios[:, 0, :, 0].mean(axis=0)):
        cells = (estimate(ratios[:, begin, number, knows]) for knows in (0, 1) for begin in (0, 1))
        shown = "  ".join(f"{cell.mean:.3f} ({cell.low:.3f}-{cell.high:.3f})" for cell in cells)
        print(f"{SCHEDULES[number][0]:5g} {SCHEDULES[number][1]:8g}  {shown}")


if __name__ == "__main__":
    main()
