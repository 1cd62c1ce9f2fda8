"""Every action there is: starts and moves put together step by step, pauses, cores, throttling, two ways to wait."""

from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from gpu_cluster_gym.envs.actions import Legal
from gpu_cluster_gym.envs.actions._room import (
    SHUT,
    Still,
    asked_cores,
    can_be_completed,
    changed,
    kinds_for,
    next_cores,
    shape_of,
    whole_action,
)
from gpu_cluster_gym.envs.slots import PartialAction, Slots
from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.policy import Action, Preempt, Resize, Throttle
from gpu_cluster_gym.simulator.view import View

WINDOW_S = 60.0  # of the shorter wait, in which utilisation can be measured
LEVEL = 0.1  # step of a throttle
TURNS = ((Resize, -1), (Resize, 1), (Throttle, -1), (Throttle, 1))
CHANGES = tuple(
    (field, way) for field in ("cores", "workers", "servers", "on_cores", "apart") for way in (-1, 1)
)


class Numbers(NamedTuple):
    """The first action of each group.

    K slots of the queue, drop, 10 changes of what is being put together (fewer and more cores, workers, and servers;
    workers onto GPUs, onto cores; servers onto cores, onto GPUs), G GPUs, N nodes, R pauses, R moves, 4 R changes of
    running jobs (R each of fewer cores, more, throttle, release), and the waits.
    """

    pick: int
    drop: int
    change: int
    gpus: int
    nodes: int
    pause: int
    move: int
    turn: int
    wait: int


class Elastic:
    """Discrete(K + 11 + G + N + 6 R + 2), whatever physics is on; without `elastic` no shape can be changed.

    A start is put together: slot k of the queue is picked, its shape is changed step by step if wanted, and then its
    cores, to whole numbers beside those of its servers; then its GPUs are named one by one, or the node of what has
    none; it starts with the last. A move of a running job is put together in the same way, from the shape it has; it
    may name its own GPUs again, and jobs of one shape may move too. `drop` gives either up till the next instant, as
    waiting does. No step is legal after which it could not be completed.
    What is changed goes in one direction only: of a start or move till it is completed, of a running job's cores, and
    its throttle, at an instant. The last action lets 60 s pass at most, the one before it lets time pass to the next
    event.
    """

    waits: tuple[float | None, ...] = (None, WINDOW_S)

    def numbers(self, slots: Slots, view: View) -> Numbers:
        """Return where each group of actions begins."""
        queued, running = len(slots.queue), len(slots.running)
        gpus, nodes = len(view.gpus.first_owner), len(view.nodes.num_gpus)
        sizes = (queued, 1, len(CHANGES), gpus, nodes, running, running, len(TURNS) * running)
        return Numbers(0, *np.cumsum(sizes).tolist())

    def space(self, slots: Slots, view: View) -> Legal:
        """Return the action space."""
        return Legal(self.wait(slots, view) + len(self.waits))

    def wait(self, slots: Slots, view: View) -> int:
        """Return the number of the first action that waits."""
        return self.numbers(slots, view).wait

    def mask(self, slots: Slots, view: View) -> np.ndarray:
        """Tell what is legal: the next step of what was begun, else anything."""
        view = cast("View", Still(view))
        partial = slots.partial.at(view.instant)
        at = self.numbers(slots, view)
        mask = np.zeros(at.wait + len(self.waits), np.int8)
        if partial.job < 0:
            self._open(mask, at, slots, view)
            return mask
        mask[at.drop] = 1
        mask[at.wait :] = slots.can_wait
        after = (changed(partial, view, *change) for change in CHANGES)
        mask[at.change : at.gpus] = [
            partial is not None and can_be_completed(partial, view) for partial in after
        ]
        if partial.shape.gpus:
            mask[at.gpus : at.nodes] = self._gpus(partial, view)
        else:
            nodes = range(len(view.nodes.num_gpus))
            mask[at.nodes : at.pause] = [not view.why_not(whole_action(partial, node)) for node in nodes]
        return mask

    def _open(self, mask: np.ndarray, at: Numbers, slots: Slots, view: View) -> None:
        """Mark what is legal while nothing has been begun."""
        partial = slots.partial
        for slot, job in enumerate(slots.queue.tolist()):
            mask[slot] = job >= 0 and not view.just_paused(job) and self._may_begin(slots, job, view)
        for slot, job in enumerate(slots.running.tolist()):
            if job < 0:
                continue
            mask[at.pause + slot] = may_pause = not view.why_not(Preempt(job))
            has_gpus = not view.jobs.is_cpu_job[job]
            mask[at.move + slot] = may_pause and has_gpus and self._may_begin(slots, job, view, moves=True)
            for kind, (action, way) in enumerate(TURNS):
                back = partial.turned.get((action, job), way) != way
                change = turned(view, job, action, way)
                mask[at.turn + kind * len(slots.running) + slot] = not back and not view.why_not(change)
        mask[at.wait :] = slots.can_wait or not mask.any()

    def _may_begin(self, slots: Slots, job: int, view: View, *, moves: bool = False) -> bool:
        """Tell whether a job's start, or its move, can be put together."""
        if job in slots.partial.dropped:
            return False
        return can_be_completed(PartialAction(job, moves, shape_of(view, job)), view)

    def _gpus(self, partial: PartialAction, view: View) -> np.ndarray:
        """Tell which GPUs may be named next; those of one kind on one node are alike."""
        kinds = kinds_for(partial, view)
        kinds[partial.gpus] = SHUT
        alike, first, which = np.unique(
            view.gpus.node * (SHUT + 1) + kinds, return_index=True, return_inverse=True
        )
        able = np.zeros(len(alike), bool)
        for number, gpu in enumerate(first.tolist()):
            if kinds[gpu] != SHUT:
                after = replace(partial, gpus=[*partial.gpus, gpu])
                is_last = len(after.gpus) == partial.shape.gpus
                able[number] = (
                    not view.why_not(whole_action(after)) if is_last else can_be_completed(after, view)
                )
        legal: np.ndarray = able[which]
        return legal

    def moves(self, number: int, slots: Slots, view: View) -> list[Action]:
        """Put a start or a move together by a step; return it once it is whole, or another action at once."""
        partial, at = slots.partial, self.numbers(slots, view)
        if number < at.drop:
            self._begin(slots, int(slots.queue[number]), view, moves=False)
        elif number == at.drop:
            partial.dropped.add(partial.job)
            partial.clear()
        elif number < at.gpus:
            slots.partial = changed(partial, view, *CHANGES[number - at.change]) or partial
        elif number < at.nodes:
            partial.gpus.append(number - at.gpus)
            return self._completed(partial) if len(partial.gpus) == partial.shape.gpus else []
        elif number < at.pause:
            return self._completed(partial, number - at.nodes)
        elif number < at.move:
            return [Preempt(int(slots.running[number - at.pause]))]
        elif number < at.turn:
            self._begin(slots, int(slots.running[number - at.move]), view, moves=True)
        else:
            kind, slot = divmod(number - at.turn, len(slots.running))
            action, way = TURNS[kind]
            job = int(slots.running[slot])
            partial.turned[action, job] = way
            return [turned(view, job, action, way)]
        return []

    def apply(self, number: int, slots: Slots, episode: Episode) -> None:
        """Carry out an action that does not wait."""
        for move in self.moves(number, slots, episode.view):
            episode.apply(move)

    def _begin(self, slots: Slots, job: int, view: View, *, moves: bool) -> None:
        slots.partial.begin(job, shape_of(view, job), moves=moves)

    def _completed(self, partial: PartialAction, node: int | None = None) -> list[Action]:
        whole = whole_action(partial, node)
        partial.clear()
        return [whole]


def turned(view: View, job: int, action: type, way: int) -> Action:
    """Return the change of a running job's cores, or throttle, by a step up or down."""
    if action is Resize:
        shape = shape_of(view, job)
        asked = asked_cores(view, job, shape)
        return Resize(job, next_cores(float(view.jobs.cores_now[job]), asked, shape, way))
    return Throttle(job, round(float(view.jobs.throttle[job]) + way * LEVEL, 1))


action = Elastic()
