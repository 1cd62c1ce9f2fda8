"""Train a scheduling agent by reinforcement learning; score it on unseen windows."""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if not __package__:  # run as a script, where the package may not be installed
    import _checkout  # noqa: F401

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import check_installed
from gpu_cluster_gym.agents.training import Training, usual
from gpu_cluster_gym.evaluation import choices, command, provenance, run_folder
from gpu_cluster_gym.evaluation.command import progress
from gpu_cluster_gym.simulator.choice import check, choice
from gpu_cluster_gym.simulator.errors import NeverEndsError
from gpu_cluster_gym.simulator.old_names import LEARNED_BEFORE as OF_A_RUN
from gpu_cluster_gym.workloads import Scenario, Split

if TYPE_CHECKING:
    import pandas as pd

    from gpu_cluster_gym.agents.callbacks import Validated
    from gpu_cluster_gym.agents.table import Trained
    from gpu_cluster_gym.simulator.policy import Policy

EXAMPLES = """Examples:
  python train_agent.py --trace philly               steer, with every lever
  python train_agent.py --workload busy --seeds 5    five agents, told of as one
  python train_agent.py --workload mixed --also busy quick    one agent for all
  python train_agent.py --workload mixed --action moves    each move, as look-ahead teaches
  python train_agent.py --action plain --physics exclusive   which job is next
--list workloads or traces: what there is; --version"""
OWN = "own"
ACTION = choices.Preset("training", usual, OF_A_RUN, lambda training: training.action, ("learning_seed",))
PRESETS = choices.WORKLOAD | {"action": ACTION}


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
    except NeverEndsError as error:
        raise ValueError(f"{error}; what was learned so far is in {folder}") from error
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
    from gpu_cluster_gym.agents.learn import learner_of

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
    from gpu_cluster_gym.envs.windows import shared_windows
    from gpu_cluster_gym.workloads import up_to

    try:
        return len(shared_windows(scenario, split, wanted))
    except ValueError:
        return len(up_to(scenario, split, wanted))


def train(wanted: Run, number: int, folder: Path) -> "Trained":
    """Learn with a progress bar and a line a validation; return the best agent of this number."""
    from gpu_cluster_gym.agents import load_policy
    from gpu_cluster_gym.agents.callbacks import pace
    from gpu_cluster_gym.agents.learn import learn, learner_of
    from gpu_cluster_gym.agents.learner import seed_of
    from gpu_cluster_gym.agents.table import Trained, compared_with

    training = replace(wanted.training, learning_seed=seed_of(wanted.scenario, wanted.training) + number)
    own = folder / f"seed-{number}" if wanted.seeds > 1 else folder
    if wanted.seeds > 1:
        print(f"Agent {number + 1} of {wanted.seeds}")
    bests: list[Validated] = []
    times: list[tuple[float, Validated]] = []

    def note(validated: "Validated") -> None:
        times.append((time.perf_counter(), validated))
        tell(validated, compared_with(training))
        if validated.best:
            bests.append(validated)

    with progress("learning", training.steps, before="drawing windows and playing the heuristics") as stepped:
        how: dict[str, Any] = {"threads": processors(wanted), "track": wanted.track}
        best = learn(wanted.scenario, training, own, **how, stepped=stepped, validated=note)
    print(pace(times, compared_with(training)))
    if not bests:
        raise ValueError(
            "no validation came to an end, so there is no agent to keep: jobs never end under any"
        )
    held = learner_of(wanted.scenario, training).held(bests[-1].greedy.numbers)
    return Trained(best, load_policy(best), held)


def processors(wanted: Run) -> int:
    """Return how many processors share the work."""
    return wanted.processes or len(os.sched_getaffinity(0))


def tell(validated: "Validated", start: str) -> None:
    """Print a validation, in which agents are compared with `start`."""
    from gpu_cluster_gym.agents.table import START

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


def score(wanted: Run, agents: "Sequence[Trained]", folder: Path) -> None:
    """Print and keep the table of the agents and the heuristics on test windows, one for each workload."""
    from gpu_cluster_gym.agents.learner import scenarios_of
    from gpu_cluster_gym.agents.table import in_table, verdicts
    from gpu_cluster_gym.evaluation import report

    own = wanted.workload or choices.workload_like(wanted.scenario) or OWN
    named = scenarios_of(wanted.scenario, wanted.training, OWN if own in wanted.training.also else own)
    policies, summaries = in_table(wanted.scenario, wanted.training, agents, tuple(named)), []
    for name, scenario in named.items():
        if several := len(named) > 1:
            print(f"\nOn {name}:")
        test = replace(wanted, scenario=scenario)
        summaries.append(score_on(test, policies, len(agents), folder / name if several else folder))
    if len(named) > 1:
        print(f"\nOn all {len(named)} workloads together:")
        report.console(sys.stdout).print(
            *verdicts(together(summaries), len(agents), wanted.training), sep="\n"
        )
    print(f"See how it learned: tensorboard --logdir {folder}")
    print(f"Score the agent again: python evaluate.py --policy {agents[0].folder}")


def together(summaries: "Sequence[dict[str, pd.DataFrame]]") -> "dict[str, pd.DataFrame]":
    """Return the summaries of several workloads as one, without what is not in all of them."""
    import pandas as pd

    from gpu_cluster_gym.agents.validation import BLOCK

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

    from gpu_cluster_gym.agents.table import START, those_that_end, verdicts
    from gpu_cluster_gym.envs.windows import shared_windows
    from gpu_cluster_gym.evaluation import report, table_notes

    folder.mkdir(exist_ok=True)
    workloads = shared_windows(wanted.scenario, "test", wanted.test_windows)
    makers = {name: partial(baselines.make, policy) for name, policy in policies.items()}
    with progress("simulating", len(makers) * len(workloads)) as moved:
        how: dict[str, Any] = {"processes": processors(wanted), "done": lambda name, found: moved(1)}
        results, endless = those_that_end(makers, workloads, **how)
    bounds = report.bounds(workloads)
    summaries = report.score(results, workloads, bounds)
    reference = START if START in summaries else next(iter(summaries))
    run_folder.write_run(folder, results, report.document(summaries, bounds, reference))
    out, heading = report.console(sys.stdout), table_notes.heading(workloads)
    ended = {name: policies[name] for name in results}
    notes = [f"Left out: {name}, under which jobs never end: {why}." for name, why in endless.items()]
    notes += table_notes.footnotes(workloads, summaries, ended, reference, bounds)
    run_folder.write_json(folder / provenance.ABOUT, provenance.about(workloads, heading, notes))
    out.print("", *heading, "", report.table(summaries, bounds, reference), "", *notes, sep="\n")
    out.print(*verdicts(summaries, count, wanted.training), sep="\n")
    return summaries


if __name__ == "__main__":
    sys.exit(main())
