"""Clusters: the machines, which do not change during an episode."""

import csv
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpu_cluster_gym.traces import did_you_mean

REFERENCE = "v100"
GPU_MEMORY_GIB = {
    REFERENCE: 16.0,
    "k80": 12.0,
    "p100": 16.0,
    "t4": 16.0,
    "rtx2080ti": 11.0,
    "rtx3090": 24.0,
    "a100": 40.0,
}  # as in traces/data/hardware.csv
WITHOUT_SPEED = {"l40s": 48.0, "h100": 80.0, "h200": 141.0}
"""GPU memory, GiB, of types whose speeds have no public measurement, so that physics `gpu_types` is refused."""
CORES_PER_GPU = 6  # of the presets: 48 per node of eight

LINKS = {
    "nvlink-ib": (29.0, 7.6, 0.0, 0.0),
    "nvlink-ethernet": (29.0, 0.6, 0.0, 0.9),
    "pcie-ib": (6.0, 1.15, 1.7, 0.0),
    "pcie-ethernet": (1.9, 0.6, 2.8, 0.9),
}
"""Links by name: GB/s between the GPUs of a node and between nodes, ms per additional GPU and per additional node.

Each is fitted to measured clusters of its kind with equal weights; NVLink with Ethernet is combined from two.
`benchmarks/calibration.py` names the clusters, `docs/rules.md` the errors.
"""

FIELDS = ("intra_gbs", "inter_gbs", "intra_ms", "inter_ms")  # of a cluster, in the order of LINKS

MEMORY_GIB = GPU_MEMORY_GIB | WITHOUT_SPEED
_TYPES, _LINKS = "|".join(MEMORY_GIB), "|".join(LINKS)
_UNIFORM = re.compile(
    rf"(\d+)x(\d+)(?:-({_TYPES}))?(?:-(\d+(?:\.\d+)?)gb)?(?:-(\d+)c)?(?:-({_LINKS}))?", re.ASCII
)


@dataclass(frozen=True)
class Cluster:
    """Nodes with CPU cores, and GPUs of one type and memory per node; at least one core for each GPU.

    All nodes have the same host memory, and all GPUs the same links; the defaults are those recommended by
    `traces/data/hardware.csv`: host memory (two sockets of six DDR4-2666 channels, about 80 % of their peak) and
    network (100 Gb/s InfiniBand, between its fits) are assumptions, the bandwidth inside a node is a fit (NVLink), its
    latency the median of the fits, the latency between nodes a fit (T4 nodes).
    """

    name: str
    node_gpus: tuple[int, ...]
    node_gpu_memory_gib: tuple[float, ...]
    node_cores: tuple[int, ...]
    bandwidth_gbs: float = 200.0  # GB/s, of a node's host memory
    intra_gbs: float = 26.0  # GB/s, between GPUs of a node
    inter_gbs: float = 5.0  # GB/s, between nodes
    intra_ms: float = 1.0  # ms per iteration for each additional GPU of a node
    inter_ms: float = 2.3  # ms per iteration for each additional node
    node_types: tuple[str, ...] = ()  # of each node's GPUs; empty for V100s
    node_names: tuple[str, ...] = ()  # empty where they are unknown
    left_out: str = ""  # note on nodes of a file that are not in the cluster
    names_in_file: tuple[str, ...] = ()  # of all nodes of Slurm's file in its order, those left out included

    def __post_init__(self) -> None:
        """Raise ValueError for a node with fewer cores than GPUs, and for unknown GPU types."""
        if unknown := set(self.types) - set(MEMORY_GIB):
            raise ValueError(
                f"cluster {self.name}: unknown GPU type {min(unknown)!r}: expected one of {', '.join(MEMORY_GIB)}"
            )
        for node, (cores, gpus) in enumerate(zip(self.node_cores, self.node_gpus, strict=True)):
            if cores < gpus:
                raise ValueError(
                    f"cluster {self.name}: node {node} has {cores} cores for {gpus} GPUs: expected at least one core "
                    "per GPU"
                )

    @property
    def types(self) -> tuple[str, ...]:
        """Type of each node's GPUs."""
        return self.node_types or (REFERENCE,) * self.num_nodes

    @property
    def without_speed(self) -> list[str]:
        """Types of GPUs without measured speeds, which are simulated as V100s of their own memory."""
        return sorted(set(self.types) & set(WITHOUT_SPEED))

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.node_gpus)

    @property
    def numbered(self) -> tuple[int | None, ...]:
        """Node that each number from 0 on means to a user: that of a file counts the nodes left out, which are None."""
        if not self.names_in_file:
            return tuple(range(self.num_nodes))
        node_of = {name: node for node, name in enumerate(self.node_names)}
        return tuple(node_of.get(name) for name in self.names_in_file)

    @property
    def num_gpus(self) -> int:
        """Number of GPUs."""
        return sum(self.node_gpus)

    @property
    def largest_gpu_gib(self) -> float:
        """Memory of the largest GPU, GiB."""
        return max(m for m, g in zip(self.node_gpu_memory_gib, self.node_gpus, strict=True) if g)

    @property
    def cores_per_gpu(self) -> float:
        """Minimum over nodes of CPU cores per GPU."""
        return min(c / g for c, g in zip(self.node_cores, self.node_gpus, strict=True) if g)


def uniform(
    nodes: int,
    gpus: int,
    memory_gib: float | None = None,
    cores: int | None = None,
    gpu_type: str | None = None,
    links: str | None = None,
) -> Cluster:
    """Return `nodes` equal nodes of `gpus` GPUs: by default V100s, the memory of their type, 6 cores per GPU."""
    name = f"{nodes}x{gpus}"
    name += "" if gpu_type is None else f"-{gpu_type}"
    name += "" if memory_gib is None else f"-{memory_gib:g}gb"
    name += "" if cores is None else f"-{cores}c"
    name += "" if links is None else f"-{links}"
    if nodes < 1 or gpus < 1:
        raise ValueError(f"cluster {name}: expected at least 1x1")
    memory_gib = MEMORY_GIB[gpu_type or REFERENCE] if memory_gib is None else memory_gib
    if memory_gib <= 0:
        raise ValueError(f"cluster {name}: expected more than 0 GiB of GPU memory")
    cores = CORES_PER_GPU * gpus if cores is None else cores
    types = () if gpu_type is None else (gpu_type,) * nodes
    plain = Cluster(name, (gpus,) * nodes, (memory_gib,) * nodes, (cores,) * nodes, node_types=types)
    if links is None:
        return plain
    intra_gbs, inter_gbs, intra_ms, inter_ms = LINKS[links]
    return replace(plain, intra_gbs=intra_gbs, inter_gbs=inter_gbs, intra_ms=intra_ms, inter_ms=inter_ms)


def together(name: str, parts: Sequence[Cluster]) -> Cluster:
    """Return one cluster of the nodes of several; ValueError where their links differ."""
    links = {tuple(getattr(part, field) for field in FIELDS) for part in parts}
    if len(links) > 1:
        raise ValueError(f"cluster {name}: expected the same links in all parts: append them to each part")
    return Cluster(
        name,
        tuple(gpus for part in parts for gpus in part.node_gpus),
        tuple(memory for part in parts for memory in part.node_gpu_memory_gib),
        tuple(cores for part in parts for cores in part.node_cores),
        node_types=tuple(gpu_type for part in parts for gpu_type in part.types),
        **dict(zip(FIELDS, links.pop(), strict=True)),
    )


def philly() -> Cluster:
    """Return the cluster of the Philly trace by its machine list: 552 nodes, 2,490 GPUs.

    321 nodes of 2 GPUs with 12 GB, then 231 of 8 with 24 GB; cores are not in the trace and are our assumption.
    """
    gpus = (2,) * 321 + (8,) * 231
    memory = (12.0,) * 321 + (24.0,) * 231
    return Cluster("philly", gpus, memory, tuple(CORES_PER_GPU * count for count in gpus))


def cluster(name: str) -> Cluster:
    """Return the cluster of a name: `philly`, `NxG` (nodes x GPUs), or a CSV file of nodes.

    `NxG` may be followed by the type of the GPUs, the memory of each in GiB, the cores of a node and the links, in this
    order: `4x8-k80`, `1x2-32gb`, `10x8-40c`, `1x2-v100-32gb-20c`, `8x8-nvlink-ethernet` (one of `LINKS`); several such
    names are joined by `+`. The CSV has a row for each node: `gpus, gpu_memory_gib, cores`, and `gpu_type` unless these
    are V100s. A file that ends in .json is Slurm's (`from_slurm`). ValueError for an unknown name lists the forms.
    """
    if name == "philly":
        return philly()
    shapes = [_UNIFORM.fullmatch(part) for part in name.split("+")]
    if all(shapes):
        parts = [named(*shape.groups()) for shape in shapes if shape]
        return parts[0] if len(parts) == 1 else together(name, parts)
    if Path(name).is_file():
        return from_slurm(Path(name)) if name.endswith(".json") else from_csv(Path(name))
    if name.endswith((".csv", ".json")):
        raise ValueError(f"cluster {name}: no such file; expected a CSV file of nodes, or Slurm's JSON")
    hint = did_you_mean(name, ("philly", *_in_lower_case(name)))
    raise ValueError(
        f"cluster {name!r} is unknown: expected NxG such as 8x8, 1x2-32gb-20c or 4x8+4x8-k80, 'philly', a CSV "
        f"file of nodes, or a .json file of scontrol show nodes --json; GPU types are {', '.join(MEMORY_GIB)}{hint}"
    )


def _in_lower_case(name: str) -> tuple[str, ...]:
    """Return a name in lower case where that is a valid `NxG`."""
    small = name.casefold()
    return (small,) if all(_UNIFORM.fullmatch(part) for part in small.split("+")) else ()


def named(
    nodes: str, gpus: str, gpu_type: str | None, memory_gib: str | None, cores: str | None, links: str | None
) -> Cluster:
    """Return the cluster of a name in its parts."""
    memory = float(memory_gib) if memory_gib else None
    return uniform(int(nodes), int(gpus), memory, int(cores) if cores else None, gpu_type, links)


NO_CSV = {
    "NodeName=": "the text of scontrol show nodes: expected its JSON (scontrol show nodes --json > nodes.json)",
    "PARTITION": "the text of sinfo: expected scontrol show nodes --json > nodes.json",
    "{": "JSON: expected a file name that ends in .json",
}
"""Beginnings of files that are no CSV of nodes, and what is wrong."""


def from_csv(file: Path) -> Cluster:
    """Read a cluster from a CSV file with the columns `gpus, gpu_memory_gib, cores`, and optionally `gpu_type`."""
    with file.open(newline="") as lines:
        first = lines.readline().lstrip()
        if wrong := next((why for mark, why in NO_CSV.items() if first.startswith(mark)), None):
            raise ValueError(f"{file}: found {wrong}")
        lines.seek(0)
        rows = list(csv.DictReader(lines, skipinitialspace=True))
    try:
        gpus = tuple(int(row["gpus"]) for row in rows)
        memory = tuple(float(row["gpu_memory_gib"]) for row in rows)
        cores = tuple(int(row["cores"]) for row in rows)
        types = tuple(row["gpu_type"].strip().lower() for row in rows if "gpu_type" in row)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"no column {error}" if isinstance(error, KeyError) else error
        raise ValueError(
            f"{file}: expected a row for each node, with numbers in the columns gpus, gpu_memory_gib, cores ({why})"
        ) from None
    if not gpus or min(gpus) < 0 or sum(gpus) == 0 or min(cores) < 0:
        raise ValueError(f"{file}: expected at least one GPU, and no negative numbers")
    if bad_gib := [gib for gib in memory if not 0 < gib < math.inf]:
        raise ValueError(f"{file}: gpu_memory_gib {bad_gib[0]:g}: expected a finite number of GiB > 0")
    return Cluster(file.stem, gpus, memory, cores, node_types=types)


_GRES = re.compile(r"gpu(?::([^:,(]+))?:(\d{1,4})", re.ASCII)
_SLICE = re.compile(r"\dg\.\d+gb", re.IGNORECASE | re.ASCII)
AWAY = ("DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FUTURE", "MAINT", "NOT_RESPONDING", "POWERED_DOWN")
"""States of Slurm's nodes on which no job can start."""


def from_slurm(file: Path) -> Cluster:
    """Read a cluster from the JSON of `scontrol show nodes --json`, or of `sinfo --json` where it names every node.

    Nodes that are down or drained, those without GPUs, and MIG slices of GPUs are left out. All GPUs are taken as
    V100s. ValueError for another file.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if not {"nodes", "sinfo"} & {*found}:
            raise ValueError("no list named nodes")
        rows = found["nodes"] if "nodes" in found else [_row(each) for each in found["sinfo"]]
        gres = [_GRES.findall(str(row.get("gres") or "")) for row in rows]
        nodes = [
            (
                str(row["name"]),
                sum(int(count) for kind, count in own if not _SLICE.search(kind)),
                sum(int(count) for kind, count in own if _SLICE.search(kind)),
                int(row["cpus"]),
                bool({str(each).rstrip("*~#!%$@^-").upper() for each in _states(row)} & {*AWAY}),
            )
            for row, own in zip(rows, gres, strict=True)
        ]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        why = f"no entry {error}" if isinstance(error, KeyError) else error
        raise ValueError(
            f"{file}: expected the JSON of scontrol show nodes --json, or of sinfo --json ({why})"
        ) from None
    away = [gpus for _, gpus, _, _, is_away in nodes if is_away and gpus > 0]
    slices = sum(own for _, _, own, _, is_away in nodes if not is_away)
    names_in_file = tuple(name for name, *_ in nodes)
    nodes = [each for each in nodes if each[1] > 0 and not each[4]]
    if not nodes:
        raise ValueError(
            f"{file}: expected a node with GPUs (gres like gpu:a100:8; MIG slices are not read) that is not down or "
            "drained"
        )
    names, gpus, _, cores, _ = zip(*nodes, strict=True)
    if len({*names}) < len(names):
        raise ValueError(f"{file}: a node is named twice: use scontrol show nodes --json")
    memory = (GPU_MEMORY_GIB[REFERENCE],) * len(nodes)
    left_out = list[str]()
    if away:
        gone = f"nodes of {file.name} left out, since they are down or drained ({sum(away):,} GPUs): {len(away):,}"
        left_out.append(gone)
    if slices:
        left_out.append(f"MIG slices of nodes of {file.name} left out: {slices:,}")
    return Cluster(
        file.stem,
        gpus,
        memory,
        tuple(map(max, cores, gpus)),
        node_names=names,
        left_out="; ".join(left_out),
        names_in_file=names_in_file,
    )


def _states(row: dict[str, Any]) -> list[Any]:
    states = row.get("state") or []
    return states if isinstance(states, list) else [states]


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of `sinfo --json`, which must be of one node, in the form of `scontrol show nodes --json`."""
    (name,) = entry["nodes"]["nodes"]
    state = entry["node"]["state"]
    return {"name": name, "state": state, "gres": entry["gres"]["total"], "cpus": entry["cpus"]["maximum"]}
