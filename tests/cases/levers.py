"""Two or three random jobs on one or two GPUs that can share, change their shape or run without GPUs."""

import numpy as np

from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.jobs import add_turns
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB
from gpu_cluster_gym.simulator.physics import Physics

CLUSTERS = (
    Cluster("one GPU", (1,), (16.0,), (6,)),
    Cluster("a node of two", (2,), (16.0,), (7,)),
    Cluster("two nodes", (1, 1), (16.0, 16.0), (4, 4)),
    Cluster("two types", (1, 1), (16.0, 12.0), (5, 5), node_types=("v100", "k80")),
)


def work(*rows: tuple[float, int, float], **fields: object) -> np.ndarray:
    """Return rigid jobs of (submit, GPUs, duration) whose pauses are free and whose iterations compute for 1 s."""
    jobs = np.zeros(len(rows), JOB)
    jobs["submit_s"], jobs["num_gpus"], jobs["duration_s"] = zip(*rows, strict=True)
    jobs["profiled_duration_s"] = jobs["predicted_duration_s"] = jobs["duration_s"]
    jobs["min_workers"] = jobs["max_workers"] = jobs["num_gpus"]
    jobs["gpu_s"], jobs["gpu_utilization"], jobs["crash_at"], jobs["cores_each"] = 1.0, 1.0, 1.0, 1.0
    jobs["type_speed"] = 1.0
    for name, value in fields.items():
        jobs[name] = value
    return jobs


def _among(rng: np.random.Generator, jobs: np.ndarray, share: float) -> np.ndarray:
    """Draw which of the GPU jobs have a property, which none has in every other episode."""
    drawn: np.ndarray = (rng.random(len(jobs)) < share * rng.integers(2)) & (jobs["num_gpus"] > 0)
    return drawn


def _meeting(rng: np.random.Generator, numbers: tuple[float, ...], *, cores: bool, typed: bool) -> Physics:
    """Return interference parameters with these values, in a random form."""
    share, contention, loss = numbers
    form = rng.choice(["excess", "turns"])
    return Physics(
        max_share=int(share),
        contention=float(contention),
        contention_form=form,
        contention_loss=float(loss),
        links=bool(rng.integers(2)),
        cores=cores,
        typed=typed,
    )


def some(seed: int, count: int) -> Episode:
    """Return an episode of this number of jobs with some of the levers."""
    rng = np.random.default_rng(seed)
    cluster = CLUSTERS[rng.integers(len(CLUSTERS))]
    most, on_gpu = cluster.num_gpus, rng.random(count) < 0.9
    gpus = rng.integers(1, most + 1, count) * on_gpu
    jobs = work(*zip(rng.integers(0, 4, count), gpus, rng.integers(1, 10, count), strict=True))
    jobs = jobs[np.argsort(jobs["submit_s"], kind="stable")]
    gpus = jobs["num_gpus"]
    jobs["gpu_utilization"] = rng.choice([0.2, 0.5, 0.8, 1.0], count)
    jobs["gpu_memory_gib"] = rng.choice([1.0, 7.0, 9.0], count) * (gpus > 0)
    jobs["sync_gb"] = rng.choice([0.0, 0.001, 2.0], count) * (gpus > 0)
    elastic = _among(rng, jobs, 0.5)
    jobs["min_workers"] = np.where(elastic, 1, gpus)
    jobs["max_workers"] = np.where(elastic, most, gpus)
    jobs["scaling_loss"] = rng.choice([0.0, 0.2, 0.5], count) * elastic
    jobs["servers"] = _among(rng, jobs, 0.3)
    jobs["cpu_slowdown"] = rng.choice([1.5, 3.0], count) * _among(rng, jobs, 0.4)
    cores = bool(rng.integers(2)) or bool(
        ((gpus == 0) | (jobs["servers"] > 0) | (jobs["cpu_slowdown"] > 0)).any()
    )
    jobs["input_core_s"] = rng.choice([0.0, 1.0, 3.0], count) * (gpus > 0) * rng.integers(2) * cores
    jobs["cores_each"] = rng.integers(1, 3, count) + 5.0 * jobs["servers"] / np.maximum(gpus, 1)
    jobs["type_speed"][:, 1] = rng.choice([0.3, 0.5, 1.2], count)
    drawn = rng.integers(1, 4), rng.choice([0.0, 0.48, 1.0, 2.0]), rng.choice([0.0, 0.04, 0.3])
    numbers = tuple(float(number) for number in drawn)
    add_turns(jobs)
    jobs["interference_hold"] = rng.choice([0.5, 1.0, 2.0], count)
    jobs["startup_s"] = rng.choice([0.0, 2.0], count) * _among(rng, jobs, 0.6)
    physics = _meeting(rng, numbers, cores=cores, typed=len(set(cluster.types)) > 1)
    return Episode(jobs, cluster, exact=True, physics=physics, placement="first_fit")
