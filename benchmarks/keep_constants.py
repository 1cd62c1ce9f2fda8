"""Keep the constants that a training run found: `python -m benchmarks.keep_constants RUN`.

RUN is a folder of `python train_agent.py --workload NAME --action steer --algorithm search`: CMA-ES searches constant
weights of the rule `union` on training windows, and validation windows select among the means of its generations. They
are written to `baselines/constants/NAME.json` (`NAME-with-history.json` with `--run-time-predictor`, `together.json`
with `--extra-workloads`), where `evaluate.py --policy constants` and `train_agent.py --init-from constants` read them.
"""

import argparse
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.checkpoint import Agent
from gpu_cluster_gym.agents.initialization import constant_policy
from gpu_cluster_gym.agents.training import SteerTraining
from gpu_cluster_gym.evaluation import run_folder
from gpu_cluster_gym.evaluation.choices import workload_like
from gpu_cluster_gym.evaluation.provenance import commit
from gpu_cluster_gym.simulator.choice import flag
from gpu_cluster_gym.simulator.rule_policy import RULE_PARAMETERS
from gpu_cluster_gym.traces import VERSION


def document(agent: Agent, noted: dict[str, Any], workload: str) -> dict[str, Any]:
    """Return constants and their source as plain JSON; ValueError unless the agent is the result of a search."""
    training, scenario = agent.training, agent.scenario
    rule = constant_policy(agent, noted["validation"])
    if (
        not isinstance(training, SteerTraining)
        or training.first_phase < training.total_timesteps
        or rule is None
    ):
        raise ValueError("RUN requires an agent trained with --action steer --algorithm search")
    several = {"workloads": [workload, *training.extra_workloads]}
    return {
        "command": command(training, workload, scenario.run_time_predictor),
        **(several if training.extra_workloads else {"workload": workload}),
        "physics": None if training.extra_workloads else scenario.physics_name,
        "with_history": scenario.run_time_predictor is not None,
        "seed": training.learning_seed,
        "streams": VERSION,
        "commit": commit(),
        "episodes": noted["step"] // training.decisions_per_window,
        "score": "mean over windows of mean JCT / that of union",
        "windows": {"training": training.windows, "validation": training.validation_windows},
        "validation": noted["validation_ratio_to_start"],
        "weights": {each.name: getattr(rule, each.name) for each in RULE_PARAMETERS if each.scale > 0},
    }


def command(training: SteerTraining, workload: str, history: str | None) -> str:
    """Return the command that repeats a search: flags that differ from the defaults."""
    default = SteerTraining()
    found = {
        each.name: getattr(training, each.name)
        for each in fields(training)
        if getattr(training, each.name) != getattr(default, each.name)
    }
    words = [
        f"{flag(name)} {' '.join(map(str, value)) if isinstance(value, tuple) else value}"
        for name, value in (found | ({"run_time_predictor": history} if history else {})).items()
    ]
    return " ".join((f"python train_agent.py --workload {workload}", *words))


def main(args: Sequence[str] | None = None) -> None:
    """Write the file of a workload."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="folder of train_agent.py --algorithm search")
    parser.add_argument("--workload", help="name of the file; required for a custom scenario")
    parser.add_argument("--out", type=Path, default=baselines.CONSTANTS, help="folder to write to")
    chosen = parser.parse_args(args)
    folder = run_folder.agent_folder(chosen.run)
    agent = checkpoint.load(folder)
    workload = chosen.workload or workload_like(agent.scenario)
    if workload is None:
        parser.error("--workload is required: the run has a custom scenario")
    several = isinstance(agent.training, SteerTraining) and agent.training.extra_workloads
    name = baselines.TOGETHER if several else workload
    file = (
        chosen.out / f"{name}{baselines.WITH_HISTORY * (agent.scenario.run_time_predictor is not None)}.json"
    )
    run_folder.write_json(file, document(agent, checkpoint.about(folder), workload))
    print(file)


if __name__ == "__main__":
    main()
