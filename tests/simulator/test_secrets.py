"""Future failures of jobs and nodes, and the scaling of a job, are hidden from every policy."""

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.policy import Action
from gpu_cluster_gym.simulator.view import Column, Reading, View
from tests.cases import tiny
from tests.cases.mixed_jobs import Whims, mixed_table, sensible, workload


def shown(view: View) -> bytes:
    """Return everything that a view shows of jobs, GPUs and nodes."""
    columns = [name for name, what in vars(View).items() if isinstance(what, Column | Reading)]
    whole = [
        view.now,
        view.jobs.remaining_s,
        view.jobs.attained_s,
        *(getattr(view, name) for name in columns),
    ]
    return tiny.bits([*whole, *(view.profile(job) for job in np.flatnonzero(view.jobs.num_gpus).tolist())])


def looks(table: pd.DataFrame, until: float) -> list[bytes]:
    """Return the observations of a random policy up to a moment."""
    episode = workload(table, physics="all").episode()
    whims = Whims(lambda action: not episode.why_not(action), 0)
    seen: list[bytes] = []

    def watched(view: View) -> Action:
        if view.now < until:
            seen.append(shown(view))
        return whims(view) if view.now < until else sensible(view)

    run(watched, episode)
    return seen


@pytest.mark.parametrize("secret", ["predictable_from", "crash_at"])
def test_no_policy_sees_future_failures(secret: str) -> None:
    """No job reaches three quarters of its progress in the first 300 s, so failures after that make no difference."""
    table = mixed_table(np.random.default_rng(1), 20)
    table = table.assign(submit_s=table["submit_s"] / 20, duration_s=2000.0 + table["duration_s"])
    some, others = table.assign(**{secret: 0.75}), table.assign(**{secret: np.linspace(0.8, 1, 20)})
    assert looks(some, 300.0) == looks(others, 300.0)
    assert looks(some, 2000.0) != looks(others, 2000.0)


def test_a_view_has_no_name_for_it() -> None:
    secrets = {
        "predictable_from",
        "crash_at",
        "scaling_loss",
        "late_estimate",
        "fail_at",
        "drain_at",
        "duration",
    }
    assert secrets.isdisjoint(dir(View))


def test_scaling_of_a_job_shows_only_in_its_profile() -> None:
    """The profile has an error, the same at every reading."""
    table = mixed_table(np.random.default_rng(1), 20, cpu_share=0.0).assign(submit_s=0.0)
    table = table.assign(submit_s=np.zeros(20), scaling_loss=0.0, sync_gb=0.0, servers=0, cpu_slowdown=2.0)
    views = [workload(table.assign(scaling_loss=loss), physics="all").episode() for loss in (0.0, 0.3)]
    for episode in views:
        episode.advance()
    one, other = (episode.view.profile(0) for episode in views)
    assert (one == views[0].view.profile(0)).all()
    assert not np.allclose(one[:, 3], other[:, 3])
    task = table.iloc[0]
    alone_s = (task["active_ms"] + task["idle_ms"]) / 1000 * task["num_gpus"]
    errors = np.log(one[:, 3] / (alone_s / one[:, 0] * np.where(one[:, 2], 2.0, 1.0)))
    assert 0 < np.abs(errors).max() < 0.25
