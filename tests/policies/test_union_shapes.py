"""`union` gives jobs the useful number of servers, and fast GPUs to the first jobs in order."""

import numpy as np
import pytest

from gpu_cluster_gym.simulator.cluster import Cluster, uniform
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.physics import Physics
from gpu_cluster_gym.simulator.policy import Action, Resize, Start
from gpu_cluster_gym.simulator.rule_policy import Rule
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.simulator.vocabulary import GPU_TYPES
from tests.policies.test_union import jobs

K80 = GPU_TYPES.index("k80")
SLOW_FIRST = Cluster("old and new", (1, 1), (16.0, 16.0), (8, 8), node_types=("k80", "v100"))


def ended(policy: Rule, episode: Episode) -> tuple[list[float], list[Start | Resize]]:
    """Return the finish time of each job, and all starts and moves."""
    made: list[Start | Resize] = []

    def recorded(view: View) -> Action:
        action = policy(view)
        if isinstance(action, Start | Resize):
            made.append(action)
        return action

    ends: list[float] = run(recorded, episode).state.finish_s[: len(episode.jobs)].tolist()
    return ends, made


def with_servers(gpus: int) -> np.ndarray:
    """Return a job whose workers compute for 1 s and then exchange for 1 s through the one server it requests.

    2 x 2.5 GB / 5 GB/s per worker.
    """
    work = jobs((0, gpus, 1000), most=1)
    work["servers"], work["sync_gb"] = 1, 2.5 / gpus
    return work


def on_two_types(speed: float, *rows: tuple[float, int, float], **fields: float) -> Episode:
    """Return an episode on a V100 and a K80, on which all jobs have this speed."""
    work = jobs(*rows, most=1, **fields)
    work["type_speed"] = 1.0
    work["type_speed"][:, K80] = speed
    return Episode(work, SLOW_FIRST, exact=True, physics=Physics(typed=True))


def test_a_job_starts_with_as_many_servers_as_help() -> None:
    """With p servers an iteration takes 1 + 1 / p s instead of 2: 550 s of 1000 with ten, 667 with three."""
    (end,), (start,) = ended(Rule(), Episode(with_servers(2), uniform(1, 2), exact=True))
    assert isinstance(start, Start)
    assert start.placement.servers is not None
    assert end == pytest.approx(1000 * (1 + 1 / start.placement.servers) / 2)
    assert start.placement.servers > 3


def test_without_sizing_it_has_the_requested_servers() -> None:
    (end,), _ = ended(Rule(sizing=0), Episode(with_servers(2), uniform(1, 2), exact=True))
    assert end == pytest.approx(1000)


def test_servers_take_no_more_than_their_share_of_the_cores() -> None:
    """Eight cores per GPU; the job requests three and its server five, so the share is one server per worker."""
    work = with_servers(2)
    work["cores_each"] = 3 + 5 / 2
    node = Cluster("one", (4,), (16.0,), (32,))
    _, (start,) = ended(Rule(cores=0), Episode(work, node, exact=True, physics=Physics(cores=True)))
    assert isinstance(start, Start)
    assert start.placement.servers == 2


def test_workers_with_servers_are_put_on_several_nodes() -> None:
    (end,), (start,) = ended(Rule(price=0), Episode(with_servers(4), uniform(2, 2), exact=True))
    assert isinstance(start, Start)
    assert len(start.placement.gpus) == 4
    assert end < 700


def test_a_job_leaves_a_slow_gpu_once_a_fast_one_is_free() -> None:
    """Half as fast: B has the V100 0-500; A does 250 s meanwhile, pauses -510, loads -530, and runs -1280."""
    episode = on_two_types(0.5, (0, 1, 1000), (0, 1, 500), pause_s=10, load_s=20)
    assert ended(Rule(), episode)[0] == pytest.approx([1280, 500])


def test_a_job_runs_on_a_slow_gpu_while_it_waits_if_that_gains_more_than_its_restart() -> None:
    """A tenth as fast: A does 50 s while B has the V100, and restarts in 30 s; with 60 s it should wait."""
    rows = (0, 1, 1000), (0, 1, 500)
    assert ended(Rule(), on_two_types(0.1, *rows, pause_s=10, load_s=20))[0] == pytest.approx([1480, 500])
    assert ended(Rule(), on_two_types(0.1, *rows, pause_s=20, load_s=40))[0] == pytest.approx([1500, 500])


def test_a_job_that_is_faster_on_the_old_gpu_runs_there() -> None:
    """Twice as fast: A, the shorter job, takes the K80 although both are free, and B moves there from the V100."""
    ends, made = ended(Rule(), on_two_types(2.0, (0, 1, 1000), (0, 1, 2000), pause_s=10, load_s=20))
    assert isinstance(made[0], Start)
    assert (made[0].job, made[0].placement.gpus) == (0, (0,))
    assert ends == pytest.approx([500, 530 + 750])


def test_a_long_job_yields_its_fast_gpu_to_a_short_one_on_a_slow_gpu() -> None:
    """A, alone, has the V100; B arrives at 100, and A runs at a tenth until B has finished, 110 + 100, and returns."""
    ends, made = ended(Rule(), on_two_types(0.1, (0, 1, 9000), (100, 1, 100), pause_s=10, load_s=20))
    assert ends[1] == pytest.approx(210)
    assert [action.job for action in made][:2] == [0, 1]
    assert ends[0] < 9200
