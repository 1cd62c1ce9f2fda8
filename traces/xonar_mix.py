"""Jobs of Xonar's experiment: ten, or any number, of all its settings, submitted at once; see `_xonar_like`."""

from __future__ import annotations

from os import PathLike

import pandas as pd

from traces._invented import count
from traces._xonar_like import generate


def trace(file: str | PathLike[str] | None = None, *, seed: int, jobs: int | None = None) -> pd.DataFrame:
    """Return `jobs` (default 10, as in a trial of the authors) invented jobs of two GPUs, decided by `seed`."""
    return generate(seed, count(file, jobs, 10))
