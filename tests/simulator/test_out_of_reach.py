"""Short ways to the truth, or to the job record, lead nowhere; what is written past the view is noticed."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from gpu_cluster_gym import baselines, traces
from gpu_cluster_gym.agents import load_policy
from gpu_cluster_gym.agents.pretrained import SHIPPED, shipped
from gpu_cluster_gym.baselines.tiresias import Tiresias
from gpu_cluster_gym.evaluation.runner import run_window
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB
from gpu_cluster_gym.simulator.look_ahead_policy import LookAhead
from gpu_cluster_gym.simulator.policy import Action, Ranking, RunsCompiled, may_run_compiled
from gpu_cluster_gym.simulator.rule_policy import Offsets, Rule, Steered
from gpu_cluster_gym.simulator.source import adopt, source_of
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.traces import _readers
from gpu_cluster_gym.traces._log import Options
from gpu_cluster_gym.workloads import Scenario, Workload, filled, full_trace, named, prepare, windows
from tests.cases import tiny

HIDDEN = ("duration_s", "crash_at", "predictable_from", "gpu_memory_gib", "iteration_s")
MOVING = ("event_at", "fail_at", "finish_s", "order")  # of the state, which tell of the future


@pytest.fixture
def load(tmp_path: Path) -> Workload:
    return full_trace(Scenario(**tiny.scenario(tmp_path, tiny.mixed(1), physics="all")))


class Asking:
    """A policy that repeats another and does something at each instant before."""

    def __init__(self, does: Callable[[View], object]) -> None:
        self.does, self.refused = does, 0
        self.policy: Any = baselines.load("sjf")

    def __call__(self, view: View) -> Action:
        try:
            self.does(view)
        except (AttributeError, TypeError, ValueError, IndexError, RuntimeError):
            self.refused += 1
        action: Action = self.policy(view)
        return action


def shown(view: View) -> list[np.ndarray]:
    """Return every array that a view shows."""
    tables = (view.jobs, view.gpus, view.nodes)
    return [
        getattr(table, name)
        for table in tables
        for name in dir(type(table))
        if name[0] != "_" and name != "count"
    ]


def around(array: np.ndarray) -> np.ndarray:
    """Return the whole memory that an array's owner holds, as numbers of eight bytes."""
    owner: Any = array
    while getattr(owner, "base", None) is not None:
        owner = owner.base
    held: np.ndarray = np.frombuffer(owner, np.uint8)
    numbers: np.ndarray = held[: len(held) // 8 * 8].view(np.float64)
    return numbers


def hidden_values(episode: Episode) -> np.ndarray:
    """Return what must not be found: truths of all jobs, and every cell of those to come."""
    jobs, seen = episode.jobs, int(episode.state.num_arrived)
    found = [jobs[name][jobs["num_gpus"] > 0] for name in HIDDEN] + [jobs["submit_s"][seen:]]
    found += [episode.state[name] for name in MOVING]
    values: np.ndarray = np.concatenate([np.ravel(each).astype(float) for each in found])
    odd: np.ndarray = values[np.isfinite(values) & (values != np.round(values, 1))]
    return odd


def test_memory_around_what_is_shown_holds_nothing_hidden(load: Workload) -> None:
    table = load.table.assign(duration_s=load.table["duration_s"] + np.pi / 7)
    table.attrs = load.table.attrs
    load = prepare(table, load.scenario)
    episode, looked = load.episode(), []

    def look(view: View) -> None:
        secret = hidden_values(episode)
        shared = np.concatenate([np.ravel(array).astype(float) for array in shown(view)])
        near = np.concatenate([around(array) for array in shown(view)])
        assert not np.isin(np.setdiff1d(near, shared), secret).any()
        looked.append(len(secret))

    asking = Asking(look)
    run(asking, episode)
    assert asking.refused == 0
    assert min(looked) > 20


def test_this_look_finds_a_column_that_lends_the_record(load: Workload) -> None:
    episode = load.episode()
    lent = episode.jobs["submit_s"][:3]
    assert np.isin(around(lent), episode.jobs["duration_s"]).any()


# Rankings that say something of themselves.


class Harmless(Ranking):
    is_oracle = False


class Word(str):
    def startswith(self, *_: object) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return other in ("remaining", "true_remaining")

    __hash__ = str.__hash__


def with_key(key: str) -> Ranking:
    made = Ranking("remaining", "by_order")
    object.__setattr__(made, "key", key)
    return made


class OfItsOwn:
    """No Ranking, but with its fields."""

    key, preempt, exponent, margin, discipline, levels = "true_remaining", "by_order", 0.0, 0.0, None, ()


RANKINGS: dict[str, Any] = {
    "a subclass": lambda: Harmless("true_remaining", "by_order"),
    "a word of its own": lambda: with_key(Word("true_remaining")),
    "a key set afterwards": lambda: with_key("true_remaining"),
    "an object of its own": OfItsOwn,
}


@pytest.mark.parametrize("name", RANKINGS)
def test_no_ranking_gets_the_truth_by_what_it_says(name: str, load: Workload) -> None:
    asking = Asking(lambda view: view.next_move(RANKINGS[name]()))
    run(asking, load.episode())
    assert asking.refused > 10


@pytest.mark.parametrize("name", list(RANKINGS)[:3])
def test_nor_as_the_policy_itself(name: str, load: Workload) -> None:
    with pytest.raises(ValueError, match=r"no Ranking|one of|requires hidden data"):
        run(RANKINGS[name](), load.episode())


# Writing through what is shown.


def by_its_lender(view: View) -> None:
    for name in ("pause_s", "load_s", "startup_s"):
        lender: Any = getattr(view.jobs, name).base
        face = lender.__array_interface__
        lender.__array_interface__ = face | {"data": (face["data"][0], False)}
        np.asarray(lender)[:] = 0.0


def by_an_object_of_ones_own(view: View) -> None:
    for array in shown(view):
        lender: Any = type("Lender", (), {})()
        face = array.__array_interface__
        lender.__array_interface__ = face | {"data": (face["data"][0], False)}
        if isinstance(array.base, np.ndarray):
            np.asarray(lender)[:] = 0


def by_its_owner(view: View) -> None:
    for name in ("pause_s", "load_s", "submit_s"):
        owner: Any = getattr(view.jobs, name).base
        owner.flags.writeable = True
        owner[:] = 0.0


def by_strides(view: View) -> None:
    owner: Any = view.jobs.load_s.base
    owner.flags.writeable = True
    np.lib.stride_tricks.as_strided(owner, shape=(len(owner) // 4,), strides=(32,))[:] = 0.0


def by_base(view: View) -> None:
    view.jobs.submit_s.base["duration_s"][:] = 1.0  # type: ignore[index]


def by_flag(view: View) -> None:
    estimates = view.jobs.load_s
    estimates.flags.writeable = True
    estimates[:] = 0.0


def by_memoryview(view: View) -> None:
    memoryview(view.gpus.free_memory_gib).obj[:] = 1e9  # type: ignore[index]


def by_private_names(view: View) -> None:
    view._states["clock"] = 1e9  # type: ignore[attr-defined]


def by_readings(view: View) -> None:
    view.jobs.remaining_s[:] = 0.0
    view.jobs.attained_s[:] = 1e9


WRITING = (
    *(by_its_lender, by_an_object_of_ones_own, by_its_owner, by_strides),
    *(by_base, by_flag, by_memoryview, by_private_names, by_readings),
)


@pytest.mark.parametrize("way", WRITING, ids=lambda way: way.__name__)
def test_what_is_written_through_the_view_changes_nothing(
    way: Callable[[View], None], load: Workload
) -> None:
    fifo: Any = baselines.load("fifo")
    asking = Asking(way)
    asking.policy = fifo
    cheated = load.results(run(asking, load.episode()))
    assert cheated.equals(load.results(run(fifo, load.episode(), step_by_step=True)))


# Compiled policies of others.


class TwoWays(RunsCompiled):
    """A policy that is honest when it is asked, and an oracle when it runs compiled."""

    def __call__(self, view: View) -> Action:
        return view.next_move(Ranking("remaining", "by_order"))

    def run_compiled(self, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        adopt(states, 0, jobs, Ranking("true_remaining", "by_order"))
        return bool(calls.run_rule(states, 0, jobs))


class OfThisPackage(TwoWays):
    __module__ = "gpu_cluster_gym.simulator.policy"
    __qualname__ = "RunsCompiled"


class BetterRule(Rule):
    run_compiled = TwoWays.run_compiled


class BetterTiresias(Tiresias):
    run_compiled = TwoWays.run_compiled


class BetterSteering(Steered):
    def run_intervals(self, states: np.ndarray, jobs: np.ndarray, *_: object) -> bool:
        return TwoWays().run_compiled(states, jobs, states)


def with_a_method_of_its_own() -> Tiresias:
    made = Tiresias()
    made.run_compiled = TwoWays().run_compiled  # type: ignore[method-assign]
    return made


def with_a_memory_of_its_own() -> Tiresias:
    made = Tiresias()
    made.kernel = Tiresias.kernel._replace(run=None)  # type: ignore[misc,arg-type]
    return made


def steering(kind: type[Steered]) -> Steered:
    return kind(Offsets(Rule(), ("price",)), 8, lambda load: np.zeros(1))


COMPILED: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "a class of one's own": (TwoWays, lambda: Ranking("remaining", "by_order")),
    "a class that says it is of this package": (OfThisPackage, lambda: Ranking("remaining", "by_order")),
    "a better rule": (BetterRule, Rule),
    "a better policy": (BetterTiresias, Tiresias),
    "a method of its own": (with_a_method_of_its_own, Tiresias),
    "a kernel of its own": (with_a_memory_of_its_own, Tiresias),
    "a part of one's own": (
        lambda: LookAhead(steering(BetterSteering), draws=1, rounds=0),
        lambda: LookAhead(steering(Steered), draws=1, rounds=0),
    ),
}


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_policies_of_others_are_asked_step_by_step(name: str, load: Workload) -> None:
    theirs, ours = COMPILED[name]
    assert not may_run_compiled(theirs())
    honest = load.results(run(ours(), load.episode()))
    oracle = load.results(run(Ranking("true_remaining", "by_order"), load.episode(), oracle=True))
    assert not honest.equals(oracle)
    assert run_window(theirs, load).equals(honest)


def test_policies_of_this_package_run_compiled() -> None:
    names = [
        name
        for name in baselines.names()
        if issubclass(type(baselines.make(baselines.load(name))), RunsCompiled)
    ]
    assert len(names) > 5
    assert all(may_run_compiled(baselines.make(baselines.load(name))) for name in names)
    assert all(may_run_compiled(load_policy(SHIPPED / name)) for name in shipped())


# Making the jobs again.


def in_a_thread() -> None:
    found: list[Any] = []

    def make() -> None:
        try:
            found.extend(windows(named("quick"), "test", 1))
        except RuntimeError as error:
            found.append(error)

    thread = Thread(target=make)
    thread.start()
    thread.join()
    if isinstance(found[0], RuntimeError):
        raise found[0]


def test_jobs_are_not_made_while_a_policy_is_asked(load: Workload) -> None:
    scenario = load.scenario
    ways: dict[str, Callable[[], object]] = {
        "windows": lambda: windows(named("quick"), "test", 1),
        "a full trace": lambda: full_trace(scenario),
        "a trace": lambda: traces.load("philly", seed=0, jobs=20),
        "a table": lambda: prepare(load.table, scenario),
        "a thread": in_a_thread,
    }
    for name, way in ways.items():
        asking = Asking(lambda _, way=way: way())  # type: ignore[misc]
        run(asking, load.episode())
        assert asking.refused > 10, name
        way()


def generators() -> dict[str, Callable[[], object]]:
    """Return the generators and readers of all traces and workloads, each with a few jobs."""
    found: dict[str, Callable[[], object]] = {}
    for kind in ("traces", "workloads"):
        for name in traces.available(kind):
            module: Any = traces.provider(kind, name, "trace")
            if hasattr(module, "trace"):
                found[f"{kind} {name}"] = partial(module.trace, seed=0, jobs=20)
    return found


@pytest.mark.parametrize("name", generators())
def test_no_generator_makes_jobs_while_a_policy_is_asked(name: str, load: Workload) -> None:
    make, found = generators()[name], list[int]()

    def step(view: View) -> None:
        with pytest.raises(RuntimeError, match="while a policy decides"):
            make()
        found.append(1)

    asking = Asking(step)
    run(asking, load.episode())
    assert asking.refused == 0
    assert len(found) > 10
    assert len(make()) == 20  # type: ignore[arg-type]


def test_no_reader_reads_and_no_column_is_drawn_while_a_policy_is_asked(load: Workload) -> None:
    file, table, few = str(load.scenario.trace_file), load.table, {"seed": 0, "largest_gpu_gib": 32.0}
    readers: Any = _readers.readers()
    ways: dict[str, Callable[[], object]] = {
        "generic": lambda: readers["generic"].read(file, Options()),
        "check": lambda: traces.check(table),
        "fill": lambda: traces.fill(table, **few),  # type: ignore[arg-type]
        "filled": lambda: filled(table, load.scenario, seed=0),
    }
    for name, way in ways.items():
        way()
        with traces.asking(), pytest.raises(RuntimeError, match="while a policy decides"):
            way()
        assert name


# Writing past the view, on purpose.


def of_the_jobs(episode: Episode) -> None:
    source_of(episode.view).jobs["pause_s"][:] = 0.0


def of_the_machines(episode: Episode) -> None:
    episode.states["node_cores"][0, 0] *= 2


def of_the_rules(episode: Episode) -> None:
    episode.states["max_share"][0] += 1


WRITTEN = {"jobs": of_the_jobs, "machines": of_the_machines, "rules": of_the_rules}


@pytest.mark.parametrize("part", WRITTEN)
def test_a_result_is_refused_if_what_must_stay_has_changed(part: str, load: Workload) -> None:
    episode = run(baselines.load("fifo"), load.episode())
    load.results(episode)
    WRITTEN[part](episode)
    with pytest.raises(RuntimeError, match=f"^{part} of window .* must not change .* SECURITY"):
        load.results(episode)


def test_every_field_of_a_job_but_one_is_watched(load: Workload) -> None:
    episode = run(baselines.load("fifo"), load.episode())
    passed = []
    for name in JOB.names or ():
        before = episode.jobs[name].copy()
        episode.jobs[name][-1] += 1
        try:
            load.results(episode)
        except RuntimeError:
            episode.jobs[name] = before
            continue
        passed.append(name)
    assert passed == ["fitted"]
