"""`benchmarks.calibration` uses the kernel, and finds no error if measurements follow the formula."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.calibration import SPEEDS, iterations, links_of, main, slowdowns
from gpu_cluster_gym.simulator.cluster import Cluster

SCHEMA = (
    "model,dataset,gpu,gpus,nodes,gpus_per_node,batch_per_gpu,precision,cores_per_gpu,throughput_samples_per_s,"
    "iter_time_s,sync_time_s,rel_throughput,gpu_util_pct,gpu_mem_util_pct,gpu_mem_mib,measured,note,source\n"
)
ALONE_S = 0.03 + 0.002309 * 64  # resnet50 on a V100: alpha + beta x batch
GB = 0.4 * 0.1022  # kappa x exchanged GB
NEAR_S = ALONE_S + GB / 26 + 0.001  # 2 GPUs: 2 x 1/2 x GB over the links of one node, and a hop
FAR_S = ALONE_S + GB / 5 + 0.0023
INVENTED = f"""{SCHEMA}\
resnet50,ImageNet,V100,1,1,1,64,fp32,,,{ALONE_S},,,,,,measured,,mine
resnet50,ImageNet,V100,2,1,2,64,fp32,,,{NEAR_S},,,,,,measured,,mine
resnet50,ImageNet,V100,2,2,1+1,64,fp32,,,{FAR_S},,,,,,measured,,mine
resnet50,ImageNet,V100,2,2,1+1,64,fp32,,,{2 * FAR_S},,,,,,measured,,sia/imagenet/scalability-mine.csv
resnet50,ImageNet,V100,1,1,1,64,fp32,,,{ALONE_S},,,,,,measured,,sia/imagenet/placements-mine.csv
nobody_knows,ImageNet,V100,1,1,1,64,fp32,,,1.0,,,,,,measured,,mine
resnet50,ImageNet,unspecified,2,1,,,fp32,,,,,1.0,,,,measured,,chronus
resnet50,ImageNet,unspecified,2,2,,,fp32,,,,,{NEAR_S / FAR_S},,,,measured,,chronus
resnet50,ImageNet,V100,1,1,1,64,fp32,1.0,,,,0.4,,,,measured,,synergy
resnet50,ImageNet,V100,1,1,1,64,fp32,3.0,,,,1.0,,,,measured,,synergy
lstm,Wikitext-2,V100,1,1,1,20,fp32,1.0,,,,1.0,,,,measured,,synergy
lstm,Wikitext-2,V100,1,1,1,20,fp32,3.0,,,,1.0,,,,measured,,synergy
dcgan,LSUN,RTX3090,1,1,1,64,fp32,,100.0,,,,80.0,,4096.0,measured,,lucid
ppo,LunarLander,RTX3090,1,1,1,64,fp32,,100.0,,,,60.0,,4096.0,measured,,lucid
"""
BESIDE_60, BESIDE_80 = 1 + 0.62 * 0.6, 1 + 0.62 * 0.8  # in turns, for jobs of equal length and 4 GiB
PAIRS = f"""model_a,dataset_a,batch_a,precision_a,model_b,dataset_b,batch_b,precision_b,gpu,slowdown_a,slowdown_b,\
status,total_gpu_mem_mib,source
dcgan,LSUN,64,fp32,ppo,LunarLander,64,fp32,RTX3090,{BESIDE_60},{BESIDE_80},ok,,lucid
dcgan,LSUN,64,fp32,ppo,LunarLander,64,fp32,RTX3090,,,oom_or_failed,,lucid
"""
PAUSES = """model,gpus,what,seconds,note,source
lstm (Wikitext-2),any,"checkpoint+restart, total",10,,mine
distributed TF jobs,2+,"pause+load, upper end",100-999,,mine
mixed CNNs,1-8,"preemption, mean",62,,mine
mix,1-8,"preemption overhead, quantile 0.50",6.0,,mine
mix,1-8,"preemption overhead, quantile 1.00",60.0,,mine
"""


@pytest.fixture
def invented(tmp_path: Path) -> Path:
    """Return a folder of measurements, most of which follow the formula."""
    texts = {SPEEDS: INVENTED, "colocation.csv": PAIRS, "preemption_measurements.csv": PAUSES}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def cells(printed: str, row: str) -> list[str]:
    """Return the cells of a row of the tables: number of points, errors, stated error."""
    (line,) = re.findall(rf"^{re.escape(row)}  +(.*)$", printed, re.MULTILINE)
    found: list[str] = re.split(r" {2,}", line.strip())
    return found


def test_iterations_follow_the_formula() -> None:
    settings = pd.DataFrame(
        {
            "num_gpus": [1, 2, 2, 7],
            "nodes": [1, 1, 2, 3],
            "gpu_s": 0.1,
            "sync_gb": 0.5,
            "input_core_s": [0.0, 0.6, 0.0, 0.0],
            "cores": [1.0, 3.0, 1.0, 1.0],
        }
    )
    links = {"intra_gbs": 10.0, "inter_gbs": 2.0, "intra_ms": 1.0, "inter_ms": 3.0}
    expected = [0.1, 0.2 + 0.05 + 0.001, 0.1 + 0.25 + 0.003, 0.1 + 12 / 7 * 0.25 + 0.001 * 4 / 3 + 0.006]
    np.testing.assert_allclose(iterations(settings, links), expected, rtol=1e-12)
    machines = Cluster("", (1,), (1.0,), (1,))
    default = {name: getattr(machines, name) for name in links}
    assert iterations(settings).tolist() == iterations(settings, default).tolist()


def test_links_that_made_the_measurements_are_found_again() -> None:
    """Two clusters of one kind, exactly as 10 and 2 GB/s, 1 and 3 ms a hop; two points of them are far off."""
    links = dict(zip(("intra_gbs", "inter_gbs", "intra_ms", "inter_ms"), (10.0, 2.0, 1.0, 3.0), strict=True))
    shapes = [(2, 1), (4, 1), (8, 1), (8, 2), (16, 2), (16, 4)] * 6
    jobs = pd.DataFrame(shapes, columns=["num_gpus", "nodes"]).assign(gpu_s=0.1, input_core_s=0.0, cores=1.0)
    jobs["sync_gb"] = np.linspace(0.1, 1.0, len(jobs))
    jobs["seconds"] = iterations(jobs, links) * np.where(jobs.index < 2, 3.0, 1.0)
    jobs["cluster"] = np.where(jobs.index % 2, "sia V100", "muri V100")
    np.testing.assert_allclose(links_of(jobs, "nvlink-ib"), list(links.values()), rtol=0.02)


def test_slowdowns_follow_the_formulas_over_several_episodes() -> None:
    """In turns: of iterations of 1.6 and 129.6 ms, and of 1 and 9 GiB; the roots of the roots are as 1 to 3."""
    duty = np.tile([0.9, 0.8, 0.3, 0.4, 1.0, 1.0], 200)
    jobs = pd.DataFrame({"duty": duty, "gpu_s": 1.0, "gpu_memory_gib": 4.0})
    expected = np.repeat(np.tile([1 + 0.5 * 0.7 + 0.04, 1.04, 1.54], 200), 2)
    np.testing.assert_allclose(slowdowns(jobs, "excess", 0.5, 0.04), expected, rtol=1e-9)
    jobs["gpu_s"], jobs["gpu_memory_gib"] = np.tile([0.0016, 0.1296], 600), np.tile([1.0, 9.0], 600)
    pushed = [0.8 * 1.5 * 1.5, 0.9 * 0.5 * 0.5, 0.4 * 1.5 * 1.5, 0.3 * 0.5 * 0.5, 2.25, 0.25]
    expected = 1.04 + 0.5 * np.tile(pushed, 200)
    np.testing.assert_allclose(slowdowns(jobs, "turns", 0.5, 0.04), expected, rtol=1e-9)


def test_measurements_that_follow_the_formula_have_no_error(
    invented: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", str(invented)]) == 0
    printed = capsys.readouterr().out
    assert cells(printed, "V100, fp32")[:2] == ["2", "0.0 (0.0)"]
    near, far = (100 * (1 - ALONE_S / seconds) for seconds in (NEAR_S, FAR_S))
    nothing, mean = f"{(near + far) / 2:.1f}", "0.0 (0.0)"
    assert cells(printed, "all")[:5] == ["2", mean, mean, mean, mean]
    assert cells(printed, "all")[5].split(" ")[0] == nothing
    assert cells(printed, "held out")[:2] == ["1", "50.0 (50.0)"]
    assert cells(printed, "chronus")[:2] == ["1", "0.0 (0.0)"]
    assert cells(printed, "flat")[:2] == ["2", "0.0 (0.0)"]
    assert cells(printed, "RTX3090")[0] == "2"
    assert cells(printed, "RTX3090")[1] == "0.0 (0.0)"
    assert cells(printed, "mean of Tiresias's CNNs")[0] == "1"
    assert cells(printed, "quantiles on TACC")[0] == "2"


@pytest.mark.slow(reason="all public measurements take ten seconds; invented ones are tested above")
def test_public_measurements_give_the_stated_figures(
    shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the same points, the kernel reproduces the fit's own error."""
    folder = shared_data / "profiles"
    if not (folder / SPEEDS).is_file():
        pytest.skip(f"no {SPEEDS} beside the checkout")
    assert main(["--data", str(folder)]) == 0
    printed = capsys.readouterr().out
    for pairs, count in {"K80": 306, "P100": 340, "V100": 330, "RTX3090": 1388}.items():
        assert cells(printed, pairs)[0] == f"{2 * count:,}"
    assert "7.6" in cells(printed, "RTX3090")[-1]
    assert max(map(len, printed.splitlines())) <= 120
