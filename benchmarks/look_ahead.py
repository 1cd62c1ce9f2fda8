"""Compare look-ahead with its base policy: mean JCT, time per decision, and deviations from the base policy.

`python -m benchmarks.look_ahead --workload mixed --first 64 --windows 36 [--set draws=16 tau_s=1800 ...]`
runs `lookahead`, its base policy and `union` on windows of a workload, training windows by default. The base policy is
`union`; with `--constants` the tuned constants of the workload, with `--agent FOLDER` a steering agent, with
`--mean-action FOLDER` the constant-action policy of a steering agent. With `--run-time-predictor NAME` all policies
learn run times from finished jobs. A ratio of mean JCTs is averaged over windows; its interval is the paired bootstrap.
Milliseconds per decision are CPU time, over the decisions at which moves were compared.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import load_policy
from gpu_cluster_gym.agents.protocol import candidates
from gpu_cluster_gym.evaluation.comparison import compare
from gpu_cluster_gym.evaluation.each import each, in_order
from gpu_cluster_gym.evaluation.run_folder import agent_folder
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel.moves.move_list import KINDS
from gpu_cluster_gym.simulator.look_ahead_policy import LookAhead, run_with_memory
from gpu_cluster_gym.simulator.rule_policy import Rule, Steered, memory_of
from gpu_cluster_gym.workloads import Split, Workload, named, windows

WITHOUT_HISTORY = Rule(trust_cores=0, trust_times=0)


class Played(NamedTuple):
    """Results of a window: mean JCTs (s) of `union`, the base policy and look-ahead, and the cost of look-ahead."""

    window: int
    without_history_s: float
    union_s: float
    rule_s: float
    ahead_s: float
    seconds: float
    compared: int
    rollouts: int
    deviations: np.ndarray


def play(policy: LookAhead, load: Workload, number: int) -> Played:
    """Run `union`, the base policy and look-ahead on a window; RuntimeError if jobs never finish."""
    without_history_s, union_s, rule_s = (
        mean_jct(load, run(rule, load.episode()).state.finish_s)
        for rule in (WITHOUT_HISTORY, Rule(), policy.rule)
    )
    episode = load.episode()
    memory = memory_of(policy.start, episode.states, episode.jobs, episode.histories, 2)
    start = time.process_time()
    if not run_with_memory(policy, episode.states, episode.jobs, memory):
        raise RuntimeError(f"window {number}: some jobs never finish under this policy")
    seconds, counted = time.process_time() - start, memory[0]
    ahead_s = mean_jct(load, episode.state.finish_s)
    numbers = int(counted.num_compared), int(counted.num_rollouts)
    return Played(
        number, without_history_s, union_s, rule_s, ahead_s, seconds, *numbers, counted.deviations.copy()
    )


def mean_jct(load: Workload, finish_s: np.ndarray) -> float:
    """Return the mean JCT (s) of a window with these finish times."""
    submit_s = load.jobs["submit_s"]
    return float((finish_s[: len(submit_s)] - submit_s).mean())


def summary(found: Sequence[Played], field: str) -> pd.DataFrame:
    """Return a result per window in the format that `evaluation.comparison` reads."""
    rows = [{"window": each.window, "seed": 0, "mean_jct_s": getattr(each, field)} for each in found]
    return pd.DataFrame(rows)


def report(found: Sequence[Played]) -> list[str]:
    """Return the lines of the report."""
    ratios = [
        (which, compare(summary(found, ours), summary(found, other)))
        for which, ours, other in (
            ("look-ahead / base policy", "ahead_s", "rule_s"),
            ("look-ahead / union", "ahead_s", "union_s"),
            ("look-ahead / union without history", "ahead_s", "without_history_s"),
            ("base policy / union", "rule_s", "union_s"),
        )
    ]
    count, compared = len(found), sum(each.compared for each in found)
    seconds, rollouts = sum(each.seconds for each in found), sum(each.rollouts for each in found)
    deviations = np.mean([each.deviations for each in found], axis=0)
    kinds = KINDS[: len(deviations)]  # look-ahead does not move CPU cores
    each = ", ".join(f"{kind} {number:.1f}" for kind, number in zip(kinds, deviations, strict=True))
    return [
        *(
            f"mean JCT, {which}: {ratio.ratio:.4f} ({ratio.low:.4f}-{ratio.high:.4f}), "
            f"lower in {ratio.wins} of {count} windows"
            for which, ratio in ratios
        ),
        f"{seconds / count:.1f} s per window, {1000 * seconds / max(compared, 1):.1f} ms per decision: "
        f"{compared / count:.0f} decisions, {rollouts / max(compared, 1):.1f} rollouts each",
        f"deviations per window: {deviations.sum():.1f} ({each})",
    ]


def setting(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE of a numeric option of look-ahead; ValueError for other options."""
    name, _, value = text.partition("=")
    default = getattr(LookAhead(), name, None)
    if not isinstance(default, int | float):
        raise ValueError(f"{name!r} is not a numeric option of lookahead")
    return name, type(default)(value)


def rule_of(
    workload: str, agent: Path | None, mean_action: Path | None, *, constants: bool, with_history: bool
) -> Rule | Steered:
    """Return the base policy; ValueError if an agent provides none."""
    if agent:
        found = load_policy(agent_folder(agent))
        if not isinstance(found, Steered):
            raise ValueError(f"{agent}: --agent requires an agent trained with action steer")
        return found
    if mean_action:
        average = candidates(mean_action)[0].mean_action
        if average is None:
            raise ValueError(f"{mean_action}: --mean-action requires an agent with a recorded mean action")
        return average
    return Rule(**(baselines.constants(workload, with_history=with_history).settings if constants else {}))


def main(args: Sequence[str] | None = None) -> None:
    """Run the policies and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", default="mixed", help="workload to simulate")
    parser.add_argument("--physics", help="parts of physics; default: those of the workload")
    parser.add_argument("--run-time-predictor", help="predictor from which policies learn run times")
    base = parser.add_mutually_exclusive_group()
    base.add_argument("--constants", action="store_true", help="base policy: tuned constants of the workload")
    base.add_argument("--agent", type=Path, help="base policy: folder of a steering agent")
    base.add_argument("--mean-action", type=Path, help="base policy: constant-action policy of this agent")
    parser.add_argument("--split", choices=get_args(Split), default="train", help="split of the windows")
    parser.add_argument("--first", type=int, default=64, help="number of the first window")
    parser.add_argument("--windows", type=int, default=36, help="number of windows")
    parser.add_argument(
        "--set", nargs="*", type=setting, default=[], metavar="NAME=VALUE", help="options of look-ahead"
    )
    parser.add_argument("--processes", type=int, default=1, help="number of processes")
    chosen = parser.parse_args(args)
    options = {"constants": chosen.constants, "with_history": chosen.run_time_predictor is not None}
    rule = rule_of(chosen.workload, chosen.agent, chosen.mean_action, **options)
    policy = LookAhead(rule, **dict(chosen.set))
    scenario = named(chosen.workload)
    scenario = replace(
        scenario, physics=chosen.physics or scenario.physics, run_time_predictor=chosen.run_time_predictor
    )
    loads = windows(scenario, chosen.split, chosen.first + chosen.windows)[chosen.first :]
    tasks = [partial(play, policy, load, number) for number, load in enumerate(loads, chosen.first)]
    found: list[Played] = [*in_order(each(tasks, chosen.processes))]
    print("\n".join(report(found)))


if __name__ == "__main__":
    main()
