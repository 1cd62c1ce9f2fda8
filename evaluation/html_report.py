"""HTML report of a run: comparison table, pictures and provenance in one file that needs no network.

`html_report.html` is the template and `html_report.js` draws. The page contains the numbers to draw, at the resolution
of a screen.
"""

import json
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpu_cluster_gym.envs import render
from gpu_cluster_gym.evaluation import table
from gpu_cluster_gym.evaluation.comparison import compare
from gpu_cluster_gym.evaluation.metrics import pool
from gpu_cluster_gym.evaluation.plot import run_tables, style
from gpu_cluster_gym.evaluation.plot.run_tables import SIZES, Run, Shares, read
from gpu_cluster_gym.evaluation.runner import BOUND, is_oracle
from gpu_cluster_gym.evaluation.table_notes import READING

PAGE = "report.html"
POLICIES_SHOWN = 8
"""Policies drawn when the page opens."""
MAX_BARS = 140_000
"""Bars of all Gantt charts of a page, some 20 bytes each."""
PHASES = ("running", "loading", "pausing")
HERE = Path(__file__).parent


def write(folder: Path) -> Path:
    """Write the report of a run into its folder and return the file."""
    file = folder / PAGE
    file.write_text(text(read(folder)), encoding="utf-8")
    return file


def text(run: Run) -> str:
    """Return the report of a run as HTML."""
    data = json.dumps(_data(run), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    heading = run.provenance.get("heading", [])
    parts = {
        "TITLE": escape(heading[0] if heading else f"Run {run.folder.name}"),
        "HEADING": _paragraphs(heading[1:], "small"),
        "TABLE": _table(run),
        "READING": _paragraphs(
            [note for note in run.provenance.get("notes", []) if note.startswith(READING)], "small"
        ),
        "TIMELINE": _timeline_note(),
        "GANTT": _gantt_note(data),
        "UNRECORDED": "" if run.recorded else _paragraphs(["Schedules were not recorded."], ""),
        "PROVENANCE": _provenance(run),
        "SCRIPT": (HERE / "html_report.js").read_text(encoding="utf-8"),
        "DATA": data,
    }
    page = (HERE / "html_report.html").read_text(encoding="utf-8")
    for name, part in parts.items():  # script and data last, so that nothing in them is replaced
        page = page.replace(f"@{name}@", part)
    return page


def _data(run: Run) -> dict[str, Any]:
    """Return the numbers that `html_report.js` draws."""
    data: dict[str, Any] = {
        "policies": run.policies,
        "shown": [run.reference, *(name for name in run.policies if name != run.reference)][:POLICIES_SHOWN],
        "reference": run.reference,
        "windows": run.windows,
        "palette": style.PALETTE,
        "jobColours": render.JOBS,
        "phases": ["", render.LOADING, render.PAUSING],
        "steps": style.STEPS,
        "classes": SIZES,
        "ratios": [_ratio(name, run) for name in run.policies],
        "cdf": {name: _curve(jobs) for name, jobs in run.jobs.items()},
        "sizes": run_tables.jct_by_size(run).round({"mean_jct_s": 1}).to_dict("records"),
    }
    if run.recorded:
        data |= {
            "gpus": len(run.node_of_gpu),
            "nodes": run.node_gpus,
            "spans": {window: round(run.span_s(window)) + 1 for window in run.windows},
            "episodes": (episodes := _episodes(run)),
        }
        with_bars = [
            window for window, each in episodes.items() if any("gantt" in one for one in each.values())
        ]
        data["jobs"] = {window: _job_names(run, window) for window in with_bars}
    return data


def _ratio(policy: str, run: Run) -> dict[str, Any]:
    each = run.ratios[policy]
    known = len(run.windows) > 1 and policy != run.reference
    limits = (
        {"low": round(each.low, 4), "high": round(each.high, 4)} if known else {"low": None, "high": None}
    )
    return {"policy": policy, "ratio": round(each.ratio, 4), **limits}


def _curve(jobs: pd.DataFrame) -> list[list[float]]:
    time_s, share = run_tables.jct_cdf(jobs)
    return [time_s.round(1).tolist(), share.round(4).tolist()]


def _job_names(run: Run, window: int) -> list[str]:
    """Return the jobs in the results of a window, then the others that ran in it: in a steady one not all count."""
    tables = (run.jobs[run.policies[0]], *(run.segments[policy] for policy in run.policies))
    return list(
        dict.fromkeys(name for each in tables for name in each.loc[each["window"] == window, "job_id"])
    )


def _episodes(run: Run) -> dict[int, dict[str, Any]]:
    """Return timeline and Gantt chart by window and policy; shares replace bars beyond `MAX_BARS`."""
    episodes: dict[int, dict[str, Any]] = {}
    left = MAX_BARS
    for window in run.windows:
        names = {name: number for number, name in enumerate(_job_names(run, window))}
        episodes[window] = {}
        for policy in run.policies:
            chart = run_tables.gantt(run, policy, window, max_bars=min(run_tables.MAX_BARS, left))
            left -= 0 if isinstance(chart, Shares) else len(chart)
            episodes[window][policy] = {"timeline": _timeline(run, policy, window), **_chart(chart, names)}
    return episodes


def _timeline(run: Run, policy: str, window: int) -> dict[str, list[float]]:
    edges = run_tables.time_edges(run, window, run_tables.TIMELINE_BINS)
    means = run_tables.timeline_means(run, policy, window, edges).round(1)
    columns = {"allocated": "held_gpus", "busy": "busy_gpus", "queued": "queued"}
    return {key: [_short(value) for value in means[name].tolist()] for key, name in columns.items()}


def _short(value: float) -> float:
    """Return a whole number as an integer, which takes fewer characters."""
    return int(value) if value == int(value) else value


def _chart(chart: pd.DataFrame | Shares, names: dict[str, int]) -> dict[str, Any]:
    """Return a Gantt chart as encoded bars, or shares as a digit from 0 to 9 per time bin, a text per row."""
    if isinstance(chart, Shares):
        levels = np.ceil(9 * chart.shares.clip(0, 1) - 1e-9).astype(int)  # 0 only if nothing is allocated
        return {"row": chart.row, "shares": ["".join(map(str, row)) for row in levels.tolist()]}
    return {"gantt": encode_bars(chart, names)}


def encode_bars(bars: pd.DataFrame, names: dict[str, int]) -> list[int]:
    """Return six integers per bar: job, code, start in s after the previous bar's, duration in s, first GPU, GPUs.

    code: index of the phase in `PHASES`, plus 3 times the lane, plus 12 times the number of further lanes.
    """
    start = bars["from_s"].round().astype(int).to_numpy()
    duration = np.maximum(bars["to_s"].round().astype(int).to_numpy() - start, 1)
    phase = bars["phase"].map(PHASES.index).to_numpy()
    code = phase + 3 * bars["lane"].to_numpy() + 12 * (bars["lanes"].to_numpy() - 1)
    jobs = bars["job_id"].map(names).to_numpy()
    after = np.diff(start, prepend=0)
    rows = np.stack(
        [jobs, code, after, duration, bars["gpu"].to_numpy(), bars["num_gpus"].to_numpy()], axis=1
    )
    numbers: list[int] = rows.astype(int).ravel().tolist()
    return numbers


def _timeline_note() -> str:
    return (
        f"Each step is the mean over 1/{run_tables.TIMELINE_BINS} of the time shown. Busy: the GPUs of running jobs, "
        "each times the job's speed relative to that with plenty of cores, alone and in one place. A shared GPU counts "
        "for each co-located job, so busy can exceed the cluster's GPUs (dashed)."
    )


def _gantt_note(data: str) -> str:
    bars = (
        "A row per GPU; the numbers on the left are nodes. Co-located jobs divide the GPU's row. A job has the same "
        "colour under every policy. Jobs without GPUs are not drawn; times are rounded to the second. Point at a bar "
        "for its job, drag across the chart to zoom in on a time range, double-click to zoom out."
    )
    shares = (
        "If bars are too many or too thin to see, the share of GPUs allocated is drawn instead, darker for more, as "
        f"means over 1/{run_tables.SHARE_BINS} of the time."
    )
    return " ".join(note for note, kind in ((bars, '"gantt":'), (shares, '"shares":')) if kind in data)


ORIGINS = ("Measured:", "Drawn, not measured")
"""Prefixes of the notes that list columns; the page replaces them by the columns' sources."""


def _paragraphs(lines: Sequence[str], kind: str) -> str:
    return "\n".join(f'<p class="{kind}">{escape(line)}</p>' for line in lines)


def _table(run: Run) -> str:
    """Return the comparison table as HTML: below the rule, the oracles and the lower bound."""
    summaries = {name: pd.DataFrame(run.summary["by_window"][name]) for name in run.policies}
    metrics = table.metrics_shown(summaries, wide=True)
    headings = ["policy", *(_one_line(heading) for heading, _ in metrics.values())]
    several = len(run.windows) > 1
    headings += [f"mean JCT / {run.reference}'s", "95 % interval"][: 1 + several]
    rows = []
    oracles = [name for name in summaries if is_oracle(name)]
    others = [name for name in summaries if name not in oracles]
    for name in (*others, *oracles):
        each = summaries[name]
        found = compare(each, summaries[run.reference])
        interval = "" if name == run.reference else f"{found.low:.3f}-{found.high:.3f}"
        ratio = [f"{found.ratio:.3f}", interval][: 1 + several]
        rows.append([name, *table.metric_texts(pool(each), metrics), *ratio])
    bound = pd.Series({"mean_jct_s": run.summary["lower_bound_mean_jct_s"]})
    rows.append([BOUND, *table.metric_texts(bound, metrics), *[""] * (1 + several)])
    return _html_table(headings, rows, rule=len(others))


def _one_line(heading: str) -> str:
    """Return a heading of several lines on one line, without hyphenation."""
    return heading.replace("-\n", "").replace("\n", " ")


def _html_table(headings: Sequence[str], rows: Sequence[Sequence[str]], rule: int) -> str:
    """Return an HTML table with a rule above row number `rule`."""
    top = "".join(f"<th>{escape(each)}</th>" for each in headings)
    lines = []
    for number, row in enumerate(rows):
        attribute = ' class="rule"' if number == rule else ""
        lines.append(f"<tr{attribute}>" + "".join(f"<td>{escape(each)}</td>" for each in row) + "</tr>")
    return f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _provenance(run: Run) -> str:
    """Return notes, column sources, versions and choices as HTML."""
    notes, origins = run.provenance.get("notes", []), run.provenance.get("column_origins", [])
    replaced = (*READING, *(ORIGINS if origins else ()))
    lines = [*(note for note in notes if not note.startswith(replaced)), *origins]
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="word">{escape(value)}</td></tr>'
        for name, value in _provenance_rows(run)
    )
    return f'{_paragraphs(lines, "small")}<div class="wide"><table>{rows}</table></div>'


def _provenance_rows(run: Run) -> Iterator[tuple[str, str]]:
    """Yield name and value of each row in the table of versions and choices."""
    facts = run.provenance
    yield "created", str(facts.get("created", "unknown"))
    yield "commit", str(facts.get("commit") or "not from a checkout")
    yield "versions", ", ".join(f"{name} {number}" for name, number in facts.get("versions", {}).items())
    yield "platform", str(facts.get("platform", "unknown"))
    for name, value in run.choices.items():
        if isinstance(value, dict):
            yield from ((f"{name}: {key}", _plain(each)) for key, each in value.items())
        else:
            yield name, _plain(value)


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
