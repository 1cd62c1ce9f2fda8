"""Every command that the README and the docs show runs, at a small size, or is on a short list with the reason."""

import argparse
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

from gpu_cluster_gym import evaluate, train_agent
from gpu_cluster_gym.agents.pretrained import FOR_ALL, SHIPPED
from gpu_cluster_gym.evaluation.plot.__main__ import main as plot
from tests.cases.crowd import crowd
from tests.conftest import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = {
    "python",
    "python3",
    "make",
    "pip",
    "tensorboard",
    "git",
    ".",
    "cd",
    "jupyter",
    "gpu-cluster-gym",
    "bash",
    "sh",
}

SMALL = {
    "evaluate.py": "--windows 1 --jobs 12 --all-windows --processes 1",
    "plot": "--kind png",
    "train_agent.py": "--jobs 12 --all-windows --windows 2 --validation-windows 1 --test-windows 1 --seeds 1 "
    "--num-envs 2 --total-timesteps 24 --n-steps 12 --validate-every 24 --batch-size 24 --processes 1",
}
"""What is appended to a command here, in place of such flags of its own."""
MOST_WINDOWS = 4
"""So many windows are left as they are, since later commands of a page draw them."""
STEPS = 64
"""In place of the steps of an example that learns."""
SMALLER = {"learn(2_048)": f"learn({STEPS})", "n_steps=256": f"n_steps={STEPS}"}
"""In place of such text in a file that a page tells to write."""

READ_ONLY = {
    "benchmarks.": "minutes to hours",
    "lookahead": "minutes a window",
    "--paper": "minutes",
    "--action moves --init-from constants": "of a workload as it is, not of a smaller one",
    "--protocol": "nine shifts beside the windows",
    "--domain-randomization": "an environment for each shift, and its windows to validate on",
    "--config agents/shipped/all": "twelve workloads, with their windows to validate on",
    "--policy all --full-trace": "all are run for the README",
    "--policy all runs/": "the same",
    "docs.examples.train.vectors": "test_training_examples runs it",
}
"""In commands whose flags are read and that are not run, and why."""
NOT_TRIED = {
    "pip": "it installs",
    "python3": "it makes the environment to install into",
    ".": "it is for a shell that somebody types in",
    "tensorboard": "it serves until it is stopped",
    "git": "the repository's address is its user's",
}


class Command(NamedTuple):
    """A command of a page, without its comment."""

    page: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: {' '.join(self.words)}"


def commands(page: Path) -> list[Command]:
    """Return the commands in the code blocks of a page, of a loop the first round."""
    text = re.sub(r"\\\n\s*", "", page.read_text(encoding="utf-8"))
    lines: list[str] = []
    language: str | None = None
    for line in text.splitlines():
        if line.startswith("```"):
            language = line[3:].strip() if language is None else None
        elif language not in (None, "python") or (language is None and line.startswith("    ")):
            lines.append(line.strip())
    return [Command(page.name, tuple(words)) for words in unrolled(lines)]


def unrolled(lines: Sequence[str]) -> Iterator[list[str]]:
    """Return the words of those lines that are commands, with what a loop around them sets."""
    given: tuple[str, str] | None = None
    for line in lines:
        if found := re.fullmatch(r"for (\w+) in (\S+) .*; do", line):
            given = found[1], found[2]
        elif line == "done":
            given = None
        elif line.split()[:1] and line.split()[0] in PROGRAMS:
            line = re.sub(r"\[--[^]]*\]", "", line)  # what may be added
            yield shlex.split(line.replace(f"${given[0]}", given[1]) if given else line, comments=True)


_FIRST: dict[tuple[str, ...], Command] = {}
for _page in PAGES:
    for _each in commands(_page):
        _FIRST.setdefault(_each.words, _each)
ALL = list(_FIRST.values())
"""Each once, where it stands first."""


def has(command: Command, words: dict[str, str]) -> bool:
    return any(word in " ".join(command.words) for word in words)


RUN = {
    page.name: [
        each
        for each in ALL
        if each.page == page.name and not has(each, READ_ONLY) and each.words[0] not in {*NOT_TRIED, "make"}
    ]
    for page in PAGES
}


OF_USERS = re.compile(r"mylab(\.|$)|docs\.examples\.train\.")
"""Modules that keep what they have loaded, and so are imported anew on every page, as by every command."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Go to a folder where modules of one's own are found, and are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if OF_USERS.match(name)]:
        del sys.modules[name]


@pytest.mark.parametrize("page", [name for name, found in RUN.items() if found])
def test_commands_of_a_page_run_one_after_another(
    page: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_what_is_told(page, folder)
    for command in RUN[page]:
        code = run(list(command.words), monkeypatch)
        assert code == 0, f"{command}\n{capsys.readouterr().err}"


def write_what_is_told(page: str, folder: Path) -> None:
    """Write the modules that a page tells to write, or else those of other pages; a log, and an agent."""
    crowd(folder / "jobs.csv", count=30)
    shutil.copytree(SHIPPED / FOR_ALL, folder / "runs" / "train-..." / "best")
    (folder / "mylab").mkdir()
    for each in sorted(PAGES, key=lambda path: path.name == page):  # the page's own last
        text = each.read_text(encoding="utf-8")
        for name, code in re.findall(
            r"^```python\n# (mylab/\w+\.py)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
        ):
            for long, short in SMALLER.items():
                code = code.replace(long, short)
            (folder / name).write_text(code, encoding="utf-8")


def run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a command in this process at a small size; return its exit code."""
    match words[1:]:
        case ["evaluate.py" | "evaluate", *args]:
            return evaluate.main(small(args, "evaluate.py"))
        case ["train_agent.py" | "train", *args]:
            return train_agent.main(small(args, "train_agent.py"))
        case ["plot", *args]:
            return plot(small(args, "plot"))
        case ["-m", module, *args]:
            monkeypatch.setattr(sys, "argv", [module, *(str(min(int(steps), STEPS)) for steps in args)])
            forget()
            runpy.run_module(module, run_name="__main__")
            return 0
    raise AssertionError(f"what to do with {words}?")


def small(args: Sequence[str], command: str) -> list[str]:
    """Return the arguments with those of a small size in place of their own."""
    asked = dict(pairs(shlex.split(SMALL[command])))
    own = pairs(args)
    few = [words for flag, words in own if flag == "--windows" and int(words[0]) <= MOST_WINDOWS]
    asked |= {"--windows": few[0]} if few and command == "evaluate.py" else {}
    kept = [(flag, words) for flag, words in own if flag not in asked]
    return [word for flag, words in (*kept, *asked.items()) for word in (flag, *words) if word]


def pairs(args: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return each flag with the words behind it, and those before the first behind none."""
    found: list[tuple[str, list[str]]] = [] if args[0].startswith("--") else [("", [])]
    for word in args:
        if word.startswith("--"):
            found.append((word, []))
        else:
            found[-1][1].append(word)
    return found


class Read(Exception):  # noqa: N818 - no error: a command's flags have been read
    """Flags have been read."""


@pytest.mark.parametrize("command", [each for each in ALL if has(each, READ_ONLY)], ids=str)
def test_flags_of_what_takes_long_are_read(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = argparse.ArgumentParser.parse_args

    def parse_alone(parser: argparse.ArgumentParser, *args: Any) -> NoReturn:
        parse(parser, *args)
        raise Read

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_alone)
    match command.words[1:]:
        case ["evaluate.py", *args]:
            evaluate.read_choices(args)
        case ["train_agent.py", *args]:
            train_agent.read_choices(args)
        case ["-m", module, *args] if module.startswith("benchmarks."):
            with pytest.raises(Read):
                import_module(module).main(args)
        case ["-m", module, *_]:
            assert find_spec(module)


def test_targets_of_make_are_there() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    asked = {each.words[1] for each in ALL if each.words[0] == "make"}
    assert "train" in asked
    assert asked <= targets


def test_nothing_is_excused_without_need() -> None:
    """What is on a list stands in some command, so that the lists stay as short as they are."""
    said = [" ".join(each.words) for each in ALL]
    assert {word for word in READ_ONLY if not any(word in each for each in said)} == set()
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert {text for text in SMALLER if text not in pages} == set()
    assert {each.words[0] for each in ALL} <= {"python", "make", "gpu-cluster-gym", *NOT_TRIED}
    assert len(ALL) > 60
