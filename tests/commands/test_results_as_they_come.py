"""Each result is kept as soon as it is known: a run that was ended continues, and a finished one can be repeated."""

import errno
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.evaluate import main
from gpu_cluster_gym.evaluation import journal, run_folder
from gpu_cluster_gym.evaluation.journal import Journal
from gpu_cluster_gym.experiments import Setting, simulate
from gpu_cluster_gym.experiments._trials import default_policies
from gpu_cluster_gym.workloads import named, windows

ROOT = Path(__file__).resolve().parent.parent.parent
SMALL = ("--cluster", "4x8", "--jobs", "40", "--all-windows", "--windows", "3")
CELLS = 6  # two policies on three windows


def arguments(out: Path, *more: str) -> list[str]:
    return ["--policy", "srtf", "fifo", *SMALL, "--out", str(out), *more]


def results_of(folder: Path) -> dict[str, bytes]:
    """Return the content of all files with results; notes and provenance name the folder and the time."""
    others = {"status.json", "provenance.json", "report.html"}
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and file.name not in others
    }


def table_of(out: str) -> str:
    return out.partition("Notes: ")[0]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted") / "out"
    with redirect_stdout(StringIO()) as printed:
        assert main(arguments(folder, "--record")) == 0
    (folder.parent / "printed").write_text(printed.getvalue(), encoding="utf-8")
    return folder


@pytest.fixture
def after(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, BaseException], None]]:
    """Return a function that makes the write of an entry and all later ones fail, given the number before it."""
    write = run_folder.write_atomically

    def fail(entries: int, error: BaseException) -> None:
        left = [None] * entries

        def commit(file: Path, content: bytes) -> None:
            if not left:
                raise error
            left.pop()
            write(file, content)

        monkeypatch.setattr("gpu_cluster_gym.evaluation.journal.write_atomically", commit)

    yield fail
    monkeypatch.undo()


@pytest.mark.parametrize("entries", [0, CELLS - 1])
def test_an_interrupted_run_continues_to_the_same_table(
    entries: int,
    uninterrupted: Path,
    tmp_path: Path,
    after: Callable[[int, BaseException], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    patient: None,
) -> None:
    out = tmp_path / "out"
    whole = (uninterrupted.parent / "printed").read_text(encoding="utf-8")
    after(entries, KeyboardInterrupt())
    assert main(arguments(out, "--record")) == 130
    assert f"interrupted; continue it with --resume {out}" in capsys.readouterr().err
    assert len([*out.rglob("*.npz")]) == entries
    monkeypatch.undo()
    assert main(["--resume", str(out)]) == 0
    assert table_of(capsys.readouterr().out) == table_of(whole)
    assert results_of(out) == results_of(uninterrupted)
    assert run_folder.status_of(out) == "finished"


def test_windows_that_are_kept_are_not_simulated_again(
    tmp_path: Path, after: Callable[[int, BaseException], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell that is kept is read: one that has been changed by hand shows in the results."""
    out = tmp_path / "out"
    after(4, KeyboardInterrupt())
    assert main(arguments(out)) == 130
    monkeypatch.undo()
    kept = Journal(out / run_folder.JOURNAL)
    (table,) = kept.read("fifo", 0) or []
    kept.write("fifo", 0, [table.assign(wait_s=table["wait_s"] + 1.0)])
    assert main(["--resume", str(out)]) == 0
    waits = pd.read_csv(out / "fifo" / "jobs.csv").query("window == 0")["wait_s"]
    assert waits.tolist() == (table["wait_s"] + 1.0).tolist()


def test_a_full_disk_names_the_window_and_costs_no_other(
    uninterrupted: Path,
    tmp_path: Path,
    after: Callable[[int, BaseException], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    after(3, OSError(28, os.strerror(28)))
    assert main(arguments(out, "--record")) == 2
    error = capsys.readouterr().err
    assert re.search(r"window \d+: cannot write the results to \S+: No space left on device", error)
    monkeypatch.undo()
    assert main(["--resume", str(out)]) == 0
    assert results_of(out) == results_of(uninterrupted)


def test_a_table_is_kept_to_the_last_bit(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "number": [0.1, -0.0, np.nan, np.inf, 5e-324],
            "count": np.array([1, 2, 3, 4, 2**40]),
            "small": np.array([1, 2, 3, 4, 5], np.int32),
            "job_id": ["001", "NA", "", "\u00e9,\"'\n", "1e5"],
            "phase": pd.Categorical(["b", "a", "b", "a", "b"], categories=["b", "a", "unused"]),
        }
    )
    kept = Journal(tmp_path)
    kept.write("mine:policy", 7, [table, table[["count"]]])
    read = kept.read("mine:policy", 7)
    assert read
    for found, given in zip(read, (table, table[["count"]]), strict=True):
        pd.testing.assert_frame_equal(found, given, check_exact=True)
    assert np.signbit(read[0]["number"][1])


def test_names_that_differ_have_different_entries(tmp_path: Path) -> None:
    kept = Journal(tmp_path)
    names = ("a:b", "a_b", "A_b", "x" * 300, "x" * 301, "..", "/etc/passwd")
    assert len({kept.file(name, 0) for name in names}) == len(names)
    assert all(kept.file(name, 0).resolve().parent.parent == tmp_path.resolve() for name in names)


def test_a_damaged_entry_is_an_error_that_names_it(tmp_path: Path) -> None:
    kept = Journal(tmp_path)
    kept.write("fifo", 0, [pd.DataFrame({"jct_s": np.arange(100.0)})])
    file = kept.file("fifo", 0)
    whole = file.read_bytes()
    for broken in (whole[:-30], whole[:200] + b"\x01" + whole[201:], b""):
        file.write_bytes(broken)
        with pytest.raises(ValueError, match=rf"{file.name} is damaged"):
            kept.read("fifo", 0)


class Canary:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


def test_a_journal_unpickles_nothing(tmp_path: Path) -> None:
    kept, canary = Journal(tmp_path), tmp_path / "ran"
    kept.write("fifo", 0, [])
    file = kept.file("fifo", 0)
    np.savez(file, allow_pickle=True, **{journal.ABOUT: np.array([Canary(canary)], object)})
    with pytest.raises(ValueError, match=rf"{file.name} is damaged"):
        kept.read("fifo", 0)
    assert not canary.exists()
    np.load(file, allow_pickle=True)[journal.ABOUT]
    assert canary.exists(), "the entry is hostile"


def test_an_entry_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda number: (_ for _ in ()).throw(OSError(5, "I/O error")))
    with pytest.raises(RuntimeError, match="cannot write the results to"):
        Journal(tmp_path).write("fifo", 0, [pd.DataFrame({"a": [1]})])
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


KILLS = """
import os, signal
from gpu_cluster_gym.baselines.sjf import policy as sjf

class Policy:
    def __init__(self):
        self.asked = 0

    def __call__(self, view):
        self.asked += 1
        if self.asked == 20 and os.path.exists("deadly"):
            os.remove("deadly")
            os.kill(os.getpid(), signal.SIGKILL)
        return sjf(view)
"""


def test_a_run_of_ones_own_policy_continues_after_kill_9(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kills_itself.py").write_text(KILLS)
    command = [sys.executable, "-m", "gpu_cluster_gym.evaluate"]
    given = ["--policy", "fifo", "kills_itself:Policy", *SMALL[:-1], "1"]
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", ""), *sys.path])
    (tmp_path / "deadly").touch()
    died = subprocess.run(
        [*command, *given, "--out", "out"], cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, check=False
    )
    assert died.returncode == -signal.SIGKILL
    assert len([*(tmp_path / "out").rglob("*.npz")]) == 1
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["--resume", "out"]) == 2  # a folder names no code unless a flag says so
    assert main(["--resume", "out", "--trust"]) == 0
    assert main([*given, "--out", "whole"]) == 0
    assert results_of(tmp_path / "out") == results_of(tmp_path / "whole")


@pytest.mark.parametrize(
    ("policy", "changed"),
    [
        ("changes_later", "changes_later.py"),
        ("imports_it", "changes_later.py"),
        ("package_of_policies.mine", "package_of_policies/shared.py"),
    ],
)
def test_a_run_whose_policy_has_changed_is_not_resumed(
    policy: str,
    changed: str,
    tmp_path: Path,
    after: Callable[[int, BaseException], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Otherwise one row would mix the windows of two policies, also where the change is in what a policy imports."""
    files = {
        "changes_later.py": "from gpu_cluster_gym.baselines.sjf import policy\n",
        "imports_it.py": "from changes_later import policy\n",
        "package_of_policies/shared.py": "from gpu_cluster_gym.baselines.sjf import policy\n",
        "package_of_policies/mine.py": "from package_of_policies.shared import policy\n",
    }
    (tmp_path / "package_of_policies").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for name in ("changes_later", "imports_it", "package_of_policies.mine", "package_of_policies.shared"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    after(2, KeyboardInterrupt())
    assert main(["--policy", "fifo", f"{policy}:policy", *SMALL, "--out", "out"]) == 130
    assert "continue it with --resume out --trust" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    (tmp_path / changed).write_text("from gpu_cluster_gym.baselines.las import policy\n")
    assert main(["--resume", "out", "--trust"]) == 2
    assert "out cannot be resumed (changed since: policies): start a new run" in capsys.readouterr().err


def test_a_finished_run_is_repeated_and_compared(
    uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = ("--again", str(uninterrupted), "--out")
    assert main([*again, str(tmp_path / "equal")]) == 0
    assert f"Equal to {uninterrupted} to the last bit." in capsys.readouterr().out
    assert results_of(tmp_path / "equal") == results_of(uninterrupted)
    jobs = tmp_path / "equal" / "srtf" / "jobs.csv"
    jobs.write_text(jobs.read_text().replace("0", "1", 1))  # one digit
    assert main(["--again", str(tmp_path / "equal"), "--out", str(tmp_path / "other")]) == 2
    assert "is not equal to" in (error := capsys.readouterr().err)
    assert "srtf/jobs.csv differs" in error


def test_what_cannot_be_resumed_or_repeated_is_refused(
    uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for args, why in (
        (["--resume", str(uninterrupted)], "has finished: repeat it with --again"),
        (["--resume", str(uninterrupted), "--windows", "9"], "drop --windows"),
        (["--resume", str(uninterrupted), "--out", "x"], "drop --out"),
        (["--again", str(tmp_path)], "has no readable journal.json"),
        (["--resume", str(uninterrupted), "--again", str(uninterrupted)], "drop --again"),
    ):
        assert main(args) == 2
        assert why in capsys.readouterr().err


def test_settings_of_a_paper_are_kept_apart(tmp_path: Path) -> None:
    """They have the same policies and windows, on other jobs."""
    few, more = (
        windows(replace(named("philly_backlog"), jobs=jobs, all_windows=True), "test", 1) for jobs in (20, 30)
    )
    policies = default_policies("fifo")
    kept = Journal(tmp_path)
    for _ in range(2):  # the second time, all are read
        settings = [Setting(name, loads, policies) for name, loads in (("few", few), ("more", more))]
        results = simulate(settings, journal=kept).results
        assert [len(results[name, "fifo"]) for name in ("few", "more")] == [20, 30]
        assert len([*tmp_path.rglob("*.npz")]) == 2


@pytest.mark.slow(reason="starts the command ten times")
def test_a_run_continues_after_kill_9_at_random_moments(uninterrupted: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(42)
    for number, seconds in enumerate(rng.uniform(1.5, 5.0, 10)):
        out = tmp_path / str(number)
        args = [sys.executable, "-m", "gpu_cluster_gym.evaluate", *arguments(out, "--record")]
        with subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(seconds)
            process.kill()
        if not (out / run_folder.JOURNAL_HEADER).exists():
            continue  # killed before its first result
        if run_folder.status_of(out) != "finished":
            assert main(["--resume", str(out)]) == 0
        assert results_of(out) == results_of(uninterrupted)


@pytest.mark.parametrize(("number", "passes"), [(errno.EINVAL, True), (errno.EIO, False)])
def test_only_a_file_system_that_cannot_flush_folders_is_forgiven(
    number: int, passes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush, file = os.fsync, tmp_path / "kept"

    def of_files_only(opened: int) -> None:
        if stat.S_ISDIR(os.fstat(opened).st_mode):
            raise OSError(number, os.strerror(number))
        flush(opened)

    monkeypatch.setattr(os, "fsync", of_files_only)
    with nullcontext() if passes else pytest.raises(OSError, match=os.strerror(number)):
        run_folder.write_atomically(file, b"content")
    assert file.read_bytes() == b"content"
