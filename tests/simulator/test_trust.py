"""`union` gives a job the cores learned from finished jobs at once, and uses the run times learned from them.

Four cores deliver input as fast as a GPU consumes it, as in `test_history_of_cores`.
"""

from pathlib import Path

import numpy as np
import pytest

from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster.readings import TARGET_BUSY_SHARE
from gpu_cluster_gym.simulator.policy import Wait
from gpu_cluster_gym.simulator.rule_policy import Rule
from tests.cases.histories import HISTORY, load_of, with_cells
from tests.simulator.test_history_of_cores import CORES, fed_jobs

ASKED = {"sizing": 0.0, "first_guess": 2.0}


def started(folder: Path, rule: Rule, need: float = 2.6, count: int = 1) -> Episode:
    """Return an episode after the rule's actions at the first instant; the learned core need is `need`."""
    episode = load_of(folder, fed_jobs(count), with_cells(need), **CORES).episode()
    episode.advance()
    while not isinstance(action := rule(episode.view), Wait):
        episode.apply(action)
    return episode


@pytest.mark.parametrize(
    ("trust", "cores"),
    [(0.0, 2), (1.0, 5), (0.5, 4)],  # the root of 2 x 4.9 is 3.1
)
def test_trust_gives_the_learned_need_rounded_up(trust: float, cores: int, tmp_path: Path) -> None:
    episode = started(tmp_path, Rule(trust_cores=trust, **ASKED), need=4.9)
    assert episode.view.jobs.cores_now.tolist() == [cores]


def test_unwanted_cores_are_given_up_to_the_surplus(tmp_path: Path) -> None:
    asked = ASKED | {"trust_cores": 0.0}
    assert started(tmp_path, Rule(**asked)).view.jobs.cores_now.tolist() == [2]
    assert started(tmp_path, Rule(surplus=1.7, **asked)).view.jobs.cores_now.tolist() == [
        4
    ]  # 3.4, rounded up


def test_a_reading_of_the_job_counts_more_than_the_prior(tmp_path: Path) -> None:
    """With a learned need of 2.6 cores it gets three, its GPU is busy for 3 / 4, and it gets four."""
    rule = Rule(trust_cores=1, **ASKED)
    episode = started(tmp_path, rule)
    assert episode.view.jobs.cores_now.tolist() == [3]
    episode.apply(Wait(400.0))
    episode.advance()
    assert episode.view.jobs.expected_cores[0] == pytest.approx(4 * TARGET_BUSY_SHARE, rel=0.05)
    while not isinstance(action := rule(episode.view), Wait):
        episode.apply(action)
    assert episode.view.jobs.cores_now.tolist() == [4]


@pytest.mark.parametrize(("trust", "first"), [(0.0, 2), (1.0, 3)])
def test_the_job_with_the_shorter_expected_run_time_comes_first(
    trust: float, first: int, tmp_path: Path
) -> None:
    """Of two jobs that wait for the only node, the batch of the second took 20 s; both estimates are 1,000 s."""
    table = fed_jobs(4, 55.0).assign(num_gpus=8, cpu_cores=32, user=["v", "v", "u", "v"])
    table["duration_s"] = [20.0, 20.0, 1000.0, 1000.0]
    table.loc[2:, "submit_s"] = 110.0
    rule = Rule(trust_times=trust, preemption=0.0, sharing=0.0, **ASKED)
    load = load_of(tmp_path, table, HISTORY, cluster="1x8", **CORES)
    start_s = run(rule, load.episode()).state.start_s
    assert int(np.argmin(start_s[2:4])) + 2 == first
