"""Workloads: job tables prepared for a cluster, with missing columns filled in, and infeasible jobs refused or dropped.

A table passes through `load` (trace) -> `filled` (missing columns) -> `prepare` (jobs that fit, arrivals, shift) ->
`Workload.episode`. The simulator and pandas are imported inside functions: the commands' --help imports this module.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, wraps
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from gpu_cluster_gym import traces
from gpu_cluster_gym.simulator.choice import ChoiceError, Wrong
from gpu_cluster_gym.simulator.cluster import Cluster, cluster
from gpu_cluster_gym.simulator.constraints import NO_CONSTRAINTS, Constraints
from gpu_cluster_gym.simulator.jobs import gives_out_cores, jobs_array
from gpu_cluster_gym.simulator.kernel.cluster.layout import GPU_TYPES, PHYSICS
from gpu_cluster_gym.simulator.physics import Physics, acting
from gpu_cluster_gym.simulator.tenants import NO_TENANTS, Tenants
from gpu_cluster_gym.workloads._constraints import (
    MET,
    asked_for,
    columns_that_bind,
    constraints_of,
    named_nodes,
    not_simulated,
    refuse_wrong_dependencies,
    unnamed_partitions,
)
from gpu_cluster_gym.workloads._quotas import cut_at_limits, guaranteed, tenants_of, with_note_of_quotas
from gpu_cluster_gym.workloads._scenario import (
    FULL_TRACE,
    MEASURED,
    PARTS,
    PREDICTORS,
    Scenario,
    Window,
    parts_held,
    parts_of,
)
from gpu_cluster_gym.workloads._shifts import describe_shift, parsed, with_arrivals
from gpu_cluster_gym.workloads._steady import BEFORE, counted, draw, load_of, stretch_of

if TYPE_CHECKING:
    import pandas as pd

    from gpu_cluster_gym.simulator.account import Account
    from gpu_cluster_gym.simulator.episode import Episode
    from gpu_cluster_gym.simulator.history import History

F = TypeVar("F", bound=Callable[..., Any])

FILES = ("trace_file", "cluster", "run_time_predictor", "quotas")
"""Fields of a scenario that may name a file."""
ROWS_SHOWN = 10
RUN_TIMES = ("duration_s", "profiled_duration_s", "predicted_duration_s")
ROUNDING = 1e-9  # tolerance of times: absolute, in seconds, plus relative
WRITTEN = "fitted"  # the one field of a job that is written during an episode
MACHINES = ("node_gpus", "node_memory", "node_cores", "node_type", "gpu_node", "node_first", "node_group")
RULES = (
    *("num_jobs", "num_nodes", "num_gpus", "seed", "busy_until"),
    *("num_tenants", "borrowing", "tenant", "quota"),
    *("num_dependencies", "dependents_end", "dependents"),
    *(name for name, *_ in PHYSICS),
)
"""Fields of the state with the machines, and with the rules: no policy may change them."""


@dataclass(frozen=True)
class Workload:
    """Jobs on a cluster: a window or a full trace.

    table: the prepared job table
    jobs: the same as an array of JOB
    cluster: the machines
    scenario: the scenario it was prepared for
    window: its part of the trace
    tenants: tenants of the jobs, and their quotas
    constraints: nodes that each job may use, and jobs that must end before it may start
    min_room: lower bound on `room`, the same for windows of one batch
    """

    table: pd.DataFrame
    jobs: np.ndarray
    cluster: Cluster
    scenario: Scenario
    window: Window = FULL_TRACE
    tenants: Tenants = NO_TENANTS
    constraints: Constraints = NO_CONSTRAINTS
    min_room: int = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Workload:
        """Return itself: it never changes."""
        return self

    @cached_property
    def fits(self) -> np.ndarray:
        """Speed models fitted to each job's profile, (jobs, terms); filled by the first episode that needs them."""
        from gpu_cluster_gym.simulator.speed_model import NUM_TERMS

        return np.zeros((len(self.jobs), NUM_TERMS))

    @cached_property
    def _untouched(self) -> tuple[np.ndarray, dict[str, bytes]]:
        """Lower bound on each job's completion time, s, and the fingerprints of a new episode."""
        episode = self.episode()
        return episode.fastest_s, fingerprints(episode)

    @cached_property
    def counted(self) -> np.ndarray:
        """Mask of the jobs that count in metrics, bool (jobs,): all, in a steady window those of its counted days."""
        if self.scenario.steady_load is None:
            return np.ones(len(self.jobs), bool)
        return counted(self.scenario, self.jobs["submit_s"])

    @property
    def room(self) -> int:
        """Minimum capacity of records, in jobs and in dependencies; equal for windows of a batch."""
        usual = self.scenario.jobs if self.scenario.steady_load is not None else 0
        return max(len(self.jobs), len(self.constraints.waits_for), usual, self.min_room)

    @cached_property
    def first_counted(self) -> int:
        """Index of the first job that counts."""
        return int(self.counted.argmax())

    @cached_property
    def last_counted(self) -> int:
        """Index of the last job that counts."""
        return len(self.counted) - 1 - int(self.counted[::-1].argmax())

    @cached_property
    def _begun(self) -> np.ndarray:
        """Record of a steady window at which every policy begins: (1,)."""
        episode = self._empty(1)
        episode.run_until(BEFORE, stretch_of(self.scenario).from_s)
        return episode.states

    def episode(self, rows: int = 2, *, account: Account | None = None) -> Episode:
        """Return a new episode of this workload with `rows` records.

        account: records the time before the counted jobs of a steady window.
        """
        episode = self._empty(rows)
        if self.scenario.steady_load is None:
            return episode
        if account:
            episode.run_until(BEFORE, stretch_of(self.scenario).from_s, account)
        else:
            episode.states[0] = self._begun[0]
        return episode

    def _empty(self, rows: int) -> Episode:
        from gpu_cluster_gym.simulator.episode import Episode

        scenario = self.scenario
        return Episode(
            self.jobs,
            self.cluster,
            placement=scenario.placement,
            discipline=scenario.discipline,
            exact="estimates" not in scenario.parts,
            tick_s=scenario.tick,
            seed=traces.seed_from(scenario.seed, "episode", *self.window),
            rows=rows,
            room=self.room,
            physics=self.physics,
            fits=self.fits,
            history=predictor(scenario.run_time_predictor),
            tenants=self.tenants,
            constraints=self.constraints,
        )

    @cached_property
    def physics(self) -> Physics:
        """Interactions of the jobs."""
        return physics_of(self.cluster, self.scenario)

    def results(self, episode: Episode) -> pd.DataFrame:
        """Return the results table of a finished episode, of the jobs that count.

        ValueError if any of these is unfinished. RuntimeError if the jobs, the machines or the rules changed during the
        episode, or if a job finished too early.
        """
        from gpu_cluster_gym.simulator import results

        self._refuse_changed(episode)
        self._refuse_impossible(episode)
        number, seed = self.window.number, self.scenario.seed
        rows = None if self.counted.all() else self.counted
        return results.of_episode(self.table, episode.state, window=number, seed=seed, rows=rows)

    def _refuse_changed(self, episode: Episode) -> None:
        """Raise RuntimeError where constants of the episode are not as they were at its start."""
        now = fingerprints(episode)
        if changed := [name for name, digest in self._untouched[1].items() if now[name] != digest]:
            raise RuntimeError(
                f"{' and '.join(changed)} of window {self.window.number} must not change during an episode, but did: "
                "the policy wrote into the simulator's memory (let it read its view only; see SECURITY.md)"
            )

    def _refuse_impossible(self, episode: Episode) -> None:
        """Raise RuntimeError where a job finished faster than possible."""
        count = len(self.jobs)
        finish_s = episode.state.finish_s[:count]
        took_s, least_s = finish_s - self.jobs["submit_s"], self._untouched[0]
        of_clock = 4 * np.spacing(finish_s)  # after years the clock itself is rounded more coarsely
        wrong = np.flatnonzero(took_s < least_s * (1 - ROUNDING) - ROUNDING - of_clock)
        if len(wrong):
            job = int(wrong[0])
            raise RuntimeError(
                f"job {self.table['job_id'].iloc[job]} completed within {took_s[job]:g} s, below its lower bound of "
                f"{least_s[job]:g} s: the policy wrote into the simulator's memory (let it read its view only; see "
                "SECURITY.md)"
            )


def fingerprints(episode: Episode) -> dict[str, bytes]:
    """Return digests of the constants of an episode: jobs, machines and rules."""
    jobs, state = episode.jobs, episode.states[0]
    kind, first = jobs.dtype.fields[WRITTEN][:2]  # type: ignore[index]
    cells = np.frombuffer(jobs, np.uint8).reshape(len(jobs), -1)
    parts = {
        "jobs": [cells[:, :first], cells[:, first + kind.itemsize :]],
        "machines": [state[name] for name in MACHINES],
        "rules": [state[name] for name in RULES],
    }
    return {name: digest(arrays) for name, arrays in parts.items()}


def digest(arrays: list[np.ndarray]) -> bytes:
    """Return a digest of some arrays."""
    found = hashlib.blake2b(digest_size=16)
    for array in arrays:
        found.update(array.tobytes())
    return found.digest()


def cached(maxsize: int) -> Callable[[F], F]:
    """Cache a function of a scenario and further arguments, until a file that the scenario names changes."""

    def decorate(function: F) -> F:
        @lru_cache(maxsize)
        def known(_: tuple[tuple[int, int] | None, ...], *args: Any) -> Any:
            return function(*args)

        @wraps(function)
        def found(scenario: Scenario, *rest: Any) -> Any:
            traces.refuse_while_asking("a table of jobs")
            named = (getattr(scenario, name) for name in FILES)
            return known(tuple(_stamp(Path(name)) if name else None for name in named), scenario, *rest)

        return cast("F", found)

    return decorate


def _stamp(file: Path) -> tuple[int, int] | None:
    """Return a file's time of change, ns, and its size, bytes; None where it does not exist."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def predictor(name: str | None) -> History | None:
    """Return a run-time predictor: a name in `PREDICTORS`, or a JSON file; ValueError for a file without one."""
    if name is None or not name.endswith(".json"):
        return None if name is None else _named_predictor(name)
    from gpu_cluster_gym.simulator.history import read

    return read(Path(name))


@lru_cache(maxsize=8)
def _named_predictor(name: str) -> History:
    """Return a run-time predictor of `PREDICTORS`, read once."""
    from gpu_cluster_gym.simulator.history import read

    return read(PREDICTORS / f"{name}.json")


def physics_of(machines: Cluster, scenario: Scenario) -> Physics:
    """Return the interactions of jobs on a cluster; ValueError for GPUs whose speed is unknown where it matters."""
    parts = scenario.parts
    if "gpu_types" in parts and machines.without_speed:
        raise ValueError(
            f"physics gpu_types: no public measurement of the speed of {', '.join(machines.without_speed)} is known: "
            f"drop gpu_types, or choose among the types {', '.join(GPU_TYPES)}"
        )
    return Physics(
        **acting(scenario, parts),
        cores=gives_out_cores(parts),
        bandwidth="bandwidth" in parts,
        links="links" in parts,
        typed="gpu_types" in parts and len({*machines.types, GPU_TYPES[0]}) > 1,
    )


def load(
    trace: str | None = None,
    file: str | PathLike[str] | None = None,
    *,
    seed: int,
    jobs: int | None = None,
    columns: str | None = None,
    time_zone: str | None = None,
    scale: float = 1.0,
) -> pd.DataFrame:
    """Return the job table of a trace, or of a named workload that generates its own jobs; see `traces.load`.

    ValueError for an unknown name.
    """
    traces.refuse_while_asking("a trace")
    if trace is None or trace in traces.names():
        read_as = {"columns": columns, "time_zone": time_zone}
        return traces.load(trace, file, seed=seed, jobs=jobs, scale=scale, **read_as)
    known = traces.available("workloads")
    found: Any = traces.provider("workloads", trace, "trace") if trace in known else None
    if not hasattr(found, "trace"):
        providers = {name: traces.provider("workloads", name, "workload") for name in known}
        generating = [name for name, each in providers.items() if hasattr(each, "trace")]
        raise ValueError(traces.unknown("trace", trace, (*traces.names(), *generating)))
    table: pd.DataFrame = found.trace(file, seed=seed, jobs=jobs)
    return table


def filled(table: pd.DataFrame, scenario: Scenario, *, seed: int) -> pd.DataFrame:
    """Return a job table with run times capped at `max_duration`, and missing columns filled in from `seed`."""
    scenario = with_physics(scenario)
    machines = cluster(scenario.cluster_name)
    if scenario.max_duration is not None:
        longest, present = scenario.max_duration, [name for name in RUN_TIMES if name in table]
        capped = table.assign(**{name: table[name].clip(upper=longest) for name in present})
        capped.attrs = table.attrs
        table = capped
    table = cut_at_limits(table)
    own = {name: value for name, value in vars(scenario).items() if name != "seed"}
    if "profiles" not in scenario.parts:
        own |= {"duty_error": 0.0, "memory_error": 0.0}
    own |= {"seed": seed, "largest_gpu_gib": machines.largest_gpu_gib}
    own |= {"cores_per_gpu": max(1, int(machines.cores_per_gpu))}
    complete = restricted(traces.fill(table, **own), scenario, seed)
    separate = "startup" in scenario.parts and "startup_s" not in table
    return _without_startup(complete) if separate else complete


def restricted(table: pd.DataFrame, scenario: Scenario, seed: int) -> pd.DataFrame:
    """Return filled jobs of which only the stated shares may change width or share GPUs, each drawn by its ID.

    ValueError where some jobs may not share and GPUs have several memory sizes.
    """
    columns: dict[str, Any] = {}
    if scenario.elastic_share < 1:
        fixed = ~_drawn(table, scenario.elastic_share, seed, "elastic")
        for name in ("min_workers", "max_workers"):
            columns[name] = table[name].mask(fixed, table["num_gpus"])
    if scenario.sharing_share < 1:
        sizes = {*cluster(scenario.cluster_name).node_gpu_memory_gib}
        if len(sizes) > 1:
            raise ValueError(
                f"sharing_share {scenario.sharing_share:g}: jobs that reserve a whole GPU require GPUs of one memory "
                f"size, but {scenario.cluster_name} has {', '.join(f'{size:g} GiB' for size in sorted(sizes))}: "
                "choose another cluster, or sharing_share=1"
            )
        alone = ~_drawn(table, scenario.sharing_share, seed, "sharing") & (table["num_gpus"] > 0)
        for name in ("gpu_memory_gib", "profiled_memory_gib"):
            columns[name] = table[name].mask(alone, max(sizes))
    changed = table.assign(**columns)
    changed.attrs = table.attrs
    return changed


def _drawn(table: pd.DataFrame, share: float, seed: int, what: str) -> np.ndarray:
    """Return which jobs belong to a share; those of a smaller share also belong to a larger one."""
    levels = [traces.stream(seed, f"{what} share", str(job)).random() for job in table["job_id"]]
    return np.array(levels) < share


def _without_startup(table: pd.DataFrame) -> pd.DataFrame:
    """Return filled jobs with start-ups subtracted from their run times, since logged run times include them.

    A start-up is at most half the estimated run time, and at least half of each run time is left.
    """
    startup_s = np.minimum(table["startup_s"], table["profiled_duration_s"] / 2)
    rest = {name: np.maximum(table[name] - startup_s, table[name] / 2) for name in RUN_TIMES}
    separate = table.assign(startup_s=startup_s, **rest)
    separate.attrs = table.attrs
    return separate


def prepare(
    table: pd.DataFrame,
    scenario: Scenario,
    *,
    window: Window = FULL_TRACE,
    quotas: Mapping[str, int] | None = None,
) -> Workload:
    """Return a filled job table as a workload.

    Jobs that the empty cluster, or the quota of their tenant, could never hold are dropped where the scenario says so;
    otherwise they are named by a ValueError.
    quotas: GPUs guaranteed to each tenant; by default as the scenario says.
    """
    traces.refuse_while_asking("a workload")
    scenario = with_physics(scenario)
    if scenario.shift is not None:
        return shifted(prepare(table, replace(scenario, shift=None), window=window), scenario.shift)
    machines = cluster(scenario.cluster_name)
    if quotas is None:
        quotas = guaranteed(table, scenario.quotas, machines.num_gpus)
    if "cpu_jobs" not in scenario.parts:
        table = _without(
            table, (table["num_gpus"] == 0).to_numpy(), "CPU jobs taken out, since cpu_jobs is off"
        )
    jobs = jobs_array(table, machines, scenario.parts)
    if "priority" in columns_that_bind(table, scenario):
        jobs["priority"] = table["priority"]
    physics = physics_of(machines, scenario)
    constraints, met = constraints_of(table, scenario, machines)
    constraints.check(scenario.placement)
    infeasible = _infeasible(jobs, machines, scenario, physics, constraints)
    if infeasible.any():
        smaller = _without_infeasible(table, infeasible, scenario, machines)
        return prepare(smaller, scenario, window=window, quotas=quotas)
    tenants = tenants_of(table, quotas, scenario.borrowing)
    if scenario.drop_too_large and (wide := tenants.too_wide(jobs["num_gpus"])).any():
        remedy = "raise the quotas, or let tenants borrow"
        smaller = _without(table, wide, "jobs wider than the quota of their tenant dropped", remedy)
        return prepare(smaller, scenario, window=window, quotas=quotas)
    table = with_note_of_quotas(table, quotas, scenario)
    tenants.check(jobs["num_gpus"], machines.num_gpus, scenario.placement, table["job_id"].to_numpy())
    physics.check(scenario.placement)
    if scenario.target_load is not None:
        times = scaled_arrivals(table, machines.num_gpus, scenario.target_load)
        table = table.assign(**times)
        for name, seconds in times.items():
            jobs[name] = seconds
    if met and not any(note.startswith(MET) for note in table.attrs["notes"]):
        table = _with_note(table, f"{MET}: {met:,}")
    return Workload(table, jobs, machines, scenario, window, tenants, constraints)


def shifted(workload: Workload, shift: str) -> Workload:
    """Return the same window under a shift; it keeps its number. ValueError where the shift would change nothing."""
    kind, strength = parsed(shift)
    scenario = workload.scenario
    if not kind.applies(scenario):
        raise ValueError(f"shift {shift}: {describe_shift(shift)} has no effect in this scenario (drop it)")
    rng = traces.stream(scenario.seed, "shift of estimates", *workload.window)
    table = workload.table.assign(**kind.columns(workload.table, strength, rng))
    table.attrs = workload.table.attrs
    fields = kind.fields(scenario)
    tenants = workload.tenants
    quotas = dict(zip(tenants.names, tenants.quotas, strict=True)) if tenants else None
    plain = replace(scenario, target_load=None, shift=None, **fields)
    found = prepare(table, plain, window=workload.window, quotas=quotas)
    return replace(found, scenario=replace(scenario, shift=shift, **fields))


def _infeasible(
    jobs: np.ndarray, machines: Cluster, scenario: Scenario, physics: Physics, constraints: Constraints
) -> np.ndarray:
    """Return which jobs the empty cluster could never hold, by the placement rule itself."""
    from gpu_cluster_gym.simulator.episode import infeasible_jobs, lay_out

    fields = physics.fields(machines) | constraints.fields()
    states = lay_out(jobs, machines, scenario.placement, **fields)
    return np.isin(np.arange(len(jobs)), infeasible_jobs(states, jobs))


def _without_infeasible(
    table: pd.DataFrame, infeasible: np.ndarray, scenario: Scenario, machines: Cluster
) -> pd.DataFrame:
    """Return the table without infeasible jobs; ValueError unless the scenario drops them and some are left."""
    drop = scenario.drop_too_large
    if (not drop or infeasible.all()) and (unnamed := unnamed_partitions(table, scenario)):
        raise ValueError(f"{unnamed}: name their nodes{', or pass --drop-too-large' * (not drop)}")
    if not drop:
        raise ValueError(_infeasible_message(table, np.flatnonzero(infeasible), scenario, machines))
    if infeasible.all():
        raise ValueError(
            f"none of the {len(table)} jobs can ever run on {machines.name}: choose a larger cluster"
        )
    bound = {"gpu_type", "partition"} & {*columns_that_bind(table, scenario)}
    what = "the nodes that they may use" if bound else "the cluster"
    return _without(table, infeasible, f"jobs larger than {what} dropped")


def _without(
    table: pd.DataFrame, gone: np.ndarray, why: str, remedy: str = "choose another trace or physics"
) -> pd.DataFrame:
    """Return the table without some jobs, with a note of their number; ValueError with the remedy if none is left."""
    if not gone.any():
        return table
    if gone.all():
        raise ValueError(f"{why}: none of the {len(table):,} jobs is left ({remedy})")
    smaller = table[~gone].reset_index(drop=True)
    smaller.attrs = table.attrs
    return _with_note(smaller, f"{why}: {gone.sum():,}")


def _with_note(table: pd.DataFrame, note: str) -> pd.DataFrame:
    """Return the table with one more note."""
    noted = table.copy(deep=False)
    noted.attrs = {**table.attrs, "notes": [*table.attrs["notes"], note]}
    return noted


def _infeasible_message(table: pd.DataFrame, rows: np.ndarray, scenario: Scenario, machines: Cluster) -> str:
    columns = columns_that_bind(table, scenario)
    shown = table.iloc[rows[:ROWS_SHOWN]]
    each = [
        f"  job {job}: {_request(gpus, memory, cores, machines)}{asked_for(table.loc[row], columns)}"
        for row, job, gpus, memory, cores in zip(
            rows,
            *(shown[name] for name in ("job_id", "num_gpus", "gpu_memory_gib", "cpu_cores")),
            strict=False,
        )
    ]
    more = [f"  and {len(rows) - ROWS_SHOWN} more"] if len(rows) > ROWS_SHOWN else []
    return "\n".join(
        [
            f"{len(rows)} {'job' if len(rows) == 1 else 'jobs'} can never run on {machines.name} "
            f"({machines.num_gpus} GPUs, the largest of {machines.largest_gpu_gib:g} GiB, "
            f"{max(machines.node_cores)} cores on a node); "
            "--drop-too-large drops them:",
            *each,
            *more,
        ]
    )


def _request(gpus: int, memory: float, cores: float, machines: Cluster) -> str:
    """Return the parts of a job's request that may be too large."""
    if not gpus:
        return f"{cores:g} cores, no GPU"
    if gpus > machines.num_gpus:
        return f"{gpus} GPUs"
    if memory > machines.largest_gpu_gib:
        return f"{gpus} GPUs of {memory:.1f} GiB"
    return f"{gpus} GPUs of {memory:.1f} GiB, {cores:g} cores"


def scaled_arrivals(table: pd.DataFrame, gpus: int, load: float) -> dict[str, Any]:
    """Return columns with gaps between submissions stretched until the load is `load`.

    Run times count up to the span of the arrivals. Deadlines move with the submissions. ValueError if no factor reaches
    the load.
    """
    first, last = table["submit_s"].iloc[0], table["submit_s"].iloc[-1]

    def load_at(factor: float) -> float:
        span_s = float(last - first) * factor
        return load_of(table, gpus, span_s, span_s) if span_s > 0 else np.inf

    low, high = 1e-6, 1e6
    for _ in range(100):  # bisection, geometric: the load falls as the factor grows
        factor = (low * high) ** 0.5
        low, high = (factor, high) if load_at(factor) > load else (low, factor)
    if not abs(load_at(high) - load) <= 1e-6 * load:  # also refuses NaN
        most = table["num_gpus"].sum() / gpus
        raise ValueError(
            f"no scaling of arrivals gives a load of {load:g}: {len(table)} jobs reach {most:.3g} at most (choose a "
            "lower load, more jobs or a smaller cluster)"
        )
    return dict(with_arrivals(table, first + (table["submit_s"] - first) * high))


@cached(1)
def _log(source: Scenario) -> pd.DataFrame:
    """Return the jobs of a scenario's trace file as the log has them."""
    named = {name: getattr(source, name) for name in ("columns", "time_zone")}
    return load(source.trace_name, source.trace_file, seed=source.seed, jobs=None, **named)


def _source(scenario: Scenario) -> Scenario:
    """Return a scenario of the same log, equal for all scenarios that read it alike."""
    same = ("trace", "trace_file", "columns", "time_zone", "seed")
    return Scenario(**{name: getattr(scenario, name) for name in same})


def with_physics(scenario: Scenario) -> Scenario:
    """Return the scenario with the physics `measured` replaced by the parts that its log has the columns for.

    ValueError without a log, or for one that cannot be read.
    """
    parts = parts_of(scenario.physics_name)
    if MEASURED not in parts:
        return scenario
    if not scenario.trace_file:
        raise ValueError(
            f"physics {scenario.physics}: expected a log in trace_file, since generated jobs have no measurements"
        )
    held = parts_held(_log(_source(scenario)).columns)
    found = replace(scenario, physics=",".join(part for part in PARTS if part in parts | held) or "none")
    refuse_idle_shares(found)
    return found


def refuse_idle_shares(scenario: Scenario) -> None:
    """Raise ChoiceError for a share of elastic jobs, or of jobs that share GPUs, where the physics has no such jobs."""
    for name, needed in (("elastic_share", {"elastic"}), ("sharing_share", {"sharing", "memory"})):
        share = getattr(scenario, name)
        if share != 1 and not needed <= set(scenario.parts):
            raise ChoiceError([Wrong(name, share, f"1, or physics with {' and '.join(sorted(needed))}")])


@cached(2)
def read(scenario: Scenario) -> pd.DataFrame:
    """Return the filled jobs of a scenario's trace file, read again only when it changes."""
    table = _log(_source(scenario))
    if "depends_on" in columns_that_bind(table, scenario):
        refuse_wrong_dependencies(table, scenario.trace_file)
    if off := not_simulated(table, scenario):
        table = _with_note(table, f"columns of the log without effect: {', '.join(off)} (see --constraints)")
    for note in named_nodes(scenario, cluster(scenario.cluster_name)):
        table = _with_note(table, note)
    if "cpu_jobs" not in scenario.parts:
        on_cpu = (table["num_gpus"] == 0).to_numpy()
        if on_cpu.all():
            raise ValueError(
                f"{scenario.trace_file}: none of the {len(table):,} jobs has GPUs: expected at least one that has, "
                "or cpu_jobs in --physics (Slurm logs GPUs only where AccountingStorageTRES of slurm.conf has gres/gpu)"
            )
        table = _without(table, on_cpu, "CPU jobs of the log left out, since cpu_jobs is off")
    return filled(table, scenario, seed=scenario.seed)


def seed_of_jobs(scenario: Scenario, window: Window) -> int:
    """Return the seed from which a generator makes the jobs of a window."""
    return traces.seed_from(scenario.seed, "jobs", *window)


def generate(scenario: Scenario, window: Window) -> pd.DataFrame:
    """Return the filled jobs of a window from a trace's generator."""
    seed = seed_of_jobs(scenario, window)
    if scenario.steady_load is None:
        table = load(scenario.trace_name, seed=seed, jobs=scenario.jobs)
    else:
        table = draw(scenario, window)
    return filled(table, scenario, seed=seed)


def full_trace(scenario: Scenario) -> Workload:
    """Return the full trace as one workload, on the scenario's cluster; ValueError with a steady load."""
    if scenario.steady_load is not None:
        raise ValueError("the full trace has no steady load: set full_trace or steady_load, not both")
    scenario = with_physics(scenario)
    table = read(scenario) if scenario.trace_file else generate(scenario, FULL_TRACE)
    return prepare(table, scenario)
