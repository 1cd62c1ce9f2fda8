"""Slowdowns of pairs of training jobs that share a GPU, measured by others, and what the kernel computes for them."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from benchmarks.measured_speeds import AT_ONCE, SPEEDS, Floats, Points, arrays, profiles
from gpu_cluster_gym.simulator.cluster import uniform
from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.physics import CONTENTION, CONTENTION_OF_EXCESS, Physics
from gpu_cluster_gym.simulator.policy import Placement, Start, Wait

PAIRS = "colocation.csv"
JOB = ["model", "dataset", "batch", "precision"]
SLOPES = np.arange(0.0, 3.0, 0.01)  # among which the best is looked for
ROOM_GIB = 1000.0  # of a GPU: that two jobs fit has been seen
FORMS: dict[Literal["turns", "excess"], float] = {"turns": CONTENTION, "excess": CONTENTION_OF_EXCESS}


def colocation(folder: Path) -> Points:
    """Return the slowdowns of both jobs of pairs on a GPU, by each form with the k of V100s and with the best of a row.

    `left out`: k is fitted to the pairs without the models of the pair, one of the two left out at a time.
    """
    jobs = sides(folder)
    points = pd.DataFrame({"what": jobs["gpu"], "measured": jobs["slowdown"]})
    beyond = {form: slowdowns(jobs, form, 1.0) - 1 for form in FORMS}
    for form, by_default in FORMS.items():
        points[f"{form}\nk {by_default:g}"] = 1 + by_default * beyond[form]
        if form == "turns":
            points[f"{form}\nfitted"] = in_each(jobs, beyond[form], fitted)
        points[f"{form}\nleft out"] = in_each(jobs, beyond[form], left_out)
    points["constant\nleft out"] = in_each(jobs, np.ones(len(jobs)), left_out)
    return points


def sides(folder: Path) -> pd.DataFrame:
    """Return the jobs of measured pairs, one after the other, as measured alone (Lucid) or else as profiled."""
    pairs = pd.read_csv(folder / PAIRS).query("status == 'ok'").reset_index(names="pair")
    here = []
    for own, other in ("ab", "ba"):
        names = {f"{name}_{own}": name for name in (*JOB, "slowdown")} | {f"model_{other}": "beside"}
        here.append(pairs.rename(columns=names)[[*names.values(), "pair", "gpu", "source"]])
    jobs = pd.concat(here).sort_values("pair", kind="stable").reset_index(drop=True)
    speeds = pd.read_csv(folder / SPEEDS, dtype={"note": str}).query("source == 'lucid'")
    lucid = speeds.rename(columns={"batch_per_gpu": "batch"}).groupby(JOB)[
        ["gpu_util_pct", "gpu_mem_mib", "throughput_samples_per_s"]
    ]
    seen = lucid.mean().reindex(pd.MultiIndex.from_frame(jobs[JOB])).set_axis(jobs.index)
    models, batch, profiled = profiles(jobs["model"]), jobs["batch"], jobs["source"] != "lucid"
    seconds = models["alpha_s"] + models["beta_s_per_sample_V100_fp32"] * batch
    memory = models["mem_fixed_MiB"] + models["mem_per_sample_MiB"] * batch
    jobs["duty"] = seen["gpu_util_pct"].mask(profiled, models["gpu_util_default_pct"]) / 100
    jobs["gpu_s"] = (batch / seen["throughput_samples_per_s"]).mask(profiled, seconds)
    jobs["gpu_memory_gib"] = seen["gpu_mem_mib"].mask(profiled, memory) / 1024
    known = jobs[["duty", "gpu_s", "gpu_memory_gib"]].notna().all(axis="columns")
    return jobs[known.groupby(jobs["pair"]).transform("all")].reset_index(drop=True)


def slowdowns(
    jobs: pd.DataFrame, form: Literal["turns", "excess"], contention: float, loss: float = 0.0
) -> Floats:
    """Return how much slower than alone jobs are, of which each two that follow one another share a GPU.

    jobs: `gpu_s` of an iteration alone, `duty` and `gpu_memory_gib`.
    """
    found = [np.empty(0)]
    for pairs in np.array_split(np.arange(len(jobs)).reshape(-1, 2), 1 + len(jobs) // (2 * AT_ONCE)):
        machines = uniform(1, len(pairs), ROOM_GIB)
        each = jobs.iloc[pairs.ravel()]
        each = each.assign(num_gpus=1, idle_ms=1000 * each["gpu_s"] * (1 - each["duty"]))
        physics = Physics(max_share=2, contention_form=form, contention=contention, contention_loss=loss)
        episode = Episode(arrays(each, machines, "memory"), machines, exact=True, physics=physics)
        episode.advance()
        for job in range(len(each)):
            episode.apply(Start(job, Placement((job // 2,))))
        episode.apply(Wait(1.0))
        episode.advance()
        found.append(1 / episode.view.jobs.attained_s)
    return np.concatenate(found)


def in_each(jobs: pd.DataFrame, beyond: Floats, found: Callable[[pd.DataFrame, Floats], Floats]) -> Floats:
    """Return 1 + k x beyond, with the k that is found for the pairs of each type of GPU by themselves."""
    slower = np.empty(len(jobs))
    for rows in jobs.groupby("gpu").indices.values():
        slower[rows] = found(jobs.iloc[rows], beyond[rows])
    return slower


def fitted(jobs: pd.DataFrame, beyond: Floats) -> Floats:
    """Return the slowdowns with the k that fits these pairs best."""
    return 1 + slope(jobs, beyond) * beyond


def left_out(jobs: pd.DataFrame, beyond: Floats) -> Floats:
    """Return the slowdowns with k fitted to the pairs that a model has no part in: of a pair's two, the mean of both.

    The mean is that of logarithms.
    """
    total, count = np.zeros(len(jobs)), np.zeros(len(jobs))
    for model in jobs["model"].unique():
        out = ((jobs["model"] == model) | (jobs["beside"] == model)).to_numpy()
        k = slope(jobs[~out], beyond[~out])
        total[out] += np.log(1 + k * beyond[out])
        count[out] += 1
    slower: Floats = np.exp(total / count)
    return slower


def slope(jobs: pd.DataFrame, beyond: Floats) -> float:
    """Return the k of the least mean error of the logarithm."""
    errors = np.abs(np.log(1 + SLOPES[:, None] * beyond) - np.log(jobs["slowdown"].to_numpy()))
    return float(SLOPES[errors.mean(axis=1).argmin()]) if len(jobs) else 0.0
