"""The time during which a policy is asked: no jobs are read or generated then, lest it find those to come."""

from collections.abc import Iterator
from contextlib import contextmanager

_asked = 0  # policies that this process asks now; not of the thread, since a policy could start one


@contextmanager
def asking() -> Iterator[None]:
    """Refuse jobs from a trace, in the whole process, until the end of the block."""
    global _asked
    _asked += 1
    try:
        yield
    finally:
        _asked -= 1


def refuse_while_asking(what: str) -> None:
    """Raise RuntimeError while a policy is asked."""
    if _asked:
        raise RuntimeError(
            f"{what} cannot be created while a policy decides, since it may reveal future jobs: create it before the "
            "episode, or in another process"
        )
