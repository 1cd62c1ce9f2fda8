"""Look-ahead makes the move with the best rollouts, from observable information alone, or else its rule's move."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.simulator.cluster import uniform
from gpu_cluster_gym.simulator.episode import Episode, asking, run
from gpu_cluster_gym.simulator.kernel.cluster.layout import JOB
from gpu_cluster_gym.simulator.kernel.moves import rollouts
from gpu_cluster_gym.simulator.kernel.moves.move_list import FEATURES
from gpu_cluster_gym.simulator.kernel.union import decide
from gpu_cluster_gym.simulator.look_ahead_policy import LookAhead, rollout_workspace
from gpu_cluster_gym.simulator.policy import Policy, Preempt, Resize, Start, Wait
from gpu_cluster_gym.simulator.reasons import Decisions, Option
from gpu_cluster_gym.simulator.rule_policy import Choose, Offsets, Rule, Steered, memory_of
from gpu_cluster_gym.simulator.source import source_of
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace, named, windows
from tests.cases import hidden_fields, tiny

FEW = 30  # jobs
QUICK = LookAhead(draws=4, finalists=2)
WORKLOADS = ("mixed", "coda_mix", "aiturbo_ps", "philly_backlog")


@cache
def window(workload: str = "mixed", **fields: object) -> Workload:
    """Return a training window of a few jobs."""
    return windows(replace(named(workload), jobs=FEW, all_windows=True, **fields), "train", 1)[0]  # type: ignore[arg-type]


def ends(episode: Episode) -> list[float]:
    """Return the finish time of each job."""
    finish: list[float] = episode.state.finish_s[: len(episode.jobs)].tolist()
    return finish


def midway(load: Workload, share: float = 0.5) -> tuple[Episode, np.ndarray]:
    """Return an episode under the rule once that share of its jobs has arrived, and the rule's memory."""
    episode = load.episode()
    memory = memory_of(Rule(), episode.states, episode.jobs, episode.histories)
    until = float(episode.jobs["submit_s"][int(share * FEW)])
    assert decide.run_until(episode.states, 0, memory, 0, episode.jobs, until - 1)
    assert episode.advance()
    return episode, memory


class Labels(NamedTuple):
    """Estimates for each move of a list, the rule's own choice included.

    features: (moves, len(FEATURES)), see `simulator.kernel.moves.move_list.FEATURES`.
    advantages_s: (moves,), discounted job-seconds gained over the rule's own choice, whose advantage is 0.
    errors_s: (moves,), standard errors.
    own: position of the rule's own choice.
    """

    features: np.ndarray
    advantages_s: np.ndarray
    errors_s: np.ndarray
    own: int


def label(policy: LookAhead, states: np.ndarray, jobs: np.ndarray, memory: np.ndarray) -> Labels | None:
    """Return the estimated advantage of each move at this instant, all in `draws` futures; None if there is no choice.

    The first record and the first memory, of a rule or of this policy, are only read.
    """
    states, jobs, memory = states[:1].copy(), jobs.copy(), memory[[0, 0]]
    lists, buffers = rollout_workspace(states, jobs, memory)
    if not rollouts.label(states, jobs, lists, buffers, policy.options):
        return None
    v, count = lists[0], int(lists[0].num)
    total, num_futures = v.advantage_sum[:count], v.num_futures[:count]
    squares = v.advantage_squares[:count] - total**2 / num_futures
    error = np.sqrt(np.maximum(squares, 0.0) / np.maximum(num_futures - 1, 1) / num_futures)
    return Labels(v.features[:count].copy(), total / num_futures, error, int(v.own))


def labelled(load: Workload, share: float = 0.5, policy: LookAhead = QUICK) -> Labels:
    """Return the labels of the first choice after that."""
    episode, memory = midway(load, share)
    while (found := label(policy, episode.states, episode.jobs, memory)) is None:
        decide.run_until(episode.states, 0, memory, 0, episode.jobs, float(episode.state.clock) + 1)
        assert episode.advance()
    return found


@pytest.mark.parametrize("workload", WORKLOADS)
def test_step_by_step_equals_the_compiled_run(workload: str) -> None:
    load = window(workload)
    assert ends(run(QUICK, load.episode())) == ends(run(QUICK, load.episode(), step_by_step=True))


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize(
    "never", [replace(QUICK, rounds=0), replace(QUICK, margin_s=1e18)], ids=["no rounds", "no margin reached"]
)
def test_without_a_deviation_it_is_the_rule(workload: str, never: LookAhead) -> None:
    """The second option compares all moves and makes none: rollouts leave no trace."""
    load = window(workload)
    assert ends(run(never, load.episode())) == ends(run(Rule(), load.episode()))


def test_without_a_deviation_jobs_wider_than_a_node_run_as_by_the_rule() -> None:
    """One job requests more GPUs than a list of moves can name."""
    load = windows(replace(named("philly_backlog"), jobs=60, all_windows=True), "train", 18)[17]
    never = replace(QUICK, draws=1, screening=1, tau_s=1.0, margin_s=1e18)
    assert ends(run(never, load.episode())) == ends(run(Rule(), load.episode()))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_own_choice_has_no_advantage_over_itself(workload: str) -> None:
    found = labelled(window(workload))
    assert found.advantages_s[found.own] == found.errors_s[found.own] == 0
    assert np.abs(found.advantages_s).max() > 1
    assert found.features.shape == (len(found.advantages_s), len(FEATURES))
    assert found.features[:, 0].argmax() == found.own


def test_a_decision_depends_on_no_hidden_truth() -> None:
    """Other truths of unfinished jobs, future jobs and nodes give the same advantages to the last bit."""
    for workload, fields in (
        ("mixed", {}),
        ("aiturbo_ps", {}),
        ("coda_mix", {}),
        ("philly_backlog", {"physics": "all", "node_mtbf_h": 50.0}),
    ):
        load = window(workload, **fields)
        for share in (0.3, 0.7):
            episode, memory = midway(load, share)
            first = label(QUICK, episode.states, episode.jobs, memory)
            hidden_fields.change(episode.jobs[:FEW], episode.state, 1.7)
            episode.state.fail_at[:] += 1e5
            episode.state.next_closing += 1e5
            episode.state.node_rng_state[:] += 1
            second = label(QUICK, episode.states, episode.jobs, memory)
            assert first is not None
            assert second is not None
            assert first.advantages_s.tobytes() == second.advantages_s.tobytes()
            assert first.features.tobytes() == second.features.tobytes()


def queueing(folder: Path, longer: float) -> Workload:
    """Return four jobs of one GPU that queue for two GPUs, `longer` times as long as 1,500 to 4,000 s."""
    run_s = longer * np.array([2000.0, 4000.0, 3000.0, 1500.0])
    table = pd.DataFrame({"job_id": list("abcd"), "submit_s": 0.0, "num_gpus": 1, "duration_s": run_s})
    free = table.assign(pause_s=0.0, load_s=0.0, profiled_duration_s=run_s)
    return full_trace(Scenario(**tiny.scenario(folder, free, cluster="1x2")))


def test_the_advantage_of_long_jobs_is_bounded_by_their_length(tmp_path: Path) -> None:
    """More than a hundred ticks per job pass while jobs queue: a rollout continues all the same."""
    short, long = (labelled(queueing(tmp_path, times), share=0) for times in (1.0, 100.0))
    assert np.flatnonzero(long.advantages_s).tolist() == np.flatnonzero(short.advantages_s).tolist() == [2, 3]
    assert np.abs(long.advantages_s).max() < 100 * 4 * 10_500


def test_labels_leave_no_trace() -> None:
    episode, memory = midway(window())
    before = episode.states.tobytes(), episode.jobs.tobytes(), memory.tobytes()
    assert label(QUICK, episode.states, episode.jobs, memory) is not None
    assert (episode.states.tobytes(), episode.jobs.tobytes(), memory.tobytes()) == before


def test_more_rollouts_are_more_accurate() -> None:
    """The standard error of a mean falls with the root of the number: 64 against 4, a quarter on average."""
    quick = replace(QUICK, tau_s=3600.0)
    few, many = (labelled(window(), policy=replace(quick, draws=draws)) for draws in (4, 64))
    ratio = many.errors_s[few.errors_s > 0].mean() / few.errors_s[few.errors_s > 0].mean()
    assert 0.12 < ratio < 0.5


def test_it_starts_the_short_job_that_its_rule_would_delay() -> None:
    """Two GPUs; A has both for 100 s. B: both for 1000 s; C: one for 600 s, which this rule takes second.

    rule         AAAA BBBBBBBBBB CCCCCC    JCT 100 + 1099 + 1698
    look-ahead   AAAA CCCCCC BBBBBBBBBB    JCT 100 + 1699 + 698
    """
    array = np.zeros(3, JOB)
    array["submit_s"], array["num_gpus"], array["duration_s"] = (0, 1, 2), (2, 2, 1), (100, 1000, 600)
    array["profiled_duration_s"] = array["predicted_duration_s"] = array["duration_s"]
    array["min_workers"] = array["max_workers"] = array["num_gpus"]
    array["active_ms"] = array["gpu_s"] = array["crash_at"] = 1.0
    rule = Rule(sharing=0, preemption=0, sizing=0, cores=0, exponent=-1)

    def played(policy: Policy) -> list[float]:
        return ends(run(policy, Episode(array, uniform(1, 2), exact=True)))

    assert played(rule) == [100, 1100, 1700]
    assert played(LookAhead(rule)) == [100, 1700, 700]
    assert played(LookAhead(rule, margin_s=500)) == [
        100,
        1100,
        1700,
    ]  # the advantage is 400 s, less the discount


def steered(choose: Choose = lambda load: np.array([load.sum() % 2 - 1, 0.5])) -> Steered:
    """Return the rule with two weights that depend on all load features, chosen every five arrivals."""
    return Steered(Offsets(Rule(), ("exponent", "price")), 5, choose)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_on_a_steered_rule_step_by_step_equals_the_compiled_run(workload: str) -> None:
    """Weights are chosen at the same instants, by the same load; without a deviation it equals the steered rule."""
    load = window(workload)
    policy = replace(QUICK, rule=steered())
    assert ends(run(policy, load.episode())) == ends(run(policy, load.episode(), step_by_step=True))
    never = replace(policy, margin_s=1e18)
    assert ends(run(never, load.episode())) == ends(run(steered(), load.episode()))


def test_a_rollout_uses_the_current_weights() -> None:
    """With constant steered weights, look-ahead equals that on the rule with these weights, not the initial ones."""
    load, offsets = window(), np.array([0.7, -0.6])
    policy = replace(QUICK, rule=steered(lambda load: offsets))
    moved = Offsets(Rule(), ("exponent", "price")).rule_at(offsets)
    assert ends(run(policy, load.episode())) == ends(run(replace(QUICK, rule=moved), load.episode()))
    assert ends(run(policy, load.episode())) != ends(run(QUICK, load.episode()))


def test_several_policies_may_look_ahead_on_one_steered_rule() -> None:
    """Asked in turn about episodes of one workload, and about one episode, each has its own memory."""
    on = steered()
    one, other = replace(QUICK, rule=on), replace(QUICK, rule=on, margin_s=5_000.0)
    alone = [ends(run(policy, window().episode(), step_by_step=True)) for policy in (one, other)]
    assert alone == [ends(run(policy, window().episode())) for policy in (one, other)]
    assert alone[0] != alone[1]


def test_a_future_that_never_ends_has_a_finite_cost() -> None:
    """One queued job is made larger than the cluster, so no future ends; the other jobs distinguish the moves."""
    episode, memory = midway(window())
    last = int(episode.view.queue[-1])
    for name in ("num_gpus", "min_workers", "max_workers"):
        episode.jobs[name][last] = 500
    found = label(QUICK, episode.states, episode.jobs, memory)
    assert found is not None
    assert np.isfinite(found.advantages_s).all()
    assert 1 < np.abs(found.advantages_s).max() < 1e8


def best_shown(options: tuple[Option, ...]) -> int:
    """Return the place of the largest value among the options that exceed their minimum."""
    values = [each.value if each.value > each.minimum else -np.inf for each in options]
    return int(np.argmax(values))


def test_ten_reasons_show_the_advantages_and_reproduce_the_choice() -> None:
    """Ten random decisions: the best option shown is what was done, and the values are those of `label` before it."""
    policy, load = LookAhead(draws=4, screening=0), window()
    episode, decisions = load.episode(), Decisions()
    ask = decisions.watched(asking(policy, episode), policy, episode)
    source, found = source_of(episode.view), []
    while not episode.done:
        assert episode.advance()
        while True:
            before = episode.states.copy(), episode.jobs.copy(), source.rule_memory.copy()
            count = len(decisions.rows)
            if isinstance(action := ask(), Wait):
                break
            if (
                len(decisions.rows) > count
                and (reason := decisions.rows[-1].reason).options
                and len(before[2])
            ):
                found.append((action, reason, label(policy, *before)))
            episode.apply(action)
        episode.apply(action)
    assert ends(episode) == ends(run(policy, load.episode()))
    assert len(found) >= 20
    for at in np.random.default_rng(0).choice(len(found), 10, replace=False).tolist():
        action, reason, labels = found[at]
        options = reason.options
        assert best_shown(options) == 0
        assert reason.own.job == action.job
        match action:
            case Start(job, placement):
                assert options[0].job == job
                assert options[0].name.startswith(f"start {{job}} on {len(placement.gpus)} GPU")
            case Resize(job, _, placement) if placement:
                assert options[0].job == job
                assert options[0].name.startswith(f"move {{job}} to {len(placement.gpus)} GPU")
            case Preempt(job):
                assert "in place of" in options[0].name or options[0] == ("pause {job}", job, *options[0][2:])
        if labels is None:  # a further action of a move
            continue
        assert reason.ranked == len(labels.advantages_s)
        shown = sorted((each.value for each in options[1:]), reverse=True)
        assert {round(each.value, 6) for each in options} <= {
            round(each, 6) for each in labels.advantages_s.tolist()
        }
        assert sum("own choice" in each.name for each in options) <= 1
        assert max(options[0].value, *shown) <= labels.advantages_s.max() + 1e-6


def test_a_look_ahead_that_finds_nothing_better_makes_the_choice_of_its_rule() -> None:
    """Without a move that saves enough, the option shown first is the rule's own, with a value of 0."""
    policy, decisions = replace(QUICK, margin_s=1e18), Decisions()
    run(policy, window().episode(), decisions=decisions)
    compared = [each.reason for each in decisions.rows if each.reason.options]
    assert len(compared) >= 10
    for reason in compared:
        assert reason.options[0].name.endswith("the rule's own choice")
        assert reason.options[0].value == reason.own.key == 0
        assert best_shown(reason.options) == 0


def test_options_out_of_bounds_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"draws 0 \(.*least 1\), z -1 \(.*least 0\), tau_s 0 \(.*positive"):
        LookAhead(draws=0, z=-1, tau_s=0)
