"""Policies by their names on the command line: baselines, results of searches, agents, and look-ahead."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import load_policy, shipped_policy
from gpu_cluster_gym.agents.pretrained import PLAIN, shipped_for, shipped_plain
from gpu_cluster_gym.envs.floors import FLOORS
from gpu_cluster_gym.evaluation import run_folder
from gpu_cluster_gym.evaluation.choices import workload_like
from gpu_cluster_gym.traces import unknown
from gpu_cluster_gym.workloads import Scenario

if TYPE_CHECKING:
    from gpu_cluster_gym.simulator.policy import Policy

ALL, PPO = "all", "ppo"
AHEAD = "lookahead:"
"""Prefix of the name of a policy on which look-ahead is based."""
OTHERS = (
    *FLOORS,
    ALL,
    "tuned",
    "tuned:NAME",
    "constants",
    PPO,
    PLAIN,
    f"{AHEAD}NAME",
    "package.module:attribute",
)
BASELINES = ("fifo", "fifo_strict", "easy", "sjf", "srtf", "las")
"""Policies that a single policy is compared with, except on a single episode; the first is the yardstick."""
Table = dict[str, "Policy | type"]


def in_table(
    names: Sequence[str], scenario: Scenario, workload: str | None = None, *, floors: bool = True
) -> tuple[Table, str]:
    """Return the policies of a table by name, and the name of the reference.

    A single policy is accompanied by the policies it is based on and by `BASELINES`; for several, see `each_once`.
    floors: whether `FLOORS` are added, except on a single episode, which may have a hundred thousand jobs.
    """
    found = each_once(names, scenario, workload)
    alone = len(names) == 1 and ALL not in names and not scenario.full_trace
    others = (*based_on(names[0], scenario, workload), *BASELINES) if alone else ()
    others += tuple(FLOORS) if floors and not scenario.full_trace else ()
    compared = dict(load(name, scenario, workload) for name in others)
    reference = BASELINES[0] if alone or ALL in names else next(iter(found))
    return found | {name: other for name, other in compared.items() if name not in found}, reference


def each_once(names: Sequence[str], scenario: Scenario, workload: str | None = None) -> Table:
    """Return the named policies, including those of `all`, by name in a table.

    workload: the one named on the command line.
    Raise ValueError for a policy that is unknown or named twice.
    """
    found: Table = {}
    asked = [name for name in names if name != ALL]
    if twice := [name for number, name in enumerate(asked) if name in asked[:number]]:
        raise ValueError(f"--policy names {twice[0]} twice: name each policy once")
    expanded = dict.fromkeys((*baselines.quick_names(), *asked)) if ALL in names else asked
    for policy in expanded:
        name, made = load(policy, scenario, workload)
        taken = {run_folder.folder_name(other) for other in found}
        name = policy if run_folder.folder_name(name) in taken else name
        if name in found:
            raise ValueError(f"--policy {policy} is in the table already: name each policy once")
        found[name] = made
    return found


def notes(names: Sequence[str], scenario: Scenario) -> Iterator[str]:
    """Yield notes on the named policies: policies that `all` omits, pretrained agents, and unfinished runs."""
    if ALL in names and (left_out := sorted({*baselines.names()} - {*baselines.quick_names()} - {*names})):
        yield f"Note: all omits policies that take minutes per window: {', '.join(left_out)}."
    for name in dict.fromkeys(base_of(name) or name for name in names):
        if name == PPO:
            yield shipped_for(workload_like(scenario)).description
        elif name == PLAIN:
            yield shipped_plain().description
        elif is_folder(name) and (note := unfinished(Path(name).resolve())):
            yield f"Note: {note}; its best agent so far is used."


def unfinished(folder: Path) -> str | None:
    """Return a sentence about the run of an agent's folder if it is not known to have finished, else None."""
    own = run_folder.run_of(run_folder.agent_folder(folder))
    return next(filter(None, map(run_folder.unfinished, (folder, own, own.parent))), None)


def load(policy: str, scenario: Scenario, workload: str | None = None) -> "tuple[str, Policy | type]":
    """Return a policy and its name in a table, by its name, folder or `module:attribute`.

    Raise ValueError for an unknown policy.
    """
    if on := base_of(policy):
        name, found = load(on, scenario, workload)
        return f"{AHEAD}{name}", looking_ahead(on, found)
    if of_search := searched(policy, scenario, workload):
        return of_search.label, baselines.load(of_search)
    if policy == PPO:
        return PPO, shipped_policy(workload_like(scenario))[0]
    if policy == PLAIN:
        return PLAIN, load_policy(shipped_plain().folder)
    if is_folder(policy):
        return run_folder.agent_name(folder_of(policy)), load_policy(folder_of(policy))
    if policy in FLOORS:
        return policy, FLOORS[policy]
    check_name(policy)
    return policy, baselines.load(policy)


def check_name(policy: str) -> None:
    """Raise ValueError for a name that no policy has."""
    on, known = base_of(policy) or policy, baselines.names()
    if ":" in on or on in known or on in OTHERS or is_folder(on):
        return
    refuse_file(on)
    raise ValueError(unknown("policy", on, (*known, *OTHERS, "the folder of an agent")))


def refuse_file(policy: str) -> None:
    """Raise ValueError where a name is that of a file, or of a module in the current folder."""
    file = Path(policy) if Path(policy).is_file() else Path(policy.replace(".", "/") + ".py")
    if not file.is_file():
        return
    if file.suffix == ".py":
        module = file.stem if file.is_absolute() else ".".join(file.with_suffix("").parts)
        raise ValueError(f"policy {policy!r}: expected a module and its attribute, such as {module}:policy")
    raise ValueError(
        f"policy {policy!r}: a file is not a policy; write a module that loads it into an AgentPolicy, and name its "
        "attribute, such as mylab.agent:policy"
    )


def is_folder(policy: str) -> bool:
    """Return whether a name is a folder and not a baseline."""
    return policy not in baselines.names() and Path(policy).is_dir()


def folder_of(policy: str) -> Path:
    """Return the agent's folder of a run."""
    return run_folder.agent_folder(Path(policy).resolve())


def looking_ahead(name: str, policy: "Policy | type") -> "Policy":
    """Return look-ahead based on a policy; ValueError if it is neither a rule nor a steering agent."""
    from gpu_cluster_gym.simulator.look_ahead_policy import LookAhead
    from gpu_cluster_gym.simulator.rule_policy import Rule, Steered

    if not isinstance(policy, Rule | Steered):
        raise ValueError(
            f"--policy {AHEAD}{name}: look-ahead requires the base policy union, constants, {PPO} or the folder of a "
            f"steering agent; for this workload, {name} is neither a rule nor a steering agent"
        )
    return LookAhead(policy)


def base_of(policy: str) -> str | None:
    """Return the name of the policy on which look-ahead is based; None for other policies."""
    return policy.removeprefix(AHEAD) if policy.startswith(AHEAD) else None


def based_on(policy: str, scenario: Scenario, workload: str | None = None) -> list[str]:
    """Return the names of the policies that a policy is based on: look-ahead's base policy, and the one tuned."""
    on, of_search = base_of(policy), searched(policy, scenario, workload)
    return [*([on] if on else []), *([of_search.policy] if of_search else [])]


def searched(policy: str, scenario: Scenario, workload: str | None = None) -> "baselines.Tuned | None":
    """Return the search result that `tuned`, `tuned:NAME` or `constants` stands for, or None for another policy.

    The policy may be the base of look-ahead. The search was run on the workload named on the command line, or
    else on the one that equals the scenario.
    """
    on = base_of(policy) or policy
    kind, _, name = on.partition(":")
    if kind != "tuned" and on != "constants":
        return None
    workload = workload or workload_like(scenario)
    if not workload:
        raise ValueError(f"--policy {on} requires a workload with tuned settings: name it with --workload")
    if kind == "tuned":
        return baselines.tuned(workload, name or None)
    return baselines.constants(workload, with_history=scenario.with_history)
