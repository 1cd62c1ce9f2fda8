"""Choices of a command, from its flags, the file that `--config` names and the workload that `--workload` names."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_origin

from gpu_cluster_gym.evaluation import help
from gpu_cluster_gym.evaluation.cli_info import FLAGS
from gpu_cluster_gym.evaluation.command import tell
from gpu_cluster_gym.evaluation.run_folder import CHOICES, unfinished
from gpu_cluster_gym.simulator.choice import changed, flag, hints, names, what
from gpu_cluster_gym.traces import unknown
from gpu_cluster_gym.workloads import Scenario, named
from gpu_cluster_gym.workloads import names as workload_names

C = TypeVar("C")


class Preset(NamedTuple):
    """A choice that brings the usual values of a group of others, as the name of a workload brings a scenario.

    is_like: returns the name by which a group has its values, if there is one. keeps: fields of the group that no name
    decides.
    """

    group: str
    usual: Callable[[str], Any]
    is_like: Callable[[Any], str | None]
    keeps: tuple[str, ...]


def workload_like(scenario: Scenario) -> str | None:
    """Return the name of the workload that is this scenario but for the seed and what finished jobs teach, or None."""
    plain = _spelt_out(scenario)
    found = (name for name in workload_names() if _spelt_out(named(name)) == plain)
    return next(found, None)


def _spelt_out(scenario: Scenario) -> Scenario:
    return replace(
        scenario, trace=scenario.trace_name, cluster=scenario.cluster_name, seed=0, run_time_predictor=None
    )


WORKLOAD = {"workload": Preset("scenario", named, workload_like, keeps=("seed", "run_time_predictor"))}


def read(
    kind: type[C],
    args: Sequence[str],
    *,
    command: str,
    about: str,
    presets: Mapping[str, Preset] = WORKLOAD,
) -> C:
    """Return the choices in the flags, which override those of the file and of the presets that they name.

    A request for help, or for the completion of a shell, is answered, and then SystemExit. ValueError says what a flag
    cannot be.
    """
    if help.is_asked(args):
        help.show(kind, args, command=command, about=about)
    asked = given(args, kind)
    if not asked.keys() & {"workload", "config"} and (said := only_its_jobs(asked.get("trace"))):
        tell(f"Note: {said}.")
    return changed(beginning(kind, asked, presets), asked)


def only_its_jobs(trace: str | None) -> str:
    """Say that a trace's name alone brings jobs without the cluster of the workload of that name; empty elsewhere."""
    if trace not in workload_names() or replace(named(trace), trace=trace) == Scenario(trace=trace):
        return ""
    return f"--trace {trace} takes its jobs alone; its cluster and windows come with --workload {trace}"


def beginning(kind: type[C], asked: Mapping[str, Any], presets: Mapping[str, Preset] = WORKLOAD) -> C:
    """Return the choices before any flag: the file's, on those of presets, on the defaults.

    A preset that a flag names takes the place of its whole group in the file of a run.
    """
    file = asked.get("config")
    filed = from_file(file, kind) if file else {}
    if file and (said := unfinished(Path(file))):
        tell(f"Note: {said}; its choices are taken.")
    wanted = {preset: asked.get(name) or filed.get(name) for name, preset in presets.items()}
    groups = {preset.group: preset.usual(name) for preset, name in wanted.items() if name}
    start: C = replace(kind(), **groups)  # type: ignore[type-var]
    try:
        for name, preset in presets.items():
            if asked.get(name) and (left := _replaced(preset, asked[name], filed, kind)):
                tell(f"Note: {flag(name)} {asked[name]} takes the place of the {preset.group} in {file}.")
                filed = {each: value for each, value in filed.items() if each not in left}
        return changed(start, filed)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def asked_for(args: Sequence[str], kind: type) -> dict[str, Any]:
    """Return what the flags, and the file that they name, choose by field: the usual too, where it is named."""
    asked = given(args, kind)
    file = asked.get("config")
    return (from_file(file, kind) if file else {}) | asked


def _replaced(preset: Preset, name: str, filed: Mapping[str, Any], kind: type) -> set[str]:
    """Return the choices of a file in whose place a preset by this name comes: those of a run that had another."""
    group = hints(kind)[preset.group][0]
    inside = {each: value for each, value in filed.items() if each in names(group)}
    if inside.keys() < set(names(group)) or preset.is_like(changed(group(), inside)) == name:
        return set()
    return inside.keys() - set(preset.keeps)


def given(args: Sequence[str], kind: type) -> dict[str, Any]:
    """Return what the flags choose, by the names of fields; a list of words adds up over several flags.

    ValueError names an unknown flag and the nearest, or one that is given twice.
    """
    found: dict[str, Any] = {}
    for written, texts in _flags(args):
        name, value = _choice(written, texts, kind)
        if name not in found:
            found[name] = value
        elif isinstance(value, tuple):
            found[name] += value
        else:
            raise ValueError(f"{flag(name)} is given twice, as {found[name]} and as {value}: give it once")
    return found


def _flags(args: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return each flag as it is written, with the words behind it."""
    found: list[tuple[str, list[str]]] = []
    for arg in args:
        if arg.startswith("--"):
            written, joined, text = arg.partition("=")
            found.append((written, [text] if joined else []))
        elif found:
            found[-1][1].append(arg)
        else:
            raise ValueError(f"{arg!r} stands behind no flag: write what it is, such as --config {arg}")
    return found


def _choice(written: str, texts: Sequence[str], kind: type) -> tuple[str, Any]:
    """Return the field that a flag stands for, and the value that it gives it."""
    name = written.removeprefix("--").replace("-", "_")
    known = names(kind)
    plain = name.removeprefix("no_")
    if plain in known and _type(plain, kind) is bool:
        if texts:
            raise ValueError(
                f"{written} {' '.join(texts)}: expected nothing behind it; --no-... is its opposite"
            )
        return plain, plain == name
    if name not in known:
        raise ValueError(unknown("flag", flag(name), (*flag_names(kind), *FLAGS)))
    return name, _value(written, texts, name, kind)


def _value(written: str, texts: Sequence[str], name: str, kind: type) -> Any:
    """Return the value of a flag; text that is no number stays text, for the check of choices to say so."""
    expected = _type(name, kind)
    several = get_origin(expected) is tuple
    if not texts or (len(texts) > 1 and not several):
        said = " ".join((written, *texts))
        raise ValueError(f"{said}: expected {what(expected) if not texts else 'one value'}")
    if several:
        return tuple(texts)
    if texts[0] == "None" and hints(names(kind)[name])[name][1]:
        return None
    try:
        return expected(texts[0]) if expected in (int, float) else texts[0]
    except ValueError:
        return texts[0]


def _type(name: str, kind: type) -> Any:
    return hints(names(kind)[name])[name][0]


def flag_names(kind: type) -> list[str]:
    """Return the flags of a dataclass of choices and of the dataclasses inside it."""
    return list(_flag_names(kind))


def _flag_names(kind: type) -> Iterator[str]:
    for name in names(kind):
        yield flag(name)
        if _type(name, kind) is bool:
            yield flag(f"no_{name}")


def from_file(file: str | Path, kind: type) -> dict[str, Any]:
    """Return the choices in a JSON file, or in a run folder, by name.

    They are the fields by name, by themselves or in groups such as `scenario`. Of the run of another command, which
    has groups or a policy that `kind` lacks, the scenario alone is taken. ValueError if the file is no such thing; what
    the names and values may be is checked where they are used.
    """
    file = Path(file)
    file = file / CHOICES if file.is_dir() else file
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{file}: no choices could be read: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{file}: expected an object with choices by name")
    groups = {name for name, value in content.items() if isinstance(value, dict)}
    of_another = (groups | content.keys() & {"policy"}) - set(hints(kind))
    if of_another and "scenario" in groups:
        content = content["scenario"]
    flat: dict[str, Any] = {}
    for name, value in content.items():
        flat |= value if isinstance(value, dict) else {name: value}
    return {name: _of_json(name, value, kind) for name, value in flat.items()}


def _of_json(name: str, value: Any, kind: type) -> Any:
    """Return a value as its field has it: a list of words, or one word, is a tuple."""
    if name not in names(kind) or get_origin(_type(name, kind)) is not tuple:
        return value
    return tuple(value) if isinstance(value, list) else () if value is None else (value,)
