"""Guard against reading or generating jobs while a policy decides, since it could find future jobs among them."""

from collections.abc import Iterator
from contextlib import contextmanager

_asked = 0  # policies that are deciding in this process; not per thread, since a policy could start one


@contextmanager
def asking() -> Iterator[None]:
    """Mark a block in which a policy decides: `refuse_while_asking` raises until its end, in all threads."""
    global _asked
    _asked += 1
    try:
        yield
    finally:
        _asked -= 1


def refuse_while_asking(what: str) -> None:
    """Raise RuntimeError while a policy decides. what: the object that is to be created, for the message."""
    if _asked:
        raise RuntimeError(
            f"{what} cannot be created while a policy decides, since it may reveal future jobs: create it before the "
            "episode, or in another process"
        )
