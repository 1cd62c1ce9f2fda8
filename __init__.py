"""An environment for scheduling GPU clusters: simulator, heuristics, reinforcement learning.

Importing it registers `GPUCluster-v2` with Gymnasium, and `GPUCluster-NAME-v2` for each named workload, such as
`GPUCluster-mixed-v2`.
"""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from pkgutil import iter_modules

if __name__ == "gpu_cluster_gym":  # pytest imports this file under another name too
    from gpu_cluster_gym._starting import end_if_interrupted

    end_if_interrupted()

import gymnasium


def _version() -> str:
    """Return the version of the installed package; "not installed" where only its dependencies are."""
    try:
        return version("gpu-cluster-gym")
    except PackageNotFoundError:
        return "not installed"


__version__ = _version()


def _register(id: str, **keywords: str) -> None:
    gymnasium.register(
        id=id,
        entry_point="gpu_cluster_gym.envs.registration:make",
        vector_entry_point="gpu_cluster_gym.envs.registration:make_vec",
        kwargs=keywords,
    )


if __name__ == "gpu_cluster_gym":  # pytest imports this file under another name too
    _register("GPUCluster-v2")
    for _module in iter_modules([str(Path(__file__).with_name("workloads"))]):
        if not _module.name.startswith("_"):
            _register(f"GPUCluster-{_module.name}-v2", workload=_module.name)
