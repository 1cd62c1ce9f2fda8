"""What a policy is: a view in, an action out; and the policies that are only an order."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from envs.view import View


class Placement(NamedTuple):
    """The GPUs a job gets, by index, and CPU cores; a CPU job gets a node instead of GPUs.

    cores: for each GPU, or as a whole for a CPU job; None for what it asks for, or fewer if they are not to be had.
    Where a start waits for GPUs it gets as many of them as there are then.
    """

    gpus: tuple[int, ...]
    cores: float | None = None
    node: int | None = None


class Start(NamedTuple):
    """Start a queued job on GPUs that are free, shared, or being freed: then it starts with the last of them."""

    job: int
    placement: Placement


class Preempt(NamedTuple):
    """Pause a running job; its progress is kept, its GPUs are free when the pause is done."""

    job: int


class Resize(NamedTuple):
    """Change the CPU cores of a running job, for each GPU or as a whole if it has none; it runs on meanwhile."""

    job: int
    cores: float


class Throttle(NamedTuple):
    """Let a running CPU job run at a share of its speed, and draw as much less bandwidth."""

    job: int
    level: float


class Wait(NamedTuple):
    """Let time pass till the next event, or for so many seconds if that is sooner."""

    seconds: float | None = None


Action = Start | Preempt | Resize | Throttle | Wait
Policy = Callable[["View"], Action]

Key = Literal["submit", "estimate", "remaining", "remaining_area", "level", "true_remaining", "weighted"]
Preemption = Literal["never", "by_order", "if_it_pays"]


@dataclass(frozen=True)
class Ranking:
    """A policy that is only an order: smallest key first, equal ones by (submit, job).

    key: `submit`; `estimate` of the run time; `remaining` of it; `remaining_area`, times GPUs; `level` of attained
        GPU-seconds; `true_remaining`, for oracles; `weighted`: (remaining + load if paused) x GPUs ** `exponent`.
    preempt: never; `by_order`, whoever comes first runs; `if_it_pays`: victims are paused for a job that does not
        fit if their mean remaining time exceeds the sum over them of its own and `margin` x their overhead.
    discipline: fixed for this ranking, else the scenario's.
    levels: attained GPU-seconds at which `level` rises.
    """

    key: Key
    preempt: Preemption = "never"
    exponent: float = 0.0
    margin: float = float("inf")
    discipline: Literal["skip", "strict", "easy"] | None = None
    levels: tuple[float, ...] = ()

    def __call__(self, view: "View") -> Action:
        """Return the next move of this instant's walk."""
        return view.next_move(self)


PRIOR = Ranking("weighted", "if_it_pays", exponent=1.0, margin=8.0)
"""The heuristic that agents begin as: of the threshold family, tuned on training windows of Philly's generator."""
