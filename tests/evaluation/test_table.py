"""The table of all policies on all workloads is made by one command, which alone writes it, and says what it is."""

import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks import table
from benchmarks.table import ABOUT, TABLE, Cell, Row
from gpu_cluster_gym import baselines
from gpu_cluster_gym.baselines import _tuned
from gpu_cluster_gym.evaluation import search
from gpu_cluster_gym.evaluation.plot.dots import dots
from gpu_cluster_gym.simulator.policy import Ranking
from gpu_cluster_gym.workloads import named, windows
from gpu_cluster_gym.workloads import names as workload_names
from tests.conftest import ROOT

README, RESULTS = ROOT / "README.md", ROOT / "docs" / "results.md"
SMALL = named("xonar_mix")
FEW = ["fifo", "sjf", "srtf_oracle"]


def between(file: Path, mark: str = TABLE) -> list[str]:
    """Return the lines between the marks in a file."""
    found = re.findall(
        f"<!-- {mark}: begin -->\n\n(.*?)\n\n<!-- {mark}: end -->", file.read_text("utf-8"), re.DOTALL
    )
    assert len(found) == 1
    return str(found[0]).splitlines()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder with the two documents, empty but for their marks."""
    (tmp_path / "docs").mkdir()
    empty = "".join(f"<!-- {mark}: begin -->\n<!-- {mark}: end -->\n" for mark in (TABLE, ABOUT))
    for name in ("README.md", "docs/results.md"):
        (tmp_path / name).write_text(f"Before.\n\n{empty}\nAfter \\1.\n", encoding="utf-8")
    return tmp_path


# What is kept in the project.


def test_readme_holds_some_of_the_same_numbers() -> None:
    cells = table.kept_cells(ROOT)
    assert table.brief(cells) == between(README)
    assert "](docs/results.md)" in README.read_text("utf-8")


def points(axes: Any) -> list[tuple[float, float]]:
    """Return where dots are drawn: the number, and the row from the top."""
    drawn = [line.get_xydata()[0].tolist() for line in axes.lines if line.get_marker() == "o"]
    return [(x, y) for x, y in drawn if x == x]  # nothing is drawn at NaN


def test_the_picture_has_a_dot_for_each_number(tmp_path: Path) -> None:
    """From the top, in the order asked for; a policy without a number on a workload has none there."""
    numbers = [("w", "fifo", 1.0, 1.0, 1.0), ("w", "xion", 0.5, 0.4, 0.7), ("v", "fifo", 1.0, 1.0, 1.0)]
    found = pd.DataFrame(numbers, columns=["workload", "policy", "ratio", "low", "high"])
    first, second = dots(found, ["xion", "fifo"], ["w", "v"], marked="xion").axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["xion", "fifo"]
    assert points(first) == [(0.5, 0.0), (1.0, 1.0)]
    assert points(second) == [(1.0, 1.0)]
    assert first.get_xlim() == second.get_xlim()


def test_the_picture_is_drawn_of_what_was_written(root: Path) -> None:
    (root / "docs" / "results.csv").write_bytes(RESULTS.with_suffix(".csv").read_bytes())
    table.main(["--picture", "--root", str(root)])
    assert (root / "docs" / "images" / "policies.png").stat().st_size > 10_000
    assert "](docs/images/policies.png)" in README.read_text("utf-8")
    cells = table.kept_cells(ROOT)
    known = {(cell.workload, cell.policy) for cell in cells}
    assert {(each, row) for each in table.DRAWN_COLUMNS for row in table.DRAWN_ROWS} <= known


def test_the_table_says_by_which_command_it_was_made() -> None:
    said = next(line for line in between(RESULTS) if line.startswith("Made by"))
    assert re.match(r"Made by `python benchmarks/table\.py[^`]*`\. Mean JCT / fifo's", said)


def test_the_command_that_it_names_makes_as_many_windows() -> None:
    said = next(line for line in between(RESULTS) if line.startswith("Made by"))
    assert said.startswith(f"Made by `{table.COMMAND}`.")
    counts = {
        cell.workload: cell.windows for cell in table.kept_cells(ROOT) if cell.policy == table.REFERENCE
    }
    assert counts == {name: table.WINDOWS.get(name, table.OTHERWISE) for name in counts}


def test_that_command_is_one(tmp_path: Path) -> None:
    """It runs from any folder, without this one among those where modules are found."""
    command = [sys.executable, str(ROOT / "benchmarks" / "table.py"), "--help"]
    assert (
        "--windows"
        in subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    )


def test_the_table_is_what_the_numbers_beside_it_say() -> None:
    """So nobody wrote in it, and it is of the settings in `baselines/tuned/`."""
    lines = between(RESULTS)
    assert table.table(table.kept_cells(ROOT)) == lines[: lines.index("")]


def test_every_column_is_told_of() -> None:
    columns = [name.strip() for name in between(RESULTS)[0].split("|")[2:-1]]
    assert [
        line.removeprefix("### ") for line in between(RESULTS, ABOUT) if line.startswith("### ")
    ] == columns
    assert set(columns) <= set(workload_names())
    assert set(table.WINDOWS) <= set(workload_names())


# Its cells.


def test_the_best_is_bold_oracles_stand_last_and_who_cannot_run_has_a_dash() -> None:
    cells = [
        Cell("a", "fifo", 2, 1000.0, 1.0, 1.0, 1.0),
        Cell("a", "srtf", 2, 500.0, 0.5, 0.4, 0.6),
        Cell("a", "same", 2, 1000.0, 1.0, 1.0, 1.0),
        Cell("a", "aged_oracle", 2, 300.0, 0.3, 0.2, 0.4),
        Cell("a", "broken", 2, reason="at 5 s: there is no such GPU"),
    ]
    assert table.table(cells) == [
        "| policy | a |",
        "|---|---|",
        "| broken | \N{EN DASH} |",
        "| fifo | 1 |",
        "| same | 1 |",
        "| srtf | **0.500** (0.400-0.600) |",
        "| *oracle: uses true run times:* | |",
        "| aged_oracle | 0.300 (0.200-0.400) |",
        "| *fifo's mean JCT* | 1,000 s |",
    ]
    assert "- broken on a: at 5 s: there is no such GPU" in table.notes(cells, "a command")


def test_tuned_settings_are_told_and_a_row_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On `a` las was tuned and lucid was not better for it, on `b` nothing was."""
    policies = '{"las": {"settings": {"levels": [5.0]}}, "lucid": {"settings": {}}}'
    (tmp_path / "a.json").write_text(
        f'{{"budget": 9, "best": "las", "policies": {policies}}}', encoding="utf-8"
    )
    monkeypatch.setattr(_tuned, "FOLDER", tmp_path)
    monkeypatch.setattr(baselines, "names", lambda: ["fifo", "las", "lucid"])
    assert table.rows("a")[4:] == [Row("las, tuned", "las", {"levels": (5.0,)})]
    assert [row.label for row in table.rows("b")] == ["fifo", "las", "lucid", table.AGENT]
    cells = [
        Cell("a", "fifo", 1, 1.0, 1.0),
        Cell("a", "las", 1, 0.8, 0.8),
        Cell("a", "las, tuned", 1, 0.7, 0.7),
    ]
    same, best = table.of_search("a", cells)
    assert best == cells[2]._replace(policy="tuned")
    assert list(table.of_search("b", cells)) == []
    off = Cell("a", "lucid", reason=table.OFF)
    assert [cell.policy for cell in table.of_search("a", [*cells, off])] == [best.policy]
    elsewhere = [Cell("b", "fifo", 1, 1.0, 1.0), Cell("b", "lucid, tuned", 1, 0.9, 0.9)]
    assert "| lucid, tuned | = | **0.900** |" in table.table([*cells, same, *elsewhere])
    assert "lucid, tuned" not in " ".join(table.table([*cells, same]))
    assert "a: las (levels = (5.0,))" in " ".join(table.notes(cells, "a command"))


def test_a_ratio_is_the_mean_of_the_windows_own_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "names", lambda: FEW)
    work = windows(SMALL, "test", 3)
    cells = {cell.policy: cell for cell, _ in table.column("no such workload", work, processes=1)}
    sjf, fifo = (
        np.array([search.counted(partial(Ranking, key), {}, load)[0] for load in work])
        for key in ("estimate", "submit")
    )
    assert list(cells) == [*FEW, table.AGENT]
    assert cells["sjf"].ratio == pytest.approx((sjf / fifo).mean())
    assert cells["sjf"].mean_jct_s == pytest.approx(sjf.mean())
    assert cells["sjf"].low < cells["sjf"].ratio < cells["sjf"].high


def test_a_policy_without_its_lever_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "names", lambda: ["fifo", "gavel", "lucid"])
    cells = {
        cell.policy: cell for cell, _ in table.column("xonar_mix", windows(SMALL, "test", 1), processes=1)
    }
    assert cells["gavel"].reason == table.OFF
    assert not cells["lucid"].reason
    lines = table.table(list(cells.values()))
    assert not any("gavel" in line for line in lines)
    assert not any("could not run" in line for line in table.notes(list(cells.values()), "a command"))


def test_a_policy_that_may_not_do_what_it_does_is_answered_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(view: object) -> object:
        raise ValueError("there is no such GPU\nand more")

    monkeypatch.setattr(baselines, "load", lambda name: broken if name == "sjf" else Ranking("submit"))
    monkeypatch.setattr(baselines, "names", lambda: FEW)
    cells = {
        cell.policy: cell
        for cell, _ in table.column("no such workload", windows(SMALL, "test", 2), processes=1)
    }
    assert cells["sjf"].reason == "there is no such GPU"
    assert cells["srtf_oracle"].ratio == 1.0


# The command.


def test_the_command_writes_between_the_marks_the_same_each_time(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(baselines, "names", lambda: FEW)
    args = ["--workload", "xonar_mix", "--windows", "2", "--root", str(root)]
    written = []
    for _ in range(2):
        table.main(args)
        written.append(
            [(root / name).read_bytes() for name in ("README.md", "docs/results.md", "docs/results.csv")]
        )
    assert written[0] == written[1]
    text = (root / "README.md").read_text("utf-8")
    assert text.startswith("Before.\n")
    assert text.endswith("\nAfter \\1.\n")
    assert len(between(root / "README.md")) <= len(between(root / "docs" / "results.md"))
    said = "\n".join(between(root / "docs" / "results.md"))
    assert "Made by `python -m benchmarks.table --windows 2 --workload xonar_mix`." in said
    assert "drawn for Xonar's experiment" in "\n".join(between(root / "docs" / "results.md", ABOUT))
    assert [cell.policy for cell in table.kept_cells(root)][:3] == FEW
    assert "2 windows in" in capsys.readouterr().out
    table.main([*args, "--policy", "sjf"])
    assert "sjf" in (said := capsys.readouterr().out)
    assert "srtf_oracle  " not in said  # it is not simulated again, and stays
    assert (root / "docs/results.csv").read_bytes() == written[0][2]
    with pytest.raises(ValueError, match="of other windows"):
        table.main([*args, "--windows", "1", "--policy", "sjf"])
    with pytest.raises(SystemExit):
        table.main(["--workload", "quick", "--root", str(root), "--policy", "sjf"])
    assert "docs/results.csv has xonar_mix too" in capsys.readouterr().err


def test_a_file_without_marks_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    for text in ("Nothing here.\n", f"<!-- {TABLE}: begin -->\nNo end.\n"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match="lacks the marks <!-- all policies: begin -->"):
            table.fill(file, TABLE, ["| policy |"])
        assert file.read_text("utf-8") == text
