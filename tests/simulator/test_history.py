"""What a view expects of run times and cores follows from estimates, readings and ended jobs as the formulas say."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import baselines
from simulator.episode import Episode, asking
from simulator.history import LIKE, MOST_LIKE, History, batches, read
from simulator.kernel.history import GOOD, LEAST_READ_S, SIZES
from simulator.kernel.noise import BUSY_ERROR_S
from simulator.policy import Action, Resize, Start, Wait
from simulator.view import View
from simulator.vocabulary import DONE
from tests.cases import tiny
from tests.cases.by_hand import on
from workloads import Scenario, Workload, whole

LEVEL = tuple(5.0 + 0.1 * size for size in range(SIZES))
HISTORY = History(good_error=0.25, bad_error=1.0, within=0.4, between=1.5, level=LEVEL)
MANY_ERRORS = 5  # deviations of a reading


def kept(folder: Path, history: History) -> str:
    """Write a history and return the name of its file."""
    file = folder / "kept" / f"{abs(hash(history))}.json"
    history.write(file)
    return str(file)


def load_of(folder: Path, table: pd.DataFrame, history: History | None = HISTORY, **fields: Any) -> Workload:
    chosen = tiny.scenario(folder, table, history=None if history is None else kept(folder, history))
    return whole(Scenario(**chosen | fields))


def like_jobs(seed: int) -> pd.DataFrame:
    """Draw jobs in batches of some by one user each, all of the same iteration."""
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
    """Play a policy; yield the view at each instant, before it acts."""
    ask = asking(baselines.make(baselines.load(name)), episode)
    while not episode.done and episode.advance():
        yield episode.view
        act(episode, ask)


def act(episode: Episode, ask: Callable[[], Action]) -> None:
    """Do what a policy wants at an instant."""
    while not isinstance(action := ask(), Wait):
        episode.apply(action)
    episode.apply(action)


def batch_of(view: View, job: int) -> np.ndarray:
    """Return the jobs of a job's batch that have come."""
    jobs = view.jobs
    whole_s = (jobs.profiled_active_ms + jobs.profiled_idle_ms) / 1000
    first = batches(jobs.user, jobs.num_gpus, jobs.submit_s, whole_s, HISTORY.gap_s)
    return np.flatnonzero(first == first[job])


def has_ended_mate(view: View, job: int) -> bool:
    return bool((view.jobs.phase[batch_of(view, job)] == DONE).any())


def conditioned(view: View, job: int, history: History) -> tuple[float, float]:
    """Return mean and variance of log run time by conditioning the joint normal of a batch, written out as matrices."""
    jobs, batch = view.jobs, batch_of(view, job)
    here = int(np.flatnonzero(batch == job)[0])
    level = history.level[int(jobs.num_gpus[job]).bit_length()]
    covariance = np.full((len(batch), len(batch)), history.between**2) + history.within**2 * np.eye(
        len(batch)
    )
    done = jobs.phase[batch] == DONE
    told_s = np.where(done, jobs.attained_s[batch], np.maximum(jobs.estimate_s, jobs.attained_s)[batch])
    told_s[here] = jobs.estimate_s[job]
    error = np.where(jobs.is_predictable[batch], history.good_error, history.bad_error)
    noise = np.diag(np.where(done & (batch != job), 0.0, error**2))
    gain = covariance[here] @ np.linalg.inv(covariance + noise)
    mean = level + gain @ (np.log(told_s) - level)
    return float(mean), float(covariance[here, here] - gain @ covariance[here])


def expected_beyond(mean: float, variance: float, least: float) -> float:
    """Return the mean of what is above, by integration over the deviations from the mean."""
    spread = np.sqrt(variance)
    low = (np.log(least) - mean) / spread if least > 0 else -12.0
    points = [max(low, -12.0), max(low, 0.0) + 3.0, max(low, 0.0) + 14.0]

    def integral(weight: Any) -> float:
        scale = norm.logpdf(points[0]) if low > 0 else 0.0
        return sum(
            quad(lambda x: weight(x) * np.exp(norm.logpdf(x) - scale), *ends, limit=200)[0]
            for ends in zip(points, points[1:], strict=False)
        )

    return integral(lambda x: np.exp(mean + spread * x)) / integral(lambda x: 1.0)


@pytest.mark.parametrize("seed", range(2))
def test_run_times_are_the_mean_of_what_is_left_of_the_joint_normal(seed: int, tmp_path: Path) -> None:
    load = load_of(tmp_path, like_jobs(seed))
    compared = learned = 0
    for view in instants(load.episode(), "srtf"):
        if view.instant % 7:
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


def test_of_a_job_that_has_ended_it_is_what_it_took(tmp_path: Path) -> None:
    episode = load_of(tmp_path, like_jobs(0)).episode()
    *_, view = instants(episode, "srtf")
    done = view.jobs.phase == DONE
    assert done.any()
    assert np.array_equal(view.jobs.expected_s[done], episode.jobs["duration_s"][: len(done)][done])
    assert not view.jobs.expected_remaining_s[done].any()


@pytest.mark.parametrize("physics", ["all", "none"])
def test_without_a_history_it_is_what_is_estimated_and_asked_for(physics: str, tmp_path: Path) -> None:
    for view in instants(load_of(tmp_path, tiny.mixed(1), None, physics=physics).episode(), "srtf"):
        left = view.jobs.phase != DONE
        assert np.array_equal(view.jobs.expected_cores, view.jobs.cores_each)
        assert view.jobs.expected_remaining_s[left] == pytest.approx(view.jobs.remaining_s[left], abs=1e-6)


def test_with_exact_estimates_nothing_is_to_be_learned(tmp_path: Path) -> None:
    for view in instants(load_of(tmp_path, like_jobs(1), physics="none").episode(), "srtf"):
        assert view.jobs.expected_s == pytest.approx(view.jobs.estimate_s)


@pytest.mark.parametrize("name", ["fifo", "coda"])
def test_reading_changes_nothing_and_how_often_does_not_count(name: str, tmp_path: Path) -> None:
    load = load_of(tmp_path, tiny.mixed(3), with_cells(3.0), physics="all")
    often, once = load.episode(), load.episode()
    for view in instants(often, name):
        assert tiny.bits(shown(view)) == tiny.bits(shown(view))
    *_, _ = instants(once, name)
    assert tiny.bits(shown(often.view)) == tiny.bits(shown(once.view))
    assert often.histories[0].num_read == often.state.num_done
    assert load.results(often).equals(load.results(once))


def test_a_copy_goes_on_to_believe_the_same(tmp_path: Path) -> None:
    episode = load_of(tmp_path, tiny.mixed(3), with_cells(3.0), physics="all").episode()
    for number, view in enumerate(instants(episode, "fifo")):
        if number == 40:
            before, other = tiny.bits(shown(view)), copy.deepcopy(episode)
    assert tiny.bits(shown(other.view)) == before != tiny.bits(shown(episode.view))
    act(other, asking(baselines.make(baselines.load("fifo")), other))
    *_, _ = instants(other, "fifo")
    assert tiny.bits(shown(other.view)) == tiny.bits(shown(episode.view))


def shown(view: View) -> list[np.ndarray]:
    jobs = view.jobs
    return [
        jobs.expected_s,
        jobs.expected_remaining_s,
        jobs.expected_cores,
        jobs.busy_share_alone,
        jobs.cores_when_busy,
    ]


# Cores: four bring input as fast as a GPU takes it, so that 4 x GOOD keep it busy for GOOD of the time.

NEED = 4 * GOOD


def with_cells(cores: float) -> History:
    """Return a history in which all jobs are thought to need so many cores."""
    cell = (0.0, 0.0, 0.0, 0.0, float(np.log(cores)), 5.0)
    fields = {
        name: getattr(HISTORY, name) for name in ("good_error", "bad_error", "within", "between", "level")
    }
    return History(**fields, alike=0.1, spread=0.5, cells=(cell,))


def fed_jobs(count: int, submit_s: float = 0.0) -> pd.DataFrame:
    """Return jobs of one GPU and one user, so long after one another."""
    return pd.DataFrame(
        {
            "job_id": [f"j{number}" for number in range(count)],
            "submit_s": submit_s * np.arange(count),
            "num_gpus": 1,
            "duration_s": 1000.0,
            "profiled_duration_s": 1000.0,
            "predictable_from": 0.0,
            "user": "u",
            "active_ms": 90.0,
            "idle_ms": 10.0,
            "input_core_s": 0.4,
            "cpu_cores": 4,
            "pause_s": 0.0,
            "load_s": 0.0,
            "sync_gb": 0.0,
            "gpu_memory_gib": 1.0,
        }
    )


def after(load: Workload, seconds: float, *starts: Start) -> Episode:
    """Return an episode in which these are started at once, and so much time has gone by."""
    episode = load.episode()
    episode.advance()
    for start in starts:
        episode.apply(start)
    episode.apply(Wait(seconds))
    episode.advance()
    return episode


CORES = {"physics": "memory,preemption,estimates,cores,sharing"}


@pytest.mark.parametrize("cores", [1.0, 2.0, 3.0])
def test_too_few_cores_tell_how_many_are_needed(cores: float, tmp_path: Path) -> None:
    load = load_of(tmp_path, fed_jobs(1), with_cells(20.0), **CORES)
    view = after(load, 400.0, Start(0, on(0, cores=cores))).view
    share = cores / 4
    error = np.sqrt(2) * BUSY_ERROR_S / 400.0
    assert view.jobs.busy_share_alone[0] == pytest.approx(share, abs=MANY_ERRORS * error)
    assert view.jobs.cores_when_busy[0] == pytest.approx(NEED, rel=MANY_ERRORS * error / share)
    assert view.jobs.expected_cores[0] == pytest.approx(NEED, rel=0.1), (
        "what was thought before hardly counts"
    )


def test_enough_cores_tell_only_that_no_more_are_needed(tmp_path: Path) -> None:
    for thought, cores in ((3.0, 3.0), (20.0, 6 * GOOD)):
        load = load_of(tmp_path, fed_jobs(1), with_cells(thought), **CORES)
        view = after(load, 400.0, Start(0, on(0, cores=6.0))).view
        assert view.jobs.expected_cores[0] == pytest.approx(cores, rel=0.05)


def test_nothing_is_read_within_a_minute_nor_on_shared_gpus(tmp_path: Path) -> None:
    load = load_of(tmp_path, fed_jobs(2), with_cells(3.0), **CORES)
    begun = Start(0, on(0, cores=2.0))
    for episode in (
        after(load, LEAST_READ_S - 1, begun),
        after(load, 500.0, begun, Start(1, on(0, cores=2.0))),
    ):
        assert not episode.view.jobs.busy_share_alone[0]
        assert np.isnan(episode.view.jobs.cores_when_busy[0])
        assert episode.view.jobs.expected_cores[0] == pytest.approx(3.0)


def test_the_cores_held_are_counted_when_they_were_held(tmp_path: Path) -> None:
    """Two cores for 200 s and then three: 900 core-seconds, GPUs busy for 100 + 300 x 3 / 4 s of 500."""
    episode = after(
        load_of(tmp_path, fed_jobs(1), with_cells(3.0), **CORES), 200.0, Start(0, on(0, cores=2.0))
    )
    episode.apply(Resize(0, 3.0))
    episode.apply(Wait(300.0))
    episode.advance()
    error = MANY_ERRORS * np.sqrt(2) * BUSY_ERROR_S
    busy_s = 200.0 * 2 / 4 + 300.0 * 3 / 4
    assert episode.view.jobs.busy_share_alone[0] * 500.0 == pytest.approx(busy_s, abs=error)
    assert episode.view.jobs.cores_when_busy[0] == pytest.approx(GOOD * 1300.0 / busy_s, rel=error / busy_s)


def alike(tmp_path: Path, apart_s: float) -> Episode:
    """Return an episode in which five jobs have begun with two cores, each when it came, and a sixth has come."""
    episode = load_of(tmp_path, fed_jobs(6, apart_s), with_cells(20.0), **CORES).episode()
    for job in range(5):
        episode.advance()
        while job not in episode.view.queue:
            episode.apply(Wait())
            episode.advance()
        episode.apply(Start(job, on(job, cores=2.0)))
        episode.apply(Wait())
    while episode.state.num_arrived < 6:
        episode.advance()
    return episode


def test_the_jobs_of_a_batch_teach_what_one_needs_before_it_runs(tmp_path: Path) -> None:
    episode = alike(tmp_path, 10.0)
    assert episode.view.jobs.expected_cores[5] == pytest.approx(20.0), "none has run for a minute"
    episode.apply(Wait(300.0))
    episode.advance()
    assert episode.view.jobs.expected_cores[5] == pytest.approx(NEED, rel=0.1)


def test_ended_jobs_of_like_profile_teach_it_too(tmp_path: Path) -> None:
    """Five more among the five that the twenty cores are the mean of."""
    episode = alike(tmp_path, 3000.0)
    assert (episode.view.jobs.phase[:5] == DONE).all()
    assert episode.view.jobs.expected_cores[5] == pytest.approx(np.sqrt(20.0 * NEED), rel=0.05)


# Batches, and the file.


def test_a_batch_is_close_in_time_and_alike() -> None:
    user = np.array([0, 0, 1, 0, 0, 0])
    gpus = np.array([1, 1, 1, 2, 1, 1])
    submit_s = np.array([0.0, 50.0, 60.0, 70.0, 100.0, 161.0])
    iteration_s = np.array([1.0, 2.0, 1.0, 1.0, 2 * LIKE * 1.01, 2.0])
    assert batches(user, gpus, submit_s, iteration_s, 60.0).tolist() == [0, 0, 2, 3, 4, 5]


def test_a_batch_ends_when_it_is_full() -> None:
    count = MOST_LIKE + 2
    ones = np.ones(count, int)
    first = batches(ones, ones, np.zeros(count), np.ones(count), 60.0)
    assert first.tolist() == [0] * MOST_LIKE + [MOST_LIKE] * 2


def test_a_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    history = with_cells(3.0)
    assert read(Path(kept(tmp_path, history))) == history


@pytest.mark.parametrize(
    "wrong", [{"within": 0.0}, {"level": (1.0,)}, {"cells": ((1.0,),)}, {"scale": (0.0,) * 4}]
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    fields = {"good_error": 0.25, "bad_error": 1.0, "within": 0.4, "between": 1.5, "level": LEVEL}
    with pytest.raises(ValueError, match=name):
        History(**fields | wrong)


def test_a_history_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no history 'nosuch' among"):
        whole(Scenario(**tiny.scenario(tmp_path), history="nosuch")).episode()
    (tmp_path / "bad.txt").write_text("{}")
    with pytest.raises(ValueError, match="is no history of finished jobs"):
        read(tmp_path / "bad.txt")
