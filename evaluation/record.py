"""What happened, kept beside the results: who held what from when to when, and totals over time."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from gpu_cluster_gym.evaluation import perfetto, report, run_folder
from gpu_cluster_gym.evaluation.gantt_bars import intervals, node_of_gpus
from gpu_cluster_gym.simulator.account import OVER_TIME, Account
from gpu_cluster_gym.simulator.episode import run

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.cluster import Cluster
    from gpu_cluster_gym.workloads import Workload

SEGMENTS_FILE, TIMELINE_FILE, EVALYS, PERFETTO = "segments.csv", "timeline.csv", "evalys", "perfetto"

SEGMENTS = {
    "window": "number of the window in its split, 0 where the whole trace is one episode",
    "seed": "seed of the scenario",
    "job_id": "the job's name in its trace, as in `jobs.csv`",
    "phase": "queued, reserved, loading, running, pausing or restarting; a paused job is queued again",
    "from_s": "when it began",
    "to_s": "when it ended",
    "num_gpus": "GPUs held, 0 without any",
    "gpus": "the GPUs, written as intervals: 0-3 6",
    "nodes": "the nodes of what it held, written as intervals; of a job that held cores alone too",
    "cores": "CPU cores held for each GPU, or as a whole where the job held no GPU",
    "throttle": "level of a CPU job, 1 for none",
    "shared": "share of its GPUs that others held too, while it ran; 0 in other phases",
}
"""The columns of `segments.csv`: a row for each time in which nothing changed about a job."""

TIMELINE = {
    "window": SEGMENTS["window"],
    "seed": SEGMENTS["seed"],
    **OVER_TIME,
}
"""The columns of `timeline.csv`: a row for each time at which something happened."""

JOBSET = (
    "job_id",
    "workload_name",
    "submission_time",
    "requested_number_of_resources",
    "requested_time",
    "success",
    "starting_time",
    "execution_time",
    "finish_time",
    "waiting_time",
    "turnaround_time",
    "stretch",
    "allocated_resources",
)
"""The columns of Batsim's `jobs.csv` that `evalys.jobset.JobSet` names; times are seconds."""


class Record(NamedTuple):
    """One episode, or several under one policy, as tables.

    results: as `simulator.results` declares it. segments: columns of `SEGMENTS`. timeline: of `TIMELINE`. executions:
    of `JOBSET` and the window; a row for each time that a job held GPUs.
    """

    results: pd.DataFrame
    segments: pd.DataFrame
    timeline: pd.DataFrame
    executions: pd.DataFrame


def simulate(
    makers: "Mapping[str, report.Maker]",
    workloads: "Sequence[Workload]",
    *,
    processes: int = 1,
    done: Callable[[str, pd.DataFrame], None] | None = None,
) -> dict[str, Record]:
    """Return what happened under every policy over all workloads; results are those of `report.simulate`."""

    def told(name: str, each: Record) -> None:
        if done:
            done(name, each.results)

    parts = report.episodes(one, makers, workloads, processes=processes, done=told)
    return {name: together(each) for name, each in parts.items()}


def one(make: "report.Maker", workload: "Workload", *, oracle: bool = False) -> Record:
    """Return what happened in one episode of a new policy; oracle: whether it may be told the truth."""
    account = Account()
    results = workload.results(run(make(), workload.episode(), oracle=oracle, account=account))
    key = {"window": workload.window.number, "seed": workload.scenario.seed}
    held = account.holdings()
    nodes = node_of_gpus(workload.cluster.node_gpus)
    texts = pd.DataFrame(
        {
            "gpus": [intervals(gpus) for gpus in held["gpus"]],
            "nodes": [
                intervals(sorted({*nodes[list(gpus)]}) if gpus else [node])
                for gpus, node in zip(held["gpus"], held["node"], strict=True)
            ],
        }
    )
    segments = account.segments()
    found = segments.join(texts, on="holding").fillna({"gpus": "", "nodes": ""})
    found = found.assign(job_id=results["job_id"].to_numpy()[found["job"]], **key)
    timeline = account.over_time().assign(**key)
    executions = jobset(results, held, texts["gpus"]).assign(window=workload.window.number)
    return Record(results, found[list(SEGMENTS)], timeline[list(TIMELINE)], executions)


def together(parts: Sequence[Record]) -> Record:
    """Return several episodes as one record."""
    return Record(*(pd.concat(tables, ignore_index=True) for tables in zip(*parts, strict=True)))


def jobset(results: pd.DataFrame, held: pd.DataFrame, gpus: pd.Series) -> pd.DataFrame:
    """Return the times that jobs held GPUs as evalys reads them, columns `JOBSET`.

    A job that came back has a row more for each time, `ID#1` and so on, submitted when it had left its GPUs. What held
    cores alone is left out: the resources are GPUs. No job has a limit of time, so `requested_time` is -1.
    """
    on_gpus = held[gpus != ""]
    row = on_gpus["job"].to_numpy()
    again = on_gpus.groupby("job").cumcount().to_numpy()
    before = on_gpus.groupby("job")["to_s"].shift().to_numpy()
    names = results["job_id"].astype(str).to_numpy()[row]
    submitted = np.where(again > 0, before, results["submit_s"].to_numpy()[row])
    began, ended = on_gpus["from_s"].to_numpy(), on_gpus["to_s"].to_numpy()
    took = ended - began
    found = {
        "job_id": [f"{name}#{count}" if count else name for name, count in zip(names, again, strict=True)],
        "workload_name": "w0",
        "submission_time": submitted,
        "requested_number_of_resources": results["num_gpus"].to_numpy()[row],
        "requested_time": -1,
        "success": 1,
        "starting_time": began,
        "execution_time": took,
        "finish_time": ended,
        "waiting_time": began - submitted,
        "turnaround_time": ended - submitted,
        "stretch": (ended - submitted) / took,
        "allocated_resources": gpus[on_gpus.index],
    }
    return pd.DataFrame(found)[list(JOBSET)].reset_index(drop=True)


def write(folder: Path, records: Mapping[str, Record]) -> None:
    """Write every policy's segments, totals over time, and a file for evalys a window, beside its results."""
    for name, each in records.items():
        place = folder / run_folder.folder_name(name)
        each.segments.to_csv(place / SEGMENTS_FILE, index=False)
        each.timeline.to_csv(place / TIMELINE_FILE, index=False)
        (place / EVALYS).mkdir()
        for window, rows in each.executions.groupby("window"):
            rows[list(JOBSET)].to_csv(place / EVALYS / f"{window}.csv", index=False)


def write_perfetto(folder: Path, records: Mapping[str, Record], machines: "Cluster") -> None:
    """Write every policy's episodes as traces that the Perfetto UI opens, a file a window."""
    for name, each in records.items():
        place = folder / run_folder.folder_name(name) / PERFETTO
        place.mkdir()
        for window, segments in each.segments.groupby("window"):
            totals = each.timeline[each.timeline["window"] == window]
            file = place / f"{window}.json"
            file.write_text(perfetto.text(segments, totals, machines.node_gpus), encoding="utf-8")
