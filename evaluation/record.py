"""Record of a run: each job's phases and GPUs over time, cluster totals over time, and files for other programs.

A segment is a span of time in which nothing about a job changes. Bars, lanes and shares for pictures are computed from
segments at the end of this file.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from gpu_cluster_gym.evaluation import run_folder
from gpu_cluster_gym.evaluation.journal import Journal
from gpu_cluster_gym.evaluation.runner import Failure, Maker, run_all
from gpu_cluster_gym.simulator.account import OVER_TIME, Account
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Preempt, Resize, Start
from gpu_cluster_gym.simulator.reasons import Decisions, Reason, gives_reasons
from gpu_cluster_gym.traces import swf

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.cluster import Cluster
    from gpu_cluster_gym.workloads import Workload

SEGMENTS_FILE, TIMELINE_FILE = "segments.csv", "timeline.csv"
DECISIONS_FILE, COMPARED_FILE = "decisions.csv", "compared.csv"
EVALYS, SWF, PERFETTO = "evalys", "swf", "perfetto"

SEGMENTS = {
    "window": "number of the window in its split, 0 for the whole trace as one episode",
    "seed": "seed of the scenario",
    "job_id": "name of the job in its trace, as in `jobs.csv`",
    "phase": "queued, reserved, loading, running, pausing or restarting; a paused job is queued again",
    "from_s": "start of the segment",
    "to_s": "end of the segment",
    "num_gpus": "number of allocated GPUs, 0 for none",
    "gpus": "allocated GPUs, as intervals: 0-3 6",
    "nodes": "nodes of the allocated GPUs or CPU cores, as intervals",
    "cores": "allocated CPU cores per GPU; in total for a job without GPUs",
    "throttle": "level to which a CPU job is throttled, 1 for not at all",
    "shared": "share of the job's GPUs that other jobs use too while it runs; 0 in other phases",
}
"""Columns of `segments.csv`: a row per segment. Times are seconds."""

TIMELINE = {
    "window": SEGMENTS["window"],
    "seed": SEGMENTS["seed"],
    **OVER_TIME,
}
"""Columns of `timeline.csv`: a row per event."""

DECISIONS = {
    "window": SEGMENTS["window"],
    "seed": SEGMENTS["seed"],
    "decision": "number of the decision in its window, from 0",
    "time_s": "time of the decision",
    "action": "start, pause or resize",
    "job_id": SEGMENTS["job_id"],
    "rule": "rule of the policy",
    "keys": "description of the keys, with their unit; those that end in `, %` are probabilities, the largest first",
    "key": "key of the job; smaller keys come first; empty for infinity",
    "place": "place of the job in the order, or of the move among the compared ones, from 1; 0 for none",
    "ranked": "number of jobs in the order, or of compared moves",
    "skipped": "number of queued jobs earlier in the order that do not start at this instant",
}
"""Columns of `decisions.csv`: a row per decision of a policy that gives reasons."""

COMPARED = {
    "window": SEGMENTS["window"],
    "seed": SEGMENTS["seed"],
    "decision": "number of the decision in `decisions.csv`",
    "role": "`earlier` or `later`: a job of the order that does not start; `cause`: the job that gets a paused "
    "job's GPUs; `term`: a further quantity; `option`: a compared move, the first of a decision being made",
    "name": "name of a term or move; `{job}` in it stands for the job; a term that ends in `, job` is a job",
    "job_id": "the job, as in `jobs.csv`; empty for none",
    "value": "key of the job, or value of the term or move, in the unit of its name or of the keys; empty for infinity",
    "minimum": "value that a move must exceed; empty for none",
}
"""Columns of `compared.csv`: a row per job, quantity or move that a decision compared and the record lists."""

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
"""Columns of Batsim's `jobs.csv` as read by `evalys.jobset.JobSet`; times are seconds."""


class Record(NamedTuple):
    """Tables of one or several episodes under a policy.

    results: a row per job, as `simulator.results` declares it. segments: columns `SEGMENTS`. timeline: columns
    `TIMELINE`. executions: columns `JOBSET`, the row of the job in the job table, and the window, a row for each time
    that a job holds GPUs. decisions: columns `DECISIONS`, and compared: columns `COMPARED`; both are empty for a policy
    without reasons.
    """

    results: pd.DataFrame
    segments: pd.DataFrame
    timeline: pd.DataFrame
    executions: pd.DataFrame
    decisions: pd.DataFrame
    compared: pd.DataFrame


def simulate(
    makers: Mapping[str, Maker],
    workloads: "Sequence[Workload]",
    *,
    processes: int = 1,
    done: Callable[[str, pd.DataFrame], None] | None = None,
    failed: dict[str, Failure] | None = None,
    journal: Journal | None = None,
) -> dict[str, Record]:
    """Return each policy's record over all workloads; arguments and results are those of `runner.simulate`."""

    def done_with(name: str, record: Record) -> None:
        if done:
            done(name, record.results)

    how: dict[str, Any] = {"processes": processes, "done": done_with, "failed": failed, "journal": journal}
    parts = run_all(record_window, makers, workloads, **how, of_tables=Record._make)
    return {
        name: Record(*(pd.concat(tables, ignore_index=True) for tables in zip(*records, strict=True)))
        for name, records in parts.items()
    }


def record_window(make: Maker, workload: "Workload", *, oracle: bool = False) -> Record:
    """Return the record of a new policy on a workload; oracle: whether it may read true run times."""
    account, policy = Account(), make()
    decisions = Decisions() if gives_reasons(policy) else None
    episode = workload.episode(account=account)
    run(policy, episode, oracle=oracle, account=account, decisions=decisions)
    results = workload.results(episode)
    key = {"window": workload.window.number, "seed": workload.scenario.seed}
    holdings = account.holdings()
    nodes = node_of_gpus(workload.cluster.node_gpus)
    texts = pd.DataFrame(
        {
            "gpus": [format_intervals(gpus) for gpus in holdings["gpus"]],
            "nodes": [
                format_intervals(sorted({*nodes[list(gpus)]}) if gpus else [node])
                for gpus, node in zip(holdings["gpus"], holdings["node"], strict=True)
            ],
        }
    )
    segments = account.segments().join(texts, on="holding").fillna({"gpus": "", "nodes": ""})
    segments = segments.assign(job_id=workload.table["job_id"].to_numpy()[segments["job"]], **key)
    timeline = account.over_time().assign(**key)
    executions = jobset(workload.table, holdings, texts["gpus"]).assign(window=workload.window.number)
    names = workload.table["job_id"].astype(str).tolist()
    decided, compared = (table.assign(**key) for table in decision_tables(names, decisions))
    return Record(
        results,
        segments[list(SEGMENTS)],
        timeline[list(TIMELINE)],
        executions,
        decided[list(DECISIONS)],
        compared[list(COMPARED)],
    )


ACTIONS = {Start: "start", Preempt: "pause", Resize: "resize"}


def decision_tables(names: Sequence[str], decisions: Decisions | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the columns `DECISIONS` and the columns `COMPARED`, except window and seed; names: of the jobs, by number.

    Keys and values have seven digits.
    """
    decided: list[tuple[Any, ...]] = []
    compared: list[tuple[Any, ...]] = []
    for number, (time_s, action, reason) in enumerate(decisions.rows if decisions else []):
        own = reason.own
        decided.append(
            (
                *(number, time_s, ACTIONS[type(action)], names[own.job], reason.rule, reason.keys),
                *(_digits(own.key), reason.place, reason.ranked, reason.skipped),
            )
        )
        compared += _compared(number, reason, names)
    kinds: dict[Any, type] = {
        **dict.fromkeys(("decision", "place", "ranked", "skipped"), int),
        **dict.fromkeys(("time_s", "key", "value", "minimum"), float),
    }
    tables = []
    for columns, rows in ((DECISIONS, decided), (COMPARED, compared)):
        table = pd.DataFrame(rows, columns=list(columns)[2:])
        tables.append(table.astype({name: kinds.get(name, object) for name in table}))
    return tables[0], tables[1]


def _compared(number: int, reason: Reason, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the columns `COMPARED`, except window and seed, of what a decision compared."""
    cause = (reason.cause,) if reason.cause else ()
    for role, jobs in (("earlier", reason.earlier), ("later", reason.later), ("cause", cause)):
        for job, key in jobs:
            yield number, role, "", names[job], _digits(key), math.nan
    for name, value in reason.terms:
        if name.endswith(", job"):
            yield number, "term", name, names[int(value)], math.nan, math.nan
        else:
            yield number, "term", name, "", _digits(value), math.nan
    for name, job, value, minimum in reason.options:
        yield number, "option", name, names[job] if job >= 0 else "", _digits(value), _digits(minimum)


def _digits(value: float) -> float:
    """Return a number to seven digits, NaN for infinity."""
    return float(f"{value:.7g}") if math.isfinite(value) else math.nan


def jobset(jobs: pd.DataFrame, holdings: pd.DataFrame, gpus: pd.Series) -> pd.DataFrame:
    """Return the intervals in which jobs hold GPUs as a table for evalys, columns `JOBSET`, and `job`, their row.

    jobs: the job table. holdings: of `Account.holdings`. gpus: the GPUs of each holding, as intervals.

    A job that is restarted has another row for each restart, named `ID#1` and so on and submitted when the job
    released its previous GPUs. Intervals with CPU cores alone are omitted, since the resources are GPUs. Jobs have
    no time limit, so `requested_time` is -1.
    """
    on_gpus = holdings[gpus != ""]
    row = on_gpus["job"].to_numpy()
    restarts = on_gpus.groupby("job").cumcount().to_numpy()
    left_s = on_gpus.groupby("job")["to_s"].shift().to_numpy()
    names = jobs["job_id"].astype(str).to_numpy()[row]
    submitted = np.where(restarts > 0, left_s, jobs["submit_s"].to_numpy()[row])
    started, finished = on_gpus["from_s"].to_numpy(), on_gpus["to_s"].to_numpy()
    took = finished - started
    table = {
        "job_id": [f"{name}#{count}" if count else name for name, count in zip(names, restarts, strict=True)],
        "workload_name": "w0",
        "submission_time": submitted,
        "requested_number_of_resources": jobs["num_gpus"].to_numpy()[row],
        "requested_time": -1,
        "success": 1,
        "starting_time": started,
        "execution_time": took,
        "finish_time": finished,
        "waiting_time": started - submitted,
        "turnaround_time": finished - submitted,
        "stretch": (finished - submitted) / took,
        "allocated_resources": gpus[on_gpus.index],
    }
    return pd.DataFrame(table)[list(JOBSET)].assign(job=row).reset_index(drop=True)


SWF_NOTES = (
    "simulated; a processor is a GPU; a job's number is its place among all jobs of the window, CPU jobs included, by "
    "submission, from 1",
    "a job that was paused or restarted has a line with status 1 for the whole job, whose run time is the sum over its "
    "parts, and whose processors are their mean over time; below it a line with the same number for each part, with "
    "status 2, the last one 3; a later part waits since the end of the part before",
)
COMPLETED, CONTINUED, LAST_PART = 1, 2, 3
"""Status of a line in the Standard Workload Format: a whole job, a part with another one after it, the last part."""


def swf_text(executions: pd.DataFrame, cluster: "Cluster") -> str:
    """Return the intervals in which jobs hold GPUs in the Standard Workload Format, with GPUs as processors.

    executions: columns `JOBSET` and `job`, by job and time. A job of several intervals has a line for the whole job,
    followed by a line for each interval, as the format has it for jobs that are swapped out. Times are whole seconds,
    as the format requires, and run times at least 1; unknown fields are -1.
    """
    submit_s, start_s, end_s = (
        executions[name].round().astype(int) for name in ("submission_time", "starting_time", "finish_time")
    )
    known = {
        "job number": executions["job"] + 1,
        "submit time": submit_s,
        "wait time": start_s - submit_s,
        "run time": (end_s - start_s).clip(lower=1),
        "allocated processors": [len(parse_intervals(gpus)) for gpus in executions["allocated_resources"]],
        "requested processors": executions["requested_number_of_resources"].astype(int),
        "status": COMPLETED,
    }
    parts = pd.DataFrame(known, index=executions.index)
    of_job = parts.groupby("job number")
    whole = of_job.first()
    whole["run time"] = of_job["run time"].sum()
    gpu_s = (parts["allocated processors"] * parts["run time"]).groupby(parts["job number"]).sum()
    whole["allocated processors"] = (gpu_s / whole["run time"]).round().astype(int)
    several, place = of_job["status"].transform("size") > 1, of_job.cumcount()
    parts["status"] = np.where(parts["job number"].duplicated(keep="last"), CONTINUED, LAST_PART)
    parts.loc[place > 0, "submit time"] = -1
    table = pd.concat([whole.reset_index(), parts[several]]).reindex(columns=list(swf.FIELDS), fill_value=-1)
    head = [
        "; Version: 2.2",
        f"; MaxJobs: {len(whole)}",
        f"; MaxRecords: {len(table)}",
        f"; Preemption: {'Double' if several.any() else 'No'}",
        f"; MaxNodes: {cluster.num_nodes}",
        f"; MaxProcs: {cluster.num_gpus}",
        *(f"; Note: {note}" for note in SWF_NOTES),
    ]
    lines = table.sort_values("job number", kind="stable").to_csv(sep=" ", header=False, index=False)
    return "\n".join([*head, lines])


def write(folder: Path, records: Mapping[str, Record], cluster: "Cluster") -> None:
    """Write each policy's segments and timeline, and files per window for evalys and SWF tools, next to its results."""
    for name, record in records.items():
        place = folder / run_folder.folder_name(name)
        record.segments.to_csv(place / SEGMENTS_FILE, index=False)
        record.timeline.to_csv(place / TIMELINE_FILE, index=False)
        if len(record.decisions):
            record.decisions.to_csv(place / DECISIONS_FILE, index=False)
            record.compared.to_csv(place / COMPARED_FILE, index=False)
        for kind in (EVALYS, SWF):
            (place / kind).mkdir(exist_ok=True)
        for window, rows in record.executions.groupby("window"):
            rows[list(JOBSET)].to_csv(place / EVALYS / f"{window}.csv", index=False)
            (place / SWF / f"{window}.swf").write_text(swf_text(rows, cluster), encoding="utf-8")


# Perfetto: the JSON of Chrome's Trace Event Format, which ui.perfetto.dev and chrome://tracing open. An `X` event is a
# slice with a start and a duration, `C` a counter, `M` a name; times are microseconds of simulated time. A node is a
# process. A lane of a GPU is a thread: slices of one thread must not overlap, so each co-located job has its own lane.
# No thread number equals a process number, since the Perfetto UI takes such a thread for the main one and lists it
# first.

MICROSECONDS = 1_000_000
COUNTERS = {
    "jobs": ("queued", "reserved", "restarting"),
    "GPUs": ("running_gpus", "idle_gpus"),
    "GPUs allocated": ("held_gpus",),
    "GPUs busy": ("busy_gpus",),
    "memory, GiB": ("memory_gib",),
    "cores": ("cores",),
}
"""Counter tracks, with the columns of `timeline.csv` that each shows."""
TOTALS_PROCESS = 0
"""Process of the counters; node n is process n + 1."""


def write_perfetto(folder: Path, records: Mapping[str, Record], cluster: "Cluster") -> None:
    """Write each policy's episodes as traces for the Perfetto UI, a file per window."""
    for name, record in records.items():
        place = folder / run_folder.folder_name(name) / PERFETTO
        place.mkdir(exist_ok=True)
        for window, segments in record.segments.groupby("window"):
            timeline = record.timeline[record.timeline["window"] == window]
            text = perfetto_text(segments, timeline, cluster.node_gpus)
            (place / f"{window}.json").write_text(text, encoding="utf-8")


def perfetto_text(segments: pd.DataFrame, timeline: pd.DataFrame, node_gpus: Sequence[int]) -> str:
    """Return one window's segments and timeline as the text of a trace, an event per line."""
    lines = ",\n".join(
        json.dumps(event, separators=(",", ":")) for event in perfetto_events(segments, timeline, node_gpus)
    )
    return f'{{"displayTimeUnit":"ms","traceEvents":[\n{lines}\n]}}\n'


def perfetto_events(
    segments: pd.DataFrame, timeline: pd.DataFrame, node_gpus: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Yield the events of one window: names of processes and threads, slices by GPU, and counters."""
    node_of = node_of_gpus(node_gpus)
    first_gpu = np.concatenate([[0], np.cumsum(node_gpus)])
    places = gpu_lanes(segments)
    num_lanes = int(places["lane"].max()) + 1 if len(places) else 1

    def thread(gpu: int, lane: int) -> int:
        return len(node_gpus) + 1 + gpu * num_lanes + lane

    yield _name_event("process_name", TOTALS_PROCESS, 0, "cluster")
    for node in range(len(node_gpus)):
        yield _name_event("process_name", node + 1, 0, f"node {node}")
        yield {
            "ph": "M",
            "name": "process_sort_index",
            "pid": node + 1,
            "tid": 0,
            "args": {"sort_index": node},
        }
    for gpu, lane in sorted({*zip(places["gpu"].tolist(), places["lane"].tolist(), strict=True)}):
        node = int(node_of[gpu])
        suffix = f", lane {lane + 1}" if lane else ""
        yield _name_event("thread_name", node + 1, thread(gpu, lane), f"GPU {gpu - first_gpu[node]}{suffix}")
    columns = ["job_id", "phase", "from_s", "to_s", "num_gpus", "cores", "shared"]
    rows = segments[columns].astype({"phase": str, "job_id": str}).to_dict("records")
    for row, gpu, lane in places[["segment", "gpu", "lane"]].itertuples(index=False):
        segment = rows[row]
        start = round(segment["from_s"] * MICROSECONDS)
        running = segment["phase"] == "running"
        yield {
            "ph": "X",
            "name": segment["job_id"] if running else f"{segment['job_id']} {segment['phase']}",
            "cat": segment["phase"],
            "pid": int(node_of[gpu]) + 1,
            "tid": thread(int(gpu), int(lane)),
            "ts": start,
            "dur": round(segment["to_s"] * MICROSECONDS) - start,
            "args": {name: segment[name] for name in ("job_id", "num_gpus", "cores", "shared")},
        }
    for totals in timeline.to_dict("records"):
        event = {"ph": "C", "pid": TOTALS_PROCESS, "tid": 0, "ts": round(totals["time_s"] * MICROSECONDS)}
        for name, columns_shown in COUNTERS.items():
            yield {**event, "name": name, "args": {column: totals[column] for column in columns_shown}}


def _name_event(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    """Return the event that names a process or a thread."""
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


# Bars, lanes and shares of GPUs.

BARS = {
    "job_id": "name of the job",
    "phase": "phase of the job",
    "from_s": "start of the bar",
    "to_s": "end of the bar",
    "gpu": "first GPU",
    "num_gpus": "number of consecutive GPUs, all of one node",
    "lane": "lane of the job on these GPUs, from 0",
    "lanes": "number of lanes side by side on these GPUs, 1 for a job without co-located jobs",
}
"""Columns of `gantt_bars`. Times are seconds."""


def format_intervals(numbers: Iterable[int]) -> str:
    """Return ascending numbers as intervals, such as 0-3 6."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def parse_intervals(text: str) -> list[int]:
    """Return the numbers in a text of intervals; none for an empty text."""
    parts = (part.partition("-") for part in text.split())
    return [number for low, _, high in parts for number in range(int(low), int(high or low) + 1)]


def node_of_gpus(node_gpus: Sequence[int]) -> np.ndarray:
    """Return the node of each GPU, shape (gpus,), given the number of GPUs of each node."""
    return np.repeat(np.arange(len(node_gpus)), node_gpus)


def gpu_lanes(segments: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each segment of one window and each of its GPUs, ordered by GPU and time.

    segment: row of the segment, from 0. gpu: number of the GPU. lane: lane of the job on the GPU; co-located jobs have
    different ones. alone: whether no other job uses the GPU during the segment.
    """
    parsed = {text: parse_intervals(text) for text in segments["gpus"].unique()}
    gpus = [parsed[text] for text in segments["gpus"]]
    segment = np.repeat(np.arange(len(gpus)), [len(each) for each in gpus])
    gpu = np.fromiter((number for each in gpus for number in each), np.int64, len(segment))
    start, end = segments["from_s"].to_numpy()[segment], segments["to_s"].to_numpy()[segment]
    order = np.lexsort((end, start, gpu))
    segment, gpu, start, end = segment[order], gpu[order], start[order], end[order]
    # On one GPU, a segment overlaps an earlier one if it starts before the latest end so far, and a later one if the
    # next segment starts before its own end.
    latest_end = pd.Series(end).groupby(gpu).cummax().to_numpy()
    same_gpu = gpu[1:] == gpu[:-1]
    alone = np.ones(len(gpu), bool)
    alone[1:] &= ~(same_gpu & (start[1:] < latest_end[:-1]))
    alone[:-1] &= ~(same_gpu & (start[1:] < end[:-1]))
    jobs = pd.factorize(segments["job_id"])[0][segment]
    lane = np.zeros(len(gpu), np.int64) if alone.all() else _lanes(gpu, start, end, jobs)
    return pd.DataFrame({"segment": segment, "gpu": gpu, "lane": lane, "alone": alone})


def _lanes(gpu: np.ndarray, start: np.ndarray, end: np.ndarray, jobs: np.ndarray) -> np.ndarray:
    """Return the lane of each row, ordered by GPU and time: a job keeps its lane, else it takes the first free one."""
    lanes = np.zeros(len(gpu), np.int64)
    free_from: list[float] = []
    owners: list[int] = []
    current_gpu = -1
    for row, (place, begin, finish, job) in enumerate(
        zip(gpu.tolist(), start.tolist(), end.tolist(), jobs.tolist(), strict=True)
    ):
        if place != current_gpu:
            current_gpu, free_from, owners = place, [], []
        free = [lane for lane, time in enumerate(free_from) if time <= begin]
        own = [lane for lane in free if owners[lane] == job and free_from[lane] == begin]
        lane = (own or free or [len(owners)])[0]
        if lane == len(owners):
            free_from.append(finish)
            owners.append(job)
        free_from[lane], owners[lane] = finish, job
        lanes[row] = lane
    return lanes


def gantt_bars(segments: pd.DataFrame, node_gpus: Sequence[int]) -> pd.DataFrame:
    """Return the bars of a Gantt chart by GPU of one window, columns `BARS`.

    Consecutive segments that differ only in CPU cores form one bar, and so do neighbouring GPUs of a node on which a
    job has the same bar.
    """
    places = gpu_lanes(segments)
    chosen = segments.iloc[places["segment"]]
    bars = pd.DataFrame(
        {
            "job_id": chosen["job_id"].to_numpy(),
            "phase": chosen["phase"].astype(str).to_numpy(),
            "from_s": chosen["from_s"].to_numpy(),
            "to_s": chosen["to_s"].to_numpy(),
            "gpu": places["gpu"].to_numpy(),
            "num_gpus": 1,
            "lane": np.where(places["alone"], 0, places["lane"]),
            "lanes": np.where(places["alone"], 1, places["lane"].max() + 1) if len(places) else 1,
        }
    )
    # first merge along time, on each GPU
    same = ["job_id", "phase", "lane", "lanes"]
    bars = bars.sort_values(["gpu", "lanes", "lane", "from_s"], kind="stable")
    continues = (bars[["gpu", *same]] == bars[["gpu", *same]].shift()).all(axis=1)
    continues &= bars["from_s"] == bars["to_s"].shift()
    bars = bars.groupby((~continues).cumsum().to_numpy()).agg(
        {name: "last" if name == "to_s" else "first" for name in BARS}
    )
    # then across neighbouring GPUs of a node
    bars["node"] = node_of_gpus(node_gpus)[bars["gpu"]]
    same += ["node", "from_s", "to_s"]
    bars = bars.sort_values([*same, "gpu"], kind="stable")
    adjacent = (bars[same] == bars[same].shift()).all(axis=1) & (bars["gpu"] == bars["gpu"].shift() + 1)
    bars = bars.groupby((~adjacent).cumsum().to_numpy()).agg(
        {name: "sum" if name == "num_gpus" else "first" for name in BARS}
    )
    return bars.sort_values(["from_s", "gpu"], kind="stable").reset_index(drop=True)


def time_means(time_s: np.ndarray, values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the means between edges of a step function that takes each value from its time on; 0 before the first."""
    durations = np.diff(time_s)
    integral = np.concatenate([[0.0], np.cumsum(values[:-1] * durations)])
    at_edges = np.interp(edges, time_s, integral)
    after_last = np.maximum(edges - time_s[-1], 0.0) * values[-1]
    return np.asarray(np.diff(at_edges + after_last) / np.diff(edges))


def allocated_by_row(segments: pd.DataFrame, row_of_gpu: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the share of each row's GPUs that are allocated, shape (rows, len(edges) - 1); a shared GPU counts once.

    segments: of one window. row_of_gpu: shape (gpus,), such as the node of each GPU. edges: times, s.
    """
    places = gpu_lanes(segments)
    chosen = segments.iloc[places["segment"]]
    start, end = chosen["from_s"].to_numpy(), chosen["to_s"].to_numpy()
    gpu = places["gpu"].to_numpy()
    if not places["alone"].all():
        # of overlapping segments, a later one counts only from the latest end of the earlier ones
        latest_end = pd.Series(end).groupby(gpu).cummax().groupby(gpu).shift().fillna(-np.inf).to_numpy()
        start = np.minimum(np.maximum(start, latest_end), end)
    rows = row_of_gpu[gpu]
    shares = np.zeros((int(row_of_gpu.max()) + 1, len(edges) - 1))
    for row, size in enumerate(np.bincount(row_of_gpu)):
        here = rows == row
        time = np.concatenate([start[here], end[here]])
        change = np.repeat([1.0, -1.0], here.sum())
        if len(time):
            order = np.argsort(time, kind="stable")
            shares[row] = time_means(time[order], np.cumsum(change[order]), edges) / size
    return shares
