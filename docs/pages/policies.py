"""Page of each policy: its docstring, settings with searched values, results, and source."""

import ast
import inspect
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pandas as pd

from docs.pages.markdown import table
from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.policy import Ranking

RESULTS = Path(__file__).parent.parent / "results.csv"
HEADING = """# Policies

Each policy is a file in `baselines/`, whose name is the name for `--policy`. These pages are generated from the files:
the published claims, their sources, and our own choices. *Needs* is the part of physics, or the column, without which a
policy is equivalent to a simpler one. [Results](../results.md) compares the policies.
"""


def pages() -> dict[str, str]:
    """Return the text of each page by its path, the index first."""
    names = baselines.names()
    rows = (
        (f"[{name}]({name}.md)", summary(name).rstrip("."), baselines.lever(name) or "") for name in names
    )
    index = f"{HEADING}\n{table(('policy', 'description', 'needs'), rows)}\n"
    return {"policies/index.md": index} | {f"policies/{name}.md": page(name) for name in names}


def page(name: str) -> str:
    """Return the page of a policy."""
    module = import_module(f"gpu_cluster_gym.baselines.{name}")
    body = inspect.cleandoc(module.__doc__ or "").partition("\n")[2].strip()
    policy = module.policy
    parts = (
        f"# {name}\n\n{summary(name)}",
        body,
        f"    python evaluate.py --policy {name}",
        f"*Needs:* `{baselines.lever(name)}`" if baselines.lever(name) else "",
        settings(policy, baselines.grid(name)),
        results(name),
        f'??? note "Source: baselines/{name}.py"\n\n'
        + textwrap.indent(f"```python\n{source(module)}\n```", "    "),
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(name: str) -> str:
    """Return the first line of a policy's docstring."""
    return inspect.cleandoc(import_module(f"gpu_cluster_gym.baselines.{name}").__doc__ or "").partition("\n")[
        0
    ]


def settings(policy: Any, grid: Mapping[str, Any]) -> str:
    """Return the table of settings: meaning, default, and the values that the search tries."""
    found = values(policy)
    if not found:
        return ""
    kind = policy if isinstance(policy, type) else type(policy)
    meaning = meanings(kind, tuple(inspect.signature(kind).parameters))
    rows = (
        (
            f"`{name}`",
            meaning.get(name, ""),
            f"`{shown(value)}`",
            ", ".join(f"`{each!r}`" for each in grid.get(name, ())),
        )
        for name, value in found.items()
    )
    return f"## Settings\n\n{table(('setting', 'meaning', 'default', 'searched'), rows)}"


def shown(value: Any) -> str:
    """Return a value as code, without the arguments of a dataclass that has its defaults."""
    kind: Any = type(value)
    is_default = is_dataclass(value) and repr(value) == repr(kind())
    return f"{kind.__name__}()" if is_default else repr(value)


def meanings(kind: type, names: Sequence[str]) -> dict[str, str]:
    """Return the meaning of each of these settings, from docstrings of a class, its constructor and its fields."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        for text in (each.__doc__, vars(each).get("__init__").__doc__):
            found |= argument_descriptions(text or "", names)
        found |= field_docstrings(each)
    return found


def argument_descriptions(text: str, names: Sequence[str]) -> dict[str, str]:
    """Return the descriptions of these arguments in a docstring, which have the form `name: description.`."""
    one = "|".join(names)
    parts = re.split(rf"(?<![`\w])((?:{one})(?:, (?:{one}))*): ", " ".join(text.split()))[1:]
    described = zip(parts[::2], parts[1::2], strict=True)
    return {name: part.strip(" ;.") for several, part in described for name in several.split(", ")}


def field_docstrings(kind: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class, by field."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    return {
        ast.unparse(field.target): " ".join(str(below.value.value).split()).rstrip(".")
        for field, below in pairwise(tree.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
    }


def values(policy: Any) -> dict[str, Any]:
    """Return the settings of a policy with their defaults: those of a class, or the values of a ranking or rule."""
    if isinstance(policy, FunctionType):
        return {}
    if not isinstance(policy, type):
        return {
            each.name: getattr(policy, each.name)
            for each in fields(policy)
            if not is_unset(policy, each.name)
        }
    parameters = inspect.signature(policy).parameters.values()
    return {each.name: each.default for each in parameters if not each.name.startswith("_")}


def is_unset(policy: Any, name: str) -> bool:
    """Return whether a field of a ranking has the default of all rankings."""
    return (
        isinstance(policy, Ranking) and getattr(policy, name) == getattr(Ranking("submit"), name) != "submit"
    )


def results(name: str) -> str:
    """Return the results of a policy by workload, from the table of all policies; empty if it has none."""
    known = all_results()
    rows = [
        (
            each["workload"],
            *(f"{each[number]:.3f}" for number in ("ratio", "low", "high")),
            str(each["windows"]),
        )
        for each in known[(known["policy"] == name) & known["ratio"].notna()].to_dict("records")
    ]
    head = "## Results\n\nMean JCT / FIFO's on test windows, with its 95 % interval; lower is better.\n\n"
    return head + table(("workload", "ratio", "from", "to", "windows"), rows) if rows else ""


@cache
def all_results() -> pd.DataFrame:
    """Return the results of all policies on all workloads."""
    return pd.read_csv(RESULTS)


def source(module: ModuleType) -> str:
    """Return the text of a module below its docstring."""
    text = inspect.getsource(module)
    first = ast.parse(text).body[0]
    return "\n".join(text.splitlines()[first.end_lineno :]).strip()
