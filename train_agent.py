"""Train a scheduling agent by reinforcement learning, and score it on windows that it has never seen."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import baselines
from agents import check_installed
from agents.training import Training
from evaluation import choices, command, run_folder
from evaluation.command import progress
from simulator.choice import check, choice
from workloads import Scenario, Split

if TYPE_CHECKING:
    import pandas as pd

    from agents.callbacks import Validated
    from evaluation.comparison import Comparison
    from simulator.policy import Policy

BESIDE = ("fifo", "sjf", "srtf", "las", "xion", "xion_threshold")
"""What the trained agent stands beside, each with default settings; its own base policy comes before them."""


@dataclass(frozen=True)
class Run:
    """What to learn on, how, and what to score."""

    scenario: Scenario = field(default_factory=Scenario)
    """What is simulated."""
    training: Training = field(default_factory=Training)
    """How to learn."""
    test_windows: int = choice(20, least=1)
    """Windows for the table at the end; nothing is learned on them or chosen by them."""
    workload: str | None = None
    """A named workload of workloads/ (quick, mixed, two_types ...); other flags override what it chooses."""
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
    check_installed()
    wanted = as_far_as_it_goes(wanted)
    folder = run_folder.open_run_folder("train", wanted, wanted.out)
    try:
        best = train(wanted, folder)
        score(wanted, best, folder)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; the best agent so far is in {folder}") from None


def read_choices(args: Sequence[str]) -> Run:
    """Return the choices in the flags and in the file they name."""
    wanted = choices.read(Run, args, command="train_agent.py", about=str(__doc__))
    if wanted.scenario.whole:
        raise ValueError("--whole leaves nothing to test on: an agent learns on windows of a trace")
    return wanted


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
    from itertools import islice

    from envs.task import shared_windows
    from workloads import MOST_TRIED, accepted

    try:
        return len(shared_windows(scenario, split, wanted))
    except ValueError:
        found = sum(1 for _ in islice(accepted(scenario, split, most=wanted * MOST_TRIED), wanted))
        if not found:
            raise
        return found


def train(wanted: Run, folder: Path) -> Path:
    """Learn with a progress bar and a line a validation; return the folder of the best agent."""
    from agents.learn import learn

    print(f"Watch it learn: tensorboard --logdir {folder}")
    with progress("learning", wanted.training.steps) as stepped:
        return learn(wanted.scenario, wanted.training, folder, stepped=stepped, validated=tell)


def tell(validated: "Validated") -> None:
    """Print a validation as one line."""
    greedy, sampled = validated.greedy.ratios, validated.sampled.ratios
    others = ", ".join(f"{name} {ratio:.3f}" for name, ratio in greedy.items() if name != "base_policy")
    best = "  <- best so far" if validated.best else ""
    print(
        f"step {validated.step:>9,}: mean JCT / base policy's {greedy['base_policy']:.4f} "
        f"({sampled['base_policy']:.4f} sampled); / {others}{best}",
        flush=True,
    )


def score(wanted: Run, best: Path, folder: Path) -> None:
    """Print and keep the table of the agent and the heuristics on test windows."""
    from functools import partial

    from agents import load_policy
    from envs.task import shared_windows
    from evaluation import footnotes, report

    policies: dict[str, Policy | type] = {
        "agent": load_policy(best),
        "base_policy": wanted.training.base_policy,
    }
    policies |= {name: baselines.load(name) for name in BESIDE}
    workloads = shared_windows(wanted.scenario, "test", wanted.test_windows)
    makers = {name: partial(baselines.make, policy) for name, policy in policies.items()}
    results = report.simulate(makers, workloads)
    bounds = report.bounds(workloads)
    summaries = report.score(results, workloads, bounds)
    run_folder.write_run(folder, results, report.document(summaries, bounds, "agent"))
    out = report.console(sys.stdout)
    for line in footnotes.heading(workloads):
        out.print(line)
    out.print(report.table(summaries, bounds, "agent"))
    for line in (*footnotes.footnotes(workloads, summaries, policies, "agent", bounds), *verdicts(summaries)):
        out.print(line)
    print(f"See how it learned: tensorboard --logdir {folder}")
    print(f"Score the agent again: python evaluate.py --policy {best}")


def verdicts(summaries: "dict[str, pd.DataFrame]") -> list[str]:
    """Say of every other policy whether the agent is better, as far as these windows tell."""
    from evaluation.comparison import compare

    lines = ["Mean JCT of the agent / that of each, paired by window, with its 95 % interval:"]
    for name, summary in summaries.items():
        if name == "agent":
            continue
        found = compare(summaries["agent"], summary)
        which = "its base policy" if name == "base_policy" else name
        lines.append(
            f"  {found.ratio:.4f} ({found.low:.4f}-{found.high:.4f}), lower in {found.wins} of "
            f"{found.windows} windows: {words(found)} {which}"
        )
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
