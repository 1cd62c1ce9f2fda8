"""Journal of a run: the outcome of each policy on each window, committed to the run folder as soon as it is known.

An interrupted run continues from its journal. An entry holds tables of numbers and text and nothing that could be
executed, and is either complete or absent, since it is renamed into place after it has reached the disk.
"""

import hashlib
import io
import json
import shutil
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from gpu_cluster_gym.evaluation import provenance, run_folder
from gpu_cluster_gym.evaluation.run_folder import JOURNAL_HEADER, write_atomically

if TYPE_CHECKING:
    from gpu_cluster_gym.workloads import Workload

ABOUT = "about"
"""Array of an entry with its policy, window, columns and texts, as JSON."""


class Journal(NamedTuple):
    """Outcomes of policies on windows, a file each.

    folder: of the entries.
    """

    folder: Path

    def within(self, name: str) -> "Journal":
        """Return the journal of a part of the run."""
        return Journal(self.folder / _distinct(name))

    def file(self, policy: str, window: int) -> Path:
        """Return the file of an entry."""
        return self.folder / _distinct(policy) / f"{window}.npz"

    def write(self, policy: str, window: int, tables: Sequence[pd.DataFrame]) -> None:
        """Commit the tables of an outcome; RuntimeError where the disk is full."""
        about: dict[str, Any] = {"policy": policy, "window": window, "tables": []}
        arrays: dict[str, np.ndarray] = {}
        for number, table in enumerate(tables):
            columns: list[dict[str, Any]] = []
            for place, (name, column) in enumerate(table.items()):
                columns.append({"name": str(name), "dtype": str(column.dtype)})
                if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
                    arrays[f"{number}.{place}"] = column.to_numpy()
                    continue
                if isinstance(column.dtype, pd.CategoricalDtype):
                    columns[-1]["categories"] = column.cat.categories.tolist()
                columns[-1]["cells"] = column.astype(object).tolist()
            about["tables"].append(columns)
        arrays[ABOUT] = np.frombuffer(json.dumps(about).encode(), np.uint8)
        packed = io.BytesIO()
        np.savez(packed, allow_pickle=False, **arrays)
        file = self.file(policy, window)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, packed.getvalue())
        except OSError as error:
            raise RuntimeError(
                f"cannot write the results to {file.parent}: {error.strerror or error} (correct this, then resume)"
            ) from error

    def read(self, policy: str, window: int) -> list[pd.DataFrame] | None:
        """Return the tables of an outcome, None without one; ValueError for a damaged entry."""
        file = self.file(policy, window)
        try:
            with file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
                about = json.loads(arrays[ABOUT].tobytes())
                return [
                    pd.DataFrame(
                        {
                            each["name"]: _column(arrays, f"{number}.{place}", each)
                            for place, each in enumerate(columns)
                        }
                    )
                    for number, columns in enumerate(about["tables"])
                ]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
            raise ValueError(f"{file} is damaged ({error}): remove it, then resume") from None


def _column(arrays: Any, key: str, about: Mapping[str, Any]) -> pd.Series:
    if "cells" not in about:
        return pd.Series(arrays[key])
    categories = about.get("categories")
    dtype = about["dtype"] if categories is None else pd.CategoricalDtype(categories)
    return pd.Series(about["cells"], dtype=dtype)


def _distinct(name: str) -> str:
    """Return a file name for any name, different for different names also where case is ignored."""
    return f"{run_folder.folder_name(name)[:60]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def begin(
    folder: Path, asked: Mapping[str, Any], policies: Iterable[str], workloads: "Iterable[Workload]"
) -> Journal:
    """Return the journal of a run folder, new or continued.

    asked: choices that the run folder does not store elsewhere, by field.
    policies: names on the command line. workloads: all windows to simulate.
    ValueError where jobs, policies, code or libraries have changed since the run began.
    """
    sources = _sources(policies, workloads)
    if not (folder / JOURNAL_HEADER).exists():
        run_folder.write_json(folder / JOURNAL_HEADER, {"asked": asked, "sources": sources})
    elif changed := changes(folder, sources):
        raise ValueError(f"{folder} cannot be resumed ({changed}): start a new run")
    return Journal(folder / run_folder.JOURNAL)


def changes(folder: Path, sources: Mapping[str, Any]) -> str:
    """Return in words which sources differ from those of a run folder; empty if none does."""
    before = header(folder)["sources"]
    changed = sorted(name for name in {*before, *sources} if before.get(name) != sources.get(name))
    return f"changed since: {', '.join(changed)}" if changed else ""


def header(folder: Path) -> dict[str, Any]:
    """Return the choices and sources that the journal of a run folder depends on; ValueError without a journal."""
    try:
        found: dict[str, Any] = json.loads((folder / JOURNAL_HEADER).read_text(encoding="utf-8"))
        if {*found} >= {"asked", "sources"} and all(isinstance(found[name], dict) for name in found):
            return found
    except (OSError, ValueError, TypeError):
        pass
    raise ValueError(
        f"{folder} has no readable {JOURNAL_HEADER}: expected the folder of a run of evaluate.py with "
        "--policy or --paper"
    )


def end(folder: Path) -> None:
    """Remove the entries of a run that has finished."""
    shutil.rmtree(folder / run_folder.JOURNAL, ignore_errors=True)


RESULTS = ("*/jobs.csv", "trials.csv", "claims.json", run_folder.SUMMARY)
"""Files that a repeated run must reproduce."""


def difference(folder: Path, before: Path) -> str:
    """Return how the results in two run folders differ, in words; empty if they are equal to the last bit."""
    files = {
        file.relative_to(each).as_posix()
        for each in (folder, before)
        for pattern in RESULTS
        for file in each.glob(pattern)
    }
    different = sorted(name for name in files if _content(folder / name) != _content(before / name))
    if not different:
        return ""
    why = changes(before, header(folder)["sources"])
    return f"{', '.join(different)} differ{'s' * (len(different) == 1)}{f' ({why})' if why else ''}"


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def _sources(policies: Iterable[str], workloads: "Iterable[Workload]") -> dict[str, Any]:
    """Return digests of what decides the results: jobs, own policies, the commit and the libraries."""
    jobs = hashlib.sha256()
    for load in workloads:
        jobs.update(f"{load.window} {load.scenario} {load.cluster}".encode())
        jobs.update(pd.util.hash_pandas_object(load.table).to_numpy().tobytes())
    own = hashlib.sha256()
    for file in sorted({each for policy in policies for each in _files(policy).values()}):
        own.update(file.name.encode() + b"\0" + file.read_bytes())
    return {
        "jobs": jobs.hexdigest(),
        "policies": own.hexdigest(),
        "commit": provenance.commit(),
        "libraries": provenance.versions(),
    }


def digests(policies: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the SHA-256 digest of each file of own policies and agents, by policy and by path below their folder."""
    return {
        policy: {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items()}
        for policy in policies
        if (files := _files(policy))
    }


def _files(policy: str) -> dict[str, Path]:
    """Return the files of an agent's folder, or of a `module:attribute` and what has been imported around it.

    That is its package, or, for a module of no package, the modules of the current folder. This project's own modules
    are left out but for that of the policy: they have a commit and a version.
    """
    policy = policy.removeprefix("lookahead:")
    if Path(policy).is_dir():
        agent = run_folder.agent_folder(Path(policy))
        return {file.name: file for file in sorted(agent.iterdir()) if file.is_file()}
    own, _, attribute = policy.partition(":")
    if own == "tuned":  # `tuned:NAME`
        return {}
    found: dict[str, Path] = {}
    for name, module in sorted(sys.modules.items()) if attribute else ():
        file = Path(getattr(module, "__file__", None) or "")
        if name != own and not _is_near(name, file, own):
            continue
        if file.is_file():
            found[f"{name.replace('.', '/')}{'/__init__' * (file.stem == '__init__')}.py"] = file
    return found


def _is_near(name: str, file: Path, own: str) -> bool:
    """Return whether a module is in the package of another, or like that one in no package but the current folder."""
    top = own.partition(".")[0]
    if top == __name__.partition(".")[0]:
        return False
    if top != own:
        return name.partition(".")[0] == top
    started = name in ("__main__", "_checkout")  # the command itself
    return "." not in name and not started and file.suffix == ".py" and file.resolve().parent == Path.cwd()
