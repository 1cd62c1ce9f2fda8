"""Original files of public traces, and exports of Kubernetes, become the hand-computed table."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gpu_cluster_gym import traces
from tests.cases.bad_logs import ACME, KUBERNETES_JOB, KUBERNETES_WORKLOAD, OPENB, PAI_JOBS, PAI_TASKS, SPOT


def read(folder: Path, text: str, name: str = "log.csv") -> pd.DataFrame:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return traces.load(file=file, seed=0)


def rows(table: pd.DataFrame, *names: str) -> list[list[Any]]:
    return [list(row) for row in table[list(names)].itertuples(index=False)]


def noted(table: pd.DataFrame, what: str) -> int:
    """Return the count of the one note that contains a text."""
    (note,) = (note for note in table.attrs["notes"] if what in note)
    return int(note.rpartition(": ")[2].replace(",", ""))


# Acme


def test_acme_counts_run_times_from_the_start(tmp_path: Path) -> None:
    """The second job's duration counts from its submission, as in Kalos; the third asks for no GPU."""
    table = read(
        tmp_path,
        f"{ACME.header}\n{ACME.job}\n"
        "2,u2,2,16,64,Other,FAILED,2023-05-17 11:00:00Z,2023-05-17 11:00:10Z,2023-05-17 11:00:30Z,30,10,1\n"
        "3,u2,1,0,8,CPU,COMPLETED,2023-05-17 11:00:00Z,2023-05-17 11:00:00Z,2023-05-17 11:01:00Z,60,0,0\n"
        "4,u2,1,1,8,Other,CANCELLED,2023-05-17 11:00:00+00:00,,,0,0,0\n",
    )
    assert rows(table, "job_id", "submit_s", "logged_start_s", "num_gpus", "duration_s", "kind") == [
        ["1", 0, 30, 8, 120, "gpu"],
        ["2", 6703800, 6703810, 16, 20, "gpu"],
        ["3", 6703800, 6703800, 0, 60, "cpu"],
    ]
    assert noted(table, "count from the submission") == 1
    assert noted(table, "no run time") == 1


# openb


def test_openb_rounds_shares_up_and_says_so(tmp_path: Path) -> None:
    table = read(
        tmp_path,
        f"{OPENB.header}\n{OPENB.job}\n"
        "p2,88000,327680,8,1000,V100M16|V100M32,Burstable,Succeeded,200,7200,260.0\n"
        "p3,4000,8192,0,0,,LS,Failed,300,350,300.0\n"
        "p4,16000,32768,2,1000,,LS,Pending,400,4000,\n"
        "p5,16000,32768,2,1000,,LS,Running,400,,500\n",
    )
    assert rows(table, "job_id", "submit_s", "logged_start_s", "num_gpus", "duration_s", "gpu_type") == [
        ["p1", 0, 5, 1, 795, "none"],
        ["p2", 100, 160, 8, 6940, "V100M16|V100M32"],
        ["p3", 200, 200, 0, 50, "none"],
    ]
    assert noted(table, "(0.46 GPUs requested, 1 simulated)") == 1
    assert noted(table, "never scheduled") == 1
    assert noted(table, "unfinished") == 1


# Spot


def test_spot_jobs_are_gangs_of_all_their_workers(tmp_path: Path) -> None:
    table = read(tmp_path, f"{SPOT.header}\n{SPOT.job}\n2,57,A100-SXM4-80GB,15,0.5,3,600,41000,Spot\n")
    assert rows(table, "job_id", "submit_s", "num_gpus", "duration_s", "tenant", "qos") == [
        ["1", 0, 4, 100000, "13", "HP"],
        ["2", 600, 2, 41000, "57", "Spot"],  # 1.5 GPUs
    ]
    assert "logged_start_s" not in table


# PAI


def pai(folder: Path, jobs: str, tasks: str, name: str = "pai_job_table.csv") -> pd.DataFrame:
    (folder / "pai_job_table.csv").write_text(jobs)
    (folder / "pai_task_table.csv").write_text(tasks)
    return traces.load(file=folder / name, seed=0)


@pytest.mark.parametrize("name", ["pai_job_table.csv", "pai_task_table.csv"])
def test_pai_sums_the_instances_of_all_tasks(tmp_path: Path, name: str) -> None:
    table = pai(tmp_path, PAI_JOBS, PAI_TASKS, name)
    assert rows(table, "job_id", "submit_s", "logged_start_s", "num_gpus", "duration_s", "cpu_cores") == [
        [
            "j1",
            0,
            10,
            4,
            3590,
            44,
        ],  # a parameter server of 6 cores; 4 workers of 8 cores and a GPU, or 38 + 6
        ["j2", 200, 205, 1, 55, 6],  # half a GPU
    ]
    assert table["gpu_type"].tolist() == ["V100", "MISC"]
    for what in ("(running)", "(waiting)", "several tasks", "(0.50 GPUs requested, 1 simulated)"):
        assert noted(table, what) == 1


def test_pai_needs_both_tables_and_names_the_other(tmp_path: Path) -> None:
    (tmp_path / "pai_job_table.csv").write_text(PAI_JOBS)
    with pytest.raises(traces.TraceError, match=r"expected pai_task_table.csv too, in the same folder"):
        traces.load(file=tmp_path / "pai_job_table.csv", seed=0)
    with pytest.raises(traces.TraceError, match=r"expected pai_job_table.csv and, in the same folder"):
        read(tmp_path, "mach01,MISC,96,512,8\n", "pai_machine_table.csv")


# Kubernetes


def listed(folder: Path, *items: Any) -> pd.DataFrame:
    text = json.dumps({"apiVersion": "v1", "items": list(items), "kind": "List"}, indent=1)
    return read(folder, text, "jobs.json")


def test_workloads_of_kueue_give_waits(tmp_path: Path) -> None:
    table = listed(tmp_path, json.loads(KUBERNETES_WORKLOAD))
    assert table.to_dict("records") == [
        {
            "job_id": "team-a/train-1",
            "submit_s": 0.0,
            "num_gpus": 8,
            "duration_s": 3600.0,
            "cpu_cores": 32,
            "tenant": "research",
            "partition": "team-a",
            "qos": "high",
            "gpu_type": "NVIDIA-A100-SXM4-80GB",
            "time_limit_s": 7200.0,
            "status": "Finished",
            "logged_start_s": 300.0,
            "profiled_duration_s": 7200.0,
            "predictable_from": 1.0,
        }
    ]


def test_limits_may_be_longer_than_a_million_seconds(tmp_path: Path) -> None:
    job = json.loads(KUBERNETES_JOB)
    job["spec"]["activeDeadlineSeconds"] = 30 * 86_400
    assert listed(tmp_path, job)["time_limit_s"].tolist() == [30 * 86_400]


def test_a_job_and_its_workload_count_once(tmp_path: Path) -> None:
    table = listed(tmp_path, json.loads(KUBERNETES_WORKLOAD), json.loads(KUBERNETES_JOB))
    assert table["job_id"].tolist() == ["team-a/train-1"]
    assert noted(table, "whose Workload is also in the file") == 1


def test_jobs_without_kueue_are_read_with_a_warning(tmp_path: Path) -> None:
    job = json.loads(KUBERNETES_JOB)
    del job["metadata"]["labels"]
    job["spec"] |= {"completions": 6}
    container = job["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"nvidia.com/mig-3g.20gb": "2", "cpu": "500m"}}
    pod = {"kind": "Pod", "metadata": {"name": "p"}}
    running = json.loads(KUBERNETES_JOB)
    running["metadata"] |= {"name": "later", "uid": "2"}
    del running["status"]["completionTime"]
    table = listed(tmp_path, job, pod, running)
    assert rows(table, "num_gpus", "cpu_cores", "duration_s") == [[2, 1, 3600]]  # 2 pods of 6/7 GPU
    for what in (
        "Jobs without a queue",
        "more completions",
        "MIG slices",
        "neither Jobs nor Workloads",
        "unfinished",
    ):
        assert noted(table, what) == 1


def test_an_array_of_objects_is_read_too(tmp_path: Path) -> None:
    table = read(tmp_path, f"[{KUBERNETES_WORKLOAD}]", "jobs.json")
    assert table["job_id"].tolist() == ["team-a/train-1"]
