"""`gpu-cluster-gym score` answers with one JSON object, whatever the policy file does."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_gym.evaluation import score

GOOD = """
from gpu_cluster_gym.simulator.policy import Ranking

policy = Ranking("{key}", "{pauses}")
"""
FEW = ["--windows", "1", "--workload", "xonar_mix"]


def scored(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, Any]:
    (file := tmp_path / "mine.py").write_text(text, encoding="utf-8")
    code = score.main([str(file), *FEW, *flags])
    return code, json.loads(capsys.readouterr().out)


def test_a_policy_has_the_score_of_the_policy_that_it_equals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = scored(GOOD.format(key="submit", pauses="never"), tmp_path, capsys)
    assert code == 0
    assert found["score"] == 1.0  # that of fifo
    assert set(found["metrics"]) == set(score.METRICS)
    assert "mean JCT / fifo: 1.000" in found["feedback"]
    assert "worst windows" in found["feedback"]


@pytest.mark.parametrize(
    ("text", "flags", "said"),
    [
        ("def policy(view):\n    raise RuntimeError('too tired')\n", (), "too tired"),
        ("policy = (\n", (), "SyntaxError"),
        ("def policy(view):\n    while True:\n        pass\n", ("--seconds", "3"), "more than 3 s"),
    ],
)
def test_a_policy_that_fails_has_no_score_and_says_why(
    text: str, flags: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = scored(text, tmp_path, capsys, *flags)
    assert code == 1
    assert found["score"] is None
    assert said in found["feedback"]


def test_a_missing_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert score.main([str(tmp_path / "none.py")]) == 2
    assert "file not found" in capsys.readouterr().err
