"""What the elastic actions need to see: tables, which jobs share, how well they are fed, shapes, the partial action."""

import numpy as np
from gymnasium.spaces import Box, Dict

from gpu_cluster_gym.envs.observation_spec import Part
from gpu_cluster_gym.envs.observations import _bounds
from gpu_cluster_gym.envs.observations.tables import observation as tables
from gpu_cluster_gym.envs.slots import Slots
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.simulator.vocabulary import DOWN, GPU_TYPES, MAX_SERVERS, MAX_SHARE, NOBODY

SHAPE = ("workers", "servers", "gpus", "fewest_workers", "most_workers", "cpu_slowdown")
SPEEDS = tuple(f"speed_on_{name}" for name in GPU_TYPES)
QUEUE = ("cpu_job", "duty", "chosen", *SHAPE, "failures", *SPEEDS)  # of each slot of the queue
RUNNING = (
    "cpu_job",
    "cores",
    "utilisation",
    "throttle",
    "bandwidth",
    "shares",
    "chosen",
    *SHAPE,
    "failures",
    "resizes",
    *SPEEDS,
)  # of each running slot
GPU = ("num_jobs", "duty", "unclaimed_memory", "reserved", "named", "own")  # of each GPU
NODE = ("spare_cores", "bandwidth", "closed", "down_in", *GPU_TYPES)  # of each node
PARTIAL_ACTION = ("moves", "workers", "servers", "on_cores", "apart", "cores", "named")


class Elastic:
    """The entries of `tables`, and vectors `queue_more`, `running_more`, `gpus`, `nodes`, `partial_action`, row by row.

    Memory and cores are shares of what there is, cores of a job are over 8, bandwidth is a share of what a node
    gives, utilisation is measured over a job's run so far. Workers and GPUs are log2(1 + number) / 7, servers over
    the most there can be, the slowdown on CPU cores is over 8; a queued job's shape is the one it asks for. A speed is
    a job's on a type of GPU over that on a V100, 0 where the cluster has none. A node is closed by 0.5 while it drains
    and by 1 while it is down; `down_in` is log1p(s / 60) / 4, 0 where it does not drain. `partial_action` is what
    is being put together: whether it is a move, its shape, the cores it asks for if they were changed, and how many
    GPUs have been named; its job is `chosen`, its GPUs are `named`, and those that the job holds `own`.
    """

    shows_running = True

    def parts(self, slots: Slots, view: View) -> dict[str, Part]:
        """Return the parts with the names of their columns."""
        return tables.parts(slots, view) | {
            "queue_more": Part(QUEUE, len(slots.queue)),
            "running_more": Part(RUNNING, len(slots.running)),
            "gpus": Part(GPU, len(view.gpus.first_owner)),
            "nodes": Part(NODE, len(view.nodes.num_gpus)),
            "partial_action": Part(PARTIAL_ACTION),
        }

    def space(self, slots: Slots, view: View) -> Dict:
        """Return the observation space."""
        known: dict[str, Box] = dict(tables.space(slots, view).spaces)  # type: ignore[arg-type]
        more = {name: part for name, part in self.parts(slots, view).items() if name not in known}
        return Dict({**known, **{name: _bounds.features(part.size) for name, part in more.items()}})

    def __call__(self, slots: Slots, view: View, mask: np.ndarray) -> dict[str, np.ndarray]:
        """Return the vectors as they are now."""
        more = {
            "queue_more": self._queue(slots, view),
            "running_more": self._running(slots, view),
            "gpus": self._gpus(slots, view),
            "nodes": self._nodes(view),
            "partial_action": self._partial_action(slots),
        }
        flat = {name: _bounds.flat(table.astype(np.float32)) for name, table in more.items()}
        return tables(slots, view, mask) | flat

    def _queue(self, slots: Slots, view: View) -> np.ndarray:
        columns = (
            view.jobs.is_cpu_job,
            view.jobs.gpu_utilization,
            np.arange(len(view.jobs.phase)) == slots.partial.job,
            *shapes(view, view.jobs.num_gpus),
            view.jobs.failures / 5,
        )
        table = rows_of(slots.queue, np.stack(columns, axis=1, dtype=float))
        return np.hstack([table, speeds(slots.queue, view)])

    def _running(self, slots: Slots, view: View) -> np.ndarray:
        shared = np.zeros(len(view.jobs.phase))
        together = view.gpus.jobs[view.gpus.num_jobs > 1]
        shared[together[together >= 0]] = 1.0
        columns = (
            view.jobs.is_cpu_job,
            view.jobs.cores_now / 8,
            view.jobs.busy_s / np.maximum(view.jobs.ran_s, 1.0),
            view.jobs.throttle,
            view.jobs.drawn_gbs / view.bandwidth_limit_gbs,
            shared,
            np.arange(len(view.jobs.phase)) == slots.partial.job,
            *shapes(view, view.jobs.gpus_now),
            view.jobs.failures / 5,
            view.jobs.resizes / 5,
        )
        table = rows_of(slots.running, np.stack(columns, axis=1, dtype=float))
        return np.hstack([table, speeds(slots.running, view)])

    def _gpus(self, slots: Slots, view: View) -> np.ndarray:
        here, partial = view.gpus.jobs, slots.partial
        duty = np.where(here >= 0, view.jobs.gpu_utilization[here], 0.0).sum(axis=1)
        named = np.zeros(len(here))
        named[partial.gpus] = 1.0
        own = ((here == partial.job) & (here >= 0)).any(axis=1)
        unclaimed = view.gpus.unclaimed_memory_gib / view.nodes.gpu_memory_gib[view.gpus.node]
        columns = view.gpus.num_jobs / MAX_SHARE, duty, unclaimed, view.gpus.reserved_for > NOBODY, named, own
        return np.stack(columns, axis=1)

    def _nodes(self, view: View) -> np.ndarray:
        spare = view.nodes.unreserved_cores / np.maximum(view.nodes.cores, 1.0)
        left_s = view.nodes.down_at_s - view.now
        down_in = np.where(np.isfinite(left_s), as_time(left_s), 0.0)
        drawn = view.nodes.drawn_gbs / view.bandwidth_limit_gbs
        types = view.nodes.gpu_type[:, None] == np.arange(len(GPU_TYPES))
        return np.column_stack([spare, drawn, view.nodes.closed / DOWN, down_in, types])

    def _partial_action(self, slots: Slots) -> np.ndarray:
        partial, shape = slots.partial, slots.partial.shape
        workers, named = as_count(np.array([shape.workers, len(partial.gpus)]))
        servers, cores = shape.servers / MAX_SERVERS, (partial.cores or 0.0) / 8
        return np.array([partial.moves, workers, servers, shape.on_cores, shape.apart, cores, named])


def shapes(view: View, gpus: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the columns SHAPE of all jobs; `gpus` are those that they ask for, or hold."""
    counts = view.jobs.workers_now, gpus, view.jobs.min_workers, view.jobs.max_workers
    workers, wide, fewest, most = (as_count(count) for count in counts)
    return workers, view.jobs.servers_now / MAX_SERVERS, wide, fewest, most, view.jobs.cpu_slowdown / 8


def speeds(jobs: np.ndarray, view: View) -> np.ndarray:
    """Return how fast these jobs compute on each type of GPU, 0 where the cluster has none, or the slot no job."""
    table = np.zeros((len(jobs), len(GPU_TYPES)))
    for slot, job in enumerate(jobs.tolist()):
        if job >= 0:
            table[slot, view.nodes.gpu_type] = view.type_speed(job)
    return table


def as_count(number: np.ndarray) -> np.ndarray:
    """Bring a number of workers or GPUs onto the scale of the other features."""
    count: np.ndarray = np.log2(1.0 + number) / 7
    return count


def as_time(seconds: np.ndarray) -> np.ndarray:
    """Bring times onto the scale of the other features."""
    time: np.ndarray = np.log1p(np.maximum(seconds, 0.0) / 60) / 4
    return time


def rows_of(jobs: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return the rows of these jobs, zeros where a slot is empty."""
    rows: np.ndarray = (
        np.where(jobs[:, None] >= 0, table[jobs], 0.0)
        if len(table)
        else np.zeros((len(jobs), table.shape[1]))
    )
    return rows


observation = Elastic()
