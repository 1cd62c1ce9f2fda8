"""Claims: what a paper says, what was measured, and whether the one bears the other out.

A claim is compared with the paper's own figure and no other. It is reached if the whole 95 % interval over trials lies
where the paper says, not reached if none of it does, and else not sure.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gpu_cluster_gym.evaluation.comparison import Estimate

Needs = Literal["at least", "more than", "at most", "less than", "exactly"]
Verdict = Literal["reached", "not reached", "not sure"]

_REACHES: dict[str, Callable[[float, float], bool]] = {
    "at least": operator.ge,
    "more than": operator.gt,
    "at most": operator.le,
    "less than": operator.lt,
    "exactly": operator.eq,
}


@dataclass(frozen=True)
class Claim:
    """One sentence about means over trials, and the paper's figure that decides it.

    claim: the sentence; it says in the words of `needs` to which side of the figure it points. form: how figures are
    printed.
    """

    claim: str
    measured: Estimate
    needs: Needs
    paper: float
    form: str = "{:.2f}"

    def __post_init__(self) -> None:
        """Refuse a sentence that leaves its direction open."""
        if self.needs not in self.claim:
            raise ValueError(f"the claim {self.claim!r} does not say {self.needs!r}")

    @property
    def verdict(self) -> Verdict:
        """Whether the whole interval reaches the paper's figure, or none of it; not sure without an interval."""
        if any(math.isnan(figure) for figure in self.measured):
            return "not sure"
        reaches = {_REACHES[self.needs](figure, self.paper) for figure in self.measured}
        if len(reaches) == 2:
            return "not sure"
        return "reached" if reaches.pop() else "not reached"

    def row(self) -> dict[str, str | float | None]:
        """Return the claim as it is saved; a figure that is not known is None."""
        mean, low, high = (None if math.isnan(figure) else figure for figure in self.measured)
        return {
            "claim": self.claim,
            "paper": self.paper,
            "measured": mean,
            "low": low,
            "high": high,
            "verdict": self.verdict,
        }
