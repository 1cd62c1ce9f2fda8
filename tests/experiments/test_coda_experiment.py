"""CODA's experiment: core needs of networks, arrays by width, and the effect of the eliminator."""

from functools import cache

import numpy as np

from gpu_cluster_gym import experiments
from gpu_cluster_gym.baselines.coda import Coda
from gpu_cluster_gym.experiments import Outcome, Setting, coda
from gpu_cluster_gym.experiments._trials import default_policies, sample_trials
from gpu_cluster_gym.simulator.cluster import uniform
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB
from gpu_cluster_gym.simulator.physics import Physics
from gpu_cluster_gym.workloads import Workload
from gpu_cluster_gym.workloads.coda_mix import MODELS

ASKED = ((1, 1), (1, 2), (1, 4), (2, 2))  # nodes, GPUs: the configurations tested here


@cache
def a_day() -> Workload:
    return sample_trials("coda_mix", 1, seed=0)[0]


@cache
def measured() -> Outcome:
    wanted = {coda.configuration_name(*each) for each in ASKED}
    return experiments.simulate([each for each in coda.needs_settings(a_day()) if each.name in wanted])


def test_a_network_needs_the_cores_that_keep_its_gpu_busy() -> None:
    """Alone on one GPU, an iteration takes the longer of computing and input / cores."""
    day = a_day()
    rows = day.table[day.table["kind"] == "gpu"].drop_duplicates("model").set_index("model")
    seconds = (rows["active_ms"] + rows["idle_ms"]) / 1000
    found = coda.needs(measured(), (1, 1))["needs"]
    for model in MODELS:
        needed, compute, core_s = found[model], seconds[model], rows["input_core_s"][model]
        enough = [max(compute, core_s / cores) <= 1.02 * max(compute, core_s / 16) for cores in range(1, 17)]
        assert needed == 1 + enough.index(True)


def test_needs_differ_and_language_models_need_more_across_nodes() -> None:
    one, apart = (coda.needs(measured(), each)["needs"] for each in ((1, 2), (2, 2)))
    assert one["shufflenet_v2"] >= 6 > one["resnet50"] > one["bert_base"] == 1
    assert apart["bert_base"] > one["bert_base"]


def test_coda_finds_about_the_needed_cores() -> None:
    found = coda.needs(measured(), (1, 4))
    assert (found["coda"] - found["needs"]).abs().max() < 3
    assert (found["coda"] >= 0.9 * found["needs"]).all()


def test_the_eliminator_helps_if_all_cpu_jobs_are_heavy() -> None:
    """On the first hours of a day, since a full day of 4,000 jobs would need another compilation of the kernel."""
    loads = coda.with_share(sample_trials("coda_mix", 1, seed=0, jobs=500), 1.0)
    policies = default_policies("coda") | {coda.UNTHROTTLED: lambda: Coda(eliminator=False)}
    found = experiments.simulate([Setting("heavy", loads, policies)])
    with_it, without = (found.mean(("heavy", name), coda.UTILISATION).mean for name in policies)
    assert with_it > without + 0.02


def test_arrays_by_width_take_turns() -> None:
    """Four GPUs: A and B, of two each, run first; C of two comes before D of one, whose array has no allocation."""
    rows = [(0.0, 2, 100.0), (0.0, 2, 300.0), (1.0, 2, 100.0), (2.0, 1, 100.0)]
    array = np.zeros(len(rows), JOB)
    for record, (submit_s, gpus, run_s) in zip(array, rows, strict=True):
        record["submit_s"], record["num_gpus"], record["duration_s"] = submit_s, gpus, run_s
        record["gpu_s"], record["active_ms"], record["gpu_utilization"], record["cores_each"] = (
            1.0,
            1000.0,
            1.0,
            1.0,
        )
    array["profiled_duration_s"] = array["duration_s"]
    array["min_workers"] = array["max_workers"] = array["num_gpus"]
    starts = {}
    for by_width in (False, True):
        played = Episode(array, uniform(1, 4, cores=40), exact=True, physics=Physics(cores=True))
        run(Coda(by_width=by_width), played)
        starts[by_width] = played.state.start_s[:4].tolist()
    assert starts[False] == [0, 0, 100, 200]
    assert starts[True] == [0, 0, 200, 100]
