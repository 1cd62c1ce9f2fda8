"""Score scheduling policies against one another on the same workloads, or examine the claims of a paper."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

import baselines
from evaluation import choices
from workloads import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    import pandas as pd

    from evaluation.report import Maker
    from experiments import Paper, Setting
    from simulator.policy import Policy
    from workloads import Workload

BESIDE = ("fifo", "sjf", "srtf", "las")
"""What every policy stands beside, unless one episode is all that is asked for."""
WINDOWS = 20


@dataclass(frozen=True)
class Evaluation:
    """What to score, and on how much."""

    policy: str | None = None
    """A module of baselines/ (fifo ...), all, tuned, tuned:NAME, the folder of a learned agent, or module:attribute."""
    paper: str | None = None
    """Instead of a policy, a module of experiments/ (xion ...): its claims, on the workload that they are about."""
    scenario: tyro.conf.OmitArgPrefixes[Scenario] = field(default_factory=Scenario)
    """What is simulated."""
    windows: int | None = None
    """Windows to score on, 20, or trials of a paper, its own number; without meaning under --whole."""
    processes: int = 1
    """Processes to share the work; the results are the same."""
    workload: str | None = None
    """A named workload of workloads/ (quick, mixed, two_types ...); other flags override what it chooses."""
    out: str | None = None
    """Folder for choices, summary and every job, or claims and figure; runs/evaluate-<time>-<hash>."""
    config: str | None = None
    """Run folder, or JSON file, to take these choices from; flags override it."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code, 2 if what was asked for cannot be."""
    args = sys.argv[1:] if args is None else args
    try:
        evaluation = read_choices(args)
        what, fill = reproduction(evaluation) if evaluation.paper else scoring(evaluation)
        folder = choices.open_run_folder("evaluate", evaluation, evaluation.out)
    except ValueError as error:
        print(f"evaluate.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    try:
        fill(folder)
    except ValueError as error:  # a policy of somebody's own does what it may not
        choices.abandon(folder)
        print(f"evaluate.py: {what}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"evaluate.py: interrupted; {folder} is without results", file=sys.stderr)
        return 130
    return 0


def read_choices(args: Sequence[str]) -> Evaluation:
    """Return the choices in the flags and in the file they name."""
    args = choices.with_defaults(args, Evaluation)
    choices.check_flags(args, Evaluation)
    evaluation = tyro.cli(Evaluation, prog="evaluate.py", description=__doc__, args=args)
    choices.check_numbers(evaluation)
    if (evaluation.policy is None) == (evaluation.paper is None):
        raise ValueError("give either --policy, what to score, or --paper, whose claims to examine")
    usual = Scenario(seed=evaluation.scenario.seed)
    if evaluation.paper and evaluation.scenario != usual:
        changed = [name for name, value in vars(usual).items() if getattr(evaluation.scenario, name) != value]
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
        raise ValueError(f"--paper brings its own workloads: leave out {flags}")
    return evaluation


def scoring(evaluation: Evaluation) -> "tuple[str, Callable[[Path], None]]":
    """Return the name of the policy to score, and what simulates it beside others and fills a folder."""
    policies, reference = chosen(evaluation)
    with working("preparing the jobs; the first run compiles the simulator"):
        workloads = made(evaluation)
    return reference, partial(evaluate, evaluation, policies, reference, workloads)


def reproduction(evaluation: Evaluation) -> "tuple[str, Callable[[Path], None]]":
    """Return the name of a paper, and what runs its experiment and fills a folder."""
    import experiments

    name, seed = str(evaluation.paper), evaluation.scenario.seed
    paper = experiments.load(name)
    with working("preparing the jobs; the first run compiles the simulator"):
        settings = paper.settings(evaluation.windows or paper.trials, seed)
    return name, partial(reproduce, evaluation, paper, settings)


def chosen(evaluation: Evaluation) -> "tuple[dict[str, Policy | type], str]":
    """Return the policies to score by name, and the name of the one that the others are held against."""
    policy = str(evaluation.policy)
    beside = () if evaluation.scenario.whole else BESIDE
    if policy == "all":
        return {name: baselines.load(name) for name in baselines.names()}, "fifo"
    if of_search := tuned(evaluation):
        name, found = of_search.label, baselines.vary(baselines.load(of_search.policy), **of_search.settings)
        beside = tuple(dict.fromkeys((of_search.policy, *beside)))
    else:
        name, found = load(policy)
    return {name: found} | {other: baselines.load(other) for other in beside if other != name}, name


def tuned(evaluation: Evaluation) -> "baselines.Tuned | None":
    """Return what a search found for the workload named, or for the one that this scenario is, if that is asked for."""
    kind, _, name = str(evaluation.policy).partition(":")
    if kind != "tuned":
        return None
    workload = evaluation.workload or choices.workload_like(evaluation.scenario)
    if not workload:
        raise ValueError("--policy tuned: policies are tuned for workloads; name one with --workload")
    return baselines.tuned(workload, name or None)


def load(policy: str) -> "tuple[str, Policy | type]":
    """Return a policy by its name, folder or `module:attribute`, and what to call it in the table."""
    if policy not in baselines.names() and Path(policy).is_dir():
        from agents import load_policy

        return agent_name(Path(policy).resolve()), load_policy(policy)
    if ":" in policy and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # somebody's own module lies where they are
    found = baselines.load(policy)
    if getattr(found, "key", None) == "true_remaining" and not policy.endswith("_oracle"):
        raise ValueError(f"policy {policy!r} is told the true run times: its name must end in _oracle")
    return policy, found


def agent_name(folder: Path) -> str:
    """Return what to call an agent: the folder of its run, which holds it as `best` or among checkpoints."""
    run = folder.parent if folder.name == "best" else folder.parent.parent
    kept = folder.name == "best" or folder.parent.name == "checkpoints"
    return f"{run.name}_{folder.name}" if kept else f"agent_{folder.name}"


def made(evaluation: Evaluation) -> "list[Workload]":
    """Return the workloads: one if it is the whole trace, else the first windows of its test part."""
    from workloads import whole, windows

    scenario = evaluation.scenario
    return [whole(scenario)] if scenario.whole else windows(scenario, "test", evaluation.windows or WINDOWS)


def evaluate(
    evaluation: Evaluation,
    policies: "Mapping[str, Policy | type]",
    reference: str,
    workloads: "Sequence[Workload]",
    folder: Path,
) -> None:
    """Simulate, print the table, and fill the run folder."""
    from evaluation import remarks, report

    out = report.console(sys.stdout)
    for line in remarks.heading(workloads):
        out.print(line)
    makers: dict[str, Maker] = {name: partial(baselines.make, policy) for name, policy in policies.items()}
    with progress(len(makers) * len(workloads)) as done:
        results = report.simulate(makers, workloads, processes=evaluation.processes, done=done)
    summaries = report.score(results, workloads)
    if evaluation.policy == "all":
        summaries = dict(sorted(summaries.items(), key=lambda item: item[1]["mean_jct_s"].mean()))
    bounds = report.bounds(workloads)
    choices.write_run(folder, results, report.document(summaries, bounds, reference))
    out.print("", report.table(summaries, bounds, reference), "")
    if evaluation.scenario.whole and evaluation.scenario.trace_file and Path(str(evaluation.policy)).is_dir():
        out.print("The agent may have learned on the first part of this trace.")
    notes = remarks.footnotes(workloads, summaries, policies, reference)
    if of_search := tuned(evaluation):
        notes.insert(0, of_search.told)
    for line in (*notes, f"Run folder: {folder}"):
        out.print(line)


def reproduce(evaluation: Evaluation, paper: "Paper", settings: "Sequence[Setting]", folder: Path) -> None:
    """Run a paper's experiment, print its tables and claims, and fill the run folder."""
    from evaluation import report
    from experiments import simulate, size

    out = report.console(sys.stdout)
    for line in paper.heading(settings):
        out.print(line)
    with progress(size(settings)) as done:
        found = simulate(settings, processes=evaluation.processes, done=done)
    for part in paper.report(found):
        out.print(part)
    files = paper.write(folder, str(evaluation.paper), found)
    out.print(f"Figure: {', '.join(map(str, files))}", f"Run folder: {folder}", sep="\n")


def working(what: str) -> "AbstractContextManager[object]":
    """Say on stderr, if that is a terminal, what is being waited for."""
    from rich.console import Console

    return Console(stderr=True).status(what) if sys.stderr.isatty() else nullcontext()


@contextmanager
def progress(total: int) -> "Iterator[Callable[[str, pd.DataFrame], None]]":
    """Show a bar on stderr, if that is a terminal, with the latest result; give what moves it on."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("simulating", total=total)

        def done(name: str, table: "pd.DataFrame") -> None:
            latest = f"{name}: mean JCT {table['jct_s'].mean():,.0f} s in window {table['window'].iloc[0]}"
            bar.update(task, advance=1, description=latest)

        yield done


if __name__ == "__main__":
    sys.exit(main())
