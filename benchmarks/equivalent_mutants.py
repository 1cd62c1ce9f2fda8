"""Drawn mutants that are equivalent, which `benchmarks.drawn_mutants` does not count, each with the reason."""

from typing import NamedTuple


class Equivalent(NamedTuple):
    """A mutant that no test can or should see: the changed lines without indentation, and the reason."""

    file: str
    sound: str
    faulty: str
    reason: str


EQUIVALENT: tuple[Equivalent, ...] = ()
