"""AITurbo in plain Python, with which the compiled policy is compared move by move."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from gpu_cluster_gym.simulator.policy import Action
from gpu_cluster_gym.simulator.speed_model import Speeds, seconds
from gpu_cluster_gym.simulator.vocabulary import MAX_SERVERS, NOBODY, QUEUED, RUNNING
from tests.accounts.shape_rounds import Rounds
from tests.accounts.shapes import Now, Request, Shape, active, held, smaller

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

GPU_SERVICE, CORES_SERVICE = 10.0, 5.0  # of a GPU, and of a server's or CPU worker's 5 cores (Aiturbo-vGPU)
THRESHOLDS = (30.0, 180.0)  # points at which the next queue begins, for SCALE jobs (as there)
SCALE = 60.0
STEPS = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])  # of workers and servers


class AiturboByHand:
    """One episode of the policy; see `baselines.aiturbo.Aiturbo`."""

    def __init__(
        self,
        borda: bool = True,
        elastic: bool = True,
        cpu_workers: bool = True,
        round_s: float = 240.0,
        predictable: Literal["given", "all", "none"] = "given",
        servers_on_gpus: bool = False,
        queues: bool = False,
    ) -> None:
        """Choose the parts; see `Aiturbo`."""
        self._borda, self._elastic, self._cpu_workers = borda, elastic, cpu_workers
        self._queues = queues
        self._predictable, self._apart = predictable, servers_on_gpus
        self._rounds = Rounds(self._plan, round_s, self._note)
        self._speeds = Speeds()
        self._wanted = np.zeros((0, 2), int)  # workers and servers that each job is to have
        self._benefit = np.zeros(0)  # of each job's best step; nan where it has none

    def __call__(self, view: "View") -> Action:
        """Return the next move."""
        return self._rounds(view)

    def _plan(self, now: Now, full: bool) -> list[Request]:
        """Return the requests of jobs with GPUs, the most urgent first."""
        jobs = active(now)
        able = jobs[:0]
        if self._elastic and self._predictable != "none":
            able = jobs[now.jobs.is_predictable[jobs]] if self._predictable == "given" else jobs
        if full:
            self._tune(now, able, bool((now.jobs.phase[jobs] == QUEUED).any()))
        ways = {
            job: [self._shape(*shape)]
            for job, shape in zip(jobs.tolist(), self._wanted[jobs].tolist(), strict=True)
        }
        for job, least in zip(able.tolist(), now.jobs.min_workers[able].tolist(), strict=True):
            ways[job] += smaller(ways[job][0], least)
        off_gpus = (now.jobs.phase[jobs] == QUEUED) | (now.jobs.node[jobs] != NOBODY)
        able = jobs[off_gpus & (now.jobs.cpu_slowdown[jobs] > 0)]
        if self._cpu_workers and len(able):
            self._add_cores(now, able, ways)
        return [Request(job, ways[job]) for job in self._order(now, jobs).tolist()]

    def _note(self, now: Now) -> None:
        """Note the shapes that jobs have on GPUs, or request if they never had any, as wanted."""
        known = len(self._wanted)
        ask = np.column_stack([now.jobs.num_gpus[known:], now.jobs.servers[known:]])
        self._wanted = np.vstack([self._wanted, ask])
        self._benefit = np.append(self._benefit, np.full(len(ask), np.nan))
        have = np.flatnonzero(now.jobs.gpus_now)
        self._wanted[have] = np.column_stack([now.jobs.workers_now[have], now.jobs.servers_now[have]])

    def _shape(self, workers: int, servers: int) -> Shape:
        return Shape(workers, servers, apart=self._apart and servers > 0)

    def _tune(self, now: Now, jobs: np.ndarray, crowded: bool) -> None:
        """Find the step of each of these jobs that saves most, and want its shape where it pays."""
        benefits = self._benefits(now, jobs, self._wanted[jobs, None], crowded)
        best = benefits.max(axis=1)
        self._benefit[:] = np.nan
        self._benefit[jobs] = np.where(best > -np.inf, best, np.nan)
        self._wanted[jobs] += STEPS[benefits.argmax(axis=1)] * (best > 0)[:, None]

    def _benefits(self, now: Now, jobs: np.ndarray, shapes: np.ndarray, crowded: bool) -> np.ndarray:
        """Return the service that each step would save each job (jobs, steps), less what its restart takes."""
        after = shapes + STEPS
        workers, servers = after[..., 0], after[..., 1]
        exchanges = np.where(shapes[..., 1] > 0, (servers > 0) & (servers <= MAX_SERVERS), servers == 0)
        possible = (workers >= now.jobs.min_workers[jobs, None]) & (
            workers <= now.jobs.max_workers[jobs, None]
        )
        possible &= (workers + servers * self._apart <= len(now.gpus.first_owner)) & exchanges
        fitted = self._speeds.of(now.view, jobs)
        as_asked = seconds(fitted, now.jobs.num_gpus[jobs], now.jobs.servers[jobs], 0)
        iterations = (now.jobs.remaining_s[jobs] / as_asked)[:, None]
        price, new_price = (self._service(shape) if crowded else 1.0 for shape in (shapes, after))
        restart = now.jobs.pause_s[jobs, None] * price + now.jobs.load_s[jobs, None] * new_price
        cost = iterations * seconds(fitted[:, None], shapes[..., 0], shapes[..., 1], 0) * price
        new_cost = iterations * seconds(fitted[:, None], np.maximum(workers, 1), servers, 0) * new_price
        saved = cost - new_cost - restart * (now.jobs.phase[jobs] == RUNNING)[:, None]
        return np.where(possible, saved, -np.inf)

    def _service(self, shapes: np.ndarray) -> np.ndarray:
        """Return the service that shapes (..., workers and servers) take in a second."""
        rate: np.ndarray = shapes @ [GPU_SERVICE, GPU_SERVICE if self._apart else CORES_SERVICE]
        return rate

    def _add_cores(self, now: Now, jobs: np.ndarray, ways: dict[int, list[Shape]]) -> None:
        """Request CPU workers where they are worth a restart, and GPUs where these are: changes `ways`."""
        fitted = self._speeds.of(now.view, jobs)
        wanted = self._wanted[jobs]
        as_asked = seconds(fitted, now.jobs.num_gpus[jobs], now.jobs.servers[jobs], 0)
        restart_s = now.jobs.pause_s[jobs] + now.jobs.load_s[jobs]
        waited_s = (now.view.now - now.jobs.phase_began_s[jobs]) * (now.jobs.phase[jobs] == QUEUED)
        bearable = waited_s / np.maximum(restart_s, 1e-9) * as_asked  # slowest iteration
        for k in np.flatnonzero(bearable > seconds(fitted, wanted[:, 0], wanted[:, 1], 1)).tolist():
            on_cores = [shape._replace(on_cpu=True, apart=False) for shape in ways[jobs[k]]]
            ways[jobs[k]] += [shape for shape in on_cores if seconds(fitted[k], *shape[:3]) < bearable[k]]
        for k in np.flatnonzero(now.jobs.node[jobs] != NOBODY).tolist():
            here = held(now, jobs[k])
            slower = seconds(fitted[k], *here[:3]) - seconds(fitted[k], *ways[jobs[k]][0][:3])
            pays = now.jobs.remaining_s[jobs[k]] / as_asked[k] * slower > restart_s[k]
            ways[jobs[k]].insert(len(ways[jobs[k]]) if pays else 0, here)

    def _order(self, now: Now, jobs: np.ndarray) -> np.ndarray:
        """Return jobs sorted by the queue of their points and by arrival, without queues by points and by arrival."""
        count = len(jobs)
        attained = rank(GPU_SERVICE * now.jobs.gpu_seconds[jobs] + now.jobs.core_seconds[jobs])
        benefit = self._benefit[jobs]
        voters = np.flatnonzero(np.isfinite(benefit)) if self._borda else jobs[:0]
        second = attained.copy()
        second[voters] = rank(-benefit[voters]) * (count - 1) / max(len(voters) - 1, 1)
        points = attained + second
        queue = np.searchsorted(np.array(THRESHOLDS) * count / SCALE, points, side="right")
        order: np.ndarray = jobs[np.lexsort((jobs, queue if self._queues else points))]
        return order


def rank(values: np.ndarray) -> np.ndarray:
    """Return the place of each value, 0 for the smallest; of equal ones the first comes first."""
    place = np.empty(len(values))
    place[np.argsort(values, kind="stable")] = np.arange(len(values))
    return place
