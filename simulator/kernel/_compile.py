"""Compile the kernel's functions, and cache them under a name that changes with any of their sources.

Numba's disk cache looks at one file only: after an edit of a callee in another file it would silently run
old code. So the cache folder's name carries a hash of every source of this package.

Compiled functions that others call do not count references to the arrays that they are handed, which Python keeps until
the entry returns: counting them, by atomic instructions at each call, took a fifth of the time of FIFO on a whole trace
and half of that of a threshold. One that makes or copies arrays itself says so (`allocating`); an entry always may.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import config

HERE = Path(__file__).parent


def fingerprint(folder: Path) -> str:
    """Return a short hash of every Python source in `folder` and of the compiler's version."""
    digest = hashlib.sha256(f"numba {numba.__version__} numpy {np.__version__}".encode())
    for source in sorted(folder.glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def cache_folder(folder: Path = HERE) -> Path:
    """Return where compiled code of the sources in `folder` is kept; beside them where that can be written."""
    beside = folder / "__pycache__"
    writable = os.access(beside if beside.exists() else folder, os.W_OK)
    base = beside if writable else Path(tempfile.gettempdir()) / f"gpu-cluster-gym-{os.getuid()}"
    return base / f"kernel-{fingerprint(folder)}"


CACHE = cache_folder()


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that only other compiled functions call."""
    return _njit(function, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def allocating(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that makes arrays and that only other compiled functions call."""
    return _njit(function, _nrt=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def entry(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that Python calls; meanwhile other threads of Python may run."""
    return _njit(function, nogil=True, no_cfunc_wrapper=True)


def _njit(function: Callable[..., Any], **options: bool) -> Callable[..., Any]:
    settings: Any = config  # Numba makes its settings at import, out of sight of a type checker
    njit: Any = numba.njit
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(CACHE)
    try:
        made: Callable[..., Any] = njit(cache=True, error_model="numpy", **options)(function)
        return made
    finally:
        settings.CACHE_DIR = before
