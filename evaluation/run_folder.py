"""The folder of a run: its choices beside what came of them."""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

CHOICES, SUMMARY, JOBS, STATUS = "choices.json", "summary.json", "jobs.csv", "status.json"
RUNS = Path("runs")
ABOUT_THE_RUN = (
    "out",
    "config",
    "workload",
    "processes",
    "record",
    "report",
    "perfetto",
    "track",
)  # these choose nothing about the results
BEST = "best"  # of a run of training, the folder of the agent that validated best


def open_run_folder(prefix: str, choices: Any, out: str | Path | None = None) -> Path:
    """Return a folder that no other run has, with the choices (a dataclass) in it.

    It is `out`, or else `runs/<prefix>-<time>-<hash of the choices>`. ValueError if `out` holds a run already, or what
    one that failed has left.
    """
    text = json.dumps({k: v for k, v in asdict(choices).items() if k not in ABOUT_THE_RUN}, indent=2) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    name = f"{prefix}-{datetime.now():%Y%m%d-%H%M%S}-{digest}"
    folder = RUNS / name if out is None else Path(out)
    if status_of(folder) == "failed":
        if left := sorted({each.name for each in folder.iterdir()} - {CHOICES, STATUS}):
            raise ValueError(
                f"{folder} holds what a run that failed has left, such as {left[0]}: remove it, or give another folder "
                "with --out"
            )
        (folder / CHOICES).unlink(missing_ok=True)  # it came to nothing, so the folder is free again
    try:
        folder = _fresh(folder) if out is None else folder
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / CHOICES).open("x", encoding="utf-8") as file:  # fails where another run has come first
            file.write(text)
    except FileExistsError:
        what = "holds a run already" if folder.is_dir() else "is a file"
        raise ValueError(f"{folder} {what}: give another folder with --out") from None
    except OSError as error:
        raise ValueError(f"{folder} cannot be written to: {error.strerror}") from None
    return folder


@contextmanager
def noting(folder: Path) -> Iterator[None]:
    """Note in a run folder how what is done meanwhile goes: it is running, then finished, interrupted or failed."""
    began = _now()
    _note(folder, status="running", began=began)
    try:
        yield
    except KeyboardInterrupt:
        _note(folder, status="interrupted", began=began, ended=_now())
        raise
    except BaseException as error:
        _note(folder, status="failed", began=began, ended=_now(), why=f"{type(error).__name__}: {error}")
        raise
    _note(folder, status="finished", began=began, ended=_now())


def status_of(folder: Path) -> str | None:
    """Return how the run of a folder went; `running` too where it was killed; None where nothing tells."""
    try:
        found = json.loads((folder / STATUS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    status = found.get("status") if isinstance(found, dict) else None
    return status if isinstance(status, str) else None


def agent_folder(folder: Path) -> Path:
    """Return the folder of an agent: of a run's own, that of its best."""
    return folder / BEST if (folder / BEST).is_dir() else folder


def agent_name(folder: Path) -> str:
    """Return what to call an agent: the folder of its run, which holds it as `best` or among checkpoints."""
    kept = folder.name == BEST or folder.parent.name == "checkpoints"
    return f"{run_of(folder).name}_{folder.name}" if kept else f"agent_{folder.name}"


def run_of(folder: Path) -> Path:
    """Return the folder of the run that an agent's folder is of."""
    return folder.parent if folder.name == BEST else folder.parent.parent


def unfinished(folder: Path) -> str | None:
    """Return a sentence on a run folder whose run is not known to have finished, else None."""
    status = status_of(folder)
    said = {
        "running": f"the run in {folder} has not finished: it is running still, or was killed",
        "interrupted": f"the run in {folder} was interrupted",
        "failed": f"the run in {folder} failed: see its {STATUS}",
    }
    return said.get(status or "")


def _now() -> str:
    return datetime.now().isoformat(timespec="seconds")


def _note(folder: Path, **said: str) -> None:
    write_json(folder / STATUS, said)


def _fresh(wanted: Path) -> Path:
    """Make and return a new folder; of several runs in one second the later get a number."""
    for number in count(1):
        folder = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise AssertionError


def write_run(folder: Path, results: Mapping[str, "pd.DataFrame"], summary: Mapping[str, Any]) -> None:
    """Write every policy's results table, each float with all its digits, and the summary."""
    for name, table in results.items():
        place = folder / folder_name(name)
        place.mkdir(exist_ok=True)
        table.to_csv(place / JOBS, index=False)
    write_json(folder / SUMMARY, summary)


def folder_name(policy: str) -> str:
    """Return the name of a policy's folder: its own, with what no file system minds."""
    return re.sub(r"[^\w.-]", "_", policy)


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write JSON whole or not at all; numbers that JSON lacks become null."""
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    partial.write_text(json.dumps(_plain(content), indent=2, allow_nan=False) + "\n", encoding="utf-8")
    partial.replace(file)


def _plain(content: Any) -> Any:
    match content:
        case Mapping():
            return {key: _plain(value) for key, value in content.items()}
        case list() | tuple():
            return [_plain(value) for value in content]
        case float() if not math.isfinite(content):
            return None
        case _:
            return content
