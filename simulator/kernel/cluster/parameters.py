"""The parameters of physics, each declared once: the scenario's choice, its flag and the record's scalar field."""

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, get_args, get_origin

from gpu_cluster_gym.simulator.choice import ChoiceError, Wrong, check, choice, hints

MAX_SHARE = 4  # slots a GPU: slot k of GPU g is number MAX_SHARE * g + k
CONTENTION = 0.62
"""How much jobs on V100s slow one another where they take turns: fitted to Gavel's pairs, in hardware.csv."""
CONTENTION_OF_EXCESS = 0.48
"""The same for each GPU's worth of demand beyond one: the median of those pairs, in hardware.csv."""
PRESSURE_AT_FULL = 1.67
"""Slowdown of what goes through host memory that is drawn in full: Kelp (HPCA 2019) lost 40 % of speed there."""
PRESSURE_FROM = 0.5  # our choice: neighbours in caches and queues are felt before all bandwidth is drawn
EXCHANGE_CORE_S = 0.8
"""Core-seconds a GB: one core carries 82 to 98 % of what a parameter server does (Aiturbo-vGPU's curves); that its
network is one of 10 Gb/s, 1.25 GB/s, is our assumption."""
EXCHANGE_PASSES = (
    4.0  # our assumption: written from a GPU, read for the network, written from it, read for a GPU
)
HOUR = 3600.0  # s


def parameter(
    default: Any, *, part: str | None = None, off: Any = None, zero_is_never: bool = False, **allowed: Any
) -> Any:
    """Declare a parameter.

    part: of physics, without which nothing depends on it. off: its value where that part is off; the default, if
    that does nothing there. zero_is_never: 0 is a time that never comes.
    """
    off = default if off is None else off
    return choice(default, part=part, off=off, zero_is_never=zero_is_never, **allowed)


@dataclass(frozen=True)
class Parameters:
    """The numbers of physics: shares as such, times in seconds, or in hours where the name ends in `_h`."""

    max_share: int = parameter(2, part="sharing", off=1, least=1, most=MAX_SHARE)
    """Jobs that may hold a GPU at the same time, where sharing is on."""
    oom_victim: Literal["newcomer", "random", "grower"] = parameter("grower", part="sharing")
    """Which job fails where the memory of a shared GPU runs over: the last to come, any, or the one that has just
    grown."""
    restart_delay: float = parameter(25.0, above=0)
    """Seconds after which a job that has failed is queued again."""
    peak_at: float = parameter(0.0, part="sharing", least=0, below=1)
    """Share of its run after which a job that joins others on a GPU needs its peak memory."""
    contention_form: Literal["turns", "excess"] = parameter("turns", part="sharing")
    """How jobs slow one another on a shared GPU. turns: each by the others', the more the longer these hold the GPU;
    excess: all alike, by what is demanded beyond one GPU's worth."""
    contention: float = parameter(CONTENTION, part="sharing", least=0)
    """Slowdown on a shared GPU by another job that keeps it busy and is like oneself, of 4 GiB (turns), or for each
    GPU's worth of demand beyond one (excess: 0.48 for V100s); the default is that of V100s."""
    contention_loss: float = parameter(0.0, part="sharing", least=0)
    """Slowdown on a shared GPU for each co-located job, whatever it demands."""
    pressure_from: float = parameter(PRESSURE_FROM, part="bandwidth", off=1.0, least=0, most=1)
    """Share of the bandwidth of a node's memory from which on what goes through it is slowed."""
    pressure_at_full: float = parameter(PRESSURE_AT_FULL, part="bandwidth", off=1.0, least=1)
    """Slowdown of that where all of the bandwidth is drawn; rises evenly to there, and with the demand beyond."""
    exchange_core_s: float = parameter(EXCHANGE_CORE_S, part="exchange", off=0.0, least=0)
    """Core-seconds for each GB that a job exchanges between nodes or with parameter servers."""
    exchange_passes: float = parameter(EXCHANGE_PASSES, part="exchange", off=0.0, least=0)
    """How often such a GB goes through the memory of its node."""
    profiling: float = parameter(0.0, part="profiles", least=0)
    """Seconds that a job holds its GPUs for its profile, when it first starts."""
    node_mtbf_h: float = parameter(0.0, part="failures", least=0, zero_is_never=True)
    """Hours a node is up on average before it fails, where failures are on; 0 for nodes that never do."""
    node_repair_h: float = parameter(4.0, part="failures", above=0)
    """Hours that a node which has failed is down on average."""
    drain_every_h: float = parameter(0.0, part="failures", least=0, zero_is_never=True)
    """Hours between two drains of a node for maintenance, where failures are on; 0 for none."""
    drain_notice_h: float = parameter(1.0, part="failures", above=0)
    """Hours from the announcement of a drain, after which nothing starts there, until the node is down."""
    drain_length_h: float = parameter(2.0, part="failures", above=0)
    """Hours that a drained node is down."""
    checkpoint_every: float = parameter(1800.0, part="failures", above=0)
    """Seconds of progress between two checkpoints, to the last of which a failed job falls back."""

    def __post_init__(self) -> None:
        """Refuse what cannot be; ChoiceError names each field."""
        check(self)
        drained_h = self.drain_notice_h + self.drain_length_h
        if 0 < self.drain_every_h <= drained_h:
            least = f"more than drain_notice_h and drain_length_h together, {drained_h:g}, or 0 for none"
            raise ChoiceError([Wrong("drain_every_h", self.drain_every_h, least)])


class Declared(NamedTuple):
    """A parameter as it was declared, and the field of an episode's record that holds it."""

    name: str
    part: str | None
    off: Any
    zero_is_never: bool
    words: tuple[str, ...]

    @property
    def field(self) -> str:
        """The record's field, which holds times in seconds."""
        return self.name.removesuffix("_h")

    def recorded(self, value: Any) -> float:
        """Return what the field holds: seconds, infinite for never, or the number of a word."""
        if self.words:
            return self.words.index(value)
        if self.zero_is_never and not value:
            return math.inf
        number: float = value * HOUR if self.name.endswith("_h") else value
        return number


def _as_declared() -> tuple[Declared, ...]:
    types = {name: hint for name, (hint, _) in hints(Parameters).items()}
    return tuple(
        Declared(
            name=each.name,
            part=each.metadata["part"],
            off=each.metadata["off"],
            zero_is_never=each.metadata["zero_is_never"],
            words=get_args(types[each.name]) if get_origin(types[each.name]) is Literal else (),
        )
        for each in fields(Parameters)
    )


PARAMETERS = _as_declared()
FIELDS = tuple((each.field, "i8" if each.words or isinstance(each.off, int) else "f8") for each in PARAMETERS)
"""The scalar fields of an episode's record that hold the parameters: name and type."""


def recorded(parameters: Parameters) -> dict[str, float]:
    """Return the record's fields with the values of these parameters."""
    return {each.field: each.recorded(getattr(parameters, each.name)) for each in PARAMETERS}


def acting(parameters: Parameters, parts: frozenset[str]) -> dict[str, Any]:
    """Return the parameters by name, those of parts that are off at a value that does nothing."""
    return {
        each.name: getattr(parameters, each.name) if each.part in (None, *parts) else each.off
        for each in PARAMETERS
    }
