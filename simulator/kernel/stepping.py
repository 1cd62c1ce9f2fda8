"""Steps of environments whose actions are picks: act, let time pass to the next choice, and observe."""

import numpy as np

from simulator.kernel._compile import compiled, entry
from simulator.kernel.describing import describe
from simulator.kernel.displacing import pick
from simulator.kernel.events import advance, next_event
from simulator.kernel.features import NUM_FEATURES, NUM_TOTALS
from simulator.kernel.looking import look, show_running
from simulator.kernel.no_choice import quiet_until, surely_no_choice
from simulator.kernel.sight import forget, forget_all, note_room

OUTCOME = ("now", "job_seconds", "own_choice", "queued", "instant", "done", "endless")
"""What is told of a step: the clock and the integral of jobs present (s) after it, the number of the action that the
base policy would take next, jobs queued, instants so far, whether all jobs are done, and whether one never will be."""

NOW, JOB_SECONDS, OWN_CHOICE, QUEUED, INSTANT, DONE, ENDLESS = range(len(OUTCOME))
BEGIN, LEAVE = -1, -2  # instead of actions: only let time pass to the first choice; do nothing at all


@compiled
def wait(s, jobs):
    """Let time pass to the next instant; with nothing pending, to one at the same time."""
    s.wake = s.clock if next_event(s, jobs) == np.inf else np.inf
    advance(s, jobs)


@compiled
def any_legal(mask, slots):
    """Tell whether some slot can be picked."""
    for k in range(slots):
        if mask[k]:
            return True
    return False


@compiled
def go_on(s, jobs, sight, listed, seen, mask):
    """Let time pass until a job can be picked, or all is over, and observe; return the rule's own choice."""
    slots = len(listed)
    size = slots * NUM_FEATURES
    features = seen[:size].reshape(slots, NUM_FEATURES)
    quiet = -np.inf
    while True:
        over = s.num_done == s.num_jobs or s.endless
        if over or s.clock >= quiet:
            note_room(s, sight)
            if over:
                forget(s, sight)
            if over or (s.num_arrived > 0 and not surely_no_choice(s, jobs, sight)):
                count, own = look(s, jobs, sight, listed, features, mask)
                legal = any_legal(mask, slots)
                if over or legal:
                    break
            else:
                quiet = quiet_until(s, jobs, sight)
        wait(s, jobs)
    mask[slots] = not legal or next_event(s, jobs) < np.inf
    choice = describe(s, jobs, sight, count, own, listed, seen)
    for k in range(slots + 1):
        seen[size + NUM_TOTALS + slots + 1 + k] = mask[k]
    return choice


@compiled
def write_outcome(s, choice, out):
    """Write what became of a step."""
    out[NOW] = s.clock
    out[JOB_SECONDS] = s.present_seconds
    out[OWN_CHOICE] = choice
    out[QUEUED] = s.num_queued
    out[INSTANT] = s.instant
    out[DONE] = s.num_done == s.num_jobs
    out[ENDLESS] = s.endless


@compiled
def take_step(s, jobs, sight, action, listed, seen, mask, out):
    """Pick the job of a slot, or wait, or BEGIN, and go on to the next choice."""
    if action == len(listed):
        wait(s, jobs)
    elif action == BEGIN:
        forget_all(s, sight)
    else:
        pick(s, jobs, sight, listed[action])
    choice = go_on(s, jobs, sight, listed, seen, mask)
    write_outcome(s, choice, out)


@entry
def step_picks(states, jobs, sights, actions, listed, seen, masks, outcomes):
    """Step environments: let each pick the job of a slot, or wait, and go on to its next choice.

    states: a record each, and maybe more. jobs: (N, J). sights: (N,). actions: int64 (N,), legal ones, or BEGIN, or
    LEAVE. Written are listed, int64 (N, K): the jobs of the slots; seen, float32 (N, n): see `describing.describe`, the
    mask behind it; masks, int8 (N, K + 1), the last for waiting; outcomes, float64 (N, len(OUTCOME)).
    """
    for e in range(len(actions)):
        if actions[e] != LEAVE:
            take_step(states[e], jobs[e], sights[e], actions[e], listed[e], seen[e], masks[e], outcomes[e])


@entry
def step_pick(action, states, jobs, sights, listed, shown, masks, outcomes, running, running_mask):
    """Step one environment as `step_picks` does, and show the running jobs and the machines.

    shown: float32 (1, n), what is seen of the queue, the mask behind it, then the rest. running, running_mask: see
    `looking.observe_running`.
    """
    seen = shown[0]
    begin = len(listed[0]) * NUM_FEATURES + NUM_TOTALS + 2 * (len(listed[0]) + 1)
    take_step(states[0], jobs[0], sights[0], action, listed[0], seen, masks[0], outcomes[0])
    show_running(states[0], jobs[0], sights[0], running, seen[begin:], running_mask)


@entry
def report(states, e, choice, outcomes):
    """Write what became of a step that was not taken in here; choice: the base policy's, if that is known."""
    write_outcome(states[e], choice, outcomes[e])
