"""What MkDocs calls: pages that are made of the code join those that are written (`hooks` in mkdocs.yml)."""

import re
from collections.abc import Mapping
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.pages import api, columns, notebooks, policies

MADE: Mapping[str, Any] = {"policies": policies, "api": api, "columns": columns}
"""What stands in `nav` by its bare name, and the module whose `pages()` make it: text by path, the first the index."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages that are made where the navigation names them."""
    config.nav = [named(each) for each in config.nav or []]
    return config


def named(place: Any) -> Any:
    """Return a place of the navigation with the paths of the pages that it stands for."""
    if isinstance(place, dict):
        return {title: named(inside) for title, inside in place.items()}
    if isinstance(place, list):
        return [named(each) for each in place]
    paths = list(MADE[place].pages()) if place in MADE else [place]
    return paths if len(paths) > 1 else paths[0]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Make the pages."""
    for maker in (*MADE.values(), notebooks):
        for path, text in maker.pages().items():
            files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Indent lists within lists as Python-Markdown wants them, and lead to notebooks as they ran."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
    markdown = re.sub(r"(\(notebooks/\w+)\.ipynb\)", r"\1.md)", markdown)
    return re.sub(r"^  (?=- )", "    ", markdown, flags=re.MULTILINE)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Refuse a page that loads something from elsewhere; PluginError."""
    if found := re.search(r'<(?:link|script|img|iframe)\b[^>]*=["\'](?:https?:)?//[^>]*>', output):
        raise PluginError(f"{page.file.src_uri} loads from elsewhere: {found[0]}")
    return output
