"""Tables of owners: GPU-hours, waits, JCT and slowdown by tenant or user, the worst-off tenant, and Jain's index."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from gpu_cluster_gym.evaluation.metrics import Windows, jain
from gpu_cluster_gym.evaluation.runner import with_tenants
from gpu_cluster_gym.evaluation.table import Column, ResultTable

if TYPE_CHECKING:
    from gpu_cluster_gym.workloads import Workload

MEANS = {"mean_wait_s": "wait_s", "mean_jct_s": "jct_s", "mean_slowdown": "slowdown"}
"""Columns of a table of owners that are means of a column over the owner's jobs."""


def by_tenant(results: Mapping[str, pd.DataFrame], workloads: Sequence["Workload"]) -> pd.DataFrame:
    """Return a row for each policy and tenant: quota, jobs, GPU-hours held, and means over its jobs that count.

    results: results table of each policy. All numbers are means over the windows in which the tenant has jobs; the
    slowdown is the bounded one of `metrics`.
    """
    owners = pd.concat(
        with_tenants(load)[["job_id", "tenant"]].assign(
            window=load.window.number, quota=[load.tenants.quotas[each] for each in load.tenants.of_job]
        )[load.counted]
        for load in workloads
    )
    found = by_owner(results, owners, "tenant")
    quotas = owners.drop_duplicates(["window", "tenant"]).groupby("tenant")["quota"].mean()
    found.insert(2, "quota", found["tenant"].map(quotas))
    return found


def by_owner(results: Mapping[str, pd.DataFrame], owners: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return a row for each policy and owner: jobs, GPU-hours held, and means over its jobs.

    results: results table of each policy. owners: `window`, `job_id` and the column with the owner of each job; jobs
    without a row are left out. All numbers are means over the windows in which the owner has jobs; the slowdown is the
    bounded one of `metrics`.
    """
    own, rows = owners[["window", "job_id", column]], []
    for policy, table in results.items():
        jobs = table.assign(slowdown=Windows(table, 0, float("nan")).slowdown)
        held_s = jobs["run_gpu_s"] + jobs["overhead_gpu_s"] + jobs["lost_gpu_s"]
        jobs = jobs.assign(gpu_hours=held_s / 3600).merge(own, on=["window", "job_id"], validate="m:1")
        groups = jobs.groupby(["window", "seed", column], sort=False)
        each = pd.DataFrame(
            {
                "jobs": groups.size(),
                "gpu_hours": groups["gpu_hours"].sum(),
                **{name: groups[measured].mean() for name, measured in MEANS.items()},
            }
        )
        means = each.groupby(level=column, sort=False).mean()
        rows.append(means.reset_index().assign(policy=policy))
    found = pd.concat(rows, ignore_index=True)
    return found[["policy", column, "jobs", "gpu_hours", *MEANS]]


def table(found: pd.DataFrame) -> ResultTable:
    """Return a row for each policy: the tenant with the largest mean slowdown, its means, and Jain's index.

    found: as `by_tenant` returns it. The index is that of the tenants' mean slowdowns.
    """
    policies = list(dict.fromkeys(found["policy"]))
    own = {policy: found[found["policy"] == policy] for policy in policies}
    worst = [each.loc[each["mean_slowdown"].idxmax()] for each in own.values()]
    columns = [
        Column("worst\ntenant", [str(row["tenant"]) for row in worst]),
        Column("its\nquota", [f"{row['quota']:,.0f}" for row in worst]),
        Column("its mean\nwait, s", [f"{row['mean_wait_s']:,.0f}" for row in worst]),
        Column("its mean\nJCT, s", [f"{row['mean_jct_s']:,.0f}" for row in worst]),
        Column("its mean\nslowdown", [f"{row['mean_slowdown']:,.2f}" for row in worst]),
        Column("Jain,\ntenants", [f"{jain(each['mean_slowdown']):.3f}" for each in own.values()]),
    ]
    return ResultTable([Column("policy", policies)], columns, title="Tenants: who is worst off")
