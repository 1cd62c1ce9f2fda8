"""Policies whose plans are compiled (`simulator.kernel.cluster.plan`): memory, actions, and whole runs."""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from math import isfinite
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gpu_cluster_gym.simulator.interrupts import interruptible
from gpu_cluster_gym.simulator.kernel.cluster.layout import NOBODY, Tier
from gpu_cluster_gym.simulator.kernel.cluster.plan import (
    AGAIN,
    ASKS,
    CORES,
    PAUSE,
    START,
    THROTTLE,
    WAIT,
    tier_of,
)
from gpu_cluster_gym.simulator.policy import (
    Action,
    Placement,
    Preempt,
    Resize,
    RunsCompiled,
    Start,
    Throttle,
    Wait,
)
from gpu_cluster_gym.simulator.source import Source, source_of
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.traces import stream


class Kernel(NamedTuple):
    """Compiled part of a policy.

    dtype: record type of its memory at a tier. step: entry that makes one plan. run: entry that plays an episode to
    its end. Both take the records, the index of one, the memory, the index of its row, and the jobs, and return a
    status.
    """

    dtype: Callable[[Tier], np.dtype]
    step: Callable[..., int]
    run: Callable[..., int]


class CompiledPolicy(RunsCompiled):
    """A policy whose plan is compiled; its memory, a record, is made when the first episode is seen."""

    kernel: ClassVar[Kernel]
    asks_often: ClassVar[bool] = False
    """Whether a plan asks at each arrival at least, so that the kernel never runs for long and signals can wait."""

    def __init__(self) -> None:
        """Begin without a memory."""
        self._size: Tier | None = None
        self._memory: np.ndarray = np.empty(0)
        self._planned = -1  # instant of the last plan
        self._next = 0  # action of the last plan that is returned next

    @abstractmethod
    def init_memory(self, memory: np.ndarray, states: np.ndarray) -> None:
        """Write the settings of the policy and all that does not start at zero into a memory, (1,)."""

    def answer(self, status: int, view: View) -> None:
        """Write into the memory what the plan asks for; only for plans that return ASKS or above."""
        raise NotImplementedError(f"{type(self).__name__} does not handle status {status}: define `answer`")

    def memory(self, states: np.ndarray) -> np.ndarray:
        """Return the memory, (1,), which the first call makes."""
        if self._size is None:
            self._size = tier_of(states)
            self._memory = np.zeros(1, self.kernel.dtype(self._size))
            self._memory["instant"] = self._memory["servers"] = -1
            self.init_memory(self._memory, states)
        return self._memory

    def __call__(self, view: View) -> Action:
        """Return the next action of this instant, then a wait."""
        source = source_of(view)
        memory = self.memory(source.states)
        is_used = self._next == memory["num_actions"][0]
        if self._planned != source.instant or (is_used and memory["status"][0] == AGAIN):
            self._plan(source, memory, view)
        if self._next == memory["num_actions"][0]:
            return wait(float(memory["wait_s"][0]))
        self._next += 1
        return decode_action(memory[0], self._next - 1)

    def run_compiled(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        """Play the episode of the first record to its end inside the kernel; return whether all jobs ended."""
        memory = self.memory(states)
        view = None
        run = partial(self.kernel.run, states, 0, memory, 0, jobs)
        if not self.asks_often:
            run = partial(interruptible, states, run)
        while (status := int(run())) >= ASKS:
            view = view or View(Source(states, jobs, stream(int(states["seed"][0]), "view"), histories))
            self.answer(status, view)
        return bool(states["num_done"][0] == states["num_jobs"][0])

    def _plan(self, source: Source, memory: np.ndarray, view: View) -> None:
        """List the actions of a plan, which makes its moves on the scratch record.

        A plan with the status AGAIN must have at least one action.
        """
        status = ASKS
        while status >= ASKS:
            source.states[1] = source.states[0]
            status = memory["status"][0] = int(self.kernel.step(source.states, 1, memory, 0, source.jobs))
            if status >= ASKS:
                self.answer(status, view)
        self._planned, self._next = source.instant, 0

    def __setstate__(self, copied: dict[str, Any]) -> None:
        """Restore a copy; its record is of the kernel's own type, which compiled code compares by identity."""
        vars(self).update(copied)
        if self._size is not None:
            record = self._memory
            self._memory = np.empty(1, self.kernel.dtype(self._size))
            self._memory[:] = record


def decode_action(memory: np.ndarray, at: int) -> Action:
    """Return an action of the last plan; memory: its record (`PLAN_FIELDS`)."""
    begin = memory["action_gpus_end"][at - 1] if at else 0
    return decode(
        int(memory["action_kind"][at]),
        int(memory["action_job"][at]),
        float(memory["action_value"][at]),
        memory["action_gpus"][begin : memory["action_gpus_end"][at]],
        *(int(memory[f"action_{name}"][at]) for name in ("node", "workers", "servers")),
    )


def next_listed(memory: np.ndarray, kind: int) -> Action:
    """Return the move before `next_move` in the list of the first memory (`LIST_FIELDS`) as an action, or its wait.

    kind: kind of that move; WAIT for the wait.
    """
    if kind == WAIT:
        return wait(float(memory["wait_s"][0]))
    m = memory[0]
    at = m["next_move"] - 1
    return decode(
        kind,
        int(m["move_job"][at]),
        float(m["move_value"][at]),
        m["gpus"][: m["num_gpus"]],
        *(int(m[name]) for name in ("node", "workers", "servers")),
    )


def wait(seconds: float) -> Wait:
    """Return a wait of some seconds at most; NaN or infinite: until the next event."""
    return Wait(seconds if isfinite(seconds) else None)


def decode(
    kind: int, job: int, value: float, gpus: np.ndarray, node: int, workers: int, servers: int
) -> Action:
    """Return a move of a job as an action.

    value: cores, 0 for as many as the job requests, or the level of a throttle. gpus, node, workers, servers: placement
    of a start or move (`PLACEMENT_FIELDS`).
    """
    if kind == PAUSE:
        return Preempt(job)
    if kind == CORES:
        return Resize(job, value)
    if kind == THROTTLE:
        return Throttle(job, value)
    placement = Placement(
        tuple(gpus.tolist()),
        cores=value or None,
        node=node if node != NOBODY else None,
        workers=workers or None,
        servers=servers if servers >= 0 else None,
    )
    return Start(job, placement) if kind == START else Resize(job, placement=placement)
