"""Policies, functions from a view to an action; the actions; and rankings, policies that are only an order."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import index
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeGuard, get_args

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
    """Slow a running CPU job to a share of its full speed, which reduces its bandwidth in proportion."""

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

MOST = 2**31 - 1
"""Largest number of a GPU, node, worker or server in a placement."""


def plain(action: object) -> Action:
    """Return an action of built-in types only, each part read once: what is checked is then what is carried out.

    ValueError for parts that are not numbers, or that the simulator cannot hold.
    """
    return action if is_plain(action) else converted(action)  # type: ignore[return-value]


def is_plain(action: Any) -> bool:
    """Return whether an action is of built-in types only; False for some rare ones that are."""
    kind = type(action)
    if kind is Wait:
        return (action[0] is None or type(action[0]) is float) and type(action[1]) is bool
    if kind is not Start:
        return kind is Preempt and type(action[0]) is int
    job, placement, claim = action
    if type(job) is not int or type(placement) is not Placement or type(claim) is not bool:
        return False
    gpus, cores, node, workers, servers = placement
    if node is not None or workers is not None or servers is not None or type(gpus) is not tuple:
        return False
    for gpu in gpus:  # a generator would take three times as long
        if type(gpu) is not int:
            return False
    return cores is None or type(cores) is float


def converted(action: object) -> Action:
    """Return an action in built-in types; see `plain`."""
    match action:
        case Wait(seconds, ticks):
            return Wait(None if seconds is None else number(seconds, "seconds of a wait"), bool(ticks))
        case Start(job, placement, claim):
            return Start(whole(job, "job"), plain_placement(placement), bool(claim))
        case Preempt(job):
            return Preempt(whole(job, "job"))
        case Resize(job, cores, placement):
            amount = None if cores is None else number(cores, "cores")
            return Resize(whole(job, "job"), amount, plain_placement(placement))
        case Throttle(job, level):
            return Throttle(whole(job, "job"), number(level, "level of a throttle"))
    raise ValueError(f"{action!r} is not an action: expected Start, Preempt, Resize, Throttle or Wait")


def plain_placement(placement: object) -> Any:
    """Return a placement in built-in types; None for None, which `View.place` returns."""
    match placement:
        case None:
            return None
        case Placement(gpus, cores, node, workers, servers):
            return Placement(
                gpus_of(gpus),
                None if cores is None else number(cores, "cores of a placement"),
                *(
                    None if each is None else whole(each, f"{name} of a placement", MOST)
                    for name, each in (("node", node), ("workers", workers), ("servers", servers))
                ),
            )
    raise ValueError(
        f"{placement!r} is not a Placement: pass one, as View.place returns, or Placement((0, 1)) of GPUs"
    )


def gpus_of(given: object) -> tuple[int, ...]:
    """Return GPUs as integers of the built-in type; ValueError for anything else."""
    try:
        return tuple(map(index, given))  # type: ignore[call-overload]
    except TypeError:
        raise ValueError(
            f"GPUs of a placement {given!r}: expected integers, such as Placement((0, 1))"
        ) from None


def whole(given: object, name: str, most: int | None = None) -> int:
    """Return an integer of the built-in type; ValueError for anything else, or beyond `most` in magnitude."""
    try:
        found = index(given)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"{name} {given!r}: expected an integer") from None
    if most is not None and not -most <= found <= most:
        raise ValueError(f"{name} {found}: expected at most {most} in magnitude")
    return found


def number(given: object, name: str) -> float:
    """Return a number as a float of the built-in type; ValueError for anything else."""
    try:
        if not isinstance(given, str | bytes | bytearray):
            return float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"{name} {given!r}: expected a number")


Key = Literal[
    "submit", "estimate", "remaining", "remaining_area", "level", "true_remaining", "weighted", "priority"
]
KEY_WORDS: tuple[str, ...] = get_args(Key)
Preemption = Literal["never", "by_order", "cost_aware"]


@dataclass(frozen=True)
class Ranking:
    """A policy that is only an order: smallest key first, ties by (submit, job).

    key: `submit`; `estimate` of the run time; `remaining` run time by the estimate; `remaining_area`, the same times
        GPUs; `level` of attained GPU-seconds; `true_remaining`, for oracles; `priority` of the log, the
        highest first; `weighted`: (remaining + load if paused) x GPUs ** `exponent`
    preempt: never; `by_order`, so that the first jobs of the order run; `cost_aware`, which pauses victims for a job
        that does not fit if their mean remaining time exceeds the sum over victims of (the job's remaining time +
        `margin` x the victim's overhead)
    exponent, margin: as above; margin 0 ignores overheads, infinity never preempts
    discipline: `greedy` skips blocked jobs, `strict` lets one block later jobs on nodes that its constraints allow,
        `easy` is EASY backfilling; None: scenario's
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


def fixed(ranking: Ranking, *, oracle: bool = False) -> Ranking:
    """Return a checked copy of a ranking, which its owner cannot change any more.

    ValueError for what `needs_truth` refuses, and for one that needs truth unless `oracle`.
    """
    needs_truth(ranking)
    own = replace(ranking)
    if needs_truth(own) and not oracle:
        raise ValueError(
            f"a ranking by {own.key!r} requires hidden data, which a view does not show: make the policy a Ranking "
            "itself, in a module whose name ends in _oracle"
        )
    return own


class RunsCompiled(ABC):
    """A policy that can run inside the kernel to the end, with the same results as step by step.

    The kernel works on the whole record, so only policies of this package run there (`may_run_compiled`); those of
    others are asked step by step.
    """

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


def may_run_compiled(policy: object) -> TypeGuard[RunsCompiled]:
    """Return whether a policy, and each part of it that runs compiled, has an unmodified class of this package."""
    kind = type(policy)
    if not issubclass(kind, RunsCompiled) or not _is_of_this_package(kind):
        return False
    own: dict[str, Any] = vars(policy)
    replaced = {name for name in own if hasattr(kind, name)} - {*getattr(kind, "__dataclass_fields__", ())}
    parts = [each for each in own.values() if isinstance(each, RunsCompiled)]
    return not replaced and all(map(may_run_compiled, parts))


def _is_of_this_package(kind: type) -> bool:
    """Return whether this package defines a class, whatever the class says of itself."""
    module = sys.modules.get(str(kind.__module__))
    root = __name__.partition(".")[0]
    return (
        module is not None
        and str(kind.__module__).partition(".")[0] == root
        and vars(module).get(str(kind.__qualname__)) is kind
    )


BASE_POLICY = Ranking("weighted", "cost_aware", exponent=1.0, margin=8.0)
"""Base policy of environments with `hints=True`: `xion_threshold`, tuned on training windows of Philly's generator."""
