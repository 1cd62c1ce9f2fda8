"""Errors of `evaluate.py` are one sentence, with a remedy, and leave no folder behind."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpu_cluster_gym.evaluate import main
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--policy", "xoin"), ("did you mean 'xion'", "fifo_strict")),
        (("--policy", "fifo", "--trace", "phily"), ("did you mean 'philly'",)),
        (("--policy", "fifo", "--clutser", "8x8"), ("did you mean '--cluster'?", "--help")),
        (("--policy", "fifo", "--cluster", "8by8"), ("'8by8'", "NxG", "philly")),
        (("--policy", "fifo", "--physics", "memory,gravity"), ("gravity", "estimates")),
        (("--policy", "fifo", "--discipline", "lax"), ("lax", "strict", "easy")),
        (("--policy", "fifo", "--placement", "worst"), ("worst", "best_fit", "pooled")),
        (("--policy", "fifo", "--trace-file", "missing.csv"), ("missing.csv",)),
        (("--policy", "xoin", "--trace-file", "missing.csv"), ("did you mean 'xion'",)),
        (("--policy", "lookahead:unoin", "--trace-file", "missing.csv"), ("did you mean 'union'",)),
        (("--policy", "fifo", "--config", "missing.json"), ("missing.json",)),
        (("--policy", "nowhere_to_be_found:policy"), ("no module 'nowhere_to_be_found'",)),
        (("--policy", "gpu_cluster_gym.baselines.fifo:polcy"), ("'polcy'",)),
        (("--policy", "fifo", "--windows", "many"), ("--windows",)),
        (("--policy", "fifo", "--windows", "0"), ("--windows 0", "at least 1")),
        (("--policy", "fifo", "--seed", "-1"), ("--seed -1", "at least 0")),
        (("--policy", "fifo", "--tick", "nan"), ("--tick nan", "finite")),
        (("--policy", "fifo", "--target-load", "0"), ("--target-load 0", "more than 0")),
        (("--policy", "Xion_Threshold"), ("did you mean 'xion_threshold'",)),
        (("--policy", "All"), ("did you mean 'all'",)),
        (("--policy", "fifo", "las", "fifo"), ("--policy names fifo twice",)),
        (("--policy",), ("--policy: expected a list of names",)),
        (("--policy", "fifo", "--cluster", "4X8-K80"), ("did you mean '4x8-k80'",)),
        (("--policy", "fifo", "--cluster", "Philly"), ("did you mean 'philly'",)),
        (("--policy", "fifo", "--workload", "Quick"), ("did you mean 'quick'",)),
        (("--policy", "fifo", "--trace", "Philly"), ("did you mean 'philly'",)),
        (("--policy", "fifo", "--Trace", "philly"), ("did you mean '--trace'",)),
        (
            ("--policy", "fifo", "--placement", "Best_Fit"),
            ("--placement 'Best_Fit'", "did you mean 'best_fit'"),
        ),
        (("--policy", "fifo", "--physics", "Memory,all"), ("did you mean 'memory'",)),
        (("--policy", "fifo", "--seed", "1", "--seed", "2"), ("--seed is given twice: give it once",)),
        (("--policy", "fifo", "--full-trace", "--no-full-trace"), ("--full-trace is given twice",)),
        (("--policy", "fifo", "--full-trace", "true"), ("unexpected argument 'true'",)),
        (("--policy", "fifo", "--seed", "1", "2"), ("--seed 1 2: expected one value",)),
        (("--policy", "fifo", "--seed"), ("--seed: expected an integer",)),
        (("fifo",), ("unexpected argument 'fifo': write its flag before it",)),
        (("--policy", "fifo", "--node-mtbf", "5"), ("did you mean '--node-mtbf-h'",)),
        (("--policy", "fifo", "--drain-every-h", "2"), ("--drain-every-h 2: expected more than",)),
        (("--policy", "fifo", "--max-share", "99"), ("--max-share 99: expected at least 1 and at most 4",)),
        ((), ("expected either --paper", "or --policy")),
        (("--policy", "fifo", "--paper", "xion"), ("--paper cannot be combined",)),
        (
            ("--policy", "fifo", "--full-trace", "--trace-file", "a.csv", "--windows", "2"),
            ("one episode: drop it or --windows",),
        ),
        (("--policy", "fifo", "--split", "all"), ("--split all requires --policy and --trace-file",)),
        (
            ("--policy", "fifo", "--split", "all", "--full-trace", "--trace-file", "a.csv"),
            ("without --protocol, --audit or --full-trace",),
        ),
        (("--policy", "fifo", "--split", "train"), ("--split 'train'", "test")),
        (
            ("--policy", "fifo", "--node-mtbf-h", "5"),
            ("--node-mtbf-h 5: expected physics that include failures, as exclusive do not",),
        ),
        (
            ("--policy", "fifo", "--workload", "mixed", "--node-mtbf-h", "5"),
            ("--node-mtbf-h 5: expected physics that include failures",),
        ),
        (
            ("--policy", "fifo", "--borrowing", "idle"),
            ("--borrowing 'idle': expected none, or quotas as well",),
        ),
        (("--policy", "fifo", "--address", "auto:1"), ("requires --backend ray",)),
        (("--paper", "xoin"), ("unknown paper 'xoin'", "did you mean 'xion'")),
        (("--paper", "xion", "--cluster", "8x8", "--tick", "9"), ("drop --cluster, --tick",)),
        (("--paper", "xion", "--windows", "0"), ("--windows 0", "at least 1")),
    ],
    ids=lambda args: " ".join(args)[:40] if args and isinstance(args, tuple) else None,
)
def test_invalid_choices_are_refused_in_a_sentence(
    args: tuple[str, ...], said: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = [] if args[:1] == ("fifo",) else ["--out", str(tmp_path / "out")]
    code = main([*folder, *args])
    out, error = capsys.readouterr()
    assert (code, out) == (2, "")
    assert error.startswith("evaluate.py: ")
    assert error.count("\n") == 1
    assert [word for word in said if word not in error] == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["evaluate.py", "train_agent.py"])
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_shells_can_complete_the_commands(command: str, shell: str) -> None:
    line = [sys.executable, command, "--tyro-print-completion", shell]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "--contention-loss" in done.stdout
