"""An edit of any source of the kernel is noticed, also by compiled callers in other files."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gpu_cluster_gym.simulator.kernel import _compile, _pipeline

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
OWN = "_compile.py", "_linking.py", "_pipeline.py"
ASK = "from tiny.caller import answer; print(answer(1), sum(answer.stats.cache_hits.values()))"
PARENT = """
import json, os, sys, traceback
import numba, numpy
sys.dont_write_bytecode = True  # of an edit within the second Python would notice nothing
numba.njit(lambda x: 10 * x)(1)
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if not child:
        for stream, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        os.chdir(asked["folder"])
        os.environ.clear()
        os.environ.update(asked["environment"])
        sys.path.insert(0, asked["folder"])
        code = 0
        try:
            exec(asked["question"], {"__name__": "__main__"})
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""A process with Numba loaded, and nothing of ours, that has each line of Python run in a child of its own."""


class Answer(NamedTuple):
    """Result and output of a process."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module", autouse=True)
def parent() -> Iterator["subprocess.Popen[str]"]:
    """Load Numba once for all processes of this file: that takes longer than the compilation."""
    line = [sys.executable, "-c", PARENT]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        PARENTS.append(process)
        yield process
        PARENTS.clear()


PARENTS: list["subprocess.Popen[str]"] = []


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a package of a compiled caller and a callee in another file, using the kernel's own compilation."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "tiny"
    folder.mkdir()
    for name in OWN:
        text = (Path(_compile.__file__).parent / name).read_text()
        (folder / name).write_text(text.replace("gpu_cluster_gym.simulator.kernel", "tiny"))
    (folder / "__init__.py").touch()
    (folder / "callee.py").write_text(CALLEE.format(step=1))
    (folder / "caller.py").write_text(CALLER)
    return folder


def ask(tiny: Path, question: str) -> Answer:
    """Evaluate a line of Python in a separate process."""
    (parent,) = PARENTS
    assert parent.stdin
    assert parent.stdout
    out, err = tiny.parent / "out", tiny.parent / "err"
    asked = {"folder": str(tiny.parent), "out": str(out), "err": str(err), "question": question}
    parent.stdin.write(json.dumps(asked | {"environment": dict(os.environ)}) + "\n")
    parent.stdin.flush()
    return Answer(int(parent.stdout.readline()), out.read_text(), err.read_text())


def answer_and_hits(tiny: Path, question: str = ASK) -> tuple[int, int]:
    """Call the compiled caller in a separate process; return its result and the number of cache hits."""
    done = ask(tiny, question)
    assert done.returncode == 0, done.stderr
    answer, hits = map(int, done.stdout.split())
    return answer, hits


@pytest.mark.parametrize("linked", [True, False])
def test_code_is_kept_and_an_edited_callee_is_noticed(tiny: Path, linked: bool) -> None:
    """Both with the kernel's linking and with Numba's own, which is used under another series."""
    text = (tiny / "_compile.py").read_text()
    (tiny / "_compile.py").write_text(
        text.replace('startswith("0.68.")', f'startswith("{"" if linked else "no"}")')
    )
    assert answer_and_hits(tiny, f"{ASK}; from tiny._compile import LINKED; assert LINKED is {linked}") == (
        20,
        0,
    )
    assert answer_and_hits(tiny) == (20, 1)
    (tiny / "callee.py").write_text(CALLEE.format(step=2))
    assert answer_and_hits(tiny) == (30, 0)


def test_a_policy_outside_is_kept_and_its_edit_is_noticed(tiny: Path) -> None:
    """The fingerprint covers its own source and the package that it is compiled with, and no third one."""
    outside = tiny.parent / "outside"
    outside.mkdir()
    (outside / "__init__.py").touch()
    policy = CALLER.replace("from tiny import callee\n", "from outside import own\nfrom tiny import callee\n")
    (outside / "own.py").write_text(CALLEE.format(step=5))
    (outside / "policy.py").write_text(policy)
    line = ASK.replace("tiny.caller", "outside.policy")
    assert answer_and_hits(tiny, line) == (20, 0)
    assert answer_and_hits(tiny, line) == (20, 1)
    (outside / "policy.py").write_text(policy.replace("10 *", "11 *"))
    assert answer_and_hits(tiny, line) == (22, 0)
    (tiny / "callee.py").write_text(CALLEE.format(step=2))
    assert answer_and_hits(tiny, line) == (33, 0)
    (outside / "policy.py").write_text(policy.replace("callee.grown", "own.grown"))
    done = ask(tiny, line)
    assert done.returncode == 1
    assert "outside.policy is compiled and calls grown of outside.own" in done.stderr


def test_an_edit_undone_finds_its_code_again(tiny: Path) -> None:
    assert answer_and_hits(tiny) == (20, 0)
    before = _compile.cache_folder(tiny)
    (tiny / "callee.py").write_text(CALLEE.format(step=2))
    assert _compile.cache_folder(tiny) != before
    (tiny / "callee.py").write_text(CALLEE.format(step=1))
    assert _compile.cache_folder(tiny) == before
    assert before.is_dir()


def test_cached_code_is_found_wherever_the_sources_are(tiny: Path) -> None:
    assert answer_and_hits(tiny) == (20, 0)
    elsewhere = tiny.parent / "elsewhere" / "tiny"
    shutil.copytree(tiny, elsewhere, ignore=shutil.ignore_patterns("__pycache__"))
    assert answer_and_hits(elsewhere) == (20, 1)


def test_a_callee_that_is_kept_serves_another_caller(tiny: Path) -> None:
    """It is compiled once, whatever the width of the integers passed to it."""
    kept = "print(of_each_width(1), sum(callee.grown.stats.cache_hits.values()))"
    signatures = "print(of_each_width(1), len(callee.grown.signatures))"
    both = "from tiny import callee; from tiny.caller import of_each_width; "
    assert answer_and_hits(tiny) == (20, 0)
    assert answer_and_hits(tiny, both + kept) == (8, 1)
    (tiny / "callee.py").write_text(CALLEE.format(step=2))
    assert answer_and_hits(tiny, both + signatures) == (11, 1)


def test_a_missing_piece_is_an_error_in_words(tiny: Path) -> None:
    lose = "from tiny import _linking; _linking.SHORT = 0; _linking.below = lambda library: []; "
    done = ask(tiny, lose + ASK)
    assert done.returncode == 1
    assert "RuntimeError: answer calls undefined functions: " in done.stderr
    assert "grown" in done.stderr


def test_compilation_is_announced_once_and_not_from_a_full_cache(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(_pipeline.ANNOUNCED, raising=False)
    twice = f"{ASK}; import subprocess, sys; from tiny.caller import of_each_width as f; f(1); "
    child = (
        'subprocess.run([sys.executable, "-c", "from tiny.caller import answer; answer(1.5)"], check=True)'
    )
    assert ask(tiny, twice + child).stderr == _pipeline.MESSAGE + "\n"
    assert ask(tiny, ASK).stderr == ""


def test_entries_unused_for_a_month_are_removed(tiny: Path) -> None:
    begin = "from tiny import _compile"
    assert ask(tiny, begin).stderr == ""
    first = _compile.cache_folder(tiny)
    (tiny / "callee.py").write_text(CALLEE.format(step=2))
    assert ask(tiny, begin).stderr == ""
    assert first.is_dir()
    os.utime(first, (0, 0))
    (tiny / "callee.py").write_text(CALLEE.format(step=3))
    assert ask(tiny, begin).stderr == ""
    assert not first.exists()
    assert len(list(first.parent.iterdir())) == 2


def test_without_a_folder_of_the_user_a_temporary_one_is_taken(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tiny / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tiny / "file"))
    assert str(os.getuid()) in _compile.cache_folder(tiny).parent.name
    monkeypatch.setenv("XDG_CACHE_HOME", str(tiny.parent / "cache"))
    (tiny.parent / "cache" / "gpu-cluster-gym").mkdir(parents=True)
    assert str(os.getuid()) not in _compile.cache_folder(tiny).parent.name
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # there, and not to be written to
    assert str(os.getuid()) in _compile.cache_folder(tiny).parent.name


def test_a_temporary_folder_that_others_can_write_to_is_refused(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled code in it is run: another user could have made the folder first, or write to it."""
    (tiny / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tiny / "file"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tiny))
    base = _compile.cache_folder(tiny).parent
    assert base.stat().st_mode & 0o777 == 0o700
    assert _compile.cache_folder(tiny).parent == base
    uid = os.getuid()
    for mode in (0o720, 0o702):
        base.chmod(mode)
        with pytest.raises(ValueError, match="only you can write to"):
            _compile.cache_folder(tiny)
    base.rename(tiny / "elsewhere")
    (tiny / "elsewhere").chmod(0o700)
    base.symlink_to(tiny / "elsewhere")
    with pytest.raises(ValueError, match="only you can write to"):
        _compile.cache_folder(tiny)
    base.unlink()
    base.mkdir(mode=0o700)
    made = base.lstat()
    fields = [*made[:4], uid + 1, *made[5:]]
    monkeypatch.setattr(Path, "lstat", lambda path: os.stat_result(fields))
    with pytest.raises(ValueError, match="only you can write to"):
        _compile.cache_folder(tiny)


def test_the_fingerprint_covers_exactly_the_sources(tiny: Path) -> None:
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
