"""A search uses training and validation windows, keeps its budget, repeats, and its results can be evaluated."""

import json
import math
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchmarks import tune
from benchmarks.tune import Outcome, candidates
from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents.resolve import BASELINES
from gpu_cluster_gym.baselines import _tuned
from gpu_cluster_gym.evaluate import main, read_choices
from gpu_cluster_gym.evaluation.choices import workload_like
from gpu_cluster_gym.simulator.policy import Policy, Ranking
from gpu_cluster_gym.traces import VERSION
from gpu_cluster_gym.workloads import Scenario, Window, Workload, full_trace, named, prepare, windows
from gpu_cluster_gym.workloads import names as workload_names

SMALL = named("xion_small")
MARGINS = {"margin": (0.5, 2.0, 8.0, 1e9)}
TUNABLE = [name for name in baselines.names() if baselines.grid(name)]
KEPT = [name for name in workload_names() if baselines.searched(name)]


def threshold(**settings: Any) -> Policy:
    return tune.made(baselines.load("xion_threshold"), **settings)


@pytest.fixture(scope="module")
def training() -> list[Workload]:
    return windows(SMALL, "train", 3)


@pytest.fixture(scope="module")
def validation() -> list[Workload]:
    return windows(SMALL, "validation", 2)


@pytest.fixture(scope="module")
def found(training: list[Workload], validation: list[Workload]) -> Outcome:
    return tune.search(threshold, MARGINS, training, validation, budget=10**6)


# The search.


def test_candidates_are_the_defaults_and_then_each_grid_point_once() -> None:
    grid = {"a": (1, 2, 3), "b": ("x", "y")}
    first, *others = candidates(grid, seed=0)
    assert first == {}
    assert sorted((each["a"], each["b"]) for each in others) == [(a, b) for a in (1, 2, 3) for b in "xy"]
    assert list(candidates(grid, seed=0)) == [first, *others]
    assert list(candidates(grid, seed=1)) != [first, *others]


def test_a_score_is_the_mean_ratio_to_fifo_and_events_are_instants(
    found: Outcome, training: list[Workload]
) -> None:
    trial = found.training[1]
    pairs = [tune.counted(threshold, trial.settings, load) for load in training]
    fifo = [tune.counted(lambda: Ranking("submit"), {}, load)[0] for load in training]
    ratios = [jct / usual for (jct, _), usual in zip(pairs, fifo, strict=True)]
    assert trial.score == pytest.approx(sum(ratios) / len(ratios))
    assert trial.events == sum(events for _, events in pairs)


def test_validation_chooses_among_the_default_and_the_best_few(found: Outcome) -> None:
    assert len(found.training) == 1 + 4
    assert found.training[0].settings == found.validation[0].settings == {}
    assert found.best == min(found.validation, key=lambda trial: trial.score).settings
    complete = [trial for trial in found.training[1:] if len(trial.ratios) == 3]
    few = sorted(complete, key=lambda trial: trial.score)[: tune.FINALISTS]
    assert [trial.settings for trial in found.validation[1:]] == [trial.settings for trial in few]


@pytest.mark.parametrize("share", [0.6, 0.75, 0.9])
def test_the_budget_is_never_exceeded(
    share: float, found: Outcome, training: list[Workload], validation: list[Workload]
) -> None:
    budget = int(share * found.events)
    cut = tune.search(threshold, MARGINS, training, validation, budget=budget)
    assert cut.training[0] == found.training[0]
    assert found.training[0].events < cut.events <= budget


def test_the_best_settings_run_on_more_windows(training: list[Workload], validation: list[Workload]) -> None:
    """Sixteen windows: all settings run on the first, the best of them on four, and the best of these on all.

    A setting costs one window in the first round, three more in the second and twelve more in the third, and rounds
    have equal budgets, so that some settings are left behind each time.
    """
    many = windows(SMALL, "train", 16)
    grid = {"margin": (0.5, 2.0, 8.0, 32.0, 1e9), "exponent": (0.5, 1.0)}
    budget = tune.search(threshold, {}, many, validation, budget=10**6).events * 7 // 2
    default, *others = tune.search(threshold, grid, many, validation, budget=budget).training
    reached = [len(trial.ratios) for trial in others]
    assert len(default.ratios) == 16
    assert [count for count in (1, 4, 16) if count in reached] == [1, 4, 16]
    for few, more in ((1, 4), (4, 16)):
        left = [trial for trial in others if len(trial.ratios) == few]
        passed = [trial for trial in others if len(trial.ratios) >= more]
        assert max(sum(trial.ratios[:few]) for trial in passed) <= min(sum(trial.ratios) for trial in left)


def test_a_budget_for_not_even_one_policy_is_refused(
    training: list[Workload], validation: list[Workload]
) -> None:
    with pytest.raises(ValueError, match="budget 100: expected at least"):
        tune.search(threshold, MARGINS, training, validation, budget=100)


def test_a_grid_that_changes_nothing_is_given_up(
    training: list[Workload], validation: list[Workload]
) -> None:
    grid = {"margin": (1e9, 2e9, 3e9)}
    never = partial(threshold, margin=4e9)

    def make(**settings: Any) -> Policy:
        return threshold(**settings) if settings else never()

    outcome = tune.search(make, grid, training, validation, budget=10**6)
    assert [len(trial.ratios) for trial in outcome.training] == [3, 1, 1, 1]
    assert outcome.best == {}


# Test windows.


@pytest.mark.parametrize("split", ["test", "validation"])
def test_a_search_refuses_to_train_on_other_windows(split: Any, validation: list[Workload]) -> None:
    with pytest.raises(ValueError, match="expects windows of the train split"):
        tune.search(threshold, MARGINS, windows(SMALL, split, 1), validation, budget=10**6)


def test_a_search_refuses_test_windows_and_whole_traces_for_validation(training: list[Workload]) -> None:
    everything = full_trace(
        Scenario(full_trace=True, trace="xion_small", cluster="1x2", jobs=20, physics="exclusive")
    )
    for wrong in (windows(SMALL, "test", 1), [everything]):
        with pytest.raises(ValueError, match="expects windows of the validation split"):
            tune.search(threshold, MARGINS, training, wrong, budget=10**6)


def test_the_command_makes_no_test_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Workload] = []

    def watched(table: pd.DataFrame, scenario: Scenario, *, window: Window) -> Workload:
        seen.append(prepare(table, scenario, window=window))
        return seen[-1]

    monkeypatch.setattr("gpu_cluster_gym.workloads._windows.prepare", watched)
    tune.main(["--workload", "xonar_mix", "--policy", "las", "--budget", "500", "--out", str(tmp_path)])
    assert {load.window.split for load in seen} == {"train", "validation"}


# The command and its files.


def test_the_command_is_reproducible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--workload", "xonar_mix", "--policy", "lucid", "--budget", "1000"]
    for name in ("one", "two"):
        tune.main([*args, "--out", str(tmp_path / name)])
    one, two = ((tmp_path / name / "xonar_mix.json").read_bytes() for name in ("one", "two"))
    assert one == two
    kept = json.loads(one)
    assert (kept["workload"], kept["seed"], kept["budget"], kept["best"]) == ("xonar_mix", 0, 1000, "lucid")
    assert 0 < kept["policies"]["lucid"]["events"] <= 1000
    assert "lucid" in capsys.readouterr().out


def test_tuning_a_policy_keeps_the_results_of_others(tmp_path: Path) -> None:
    for policy in ("muri", "lucid"):
        args = ["--workload", "xonar_mix", "--policy", policy, "--budget", "500", "--out", str(tmp_path)]
        tune.main(args)
    kept = json.loads((tmp_path / "xonar_mix.json").read_bytes())["policies"]
    assert list(kept) == ["lucid", "muri"]


@pytest.mark.parametrize("name", TUNABLE)
def test_a_declared_grid_has_settings_that_the_policy_takes(name: str) -> None:
    grid = baselines.grid(name)
    assert 2 <= math.prod(map(len, grid.values())) < 10**6
    make = partial(tune.made, baselines.load(name))
    for settings in [*candidates(grid, seed=0)][:50]:
        assert callable(make(**settings))
        assert json.loads(json.dumps(settings, allow_nan=False)).keys() == settings.keys()


@pytest.mark.parametrize("workload", KEPT)
def test_stored_settings_are_in_the_grids_and_within_the_budget(workload: str) -> None:
    kept = json.loads((tune.FOLDER / f"{workload}.json").read_text(encoding="utf-8"))
    assert kept["best"] == min(kept["policies"], key=lambda name: kept["policies"][name]["validation"])
    for name, each in kept["policies"].items():
        grid, settings = baselines.grid(name), baselines.tuned(workload, name).settings
        assert not settings or settings.keys() == grid.keys()
        assert [key for key, value in settings.items() if value not in grid[key]] == []
        assert each["events"] <= kept["budget"]
        assert each["validation"] <= each["default"]["validation"]


def test_a_varied_policy_is_of_the_same_kind_with_other_numbers() -> None:
    las = baselines.make(baselines.vary(baselines.load("las"), levels=(5.0,)))
    assert las == Ranking("level", "by_order", levels=(5.0,))
    xion = baselines.make(baselines.vary(baselines.load("xion"), margin_s=9.0))
    assert (type(xion), vars(xion)["margin_s"]) == (baselines.load("xion"), 9.0)
    assert baselines.vary(baselines.load("random")) is baselines.load("random")


# Evaluating it.


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in which lucid and las are tuned for xonar_mix."""
    found = {"settings": {"limits": [0.5, 0.8]}, "validation": 0.6}
    others = {"settings": {}, "validation": 1.0}
    document = {
        "streams": VERSION,
        "budget": 1000,
        "best": "lucid",
        "policies": {"las": others, "lucid": found},
    }
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "xonar_mix.json").write_text(json.dumps(document), encoding="utf-8")
    monkeypatch.setattr(_tuned, "FOLDER", tmp_path / "tuned")
    return tmp_path


def test_the_best_is_compared_with_the_default(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--policy", "tuned", "--workload", "xonar_mix", "--windows", "2", "--out", str(kept / "out")]
    assert main(args) == 0
    out, notes = capsys.readouterr().out, (kept / "out" / "notes.txt").read_text(encoding="utf-8")
    rows = [line.split()[0] for line in out.splitlines() if line[:1].isalpha()]
    assert rows[rows.index("tuned:lucid") :][:4] == ["tuned:lucid", "lucid", *BASELINES[:2]]
    expected = (
        "lucid with limits = (0.5, 0.8), found on training windows of xonar_mix with 1,000 simulated events."
    )
    assert expected in notes
    assert (kept / "out" / "tuned_lucid" / "jobs.csv").is_file()


def test_settings_from_windows_of_an_earlier_version_are_marked(kept: Path) -> None:
    assert not baselines.tuned("xonar_mix").earlier
    file = kept / "tuned" / "xonar_mix.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"streams": VERSION - 1}), encoding="utf-8")
    assert baselines.tuned("xonar_mix").description.endswith(", searched on windows of an earlier version.")


def test_tuning_again_drops_results_of_an_earlier_version(tmp_path: Path) -> None:
    args = ["--workload", "xonar_mix", "--budget", "500", "--out", str(tmp_path)]
    tune.main([*args, "--policy", "muri"])
    file = tmp_path / "xonar_mix.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"streams": VERSION - 1}), encoding="utf-8")
    tune.main([*args, "--policy", "lucid"])
    kept = json.loads(file.read_text())
    assert (list(kept["policies"]), kept["streams"]) == (["lucid"], VERSION)


def test_a_run_folder_of_a_tuned_policy_gives_its_choices_again(kept: Path) -> None:
    args = ["--policy", "tuned:las", "--workload", "xonar_mix", "--windows", "1"]
    assert main([*args, "--out", str(kept / "out")]) == 0
    assert main(["--config", str(kept / "out"), "--out", str(kept / "again")]) == 0
    one, two = ((kept / name / "tuned_las" / "jobs.csv").read_bytes() for name in ("out", "again"))
    assert one == two


def test_constants_are_compared_with_union(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"streams": VERSION, "physics": "all", "episodes": 4321, "weights": {"price": 1.5}}
    (tmp_path / "xonar_mix.json").write_text(json.dumps(found), encoding="utf-8")
    monkeypatch.setattr(_tuned, "CONSTANTS", tmp_path)
    args = ["--workload", "xonar_mix", "--windows", "2", "--out", str(tmp_path / "out")]
    assert main(["--policy", "constants", *args]) == 0
    out, notes = capsys.readouterr().out, (tmp_path / "out" / "notes.txt").read_text(encoding="utf-8")
    rows = [line.split()[0] for line in out.splitlines() if line[:1].isalpha()]
    assert rows[rows.index("constants") :][:3] == ["constants", "union", "fifo"]
    expected = (
        "constants: union with price = 1.5, found on training windows of xonar_mix under --physics all in 4,321 "
        "simulated episodes."
    )
    assert expected in notes


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ("--policy", "tuned:fifo", "--workload", "xonar_mix"),
            "'fifo' is not tuned .* expected las, lucid",
        ),
        (
            ("--policy", "tuned", "--workload", "quick"),
            "no policy is tuned for workload 'quick': expected xonar_mix",
        ),
        (("--policy", "tuned", "--jobs", "9"), "name it with --workload"),
        (("--policy", "constants", "--workload", "quick"), "no constants exist for workload 'quick'"),
        (("--policy", "constants", "--jobs", "9"), "--policy constants requires .* name it with --workload"),
    ],
)
def test_untuned_names_are_refused_with_a_message(
    kept: Path, args: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*args, "--out", str(kept / "out")]) == 2
    assert re.search(said, capsys.readouterr().err)


@pytest.mark.parametrize("name", workload_names())
def test_a_scenario_is_known_for_the_workload_that_it_is(name: str) -> None:
    chosen = read_choices(["--policy", "fifo", "--workload", name, "--seed", "3"]).scenario
    assert workload_like(chosen) == name
    assert workload_like(read_choices(["--policy", "fifo", "--trace", "philly"]).scenario) == "philly"
    assert workload_like(replace(chosen, run_time_predictor="mixed")) == name
