"""The speed model that AITurbo and Optimus fit to profiles predicts plausible and accurate speeds."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_cluster_gym.simulator.cluster import Cluster
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.speed_model import NUM_TERMS, fit, seconds
from tests.policies.test_elastic_policies import begin

SHAPES = st.tuples(st.integers(1, 64), st.integers(0, 10), st.integers(0, 1))
EVERY = np.array([(w, p, z) for w in (1, 2, 3, 8, 33) for p in (1, 2, 5, 10) for z in (0, 1)])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(SHAPES, st.floats(1e-6, 1e6)), min_size=1, max_size=40))
def test_no_step_takes_less_than_nothing_whatever_was_measured(rows: list[tuple[Any, float]]) -> None:
    """The authors' own coefficients predict such steps. On cores none is faster; computing never slows."""
    fitted = fit(np.array([(*shape, time) for shape, time in rows]))
    assert (fitted >= 0).all()
    foretold = seconds(fitted, *EVERY.T)
    assert (foretold > 0).all()
    assert (foretold[EVERY[:, 2] == 1] >= foretold[EVERY[:, 2] == 0]).all()
    no_exchange = np.where(np.isin(np.arange(NUM_TERMS), (2, 3)), 0.0, fitted)
    assert (np.diff(seconds(no_exchange, np.arange(1, 20), 1, 0)) <= 1e-9 * foretold.max()).all()


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(0, 10), min_size=NUM_TERMS, max_size=NUM_TERMS).filter(lambda th: sum(th[:2]) > 0.1)
)
def test_a_job_that_follows_the_model_is_predicted_exactly(truth: list[float]) -> None:
    shapes = np.array([(w, p, z) for w in (1, 2, 4, 8) for p in (1, 2, 4, 8) for z in (0, 1)], float)
    true_s = seconds(np.array(truth), *shapes.T)
    fitted = fit(np.column_stack([shapes, true_s]))
    assert seconds(fitted, *EVERY.T) == pytest.approx(seconds(np.array(truth), *EVERY.T), rel=1e-6)


def test_measurements_that_cannot_be_are_left_out() -> None:
    rows = np.array([(1, 0, 0, 8.0), (2, 0, 0, 4.0), (4, 0, 0, 0.0), (8, 0, 0, np.nan), (4, 0, 0, np.inf)])
    assert seconds(fit(rows), np.array([1, 2, 4]), 0, 0) == pytest.approx([8, 4, 2])
    assert seconds(fit(rows[2:]), np.array([1, 2]), np.array([0, 3]), np.array([0, 1])).tolist() == [1, 1]


@pytest.mark.parametrize("servers", [0, 2])
def test_it_foretells_the_simulators_jobs_within_the_profilers_error(servers: int) -> None:
    """Shapes that were not measured, too: 3, 5, 6, 7 workers; 3 and 5 to 10 servers; 5 % is a measurement's error."""
    job = {"num_gpus": 2, "servers": servers, "sync_gb": 0.1, "scaling_loss": 0.1, "max_workers": 8}
    errors = []
    for seed in range(12):
        episode = begin(job | {"cpu_slowdown": 5.0}, cluster=Cluster("x", (8,), (16.0,), (96,)), seed=seed)
        counts = range(1, 11) if servers else (0,)
        shapes = np.array([(w, p, z) for w in range(1, 9) for p in counts for z in (0, 1)])
        true_s = np.empty(len(shapes))
        calls.iterations(episode.states, 0, episode.jobs, 0, shapes, true_s)
        fitted = fit(episode.view.profile(0))
        errors.append(np.abs(seconds(fitted, *shapes.T) / true_s - 1).mean())
    assert np.mean(errors) < 0.05
