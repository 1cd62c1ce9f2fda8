"""Jobs like those that Xonar was tried on, drawn from quantiles of the profiles that its authors published.

The profiles (github.com/pengujoa/Xonar; V100, TensorFlow 1, two workers, two parameter servers) are 600 settings
of 29 networks on CIFAR-10 and ImageNet. The quantiles of duty, memory and run time below are theirs, and so are
the median iteration (317 ms) and the way jobs are queued: all at once. Read out of their code: a job is 100
iterations on two GPUs, one worker on each; its parameter servers run on CPUs and are left out here.

Inferred: jobs whose GPUs are busy less than half of the time have the longest iterations (the networks listed
as such take 0.9 to 2.4 s), and no other tie of iteration and duty; a rank correlation of 0.2 between duty and memory,
"positively but weakly tied"; the quantiles that are not printed, namely the ends and those of the iteration. A job
whose iterations are longer runs longer, rank by rank.

Where this departs: iterations and run times do not agree in the source, since 100 iterations of the median take 32 s
and the median run 56 s, which counts starting up; so a job's run time is drawn from its own quantiles and is not 100
times active + idle. Only their ratio decides how jobs slow one another down. The median busy time comes out 7 % above
the source's 239 ms. Memory is not tied to length, though of 44 printed settings the larger take longer (rank
correlation 0.47). The prototype takes a GPU to hold 32,000 MB; here one holds 32 GiB, and 1,000 MB are written as 1
GiB.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr, ndtri

from traces import stream
from workloads._invented import invented

Floats = npt.NDArray[np.float64]

# Quantiles: the share of settings up to it, and the value.
DUTY = (
    (0.0, 0.05, 0.17, 0.22, 0.25, 0.5, 0.75, 0.95, 1.0),
    (0.36, 0.37, 0.38, 0.5, 0.58, 0.79, 0.88, 0.95, 0.99),
)
ITERATION_MS = ((0.0, 0.05, 0.5, 0.85, 0.95, 1.0), (40.0, 80.0, 317.0, 1400.0, 2400.0, 2600.0))
RUN_S = ((0.0, 0.05, 0.5, 0.95, 1.0), (10.0, 17.0, 56.0, 96.0, 120.0))
# Memory climbs in steps, since TensorFlow's allocator doubles; the shares give the printed quantiles and overflows.
MEMORY_GIB = (0.933, 1.189, 1.701, 2.767, 4.745, 8.839, 9.095, 17.031, 17.289, 31.137)
UP_TO = (0.20, 0.30, 0.38, 0.45, 0.545, 0.70, 0.76, 0.93, 0.96, 1.0)

IDLING = 0.22  # share of settings with a duty below a half
TIE = 0.2  # correlation of the Gaussian levels of duty and memory


def generate(seed: int, jobs: int, *, above_gib: float = 0.0) -> pd.DataFrame:
    """Return so many jobs, all submitted at once, of the settings that take more than `above_gib`."""
    least = np.r_[0.0, UP_TO][np.searchsorted(MEMORY_GIB, above_gib, side="right")]
    level = least + (1 - least) * stream(seed, "xonar memory").random(jobs)
    memory = np.array(MEMORY_GIB)[np.searchsorted(UP_TO, level, side="right")]
    apart = stream(seed, "xonar duty").standard_normal(jobs)
    duty_level = ndtr(TIE * ndtri(level) + np.sqrt(1 - TIE**2) * apart)
    length_level = _length(duty_level, stream(seed, "xonar iteration").random(jobs))
    duty = np.interp(duty_level, *DUTY)
    iteration_ms = np.exp(np.interp(length_level, ITERATION_MS[0], np.log(ITERATION_MS[1])))
    run_s = np.interp(length_level, *RUN_S)
    table = pd.DataFrame(
        {
            "job_id": np.arange(jobs).astype(str),
            "submit_s": 0.0,
            "num_gpus": 2,
            "duration_s": run_s,
            "kind": "gpu",
            "model": "none",  # of 29, of which most are not in models.csv
            "gpu_memory_gib": memory,
            "profiled_duration_s": run_s,
            "profiled_memory_gib": memory,
            "active_ms": iteration_ms * duty,
            "idle_ms": iteration_ms * (1 - duty),
            "predictable_from": 0.0,
            "bandwidth_gbs": 0.0,
            "input_core_s": 0.0,
            "sync_gb": 0.0,
        }
    )
    return invented(table, "Xonar")


def _length(duty_level: Floats, level: Floats) -> Floats:
    """Return levels of length: the top ones for jobs whose GPUs idle, any of the rest for the others."""
    return np.where(duty_level < IDLING, 1 - IDLING + IDLING * level, (1 - IDLING) * level)
