"""Physics and generator as they were before they were compared with measurements (version 1), for checking alone.

`as_before(scenario)` takes off what physics has gained since, by choices that everybody has: parts are not named, and
numbers are what they were without a name, as older run folders are read. `install()` draws Philly's jobs with the
parameters of then, in this process; the lists of accepted windows are of today's, so windows are accepted by
simulation. `UNION` is that policy with the weights of then. What was simulated with version 1 must then come out again
to the last digit; see `per_window.py`.
"""

from dataclasses import replace

from gpu_cluster_gym.agents.checkpoint import FORMER_START
from gpu_cluster_gym.simulator.kernel.cluster.parameters import CONTENTION, CONTENTION_OF_EXCESS
from gpu_cluster_gym.simulator.old_names import BEFORE
from gpu_cluster_gym.traces import _philly_parameters
from gpu_cluster_gym.workloads import Scenario, _windows

SINCE = frozenset({"startup", "links", "exchange", "profiles"})  # parts of physics

UNION = FORMER_START


def as_before(scenario: Scenario) -> Scenario:
    """Return the same workload under the physics of version 1."""
    contention = CONTENTION_OF_EXCESS if scenario.contention == CONTENTION else scenario.contention
    parts = ",".join(sorted(scenario.parts - SINCE)) or "none"
    return replace(scenario, **BEFORE | {"physics": parts, "contention": contention})


def install() -> None:
    """Draw jobs in this process as they were drawn with version 1, and accept windows by simulation."""
    _philly_parameters.in_force = _philly_parameters.FORMER
    _windows.kept_list = lambda scenario, split: {}
