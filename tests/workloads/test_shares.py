"""Shares of jobs that may change width or share GPUs: drawn by job, nested, and kept by policies."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.account import Account
from gpu_cluster_gym.simulator.choice import ChoiceError
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import Workload, make_scenario, named, windows

GIB = 16.0
"""Memory of the GPUs of `mixed`."""


def mixed(**shares: float) -> Workload:
    return windows(replace(named("mixed"), **shares), "train", 1)[0]  # type: ignore[arg-type]


def able(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return which GPU jobs may change width, and which may share."""
    on_gpus = table[table["num_gpus"] > 0]
    elastic = (on_gpus["max_workers"] > on_gpus["num_gpus"]) | (on_gpus["min_workers"] < on_gpus["num_gpus"])
    return elastic.to_numpy(), (on_gpus["profiled_memory_gib"] < GIB).to_numpy()


def test_by_default_all_jobs_are_as_before() -> None:
    assert able(mixed().table)[0].all()
    assert mixed().table.equals(mixed(elastic_share=1.0, sharing_share=1.0).table)


def test_shares_are_nested_and_about_as_stated() -> None:
    """Of 211 GPU jobs a fifth is 42, with a standard deviation of 6."""
    none, some, more = (
        able(mixed(elastic_share=share, sharing_share=share).table) for share in (0.0, 0.2, 0.6)
    )
    for which in (0, 1):
        assert not none[which].any()
        assert 0.1 < some[which].mean() < 0.3
        assert not (some[which] & ~more[which]).any()


def test_union_keeps_width_and_gpus_of_jobs_that_may_not() -> None:
    load, account = mixed(elastic_share=0.0, sharing_share=0.0), Account()
    load.results(run(baselines.make(baselines.load("union")), load.episode(), account=account))
    held = account.holdings()
    held = held[held["gpus"].map(len) > 0]
    assert (held["workers"].to_numpy() == load.table["num_gpus"].to_numpy()[held["job"]]).all()
    assert account.segments()["shared"].max() == 0


def test_shares_without_effect_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match=r"elastic_share 0.2: expected 1, or physics with elastic"):
        make_scenario("philly", {"elastic_share": 0.2})
    log = tmp_path / "log.csv"
    log.write_text("job_id,submit_s,num_gpus,duration_s\na,0,1,60\n")
    with pytest.raises(ChoiceError, match=r"elastic_share 0.2: expected 1, or physics with elastic"):
        make_scenario(fields={"trace_file": str(log), "elastic_share": 0.2})
    with pytest.raises(
        ValueError, match="require GPUs of one memory size, but 1x2\\+1x2-32gb has 16 GiB, 32 GiB"
    ):
        mixed(sharing_share=0.2, cluster="1x2+1x2-32gb")  # type: ignore[arg-type]
