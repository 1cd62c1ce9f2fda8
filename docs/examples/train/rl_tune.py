"""Start the jobs that a learned priority and an integer program choose together, after RLTune.

This is the idea of RLTune (arXiv 2512.10271), of which the abstract was available: reinforcement learning ranks the
queued jobs, and a mixed-integer linear program maps them to nodes. Inferred: the ranking is that of `rl_scheduler`, a
job weighs half of the one before it, and the program puts each job on as few nodes as it can.

python -m docs.examples.train.rl_scheduler 100000            # trains the ranking
python evaluate.py --workload quick --policy docs.examples.train.rl_tune:policy docs.examples.train.rl_scheduler:policy
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint, milp

from docs.examples.train import rl_scheduler
from gpu_cluster_gym.envs.agent_policy import PlainAgent
from gpu_cluster_gym.simulator.policy import Action, Placement, Start

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

MOST = 8  # jobs of a program
NODE_COST = 1e-4  # cost of a node on which a job has GPUs, where the first job weighs 1


def assign(wanted: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Return the GPUs of each job on each node, (jobs, nodes); jobs that do not start have none.

    wanted: GPUs of the jobs, the most important one first. free: free GPUs of the nodes. The variables are GPUs x and
    use z of each job on each node, and the start y of each job: maximise the weights of the starts less the cost of
    nodes, such that sum_n x_jn = wanted_j y_j, sum_j x_jn <= free_n and x_jn <= free_n z_jn.
    """
    jobs, nodes = len(wanted), len(free)
    cells, one = jobs * nodes, np.eye(jobs * nodes)
    by_job, by_node = np.kron(np.eye(jobs), np.ones(nodes)), np.kron(np.ones(jobs), np.eye(nodes))
    none = np.zeros((nodes, cells + jobs))
    rows = np.vstack(
        [
            np.hstack([by_job, np.zeros((jobs, cells)), -np.diag(wanted)]),
            np.hstack([by_node, none]),
            np.hstack([one, -one * np.tile(free, jobs), np.zeros((cells, jobs))]),
        ]
    )
    low = np.concatenate([np.zeros(jobs), np.full(nodes + cells, -np.inf)])
    high = np.concatenate([np.zeros(jobs), free, np.zeros(cells)])
    cost = np.concatenate([np.zeros(cells), np.full(cells, NODE_COST), -(0.5 ** np.arange(jobs))])
    most = np.concatenate([np.tile(free, jobs), np.ones(cells + jobs)])
    whole, limits = np.ones(len(cost), int), LinearConstraint(rows, low, high)
    exactly: Any = {"mip_rel_gap": 0.0}
    found = milp(cost, constraints=limits, bounds=Bounds(0, most), integrality=whole, options=exactly)
    assert found.x is not None, found.message
    return np.rint(found.x[:cells]).astype(int).reshape(jobs, nodes)


class Tuned(PlainAgent):
    """A policy that starts the jobs of one integer program at each decision."""

    def __init__(self) -> None:
        """Use the network of `rl_scheduler`."""
        super().__init__(self._plan, **rl_scheduler.CHOICES)
        self._ranking: Any = rl_scheduler.model().policy
        self._starts: list[Action] = []

    def _decide(self, view: "View") -> list[Action]:
        """Return the starts of the next program; none where no job fits."""
        self._starts = []
        super()._decide(view)
        return self._starts

    @torch.no_grad()
    def _plan(self, seen: np.ndarray, legal: np.ndarray) -> int:
        """Keep the starts of a program for the jobs that fit and rank first; the action returned is not used."""
        view, wait = self._view, len(legal) - 1
        assert view is not None
        scored = self._ranking.get_distribution(torch.from_numpy(seen)[None]).distribution
        scores = scored.logits[0, :wait].numpy()
        first = np.flatnonzero(legal[:wait])
        first = first[np.argsort(-scores[first], kind="stable")][:MOST]
        jobs = self._slots.queue[first]
        empty = (view.gpus.num_jobs == 0) & (view.gpus.reserved_for == -1)
        gpus = [
            np.flatnonzero(empty & (view.gpus.node == node)).tolist() for node in range(len(view.nodes.cores))
        ]
        shares = assign(view.jobs.num_gpus[jobs], np.array([len(each) for each in gpus]))
        for job, row in zip(jobs.tolist(), shares, strict=True):
            taken = [gpus[node].pop(0) for node, share in enumerate(row) for _ in range(share)]
            if taken:
                self._starts.append(Start(job, Placement(tuple(taken))))
        return wait


policy = Tuned
