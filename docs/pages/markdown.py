"""Markdown of the generated pages."""

from collections.abc import Iterable


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    first = tuple(headings)
    lines = [first, ("---",) * len(first), *rows]
    return "\n".join(f"| {' | '.join(map(escaped, line))} |" for line in lines)


def escaped(cell: str) -> str:
    """Return a text with `|` escaped for a cell."""
    return cell.replace("|", r"\|")
