"""A signal ends a run soon; no worker survives its parent; a killed run is told from a running one."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.trust import children, is_alive, signals
from gpu_cluster_gym.agents.callbacks import logged
from gpu_cluster_gym.evaluation import command, run_folder, stopping
from gpu_cluster_gym.evaluation.provenance import ROOT
from gpu_cluster_gym.workloads import Scenario


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_a_command_with_its_code(
    number: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(args: Any) -> None:
        try:
            os.kill(os.getpid(), number)
            time.sleep(60)
        except KeyboardInterrupt as stop:
            raise stopping.with_message(stop, "interrupted in the middle") from None

    before = signal.signal(
        number, signal.default_int_handler
    )  # it is ignored where tests run in the background
    try:
        assert command.run("test", work, []) == code
        assert "interrupted in the middle" in capsys.readouterr().err
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)


STARTS = (
    ["-m", "gpu_cluster_gym", "evaluate"],
    ["-m", "gpu_cluster_gym.evaluate"],
    ["evaluate.py"],
    ["train_agent.py"],
)


@pytest.mark.parametrize("given", STARTS, ids=" ".join)
def test_ctrl_c_while_a_command_imports_ends_in_a_line(given: list[str], tmp_path: Path) -> None:
    code = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    (tmp_path / "gymnasium.py").write_text(code, encoding="utf-8")  # in its place
    done = interrupted(given, tmp_path)
    assert (done.returncode, done.stderr) == (130, "gpu-cluster-gym: interrupted\n")


def test_ctrl_c_later_ends_in_a_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    def work(args: Any) -> None:
        raise KeyboardInterrupt

    assert command.run("test", work, []) == 130
    assert capsys.readouterr().err == "test: interrupted\n"


def test_importing_the_package_handles_no_signal(tmp_path: Path) -> None:
    code = "import signal, gpu_cluster_gym as _\nassert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    assert interrupted(["-c", code], tmp_path).returncode == 0


def interrupted(given: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run Python with modules of a folder before all others; Ctrl-C is not ignored, as in the background it is."""
    paths = os.pathsep.join([str(folder), str(ROOT / ".typing"), str(ROOT)])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.run(
            [sys.executable, *given],
            env={**os.environ, "PYTHONPATH": paths},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("module", "waits"), [("llvmlite.binding.module", True), ("llvmlite", True), ("llvmlites", False)]
)
def test_a_signal_waits_until_llvm_returns(module: str, waits: bool) -> None:
    """An exception within its Python layer is lost in callbacks, or ends in a segmentation fault."""
    compiler: dict[str, Any] = {"__name__": module}  # a function of that module
    exec("def link(interrupt):\n    interrupt()\n    linked.append(True)", compiler)
    compiler["linked"] = linked = list[bool]()

    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5 * stopping.RETRY_S)

    def work(args: Any) -> None:
        compiler["link"](interrupt)
        time.sleep(60)

    assert command.run("test", work, []) == 143
    assert linked == [True] * waits


def test_an_ignored_signal_stays_ignored() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert command.run("test", lambda args: os.kill(os.getpid(), signal.SIGHUP), []) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_run_that_does_not_react_is_ended(tmp_path: Path) -> None:
    """A cleanup that waits for ever, with a patience of 0.2 s."""
    script = (
        "import os, signal, threading\n"
        "from gpu_cluster_gym.evaluation import stopping\n"
        "stopping.PATIENCE_S = 0.2\n"
        "with stopping.stoppable():\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    finally:\n"
        "        threading.Event().wait()\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=30).returncode == 143


@pytest.mark.parametrize(("code", "taken_apart"), [(143, False), (0, True), (2, True)])
def test_after_a_signal_nothing_is_taken_apart(code: int, taken_apart: bool) -> None:
    """Objects are not ended after a signal, which takes seconds; what is registered and printed is kept."""
    script = (
        "import atexit, sys\n"
        "from gpu_cluster_gym.evaluation import stopping\n"
        "class Loaded:\n"
        "    def __del__(self, write=sys.stderr.write):\n"
        "        write('taken apart ')\n"
        "loaded = Loaded()\n"
        "atexit.register(print, 'registered')\n"
        "print('printed', end=' ')\n"
        f"stopping.leave({code})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, timeout=60, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (code, "printed registered\n")
    assert ("taken apart" in done.stderr) is taken_apart


def test_an_end_that_hangs_is_ended() -> None:
    """What is registered waits for ever, with a patience of 0.2 s."""
    script = (
        "import atexit, threading\n"
        "from gpu_cluster_gym.evaluation import stopping\n"
        "stopping.LEAVE_S = 0.2\n"
        "atexit.register(threading.Event().wait)\n"
        "stopping.leave(129)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=30).returncode == 129


def test_a_worker_ends_with_its_parent() -> None:
    """The parent ends by `kill -9` while its worker waits."""
    worker = (
        "import sys, time; from gpu_cluster_gym.evaluation.stopping import end_with; "
        "end_with(int(sys.argv[1])); time.sleep(600)"
    )
    parent = (
        "import os, subprocess, sys, time; "
        f"subprocess.Popen([sys.executable, '-c', {worker!r}, str(os.getpid())]); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", parent]) as run:
        while not (found := children(run.pid)):
            time.sleep(0.01)
        run.kill()
    limit = time.monotonic() + 20
    while is_alive(found[0]) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not is_alive(found[0])


@pytest.mark.parametrize(
    ("action", "name"), [pytest.param("plain", "SIGTERM", marks=pytest.mark.slow), ("steer", "SIGHUP")]
)
def test_a_training_run_ends_on_a_signal_without_orphans(action: str, name: str) -> None:
    """One run, with patience for a busy machine; `python -m benchmarks.trust` ends five by each signal."""
    found = signals((name,), rounds=1, within_s=2.0, limit_s=60.0, actions=(action,))
    assert [each.examples for each in found if each.wrong] == []


# Statuses.


@pytest.fixture
def running(tmp_path: Path) -> Path:
    """Return the folder of a run of this process."""
    folder = run_folder.open_run_folder("test", Scenario(), tmp_path / "run")
    run_folder.write_json(
        folder / run_folder.STATUS, {"status": "running", **run_folder.process(os.getpid())}
    )
    return folder


def test_a_run_is_running_while_its_process_is(running: Path) -> None:
    assert run_folder.status_of(running) == "running"
    with pytest.raises(ValueError, match="has a run already"):
        run_folder.open_run_folder("test", Scenario(), running)


@pytest.mark.parametrize("other", ["ended", "reused"])
def test_a_killed_run_is_told_from_a_running_one(running: Path, other: str) -> None:
    """Its process has ended, or its ID belongs to another process by now."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    own = run_folder.process(os.getpid())
    noted = {"ended": own | {"pid": ended.pid}, "reused": own | {"start": 1}}[other]
    run_folder.write_json(running / run_folder.STATUS, {"status": "running", **noted})
    assert run_folder.status_of(running) == "killed"
    assert "was killed" in str(run_folder.unfinished(running))


def test_a_run_of_another_machine_counts_as_running(running: Path) -> None:
    away = run_folder.process(os.getpid()) | {"host": "another", "start": 1}
    run_folder.write_json(running / run_folder.STATUS, {"status": "running", **away})
    assert run_folder.status_of(running) == "running"


def test_the_folder_of_a_killed_run_is_free_where_nothing_is_left(running: Path) -> None:
    gone = run_folder.process(os.getpid()) | {"start": 1}
    run_folder.write_json(running / run_folder.STATUS, {"status": "running", **gone})
    assert run_folder.open_run_folder("test", Scenario(seed=1), running) == running
    run_folder.write_json(running / run_folder.STATUS, {"status": "running", **gone})
    (running / "validation.csv").touch()
    with pytest.raises(ValueError, match=r"is not empty \(validation.csv ... of a killed run\): remove it"):
        run_folder.open_run_folder("test", Scenario(), running)


def test_a_full_disk_ends_a_command_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def work(args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "jobs.csv")

    assert command.run("test", work, []) == 2
    assert capsys.readouterr().err == "test: no space is left on the disk (jobs.csv): free some\n"


@pytest.mark.parametrize(("number", "printed"), [(errno.ENOSPC, 0), (errno.EIO, 1)])
def test_a_full_disk_is_reported_once(
    number: int, printed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that writes curves fails, which ends the training: only another error is a traceback as well."""

    def write(self: Any, data: bytes) -> None:
        raise OSError(number, "not written")

    tracebacks: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", tracebacks.append)
    monkeypatch.setattr("tensorboard.summary.writer.record_writer.RecordWriter.write", write)
    before = set(threading.enumerate())
    with pytest.raises(OSError, match="not written"), logged(tmp_path, []) as logger:
        logger.dump()
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
    assert len(tracebacks) == printed


def test_other_errors_of_files_are_not_hidden() -> None:
    def work(args: Any) -> None:
        raise OSError(errno.EIO, "Input/output error", "jobs.csv")

    with pytest.raises(OSError, match="Input/output error"):
        command.run("test", work, [])
