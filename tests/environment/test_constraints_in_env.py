"""In the environment no job is ever on a node that its constraints do not allow, and the observation stays the same."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.envs.agent_policy import MovesAgent
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.policy import Start
from gpu_cluster_gym.simulator.reasons import Decisions
from gpu_cluster_gym.simulator.vocabulary import HELD
from gpu_cluster_gym.workloads import Scenario, full_trace
from tests.cases import tiny
from tests.environment.test_masks import KINDS, legal

PLAIN: dict[str, Any] = {"hints": False, "victims_by": "agent"}
KEYWORDS: tuple[dict[str, Any], ...] = (
    {},
    PLAIN,
    PLAIN | {"when_full": "displace"},
    PLAIN | {"when_full": "claim"},
    PLAIN | {"placed_by": "agent"},
)


def scenario(folder: Path, **fields: Any) -> dict[str, Any]:
    """Return two nodes, of V100s and of T4s; jobs that fit one node ask for one of the types, every fifth waits."""
    table = tiny.jobs()
    one_node = (table["num_gpus"] <= 8).to_numpy()
    kind = np.where(table.index % 2, "V100", "T4")
    waits = [f"j{row - 3}" if row % 5 == 4 else "" for row in table.index]
    table = table.assign(gpu_type=np.where(one_node, kind, "T4+V100"), depends_on=waits)
    return tiny.scenario(folder, table, cluster="1x8+1x8-t4", **fields)


@pytest.mark.parametrize("keywords", KEYWORDS, ids=lambda keywords: "-".join(map(str, keywords.values())))
def test_random_legal_actions_keep_the_constraints(keywords: dict[str, Any], tmp_path: Path) -> None:
    env = tiny.make(scenario(tmp_path, constraints="all"), **keywords)
    held, types = 0, set[tuple[int, int]]()
    for seen in tiny.wander(env):
        assert seen.mask.any() or env.episode.done
        assert legality.check(env.episode.states, 0, env.episode.jobs) == 0
        view = env.episode.view
        held += int((view.jobs.phase == HELD).sum())
        for job in view.running.tolist():
            nodes = set(view.gpus.node[view.gpus_of(job)].tolist())
            types |= {(job % 2, node) for node in nodes if view.jobs.num_gpus[job] <= 8}
    assert env.episode.done
    assert held > 0
    assert types == {(1, 0), (0, 1)}, "odd jobs on V100s, even ones on T4s"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind.values()))
def test_the_mask_has_the_actions_that_the_episode_allows(kind: dict[str, str], tmp_path: Path) -> None:
    env = tiny.make(scenario(tmp_path, constraints="all"), **kind, observation="tables")
    for seen in tiny.wander(env):
        assert seen.mask.tolist() == legal(env, kind)


def test_the_observation_has_the_same_form(tmp_path: Path) -> None:
    bound = tiny.make(scenario(tmp_path, constraints="all"))
    free = tiny.make(scenario(tmp_path))
    assert bound.observation_space == free.observation_space
    assert bound.action_space == free.action_space


def test_a_job_without_room_on_its_own_node_may_not_start(tmp_path: Path) -> None:
    """A takes all V100s. B, which needs one, has no legal start while A runs, though all T4s are idle; C has one."""
    rows = {"job_id": list("abc"), "submit_s": [0, 1, 1], "num_gpus": [8, 1, 1], "duration_s": [100, 10, 10]}
    table = pd.DataFrame(rows | {"gpu_type": ["V100", "V100", "T4"]})
    chosen = tiny.scenario(tmp_path, table, cluster="1x8+1x8-t4", physics="none", constraints="gpu_type")
    env = tiny.make(chosen, **PLAIN)
    env.reset(seed=0)
    view = env.episode.view
    while len(view.jobs.phase) < 3:
        env.step(int(np.flatnonzero(env.action_masks())[0]))
    assert view.queue.tolist() == [1, 2]
    listed = env.queue.tolist()
    assert env.action_masks()[listed.index(2)]
    assert not env.action_masks()[listed.index(1)]


class AllEqual:
    """A function that values all listed moves alike, and so leaves the choice to the rule."""

    keys, margin = "nothing", 0.0

    def __call__(self, observation: Mapping[str, np.ndarray], mask: np.ndarray) -> int:
        return int(mask.argmax())

    def values(self, observation: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.where(observation["mask"], 0.0, -np.inf)


def test_the_start_of_a_released_job_has_a_reason(tmp_path: Path) -> None:
    """B, on cores, and C wait for A: they start at its end, at 100."""
    rows = {"job_id": list("abc"), "submit_s": 0, "num_gpus": [8, 0, 4], "duration_s": [100, 10, 10]}
    table = pd.DataFrame(rows | {"cpu_cores": [8, 4, 4], "kind": ["gpu", "cpu", "gpu"]})
    chosen = tiny.scenario(
        tmp_path, table.assign(depends_on=["", "a", "a"]), cluster="1x8", physics="cpu_jobs",
        constraints="depends_on",
    )  # fmt: skip
    decisions = Decisions()
    run(MovesAgent(AllEqual()), full_trace(Scenario(**chosen)).episode(), decisions=decisions)
    started = {each.action.job: each.time_s for each in decisions.rows if isinstance(each.action, Start)}
    assert {job: started.get(job) for job in (1, 2)} == {1: 100.0, 2: 100.0}
