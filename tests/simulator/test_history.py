"""Expected run times and core needs follow from estimates, readings and finished jobs by the formulas."""

import copy
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.episode import Episode, asking
from gpu_cluster_gym.simulator.history import MAX_BATCH, SIMILAR, History, batches, read
from gpu_cluster_gym.simulator.policy import Action, Wait
from gpu_cluster_gym.simulator.source import Source
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.simulator.vocabulary import DONE
from gpu_cluster_gym.workloads import Scenario
from tests.cases import tiny
from tests.cases.histories import HISTORY, LEVEL, kept, load_of, with_cells


def batched_jobs(seed: int) -> pd.DataFrame:
    """Return random jobs in batches of one user each, all with the same iteration time."""
    table = tiny.jobs(seed=seed)
    batch = np.arange(len(table)) // 4
    gpus = table["num_gpus"].to_numpy()[4 * batch]
    submit_s = np.floor(table["submit_s"].to_numpy()[4 * batch] + np.arange(len(table)) % 4)
    users = np.char.add("u", (batch % 3).astype(str))
    made = table.assign(
        num_gpus=gpus, cpu_cores=gpus, submit_s=submit_s, user=users, active_ms=80.0, idle_ms=20.0
    )
    return made.sort_values("submit_s", kind="stable", ignore_index=True)


def instants(episode: Episode, name: str) -> Any:
    """Run a policy; yield the view at each instant, before it acts."""
    ask = asking(baselines.make(baselines.load(name)), episode)
    while not episode.done and episode.advance():
        yield episode.view
        act(episode, ask)


def act(episode: Episode, ask: Callable[[], Action]) -> None:
    """Apply all actions of a policy at an instant."""
    while not isinstance(action := ask(), Wait):
        episode.apply(action)
    episode.apply(action)


def batch_of(view: View, job: int) -> np.ndarray:
    """Return the arrived jobs of a job's batch."""
    jobs = view.jobs
    whole_s = (jobs.profiled_active_ms + jobs.profiled_idle_ms) / 1000
    first = batches(jobs.user, jobs.num_gpus, jobs.submit_s, whole_s, HISTORY.gap_s)
    return np.flatnonzero(first == first[job])


def has_ended_mate(view: View, job: int) -> bool:
    return bool((view.jobs.phase[batch_of(view, job)] == DONE).any())


def conditioned(view: View, job: int, history: History) -> tuple[float, float]:
    """Return mean and variance of log run time by conditioning the joint normal of a batch, in matrix form."""
    jobs, batch = view.jobs, batch_of(view, job)
    here = int(np.flatnonzero(batch == job)[0])
    level = history.level[int(jobs.num_gpus[job]).bit_length()]
    covariance = np.full((len(batch), len(batch)), history.between**2) + history.within**2 * np.eye(
        len(batch)
    )
    done = jobs.phase[batch] == DONE
    known_s = np.where(done, jobs.attained_s[batch], np.maximum(jobs.estimate_s, jobs.attained_s)[batch])
    known_s[here] = jobs.estimate_s[job]
    error = np.where(jobs.is_predictable[batch], history.good_error, history.bad_error)
    noise = np.diag(np.where(done & (batch != job), 0.0, error**2))
    gain = covariance[here] @ np.linalg.inv(covariance + noise)
    mean = level + gain @ (np.log(known_s) - level)
    return float(mean), float(covariance[here, here] - gain @ covariance[here])


def expected_beyond(mean: float, variance: float, least: float) -> float:
    """Return exp of the mean logarithm above a bound, by integration over the deviations from the mean."""
    spread = np.sqrt(variance)
    low = (np.log(least) - mean) / spread if least > 0 else -12.0
    points = [max(low, -12.0), max(low, 0.0) + 3.0, max(low, 0.0) + 14.0]

    def integral(weight: Any) -> float:
        scale = norm.logpdf(points[0]) if low > 0 else 0.0
        return sum(
            quad(lambda x: weight(x) * np.exp(norm.logpdf(x) - scale), *ends, limit=200)[0]
            for ends in pairwise(points)
        )

    return float(np.exp(integral(lambda x: mean + spread * x) / integral(lambda x: 1.0)))


@pytest.mark.parametrize("seed", range(2))
def test_expected_run_times_are_means_of_the_truncated_joint_normal(seed: int, tmp_path: Path) -> None:
    load = load_of(tmp_path, batched_jobs(seed))
    compared = learned = 0
    for view in instants(load.episode(), "srtf"):
        if view.instant % 13:
            continue
        for job in np.flatnonzero(view.jobs.phase != DONE).tolist():
            mean, variance = conditioned(view, job, HISTORY)
            attained_s = float(view.jobs.attained_s[job])
            whole_s = expected_beyond(mean, variance, attained_s)
            assert view.jobs.expected_s[job] == pytest.approx(whole_s, rel=1e-5)
            assert view.jobs.expected_remaining_s[job] == pytest.approx(
                whole_s - attained_s, rel=1e-3, abs=0.01
            )
            compared += 1
            learned += has_ended_mate(view, job)
    assert 20 < learned < compared


def test_the_expected_run_time_of_a_finished_job_is_its_run_time(tmp_path: Path) -> None:
    episode = load_of(tmp_path, batched_jobs(0)).episode()
    *_, view = instants(episode, "srtf")
    done = view.jobs.phase == DONE
    assert done.any()
    assert np.array_equal(view.jobs.expected_s[done], episode.jobs["duration_s"][: len(done)][done])
    assert not view.jobs.expected_remaining_s[done].any()


@pytest.mark.parametrize("physics", ["all", "none"])
def test_without_a_history_expectations_are_estimates_and_requests(physics: str, tmp_path: Path) -> None:
    for view in instants(load_of(tmp_path, tiny.mixed(1), None, physics=physics).episode(), "srtf"):
        left = view.jobs.phase != DONE
        assert np.array_equal(view.jobs.expected_cores, view.jobs.cores_each)
        assert np.array_equal(view.jobs.expected_remaining_s[left], view.jobs.remaining_s[left])


def test_with_exact_estimates_expectations_are_estimates(tmp_path: Path) -> None:
    for view in instants(load_of(tmp_path, batched_jobs(1), physics="none").episode(), "srtf"):
        assert view.jobs.expected_s == pytest.approx(view.jobs.estimate_s)


@pytest.mark.parametrize("name", ["fifo", "coda"])
def test_reading_a_view_has_no_side_effects(name: str, tmp_path: Path) -> None:
    load = load_of(tmp_path, tiny.mixed(3), with_cells(3.0), physics="all")
    often, once = load.episode(), load.episode()
    for view in instants(often, name):
        assert tiny.bits(shown(view)) == tiny.bits(shown(view))
    *_, _ = instants(once, name)
    assert tiny.bits(shown(often.view)) == tiny.bits(shown(once.view))
    assert often.histories[0].num_counted == often.state.num_done
    assert tiny.bits(often.state.finish_s) == tiny.bits(once.state.finish_s)


def test_a_copy_continues_with_equal_expectations(tmp_path: Path) -> None:
    episode = load_of(tmp_path, tiny.mixed(3), with_cells(3.0), physics="all").episode()
    for number, view in enumerate(instants(episode, "fifo")):
        if number == 40:
            before, other = tiny.bits(shown(view)), copy.deepcopy(episode)
    assert tiny.bits(shown(other.view)) == before != tiny.bits(shown(episode.view))
    act(other, asking(baselines.make(baselines.load("fifo")), other))
    *_, _ = instants(other, "fifo")
    assert tiny.bits(shown(other.view)) == tiny.bits(shown(episode.view))


def test_clones_of_both_records_have_equal_expectations(tmp_path: Path) -> None:
    load = load_of(tmp_path, tiny.mixed(3), with_cells(3.0), physics="all")
    episode = load.episode(rows=3)
    for number, view in enumerate(instants(episode, "fifo")):
        if number == 40:
            before = tiny.bits(shown(view))
            episode.states[2], episode.histories[2] = episode.states[0], episode.histories[0]
    assert tiny.bits(shown(episode.view)) != before
    for records in (episode.states, episode.histories):
        records[0] = records[2]
    again = Source(episode.states, episode.jobs, np.random.default_rng(0), episode.histories)
    assert tiny.bits(shown(View(again))) == before


def shown(view: View) -> list[np.ndarray]:
    jobs = view.jobs
    return [
        jobs.expected_s,
        jobs.expected_remaining_s,
        jobs.expected_cores,
        jobs.busy_share_alone,
        jobs.cores_when_busy,
    ]


# Batches and the file.


def test_jobs_of_a_batch_are_close_in_time_and_similar() -> None:
    user = np.array([0, 0, 1, 0, 0, 0])
    gpus = np.array([1, 1, 1, 2, 1, 1])
    submit_s = np.array([0.0, 50.0, 60.0, 70.0, 100.0, 161.0])
    iteration_s = np.array([1.0, 2.0, 1.0, 1.0, 2 * SIMILAR * 1.01, 2.0])
    assert batches(user, gpus, submit_s, iteration_s, 60.0).tolist() == [0, 0, 2, 3, 4, 5]


def test_a_batch_ends_when_it_is_full() -> None:
    count = MAX_BATCH + 2
    ones = np.ones(count, int)
    first = batches(ones, ones, np.zeros(count), np.ones(count), 60.0)
    assert first.tolist() == [0] * MAX_BATCH + [MAX_BATCH] * 2


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    history = with_cells(3.0)
    assert read(Path(kept(tmp_path, history))) == history


@pytest.mark.parametrize(
    "wrong", [{"within": 0.0}, {"level": (1.0,)}, {"cells": ((1.0,),)}, {"scale": (0.0,) * 4}]
)
def test_invalid_figures_are_rejected(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    fields: dict[str, Any] = {
        "good_error": 0.25,
        "bad_error": 1.0,
        "within": 0.4,
        "between": 1.5,
        "level": LEVEL,
    }
    with pytest.raises(ValueError, match=name):
        History(**fields | wrong)


def test_an_unknown_or_invalid_history_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"run_time_predictor 'mixde': expected one of .*did you mean 'mixed'"
    ):
        Scenario(run_time_predictor="mixde")
    (tmp_path / "bad.txt").write_text("{}")
    with pytest.raises(ValueError, match=r"bad.txt: expected a run-time predictor .*no field 'level'"):
        read(tmp_path / "bad.txt")
