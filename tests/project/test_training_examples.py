"""Examples in `docs/examples/train/` learn, save an agent, and are then policies for `evaluate.py`."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from docs.examples.train.slots import TimedTransitions
from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents.record import record
from gpu_cluster_gym.envs.floors import RandomLegal
from gpu_cluster_gym.evaluation.audit import audit
from gpu_cluster_gym.evaluation.comparison import compare
from gpu_cluster_gym.evaluation.metrics import summarise
from gpu_cluster_gym.evaluation.runner import simulate
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.workloads import Scenario, full_trace, named, windows
from tests.cases import tiny
from tests.conftest import ROOT

FOLDER = ROOT / "docs" / "examples" / "train"
PAGE = ROOT / "docs" / "your_own_agent.md"
LEARN = (
    "sb3_steer",
    "sb3_ppo",
    "sb3_dqn",
    "maskable_ppo",
    "one_file",
    "inspector",
    "rl_scheduler",
    "rllib_ppo",
    "torchrl_ppo",
)
NEEDS = {
    "maskable_ppo": "sb3_contrib",
    "rl_scheduler": "sb3_contrib",
    "rllib_ppo": "ray.rllib",
    "torchrl_ppo": "torchrl",
}
"""Libraries of examples that only some installations have."""
MAX_LINES = {
    "one_file": 115,
    "sb3_steer": 105,
    "slots": 200,
    "inspector": 130,
    "rl_scheduler": 90,
    "sb3_dqn": 75,
    "portfolio": 130,
    "offline": 120,
    "rl_tune": 95,
    "rllib_ppo": 85,
    "torchrl_ppo": 75,
}  # 60 of the others
OF_SB3 = ("sb3_ppo", "sb3_dqn", "maskable_ppo")
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*a legal action replaces it"),
    pytest.mark.filterwarnings("ignore:Creating .*WeightUpdater:DeprecationWarning"),  # TorchRL's own
]
STEPS = 16


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return a scenario of a few jobs; agents are saved to a temporary folder."""
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    return tiny.scenario(tmp_path, tiny.jobs(12))


def example(name: str, chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module of an example, with few environments and steps of a few jobs."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"{NEEDS[name]} is optional")
    module = import_module(f"docs.examples.train.{name}")
    monkeypatch.setattr(module, "WINDOWS", {"scenario": chosen}, raising=name != "offline")
    for size in {"ENVIRONMENTS", "ROLLOUT"} & set(vars(module)):
        monkeypatch.setattr(module, size, 4)
    return module


@pytest.mark.parametrize("name", LEARN)
def test_an_example_learns_and_is_a_policy(
    name: str, chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = example(name, chosen, monkeypatch)
    module.train(STEPS)
    assert Path(module.FILE.format(0)).exists()
    load = full_trace(Scenario(**chosen))
    table = load.results(run(module.policy, load.episode()))
    assert table["finish_s"].notna().all()


@pytest.mark.slow(reason="each trains for one or two minutes")
@pytest.mark.parametrize(
    ("name", "steps"),
    [("sb3_ppo", 100_000), ("sb3_dqn", 40_000), ("maskable_ppo", 100_000), ("one_file", 100_000)],
)
@pytest.mark.usefixtures("chosen")
def test_an_example_is_better_than_random_actions(name: str, steps: int) -> None:
    """Mean JCT on 24 test windows of `quick` is shorter than that of random legal actions, by the interval."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"{NEEDS[name]} is optional")
    module = import_module(f"docs.examples.train.{name}")
    module.train(steps)
    loads = windows(named("quick"), "test", 24)
    makers = {"agent": lambda: baselines.make(module.policy), "random": lambda: baselines.make(RandomLegal)}
    found = {
        each: summarise(table, gpus=loads[0].cluster.num_gpus)
        for each, table in simulate(makers, loads).items()
    }
    assert compare(found["agent"], found["random"], metric="mean_jct_s").high < 1.0


@pytest.mark.parametrize("name", OF_SB3)
def test_a_sampled_action_depends_on_the_observation_alone(
    name: str, chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading the model seeds Torch, too, which must not change the first action of a process."""
    module = example(name, chosen, monkeypatch)
    module.train(STEPS)
    env = gymnasium.make("gpu_cluster_gym:GPUCluster-v2", scenario=chosen, **module.CHOICES)
    seen, info = env.reset(seed=0)
    for _ in range(12):
        mask = info["action_mask"] > 0
        module.model.cache_clear()
        first = module.predict(seen, mask)
        assert module.predict(seen, mask) == first
        seen, _, _, _, info = env.step(int(np.flatnonzero(mask)[0]))


def curves(folder: Path) -> list[str]:
    events = EventAccumulator(str(folder))
    events.Reload()
    return list(events.Tags()["scalars"])


@pytest.mark.parametrize("name", OF_SB3)
def test_an_example_prints_logs_and_is_seeded(
    name: str, chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = example(name, chosen, monkeypatch)
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
    network = module.Network(env.observation_space).actor
    monkeypatch.setattr(module, "network", lambda: network)
    (seen, _), over = env.reset(options={"window": 0}), False
    while not over:
        seen, _, over, _, _ = env.step(module.sample(network, seen, env.action_masks()))
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


def test_offline_learning_finds_the_recorded_actions(
    chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clone of SJF makes nearly all of its actions; Q-learning from SJF and random actions is a policy too."""
    pytest.importorskip("minari", reason="minari is optional")
    pytest.importorskip("h5py", reason="h5py is optional")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(Path("runs/minari").resolve()))
    module = example("offline", chosen, monkeypatch)
    names = [f"gpu-cluster/tiny/{name}-v0" for name in ("sjf", "random")]
    (played,), _ = (record(name[17:-3], {"scenario": chosen}, 1, name) for name in names)
    load = full_trace(Scenario(**chosen))
    for data, td in ((names[:1], 0.0), (names, 1.0)):
        module.train(20 * STEPS, data, td=td)
        module.learned.cache_clear()
        if not td:
            guessed = np.array([module.predict(seen, None) for seen in played.observations[:-1]])
            assert np.mean(guessed == played.actions) > 0.9
        assert load.results(run(module.policy, load.episode()))["finish_s"].notna().all()


def test_a_program_packs_jobs_by_priority() -> None:
    """By hand: the first job takes the node that it fills; the third of 4 GPUs has the node that the second leaves."""
    assign = import_module("docs.examples.train.rl_tune").assign
    found = assign(np.array([8, 4, 4, 2]), np.array([8, 6, 2]))
    assert found.sum(axis=1).tolist() == [8, 4, 4, 0]
    assert found.sum(axis=0).tolist() == [8, 6, 2]
    assert found[0].tolist() == [8, 0, 0]
    assert assign(np.array([12, 4]), np.array([8, 3])).tolist() == [[0, 0], [4, 0]]
    assert assign(np.array([2, 3]), np.array([4, 2])).tolist() == [[0, 2], [3, 0]]


def test_starts_of_programs_obey_the_simulator(
    chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = example("rl_scheduler", chosen, monkeypatch)
    for size in ("ENVIRONMENTS", "ROLLOUT"):
        monkeypatch.setattr(module, size, 4)
    module.train(STEPS)
    module.model.cache_clear()
    load = full_trace(Scenario(**chosen))
    policies = import_module("docs.examples.train.rl_tune").policy(), module.policy
    jct_s = [load.results(run(policy, load.episode()))["finish_s"].mean() for policy in policies]
    assert jct_s[0] == pytest.approx(jct_s[1], rel=0.2)


def portfolio(*names: str, **given: Any) -> Any:
    return import_module("docs.examples.train.portfolio").Portfolio(names, **given)


@pytest.mark.parametrize("name", ["fifo", "sjf", "las", "srtf", "xion_threshold"])
def test_a_portfolio_of_one_policy_is_that_policy(name: str) -> None:
    load = windows(replace(named("mixed"), jobs=40, all_windows=True), "train", 1)[0]
    alone, followed = (
        load.results(run(policy, load.episode())) for policy in (baselines.load(name), portfolio(name))
    )
    assert alone.equals(followed)


@pytest.mark.parametrize("names", [("fifo", "sjf"), ("sjf", "fifo")])
def test_a_portfolio_follows_the_better_policy(names: tuple[str, ...], tmp_path: Path) -> None:
    """Of seven jobs for one GPU the first is long, and FIFO starts it first."""
    table = tiny.jobs(7).assign(submit_s=0.0, num_gpus=1, duration_s=[9000.0, *(60.0,) * 6])
    load = full_trace(Scenario(**tiny.scenario(tmp_path, table, cluster="1x1", physics="none")))
    policy = portfolio(*names)
    found = load.results(run(policy, load.episode()))
    assert set(policy.followed) == {"sjf"}
    assert found["start_s"].tolist() == [360.0, *(60.0 * np.arange(6))]


def test_a_buffer_discounts_by_time_and_stores_executed_actions() -> None:
    """After the horizon of two hours, 1 / e is left; after the end of an episode nothing."""
    box = gymnasium.spaces.Box(-1, 1, (1,))
    buffer = TimedTransitions(4, box, gymnasium.spaces.Discrete(9), n_envs=3)
    seen, infos = (
        np.zeros((3, 1), np.float32),
        [{"executed": 5, "elapsed": each} for each in (7200.0, 0.0, 60.0)],
    )
    buffer.add(seen, seen, np.array([8, 8, 8]), np.zeros(3), np.array([False, False, True]), infos)
    assert buffer.dones[0] == pytest.approx([1 - np.exp(-1), 0.0, 1.0])
    assert buffer.actions[0].ravel().tolist() == [5, 5, 5]


def test_a_portfolio_does_not_see_the_future() -> None:
    slow = audit({"portfolio": portfolio_of_two}, pairs=6)
    assert [str(each) for each in slow if each.leaks or each.pairs < 6] == []


def portfolio_of_two() -> Any:
    return portfolio("srtf", "fifo", futures=2)


def test_later_arrivals_of_a_future_are_those_of_the_past() -> None:
    """All jobs of a simulated future, its later arrivals included, run to their ends."""
    load = windows(replace(named("mixed"), jobs=200, all_windows=True), "train", 1)[0]
    episode, policy = load.episode(), portfolio("fifo", "srtf", futures=2, tau_s=np.inf)
    episode.run_until(Ranking("submit"), float(load.jobs["submit_s"][150]))
    policy._begin(episode.view)
    assert np.isfinite(policy.costs(episode.view)).all()
    future, count = policy._states[1], len(episode.view.jobs.submit_s)
    new, past = policy._jobs[count : future.num_jobs], load.jobs[:count]
    assert future.num_done == future.num_jobs >= count + 100
    assert (np.diff(new["submit_s"]) >= 0).all()
    assert new["submit_s"][0] >= episode.view.now
    assert np.isin(new["profiled_duration_s"], past["profiled_duration_s"]).all()


def test_examples_are_short_and_on_the_page() -> None:
    names = {path.stem for path in FOLDER.glob("*.py")}
    assert names == {*LEARN, "vectors", "slots", "optuna_search", "portfolio", "offline", "rl_tune"}
    text = PAGE.read_text(encoding="utf-8")
    assert "`docs/examples/train/`" in text
    assert {name for name in names if f"`{name}`" not in text} == set()
    for name in names:
        assert len((FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= MAX_LINES.get(
            name, 60
        )
