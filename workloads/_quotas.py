"""Quotas and time limits of a job table: the GPUs guaranteed to each tenant, and run times cut at their limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.jobs import by_first_submission
from gpu_cluster_gym.simulator.tenants import NO_TENANTS, Tenants, proportional
from gpu_cluster_gym.traces import TraceError, csv_records
from gpu_cluster_gym.workloads._scenario import PROPORTIONAL, quotas_in

if TYPE_CHECKING:
    import pandas as pd

OWNERS = ("tenant", "vc")
"""Columns that name a job's tenant, the first that a table has."""


def owners_of(table: pd.DataFrame) -> np.ndarray:
    """Return the name of each job's tenant; ValueError where the table has no tenants."""
    for column in OWNERS:
        if column in table:
            names: np.ndarray = table[column].astype(str).to_numpy()
            return names
    raise ValueError(
        "quotas require tenants, but the jobs have neither a column tenant nor vc: add one, or drop quotas"
    )


def guaranteed(table: pd.DataFrame, quotas: str | None, gpus: int) -> dict[str, int]:
    """Return the GPUs guaranteed to each tenant by name; without quotas an empty dictionary.

    `proportional` divides all GPUs of the cluster in proportion to the GPU time that the tenants' jobs ask for, at
    least one for each. Tenants that quotas do not name have 0.
    """
    if quotas is None:
        return {}
    names = owners_of(table)
    if quotas == PROPORTIONAL:
        area = (table["num_gpus"] * table["duration_s"]).to_numpy()
        number = by_first_submission(names)
        shares = np.bincount(number, area)
        first = dict(zip(number.tolist(), names.tolist(), strict=True))
        return dict(
            zip((first[each] for each in range(len(shares))), proportional(shares, gpus), strict=True)
        )
    found = from_csv(quotas) if quotas.endswith(".csv") else quotas_in(quotas) or {}
    if not found.keys() & set(names):
        raise ValueError(
            f"quotas {quotas}: none of these tenants has a job; tenants with jobs are {_some(names)}"
        )
    return found


def _some(names: np.ndarray, most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    known = list(dict.fromkeys(names.tolist()))
    return ", ".join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "")


def from_csv(file: str) -> dict[str, int]:
    """Return the quotas of a CSV with the columns tenant and gpus; TraceError for a malformed one."""
    rows = csv_records(file)
    _, header = next(rows)
    for name in ("tenant", "gpus"):
        if header.count(name) != 1:
            raise TraceError(
                file, 1, name, f"{header.count(name)} columns of this name", "each of tenant and gpus once"
            )
    tenant, gpus = header.index("tenant"), header.index("gpus")
    found: dict[str, int] = {}
    for line, row in rows:
        if row[tenant] in found:
            raise TraceError(file, line, "tenant", repr(row[tenant]), "each tenant once")
        if not row[gpus].isdecimal():
            raise TraceError(file, line, "gpus", repr(row[gpus]), "a whole number of GPUs")
        found[row[tenant]] = int(row[gpus])
    return found


def tenants_of(table: pd.DataFrame, quotas: Mapping[str, int], borrowing: str) -> Tenants:
    """Return the tenants of a table's jobs, in the order of their first jobs, then those without jobs."""
    if not quotas:
        return NO_TENANTS
    names = owners_of(table)
    number = by_first_submission(names)
    first = dict(zip(number.tolist(), names.tolist(), strict=True))
    ordered = [first[each] for each in range(len(first))]
    ordered += [name for name in quotas if name not in set(ordered)]
    return Tenants(
        tuple(ordered), tuple(quotas.get(name, 0) for name in ordered), number.astype(np.int32), borrowing
    )


def cut_at_limits(table: pd.DataFrame) -> pd.DataFrame:
    """Return jobs whose run times end at their time limits, with a note of their number; estimates end there too."""
    if "time_limit_s" not in table:
        return table
    limit_s = table["time_limit_s"].where(table["time_limit_s"] > 0, np.inf)
    ended = (table["duration_s"] > limit_s).sum()
    present = [
        name for name in ("duration_s", "profiled_duration_s", "predicted_duration_s") if name in table
    ]
    cut = table.assign(**{name: np.minimum(table[name], limit_s) for name in present})
    note = [f"jobs ended at their time limit: {ended:,}"] if ended else []
    cut.attrs = {**table.attrs, "notes": [*table.attrs.get("notes", []), *note]}
    return cut
