"""Steps of environments whose actions start and pause jobs in slots: act, advance to the next decision, observe.

Actions are numbered as follows, for K queue slots and R running slots:

- `places * k + p`: start the job of queue slot k. With places = 1, the scenario's placement rule places it; with
  places = 3, placement rule p of `RULES` does.
- `places * K + r`, only with pauses > 0: pause the job of running slot r.
- the last action: wait for the next event.

With pauses = 0, a start that does not fit pauses the victims that `slot_features.pick` finds. With pauses = 1 or 2,
ticks are skipped: a decision follows an arrival, an end or another event, or `LONGEST_WAIT_S`. Without that limit, one
wait while long jobs run and no more arrive would leave GPUs idle for weeks. With pauses = 2, a start that does not fit
claims GPUs (`claims.place_claim`); a claim is pending until every job that holds some of them has ended or pauses, and
meanwhile only starts that fit are legal. With pauses = 3, a start that does not fit begins the choice of victims
(`displacing`): until there are enough, only actions `places * K + r` are legal, each of which chooses one.
"""

import numpy as np

from gpu_cluster_gym.simulator.kernel._compile import compiled, entry
from gpu_cluster_gym.simulator.kernel.cluster.actions import start
from gpu_cluster_gym.simulator.kernel.cluster.events import (
    advance,
    advance_past_ticks,
    instants_that_count,
    next_event,
)
from gpu_cluster_gym.simulator.kernel.cluster.layout import BEST_FIT, FIRST_FIT, NOBODY, SPREAD
from gpu_cluster_gym.simulator.kernel.cluster.pausing import pause
from gpu_cluster_gym.simulator.kernel.slots.claims import claim, list_claimants, pending_claim
from gpu_cluster_gym.simulator.kernel.slots.displacing import (
    choose_and_displace,
    forget_starter,
    list_displacing,
    list_victims,
)
from gpu_cluster_gym.simulator.kernel.slots.feature_cache import invalidate, invalidate_all, update_free
from gpu_cluster_gym.simulator.kernel.slots.features import (
    FITS,
    IS_LEGAL,
    MAY_PAUSE,
    NUM_FEATURES,
    NUM_RUNNING,
    NUM_TOTALS,
)
from gpu_cluster_gym.simulator.kernel.slots.skip_forced import certainly_no_choice, quiet_until
from gpu_cluster_gym.simulator.kernel.slots.slot_features import describe, describe_running_slots, look, pick

OUTCOME = ("now", "job_seconds", "own_choice", "queued", "instants", "done", "endless")
"""Outcome of a step, float64: the clock (s), the integral of jobs present so far (s), the queue slot that the base
policy would start next (K for waiting), the number of queued jobs, instants so far that count, whether all jobs are
done, and whether some job never will be."""

NOW, JOB_SECONDS, OWN_CHOICE, QUEUED, INSTANTS, DONE, ENDLESS = range(len(OUTCOME))
CLAIMS, DISPLACES = 2, 3  # values of pauses
LONGEST_WAIT_S = 3600.0  # with pauses > 0
BEGIN, LEAVE = -1, -2  # in place of an action: advance to the first decision; leave the environment unchanged
RULES = (FIRST_FIT, BEST_FIT, SPREAD)
"""Placement rules p of actions with places = 3."""


@compiled
def is_over(s):
    """Return whether all jobs are done, or some job never will be."""
    return s.num_done == s.num_jobs or s.endless


@compiled
def wait(s, jobs):
    """Advance to the next instant; with nothing pending, to another instant at the same time."""
    s.wake = s.clock if next_event(s, jobs) == np.inf else np.inf
    advance(s, jobs)


@compiled
def wait_for_event(s, jobs):
    """Advance to the next instant that is more than a tick; while jobs are present, by `LONGEST_WAIT_S` at most.

    With nothing pending, advance to another instant at the same time.
    """
    s.wake = s.clock if next_event(s, jobs) == np.inf else np.inf
    if s.wake == np.inf and s.num_done < s.num_arrived:
        s.wake = s.clock + LONGEST_WAIT_S
    advance_past_ticks(s, jobs)


@compiled
def any_legal(mask, count):
    """Return whether any of the first `count` actions is legal."""
    for k in range(count):
        if mask[k]:
            return True
    return False


@compiled
def queue_size(slots):
    """Return the size of the observation of K queue slots, including base logits and mask."""
    return slots * NUM_FEATURES + NUM_TOTALS + 2 * (slots + 1)


@compiled
def advance_to_start(s, jobs, cache, slots, places, min_run_s, listed, observation, mask):
    """Advance until a job can start, with or without victims, or the episode ends, and observe.

    Return the slot of the base policy's own choice.
    """
    queue, features = listed[:slots], observation[: slots * NUM_FEATURES].reshape(slots, NUM_FEATURES)
    quiet = -np.inf
    while True:
        over = is_over(s)
        if over or s.clock >= quiet:
            update_free(s, cache)
            if over:
                invalidate(s, cache)
            if over or (s.num_arrived > 0 and not certainly_no_choice(s, jobs, cache)):
                count, own = look(s, jobs, cache, queue, features, mask)
                legal = any_legal(mask, slots)
                if over or legal:
                    break
            else:
                quiet = quiet_until(s, jobs, cache)
        wait(s, jobs)
    # From the last, so that entry k // places is read before it is overwritten.
    for k in range(places * slots - 1, 0, -1):
        mask[k] = mask[k // places]
    mask[places * slots] = not legal or next_event(s, jobs) < np.inf
    choice = describe(s, jobs, cache, count, own, queue, observation)
    end = queue_size(slots)
    if places == 1:
        for k in range(slots + 1):
            observation[end - slots - 1 + k] = mask[k]
    if len(observation) > end:
        describe_running_slots(s, jobs, cache, listed[slots:], min_run_s, observation[end:])
    return choice


@compiled
def waits_for_gpus(s):
    """Return whether a job is queued, or its claim is pending."""
    return s.num_queued > 0 or pending_claim(s) != NOBODY


@compiled
def write_mask(s, jobs, places, claims, queue, features, running, mask):
    """Write the mask of starts and claims, pauses while a job waits, and waiting; return whether any job can move."""
    starts = places * len(features)
    mask[: len(features)] = 0
    if claims:
        list_claimants(s, jobs, queue, mask[: len(features)])
    # From the last, so that entry k // places is read before it is overwritten.
    for number in range(starts - 1, -1, -1):
        k = number // places
        mask[number] = mask[k] or features[k, FITS] > 0
    waits = waits_for_gpus(s)
    for k in range(len(running)):
        mask[starts + k] = waits and running[k, MAY_PAUSE] > 0
    moves = len(mask) - 1
    legal = any_legal(mask, moves)
    mask[moves] = not legal or next_event(s, jobs) < np.inf
    return legal


@compiled
def write_displacing_mask(s, jobs, cache, places, queue, features, listed, running, mask):
    """Write the mask of starts and waiting, or of victims while they are chosen; return whether any job can move."""
    starts = places * len(features)
    moves = len(mask) - 1
    mask[:] = 0
    if cache.starter:
        list_victims(s, jobs, cache, listed, running, mask[starts:moves])
        return True
    list_displacing(s, jobs, queue, listed, running, mask[: len(features)])
    # From the last, so that entry k // places is read before it is overwritten.
    for number in range(starts - 1, -1, -1):
        k = number // places
        mask[number] = mask[k] or features[k, FITS] > 0
    legal = any_legal(mask, moves)
    mask[moves] = not legal or next_event(s, jobs) < np.inf
    return legal


@compiled
def advance_to_start_or_pause(s, jobs, cache, slots, places, pauses, min_run_s, listed, observation, mask):
    """Advance until a job can start where it fits, claim GPUs, or be paused, or the episode ends, and observe.

    Return the slot of the base policy's own choice.
    """
    queue, features = listed[:slots], observation[: slots * NUM_FEATURES].reshape(slots, NUM_FEATURES)
    end = queue_size(slots)
    count = len(listed) - slots
    running = observation[end : end + count * NUM_RUNNING].reshape(count, NUM_RUNNING)
    while True:
        over = is_over(s)
        if over or (s.num_arrived > 0 and waits_for_gpus(s)):
            invalidate(s, cache)
            used, own = look(s, jobs, cache, queue, features, mask)
            describe_running_slots(s, jobs, cache, listed[slots:], min_run_s, observation[end:])
            if pauses == DISPLACES:
                legal = write_displacing_mask(
                    s, jobs, cache, places, queue, features, listed[slots:], running, mask
                )
            else:
                legal = write_mask(s, jobs, places, pauses == CLAIMS, queue, features, running, mask)
            if legal or over:
                break
        wait_for_event(s, jobs)
    for k in range(slots):
        observation[end - slots - 1 + k] = mask[places * k]
    observation[end - 1] = mask[len(mask) - 1]
    for k in range(len(running)):
        running[k, IS_LEGAL] = mask[places * slots + k]
    return describe(s, jobs, cache, used, own, queue, observation)


@compiled
def start_by(s, jobs, job, rule):
    """Start a queued job where a placement rule puts it; return whether it fits."""
    usual = s.placement
    s.placement = rule
    started = start(s, jobs, job)
    s.placement = usual
    return started


@compiled
def begin_displacing(s, jobs, cache, job, slots, listed, observation):
    """Choose a queued job to start by displacing others, or its next victim."""
    end = queue_size(slots)
    count = len(listed) - slots
    running = observation[end : end + count * NUM_RUNNING].reshape(count, NUM_RUNNING)
    choose_and_displace(s, jobs, cache, listed[slots:], running, job)


@compiled
def start_unless_full(s, jobs, cache, job, slots, pauses, listed, observation):
    """Start a queued job where the placement rule puts it, else do what is to be done where it does not fit."""
    if pauses == 0:
        pick(s, jobs, cache, job)
    elif not start(s, jobs, job):
        if pauses == CLAIMS:
            claim(s, jobs, job)
        elif pauses == DISPLACES:
            begin_displacing(s, jobs, cache, job, slots, listed, observation)


@compiled
def take(s, jobs, cache, action, slots, places, pauses, min_run_s, listed, observation, mask):
    """Carry out an action, or BEGIN, and advance to the next decision; return the base policy's choice there."""
    starts = places * slots
    if action == len(mask) - 1:
        if pauses:
            wait_for_event(s, jobs)
        else:
            wait(s, jobs)
    elif action == BEGIN:
        invalidate_all(s, cache)
        forget_starter(cache)
    elif action >= starts:
        victim = listed[slots + action - starts]
        if pauses == DISPLACES:
            begin_displacing(s, jobs, cache, victim, slots, listed, observation)
        else:
            pause(s, jobs, victim)
    else:
        job = listed[action // places]
        if places == 1 or not start_by(s, jobs, job, RULES[action % places]):
            start_unless_full(s, jobs, cache, job, slots, pauses, listed, observation)
    if pauses:
        return advance_to_start_or_pause(
            s, jobs, cache, slots, places, pauses, min_run_s, listed, observation, mask
        )
    return advance_to_start(s, jobs, cache, slots, places, min_run_s, listed, observation, mask)


@compiled
def write_outcome(s, choice, out):
    """Write the outcome of a step: float64 (len(OUTCOME),)."""
    out[NOW] = s.clock
    out[JOB_SECONDS] = s.present_seconds
    out[OWN_CHOICE] = choice
    out[QUEUED] = s.num_queued
    out[INSTANTS] = instants_that_count(s)
    out[DONE] = s.num_done == s.num_jobs
    out[ENDLESS] = s.endless


@entry
def step(
    states, jobs, caches, actions, slots, places, pauses, min_run_s, listed, observations, masks, outcomes
):
    """Step N environments: carry out an action in each, and advance it to its next decision.

    states: at least N records. jobs: (N, J). caches: (N,). actions: int64 (N,), legal ones, or BEGIN, or LEAVE.
    slots, places, pauses: K, 1 or 3, 0 to 3; see the module. min_run_s: time since its last start after which a job may
    be paused by an action, s. Written are:
    listed: int64 (N, K + R), the job of each queue slot, then of each running slot; -1 where a slot is empty.
    observations: float32 (N, n); see `slot_features.describe`, then K + 1 entries, 1 where the job of a queue slot can
    start and where waiting is legal (not if places = 3 and pauses = 0), then, if there is space for it, the part that
    `slot_features.observe_running` writes.
    masks: int8 (N, actions), 1 where legal. outcomes: float64 (N, len(OUTCOME)).
    """
    for e in range(len(actions)):
        if actions[e] != LEAVE:
            choice = take(
                states[e],
                jobs[e],
                caches[e],
                actions[e],
                slots,
                places,
                pauses,
                min_run_s,
                listed[e],
                observations[e],
                masks[e],
            )
            write_outcome(states[e], choice, outcomes[e])
