"""The checkout is one package, `gpu_cluster_gym`: installed or not, and never imported twice under other names.

`.ci/wheel` tests the built wheel outside the checkout.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import gpu_cluster_gym
from tests.conftest import ROOT
from tests.project.test_architecture import RANK

FOLDERS = sorted(name for name in RANK if (ROOT / name).is_dir())
SITE_PACKAGES = sysconfig.get_path("purelib")


def python(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the checkout with these arguments."""
    line = [sys.executable, *map(str, words)]
    return subprocess.run(
        line, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )


def test_a_folder_is_not_imported_by_its_bare_name() -> None:
    """It would be a second copy of every class, so that `isinstance` fails."""
    code = f"""
from importlib import import_module
for folder in {FOLDERS}:
    try:
        import_module(folder)
    except ImportError as error:
        print(error)
"""
    lines = python("-c", code).stdout.splitlines()
    assert len(lines) == len(FOLDERS)
    for line, folder in zip(lines, FOLDERS, strict=True):
        assert f"import gpu_cluster_gym.{folder}, not {folder}" in line


def test_a_command_runs_where_only_the_dependencies_are_installed() -> None:
    """`-S` leaves out site-packages, through which the editable install is found; the path brings the rest back."""
    assert "No module named" in python("-S", "-c", "import gpu_cluster_gym", PYTHONPATH=SITE_PACKAGES).stderr
    done = python("-S", "evaluate.py", "--list", "policies", PYTHONPATH=SITE_PACKAGES)
    assert (done.returncode, done.stderr) == (0, "")
    assert "xion_threshold" in done.stdout


def test_a_command_runs_the_checkout_that_it_lies_in(tmp_path: Path) -> None:
    """Another checkout is installed here; its code must not run instead."""
    copy = tmp_path / "copy"
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in tracked.splitlines():
        if name.endswith(".py") and name.split("/")[0] not in ("tests", "docs", "benchmarks"):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    (copy / ".typing").mkdir()
    (copy / ".typing" / "gpu_cluster_gym").symlink_to("..")
    (copy / "baselines" / "only_here.py").write_text('"""A policy of the copy."""\n')
    done = python(copy / "evaluate.py", "--list", "policies")
    assert "A policy of the copy." in done.stdout


def test_the_module_names_its_commands() -> None:
    assert python("-m", "gpu_cluster_gym").stdout.startswith("usage: gpu-cluster-gym COMMAND")
    wrong = python("-m", "gpu_cluster_gym", "evaluat")
    assert (wrong.returncode, wrong.stderr.splitlines()[0]) == (
        2,
        "gpu-cluster-gym: unknown command 'evaluat'",
    )


def test_the_module_prints_the_version_of_its_commands() -> None:
    said = [python("-m", "gpu_cluster_gym", *words, "--version").stdout for words in ([], ["evaluate"])]
    assert said[0] == said[1] != ""


def test_the_package_has_the_version_of_its_commands() -> None:
    said = python("-m", "gpu_cluster_gym", "--version").stdout
    assert said.startswith(f"gpu-cluster-gym {gpu_cluster_gym.__version__}, ")


def test_a_checkout_without_an_installation_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(gpu_cluster_gym, "version", absent)
    assert gpu_cluster_gym._version() == "not installed"


def test_the_version_is_the_same_everywhere() -> None:
    """`.ci/release` takes its notes from the changelog."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    sections = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert next(each for each in sections if each != "Unreleased") == version


def test_a_release_refuses_a_tag_of_another_version() -> None:
    done = subprocess.run([ROOT / ".ci" / "release", "v0"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "the tag is 'v0', but pyproject.toml has version" in done.stdout
