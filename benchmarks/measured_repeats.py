"""How exact a profile is: what was measured more than once, or nearly so, and how far apart it came out."""

from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.measured_pairs import PAIRS
from benchmarks.measured_speeds import SPEEDS

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
    """Return by `what` how many settings and rows there are, and the deviation of the logarithm within a setting, %."""
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
    """Return the deviation within settings measured twice at least, and that which half of the rows are within."""
    rows = rows[rows[column] > 0]
    same = rows.groupby(setting, dropna=False)
    log = np.log(rows[column][same[column].transform("size") > 1])
    number = same.ngroup()[log.index]
    apart = log - log.groupby(number).transform("mean")
    settings = number.nunique()
    deviation = np.sqrt((apart**2).sum() / max(len(log) - settings, 1))
    return what, settings, len(log), 100 * float(deviation), 100 * float(apart.abs().median())
