"""The rule over moves uses predictions from finished jobs: cores from the start, and run times.

Four cores feed a GPU at full speed, as in `test_history_of_cores`.
"""

from pathlib import Path

import numpy as np
import pytest

from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster.core_readings import GOOD
from gpu_cluster_gym.simulator.policy import Wait
from gpu_cluster_gym.simulator.rule import Rule
from tests.cases.past import HISTORY, load_of, with_cells
from tests.simulator.test_history_of_cores import CORES, fed_jobs

ASKED = {"sizing": 0.0, "first_guess": 2.0}


def begun(folder: Path, rule: Rule, thought: float = 2.6, count: int = 1) -> Episode:
    """Return an episode after the rule's moves at the first instant, with predicted core demands."""
    episode = load_of(folder, fed_jobs(count), with_cells(thought), **CORES).episode()
    episode.advance()
    while not isinstance(action := rule(episode.view), Wait):
        episode.apply(action)
    return episode


@pytest.mark.parametrize(
    ("trust", "cores"),
    [(0.0, 2), (1.0, 5), (0.5, 4)],  # the root of 2 x 4.9 is 3.1
)
def test_trust_gives_the_predicted_cores_rounded_up(trust: float, cores: int, tmp_path: Path) -> None:
    episode = begun(tmp_path, Rule(trust_cores=trust, **ASKED), thought=4.9)
    assert episode.view.jobs.cores_now.tolist() == [cores]


def test_unrequested_cores_are_given_up_to_the_surplus(tmp_path: Path) -> None:
    asked = ASKED | {"trust_cores": 0.0}
    assert begun(tmp_path, Rule(**asked)).view.jobs.cores_now.tolist() == [2]
    assert begun(tmp_path, Rule(surplus=1.7, **asked)).view.jobs.cores_now.tolist() == [4]  # 3.4, rounded up


def test_a_jobs_own_reading_outweighs_the_prediction(tmp_path: Path) -> None:
    """With a predicted need of 2.6 cores it gets three, its GPU is busy for 3 / 4, and then it gets four."""
    rule = Rule(trust_cores=1, **ASKED)
    episode = begun(tmp_path, rule)
    assert episode.view.jobs.cores_now.tolist() == [3]
    episode.apply(Wait(400.0))
    episode.advance()
    assert episode.view.jobs.expected_cores[0] == pytest.approx(4 * GOOD, rel=0.05)
    while not isinstance(action := rule(episode.view), Wait):
        episode.apply(action)
    assert episode.view.jobs.cores_now.tolist() == [4]


@pytest.mark.parametrize(("trust", "first"), [(0.0, 2), (1.0, 3)])
def test_the_job_with_the_shorter_prediction_starts_first(trust: float, first: int, tmp_path: Path) -> None:
    """Two jobs wait for the only node, both estimated at 1,000 s; jobs of the second's batch took 20 s."""
    table = fed_jobs(4, 55.0).assign(num_gpus=8, cpu_cores=32, user=["v", "v", "u", "v"])
    table["duration_s"] = [20.0, 20.0, 1000.0, 1000.0]
    table.loc[2:, "submit_s"] = 110.0
    rule = Rule(trust_times=trust, preemption=0.0, sharing=0.0, **ASKED)
    load = load_of(tmp_path, table, HISTORY, cluster="1x8", **CORES)
    start_s = run(rule, load.episode()).state.start_s
    assert int(np.argmin(start_s[2:4])) + 2 == first
