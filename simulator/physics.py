"""How jobs affect one another; by default they do not."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from simulator.cluster import Cluster
from simulator.kernel.layout import MAX_SHARE, OOM_VICTIMS

HOUR = 3600.0
CONTENTION = 0.48
"""Slowdown of V100s for each GPU's worth of demand beyond one: the median of Gavel's pairs, in hardware.csv."""


@dataclass(frozen=True)
class Physics:
    """What the simulator does where jobs meet on a GPU or a node.

    max_share: jobs a GPU. cores: whether nobody gets cores that are not there, and cores decide about speed.
    bandwidth: whether jobs fight for the memory of their node. typed: whether GPUs differ in speed. The others are
    those of the scenario, all times in seconds, infinite where nothing happens.
    """

    max_share: int = 1
    cores: bool = False
    bandwidth: bool = False
    contention: float = CONTENTION
    contention_loss: float = 0.0
    peak_at: float = 0.0
    oom_victim: Literal["newcomer", "random", "grower"] = "newcomer"
    restart_delay: float = 25.0
    typed: bool = False
    node_mtbf: float = math.inf
    node_repair: float = 4 * HOUR
    drain_every: float = math.inf
    drain_notice: float = HOUR
    drain_length: float = 2 * HOUR
    checkpoint_every: float = 1800.0

    def __post_init__(self) -> None:
        """Refuse what the simulator cannot do; ValueError."""
        if not 1 <= self.max_share <= MAX_SHARE:
            raise ValueError(f"{self.max_share} jobs a GPU: there may be 1 to {MAX_SHARE}")
        for name in ("contention", "contention_loss"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} {getattr(self, name):g}: expected at least 0")
        if not self.restart_delay > 0:
            raise ValueError(f"restart_delay {self.restart_delay:g} s: expected more than 0")
        if not 0 <= self.peak_at < 1:
            raise ValueError(f"peak memory at {self.peak_at:g} of a run: expected from 0 to less than 1")
        for name in ("node_mtbf", "node_repair", "drain_notice", "drain_length", "checkpoint_every"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} of {getattr(self, name):g} s: expected more than 0")
        if not self.drain_every > self.drain_notice + self.drain_length:
            raise ValueError("drains of a node must be further apart than their notice and their length")

    @property
    def needs_nodes(self) -> bool:
        """Whether it matters which GPUs a job has, so that the cluster cannot be one pool."""
        return self.max_share > 1 or self.cores or self.bandwidth

    @property
    def nodes_close(self) -> bool:
        """Whether nodes fail or are drained."""
        return math.isfinite(self.node_mtbf) or math.isfinite(self.drain_every)

    def check(self, placement: str) -> None:
        """Refuse a placement that ignores nodes where they matter; ValueError."""
        if placement == "pooled" and (self.needs_nodes or self.typed or self.nodes_close):
            raise ValueError(
                "pooled ignores node borders: it goes with no sharing, cores, bandwidth, CPU jobs, GPU types, or "
                "nodes that fail"
            )

    def fields(self, cluster: Cluster) -> dict[str, Any]:
        """Return the fields of an episode's record that say so."""
        return {
            "max_share": self.max_share,
            "cpu_limited": self.cores,
            "bandwidth_binds": self.bandwidth,
            "varying": self.needs_nodes,
            "contention": self.contention,
            "contention_loss": self.contention_loss,
            "peak_at": self.peak_at,
            "oom_victim": OOM_VICTIMS.index(self.oom_victim),
            "restart_delay": self.restart_delay,
            "typed": self.typed,
            "failing": self.nodes_close,
            "node_mtbf": self.node_mtbf,
            "node_repair": self.node_repair,
            "drain_every": self.drain_every,
            "drain_notice": self.drain_notice,
            "drain_length": self.drain_length,
            "checkpoint_every": self.checkpoint_every,
            "intra_gbs": cluster.intra_gbs,
            "inter_gbs": cluster.inter_gbs,
            "intra_s": cluster.intra_ms / 1000,
            "inter_s": cluster.inter_ms / 1000,
            "node_gbs": cluster.bandwidth_gbs,
        }
