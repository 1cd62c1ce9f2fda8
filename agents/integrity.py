"""Integrity of an agent's folder: regular files of bounded size, equal to the digests in `SHA256SUMS`.

`SHA256SUMS` has the format of `sha256sum`, which also checks it: `sha256sum --check SHA256SUMS`. It guards against
damage, not against forgery, since a forger can write digests too; `checkpoint.load` checks the contents of files.
"""

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gpu_cluster_gym.evaluation.run_folder import write_atomically

SUMS = "SHA256SUMS"
MAX_TEXT, MAX_WEIGHTS = 1 << 20, 1 << 28
"""Limits on the size of a file, in bytes: weights, and all others."""
WEIGHTS_SUFFIX = ".safetensors"
LINE = re.compile(r"([0-9a-f]{64})  ([A-Za-z0-9_][A-Za-z0-9_.-]*)")


def write(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files and their digests; after a crash at any moment, each file in the folder is the old or the new one.

    Until the last file is replaced, `SHA256SUMS` also has the old digests.
    """
    new = [_line(name, content) for name, content in contents.items()]
    with suppress(OSError, ValueError):
        before = _text(folder / SUMS).splitlines()
        write_atomically(folder / SUMS, _lines([*new, *(line for line in before if line not in new)]))
    for name, content in contents.items():
        if not (folder / name).exists() or (folder / name).read_bytes() != content:
            write_atomically(folder / name, content)
    write_atomically(folder / SUMS, _lines(new))


def sign(folder: Path) -> None:
    """Write the digests of all files in a folder."""
    files = sorted(each for each in folder.iterdir() if each.name != SUMS)
    write_atomically(folder / SUMS, _lines([_line(each.name, each.read_bytes()) for each in files]))


def read(folder: Path) -> dict[str, bytes]:
    """Return the files named in `SHA256SUMS`; OSError or ValueError with the reason if one was changed."""
    digests: dict[str, set[str]] = {}
    for line in _text(folder / SUMS).removesuffix("\n").split("\n"):
        if not (found := LINE.fullmatch(line)):
            raise ValueError(
                f"{folder / SUMS}: expected lines of a SHA-256 and a file name, not {line!r:.100}: "
                "copy the agent again"
            )
        digests.setdefault(found[2], set()).add(found[1])
    contents = {}
    for name, accepted in digests.items():
        limit = MAX_WEIGHTS if name.endswith(WEIGHTS_SUFFIX) else MAX_TEXT
        contents[name] = read_regular(folder / name, limit)
        if hashlib.sha256(contents[name]).hexdigest() not in accepted:
            raise ValueError(f"{folder / name} differs from its SHA-256 in {SUMS}: copy the agent again")
    return contents


def read_regular(file: Path, limit: int) -> bytes:
    """Return the content of a regular file; ValueError for a link, a device, a pipe, or more than `limit` bytes."""
    if file.is_symlink():
        raise ValueError(f"{file} is a link: expected a regular file")
    flags = (
        os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    with open(os.open(file, flags), "rb") as opened:
        found = os.fstat(opened.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{file}: expected a regular file")
        if found.st_size > limit:
            raise ValueError(
                f"{file} has {found.st_size:,} bytes, expected at most {limit:,}: copy the agent again"
            )
        return opened.read(limit + 1)


def _text(file: Path) -> str:
    return read_regular(file, MAX_TEXT).decode("ascii")


def _line(name: str, content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()}  {name}"


def _lines(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
