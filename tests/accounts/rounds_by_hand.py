"""Priority rounds in plain Python, with which the compiled ones are compared move by move, and Tiresias' order."""

from collections.abc import Callable, Iterator

import numpy as np

from gpu_cluster_gym.baselines.las import LIMITS
from gpu_cluster_gym.simulator.kernel.rounds.rechecks import MAX_RECHECKS, RECHECK_S
from gpu_cluster_gym.simulator.policy import Action, Wait
from gpu_cluster_gym.simulator.priority_rounds import ROUND_S, Requests
from gpu_cluster_gym.simulator.search import grants, queued_or_running
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.simulator.vocabulary import QUEUED


class RoundsByHand:
    """Moves of a policy that decides which jobs run at each arrival, and at intervals while jobs wait for GPUs."""

    def __init__(self, order: Callable[[View], Requests], every_s: float = ROUND_S) -> None:
        """Take the function that returns the requests of an instant."""
        self._order, self._every_s = order, every_s
        self._instant, self._arrived, self._began_s = -1, 0, -np.inf
        self._settled: tuple[bytes, ...] = ()
        self._is_idle = False  # whether nothing fits at this instant, and no move has been made
        self._moves: Iterator[Action] = iter(())

    def __call__(self, view: View) -> Action:
        """Return the next move of this instant, then a wait."""
        if view.instant != self._instant:
            self._instant = view.instant
            self._moves = self._begin(view)
        if move := next(self._moves, None):
            self._is_idle = False
            return move
        waits = view.jobs.num_gpus[view.queue].any() and len(view.running)
        return Wait(self._recheck_s(view)) if waits else Wait()

    def _recheck_s(self, view: View) -> float:
        now = view.now
        until = now + RECHECK_S
        if self._is_idle and not any(view.just_paused(job) for job in view.queue.tolist()):
            due_s, most = self._began_s + self._every_s, now + MAX_RECHECKS * RECHECK_S
            while until < min(due_s, most):
                until += RECHECK_S
        return until - now if now + (until - now) == until else RECHECK_S

    def _begin(self, view: View) -> Iterator[Action]:
        """Return the moves of this instant, none where all is as it was when the last round began."""
        due, fits = self._is_due(view), any(not view.just_paused(job) for job in view.startable.tolist())
        self._is_idle = not fits
        if not due and not fits:
            return iter(())
        requests = self._order(view)
        if not due:
            return grants(view, *requests, pausing=False)
        before, here = self._settled, (view.preemptible, view.pausing, view.nodes.free_gpus)
        self._settled = tuple(array.tobytes() for array in (*requests, *here))
        return grants(view, *requests) if fits or self._settled != before else iter(())

    def _is_due(self, view: View) -> bool:
        arrived, now = len(view.jobs.phase), view.now
        if arrived == self._arrived and now < self._began_s + self._every_s:
            return False
        self._arrived, self._began_s = arrived, now
        return True


class LevelsByHand:
    """Tiresias' order: levels of attained service, with a way back for jobs that starve."""

    def __init__(
        self, limits: tuple[float, ...] = LIMITS, starve: float = 8.0, *, servers_on_gpus: bool = False
    ) -> None:
        """Begin without promotions."""
        self._limits, self._starve, self._apart = limits, starve, servers_on_gpus
        self._promoted_at_s: dict[int, float] = {}  # what each job had run when it was last sent back

    def __call__(self, view: View) -> Requests:
        """Return the requests of an instant."""
        rows = sorted((self._level(view, job), job) for job in queued_or_running(view).tolist())
        order = np.array([job for _, job in rows], np.int64)
        gpus = view.jobs.num_gpus[order]
        return Requests(order, gpus + view.jobs.servers[order] if self._apart else gpus)

    def _level(self, view: View, job: int) -> int:
        jobs = view.jobs
        ran_s = float(jobs.ran_s[job])
        promoted_at_s = self._promoted_at_s[job] = min(self._promoted_at_s.get(job, 0.0), ran_s)
        service = (ran_s - promoted_at_s) * float(jobs.num_gpus[job])
        level = sum(limit <= service for limit in self._limits)
        waited_s = view.now - jobs.phase_began_s[job]
        if level and jobs.phase[job] == QUEUED and waited_s / self._starve >= ran_s:
            self._promoted_at_s[job] = ran_s
            return 0
        return level
