"""Fair share and dominant resource fairness serve the tenant that has, or had, least in relation to its quota."""

from typing import Any

import pytest

from gpu_cluster_gym.baselines.drf import policy as drf
from gpu_cluster_gym.baselines.fair_share import FairShare
from gpu_cluster_gym.simulator.episode import run
from tests.accounts.reference import Job, Node, Rules
from tests.accounts.tenants import Quotas
from tests.cases.tenants import episode_of

FIFO = Rules("submit", preempt=False, estimates=False)


def job(submit: float, gpus: int, duration: float) -> Job:
    return Job(submit, gpus, duration, duration, 1.0, 0.0, 0.0)


def starts(policy: Any, jobs: list[Job], quotas: Quotas, *gpus: int) -> list[float]:
    nodes = [Node(count, 16.0, 48) for count in gpus]
    episode = run(policy, episode_of(jobs, nodes, FIFO, quotas))
    found: list[float] = episode.state.start_s[: len(jobs)].tolist()
    return found


def test_the_tenant_that_has_used_less_comes_first() -> None:
    """A of tenant 0 has used 40 GPU-seconds, so C of tenant 1 goes before B; then B, whose tenant's use is older."""
    jobs = [job(0, 4, 10), job(1, 4, 10), job(2, 4, 10), job(3, 4, 10), job(4, 4, 30)]
    quotas = Quotas((0, 0, 1, 1, 1), (2, 2), "idle")
    assert starts(FairShare(), jobs, quotas, 4) == [0, 20, 10, 30, 40]


def test_use_is_relative_to_the_quota() -> None:
    """A of tenant 0 used twice what B of tenant 1 did, but its quota is three times as large: D goes before C."""
    jobs = [job(0, 2, 10), job(0, 1, 10), job(1, 4, 10), job(1, 4, 10)]
    quotas = Quotas((0, 1, 1, 0), (3, 1), "idle")
    assert starts(FairShare(), jobs, quotas, 4) == [0, 0, 20, 10]


def test_old_use_counts_for_little() -> None:
    """A of tenant 0 used 4,000 GPU-seconds long ago, B 200 now: with a half-life of 100 s B's count more."""
    jobs = [job(0, 4, 1000), job(2000, 4, 50), job(2001, 4, 10), job(2001, 4, 10)]
    quotas = Quotas((0, 1, 1, 0), (2, 2), "idle")
    assert starts(FairShare(half_life_s=100.0), jobs, quotas, 4) == [0, 2000, 2060, 2050]
    assert starts(FairShare(), jobs, quotas, 4) == [0, 2000, 2050, 2060]


def test_drf_compares_shares_of_quotas() -> None:
    """Tenant 0 holds two GPUs of a quota of three, tenant 1 its only one: D of tenant 0 goes before C."""
    jobs = [job(0, 2, 30), job(0, 1, 30), job(1, 1, 10), job(1, 1, 10)]
    assert starts(drf, jobs, Quotas((0, 1, 1, 0), (3, 1), "idle"), 4) == [0, 0, 11, 1]


@pytest.mark.parametrize("policy", [FairShare, lambda: drf], ids=["fair_share", "drf"])
def test_a_tenant_without_a_quota_comes_last(policy: Any) -> None:
    """All four GPUs are free at 10: D of tenant 1 goes before B of tenant 0, which has no quota."""
    jobs = [job(0, 4, 10), job(1, 4, 10), job(2, 4, 10)]
    assert starts(policy(), jobs, Quotas((1, 0, 1), (0, 2), "idle"), 4) == [0, 20, 10]
