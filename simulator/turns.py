"""Turns on kinds of GPUs in rounds, by the time that each job is owed and has had there (`simulator.kernel.turns`)."""

from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.kernel import turns
from simulator.kernel.core_memory import tier_of
from simulator.kernel.layout import Tier
from simulator.kernel.turn_memory import MOVE, PAUSE, SHARE, WAIT, fresh_turns, turn_dtype
from simulator.policy import Action, Placement, Preempt, Resize, Start, Wait
from simulator.source import Record, source_of

if TYPE_CHECKING:
    from simulator.view import View


class Turns:
    """The moves of one policy that gives each job shares of time on each kind of GPUs.

    A kind is a type of GPUs of the cluster, by its number in `simulator.vocabulary.GPU_TYPES`; the last is all GPUs
    together.
    """

    def __init__(self, every_s: float) -> None:
        """Know nothing yet; every_s: between two rounds."""
        self._every_s = every_s
        self._size: Tier | None = None
        self._memory = np.empty(0)

    def __getstate__(self) -> dict[str, Any]:
        """Return all that a copy needs; how the record is read is found again."""
        return {name: value for name, value in vars(self).items() if name != "_read"}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        """Go on from what was copied: a record of the kernel's own type."""
        vars(self).update(kept)
        if self._size is not None:
            copied = self._memory
            self._remember(self._size, np.empty(1, turn_dtype(self._size)))
            self._memory[:] = copied

    def _remember(self, size: Tier, memory: np.ndarray) -> None:
        self._size, self._memory, self._read = size, memory, Record(memory, 0)

    @property
    def sharing(self) -> np.ndarray:
        """The jobs that shares are to be found for: all with GPUs that have arrived and not ended."""
        m = self._read
        jobs: np.ndarray = m.sharing[: m.num_sharing].astype(np.int64)
        return jobs

    @property
    def received_s(self) -> np.ndarray:
        """Seconds that each job that has arrived has had on each kind so far: (jobs, kinds)."""
        m = self._read
        received: np.ndarray = m.got_s[: m.num_known, : m.num_kinds].copy()
        return received

    def share(self, shares: np.ndarray) -> None:
        """Take the shares of time of the jobs in `sharing` on each kind: (jobs, kinds)."""
        m = self._read
        m.share[m.sharing[: m.num_sharing], : shares.shape[1]] = shares

    def next_move(self, view: "View") -> Action | None:
        """Return the next move of this instant, then a wait; None where other jobs, or nodes, need new shares first."""
        source = source_of(view)
        if self._size is None:
            self._remember(tier_of(source.states), fresh_turns(source.states, self._every_s))
        what = turns.next_move(source.states, 0, self._memory, 0, source.jobs)
        if what == SHARE:
            return None
        if what == WAIT:
            seconds = float(self._read.wait_s)
            return Wait(None if isnan(seconds) else seconds)
        m = self._read
        if what == PAUSE:
            return Preempt(int(m.node))
        job, node = int(m.move_job), int(m.node) if m.node >= 0 else None
        placement = Placement(tuple(m.gpus[: m.num_gpus].tolist()), node=node)
        return Resize(job, placement=placement) if what == MOVE else Start(job, placement)
