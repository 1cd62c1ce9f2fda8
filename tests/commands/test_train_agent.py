"""`train_agent.py` trains, compares and saves an agent, and has errors of one sentence."""

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from itertools import pairwise
from pathlib import Path
from threading import Timer
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import evaluate
from gpu_cluster_gym.agents.learn import learner_of
from gpu_cluster_gym.agents.resolve import load
from gpu_cluster_gym.agents.table import how_actions_are_chosen, verdicts, words
from gpu_cluster_gym.agents.training import KINDS, PlainTraining, SteerTraining, Training
from gpu_cluster_gym.evaluation.command import log
from gpu_cluster_gym.evaluation.comparison import Comparison
from gpu_cluster_gym.train_agent import Run as Choices
from gpu_cluster_gym.train_agent import going_on, main, within_trace
from gpu_cluster_gym.workloads import Scenario, TooFewWindowsError, windows
from tests.cases.crowd import crowd

ROOT = Path(__file__).resolve().parent.parent.parent
Command = Callable[..., tuple[int, str, str]]
FEW = (
    *("--cluster", "2x8", "--jobs", "40", "--all-windows", "--windows", "4", "--validation-windows", "2"),
    *("--test-windows", "3", "--total-timesteps", "512", "--validate-every", "256", "--num-envs", "4"),
    *("--n-steps", "64", "--batch-size", "128", "--action", "plain", "--processes", "1"),
)
STEER = (
    *("--action", "steer", "--search", "0", "--total-timesteps", "48", "--n-steps", "12"),
    *("--validate-every", "48"),
)
"""Options of a second run, in place of the first's."""


@pytest.fixture(autouse=True, scope="module")
def patient() -> Iterator[None]:
    """Switch off notices of long waits, which depend on the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpu_cluster_gym.evaluation.command.PATIENCE_S", 1e6)
        yield


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs the command and returns its exit code, output and error output."""

    def call(*args: object) -> tuple[int, str, str]:
        try:
            code = main([str(arg) for arg in args])
        except SystemExit as stop:  # the parser's own way out
            code = int(stop.code or 0)
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def trace(tmp_path: Path) -> str:
    return crowd(tmp_path / "jobs.csv")


class Run(NamedTuple):
    """The trace, folder, exit code and output of a run."""

    trace: str
    folder: Path
    code: int
    out: str
    error: str


def run_of(folder: Path, *args: str) -> Run:
    """Train on a small trace."""
    trace = crowd(folder / "jobs.csv")
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as error:
        code = main(["--trace-file", trace, *args, "--out", str(folder / "run")])
    return Run(trace, folder / "run", code, out.getvalue(), error.getvalue())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Train once, for all tests that only read the results."""
    return run_of(tmp_path_factory.mktemp("trained"), *FEW)


def at_once(what: str) -> Timer:
    """Print what is in progress without a delay, in place of `delayed_notice`."""
    log(f"{what} ...")
    return Timer(0, log)


def test_a_run_resumed_in_its_test_says_so_and_shows_progress(
    trained: Run, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained.folder, folder)
    (folder / "status.json").write_text(json.dumps({"status": "interrupted"}))
    monkeypatch.setattr("gpu_cluster_gym.evaluation.command.PATIENCE_S", 0.0)
    monkeypatch.setattr("gpu_cluster_gym.evaluation.command.delayed_notice", at_once)
    code, out, error = command("--resume", folder)
    assert code == 0
    assert "Training had finished; its best agent is used.\n" in out
    for begin in (
        "preparing the jobs",
        "drawing the test windows",
        "simulating the test windows",
        "simulating: 100 %",
    ):
        assert f"\n{begin}" in error
    assert pd.read_csv(folder / "agent" / "jobs.csv").equals(
        pd.read_csv(trained.folder / "agent" / "jobs.csv")
    )


def test_a_file_of_choices_names_no_reward_to_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    (tmp_path / "named_in_a_file.py").write_text("from pathlib import Path\nPath('imported').touch()\n")
    chosen = {"training": {"action": "plain", "reward": "named_in_a_file:mine"}}
    (tmp_path / "choices.json").write_text(json.dumps(chosen))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    config = ("--config", "choices.json")
    code, _, error = command(*config)
    assert code == 2
    assert "choices.json names code to import, named_in_a_file:mine: add --trust" in error
    assert not Path("imported").exists()
    code, _, error = command(*config, "--reward", "math:sinus")
    assert (code, "reward 'math:sinus': math has no callable attribute 'sinus'" in error) == (2, True)
    assert not Path("imported").exists()
    code, _, error = command(*config, "--trust")
    assert (code, "no callable attribute 'mine'" in error) == (2, True)
    assert Path("imported").exists()


def test_a_run_with_an_own_reward_is_continued_with_trust(tmp_path: Path) -> None:
    own = Choices(training=PlainTraining(reward="mylab.rewards:mine"))
    assert going_on(own, tmp_path) == f"--resume {tmp_path} --trust"
    assert going_on(Choices(), tmp_path) == f"--resume {tmp_path}"


def test_it_trains_and_prints_the_score_of_the_agent(trained: Run) -> None:
    run, out = trained.folder, trained.out
    assert (trained.code, trained.error) == (0, "")
    assert re.findall(r"^step +([\d,]+): mean JCT / fifo \d\.\d{4}", out, re.MULTILINE) == [
        "0",
        "256",
        "512",
    ]
    assert re.search(
        r"^Mean JCT / fifo: (kept checkpoint \d\.\d{3} after \d+\.\d min \([\d,]+ steps\)"
        r"(, not worse by its interval than the lowest, [^;]+)?|"
        r"no validation better than before training); [\d,]+ steps per second, validations included\.$",
        out,
        re.MULTILINE,
    )
    assert re.search(
        r"^Mean of validation windows' ratios \(time of the first such validation\): (never )?better than \w+",
        out,
        re.MULTILINE,
    )
    rows = re.findall(r"^(\w+) +[\d,.]+ ", out, re.MULTILINE)
    assert rows[:4] == ["agent", "fifo", "untrained", "sjf"]
    assert "Mean JCT of the agent / fifo: " in out
    assert "Actions of the agent and of untrained alike: sampled, as in training; " in " ".join(out.split())
    assert "fewer than 20 windows, too few for a verdict" in " ".join(out.split())
    notes = (run / "notes.txt").read_text()
    assert re.search(r"^fifo +\d\.\d{4} \(.*\) +\d of \d$", notes, re.MULTILINE)
    assert f"tensorboard --logdir {run}" in out
    alike = [load(str(folder), Scenario())[0] for folder in (run, run / "best")]
    assert alike == [f"{run.name}_best"] * 2
    assert {each.name for each in (run / "best").iterdir()} == {
        "SHA256SUMS",
        "agent.json",
        "weights.safetensors",
    }
    assert json.loads((run / "summary.json").read_text())["reference"] == "fifo"
    assert json.loads((run / "choices.json").read_text())["training"]["total_timesteps"] == 512


@pytest.mark.parametrize(
    ("init_from", "of_start", "of_constants", "verdict"),
    [
        ("union", 0.97, 1.0, "better."),
        ("union", 1.0, 0.97, "no significant difference."),
        ("constants", 0.97, 1.0, "no significant difference."),
        ("constants", 0.97, 0.99, "better."),
    ],
)
def test_the_verdict_is_on_the_initial_policy(
    init_from: Literal["union", "constants"], of_start: float, of_constants: float, verdict: str
) -> None:
    """Thirty windows, each with a little noise."""
    jct_s = np.random.default_rng(0).uniform(900.0, 1100.0, 30)
    noise = np.random.default_rng(1).normal(1.0, 0.002, (2, 30))
    noise /= noise.mean(axis=1, keepdims=True)
    each = {
        "agent": jct_s,
        "union": jct_s / of_start * noise[0],
        "constants": jct_s / of_constants * noise[1],
    }
    summaries = {
        name: pd.DataFrame({"seed": 0, "window": range(30), "mean_jct_s": values})
        for name, values in each.items()
    }
    assert verdicts(summaries, 1, SteerTraining(init_from=init_from))[0].endswith(verdict)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_table_says_how_actions_are_chosen(kind: type[Training]) -> None:
    """As the learner's own agents choose them in use; agents with random weights exist for `plain` alone."""
    training = kind()
    samples = learner_of(Scenario(), training).samples
    for count in (1, 5):
        found = how_actions_are_chosen({}, count, training)
        assert (": sampled, as in training" in found, ": the most likely ones" in found) == (
            samples,
            not samples,
        )
        assert "the agents" in found if count > 1 else "the agent:" in found
        assert "untrained" not in found


@pytest.mark.parametrize(
    ("extra", "label"),
    [((), "constants"), (("busy",), "constants (searched for all workloads together)")],
)
def test_constants_of_several_workloads_are_labelled(extra: tuple[str, ...], label: str) -> None:
    alike = pd.DataFrame({"seed": 0, "window": [0, 1], "mean_jct_s": [1.0, 2.0]})
    training = SteerTraining(extra_workloads=extra)
    lines = verdicts(dict.fromkeys(("agent", "union", "constants"), alike), 1, training)
    assert [line.partition("  ")[0] for line in lines if line.startswith("constants")] == [label]


@pytest.mark.usefixtures("undrawn")
def test_several_seeds_are_trained_and_reported_together(tmp_path: Path) -> None:
    usual = [*FEW[:9], *("--num-envs", "4", "--test-windows", "2", "--batch-size", "48"), *STEER]
    run = run_of(tmp_path, *usual, "--seeds", "2", "--processes", "1")
    assert (run.code, run.error) == (0, "")
    assert re.findall(r"^step +([\d,]+): mean JCT", run.out, re.MULTILINE) == ["0", "48"] * 2
    rows = re.findall(r"^(\w+) +[\d,.]+ ", run.out, re.MULTILINE)
    rows = [row for row in rows if row != "Agent"]  # "Agent 1 of 2"
    assert rows[:5] == ["agent_0", "agent_1", "mean_action_0", "mean_action_1", "union"]
    assert "Mean JCT of the 2 agents / union (its initial policy): " in run.out
    for seed in (0, 1):
        kept = json.loads((run.folder / f"seed-{seed}" / "best" / "agent.json").read_text())
        assert kept["training"]["learning_seed"] == seed


@pytest.mark.usefixtures("undrawn")
def test_an_agent_of_several_workloads_has_a_table_for_each(tmp_path: Path) -> None:
    few = [*FEW[:9], *("--num-envs", "4", "--test-windows", "2", "--batch-size", "48"), *STEER]
    run = run_of(tmp_path, *few, "--extra-workloads", "xonar_mix", "--processes", "1")
    assert (run.code, run.error) == (0, "")
    assert re.findall(r"^(own|xonar_mix|All .+):$", run.out, re.MULTILINE) == [
        "own",
        "xonar_mix",
        "All 2 workloads together",
    ]
    notes = "".join((run.folder / place / "notes.txt").read_text() for place in ("own", "xonar_mix", ""))
    ratios = re.findall(r"^fifo +([\d.]+) \(\S+ +\d+ of (\d)$", notes, re.MULTILINE)
    assert [windows for _, windows in ratios] == ["2", "2", "4"]
    own, other, both = (float(ratio) for ratio, _ in ratios)
    assert both == pytest.approx((own + other) / 2, abs=1e-4)
    for name in ("own", "xonar_mix"):
        assert (run.folder / name / "agent" / "jobs.csv").exists()


def test_the_agent_scores_the_same_again(trained: Run, tmp_path: Path) -> None:
    """By the printed command."""
    run, again = trained.folder, tmp_path / "again"
    found = re.search(r"^Score again: python evaluate\.py (.+)$", trained.out, re.MULTILINE)
    assert found
    assert evaluate.main([*found[1].split(), "--out", str(again)]) == 0
    pd.testing.assert_frame_equal(
        pd.read_csv(run / "agent" / "jobs.csv"), pd.read_csv(again / f"{run.name}_best" / "jobs.csv")
    )


def test_fewer_windows_than_requested_are_enough(command: Command, trace: str, tmp_path: Path) -> None:
    other = {"--windows": "5000", "--total-timesteps": "256"}
    many = [other.get(before, arg) for before, arg in pairwise(("", *FEW))]
    code, out, error = command("--trace-file", trace, *many, "--out", tmp_path / "run")
    assert (code, error) == (0, "")
    assert re.search(r"Note: the train part of the trace has \d+ windows, not 5,000", out)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--total-timestep", "4"], "did you mean '--total-timesteps'?"),
        (["--total-timesteps", "0"], "--total-timesteps 0: expected at least 1"),
        (["--action", "plain", "--tau-s", "-1"], "expected more than 0"),
        (["--action", "steer", "--tau-s", "1"], "--tau-s requires --action moves or plain, not steer"),
        (["--clip-range", "nan"], "--clip-range nan: expected a finite number"),
        (["--action", "steer", "--algorithm", "Ppo"], "did you mean 'ppo'?"),
        (["--batch-size", "2048", "--batch-size", "512"], "--batch-size is given twice: give it once"),
        (["--full-trace"], "--full-trace does not apply to training"),
        (["--trace", "philli"], "philly"),
        (["--trace-file", "missing.csv"], "missing.csv"),
    ],
)
def test_invalid_choices_are_refused_in_a_sentence(
    command: Command, tmp_path: Path, args: list[str], message: str
) -> None:
    code, _, error = command(*args, "--out", tmp_path / "run")
    assert code == 2
    assert message in error
    assert "Traceback" not in error


def test_windows_of_a_short_log_are_smaller(tmp_path: Path) -> None:
    """The largest of 512, 256, ... jobs of which there are two validation and two test windows; none of a day."""
    file = crowd(tmp_path / "weeks.csv")
    run = Choices(scenario=Scenario(trace_file=file, cluster="2x8", physics="exclusive"))
    with redirect_stdout(StringIO()) as out:
        found = within_trace(run, may_shrink=True)
    assert (found.scenario.jobs, found.scenario.all_windows) == (64, True)
    assert found.test_windows == len(windows(found.scenario, "test", found.test_windows)) >= 2
    assert found.training.validation_windows >= 2
    assert "Note: windows have 64 jobs, and any load, since the log is too short" in out.getvalue()
    larger = replace(found.scenario, jobs=128)
    with pytest.raises(TooFewWindowsError):
        windows(larger, "test", 2)
    with pytest.raises(TooFewWindowsError, match=r"only 0 of .* windows of 512 jobs"):
        within_trace(run, may_shrink=False)
    day = crowd(tmp_path / "day.csv", count=60)
    run = replace(run, scenario=replace(run.scenario, trace_file=day))
    with pytest.raises(
        TooFewWindowsError, match="nor has a part of the log windows of 32 jobs: export more days"
    ):
        within_trace(run, may_shrink=True)


def test_two_runs_never_share_a_folder(command: Command, trace: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "choices.json").write_text("{}")
    code, _, error = command("--trace-file", trace, *FEW, "--out", tmp_path / "run")
    assert code == 2
    assert "has a run already" in error


@pytest.mark.parametrize(
    ("low", "high", "windows", "expected"),
    [
        (0.9, 0.99, 20, "better"),
        (0.99, 1.01, 20, "no significant difference"),
        (1.01, 1.2, 20, "worse"),
        (0.9, 0.99, 3, ""),
    ],
)
def test_verdicts_follow_the_interval(low: float, high: float, windows: int, expected: str) -> None:
    assert words(Comparison(low, low, high, 0, windows)) == expected
