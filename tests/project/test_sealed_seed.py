"""The sealed seed of a release is a function of its tag and commit alone."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from benchmarks.sealed_seed import main, sealed_seed
from gpu_cluster_gym.workloads import Scenario

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git(place: Path, *asked: str) -> str:
    who = (
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b.c",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "tag.gpgsign=false",
    )
    return subprocess.run(["git", *who, *asked], cwd=place, capture_output=True, text=True, check=True).stdout


def test_the_seed_depends_on_tag_and_commit() -> None:
    digest = hashlib.sha256(f"gpu-cluster-gym v0.3.0 {COMMIT}".encode()).hexdigest()
    assert sealed_seed("v0.3.0", COMMIT) == int(digest[:8], 16)
    others = {sealed_seed("v0.3.1", COMMIT), sealed_seed("v0.3.0", COMMIT[::-1])}
    assert len({sealed_seed("v0.3.0", COMMIT), *others}) == 3
    assert Scenario(seed=sealed_seed("v0.3.0", COMMIT)).seed >= 0


@pytest.mark.parametrize("kind", [(), ("-a", "-m", "release")])
def test_the_command_prints_the_seed_of_the_tagged_commit(
    kind: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "one")
    git(tmp_path, "tag", *kind, "v0.3.0")
    released = git(tmp_path, "rev-parse", "HEAD").strip()
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "two")
    assert main(["v0.3.0", "--checkout", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{sealed_seed('v0.3.0', released)}\n"


def test_a_release_that_is_not_out_has_no_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git(tmp_path, "init", "--quiet")
    with pytest.raises(SystemExit):
        main(["v9.9.9", "--checkout", str(tmp_path)])
    assert "has no tag v9.9.9: name a published release" in capsys.readouterr().err
