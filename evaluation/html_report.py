"""HTML report of a run: finding, replay, charts, table and provenance in one file that needs no network.

`html_report.html` is the template; `html_report.js` draws the charts and `html_report_replay.js` the replay, whose data
`evaluation.replay` packs. The page contains the numbers to draw, at the resolution of a screen.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gpu_cluster_gym.envs.floors import FLOORS
from gpu_cluster_gym.envs.render import job_colours
from gpu_cluster_gym.evaluation import command, replay, table
from gpu_cluster_gym.evaluation.comparison import Comparison, compare_metric
from gpu_cluster_gym.evaluation.metrics import pool
from gpu_cluster_gym.evaluation.plot import run_tables, style
from gpu_cluster_gym.evaluation.plot.run_tables import SIZES, Run, Shares, read
from gpu_cluster_gym.evaluation.run_folder import RECORDED, TENANTS
from gpu_cluster_gym.evaluation.runner import BOUND, is_oracle
from gpu_cluster_gym.evaluation.table_notes import FULL_WINDOWS, READING

PAGE = "report.html"
POLICIES_SHOWN = 8
"""Policies drawn when the page opens."""
SHARES_SHOWN = 8
"""Policies of which shares of GPUs are drawn for a window that the page cannot replay."""
COMPARED = ("mean_wait_s", "mean_slowdown")
"""Metrics in the report's table with a ratio to the reference's and its interval, beside mean JCT."""
HERE = Path(__file__).parent


def write(folder: Path) -> Path:
    """Write the report of a run into its folder and return the file."""
    file = folder / PAGE
    file.write_text(text(read(folder, columns=replay.COLUMNS)), encoding="utf-8")
    return file


def text(run: Run) -> str:
    """Return the report of a run as HTML."""
    found = finding(run)
    windows = replay.replayed(run)
    data = json.dumps(_data(run, found, windows), separators=(",", ":"), allow_nan=False)
    parts = {
        "TITLE": escape(found.title),
        "HEADING": _paragraphs([found.more, *run.provenance.get("heading", [])], "small"),
        "VERDICT": _verdict(found, run),
        "LOG": _log(run),
        "REPLAY": escape(REPLAY_NOTE),
        "UNREPLAYED": _paragraphs(_unreplayed(run, windows), ""),
        "TIMELINE": _timeline_note(),
        "SHARES": _shares(run, windows),
        "TENANTS": _tenants(run),
        "TABLE": _table(run),
        "READING": _paragraphs(
            [
                *(note for note in run.provenance.get("notes", []) if note.startswith(READING)),
                *([HELD_NOTE] if run.recorded else []),
            ],
            "small",
        ),
        "PROVENANCE": _provenance(run),
        "SCRIPT": "\n".join(
            (HERE / name).read_text(encoding="utf-8") for name in ("html_report.js", "html_report_replay.js")
        ),
        "WINDOWS": "\n".join(_packed(run, windows)),
        "DATA": data.replace("<", "\\u003c"),
    }
    page = (HERE / "html_report.html").read_text(encoding="utf-8")
    for name, part in parts.items():  # script and data last, so that nothing in them is replaced
        page = page.replace(f"@{name}@", part)
    return page


def _packed(run: Run, windows: Sequence[int]) -> Iterator[str]:
    """Yield each window's data as an element of the page."""
    with command.without_collection():  # of millions of small lists, which hold no cycles
        for window, own in zip(windows, replay.by_window(run, windows), strict=True):
            content = replay.packed(replay.window_data(own, window))
            yield f'<script type="text/plain" id="window-{window}">{content}</script>'


class Finding(NamedTuple):
    """Finding of a run.

    title: a sentence. more: a sentence on what was compared. policy: the one that the title is about.
    """

    title: str
    more: str
    policy: str


def finding(run: Run) -> Finding:
    """Return the finding of a run: the policy asked for, or the best of several, against the reference.

    Where a log gives verdicts, the title is that on the policy, or on the best of those with one.
    """
    reference = run.reference
    others = [
        name for name in run.policies if name not in (reference, RECORDED, *FLOORS) and not is_oracle(name)
    ]
    named = (own_policy(run), *run.choices.get("policy", ()))
    asked = [name for name in dict.fromkeys(named) if name in others]
    candidates = asked or others
    verdict = run.provenance.get("verdict", [])
    judged = _judged(verdict, [*candidates, reference])
    candidates = [*judged] or candidates
    count = len(run.windows)
    over = f"{count} windows" if count > 1 else "one window"
    if not candidates:
        mean_s = run.summary["mean_over_windows"][reference]["mean_jct_s"]
        title = f"{reference}: mean JCT {style.duration_text(mean_s)}"
        return Finding(title, f"Mean job completion time (JCT) over {over}.", reference)
    best = min(candidates, key=lambda name: run.ratios[name].ratio)
    each = run.ratios[best]
    percent = round(100 * abs(1 - each.ratio))
    if percent == 0 or each.low <= 1 <= each.high:
        difference = "not clearly different from"
    else:
        difference = f"{percent} % {'below' if each.ratio < 1 else 'above'}"
    if judged or reference == RECORDED:  # a simulated JCT beside a logged one is no finding without a verdict
        title = judged.get(best, f"{best}: no verdict on this log")
    else:
        title = f"{best}: mean JCT {difference} {reference}"
        title += " in simulation" if verdict else ""
    which = "policies with a verdict" if judged else f"policies compared with {reference}"
    most = f", the lowest of {len(candidates)} {which}" if len(candidates) > 1 else ""
    few = f"; intervals are too narrow below {FULL_WINDOWS} windows" if 1 < count < FULL_WINDOWS else ""
    return Finding(title, f"Job completion time (JCT) over {over}{most}{few}.", best)


def _judged(verdict: Sequence[str], policies: Sequence[str]) -> dict[str, str]:
    """Return the verdict on the mean wait of each policy that has one, without interval and error."""
    found = {
        name: re.match(rf"{re.escape(name)} would have (cut|raised) the mean wait by [\d.]+ %", line)
        for name in policies
        for line in verdict
        if line.startswith(f"{name} would have ")
    }
    return {name: each[0] for name, each in found.items() if each}


def own_policy(run: Run) -> str:
    """Return the policy that was named first, which the table lists first; the reference if `all` was named."""
    named = run.choices.get("policy", ())
    return run.reference if not named or "all" in named else run.policies[0]


def pair(run: Run) -> list[str]:
    """Return the policies with which the replay opens: the one named first, and that of the title, or the best."""
    recorded = [*run.segments]
    own = own_policy(run) if own_policy(run) in recorded else recorded[0]
    others = [name for name in recorded if name != own] or [own]
    rivals = [name for name in others if name not in FLOORS and not is_oracle(name)] or others
    if (of_title := finding(run).policy) in rivals:
        return [own, of_title]
    return [own, min(rivals, key=lambda name: run.ratios[name].ratio)]


def _verdict(found: Finding, run: Run) -> str:
    """Return the line with the ratio, which stays visible."""
    if found.policy == run.reference:
        return ""
    each, means = run.ratios[found.policy], run.summary["mean_over_windows"]
    several = len(run.windows) > 1
    interval = f"<span>95 % interval {each.low:.3f} to {each.high:.3f}</span>" if run.has_intervals else ""
    of_means = means[found.policy]["mean_jct_s"] / means[run.reference]["mean_jct_s"]
    more = f"mean of the ratios of {len(run.windows)} windows; ratio of the means {of_means:.3f}"
    return (
        f'<div class="verdict"><span>mean JCT, {escape(found.policy)} / {escape(run.reference)} '
        f"<b>{each.ratio:.3f}</b></span>"
        f"{interval}" + (f'<span class="more">{more}</span>' if several else "") + "</div>"
    )


def _log(run: Run) -> str:
    """Return the verdict on the log that was replayed, or nothing for other jobs."""
    lines = run.provenance.get("verdict", [])
    return f"<h2>Verdict on this log</h2>{_paragraphs(lines, '')}" if lines else ""


REPLAY_NOTE = (
    "Two policies on the same jobs. Move the slider or press Play; select a job in the grid, the queue, the chart or "
    "the list to see its history. Drag across a chart over time, or zoom, to show a part of the time."
)


def _unreplayed(run: Run, windows: Sequence[int]) -> list[str]:
    """Return a sentence on windows that the page cannot replay; empty if there are none."""
    if not run.recorded:
        return ["Schedules were not recorded (evaluate.py --report records them)."]
    left = len(run.windows) - len(windows)
    if not left:
        return []
    which = "The window has" if len(run.windows) == 1 else f"{left} of {len(run.windows)} windows have"
    return [f"{which} too many changes to be replayed on a page (at most {replay.MAX_SEGMENTS:,} together)."]


def _data(run: Run, found: Finding, windows: Sequence[int]) -> dict[str, Any]:
    """Return the numbers that the scripts draw, without those of the windows."""
    data: dict[str, Any] = {
        "policies": run.policies,
        "main": found.policy,
        "shown": [run.reference, *(name for name in run.policies if name != run.reference)][:POLICIES_SHOWN],
        "reference": run.reference,
        "ratioNote": _ratio_note(run),
        "palette": style.PALETTE,
        "steps": style.STEPS,
        "classes": SIZES,
        "ratios": [_ratio(name, run) for name in run.policies],
        "cdf": {
            key: {name: _curve(jobs, column) for name, jobs in run.jobs.items()}
            for key, column in (("jct", "jct_s"), ("wait", "wait_s"))
        },
        "sizes": run_tables.jct_by_size(run).round({"mean_jct_s": 1}).to_dict("records"),
        "replayed": windows,
    }
    if windows:
        node_gpus = run.node_gpus
        data |= {
            "gpus": len(run.node_of_gpu),
            "nodes": node_gpus,
            "nodeFirst": np.cumsum([0, *node_gpus[:-1]]).tolist(),
            "begins": _begins(run),
            "jobColours": job_colours(),
            "recorded": [*run.segments],
            "pair": pair(run),
        }
    return data


def _begins(run: Run) -> dict[int, str]:
    """Return date and time of the first submission of each window; empty for jobs without dates, and an older run."""
    dates = run.provenance.get("first_submissions", [])
    return {window: date for window, date in zip(run.windows, dates, strict=False) if date}


def _ratio_note(run: Run) -> str:
    if len(run.policies) < 2:
        return ""
    if len(run.windows) == 1:
        interval = "with 95 % interval over blocks of time" if run.has_intervals else "without interval"
        return f"Mean JCT / {run.reference} in one window, {interval}; below 1 is shorter."
    return (
        f"Mean JCT / {run.reference}: mean of the ratios of {len(run.windows)} windows, with 95 % interval over "
        "windows; below 1 is shorter."
    )


def _ratio(policy: str, run: Run) -> dict[str, Any]:
    each = run.ratios[policy]
    known = run.has_intervals and policy != run.reference
    limits = (
        {"low": round(each.low, 6), "high": round(each.high, 6)} if known else {"low": None, "high": None}
    )
    return {"policy": policy, "ratio": round(each.ratio, 6), **limits}


def _curve(jobs: pd.DataFrame, column: str) -> list[list[float]]:
    time_s, share = run_tables.cdf(jobs[column])
    return [time_s.round(1).tolist(), share.round(4).tolist()]


def _timeline_note() -> str:
    return (
        f"The window and the time of the replay; each step is the mean over 1/{run_tables.TIMELINE_BINS} of that time. "
        "Busy: the GPUs of running jobs, each times the job's speed relative to that with plenty of cores, alone and "
        "in one place. A shared GPU counts for each co-located job, so busy can exceed the cluster's GPUs (dashed)."
    )


def _shares(run: Run, windows: Sequence[int]) -> str:
    """Return pictures of the shares of GPUs allocated in the first window that cannot be replayed, or nothing."""
    left = [window for window in run.windows if window not in windows] if run.recorded else []
    if not left:
        return ""
    parts = []
    for policy in [*run.segments][:SHARES_SHOWN]:
        found = run_tables.shares(run, run_tables.window_rows(run.segments[policy], left[0]), left[0])
        title = f"{policy}: share of GPUs allocated, a row per {found.row}"
        parts.append(f"<div><h3>{escape(title)}</h3>{_shares_svg(found)}</div>")
    note = f"Window {left[0]}, darker for more, as means over 1/{run_tables.SHARE_BINS} of its time."
    return (
        f"<h2>GPUs allocated over time</h2>{_paragraphs([note], 'small')}"
        f'<div class="panels">{"".join(parts)}</div>'
    )


def _shares_svg(found: Shares) -> str:
    """Return shares as an SVG of one path per level, 1 to 9 ninths."""
    levels = np.ceil(9 * found.shares.clip(0, 1) - 1e-9).astype(int)  # 0 only if nothing is allocated
    rows, bins = levels.shape
    paths = []
    for level in range(1, 10):
        edges = np.diff((levels == level).astype(int), axis=1, prepend=0, append=0)
        (row, begin), (_, end) = np.nonzero(edges == 1), np.nonzero(edges == -1)
        steps = (f"M{x} {y}h{to - x}v1h{x - to}z" for y, x, to in zip(row, begin, end, strict=True))
        if path := "".join(steps):
            paths.append(f'<path d="{path}" fill="var(--accent)" fill-opacity="{level / 9:.2f}"/>')
    size = f'viewBox="0 0 {bins} {rows}" preserveAspectRatio="none" width="100%" height="200"'
    return f'<svg {size} role="img">{"".join(paths)}</svg>'


TENANT_COLUMNS = {
    "quota": "quota, GPUs",
    "jobs": "jobs",
    "gpu_hours": "GPU-hours",
    "mean_wait_s": "mean wait, s",
    "mean_jct_s": "mean JCT, s",
    "mean_slowdown": "mean slowdown",
}


def _tenants(run: Run) -> str:
    """Return the table of tenants by policy, or nothing without tenants."""
    file = run.folder / TENANTS
    if not file.is_file():
        return ""
    found = pd.read_csv(file, dtype={"tenant": str, "policy": str}, keep_default_na=False)
    rows = []
    for tenant, own in found.groupby("tenant", sort=False):
        for place, each in enumerate(own.to_dict("records")):
            numbers = [
                f"{float(each[name]):,.{2 if name == 'mean_slowdown' else 0}f}" for name in TENANT_COLUMNS
            ]
            rows.append([str(tenant) if place == 0 else "", str(each["policy"]), *numbers])
    size = found["policy"].nunique()
    headings = ["tenant", "policy", *TENANT_COLUMNS.values()]
    shown = _html_table(headings, rows, rules=range(size, len(rows), size))
    scrolls = 'class="wide" tabindex="0" role="region" aria-label="table of tenants"'  # sideways, with the keyboard too
    return f"<h2>Tenants</h2><div {scrolls}>{shown}</div>"


ORIGINS = ("Measured:", "Drawn, not measured")
"""Prefixes of the notes that list columns; the page replaces them by the columns' sources."""


def _paragraphs(lines: Sequence[str], kind: str) -> str:
    return "\n".join(f'<p class="{kind}">{escape(line)}</p>' for line in lines)


HELD_NOTE = (
    "GPUs allocated: share of the cluster's GPUs that any job holds, from the first to the last submission of the "
    "scored jobs; in a steady window the jobs around the scored ones hold GPUs, too. A shared GPU counts once."
)


def _table(run: Run) -> str:
    """Return the comparison table as HTML: below the rule, the oracles and the lower bound."""
    summaries = {name: pd.DataFrame(run.summary["by_window"][name]) for name in run.policies}
    metrics = table.metrics_shown(summaries, wide=True)
    several = run.has_intervals
    compared = ["mean_jct_s"]
    if len(run.windows) > 1:  # a metric has no ratio where the reference has a 0
        shown = [name for name in COMPARED if name in metrics]
        compared += [name for name in shown if (summaries[run.reference][name] > 0).all()]
    headings = ["policy"]
    for name, (heading, _) in metrics.items():
        headings.append(heading.replace("-\n", "").replace("\n", " "))  # on one line, without hyphenation
        if name in compared:
            headings += [f"{headings[-1]} / {run.reference}", "95 % interval"][: 1 + several]
    headings += ["GPUs allocated"] * run.recorded
    rows = []
    oracles = [name for name in summaries if is_oracle(name)]
    others = [name for name in summaries if name not in oracles]
    bound = pd.Series({"mean_jct_s": run.summary["lower_bound_mean_jct_s"]})
    for policy in (*others, *oracles, BOUND):
        means = bound if policy == BOUND else pool(summaries[policy])
        rows.append([policy])
        for name, text in zip(metrics, table.metric_texts(means, metrics), strict=True):
            rows[-1].append(text)
            if name in compared:
                ratio = ["", ""] if policy == BOUND else _ratio_texts(run, summaries, policy, name)
                rows[-1] += ratio[: 1 + several]
        if run.recorded:
            share = run_tables.held_share(run, policy) if policy in run.timeline else math.nan
            rows[-1].append("" if math.isnan(share) else f"{100 * share:.1f} %")
    return _html_table(headings, rows, rules=[len(others)])


def _ratio_texts(run: Run, summaries: Mapping[str, pd.DataFrame], policy: str, number: str) -> list[str]:
    """Return the ratio of a metric to the reference's, and its interval; empty where there is none."""
    found: Comparison | None = run.ratios[policy]
    if number != "mean_jct_s":
        found = compare_metric(summaries[policy], summaries[run.reference], number)
    if found is None:
        return ["", ""]
    return [f"{found.ratio:.3f}", "" if policy == run.reference else f"{found.low:.3f}-{found.high:.3f}"]


def _html_table(headings: Sequence[str], rows: Sequence[Sequence[str]], rules: Sequence[int]) -> str:
    """Return an HTML table with a rule above each row whose number is among `rules`."""
    top = "".join(f'<th scope="col">{escape(each)}</th>' for each in headings)
    lines = []
    for number, row in enumerate(rows):
        attribute = ' class="rule"' if number in rules else ""
        lines.append(f"<tr{attribute}>" + "".join(f"<td>{escape(each)}</td>" for each in row) + "</tr>")
    return f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _provenance(run: Run) -> str:
    """Return notes, column sources, versions and choices as HTML; choices of the scenario are folded."""
    notes, origins = run.provenance.get("notes", []), run.provenance.get("column_origins", [])
    replaced = (*READING, *(ORIGINS if origins else ()))
    lines = [*(note for note in notes if not note.startswith(replaced)), *origins]
    rows = [*_provenance_rows(run)]
    used = _two_columns([row for row in rows if not row[0].startswith(SCENARIO)])
    choices = _two_columns([row for row in rows if row[0].startswith(SCENARIO)])
    folded = f"<details><summary>All choices of the scenario</summary>{choices}</details>"
    return used + _paragraphs(lines, "small") + folded


SCENARIO = "scenario: "


def _two_columns(rows: Sequence[tuple[str, str]]) -> str:
    cells = "".join(
        f'<tr><td>{escape(name)}</td><td class="word">{escape(value)}</td></tr>' for name, value in rows
    )
    return f"<table>{cells}</table>"


def _provenance_rows(run: Run) -> Iterator[tuple[str, str]]:
    """Yield name and value of each row in the table of versions and choices, with the values that were used."""
    facts = run.provenance
    yield "created", str(facts.get("created", "unknown"))
    yield "commit", str(facts.get("commit") or "not from a checkout")
    yield "versions", ", ".join(f"{name} {number}" for name, number in facts.get("versions", {}).items())
    yield "platform", str(facts.get("platform", "unknown"))
    used = {
        "trace": facts.get("trace"),
        "cluster": facts.get("cluster"),
        "windows": _windows(run),
        "first submission": ", ".join(_begins(run).values()),
        "policy": ", ".join(run.policies),
    }
    yield from ((name, str(value)) for name, value in used.items() if value)
    for name, value in run.choices.items():
        if isinstance(value, dict):
            yield from ((f"{name}: {key}", _plain(each)) for key, each in value.items() if not used.get(key))
        elif not used.get(name) and value not in (None, [], False):  # a mode of the command that was not used
            yield name, _plain(value)


def _windows(run: Run) -> str:
    if run.choices["scenario"].get("full_trace"):
        return "the whole trace as one episode"
    return f"{len(run.windows)}: {', '.join(map(str, run.windows))}"


def _plain(value: Any) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(map(str, value))
        case _:
            return str(value)
