"""The audit accuses no honest policy, and finds planted leaks of each kind."""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import trust_knowledge
from gpu_cluster_gym import baselines, traces
from gpu_cluster_gym.agents import load_policy
from gpu_cluster_gym.agents.pretrained import SHIPPED
from gpu_cluster_gym.evaluate import main
from gpu_cluster_gym.evaluation.audit import (
    OF_QUEUED,
    OF_RUNNING,
    WHOLE,
    Audited,
    Watcher,
    audit,
    random_workload,
    try_table,
)
from gpu_cluster_gym.simulator import jobs, view
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.policy import Action, Ranking, Start, Wait
from gpu_cluster_gym.simulator.source import Source, adopt, source_of
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.workloads import _workload

POLICIES, PAIRS = 50, 1  # at most so many policies; pairs of each


def test_no_honest_policy_or_agent_is_accused() -> None:
    """What a view shows, every policy, shipped agent, action kind and observation; nightly with 5,000 pairs."""
    results = list(trust_knowledge.leaks(POLICIES * PAIRS))
    slow = audit({"lookahead": partial(baselines.make, baselines.load("lookahead"))}, pairs=PAIRS)
    assert len(results) > len(trust_knowledge.honest()) + len(trust_knowledge.AGENTS)
    assert [str(each) for each in results if each.wrong] == []
    assert [str(each) for each in slow if each.leaks or each.pairs < PAIRS] == []


def test_the_random_numbers_of_an_agent_depend_on_no_later_job() -> None:
    """The shipped agent of the action `plain` samples; it did so by all submissions of the window."""
    found = Audited("plain")
    for seed in range(8, 14):
        try_table(found, partial(load_policy, SHIPPED / "plain"), seed, 3)
    assert found.pairs >= 12
    assert found.leaks == []


# Planted leaks: policies that start the first queued job that fits by an order that nobody can know.


def by(order: Callable[[Source, np.ndarray], Any], the_view: View) -> Action:
    queue = the_view.waiting
    ranked = queue[np.argsort(order(source_of(the_view), queue), kind="stable")]
    for job in ranked.tolist():
        if (place := the_view.place(job)) and not the_view.why_not(Start(job, place)):
            return Start(job, place)
    return Wait()


def _parity(number: float) -> int:
    return 1 if int(number) % 2 else -1


LEAKS: dict[str, Callable[[Source, np.ndarray], Any]] = {
    "run time": lambda source, queue: source.jobs["duration_s"][queue],
    "progress left": lambda source, queue: -source.jobs["duration_s"][queue] * source.jobs["num_gpus"][queue],
    "failure": lambda source, queue: source.jobs["crash_at"][queue] * 1e6 - queue,
    "when predictable": lambda source, queue: source.jobs["predictable_from"][queue] * 1e6 + queue,
    "peak memory": lambda source, queue: source.jobs["gpu_memory_gib"][queue],
    "number of jobs": lambda source, queue: queue * _parity(len(source.jobs)),
    "next arrival": lambda source, queue: (
        queue * _parity(source.jobs["submit_s"][source.arrived : source.arrived + 1].sum())
    ),
    "later users": lambda source, queue: queue * _parity(source.jobs["user"].sum()),
    "later sizes": lambda source, queue: queue * _parity(source.jobs["num_gpus"].sum()),
}


@pytest.mark.parametrize("what", LEAKS)
def test_a_planted_leak_is_found(what: str) -> None:
    assert leaks(lambda: partial(by, LEAKS[what]))


def leaks(make: Callable[[], Any], tables: int = 30) -> bool:
    found = Audited("planted")
    for seed in range(tables):
        try_table(found, make, seed, 3)
        if found.leaks:
            return True
    return False


def test_the_same_policy_by_submission_is_honest() -> None:
    assert not leaks(lambda: partial(by, lambda _, queue: queue), tables=4)


def test_a_column_that_shows_the_truth_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = view.Reading(lambda source: source.declared("duration_s").copy())
    monkeypatch.setattr(view.Jobs, "estimate_s", shown)
    assert leaks(Watcher, tables=3)


def test_cores_given_out_because_of_later_jobs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule that this audit was written for: cores were given out if any job of the window needed them."""
    prepared = _workload.prepare

    def prepare(table: Any, scenario: Any, **rest: Any) -> Any:
        needed = bool((table["num_gpus"] == 0).to_numpy()[-3:].any())
        monkeypatch.setattr(jobs, "gives_out_cores", lambda _: needed)
        monkeypatch.setattr(_workload, "gives_out_cores", lambda _: needed)
        return prepared(table, scenario, **rest)

    monkeypatch.setattr("gpu_cluster_gym.evaluation.audit.prepare", prepare)
    assert leaks(Watcher)


def test_a_policy_that_fails_does_not_stop_the_audit() -> None:
    """One fails at once, the other on clusters of eight GPUs, of which there are some."""

    def fails(view: View) -> Action:
        raise KeyError("always")

    def sometimes(view: View) -> Action:
        if len(view.gpus.node) == 8:
            raise KeyError("eight")
        return view.start_first(view.waiting) or Wait()

    policies = {
        "fails": lambda: fails,
        "sometimes": lambda: sometimes,
        "fifo": lambda: baselines.load("fifo"),
    }
    tried: list[int] = []
    _, never, some, fifo = audit(policies, pairs=12, moved=tried.append)
    assert sum(tried) == 4 * 12, "progress ends with the audit"
    assert str(never).startswith("fails: no pair could be tried: KeyError: 'always' (test_audit.py, line ")
    assert (some.pairs, some.leaks, fifo.pairs, fifo.left_out) == (12, [], 12, [])
    assert len(some.left_out) > 0
    left_out = rf"failed there: {len(some.left_out)} workloads? \(random workload (\d+): KeyError: 'eight'"
    named = re.search(rf"{left_out}.*; --audit --seed \1 begins with random workload \1$", str(some))
    assert named
    _, repeated = audit({"sometimes": lambda: sometimes}, pairs=1, seed=int(named[1]))
    assert repeated.left_out[0] == some.left_out[0]


def test_a_leak_names_two_different_decisions() -> None:
    result = audit({"oracle": partial(partial, by, LEAKS["run time"])}, pairs=30)[1]
    assert result.leaks
    for leak in result.leaks:
        one, _, other = leak.difference.partition(" became ")
        assert one != other


def test_the_command_prints_a_line_a_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_cluster_gym.evaluation.audit.PAIRS", 6)
    monkeypatch.setattr("gpu_cluster_gym.evaluation.command.PATIENCE_S", 0.0)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["--policy", "fifo", "srtf_oracle", "--audit"])
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert ended.value.code == 1
    assert [line.partition(":")[0] for line in lines] == ["what a view shows", "fifo", "srtf_oracle"]
    assert lines[1] == "fifo: 6 pairs, 0 leaks"
    assert "auditing: 100 % (18 of 18) after " in err


@pytest.mark.parametrize("name", ["tiresias", "union", "gavel"])
def test_a_compiled_run_that_differs_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = partial(baselines.make, baselines.load(name))
    honest = Audited(name)
    for seed in range(8):
        try_table(honest, make, seed, 1)
    assert not honest.leaks

    def by_the_truth(self: object, states: np.ndarray, jobs: np.ndarray, histories: np.ndarray) -> bool:
        adopt(states, 0, jobs, Ranking("true_remaining", "by_order"))
        return bool(calls.run_rule(states, 0, jobs))

    monkeypatch.setattr(type(make()), "run_compiled", by_the_truth)
    found = Audited(name)
    for seed in range(8):
        try_table(found, make, seed, 1)
    assert found.leaks
    assert "asked step by step, job" in str(found)


def test_everything_that_a_view_shows_is_watched() -> None:
    members = {name for name in dir(View) if not name.startswith("_")}
    tables = {"jobs", "gpus", "nodes", "tenants", "jobs_of", "start_first", "why_not"}
    answers = {name.split()[0] for name in (*OF_QUEUED, *OF_RUNNING)}
    not_shown = {"next_move", "rng"}  # it acts by the first; the second has drawn all along
    assert members == {*WHOLE} | tables | answers | not_shown


def test_random_workloads_have_tenants_disciplines_and_drains() -> None:
    loads = []
    for seed in range(25):
        with suppress(ValueError):
            loads.append(random_workload(traces.stream(seed, "audit")))
    rules = [load.scenario for load in loads]
    assert {rule.discipline for rule in rules} == {"greedy", "strict", "easy"}
    assert {rule.borrowing for rule in rules if rule.quotas} == {"none", "idle", "reclaim"}
    assert {rule.quotas == "proportional" for rule in rules if rule.quotas} == {True, False}
    assert any(rule.drain_every_h for rule in rules)
