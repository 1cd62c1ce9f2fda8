"""Tables of docs/environment.md, generated from the code by `python -m docs.pages.environment`."""

import re
from collections.abc import Callable
from functools import cache
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from docs.pages.fill import filled
from docs.pages.markdown import table
from gpu_cluster_gym.envs.registration import ENVS, KEYWORDS, make_vec
from gpu_cluster_gym.envs.spaces import split
from gpu_cluster_gym.evaluation.command import first_sentence
from gpu_cluster_gym.traces import modules

PAGE = Path(__file__).parent.parent / "environment.md"
SHOWN: dict[str, dict[str, Any]] = {
    'observation="sets"': {},
    'observation="slots"': {"hints": True, "victims_by": "rule"},
    'observation="tables"': {"observation": "tables"},
    'action="moves"': {"action": "moves"},
    'action="steer"': {"action": "steer", "privileged": True},
}
"""Keywords of the environments whose spaces are shown."""
SPACES: dict[str, dict[str, Any]] = {
    "plain": {},
    'plain, placed_by="agent"': {"placed_by": "agent"},
    'plain, victims_by="rule"': {"victims_by": "rule"},
    "moves": {"action": "moves"},
    "steer": {"action": "steer"},
}
"""Keywords of the environments whose action spaces are shown."""
CHOICES = {
    "plain": "start queue slot k, pause running slot r, or wait; a rule chooses the place",
    'plain, placed_by="agent"': "start queue slot k by placement rule p, number 3 k + p, pause running slot r, or wait",
    'plain, victims_by="rule"': "start queue slot k, or wait; rules choose the place, and the jobs to pause for it",
    "moves": "choose a move from the list of `union`",
    "steer": "set weights of `union`",
}
"""Meaning of each action space."""


@cache
def made(which: str) -> Any:
    """Return an environment whose spaces are shown, with one window."""
    return gymnasium.make("gpu_cluster_gym:GPUCluster-v2", count=1, **SHOWN[which]).unwrapped


def actions() -> str:
    """Return the table of the action spaces, with all other keywords at their defaults."""
    rows = []
    for name, chosen in SPACES.items():
        space: Any = gymnasium.make("gpu_cluster_gym:GPUCluster-v2", count=1, **chosen).unwrapped.action_space
        shape = f"Discrete({space.n})" if isinstance(space, Discrete) else box_text(space)
        rows.append((f"`{name}`", f"`{shape}`", CHOICES[name]))
    return table(("`action`", "space", "meaning"), rows)


def observations() -> str:
    """Return the table of the parts of observations, with shapes, bounds and the environments that show each."""
    shown: dict[tuple[str, str, str], list[str]] = {}
    for which in SHOWN:
        env = made(which)
        low, high = (split(env.seen_parts, corner(env.observation_space, side)) for side in ("low", "high"))
        for name, shape in env.shapes.items():
            bounds = f"{low[name].min():.4g} to {high[name].max():.4g}"
            shown.setdefault((name, f"`{shape}`", bounds), []).append(f"`{which}`")
    rows = ((f"`{name}`", *of, ", ".join(where)) for (name, *of), where in shown.items())
    return table(("part", "shape", "bounds", "shown with"), rows)


def corner(space: Any, side: str) -> Any:
    """Return the lower or upper bounds of an observation space, as an observation."""
    if isinstance(space, Dict):
        return {name: getattr(each, side) for name, each in space.items()}
    return getattr(space, side)


def box_text(space: Box) -> str:
    """Return a box in short notation."""
    return f"Box({np.min(space.low):g}, {np.max(space.high):g}, {space.shape}, {space.dtype})"


def rewards() -> str:
    """Return the table of the modules of rewards."""
    return table(
        ("`reward`", "meaning"),
        ((f"`{name}`", first_sentence("envs.rewards", name)) for name in modules("envs.rewards")),
    )


def arguments() -> str:
    """Return the table of the keywords of `gymnasium.make`: the actions that take each, its default and meaning."""
    found: dict[str, tuple[list[str], list[str], str]] = {
        "action": (list(ENVS), ["'plain'"], "`plain`, `moves` or `steer`")
    }
    for action, env in ENVS.items():
        meanings = dict(re.findall(r"^- `(\w+)`: (.*)$", arguments_of(env), re.MULTILINE))
        for each in (each for kind in KEYWORDS[action] for each in signature(kind).parameters.values()):
            if not is_keyword(each):
                continue
            actions, defaults, _ = found.setdefault(
                each.name, ([], [], meanings.get(each.name, "").rstrip("."))
            )
            actions += [action] if action not in actions else []
            defaults += [shown] if (shown := repr(each.default)) not in defaults else []
    rows = (
        (
            f"`{name}={defaults[0]}`" + "".join(f" or `{each}`" for each in defaults[1:]),
            "all" if len(actions) == len(ENVS) else ", ".join(f"`{each}`" for each in actions),
            meaning,
        )
        for name, (actions, defaults, meaning) in found.items()
    )
    return table(("keyword and default", "with `action`", "meaning"), rows)


def arguments_of(env: type) -> str:
    """Return the section `Arguments` of a docstring, an argument a line."""
    section = cleandoc(env.__doc__ or "").partition("## Arguments")[2]
    return re.sub(r"\n\s+", " ", section)


def is_keyword(parameter: Parameter) -> bool:
    """Return whether a parameter is a keyword of the environment for users."""
    by_name = parameter.kind is Parameter.KEYWORD_ONLY and parameter.name != "threads"
    return by_name or parameter.name == "scenario"


def vector_keywords() -> str:
    """Return the further keywords of `gymnasium.make_vec` with their defaults."""
    return ", ".join(
        f"`{each.name}={getattr(each.default, 'value', each.default)!r}`"
        for each in signature(make_vec).parameters.values()
        if each.kind is not Parameter.VAR_KEYWORD and each.name not in ("scenario", "action")
    )


TABLES: dict[str, Callable[[], str]] = {
    "actions": actions,
    "observations": observations,
    "rewards": rewards,
    "arguments": arguments,
    "vector keywords": vector_keywords,
}
"""Function that returns each table, by the name in its marks."""


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE, TABLES), encoding="utf-8")
