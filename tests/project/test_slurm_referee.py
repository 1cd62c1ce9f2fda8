"""The referee reads Slurm's log, compares starts and replays jobs at its cycles; a real Slurm runs nightly."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import local_slurm, slurm_cycles, slurm_referee
from benchmarks.slurm_cycles import Job, Running

LOG = """\
[2026-01-01T00:00:01.500] _slurm_rpc_submit_batch_job: JobId=1 InitPrio=9 usec=220
[2026-01-01T00:00:01.600] _slurm_rpc_submit_batch_job: JobId=12 InitPrio=8 usec=209
[2026-01-01T00:00:02.000] debug:  sched: Running job scheduler for full queue.
[2026-01-01T00:00:02.001] sched: Allocate JobId=1 NodeList=n0 #CPUs=1 Partition=all
[2026-01-01T00:00:02.500] debug:  sched/backfill: _attempt_backfill: beginning
[2026-01-01T00:00:02.501] sched/backfill: _start_job: Started JobId=12 in all on n[1-2,5]
a line without a time
[2026-01-01T00:00:04.000] _job_complete: JobId=1 WEXITSTATUS 0
[2026-01-01T00:00:04.002] _job_complete: JobId=1 done
[2026-01-01T00:00:05.001] _job_complete: JobId=12 done
"""


def test_the_log_gives_submissions_starts_ends_and_cycles() -> None:
    found = slurm_referee.read_log(LOG)
    assert found.jobs.index.tolist() == [1, 12]
    np.testing.assert_allclose(found.jobs.to_numpy(), [[0, 0.501, 2.502], [0.1, 1.001, 3.501]], atol=1e-6)
    np.testing.assert_allclose(found.cycles, [0.5, 1.0], atol=1e-6)
    assert found.backfills.tolist() == [False, True]
    assert found.nodes == [[0], [1, 2, 5]]


def test_a_job_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="1 jobs have no submission, start or end"):
        slurm_referee.read_log(LOG.replace("JobId=12 done", "JobId=12 WEXITSTATUS 0"))


@pytest.mark.parametrize("scheduler", ["builtin", "backfill"])
def test_jobs_start_at_events_or_at_the_cycles_alone(scheduler: str) -> None:
    """Three jobs of half the cluster: the first starts at once, the third when the second ends. Two cycles coincide."""
    columns = {"submit_s": [0.0, 1.0, 2.0], "gpus": [32, 32, 32], "duration_s": [20.0, 10.0, 5.0]}
    jobs = pd.DataFrame(columns).assign(limit_s=60.0)
    assert slurm_referee.replay(jobs, scheduler, "limit_s").tolist() == [0, 1, 11]
    cycles = np.array([0.5, 4.5, 9.5, 9.5, 12.0, 18.0])
    assert slurm_referee.replay(jobs, scheduler, "limit_s", cycles).tolist() == [0, 4.5, 18]


RUNNING = [Running(100.0, 8, [2]), Running(110.0, 8, [0]), Running(125.0, 8, [1]), Running(200.0, 8, [3])]
"""Four nodes of 8 GPUs, all held."""
WIDE = Job(0.0, 50.0, 60.0, 1, 8)


@pytest.mark.parametrize(("group_s", "start_s", "nodes"), [(0.0, 100.0, [2]), (30.0, 125.0, [0])])
def test_a_coarse_plan_takes_running_jobs_away_in_groups(
    group_s: float, start_s: float, nodes: list[int]
) -> None:
    """Three jobs end within 30 s: the plan waits for the last of them, and takes the first of their nodes."""
    assert slurm_cycles.planned([0, 0, 0, 0], WIDE, RUNNING, group_s) == (start_s, nodes)


def test_a_job_goes_to_the_tightest_run_of_nodes() -> None:
    free = [8, 8, 0, 3, 0, 8, 8, 8]
    assert slurm_cycles.chosen(free, WIDE._replace(gpus=2)) == [3]
    assert slurm_cycles.chosen(free, WIDE) == [0]
    assert slurm_cycles.chosen(free, WIDE._replace(nodes=3)) == [5, 6, 7]
    assert slurm_cycles.chosen(free, WIDE._replace(nodes=4)) == [0, 1, 5, 6]
    assert slurm_cycles.chosen(free, WIDE._replace(nodes=3), without=[6]) == [0, 1, 5]
    assert slurm_cycles.chosen(free, WIDE._replace(nodes=6)) is None


def test_a_backfill_cycle_keeps_off_the_nodes_that_are_reserved() -> None:
    """Job 0 is planned on nodes 0 and 1 at 100 s; a job that ends later may not use node 0, a shorter one may."""
    queue = {0: WIDE._replace(nodes=2), 1: Job(0.0, 9.0, 200.0, 1, 8), 2: Job(0.0, 9.0, 30.0, 1, 8)}
    for backfills, expected in ((True, {2: [0]}), (False, {})):
        running = [Running(100.0, 8, [1])]
        found = slurm_cycles.started(10.0, [8, 0], queue, running, backfills=backfills)
        assert found == expected


def test_a_model_that_made_the_schedule_agrees_with_it() -> None:
    jobs = [Job(0.0, 20.0, 60.0, 1, 8), Job(1.0, 10.0, 60.0, 2, 8), Job(2.0, 5.0, 60.0, 1, 4)]
    cycles = [(float(second), second % 2 == 1) for second in range(60)]
    start_s = slurm_cycles.simulated(jobs, cycles, 2, 8)
    assert start_s.tolist() == [0, 20, 30]
    found = slurm_cycles.agreement(jobs, start_s, [[0], [0, 1], [0]], cycles, 2, 8)
    assert found == (3, 0, 0)


@pytest.mark.slow(reason="a real Slurm runs 40 jobs for a minute, under each of its schedulers")
@pytest.mark.parametrize("scheduler", ["builtin", "backfill"])
def test_a_real_slurm_starts_jobs_as_the_simulator_does(scheduler: str, tmp_path: Path) -> None:
    if why := local_slurm.missing():
        pytest.skip(why)
    args = ["run", str(tmp_path), "--scheduler", scheduler, "--jobs", "40", "--span", "30"]
    assert slurm_referee.main(args) == 0
    folder = tmp_path / scheduler
    happened = slurm_referee.read_log((folder / slurm_referee.LOG_NAME).read_text(encoding="utf-8"))
    asked = pd.read_csv(folder / slurm_referee.JOBS_NAME).set_index("job_id")
    found = slurm_referee.by_cause(happened, asked, scheduler)["+ scheduling cycles"]
    assert found.pairs > 0.9
    assert found.rank > 0.9
