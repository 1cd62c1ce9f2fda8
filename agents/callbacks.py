"""What happens beside learning: curves for TensorBoard, validation, the best agent kept, checkpoints."""

import csv
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from agents import saved_agent
from agents.ppo import SlotPolicy
from agents.saved_agent import Agent
from agents.validation import Score, Validation

CHECKPOINTS_KEPT = 3
BEST, CHECKPOINTS, CURVE = "best", "checkpoints", "validation.csv"


class Validated(NamedTuple):
    """A validation: after so many steps, by the most likely actions and by sampled ones."""

    step: int
    greedy: Score
    sampled: Score
    best: bool
    """Whether its greedy ratio to the base policy is the lowest so far."""


class Curves(BaseCallback):
    """Log what Stable-Baselines3 does not: reward a step, agreement with the base policy, ratios of ended episodes."""

    def _on_rollout_start(self) -> None:
        self._rewards: list[float] = []
        self._agrees: list[bool] = []
        self._ratios: list[float] = []

    def _on_step(self) -> bool:
        self._rewards.append(float(np.mean(self.locals["rewards"])))
        infos = self.locals["infos"]
        self._agrees += [info["agrees"] for info in infos]
        self._ratios += [info["jct_ratio"] for info in infos if "jct_ratio" in info]
        return True

    def _on_rollout_end(self) -> None:
        self.logger.record("rollout/mean_reward", float(np.mean(self._rewards)))
        self.logger.record("rollout/agreement_with_base_policy", float(np.mean(self._agrees)))
        if self._ratios:
            self.logger.record("rollout/jct_ratio_to_base_policy", float(np.mean(self._ratios)))


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
        self, validation: Validation, agent: Agent, out: Path, tell: Callable[[Validated], None]
    ) -> None:
        """Take the windows, the choices to save, the run's folder, and what is called after each validation."""
        super().__init__()
        self._validation, self._agent, self._out, self._tell = validation, agent, out, tell
        self._next = 0
        self._least = np.inf

    def _on_training_start(self) -> None:
        self._validate()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        """Validate between two rollouts: after the last one's update."""
        if self.num_timesteps >= self._next:
            self._validate()

    def _on_training_end(self) -> None:
        self._validate()

    def _validate(self) -> None:
        self._next = self.num_timesteps + self._agent.training.validate_every
        policy = self.model.policy
        assert isinstance(policy, SlotPolicy)
        network = policy.network
        greedy = self._validation.score(network, sampled=False)
        sampled = self._validation.score(network, sampled=True)
        best = greedy.ratios["base_policy"] < self._least
        self._least = min(self._least, greedy.ratios["base_policy"])
        validated = Validated(self.num_timesteps, greedy, sampled, best)
        self._log(validated)
        self._save(validated)
        self._tell(validated)

    def _log(self, validated: Validated) -> None:
        numbers = {
            f"validation_{how}/{name}": value
            for how, score in (("greedy", validated.greedy), ("sampled", validated.sampled))
            for name, value in row_of(score).items()
        }
        for name, value in numbers.items():
            self.logger.record(name, value)
        self.logger.dump(validated.step)
        file = self._out / CURVE
        new = not file.exists()
        with file.open("a", newline="", encoding="utf-8") as lines:
            out = csv.writer(lines)
            if new:
                out.writerow(
                    ["step", *(name.removeprefix("validation_").replace("/", "_") for name in numbers)]
                )
            out.writerow([validated.step, *numbers.values()])

    def _save(self, validated: Validated) -> None:
        policy = self.model.policy
        assert isinstance(policy, SlotPolicy)
        agent = self._agent._replace(network=policy.network)
        about = {
            "step": validated.step,
            "validation_ratio_to_base_policy": validated.greedy.ratios["base_policy"],
        }
        checkpoints = self._out / CHECKPOINTS
        saved_agent.save(checkpoints / f"step-{validated.step:09d}", agent, about=about)
        kept = sorted(each for each in checkpoints.iterdir() if re.fullmatch(r"step-\d+", each.name))
        for old in kept[:-CHECKPOINTS_KEPT]:
            shutil.rmtree(old)
        if validated.best:
            saved_agent.save(self._out / BEST, agent, about=about)


def row_of(score: Score) -> dict[str, float]:
    """Return a score as one flat row."""
    ratios = {f"ratio_to_{name}": ratio for name, ratio in score.ratios.items()}
    return score.numbers | ratios | {"agreement_with_base_policy": score.agreement}
