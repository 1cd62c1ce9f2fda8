"""How many cores a GPU each network needs in each configuration of nodes and GPUs, and how many CODA finds.

Measured in the simulator as one would on machines: a job alone, with one core a GPU, two, and so on. It needs the
fewest with which it is as fast as with sixteen but for 2 %. What a network's input takes is fitted to Synergy's curves
(`models.csv`), and grows with the GPUs alike, so on one node the need of each GPU is the same however many there are.
Across nodes cores move gradients too (the part `exchange` of physics, which is off in `coda_mix`): the fewer GPUs a
node has, the fewer cores share that.
"""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gpu_cluster_gym.baselines.coda import Coda
from gpu_cluster_gym.baselines.fixed_cores import FixedCores
from gpu_cluster_gym.experiments import _tables
from gpu_cluster_gym.experiments._trials import Found, Setting
from gpu_cluster_gym.workloads import Window, Workload, prepare
from gpu_cluster_gym.workloads.coda_mix import MODELS

if TYPE_CHECKING:
    from gpu_cluster_gym.evaluation.report import Maker, SideBySide

CONFIGURATIONS = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 2), (2, 4), (2, 8))  # nodes, GPUs
MOST_CORES = 16  # a GPU: plenty
CLOSE = 0.02
RUN_S = 7_200.0
CODA = "coda"


def named(nodes: int, gpus: int) -> str:
    """Return the setting of a configuration, so many GPUs in all, as CODA's authors write it: 2N4G for four on each."""
    return f"{nodes}N{gpus // nodes}G"


def settings(day: Workload) -> list[Setting]:
    """Return a job of each network alone in each configuration, with every number of cores and under CODA."""
    policies: dict[str, Maker] = {cores(each): partial(FixedCores, each) for each in range(1, MOST_CORES + 1)}
    policies[CODA] = Coda
    return [Setting(named(*each), [alone(day, *each)], policies) for each in CONFIGURATIONS]


def cores(each: int) -> str:
    """Return the name of the policy that gives so many to every GPU."""
    return f"{each} cores"


def alone(day: Workload, nodes: int, gpus: int) -> Workload:
    """Return a job of each network, one long after another, on just the GPUs it asks for."""
    rows = day.table[day.table["kind"] == "gpu"].drop_duplicates("model").set_index("model")
    table = rows.loc[list(MODELS)].reset_index()
    table = table.assign(
        job_id=table["model"],
        submit_s=10 * RUN_S * np.arange(len(table)),
        num_gpus=gpus,
        cpu_cores=MOST_CORES * gpus,
        **dict.fromkeys(("duration_s", "profiled_duration_s", "predicted_duration_s"), RUN_S),
    )
    each = gpus // nodes
    machines, physics = f"{nodes}x{each}-{MOST_CORES * each}c", f"{day.scenario.physics},links,exchange"
    scenario = replace(day.scenario, cluster=machines, physics=physics)
    return prepare(table[list(day.table)], scenario, window=Window("test", 0))


def needs(found: Found, configuration: tuple[int, int]) -> pd.DataFrame:
    """Return for each network the cores a GPU that it needs, and those that it has under CODA on the mean."""
    place = named(*configuration)
    runs = pd.DataFrame(
        {
            each: found.results[place, cores(each)].set_index("job_id")["run_s"]
            for each in range(1, MOST_CORES + 1)
        }
    )
    enough = runs.le((1 + CLOSE) * runs[MOST_CORES], axis="index")
    tuned = found.results[place, CODA].set_index("job_id")
    given = tuned["core_s"] / tuned["run_s"] / configuration[1]
    return pd.DataFrame({"needs": enough.idxmax(axis="columns"), CODA: given})


def table(found: Found) -> "SideBySide":
    """Return cores a GPU needed / given by CODA, by network and configuration."""
    each = {configuration: needs(found, configuration) for configuration in CONFIGURATIONS}
    rows = [
        [model, *(f"{one['needs'][model]} / {one[CODA][model]:.1f}" for one in each.values())]
        for model in MODELS
    ]
    headings = ["network", *(named(*configuration) for configuration in CONFIGURATIONS)]
    return _tables.grid(
        "Cores a GPU: needed / under CODA on the mean, by nodes and GPUs of each", headings, rows
    )
