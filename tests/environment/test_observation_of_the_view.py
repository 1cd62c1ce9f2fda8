"""A function of a scheduler's view is an observation: a vector of fixed length, from the view that policies get."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from gpu_cluster_gym.simulator.view import View
from tests.cases import tiny


def counts(view: View) -> list[float]:
    """Return the time, the number of queued jobs and of free GPUs."""
    return [view.now, len(view.queue), view.nodes.free_gpus.sum()]


def test_it_shows_the_present(tmp_path: Path) -> None:
    """Two nodes of eight GPUs: jobs of 16, 4 and 2 GPUs come at 10 s; the second starts, then the third."""
    table = tiny.jobs(3).assign(submit_s=10.0, num_gpus=[16, 4, 2], duration_s=100.0)
    env = tiny.make(
        tiny.scenario(tmp_path, table, physics="none"), observation=counts, hints=False, victims_by="agent"
    )
    seen = [env.reset(seed=0)[0], *(env.step(action)[0] for action in (1, 1, env.action_space.n - 1))]
    assert [each.tolist() for each in seen] == [[10, 3, 16], [10, 2, 12], [10, 1, 10], [110, 1, 16]]
    assert (env.observation_space.shape, seen[0].dtype) == ((3,), np.float32)
    assert env.parts(seen[0])["values"].tolist() == [10, 3, 16]


def test_slots_are_in_the_order_of_the_views_queue(tmp_path: Path) -> None:
    env = tiny.make(tiny.scenario(tmp_path), observation=counts, hints=False, victims_by="agent")
    for _ in tiny.wander(env):
        assert env.queue[env.queue >= 0].tolist() == env.batch.view(0).queue.tolist()


def test_the_environment_is_one_of_gymnasium(tmp_path: Path) -> None:
    check_env(tiny.make(tiny.scenario(tmp_path), observation=counts), skip_render_check=True)
    seen = tiny.make(tiny.scenario(tmp_path), observation=counts, mask="observation").reset(seed=0)[0]
    assert set(seen) == {"observations", "action_mask"}


def test_vectors_of_single_environments_show_it(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"scenario": tiny.scenario(tmp_path), "observation": counts}
    many: Any = gymnasium.make_vec("GPUCluster-v2", 2, vectorization_mode="sync", **chosen)
    one = gymnasium.make("GPUCluster-v2", **chosen)
    assert many.reset(seed=3)[0].tolist() == [one.reset(seed=3 + i)[0].tolist() for i in range(2)]
    with pytest.raises(ValueError, match=r"cannot call a function of the view.* vectorization_mode='sync'"):
        gymnasium.make_vec("GPUCluster-v2", 2, **chosen)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (lambda view: view.queue, r"expected \d+ numbers, as in the first call, not \d+; pad or cut"),
        (
            lambda view: [view.jobs.estimate_s[view.queue].sum() / len(view.queue)],
            "also where no job is queued",
        ),
        (lambda view: [[view.now]], "expected a vector of finite numbers"),
        (lambda view: [], "expected a vector of finite numbers"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_what_is_no_vector_of_fixed_length_is_refused(values: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"observation '<lambda>': .*{said}"):
        list(tiny.wander(tiny.make(tiny.scenario(tmp_path), observation=values)))
