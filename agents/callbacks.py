"""Callbacks of training: curves, validation, checkpoints, charts for TensorBoard, and experiment trackers."""

import csv
import json
import math
import os
import re
import shutil
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import (
    HParam,
    Image,
    KVWriter,
    Logger,
    TensorBoardOutputFormat,
    configure,
)
from torch.utils.tensorboard import SummaryWriter

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.checkpoint import Agent, policy_of
from gpu_cluster_gym.agents.moves import Student
from gpu_cluster_gym.agents.ppo import Learner
from gpu_cluster_gym.agents.validation import START, Score, Validation
from gpu_cluster_gym.agents.warm_start import SearchFirst
from gpu_cluster_gym.envs.windows import shared_windows
from gpu_cluster_gym.evaluation import record
from gpu_cluster_gym.evaluation.command import FULL
from gpu_cluster_gym.evaluation.plot import figures, run_tables
from gpu_cluster_gym.evaluation.plot.style import IN_PRINT, pixels, style
from gpu_cluster_gym.evaluation.provenance import commit
from gpu_cluster_gym.evaluation.record import Record
from gpu_cluster_gym.evaluation.run_folder import BEST
from gpu_cluster_gym.simulator.errors import StalledEpisodeError
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.workloads import Workload

CHECKPOINTS_KEPT = 3
CHECKPOINTS, CURVE = "checkpoints", "validation.csv"


class Validated(NamedTuple):
    """A validation."""

    step: int
    own: Score
    """The score of the agent as it acts in use."""
    sampled: Score
    """The score with sampled actions, which is the same where the agent samples in use, too."""
    best: bool
    """Whether the agent is the best so far.

    Its ratio to the start is the lowest; or, where the agent samples in use, it is lower than before training, and not
    worse than the lowest by the 95 % interval: the lowest of several noisy ratios is mostly luck, and agents go on
    learning as the learning rate falls.
    """


class Curves(BaseCallback):
    """Log the means over each rollout that Stable-Baselines3 does not log."""

    def __init__(self, learner: Learner) -> None:
        """Take the learner, which knows the metrics of a step."""
        super().__init__()
        self._learner = learner

    def _on_rollout_start(self) -> None:
        self._values: dict[str, list[float]] = defaultdict(list)

    def _on_step(self) -> bool:
        self._values["mean_reward"].append(float(np.mean(self.locals["rewards"])))
        for name, values in self._learner.step_metrics(self.locals["infos"]).items():
            self._values[name] += values
        return True

    def _on_rollout_end(self) -> None:
        for name, values in self._values.items():
            if values:
                self.logger.record(f"rollout/{name}", float(np.mean(values)))


class Ticker(BaseCallback):
    """Report every step, for a progress bar; at first also those before a run was resumed."""

    def __init__(self, report: Callable[[int], None]) -> None:
        """Take the function that is called with the number of steps."""
        super().__init__()
        self._report, self._reported = report, 0

    def _on_step(self) -> bool:
        self._report(self.num_timesteps - self._reported)
        self._reported = self.num_timesteps
        return True


class Validator(BaseCallback):
    """Validate before the first step, every `validate_every` steps, and at the end; save the best and last agents."""

    STATE = ("num_timesteps", "_next", "_lowest", "_lowest_jct_s", "_rows")
    """Attributes that later validations depend on."""

    def __init__(
        self,
        learner: Learner,
        validation: Validation,
        out: Path,
        report: Callable[[Validated], None],
        *,
        resumes: bool = False,
    ) -> None:
        """Prepare validation.

        out: folder of the run.
        report: called after each validation.
        resumes: whether the run is resumed, so that it was validated before its first step.
        """
        super().__init__()
        self._learner, self._validation, self._out, self._report = learner, validation, out, report
        self._schedules = Schedules(learner)
        self._resumes = resumes
        self._next = 0
        self._lowest = np.inf
        self._lowest_jct_s: Sequence[float] = ()  # mean JCT of each window at the lowest ratio
        self._rows: list[dict[str, float]] = []

    def _on_training_start(self) -> None:
        if self._resumes:
            return
        describe_run(self.logger, self._learner)
        lay_out_charts(self.logger)
        self._validate()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        """Validate between two rollouts, after the update of the last one."""
        if self.num_timesteps >= self._next:
            with torch.random.fork_rng():  # the frequency of validations does not change what is learned
                self._validate()

    def _on_training_end(self) -> None:
        self._validate()

    def _validate(self) -> None:
        self._next = self.num_timesteps + self._learner.training.validate_every
        model = self.model
        assert isinstance(model, PPO)
        sampled = self._validation.score(model, sampled=True)
        own = sampled if self._learner.samples else self._greedy(model)
        best = lowest = own.ratio < self._lowest
        if self._learner.samples and self._lowest_jct_s and not lowest:
            first = self._rows[0][f"agent{figures.RATIO}"]
            best = own.ratio < first and not own.is_worse_than(self._lowest_jct_s)
        if lowest:
            self._lowest, self._lowest_jct_s = own.ratio, own.mean_jct_s
        validated = Validated(self.num_timesteps, own, sampled, best)
        if validated.best and isinstance(model, SearchFirst):
            model.keep()
        learner = self._learner
        agent = Agent(learner.network(model), learner.training, learner.scenario, learner.initial.rule)
        self._log(validated, agent)
        self._save(validated, agent)
        self._report(validated)

    def _greedy(self, model: PPO) -> Score:
        """Return the greedy score; of a student, with the best of several margins, which is kept."""
        if not isinstance(model, Student):
            return self._validation.score(model, sampled=False)
        scores = {}
        for margin in model.margins:
            model.margin = margin
            scores[margin] = self._validation.score(model, sampled=False)
        model.margin = min(scores, key=lambda each: scores[each].ratio)
        return scores[model.margin]

    def _log(self, validated: Validated, agent: Agent) -> None:
        ratios = {"agent": validated.own.ratio, "agent_sampled": validated.sampled.ratio}
        lines = {f"jct/{name}": ratio for name, ratio in (ratios | self._validation.lines).items()}
        scores = {"sampled": validated.sampled}
        if not self._learner.samples:
            scores = {"greedy": validated.own} | scores
        numbers = {
            f"validation_{how}/{name}": value
            for how, score in scores.items()
            for name, value in row_of(score).items()
        }
        for name, value in (lines | numbers).items():
            self.logger.record(name, value)
        show_image(self.logger, "gantt", partial(self._schedules.image, agent))
        self.logger.dump(validated.step)
        row = {name.removeprefix("validation_").replace("/", "_"): value for name, value in numbers.items()}
        drawn = {"agent": validated.own.ratio} | self._validation.lines
        row |= {f"{name}{figures.RATIO}": ratio for name, ratio in drawn.items() if name != START}
        self._rows.append({"step": validated.step} | row)
        with (self._out / CURVE).open("w", newline="", encoding="utf-8") as out:
            rows = csv.DictWriter(out, list(dict.fromkeys(name for each in self._rows for name in each)))
            rows.writeheader()
            rows.writerows(self._rows)

    def _save(self, validated: Validated, agent: Agent) -> None:
        about = {
            "step": validated.step,
            "validation_ratio_to_start": validated.own.ratio,
            "validation": validated.own.metrics,
        }
        checkpoints = self._out / CHECKPOINTS
        checkpoint.save(checkpoints / f"step-{validated.step:09d}", agent, about=about)
        kept = sorted(each for each in checkpoints.iterdir() if re.fullmatch(r"step-\d+", each.name))
        for old in kept[:-CHECKPOINTS_KEPT]:
            shutil.rmtree(old)
        if validated.best:
            checkpoint.save(self._out / BEST, agent, about=about)


def row_of(score: Score) -> dict[str, float]:
    """Return a score as one flat row."""
    return (
        score.metrics
        | {f"ratio_to_{name}": each.ratio for name, each in score.against.items()}
        | {f"ratio_on_{name}": ratio for name, ratio in score.by_workload.items()}
    )


def pace(times: Sequence[tuple[float, Validated]], start: str) -> str:
    """Return speed and kept validation of a training run, or of its part since it was resumed, as a sentence.

    times: validations, each with its time, s. The first was before training, unless the run was resumed.
    start: name of the reference policy.
    """
    (began, first), (ended, last) = times[0], times[-1]
    resumed = first.step > 0
    found = (
        "no better checkpoint since the run was resumed"
        if resumed
        else "no validation better than before training"
    )
    for at, kept in reversed(times if resumed else times[1:]):
        if kept.best:
            found = f"kept checkpoint {kept.own.ratio:.3f} after {(at - began) / 60:.1f} min ({kept.step:,} steps)"
            lowest = min((each for _, each in times), key=lambda each: each.own.ratio)
            if lowest.own.ratio < kept.own.ratio:
                found += f", not worse by its interval than the lowest, {lowest.own.ratio:.3f} ({lowest.step:,} steps)"
            break
    if ended > began:
        found += f"; {(last.step - first.step) / (ended - began):,.0f} steps per second, validations included"
    return f"Mean JCT / {start}: {found}."


def passed(times: Sequence[tuple[float, Validated]]) -> str:
    """Return when the agent was first better than each policy on the validation windows, as a sentence.

    times: validations, each with its time, s. The first was before training, unless the run was resumed.
    """
    began, first = times[0]
    when = {
        name: min((at for at, each in times if each.own.against[name].ratio < 1), default=math.inf) - began
        for name in first.own.against
        if name != START
    }
    in_order = sorted(when, key=lambda name: when[name])
    early = "at the first validation after it was resumed" if first.step else "before training"
    beaten = [
        f"{name} ({f'{when[name] / 60:.1f} min' if when[name] else early})"
        for name in in_order
        if when[name] < math.inf
    ]
    never = [name for name in in_order if when[name] == math.inf]
    parts = [f"better than {', '.join(beaten)}"] if beaten else []
    parts += [f"never better than {', '.join(never)}"] if never else []
    return f"Mean of validation windows' ratios (time of the first such validation): {'; '.join(parts)}."


# TensorBoard: the choices of a run, charts, and schedules as images.

CHARTS = {
    "validation": {
        "mean JCT relative to the reference policy": ["Multiline", ["jct/(agent|start|constants)"]],
        "the same, with heuristics": ["Multiline", ["jct/.*"]],
    }
}
DPI = 200  # a column of a paper, 3.33 inches wide, as 666 pixels
AGENT = "agent"
MAX_BARS = 60_000  # more than a validation window has


@contextmanager
def logged(out: Path, trackers: Sequence[KVWriter]) -> Iterator[Logger]:
    """Open a logger for TensorBoard and trackers, and close it at the end.

    TensorBoard writes in a thread. On a full disk its error is raised here, by the next record, so that the thread
    prints no traceback of its own.
    """
    usual, full = threading.excepthook, False

    def excepthook(failed: threading.ExceptHookArgs) -> None:
        if not (isinstance(failed.exc_value, OSError) and failed.exc_value.errno in FULL):
            usual(failed)

    threading.excepthook = excepthook
    try:
        logger = configure(str(out), ["tensorboard"])
        logger.output_formats += trackers
        yield logger
        logger.close()
    except OSError as error:
        full = error.errno in FULL
        raise
    finally:
        if not full:  # else the thread may fail after this
            threading.excepthook = usual


def describe_run(logger: Logger, learner: Learner) -> None:
    """Write the choices of a run as text and as hyper-parameters, and the commit of the code."""
    for writer in writers(logger):
        writer.add_text("choices", f"```json\n{json.dumps(choices_of(learner), indent=2)}\n```")
        writer.add_text("commit", commit() or "outside a git checkout")
    numbers = {
        name: value
        for name, value in asdict(learner.training).items()
        if isinstance(value, int | float | str)
    }
    logger.record(
        "hparams", HParam(numbers, {"jct/agent": 0.0, "jct/agent_sampled": 0.0}), exclude=("stdout", "csv")
    )


def choices_of(learner: Learner) -> dict[str, dict[str, Any]]:
    """Return the choices of a run, by group."""
    return {"training": asdict(learner.training), "scenario": asdict(learner.scenario)}


def lay_out_charts(logger: Logger) -> None:
    """Define a chart with the agent, its start and the constants, and one with the heuristics in addition."""
    for writer in writers(logger):
        writer.add_custom_scalars(CHARTS)


def show_image(logger: Logger, name: str, draw: Callable[[], np.ndarray | None]) -> None:
    """Record an image (height, width, 3), if there is one; it is drawn only where TensorBoard is written."""
    if writers(logger) and (image := draw()) is not None:
        logger.record(name, Image(image, "HWC"), exclude=("stdout", "log", "json", "csv"))


def writers(logger: Logger) -> list[SummaryWriter]:
    """Return the writers of TensorBoard."""
    return [each.writer for each in logger.output_formats if isinstance(each, TensorBoardOutputFormat)]


class Schedules:
    """Schedules of the agent and its start in the first validation window of the scenario, as images."""

    def __init__(self, learner: Learner) -> None:
        """Take the learner; nothing is simulated before an image is requested."""
        self._learner = learner

    @cached_property
    def _start(self) -> Record:
        return self._recorded(self._learner.start)

    def image(self, agent: Agent) -> np.ndarray | None:
        """Return a Gantt chart, uint8 (height, width, 3), of an agent's schedule; None where jobs never end."""
        try:
            own = self._recorded(policy_of(agent))
        except StalledEpisodeError:
            return None
        run = run_tables.from_records({AGENT: own, START: self._start}, self._workload)
        with style(IN_PRINT):
            return pixels(figures.gantt(run, "column", max_bars=MAX_BARS), DPI)

    @cached_property
    def _workload(self) -> Workload:
        learner = self._learner
        return shared_windows(learner.scenario, "validation", learner.training.validation_windows)[0]

    def _recorded(self, policy: Policy) -> Record:
        return record.record_window(partial(baselines.make, policy), self._workload)


# Experiment trackers: Weights & Biases or MLflow, where installed.

Tracker = Literal["wandb", "mlflow"]
Choices = Mapping[str, Mapping[str, Any]]
"""By group and name."""
Log = Callable[[dict[str, float], dict[str, np.ndarray], int], None]
"""Takes numbers by name, images (height, width, 3) by name, and the step."""
PROJECT = "gpu-cluster-gym"
MAX_PARAMS = 100  # that MLflow takes at a time


@contextmanager
def tracked(tracker: Tracker | None, folder: Path, choices: Choices) -> Iterator[list[KVWriter]]:
    """Open a run of a tracker, if any; yield its writers for a logger, and close the run at the end.

    folder: of the run, whose name the tracker's run has.
    Raise ValueError where the tracker cannot open it.
    """
    if tracker is None:
        yield []
        return
    with {"wandb": _wandb, "mlflow": _mlflow}[tracker](folder, choices) as log:
        yield [Writer(log)]


class Writer(KVWriter):
    """Passes the numbers and images that Stable-Baselines3 logs to a tracker."""

    def __init__(self, log: Log) -> None:
        """Take the function that is called at each step."""
        self._log = log

    def write(
        self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0
    ) -> None:
        """Pass on the records up to a step."""
        numbers = {
            name: float(value)
            for name, value in key_values.items()
            if isinstance(value, int | float | np.number)
        }
        images = {
            name: np.asarray(value.image) for name, value in key_values.items() if isinstance(value, Image)
        }
        self._log(numbers, images, step)

    def close(self) -> None:
        """Do nothing: `tracked` closes the run."""


@contextmanager
def _wandb(folder: Path, choices: Choices) -> Iterator[Log]:
    """Open a run of Weights & Biases, offline in the folder unless WANDB_MODE says otherwise."""
    import wandb

    mode = os.environ.get("WANDB_MODE", "offline")
    try:
        opened = wandb.init(project=PROJECT, name=folder.name, dir=str(folder), config=choices, mode=mode)
    except wandb.Error as error:
        raise ValueError(f"--track wandb: {error}") from error
    with opened as run:

        def log(numbers: dict[str, float], images: dict[str, np.ndarray], step: int) -> None:
            run.log(numbers | {name: wandb.Image(image) for name, image in images.items()}, step=step)

        yield log


@contextmanager
def _mlflow(folder: Path, choices: Choices) -> Iterator[Log]:
    """Open a run of MLflow, at MLFLOW_TRACKING_URI or its default, with the choices as params."""
    import mlflow

    def log(numbers: dict[str, float], images: dict[str, np.ndarray], step: int) -> None:
        mlflow.log_metrics(numbers, step=step)
        for name, image in images.items():
            mlflow.log_image(image, key=name, step=step)

    try:
        mlflow.set_experiment(PROJECT)
        opened = mlflow.start_run(run_name=folder.name)
    except mlflow.MlflowException as error:
        raise ValueError(f"--track mlflow: {error}") from error
    with opened:
        params = [(f"{group}.{name}", value) for group, own in choices.items() for name, value in own.items()]
        for first in range(0, len(params), MAX_PARAMS):
            mlflow.log_params(dict(params[first : first + MAX_PARAMS]))
        yield log
