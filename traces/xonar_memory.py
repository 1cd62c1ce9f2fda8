"""Jobs of Xonar's experiment where memory is scarcest: settings above 8 GB alone; see `_xonar_like`."""

from __future__ import annotations

from os import PathLike

import pandas as pd

from traces._invented import count
from traces._xonar_like import generate

ABOVE_GIB = 8.0  # ours: two such jobs overflow a GPU of 32 GiB in 36 % of pairs, against 12 % of any two


def trace(file: str | PathLike[str] | None = None, *, seed: int, jobs: int | None = None) -> pd.DataFrame:
    """Return `jobs` (default 10) invented jobs of two GPUs and more than 8 GiB on each, decided by `seed`."""
    return generate(seed, count(file, jobs, 10), above_gib=ABOVE_GIB)
