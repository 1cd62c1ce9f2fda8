"""Architecture of the sources: import order, uses of libraries, file lengths; failures list every offender."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = "gpu_cluster_gym."
COMMANDS = ("train_agent", "evaluate")
LAYERS = (
    ("traces",),
    ("simulator",),
    ("workloads",),
    ("baselines", "envs"),
    ("evaluation",),
    ("agents",),
    ("experiments",),
    COMMANDS,
)
"""Layers: a subpackage may import those of earlier layers, but no other one of its own layer."""
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}

COMPILER, CALLED = "private modules", "public modules"
KERNEL_LAYERS = (
    (COMPILER,),
    ("cluster",),
    ("rankings",),
    ("cores",),
    ("union", "slots"),
    ("rounds", "moves"),
    (CALLED,),
)
"""Layers of `simulator/kernel/`; modules outside its subpackages are the compiler, or are called from outside."""

HOME = {
    "torch": ("agents/",),
    "stable_baselines3": ("agents/",),
    "sb3_contrib": ("agents/",),
    "tensorboard": ("agents/",),
    "wandb": ("agents/callbacks.py",),
    "mlflow": ("agents/callbacks.py",),
    "numba": ("simulator/kernel/",),
    "llvmlite": ("simulator/kernel/",),
    "gymnasium": ("envs/", "agents/"),
    "matplotlib": ("evaluation/plot/", "experiments/", "envs/render.py"),
    "rich": ("evaluation/", "experiments/", *(f"{command}.py" for command in COMMANDS)),
    "tyro": ("evaluation/choices.py",),
    "joblib": ("evaluation/each.py",),
    "ray": ("evaluation/each.py",),
}
WITHOUT_PANDAS = ("simulator/kernel/", "simulator/view.py", "simulator/episode.py")
TESTING = {"tests", "benchmarks", "conftest", "pytest", "hypothesis"}

FILE_BUDGET = 800


@cache
def product() -> tuple[str, ...]:
    """Return the paths, from the root, of the sources of the subpackages and the two commands."""
    inside = [path for name in RANK for path in (ROOT / name).rglob("*.py")]
    commands = [ROOT / f"{command}.py" for command in COMMANDS]
    return tuple(sorted(str(path.relative_to(ROOT)) for path in (*inside, *commands)))


@cache
def everything() -> tuple[str, ...]:
    """Return the product's sources and those of the tests and benchmarks."""
    around = [path for folder in ("tests", "benchmarks", "docs") for path in (ROOT / folder).rglob("*.py")]
    return product() + tuple(sorted(str(path.relative_to(ROOT)) for path in around))


@cache
def tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), filename=path)


@cache
def imports(path: str) -> tuple[str, ...]:
    """Return the dotted name of every import of a file, including those in functions and for type checking."""
    return tuple(_imports(path))


def _imports(path: str) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.removeprefix(PACKAGE) for alias in names)
            case ast.ImportFrom(level=0, module=str(module), names=names):
                yield from (f"{module}.{alias.name}".removeprefix(PACKAGE) for alias in names)
            case ast.ImportFrom():
                yield owner(path)


def first_part(name: str) -> str:
    """Return the first part of a dotted name."""
    return name.partition(".")[0]


def owner(path: str) -> str:
    """Return the subpackage or command that a file belongs to."""
    return Path(path).parts[0].removesuffix(".py")


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


def test_every_package_is_installed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = {Path(path).parent.as_posix() for path in product() if "/" in path}
    named = {f"{PACKAGE}{folder.replace('/', '.')}" for folder in folders}
    assert {PACKAGE.rstrip("."), *named} == set(settings["tool"]["setuptools"]["packages"])


def test_every_subpackage_has_sources() -> None:
    assert {owner(path) for path in product()} == set(RANK)


def test_imports_follow_the_layers() -> None:
    def may(path: str, name: str) -> bool:
        here, there = owner(path), first_part(name)
        return there not in RANK or here == there or RANK[there] < RANK[here]

    assert [(path, name) for path in product() for name in imports(path) if not may(path, name)] == []


def test_imports_in_the_kernel_follow_the_layers() -> None:
    rank = {name: rank for rank, layer in enumerate(KERNEL_LAYERS) for name in layer}

    def kernel_layer(parts: Sequence[str]) -> str:
        inside = parts[2] if len(parts) > 2 else ""
        return inside if inside in rank else COMPILER if inside.startswith("_") else CALLED

    def may(path: str, name: str) -> bool:
        here, there = kernel_layer(Path(path).with_suffix("").parts), kernel_layer(name.split("."))
        return not name.startswith("simulator.kernel.") or here == there or rank[there] < rank[here]

    inside = [path for path in product() if path.startswith("simulator/kernel/")]
    assert [(path, name) for path in inside for name in imports(path) if not may(path, name)] == []


def test_private_modules_are_imported_in_their_subpackage_only() -> None:
    def private(path: str, name: str) -> bool:
        parts = name.split(".")
        return parts[0] in RANK and parts[0] != owner(path) and any(part.startswith("_") for part in parts)

    assert [(path, name) for path in product() for name in imports(path) if private(path, name)] == []


def test_the_product_does_not_import_its_tests() -> None:
    assert [path for path in product() if TESTING & {first_part(name) for name in imports(path)}] == []


def test_each_library_is_imported_in_its_subpackages_only() -> None:
    def astray(path: str, library: str) -> bool:
        return library in HOME and not path.startswith(HOME[library])

    assert [
        (path, name) for path in product() for name in imports(path) if astray(path, first_part(name))
    ] == []


def test_the_kernel_does_not_import_pandas() -> None:
    places = [path for path in product() if path.startswith(WITHOUT_PANDAS)]
    assert [path for path in places if "pandas" in map(first_part, imports(path))] == []


def test_files_keep_the_line_budget() -> None:
    lengths = {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in everything()}
    assert {path: length for path, length in lengths.items() if length > FILE_BUDGET} == {}


def test_contributing_states_the_lines_of_each_folder_within_a_tenth() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+)/` \| \d+ \| ([\d,]+) ", text, re.MULTILINE)
    stated = {name: int(lines.replace(",", "")) for name, lines in rows}
    found: Counter[str] = Counter()
    for path in filter(lambda path: "/" in path, product()):
        folder = "simulator/kernel" if path.startswith("simulator/kernel/") else owner(path)
        found[folder] += len((ROOT / path).read_text(encoding="utf-8").splitlines())
    assert {
        each: lines for each, lines in found.items() if abs(lines - stated.get(each, 0)) > 0.1 * lines
    } == {}


def test_every_public_name_has_a_docstring() -> None:
    assert [name for path in product() for name in public_without_docstring(path)] == []


def test_only_commands_print() -> None:
    printing = ("__main__.py", "evaluation/command.py")
    silent = [path for path in product() if owner(path) not in COMMANDS and not path.endswith(printing)]
    calls = (
        (path, node.func) for path in silent for node in ast.walk(tree(path)) if isinstance(node, ast.Call)
    )
    assert [(path, f.lineno) for path, f in calls if isinstance(f, ast.Name) and f.id == "print"] == []


def loaded_by(code: str) -> set[str]:
    """Return the libraries that a new interpreter has loaded after running some code."""
    code = f"{code}; import sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_heuristics_do_not_load_torch() -> None:
    loaded = loaded_by(
        "from gpu_cluster_gym import baselines; [baselines.load(name) for name in baselines.names()]"
    )
    assert loaded & {"torch", "stable_baselines3", "tyro"} == set()
    assert "numpy" in loaded, "this test would notice"


def test_flags_are_read_before_anything_heavy_is_loaded() -> None:
    loaded = loaded_by("from gpu_cluster_gym import evaluate, train_agent")
    assert loaded & {"torch", "pandas", "numba", "scipy", "tyro", "rich"} == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_loads_no_heavy_library(command: str) -> None:
    line = [sys.executable, "-X", "importtime", f"{command}.py", "--help"]
    times = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stderr
    loaded = {each.rpartition("|")[2].strip().partition(".")[0] for each in times.splitlines()}
    assert loaded & {"torch", "pandas", "numba", "scipy", "matplotlib"} == set()
    assert "tyro" in loaded, "this test would notice"
