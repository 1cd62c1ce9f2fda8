"""Settings and fixtures that several test files share."""

import atexit
import gc
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """Let a worker process exit at once when it ends, since an orderly exit takes seconds."""
    if hasattr(config, "workerinput"):
        atexit.register(os._exit, 0)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the kernel before the workers start, since each would compile it if the cache is empty."""
    from gpu_cluster_gym.simulator.kernel._pipeline import ANNOUNCED

    option = session.config.option
    if getattr(option, "numprocesses", None) and not option.collectonly:
        from tests.cases import first

        first.compile_all()
    # Compilation is not announced, since tests compare messages exactly.
    os.environ.setdefault(ANNOUNCED, "1")
    os.environ.pop("COLUMNS", None)  # tables have as many columns as fit in a line
    gc.disable()  # until all tests have been imported, which leaves no garbage


def pytest_collection_finish() -> None:
    """Enable garbage collection again, but run it less often and skip all imported objects."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show no progress of slow steps, such as a first compilation, since their time depends on the machine."""
    monkeypatch.setattr("gpu_cluster_gym.evaluation.command.PATIENCE_S", 1e6)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no images of validations, which takes longer than the validation."""
    monkeypatch.setattr("gpu_cluster_gym.agents.callbacks.show_image", lambda *drawn: None)


@pytest.fixture
def few_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let environments have four windows where no number is given, and not 64, which are prepared one by one.

    The default workload is shorter, and records of steady windows have room for their own jobs alone: for more than
    512, the kernel would be compiled once more.
    """
    from gpu_cluster_gym.envs.env import GPUClusterEnv, UnionEnv
    from gpu_cluster_gym.workloads import Workload, quick

    short = replace(quick.scenario, warm_days=0.08, counted_days=0.08, after_days=0.08)
    monkeypatch.setattr(quick, "scenario", short)
    monkeypatch.setattr(Workload, "room", property(lambda load: len(load.jobs)))

    for kind in (GPUClusterEnv, UnionEnv):
        defaults: Any = kind.__init__.__kwdefaults__
        monkeypatch.setitem(defaults, "count", 4)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of public traces next to a developer's checkout; most machines have none."""
    for folder in (ROOT.parent / "shared" / "data", ROOT / "shared" / "data"):
        if folder.is_dir():
            return folder
    pytest.skip("no shared/data beside the checkout: this test reads real traces, which are not distributed")
