"""Experiments compare policies on the same jobs and give a verdict on each claim."""

import json
import math
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from gpu_cluster_gym import experiments
from gpu_cluster_gym.evaluate import main, read_choices
from gpu_cluster_gym.evaluation import table
from gpu_cluster_gym.evaluation.comparison import Estimate, estimate
from gpu_cluster_gym.evaluation.metrics import METRICS
from gpu_cluster_gym.evaluation.plot.style import spread_out
from gpu_cluster_gym.experiments import Outcome, Setting, _output, aiturbo, coda, xion, xonar
from gpu_cluster_gym.experiments._paper import Claim, Needs
from gpu_cluster_gym.experiments._trials import change_trials, default_policies, sample_trials
from gpu_cluster_gym.simulator.policy import Action
from gpu_cluster_gym.simulator.view import View
from gpu_cluster_gym.traces import modules
from gpu_cluster_gym.workloads import named
from gpu_cluster_gym.workloads.coda_mix import HEAVY_SHARE

COLUMNS = ["claim", "paper", "measured", "low", "high", "verdict"]
UNKNOWN = math.nan


def claim(needs: Needs, *measured: float, paper: float = 1.0) -> Claim:
    return Claim(f"It is {needs} one.", Estimate(*measured), needs, paper)


# Claims.


@pytest.mark.parametrize(
    ("needs", "measured", "verdict"),
    [
        ("at least", (1.2, 1.0, 1.3), "reached"),
        ("at least", (1.2, 0.9, 1.3), "not sure"),
        ("at least", (0.8, 0.7, 1.1), "not sure"),
        ("at least", (0.8, 0.7, 0.9), "not reached"),
        ("more than", (1.2, 1.0, 1.3), "not sure"),
        ("more than", (1.2, 1.1, 1.3), "reached"),
        ("at most", (0.8, 0.7, 1.0), "reached"),
        ("at most", (0.8, 0.7, 1.1), "not sure"),
        ("at most", (1.2, 1.1, 1.3), "not reached"),
        ("less than", (0.8, 0.7, 1.0), "not sure"),
        ("less than", (0.8, 0.7, 0.9), "reached"),
        ("exactly", (1.0, 1.0, 1.0), "reached"),
        ("exactly", (1.1, 1.0, 1.2), "not sure"),
        ("exactly", (1.2, 1.1, 1.3), "not reached"),
        ("at least", (1.2, UNKNOWN, UNKNOWN), "not sure"),
        ("at most", (UNKNOWN, UNKNOWN, UNKNOWN), "not sure"),
    ],
)
def test_the_whole_interval_decides_the_verdict(
    needs: Needs, measured: tuple[float, ...], verdict: str
) -> None:
    assert claim(needs, *measured).verdict == verdict


def test_a_claim_must_state_its_direction() -> None:
    with pytest.raises(ValueError, match="does not say 'at most'"):
        Claim("It is at least one.", Estimate(1, 1, 1), "at most", 1.0)


def test_an_unknown_value_is_null() -> None:
    row = claim("at least", 2.0, UNKNOWN, UNKNOWN).row()
    assert list(row) == COLUMNS
    assert (row["measured"], row["low"], row["high"]) == (2.0, None, None)
    assert (row["paper"], row["verdict"]) == (1.0, "not sure")


# Estimates.


def summary(*numbers: float) -> pd.DataFrame:
    return pd.DataFrame({"window": range(len(numbers)), "seed": 0, "mean_jct_s": numbers})


def test_trials_are_compared_in_pairs() -> None:
    """Trials differ far more than policies, but the paired difference is certain."""
    trials = np.array([100.0, 1_000.0, 10_000.0])
    found = Outcome({}, {("here", "mine"): summary(*0.9 * trials), ("here", "other"): summary(*trials)})
    mine, other = ("here", "mine"), ("here", "other")
    assert found.saving(mine, other) == pytest.approx((0.1, 0.1, 0.1))
    assert found.ratio(other, mine) == pytest.approx((1 / 0.9,) * 3)
    assert found.difference(mine, other, "mean_jct_s").mean == pytest.approx(-0.1 * trials.mean())
    assert found.mean(mine).low < 0.9 * 5_000 < found.mean(mine).high


def test_one_trial_has_no_interval() -> None:
    one = estimate([3.0])
    assert one.mean == 3
    assert math.isnan(one.low)
    assert (_output.share(one), _output.times(one)) == ("300.0 %", "3.00 times")


def test_intervals_as_text() -> None:
    assert _output.texts(Estimate(0.2, 0.1, 0.3), "{:.0%}") == ("20 %", "10-30 %")
    assert _output.texts(Estimate(0.2, -0.1, 0.3), "{:.1f}") == ("0.2", "-0.1 to 0.3")


# Figures.


@pytest.mark.parametrize("heights", [[1.0], [0.0, 5.0], [0.0, 0.1, 0.2], [0.0, 0.9, 1.0, 1.1, 5.0]])
def test_names_of_curves_do_not_touch(heights: list[float]) -> None:
    places = spread_out(heights, 0.5)
    assert len(places) == len(heights)
    assert all(upper - lower >= 0.5 - 1e-9 for lower, upper in pairwise(places))
    assert sum(places) == pytest.approx(sum(heights))


# Papers.


@pytest.mark.parametrize("name", modules("experiments"))
def test_every_paper_has_claim_and_inferred_details(name: str) -> None:
    paper = experiments.load(name)
    assert paper.trials >= 8
    assert "Claim:" in paper.about
    assert "Inferred" in paper.about


@pytest.mark.parametrize("name", modules("experiments"))
def test_every_paper_reports_any_outcome(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is simulated; all metrics are random."""
    monkeypatch.setattr(aiturbo, "HORIZONS", aiturbo.HORIZONS[:2])
    monkeypatch.setattr(aiturbo, "FITTED", 1)
    paper = experiments.load(name)
    found = random_outcome(paper.settings(1, 0))
    printed = StringIO()
    for part in paper.report(found):
        table.console(printed).print(part)
    assert max(map(len, printed.getvalue().splitlines())) <= 120
    few = min(found.counts().values()) < 20
    assert ("fewer than 20 trials, intervals are too narrow" in " ".join(printed.getvalue().split())) == few
    assert any(claim.paper for claim in paper.claims(found))
    pictures = paper.write(tmp_path, name, found)
    assert [path.name for path in pictures] == [f"{name}.png", f"{name}.svg"]


def random_outcome(settings: Sequence[Setting]) -> Outcome:
    """Return trials of the settings with random metrics and constant job times."""
    rng = np.random.default_rng(1)
    found = Outcome({}, {})
    for setting in settings:
        windows = pd.DataFrame({"window": [load.window.number for load in setting.workloads], "seed": 0})
        jobs = pd.concat(
            [
                load.table[["job_id", "num_gpus"]].assign(window=load.window.number)
                for load in setting.workloads
            ]
        )
        for policy in setting.policies:
            numbers = {name: rng.uniform(0.5, 1.5, len(windows)) for name in METRICS}
            found.summaries[setting.name, policy] = windows.assign(**numbers)
            ones = dict.fromkeys(("finish_s", "wait_s", "run_s", "core_s"), 1.0)
            found.results[setting.name, policy] = jobs.assign(**ones)
    return found


def test_the_cost_of_failures_has_no_effect_without_failures() -> None:
    """So Xonar is not run again in settings that change only that cost."""
    usual = sample_trials("xonar_memory", 2, seed=0)
    costly = change_trials(usual, restart_delay=600.0, peak_at=0.5, oom_victim="newcomer")
    found = experiments.simulate(
        [
            Setting(name, loads, default_policies("xonar"))
            for name, loads in {"usual": usual, "costly": costly}.items()
        ]
    )
    usual_s, costly_s = (found.results[name, "xonar"]["finish_s"] for name in ("usual", "costly"))
    assert usual_s.equals(costly_s)


def test_an_error_names_setting_policy_and_window() -> None:
    """The others of the setting are still run, and kept in a journal where there is one."""

    def fails(view: View) -> Action:
        raise KeyError("no idea")

    done: list[str] = []
    policies = {"broken": lambda: fails, **default_policies("packed_fifo")}
    setting = Setting("a day", sample_trials("xonar_memory", 2, seed=0), policies)
    with pytest.raises(
        RuntimeError, match=r"^a day: broken, window 0: KeyError: 'no idea' \(test_experiments.py, line"
    ):
        experiments.simulate([setting], done=lambda policy, _: done.append(policy))
    assert done == ["packed_fifo"] * 2


def test_sweeps_start_at_the_workloads_values() -> None:
    for kind in ("mix", "memory"):
        (load,) = sample_trials(f"xonar_{kind}", 1, seed=0)
        assert (load.scenario.restart_delay, load.scenario.peak_at) == (xonar.RESTART_S, xonar.PEAKS[0])
    assert xonar.DELAYS_S[0] == xonar.RESTART_S


def test_the_default_share_of_heavy_jobs_gives_the_default_workload() -> None:
    usual = sample_trials("coda_mix", 1, seed=2)
    (same,), (more,) = (coda.with_share(usual, share) for share in (HEAVY_SHARE, 0.4))
    assert same.table.equals(usual[0].table)
    heavy, heavier = (load.table["bandwidth_gbs"].to_numpy() > 0 for load in (same, more))
    assert heavier.sum() > heavy.sum()
    assert heavier[heavy].all()


@pytest.mark.parametrize("change", [None, lambda table: table.assign(pause_s=0.0)])
def test_a_changed_workload_has_the_same_jobs(change: Any) -> None:
    usual = sample_trials("xion_small", 2, seed=3)
    other = change_trials(usual, change, placement="pooled")
    for before, after in zip(usual, other, strict=True):
        columns = ["job_id", "submit_s", "duration_s", "num_gpus", "load_s"]
        assert before.table[columns].equals(after.table[columns])
        assert (before.window, before.scenario.seed) == (after.window, after.scenario.seed)
        assert after.scenario.placement == "pooled"


class Run(NamedTuple):
    """Printed text and run folder of a command."""

    printed: str
    folder: Path

    def claims(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads((self.folder / "claims.json").read_text())
        return rows


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run Xion's experiment with two trials and fewer overheads and loads."""
    folder = tmp_path_factory.mktemp("xion") / "out"
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.setattr(xion, "OVERHEADS_S", (0.0, xion.USUAL_S, 400.0))
        patch.setattr(xion, "LOADS", (0.7, 0.8))
        patch.setattr(xion, "OVER_LOADS_S", (xion.USUAL_S,))
        assert main(["--paper", "xion", "--windows", "2", "--seed", "1", "--out", str(folder)]) == 0
    return Run(" ".join(printed.getvalue().split()), folder)


def test_a_run_folder_has_all_files(tiny: Run) -> None:
    names = {
        "choices.json",
        "claims.json",
        "journal.json",
        "status.json",
        "summary.json",
        "trials.csv",
        "xion.png",
        "xion.svg",
    }
    assert {path.name for path in tiny.folder.iterdir()} == names
    choices = json.loads((tiny.folder / "choices.json").read_text())
    assert (choices["paper"], choices["policy"], choices["windows"]) == ("xion", [], 2)
    assert choices["scenario"]["seed"] == 1


def test_choices_can_be_read_from_the_run_folder(tiny: Run) -> None:
    again = read_choices(["--config", str(tiny.folder)])
    assert (again.paper, again.windows, again.scenario) == ("xion", 2, replace(named("philly"), seed=1))


def test_claims_are_rows_of_known_columns(tiny: Run) -> None:
    rows = tiny.claims()
    assert all(list(row) == COLUMNS for row in rows)
    assert {row["paper"] for row in rows} == {1, xion.SHORTER, xion.WAIT_TIMES}
    assert {row["verdict"] for row in rows} <= {"reached", "not reached", "not sure"}
    assert all(row["low"] <= row["measured"] <= row["high"] for row in rows)


def test_xion_equals_its_limits_in_every_trial(tiny: Run) -> None:
    """Without overhead Xion is SRTF; with endless overhead it never preempts, so it is SJF."""
    trials = pd.read_csv(tiny.folder / "trials.csv").set_index(["setting", "policy"])
    ends = trials["mean_jct_s"]
    assert ends[xion.FREE, "xion"].tolist() == ends[xion.FREE, "srtf"].tolist()
    assert ends[xion.ENDLESS, "xion"].tolist() == ends[xion.ENDLESS, "sjf"].tolist()


def test_every_trial_is_saved_and_matches_the_summary(tiny: Run) -> None:
    trials = pd.read_csv(tiny.folder / "trials.csv")
    assert list(trials)[:4] == ["setting", "policy", "window", "seed"]
    assert set(trials.columns[4:]) <= set(METRICS)
    assert trials.groupby(["setting", "policy"])["window"].nunique().eq(2).all()
    kept = json.loads((tiny.folder / "summary.json").read_text())
    assert (kept["paper"], kept["trials"][xion.USUAL]) == ("xion", 2)
    means = kept["means_over_trials"]
    for (setting, policy), rows in trials.groupby(["setting", "policy"]):
        saved = means[setting][policy]["mean_jct_s"]["mean"]
        assert saved == pytest.approx(rows["mean_jct_s"].mean())


def test_settings_have_the_same_jobs(tiny: Run) -> None:
    """FIFO never pauses a job, so its trials do not depend on the cost of a pause."""
    trials = pd.read_csv(tiny.folder / "trials.csv")
    alike = [xion.USUAL, *map(xion.overhead, (*xion.OVERHEADS_S, xion.ENDLESS_S))]
    fifo = trials[(trials["policy"] == "fifo") & trials["setting"].isin(alike)]
    assert fifo.groupby("window")["mean_jct_s"].nunique().eq(1).all()


def test_the_figure_is_not_empty(tiny: Run) -> None:
    picture = imread(tiny.folder / "xion.png")
    assert picture.shape[1] > 1_000
    assert 0.02 < (picture[..., :3].min(axis=2) < 0.9).mean() < 0.5
    drawing = (tiny.folder / "xion.svg").read_text()
    assert all(f">{name}</text>" in drawing for name in ("FIFO", "SJF", "SRTF", "Xion", "Xion, gap rule"))


def test_the_output_names_inferred_details_and_sjf(tiny: Run) -> None:
    for words in (
        "Inferred: the rule",
        "2 test windows of 120 jobs",
        "SJF, which never preempts",
        "Counterexample",
    ):
        assert words in tiny.printed or words.lower() in tiny.printed.lower()
    assert str(tiny.folder / "xion.png") in tiny.printed


def test_inexact_profiles_let_jobs_run_out_of_memory() -> None:
    """With exact profiles no job does. So the claim of no failures can fail."""
    loads = sample_trials("xonar_memory", 8, seed=0)
    off = xonar.misprofiled(loads, 0.2)
    found = experiments.simulate(
        [
            Setting(name, each, default_policies("xonar"))
            for name, each in {"exact": loads, "off": off}.items()
        ]
    )
    assert found.mean(("exact", "xonar"), "oom_restarts").mean == 0
    assert found.mean(("off", "xonar"), "oom_restarts").mean > 0
    errors = np.concatenate(
        [np.log(each.table["profiled_memory_gib"] / each.table["gpu_memory_gib"]) for each in off]
    )
    assert errors.std() == pytest.approx(0.2, rel=0.3)
    assert all(
        each.table["gpu_memory_gib"].equals(load.table["gpu_memory_gib"])
        for each, load in zip(off, loads, strict=True)
    )


def test_a_gang_keeps_its_job_and_its_load() -> None:
    (load,) = sample_trials("xion_small", 1, seed=0, placement="pooled")
    gangs = xion.in_gangs(load)
    for column in ("job_id", "duration_s", "pause_s", "load_s"):
        assert gangs.table[column].equals(load.table[column])
    assert set(gangs.table["num_gpus"]) == {1, 2, 4, 8}
    asked, slots = (
        (each.table["num_gpus"] * each.table["duration_s"]).sum()
        / each.cluster.num_gpus
        / each.table["submit_s"].max()
        for each in (gangs, load)
    )
    assert asked == pytest.approx(slots, rel=0.25)
