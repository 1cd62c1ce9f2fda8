"""Every choice about what is simulated."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args, get_type_hints

from simulator.physics import CONTENTION

PARTS = (
    "memory",
    "preemption",
    "estimates",
    "sharing",
    "locality",
    "cores",
    "bandwidth",
    "cpu_jobs",
    "elastic",
    "gpu_types",
    "failures",
)
USUAL = "memory,preemption,estimates"

Split = Literal["train", "validation", "test"]


class Window(NamedTuple):
    """A window: the part of the trace that it is of, and its number there; a whole trace is `WHOLE`."""

    split: Literal[Split, "whole"]
    number: int

    def __str__(self) -> str:
        """Say which, as `test 3`."""
        return "the whole trace" if self == WHOLE else f"{self.split} {self.number}"


WHOLE = Window("whole", 0)


@dataclass(frozen=True)
class Scenario:
    """What is simulated: a trace on a cluster, and the rules that hold for every policy compared."""

    trace: str | None = None
    """Name of the trace; philly if neither a trace nor a file is named."""
    trace_file: str | None = None
    """File to read by that trace's reader; without a name, a CSV with the columns of the job table."""
    cluster: str | None = None
    """NxG (nodes x GPUs), or more exactly 4x8-k80, 1x2-32gb, 10x8-40c, joined by +; philly; or a CSV of nodes. 8x8, or
    Philly's own for its trace under --whole."""
    placement: Literal["first_fit", "best_fit", "spread", "pooled"] = "best_fit"
    """Which node a job gets; pooled ignores node borders."""
    discipline: Literal["skip", "strict", "easy"] = "skip"
    """What happens behind a job that does not fit: it is skipped, blocks the queue, or is backfilled around."""
    physics: str = USUAL
    """all, none, or, joined by commas: memory, preemption, estimates, sharing, locality, cores, bandwidth, cpu_jobs,
    elastic, gpu_types, failures."""
    max_share: int = 2
    """Jobs that may hold a GPU at the same time, where sharing is on."""
    oom_victim: Literal["newcomer", "random", "grower"] = "newcomer"
    """Who fails where the memory of a shared GPU runs over: who came last, anyone, or whose need has just grown."""
    restart_delay: float = 25.0
    """Seconds after which a job that ran out of memory is queued again."""
    peak_at: float = 0.0
    """Share of its run after which a job that joins others on a GPU needs its peak memory."""
    contention: float = CONTENTION
    """Slowdown on a shared GPU for each GPU's worth of demand beyond one; the default is that of V100s."""
    contention_loss: float = 0.0
    """Slowdown on a shared GPU for each co-runner, whatever it demands."""
    node_mtbf: float = 0.0
    """Hours a node is up on average before it fails, where failures are on; 0 for nodes that never do."""
    node_repair: float = 4.0
    """Hours that a node which has failed is down on average."""
    drain_every: float = 0.0
    """Hours between two drains of a node for maintenance, where failures are on; 0 for none."""
    drain_notice: float = 1.0
    """Hours from the announcement of a drain, after which nothing starts there, until the node is down."""
    drain_length: float = 2.0
    """Hours that a drained node is down."""
    checkpoint_every: float = 1800.0
    """Seconds of progress between two checkpoints, to the last of which a job falls back that fails."""
    jobs: int = 512
    """Consecutive jobs of a window; with --whole, jobs of a generator."""
    whole: bool = False
    """Replay everything as one episode instead of windows."""
    all_windows: bool = False
    """Take windows whatever their stretch; else only those where jobs queue, but not without end."""
    target_load: float | None = None
    """Scale arrivals to this load: sum of GPUs x min(duration, span), over GPUs x span."""
    max_duration: float | None = None
    """Cap run times, s."""
    tick: float = 300.0
    """Seconds between the instants at which policies are asked although nothing has happened."""
    drop_too_large: bool = False
    """Drop jobs that the empty cluster could never hold, and count them, instead of stopping."""
    seed: int = 0
    """Decides all that is drawn: generated jobs, what a trace lacks, which windows."""

    def __post_init__(self) -> None:
        """Refuse rules that do not exist; ValueError names those that do."""
        for name in ("placement", "discipline", "oom_victim"):
            known = get_args(get_type_hints(Scenario)[name])
            if getattr(self, name) not in known:
                raise ValueError(f"unknown {name} {getattr(self, name)!r}: there are {', '.join(known)}")

    @property
    def trace_name(self) -> str | None:
        """The trace by whose reader or generator jobs are made; None for a CSV."""
        return self.trace or (None if self.trace_file else "philly")

    @property
    def cluster_name(self) -> str:
        """The cluster's name once defaults are applied."""
        own = "philly" if self.whole and self.trace_name == "philly" else "8x8"
        return self.cluster or own

    @property
    def has_bound(self) -> bool:
        """Whether a lower bound on the mean JCT is known: no GPU is shared, and none is faster than its job expects."""
        return not self.parts & {"sharing", "cores", "elastic", "gpu_types"}

    @property
    def parts(self) -> frozenset[str]:
        """The parts of physics that are on; ValueError names those that exist."""
        if self.physics in ("all", "none"):
            return frozenset(PARTS if self.physics == "all" else ())
        parts = frozenset(part.strip() for part in self.physics.split(","))
        if unknown := parts - set(PARTS):
            wrong = ", ".join(sorted(unknown))
            raise ValueError(f"unknown physics {wrong}: give all, none, or of {', '.join(PARTS)}")
        return parts
