"""Policies that co-locate jobs never wait needlessly, and choose partners as in their papers.

`A 0-10` means that A runs from 0 to 10; jobs are named A, B, C ... in the order of the list. GPUs have 32 GiB.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym.baselines import load, make
from gpu_cluster_gym.baselines.fifo_blind import FifoBlind
from gpu_cluster_gym.baselines.gandiva import Gandiva
from gpu_cluster_gym.baselines.lucid import Lucid
from gpu_cluster_gym.baselines.muri import Muri
from gpu_cluster_gym.baselines.packed_fifo import PackedFifo
from gpu_cluster_gym.baselines.xonar import Xonar
from gpu_cluster_gym.simulator.cluster import Cluster, uniform
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB
from gpu_cluster_gym.simulator.physics import Physics
from gpu_cluster_gym.simulator.policy import Action, Policy, Start
from gpu_cluster_gym.simulator.view import View

New = Callable[[], Policy]
SHARING: dict[str, New] = {
    "fifo_blind": FifoBlind,
    "fifo_blind skip": partial(FifoBlind, strict=False),
    "packed_fifo": PackedFifo,
    "packed_fifo strict": partial(PackedFifo, strict=True),
    "xonar": Xonar,
    "xonar patient": partial(Xonar, patience_s=600.0),
    "muri": Muri,
    "lucid": Lucid,
    "gandiva": partial(Gandiva, most_busy=2.0, window_s=30.0),
}
ONE, PAIR = uniform(1, 1, 32), uniform(1, 2, 32)
SHARED = Physics(max_share=2, contention_form="excess", contention=1.0)


def jobs(*rows: tuple[float, int, float, float, float]) -> np.ndarray:
    """Make jobs of (submit, GPUs, duration, duty, GiB) with exact estimates."""
    array = np.zeros(len(rows), JOB)
    array[["submit_s", "num_gpus", "duration_s", "gpu_utilization", "profiled_memory_gib"]] = list(rows)
    array["profiled_duration_s"], array["cores_each"] = array["duration_s"], 1.0
    array["gpu_memory_gib"] = array["profiled_memory_gib"]
    return with_iteration(array, 100 * array["gpu_utilization"], 100 * (1 - array["gpu_utilization"]))


def with_iteration(array: np.ndarray, active_ms: Any, idle_ms: Any) -> np.ndarray:
    array["active_ms"], array["idle_ms"] = active_ms, idle_ms
    whole = array["active_ms"] + array["idle_ms"]
    array["gpu_s"], array["gpu_utilization"] = (
        whole / 1000,
        array["active_ms"] / np.where(whole > 0, whole, 1.0),
    )
    return array


def play(new: New, work: np.ndarray, cluster: Cluster = ONE, physics: Physics = SHARED) -> Episode:
    return run(new(), Episode(work, cluster, physics=physics, exact=True))


def at_first(new: New, work: np.ndarray, cluster: Cluster, physics: Physics) -> View:
    """Return the view once a policy has made its starts at the first instant."""
    episode, policy = Episode(work, cluster, exact=True, physics=physics), new()
    episode.advance()
    while isinstance(move := policy(episode.view), Start):
        episode.apply(move)
    return episode.view


def starts(episode: Episode) -> list[float]:
    return [float(time) for time in episode.state.start_s[: len(episode.jobs)]]


def ends(episode: Episode) -> list[float]:
    return [round(time, 6) for time in episode.state.finish_s[: len(episode.jobs)].tolist()]


# Every policy, in every world.

ALL_AT_ONCE = Physics(max_share=2, cores=True, bandwidth=True, contention_loss=1.5)
WORLDS: dict[str, tuple[Physics, dict[str, Any]]] = {
    "nothing shared": (Physics(), {}),
    "pooled": (Physics(), {"placement": "pooled"}),
    "shared": (SHARED, {}),
    "three jobs a GPU": (Physics(max_share=3, oom_victim="grower", peak_at=0.4), {}),
    "anyone fails": (Physics(max_share=2, oom_victim="random", restart_delay=1.0), {"exact": False}),
    "CPU jobs, cores and bandwidth": (ALL_AT_ONCE, {"placement": "spread", "exact": False}),
}


def crowd(seed: int, *, on_cpu: bool, noisy: bool, count: int = 60) -> np.ndarray:
    """Draw jobs up to a gang of several nodes, of any duty, many of much memory, that queue for ten GPUs."""
    rng = np.random.default_rng(seed)
    gpus = rng.choice([0, 1, 2, 4, 6, 10] if on_cpu else [1, 1, 2, 4, 6, 10], count)
    submit = np.sort(rng.choice(np.arange(0, 6000, 100.0), count))
    memory = np.where(gpus > 8, 8.0, rng.choice([1.0, 3.0, 8.0, 14.0], count))
    rows = zip(submit, gpus, rng.lognormal(6, 1, count), rng.uniform(0, 1, count), memory, strict=True)
    work = jobs(*rows)
    work["active_ms"][rng.random(count) < 0.2] = 0  # as profiled; the truth stays
    work["idle_ms"][rng.random(count) < 0.2] = 0
    work["pause_s"], work["load_s"] = rng.integers(0, 2, (2, count)) * rng.uniform(0, 60, (2, count))
    work["cores_each"] = np.where(gpus > 0, rng.uniform(0.5, 6, count), rng.integers(1, 5, count))
    work["gbs_each"] = rng.uniform(0, 50, count)
    work["input_core_s"] = rng.uniform(0, 0.3, count) * (gpus > 0)
    if noisy:
        work["profiled_duration_s"] *= rng.lognormal(0, 0.5, count)
        work["profiled_memory_gib"] *= rng.uniform(0.5, 1.5, count)
    return work


def checked(policy: Policy, episode: Episode) -> Policy:
    """Return the policy with a check of the ledger each time it is asked."""

    def ask(view: View) -> Action:
        assert legality.check(episode.states, 0, episode.jobs) == 0
        return policy(view)

    return ask


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", SHARING)
def test_every_job_ends_in_every_world(name: str, world: str) -> None:
    physics, choices = WORLDS[world]
    cluster = Cluster("uneven", (4, 4, 2), (16.0, 16.0, 8.0), (24, 24, 12))
    seed = list(SHARING).index(name)
    work = crowd(seed, on_cpu=physics.cores, noisy="exact" in choices)
    episode = Episode(work, cluster, physics=physics, seed=seed, **({"exact": True} | choices))
    run(checked(SHARING[name](), episode), episode)
    assert episode.done


@pytest.mark.parametrize(("strict", "on_cpu"), [(False, False), (False, True), (True, True)])
def test_packed_fifo_is_fifo_where_nothing_is_shared(strict: bool, on_cpu: bool) -> None:
    work = crowd(3, on_cpu=on_cpu, noisy=False)
    cluster, physics = uniform(3, 4), Physics(cores=on_cpu)
    fifo = partial(make, load("fifo_strict" if strict else "fifo"))
    one, other = (play(new, work, cluster, physics).state for new in (partial(PackedFifo, strict), fifo))
    assert all((one[field] == other[field])[: len(work)].all() for field in ("start_s", "finish_s", "wait_s"))


# Xonar.


@pytest.mark.parametrize("score", [1, 2, 3, 4, 5, 6, 7, 8])
def test_xonar_shares_and_never_runs_out_of_memory(score: Any) -> None:
    physics = Physics(max_share=2 + score % 3 // 2, peak_at=score % 2 / 2, oom_victim="random")
    for seed in range(score, 24, 8):
        work = crowd(seed, on_cpu=False, noisy=False)
        state = play(partial(Xonar, score), work, uniform(3, 4), physics).state
        assert state.oom_restarts[: len(work)].sum() == 0
        assert state.shared_s[: len(work)].sum() > 1000


@pytest.mark.parametrize(("score", "partner"), [*enumerate("CDBEBBBF", 1), ("prototype", "B")])
def test_xonar_takes_the_partner_of_least_score(score: Any, partner: str) -> None:
    """A, 60 ms busy and 40 idle, runs.

    B has A's ratio turned over, in iterations a tenth as long: 0 by 3, 5, 6, 7. C, 45 and 70, is 10 + 5 by 1. D is
    busy for 40, 0 by 2; E idle for 60, 0 by 4. By 8 the logarithms should sum to 1.2: with F they do to 1.504.
    """
    work = jobs(*[(0, 1, 100, 0.5, 4)] * 6)
    with_iteration(work, [60, 4, 45, 40, 300, 270], [40, 6, 70, 400, 60, 90])
    began = starts(play(partial(Xonar, score), work))
    assert began.index(0, 1) == "ABCDEF".index(partner)


@pytest.mark.parametrize(("score", "partner"), [(3, "B"), (7, "C")])
def test_xonars_prototype_prefers_a_partner_too_idle_to_one_too_busy(score: Any, partner: str) -> None:
    """Beside A, r = 1, are B, r = 1/5, and C, r = 2.1: by 3 .8 and 1.1, by 7 1.61 and .74."""
    work = with_iteration(jobs(*[(0, 1, 100, 0.5, 4)] * 3), [50, 20, 210], [50, 100, 100])
    assert starts(play(partial(Xonar, score), work)).index(0, 1) == "ABC".index(partner)


def test_xonar_keeps_the_order_of_arrival_otherwise() -> None:
    """A is longest and largest and comes first; B to D suit it alike."""
    work = jobs((0, 1, 900, 0.5, 24), (0, 1, 500, 0.5, 8), (0, 1, 20, 0.5, 1), (0, 1, 20, 0.5, 1))
    assert starts(play(Xonar, work)) == [0, 0, 500, 520]


def test_xonar_looks_behind_a_head_that_does_not_fit() -> None:
    """B does not fit beside A, C does: A 0-100, C 0-100, B 100-200."""
    work = jobs((0, 1, 100, 0.3, 20), (0, 1, 100, 0.3, 20), (0, 1, 100, 0.3, 10))
    assert ends(play(Xonar, work)) == [100, 200, 100]
    assert ends(play(partial(PackedFifo, strict=True), work)) == [100, 200, 200]


def test_xonar_continues_after_finding_no_partner() -> None:
    """B does not fit beside A. The place is still there for C when B runs: A 0-100, B 100-300, C 150-250."""
    work = jobs((0, 1, 100, 0.3, 20), (0, 1, 200, 0.3, 20), (150, 1, 100, 0.3, 10))
    assert ends(play(Xonar, work)) == [100, 300, 250]


@pytest.mark.parametrize(("gpus", "each", "together"), [(3, 8, False), (3, 5, True), (2, 8, True)])
def test_memory_is_counted_on_each_gpu(gpus: int, each: float, together: bool) -> None:
    """A leaves 6, 22 and 22 GiB on its three GPUs."""
    work = jobs((0, 3, 100, 0.3, 10), (0, gpus, 100, 0.3, each))
    two_sizes = Cluster("two sizes", (1, 1, 1), (16.0, 32.0, 32.0), (6, 6, 6))
    for new in (Xonar, PackedFifo, Muri, Lucid, Gandiva):
        episode = play(new, work, two_sizes)
        assert (starts(episode)[1] == 0) == together
        assert not episode.state.oom_restarts[:2].any()


def test_xonar_decides_by_the_current_jobs() -> None:
    """A (r = 9) ends and B (1/9) is there: of C (1), D (1/9) and E (9) the best partner is E."""
    duties = zip([100, 900, 900, 900, 900], [0.9, 0.1, 0.5, 0.1, 0.9], strict=True)
    work = jobs(*[(0, 1, duration, duty, 4) for duration, duty in duties])
    assert starts(play(Xonar, work))[:2] == [0, 0]
    assert starts(play(Xonar, work)).index(100) == "ABCDE".index("E")


def test_a_score_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="score 9: expected one of 1, 2, 3, 4, 5, 6, 7, 8, prototype"):
        Xonar(9)  # type: ignore[arg-type]


def test_a_large_job_is_passed_by_for_ever_unless_it_is_overdue() -> None:
    """Small jobs of 100 s come every 50 s, so one is always there; B needs more than it leaves."""
    rows = [(50.0 * k, 1, 100.0, 0.1, 10.0) for k in range(40)]
    work = jobs(rows[0], (0, 1, 100, 0.1, 30), *rows[1:])
    assert starts(play(Xonar, work))[1] == 2050
    assert starts(play(partial(Xonar, patience_s=200.0), work))[1] == 300


# The others.


def test_fifo_blind_starts_jobs_that_cannot_run_together() -> None:
    """B fails beside A at 0, 25 and 50, then waits till it has the GPU alone, and C waits behind it."""
    work = jobs((0, 1, 100, 0.3, 20), (0, 1, 100, 0.3, 20), (0, 1, 100, 0.3, 10))
    episode = play(FifoBlind, work)
    assert ends(episode) == [100, 200, 300]
    assert episode.state.oom_restarts[:3].tolist() == [0, 3, 0]
    assert ends(play(partial(FifoBlind, strict=False), work)) == [100, 200, 100]


@pytest.mark.parametrize("new", [FifoBlind, PackedFifo])
def test_fifo_prefers_empty_gpus_and_then_those_with_fewest_jobs(new: New) -> None:
    """A and B take a GPU each; C joins A; D joins B, which has fewer."""
    view = at_first(new, jobs(*[(0, 1, 100, 0.2, 4)] * 4), PAIR, Physics(max_share=3))
    assert view.gpus.jobs.tolist() == [[0, 2, -1], [1, 3, -1]]


@pytest.mark.parametrize("new", [PackedFifo, Xonar, Muri, Lucid, Gandiva])
def test_a_gang_shares_with_one_group_and_stays_together(new: New) -> None:
    """C does not join A and B, but A, on one of its nodes: A 0-100, B 0-200, C 200-300."""
    apart = jobs((0, 2, 100, 0.2, 4), (0, 2, 200, 0.2, 4), (0, 4, 100, 0.2, 4))
    assert starts(play(new, apart, uniform(1, 4, 32))) == [0, 0, 200]
    uneven = Cluster("uneven", (2, 4), (16.0, 16.0), (12, 24))
    view = at_first(new, jobs((0, 6, 50, 0.2, 4), (0, 4, 100, 0.2, 4)), uneven, SHARED)
    assert view.gpus_of(1) == [2, 3, 4, 5]


def test_the_best_matching_beats_pair_after_pair() -> None:
    """With ln r 0, 1, -.6 and -2, B + C are the best pair and want 1.085 GPUs; A + C and B + D slow no job down."""
    duties = 1 / (1 + np.exp([0.0, -1.0, 0.6, 2.0]))
    work = jobs(*[(submit, 1, 100, duty, 4) for submit, duty in zip([0, 0, 1, 1], duties, strict=True)])
    assert ends(play(partial(Muri, score=7), work, PAIR)) == [100, 100, 101, 101]
    assert ends(play(Muri, work, PAIR)) == [100, 100, 101, 101]
    assert ends(play(Xonar, work, PAIR))[1] > 107


def test_the_best_matching_is_the_largest() -> None:
    """D suits B best, but C fits only beside B."""
    work = jobs((0, 1, 100, 0.5, 20), (0, 1, 100, 0.8, 4), (1, 1, 100, 0.9, 20), (1, 1, 100, 0.2, 4))
    assert starts(play(partial(Muri, score=7), work, PAIR)) == [0, 0, 1, 1]


def test_muri_minds_the_period_and_xonar_does_not() -> None:
    """Beside A, 50 + 50 ms, B of 5 + 5 ms idles half of the time, C of 50 + 60 ms hardly; by the score of ratios."""
    work = with_iteration(jobs(*[(0, 1, 100, 0.5, 4)] * 3), [50, 5, 50], [50, 5, 60])
    assert starts(play(Muri, work)).index(0, 1) == 2
    assert starts(play(partial(Xonar, 7), work)).index(0, 1) == 1
    assert starts(play(Xonar, work)).index(0, 1) == 2, "the default score compares times"


def test_lucid_packs_up_to_a_sum_of_classes() -> None:
    """Classes 2 + 2 and 2 + 1 are too much; 2 + 0 and 1 + 1 are not."""
    for resident, other, together in (0.9, 0.5, 0), (0.5, 0.25, 0), (0.9, 0.2, 1), (0.4, 0.25, 1):
        work = jobs((0, 1, 50, resident, 4), (0, 1, 100, other, 4))
        assert (starts(play(Lucid, work))[1] == 0) == together


def test_lucid_starts_by_estimate_times_gpus() -> None:
    work = jobs((0, 1, 50, 0.9, 4), (1, 2, 90, 0.9, 4), (1, 2, 80, 0.9, 4), (1, 1, 100, 0.9, 4))
    assert starts(play(Lucid, work, PAIR)) == [0, 181, 101, 1]


@pytest.mark.parametrize(("loss", "expected"), [(0.8, [1800, 1800]), (1.4, [1035, 2020])])
def test_gandiva_parts_two_jobs_that_get_less_done_together(loss: float, expected: list[float]) -> None:
    """At 1 / 1.8 of their speed they stay; at 1 / 2.4: both 25 s until 60, B pauses -65, A -1035, B loads -1045."""
    work = jobs((0, 1, 1000, 0.2, 4), (0, 1, 1000, 0.2, 4))
    work["pause_s"], work["load_s"] = 5, 10
    assert ends(play(Gandiva, work, physics=Physics(max_share=2, contention_loss=loss))) == expected


def test_gandiva_packs_jobs_that_leave_the_gpu_idle_alone() -> None:
    work = jobs((0, 1, 100, 0.6, 4), (0, 1, 100, 0.5, 4), (0, 1, 100, 0.4, 4))
    assert starts(play(Gandiva, work)) == [0, 100, 0]


def test_sharing_pays_where_jobs_leave_the_gpu_idle() -> None:
    """A and B compute, C and D communicate: one of each run together as fast as alone."""
    work = jobs(*[(0, 1, 100, duty, 4) for duty in (0.8, 0.8, 0.2, 0.2)])
    assert ends(play(Xonar, work)) == [100, 200, 100, 200]
    assert ends(play(PackedFifo, work)) == [160, 160, 260, 260]
    assert ends(play(partial(make, load("fifo")), work)) == [100, 200, 300, 400]


def test_sharing_brings_nothing_to_busy_jobs() -> None:
    """Two jobs that leave the GPU no moment run at half speed together: A 0-200, B 0-200 instead of 0-100, 100-200."""
    work = jobs((0, 1, 100, 1.0, 4), (0, 1, 100, 1.0, 4))
    assert ends(play(Xonar, work)) == [200, 200]
    assert ends(play(partial(make, load("fifo")), work)) == [100, 200]
