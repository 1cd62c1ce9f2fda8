"""Invalid keywords are refused with a message; a batch resets like Gymnasium's vector environments."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from gpu_cluster_gym.envs.agent_policy import AgentPolicy
from gpu_cluster_gym.envs.vector import GPUClusterVectorEnv
from tests.cases import tiny

FEW: dict[str, Any] = {
    "workload": "philly_backlog",
    "count": 2,
    "scenario": {"jobs": 20, "all_windows": True},
}


@pytest.mark.parametrize(
    ("action", "wrong", "said"),
    [
        ("steer", {"decisions_per_window": 0}, "decisions_per_window 0: expected a whole number, at least 1"),
        ("steer", {"decisions_per_window": -3}, "decisions_per_window -3: expected a whole number"),
        ("steer", {"arrivals_per_decision": 2.5}, "arrivals_per_decision 2.5: expected a whole number"),
        ("steer", {"privileged": "yes"}, "privileged 'yes': expected True or False"),
        ("steer", {"default_weights": {"price": "x"}}, "default_weights price 'x': expected a finite number"),
        ("steer", {"threads": 1.5}, "threads 1.5: expected a whole number"),
        ("moves", {"cores": "yes"}, "cores 'yes': expected True or False"),
        ("moves", {"queued_jobs": 2.7}, "queued_jobs 2.7: expected a whole number, at least 0"),
        ("moves", {"running_jobs": -1}, "running_jobs -1: expected a whole number, at least 0"),
        ("moves", {"tau_s": 0}, "tau_s 0: expected seconds > 0"),
        ("plain", {"queue_slots": 2.5}, "queue_slots 2.5: expected a whole number, at least 1"),
        ("plain", {"exponent": float("nan")}, "exponent nan: expected a finite number"),
        ("plain", {"margin": -3}, "margin -3: expected a finite number, at least 0"),
        ("plain", {"tau_s": float("nan")}, "tau_s nan: expected seconds > 0"),
        ("plain", {"count": 2.5}, "count 2.5: expected a whole number, at least 1"),
        ("steer", {"count": None}, "count None: expected a whole number, at least 1"),
        ("steer", {"weights": 3}, "weights 3: expected a list of names"),
        ("steer", {"weights": "price"}, "weights 'price': expected a list of names"),
        ("steer", {"split": ["test"]}, r"split \['test'\]: expected a string"),
        ("plain", {"split": 3}, "split 3: expected a string"),
        ("plain", {"reward": 3}, "unknown reward 3: expected one of balanced_regret"),
        ("plain", {"reward": "nowhere:mine"}, "reward 'nowhere:mine': no module 'nowhere'"),
        ("plain", {"reward": "math:sinus"}, "reward 'math:sinus': math has no callable attribute 'sinus'"),
        ("steer", {"num_envs": 1.5}, "num_envs 1.5: expected a whole number"),
        (3, {}, "unknown action 3: expected one of plain"),
        ("plain", {"tau_s": -5.0}, "tau_s -5.0: expected seconds > 0"),
    ],
)
def test_invalid_values_are_refused_in_a_sentence(action: Any, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        gymnasium.make_vec("GPUCluster-v2", **({"num_envs": 1, "action": action} | FEW | wrong))


@pytest.mark.parametrize(
    ("action", "wrong", "said"),
    [
        ("steer", {"decisions_per_window": 0}, "decisions_per_window 0: expected a whole number"),
        ("steer", {"default_weights": {"price": "x"}}, "default_weights price 'x': expected a finite number"),
        ("moves", {"cores": "yes"}, "cores 'yes': expected True or False"),
        ("moves", {"queued_jobs": -1}, "queued_jobs -1: expected a whole number"),
        ("moves", {"max_moves": 99}, "max_moves 99: expected a whole number from 3 to 40"),
        ("plain", {"queue_slots": 2.5}, "queue_slots 2.5: expected a whole number"),
    ],
)
def test_nor_do_they_make_a_policy_of_an_agent(action: str, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        AgentPolicy(lambda seen, legal: 0, action=action, **wrong)


def batch(action: str, num_envs: int = 3) -> GPUClusterVectorEnv:
    """Return a batch without automatic resets."""
    made = gymnasium.make_vec("GPUCluster-v2", num_envs=num_envs, action=action, autoreset="Disabled", **FEW)
    assert isinstance(made.unwrapped, GPUClusterVectorEnv)
    return made.unwrapped


@pytest.mark.parametrize("action", ["plain", "steer"])
def test_a_reset_mask_selects_the_environments(action: str) -> None:
    """The other environments continue."""
    one = batch(action)
    first, second = one.env.windows
    one.reset(seed=0, options={"window": first})
    for _ in range(3):
        legal = one.action_masks().argmax(1) if action == "plain" else one.action_space.sample()
        one.step(legal)
    before = one.observations().tolist()
    seen, _ = one.reset(options={"reset_mask": np.array([False, True, False]), "window": second})
    after = seen.tolist()
    assert one.window_numbers.tolist() == [first, second, first]
    assert (after[0], after[2]) == (before[0], before[2])
    assert after[1] != before[1]


@pytest.mark.parametrize("mask", [[True], [False] * 3, [1, 0, 1]])
def test_an_invalid_mask_is_refused(mask: list[Any]) -> None:
    with pytest.raises(ValueError, match="reset_mask: expected 3 bools"):
        batch("plain").reset(options={"reset_mask": mask})


def test_numpys_numbers_are_seeds() -> None:
    one, other = batch("plain"), batch("plain")
    three: Any = np.int64(3)
    assert np.array_equal(one.reset(seed=three)[0], other.reset(seed=3)[0])
    assert np.array_equal(one.reset(seed=list(np.arange(3)))[0], other.reset(seed=[0, 1, 2])[0])
    assert one.window_numbers.tolist() == other.window_numbers.tolist()


@pytest.mark.parametrize("action", ["plain", "moves", "steer"])
def test_so_they_are_of_one_environment(action: str) -> None:
    env = gymnasium.make("GPUCluster-v2", action=action, disable_env_checker=True, **FEW).unwrapped
    seeds: list[Any] = [3, np.int64(3)]
    windows = [env.reset(seed=seed)[1]["window"] for seed in seeds]
    assert windows[0] == windows[1]


@pytest.mark.parametrize("action", ["plain", "steer"])
def test_a_changed_trace_file_is_read_again(action: str, tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    for longer in (1.0, 2.0):
        table = tiny.jobs(8)
        table.assign(duration_s=longer * table["duration_s"]).to_csv(file, index=False)
        scenario = {"trace_file": str(file), "full_trace": True, "physics": "exclusive", "cluster": "2x8"}
        env = gymnasium.make("GPUCluster-v2", action=action, scenario=scenario)
        env.reset(seed=0)
        jobs = env.get_wrapper_attr("workload").jobs["duration_s"]
        assert jobs.tolist() == (longer * table["duration_s"]).tolist()
