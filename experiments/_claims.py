"""Claims: what a paper says, what was measured, and whether the one bears the other out.

A claim holds if the mean over trials reaches its floor, which is where we count it as reproduced; surely, if the
whole 95 % interval agrees. The paper's own figure is held against the mean alone.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from evaluation.comparison import Estimate

Needs = Literal["at least", "more than", "at most", "less than", "exactly"]

_REACHES: dict[str, Callable[[float, float], bool]] = {
    "at least": operator.ge,
    "more than": operator.gt,
    "at most": operator.le,
    "less than": operator.lt,
    "exactly": operator.eq,
}


@dataclass(frozen=True)
class Claim:
    """One sentence about means over trials, and the figures that decide it.

    claim: the sentence; it says in the words of `needs` to which side of the floor it points.
    floor, paper: what is asked for, and the paper's figure where it gives one. form: how figures are printed.
    """

    claim: str
    measured: Estimate
    needs: Needs
    floor: float
    paper: float | None = None
    form: str = "{:.2f}"

    def __post_init__(self) -> None:
        """Refuse a sentence that leaves its direction open."""
        if self.needs not in self.claim:
            raise ValueError(f"the claim {self.claim!r} does not say {self.needs!r}")

    @property
    def holds(self) -> bool:
        """Whether the mean reaches the floor."""
        return self._reaches(self.measured.mean, self.floor)

    @property
    def surely(self) -> bool:
        """Whether the interval, as far as there is one, lies on the same side of the floor as the mean."""
        limits = [limit for limit in self.measured[1:] if not math.isnan(limit)]
        return all(self._reaches(limit, self.floor) == self.holds for limit in limits)

    @property
    def reaches_headline(self) -> bool | None:
        """Whether the mean reaches the paper's figure; None if there is none."""
        return None if self.paper is None else self._reaches(self.measured.mean, self.paper)

    @property
    def verdict(self) -> str:
        """Say whether it holds, and if the interval leaves that open."""
        return ("yes" if self.holds else "no") + ("" if self.surely else ", not surely")

    def _reaches(self, figure: float, wanted: float) -> bool:
        return _REACHES[self.needs](figure, wanted)

    def row(self) -> dict[str, str | float | bool | None]:
        """Return the claim as it is saved; a limit that is not known is None."""
        mean, low, high = (None if math.isnan(figure) else figure for figure in self.measured)
        return {
            "claim": self.claim,
            "paper": self.paper,
            "floor": self.floor,
            "measured": mean,
            "low": low,
            "high": high,
            "holds": self.holds,
            "reaches_headline": self.reaches_headline,
        }
