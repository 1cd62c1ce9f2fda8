"""What a policy is: a view in, an action out; and the policies that are only an order."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from gpu_cluster_gym.simulator.choice import ChoiceError, Wrong, fault

if TYPE_CHECKING:
    import numpy as np

    from gpu_cluster_gym.simulator.view import View


class Placement(NamedTuple):
    """The GPUs a job gets, by index, and CPU cores; what has no GPU gets a node instead.

    cores: for each GPU, those of parameter servers included, or as a whole for a CPU job; None for what it asks for, or
    fewer if they are not available. Where a start waits for GPUs it gets as many of them as there are then.
    workers: None for one on each GPU, or without GPUs for as many as the job asks for. If they are fewer than the
    GPUs, its parameter servers have the others; else they have cores beside the workers.
    servers: None for as many as it asks for.
    """

    gpus: tuple[int, ...]
    cores: float | None = None
    node: int | None = None
    workers: int | None = None
    servers: int | None = None


class Start(NamedTuple):
    """Start a queued job on GPUs that are free, shared, or being freed: then it starts with the last of them."""

    job: int
    placement: Placement


class Preempt(NamedTuple):
    """Pause a running job; its progress is kept, its GPUs are free when the pause is done."""

    job: int


class Resize(NamedTuple):
    """Change what a running job holds.

    cores: another number of CPU cores, for each GPU or as a whole if it is a CPU job; it runs on meanwhile.
    placement: other GPUs, or another shape, at a restart's cost: it pauses, and then loads there. GPUs that are free,
    its own, or held by jobs that pause, are kept for it; it starts with the last of them.
    """

    job: int
    cores: float | None = None
    placement: Placement | None = None


class Throttle(NamedTuple):
    """Let a running CPU job run at a share of its speed, and draw as much less bandwidth."""

    job: int
    level: float


class Wait(NamedTuple):
    """Let time pass till the next event, or for so many seconds if that is sooner.

    ticks: whether the policy wants to be asked at ticks too, at which only time has passed; it may be asked all the
    same.
    """

    seconds: float | None = None
    ticks: bool = True


Action = Start | Preempt | Resize | Throttle | Wait
Policy = Callable[["View"], Action]

Key = Literal["submit", "estimate", "remaining", "remaining_area", "level", "true_remaining", "weighted"]
Preemption = Literal["never", "by_order", "cost_aware"]


@dataclass(frozen=True)
class Ranking:
    """A policy that is only an order: smallest key first, equal ones by (submit, job).

    key: `submit`; `estimate` of the run time; `remaining` of it; `remaining_area`, times GPUs; `level` of attained
        GPU-seconds; `true_remaining`, for oracles; `weighted`: (remaining + load if paused) x GPUs ** `exponent`.
    preempt: never; `by_order`, the job that comes first runs; `cost_aware`: victims are paused for a job
        that does not fit if their mean remaining time exceeds the sum over them of its own and `margin` x their
        overhead.
    discipline: fixed for this ranking, else the scenario's: `greedy` skips blocked jobs, `strict` is
        strict FIFO, `easy` is EASY backfilling.
    levels: attained GPU-seconds at which `level` rises.
    """

    key: Key
    preempt: Preemption = "never"
    exponent: float = 0.0
    margin: float = float("inf")
    discipline: Literal["greedy", "strict", "easy"] | None = None
    levels: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse words that are none; ChoiceError says what they are called now, or the nearest."""
        words = {name: getattr(self, name) for name in ("key", "preempt", "discipline")}
        wrong = {name: fault(Ranking, name, word) for name, word in words.items()}
        if any(wrong.values()):
            raise ChoiceError(Wrong(name, words[name], said) for name, said in wrong.items() if said)

    @property
    def is_oracle(self) -> bool:
        """Whether it uses what no scheduler knows."""
        return self.key.startswith("true_")

    def __call__(self, view: "View") -> Action:
        """Return the next move of this instant's scheduling pass."""
        return view.next_move(self)


class RunsWhole(ABC):
    """A policy that may run whole inside the kernel; asked move by move it does the same."""

    @abstractmethod
    def __call__(self, view: "View") -> Action:
        """Return the next move of this instant."""

    @abstractmethod
    def run_whole(self, states: "np.ndarray", jobs: "np.ndarray", histories: "np.ndarray") -> bool:
        """Carry it out on the first record to the end; tell whether every job ended.

        histories: records of what is learned from finished jobs.
        """

    def by_instants(
        self, states: "np.ndarray", jobs: "np.ndarray", histories: "np.ndarray"
    ) -> Iterator[None] | None:
        """Return what carries it out like `run_whole` and stops at the end of each instant, for who takes that down.

        None: it is asked move by move for that.
        """
        return None


BASE_POLICY = Ranking("weighted", "cost_aware", exponent=1.0, margin=8.0)
"""The heuristic that agents begin as: of the threshold family, tuned on training windows of Philly's generator."""
