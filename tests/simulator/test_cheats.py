"""A policy that tries to see or change the truth through its view fails or is detected."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluate import main
from gpu_cluster_gym.simulator import search
from gpu_cluster_gym.simulator.core_sharing import CoreSharing
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB, STATE
from gpu_cluster_gym.simulator.policy import Action, Placement, Ranking, Start, Wait
from gpu_cluster_gym.simulator.source import source_of
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.traces import COLUMNS
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace, named, prepare, windows
from tests.cases import tiny
from tests.cases.mixed_jobs import mixed_table, workload

HIDDEN = [column.name for column in COLUMNS if column.simulated and not column.shown]
HIDDEN += ["type_speed", "iteration_s", "ideal_iteration_s", "input_core_s"]
DEEP = 6  # attributes from the view


@pytest.fixture
def load(tmp_path: Path) -> Workload:
    return full_trace(Scenario(**tiny.scenario(tmp_path, tiny.mixed(1), physics="all")))


def halfway(load: Workload, instants: int = 12) -> Episode:
    episode = load.episode()
    policy: Any = baselines.load("fifo")
    for _ in range(instants):
        assert episode.advance()
        while not isinstance(action := policy(episode.view), Wait):
            episode.apply(action)
        episode.apply(action)
    assert 0 < len(episode.view.jobs.phase) < len(episode.jobs)
    return episode


def reached(thing: Any, depth: int = DEEP, known: set[int] | None = None) -> Iterator[Any]:
    """Yield all objects reachable by attributes, private ones and `base` included, and by items of containers.

    What Python itself is made of is left out: classes, functions and modules lead to everything.
    """
    known = set() if known is None else known
    if depth < 0 or id(thing) in known or isinstance(thing, type | int | float | str | bytes | complex):
        return
    known.add(id(thing))
    yield thing
    names = [name for name in dir(thing) if not name.startswith("__")] + ["__array_interface__", "__dict__"]
    found = []
    for name in names:
        try:
            found.append(getattr(thing, name))
        except Exception:
            continue
    if isinstance(thing, dict):
        found += [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set):
        found += thing
    for each in found:
        if not callable(each) or isinstance(each, View):
            yield from reached(each, depth - 1, known)


def arrays(view: View) -> list[np.ndarray]:
    return [thing for thing in reached(view) if isinstance(thing, np.ndarray)]


def test_no_reachable_array_can_change_the_simulation(load: Workload) -> None:
    episode = halfway(load)
    found = arrays(episode.view)
    assert len(found) > 40
    for array in found:
        ours = any(np.shares_memory(array, own) for own in (episode.states, episode.jobs))
        if ours:
            assert not array.flags.writeable
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.flags.writeable = True


def test_no_reachable_array_holds_the_truth_or_a_future_job(load: Workload) -> None:
    episode = halfway(load)
    seen = len(episode.view.jobs.phase)
    to_come = episode.jobs[seen:]
    for array in arrays(episode.view):
        assert not np.may_share_memory(array, to_come) or not np.shares_memory(array, to_come)
        for name in HIDDEN:
            assert not np.shares_memory(array, episode.jobs[name]), name


def test_nothing_reachable_has_the_seed_or_a_truth_by_name(load: Workload) -> None:
    episode = halfway(load)
    records = [np.void, np.record, np.recarray, Episode, type(source_of(episode.view)), Workload]
    assert [type(thing) for thing in reached(episode.view) if isinstance(thing, tuple(records))] == []
    names = {field for field, *_ in JOB.descr} | {row[0] for row in STATE}
    shown = {name for thing in (episode.view, *reached(episode.view)) for name in vars_of(thing)}
    truths = {
        "duration_s",
        "crash_at",
        "predictable_from",
        "scaling_loss",
        "late_estimate",
        "fail_at",
        "drain_at",
    }
    assert not {*truths, "seed", "rng_state"} & shown
    assert {"duration_s", "seed"} <= names, "this test would notice"


def vars_of(thing: Any) -> set[str]:
    return set(getattr(thing, "__dict__", ())) | set(dir(type(thing)))


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


def test_this_search_finds_a_known_leak(load: Workload) -> None:
    """An ordinary read-only view of a field leads to the record by its base, which the search finds."""
    episode = halfway(load)
    plain = episode.jobs["submit_s"].view()
    plain.flags.writeable = False
    found = [thing for thing in reached(plain) if isinstance(thing, np.ndarray)]
    assert any(np.shares_memory(array, episode.jobs["duration_s"]) for array in found)


# Policies that cheat.


ORACLE = Ranking("true_remaining", "by_order")


class Borrowed:
    """Policy under a harmless name that calls an oracle."""

    def __call__(self, view: View) -> Action:
        return view.next_move(ORACLE)


@pytest.mark.parametrize("policy", [ORACLE, Borrowed()], ids=["a ranking", "a policy that asks for one"])
def test_an_oracle_under_another_name_is_refused(policy: Any, load: Workload) -> None:
    with pytest.raises(ValueError, match=r"requires hidden data.*_oracle"):
        run(policy, load.episode())


def test_the_command_refuses_it_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "harmless_lab.py").write_text(
        "from gpu_cluster_gym.simulator.policy import Ranking\n\ndef policy():\n    pass\n\n"
        "class Made:\n    def __new__(cls):\n        return Ranking('true_remaining', 'by_order')\n"
    )
    monkeypatch.chdir(tmp_path)
    small = ("--windows", "1", "--jobs", "40", "--cluster", "2x8", "--all-windows", "--drop-too-large")
    assert main(["--policy", "harmless_lab:Made", *small, "--out", str(tmp_path / "out")]) == 2
    assert re.search(r"requires hidden data.*_oracle", capsys.readouterr().err)


FAR = (10**9, -1, 5)  # that have not come at the first instant


def start_on_cores(view: View, job: int) -> object:
    sharing = CoreSharing()
    sharing.look(view)
    return sharing.start_on_cores(view, np.array([job]), 1.0)


QUERIES = ("place", "profile", "type_speed", "can_hold", "gpus_of", "just_paused", "pick")
SEARCHES: dict[str, Callable[[View, int], object]] = {
    **{name: partial(lambda name, view, job: getattr(view, name)(job), name) for name in QUERIES},
    "start_first": lambda view, job: view.start_first([job]),
    "start_on_cores": start_on_cores,
    "joins": lambda view, job: search.Joins(view, np.array([job])),
    "wait_for_room": lambda view, job: search.wait_for_room(view, job),
    "by_effort": lambda view, job: search.by_effort(view, np.array([job])),
    "displacement": lambda view, job: search.displacement(view, np.array([job]), view.jobs.pause_s),
    "room_by_one": lambda view, job: search.room_by_one(view, np.array([job]), view.preemptible),
    "room_by_one_of": lambda view, job: search.room_by_one(view, view.queue, np.array([job])),
}


@pytest.mark.parametrize("job", FAR)
def test_queries_and_searches_for_a_future_job_are_refused(job: int, load: Workload) -> None:
    episode = load.episode()
    episode.advance()
    assert len(episode.view.jobs.phase) <= 5
    assert episode.view.why_not(Start(job, Placement((0,)))) == f"job {job} has not arrived"
    for what, ask in SEARCHES.items():
        with pytest.raises(ValueError, match=f"job {job} has not arrived"):
            pytest.fail(f"{what} answered {ask(episode.view, job)}")


def test_a_job_that_is_not_queued_cannot_be_picked(load: Workload) -> None:
    episode = halfway(load)
    running = int(episode.view.running[0])
    with pytest.raises(ValueError, match=f"job {running} is not queued"):
        episode.view.pick(running)


def test_a_completion_faster_than_physics_allows_ends_the_run(load: Workload) -> None:
    """A change past the view, on purpose and undone afterwards, is detected by its results."""
    episode = load.episode()
    jobs = source_of(episode.view).jobs
    truth = jobs["duration_s"].copy()
    jobs["duration_s"][:] = 1.0
    run(baselines.make(baselines.load("fifo")), episode)
    jobs["duration_s"][:] = truth
    with pytest.raises(RuntimeError, match=r"job .* completed within .* below its lower bound"):
        load.results(episode)


@pytest.mark.parametrize("name", ["srtf", "union", "optimus", "coda", "xonar"])
def test_no_honest_policy_is_accused(name: str, load: Workload) -> None:
    load.results(run(baselines.make(baselines.load(name)), load.episode()))


def test_after_years_a_rounded_clock_is_no_cheat() -> None:
    """After thirty years the clock resolves a tenth of a microsecond, more than the usual tolerance."""
    load = windows(named("mixed"), "train", 1)[0]
    table = load.table.assign(submit_s=load.table["submit_s"] + 1e9)
    table.attrs = load.table.attrs
    later = prepare(table, load.scenario, window=load.window)
    assert later.results(run(baselines.make(baselines.load("union")), later.episode()))["jct_s"].min() > 0
