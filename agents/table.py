"""The comparison at the end of training: the agents and other policies on test windows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents.checkpoint import policy_of
from gpu_cluster_gym.agents.learn import learner_of
from gpu_cluster_gym.agents.plain import untrained
from gpu_cluster_gym.agents.training import (
    CONSTANTS,
    UNION,
    MovesTraining,
    PlainTraining,
    SteerTraining,
    Training,
)
from gpu_cluster_gym.envs.floors import FLOORS
from gpu_cluster_gym.envs.steer import TRUSTS
from gpu_cluster_gym.evaluation import runner
from gpu_cluster_gym.evaluation.comparison import Comparison, compare_agents
from gpu_cluster_gym.evaluation.runner import Maker
from gpu_cluster_gym.evaluation.table_notes import FULL_WINDOWS
from gpu_cluster_gym.simulator.errors import StalledEpisodeError
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.workloads import Scenario, Workload

MEAN_ACTION, WITHOUT_HISTORY, INITIAL = "mean_action", "without_history", "initial"
"""Rows of the table: the agent's constant-action policy, `union` without the history of finished jobs,
and the initial agent where it is neither `union` nor constants."""
UNTRAINED = "untrained"
"""Row of the agent with random weights, which samples its actions."""
BASELINES = ("fifo", "sjf", "srtf", "las", "xion", "xion_threshold")
"""Policies that are always in the table, with default settings; the floors too."""


class Trained(NamedTuple):
    """A trained agent: its folder, and its constant-action policy, where there is one."""

    folder: Path
    policy: Policy
    mean_action: Policy | None


def in_table(
    scenario: Scenario, training: Training, agents: Sequence[Trained], trained_on: Sequence[str]
) -> dict[str, Policy | type]:
    """Return the policies of the table by name, the agents first; trained_on: names of workloads."""
    found: dict[str, Policy | type] = dict(
        zip(numbered("agent", len(agents)), [each.policy for each in agents], strict=True)
    )
    for name, each in zip(numbered(MEAN_ACTION, len(agents)), agents, strict=True):
        if each.mean_action:
            found[name] = each.mean_action
    learner = learner_of(scenario, training)
    found[reference_of(training)] = learner.start
    if init_from(training) not in (UNION, CONSTANTS):
        initial = learner.initial
        found[INITIAL] = policy_of(initial.agent) if initial.agent else initial.rule
    steers = isinstance(training, SteerTraining)
    if steers and scenario.run_time_predictor:
        found[WITHOUT_HISTORY] = baselines.vary(baselines.load("union"), **dict.fromkeys(TRUSTS, 0.0))
    known = baselines.best_constants(trained_on, with_history=scenario.with_history)
    if known and (steers or init_from(training) == CONSTANTS):
        found[CONSTANTS] = baselines.load(known)
    if isinstance(learner.training, PlainTraining):
        found[UNTRAINED] = untrained(learner.training)
    return found | {name: baselines.load(name) for name in BASELINES} | FLOORS


def init_from(training: Training) -> str:
    """Return the initial policy of a training; `union` where there is no choice of it."""
    return training.init_from if isinstance(training, SteerTraining | MovesTraining) else UNION


def those_that_end(
    makers: Mapping[str, Maker], workloads: Sequence[Workload], **how: Any
) -> tuple[dict[str, pd.DataFrame], dict[str, str]]:
    """Return the results of policies under which all jobs end, and the errors of the other policies.

    how: as for `runner.run_all`. Raise StalledEpisodeError where jobs never end under any policy.
    """
    tried = runner.run_all(one_or_why, makers, workloads, **how)
    why = {name: next((each for each in found if isinstance(each, str)), "") for name, found in tried.items()}
    if all(why.values()):
        raise StalledEpisodeError(f"jobs never end under any policy: {next(iter(why.values()))}")
    ended = {name: pd.concat(found, ignore_index=True) for name, found in tried.items() if not why[name]}
    return ended, {name: error for name, error in why.items() if error}


def one_or_why(make: Maker, workload: Workload, *, oracle: bool = False) -> pd.DataFrame | str:
    """Return the results table of a policy on a workload, or the error where jobs never end."""
    try:
        return runner.run_window(make, workload, oracle=oracle)
    except StalledEpisodeError as error:
        return str(error)


def reference_of(training: Training) -> str:
    """Return the name of the reference of validations, rewards and tables."""
    return "fifo" if training.action == "plain" else "union"


def verdicts(summaries: Mapping[str, pd.DataFrame], count: int, training: Training) -> list[str]:
    """Return the comparison of `count` agents with each other policy, as lines; the first is the verdict."""
    of = "the agent" if count == 1 else f"the {count} agents"
    start = reference_of(training)
    if lacking := [name for name in (*numbered("agent", count), start) if name not in summaries]:
        return [f"No verdict on {of}: jobs never end under {', '.join(lacking)}."]
    found = comparisons(summaries, count)
    initial = {UNION: start, CONSTANTS: CONSTANTS}.get(init_from(training), INITIAL)
    shown, windows = labels(training), next(iter(found.values())).windows
    width = max(len(shown.get(name, name)) for name in found)
    versus = found.get(initial, found[start])
    verdict = words(versus) or f"fewer than {FULL_WINDOWS} windows, too few for a verdict"
    return [
        f"Mean JCT of {of} / {shown.get(initial, initial)}: {interval(versus)}, {verdict}.",
        "",
        f"Mean JCT of {of} / that of each policy, 95 % interval, and windows in which it is lower:",
        *(
            f"{shown.get(name, name):<{width}}  {interval(each)}  {each.wins:>3} of {windows}  {words(each)}".rstrip()
            for name, each in found.items()
        ),
    ]


def how_actions_are_chosen(summaries: Mapping[str, pd.DataFrame], count: int, training: Training) -> str:
    """Return a line on how the agents of a table choose their actions."""
    of = "the agent" if count == 1 else "the agents"
    if not isinstance(training, PlainTraining):
        return f"Actions of {of}: the most likely ones."
    both = f"{of} and of {UNTRAINED} alike" if UNTRAINED in summaries else of
    return f"Actions of {both}: sampled, as in training; the random numbers depend on the window alone."


def comparisons(summaries: Mapping[str, pd.DataFrame], count: int) -> dict[str, Comparison]:
    """Return the comparison of `count` agents with each other policy, the constant-action policies first."""
    ours, constant = (
        [summaries[each] for each in numbered(name, count) if each in summaries]
        for name in ("agent", MEAN_ACTION)
    )
    own = {*numbered("agent", count), *numbered(MEAN_ACTION, count)}
    found = {MEAN_ACTION: compare_agents(ours, constant)} if len(constant) == count else {}
    return found | {
        name: compare_agents(ours, [it] * count) for name, it in summaries.items() if name not in own
    }


def interval(found: Comparison) -> str:
    """Return a ratio with its interval."""
    return f"{found.ratio:.4f}" + (f" ({found.low:.4f}-{found.high:.4f})" if found.windows > 1 else "")


def labels(training: Training) -> dict[str, str]:
    """Return the rows whose names need an explanation, with it."""
    start = reference_of(training)
    initial = {UNION: start, CONSTANTS: CONSTANTS}.get(init_from(training), INITIAL)
    notes: dict[str, list[str]] = {
        MEAN_ACTION: ["its mean action"],
        start: [],
        WITHOUT_HISTORY: ["union"],
        INITIAL: [],
        UNTRAINED: ["other random weights than the agent began with"]
        if isinstance(training, PlainTraining)
        else [],
        CONSTANTS: [],
    }
    if not isinstance(training, PlainTraining):
        notes[initial].append("its initial policy")
    if isinstance(training, SteerTraining) and training.extra_workloads:
        notes[CONSTANTS].append("searched for all workloads together")
    return {name: f"{name} ({', '.join(words)})" for name, words in notes.items() if words}


def words(found: Comparison) -> str:
    """Return a comparison in one word; empty for too few windows."""
    if found.windows < FULL_WINDOWS:
        return ""
    if found.high < 1:
        return "better"
    return "worse" if found.low > 1 else "no significant difference"


def numbered(name: str, count: int) -> list[str]:
    """Return `count` names, numbered where there are several."""
    return [f"{name}_{number}" for number in range(count)] if count > 1 else [name]
