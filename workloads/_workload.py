"""A job table made ready for a cluster: what it lacks filled in, infeasible jobs rejected before the run."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpu_cluster_gym import traces
from gpu_cluster_gym.simulator import results
from gpu_cluster_gym.simulator.cluster import Cluster, cluster
from gpu_cluster_gym.simulator.episode import Episode, infeasible_jobs, lay_out
from gpu_cluster_gym.simulator.history import History
from gpu_cluster_gym.simulator.history import read as read_history
from gpu_cluster_gym.simulator.jobs import gives_out_cores, jobs_array
from gpu_cluster_gym.simulator.kernel.cluster.layout import GPU_TYPES
from gpu_cluster_gym.simulator.physics import Physics, acting
from gpu_cluster_gym.simulator.speed_model import NUM_TERMS
from gpu_cluster_gym.workloads._files import kept
from gpu_cluster_gym.workloads._scenario import WHOLE, Scenario, Window
from gpu_cluster_gym.workloads._shifts import arriving, shifted

FITTED = Path(__file__).parent / "history"
ROWS_SHOWN = 10
RUN_TIMES = ("duration_s", "profiled_duration_s", "predicted_duration_s")
ROUNDING = 1e-9  # of times, in seconds and as a share


@dataclass(frozen=True)
class Workload:
    """Jobs on a cluster: a window, or a whole trace."""

    table: pd.DataFrame
    jobs: np.ndarray
    cluster: Cluster
    scenario: Scenario
    window: Window = WHOLE

    def __deepcopy__(self, memo: dict[int, Any]) -> "Workload":
        """Return itself: it never changes."""
        return self

    @cached_property
    def fits(self) -> np.ndarray:
        """What is known of each job's speed from its profile, (jobs, terms), once an episode has asked for it."""
        return np.zeros((len(self.jobs), NUM_TERMS))

    @cached_property
    def _fastest_s(self) -> np.ndarray:
        """The least that each job can take."""
        return self.episode().fastest_s

    def episode(self, rows: int = 2) -> Episode:
        """Return a fresh episode of this workload, with so many records."""
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
            physics=self.physics,
            fits=self.fits,
            history=history_of(scenario.history),
        )

    @cached_property
    def physics(self) -> Physics:
        """How the jobs affect one another."""
        return physics_of(self.jobs, self.cluster, self.scenario)

    def results(self, episode: Episode) -> pd.DataFrame:
        """Return the results table of an episode that has ended; ValueError if jobs are unfinished."""
        self._refuse_impossible(episode)
        number, seed = self.window.number, self.scenario.seed
        return results.of_episode(self.table, episode.state, window=number, seed=seed)

    def _refuse_impossible(self, episode: Episode) -> None:
        """Raise RuntimeError where a job took less time than it can in any way."""
        count = len(self.jobs)
        finish_s = episode.state.finish_s[:count]
        took_s, least_s = finish_s - self.jobs["submit_s"], self._fastest_s
        of_clock = 4 * np.spacing(finish_s)  # after years the clock itself is rounded more coarsely
        wrong = np.flatnonzero(took_s < least_s * (1 - ROUNDING) - ROUNDING - of_clock)
        if len(wrong):
            job = int(wrong[0])
            raise RuntimeError(
                f"job {self.table['job_id'].iloc[job]} completed within {took_s[job]:g} s and cannot in less than "
                f"{least_s[job]:g} s: something has changed the simulation behind its back"
            )


def history_of(name: str | None) -> History | None:
    """Return the figures of a fitted file: a name in `FITTED`, or a JSON file; ValueError if there is none."""
    if name is None:
        return None
    return read_history(Path(name)) if name.endswith(".json") else kept_history(name)


@lru_cache(maxsize=8)
def kept_history(name: str) -> History:
    """Return the figures of a file of `FITTED`, read once; ValueError if there is none of this name."""
    known = sorted(file.stem for file in FITTED.glob("*.json"))
    if name not in known:
        raise ValueError(f"{traces.unknown('history', name, known)}, or a file that ends in .json")
    return read_history(FITTED / f"{name}.json")


def physics_of(jobs: np.ndarray, machines: Cluster, scenario: Scenario) -> Physics:
    """Return how jobs affect one another on a cluster."""
    typed = "gpu_types" in scenario.parts and len({*machines.types, GPU_TYPES[0]}) > 1
    return physics(scenario, cores=gives_out_cores(jobs, scenario.parts), typed=typed)


def physics(scenario: Scenario, *, cores: bool, typed: bool) -> Physics:
    """Return the physics of a scenario; cores may be given out without deciding about speed."""
    numbers = acting(scenario, scenario.parts)
    on = scenario.parts
    return Physics(**numbers, cores=cores, bandwidth="bandwidth" in on, links="links" in on, typed=typed)


def filled(table: pd.DataFrame, scenario: Scenario, *, seed: int) -> pd.DataFrame:
    """Cap run times as asked and fill in what the trace lacks."""
    machines = cluster(scenario.cluster_name)
    if scenario.max_duration is not None:
        longest, told = scenario.max_duration, [name for name in RUN_TIMES if name in table]
        capped = table.assign(**{name: table[name].clip(upper=longest) for name in told})
        capped.attrs = table.attrs
        table = capped
    own = {name: value for name, value in vars(scenario).items() if name != "seed"}
    if "profiles" not in scenario.parts:
        own |= {"duty_error": 0.0, "memory_error": 0.0}
    own |= {"seed": seed, "largest_gpu_gib": machines.largest_gpu_gib}
    own |= {"cores_per_gpu": max(1, int(machines.cores_per_gpu))}
    whole = traces.fill(table, **own)
    return started_apart(whole) if "startup" in scenario.parts and "startup_s" not in table else whole


def started_apart(table: pd.DataFrame) -> pd.DataFrame:
    """Return filled jobs with start-ups of half their estimated run time at most, which are taken out of run times.

    A log counts both. Estimates are of the rest too; half of each is left at least.
    """
    startup_s = np.minimum(table["startup_s"], table["profiled_duration_s"] / 2)
    rest = {name: np.maximum(table[name] - startup_s, table[name] / 2) for name in RUN_TIMES}
    apart = table.assign(startup_s=startup_s, **rest)
    apart.attrs = table.attrs
    return apart


def prepare(table: pd.DataFrame, scenario: Scenario, *, window: Window = WHOLE) -> Workload:
    """Return a filled job table as a workload.

    ValueError lists the jobs that the empty cluster could never hold, unless they are to be dropped.
    """
    if scenario.shift is not None:
        return shifted(prepare(table, replace(scenario, shift=None), window=window), scenario.shift)
    machines = cluster(scenario.cluster_name)
    if "cpu_jobs" not in scenario.parts:
        table = without(
            table, (table["num_gpus"] == 0).to_numpy(), "CPU jobs taken out, since cpu_jobs is off"
        )
    jobs = jobs_array(table, machines, scenario.parts)
    taken = without_too_large(table, jobs, scenario, machines)
    if scenario.target_load is not None:
        taken = scale_arrivals(taken, machines.num_gpus, scenario.target_load)
    if taken is not table:
        jobs = jobs_array(taken, machines, scenario.parts)
    work = Workload(taken, jobs, machines, scenario, window)
    work.physics.check(scenario.placement)
    return work


def without_too_large(
    table: pd.DataFrame, jobs: np.ndarray, scenario: Scenario, machines: Cluster
) -> pd.DataFrame:
    """Return the jobs that the empty cluster could hold; ValueError lists the others unless they are to be dropped."""
    meeting = physics_of(jobs, machines, scenario)
    too_large = infeasible_jobs(lay_out(jobs, machines, scenario.placement, **meeting.fields(machines)), jobs)
    if not len(too_large):
        return table
    if not scenario.drop_too_large:
        raise ValueError(too_large_message(table, too_large, machines))
    if len(too_large) == len(table):
        raise ValueError(f"none of the {len(table)} jobs can ever run on {machines.name}")
    gone = np.isin(np.arange(len(table)), too_large)
    return without(table, gone, "jobs larger than the cluster dropped")


def without(table: pd.DataFrame, gone: np.ndarray, why: str) -> pd.DataFrame:
    """Return the table without some jobs, and a note of how many; ValueError if none is left."""
    if not gone.any():
        return table
    if gone.all():
        raise ValueError(f"{why}: none of the {len(table)} jobs is left")
    smaller = table[~gone].reset_index(drop=True)
    smaller.attrs = {**table.attrs, "notes": [*table.attrs["notes"], f"{why}: {gone.sum():,}"]}
    return smaller


def too_large_message(table: pd.DataFrame, rows: np.ndarray, machines: Cluster) -> str:
    """Say which jobs the empty cluster could never hold."""
    shown = table.iloc[rows[:ROWS_SHOWN]]
    each = [
        f"  job {job} (row {row + 1}): "
        + (f"{gpus} GPUs of {memory:.1f} GiB, {cores:g} cores" if gpus else f"{cores:g} cores, no GPU")
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


def capped_load(table: pd.DataFrame, gpus: int, factor: float = 1.0) -> float:
    """Return sum(g x min(d, T)) / (GPUs x T), T the span of the arrivals stretched by `factor`."""
    span = float(table["submit_s"].iloc[-1] - table["submit_s"].iloc[0]) * factor
    work = float((table["num_gpus"] * table["duration_s"].clip(upper=span)).sum())
    return work / (gpus * span) if span > 0 else np.inf


def scale_arrivals(table: pd.DataFrame, gpus: int, load: float) -> pd.DataFrame:
    """Stretch the gaps between submissions so that the capped load becomes `load`; ValueError if none would do.

    Deadlines move with the submissions.
    """
    low, high = 1e-6, 1e6
    for _ in range(100):
        factor = (low * high) ** 0.5
        low, high = (factor, high) if capped_load(table, gpus, factor) > load else (low, factor)
    if not abs(capped_load(table, gpus, high) - load) <= 1e-6 * load:  # nor is it NaN
        most = table["num_gpus"].sum() / gpus
        raise ValueError(
            f"no scaling of arrivals gives a load of {load:g}: {len(table)} jobs reach {most:.3g} at most"
        )
    first = table["submit_s"].iloc[0]
    return table.assign(**arriving(table, first + (table["submit_s"] - first) * high))


def load(
    trace: str | None = None, file: str | PathLike[str] | None = None, *, seed: int, jobs: int | None = None
) -> pd.DataFrame:
    """Return the job table of a trace, or of a named workload that brings jobs of its own; see `traces.load`.

    ValueError names those that exist.
    """
    if trace is None or trace in traces.names():
        return traces.load(trace, file, seed=seed, jobs=jobs)
    invented = [
        name
        for name in traces.modules("workloads")
        if hasattr(import_module(f"gpu_cluster_gym.workloads.{name}"), "trace")
    ]
    if trace not in invented:
        raise ValueError(traces.unknown("trace", trace, (*traces.names(), *invented)))
    table: pd.DataFrame = traces.find("workloads", trace, "trace")(file, seed=seed, jobs=jobs)
    return table


@kept(2)
def read(scenario: Scenario) -> pd.DataFrame:
    """Return the filled jobs of a scenario's trace file, read once as long as it stays as it is."""
    table = load(scenario.trace_name, scenario.trace_file, seed=scenario.seed)
    return filled(table, scenario, seed=scenario.seed)


def seed_of_jobs(scenario: Scenario, window: Window) -> int:
    """Return the seed from which a generator makes the jobs of a window."""
    return traces.seed_from(scenario.seed, "jobs", *window)


def generate(scenario: Scenario, window: Window) -> pd.DataFrame:
    """Return the filled jobs of a window from a trace's generator."""
    seed = seed_of_jobs(scenario, window)
    table = load(scenario.trace_name, seed=seed, jobs=scenario.jobs)
    return filled(table, scenario, seed=seed)


def whole(scenario: Scenario) -> Workload:
    """Return everything as one workload, on the trace's own cluster or the one named."""
    table = read(scenario) if scenario.trace_file else generate(scenario, WHOLE)
    return prepare(table, scenario)
