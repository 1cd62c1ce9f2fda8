"""Account of an episode kept from outside, and the laws that it must obey after every event."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import numpy as np

from gpu_cluster_gym.simulator.episode import Episode, asking, discipline_of
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster import legality
from gpu_cluster_gym.simulator.kernel.cluster.layout import (
    DONE,
    FUTURE,
    LOADING,
    PAUSING,
    QUEUED,
    RESERVED,
    RUNNING,
)
from gpu_cluster_gym.simulator.policy import Action, Policy, Ranking, Start, Wait
from gpu_cluster_gym.simulator.source import Record, adopt

ROUNDING = 1e-9  # of sums of many times


class Ledger:
    """Observer of an episode that integrates its state between events and records broken laws.

    broken: first time of each broken law.
    seconds: (phase, job), spent in each phase.
    busy_s: GPU-seconds held.
    present_s: job-seconds present.
    moves: (clock, action) of all applied actions.
    """

    def __init__(self, episode: Episode) -> None:
        self.episode = episode
        self.state = Record(episode.states, 0)
        self.jobs = episode.jobs.copy()
        self.count = len(episode.jobs)
        self.broken: dict[str, float] = {}
        self.seconds = np.zeros((DONE + 1, self.count))
        self.busy_s = 0.0
        self.present_s = 0.0
        self.moves: list[tuple[float, Action]] = []
        self.clock = -inf
        self.ended = np.full(self.count, np.nan)

    def play(self, policy: Policy) -> "Ledger":
        """Let a policy act to the end of the episode, or until a law is broken."""
        while not self.episode.done and not self.broken and self.advance():
            action: Action | None = None
            while not self.broken and not isinstance(action, Wait):
                action = asking(policy, self.episode)()
                self.apply(action)
        return self.close()

    def walk(self, ranking: Ranking) -> "Ledger":
        """Let the kernel carry out a ranking, instant by instant, to the end of the episode."""
        self.episode.set_levels(ranking.levels)
        self.episode.state.discipline = discipline_of(ranking, self.episode.discipline)
        adopt(self.episode.states, 0, self.jobs, ranking)
        while not self.episode.done and not self.broken and self.advance():
            calls.walk(self.episode.states, 0, self.jobs)
            self.look()
        return self.close()

    def apply(self, action: Action) -> None:
        """Carry out an action that the view reported as legal."""
        self.moves.append((float(self.state.clock), action))
        if self.episode.why_not(action):
            self.broken["what looks possible is legal"] = float(self.state.clock)
        else:
            self.episode.apply(action)
            self.look()

    def lead(self, ranking: Ranking, until_s: float) -> "Ledger":
        """Let a ranking lead, from the first job on, to the time at which another policy begins."""
        self.episode.state.discipline = discipline_of(ranking, self.episode.discipline)
        adopt(self.episode.states, 0, self.jobs, ranking)
        while self.integrate(lambda: calls.step_until(self.episode.states, 0, self.jobs, until_s)):
            self.look()
        self.clock = float(self.state.clock)
        return self

    def advance(self) -> bool:
        """Advance to the next instant and integrate what was seen until then; return whether there was one."""
        moved = self.integrate(self.episode.advance)
        self.look()
        return moved

    def integrate(self, move: Callable[[], bool]) -> bool:
        """Move on in time and add what was seen until then; return what the move returns."""
        began, phase = float(self.state.clock), self.phase.copy()
        held = np.count_nonzero(self.episode.view.gpus.first_owner >= 0)
        moved = move()
        lasted = float(self.state.clock) - began
        self.seconds[phase, np.arange(self.count)] += lasted
        self.busy_s += held * lasted
        self.present_s += np.count_nonzero((phase != FUTURE) & (phase != DONE)) * lasted
        return moved

    def look(self) -> None:
        """Record every law that does not hold now."""
        self.note(AT_ANY_MOMENT)
        self.clock = float(self.state.clock)
        self.ended = np.where(np.isnan(self.ended), self.column("finish_s"), self.ended)

    def close(self) -> "Ledger":
        """Record every law about the whole episode that does not hold, unless another law has stopped it."""
        if not self.broken:
            self.note(AT_THE_END)
        return self

    def note(self, laws: Mapping[str, Callable[["Ledger"], Any]]) -> None:
        for name, holds in laws.items():
            if not np.logical_and.reduce(holds(self), axis=None):
                self.broken.setdefault(name, float(self.state.clock))

    @property
    def phase(self) -> np.ndarray:
        return self.column("phase")

    def column(self, name: str) -> np.ndarray:
        """Return a field of the record over jobs."""
        return self.state.array(name)[: self.count]

    def jct(self) -> np.ndarray:
        return np.asarray(self.column("finish_s") - self.jobs["submit_s"])

    def gpus_by_job(self, owners: np.ndarray) -> np.ndarray:
        """Count the GPUs that each job has, by the owner of each GPU."""
        return np.bincount(owners[owners >= 0], minlength=self.count)

    def per_node(self, weights: np.ndarray) -> np.ndarray:
        """Sum a quantity of the GPUs over each node."""
        view = self.episode.view
        return np.bincount(view.gpus.node, weights, minlength=len(view.nodes.num_gpus))

    def of_holder(self, name: str) -> np.ndarray:
        """Return a quantity of the job that holds each GPU, 0 for free GPUs."""
        holder = self.episode.view.gpus.first_owner
        return np.where(holder >= 0, self.jobs[name][holder], 0)


def own_check_of_the_core_finds_nothing(ledger: Ledger) -> Any:
    return int(legality.check(ledger.episode.states, 0, ledger.jobs)) == 0


def clock_never_runs_back(ledger: Ledger) -> Any:
    return ledger.state.clock >= ledger.clock


def submitted_jobs_have_arrived(ledger: Ledger) -> Any:
    here = ledger.phase != FUTURE
    return np.array_equal(here, ledger.jobs["submit_s"] <= ledger.state.clock) or not ledger.state.instant


def gang_has_all_or_nothing(ledger: Ledger) -> Any:
    phase = ledger.phase
    active = (phase == RUNNING) | (phase == LOADING) | (phase == PAUSING)
    return ledger.gpus_by_job(ledger.episode.view.gpus.first_owner) == active * ledger.jobs["num_gpus"]


def reservations_are_for_gpus_being_freed(ledger: Ledger) -> Any:
    """Except for claims, and reservations of a moving job: it pauses itself, and all its GPUs may be free already."""
    view, reserved = ledger.episode.view, ledger.phase == RESERVED
    moving = ledger.state.moves[: len(reserved)] > 0
    whole = ledger.gpus_by_job(view.gpus.reserved_for) == (reserved | moving) * ledger.jobs["num_gpus"]
    awaited = (view.gpus.reserved_for >= 0) & (view.gpus.first_owner >= 0)
    for_somebody = ledger.gpus_by_job(view.gpus.reserved_for[awaited]) > 0
    sound = whole & ((for_somebody == reserved) | moving)
    claims = {action.job for _, action in ledger.moves if isinstance(action, Start) and action.claim}
    awaited &= ~np.isin(view.gpus.reserved_for, list(claims))
    holders = view.gpus.first_owner[awaited]
    return np.append(sound, np.isin(holders, view.pausing)) if len(holders) else sound


def memory_adds_up(ledger: Ledger) -> Any:
    view = ledger.episode.view
    free = view.nodes.gpu_memory_gib[view.gpus.node] - ledger.of_holder("profiled_memory_gib")
    return (view.gpus.free_memory_gib == free) & (free >= 0)


def cores_add_up(ledger: Ledger) -> Any:
    free = ledger.episode.view.nodes.cores - ledger.per_node(ledger.of_holder("cores_each"))
    return (abs(ledger.episode.view.nodes.free_cores - free) < ROUNDING) & (free > -ROUNDING)


def free_gpus_are_counted(ledger: Ledger) -> Any:
    view = ledger.episode.view
    free = ledger.per_node((view.gpus.first_owner < 0) & (view.gpus.reserved_for < 0))
    return np.append(view.nodes.free_gpus == free, ledger.state.num_free == free.sum())


def queue_has_the_queued_jobs(ledger: Ledger) -> Any:
    return np.array_equal(ledger.episode.view.queue, np.flatnonzero(ledger.phase == QUEUED))


def job_ends_once(ledger: Ledger) -> Any:
    done, finish = ledger.phase == DONE, ledger.column("finish_s")
    before = ~np.isnan(ledger.ended)
    once = (finish == ledger.ended) & done
    return np.append(np.where(before, once, np.isnan(finish) | done), ledger.state.num_done == done.sum())


def no_job_exceeds_its_work(ledger: Ledger) -> Any:
    return (ledger.column("attained_s") >= 0) & (ledger.column("attained_s") <= ledger.jobs["duration_s"])


def every_job_ends(ledger: Ledger) -> Any:
    return ledger.phase == DONE


def served_work_is_requested_work(ledger: Ledger) -> Any:
    return np.isclose(ledger.seconds[RUNNING], ledger.jobs["duration_s"], ROUNDING)


def pauses_and_loads_take_their_time(ledger: Ledger) -> Any:
    times = ledger.column("preemptions") + ledger.column("resizes")
    pausing = np.isclose(ledger.seconds[PAUSING], times * ledger.jobs["pause_s"], ROUNDING)
    return pausing & np.isclose(ledger.seconds[LOADING], times * ledger.jobs["load_s"], ROUNDING)


def columns_match_observations(ledger: Ledger) -> Any:
    waited = ledger.seconds[QUEUED] + ledger.seconds[RESERVED]
    spent = ledger.seconds[PAUSING] + ledger.seconds[LOADING]
    wait = np.isclose(ledger.column("wait_s"), waited, ROUNDING, ROUNDING)
    return wait & np.isclose(ledger.column("overhead_s"), spent, ROUNDING, ROUNDING)


def jct_is_wait_run_and_overhead(ledger: Ledger) -> Any:
    parts = ledger.column("wait_s") + ledger.column("attained_s") + ledger.column("overhead_s")
    return np.isclose(ledger.jct(), parts, ROUNDING)


def busy_is_useful_and_overhead(ledger: Ledger) -> Any:
    used = ledger.jobs["num_gpus"] * (ledger.jobs["duration_s"] + ledger.column("overhead_s"))
    return np.isclose(ledger.busy_s, used.sum(), ROUNDING)


def jobs_present_are_times_in_system(ledger: Ledger) -> Any:
    return np.isclose([ledger.present_s, ledger.state.present_seconds], ledger.jct().sum(), ROUNDING)


def all_is_given_back(ledger: Ledger) -> Any:
    view = ledger.episode.view
    whole = view.gpus.free_memory_gib == view.nodes.gpu_memory_gib[view.gpus.node]
    return np.concatenate(
        [whole, view.nodes.free_cores == view.nodes.cores, view.nodes.free_gpus == view.nodes.num_gpus]
    )


AT_ANY_MOMENT = {
    law.__name__.replace("_", " "): law
    for law in (
        own_check_of_the_core_finds_nothing,
        clock_never_runs_back,
        submitted_jobs_have_arrived,
        gang_has_all_or_nothing,
        reservations_are_for_gpus_being_freed,
        memory_adds_up,
        cores_add_up,
        free_gpus_are_counted,
        queue_has_the_queued_jobs,
        job_ends_once,
        no_job_exceeds_its_work,
    )
}
AT_THE_END = {
    law.__name__.replace("_", " "): law
    for law in (
        every_job_ends,
        served_work_is_requested_work,
        pauses_and_loads_take_their_time,
        columns_match_observations,
        jct_is_wait_run_and_overhead,
        busy_is_useful_and_overhead,
        jobs_present_are_times_in_system,
        all_is_given_back,
    )
}
