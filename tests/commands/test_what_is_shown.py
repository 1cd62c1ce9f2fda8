"""Output of the commands: it fits the line, shows progress, and run folders have the status of their run."""

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from queue import Queue
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from gpu_cluster_gym import baselines, evaluate, train_agent
from gpu_cluster_gym.evaluation import command, run_folder, runner, table
from gpu_cluster_gym.evaluation.runner import BOUND
from gpu_cluster_gym.evaluation.table_notes import LEVERS
from gpu_cluster_gym.traces import modules
from tests.cases import tiny
from tests.cases.crowd import crowd
from tests.conftest import ROOT

MAINS = {"evaluate.py": evaluate.main, "train_agent.py": train_agent.main}


@pytest.fixture
def flags(tmp_path: Path) -> list[str]:
    """Return flags for a few jobs and a run folder."""
    chosen = tiny.scenario(tmp_path, tiny.jobs(12))
    return [f"--{name.replace('_', '-')}={it}" for name, it in chosen.items() if name != "full_trace"] + [
        "--full-trace",
        "--out",
        str(tmp_path / "run"),
    ]


def output_of(
    capsys: pytest.CaptureFixture[str], args: list[str], main: Any = evaluate.main
) -> tuple[int, str, str]:
    try:
        code = main(args)
    except SystemExit as stop:
        code = int(stop.code or 0)
    return code, *capsys.readouterr()


# How many characters a line has.


@pytest.mark.parametrize("columns", [80, None])
def test_every_line_fits(
    columns: int | None,
    flags: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if columns:
        monkeypatch.setenv("COLUMNS", str(columns))
    names = ["fifo", "srtf", "xion_threshold", "docs.examples.smallest_first:policy", "srtf_oracle"]
    code, out, _ = output_of(capsys, ["--policy", *names, *flags])
    assert code == 0
    longest = max(len(line.rstrip()) for line in out.splitlines())
    assert longest <= 80 if columns else 80 < longest <= 100
    assert "".join(out.split()).count("docs.examples.smallest_first:policy") >= 1, "a long name is folded"


def some_table(width: int, *, terminal: bool = False) -> str:
    """Return a table of eight columns of numbers, printed to lines of a width."""
    columns = [table.Column(f"heading\n{at}", ["1,000.0", "2", "3"], best=[0]) for at in range(8)]
    file = StringIO()
    colours: Any = "standard" if terminal else None
    console = Console(file=file, width=width, force_terminal=terminal, color_system=colours)
    console.print(table.ResultTable([table.Column("policy", ["srtf", "fifo", BOUND])], columns, 2))
    return file.getvalue()


def test_columns_that_do_not_fit_continue_below_with_repeated_names() -> None:
    wide, narrow = some_table(120), some_table(50)
    assert wide.count("srtf") == 1
    assert narrow.count("srtf") == narrow.count("policy") == 2
    for out in (wide, narrow):
        assert re.findall(r"\b(\d)(?= |\n)", out.split("1,000")[0])[:3] == ["0", "1", "2"]
        assert out.count("1,000.0") == 8, "nothing is left out"
    assert max(len(line.rstrip()) for line in narrow.splitlines()) <= 50


def test_the_best_is_bold_on_a_terminal_alone() -> None:
    assert "\x1b[1m1,000.0" in some_table(120, terminal=True)
    assert "\x1b" not in some_table(120)


def best(name: str, values: list[float], form: str = "{}") -> list[int]:
    return table.best_of(
        name, [pd.Series({name: value}) for value in values], [form.format(value) for value in values]
    )


def test_of_numbers_the_low_or_the_high_ones_are_best() -> None:
    assert best("mean_jct_s", [5.0, 3.0, 4.0]) == [1]
    assert best("gpu_goodput_share", [0.2, 0.7, 0.7]) == [1, 2]
    assert best("gpu_goodput_share", [0.5, 0.5]) == [], "all are alike"
    assert best("mean_jct_s", [3.04, 3.01, 9.0], "{:.1f}") == [0, 1], "these look alike"
    assert best("preemptions", [1.0, 2.0]) == [], "neither is better"


# Policies with equal results, and levers that are off.


def test_policies_without_their_lever_are_named(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert output_of(capsys, ["--policy", "fifo", "coda", "xonar", "edf", "srtf", *flags])[0] == 0
    said = (Path(flags[-1]) / run_folder.NOTES).read_text(encoding="utf-8")
    assert "Identical to fifo in all windows: coda, xonar, edf." in said
    assert "coda (physics without cores); xonar (physics without sharing)" in said
    assert "edf (no deadlines)" in said
    kept = [each for each in flags[:-1] if not each.startswith("--physics")]
    other = [*kept, f"{flags[-1]}2", "--physics", "memory,sharing"]
    assert output_of(capsys, ["--policy", "fifo", "xonar", *other])[0] == 0
    assert "Reduced to" not in (Path(f"{flags[-1]}2") / run_folder.NOTES).read_text(encoding="utf-8")


def test_every_lever_is_one_that_a_scenario_can_have() -> None:
    levers = {name: baselines.lever(name) for name in baselines.names()}
    assert set(levers.values()) - {None} == set(LEVERS)


# Questions that need no run.


@pytest.mark.parametrize("name", MAINS)
def test_available_names_are_listed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for kind, package in command.LISTS.items():
        code, out, error = output_of(capsys, ["--list", kind], MAINS[name])
        assert (code, error) == (0, "")
        wanted = [each for each in modules(package) if each != "generic"]
        additional = command.ADDITIONAL.get(package, {})
        assert re.findall(r"^([\w:]+)  +\S", out, re.MULTILINE) == [*wanted, *additional]
        assert max(map(len, out.splitlines())) <= 80
    code, _, error = output_of(capsys, ["--list", "polices"], MAINS[name])
    assert code == 2
    assert "did you mean 'policies'" in error
    code, out, _ = output_of(capsys, ["--version"], MAINS[name])
    assert (code, bool(re.match(r"gpu-cluster-gym \S+, random draws of version \d", out))) == (0, True)


def test_the_two_random_policies_are_told_apart_by_their_lines(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = output_of(capsys, ["--list", "policies"])
    found = re.findall(r"^(random\w*)  +(\S.*(?:\n .*)*)", out, re.MULTILINE)
    lines = {name: " ".join(text.split()) for name, text in found}
    assert "unlike random_legal" in lines["random"]
    assert "unlike random, it also" in lines["random_legal"]


@pytest.mark.parametrize("name", MAINS)
def test_help_has_examples_first_and_physics_last(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = output_of(capsys, ["--help"], MAINS[name])
    assert code == 0
    assert not re.search(r"^│\s*│$", out, re.MULTILINE), "a line with nothing"
    assert not re.search(r"[a-z,]\s*│\n│\s+[a-z]+\s*│\n│\s{10,}\w", out), "a word by itself, and then more"
    groups = re.findall(r"^[^\w\n]*((?:\w+ )?options)[^\w\n]*$", out, re.MULTILINE)
    assert (groups[0], groups[-1]) == ("options", "physics options")
    assert out.index(f"  python {name} --") < out.index("--out")
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("name", MAINS)
def test_an_installed_command_names_itself_as_it_was_called(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file of the checkout is there to be run by Python."""
    monkeypatch.setattr(sys, "argv", ["/usr/bin/gpu-cluster-gym", "..."])
    monkeypatch.setenv("COLUMNS", "80")
    called = f"gpu-cluster-gym {name.removesuffix('.py').removesuffix('_agent')}"
    code, out, _ = output_of(capsys, ["--help"], MAINS[name])
    assert (code, out.startswith(f"usage: {called} [-h]")) == (0, True)
    assert f"\n  {called} --" in out
    assert "python evaluate.py" not in out
    assert "python train_agent.py" not in out
    assert max(map(len, out.splitlines())) <= 80
    _, _, error = output_of(capsys, ["--list", "polices"], MAINS[name])
    assert error.startswith(f"{called}: ")


# While one waits.


def test_a_bar_on_the_terminal_takes_nothing_from_a_file() -> None:
    """Output in the meantime goes to stdout, and the bar shows the remaining time."""
    code = (
        "from gpu_cluster_gym.evaluation.command import progress\n"
        "with progress('learning', 4) as moved:\n"
        "    for _ in range(4): moved(1); print('validated')"
    )
    ours, theirs = os.openpty()
    line = [sys.executable, "-c", code]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run(line, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=theirs, check=True)
    os.close(theirs)
    assert done.stdout.split() == [b"validated"] * 4
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "validated" not in shown
    assert re.search(r"learning .*100%.* left", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown))


def test_a_long_preparation_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "PATIENCE_S", 0.05)
    said: Queue[str] = Queue()
    monkeypatch.setattr(command, "log", said.put)
    with command.progress("learning", 4, before="drawing windows"):
        assert said.get(timeout=10) == "drawing windows ..."


def test_without_a_terminal_there_is_a_line_per_tenth(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("gpu_cluster_gym.evaluation.command.time.monotonic", lambda: now[0])
    with command.progress("simulating", 200) as moved:
        for _ in range(200):
            now[0] += 2.0
            moved(1)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == [f"{tenth}0" for tenth in range(1, 11)]
    assert lines[4] == "simulating: 50 % (100 of 200) after 3 min, about 3 min left"


def test_short_steps_show_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with command.progress("simulating", 10) as moved, command.working("preparing"):
        for _ in range(10):
            moved(1)
    assert capsys.readouterr().err == ""


def test_long_waits_are_reported(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class AtOnce:
        def __init__(self, after: float, tell: Any, args: list[str]) -> None:
            self.start = lambda: tell(*args)

        def cancel(self) -> None: ...

    monkeypatch.setattr(command, "Timer", AtOnce)
    with command.working("compiling"):
        assert capsys.readouterr().err == "compiling ...\n"


# How a run went.


def test_a_run_folder_records_that_it_finished(
    flags: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert output_of(capsys, ["--policy", "fifo", *flags])[0] == 0
    assert run_folder.status_of(tmp_path / "run") == "finished"
    assert run_folder.unfinished(tmp_path / "run") is None


@pytest.mark.parametrize(
    ("stop", "code", "status"), [(KeyboardInterrupt, 130, "interrupted"), (RuntimeError, 2, "failed")]
)
def test_a_run_folder_records_that_it_failed(
    stop: type[BaseException],
    code: int,
    status: str,
    flags: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise stop("in the middle")

    with monkeypatch.context() as broken:
        broken.setattr(runner, "simulate", stopped)
        assert output_of(capsys, ["--policy", "fifo", *flags])[0] == code
    assert run_folder.status_of(tmp_path / "run") == status
    again = ["--config", str(tmp_path / "run"), "--full-trace", "--out", str(tmp_path / "again")]
    _, _, error = output_of(capsys, again)
    assert str(run_folder.unfinished(tmp_path / "run")) in error
    ended, _, error = output_of(capsys, ["--policy", "fifo", *flags])
    assert ended == (0 if status == "failed" else 2), "the folder of a failed run is free again"


def test_an_interrupted_training_reports_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(train_agent, "train", stopped)
    few = ["--cluster", "2x8", "--jobs", "40", "--all-windows", "--windows", "2", "--test-windows", "1"]
    args = ["--trace-file", crowd(tmp_path / "jobs.csv"), *few, "--validation-windows", "1"]
    code, _, error = output_of(capsys, [*args, "--out", str(tmp_path / "run")], train_agent.main)
    assert code == 130
    assert "interrupted; the best agent so far" in error
    assert run_folder.status_of(tmp_path / "run") == "interrupted"
