"""Speeds of training jobs that others have measured, and what the kernel computes for the same settings."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpu_cluster_gym.simulator.cluster import FIELDS, Cluster
from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.jobs import jobs_array
from gpu_cluster_gym.simulator.physics import Physics
from gpu_cluster_gym.traces import STATISTICS

Floats = npt.NDArray[np.float64]
Points = pd.DataFrame  # of `what`, `measured`, and what was computed; those of a `setting` count as one

SPEEDS = "speed_measurements.csv"
PLENTY_OF_CORES = 10_000  # cores of a node
AT_ONCE = 256  # jobs, or pairs of them, in one episode: what its smallest record holds
IN_TOKENS = ("gnmt", "tacotron2", "transformer_big", "transformer_xl_base")  # rates of them count tokens
OTHER_DATA = ("CoLA", "Wikitext", "aclImdb", "MovieLens")  # workloads other than their model's profile
SMALL_IMAGES = ("efficientnet_b0", "mobilenet_v2", "resnet50")  # their profiles have large ones
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
"""Links that hardware.csv fitted to a measured cluster; for others there are those of `simulator.cluster.Cluster`."""
BY_LINKS = {
    "seconds": "measured",
    "fitted": "links\nfitted",
    "default": "links by\ndefault",
    "named": "links\nnamed",
    "left_out": "links named\nleft out",
}
"""Columns of gangs, and what they are called in a table."""


def arrays(settings: pd.DataFrame, machines: Cluster, *parts: str) -> np.ndarray:
    """Return jobs as the kernel reads them: `gpu_s` of an iteration on each of `num_gpus`, and what else they need."""
    plain = dict.fromkeys(("submit_s", "idle_ms", "input_core_s", "sync_gb", "deadline_s"), 0.0) | {
        "cores": 1.0
    }
    jobs = settings.assign(**{name: value for name, value in plain.items() if name not in settings})
    jobs["cpu_cores"] = jobs["cores"] * jobs["num_gpus"]
    jobs["active_ms"] = 1000 * jobs["gpu_s"] - jobs["idle_ms"]
    return jobs_array(jobs.assign(duration_s=1e6), machines, frozenset({"locality", "cores", *parts}))


def iterations(settings: pd.DataFrame, links: dict[str, float] | None = None) -> Floats:
    """Return the seconds of an iteration of jobs alone, `num_gpus` over `nodes` with these links."""
    found = np.empty(len(settings))
    shapes = settings[["num_gpus", "nodes"]].to_numpy(int)
    for gpus, nodes in np.unique(shapes, axis=0).tolist():
        sizes = tuple(gpus // nodes + (node < gpus % nodes) for node in range(nodes))
        memory, cores = (16.0,) * nodes, (PLENTY_OF_CORES,) * nodes
        machines = Cluster("measured", sizes, memory, cores, node_types=(), **(links or {}))
        rows = np.flatnonzero((shapes == (gpus, nodes)).all(axis=1))
        for part in np.array_split(rows, 1 + len(rows) // AT_ONCE):
            jobs = arrays(settings.iloc[part], machines)
            found[part] = Episode(jobs, machines, exact=True, physics=Physics(cores=True)).jobs["iteration_s"]
    return found


def parameters(name: str) -> pd.DataFrame:
    """Return a table of the parameters that are simulated with."""
    return pd.read_csv(STATISTICS.parent / name)


def profiles(model: "pd.Series[str]") -> pd.DataFrame:
    """Return the parameters of each row's model, with the row's index; NaN where there is no such model."""
    models = parameters("models.csv").set_index("model").rename(columns={"speed_A100_tf32": "speed_A100"})
    return models.reindex(model).set_index(model.index)


def fitted_links(cluster: str) -> dict[str, float]:
    """Return what hardware.csv says of a measured cluster, as fields of `Cluster`."""
    rows = parameters("hardware.csv").set_index("name").loc[FITTED[cluster]]
    fields = dict(zip(("B_intra", "B_inter", "L_intra", "L_inter"), FIELDS, strict=True))
    return dict(zip(rows["parameter"].map(fields), rows["value"].str.strip(">").astype(float), strict=True))


def profiled_s(table: pd.DataFrame) -> "pd.Series[float]":
    """Return the seconds of an iteration on one GPU, alpha + beta x batch over the speed of GPU and precision."""
    models = profiles(table["model"])
    speed = pd.Series(np.nan, table.index)
    for gpu, rows in table.groupby("gpu").groups.items():
        speed[rows] = models.get(f"speed_{gpu}", speed)[rows]
    speed *= models["amp_gain_V100"].where(table["precision"] == "amp", 1.0)
    return models["alpha_s"] + models["beta_s_per_sample_V100_fp32"] / speed * table["batch_per_gpu"]


def measurements(folder: Path) -> pd.DataFrame:
    """Return the speeds of models with a profile, with what the kernel asks for and `seconds` of an iteration."""
    table = pd.read_csv(folder / SPEEDS, dtype={"note": str})
    models = profiles(table["model"])
    batch = table["batch_per_gpu"].fillna(models["default_batch_per_gpu"])
    table = table.assign(batch_per_gpu=batch, gpu=table["gpu"].replace("unspecified", "V100"))
    seconds = table["iter_time_s"].fillna(table["gpus"] * batch / table["throughput_samples_per_s"])
    who = table["source"].str.split("/").str[0]
    table = table.assign(
        who=who,
        cluster=(who + " " + table["gpu"]).where(who != "chronus", who),
        seconds=seconds.fillna(1 / table["rel_throughput"]),
        profiled_s=profiled_s(table),
        num_gpus=table["gpus"],
        sync_gb=models["sync_factor_kappa"] * models["sync_MB"] / 1000,
        core_s=models["input_core_s_per_sample"] * batch,
    )
    return table[models["alpha_s"].notna() & ~table["model"].isin(IN_TOKENS)]


def single_gpu(speeds: pd.DataFrame) -> Points:
    """Return iterations on one GPU, in units of the model's median, so that the constant is one for each model."""
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
    """Return what was measured on several GPUs and, between the batch sizes measured on one, what is computed."""
    told = speeds["note"].str.replace(r"^\d+x ", "", regex=True)
    machine = told.where(speeds["who"].isin(["dle", "lambda", "tfb"]), "").fillna("")
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
    """Return iterations on several GPUs over that on one."""
    many = many[many["who"] != "chronus"].sort_values("cluster", kind="stable")
    points = pd.DataFrame({name: many[column] / many["gpu_s"] for column, name in BY_LINKS.items()})
    points["what"], points["no exchange"] = many["cluster"], 1.0
    by_default = points[BY_LINKS["default"]]
    best = points.fillna(dict.fromkeys(points.columns[points.isna().any()], by_default))
    held_out = many["source"].str.contains("scalability")
    whole = [best[~held_out].assign(what="all"), best[held_out].assign(what="held out")]
    return pd.concat([points[~held_out], *whole])


def spread(many: pd.DataFrame) -> Points:
    """Return iterations over several nodes over that of the same job on one."""
    near = many[many["nodes"] == 1].groupby("key")[list(BY_LINKS)].mean()
    far = many[(many["nodes"] > 1) & many["key"].isin(near.index)].sort_values("cluster", kind="stable")
    ratio = far[list(near)] / near.loc[far["key"]].set_index(far.index)
    ratio = ratio.rename(columns=BY_LINKS)
    ratio["what"], ratio["no difference"] = far["cluster"], 1.0
    return ratio


def cores(speeds: pd.DataFrame) -> Points:
    """Return speeds by cores over that with three of them: Synergy's."""
    told = speeds[speeds["who"] == "synergy"].assign(sync_gb=0.0)
    told = told.assign(cores=told["cores_per_gpu"], gpu_s=told["profiled_s"], input_core_s=told["core_s"])
    measured, model = told["rel_throughput"], told["model"]
    best, least = pd.Series(1.0, told.index), pd.Series(np.inf, told.index)
    for knee in np.arange(0.2, 24.1, 0.2):
        speed = relative(told.assign(gpu_s=1.0, input_core_s=knee))
        mean = (speed / measured - 1).abs().groupby(model).transform("mean")
        best, least = best.where(mean >= least, speed), least.where(mean >= least, mean)
    flat = measured.groupby(model).transform("std") == 0
    points = pd.DataFrame({"what": model, "measured": measured, "as profiled": relative(told)})
    points["knee fitted"], points["cores ignored"] = best, 1.0
    bent = points[~flat]
    return pd.concat([bent, bent.assign(what="all but flat"), points[flat].assign(what="flat")])


def relative(told: pd.DataFrame) -> "pd.Series[float]":
    """Return the kernel's speed of each row over that of its job with three cores."""
    return pd.Series(iterations(told.assign(cores=3.0)) / iterations(told), told.index)
