"""Choices from flags or a file, and the run folder that keeps them beside what came of them."""

import difflib
import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from datetime import datetime
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from workloads import Scenario, named
from workloads import names as workload_names

if TYPE_CHECKING:
    import pandas as pd

CHOICES, SUMMARY, JOBS = "choices.json", "summary.json", "jobs.csv"
RUNS = Path("runs")
ABOUT_THE_RUN = ("out", "config", "workload", "processes")  # these choose nothing about the results
LEAST: dict[str, float] = {"seed": 0, "jobs": 1, "windows": 1, "processes": 1, "tick": 0}
POSITIVE = ("target_load", "max_duration")


def flag_names(choices: type) -> list[str]:
    """Return the flags of a dataclass of choices and of the dataclasses inside it."""
    found = []
    hints = get_type_hints(choices)
    for field in fields(choices):
        if is_dataclass(hints[field.name]):
            found += flag_names(hints[field.name])
            continue
        name = field.name.replace("_", "-")
        found += [f"--{name}", f"--no-{name}"] if hints[field.name] is bool else [f"--{name}"]
    return found


def check_flags(args: Iterable[str], choices: type) -> None:
    """Refuse unknown flags; ValueError names those that exist and the nearest."""
    known = flag_names(choices)
    for arg in args:
        flag = arg.partition("=")[0].replace("_", "-")
        if flag.startswith("--") and flag not in (*known, "--help"):
            near = difflib.get_close_matches(flag, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"there is no flag {flag}: there are {', '.join(known)}{hint}")


def with_defaults(args: Sequence[str], choices: type) -> list[str]:
    """Return the arguments with those that `--workload` and then `--config` stand for put before them.

    Of the run of another command, which has groups that `choices` lacks, the scenario alone is taken.
    """
    workload = [flag for name in _given(args, "--workload")[-1:] for flag in workload_flags(name)]
    config = [flag for file in _given(args, "--config")[-1:] for flag in flags(file, choices)]
    return workload + config + list(args)


def _given(args: Sequence[str], flag: str) -> list[str]:
    joined = [arg.partition("=")[2] for arg in args if arg.startswith(f"{flag}=")]
    return joined + [value for arg, value in pairwise(args) if arg == flag]


def workload_flags(name: str) -> list[str]:
    """Return what a named workload chooses as command-line flags; ValueError for an unknown one."""
    scenario = named(name)
    usual = Scenario()
    changed = {key: value for key, value in vars(scenario).items() if value != getattr(usual, key)}
    return [flag for key, value in changed.items() for flag in _flag(key, value)]


def workload_like(scenario: Scenario) -> str | None:
    """Return the name of the workload that is this scenario but for the seed; None if none is."""
    plain = _spelt_out(scenario)
    found = (name for name in workload_names() if _spelt_out(named(name)) == plain)
    return next(found, None)


def _spelt_out(scenario: Scenario) -> Scenario:
    return replace(scenario, trace=scenario.trace_name, cluster=scenario.cluster_name, seed=0)


def flags(file: str | Path, choices: type) -> list[str]:
    """Return the choices in a JSON file, or in a run folder, as command-line flags.

    They are the fields by name, by themselves or in groups such as `scenario`. ValueError if
    the file is no such thing; what the names and values may be is checked with the flags.
    """
    file = Path(file)
    file = file / CHOICES if file.is_dir() else file
    try:
        given = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{file}: no choices could be read: {error}") from None
    if not isinstance(given, dict):
        raise ValueError(f"{file}: expected an object with choices by name")
    groups = {name for name, value in given.items() if isinstance(value, dict)}
    if groups - {field.name for field in fields(choices)} and "scenario" in groups:
        given = given["scenario"]
    named: dict[str, object] = {}
    for name, value in given.items():
        named |= value if isinstance(value, dict) else {name: value}
    return [flag for name, value in named.items() for flag in _flag(name, value)]


def _flag(name: str, value: object) -> list[str]:
    dashed = name.replace("_", "-")
    match value:
        case None:
            return []
        case bool():
            return [f"--{dashed}" if value else f"--no-{dashed}"]
        case str() | int() | float():
            return [f"--{dashed}={value}"]
        case _:
            raise ValueError(f"choice {name!r}: expected a word, a number, true, false or null")


def check_numbers(choices: Any) -> None:
    """Refuse numbers that mean nothing in a dataclass of choices and in its scenario, with a ValueError."""
    inner = [vars(value) for value in vars(choices).values() if is_dataclass(value)]
    given = {name: value for group in (vars(choices), *inner) for name, value in group.items()}
    for name, value in given.items():
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        flag = f"--{name.replace('_', '-')} {value:g}"
        if not math.isfinite(value):
            raise ValueError(f"{flag}: expected a finite number")
        if name in POSITIVE and value <= 0:
            raise ValueError(f"{flag}: expected more than 0")
        if value < LEAST.get(name, -math.inf):
            raise ValueError(f"{flag}: expected at least {LEAST[name]:g}")


def open_run_folder(prefix: str, choices: Any, out: str | Path | None = None) -> Path:
    """Return a folder that no other run has, with the choices (a dataclass) in it.

    It is `out`, or else `runs/<prefix>-<time>-<hash of the choices>`. ValueError if `out` holds a run already.
    """
    text = json.dumps({k: v for k, v in asdict(choices).items() if k not in ABOUT_THE_RUN}, indent=2) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    name = f"{prefix}-{datetime.now():%Y%m%d-%H%M%S}-{digest}"
    folder = RUNS / name if out is None else Path(out)
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


def abandon(folder: Path) -> None:
    """Give up a run that came to nothing: its folder is free again."""
    (folder / CHOICES).unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


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
