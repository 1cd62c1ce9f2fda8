"""The Gymnasium face of the simulated cluster; importing it registers `GPUCluster-v1`."""

from typing import Any, NoReturn

import gymnasium


def gone(**choices: Any) -> NoReturn:
    """Refuse the version that went before; ValueError."""
    raise ValueError(
        "GPUCluster-v0 is gone: the version is GPUCluster-v1, whose results differ, since it draws other jobs and "
        "windows from the same seed"
    )


gymnasium.register(id="GPUCluster-v0", entry_point="envs:gone")
gymnasium.register(id="GPUCluster-v1", entry_point="envs.env:GPUClusterEnv")
