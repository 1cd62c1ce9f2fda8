"""Jobs like the sixty of AITurbo's laboratory: a burst on four GPUs, which run for their steps times the step time.

Fitted to the jobs that the same laboratory's later prototype submits (github.com/MaoZzzzz/Aiturbo-vGPU, sixty in 212 s;
none of its rows is kept): shares of networks with their batch sizes, shares of servers and workers, steps lognormal
about 458 (0.91), 24 of 60 turn predictable at 9 to 89 % of their run, up to 4 workers and 10 servers. Two nodes of two
GPUs and 32 cores, as there. What a step takes is computed by the simulator's own formula: a network of `models.csv` on
an RTX 2080 Ti, whose 11 GB theirs have, with the batch divided by workers, and its exchange through servers over the
network. How fast that network is they do not say: at 1 Gb/s jobs run for 70 minutes on average in the shape asked for,
and their plots have 80 to 180; at 10 Gb/s it is ten.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gpu_cluster_gym import traces
from gpu_cluster_gym.experiments import _tables
from gpu_cluster_gym.experiments._trials import Found, Setting, changed
from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.traces import ERRORS, WORKER_CORES
from gpu_cluster_gym.workloads import Window, Workload, filled, named, prepare, seed_of_jobs
from gpu_cluster_gym.workloads.aiturbo_ps import CPU_SLOWDOWN, PAUSE_SHARE, RESTART_S

if TYPE_CHECKING:
    from gpu_cluster_gym.evaluation.report import Maker, SideBySide

MACHINES = "2x2-32c"
JOBS, BURST_S = 60, 212.0
KINDS = {  # network, batch of all workers: jobs of sixty
    ("alexnet", 1024): 6,
    ("googlenet", 256): 8,
    ("inception_v3", 64): 7,
    ("inception_v4", 32): 7,
    ("resnet50", 64): 5,
    ("resnet101", 64): 6,
    ("resnet152", 32): 5,
    ("vgg11", 128): 6,
    ("vgg16", 64): 5,
    ("vgg19", 32): 5,
}
SHAPES = {(1, 2): 28, (2, 1): 20, (2, 2): 12}  # servers, workers
STEPS, STEPS_SPREAD = 458.0, 0.91
TURNING, TURNS_AT = 0.4, (0.09, 0.89)
MOST_WORKERS = 4
NETWORKS_GBS = {"1 Gb/s": 0.125, "10 Gb/s": 1.25}
SLOWER = "1 Gb/s"
RUN_TIMES = ("duration_s", "profiled_duration_s", "predicted_duration_s")
PLOTTED = {"fifo_strict": 3.39, "srtf": 1.53, "optimus": 1.45, "tiresias": 2.26}
"""Mean JCT over AITurbo's in that laboratory's plotting scripts, which hold such figures entered by hand."""


def lab(network: str) -> str:
    """Return the name of the setting with this network."""
    return f"the laboratory's jobs, {network}"


def restarting(policy: str) -> str:
    """Return the name of the setting in which this policy's rounds restart every job, on the slower network."""
    return f"{lab(SLOWER)}, all restarted in every round of {policy}"


def settings(
    loads: list[Workload], policies: Mapping[str, "Maker"], rounds_s: Mapping[str, float]
) -> list[Setting]:
    """Return as many bursts as there are trials, on either network, and with restarts of all jobs in every round.

    rounds_s: of these policies in the prototype, where every round deletes and restarts all that runs. A job's run time
    is longer here by as much as is lost so.
    """
    windows = [(load.window, seed_of_jobs(load.scenario, load.window)) for load in loads]
    found = [
        Setting(lab(network), [burst(window, seed, gbs) for window, seed in windows], policies)
        for network, gbs in NETWORKS_GBS.items()
    ]
    for policy, every_s in rounds_s.items():
        longer = partial(_run_longer, factor=every_s / (every_s - RESTART_S) if every_s else 1.0)
        found.append(
            Setting(restarting(policy), changed(found[0].workloads, longer), {policy: policies[policy]})
        )
    return found


def _run_longer(table: pd.DataFrame, factor: float) -> pd.DataFrame:
    return table.assign(**{name: factor * table[name] for name in RUN_TIMES})


def burst(window: Window, seed: int, network_gbs: float) -> Workload:
    """Return sixty jobs, decided by the seed, whose workers and servers exchange over such a network."""
    scenario = named("aiturbo_ps")
    scenario = type(scenario)(**vars(scenario) | {"cluster": MACHINES})
    table = traces.check(_with_estimates(_jobs(seed, network_gbs), seed))
    return prepare(filled(table, scenario, seed=seed), scenario, window=window)


def _jobs(seed: int, network_gbs: float) -> pd.DataFrame:
    rng = traces.stream(seed, "aiturbo lab")
    kinds, shapes = np.array(list(KINDS), object), np.array(list(SHAPES))
    model, batch = kinds[rng.choice(len(kinds), JOBS, p=_shares(KINDS))].T
    servers, workers = shapes[rng.choice(len(shapes), JOBS, p=_shares(SHAPES))].T
    steps = rng.lognormal(np.log(STEPS), STEPS_SPREAD, JOBS)
    profile = traces.models().loc[list(model)]
    alpha_s = profile["alpha_s"].to_numpy()
    batch_s = (
        batch.astype(float) * (profile["beta_s_per_sample_V100_fp32"] / profile["speed_RTX2080Ti"]).to_numpy()
    )
    exchanged_gb = profile["sync_MB"].to_numpy() / 1000
    step_s = alpha_s + batch_s / workers + 2 * exchanged_gb * workers / servers / network_gbs
    columns = {
        "job_id": [f"lab-{row}" for row in range(JOBS)],
        "submit_s": np.sort(rng.random(JOBS)) * BURST_S,
        "num_gpus": workers,
        "duration_s": steps * step_s,
        "model": model,
        "cpu_cores": WORKER_CORES * workers,
        "pause_s": PAUSE_SHARE * RESTART_S,
        "load_s": (1 - PAUSE_SHARE) * RESTART_S,
        "servers": servers,
        "min_workers": 1,
        "max_workers": MOST_WORKERS,
        "scaling_loss": alpha_s / (alpha_s + batch_s),
        "cpu_slowdown": [CPU_SLOWDOWN.get(name, 0.0) for name in model],  # 0: cannot
        "active_ms": 1000 * (alpha_s + batch_s / workers),
        "idle_ms": 0.0,
        "sync_gb": exchanged_gb
        * cluster(MACHINES).inter_gbs
        / network_gbs,  # the simulated network is faster
        "gpu_memory_gib": 8.0,  # without meaning: no GPU is shared
    }
    return pd.DataFrame(columns)


def _shares(counts: Mapping[Any, int]) -> list[float]:
    return [count / sum(counts.values()) for count in counts.values()]


def _with_estimates(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    rng = traces.stream(seed, "aiturbo lab estimates")
    turns = np.where(rng.random(JOBS) < TURNING, rng.uniform(*TURNS_AT, JOBS), 1.0)
    good, bad = (table["duration_s"] * np.exp(error * rng.standard_normal(JOBS)) for error in ERRORS)
    return table.assign(predictable_from=turns, profiled_duration_s=bad, predicted_duration_s=good)


def table(found: Found, aiturbo: str, compared: Mapping[str, str]) -> "SideBySide":
    """Return mean JCTs over AITurbo's on either network, and as plotted; compared: policies, and what is plotted."""
    rows = []
    for policy, plotted in compared.items():
        row = [policy, f"{PLOTTED[plotted]:.2f}" if plotted else ""]
        pairs = [((lab(network), policy), (lab(network), aiturbo)) for network in NETWORKS_GBS]
        if (restarting(policy), policy) in found.summaries:
            pairs.append(((restarting(policy), policy), (restarting(aiturbo), aiturbo)))
        each = [" ".join(_tables.texts(found.ratio(*pair), "{:.2f}")) for pair in pairs]
        rows.append([*row, *each, *[""] * (len(NETWORKS_GBS) + 1 - len(each))])
    trials = found.counts()[lab(SLOWER)]
    headings = ["policy", "plotted", *NETWORKS_GBS, f"{SLOWER}, each round\nrestarts all jobs"]
    return _tables.grid(f"The laboratory's jobs: mean JCT / AITurbo's ({trials} trials)", headings, rows)


def remark(found: Found, aiturbo: str) -> str:
    """Say what of the laboratory's plots cannot be of these jobs, and what is left to explain."""
    names = ("mean_jct_s", "mean_idle_s", "mean_wait_s")
    jct, idle, wait = (found.mean((lab(SLOWER), aiturbo), name).mean / 60 for name in names)
    return (
        "The laboratory plots 80 minutes of training and 30 of queueing for AITurbo. Its sixty jobs on four whole GPUs "
        f"cannot have both: where they train for {jct - idle:.0f} minutes here they queue for {wait:.0f}, since the "
        "last comes after 212 s. So the plots are of another cluster, of later arrivals, or of shared GPUs. AITurbo "
        "holds 60 % of these jobs unpredictable and does not resize them, and Optimus gains by that; that every round "
        "restarts all jobs, SRTF's most often, explains a part of SRTF's place in the plots."
    )
