"""What several test files need."""

import atexit
import gc
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """Let a process beside others simply end, the last thing that it does: to take all apart takes it seconds."""
    if hasattr(config, "workerinput"):
        atexit.register(os._exit, 0)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the kernel before workers begin, each of which would compile it for itself where nothing is kept."""
    from gpu_cluster_gym.simulator.kernel._pipeline import ANNOUNCED

    option = session.config.option
    if getattr(option, "numprocesses", None) and not option.collectonly:
        from tests.cases import first

        first.compile_all()
    # What is compiled in a test says nothing: messages are held to the letter.
    os.environ.setdefault(ANNOUNCED, "1")
    os.environ.pop("COLUMNS", None)  # tables have as many columns as a line has room for
    gc.disable()  # until all tests have been imported: nothing of that is garbage


def pytest_collection_finish() -> None:
    """Look for garbage again, but less often, and never more among the tests themselves and what they import."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be told of what takes long, as what is compiled first does: how long is the machine's."""
    monkeypatch.setattr("gpu_cluster_gym.evaluation.command.PATIENCE_S", 1e6)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no images of validations, where they are not looked at: that takes longer than to validate."""
    monkeypatch.setattr("gpu_cluster_gym.agents.callbacks.show_image", lambda *drawn: None)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of public traces that lies beside a developer's checkout; most machines have none."""
    for folder in (ROOT.parent / "shared" / "data", ROOT / "shared" / "data"):
        if folder.is_dir():
            return folder
    pytest.skip("no shared/data beside the checkout: this test reads real traces, which are not distributed")
