"""Expected core needs follow from readings of the job, of its batch and of finished jobs.

Four cores deliver input as fast as a GPU consumes it, so 4 x TARGET_BUSY_SHARE cores keep the GPU busy for
TARGET_BUSY_SHARE of the time.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.kernel.cluster.readings import BUSY_ERROR_S, MIN_READING_S, TARGET_BUSY_SHARE
from gpu_cluster_gym.simulator.policy import Resize, Start, Wait
from gpu_cluster_gym.simulator.vocabulary import DONE
from gpu_cluster_gym.workloads import Workload
from tests.cases.by_hand import on
from tests.cases.histories import load_of, with_cells

MANY_ERRORS = 5  # deviations of a reading
NEED = 4 * TARGET_BUSY_SHARE


def fed_jobs(count: int, submit_s: float = 0.0) -> pd.DataFrame:
    """Return jobs of one GPU and one user, `submit_s` apart."""
    return pd.DataFrame(
        {
            "job_id": [f"j{number}" for number in range(count)],
            "submit_s": submit_s * np.arange(count),
            "num_gpus": 1,
            "duration_s": 1000.0,
            "profiled_duration_s": 1000.0,
            "predictable_from": 0.0,
            "user": "u",
            "active_ms": 90.0,
            "idle_ms": 10.0,
            "input_core_s": 0.4,
            "cpu_cores": 4,
            "pause_s": 0.0,
            "load_s": 0.0,
            "sync_gb": 0.0,
            "gpu_memory_gib": 1.0,
        }
    )


def after(load: Workload, seconds: float, *starts: Start) -> Episode:
    """Return an episode after these starts at its first instant, and this many seconds."""
    episode = load.episode()
    episode.advance()
    for start in starts:
        episode.apply(start)
    episode.apply(Wait(seconds))
    episode.advance()
    return episode


CORES = {"physics": "memory,preemption,estimates,cores,sharing"}


@pytest.mark.parametrize("cores", [1.0, 2.0, 3.0])
def test_too_few_cores_reveal_the_need(cores: float, tmp_path: Path) -> None:
    load = load_of(tmp_path, fed_jobs(1), with_cells(20.0), **CORES)
    view = after(load, 400.0, Start(0, on(0, cores=cores))).view
    share = cores / 4
    error = np.sqrt(2) * BUSY_ERROR_S / 400.0
    assert view.jobs.busy_share_alone[0] == pytest.approx(share, abs=MANY_ERRORS * error)
    assert view.jobs.cores_when_busy[0] == pytest.approx(NEED, rel=MANY_ERRORS * error / share)
    assert view.jobs.expected_cores[0] == pytest.approx(NEED, rel=0.1), "the prior hardly counts"


def test_enough_cores_reveal_only_an_upper_bound(tmp_path: Path) -> None:
    for thought, cores in ((3.0, 3.0), (20.0, 6 * TARGET_BUSY_SHARE)):
        load = load_of(tmp_path, fed_jobs(1), with_cells(thought), **CORES)
        view = after(load, 400.0, Start(0, on(0, cores=6.0))).view
        assert view.jobs.expected_cores[0] == pytest.approx(cores, rel=0.05)


def test_there_are_no_readings_within_a_minute_or_on_shared_gpus(tmp_path: Path) -> None:
    load = load_of(tmp_path, fed_jobs(2), with_cells(3.0), **CORES)
    start = Start(0, on(0, cores=2.0))
    for episode in (
        after(load, MIN_READING_S - 1, start),
        after(load, 500.0, start, Start(1, on(0, cores=2.0))),
    ):
        assert not episode.view.jobs.busy_share_alone[0]
        assert np.isnan(episode.view.jobs.cores_when_busy[0])
        assert episode.view.jobs.expected_cores[0] == pytest.approx(3.0)


def test_core_seconds_are_weighted_by_time(tmp_path: Path) -> None:
    """Two cores for 200 s and then three: 900 core-seconds, GPUs busy for 100 + 300 x 3 / 4 s of 500."""
    episode = after(
        load_of(tmp_path, fed_jobs(1), with_cells(3.0), **CORES), 200.0, Start(0, on(0, cores=2.0))
    )
    episode.apply(Resize(0, 3.0))
    episode.apply(Wait(300.0))
    episode.advance()
    error = MANY_ERRORS * np.sqrt(2) * BUSY_ERROR_S
    busy_s = 200.0 * 2 / 4 + 300.0 * 3 / 4
    assert episode.view.jobs.busy_share_alone[0] * 500.0 == pytest.approx(busy_s, abs=error)
    assert episode.view.jobs.cores_when_busy[0] == pytest.approx(
        TARGET_BUSY_SHARE * 1300.0 / busy_s, rel=error / busy_s
    )


def episode_of_six(tmp_path: Path, apart_s: float) -> Episode:
    """Return an episode in which five jobs started with two cores upon arrival, and a sixth has arrived."""
    episode = load_of(tmp_path, fed_jobs(6, apart_s), with_cells(20.0), **CORES).episode()
    for job in range(5):
        episode.advance()
        while job not in episode.view.queue:
            episode.apply(Wait())
            episode.advance()
        episode.apply(Start(job, on(job, cores=2.0)))
        episode.apply(Wait())
    while episode.state.num_arrived < 6:
        episode.advance()
    return episode


def test_jobs_of_a_batch_reveal_the_need_of_one_that_has_not_run(tmp_path: Path) -> None:
    episode = episode_of_six(tmp_path, 10.0)
    assert episode.view.jobs.expected_cores[5] == pytest.approx(20.0), "none has run for a minute"
    episode.apply(Wait(300.0))
    episode.advance()
    assert episode.view.jobs.expected_cores[5] == pytest.approx(NEED, rel=0.1)


def test_finished_jobs_of_similar_profile_reveal_it_too(tmp_path: Path) -> None:
    """Five more jobs, beside the five whose mean is twenty cores."""
    episode = episode_of_six(tmp_path, 3000.0)
    assert (episode.view.jobs.phase[:5] == DONE).all()
    assert episode.view.jobs.expected_cores[5] == pytest.approx(np.sqrt(20.0 * NEED), rel=0.05)
