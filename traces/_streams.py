"""Named random streams: each draw depends on the seed and the name of the drawn thing, and on nothing else.

Adding, removing or moving one draw therefore changes no other, and no two streams coincide, as they do where seeds are
added up: there, seed 1's first window would be seed 0's second.
"""

from __future__ import annotations

import hashlib
import json
import operator
from typing import SupportsIndex

import numpy as np


def stream(seed: SupportsIndex, *names: str | SupportsIndex) -> np.random.Generator:
    """Return the generator of a name, such as `stream(0, "window", "test", 3)`.

    A seed cannot be computed from its generator, but a small one is found by trying: compare the numbers drawn.
    Policies hold such a generator, so what must be unknown to them needs a large seed (see SECURITY.md).
    """
    return np.random.default_rng(entropy(seed, *names))


def seed_from(seed: SupportsIndex, *names: str | SupportsIndex) -> int:
    """Return a 63-bit seed for a name, for interfaces that take a seed."""
    return int(stream(seed, *names).integers(2**63))


def entropy(seed: SupportsIndex, *names: str | SupportsIndex) -> int:
    """Return the 128 bits that seed a stream: a hash of seed and names in an unambiguous notation."""
    words = [
        operator.index(seed),
        *(name if isinstance(name, str) else operator.index(name) for name in names),
    ]
    written = json.dumps(words, ensure_ascii=False).encode()
    return int.from_bytes(hashlib.blake2b(written, digest_size=16).digest(), "big")
