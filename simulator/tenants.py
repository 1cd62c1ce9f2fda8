"""Tenants of an episode: owners of jobs, with guaranteed GPUs, who may borrow GPUs of one another."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.layout import BORROWING, MAX_TENANTS


@dataclass(frozen=True)
class Tenants:
    """Tenants with quotas; without names there are none.

    names: name of each tenant: first those that policies know from the beginning, then the others by first job
    quotas: guaranteed GPUs of each tenant
    of_job: (jobs,) index of each job's tenant
    borrowing: none, idle or reclaim; see docs/rules.md
    """

    names: tuple[str, ...] = ()
    quotas: tuple[int, ...] = ()
    of_job: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    borrowing: str = "none"

    def __bool__(self) -> bool:
        """Return whether there are any tenants."""
        return len(self.names) > 0

    def too_wide(self, num_gpus: np.ndarray) -> np.ndarray:
        """Return which jobs could never start: without borrowing, those wider than their tenant's quota; bool (jobs,).

        num_gpus: (jobs,) requested GPUs.
        """
        if not self or self.borrowing != "none":
            return np.zeros(len(num_gpus), bool)
        wide: np.ndarray = num_gpus > np.asarray(self.quotas)[self.of_job]
        return wide

    def check(
        self, num_gpus: np.ndarray, cluster_gpus: int, placement: str, ids: np.ndarray | None = None
    ) -> None:
        """Raise ValueError for quotas that cannot be kept, or with which a job could never start.

        num_gpus: (jobs,) requested GPUs.
        cluster_gpus: GPUs of the cluster.
        placement: the scenario's placement rule.
        ids: (jobs,) names of the jobs in the message; by default their numbers.
        """
        if not self:
            return
        if len(self.names) > MAX_TENANTS:
            raise ValueError(
                f"{len(self.names):,} tenants: expected at most {MAX_TENANTS}; merge the smallest"
            )
        if placement == "pooled":
            raise ValueError(
                "placement pooled does not support quotas: choose another placement, or drop the quotas"
            )
        if sum(self.quotas) > cluster_gpus:
            raise ValueError(
                f"quotas guarantee {sum(self.quotas):,} GPUs, but the cluster has {cluster_gpus:,}: lower the quotas"
            )
        if (wide := self.too_wide(num_gpus)).any():
            job = int(np.flatnonzero(wide)[0])
            tenant = self.of_job[job]
            name = job if ids is None else ids[job]
            first = f"job {name} of tenant {self.names[tenant]!r} (GPUs: {num_gpus[job]:,})"
            has_jobs = {*self.of_job.tolist()}
            unused = [name for k, name in enumerate(self.names) if self.quotas[k] and k not in has_jobs]
            unknown = f"; without jobs, but with a quota: {', '.join(unused[:5])}" if unused else ""
            raise ValueError(
                f"{wide.sum():,} of {len(wide):,} jobs request more GPUs than their tenant's quota and could never "
                f"start (the first is {first}, whose quota is {self.quotas[tenant]}{unknown}): raise the quotas, let "
                "tenants borrow (--borrowing idle), or drop such jobs (--drop-too-large)"
            )

    def fields(self) -> dict[str, Any]:
        """Return these settings as fields of an episode's record."""
        if not self:
            return {}
        borrowing = BORROWING.index(self.borrowing)
        return {"tenant": self.of_job, "quotas": self.quotas, "borrowing": borrowing}


NO_TENANTS = Tenants()


def proportional(shares: np.ndarray, gpus: int) -> tuple[int, ...]:
    """Return quotas of at least one GPU that add up to a number of GPUs, in proportion to shares as far as possible.

    shares: (tenants,) weight of each tenant, not all 0. gpus: sum of the quotas.
    One GPU after another goes to the tenant with the smallest quota in relation to its share, of equals to the first.
    ValueError for more tenants than GPUs.
    """
    if len(shares) > gpus:
        raise ValueError(
            f"proportional quotas: {len(shares):,} tenants cannot each have one of {gpus:,} GPUs; pass the quotas as "
            "NAME=GPUS,..., or choose a larger cluster"
        )
    quotas = np.ones(len(shares), int)
    relative = shares / shares.sum()
    for _ in range(gpus - len(shares)):
        quotas[np.argmax(relative / quotas)] += 1
    return tuple(quotas.tolist())
