"""The shape of the sources: who imports whom, where each library lives, and how long things are."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ("train_agent", "evaluate")
ORDER = {"traces": 0, "envs": 1, "baselines": 2, "agents": 3, "experiments": 4} | dict.fromkeys(COMMANDS, 5)

GYMNASIUM_FACE = (
    "envs/__init__.py",
    "envs/env.py",
    "envs/vector.py",
    "envs/registry.py",
    "envs/observations/",
    "envs/actions/",
)
HOME = {
    "torch": ("agents/",),
    "stable_baselines3": ("agents/",),
    "sb3_contrib": ("agents/",),
    "tensorboard": ("agents/",),
    "numba": ("envs/kernel/",),
    "llvmlite": ("envs/kernel/",),
    "gymnasium": GYMNASIUM_FACE,
    "matplotlib": ("experiments/",),
    "tyro": ("train_agent.py", "evaluate.py"),
}
PLACES_WITHOUT_PANDAS = ("envs/kernel/", "envs/view.py", "envs/episode.py")
PLACES_THAT_PRINT = ("train_agent.py", "evaluate.py", "benchmarks/")

FILE_BUDGET = 350
FUNCTION_BUDGET = 40


def product() -> list[str]:
    """Return the paths, from the root, of the sources of the packages and the two commands."""
    inside = [path for package in ORDER for path in (ROOT / package).rglob("*.py")]
    commands = [ROOT / f"{command}.py" for command in COMMANDS]
    return sorted(str(path.relative_to(ROOT)) for path in (*inside, *commands) if path.exists())


def everything() -> list[str]:
    """Return the product's sources and those of the tests and benchmarks."""
    around = [path for folder in ("tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    return product() + sorted(str(path.relative_to(ROOT)) for path in around)


@cache
def tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), filename=path)


def imports(path: str) -> Iterator[str]:
    """Yield the top-level name of everything a file imports, inside functions and for type checking too."""
    for node in ast.walk(tree(path)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.split(".")[0] for alias in names)
            case ast.ImportFrom(level=0, module=str(module)):
                yield module.split(".")[0]
            case ast.ImportFrom():
                yield owner(path)


def owner(path: str) -> str:
    """Return the package or command that a file belongs to."""
    return Path(path).parts[0].removesuffix(".py")


def functions(path: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def public_without_docstring(path: str) -> Iterator[str]:
    """Yield the module and the public classes, functions and methods in it that have no docstring."""
    if ast.get_docstring(tree(path)) is None:
        yield path
    holders: list[ast.Module | ast.ClassDef] = [tree(path)]
    while holders:
        for node in holders.pop().body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
                continue
            if ast.get_docstring(node) is None:
                yield f"{path}:{node.lineno} {node.name}"
            if isinstance(node, ast.ClassDef):
                holders.append(node)


def test_every_package_is_named_for_the_installation() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = {Path(path).parent.as_posix() for path in product() if "/" in path}
    assert {folder.replace("/", ".") for folder in folders} <= set(settings["tool"]["setuptools"]["packages"])


def test_there_is_something_to_read() -> None:
    assert {owner(path) for path in product()} >= {"traces", "envs"}


@pytest.mark.parametrize("path", product())
def test_imports_point_left_only(path: str) -> None:
    rank = ORDER[owner(path)]
    assert [name for name in imports(path) if ORDER.get(name, 0) > rank] == []


@pytest.mark.parametrize("path", product())
def test_the_product_does_not_import_its_tests(path: str) -> None:
    assert {"tests", "benchmarks", "conftest", "pytest", "hypothesis"}.isdisjoint(imports(path))


@pytest.mark.parametrize("path", product())
def test_each_library_stays_in_its_room(path: str) -> None:
    assert [name for name in imports(path) if not path.startswith(HOME.get(name, ""))] == []


@pytest.mark.parametrize("path", [path for path in product() if path.startswith(PLACES_WITHOUT_PANDAS)])
def test_pandas_stops_where_arrays_begin(path: str) -> None:
    assert "pandas" not in imports(path)


@pytest.mark.parametrize("path", everything())
def test_a_file_tells_one_story(path: str) -> None:
    assert len((ROOT / path).read_text(encoding="utf-8").splitlines()) <= FILE_BUDGET


@pytest.mark.parametrize("path", everything())
def test_a_function_fits_one_look(path: str) -> None:
    lengths = {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in functions(path)}
    assert {name: length for name, length in lengths.items() if length > FUNCTION_BUDGET} == {}


@pytest.mark.parametrize("path", product())
def test_every_public_name_explains_itself(path: str) -> None:
    assert list(public_without_docstring(path)) == []


@pytest.mark.parametrize("path", product())
def test_only_commands_print(path: str) -> None:
    if path.startswith(PLACES_THAT_PRINT) or path.endswith("__main__.py"):
        return
    calls = (node.func for node in ast.walk(tree(path)) if isinstance(node, ast.Call))
    assert [name.lineno for name in calls if isinstance(name, ast.Name) and name.id == "print"] == []


def test_a_heuristic_does_not_wait_for_torch() -> None:
    code = "import baselines, envs, sys, traces; print({'torch', 'stable_baselines3'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
