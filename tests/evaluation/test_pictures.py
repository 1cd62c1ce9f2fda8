"""Figures have the widths of a paper and show the run's numbers."""

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import image

from docs.pages import columns as pages
from gpu_cluster_gym.evaluate import main, read_choices
from gpu_cluster_gym.evaluation import record
from gpu_cluster_gym.evaluation.plot import __main__ as plot
from gpu_cluster_gym.evaluation.plot import figures, run_tables
from gpu_cluster_gym.evaluation.plot.style import IN_PRINT, INCHES, PALETTE, look, marker, style
from tests.cases import tiny
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a recorded run of three policies on shared GPUs."""
    place = tmp_path_factory.mktemp("pictures")
    return ran(place, tiny.mixed(seed=1), "--record", "--policy", "fifo", "srtf", "gandiva")


def ran(place: Path, table: pd.DataFrame, *more: str) -> Path:
    """Run the command on a table of jobs and return the run folder."""
    chosen = tiny.scenario(place, table, physics="memory,preemption,estimates,sharing,cores,cpu_jobs")
    flags = [f"--{flag.replace('_', '-')}={value}" for flag, value in chosen.items() if flag != "full_trace"]
    assert main([*more, *flags, "--full-trace", "--out", str(place / "out")]) == 0
    return place / "out"


# Too many bars.


def test_shares_in_place_of_many_bars_have_the_same_total(folder: Path) -> None:
    run = run_tables.read(folder)
    found = run_tables.gantt(run, "srtf", 0, max_bars=3)
    assert isinstance(found, run_tables.Shares)
    assert found.row == "GPU"
    segments = run.segments["srtf"]
    alone = segments[segments["shared"] == 0]
    assert len(alone) == len(segments), "srtf shares nothing, so that shares add up"
    held = ((segments["to_s"] - segments["from_s"]) * segments["num_gpus"]).sum()
    step = run.span_s(0) / run_tables.SHARE_BINS
    assert found.shares.sum() * step == pytest.approx(held)


def test_a_part_of_a_window_has_its_share_of_the_totals(folder: Path) -> None:
    """GPU-seconds of all parts add up, in segments and timeline, and the means in each part are those of the whole."""
    run = run_tables.read(folder)
    third = run.span_s(0) / 3
    parts = [run_tables.between(run, place * third, (place + 1) * third) for place in range(3)]

    def held(each: run_tables.Run) -> float:
        segments = each.segments["srtf"]
        return float(((segments["to_s"] - segments["from_s"]) * segments["num_gpus"]).sum())

    assert sum(map(held, parts)) == pytest.approx(held(run))
    assert min(map(held, parts)) > 0
    whole = run_tables.timeline_means(run, "srtf", 0, run_tables.time_edges(run, 0, 30))
    means = [run_tables.timeline_means(part, "srtf", 0, run_tables.time_edges(part, 0, 10)) for part in parts]
    for name in ("held_gpus", "queued"):
        assert np.concatenate([each[name] for each in means]) == pytest.approx(whole[name].to_numpy())
    for place, part in enumerate(parts):
        bars = run_tables.gantt(part, "srtf", 0)
        assert isinstance(bars, pd.DataFrame)
        assert bars["from_s"].min() >= 0
        assert bars["to_s"].max() <= third * 1.000001
        (axes, *_) = figures.gantt(part, "page").axes
        assert axes.get_xlim() == pytest.approx((0, third)), place


def test_the_axis_of_a_part_has_the_times_of_the_window(folder: Path) -> None:
    """From half an hour to three and a half hours, the whole hours are 1, 2 and 3."""
    part = run_tables.between(run_tables.read(folder), 1800.0, 3.5 * 3600.0)
    for draw in (figures.gantt, figures.timeline):
        axes = draw(part, "page").axes[-1]
        assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "3"]
        assert axes.get_xticks().tolist() == [1800.0, 5400.0, 9000.0]
        assert axes.get_xlabel() == "Time, hours"


def test_jobs_without_results_have_colours_of_their_own(folder: Path) -> None:
    """Around the scored jobs of a steady window others hold GPUs: here all but the first two."""
    run = run_tables.read(folder)
    scored = {policy: jobs.iloc[:2] for policy, jobs in run.jobs.items()}
    bars = run_tables.gantt(run, "fifo", 0)
    assert isinstance(bars, pd.DataFrame)
    running = bars[bars["phase"] == "running"].drop_duplicates("job_id")
    assert len(running) > 5
    for each in (run, replace(run, jobs=scored)):
        assert len(np.unique(figures._colours(each, running), axis=0)) == len(running)


def test_an_empty_part_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plot.main([str(folder), "--picture", "gantt", "--hours", "3", "2"]) == 2
    assert "--hours 3 2: expected an end after the begin" in capsys.readouterr().err


# Tables behind the pictures.


def test_a_curve_ends_with_all_jobs() -> None:
    times, shares = run_tables.cdf(pd.Series([4.0, 1.0, 2.0, 2.0]))
    assert (times.tolist(), shares.tolist()) == ([1, 2, 2, 4], [0.25, 0.5, 0.75, 1])


def test_size_classes_are_by_requested_gpus() -> None:
    places = run_tables.size_classes(pd.Series([0, 1, 2, 4, 5, 8, 9, 64]))
    assert [run_tables.SIZES[place] for place in places] == [
        "CPU only",
        "1 GPU",
        *["2-4 GPUs"] * 2,
        *["5-8 GPUs"] * 2,
        *["9 or more"] * 2,
    ]


def test_a_job_may_be_named_na(tmp_path: Path) -> None:
    table = tiny.jobs(6)
    table["job_id"] = ["NA", "null", "3", "4.0", "1e3", "z"]
    run = run_tables.read(ran(tmp_path, table, "--policy", "fifo", "--record"))
    assert run.jobs["fifo"]["job_id"].tolist() == ["NA", "null", "3", "4.0", "1e3", "z"]
    assert set(run.segments["fifo"]["job_id"]) == {"NA", "null", "3", "4.0", "1e3", "z"}


def test_a_windows_time_starts_at_its_first_submission(tmp_path: Path) -> None:
    runs = []
    for late in (0.0, 1.6e9):
        (tmp_path / f"{late}").mkdir()
        table = tiny.jobs(8)
        table["submit_s"] += late
        runs.append(run_tables.read(ran(tmp_path / f"{late}", table, "--policy", "fifo", "--record")))
    early, late_run = runs
    assert late_run.jobs["fifo"]["submit_s"].min() == 0
    assert late_run.span_s(0) == pytest.approx(early.span_s(0), abs=1e-3)
    for name, column in (("segments", "to_s"), ("timeline", "time_s")):
        ends = [getattr(run, name)["fifo"][column].max() for run in runs]
        assert ends[0] == pytest.approx(ends[1], abs=1e-3)


# Figures for a paper.


@pytest.mark.parametrize("width", INCHES)
def test_every_picture_has_the_papers_width(folder: Path, tmp_path: Path, width: str) -> None:
    kinds = plot.KINDS if width == "column" else ("png",)
    assert plot.main([str(folder), "--out", str(tmp_path), "--width", width, "--kind", *kinds]) == 0
    drawn = {f"{name}.{kind}" for name in figures.PICTURES for kind in kinds}
    assert {file.name for file in tmp_path.iterdir()} == drawn | {"policies.csv", "policies.tex", "pairs.csv"}
    for name in figures.PICTURES:
        pixels = image.imread(tmp_path / f"{name}.png")
        assert pixels.shape[1] == pytest.approx(200 * INCHES[width], abs=1)  # type: ignore[index]
        assert (pixels[..., :3] < 0.9).mean() > 0.005, "something is drawn"
        assert "pdf" not in kinds or (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def outside(figure: Any) -> Sequence[str]:
    """Return the texts of a figure that extend beyond its edge."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    edge = figure.bbox
    texts = [
        each for each in figure.findobj(Text) if re.search("[a-z]", each.get_text())
    ]  # marks may be left out
    boxes = [(each.get_text(), each.get_window_extent(canvas.get_renderer())) for each in texts]
    return [text for text, box in boxes if box.x1 > edge.x1 + 1 or box.x0 < -1 or box.y1 > edge.y1 + 1]


@pytest.mark.parametrize("width", INCHES)
@pytest.mark.parametrize("name", figures.PICTURES)
def test_no_label_is_cut_off(folder: Path, name: str, width: Any) -> None:
    with style(IN_PRINT):
        assert outside(figures.PICTURES[name](run_tables.read(folder), width, None)) == []


def test_long_names_cut_no_label(folder: Path) -> None:
    run = run_tables.read(folder)
    longer = run_tables.renamed(run, {name: f"laboratory.{name}_of_ours:policy" for name in run.policies})
    with style(IN_PRINT):
        assert outside(figures.ratios(longer, "column")) == []


def test_a_ratio_names_its_reference_without_a_possessive(folder: Path) -> None:
    run = run_tables.read(folder)
    ours = run_tables.renamed(run, {run.reference: "Ours"})
    assert figures.ratios(ours, "page").get_suptitle() == "Mean job completion time / Ours"


def test_fairness_is_that_of_the_summary(folder: Path) -> None:
    run = run_tables.read(folder)
    (axes,) = figures.fairness(run, "page").axes
    for line, (policy, means) in zip(axes.lines, run.summary["mean_over_windows"].items(), strict=False):
        ratio, share = np.asarray(line.get_xydata()).T
        assert line.get_label() == policy
        assert ratio.max() == pytest.approx(means["max_finish_time_fairness"])
        assert share[ratio <= 1].max() == pytest.approx(100 * (1 - means["unfair_share"]))


# Several runs over a number by which they differ.


@pytest.fixture(scope="module")
def at_ticks(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return folders of runs that differ in the tick; the jobs are the same, and the larger number comes first."""
    folders = []
    for tick in (600, 60):
        place = tmp_path_factory.mktemp(f"tick{tick}")
        folders.append(ran(place, tiny.mixed(seed=1), "--policy", "fifo", "srtf", "--tick", str(tick)))
        choices = json.loads((folders[-1] / "choices.json").read_text())
        choices["scenario"]["trace_file"] = "jobs.csv"  # one trace, as that of a sweep is
        (folders[-1] / "choices.json").write_text(json.dumps(choices))
    return folders


def test_a_sweep_has_a_row_per_value_and_policy(at_ticks: list[Path], tmp_path: Path) -> None:
    flags = ["--picture", "sweep", "--kind", "png", "--out", str(tmp_path), "--name", "srtf=Ours"]
    assert plot.main([*map(str, at_ticks), *flags]) == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["sweep.csv", "sweep.png"]
    found = pd.read_csv(tmp_path / "sweep.csv")
    floors = ["random_legal", "first_legal"] if "random_legal" in set(found["policy"]) else []
    assert found["tick"].tolist() == sorted(found["tick"])
    assert found["policy"].tolist() == 2 * ["fifo", "Ours", *floors]
    summary = json.loads((at_ticks[0] / "summary.json").read_text())
    row = found[(found["tick"] == 600) & (found["policy"] == "Ours")].iloc[0]
    assert row["mean_jct_s"] == pytest.approx(summary["mean_over_windows"]["srtf"]["mean_jct_s"])
    assert row["ratio"] == pytest.approx(summary["mean_jct_ratio"]["srtf"]["ratio"])
    with style(IN_PRINT):
        for width in INCHES:
            figure = figures.sweep("tick", found, "fifo", width)
            assert outside(figure) == []
            slowdowns = figure.axes[2]
            assert slowdowns.get_title("left").startswith("Mean slowdown")
            for line, (_, own) in zip(slowdowns.lines, found.groupby("policy", sort=False), strict=True):
                assert np.asarray(line.get_ydata()) == pytest.approx(own["mean_slowdown"].to_numpy())


@pytest.mark.parametrize(("factor", "scale"), [(9.0, "linear"), (11.0, "log")])
def test_slowdowns_that_differ_more_than_tenfold_have_a_logarithmic_axis(factor: float, scale: str) -> None:
    rows = [
        {"load": load, "policy": name, "ratio": 1.0, "low": 1.0, "high": 1.0}
        for load in (0.6, 0.8)
        for name in "ab"
    ]
    table = pd.DataFrame(rows).assign(mean_jct_s=3600.0, mean_slowdown=[2.0, 3.0, 4.0, 2.0 * factor])
    assert figures.sweep("load", table, "a", "page").axes[2].get_yscale() == scale


def test_runs_that_differ_in_more_than_a_number_are_no_sweep(
    at_ticks: list[Path], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for runs, said in (
        ((at_ticks[0], at_ticks[0]), "these 2 differ in nothing"),
        ((at_ticks[0], folder), "these 2 differ in trace_file, tick"),
        ((at_ticks[0],), "a sweep requires two or more runs"),
    ):
        assert plot.main([*map(str, runs), "--picture", "sweep"]) == 2
        assert said in capsys.readouterr().err


# Names in a paper.


def test_policies_get_the_names_of_a_paper(folder: Path, tmp_path: Path) -> None:
    names = ["srtf=Shortest first", "fifo=FIFO"]
    assert plot.main([str(folder), "--table", "policy", "--name", *names, "--out", str(tmp_path)]) == 0
    assert pd.read_csv(tmp_path / "policies.csv")["policy"].tolist()[:2] == ["FIFO", "Shortest first"]
    run = run_tables.renamed(run_tables.read(folder), {"fifo": "FIFO"})
    assert (run.reference, next(iter(run.segments)), next(iter(run.ratios))) == ("FIFO", "FIFO", "FIFO")
    for wrong, said in (
        ({"fiffo": "x"}, "did you mean 'fifo'"),
        ({"fifo": "srtf"}, "a different name for each policy, not srtf, srtf"),
    ):
        with pytest.raises(ValueError, match=said):
            run_tables.renamed(run_tables.read(folder), wrong)


def test_the_same_run_gives_the_same_files(folder: Path, tmp_path: Path) -> None:
    for name in ("one", "other"):
        plot.main([str(folder), "--out", str(tmp_path / name), "--picture", "gantt"])
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(files) == 3
    one, other = (
        {file: (tmp_path / name / file).read_bytes() for file in files} for name in ("one", "other")
    )
    assert [file for file in files if one[file] != other[file]] == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--policy", "srft"), "did you mean 'srtf'"),
        (("--window", "7"), "has no window 7: expected one of 0"),
    ],
)
def test_unknown_policies_and_windows_are_refused(
    folder: Path, more: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plot.main([str(folder), *more]) == 2
    assert said in capsys.readouterr().err


def test_a_folder_without_a_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plot.main([str(tmp_path)]) == 2
    assert "is not a run folder" in capsys.readouterr().err


# What the document says.

DOCUMENT = (ROOT / "docs" / "runs.md").read_text(encoding="utf-8")


def test_the_documents_commands_are_valid() -> None:
    lines = re.findall(r"^    (gpu-cluster-gym plot|python evaluate\.py) (.*)$", DOCUMENT, re.MULTILINE)
    recorded = [text for command, text in lines if command != "gpu-cluster-gym plot" and "--re" in text]
    drawn = [text for command, text in lines if command == "gpu-cluster-gym plot"]
    assert (len(recorded), len(drawn)) == (2, 5)
    for text in recorded:
        assert read_choices(shlex.split(text)).records
    for text in drawn:
        assert plot.parser().parse_args(shlex.split(text)).runs


def test_the_documents_name_every_column_and_picture() -> None:
    (page,) = pages.pages().values()
    for file, columns in (
        ("segments", record.SEGMENTS),
        ("timeline", record.TIMELINE),
        ("decisions", record.DECISIONS),
        ("compared", record.COMPARED),
    ):
        named = page.partition(f"## Record: `{file}.csv`")[2].partition("\n## ")[0]
        assert re.findall(r"^\| `(\w+)` \|", named, re.MULTILINE) == list(columns)
    for name in (*figures.PICTURES, *INCHES, *plot.KINDS):
        assert name in DOCUMENT.lower()


def trained(place: Path, *agents: dict[str, Any], workload: str, predictor: str | None = None) -> Path:
    """Write validation curves of agents and the choices of a run as `train_agent.py` does."""
    for number, each in enumerate(agents):
        own = place / f"seed-{number}" if len(agents) > 1 else place
        own.mkdir(parents=True)
        pd.DataFrame(each).to_csv(own / figures.VALIDATION_CURVE, index=False)
    choices = {
        "workload": workload,
        "scenario": {"trace": None, "trace_file": None, "run_time_predictor": predictor},
    }
    (place / "choices.json").write_text(json.dumps(choices), encoding="utf-8")
    return place


def test_learning_curves_have_a_line_per_agent_and_mark_the_best(tmp_path: Path) -> None:
    first = {"step": [0, 2000], figures.AGENT: [1.0, 0.95], "sampled_ratio_to_start": [1.1, 0.99]}
    second = {"step": [0, 2000, 4000], figures.AGENT: [1.0, 0.9, np.inf]}
    several = trained(tmp_path / "several", first, second, workload="mixed")
    alone = trained(tmp_path / "alone", first, workload="busy")
    again = trained(tmp_path / "again", second, workload="busy")
    runs = [
        (figures.training_name(folder), figures.learning_curves(folder)) for folder in (several, alone, again)
    ]
    mixed, busy, _ = figures.learning(runs).axes
    assert [mixed.get_title(loc="left") or mixed.get_title(), len(busy.lines)] == ["mixed", 3]
    best = mixed.lines[-1].get_xydata()
    assert np.asarray(best).tolist() == [[2.0, 0.9]]
    assert plot.main([str(several), str(alone), "--kind", "png", "--out", str(tmp_path / "out")]) == 0
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["learning.png"]
    (alone / "choices.json").unlink()
    assert plot.main([str(alone)]) == 2


def test_the_name_of_a_training_run_says_whether_run_times_were_predicted(tmp_path: Path) -> None:
    for predictor, name in ((None, "busy"), ("similar", "busy, with predictions")):
        folder = tmp_path / name
        folder.mkdir()
        assert figures.training_name(trained(folder, workload="busy", predictor=predictor)) == name


def test_learning_curves_name_the_heuristics_within_the_picture() -> None:
    """Names of close lines are apart; a line of twice the mean JCT is not shown."""
    heuristics = {"fifo": 1.0, "srtf": 0.61, "union": 0.6, "first_legal": 2.0}
    lines = {f"{name}{figures.RATIO}": [ratio, ratio] for name, ratio in heuristics.items()}
    agent = pd.DataFrame({"step": [0, 2000], figures.AGENT: [3.0, 0.7]} | lines)
    (axes,) = figures.learning([("philly", [agent])]).axes
    places = {str(text.get_text()): text.get_position()[1] for text in axes.texts}
    assert list(places) == ["union", "srtf", "fifo"]
    assert places["srtf"] - places["union"] > 0.02
    assert places["fifo"] == 1
    assert axes.get_ylim()[0] < 0.6 < 0.7 < 1.0 < axes.get_ylim()[1] < 2


def test_policies_of_one_colour_have_their_own_markers_and_a_long_legend_its_own_room() -> None:
    count = 2 * len(PALETTE) + 3
    assert len({(look(place)[0], marker(place)) for place in range(count)}) == count
    heights = []
    for policies in (2, count):
        figure, axes = figures._figure("column", 2.0)
        for place in range(policies):
            axes.plot([0, 1], [place, place], label=f"policy_{place}")
        figures._key(figure, axes, "Title")
        figure.draw_without_rendering()
        heights.append(axes.get_position().height * figure.get_figheight())
    assert heights[1] > 0.7 * heights[0]
