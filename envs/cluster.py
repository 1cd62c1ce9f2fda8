"""The machines of a cluster, which never change during an episode."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path

GPU_MEMORY_GIB = 16.0  # V100, the reference GPU
CORES_PER_GPU = 6  # of the presets: 48 a node of eight

_UNIFORM = re.compile(r"(\d+)x(\d+)(?:-(\d+(?:\.\d+)?)gb)?(?:-(\d+)c)?", re.ASCII)


@dataclass(frozen=True)
class Cluster:
    """Nodes, each with GPUs of one type and memory, and CPU cores: at least one for each GPU.

    All nodes have the same host memory, and all GPUs the same links; the defaults are those that
    `traces/data/hardware.csv` recommends. It calls the host memory (two sockets of six DDR4-2666 channels, about
    80 % of their peak) and the network (100 Gb/s InfiniBand, between its fits) assumptions, the bandwidth inside a
    node a fit (NVLink), the latency inside a node the median of its fits, that between nodes a fit (T4 nodes).
    """

    name: str
    node_gpus: tuple[int, ...]
    node_gpu_memory_gib: tuple[float, ...]
    node_cores: tuple[int, ...]
    bandwidth_gbs: float = 200.0  # GB/s, of a node's host memory
    intra_gbs: float = 26.0  # GB/s, between GPUs of a node
    inter_gbs: float = 5.0  # GB/s, between nodes
    intra_ms: float = 1.0  # ms an iteration for each further GPU of a node
    inter_ms: float = 2.3  # ms an iteration for each further node

    def __post_init__(self) -> None:
        """Refuse nodes that could not give every GPU a core; ValueError says which."""
        for node, (cores, gpus) in enumerate(zip(self.node_cores, self.node_gpus, strict=True)):
            if cores < gpus:
                raise ValueError(
                    f"cluster {self.name}: node {node} has {cores} cores for {gpus} GPUs, and needs one for each"
                )

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.node_gpus)

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
        """CPU cores a GPU of the node that has fewest of them."""
        return min(c / g for c, g in zip(self.node_cores, self.node_gpus, strict=True) if g)


def uniform(nodes: int, gpus: int, memory_gib: float | None = None, cores: int | None = None) -> Cluster:
    """Return `nodes` like nodes of `gpus` GPUs each, of 16 GiB and with 6 cores a GPU if nothing else is said."""
    name = f"{nodes}x{gpus}"
    name += "" if memory_gib is None else f"-{memory_gib:g}gb"
    name += "" if cores is None else f"-{cores}c"
    if nodes < 1 or gpus < 1:
        raise ValueError(f"a cluster of {nodes}x{gpus} has no GPU")
    memory_gib = GPU_MEMORY_GIB if memory_gib is None else memory_gib
    if memory_gib <= 0:
        raise ValueError(f"cluster {name}: a GPU needs memory")
    cores = CORES_PER_GPU * gpus if cores is None else cores
    return Cluster(name, (gpus,) * nodes, (memory_gib,) * nodes, (cores,) * nodes)


def philly() -> Cluster:
    """Return the cluster of the Philly trace as its machine list has it: 552 nodes, 2,490 GPUs.

    321 nodes of 2 GPUs with 12 GB, then 231 of 8 with 24 GB; cores are ours, the trace does not tell them.
    """
    gpus = (2,) * 321 + (8,) * 231
    memory = (12.0,) * 321 + (24.0,) * 231
    return Cluster("philly", gpus, memory, tuple(CORES_PER_GPU * count for count in gpus))


def cluster(name: str) -> Cluster:
    """Return the cluster of a name: `philly`, `NxG` (nodes x GPUs), or a CSV file of nodes.

    `NxG` may go on with the memory of a GPU in GiB and the cores of a node, in this order: `1x2-32gb`,
    `10x8-40c`, `1x2-32gb-20c`. The CSV has a row a node: `gpus, gpu_memory_gib, cores`. ValueError says what names
    exist.
    """
    if name == "philly":
        return philly()
    if shape := _UNIFORM.fullmatch(name):
        nodes, gpus, memory_gib, cores = shape.groups()
        return uniform(
            int(nodes), int(gpus), float(memory_gib) if memory_gib else None, int(cores) if cores else None
        )
    if Path(name).is_file():
        return from_csv(Path(name))
    raise ValueError(
        f"cluster {name!r} is unknown: give NxG such as 8x8 or 1x2-32gb-20c, 'philly', or a CSV file of nodes"
    )


def from_csv(file: Path) -> Cluster:
    """Read a cluster from a CSV file with the columns `gpus, gpu_memory_gib, cores`."""
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines, skipinitialspace=True))
    try:
        gpus = tuple(int(row["gpus"]) for row in rows)
        memory = tuple(float(row["gpu_memory_gib"]) for row in rows)
        cores = tuple(int(row["cores"]) for row in rows)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{file}: expected the columns gpus, gpu_memory_gib, cores as numbers ({error})"
        ) from None
    if not gpus or min(gpus) < 0 or sum(gpus) == 0 or min(memory) <= 0 or min(cores) < 0:
        raise ValueError(f"{file}: expected at least one GPU, and no negative numbers")
    return Cluster(file.stem, gpus, memory, cores)
