"""A ranking's pass leaves jobs alone that start at the same instant."""

import pytest

from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Action, Preempt, Ranking, Start, Wait
from gpu_cluster_gym.simulator.view import View
from tests.cases.by_hand import CORES, ends, job, on
from tests.cases.mixed_jobs import table_of, workload


@pytest.mark.parametrize("step_by_step", [False, True])
def test_a_cpu_job_waits_if_the_displacing_job_takes_the_cores(step_by_step: bool) -> None:
    """At 600 C, who asks seven cores of eight, displaces A; D, a CPU job, asks three and waits till C is done.

    A 0-600, C 600-610, A 610-1010, D 610-710; B 0-1000.
    """
    node = Cluster("eight cores", (2,), (16.0,), (8,))
    jobs = [job(1000), job(1000), job(10, submit_s=600.0, cpu_cores=7)]
    jobs.append(job(100, submit_s=600.0, num_gpus=0, cpu_cores=3))
    work = workload(table_of(*jobs), node, physics=CORES)
    las = Ranking("level", "by_order", levels=(30.0,))
    assert ends(work.results(run(las, work.episode(), step_by_step=step_by_step))) == [1010, 1000, 610, 710]


def test_a_ranking_does_not_pause_a_job_that_inherited_gpus_at_this_instant() -> None:
    """A 0-5, pausing till 15 for B, for whom its GPU is reserved; C, the shortest, comes at 15: B is not paused.

    B 15-115, C 115-125, A 125-220.
    """
    jobs = [job(100, pause_s=10.0), job(100, submit_s=5.0), job(10, submit_s=15.0)]
    work = workload(table_of(*jobs), Cluster("one", (1,), (16.0,), (8,)), physics="memory,preemption")
    moves: dict[float, list[Action]] = {0.0: [Start(0, on(0))], 5.0: [Preempt(0), Start(1, on(0))]}
    srtf = Ranking("remaining", "by_order")

    def policy(view: View) -> Action:
        if view.now >= 15:
            return srtf(view)
        return moves[view.now].pop(0) if moves[view.now] else Wait()

    assert ends(work.results(run(policy, work.episode()))) == [220, 115, 125]
