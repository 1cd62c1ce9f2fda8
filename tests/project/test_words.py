"""Docstrings, comments and messages are in the field's plain English, as CONTRIBUTING.md asks."""

import ast
import re

from tests.conftest import ROOT
from tests.project.test_architecture import everything, tree

OPENING = re.compile(r"\s*(What|How|Where|Which|Whose|Who|Whoever|When|Those|That|Tells?|Says?)\b")
DIALECT = re.compile(
    r"\b(told|tells?|telling|anew|besides|taught|untaught|begun|of now|of then|so many|so much as|whoever|dear|mended"
    r"|misfits?|handed on|held fixed|as it is called now|takes? down|taken down|behind its back|made by hand"
    r"|by hand alone|own account|one of them|each for itself|at the door|goes on from|there is no such|that there are"
    r"|of one's own|stands? for itself)\b",
    re.IGNORECASE,
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
SOURCES = [path for path in everything() if not path.startswith("tests/")]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


def test_docstrings_begin_with_a_noun_phrase_or_a_verb() -> None:
    nodes = (
        (path, node) for path in SOURCES for node in ast.walk(tree(path)) if isinstance(node, DOCUMENTED)
    )
    docs = ((path, ast.get_docstring(node) or "") for path, node in nodes)
    assert [(path, text.partition("\n")[0]) for path, text in docs if OPENING.match(text)] == []


def test_no_dialect_in_texts() -> None:
    """Texts are string constants with a space in them, docstrings included, and comments."""
    texts = [(path, text) for path in SOURCES for text in strings(path)]
    texts += [
        (path, line) for path in SOURCES for line in re.findall(r"# .*", (ROOT / path).read_text("utf-8"))
    ]
    texts += [(page.name, line) for page in PAGES for line in page.read_text("utf-8").splitlines()]
    found = [(path, match[0], text[:80]) for path, text in texts if (match := DIALECT.search(text))]
    assert found == []


def strings(path: str) -> list[str]:
    constants = [node.value for node in ast.walk(tree(path)) if isinstance(node, ast.Constant)]
    return [value for value in constants if isinstance(value, str) and " " in value]
