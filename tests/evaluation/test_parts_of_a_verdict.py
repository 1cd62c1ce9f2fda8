"""The parts of a verdict, computed by hand: reasons for none, blocks of time, the nearest candidate, and sentences."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.evaluation import verdict
from gpu_cluster_gym.evaluation.verdict import Calibration

HOUR = 3600.0
DAY = 24 * HOUR


def work(waits_s: Any = 2.0, *, count: int = 50, gpus: int = 100, **fields: Any) -> Any:
    """Return a workload of jobs of an hour on a GPU each, submitted every ten seconds."""
    submit_s = 10.0 * np.arange(count)
    table = pd.DataFrame({"submit_s": submit_s, "logged_start_s": submit_s + waits_s, "num_gpus": 1})
    scenario = {
        "trace_file": "log",
        "full_trace": True,
        "target_load": None,
        "max_duration": None,
        "shift": None,
    }
    return SimpleNamespace(
        table=table.assign(duration_s=HOUR),
        scenario=SimpleNamespace(**(scenario | fields)),
        cluster=SimpleNamespace(num_gpus=gpus, name="mine"),
    )


# Reasons for no verdict


def test_a_full_log_with_starts_allows_a_verdict() -> None:
    assert verdict.why_none(work()) == ""


@pytest.mark.parametrize("fields", [{"trace_file": None}, {"full_trace": False}])
def test_other_jobs_than_a_full_log_allow_none(fields: dict[str, Any]) -> None:
    assert "the full trace of a log is required" in verdict.why_none(work(**fields))


def test_each_change_of_the_jobs_is_named() -> None:
    changed = work(target_load=0.5, max_duration=60.0, shift=0.0)
    assert verdict.why_none(changed).endswith("(drop --target-load, --max-duration, --shift)")


def test_fifty_jobs_and_a_mean_wait_of_a_second_are_enough() -> None:
    assert verdict.why_none(work(count=49)) == "the log has fewer than 50 jobs (49)"
    assert verdict.why_none(work(waits_s=1.0)) == ""
    assert "the mean wait in the log is 0.99 s" in verdict.why_none(work(waits_s=0.99))


@pytest.mark.parametrize(("beyond", "allowed"), [(0.5, True), (1.5, False)])
def test_a_hundredth_of_the_gpu_time_may_be_beyond_the_cluster(beyond: float, allowed: bool) -> None:
    """A hundred jobs of an hour on a GPU each run at once, on `99.5` or `98.5` GPUs: as many per cent are beyond."""
    found = work(count=100)
    found.table["submit_s"], found.table["logged_start_s"] = 0.0, 60.0
    found.cluster.num_gpus = 100 - beyond
    why = verdict.why_none(found)
    assert (why == "") == allowed
    assert allowed or why.startswith("the log's jobs held 100 GPUs at once, and mine has 98.5")


# Blocks of time


def test_a_block_is_a_day_or_a_tenth_of_a_short_log() -> None:
    for days, length_s in ((20, DAY), (10, DAY), (9, 0.9 * DAY), (1, 0.1 * DAY)):
        assert verdict.length_of_block(np.array([5.0, 5.0 + days * DAY])) == pytest.approx(length_s)
    assert verdict.length_of_block(np.array([5.0, 5.0])) == 1


def test_jobs_of_a_day_are_a_block_and_days_without_jobs_are_none() -> None:
    """The end of the log belongs to the last day."""
    days = np.array([0.0, 0.99, 1.0, 3.5, 11.0, 11.99, 12.0])
    assert verdict.blocks(7.0 + DAY * days).tolist() == [0, 0, 1, 2, 3, 3, 3]
    assert verdict.blocks(np.array([3.0, 3.0])).tolist() == [0, 0]
    tenths = np.array([0.0, 0.05, 0.1, 0.95, 1.0])
    assert verdict.blocks(DAY * tenths).tolist() == [0, 0, 1, 2, 2]


def days_of(*waits_s: float, each: int = 2) -> pd.DataFrame:
    """Return jobs that wait equally long on a day, some each day; the last one comes at the end of its day."""
    submit_s = np.repeat(DAY * np.arange(len(waits_s)), each)
    submit_s[-1] = DAY * len(waits_s)
    wait_s = np.repeat(waits_s, each)
    return pd.DataFrame({"submit_s": submit_s, "wait_s": wait_s, "jct_s": wait_s + 100.0, "preemptions": 0})


def test_the_mean_wait_has_an_interval_over_days() -> None:
    assert verdict.interval_of_mean(days_of(*[30.0] * 10)) == pytest.approx((30, 30, 30))
    mean, low, high = verdict.interval_of_mean(days_of(*[10.0, 50.0] * 5))
    assert mean == 30
    # The mean of ten fair draws of 10 or 50: 8 of 10 are at least 50 with 5.5 %, 9 of 10 with 1.1 %.
    assert (low, high) == pytest.approx((14, 46), abs=4.1)


def test_a_change_is_relative_to_the_sum_of_waits() -> None:
    """Waits of 100 and 300 s become 50 and 450 s: 500 / 400 - 1."""
    own, mine = days_of(*[100.0, 300.0] * 5), days_of(*[50.0, 450.0] * 5)
    found = verdict.effect(mine, own)
    assert found.change == pytest.approx(0.25)
    assert -0.5 <= found.low < 0.25 < found.high <= 0.5


def test_resamples_without_a_wait_do_not_count() -> None:
    """On one of ten days jobs wait, and half as long: so they do in each resample that has the day."""
    own = days_of(*[0.0] * 9, 40.0)
    assert verdict.effect(own.assign(wait_s=own["wait_s"] / 2), own) == pytest.approx((-0.5, -0.5, -0.5))


@pytest.mark.parametrize(("days", "each", "some"), [(5, 10, True), (4, 13, False), (7, 7, False)])
def test_five_blocks_of_fifty_jobs_in_all_have_intervals(days: int, each: int, some: bool) -> None:
    """Jobs come in as many instants, so that blocks of a tenth of the log are as many."""
    submit_s = np.repeat(DAY / 2 * np.arange(days), each)
    jobs = pd.DataFrame({"submit_s": submit_s, "jct_s": 9.0})
    found, about = verdict.ratio_intervals({"own": jobs}, "own")
    assert bool(found) == some
    assert some or f"{days * each} jobs in {days} blocks of time are too few" in about


@pytest.mark.parametrize(("days", "narrow"), [(19, "; they are too narrow for fewer than 20"), (20, "")])
def test_intervals_over_fewer_than_twenty_days_are_too_narrow(days: int, narrow: str) -> None:
    _, about = verdict.ratio_intervals({"own": days_of(*[1.0] * days, each=5)}, "own")
    assert about == f"Intervals: over {days} days of submissions{narrow}."


# The nearest candidate


def started(*start_s: float, wait_s: float = 10.0) -> pd.DataFrame:
    return pd.DataFrame({"start_s": start_s, "wait_s": wait_s})


def test_the_candidate_with_the_nearest_starts_is_chosen() -> None:
    """Distances of 1, 1 and 10 s against 5 s each: a mean of 4 s, and a median of 1 s."""
    tried = {"far": started(5.0, 15.0, 25.0), "near": started(1.0, 11.0, 30.0, wait_s=13.0)}
    found = verdict.calibrated(started(0.0, 10.0, 20.0), tried)
    assert found == ("near", 10.0, 13.0, 1.0, 1.0)
    assert found.error == pytest.approx(0.3)
    assert verdict.calibrated(started(0.0, 1.0, 2.0), {"back": started(2.0, 1.0, 0.0)}).rank == pytest.approx(
        -1
    )


@pytest.mark.parametrize(
    "pair", [((0.0, 0.0), (1.0, 2.0)), ((1.0, 2.0), (0.0, 0.0)), ((3.0, 3.0), (3.0, 3.0))]
)
def test_starts_at_one_moment_are_in_order(pair: tuple[tuple[float, ...], tuple[float, ...]]) -> None:
    logged, ours = (started(*each) for each in pair)
    assert verdict.calibrated(logged, {"fifo": ours}).rank == 1


# Sentences


def said(
    factor: float, *, name: str = "mine", error: float = 0.0, parts: tuple[str, ...] = ("estimates",)
) -> str:
    """Return the verdict on a policy whose waits are those of the log's own scheduler times a factor."""
    own = days_of(*[100.0] * 10)
    calibration = Calibration("easy", 100.0, 100.0 * (1 - error), 0.0, 1.0)
    return verdict.sentence(
        name, own.assign(wait_s=factor * own["wait_s"]), own, calibration, frozenset(parts)
    )


@pytest.mark.parametrize(
    ("factor", "error", "begin"),
    [
        (0.7, 0.2, "mine would have cut the mean wait by 30 % (30 to 30); "),
        (1.3, 0.2, "mine would have raised the mean wait by 30 % (30 to 30); "),
        (0.7, 0.25, "mine would have cut the mean wait by 30 % (30 to 30); "),
        (
            0.7,
            0.26,
            "No verdict on mine: the simulator's own error on this log is 26 %, above the limit of 25 %, so",
        ),
        (
            0.75,
            0.25,
            "No verdict on mine: its mean wait is 25 % lower (25 to 25), which is within the simulator's",
        ),
        (
            1.2,
            0.25,
            "No verdict on mine: its mean wait is 20 % higher (20 to 20), which is within the simulator's",
        ),
        (
            1.0,
            0.25,
            "No verdict on mine: its mean wait is 0 % higher, but the interval (+0 %",
        ),
    ],
)
def test_a_verdict_needs_an_effect_beyond_the_error(factor: float, error: float, begin: str) -> None:
    assert said(factor, error=error).startswith(begin)


def test_a_verdict_names_the_longest_wait_of_both_policies() -> None:
    """All jobs wait an hour under the log's own scheduler; under the policy one waits three, the others a minute."""
    own = days_of(*[HOUR] * 10)
    mine = own.assign(wait_s=[3 * HOUR, *[60.0] * (len(own) - 1)])
    text = verdict.sentence("mine", mine, own, Calibration("easy", HOUR, HOUR, 0.0, 1.0), frozenset())
    assert text.startswith("mine would have cut the mean wait by ")
    assert text.endswith("Longest wait: 3.0 h under mine, 60.0 min under easy.")


@pytest.mark.parametrize(
    ("name", "parts", "exact"),
    [("mine", (), True), ("mine", ("estimates",), False), ("fifo", (), False), ("fifo_strict", (), False)],
)
def test_run_times_known_exactly_are_said(name: str, parts: tuple[str, ...], exact: bool) -> None:
    text = said(0.5, name=name, parts=parts)
    assert (" with true run times, since estimates are not simulated" in text) == exact


def test_a_log_in_which_nobody_waits_in_the_simulation_is_too_far_from_it() -> None:
    """An error of 100 %, so that no change is divided by a wait of 0."""
    own = days_of(*[0.0] * 10)
    text = verdict.sentence("mine", own, own, Calibration("easy", 80.0, 0.0, 0.0, 1.0), frozenset())
    assert "the simulator's own error on this log is 100 %" in text


@pytest.mark.parametrize(("median_s", "near"), [(25.0, True), (26.0, False)])
def test_a_mean_that_is_near_by_chance_gives_no_verdict(median_s: float, near: bool) -> None:
    """The mean waits differ by 1 %, but half of the starts are more than a quarter of 100 s off."""
    own = days_of(*[100.0] * 10)
    calibration = Calibration("easy", 100.0, 101.0, median_s, 1.0)
    text = verdict.sentence("mine", own.assign(wait_s=50.0), own, calibration, frozenset())
    assert text.startswith("mine would have cut the mean wait by 50 %") == near
    assert ("No verdict on mine: the simulated mean wait is near the logged one by chance" in text) != near


@pytest.mark.parametrize(
    ("pauses", "parts", "refused"), [(1, (), True), (0, (), False), (1, ("preemption",), False)]
)
def test_pauses_that_cost_nothing_give_no_verdict(pauses: int, parts: tuple[str, ...], refused: bool) -> None:
    own = days_of(*[100.0] * 10)
    mine = own.assign(wait_s=50.0, preemptions=[pauses] + [0] * (len(own) - 1))
    calibration = Calibration("easy", 100.0, 100.0, 0.0, 1.0)
    text = verdict.sentence("mine", mine, own, calibration, frozenset(parts))
    assert text.startswith(f"No verdict on mine: jobs were paused {pauses} times") == refused


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (0.001, "0.1 %"), (0.0994, "9.9 %"), (0.0995, "10 %"), (0.5, "50 %"), (1.25, "125 %")],
)
def test_shares_below_ten_per_cent_have_a_digit_more(share: float, text: str) -> None:
    assert verdict._percent(share) == text


def of_log(table: pd.DataFrame, partitions: str | None = None, quotas: str | None = None) -> Any:
    """Return a workload of a log. partitions, quotas: those that are simulated."""
    return SimpleNamespace(table=table, scenario=SimpleNamespace(partitions=partitions, quotas=quotas))


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        ("a", ""),
        ("ab", "The log's jobs belong to 2 partitions (a, b), simulated as one: "),
        ("edcba", "The log's jobs belong to 5 partitions (a, b, c, d, e), simulated as one: "),
        ("fedcba", "The log's jobs belong to 6 partitions (a, b, c, d, e, ...), simulated as one: "),
    ],
)
def test_the_first_five_partitions_are_named(names: str, hint: str) -> None:
    found = verdict._several_partitions(of_log(pd.DataFrame({"partition": [*names]})))
    assert found.startswith(hint)
    assert bool(found) == bool(hint)
    assert verdict._several_partitions(of_log(pd.DataFrame({"a": [1]}))) == ""
    simulated = of_log(pd.DataFrame({"partition": ["a", "b"]}), "a=0,b=1")
    assert verdict._several_partitions(simulated) == ""


@pytest.mark.parametrize(
    ("columns", "quotas", "simulated_s", "hint"),
    [
        (
            {"tenant": ["b", "a"]},
            None,
            40.0,
            "The log's jobs belong to 2 tenants (a, b), simulated without quotas",
        ),
        (
            {"vc": [*"fedcba"]},
            None,
            40.0,
            "The log's jobs belong to 6 tenants (a, b, c, d, e, ...), simulated without",
        ),
        ({"tenant": ["a", "a"], "vc": ["a", "b"]}, None, 40.0, ""),
        ({"tenant": ["", "a"]}, None, 40.0, ""),
        ({"tenant": ["", "b", "a"]}, None, 40.0, "The log's jobs belong to 2 tenants (a, b), "),
        ({"user": ["a", "b"]}, None, 40.0, ""),
        ({"tenant": ["a", "b"]}, "a=4", 40.0, ""),
        ({"tenant": ["a", "b"]}, None, 160.0, ""),
    ],
)
def test_unnamed_quotas_are_a_cause_only_where_they_can_be(
    columns: dict[str, list[str]], quotas: str | None, simulated_s: float, hint: str
) -> None:
    """Of several tenants without quotas, whose jobs waited 100 s in the log and less in the simulation."""
    calibration = Calibration("easy", 100.0, simulated_s, 0.0, 1.0)
    found = verdict._several_tenants(of_log(pd.DataFrame(columns), quotas=quotas), calibration)
    assert found.startswith(hint)
    assert bool(found) == bool(hint)
    assert ("--quotas NAME=GPUS" in found) == bool(hint)
    assert ("--borrowing idle if" in found) == found.endswith(".") == bool(hint)
