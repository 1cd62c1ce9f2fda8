"""How agents learned: mean JCT on validation windows over that of their start, by decision, a panel a run."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from gpu_cluster_gym.evaluation.plot.style import BLUE, GREY, INCHES, INK, Width
from gpu_cluster_gym.evaluation.run_folder import CHOICES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVE = "validation.csv"
GREEDY, SAMPLED = "greedy_ratio_to_start", "sampled_ratio_to_start"
HIGH = 2.2  # inches
MOST = 1.05  # times their start that is shown


def curves(folder: Path) -> list[pd.DataFrame]:
    """Return the validations of a run of `train_agent.py`, a table an agent; none where the folder is no such run."""
    files = sorted(folder.glob(f"seed-*/{CURVE}")) or [*folder.glob(CURVE)]
    return [pd.read_csv(file) for file in files]


def title(folder: Path) -> str:
    """Return what a run learned on: its workload, or its trace; ValueError where its choices cannot be read."""
    try:
        choices = json.loads((folder / CHOICES).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder} has no choices that can be read: {error}") from None
    scenario = choices["scenario"]
    found = choices.get("workload") or scenario["trace"] or scenario["trace_file"] or "philly"
    taught = ", taught by finished jobs" if scenario.get("run_time_predictor") else ""
    return f"{found}{taught}"


def learning(runs: Sequence[tuple[str, Sequence[pd.DataFrame]]], width: Width = "page") -> "Figure":
    """Draw each run's agents, by their most likely actions and with their noise; 1 is their start."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(INCHES[width], HIGH), layout="constrained", facecolor="white")
    least = min(float(each[[GREEDY, SAMPLED]].min().min()) for _, agents in runs for each in agents)
    for place, (name, agents) in enumerate(runs):
        axes = figure.add_subplot(1, len(runs), place + 1)
        _panel(axes, agents)
        axes.set_title(name)
        axes.set_ylim(least - 0.005, MOST)
        if place:
            axes.set_yticklabels([])
    figure.axes[0].legend(frameon=False, loc="upper right")
    figure.supylabel("Mean JCT / that of the start", fontsize=8)
    figure.supxlabel("Decisions, thousands", fontsize=8)
    return figure


def _panel(axes: "Axes", agents: Sequence[pd.DataFrame]) -> None:
    """Draw a line an agent, and a faint one with its noise."""
    axes.axhline(1, color=GREY, linewidth=0.8, zorder=0)
    for number, each in enumerate(agents):
        thousands = each["step"] / 1000
        words = ("with its noise", "an agent") if number == 0 else (None, None)
        axes.plot(
            thousands, each[SAMPLED].clip(upper=2), color=GREY, linewidth=0.6, alpha=0.6, label=words[0]
        )
        axes.plot(thousands, each[GREEDY].clip(upper=2), color=BLUE, linewidth=1.1, label=words[1])
    best = min(agents, key=lambda each: float(each[GREEDY].min()))
    row = best.iloc[int(best[GREEDY].to_numpy().argmin())]
    axes.plot(row["step"] / 1000, row[GREEDY], "o", color=INK, markersize=3, label="the best")
    axes.set_xlim(left=0)
