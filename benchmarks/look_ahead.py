"""What looking ahead wins over the rule, what it costs, and which moves it makes instead.

`python benchmarks/look_ahead.py --workload mixed --first 64 --windows 36 [--set draws=16 tau_s=1800 ...]`
plays `lookahead`, its own rule and `union` on windows of a workload, of training unless others are named. The rule
is `union`'s, with `--constants` that found for the workload, with `--agent FOLDER` as a steering agent sets it, with
`--held FOLDER` as it does on average, always; with `--history NAME` all are taught by finished jobs.
A ratio is that of mean JCTs in the same window, averaged; its interval is the paired bootstrap. Milliseconds a decision
are those of the process's own time, over the decisions at which moves were compared.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import load_policy
from gpu_cluster_gym.agents.protocol import candidates
from gpu_cluster_gym.evaluation.comparison import compare
from gpu_cluster_gym.evaluation.run_folder import agent_folder
from gpu_cluster_gym.simulator.episode import run
from gpu_cluster_gym.simulator.kernel.moves.move_list import KINDS
from gpu_cluster_gym.simulator.look_ahead import LookAhead, carried_out
from gpu_cluster_gym.simulator.rule import Rule, memory_of
from gpu_cluster_gym.simulator.steered import Steered
from gpu_cluster_gym.workloads import Split, Workload, named, windows

UNTAUGHT = Rule(trust_cores=0, trust_times=0)


class Played(NamedTuple):
    """What became of a window: mean JCTs, s, of `union`, untaught too, the rule and the policy, and what that took."""

    window: int
    untaught_s: float
    union_s: float
    rule_s: float
    ahead_s: float
    seconds: float
    compared: int
    rollouts: int
    deviations: np.ndarray


def play(policy: LookAhead, load: Workload, number: int) -> Played:
    """Play a window by `union`, by the rule, and looking ahead; RuntimeError where jobs are left."""
    untaught_s, union_s, rule_s = (
        mean_jct(load, run(rule, load.episode()).state.finish_s) for rule in (UNTAUGHT, Rule(), policy.rule)
    )
    episode = load.episode()
    memory = memory_of(policy.start, episode.states, episode.jobs, episode.histories, 2)
    began = time.process_time()
    if not carried_out(policy, episode.states, episode.jobs, memory):
        raise RuntimeError(f"window {number}: jobs are left that never end")
    seconds, counted = time.process_time() - began, memory[0]
    ahead_s = mean_jct(load, episode.state.finish_s)
    numbers = int(counted.num_compared), int(counted.num_rollouts)
    return Played(number, untaught_s, union_s, rule_s, ahead_s, seconds, *numbers, counted.deviations.copy())


def mean_jct(load: Workload, finish_s: np.ndarray) -> float:
    """Return the mean JCT of a window whose jobs ended then, s."""
    submit_s = load.jobs["submit_s"]
    return float((finish_s[: len(submit_s)] - submit_s).mean())


def summary(found: Sequence[Played], field: str) -> pd.DataFrame:
    """Return a number of each window, as `evaluation.comparison` reads it."""
    rows = [{"window": each.window, "seed": 0, "mean_jct_s": getattr(each, field)} for each in found]
    return pd.DataFrame(rows)


def told(found: Sequence[Played]) -> list[str]:
    """Say what was found."""
    ratios = [
        (which, compare(summary(found, ours), summary(found, other)))
        for which, ours, other in (
            ("looking ahead / the rule", "ahead_s", "rule_s"),
            ("looking ahead / union", "ahead_s", "union_s"),
            ("looking ahead / union that no finished job teaches", "ahead_s", "untaught_s"),
            ("the rule / union", "rule_s", "union_s"),
        )
    ]
    count, compared = len(found), sum(each.compared for each in found)
    seconds, rollouts = sum(each.seconds for each in found), sum(each.rollouts for each in found)
    deviations = np.mean([each.deviations for each in found], axis=0)
    kinds = KINDS[: len(deviations)]  # it makes no moves of cores
    each = ", ".join(f"{kind} {number:.1f}" for kind, number in zip(kinds, deviations, strict=True))
    return [
        *(
            f"mean JCT, {which}: {ratio.ratio:.4f} ({ratio.low:.4f}-{ratio.high:.4f}), "
            f"lower in {ratio.wins} of {count} windows"
            for which, ratio in ratios
        ),
        f"{seconds / count:.1f} s a window, {1000 * seconds / max(compared, 1):.1f} ms a decision: "
        f"{compared / count:.0f} decisions, {rollouts / max(compared, 1):.1f} rollouts each",
        f"deviations a window: {deviations.sum():.1f} ({each})",
    ]


def setting(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE of a choice of the policy; ValueError where there is none."""
    name, _, value = text.partition("=")
    default = getattr(LookAhead(), name, None)
    if not isinstance(default, int | float):
        raise ValueError(f"no choice {name!r} of lookahead that is a number")
    return name, type(default)(value)


def rule_of(
    workload: str, agent: Path | None, held: Path | None, *, constants: bool, taught: bool
) -> Rule | Steered:
    """Return the rule on which to look ahead; ValueError where there is no such."""
    if agent:
        found = load_policy(agent_folder(agent))
        if not isinstance(found, Steered):
            raise ValueError(f"{agent}: this agent does not steer")
        return found
    if held:
        average = candidates(held)[0].mean_action
        if average is None:
            raise ValueError(f"{held}: it is not known what the agent does on average")
        return average
    return Rule(**(baselines.constants(workload, with_history=taught).settings if constants else {}))


def main(args: Sequence[str] | None = None) -> None:
    """Play, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", default="mixed")
    parser.add_argument("--physics")
    parser.add_argument("--history")
    of_rule = parser.add_mutually_exclusive_group()
    of_rule.add_argument("--constants", action="store_true")
    of_rule.add_argument("--agent", type=Path)
    of_rule.add_argument("--held", type=Path)
    parser.add_argument("--split", choices=get_args(Split), default="train")
    parser.add_argument("--first", type=int, default=64)
    parser.add_argument("--windows", type=int, default=36)
    parser.add_argument("--set", nargs="*", type=setting, default=[])
    parser.add_argument("--processes", type=int, default=1)
    chosen = parser.parse_args(args)
    how = {"constants": chosen.constants, "taught": chosen.history is not None}
    rule = rule_of(chosen.workload, chosen.agent, chosen.held, **how)
    policy = LookAhead(rule, **dict(chosen.set))
    scenario = named(chosen.workload)
    scenario = replace(scenario, physics=chosen.physics or scenario.physics, history=chosen.history)
    loads = windows(scenario, chosen.split, chosen.first + chosen.windows)[chosen.first :]
    tasks = (delayed(play)(policy, load, chosen.first + at) for at, load in enumerate(loads))
    found: list[Played] = Parallel(chosen.processes, batch_size=1)(tasks)
    print("\n".join(told(found)))


if __name__ == "__main__":
    main()
