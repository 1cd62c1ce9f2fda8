"""Scores: policies simulated on the same workloads, their numbers side by side, and what to know of them."""

import math
import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

import pandas as pd

from gpu_cluster_gym.evaluation import results
from gpu_cluster_gym.evaluation.comparison import compare, paired_ratios
from gpu_cluster_gym.evaluation.lower_bound import gap_closed, lower_bound
from gpu_cluster_gym.evaluation.metrics import NUMBERS
from gpu_cluster_gym.evaluation.metrics import shown as shown_numbers
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Policy

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

    from gpu_cluster_gym.workloads import Workload

Maker = Callable[[], Policy]
"""Makes a policy anew for each episode."""

Outcome = TypeVar("Outcome")

BOUND = "lower bound"
ROUNDING = 1e-9  # of mean JCTs, as a share
LONGEST_HEADING, LEAST_NAME, LONGEST_NAME = 14, 16, 25  # characters
PLAIN_WIDTH, WIDEST = 100, 120  # characters of a line where nothing says how many, and on a terminal at most
GOOD, BAD = "green", "red"
INTERVAL = "95 %\ninterval"


def simulate(
    makers: Mapping[str, Maker],
    workloads: Sequence["Workload"],
    *,
    processes: int = 1,
    done: Callable[[str, pd.DataFrame], None] | None = None,
) -> dict[str, pd.DataFrame]:
    """Return every policy's results table over all workloads; see `episodes`."""
    parts = episodes(one, makers, workloads, processes=processes, done=done)
    return {name: pd.concat(tables, ignore_index=True) for name, tables in parts.items()}


def episodes(
    simulated: Callable[..., Outcome],
    makers: Mapping[str, Maker],
    workloads: Sequence["Workload"],
    *,
    processes: int = 1,
    done: Callable[[str, Outcome], None] | None = None,
) -> dict[str, list[Outcome]]:
    """Return what came of every policy on each workload, the same whatever the number of processes.

    simulated: makes it of a maker, a workload and `oracle`, as `one` does. All policies run on the first workload
    before any runs on the second; `done` is told of each as it ends. ValueError for windows of more than one split,
    since a table tells them apart by their numbers alone.
    """
    if len(splits := {load.window.split for load in workloads}) > 1:
        raise ValueError(f"windows of {' and '.join(sorted(splits))} in one table: expected one split")
    found: dict[str, list[Outcome]] = {name: [] for name in makers}
    pairs = [(name, workload) for workload in workloads for name in makers]
    tasks = [partial(simulated, makers[name], workload, oracle=is_oracle(name)) for name, workload in pairs]
    for (name, _), each in zip(pairs, _each(tasks, processes), strict=True):
        found[name].append(each)
        if done:
            done(name, each)
    return found


def is_oracle(name: str) -> bool:
    """Tell whether a policy of this name may be told the truth."""
    return name.endswith("_oracle")


def one(make: Maker, workload: "Workload", *, oracle: bool = False) -> pd.DataFrame:
    """Return the results table of a new policy on a workload; oracle: whether it may be told the truth."""
    return workload.results(run(make(), workload.episode(), oracle=oracle))


def _each(tasks: Sequence[Callable[[], Outcome]], processes: int) -> Iterator[Outcome]:
    if processes == 1:
        yield from (task() for task in tasks)
        return
    from joblib import Parallel, delayed

    with warnings.catch_warnings():
        # a worker that has compiled the simulator, or loaded Torch, is larger than at first: it is replaced
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
        yield from Parallel(processes, return_as="generator", batch_size=1)(delayed(task)() for task in tasks)


def score(
    tables: Mapping[str, pd.DataFrame], workloads: Sequence["Workload"], least: pd.DataFrame | None = None
) -> dict[str, pd.DataFrame]:
    """Return each policy's summary, one row a window; with fairness where the trace tells the owners of jobs.

    least: the bounds, if they are known. RuntimeError where a mean JCT is below its bound, which cannot be.
    """
    machines = workloads[0].cluster
    known = [name for name in ("user", "vc") if all(name in load.table for load in workloads)]
    owned = [load.table[["job_id", *known]].assign(window=load.window.number) for load in workloads]
    owners = pd.concat(owned) if known else None
    summaries = {
        name: results.summarise(table, gpus=machines.num_gpus, cores=sum(machines.node_cores), owners=owners)
        for name, table in tables.items()
    }
    refuse_impossible(summaries, bounds(workloads) if least is None else least)
    return summaries


def bounds(workloads: Sequence["Workload"]) -> pd.DataFrame:
    """Return, like a summary, the `mean_jct_s` that no schedule of a window can beat."""
    return pd.DataFrame(
        {
            "window": [load.window.number for load in workloads],
            "seed": [load.scenario.seed for load in workloads],
            "mean_jct_s": [lower_bound(load.episode()) for load in workloads],
        }
    )


def refuse_impossible(summaries: Mapping[str, pd.DataFrame], bounds: pd.DataFrame) -> None:
    """Raise RuntimeError where a mean JCT is below what no schedule can beat."""
    for name, summary in summaries.items():
        both = summary.merge(bounds, on=["window", "seed"], suffixes=("", "_least"), validate="one_to_one")
        wrong = both[both["mean_jct_s"] < both["mean_jct_s_least"] * (1 - ROUNDING)]
        if len(wrong):
            window, jct_s, least_s = wrong[["window", "mean_jct_s", "mean_jct_s_least"]].iloc[0]
            raise RuntimeError(
                f"{name} has a mean JCT of {jct_s:g} s in window {window:.0f}, and no schedule has one below "
                f"{least_s:g} s: something has changed the simulation behind its back"
            )


def document(summaries: Mapping[str, pd.DataFrame], bounds: pd.DataFrame, reference: str) -> dict[str, Any]:
    """Return every number as plain JSON: means over windows, ratios to the reference, and window by window."""
    return {
        "reference": reference,
        "lower_bound_mean_jct_s": float(results.pool(bounds)["mean_jct_s"]),
        f"gap_closed_from_{reference}": gaps_closed(summaries, bounds, reference),
        "mean_over_windows": {name: results.pool(each).to_dict() for name, each in summaries.items()},
        f"mean_jct_s / {reference}'s": {
            name: compare(each, summaries[reference])._asdict() for name, each in summaries.items()
        },
        "by_window": {name: each.to_dict("records") for name, each in summaries.items()},
    }


def gaps_closed(
    summaries: Mapping[str, pd.DataFrame], bounds: pd.DataFrame, reference: str
) -> dict[str, float]:
    """Return the share of the gap between the reference and the bound that each closes; {} where there is no gap.

    By the ratios to the reference's mean JCT, averaged over windows, as in the table.
    """
    ratios = {
        name: float(paired_ratios([each], [summaries[reference]]).mean())
        for name, each in (*summaries.items(), (BOUND, bounds))
    }
    if (least := ratios.pop(BOUND)) >= 1 - ROUNDING:
        return {}
    return {name: gap_closed(1.0, ratio, least) for name, ratio in ratios.items()}


def table(summaries: Mapping[str, pd.DataFrame], bounds: pd.DataFrame, reference: str) -> "SideBySide":
    """Return the policies side by side in the order given; below a rule the oracles and the lower bound.

    The ratio of mean JCT to the reference's is paired by window; a lone policy has none.
    """
    numbers = numbers_shown(summaries)
    ordered = [name for oracle in (False, True) for name in summaries if is_oracle(name) == oracle]
    pooled = [results.pool(summaries[name]) for name in ordered]
    cells = [number_texts(numbers_of, numbers) for numbers_of in (*pooled, results.pool(bounds))]
    honest = sum(not is_oracle(name) for name in ordered)
    columns = []
    for at, (name, (heading, _)) in enumerate(numbers.items()):
        texts = [row[at] for row in cells]
        columns.append(Column(heading, texts, best_of(name, pooled[:honest], texts)))
    if len(summaries) > 1:
        columns[1:1] = ratio_columns(
            [summaries[name] for name in ordered], bounds, ordered.index(reference), reference
        )
    return SideBySide([Column("policy", (*ordered, BOUND))], columns, above=honest)


def ratio_columns(
    summaries: Sequence[pd.DataFrame], bounds: pd.DataFrame, itself: int, reference: str
) -> "list[Column]":
    """Return the ratio of mean JCT to the reference's and, where there are several windows, its interval."""
    whose = f"{reference}'s" if len(reference) <= LONGEST_HEADING else "reference"  # the footnotes name it
    found = [compare(each, summaries[itself]) for each in (*summaries, bounds)]
    ratio = Column(f"JCT /\n{whose}", [f"{each.ratio:.3f}" for each in found])
    if found[0].windows == 1:
        return [ratio]
    shown = ["" if at == itself else f"{each.low:.3f}-{each.high:.3f}" for at, each in enumerate(found)]
    styles = [GOOD if each.high < 1 else BAD if each.low > 1 else "" for each in found[:-1]] + [""]
    return [ratio._replace(styles=styles), Column(INTERVAL, shown, styles=styles)]


class Column(NamedTuple):
    """A column of a table: its heading, a text a row, the rows that are best, and how each is shown on a terminal."""

    heading: str
    cells: Sequence[str]
    best: Collection[int] = ()
    styles: Sequence[str] = ()

    @property
    def width(self) -> int:
        """How many characters it takes, the space beside it included."""
        return 1 + max(len(line) for text in (self.heading, *self.cells) for line in text.split("\n"))

    def shown(self, row: int) -> "Text":
        """Return a cell, the best in bold."""
        from rich.text import Text

        style = self.styles[row] if self.styles else ""
        return Text(self.cells[row], f"{style} bold" if row in self.best else style)


class SideBySide(NamedTuple):
    """Figures in columns behind words; columns that a line has no room for stand below, behind the words again."""

    words: Sequence[Column]
    columns: Sequence[Column]
    above: int = 0
    """Rows above a rule; 0 for no rule."""
    title: str = ""

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[RenderableType]":
        """Yield a table for as many columns as a line has room for, and so on."""
        all_of = sum(each.width for each in self.columns)
        spare = (options.max_width - all_of) // len(self.words)
        longest = spare if spare >= LEAST_NAME else LONGEST_NAME
        left, room = (
            list(self.columns),
            options.max_width - sum(min(longest, each.width) for each in self.words),
        )
        if self.title:
            yield self.title
        while left:
            fitting = [at for at, end in enumerate(accumulate(each.width for each in left), 1) if end <= room]
            count = max(fitting, default=1)
            if count > 1 and left[count:] and left[count].heading == INTERVAL:
                count -= 1  # it stays beside what it is of
            yield self.part(left[:count], longest)
            if left := left[count:]:
                yield ""

    def part(self, columns: Sequence[Column], longest: int) -> "Table":
        """Return the table of some of the columns; words are folded that are longer than so many characters."""
        from rich import box
        from rich.table import Table

        shown = Table(box=box.HORIZONTALS, padding=0, show_edge=False)
        for each in self.words:
            width = min(longest, each.width) - 1
            shown.add_column(each.heading, overflow="fold", vertical="bottom", width=width)
        for each in columns:
            shown.add_column(each.heading, justify="right", no_wrap=True, vertical="bottom")
        for row in range(len(columns[0].cells)):
            cells = (each.shown(row) for each in (*self.words, *columns))
            shown.add_row(*cells, end_section=row == self.above - 1)
        return shown


def best_of(name: str, pooled: Sequence[pd.Series], shown: Sequence[str]) -> list[int]:
    """Return the rows in which a number, as it is shown, is best; none where no number is, or all look alike."""
    goal = NUMBERS[name].best
    known = {at: float(row[name]) for at, row in enumerate(pooled) if not math.isnan(row.get(name, math.nan))}
    if not goal or len({shown[at] for at in known}) < 2:
        return []
    best = (min if goal == "low" else max)(known, key=lambda at: known[at])
    return [at for at in known if shown[at] == shown[best]]


def numbers_shown(summaries: Mapping[str, pd.DataFrame]) -> dict[str, tuple[str, str]]:
    """Return the numbers of a table of these policies, each with its heading and how it is written."""
    shared = shares_gpus(summaries)
    return {
        name: (f"{number.heading},\nsummed" if shared and number.summed else number.heading, number.form)
        for name, number in shown_numbers(summaries)
    }


def shares_gpus(summaries: Mapping[str, pd.DataFrame]) -> bool:
    """Tell whether jobs share GPUs under some policy, so that the GPU shares are sums over jobs."""
    return any(each["shared_gpu_hours"].any() for each in summaries.values())


def number_texts(numbers: pd.Series, shown: Mapping[str, tuple[str, str]]) -> list[str]:
    """Return the numbers of the table as they are printed; empty where one is not known."""
    return [_text(numbers[name], form) if name in numbers else "" for name, (_, form) in shown.items()]


def _text(value: float, form: str) -> str:
    match form:
        case "seconds":
            return f"{value:,.0f}" if value >= 1000 else f"{value:,.1f}"
        case "count":
            return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:,.1f}"
        case "share":
            return f"{100 * value:.1f} %"
        case _:
            return f"{value:,.2f}"


def columns_said() -> int | None:
    """Return how many characters a line has by the variable COLUMNS; None where it says nothing."""
    said = os.environ.get("COLUMNS", "")
    return int(said) if said.isdigit() and int(said) > 0 else None


def console(file: IO[str], plain_width: int = PLAIN_WIDTH) -> "Console":
    """Return what prints tables and lines to a file: plain where it is no terminal.

    There a line has as many characters as COLUMNS says, or else `plain_width`.
    """
    from rich.console import Console

    width = min(Console(file=file).width, WIDEST) if file.isatty() else columns_said() or plain_width
    return Console(file=file, width=width, markup=False, emoji=False, highlight=False)
