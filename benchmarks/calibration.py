"""Errors of the simulator's speed model relative to public measurements, part by part.

    python -m benchmarks.calibration --data DIR

DIR has `speed_measurements.csv`, `colocation.csv` and, for restarts, `preemption_measurements.csv`: figures of the
sources in `traces/data/SOURCES.md`, which are not part of the repository. The kernel simulates the measured jobs on a
cluster: the time of an iteration alone, or the progress in a second next to another job. Job parameters are those that
fill traces. Cells have the mean and, in parentheses, the median of the error |computed / measured - 1|, in percent.
`constant` is the error of the median of a row's measurements; `stated` is the error reported where the parameters were
fitted.
"""

import argparse
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from rich import box
from rich.table import Table
from scipy.optimize import nnls

from gpu_cluster_gym import traces
from gpu_cluster_gym.evaluation.table import MAX_WIDTH, console
from gpu_cluster_gym.simulator.cluster import FIELDS, LINKS, Cluster, uniform
from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.jobs import jobs_array
from gpu_cluster_gym.simulator.physics import CONTENTION, CONTENTION_OF_EXCESS, Physics
from gpu_cluster_gym.simulator.policy import Placement, Start, Wait
from gpu_cluster_gym.traces import STATISTICS

# Training speeds

Floats = npt.NDArray[np.float64]
Points = pd.DataFrame  # columns `what` (row), `measured`, computed ones; points of one `setting` count as one

SPEEDS = "speed_measurements.csv"
AMPLE_CORES = 10_000  # cores per node, so that input never limits a job
EPISODE_JOBS = 256  # jobs, or pairs of jobs, per episode: the size of the smallest record
IN_TOKENS = ("gnmt", "tacotron2", "transformer_big", "transformer_xl_base")  # models with rates in tokens
OTHER_DATA = ("CoLA", "Wikitext", "aclImdb", "MovieLens")  # data sets other than those of the profiles
SMALL_IMAGES = ("efficientnet_b0", "mobilenet_v2", "resnet50")  # models with profiles on large images
FITTED = {
    "gavel K80": "K80 PCIe, cloud (gavel)",
    "gavel P100": "P100, cloud (gavel)",
    "gavel V100": "V100, cloud (gavel)",
    "tfb P100": "P100 NVLink DGX-1 (tfb)",
    "dle V100": "V100 NVLink DGX-1 (dle)",
    "dle A100": "A100 NVSwitch DGX (dle)",
    "muri V100": "V100 NVLink node (muri)",
    "elasticflow A100": "A100 + HDR IB (elasticflow)",
    "sia T4": "T4 PCIe + 50 Gb/s (g4dn.12xlarge)",
    "sia RTX2080Ti": "RTX2080Ti PCIe + 50 Gb/s IB",
    "sia QuadroRTX6000": "QuadroRTX6000 PCIe",
}
"""Name in hardware.csv of the links fitted to each measured cluster; other clusters have the default links."""
BY_LINKS = {
    "seconds": "measured",
    "fitted": "links\nfitted",
    "default": "links by\ndefault",
    "named": "links\nnamed",
    "left_out": "links named\nleft out",
}
"""Columns of `gangs`, and their headings in a table."""


def job_records(settings: pd.DataFrame, machines: Cluster, *parts: str) -> np.ndarray:
    """Return jobs in the form that the kernel reads, with defaults for missing columns.

    settings: `num_gpus` and `gpu_s`, the seconds of an iteration on each GPU. parts: additional parts of physics.
    """
    defaults = dict.fromkeys(("submit_s", "idle_ms", "input_core_s", "sync_gb", "deadline_s"), 0.0) | {
        "cores": 1.0
    }
    jobs = settings.assign(**{name: value for name, value in defaults.items() if name not in settings})
    jobs["cpu_cores"] = jobs["cores"] * jobs["num_gpus"]
    jobs["active_ms"] = 1000 * jobs["gpu_s"] - jobs["idle_ms"]
    return jobs_array(jobs.assign(duration_s=1e6), machines, frozenset({"locality", "cores", *parts}))


def iterations(settings: pd.DataFrame, links: dict[str, float] | None = None) -> Floats:
    """Return the seconds of an iteration of jobs that run alone, on `num_gpus` over `nodes` with these links."""
    found = np.empty(len(settings))
    shapes = settings[["num_gpus", "nodes"]].to_numpy(int)
    for gpus, nodes in np.unique(shapes, axis=0).tolist():
        sizes = tuple(gpus // nodes + (node < gpus % nodes) for node in range(nodes))
        memory, cores = (16.0,) * nodes, (AMPLE_CORES,) * nodes
        machines = Cluster(
            "measured",
            sizes,
            memory,
            cores,
            node_types=(),
            node_names=(),
            left_out="",
            names_in_file=(),
            **(links or {}),
        )
        rows = np.flatnonzero((shapes == (gpus, nodes)).all(axis=1))
        for part in np.array_split(rows, 1 + len(rows) // EPISODE_JOBS):
            jobs = job_records(settings.iloc[part], machines)
            found[part] = Episode(jobs, machines, exact=True, physics=Physics(cores=True)).jobs["iteration_s"]
    return found


def parameters(name: str) -> pd.DataFrame:
    """Return a table of simulation parameters."""
    return pd.read_csv(STATISTICS.parent / name)


def profiles(model: "pd.Series[str]") -> pd.DataFrame:
    """Return the profile of each row's model, with the row's index; NaN for models without a profile."""
    models = parameters("models.csv").set_index("model").rename(columns={"speed_A100_tf32": "speed_A100"})
    return models.reindex(model).set_index(model.index)


def fitted_links(cluster: str) -> dict[str, float]:
    """Return the links of a measured cluster in hardware.csv, as fields of `Cluster`."""
    rows = parameters("hardware.csv").set_index("name").loc[FITTED[cluster]]
    fields = dict(zip(("B_intra", "B_inter", "L_intra", "L_inter"), FIELDS, strict=True))
    return dict(zip(rows["parameter"].map(fields), rows["value"].str.strip(">").astype(float), strict=True))


def profiled_s(table: pd.DataFrame) -> "pd.Series[float]":
    """Return the seconds of an iteration on one GPU: alpha + beta x batch / speed of the GPU and precision."""
    models = profiles(table["model"])
    speed = pd.Series(np.nan, table.index)
    for gpu, rows in table.groupby("gpu").groups.items():
        speed[rows] = models.get(f"speed_{gpu}", speed)[rows]
    speed *= models["amp_gain_V100"].where(table["precision"] == "amp", 1.0)
    return models["alpha_s"] + models["beta_s_per_sample_V100_fp32"] / speed * table["batch_per_gpu"]


def measurements(folder: Path) -> pd.DataFrame:
    """Return measurements of models with a profile: `seconds` of an iteration, and the kernel's job parameters."""
    table = pd.read_csv(folder / SPEEDS, dtype={"note": str})
    models = profiles(table["model"])
    batch = table["batch_per_gpu"].fillna(models["default_batch_per_gpu"])
    table = table.assign(batch_per_gpu=batch, gpu=table["gpu"].replace("unspecified", "V100"))
    seconds = table["iter_time_s"].fillna(table["gpus"] * batch / table["throughput_samples_per_s"])
    source = table["source"].str.split("/").str[0]
    table = table.assign(
        who=source,
        cluster=(source + " " + table["gpu"]).where(source != "chronus", source),
        seconds=seconds.fillna(1 / table["rel_throughput"]),
        profiled_s=profiled_s(table),
        num_gpus=table["gpus"],
        sync_gb=models["sync_factor_kappa"] * models["sync_MB"] / 1000,
        core_s=models["input_core_s_per_sample"] * batch,
    )
    return table[models["alpha_s"].notna() & ~table["model"].isin(IN_TOKENS)]


def single_gpu(speeds: pd.DataFrame) -> Points:
    """Return iterations on one GPU in units of the model's median, so that the constant is the model's median."""
    data = speeds["dataset"]
    other = data.isin(OTHER_DATA) | (data == "CIFAR-10") & speeds["model"].isin(SMALL_IMAGES)
    known = ~other & ~speeds["who"].isin(["muri", "synergy"]) & speeds["profiled_s"].notna()
    alone = speeds[(speeds["gpus"] == 1) & known]
    unit = alone.groupby("model")["seconds"].transform("median")
    computed = iterations(alone.assign(gpu_s=alone["profiled_s"], sync_gb=0.0)) / unit
    mixed = alone["precision"] == "amp"
    names = ["mixed precision", "V100, fp32"]
    what = np.select([mixed, alone["gpu"] == "V100"], names, "others, fp32 or tf32")
    points = pd.DataFrame({"what": what, "measured": alone["seconds"] / unit, "alpha + beta b": computed})
    like = points.assign(setting=alone.groupby(["who", "model", "dataset", "gpu", "precision"]).ngroup())
    fp32 = like[~mixed].assign(what="fp32 and tf32, by setting")
    return pd.concat([points.sort_values("what"), like.assign(what="all, by setting"), fp32])


def gangs(speeds: pd.DataFrame) -> pd.DataFrame:
    """Return measured and computed iterations on several GPUs.

    The seconds on one GPU are interpolated between measured batch sizes.
    """
    noted = speeds["note"].str.replace(r"^\d+x ", "", regex=True)
    machine = noted.where(speeds["who"].isin(["dle", "lambda", "tfb"]), "").fillna("")
    speeds = speeds.assign(machine=machine, gpu_s=speeds["profiled_s"].where(speeds["who"] == "chronus"))
    like = ["who", "model", "dataset", "gpu", "precision", "machine"]
    for _, rows in speeds.groupby(like):
        one = rows[rows["gpus"] == 1].groupby("batch_per_gpu")["seconds"].mean()
        if len(one):
            batch = rows["batch_per_gpu"]
            speeds.loc[rows.index, "gpu_s"] = np.interp(batch, one.index, one, left=np.nan, right=np.nan)
    many = speeds[(speeds["gpus"] > 1) & speeds["gpu_s"].notna()]
    many = many.assign(default=iterations(many), fitted=np.nan)
    for cluster in set(many["cluster"]) & set(FITTED):
        rows = many[many["cluster"] == cluster]
        many.loc[rows.index, "fitted"] = iterations(rows, fitted_links(cluster))
    return many.assign(key=many.groupby([*like, "gpus", "batch_per_gpu"]).ngroup())


def synchronisation(many: pd.DataFrame) -> Points:
    """Return the seconds of iterations on several GPUs, relative to one GPU."""
    many = many[many["who"] != "chronus"].sort_values("cluster", kind="stable")
    points = pd.DataFrame({name: many[column] / many["gpu_s"] for column, name in BY_LINKS.items()})
    points["what"], points["no exchange"] = many["cluster"], 1.0
    by_default = points[BY_LINKS["default"]]
    best = points.fillna(dict.fromkeys(points.columns[points.isna().any()], by_default))
    held_out = many["source"].str.contains("scalability")
    whole = [best[~held_out].assign(what="all"), best[held_out].assign(what="held out")]
    return pd.concat([points[~held_out], *whole])


def spread(many: pd.DataFrame) -> Points:
    """Return the seconds of iterations on several nodes, relative to the same job on one node."""
    near = many[many["nodes"] == 1].groupby("key")[list(BY_LINKS)].mean()
    far = many[(many["nodes"] > 1) & many["key"].isin(near.index)].sort_values("cluster", kind="stable")
    ratio = far[list(near)] / near.loc[far["key"]].set_index(far.index)
    ratio = ratio.rename(columns=BY_LINKS)
    ratio["what"], ratio["no difference"] = far["cluster"], 1.0
    return ratio


def cores(speeds: pd.DataFrame) -> Points:
    """Return Synergy's speeds by number of CPU cores, relative to three cores."""
    jobs = speeds[speeds["who"] == "synergy"].assign(sync_gb=0.0)
    jobs = jobs.assign(cores=jobs["cores_per_gpu"], gpu_s=jobs["profiled_s"], input_core_s=jobs["core_s"])
    measured, model = jobs["rel_throughput"], jobs["model"]
    best, min_error = pd.Series(1.0, jobs.index), pd.Series(np.inf, jobs.index)
    for knee in np.arange(0.2, 24.1, 0.2):
        speed = relative(jobs.assign(gpu_s=1.0, input_core_s=knee))
        mean = (speed / measured - 1).abs().groupby(model).transform("mean")
        best, min_error = best.where(mean >= min_error, speed), min_error.where(mean >= min_error, mean)
    flat = measured.groupby(model).transform("std") == 0
    points = pd.DataFrame({"what": model, "measured": measured, "as profiled": relative(jobs)})
    points["knee fitted"], points["cores ignored"] = best, 1.0
    bent = points[~flat]
    return pd.concat([bent, bent.assign(what="all but flat"), points[flat].assign(what="flat")])


def relative(jobs: pd.DataFrame) -> "pd.Series[float]":
    """Return the kernel's speed of each job, relative to the same job with three cores."""
    return pd.Series(iterations(jobs.assign(cores=3.0)) / iterations(jobs), jobs.index)


# Links fitted to all measured clusters of a kind: the source of `simulator.cluster.LINKS`

KINDS = {
    "nvlink-ib": (
        *("sia V100", "muri V100", "dle V100", "tfb P100"),
        *("dle A100", "lambda A100", "sia A100", "elasticflow A100"),
    ),
    "pcie-ib": ("sia RTX2080Ti", "sia QuadroRTX6000", "lambda RTX3090", "tfb K80"),
    "pcie-ethernet": ("gavel K80", "gavel P100", "sia T4"),
    "nvlink-ethernet": ("gavel V100",),
}
"""Measured clusters by name of links; we inferred the links where a source does not report them."""

ROUNDS = 60  # of the fit
FLOOR = 1e-3  # lower bound of errors in the weights, and of 1 / bandwidth, s per GB


def by_name(many: pd.DataFrame) -> pd.DataFrame:
    """Return seconds of iterations with the links in `LINKS`, and with links fitted to the kind's other clusters."""
    found = pd.DataFrame(np.nan, many.index, ["named", "left_out"])
    training = many[~many["source"].str.contains("scalability")]
    for kind, clusters in KINDS.items():
        for cluster in clusters:
            rows = many[many["cluster"] == cluster]
            if len(rows):
                found.loc[rows.index, "named"] = iterations(rows, dict(zip(FIELDS, LINKS[kind], strict=True)))
                others = links_of(training[training["cluster"] != cluster], kind)
                found.loc[rows.index, "left_out"] = iterations(rows, dict(zip(FIELDS, others, strict=True)))
    return found


def links_of(many: pd.DataFrame, kind: str) -> tuple[float, ...]:
    """Return the links (GB/s and ms, as in `LINKS`) that fit the clusters of a kind, with equal weight per cluster.

    `nvlink-ethernet` takes the links inside a node from `nvlink-ib`, and those between nodes from `pcie-ethernet`.
    """
    if kind == "nvlink-ethernet":
        inside, between = links_of(many, "nvlink-ib"), links_of(many, "pcie-ethernet")
        return inside[0], between[1], inside[2], between[3]
    clusters = [rows for name, rows in many.groupby("cluster") if name in KINDS[kind]]
    intra, inter, near_ms, far_ms = fitted(clusters) if clusters else np.zeros(4)
    return 1 / max(intra, FLOOR), 1 / max(inter, FLOOR), near_ms, far_ms


def fitted(clusters: Sequence[pd.DataFrame]) -> Floats:
    """Return the non-negative coefficients with the least mean |computed / measured - 1|.

    The coefficients are s per GB inside and between nodes, and ms per hop inside and between nodes. The computed time
    is linear in them, so the fit is iteratively reweighted least squares.
    """
    gained, left, weight = (np.concatenate(parts) for parts in zip(*map(equations, clusters), strict=True))
    found = np.zeros(4)
    for _ in range(ROUNDS):
        root = np.sqrt(weight / np.maximum(np.abs(gained @ found - left), FLOOR))
        found, _ = nnls(gained * root[:, None], left * root)
    return found


def equations(rows: pd.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Return the terms of the four coefficients, their required sum (both over the measurement) and the weights."""
    workers, nodes, measured = (rows[name].to_numpy(float) for name in ("num_gpus", "nodes", "seconds"))
    moved = 2 * (workers - 1) / workers * rows["sync_gb"].to_numpy()
    parts = [moved * (nodes == 1), moved * (nodes > 1), (workers / nodes - 1) / 1000, (nodes - 1) / 1000]
    adds = np.stack(parts, axis=1) * (moved > 0)[:, None] / measured[:, None]
    return adds, 1 - rows["gpu_s"].to_numpy() / measured, np.full(len(rows), 1 / len(rows))


# Slowdowns of co-located jobs

PAIRS = "colocation.csv"
JOB = ["model", "dataset", "batch", "precision"]
SLOPES = np.arange(0.0, 3.0, 0.01)  # candidates of the fit
AMPLE_GIB = 1000.0  # memory per GPU, since the measured pairs fitted theirs
FORMS: dict[Literal["turns", "excess"], float] = {"turns": CONTENTION, "excess": CONTENTION_OF_EXCESS}


def colocation(folder: Path) -> Points:
    """Return the slowdowns of both jobs of pairs on a GPU.

    Each form of contention has its default coefficient k, the k fitted to each row, and `left out`: k fitted to the
    pairs without the models of the pair, leaving out one of the two at a time.
    """
    jobs = sides(folder)
    points = pd.DataFrame({"what": jobs["gpu"], "measured": jobs["slowdown"]})
    beyond = {form: slowdowns(jobs, form, 1.0) - 1 for form in FORMS}
    for form, by_default in FORMS.items():
        points[f"{form}\nk {by_default:g}"] = 1 + by_default * beyond[form]
        if form == "turns":
            points[f"{form}\nfitted"] = in_each(jobs, beyond[form], fitted_pairs)
        points[f"{form}\nleft out"] = in_each(jobs, beyond[form], left_out_pairs)
    points["constant\nleft out"] = in_each(jobs, np.ones(len(jobs)), left_out_pairs)
    return points


def sides(folder: Path) -> pd.DataFrame:
    """Return the two jobs of each measured pair as consecutive rows, as measured alone (Lucid) or as profiled."""
    pairs = pd.read_csv(folder / PAIRS).query("status == 'ok'").reset_index(names="pair")
    both = []
    for own, other in ("ab", "ba"):
        names = {f"{name}_{own}": name for name in (*JOB, "slowdown")} | {f"model_{other}": "beside"}
        both.append(pairs.rename(columns=names)[[*names.values(), "pair", "gpu", "source"]])
    jobs = pd.concat(both).sort_values("pair", kind="stable").reset_index(drop=True)
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
    """Return the slowdowns of jobs relative to running alone, where each two consecutive jobs share a GPU.

    jobs: `gpu_s`, the seconds of an iteration alone, `duty`, the GPU utilisation, and `gpu_memory_gib`.
    """
    found = [np.empty(0)]
    for pairs in np.array_split(np.arange(len(jobs)).reshape(-1, 2), 1 + len(jobs) // (2 * EPISODE_JOBS)):
        machines = uniform(1, len(pairs), AMPLE_GIB)
        each = jobs.iloc[pairs.ravel()]
        each = each.assign(num_gpus=1, idle_ms=1000 * each["gpu_s"] * (1 - each["duty"]))
        physics = Physics(max_share=2, contention_form=form, contention=contention, contention_loss=loss)
        episode = Episode(job_records(each, machines, "memory"), machines, exact=True, physics=physics)
        episode.advance()
        for job in range(len(each)):
            episode.apply(Start(job, Placement((job // 2,))))
        episode.apply(Wait(1.0))
        episode.advance()
        found.append(1 / episode.view.jobs.attained_s)
    return np.concatenate(found)


def in_each(jobs: pd.DataFrame, beyond: Floats, fit: Callable[[pd.DataFrame, Floats], Floats]) -> Floats:
    """Return the slowdowns 1 + k x beyond, with k fitted to each GPU type separately."""
    slower = np.empty(len(jobs))
    for rows in jobs.groupby("gpu").indices.values():
        slower[rows] = fit(jobs.iloc[rows], beyond[rows])
    return slower


def fitted_pairs(jobs: pd.DataFrame, beyond: Floats) -> Floats:
    """Return the slowdowns with k fitted to these pairs."""
    return 1 + slope(jobs, beyond) * beyond


def left_out_pairs(jobs: pd.DataFrame, beyond: Floats) -> Floats:
    """Return the slowdowns with k fitted to the pairs without a model.

    Each pair has two models, so its slowdown is the geometric mean of two fits.
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
    """Return the k with the least mean error of the logarithm."""
    errors = np.abs(np.log(1 + SLOPES[:, None] * beyond) - np.log(jobs["slowdown"].to_numpy()))
    return float(SLOPES[errors.mean(axis=1).argmin()]) if len(jobs) else 0.0


# Repeated measurements: the accuracy that a profile can have

SETTING = [
    "model",
    "dataset",
    "gpu",
    "gpus",
    "nodes",
    "batch_per_gpu",
    "precision",
    "cores_per_gpu",
    "source",
]
PLACED = [*SETTING, "gpus_per_node"]
SIDE = ["model", "batch", "precision"]


def repeats(folder: Path) -> pd.DataFrame:
    """Return a row for each kind of measurement: settings, measurements, and deviations within a setting, %."""
    speeds = pd.read_csv(folder / SPEEDS, dtype={"note": str})
    speeds["seconds"] = speeds["iter_time_s"].fillna(1 / speeds["throughput_samples_per_s"])
    rows = [
        spread_of(f"iteration, {who}", each, PLACED, "seconds")
        for who, each in speeds.groupby(speeds["source"].str.split("/").str[0], sort=False)
    ]
    sia = speeds[speeds["source"].str.startswith("sia")]
    rows.append(spread_of("iteration over divisions of a gang among nodes, sia", sia, SETTING, "seconds"))
    pairs = (
        pd.read_csv(folder / PAIRS).query("status == 'ok' and source == 'lucid'").reset_index(names="pair")
    )
    alike = pairs[
        (pairs[[f"{name}_a" for name in SIDE]].to_numpy() == pairs[[f"{name}_b" for name in SIDE]]).all(
            axis=1
        )
    ]
    both = alike.melt("pair", ["slowdown_a", "slowdown_b"], value_name="slowdown")
    rows.append(spread_of("like jobs on one GPU, lucid", both, ["pair"], "slowdown"))
    lucid = speeds[speeds["source"] == "lucid"]
    rows.append(
        spread_of(
            "GPU utilisation over batch sizes, lucid",
            lucid,
            ["model", "dataset", "precision"],
            "gpu_util_pct",
        )
    )
    found = pd.DataFrame(rows, columns=["what", "settings", "rows", "deviation, %", "half within, %"])
    return found[found["settings"] > 0]


def spread_of(
    what: str, rows: pd.DataFrame, setting: list[str], column: str
) -> tuple[str, int, int, float, float]:
    """Return the standard and median deviation, %, within settings that were measured at least twice."""
    rows = rows[rows[column] > 0]
    same = rows.groupby(setting, dropna=False)
    log = np.log(rows[column][same[column].transform("size") > 1])
    number = same.ngroup()[log.index]
    apart = log - log.groupby(number).transform("mean")
    settings = number.nunique()
    deviation = np.sqrt((apart**2).sum() / max(len(log) - settings, 1))
    return what, settings, len(log), 100 * float(deviation), 100 * float(apart.abs().median())


# Restarts and first starts

PAUSES = "preemption_measurements.csv"
UP_TO_8, ABOVE_8 = (1, 2, 4, 8), (16, 32)  # GPUs
TACC = ("lstm", "recoder", "resnet18", "resnet50", "transformer")
SIMPLE_CNNS = ("alexnet", "googlenet", "inception_v3", "inception_v4", "vgg11", "vgg16", "vgg19")
TIRESIAS = (*SIMPLE_CNNS, "resnet50", "resnet101", "resnet152")
SIA = ("resnet50", "bert_base", "yolov3", "resnet18", "deepspeech2", "neumf")
SMALL = ("dcgan", "efficientnet_b0", "mobilenet_v2", "mobilenet_v3", "neumf", "pointnet", "ppo", "resnet18")
LUCID = (*SMALL, "lstm", "resnet50", "bert_base", "transformer")
ELASTICFLOW = ("vgg16", "resnet50", "inception_v3", "bert_base", "gpt2_small", "deepspeech2")
SHARES = np.arange(0.0, 1.01, 0.01)  # of data_reopen_s, candidates of the fit
CONSTANTS_S = np.arange(5.0, 100.0, 0.5)  # candidates of the fit
MAX_TACC_LEVEL = 1 - 0.5 / 101  # quantile level of the largest of the 101 measurements on TACC
DRAWS = 4000  # jobs drawn per model and number of GPUs


class Overhead(NamedTuple):
    """A measured overhead of restarts or first starts.

    what: row of the table.
    seconds: a quantile if `level` is given, else a mean.
    models, gpus: the jobs it was measured on.
    first: whether it is of first starts on synthetic data.
    capped: whether it is an upper bound.
    """

    what: str
    seconds: float
    models: tuple[str, ...]
    gpus: tuple[int, ...] = (1,)
    first: bool = False
    level: float | None = None
    capped: bool = False


def preemption(folder: Path) -> Points:
    """Return the seconds of restarts and first starts, as filled into traces and by a single constant.

    `left out`: the share of data that is reopened, or the constant, is fitted to the other sources only.
    """
    found = [row for cells in pd.read_csv(folder / PAUSES).to_dict("records") if (row := overhead(cells))]
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


def overhead(cells: dict[Hashable, str]) -> Overhead | None:
    """Return a row of the measurements; None if its unit or its jobs are unknown."""
    model, what, text = cells["model"].split(" ")[0], cells["what"], cells["seconds"]
    known = model in set(parameters("models.csv")["model"])
    match what.split(",")[0].split(" (")[0], known:
        case "checkpoint+restart", True:
            return Overhead("Sia, by model", float(text), (model,))
        case "checkpoint+restart", False:
            return Overhead("Pollux, one for all", float(text), SIA, UP_TO_8)
        case "preemption", _:
            return Overhead("mean of Tiresias's CNNs", float(text), TIRESIAS, UP_TO_8)
        case "preemption overhead", _:
            return Overhead("quantiles on TACC", float(text), TACC, UP_TO_8, level=float(what.split(" ")[-1]))
        case "checkpoint+cold start used in simulation", _:
            return Overhead(
                "Lucid, by GPUs", float(text), LUCID, ABOVE_8 if cells["gpus"] == ">8" else UP_TO_8
            )
        case "preempt+resume used in simulation", _:
            return Overhead("Shockwave, one for all", float(text), TACC, UP_TO_8)
        case "scale/migrate overhead", _:
            return Overhead("ElasticFlow, at most", float(text), ELASTICFLOW, UP_TO_8, capped=True)
        case "start-up", True:
            return Overhead("Salus, first starts", float(text), (model,), first=True)
    return None


def as_filled(row: Overhead, cost: str) -> float:
    """Return the seconds that traces are filled with for the same jobs."""
    jobs = drawn(row.models, row.gpus, cost)
    if row.first:
        return float(jobs["startup_s"].mean() * by_mean(row, np.zeros(1))[0])
    seconds = jobs["restart_s"]
    value = float(seconds.mean() if row.level is None else seconds.quantile(min(row.level, MAX_TACC_LEVEL)))
    return min(value, row.seconds) if row.capped else value


@cache
def drawn(models: tuple[str, ...], gpus: tuple[int, ...], cost: str) -> pd.DataFrame:
    """Draw `restart_s` (pause and load) and `startup_s` of jobs with each of these models and numbers of GPUs."""
    each = pd.MultiIndex.from_product([models, gpus, range(DRAWS)], names=["model", "num_gpus", "draw"])
    jobs = each.to_frame(index=False).drop(columns="draw").astype({"model": object})
    full = traces.fill(
        jobs.assign(submit_s=0.0, duration_s=3600.0), seed=0, largest_gpu_gib=32.0, restart_cost=cost
    )
    return full.assign(restart_s=full["pause_s"] + full["load_s"])


def by_mean(row: Overhead, shares: Floats) -> Floats:
    """Return the mean duration of a start if these shares of the data are reopened, relative to the filled share."""
    models = parameters("models.csv").set_index("model").loc[list(row.models)]
    checkpoint = 0.0 if row.first else 2 * models["checkpoint_MB"].to_numpy() / 200
    rest = (models["startup_s"].to_numpy() + checkpoint).mean()
    filled = parameters("hardware.csv").set_index("name")["value"]["share of data_reopen_s in a restart"]
    opened = models["data_reopen_s"].to_numpy().mean()
    longer: Floats = (rest + shares * opened) / (rest + float(filled) * opened)
    return longer


def left_out(points: Points, candidates: Floats) -> Floats:
    """Return the seconds (rows,) of each source by the candidate that fits the other sources best.

    candidates: seconds, (rows, candidates).
    """
    found = np.empty(len(points))
    for source in points["what"].unique():
        out = (points["what"] == source).to_numpy()
        best = 0 if out.all() else errors(points[~out], candidates[~out]).argmin()
        found[out] = candidates[out, best]
    return found


def errors(points: Points, candidates: Floats) -> Floats:
    """Return the mean error of the logarithm of each candidate, with equal weight per source."""
    each = pd.DataFrame(np.abs(np.log(candidates / points["measured"].to_numpy()[:, None])))
    mean: Floats = each.groupby(points["what"].to_numpy()).mean().mean().to_numpy()
    return mean


# Report

STATED = {
    "GPU: all, by setting": "17.2 (11.8)",
    "GPU: fp32 and tf32, by setting": "13.9 (9.4)",
    "gang: gavel V100": "24",
    "gang: sia A100": "19",
    "gang: all": "15.3",
    "gang: held out": "23",
    "nodes: chronus": "12",
    "cores: all but flat": "5.0",
    "pair: K80": "16",
    "pair: P100": "16",
    "pair: V100": "23",
    "pair: RTX3090": "7.6",
}
HELD_OUT = "\nleft out"
JUDGED = {
    "GPU": ("alpha + beta b",),
    "gang": ("links by\ndefault", f"links named{HELD_OUT}"),
    "nodes": ("links by\ndefault", f"links named{HELD_OUT}"),
    "cores": ("as profiled",),
    "pair": (f"turns{HELD_OUT}", f"excess{HELD_OUT}"),
    "restart": (f"measured{HELD_OUT}",),
}
"""Columns of each part that are compared with a constant; fitted parts by the fit that leaves the row out."""
NOTES = {
    "repeats": "Deviation of repeated measurements of one setting: the best accuracy that a profile can have. No "
    "source repeats GPU utilisation, which is shown over batch sizes instead, or memory, which is linear in the batch "
    "size within 2.5 %.",
    "GPU": "Seconds of an iteration on one GPU, in sample. Constant: the median of each model. Stated for 140 "
    "slightly different settings. The worst on V100s is Sia's NCF, which waits for its host.",
    "gang": "Seconds on several GPUs relative to one. Stated for 14,221 points, more than are in these files, after "
    "fits to each cluster and to its single GPUs. Held out: Sia's scalability files. Named: links fitted to all "
    "clusters of that kind; left out: to the other clusters. Constant: the median of the cluster.",
    "nodes": "Seconds on several nodes relative to the same job on one. Chronus reports neither GPU, batch nor links.",
    "cores": "Speed with 1 to 24 cores per GPU relative to 3. Stated for knee and cap fitted to each model.",
    "pair": "Slowdown of both jobs on a shared GPU. Fitted: k for each GPU type; left out: for the pairs without the "
    "models of a pair. Stated for hidden demands fitted to each model (Gavel), or for excess beyond 0.943 (RTX3090). "
    "Gavel reports no utilisation: its jobs have that of their profiles.",
    "restart": "Seconds of a restart or a first start: means over the measured jobs, or quantiles. Left out: the share "
    "of data that a start reopens, or the single constant, is fitted to the other sources; the noise is TACC's. The "
    "high costs were fitted to Sia's; Salus's start-ups are in the profiles.",
}


def plain(cells: pd.DataFrame) -> Table:
    """Return a data frame as a printed table."""
    shown = Table(box=box.HORIZONTALS, padding=(0, 1, 0, 0), show_edge=False)
    for name in cells:
        shown.add_column("" if name == "what" else str(name), justify="left" if name == "what" else "right")
    for row in cells.itertuples(index=False):
        shown.add_row(*[f"{cell:.1f}" if isinstance(cell, float) else f"{cell}" for cell in row])
    return shown


def table(part: str, points: Points) -> Table:
    """Return the errors of each row of a part, alongside the constant and the stated errors."""
    shown = Table(box=box.HORIZONTALS, padding=(0, 1, 0, 0), show_edge=False)
    schemes = [str(name) for name in points if name not in ("what", "measured", "setting", "constant")]
    shown.add_column("", no_wrap=True)
    for heading in ("points", *schemes, "constant", "stated"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for what, rows in points.groupby("what", sort=False):
        middle = rows.get("constant", pd.Series(rows["measured"].median(), rows.index))
        texts = [error(rows, computed) for computed in (*(rows[name] for name in schemes), middle)]
        counted = rows["setting"].nunique() if "setting" in rows else 0
        shown.add_row(str(what), f"{counted or len(rows):,}", *texts, STATED.get(f"{part}: {what}", ""))
    return shown


def verdicts(part: str, points: Points) -> Iterator[str]:
    """Yield a sentence that lists the rows in which a part is worse than a constant."""
    for scheme in JUDGED[part]:
        baseline = (
            f"constant{HELD_OUT}"
            if scheme.endswith(HELD_OUT) and f"constant{HELD_OUT}" in points
            else "constant"
        )
        worse, rows = [], 0
        for what, each in points.groupby("what", sort=False):
            middle = pd.Series(each["measured"].median(), each.index)
            computed, constant = (
                percent_off(each, each.get(name, middle)).mean() for name in (scheme, baseline)
            )
            rows += computed >= 0
            worse += [str(what)] if computed > constant else []
        sentence = (
            f"Worse than a constant in {len(worse)} of {rows} rows: {', '.join(worse)}"
            if worse
            else "Nowhere worse than a constant"
        )
        yield f"{sentence} ({' '.join(scheme.split())}{', both' if baseline != 'constant' else ''})."


def percent_off(rows: Points, computed: "pd.Series[float]") -> "pd.Series[float]":
    """Return the errors, in percent, of the computed points of a row; points of one setting count as one."""
    errors = 100 * (computed / rows["measured"] - 1).abs()
    by_setting = "setting" in rows and rows["setting"].notna().all()
    return errors.groupby(rows["setting"]).mean() if by_setting else errors


def error(rows: Points, computed: "pd.Series[float]") -> str:
    """Return the mean and median error, in percent, of the computed points of a row, as a cell."""
    errors = percent_off(rows, computed)
    return "" if errors.isna().all() else f"{errors.mean():.1f} ({errors.median():.1f})"


def main(args: list[str] | None = None) -> int:
    """Print the errors part by part; return the exit code, 2 if measurements are missing."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--data", type=Path, required=True, help="folder of the CSV files of measurements")
    folder = flags.parse_args(args).data
    if missing := [name for name in (SPEEDS, PAIRS) if not (folder / name).is_file()]:
        print(f"calibration: there is no {' and no '.join(missing)} in {folder}", file=sys.stderr)
        return 2
    speeds = measurements(folder)
    many = gangs(speeds)
    many = many.join(by_name(many))
    parts = {"GPU": single_gpu(speeds), "gang": synchronisation(many), "nodes": spread(many)}
    parts |= {"cores": cores(speeds), "pair": colocation(folder)}
    parts |= {"restart": preemption(folder)} if (folder / PAUSES).is_file() else {}
    out = console(sys.stdout, MAX_WIDTH)
    for part, points in parts.items():
        out.print(NOTES[part], table(part, points), *verdicts(part, points), "", sep="\n")
    out.print(NOTES["repeats"], plain(repeats(folder)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
