"""The parameters of the rule over moves: each declared once, with its bounds, and the scale on which it is searched."""

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple


def weight(default: float, low: float, high: float, scale: float) -> Any:
    """Declare a parameter: what it may be, and how far it is moved to make a difference."""
    return field(default=default, metadata={"default": default, "low": low, "high": high, "scale": scale})


@dataclass(frozen=True)
class RuleParameters:
    """Weights of the rule; the first four switch its levers off (0) or on (1). Times are seconds, all are estimates."""

    sharing: float = weight(1, 0, 1, 0)
    preemption: float = weight(1, 0, 1, 0)
    sizing: float = weight(1, 0, 1, 0)
    cores: float = weight(1, 0, 1, 0)
    exponent: float = weight(0.8, -1, 3, 0.4)
    """Of a job's GPUs, by which its remaining time is multiplied in the order of the queue."""
    by_duty: float = weight(0, -3, 3, 0.5)
    """Weight of its duty (0 to 1) in the logarithm of that product."""
    by_memory: float = weight(0, -3, 3, 0.5)
    """The same of its memory, as a share of the largest GPU's."""
    by_doubt: float = weight(0, -3, 3, 0.5)
    """The same where its estimate is not good yet."""
    by_age: float = weight(0, -3, 3, 0.2)
    """The same of ln(1 + hours since its submission)."""
    price: float = weight(1.5, 0, 1e6, 2)
    """Of a second on a GPU, for each job that waits and `expected` that will, over all GPUs."""
    expected: float = weight(1, 0, 1e6, 0.5)
    """Jobs that are taken to be waiting soon."""
    shared_price: float = weight(0.6, 0, 1, 0.3)
    """Price of a share slot beside others, over that of a GPU of one's own."""
    harm: float = weight(1.5, 0, 8, 0.7)
    """Weight of the seconds that those beside it lose by a start."""
    relief: float = weight(1, 0, 8, 0.7)
    """Weight of the seconds that those win whom a job leaves."""
    most_busy: float = weight(1.7, 0, 4, 0.3)
    """Sum of the profiled duties on a GPU that is shared, at most."""
    most_slow: float = weight(3, 1, 1e6, 1)
    """Times its time as asked and alone with which a job may start, at most."""
    caution: float = weight(1, 0, 1e6, 0.25)
    """What a pause must win, over what others lose by it."""
    backlog: float = weight(1, 0, 1, 0.3)
    """How far a job is taken to wait for as long as its victims would hold their GPUs, where others take what opens."""
    contenders: float = weight(4, 1, 64, 2)
    """Jobs, the first in order, for which pauses are considered."""
    growth: float = weight(1, 0.1, 1e6, 0.7)
    """What a move to other GPUs must win, over what its restart takes; without it jobs would move for ever."""
    widening: float = weight(0.05, 0, 4, 0.05)
    """How early a running job that could use more GPUs stands in the order for those that come free, over a queued one
    with as much to go; 0: behind all that wait."""
    settled: float = weight(60, 10, 1e6, 60)
    """Seconds that a job has run at least before it is paused or moved; without it jobs would never get on."""
    reserve: float = weight(1, 0, 6, 0.7)
    """Cores for each GPU that a job is sure of before others get what they want."""
    new_cores: float = weight(1, 1, 8, 0.7)
    """Cores for each GPU with which a job starts, where there are so many."""
    first_guess: float = weight(3, 1, 16, 1)
    """Cores for each GPU that a job is taken to need before anything is known."""
    shorter_first: float = weight(0, -2, 2, 0.4)
    """Of the seconds a job has to go, by which the order is divided in which cores are given."""

    surplus: float = weight(1, 1, 8, 0.7)
    """Times the cores that it wants that a job is given at most, of those that no job wants."""
    trust_cores: float = weight(0.75, 0, 1, 0.5)
    """In the cores that finished jobs teach that a job needs (1), or in those found by trying alone (0)."""
    trust_times: float = weight(0.75, 0, 1, 0.5)
    """In the run times left that finished jobs teach (1), or in the estimate alone (0)."""
    spanning: float = weight(0, 0, 8, 0.5)
    """How readily a running job that has a whole node and could use more takes a second one, once no job waits: it is
    taken to be 1 + .13 / this times slower across nodes until that has been measured; 0: never."""

    def __post_init__(self) -> None:
        """Refuse what is out of bounds; ValueError names each parameter and its bounds."""
        wrong = [
            f"{each.name} {getattr(self, each.name):g}: expected {each.low:g} to {each.high:g}"
            for each in RULE_PARAMETERS
            if not each.low <= getattr(self, each.name) <= each.high
        ]
        if wrong:
            raise ValueError("; ".join(wrong))


class RuleParameter(NamedTuple):
    """A parameter: its default, its bounds, and the scale of a change that matters; 0 for a switch."""

    name: str
    default: float
    low: float
    high: float
    scale: float


RULE_PARAMETERS = tuple(
    RuleParameter(each.name, *(float(each.metadata[about]) for about in ("default", "low", "high", "scale")))
    for each in fields(RuleParameters)
)
