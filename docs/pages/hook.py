"""MkDocs hooks: add the pages that are generated from code to the site (`hooks` in mkdocs.yml)."""

import re
from collections.abc import Mapping
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.pages import api, columns, notebooks, observations, policies

GENERATED: Mapping[str, Any] = {
    "policies": policies,
    "api": api,
    "columns": columns,
    "observations": observations,
}
"""Module whose `pages()` returns the text of each page by its path, index first; by name in `nav`."""

HIDDEN = {"results.md": ["navigation", "toc"], "workloads.md": ["navigation"]}
"""Side bars that pages with wide tables do without."""
SECOND, TUNED = r"\(\d\.\d+-\d\.\d+\)|\(se \d\.\d+\)", r"\**(?:\d\.\d+|1|=)\**"
"""What stands below the first figure of a cell: its interval or standard error; the figure of the tuned policy."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Insert the generated pages into the navigation."""
    config.nav = [with_paths(each) for each in config.nav or []]
    return config


def with_paths(entry: Any) -> Any:
    """Return an entry of the navigation with the paths of generated pages in place of their name."""
    if isinstance(entry, dict):
        return {title: with_paths(inside) for title, inside in entry.items()}
    if isinstance(entry, list):
        return [with_paths(each) for each in entry]
    paths = list(GENERATED[entry].pages()) if entry in GENERATED else [entry]
    return paths if len(paths) > 1 else paths[0]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the files of the site."""
    for maker in (*GENERATED.values(), notebooks):
        for path, text in maker.pages().items():
            files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Indent nested lists as Python-Markdown requires, and link to executed notebooks."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
    if hidden := HIDDEN.get(page.file.src_uri):
        page.meta["hide"] = hidden
        second = rf"{SECOND}|{TUNED}" if page.file.src_uri == "results.md" else SECOND
        markdown = re.sub(rf"(?<=[\d*%]),? ({second})(?= \|)", r" <small>\1</small>", markdown)
    markdown = re.sub(r"(\(notebooks/\w+)\.ipynb\)", r"\1.md)", markdown)
    return re.sub(r"^  (?=- )", "    ", markdown, flags=re.MULTILINE)


def on_page_content(html: str, **_: Any) -> str:
    """Mark short options and intervals, which browsers would break behind their hyphens."""
    html = re.sub(r"(?<=[ (>])\d\.\d+-\d\.\d+(?=[),;<])", r'<span class="interval">\g<0></span>', html)
    return re.sub(r"<code>(--[^<]{1,30}</code>)", r'<code class="option">\1', html)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Raise PluginError if a page loads external resources."""
    if found := re.search(r'<(?:link|script|img|iframe)\b[^>]*=["\'](?:https?:)?//[^>]*>', output):
        raise PluginError(f"{page.file.src_uri} must not load external resources: {found[0]}")
    return output
