"""`union` uses each of its four levers if it pays, and none that is disabled."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.baselines.union import GRID
from gpu_cluster_gym.simulator.cluster import Cluster, uniform
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB
from gpu_cluster_gym.simulator.physics import Physics
from gpu_cluster_gym.simulator.policy import Action, Placement, Resize, Start, Wait
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import named, windows

SCENARIO = replace(named("mixed"), jobs=60)


@cache
def played(**levers: bool) -> pd.DataFrame:
    """Return the results of one training episode of sixty jobs."""
    (load,) = windows(SCENARIO, "train", 1)
    return load.results(run(Rule(**levers), load.episode()))


def jobs(*rows: tuple[float, int, float], most: int = 1, **fields: float) -> np.ndarray:
    """Return jobs of (submit, GPUs, duration) with exact estimates, each elastic up to `most` times its GPUs."""
    array = np.zeros(len(rows), JOB)
    array["submit_s"], array["num_gpus"], array["duration_s"] = zip(*rows, strict=True)
    array["profiled_duration_s"] = array["predicted_duration_s"] = array["duration_s"]
    array["min_workers"], array["max_workers"] = np.minimum(array["num_gpus"], 1), most * array["num_gpus"]
    array["active_ms"] = array["gpu_s"] = 1.0
    array["gpu_utilization"], array["crash_at"] = 0.4, 1.0
    for name, value in fields.items():
        array[name] = value
    return array


def finishes(policy: Rule, work: np.ndarray, gpus: int, max_share: int = 1) -> list[float]:
    """Return the finish time of each job on one node."""
    episode = Episode(work, uniform(1, gpus), exact=True, physics=Physics(max_share=max_share))
    ends: list[float] = run(policy, episode).state.finish_s[: len(work)].tolist()
    return ends


def end_on_cores(policy: Rule, work: np.ndarray) -> float:
    """Return the last finish time on one GPU with eight cores, on which speed depends."""
    node = Cluster("one", (1,), (16.0,), (8,))
    episode = Episode(work, node, exact=True, physics=Physics(cores=True))
    return float(run(policy, episode).state.finish_s[: len(work)].max())


def test_all_levers_are_used() -> None:
    results = played()
    assert results["shared_s"].sum() > 0
    assert results["resizes"].sum() > 0
    assert results["oom_restarts"].sum() == 0


def test_without_sharing_no_gpu_is_shared() -> None:
    assert played(sharing=False)["shared_s"].sum() == 0


def test_without_preemption_no_job_is_paused() -> None:
    assert played(preemption=False)["preemptions"].sum() == 0


def test_without_sizing_each_job_has_the_requested_gpus() -> None:
    results = played(sizing=False)
    assert results["resizes"].sum() == 0
    whole_s = results["run_s"] + results["overhead_s"] + results["lost_s"]
    held = results["run_gpu_s"] + results["overhead_gpu_s"] + results["lost_gpu_s"]
    np.testing.assert_allclose(held, results["num_gpus"] * whole_s, rtol=1e-6)


def test_without_cores_no_action_changes_cores() -> None:
    (load,) = windows(SCENARIO, "train", 1)
    episode = load.episode()
    policy = Rule(cores=False)

    def checked(view: View) -> Action:
        action = policy(view)
        assert not isinstance(action, Resize) or action.placement is not None
        placement = action.placement if isinstance(action, Start | Resize) else None
        assert placement is None or placement.cores is None
        return action

    run(checked, episode)


def test_a_short_job_displaces_a_long_one_if_that_pays() -> None:
    """A 0-100, pause -110, B 110-210, load -230, A 230-9130; with costly restarts B waits until A ends."""
    work = jobs((0, 1, 9000), (100, 1, 100), pause_s=10, load_s=20)
    assert finishes(Rule(), work, 1) == [9130, 210]
    assert finishes(Rule(), jobs((0, 1, 9000), (100, 1, 100), pause_s=8000, load_s=8000), 1) == [9000, 9100]


def test_a_later_job_displaces_another_if_the_first_could_only_displace_a_costly_one() -> None:
    """B could only displace A, whose restart costs hours; C, behind B, displaces D."""
    work = jobs((0, 2, 9000), (0, 1, 9000), (100, 2, 50), (100, 1, 100))
    work["pause_s"], work["load_s"] = [8000, 10, 10, 10], [8000, 20, 20, 20]
    assert finishes(Rule(sizing=False), work, 3)[3] == 210
    assert finishes(Rule(sizing=False, contenders=1), work, 3)[3] > 9000


def test_a_job_larger_than_any_node_displaces_long_ones_if_others_wait_too() -> None:
    """C, on both nodes, 110-210; with backlog 0 the time of the next opening is unknown for a gang, and C waits."""
    work = jobs((0, 1, 9000), (0, 1, 9000), (100, 2, 100), (100, 1, 8000), pause_s=10, load_s=20)

    def end_of_gang(policy: Rule) -> float:
        episode = run(policy, Episode(work, uniform(2, 1), exact=True))
        return float(episode.state.finish_s[2])

    assert end_of_gang(Rule(sizing=False)) == 210
    assert end_of_gang(Rule(sizing=False, backlog=0)) > 9000


def test_if_others_wait_too_a_job_is_taken_to_wait_as_long_as_its_victims_would_run() -> None:
    """A GPU opens at 250, too soon for B to pause A at this cost, except that C waits for it as well."""
    work = jobs((0, 1, 9000), (0, 1, 250), (100, 1, 100), (100, 1, 120), pause_s=60, load_s=60)
    assert finishes(Rule(), work, 2)[2] == 260
    assert finishes(Rule(backlog=0), work, 2)[2] == 350


def test_a_job_that_started_with_few_gpus_takes_more_before_longer_ones_start() -> None:
    """A, on one of two GPUs, has 701 GPU-seconds to go when B leaves the other; C runs once A has finished."""
    work = jobs((0, 1, 100), (1, 2, 400), (2, 1, 9000))
    assert finishes(Rule(preemption=False, widening=1), work, 2) == [100, 450.5, 9450.5]
    assert finishes(Rule(preemption=False, widening=0), work, 2) == [100, 801, 9100]
    assert finishes(Rule(preemption=False, widening=0.01), work, 2) == [100, 801, 9100]


def end_over_two_nodes(spanning: float, exchanged_gb: float) -> float:
    """Return the finish time of a job of 9000 s that asks for one node of two and could use both; polled every 100 s.

    Exchange is free within a node, and takes 1 s per GB between nodes.
    """
    nodes = Cluster(
        "two", (2, 2), (16.0, 16.0), (8, 8), intra_gbs=1e12, inter_gbs=1.0, intra_ms=0.0, inter_ms=0.0
    )
    work = jobs((0, 2, 9000), most=2, sync_gb=exchanged_gb, pause_s=5, load_s=5)
    policy = Rule(spanning=spanning)

    def polled(view: View) -> Action:
        return Wait(100.0) if isinstance(action := policy(view), Wait) else action

    return float(run(polled, Episode(work, nodes, exact=True)).state.finish_s[0])


def test_a_job_that_fills_its_node_takes_a_second_one_if_that_is_faster() -> None:
    """From 100 on, after a restart of ten seconds, twice as fast."""
    assert end_over_two_nodes(0.0, 0.0) == 9000
    assert end_over_two_nodes(1.0, 0.0) == pytest.approx(110 + (9000 - 100) / 2)


def test_a_job_that_is_slower_on_two_nodes_returns_and_stays() -> None:
    """Four exchange 2 x 3/4 x 2 GB, 3 s for each half second of computing: measured after ten minutes, at 710."""
    assert end_over_two_nodes(1.0, 2.0) == pytest.approx(720 + 9000 - 100 - 600 / 3.5)


def test_jobs_with_low_utilisation_share() -> None:
    """Two jobs of utilisation 0.4 start together, since `union` expects a slowdown of 4 % only."""
    work = jobs((0, 1, 1000), (0, 1, 1000), profiled_active_ms=0.4, profiled_idle_ms=0.6)
    assert finishes(Rule(), work, 1, max_share=2) == [1000, 1000]
    assert finishes(Rule(sharing=False), work, 1, max_share=2) == [1000, 2000]


def test_jobs_that_do_not_fit_together_do_not_share() -> None:
    work = jobs((0, 1, 1000), (0, 1, 1000), profiled_memory_gib=9.0, gpu_memory_gib=9.0)
    assert finishes(Rule(preemption=False), work, 1, max_share=2) == [1000, 2000]


def test_a_job_alone_starts_with_more_workers_than_requested() -> None:
    """Without any loss two workers do 1000 s of one in 500 s."""
    work = jobs((0, 1, 1000), most=2)
    assert finishes(Rule(), work, 8) == pytest.approx([500], rel=1e-6)
    assert finishes(Rule(sizing=False), work, 8) == [1000]


def test_a_job_starts_with_fewer_workers_if_gpu_time_is_expensive() -> None:
    """One worker needs 2000 / 1.5 s for 1000 s of two, and two thirds of their GPU time."""
    work = jobs((0, 2, 1000), most=1, scaling_loss=0.5)
    assert finishes(Rule(price=0.0), work, 2) == [1000]
    assert finishes(Rule(price=1000.0, growth=1000.0), work, 2) == pytest.approx([2000 / 1.5], rel=1e-6)


def test_a_job_grows_once_no_job_waits() -> None:
    """A starts with one GPU, since B waits; once both run, GPUs are free for its other workers."""
    work = jobs((0, 2, 9000), (0, 1, 300), most=2, pause_s=5, load_s=5)
    policy, sizes = Rule(price=2.0), []

    def checked(view: View) -> Action:
        match action := policy(view):
            case Start(0, placement) | Resize(0, None, Placement() as placement):
                sizes.append(len(placement.gpus))
        return action

    run(checked, Episode(work, uniform(1, 4), exact=True))
    assert sizes == sorted(sizes)
    assert len(sizes) > 1


def test_a_job_gets_the_cores_it_needs_whatever_it_requests() -> None:
    """With one core an iteration takes 4 s instead of 1; with all it needs, 1000 s become 250 s."""
    work = jobs((0, 1, 1000), input_core_s=4.0, cores_each=1.0)
    assert end_on_cores(Rule(), work) < 350
    assert end_on_cores(Rule(cores=False), work) == 1000


@pytest.mark.parametrize("name", GRID)
def test_the_grid_holds_the_default(name: str) -> None:
    assert getattr(Rule(), name) in GRID[name]
