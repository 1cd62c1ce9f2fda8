"""Comparison table of policies, and the console that prints it."""

import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import IO, TYPE_CHECKING, NamedTuple

import pandas as pd

from gpu_cluster_gym.evaluation.comparison import compare
from gpu_cluster_gym.evaluation.metrics import METRICS, in_table, pool
from gpu_cluster_gym.evaluation.runner import BOUND, is_oracle

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

MAX_HEADING = 14
"""Characters of a policy's name in a column heading; "reference" replaces a longer one."""
MIN_LABEL, MAX_LABEL = 16, 25
"""Minimum and maximum width of a label column; it is never narrower, even if one more number column would then fit."""
PLAIN_WIDTH, MAX_WIDTH = 100, 120
"""Characters of a line: the default of a file or pipe, and the maximum on a terminal."""
BETTER, WORSE = "green", "red"
INTERVAL = "95 %\ninterval"


class Column(NamedTuple):
    """A column of a table.

    heading: text, with line breaks. cells: one text per row. best: rows printed in bold.
    styles: a rich style per row, empty for none; an empty sequence for a plain column.
    """

    heading: str
    cells: Sequence[str]
    best: Collection[int] = ()
    styles: Sequence[str] = ()

    @property
    def width(self) -> int:
        """Number of characters, including the space to the next column."""
        return 1 + max(len(line) for text in (self.heading, *self.cells) for line in text.split("\n"))

    def styled(self, row: int) -> "Text":
        """Return a cell with its style."""
        from rich.text import Text

        style = self.styles[row] if self.styles else ""
        return Text(self.cells[row], f"{style} bold" if row in self.best else style)


class ResultTable(NamedTuple):
    """A table for rich that continues below, with its labels repeated, if a line has no space for all columns.

    labels: columns on the left, repeated in each part. columns: right-aligned numbers.
    rows_above: rows above the rule; 0 for no rule. title: line above the table, if any.
    """

    labels: Sequence[Column]
    columns: Sequence[Column]
    rows_above: int = 0
    title: str = ""

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[RenderableType]":
        """Yield the title and a table for each set of columns that fits the line."""
        total = sum(column.width for column in self.columns)
        # labels are folded as far as needed to fit all columns, but not below MIN_LABEL: then the table continues below
        spare = (options.max_width - total) // len(self.labels)
        max_label = spare if spare >= MIN_LABEL else MAX_LABEL
        available = options.max_width - sum(min(max_label, label.width) for label in self.labels)
        left = list(self.columns)
        if self.title:
            yield self.title
        while left:
            ends = accumulate(column.width for column in left)
            count = max((number for number, end in enumerate(ends, 1) if end <= available), default=1)
            if count > 1 and left[count:] and left[count].heading == INTERVAL:
                count -= 1  # an interval stays beside its ratio
            yield self._part(left[:count], max_label)
            if left := left[count:]:
                yield ""

    def _part(self, columns: Sequence[Column], max_label: int) -> "Table":
        """Return the table of some columns; labels longer than `max_label` characters are folded."""
        from rich import box
        from rich.table import Table

        part = Table(box=box.HORIZONTALS, padding=0, show_edge=False)
        for label in self.labels:
            width = min(max_label, label.width) - 1
            part.add_column(label.heading, overflow="fold", vertical="bottom", width=width)
        for column in columns:
            part.add_column(column.heading, justify="right", no_wrap=True, vertical="bottom")
        for row in range(len(columns[0].cells)):
            cells = (column.styled(row) for column in (*self.labels, *columns))
            part.add_row(*cells, end_section=row == self.rows_above - 1)
        return part


def table(
    summaries: Mapping[str, pd.DataFrame],
    bounds: pd.DataFrame,
    reference: str,
    *,
    wide: bool = False,
    intervals: Mapping[str, tuple[float, float]] | None = None,
) -> ResultTable:
    """Return a row per policy, in the order given; below a rule, the oracles and the lower bound.

    summaries: by policy, as `runner.score` returns them. bounds: as `runner.bounds` returns them.
    reference: the policy to whose mean JCT the ratios are taken; a single policy has no ratio column.
    wide: whether all metrics are shown.
    intervals: of the ratios in a full trace, by policy.
    """
    metrics = metrics_shown(summaries, wide=wide)
    ordered = [name for oracle in (False, True) for name in summaries if is_oracle(name) == oracle]
    means = [pool(summaries[name]) for name in ordered]
    cells = [metric_texts(row, metrics) for row in (*means, pool(bounds))]
    rows_above = sum(not is_oracle(name) for name in ordered)
    columns = []
    for place, (name, (heading, _)) in enumerate(metrics.items()):
        texts = [row[place] for row in cells]
        columns.append(Column(heading, texts, best_of(name, means[:rows_above], texts)))
    if len(summaries) > 1:
        columns[1:1] = ratio_columns(
            {name: summaries[name] for name in ordered}, bounds, reference, intervals or {}
        )
    return ResultTable([Column("policy", (*ordered, BOUND))], columns, rows_above)


def ratio_columns(
    summaries: Mapping[str, pd.DataFrame],
    bounds: pd.DataFrame,
    reference: str,
    intervals: Mapping[str, tuple[float, float]],
) -> list[Column]:
    """Return the column of mean JCT ratios to the reference and, where they are known, that of their intervals."""
    name = reference if len(reference) <= MAX_HEADING else "reference"  # the legend has the full name
    found = {
        name: compare(each, summaries[reference]) for name, each in (*summaries.items(), (BOUND, bounds))
    }
    ratio = Column(f"JCT /\n{name}", [f"{each.ratio:.3f}" for each in found.values()])
    limits = {name: intervals.get(name, (each.low, each.high)) for name, each in found.items()}
    if all(math.isnan(low) for low, _ in limits.values()):
        return [ratio]
    texts = [
        "" if name == reference or math.isnan(low) else f"{low:.3f}-{high:.3f}"
        for name, (low, high) in limits.items()
    ]
    styles = [BETTER if high < 1 else WORSE if low > 1 else "" for low, high in limits.values()]
    styles[-1] = ""
    return [ratio._replace(styles=styles), Column(INTERVAL, texts, styles=styles)]


def best_of(name: str, means: Sequence[pd.Series], texts: Sequence[str]) -> list[int]:
    """Return the rows in which a metric is best as printed; none if no direction is better or all rows look alike.

    name: a key of `METRICS`. means: the pooled metrics of each row. texts: the metric as printed in each row.
    """
    goal = METRICS[name].best
    known = {
        row: float(each[name]) for row, each in enumerate(means) if not math.isnan(each.get(name, math.nan))
    }
    if not goal or len({texts[row] for row in known}) < 2:
        return []
    best = (min if goal == "low" else max)(known, key=lambda row: known[row])
    return [row for row in known if texts[row] == texts[best]]


def metrics_shown(summaries: Mapping[str, pd.DataFrame], *, wide: bool) -> dict[str, tuple[str, str]]:
    """Return heading and `Form` of each metric in the table of these policies, by name."""
    shared = shares_gpus(summaries)
    return {
        name: (f"{metric.heading},\nsummed" if shared and metric.summed else metric.heading, metric.form)
        for name, metric in in_table(summaries, wide=wide)
    }


def shares_gpus(summaries: Mapping[str, pd.DataFrame]) -> bool:
    """Return whether jobs share GPUs under some policy, so that GPU shares are sums over co-located jobs."""
    return any(each["shared_gpu_hours"].any() for each in summaries.values())


def metric_texts(numbers: pd.Series, shown: Mapping[str, tuple[str, str]]) -> list[str]:
    """Return the metrics as printed in the table; empty for an unknown metric."""
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


def console(file: IO[str], plain_width: int = PLAIN_WIDTH) -> "Console":
    """Return a console that prints tables and lines to a file, without styles unless it is a terminal.

    plain_width: characters of a line if the file is no terminal and the variable COLUMNS is not set.
    """
    from rich.console import Console

    width = min(Console(file=file).width, MAX_WIDTH) if file.isatty() else _columns_variable() or plain_width
    return Console(file=file, width=width, markup=False, emoji=False, highlight=False)


def _columns_variable() -> int | None:
    """Return the value of the environment variable COLUMNS, None unless it is a positive number."""
    value = os.environ.get("COLUMNS", "")
    return int(value) if value.isdigit() and int(value) > 0 else None
