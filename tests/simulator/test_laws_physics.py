"""With interference between jobs, a plain account agrees with the kernel and no invariant is broken."""

import hashlib
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym.simulator.episode import Episode, discipline_of, run
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.policy import Action, Preempt, Ranking, Resize, Start, Throttle, Wait
from gpu_cluster_gym.simulator.source import adopt
from gpu_cluster_gym.simulator.view import View
from tests.accounts.lives import OPEN
from tests.accounts.twins import Twins
from tests.cases.mixed_jobs import OUTAGES, SLOW, TYPES, Later, Whims, bound, mixed_table, workload
from tests.cases.uncompiled import with_the_compiler_off
from tests.simulator.test_laws import memory_of

PLAIN = "memory,preemption,estimates"
MEETING = "sharing,locality,cores,bandwidth,cpu_jobs"
CONFIGS: dict[str, dict[str, Any]] = {
    "all": {"cluster": TYPES} | OUTAGES,
    "three a GPU": {"max_share": 3, "oom_victim": "random", "contention": 1.0, "contention_loss": 0.1}
    | OUTAGES,
    "late peaks": {"max_share": 4, "oom_victim": "grower", "peak_at": 0.4},
    "late peaks, newcomers": {"max_share": 3, "peak_at": 0.2, "oom_victim": "newcomer"}
    | {"physics": f"{PLAIN},{MEETING},failures", "contention_form": "excess", "contention": 0.48},
    "late peaks, anyone": {"oom_victim": "random", "peak_at": 0.7, "restart_delay": 3.0} | OUTAGES,
    "sharing": {"physics": f"{PLAIN},sharing"},
    "sharing over links": {"physics": "memory,sharing,locality,preemption", "contention_loss": 0.2}
    | {"contention_form": "excess"},
    "cores": {"physics": f"{PLAIN},cores,cpu_jobs"},
    "no sharing": {"physics": f"{PLAIN},locality,cores,bandwidth,cpu_jobs"},
    "elastic": {"physics": "memory,preemption,elastic"},
    "elastic, cores": {"physics": f"{PLAIN},elastic,cores,cpu_jobs,bandwidth,locality"},
    "failures": {"physics": f"{PLAIN},failures,elastic"} | OUTAGES,
    "links": {"physics": f"{PLAIN},locality,links,sharing", "cluster": SLOW},
    "exchange": {"physics": f"{PLAIN},cores,bandwidth,exchange,locality,elastic", "cluster": SLOW}
    | {"exchange_core_s": 4.0},
    "start-up": {"physics": f"{PLAIN},startup,profiles,sharing,failures", "profiling": 20.0} | OUTAGES,
    "types": {"physics": f"{PLAIN},gpu_types,sharing", "cluster": TYPES, "max_share": 4},
}
BOUND = ("bound", "bound, no sharing")
"""Configurations whose jobs have constraints."""
CONFIGS |= {BOUND[0]: CONFIGS["all"], BOUND[1]: CONFIGS["no sharing"]}
LEVELS = (300.0, 900.0)
SEEN = {"late failure", "no cores", "on cores", "servers on GPUs", "failed running", "failed loading"}


SEEDS = (1, 2)


def twins_of(config: str, seed: int, count: int = 16) -> Twins:
    """Return an episode of random jobs under some of the physics, and its account."""
    cpu_share = 0.25 if "cpu_jobs" in CONFIGS[config].get("physics", "cpu_jobs") else 0.0
    table = mixed_table(np.random.default_rng(seed), count, cpu_share=cpu_share)
    work = workload(table, **CONFIGS[config], seed=seed)
    return Twins(bound(work, seed) if config in BOUND else work, LEVELS)


each_config = pytest.mark.parametrize("config", CONFIGS, scope="module")


@cache
def account(config: str, seed: int, moves: int = 200) -> Twins:
    """Return such an episode after a random policy that becomes sensible after a number of moves."""
    twins = twins_of(config, seed)
    twins.play(Whims(twins.legal, seed, moves))
    return twins


@pytest.mark.parametrize("seed", SEEDS)
@each_config
def test_the_accounts_agree(config: str, seed: int) -> None:
    """They agree at every instant and after every action: phases, progress, times, memory, cores and legality."""
    twins = account(config, seed)
    assert twins.differences == []
    assert twins.episode.done


RANKINGS = {
    "submit-easy": Ranking("submit", discipline="easy"),
    "remaining": Ranking("remaining", "by_order"),
    "level-strict": Ranking("level", "by_order", discipline="strict"),
    "pays": Ranking("weighted", "cost_aware", exponent=1.0, margin=0.0),
}


@pytest.mark.parametrize("config", ["all", "late peaks, newcomers", "cores", "no sharing"])
@pytest.mark.parametrize("ranking", RANKINGS.values(), ids=RANKINGS)
def test_the_accounts_agree_under_a_ranking_that_takes_over(ranking: Ranking, config: str) -> None:
    """A ranking continues from shared, resized, pausing and reserved jobs to the end; all its moves are legal."""
    twins = twins_of(config, 2)
    twins.episode.state.discipline = discipline_of(ranking, twins.episode.discipline)
    assert twins.play(Later(Whims(twins.legal, 2), ranking, instants=40)) == []


@pytest.mark.parametrize("config", ["all", "cores", "no sharing", "elastic"])
@pytest.mark.parametrize("ranking", RANKINGS.values(), ids=RANKINGS)
def test_a_ranking_does_the_same_step_by_step_and_whole(ranking: Ranking, config: str) -> None:
    works = [twins_of(config, seed).work for seed in range(2)]
    whole = [work.results(run(ranking, work.episode())) for work in works]
    stepped = [work.results(run(ranking, work.episode(), step_by_step=True)) for work in works]
    assert all(one.equals(other) for one, other in zip(whole, stepped, strict=True))


@pytest.mark.slow  # the plain account takes minutes
@pytest.mark.parametrize("config", CONFIGS)
def test_the_accounts_agree_on_many_more(config: str) -> None:
    for seed in range(100, 160):
        twins = twins_of(config, seed, 40)
        assert twins.play(Whims(twins.legal, seed, 600)) == [], seed


class Claims(Whims):
    """Random legal moves of which many starts are claims, of any GPUs."""

    def some_start(self, view: View, job: int) -> Start:
        claim = bool(self.rng.random() < 0.5)
        placement = view.place_claim(job) if claim and self.rng.random() < 0.3 else None
        return Start(job, placement or self.some_placement(view, job), claim)


@each_config
def test_the_accounts_agree_about_claims(config: str) -> None:
    seen = Counter[str]()
    for seed in range(2):
        twins = twins_of(config, seed)
        assert twins.play(Claims(twins.legal, seed, 300)) == []
        seen += twins.fluid.seen
    assert seen["claim"] > 3


def test_a_difference_in_any_column_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of jobs and of machines: each column in turn has another first entry in the account."""
    twins = twins_of("all", 1)
    twins.advance()
    for columns_of in ("of_jobs", "of_machines"):
        sound = getattr(twins, columns_of)()
        for name, (seen, expected) in sound.items():
            shown = next(index for index, each in enumerate(expected) if each is not None)
            other = [*expected]
            other[shown] = "another"
            with monkeypatch.context() as patch:
                patch.setattr(
                    twins, columns_of, lambda name=name, seen=seen, other=other: {name: (seen, other)}
                )
                twins.compare()
            assert len(twins.differences) == 1
            assert f"{name} of {shown} is" in twins.differences.pop()


def test_the_episodes_put_the_accounts_to_the_test() -> None:
    """All moves occur, legal and illegal; two, three and four jobs share GPUs; everything that can fail does."""
    episodes = [account(config, seed) for config in CONFIGS for seed in SEEDS]
    for kind in (Start, Preempt, Resize, Throttle):
        assert min(sum(twins.made[kind, legal] for twins in episodes) for legal in (True, False)) > 20
    assert max(twins.crowd for twins in episodes) == 4
    lives = [life for twins in episodes for life in twins.fluid.lives]
    for count in ("ooms", "failures", "resizes", "crashed"):
        assert sum(getattr(life, count) for life in lives) > 50, count
    seen = sum((twins.fluid.seen for twins in episodes), Counter[str]())
    assert seen["reservation"] > 20
    assert {name for name, times in seen.items() if times > 2} >= SEEN


@each_config
def test_times_add_up_and_all_is_given_back(config: str) -> None:
    """GPU-seconds are useful, overhead, lost or idle; a completion time is the sum of its parts.

    A shared GPU counts once per job; reserved GPUs and GPUs of nodes that are down count as idle.
    """
    twins = account(config, SEEDS[0])
    results = twins.work.results(twins.episode)
    held = results["run_gpu_s"] + results["overhead_gpu_s"] + results["lost_gpu_s"]
    makespan = results["finish_s"].max() - results["submit_s"].min()
    assert twins.held_s == pytest.approx(held.sum())
    assert twins.held_s - twins.doubled_s + twins.idle_s == pytest.approx(
        makespan * twins.work.cluster.num_gpus
    )
    parts = results[["wait_s", "run_s", "overhead_s", "lost_s"]].sum(axis="columns")
    assert results["jct_s"].to_numpy() == pytest.approx(parts.to_numpy(), rel=1e-9)
    assert twins.episode.state.present_seconds == pytest.approx(results["jct_s"].sum())
    view = twins.episode.view
    assert (view.gpus.free_memory_gib == view.nodes.gpu_memory_gib[view.gpus.node]).all()
    assert (view.nodes.free_cores == view.nodes.cores).all()
    assert (view.nodes.unreserved_cores == view.nodes.cores - view.nodes.num_gpus).all()
    assert (view.nodes.free_gpus == np.where(view.nodes.closed == OPEN, view.nodes.num_gpus, 0)).all()
    assert (view.gpus.jobs == -1).all()


@pytest.mark.parametrize("config", ["all", "late peaks, anyone"])
def test_an_illegal_action_changes_nothing(config: str) -> None:
    episode, refused = twins_of(config, 1).episode, 0

    def legal(action: Action) -> bool:
        nonlocal refused
        if not episode.why_not(action):
            return True
        before = memory_of(episode)
        with pytest.raises(ValueError, match=r"cannot|has not arrived|is illegal"):
            episode.apply(action)
        assert memory_of(episode) == before, action
        refused += 1
        return False

    play(episode, Whims(legal, 1, 300))
    assert refused > 100


def play(episode: Episode, whims: Whims, instants: int = 10**9) -> None:
    """Let a policy act for a number of instants, or to the end; the last instant ends without a wait."""
    while not episode.done and episode.state.instant < instants and episode.advance():
        while not isinstance(action := whims(episode.view), Wait):
            episode.apply(action)
        if episode.state.instant < instants:
            episode.apply(action)


# The same again.


def digest(config: str, seed: int = 0) -> str:
    """Return a hash of a run's effects on jobs in the record."""
    episode = twins_of(config, seed, 16).episode
    play(episode, Whims(lambda action: not episode.why_not(action), seed, 200))
    times = ("start_s", "finish_s", "wait_s", "overhead_s", "lost_s", "busy_s", "shared_s", "core_s")
    names = (*times, "oom_restarts")
    return hashlib.sha256(b"".join(episode.state[name].tobytes() for name in names)).hexdigest()


@pytest.mark.parametrize("config", ["all", "late peaks, anyone"])
def test_the_same_seed_gives_the_same_results(config: str) -> None:
    assert digest(config) == digest(config)
    assert digest(config, 1) != digest(config)


def digests(configs: list[str]) -> list[str]:
    return [digest(config) for config in configs]


def test_it_means_the_same_with_the_compiler_off() -> None:
    configs = ["three a GPU", "late peaks"]
    assert with_the_compiler_off(digests, configs) == digests(configs)


@pytest.mark.parametrize("config", CONFIGS)
def test_a_clone_goes_on_as_the_original(config: str) -> None:
    """A record copied amid shared GPUs, reservations and failures describes an episode completely."""
    episode = twins_of(config, 2, 40).work.episode(rows=4)
    play(episode, Whims(lambda action: not episode.why_not(action), 2), instants=60)
    states, jobs = episode.states, episode.jobs
    states[2] = states[3] = states[0]
    for row in (2, 0, 3):
        adopt(states, row, jobs, Ranking("remaining", "by_order"))
        assert calls.run_rule(states, row, jobs)
        assert legality.check(states, row, jobs) == 0
    for name in ("finish_s", "wait_s", "attained_s", "lost_s", "overhead_s", "oom_restarts", "rng_state"):
        assert states[0][name].tobytes() == states[2][name].tobytes() == states[3][name].tobytes(), name
