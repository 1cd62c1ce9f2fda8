"""Every block of Python in the README and the docs runs at a small size, or is on a short list with the reason."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHORTER = {
    'gymnasium.make("GPUCluster-v2")': 'gymnasium.make("GPUCluster-v2", count=1)',
}
"""Replacements by which a block takes seconds instead of minutes."""
ELSEWHERE = {
    "# mylab/": "test_commands_of_docs writes the file and runs the page's commands on it",
    "your_own_policy.md": "test_docs compares each block with a file of docs/examples and runs the file",
}
"""Beginnings of blocks, and pages, that another test runs."""
NOT_RUN: dict[str, str] = {}
"""Beginnings of blocks that are not run, and the reason."""


class Block(NamedTuple):
    """Block of a page, by its place among the page's blocks."""

    page: str
    number: int
    language: str
    code: str

    def __str__(self) -> str:
        return f"{self.page}-{self.number}"


def blocks() -> Iterator[Block]:
    """Yield the fenced blocks of all pages."""
    for page in PAGES:
        found = re.findall(
            r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
        for number, (language, code) in enumerate(found):
            yield Block(page.name, number, language, code)


ALL = list(blocks())


def is_run_elsewhere(block: Block) -> bool:
    return any(block.page == each or block.code.startswith(each) for each in (*ELSEWHERE, *NOT_RUN))


@pytest.mark.usefixtures("few_windows")
@pytest.mark.parametrize("block", [each for each in ALL if not is_run_elsewhere(each)], ids=str)
def test_a_block_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = block.code
    for long, short in SHORTER.items():
        code = code.replace(long, short)
    exec(compile(code, str(block), "exec"), {"__name__": "block"})


def test_fenced_blocks_are_python() -> None:
    """Commands are indented by four spaces, where test_commands_of_docs finds them."""
    assert [str(each) for each in ALL if each.language != "python"] == []


def test_every_exception_is_needed() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [each for each in SHORTER if each not in text] == []
    for each in (*ELSEWHERE, *NOT_RUN):
        assert any(block.page == each or block.code.startswith(each) for block in ALL), each
