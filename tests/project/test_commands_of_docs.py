"""Every command in the README and the docs runs at a small size, or is on a short list with the reason."""

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
from gpu_cluster_gym.evaluation.decide import main as decide
from gpu_cluster_gym.evaluation.describe import main as describe
from gpu_cluster_gym.evaluation.forecast import main as forecast
from gpu_cluster_gym.evaluation.plot.__main__ import main as plot
from gpu_cluster_gym.evaluation.score import main as score
from gpu_cluster_gym.workloads import named
from tests.cases.bad_logs import sacct
from tests.cases.crowd import crowd
from tests.cases.slurm_queue import small_queue
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
"""Flags that replace those of a command."""
DAYS = "--warm-days 0.08 --counted-days 0.08 --after-days 0.08"
"""Flags instead of --jobs and --all-windows where windows are steady."""
DRAWN = "runs/look"
"""Folder of a run whose windows are not reduced, since later commands of a page draw the last."""
STEPS = 64
"""Maximum steps of a training example."""
SMALLER = {"learn(2_048)": f"learn({STEPS})", "n_steps=256": f"n_steps={STEPS}"}
"""Replacements in files that a page asks the reader to write."""

MAIN, WITH_TABLE = evaluate.main, ("sb3_ppo", "sb3_dqn", "maskable_ppo")
"""Training examples that end with a table, which the command makes."""

READ_ONLY = {
    "benchmarks.": "minutes to hours",
    "lookahead": "minutes a window",
    "--paper": "minutes",
    "--action moves": "labels by look-ahead",
    "--init-from constants": "constants exist for the full workload only",
    "--extra-workloads": "validation windows of each workload",
    "--protocol": "nine shifts in addition to the windows",
    "--config agents/shipped/all": "twelve workloads with validation windows",
    "--trace-file weeks.csv": "windows need a log of weeks",
    "--backend ray": "it needs a cluster; tests/evaluation/test_each.py starts one",
    "docs.examples.train.vectors": "test_training_examples runs it",
    "gpu-cluster-gym record": "Minari is optional; test_record runs it where it is installed",
    "docs.examples.train.offline": "Minari is optional; test_training_examples runs it where it is installed",
    "docs.examples.train.rllib_ppo": "RLlib is optional; test_training_examples runs it where it is installed",
    "docs.examples.train.torchrl_ppo": "TorchRL is optional; test_training_examples runs it where it is installed",
    "docs.examples.train.sb3_steer": "twenty validation windows; test_training_examples runs it and its policies",
    "docs.examples.train.optuna_search": "Optuna is optional; test_training_examples runs it where it is installed",
}
"""Text of commands that are not run, only parsed, and the reason."""
NOT_TRIED = {
    "pip": "it installs",
    "python3": "it creates the environment to install into",
    ".": "it is for an interactive shell",
    "tensorboard": "it runs until it is stopped",
    "git": "the address of the repository is up to the user",
}


class Command(NamedTuple):
    """Command of a page, without its comment."""

    page: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: {' '.join(self.words)}"


def commands(page: Path) -> list[Command]:
    """Return the commands in the code blocks of a page; of a loop, the first iteration."""
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
    """Yield the words of each line that is a command, with the variable of a surrounding loop replaced."""
    given: tuple[str, str] | None = None
    for line in lines:
        if found := re.fullmatch(r"for (\w+) in (\S+) .*; do", line):
            given = found[1], found[2]
        elif line == "done":
            given = None
        elif line.split()[:1] and line.split()[0] in PROGRAMS:
            line = re.sub(r"\[--[^]]*\]", "", line)  # optional flags
            yield shlex.split(line.replace(f"${given[0]}", given[1]) if given else line, comments=True)


_FIRST: dict[tuple[str, ...], Command] = {}
for _page in PAGES:
    for _each in commands(_page):
        _FIRST.setdefault(_each.words, _each)
ALL = list(_FIRST.values())
"""Each distinct command, at its first occurrence."""


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


USER_MODULES = re.compile(r"mylab(\.|$)|docs\.examples\.train\.")
"""Modules that are imported again on every page, since they cache a loaded agent."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Change to a folder from which user modules are imported, and forget them afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if USER_MODULES.match(name)]:
        del sys.modules[name]


@pytest.mark.usefixtures("few_windows", "undrawn")
@pytest.mark.filterwarnings("ignore:.*a legal action replaces it")  # PPO without masks
@pytest.mark.parametrize("page", [name for name, found in RUN.items() if found])
def test_commands_of_a_page_run_one_after_another(
    page: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_files_of_pages(page, folder)
    for command in RUN[page]:
        code = run(list(command.words), monkeypatch)
        assert code == 0, f"{command}\n{capsys.readouterr().err}"


def write_files_of_pages(page: str, folder: Path) -> None:
    """Write the modules in the pages, those of this page last; a log, and an agent."""
    crowd(folder / "jobs.csv", count=30)
    (folder / "export.csv").write_text("Job,Submitted,GPUs,duration_s\n1,0,1,60\n")
    sacct(folder / "sacct.txt", count=30)
    small_queue(folder)
    queue = (folder / "squeue.json").read_text()
    (folder / "squeue.json").write_text(queue.replace("17000", "17100"))  # to after the log, on 9 March 2024
    shutil.copytree(SHIPPED / FOR_ALL, folder / "runs" / "train-..." / "best")
    (folder / "mylab").mkdir()
    for each in sorted(PAGES, key=lambda path: path.name == page):  # this page overrides others
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
        case ["describe", *args]:
            return describe(args)
        case ["forecast", *args]:
            return forecast(args)
        case ["decide", *args]:
            return decide(args)
        case ["score", *args]:
            return score([*args, "--windows", "1"])
        case ["-m", module, *args]:
            given = [str(min(int(each), STEPS)) if each.isdigit() else each for each in args]
            given += ["--windows", "1"] if module.endswith(WITH_TABLE) else []
            forget()
            with monkeypatch.context() as patch:
                patch.setattr(sys, "argv", [module, *given])
                patch.setattr(evaluate, "main", lambda args: MAIN([*args, *DAYS.split()]))
                runpy.run_module(module, run_name="__main__")
            return 0
    raise AssertionError(f"unknown command {words}")


def small(args: Sequence[str], command: str) -> list[str]:
    """Return the arguments of a command with those of a small size."""
    wanted = dict(pairs(shlex.split(SMALL[command])))
    own = pairs(args)
    workload = next((words[0] for flag, words in own if flag == "--workload"), "busy")
    if "--steady-load" in args or named(workload).steady_load is not None:
        wanted = {flag: words for flag, words in wanted.items() if flag not in ("--jobs", "--all-windows")}
        wanted |= dict(pairs(shlex.split(DAYS)))
    if "--full-trace" in args:
        wanted.pop("--windows")
    if DRAWN in args:
        wanted.pop("--windows", None)
    kept = [(flag, words) for flag, words in own if flag not in wanted]
    return [word for flag, words in (*kept, *wanted.items()) for word in (flag, *words) if word]


def pairs(args: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return each flag with its values; values before the first flag have an empty flag."""
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
def test_flags_of_slow_commands_are_valid(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = argparse.ArgumentParser.parse_args

    def parse_alone(parser: argparse.ArgumentParser, *args: Any) -> NoReturn:
        parse(parser, *args)
        raise Read

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_alone)
    match command.words[1:]:
        case ["evaluate.py" | "evaluate", *args]:
            evaluate.read_choices(args)
        case ["train_agent.py" | "train", *args]:
            train_agent.read_choices(args)
        case ["-m", module, *args] if module.startswith("benchmarks."):
            with pytest.raises(Read):
                import_module(module).main(args)
        case ["-m", module, *_]:
            assert find_spec(module)


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    used = {each.words[1] for each in ALL if each.words[0] == "make"}
    assert "train" in used
    assert used <= targets


def test_every_exception_is_needed() -> None:
    """Each entry of the lists occurs in some command."""
    texts = [" ".join(each.words) for each in ALL]
    assert {word for word in READ_ONLY if not any(word in each for each in texts)} == set()
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert {text for text in SMALLER if text not in pages} == set()
    assert {each.words[0] for each in ALL} <= {"python", "make", "gpu-cluster-gym", *NOT_TRIED}
    assert len(ALL) > 60
