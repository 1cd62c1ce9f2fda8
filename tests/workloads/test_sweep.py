"""The sweep of steady windows: rows of one setting, the rule by which it is accepted, and the table of the page."""

from pathlib import Path

import pandas as pd
import pytest

from benchmarks import steady
from gpu_cluster_gym import baselines
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.workloads import named

ROOT = Path(__file__).resolve().parents[2]


def kept() -> list[dict[str, object]]:
    """Return the rows of docs/sweep.csv."""
    table = pd.read_csv(ROOT / "docs" / "sweep.csv", keep_default_na=False)
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def test_a_row_has_ratios_to_the_best_policy() -> None:
    """Of sixteen GPUs and windows of a day; the ratios are means of the windows' own."""
    setting = steady.STANDARD | {"cluster": "2x8", "days": "0.25 + 0.25 + 0.5", "cap_days": 0.25}
    scenario = steady.scenario_of(setting)
    row = steady.row_of(setting, scenario, 1)
    means = {}
    for name in (row["best"], "fifo_strict"):
        policy = baselines.load(name)
        loads = steady.windows_of(scenario, 1)
        tables = [load.results(run(baselines.make(policy), load.episode())) for load in loads]
        means[name] = [each["jct_s"].mean() for each in tables]
    ratios = [ours / best for ours, best in zip(means["fifo_strict"], means[row["best"]], strict=True)]
    assert row["fifo_strict"] == pytest.approx(sum(ratios) / 2)
    assert row["jobs"] == round(sum(len(each.jobs) for each in loads) / 2)


def test_a_setting_is_accepted_by_three_criteria() -> None:
    good = {"waiting": 0.25, "random": 1.25, "late_work": 0.05}
    assert steady.verdict(good) == "accepted"
    assert steady.verdict(good | {"waiting": 0.24}) == "waits too little"
    bad = {"waiting": 0.2, "random": 1.2, "late_work": 0.06}
    assert steady.verdict(bad) == "waits too little, order matters too little, late work"


def test_the_standard_is_in_the_sweep_and_accepted() -> None:
    assert steady.choices_of(named("philly")) == steady.STANDARD
    (row,) = (row for row in kept() if all(row[name] == steady.STANDARD[name] for name in steady.COLUMNS))
    assert row["verdict"] == "accepted"
    assert len(kept()) == len(steady.SWEEP)


def test_the_page_has_the_table_of_the_sweep(tmp_path: Path) -> None:
    """Written anew from docs/sweep.csv, neither changes."""
    (tmp_path / "docs").mkdir()
    page, csv = (ROOT / "docs" / name for name in ("workloads.md", "sweep.csv"))
    for file in (page, csv):
        (tmp_path / "docs" / file.name).write_bytes(file.read_bytes())
    steady.write(tmp_path, kept(), 4)
    for file in (page, csv):
        assert (tmp_path / "docs" / file.name).read_text("utf-8") == file.read_text("utf-8")
