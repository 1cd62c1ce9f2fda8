"""Compile the kernel's functions, and cache them under a name that changes with any of their sources.

Numba's disk cache looks at one file only: after an edit of a callee in another file it would silently run
old code. So the cache folder's name carries a hash of every source of this package; where they lie does not matter.

Compiled functions that others call do not count references to the arrays that they are handed, which Python keeps until
the entry returns: counting them, by atomic instructions at each call, took a fifth of the time of FIFO on a whole trace
and half of that of a threshold. One that makes or copies arrays itself says so (`allocating`); an entry always may.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import types

from simulator.kernel._linking import Beside, OfPieces, OfWholes, PieceCache

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
config: Any = numba.config  # made at import, out of sight of a type checker


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that only other compiled functions call."""
    return _piece(function, _nrt=False)


def allocating(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that makes arrays and that only other compiled functions call."""
    return _piece(function, _nrt=True)


def entry(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that Python calls."""
    if config.DISABLE_JIT:
        return function
    made = _njit(function, pipeline_class=OfWholes)
    dispatcher: Any = made
    with _own_folder():
        dispatcher.enable_caching()
    return made


def _piece(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    if config.DISABLE_JIT:
        return function
    made = _njit(function, pipeline_class=OfPieces, no_cpython_wrapper=True, **options)
    dispatcher: Any = made
    with _own_folder():
        dispatcher._cache = PieceCache(function)
    as_it_is = dispatcher.get_call_template
    dispatcher.get_call_template = lambda args, kws: as_it_is(
        [_widened(kind) for kind in args], {name: _widened(kind) for name, kind in kws.items()}
    )
    return made


def _njit(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    njit: Any = numba.njit
    made: Callable[..., Any] = njit(error_model="numpy", no_cfunc_wrapper=True, **options)(function)
    return made


def _widened(kind: Any) -> Any:
    """Return the type that a whole number is handed on with, so that a function is compiled for one width of them."""
    if isinstance(kind, types.Literal):
        kind = kind.literal_type
    return types.int64 if isinstance(kind, types.Integer) else kind


@contextmanager
def _own_folder() -> Iterator[None]:
    """Let Numba keep what it compiles in this package's own cache folder."""
    before = config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES
    config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES = str(CACHE), f"{Beside.__module__}.{Beside.__name__}"
    try:
        yield
    finally:
        config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES = before
