"""What an agent is paid: a module for each kind, with one function `reward(before, action, after, rollout)`.

`before` and `after` are moments of the episode; `action` is the number chosen; `rollout()` returns by how many
job-seconds, discounted in time, the action beats the base policy's own choice. Rewards are divided by the window's
scale. For a batch of environments each number is an array over them, and so is the reward.
"""

from typing import NamedTuple

import numpy as np

Number = float | np.ndarray


class Moment(NamedTuple):
    """A moment of an episode."""

    now: Number
    """s"""
    job_seconds: Number
    """Integral of the number of jobs present since the start."""
