"""A real Slurm as referee: how far mean waits and the order of starts are from the simulator's, and why.

    python -m benchmarks.slurm_referee run OUT --scheduler builtin backfill [--jobs 1000] [--span 720]
    python -m benchmarks.slurm_referee compare OUT
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.local_slurm import LocalSlurm, Submission, missing
from gpu_cluster_gym.traces import stream
from gpu_cluster_gym.workloads import Scenario, full_trace

NODES, SIZE, WIDEST = 8, 8, 32
CLUSTER = f"{NODES}x{SIZE}"
LOAD = 0.95
SHORTEST_S, LONGEST_S = 2.0, 90.0
LIMIT_FACTORS = (1.0, 4.0)
"""Least and largest ratio of a time limit to the run time, before it is rounded up to minutes."""
LOG_NAME, ACCOUNT_NAME, JOBS_NAME = "slurmctld.log", "sacct.txt", "jobs.csv"


def submissions(jobs: int, span_s: float, seed: int) -> list[Submission]:
    """Return jobs with widths and run times of Philly's generator, scaled to a load of `LOAD` over the span."""
    plain = Scenario(trace="philly", full_trace=True, jobs=2 * jobs, seed=seed, cluster=CLUSTER, physics="none")
    table = full_trace(replace(plain, drop_too_large=True)).table
    table = table[table["num_gpus"] <= WIDEST].iloc[:jobs]
    gpus = table["num_gpus"].to_numpy()
    gpus = np.where(gpus <= SIZE, gpus, SIZE * -(-gpus // SIZE))
    draw = stream(seed, "slurm referee")
    submit_s = np.cumsum(draw.exponential(1.0, jobs))
    run_s = scaled(table["duration_s"].to_numpy(float), gpus, LOAD * NODES * SIZE * span_s)
    limits = np.ceil(run_s * draw.uniform(*LIMIT_FACTORS, jobs) / 60.0)
    columns = zip(submit_s * span_s / submit_s[-1], gpus, run_s, limits, strict=True)
    return [Submission(float(at_s), int(width), float(run), int(limit)) for at_s, width, run, limit in columns]


def scaled(duration_s: np.ndarray, gpus: np.ndarray, gpu_seconds: float) -> np.ndarray:
    """Return run times times a factor, within the bounds, whose sum of GPU-seconds is the given one."""
    low, high = 1e-9, 1e3
    for _ in range(200):
        middle = np.sqrt(low * high)
        run_s = np.clip(duration_s * middle, SHORTEST_S, LONGEST_S)
        low, high = (low, middle) if (run_s * gpus).sum() > gpu_seconds else (middle, high)
    return np.asarray(np.round(run_s, 3))


def run_slurm(scheduler: str, jobs: Sequence[Submission], out: Path) -> None:
    """Run the jobs under one of Slurm's schedulers; write its accounting, its log and the jobs."""
    out.mkdir(parents=True, exist_ok=True)
    memory = Path("/dev/shm")  # Slurm saves its state at each submission, which a slow disk makes a delay of its own
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
