"""A CSV of nodes is read as a cluster, or refused with its error."""

from pathlib import Path

import pytest

from gpu_cluster_gym.simulator.cluster import cluster


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
