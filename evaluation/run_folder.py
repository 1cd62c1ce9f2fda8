"""Run folders: choices, status and results of a run."""

import errno
import hashlib
import json
import math
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

CHOICES, SUMMARY, JOBS, STATUS = "choices.json", "summary.json", "jobs.csv", "status.json"
NOTES, ERRORS, TENANTS, OWNERS = "notes.txt", "errors.txt", "tenants.csv", "owners.csv"
RUNS = Path("runs")
ABOUT_THE_RUN = (
    "out",
    "config",
    "workload",
    "processes",
    "backend",
    "address",
    "record",
    "report",
    "perfetto",
    "again",
    "trust",
    "track",
    "resume",
)  # choices that do not change the results
RESUMABLE = "resumable"  # folder of the state from which a training run is continued
JOURNAL, JOURNAL_HEADER = "journal", "journal.json"  # folder and file from which an evaluation is continued
BEST = "best"  # folder of the best validated agent in a training run
NO_FLUSH = (errno.EINVAL, errno.ENOTSUP)  # errors of network file systems that cannot flush a folder
RECORDED = "recorded"  # name of the schedule of a log, which is not simulated


def open_run_folder(prefix: str, choices: Any, out: str | Path | None = None) -> Path:
    """Return a new run folder with the choices (a dataclass) in it: `out` or `runs/<prefix>-<time>-<hash>`.

    Raise ValueError where `out` is empty, has a run already, or the files of a failed or killed one.
    """
    if out is not None and not str(out).strip():
        raise ValueError('--out "" names no folder: name one, or drop --out')
    text = json.dumps({k: v for k, v in asdict(choices).items() if k not in ABOUT_THE_RUN}, indent=2) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    name = f"{prefix}-{datetime.now():%Y%m%d-%H%M%S}-{digest}"
    folder = RUNS / name if out is None else Path(out)
    if (status := status_of(folder)) in ("failed", "killed"):
        if left := sorted({each.name for each in folder.iterdir()} - {CHOICES, STATUS, JOURNAL_HEADER}):
            go_on = f"continue it with --resume {folder}, " if resumable(folder) else ""
            raise ValueError(
                f"{folder} is not empty ({left[0]} ... of a {status} run): {go_on}remove it, or pass another folder "
                "with --out"
            )
        for name in (CHOICES, JOURNAL_HEADER):  # that run left nothing else
            (folder / name).unlink(missing_ok=True)
    try:
        folder = _fresh(folder) if out is None else folder
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / CHOICES).open("x", encoding="utf-8") as file:  # fails where another run was first
            file.write(text)
    except FileExistsError:
        what = "has a run already" if folder.is_dir() else "is a file"
        raise ValueError(f"{folder} {what}: pass another folder with --out") from None
    except OSError as error:
        raise ValueError(f"{folder} is not writable: {error.strerror}") from None
    return folder


@contextmanager
def noting(folder: Path) -> Iterator[None]:
    """Record the status of a run in its folder: running, with its process, then finished, interrupted or failed."""
    began = _now()
    _note(folder, status="running", began=began, **process(os.getpid()))
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
    """Return the status of a run: running, killed, finished, interrupted or failed; None without a readable file.

    A run on another machine, whose processes cannot be seen from here, counts as running.
    """
    found = _noted(folder)
    status = found.get("status")
    if status == "running" and (pid := found.get("pid")) and found.get("host") == socket.gethostname():
        own = {name: found.get(name) for name in process(pid)}
        return "running" if own == process(pid) else "killed"
    return status if isinstance(status, str) else None


def resumable(folder: Path) -> bool:
    """Return whether a run has saved the state to resume from."""
    return any((folder / each).exists() for each in (RESUMABLE, JOURNAL)) or any(
        folder.glob(f"seed-*/{RESUMABLE}")
    )


def process(pid: int) -> dict[str, Any]:
    """Return the identity of a process: ID, machine and, if known, its start, since IDs are reused.

    The start is None for a process that has ended.
    """
    own = {"pid": pid, "host": socket.gethostname()}
    if Path("/proc/self/stat").exists():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            return own | {"start": None}
        return own | {"start": None if fields[0] == "Z" else int(fields[19])}  # in ticks since boot
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return own | {"start": None}
    except PermissionError:
        pass
    return own | {"start": 0}


def _noted(folder: Path) -> dict[str, Any]:
    """Return the content of a status file; {} without a readable one."""
    try:
        found = json.loads((folder / STATUS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def agent_folder(folder: Path) -> Path:
    """Return the folder of an agent: a run folder's `best`, or the folder itself."""
    return folder / BEST if (folder / BEST).is_dir() else folder


def agent_name(folder: Path) -> str:
    """Return the name of an agent in tables: the run folder's name and `best` or the checkpoint's."""
    kept = folder.name == BEST or folder.parent.name == "checkpoints"
    return f"{run_of(folder).name}_{folder.name}" if kept else f"agent_{folder.name}"


def run_of(folder: Path) -> Path:
    """Return the run folder of an agent's folder."""
    return folder.parent if folder.name == BEST else folder.parent.parent


def unfinished(folder: Path) -> str | None:
    """Return a sentence on a run that is not known to have finished, else None."""
    status = status_of(folder)
    messages = {
        "running": f"the run in {folder} has not finished: it is still running",
        "killed": f"the run in {folder} was killed",
        "interrupted": f"the run in {folder} was interrupted",
        "failed": f"the run in {folder} failed: see its {STATUS}",
    }
    return messages.get(status or "")


def _now() -> str:
    return datetime.now().isoformat(timespec="seconds")


def _note(folder: Path, **status: Any) -> None:
    write_json(folder / STATUS, status)


def _fresh(folder: Path) -> Path:
    """Make and return a new folder, numbered where runs start in the same second."""
    for number in count(1):
        made = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        try:
            made.mkdir(parents=True)
        except FileExistsError:
            continue
        return made
    raise AssertionError


def write_run(folder: Path, results: Mapping[str, "pd.DataFrame"], summary: Mapping[str, Any]) -> None:
    """Write the results table of each policy, floats with all digits, and the summary."""
    for name, table in results.items():
        write_jobs(folder, name, table)
    write_json(folder / SUMMARY, summary)


def write_jobs(folder: Path, name: str, table: "pd.DataFrame") -> None:
    """Write a results table, floats with all digits, into the folder of a policy."""
    place = folder / folder_name(name)
    place.mkdir(exist_ok=True)
    table.to_csv(place / JOBS, index=False)


def write_notes(folder: Path, lines: Sequence[str]) -> Path:
    """Write the notes on a run, and return their file."""
    file = folder / NOTES
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def folder_name(policy: str) -> str:
    """Return the name of a policy's folder, with only characters that every file system allows."""
    return re.sub(r"[^\w.-]", "_", policy)


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write JSON atomically; non-finite numbers become null."""
    write_atomically(file, (json.dumps(_plain(content), indent=2, allow_nan=False) + "\n").encode())


def write_atomically(file: Path, content: bytes) -> None:
    """Write a file whole or not at all, whatever happens, also after a power failure."""
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with partial.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(file)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # the rename itself is on the disk once the folder is
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        except OSError as error:
            if error.errno not in NO_FLUSH:
                raise
        finally:
            os.close(folder)


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
