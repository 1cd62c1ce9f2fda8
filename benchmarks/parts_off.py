"""The physics as it was before it was held against measurements (version 1), for checking alone.

`as_before(scenario)` takes off what has come since, by choices that everybody has: new parts are not named, new numbers
are set to what they were without a name. What was simulated with version 1 must then come out again to the last digit;
see `per_window.py`.
"""

from dataclasses import replace

from simulator.old_names import BEFORE
from workloads import Scenario

SINCE = frozenset({"startup", "links", "exchange", "profiles"})  # parts of physics


def as_before(scenario: Scenario) -> Scenario:
    """Return the same jobs and machines under the physics of version 1; as old run folders are read."""
    return replace(scenario, physics=",".join(sorted(scenario.parts - SINCE)) or "none", **BEFORE)
