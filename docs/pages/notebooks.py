"""Pages of the notebooks in docs/notebooks/, which are executed when the site is built."""

import base64
import os
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

FOLDER = Path(__file__).parent.parent / "notebooks"
TIMEOUT_S = 600
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def pages() -> dict[str, str | bytes]:
    """Return the text of each page, and the pictures in it, by path."""
    found: dict[str, str | bytes] = {}
    for name in sorted(file.stem for file in FOLDER.glob("*.ipynb")):
        pictures: dict[str, bytes] = {}
        found[f"notebooks/{name}.md"] = page(name, pictures)
        found |= {f"notebooks/{picture}": content for picture, content in pictures.items()}
    return found


def page(name: str, pictures: dict[str, bytes], **sizes: int) -> str:
    """Return the page of a notebook, and add its pictures to `pictures`, by name.

    sizes: see `executed`.
    """
    file = FOLDER / f"{name}.ipynb"
    cells = executed(file, **sizes).cells
    title, *rest = (part for cell in cells for part in shown(cell, name, pictures))
    return "\n\n".join([title, f"[Download this notebook]({file.name})", *rest]) + "\n"


def executed(file: Path, **sizes: int) -> Any:
    """Return a notebook with its outputs.

    sizes: values that replace those assigned to these variables in the notebook.
    """
    notebook = nbformat.read(file, as_version=4)
    for name, value in sizes.items():
        given = re.compile(rf"^{name} = .*$", re.MULTILINE)
        assert sum(len(given.findall(cell.source)) for cell in notebook.cells) == 1, name
        for cell in notebook.cells:
            cell.source = given.sub(f"{name} = {value}", cell.source)
    choices = Config()
    with TemporaryDirectory() as sockets:  # files, so that no port is opened
        choices.KernelManager.transport, choices.KernelManager.ip = "ipc", f"{sockets}/kernel"
        places = {"metadata": {"path": str(FOLDER)}}
        client = NotebookClient(notebook, config=choices, timeout=TIMEOUT_S, resources=places)
        client.execute(env=os.environ | {"PYTHONPATH": str(FOLDER.parent.parent)})
    return notebook


def shown(cell: Any, stem: str, pictures: dict[str, bytes]) -> Iterator[str]:
    """Yield a cell and its outputs as Markdown, and add its pictures to `pictures`, by name."""
    if cell.cell_type == "markdown":
        yield cell.source
        return
    yield f"```python\n{cell.source}\n```"
    for is_printed, outputs in groupby(cell.outputs, key=lambda output: printed(output) is not None):
        if is_printed:
            text = "".join(printed(output) or "" for output in outputs)
            yield f"```text\n{text.rstrip()}\n```"
            continue
        for data in (output.data for output in outputs if "data" in output):
            if "image/png" in data:
                name = f"{stem}_{len(pictures)}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                yield f"![{cell.source.splitlines()[-1]}]({name})"
            else:
                yield table_of(data["text/html"])


def printed(output: Any) -> str | None:
    """Return the printed text of an output, without stderr; None if the output is no text."""
    if output.output_type == "stream":
        return output.text if output.name == "stdout" else ""
    data = output.get("data", {})
    by_rich = data.get("text/html", "").startswith("<pre")  # Rich has an output per line, with colours
    return ANSI.sub("", data["text/plain"]) if by_rich or set(data) == {"text/plain"} else None


def table_of(html: str) -> str:
    """Return the pandas table in some HTML, without its style."""
    table = re.search(r"<table.*</table>", html, re.DOTALL)
    assert table, html
    return re.sub(r' (style|border|class)="[^"]*"|\n\s*', "", table[0])
