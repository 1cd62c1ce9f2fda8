"""Experiment of a paper: its settings, tables and figure, and its claims with verdicts.

A claim is compared with the paper's own number. It is reached if its whole 95 % interval over trials meets the paper's
number, not reached if no part of the interval does, and otherwise not sure.
"""

import json
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gpu_cluster_gym.evaluation import run_folder, table_notes
from gpu_cluster_gym.evaluation.comparison import Estimate
from gpu_cluster_gym.evaluation.plot.style import save, style
from gpu_cluster_gym.experiments import _output
from gpu_cluster_gym.experiments._trials import Outcome, Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpu_cluster_gym.evaluation.table import ResultTable

CLAIMS, TRIALS = "claims.json", "trials.csv"

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
    """One sentence about means over trials, and the paper's number that decides it.

    claim: the sentence, which must contain the words of `needs`. measured: mean and interval over trials.
    needs: how the measured value must compare with the paper's. paper: the paper's value.
    form: format of printed values.
    """

    claim: str
    measured: Estimate
    needs: Needs
    paper: float
    form: str = "{:.2f}"

    def __post_init__(self) -> None:
        """Refuse a sentence that does not state its direction."""
        if self.needs not in self.claim:
            raise ValueError(f"the claim {self.claim!r} does not say {self.needs!r}")

    @property
    def verdict(self) -> Verdict:
        """Whether the interval meets the paper's number: "not sure" where only one of its ends does."""
        if any(math.isnan(value) for value in self.measured):
            return "not sure"
        reaches = {_REACHES[self.needs](value, self.paper) for value in self.measured}
        if len(reaches) == 2:
            return "not sure"
        return "reached" if reaches.pop() else "not reached"

    def row(self) -> dict[str, str | float | None]:
        """Return the claim as a row of claims.json; None for an unknown value."""
        mean, low, high = (None if math.isnan(value) else value for value in self.measured)
        return {
            "claim": self.claim,
            "paper": self.paper,
            "measured": mean,
            "low": low,
            "high": high,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Paper:
    """The experiment of one paper.

    about: claim, workload, inferred details and departures from the paper, as paragraphs.
    trials: default number of trials.
    settings: function of the number of trials and the seed that returns what to simulate.
    tables, claims, remarks, figure: functions of the outcome; remarks are sentences on what it shows.
    """

    about: str
    trials: int
    settings: Callable[[int, int], list[Setting]]
    tables: Callable[[Outcome], list["ResultTable"]]
    claims: Callable[[Outcome], list[Claim]]
    remarks: Callable[[Outcome], list[str]]
    figure: Callable[[Outcome], "Figure"]

    def heading(self, settings: Sequence[Setting]) -> Iterator[str]:
        """Yield the paragraphs about the paper and the scenario of the first setting."""
        yield from (" ".join(part.split()) + "\n" for part in self.about.strip().split("\n\n"))
        yield from table_notes.heading(settings[0].workloads)
        yield table_notes.yardstick(settings[0].workloads[0].scenario)

    def report(self, outcome: Outcome) -> Iterator["str | ResultTable"]:
        """Yield tables, claims and remarks, in the order in which they are printed."""
        for table in (*self.tables(outcome), claims_table(self.claims(outcome))):
            yield from ("", table)
        yield ""
        yield (
            "A claim is compared with the paper's own number: reached if the whole 95 % interval (paired bootstrap "
            "over trials) meets it, not reached if none of it does, otherwise not sure."
        )
        if min(outcome.counts().values()) < table_notes.FULL_WINDOWS:
            few = f"fewer than {table_notes.FULL_WINDOWS} trials"
            yield f"With {few}, intervals are too narrow and verdicts overconfident."
        yield from self.remarks(outcome)

    def write(self, folder: Path, name: str, outcome: Outcome) -> list[Path]:
        """Write claims, summary, trials and figure into a run folder; return the figure's files."""
        rows = [claim.row() for claim in self.claims(outcome)]
        (folder / CLAIMS).write_text(json.dumps(rows, indent=2, allow_nan=False) + "\n", encoding="utf-8")
        numbers = {"paper": name, "trials": outcome.counts(), "means_over_trials": outcome.numbers()}
        run_folder.write_json(folder / run_folder.SUMMARY, numbers)
        outcome.table().to_csv(folder / TRIALS, index=False)
        with style():
            return save(self.figure(outcome), folder, name)


def claims_table(claims: Sequence[Claim]) -> "ResultTable":
    """Return claims with the paper's values, the measured ones and the verdicts."""
    headings = ("claim", "paper", "measured", "95 %\ninterval", "verdict")
    rows = [
        (
            each.claim,
            _output.number_text(each.paper, each.form),
            *_output.texts(each.measured, form=each.form),
            each.verdict,
        )
        for each in claims
    ]
    return _output.grid("Claims", headings, rows)
