"""The Gymnasium face of the simulated cluster.

Importing it registers `GPUCluster-v1`, and `GPUCluster-NAME-v1` for each named workload, as `GPUCluster-mixed-v1`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import gymnasium

import workloads
from traces import modules

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

if not TYPE_CHECKING:  # else a checker would believe in any name

    def __getattr__(name: str) -> Any:
        """Import a module of this room when it is first asked for, as in `help(envs.env.GPUClusterEnv)`."""
        if name not in modules("envs"):
            raise AttributeError(f"module 'envs' has no attribute {name!r}")
        return import_module(f"envs.{name}")
