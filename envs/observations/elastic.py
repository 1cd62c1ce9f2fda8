"""What the elastic actions need to see: the tables, and who shares, how well jobs are fed, and the start in hand."""

import numpy as np
from gymnasium.spaces import Box, Dict

from envs.kernel.layout import MAX_SHARE
from envs.observations import _bounds
from envs.observations.tables import observation as tables
from envs.slots import Slots
from envs.view import View

QUEUE = ("cpu_job", "duty", "chosen")  # of each slot of the queue; chosen: its start is being put together
RUNNING = ("cpu_job", "cores", "utilisation", "throttle", "bandwidth", "shares")  # of each running slot
GPU = ("residents", "duty", "unclaimed_memory", "named")  # of each GPU; named: for the start in hand
NODE = ("spare_cores", "bandwidth")  # of each node


class Elastic:
    """The entries of `tables`, and vectors `queue_more`, `running_more`, `gpus`, `nodes`, row by row.

    Memory and cores are shares of what there is, cores of a job are over 8, bandwidth is a share of what a node gives,
    utilisation is measured over a job's run so far, `pending_cores` are those the start in hand asks for, over 8.
    """

    def space(self, slots: Slots, view: View) -> Dict:
        """Return the observation space."""
        sizes = {
            "queue_more": len(slots.queue) * len(QUEUE),
            "running_more": len(slots.running) * len(RUNNING),
            "gpus": len(view.holder) * len(GPU),
            "nodes": len(view.node_gpus) * len(NODE),
            "pending_cores": 1,
        }
        known: dict[str, Box] = dict(tables.space(slots, view).spaces)  # type: ignore[arg-type]
        return Dict({**known, **{name: _bounds.features(size) for name, size in sizes.items()}})

    def __call__(self, slots: Slots, view: View, mask: np.ndarray) -> dict[str, np.ndarray]:
        """Return the vectors as they are now."""
        more = {
            "queue_more": self._queue(slots, view),
            "running_more": self._running(slots, view),
            "gpus": self._gpus(slots, view),
            "nodes": self._nodes(view),
            "pending_cores": np.array([(slots.draft.cores or 0.0) / 8]),
        }
        flat = {name: _bounds.flat(table.astype(np.float32)) for name, table in more.items()}
        return tables(slots, view, mask) | flat

    def _queue(self, slots: Slots, view: View) -> np.ndarray:
        columns = view.is_cpu_job, view.duty, np.arange(len(view.phase)) == slots.draft.job
        return rows_of(slots.queue, np.stack(columns, axis=1, dtype=float))

    def _running(self, slots: Slots, view: View) -> np.ndarray:
        shared = np.zeros(len(view.phase))
        together = view.residents[view.num_residents > 1]
        shared[together[together >= 0]] = 1.0
        limit = view.bandwidth_limit_gbs
        columns = (
            view.is_cpu_job,
            view.cores_now / 8,
            view.busy_s / np.maximum(view.ran_s, 1.0),
            view.throttle,
            view.bandwidth_gbs / limit,
            shared,
        )
        return rows_of(slots.running, np.stack(columns, axis=1, dtype=float))

    def _gpus(self, slots: Slots, view: View) -> np.ndarray:
        here = view.residents
        duty = np.where(here >= 0, view.duty[here], 0.0).sum(axis=1)
        named = np.zeros(len(here))
        named[slots.draft.gpus] = 1.0
        unclaimed = view.unclaimed_memory_gib / view.node_memory_gib[view.gpu_node]
        return np.stack([view.num_residents / MAX_SHARE, duty, unclaimed, named], axis=1)

    def _nodes(self, view: View) -> np.ndarray:
        spare = view.spare_cores / np.maximum(view.node_cores, 1.0)
        return np.stack([spare, view.node_bandwidth_gbs / view.bandwidth_limit_gbs], axis=1)


def rows_of(jobs: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return the rows of these jobs, zeros where a slot is empty."""
    rows: np.ndarray = (
        np.where(jobs[:, None] >= 0, table[jobs], 0.0)
        if len(table)
        else np.zeros((len(jobs), table.shape[1]))
    )
    return rows


observation = Elastic()
