"""Core and throttle changes as moves: each has its stated effect, and a change that is not chosen is not made."""

from dataclasses import replace

import numpy as np
import pytest

from gpu_cluster_gym.envs.agent_policy import AgentPolicy
from gpu_cluster_gym.envs.moves import MovesBatch
from gpu_cluster_gym.envs.windows import PreparedWindow
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.cluster.plan import CORES, THROTTLE
from gpu_cluster_gym.simulator.vocabulary import RUNNING
from gpu_cluster_gym.workloads import named, windows
from tests.environment.test_moves import FEW, choose, one, opening

CORE_MOVES = {"divide", "more_cores", "fewer_cores", "throttle", "release"}
STEPS = {"more_cores": 1.0, "fewer_cores": -1.0, "throttle": -0.1, "release": 0.1}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("workload", ["mixed", "coda_mix"])
def test_core_changes_are_moves_on_request(workload: str, seed: int) -> None:
    """Each has its stated effect and no other; cores change only by such a move, a start or a CPU job."""
    batch, rng = one(workload, cores=True), np.random.default_rng(seed)
    kinds: set[str] = set()
    for _ in range(600):
        moves = batch.moves(0)
        rare = [k for k, move in enumerate(moves) if move.kind in CORE_MOVES - {"divide"} - kinds]
        place = int(rng.choice(rare or len(moves)))
        move, before = moves[place], batch.states[0].copy()
        choose(batch, place)
        s = batch.states[0]
        assert legality.check(batch.states, 0, batch.jobs[0]) == 0
        if not batch.more[0]:
            break
        if move.kind in STEPS and s.instant == before["instant"] and s.num_on_cores == before["num_on_cores"]:
            at, part = move.job, "throttle" if move.kind in ("throttle", "release") else "core_count"
            assert s[part][at] == pytest.approx(before[part][at] + STEPS[move.kind])
            others = np.arange(len(s.phase)) != at
            assert (s[part][others] == before[part][others]).all()
            kinds.add(move.kind)
    assert {"more_cores", "fewer_cores"} <= kinds
    assert kinds >= STEPS.keys() or workload == "mixed"


@pytest.mark.parametrize(("workload", "kind"), [("mixed", CORES), ("coda_mix", THROTTLE)])
def test_a_division_that_is_not_chosen_is_not_made(workload: str, kind: int) -> None:
    """No cores and no throttle change while waiting a minute instead of the rule's division."""
    many = windows(replace(named(workload), jobs=200, all_windows=True), "train", 1)[0]
    batch, refused = MovesBatch([PreparedWindow(many)], 1, cores=True), 0
    batch.begin(0, 0)
    while batch.more[0] and refused < 8:
        own, moves = int(batch.lists["own"][0]), batch.moves(0)
        if moves[own].kind != "divide" or batch.memory[0].move_kind[0] != kind:
            choose(batch, own)
            continue
        before = batch.states[0].copy()
        choose(batch, len(moves) - 1)
        now = batch.states[0]
        same = (before["phase"] == RUNNING) & (now.phase == RUNNING)
        if now.num_on_cores == before["num_on_cores"]:
            assert (now.core_count[same] == before["core_count"][same]).all()
            assert (now.throttle[same] == before["throttle"][same]).all()
            refused += 1
    assert refused == 8


@pytest.mark.parametrize("simulated", [False, True])
def test_moves_of_cores_at_an_instant_come_to_an_end(simulated: bool) -> None:
    """Even if simulated futures make such moves."""
    batch = one(cores=True, futures=1, reward="rollout_advantage" if simulated else "gain")
    while not any(move.kind in STEPS for move in batch.moves(0)):
        choose(batch, int(batch.lists["own"][0]))
    instant, made = int(batch.states[0].instant), 0
    while batch.states[0].instant == instant:
        chosen = [k for k, move in enumerate(batch.moves(0)) if move.kind in STEPS]
        if simulated and made % 8 == 0:
            batch.advantages_s()
        made += bool(chosen)
        choose(batch, chosen[0] if chosen else len(batch.moves(0)) - 1)
    assert made == 32


def by_chance(features: np.ndarray, mask: np.ndarray) -> int:
    """Choose the rule's own move, or another move that depends on the observation."""
    legal, seen = int(mask.sum()), int(1e4 * np.abs(features[mask.astype(bool)]).sum())
    return int(features[:, 0].argmax()) if seen % 2 else seen // 2 % legal


def test_an_agent_makes_them_as_a_policy_as_in_the_environment() -> None:
    batch, kinds = one("coda_mix", cores=True), set()
    while batch.more[0]:
        seen = batch.observe()
        place = by_chance(seen["moves"][0], seen["mask"][0])
        kinds.add(batch.moves(0)[place].kind)
        choose(batch, place)
    policy = AgentPolicy(lambda seen, mask: by_chance(seen["moves"], mask), action="moves", cores=True)
    played = run(policy, opening("coda_mix").workload.episode())
    assert batch.states[0].finish_s[:FEW].tolist() == played.state.finish_s[:FEW].tolist()
    assert {"divide", "more_cores", "fewer_cores"} <= kinds


def test_core_changes_are_no_moves_by_default() -> None:
    batch = one("coda_mix")
    while batch.more[0]:
        assert not {move.kind for move in batch.moves(0)} & CORE_MOVES
        choose(batch, int(batch.lists["own"][0]))
