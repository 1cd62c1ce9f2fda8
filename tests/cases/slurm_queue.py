"""A queue of Slurm as `squeue --json` prints it, and the nodes as `scontrol show nodes --json` does, both invented."""

import json
from pathlib import Path
from typing import Any

NODES = {
    "nodes": [
        {"name": "gpu02", "state": ["IDLE"], "gres": "gpu:a100:4(S:0-1)", "cpus": 64},
        {"name": "gpu01", "state": ["MIXED"], "gres": "gpu:8", "cpus": 48},
        {"name": "gpu03", "state": ["IDLE", "DRAIN"], "gres": "gpu:8", "cpus": 48},
        {"name": "cpu01", "state": ["IDLE"], "gres": "", "cpus": 48},
    ]
}


def number(value: float) -> dict[str, Any]:
    """Return a number as recent versions write it."""
    return {"set": True, "infinite": False, "number": value}


def job(job_id: int, state: Any, **fields: Any) -> dict[str, Any]:
    """Return a job of 2 GPUs for at most an hour."""
    usual = {
        "job_id": job_id,
        "job_state": state,
        "submit_time": 1_700_000_000,
        "start_time": 0,
        "time_limit": number(60),
        "tres_req_str": "cpu=4,mem=1G,node=1,gres/gpu=2",
        "user_name": "ann",
        "priority": number(100),
        "nice": 0,
    }
    return usual | fields


RUNS = job(
    1, ["RUNNING"], start_time=number(1_700_000_100), tres_alloc_str="cpu=4,gres/gpu:a100=2,gres/gpu=2",
    nodes="gpu[01-02]", gres_detail=["gpu:1(IDX:3)", "gpu:a100:1(IDX:0)"],
)  # fmt: skip


def squeue(file: Path, *jobs: dict[str, Any], **fields: Any) -> Path:
    """Write the queue and return the file."""
    document = {"jobs": list(jobs), "meta": {"slurm": {"release": "24.05"}}, **fields}
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def small_queue(folder: Path) -> None:
    """Write `squeue.json` and `nodes.json`: a running job, and three that queue."""
    queued = [job(each, ["PENDING"], tres_req_str="gres/gpu=4") for each in (2, 3, 4)]
    squeue(folder / "squeue.json", RUNS, *queued, last_update=number(1_700_000_200))
    (folder / "nodes.json").write_text(json.dumps(NODES), encoding="utf-8")
