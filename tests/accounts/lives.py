"""State of each job, occupancy of GPUs, and free resources of GPUs and nodes."""

import math
from dataclasses import dataclass, field

from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.physics import Physics
from gpu_cluster_gym.simulator.policy import Placement
from tests.accounts.formulas import Shape, Task, exchange, reference_s, wanted_cores

HOLDING = ("running", "loading", "pausing")
OPEN, DRAINING, DOWN = range(3)
CLOSED = -2  # inherits the GPUs of a node where nobody may start
BOOKS = (
    "wait",
    "run",
    "overhead",
    "lost",
    "busy",
    "shared",
    "shared area",
    "core",
    "run area",
    "overhead area",
    "lost area",
)


@dataclass
class Life:
    """State of a job; `end` is when its phase ends by itself, unless it runs."""

    task: Task
    shape: Shape  # current, or requested
    phase: str = "future"  # a name of simulator.kernel.cluster.layout.PHASES
    end: float = math.inf
    progress: float = 0.0  # s
    gpus: tuple[int, ...] = ()  # held
    wanted: Placement | None = None  # reserved, or where it goes on after a pause
    node: int = -1  # of a job without GPUs
    cores: float = 0.0  # a GPU; of the whole job that has none
    level: float = 1.0  # of a throttled CPU job
    turn: int = -1  # how many starts there were before its own
    grown: bool = False  # whether it takes its peak memory
    saved: bool = False  # whether it must load
    started: tuple[float, float] = (0.0, 0.0)  # when it last began to run: progress, s of running
    predictable: bool = False
    crashed: bool = False
    touched: int = -1  # the instant of its last start, pause or failure
    ooms: int = 0
    failures: int = 0
    preemptions: int = 0
    resizes: int = 0
    rank: int = 0  # how many limits of attained service it has reached
    spent: dict[str, float] = field(default_factory=lambda: dict.fromkeys(BOOKS, 0.0))

    @property
    def service(self) -> float:
        """GPU-seconds of running."""
        return self.spent["run area"] + self.spent["lost area"]

    def mark(self) -> None:
        """Record that it starts running here."""
        self.started = self.progress, self.spent["run"]


def shape_of(task: Task, placement: Placement) -> Shape:
    """Return the shape that a placement gives a job, whether it is legal or not."""
    gpus = len(placement.gpus)
    workers = (gpus or task.gpus) if placement.workers is None else placement.workers
    servers = task.servers if placement.servers is None else placement.servers
    return Shape(workers, servers, gpus)


class Ground:
    """Jobs of an episode and the machines that they hold; `closed` is OPEN, DRAINING or DOWN for each node."""

    def __init__(self, tasks: list[Task], cluster: Cluster, physics: Physics) -> None:
        self.lives = [Life(task, task.shape) for task in tasks]
        self.cluster, self.physics = cluster, physics
        self.node_of = [node for node, gpus in enumerate(cluster.node_gpus) for _ in range(gpus)]
        self.closed = [OPEN] * cluster.num_nodes

    def those(self, *phases: str) -> list[int]:
        return [job for job, life in enumerate(self.lives) if life.phase in phases]

    def residents(self, gpu: int, *phases: str) -> list[int]:
        """Return the jobs on a GPU, the oldest first, in some phases if given."""
        here = [job for job, life in enumerate(self.lives) if gpu in life.gpus]
        here = [job for job in here if not phases or self.lives[job].phase in phases]
        return sorted(here, key=lambda job: self.lives[job].turn)

    def heirs(self, gpu: int) -> list[int]:
        return [job for job, life in enumerate(self.lives) if life.wanted and gpu in life.wanted.gpus]

    def is_being_freed(self, gpu: int, job: int = -1) -> bool:
        """Return whether all jobs on a GPU are pausing, except one that may be given, and there is at least one."""
        here = self.residents(gpu)
        return bool(here) and all(self.lives[k].phase == "pausing" or k == job for k in here)

    def on_nodes(self, gpus: tuple[int, ...]) -> dict[int, int]:
        """Count GPUs by node."""
        nodes = [self.node_of[gpu] for gpu in gpus]
        return {node: nodes.count(node) for node in nodes}

    def nodes_of(self, life: Life) -> set[int]:
        """Return the nodes on which a job holds resources."""
        return set(self.on_nodes(life.gpus)) | ({life.node} - {-1})

    def memory(self, gpu: int) -> float:
        """Return the free memory of a GPU, negative if it overflows."""
        taken = sum(self.lives[job].task.memory_gib for job in self.residents(gpu) if self.lives[job].grown)
        return self.cluster.node_gpu_memory_gib[self.node_of[gpu]] - taken

    def free_cores(self, node: int) -> float:
        """Return the cores of a node that no job holds."""
        here = [life.cores for life in self.lives if life.node == node]
        here += [life.cores for life in self.lives for gpu in life.gpus if self.node_of[gpu] == node]
        return self.cluster.node_cores[node] - sum(here)

    def spare_cores(self, node: int) -> float:
        """Return the free cores of a node minus one for each GPU without a job."""
        held = {gpu for life in self.lives for gpu in life.gpus}
        kept = [gpu for gpu, home in enumerate(self.node_of) if home == node and gpu not in held]
        return self.free_cores(node) - len(kept)

    def cores_for(self, placement: Placement) -> float:
        """Return the cores per GPU that a start could get, including those kept for empty GPUs."""
        if not placement.gpus:
            return self.spare_cores(placement.node or 0)
        room = []
        for node, count in self.on_nodes(placement.gpus).items():
            kept = [gpu for gpu in placement.gpus if self.node_of[gpu] == node and not self.residents(gpu)]
            room.append((self.spare_cores(node) + len(kept)) / count)
        return max(0.0, min(room))

    def cores_given(self, task: Task, placement: Placement) -> float:
        """Return the cores that a start gets, per GPU or in total."""
        named = placement.cores if self.physics.cores else None
        return min(named or wanted_cores(task, shape_of(task, placement)), self.cores_for(placement))

    def drawn_gbs(self) -> dict[int, float]:
        """Return the bandwidth that running jobs demand on each node, at full speed."""
        drawn = dict.fromkeys(range(self.cluster.num_nodes), 0.0)
        for job in self.those("running"):
            life, task = self.lives[job], self.lives[job].task
            if not task.gpus:
                drawn[life.node] += task.bandwidth_gbs * life.cores / task.cores * life.level
            each = task.bandwidth_gbs / max(1, task.gpus) + self.exchanged_gbs(life)
            for node, count in self.on_nodes(life.gpus).items():
                drawn[node] += each * count
        return drawn

    def exchanged_gbs(self, life: Life) -> float:
        """Return the bandwidth per GPU of a job's exchange, at its undisturbed speed as requested."""
        sync = exchange(life.task, life.shape, len(self.on_nodes(life.gpus)), self.cluster)
        if not sync.host_gb:
            return 0.0
        ends = 2 if life.shape.servers else 1
        whole_s = reference_s(life.task, self.cluster, self.physics)
        return self.physics.exchange_passes * ends * sync.host_gb / whole_s
