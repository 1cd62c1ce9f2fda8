"""How far the simulator's speed function is from public measurements, part by part.

    python benchmarks/speed_errors.py --data DIR

DIR holds `speed_measurements.csv`, `colocation.csv` and, for restarts, `preemption_measurements.csv`: figures of the
sources in `traces/data/SOURCES.md`, not kept here. What is computed is the kernel's: jobs as measured are put on a
cluster and asked how long an iteration takes, or how far they come in a second beside another. Their parameters are
those that traces are filled with. An error is |computed / measured - 1| in percent: the mean and (the median).
`constant` is that of the median of a row's measurements, `stated` what was reported where parameters were fitted.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from rich import box
from rich.table import Table

import traces
from evaluation import report
from simulator.cluster import Cluster, uniform
from simulator.episode import Episode
from simulator.jobs import jobs_array
from simulator.physics import CONTENTION, Physics
from simulator.policy import Placement, Start, Wait
from traces import STATISTICS

Floats = npt.NDArray[np.float64]
Points = pd.DataFrame  # of `what`, `measured`, and what was computed; those of a `setting` count as one

SPEEDS, PAIRS, PAUSES = "speed_measurements.csv", "colocation.csv", "preemption_measurements.csv"
PLENTY_OF_CORES = 10_000  # cores of a node
AT_ONCE = 256  # jobs, or pairs of them, in one episode: what its smallest record holds
BENDS_AT = 0.943  # demand from which hardware.csv's fit slows RTX 3090s down; the kernel's is 1
IN_TOKENS = ("gnmt", "tacotron2", "transformer_big", "transformer_xl_base")  # rates of them count tokens
OTHER_DATA = ("CoLA", "Wikitext", "aclImdb", "MovieLens")  # workloads other than their model's profile
SMALL_IMAGES = ("efficientnet_b0", "mobilenet_v2", "resnet50")  # their profiles have large ones
TACC = ("lstm", "recoder", "resnet18", "resnet50", "transformer")
SIMPLE_CNNS = ("alexnet", "googlenet", "inception_v3", "inception_v4", "vgg11", "vgg16", "vgg19")
TIRESIAS = (*SIMPLE_CNNS, "resnet50", "resnet101", "resnet152")
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
NOTES = {
    "GPU": "Seconds of an iteration on one GPU. Constant: the median of each model. Stated for 140 settings, not quite "
    "these. The worst on V100s is Sia's NCF, which waits for its host.",
    "gang": "Seconds on several GPUs over those on one. Stated for 14,221 points, more than are in these files, after "
    "fits to each cluster and to its single GPUs. Held out: Sia's scalability files.",
    "nodes": "Seconds on several nodes over those of the same job on one. Chronus tells neither GPU, batch nor links.",
    "cores": "Speed with 1 to 24 cores a GPU over that with 3. Stated for knee and cap fitted to each model.",
    "pair": "Slowdown on a shared GPU, of both jobs. Stated for hidden demands fitted to each model (Gavel), or for "
    "the first column (RTX3090). Gavel tells no utilisation: its jobs have their profiles'.",
    "restart": "Seconds that a restart takes in all, as filled. Sia's are what the profiles were fitted to.",
}


def arrays(settings: pd.DataFrame, machines: Cluster) -> np.ndarray:
    """Return jobs as the kernel reads them: `gpu_s` of an iteration on each of `num_gpus`, and what else they need."""
    plain = dict.fromkeys(("submit_s", "idle_ms", "input_core_s", "sync_gb", "deadline_s"), 0.0) | {
        "cores": 1.0
    }
    jobs = settings.assign(**{name: value for name, value in plain.items() if name not in settings})
    jobs["cpu_cores"] = jobs["cores"] * jobs["num_gpus"]
    jobs["active_ms"] = 1000 * jobs["gpu_s"] - jobs["idle_ms"]
    return jobs_array(jobs.assign(duration_s=1e6), machines, frozenset({"locality", "cores"}))


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


def slowdowns(duty: Floats, contention: float, loss: float = 0.0) -> Floats:
    """Return the slowdown of both jobs of each pair that shares a GPU: (pairs, 2), like their duties."""
    found = np.empty(duty.shape)
    for pairs in np.array_split(np.arange(len(duty)), 1 + len(duty) // AT_ONCE):
        machines = uniform(1, len(pairs))
        each = pd.DataFrame({"num_gpus": 1, "gpu_s": 1.0, "idle_ms": 1000 * (1 - duty[pairs].ravel())})
        physics = Physics(max_share=2, contention=contention, contention_loss=loss)
        episode = Episode(arrays(each, machines), machines, exact=True, physics=physics)
        episode.advance()
        for job in range(len(each)):
            episode.apply(Start(job, Placement((job // 2,))))
        episode.apply(Wait(1.0))
        episode.advance()
        found[pairs] = 1 / episode.view.jobs.attained_s.reshape(-1, 2)
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
    fields = {"B_intra": "intra_gbs", "B_inter": "inter_gbs", "L_intra": "intra_ms", "L_inter": "inter_ms"}
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
    columns = {"measured": "seconds", "links fitted": "fitted", "links by default": "default"}
    points = pd.DataFrame({name: many[column] / many["gpu_s"] for name, column in columns.items()})
    points["what"], points["no exchange"] = many["cluster"], 1.0
    best = points.fillna({"links fitted": points["links by default"]})
    held_out = many["source"].str.contains("scalability")
    whole = [best[~held_out].assign(what="all"), best[held_out].assign(what="held out")]
    return pd.concat([points[~held_out], *whole])


def spread(many: pd.DataFrame) -> Points:
    """Return iterations over several nodes over that of the same job on one."""
    near = many[many["nodes"] == 1].groupby("key")[["seconds", "fitted", "default"]].mean()
    far = many[(many["nodes"] > 1) & many["key"].isin(near.index)].sort_values("cluster", kind="stable")
    ratio = far[list(near)] / near.loc[far["key"]].set_index(far.index)
    ratio.columns = pd.Index(["measured", "links fitted", "links by default"])
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


def colocation(folder: Path) -> Points:
    """Return the slowdowns of both jobs of pairs on a GPU, by utilisation as measured or else as profiled."""
    keys = ["model", "dataset", "batch", "precision"]
    speeds = pd.read_csv(folder / SPEEDS).query("source == 'lucid'")
    measured = speeds.rename(columns={"batch_per_gpu": "batch"}).groupby(keys)["gpu_util_pct"].mean()
    pairs = pd.read_csv(folder / PAIRS).query("status == 'ok'")
    for side in ("a", "b"):
        own = measured.reindex(pd.MultiIndex.from_frame(pairs[[f"{key}_{side}" for key in keys]])).to_numpy()
        profile = profiles(pairs[f"model_{side}"])["gpu_util_default_pct"]
        pairs[f"duty_{side}"] = np.where(pairs["source"] == "lucid", own, profile) / 100
    hardware = parameters("hardware.csv").query("parameter == 'colocation_k_util'").set_index("name")["value"]
    parts = []
    for gpu, rows in pairs.dropna(subset=["duty_a", "duty_b"]).groupby("gpu", sort=False):
        duty, k = rows[["duty_a", "duty_b"]].to_numpy(), float(hardware[gpu])
        bend = BENDS_AT if gpu == "RTX3090" else 1.0
        points = {
            "measured": rows[["slowdown_a", "slowdown_b"]].to_numpy(),
            "k of the GPU": slowdowns(duty / bend, k * bend),
            f"k {CONTENTION:g}": slowdowns(duty, CONTENTION),
            "k 1": slowdowns(duty, 1.0),
            "k 1, loss .04": slowdowns(duty, 1.0, 0.04),
            "alone": np.ones(duty.shape),
        }
        parts.append(pd.DataFrame({name: cells.ravel() for name, cells in points.items()}).assign(what=gpu))
    return pd.concat(parts)


def preemption(folder: Path) -> Points:
    """Return seconds that a restart takes in all: of models, and over jobs of several."""
    told = pd.read_csv(folder / PAUSES)
    rows = []
    for name, what, seconds in told[["model", "what", "seconds"]].itertuples(index=False):
        model = name.split(" ")[0]
        if what == "checkpoint+restart, total" and model in set(parameters("models.csv")["model"]):
            rows.append(("Sia, by model", seconds, float(restarts(model).median())))
        if what == "preemption, mean":
            rows.append(("mean of Tiresias's CNNs", seconds, float(restarts(*TIRESIAS).mean())))
        if what.startswith("preemption overhead, quantile 0"):
            level = float(what.split(" ")[-1])
            rows.append(("quantiles on TACC", seconds, float(restarts(*TACC).quantile(level))))
    return pd.DataFrame(rows, columns=["what", "measured", "as filled"]).astype({"measured": float})


def restarts(*models: str, each: int = 1000) -> "pd.Series[float]":
    """Draw, as traces are filled, the seconds that jobs on one GPU take to pause and to load."""
    jobs = pd.DataFrame({"model": np.repeat(np.array(models, object), each), "num_gpus": 1})
    filled = traces.fill(jobs.assign(submit_s=0.0, duration_s=3600.0), seed=0, largest_gpu_gib=32.0)
    return filled[["pause_s", "load_s"]].sum(axis="columns")


def table(part: str, points: Points) -> Table:
    """Return the errors of each row of a part, and of what was held against them."""
    shown = Table(box=box.HORIZONTALS, padding=(0, 1, 0, 0), show_edge=False)
    schemes = [str(name) for name in points if name not in ("what", "measured", "setting")]
    shown.add_column("", no_wrap=True)
    for heading in ("points", *schemes, "constant", "stated"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for what, rows in points.groupby("what", sort=False):
        middle = pd.Series(rows["measured"].median(), rows.index)
        texts = [error(rows, computed) for computed in (*(rows[name] for name in schemes), middle)]
        counted = rows["setting"].nunique() if "setting" in rows else 0
        shown.add_row(str(what), f"{counted or len(rows):,}", *texts, STATED.get(f"{part}: {what}", ""))
    return shown


def error(rows: Points, computed: "pd.Series[float]") -> str:
    """Return the mean and median error in percent of what was computed for the points of a row."""
    errors = 100 * (computed / rows["measured"] - 1).abs()
    if "setting" in rows and rows["setting"].notna().all():
        errors = errors.groupby(rows["setting"]).mean()
    return "" if errors.isna().all() else f"{errors.mean():.1f} ({errors.median():.1f})"


def main(args: list[str] | None = None) -> int:
    """Print the errors part by part; return the exit code, 2 if there are no measurements."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--data", type=Path, required=True, help="folder of the measurements")
    folder = flags.parse_args(args).data
    if missing := [name for name in (SPEEDS, PAIRS) if not (folder / name).is_file()]:
        print(f"speed_errors.py: there is no {' and no '.join(missing)} in {folder}", file=sys.stderr)
        return 2
    speeds = measurements(folder)
    many = gangs(speeds)
    parts = {"GPU": single_gpu(speeds), "gang": synchronisation(many), "nodes": spread(many)}
    parts |= {"cores": cores(speeds), "pair": colocation(folder)}
    parts |= {"restart": preemption(folder)} if (folder / PAUSES).is_file() else {}
    out = report.console(sys.stdout)
    for part, points in parts.items():
        out.print(NOTES[part], table(part, points), "", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
