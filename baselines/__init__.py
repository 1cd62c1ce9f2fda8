"""Policies that do not learn, one module each: `policy` is a `Ranking`, a function of the view, or a class.

`fifo` is `baselines/fifo.py`. A policy may be compiled (`simulator.kernel.cluster.decided`), like `tiresias`.
Policies whose names end in `_oracle` use what no scheduler knows. A module may have, beside its policy, the
`GRID` of settings among which `benchmarks/tune.py` searches: values by the name of a field. What it found is `tuned`.
The `LEVER` of a module (a part of physics, `deadlines` or `users`) is what the policy pulls that a plain one does not:
a table says where the scenario lacks it.
"""

if __name__ != "gpu_cluster_gym.baselines":
    raise ImportError("baselines is part of a package: import gpu_cluster_gym.baselines, not baselines")

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gpu_cluster_gym.baselines._tuned import (
    CONSTANTS,
    TAUGHT,
    TOGETHER,
    Tuned,
    best_constants,
    constants,
    found_for,
    searched,
    tuned,
    with_constants,
)
from gpu_cluster_gym.traces import modules, unknown

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.policy import Policy

__all__ = [
    "CONSTANTS",
    "TAUGHT",
    "TOGETHER",
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
    """Return the names of all policies here, without importing them."""
    return modules("baselines")


def quick_names() -> list[str]:
    """Return the names of the policies here that do not take minutes a window."""
    return [name for name in names() if not hasattr(_module(name), "MINUTES_A_WINDOW")]


def load(name: str | Tuned) -> "Policy | type":
    """Return a policy by its name here, with what a search found, or of another package by `package.module:attribute`.

    A class is returned as it is: `make` turns it into an instance. ValueError if there is no such policy.
    """
    if isinstance(name, Tuned):
        return vary(load(name.policy), **name.settings)
    if ":" in name:
        return _load_own(name)
    if name not in names():
        raise ValueError(unknown("policy", name, (*names(), "package.module:attribute")))
    found: Policy | type = _module(name).policy
    return found


def make(policy: "Policy | type") -> "Policy":
    """Return what is asked during one episode: an instance of a class, anything else as it is."""
    of_class = isinstance(policy.func if isinstance(policy, partial) else policy, type)
    made: Policy = policy() if of_class else policy  # type: ignore[call-arg, assignment]
    return made


def lever(name: str) -> str | None:
    """Return what a policy here is of no use without, by the `LEVER` that its module names; None if it names none."""
    found: str | None = getattr(_module(name), "LEVER", None)
    return found


def grid(name: str) -> Mapping[str, Sequence[Any]]:
    """Return the settings that a policy here offers to the search; none if it has no thresholds."""
    found: Mapping[str, Sequence[Any]] = getattr(_module(name), "GRID", {})
    return found


def vary(policy: "Policy | type", **settings: Any) -> "Policy | type":
    """Return a policy with other settings than the default: a class, or a ranking."""
    if not settings:
        return policy
    varied: Policy = partial(policy, **settings) if isinstance(policy, type) else replace(policy, **settings)  # type: ignore[type-var]
    return varied


def _module(name: str) -> ModuleType:
    return import_module(f"gpu_cluster_gym.baselines.{name}")


def _load_own(name: str) -> "Policy | type":
    module, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in module.split(".")):
        raise ValueError(f"policy {name!r}: write package.module:attribute, such as mylab.mine:policy")
    try:
        found = getattr(import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # it exists, and imports something that does not
        raise ValueError(f"policy {name!r}: there is no module {error.name!r} to import") from error
    if not callable(found):
        raise ValueError(f"policy {name!r}: {module} has no callable attribute {attribute!r}")
    own: Policy | type = found
    return own
