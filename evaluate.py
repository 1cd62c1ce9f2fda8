"""Score scheduling policies on the same workloads, or check the claims of a paper."""

if not __package__:  # run as a script, where the package may not be installed
    import _checkout  # noqa: F401

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpu_cluster_gym import baselines
from gpu_cluster_gym.evaluation import choices, command, provenance, run_folder
from gpu_cluster_gym.evaluation.command import processors, progress, working
from gpu_cluster_gym.evaluation.run_folder import RECORDED
from gpu_cluster_gym.evaluation.stopping import leave, with_message
from gpu_cluster_gym.simulator.choice import changed, check, choice, flag
from gpu_cluster_gym.traces import add_current_folder
from gpu_cluster_gym.workloads import DEFAULT, Scenario, named, refuse_contradictions, with_physics

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from gpu_cluster_gym.agents.protocol import Candidate
    from gpu_cluster_gym.evaluation.journal import Journal
    from gpu_cluster_gym.evaluation.record import Record
    from gpu_cluster_gym.evaluation.runner import Failure, Maker
    from gpu_cluster_gym.experiments import Paper, Setting
    from gpu_cluster_gym.simulator.policy import Policy
    from gpu_cluster_gym.workloads import Workload

EXAMPLES = """Examples:
  python evaluate.py --policy xion                      compared with fifo
  python evaluate.py --policy all --workload quick      all policies
  python evaluate.py --policy mylab.mine:policy         your own policy
  python evaluate.py --policy srtf --full-trace --trace-file jobs.csv
  python evaluate.py --paper xonar                      the claims of a paper
--list policies, workloads, traces or papers: known names"""
WINDOWS = 20
OF_WINDOWS = {"windows", "split", "jobs", "all_windows", "full_trace", "target_load"}
"""Choices about windows, with which a log that is too short for them is refused."""


def what_if_expected(text: str) -> str | None:
    """Return the form of --what-if for an error about a text of another form; None for a valid text."""
    from gpu_cluster_gym.evaluation import what_if

    return what_if.expected(text)


@dataclass(frozen=True)
class Evaluation:
    """Policies and windows to score."""

    policy: tuple[str, ...] = ()
    """Policies: a module of baselines/ (fifo ...), all (but those that take minutes per window), tuned (the best tuned
    policy of the workload), tuned:NAME (NAME with settings that a search found for the workload), constants (union with
    weights that a search found for the workload), ppo (the pretrained agent for the workload, or the general one),
    plain (the pretrained agent that starts and pauses jobs), the folder of an agent, module:attribute, lookahead:NAME
    for look-ahead based on NAME, or recorded (a log's own schedule, in a full trace). Several are compared with the
    first (with fifo if all is named, with recorded if that is named). A single one is compared with fifo, and
    fifo_strict, easy, sjf, srtf and las are shown too; in a full trace it stands alone. Tables of windows also have two
    floors, weak baselines that choose a random or the first legal action."""
    floors: bool = True
    """Add the floors random_legal and first_legal, two weak baselines."""
    wide: bool = False
    """Print further metrics, not only the ratio and four others. The run folder has all metrics in any case."""
    protocol: tuple[str, ...] = ()
    """Trained agents to compare with a fixed set of policies and those of --policy, on held-out windows and under
    shifts: the folder of a run of train_agent.py, with all its seeds, or of an agent; or a module:attribute for each
    seed. Windows are those of the agents' training scenario, which other flags change, unless --workload,
    --trace or --trace-file sets another."""
    paper: str | None = None
    """A paper of experiments/ (xion ...), whose claims are checked on its own workload; excludes --policy and
    --protocol."""
    scenario: Scenario = field(default_factory=partial(named, DEFAULT))
    """Jobs, cluster and rules. --workload sets the defaults that are shown."""
    windows: int | None = choice(None, least=1)
    """Number of test windows, refused if the trace has fewer; default: 20 (100 with --protocol), or as many as it has.
    With --paper: number of trials."""
    split: Literal["test", "all"] = "test"
    """Part of the trace whose windows are scored. all: every window of a short log (--trace-file), or the first
    --windows; then nothing may be tuned or trained on that log."""
    processes: int = choice(1, least=1)
    """CPU cores to use, at most those available. Results do not depend on their number."""
    backend: Literal["local", "ray"] = "local"
    """Where simulations run: processes of this machine, or a Ray cluster (--address), whose CPUs --processes does not
    limit. Results do not depend on it."""
    address: str = "auto"
    """HOST:PORT of the head node of a Ray cluster; auto: the cluster of this machine, or of RAY_ADDRESS."""
    workload: str | None = None
    """Named workload (quick, mixed, two_types ...), which sets the scenario; other flags override it. Default: philly,
    whose windows are days at a steady load; but philly_backlog with another trace, a log, or a flag that implies
    windows with a fixed number of jobs (--jobs, --target-load, --all-windows, --full-trace)."""
    out: str | None = None
    """Run folder for choices, results, notes and figures; default: runs/evaluate-<time>-<hash>."""
    record: bool = False
    """Write segments.csv and timeline.csv in addition to each jobs.csv, and files for evalys and SWF tools."""
    report: bool = False
    """Write report.html, a self-contained page; implies --record."""
    perfetto: bool = False
    """Write a trace of each episode for ui.perfetto.dev; implies --record."""
    audit: bool = False
    """Instead of scoring the policies, test whether they use information about the future: on random workloads that
    differ only from some time on, decisions before that time must be equal. Prints a line for what policies are
    shown, and one per policy; workloads on which a policy raises an error are left out and counted, and the first
    is named. The exit code is 1 if a line reports leaks."""
    what_if: str | None = choice(None, expected=what_if_expected)
    """Instead of comparing the policies, print their mean waits on clusters of other sizes, as in nodes=8..24 (with
    --full-trace; at most 12 sizes, spread over the range), with intervals over days of submission, or over tenths of a
    log of fewer than ten days, and the size beyond which a node saves less wait than the average node of the range."""
    config: str | None = None
    """Run folder or JSON file to read choices from; flags override it."""
    resume: str | None = None
    """Run folder of an interrupted, killed or failed run with --policy or --paper: continue it; simulated windows are
    kept."""
    again: str | None = None
    """Run folder of a run with --policy or --paper: repeat it in a new folder, and compare results to the last bit."""
    trust: bool = False
    """Import the modules that --config, --resume or --again name as policies; by default only flags may name code."""

    def __post_init__(self) -> None:
        """Raise ChoiceError with every invalid choice."""
        check(self)

    @property
    def records(self) -> bool:
        """Whether events are recorded."""
        return self.record or self.report or self.perfetto


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code, 2 for invalid choices."""
    return command.run("evaluate.py", work, args)


def work(args: Sequence[str]) -> None:
    """Score policies, judge agents or check a paper; ValueError for invalid choices."""
    evaluation = read_choices(args)
    check_names(evaluation)
    if evaluation.audit:
        audit(evaluation)
        return
    if evaluation.what_if:
        print_what_if(replace(evaluation, scenario=with_physics(evaluation.scenario)))
        return
    found: Sequence[Candidate] = ()
    if evaluation.protocol:
        evaluation, found = candidates_of(evaluation, choices.asked_for(args, Evaluation))
    evaluation = replace(evaluation, scenario=with_physics(evaluation.scenario))
    if evaluation.protocol:
        what, fill = judgement(evaluation, found)
    elif evaluation.paper:
        what, fill = reproduction(evaluation)
    else:
        what, (evaluation, fill) = "", scoring(evaluation, choices.asked_for(args, Evaluation))
    with computing(evaluation):
        fill_folder(evaluation, what, fill)


def check_names(evaluation: Evaluation) -> None:
    """Raise ValueError for an unknown policy, before a log is read, which may take minutes."""
    from gpu_cluster_gym.agents.resolve import check_name

    for name in evaluation.policy:
        if name != RECORDED:
            check_name(name)


def fill_folder(evaluation: Evaluation, what: str, fill: "Callable[[Path], None]") -> None:
    """Fill a run folder, new or resumed; ValueError for errors of `what`, with the flags that continue the run."""
    resumed = Path(evaluation.resume) if evaluation.resume else None
    folder = resumed or run_folder.open_run_folder("evaluate", evaluation, evaluation.out)
    try:
        with run_folder.noting(folder):
            fill(folder)
    except (ValueError, RuntimeError) as error:  # an illegal action of a user's policy, or a stalled episode
        raise ValueError(f"{what}: {error}" if what else str(error)) from error
    except KeyboardInterrupt as stop:
        left = (
            f"{folder} has no results"
            if evaluation.protocol
            else f"continue it with {going_on(evaluation, folder)}"
        )
        raise with_message(stop, f"interrupted; {left}") from None
    except OSError as error:
        left = "" if evaluation.protocol else f"; continue it with {going_on(evaluation, folder)}"
        raise ValueError(f"{folder}: {error.strerror or error}{left}") from error
    if evaluation.protocol:
        return
    from gpu_cluster_gym.evaluation import journal

    journal.end(folder)
    if evaluation.again:
        if difference := journal.difference(folder, Path(evaluation.again)):
            raise ValueError(f"{folder} is not equal to {evaluation.again}: {difference}")
        print(f"Equal to {evaluation.again} to the last bit.")


def computing(evaluation: Evaluation) -> AbstractContextManager[None]:
    """Return the context in which simulations run on the backend that is asked for."""
    from gpu_cluster_gym.evaluation.each import on_ray

    return on_ray(evaluation.address) if evaluation.backend == "ray" else nullcontext()


def print_what_if(evaluation: Evaluation) -> None:
    """Print the mean waits of each policy by the number of nodes."""
    from gpu_cluster_gym.agents.resolve import each_once
    from gpu_cluster_gym.evaluation import what_if

    if not (evaluation.policy and evaluation.scenario.full_trace):
        raise ValueError(
            "--what-if requires --policy and --full-trace, since it averages the waits of all jobs"
        )
    if evaluation.out or evaluation.records:
        raise ValueError("--what-if only prints a table: drop --out, --record, --report and --perfetto")
    policies = each_once(evaluation.policy, evaluation.scenario, evaluation.workload)
    nodes = what_if.nodes_of(str(evaluation.what_if), evaluation.scenario.cluster_name)
    for note in what_if.notes(evaluation.scenario, nodes):
        print(note)
    with progress("simulating", len(policies) * len(nodes)) as moved:
        for name, policy in policies.items():
            make = partial(baselines.make, policy)
            for line in what_if.lines(name, evaluation.scenario, make, nodes, moved):
                print(line, flush=True)


def audit(evaluation: Evaluation) -> None:
    """Audit the policies and print a line for each; SystemExit with code 1 at a leak."""
    from gpu_cluster_gym.agents.resolve import each_once
    from gpu_cluster_gym.evaluation.audit import PAIRS, audit

    policies = each_once(evaluation.policy, evaluation.scenario, evaluation.workload)
    makers = {name: partial(baselines.make, policy) for name, policy in policies.items()}
    total = PAIRS * (1 + len(makers))  # what a view shows is audited too
    with progress("auditing", total, before="compiling the simulator") as moved:
        results = audit(makers, seed=evaluation.scenario.seed, done=partial(print, flush=True), moved=moved)
    if untried := [each.name for each in results if not each.pairs]:
        raise ValueError(
            f"the audit found no pair of workloads for {', '.join(untried)}: see the reason above"
        )
    if any(each.leaks for each in results):
        sys.exit(1)


def read_choices(args: Sequence[str]) -> Evaluation:
    """Return the choices of a command line."""
    for name in ("resume", "again"):
        if folder := choices.value_of(args, name):
            return stored_choices(args, name, Path(folder))
    evaluation = choices.read(Evaluation, args, command="evaluate.py", about=f"{__doc__}\n\n{EXAMPLES}")
    if file := choices.value_of(args, "config"):
        refuse_code(evaluation, file, choices.parse(Evaluation(), args))
    if sum(map(bool, (evaluation.protocol or evaluation.policy, evaluation.paper))) != 1:
        raise ValueError(
            "expected either --paper (claims to check), or --policy (policies to score) and/or --protocol (agents to "
            "compare): --paper cannot be combined with these"
        )
    if evaluation.records and (evaluation.protocol or not evaluation.policy):
        raise ValueError("--record, --report and --perfetto require --policy, without --protocol")
    if evaluation.address != "auto" and evaluation.backend != "ray":
        raise ValueError(f"--address {evaluation.address} requires --backend ray: add it, or drop --address")
    if evaluation.audit and not evaluation.policy:
        raise ValueError("--audit requires --policy, which names policies or the folders of agents")
    if evaluation.scenario.full_trace and (evaluation.windows or evaluation.protocol):
        other = "--windows" if evaluation.windows else "--protocol, which needs windows"
        raise ValueError(f"--full-trace replays the trace as one episode: drop it or {other}")
    if evaluation.split == "all":
        alone = evaluation.policy and not (
            evaluation.protocol or evaluation.audit or evaluation.scenario.full_trace
        )
        if not (alone and evaluation.scenario.trace_file):
            raise ValueError(
                "--split all requires --policy and --trace-file, without --protocol, --audit or --full-trace: "
                "it takes every window of a log"
            )
    usual = replace(named(DEFAULT), seed=evaluation.scenario.seed)
    if evaluation.paper and evaluation.scenario != usual:
        asked = choices.asked_for(args, Evaluation).keys() & {*vars(usual), "workload"} - {"seed"}
        raise ValueError(f"--paper has its own workloads: drop {', '.join(sorted(map(flag, asked)))}")
    return replace(evaluation, processes=processors(evaluation.processes))


def stored_choices(args: Sequence[str], name: str, folder: Path) -> Evaluation:
    """Return the choices of a run folder to resume or repeat; ValueError where its choices cannot be repeated."""
    from gpu_cluster_gym.evaluation import journal

    given = choices.parse(Evaluation(), args)
    with_them = {name, "processes", "backend", "address", "trust"} | ({"out"} if name == "again" else set())
    if others := given.keys() - with_them:
        raise ValueError(
            f"{flag(name)} takes all choices from {folder}: drop {', '.join(map(flag, sorted(others)))}"
        )
    asked = journal.header(folder)["asked"]
    status = run_folder.status_of(folder)
    if name == "resume" and status == "finished":
        raise ValueError(f"the run in {folder} has finished: repeat it with --again {folder}")
    if name == "again" and status != "finished":
        raise ValueError(f"the run in {folder} has not finished: continue it with --resume {folder}")
    evaluation = changed(Evaluation(), choices.from_file(folder, Evaluation) | asked | given)
    refuse_code(evaluation, folder, given)
    return replace(evaluation, processes=processors(evaluation.processes))


def refuse_code(evaluation: Evaluation, file: str | Path, given: "Mapping[str, Any]") -> None:
    """Raise ValueError where a file names a module to import, and flags neither name it nor trust the file.

    given: choices that flags name, by field.
    """
    fields = [name for name in ("policy", "protocol") if name not in given]
    named = [each for name in fields for each in getattr(evaluation, name) if names_code(each)]
    choices.refuse_code(file, named, evaluation.trust)


def names_code(policy: str) -> bool:
    """Return whether a policy or agent is a `module:attribute`, which is imported and run."""
    name = policy.removeprefix("lookahead:")
    return ":" in name and not name.startswith("tuned:") and not Path(name).is_dir()


def going_on(evaluation: Evaluation, folder: Path) -> str:
    """Return the flags that continue a run."""
    return f"--resume {folder}{' --trust' * any(map(names_code, evaluation.policy))}"


def scoring(
    evaluation: Evaluation, asked: "Mapping[str, Any]"
) -> "tuple[Evaluation, Callable[[Path], None]]":
    """Return the choices, see `prepared`, and the function that scores the policies into a folder."""
    chosen(evaluation)  # an unknown policy is refused before the log is prepared
    print_notes(evaluation)
    evaluation, workloads = prepared(evaluation, asked)
    policies, reference = chosen(evaluation)
    return evaluation, partial(evaluate, evaluation, policies, reference, workloads)


def reproduction(evaluation: Evaluation) -> "tuple[str, Callable[[Path], None]]":
    """Return the name of a paper, and the function that runs its experiment into a folder."""
    from gpu_cluster_gym import experiments

    name, seed = str(evaluation.paper), evaluation.scenario.seed
    paper = experiments.load(name)
    with working("preparing the jobs; the first run compiles the simulator"):
        settings = paper.settings(evaluation.windows or paper.trials, seed)
    return name, partial(reproduce, evaluation, paper, settings)


def candidates_of(evaluation: Evaluation, asked: "Mapping[str, Any]") -> "tuple[Evaluation, list[Candidate]]":
    """Return the agents to judge, and the choices with their training scenario unless a workload or trace is named.

    asked: explicit choices by field; those of the scenario override the training scenario.
    """
    from gpu_cluster_gym.agents import check_installed

    check_installed()
    from gpu_cluster_gym.agents.protocol import all_candidates, trained_on

    add_current_folder()
    found = all_candidates(evaluation.protocol)
    stated = any(asked.get(name) for name in ("workload", "trace", "trace_file"))
    if stated or not (scenario := trained_on(found)):
        return evaluation, found
    if extra := max(len(each.extra_workloads) for each in found):
        print(
            f"Note: the agent was trained on {extra + 1} workloads; windows are of the first (see --workload)."
        )
    given = {name: value for name, value in asked.items() if name in vars(scenario)}
    refuse_contradictions(replace(scenario, **given), given)
    return replace(evaluation, scenario=replace(scenario, **given)), found


def judgement(evaluation: Evaluation, found: "Sequence[Candidate]") -> "tuple[str, Callable[[Path], None]]":
    """Return the names of the agents, and the function that judges them into a folder."""
    from gpu_cluster_gym.agents.resolve import each_once

    others = each_once(evaluation.policy, evaluation.scenario, evaluation.workload)
    print_notes(evaluation)
    return ", ".join(evaluation.protocol), partial(judge, evaluation, found, others)


def judge(
    evaluation: Evaluation,
    found: "Sequence[Candidate]",
    others: "Mapping[str, Policy | type]",
    folder: Path,
) -> None:
    """Judge agents, print the result, and fill the run folder."""
    from gpu_cluster_gym.agents.protocol import Judging, details, document, lines, windows_for
    from gpu_cluster_gym.evaluation import table, table_notes

    with working("preparing the jobs; the first run compiles the simulator"):
        workloads = windows_for(evaluation.scenario, evaluation.windows)
    judging = Judging(found, workloads, extra=others, processes=evaluation.processes)
    with progress("simulating", judging.simulations) as moved:
        came = judging.judge(moved)
    run_folder.write_json(folder / "protocol.json", document(came))
    off, heading = table_notes.levers_off(others, workloads), table_notes.heading(workloads)
    run_folder.write_json(folder / provenance.PROVENANCE, provenance.collect(workloads, heading, off))
    file = run_folder.write_notes(folder, [*heading, "", *off, *details(came, len(found))])
    table.console(sys.stdout).print(*heading[:3], "", *lines(came, len(found)), f"Notes: {file}", sep="\n")


def chosen(evaluation: Evaluation) -> "tuple[dict[str, Policy | type], str]":
    """Return the policies to score by name, and the name of the reference: a log's own schedule, if it is named."""
    from gpu_cluster_gym.agents.resolve import in_table

    simulated = tuple(name for name in evaluation.policy if name != RECORDED) or ("fifo",)
    policies, reference = in_table(
        simulated, evaluation.scenario, evaluation.workload, floors=evaluation.floors
    )
    return policies, RECORDED if RECORDED in evaluation.policy else reference


def print_notes(evaluation: Evaluation) -> None:
    """Print the notes on the policies."""
    from gpu_cluster_gym.agents.resolve import notes

    for note in notes((*evaluation.policy, *evaluation.protocol), evaluation.scenario):
        print(note)


def prepared(evaluation: Evaluation, asked: "Mapping[str, Any]") -> "tuple[Evaluation, Sequence[Workload]]":
    """Return the choices and the workloads: the whole trace, the first windows of its test part, or all its windows.

    A log with fewer than two test windows is replayed as a whole, with a note, unless flags are about windows.
    asked: explicit choices by field.
    """
    from gpu_cluster_gym.workloads import TooFewWindowsError, full_trace, of_whole_log, up_to, windows

    scenario, count = evaluation.scenario, evaluation.windows
    stored = evaluation.resume or evaluation.again
    short = scenario.trace_file and scenario.steady_load is None and not (stored or asked.keys() & OF_WINDOWS)
    found: Sequence[Workload] = []
    with working("preparing the jobs; the first run compiles the simulator"):
        if scenario.full_trace:
            return evaluation, [full_trace(scenario)]
        if evaluation.split == "all":
            return evaluation, of_whole_log(scenario, count)
        if count:
            return evaluation, windows(scenario, "test", count)
        try:
            found = up_to(scenario, "test", WINDOWS)
        except TooFewWindowsError:
            if not short:
                raise
        if len(found) > 1 or not short:
            return evaluation, found
        whole = replace(scenario, full_trace=True)
        found = [full_trace(whole)]
    learned = any(Path(policy).is_dir() for policy in {*evaluation.policy} - {*baselines.names()})
    print(
        f"Note: the log is replayed as a whole (--full-trace), since its last fifth, the test part, has fewer than two "
        f"windows of {scenario.jobs} jobs in which jobs queue moderately; --jobs chooses smaller windows."
        + " The agent may have been trained on part of the log."
        * learned
    )
    return replace(evaluation, scenario=whole), found


def evaluate(
    evaluation: Evaluation,
    policies: "Mapping[str, Policy | type]",
    reference: str,
    workloads: "Sequence[Workload]",
    folder: Path,
) -> None:
    """Simulate, print the table, and fill the run folder."""
    from gpu_cluster_gym.agents.resolve import searched
    from gpu_cluster_gym.evaluation import journal, runner, table, table_notes, tenants

    out, heading = table.console(sys.stdout), table_notes.heading(workloads)
    read = table_notes.trace_notes(workloads) if evaluation.scenario.trace_file else []
    read += table_notes.parts_off(evaluation.scenario)
    out.print(*heading[:3], *read, sep="\n")
    logged = recorded_schedule(evaluation, workloads)
    makers: dict[str, Maker] = {name: partial(baselines.make, policy) for name, policy in policies.items()}
    kept = begun(evaluation, workloads, folder)
    failed: dict[str, runner.Failure] = {}
    results, records = simulated(evaluation, makers, workloads, failed, kept)
    results |= logged
    bounds = runner.bounds(workloads)
    summaries = runner.score(results, workloads, bounds, failed)
    results = {name: each for name, each in results.items() if name in summaries}
    records = {name: each for name, each in records.items() if name in summaries}
    policies = {name: policies[name] for name in summaries if name in policies}
    why = "; ".join(f"{name}, {failure.why}" for name, failure in failed.items())
    (folder / run_folder.ERRORS).unlink(missing_ok=True)  # of the attempt that is continued
    if tracebacks := [failure.traceback for failure in failed.values() if failure.traceback]:
        (folder / run_folder.ERRORS).write_text("\n".join(tracebacks), encoding="utf-8")
        why += f" (tracebacks: {folder / run_folder.ERRORS})"
    again = (
        f"if you correct a policy, start a new run; otherwise continue with {going_on(evaluation, folder)}"
    )
    if not summaries:
        raise ValueError(f"every policy failed: {why}; {again}")
    if reference in failed:
        reference = "fifo" if "fifo" in summaries else next(iter(summaries))
    if "all" in evaluation.policy:
        summaries = dict(sorted(summaries.items(), key=lambda item: item[1]["mean_jct_s"].mean()))
    intervals, over = intervals_of(evaluation, results, reference)
    run_folder.write_run(folder, results, runner.document(summaries, bounds, reference, intervals))
    if (owners := runner.owners(workloads)) is not None:
        owners.to_csv(folder / run_folder.OWNERS, index=False)
    compared = table.table(summaries, bounds, reference, wide=evaluation.wide, intervals=intervals)
    out.print("", compared, "")
    if workloads[0].tenants:
        of_tenants = tenants.by_tenant({name: results[name] for name in summaries}, workloads)
        of_tenants.to_csv(folder / run_folder.TENANTS, index=False)
        out.print(tenants.table(of_tenants), "")
    found = (searched(policy, evaluation.scenario, evaluation.workload) for policy in policies)
    notes = [*dict.fromkeys(each.description for each in found if each)]
    learned = any(Path(policy).is_dir() for policy in {*evaluation.policy} - {*baselines.names()})
    if evaluation.scenario.full_trace and evaluation.scenario.trace_file and learned:
        notes.append("The agent may have been trained on the first part of this trace.")
    notes += table_notes.footnotes(workloads, summaries, policies, reference, bounds) + over
    notes += table_notes.late_in_words({name: results[name] for name in summaries}, workloads)
    found_on_log = verdicts(evaluation, workloads, results, folder)
    facts = provenance.collect(workloads, heading, notes)
    facts |= {"policy_files": journal.digests(evaluation.policy), "verdict": found_on_log}
    run_folder.write_json(folder / provenance.PROVENANCE, facts)
    file = run_folder.write_notes(folder, [*heading, "", *notes, *found_on_log])
    pictured = pictures(evaluation, folder, records, workloads)
    out.print(
        *table_notes.legend(workloads, summaries, reference), *over, *pictured, f"Notes: {file}", sep="\n"
    )
    if found_on_log:
        out.print("", *found_on_log, sep="\n", markup=False, highlight=False)
    if failed:
        raise ValueError(
            f"{len(failed)} of {len(makers)} policies failed and are not in the table: {why}; {again}"
        )


def recorded_schedule(evaluation: Evaluation, workloads: "Sequence[Workload]") -> "dict[str, pd.DataFrame]":
    """Return the schedule of the log, where it is asked for, by its name; ValueError where there is none."""
    from gpu_cluster_gym.evaluation import verdict

    if RECORDED not in evaluation.policy:
        return {}
    if why := verdict.why_none(workloads[0]):
        raise ValueError(f"--policy {RECORDED}: {why}")
    return {RECORDED: verdict.recorded(workloads[0])}


def intervals_of(
    evaluation: Evaluation, results: "Mapping[str, pd.DataFrame]", reference: str
) -> "tuple[dict[str, tuple[float, float]], list[str]]":
    """Return the intervals of a full trace's ratios by policy, and a line about them; nothing for windows."""
    from gpu_cluster_gym.evaluation import verdict

    if not evaluation.scenario.full_trace or len(results) < 2:
        return {}, []
    intervals, over = verdict.ratio_intervals(results, reference)
    return intervals, [over]


def verdicts(
    evaluation: Evaluation,
    workloads: "Sequence[Workload]",
    results: "Mapping[str, pd.DataFrame]",
    folder: Path,
) -> list[str]:
    """Return the verdicts on the policies asked for, and write the schedule of the log; empty without a full log."""
    scenario = evaluation.scenario
    if not (scenario.full_trace and scenario.trace_file):
        return []
    from gpu_cluster_gym.evaluation import verdict

    simulated = {name: each for name, each in results.items() if name != RECORDED}
    wanted = [name for name in simulated if name in evaluation.policy] or [*simulated]
    sentences, logged = verdict.lines(workloads[0], simulated, wanted)
    if logged is not None:
        run_folder.write_jobs(folder, RECORDED, logged)
    return sentences


def begun(evaluation: Evaluation, workloads: "Iterable[Workload]", folder: Path) -> "Journal":
    """Return the journal of a run, new or continued."""
    from gpu_cluster_gym.evaluation import journal

    asked = {name: getattr(evaluation, name) for name in ("workload", "record", "report", "perfetto")}
    return journal.begin(folder, asked, evaluation.policy, workloads)


def simulated(
    evaluation: Evaluation,
    makers: "Mapping[str, Maker]",
    workloads: "Sequence[Workload]",
    failed: "dict[str, Failure]",
    kept: "Journal",
) -> "tuple[dict[str, pd.DataFrame], dict[str, Record]]":
    """Return the results of each policy, and its records where they are wanted; add those that fail to `failed`."""
    from gpu_cluster_gym.evaluation import record, runner

    with progress("simulating", len(makers) * len(workloads)) as moved:
        how: dict[str, Any] = {
            "processes": evaluation.processes,
            "done": partial(one_more, moved),
            "failed": failed,
            "journal": kept,
        }
        if not evaluation.records:
            return runner.simulate(makers, workloads, **how), {}
        records = record.simulate(makers, workloads, **how)
    return {name: each.results for name, each in records.items()}, records


def pictures(
    evaluation: Evaluation, folder: Path, records: "Mapping[str, Record]", workloads: "Sequence[Workload]"
) -> list[str]:
    """Write the records, and the page and traces where they are wanted; return lines with their places."""
    from gpu_cluster_gym.evaluation import record

    if records:
        record.write(folder, records, workloads[0].cluster)
    if evaluation.perfetto:
        record.write_perfetto(folder, records, workloads[0].cluster)
    if not evaluation.report:
        return []
    from gpu_cluster_gym.evaluation.html_report import write

    return [f"Report: {write(folder)}"]


def reproduce(evaluation: Evaluation, paper: "Paper", settings: "Sequence[Setting]", folder: Path) -> None:
    """Run the experiment of a paper, print its tables and claims, and fill the run folder."""
    from gpu_cluster_gym.evaluation import table
    from gpu_cluster_gym.experiments import simulate, size

    out = table.console(sys.stdout)
    for line in paper.heading(settings):
        out.print(line)
    kept = begun(evaluation, (load for setting in settings for load in setting.workloads), folder)
    with progress("simulating", size(settings)) as moved:
        how: dict[str, Any] = {"processes": evaluation.processes, "journal": kept}
        found = simulate(settings, **how, done=partial(one_more, moved))
    for part in paper.report(found):
        out.print(part)
    files = paper.write(folder, str(evaluation.paper), found)
    out.print(f"Figure: {', '.join(map(str, files))}", f"Run folder: {folder}", sep="\n")


def one_more(moved: "Callable[..., None]", name: str, table: "pd.DataFrame") -> None:
    """Advance a progress bar by one simulation, with its mean JCT as text."""
    moved(1, f"{name}: mean JCT {table['jct_s'].mean():,.0f} s in window {table['window'].iloc[0]}")


if __name__ == "__main__":
    leave(main())
