"""How jobs affect one another; by default they do not."""

from dataclasses import dataclass
from typing import Any, Literal

from envs.cluster import Cluster
from envs.kernel.layout import MAX_SHARE, OOM_VICTIMS
from envs.scenario import CONTENTION, Scenario


@dataclass(frozen=True)
class Physics:
    """What the simulator does where jobs meet on a GPU or a node.

    max_share: jobs a GPU. cores: whether nobody gets cores that are not there, and cores decide about speed.
    bandwidth: whether jobs fight for the memory of their node. The others are those of `envs.scenario.Scenario`.
    """

    max_share: int = 1
    cores: bool = False
    bandwidth: bool = False
    contention: float = CONTENTION
    contention_loss: float = 0.0
    peak_at: float = 0.0
    oom_victim: Literal["newcomer", "random", "grower"] = "newcomer"
    restart_delay: float = 25.0

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

    @property
    def needs_nodes(self) -> bool:
        """Whether it matters which GPUs a job has, so that the cluster cannot be one pool."""
        return self.max_share > 1 or self.cores or self.bandwidth

    def check(self, placement: str) -> None:
        """Refuse a placement that ignores nodes where they matter; ValueError."""
        if placement == "pooled" and self.needs_nodes:
            raise ValueError(
                "pooled ignores node borders: it goes with no sharing, cores, bandwidth or CPU jobs"
            )

    def fields(self, cluster: Cluster) -> dict[str, Any]:
        """Return the fields of an episode's record that say so."""
        return {
            "max_share": self.max_share,
            "cores_bind": self.cores,
            "bandwidth_binds": self.bandwidth,
            "varying": self.needs_nodes,
            "contention": self.contention,
            "contention_loss": self.contention_loss,
            "peak_at": self.peak_at,
            "oom_victim": OOM_VICTIMS.index(self.oom_victim),
            "restart_delay": self.restart_delay,
            "intra_gbs": cluster.intra_gbs,
            "inter_gbs": cluster.inter_gbs,
            "intra_s": cluster.intra_ms / 1000,
            "inter_s": cluster.inter_ms / 1000,
            "node_gbs": cluster.bandwidth_gbs,
        }


def physics(scenario: Scenario, *, cpu_jobs: bool) -> Physics:
    """Return the physics of a scenario; CPU jobs take cores from others whether cores decide about speed or not."""
    parts = scenario.parts
    return Physics(
        max_share=scenario.max_share if "sharing" in parts else 1,
        cores="cores" in parts or cpu_jobs,
        bandwidth="bandwidth" in parts,
        contention=scenario.contention,
        contention_loss=scenario.contention_loss,
        peak_at=scenario.peak_at,
        oom_victim=scenario.oom_victim,
        restart_delay=scenario.restart_delay,
    )
