"""Score scheduling policies on the same workloads, or examine a paper's claims."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a script, where the package may not be installed
    import _checkout  # noqa: F401

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluation import choices, command, provenance, run_folder
from gpu_cluster_gym.evaluation.command import progress, working
from gpu_cluster_gym.simulator.choice import check, choice, flag
from gpu_cluster_gym.workloads import Scenario

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from gpu_cluster_gym.agents.protocol import Candidate
    from gpu_cluster_gym.evaluation.record import Record
    from gpu_cluster_gym.evaluation.runner import Maker
    from gpu_cluster_gym.experiments import Paper, Setting
    from gpu_cluster_gym.simulator.policy import Policy
    from gpu_cluster_gym.workloads import Workload

EXAMPLES = """Examples:
  python evaluate.py --policy xion                   beside fifo, sjf, srtf, las
  python evaluate.py --policy all --workload quick   all, on a named workload
  python evaluate.py --policy mylab.mine:policy      one of your own
  python evaluate.py --policy srtf --full-trace --trace-file jobs.csv --cluster 4x8
  python evaluate.py --paper xonar                   a paper's claims
--list policies, workloads, traces or papers: what there is; --version"""
WINDOWS = 20


@dataclass(frozen=True)
class Evaluation:
    """What to score, and on how much."""

    policy: tuple[str, ...] = ()
    """A module of baselines/ (fifo ...), all, tuned, tuned:NAME, constants, ppo (the agent that comes with the project
    for the workload, or for all), the folder of a learned agent, module:attribute, or lookahead:NAME, the same looking
    ahead. Several make one table, in which all are compared with the first; one alone is compared with fifo, beside
    sjf, srtf and las."""
    protocol: tuple[str, ...] = ()
    """Agents to judge beside a ladder of policies and those that --policy names: the folder of a run of train_agent.py,
    with all its seeds, or those of your own, a module:attribute for each seed. On windows of what the run learned on,
    unless flags choose others."""
    paper: str | None = None
    """Instead of a policy, a paper of experiments/ (xion ...): its claims, on the workload that they are about."""
    scenario: Scenario = field(default_factory=Scenario)
    """What is simulated."""
    windows: int | None = choice(None, least=1)
    """Windows to score on: 20, under --protocol 100, or all of a log with fewer; trials of a paper, its own number."""
    processes: int = choice(1, least=1)
    """Processes to share the work; the results are the same."""
    workload: str | None = None
    """A named workload of workloads/ (quick, mixed, two_types ...); other flags override what it chooses."""
    out: str | None = None
    """Folder for choices, summary and every job, or claims and figure; runs/evaluate-<time>-<hash>."""
    record: bool = False
    """Keep what happened too: segments.csv and timeline.csv beside each jobs.csv, and files for evalys."""
    report: bool = False
    """Leave one page to look at in the folder, report.html, which needs no network; records what it shows."""
    perfetto: bool = False
    """Leave a trace of each episode that ui.perfetto.dev opens; records what it shows."""
    config: str | None = None
    """Run folder, or JSON file, to take these choices from; flags override it."""

    def __post_init__(self) -> None:
        """Refuse what cannot be; ChoiceError names each field."""
        check(self)

    @property
    def records(self) -> bool:
        """Whether what happens is kept."""
        return self.record or self.report or self.perfetto


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code, 2 if what was asked for cannot be."""
    return command.run("evaluate.py", work, args)


def work(args: Sequence[str]) -> None:
    """Do what the arguments ask for; ValueError says why it cannot be."""
    evaluation = read_choices(args)
    if evaluation.protocol:
        evaluation, found = candidates_of(evaluation, choices.asked_for(args, Evaluation))
        what, fill = judgement(evaluation, found)
    else:
        what, fill = reproduction(evaluation) if evaluation.paper else scoring(evaluation)
    folder = run_folder.open_run_folder("evaluate", evaluation, evaluation.out)
    try:
        with run_folder.noting(folder):
            fill(folder)
    except (ValueError, RuntimeError) as error:  # what a user's own policy may not do, or one that never ends
        raise ValueError(f"{what}: {error}") from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {folder} is without results") from None


def read_choices(args: Sequence[str]) -> Evaluation:
    """Return the choices in the flags and in the file they name."""
    evaluation = choices.read(Evaluation, args, command="evaluate.py", about=f"{__doc__}\n\n{EXAMPLES}")
    if sum(map(bool, (evaluation.protocol or evaluation.policy, evaluation.paper))) != 1:
        raise ValueError(
            "give --policy, what to score, or --protocol, whose agents to judge, or --paper, whose claims to examine"
        )
    if evaluation.records and (evaluation.protocol or not evaluation.policy):
        raise ValueError("--record, --report and --perfetto go with --policy alone: leave them out")
    if evaluation.scenario.full_trace and (evaluation.windows or evaluation.protocol):
        other = "--windows" if evaluation.windows else "--protocol, which judges on windows"
        raise ValueError(f"--full-trace replays everything as one episode: leave out it or {other}")
    usual = Scenario(seed=evaluation.scenario.seed)
    if evaluation.paper and evaluation.scenario != usual:
        changed = [name for name, value in vars(usual).items() if getattr(evaluation.scenario, name) != value]
        raise ValueError(f"--paper brings its own workloads: leave out {', '.join(map(flag, changed))}")
    return evaluation


def scoring(evaluation: Evaluation) -> "tuple[str, Callable[[Path], None]]":
    """Return the names of what to score, and what simulates it beside others and fills a folder."""
    policies, reference = chosen(evaluation)
    with working("preparing the jobs; the first run compiles the simulator"):
        workloads = made(evaluation)
    return ", ".join(evaluation.policy), partial(evaluate, evaluation, policies, reference, workloads)


def reproduction(evaluation: Evaluation) -> "tuple[str, Callable[[Path], None]]":
    """Return the name of a paper, and what runs its experiment and fills a folder."""
    from gpu_cluster_gym import experiments

    name, seed = str(evaluation.paper), evaluation.scenario.seed
    paper = experiments.load(name)
    with working("preparing the jobs; the first run compiles the simulator"):
        settings = paper.settings(evaluation.windows or paper.trials, seed)
    return name, partial(reproduce, evaluation, paper, settings)


def candidates_of(evaluation: Evaluation, asked: "Mapping[str, Any]") -> "tuple[Evaluation, list[Candidate]]":
    """Return the agents to judge, and the choices with what they learned on, where no jobs are named to judge them on.

    asked: what flags and a file choose, by field; what of it is of the scenario holds on top, also where it is usual.
    """
    from gpu_cluster_gym.agents import check_installed

    check_installed()
    from gpu_cluster_gym.agents.protocol import all_candidates, learned_on
    from gpu_cluster_gym.agents.resolve import look_in_this_folder

    look_in_this_folder()
    found = all_candidates(evaluation.protocol)
    named = any(asked.get(name) for name in ("workload", "trace", "trace_file"))
    if named or not (learned := learned_on(found)):
        return evaluation, found
    if besides := max(len(each.also) for each in found):
        count = f"{besides + 1} workloads"
        print(f"Note: the agent learned on {count} and is judged on the first; --workload names one.")
    given = {name: value for name, value in asked.items() if name in vars(learned)}
    return replace(evaluation, scenario=replace(learned, **given)), found


def judgement(evaluation: Evaluation, found: "Sequence[Candidate]") -> "tuple[str, Callable[[Path], None]]":
    """Return the names of agents, or of a run of training, and what judges them and fills a folder."""
    from gpu_cluster_gym.agents.resolve import each_once

    besides = each_once(evaluation.policy, evaluation.scenario, evaluation.workload)
    tell_notes(evaluation)
    return ", ".join(evaluation.protocol), partial(judge, evaluation, found, besides)


def judge(
    evaluation: Evaluation,
    found: "Sequence[Candidate]",
    others: "Mapping[str, Policy | type]",
    folder: Path,
) -> None:
    """Judge the agents of a run, print what came of it, and fill the run folder."""
    from gpu_cluster_gym.agents.protocol import Judging, document, lines, windows_for
    from gpu_cluster_gym.evaluation import table, table_notes

    with working("preparing the jobs; the first run compiles the simulator"):
        workloads = windows_for(evaluation.scenario, evaluation.windows)
    judging = Judging(found, workloads, besides=others, processes=evaluation.processes)
    with progress("simulating", judging.simulations) as moved:
        came = judging.judge(moved)
    run_folder.write_json(folder / "protocol.json", document(came))
    off, heading = table_notes.levers_off(others, workloads), table_notes.heading(workloads)
    run_folder.write_json(folder / provenance.PROVENANCE, provenance.collect(workloads, heading, off))
    told = (*heading, *lines(came, len(found)), *off, f"Run folder: {folder}")
    table.console(sys.stdout).print(*told, sep="\n")


def chosen(evaluation: Evaluation) -> "tuple[dict[str, Policy | type], str]":
    """Return the policies to score by name, and the name of the one that the others are compared with."""
    from gpu_cluster_gym.agents.resolve import in_table

    found = in_table(evaluation.policy, evaluation.scenario, evaluation.workload)
    tell_notes(evaluation)
    return found


def tell_notes(evaluation: Evaluation) -> None:
    """Print what is to be said of the policies that are asked for."""
    from gpu_cluster_gym.agents.resolve import notes

    for note in notes((*evaluation.policy, *evaluation.protocol), evaluation.scenario):
        print(note)


def made(evaluation: Evaluation) -> "list[Workload]":
    """Return the workloads: one if it is the whole trace, else the first windows of its test part."""
    from gpu_cluster_gym.workloads import full_trace, up_to, windows

    scenario, count = evaluation.scenario, evaluation.windows
    if scenario.full_trace:
        return [full_trace(scenario)]
    return windows(scenario, "test", count) if count else up_to(scenario, "test", WINDOWS)


def evaluate(
    evaluation: Evaluation,
    policies: "Mapping[str, Policy | type]",
    reference: str,
    workloads: "Sequence[Workload]",
    folder: Path,
) -> None:
    """Simulate, print the table, and fill the run folder."""
    from gpu_cluster_gym.agents.resolve import searched
    from gpu_cluster_gym.evaluation import runner, table, table_notes

    out, heading = table.console(sys.stdout), table_notes.heading(workloads)
    out.print(*heading, sep="\n")
    makers: dict[str, Maker] = {name: partial(baselines.make, policy) for name, policy in policies.items()}
    results, records = simulated(evaluation, makers, workloads)
    bounds = runner.bounds(workloads)
    summaries = runner.score(results, workloads, bounds)
    if "all" in evaluation.policy:
        summaries = dict(sorted(summaries.items(), key=lambda item: item[1]["mean_jct_s"].mean()))
    run_folder.write_run(folder, results, runner.document(summaries, bounds, reference))
    out.print("", table.table(summaries, bounds, reference), "")
    learned = any(Path(policy).is_dir() for policy in {*evaluation.policy} - {*baselines.names()})
    if evaluation.scenario.full_trace and evaluation.scenario.trace_file and learned:
        out.print("The agent may have learned on the first part of this trace.")
    notes = table_notes.footnotes(workloads, summaries, policies, reference, bounds)
    of = evaluation.scenario, evaluation.workload
    found = (searched(policy, *of) for policy in evaluation.policy)
    of_searches = tuple(dict.fromkeys(each.told for each in found if each))
    run_folder.write_json(
        folder / provenance.PROVENANCE, provenance.collect(workloads, heading, (*of_searches, *notes))
    )
    pictured = pictures(evaluation, folder, records, workloads)
    out.print(*of_searches, *notes, *pictured, f"Run folder: {folder}", sep="\n")


def simulated(
    evaluation: Evaluation, makers: "Mapping[str, Maker]", workloads: "Sequence[Workload]"
) -> "tuple[dict[str, pd.DataFrame], dict[str, Record]]":
    """Return every policy's results, and what happened if that is to be kept."""
    from gpu_cluster_gym.evaluation import record, runner

    with progress("simulating", len(makers) * len(workloads)) as moved:
        how: dict[str, Any] = {"processes": evaluation.processes, "done": partial(one_more, moved)}
        if not evaluation.records:
            return runner.simulate(makers, workloads, **how), {}
        records = record.simulate(makers, workloads, **how)
    return {name: each.results for name, each in records.items()}, records


def pictures(
    evaluation: Evaluation, folder: Path, records: "Mapping[str, Record]", workloads: "Sequence[Workload]"
) -> list[str]:
    """Write what was recorded, and what is asked for to look at; say where the page is."""
    from gpu_cluster_gym.evaluation import record

    if records:
        record.write(folder, records)
    if evaluation.perfetto:
        record.write_perfetto(folder, records, workloads[0].cluster)
    if not evaluation.report:
        return []
    from gpu_cluster_gym.evaluation.html_report import write

    return [f"To look at: {write(folder)}"]


def reproduce(evaluation: Evaluation, paper: "Paper", settings: "Sequence[Setting]", folder: Path) -> None:
    """Run a paper's experiment, print its tables and claims, and fill the run folder."""
    from gpu_cluster_gym.evaluation import table
    from gpu_cluster_gym.experiments import simulate, size

    out = table.console(sys.stdout)
    for line in paper.heading(settings):
        out.print(line)
    with progress("simulating", size(settings)) as moved:
        found = simulate(settings, processes=evaluation.processes, done=partial(one_more, moved))
    for part in paper.report(found):
        out.print(part)
    files = paper.write(folder, str(evaluation.paper), found)
    out.print(f"Figure: {', '.join(map(str, files))}", f"Run folder: {folder}", sep="\n")


def one_more(moved: "Callable[..., None]", name: str, table: "pd.DataFrame") -> None:
    """Move a bar on by one simulation, and say what came of it."""
    moved(1, f"{name}: mean JCT {table['jct_s'].mean():,.0f} s in window {table['window'].iloc[0]}")


if __name__ == "__main__":
    sys.exit(main())
