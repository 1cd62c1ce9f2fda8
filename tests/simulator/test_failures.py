"""Failing jobs and nodes, drained nodes, and estimates that become good, worked by hand.

A is the first job of the list; `A 0-10` runs from 0 to 10. A failed job is queued again after 25 s.
"""

from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Action, Policy, Preempt, Ranking, Resize, Start, Wait
from gpu_cluster_gym.simulator.view import View
from tests.accounts.twins import Twins
from tests.cases.by_hand import FED, ONE, TWO, Lines, Script, at, booked, ends, job, on, played
from tests.cases.mixed_jobs import OUTAGES, TYPES, Whims, mixed_table, table_of, workload

FAILING = "memory,preemption,failures"
DRAINS: dict[str, Any] = {
    "drain_every_h": 1.0,
    "drain_notice_h": 0.1,
    "drain_length_h": 0.05,
}  # 3600, 360 and 180 s


# Jobs.


def test_a_job_falls_back_to_its_last_checkpoint_and_loads() -> None:
    """A fails at 50 and keeps 30: queued at 75, loads 75-80, and runs its last 70. It fails once."""
    lines: Lines = {0: [Start(0, on(0))], 75: [Start(0, on(0))]}
    results = played([job(100, crash_at=0.5, load_s=5.0)], lines, physics=FAILING, checkpoint_every=30.0)
    assert ends(results) == [150]
    assert booked(results, 0, "wait_s run_s overhead_s lost_s failures") == [25, 100, 5, 20, 1]
    assert booked(results, 0, "run_gpu_s overhead_gpu_s lost_gpu_s") == [100, 5, 20]


def test_or_to_its_last_pause() -> None:
    """It pauses 40-45 and runs on 45-55, when 50 s are done: it keeps 40, and runs 60 from 80 on."""
    lines: Lines = {0: [Start(0, on(0))], 40: [Preempt(0)], 45: [Start(0, on(0))], 80: [Start(0, on(0))]}
    results = played([job(100, crash_at=0.5, pause_s=5.0)], lines, physics=FAILING, checkpoint_every=30.0)
    assert ends(results) == [140]
    assert booked(results, 0, "run_s lost_s failures") == [100, 10, 1]


def test_without_checkpoints_a_job_restarts_and_loads_nothing() -> None:
    lines: Lines = {0: [Start(0, on(0))], 75: [Start(0, on(0))]}
    results = played([job(100, crash_at=0.5, load_s=5.0)], lines, physics=FAILING)
    assert ends(results) == [175]
    assert booked(results, 0, "run_s overhead_s lost_s") == [100, 0, 50]


def test_lost_time_is_proportional_to_lost_progress() -> None:
    """Two cores of four, half speed: fails at 100 with 50 s done, of which 30 are kept: 40 s of 100 are lost.

    The other 70 take 140, from 125 on.
    """
    lines: Lines = {0: [Start(0, on(0, cores=2.0))], 125: [Start(0, on(0, cores=2.0))]}
    jobs = [job(100, crash_at=0.5, **FED)]
    results = played(jobs, lines, physics=f"{FAILING},cores", checkpoint_every=30.0)
    assert ends(results) == [265]
    assert booked(results, 0, "run_s lost_s") == [200, 40]


def test_gpu_seconds_are_lost_in_the_shape_in_which_they_were_run() -> None:
    """One GPU 0-40: 20 of 100 s, saved. Two 40-70: 50 done, and A fails: 30 s of two GPUs are lost. 80 s are left."""
    lines: Lines = {
        0: [Start(0, on(0))],
        40: [Resize(0, placement=on(0, 1))],
        95: [Start(0, on(0, 1))],
    }
    jobs = [job(100, num_gpus=2, min_workers=1, crash_at=0.5)]
    results = played(jobs, lines, physics=f"{FAILING},elastic")
    assert ends(results) == [175]
    assert booked(results, 0, "run_s lost_s run_gpu_s lost_gpu_s") == [120, 30, 40 + 160, 60]


def test_out_of_memory_all_is_lost_and_nothing_is_called_a_failure() -> None:
    """B, 10 GiB, joins A, 10 GiB, on 16 GiB: it starts over on the other GPU after A has written its checkpoints."""
    lines: Lines = {0: [Start(0, on(0))], 40: [Start(1, on(0))], 65: [Start(1, on(1))]}
    jobs = [job(100, gpu_memory_gib=10.0), job(100, gpu_memory_gib=10.0)]
    results = played(jobs, lines, physics=f"{FAILING},sharing", checkpoint_every=10.0)
    assert ends(results) == [100, 165]
    assert booked(results, 1, "oom_restarts failures") == [1, 0]


# Nodes. One of one is drained each hour: announced at 3600, down 3960-4140.


def test_a_drained_node_runs_until_it_is_down_and_fails_its_jobs() -> None:
    """A 3500-3960: 460 s done, 400 kept, 60 lost. It waits 3960-4140, loads till 4150, and runs its last 600."""
    jobs = [job(100), job(1000, submit_s=3500.0, load_s=10.0)]
    lines: Lines = {0: [Start(0, on(0))], 3500: [Start(1, on(0))], 4140: [Start(1, on(0))]}
    results = played(jobs, lines, physics=FAILING, checkpoint_every=200.0, **DRAINS)
    assert ends(results) == [100, 4750]
    assert booked(results, 1, "wait_s run_s overhead_s lost_s failures") == [180, 1000, 10, 60, 1]


def test_nothing_starts_on_a_closed_node() -> None:
    """Node 0 is announced at 1800 and down 2160-2340, node 1 at 3600. A gang on both fails whole, twice."""
    jobs = [
        job(1000, submit_s=0.0),
        job(3000, submit_s=1000.0, num_gpus=2),
        job(100, submit_s=1900.0),
    ]
    twins = Twins(workload(table_of(*jobs), TWO, physics=FAILING, checkpoint_every=100.0, **DRAINS))
    seen: list[tuple[float, list[int], list[int], list[bool]]] = []
    script = Script(
        {
            0: [Start(0, on(3))],
            1000: [Start(1, on(1, 2))],
            2340: [Start(1, on(1, 2))],
            2500: [Start(2, on(0))],
        }
    )

    def watched(view: View) -> Action:
        legal = [twins.legal(Start(2, on(gpu))) for gpu in (0, 3)] if len(view.jobs.phase) > 2 else []
        seen.append((view.now, view.nodes.closed.tolist(), view.gpus.reserved_for.tolist(), legal))
        action = script(view)
        return action if view.now < 2500 or not isinstance(action, Wait) else rest(view)

    assert twins.play(watched) == []
    at_time = {now: row for now, *row in seen}
    assert at_time[1800] == [[1, 0], [-2, -2, -1, -1], []]
    assert at_time[1900] == [[1, 0], [-2, -2, -1, -1], [False, True]]
    assert at_time[2160] == [[2, 0], [-2, -2, -1, -1], [False, True]]
    assert at_time[2340] == [[0, 0], [-1, -1, -1, -1], [True, True]]
    assert twins.episode.view.jobs.failures.tolist() == [0, 2, 0]


def rest(view: View) -> Action:
    """Start every job that fits."""
    for able in view.startable.tolist():
        if placement := view.place(able):
            return Start(able, placement)
    return Wait()


def test_jobs_that_wait_for_gpus_of_a_closed_node_are_queued() -> None:
    """B pauses 3590-3620 for C; node 1 is announced at 3600: C is queued, and starts elsewhere at once."""
    jobs = [job(100, submit_s=0.0), job(4000, submit_s=1.0, pause_s=30.0), job(100, submit_s=2.0)]
    lines: Lines = {
        0: [Start(0, on(3))],
        1: [Start(1, on(2))],
        3590: [Preempt(1), Start(2, on(2))],
        3600: [Start(2, on(0))],
        3700: [Start(1, on(1))],
    }
    results = played(jobs, lines, cluster=TWO, physics=FAILING, **DRAINS)
    assert booked(results, 2, "start_s finish_s wait_s") == [3600, 3700, 3598]


def test_a_job_that_moves_there_pauses_on_and_is_queued() -> None:
    """Node 0 is down 2160-2340: B, from 1 on, keeps 2150 s, and has 3400 at 3590.

    It pauses 3590-3620 to go to node 1, which is announced at 3600: it is queued at 3620, and runs its last 600 s.
    """
    jobs = [job(1), job(4000, submit_s=1.0, pause_s=30.0)]
    lines: Lines = {
        0: [Start(0, on(0))],
        1: [Start(1, on(0))],
        2340: [Start(1, on(0))],
        3590: [Resize(1, placement=on(2))],
        3620: [Start(1, on(1))],
    }
    results = played(jobs, lines, cluster=TWO, physics=f"{FAILING},elastic", checkpoint_every=50.0, **DRAINS)
    assert booked(results, 1, "finish_s resizes preemptions wait_s") == [4220, 1, 0, 180]


@pytest.mark.parametrize(("ready", "kept"), [(3955, 450), (3950, 455)])
def test_a_pause_that_is_cut_short_has_saved_nothing(ready: int, kept: float) -> None:
    """A, from 3500 on, pauses for 8 s at 3955 or 3950, of which the node cuts the first short.

    Cut short it falls back to 400 of 455 s; else it keeps 450.
    """
    jobs = [job(100), job(1000, submit_s=3500.0, pause_s=8.0)]
    lines: Lines = {
        0: [Start(0, on(0))],
        3500: [Start(1, on(0))],
        ready: [Preempt(1)],
        4140: [Start(1, on(0))],
    }
    results = played(jobs, lines, physics=FAILING, checkpoint_every=200.0, **DRAINS)
    cut = kept == 450
    assert booked(results, 1, "finish_s") == [4140 + 1000 - (400 if cut else 450)]
    assert booked(results, 1, "failures lost_s overhead_s") == ([1, 55, 5] if cut else [0, 0, 8])


def test_a_node_takes_its_cpu_jobs_and_workers_on_cores_with_it() -> None:
    """Both run from 3500 till 3960, when the node is down, and lose 60 s."""
    both = {"submit_s": 3500.0}
    jobs = [job(100), job(1000, num_gpus=0, **both), job(1000, cpu_slowdown=1.0, **both)]
    lines: Lines = {
        0: [Start(0, on(0))],
        3500: [Start(1, at(0)), Start(2, at(0))],
        4140: [Start(1, at(0)), Start(2, on(0))],
    }
    physics = f"{FAILING},elastic,cpu_jobs"
    results = played(jobs, lines, physics=physics, checkpoint_every=200.0, **DRAINS)
    assert ends(results) == [100, 4740, 4740]
    assert results["lost_s"].tolist() == pytest.approx([0, 60, 60])


# What is drawn.


def closings(policy: Policy, seed: int) -> list[tuple[float, list[int]]]:
    """Return the times at which nodes closed and opened under a policy."""
    table = mixed_table(np.random.default_rng(seed), 20)
    episode = workload(table, TYPES, seed=seed, **OUTAGES).episode()
    seen: list[tuple[float, list[int]]] = []

    def watched(view: View) -> Action:
        if not seen or seen[-1][1] != view.nodes.closed.tolist():
            seen.append((view.now, view.nodes.closed.tolist()))
        return policy(view)

    run(watched, episode)
    return seen


def test_nodes_fail_at_the_same_times_under_every_policy() -> None:
    first = closings(rest, 0)
    other = closings(Ranking("remaining", "by_order"), 0)
    assert len(first) > 10
    assert all(one == two for one, two in zip(first, other, strict=False))
    assert closings(rest, 1)[1:3] != first[1:3]


def test_nodes_are_up_and_down_as_long_as_they_should_be() -> None:
    """Means of some hundred exponential times, within three standard errors."""
    cluster = Cluster("many", (1,) * 40, (16.0,) * 40, (2,) * 40)
    jobs = [job(1, submit_s=0.0), job(1, submit_s=40 * 3600.0)]
    choices: dict[str, Any] = {"node_mtbf_h": 2.0, "node_repair_h": 0.5}
    episode = workload(table_of(*jobs), cluster, physics=FAILING, **choices).episode()
    was, since = np.zeros(40, int), np.zeros(40)
    times: dict[int, list[float]] = {0: [], 2: []}

    def watched(view: View) -> Action:
        for node in np.flatnonzero(view.nodes.closed != was):
            times[int(was[node])].append(view.now - since[node])
            was[node], since[node] = view.nodes.closed[node], view.now
        return rest(view)

    run(watched, episode)
    for state, mean_s in ((0, 7200.0), (2, 1800.0)):
        assert len(times[state]) > 400
        assert np.mean(times[state]) == pytest.approx(mean_s, rel=3 / len(times[state]) ** 0.5 + 0.05)


def test_every_job_ends_and_no_work_is_lost() -> None:
    """Progress made, less what was lost, is the duration, wherever a job runs at its full speed."""
    table = mixed_table(np.random.default_rng(5), 30, cpu_share=0.0)
    work = workload(table, physics=FAILING, **OUTAGES)
    results = work.results(run(Whims(lambda _: False, 0, moves=0), work.episode()))
    assert results["failures"].sum() > 20
    assert results["run_s"].to_numpy() == pytest.approx(table["duration_s"].to_numpy())


@pytest.mark.parametrize("policy", [rest, Ranking("submit")], ids=["asked", "in the kernel"])
def test_a_job_that_fails_before_each_checkpoint_ends_the_run_with_its_reason(policy: Policy) -> None:
    """A gang of both nodes, either of which fails each 20 s on average, would run for an hour between checkpoints."""
    jobs = [job(10), job(3600, num_gpus=2)]
    choices: dict[str, Any] = {
        "node_mtbf_h": 40 / 3600,
        "node_repair_h": 1 / 3600,
        "checkpoint_every": 3600.0,
    }
    episode = workload(table_of(*jobs), TWO, physics=FAILING, **choices).episode()
    with pytest.raises(
        RuntimeError, match=r"job 1 has failed 1,000 times: with its 2 GPUs .* checkpoint_every"
    ):
        run(policy, episode)
    assert episode.endless
    assert episode.state.finish_s[0] < np.inf


def following(number: int) -> int:
    """Return the next number of Park and Miller's generator."""
    return number * 48_271 % (2**31 - 1)


def test_a_failure_due_while_a_node_is_drained_is_drawn_again_and_a_later_one_stays() -> None:
    """One node, drained for half of each hour, that fails once an hour of those it is up."""
    hour, node = 3600.0, Cluster("one node", (2,), (16.0,), (16,))
    drains = {"drain_every_h": 1.0, "drain_notice_h": 0.1, "drain_length_h": 0.5}
    choices: dict[str, Any] = {"node_mtbf_h": 1.0, "node_repair_h": 0.05} | drains
    jobs = table_of(job(1), job(1, submit_s=200 * hour))
    episode = workload(jobs, node, physics=FAILING, **choices).episode()
    state = episode.state
    number = int(state.node_rng_state[0])

    def drawn(mean_s: float) -> float:
        nonlocal number
        number = following(number)
        return float(-mean_s * np.log(number / (2**31 - 1)))

    fails, kept, again = float(state.fail_at[0]), 0, 0
    while episode.advance() and state.clock < 200 * hour:
        if state.clock == fails:
            fails = float(state.clock) + drawn(0.05 * hour)  # repaired
            assert state.until[0] == fails
            fails += drawn(hour)
        elif state.closed[0] == 2 and fails <= state.clock + 0.5 * hour:
            fails, again = float(state.clock) + 0.5 * hour + drawn(hour), again + 1
        elif state.closed[0] == 2:
            kept += 1
        assert state.fail_at[0] == fails
    assert min(kept, again) > 20


# Estimates.

ESTIMATED = {"profiled_duration_s": 300.0, "predicted_duration_s": 110.0, "predictable_from": 0.5}


def estimates(
    jobs: list[dict[str, Any]], lines: Lines, **choices: Any
) -> dict[float, tuple[bool, float, float]]:
    """Return, at every instant, whether A is predictable, its estimate and its remaining time."""
    twins, seen = Twins(workload(table_of(*jobs), ONE, **choices)), {}
    script = Script(lines)

    def watched(view: View) -> Action:
        seen[view.now] = (
            bool(view.jobs.is_predictable[0]),
            float(view.jobs.estimate_s[0]),
            float(view.jobs.remaining_s[0]),
        )
        return script(view)

    assert twins.play(watched) == []
    return seen


def test_an_estimate_becomes_good_at_its_own_instant() -> None:
    """After half of 100 s; by then 300 were expected, from then on 110."""
    seen = estimates([job(100, **ESTIMATED)], {0: [Start(0, on(0))]}, physics="memory,estimates")
    assert seen == {
        0: (False, 300, 300),
        50: (True, 110, pytest.approx(60)),
        100: (True, 110, pytest.approx(20)),
    }


@pytest.mark.parametrize(("share", "estimate_s"), [(0.0, 110), (1.0, 300)])
def test_at_once_or_never(share: float, estimate_s: float) -> None:
    jobs = [job(100, **ESTIMATED | {"predictable_from": share})]
    seen = estimates(jobs, {0: [Start(0, on(0))]}, physics="memory,estimates")
    assert {now: row[1] for now, row in seen.items()} == {0: estimate_s, 100: estimate_s}


def test_an_estimate_stays_good_when_progress_is_lost() -> None:
    """A is predictable at 50, and fails at 60 without a checkpoint."""
    jobs = [job(100, crash_at=0.6, **ESTIMATED)]
    lines: Lines = {0: [Start(0, on(0))], 85: [Start(0, on(0))]}
    seen = estimates(jobs, lines, physics="memory,estimates,failures")
    assert {now: row[:2] for now, row in seen.items()} == {
        0: (False, 300),
        50: (True, 110),
        60: (True, 110),
        85: (True, 110),
        185: (True, 110),
    }
    assert seen[85][2] == 110


def test_without_estimates_everything_is_known() -> None:
    seen = estimates([job(100, **ESTIMATED)], {0: [Start(0, on(0))]}, physics="memory")
    assert seen == {0: (True, 100, 100), 100: (True, 100, 0)}
