"""Model of the time of an iteration by shape, fitted to profiles of a few shapes: that of AITurbo and Optimus.

With w workers, p parameter servers, and z = 1 if the workers have CPU cores instead of GPUs, an iteration takes

    T = th0 / w + th1 + th2 * w / p + th3 * w + th4 * p + z * (th5 / w + th6)

seconds. The terms are, in this order: computing, with the batch divided among the workers; its fixed part; exchange
with the servers; overhead per worker; overhead per server; and the additional time of computing without GPUs. No th is
negative, so no iteration takes less than 0 s or is faster on CPU cores, and one more worker never slows down computing.
(With the coefficients that the authors' laboratory published, T is at or below 0 for many shapes of 11 of its 14
models.) The form is Optimus'; the terms for CPU workers are our choice, in place of a curve of efficiency by cores,
since a CPU worker always has 5 cores.
"""

from functools import cache

import numpy as np
from scipy.optimize import nnls

from gpu_cluster_gym.simulator.measurements import profiled

NUM_TERMS = 7
WORKERS, SERVERS, ON_CPU, SECONDS = range(4)  # columns of a profile
Counts = np.ndarray | int


def fit(profile: np.ndarray) -> np.ndarray:
    """Return the non-negative coefficients that fit a profile best: least squares of relative errors, (`NUM_TERMS`,).

    A term that the profile cannot distinguish from others is left at 0. Without measurements only th1 is not 0, and an
    iteration takes a second in every shape.
    """
    sound = profile[np.isfinite(profile).all(axis=1) & (profile[:, SECONDS] > 0)]
    fitted = np.zeros(NUM_TERMS)
    if not len(sound):
        fitted[1] = 1.0
        return fitted
    used, multiplied = design(sound[:, :SECONDS].tobytes())
    relative = multiplied / sound[:, SECONDS, None]
    scale = np.linalg.norm(relative, axis=0)
    fitted[used] = nnls(relative / scale, np.ones(len(sound)))[0] / scale
    return fitted


def fit_unfitted(states: np.ndarray, jobs: np.ndarray, memory: np.ndarray) -> None:
    """Fit the models of the jobs that a compiled plan has listed in `unfitted`, and write them into the jobs."""
    for job in memory["unfitted"][0, : memory["num_unfitted"][0]].tolist():
        jobs["fitted"][job] = fit(profiled(states, jobs, job))


@cache
def design(shapes: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return the mask of terms that shapes distinguish, and these terms; shapes: rows of (workers, servers, on CPU)."""
    workers, servers, on_cpu = np.frombuffer(shapes).reshape(-1, SECONDS).T
    used = identifiable(workers, servers, on_cpu)
    return used, terms(workers, servers, on_cpu)[:, used]


def identifiable(workers: np.ndarray, servers: np.ndarray, on_cpu: np.ndarray) -> np.ndarray:
    """Return the mask of terms that measurements in some shapes can distinguish: (`NUM_TERMS`,)."""
    # A term with a slope and a fixed part needs two distinct values of its variable, two slopes (1/w and w) three.
    widths, counts, places = (len(np.unique(values)) for values in (workers, servers, on_cpu))
    has_servers = bool(servers.any())
    used: np.ndarray = np.array(
        [
            widths > 1,
            True,
            has_servers and counts > 1,
            widths > 2,
            counts > 2,
            places > 1 < widths,
            places > 1,
        ]
    )
    return used


def terms(workers: np.ndarray, servers: np.ndarray, on_cpu: np.ndarray) -> np.ndarray:
    """Return the factors of the coefficients: (shapes, `NUM_TERMS`)."""
    w, p, z = workers, servers, on_cpu
    return np.stack([1 / w, np.ones(len(w)), w / np.maximum(p, 1), w, p, z / w, z], axis=-1)


def seconds(fitted: np.ndarray, workers: Counts, servers: Counts, on_cpu: Counts) -> np.ndarray:
    """Return the seconds of an iteration that coefficients (..., `NUM_TERMS`) predict for shapes (see the module)."""
    divided, fixed, exchange, worker, server, slower, slower_fixed = np.moveaxis(fitted, -1, 0)
    on_gpu = (
        divided / workers + fixed + workers * (exchange / np.maximum(servers, 1) + worker) + server * servers
    )
    predicted: np.ndarray = on_gpu + on_cpu * (slower / workers + slower_fixed)
    return predicted
