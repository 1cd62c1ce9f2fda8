"""AITurbo, Optimus and Gavel do the same inside the kernel and move by move."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_gym.baselines.aiturbo import Aiturbo
from gpu_cluster_gym.baselines.gavel import Gavel
from gpu_cluster_gym.baselines.optimus import Optimus
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.workloads import Scenario, full_trace
from tests.cases import tiny
from tests.cases.shaped_jobs import TROUBLES, shaped
from tests.policies.test_elastic_policies import lively


def ended(policy: Policy, episode: Episode, *, step_by_step: bool) -> tuple[int, list[float]]:
    """Return the number of instants, and the times at which jobs ended."""
    run(policy, episode, step_by_step=step_by_step)
    return int(episode.state.instant), episode.state.finish_s[: len(episode.jobs)].tolist()


@pytest.mark.parametrize(
    "new",
    [
        Aiturbo,
        partial(Aiturbo, queues=True),
        partial(Aiturbo, servers_on_gpus=True, predictable="all"),
        Optimus,
        partial(Optimus, error=0.5),
        Gavel,
    ],
)
def test_inside_the_kernel_they_do_as_they_do_move_by_move(tmp_path: Path, new: Any) -> None:
    """On eight GPUs, and on small nodes of two types that fail."""
    load = full_trace(Scenario(**tiny.scenario(tmp_path, shaped(0), physics="all", **TROUBLES)))
    for episode in (partial(lively, 0), load.episode):
        inside = ended(new(), episode(), step_by_step=False)
        assert inside == ended(new(), episode(), step_by_step=True)
