"""What is declared of a column of the job table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MAX_SERVERS = 10  # of a job, as in the simulator

LIMITS = {
    "s": 1e11,
    "ms": 1e9,
    "GiB": 1e6,
    "GPUs": 1e6,
    "cores": 1e6,
    "share": 1.0,
    "GB/s": 1e6,
    "core-s": 1e9,
    "GB": 1e6,
    "workers": 1e6,
    "servers": MAX_SERVERS,
    "times": 1e6,
}
"""The largest value of each unit."""

_WORDS = {
    "s": "a number of seconds",
    "ms": "a number of milliseconds",
    "GiB": "a number of GiB",
    "GPUs": "a whole number of GPUs",
    "cores": "a whole number of cores",
    "share": "a share",
    "GB/s": "a number of GB/s",
    "core-s": "a number of core-seconds",
    "GB": "a number of GB",
    "workers": "a whole number of workers",
    "servers": "a whole number of parameter servers",
    "times": "a ratio",
}


@dataclass(frozen=True)
class Column:
    """One column of the job table.

    least: the smallest value, itself excluded if `above`. filled: how it is drawn where a trace lacks it; empty for a
    column that cannot be drawn. parts: the parts of physics for which it matters. asked_by: the choice of a scenario
    that has it drawn, and without which it holds nothing.
    simulated: whether the simulator has a field of this name for each job; with none of its parts on, that field holds
    `neutral` (a number, or the name of a column above), unless it is read `always`. gpus_only: 0 for a CPU job.
    estimate_of: the column that it equals where estimates are off. shown: whether policies see it.
    in_results: whether it stands in the results table too.
    """

    name: str
    dtype: type
    unit: str
    meaning: str
    required: bool = False
    least: float = 0.0
    above: bool = False
    choices: tuple[str, ...] = ()
    expects: str = ""
    filled: str = ""
    parts: tuple[str, ...] = ()
    asked_by: str = ""
    simulated: bool = False
    always: bool = False
    neutral: float | str = 0.0
    gpus_only: bool = False
    estimate_of: str = ""
    shown: bool = False
    in_results: bool = False

    def expected(self, number: float = 0.0) -> str:
        """Say what a cell must hold, for an error about `number`."""
        if self.expects or self.choices:
            return self.expects or " or ".join(self.choices)
        if self.dtype is str:
            return "printable text, not blank"
        limit = LIMITS[self.unit]
        if number > limit or self.unit == "share":
            return f"{_WORDS[self.unit]} from {self.least:g} to {limit:,.0f}"
        if self.least == -np.inf:
            return _WORDS[self.unit]
        return f"{_WORDS[self.unit]} {'>' if self.above else '>='} {self.least:g}"
