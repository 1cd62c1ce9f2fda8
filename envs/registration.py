"""What `gymnasium.make` and `gymnasium.make_vec` make: the environment that goes with an action."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, VectorEnv

from gpu_cluster_gym.envs.env import GPUClusterEnv
from gpu_cluster_gym.envs.moves import Choosing, MovesEnv
from gpu_cluster_gym.envs.rule_batch import RuleVectorEnv
from gpu_cluster_gym.envs.steer import SteerEnv, Steering
from gpu_cluster_gym.envs.vector import GPUClusterVectorEnv
from gpu_cluster_gym.traces import modules, unknown

ON_THE_RULE: dict[str, tuple[type[SteerEnv | MovesEnv], type[Steering | Choosing]]] = {
    "steer": (SteerEnv, Steering),
    "moves": (MovesEnv, Choosing),
}
"""Actions on the rule over moves: the single environment, and the batch."""
OF_WINDOWS = ("scenario", "workload", "split", "count", "start")


def make(
    scenario: Mapping[str, Any] | None = None, *, action: str = "primitive", **choices: Any
) -> gymnasium.Env[Any, Any]:
    """Return an environment: `SteerEnv` and `MovesEnv` for these actions, else `GPUClusterEnv`."""
    refuse_unknown(action, choices, GPUClusterEnv)
    if action in ON_THE_RULE:
        return ON_THE_RULE[action][0](scenario, **choices)
    return GPUClusterEnv(scenario, action=action, **choices)


def make_vec(
    num_envs: int = 1,
    scenario: Mapping[str, Any] | None = None,
    *,
    action: str = "pick",
    autoreset: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    **choices: Any,
) -> VectorEnv[Any, Any, Any]:
    """Return a batch of environments; the results are the same however many `threads` share the work."""
    refuse_unknown(action, choices, GPUClusterEnv, GPUClusterVectorEnv)
    if action in ON_THE_RULE:
        env, batch = ON_THE_RULE[action]
        choices = without_render_mode(choices)
        single = env(scenario, **choices)
        own = {name: value for name, value in choices.items() if name not in OF_WINDOWS}
        return RuleVectorEnv(num_envs, single, batch(single.batch.found, num_envs, **own), autoreset)
    return GPUClusterVectorEnv(num_envs, scenario, action=action, autoreset=autoreset, **choices)


def refuse_unknown(action: str, choices: Mapping[str, Any], *usual: type) -> None:
    """ValueError for no action, TypeError for a keyword that it does not take; both name those that there are.

    usual: classes whose keywords are those of the actions that are not on the rule.
    """
    actions = [*modules("envs.actions"), *ON_THE_RULE]
    if action not in actions:
        raise ValueError(unknown("action", action, actions))
    known = keywords(*ON_THE_RULE.get(action, usual))
    for name in choices:
        if name in known:
            continue
        if name in keywords(*usual, *(kind for kinds in ON_THE_RULE.values() for kind in kinds)):
            raise TypeError(f"{name} does not go with the action {action!r}, but these: {', '.join(known)}")
        raise TypeError(unknown("keyword", name, known))


def keywords(*kinds: type) -> dict[str, None]:
    """Return the names of the keywords that classes take, each once."""
    found = {
        name: None
        for kind in kinds
        for name, each in signature(kind).parameters.items()
        if each.kind is each.KEYWORD_ONLY
    }
    return {"scenario": None} | found | {"render_mode": None}


def without_render_mode(choices: dict[str, Any]) -> dict[str, Any]:
    """Return the choices of a batch without the mode in which to draw; it has none, ValueError if one is chosen."""
    if choices.get("render_mode") is not None:
        raise ValueError(
            f"render_mode {choices['render_mode']!r}: there is none of a batch; make one environment beside it"
        )
    return {name: value for name, value in choices.items() if name != "render_mode"}
