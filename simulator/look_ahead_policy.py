"""Look-ahead: a policy that tries moves in sampled futures and makes the best, on top of `union` or a steered rule.

Futures are sampled from what a scheduler knows (`simulator.kernel.moves.beliefs`); the formulas are in
`simulator.kernel.moves.rollouts`. The policy runs inside the kernel or is asked move by move, with equal results.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator import move_reasons, rule_reasons
from gpu_cluster_gym.simulator.compiled_policy import next_listed
from gpu_cluster_gym.simulator.interrupts import interruptible
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.moves import rollouts
from gpu_cluster_gym.simulator.kernel.moves.move_list import list_dtype
from gpu_cluster_gym.simulator.kernel.moves.rollouts import RolloutBuffers, RolloutOptions
from gpu_cluster_gym.simulator.policy import Action, RunsCompiled
from gpu_cluster_gym.simulator.reasons import Option, Reason
from gpu_cluster_gym.simulator.rule_policy import Rule, Steered, memory_of
from gpu_cluster_gym.simulator.source import source_of

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

RULE = (
    "Moves are tried in sampled futures, in which the base policy continues; the one that saves most replaces the base "
    "policy's own choice if it saves more than {margin_s:g} s and {z:g} standard errors."
)
SAVED = "mean total JCT saved in sampled futures, s"


@dataclass(frozen=True)
class LookAhead(RunsCompiled):
    """The choice of a rule, unless another move is better in sampled futures; ValueError for an option out of bounds.

    rule: the base policy, which also continues after each move that is tried. A steered rule continues with its current
        weights: these change with arrivals, of which a future has none.
    draws: futures in which the finalists are compared with the base policy's choice; at least 2 if estimates err.
    screening: other futures, in which all listed moves are compared; 0 to compare all of them in `draws` at once.
    finalists: maximum number of moves, those with the highest advantage in the screening; none if it is not positive.
    z: standard errors that a mean advantage must exceed.
    margin_s: discounted job-seconds that it must exceed.
    tau_s: time constant of the discount; futures are cut at 4 tau_s. Infinite: no discount, and a future ends with the
        last of the current jobs.
    rounds: maximum number of deviations from the base policy at an instant; 0 for the base policy itself.
    queued, running: number of jobs whose moves are listed, see `envs.moves`.
    rest_s: seconds after which moves are compared again although nothing has arrived, finished, started or been paused.
    contention: factor on the slowdown on shared GPUs in futures; to measure the cost of a wrong model.
    """

    rule: Rule | Steered = Rule()  # noqa: RUF009 - frozen
    draws: int = 8
    screening: int = 2
    finalists: int = 4
    z: float = 2.0
    margin_s: float = 1.0
    tau_s: float = np.inf
    rounds: int = 3
    queued: int = 4
    running: int = 4
    rest_s: float = 600.0
    contention: float = 1.0

    def __post_init__(self) -> None:
        """Check the bounds; ValueError names each option that violates them."""
        minima = {"draws": 1, "screening": 0, "finalists": 1, "rounds": 0, "queued": 0, "running": 0}
        minima |= dict.fromkeys(("z", "margin_s", "rest_s", "contention"), 0)
        wrong = [
            f"{name} {getattr(self, name)} (expected at least {low})"
            for name, low in minima.items()
            if not getattr(self, name) >= low  # also refuses NaN
        ]
        wrong += [] if self.tau_s > 0 else [f"tau_s {self.tau_s} (expected a positive number)"]
        if wrong:
            raise ValueError(f"invalid options of LookAhead: {', '.join(wrong)}")

    def __call__(self, view: "View") -> Action:
        """Return the next action of this instant."""
        source = source_of(view)
        if isinstance(self.rule, Steered):
            self.rule.update_weights(source, (self.rule.key, self.options), rows=2)
        elif source.rule != self:
            source.rule = self
            source.rule_memory = memory_of(self.rule, source.states, source.jobs, source.histories, rows=2)
        if (
            not isinstance(source.room, RolloutWorkspace)
            or source.room.buffers.memory is not source.rule_memory
        ):
            source.room = rollout_workspace(source.states, source.jobs, source.rule_memory)
        memory = source.rule_memory[0]
        if memory["instant"] != source.instant or memory["next_move"] == memory["num_moves"]:
            source.room.lists["num"] = (
                0  # so that `reason` knows whether moves are compared for the next action
            )
        kind = rollouts.next_move(source.states, source.jobs, *source.room, self.options)
        return next_listed(source.rule_memory, kind)

    def reason(self, view: "View", action: Action) -> Reason | None:
        """Return the reason of the action returned last: the compared moves, or the reason of the rule without any."""
        source = source_of(view)
        v = source.room.lists[0] if isinstance(source.room, RolloutWorkspace) else None
        if v is not None and v["num"] > 1:
            compared = self._compared(v, source.state.gpu_node)
            made = move_reasons.best(compared, int(v["own"]))
            if move_reasons.is_of_move(action, v, made):
                rule = RULE.format(margin_s=self.margin_s, z=self.z)
                return move_reasons.reason(rule, SAVED, action, v, made, compared)
        return rule_reasons.reason(source, action)

    def _compared(self, v: np.record, gpu_node: np.ndarray) -> dict[int, Option]:
        """Return the moves that were compared last, in the screening or in the comparison of finalists."""
        own, futures = int(v["own"]), v["num_futures"][: v["num"]]
        values, minima = {own: 0.0}, {}
        for k in (int(each) for each in np.flatnonzero(futures) if each != own):
            n, total, squares = (
                int(futures[k]),
                float(v["advantage_sum"][k]),
                float(v["advantage_squares"][k]),
            )
            error = math.sqrt(max(squares - total**2 / n, 0.0) / (n - 1) / n) if n > 1 else 0.0
            values[k] = total / n
            # without a finalist these are the moves of the screening
            minima[k] = max(self.margin_s, self.z * error) if v["is_evaluated"].any() else 0.0
        return move_reasons.options(v, values, minima, gpu_node)

    def run_compiled(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Run the first record to the end; return whether every job finished."""
        memory = memory_of(self.start, states, jobs, histories, rows=2)
        workspace = rollout_workspace(states, jobs, memory)
        act_until = partial(interruptible, states, rollouts.act_until, states, jobs, *workspace, self.options)
        if isinstance(self.rule, Steered):
            return self.rule.run_intervals(states, jobs, memory, act_until)
        if calls.advance(states, 0, jobs):
            act_until(np.inf)
        return bool(states["num_done"][0] == states["num_jobs"][0])

    @property
    def start(self) -> Rule:
        """The rule with the initial weights of an episode."""
        return self.rule.offsets.start if isinstance(self.rule, Steered) else self.rule

    @property
    def options(self) -> RolloutOptions:
        """The options of the kernel."""
        counts = (self.draws, self.screening, self.finalists, self.rounds, self.queued, self.running)
        return RolloutOptions(
            *map(int, counts),
            *map(float, (self.z, self.margin_s, self.tau_s, self.rest_s, self.contention)),
        )


class RolloutWorkspace(NamedTuple):
    """A list of moves, (1,), and buffers to try each of them."""

    lists: np.ndarray
    buffers: RolloutBuffers


def rollout_workspace(states: np.ndarray, jobs: np.ndarray, memory: np.ndarray) -> RolloutWorkspace:
    """Return buffers for rollouts of an episode with this memory, (2,), and a list of moves."""
    sampled, others = np.zeros(2, states.dtype), np.zeros(len(jobs), jobs.dtype)
    words = (states[:1], jobs, sampled, others, memory)
    return RolloutWorkspace(
        np.zeros(1, list_dtype()), RolloutBuffers(sampled, others, memory, *map(as_words, words))
    )


def as_words(records: np.ndarray) -> Any:
    """Return a view of records as words, a row for each record."""
    return records.view(np.uint64).reshape(len(records), -1)
