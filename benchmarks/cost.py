"""CPU time and memory of a simulated job by cluster size: `python -m benchmarks.cost`.

Each row is measured in a process of its own: ten Philly-like jobs per GPU at a load of 0.85, from an empty cluster to
the last job, with the physics `standard`. The second run counts, since the first compiles. Memory is the process's
maximum, libraries included. The row `ppo` is PPO of Stable-Baselines3 on 64 environments of `philly`, where a step
counts as a job.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from benchmarks.speed_rows import learner_envs, learning
from docs.pages.markdown import table
from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import Scenario, full_trace

NODES = (13, 125, 1024)
"""Nodes of eight GPUs."""
JOBS_PER_GPU = 10
ROWS = (
    *(
        (nodes, policy)
        for nodes in NODES
        for policy in ("srtf", "xion", "union")
        if policy != "union" or nodes < 1024
    ),
    (16, "ppo"),
)
"""Nodes and policies; `union` is measured up to 1,000 GPUs."""
STEPS = 8_192
MAX_JOBS = {"union": 2_000}
"""Maximum number of jobs, by policy."""


def simulated(nodes: int, policy: str) -> dict[str, float]:
    """Return CPU seconds, jobs and the peak memory (MB) of a policy on this number of nodes of eight GPUs."""
    jobs = min(JOBS_PER_GPU * 8 * nodes, MAX_JOBS.get(policy, sys.maxsize))
    load = full_trace(
        Scenario(
            trace="philly",
            full_trace=True,
            cluster=f"{nodes}x8",
            jobs=jobs,
            target_load=0.85,
            drop_too_large=True,
        )
    )
    for _ in range(2):
        episode, made = load.episode(), baselines.make(baselines.load(policy))
        began = time.process_time()
        run(made, episode)
        seconds = time.process_time() - began
    return {"cpu_s": seconds, "jobs": len(load.jobs), "mb": peak_mb()}


def trained() -> dict[str, float]:
    """Return CPU seconds, steps and the peak memory (MB) of learning by PPO."""
    work = learning(learner_envs("plain"), STEPS)
    for _ in range(2):
        model = work.prepare()
        began = time.process_time()
        work.run(model)
        seconds = time.process_time() - began
    return {"cpu_s": seconds, "jobs": STEPS, "mb": peak_mb()}


def peak_mb() -> float:
    """Return the maximum memory of this process so far, MB."""
    return (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
    )


def in_a_process(nodes: int, policy: str) -> dict[str, float]:
    """Return the measurement of one row, made by another process."""
    command = [sys.executable, "-m", "benchmarks.cost", "--one", str(nodes), policy]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def rows() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table."""
    for nodes, policy in ROWS:
        found = in_a_process(nodes, policy)
        each = f"{1e3 * found['cpu_s'] / found['jobs']:.2g} ms"
        yield f"{8 * nodes:,}", f"`{policy}`", f"{found['jobs']:,}", each, f"{found['mb']:,.0f} MB"


def main(args: Sequence[str] | None = None) -> int:
    """Print the table, or the measurement of one row."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--one", nargs=2, metavar=("NODES", "POLICY"), help="measure one row, as JSON")
    chosen = parser.parse_args(args)
    if chosen.one:
        nodes, policy = chosen.one
        print(json.dumps(trained() if policy == "ppo" else simulated(int(nodes), policy)))
    else:
        print(table(("GPUs", "policy", "jobs", "CPU time per job", "memory"), rows()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
