"""Griffe extension of the API pages: arguments in docstrings, such as `a, b: meaning.`, become a list."""

import re
from collections.abc import Sequence
from typing import Any

import griffe


class ArgumentLists(griffe.Extension):
    """Hooks that mkdocstrings calls for each class, once its members are known, and for each function."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Turn the descriptions of fields into a list, and show the fields of a named tuple as code."""
        if cls.docstring:
            cls.docstring.value = listed(cls.docstring.value, names_of(cls)) + fields_of(cls)

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        """Turn the descriptions of arguments into a list."""
        if func.docstring:
            func.docstring.value = listed(func.docstring.value, names_of(func))


def fields_of(cls: griffe.Class) -> str:
    """Return the fields of a named tuple as code, since Griffe shows no arguments of it; nothing for other classes."""
    if "NamedTuple" not in map(str, cls.bases):
        return ""
    fields = (
        f"    {name}: {each.annotation}{f' = {each.value}' if each.value else ''}"
        for name, each in cls.members.items()
        if isinstance(each, griffe.Attribute) and each.annotation
    )
    return "\n\n```python\n" + "\n".join([f"class {cls.name}(NamedTuple):", *fields]) + "\n```"


def names_of(obj: griffe.Object) -> Sequence[str]:
    """Return the names of an object's arguments or fields."""
    own = [name for name, each in obj.members.items() if each.is_attribute or name == "__init__"]
    made = obj.members.get("__init__")
    of = obj if isinstance(obj, griffe.Function) else made
    parameters = [each.name for each in of.parameters] if isinstance(of, griffe.Function) else []
    return [name for name in (*own, *parameters) if name.isidentifier() and name != "self"]


def listed(text: str, names: Sequence[str]) -> str:
    """Return a docstring in which each paragraph with descriptions of arguments is a list, an item per argument."""
    if not names:
        return text
    one = "|".join(map(re.escape, names))
    argument = re.compile(rf"(?:^|(?<=[.;)] ))((?:{one})(?:, (?:{one}))*): ")
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        joined = " ".join(paragraph.split())
        parts = argument.split(joined)
        if len(parts) == 1 or parts[0].startswith("-"):
            found.append(paragraph)
            continue
        items = (
            f"- `{several.replace(', ', '`, `')}`: {meaning.strip().rstrip(';')}"
            for several, meaning in zip(parts[1::2], parts[2::2], strict=True)
        )
        found.append("\n".join([*([parts[0], ""] if parts[0] else []), *items]))
    return "\n\n".join(found)
