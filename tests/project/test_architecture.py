"""The shape of the sources: who imports whom, where each library lives, how long things are; offenders are listed."""

import ast
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
ROOMS = (
    ("traces",),
    ("simulator",),
    ("workloads",),
    ("baselines", "envs"),
    ("evaluation",),
    ("agents",),
    ("experiments",),
    COMMANDS,
)
"""Each may import what stands before it; those that stand together do not know each other."""
RANK = {room: rank for rank, rooms in enumerate(ROOMS) for room in rooms}

COMPILER, CALLED = "_compile and its like", "calls and its like"
KERNEL_ROOMS = (
    (COMPILER,),
    ("cluster",),
    ("rankings",),
    ("cores",),
    ("rule", "slots"),
    ("rounds", "moves"),
    (CALLED,),
)
"""Those of `simulator/kernel/`, likewise; what has no room there is the compiler, or else is called from outside."""

HOME = {
    "torch": ("agents/",),
    "stable_baselines3": ("agents/",),
    "sb3_contrib": ("agents/",),
    "tensorboard": ("agents/",),
    "wandb": ("agents/tracking.py",),
    "mlflow": ("agents/tracking.py",),
    "numba": ("simulator/kernel/",),
    "llvmlite": ("simulator/kernel/",),
    "gymnasium": ("envs/", "agents/"),
    "matplotlib": ("evaluation/plot/", "experiments/", "envs/render.py"),
    "rich": ("evaluation/", "experiments/", *(f"{command}.py" for command in COMMANDS)),
    "tyro": ("evaluation/help.py",),
}
WITHOUT_PANDAS = ("simulator/kernel/", "simulator/view.py", "simulator/episode.py")
TESTING = {"tests", "benchmarks", "conftest", "pytest", "hypothesis"}

FILE_BUDGET = 800
FUNCTION_BUDGET = 40


@cache
def product() -> tuple[str, ...]:
    """Return the paths, from the root, of the sources of the rooms and the two commands."""
    inside = [path for room in RANK for path in (ROOT / room).rglob("*.py")]
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
    """Return the dotted name of everything a file imports, inside functions and for type checking too."""
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


def room(name: str) -> str:
    """Return the first part of a dotted name."""
    return name.partition(".")[0]


def owner(path: str) -> str:
    """Return the room or command that a file belongs to."""
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
    named = {f"{PACKAGE}{folder.replace('/', '.')}" for folder in folders}
    assert {PACKAGE.rstrip("."), *named} == set(settings["tool"]["setuptools"]["packages"])


def test_every_room_has_something_to_read() -> None:
    assert {owner(path) for path in product()} == set(RANK)


def test_imports_point_one_way() -> None:
    def may(path: str, name: str) -> bool:
        here, there = owner(path), room(name)
        return there not in RANK or here == there or RANK[there] < RANK[here]

    assert [(path, name) for path in product() for name in imports(path) if not may(path, name)] == []


def test_rooms_of_the_kernel_point_one_way() -> None:
    rank = {room: rank for rank, rooms in enumerate(KERNEL_ROOMS) for room in rooms}

    def kernel_room(parts: Sequence[str]) -> str:
        inside = parts[2] if len(parts) > 2 else ""
        return inside if inside in rank else COMPILER if inside.startswith("_") else CALLED

    def may(path: str, name: str) -> bool:
        here, there = kernel_room(Path(path).with_suffix("").parts), kernel_room(name.split("."))
        return not name.startswith("simulator.kernel.") or here == there or rank[there] < rank[here]

    inside = [path for path in product() if path.startswith("simulator/kernel/")]
    assert [(path, name) for path in inside for name in imports(path) if not may(path, name)] == []


def test_files_of_the_kernel_have_names_of_their_own() -> None:
    """What is compiled is kept in one folder, by the name of the file without its room."""
    names = Counter(Path(path).stem for path in product() if path.startswith("simulator/kernel/"))
    assert [name for name, count in names.items() if count > 1 and name != "__init__"] == []


def test_what_begins_with_an_underscore_stays_in_its_room() -> None:
    def private(path: str, name: str) -> bool:
        parts = name.split(".")
        return parts[0] in RANK and parts[0] != owner(path) and any(part.startswith("_") for part in parts)

    assert [(path, name) for path in product() for name in imports(path) if private(path, name)] == []


def test_the_product_does_not_import_its_tests() -> None:
    assert [path for path in product() if TESTING & {room(name) for name in imports(path)}] == []


def test_each_library_stays_in_its_room() -> None:
    def astray(path: str, library: str) -> bool:
        return library in HOME and not path.startswith(HOME[library])

    assert [(path, name) for path in product() for name in imports(path) if astray(path, room(name))] == []


def test_pandas_stops_where_arrays_begin() -> None:
    places = [path for path in product() if path.startswith(WITHOUT_PANDAS)]
    assert [path for path in places if "pandas" in map(room, imports(path))] == []


def test_a_file_tells_one_story() -> None:
    lengths = {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in everything()}
    assert {path: length for path, length in lengths.items() if length > FILE_BUDGET} == {}


def test_a_function_fits_one_look() -> None:
    lengths = {
        f"{path}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in everything()
        for node in functions(path)
    }
    assert {name: length for name, length in lengths.items() if length > FUNCTION_BUDGET} == {}


def test_every_public_name_explains_itself() -> None:
    assert [name for path in product() for name in public_without_docstring(path)] == []


def test_only_commands_print() -> None:
    printing = ("__main__.py", "evaluation/command.py")
    silent = [path for path in product() if owner(path) not in COMMANDS and not path.endswith(printing)]
    calls = (
        (path, node.func) for path in silent for node in ast.walk(tree(path)) if isinstance(node, ast.Call)
    )
    assert [(path, f.lineno) for path, f in calls if isinstance(f, ast.Name) and f.id == "print"] == []


def loaded_by(code: str) -> set[str]:
    """Return the libraries that a fresh interpreter has loaded after running some code."""
    code = f"{code}; import sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_heuristic_does_not_wait_for_torch() -> None:
    loaded = loaded_by(
        "from gpu_cluster_gym import baselines; [baselines.load(name) for name in baselines.names()]"
    )
    assert loaded & {"torch", "stable_baselines3", "tyro"} == set()
    assert "numpy" in loaded, "this test would notice"


def test_flags_are_read_before_anything_heavy_is_loaded() -> None:
    loaded = loaded_by("from gpu_cluster_gym import evaluate, train_agent")
    assert loaded & {"torch", "pandas", "numba", "scipy", "tyro", "rich"} == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_loads_nothing_heavy_but_what_reads_flags(command: str) -> None:
    line = [sys.executable, "-X", "importtime", f"{command}.py", "--help"]
    told = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stderr
    loaded = {each.rpartition("|")[2].strip().partition(".")[0] for each in told.splitlines()}
    assert loaded & {"torch", "pandas", "numba", "scipy", "matplotlib"} == set()
    assert "tyro" in loaded, "this test would notice"
