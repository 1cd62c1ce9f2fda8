"""What is called frictionless is: the shortest job runs at once, and a job has the GPUs that it can use."""

import numpy as np
import pytest

from benchmarks.frictionless import Jobs, compared, finish_s, left_of
from gpu_cluster_gym.simulator.kernel.union import decide
from gpu_cluster_gym.simulator.rule_policy import Rule, memory_of
from gpu_cluster_gym.workloads import named, windows


def jobs(submit_s: list[float], duration_s: list[float], most: int = 1, loss: float = 0.0) -> Jobs:
    """Return jobs that ask for one GPU each, whose estimates are exact."""
    took = np.array(duration_s)
    ones = np.ones(len(took))
    return Jobs(np.array(submit_s), took, took, took, ones, np.full(len(took), most), loss * ones)


def test_the_shortest_remaining_job_runs_at_once() -> None:
    """A: 100 s from 0 on, paused at 1 for B, 30 s; all on one GPU."""
    assert finish_s(jobs([0.0, 1.0], [100.0, 30.0]), 1, 1.0, 1.0).tolist() == pytest.approx([130.0, 31.0])


def test_a_job_alone_has_all_that_it_can_use() -> None:
    """Half of its iteration does not scale: twice the GPUs make it 4 / 3 times as fast."""
    assert finish_s(jobs([5.0], [100.0], most=2, loss=0.5), 4, 0.0, 1.0).tolist() == pytest.approx([80.0])


def test_a_window_is_held_against_the_rule_from_both_points_in_time() -> None:
    found = compared(windows(named("quick"), "train", 1)[0].episode(), Rule())
    assert found.rule_s[0] > found.rule_s[1] > 0
    assert (found.ratios[0] > 0.3).all()
    assert found.ratios[0, :, 1].mean() < found.ratios[0, :, 0].mean() * 1.05


def test_what_a_running_job_has_done_so_far_counts() -> None:
    """Between two instants too: as long as it runs undisturbed its work falls by a second a second."""
    episode = windows(named("quick"), "train", 1)[0].episode()
    jobs_there = episode.jobs
    memory = memory_of(Rule(), episode.states, jobs_there, episode.histories)
    decide.run_until(episode.states, 0, memory, 0, jobs_there, float(jobs_there["submit_s"][-1]))
    left, began = left_of(episode), float(episode.state.clock)
    decide.run_until(episode.states, 0, memory, 0, jobs_there, began + 1.0)
    done, passed = left - left_of(episode), float(episode.state.clock) - began
    assert passed > 0
    assert done.max() == pytest.approx(passed)
    assert done.min() >= 0
