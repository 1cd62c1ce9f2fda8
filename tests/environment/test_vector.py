"""A batch equals single environments, bit for bit."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pandas as pd
import pytest
from gymnasium.vector import AutoresetMode

from gpu_cluster_gym.envs.env import PlainBatch
from gpu_cluster_gym.envs.moves import MovesBatch
from gpu_cluster_gym.envs.registration import make_vec
from gpu_cluster_gym.envs.spaces import row
from gpu_cluster_gym.envs.vector import GPUClusterVectorEnv
from gpu_cluster_gym.envs.windows import PreparedWindow, member_seeds, of_one_size
from gpu_cluster_gym.workloads import Scenario, named, windows
from tests.cases import tiny
from tests.cases.uncompiled import with_the_compiler_off

MODES = ("NextStep", "SameStep", "Disabled")
COUNT = 3
SIZES = {"count": 4, "queue_slots": 8, "running_slots": 5}
CHOICES: dict[str, Any] = tiny.BY_RULE | SIZES | {"min_run_s": 60.0, "illegal": "raise"}
KINDS = (
    {"reward": "jct"},
    {"reward": "rollout_advantage"},
    {"observation": "tables"},
    {"placed_by": "agent", "victims_by": "agent", "reward": "gain"},
    {"placed_by": "agent", "mask": "observation"},
    {"victims_by": "agent"},
)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder, table = tmp_path_factory.mktemp("windows"), tiny.jobs(4 * tiny.COUNT)
    return tiny.scenario(folder, table, full_trace=False, all_windows=True, jobs=tiny.COUNT, physics="all")


def batch(scenario: dict[str, Any], count: int = COUNT, **choices: Any) -> GPUClusterVectorEnv:
    return make_vec(count, scenario, **(CHOICES | choices))


def at(info: dict[str, Any], i: int) -> dict[str, Any]:
    """Return the info of one environment."""
    names = (name for name in info if not name.startswith("_"))
    return {name: info[name][i] for name in names if info[f"_{name}"][i]}


def assert_equal_parts(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert np.array_equal(value, other[name]), name


@pytest.mark.parametrize(
    ("kind", "physics"), [*((kind, "all") for kind in KINDS), (KINDS[0], "none")], ids=str
)
def test_a_batch_is_single_environments(kind: dict[str, Any], physics: str, scenario: dict[str, Any]) -> None:
    """Over several episodes: observations, masks, rewards, infos and ends, with automatic resets."""
    chosen, rng = scenario | {"physics": physics}, np.random.default_rng(0)
    many = batch(chosen, **kind, autoreset="NextStep")
    singles = [tiny.make(chosen, **(CHOICES | kind)) for _ in range(COUNT)]
    seen, info = many.reset(seed=11)
    seeds = member_seeds(11, COUNT)
    for i, env in enumerate(singles):
        alone, alone_info = env.reset(seed=seeds[i])
        assert tiny.bits(alone) == tiny.bits(row(seen, i))
        assert_equal_parts(at(info, i), alone_info)
    over, episodes = [False] * COUNT, 0
    while episodes < 2 * COUNT:
        masks = many.action_masks()
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        seen, rewards, terminated, truncated, info = many.step(actions)
        for i, env in enumerate(singles):
            if over[i]:
                alone, alone_info = env.reset()
                wanted: Any = (alone, 0.0, False, False, alone_info)
            else:
                wanted = env.step(actions[i])
            found = row(seen, i), float(rewards[i]), bool(terminated[i]), bool(truncated[i])
            assert tiny.bits(found) == tiny.bits(wanted[:4])
            assert_equal_parts(at(info, i), wanted[4])
            assert many.action_masks()[i].tolist() == env.action_masks().tolist()
            over[i] = wanted[2] or wanted[3]
            if over[i]:
                episodes += 1
                assert many.results(i).equals(env.results())


def batch_of(many: GPUClusterVectorEnv) -> PlainBatch:
    assert isinstance(many.batch, PlainBatch)
    return many.batch


def observe_again(many: GPUClusterVectorEnv) -> None:
    for e in range(COUNT):
        batch_of(many).refresh(e)


def test_the_mask_has_exactly_the_accepted_actions(scenario: dict[str, Any]) -> None:
    """Each action of each environment is tried from the same record."""
    many, rng = batch(scenario), np.random.default_rng(1)
    many.reset(seed=0)
    for _ in range(60):
        masks = many.action_masks()
        legal = masks.argmax(axis=1)
        observe_again(many)  # scratch fields of the record change when it is observed without a cache
        before = many.batch.states.copy(), batch_of(many).outcomes.copy()
        for i, action in np.ndindex(masks.shape):
            tried = np.where(np.arange(COUNT) == i, action, legal)
            if masks[i, action]:
                many.step(tried)
                many.batch.states[:] = before[0]
                observe_again(many)
                assert many.action_masks().tolist() == masks.tolist()
                assert tiny.bits(batch_of(many).outcomes) == tiny.bits(before[1])
            else:
                with pytest.raises(
                    ValueError, match=f"environment {i}: action {action} is illegal now.*MaskablePPO"
                ):
                    many.step(tried)
                assert many.batch.states.tobytes() == before[0].tobytes()
        many.step(np.array([rng.choice(np.flatnonzero(mask)) for mask in masks]))


@pytest.mark.parametrize("mode", MODES)
def test_ended_episodes_restart_as_declared(mode: str, scenario: dict[str, Any]) -> None:
    many, twin = batch(scenario, autoreset=mode), batch(scenario, autoreset="Disabled")
    assert many.metadata["autoreset_mode"] is AutoresetMode(mode)
    many.reset(seed=4)
    twin.reset(seed=4)
    over = np.zeros(COUNT, bool)
    info: dict[str, Any]
    while not over.any():
        actions = many.action_masks().argmax(axis=1)
        seen, _, terminated, truncated, info = many.step(actions)
        last, *_, final = twin.step(actions)
        over = terminated | truncated
    twin.begin(np.flatnonzero(over).tolist())
    restarted = twin.observations()
    i = int(over.argmax())
    if mode == "SameStep":
        assert tiny.bits(info["final_obs"][i]) == tiny.bits(last[i])
        assert_equal_parts(at(info["final_info"], i), at(final, i))
        assert info["_final_obs"].tolist() == over.tolist()
    else:
        assert tiny.bits(seen) == tiny.bits(last)
        seen, rewards, *_ = many.step(actions)
        assert rewards[i] == 0.0
    kept = last if mode == "Disabled" else restarted
    assert tiny.bits(seen[i]) == tiny.bits(kept[i])


def test_a_mask_resets_single_environments_as_in_gymnasium(scenario: dict[str, Any]) -> None:
    """With autoreset disabled: those of the mask, with their own seeds; the others continue."""
    ours = batch(scenario, autoreset="Disabled")
    theirs: Any = gymnasium.make_vec(
        "GPUCluster-v2",
        num_envs=COUNT,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.DISABLED},
        scenario=scenario,
        **CHOICES,
    )
    assert tiny.bits(ours.reset(seed=[4, 5, 6])[0]) == tiny.bits(theirs.reset(seed=[4, 5, 6])[0])
    rounds = 0
    while rounds < 2:
        actions = ours.action_masks().argmax(axis=1)
        seen, *_, terminated, _, _ = ours.step(actions)
        assert tiny.bits(seen) == tiny.bits(theirs.step(actions)[0])
        if terminated.any():
            mask, rounds = terminated, rounds + 1
            ours_now, info = ours.reset(seed=[7, 8, 9], options={"reset_mask": mask})
            theirs_now, their_info = theirs.reset(seed=[7, 8, 9], options={"reset_mask": mask})
            assert tiny.bits(ours_now) == tiny.bits(theirs_now)
            assert info["_window"].tolist() == their_info["_window"].tolist() == mask.tolist()
            for i in np.flatnonzero(mask).tolist():
                assert_equal_parts(at(info, i), at(their_info, i))


def test_it_is_made_by_name(scenario: dict[str, Any]) -> None:
    many = gymnasium.make_vec("GPUCluster-v2", num_envs=2, scenario=scenario, **CHOICES)
    assert isinstance(many.unwrapped, GPUClusterVectorEnv)
    seen, info = many.reset(seed=0)
    assert seen in many.observation_space
    assert info["action_mask"].shape == (2, CHOICES["queue_slots"] + 1)


def test_a_step_before_the_first_reset_of_every_environment_is_refused(scenario: dict[str, Any]) -> None:
    envs = make_vec(2, scenario, count=2)
    actions = np.zeros(2, np.int64)
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset of environment 0: call reset first"):
        envs.step(actions)
    envs.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset of environment 1: call reset first"):
        envs.step(actions)
    envs.reset()
    envs.step(envs.action_masks().argmax(axis=1))


def test_windows_can_be_named(scenario: dict[str, Any]) -> None:
    many = batch(scenario)
    assert many.reset(options={"window": 2})[1]["window"].tolist() == [2] * COUNT
    assert many.reset(options={"window": [3, 0, 1]})[1]["window"].tolist() == [3, 0, 1]
    with pytest.raises(ValueError, match="window 9: expected one of this environment's 4 windows"):
        many.reset(options={"window": 9})
    with pytest.raises(ValueError, match=f"expected a number or {COUNT} numbers, not"):
        many.reset(options={"window": [1]})
    with pytest.raises(
        ValueError, match="unknown reset option 'windw': expected one of split, window; did you mean"
    ):
        many.reset(options={"windw": 1})
    with pytest.raises(ValueError, match="expected 3 seeds, one per environment, not 2"):
        many.reset(seed=[1, 2])


@pytest.mark.filterwarnings("ignore:.*a legal action replaces it")
def test_the_first_legal_action_takes_the_place_of_an_illegal_one(scenario: dict[str, Any]) -> None:
    """In one environment only, where it is counted; the same as taking the first legal action."""
    forgiving, plain = batch(scenario, illegal="first_legal"), batch(scenario)
    forgiving.reset(seed=0)
    plain.reset(seed=0)
    for counted in range(1, 41):
        first = forgiving.action_masks().argmax(axis=1)
        wrong = np.where(np.arange(COUNT) == 1, 99, first)
        seen, rewards, *_, info = forgiving.step(wrong)
        alike, paid, *_ = plain.step(first)
        assert tiny.bits((seen, rewards)) == tiny.bits((alike, paid))
        assert info["illegal"].tolist() == [0, counted, 0]
        assert info["executed"].tolist() == first.tolist()


def test_returned_observations_do_not_change_later(scenario: dict[str, Any]) -> None:
    many = batch(scenario)
    kept = [many.reset(seed=0)]
    then = [tiny.bits(kept[0])]
    for _ in range(50):
        kept.append(many.step(many.action_masks().argmax(axis=1)))  # type: ignore[arg-type]
        then.append(tiny.bits(kept[-1]))
    assert [tiny.bits(seen) for seen in kept] == then


def test_batches_with_different_seeds_share_no_stream() -> None:
    """Member seeds differ, unlike with seed + i, and so do the draws."""
    seeds = [member_seeds(seed, 64) for seed in range(64)]
    assert len({each for some in seeds for each in some}) == 64 * 64
    assert seeds[0][:4] == member_seeds(0, 4)
    draws = np.array(
        [[np.random.default_rng(each).integers(1_000, size=3) for each in some] for some in seeds]
    )
    alike = [(draws[a, i] == draws[b, j]).all() for a, b in ((0, 1), (1, 2)) for i, j in np.ndindex(64, 64)]
    assert not any(alike)


def test_neighbouring_seeds_draw_independent_windows(scenario: dict[str, Any]) -> None:
    """With seed + i, three of four members of the second batch would repeat a member of the first."""
    many = batch(scenario, 4)
    drawn = []
    for seed in range(2):
        many.reset(seed=seed)
        drawn.append([many.window_numbers.tolist()] + [many.reset()[1]["window"].tolist() for _ in range(12)])
    first, second = np.array(drawn[0]).T, np.array(drawn[1]).T
    assert not any((one == other).all() for one in first for other in second)


def test_a_member_is_the_single_environment_with_its_seed(scenario: dict[str, Any]) -> None:
    many, alone = batch(scenario), tiny.make(scenario, **CHOICES)
    many.reset(seed=3)
    for i, seed in enumerate(member_seeds(3, COUNT)):
        assert alone.reset(seed=seed)[1]["window"] == many.window_numbers[i]


def test_small_batches_of_a_full_trace_agree(tmp_path: Path) -> None:
    """On the same window, the environments share no mutable state."""
    many = batch(tiny.scenario(tmp_path), 2)
    many.reset(seed=0)
    while not many.batch.over.any():
        actions = many.action_masks().argmax(axis=1)
        seen, rewards, *_ = many.step(actions)
        assert tiny.bits((seen[0], rewards[0])) == tiny.bits((seen[1], rewards[1]))


def some_steps(folder: str) -> list[str]:
    """Return a digest of each of 40 steps of two environments."""
    many = batch(tiny.scenario(Path(folder), tiny.jobs(12), physics="all"), 2, queue_slots=4)
    many.reset(seed=0)
    rng = np.random.default_rng(3)
    steps = []
    for _ in range(40):
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in many.action_masks()])
        steps.append(sha256(tiny.bits(many.step(actions))).hexdigest())
    return steps


def test_it_means_the_same_with_the_compiler_off(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    plain = with_the_compiler_off(some_steps, str(tmp_path / "plain"))
    assert plain == some_steps(str(tmp_path))
    assert len(set(plain)) == 40


def test_windows_of_a_log_with_few_and_many_dependencies_are_batched(tmp_path: Path) -> None:
    """Each of the first 120 jobs waits for the 40 before, so that some windows of 40 jobs have 780 dependencies."""
    before = (range(max(0, row - 40), row if row < 120 else 0) for row in range(400))
    table = pd.DataFrame({"job_id": [f"j{row}" for row in range(400)], "submit_s": 10.0 * np.arange(400)})
    names = ["+".join(table["job_id"][list(each)]) for each in before]
    chosen = tiny.scenario(
        tmp_path, table.assign(num_gpus=1, duration_s=50.0, depends_on=names), full_trace=False, jobs=40,
        all_windows=True, physics="none", constraints="depends_on",
    )  # fmt: skip
    for kind in ({"action": "moves"}, CHOICES):
        many = make_vec(2, chosen, **kind | {"count": 4})
        loads = [each.workload for each in many.batch.windows]
        counts = {len(each.constraints.waits_for) for each in loads}
        assert counts == {0, 780}
        assert {each.room for each in loads} == {780}
        for seed in range(8):
            many.reset(seed=seed)
            many.step(many.action_masks().argmax(axis=1))


def test_windows_of_different_sizes_are_batched_with_the_larger_records() -> None:
    """A job too large is dropped from one window of 513 jobs; records of 512 jobs would not do for the others."""
    fields = {"jobs": 513, "cluster": "2x8", "drop_too_large": True, "all_windows": True, "seed": 1}
    many = batch(fields | {"physics": "exclusive"})
    assert {len(each.workload.jobs) for each in many.batch.windows} == {512, 513}
    assert {each.workload.room for each in many.batch.windows} == {513}


def test_records_of_different_sizes_are_refused() -> None:
    """Windows that have not been made of one size."""
    fields: dict[str, Any] = {
        "jobs": 513,
        "cluster": "2x8",
        "drop_too_large": True,
        "all_windows": True,
        "seed": 1,
    }
    found = windows(Scenario(**fields, physics="exclusive"), "train", 4)
    with pytest.raises(ValueError, match="windows of 512 to 513 jobs cannot be batched"):
        MovesBatch([PreparedWindow(each) for each in found], 2)


def test_steady_windows_get_records_of_one_size() -> None:
    found = windows(replace(named("quick"), jobs=1), "train", 4)
    most = max(len(each.jobs) for each in found)
    assert min(each.room for each in found) < most
    for before, after in zip(found, of_one_size(found), strict=True):
        assert after.room == most
        assert after.table is before.table
