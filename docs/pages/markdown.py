"""Markdown that the pages are made of."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table."""
    first = tuple(headings)
    lines = [first, ("---",) * len(first), *rows]
    return "\n".join(f"| {' | '.join(map(escaped, line))} |" for line in lines)


def escaped(cell: str) -> str:
    """Return a text that may stand in a cell."""
    return cell.replace("|", r"\|")


def filled(page: Path, tables: Mapping[str, Callable[[], str]]) -> str:
    """Return the text of a page with each of its tables made anew, between the marks of its name.

    ValueError where the page lacks the marks.
    """
    text = page.read_text(encoding="utf-8")
    for name, make in tables.items():
        begin, end = (f"<!-- {name}: {side} -->" for side in ("begin", "end"))
        before, opened, rest = text.partition(f"{begin}\n")
        _, closed, after = rest.partition(end)
        if not (opened and closed):
            raise ValueError(f"{page} lacks the marks {begin} and {end}")
        text = f"{before}{begin}\n\n{make()}\n\n{end}{after}"
    return text
