"""Tables for a paper, as CSV with all metrics and LaTeX with some: policies, users, virtual clusters, tenants."""

import math
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path

import pandas as pd

from gpu_cluster_gym.evaluation.comparison import compare, compare_metric
from gpu_cluster_gym.evaluation.metrics import OWNERS
from gpu_cluster_gym.evaluation.plot.run_tables import Run
from gpu_cluster_gym.evaluation.plot.style import unit_of
from gpu_cluster_gym.evaluation.tenants import by_owner

WORDS = {"user": "User", "vc": "Virtual cluster", "tenant": "Tenant"}
MAX_ROWS = 20
"""Maximum number of owners in LaTeX: those that hold most GPU time under the first policy."""
_SPECIAL = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


POLICY = "policy"
"""Name of the table with a row per policy."""
PAIRED = ("mean_wait_s", "mean_slowdown")
"""Metrics of which ratios are given, as of mean JCT."""
_COLUMNS = (
    ("p95_jct_s", "P95 JCT", "seconds"),
    ("mean_wait_s", "Wait", "seconds"),
    ("mean_slowdown", "Slowdown", "ratio"),
    ("unfair_share", "FTF $>$ 1", "share"),
    ("preemptions", "Preemptions", "count"),
)
"""Metrics in the LaTeX table of policies behind mean JCT and its ratio: name, heading and form."""


def write_policies(run: Run, place: Path) -> list[Path]:
    """Write the table of policies as CSV and as LaTeX, and that of pairs as CSV; return the files."""
    means = pd.DataFrame(run.summary["mean_over_windows"]).T.reindex(list(run.policies))
    ratios = pd.DataFrame({name: each._asdict() for name, each in run.ratios.items()}).T
    found = ratios[["ratio", "low", "high", "windows"]].join(means).rename_axis(POLICY)
    by_window = {name: pd.DataFrame(rows) for name, rows in run.summary["by_window"].items()}
    for number in PAIRED:
        for name in run.policies:
            if each := compare_metric(by_window[name], by_window[run.reference], number):
                for part, value in zip(("ratio", "low", "high"), each[:3], strict=True):
                    found.loc[name, f"{number}_{part}"] = value
    files = [place / name for name in ("policies.csv", "policies.tex", "pairs.csv")]
    found.to_csv(files[0], float_format="%.10g")
    files[1].write_text(latex_of_policies(found, run.reference), encoding="utf-8")
    if len(run.policies) < 2:
        return files[:2]
    found = pairs({name: by_window[name] for name in run.policies})
    found.to_csv(files[2], index=False, float_format="%.10g")
    return files


def pairs(summaries: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Compare every policy with every other one; return a row per ordered pair.

    summaries: by policy, those of `evaluation.metrics.summarise`.
    Columns: policy, reference, windows, wins (windows with a shorter mean JCT), and for mean JCT, mean wait and mean
    slowdown the ratio policy / reference with its 95 % interval: NaN for a single window, or where the reference's
    metric is 0 in some window.
    """
    rows = []
    for policy, reference in permutations(summaries, 2):
        jct = compare(summaries[policy], summaries[reference])
        row = {"policy": policy, "reference": reference, "windows": jct.windows, "wins": jct.wins}
        row |= {"ratio": jct.ratio, "low": jct.low, "high": jct.high}
        for number in PAIRED:
            each = compare_metric(summaries[policy], summaries[reference], number)
            parts = ("ratio", "low", "high")
            row |= {f"{number}_{part}": getattr(each, part) if each else math.nan for part in parts}
        rows.append(row)
    return pd.DataFrame(rows)


def latex_of_policies(found: pd.DataFrame, reference: str) -> str:
    """Return a table for the LaTeX package booktabs, a row per policy; the lowest ratio is bold.

    found: indexed by policy, with ratio, low, high, windows and the metrics of a summary. All times are in one unit.
    """
    unit, seconds = unit_of(max(float(found["mean_jct_s"].median()), 1.0))
    shown = [column for column in _COLUMNS if column[0] in found and found[column[0]].notna().any()]
    heads = [f"{heading}, {unit}" if form == "seconds" else heading for _, heading, form in shown]
    windows = int(found["windows"].iloc[0])
    lines = [
        "% \\usepackage{booktabs}",
        f"% Means over {windows} windows; ratios are means of the windows' ratios, with 95 % bootstrap intervals."
        if windows > 1
        else "% One window; 95 % bootstrap intervals are over blocks of time, where there are enough.",
        "% Slowdown: JCT / run time under the policy (below 10 s: 10 s).",
        "% FTF: JCT / JCT with an equal share of the GPUs.",
        f"\\begin{{tabular}}{{lr{'r' * (1 + len(shown))}}}",
        "\\toprule",
        f"Policy & JCT, {unit} & JCT / {escaped(reference)} & {' & '.join(heads)} \\\\",
        "\\midrule",
    ]
    for policy, row in found.iterrows():
        ratio = f"{row['ratio']:.2f}"
        if row["ratio"] == found["ratio"].min():
            ratio = f"\\textbf{{{ratio}}}"
        if policy != reference and windows > 1:
            ratio += f" ({row['low']:.2f}--{row['high']:.2f})"
        cells = [escaped(str(policy)), f"{row['mean_jct_s'] / seconds:,.2f}", ratio]
        for name, _, form in shown:
            value = row[name]
            text = {
                "seconds": f"{value / seconds:,.2f}",
                "ratio": f"{value:,.2f}",
                "share": f"{100 * value:.0f}\\,\\%",
                "count": f"{value:,.0f}",
            }[form]
            cells.append("" if pd.isna(value) else text)
        lines.append(f"{' & '.join(cells)} \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def known(run: Run) -> list[str]:
    """Return the kinds of owners that a run has."""
    return [] if run.owners is None else [name for name in OWNERS if name in run.owners]


def write(run: Run, column: str, place: Path) -> list[Path]:
    """Write the table of one kind of owners as CSV and as LaTeX; return the files.

    ValueError where the run does not have that kind.
    """
    if column not in known(run):
        has = (
            f"expected --table {' or '.join(known(run))}"
            if known(run)
            else "its trace names no owners of jobs (drop --table)"
        )
        raise ValueError(f"{run.folder} has no column {column}: {has}")
    assert run.owners is not None
    found = by_owner(run.jobs, run.owners, column)
    files = [place / f"by_{column}.{kind}" for kind in ("csv", "tex")]
    found.to_csv(files[0], index=False, float_format="%.10g")  # a number of jobs as 385, not 385.0
    files[1].write_text(latex(found, column), encoding="utf-8")
    return files


def latex(found: pd.DataFrame, column: str) -> str:
    """Return a table for the LaTeX package booktabs, a row per owner: jobs, GPU-hours, wait and slowdown by policy.

    found: as `by_owner` returns it, for one kind of owners. Waits are in the unit that suits their median.
    """
    policies = list(dict.fromkeys(found["policy"]))
    own = {policy: found[found["policy"] == policy].set_index(column) for policy in policies}
    first = own[policies[0]].sort_values("gpu_hours", ascending=False, kind="stable")
    unit, seconds = unit_of(max(float(found["mean_wait_s"].median()), 1.0))
    heads = [f"\\multicolumn{{2}}{{c}}{{{escaped(policy)}}}" for policy in policies]
    rules = [f"\\cmidrule(lr){{{2 * place + 4}-{2 * place + 5}}}" for place in range(len(policies))]
    lines = [
        "% \\usepackage{booktabs}",
        "% Means over the windows in which the owner has jobs.",
        "% Slowdown: JCT / run time under the policy (below 10 s: 10 s).",
        "% GPU-hours are those held under the first policy.",
        f"\\begin{{tabular}}{{lrr{'rr' * len(policies)}}}",
        "\\toprule",
        f" & & & {' & '.join(heads)} \\\\",
        "".join(rules),
        f"{WORDS[column]} & Jobs & GPU-h{f' & Wait, {unit} & Slowdown' * len(policies)} \\\\",
        "\\midrule",
    ]
    for owner in first.index[:MAX_ROWS]:
        cells = [
            escaped(str(owner)),
            f"{first.loc[owner, 'jobs']:,.1f}".removesuffix(".0"),
            f"{first.loc[owner, 'gpu_hours']:,.1f}",
        ]
        for each in own.values():
            cells += [
                f"{each.loc[owner, 'mean_wait_s'] / seconds:,.2f}",
                f"{each.loc[owner, 'mean_slowdown']:,.2f}",
            ]
        lines.append(f"{' & '.join(cells)} \\\\")
    lines += ["\\bottomrule", "\\end{tabular}"]
    if (more := len(first) - MAX_ROWS) > 0:
        lines.append(f"% {more:,} further rows with less GPU time: by_{column}.csv")
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return a text with LaTeX's special characters escaped."""
    return "".join(_SPECIAL.get(character, character) for character in text)
