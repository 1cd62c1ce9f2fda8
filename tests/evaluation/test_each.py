"""`each` gives equal outcomes on one process, several, and the nodes of a Ray cluster; a lost worker loses none."""

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gpu_cluster_gym.evaluate import main
from gpu_cluster_gym.evaluation import provenance, runner
from gpu_cluster_gym.evaluation.each import LostError, each, in_order, on_ray
from gpu_cluster_gym.evaluation.journal import Journal
from gpu_cluster_gym.simulator.choice import ChoiceError, Wrong
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.workloads import Workload, named, windows


def square(number: int) -> int:
    return number * number


def divide() -> int:
    return 1 // 0


def die() -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def die_once(mark: Path) -> int:
    """End this process, unless it has been done."""
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 7


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Return a Ray cluster of two nodes with a CPU each, on this machine."""
    pytest.importorskip("ray", reason="Ray is not installed: gpu-cluster-gym[ray]")
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    found.add_node(num_cpus=1)
    yield found
    found.shutdown()


@pytest.mark.parametrize("processes", [1, 2])
def test_each_outcome_comes_with_the_place_of_its_task(processes: int) -> None:
    found = list(each([partial(square, number) for number in range(7)], processes))
    assert sorted(found) == [(number, number * number) for number in range(7)]


def test_outcomes_that_come_early_wait_for_those_before_them() -> None:
    given: list[int] = []

    def coming() -> Iterator[tuple[int, str]]:
        for place in (2, 0, 3, 1):
            given.append(place)
            yield place, "abcd"[place]

    found = in_order(coming())
    assert next(found) == "a"
    assert given == [2, 0]
    assert [*found] == ["b", "c", "d"]


def test_a_task_whose_worker_is_lost_is_repeated(tmp_path: Path) -> None:
    tasks = [partial(square, 3), partial(die_once, tmp_path / "died"), partial(square, 4)]
    assert sorted(each(tasks, 2)) == [(0, 9), (1, 7), (2, 16)]


def test_a_task_that_always_loses_its_worker_is_named_at_the_end() -> None:
    found = each([partial(square, 3), partial(die), partial(square, 4)], 2)
    assert sorted((next(found), next(found))) == [(0, 9), (2, 16)]
    with pytest.raises(LostError, match="tasks 1: a worker process ended") as error:
        next(found)
    assert error.value.places == [1]


def test_without_ray_the_backend_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    assert main(["--policy", "fifo", "--workload", "quick", "--windows", "1", "--backend", "ray"]) == 2
    assert (
        'requires Ray, not installed here: run pip install -e ".[ray]" in the clone'
        in capsys.readouterr().err
    )


def test_an_address_without_a_cluster_is_refused_at_once() -> None:
    pytest.importorskip("ray", reason="Ray is not installed: gpu-cluster-gym[ray]")
    with (
        pytest.raises(ValueError, match=r"--address 127\.0\.0\.1:1: no Ray cluster answers"),
        on_ray("127.0.0.1:1"),
    ):
        pass


@pytest.fixture(scope="module")
def loads() -> list[Workload]:
    return windows(named("quick"), "test", 4)


MAKERS: dict[str, runner.Maker] = {
    "fifo": lambda: Ranking("submit"),
    "srtf": lambda: Ranking("remaining", "by_order"),
    "sjf": lambda: Ranking("estimate"),
}


def test_a_killed_node_loses_nothing(cluster: Any, loads: list[Workload], tmp_path: Path) -> None:
    """The table is equal to that of one process, and every result is in the journal as soon as it is known."""
    journal, came = Journal(tmp_path), list[tuple[str, int]]()

    def done(name: str, table: pd.DataFrame) -> None:
        came.append((name, int(table["window"].iloc[0])))
        assert all(journal.file(*each).exists() for each in came)
        if len(came) == 5:
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)

    with on_ray(cluster.address):
        found = runner.simulate(MAKERS, loads, journal=journal, done=done)
    assert len(came) == 12
    assert len({*came}) == 12
    for name, table in runner.simulate(MAKERS, loads).items():
        pd.testing.assert_frame_equal(found[name], table, check_exact=True)
    cluster.add_node(num_cpus=1)


def test_ray_raises_the_error_of_a_task_itself(cluster: Any) -> None:
    with (
        on_ray(cluster.address),
        pytest.raises(ZeroDivisionError, match=r"^integer division or modulo by zero$"),
    ):
        list(each([divide]))


def test_ray_names_a_task_that_always_loses_its_worker(cluster: Any) -> None:
    with on_ray(cluster.address), pytest.raises(LostError) as error:
        list(each([partial(square, 1), partial(die)]))
    assert error.value.places == [1]


def test_a_node_with_other_libraries_is_refused(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "versions", lambda: {"numpy": "0.1"})
    with (
        on_ray(cluster.address),
        pytest.raises(RuntimeError, match=r"has .*numpy .*, not 0\.1.*: install the same"),
    ):
        list(each([partial(square, 1)]))


def refuse() -> None:
    raise ChoiceError([Wrong("seed", -1, "an integer of at least 0")])


def test_an_invalid_choice_in_another_process_is_said_in_the_same_words() -> None:
    with pytest.raises(ChoiceError) as here:
        refuse()
    with pytest.raises(ChoiceError) as there:
        list(each([refuse, refuse], 2))
    assert str(there.value) == str(here.value)
