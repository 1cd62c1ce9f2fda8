"""The table at the end of training: what stands beside the agents, and who is better, as far as its windows tell."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents.learn import learner_of
from gpu_cluster_gym.agents.learned import policy_of
from gpu_cluster_gym.agents.training import Training
from gpu_cluster_gym.envs.steer import TRUSTS
from gpu_cluster_gym.evaluation import runner
from gpu_cluster_gym.evaluation.comparison import Comparison, compare_agents
from gpu_cluster_gym.evaluation.runner import Maker
from gpu_cluster_gym.evaluation.table_notes import FULL_WINDOWS
from gpu_cluster_gym.simulator.errors import StalledEpisodeError
from gpu_cluster_gym.simulator.policy import Policy
from gpu_cluster_gym.workloads import Scenario, Workload

START, HELD, CONSTANTS, UNTAUGHT, BEGAN = "start", "held", "constants", "untaught", "began"
"""Rows of the table: the rule that agents are compared with, what always does what an agent does on average, the best
constants that are known, the rule without what finished jobs teach, and the agent at which another began."""
BESIDE = ("fifo", "sjf", "srtf", "las", "xion", "xion_threshold")
"""What stands in it always, with default settings."""


class Trained(NamedTuple):
    """An agent: its folder, and what does always what it does on average, where there is such a policy."""

    folder: Path
    policy: Policy
    held: Policy | None


def in_table(
    scenario: Scenario, training: Training, agents: Sequence[Trained], learned_on: Sequence[str]
) -> dict[str, Policy | type]:
    """Return what stands in the table, by name, the agents first; learned_on: names of workloads."""
    found: dict[str, Policy | type] = dict(
        zip(numbered("agent", len(agents)), [each.policy for each in agents], strict=True)
    )
    for name, each in zip(numbered(HELD, len(agents)), agents, strict=True):
        if each.held:
            found[name] = each.held
    learner = learner_of(scenario, training)
    found[START] = learner.start
    if training.begin not in ("union", CONSTANTS):
        found[BEGAN] = policy_of(learner.begun.agent) if learner.begun.agent else learner.begun.rule
    if training.action == "steer" and scenario.run_time_predictor:
        found[UNTAUGHT] = baselines.vary(baselines.load("union"), **dict.fromkeys(TRUSTS, 0.0))
    known = baselines.best_constants(learned_on, with_history=scenario.with_history)
    if known and (training.action == "steer" or training.begin == CONSTANTS):
        found[CONSTANTS] = baselines.load(known)
    return found | {name: baselines.load(name) for name in BESIDE}


def those_that_end(
    makers: Mapping[str, Maker], workloads: Sequence[Workload], **how: Any
) -> tuple[dict[str, pd.DataFrame], dict[str, str]]:
    """Return the results of policies under which all jobs end, and of the others why they do not.

    StalledEpisodeError where they do under none. how: as for `runner.run_all`.
    """
    tried = runner.run_all(one_or_why, makers, workloads, **how)
    why = {name: next((each for each in found if isinstance(each, str)), "") for name, found in tried.items()}
    if all(why.values()):
        raise StalledEpisodeError(f"jobs never end under any policy: {next(iter(why.values()))}")
    ended = {name: pd.concat(found, ignore_index=True) for name, found in tried.items() if not why[name]}
    return ended, {name: said for name, said in why.items() if said}


def one_or_why(make: Maker, workload: Workload, *, oracle: bool = False) -> pd.DataFrame | str:
    """Return the results table of a new policy on a workload, or why jobs never end under it."""
    try:
        return runner.run_window(make, workload, oracle=oracle)
    except StalledEpisodeError as error:
        return str(error)


def compared_with(training: Training) -> str:
    """Name what agents are compared with first: where they began, or `union` if that is elsewhere."""
    return "where it began" if training.begin == "union" else "union"


def verdicts(summaries: Mapping[str, pd.DataFrame], count: int, training: Training) -> list[str]:
    """Say of every other policy whether the agents, so many, are better, as far as these windows tell."""
    of = "the agent" if count == 1 else f"the {count} agents"
    ours, held = (
        [summaries[each] for each in numbered(name, count) if each in summaries] for name in ("agent", HELD)
    )
    if lacking := [name for name in (*numbered("agent", count), START) if name not in summaries]:
        return ["", f"No verdict on {of}: not in the table is {', '.join(lacking)}."]
    own = {*numbered("agent", count), *numbered(HELD, count)}
    found = {HELD: compare_agents(ours, held)} if len(held) == count else {}
    found |= {name: compare_agents(ours, [it] * count) for name, it in summaries.items() if name not in own}
    told, windows = in_words(training), next(iter(found.values())).windows
    wide = max(len(told.get(name, name)) for name in found)
    lines = [
        "",
        f"Mean JCT of {of} / that of each, its 95 % interval, and windows in which it is lower",
    ]
    lines += [
        f"{told.get(name, name):<{wide}}  {each.ratio:.4f} ({each.low:.4f}-{each.high:.4f})  "
        f"{each.wins:>3} of {each.windows}  {words(each)}".rstrip()
        for name, each in found.items()
    ]
    if windows < FULL_WINDOWS:
        lines.append(
            f"Over fewer than {FULL_WINDOWS} windows intervals are too narrow to tell policies apart."
        )
    began = found.get({"union": START, CONSTANTS: CONSTANTS}.get(training.begin, BEGAN), found[START])
    if began.high >= 1 or windows < FULL_WINDOWS:
        lines.append(f"As far as these windows tell, {of} learned nothing by which jobs end earlier.")
    return lines


def in_words(training: Training) -> dict[str, str]:
    """Say what the rows are whose names do not tell."""
    rule = "union" if training.action in ("steer", "moves") else "the base policy"
    began = {"union": START, CONSTANTS: CONSTANTS}.get(training.begin, BEGAN)
    said = {HELD: ["its mean action"], START: [rule], UNTAUGHT: ["union"], BEGAN: [], CONSTANTS: []}
    said[began].append("where it began")
    if training.also:
        said[CONSTANTS].append("searched for all at once")
    return {name: f"{name} ({', '.join(words)})" for name, words in said.items() if words}


def words(found: Comparison) -> str:
    """Put a comparison into a word, as far as its windows carry; none where they are too few."""
    if found.windows < FULL_WINDOWS:
        return ""
    if found.high < 1:
        return "better"
    return "worse" if found.low > 1 else "not told apart"


def numbered(name: str, count: int) -> list[str]:
    """Return so many names, with a number each if they are several."""
    return [f"{name}_{number}" for number in range(count)] if count > 1 else [name]
