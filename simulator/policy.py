"""Policies, functions from a view to an action; the actions; and rankings, policies that are only an order."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from gpu_cluster_gym.simulator.choice import ChoiceError, Wrong, fault

if TYPE_CHECKING:
    import numpy as np

    from gpu_cluster_gym.simulator.view import View


class Placement(NamedTuple):
    """GPUs and CPU cores of a job; a job without GPUs gets a node instead.

    gpus: indices of GPUs
    cores: per GPU, parameter servers included, or in total for a CPU job; None for the cores it asks for, or fewer
        where they are not available, at the time of the start
    node: of a job without GPUs
    workers: None for one on each GPU, or without GPUs for the number the job asks for. If there are fewer workers than
        GPUs, parameter servers get the other GPUs; otherwise they run on cores alongside the workers
    servers: None for the number the job asks for
    """

    gpus: tuple[int, ...]
    cores: float | None = None
    node: int | None = None
    workers: int | None = None
    servers: int | None = None


class Start(NamedTuple):
    """Start a queued job on GPUs that are free, shared, or being freed; it starts when the last one is free.

    claim: whether GPUs that a running job holds alone may be among them: all are reserved, and the job starts when the
        last one is free, since its holder has ended or is paused
    """

    job: int
    placement: Placement
    claim: bool = False


class Preempt(NamedTuple):
    """Pause a running job; its progress is kept, and its GPUs are free when the pause ends."""

    job: int


class Resize(NamedTuple):
    """Change the resources of a running job: either its cores or its placement.

    cores: CPU cores per GPU, or in total for a CPU job; the job keeps running
    placement: other GPUs, or another shape, at the cost of a restart: the job pauses and then loads there. GPUs that
        are free, its own, or held by pausing jobs are reserved for it; it starts when the last one is free
    """

    job: int
    cores: float | None = None
    placement: Placement | None = None


class Throttle(NamedTuple):
    """Run a running CPU job at a share of its speed, which reduces its bandwidth in proportion."""

    job: int
    level: float


class Wait(NamedTuple):
    """Wait until the next event, or for `seconds` if that is sooner.

    ticks: whether to ask the policy at ticks too, when only time has passed; it may be asked in any case.
    """

    seconds: float | None = None
    ticks: bool = True


Action = Start | Preempt | Resize | Throttle | Wait
Policy = Callable[["View"], Action]

Key = Literal["submit", "estimate", "remaining", "remaining_area", "level", "true_remaining", "weighted"]
KEY_WORDS: tuple[str, ...] = get_args(Key)
Preemption = Literal["never", "by_order", "cost_aware"]


@dataclass(frozen=True)
class Ranking:
    """A policy that is only an order: smallest key first, ties by (submit, job).

    key: `submit`; `estimate` of the run time; `remaining` run time by the estimate; `remaining_area`, the same times
        GPUs; `level` of attained GPU-seconds; `true_remaining`, for oracles; `weighted`: (remaining + load if paused) x
        GPUs ** `exponent`
    preempt: never; `by_order`, so that the first jobs of the order run; `cost_aware`, which pauses victims for a job
        that does not fit if their mean remaining time exceeds the sum over victims of (the job's remaining time +
        `margin` x the victim's overhead)
    exponent, margin: as above; margin 0 ignores overheads, infinity never preempts
    discipline: `greedy` skips blocked jobs, `strict` is strict FIFO, `easy` is EASY backfilling; None: scenario's
    levels: attained GPU-seconds at which `level` rises
    """

    key: Key
    preempt: Preemption = "never"
    exponent: float = 0.0
    margin: float = float("inf")
    discipline: Literal["greedy", "strict", "easy"] | None = None
    levels: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse unknown words; ChoiceError names the nearest."""
        words = {name: getattr(self, name) for name in ("key", "preempt", "discipline")}
        wrong = {name: fault(Ranking, name, word) for name, word in words.items()}
        if any(wrong.values()):
            raise ChoiceError(Wrong(name, words[name], said) for name, said in wrong.items() if said)

    def __call__(self, view: "View") -> Action:
        """Return the next action of this instant's scheduling pass."""
        return view.next_move(self)


def needs_truth(ranking: object) -> bool:
    """Return whether a ranking uses information that no scheduler has, whatever it says of itself.

    ValueError for a subclass of Ranking and for a key that is not one of the known words: such an object could say one
    thing here and another in the kernel.
    """
    key: object = getattr(ranking, "key", None)
    if type(ranking) is not Ranking or type(key) is not str or key not in KEY_WORDS:
        raise ValueError(
            f"{type(ranking).__name__} with key {str(key)!r}: expected a Ranking, not a subclass, with one of the keys "
            f"{', '.join(KEY_WORDS)}"
        )
    return key.startswith("true_")


class RunsCompiled(ABC):
    """A policy that can run inside the kernel to the end; asked step by step it does the same."""

    @abstractmethod
    def __call__(self, view: "View") -> Action:
        """Return the next action of this instant."""

    @abstractmethod
    def run_compiled(self, states: "np.ndarray", jobs: "np.ndarray", histories: "np.ndarray") -> bool:
        """Run the first record to its end; return whether every job ended.

        histories: records of run-time predictions.
        """

    def by_instants(
        self, states: "np.ndarray", jobs: "np.ndarray", histories: "np.ndarray"
    ) -> Iterator[None] | None:
        """Return an iterator that runs like `run_compiled` and stops at the end of each instant, for an account.

        None means that the policy must be asked step by step for that.
        """
        return None


BASE_POLICY = Ranking("weighted", "cost_aware", exponent=1.0, margin=8.0)
"""Base policy of environments with `hints=True`: `xion_threshold`, tuned on training windows of Philly's generator."""
