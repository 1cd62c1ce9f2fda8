"""Steps of environments whose actions are about slots of jobs: act, let time pass to the next choice, and observe.

Two kinds of action: a pick starts the job of a slot, and pauses the victims that the rule finds for it if it must; a
primitive starts a job by a placement rule, or pauses one.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.actions import start
from gpu_cluster_gym.simulator.kernel.cluster.events import advance, instants_that_count, next_event
from gpu_cluster_gym.simulator.kernel.cluster.layout import BEST_FIT, FIRST_FIT, SPREAD
from gpu_cluster_gym.simulator.kernel.cluster.pausing import pause
from gpu_cluster_gym.simulator.kernel.slots.describing import describe
from gpu_cluster_gym.simulator.kernel.slots.displacing import pick
from gpu_cluster_gym.simulator.kernel.slots.features import (
    FITS,
    MAY_PAUSE,
    NUM_FEATURES,
    NUM_RUNNING,
    NUM_TOTALS,
)
from gpu_cluster_gym.simulator.kernel.slots.looking import look, show_running
from gpu_cluster_gym.simulator.kernel.slots.no_choice import quiet_until, surely_no_choice
from gpu_cluster_gym.simulator.kernel.slots.sight import forget, forget_all, note_room

OUTCOME = ("now", "job_seconds", "own_choice", "queued", "instants", "done", "endless")
"""What is told of a step: the clock and the integral of jobs present (s) after it, the number of the action that the
base policy would take next, jobs queued, instants so far that count, whether all jobs are done, and whether
one never will be."""

NOW, JOB_SECONDS, OWN_CHOICE, QUEUED, INSTANTS, DONE, ENDLESS = range(len(OUTCOME))
BEGIN, LEAVE = -1, -2  # instead of actions: only let time pass to the first choice; do nothing at all
RULES = (FIRST_FIT, BEST_FIT, SPREAD)
"""By which a primitive may start a job."""


@compiled
def is_over(s):
    """Tell whether all jobs are done, or one never will be."""
    return s.num_done == s.num_jobs or s.endless


@compiled
def wait(s, jobs):
    """Let time pass to the next instant; with nothing pending, to one at the same time."""
    s.wake = s.clock if next_event(s, jobs) == np.inf else np.inf
    advance(s, jobs)


@compiled
def any_legal(mask, moves):
    """Tell whether one of the first actions, which move jobs, is legal."""
    for k in range(moves):
        if mask[k]:
            return True
    return False


@compiled
def size_of_queue(slots):
    """Return how many numbers are seen of a queue with so many slots, the rule's logits and a mask among them."""
    return slots * NUM_FEATURES + NUM_TOTALS + 2 * (slots + 1)


@compiled
def go_on_to_pick(s, jobs, sight, listed, shown, mask):
    """Let time pass until a job can be picked, or all is over, and observe; return the rule's own choice."""
    slots = len(mask) - 1
    queue, features = listed[:slots], shown[: slots * NUM_FEATURES].reshape(slots, NUM_FEATURES)
    quiet = -np.inf
    while True:
        over = is_over(s)
        if over or s.clock >= quiet:
            note_room(s, sight)
            if over:
                forget(s, sight)
            if over or (s.num_arrived > 0 and not surely_no_choice(s, jobs, sight)):
                count, own = look(s, jobs, sight, queue, features, mask)
                legal = any_legal(mask, slots)
                if over or legal:
                    break
            else:
                quiet = quiet_until(s, jobs, sight)
        wait(s, jobs)
    mask[slots] = not legal or next_event(s, jobs) < np.inf
    choice = describe(s, jobs, sight, count, own, queue, shown)
    end = size_of_queue(slots)
    for k in range(slots + 1):
        shown[end - slots - 1 + k] = mask[k]
    if len(shown) > end:
        show_running(s, jobs, sight, listed[slots:], shown[end:])
    return choice


@compiled
def write_legal_primitives(s, jobs, features, running, mask):
    """Write which primitives are legal: starts that fit; pauses while a job is queued; waits where time can pass."""
    starts = len(RULES) * len(features)
    for number in range(starts):
        mask[number] = features[number // len(RULES), FITS] > 0
    for k in range(len(running)):
        mask[starts + k] = s.num_queued > 0 and running[k, MAY_PAUSE] > 0
    moves = len(mask) - 1
    legal = any_legal(mask, moves)
    mask[moves] = not legal or next_event(s, jobs) < np.inf
    return legal


@compiled
def go_on_to_primitive(s, jobs, sight, listed, shown, mask):
    """Let time pass until a job can be started or paused, or all is over, and observe; return the rule's own choice."""
    slots = slots_of(listed, mask)
    queue, features = listed[:slots], shown[: slots * NUM_FEATURES].reshape(slots, NUM_FEATURES)
    end = size_of_queue(slots)
    count = len(listed) - slots
    running = shown[end : end + count * NUM_RUNNING].reshape(count, NUM_RUNNING)
    while True:
        over = is_over(s)
        if over or (s.num_arrived > 0 and s.num_queued > 0):
            forget(s, sight)
            used, own = look(s, jobs, sight, queue, features, mask)
            show_running(s, jobs, sight, listed[slots:], shown[end:])
            if write_legal_primitives(s, jobs, features, running, mask) or over:
                break
        wait(s, jobs)
    return describe(s, jobs, sight, used, own, queue, shown)


@compiled
def slots_of(listed, mask):
    """Return the slots of the queue, of whose jobs each can be started by any rule."""
    return (len(mask) - 1 - len(listed)) // (len(RULES) - 1)


@compiled
def start_by(s, jobs, job, rule):
    """Start a queued job, which fits, where a placement rule puts it."""
    usual = s.placement
    s.placement = rule
    start(s, jobs, job)
    s.placement = usual


@compiled
def write_outcome(s, choice, out):
    """Write what became of a step."""
    out[NOW] = s.clock
    out[JOB_SECONDS] = s.present_seconds
    out[OWN_CHOICE] = choice
    out[QUEUED] = s.num_queued
    out[INSTANTS] = instants_that_count(s)
    out[DONE] = s.num_done == s.num_jobs
    out[ENDLESS] = s.endless


@compiled
def take_pick(s, jobs, sight, action, listed, shown, mask):
    """Pick the job of a slot, or wait, or BEGIN, and go on to the next choice."""
    if action == len(mask) - 1:
        wait(s, jobs)
    elif action == BEGIN:
        forget_all(s, sight)
    else:
        pick(s, jobs, sight, listed[action])
    return go_on_to_pick(s, jobs, sight, listed, shown, mask)


@compiled
def take_primitive(s, jobs, sight, action, listed, shown, mask):
    """Start or pause one job, or wait, or BEGIN, and go on to the next choice."""
    slots = slots_of(listed, mask)
    starts = len(RULES) * slots
    if action == len(mask) - 1:
        wait(s, jobs)
    elif action == BEGIN:
        forget_all(s, sight)
    elif action < starts:
        start_by(s, jobs, listed[action // len(RULES)], RULES[action % len(RULES)])
    else:
        pause(s, jobs, listed[slots + action - starts])
    return go_on_to_primitive(s, jobs, sight, listed, shown, mask)


@entry
def step_picks(states, jobs, sights, actions, listed, shown, masks, outcomes):
    """Step environments: let each pick the job of a slot, or wait, and go on to its next choice.

    states: a record each, and maybe more. jobs: (N, J). sights: (N,). actions: int64 (N,), legal ones, or BEGIN, or
    LEAVE. Written are listed, int64 (N, K + R): the jobs of the slots, those queued first, -1 where one is empty;
    shown, float32 (N, n): see `describing.describe`, the mask behind it, and where there is room behind that, what
    `looking.observe_running` writes; masks, int8 (N, K + 1), the last for waiting; outcomes, float64 (N, len(OUTCOME)).
    """
    for e in range(len(actions)):
        if actions[e] != LEAVE:
            choice = take_pick(states[e], jobs[e], sights[e], actions[e], listed[e], shown[e], masks[e])
            write_outcome(states[e], choice, outcomes[e])


@entry
def step_primitives(states, jobs, sights, actions, listed, shown, masks, outcomes):
    """Step environments as `step_picks` does, whose actions are primitives.

    masks: int8 (N, 3 K + R + 1): starts of slot k by rule p, 3 k + p, then pauses, then waiting.
    """
    for e in range(len(actions)):
        if actions[e] != LEAVE:
            choice = take_primitive(states[e], jobs[e], sights[e], actions[e], listed[e], shown[e], masks[e])
            write_outcome(states[e], choice, outcomes[e])


@entry
def report(states, e, choice, outcomes):
    """Write what became of a step that was not taken in here; choice: the base policy's, if that is known."""
    write_outcome(states[e], choice, outcomes[e])
