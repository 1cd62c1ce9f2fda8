"""Independent tasks on the CPUs of this machine or of a Ray cluster, with their outcomes as they complete."""

import os
import re
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from gpu_cluster_gym.evaluation import provenance
from gpu_cluster_gym.evaluation.stopping import until_parent_ends

Outcome = TypeVar("Outcome")

DIED = (
    "a worker process ended without a result (out of memory, or killed): use fewer --processes or more memory"
)
RETRIES = 3
"""Number of times that Ray repeats a task whose worker or node is lost."""
QUEUED_PER_CPU = 2
"""Tasks that Ray is given at a time, for each CPU of its cluster: enough to keep all busy."""
CONNECT_S = 10.0
"""Longest wait for the head node of a Ray cluster."""

_HOST_AND_PORT = re.compile(r"(.+):(\d{1,5})")
_on_ray = False


class LostError(RuntimeError):
    """Error about tasks whose workers ended without a result, each time that they were tried.

    places: of the tasks in their sequence.
    """

    def __init__(self, places: Sequence[int]) -> None:
        super().__init__(f"tasks {', '.join(map(str, sorted(places)))}: {DIED}")
        self.places = sorted(places)


def each(tasks: Sequence[Callable[[], Outcome]], processes: int = 1) -> Iterator[tuple[int, Outcome]]:
    """Yield the place of each task and its outcome, as the tasks end.

    Outcomes depend neither on the number of processes nor on the backend: processes of this machine or, within
    `on_ray`, a Ray cluster. A task whose worker is lost is repeated.

    tasks: functions without arguments, which other processes can import. processes: of this machine; 1 for none but
    this one, in order. Without effect within `on_ray`.
    The error of a task is raised. LostError, after all other outcomes, for tasks whose workers were lost repeatedly.
    """
    yield from _by_ray(tasks) if _on_ray else _by_joblib(tasks, processes)


def in_order(found: Iterator[tuple[int, Outcome]]) -> Iterator[Outcome]:
    """Yield the outcomes of `each` in the order of the tasks, each as soon as those before it are known."""
    early: dict[int, Outcome] = {}
    place = 0
    for came, outcome in found:
        early[came] = outcome
        while place in early:
            yield early.pop(place)
            place += 1


@contextmanager
def on_ray(address: str) -> Iterator[None]:
    """Let `each` use a running Ray cluster.

    address: HOST:PORT of its head node; `auto` for the cluster of this machine or of RAY_ADDRESS.
    ValueError without Ray, or without a cluster there.
    """
    global _on_ray
    try:
        import ray
    except ImportError:
        raise ValueError(
            '--backend ray requires Ray, not installed here: run pip install -e ".[ray]" in the clone'
        ) from None
    paths = {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    try:
        if found := _HOST_AND_PORT.fullmatch(address):  # Ray itself tries for two minutes
            socket.create_connection((found[1], int(found[2])), CONNECT_S).close()
        ray.init(address, log_to_driver=False, logging_level="error", runtime_env={"env_vars": paths})
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        why = str(error).strip().splitlines()[0]
        raise ValueError(
            f"--address {address}: no Ray cluster answers ({why}); start one with ray start --head"
        ) from None
    _on_ray = True
    try:
        yield
    finally:
        _on_ray = False
        ray.shutdown()


def _by_joblib(tasks: Sequence[Callable[[], Outcome]], processes: int) -> Iterator[tuple[int, Outcome]]:
    if processes == 1:
        yield from ((place, task()) for place, task in enumerate(tasks))
        return
    from joblib import Parallel, delayed

    how: dict[str, Any] = {"return_as": "generator_unordered", "batch_size": 1, **until_parent_ends()}
    pool, left, lost = partial(Parallel, processes, **how), dict(enumerate(tasks)), []
    with warnings.catch_warnings():
        # joblib replaces a worker whose memory has grown, as it does once the simulator or Torch is loaded
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
        while left:
            try:
                for place, outcome in pool()(delayed(_placed)(*item) for item in [*left.items()]):
                    del left[place]
                    yield place, outcome
            except (
                BrokenProcessPool
            ):  # it is unknown whose process died: the first task left is repeated alone
                place = min(left)
                task = left.pop(place)
                try:
                    yield from pool()([delayed(_placed)(place, task)])
                except BrokenProcessPool:
                    lost.append(place)
    if lost:
        raise LostError(lost)


def _placed(place: int, task: Callable[[], Outcome]) -> tuple[int, Outcome]:
    return place, task()


def _by_ray(tasks: Sequence[Callable[[], Outcome]]) -> Iterator[tuple[int, Outcome]]:
    import ray
    from ray import exceptions

    remote = ray.remote(num_cpus=1, max_retries=RETRIES)(_with_same_code)
    own, to_come, lost = provenance.versions(), enumerate(tasks), list[int]()
    waiting: dict[Any, int] = {}
    try:
        while True:
            room = int(QUEUED_PER_CPU * ray.cluster_resources().get("CPU", 1)) - len(waiting)
            waiting |= {remote.remote(task, own): place for place, task in islice(to_come, max(room, 0))}
            if not waiting:
                break
            (ended, *_), _ = ray.wait([*waiting], num_returns=1)
            place = waiting.pop(ended)
            try:
                outcome = ray.get(ended)
            except exceptions.RayTaskError as error:
                raise error.cause from None
            except (
                exceptions.WorkerCrashedError,
                exceptions.NodeDiedError,
                exceptions.OutOfMemoryError,
                exceptions.ObjectLostError,
            ):
                lost.append(place)
                continue
            yield place, outcome
    finally:
        if ray.is_initialized():
            for reference in waiting:
                ray.cancel(reference)
    if lost:
        raise LostError(lost)


def _with_same_code(task: Callable[[], Outcome], versions: dict[str, str]) -> Outcome:
    """Return the outcome of a task; RuntimeError where this machine has other libraries than the one that asks."""
    own = provenance.versions()
    if other := sorted(name for name in {*own, *versions} if own.get(name) != versions.get(name)):
        import platform

        what = ", ".join(f"{name} {own.get(name, 'missing')}, not {versions.get(name)}" for name in other)
        raise RuntimeError(f"node {platform.node()} has {what}: install the same versions on all nodes")
    return task()
