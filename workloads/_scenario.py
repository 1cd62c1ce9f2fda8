"""Every choice about what is simulated."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from gpu_cluster_gym.simulator.choice import choice
from gpu_cluster_gym.simulator.kernel.cluster.parameters import Parameters
from gpu_cluster_gym.traces import did_you_mean
from gpu_cluster_gym.workloads._shifts import shift_expected

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
    "startup",
    "links",
    "exchange",
    "profiles",
)
EXCLUSIVE = "memory,preemption,estimates"
STANDARD = f"{EXCLUSIVE},sharing,locality,cores,bandwidth,elastic,startup,links,exchange,profiles"
SETS = {"all": ",".join(PARTS), "none": "", "exclusive": EXCLUSIVE, "standard": STANDARD}
"""Parts of physics that go by one name."""

DUTY_ERROR = 0.25
"""Of the log odds, four points of a duty of 80 %: our assumption. Nobody has published repeats; over batch sizes of one
model it is 0.97 (Lucid's runs), while throughput repeats within 3 % (Lucid, tf_cnn_benchmarks)."""
MEMORY_ERROR = 0.025  # a line over batch sizes fits 38 measured models to 2.5 %

Split = Literal["train", "validation", "test"]


def parts_of(physics: str) -> frozenset[str]:
    """Return the parts of physics that a text names, whether or not they exist."""
    names = SETS.get(physics, physics).split(",")
    return frozenset(part.strip() for part in names if part or physics not in SETS)


def parts_expected(physics: str) -> str | None:
    """Return which parts of physics are expected where a text names others, else None."""
    wrong = sorted(parts_of(physics) - set(PARTS))
    hints = "".join(did_you_mean(part, (*SETS, *PARTS)) for part in wrong)
    return f"{', '.join(SETS)}, or, joined by commas, {', '.join(PARTS)}{hints}" if wrong else None


class Window(NamedTuple):
    """A window: the part of the trace that it is of, and its number there; a whole trace is `FULL_TRACE`."""

    split: Literal[Split, "whole"]
    number: int

    def __str__(self) -> str:
        """Say which, as `test 3`."""
        return "the whole trace" if self == FULL_TRACE else f"{self.split} {self.number}"


FULL_TRACE = Window("whole", 0)


@dataclass(frozen=True)
class Rules:
    """Which jobs come to which machines, and the rules that hold for every policy compared."""

    trace: str | None = None
    """Name of the trace; philly if neither a trace nor a file is named."""
    trace_file: str | None = None
    """File to read by that trace's reader; without a name, a CSV with the columns of the job table."""
    cluster: str | None = None
    """NxG (nodes x GPUs), or more exactly 4x8-k80, 1x2-32gb, 10x8-40c, joined by +; philly; or a CSV of nodes. 8x8, or
    Philly's own for its trace under --full-trace."""
    placement: Literal["first_fit", "best_fit", "spread", "pooled"] = "best_fit"
    """Which node a job gets; pooled ignores node borders."""
    discipline: Literal["greedy", "strict", "easy"] = "greedy"
    """What happens behind a job that does not fit. greedy: it is skipped; strict: strict FIFO, it blocks the
    queue; easy: EASY backfilling."""
    physics: str = choice("standard", expected=parts_expected)
    """standard (the default: every lever of jobs on GPUs), exclusive (the classic problem: memory, preemption,
    estimates), all, none, or, joined by commas: memory, preemption, estimates, sharing, locality, cores, bandwidth,
    cpu_jobs, elastic, gpu_types, failures, startup, links, exchange, profiles."""
    jobs: int = choice(512, least=1)
    """Consecutive jobs of a window; with --full-trace, jobs of a generator."""
    full_trace: bool = False
    """Replay everything as one episode instead of windows."""
    all_windows: bool = False
    """Take every window; else only those where jobs queue but not without end, by mean JCT / mean run time."""
    target_load: float | None = choice(None, above=0)
    """Scale arrivals to this load: sum of GPUs x min(duration, span), over GPUs x span."""
    max_duration: float | None = choice(None, above=0)
    """Cap run times, s."""
    shift: str | None = choice(None, expected=shift_expected)
    """Change the same windows: load=1.25 (times as many arrivals), bunches=8, run_times=2, pauses=0.4, estimates=0.5
    (an error more), other_contention, wider_nodes."""
    tick: float = choice(300.0, least=0)
    """Seconds between the instants at which policies are asked although nothing has happened."""
    deadline_slack: float = choice(0.0, least=0)
    """Mean slack of the deadlines that are drawn where a trace has none, in estimated run times; 0 draws none."""
    duty_error: float = choice(DUTY_ERROR, least=0)
    """Deviation of the log odds of a profiled duty, where profiles is on and a trace has no profiles."""
    memory_error: float = choice(MEMORY_ERROR, least=0)
    """Deviation of the logarithm of a profiled memory, likewise."""
    run_time_predictor: str | None = None
    """Predictor of run times and core demands from finished jobs: a name in workloads/run_time_predictors, or a JSON
    file. Without one, policies get the estimates and the requested cores."""
    restart_cost: Literal["measured", "high"] = "measured"
    """Duration of pauses and loads that a trace lacks: measured, fitted to all public measurements; high, to Sia's
    alone, about four times as long."""
    drop_too_large: bool = False
    """Drop jobs that the empty cluster could never hold, and count them, instead of stopping."""
    seed: int = choice(0, least=0)
    """Decides all that is drawn: generated jobs, what a trace lacks, which windows."""


@dataclass(frozen=True)
class Scenario(Parameters, Rules):
    """What is simulated: a trace on a cluster, the rules that hold for every policy compared, and physics."""

    @property
    def trace_name(self) -> str | None:
        """The trace by whose reader or generator jobs are made; None for a CSV."""
        return self.trace or (None if self.trace_file else "philly")

    @property
    def cluster_name(self) -> str:
        """The cluster's name once defaults are applied."""
        own = "philly" if self.full_trace and self.trace_name == "philly" else "8x8"
        return self.cluster or own

    @property
    def with_history(self) -> bool:
        """Whether finished jobs teach."""
        return self.run_time_predictor is not None

    @property
    def parts(self) -> frozenset[str]:
        """The parts of physics that are on."""
        return parts_of(self.physics)
