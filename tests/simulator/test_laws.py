"""The invariants of a cluster hold under every policy after every event, and a view shows only the past."""

import hashlib
import math
import os
import pickle
import subprocess
import sys
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym.baselines import load, make, names
from gpu_cluster_gym.simulator.episode import Episode, discipline_of
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster.layout import DONE, JOB
from gpu_cluster_gym.simulator.policy import Action, Placement, Preempt, Ranking, Start, Wait
from gpu_cluster_gym.simulator.source import Source, source_of
from gpu_cluster_gym.simulator.view import View
from tests.accounts.ledger import Ledger
from tests.accounts.reference import Job, Node, Rules
from tests.cases.scenarios import MIXED, Restless, episode_of, random_jobs
from tests.cases.turns import in_turn
from tests.conftest import ROOT

LEVELS = (3250.0, 7200.0)
RULES = Rules("submit", preempt=False)
RANKINGS = {
    "submit": Ranking("submit"),
    "submit-strict": Ranking("submit", discipline="strict"),
    "submit-easy": Ranking("submit", discipline="easy"),
    "estimate": Ranking("estimate"),
    "remaining": Ranking("remaining", "by_order"),
    "remaining-strict": Ranking("remaining", "by_order", discipline="strict"),
    "remaining_area": Ranking("remaining_area", "by_order"),
    "level": Ranking("level", "by_order", levels=LEVELS),
    "pays": Ranking("weighted", "cost_aware", margin=1.0),
    "pays-area": Ranking("weighted", "cost_aware", exponent=1.0, margin=0.0),
    "pays-never": Ranking("weighted", exponent=0.5),
}
RESTLESS = [f"restless-{seed}" for seed in range(4)]
PLACEMENTS = ("first_fit", "best_fit", "spread", "pooled")
USUAL = ("best_fit", "pooled")


def fresh(seed: int, placement: str, count: int = 60) -> Episode:
    """Make a busy episode with memory, cores, costs of preemption, noisy estimates, ticks and levels."""
    jobs = random_jobs(np.random.default_rng(seed), count)
    episode = episode_of(jobs, MIXED, RULES._replace(placement=placement))
    episode.set_levels(LEVELS)
    return episode


@cache
def account(policy: str, placement: str, seed: int = 0, count: int = 60) -> Ledger:
    """Return the account of an episode under a policy: a ranking, a baseline or a random one."""
    ledger = Ledger(fresh(seed, placement, count))
    if policy in RANKINGS:
        return ledger.walk(RANKINGS[policy])
    if policy.startswith("restless"):
        return ledger.play(Restless(int(policy.removeprefix("restless-"))))
    found = make(load(policy))
    return ledger.walk(found) if isinstance(found, Ranking) else ledger.play(found)


@pytest.mark.parametrize(
    ("policy", "placement"), [*product([*RANKINGS, *RESTLESS], USUAL), *in_turn(USUAL)], ids=str
)
def test_all_laws_hold(policy: str, placement: str) -> None:
    assert account(policy, placement).broken == {}


@pytest.mark.slow  # some 100,000 events with all checks after each: minutes
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("policy", [*RANKINGS, *RESTLESS, *names()])
def test_all_laws_hold_in_longer_episodes(policy: str, placement: str) -> None:
    assert account(policy, placement, seed=1, count=300).broken == {}


def test_the_episodes_put_the_laws_to_the_test() -> None:
    """Jobs get reservations, are paused often, and start at the instant at which another ends."""
    ledger = account("restless-0", "best_fit")
    state, count = ledger.state, ledger.count
    assert {type(action) for _, action in ledger.moves} == {Start, Preempt, Wait}
    assert ledger.seconds.any(axis=1).all()  # some time was spent in each phase
    assert state.preemptions.max() >= 3
    assert np.isin(state.start_s[:count], state.finish_s[:count]).any()


# The same again.


def digest(policy: str) -> str:
    """Return a hash of a run's effects on jobs in the record."""
    ledger = Ledger(fresh(7, "best_fit"))
    ledger.play(Restless(7)) if policy == "restless" else ledger.walk(RANKINGS[policy])
    columns = [
        ledger.column(name).tobytes()
        for name in ("start_s", "finish_s", "wait_s", "overhead_s", "preemptions")
    ]
    return hashlib.sha256(b"".join(columns)).hexdigest()


def test_the_same_seed_gives_the_same_results_in_another_process() -> None:
    policies = ["submit-easy", "remaining", "level", "pays", "restless"]
    code = f"from tests.simulator.test_laws import digest; print(*map(digest, {policies}))"
    hashed = "0" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # in any case not as here
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hashed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [digest(policy) for policy in policies]


# What a view shows.


ENTITIES = ("jobs", "gpus", "nodes", "tenants")


def shown(view: View) -> dict[str, np.ndarray]:
    """Return everything a view shows."""
    of_view = [name for name, found in vars(View).items() if isinstance(found, property)]
    seen = {name: getattr(view, name) for name in of_view if name not in (*ENTITIES, "rng")}
    for entities in ENTITIES:
        part = getattr(view, entities)
        names = (name for name in dir(type(part)) if not name.startswith("_") and name != "count")
        seen |= {f"{entities}.{name}": getattr(part, name) for name in names}
    return {name: np.asarray(array) for name, array in seen.items()}


def halfway(seed: int) -> Episode:
    """Return an episode stopped at an instant before the policy is asked."""
    episode = fresh(seed, PLACEMENTS[seed % 4])
    policy = Restless(seed) if seed % 3 else RANKINGS["remaining"]
    episode.advance()
    for _ in range(40 + 5 * seed):
        while not isinstance(action := policy(episode.view), Wait):
            episode.apply(action)
        episode.apply(action)
        episode.advance()
    return episode


def with_another_future(episode: Episode, seed: int) -> View:
    """Return the view as if unfinished jobs had other durations and later jobs were different."""
    rng = np.random.default_rng(seed)
    jobs, arrived = episode.jobs.copy(), len(episode.view.jobs.phase)
    ahead = np.flatnonzero(episode.state.phase[:arrived] != DONE)
    jobs["duration_s"][ahead] = episode.view.jobs.attained_s[ahead] + rng.uniform(1, 9_000, len(ahead))
    for name in ("duration_s", "profiled_duration_s", "pause_s", "load_s", "cores_each", "predictable_from"):
        jobs[name][arrived:] = rng.uniform(0, 1, len(jobs) - arrived)
    jobs["submit_s"][arrived:] += 5.0
    return View(Source(episode.states.copy(), jobs, rng))


@pytest.mark.parametrize("seed", range(12))
def test_views_hide_true_durations_and_future_jobs(seed: int) -> None:
    episode = halfway(seed)
    assert 0 < len(episode.view.jobs.phase) < len(episode.jobs)
    truth, other = shown(episode.view), shown(with_another_future(episode, seed))
    for name, array in truth.items():
        assert np.array_equal(array, other[name], equal_nan=array.dtype.kind == "f"), name


@pytest.mark.parametrize("ranking", RANKINGS.values(), ids=RANKINGS)
def test_policies_do_not_act_on_true_durations_or_future_jobs(ranking: Ranking) -> None:
    acted = 0
    for seed in range(12):
        episode = halfway(seed)
        episode.state.discipline = discipline_of(ranking, 0)
        source = Source(episode.states.copy(), episode.jobs, np.random.default_rng(0))
        action = source.next_move(ranking)
        assert source_of(with_another_future(episode, seed)).next_move(ranking) == action
        acted += action != Wait()
    assert acted


@pytest.mark.parametrize("seed", range(4))
def test_views_are_read_only(seed: int) -> None:
    episode = halfway(seed)
    for name, array in shown(episode.view).items():
        theirs = any(np.shares_memory(array, own) for own in (episode.states, episode.jobs))
        assert not (theirs and array.flags.writeable), name


def test_the_kernel_gets_the_very_types_it_knows() -> None:
    """Equal but distinct types are compared field by field at each call, which takes several times longer."""
    episode = halfway(0)
    other = halfway(1)
    assert episode.jobs.dtype is other.jobs.dtype is JOB
    source = source_of(episode.view)
    assert episode.states.dtype is other.states.dtype is source.states.dtype
    assert source.jobs.dtype is JOB
    sent = pickle.loads(pickle.dumps(episode.jobs))
    assert sent.dtype is not JOB
    assert Episode(sent, episode.cluster).jobs.dtype is JOB


# Actions.


def illegal_actions(episode: Episode) -> list[Action]:
    """Return currently illegal actions, one for each rule that can be broken now."""
    view = episode.view
    queued, running, ahead = view.queue.tolist(), view.running.tolist(), len(view.jobs.phase)
    taken = [
        *np.flatnonzero(np.isin(view.gpus.first_owner, running))[:1],
        *np.flatnonzero(view.gpus.reserved_for >= 0)[:1],
    ]
    free = np.flatnonzero((view.gpus.first_owner < 0) & (view.gpus.reserved_for < 0)).tolist()
    wrong: list[Action] = [Start(ahead, Placement(tuple(free[:1]))), Start(-1, Placement(tuple(free[:1])))]
    wrong += [Preempt(ahead), Preempt(-1), *map(Preempt, queued), Wait(-1.0), Wait(math.nan)]
    wrong += [Start(job, Placement(tuple(free[: view.jobs.num_gpus[job]]))) for job in running]
    for job in queued:
        asked = view.jobs.num_gpus[job]
        small = [gpu for gpu in free if view.gpus.free_memory_gib[gpu] < view.jobs.profiled_memory_gib[job]]
        wrong += [
            Start(job, Placement((gpu,) * asked)) for gpu in [-1, view.gpus.first_owner.size, *taken, *small]
        ]
        wrong += [Start(job, Placement(tuple(free[:count]))) for count in range(10) if count != asked]
        wrong += [Start(job, Placement((gpu,) * asked)) for gpu in free[:1] if asked > 1]
    return wrong


def memory_of(episode: Episode) -> dict[str, bytes]:
    """Return the record without the scratch of a pass, which is meaningless afterwards."""
    fields = list(episode.states.dtype.names or ())
    lasting = set(fields[: fields.index("room")]) - {"exhausted"}
    return {name: episode.state[name].tobytes() for name in lasting}


@pytest.mark.parametrize("seed", range(8))
def test_an_illegal_action_raises_with_a_reason_and_changes_nothing(seed: int) -> None:
    episode = halfway(seed)
    before = memory_of(episode)
    for action in illegal_actions(episode):
        with pytest.raises(ValueError, match=r"cannot|has not arrived|is illegal"):
            episode.apply(action)
        assert memory_of(episode) == before, action


def small(*jobs: Job) -> Episode:
    """Make an episode on one node of two GPUs, with exact estimates, at its first instant."""
    episode = episode_of(jobs, [Node(2, 16.0, 12)], RULES._replace(estimates=False))
    episode.advance()
    return episode


ONE = Job(0.0, 1, 10.0, 10.0, 1.0, 0.0, 0.0)
BOTH = Placement((0, 1))


def test_waiting_is_illegal_when_nothing_is_pending_and_a_job_could_start() -> None:
    episode = small(ONE)
    for wait in (Wait(), Wait(3.0)):
        assert "waiting is illegal" in (episode.why_not(wait) or "")
    episode.apply(Start(0, Placement((0,))))
    assert episode.why_not(Wait()) is None


def test_waiting_is_legal_while_a_job_is_to_come() -> None:
    assert small(ONE, ONE._replace(submit_s=5.0)).why_not(Wait()) is None


@pytest.mark.parametrize(("seconds", "clock"), [(4.0, 4.0), (10.0, 10.0), (40.0, 10.0), (None, 10.0)])
def test_a_wait_ends_with_the_next_event_or_sooner(seconds: float | None, clock: float) -> None:
    episode = small(ONE)
    episode.apply(Start(0, Placement((0,))))
    episode.apply(Wait(seconds))
    episode.advance()
    assert episode.state.clock == clock


def test_a_start_without_the_requested_gpus_says_how_many_it_requests() -> None:
    episode = small(ONE._replace(num_gpus=2))
    said = "job 0 cannot start: it requests 2 GPUs, and its placement names 1"
    assert episode.why_not(Start(0, Placement((0,)))) == said
    without: Any = None
    said = "job 0 cannot start: its placement is None, which View.place returns where a job does not fit"
    assert episode.why_not(Start(0, without)) == said


def test_a_job_is_not_started_and_paused_at_one_instant() -> None:
    pair = ONE._replace(num_gpus=2)
    episode = small(pair, pair)
    episode.apply(Start(0, BOTH))
    assert episode.why_not(Preempt(0)) == "job 0 cannot be paused: it was started at this very instant"
    assert episode.why_not(Preempt(1)) == "job 1 cannot be paused: it is not running"
    episode.apply(Wait(2.0))
    episode.advance()
    episode.apply(Preempt(0))
    assert "paused at this very instant" in (episode.why_not(Start(0, BOTH)) or "")
    assert not calls.pick(episode.states, 0, episode.jobs, 0)
    assert episode.why_not(Start(1, BOTH)) is None


def test_an_action_is_legal_even_after_the_last_running_job_was_paused() -> None:
    episode = small(ONE)
    for action in (Start(0, Placement((0,))), Wait(2.0)):
        episode.apply(action)
    episode.advance()
    episode.apply(Preempt(0))
    choices = (Start(0, Placement((0,))), Preempt(0), Wait(), Wait(3.0))
    assert not all(episode.why_not(action) for action in choices)


def test_a_reserved_job_starts_with_the_last_of_its_gpus() -> None:
    """A pauses for 5 s, so that B, which asked for both GPUs at 2, starts at 7: A 0-2, B 7-17."""
    episode = small(ONE._replace(pause_s=5.0), ONE._replace(num_gpus=2))
    for action in (Start(0, Placement((0,))), Wait(2.0)):
        episode.apply(action)
    episode.advance()
    moves: tuple[Action, ...] = (Preempt(0), Start(1, BOTH), Wait())
    for move in moves:
        episode.apply(move)
    episode.advance()
    assert (episode.state.start_s[1], episode.state.wait_s[1]) == (7.0, 7.0)


@pytest.mark.parametrize(("gpus", "memory"), [(3, 4.0), (1, 17.0)])
def test_a_job_that_could_never_start_is_refused_at_the_door(gpus: int, memory: float) -> None:
    """Otherwise an episode might wait for it forever."""
    with pytest.raises(ValueError, match="can never run"):
        small(ONE, ONE._replace(num_gpus=gpus, gpu_memory_gib=memory))


def test_invalid_placements_and_actions_are_refused() -> None:
    """Passing bare GPU indices, or returning nothing, raises an error that explains it."""
    episode = small(ONE)
    start = Start(0, (0,))  # type: ignore[arg-type]
    assert "(0,) is not a Placement: pass one, as View.place returns" in (episode.why_not(start) or "")
    assert "None is not an action: expected Start, Preempt" in (episode.why_not(None) or "")
