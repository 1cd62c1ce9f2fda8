"""Find a kind by the name of its module."""

from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from typing import Any


def names(package: str) -> list[str]:
    """Return the public modules of a package."""
    path = import_module(package).__path__
    return sorted(module.name for module in iter_modules(path) if not module.name.startswith("_"))


def find(package: str, name: str, attribute: str) -> Any:
    """Return the attribute of a package's module; ValueError names those that exist and the nearest."""
    known = names(package)
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"there is no {attribute} {name!r} among {', '.join(known)}{hint}")
    return getattr(import_module(f"{package}.{name}"), attribute)
