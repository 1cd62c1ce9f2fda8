"""Policies by the names that a command line gives them: of `baselines`, searches and agents, and what looks ahead."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import load_policy, shipped_policy
from gpu_cluster_gym.agents.pretrained import shipped_for
from gpu_cluster_gym.evaluation import run_folder
from gpu_cluster_gym.evaluation.choices import workload_like
from gpu_cluster_gym.traces import unknown
from gpu_cluster_gym.workloads import Scenario

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.policy import Policy

ALL, PPO = "all", "ppo"
AHEAD = "lookahead:"
"""Before the name of a policy that is, or steers, the rule over moves: the same looking ahead."""
OTHERS = (ALL, "tuned", "tuned:NAME", "constants", PPO, f"{AHEAD}NAME", "package.module:attribute")
BESIDE = ("fifo", "sjf", "srtf", "las")
"""What every policy stands beside, unless one episode is all that is asked for."""
Table = dict[str, "Policy | type"]


def in_table(names: Sequence[str], scenario: Scenario, workload: str | None = None) -> tuple[Table, str]:
    """Return the policies of a table by what they are called there, and the one that the others are compared with.

    One by itself stands beside what it was made of and `BESIDE`. The rest is as for `each_once`.
    """
    found = each_once(names, scenario, workload)
    if ALL in names:
        return found, BESIDE[0]
    if len(names) > 1 or scenario.full_trace:
        return found, next(iter(found))
    others = (*made_of(names[0], scenario, workload), *BESIDE)
    beside = dict(load(name, scenario, workload) for name in others)
    return found | {name: other for name, other in beside.items() if name not in found}, BESIDE[0]


def each_once(names: Sequence[str], scenario: Scenario, workload: str | None = None) -> Table:
    """Return the policies that are asked for, `all` among them, by what they are called in a table.

    workload: the one that is named beside the scenario. ValueError for one that is asked for twice, or that there is
    not.
    """
    found: Table = {}
    asked = [name for name in names if name != ALL]
    if twice := [name for number, name in enumerate(asked) if name in asked[:number]]:
        raise ValueError(f"--policy names {twice[0]} twice: once is enough")
    everybody = dict.fromkeys((*baselines.quick_names(), *asked)) if ALL in names else asked
    for policy in everybody:
        name, made = load(policy, scenario, workload)
        taken = {run_folder.folder_name(other) for other in found}
        name = policy if run_folder.folder_name(name) in taken else name
        if name in found:
            raise ValueError(f"--policy {policy} is in the table already: once is enough")
        found[name] = made
    return found


def notes(names: Sequence[str], scenario: Scenario) -> Iterator[str]:
    """Yield what is to be said of policies: what `all` leaves out, which agent `ppo` is, and what has not ended yet."""
    if ALL in names and (left_out := sorted({*baselines.names()} - {*baselines.quick_names()} - {*names})):
        yield f"Note: all leaves out what takes minutes a window; name it besides: {', '.join(left_out)}."
    for name in dict.fromkeys(underneath(name) or name for name in names):
        if name == PPO:
            yield shipped_for(workload_like(scenario)).told
        elif is_folder(name) and (said := unfinished(Path(name).resolve())):
            yield f"Note: {said}; what is here is the best so far."


def unfinished(folder: Path) -> str | None:
    """Return a sentence on the run that a folder is, or that it is of, where that is not known to have finished."""
    own = run_folder.run_of(run_folder.agent_folder(folder))
    return next(filter(None, map(run_folder.unfinished, (folder, own, own.parent))), None)


def load(policy: str, scenario: Scenario, workload: str | None = None) -> "tuple[str, Policy | type]":
    """Return what to call a policy in a table, and the policy, by its name, folder or `module:attribute`.

    ValueError if there is no such policy.
    """
    if on := underneath(policy):
        name, found = load(on, scenario, workload)
        return f"{AHEAD}{name}", looking_ahead(on, found)
    if of_search := searched(policy, scenario, workload):
        return of_search.label, baselines.load(of_search)
    if policy == PPO:
        return PPO, shipped_policy(workload_like(scenario))[0]
    if is_folder(policy):
        return run_folder.agent_name(folder_of(policy)), load_policy(folder_of(policy))
    known = baselines.names()
    if ":" not in policy and policy not in known:
        raise ValueError(unknown("policy", policy, (*known, *OTHERS, "the folder of an agent")))
    look_in_this_folder()
    return policy, baselines.load(policy)


def is_folder(policy: str) -> bool:
    """Tell whether a name is that of a folder, and not of a policy here."""
    return policy not in baselines.names() and Path(policy).is_dir()


def folder_of(policy: str) -> Path:
    """Return the folder of the agent that a name stands for; ValueError where it has none."""
    return run_folder.agent_folder(Path(policy).resolve())


def looking_ahead(name: str, policy: "Policy | type") -> "Policy":
    """Return `lookahead` on top of a policy; ValueError where that is no rule over moves, and steers none."""
    from gpu_cluster_gym.simulator.look_ahead_policy import LookAhead
    from gpu_cluster_gym.simulator.rule_policy import Rule, Steered

    if not isinstance(policy, Rule | Steered):
        raise ValueError(
            f"--policy {AHEAD}{name}: what looks ahead goes on by union or by what steers it (constants, {PPO}, the "
            f"folder of an agent that steers), and what {name} stands for here is neither"
        )
    return LookAhead(policy)


def underneath(policy: str) -> str | None:
    """Return the name of what a policy looks ahead on, None for one that is not named so."""
    return policy.removeprefix(AHEAD) if policy.startswith(AHEAD) else None


def made_of(policy: str, scenario: Scenario, workload: str | None = None) -> list[str]:
    """Return the names of the policies that one was made of: on which it looks ahead, and which was tuned."""
    on, of_search = underneath(policy), searched(policy, scenario, workload)
    return [*([on] if on else []), *([of_search.policy] if of_search else [])]


def searched(policy: str, scenario: Scenario, workload: str | None = None) -> "baselines.Tuned | None":
    """Return what a search found for the workload named, or for the one that this scenario is, if that is asked for.

    What looks ahead on it is made of it too.
    """
    on = underneath(policy) or policy
    kind, _, name = on.partition(":")
    if kind != "tuned" and on != "constants":
        return None
    workload = workload or workload_like(scenario)
    if not workload:
        raise ValueError(f"--policy {kind}: policies are tuned for workloads; name one with --workload")
    if kind == "tuned":
        return baselines.tuned(workload, name or None)
    return baselines.constants(workload, with_history=scenario.with_history)


def look_in_this_folder() -> None:
    """Let modules of a user's own be found, which lie in their folder."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
