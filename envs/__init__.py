"""The Gymnasium face of the simulated cluster.

Importing it registers `GPUCluster-v1`, and `GPUCluster-NAME-v1` for each named workload, as `GPUCluster-mixed-v1`.
"""

from typing import Any, NoReturn

import gymnasium

import workloads

ENV, VECTOR = "envs.making:make", "envs.making:make_vec"


def gone(**choices: Any) -> NoReturn:
    """Refuse the version that went before; ValueError."""
    raise ValueError(
        "GPUCluster-v0 is gone: the version is GPUCluster-v1, whose results differ, since it draws other jobs and "
        "windows from the same seed"
    )


gymnasium.register(id="GPUCluster-v0", entry_point="envs:gone")
gymnasium.register(id="GPUCluster-v1", entry_point=ENV, vector_entry_point=VECTOR)
for name in workloads.names():
    gymnasium.register(
        id=f"GPUCluster-{name}-v1",
        entry_point=ENV,
        vector_entry_point=VECTOR,
        kwargs={"workload": name},
    )
