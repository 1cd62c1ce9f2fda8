"""Follow the policy of a portfolio that is best in simulated futures, chosen every four hours, without training.

This is the idea of SchedTwin (Zhang et al., arXiv 2512.18894), of which the abstract was available: a twin simulates
several policies from the present state and picks one by the administrator's goal. Inferred: the goal is the mean JCT,
the policies are those below, run times are drawn from the belief of `lookahead`, and the arrivals of a random stretch
of the past come again.

python evaluate.py --workload quick --policy docs.examples.train.portfolio:policy sjf srtf xion_threshold
"""

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.moves import beliefs
from gpu_cluster_gym.simulator.policy import Action, Ranking
from gpu_cluster_gym.simulator.rule_policy import Rule, memory_of
from gpu_cluster_gym.simulator.source import adopt, source_of

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

HOUR_S = 3600.0
HORIZON = 4  # time constants after which a future is cut


class Portfolio:
    """State of one episode: the policy that is followed, and when to choose again.

    names: policies of `baselines/` that are rankings; the first is followed until jobs queue.
    every_s: seconds between two choices. futures: number of simulated futures, the same for each policy.
    tau_s: time constant of the discount of job-seconds; a future is cut after four.
    arrivals: whether jobs arrive in them.
    """

    def __init__(
        self,
        names: tuple[str, ...] = ("srtf", "fifo", "sjf", "las", "xion_threshold"),
        every_s: float = 4 * HOUR_S,
        futures: int = 8,
        tau_s: float = 8 * HOUR_S,
        arrivals: bool = True,
    ) -> None:
        self.names, self.every_s, self.futures = names, every_s, futures
        self.tau_s, self.arrivals = tau_s, arrivals
        members = [baselines.make(baselines.load(name)) for name in names]
        self._rankings = [each for each in members if isinstance(each, Ranking)]
        if len(self._rankings) < len(names):
            wrong = next(
                name for name, each in zip(names, members, strict=True) if not isinstance(each, Ranking)
            )
            raise ValueError(f"policy {wrong!r}: expected policies that are rankings, such as srtf")
        self._chosen, self._next_s, self._instant = 0, -np.inf, -1
        self.followed: Counter[str] = Counter()  # number of choices of each policy

    def __call__(self, view: "View") -> Action:
        """Return the next action of the policy that is followed."""
        if view.instant != self._instant:
            if self._instant < 0:
                self._begin(view)
            self._instant = view.instant
            if view.now >= self._next_s and len(view.queue):
                self._next_s = view.now + self.every_s
                self._chosen = int(self.costs(view).mean(axis=0).argmin())
                self.followed[self.names[self._chosen]] += 1
        return view.next_move(self._rankings[self._chosen])

    def _begin(self, view: "View") -> None:
        """Allocate the records of a future, and set the levels of LAS."""
        source = source_of(view)
        for levels in filter(None, (ranking.levels for ranking in self._rankings)):
            source.states["num_limits"] = len(levels)
            source.states["limits"][:, : len(levels)] = levels
            calls.replan(source.states, 0, source.jobs)
        self._memory = memory_of(Rule(), source.states, source.jobs, source.histories)
        self._states = np.empty(2, source.states.dtype)  # start of a future, and its continuation
        self._jobs = np.zeros(source.states["phase"].shape[1], source.jobs.dtype)

    def costs(self, view: "View") -> np.ndarray:
        """Return the discounted job-seconds to come, (futures, policies)."""
        source, states = source_of(view), self._states
        costs = np.zeros((self.futures, len(self._rankings)))
        for row in costs:
            states[0], self._jobs[: source.arrived] = source.states[0], source.jobs[: source.arrived]
            beliefs.sample(states, 0, self._memory, 0, self._jobs, int(view.rng.integers(2**31)))
            if self.arrivals:
                add_arrivals(states[0], self._jobs, HORIZON * self.tau_s, view.rng)
            for k, ranking in enumerate(self._rankings):
                states[1] = states[0]
                adopt(states, 1, self._jobs, ranking)
                row[k] = calls.rollout(states, 1, self._jobs, self.tau_s)
        return costs


def add_arrivals(s: Any, jobs: np.ndarray, span_s: float, rng: np.random.Generator) -> None:
    """Let the jobs of a random stretch of the past arrive again; s: the record of a future, without arrivals."""
    count, submit_s = int(s.num_arrived), jobs["submit_s"][: s.num_arrived]
    past_s = s.clock - submit_s[0]
    after_s = (submit_s - submit_s[0] - rng.uniform(0.0, past_s)) % max(past_s, 1.0)
    order = np.argsort(after_s, kind="stable")
    again = order[after_s[order] < min(span_s, past_s)][: len(jobs) - count]
    new = slice(count, count + len(again))
    jobs[new] = jobs[again]
    jobs["submit_s"][new] = s.clock + after_s[again]
    jobs["crash_at"][new], jobs["predictable_from"][new] = 1.0, jobs["predictable_from"][again] > 0
    s.width[new] = s.workers[new] = jobs["num_gpus"][again]
    s.servers[new], s.tenant[new] = jobs["servers"][again], s.tenant[again]
    s.predictable[new] = jobs["predictable_from"][new] <= 0
    s.num_jobs = new.stop
    # The queue has a stretch for each class of requests, with room for all its jobs that have not ended.
    kinds, left = int(s.num_classes), np.append(np.isnan(s.finish_s[:count]), np.ones(len(again), bool))
    sizes = np.bincount(jobs["request_class"][: new.stop][left].astype(int), minlength=kinds)
    before, queue = s.queue_start[:kinds].copy(), s.queue.copy()
    s.queue_start[:kinds] = np.cumsum(sizes) - sizes
    for kind in np.flatnonzero(s.queue_size[:kinds]):
        old, start, size = before[kind], s.queue_start[kind], s.queue_size[kind]
        s.queue[start : start + size] = queue[old : old + size]


policy = Portfolio
