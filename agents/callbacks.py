"""What happens beside learning: curves for TensorBoard, validation, the best agent kept, checkpoints."""

import csv
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.charts import describe_run, lay_out_charts, show_image
from gpu_cluster_gym.agents.checkpoint import Agent
from gpu_cluster_gym.agents.gantt import Schedules
from gpu_cluster_gym.agents.learner import Learner
from gpu_cluster_gym.agents.search import SearchFirst
from gpu_cluster_gym.agents.student import Student
from gpu_cluster_gym.agents.validation import Score, Validation
from gpu_cluster_gym.evaluation.run_folder import BEST

CHECKPOINTS_KEPT = 3
CHECKPOINTS, CURVE = "checkpoints", "validation.csv"


class Validated(NamedTuple):
    """A validation: after so many steps, by the most likely actions and by sampled ones."""

    step: int
    greedy: Score
    sampled: Score
    best: bool
    """Whether its greedy ratio to its start is the lowest so far."""


class Curves(BaseCallback):
    """Log what Stable-Baselines3 does not, a mean over each rollout."""

    def __init__(self, learner: Learner) -> None:
        """Take what tells the numbers of a step."""
        super().__init__()
        self._learner = learner

    def _on_rollout_start(self) -> None:
        self._told: dict[str, list[float]] = defaultdict(list)

    def _on_step(self) -> bool:
        self._told["mean_reward"].append(float(np.mean(self.locals["rewards"])))
        for name, values in self._learner.told(self.locals["infos"]).items():
            self._told[name] += values
        return True

    def _on_rollout_end(self) -> None:
        for name, values in self._told.items():
            if values:
                self.logger.record(f"rollout/{name}", float(np.mean(values)))


class Ticker(BaseCallback):
    """Report every step, for a progress bar."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        """Take what is called with the number of steps."""
        super().__init__()
        self._tell = tell

    def _on_step(self) -> bool:
        self._tell(self.training_env.num_envs)
        return True


class Validator(BaseCallback):
    """Validate before the first step, every so many, and after the last; keep the best and the last agents."""

    def __init__(
        self, learner: Learner, validation: Validation, out: Path, tell: Callable[[Validated], None]
    ) -> None:
        """Take what is learned, the windows, the run's folder, and what is called after each validation."""
        super().__init__()
        self._learner, self._validation, self._out, self._tell = learner, validation, out, tell
        self._schedules = Schedules(learner)
        self._next = 0
        self._least = np.inf
        self._rows: list[dict[str, float]] = []

    def _on_training_start(self) -> None:
        describe_run(self.logger, self._learner)
        lay_out_charts(self.logger)
        self._validate()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        """Validate between two rollouts: after the last one's update."""
        if self.num_timesteps >= self._next:
            with torch.random.fork_rng():  # what is learned does not depend on how often it is validated
                self._validate()

    def _on_training_end(self) -> None:
        self._validate()

    def _validate(self) -> None:
        self._next = self.num_timesteps + self._learner.training.validate_every
        model = self.model
        assert isinstance(model, PPO)
        greedy = self._greedy(model)
        sampled = self._validation.score(model, sampled=True)
        validated = Validated(self.num_timesteps, greedy, sampled, greedy.ratio < self._least)
        self._least = min(self._least, greedy.ratio)
        if validated.best and isinstance(model, SearchFirst):
            model.keep()
        learner = self._learner
        agent = Agent(learner.network(model), learner.training, learner.scenario, learner.begun.rule)
        self._log(validated, agent)
        self._save(validated, agent)
        self._tell(validated)

    def _greedy(self, model: PPO) -> Score:
        """Let the agent play by its most likely actions; a student with several margins, of which the best is kept."""
        if not isinstance(model, Student):
            return self._validation.score(model, sampled=False)
        scores = {}
        for margin in model.margins:
            model.margin = margin
            scores[margin] = self._validation.score(model, sampled=False)
        model.margin = min(scores, key=lambda each: scores[each].ratio)
        return scores[model.margin]

    def _log(self, validated: Validated, agent: Agent) -> None:
        ratios = {"agent": validated.greedy.ratio, "agent_sampled": validated.sampled.ratio}
        lines = {f"jct/{name}": ratio for name, ratio in (ratios | self._validation.lines).items()}
        numbers = {
            f"validation_{how}/{name}": value
            for how, score in (("greedy", validated.greedy), ("sampled", validated.sampled))
            for name, value in row_of(score).items()
        }
        for name, value in (lines | numbers).items():
            self.logger.record(name, value)
        show_image(self.logger, "gantt", partial(self._schedules.image, agent))
        self.logger.dump(validated.step)
        row = {name.removeprefix("validation_").replace("/", "_"): value for name, value in numbers.items()}
        self._rows.append({"step": validated.step} | row)
        with (self._out / CURVE).open("w", newline="", encoding="utf-8") as out:
            rows = csv.DictWriter(out, list(dict.fromkeys(name for each in self._rows for name in each)))
            rows.writeheader()
            rows.writerows(self._rows)

    def _save(self, validated: Validated, agent: Agent) -> None:
        about = {
            "step": validated.step,
            "validation_ratio_to_start": validated.greedy.ratio,
            "validation": validated.greedy.numbers,
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
        score.numbers
        | {f"ratio_to_{name}": each.ratio for name, each in score.against.items()}
        | {f"ratio_on_{name}": ratio for name, ratio in score.on.items()}
    )


def pace(times: Sequence[tuple[float, Validated]], start: str) -> str:
    """Say how fast was learned, by validations, each with when it was, s. start: what they are compared with."""
    began, last = times[0][0], times[-1][1]
    minutes = {each.step: (at - began) / 60 for at, each in times}
    rate = last.step / max(60 * minutes[last.step], 1e-9)

    def when(ratio: float) -> str:
        step = next((each.step for _, each in times if each.greedy.ratio <= ratio), None)
        return "not reached" if step is None else f"after {minutes[step]:.1f} min ({step:,} steps)"

    least = min(each.greedy.ratio for _, each in times)
    best = (
        f"at best {least:.4f} {when(least)}"
        if least < times[0][1].greedy.ratio
        else "never better than at first"
    )
    return (
        f"Pace: {rate:,.0f} steps a second, validations included. Mean JCT / {start} on validation windows: "
        f"0.98 {when(0.98)}, 0.95 {when(0.95)}, {best}."
    )
