"""Random constraints on jobs, and the compiled kernel with them behind the signature of its plain accounts."""

from collections.abc import Sequence

import numpy as np

from gpu_cluster_gym.simulator.constraints import Constraints
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.tenants import NO_TENANTS
from tests.accounts.reference import Bound, Job, Node, Outcome, Rules, Simulation
from tests.accounts.tenants import Quotas
from tests.cases import scenarios
from tests.cases.scenarios import outcomes, ranking_of
from tests.cases.tenants import tenants_of


def constraints_of(bound: Bound, num_nodes: int) -> Constraints:
    """Return the kernel's constraints: nodes that no job can tell apart are of one kind."""
    member = np.array([[node in nodes for nodes in bound.nodes] for node in range(num_nodes)])
    kinds, of_node = np.unique(member, axis=0, return_inverse=True)
    pairs = [(job, other) for job, others in enumerate(bound.waits_for) for other in sorted(others)]
    return Constraints(of_node.reshape(-1), kinds.T, np.array(pairs, np.int64).reshape(-1, 2))


def episode_of(
    jobs: Sequence[Job], nodes: Sequence[Node], rules: Rules, bound: Bound, quotas: Quotas | None = None
) -> Episode:
    """Return a new episode of the accounts' jobs with constraints, and with quotas if they are given."""
    tenants = NO_TENANTS if quotas is None else tenants_of(quotas)
    return scenarios.episode_of(
        jobs, nodes, rules, tenants=tenants, constraints=constraints_of(bound, len(nodes))
    )


def compiled(
    jobs: Sequence[Job],
    nodes: Sequence[Node],
    rules: Rules,
    bound: Bound,
    quotas: Quotas | None = None,
    *,
    step_by_step: bool = False,
) -> list[Outcome]:
    """Simulate with the compiled kernel."""
    episode = episode_of(jobs, nodes, rules, bound, quotas)
    return outcomes(run(ranking_of(rules), episode, step_by_step=step_by_step, oracle=True))


def random_bound(
    rng: np.random.Generator, jobs: Sequence[Job], nodes: Sequence[Node], rules: Rules, kinds: int = 4
) -> Bound:
    """Bind two thirds of the jobs to some kinds of nodes that can hold them, and let a third wait for other jobs.

    Some jobs wait for jobs that are submitted later.
    """
    kind = rng.integers(0, kinds, len(nodes))
    everywhere = frozenset(range(len(nodes)))
    allowed = [everywhere] * len(jobs)
    for index, job in enumerate(jobs):
        able = rng.random(kinds) < 0.5
        some = frozenset(node for node in everywhere if able[kind[node]])
        if rng.random() < 2 / 3 and can_ever_start(job, nodes, rules, some):
            allowed[index] = some
    place = np.argsort(np.argsort(np.arange(len(jobs)) + rng.normal(0, 1.5, len(jobs))))
    waits_for: list[frozenset[int]] = [frozenset()] * len(jobs)
    for index in range(len(jobs)):
        near = [other for other in range(len(jobs)) if 0 < place[index] - place[other] <= 8]
        count = min(len(near), 1 + int(rng.integers(3)))
        if near and rng.random() < 1 / 3:
            waits_for[index] = frozenset(rng.choice(near, count, replace=False).tolist())
    return Bound(tuple(allowed), tuple(waits_for))


def can_ever_start(job: Job, nodes: Sequence[Node], rules: Rules, allowed: frozenset[int]) -> bool:
    """Return whether these nodes can hold a job when they are empty."""
    try:
        Simulation([job], nodes, rules, Bound((allowed,), (frozenset(),)))
    except ValueError:
        return False
    return True
