"""Entry points of `gymnasium.make` and `gymnasium.make_vec`."""

from collections.abc import Mapping
from dataclasses import fields
from inspect import signature
from typing import Any

from gymnasium.vector import AutoresetMode

from gpu_cluster_gym.envs.env import ClusterEnv, GPUClusterEnv, UnionEnv
from gpu_cluster_gym.envs.moves import MovesBatch, MovesEnv
from gpu_cluster_gym.envs.steer import SteerBatch, SteerEnv
from gpu_cluster_gym.envs.vector import GPUClusterVectorEnv
from gpu_cluster_gym.traces import unknown
from gpu_cluster_gym.workloads import Scenario

ENVS: dict[str, type[ClusterEnv]] = {"plain": GPUClusterEnv, "moves": MovesEnv, "steer": SteerEnv}
"""Environment of each action kind."""
KEYWORDS: dict[str, tuple[type, ...]] = {
    "plain": (GPUClusterEnv,),
    "moves": (UnionEnv, MovesBatch),
    "steer": (UnionEnv, SteerBatch),
}
"""Classes whose constructors take the keywords of each action kind."""


def make(scenario: Mapping[str, Any] | None = None, *, action: str = "plain", **choices: Any) -> ClusterEnv:
    """Return the environment of an action kind; entry point of `gymnasium.make`.

    action: `plain`, `moves` or `steer`.
    scenario, choices: the keywords of `GPUClusterEnv`, `MovesEnv` or `SteerEnv`.
    ValueError for an unknown action or an invalid value; TypeError for a keyword that the action does not take.
    """
    _refuse_unknown(action, choices)
    return ENVS[action](scenario, **choices)  # type: ignore[arg-type]


def make_vec(
    num_envs: int = 1,
    scenario: Mapping[str, Any] | None = None,
    *,
    action: str = "plain",
    autoreset: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    threads: int = 1,
    **choices: Any,
) -> GPUClusterVectorEnv:
    """Return `num_envs` environments as one vector environment; entry point of `gymnasium.make_vec`.

    autoreset: Gymnasium's mode, see `GPUClusterVectorEnv`.
    threads: number of threads that share the work; results do not depend on it.
    scenario, action, choices: as for `make`, without `render_mode`.
    ValueError and TypeError as for `make`; ValueError for a `render_mode`, or for windows that cannot be batched.
    """
    _refuse_unknown(action, choices, "threads")
    if choices.pop("render_mode", None) is not None:
        raise ValueError(
            "render_mode: a vector environment cannot render; create a single environment for rendering"
        )
    return GPUClusterVectorEnv(
        num_envs, make(scenario, action=action, **choices), autoreset=autoreset, threads=threads
    )


def keywords(action: str) -> list[str]:
    """Return the names of the keywords of an action kind."""
    names = {"scenario": None}
    for kind in KEYWORDS[action]:
        for name, each in signature(kind).parameters.items():
            if each.kind is each.KEYWORD_ONLY and name != "threads":
                names[name] = None
    return list(names)


def _refuse_unknown(action: str, choices: Mapping[str, Any], *more: str) -> None:
    """Raise ValueError for an unknown action, and TypeError for a keyword that the action does not take."""
    if action not in ENVS:
        raise ValueError(unknown("action", action, list(ENVS)))
    known = [*keywords(action), *more]
    for name in choices:
        if name in known:
            continue
        if any(name in keywords(other) for other in ENVS):
            raise TypeError(
                f"keyword {name!r} does not apply to action {action!r}, which takes {', '.join(known)}"
            )
        if name in {field.name for field in fields(Scenario)}:
            raise TypeError(
                f"{name!r} is a field of the scenario: pass scenario={{{name!r}: {choices[name]!r}}}"
            )
        raise TypeError(unknown("keyword", name, [*known, "action"]))
