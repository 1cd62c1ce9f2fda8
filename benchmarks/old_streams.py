"""The streams of `GPUCluster-v0`, for checking alone: each name mapped back to the seed that was drawn from then.

`install()` puts them in the place of `traces._streams.entropy`, in this process. What was simulated with version 0 must
then come out again to the last digit, so that whatever else has changed since is seen; see `per_window.py`. Philly's
generator had other parameters then: they are put in force too. The lists of accepted windows are of today's jobs: they
are left out of use, and windows are accepted by simulation.
"""

from typing import Any, SupportsIndex

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.layout import MODULUS, MULTIPLIER
from gpu_cluster_gym.traces import _philly_parameters, _streams
from gpu_cluster_gym.workloads import _windows

SEEDS_A_SCENARIO = 100_000_000
FIRST = {"train": 0, "validation": 10_000_000, "test": 20_000_000, "whole": 30_000_000}
WARM_UP = pow(MULTIPLIER, 5, MODULUS)
PLACES = {  # in traces.COLUMNS, of the columns that draw
    "model": 5,
    "gpu_memory_gib": 6,
    "profiled_duration_s": 12,
    "pause_s": 17,
    "predictable_from": 19,
    "predicted_duration_s": 28,
    "crash_at": 29,
}
READINGS = {"busy_s": 0, "drawn_gbs": 1, "profile": 2}


class Told(np.random.Generator):
    """A generator whose whole numbers are told."""

    def __init__(self, told: Any) -> None:
        """Draw nothing but what is told, or what that makes of 0, 1, 2, where several are asked for."""
        super().__init__(np.random.PCG64(0))
        self._told = told

    def integers(self, low: int, high: int | None = None, size: int | None = None) -> Any:  # type: ignore[override]
        """Return what was told, or what it makes of so many numbers."""
        return self._told if size is None else self._told(np.arange(size))


def window(split: str, number: int) -> int:
    """Return the number that a window had; that of a whole trace was 0."""
    return 0 if split == "whole" else FIRST[split] + number


def entropy(seed: SupportsIndex, *names: str | SupportsIndex) -> Any:
    """Return what `numpy.random.default_rng` was given for the thing of this name."""
    seed, names = int(seed), tuple(name if isinstance(name, str) else int(name) for name in names)
    match names:
        case ("jobs", str(split), int(number)):
            return Told(SEEDS_A_SCENARIO * seed + FIRST[split] + number)
        case ("episode", str(split), int(number)):
            return Told(seed + window(split, number))
        case ("order of windows", str(split)):
            return [seed, FIRST[split]]
        case ("column", str(column)):
            return [seed, PLACES[column]]
        case ("philly",) | ("view",) | ("settings",):
            return seed
        case ("learning",):
            return Told(seed)
        case ("heavy tail", str(split), int(number)):
            return [seed, window(split, number)]
        case ("needs under a heavy tail", str(split), int(number)):
            return Told(window(split, number))
        case ("out of memory",):
            return Told((seed + 1) * WARM_UP % MODULUS or 1)
        case ("outages",):
            return Told(
                lambda node: ((seed + 7_919 * (node + 1) + 1) % (MODULUS - 1) + 1) * WARM_UP % MODULUS
            )
        case ("busy_s" | "drawn_gbs" as reading, int(instant)):
            return (seed, instant, READINGS[reading])
        case ("profile", int(job)):
            return (seed, job, READINGS["profile"])
        case (str(what),):
            return [seed, *what.encode()]
    raise ValueError(f"version 0 had no stream {names}")


def install() -> None:
    """Draw in this process as version 0 did, and take no window for accepted that was not simulated."""
    _streams.entropy = entropy
    _philly_parameters.in_force = _philly_parameters.FORMER
    _windows.kept_list = lambda scenario, split: {}
