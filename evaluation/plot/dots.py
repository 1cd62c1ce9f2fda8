"""The table of all policies as dots: mean JCT against the reference's, with its interval, a panel a workload."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from gpu_cluster_gym.evaluation.plot.style import BLUE, GREY, INCHES, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HIGH = 0.19  # inches of a row


def dots(table: pd.DataFrame, policies: Sequence[str], workloads: Sequence[str], *, marked: str) -> "Figure":
    """Draw some policies, from the top, on some workloads, in the width of a page; nothing where a policy did not run.

    table: columns workload, policy, ratio, low and high, as in docs/results.csv. marked: the policy in another colour.
    """
    from matplotlib.figure import Figure

    figure = Figure(
        figsize=(INCHES["page"], 0.75 + HIGH * len(policies)), layout="constrained", facecolor="white"
    )
    drawn = table["policy"].isin(policies) & table["workload"].isin(workloads)
    most = 1.05 * float(table.loc[drawn, "high"].max())
    for place, workload in enumerate(workloads):
        axes = figure.add_subplot(1, len(workloads), place + 1)
        own = table[table["workload"] == workload].set_index("policy").reindex(list(policies))
        _panel(axes, own, marked)
        axes.set_xlim(0, most)
        axes.set_title(workload)
        axes.set_yticks(range(len(policies)), policies if place == 0 else [])
    figure.supxlabel(
        "Mean job completion time / FIFO's, with its 95 % interval over unseen windows", fontsize=8
    )
    return figure


def _panel(axes: "Axes", own: pd.DataFrame, marked: str) -> None:
    """Draw a row a policy: a dot and its interval."""
    for row, (policy, each) in enumerate(own.iterrows()):
        colour = RED if policy == marked else BLUE
        axes.axhline(row, color="#e4e4e4", linewidth=0.5, zorder=0)
        axes.hlines(row, each["low"], each["high"], colour, linewidth=1.4)
        axes.plot(each["ratio"], row, "o", color=colour, markersize=4)
    axes.axvline(1, color=GREY, linewidth=0.8, zorder=0)
    axes.set_ylim(len(own) - 0.5, -0.5)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
