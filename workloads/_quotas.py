"""Quotas and time limits of a job table: the GPUs guaranteed to each tenant, and run times cut at their limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.tenants import NO_TENANTS, Tenants, proportional
from gpu_cluster_gym.traces import TraceError, csv_records
from gpu_cluster_gym.workloads._scenario import PROPORTIONAL, quotas_in

if TYPE_CHECKING:
    import pandas as pd

    from gpu_cluster_gym.workloads._scenario import Scenario

TENANT_COLUMNS = ("tenant", "vc")
"""Columns that can name a job's tenant; the first one in a table is used."""


def owners_of(table: pd.DataFrame) -> np.ndarray:
    """Return the name of each job's tenant; ValueError if the table has no column of tenants."""
    for column in TENANT_COLUMNS:
        if column in table:
            names: np.ndarray = table[column].astype(str).to_numpy()
            return names
    raise ValueError(
        "quotas require the column tenant or vc, but the jobs have neither: add one to the log, or drop the quotas"
    )


def guaranteed(table: pd.DataFrame, quotas: str | None, gpus: int) -> dict[str, int]:
    """Return the number of GPUs guaranteed to each tenant; an empty dictionary without quotas.

    quotas: as in `Scenario.quotas`. `proportional` divides all GPUs in proportion to the GPU time that the tenants'
        jobs hold, at least one for each: by the run times of all jobs, so that policies learn from the quotas how much
        each tenant will demand. A tenant that is not named has a quota of 0.
    gpus: number of GPUs of the cluster.
    """
    if quotas is None:
        return {}
    names = owners_of(table)
    if quotas == PROPORTIONAL:
        tenants, of_job = np.unique(names, return_inverse=True)  # their order does not depend on jobs to come
        gpu_s = np.bincount(of_job, table["num_gpus"] * table["duration_s"])
        return dict(zip(tenants.tolist(), proportional(gpu_s, gpus), strict=True))
    found = quotas_from_csv(quotas) if quotas.endswith(".csv") else quotas_in(quotas) or {}
    if not found.keys() & set(names):
        raise ValueError(
            f"quotas {quotas}: none of these tenants has a job; name some of {_first_names(names)}"
        )
    return found


def _first_names(names: np.ndarray, limit: int = 5) -> str:
    """Return the first distinct names, and the number of further ones."""
    distinct = list(dict.fromkeys(names.tolist()))
    more = f" and {len(distinct) - limit} more" if len(distinct) > limit else ""
    return ", ".join(distinct[:limit]) + more


def quotas_from_csv(file: str) -> dict[str, int]:
    """Return the quotas of a CSV with the columns tenant and gpus; TraceError for a malformed one."""
    rows = csv_records(file)
    _, header = next(rows)
    for name in ("tenant", "gpus"):
        if header.count(name) != 1:
            raise TraceError(
                file,
                1,
                name,
                f"this column {header.count(name)} times",
                "the columns tenant and gpus, once each",
            )
    tenant, gpus = header.index("tenant"), header.index("gpus")
    found: dict[str, int] = {}
    for line, row in rows:
        if row[tenant] in found:
            raise TraceError(file, line, "tenant", f"{row[tenant]!r} again", "each tenant once")
        if not row[gpus].isdecimal():
            raise TraceError(file, line, "gpus", repr(row[gpus]), "a whole number of GPUs")
        found[row[tenant]] = int(row[gpus])
    return found


def tenants_of(table: pd.DataFrame, quotas: Mapping[str, int], borrowing: str) -> Tenants:
    """Return the tenants: those that have a quota, in the given order, then the others by first job.

    The order of those with a quota, which policies see from the beginning, does not depend on jobs to come.
    """
    if not quotas:
        return NO_TENANTS
    names = owners_of(table)
    ordered = tuple(dict.fromkeys((*quotas, *names.tolist())))
    number = {name: k for k, name in enumerate(ordered)}
    of_job = np.array([number[name] for name in names.tolist()], np.int32)
    return Tenants(ordered, tuple(quotas.get(name, 0) for name in ordered), of_job, borrowing)


def with_note_of_quotas(table: pd.DataFrame, quotas: Mapping[str, int], scenario: Scenario) -> pd.DataFrame:
    """Return the jobs with a note that names the tenants that have jobs but no quota, and the other way round."""
    if not quotas or scenario.quotas == PROPORTIONAL:
        return table
    there = dict.fromkeys(owners_of(table).tolist())
    without, unused = (
        [name for name in there if name not in quotas],
        [name for name in quotas if name not in there],
    )
    if not without:
        return table
    note = f"tenants that --quotas does not name, with a quota of 0: {_first_names(np.array(without))}"
    if unused:
        note += f"; it names tenants without jobs here: {_first_names(np.array(unused))}"
    noted = table.copy(deep=False)
    noted.attrs = {**table.attrs, "notes": [*table.attrs.get("notes", []), note]}
    return noted


def cut_at_limits(table: pd.DataFrame) -> pd.DataFrame:
    """Return the jobs with run times and estimates capped at their time limits, and a note of how many were capped."""
    if "time_limit_s" not in table:
        return table
    limit_s = table["time_limit_s"].where(table["time_limit_s"] > 0, np.inf)
    num_capped = (table["duration_s"] > limit_s).sum()
    columns = [
        name for name in ("duration_s", "profiled_duration_s", "predicted_duration_s") if name in table
    ]
    capped = table.assign(**{name: np.minimum(table[name], limit_s) for name in columns})
    note = [f"jobs ended at their time limit: {num_capped:,}"] if num_capped else []
    capped.attrs = {**table.attrs, "notes": [*table.attrs.get("notes", []), *note]}
    return capped
