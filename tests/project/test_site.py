"""Pages of the documentation site in a browser: none is wider than the window, and wide tables scroll by themselves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.evaluation.browser import browser

WITHOUT_NOTEBOOKS = """
import nbformat
from docs.pages import notebooks
notebooks.executed = lambda file, *args, **kwargs: nbformat.read(file, as_version=4)
from mkdocs.__main__ import cli
cli()
"""
"""Program that builds the site without executing the notebooks."""
OUTSIDE = """[...document.querySelectorAll('article *')].filter((each) =>
  each.getBoundingClientRect().right > innerWidth + 1 && !each.closest('.md-typeset__scrollwrap, pre')
).map((each) => each.outerHTML.slice(0, 100))"""
BROKEN = (
    "[...document.querySelectorAll('td .interval')].filter((each) => each.getClientRects().length > 1).length"
)


@pytest.mark.slow(reason="building the site takes half a minute")
def test_pages_fit_a_phone_and_a_desk(tmp_path: Path) -> None:
    """At 390 and 1280 pixels; intervals are not broken, and the widest table scrolls on a phone."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("nbformat")
    site = tmp_path / "site"
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    build = [sys.executable, "-c", WITHOUT_NOTEBOOKS, "build", "--quiet", "--strict", "--site-dir", str(site)]
    subprocess.run(build, cwd=ROOT, env=quiet, check=True)
    with browser(tmp_path) as page:
        for width in (390, 1280):
            for file in sorted(site.glob("*.html")):
                if file.stem == "404":  # its links are those of a server
                    continue
                page.open(file, width=width)
                assert page.run("document.documentElement.scrollWidth") <= width, file.stem
                assert page.run(OUTSIDE) == [], file.stem
                assert page.run(BROKEN) == 0, file.stem
                assert page.errors == []
        page.open(site / "results.html", width=390)
        page.until("document.querySelector('.md-typeset__scrollwrap')")
        box = "document.querySelector('.md-typeset__scrollwrap')"
        assert page.run(f"{box}.scrollWidth > 2 * {box}.clientWidth")
        first = page.run(f"{box}.scrollLeft = 500, {box}.querySelector('td').getBoundingClientRect().left")
        assert 0 <= first < 390, "the first column stays in sight"
