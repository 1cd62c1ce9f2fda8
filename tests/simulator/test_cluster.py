"""A cluster is read from a CSV of nodes or refused with its error; the largest has 16,384 nodes and 65,536 GPUs."""

from pathlib import Path

import pytest

from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.simulator.kernel.cluster.layout import tier
from tests.accounts.reference import Job, Node, Rules
from tests.cases.scenarios import compiled


@pytest.mark.parametrize("memory", ["inf", "nan", "0", "-16", "1e999"])
def test_memory_is_a_finite_number(memory: str, tmp_path: Path) -> None:
    file = tmp_path / "nodes.csv"
    file.write_text(f"gpus,gpu_memory_gib,cores\n8,16,48\n8,{memory},48\n")
    with pytest.raises(ValueError, match=rf"gpu_memory_gib {float(memory):g}: expected a finite number"):
        cluster(str(file))


def test_nodes_are_as_the_file_has_them(tmp_path: Path) -> None:
    file = tmp_path / "nodes.csv"
    file.write_text("gpus,gpu_memory_gib,cores\n8,16,48\n2,24.5,12\n")
    found = cluster(str(file))
    assert found.node_gpus == (8, 2)
    assert found.node_gpu_memory_gib == (16.0, 24.5)
    assert found.node_cores == (48, 12)


def test_the_largest_cluster() -> None:
    """A 0-10 on 40,000 GPUs; B, on all 65,536, 10-15; C, on the last of the GPUs that A leaves, 0-2."""
    jobs = [Job(0, gpus, s, s, 1.0, 0.0, 0.0) for gpus, s in ((40_000, 10), (65_536, 5), (25_536, 2))]
    outcomes = compiled(jobs, [Node(4, 16.0, 48)] * 16_384, Rules("submit", preempt=False, estimates=False))
    assert [outcome.finish_s for outcome in outcomes] == [10, 15, 2]


def test_a_larger_cluster_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 1048576 jobs, 16384 nodes and 65536 GPUs"):
        tier(jobs=1, nodes=16_385, gpus=65_536)
