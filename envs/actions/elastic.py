"""Every action there is: starts put together GPU by GPU, pauses, cores, throttling, and two ways to wait."""

from typing import NamedTuple

import numpy as np

from envs.actions import Legal
from envs.episode import Episode
from envs.kernel.layout import PAUSING
from envs.policy import Action, Placement, Preempt, Resize, Start, Throttle
from envs.slots import Draft, Slots
from envs.view import View

WINDOW_S = 60.0  # of the shorter wait, in which utilisation can be measured
CORE, LEVEL = 1.0, 0.1  # steps of a resize, and of a throttle
TURNS = ((Resize, -1), (Resize, 1), (Throttle, -1), (Throttle, 1))


class Numbers(NamedTuple):
    """The first action of each group.

    K slots of the queue, drop, fewer and more cores, G GPUs, N nodes, R pauses, 4 R changes of running jobs (R each of
    fewer cores, more, throttle, release), and the waits.
    """

    pick: int
    drop: int
    cores: int
    gpus: int
    nodes: int
    pause: int
    turn: int
    wait: int


class Elastic:
    """Discrete(K + 3 + G + N + 5 R + 2).

    A start is put together: slot k of the queue is picked, its cores are changed one by one if wanted, then its GPUs
    are named one by one, or the node of a CPU job; it starts with the last. `drop` gives it up till the next instant,
    as waiting does.
    A job's cores, and its throttle, move in one direction only at an instant. The last action lets 60 s pass at most,
    the one before it lets time pass to the next event.
    """

    waits: tuple[float | None, ...] = (None, WINDOW_S)

    def numbers(self, slots: Slots, view: View) -> Numbers:
        """Return where each group of actions begins."""
        running = len(slots.running)
        sizes = (len(slots.queue), 1, 2, len(view.holder), len(view.node_gpus), running, 4 * running)
        return Numbers(0, *np.cumsum(sizes).tolist())

    def space(self, slots: Slots, view: View) -> Legal:
        """Return the action space."""
        return Legal(self.wait(slots, view) + len(self.waits))

    def wait(self, slots: Slots, view: View) -> int:
        """Return the number of the first action that waits."""
        return self.numbers(slots, view).wait

    def mask(self, slots: Slots, view: View) -> np.ndarray:
        """Tell what is legal: the next step of a start that was begun, else anything."""
        draft = slots.draft.at(view.instant)
        at = self.numbers(slots, view)
        mask = np.zeros(at.wait + len(self.waits), np.int8)
        if draft.job < 0:
            self._open(mask, at, slots, view)
            return mask
        mask[at.drop] = 1
        mask[at.wait :] = slots.can_wait
        if view.is_cpu_job[draft.job]:
            nodes = range(len(view.node_gpus))
            mask[at.nodes : at.pause] = [not view.why_not(self._cpu_start(draft, node)) for node in nodes]
        else:
            mask[at.gpus : at.nodes] = self._gpus(draft, view)
        if view.cores_bind and not draft.gpus:
            mask[at.cores : at.gpus] = [self._may_turn_cores(draft, view, step) for step in (-CORE, CORE)]
        return mask

    def _open(self, mask: np.ndarray, at: Numbers, slots: Slots, view: View) -> None:
        """Mark what is legal while no start has been begun."""
        draft = slots.draft
        for slot, job in enumerate(slots.queue.tolist()):
            mask[slot] = job >= 0 and job not in draft.dropped and self._may_begin(job, view)
        for slot, job in enumerate(slots.running.tolist()):
            if job < 0:
                continue
            mask[at.pause + slot] = not view.why_not(Preempt(job))
            for kind, (action, way) in enumerate(TURNS):
                back = draft.turned.get((action, job), way) != way
                change = turned(view, job, action, way)
                mask[at.turn + kind * len(slots.running) + slot] = not back and not view.why_not(change)
        mask[at.wait :] = slots.can_wait or not mask.any()

    def _may_begin(self, job: int, view: View) -> bool:
        """Tell whether there are GPUs enough for a queued job, or a node with cores for it."""
        if view.just_paused(job):
            return False
        if view.is_cpu_job[job]:
            return bool(view.spare_cores.max() >= min(CORE, view.cores[job]))
        return bool(open_gpus(view, job).sum() >= view.num_gpus[job])

    def _gpus(self, draft: Draft, view: View) -> np.ndarray:
        """Tell which GPUs may be named next; with the last of them the start must be legal as a whole."""
        able = open_gpus(view, draft.job)
        able[draft.gpus] = False
        if len(draft.gpus) + 1 == view.num_gpus[draft.job]:
            for gpu in np.flatnonzero(able):
                placement = Placement((*draft.gpus, int(gpu)), draft.cores)
                able[gpu] = not view.why_not(Start(draft.job, placement))
        return able

    def _may_turn_cores(self, draft: Draft, view: View, step: float) -> bool:
        """Tell whether the job being started may ask for a core more, or less."""
        cores = (draft.cores or view.cores[draft.job]) + step
        back = draft.turned.get((Start, draft.job), step) != step
        most = view.cores[draft.job] if view.is_cpu_job[draft.job] else view.node_cores.max()
        return not back and 0 < cores <= most

    def _cpu_start(self, draft: Draft, node: int) -> Start:
        return Start(draft.job, Placement((), draft.cores, node))

    def apply(self, number: int, slots: Slots, episode: Episode) -> None:
        """Carry out an action that does not wait."""
        view, draft = episode.view, slots.draft
        at = self.numbers(slots, view)
        if number < at.drop:
            draft.job = int(slots.queue[number])
        elif number == at.drop:
            draft.dropped.add(draft.job)
            draft.clear()
        elif number < at.gpus:
            step = (-CORE, CORE)[number - at.cores]
            draft.cores = (draft.cores or float(view.cores[draft.job])) + step
            draft.turned[Start, draft.job] = step
        elif number < at.nodes:
            draft.gpus.append(number - at.gpus)
            if len(draft.gpus) == view.num_gpus[draft.job]:
                episode.apply(Start(draft.job, Placement(tuple(draft.gpus), draft.cores)))
                draft.clear()
        elif number < at.pause:
            episode.apply(self._cpu_start(draft, number - at.nodes))
            draft.clear()
        elif number < at.turn:
            episode.apply(Preempt(int(slots.running[number - at.pause])))
        else:
            kind, slot = divmod(number - at.turn, len(slots.running))
            action, way = TURNS[kind]
            job = int(slots.running[slot])
            episode.apply(turned(view, job, action, way))
            draft.turned[action, job] = way


def open_gpus(view: View, job: int) -> np.ndarray:
    """Tell which GPUs, each by itself, a queued job may be given: those with a seat free, or about to be empty."""
    here = view.residents
    going = ((here < 0) | (view.phase[here] == PAUSING)).all(axis=1)
    seat = (view.num_residents < view.max_share) | going
    able: np.ndarray = seat & (view.heir < 0) & view.can_hold(job)[view.gpu_node]
    return able


def turned(view: View, job: int, action: type, way: int) -> Action:
    """Return the change of a running job's cores, or throttle, by a step up or down."""
    if action is Resize:
        return Resize(job, float(view.cores_now[job]) + way * CORE)
    return Throttle(job, round(float(view.throttle[job]) + way * LEVEL, 1))


action = Elastic()
