"""Small workloads with tenants, and the compiled kernel behind the signature of their plain account."""

from collections.abc import Sequence

import numpy as np

from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.tenants import Tenants
from tests.accounts.reference import Job, Node, Outcome, Rules
from tests.accounts.tenants import Quotas
from tests.cases import scenarios
from tests.cases.scenarios import MIXED, outcomes, random_jobs, ranking_of

NAMES = "abcdefgh"


def tenants_of(quotas: Quotas) -> Tenants:
    """Return the tenants of a scenario with these quotas."""
    names = tuple(NAMES[: len(quotas.gpus)])
    return Tenants(names, quotas.gpus, np.array(quotas.tenant, np.int32), quotas.borrowing)


def episode_of(jobs: Sequence[Job], nodes: Sequence[Node], rules: Rules, quotas: Quotas) -> Episode:
    """Return a new episode of the account's jobs under the scenario's part of the rules."""
    return scenarios.episode_of(jobs, nodes, rules, tenants=tenants_of(quotas))


def compiled(jobs: Sequence[Job], nodes: Sequence[Node], rules: Rules, quotas: Quotas) -> list[Outcome]:
    """Simulate with the compiled kernel."""
    return outcomes(run(ranking_of(rules), episode_of(jobs, nodes, rules, quotas), oracle=True))


def random_case(seed: int, borrowing: str, count: int = 40) -> tuple[list[Job], Quotas, Rules]:
    """Draw jobs of three tenants that `MIXED`, and without borrowing their quotas, can hold; and rules, for FIFO."""
    rng = np.random.default_rng([seed, len(borrowing)])
    rules = Rules(
        "submit",
        preempt=False,
        placement=("best_fit", "first_fit", "spread")[seed % 3],
        estimates=seed % 2 == 0,
        preemption=seed % 3 != 2,
        levels=(3250.0, 7200.0),
    )
    gpus = (16, 9, 5) if seed % 2 else (10, 10, 10)
    assert sum(gpus) == sum(node.gpus for node in MIXED)
    tenant = rng.integers(0, len(gpus), count)
    jobs = random_jobs(rng, count, load=1.0)
    if borrowing == "none":
        most = [gpus[each] for each in tenant]
        jobs = [
            job._replace(num_gpus=min(job.num_gpus, limit)) for job, limit in zip(jobs, most, strict=True)
        ]
    return jobs, Quotas(tuple(tenant.tolist()), gpus, borrowing), rules
