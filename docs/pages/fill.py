"""Tables in pages, generated between marks `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""

from collections.abc import Callable, Mapping
from pathlib import Path


def filled(page: Path, tables: Mapping[str, Callable[[], str]]) -> str:
    """Return the text of a page with each table generated between the marks of its name.

    ValueError if the page lacks the marks.
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
