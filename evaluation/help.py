"""The help of a command, and what lets a shell complete it: made of the declarations of its choices."""

import ast
import inspect
import textwrap
from collections.abc import Sequence
from dataclasses import field, make_dataclass
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

from gpu_cluster_gym.evaluation.cli_info import WIDTH
from gpu_cluster_gym.simulator.choice import declared, hints, is_group
from gpu_cluster_gym.workloads import Scenario

HELP = ("-h", "--help")
OF_THE_PARSER = ("--tyro-print-completion", "--tyro-write-completion")
SUCH_AS = {
    "scenario": "--trace-file jobs.csv --cluster 4x8 --jobs 256",
    "training": "--steps 36864 --learning-seed 1",
    "physics": "--max-share 3 --contention 0.5",
}
"""An example of each group of flags."""


def is_asked(args: Sequence[str]) -> bool:
    """Tell whether arguments ask for help, or for what completes them."""
    return any(arg in HELP or arg.partition("=")[0] in OF_THE_PARSER for arg in args)


def show(kind: type, args: Sequence[str], *, command: str, about: str) -> None:
    """Print what is asked for, and then SystemExit. kind: dataclass of the choices. about: what stands above them."""
    import tyro

    grouped = described(kind)
    tyro.cli(
        grouped,
        prog=command,
        description="\n".join(map(_filled, about.splitlines())),
        args=[arg for arg in args if arg in HELP] or args,
        default=grouped(),
        config=(tyro.conf.OmitArgPrefixes,),
    )


def described(kind: type) -> type:
    """Return a dataclass like one of choices, whose fields say what is told of them.

    Of a scenario, the parameters of physics become a group of their own, the last.
    """
    shown, last = [], []
    for name, (hint, _) in hints(kind).items():
        if hint is Scenario:
            parameters, rules = Scenario.__bases__
            shown.append(_group(name, rules, texts(kind)[name]))
            last.append(_group("physics", parameters, parameters.__doc__ or ""))
        elif is_group(kind, name):
            shown.append(_group(name, hint, texts(kind)[name]))
        else:
            shown.append(_choice(kind, name, hint))
    return make_dataclass(kind.__name__, shown + last, namespace={"__doc__": kind.__doc__}, frozen=True)


def _choice(kind: type, name: str, hint: Any) -> tuple[str, Any, Any]:
    """Return the field of a choice, with its text; its default is not told where that is nothing."""
    import tyro

    default = declared(kind)[name].default
    nothing = default is None or default is False or default == ()
    told = tyro.conf.arg(
        help=texts(kind)[name], metavar=_metavar(hint), help_behavior_hint="" if nothing else None
    )
    return name, Annotated[hint | None if default is None else hint, told], field(default=default)


def _group(name: str, kind: type, text: str) -> tuple[str, Any, Any]:
    """Return the field of a group of choices, which says what it is, and how to choose."""
    import tyro

    made = described(kind)
    told = tyro.conf.arg(help=f"{_joined(text)} Such as {SUCH_AS[name]}.")
    return name, Annotated[made, told], field(default_factory=made)


@cache
def texts(kind: type) -> dict[str, str]:
    """Return what stands below each field of a dataclass where it is declared, as one line."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]
        assert isinstance(body, ast.ClassDef)
        for line, below in zip(body.body, body.body[1:], strict=False):
            match line, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = _joined(text)
    return found


def _metavar(hint: Any) -> str | None:
    """Return what stands for the value of a flag; None for a flag without one."""
    if hint is bool:
        return None
    if get_origin(hint) is Literal:
        return f"{{{','.join(map(str, get_args(hint)))}}}"
    if get_origin(hint) is tuple:
        return f"{_metavar(get_args(hint)[0])} ..."
    return {int: "INT", float: "FLOAT", str: "TEXT"}[hint]


def _joined(text: str) -> str:
    return " ".join(text.split())


def _filled(line: str) -> str:
    """Return a line of a description on as many as it needs; what goes on of one that is indented is indented more."""
    return textwrap.fill(line, WIDTH, subsequent_indent="    " if line.startswith(" ") else "")
