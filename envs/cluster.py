"""The machines of a cluster, which never change during an episode."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path

GPU_MEMORY_GIB = 16.0  # V100, the reference GPU
CORES_PER_GPU = 6  # of the presets: 48 a node of eight


@dataclass(frozen=True)
class Cluster:
    """Nodes, each with GPUs of one type and memory, and CPU cores."""

    name: str
    node_gpus: tuple[int, ...]
    node_gpu_memory_gib: tuple[float, ...]
    node_cores: tuple[int, ...]

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


def uniform(nodes: int, gpus: int, memory_gib: float = GPU_MEMORY_GIB) -> Cluster:
    """Return `nodes` like nodes of `gpus` GPUs each."""
    if nodes < 1 or gpus < 1:
        raise ValueError(f"a cluster of {nodes}x{gpus} has no GPU")
    return Cluster(f"{nodes}x{gpus}", (gpus,) * nodes, (memory_gib,) * nodes, (CORES_PER_GPU * gpus,) * nodes)


def philly() -> Cluster:
    """Return the cluster of the Philly trace as its machine list has it: 552 nodes, 2,490 GPUs.

    321 nodes of 2 GPUs with 12 GB, then 231 of 8 with 24 GB; cores are ours, the trace does not tell them.
    """
    gpus = (2,) * 321 + (8,) * 231
    memory = (12.0,) * 321 + (24.0,) * 231
    return Cluster("philly", gpus, memory, tuple(CORES_PER_GPU * count for count in gpus))


def cluster(name: str) -> Cluster:
    """Return the cluster of a name: `philly`, `NxG` (nodes x GPUs), or a CSV file of nodes.

    The CSV has a row a node: `gpus, gpu_memory_gib, cores`. ValueError says what names exist.
    """
    if name == "philly":
        return philly()
    if shape := re.fullmatch(r"(\d+)x(\d+)", name):
        return uniform(int(shape[1]), int(shape[2]))
    if Path(name).is_file():
        return from_csv(Path(name))
    raise ValueError(f"cluster {name!r} is unknown: give NxG such as 8x8, 'philly', or a CSV file of nodes")


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
