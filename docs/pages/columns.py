"""Page of all columns and options, generated from their declarations in the code."""

from collections.abc import Iterator, Mapping
from dataclasses import fields

from docs.pages.markdown import table
from docs.pages.policies import field_docstrings
from gpu_cluster_gym.agents.training import KINDS
from gpu_cluster_gym.evaluation.metrics import METRICS
from gpu_cluster_gym.evaluation.record import COMPARED, DECISIONS, SEGMENTS, TIMELINE
from gpu_cluster_gym.simulator import results
from gpu_cluster_gym.simulator.view import Entities, Gpus, Jobs, Nodes
from gpu_cluster_gym.traces import COLUMNS
from gpu_cluster_gym.workloads import Scenario

HEADING = """# Columns and options

Generated from the declarations in the code. Times are in seconds and memory in GiB unless stated otherwise."""
TRACE = """## Trace

Columns of a job table, and of a CSV file for `--trace-file`. Columns in bold are required; the others are drawn if a
trace lacks them and a part of physics needs them."""
SCENARIO = """## Scenario

Specification of a simulation: fields of `workloads.Scenario`, keys of the environment's `scenario` and, with hyphens,
flags of both commands."""
TRAINING = """## Training

Options of `train_agent.py`: fields of the classes in `agents.training` and, with hyphens, flags."""
SUMMARY = """## Summary: `summary.json`

Metrics over all windows and of each window; the heading is that of the printed table."""
VIEW: dict[str, type[Entities]] = {"jobs": Jobs, "gpus": Gpus, "nodes": Nodes}


def pages() -> dict[str, str]:
    """Return the text of the page by its path."""
    views = (
        f"## `view.{name}`\n\n{' '.join((kind.__doc__ or '').split())}\n\n{view_table(kind)}"
        for name, kind in VIEW.items()
    )
    training = [f"### `--action {name}`\n\n{options_table(kind)}" for name, kind in KINDS.items()]
    options = (SCENARIO, options_table(Scenario), TRAINING, *training)
    return {"columns.md": "\n\n".join([HEADING, trace_table(), *views, *options, *run_tables()]) + "\n"}


def trace_table() -> str:
    """Return the table of the columns of a trace."""
    rows = (
        (f"**`{each.name}`**" if each.required else f"`{each.name}`", each.unit, each.meaning, each.filled)
        for each in COLUMNS
    )
    return f"{TRACE}\n\n{table(('column', 'unit', 'meaning', 'if a trace lacks it'), rows)}"


def run_tables() -> Iterator[str]:
    """Yield the tables of the output files of a run."""
    yield f"## Results: `jobs.csv`\n\n{columns_table(results.COLUMNS)}"
    rows = (
        (f"`{name}`", " ".join(each.heading.replace("-\n", "").split()), each.meaning)
        for name, each in METRICS.items()
    )
    yield f"{SUMMARY}\n\n{table(('metric', 'heading', 'meaning'), rows)}"
    yield f"## Record: `segments.csv`\n\n{columns_table(SEGMENTS)}"
    yield f"## Record: `timeline.csv`\n\n{columns_table(TIMELINE)}"
    yield f"## Record: `decisions.csv`\n\n{columns_table(DECISIONS)}"
    yield f"## Record: `compared.csv`\n\n{columns_table(COMPARED)}"


def columns_table(columns: Mapping[str, str]) -> str:
    """Return the table of columns with their meanings."""
    return table(("column", "meaning"), ((f"`{name}`", meaning) for name, meaning in columns.items()))


def options_table(kind: type) -> str:
    """Return the table of the fields of a dataclass of options."""
    meanings = {
        name: meaning
        for each in reversed(kind.__mro__[:-1])
        for name, meaning in field_docstrings(each).items()
    }
    rows = ((f"`{each.name}`", f"`{each.default!r}`", meanings.get(each.name, "")) for each in fields(kind))
    return table(("field", "default", "meaning"), rows)


def view_table(kind: type[Entities]) -> str:
    """Return the table of the arrays of jobs, GPUs or nodes in a view."""
    names = sorted(name for name in dir(kind) if not name.startswith("_") and name != "count")
    return columns_table({name: " ".join((getattr(kind, name).__doc__ or "").split()) for name in names})
