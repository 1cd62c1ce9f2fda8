"""Simulation needs no Torch; training without it is an error with the command to install it."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

HIDE = """
import sys
from importlib.machinery import PathFinder

HIDDEN = {"torch", "stable_baselines3", "tensorboard", "safetensors"}


class Hiding:
    @staticmethod
    def find_spec(name, *places):
        return None if name in HIDDEN else PathFinder.find_spec(name, *places)


sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding

import gpu_cluster_gym.evaluation.command

gpu_cluster_gym.evaluation.command.PATIENCE_S = 1e6  # no notices of long waits, which depend on the machine
"""


def without_torch(command: str, *args: object) -> subprocess.CompletedProcess[str]:
    """Run a command where no library of agents can be imported."""
    code = f"{HIDE}\nfrom gpu_cluster_gym import {command}\nsys.exit({command}.main(sys.argv[1:]))"
    words = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_heuristic_is_scored(tmp_path: Path) -> None:
    few = ("--workload", "philly_backlog", "--windows", 1, "--jobs", 40, "--all-windows")
    done = without_torch("evaluate", "--policy", "fifo", *few, "--out", tmp_path / "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert "srtf" in done.stdout


def test_training_without_torch_names_the_package_to_install(tmp_path: Path) -> None:
    for command, *args in (("train_agent",), ("evaluate", "--policy", tmp_path)):
        done = without_torch(command, *args)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith(f"{command}.py: learned agents require torch, ")
        assert 'pip install -e ".[train]"' in done.stderr
