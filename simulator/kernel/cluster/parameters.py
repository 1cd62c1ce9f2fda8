"""Physics parameters, each declared once: the scenario's option, its flag, and the record's scalar field."""

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, get_args, get_origin

from gpu_cluster_gym.simulator.choice import ChoiceError, Wrong, check, choice, hints

MAX_SHARE = 4  # slots per GPU: slot k of GPU g is number MAX_SHARE * g + k
CONTENTION = 0.62
"""Contention coefficient of V100s for the form `turns`: fitted to Gavel's pairs, in hardware.csv."""
CONTENTION_OF_EXCESS = 0.48
"""Contention coefficient of V100s for the form `excess`: median of the same pairs, in hardware.csv."""
PRESSURE_AT_FULL = 1.67
"""Slowdown of host-memory traffic at full bandwidth: Kelp (HPCA 2019) lost 40 % of speed there."""
PRESSURE_FROM = 0.5  # our assumption: caches and queues slow memory traffic before its bandwidth is exhausted
EXCHANGE_CORE_S = 0.8
"""Core-seconds per GB: one core carries 82 to 98 % of a parameter server's traffic (curves of Aiturbo-vGPU). Its
network of 10 Gb/s, 1.25 GB/s, is our assumption."""
EXCHANGE_PASSES = 4.0  # our assumption: GPU to memory, memory to network, network to memory, memory to GPU
HOUR = 3600.0  # s


def parameter(
    default: Any, *, part: str | None = None, off: Any = None, zero_is_never: bool = False, **allowed: Any
) -> Any:
    """Declare a parameter.

    part: part of physics that the parameter belongs to; None if it always applies.
    off: value used if that part is off; None for the default.
    zero_is_never: whether 0 stands for a time that never comes.
    """
    off = default if off is None else off
    return choice(default, part=part, off=off, zero_is_never=zero_is_never, **allowed)


@dataclass(frozen=True)
class Parameters:
    """Physics parameters: times are in seconds, or in hours if the name ends in `_h`; fractions are from 0 to 1."""

    max_share: int = parameter(2, part="sharing", off=1, least=1, most=MAX_SHARE)
    """Maximum number of jobs per GPU (physics part: sharing)."""
    oom_victim: Literal["newcomer", "random", "grower"] = parameter("grower", part="sharing")
    """Job that fails when the memory of a shared GPU overflows: the newest one, a random one, or the one whose need has
    just grown."""
    restart_delay: float = parameter(25.0, above=0)
    """Seconds after which a failed job is queued again."""
    peak_at: float = parameter(0.0, part="sharing", least=0, below=1)
    """Fraction of its run after which a co-located job needs its peak memory."""
    contention_form: Literal["turns", "excess"] = parameter("turns", part="sharing")
    """Interference model of a shared GPU. turns: jobs alternate, and a job waits longer for jobs that hold the GPU
    longer; excess: all jobs slow down equally, by the total utilisation beyond 1."""
    contention: float = parameter(CONTENTION, part="sharing", least=0)
    """Added slowdown on a shared GPU: by a co-located job with utilisation 1, 4 GiB of memory and equally long turns
    (turns), or per unit of total utilisation beyond 1 (excess: 0.48 for V100s); the default is fitted to V100s."""
    contention_loss: float = parameter(0.0, part="sharing", least=0)
    """Added slowdown on a shared GPU per co-located job, whatever its utilisation."""
    pressure_from: float = parameter(PRESSURE_FROM, part="bandwidth", off=1.0, least=0, most=1)
    """Fraction of a node's memory bandwidth above which memory traffic slows down."""
    pressure_at_full: float = parameter(PRESSURE_AT_FULL, part="bandwidth", off=1.0, least=1)
    """Slowdown of memory traffic at full bandwidth; it rises linearly from 1 at `pressure_from`, and in proportion to
    demand beyond full bandwidth."""
    exchange_core_s: float = parameter(EXCHANGE_CORE_S, part="exchange", off=0.0, least=0)
    """Core-seconds per GB that a job exchanges between nodes or with parameter servers."""
    exchange_passes: float = parameter(EXCHANGE_PASSES, part="exchange", off=0.0, least=0)
    """Number of times that each exchanged GB passes through its node's memory."""
    profiling: float = parameter(0.0, part="profiles", least=0)
    """Seconds that a job holds its GPUs for profiling at its first start."""
    node_mtbf_h: float = parameter(0.0, part="failures", least=0, zero_is_never=True)
    """Mean hours between failures of a node (physics part: failures); 0 for never."""
    node_repair_h: float = parameter(4.0, part="failures", above=0)
    """Mean hours to repair a failed node."""
    drain_every_h: float = parameter(0.0, part="failures", least=0, zero_is_never=True)
    """Hours between maintenance drains of a node (physics part: failures); 0 for none."""
    drain_notice_h: float = parameter(1.0, part="failures", above=0)
    """Hours from the announcement of a drain, when the node stops accepting jobs, until it goes down."""
    drain_length_h: float = parameter(2.0, part="failures", above=0)
    """Hours that a drained node is down."""
    checkpoint_every: float = parameter(1800.0, part="failures", above=0)
    """Seconds of progress between checkpoints (physics part: failures), from the last of which a job restarts if it or
    its node fails; a job that runs out of memory loses all progress."""

    def __post_init__(self) -> None:
        """Validate all fields; raise ChoiceError that names each invalid one."""
        check(self)
        drained_h = self.drain_notice_h + self.drain_length_h
        if 0 < self.drain_every_h <= drained_h:
            least = f"more than drain_notice_h and drain_length_h together, {drained_h:g}, or 0 for none"
            raise ChoiceError([Wrong("drain_every_h", self.drain_every_h, least)])


class Declared(NamedTuple):
    """A declared parameter and the record field that holds it."""

    name: str
    part: str | None
    off: Any
    zero_is_never: bool
    words: tuple[str, ...]

    @property
    def field(self) -> str:
        """Name of the record's field, which holds times in seconds."""
        return self.name.removesuffix("_h")

    def recorded(self, value: Any) -> float:
        """Return the field's value: seconds, infinity for never, or the index of a word."""
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
    """Return the parameters by name, with the `off` value for parts of physics that are off."""
    return {
        each.name: getattr(parameters, each.name) if each.part in (None, *parts) else each.off
        for each in PARAMETERS
    }
