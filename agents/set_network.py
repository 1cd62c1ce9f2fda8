"""Network that reads queued and running jobs as sets, and scores the start or the pause of each with shared weights.

Nothing in it depends on the numbers of slots, jobs, nodes or GPUs: an agent trained on a small cluster acts on any.
"""

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from gpu_cluster_gym.agents.networks import FORBIDDEN, ScoringNetwork
from gpu_cluster_gym.envs.agent_policy import DrawingAgent
from gpu_cluster_gym.simulator.kernel.slots.features import (
    AGE,
    ATTAINED,
    ESTIMATE,
    FITS,
    GPUS,
    IS_LEGAL,
    LEFT_ON_NODE,
    NUM_RUNNING,
    PREDICTABLE,
    PREEMPTIONS,
    PRESENT,
    PROGRESS,
    QUEUE_FEATURES,
    REMAINING,
    REMAINING_AREA,
    RESTART,
    TOTALS,
    WAIT,
)
from gpu_cluster_gym.simulator.policy import Action, Preempt, Start
from gpu_cluster_gym.simulator.reasons import Reason, in_order
from gpu_cluster_gym.simulator.view import View

READ: tuple[int, ...] = (
    *(PRESENT, GPUS, ESTIMATE, REMAINING, REMAINING_AREA, ATTAINED, PROGRESS, RESTART, AGE, PREDICTABLE),
    *(PREEMPTIONS, WAIT, FITS, LEFT_ON_NODE),
)
"""Queue features that the network reads: those of the job, not those of victims that a rule would choose for it."""
UNSEEN = TOTALS.index("unseen")
SUM_SCALE = 16.0
"""Divisor of sums over jobs: the sum over 16 jobs, divided by it, is their mean."""
AGE_ERROR = 1e-4
"""Bound on the relative error of an age that is computed from its float32 feature."""
RARE_LOGIT = -6.0
"""Initial logit of a pause, and of the start of a job that does not fit, relative to other actions: where an untrained
agent may wait or pause one of 48 running jobs, it pauses one in about ten decisions."""
INITIAL_STD = 0.01
"""Standard deviation of the initial weights of the last layers: small, so that all starts that fit are about equally
likely before training."""
DRAWN = (
    "Starts of queued jobs, pauses of running ones and waiting are drawn by the probabilities of the network."
)
PERCENT = "probability, %"


class Jobs(NamedTuple):
    """A batch of B observations of `envs.observations.sets` without the empty slots.

    Each has K queue slots and R running slots; J slots of the batch have a queued job, and I have a running one.
    """

    queued: Tensor
    """(J, len(READ)), features of all queued jobs of the batch."""
    running: Tensor
    """(I, NUM_RUNNING), features of all running jobs of the batch."""
    totals: Tensor
    """(B, len(TOTALS)), totals of the cluster."""
    queue_at: tuple[Tensor, Tensor]
    """Observation and slot of each queued job, int64 (J,) each."""
    running_at: tuple[Tensor, Tensor]
    """Observation and slot of each running job, int64 (I,) each."""
    legal: Tensor
    """bool (B, K + R + 1): starts, pauses, waiting."""

    @classmethod
    def of(cls, flat: Tensor, slots: int) -> "Jobs":
        """Split a batch of flat observations, (B, n), with `slots` queue slots each."""
        sizes = (slots * len(QUEUE_FEATURES), len(TOTALS), slots + 1)
        queue, totals, starts, running = flat.split((*sizes, flat.shape[1] - sum(sizes)), dim=1)
        queue, running = queue.unflatten(1, (slots, -1)), running.unflatten(1, (-1, NUM_RUNNING))
        legal = torch.cat([starts[:, :-1], running[:, :, IS_LEGAL], starts[:, -1:]], dim=1) > 0
        row, slot = torch.nonzero(queue[:, :, PRESENT] > 0, as_tuple=True)
        row_running, slot_running = torch.nonzero(running[:, :, PRESENT] > 0, as_tuple=True)
        jobs, running_jobs = queue[row, slot][:, READ], running[row_running, slot_running]
        return cls(jobs, running_jobs, totals, (row, slot), (row_running, slot_running), legal)

    def sums(self, queued: Tensor, running: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sums over the queued and over the running jobs of each observation, (B, ...) each.

        queued, running: values by job, (J, ...) and (I, ...).
        """
        size = (len(self.totals), *queued.shape[1:])
        return (
            queued.new_zeros(size).index_add(0, self.queue_at[0], queued),
            running.new_zeros(size).index_add(0, self.running_at[0], running),
        )

    @property
    def counts(self) -> tuple[Tensor, Tensor]:
        """Numbers of queued and of running jobs shown, at least 1, (B,) each."""
        size = len(self.totals)
        queued, running = (at[0].bincount(minlength=size) for at in (self.queue_at, self.running_at))
        return queued.clamp(min=1), running.clamp(min=1)


class SetScorer(nn.Module):
    """Scores of each queued job, of each running job and of the whole observation, given a context of all jobs."""

    def __init__(self, hidden: int) -> None:
        """Make the layers. hidden: their width."""
        super().__init__()
        self.queued = nn.Sequential(
            nn.Linear(len(READ), hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.running = nn.Sequential(
            nn.Linear(NUM_RUNNING, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.totals = nn.Linear(len(TOTALS), hidden)
        self.context = nn.Linear(5 * hidden, hidden)
        self.of_queued, self.of_running = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.to_queued = nn.Linear(hidden, hidden, bias=False)
        self.to_running = nn.Linear(hidden, hidden, bias=False)
        self.score_queued, self.score_running = nn.Linear(hidden, 1), nn.Linear(hidden, 1)
        self.score_whole = nn.Linear(hidden, 1)
        self.claim = nn.Parameter(torch.zeros(1))  # added to the score of a job that fits nowhere
        for layer in (self.score_queued, self.score_running, self.score_whole):
            nn.init.normal_(layer.weight, std=INITIAL_STD)
            nn.init.zeros_(layer.bias)

    def forward(self, seen: Jobs) -> tuple[Tensor, Tensor, Tensor]:
        """Return the scores of queued jobs (J,), of running jobs (I,), and of observations (B,)."""
        queued, running = self.queued(seen.queued), self.running(seen.running)
        sums = seen.sums(queued, running)
        means = [each / count.unsqueeze(1) for each, count in zip(sums, seen.counts, strict=True)]
        pooled = torch.cat(
            [sums[0] / SUM_SCALE, means[0], sums[1] / SUM_SCALE, means[1], relu(self.totals(seen.totals))], 1
        )
        context = relu(self.context(pooled))
        of_queued = relu(self.of_queued(queued) + self.to_queued(context)[seen.queue_at[0]])
        of_running = relu(self.of_running(running) + self.to_running(context)[seen.running_at[0]])
        claims = self.claim * (1.0 - seen.queued[:, READ.index(FITS)])
        scores = self.score_queued(of_queued), self.score_running(of_running), self.score_whole(context)
        return scores[0].squeeze(1) + claims, scores[1].squeeze(1), scores[2].squeeze(1)


class SetNetwork(ScoringNetwork):
    """Actor and critic, without shared layers.

    The value is the score of the observation plus a sum over the jobs, since the cost that it predicts grows with each
    job for as long as the job is present. Queued jobs that are not shown count like the mean of those shown.
    """

    def __init__(self, slots: int, *, hidden: int = 32) -> None:
        """Make the layers, with random weights. slots: number of queue slots, K. hidden: width of the layers."""
        super().__init__()
        self.slots = slots
        self.actor, self.critic = SetScorer(hidden), SetScorer(hidden)
        nn.init.constant_(self.actor.score_running.bias, RARE_LOGIT)
        nn.init.constant_(self.actor.claim, RARE_LOGIT)

    def observing(self, slots: int) -> "SetNetwork":
        """Return the network for observations with another number of queue slots; it shares the weights."""
        found = copy.copy(self)
        found.slots = slots
        return found

    def forward_actor(self, flat: Tensor) -> Tensor:
        """Return the logits of a (B, n) batch, (B, K + R + 1); those of illegal actions are masked."""
        seen = Jobs.of(flat, self.slots)
        queued, running, wait = self.actor(seen)
        logits = torch.full(seen.legal.shape, FORBIDDEN)
        logits = logits.index_put(seen.queue_at, queued)
        logits = logits.index_put((seen.running_at[0], seen.running_at[1] + self.slots), running)
        logits = torch.cat([logits[:, :-1], wait.unsqueeze(1)], dim=1)
        return logits.masked_fill(~seen.legal, FORBIDDEN)

    def forward_critic(self, flat: Tensor) -> Tensor:
        """Return the values of a (B, n) batch, (B, 1)."""
        seen = Jobs.of(flat, self.slots)
        queued, running, whole = self.critic(seen)
        of_queued, of_running = seen.sums(queued, running)
        of_queued = of_queued * (1.0 + unseen(seen) / seen.counts[0])
        value: Tensor = (of_queued + of_running + whole).unsqueeze(1)
        return value

    @torch.no_grad()
    def value_of_arrivals(self, flat: Tensor, elapsed_s: Tensor) -> Tensor:
        """Return the part of the values after a step that comes from jobs that arrived in it, (B,).

        Jobs that are not shown do not count; half of the queue slots are for the latest arrivals.
        flat: observations after the step, (B, n). elapsed_s: simulated time of the step, s, (B,).
        """
        seen = Jobs.of(flat, self.slots)
        queued, running, _ = self.critic(seen)
        column = READ.index(AGE), READ.index(ATTAINED)
        age_s = 60.0 * torch.expm1(4.0 * seen.queued[:, column[0]])
        arrived = (age_s < (1.0 - AGE_ERROR) * elapsed_s[seen.queue_at[0]]) & (seen.queued[:, column[1]] == 0)
        return seen.sums(queued * arrived, running)[0]


def unseen(seen: Jobs) -> Tensor:
    """Return the number of queued jobs of each observation that are not shown, (B,)."""
    return torch.expm1(6.0 * seen.totals[:, UNSEEN])


class SamplingAgent(DrawingAgent):
    """An agent that samples its actions, as in training, by random numbers that depend on a window's first job alone.

    Taking the most likely action would be a different policy from the trained one, and would hardly ever pause: the
    probability of a pause is divided among many jobs, and each share is usually below the probability of waiting.
    """

    def __init__(self, network: SetNetwork, acting: Mapping[str, Any]) -> None:
        """Store the network. acting: keywords of the environment that define observations and actions."""
        super().__init__(self._choose, **acting)
        self._network = network.observing(acting["queue_slots"])
        # Probabilities of all actions at the last draw of each action, by its number.
        self._shares: dict[int, np.ndarray] = {}

    @torch.no_grad()
    def _choose(self, seen: np.ndarray, legal: np.ndarray) -> int:
        logits = self._network.forward_actor(torch.from_numpy(seen)[None])
        shares = logits[0].double().softmax(0).numpy()
        drawn = int(self._rng.choice(len(shares), p=shares))
        self._shares[drawn] = shares
        return drawn

    def reason(self, view: View, action: Action) -> Reason | None:
        """Return the probability with which a start or pause was drawn, and those of other jobs.

        None for another action, and for a job that was not drawn.
        """
        if not isinstance(action, Start | Preempt):
            return None
        jobs = np.concatenate([self._slots.queue, self._slots.running])
        shares = next(
            (self._shares[int(at)] for at in np.flatnonzero(jobs == action.job) if at in self._shares), None
        )
        if shares is None:
            return None
        order = np.argsort(-shares[:-1], kind="stable")
        order = order[(jobs[order] == action.job) | ((jobs[order] >= 0) & (shares[order] > 0))]
        others = set(view.queue.tolist()) - {action.job}
        ranked = jobs[order], 100.0 * shares[order], others.__contains__
        waits = (("% for waiting", float(100.0 * shares[-1])),)
        return in_order(DRAWN, PERCENT, action.job, *ranked, terms=waits)
