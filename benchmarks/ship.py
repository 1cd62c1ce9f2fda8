"""Ship an agent with the project, with a card: `python -m benchmarks.ship RUN [--name NAME] [--judgement FILE]`.

RUN is an output folder of `train_agent.py`. The seed with the best validation score is shipped; the card lists all
seeds. Its table has the run's own test windows, or those of a file by `evaluate.py --protocol RUN` (`--judgement`).
`python train_agent.py --config agents/shipped/NAME/choices.json` trains the agent again from scratch.
"""

import argparse
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gpu_cluster_gym.agents import checkpoint, integrity
from gpu_cluster_gym.agents.callbacks import CURVE
from gpu_cluster_gym.agents.pretrained import CARD, FOR_ALL, PLAIN, SHIPPED
from gpu_cluster_gym.agents.table import init_from, reference_of
from gpu_cluster_gym.agents.training import MovesTraining, PlainTraining, SteerTraining, Training
from gpu_cluster_gym.evaluation.choices import workload_like
from gpu_cluster_gym.evaluation.comparison import Comparison, compare
from gpu_cluster_gym.evaluation.run_folder import BEST, CHOICES, JOBS
from gpu_cluster_gym.simulator.rule_policy import arrivals_per_decision

LIMITS = """\
- Jobs, profiles and pause times are those of the simulator, whose errors `python -m benchmarks.calibration` prints.
- It was not tried on other machines, loads or physics{}."""

OF_ACTION = {
    "steer": "It sets the weights of a hand-written rule (`simulator.rule_policy.Rule`) and cannot do what the rule "
    "cannot.",
    "moves": "It chooses among the moves of a list, and CPU cores follow the rule. `lookahead:` cannot be based on it.",
    "plain": "It starts and pauses jobs on whole GPUs; it cannot share GPUs, resize jobs or set CPU cores.",
}
"""Limitations by action kind."""
TITLES = {
    FOR_ALL: "# General agent, trained on several workloads",
    PLAIN: "# Agent that starts and pauses single jobs, trained from random weights",
}
SHIFTED = ", without and with shifts (`--domain-randomization`)"
CONSTANTS = " with constants found by a search"
MEAN_ACTION = "mean_action"


class Seed(NamedTuple):
    """Agent of one seed of a run.

    validation: mean JCT relative to the initial policy on validation windows, at the best checkpoint.
    best: step of that checkpoint.
    steps: last step.
    minutes: duration of the training.
    """

    name: str
    folder: Path
    validation: float
    best: int
    steps: int
    minutes: float
    commit: str


def seeds_of(run: Path) -> list[Seed]:
    """Return the agents of a run."""
    folders = sorted(each for each in run.glob("seed-*") if each.is_dir()) or [run]
    return [seed_of(number, folder) for number, folder in enumerate(folders)]


def seed_of(number: int, folder: Path) -> Seed:
    """Return the agent in a folder, with its training record."""
    rows = pd.read_csv(folder / CURVE)
    events = EventAccumulator(str(folder)).Reload()
    times = [each.wall_time for each in events.Scalars("jct/agent")]
    commit = events.Tensors("commit/text_summary")[0].tensor_proto.string_val[0].decode()
    about = checkpoint.about(folder / BEST)
    return Seed(
        f"agent_{number}",
        folder,
        float(about["validation_ratio_to_start"]),
        int(about["step"]),
        int(rows["step"].max()),
        (times[-1] - times[0]) / 60,
        commit,
    )


def duration(minutes: float) -> str:
    """Return a duration in words, in seconds if it is short."""
    return f"{60 * minutes:.0f} seconds" if minutes < 2 else f"{minutes:.0f} minutes"


def tables(
    run: Path, trained_on: Sequence[str], judgement: Path | None
) -> Iterator[tuple[str, dict[str, pd.DataFrame]]]:
    """Yield each workload with the mean JCTs of all policies by test window."""
    if judgement:
        found = json.loads(judgement.read_text(encoding="utf-8"))["by_window"]
        yield trained_on[0], {name: pd.DataFrame(each) for name, each in found.items()}
        return
    for name in trained_on:
        folder = run / name if len(trained_on) > 1 else run
        yield (
            name,
            {
                each.parent.name: pd.read_csv(each)
                .groupby(["window", "seed"])["jct_s"]
                .mean()
                .rename("mean_jct_s")
                .reset_index()
                for each in sorted(folder.glob(f"*/{JOBS}"))
            },
        )


def against(
    found: dict[str, pd.DataFrame], shipped: Seed, reference: str, start: str, constants: str
) -> dict[str, Comparison]:
    """Compare the shipped agent with each other policy of a table, its constant-action control first.

    reference: name of its reference. start, constants: names of the reference and of the constants in the card.
    """
    number = shipped.name.removeprefix("agent_")
    own, constant = (
        f"{name}_{number}" if f"{name}_{number}" in found else name for name in ("agent", MEAN_ACTION)
    )
    others = {name: each for name, each in found.items() if not name.startswith(("agent", MEAN_ACTION))}
    return {
        **(
            {"its constant-action control": compare(found[own], found[constant])} if constant in found else {}
        ),
        **{
            {reference: start, "constants": constants}.get(name, f"`{name}`"): compare(found[own], each)
            for name, each in others.items()
        },
    }


def method(training: Training, shipped: Seed, jobs: int) -> str:
    """Return a description of the training, and whether the shipped agent depends on the load."""
    if isinstance(training, MovesTraining):
        return (
            f"This agent imitates look-ahead on the rule `union`{CONSTANTS * (training.init_from == 'constants')}: its "
            "network was trained to predict the advantage of each listed move in simulated futures"
            f"{f' (time constant {training.tau_s:,.0f} s)' if training.tau_s else ''}. A move replaces the rule's own "
            "where its predicted advantage exceeds a margin (docs/learning.md)."
        )
    if isinstance(training, PlainTraining):
        began = f"It imitated SRTF for {training.first_phase:,} steps, then " if training.first_phase else ""
        return (
            f"{began}PPO of Stable-Baselines3 trained the network from random weights: it starts a job, pauses one, or "
            "waits, and samples its actions (docs/learning.md)."
        )
    assert isinstance(training, SteerTraining)
    rule = f"{len(training.weights)} weights of the rule `union`{CONSTANTS * (training.init_from == 'constants')}"
    arrivals = arrivals_per_decision(jobs, training.decisions_per_window)
    by_state = f"after every {arrivals} arrivals, by the load"
    if not training.first_phase:
        return (
            f"PPO of Stable-Baselines3 trained the network, which sets {rule}, {by_state} (docs/learning.md)."
        )
    later = shipped.best > training.first_phase
    if training.algorithm == "distillation":
        then = "continued from there" if later else "continued without an improvement"
        return (
            f"One network was distilled, in {training.first_phase:,} steps, from the constants found by a search for "
            f"{rule} on each workload; PPO of Stable-Baselines3 {then}. The network sets the weights {by_state} "
            "(docs/learning.md)."
        )
    found = (
        f"CMA-ES searched constants for {rule} in {training.first_phase:,} steps; PPO of Stable-Baselines3 "
    )
    if not later:
        return (
            f"{found}did not improve on them on validation windows: this agent keeps the constants "
            "(docs/learning.md)."
        )
    return f"{found}continued from them: the agent sets them {by_state} (docs/learning.md)."


def card(run: Path, name: str, seeds: Sequence[Seed], shipped: Seed, judgement: Path | None) -> str:
    """Return the card of an agent as Markdown."""
    agent = checkpoint.load(shipped.folder / BEST)
    scenario, training = agent.scenario, agent.training
    extra = training.extra_workloads if isinstance(training, SteerTraining) else ()
    with_shifts = isinstance(training, SteerTraining) and training.domain_randomization
    own = scenario.trace_name if isinstance(training, PlainTraining) else None
    trained_on = [workload_like(scenario) or own or "own", *extra]
    reference = reference_of(training)
    lines = [
        TITLES.get(name, f"# Agent for `{name}`"),
        "",
        method(training, shipped, scenario.jobs),
        "",
        f"- Trained on: {', '.join(f'`{each}`' for each in trained_on)}; physics: "
        f"{scenario.physics_name if len(trained_on) == 1 else 'that of each'}; {training.windows} "
        f"training windows{' each' * (len(trained_on) > 1)}{SHIFTED * with_shifts}.",
        f"- {shipped.steps:,} steps, {duration(shipped.minutes)} on a shared machine, "
        f"learning seed {training.learning_seed}; commit {shipped.commit}.",
        f"- {levers(training)}.",
        f"- Reproduce: `python train_agent.py --config agents/shipped/{name}/{CHOICES}`.",
        "",
        f"Mean JCT / that of `{reference}` on the validation windows, which selected the checkpoint of each seed and "
        "the seed: "
        + ", ".join(f"{each.validation:.4f}{' (this agent)' if each is shipped else ''}" for each in seeds)
        + ".",
    ]
    from_union = init_from(training) == "union" and reference == "union"
    start = "`union`, its initial policy" if from_union else f"`{reference}`"
    constants = "`constants`" if len(trained_on) == 1 else "constants searched for all workloads together"
    for workload, found in tables(run, trained_on, judgement):
        lines += ["", *table(workload, against(found, shipped, reference, start, constants))]
    shifted = ", except under the shifts in docs/learning.md" if isinstance(training, SteerTraining) else ""
    limits = f"- {OF_ACTION[training.action]}", LIMITS.format(shifted)
    return "\n".join([*lines, "", "## Limitations", "", *limits, ""])


def levers(training: Training) -> str:
    """Return the weights that an agent sets, or the kinds of moves that it may choose."""
    if isinstance(training, SteerTraining):
        return f"Weights: {', '.join(f'`{each}`' for each in training.weights)}"
    if isinstance(training, PlainTraining):
        return (
            f"Trained and tested on a cluster of {training.practice_cluster}, in windows of 3 + 3 + 6 days (before the "
            "counted jobs, with them, and after them); it acts on any cluster"
        )
    assert isinstance(training, MovesTraining)
    return (
        f"Moves that may replace the rule's own: {', '.join(f'`{each}`' for each in training.allowed_moves)}"
    )


def table(workload: str, rows: dict[str, Comparison]) -> list[str]:
    """Return the table of an agent's mean JCT relative to other policies, on test windows."""
    windows = next(iter(rows.values())).windows
    return [
        f"## On {windows} test windows of `{workload}`",
        "",
        "| mean JCT relative to | ratio | 95 % interval | windows with a lower one |",
        "|---|---|---|---|",
        *(
            f"| {name} | {each.ratio:.3f} | {each.low:.3f}-{each.high:.3f} | {each.wins} |"
            for name, each in rows.items()
        ),
    ]


def main(args: Sequence[str] | None = None) -> None:
    """Copy the agent and write its card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="output folder of train_agent.py")
    parser.add_argument("--name", help="name of the agent; default: its workload, or `all` for several")
    parser.add_argument("--judgement", type=Path, help="protocol.json of evaluate.py --protocol RUN")
    chosen = parser.parse_args(args)
    seeds = seeds_of(chosen.run)
    shipped = min(seeds, key=lambda seed: seed.validation)
    agent = checkpoint.load(shipped.folder / BEST)
    several = isinstance(agent.training, SteerTraining) and agent.training.extra_workloads
    name = chosen.name or (FOR_ALL if several else workload_like(agent.scenario))
    if name is None:
        parser.error("--name is required: the run has a custom scenario")
    if isinstance(agent.training, MovesTraining) and agent.training.algorithm != "student":
        parser.error("cards are written for steering and plain agents and for students of look-ahead only")
    text = card(chosen.run, name, seeds, shipped, chosen.judgement)
    folder = SHIPPED / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(shipped.folder / BEST, folder)
    choices = json.loads((chosen.run / CHOICES).read_text(encoding="utf-8"))
    if isinstance(agent.training, SteerTraining):
        choices["training"]["weights"] = agent.training.weights  # explicit, in case the defaults change
    (folder / CHOICES).write_text(json.dumps(choices, indent=2) + "\n", encoding="utf-8")
    (folder / CARD).write_text(text, encoding="utf-8")
    integrity.sign(folder)
    print(folder / CARD)


if __name__ == "__main__":
    main()
