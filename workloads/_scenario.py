"""Scenarios: all choices about the simulation, which are flags, keywords and saved settings by the same names."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from gpu_cluster_gym.simulator.choice import choice
from gpu_cluster_gym.simulator.kernel.cluster.parameters import Parameters
from gpu_cluster_gym.traces import columns_given, did_you_mean, zone_expected
from gpu_cluster_gym.workloads._shifts import shift_expected

PREDICTORS = Path(__file__).parent / "run_time_predictors"
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
"""Names for sets of parts of physics."""
MEASURED = "measured"
"""Name for the parts of physics whose columns a log holds; they are known once it is read."""
NEEDED: dict[str, tuple[str, ...]] = {
    "memory": ("gpu_memory_gib",),
    "preemption": ("pause_s", "load_s"),
    "estimates": ("profiled_duration_s", "predictable_from"),
    "sharing": ("active_ms", "idle_ms"),
    "locality": ("sync_gb",),
    "cores": ("cpu_cores", "input_core_s"),
    "bandwidth": ("bandwidth_gbs",),
    "elastic": ("min_workers", "max_workers", "scaling_loss"),
    "gpu_types": ("model",),
    "failures": ("crash_at",),
    "startup": ("startup_s",),
    "links": ("sync_gb",),
    "exchange": ("sync_gb",),
    "profiles": ("profiled_active_ms", "profiled_idle_ms"),
}
"""Columns that a log must hold for a part of physics to be measured; cpu_jobs never is, since cores of nodes are not in
a log."""

DUTY_ERROR = 0.25
"""Standard deviation in log odds, four points of a duty cycle of 80 %: our assumption. No repeats are published; over
batch sizes of one model it is 0.97 (Lucid's runs), while throughput repeats within 3 % (Lucid, tf_cnn_benchmarks)."""
MEMORY_ERROR = 0.025  # a line over batch sizes fits 38 measured models to 2.5 %

PROPORTIONAL = "proportional"
BINDING = ("gpu_type", "partition", "depends_on", "priority")
"""Columns that may bind jobs, if the scenario's constraints name them."""
EVERY = "all"
"""Name for those of `BINDING` that a log has."""

Split = Literal["train", "validation", "test"]
WholeLog = Literal["all"]
"""The split of windows of a whole log, for evaluation only: no learner or search accepts it."""


def parts_of(physics: str) -> frozenset[str]:
    """Return the parts of physics that a text names, alone or as a set of `SETS`, whether or not they exist."""
    named = [part.strip() for part in physics.split(",")]
    sets = {name: [part for part in parts.split(",") if part] for name, parts in SETS.items()}
    return frozenset(part for name in named for part in sets.get(name, [name]))


def parts_held(columns: Collection[str]) -> frozenset[str]:
    """Return the parts of physics that a log with these columns holds."""
    return frozenset(part for part, needed in NEEDED.items() if set(needed) <= set(columns))


def parts_expected(physics: str) -> str | None:
    """Return the known parts, for an error about a text that names others; None for a valid text."""
    wrong = sorted(parts_of(physics) - {*PARTS, MEASURED})
    hints = "".join(did_you_mean(part, (*SETS, MEASURED, *PARTS)) for part in wrong)
    known = f"{', '.join(SETS)}, or a comma-separated list of these and {MEASURED}, {', '.join(PARTS)}"
    return f"{known}{hints}" if wrong else None


def columns_expected(text: str) -> str | None:
    """Return the form of headings of a file, for an error about a text of another form; None for a valid text."""
    try:
        columns_given(text)
    except ValueError as error:
        return f'pairs like job_id="job id",submit_s=submit ({error})'
    return None


def quotas_in(text: str) -> dict[str, int] | None:
    """Return the quotas in a text NAME=GPUS,...; None for a text of another form."""
    pairs = [pair.rpartition("=") for pair in text.split(",")]
    if not all(name.strip() and gpus.strip().isdecimal() for name, _, gpus in pairs):
        return None
    found = {name.strip(): int(gpus) for name, _, gpus in pairs}
    return found if len(found) == len(pairs) else None


def quotas_expected(quotas: str) -> str | None:
    """Return the forms of quotas, for an error about a text of another form; None for a valid text."""
    if quotas == PROPORTIONAL or quotas.endswith(".csv") or quotas_in(quotas) is not None:
        return None
    return "proportional, NAME=GPUS,... with each name once, or a file that ends in .csv"


def constraints_expected(text: str) -> str | None:
    """Return the known constraints, for an error about a text that names others; None for a valid text."""
    names = [name.strip() for name in text.split(",")]
    wrong = [name for name in names if name not in BINDING]
    if text == EVERY or (not wrong and len({*names}) == len(names)):
        return None
    hints = "".join(did_you_mean(name, (EVERY, *BINDING)) for name in wrong)
    return f"{EVERY}, or a comma-separated list of {', '.join(BINDING)}, each once{hints}"


def partitions_in(text: str) -> dict[str, list[int]] | None:
    """Return the nodes of each partition in a text NAME=0-3+8,...; None for a text of another form."""
    found: dict[str, list[int]] = {}
    for pair in text.split(","):
        name, _, parts = (each.strip() for each in pair.rpartition("="))
        if not name or name in found:
            return None
        found[name] = []
        for part in parts.split("+"):
            ends = [end.strip() for end in part.split("-")]
            if len(ends) > 2 or not all(end.isdecimal() and len(end) < 8 for end in ends):
                return None
            first, last = int(ends[0]), int(ends[-1])
            if first > last:
                return None
            found[name] += range(first, last + 1)
    return found


def partitions_expected(text: str) -> str | None:
    """Return the form of partitions, for an error about a text of another form; None for a valid text."""
    return (
        "NAME=NODES,..., each name once, with nodes such as 0-3 or 0-3+8"
        if partitions_in(text) is None
        else None
    )


def predictor_expected(name: str) -> str | None:
    """Return the known run-time predictors, for an error about another name; None for a known one, or a file."""
    known = sorted(file.stem for file in PREDICTORS.glob("*.json"))
    if name.endswith(".json") or name in known:
        return None
    return f"one of {', '.join(known)}, or a file that ends in .json{did_you_mean(name, known)}"


class Window(NamedTuple):
    """A window: its split of the trace and its number there; `FULL_TRACE` for a full trace."""

    split: Literal[Split, WholeLog, "whole"]
    number: int

    def __str__(self) -> str:
        """Return its name, such as `test 3`."""
        return "the full trace" if self == FULL_TRACE else f"{self.split} {self.number}"


FULL_TRACE = Window("whole", 0)  # the word is part of the name of random streams


@dataclass(frozen=True)
class Rules:
    """Jobs, cluster, and the rules that apply to every policy."""

    trace: str | None = None
    """Name of a trace, or of the trace whose format --trace-file has; philly if neither a trace nor a file is given.
    Windows of another trace or of a log have a fixed number of jobs, unless --steady-load is given."""
    trace_file: str | None = None
    """Log to read instead of generating jobs: Slurm's sacct, the Standard Workload Format, a public trace's original
    file, or a CSV, TSV or Parquet file with the columns of the job table. The format is detected from the content."""
    columns: str | None = choice(None, expected=columns_expected)
    """Headings of columns that have other names in the file, as in job_id="job id",submit_s=submit,num_gpus=gpus."""
    time_zone: str | None = choice(None, expected=zone_expected)
    """Time zone of times in the log that do not state one, such as Europe/Berlin; default: UTC."""
    cluster: str | None = None
    """NxG (nodes x GPUs), with details as in 4x8-k80, 1x2-32gb, 10x8-40c, joined by +; philly; a CSV file of
    nodes; or a file that ends in .json, the output of scontrol show nodes --json. Default: that of the workload; 8x8
    for windows with a fixed number of jobs; philly if --full-trace replays the trace philly."""
    placement: Literal["first_fit", "best_fit", "spread", "pooled"] = "best_fit"
    """Rule that chooses nodes; pooled ignores node boundaries."""
    discipline: Literal["greedy", "strict", "easy"] = "greedy"
    """Handling of a job that does not fit, by rankings that do not set their own (fifo, sjf ...). greedy: skip it;
    strict: it blocks later jobs on nodes that its constraints allow; easy: EASY backfilling, or greedy where the
    ranking preempts."""
    quotas: str | None = choice(None, expected=quotas_expected)
    """GPUs guaranteed to each tenant (column tenant, else vc): proportional (to GPUs x run time, summed over its
    jobs in the window, which no scheduler knows in advance), NAME=GPUS,... or a CSV file with the columns tenant and
    gpus. Default: no quotas."""
    borrowing: Literal["none", "idle", "reclaim"] = "none"
    """Use of GPUs beyond a tenant's quota. none: not allowed; idle: GPUs that no other tenant claims; reclaim: the
    same, until other tenants need their guaranteed GPUs and take them back by preemption."""
    constraints: str | None = choice(None, expected=constraints_expected)
    """Columns of a log that bind jobs: gpu_type (types of GPUs that a job may use), partition (see --partitions),
    depends_on (jobs that must end before a job may start), priority (which policies then see); a comma-separated list,
    or all, for those that the log has. Default: none."""
    partitions: str | None = choice(None, expected=partitions_expected)
    """Nodes of each partition, for --constraints partition: NAME=0-3+8,OTHER=4-7, by the numbers of nodes from 0;
    partitions may overlap."""
    physics: str | None = choice(None, expected=parts_expected)
    """Simulated effects: standard (all but cpu_jobs, gpu_types and failures; the default for generated windows with a
    fixed number of jobs), measured (those whose inputs are all in the log, so that nothing is sampled; the default with
    --trace-file), exclusive (memory, preemption, estimates; used by philly), all, none, or a comma-separated list of
    these and memory, preemption, estimates, sharing, locality, cores, bandwidth, cpu_jobs, elastic, gpu_types,
    failures, startup, links, exchange, profiles."""
    jobs: int = choice(512, least=1)
    """Number of consecutive jobs in a window that starts from an empty cluster; with --full-trace, number of jobs to
    generate. In a steady window, approximate number of jobs that arrive after the warm-up; it sets the size of
    records, and the interval between decisions of the action steer (`jobs` / `decisions_per_window` arrivals)."""
    full_trace: bool = False
    """Replay the full trace as one episode instead of windows (refused by train_agent.py); the default of evaluate.py
    for a log with fewer than two test windows."""
    all_windows: bool = False
    """Accept every window with a fixed number of jobs; otherwise only moderately loaded ones, by mean JCT / mean run
    time under SRTF. Steady windows are all accepted."""
    target_load: float | None = choice(None, above=0)
    """Load to which arrivals are scaled: sum over jobs of GPUs x min(duration, span), divided by the cluster's GPUs x
    span."""
    steady_load: float | None = choice(None, above=0)
    """Offered load of steady windows: sum over jobs of GPUs x min(duration, length of the window), divided by the GPUs
    of the cluster x length. A steady window is a stretch of days that begins with running and queued jobs; only jobs
    submitted in its middle are scored. Jobs are thinned to this load. None: windows of `jobs` jobs that start from an
    empty cluster."""
    warm_days: float = choice(7.0, above=0)
    """Days before the counted jobs of a steady window, simulated under FIFO for every policy."""
    counted_days: float = choice(3.0, above=0)
    """Days in which the counted jobs of a steady window are submitted."""
    after_days: float = choice(14.0, above=0)
    """Days in which further jobs arrive after the counted ones of a steady window."""
    max_duration: float | None = choice(None, above=0)
    """Cap on run times, s."""
    shift: str | None = choice(None, expected=shift_expected)
    """Distribution shift of the same windows: one of load=1.25 (factor of the arrival rate), run_times=2 (factor of
    run and interarrival times), pauses=0.4 (factor of pause and load times), bunches=8 (arrivals in groups of eight),
    estimates=0.5 (standard deviation of an additional error of log estimates), true_run_times (in place of estimates),
    other_contention (the other --contention-form), wider_nodes (half as many nodes, twice as wide)."""
    tick: float = choice(300.0, least=0)
    """Period of scheduling passes between events while jobs are queued, s; 0: at events only."""
    deadline_slack: float = choice(0.0, least=0)
    """Mean slack of deadlines drawn for a trace without any, in units of estimated run time; 0 draws none."""
    duty_error: float = choice(DUTY_ERROR, least=0)
    """Standard deviation of the error of a profiled GPU utilisation, in log odds, for a trace without profiles,
    where physics include profiles."""
    memory_error: float = choice(MEMORY_ERROR, least=0)
    """Standard deviation of the log error of profiled memory, for a trace without profiles, where physics include
    profiles."""
    run_time_predictor: str | None = choice(None, expected=predictor_expected)
    """Predictor of run times and core demands from finished jobs: a name in workloads/run_time_predictors, or a JSON
    file. Without one, policies get the estimates and the requested cores."""
    restart_cost: Literal["measured", "high"] = "measured"
    """Pause and load times for a trace without them. measured: fitted to all public measurements; high: fitted to Sia's
    alone, with a mean about four times as long, and a median eight times."""
    elastic_share: float = choice(1.0, least=0, most=1)
    """Share of jobs that may change their number of workers, where physics include elastic; the others keep it."""
    sharing_share: float = choice(1.0, least=0, most=1)
    """Share of jobs that may share their GPUs, where physics include sharing and memory; the others reserve all memory
    of a GPU, as some frameworks do at start."""
    drop_too_large: bool = False
    """Drop jobs that the empty cluster could never hold instead of refusing the trace."""
    seed: int = choice(0, least=0)
    """Seed of all random draws: generated jobs, missing columns, order of windows."""


@dataclass(frozen=True)
class Scenario(Parameters, Rules):
    """A simulation: a trace on a cluster, the rules that apply to every policy, and physics."""

    @property
    def trace_name(self) -> str | None:
        """Name of the trace that reads or generates the jobs; None for a CSV."""
        return self.trace or (None if self.trace_file else "philly")

    @property
    def cluster_name(self) -> str:
        """Name of the cluster, with defaults applied."""
        own = "philly" if self.full_trace and self.trace_name == "philly" else "8x8"
        return self.cluster or own

    @property
    def with_history(self) -> bool:
        """Whether run times are predicted from finished jobs."""
        return self.run_time_predictor is not None

    @property
    def physics_name(self) -> str:
        """Physics, with defaults applied."""
        return self.physics or (MEASURED if self.trace_file else "standard")

    @property
    def parts(self) -> frozenset[str]:
        """Parts of physics that are on; RuntimeError where they depend on a log that has not been read."""
        parts = parts_of(self.physics_name)
        if MEASURED in parts:
            raise RuntimeError(
                "physics 'measured' depends on the log: call workloads.with_physics(scenario) first"
            )
        return parts
