"""Policies without learning, one module each: `policy` is a `Ranking`, a function of the view, or a class.

`fifo` is `baselines/fifo.py`; a policy may be compiled (`simulator.kernel.cluster.plan`), like `tiresias`. Other
packages add policies by entry points in the group `gpu_cluster_gym.policies`: a policy, or a module that defines
`policy`.

Policies whose names end in `_oracle` use information that no scheduler has. A module may also define `GRID`, settings
among which `benchmarks/tune.py` searches (values by field), and `LEVER`, the part of physics
(or `deadlines` or `users`) without which the policy has no advantage; a table notes where the scenario lacks it.
"""

if __name__ != "gpu_cluster_gym.baselines":
    raise ImportError("baselines is part of a package: import gpu_cluster_gym.baselines, not baselines")

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from gpu_cluster_gym.baselines._tuned import (
    CONSTANTS,
    TOGETHER,
    WITH_HISTORY,
    Tuned,
    best_constants,
    constants,
    found_for,
    searched,
    tuned,
    with_constants,
)
from gpu_cluster_gym.traces import available, find, load_own, modules, provider, unknown

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.policy import Policy

__all__ = [
    "CONSTANTS",
    "TOGETHER",
    "WITH_HISTORY",
    "Tuned",
    "best_constants",
    "constants",
    "found_for",
    "grid",
    "lever",
    "load",
    "make",
    "names",
    "quick_names",
    "searched",
    "tuned",
    "vary",
    "with_constants",
]


def names() -> list[str]:
    """Return the names of all policies, those of other packages included, without importing them."""
    return available("baselines")


def quick_names() -> list[str]:
    """Return the names of all policies except those that take minutes per window."""
    return [name for name in names() if not hasattr(_provider(name), "SLOW")]


def load(name: str | Tuned) -> "Policy | type":
    """Return a policy by its name, by `package.module:attribute`, or with settings that a search found.

    A class is returned as it is; `make` creates an instance. ValueError for an unknown policy.
    """
    if isinstance(name, Tuned):
        return vary(load(name.policy), **name.settings)
    if ":" in name:
        own: Policy | type = load_own("policy", name)
        return own
    if name not in modules("baselines") and name not in names():
        raise ValueError(unknown("policy", name, (*names(), "package.module:attribute")))
    found: Policy | type = find("baselines", name, "policy")
    if not callable(found):
        raise ValueError(
            f"policy {name!r}: its entry point is not callable; name a policy, or a module with one"
        )
    return found


def make(policy: "Policy | type") -> "Policy":
    """Return the policy of one episode: an instance of a class, a copy of an object, a function unchanged.

    An object that several episodes shared would carry its state from window to window, and results would depend on
    the number of processes. ValueError for an object that cannot be copied.
    """
    of_class = isinstance(policy.func if isinstance(policy, partial) else policy, type)

    if of_class:
        instance: Policy = policy()  # type: ignore[call-arg, assignment]
        return instance
    if type(policy).__module__.partition(".")[0] == __name__.partition(".")[0]:
        return policy  # its state belongs to the episode
    try:
        return deepcopy(policy)
    except Exception as error:
        raise ValueError(
            f"an object as a policy is copied for each episode, and this {type(policy).__name__} cannot be copied "
            f"({error}): pass its class, or functools.partial(its class, settings)"
        ) from error


def lever(name: str) -> str | None:
    """Return the `LEVER` of a policy's module, or None."""
    found: str | None = getattr(_provider(name), "LEVER", None)
    return found


def grid(name: str) -> Mapping[str, Sequence[Any]]:
    """Return the settings of a policy to search over; none if it has no parameters."""
    found: Mapping[str, Sequence[Any]] = getattr(_provider(name), "GRID", {})
    return found


def vary(policy: "Policy | type", **settings: Any) -> "Policy | type":
    """Return a policy with other settings than its defaults: a class, or a ranking."""
    if not settings:
        return policy
    varied: Policy = partial(policy, **settings) if isinstance(policy, type) else replace(policy, **settings)  # type: ignore[type-var]
    return varied


def _provider(name: str) -> Any:
    return provider("baselines", name, "policy")
