"""Comparison with a real Slurm: differences of mean waits and of the order of starts, and their causes.

python -m benchmarks.slurm_referee run OUT --scheduler builtin backfill [--jobs 1000] [--span 720] [--wide]
python -m benchmarks.slurm_referee compare OUT
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from benchmarks import slurm_cycles
from benchmarks.local_slurm import MINUTE, LocalSlurm, Submission, missing
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Action, Ranking, Wait
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.traces import stream
from gpu_cluster_gym.workloads import Scenario, full_trace

NODES, SIZE, WIDEST = 8, 8, 32
DISCIPLINES: dict[str, Literal["strict", "easy"]] = {"builtin": "strict", "backfill": "easy"}
"""Discipline of the simulator for each of Slurm's schedulers."""
TOLERANCE_S = 1e-6
CLUSTER = f"{NODES}x{SIZE}"
LOAD = 0.95
SHORTEST_S, LONGEST_S = 2.0, 90.0
LIMIT_FACTORS = (1.0, 4.0)
"""Least and largest ratio of a time limit to the run time, before it is rounded up to minutes."""
LOG_NAME, ACCOUNT_NAME, JOBS_NAME = "slurmctld.log", "sacct.txt", "jobs.csv"


def submissions(jobs: int, span_s: float, seed: int, *, wide: bool = False) -> list[Submission]:
    """Return jobs with widths and run times of Philly's generator, scaled to a load of `LOAD` over the span.

    wide: sample jobs with probabilities in proportion to their GPUs, so that wide jobs, for which backfilling matters,
    are frequent.
    """
    plain = Scenario(
        trace="philly", full_trace=True, jobs=2 * jobs, seed=seed, cluster=CLUSTER, physics="none"
    )
    table = full_trace(replace(plain, drop_too_large=True)).table
    table = table[table["num_gpus"] <= WIDEST]
    if wide:
        weights = (table["num_gpus"] / table["num_gpus"].sum()).to_numpy()
        chosen = stream(seed, "wide jobs").choice(len(table), jobs, p=weights)
        table = table.iloc[chosen]
    table = table.iloc[:jobs]
    gpus = table["num_gpus"].to_numpy()
    gpus = np.where(gpus <= SIZE, gpus, SIZE * -(-gpus // SIZE))
    draw = stream(seed, "slurm referee")
    submit_s = np.cumsum(draw.exponential(1.0, jobs))
    run_s = scaled(table["duration_s"].to_numpy(float), gpus, LOAD * NODES * SIZE * span_s)
    limits = np.ceil(run_s * draw.uniform(*LIMIT_FACTORS, jobs) / 60.0)
    columns = zip(submit_s * span_s / submit_s[-1], gpus, run_s, limits, strict=True)
    return [
        Submission(float(at_s), int(width), float(run), int(limit)) for at_s, width, run, limit in columns
    ]


def scaled(duration_s: np.ndarray, gpus: np.ndarray, gpu_seconds: float) -> np.ndarray:
    """Return run times scaled by one factor, within bounds, such that they sum to the given GPU-seconds."""
    low, high = 1e-9, 1e3
    for _ in range(200):
        middle = np.sqrt(low * high)
        run_s = np.clip(duration_s * middle, SHORTEST_S, LONGEST_S)
        low, high = (low, middle) if (run_s * gpus).sum() > gpu_seconds else (middle, high)
    return np.asarray(np.round(run_s, 3))


def run_slurm(scheduler: str, jobs: Sequence[Submission], out: Path) -> None:
    """Run the jobs under one of Slurm's schedulers; write its accounting, its log and the jobs."""
    out.mkdir(parents=True, exist_ok=True)
    # Slurm saves its state at each submission: in memory, a slow disk adds no delay.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="slurm-", dir=memory if memory.is_dir() else None) as place:
        folder = Path(place) / scheduler
        with LocalSlurm(folder, scheduler, nodes=NODES, gpus=SIZE) as slurm:
            try:
                ids = slurm.submit_all(list(jobs))
                slurm.wait(2 * jobs[-1].at_s + 20 * LONGEST_S)
                (out / ACCOUNT_NAME).write_text(slurm.sacct(), encoding="utf-8")
            finally:
                (out / LOG_NAME).write_bytes((folder / LOG_NAME).read_bytes())
        table = pd.DataFrame(jobs).assign(job_id=ids)
        began = [float((folder / "began" / str(each)).read_text(encoding="utf-8")) for each in ids]
        table.assign(began_s=began).to_csv(out / JOBS_NAME, index=False)


# Events of a Slurm run, from its log, whose times have milliseconds.

_LINE = re.compile(r"\[(\d{4}-\d\d-\d\dT[\d:.]+)\] (.*)")
_SUBMITTED = re.compile(r"_slurm_rpc_submit_batch_job: JobId=(\d+) ")
_STARTED = re.compile(r"sched: Allocate JobId=(\d+) |sched/backfill: _start_job: Started JobId=(\d+) ")
_PLACED = re.compile(r"sched: Allocate JobId=\d+ NodeList=(\S+) |sched/backfill: _start_job: .* on (\S+)$")
_ENDED = re.compile(r"_job_complete: JobId=(\d+) done")
_CYCLE = re.compile(r".*(?:sched: Running job scheduler for|(sched/backfill): _attempt_backfill: beginning)")
JITTER_S, JITTERED = 0.01, 20
"""Standard deviation of the noise that is added to run times, and the number of such replays."""


class Happened(NamedTuple):
    """Events of a Slurm run.

    jobs: by `job_id`, with submit_s, start_s and end_s.
    cycles: times of the scheduling cycles, s.
    backfills: whether each cycle backfills.
    nodes: nodes of each job, in the order of `jobs`.
    zero_s: time of the first submission, on the clock of the host.
    """

    jobs: pd.DataFrame
    cycles: np.ndarray
    backfills: np.ndarray
    nodes: list[list[int]]
    zero_s: float


def read_log(text: str) -> Happened:
    """Return the events in the log of slurmctld; ValueError where a job lacks a time."""
    times: dict[str, dict[int, float]] = {"submit_s": {}, "start_s": {}, "end_s": {}}
    cycles, nodes = [], dict[int, list[int]]()
    for line in text.splitlines():
        if not (found := _LINE.match(line)):
            continue
        said = found[2]
        for name, pattern in ("submit_s", _SUBMITTED), ("start_s", _STARTED), ("end_s", _ENDED):
            if job := pattern.match(said):
                number = int(job[job.lastindex or 1])
                times[name].setdefault(number, _seconds(found[1]))
                if placed := _PLACED.match(said):
                    nodes[number] = _numbers(placed[placed.lastindex or 1])
        if cycle := _CYCLE.match(said):
            cycles.append((_seconds(found[1]), cycle[1] is not None))
    table = pd.DataFrame(times).rename_axis("job_id").sort_index()
    if table.isna().any(axis=None):
        raise ValueError(
            f"{int(table.isna().any(axis=1).sum())} jobs have no submission, start or end in the log"
        )
    zero_s = table["submit_s"].min()
    at, backfills = zip(*cycles, strict=True)
    return Happened(
        table - zero_s,
        np.array(at) - zero_s,
        np.array(backfills),
        [nodes[each] for each in table.index],
        zero_s,
    )


def _numbers(names: str) -> list[int]:
    """Return the nodes in a node list of Slurm: n3 or n[0-2,5]."""
    parts = (part.partition("-") for part in names.removeprefix("n").strip("[]").split(","))
    return [node for first, _, last in parts for node in range(int(first), int(last or first) + 1)]


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


# The same jobs in the simulator.


class AtCycles:
    """Ranking that acts only at given times, and at once on an idle cluster, where the simulator allows no wait."""

    def __init__(self, ranking: Ranking, cycles: np.ndarray) -> None:
        self.ranking, self.cycles = ranking, cycles

    def __call__(self, view: View) -> Action:
        """Act at a cycle; else wait for the next one."""
        if not len(view.running):
            return self.ranking(view)
        at = int(np.searchsorted(self.cycles, view.now - TOLERANCE_S))
        if at == len(self.cycles):
            return self.ranking(view)  # after the last cycle of Slurm's
        if self.cycles[at] <= view.now + TOLERANCE_S:
            action = self.ranking(view)
            if not isinstance(action, Wait):
                return action
            at = int(np.searchsorted(self.cycles, view.now + TOLERANCE_S, side="right"))  # two may coincide
        return Wait(float(self.cycles[at] - view.now)) if at < len(self.cycles) else Wait()


def replay(
    jobs: pd.DataFrame, scheduler: str, estimates: str, cycles: np.ndarray | None = None
) -> np.ndarray:
    """Return the simulated start of each job, s.

    jobs: submit_s, gpus, duration_s and the column that `estimates` names.
    cycles: the only times at which jobs start; None for every event.
    """
    discipline = DISCIPLINES[scheduler]
    table = pd.DataFrame(
        {
            "job_id": jobs.index.astype(str),
            "submit_s": jobs["submit_s"].to_numpy(),
            "num_gpus": jobs["gpus"].to_numpy(),
            "duration_s": jobs["duration_s"].to_numpy(),
            "profiled_duration_s": jobs[estimates].to_numpy(float),
        }
    )
    ranking = Ranking("submit", discipline=discipline)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "jobs.csv"
        table.to_csv(file, index=False)
        load = full_trace(
            Scenario(
                trace_file=str(file),
                full_trace=True,
                cluster=CLUSTER,
                discipline=discipline,
                tick=0,
                physics="estimates",
            )
        )
    episode = run(ranking if cycles is None else AtCycles(ranking, cycles), load.episode())
    return np.asarray(episode.state.start_s[: len(jobs)]).copy()


class Distance(NamedTuple):
    """Difference between simulated starts and Slurm's.

    wait_s: simulated mean wait.
    ratio: simulated mean wait divided by Slurm's.
    rank: correlation of the order of starts.
    pairs: share of pairs of jobs that start in the same order.
    """

    wait_s: float
    ratio: float
    rank: float
    pairs: float


def distance(submit_s: np.ndarray, theirs: np.ndarray, ours: np.ndarray) -> Distance:
    """Compare starts; pairs that start simultaneously in either schedule count as in the same order."""
    waits = [float((starts - submit_s).mean()) for starts in (theirs, ours)]
    rank = float(pd.Series(theirs).rank().corr(pd.Series(ours).rank()))
    upper = np.triu_indices(len(ours), 1)
    signs = [
        np.sign(np.subtract.outer(np.round(starts, 3), np.round(starts, 3)))[upper]
        for starts in (theirs, ours)
    ]
    return Distance(waits[1], waits[1] / waits[0], rank, float((signs[0] * signs[1] >= 0).mean()))


def by_cause(happened: Happened, asked: pd.DataFrame, scheduler: str) -> dict[str, Distance]:
    """Return the distance of the simulator while causes of differences are added to it one after another.

    asked: gpus, run_s, limit_min and began_s of each job, by `job_id`.
    """
    jobs = happened.jobs.join(asked[["gpus", "run_s", "limit_min"]])
    jobs["limit_s"], jobs["held_s"] = 60.0 * jobs["limit_min"], jobs["end_s"] - jobs["start_s"]
    slurm_s, submit_s = jobs["start_s"].to_numpy(), jobs["submit_s"].to_numpy()
    plain, held = jobs.assign(duration_s=jobs["run_s"]), jobs.assign(duration_s=jobs["held_s"])
    starts = {"Slurm": slurm_s}
    if scheduler == "backfill":
        starts["exact run times as limits"] = replay(plain, scheduler, "duration_s")
    starts["+ time limits" if len(starts) > 1 else "requested run times"] = replay(
        plain, scheduler, "limit_s"
    )
    starts["+ launch and end"] = replay(held, scheduler, "limit_s")
    starts["+ scheduling cycles"] = replay(held, scheduler, "limit_s", happened.cycles)
    return {cause: distance(submit_s, slurm_s, each) for cause, each in starts.items()}


def in_cycles(happened: Happened, asked: pd.DataFrame) -> list[str]:
    """Return lines that compare EASY and the model of `slurm_cycles` with Slurm: equal decisions, and mean waits.

    Mean waits are averaged over replays with slightly perturbed run times, since a single replay is noisy.
    """
    whole_s = happened.zero_s % 1.0  # so that whole seconds are those of Slurm's clock
    table = happened.jobs.join(asked[["gpus", "limit_min"]])
    on = -(-table["gpus"] // SIZE)
    columns = zip(
        table["submit_s"] + whole_s,
        table["end_s"] - table["start_s"],
        MINUTE * table["limit_min"],
        on,
        table["gpus"] // on,
        strict=True,
    )
    jobs = [slurm_cycles.Job(*each) for each in columns]
    cycles = [*zip((happened.cycles + whole_s).tolist(), happened.backfills.tolist(), strict=True)]
    start_s = table["start_s"].to_numpy() + whole_s
    wait_s = float((table["start_s"] - table["submit_s"]).mean())
    lines = [f"{'decisions':28}{'same':>8}{'Slurm alone':>14}{'model alone':>14}{'mean wait':>22}"]
    for name, group_s in (
        ("EASY, on nodes", slurm_cycles.EARLIEST_S),
        ("groups of 30 s", slurm_cycles.FIRST_GROUP_S),
    ):
        how = (cycles, NODES, SIZE, group_s)
        both, theirs, ours = slurm_cycles.agreement(jobs, start_s, happened.nodes, *how)
        draw, ratios = stream(0, "slurm jitter"), []
        for _ in range(JITTERED):
            noise_s = draw.normal(0.0, JITTER_S, len(jobs))
            noisy = [job._replace(run_s=job.run_s + by) for job, by in zip(jobs, noise_s, strict=True)]
            waits = slurm_cycles.simulated(noisy, *how) - [job.submit_s for job in jobs]
            ratios.append(np.nanmean(waits) / wait_s)
        spread = f"{np.mean(ratios):.3f} +- {np.std(ratios):.3f}"
        lines.append(f"{name:28}{both:8,}{theirs:14,}{ours:14,}{spread:>22}")
    return lines


def main(args: Sequence[str] | None = None) -> int:
    """Run Slurm, or compare its schedules; return the exit code, 2 if Slurm is not installed."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("work", choices=("run", "compare"))
    flags.add_argument("out", type=Path)
    flags.add_argument("--scheduler", nargs="+", choices=tuple(DISCIPLINES), default=list(DISCIPLINES))
    for name, default in ("--jobs", 1000), ("--span", 720), ("--seed", 0):
        flags.add_argument(name, type=int, default=default)
    flags.add_argument("--wide", action="store_true", help="sample jobs in proportion to their GPUs")
    chosen = flags.parse_args(args)
    if chosen.work == "run":
        if why := missing():
            print(f"slurm_referee: {why}", file=sys.stderr)
            return 2
        jobs = submissions(chosen.jobs, chosen.span, chosen.seed, wide=chosen.wide)
        for scheduler in chosen.scheduler:
            run_slurm(scheduler, jobs, chosen.out / scheduler)
    for scheduler in chosen.scheduler:
        folder = chosen.out / scheduler
        happened = read_log((folder / LOG_NAME).read_text(encoding="utf-8", errors="replace"))
        asked = pd.read_csv(folder / JOBS_NAME).set_index("job_id")
        launch_s = asked["run_s"].rsub(happened.jobs["end_s"] - happened.jobs["start_s"])
        gaps = np.diff(happened.cycles)
        print(
            f"{scheduler}: {len(asked):,} jobs; launch and end {launch_s.mean():.3f} s, a cycle {gaps.mean():.2f} s"
        )
        print(f"{'':28}{'mean wait, s':>13}{'ratio':>8}{'rank':>8}{'pairs':>8}")
        for cause, each in by_cause(happened, asked, scheduler).items():
            print(f"{cause:28}{each.wait_s:13.2f}{each.ratio:8.3f}{each.rank:8.4f}{each.pairs:8.4f}")
        if scheduler == "backfill":
            print("\n".join(in_cycles(happened, asked)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
