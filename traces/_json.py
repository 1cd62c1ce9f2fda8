"""JSON files as a stream of objects with their lines: an array of objects, or the items of a list in an object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from gpu_cluster_gym.traces._log import File
from gpu_cluster_gym.traces._table import TraceError, open_text, quote

_BLANKS = re.compile(r"[ \t\r\n]*")


class Objects:
    """The objects of a JSON file, one after another, each with the line it begins on.

    file: its path. items: key of the list in an object at the top; None for an array at the top.
    """

    def __init__(self, file: File, items: str | None = None) -> None:
        self._file, self._items = file, items
        self._text = open_text(file).read()
        self._place, self._line = 0, 1
        self._decoder = json.JSONDecoder(parse_constant=_refuse)

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the objects; TraceError where the file is malformed."""
        if self._items is not None and self._next() == "{":
            yield from self._in_object()
        else:
            yield from self._in_array()
        if found := self._next():
            raise self._error(quote(found), "the end of the file")

    def _in_array(self) -> Iterator[tuple[int, dict[str, Any]]]:
        due = "["
        while due:
            found = self._next()
            if not found or found not in due:
                expected = " or ".join(due) + " in an array of jobs"
                raise self._error(quote(found) if found else "the end of the file", expected)
            if found == "{":
                line = self._line
                yield line, self._value()
            else:
                self._place += 1
            due = {"[": "{]", "{": ",]", ",": "{", "]": ""}[found]

    def _in_object(self) -> Iterator[tuple[int, dict[str, Any]]]:
        due = "{"
        while due:
            found = self._next()
            if not found or found not in due:
                raise self._error(quote(found) if found else "the end of the file", " or ".join(due))
            if found != '"':
                self._place += 1
                due = {"{": '"}', ",": '"', "}": ""}[found]
                continue
            key = self._value()
            if self._next() != ":":
                found = self._next()
                raise self._error(quote(found) if found else "the end of the file", "a colon after the key")
            self._place += 1
            if key == self._items:
                yield from self._in_array()
            else:
                self._next()
                self._value()
            due = ",}"

    def _next(self) -> str:
        """Skip blanks; return the next character, empty at the end."""
        blanks = _BLANKS.match(self._text, self._place)
        end = blanks.end() if blanks else self._place
        self._line += self._text.count("\n", self._place, end)
        self._place = end
        return self._text[end : end + 1]

    def _value(self) -> Any:
        """Return the value that begins here."""
        try:
            found, end = self._decoder.raw_decode(self._text, self._place)
        except json.JSONDecodeError as error:
            self._line += self._text.count("\n", self._place, error.pos)
            raise self._error(f"no JSON ({error.msg})", "a job as a JSON object") from None
        except RecursionError:
            raise self._error(
                "JSON nested too deeply", "a job as a JSON object of strings and lists"
            ) from None
        except ValueError as error:  # a constant, or an integer of thousands of digits
            raise self._error(str(error), "a job as a JSON object of strings and lists") from None
        self._line += self._text.count("\n", self._place, end)
        self._place = end
        return found

    def _error(self, found: str, expected: str) -> TraceError:
        return TraceError(self._file, self._line, None, found, expected)


def _refuse(constant: str) -> None:
    raise ValueError(f"the constant {constant}")
