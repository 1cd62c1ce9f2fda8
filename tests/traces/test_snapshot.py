"""Snapshots tell running from queued jobs, and hide what is later than their time."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym.traces import TraceError, load, snapshot
from gpu_cluster_gym.traces._squeue import hosts
from gpu_cluster_gym.traces.slurm import array_tasks
from tests.cases import slurm_queue
from tests.cases.bad_logs import HELIOS_HEADER, KUBERNETES_WORKLOAD, SLURM_HEADER
from tests.cases.slurm_queue import RUNS, job, number

TABLE = """job_id,submit_s,num_gpus,duration_s,logged_start_s
a,0,2,100,10
b,5,4,,20
c,30,1,50,40
d,60,8,,
e,95,1,10,95
"""


def file_of(folder: Path, text: str, name: str = "log.csv") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_blanks_of_a_table_are_jobs_that_run_or_queue(tmp_path: Path) -> None:
    """The latest time is the end of a, 110 s."""
    found = snapshot(file_of(tmp_path, TABLE))
    assert found.now_s == 110
    assert found.running["job_id"].tolist() == ["b"]
    assert found.queued["job_id"].tolist() == ["d"]
    assert found.history["job_id"].tolist() == ["a", "c", "e"]


@pytest.mark.parametrize(("later_s", "is_noted"), [(3_000, False), (7_200, True)])
def test_a_time_long_after_the_end_of_the_log_is_noted(
    later_s: int, *, is_noted: bool, tmp_path: Path
) -> None:
    """Within an hour the log may have been exported then."""
    file = file_of(tmp_path, TABLE)
    end_s = snapshot(file).now_s
    notes = snapshot(file, at=f"{end_s + later_s:g}").notes
    assert ("hours between the log's last event and --at: 2" in notes) == is_noted


def test_an_earlier_time_hides_starts_ends_and_submissions(tmp_path: Path) -> None:
    """At 35 s a and b run, c queues although the log has its start, and d and e are not submitted."""
    found = snapshot(file_of(tmp_path, TABLE), at="35")
    assert found.running["job_id"].tolist() == ["a", "b"]
    assert found.queued["job_id"].tolist() == ["c"]
    assert found.history.empty
    assert found.present["duration_s"].isna().all()
    assert any("hidden: 2" in note for note in found.notes)


WITH_ENDS = """job_id,submit_s,num_gpus,logged_end_s,logged_start_s
a,0,2,110,10
b,5,4,,20
c,30,1,90,40
d,60,8,,
e,95,1,105,95
"""


@pytest.mark.parametrize("text", [TABLE, WITH_ENDS])
def test_jobs_that_run_or_queue_are_left_out_of_a_simulation(text: str, tmp_path: Path) -> None:
    """Job b runs, and d queues."""
    table = load(file=file_of(tmp_path, text), seed=0)
    assert table["job_id"].tolist() == ["a", "c", "e"]
    assert table["duration_s"].tolist() == [100, 50, 10]
    assert [note[:26] for note in table.attrs["notes"]] == [
        "jobs left out, no start (t",
        "jobs left out, unfinished ",
    ]
    assert all(note.endswith(": 1") for note in table.attrs["notes"])


def test_a_job_with_an_end_and_no_start_does_not_queue(tmp_path: Path) -> None:
    """It was cancelled."""
    found = snapshot(file_of(tmp_path, f"{WITH_ENDS}f,96,1,97,\n"))
    assert found.queued["job_id"].tolist() == ["d"]


@pytest.mark.parametrize(
    ("submit_s", "age"), [(60, "0.0 h"), (110 - 3 * 3600, "3.0 h"), (110 - 18 * 86_400, "18.0 days")]
)
def test_rows_without_times_that_are_taken_as_queued_are_noted(
    submit_s: int, age: str, tmp_path: Path
) -> None:
    """Job c of the log has a start, job d has none; now is 110 s. At 35 s, only c queues."""
    shift = max(-submit_s, 0)
    times = ((0, 2, 110, 10), (30, 1, 90, 40))
    rows = [
        f"{name},{shift + come},{gpus},{shift + end},{shift + start}"
        for name, (come, gpus, end, start) in zip("ac", times, strict=True)
    ]
    rows.append(f"d,{shift + submit_s},8,,")
    file = file_of(tmp_path, "\n".join([WITH_ENDS.splitlines()[0], *rows, ""]))
    begin = "rows without a start and an end, taken as queued"
    (note,) = [each for each in snapshot(file).notes if each.startswith(begin)]
    assert note.endswith(
        f"give jobs that were cancelled before they ran an end, or leave out their rows): 1, the oldest for {age}"
    )
    if submit_s == 60:
        assert not any(each.startswith(begin) for each in snapshot(file, at="35").notes)


def test_a_run_time_without_a_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"line 7, column logged_start_s: found '', expected a start"):
        load(file=file_of(tmp_path, f"{TABLE}f,96,1,5,\n"), seed=0)


@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        (TABLE, "1000", "no running or queued job"),
        (TABLE, "soon", "a time like"),
        ("job_id,submit_s,num_gpus,duration_s\na,0,1,5\n", None, "no running or queued job|no starts"),
    ],
)
def test_a_snapshot_without_jobs_or_time_is_an_error(
    text: str, at: str | None, words: str, tmp_path: Path
) -> None:
    lines = text if at != "1000" else "\n".join(text.splitlines()[:2])
    with pytest.raises(ValueError, match=words):
        snapshot(file_of(tmp_path, lines), at=at)


def test_sacct_has_running_and_pending_jobs(tmp_path: Path) -> None:
    """7 runs since 10:00 for an hour; 8 is pending; 9 is the rest of an array, three tasks of it."""
    common = "ann|lab|gpu|normal"
    rows = [
        f"6|{common}|COMPLETED|2024-01-01T09:00:00|2024-01-01T09:00:00|2024-01-01T09:00:00|2024-01-01T09:30:00|1800|60|1|4|"
        "gres/gpu=1|gres/gpu=1",
        f"7|{common}|RUNNING|2024-01-01T09:59:00|2024-01-01T09:59:00|2024-01-01T10:00:00|Unknown|3600|120|1|4|"
        "gres/gpu=2|gres/gpu=2",
        f"8|{common}|PENDING|2024-01-01T10:10:00|2024-01-01T10:10:00|Unknown|Unknown|0|120|1|4|gres/gpu=4|",
        f"9_[3-4,8%2]|{common}|PENDING|2024-01-01T10:20:00|2024-01-01T10:20:00|Unknown|Unknown|0|30|1|4|gres/gpu=1|",
        f"10|{common}|CANCELLED by 5|2024-01-01T10:30:00|2024-01-01T10:30:00|Unknown|2024-01-01T10:31:00|0|30|1|4|"
        "gres/gpu=1|",
    ]
    found = snapshot(file_of(tmp_path, "\n".join([SLURM_HEADER, *rows, ""]), "sacct.txt"))
    assert found.now_s == 7200  # 11:00, two hours after the first submission
    assert found.running["job_id"].tolist() == ["7"]
    assert found.queued["job_id"].tolist() == ["8", "9_3", "9_4", "9_8"]
    assert found.queued["time_limit_s"].tolist() == [7200, 1800, 1800, 1800]
    assert found.history["job_id"].tolist() == ["6"]


def test_a_requeued_job_counts_once(tmp_path: Path) -> None:
    """Its first attempt ended; its second one is pending."""
    common = "ann|lab|gpu|normal"
    first = "2024-01-01T09:00:00"
    rows = [
        f"6|{common}|NODE_FAIL|{first}|{first}|{first}|2024-01-01T09:30:00|1800|60|1|4|gres/gpu=1|gres/gpu=1",
        f"6|{common}|PENDING|2024-01-01T09:30:00|2024-01-01T09:30:00|Unknown|Unknown|0|60|1|4|gres/gpu=1|",
    ]
    found = snapshot(file_of(tmp_path, "\n".join([SLURM_HEADER, *rows, ""]), "sacct.txt"))
    assert found.queued["job_id"].tolist() == ["6"]
    assert found.history.empty


def test_helios_has_jobs_without_an_end(tmp_path: Path) -> None:
    rows = [
        "1,u,v,2,8,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:10:00,2020-04-01 01:00:00,3000,600",
        "2,u,v,2,8,1,RUNNING,2020-04-01 00:20:00,2020-04-01 00:30:00,,,",
        "3,u,v,2,8,1,PENDING,2020-04-01 00:40:00,,,,",
        "4,u,v,2,8,1,CANCELLED,2020-04-01 00:40:00,,,,",
    ]
    found = snapshot(file_of(tmp_path, "\n".join([HELIOS_HEADER.strip(), *rows, ""])))
    assert found.running["job_id"].tolist() == ["2"]
    assert found.queued["job_id"].tolist() == ["3"]
    assert found.history["job_id"].tolist() == ["1"]


def test_a_log_of_18_numbers_has_unknown_waits_and_run_times(tmp_path: Path) -> None:
    """Status -1: job 2 has waited 5 s and runs, job 3 has not started."""
    rows = [
        "1 0 0 50 2 -1 -1 2 60 -1 1 1 1 1 1 1 -1 -1",
        "2 10 5 -1 2 -1 -1 2 60 -1 -1 1 1 1 1 1 -1 -1",
        "3 20 -1 -1 -1 -1 -1 4 60 -1 -1 1 1 1 1 1 -1 -1",
        "4 20 -1 -1 -1 -1 -1 4 60 -1 5 1 1 1 1 1 -1 -1",
    ]
    found = snapshot(file_of(tmp_path, "\n".join([*rows, ""]), "log.swf"))
    assert found.running["logged_start_s"].tolist() == [15]
    assert found.queued["num_gpus"].tolist() == [4]
    assert found.history["job_id"].tolist() == ["1"]


def test_a_queued_workload_of_kueue_has_the_cluster_queue_of_its_local_queue(tmp_path: Path) -> None:
    """Of `main` a workload is admitted to `research`; of `other` none is, and `main` of team-b is another queue."""
    admission = '"admission": {"clusterQueue": "research"}, '
    assert admission in KUBERNETES_WORKLOAD
    waits = KUBERNETES_WORKLOAD.split('"conditions"')[0].replace(admission, "") + '"conditions": []}}'
    items = [
        KUBERNETES_WORKLOAD,
        waits.replace("train-1", "train-2"),
        waits.replace("train-1", "train-3").replace('"main"', '"other"'),
        waits.replace("team-a", "team-b"),
    ]
    text = f'{{"apiVersion": "v1", "items": [{", ".join(items)}]}}'
    found = snapshot(file_of(tmp_path, text, "workloads.json"))
    assert dict(zip(found.queued["job_id"], found.queued["tenant"], strict=True)) == {
        "team-a/train-2": "research", "team-a/train-3": "other", "team-b/train-1": "main",
    }  # fmt: skip
    assert found.history["tenant"].tolist() == ["research"]
    assert not any(note.endswith(": 0") for note in found.notes)


# squeue --json


def squeue(folder: Path, *jobs: dict[str, Any], **fields: Any) -> Path:
    return slurm_queue.squeue(folder / "squeue.json", *jobs, **fields)


def test_other_json_is_refused_as_such(tmp_path: Path) -> None:
    (tmp_path / "jobs.json").write_text('{"jobs": []}')
    with pytest.raises(
        TraceError, match=r"found JSON of an unknown format, .*forecast and decide read squeue --json"
    ):
        snapshot(tmp_path / "jobs.json")


def test_squeue_tells_places_limits_and_priorities(tmp_path: Path) -> None:
    pending = job(2, "PENDING", start_time=1_700_009_999, nice=number(5), priority=95)
    found = snapshot(squeue(tmp_path, RUNS, pending, last_update=number(1_700_000_200)))
    assert found.now_s == 1_700_000_200
    assert found.running["job_id"].tolist() == ["1"]
    assert found.queued["logged_start_s"].isna().all()  # Slurm's guess of a start is none
    assert found.present["time_limit_s"].tolist() == [3600, 3600]
    assert found.held["1"] == [("gpu01", 1, (3,)), ("gpu02", 1, (0,))]
    assert found.priority == {"2": 100}


def test_squeue_of_version_22_has_plain_numbers(tmp_path: Path) -> None:
    plain = job(2, "PENDING", time_limit=30, priority=4_294_967_295)
    found = snapshot(squeue(tmp_path, plain, job(3, "PENDING", time_limit=None)))
    assert found.queued["time_limit_s"].tolist() == [1800, 1800]  # the longest one for a job without
    assert found.priority == {"3": 100}
    assert any("modification time of the file" in note for note in found.notes)


def test_jobs_that_wait_for_something_else_are_left_out(tmp_path: Path) -> None:
    held = job(2, "PENDING", state_reason="JobHeldUser")
    ended = job(3, ["COMPLETED"])
    tasks = job(4, "PENDING", array_job_id=number(4), array_task_string="1-3%2")
    found = snapshot(squeue(tmp_path, held, ended, tasks))
    assert found.queued["job_id"].tolist() == ["4_1", "4_2", "4_3"]
    assert any("JobHeldUser): 1" in note for note in found.notes)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("Priority", "queued"),
        ("Resources", "queued"),
        ("BadConstraints", "never"),
        ("PartitionDown", "never"),
        ("PartitionTimeLimit", "never"),
        ("QOSMaxGRESPerJob", "never"),
        ("QOSMaxWallDurationPerJobLimit", "never"),
        ("AssocMaxNodePerJobLimit", "never"),
        ("QOSMaxGRESPerNode", "never"),
        ("QOSMinGRES", "never"),
        ("QOSMaxGRESPerUser", "limit"),
        ("QOSMaxNodePerUserLimit", "limit"),
        ("QOSMaxJobsPerUserLimit", "limit"),
        ("AssocMaxJobsLimit", "limit"),
        ("AssocGrpGRES", "limit"),
        ("MaxGRESPerAccount", "limit"),
        ("Licenses", "limit"),
        ("ReqNodeNotAvail", "limit"),
    ],
)
def test_reasons_of_slurm_are_named(reason: str, kind: str, tmp_path: Path) -> None:
    """A pending job, and the two tasks of an array, for the reasons of Slurm's own list; job 1 runs."""
    tasks = {"array_job_id": number(3), "array_task_string": "1-2"}
    jobs = [job(2, "PENDING", state_reason=reason), job(3, "PENDING", state_reason=reason, **tasks)]
    found = snapshot(squeue(tmp_path, RUNS, *jobs))
    left_out = f"jobs left out, which cannot start ({reason}): 3"
    noted = f"jobs that wait for a limit that is not simulated, taken as waiting for resources ({reason}): 3"
    assert found.queued["job_id"].tolist() == ([] if kind == "never" else ["2", "3_1", "3_2"])
    assert (left_out in found.notes) == (kind == "never")
    assert (noted in found.notes) == (kind == "limit")


@pytest.mark.parametrize(
    ("fields", "column"),
    [
        ({"job_state": "ASLEEP"}, "job_state"),
        ({"submit_time": "yesterday"}, "submit_time"),
        ({"job_id": None}, "job_id"),
        ({"time_limit": True}, "time_limit"),
        ({"array_job_id": 2, "array_task_string": "x-3"}, "array_task_string"),
    ],
)
def test_a_bad_field_of_squeue_is_named(fields: dict[str, Any], column: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=column):
        snapshot(squeue(tmp_path, job(2, "PENDING") | fields))


def test_lists_of_hosts_and_tasks_are_expanded() -> None:
    assert hosts("n[01-03,7],login,r1n[1-2]") == ["n01", "n02", "n03", "n7", "login", "r1n1", "r1n2"]
    assert array_tasks("1-7:3,9%4") == ["1", "4", "7", "9"]
    assert array_tasks("9-1") == array_tasks("a") == array_tasks("") == []


def test_a_file_cut_in_the_middle_is_refused(tmp_path: Path) -> None:
    text = squeue(tmp_path, RUNS).read_text()
    with pytest.raises(TraceError):
        snapshot(file_of(tmp_path, text[: len(text) // 2], "cut.json"))
    assert np.isfinite(snapshot(file_of(tmp_path, text, "full.json")).now_s)


def test_running_jobs_on_shards_are_left_out_since_they_may_share_a_gpu(tmp_path: Path) -> None:
    """With a GPU each, they would hold more GPUs than there are."""
    on_shards = [
        job(k, ["RUNNING"], tres_alloc_str="cpu=4,gres/shard=1", start_time=number(100)) for k in (2, 3)
    ]
    found = snapshot(slurm_queue.squeue(tmp_path / "squeue.json", RUNS, *on_shards))
    alone = snapshot(slurm_queue.squeue(tmp_path / "alone.json", RUNS))
    assert found.running["job_id"].tolist() == alone.running["job_id"].tolist()
    assert any(note.endswith("left out of the snapshot: 2") for note in found.notes)


def test_a_queued_job_on_shards_has_a_whole_gpu_on_each_node(tmp_path: Path) -> None:
    shards = job(2, ["PENDING"], tres_req_str="cpu=4,gres/shard=2", node_count=number(2))
    found = snapshot(slurm_queue.squeue(tmp_path / "squeue.json", RUNS, shards))
    assert found.queued["num_gpus"].tolist() == [2]
    assert any(note.endswith("given one whole GPU on each node: 1") for note in found.notes)


def test_queued_jobs_on_mig_slices_only_are_left_out(tmp_path: Path) -> None:
    """Jobs 2 and 3 ask for slices alone; job 4 also for three whole GPUs, and its total counts all four."""
    tres = (
        "cpu=4,gres/gpu:1g.10gb=2",
        "gres/gpu=3,gres/gpu:a100_3g.20gb=3",
        "gres/gpu=4,gres/gpu:a100=3,gres/gpu:1g.5gb=1",
        "gres/gpu:a100=2,gres/gpu=2",
    )
    jobs = [job(k, ["PENDING"], tres_req_str=each) for k, each in enumerate(tres, 2)]
    found = snapshot(slurm_queue.squeue(tmp_path / "squeue.json", RUNS, *jobs))
    assert found.queued[["job_id", "num_gpus"]].to_numpy().tolist() == [["4", 3], ["5", 2]]
    assert (
        "queued jobs whose MIG slices are not counted, since the simulated cluster has no slices: 3"
        in found.notes
    )
    assert "jobs without GPUs left out of the snapshot: 2" in found.notes


def test_each_pending_task_on_mig_slices_is_counted(tmp_path: Path) -> None:
    tasks = {"array_job_id": number(9), "array_task_string": "1-7", "tres_req_str": "gres/gpu:1g.10gb=1"}
    found = snapshot(slurm_queue.squeue(tmp_path / "squeue.json", RUNS, job(9, ["PENDING"], **tasks)))
    assert found.queued.empty
    assert any(
        note.startswith("queued jobs whose MIG slices") and note.endswith(": 7") for note in found.notes
    )


def test_mig_slices_of_running_jobs_hold_no_whole_gpu(tmp_path: Path) -> None:
    """Jobs 2 and 3 may run on one GPU; jobs 4 and 5 also have a whole GPU, that of job 5 without a type."""
    running = {"start_time": number(1_700_000_100)}
    on_slices = [
        job(k, ["RUNNING"], tres_alloc_str=each, nodes="gpu04", **running)
        for k, each in (
            (2, "gres/gpu:1g.10gb=2"),
            (3, "gres/gpu:3g.20gb=1"),
            (4, "gres/gpu:a100=1,gres/gpu:1g.5gb=1"),
            (5, "gres/gpu=3,gres/gpu:1g.5gb=2"),
        )
    ]
    found = snapshot(slurm_queue.squeue(tmp_path / "squeue.json", RUNS, *on_slices))
    assert found.running[["job_id", "num_gpus"]].to_numpy().tolist() == [["1", 2], ["4", 1], ["5", 1]]
    note = "running jobs whose MIG slices are not counted, since several jobs may run on one GPU: 4"
    assert note in found.notes
