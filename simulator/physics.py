"""Physics of an episode: sharing, cores, bandwidth, links, GPU types and failures; by default all are off."""

from dataclasses import dataclass, field
from typing import Any

from gpu_cluster_gym.simulator.choice import declared
from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.kernel.cluster.parameters import (
    CONTENTION,
    CONTENTION_OF_EXCESS,
    Parameters,
    acting,
    recorded,
)

__all__ = ["CONTENTION", "CONTENTION_OF_EXCESS", "Physics", "acting"]


def _off(name: str) -> Any:
    """Return the field of a parameter with a default that has no effect."""
    about = declared(Parameters)[name].metadata
    return field(default=about["off"], metadata=about)


@dataclass(frozen=True)
class Physics(Parameters):
    """Interactions of jobs on a GPU or a node: their parameters, and switches.

    cores: whether cores are limited and determine speed
    bandwidth: whether jobs compete for the host memory of their node
    links: whether jobs share links between nodes
    typed: whether GPUs differ in speed
    """

    max_share: int = _off("max_share")
    pressure_from: float = _off("pressure_from")
    pressure_at_full: float = _off("pressure_at_full")
    exchange_core_s: float = _off("exchange_core_s")
    exchange_passes: float = _off("exchange_passes")
    cores: bool = False
    bandwidth: bool = False
    links: bool = False
    typed: bool = False

    @property
    def needs_nodes(self) -> bool:
        """Whether it matters which GPUs a job has, so that the cluster cannot be a pool."""
        return self.max_share > 1 or self.cores or self.bandwidth or self.links

    @property
    def nodes_close(self) -> bool:
        """Whether nodes fail or are drained."""
        return self.node_mtbf_h > 0 or self.drain_every_h > 0

    def check(self, placement: str) -> None:
        """Raise ValueError for a placement that ignores nodes where they matter."""
        if placement == "pooled" and (self.needs_nodes or self.typed or self.nodes_close):
            raise ValueError(
                "placement pooled ignores node boundaries: turn off sharing, cores, bandwidth, links, cpu_jobs, "
                "gpu_types and failures, or choose another placement"
            )

    def fields(self, cluster: Cluster) -> dict[str, Any]:
        """Return these settings as fields of an episode's record."""
        return {
            **recorded(self),
            "cpu_limited": self.cores,
            "bandwidth_binds": self.bandwidth,
            "shares_links": self.links,
            "varying": self.needs_nodes,
            "typed": self.typed,
            "failing": self.nodes_close,
            "intra_gbs": cluster.intra_gbs,
            "inter_gbs": cluster.inter_gbs,
            "intra_s": cluster.intra_ms / 1000,
            "inter_s": cluster.inter_ms / 1000,
            "node_gbs": cluster.bandwidth_gbs,
        }
