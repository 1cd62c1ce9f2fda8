"""Choices of a command: flags override the file of `--config`, which overrides presets such as `--workload`.

The frozen dataclass of a command is the only declaration. tyro parses its fields as flags and prints the help; values
are checked by the dataclass itself, so that an error is one sentence.
"""

import ast
import inspect
import json
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, TypeVar, get_args, get_origin

from gpu_cluster_gym.evaluation.command import FLAGS, WIDTH, as_called, log
from gpu_cluster_gym.evaluation.run_folder import CHOICES, unfinished
from gpu_cluster_gym.simulator.choice import changed, flag, hints, names, what
from gpu_cluster_gym.traces import did_you_mean
from gpu_cluster_gym.workloads import (
    DEFAULT,
    OF_JOBS,
    Scenario,
    base,
    named,
    refuse_contradictions,
    refuse_ineffective,
)
from gpu_cluster_gym.workloads import names as workload_names

C = TypeVar("C")


class Preset(NamedTuple):
    """A choice whose value sets the defaults of a group of other choices, such as `--workload` those of a scenario.

    group: field of the group.
    usual: returns the group for a value; ValueError for an unknown value.
    value_of: returns the value whose defaults a group has, None without one.
    keeps: fields of the group that the preset leaves alone.
    values: all values, where the fields of the group depend on the value.
    """

    group: str
    usual: Callable[[str], Any]
    value_of: Callable[[Any], str | None]
    keeps: tuple[str, ...]
    values: tuple[str, ...] = ()


def workload_like(scenario: Scenario) -> str | None:
    """Return the name of the workload equal to a scenario, apart from seed and history; None without one."""
    plain = _spelt_out(scenario)
    found = (name for name in workload_names() if _spelt_out(named(name)) == plain)
    return next(found, None)


def _spelt_out(scenario: Scenario) -> Scenario:
    named_alike = {name: getattr(scenario, f"{name}_name") for name in ("trace", "cluster", "physics")}
    return replace(scenario, **named_alike, seed=0, run_time_predictor=None)


WORKLOAD = {"workload": Preset("scenario", named, workload_like, keeps=("seed", "run_time_predictor"))}


def read(
    kind: type[C],
    args: Sequence[str],
    *,
    command: str,
    about: str,
    presets: Mapping[str, Preset] = WORKLOAD,
) -> C:
    """Return the choices of a command line.

    kind: dataclass of the choices.
    command, about: name and description of the command, for `--help`.
    Raise SystemExit after `--help` or a shell completion, and ValueError for invalid choices.
    """
    start = before_flags(kind, args, presets)
    asked = parse(start, args, command=command, about=about, presets=presets)
    if not asked.keys() & {"workload", "config"} and (note := other_base(asked)):
        log(f"Note: {note}.")
    choices = without_contradictions(changed(start, asked), asked, asked.get("workload"))
    if isinstance(scenario := getattr(choices, "scenario", None), Scenario):
        refuse_ineffective(scenario, asked)
    return choices


def without_contradictions(choices: C, given: Mapping[str, Any], workload: str | None) -> C:
    """Return choices if those given do not contradict their scenario; else raise ValueError."""
    scenario = getattr(choices, "scenario", None)
    if isinstance(scenario, Scenario):
        refuse_contradictions(scenario, given, workload)
    return choices


def asked_for(args: Sequence[str], kind: type) -> dict[str, Any]:
    """Return the choices that flags and their file name explicitly, by field, also where they equal the defaults."""
    file = value_of(args, "config")
    return (from_file(file, kind) if file else {}) | parse(kind(), args)


def other_base(asked: Mapping[str, Any]) -> str:
    """Return a note on flags that override another scenario than that of the default workload; empty for others.

    These are a trace that shares its name with a workload of another cluster, and windows with a fixed number of jobs.
    """
    trace = asked.get("trace")
    if trace != DEFAULT and trace in workload_names() and named(trace) != Scenario(trace=trace):
        return f"--trace {trace} sets the jobs only; --workload {trace} also sets its cluster and windows"
    if "trace_file" in asked or trace not in (None, DEFAULT) or base(asked).steady_load is not None:
        return ""
    flags = [flag(name) for name in OF_JOBS if asked.get(name)] or [f"{flag('steady_load')} None"]
    verb = "does" if len(flags) == 1 else "do"
    return (
        f"{', '.join(flags)} {verb} not apply to the steady windows of {DEFAULT}; other defaults are those of "
        "philly_backlog"
    )


def value_of(args: Sequence[str], name: str) -> str | None:
    """Return the value of one flag before all flags are parsed; None where it is absent."""
    for at, arg in enumerate(args):
        written, joined, text = arg.partition("=")
        if written.replace("_", "-") == flag(name):
            behind = next(iter(args[at + 1 : at + 2]), "--")
            return text if joined else None if behind.startswith("--") else behind
    return None


def written(args: Sequence[str]) -> dict[str, str | None]:
    """Return the flags of arguments with their texts, by field, before they are parsed; without the --no- forms.

    The text `None` is returned as None.
    """
    names_of = (arg.partition("=")[0] for arg in args if arg.startswith("--") and not arg.startswith("--no-"))
    texts_of = {name: value_of(args, name[2:]) or name for name in names_of}
    return {
        name.removeprefix("--").replace("-", "_"): None if text == "None" else text
        for name, text in texts_of.items()
    }


def refuse_code(file: str | Path, named: Sequence[str], trust: bool) -> None:
    """Raise ValueError where a file of choices names code to import, and is not trusted."""
    if named and not trust:
        raise ValueError(
            f"{file} names code to import, {', '.join(named)}: add --trust if you trust that file"
        )


def before_flags(kind: type[C], args: Sequence[str], presets: Mapping[str, Preset]) -> C:
    """Return the choices before flags: the file's, on top of the presets', on top of the defaults."""
    file = value_of(args, "config")
    filed = from_file(file, kind) if file else {}
    if file and (note := unfinished(Path(file))):
        log(f"Note: {note}; its choices are used.")
    flags = {name: value for name in presets if (value := value_of(args, name))}
    named_by = {name: value for name in presets if (value := flags.get(name) or filed.get(name))}
    start: C = replace(
        kind(),  # type: ignore[type-var]
        **{presets[name].group: presets[name].usual(value) for name, value in named_by.items()},
    )
    if "workload" in presets and "workload" not in named_by:
        start = replace(start, scenario=base(filed | written(args)))  # type: ignore[type-var]
    try:
        for name, value in flags.items():
            replaced = _replaced(presets[name], value, filed.get(name), filed, kind)
            if replaced:
                log(f"Note: {flag(name)} {value} replaces the {presets[name].group} of {file}.")
            filed = {each: it for each, it in filed.items() if each not in replaced and each != name}
        return without_contradictions(changed(start, filed), filed, named_by.get("workload"))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _replaced(preset: Preset, asked: str, filed_as: Any, filed: Mapping[str, Any], kind: type) -> set[str]:
    """Return the choices of a file that a preset replaces: a complete group with another value of the preset."""
    group = preset.usual(filed_as) if filed_as else getattr(kind(), preset.group)
    inside = {each: value for each, value in filed.items() if each in names(group)}
    if inside.keys() < names(group).keys() or preset.value_of(changed(group, inside)) == asked:
        return set()
    return inside.keys() - set(preset.keeps)


def from_file(file: str | Path, kind: type) -> dict[str, Any]:
    """Return the choices in a JSON file or a run folder, by field; lists become tuples.

    Fields may be grouped, as in `{"scenario": {...}}`. Only the scenario is read from a run of another command, which
    has groups or a policy that `kind` lacks. Names and values are checked where they are used.
    Raise ValueError for an unreadable file.
    """
    file = Path(file)
    file = file / CHOICES if file.is_dir() else file
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{file}: expected a run folder, or a JSON file of choices ({reason})") from None
    if not isinstance(content, dict):
        raise ValueError(f"{file}: expected a JSON object of choices by name")
    groups = {name for name, value in content.items() if isinstance(value, dict)}
    of_another = (groups | content.keys() & {"policy"}) - set(hints(kind))
    if of_another and "scenario" in groups:
        content = content["scenario"]
    flat: dict[str, Any] = {}
    for name, value in content.items():
        flat |= value if isinstance(value, dict) else {name: value}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in flat.items()}


# Flags.


def parse(
    start: Any,
    args: Sequence[str],
    *,
    command: str = "",
    about: str = "",
    presets: Mapping[str, Preset] = WORKLOAD,
) -> dict[str, Any]:
    """Return the choices that flags name, by field; `start` has the defaults that `--help` shows.

    Values are converted, not checked: an invalid number stays text. Raise ValueError for unknown, repeated or valueless
    flags, with the nearest name.
    """
    import tyro

    refuse_repeated(args)
    named_by = {name for name in presets if value_of(args, name)}
    found, rest = tyro.cli(
        flags_of(start, presets, named_by),
        prog=as_called(command),
        description="\n".join(map(_filled, as_called(about).splitlines())),
        args=args,
        config=(tyro.conf.OmitArgPrefixes,),
        return_unknown_args=True,
    )
    if rest:
        raise ValueError(_unknown(rest[0], args, start, presets))
    flat: dict[str, Any] = {}
    for name, value in found.items():
        flat |= value if isinstance(value, dict) else {name: value}
    known = names(start)
    for name, value in flat.items():
        hint = hints(known[name])[name][0]
        if isinstance(value, tuple) and (not value or get_origin(hint) is not tuple):
            words = " ".join((flag(name), *value))
            raise ValueError(f"{words}: expected {'one value' if value else what(hint)}")
    return flat


def refuse_repeated(args: Sequence[str]) -> None:
    """Raise ValueError for a flag that is given twice, or together with its --no- form."""
    seen: set[str] = set()
    for arg in args:
        if arg.startswith("--"):
            name = arg.partition("=")[0].removeprefix("--").replace("_", "-").removeprefix("no-")
            if name in seen:
                raise ValueError(f"--{name} is given twice: give it once, with all its values")
            seen.add(name)


def _unknown(word: str, args: Sequence[str], start: Any, presets: Mapping[str, Preset]) -> str:
    """Return the error for a word that no flag takes."""
    written = word.partition("=")[0]
    if not written.startswith("--"):
        booleans = [flag(each) for each in names(start) if hints(names(start)[each])[each][0] is bool]
        if given := [arg for arg in args if arg.partition("=")[0] in booleans and arg.endswith(f"={word}")]:
            return f"{given[0]}: {given[0].partition('=')[0]} takes no value"
        return f"unexpected argument {word!r}: write its flag before it, as in --FLAG {word}; --help lists all flags"
    name = written.removeprefix("--").replace("-", "_")
    for preset, each in presets.items():
        if others := [value for value in each.values if name in names(each.usual(value))]:
            now = each.value_of(getattr(start, each.group))
            return f"{written} requires {flag(preset)} {' or '.join(others)}, not {now}"
    return f"unknown flag {written}{did_you_mean(written, (*map(flag, names(start)), *FLAGS))} (--help lists all flags)"


def flags_of(start: Any, presets: Mapping[str, Preset], named_by: Collection[str] = ()) -> Any:
    """Return the flags of a dataclass of choices for tyro: a TypedDict whose keys are all optional.

    Parsed, it has only the flags that are given. The parameters of physics come last, as a group of their own.
    named_by: presets that flags name, which `start` has in place of their defaults.
    """
    import tyro

    usual = type(start)()
    entries: dict[str, Any] = {}
    last: dict[str, Any] = {}

    def group(text: str, found: dict[str, Any]) -> Any:
        return Annotated[TypedDict("Flags", found, total=False), tyro.conf.arg(help=text)]  # type: ignore[operator]

    of_start: type = type(start)
    for name in hints(of_start):
        value, text = getattr(start, name), texts(of_start).get(name, "")
        if isinstance(value, Scenario):
            parameters, rules = Scenario.__bases__
            entries[name] = group(text, {each: _entry(value, each, presets) for each in hints(rules)})
            physics = {each: _entry(value, each, presets) for each in hints(parameters)}
            last["physics"] = group(_joined(parameters.__doc__ or ""), physics)
        elif is_dataclass(value):
            kind: type = type(value)
            of = {each: getattr(usual, name) if each in named_by else value for each in hints(kind)}
            entries[name] = group(text, {each: _entry(value, each, presets, of[each]) for each in of})
        else:
            entries[name] = _entry(start, name, presets)
    return TypedDict("Flags", entries | last, total=False)  # type: ignore[operator]


def _entry(choices: Any, name: str, presets: Mapping[str, Preset], usual: Any = None) -> Any:
    """Return the annotation of one flag: its type, its help with the default, and the conversion of its value.

    usual: the choices that have the default; default: `choices`.
    """
    import tyro

    kind: type = type(choices)
    hint, default = hints(kind)[name][0], getattr(usual or choices, name)
    shown = " ".join(map(str, default)) if isinstance(default, tuple) else default
    no_default = default is None or default is False or default == ()
    option = tyro.conf.arg(
        help=texts(kind).get(name, ""),
        help_behavior_hint="" if no_default else f"(default: {shown})",
        metavar="TEXT ..." if get_origin(hint) is tuple else None,
    )
    if hint is bool or get_origin(hint) is tuple:
        return Annotated[hint, option]
    words = get_args(hint) if get_origin(hint) is Literal else ()
    words = (name in presets and presets[name].values) or words
    spec = tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar=f"{{{','.join(words)}}}" if words else METAVARS[hint],
        instance_from_str=lambda words: _converted(words, hint),
        is_instance=lambda value: True,
        str_from_instance=lambda value: [str(value)],
    )
    return Annotated[hint, spec, option]


METAVARS = {int: "INT", float: "FLOAT", str: "TEXT"}


def _converted(words: Sequence[str], hint: Any) -> Any:
    """Return the value of a flag's words: a number where it is one; anything but one word stays a tuple."""
    if len(words) != 1:
        return tuple(words)
    try:
        return None if words[0] == "None" else hint(words[0]) if hint in (int, float) else words[0]
    except ValueError:
        return words[0]


@cache
def texts(kind: type) -> dict[str, str]:
    """Return the docstring below each field of a dataclass, as one line."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]
        assert isinstance(body, ast.ClassDef)
        for line, below in zip(body.body, body.body[1:], strict=False):
            match line, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = _joined(text)
    return found


def _joined(text: str) -> str:
    return " ".join(text.split())


def _filled(line: str) -> str:
    """Return a line of a description, wrapped; continuation lines of an indented one are indented further."""
    return textwrap.fill(line, WIDTH, subsequent_indent="    " if line.startswith(" ") else "")
