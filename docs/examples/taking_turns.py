"""Time-slice jobs: pause a job after an hour if the first queued job needs at most as many GPUs."""

from typing import TYPE_CHECKING

from gpu_cluster_gym.simulator.policy import Action, Preempt, Start, Wait

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.view import View

TURN_S = 3600.0


class TakingTurns:
    """State of one episode: the end of each job's last turn."""

    def __init__(self) -> None:
        self._ended: dict[int, float] = {}

    def __call__(self, view: "View") -> Action:
        """Start the job that has waited longest for a turn, pause one that has had its turn, or wait."""
        waiting = sorted(view.queue.tolist(), key=lambda job: self._ended.get(job, view.jobs.submit_s[job]))
        for job in waiting:
            if not view.just_paused(job) and (placement := view.place(job)):
                return Start(job, placement)
        if waiting and not len(view.pausing):
            for job in view.preemptible.tolist():
                if (
                    self._has_had_its_turn(view, job)
                    and view.jobs.num_gpus[job] >= view.jobs.num_gpus[waiting[0]]
                ):
                    self._ended[job] = view.now
                    return Preempt(job)
        return Wait(300.0)

    def _has_had_its_turn(self, view: "View", job: int) -> bool:
        return bool(view.now - view.jobs.phase_began_s[job] >= TURN_S)


policy = TakingTurns
