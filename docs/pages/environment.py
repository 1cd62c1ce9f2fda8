"""The tables of docs/environment.md, made of the code; `python -m docs.pages.environment` writes them."""

import re
from collections.abc import Callable
from functools import cache
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from docs.pages.markdown import table
from docs.pages.policies import said
from gpu_cluster_gym.envs.env import GPUClusterEnv
from gpu_cluster_gym.envs.spaces import split
from gpu_cluster_gym.envs.registration import ON_THE_RULE, make, make_vec
from gpu_cluster_gym.evaluation.cli_info import about
from gpu_cluster_gym.evaluation.marks import filled
from gpu_cluster_gym.traces import find, modules

PAGE = Path(__file__).parent.parent / "environment.md"
COLUMNS_PAGE = PAGE.with_name("observations.md")
SHOWN: dict[str, dict[str, Any]] = {
    'observation="tables"': {"action": "primitive"},
    'observation="slots"': {"action": "pick", "observation": "slots"},
    'observation="elastic"': {"action": "elastic", "observation": "elastic"},
    'action="moves"': {"action": "moves"},
    'action="steer"': {"action": "steer", "privileged": True},
}
"""The keywords that make the environments whose spaces are shown."""


@cache
def made(which: str) -> Any:
    """Return one of the environments whose spaces are shown, with one window."""
    return gymnasium.make("gpu_cluster_gym:GPUCluster-v2", count=1, **SHOWN[which]).unwrapped


def actions() -> str:
    """Return the table of the action spaces, as they are with the keywords left as they are."""
    rows = []
    for which, keywords in SHOWN.items():
        space, kind = made(which).action_space, keywords["action"]
        of_rule = ON_THE_RULE.get(kind)
        is_what = (
            of_rule[0].__doc__
            if of_rule
            else f"{find('gpu_cluster_gym.envs.actions', kind, 'action').__doc__}"
        )
        shape = f"Discrete({space.n})" if isinstance(space, Discrete) else in_words(space)
        rows.append((f"`{kind}`", f"`{shape}`", cleandoc(is_what or "").partition("\n")[0].rstrip(".")))
    return table(("`action`", "space", "is"), rows)


def observations() -> str:
    """Return the table of the parts of observations, with shapes and bounds, and which environments show each."""
    shown: dict[tuple[str, str, str], list[str]] = {}
    for which in SHOWN:
        env = made(which)
        low, high = (apart(env.seen_parts, corner(env.observation_space, side)) for side in ("low", "high"))
        for name, shape in env.shapes.items():
            bounds = f"{low[name].min():.4g} to {high[name].max():.4g}"
            shown.setdefault((name, f"`{shape}`", bounds), []).append(f"`{which}`")
    rows = ((linked(name), *of, ", ".join(where)) for (name, *of), where in shown.items())
    return table(("part", "shape", "bounds", "shown with"), rows)


def linked(part: str) -> str:
    """Return the name of a part, with a link to its columns where these have a table."""
    text = COLUMNS_PAGE.read_text(encoding="utf-8")
    heading = re.search(rf"^## (`{part}`.*)$", text, re.MULTILINE)
    return f"[`{part}`]({COLUMNS_PAGE.name}#{slug(heading[1])})" if heading else f"`{part}`"


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and MkDocs both make it."""
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


def corner(space: Any, side: str) -> Any:
    """Return the least or the most that an observation can be."""
    if isinstance(space, Dict):
        return {name: getattr(each, side) for name, each in space.items()}
    return getattr(space, side)


def in_words(space: Box) -> str:
    """Return a box as one writes it."""
    return f"Box({np.min(space.low):g}, {np.max(space.high):g}, {space.shape}, {space.dtype})"


def rewards() -> str:
    """Return the table of the rewards that there are modules of."""
    return table(
        ("`reward`", "is"),
        ((f"`{name}`", about("envs.rewards", name)) for name in modules("envs.rewards")),
    )


def arguments() -> str:
    """Return the keywords of `gymnasium.make`, for which actions each is, its default and its meaning."""
    others = ", ".join(f"`{name}`" for name in modules("envs.actions"))
    found: dict[str, tuple[list[str], list[str], str]] = {}
    for of, kinds in {
        others: (GPUClusterEnv, make),
        **{f"`{name}`": (*kinds, make) for name, kinds in ON_THE_RULE.items()},
    }.items():
        parameters = [
            each for kind in kinds for each in signature(kind).parameters.values() if is_choice(each)
        ]
        told = said(
            cleandoc(kinds[0].__doc__ or "").partition("## Arguments")[2], [each.name for each in parameters]
        )
        for each in parameters:
            which, default, _ = found.setdefault(each.name, ([], [], told.get(each.name, "")))
            which += [of] if of not in which else []
            default += [shown] if (shown := f"`{each.default!r}`") not in default else []
    rows = (
        (
            f"`{name}`",
            "all" if len(which) == 1 + len(ON_THE_RULE) else ", ".join(which),
            " or ".join(default),
            meant,
        )
        for name, (which, default, meant) in found.items()
    )
    return table(("keyword", "with `action`", "default", "is"), rows)


def is_choice(parameter: Parameter) -> bool:
    """Tell whether a parameter is a keyword of the environment that users give."""
    by_name = parameter.kind is Parameter.KEYWORD_ONLY and parameter.name != "threads"
    return by_name or parameter.name == "scenario"


def of_vectors() -> str:
    """Return the keywords that `gymnasium.make_vec` has besides."""
    rows = (
        (f"`{each.name}`", f"`{getattr(each.default, 'value', each.default)!r}`")
        for each in signature(make_vec).parameters.values()
        if each.kind is not Parameter.VAR_KEYWORD and each.name != "scenario"
    )
    return table(("keyword", "default"), (*rows, ("`threads`", "`1`")))


def presets() -> str:
    """Return the ids that are registered for named workloads, with what each workload is."""
    return table(
        ("id", "is"),
        ((f"`GPUCluster-{name}-v2`", about("workloads", name)) for name in modules("workloads")),
    )


TABLES: dict[str, Callable[[], str]] = {
    "actions": actions,
    "observations": observations,
    "rewards": rewards,
    "arguments": arguments,
    "of vectors": of_vectors,
    "presets": presets,
}
"""What makes each table, by the name in its marks."""


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE, TABLES), encoding="utf-8")
