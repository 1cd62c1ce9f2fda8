"""Train a scheduling agent by reinforcement learning; score it on unseen windows."""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import baselines
from agents import check_installed
from agents.training import Training, usual
from evaluation import choices, command, run_folder
from evaluation.command import progress
from simulator.choice import check, choice
from workloads import Scenario, Split

if TYPE_CHECKING:
    import pandas as pd

    from agents.callbacks import Validated
    from evaluation.comparison import Comparison
    from simulator.policy import Policy

EXAMPLES = """Examples:
  python train_agent.py --trace philly               steer, with every lever
  python train_agent.py --workload busy --seeds 5    five agents, told of as one
  python train_agent.py --workload mixed --also busy quick    one agent for all
  python train_agent.py --workload mixed --action moves    each move, as look-ahead teaches
  python train_agent.py --action pick --physics exclusive    which job is next
--list workloads or traces: what there is; --version"""
START, HELD, CONSTANTS, UNTAUGHT, OWN, BEGAN = "start", "held", "constants", "untaught", "own", "began"
BESIDE = ("fifo", "sjf", "srtf", "las", "xion", "xion_threshold")
"""What the trained agent stands beside, each with default settings. Before them come what it does on average, always
(`held`), what it began as, or `union` where it began elsewhere (`start`), the agent at which it began, or what that
does on average (`began`), where a history is named `union` without it (`untaught`), and the best constants that are
known for the workload (`constants`)."""
UNTAUGHT_TOLD = "the rule without what finished jobs teach"
PRESETS = choices.WORKLOAD | {"action": choices.Preset("training", usual)}


@dataclass(frozen=True)
class Run:
    """What to learn on, how, and what to score."""

    scenario: Scenario = field(default_factory=Scenario)
    """What is simulated."""
    training: Training = field(default_factory=Training)
    """How to learn."""
    seeds: int = choice(1, least=1)
    """Agents to train, each from a seed of its own; the table has all of them, and what they are together."""
    test_windows: int = choice(100, least=1)
    """Windows for the table at the end; nothing is learned on them or chosen by them."""
    processes: int | None = choice(None, least=1)
    """Processors that share the work, all of them if not given; the results are the same."""
    workload: str | None = None
    """A named workload of workloads/ (quick, mixed, two_types ...); other flags override what it chooses."""
    track: Literal["wandb", "mlflow"] | None = None
    """Where curves go besides TensorBoard, each an extra to install: wandb, which stays in the run folder unless
    WANDB_MODE is online, or mlflow, at MLFLOW_TRACKING_URI."""
    out: str | None = None
    """Folder for the agent, its checkpoints, curves, choices and table; runs/train-<time>-<hash>."""
    config: str | None = None
    """Run folder, or JSON file, to take these choices from; flags override it."""

    def __post_init__(self) -> None:
        """Refuse what cannot be; ChoiceError names each field."""
        check(self)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code, 2 if what was asked for cannot be."""
    return command.run("train_agent.py", work, args)


def work(args: Sequence[str]) -> None:
    """Learn and score as the arguments ask; ValueError says why it cannot be."""
    wanted = read_choices(args)
    check_installed(wanted.track)
    wanted = as_far_as_it_goes(learnable(wanted))
    folder = run_folder.open_run_folder("train", wanted, wanted.out)
    print(f"Watch it learn: tensorboard --logdir {folder}")
    try:
        with run_folder.noting(folder):
            score(wanted, [train(wanted, number, folder) for number in range(wanted.seeds)], folder)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; the best agent so far is in {folder}") from None


def read_choices(args: Sequence[str]) -> Run:
    """Return the choices in the flags and in the file they name."""
    wanted = choices.read(
        Run, args, command="train_agent.py", about=f"{__doc__}\n\n{EXAMPLES}", presets=PRESETS
    )
    if wanted.scenario.whole:
        raise ValueError("--whole leaves nothing to test on: an agent learns on windows of a trace")
    return wanted


def learnable(wanted: Run) -> Run:
    """Return the choices with the whole path of an agent to begin at; ValueError for what cannot be learned."""
    from agents.learn import learner_of

    learner = learner_of(wanted.scenario, wanted.training)
    return replace(wanted, training=replace(wanted.training, begin=learner.training.begin))


def as_far_as_it_goes(wanted: Run) -> Run:
    """Return the choices with no more windows than the trace has of each split; say so where they are fewer."""
    asked: dict[Split, int] = {
        "train": wanted.training.windows,
        "validation": wanted.training.validation_windows,
        "test": wanted.test_windows,
    }
    found = {split: available(wanted.scenario, split, count) for split, count in asked.items()}
    for split, count in found.items():
        if count < asked[split]:
            print(f"Note: the {split} part of the trace has {count} windows, not {asked[split]:,}.")
    training = replace(wanted.training, windows=found["train"], validation_windows=found["validation"])
    return replace(wanted, training=training, test_windows=found["test"])


def available(scenario: Scenario, split: Split, wanted: int) -> int:
    """Return how many windows of a split there are, at most so many; ValueError if there is none."""
    from envs.task import shared_windows
    from workloads import up_to

    try:
        return len(shared_windows(scenario, split, wanted))
    except ValueError:
        return len(up_to(scenario, split, wanted))


class Trained(NamedTuple):
    """An agent: its folder, and what does always what it does on average, where there is such a policy."""

    folder: Path
    policy: "Policy"
    held: "Policy | None"


def train(wanted: Run, number: int, folder: Path) -> Trained:
    """Learn with a progress bar and a line a validation; return the best agent of this number."""
    from agents import load_policy
    from agents.callbacks import pace
    from agents.learn import learn, learner_of
    from agents.learner import seed_of

    training = replace(wanted.training, learning_seed=seed_of(wanted.scenario, wanted.training) + number)
    own = folder / f"seed-{number}" if wanted.seeds > 1 else folder
    if wanted.seeds > 1:
        print(f"Agent {number + 1} of {wanted.seeds}")
    bests: list[Validated] = []
    times: list[tuple[float, Validated]] = []

    def note(validated: "Validated") -> None:
        times.append((time.perf_counter(), validated))
        tell(validated, held_against(training))
        if validated.best:
            bests.append(validated)

    with progress("learning", training.steps, before="drawing windows and playing the heuristics") as stepped:
        how: dict[str, Any] = {"threads": processors(wanted), "track": wanted.track}
        best = learn(wanted.scenario, training, own, **how, stepped=stepped, validated=note)
    print(pace(times, held_against(training)))
    held = learner_of(wanted.scenario, training).held(bests[-1].greedy.numbers)
    return Trained(best, load_policy(best), held)


def processors(wanted: Run) -> int:
    """Return how many processors share the work."""
    return wanted.processes or len(os.sched_getaffinity(0))


def tell(validated: "Validated", start: str) -> None:
    """Print a validation, in which agents are held against `start`."""
    greedy, sampled = validated.greedy.against, validated.sampled.against
    limits = (
        f"{greedy[START].low:.4f}-{greedy[START].high:.4f}" if greedy[START].windows > 1 else "one window"
    )
    others = ", ".join(f"{name} {found.ratio:.3f}" for name, found in greedy.items() if name != START)
    best = "(best)" if validated.best else ""
    print(
        f"step {validated.step:>9,}: mean JCT / {start} {greedy[START].ratio:.4f} "
        f"({limits}; {sampled[START].ratio:.4f} sampled)",
        f"{best:>10} / {others}",
        sep="\n",
        flush=True,
    )
    if validated.greedy.on:
        print(f"{'':>16} on {validated.greedy.in_short}", flush=True)


def score(wanted: Run, agents: Sequence[Trained], folder: Path) -> None:
    """Print and keep the table of the agents and the heuristics on test windows, one for each workload."""
    from agents.learner import scenarios_of
    from evaluation import report

    own = wanted.workload or choices.workload_like(wanted.scenario)
    named = scenarios_of(wanted.scenario, wanted.training, own or OWN)
    policies, summaries = in_table(wanted, agents, tuple(named)), []
    for name, scenario in named.items():
        if several := len(named) > 1:
            print(f"\nOn {name}:")
        test = replace(wanted, scenario=scenario)
        summaries.append(score_on(test, policies, len(agents), folder / name if several else folder))
    if len(named) > 1:
        print(f"\nOn all {len(named)} workloads together:")
        out = report.console(sys.stdout)
        for line in verdicts(together(summaries), len(agents), wanted.training):
            out.print(line)
    print(f"See how it learned: tensorboard --logdir {folder}")
    print(f"Score the agent again: python evaluate.py --policy {agents[0].folder}")


def together(summaries: "Sequence[dict[str, pd.DataFrame]]") -> "dict[str, pd.DataFrame]":
    """Return the summaries of several workloads as one, without what is not in all of them."""
    import pandas as pd

    from agents.validation import BLOCK

    return {
        name: pd.concat(
            [each[name].assign(window=each[name]["window"] + k * BLOCK) for k, each in enumerate(summaries)]
        )
        for name in summaries[0]
        if all(name in each for each in summaries)
    }


def score_on(
    wanted: Run, policies: "dict[str, Policy | type]", count: int, folder: Path
) -> "dict[str, pd.DataFrame]":
    """Print and keep the table of one workload, with so many agents in it; return the summaries."""
    from functools import partial

    from envs.task import shared_windows
    from evaluation import footnotes, report

    folder.mkdir(exist_ok=True)
    workloads = shared_windows(wanted.scenario, "test", wanted.test_windows)
    makers = {name: partial(baselines.make, policy) for name, policy in policies.items()}
    with progress("simulating", len(makers) * len(workloads)) as moved:
        results = report.simulate(
            makers, workloads, processes=processors(wanted), done=lambda name, table: moved(1)
        )
    bounds = report.bounds(workloads)
    summaries = report.score(results, workloads, bounds)
    run_folder.write_run(folder, results, report.document(summaries, bounds, START))
    out = report.console(sys.stdout)
    for line in footnotes.heading(workloads):
        out.print(line)
    out.print(report.table(summaries, bounds, START))
    for line in footnotes.footnotes(workloads, summaries, policies, START, bounds):
        out.print(line)
    for line in verdicts(summaries, count, wanted.training):
        out.print(line)
    return summaries


def in_table(
    wanted: Run, agents: "Sequence[Trained]", learned_on: Sequence[str]
) -> "dict[str, Policy | type]":
    """Return what stands in the table, by name: the agents first."""
    from agents.learn import learner_of
    from agents.learned import policy_of
    from envs.steer import TRUSTS

    found: dict[str, Policy | type] = dict(
        zip(numbered("agent", len(agents)), [each.policy for each in agents], strict=True)
    )
    for name, each in zip(numbered(HELD, len(agents)), agents, strict=True):
        if each.held:
            found[name] = each.held
    learner = learner_of(wanted.scenario, wanted.training)
    found[START] = learner.start
    if wanted.training.begin not in ("union", CONSTANTS):
        found[BEGAN] = policy_of(learner.begun.agent) if learner.begun.agent else learner.begun.rule
    if wanted.training.action == "steer" and wanted.scenario.history:
        found[UNTAUGHT] = baselines.vary(baselines.load("union"), **dict.fromkeys(TRUSTS, 0.0))
    known = baselines.best_constants(learned_on, taught=wanted.scenario.taught)
    if known and (wanted.training.action == "steer" or wanted.training.begin == CONSTANTS):
        found[CONSTANTS] = baselines.load(known)
    return found | {name: baselines.load(name) for name in BESIDE}


def numbered(name: str, count: int) -> list[str]:
    """Return so many names, with a number each if they are several."""
    return [f"{name}_{number}" for number in range(count)] if count > 1 else [name]


def held_against(training: Training) -> str:
    """Name what agents are held against first: where they began, or `union` if that is elsewhere."""
    return "where it began" if training.begin == "union" else "union"


def verdicts(summaries: "dict[str, pd.DataFrame]", count: int, training: Training) -> list[str]:
    """Say of every other policy whether the agents, so many, are better, as far as these windows tell."""
    from evaluation.comparison import compare_agents
    from evaluation.footnotes import FULL_WINDOWS

    of = "the agent" if count == 1 else f"the {count} agents"
    ours, held = (
        [summaries[each] for each in numbered(name, count) if each in summaries] for name in ("agent", HELD)
    )
    own = {*numbered("agent", count), *numbered(HELD, count)}
    start = held_against(training)
    told = {START: start, UNTAUGHT: UNTAUGHT_TOLD, BEGAN: "where it began"}
    found = {"what it does on average, held": compare_agents(ours, held)} if held else {}
    for name, other in summaries.items():
        if name not in own:
            found[told.get(name, name)] = compare_agents(ours, [other] * count)
    lines = [f"Mean JCT of {of} / that of each, paired by window, with its 95 % interval:"]
    lines += [
        f"  {each.ratio:.4f} ({each.low:.4f}-{each.high:.4f}), lower in {each.wins} of {each.windows} windows: "
        f"{words(each)} {which}"
        for which, each in found.items()
    ]
    name = {"union": start, CONSTANTS: CONSTANTS}.get(training.begin, "where it began")
    began = found.get(name, found[start])
    if began.high >= 1 or began.windows < FULL_WINDOWS:
        lines.append(f"As far as these windows tell, {of} learned nothing by which jobs end earlier.")
    return lines


def words(found: "Comparison") -> str:
    """Put a comparison into words, as far as its windows carry."""
    from evaluation.footnotes import FULL_WINDOWS

    if found.windows < FULL_WINDOWS:
        return "too few windows to tell it from"
    if found.high < 1:
        return "better than"
    return "worse than" if found.low > 1 else "not distinguishable from"


if __name__ == "__main__":
    sys.exit(main())
