"""A paper's experiment: what a module of this package defines, and how its outcome is told and kept."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_cluster_gym.evaluation import run_folder, table_notes
from gpu_cluster_gym.experiments import _figure, _tables
from gpu_cluster_gym.experiments._claims import Claim
from gpu_cluster_gym.experiments._trials import Found, Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpu_cluster_gym.evaluation.report import SideBySide

CLAIMS, TRIALS = "claims.json", "trials.csv"


@dataclass(frozen=True)
class Paper:
    """The experiment of one paper.

    about: the claim, the workload, what is inferred and where we depart from the paper. trials: how many, unless
    others are asked for. settings: makes what is simulated, given the number of trials and the seed. The others
    make of what was found: tables, claims, sentences on what to learn from it, and a figure.
    """

    about: str
    trials: int
    settings: Callable[[int, int], list[Setting]]
    tables: Callable[[Found], list["SideBySide"]]
    claims: Callable[[Found], list[Claim]]
    remarks: Callable[[Found], list[str]]
    figure: Callable[[Found], "Figure"]

    def heading(self, settings: Sequence[Setting]) -> Iterator[str]:
        """Say what the paper claims and what is simulated in the first setting."""
        yield from (" ".join(part.split()) + "\n" for part in self.about.strip().split("\n\n"))
        yield from table_notes.heading(settings[0].workloads)

    def report(self, found: Found) -> Iterator["str | SideBySide"]:
        """Yield tables, claims and remarks, in the order in which they are printed."""
        for table in (*self.tables(found), _tables.claims(self.claims(found))):
            yield from ("", table)
        yield ""
        yield (
            "A claim is compared with the paper's own figure: reached if the whole 95 % interval (paired bootstrap "
            "over trials) is, not reached if none of it is, else not sure."
        )
        if min(found.counts().values()) < table_notes.FULL_WINDOWS:
            few = f"fewer than {table_notes.FULL_WINDOWS} trials"
            yield f"Where there are {few}, intervals are too narrow, and verdicts too sure."
        yield from self.remarks(found)

    def write(self, folder: Path, name: str, found: Found) -> list[Path]:
        """Fill a run folder with claims, all numbers, every trial and the figure; return the figure's files."""
        rows = [claim.row() for claim in self.claims(found)]
        (folder / CLAIMS).write_text(json.dumps(rows, indent=2, allow_nan=False) + "\n", encoding="utf-8")
        numbers = {"paper": name, "trials": found.counts(), "means_over_trials": found.numbers()}
        run_folder.write_json(folder / run_folder.SUMMARY, numbers)
        found.table().to_csv(folder / TRIALS, index=False)
        with _figure.style():
            return _figure.save(self.figure(found), folder, name)
