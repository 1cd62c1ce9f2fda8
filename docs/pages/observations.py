"""Page of the columns of observations, generated from the comments beside their names in the code."""

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from docs.pages.markdown import table
from gpu_cluster_gym.simulator.kernel.moves import move_list
from gpu_cluster_gym.simulator.kernel.slots import features
from gpu_cluster_gym.simulator.kernel.union import load, steering

HEADING = """# Observations, column by column

Generated from the comments in `simulator/kernel/`. `env.unwrapped.columns` has the same names, and [the environment's
page](environment.md#observation-space) the shapes and bounds.

*time* means log1p(seconds / 60) / 4, *signed time* the same with the sign of the quantity, *log1p / 6* means
log(1 + number) / 6. All features are observable by a real scheduler: estimates, not true run times, and no job before
its arrival.
"""
PARTS: dict[str, tuple[ModuleType, str, str]] = {
    "`queue`: one row per queue slot": (
        features,
        "QUEUE_FEATURES",
        "In the order of arrival, or with hints in the base policy's order. If there are more jobs than slots, half of "
        "the slots show the first arrivals and half the last; in the base policy's order, all show the first jobs. The "
        "last slot has the base policy's own choice if no other slot shows it.",
    ),
    "`running`: one row per job that has left the queue": (
        features,
        "RUNNING_FEATURES",
        "Running jobs, those on claimed GPUs first; then jobs that load; then jobs that pause; in each group, the "
        "job with the most remaining time comes first. Last, jobs that wait for the GPUs reserved for them.",
    ),
    "`totals`: one vector": (features, "TOTALS", ""),
    "`moves`: one row per move": (move_list, "FEATURES", "The moves worth considering now."),
    "`load`: one vector": (load, "LOAD", ""),
    "`critic`: one vector": (
        steering,
        "CRITIC",
        "For the critic only: it reveals the progress of the window, which no scheduler can observe.",
    ),
}
"""Module, name of the tuple of columns, and introduction of each part, by its heading."""


def pages() -> dict[str, str]:
    """Return the text of the page by its path."""
    parts = (
        "\n\n".join(
            part for part in (f"## {heading}", text, table(("column", "meaning"), rows(module, name))) if part
        )
        for heading, (module, name, text) in PARTS.items()
    )
    return {"observations.md": "\n\n".join([HEADING.rstrip(), *parts]) + "\n"}


def rows(module: ModuleType, name: str) -> Iterator[tuple[str, str]]:
    """Yield the names and the meaning of each element of a tuple of columns: the comment on its line."""
    source = inspect.getsource(module)
    lines = source.splitlines()
    elements = next(
        node.value.elts
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and ast.unparse(node.targets[0]) == name
    )
    for element in elements:
        if isinstance(element, ast.Starred) and isinstance(element.value, ast.Name):
            yield from rows(module, element.value.id)
        else:
            names: Any = eval(f"({ast.unparse(element)},)", vars(module))
            meaning = lines[(element.end_lineno or 0) - 1].partition("  # ")[2]
            yield ", ".join(f"`{each}`" for each in names), meaning
