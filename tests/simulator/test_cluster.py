"""A cluster is read from a CSV of nodes or refused with its error; the largest has 16,384 nodes and 65,536 GPUs."""

from pathlib import Path

import pandas as pd
import pytest

from gpu_cluster_gym.evaluation.table_notes import trace_notes
from gpu_cluster_gym.simulator.cluster import GPU_MEMORY_GIB, MEMORY_GIB, cluster
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel.cluster.layout import tier
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.simulator.vocabulary import GPU_TYPES
from gpu_cluster_gym.traces._fill import DATA
from gpu_cluster_gym.workloads import Scenario, full_trace
from tests.accounts.reference import Job, Node, Rules
from tests.cases import tiny
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


def test_gpu_types_have_the_memory_of_their_data_sheets() -> None:
    """Those without measured speeds too, and the A100 of 80 GB by its memory."""
    rows = pd.read_csv(DATA / "hardware.csv").query("kind == 'gpu' and parameter == 'memory'")
    memory = dict(zip(rows["name"].str.lower(), rows["value"].astype(float), strict=True))
    assert {name: cluster(f"1x2-{name}").node_gpu_memory_gib for name in memory} == {
        name: (gib,) for name, gib in memory.items()
    }
    assert {name for name in MEMORY_GIB if name not in memory} == set()


def test_an_unknown_type_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    file = tmp_path / "nodes.csv"
    file.write_text("gpus,gpu_memory_gib,cores,gpu_type\n8,80,48,h300\n", encoding="utf-8")
    for name in ("4x8-h300", str(file)):
        with pytest.raises(
            ValueError, match="v100, k80, p100, t4, rtx2080ti, rtx3090, a100, l40s, h100, h200"
        ):
            cluster(name)


def test_a_type_without_measured_speeds_has_only_its_memory(tmp_path: Path) -> None:
    """Its jobs run as on V100s, with a note; physics that needs its speed is refused."""
    fields = tiny.scenario(tmp_path, tiny.jobs().assign(model="resnet50"))
    assert set(GPU_MEMORY_GIB) == set(GPU_TYPES)
    ends = {}
    for name in ("2x8-32gb", "2x8-h200-32gb"):
        load = full_trace(Scenario(**fields | {"cluster": name}))
        ends[name] = run(Ranking("submit"), load.episode()).state.finish_s[: len(load.jobs)].tolist()
        noted = "Note: the speed of h200 is not simulated: run times are those of the trace."
        assert (noted in trace_notes([load])) == ("h200" in name)
    assert ends["2x8-32gb"] == ends["2x8-h200-32gb"]
    with pytest.raises(
        ValueError, match="no public measurement of the speed of h200 is known: drop gpu_types"
    ):
        full_trace(Scenario(**fields | {"cluster": "2x4-h200+2x8", "physics": "memory,gpu_types"}))
