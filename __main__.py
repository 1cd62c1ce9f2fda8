"""Run one of `COMMANDS`: `gpu-cluster-gym train`, `gpu-cluster-gym evaluate` and others."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

COMMANDS = {
    "train": ("gpu_cluster_gym.train_agent", "train an agent by reinforcement learning"),
    "evaluate": ("gpu_cluster_gym.evaluate", "score scheduling policies on the same workloads"),
    "describe": (
        "gpu_cluster_gym.evaluation.describe",
        "describe a log: load, widths, run times, waits, tenants",
    ),
    "fetch": ("gpu_cluster_gym.traces._fetch", "download a public trace from its official archive"),
    "forecast": ("gpu_cluster_gym.evaluation.forecast", "forecast when the queued jobs of a snapshot start"),
    "decide": (
        "gpu_cluster_gym.evaluation.decide",
        "print the actions of a policy for the jobs of a snapshot",
    ),
    "score": ("gpu_cluster_gym.evaluation.score", "score a policy file for a search, as JSON"),
    "record": ("gpu_cluster_gym.agents.record", "record episodes of schedulers as Minari data sets"),
    "plot": ("gpu_cluster_gym.evaluation.plot.__main__", "draw figures of a run folder"),
}
"""The module of each command, and its purpose."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command that the first argument names; return its exit code, 2 for an unknown command.

    `--version` prints the version instead.
    """
    name, *rest = (sys.argv[1:] if args is None else args) or ["--help"]
    if name in COMMANDS:
        code: int = import_module(COMMANDS[name][0]).main(rest)
        return code
    if name == "--version":
        print(import_module("gpu_cluster_gym.evaluation.command").versions())
        return 0
    is_help = name in ("-h", "--help")
    out = sys.stdout if is_help else sys.stderr
    if not is_help:
        print(f"gpu-cluster-gym: unknown command {name!r}", file=out)
    print("usage: gpu-cluster-gym COMMAND [--help]\n", file=out)
    for command, (_, purpose) in COMMANDS.items():
        print(f"  {command:10}{purpose}", file=out)
    return 0 if is_help else 2


def script() -> NoReturn:
    """Run a command as a process of its own."""
    code = main()
    from gpu_cluster_gym.evaluation.stopping import leave

    leave(code)


if __name__ == "__main__":
    script()
