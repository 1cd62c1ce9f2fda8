"""Ship an agent with the project, with a card: `python -m benchmarks.ship RUN [--name NAME] [--judgement FILE]`.

RUN is a folder that `train_agent.py` left. Of several seeds the one that did best on validation windows is taken; all
stand in the card. The table is of the run's own test windows, or of a judgement by `evaluate.py --protocol RUN`.
`python train_agent.py --config agents/shipped/NAME/choices.json` trains it again from nothing.
"""

import argparse
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gpu_cluster_gym.agents import checkpoint
from gpu_cluster_gym.agents.callbacks import CURVE
from gpu_cluster_gym.agents.pretrained import CARD, FOR_ALL, SHIPPED
from gpu_cluster_gym.agents.training import Training
from gpu_cluster_gym.evaluation.choices import workload_like
from gpu_cluster_gym.evaluation.comparison import Comparison, compare
from gpu_cluster_gym.evaluation.run_folder import BEST, CHOICES, JOBS
from gpu_cluster_gym.simulator.rule_policy import arrivals_per_decision

CANNOT = """\
- Jobs, profiles and pause costs are simulated; `benchmarks/calibration.py` prints the errors of the simulator.
- It was not tested on other machines, loads or physics, except for the shifts in docs/learning.md."""

BEYOND = {
    "steer": "It sets the weights of a hand-made rule (`simulator.rule.Rule`) and shares the limits of that rule.",
    "moves": "It chooses only among the moves listed at each decision, and the rule divides the cores. It cannot be "
    "the base policy of `lookahead:`.",
}
"""What is beyond an agent, by its action."""
SHIFTED = ", without and with shifts (`--vary`)"
CONSTANTS = " with constants from a search"


class Seed(NamedTuple):
    """One agent of a run: where it is, how it did on validation windows and at which step, its last, and minutes."""

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
    """Read what a run noted of an agent."""
    rows = pd.read_csv(folder / CURVE)
    events = EventAccumulator(str(folder)).Reload()
    times = [each.wall_time for each in events.Scalars("jct/agent")]
    commit = events.Tensors("commit/text_summary")[0].tensor_proto.string_val[0].decode()
    best = rows.iloc[int(rows["greedy_ratio_to_start"].argmin())]
    return Seed(
        f"agent_{number}",
        folder,
        float(best["greedy_ratio_to_start"]),
        int(best["step"]),
        int(rows["step"].max()),
        (times[-1] - times[0]) / 60,
        commit,
    )


def lasted(minutes: float) -> str:
    """Put a time into words, in seconds where it is short."""
    return f"{60 * minutes:.0f} seconds" if minutes < 2 else f"{minutes:.0f} minutes"


def tables(
    run: Path, learned_on: Sequence[str], judgement: Path | None
) -> Iterator[tuple[str, dict[str, pd.DataFrame]]]:
    """Yield each workload with the mean JCT of every policy's test windows."""
    if judgement:
        found = json.loads(judgement.read_text(encoding="utf-8"))["by_window"]
        yield learned_on[0], {name: pd.DataFrame(each) for name, each in found.items()}
        return
    for name in learned_on:
        folder = run / name if len(learned_on) > 1 else run
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
    found: dict[str, pd.DataFrame], shipped: Seed, start: str, constants: str
) -> dict[str, Comparison]:
    """Compare the shipped agent with every other policy of a table.

    start, constants: what to call the rule it is compared with, and the constants. What it does on average stands
    first, where that can be held.
    """
    number = shipped.name.removeprefix("agent_")
    own, held = (
        name if name in found else name[: name.index("_")] for name in (shipped.name, f"held_{number}")
    )
    others = {name: each for name, each in found.items() if not name.startswith(("agent", "held"))}
    return {
        **({"its mean action as a constant": compare(found[own], found[held])} if held in found else {}),
        **{
            {"start": start, "constants": constants}.get(name, f"`{name}`"): compare(found[own], each)
            for name, each in others.items()
        },
    }


def learned(training: Training, shipped: Seed, arrivals: int) -> str:
    """Say how an agent has learned, and whether what is shipped looks at the load."""
    if training.algorithm == "student":
        return (
            f"A student of look-ahead on the rule `union`{CONSTANTS * (training.begin == 'constants')}: a network "
            f"predicts the advantage of each listed move in simulated futures"
            f"{f' (time constant {training.tau_s:,.0f} s)' if training.tau_s else ''}, and deviates from the rule's "
            "own move if the predicted advantage exceeds a margin (docs/learning.md)."
        )
    rule = f"{len(training.weights)} weights of the rule `union`{CONSTANTS * (training.begin == 'constants')}"
    by_state = f"from the load after every {arrivals} arrivals"
    if not training.first_phase:
        return f"An agent of PPO (Stable-Baselines3) that sets {rule} {by_state} (docs/learning.md)."
    if training.algorithm == "distillation":
        improved = shipped.best > training.first_phase
        then = (
            "then trained by PPO of Stable-Baselines3"
            if improved
            else "not improved by PPO of Stable-Baselines3"
        )
        return (
            f"One network, distilled in {training.first_phase:,} decisions from the constants that a search found for "
            f"{rule} on each workload, {then}. It sets the weights {by_state} (docs/learning.md)."
        )
    found = f"Constants for {rule}, from a CMA-ES search of {training.first_phase:,} decisions. "
    found += "PPO of Stable-Baselines3 "
    if shipped.best <= training.first_phase:
        return (
            f"{found}continued from them without improvement on validation windows, so this agent does not depend on "
            "the state (docs/learning.md)."
        )
    return f"{found}continued from them and sets the weights {by_state} (docs/learning.md)."


def card(run: Path, name: str, seeds: Sequence[Seed], shipped: Seed, judgement: Path | None) -> str:
    """Return the card of an agent as Markdown."""
    agent = checkpoint.load(shipped.folder / BEST)
    scenario, training = agent.scenario, agent.training
    learned_on = [workload_like(scenario) or "own", *training.also]
    lines = [
        f"# The agent of {'several workloads' if name == FOR_ALL else f'`{name}`'}",
        "",
        learned(training, shipped, arrivals_per_decision(scenario.jobs, training.decisions)),
        "",
        f"- Trained on: {', '.join(f'`{each}`' for each in learned_on)}; physics: "
        f"{scenario.physics if len(learned_on) == 1 else 'that of each'}; {training.windows} training windows each"
        f"{SHIFTED * training.vary}.",
        f"- {shipped.steps:,} decisions, {lasted(shipped.minutes)} of a shared machine, "
        f"training seed {training.learning_seed}; commit {shipped.commit}.",
        f"- {levers(training)}.",
        f"- Retrain: `python train_agent.py --config agents/shipped/{name}/{CHOICES}`.",
        "",
        "Mean JCT relative to `union` on validation windows, used to select the checkpoint of each seed and the "
        "shipped seed: "
        + ", ".join(f"{each.validation:.4f}{' (shipped)' if each is shipped else ''}" for each in seeds)
        + ".",
    ]
    start = "initial policy (`union`)" if training.begin == "union" else "`union`"
    constants = "`constants`" if len(learned_on) == 1 else "constants searched for all workloads together"
    for workload, found in tables(run, learned_on, judgement):
        lines += ["", *table(workload, against(found, shipped, start, constants))]
    return "\n".join([*lines, "", "## Limitations", "", f"- {BEYOND[training.action]}", CANNOT, ""])


def levers(training: Training) -> str:
    """Name the weights that an agent steers, or the kinds of moves that it makes."""
    label, names = "Steered weights:", training.weights
    if training.action == "moves":
        label = "Waits and pauses only where the rule does; allowed deviations from the rule:"
        names = training.instead
    return f"{label} {', '.join(f'`{each}`' for each in names)}"


def table(workload: str, rows: dict[str, Comparison]) -> list[str]:
    """Return a table of what an agent's mean JCT is against others', on unseen windows."""
    windows = next(iter(rows.values())).windows
    return [
        f"## On {windows} test windows of `{workload}`",
        "",
        "| mean JCT relative to | ratio | 95 % interval | lower in |",
        "|---|---|---|---|",
        *(
            f"| {name} | {each.ratio:.3f} | {each.low:.3f}-{each.high:.3f} | {each.wins} |"
            for name, each in rows.items()
        ),
    ]


def main(args: Sequence[str] | None = None) -> None:
    """Copy the agent and write its card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="folder that train_agent.py left")
    parser.add_argument("--name", help="what to call it; its workload, or `all` where it learned on several")
    parser.add_argument("--judgement", type=Path, help="protocol.json of evaluate.py --protocol RUN")
    chosen = parser.parse_args(args)
    seeds = seeds_of(chosen.run)
    shipped = min(seeds, key=lambda seed: seed.validation)
    agent = checkpoint.load(shipped.folder / BEST)
    name = chosen.name or (FOR_ALL if agent.training.also else workload_like(agent.scenario))
    if name is None:
        parser.error("this scenario is none of the workloads: give a --name")
    if agent.training.action != "steer" and agent.training.algorithm != "student":
        parser.error("a card is written for agents that steer and for students of look-ahead")
    text = card(chosen.run, name, seeds, shipped, chosen.judgement)
    folder = SHIPPED / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(shipped.folder / BEST, folder)
    choices = json.loads((chosen.run / CHOICES).read_text(encoding="utf-8"))
    choices["training"]["weights"] = agent.training.weights  # also where the usual ones become others
    (folder / CHOICES).write_text(json.dumps(choices, indent=2) + "\n", encoding="utf-8")
    (folder / CARD).write_text(text, encoding="utf-8")
    print(folder / CARD)


if __name__ == "__main__":
    main()
