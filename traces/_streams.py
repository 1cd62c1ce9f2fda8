"""Randomness by name: whatever is drawn is drawn from a seed and the name of what is drawn, and from nothing else.

A draw that is added, left out or moved therefore changes no other, and no two things share their draws by chance, as
they do where seeds are added up: there seed 1's first window would be seed 0's second.
"""

from __future__ import annotations

import hashlib
import json
import operator
from typing import SupportsIndex

import numpy as np


def stream(seed: SupportsIndex, *names: str | SupportsIndex) -> np.random.Generator:
    """Return the random numbers of the thing of this name, such as `stream(0, "window", "test", 3)`.

    The seed cannot be read back from the generator, which a policy may hold.
    """
    return np.random.default_rng(entropy(seed, *names))


def seed_from(seed: SupportsIndex, *names: str | SupportsIndex) -> int:
    """Return a seed of 63 bits for the thing of this name, where a seed is asked for."""
    return int(stream(seed, *names).integers(2**63))


def entropy(seed: SupportsIndex, *names: str | SupportsIndex) -> int:
    """Return the 128 bits that a stream begins with: a hash of seed and names, of which no two are written alike."""
    words = [
        operator.index(seed),
        *(name if isinstance(name, str) else operator.index(name) for name in names),
    ]
    written = json.dumps(words, ensure_ascii=False).encode()
    return int.from_bytes(hashlib.blake2b(written, digest_size=16).digest(), "big")
