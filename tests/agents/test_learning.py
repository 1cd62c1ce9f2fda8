"""Training: a better order is learned, runs repeat, and agents are saved."""

import csv
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from stable_baselines3 import PPO

from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.callbacks import Validated, pace, passed
from gpu_cluster_gym.agents.learn import learn, learner_of
from gpu_cluster_gym.agents.plain import PlainLearner
from gpu_cluster_gym.agents.ppo import Played, refuse_stalled
from gpu_cluster_gym.agents.training import PlainTraining, SteerTraining, Training
from gpu_cluster_gym.agents.validation import Score, Validation
from gpu_cluster_gym.envs.vector import GPUClusterVectorEnv
from gpu_cluster_gym.evaluation.comparison import Comparison
from gpu_cluster_gym.workloads import Scenario, named
from tests.cases.crowd import TINY, crowded


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return crowded(tmp_path_factory.mktemp("crowd"))


def small_first(folder: Path) -> Scenario:
    """Return a scenario where one large and many small jobs are always submitted together."""
    batch = pd.DataFrame({"num_gpus": [2, 2, 1, 1, 1, 1, 1, 1], "duration_s": [900.0] * 2 + [60.0] * 6})
    table = pd.concat([batch.assign(submit_s=20_000.0 * k) for k in range(200)], ignore_index=True)
    table.assign(job_id=table.index).to_csv(folder / "jobs.csv", index=False)
    return Scenario(
        trace_file=str(folder / "jobs.csv"), cluster="1x2", jobs=8, all_windows=True, physics="none"
    )


@pytest.mark.usefixtures("undrawn")
def test_a_better_order_is_learned_from_random_weights(tmp_path: Path) -> None:
    training = PlainTraining(
        total_timesteps=6144,
        windows=8,
        validation_windows=2,
        validate_every=100_000,
        queue_slots=8,
        num_envs=8,
        n_steps=64,
        batch_size=128,
        learning_rate=1e-2,
        target_kl=None,
        critic_first=2,
        gae_lambda=0.9,
        tau_s=3600.0,
    )
    seen: list[Validated] = []
    learn(small_first(tmp_path), training, tmp_path / "run", validated=seen.append)
    final = seen[-1].own.against
    assert final["fifo"].ratio < 0.5
    assert final["srtf"].ratio == pytest.approx(1.0, abs=0.01)


def test_a_reward_that_cannot_be_loaded_is_refused_before_windows_are_drawn(tmp_path: Path) -> None:
    training = PlainTraining(reward="math:sinus")
    with pytest.raises(ValueError, match="reward 'math:sinus': math has no callable attribute 'sinus'"):
        learner_of(small_first(tmp_path), training)


def test_the_sentence_says_when_each_policy_was_passed() -> None:
    def at(step: int, **ratios: float) -> Validated:
        against = {name: Comparison(ratio, ratio, ratio, 0, 4) for name, ratio in ratios.items()}
        score = Score({}, against, {})
        return Validated(step, score, score, best=False)

    times = [
        (10.0, at(0, start=1.0, fifo=0.9, las=1.2, srtf=1.5)),
        (70.0, at(100, start=0.8, fifo=0.8, las=1.1, srtf=1.3)),
        (100.0, at(200, start=0.7, fifo=0.7, las=0.9, srtf=1.0)),
    ]
    assert passed(times) == (
        "Mean of validation windows' ratios (time of the first such validation): better than fifo (before training), "
        "las (1.5 min); never better than srtf."
    )
    assert "better than fifo (at the first validation after it was resumed), las (0.5 min)" in passed(
        times[1:]
    )


def test_the_pace_of_a_resumed_run_counts_from_there() -> None:
    def at(step: int, ratio: float, *, best: bool = False) -> Validated:
        score = Score({}, {"start": Comparison(ratio, ratio, ratio, 0, 4)}, {})
        return Validated(step, score, score, best)

    first, worse, kept = at(0, 0.9, best=True), at(100, 0.95), at(300, 0.8, best=True)
    whole = pace([(0.0, first), (10.0, worse), (70.0, kept)], "fifo")
    assert whole.startswith(
        "Mean JCT / fifo: kept checkpoint 0.800 after 1.2 min (300 steps); 4 steps per second"
    )
    assert "no validation better than before training; 10 steps" in pace(
        [(0.0, first), (10.0, worse)], "fifo"
    )
    assert "kept checkpoint 0.800 after 1.0 min (300 steps); 3 steps" in pace(
        [(0.0, worse), (60.0, kept)], "fifo"
    )
    again = [(0.0, worse), (20.0, at(200, 0.85))]  # the best was before the interruption
    assert "no better checkpoint since the run was resumed; 5 steps" in pace(again, "fifo")
    assert pace(again[:1], "fifo") == "Mean JCT / fifo: no better checkpoint since the run was resumed."


@pytest.mark.usefixtures("undrawn")
def test_the_same_seed_gives_the_same_weights(scenario: Scenario, tmp_path: Path) -> None:
    def weights(name: str, seed: int) -> bytes:
        training = replace(TINY, learning_seed=seed, total_timesteps=TINY.rollout * TINY.num_envs)
        learn(scenario, training, tmp_path / name)
        last = sorted((tmp_path / name / "checkpoints").iterdir())[-1]
        return (last / checkpoint.WEIGHTS).read_bytes()

    first = weights("first", 3)
    assert first == weights("second", 3)
    assert first != weights("other", 4)


def small(action: Literal["plain", "steer"]) -> Training:
    """Return options of an action kind for a few steps."""
    few: dict[str, Any] = {
        "num_envs": 4,
        "n_steps": 4,
        "batch_size": 16,
        "windows": 4,
        "validation_windows": 2,
    }
    return replace(TINY, **few) if action == "plain" else SteerTraining(search=0.0, hidden=32, **few)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("action", ["plain", "steer"])
def test_learning_does_not_depend_on_the_frequency_of_validation(
    action: Literal["plain", "steer"], scenario: Scenario, tmp_path: Path
) -> None:
    """Nor on the number of validation windows, since each training environment has its own noise in a rollout."""
    few = replace(small(action), total_timesteps=64)
    assert few.validation_windows < few.num_envs

    def weights(validate_every: int) -> bytes:
        out = tmp_path / str(validate_every)
        learn(scenario, replace(few, validate_every=validate_every), out)
        last: Path = max((out / "checkpoints").iterdir())
        return (last / checkpoint.WEIGHTS).read_bytes()

    assert weights(16) == weights(64)


@pytest.mark.usefixtures("undrawn")
def test_a_run_leaves_curves_checkpoints_and_the_best_agent(scenario: Scenario, tmp_path: Path) -> None:
    training = replace(TINY, total_timesteps=640, validate_every=128)
    seen: list[Validated] = []
    steps: list[int] = []
    best = learn(scenario, training, tmp_path, validated=seen.append, stepped=steps.append)
    assert sum(steps) == 640
    assert [validated.step for validated in seen] == [0, 128, 256, 384, 512, 640]
    with (tmp_path / "validation.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [int(row["step"]) for row in rows] == [validated.step for validated in seen]
    kept = sorted(folder.name for folder in (tmp_path / "checkpoints").iterdir())
    assert kept == ["step-000000384", "step-000000512", "step-000000640"]
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 1
    ratios = [validated.own.ratio for validated in seen]
    assert min(ratios) == next(validated.own.ratio for validated in reversed(seen) if validated.best)
    assert checkpoint.load(best).training == replace(training, learning_seed=0)


@pytest.mark.usefixtures("undrawn")
def test_curves_have_the_documented_values(scenario: Scenario, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    learn(scenario, replace(TINY, total_timesteps=1024, validate_every=1024), tmp_path)
    events = EventAccumulator(str(tmp_path)).Reload()
    tags = set(events.Tags()["scalars"])
    numbers = ("mean_jct_s", "mean_wait_s", "preemptions", "gpu_goodput_share", "decisions", "pauses")
    ratios = [f"ratio_to_{name}" for name in ("start", "fifo", "sjf", "srtf", "las", "xion_threshold")]
    wanted = {f"validation_sampled/{name}" for name in (*numbers, *ratios)}
    wanted |= {f"jct/{name}" for name in ("agent", "agent_sampled", "start", "fifo", "random_legal")}
    wanted |= {
        "rollout/ep_rew_mean",
        "rollout/mean_reward",
        "rollout/simulated_hours",
        "train/approx_kl",
        "train/entropy_loss",
    }
    assert wanted <= tags
    assert {event.value for event in events.Scalars("jct/start")} == {1.0}
    texts = {name.removesuffix("/text_summary") for name in events.Tags()["tensors"]}
    assert {"choices", "commit", "custom_scalars__config__"} <= texts


@pytest.mark.parametrize(("workload", "known"), [("mixed", True), ("quick", False)])
def test_the_best_constants_are_a_line_where_some_are_known(workload: str, known: bool) -> None:
    lines = Validation(learner_of(named(workload), SteerTraining(validation_windows=2))).lines
    assert ("constants" in lines) == known
    assert lines["start"] == 1
    assert not known or lines["constants"] != 1


def test_each_validation_draws_the_jobs_of_each_gpu(scenario: Scenario, tmp_path: Path) -> None:
    """Both halves of the image, of the agent and of its start, have the colours of jobs."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    learn(scenario, replace(small("plain"), total_timesteps=32, validate_every=16), tmp_path)
    images = EventAccumulator(str(tmp_path)).Reload().Images("gantt")
    assert [each.step for each in images] == [0, 16, 32]
    for each in images:
        pixels = np.asarray(Image.open(BytesIO(each.encoded_image_string)).convert("RGB"))
        assert pixels.shape[1] > 500
        for half in np.array_split(pixels, 2):
            coloured = half.reshape(-1, 3)[np.ptp(half, axis=2).ravel() > 40]
            _, pixels_of = np.unique(coloured, axis=0, return_counts=True)
            shares = pixels_of[pixels_of > 0.0002 * half[..., 0].size] / half[..., 0].size
            assert shares.sum() > 0.02
            assert len(shares) > 4


def test_learning_does_not_depend_on_the_images(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = replace(small("steer"), total_timesteps=48, validate_every=16)
    last = Path("checkpoints", "step-000000048", checkpoint.WEIGHTS)
    learn(scenario, few, tmp_path / "seen")
    monkeypatch.setattr("gpu_cluster_gym.agents.callbacks.show_image", lambda *drawn: None)
    learn(scenario, few, tmp_path / "unseen")
    assert (tmp_path / "seen" / last).read_bytes() == (tmp_path / "unseen" / last).read_bytes()


def test_an_agent_is_worse_where_its_mean_jct_is_longer_by_the_interval() -> None:
    others = (100.0, 200.0, 300.0, 400.0, 500.0, 600.0)
    longer = Score({}, {}, {}, tuple(1.1 * each for each in others))
    uneven = Score({}, {}, {}, (70.0, 140.0, 210.0, 600.0, 750.0, 900.0))  # 0.7 or 1.5 times, 1.1 in the mean
    assert longer.is_worse_than(others)
    assert not uneven.is_worse_than(others)
    assert not Score({}, {}, {}, others).is_worse_than(longer.mean_jct_s)
    assert Score({}, {}, {}).is_worse_than(others)  # jobs never end
    assert Score({}, {}, {}, (101.0,)).is_worse_than((100.0,))  # a single window has no interval


@pytest.mark.usefixtures("undrawn")
def test_a_later_agent_replaces_the_best_unless_it_is_worse_by_the_interval(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is compared is the lowest, not the last that was kept, so that small losses do not add up."""
    lowest = (90.0, 190.0, 290.0, 390.0, 490.0, 590.0)
    shapes = [
        tuple(2.0 * each for each in lowest),  # before training
        lowest,
        tuple(each * by for each, by in zip(lowest, (0.8, 1.3) * 3, strict=True)),  # noise
        tuple(1.02 * each for each in lowest),  # worse than the lowest, better than the last one kept
        tuple(
            each * by for each, by in zip(lowest, (0.8, 1.5) * 3, strict=True)
        ),  # noise, but as before training
    ]
    scores = iter(
        Score({}, {"start": Comparison(ratio, ratio, ratio, 0, 6)}, {}, jcts)
        for ratio, jcts in zip((1.0, 0.9, 0.95, 0.92, 1.0), shapes, strict=True)
    )
    monkeypatch.setattr(Validation, "score", lambda self, model, *, sampled: next(scores))
    seen: list[Validated] = []
    learn(
        scenario,
        replace(TINY, total_timesteps=512, validate_every=128),
        tmp_path,
        validated=seen.append,
    )
    assert [validated.best for validated in seen] == [True, True, True, False, False]
    assert checkpoint.about(tmp_path / "best")["step"] == 256


@pytest.mark.usefixtures("undrawn")
def test_learning_continues_after_a_validation_that_never_ends(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = PlainLearner.play

    def sometimes(self: PlainLearner, model: PPO, envs: GPUClusterVectorEnv, *, sampled: bool) -> Played:
        refuse_stalled(np.array([model.num_timesteps > 0]), 7)
        return play(self, model, envs, sampled=sampled)

    monkeypatch.setattr(PlainLearner, "play", sometimes)
    seen: list[Validated] = []
    learn(scenario, TINY, tmp_path, validated=seen.append)
    assert [validated.best for validated in seen] == [True, *[False] * (len(seen) - 1)]
    assert [np.isinf(validated.own.ratio) for validated in seen] == [False, *[True] * (len(seen) - 1)]
    curve = pd.read_csv(tmp_path / "validation.csv")
    assert curve["step"].tolist() == [validated.step for validated in seen]
    assert np.isfinite(curve["sampled_mean_jct_s"]).tolist() == [True, *[False] * (len(seen) - 1)]


@pytest.mark.usefixtures("undrawn")
def test_the_last_rollout_never_learns_backwards(scenario: Scenario, tmp_path: Path) -> None:
    """The last rollout may exceed the total steps: the learning rate falls to 0, not below."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    rollout = TINY.rollout * TINY.num_envs
    learn(scenario, replace(TINY, total_timesteps=rollout + 1), tmp_path)
    rates = [event.value for event in EventAccumulator(str(tmp_path)).Reload().Scalars("train/learning_rate")]
    assert len(rates) == 2
    assert rates[0] > rates[1] == 0.0
