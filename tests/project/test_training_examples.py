"""Examples in `docs/examples/train/` learn, save an agent, and are then policies for `evaluate.py`."""

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import Scenario, full_trace, named, windows
from tests.cases import tiny
from tests.conftest import ROOT

FOLDER = ROOT / "docs" / "examples" / "train"
PAGE = ROOT / "docs" / "your_own_agent.md"
LEARN = ("sb3_steer", "sb3_ppo", "sb3_dqn", "maskable_ppo", "one_file", "inspector", "rl_scheduler")
MAX_LINES = {
    "one_file": 115,
    "sb3_steer": 105,
    "slots": 145,
    "inspector": 130,
    "rl_scheduler": 90,
    "sb3_dqn": 65,
}  # 60 of the others
OF_SB3 = ("sb3_ppo", "sb3_dqn", "maskable_ppo")
pytestmark = pytest.mark.filterwarnings("ignore:.*a legal action replaces it")
STEPS = 16


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return a scenario of a few jobs; agents are saved to a temporary folder."""
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    return tiny.scenario(tmp_path, tiny.jobs(12))


def example(name: str, chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    if name in ("maskable_ppo", "rl_scheduler"):
        pytest.importorskip("sb3_contrib", reason="installed by [dev]")
    module = import_module(f"docs.examples.train.{name}")
    monkeypatch.setattr(module, "WINDOWS", {"scenario": chosen})
    return module


@pytest.mark.parametrize("name", LEARN)
def test_an_example_learns_and_is_a_policy(
    name: str, chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = example(name, chosen, monkeypatch)
    for size in {"ENVIRONMENTS", "ROLLOUT"} & set(vars(module)):
        monkeypatch.setattr(module, size, 4)
    module.train(STEPS)
    assert Path(module.FILE.format(0)).exists()
    load = full_trace(Scenario(**chosen))
    table = load.results(run(module.policy, load.episode()))
    assert table["finish_s"].notna().all()


def curves(folder: Path) -> list[str]:
    events = EventAccumulator(str(folder))
    events.Reload()
    return list(events.Tags()["scalars"])


@pytest.mark.parametrize("name", OF_SB3)
def test_an_example_prints_logs_and_is_seeded(
    name: str, chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = example(name, chosen, monkeypatch)
    for size in {"ENVIRONMENTS", "ROLLOUT"} & set(vars(module)):
        monkeypatch.setattr(module, size, 4)
    weights = []
    for seed in (0, 0, 1):
        module.train(10 * STEPS, seed)
        model = module.model.__wrapped__()
        weights.append(torch.cat([each.flatten() for each in model.policy.state_dict().values()]))
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert "ep_rew_mean" in capsys.readouterr().out
    written = sorted(Path("runs/tensorboard").glob("*/events.*"))
    assert len(written) == 3
    assert (
        min(curves(written[0].parent)) == "jct/of_fifo"
    )  # TensorBoard shows charts in the order of their names


def test_the_constant_action_control_is_reported_with_the_agent(
    chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control plays the mean action over windows, like the environment with a constant action."""
    module = example("sb3_steer", chosen, monkeypatch)
    for size in ("ENVIRONMENTS", "ROLLOUT"):
        monkeypatch.setattr(module, size, 4)
    module.train(2 * STEPS, seed=1)
    model = module.PPO.load(module.FILE.format(1), device="cpu")
    assert any(float(each.detach().abs().max()) > 0 for each in model.policy.action_net.parameters()), (
        "nothing learned"
    )
    with torch.no_grad():
        model.policy.action_net.weight.zero_()
        model.policy.action_net.bias.copy_(torch.linspace(-0.5, 0.5, len(model.policy.action_net.bias)))
    held = module.average(model)
    assert np.allclose(held, np.linspace(-0.5, 0.5, len(held)))
    np.save(module.HELD.format(0), held)
    module.mean_action.cache_clear()
    load = windows(replace(named("mixed"), jobs=40), "train", 1)[0]
    table = load.results(run(module.mean_action_policy, load.episode()))
    assert table.equals(played(held))
    assert not table.equals(played(0 * held)), "the action matters"


def played(action: np.ndarray) -> Any:
    """Return the results of an environment with this window where the action is always the same."""
    choices: dict[str, Any] = {"workload": "mixed", "scenario": {"jobs": 40}, "count": 1}
    env: Any = gymnasium.make("GPUCluster-v2", action="steer", **choices).unwrapped
    env.reset(options={"window": env.windows[0]})
    over = False
    while not over:
        _, _, over, _, _ = env.step(action)
    return env.results()


def test_scores_are_those_of_the_environment(chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("one_file", chosen, monkeypatch)
    env: Any = gymnasium.make("gpu_cluster_gym:GPUCluster-v2", **module.WINDOWS, **module.CHOICES).unwrapped
    network = module.Network(*env.observation_space.shape, int(env.action_space.n))
    monkeypatch.setattr(module, "trained", lambda: network)
    (seen, _), over = env.reset(options={"window": 0}), False
    while not over:
        seen, _, over, _, _ = env.step(module.predict(seen, env.action_masks()))
    load = full_trace(Scenario(**chosen))
    assert load.results(run(module.policy, load.episode())).equals(env.results())


def test_side_by_side_in_three_ways_is_the_same(
    chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = example("vectors", chosen, monkeypatch)
    shown = [module.play(mode, 20) for mode in module.MODES]
    assert all(np.array_equal(shown[0], each) for each in shown)
    assert not np.array_equal(shown[0], module.play("batch", 19)), "steps matter"


@pytest.mark.usefixtures("chosen")
def test_a_search_of_options_is_stored_continued_and_pruned() -> None:
    optuna = pytest.importorskip("optuna", reason="optional: pip install optuna")
    module = import_module("docs.examples.train.optuna_search")
    training = replace(
        module.TRAINING,
        total_timesteps=64,
        num_envs=4,
        n_steps=8,
        validate_every=32,
        windows=1,
        validation_windows=1,
    )
    scenario = replace(named("mixed"), jobs=12, all_windows=True)
    ratios = []
    for _ in range(2):
        study = optuna.create_study(storage=module.STORAGE, study_name="quick", load_if_exists=True)
        study.optimize(lambda trial: module.trained(trial, scenario, training), 1)
        ratios.append(study.trials[-1].value)
    assert [each.number for each in study.trials] == [0, 1]
    assert study.best_value == min(ratios) > 0
    assert set(study.best_params) <= set(vars(training))
    assert set(study.trials[0].intermediate_values) == {32, 64}
    assert Path("runs/optuna-quick-1/best").is_dir()
    strict = optuna.create_study(pruner=optuna.pruners.ThresholdPruner(upper=0.0), study_name="strict")
    strict.optimize(lambda trial: module.trained(trial, scenario, training), 1)
    assert strict.trials[0].state == optuna.trial.TrialState.PRUNED
    assert set(strict.trials[0].intermediate_values) == {32}


def test_examples_are_short_and_on_the_page() -> None:
    names = {path.stem for path in FOLDER.glob("*.py")}
    assert names == {*LEARN, "vectors", "slots", "optuna_search"}
    text = PAGE.read_text(encoding="utf-8")
    assert {name for name in names if f"docs/examples/train/{name}.py" not in text} == set()
    for name in names:
        assert len((FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= MAX_LINES.get(
            name, 60
        )


def test_blocks_of_the_page_run(chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The block defines an agent; its file does not exist, so nothing is loaded."""
    for block in re.findall(
        r"^```python\n(# mylab.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        made: dict[str, Any] = {}
        exec(block, made)
        assert "policy" in made
