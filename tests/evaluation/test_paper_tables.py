"""Tables of policies, users and virtual clusters come from the run folder, as CSV and as LaTeX."""

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import evaluate
from gpu_cluster_gym.evaluation.plot import __main__ as plot
from gpu_cluster_gym.evaluation.plot import paper_tables, run_tables

ROWS = "job_id,submit_s,num_gpus,duration_s,user,vc\n"
JOBS = ROWS + "a,0,8,600,ann,m_1\nb,1,8,600,bob,m_1\nc,2,4,1200,NA,m_1\nd,3,8,600,ann,x&y\n"


def ran(place: Path, jobs: str = JOBS) -> Path:
    """Return the run folder of FIFO and SJF on one node of eight GPUs."""
    (place / "jobs.csv").write_text(jobs)
    flags = f"--trace-file {place / 'jobs.csv'} --cluster 1x8 --physics none --full-trace --no-floors"
    assert evaluate.main(["--policy", "fifo_strict", "sjf", *flags.split(), "--out", str(place / "run")]) == 0
    return place / "run"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ran(tmp_path_factory.mktemp("owners"))


def test_means_are_over_each_users_jobs(folder: Path, tmp_path: Path) -> None:
    """Strict FIFO runs a, b, c and d one after another: ann waits for 0 and 2,397 s."""
    assert plot.main([str(folder), "--table", "user", "vc", "--out", str(tmp_path)]) == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "by_user.csv",
        "by_user.tex",
        "by_vc.csv",
        "by_vc.tex",
    ]
    assert "\nfifo_strict,ann,2,2.666666667,1198.5," in (tmp_path / "by_user.csv").read_text()
    found = pd.read_csv(tmp_path / "by_user.csv", keep_default_na=False)
    fifo = found[found["policy"] == "fifo_strict"].set_index("user")
    assert fifo.index.tolist() == ["ann", "bob", "NA"]
    assert fifo["jobs"].tolist() == [2, 1, 1]
    assert fifo["gpu_hours"].tolist() == pytest.approx([8 * 1200 / 3600, 8 * 600 / 3600, 4 * 1200 / 3600])
    assert fifo["mean_wait_s"].tolist() == pytest.approx([(0 + 2397) / 2, 599, 1198])
    assert fifo.loc["ann", "mean_slowdown"] == pytest.approx((1 + 2997 / 600) / 2)


def test_latex_has_a_row_per_owner_and_escapes(folder: Path, tmp_path: Path) -> None:
    plot.main([str(folder), "--table", "vc", "--out", str(tmp_path)])
    text = (tmp_path / "by_vc.tex").read_text()
    rows = re.findall(r"^(?!%)(.*) \\\\$", text, re.MULTILINE)
    spec = re.search(r"begin\{tabular\}\{(\w+)\}", text)
    assert spec is not None
    assert {len(re.split(r"(?<!\\) & ", row)) for row in rows[1:]} == {len(spec[1])}
    assert rows[0].count("multicolumn{2}") == 2
    assert "fifo\\_strict" in rows[0]
    assert [row.split(" & ")[0] for row in rows[2:]] == ["m\\_1", "x\\&y"]
    assert "Wait, minutes" in rows[1]
    assert paper_tables.escaped("a~b^c\\") == r"a\textasciitilde{}b\textasciicircum{}c\textbackslash{}"


def test_latex_has_those_with_most_gpu_time(tmp_path: Path) -> None:
    lines = [f"j{k},{k},1,{60 * (k + 1)},user{k},v" for k in range(25)]
    run = run_tables.read(ran(tmp_path, ROWS + "\n".join(lines) + "\n"))
    paper_tables.write(run, "user", tmp_path)
    text = (tmp_path / "by_user.tex").read_text()
    shown = re.findall(r"^(user\d+) &", text, re.MULTILINE)
    assert shown == [f"user{k}" for k in range(24, 4, -1)]
    assert text.endswith("% 5 further rows with less GPU time: by_user.csv\n")
    assert len(pd.read_csv(tmp_path / "by_user.csv")) == 50


def test_a_plot_writes_all_tables_and_a_picture_alone_none(folder: Path, tmp_path: Path) -> None:
    plot.main([str(folder), "--out", str(tmp_path / "all"), "--kind", "png"])
    assert {"by_user.tex", "by_vc.csv", "cdf.png"} <= {each.name for each in (tmp_path / "all").iterdir()}
    plot.main([str(folder), "--out", str(tmp_path / "one"), "--kind", "png", "--picture", "cdf"])
    assert [each.name for each in (tmp_path / "one").iterdir()] == ["cdf.png"]


def test_a_kind_of_owners_that_the_trace_lacks_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plot.main([str(folder), "--table", "tenant", "--out", str(tmp_path)]) == 2
    assert "has no column tenant: expected --table user or vc" in capsys.readouterr().err
    without = ran(tmp_path, "job_id,submit_s,num_gpus,duration_s\na,0,8,600\n")
    assert not (without / "owners.csv").exists()
    assert plot.main([str(without), "--table", "user"]) == 2
    assert "its trace names no owners of jobs" in capsys.readouterr().err


def test_policies_have_times_ratios_and_the_best_in_bold(folder: Path, tmp_path: Path) -> None:
    """Strict FIFO runs a, b, c and d one after another, SJF c last: mean JCT 1,498.5 s and 1,348.5 s; one window."""
    assert plot.main([str(folder), "--table", "policy", "--out", str(tmp_path)]) == 0
    found = pd.read_csv(tmp_path / "policies.csv").set_index("policy")
    fifo_s, sjf_s = (600 + 1199 + 2398 + 2997) / 4, (600 + 1199 + 2998 + 1797) / 4
    assert found["mean_jct_s"].tolist() == pytest.approx([fifo_s, sjf_s])
    assert found["ratio"].tolist() == pytest.approx([1, sjf_s / fifo_s])
    fifo_wait_s, sjf_wait_s = found["mean_wait_s"]
    assert found["mean_wait_s_ratio"].tolist() == pytest.approx([1, sjf_wait_s / fifo_wait_s])
    assert found["mean_slowdown_ratio"]["sjf"] == pytest.approx(
        found["mean_slowdown"]["sjf"] / found["mean_slowdown"]["fifo_strict"]
    )
    pairs = pd.read_csv(tmp_path / "pairs.csv").set_index(["policy", "reference"])
    assert pairs.loc[("fifo_strict", "sjf"), "ratio"] == pytest.approx(fifo_s / sjf_s)
    assert pairs["wins"].to_dict() == {("fifo_strict", "sjf"): 0, ("sjf", "fifo_strict"): 1}
    text = (tmp_path / "policies.tex").read_text()
    rows = [each.split(" & ") for each in re.findall(r"^(?!%)(.*) \\\\$", text, re.MULTILINE)]
    spec = re.search(r"begin\{tabular\}\{(\w+)\}", text)
    assert spec is not None
    assert {len(row) for row in rows} == {len(spec[1])}
    assert rows[0][:3] == ["Policy", "JCT, minutes", "JCT / fifo\\_strict"]
    assert rows[1][:3] == ["fifo\\_strict", f"{fifo_s / 60:.2f}", "1.00"]
    assert rows[2][:3] == ["sjf", f"{sjf_s / 60:.2f}", f"\\textbf{{{sjf_s / fifo_s:.2f}}}"]


def test_each_of_several_runs_has_its_own_folder_in_out(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    assert plot.main([str(folder), str(other), "--table", "policy", "--out", str(tmp_path / "out")]) == 0
    assert {each.parent.name for each in (tmp_path / "out").rglob("policies.csv")} == {folder.name, "other"}
    twice = [str(other), str(shutil.copytree(folder, tmp_path / "more" / "other")), "--out", str(tmp_path)]
    assert plot.main([*twice, "--table", "policy"]) == 2


def test_one_policy_has_no_pairs(folder: Path, tmp_path: Path) -> None:
    args = [str(folder), "--table", "policy", "--policy", "fifo_strict", "--out", str(tmp_path)]
    assert plot.main(args) == 0
    assert {each.name for each in tmp_path.iterdir()} == {"policies.csv", "policies.tex"}


def test_pairs_have_ratios_both_ways() -> None:
    """In two windows b takes half and twice as long as a. In one of them c does not wait: no ratio to its wait."""
    jct_s = {"a": [10.0, 40.0], "b": [5.0, 80.0], "c": [20.0, 20.0]}
    summaries = {
        name: pd.DataFrame(
            {
                "window": [0, 1],
                "seed": 0,
                "mean_jct_s": each,
                "mean_wait_s": np.array(each) - 5,
                "mean_slowdown": 2.0,
            }
        )
        for name, each in jct_s.items()
    }
    summaries["c"]["mean_wait_s"] = [0.0, 5.0]
    found = paper_tables.pairs(summaries).set_index(["policy", "reference"]).to_dict("index")
    assert len(found) == 6
    b_to_a, a_to_c = found["b", "a"], found["a", "c"]
    assert [b_to_a[name] for name in ("ratio", "wins", "windows")] == [(0.5 + 2) / 2, 1, 2]
    assert found["a", "b"]["ratio"] == (2 + 0.5) / 2
    assert found["c", "a"]["mean_wait_s_ratio"] == pytest.approx((0 / 5 + 5 / 35) / 2)
    assert np.isnan([a_to_c["mean_wait_s_ratio"], a_to_c["mean_wait_s_high"]]).all()
    assert {each["mean_slowdown_ratio"] for each in found.values()} == {1.0}


def test_intervals_of_several_windows_follow_the_ratio() -> None:
    found = pd.DataFrame(
        {
            "ratio": [1.0, 0.5],
            "low": [1.0, 0.4],
            "high": [1.0, 0.625],
            "windows": 4.0,
            "mean_jct_s": [7200.0, 3600.0],
        },
        index=["fifo", "ours"],
    )
    text = paper_tables.latex_of_policies(found, "fifo")
    assert "& JCT / fifo &" in text
    assert "'s" not in paper_tables.latex_of_policies(found, "Ours")
    assert "fifo & 2.00 & 1.00 \\\\" in text
    assert "ours & 1.00 & \\textbf{0.50} (0.40--0.62) \\\\" in text
