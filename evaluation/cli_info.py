"""What a command answers without doing anything: which version it is, and what there is to choose from."""

import ast
import textwrap
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from gpu_cluster_gym.traces import VERSION, modules, plug_ins, unknown

LISTS = {"policies": "baselines", "workloads": "workloads", "traces": "traces", "papers": "experiments"}
BESIDES = {
    "baselines": {
        "ppo": "The agent that comes with the project for the workload, or for all others.",
        "tuned": "What did best in a search on the workload's training windows; tuned:NAME for one policy.",
        "constants": "union with the weights that a search found for the workload.",
        "lookahead:NAME": "union or what steers it (constants, ppo, the folder of an agent that steers) looking ahead.",
        "all": "Every policy above but lookahead, which takes seconds to minutes a window.",
        "module:attribute": "A policy of your own.",
    }
}
"""What may be named beside the modules of a folder."""
FLAGS = ("--help", "--list", "--version")
"""Beside those that choose something."""
WIDTH = 80


def answer(args: Sequence[str]) -> str | None:
    """Return what is to be printed where the arguments only ask for it, else None; ValueError for no such list."""
    if "--version" in args:
        return said_version()
    lists = [at for at, arg in enumerate(args) if arg.partition("=")[0] == "--list"]
    if not lists:
        return None
    written, joined, name = args[lists[0]].partition("=")
    name = name if joined else next(iter(args[lists[0] + 1 : lists[0] + 2]), "")
    if name not in LISTS:
        raise ValueError(
            f"{written}: {unknown('list', name, LISTS)}"
            if name
            else f"--list: expected one of {', '.join(LISTS)}"
        )
    found = {each: about(LISTS[name], each) for each in modules(LISTS[name]) if each != "generic"}
    installed = {each: f"Entry point {point.value}." for each, point in plug_ins(LISTS[name]).items()}
    besides = BESIDES.get(LISTS[name], {})
    return "\n\n".join(listed(each) for each in (found, installed, besides) if each)


def said_version() -> str:
    """Return the version, and that of all that is drawn."""
    try:
        own = version("gpu-cluster-gym")
    except PackageNotFoundError:
        own = "not installed"
    return f"gpu-cluster-gym {own}, draws of version {VERSION}"


def listed(found: Mapping[str, str]) -> str:
    """Return names, each with what is said of it, on lines of 80 characters."""
    wide = max(map(len, found)) + 2
    return "\n".join(
        textwrap.fill(what, WIDTH, initial_indent=f"{name:{wide}}", subsequent_indent=" " * wide)
        for name, what in found.items()
    )


def about(package: str, name: str) -> str:
    """Return the first sentence of a module's docstring, without importing it."""
    spec = find_spec(f"gpu_cluster_gym.{package}.{name}")
    assert spec
    assert spec.origin
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())
