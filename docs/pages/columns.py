"""Every column and number there is, in tables made of the declarations: of traces, views, results and records."""

from collections.abc import Iterator, Mapping
from dataclasses import fields

from docs.pages.markdown import table
from docs.pages.policies import below_fields
from gpu_cluster_gym.agents.training import KINDS
from gpu_cluster_gym.evaluation.metrics import METRICS
from gpu_cluster_gym.evaluation.record import SEGMENTS, TIMELINE
from gpu_cluster_gym.simulator import results
from gpu_cluster_gym.simulator.view import Entities, Gpus, Jobs, Nodes
from gpu_cluster_gym.traces import COLUMNS
from gpu_cluster_gym.workloads import Scenario

HEADING = """# Columns and numbers

Made of the declarations in the code. Times are seconds and memory is GiB unless a unit says otherwise."""
OF_TRACE = """## Of a trace

The columns of a job table, and of a CSV for `--trace-file`; those in bold must be there, others are drawn where a trace
lacks them and a part of physics asks for them."""
OF_SCENARIO = """## Of a scenario

What is simulated: fields of `workloads.Scenario`, keys of the environment's `scenario`, and, with hyphens, flags of
both commands."""
OF_TRAINING = """## Of a training

Options of `train_agent.py`: fields of the classes in `agents.training`, and flags."""
OF_SUMMARY = """## Of a summary: `summary.json`

Over all windows and of each; a heading is that of the table."""
SEEN: dict[str, type[Entities]] = {"jobs": Jobs, "gpus": Gpus, "nodes": Nodes}


def pages() -> dict[str, str]:
    """Return the text of the page by its path."""
    of_view = (
        f"## `view.{name}`\n\n{' '.join((kind.__doc__ or '').split())}\n\n{seen(kind)}"
        for name, kind in SEEN.items()
    )
    of_training = [f"### `--action {name}`\n\n{choices(kind)}" for name, kind in KINDS.items()]
    asked = (OF_SCENARIO, choices(Scenario), OF_TRAINING, *of_training)
    return {"columns.md": "\n\n".join([HEADING, of_trace(), *of_view, *asked, *of_run()]) + "\n"}


def of_trace() -> str:
    """Return the table of the columns of a trace."""
    rows = (
        (f"**`{each.name}`**" if each.required else f"`{each.name}`", each.unit, each.meaning, each.filled)
        for each in COLUMNS
    )
    return f"{OF_TRACE}\n\n{table(('column', 'unit', 'is', 'where a trace lacks it'), rows)}"


def of_run() -> Iterator[str]:
    """Return the tables of what a run leaves."""
    yield f"## Of the results: `jobs.csv`\n\n{declared(results.COLUMNS)}"
    rows = (
        (f"`{name}`", " ".join(each.heading.replace("-\n", "").split()), each.meaning)
        for name, each in METRICS.items()
    )
    yield f"{OF_SUMMARY}\n\n{table(('number', 'heading', 'is'), rows)}"
    yield f"## Of a record: `segments.csv`\n\n{declared(SEGMENTS)}"
    yield f"## Of a record: `timeline.csv`\n\n{declared(TIMELINE)}"


def declared(columns: Mapping[str, str]) -> str:
    """Return the table of columns with what each is."""
    return table(("column", "is"), ((f"`{name}`", said) for name, said in columns.items()))


def choices(kind: type) -> str:
    """Return the table of the fields of a dataclass of choices."""
    meant = {name: said for each in reversed(kind.__mro__[:-1]) for name, said in below_fields(each).items()}
    rows = ((f"`{each.name}`", f"`{each.default!r}`", meant.get(each.name, "")) for each in fields(kind))
    return table(("field", "default", "is"), rows)


def seen(kind: type[Entities]) -> str:
    """Return the table of the arrays of jobs, GPUs or nodes that a view shows."""
    names = sorted(name for name in dir(kind) if not name.startswith("_") and name != "count")
    return declared({name: " ".join((getattr(kind, name).__doc__ or "").split()) for name in names})
