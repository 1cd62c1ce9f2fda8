"""Restarts and first starts of jobs that others have measured, and what traces are filled with for like jobs."""

from collections.abc import Hashable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.measured_speeds import Floats, Points, parameters
from gpu_cluster_gym import traces

PAUSES = "preemption_measurements.csv"
UP_TO_8, ABOVE_8 = (1, 2, 4, 8), (16, 32)  # GPUs
TACC = ("lstm", "recoder", "resnet18", "resnet50", "transformer")
SIMPLE_CNNS = ("alexnet", "googlenet", "inception_v3", "inception_v4", "vgg11", "vgg16", "vgg19")
TIRESIAS = (*SIMPLE_CNNS, "resnet50", "resnet101", "resnet152")
SIA = ("resnet50", "bert_base", "yolov3", "resnet18", "deepspeech2", "neumf")
SMALL = ("dcgan", "efficientnet_b0", "mobilenet_v2", "mobilenet_v3", "neumf", "pointnet", "ppo", "resnet18")
LUCID = (*SMALL, "lstm", "resnet50", "bert_base", "transformer")
ELASTICFLOW = ("vgg16", "resnet50", "inception_v3", "bert_base", "gpt2_small", "deepspeech2")
SHARES = np.arange(0.0, 1.01, 0.01)  # of data_reopen_s, among which the best is looked for
CONSTANTS_S = np.arange(5.0, 100.0, 0.5)
MOST_OF_TACC = 1 - 0.5 / 101  # the level of the largest of its 101
EACH = 4000  # jobs drawn of each model and number of GPUs


class Told(NamedTuple):
    """A measurement: whose, its seconds, of which jobs; a quantile if it has a level, else a mean.

    first: it is of first starts on made-up data. capped: it is the most that was counted.
    """

    what: str
    seconds: float
    models: tuple[str, ...]
    gpus: tuple[int, ...] = (1,)
    first: bool = False
    level: float | None = None
    capped: bool = False


def preemption(folder: Path) -> Points:
    """Return seconds that restarts and first starts take, as filled and by one constant for all.

    `left out`: how much of the data is reopened, or the constant, is fitted to the other sources alone.
    """
    found = [row for cells in pd.read_csv(folder / PAUSES).to_dict("records") if (row := told(cells))]
    points = pd.DataFrame({"what": [row.what for row in found], "measured": [row.seconds for row in found]})
    for cost in ("high", "measured"):
        points[f"{cost}\nas filled"] = [as_filled(row, cost) for row in found]
    by_share = np.array(
        [
            as_filled(row, "measured") * (1.0 if row.first else by_mean(row, SHARES)) * np.ones(len(SHARES))
            for row in found
        ]
    )
    capped = np.array([row.seconds if row.capped else np.inf for row in found])[:, None]
    points["measured\nleft out"] = left_out(points, np.minimum(by_share, capped))
    constants = np.minimum(np.broadcast_to(CONSTANTS_S, (len(found), len(CONSTANTS_S))), capped)
    points["constant"] = constants[:, errors(points, constants).argmin()]
    points["constant\nleft out"] = left_out(points, constants)
    return points


def told(cells: dict[Hashable, str]) -> Told | None:
    """Return a row of the measurements; None for one whose unit, or whose jobs, are not told."""
    model, what, text = cells["model"].split(" ")[0], cells["what"], cells["seconds"]
    known = model in set(parameters("models.csv")["model"])
    match what.split(",")[0].split(" (")[0], known:
        case "checkpoint+restart", True:
            return Told("Sia, by model", float(text), (model,))
        case "checkpoint+restart", False:
            return Told("Pollux, one for all", float(text), SIA, UP_TO_8)
        case "preemption", _:
            return Told("mean of Tiresias's CNNs", float(text), TIRESIAS, UP_TO_8)
        case "preemption overhead", _:
            return Told("quantiles on TACC", float(text), TACC, UP_TO_8, level=float(what.split(" ")[-1]))
        case "checkpoint+cold start used in simulation", _:
            return Told("Lucid, by GPUs", float(text), LUCID, ABOVE_8 if cells["gpus"] == ">8" else UP_TO_8)
        case "preempt+resume used in simulation", _:
            return Told("Shockwave, one for all", float(text), TACC, UP_TO_8)
        case "scale/migrate overhead", _:
            return Told("ElasticFlow, at most", float(text), ELASTICFLOW, UP_TO_8, capped=True)
        case "start-up", True:
            return Told("Salus, first starts", float(text), (model,), first=True)
    return None


def as_filled(row: Told, cost: str) -> float:
    """Return the seconds of like jobs, as traces are filled."""
    jobs = drawn(row.models, row.gpus, cost)
    if row.first:
        return float(jobs["startup_s"].mean() * by_mean(row, np.zeros(1))[0])
    seconds = jobs["restart_s"]
    value = float(seconds.mean() if row.level is None else seconds.quantile(min(row.level, MOST_OF_TACC)))
    return min(value, row.seconds) if row.capped else value


@cache
def drawn(models: tuple[str, ...], gpus: tuple[int, ...], cost: str) -> pd.DataFrame:
    """Draw `restart_s`, pause and load, and `startup_s` of jobs of each of these models and numbers of GPUs."""
    each = pd.MultiIndex.from_product([models, gpus, range(EACH)], names=["model", "num_gpus", "draw"])
    jobs = each.to_frame(index=False).drop(columns="draw").astype({"model": object})
    full = traces.fill(
        jobs.assign(submit_s=0.0, duration_s=3600.0), seed=0, largest_gpu_gib=32.0, restart_cost=cost
    )
    return full.assign(restart_s=full["pause_s"] + full["load_s"])


def by_mean(row: Told, shares: Floats) -> Floats:
    """Return how much longer a start takes on average where such shares of the data are reopened, over that filled."""
    models = parameters("models.csv").set_index("model").loc[list(row.models)]
    checkpoint = 0.0 if row.first else 2 * models["checkpoint_MB"].to_numpy() / 200
    rest = (models["startup_s"].to_numpy() + checkpoint).mean()
    filled = parameters("hardware.csv").set_index("name")["value"]["share of data_reopen_s in a restart"]
    opened = models["data_reopen_s"].to_numpy().mean()
    longer: Floats = (rest + shares * opened) / (rest + float(filled) * opened)
    return longer


def left_out(points: Points, ways: Floats) -> Floats:
    """Return the seconds of each source's rows in the way that is nearest to the others: (rows,), of (rows, ways)."""
    found = np.empty(len(points))
    for source in points["what"].unique():
        out = (points["what"] == source).to_numpy()
        found[out] = ways[out, errors(points[~out], ways[~out]).argmin()] if not out.all() else ways[out, 0]
    return found


def errors(points: Points, ways: Floats) -> Floats:
    """Return the mean error of the logarithm in each way, every source counting the same."""
    each = pd.DataFrame(np.abs(np.log(ways / points["measured"].to_numpy()[:, None])))
    mean: Floats = each.groupby(points["what"].to_numpy()).mean().mean().to_numpy()
    return mean
