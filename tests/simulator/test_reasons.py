"""Reasons of decisions are what the rule compares: keys, order and comparisons are worked out again from the view."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.baselines import xion
from gpu_cluster_gym.simulator import search
from gpu_cluster_gym.simulator.episode import Episode, asking, discipline_of, run
from gpu_cluster_gym.simulator.policy import Action, Policy, Preempt, Ranking, Resize, Start, Wait
from gpu_cluster_gym.simulator.reasons import Decisions, Ranked, Reason, checked, gives_reasons, in_order
from gpu_cluster_gym.simulator.rule_policy import RULE_PARAMETERS, Offsets, Rule, Steered
from gpu_cluster_gym.workloads import Scenario, Workload, full_trace, named, windows
from tests.cases import tiny

RANKINGS = ("fifo", "fifo_strict", "easy", "sjf", "srtf", "srsf", "las", "xion_threshold")


@dataclass
class Moment:
    """State before an action, as the view shows it: times in s, arrays over the jobs that have arrived."""

    now: float
    action: Action
    reason: Reason
    queue: list[int]
    running: list[int]
    starts: set[int]  # jobs that start at this instant
    fits: set[int]  # queued jobs that the placement rule could start before this action
    columns: dict[str, np.ndarray]
    gpus: dict[int, set[int]]  # by running job
    wait_s: dict[int, float]


COLUMNS = (
    "submit_s",
    "estimate_s",
    "attained_s",
    "remaining_s",
    "num_gpus",
    "pause_s",
    "load_s",
    "loading_s",
)


def workload(place: Path, seed: int = 0, *, pause: float = 1.0, **fields: Any) -> Workload:
    table = tiny.jobs(seed=seed)
    table["pause_s"] = pause * (1.0 + table.index % 7)
    table["load_s"] = 5.0 + table.index % 11
    table["startup_s"] = 0.0
    return full_trace(Scenario(**tiny.scenario(place, table, **fields)))


def decided(policy: Policy, load: Workload) -> list[Moment]:
    """Run a policy step by step and return the moments of its decisions."""
    episode = load.episode()
    if isinstance(policy, Ranking):
        episode.set_levels(policy.levels)
        episode.state.discipline = discipline_of(policy, episode.discipline)
    return list(moments(policy, episode))


def moments(policy: Policy, episode: Episode) -> Iterator[Moment]:
    decisions = Decisions()
    ask = decisions.watched(asking(policy, episode), policy, episode)
    while not episode.done:
        assert episode.advance()
        here: list[Moment] = []
        while not isinstance(action := ask(), Wait):
            if isinstance(action, Start | Preempt):
                here.append(moment(episode, action, decisions.rows[-1].reason))
            episode.apply(action)
        episode.apply(action)
        starts = {each.action.job for each in here if isinstance(each.action, Start)}
        for each in here:
            each.starts = starts
            yield each


def moment(episode: Episode, action: Action, reason: Reason) -> Moment:
    view = episode.view
    queue, running = view.queue.tolist(), view.running.tolist()
    return Moment(
        view.now,
        action,
        reason,
        queue,
        running,
        set(),
        {job for job in queue if view.place(job) is not None},
        {name: np.array(getattr(view.jobs, name)) for name in COLUMNS},
        {job: set(view.gpus_of(job)) for job in running},
        {job: search.wait_for_room(view, job) for job in queue if view.jobs.num_gpus[job] > 0},
    )


def remaining(each: Moment, job: int) -> float:
    """Return the estimated remaining time, as docs/rules.md states it."""
    estimate, attained = each.columns["estimate_s"][job], each.columns["attained_s"][job]
    return float(max(estimate - attained, 0.2 * attained, 15.0))


def effort(each: Moment, job: int) -> float:
    """Return remaining and loading time; a running job loads nothing."""
    loads = 0.0 if job in each.running else each.columns["loading_s"][job]
    return remaining(each, job) + float(loads)


def key(name: str, each: Moment, job: int) -> float:
    """Return the key of a job under a ranking, from its definition."""
    gpus = float(each.columns["num_gpus"][job])
    match name:
        case "fifo" | "fifo_strict" | "easy":
            return float(each.columns["submit_s"][job])
        case "sjf":
            return float(each.columns["estimate_s"][job])
        case "srtf":
            return remaining(each, job)
        case "srsf":
            return remaining(each, job) * gpus
        case "las":
            attained = (
                each.columns["attained_s"][job] * gpus + 1e-6
            )  # a job is at a limit exactly when it crosses it
            return float(np.searchsorted((3250.0, 7200.0), attained, side="right"))
    assert name == "xion_threshold"
    return effort(each, job)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reasons")


def ranking(name: str) -> Ranking:
    found = baselines.make(baselines.load(name))
    assert isinstance(found, Ranking)
    return found


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", RANKINGS)
def test_reasons_of_rankings_are_their_rules(name: str, seed: int, place: Path) -> None:
    """Every decision: key, place, jobs skipped and next are those of an order worked out again from the view."""
    rule = ranking(name)
    found = decided(rule, workload(place, seed))
    assert len(found) > 30
    for each in found:
        reason = each.reason
        job = reason.own.job
        assert job == each.action.job  # type: ignore[union-attr] # never a Wait
        # pauses and starts of an instant are decided at once, on the state before the first
        first = next(other for other in found if other.now == each.now)
        among = first.queue + (first.running if rule.preempt != "never" else [])
        keys = {other: key(name, first, other) for other in among}
        order = sorted(among, key=lambda other: (keys[other], other))
        assert reason.own.key == pytest.approx(keys[job], rel=1e-9)
        assert (reason.place, reason.ranked) == (order.index(job) + 1, len(order))
        waits = [other for other in order if other in first.queue and other not in each.starts]
        before = [other for other in waits if order.index(other) < order.index(job)]
        after = [other for other in waits if order.index(other) > order.index(job)]
        assert (reason.skipped, ids(reason.earlier), ids(reason.later)) == (
            len(before),
            before[:3],
            after[:3],
        )
        for other in (*reason.earlier, *reason.later):
            assert other.key == pytest.approx(keys[other.job], rel=1e-9)
        if rule.preempt == "never" and isinstance(each.action, Start):
            assert job in each.fits
            assert not before or name != "fifo_strict"
            for late in set(before) & each.fits:  # EASY: it would end too late for the head
                assert name == "easy"
                assert each.columns["estimate_s"][late] > reason.terms[1][1]


def ids(ranked: tuple[Ranked, ...]) -> list[int]:
    return [each.job for each in ranked]


@pytest.mark.parametrize("name", ["srtf", "srsf", "las", "xion_threshold"])
def test_a_pause_names_an_earlier_job(name: str, place: Path) -> None:
    found = [
        each
        for seed in range(3)
        for each in decided(ranking(name), workload(place, seed))
        if isinstance(each.action, Preempt)
    ]
    assert len(found) >= 5
    for each in found:
        cause, own = each.reason.cause, each.reason.own
        assert cause is not None
        assert cause.job in each.queue
        if name != "xion_threshold":
            assert (cause.key, cause.job) < (own.key, own.job)


def test_the_threshold_is_the_mean_against_the_sum(place: Path) -> None:
    """Mean remaining time of the victims > sum of (own effort + margin x overhead), from the columns of the view."""
    rule = ranking("xion_threshold")
    checked = 0
    for seed in range(3):
        found = decided(rule, workload(place, seed))
        for each in found:
            if not (isinstance(each.action, Start) and each.reason.terms):
                continue
            same = [other for other in found if other.now == each.now]
            gpus = set(each.action.placement.gpus)
            victims = [
                other.action.job
                for other in same
                if isinstance(other.action, Preempt) and other.gpus[other.action.job] & gpus
            ]
            count, mean_s, least_s = (value for _, value in each.reason.terms)
            overhead = {job: each.columns["pause_s"][job] + each.columns["load_s"][job] for job in victims}
            own = effort(same[0], each.action.job)
            assert count == len(victims)
            assert mean_s == pytest.approx(np.mean([remaining(same[0], job) for job in victims]))
            assert least_s == pytest.approx(sum(own + rule.margin * overhead[job] for job in victims))
            assert mean_s > least_s
            checked += 1
    assert checked >= 5


def test_a_job_behind_the_head_cannot_delay_it(place: Path) -> None:
    """EASY: such a job ends by its estimate before the head could start, or takes GPUs that the head can spare."""
    found = [each for seed in range(4) for each in decided(ranking("easy"), workload(place, seed))]
    behind = [each for each in found if each.reason.terms]
    assert len(behind) >= 3
    for each in behind:
        (_, head), (_, until_s), (_, ends_s) = each.reason.terms
        assert head == ids(each.reason.earlier)[0]
        assert int(head) not in each.fits
        assert until_s == pytest.approx(shadow_in(each, int(head)), abs=1e-6)
        assert ends_s == pytest.approx(float(each.columns["estimate_s"][each.reason.own.job]))


def shadow_in(each: Moment, head: int) -> float:
    """Return the seconds until a job fits on two nodes of eight if all running jobs end by their estimates."""
    free, need = [8, 8], int(each.columns["num_gpus"][head])
    for gpus in each.gpus.values():
        for gpu in gpus:
            free[gpu // 8] -= 1
    left_s = {
        job: max(float(each.columns["estimate_s"][job] - each.columns["attained_s"][job]), 0.0)
        for job in each.gpus
    }
    for now_s in sorted(set(left_s.values())):
        for job in (job for job, until_s in left_s.items() if until_s == now_s):
            for gpu in each.gpus[job]:
                free[gpu // 8] += 1
        if need <= max(free) or (max(free) == 8 and need <= sum(free)):
            return now_s
    raise AssertionError


@pytest.mark.parametrize("form", ["derived", "gap"])
def test_reasons_of_xion_are_its_rule(form: Any, place: Path) -> None:
    """Order by effort; a displacement's terms add up to the net gain of the module's docstring, above the margin."""
    checked = 0
    for seed in range(3):
        load = workload(place, seed)
        found = decided(xion.Xion(rule=form), load)
        for each in found:
            first = next(
                other for other in found if other.now == each.now and other.reason.terms == each.reason.terms
            )
            reason, terms = each.reason, dict(each.reason.terms)
            if isinstance(each.action, Start):
                assert reason.own.key == pytest.approx(effort(each, reason.own.job))
                keys = [
                    effort(each, other)
                    for other in (*ids(reason.earlier), reason.own.job, *ids(reason.later))
                ]
                assert keys == sorted(keys)
            if not isinstance(each.action, Preempt) or each is not first:
                continue
            victims = [
                other.action.job
                for other in found
                if other.now == each.now and isinstance(other.action, Preempt)
            ]
            assert reason.cause is not None
            own, jobs = effort(each, reason.cause.job), each.columns
            assert reason.cause.key == pytest.approx(own)
            assert reason.own.key == pytest.approx(remaining(each, each.action.job))
            assert all(remaining(each, job) > own for job in victims)
            pause = max(jobs["pause_s"][job] for job in victims)
            if form == "derived":
                gain = each.wait_s[reason.cause.job] - pause
                loss = sum(pause + own + jobs["load_s"][job] for job in victims)
            else:
                gain = np.mean([remaining(each, job) for job in victims])
                loss = sum(own + jobs["pause_s"][job] + jobs["load_s"][job] for job in victims)
            values = list(terms.values())
            assert values[:2] == pytest.approx([gain, loss])
            cost = sum(
                (jobs["pause_s"][job] + jobs["load_s"][job]) * jobs["num_gpus"][job] for job in victims
            )
            assert values[2] / (cost / 16) == pytest.approx(round(values[2] / (cost / 16))), (
                "per other queued job"
            )
            assert 0 <= round(values[2] / (cost / 16)) < len(each.queue)
            assert values[3] == pytest.approx(gain - loss - values[2])
            assert values[3] > values[4] == 0
            checked += 1
    assert checked >= 3


@pytest.mark.parametrize("factor", [1.0, 0.0])
def test_reasons_of_union_are_its_rule(factor: float, place: Path) -> None:
    """Keys, costs and gains as `simulator.kernel.union` states them, from the columns of the view.

    GPUs are exclusive and jobs keep their size, so that a job takes its remaining and loading time anywhere.
    """
    rule = Rule(sharing=0, sizing=0)
    starts = pauses = freed = gangs = 0
    for seed in range(4):
        found, pending = decided(rule, workload(place, seed, pause=factor)), -1
        for each in found:
            reason, terms, jobs = each.reason, dict(each.reason.terms), each.columns
            gpus = {job: float(jobs["num_gpus"][job]) for job in each.queue}
            if isinstance(each.action, Start):
                job = each.action.job
                order = sorted(each.queue, key=lambda other: effort(each, other) * gpus[other] ** 0.8)
                assert reason.own.key == pytest.approx(effort(each, job) * gpus[job] ** 0.8)
                assert (reason.place, reason.ranked) == (order.index(job) + 1, len(order))
                assert ids(reason.earlier) == order[: order.index(job)][:3]
                assert ids(reason.later) == order[order.index(job) + 1 :][:3]
                freed += not terms
                if terms:
                    assert set(ids(reason.earlier)) & each.fits <= {pending}
                    own = effort(each, job)
                    wait = own * 1.5 * len(each.queue) / 16 * gpus[job]
                    assert list(terms.values()) == pytest.approx([own + wait, own, wait])
                    starts += 1
                continue
            assert isinstance(each.action, Preempt)
            same = [
                other
                for other in found
                if (other.now, other.reason.cause) == (each.now, reason.cause)
                and isinstance(other.action, Preempt)
            ]
            first = same[0]
            victims = [other.action.job for other in same]  # type: ignore[union-attr]
            assert reason.cause is not None
            pending = reason.cause.job  # GPUs are being freed for it
            own, left = effort(first, pending), {job: remaining(first, job) for job in victims}
            assert reason.cause.key == pytest.approx(own)
            assert reason.own.key == pytest.approx(left[each.action.job])
            pause = max(jobs["pause_s"][job] for job in victims)
            count = len(first.queue)
            overhead = sum((jobs["pause_s"] + jobs["load_s"])[job] * jobs["num_gpus"][job] for job in victims)
            loss = sum(pause + own + jobs["load_s"][job] for job in victims) + (count - 1) * overhead / 16
            assert terms["gain, s"] > 0
            assert terms["loss of paused and waiting jobs, s"] == pytest.approx(loss)
            pauses += 1
            if jobs["num_gpus"][reason.cause.job] > 8:  # a gang that exceeds a node
                width = {job: float(jobs["num_gpus"][job]) for job in victims}
                held = sum(left[job] * width[job] for job in victims) / sum(width.values()) * (1 - 1 / count)
                assert list(terms.values()) == pytest.approx([held, pause, loss, held - pause - loss])
                gangs += 1
                continue
            ends, held = terms["its end with them in, s"], terms["further wait for GPUs that others take, s"]
            assert ends == pytest.approx(pause + own)
            waited = terms["its end without the pauses in, s"]
            assert waited - own >= 0
            if len(victims) == 1 and len(first.gpus[victims[0]]) <= 8:
                held_s = (1 - 1 / count) * max(left[victims[0]] - (waited - own), 0.0)
                assert held == pytest.approx(held_s)
            assert terms["gain, s"] == pytest.approx(waited - ends - loss + held)
    assert min(starts, pauses, freed) >= 10
    assert gangs


def test_union_names_the_next_best_gpus() -> None:
    """A start states its cost, which is the sum of its parts, and a higher one of other GPUs; a move gains."""
    decisions = Decisions()
    window = windows(replace(named("mixed"), jobs=40, cluster="2x4", drop_too_large=True), "train", 1)[0]
    run(Rule(), window.episode(), decisions=decisions)
    shared = compared = moves = 0
    for each in decisions.rows:
        terms = dict(each.reason.terms)
        if isinstance(each.action, Resize):
            assert each.action.placement is not None
            moves += terms.get("gain beyond that, s", 0) > 0
        if "cost, s" not in terms:
            continue
        cost, *parts = (value for name, value in each.reason.terms if not name.startswith("next best"))
        assert cost == pytest.approx(sum(parts))
        assert all(part >= 0 for part in parts)
        shared += len(parts) == 3
        others = [value for name, value in terms.items() if name.startswith("next best")]
        assert all(other > cost for other in others)
        compared += len(others)
    assert min(shared, compared, moves) >= 3


def test_a_steered_rule_gives_the_reasons_of_its_current_weights(place: Path) -> None:
    names = [each.name for each in RULE_PARAMETERS if each.scale > 0]
    offsets = np.zeros(len(names), np.float32)
    offsets[names.index("exponent")] = 0.5
    steered = Steered(Offsets(Rule(), names), 4, lambda load: offsets)
    keys = {each.reason.keys for each in decided(steered, workload(place)) if isinstance(each.action, Start)}
    assert keys == {"estimated remaining time x GPUs ** 1.4, s"}


@pytest.mark.parametrize("name", [*RANKINGS, "xion", "union"])
def test_reasons_change_no_result(name: str, place: Path) -> None:
    load = workload(place, 3)
    policy = baselines.load(name)
    decisions = Decisions()
    plain = load.results(run(baselines.make(policy), load.episode()))
    asked = load.results(run(baselines.make(policy), load.episode(), decisions=decisions))
    pd.testing.assert_frame_equal(plain, asked)
    paused = sum(isinstance(each.action, Preempt) for each in decisions.rows)
    started = sum(isinstance(each.action, Start) for each in decisions.rows)
    assert paused == plain["preemptions"].sum()
    assert started == len(plain) + paused


def test_a_policy_without_reasons_gives_none(place: Path) -> None:
    gandiva = baselines.make(baselines.load("gandiva"))
    assert not gives_reasons(gandiva)
    decisions = Decisions()
    run(gandiva, workload(place).episode(), decisions=decisions)
    assert decisions.rows == []


def test_an_order_explains_no_pause() -> None:
    with pytest.raises(
        ValueError, match=r"job 7 is not in the order.*for a pause return None, or a Reason with a cause"
    ):
        in_order("The first.", "submit_s", 7, [2, 5], [0.0, 1.0], lambda job: True)


@pytest.mark.parametrize(
    "reason",
    ["no", Reason("rule", "keys", 3, 1, 2), Reason("rule", "keys", Ranked(3, 1.0), 1, 2, cause=4.0)],  # type: ignore[arg-type]
)
def test_a_reason_of_another_form_is_refused(reason: Any) -> None:
    with pytest.raises(TypeError, match="expected None, or a Reason whose jobs"):
        checked(reason)
    good = Reason("rule", "keys", Ranked(3, 1.0), 1, 2, cause=Ranked(4, 0.0))
    assert checked(good) is good
