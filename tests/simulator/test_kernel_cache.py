"""An edit of any of the kernel's sources is noticed, also by compiled callers in other files."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.kernel import _compile

CALLEE = "from tiny._compile import compiled\n\n\n@compiled\ndef grown(x):\n    return x + {step}\n"
CALLER = """import numpy as np

from tiny import callee
from tiny._compile import entry


@entry
def answer(x):
    return 10 * callee.grown(x)


@entry
def of_each_width(x):
    return callee.grown(x) + callee.grown(np.int32(x)) + callee.grown(3)
"""
ASK = "from tiny.caller import answer; print(answer(1), sum(answer.stats.cache_hits.values()))"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Make a package of a compiled caller and its callee in another file, with the kernel's own way to compile."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    shutil.copy(Path(_compile.__file__), folder)
    (folder / "__init__.py").touch()
    (folder / "callee.py").write_text(CALLEE.format(step=1))
    (folder / "caller.py").write_text(CALLER)
    return folder


def answer_and_hits(tiny: Path, question: str = ASK) -> tuple[int, int]:
    """Ask the compiled caller in a process of its own; return its answer and how much came from the disk cache."""
    done = subprocess.run(
        [sys.executable, "-c", question], cwd=tiny.parent, capture_output=True, text=True, check=True
    )
    answer, hits = map(int, done.stdout.split())
    return answer, hits


def test_code_is_kept_and_an_edited_callee_is_noticed(tiny: Path) -> None:
    assert answer_and_hits(tiny) == (20, 0)
    assert answer_and_hits(tiny) == (20, 1)
    (tiny / "callee.py").write_text(CALLEE.format(step=2))
    assert answer_and_hits(tiny) == (30, 0)


def test_an_edit_undone_finds_its_code_again(tiny: Path) -> None:
    assert answer_and_hits(tiny) == (20, 0)
    before = _compile.cache_folder(tiny)
    (tiny / "callee.py").write_text(CALLEE.format(step=2))
    assert _compile.cache_folder(tiny) != before
    (tiny / "callee.py").write_text(CALLEE.format(step=1))
    assert _compile.cache_folder(tiny) == before
    assert before.is_dir()


def test_what_is_kept_is_found_wherever_the_sources_lie(tiny: Path) -> None:
    assert answer_and_hits(tiny) == (20, 0)
    elsewhere = tiny.parent / "elsewhere" / "tiny"
    shutil.copytree(tiny, elsewhere)
    assert answer_and_hits(elsewhere) == (20, 1)


def test_a_callee_that_is_kept_serves_another_caller(tiny: Path) -> None:
    """And it is compiled once, whatever the width of the whole numbers that it is handed."""
    kept = "print(of_each_width(1), sum(callee.grown.stats.cache_hits.values()))"
    signatures = "print(of_each_width(1), len(callee.grown.signatures))"
    both = "from tiny import callee; from tiny.caller import of_each_width; "
    assert answer_and_hits(tiny) == (20, 0)
    assert answer_and_hits(tiny, both + kept) == (8, 1)
    (tiny / "callee.py").write_text(CALLEE.format(step=2))
    assert answer_and_hits(tiny, both + signatures) == (11, 1)


def test_the_fingerprint_is_of_all_sources_and_of_nothing_else(tiny: Path) -> None:
    seen = {_compile.fingerprint(tiny)}
    (tiny / "notes.txt").write_text("no source")
    assert {_compile.fingerprint(tiny)} == seen
    for edit in (
        lambda: (tiny / "callee.py").write_text(CALLEE.format(step=2)),
        lambda: (tiny / "another.py").touch(),
        lambda: (tiny / "another.py").rename(tiny / "renamed.py"),
        lambda: (tiny / "callee.py").write_text(CALLEE.format(step=2) + "\n"),
    ):
        edit()
        assert _compile.fingerprint(tiny) not in seen
        seen.add(_compile.fingerprint(tiny))


def test_the_kernel_uses_the_folder_of_its_present_sources() -> None:
    assert _compile.cache_folder() == _compile.CACHE
    assert _compile.fingerprint(Path(_compile.__file__).parent) in _compile.CACHE.name
