"""The table of tenants has means over their jobs, the worst-off tenant and Jain's index, in a run with quotas only."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import evaluate
from gpu_cluster_gym.evaluation import tenants
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.workloads import Scenario, full_trace

JOBS = pd.DataFrame(
    {
        "job_id": list("abc"),
        "submit_s": [0, 1, 2],
        "num_gpus": [4, 4, 4],
        "duration_s": [600, 600, 1200],
        "vc": ["one", "one", "two"],
    }
)


def test_means_are_over_each_tenants_jobs(tmp_path: Path) -> None:
    """Job a starts at once; b and c wait or borrow, as `results` says; means are recomputed here."""
    JOBS.to_csv(tmp_path / "jobs.csv", index=False)
    work = full_trace(
        Scenario(
            trace_file=str(tmp_path / "jobs.csv"),
            cluster="1x8",
            physics="none",
            quotas="one=4,two=3",
            borrowing="idle",
            full_trace=True,
        )
    )
    results = work.results(run(Ranking("submit"), work.episode()))
    found = tenants.by_tenant({"fifo": results}, [work])
    one, two = found.iloc[0], found.iloc[1]
    assert found["tenant"].tolist() == ["one", "two"]
    assert found["quota"].tolist() == [4, 3]
    assert found["jobs"].tolist() == [2, 1]
    waits = results["wait_s"].to_numpy()
    assert one["mean_wait_s"] == waits[:2].mean()
    assert two["mean_jct_s"] == results["jct_s"].iloc[2]
    slowdowns = np.maximum(results["jct_s"] / [600, 600, 1200], 1)
    assert one["mean_slowdown"] == pytest.approx(slowdowns[:2].mean())
    assert found["gpu_hours"].tolist() == pytest.approx([4 * 1200 / 3600, 4 * 1200 / 3600])
    cells = {column.heading.replace("\n", " "): column.cells for column in tenants.table(found).columns}
    worst, best = found["mean_slowdown"].max(), found["mean_slowdown"].min()
    assert cells["Jain, tenants"] == [f"{(worst + best) ** 2 / (2 * (worst**2 + best**2)):.3f}"]


def test_a_run_prints_and_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    JOBS.to_csv(tmp_path / "jobs.csv", index=False)
    flags = f"--policy fifo --trace-file {tmp_path / 'jobs.csv'} --cluster 1x8 --physics none --full-trace"
    with_quotas = [*flags.split(), "--quotas", "one=4,two=4", "--out", str(tmp_path / "run")]
    assert evaluate.main(with_quotas) == 0
    assert "who is worst off" in capsys.readouterr().out
    written = pd.read_csv(tmp_path / "run" / "tenants.csv")
    assert set(written["tenant"]) == {"one", "two"}
    assert evaluate.main([*flags.split(), "--out", str(tmp_path / "plain")]) == 0
    assert "who is worst off" not in capsys.readouterr().out
    assert not (tmp_path / "plain" / "tenants.csv").exists()
