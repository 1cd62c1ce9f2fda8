"""The benchmark of Philly's log counts waits, dropped jobs and occupied nodes; checked on five jobs by hand."""

from pathlib import Path

import pandas as pd
import pytest

from benchmarks.philly_quotas import Setting, simulated, written

JOBS = pd.DataFrame(
    {
        "submitted_time": "2017-10-03 00:00:00",
        "submit_s": [0, 0, 10, 20, 30],
        "num_gpus": [8, 2, 8, 2, 9],
        "duration_s": [100, 50, 100, 30, 10],
        "vc": ["a", "b", "a", "b", "b"],
    }
)
LIST = "machineId, number of GPUs, single GPU mem\nm0,8, 24GB\nm1,2, 12GB\nm2,0, 12GB\nm3,2, 12GB\n"


def test_figures_of_five_jobs(tmp_path: Path) -> None:
    """Tenant a may have 8 GPUs: its second job waits 90 s. E, of 9 GPUs, is wider than b's quota and dropped.

    m0  A 0-100, C 100-200
    m1  B 0-50
    m3  D 20-50
    """
    machines, nodes = tmp_path / "machines.csv", tmp_path / "nodes.csv"
    machines.write_text(LIST, encoding="utf-8")
    nodes.write_text("vc,node num\na,1\n", encoding="utf-8")
    files = written(tmp_path, JOBS, {"published": machines}, nodes)
    Path(files.quotas).write_text("tenant,gpus\na,8\nb,4\n", encoding="utf-8")
    found = simulated(Setting("published", "fifo", "nodes", "none"), files, {"all": (0.0, 200.0)})["all"]
    assert found["jobs"] == 4
    assert found["dropped"] == 1
    assert found["mean_wait_s"] == 90 / 4
    assert found["median_wait_s"] == 0
    assert found["waiting_share"] == 1 / 4
    assert found["gpus_held_share"] == pytest.approx((8 * 200 + 2 * 50 + 2 * 30) / (12 * 200))
    assert found["nodes_active_share"] == pytest.approx((200 + 50 + 30) / (3 * 200))


def test_quotas_by_nodes_are_of_eight_gpus(tmp_path: Path) -> None:
    machines, nodes = tmp_path / "machines.csv", tmp_path / "nodes.csv"
    machines.write_text(LIST, encoding="utf-8")
    nodes.write_text("vc,node num\na,1\nb,3\n", encoding="utf-8")
    files = written(tmp_path, JOBS, {"published": machines}, nodes)
    assert pd.read_csv(files.quotas).to_dict("list") == {"tenant": ["a", "b"], "gpus": [8, 24]}
