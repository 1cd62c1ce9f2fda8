"""Compilation of the kernel's functions, and the disk cache, whose name depends on all their sources.

Numba's disk cache watches a single file: after an edit of a callee in another file it would silently run old
code. The name of the cache folder therefore contains a hash of every source of this package. The location of
the sources does not matter: all checkouts of a user with equal sources share one compilation. Folders that were
not used for a month are removed.

Compiled functions called by compiled functions do not count references to the arrays passed to them, which
Python keeps alive until the entry returns: counting, with atomic instructions at each call, took a fifth of the
time of FIFO on a whole trace and half of that of a threshold policy. Functions that make or copy arrays must be
declared `allocating`; entries always may allocate.

A policy outside the kernel, such as `baselines.tiresias`, may be compiled with the same decorators, which it imports
from `simulator.kernel.cluster.plan`. Numba compiles such a file again when it is edited. As it looks at that file
alone, functions in it may call each other and the kernel, but no compiled function elsewhere (TypeError).

Each function is optimised once and then linked (`_linking`), which depends on Numba's internals. Under an
untested series of Numba the standard procedure is used: it takes about three times as long, with equal results.
"""

import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import caching, config

from gpu_cluster_gym.simulator.kernel._pipeline import Pipeline

LINKED = numba.__version__.startswith("0.68.")  # the series with which `_linking` was tested
if LINKED:
    from gpu_cluster_gym.simulator.kernel import _linking

MONTH = 30 * 86_400.0
HERE = Path(__file__).parent


def fingerprint(folder: Path) -> str:
    """Return a short hash of every Python source in and below `folder`, and of the versions of Numba and NumPy."""
    digest = hashlib.sha256(f"numba {numba.__version__} numpy {np.__version__}".encode())
    for source in sorted(folder.rglob("*.py")):
        name = source.relative_to(folder).as_posix()
        digest.update(name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def cache_folder(folder: Path = HERE) -> Path:
    """Return the folder for code compiled from sources in `folder`: in the user's cache, or else a temporary folder.

    ValueError where that temporary folder could have been filled by another user, whose code would be run.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-cluster-gym"
    with suppress(OSError):
        base.mkdir(parents=True, exist_ok=True)
    if not os.access(base, os.W_OK):
        base = Path(tempfile.gettempdir()) / f"gpu-cluster-gym-{os.getuid()}"
        with suppress(FileExistsError):
            base.mkdir(mode=0o700)
        about = base.lstat()
        own = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o022
        if not own:
            raise ValueError(
                f"{base}, for compiled code, must be a folder that only you can write to: remove it, or set "
                "XDG_CACHE_HOME to a folder of your own"
            )
    return base / f"kernel-{fingerprint(folder)}"


def drop_unused(base: Path) -> None:
    """Remove compiled code that has not been used for a month."""
    for other in base.glob("kernel-*"):
        with suppress(FileNotFoundError):  # another process may do the same
            if time.time() - other.stat().st_mtime > MONTH:
                shutil.rmtree(other, ignore_errors=True)


class AllInOneFolder(caching.UserProvidedCacheLocator):
    """Cache locator that puts all files into the configured folder, wherever the sources are."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """Return a subfolder per package, so that files of several packages may have the same name."""
        return Path(py_file).parent.name


CACHE = cache_folder()
if not CACHE.exists():
    CACHE.mkdir(parents=True, exist_ok=True)
    drop_unused(CACHE.parent)
CACHE.touch()


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that only compiled functions call."""
    return _piece(function, _nrt=False)


def allocating(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that makes arrays and that only compiled functions call."""
    return _piece(function, _nrt=True)


def entry(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that Python calls; it releases the GIL."""
    return _njit(function, _linking.Wholes if LINKED else Pipeline, nogil=True)


def _piece(function: Callable[..., Any], **options: bool) -> Callable[..., Any]:
    pipeline = _linking.Pieces if LINKED else Pipeline
    made = _njit(function, pipeline, no_cpython_wrapper=True, **options)
    if LINKED and made is not function:
        with _own_folder():
            _linking.keep_pieces(made)
    return made


def _njit(function: Callable[..., Any], pipeline: type[Pipeline], **options: bool) -> Callable[..., Any]:
    njit: Any = numba.njit
    with _own_folder():
        made: Callable[..., Any] = njit(
            cache=True, error_model="numpy", no_cfunc_wrapper=True, pipeline_class=pipeline, **options
        )(function)
    return made


@contextmanager
def _own_folder() -> Iterator[None]:
    """Let Numba cache what it compiles in this package's own folder."""
    settings: Any = config  # Numba makes its settings at import, out of sight of a type checker
    before = settings.CACHE_DIR, settings.CACHE_LOCATOR_CLASSES
    settings.CACHE_DIR = str(CACHE)
    settings.CACHE_LOCATOR_CLASSES = f"{__name__}.{AllInOneFolder.__name__}"
    try:
        yield
    finally:
        settings.CACHE_DIR, settings.CACHE_LOCATOR_CLASSES = before
