"""Results of attacks, as lines of a table."""

from typing import NamedTuple


class Figure(NamedTuple):
    """Result of an attack: how often it was tried and how often something went wrong, with examples."""

    what: str
    tried: int
    wrong: int
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return a line."""
        verdict = "ok" if self.wrong == 0 else f"WRONG: {'; '.join(self.examples)}"
        return f"{self.what:<60} {self.wrong:>5} of {self.tried:<6} {verdict}"


def figure(what: str, faults: list[str]) -> Figure:
    """Return the result of trials, given what went wrong in each, an empty string for nothing."""
    wrong = [fault for fault in faults if fault]
    return Figure(what, len(faults), len(wrong), (*wrong[:3],))
