"""Names on the command line: a name is a module of its folder, or an entry point of an installed package."""

import os
import sys
from collections.abc import Collection
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

PACKAGE = "gpu_cluster_gym"
GROUPS = {"baselines": "policies", "traces": "traces", "workloads": "workloads"}
"""Entry-point groups `gpu_cluster_gym.GROUP` by the folder whose names they extend."""


def modules(package: str) -> list[str]:
    """Return the public modules of a folder of `gpu_cluster_gym`, without importing them."""
    path = import_module(f"{PACKAGE}.{package}").__path__
    public = (module for module in iter_modules(path) if not (module.ispkg or module.name.startswith("_")))
    return sorted(module.name for module in public)


def available(package: str) -> list[str]:
    """Return the names of a folder's modules, then of entry points that extend it, without importing any."""
    return [*modules(package), *sorted(plug_ins(package))]


def plug_ins(package: str) -> dict[str, EntryPoint]:
    """Return the entry points that extend a folder, by name, without importing them.

    Names of the folder itself take precedence; of packages that share a name, the first one found.
    """
    if package not in GROUPS:
        return {}
    known, found = modules(package), _found(f"{PACKAGE}.{GROUPS[package]}", tuple(sys.path))
    return {each.name: each for each in reversed(found) if each.name not in known}


@cache
def _found(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group; read once per import path, since they are in a file of each package."""
    return tuple(entry_points(group=group))


def provider(package: str, name: str, what: str) -> Any:
    """Return the module of a name in a folder, or the object of an entry point.

    The folder takes precedence. ValueError for an unknown name lists the known ones and the nearest.
    """
    if name in modules(package):
        return import_module(f"{PACKAGE}.{package}.{name}")
    found = plug_ins(package)
    if name not in found:
        raise ValueError(unknown(what, name, available(package)))
    try:
        return found[name].load()
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{what} {name!r}: entry point {found[name].value!r} cannot be loaded ({error}): reinstall its package"
        ) from error


def find(package: str, name: str, attribute: str, what: str = "") -> Any:
    """Return an attribute of the module of a name, or the object that an entry point gives in its place.

    what: the kind of thing in error messages; by default the attribute. ValueError for an unknown name lists the known
    ones and the nearest.
    """
    found = provider(package, name, what or attribute)
    if not isinstance(found, ModuleType):
        return found
    if not hasattr(found, attribute):
        raise ValueError(
            f"{what or attribute} {name!r}: module {found.__name__} does not define {attribute!r}"
        )
    return getattr(found, attribute)


def add_current_folder() -> None:
    """Make modules in the current folder importable, also for an installed command."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def load_own(what: str, name: str) -> Any:
    """Return the function, class or object named `package.module:attribute`.

    what: the kind of thing in error messages. ValueError if there is none, or if it cannot be called.
    """
    add_current_folder()
    module, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in module.split(".")):
        raise ValueError(f"{what} {name!r}: expected package.module:attribute, such as mylab.mine:{what}")
    try:
        found = getattr(import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module exists, but an import inside it fails
        raise ValueError(
            f"{what} {name!r}: no module {error.name!r}; expected one in the current folder or installed"
        ) from error
    if not callable(found):
        known = [each for each, value in vars(import_module(module)).items() if callable(value)]
        hint = did_you_mean(attribute, known)
        raise ValueError(f"{what} {name!r}: {module} has no callable attribute {attribute!r}{hint}")
    return found


def unknown(what: str, name: str, known: Collection[str]) -> str:
    """Return the message for an unknown name: the known ones, and the nearest."""
    return f"unknown {what} {name!r}: expected one of {', '.join(known)}{did_you_mean(name, known)}"


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return a hint at the nearest known name, ignoring case; empty where none is near."""
    folded = {each.casefold(): each for each in known}
    near = get_close_matches(str(name).casefold(), folded, n=1)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""
