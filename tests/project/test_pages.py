"""Generated pages of the site agree with the code, and the notebooks run."""

import json
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import pandas as pd
import pytest

from docs.pages import api, benchmark, columns, environment, observations, policies
from docs.pages.fill import filled
from gpu_cluster_gym import baselines
from tests.cases import tiny
from tests.conftest import ROOT

DOCS = ROOT / "docs"
NOTEBOOKS = {
    "look_at_a_run": {"JOBS": 12},
    "train_and_compare": {"STEPS": 32, "WINDOWS": 2},
}
"""Smaller sizes with which each notebook is run in this test."""
DESCRIBED_TOGETHER = {"margin", "exponent", "sharing", "preemption", "sizing", "cores"}
"""Settings that the docstring of a ranking, or of the rule, describes in one sentence."""


def empty_cells(page: str, column: str) -> list[str]:
    """Return the first cells of those rows of a page's tables in which a column is empty."""
    found = []
    at = None
    for line in page.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
        if not cells:
            at = None
        elif at is None:
            at = cells.index(column) if column in cells else -1
        elif at >= 0 and not cells[at]:
            found.append(cells[0].strip("`"))
    return found


def test_every_policy_has_a_page_that_describes_each_setting() -> None:
    pages = policies.pages()
    assert set(pages) == {f"policies/{name}.md" for name in ("index", *baselines.names())}
    wanting = {path: set(empty_cells(page, "meaning")) - DESCRIBED_TOGETHER for path, page in pages.items()}
    assert {path: names for path, names in wanting.items() if names} == {}
    assert "`margin_s` | minimum gain, s | `0.0` | `0.0`, `60.0`" in pages["policies/xion.md"]
    scored = pd.read_csv(ROOT / "docs" / "results.csv").set_index(["workload", "policy"])["ratio"]
    assert f"| mixed | {scored['mixed', 'xion']:.3f} |" in pages["policies/xion.md"]


def test_every_column_is_described() -> None:
    (page,) = columns.pages().values()
    assert empty_cells(page, "meaning") == []
    for name in ("submit_s", "free_memory_gib", "mean_jct_s", "max_share", "exploration"):
        assert re.search(rf"^\| \**`{name}`", page, re.MULTILINE), name


def test_every_column_of_an_observation_is_described() -> None:
    """By the comment beside its name in the code."""
    (page,) = observations.pages().values()
    assert page.count("\n| `") > 100
    assert empty_cells(page, "meaning") == []


def test_tables_of_the_environment_page_match_the_code() -> None:
    """`python -m docs.pages.environment` generates the tables."""
    assert filled(environment.PAGE, environment.TABLES) == environment.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", environment.SHOWN)
def test_the_page_has_every_entry_of_an_info(kind: str, tmp_path: Path) -> None:
    page = environment.PAGE.read_text(encoding="utf-8").partition("## `info`")[2].partition("## ")[0]
    documented = set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (.*?) \|", page, re.MULTILINE))))
    keywords = environment.SHOWN[kind] | ({} if kind == 'action="steer"' else {"illegal": "next_legal"})
    chosen = tiny.scenario(tmp_path, tiny.mixed(0).head(8), physics="all")
    env: Any = gymnasium.make("gpu_cluster_gym:GPUCluster-v2", scenario=chosen, **keywords)
    _, info = env.reset(seed=0)
    entries, over = set(info), False
    while not over:
        _, _, done, cut, info = env.step(env.action_space.sample())
        entries, over = entries | set(info), done or cut
    assert entries <= documented
    assert {"mean_jct_s", "jct_ratio"} <= entries or cut


@pytest.mark.parametrize(
    "name",
    ["mixed", "xonar_mix", *(pytest.param(each, marks=pytest.mark.slow) for each in ("philly", "quick"))],
)
def test_windows_of_the_benchmark_page_match_the_scored_ones(name: str) -> None:
    """`python -m docs.pages.benchmark` generates the table."""
    assert f"| {' | '.join(benchmark.row(name))} |" in benchmark.PAGE.read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation() -> None:
    listed = set(
        re.findall(r"([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    )
    written = {path.name for path in DOCS.glob("*.md")}
    assert listed == written | {f"notebooks/{name}.md" for name in NOTEBOOKS}


def test_the_index_links_to_every_other_page() -> None:
    linked = set(re.findall(r"\]\(([\w/]+\.\w+)\)", (DOCS / "index.md").read_text(encoding="utf-8")))
    others = {path.name for path in DOCS.glob("*.md")} - {"index.md"}
    assert others | {f"notebooks/{name}.ipynb" for name in NOTEBOOKS} <= linked
    assert [link for link in linked if not (DOCS / link).exists()] == []


def test_the_names_of_the_api_pages_exist() -> None:
    for _, _, named in api.PAGES.values():
        for name in (f"gpu_cluster_gym.{each}" for each in named):
            module, _, attribute = name.rpartition(".")
            try:
                import_module(name)
            except ModuleNotFoundError:
                assert hasattr(import_module(module), attribute), name


@cache
def notebooks() -> dict[str, str]:
    """Return the page of each notebook, or the traceback of its failure.

    They run in a separate process, since the notebook client leaves sockets open, which raise warnings.
    """
    code = f"""
import json, nbformat, traceback
from docs.pages.notebooks import page

read = nbformat.read

def shorter(*given, **how):
    notebook = read(*given, **how)
    for cell in notebook.cells:
        cell.source = cell.source.replace('make("GPUCluster-v2")', 'make("GPUCluster-xion_small-v2", count=1)')
        cell.source = cell.source.replace('named("quick")', 'named("xion_small")')
    return notebook

nbformat.read = shorter
pages = {{}}
for name, sizes in {NOTEBOOKS}.items():
    try:
        pages[name] = page(name, {{}}, **sizes)
    except Exception:
        pages[name] = traceback.format_exc()
print(json.dumps(pages))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    pages: dict[str, str] = json.loads(done.stdout)
    return pages


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name: str) -> None:
    page = notebooks()[name]
    assert page.startswith("# "), page
    assert re.search(r"^!\[", page, re.MULTILINE), "a picture"
    assert re.search(r"^<table", page, re.MULTILINE), "a table"


def test_notebooks_are_kept_without_outputs() -> None:
    assert {file.stem for file in (DOCS / "notebooks").glob("*.ipynb")} == set(NOTEBOOKS)
    for file in (DOCS / "notebooks").glob("*.ipynb"):
        text = file.read_text(encoding="utf-8")
        assert '"output_type"' not in text
        assert not re.search(r'"execution_count": \d', text)
