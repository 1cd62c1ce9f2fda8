"""First in, first out; add a core per GPU to running jobs for as long as this raises GPU utilisation."""

from typing import TYPE_CHECKING

from gpu_cluster_gym.simulator.policy import Action, Resize, Start, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

WINDOW_S = 60.0
GAIN = 0.06  # minimum gain per core: two measured windows differ by about .03 by chance


class OneCoreMore:
    """State of one episode: measurements of each job, and the jobs with final cores."""

    def __init__(self) -> None:
        self._window: dict[int, tuple[float, float]] = {}  # start time, busy seconds at the start
        self._before: dict[int, float] = {}  # utilisation with one core less
        self._settled: set[int] = set()

    def __call__(self, view: "View") -> Action:
        """Start the first job that fits, change the cores of a running job, or wait for a window."""
        for job in view.queue.tolist():
            if placement := view.place(job):
                return Start(job, placement)
        for job in view.running.tolist() if view.cpu_limited else ():
            if (
                job not in self._settled
                and not view.jobs.is_cpu_job[job]
                and (change := self._tune(view, job))
            ):
                return change
        return Wait(WINDOW_S)

    def _tune(self, view: "View", job: int) -> Resize | None:
        began, busy_s = self._window.setdefault(job, (view.now, view.jobs.busy_s[job]))
        if (spent := view.now - began) < WINDOW_S:
            return None
        utilisation = (view.jobs.busy_s[job] - busy_s) / spent
        self._window[job] = (view.now, view.jobs.busy_s[job])
        if job in self._before and utilisation < self._before[job] + GAIN:
            self._settled.add(job)
            return Resize(job, view.jobs.cores_now[job] - 1)
        more = Resize(job, view.jobs.cores_now[job] + 1)
        if view.why_not(more):
            self._before.pop(job, None)
            return None
        self._before[job] = utilisation
        return more


policy = OneCoreMore
