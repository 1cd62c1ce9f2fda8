"""The agent's schedule as an image: which job is on which GPU in its first validation window, above its start's."""

from functools import cached_property, partial

import numpy as np

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents.checkpoint import Agent
from gpu_cluster_gym.agents.learned import policy_of
from gpu_cluster_gym.agents.learner import Learner
from gpu_cluster_gym.agents.validation import START
from gpu_cluster_gym.envs.windows import shared_windows
from gpu_cluster_gym.evaluation import record
from gpu_cluster_gym.evaluation.plot import figures, frames
from gpu_cluster_gym.evaluation.plot.style import IN_PRINT, pixels, style
from gpu_cluster_gym.evaluation.record import Record
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.workloads import Workload

DPI = 200  # a column of a paper, 3.33 inches wide, as 666 pixels
AGENT = "agent"
MOST_BARS = 60_000  # more than such a window has: they run into one another rather than become something else


class Schedules:
    """What an agent, and its start, do in the first validation window of the scenario, as images."""

    def __init__(self, learner: Learner) -> None:
        """Take what is learned; nothing is simulated before an image is asked for."""
        self._learner = learner

    @cached_property
    def _start(self) -> Record:
        return self._recorded(self._learner.start)

    def image(self, agent: Agent) -> np.ndarray | None:
        """Return an image, uint8 (height, width, 3), of what an agent does; None where jobs would never end."""
        try:
            own = self._recorded(policy_of(agent))
        except RuntimeError:
            return None
        run = frames.of_records({AGENT: own, START: self._start}, self._workload)
        with style(IN_PRINT):
            return pixels(figures.gantt(run, "column", most=MOST_BARS), DPI)

    @cached_property
    def _workload(self) -> Workload:
        learner = self._learner
        return shared_windows(learner.scenario, "validation", learner.training.validation_windows)[0]

    def _recorded(self, policy: Policy) -> Record:
        return record.one(partial(baselines.make, policy), self._workload)
