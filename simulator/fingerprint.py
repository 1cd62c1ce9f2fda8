"""Fingerprints of what must stay the same throughout an episode: jobs, machines and rules."""

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym.simulator.kernel.cluster.layout import PHYSICS

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.episode import Episode

LEARNT = "fitted"  # the one field of a job that is written during an episode
MACHINES = ("node_gpus", "node_memory", "node_cores", "node_type", "gpu_node", "node_first", "node_level")
TENANTS = ("num_tenants", "borrowing", "tenant", "quota")
RULES = ("num_jobs", "num_nodes", "num_gpus", "seed", "busy_until", *TENANTS, *(name for name, *_ in PHYSICS))


def fingerprints(episode: "Episode") -> dict[str, bytes]:
    """Return a digest of the jobs, of the machines and of the rules of an episode."""
    jobs, state = episode.jobs, episode.states[0]
    kind, first = jobs.dtype.fields[LEARNT][:2]  # type: ignore[index]
    cells = np.frombuffer(jobs, np.uint8).reshape(len(jobs), -1)
    parts = {
        "jobs": [cells[:, :first], cells[:, first + kind.itemsize :]],
        "machines": [state[name] for name in MACHINES],
        "rules": [state[name] for name in RULES],
    }
    return {name: digest(arrays) for name, arrays in parts.items()}


def digest(arrays: list[np.ndarray]) -> bytes:
    """Return a digest of some arrays."""
    found = hashlib.blake2b(digest_size=16)
    for array in arrays:
        found.update(array.tobytes())
    return found.digest()
