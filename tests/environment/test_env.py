"""The environment keeps Gymnasium's contract, also where its checkers do not look."""

import itertools
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import env_checker
from stable_baselines3.common import env_checker as sb3_checker
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from gpu_cluster_gym import baselines, workloads
from gpu_cluster_gym.envs.env import GPUClusterEnv
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.traces import modules
from tests.cases import tiny

KINDS = {
    "observation": modules("envs.observations"),
    "reward": modules("envs.rewards"),
    "placed_by": ["rule", "agent"],
    "victims_by": ["rule", "agent"],
}
ALL = [dict(zip(KINDS, chosen, strict=True)) for chosen in itertools.product(*KINDS.values())]
KINDS_BY_DEFAULT = {"observation": "slots", "placed_by": "rule", "victims_by": "rule"}
STEPS = 300
BY_AGENT = {"placed_by": "agent", "victims_by": "agent"}


def goes_together(kinds: dict[str, str]) -> bool:
    """Return whether an environment can be made with these keywords."""
    by_rule = kinds["placed_by"] == kinds["victims_by"] == "rule"
    shows = kinds["observation"] == "tables" or (
        kinds["observation"] == "sets" and kinds["placed_by"] == "rule"
    )
    return by_rule or (shows and kinds["reward"] != "rollout_advantage")


PAIRED = [
    kinds
    for kinds in ALL
    if goes_together(kinds)
    and (kinds["reward"] == "jct" or kinds == KINDS_BY_DEFAULT | {"reward": kinds["reward"]})
]
"""Each observation and who places and chooses victims, with one reward; each reward, with one of these."""


TYPES = {
    "action_mask": "i",
    "agrees": "b",
    "elapsed": "f",
    "executed": "i",
    "illegal": "i",
    "scale": "f",
    "split": "U",
    "unseen": "i",
    "window": "i",
}
"""Keys of every info, with the kind of their NumPy type."""


def named(kinds: dict[str, str]) -> str:
    return "-".join(kinds.values())


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a scenario of several windows; in some, the first jobs are submitted together."""
    folder, table = tmp_path_factory.mktemp("windows"), tiny.jobs(8 * tiny.COUNT)
    return tiny.scenario(folder, table, full_trace=False, all_windows=True, jobs=tiny.COUNT)


# The checkers.


@pytest.mark.parametrize("kinds", PAIRED, ids=named)
def test_gymnasium_finds_no_fault(kinds: dict[str, str], windows: dict[str, Any]) -> None:
    for _ in range(2):  # its first sample is not seeded
        env_checker.check_env(tiny.make(windows, count=4, **kinds))


@pytest.mark.parametrize("kinds", PAIRED, ids=named)
def test_stable_baselines_finds_no_fault(kinds: dict[str, str], windows: dict[str, Any]) -> None:
    for _ in range(2):
        sb3_checker.check_env(tiny.make(windows, count=4, **kinds), warn=True, skip_render_check=False)


@pytest.mark.parametrize("fields", [{"placement": "pooled"}, {"physics": "none"}, {"cluster": "1x16"}])
def test_other_scenarios_have_no_fault(fields: dict[str, Any], tmp_path: Path) -> None:
    env = tiny.make(tiny.scenario(tmp_path, **fields), render_mode="ansi")
    env_checker.check_env(env)
    assert all(seen.observation in env.observation_space for seen in tiny.wander(env))


def test_a_cluster_with_a_core_a_gpu_has_no_fault(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("gpus,gpu_memory_gib,cores\n8,16,8\n8,16,8\n")
    chosen = tiny.scenario(tmp_path, cluster=str(tmp_path / "nodes.csv"))
    env_checker.check_env(tiny.make(chosen))


def test_kinds_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    for kinds in (kinds for kinds in ALL if not goes_together(kinds)):
        with pytest.raises(ValueError, match=r"requires placed_by='rule'( and victims_by='rule')?, since it"):
            tiny.make(tiny.scenario(tmp_path), **kinds)


@pytest.mark.parametrize(
    ("kind", "wrong", "nearest"),
    [("observation", "tabels", "tables"), ("action", "plane", "plain"), ("reward", "jtc", "jct")],
)
def test_an_unknown_kind_is_answered_with_the_nearest(
    kind: str, wrong: str, nearest: str, tmp_path: Path
) -> None:
    fields: dict[str, Any] = {kind: wrong}
    with pytest.raises(
        ValueError, match=rf"unknown {kind} '{wrong}': expected one of .*; did you mean '{nearest}'\?"
    ):
        gymnasium.make("GPUCluster-v2", scenario=tiny.scenario(tmp_path), **fields)


def test_an_unknown_field_of_the_scenario_is_answered_with_the_nearest() -> None:
    with pytest.raises(
        ValueError, match=r"unknown field 'trce': expected one of trace, .*; did you mean 'trace'\?"
    ):
        gymnasium.make("GPUCluster-v2", scenario={"trce": "philly"})


@pytest.mark.parametrize("action", ["plain", "steer"])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("busi", r"scenario 'busi': expected a dict of fields; .* as workload='busi'; did you mean 'busy'\?"),
        ({"workload": "busy"}, "'workload' is not one of its fields; pass it as the keyword workload="),
        (3, "3: expected a dict of fields of Scenario"),
    ],
    ids=["a name", "a name inside", "a number"],
)
def test_a_workload_passed_as_fields_names_the_right_keyword(wrong: Any, said: str, action: str) -> None:
    with pytest.raises(ValueError, match=said):
        gymnasium.make("GPUCluster-v2", scenario=wrong, action=action)


def test_weights_to_start_at_are_a_dict() -> None:
    with pytest.raises(ValueError, match="'price': expected a dict of fields of Rule"):
        gymnasium.make("GPUCluster-v2", action="steer", default_weights="price")


def test_a_scenario_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="jobs 0: expected at least 1"):
        gymnasium.make("GPUCluster-v2", scenario={"jobs": 0})


# Made by name.


def test_it_is_made_from_anywhere(tmp_path: Path) -> None:
    env = gymnasium.make("gpu_cluster_gym:GPUCluster-v2", scenario=tiny.scenario(tmp_path))
    env.reset(seed=0)
    assert env.get_wrapper_attr("action_masks")().any()


def test_its_specification_is_json(tmp_path: Path) -> None:
    env = gymnasium.make("GPUCluster-v2", scenario=tiny.scenario(tmp_path), tau_s=None, placed_by="agent")
    assert env.spec is not None
    again = gymnasium.make(EnvSpec.from_json(env.spec.to_json()))
    assert json.loads(env.spec.to_json())["kwargs"]["placed_by"] == "agent"
    assert tiny.bits(again.reset(seed=3)) == tiny.bits(env.reset(seed=3))


def test_masks_reach_stable_baselines(windows: dict[str, Any]) -> None:
    vector = DummyVecEnv([lambda: Monitor(tiny.make(windows, count=4)) for _ in range(2)])
    vector.reset()
    for _ in range(300):
        masks = np.stack(vector.env_method("action_masks"))
        assert masks.any(axis=1).all()
        vector.step(masks.argmax(axis=1))


# What the checkers miss.


@pytest.mark.parametrize("kinds", PAIRED, ids=named)
def test_global_randomness_is_neither_used_nor_changed(
    kinds: dict[str, str], windows: dict[str, Any]
) -> None:
    episodes = []
    for seed in range(2):
        np.random.seed(seed)  # noqa: NPY002 - the legacy generator is what is tested
        random.seed(seed)
        states = random.getstate(), str(np.random.get_state())  # noqa: NPY002
        wandered = itertools.islice(tiny.wander(tiny.make(windows, count=4, **kinds)), STEPS)
        episodes.append([tiny.bits(seen) for seen in wandered])
        assert (random.getstate(), str(np.random.get_state())) == states  # noqa: NPY002
    assert episodes[0] == episodes[1]


@pytest.mark.parametrize("kinds", PAIRED, ids=named)
def test_returned_observations_do_not_change_later(kinds: dict[str, str], tmp_path: Path) -> None:
    kept, then = [], []
    for seen in itertools.islice(tiny.wander(tiny.make(tiny.scenario(tmp_path), **kinds)), STEPS):
        kept.append(seen)
        then.append(tiny.bits(seen))
    assert [tiny.bits(seen) for seen in kept] == then


def test_returned_observations_may_be_modified(tmp_path: Path) -> None:
    chosen = tiny.scenario(tmp_path)
    scribbled = []
    for seen in tiny.wander(tiny.make(chosen)):
        scribbled.append(tiny.bits(seen))
        for array in (seen.observation, seen.mask, seen.info["action_mask"]):
            array[:] = 1
    assert scribbled == [tiny.bits(seen) for seen in tiny.wander(tiny.make(chosen))]


@pytest.mark.parametrize("kinds", PAIRED, ids=named)
def test_copies_with_the_same_actions_agree_to_the_bit(
    kinds: dict[str, str], windows: dict[str, Any]
) -> None:
    one, other = (tiny.wander(tiny.make(windows, count=4, **kinds), seed=5) for _ in range(2))
    both = zip(one, other, strict=True)  # turn by turn: they share windows, and nothing else
    for seen, too in itertools.islice(both, STEPS):
        assert tiny.bits(seen) == tiny.bits(too)


def test_a_seed_decides_the_windows(windows: dict[str, Any]) -> None:
    env = tiny.make(windows, count=4)
    drawn = []
    for seed in (7, 8, 7):
        env.reset(seed=seed)
        drawn.append([env.reset()[1]["window"] for _ in range(20)])
    assert drawn[0] == drawn[2] != drawn[1]
    assert len(set(drawn[0])) == 4


def test_a_window_can_be_named(windows: dict[str, Any]) -> None:
    env = tiny.make(windows, count=4)
    for number in (2, 0, 2):
        assert env.reset(options={"window": number})[1]["window"] == number
    for wrong in (4, -1):
        with pytest.raises(
            ValueError, match=f"window {wrong}: expected one of this environment's 4 windows: 0, 1, 2, 3"
        ):
            env.reset(options={"window": wrong})


def test_an_unknown_option_is_answered_with_those_there_are(windows: dict[str, Any]) -> None:
    env = tiny.make(windows, count=4)
    with pytest.raises(
        ValueError, match="unknown reset option 'windw': expected one of split, window; did you mean 'window'"
    ):
        env.reset(options={"windw": 1, "seed": 2, "window": 0})


def test_a_step_before_the_first_reset_or_with_part_of_an_action_is_refused(windows: dict[str, Any]) -> None:
    env: Any = tiny.make(windows, count=4).unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset first"):
        env.step(0)
    env.reset(options={"window": 0})
    with pytest.raises(ValueError, match="actions of type float64: expected integers"):
        env.step(0.5)
    with pytest.raises(ValueError, match="results are complete when an episode has terminated"):
        env.results()
    steer = gymnasium.make("GPUCluster-v2", scenario=windows, action="steer", count=1).unwrapped
    steer.reset(seed=0)
    with pytest.raises(ValueError, match="actions with NaN or infinity: expected finite numbers"):
        steer.step(np.full(steer.action_space.shape, np.nan))


def test_the_mask_is_in_the_info(tmp_path: Path) -> None:
    for seen in tiny.wander(tiny.make(tiny.scenario(tmp_path))):
        assert seen.info["action_mask"].tolist() == seen.mask.tolist()


@pytest.mark.filterwarnings("ignore:.*a legal action replaces it")
@pytest.mark.parametrize("how", ["first_legal", "next_legal"])
@pytest.mark.parametrize("kinds", [{}, BY_AGENT], ids=["by rule", "by agent"])
def test_an_illegal_action_may_be_forgiven(kinds: dict[str, str], how: str, tmp_path: Path) -> None:
    """A legal action that is no pause, where there is one, is taken instead, and counted in each episode."""
    chosen = tiny.scenario(tmp_path)
    forgiving, plain = (tiny.make(chosen, illegal=illegal, **kinds) for illegal in (how, "raise"))
    pauses = plain.batch.actions.pausing
    for _ in range(2):
        begun = forgiving.reset(seed=0)[1]
        assert begun["illegal"] == 0
        assert begun["executed"] == -1
        assert plain.reset(seed=0)[1]["illegal"] == 0
        for count in range(1, 30):
            mask = plain.action_masks()
            size = len(mask)
            wrong = next(
                a for a in (*range(7 * count % size, size), size + 7 * count) if a >= size or not mask[a]
            )
            order = [(wrong * (how == "next_legal") + k) % size for k in range(size)]
            gentle = [a for a in order if mask[a] and not pauses.start <= a < pauses.stop]
            legal = (gentle or [a for a in order if mask[a]])[0]
            found, wanted = forgiving.step(wrong), plain.step(legal)
            assert tiny.bits(found[:4]) == tiny.bits(wanted[:4])
            assert found[4]["illegal"] == count
            assert found[4]["executed"] == wanted[4]["executed"] == legal
    with pytest.raises(ValueError, match="illegal 'no': expected one of next_legal, first_legal, raise"):
        tiny.make(chosen, illegal="no")


def test_forgiveness_is_announced_once(tmp_path: Path) -> None:
    env = tiny.make(tiny.scenario(tmp_path), illegal="next_legal")
    env.reset(seed=0)
    with pytest.warns(UserWarning, match=r"a legal action replaces it.*info\['illegal'\] counts them"):
        env.step(-1)
    env.step(-1)  # a second warning would be an error
    env.reset(seed=0)
    env.step(-1)


def test_by_default_no_heuristic_helps(tmp_path: Path) -> None:
    """The queue is in the order of arrival, the reference is FIFO, and a heuristic's order has to be asked for."""
    chosen = tiny.scenario(tmp_path)
    env: Any = gymnasium.make("GPUCluster-v2", scenario=chosen).unwrapped
    assert "base_logits" not in env.shapes
    env.reset(seed=0)
    over = False
    while not over:
        queue = env.queue[env.queue >= 0].tolist()
        assert queue == sorted(queue)
        *_, over, _, info = env.step(env.action_space.sample())
    load = env.workload
    fifo = load.results(run(baselines.make(baselines.load("fifo")), load.episode()))
    assert info["jct_ratio"] == pytest.approx(info["mean_jct_s"] / fifo["jct_s"].mean(), rel=1e-12)
    with pytest.raises(ValueError, match="observation 'slots' requires hints=True"):
        gymnasium.make("GPUCluster-v2", scenario=chosen, victims_by="rule", observation="slots")
    with pytest.raises(ValueError, match="queue_order 'gain' requires hints=True"):
        gymnasium.make("GPUCluster-v2", scenario=chosen, queue_order="gain")
    hinted: Any = gymnasium.make("GPUCluster-v2", scenario=chosen, **tiny.BY_RULE).unwrapped
    assert "base_logits" in hinted.shapes


def test_the_default_workload_is_small_unless_a_log_is_named(tmp_path: Path) -> None:
    def scenario(**choices: Any) -> workloads.Scenario:
        env: Any = gymnasium.make("GPUCluster-v2", count=1, **choices).unwrapped
        found: workloads.Scenario = env.batch.windows[0].workload.scenario
        return replace(found, all_windows=False)  # steady windows have no filter

    assert scenario() == workloads.make_scenario("quick")
    assert scenario(scenario={"seed": 3}) == workloads.make_scenario("quick", {"seed": 3})
    assert scenario(workload="philly") == workloads.make_scenario("philly")
    assert scenario(scenario=tiny.scenario(tmp_path)).max_duration is None  # a cap of `quick`'s


@pytest.mark.parametrize("name", workloads.names())
def test_each_workload_has_its_own_id(name: str) -> None:
    spec = gymnasium.spec(f"GPUCluster-{name}-v2")
    assert spec.kwargs == {"workload": name}
    assert json.loads(spec.to_json())["vector_entry_point"] == "gpu_cluster_gym.envs.registration:make_vec"


def test_an_id_of_a_workload_stands_for_its_scenario() -> None:
    few = {"jobs": 40, "all_windows": True}
    wanted = replace(workloads.named("xion_small"), jobs=40, all_windows=True)
    env = gymnasium.make("GPUCluster-xion_small-v2", scenario=few, count=1).unwrapped
    assert isinstance(env, GPUClusterEnv)
    env.reset(seed=0)
    assert env.workload.scenario == wanted
    with pytest.raises(ValueError, match="did you mean 'mixed'"):
        gymnasium.make("GPUCluster-v2", workload="mixd")


def test_a_window_keeps_its_number_where_others_are_refused() -> None:
    """So `reset`, `info` and results tables name the same window."""
    env = tiny.make({"trace": "philly", "cluster": "4x8", "jobs": 256}, count=8, split="validation")
    refused = set(range(env.windows[-1] + 1)) - set(env.windows)
    assert refused
    _, info = env.reset(options={"window": env.windows[-1]})
    assert info["window"] == env.windows[-1] == env.workload.window.number
    with pytest.raises(
        ValueError, match=f"window {min(refused)}: expected one of this environment's 8 windows"
    ):
        env.reset(options={"window": min(refused)})


@pytest.mark.parametrize("kinds", PAIRED, ids=named)
def test_types_are_as_documented(kinds: dict[str, str], tmp_path: Path) -> None:
    env = tiny.make(tiny.scenario(tmp_path, tiny.jobs(tiny.COUNT // 4)), **kinds)
    env.reset(seed=0)
    while True:
        _, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert [type(value) for value in (reward, terminated, truncated)] == [float, bool, bool]
        assert {name: np.asarray(value).dtype.kind for name, value in info.items()} == TYPES | (
            {"mean_jct_s": "f", "jct_ratio": "f"} if terminated else {}
        )
        assert all(isinstance(value, np.generic) for name, value in info.items() if name != "action_mask")
        assert "episode" not in info  # that name is Gymnasium's and Stable-Baselines'
        if terminated:
            break
    assert env.episode.done
    assert info["mean_jct_s"] == env.results()["jct_s"].mean()


def test_endless_pausing_is_cut(tmp_path: Path) -> None:
    """Three jobs for one GPU: the running job is paused for another as soon as that is legal."""
    table = tiny.jobs(3).assign(
        submit_s=[0.0, 5.0, 10.0], num_gpus=1, duration_s=1e9, pause_s=0.0, load_s=70.0
    )
    chosen = tiny.scenario(tmp_path, table.assign(profiled_duration_s=1e9), cluster="1x1")
    env = tiny.make(chosen, queue_slots=2, running_slots=1, min_run_s=0.0, **BY_AGENT)
    env.reset(seed=0)
    first_choices = 6, *range(6), 7  # pause, start, wait
    truncated = terminated = False
    while not (truncated or terminated):
        mask = env.action_masks()
        *_, terminated, truncated, _ = env.step(next(choice for choice in first_choices if mask[choice]))
    assert truncated


@pytest.mark.parametrize("physics", ["none", "estimates"])
def test_a_wait_lasts_an_hour_at_most(physics: str, tmp_path: Path) -> None:
    """While one job runs for days and no more arrive, a GPU is free for the other."""
    table = tiny.jobs(2).assign(submit_s=[0.0, 50.0], num_gpus=1, duration_s=1e6)
    env = tiny.make(tiny.scenario(tmp_path, table, cluster="1x2", physics=physics), **BY_AGENT)
    env.reset(seed=0)
    start, wait = 0, len(env.action_masks()) - 1
    env.step(start)
    hours = [env.step(wait)[4]["elapsed"] for _ in range(30)]
    assert hours == [3600.0] * 30
    env.step(start)
    assert env.results()["start_s"].tolist() == [0.0, 50.0 + 30 * 3600.0]


def test_an_episode_in_which_a_job_fails_for_ever_is_cut(tmp_path: Path) -> None:
    env = tiny.make(tiny.scenario(tmp_path))
    env.reset(seed=0)
    env.episode.state.endless = 1
    *_, terminated, truncated, _ = env.step(int(env.action_masks().argmax()))
    assert (terminated, truncated) == (False, True)
    assert not terminated


def test_the_cluster_is_shown_as_text(tmp_path: Path) -> None:
    """A takes one GPU of the first node, B all of the second, and C could start."""
    table = tiny.jobs(3).assign(submit_s=0.0, num_gpus=[1, 8, 1], cpu_cores=[2, 8, 1])
    chosen = tiny.scenario(tmp_path, table)
    env = tiny.make(chosen, render_mode="ansi")
    env.reset(seed=0)
    for job in (0, 1):
        env.step(env.queue.tolist().index(job))
    assert str(env.render()).splitlines() == [
        "           0 s  2 running, 1 queued",
        "node   0  a.......  46 cores free",
        "node   1  bbbbbbbb  40 cores free",
    ]
    assert tiny.make(chosen).render() is None
