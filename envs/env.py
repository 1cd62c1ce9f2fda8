"""Gymnasium environments: the base class of all action kinds, and the environment of the action `plain`."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import gymnasium
import numpy as np
import pandas as pd

from gpu_cluster_gym.envs import render, validation
from gpu_cluster_gym.envs.batch import FINAL_INFO, Batch, in_threads, why_illegal
from gpu_cluster_gym.envs.observations import FromView, Sizes
from gpu_cluster_gym.envs.spaces import MaskedDiscrete, NamedParts, row
from gpu_cluster_gym.envs.windows import (
    MAX_INSTANTS_PER_JOB,
    PreparedWindow,
    default_rule,
    prepare,
    python_int,
    window_number,
    window_option,
)
from gpu_cluster_gym.simulator.episode import Episode
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB, PLACEMENTS
from gpu_cluster_gym.simulator.kernel.slots import claims, stepping
from gpu_cluster_gym.simulator.kernel.slots.feature_cache import cache_dtype
from gpu_cluster_gym.simulator.kernel.slots.features import FITS
from gpu_cluster_gym.simulator.kernel.slots.stepping import (
    BEGIN,
    DONE,
    ENDLESS,
    INSTANTS,
    JOB_SECONDS,
    LEAVE,
    NOW,
    OWN_CHOICE,
    QUEUED,
    RULES,
)
from gpu_cluster_gym.simulator.policy import BASE_POLICY, Action, Key, Preempt, Ranking, Start
from gpu_cluster_gym.simulator.slots import Slots, parts_of, width
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.traces import find
from gpu_cluster_gym.workloads import Split, Workload

Chooser = Literal["rule", "agent"]
WhenFull = Literal["wait", "claim", "displace"]
"""Effect of a start that does not fit. wait: it is illegal; claim: the job reserves GPUs that are expected to be
released first, and starts when the last of them is; displace: the job starts once the running jobs that the agent
chooses next have paused."""


class ClusterEnv(NamedParts, gymnasium.Env[Any, Any]):
    """Base class of single environments, each of which is a batch of one.

    batch: the dynamics.
    windows: numbers of the windows, for `options={"window": n}`.
    split: the split of the windows.
    """

    metadata = render.METADATA
    kind: ClassVar[type[Batch]]

    def __init__(
        self, windows: Sequence[PreparedWindow], render_mode: str | None, choices: dict[str, Any]
    ) -> None:
        """Make the batch; nothing is simulated before the first reset. choices: keywords of the batch."""
        self.render_mode, self._screen = render_mode, render.Screen(render_mode)
        self._has_begun = False
        self.choices = choices
        self.batch = self.kind(windows, 1, **choices)
        self.windows: tuple[int, ...] = tuple(self.batch.numbers.tolist())
        self.split = self.batch.split
        self.seen_parts = self.batch.seen_parts
        self.action_space, self.observation_space = self.batch.action_space, self.batch.observation_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a window: the one named in `options`, else a random one.

        ValueError for an unknown option, window or split.
        """
        super().reset(seed=python_int(seed))
        self._has_begun = True
        number = window_number(self.windows, window_option(options, self.split), self.np_random)
        self.batch.begin(0, self.windows.index(number))
        observation, info = self._seen()
        if isinstance(self.action_space, MaskedDiscrete):
            self.action_space.opening &= self.action_space.mask
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Carry out an action, and simulate to the next decision or to the end.

        ValueError for an action of another shape or type, or for an illegal one with `illegal="raise"`; ResetNeeded
        before the first reset.
        """
        if not self._has_begun:
            raise gymnasium.error.ResetNeeded("step before the first reset: call reset first")
        given, shape = np.asarray(action), self.action_space.shape
        if given.size != math.prod(shape):  # type: ignore[arg-type]
            raise ValueError(f"action of shape {given.shape}: expected shape {shape}")
        self.batch.step(given.reshape(1, *shape))  # type: ignore[misc]
        terminated, truncated = bool(self.batch.terminated[0]), bool(self.batch.truncated[0])
        observation, info = self._seen()
        if terminated:
            info |= zip(FINAL_INFO, map(np.float64, self.batch.final_info(0)), strict=True)
        return observation, float(self.batch.rewards[0]), terminated, truncated, info

    def _seen(self) -> tuple[Any, dict[str, Any]]:
        """Return the observation and the info, and render to a live window."""
        info = {name: values[0] for name, values in self.batch.current_info().items()}
        if isinstance(self.action_space, MaskedDiscrete):
            self.action_space.mask = info["action_mask"].copy()
        if self._screen.is_live:
            self.render()
        return row(self.batch.observations(), 0), info

    def action_masks(self) -> np.ndarray:
        """Return the legal actions: bool (actions,); all True for continuous actions."""
        mask: np.ndarray = self.batch.masks()[0].astype(bool)
        return mask

    def why_not(self, action: int) -> str | None:
        """Return why an action is illegal now, or None; actions of `steer` are all legal."""
        if not isinstance(self.action_space, MaskedDiscrete):
            return None
        if not self._has_begun:
            raise gymnasium.error.ResetNeeded("why_not before the first reset: call reset first")
        mask = self.batch.masks()[0]
        if not 0 <= action < len(mask):
            return why_illegal(int(action), len(mask))
        if self.batch.over[0]:
            return "the episode has ended: call reset"
        return None if mask[action] else self.batch.why_not(0, int(action))

    def results(self) -> pd.DataFrame:
        """Return the results table of an episode that has terminated; ValueError before that."""
        return self.batch.results(0)

    def render(self) -> Any:
        """Return the cluster as text (`ansi`) or as an image (`rgb_array`), or draw it in a window (`human`)."""
        return self._screen.draw(self.batch.view(0)) if self.render_mode else None

    def close(self) -> None:
        """Close the window, if there is one."""
        self._screen.close()

    @property
    def workload(self) -> Workload:
        """The current window."""
        return self.batch.windows[int(self.batch.window[0])].workload


class UnionEnv(ClusterEnv):
    """Base class of the environments whose actions go through the rule `union`."""

    def __init__(
        self,
        scenario: Mapping[str, Any] | None = None,
        *,
        workload: str | None = None,
        split: Split = "train",
        count: int = 64,
        default_weights: Mapping[str, float] | None = None,
        render_mode: str | None = None,
        **choices: Any,
    ) -> None:
        """Choose the windows; nothing is simulated before the first reset. choices: keywords of the batch."""
        windows = prepare(scenario, workload, split, count, default_rule(default_weights))
        super().__init__(windows, render_mode, choices)


class PlainActions(NamedTuple):
    """Numbering of the plain actions: starts of queue slots, pauses of running slots, then waiting.

    queue_slots, running_slots: K and R.
    places: number of placement rules to choose from; 1 for the scenario's own.
    pauses: whether running jobs can be paused; otherwise a start that does not fit pauses the base policy's victims.
    when_full: effect of a start that does not fit, where running jobs can be paused; see `WhenFull`.
    """

    queue_slots: int
    running_slots: int
    places: int
    pauses: bool
    when_full: str

    @property
    def starts(self) -> int:
        """Number of start actions."""
        return self.places * self.queue_slots

    @property
    def wait(self) -> int:
        """The last action."""
        return self.starts + self.pauses * self.running_slots

    @property
    def lever(self) -> int:
        """The argument `pauses` of `stepping.step`: 0, or 1 to 3 where the agent chooses the jobs to pause."""
        return 1 + get_args(WhenFull).index(self.when_full) if self.pauses else 0

    @property
    def pausing(self) -> slice:
        """The actions that pause a job."""
        return slice(self.starts, self.wait)

    def mask(self, slots: Slots) -> np.ndarray:
        """Return the legal actions: int8 (actions,)."""
        fits = slots.queue_features[:, FITS].astype(np.int8)
        starts, pauses = fits if self.pauses else slots.queue_mask[:-1], np.zeros(0, np.int8)
        if self.pauses:
            waits = slots.queue[0] >= 0 or slots.claim >= 0
            pauses = slots.running_mask * np.int8(waits)
        if self.when_full == "claim" and self.pauses:
            starts = starts | slots.claim_mask
        elif self.when_full == "displace" and self.pauses:
            if slots.starter >= 0:
                return np.concatenate(
                    [np.zeros(self.starts, np.int8), slots.victim_mask, np.zeros(1, np.int8)]
                )
            starts, pauses = starts | slots.displace_mask, slots.victim_mask
        moves = np.concatenate([np.repeat(starts, self.places), pauses])
        return np.append(moves, np.int8(slots.can_wait or not moves.any()))

    def moves(self, number: int, slots: Slots, view: View) -> list[Action]:
        """Return the pauses and the start that make up an action other than waiting, in order."""
        if number >= self.starts:
            victim = int(slots.running[number - self.starts])
            return slots.choose(victim) if self.when_full == "displace" else [Preempt(victim)]
        slot, rule = divmod(number, self.places)
        job = int(slots.queue[slot])
        placement = view.place(job, rule=PLACEMENTS[RULES[rule]]) if self.places > 1 else view.place(job)
        if placement := placement or view.place(job):
            return [Start(job, placement)]
        if not self.pauses:
            return view.pick(job)[::-1]
        if self.when_full == "displace":
            return slots.choose(job)
        return [Start(job, found, claim=True)] if (found := view.place_claim(job)) else []


def plain_actions(
    queue_slots: Any, running_slots: Any, placed_by: Any, victims_by: Any, when_full: Any
) -> PlainActions:
    """Return the numbering for keywords of `GPUClusterEnv`; ValueError for an invalid one."""
    pauses = validation.choice("victims_by", victims_by, get_args(Chooser)) == "agent"
    return PlainActions(
        validation.whole_number("queue_slots", queue_slots),
        validation.whole_number("running_slots", running_slots, minimum=0),
        len(RULES) if validation.choice("placed_by", placed_by, get_args(Chooser)) == "agent" else 1,
        pauses,
        validation.choice("when_full", when_full, get_args(WhenFull)),
    )


QUEUE_SLOTS, RUNNING_SLOTS, MIN_RUN_S = 64, 16, 3600.0
"""Defaults of the action `plain`: K, R, and the time since its last start after which a job may be paused, s."""


Observe = Callable[[View], Any]
"""Observation of the user's own: a function from a scheduler's view to a vector of fixed length."""


def plain_observation(observation: str | Observe | None, actions: PlainActions, hints: bool) -> Any:
    """Return an observation by name or function, the default one for None.

    ValueError if it does not go with the other keywords.
    """
    if callable(observation):
        return FromView(observation)
    by_rule = actions.places == 1 and not actions.pauses
    name = observation or ("tables" if actions.places > 1 else "slots" if by_rule and hints else "sets")
    found = find("envs.observations", name, "observation")
    if found.shows_hints and not hints:
        raise ValueError(
            f"observation {name!r} requires hints=True, since it shows the base policy's choice; use "
            "observation='sets'"
        )
    if found.only_queue and not by_rule:
        raise ValueError(
            f"observation {name!r} requires placed_by='rule' and victims_by='rule', since it shows one action per "
            "queue slot; use observation='tables'"
        )
    if found.one_place and actions.places > 1:
        raise ValueError(
            f"observation {name!r} requires placed_by='rule', since it shows one start per queue slot; use "
            "observation='tables'"
        )
    return found


ORDERS: dict[str, Key] = {"gain": "weighted", "arrival": "submit"}
"""Keys of the orders in which the queue is shown."""


def base_policy(
    exponent: float, margin: float | None = None, queue_order: str | None = None, *, hints: bool = False
) -> Ranking:
    """Return the base policy; ValueError for an invalid value.

    It is FIFO, or with hints `baselines.xion_threshold`, unless `margin` (an infinite one never pauses a job) and
    `queue_order` (`gain`, or `arrival` for the order of submission) say otherwise.
    """
    order = queue_order or ("gain" if hints else "arrival")
    key = ORDERS[validation.choice("queue_order", order, tuple(ORDERS))]
    if order == "gain" and not hints:
        raise ValueError(
            "queue_order 'gain' requires hints=True, since it is a heuristic's order of the queue"
        )
    margin = (BASE_POLICY.margin if hints else np.inf) if margin is None else margin
    validation.finite("exponent", exponent)
    if margin != np.inf:
        validation.finite("margin", margin, minimum=0)
    return Ranking(key, "cost_aware", exponent=exponent, margin=margin)


class PlainBatch(Batch):
    """Environments of the action `plain`.

    listed: int64 (N, K + R), job of each queue slot, then of each running slot; -1 where empty.
    """

    def __init__(
        self,
        windows: Sequence[PreparedWindow],
        count: int,
        *,
        observation: str | Observe | None = None,
        hints: bool = False,
        placed_by: str = "rule",
        victims_by: str = "agent",
        reward: str | Callable[..., Any] = "jct",
        queue_slots: int = QUEUE_SLOTS,
        running_slots: int = RUNNING_SLOTS,
        min_run_s: float = MIN_RUN_S,
        when_full: str = "claim",
        tau_s: float | None = 3600.0,
        **choices: Any,
    ) -> None:
        """Allocate the buffers; see `GPUClusterEnv` for the keywords."""
        self.actions = actions = plain_actions(queue_slots, running_slots, placed_by, victims_by, when_full)
        self._observation = plain_observation(observation, actions, validation.boolean("hints", hints))
        if actions.places > 1 or actions.pauses:
            self.no_advantage = (
                "requires placed_by='rule' and victims_by='rule', since it compares starts made by the base policy's "
                "rules"
            )
        self.last_resort = actions.pausing
        super().__init__(windows, count, reward=reward, **choices)
        if count > 1:
            self.refuse_several_sizes()
            if isinstance(self._observation, FromView):
                raise ValueError(
                    "observation: a compiled batch cannot call a function of the view; pass "
                    "vectorization_mode='sync' to gymnasium.make_vec"
                )
        self._tau_s = validation.time_constant("tau_s", tau_s)
        self._min_run_s = validation.finite("min_run_s", min_run_s, minimum=0)
        self.states = windows[0].episode.states[:1].repeat(count + 1)  # the last is for scratch work
        self.jobs = np.zeros((count, self.max_jobs), JOB)
        first = self.states[0]
        self.sizes = Sizes(*actions[:2], int(first.num_gpus), int(first.num_nodes))
        size = (
            width(actions.queue_slots)
            if self._observation.only_queue
            else parts_of(*self.sizes)["free_cores"].stop
        )
        self._caches = np.zeros(count, cache_dtype(self.states.dtype))
        self.listed = np.full((count, actions.queue_slots + actions.running_slots), -1, np.int64)
        self._rows = np.zeros((count, size), np.float32)
        self._masks = np.zeros((count, actions.wait + 1), np.int8)
        self.outcomes = np.zeros((count, len(stepping.OUTCOME)))
        self._max_instants = np.zeros(count)
        self._own_episode: Episode | None = None
        if isinstance(self._observation, FromView):
            self.seen_parts = self._observation.parts(windows[0].episode)
            self.seen_space = self._observation.space()
        else:
            self.seen_parts = self._observation.parts(self.sizes)
            self.seen_space = self._observation.space(self.sizes)
        self.action_space = MaskedDiscrete(actions.wait + 1)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy; the episode of a batch of one shares its record again."""
        vars(self).update(state)
        if self._own_episode is not None:
            self._share(self._own_episode)

    def _share(self, episode: Episode) -> None:
        """Use the records of an episode as those of a batch of one."""
        self._own_episode, self.states, self.jobs = episode, episode.states, episode.jobs[np.newaxis]

    def _begin(self, e: int, prepared: PreparedWindow) -> None:
        if self.count == 1:
            self._share(copy.deepcopy(prepared.episode))
            if self._caches.dtype != cache_dtype(self.states.dtype):
                self._caches = np.zeros(1, cache_dtype(self.states.dtype))
        else:
            template = prepared.episode
            self.states[e] = template.states[0]
            # All bytes at once: field by field it takes ten times as long.
            self.jobs[e, : len(template.jobs)].view(np.uint8)[:] = template.jobs.view(np.uint8)
        for known in ("known", "run_time_key", "running_key"):
            self._caches[known][e] = 0
        self.scale[e] = self.total[e] = prepared.reference_mean_jct_s
        self._max_instants[e] = MAX_INSTANTS_PER_JOB * len(prepared.workload.jobs)
        self.refresh(e)

    def refresh(self, e: int) -> None:
        """Observe environment e again, advancing it where it has no choice; for records changed from outside."""
        self._run(np.full(1, BEGIN), slice(e, e + 1))
        self.terminated, self.truncated = self.ends()
        self.over = self.terminated | self.truncated

    def _simulate(self, actions: np.ndarray) -> None:
        actions[self.over] = LEAVE
        each = -(-self.count // self.threads)
        in_threads(lambda part: self._run(actions[part], part), self.count, self.threads, each)

    def _run(self, actions: np.ndarray, part: slice) -> None:
        """Step some environments in one compiled call."""
        numbering = self.actions.queue_slots, self.actions.places, self.actions.lever, self._min_run_s
        written = self.listed[part], self._rows[part], self._masks[part], self.outcomes[part]
        stepping.step(self.states[part], self.jobs[part], self._caches[part], actions, *numbering, *written)

    def _clock(self) -> tuple[np.ndarray, np.ndarray]:
        return self.outcomes[:, NOW].copy(), self.outcomes[:, JOB_SECONDS].copy()

    def _in_units(self, job_seconds: np.ndarray) -> np.ndarray:
        found: np.ndarray = job_seconds / self.scale
        return found

    def _gain(self, began_s: np.ndarray, now_s: np.ndarray, job_seconds: np.ndarray) -> np.ndarray:
        end_s = np.where(self.outcomes[:, DONE] > 0, np.inf, now_s)
        return self._in_units(self._reference_until(end_s) - self._reference_until(began_s) - job_seconds)

    def _reference_until(self, time_s: np.ndarray) -> np.ndarray:
        """Return the integral of jobs present up to a time under the reference policy: float64 (N,)."""
        finish_s = self.finish[:, : self.jobs.shape[1]]  # a batch of one has the jobs of its window only
        present: np.ndarray = np.minimum(time_s[:, np.newaxis], finish_s) - self.jobs["submit_s"]
        total: np.ndarray = np.maximum(present, 0.0).sum(axis=1)
        return total

    def _advantage(self, actions: np.ndarray) -> np.ndarray:
        values = np.zeros(self.count)
        for e in np.flatnonzero(~self._own(actions) & ~self.over).tolist():
            job = int(self.listed[e, actions[e]]) if actions[e] < self.actions.queue_slots else -1
            jobs = self.jobs[e, : len(self.windows[self.window[e]].workload.jobs)]
            values[e] = calls.advantage(self.states, e, self.count, jobs, job, self._tau_s)
        return self._in_units(values)

    def _own(self, actions: np.ndarray) -> np.ndarray:
        """Return whether each action starts the job that the base policy would start next, or waits as it would."""
        slots, numbering = actions, self.actions
        if numbering.starts != numbering.wait or numbering.places > 1:
            slots = np.where(actions < numbering.starts, actions // numbering.places, -1)
            slots = np.where(actions == numbering.wait, numbering.queue_slots, slots)
        own: np.ndarray = slots == self.outcomes[:, OWN_CHOICE]
        return own

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return whether each episode has terminated, and whether it has been truncated: bool (N,)."""
        terminated = (self.outcomes[:, DONE] > 0) | self.counted_ended()
        truncated = (self.outcomes[:, ENDLESS] > 0) | (self.outcomes[:, INSTANTS] >= self._max_instants)
        return terminated, truncated & ~terminated

    def observe(self) -> Any:
        """Return the current observations without masks, as new arrays."""
        if isinstance(self._observation, FromView):
            return self._observation(self.view(0))[np.newaxis]
        return self._observation(self._rows, self.sizes)

    def masks(self) -> np.ndarray:
        """Return the legal actions as a new array: int8 (N, actions)."""
        return self._masks.copy()

    def why_not(self, e: int, action: int) -> str:
        """Return why an action is illegal now: an empty slot, a job that does not fit or may not be paused yet."""
        numbering, view = self.actions, self.view(e)
        starter = int(self._caches["starter"][e]) - 1
        is_pause = numbering.starts <= action < numbering.wait
        if starter >= 0 and not is_pause:
            return f"jobs are being chosen that pause for job {starter}: choose a running slot"
        if action == numbering.wait:
            return "no event is pending, so that waiting would never end: choose another action"
        slot = action - numbering.starts if is_pause else action // numbering.places
        queued, running = np.split(self.listed[e], [numbering.queue_slots])
        kind, shown = ("running", running) if is_pause else ("queue", queued)
        job = int(shown[slot])
        if job < 0:
            return f"{kind} slot {slot} is empty: {np.count_nonzero(shown >= 0)} of {len(shown)} hold a job"
        return self._why_no_pause(view, job, starter) if is_pause else self._why_no_start(e, view, job)

    def _why_no_start(self, e: int, view: View, job: int) -> str:
        """Return why a queued job of a slot cannot start."""
        if view.just_paused(job):
            return f"job {job} was paused, or failed, at this very instant: it may start from the next instant on"
        free, gpus = view.nodes.free_gpus, int(view.jobs.num_gpus[job])
        full = f"job {job} does not fit (GPUs requested: {gpus}, free: {free.sum():g}, free on one node: {free.max():g}"
        if free.max() >= gpus:
            full += ", where it lacks memory or cores, or may not run"
        full += ")"
        if not self.actions.pauses:
            return f"{full}, and no running jobs may be paused for it"
        if self.actions.when_full == "displace":
            return f"{full}, and the running slots show too few jobs that may be paused for it"
        if self.actions.when_full == "claim":
            scratch = np.zeros(self.actions.queue_slots, np.int8)
            listed = self.listed[e, : len(scratch)]
            claimant = int(claims.claimants(self.states.copy(), e, self.jobs[e], listed, scratch))
            if claimant >= 0:
                return f"{full}, and job {claimant} has a claim on GPUs already"
            if gpus < 2:
                return f"{full}, and a job of one GPU claims none"
            return f"{full}, and it may not claim any"
        return full

    def _why_no_pause(self, view: View, job: int, starter: int) -> str:
        """Return why a running job of a slot cannot be paused."""
        if reason := view.why_not(Preempt(job)):
            return reason
        ran_s = view.now - float(view.jobs.phase_began_s[job])
        if ran_s < self._min_run_s:
            return (
                f"job {job} has run for {ran_s:,.0f} s: it may be paused after min_run_s={self._min_run_s:g}"
            )
        if starter >= 0:
            return f"pausing job {job} does not help job {starter}, or it is chosen already"
        if self.actions.when_full == "displace":
            return "jobs pause only for one that starts: first choose a queued job that does not fit"
        return f"no job waits for the GPUs of job {job}"

    def num_unseen(self) -> np.ndarray:
        """Return the number of queued jobs beyond the slots: int64 (N,)."""
        unseen: np.ndarray = np.maximum(
            self.outcomes[:, QUEUED].astype(np.int64) - self.actions.queue_slots, 0
        )
        return unseen

    def _ratio(self, e: int, mean_jct_s: float, count: int) -> float:
        return float(mean_jct_s / self.scale[e])

    def episode(self, e: int) -> Episode:
        """Return an environment's episode: its own in a batch of one, else a copy."""
        return self._own_episode or super().episode(e)


class GPUClusterEnv(ClusterEnv):
    """Schedule deep-learning jobs on a GPU cluster by starting and pausing single jobs.

    ## Description
    An episode is a window of a trace: hundreds or thousands of jobs that arrive over time and request GPUs for some
    time. A step starts a job, pauses one, or waits for the next event; several steps may share an instant.
    Instants at which only waiting is legal are skipped. The queue is shown in the order of arrival. The base policy is
    the reference of scores and rewards, and makes the choices that are left to rules: FIFO by default; with
    `hints=True`, `baselines.xion_threshold` with `exponent` and `margin`, whose order the queue then has.

    ## Action Space
    MaskedDiscrete(n), int64. With K queue slots and R running slots:
    - starts of queue slot k, K actions: the scenario's placement rule places the job. With `placed_by="agent"`, 3 K
      actions 3 k + p: p is the placement rule, `first_fit`, `best_fit` or `spread`.
    - R pauses of running slot r, legal while a job waits for GPUs and once the job has run for `min_run_s`. With
      `victims_by="rule"` there are none, and a start that does not fit pauses the victims that `xion_threshold` would
      find for it at a margin of 0.
    - the last action waits for the next event; with `victims_by="agent"` ticks are no events, and it waits for an hour
      at most.
    `when_full` sets the effect of a start that does not fit, unless `victims_by="rule"`:
    - `claim`, the default: a job of several GPUs claims those that are expected to be released first, and starts when
      the last of them is. One claim may be pending, until every job that holds some of the GPUs has ended or pauses;
      then only jobs that fit can start.
    - `displace`: the next actions, all at the same instant, are pauses of running slots, until the GPUs of these jobs,
      of those that pause already and free ones are enough. Then the chosen jobs pause, and the GPUs are reserved for
      the new one. No other action pauses a job. Jobs with parameter servers only start where they fit.
    - `wait`: it is illegal.
    The mask of legal actions is `info["action_mask"]`, or `action_masks()` for MaskablePPO. `sample()` draws legal
    actions; `why_not(action)` says why one is illegal. An illegal action is replaced by the next legal one that is no
    pause: a start of a later slot, else waiting, or where that is illegal the first legal start. `info["illegal"]`
    counts these, and a UserWarning says so once.

    ## Observation Space
    `sets`, the default: Box, float32 (n,): the features of K queued jobs, totals of the cluster, legal starts and
    waiting, and the features of R jobs that have left the queue: running ones, those on claimed GPUs and then those
    with most time remaining, then those that load, pause, or have GPUs reserved; nothing of the base policy. `slots`,
    the default with `hints=True` and `victims_by="rule"`: Box, float32 (n,): the same features of queued jobs and
    totals, the logits of the base policy, and the mask. `tables`, the default with `placed_by="agent"`: Dict of float32
    vectors `free_memory` (share of each GPU's), `free_cores` (share of each node's), `queue`, `running` and `totals`.
    Times are log1p(seconds / 60) / 4. `columns` and `shapes` name every entry, and `parts(observation)` splits an
    observation. Of more than K queued jobs, the first K / 2 and the last K / 2 arrivals are shown, or in another order
    than that of arrival the first K. The base policy's own choice, if it is not among them, takes the last slot. With
    `mask="observation"`: Dict of `observations` and `action_mask`, int8 (n,).

    ## Rewards
    A module of `envs/rewards`, in units of `info["scale"]`, the base policy's mean JCT on the window, s:
    - `jct` (default): minus the integral of the number of jobs present. The undiscounted return times the scale is
      minus the total JCT.
    - `gain`: job-seconds saved relative to the base policy. The return times the scale is the base policy's total JCT
      minus the agent's.
    - `rollout_advantage`: discounted job-seconds by which the action beats the base policy's own; only with
      `placed_by="rule"` and `victims_by="rule"`.
    - `slowdown`: minus the increase of the mean slowdown, without a unit: the undiscounted return is minus the mean
      slowdown.
    - `regret`: minus the increase of the least total JCT, so that an action costs at once what it costs later.
    - `balanced_regret`: the same for the total JCT plus 100 s times the total slowdown.
    In a steady window rewards include all jobs present until the episode ends, `jct_ratio` only those that count.

    ## Starting State
    `reset` draws a window; `options={"window": n}` names one by its number, as in `info["window"]` and in results
    tables. `windows` lists the numbers. The first decision is when the first job arrives.

    ## Episode End
    Terminated when all jobs are done, in a steady window when those that count are done. Truncated after 1,000 instants
    per job, which only repeated pausing reaches, or when a job can never end.

    ## Information
    The same keys for every action and in every step, as NumPy scalars; arrays over the environments in a batch:
    - `action_mask`: int8 (n,), 1 where legal; all 1 for continuous actions.
    - `agrees`: bool, whether the action was the reference policy's own choice; False at a reset.
    - `elapsed`: float64, s, simulated time of the step; 0 at a reset.
    - `executed`: int64, the action that was executed: the given one, or the legal one that replaced it; -1 at a reset
      and for continuous actions. A replay buffer should store it instead of the given one.
    - `illegal`: int64, illegal actions replaced in this episode.
    - `scale`: float64, job-seconds per unit of reward.
    - `split`: str, and `window`: int64, split and number of the window.
    - `unseen`: int64, queued jobs beyond those that the observation shows one by one; 0 with `steer`.
    In the last step of a terminated episode also:
    - `mean_jct_s`: float64, s, mean job completion time.
    - `jct_ratio`: float64, `mean_jct_s` divided by the reference policy's: the base policy's, or for `moves` and
      `steer` that of `union`.

    ## Arguments
    - `workload`: a named workload; None means `quick`, or with a scenario's own trace, windows of that.
    - `scenario`: fields of `workloads.Scenario` that differ from the workload's.
    - `split`: `train`, `validation` or `test`; a full trace is the same episode in every split.
    - `count`: number of windows, from the start of the split.
    - `observation`: `sets`, `slots` or `tables`, another module of `envs/observations`, or a function of the view.
    - `hints`: whether a heuristic helps: it orders the queue, and `slots` shows its choice.
    - `placed_by`: `rule` or `agent`, which chooses the placement rule of a start.
    - `victims_by`: `rule` or `agent`, which chooses the running jobs to pause.
    - `reward`: a module of `envs/rewards`, or a function of a step's quantities, or its path `package.module:function`.
    - `queue_slots`: K, at least 1.
    - `running_slots`: R, at least 0.
    - `exponent`: exponent of a job's number of GPUs in the base policy's order.
    - `margin`: gain required of a pause under the base policy, in overheads; None means 8 with hints, else infinity.
    - `queue_order`: `arrival`, the order of submission, or `gain`, a heuristic's, which requires hints; None means
      `gain` with hints.
    - `min_run_s`: time since its last start after which an action may pause a job, s.
    - `when_full`: `wait`, `claim` or `displace`: effect of a start that does not fit; only with `victims_by="agent"`.
    - `tau_s`: time constant of `rollout_advantage`, s; None disables discounting.
    - `illegal`: replace an illegal action by the `next_legal` or the `first_legal` one, or `raise` a ValueError.
    - `mask`: `info`, or `observation` to put the action mask into the observation too.
    - `render_mode`: `ansi`, `rgb_array` (an image of nodes and GPUs by job, 480 x 640) or `human` (a window).
    """

    action_space: MaskedDiscrete
    batch: PlainBatch
    kind = PlainBatch

    def __init__(
        self,
        scenario: Mapping[str, Any] | None = None,
        *,
        workload: str | None = None,
        split: Split = "train",
        count: int = 64,
        observation: str | Observe | None = None,
        hints: bool = False,
        placed_by: str = "rule",
        victims_by: str = "agent",
        reward: str | Callable[..., Any] = "jct",
        queue_slots: int = QUEUE_SLOTS,
        running_slots: int = RUNNING_SLOTS,
        exponent: float = BASE_POLICY.exponent,
        margin: float | None = None,
        queue_order: str | None = None,
        min_run_s: float = MIN_RUN_S,
        when_full: str = "claim",
        tau_s: float | None = 3600.0,
        illegal: str = "next_legal",
        mask: str = "info",
        render_mode: str | None = None,
    ) -> None:
        """Choose the windows; nothing is simulated before the first reset."""
        choices = {
            "observation": observation,
            "hints": hints,
            "placed_by": placed_by,
            "victims_by": victims_by,
            "reward": reward,
            "queue_slots": queue_slots,
            "running_slots": running_slots,
            "min_run_s": min_run_s,
            "when_full": when_full,
            "tau_s": tau_s,
            "illegal": illegal,
            "mask": mask,
        }
        self.base_policy = base_policy(
            exponent, margin, queue_order, hints=validation.boolean("hints", hints)
        )
        super().__init__(prepare(scenario, workload, split, count, self.base_policy), render_mode, choices)

    @property
    def episode(self) -> Episode:
        """The current episode, live: changes to it change the environment."""
        return self.batch.episode(0)

    @property
    def queue(self) -> np.ndarray:
        """Job of each queue slot, -1 where empty: int64 (K,)."""
        return self.batch.listed[0, : self.batch.actions.queue_slots]

    @property
    def running(self) -> np.ndarray:
        """Job of each running slot, -1 where empty: int64 (R,)."""
        return self.batch.listed[0, self.batch.actions.queue_slots :]

    @property
    def own_choice(self) -> int:
        """Queue slot of the job that the base policy would start next, K for waiting."""
        return int(self.batch.outcomes[0, OWN_CHOICE])
