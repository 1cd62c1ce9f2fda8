"""Action `moves`: listed moves have their stated effect, and the own choices of the rule reproduce the rule."""

from collections import Counter
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from gpu_cluster_gym.envs.moves import Move, MovesBatch, MovesEnv
from gpu_cluster_gym.envs.windows import PreparedWindow, member_seeds
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.moves import rollouts
from gpu_cluster_gym.simulator.kernel.moves.move_list import (
    DISPLACE,
    KINDS,
    MOVE,
    NAMED,
    PLACED,
    SEATED,
    START,
)
from gpu_cluster_gym.simulator.look_ahead_policy import LookAhead, rollout_workspace
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.simulator.vocabulary import DONE, LOADING, NOBODY, PAUSING, QUEUED, RESERVED, RUNNING
from gpu_cluster_gym.workloads import Workload, named, windows

FEW = 60  # jobs
STARTED = (RESERVED, LOADING, RUNNING, DONE)
WORKLOADS = {
    "mixed": {},
    "philly_backlog": {"physics": "standard"},
    "aiturbo_ps": {},
    "two_types": {"physics": "all"},
    "coda_mix": {},
}


@cache
def opening(workload: str, number: int = 0) -> PreparedWindow:
    """Return a prepared training window of a few jobs."""
    fields = WORKLOADS[workload] | {"jobs": FEW, "all_windows": True, "steady_load": None}
    return PreparedWindow(windows(replace(named(workload), **fields), "train", number + 1)[number])  # type: ignore[arg-type]


def one(workload: str = "mixed", number: int = 0, **sizes: Any) -> MovesBatch:
    """Return a batch of one environment after its reset."""
    batch = MovesBatch([opening(workload, number)], 1, **sizes)
    batch.begin(0, 0)
    return batch


def choose(batch: MovesBatch, place: int) -> None:
    batch.step(np.array([place]))


def is_done(batch: MovesBatch, move: Move, before: np.ndarray) -> bool:
    """Return whether a move had its stated effect, as far as a pause allows; a start may run out of memory."""
    s = batch.states[0]
    phase = s.phase
    if move.kind.startswith("wait"):
        return bool(s.instant > before["instant"])
    if move.kind == "start":
        failed = s.oom_restarts[move.job] > before["oom_restarts"][move.job]
        return bool(failed or phase[move.job] in STARTED)
    if move.kind == "pause":
        return bool(s.preemptions[move.job] > before["preemptions"][move.job])
    if move.kind == "move":
        return bool(s.resizes[move.job] == before["resizes"][move.job] + 1)
    return all(s.preemptions[job] == before["preemptions"][job] + 1 for job in move.victims)


@pytest.mark.parametrize("cores", [False, True])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_own_choices_are_the_rule(workload: str, cores: bool) -> None:
    batch = one(workload, cores=cores)
    while batch.more[0]:
        assert batch.lists["features"][0, : batch.lists["num"][0], 0].sum() == 1
        choose(batch, int(batch.lists["own"][0]))
    played = run(Rule(), opening(workload).workload.episode())
    assert batch.states[0].finish_s[:FEW].tolist() == played.state.finish_s[:FEW].tolist()
    assert batch.final_info(0)[1] == pytest.approx(1.0, rel=1e-12)


def test_own_choices_may_pause_jobs_for_more_gpus_than_a_list_names() -> None:
    """The window has a gang of 32 GPUs for which other jobs are paused."""
    load = windows(
        replace(named("philly_backlog"), physics="exclusive", jobs=200, all_windows=True), "train", 7
    )[6]
    assert own_choices_like_the_rules(load)[DISPLACE, PLACED] > 0


def test_own_choices_may_run_on_fewer_gpus_than_they_ask_for() -> None:
    """A job requests more GPUs than a list names, and runs on those of one node."""
    load = windows(replace(named("philly_backlog"), jobs=60, all_windows=True), "train", 18)[17]
    assert load.jobs["num_gpus"].max() == 24
    assert {seating for _, seating in own_choices_like_the_rules(load)} == {NAMED}


def test_own_choices_may_be_placed_by_the_scenarios_rule() -> None:
    load = windows(
        replace(named("philly_backlog"), physics="exclusive", jobs=60, all_windows=True), "train", 2
    )[1]
    assert own_choices_like_the_rules(load)[START, PLACED] > 0


def test_own_choices_count_the_cores_that_a_start_lacks_once() -> None:
    """A job starts on shared GPUs, where cores are then divided again."""
    load = windows(replace(named("philly_backlog"), jobs=120, all_windows=True), "train", 29)[28]
    own_choices_like_the_rules(load)


@pytest.mark.parametrize(("cluster", "number", "kind"), [("2x32", 17, MOVE), ("1x64", 23, START)])
def test_own_choices_may_be_seated_on_more_gpus_than_a_list_names(
    cluster: str, number: int, kind: int
) -> None:
    """Nodes have 32 or 64 GPUs, and a job requests 24 or 32."""
    scenario = replace(named("philly_backlog"), cluster=cluster, jobs=60, all_windows=True)
    load = windows(scenario, "train", number + 1)[number]
    assert own_choices_like_the_rules(load)[kind, SEATED] > 0


def own_choices_like_the_rules(load: Workload) -> Counter[tuple[int, int]]:
    """Make the own choices, compare the result with the rule, and count them by kind and seating."""
    batch, made = MovesBatch([PreparedWindow(load)], 1), Counter[tuple[int, int]]()
    batch.begin(0, 0)
    while batch.more[0]:
        own = int(batch.lists["own"][0])
        made[int(batch.lists["kind"][0, own]), int(batch.lists["seating"][0, own])] += 1
        choose(batch, own)
    jobs = len(load.jobs)
    ends = run(Rule(), load.episode()).state.finish_s[:jobs]
    assert batch.states[0].finish_s[:jobs].tolist() == ends.tolist()
    return made


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_listed_move_can_be_made_and_the_laws_hold(workload: str, seed: int) -> None:
    """Random moves; no list has duplicates, and every move has its stated effect."""
    batch, rng = one(workload), np.random.default_rng(seed)
    seen, won = set(), 0.0
    for _ in range(400):
        moves = batch.moves(0)
        assert len({(move.kind, move.job, move.gpus) for move in moves}) == len(moves) > 1
        place = int(rng.integers(len(moves)))
        before = batch.states[0].copy()
        assert all(before["phase"][move.job] == QUEUED for move in moves if move.kind == "start")
        phases = {before["phase"][move.job] for move in moves if move.kind == "displace"}
        assert phases <= {QUEUED, *([RUNNING] if before["typed"] else [])}  # to a faster type of GPU
        choose(batch, place)
        won += batch.gain[0]
        assert is_done(batch, moves[place], before), moves[place]
        assert legality.check(batch.states, 0, batch.jobs[0]) == 0
        seen.add(moves[place].kind)
        if not batch.more[0]:
            assert won == pytest.approx(1 - batch.final_info(0)[1])
            break
    assert {"start", "wait"} <= seen


def test_another_base_makes_the_choices_but_is_paid_against_the_default_rule() -> None:
    base = {"price": 6.0, "caution": 0.2}
    batch, won = one(base_weights=base), 0.0
    while batch.more[0]:
        choose(batch, int(batch.lists["own"][0]))
        won += float(batch.gain[0])
    played, default = (
        run(rule, opening("mixed").workload.episode()).state for rule in (Rule(**base), Rule())
    )
    assert batch.states[0].finish_s[:FEW].tolist() == played.finish_s[:FEW].tolist()
    submitted = opening("mixed").episode.jobs["submit_s"].sum()
    ratio = (played.finish_s[:FEW].sum() - submitted) / (default.finish_s[:FEW].sum() - submitted)
    assert 1 - won == pytest.approx(batch.final_info(0)[1]) == pytest.approx(ratio) != 1


def test_unlisted_moves_are_refused() -> None:
    batch = one(illegal="raise")
    num = int(batch.lists["num"][0])
    assert batch.masks()[0].sum() == num == len(batch.moves(0))
    for place, said in (
        (-1, "action -1 does not exist: choose one of 0 to"),
        (num, rf"action {num} is illegal now \(the list of moves has {num} entries\): see action_masks"),
    ):
        with pytest.raises(ValueError, match=said):
            choose(batch, place)


def test_a_displacement_gives_the_job_the_gpus_it_names() -> None:
    """After its victims have paused, the job runs on the GPUs reserved for it."""
    batch, rng, checked = one("mixed", 1), np.random.default_rng(0), 0
    while batch.more[0] and checked < 3:
        moves = batch.moves(0)
        wanted = [k for k, move in enumerate(moves) if move.kind == "displace"]
        place = int(rng.choice(wanted)) if wanted else int(batch.lists["own"][0])
        choose(batch, place)
        if not wanted:
            continue
        move = moves[place]
        while batch.more[0] and any(batch.states[0].phase[job] == PAUSING for job in move.victims):
            choose(batch, len(batch.moves(0)) - 1)  # wait a minute
        held = {gpu for gpu in range(batch.states[0].num_gpus) if move.job in on(batch, gpu)}
        assert held == set(move.gpus) or batch.states[0].phase[move.job] == DONE
        checked += 1
    assert checked == 3


def on(batch: MovesBatch, gpu: int) -> list[int]:
    """Return the jobs on a GPU."""
    slots = batch.states[0].job_in[4 * gpu : 4 * gpu + 4]
    jobs: list[int] = slots[slots != NOBODY].tolist()
    return jobs


def test_gymnasium_finds_no_fault() -> None:
    env = MovesEnv(asdict(replace(named("mixed"), jobs=FEW)), count=2)
    check_env(env, skip_render_check=True)
    _, info = env.reset(options={"window": 1})
    assert info["window"] == 1
    assert (info["action_mask"] == env.action_masks()).all()
    assert env.moves()[env.own_choice].kind in ("start", "wait")
    with pytest.raises(ValueError, match="window 7: expected one of this environment's 2 windows: 0, 1"):
        env.reset(options={"window": 7})


def test_sizes_bound_the_list() -> None:
    small = one(queued_jobs=1, running_jobs=0, max_moves=5)
    while small.more[0]:
        assert len(small.moves(0)) <= 5
        assert len({move.job for move in small.moves(0) if move.kind in ("start", "displace")}) <= 2
        choose(small, int(small.lists["own"][0]))
    with pytest.raises(ValueError, match="max_moves 99: expected a whole number from 3 to 40"):
        one(max_moves=99)


@pytest.mark.parametrize("action", ["moves", "steer"])
def test_make_vec_is_make_one_by_one(action: str) -> None:
    """Observations, rewards, ends and infos of three environments over two windows each, with the same seeds."""
    choices: dict[str, Any] = {"workload": "mixed", "scenario": {"jobs": 20}, "count": 3, "action": action}
    choices |= {"privileged": True} if action == "steer" else {}
    rng = np.random.default_rng(0)
    many = gymnasium.make_vec("GPUCluster-v2", 3, autoreset="SameStep", **choices)
    singles = [gymnasium.make("GPUCluster-v2", **choices) for _ in range(3)]
    seeds = member_seeds(5, 3)
    seen, info = many.reset(seed=5)
    alone = [env.reset(seed=seeds[i]) for i, env in enumerate(singles)]
    ended = np.zeros(3, int)
    while ended.min() < 2:
        for i, (own_seen, own_info) in enumerate(alone):
            assert_same(seen, i, own_seen)
            assert info["window"][i] == own_info["window"]
        places: Any = rng.uniform(-1, 1, np.shape(many.action_space.sample()))
        if action == "moves":
            places = rng.integers(info["action_mask"].sum(axis=1))
        seen, rewards, done, cut, info = many.step(places)
        for i, env in enumerate(singles):
            own_seen, reward, own_done, own_cut, own_info = env.step(places[i])
            assert (rewards[i], done[i], cut[i]) == (reward, own_done, own_cut)
            if own_done:
                assert info["final_info"]["jct_ratio"][i] == own_info["jct_ratio"]
                ended[i] += 1
                own_seen, own_info = env.reset()
            alone[i] = own_seen, own_info


def assert_same(seen: Any, i: int, alone: Any) -> None:
    """Assert that an environment of a batch observes what it would observe alone."""
    if isinstance(alone, dict):
        assert all((seen[name][i] == part).all() for name, part in alone.items())
    else:
        assert (seen[i] == alone).all()


@pytest.mark.filterwarnings("ignore:.*a legal action replaces it")
def test_an_illegal_action_may_be_forgiven() -> None:
    env = gymnasium.make("GPUCluster-mixed-v2", action="moves", scenario={"jobs": 20}, illegal="first_legal")
    _, info = env.reset(seed=0)
    assert info["illegal"] == 0
    _, _, _, _, info = env.step(39)
    assert info["illegal"] == 1


@pytest.mark.parametrize("workload", WORKLOADS)
def test_advantages_of_moves_are_those_of_look_ahead(workload: str) -> None:
    """At the first choice of a window and at a later one: the same futures, the same sums."""
    batch, ahead = one(workload, futures=3), LookAhead(draws=3, tau_s=3600.0)
    for _ in range(2):
        while batch.more[0] and batch.lists["num"][0] < 4:
            choose(batch, int(batch.lists["own"][0]))
        won, count = batch.advantages_s()[0], int(batch.lists["num"][0])
        lists, room = rollout_workspace(batch.states, batch.jobs[0], batch.memory[[0, 0]])
        lists[0] = batch.lists[0]
        rollouts.evaluate_listed(batch.states, lists, room, -1, np.ones(len(KINDS), bool), ahead.options)
        assert won[:count].tolist() == (lists["advantage_sum"][0, :count] / 3).tolist()
        assert won[batch.lists["own"][0]] == 0
        assert np.abs(won[:count]).max() > 0
        assert not won[count:].any()
        choose(batch, int(batch.lists["own"][0]))


def test_moves_of_some_kinds_may_be_simulated_alone() -> None:
    """Their advantages are the same as with all kinds; other kinds are not simulated."""
    batch, distinguished = one(futures=2), 0
    for _ in range(40):
        won, some = batch.advantages_s()[0], batch.advantages_s(("start", "displace"))[0]
        kinds = [move.kind for move in batch.moves(0)]
        expected = [w if kind in ("start", "displace") else 0 for w, kind in zip(won, kinds, strict=False)]
        assert some[: len(kinds)].tolist() == expected
        distinguished += bool(some.any()) and some.tolist() != won.tolist()
        choose(batch, int(batch.lists["own"][0]))
    assert distinguished


def test_simulated_futures_leave_no_trace() -> None:
    plain, simulated = one(), one(futures=2)
    while plain.more[0]:
        simulated.advantages_s()
        for batch in (plain, simulated):
            choose(batch, int(batch.lists["own"][0]))
    assert plain.states.tobytes() == simulated.states.tobytes()


def test_the_reward_may_be_the_estimated_advantage_of_the_move() -> None:
    choices: Any = {"scenario": asdict(opening("mixed").workload.scenario), "action": "moves", "futures": 2}
    env: Any = gymnasium.make("GPUCluster-v2", reward="rollout_advantage", count=1, **choices).unwrapped
    env.reset(seed=0)
    paid: list[float] = []
    ended = False
    while not ended:
        won, own = env.advantages_s(), env.own_choice
        place = int(won[: len(env.moves())].argmin())
        total = env.batch.total[0]
        _, reward, ended, *_ = env.step(place if len(paid) < 20 else own)
        assert reward == pytest.approx(100 * (won[place] if len(paid) < 20 else 0.0) / total)
        paid.append(reward)
    assert min(paid) < 0
    assert paid[-1] == 0


def test_an_unknown_reward_is_refused() -> None:
    with pytest.raises(
        ValueError,
        match=r"unknown reward 'jtc': expected one of balanced_regret, gain, jct, .*; did you mean 'jct'",
    ):
        one(reward="jtc")
