"""Links fitted to measured clusters of a kind: the figures behind `simulator.cluster.LINKS`, and how far they carry."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from benchmarks.measured_speeds import Floats, iterations
from gpu_cluster_gym.simulator.cluster import FIELDS, LINKS

KINDS = {
    "nvlink-ib": (
        *("sia V100", "muri V100", "dle V100", "tfb P100"),
        *("dle A100", "lambda A100", "sia A100", "elasticflow A100"),
    ),
    "pcie-ib": ("sia RTX2080Ti", "sia QuadroRTX6000", "lambda RTX3090", "tfb K80"),
    "pcie-ethernet": ("gavel K80", "gavel P100", "sia T4"),
    "nvlink-ethernet": ("gavel V100",),
}
"""Measured clusters by the name of their links: our reading of their machines, where a source does not say."""

ROUNDS, LEAST = 60, 1e-3  # of the fit; least of an error's size there, and of 1 / bandwidth, s a GB


def by_name(many: pd.DataFrame) -> pd.DataFrame:
    """Return jobs' seconds with the links `named`, and with those fitted to the kind's other clusters, `left_out`."""
    found = pd.DataFrame(np.nan, many.index, ["named", "left_out"])
    told = many[~many["source"].str.contains("scalability")]
    for kind, clusters in KINDS.items():
        for cluster in clusters:
            rows = many[many["cluster"] == cluster]
            if len(rows):
                found.loc[rows.index, "named"] = iterations(rows, dict(zip(FIELDS, LINKS[kind], strict=True)))
                others = links_of(told[told["cluster"] != cluster], kind)
                found.loc[rows.index, "left_out"] = iterations(rows, dict(zip(FIELDS, others, strict=True)))
    return found


def links_of(many: pd.DataFrame, kind: str) -> tuple[float, ...]:
    """Return the links that fit the clusters of a kind, each counting the same: GB/s and ms, as in `LINKS`.

    NVLink with Ethernet has the links inside a node of the one kind, and between nodes of the other.
    """
    if kind == "nvlink-ethernet":
        inside, between = links_of(many, "nvlink-ib"), links_of(many, "pcie-ethernet")
        return inside[0], between[1], inside[2], between[3]
    clusters = [rows for name, rows in many.groupby("cluster") if name in KINDS[kind]]
    intra, inter, near_ms, far_ms = fitted(clusters) if clusters else np.zeros(4)
    return 1 / max(intra, LEAST), 1 / max(inter, LEAST), near_ms, far_ms


def fitted(clusters: Sequence[pd.DataFrame]) -> Floats:
    """Return s a GB inside and between nodes, and ms a hop, none negative, with the least error.

    That is the mean |computed / measured - 1|. What is computed is a constant and a sum of the four, so least squares
    do, weighted anew in each round.
    """
    gained, left, weight = (np.concatenate(parts) for parts in zip(*map(equations, clusters), strict=True))
    found = np.zeros(4)
    for _ in range(ROUNDS):
        scale = weight / np.maximum(np.abs(gained @ found - left), LEAST)
        ways = [solved(gained, left, scale, chosen) for n in range(5) for chosen in combinations(range(4), n)]
        good = [way for way in ways if (way >= 0).all()]
        found = min(good, key=lambda way: float((scale * (gained @ way - left) ** 2).sum()))
    return found


def equations(rows: pd.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Return what each of the four adds, and what they have to add, over what was measured; and the weights."""
    workers, nodes, measured = (rows[name].to_numpy(float) for name in ("num_gpus", "nodes", "seconds"))
    moved = 2 * (workers - 1) / workers * rows["sync_gb"].to_numpy()
    parts = [moved * (nodes == 1), moved * (nodes > 1), (workers / nodes - 1) / 1000, (nodes - 1) / 1000]
    adds = np.stack(parts, axis=1) * (moved > 0)[:, None] / measured[:, None]
    return adds, 1 - rows["gpu_s"].to_numpy() / measured, np.full(len(rows), 1 / len(rows))


def solved(gained: Floats, left: Floats, scale: Floats, chosen: tuple[int, ...]) -> Floats:
    """Return the least squares in which only the chosen of the four are not 0."""
    way, some = np.zeros(4), list(chosen)
    root = np.sqrt(scale)
    if some:
        way[some] = np.linalg.lstsq(gained[:, some] * root[:, None], left * root, rcond=None)[0]
    return way
