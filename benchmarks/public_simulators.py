"""Validation against two public simulators: the end time of every job, to the second.

    python -m benchmarks.public_simulators --helios FOLDER --tiresias FOLDER [--jobs 400] [--seed 0]

The folders are unmodified clones of github.com/S-Lab-System-Group/HeliosArtifact (commit bdaae109) and of
github.com/SymbioticLab/Tiresias (959f9b0); each runs in a separate process. Jobs come from Philly's generator on 64
GPUs, with distinct run times in whole seconds. Run times beyond four hours are redrawn between two and four, since
Helios steps through every second. Gangs of more than 8 GPUs request whole nodes, since Helios puts the remainder of
other gangs on the emptiest node and this simulator on the fullest. Estimates are exact; pauses are free except in one
row.

The exit code is 1 if a row differs without a reason listed below the table. `+1 s`: under srtf Helios ends each job a
second late, so run times here are a second longer. Jobs with equal remaining time are ordered by the last pass in the
public simulators and by submission here, so their end times may differ: `ties` counts the instants at which one of two
such jobs waits.
"""

import argparse
import math
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from rich import box
from rich.table import Table

from gpu_cluster_gym.baselines.las import LIMITS
from gpu_cluster_gym.evaluation.table import MAX_WIDTH, console
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Action, Policy, Preempt, Ranking, Start, Wait
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.traces import stream
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace, prepare

NODES, SIZE, CLUSTER = 8, 8, "8x8"  # Helios supports nodes of 8 GPUs only
LOAD, LONGEST_S, DIFFERS = 1.3, 4 * 3600.0, "DIFFERS"
FOLDERS = {"Helios": "framework/QSSF Service", "Tiresias": "simulator"}
DRIVERS = {
    "Helios": f"""
import csv, logging, sys
folder, policy, placement, pauses = sys.argv[1:]
sys.path.insert(0, folder)
import pandas, policies
from cluster import VC
from job import Job, Trace
names = {{"fifo": "FirstInFirstOut", "sjf": "ShortestJobFirst", "srtf": "ShortestRemainingTimeFirst"}}
kind = getattr(policies, names[policy])
if pauses == "free":
    kind = type(kind.__name__, (kind,), {{"ckpt_overhead": lambda self, job: 0}})
trace = Trace()
for row in csv.DictReader(open("jobs.csv")):
    cells = {{name: int(cell) for name, cell in row.items()}}
    cells |= {{"vc": "all", "remain": cells["duration"], "ckpt_times": 0, "queue": 0, "end_time": sys.maxsize}}
    trace.append_job(Job(pandas.Series(cells, dtype=object)))
kind(trace, VC("all", {NODES}, {SIZE}, {SIZE}), placement, ".", logging.getLogger(), 0).simulate()
pandas.DataFrame(trace.job_list).to_csv("ends.csv")
""",
    "Tiresias": f"""
import os, sys
sys.maxint = sys.maxsize
folder, policy, placement, _ = sys.argv[1:]
sys.path.insert(0, folder)
sys.argv[1:] = ["--trace_file=jobs.csv", "--log_path=log", "--schedule=" + policy, "--scheme=" + placement]
sys.argv += ["--num_switch=1", "--num_node_p_switch={NODES}", "--num_gpu_p_node={SIZE}"]
__import__("run_sim").main()
os.rename("log/job.csv", "ends.csv")
""",
}


class Row(NamedTuple):
    """Run of a public simulator and the run of this simulator that it is compared with.

    name: name of our run.
    later_s: added to run times.
    exponent: jobs are ordered by remaining time x GPUs ^ exponent; None for another order.
    their_pauses: `free`, or `its own`.
    unlike: known reason for a difference; empty if the two must agree.
    """

    simulator: str
    their_policy: str
    their_placement: str
    name: str
    policy: Callable[[], Policy]
    placement: Literal["best_fit", "pooled"]
    later_s: float = 0.0
    exponent: int | None = None
    their_pauses: str = "free"
    unlike: str = ""


class Compared(NamedTuple):
    """Difference between two lists of end times, s."""

    jobs: int
    same: int
    apart_s: float
    their_jct_s: float
    our_jct_s: float


@dataclass
class ByCounts(ABC):
    """Preemptive order that selects jobs by counting GPUs; a selected job that fits on no node waits."""

    instant: int = -1
    pauses: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    @abstractmethod
    def order(self, view: View) -> list[int]:
        """Return the unfinished jobs in their order; called once per instant."""

    def __call__(self, view: View) -> Action:
        """Pause and start the jobs selected at this instant, then wait."""
        if view.instant != self.instant:
            self.instant = view.instant
            self.choose(view)
        if self.pauses:
            return Preempt(self.pauses.pop())
        while self.starts:
            if placement := view.place(job := self.starts.pop(0)):
                return Start(job, placement)
        return Wait(self.patience_s(view))

    def choose(self, view: View) -> None:
        """Select the jobs to run."""
        free, chosen, running = len(view.gpus.node), [], set(view.running.tolist())
        for job in self.order(view):
            if view.jobs.num_gpus[job] <= free:
                free -= int(view.jobs.num_gpus[job])
                chosen.append(job)
        self.pauses = list(running.difference(chosen))
        self.starts = [job for job in chosen if job not in running]

    def patience_s(self, view: View) -> float | None:
        """Return the seconds after which to select again; None to wait for the next event."""
        return None


class SrtfByCounts(ByCounts):
    """Shortest remaining time first as in Helios."""

    def order(self, view: View) -> list[int]:
        """Return the unfinished jobs by remaining time."""
        return sorted(unfinished(view), key=lambda job: float(view.jobs.remaining_s[job]))


@dataclass
class LasByCounts(ByCounts):
    """Least attained service as in Tiresias' simulator, which orders running jobs first in each queue.

    A job on several GPUs leaves its queue late, since the simulator subtracts seconds from GPU-seconds there.
    """

    queues: list[list[int]] = field(default_factory=lambda: [[] for _ in range(len(LIMITS) + 1)])
    known: int = 0

    def order(self, view: View) -> list[int]:
        """Return the unfinished jobs by queue, after demoting jobs that have exceeded the limit of their queue."""
        here, arrived = set(unfinished(view)), len(view.jobs.num_gpus)
        self.queues = [[job for job in queue if job in here] for queue in self.queues]
        self.queues[0] += range(self.known, arrived)
        self.known = arrived
        for job, level in self.levels(view):
            if view.jobs.attained_s[job] * view.jobs.num_gpus[job] >= LIMITS[level]:
                self.queues[level].remove(job)
                self.queues[level + 1].append(job)
        return [job for queue in self.queues for job in queue]

    def patience_s(self, view: View) -> float | None:
        """Return the seconds until a job leaves its queue, as Tiresias computes it; move running jobs to the front."""
        running, attained_s, gpus = set(view.running.tolist()), view.jobs.attained_s, view.jobs.num_gpus
        self.queues = [sorted(queue, key=lambda job: job not in running) for queue in self.queues]
        looks = [(LIMITS[level] - attained_s[job]) / gpus[job] for job, level in self.levels(view)]
        return float(math.ceil(min(looks))) if looks else None

    def levels(self, view: View) -> list[tuple[int, int]]:
        """Return the running jobs outside the last queue, by submission, with their queues."""
        above = enumerate(self.queues[:-1])
        return sorted((job, at) for at, queue in above for job in queue if job in view.running)


def unfinished(view: View) -> list[int]:
    """Return the jobs that have arrived and not finished, by submission."""
    return sorted([*view.queue.tolist(), *view.running.tolist()])


FIFO = partial(Ranking, "submit")
STRICT, SJF = (partial(Ranking, key, discipline="strict") for key in ("submit", "estimate"))
SRTF, SRSF = (partial(Ranking, key, "by_order") for key in ("remaining", "remaining_area"))
LOADED = partial(Ranking, "weighted", "by_order")  # remaining time, plus loading time for a paused job
LAS = partial(Ranking, "level", "by_order", levels=LIMITS)
NODELESS = "it selects jobs by counting GPUs and leaves fragmented GPUs idle; ours considers nodes"
ADDED = "its pauses add 7, 30 or 60 s to remaining time; ours load for as long and cannot be paused meanwhile"
QUEUES = "it orders running jobs first in each queue, and jobs on several GPUs leave a queue late"
ROWS = (
    Row("Helios", "fifo", "consolidate", "fifo, strict", STRICT, "best_fit"),
    Row("Helios", "sjf", "consolidate", "sjf, strict", SJF, "best_fit"),
    Row("Helios", "srtf", "random", "srtf, +1 s", SRTF, "pooled", 1.0, 0),
    Row("Helios", "srtf", "consolidate", "its srtf, +1 s", SrtfByCounts, "best_fit", 1.0, 0),
    Row("Helios", "srtf", "consolidate", "srtf, +1 s", SRTF, "best_fit", 1.0, 0, unlike=NODELESS),
    Row("Helios", "srtf", "random", "srtf, +1 s, load", LOADED, "pooled", 1.0, 0, "its own", ADDED),
    Row("Tiresias", "fifo", "count", "fifo, strict", STRICT, "pooled"),
    Row("Tiresias", "fjf", "count", "fifo", FIFO, "pooled"),
    Row("Tiresias", "shortest", "count", "srtf", SRTF, "pooled", 0.0, 0),
    Row("Tiresias", "shortest-gpu", "count", "srsf", SRSF, "pooled", 0.0, 1),
    Row("Tiresias", "dlas-gpu", "count", "its las", LasByCounts, "pooled"),
    Row("Tiresias", "dlas-gpu", "count", "las", LAS, "pooled", unlike=QUEUES),
)


def workload(jobs: int, seed: int) -> Workload:
    """Return jobs of Philly's generator that both simulators can run, with arrivals that overload 64 GPUs."""
    plain = Scenario(trace="philly", full_trace=True, jobs=jobs, seed=seed, cluster=CLUSTER, physics="none")
    table = full_trace(replace(plain, drop_too_large=True)).table
    drawn = LONGEST_S * stream(seed, "public simulators").uniform(0.5, 1.0, len(table))
    run_s = table["duration_s"].where(table["duration_s"] <= LONGEST_S, drawn)
    span_s = (run_s * table["num_gpus"]).sum() / (LOAD * NODES * SIZE)
    submit_s = table["submit_s"] * span_s / np.ptp(table["submit_s"])
    return prepare(in_whole_units(table.assign(duration_s=run_s, submit_s=submit_s)), plain)


def in_whole_units(table: pd.DataFrame) -> pd.DataFrame:
    """Return jobs with arrivals and distinct run times in whole seconds, on one node or on whole nodes."""
    gpus, run_s, count = table["num_gpus"], np.ceil(table["duration_s"].to_numpy()), np.arange(len(table))
    order = np.argsort(run_s, kind="stable")
    run_s[order] = np.maximum.accumulate(run_s[order] - count) + count
    gangs = gpus.where(gpus <= SIZE, SIZE * -(-gpus // SIZE))
    submit_s = np.floor(table["submit_s"] - table["submit_s"].min())
    return table.assign(submit_s=submit_s, num_gpus=gangs, duration_s=run_s, profiled_duration_s=run_s)


def for_them(jobs: np.ndarray) -> pd.DataFrame:
    """Return jobs in the columns of both public simulators; ValueError for times with fractions of a second."""
    columns = {"submit_time": jobs["submit_s"], "duration": jobs["duration_s"]}
    columns |= {"num_gpu": jobs["num_gpus"], "gpu_num": jobs["num_gpus"]}
    table = pd.DataFrame({"job_id": np.arange(len(jobs))} | columns)
    if not (table == table.round()).all(axis=None):
        raise ValueError("the public simulators require whole seconds: some jobs have fractions of one")
    return table.astype(int)


def their_ends(folder: Path, row: Row, jobs: pd.DataFrame) -> np.ndarray:
    """Return the end time of each job in a public simulator; RuntimeError with its last output if it fails."""
    command = [sys.executable, "-B", "-W", "ignore", "-c", DRIVERS[row.simulator]]
    command += [str(folder.resolve() / FOLDERS[row.simulator]), *row[1:3], row.their_pauses]
    with TemporaryDirectory() as place:
        jobs.to_csv(Path(place) / "jobs.csv", index=False)
        ran = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise RuntimeError(f"{row.simulator} failed under {row.their_policy}:\n{ran.stderr[-2000:]}")
        return by_job(pd.read_csv(Path(place) / "ends.csv"), len(jobs))


def by_job(ends: pd.DataFrame, count: int) -> np.ndarray:
    """Return end times by job; ValueError unless each job has exactly one."""
    if sorted(ends["job_id"]) != list(range(count)):
        raise ValueError(f"{len(ends)} ends of {count} jobs: expected one for each")
    return ends.sort_values("job_id")["end_time"].to_numpy(float)


def as_ours(load: Workload, row: Row) -> Workload:
    """Return the workload with a row's placement, additional run time and loading times."""
    jobs = load.jobs.copy()
    for name in ("duration_s", "profiled_duration_s"):
        jobs[name] += row.later_s
    if row.their_pauses != "free":
        jobs["load_s"] = np.select([jobs["num_gpus"] == 1, jobs["num_gpus"] <= SIZE], [7.0, 30.0], 60.0)
    return replace(load, jobs=jobs, scenario=replace(load.scenario, placement=row.placement))


def our_ends(load: Workload, row: Row) -> np.ndarray:
    """Return the end time of each job in this simulator."""
    return np.array(run(row.policy(), as_ours(load, row).episode()).state.finish_s[: len(load.jobs)])


def ties(load: Workload, row: Row) -> int:
    """Return the number of instants at which a queued job has the same priority as a running one."""
    policy, found = row.policy(), []

    def counting(view: View) -> Action:
        if isinstance(action := policy(view), Wait):
            keys = view.jobs.remaining_s * view.jobs.num_gpus ** (row.exponent or 0)
            found.append(np.isin(keys[view.queue], keys[view.running]).any())
        return action

    run(counting, as_ours(load, row).episode())
    return int(sum(found))


def compared(theirs: np.ndarray, ours: np.ndarray, submit_s: np.ndarray) -> Compared:
    """Compare end times job by job."""
    apart_s = np.abs(theirs - ours)
    means = (float((ends - submit_s).mean()) for ends in (theirs, ours))
    return Compared(len(ours), int((apart_s == 0).sum()), float(apart_s.max()), *means)


def verdict(row: Row, seen: Compared, equal: int | None) -> str:
    """Return the result of a comparison in one word.

    equal: number of instants with equal priorities, None if not counted.
    """
    if row.unlike:
        return "known"
    return "agrees" if seen.same == seen.jobs else "ties" if equal else DIFFERS


def table(found: Sequence[tuple[Row, Compared, int | None]]) -> Table:
    """Return the comparisons as a table."""
    shown = Table(box=box.HORIZONTALS, padding=(0, 1, 0, 0), show_edge=False)
    for heading in ("simulator", "its policy", "ours"):
        shown.add_column(heading, no_wrap=True)
    for heading in ("jobs", "same", "apart, s", "its JCT, s", "our JCT, s", "ties", ""):
        shown.add_column(heading, justify="right", no_wrap=True)
    for row, seen, equal in found:
        theirs = f"{row.their_policy}, {row.their_placement}" + ", costs" * (row.their_pauses != "free")
        counts = f"{seen.jobs:,}", f"{seen.same:,}", f"{seen.apart_s:,.0f}"
        means = f"{seen.their_jct_s:,.1f}", f"{seen.our_jct_s:,.1f}", "" if equal is None else f"{equal:,}"
        word = verdict(row, seen, equal)
        shown.add_row(row.simulator, theirs, f"{row.name}, {row.placement}", *counts, *means, word)
    return shown


def main(args: list[str] | None = None) -> int:
    """Print the comparison; return the exit code: 1 if a row unexpectedly differs, 2 if a clone is missing."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in FOLDERS:
        flags.add_argument(
            f"--{name.lower()}", type=Path, required=True, metavar="FOLDER", help=f"clone of {name}"
        )
    for name, default in ("--jobs", 400), ("--seed", 0):
        flags.add_argument(name, type=int, default=default)
    choices = flags.parse_args(args)
    clones: dict[str, Path] = {name: getattr(choices, name.lower()) for name in FOLDERS}
    for name, inside in FOLDERS.items():
        if not (clones[name] / inside).is_dir():
            print(f"public_simulators: there is no {inside} in {clones[name]}", file=sys.stderr)
            return 2
    load, found = workload(choices.jobs, choices.seed), []
    jobs, submit_s = for_them(load.jobs), load.jobs["submit_s"]
    for row in ROWS:
        seen = compared(their_ends(clones[row.simulator], row, jobs), our_ends(load, row), submit_s)
        found.append((row, seen, None if row.exponent is None else ties(load, row)))
    console(sys.stdout, MAX_WIDTH).print(table(found))
    print(*(f"{row[0]} {row[1]} and {row.name}: {row.unlike}." for row in ROWS if row.unlike), sep="\n")
    return int(any(verdict(*each) == DIFFERS for each in found))


if __name__ == "__main__":
    sys.exit(main())
