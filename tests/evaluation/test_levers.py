"""Levers are seen in schedules: order, preemption, sharing, sizing, cores, estimates, placement."""

import pytest

from benchmarks import levers
from gpu_cluster_gym import baselines
from gpu_cluster_gym.workloads import Workload, named, windows


@pytest.fixture(scope="module")
def window() -> Workload:
    return windows(named(levers.WORKLOAD), "train", 1)[0]


@pytest.mark.parametrize(
    ("policy", "pulled"),
    [
        ("fifo", set()),
        ("random", {"order"}),
        ("srtf", {"order", "preemption", "estimates"}),
        ("lucid", {"order", "sharing", "estimates"}),
        ("smallest", {"order"}),
        ("las", {"order", "preemption"}),
        ("fixed_cores", {"cores"}),
    ],
)
def test_levers_of_a_policy(policy: str, pulled: set[str], window: Workload) -> None:
    """By their descriptions: FIFO has none; Lucid orders by predicted service and shares, without preemption."""
    assert levers.pulled(baselines.load(policy), [window]) == pulled


def test_union_uses_all(window: Workload) -> None:
    assert levers.pulled(baselines.load("union"), [window]) == set(levers.PULLED)
