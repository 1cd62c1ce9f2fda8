"""`evaluate.py` prints a table, writes every job exactly, and has errors of one sentence."""

import hashlib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.checkpoint import Agent
from gpu_cluster_gym.agents.resolve import BASELINES
from gpu_cluster_gym.envs.floors import FLOORS
from gpu_cluster_gym.evaluate import chosen, main, read_choices
from gpu_cluster_gym.evaluation import journal, metrics
from gpu_cluster_gym.simulator.cluster import cluster
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.results import COLUMNS
from gpu_cluster_gym.workloads import Scenario, full_trace, windows
from tests.cases.crowd import TINY, opinionated

ROOT = Path(__file__).resolve().parent.parent.parent
EXACT = ("--physics", "none", "--full-trace")
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], patient: None) -> Command:
    """Return a function that runs the command and returns its exit code, output and error output."""

    def call(*args: object) -> tuple[int, str, str]:
        try:
            code = main([str(arg) for arg in args])
        except SystemExit as stop:  # the parser's own way out
            code = int(stop.code or 0)
        return code, *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a CSV of 1,200 jobs over 30 days that queue for four GPUs."""
    rng = np.random.default_rng(3)
    jobs = pd.DataFrame(
        {
            "job_id": [f"application_{number:04}" for number in range(1200)],
            "submit_s": np.sort(rng.uniform(0, 30 * 86_400, 1200)),
            "num_gpus": rng.choice([1, 2, 4], 1200, p=[0.6, 0.2, 0.2]),
            "duration_s": rng.lognormal(7.3, 1.3, 1200),
            "vc": rng.choice(["a", "b"], 1200),
        }
    )
    file = tmp_path_factory.mktemp("crowded") / "jobs.csv"
    jobs.to_csv(file, index=False)
    return file


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Return a CSV of three jobs, of which the second blocks the third on two GPUs."""
    file = tmp_path / "tiny.csv"
    file.write_text("job_id,submit_s,num_gpus,duration_s\n007,0,1,10\n2.0,1,2,5\nc,2,1,3.25\n")
    return file


def windows_of(file: Path, out: Path, *more: object) -> tuple[object, ...]:
    """Return arguments for two small windows of a file."""
    few = ("--cluster", "2x2", "--jobs", 40, "--windows", 2, "--all-windows")
    return ("--trace-file", file, *few, "--out", out, *more)


def notes_of(folder: Path) -> str:
    return (folder / "notes.txt").read_text(encoding="utf-8")


def jobs_of(folder: Path, policy: str) -> pd.DataFrame:
    return pd.read_csv(folder / policy / "jobs.csv", dtype={"job_id": str, "status": str})


def test_a_policy_is_compared_with_classics_and_floors(
    command: Command, crowded: Path, tmp_path: Path
) -> None:
    code, out, error = command("--policy", "gittins", *windows_of(crowded, tmp_path))
    assert (code, error) == (0, "")
    rows = re.findall(r"^(\w+) +[\d,.]+ ", out, re.MULTILINE)
    assert rows == ["gittins", *BASELINES, *FLOORS]
    assert "fifo skips jobs that do not fit; fifo_strict waits for them." in out
    assert "2 test windows of 40 jobs without a filter, seed 0" in out
    assert max(map(len, out.splitlines())) <= 120


def test_a_short_log_is_replayed_as_a_whole_with_intervals_over_days(
    command: Command, crowded: Path, tmp_path: Path
) -> None:
    """With a note; the report has the intervals too. A number of jobs for windows that do not exist is refused."""
    args = ("--policy", "sjf", "fifo", "--trace-file", crowded, "--cluster", "2x2")
    code, out, error = command(*args, "--report", "--out", tmp_path / "out")
    assert (code, error) == (0, "")
    assert out.startswith(
        "Note: the log is replayed as a whole (--full-trace), since its last fifth, the test part, "
    )
    assert "1,200 jobs as one episode" in out
    assert "Intervals: over 30 days of submissions." in out
    kept = json.loads((tmp_path / "out" / "summary.json").read_text())["mean_jct_ratio"]["fifo"]
    assert kept["low"] < kept["ratio"] < kept["high"]
    interval = f"{kept['low']:.3f}-{kept['high']:.3f}"
    assert interval in out
    assert interval in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert read_choices(["--config", str(tmp_path / "out")]).scenario.full_trace
    code, _, error = command(*args, "--jobs", 512, "--out", tmp_path / "other")
    assert code == 2
    assert "only 0 of 20 windows of 512 jobs" in error


def test_several_policies_make_one_table(
    command: Command, crowded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "easy_here.py").write_text(
        "from gpu_cluster_gym.baselines.easy import policy\n", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    names = ("las", "easy_here:policy", "sjf")
    shown = ("--wide", "--no-floors")
    code, out, error = command("--policy", *names, *shown, *windows_of(crowded, tmp_path / "out"))
    assert (code, error) == (0, "")
    rows = re.findall(r"^([\w.:]+) +[\d,.]{3,} ", out, re.MULTILINE)
    assert rows == 2 * ["las", "easy_here:policy", "sjf"], "a line is too short for all columns"
    kept = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert kept["reference"] == "las"
    facts = json.loads((tmp_path / "out" / "provenance.json").read_text())
    digest = hashlib.sha256((tmp_path / "easy_here.py").read_bytes()).hexdigest()
    assert facts["policy_files"] == {"easy_here:policy": {"easy_here.py": digest}}
    assert journal.digests(["tuned:xion", "lookahead:union", "lookahead:tuned:xion"]) == {}
    assert journal.digests(["lookahead:easy_here:policy"]) == {
        "lookahead:easy_here:policy": {"easy_here.py": digest}
    }
    again = read_choices(["--config", str(tmp_path / "out"), "--trust"])
    assert again.policy == ("las", "easy_here:policy", "sjf")


QUICK = [name for name in baselines.names() if name != "lookahead"]
"""`all` omits look-ahead, which takes minutes per window, unless it is named in addition."""


def test_a_slow_policy_joins_all_policies_if_named() -> None:
    policies, _ = chosen(read_choices(["--policy", "all", "lookahead", "--no-floors"]))
    assert sorted(policies) == baselines.names()


def test_all_with_one_of_ones_own_is_one_table() -> None:
    asked = read_choices(["--policy", "all", "gpu_cluster_gym.baselines.easy:policy", "las"])
    policies, reference = chosen(asked)
    assert list(policies) == [*QUICK, "gpu_cluster_gym.baselines.easy:policy", *FLOORS]
    assert reference == "fifo"


def test_a_policy_is_never_in_the_table_twice() -> None:
    best = baselines.tuned("mixed").policy
    with pytest.raises(ValueError, match=f"--policy tuned:{best} is in the table already"):
        chosen(read_choices(["--policy", "tuned", f"tuned:{best}", "--workload", "mixed"]))


def test_two_agents_of_one_name_are_two_rows(tmp_path: Path) -> None:
    agents = [tmp_path / run / "mine" / "best" for run in ("one", "two")]
    for agent in agents:
        checkpoint.save(agent, Agent(opinionated(), TINY, Scenario()))
    policies, reference = chosen(read_choices(["--policy", *map(str, agents)]))
    assert list(policies) == ["mine_best", str(agents[1]), *FLOORS]
    assert reference == "mine_best"


def test_all_is_every_baseline_and_oracles_stand_below(
    command: Command, crowded: Path, tmp_path: Path
) -> None:
    one = ("--cluster", "2x2", "--jobs", 40, "--windows", 1, "--all-windows", "--out", tmp_path)
    code, out, _ = command("--policy", "all", "--trace-file", crowded, *one)
    assert code == 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == sorted([*QUICK, *FLOORS])
    assert "all omits policies that take minutes per window: lookahead." in out
    above, below = out.split("─\n")[1:3]
    assert "srtf_oracle" not in above
    assert re.findall(r"^(srtf_oracle|lower bound) ", below, re.MULTILINE) == ["srtf_oracle", "lower bound"]


def test_times_are_exact_and_ids_unchanged(command: Command, tiny: Path, tmp_path: Path) -> None:
    """Two GPUs, strict: 007 runs 0-10, then 2.0 on both 10-15, then c 15-18.25."""
    rules = ("--cluster", "1x2", "--placement", "pooled", "--discipline", "strict", *EXACT)
    args = ("--policy", "fifo", "--trace-file", tiny, *rules, "--out", tmp_path / "new" / "out")
    assert command(*args)[0] == 0
    table = jobs_of(tmp_path / "new" / "out", "fifo")
    assert "estimates: exact" in notes_of(tmp_path / "new" / "out")
    assert list(table) == list(COLUMNS)
    assert table["job_id"].tolist() == ["007", "2.0", "c"]
    assert table["start_s"].tolist() == [0.0, 10.0, 15.0]
    assert table["finish_s"].tolist() == [10.0, 15.0, 18.25]
    assert table["window"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("policy", ["srtf", "random"])
def test_every_digit_of_a_direct_run_is_kept(
    command: Command, crowded: Path, tmp_path: Path, policy: str
) -> None:
    few = tmp_path / "few.csv"  # as many as the smallest record holds
    pd.read_csv(crowded)[:500].to_csv(few, index=False)
    load = full_trace(Scenario(trace_file=str(few), cluster="2x2", full_trace=True))
    direct = load.results(run(baselines.make(baselines.load(policy)), load.episode()))
    command(
        "--policy", policy, "--trace-file", few, "--cluster", "2x2", "--full-trace", "--out", tmp_path / "out"
    )
    kept = jobs_of(tmp_path / "out", policy)
    columns = [name for name in COLUMNS if name != "status"]
    assert kept[columns].to_dict("list") == direct[columns].to_dict("list")


def test_the_summary_is_made_of_the_jobs(command: Command, crowded: Path, tmp_path: Path) -> None:
    command("--policy", "srtf", *windows_of(crowded, tmp_path))
    kept = json.loads((tmp_path / "summary.json").read_text())
    machines = cluster("2x2")
    numbers = metrics.summarise(
        jobs_of(tmp_path, "srtf"), gpus=machines.num_gpus, cores=sum(machines.node_cores)
    )
    summary = pd.DataFrame(kept["by_window"]["srtf"])
    assert summary[list(numbers)].to_dict("list") == numbers.to_dict("list")
    assert summary["vc_fairness"].between(0, 1).all()
    assert kept["mean_over_windows"]["srtf"]["mean_jct_s"] == metrics.pool(numbers)["mean_jct_s"]
    assert kept["mean_jct_ratio"]["fifo"]["ratio"] == 1
    assert kept["mean_jct_ratio"]["srtf"]["ratio"] < 1
    assert kept["lower_bound_mean_jct_s"] <= kept["mean_over_windows"]["srtf"]["mean_jct_s"]


def test_a_run_folder_gives_its_choices_again(command: Command, crowded: Path, tmp_path: Path) -> None:
    first, again, other = tmp_path / "first", tmp_path / "again", tmp_path / "other"
    command("--policy", "las", *windows_of(crowded, first, "--seed", 5))
    assert command("--config", first, "--out", again)[0] == 0
    assert command("--config", first / "choices.json", "--out", other, "--seed", 6)[0] == 0
    assert (first / "choices.json").read_bytes() == (again / "choices.json").read_bytes()
    assert (first / "las" / "jobs.csv").read_bytes() == (again / "las" / "jobs.csv").read_bytes()
    assert (first / "las" / "jobs.csv").read_bytes() != (other / "las" / "jobs.csv").read_bytes()


def test_two_processes_give_the_results_of_one(command: Command, crowded: Path, tmp_path: Path) -> None:
    tables = []
    for number in (1, 2):
        args = windows_of(crowded, tmp_path / str(number), "--processes", number)
        assert command("--policy", "random", *args)[0] == 0
        tables.append((tmp_path / str(number) / "random" / "jobs.csv").read_bytes())
    assert tables[0] == tables[1]


@pytest.mark.parametrize("order", [("fifo", "broken"), ("broken", "fifo")], ids=["joined", "reference"])
def test_a_policy_that_fails_leaves_the_others_in_the_table(
    order: tuple[str, str], command: Command, crowded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad_for_a_test.py").write_text(
        "def broken(view):\n    return {}['nothing']\n\n"
        "def illegal(view):\n    from gpu_cluster_gym.simulator.policy import Preempt\n    return Preempt(10**6)\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    names = [name if name == "fifo" else f"bad_for_a_test:{name}" for name in order]
    given = ("--policy", *names, "bad_for_a_test:illegal", "srtf")
    code, out, error = command(*given, *windows_of(crowded, tmp_path / "out"))
    assert code == 2
    assert re.findall(r"^(\S+) +[\d,]+ +[\d.]+", out, re.MULTILINE)[:2] == ["fifo", "srtf"]
    assert "2 of 6 policies failed and are not in the table" in error
    assert "bad_for_a_test:broken, window 0: KeyError: 'nothing' (bad_for_a_test.py, line 2)" in error
    assert re.search(r"bad_for_a_test:illegal, window 0: at [\d.e+]+ s: job 1000000 has not arrived", error)
    assert {*json.loads((tmp_path / "out" / "summary.json").read_text())["by_window"]} == {
        "fifo",
        "srtf",
        *FLOORS,
    }
    tracebacks = (tmp_path / "out" / "errors.txt").read_text(encoding="utf-8")
    assert tracebacks.count("Traceback (most recent call last)") == 2
    assert "return {}['nothing']" in tracebacks


def test_if_every_policy_fails_there_is_no_table(
    command: Command, crowded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "all_bad_for_a_test.py").write_text("def one(view):\n    return 1 / 0\n\ntwo = one\n")
    monkeypatch.chdir(tmp_path)
    names = ("all_bad_for_a_test:one", "all_bad_for_a_test:two")
    code, out, error = command("--policy", *names, "--no-floors", *windows_of(crowded, tmp_path / "out"))
    assert code == 2
    assert "every policy failed: all_bad_for_a_test:one, window 0: ZeroDivisionError" in error
    assert "preemp-" not in out


def test_an_empty_out_is_refused(
    command: Command, crowded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, error = command("--policy", "fifo", *windows_of(crowded, Path("x"))[:-2], "--out", "")
    assert code == 2
    assert '--out "" names no folder' in error
    assert not [*tmp_path.iterdir()]


def test_without_out_every_run_has_a_new_folder(
    command: Command, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert command("--policy", "fifo", "--trace-file", tiny, "--full-trace")[0] == 0
    folders = list((tmp_path / "runs").iterdir())
    assert len(folders) == 2
    assert all(re.match(r"evaluate-\d{8}-\d{6}-[0-9a-f]{6}", folder.name) for folder in folders)


def test_every_window_of_a_log_is_scored_with_a_note(command: Command, crowded: Path, tmp_path: Path) -> None:
    few = ("--cluster", "2x2", "--jobs", 40, "--all-windows", "--no-floors", "--out", tmp_path / "out")
    code, summary, _ = command("--policy", "fifo", "--trace-file", crowded, "--split", "all", *few)
    assert code == 0
    said = " ".join(summary.split())
    assert "30 windows of 40 jobs without a filter" in said
    assert (
        "windows are of the whole log, so no policy may have been tuned or trained on any part of it" in said
    )
    jobs = pd.read_csv(tmp_path / "out" / "fifo" / "jobs.csv", dtype={"job_id": str})
    assert sorted(jobs["job_id"]) == pd.read_csv(crowded)["job_id"].tolist()


def test_a_csv_without_a_cluster_is_simulated_on_8x8_with_a_note(
    command: Command, tiny: Path, tmp_path: Path
) -> None:
    summary = command("--policy", "fifo", "--trace-file", tiny, "--full-trace", "--out", tmp_path / "out")[1]
    assert "on 8x8 (8 nodes, 64 GPUs, the default)" in " ".join(summary.split())


def test_jobs_that_can_never_run_stop_it_at_once(command: Command, tiny: Path, tmp_path: Path) -> None:
    code, out, error = command(
        "--policy", "fifo", "--trace-file", tiny, "--cluster", "1x1", *EXACT, "--out", tmp_path / "out"
    )
    assert (code, out) == (2, "")
    assert "job 2.0: 2 GPUs" in error
    assert "--drop-too-large" in error


def test_jobs_that_can_never_run_are_dropped_on_request(command: Command, tiny: Path, tmp_path: Path) -> None:
    args = ("--trace-file", tiny, "--cluster", "1x1", *EXACT, "--drop-too-large", "--out", tmp_path / "out")
    assert command("--policy", "fifo", *args)[0] == 0
    assert "dropped: 1" in notes_of(tmp_path / "out")
    assert jobs_of(tmp_path / "out", "fifo")["job_id"].tolist() == ["007", "c"]


def test_a_run_is_never_written_over(command: Command, tiny: Path, tmp_path: Path) -> None:
    args = ("--policy", "fifo", "--trace-file", tiny, "--full-trace", "--out", tmp_path / "out")
    command(*args)
    before = (tmp_path / "out" / "summary.json").stat().st_mtime_ns
    code, _, error = command(*args)
    assert code == 2
    assert "has a run already" in error
    assert (tmp_path / "out" / "summary.json").stat().st_mtime_ns == before


def test_preemptive_rankings_under_easy_are_named(command: Command, crowded: Path, tmp_path: Path) -> None:
    command("--policy", "xion", *windows_of(crowded, tmp_path, "--discipline", "easy"))
    notes = notes_of(tmp_path)
    assert "Ran as greedy, since easy does not apply to preemptive rankings: srtf, las." in notes
    assert "Independent of the discipline: xion, random_legal, first_legal." in notes


@pytest.mark.parametrize(
    "policies",
    [("fifo", "srtf", "xion"), pytest.param(tuple(baselines.names()), marks=pytest.mark.slow(reason="many"))],
    ids=len,
)
def test_real_philly_jobs(
    policies: tuple[str, ...], command: Command, shared_data: Path, tmp_path: Path
) -> None:
    file = shared_data / "philly" / "philly_jobs_first75.csv.gz"
    few = ("--cluster", "4x8", "--jobs", 64, "--windows", 1)
    code, _, _ = command("--policy", *policies, "--trace-file", file, *few, "--out", tmp_path / "out")
    assert code == 0
    assert "Measured: submit_s, num_gpus, duration_s." in notes_of(tmp_path / "out")
    for name in policies:
        assert len(jobs_of(tmp_path / "out", name)) == 64


def test_a_named_workload_chooses_and_flags_override_it() -> None:
    scenario = read_choices(["--policy", "fifo", "--workload", "mixed", "--jobs", "128"]).scenario
    assert (scenario.cluster, scenario.trace, scenario.jobs) == ("4x8", "mixed", 128)


def test_an_unknown_workload_is_answered_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--policy", "fifo", "--workload", "quik"]) == 2
    error = capsys.readouterr().err
    assert "quick, two_types, " in error
    assert "did you mean 'quick'" in error


def test_of_a_training_run_the_scenario_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "choices.json"
    file.write_text('{"scenario": {"cluster": "2x8"}, "training": {"total_timesteps": 5}, "test_windows": 3}')
    assert read_choices(["--policy", "fifo", "--config", str(tmp_path)]).scenario.cluster == "2x8"


@pytest.mark.parametrize("choice", ["policy", "protocol"])
@pytest.mark.parametrize("prefix", ["", "lookahead:"])
def test_a_file_of_choices_names_no_code(
    choice: str,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "named_in_a_file.py").write_text("from pathlib import Path\nPath('imported').touch()\n")
    (tmp_path / "choices.json").write_text(json.dumps({choice: [f"{prefix}named_in_a_file:policy"]}))
    monkeypatch.chdir(tmp_path)
    assert main(["--config", "choices.json"]) == 2
    assert "names code to import" in (error := capsys.readouterr().err)
    assert "--trust" in error
    assert not Path("imported").exists()
    flagged = read_choices(["--config", "choices.json", f"--{choice}", "named_in_a_flag:policy"])
    assert getattr(flagged, choice) == ("named_in_a_flag:policy",)
    trusted = read_choices(["--config", "choices.json", "--trust"])
    assert getattr(trusted, choice) == (f"{prefix}named_in_a_file:policy",)


@pytest.mark.parametrize("policy", ["./mine.py:policy", ":policy"])
def test_a_policy_that_is_no_module_is_refused(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--policy", policy]) == 2
    assert "mylab.mine:policy" in capsys.readouterr().err


def test_whole_generated_traces_are_no_window_that_agents_learn_on() -> None:
    one = full_trace(Scenario(full_trace=True, cluster="8x8", physics="exclusive"))
    another = windows(Scenario(all_windows=True), "train", 1)[0]
    assert not one.table["duration_s"].equals(another.table["duration_s"])
