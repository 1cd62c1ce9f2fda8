"""Claims of GPUs that running jobs hold, worked by hand and played on the second account too.

A is the first job of the list; `A 0-10` runs from 0 to 10.
"""

from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Start
from gpu_cluster_gym.simulator.view import View
from tests.accounts.twins import Twins
from tests.cases.by_hand import TWO, Lines, Script, booked, ends, job, on, played
from tests.cases.mixed_jobs import table_of, workload

PAUSES = "memory,preemption"


def test_a_claimed_gpu_goes_to_the_job_that_claimed_it_when_its_holder_ends() -> None:
    """On GPUs 0 and 1: A 0-100 on the first; B claims both at 10, 100-150; C can have none, and runs 150-170."""
    jobs = [job(100), job(50, submit_s=10.0, num_gpus=2), job(20, submit_s=10.0)]
    lines: Lines = {0: [Start(0, on(0))], 10: [Start(1, on(0, 1), claim=True)], 150: [Start(2, on(0))]}
    results = played(jobs, lines, cluster=TWO, physics=PAUSES)
    assert ends(results) == [100, 150, 170]
    assert booked(results, 1, "wait_s run_s") == [90, 50]


def test_a_pause_of_the_holder_brings_it_sooner() -> None:
    """A pauses 20-25, when B has both; it loads 75-82 and runs its last 80."""
    jobs = [job(100, pause_s=5.0, load_s=7.0), job(50, submit_s=10.0, num_gpus=2)]
    lines: Lines = {
        0: [Start(0, on(0))],
        10: [Start(1, on(0, 1), claim=True)],
        20: [Preempt(0)],
        75: [Start(0, on(0))],
    }
    results = played(jobs, lines, cluster=TWO, physics=PAUSES)
    assert ends(results) == [162, 75]


def test_free_gpus_are_claimed_at_once() -> None:
    results = played([job(100)], {0: [Start(0, on(0), claim=True)]}, physics=PAUSES)
    assert ends(results) == [100]


def test_what_may_be_claimed() -> None:
    """A is on GPU 0 of a node of two, which C claims; B is on 2 and 3 of another. D of two GPUs may claim these."""
    jobs = [job(100), job(80, num_gpus=2), job(10, submit_s=1.0), job(10, submit_s=2.0, num_gpus=2)]
    lines: Lines = {
        0: [Start(0, on(0)), Start(1, on(2, 3))],
        1: [Start(2, on(0), claim=True)],
        2: [Start(3, on(2, 3), claim=True)],
    }
    work = workload(table_of(*jobs), TWO, physics=PAUSES)
    twins = Twins(work)
    script = Script(lines)
    legal: list[bool] = []
    places: list[Placement | None] = []

    def watched(view: View) -> Action:
        if view.now == 2 and not legal:
            tried = [on(0, 1), on(2, 3), on(1, 3), on(2)]
            legal.extend(
                [twins.legal(Start(3, each, claim=claim)) for each in tried for claim in (False, True)]
            )
            places.append(view.place_claim(3))
        return script(view)

    assert twins.play(watched) == []
    assert legal == [False, False, False, True, False, True, False, False]
    assert places == [on(2, 3)]
    assert ends(work.results(twins.episode)) == [100, 80, 110, 90]
