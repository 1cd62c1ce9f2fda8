"""Every column and number there is, in tables made of the declarations: of traces, views, results and records."""

from collections.abc import Iterable
from dataclasses import fields

from agents.training import Training
from docs.pages.markdown import table
from docs.pages.policies import below_fields
from evaluation.numbers import NUMBERS
from evaluation.record import SEGMENTS, TIMELINE
from simulator import results
from simulator.columns import Entities
from simulator.entities import Gpus, Jobs, Nodes
from traces import COLUMNS
from workloads import Scenario

SEEN: dict[str, type[Entities]] = {"jobs": Jobs, "gpus": Gpus, "nodes": Nodes}


def pages() -> dict[str, str]:
    """Return the text of the page by its path."""
    parts = [
        "# Columns and numbers\n\nMade of the declarations in the code. Times are seconds and memory is GiB "
        "unless a unit says otherwise.",
        "## Of a trace\n\nThe columns of a job table, and of a CSV for `--trace-file`; those in bold must be "
        "there, others are drawn where a trace lacks them and a part of physics asks for them.",
        table(
            ("column", "unit", "is", "where a trace lacks it"),
            (
                (
                    f"**`{each.name}`**" if each.required else f"`{each.name}`",
                    each.unit,
                    each.meaning,
                    each.filled,
                )
                for each in COLUMNS
            ),
        ),
    ]
    for name, kind in SEEN.items():
        said = " ".join((kind.__doc__ or "").split())
        parts += [f"## `view.{name}`\n\n{said}", table(("column", "is"), seen(kind))]
    parts += [
        "## Of a scenario\n\nWhat is simulated: fields of `workloads.Scenario`, keys of the environment's `scenario`, "
        "and, with hyphens, flags of both commands.",
        choices(Scenario),
        "## Of a training\n\nHow `train_agent.py` learns: fields of `agents.training.Training`, and its flags.",
        choices(Training),
        "## Of the results: `jobs.csv`",
        table(("column", "is"), ((f"`{name}`", said) for name, said in results.COLUMNS.items())),
        "## Of a summary: `summary.json`\n\nOver all windows and of each; a heading is that of the table.",
        table(
            ("number", "heading", "is"),
            (
                (f"`{name}`", " ".join(each.heading.replace("-\n", "").split()), each.meaning)
                for name, each in NUMBERS.items()
            ),
        ),
        "## Of a record: `segments.csv`",
        table(("column", "is"), ((f"`{name}`", said) for name, said in SEGMENTS.items())),
        "## Of a record: `timeline.csv`",
        table(("column", "is"), ((f"`{name}`", said) for name, said in TIMELINE.items())),
    ]
    return {"columns.md": "\n\n".join(parts) + "\n"}


def choices(kind: type) -> str:
    """Return the table of the fields of a dataclass of choices."""
    meant = {name: said for each in kind.__mro__[:-1] for name, said in below_fields(each).items()}
    rows = ((f"`{each.name}`", f"`{each.default!r}`", meant.get(each.name, "")) for each in fields(kind))
    return table(("field", "default", "is"), rows)


def seen(kind: type[Entities]) -> Iterable[tuple[str, str]]:
    """Return the arrays of jobs, GPUs or nodes that a view shows, with what each is."""
    for name in sorted(name for name in dir(kind) if not name.startswith("_") and name != "count"):
        said = getattr(kind, name).__doc__ or ""
        yield f"`{name}`", " ".join(said.split())
