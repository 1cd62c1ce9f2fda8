"""Train a scheduling agent by reinforcement learning; score it on test windows."""

if not __package__:  # run as a script, where the package may not be installed
    import _checkout  # noqa: F401

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpu_cluster_gym import baselines
from gpu_cluster_gym.agents import check_installed
from gpu_cluster_gym.agents.training import (
    KINDS,
    MovesTraining,
    PlainTraining,
    SteerTraining,
    Training,
    usual,
)
from gpu_cluster_gym.evaluation import choices, command, provenance, run_folder
from gpu_cluster_gym.evaluation.command import processors, progress, working
from gpu_cluster_gym.evaluation.stopping import leave, with_message
from gpu_cluster_gym.simulator.choice import check, choice, flag
from gpu_cluster_gym.simulator.errors import StalledEpisodeError
from gpu_cluster_gym.workloads import DEFAULT, Scenario, Split, TooFewWindowsError, named, with_physics

if TYPE_CHECKING:
    import pandas as pd

    from gpu_cluster_gym.agents.callbacks import Validated
    from gpu_cluster_gym.agents.table import Trained
    from gpu_cluster_gym.simulator.policy import Policy

EXAMPLES = """Examples:
  python train_agent.py --trace philly                  start and pause jobs, from random weights
  python train_agent.py --action steer --workload busy  steer the rule union
  python train_agent.py --seeds 5                       five seeds
  python train_agent.py --action steer --workload mixed --extra-workloads busy quick
  python train_agent.py --workload mixed --action moves      choose moves
  python train_agent.py --resume runs/train-...         continue a run
--list workloads or traces: known names; --action NAME --help: its options"""
OWN = "own"
MIN_JOBS = 32
"""Smallest windows into which a short log is cut unless --jobs is given."""
_MODERATE = " in which jobs queue moderately"
ACTION = choices.Preset(
    "training", usual, lambda training: training.action, keeps=("learning_seed",), values=tuple(KINDS)
)
PRESETS = choices.WORKLOAD | {"action": ACTION}


@dataclass(frozen=True)
class Run:
    """Scenario, training options, and the final test."""

    scenario: Scenario = field(default_factory=partial(named, DEFAULT))
    """Jobs, cluster and rules. --workload sets the defaults that are shown."""
    training: Training = field(default_factory=PlainTraining)
    """Training options; --action selects the kind, and with it the further options and their defaults."""
    seeds: int = choice(1, least=1)
    """Number of agents to train, with consecutive learning seeds; they are reported together."""
    test_windows: int = choice(100, least=1)
    """Number of held-out test windows, which are not used for training or model selection; fewer if the trace has
    fewer."""
    processes: int | None = choice(None, least=1)
    """CPU cores to use, at most those available; default: all. Results do not depend on their number."""
    workload: str | None = None
    """Named workload (quick, mixed, two_types ...), which sets the scenario; other flags override it. Default: philly,
    whose windows are days at a steady load; but philly_backlog with another trace, a log, or a flag that implies
    windows with a fixed number of jobs (--jobs, --target-load, --all-windows)."""
    track: Literal["wandb", "mlflow"] | None = None
    """Additional experiment tracker; install it as an extra. wandb: offline in the run folder unless WANDB_MODE is
    online; mlflow: at MLFLOW_TRACKING_URI."""
    out: str | None = None
    """Run folder for agent, checkpoints, curves, choices and results; default: runs/train-<time>-<hash>."""
    config: str | None = None
    """Run folder or JSON file to read choices from; flags override it."""
    resume: str | None = None
    """Run folder of an interrupted, killed or failed run: continue it, with the results of an uninterrupted run."""
    trust: bool = False
    """Import the function that --config or --resume names as the reward; by default only flags may name code."""

    def __post_init__(self) -> None:
        """Raise ChoiceError with every invalid choice."""
        check(self)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code, 2 for invalid choices."""
    return command.run("train_agent.py", work, args)


def work(args: Sequence[str]) -> None:
    """Train and score agents; ValueError for invalid choices."""
    run = read_choices(args)
    if run.resume:
        run = choices_of_run(run, Path(run.resume), args)
    refuse_code(run, args)
    check_installed(run.track)
    run = within_trace(resolved(run), may_shrink=not {"jobs", "config"} & choices.written(args).keys())
    folder = Path(run.resume) if run.resume else run_folder.open_run_folder("train", run, run.out)
    print(f"Run folder: {folder} (curves: tensorboard --logdir {folder})")
    try:
        with run_folder.noting(folder):
            score(run, [train(run, number, folder) for number in range(run.seeds)], folder)
    except StalledEpisodeError as error:
        raise ValueError(f"{error}; the agents so far are in {folder}") from error
    except OSError as error:
        if error.errno in command.FULL and run_folder.resumable(folder):
            raise ValueError(
                f"no space is left on the disk: free some, and continue the run with {going_on(run, folder)}"
            ) from error
        raise
    except KeyboardInterrupt as stop:
        go_on = f"; continue it with {going_on(run, folder)}" if run_folder.resumable(folder) else ""
        raise with_message(stop, f"interrupted; the best agent so far is in {folder}{go_on}") from None


def read_choices(args: Sequence[str]) -> Run:
    """Return the choices of a command line."""
    about = f"{__doc__}\n\n{EXAMPLES}"
    run = choices.read(Run, args, command="train_agent.py", about=about, presets=PRESETS)
    if run.scenario.full_trace:
        raise ValueError(
            "--full-trace does not apply to training, which requires windows of a trace: drop it"
        )
    return replace(run, processes=run.processes and processors(run.processes))


def choices_of_run(run: Run, folder: Path, args: Sequence[str]) -> Run:
    """Return the choices of a run to resume; ValueError for further flags, or a run that has not been interrupted."""
    status = run_folder.status_of(folder)
    why = {
        None: "expected a run folder of train_agent.py",
        "running": f"it is still running: end it first (process and machine: {folder / run_folder.STATUS})",
        "finished": f"its run has finished; start a new one by --config {folder}",
    }.get(status)
    asked = choices.asked_for(args, Run).keys() - {"resume", "processes", "trust"}
    if not why and asked:
        why = f"it has the choices of its run: drop {', '.join(sorted(map(flag, asked)))}"
    if not why:
        of_run = choices.read(
            Run, ["--config", str(folder)], command="train_agent.py", about="", presets=PRESETS
        )
        run = replace(of_run, resume=str(folder), processes=run.processes, trust=run.trust)
    if why:
        raise ValueError(f"--resume {folder}: {why}")
    return run


def refuse_code(run: Run, args: Sequence[str]) -> None:
    """Raise ValueError where a file names a reward to import, and flags neither name it nor trust the file."""
    if file := run.resume or run.config:
        choices.refuse_code(file, [] if "reward" in choices.written(args) else own_rewards(run), run.trust)


def own_rewards(run: Run) -> list[str]:
    """Return the reward where it is a `module:function`, which is imported and run."""
    reward = getattr(run.training, "reward", "")
    return [reward] if ":" in reward else []


def going_on(run: Run, folder: Path) -> str:
    """Return the flags that continue a run."""
    return f"--resume {folder}{' --trust' * bool(own_rewards(run))}"


def resolved(run: Run) -> Run:
    """Return the choices with the absolute path of --init-from, and physics spelt out where it is what the log holds.

    ValueError for options that exclude each other, or an unreadable log.
    """
    from gpu_cluster_gym.agents.learn import learner_of

    run = replace(run, scenario=with_physics(run.scenario))
    if isinstance(run.training, PlainTraining):
        run = replace(run, scenario=run.training.practice(run.scenario))
    training = learner_of(run.scenario, run.training).training
    if not isinstance(training, SteerTraining | MovesTraining):
        return run
    return replace(run, training=replace(run.training, init_from=training.init_from))  # type: ignore[call-arg]


def within_trace(run: Run, *, may_shrink: bool) -> Run:
    """Return the choices with no more windows than the trace has of each split; print a note where it has fewer.

    may_shrink: whether a log that is too short for two validation and two test windows gets windows of any load; if
    these are too few, of half as many jobs, of a quarter, and so on.
    """
    training, scenarios = run.training, [run.scenario]
    counts: dict[Split, int] = {
        "train": training.windows,
        "validation": training.validation_windows,
        "test": run.test_windows,
    }
    if may_shrink and run.scenario.trace_file and run.scenario.steady_load is None:
        scenarios.append(replace(run.scenario, all_windows=True))
        while scenarios[-1].jobs // 2 >= MIN_JOBS:
            scenarios.append(replace(scenarios[-1], jobs=scenarios[-1].jobs // 2))
    chosen: tuple[Scenario, dict[Split, int]] | None = None
    why: TooFewWindowsError | None = None
    with working("preparing the jobs; the first run compiles the simulator"):
        for scenario in scenarios:
            try:
                found = {split: available(scenario, split, count) for split, count in counts.items()}
            except TooFewWindowsError as error:
                why = why or error
                continue
            chosen = chosen or (scenario, found)
            if all(found[split] >= min(2, counts[split]) for split in ("validation", "test")):
                chosen = scenario, found
                break
    if not chosen:
        also = f" (nor has a part of the log windows of {scenario.jobs} jobs: export more days)"
        raise TooFewWindowsError(f"{why}{also * (len(scenarios) > 1)}") from why
    scenario, found = chosen
    if scenario != run.scenario:
        print(
            f"Note: windows have {scenario.jobs} jobs, and any load, since the log is too short for two validation and "
            f"two test windows of {run.scenario.jobs} jobs{_MODERATE * (not run.scenario.all_windows)} (--jobs)."
        )
    for split, count in found.items():
        if count < counts[split]:
            windows = "1 window" if count == 1 else f"{count} windows"
            print(f"Note: the {split} part of the trace has {windows}, not {counts[split]:,}.")
    training = replace(training, windows=found["train"], validation_windows=found["validation"])
    return replace(run, scenario=scenario, training=training, test_windows=found["test"])


def available(scenario: Scenario, split: Split, limit: int) -> int:
    """Return the number of windows of a split, at most `limit`; ValueError for none."""
    from gpu_cluster_gym.envs.windows import shared_windows
    from gpu_cluster_gym.workloads import up_to

    try:
        return len(shared_windows(scenario, split, limit))
    except ValueError:
        return len(up_to(scenario, split, limit))


def train(run: Run, number: int, folder: Path) -> "Trained":
    """Train the agent of one seed, with a progress bar and a line per validation; return the kept checkpoint."""
    from gpu_cluster_gym.agents import load_policy
    from gpu_cluster_gym.agents.callbacks import pace, passed
    from gpu_cluster_gym.agents.checkpoint import about
    from gpu_cluster_gym.agents.learn import learn, learner_of
    from gpu_cluster_gym.agents.ppo import seed_of
    from gpu_cluster_gym.agents.resumption import finished, saved_steps
    from gpu_cluster_gym.agents.table import Trained, reference_of

    training = replace(run.training, learning_seed=seed_of(run.scenario, run.training) + number)
    own = folder / f"seed-{number}" if run.seeds > 1 else folder
    if run.seeds > 1:
        print(f"Agent {number + 1} of {run.seeds}")
    if run.resume and finished(own):
        print("Training had finished; its best agent is used.")
    elif run.resume:
        print(f"Training continues at step {saved_steps(own):,}.")
    times: list[tuple[float, Validated]] = []

    def note(validated: "Validated") -> None:
        times.append((time.perf_counter(), validated))
        print(line_of(validated, reference_of(training)), flush=True)

    if isinstance(training, PlainTraining) and training.steps_of_actor <= 0 and not number:
        print(
            f"Note: with --total-timesteps {training.total_timesteps} PPO will not change the actor, since only the "
            f"critic learns from the first {training.critic_first} rollouts: add at least "
            f"{1 - training.steps_of_actor} steps, or lower --critic-first."
        )
    before = "drawing windows and simulating the heuristics"
    with progress("training", training.total_timesteps, before=before) as stepped:
        how: dict[str, Any] = {"threads": processors(run.processes), "track": run.track}
        how |= {"resume": bool(run.resume)}
        best = learn(run.scenario, training, own, **how, stepped=stepped, validated=note)
    if times:
        print(pace(times, reference_of(training)), passed(times), sep="\n")
    if not best.exists():
        raise ValueError(
            "no agent is saved, since jobs never end under any checkpoint: raise --total-timesteps, or with --action "
            "plain --min-run-s"
        )
    constant = learner_of(run.scenario, training).constant_policy(about(best)["validation"])
    return Trained(best, load_policy(best), constant)


def line_of(validated: "Validated", reference: str) -> str:
    """Return a validation as a line; its other numbers are in validation.csv."""
    remark = "  before training" if not validated.step else "  kept" if validated.best else ""
    return f"step {validated.step:>9,}: mean JCT / {reference} {validated.own.ratio:.4f}{remark}"


def score(run: Run, agents: "Sequence[Trained]", folder: Path) -> None:
    """Print and save the table of agents and heuristics on the test windows of each workload."""
    from gpu_cluster_gym.agents.ppo import scenarios_of
    from gpu_cluster_gym.agents.table import in_table, verdicts
    from gpu_cluster_gym.evaluation import table

    own = run.workload or choices.workload_like(run.scenario) or OWN
    extra = run.training.extra_workloads if isinstance(run.training, SteerTraining) else ()
    scenarios = scenarios_of(run.scenario, run.training, OWN if own in extra else own)
    policies, summaries = in_table(run.scenario, run.training, agents, tuple(scenarios)), []
    for name, scenario in scenarios.items():
        if several := len(scenarios) > 1:
            print(f"\n{name}:")
        test = replace(run, scenario=scenario)
        summaries.append(score_on(test, policies, len(agents), folder / name if several else folder))
    if len(scenarios) > 1:
        found = verdicts(together(summaries), len(agents), run.training)
        run_folder.write_notes(folder, found)
        print(f"\nAll {len(scenarios)} workloads together:")
        table.console(sys.stdout).print(found[0])
    again = f"--config {folder} --policy {agents[0].folder} --windows {run.test_windows}"
    print(f"Score again: python evaluate.py {again}")


def together(summaries: "Sequence[dict[str, pd.DataFrame]]") -> "dict[str, pd.DataFrame]":
    """Return the summaries of several workloads as one, of the policies that are in all of them."""
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
    run: Run, policies: "dict[str, Policy | type]", count: int, folder: Path
) -> "dict[str, pd.DataFrame]":
    """Print and save the table of one workload, with `count` agents in it; return the summaries."""
    from gpu_cluster_gym.agents.table import how_actions_are_chosen, reference_of, those_that_end, verdicts
    from gpu_cluster_gym.envs.windows import shared_windows
    from gpu_cluster_gym.evaluation import runner, table, table_notes

    folder.mkdir(exist_ok=True)
    with working("drawing the test windows"):
        workloads = shared_windows(run.scenario, "test", run.test_windows)
    makers = {name: partial(baselines.make, policy) for name, policy in policies.items()}
    total, before = len(makers) * len(workloads), "simulating the test windows"
    with progress("simulating", total, before=before) as moved:
        how: dict[str, Any] = {"processes": processors(run.processes), "done": lambda name, found: moved(1)}
        results, stalled = those_that_end(makers, workloads, **how)
    bounds = runner.bounds(workloads)
    summaries = runner.score(results, workloads, bounds)
    start = reference_of(run.training)
    reference = start if start in summaries else next(iter(summaries))
    run_folder.write_run(folder, results, runner.document(summaries, bounds, reference))
    out, heading = table.console(sys.stdout), table_notes.heading(workloads)
    ended = {name: policies[name] for name in results}
    left_out = [f"Left out: {name}, under which jobs never end: {why}." for name, why in stalled.items()]
    notes = [*left_out, *table_notes.footnotes(workloads, summaries, ended, reference, bounds)]
    found = verdicts(summaries, count, run.training)
    actions = how_actions_are_chosen(summaries, count, run.training)
    run_folder.write_json(folder / provenance.PROVENANCE, provenance.collect(workloads, heading, notes))
    file = run_folder.write_notes(folder, [*heading, "", *notes, actions, "", *found])
    out.print("", *heading[:3], "", table.table(summaries, bounds, reference), "", sep="\n")
    legend = table_notes.legend(workloads, summaries, reference)
    out.print(*left_out, found[0], actions, *legend, f"Notes: {file}", sep="\n")
    return summaries


if __name__ == "__main__":
    leave(main())
