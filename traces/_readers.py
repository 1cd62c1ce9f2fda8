"""Choice of a file's reader by its format, detected from the content; files of unsupported formats are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_cluster_gym.traces._delimited import head_of
from gpu_cluster_gym.traces._log import File, Head, Options, Reader
from gpu_cluster_gym.traces._registry import modules, provider
from gpu_cluster_gym.traces._table import TraceError

if TYPE_CHECKING:
    import pandas as pd

GENERIC = "generic"
FOREIGN = (
    ("---------- ", "the columns of a terminal", "sacct --parsable2"),
    (
        "JOBID ",
        "squeue",
        "the history of jobs, from sacct --parsable2 (as a snapshot for forecast and decide: squeue --all --json)",
    ),
    ("<html", "a web page", "the log itself: download the raw file"),
    ("<!doctype html", "a web page", "the log itself: download the raw file"),
    ("version https://git-lfs", "a pointer of Git LFS", "the log itself (git lfs pull)"),
)
"""Formats that no reader reads: a mark at the beginning of a file, its name, and the file to pass instead."""

SLURM_STATES = {"COMPLETED", "FAILED", "TIMEOUT", "RUNNING", "PENDING", "OUT_OF_MEMORY", "NODE_FAIL"}
"""States of jobs in the first line of an export of Slurm without headings."""

OTHER_FILES: tuple[tuple[set[str], str, str], ...] = (
    ({"JobID", "State"}, "sacct with commas between fields", "the output of sacct --parsable2"),
    ({"machineId", "number of GPUs"}, "Philly's list of machines", "its jobs, cluster_job_log"),
    ({"sn", "gpu", "model"}, "openb's list of nodes", "its jobs, openb_pod_list*.csv"),
    ({"node_name", "gpu_model"}, "the spot trace's list of nodes", "its jobs, job_info_df.csv"),
)
"""Files of a known log that no reader reads: some of their headings, their name, and the file to pass instead."""


def readers() -> dict[str, Reader]:
    """Return the readers of all formats by name."""
    found = {name: getattr(provider("traces", name, "trace"), "reader", None) for name in modules("traces")}
    return {name: each for name, each in found.items() if each}


def read(name: str | None, file: File, options: Options) -> pd.DataFrame:
    """Return the job table of a log.

    name: the format; None to detect it from the beginning of the file. TraceError where the file is malformed, or looks
    like another format than the one named.
    """
    head, known = head_of(file), readers()
    like = None if options.columns else next((each for each in known if known[each].looks_like(head)), None)
    chosen = name or like or GENERIC
    if options.columns and chosen != GENERIC:
        found = f"--columns with --trace {chosen}, whose columns are known"
        raise TraceError(file, None, None, found, "either --columns or --trace")
    if like not in (None, chosen):
        found = f"what looks like {known[str(like)].what}"
        raise TraceError(file, 1, None, found, f"{known[chosen].what} (drop --trace {chosen})")
    if like is None and not options.columns:
        _refuse_foreign(file, head)
    if chosen == GENERIC and not options.columns and head.text.lstrip()[:1] in ("{", "["):
        expected = (
            "a log of jobs, such as sacct --parsable2 or kubectl -o json prints (forecast and decide read "
            "squeue --json, and --cluster reads scontrol show nodes --json)"
        )
        raise TraceError(file, 1, None, "JSON of an unknown format", expected)
    table = known[chosen].read(file, options)
    if name is None and chosen != GENERIC:
        table.attrs["notes"] = [f"read as {known[chosen].what}", *table.attrs["notes"]]
    return table


def _refuse_foreign(file: File, head: Head) -> None:
    """Raise TraceError where a file looks like something that no reader reads."""
    begin = head.text[:2000]
    for mark, what, remedy in FOREIGN:
        if mark in begin or mark in begin.casefold():
            raise TraceError(file, 1, None, f"what looks like {what}", remedy)
    if set(head.fields("|")) & SLURM_STATES:
        raise TraceError(
            file,
            1,
            None,
            "what looks like sacct without its headings",
            "sacct --parsable2 without --noheader",
        )
    for headings, what, remedy in OTHER_FILES:
        if headings <= set(head.fields(",")):
            raise TraceError(file, 1, None, f"what looks like {what}", remedy)
