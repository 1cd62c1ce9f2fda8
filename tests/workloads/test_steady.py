"""Steady windows: the stated load, one state at which all policies begin, and only the jobs of the middle count."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.envs.registration import make
from gpu_cluster_gym.evaluation import table_notes
from gpu_cluster_gym.simulator.account import Account
from gpu_cluster_gym.simulator.episode import Episode, run
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.workloads import (
    Scenario,
    Split,
    Workload,
    base,
    full_trace,
    make_scenario,
    named,
    of_whole_log,
    parts_in_words,
    windows,
)
from gpu_cluster_gym.workloads._scenario import Window
from gpu_cluster_gym.workloads._steady import (
    BEFORE,
    DAY_S,
    _rows,
    batches,
    counted,
    cut,
    draw,
    load_of,
    offered,
    offered_in_words,
    peak_load,
    stretch_of,
    thinned,
    with_the_load,
)
from tests.cases import tiny

FIFO = Ranking("submit")
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
HOUR = 1 / 24


@pytest.fixture(scope="module")
def steady() -> Scenario:
    """Return a scenario with windows of two days on 16 GPUs."""
    return Scenario(
        cluster="2x8",
        physics="exclusive",
        steady_load=1.0,
        warm_days=0.5,
        counted_days=0.5,
        after_days=1.0,
        max_duration=36_000.0,
    )


@pytest.fixture(scope="module")
def window(steady: Scenario) -> Workload:
    return windows(steady, "train", 1)[0]


def log(folder: Path, cells: list[tuple[float, int, float]], **more: object) -> Workload:
    """Return the whole of a small log as a steady window; it counts from 2 h to 3 h."""
    lines = [f"j{k},{submit},{gpus},{run_s}" for k, (submit, gpus, run_s) in enumerate(cells)]
    file = folder / "log.csv"
    file.write_text("\n".join(["job_id,submit_s,num_gpus,duration_s", *lines]) + "\n")
    days = {"warm_days": 2 * HOUR, "counted_days": HOUR, "after_days": HOUR}
    scenario = Scenario(trace_file=str(file), cluster="1x1", physics="none", steady_load=1.0, **days, **more)  # type: ignore[arg-type]
    from gpu_cluster_gym.workloads._workload import prepare, read

    return prepare(read(scenario), scenario)


# The load, and the jobs that count.


def test_every_window_has_the_stated_load(steady: Scenario) -> None:
    for seed in (0, 1):
        for split in SPLITS:
            for each in windows(replace(steady, seed=seed), split, 2):
                length_s = stretch_of(steady).end_s
                load = load_of(each.table, each.cluster.num_gpus, length_s, length_s)
                assert load == pytest.approx(1.0, abs=0.05)
                assert each.table["submit_s"].max() < length_s


def test_windows_of_splits_share_no_jobs(steady: Scenario) -> None:
    found = [each.table["submit_s"].to_numpy() for split in SPLITS for each in windows(steady, split, 2)]
    assert len({times.tobytes() for times in found}) == len(found)


def test_whole_batches_are_removed() -> None:
    """Jobs of a virtual cluster less than a minute apart stay together; ten batches of three jobs, one by one."""
    begins = np.repeat(np.arange(10) * 1000.0, 3)
    table = pd.DataFrame(
        {"submit_s": begins + np.tile([0.0, 50.0, 100.0], 10), "num_gpus": 1, "duration_s": 100.0, "vc": "a"}
    )
    assert batches(table).tolist() == np.repeat(np.arange(10), 3).tolist()
    kept = thinned(table, 1, 10_000.0, 0.15, np.random.default_rng(0))  # 30 jobs offer a load of 0.3
    assert kept is not None
    assert len(kept) == 15
    assert (kept.groupby(kept["submit_s"] // 1000)["submit_s"].count() == 3).all()


def test_no_number_of_batches_has_some_loads() -> None:
    table = pd.DataFrame({"submit_s": [0.0, 500.0], "num_gpus": 1, "duration_s": 100.0, "vc": "a"})
    assert thinned(table, 1, 1000.0, 0.15, np.random.default_rng(0)) is None  # 0.1 or 0.2


def test_only_the_jobs_of_the_middle_are_in_the_results(window: Workload) -> None:
    results = window.results(run(FIFO, window.episode()))
    submit_s = window.table["submit_s"]
    middle = submit_s[(submit_s >= 0.5 * DAY_S) & (submit_s < DAY_S)]
    assert results["submit_s"].tolist() == middle.tolist()
    assert 0 < len(middle) < len(submit_s)


def test_the_heading_tells_what_counts(window: Workload) -> None:
    assert (
        f"FIFO schedules the first 0.5 days; the {window.counted.sum():,} jobs of days 0.5 to 1 are scored"
        in parts_in_words([window])
    )


def test_the_load_and_the_late_work_are_told(tmp_path: Path) -> None:
    """Four hours on one GPU. B 7200-10800 and C 10800-46800 are scored; the last arrival is at 14,000 s.

    The load is that of 7,200 + 3,600 + 36,000 + 100 s, C capped at 14,400 s; B and C arrive in the busiest hour.
    """
    work = log(tmp_path, [(0, 1, 7_200), (7_200, 1, 3_600), (7_300, 1, 36_000), (14_000, 1, 100)])
    head = table_notes.heading([work])
    assert f"offered load {25_300 / 14_400:.2f} (uncapped {46_900 / 14_400:.2f}, busiest hour 5)" in head
    (note,) = table_notes.late_in_words({"fifo": work.results(run(FIFO, work.episode()))}, [work])
    late = f"{100 * 32_800 / 39_600:.1f} %"
    assert note.endswith(f": fifo {late} (at most {late} in a window; jobs: 1 of 2).")


# The state at which policies begin.


def test_fifo_goes_on_as_if_nothing_had_been_cut(window: Workload) -> None:
    whole = run(FIFO, window._empty(2)).state
    begun = run(FIFO, window.episode()).state
    count = len(window.jobs)
    assert begun.finish_s[:count].tolist() == whole.finish_s[:count].tolist()


@pytest.mark.parametrize("name", ["srtf", "xion_threshold", "tiresias", "union", "easy", "drf", "gittins"])
def test_every_policy_begins_where_fifo_has_led(name: str, window: Workload) -> None:
    """What has started before the jobs that count, has started when FIFO starts it."""
    began_s = stretch_of(window.scenario).from_s
    count = len(window.jobs)
    fifo = run(FIFO, window._empty(2)).state.start_s[:count].copy()
    found = run(baselines.make(baselines.load(name)), window.episode()).state.start_s[:count]
    before = fifo < began_s
    assert before.any()
    assert found[before].tolist() == fifo[before].tolist()
    assert (found[~before] >= began_s).all()


def test_srtf_after_fifo_by_hand(tmp_path: Path) -> None:
    """One GPU, no pause costs. FIFO: j0 runs from 0; j1, j2 wait. At 2 h SRTF takes over with the arrival of j3.

    j0 has 2 h left, j1 0.5 h, j2 3 h, j3 1 h: j1 from 2 h to 2.5 h, j3 until 3.5 h, j0 until 5.5 h, j2 until 8.5 h.
    """
    hour = 3600.0
    load = log(tmp_path, [(0, 1, 4 * hour), (60, 1, 0.5 * hour), (120, 1, 3 * hour), (2 * hour, 1, hour)])
    state = run(Ranking("remaining", "by_order"), load.episode()).state
    assert (state.finish_s[:4] / hour).tolist() == pytest.approx([5.5, 2.5, 8.5, 3.5])
    assert load.counted.tolist() == [False, False, False, True]


def test_levels_set_at_the_begin_are_reached_as_if_set_before(window: Workload) -> None:
    levels = (600.0, 7200.0)
    late: Episode = window.episode()
    early = window._empty(2)
    early.set_levels(levels)
    early.run_until(BEFORE, stretch_of(window.scenario).from_s)
    ranking = Ranking("level", "by_order", levels=levels)
    finished = [run(ranking, each).state.finish_s[: len(window.jobs)].tolist() for each in (late, early)]
    assert finished[0] == finished[1]


def test_an_account_covers_the_time_before(window: Workload) -> None:
    account = Account()
    kept = run(FIFO, window.episode(account=account), account=account)
    plain = run(FIFO, window.episode())
    count = len(window.jobs)
    assert kept.state.finish_s[:count].tolist() == plain.state.finish_s[:count].tolist()
    first = account.segments().groupby("job")["from_s"].min()
    assert first.tolist() == window.table["submit_s"].tolist()


# Environments.


@pytest.mark.parametrize("action", ["plain", "moves", "steer"])
def test_an_environment_ends_with_the_jobs_that_count_and_scores_them(action: str, steady: Scenario) -> None:
    env: Any = make(vars(replace(steady, max_duration=7_200.0, after_days=5.0)), action=action, count=1)
    _, info = env.reset(seed=0)
    over = False
    while not over:
        if action == "steer":
            choice = np.zeros(env.action_space.shape or (), np.float32)
        else:
            choice = env.batch.lists["own"][0] if action == "moves" else info["action_mask"].argmax()
        _, _, terminated, truncated, info = env.step(choice)
        over = terminated or truncated
        finish_s = env.batch.states["finish_s"][0, : len(env.workload.jobs)]
        assert terminated == (not np.isnan(finish_s[env.workload.counted]).any())
    assert terminated
    assert np.isnan(finish_s).any()
    assert info["mean_jct_s"] == pytest.approx(env.results()["jct_s"].mean())
    assert len(env.results()) == env.workload.counted.sum()


# Logs.


@pytest.fixture
def of_log(tmp_path: Path) -> Scenario:
    return Scenario(
        trace_file=tiny.scenario(tmp_path, tiny.month())["trace_file"],
        cluster="1x4",
        physics="exclusive",
        steady_load=1.0,
        drop_too_large=True,
        warm_days=0.5,
        counted_days=1.0,
        after_days=0.5,
    )


def test_a_log_is_cut_into_disjoint_windows(of_log: Scenario) -> None:
    found = windows(replace(of_log, steady_load=2.0), "train", 2)
    ids = [set(each.table["job_id"]) for each in found]
    assert min(map(len, ids)) > 10
    assert not ids[0] & ids[1]


def test_a_whole_log_has_its_steady_windows_one_after_another(of_log: Scenario) -> None:
    """Two days each from the first submission on, without gaps between parts."""
    table = tiny.month()
    two_days = ((table["submit_s"] - table["submit_s"].iloc[0]) // (2 * DAY_S)).astype(int)
    number = dict(zip(table["job_id"], two_days, strict=True))
    found = of_whole_log(replace(of_log, steady_load=2.0), 8)
    assert [{number[job] for job in each.table["job_id"]} for each in found] == [{k} for k in range(8)]


def test_a_log_with_too_little_work_is_refused(of_log: Scenario) -> None:
    with pytest.raises(
        ValueError, match=r"no steady window of .* has that load on 1x4: the busiest has [0-9.]+ "
    ):
        windows(replace(of_log, steady_load=9.0), "train", 1)


def on_one_gpu(folder: Path, lines: Sequence[str], *, steady_load: float, warm_days: float) -> Scenario:
    """Write a log, a line per job, and return steady windows of it on one GPU, of which an hour counts."""
    file = folder / "log.csv"
    file.write_text("\n".join(["job_id,submit_s,num_gpus,duration_s", *lines]) + "\n")
    scenario = Scenario(trace_file=str(file), cluster="1x1", physics="none", steady_load=steady_load)
    return replace(scenario, warm_days=warm_days, counted_days=HOUR, after_days=HOUR)


def test_quiet_windows_of_a_log_are_left_out_and_counted(tmp_path: Path) -> None:
    """Windows of three hours: the first and the third offer two jobs of a quarter of an hour, a sixth of the load."""
    hours = [0, 1, *range(3, 6), 6, 7, *range(9, 12), 12]
    lines = [f"at{hour},{3600 * hour},1,{900 if hour % 6 < 2 else 3600}" for hour in hours]
    scenario = on_one_gpu(tmp_path, lines, steady_load=1.0, warm_days=HOUR)
    found = of_whole_log(scenario)
    assert [set(each.table["job_id"]) for each in found] == [{"at3", "at4", "at5"}, {"at9", "at10", "at11"}]
    note = "steady windows left out, since the log offers less than the load of 1 there: 2 of 4"
    assert [each.table.attrs["notes"].count(note) for each in found] == [1, 1]
    assert note not in of_whole_log(replace(scenario, steady_load=0.16), 1)[0].table.attrs["notes"]


def test_batches_of_a_log_are_chosen_again_where_they_miss_the_load(tmp_path: Path) -> None:
    """A batch of 18 h on one GPU misses the load of 0.25 by itself; eleven of an hour have up to 0.46 without it."""
    lines = [
        "long,0,1,64800",
        *(f"short{hour},{3600 * hour},1,3600" for hour in range(1, 12)),
        "end,86400,1,60",
    ]
    scenario = on_one_gpu(tmp_path, lines, steady_load=0.25, warm_days=HOUR)
    scenario = replace(scenario, counted_days=8 * HOUR, after_days=15 * HOUR)
    for seed in range(8):
        (found,) = of_whole_log(replace(scenario, seed=seed))
        assert len(found.table) == 6
        assert "long" not in set(found.table["job_id"])


def test_a_log_that_is_too_short_is_refused(of_log: Scenario) -> None:
    with pytest.raises(
        ValueError, match=r"only 0 of 1 steady windows of 41.5 days were found in the train part"
    ):
        windows(replace(of_log, after_days=40.0), "train", 1)


def test_a_window_in_which_no_job_counts_is_refused(tmp_path: Path) -> None:
    """Every four hours, eight jobs of half an hour are submitted in the first hour; the third hour would count."""
    submit_s = [4 * 3600 * window + 300 * job for window in range(20) for job in range(8)]
    lines = [f"j{k},{each},1,1800" for k, each in enumerate(submit_s)]
    scenario = on_one_gpu(tmp_path, lines, steady_load=1.0, warm_days=2 * HOUR)
    with pytest.raises(
        ValueError, match=r"train 0 of .* has no job to count, since none is submitted from day"
    ):
        windows(scenario, "train", 1)
    counted = windows(replace(scenario, warm_days=HOUR / 2, counted_days=2.5 * HOUR), "train", 1)[0].counted
    assert 0 < counted.sum() < len(counted)


# The default workload, which is steady.


def test_without_a_workload_fields_override_philly_and_it_is_steady() -> None:
    assert base({}) == base({"trace": "philly", "seed": 3, "steady_load": 0.9}) == named("philly")
    assert make_scenario(None, {"cluster": "8x8"}) == replace(named("philly"), cluster="8x8")
    assert named("philly").steady_load == 1.0


@pytest.mark.parametrize(
    "fields",
    [
        {"jobs": 60},
        {"target_load": 0.8},
        {"all_windows": True},
        {"full_trace": True},
        {"trace": "busy"},
        {"steady_load": None},
    ],
    ids=str,
)
def test_other_jobs_and_windows_of_a_number_of_jobs_override_the_backlog(fields: dict[str, Any]) -> None:
    assert make_scenario(None, fields) == replace(named("philly_backlog"), **fields)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"jobs": 60}, "--jobs 60 does not apply to steady windows, which last 24 days: .*philly_backlog"),
        ({"target_load": 0.8}, "--target-load does not apply .*drop --target-load or --workload philly"),
        ({"full_trace": True}, "--full-trace replays .*but --workload philly sets steady windows"),
        ({"full_trace": True, "steady_load": 0.9}, "--full-trace replays .*but --steady-load sets steady"),
    ],
    ids=str,
)
def test_what_contradicts_steady_windows_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_scenario("philly", fields)
    assert make_scenario("philly_backlog", {"jobs": 60}).jobs == 60


def test_a_full_trace_has_no_steady_load() -> None:
    with pytest.raises(ValueError, match="not both"):
        full_trace(replace(named("philly"), full_trace=True))


# Loads, batches and phrases by hand.


def jobs_of(*cells: tuple[float, int, float], **columns: Any) -> pd.DataFrame:
    """Return a table of jobs: submission, GPUs and run time of each."""
    table = pd.DataFrame(cells, columns=["submit_s", "num_gpus", "duration_s"])
    return table.assign(job_id=table.index.astype(str), **columns)


def test_the_load_is_gpu_time_over_capacity() -> None:
    """100 s on 1 GPU and 300 s on 2, on 4 GPUs for 50 s; of run times up to 200 s it is 500 GPU-seconds."""
    table = jobs_of((0, 1, 100), (9, 2, 300))
    assert load_of(table, 4, 50.0) == pytest.approx(700 / 200)
    assert load_of(table, 4, 50.0, 200.0) == pytest.approx(500 / 200)


def test_the_peak_is_the_work_of_the_busiest_hour() -> None:
    """The second hour has 100 + 2 x 400 GPU-seconds, run times being at most 400 s; the hour ends before 7,200 s."""
    table = jobs_of((0, 1, 300), (3600, 1, 100), (7199, 2, 500), (7200, 1, 200))
    assert peak_load(table, 4, 400.0) == pytest.approx(900 / (4 * 3600))


def test_jobs_count_from_the_begin_of_the_middle_to_its_end(steady: Scenario) -> None:
    half = 0.5 * DAY_S
    times = np.array([half - 1, half, DAY_S - 1, DAY_S])
    assert stretch_of(steady) == (half, DAY_S, 2 * DAY_S)
    assert counted(steady, times).tolist() == [False, True, True, False]


def test_a_batch_ends_with_a_gap_of_more_than_a_minute_or_another_virtual_cluster() -> None:
    """In any order; without virtual clusters all jobs are of one."""
    table = jobs_of(*((at, 1, 1.0) for at in (200.0, 0.0, 60.0, 120.5, 61.0)))
    assert batches(table).tolist() == [1, 0, 0, 0, 0]
    table.loc[3, "submit_s"] = 121.5
    assert batches(table).tolist() == [2, 0, 0, 1, 0]
    own = table.assign(vc=["b", "b", "a", "a", "b"])
    # a: 60 and 121.5, a gap of 61.5 s; b: 0 and 61, then 200.
    assert batches(own).tolist() == [4, 2, 0, 1, 3]


@pytest.mark.parametrize(("wanted", "kept"), [(0.098, None), (0.1, 1), (0.102, 1), (0.103, None), (0.2, 2)])
def test_a_load_is_met_within_a_fiftieth(wanted: float, kept: int | None) -> None:
    """Two batches of a load of 0.1 each: 0.098 is missed by more than a fiftieth of it, 0.102 by less."""
    table = jobs_of((0.0, 1, 100.0), (500.0, 1, 100.0))
    found = thinned(table, 1, 1000.0, wanted, np.random.default_rng(0))
    assert (None if found is None else len(found)) == kept


def test_a_thinned_table_keeps_its_notes_and_either_batch_may_go() -> None:
    table = jobs_of((0.0, 1, 100.0), (500.0, 1, 100.0))
    table.attrs = {"notes": ["a note"]}
    seen = set()
    for seed in range(20):
        found = thinned(table, 1, 1000.0, 0.1, np.random.default_rng(seed))
        assert found is not None
        assert (found.index.tolist(), found.attrs) == ([0], table.attrs)
        seen.add(found["submit_s"].item())
    assert seen == {0.0, 500.0}


def at_once(count: int) -> list[Any]:
    """Return workloads of jobs that are all submitted at 5 s, in windows that are not steady."""
    table = jobs_of((5.0, 1, 60.0), (5.0, 2, 60.0))
    load = SimpleNamespace(table=table, cluster=SimpleNamespace(num_gpus=2), scenario=Scenario())
    return [load] * count


def test_jobs_that_come_at_once_offer_no_finite_load() -> None:
    assert offered_in_words(at_once(1)) == "all jobs arrive at once"
    assert offered_in_words(at_once(2)) == "all jobs of a window arrive at once"


def test_the_load_of_other_windows_is_over_the_time_of_arrivals() -> None:
    """Submissions at 2,000 and 6,000 s on 2 GPUs: 4,000 x 1 (or 10,000) + 1,000 x 2 GPU-seconds, in two hours."""
    (load,) = at_once(1)
    load.table = jobs_of((2000.0, 1, 10_000.0), (6000.0, 2, 1000.0))
    found = offered(load)
    assert found == pytest.approx((6000 / 8000, 12_000 / 8000, 4000 / 7200))
    assert offered_in_words([load]) == "offered load 0.75 (uncapped 1.50, busiest hour 0.556)"
    more = SimpleNamespace(**vars(load) | {"table": load.table.assign(duration_s=1000.0)})
    assert offered_in_words([load, more]) == (  # type: ignore[list-item]
        "offered load 0.38 to 0.75 (uncapped 0.38 to 1.50, busiest hour 0.278 to 0.556)"
    )


@pytest.mark.parametrize(("last_s", "is_stated"), [(3599.0, False), (3600.0, True)])
def test_jobs_of_less_than_an_hour_have_no_busiest_hour(last_s: float, *, is_stated: bool) -> None:
    """An hour holds all of them, with less work per GPU-second than the minutes in which they arrive."""
    (load,) = at_once(1)
    load.table = jobs_of((0.0, 1, 60.0), (last_s, 1, 60.0))
    assert ("busiest hour" in offered_in_words([load])) == is_stated
    hours = SimpleNamespace(**vars(load) | {"table": jobs_of((0.0, 1, 60.0), (7200.0, 1, 60.0))})
    assert ("busiest hour" in offered_in_words([load, hours])) == is_stated  # type: ignore[list-item]


def test_parts_in_words_have_the_range_of_jobs(steady: Scenario) -> None:
    loads = [
        SimpleNamespace(table=range(jobs), counted=np.arange(jobs) < scored, scenario=steady)
        for jobs, scored in ((3_000, 1_200), (2_000, 1_100))
    ]
    assert parts_in_words(loads) == (  # type: ignore[arg-type]
        "FIFO schedules the first 0.5 days; the 1,100 to 1,200 jobs of days 0.5 to 1 are scored; jobs arrive until "
        "day 2 (2,000 to 3,000)"
    )


def test_a_window_of_a_log_has_its_jobs_that_fit_from_its_begin_on(steady: Scenario) -> None:
    """Windows of two days on 16 GPUs: from 100 s on, and before 172,900 s."""
    end_s = 100.0 + 2 * DAY_S
    table = jobs_of((99.0, 1, 9), (100.0, 16, 9), (500.0, 17, 9), (end_s - 1, 1, 9), (end_s, 1, 9))
    table.attrs = {"notes": ["a note"]}
    rows = _rows(table, steady, 100.0)
    assert (rows["job_id"].tolist(), rows["submit_s"].tolist()) == (["1", "3"], [0.0, 2 * DAY_S - 1])
    assert (rows.index.tolist(), rows.attrs) == ([0, 1], {"notes": ["a note"], "zero_s": 100.0})


@pytest.mark.parametrize(("load", "kept"), [(0.9, True), (0.89, False)])
def test_a_window_may_offer_a_tenth_less_than_the_load(steady: Scenario, load: float, kept: bool) -> None:
    """The first window offers a load of 1 and the second, from 2 days on, another; there is no third."""
    length_s = 2 * DAY_S
    table = jobs_of((0.0, 16, length_s), (length_s, 16, load * length_s + 1e-3))
    begins = [0.0, length_s]
    found, left = with_the_load(table, steady, begins)
    assert list(left) == begins[: 1 + kept]
    assert len(found.attrs.get("notes", [])) == (not kept)
    day = Window("train", 1)
    assert cut(table, steady, day, left[:1]) is None


def test_the_generator_is_asked_until_the_load_is_met(
    steady: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generator of one job of a day on 16 GPUs per draw, from noon on: a load of a half, which is too little."""
    calls = []

    def generated(name: str, *, seed: int, jobs: int, scale: float) -> pd.DataFrame:
        calls.append((jobs, scale))
        return jobs_of(
            (0.5 * DAY_S, 16, DAY_S), (2 * DAY_S, 16, DAY_S), (0.6 * DAY_S, 17, DAY_S)
        ).sort_values("submit_s")

    monkeypatch.setattr("gpu_cluster_gym.workloads._workload.load", generated)
    monkeypatch.setattr("gpu_cluster_gym.traces.rates", lambda name: None)
    monkeypatch.setattr("gpu_cluster_gym.workloads._steady.MAX_DRAWS", 3)
    long = replace(steady, max_duration=2 * DAY_S)
    with pytest.raises(ValueError, match=r"a load of at most 0\.5 to 2x8"):
        draw(long, Window("train", 0))
    assert calls == [(4000, 1.0)] * 3  # two thousand jobs a day, of two days
    found = draw(replace(long, steady_load=0.5), Window("train", 0))
    assert found[["job_id", "submit_s", "num_gpus"]].to_numpy().tolist() == [["0", 0.5 * DAY_S, 16]]
    with pytest.raises(ValueError, match=r"a load of at most 0\.25 to 2x8"):
        draw(replace(long, max_duration=0.5 * DAY_S), Window("train", 0))


@pytest.mark.parametrize(("last_days", "then"), [(0.5, 17_600), (1.9, 4_800), (2.0, None)])
def test_jobs_that_end_too_early_are_made_again(
    last_days: float, then: int | None, steady: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenth more than a proportional number for two days, and a fifth more at least: 4,000 x 1.1 x 4, or x 1.2."""
    calls = []

    def generated(name: str, *, seed: int, jobs: int, scale: float) -> pd.DataFrame:
        calls.append(jobs)
        last = last_days if len(calls) == 1 else 2.0
        return jobs_of((0.5 * DAY_S, 16, DAY_S), (last * DAY_S, 16, DAY_S))

    monkeypatch.setattr("gpu_cluster_gym.workloads._workload.load", generated)
    monkeypatch.setattr("gpu_cluster_gym.traces.rates", lambda name: None)
    draw(replace(steady, steady_load=0.5, max_duration=None), Window("train", 0))
    assert calls == ([4_000] if then is None else [4_000, then])


@pytest.mark.parametrize(("run_days", "grows"), [(1.0, True), (2.0, False)])
def test_a_generator_is_scaled_to_the_load(
    run_days: float, grows: bool, steady: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its 1,000 jobs an hour hold 8 GPUs: for 1.5 times a load of 1 on 16, it is scaled by 3, to 144,000 in 48 h.

    A tenth more, and one, are 158,401; while they offer too little work, a fifth more is made each time.
    """
    calls = []

    def generated(name: str, *, seed: int, jobs: int, scale: float) -> pd.DataFrame:
        calls.append((jobs, scale))
        return jobs_of((0.9 * DAY_S, 16, run_days * DAY_S), (2 * DAY_S, 16, DAY_S))

    rates = SimpleNamespace(gpus_held=8.0, jobs_per_hour=1000.0)
    monkeypatch.setattr("gpu_cluster_gym.workloads._workload.load", generated)
    monkeypatch.setattr("gpu_cluster_gym.traces.rates", lambda name: rates)
    monkeypatch.setattr("gpu_cluster_gym.workloads._steady.MAX_DRAWS", 3)
    scenario = replace(steady, max_duration=None)
    if not grows:
        draw(scenario, Window("train", 0))
        assert calls == [(158_401, 3.0)]
        return
    with pytest.raises(ValueError, match=r"a load of at most 0\.5 to 2x8"):
        draw(scenario, Window("train", 0))
    assert [jobs for jobs, _ in calls] == [158_401, 190_081, 228_097]
    assert [scale for _, scale in calls] == pytest.approx([3.0, 3.6, 4.32])
