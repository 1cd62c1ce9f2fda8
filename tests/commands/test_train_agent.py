"""`train_agent.py` learns, says honestly how its agent stands, keeps it, and refuses what cannot be in words."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym import evaluate
from gpu_cluster_gym.agents.resolve import load
from gpu_cluster_gym.agents.table import verdicts, words
from gpu_cluster_gym.agents.training import Training
from gpu_cluster_gym.evaluation.comparison import Comparison
from gpu_cluster_gym.train_agent import main
from gpu_cluster_gym.workloads import Scenario
from tests.cases.crowd import crowd

ROOT = Path(__file__).resolve().parent.parent.parent
Command = Callable[..., tuple[int, str, str]]
FEW = (
    *("--cluster", "2x8", "--jobs", "40", "--all-windows", "--windows", "4", "--validation-windows", "2"),
    *("--test-windows", "3", "--steps", "512", "--validate-every", "256", "--environments", "4"),
    *("--rollout-steps", "64", "--batch", "128", "--action", "plain", "--processes", "1"),
)
STEER = (
    "--action",
    "steer",
    "--search",
    "0",
    "--steps",
    "48",
    "--rollout-steps",
    "12",
    "--validate-every",
    "48",
)
"""Of a second run of those choices, in place of the first's."""


@pytest.fixture(autouse=True, scope="module")
def patient() -> Iterator[None]:
    """Let nothing be told of what takes long: how long it does is the machine's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpu_cluster_gym.evaluation.command.PATIENCE_S", 1e6)
        yield


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Return what runs the command and returns its exit code, output and error output."""

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
    """What the command was given, printed and left."""

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
    """Train once, for all who only look at what is left."""
    return run_of(tmp_path_factory.mktemp("trained"), *FEW)


def test_it_learns_and_says_how_the_agent_stands(trained: Run) -> None:
    run, out = trained.folder, trained.out
    assert (trained.code, trained.error) == (0, "")
    assert re.findall(r"^step +([\d,]+): mean JCT / where it began", out, re.MULTILINE) == ["0", "256", "512"]
    assert re.search(
        r"^Pace: [\d,]+ steps a second, .* Mean JCT / where it began on validation windows: .*, 0\.95 .*, "
        r"(at best \d\.\d{4} after \d+\.\d min \([\d,]+ steps\)|never better than at first)\.$",
        out,
        re.MULTILINE,
    )
    rows = re.findall(r"^(\w+) +[\d,.]+ ", out, re.MULTILINE)
    assert rows[:8] == ["agent", "start", "fifo", "sjf", "srtf", "las", "xion", "xion_threshold"]
    assert re.search(
        r"^start \(the base policy, where it began\) +\d\.\d{4} \(.*\) +\d of \d$", out, re.MULTILINE
    )
    assert "Over fewer than 20 windows intervals are too narrow to tell policies apart." in out
    assert f"tensorboard --logdir {run}" in out
    assert f"python evaluate.py --policy {run}/best" in out
    alike = [load(str(folder), Scenario())[0] for folder in (run, run / "best")]
    assert alike == [f"{run.name}_best"] * 2
    assert {each.name for each in (run / "best").iterdir()} == {"agent.json", "weights.safetensors"}
    assert json.loads((run / "summary.json").read_text())["reference"] == "start"
    assert json.loads((run / "choices.json").read_text())["training"]["steps"] == 512


@pytest.mark.parametrize(
    ("begin", "of_start", "of_constants", "learned"),
    [
        ("union", 0.97, 1.0, True),
        ("union", 1.0, 0.97, False),
        ("constants", 0.97, 1.0, False),
        ("constants", 0.97, 0.99, True),
    ],
)
def test_who_is_no_better_than_what_it_began_as_learned_nothing(
    begin: Literal["union", "constants"], of_start: float, of_constants: float, learned: bool
) -> None:
    """By thirty windows, each alike but for a little noise; constants are what it began as where it began at them."""
    jct_s = np.random.default_rng(0).uniform(900.0, 1100.0, 30)
    noise = np.random.default_rng(1).normal(1.0, 0.002, (2, 30))
    noise /= noise.mean(axis=1, keepdims=True)
    each = {
        "agent": jct_s,
        "start": jct_s / of_start * noise[0],
        "constants": jct_s / of_constants * noise[1],
    }
    summaries = {
        name: pd.DataFrame({"seed": 0, "window": range(30), "mean_jct_s": values})
        for name, values in each.items()
    }
    said = verdicts(summaries, 1, Training(action="steer", begin=begin))
    assert any("learned nothing" in line for line in said) != learned


@pytest.mark.parametrize(
    ("also", "named"), [((), "constants"), (("busy",), "constants (searched for all at once)")]
)
def test_of_several_workloads_the_constants_are_those_for_all(also: tuple[str, ...], named: str) -> None:
    """Elsewhere the word means those of a workload."""
    alike = pd.DataFrame({"seed": 0, "window": [0, 1], "mean_jct_s": [1.0, 2.0]})
    said = verdicts(dict.fromkeys(("agent", "start", "constants"), alike), 1, Training(also=also))
    assert [line.partition("  ")[0] for line in said if line.startswith("constants")] == [named]


@pytest.mark.usefixtures("undrawn")
def test_several_agents_learn_to_steer_and_are_told_of_as_one(tmp_path: Path) -> None:
    usual = [*FEW[:9], *("--environments", "4", "--test-windows", "2", "--batch", "48"), *STEER]
    run = run_of(tmp_path, *usual, "--seeds", "2", "--processes", "1")
    assert (run.code, run.error) == (0, "")
    assert re.findall(r"^step +([\d,]+): mean JCT", run.out, re.MULTILINE) == ["0", "48"] * 2
    rows = re.findall(r"^(\w+) +[\d,.]+ ", run.out, re.MULTILINE)
    rows = [row for row in rows if row != "Agent"]  # "Agent 1 of 2"
    assert rows[:5] == ["agent_0", "agent_1", "held_0", "held_1", "start"]
    assert "Mean JCT of the 2 agents / that of each" in run.out
    assert "the 2 agents learned nothing" in run.out  # two windows tell nothing
    for seed in (0, 1):
        kept = json.loads((run.folder / f"seed-{seed}" / "best" / "agent.json").read_text())
        assert kept["training"]["learning_seed"] == seed


@pytest.mark.usefixtures("undrawn")
def test_an_agent_of_several_workloads_has_a_table_for_each(tmp_path: Path) -> None:
    few = [*FEW[:9], *("--environments", "4", "--test-windows", "2", "--batch", "48"), *STEER]
    run = run_of(tmp_path, *few, "--also", "xonar_mix", "--processes", "1")
    assert (run.code, run.error) == (0, "")
    assert len(re.findall(r"^ +on own [\d.]+, xonar_mix [\d.]+$", run.out, re.MULTILINE)) == 2
    assert re.findall(r"^On (.+):$", run.out, re.MULTILINE) == [
        "own",
        "xonar_mix",
        "all 2 workloads together",
    ]
    ratios = re.findall(r"^fifo +([\d.]+) \(\S+ +\d+ of (\d)$", run.out, re.MULTILINE)
    assert [windows for _, windows in ratios] == ["2", "2", "4"]
    own, other, both = (float(ratio) for ratio, _ in ratios)
    assert both == pytest.approx((own + other) / 2, abs=1e-4)
    for name in ("own", "xonar_mix"):
        assert (run.folder / name / "agent" / "jobs.csv").exists()


def test_the_agent_scores_the_same_again(trained: Run, tmp_path: Path) -> None:
    run, again = trained.folder, tmp_path / "again"
    same = (
        "--trace-file",
        trained.trace,
        "--cluster",
        "2x8",
        "--jobs",
        "40",
        "--all-windows",
        "--windows",
        "3",
    )
    assert evaluate.main(["--policy", str(run / "best"), *same, "--out", str(again)]) == 0
    pd.testing.assert_frame_equal(
        pd.read_csv(run / "agent" / "jobs.csv"), pd.read_csv(again / f"{run.name}_best" / "jobs.csv")
    )


def test_fewer_windows_than_asked_for_are_enough(command: Command, trace: str, tmp_path: Path) -> None:
    other = {"--windows": "5000", "--steps": "256"}
    many = [other.get(before, arg) for before, arg in pairwise(("", *FEW))]
    code, out, error = command("--trace-file", trace, *many, "--out", tmp_path / "run")
    assert (code, error) == (0, "")
    assert re.search(r"Note: the train part of the trace has \d+ windows, not 5,000", out)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--stepps", "4"], "did you mean '--steps'?"),
        (["--steps", "0"], "--steps 0: expected at least 1"),
        (["--tau-s", "-1"], "expected more than 0"),
        (["--clip", "nan"], "--clip nan: expected a finite number"),
        (["--reward", "Jct"], "did you mean 'jct'?"),
        (["--batch", "2048", "--batch", "512"], "--batch is given twice, as 2048 and as 512: give it once"),
        (["--whole"], "--whole leaves nothing"),
        (["--trace", "philli"], "philly"),
        (["--trace-file", "missing.csv"], "missing.csv"),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    command: Command, tmp_path: Path, args: list[str], message: str
) -> None:
    code, _, error = command(*args, "--out", tmp_path / "run")
    assert code == 2
    assert message in error
    assert "Traceback" not in error


def test_two_runs_never_share_a_folder(command: Command, trace: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "choices.json").write_text("{}")
    code, _, error = command("--trace-file", trace, *FEW, "--out", tmp_path / "run")
    assert code == 2
    assert "holds a run already" in error


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, train_agent\n"
        "try: train_agent.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'pandas', 'numba', 'torch', 'scipy', 'stable_baselines3'} & set(sys.modules)\n"
        "print(heavy, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "set()"
    assert "--learning-rate" in done.stdout


@pytest.mark.parametrize(
    ("low", "high", "windows", "expected"),
    [
        (0.9, 0.99, 20, "better"),
        (0.99, 1.01, 20, "not told apart"),
        (1.01, 1.2, 20, "worse"),
        (0.9, 0.99, 3, ""),
    ],
)
def test_words_say_no_more_than_the_interval(low: float, high: float, windows: int, expected: str) -> None:
    assert words(Comparison(low, low, high, low, low, 0, windows)) == expected
