"""A name on the command line is the name of a module: which there are, and what they define."""

from collections.abc import Collection
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

PACKAGE = "gpu_cluster_gym"


def modules(package: str) -> list[str]:
    """Return the public modules of a package within `gpu_cluster_gym`, without importing them."""
    path = import_module(f"{PACKAGE}.{package}").__path__
    public = (module for module in iter_modules(path) if not (module.ispkg or module.name.startswith("_")))
    return sorted(module.name for module in public)


def find(package: str, name: str, attribute: str, what: str = "") -> Any:
    """Return the attribute of a package's module; ValueError names those that exist and the nearest.

    what: how such a module is called; as the attribute, if it is not told.
    """
    known = modules(package)
    if name not in known:
        raise ValueError(unknown(what or attribute, name, known))
    return getattr(import_module(f"{PACKAGE}.{package}.{name}"), attribute)


def unknown(what: str, name: str, known: Collection[str]) -> str:
    """Say that there is no such thing, which there are, and which of them was perhaps meant."""
    return f"there is no {what} {name!r} among {', '.join(known)}{did_you_mean(name, known)}"


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return a hint at the name nearest to this one, whatever its case; empty where none is near."""
    folded = {each.casefold(): each for each in known}
    near = get_close_matches(str(name).casefold(), folded, n=1)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""
