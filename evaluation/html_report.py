"""One page of a run to look at in a browser: table, pictures and where they come from, in one file without a network.

`html_report.html` is its frame and `html_report.js` draws; what is drawn is in the page as numbers, as coarse as a
screen shows.
"""

import json
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpu_cluster_gym.envs import render
from gpu_cluster_gym.evaluation import report, results
from gpu_cluster_gym.evaluation.comparison import compare
from gpu_cluster_gym.evaluation.plot import series, style
from gpu_cluster_gym.evaluation.plot.frames import SIZES, Run, read
from gpu_cluster_gym.evaluation.plot.series import Shares

PAGE = "report.html"
SHOWN = 8
"""Policies that are drawn before a reader chooses others."""
MOST_BARS = 140_000
"""Of all Gantt charts of a page; some 20 bytes each."""
PHASES = ("running", "loading", "pausing")
HERE = Path(__file__).parent


def write(folder: Path) -> Path:
    """Write the page of a run into its folder; return the file."""
    file = folder / PAGE
    file.write_text(text(read(folder)), encoding="utf-8")
    return file


def text(run: Run) -> str:
    """Return the page of a run."""
    data = json.dumps(_data(run), separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
    parts = {
        "TITLE": escape(_title(run)),
        "HEADING": _paragraphs(run.about.get("heading", [])[1:], "small"),
        "TABLE": _table(run),
        "READING": _paragraphs([note for note in run.about.get("notes", []) if _is_reading(note)], "small"),
        "TIMELINE": _timeline_note(),
        "GANTT": _gantt_note(data),
        "UNRECORDED": "" if run.recorded else _paragraphs(["Who held which GPU was not recorded."], ""),
        "PROVENANCE": _provenance(run),
        "SCRIPT": (HERE / "html_report.js").read_text(encoding="utf-8"),
        "DATA": data,
    }
    page = (HERE / "html_report.html").read_text(encoding="utf-8")
    for name, part in parts.items():  # data and script come last: what they hold is not looked at again
        page = page.replace(f"@{name}@", part)
    return page


def _title(run: Run) -> str:
    lines = run.about.get("heading", [])
    return str(lines[0]) if lines else f"Run {run.folder.name}"


def _data(run: Run) -> dict[str, Any]:
    """Return what `html_report.js` draws."""
    found: dict[str, Any] = {
        "policies": run.policies,
        "shown": _shown(run),
        "reference": run.reference,
        "windows": run.windows,
        "palette": style.PALETTE,
        "jobColours": render.JOBS,
        "phases": ["", render.LOADING, render.PAUSING],
        "steps": style.STEPS,
        "classes": SIZES,
        "ratios": [_ratio(name, run) for name in run.policies],
        "cdf": {name: _curve(jobs) for name, jobs in run.jobs.items()},
        "sizes": series.by_size(run).round({"mean_jct_s": 1}).to_dict("records"),
    }
    if run.recorded:
        found |= {
            "gpus": len(run.node_of_gpu),
            "nodes": run.node_gpus,
            "spans": {window: round(run.span_s(window)) + 1 for window in run.windows},
            "episodes": (drawn := _episodes(run)),
        }
        named = [window for window, each in drawn.items() if any("gantt" in one for one in each.values())]
        found["jobs"] = {window: _names(run, window) for window in named}
    return found


def _shown(run: Run) -> list[str]:
    """Return the policies that are drawn first: the reference, and the first others."""
    others = [policy for policy in run.policies if policy != run.reference]
    return [run.reference, *others[: SHOWN - 1]]


def _ratio(policy: str, run: Run) -> dict[str, Any]:
    each = run.ratios[policy]
    known = len(run.windows) > 1 and policy != run.reference
    limits = (
        {"low": round(each.low, 4), "high": round(each.high, 4)} if known else {"low": None, "high": None}
    )
    return {"policy": policy, "ratio": round(each.ratio, 4), **limits}


def _curve(jobs: pd.DataFrame) -> list[list[float]]:
    time_s, share = series.cdf(jobs)
    return [time_s.round(1).tolist(), share.round(4).tolist()]


def _names(run: Run, window: int) -> list[str]:
    jobs = run.jobs[run.policies[0]]
    return list(jobs.loc[jobs["window"] == window, "job_id"])


def _episodes(run: Run) -> dict[int, dict[str, Any]]:
    """Return what is drawn of each window and policy; bars as long as there is room for them on the page."""
    found: dict[int, dict[str, Any]] = {}
    left = MOST_BARS
    for window in run.windows:
        names = {name: number for number, name in enumerate(_names(run, window))}
        found[window] = {}
        for policy in run.policies:
            drawn = series.gantt(run, policy, window, most=min(series.MOST_BARS, left))
            left -= 0 if isinstance(drawn, Shares) else len(drawn)
            found[window][policy] = {"timeline": _totals(run, policy, window), **_drawn(drawn, names)}
    return found


def _totals(run: Run, policy: str, window: int) -> dict[str, list[float]]:
    edges = series.edges(run, window, series.BINS)
    totals = series.over_time(run, policy, window, edges).round(1)
    columns = {"held": "held_gpus", "busy": "busy_gpus", "queued": "queued"}
    return {short: [_short(value) for value in totals[name].tolist()] for short, name in columns.items()}


def _short(value: float) -> float:
    return int(value) if value == int(value) else value


def _drawn(drawn: pd.DataFrame | Shares, names: dict[str, int]) -> dict[str, Any]:
    if isinstance(drawn, Shares):
        levels = np.ceil(9 * drawn.shares.clip(0, 1) - 1e-9).astype(int)
        return {"row": drawn.row, "shares": ["".join(map(str, row)) for row in levels.tolist()]}
    return {"gantt": bars_of(drawn, names)}


def bars_of(bars: pd.DataFrame, names: dict[str, int]) -> list[int]:
    """Return six whole numbers a bar: job, kind, s since the bar before began, s that it lasts, first GPU, GPUs.

    kind: the place of the phase in `PHASES`, plus 3 times the lane, plus 12 times the lanes beyond one.
    """
    began = bars["from_s"].round().astype(int).to_numpy()
    lasts = np.maximum(bars["to_s"].round().astype(int).to_numpy() - began, 1)
    phase = bars["phase"].map(PHASES.index).to_numpy()
    kind = phase + 3 * bars["lane"].to_numpy() + 12 * (bars["lanes"].to_numpy() - 1)
    jobs = bars["job_id"].map(names).to_numpy()
    after = np.diff(began, prepend=0)
    rows = np.stack([jobs, kind, after, lasts, bars["gpu"].to_numpy(), bars["num_gpus"].to_numpy()], axis=1)
    numbers: list[int] = rows.astype(int).ravel().tolist()
    return numbers


def _timeline_note() -> str:
    return (
        f"Each step is the mean over 1/{series.BINS} of the time shown. Busy: the GPUs of running jobs, each times the "
        "job's speed over that with plenty of cores, alone and close; a GPU that several jobs share counts for each of "
        "them, so busy can exceed the cluster (dashed)."
    )


def _gantt_note(data: str) -> str:
    bars = (
        "A row a GPU; the numbers on the left are nodes. Jobs that share a GPU at a time divide its row. The same job "
        "has the same colour under every policy. Jobs without GPUs are not drawn; times are rounded to the second. "
        "Point at a bar to read what it is; drag across to see a part of the time, double-click to see all."
    )
    shares = (
        "Where bars would be too many or too thin to see, the share of GPUs held is drawn instead, darker for more: "
        f"means over 1/{series.COLUMNS} of the time."
    )
    return " ".join(note for note, kind in ((bars, '"gantt":'), (shares, '"shares":')) if kind in data)


ORIGINS = ("Measured:", "Drawn, not measured")
"""How the notes begin that name columns, in place of which the page has what each was drawn from."""


def _is_reading(note: str) -> bool:
    """Tell whether a note is on how to read the table."""
    return note.startswith(("Times in seconds", "Mean JCT /", "Lower bound:"))


def _paragraphs(lines: Sequence[str], kind: str) -> str:
    return "\n".join(f'<p class="{kind}">{escape(line)}</p>' for line in lines)


def _table(run: Run) -> str:
    """Return the table of the command as HTML: below the rule stand the oracles and the bound."""
    summaries = {name: pd.DataFrame(run.summary["by_window"][name]) for name in run.policies}
    numbers = report.numbers_shown(summaries)
    headings = ["policy", *(_joined(heading) for heading, _ in numbers.values())]
    several = len(run.windows) > 1
    headings += [f"mean JCT / {run.reference}'s", "95 % interval"][: 1 + several]
    rows = []
    oracles = [name for name in summaries if report.is_oracle(name)]
    honest = [name for name in summaries if name not in oracles]
    for name in (*honest, *oracles):
        each = summaries[name]
        ratio = _ratio_texts(each, summaries[run.reference], itself=name == run.reference)
        rows.append([name, *report.number_texts(results.pool(each), numbers), *ratio])
    bound = run.summary["lower_bound_mean_jct_s"]
    least = report.number_texts(pd.Series({"mean_jct_s": bound}), numbers)
    return _grid(headings, [*rows, [report.BOUND, *least, *[""] * (1 + several)]], ruled=len(honest))


def _ratio_texts(summary: pd.DataFrame, reference: pd.DataFrame, *, itself: bool) -> tuple[str, ...]:
    """Return the ratio of mean JCT and, where there are several windows, its interval."""
    found = compare(summary, reference)
    if found.windows == 1:
        return (f"{found.ratio:.3f}",)
    return f"{found.ratio:.3f}", "" if itself else f"{found.low:.3f}-{found.high:.3f}"


def _joined(heading: str) -> str:
    """Return a heading of several lines as one, its parted words whole."""
    return heading.replace("-\n", "").replace("\n", " ")


def _grid(headings: Sequence[str], rows: Sequence[Sequence[str]], ruled: int) -> str:
    """Return a table; a rule stands above the row of that number."""
    top = "".join(f"<th>{escape(each)}</th>" for each in headings)
    lines = []
    for number, row in enumerate(rows):
        kind = ' class="rule"' if number == ruled else ""
        lines.append(f"<tr{kind}>" + "".join(f"<td>{escape(each)}</td>" for each in row) + "</tr>")
    return f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _provenance(run: Run) -> str:
    """Return the choices, the code, the versions and what was measured and drawn."""
    notes, origins = run.about.get("notes", []), run.about.get("origins", [])
    told = [note for note in notes if not _is_reading(note) and not (origins and note.startswith(ORIGINS))]
    drawn = [*told, *origins]
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="word">{escape(value)}</td></tr>'
        for name, value in _facts(run)
    )
    return f'{_paragraphs(drawn, "small")}<div class="wide"><table>{rows}</table></div>'


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    """Yield what the run was made of, by name."""
    about = run.about
    yield "made", str(about.get("when", "not said"))
    yield "commit", str(about.get("commit") or "not of a checkout")
    versions = about.get("versions", {})
    yield "versions", ", ".join(f"{name} {number}" for name, number in versions.items())
    yield "machine", str(about.get("platform", "not said"))
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
