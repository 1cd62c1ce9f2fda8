"""The HTML report is one self-contained file that shows the run's numbers and replays its schedules."""

import base64
import json
import math
import re
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpu_cluster_gym.evaluate import main
from gpu_cluster_gym.evaluation import html_report, replay
from gpu_cluster_gym.evaluation.plot import run_tables
from gpu_cluster_gym.evaluation.plot.run_tables import Run
from gpu_cluster_gym.evaluation.record import parse_intervals
from tests.cases import tiny
from tests.evaluation.browser import Browser, browser
from tests.evaluation.test_pictures import ran

STRANGE = "<!--<script></script><b>0</b>"  # a job name that must be escaped


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of three policies on shared GPUs, with its HTML report."""
    table = tiny.mixed(seed=1)
    table.loc[3, "job_id"] = STRANGE
    place = tmp_path_factory.mktemp("report")
    return ran(place, table, "--report", "--policy", "fifo", "srtf", "gandiva")


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return run_tables.read(folder)


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


def data_of(text: str) -> Any:
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])


def window_of(text: str, window: int = 0) -> dict[str, Any]:
    found = re.search(rf'<script type="text/plain" id="window-{window}">(.*?)</script>', text)
    assert found
    content: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(found[1])))
    return content


def lives_of(win: dict[str, Any], policy: str) -> dict[str, list[tuple[str, float, float, str]]]:
    """Return the lives in a page by job: phase, start, end and GPUs of each segment."""
    flat = iter(win["policies"][policy]["lives"])
    found: dict[str, list[tuple[str, float, float, str]]] = {}
    for job, submitted in zip(win["jobs"]["id"], win["jobs"]["submit"], strict=True):
        time = submitted
        found[job] = []
        for _ in range(next(flat)):
            phase, lasts, place = next(flat), next(flat), next(flat)
            found[job].append((replay.PHASES[phase], time, time + lasts, win["places"][place][0]))
            time += lasts
    assert next(flat, None) is None
    return found


def compared_by(run: Run, policy: str, window: int, decision: int) -> dict[str, list[dict[Any, Any]]]:
    """Return what a decision compared, by role: the rows of `compared.csv`."""
    table = run.compared[policy]
    rows = table[(table["window"] == window) & (table["decision"] == decision)]
    return {str(role): own.to_dict("records") for role, own in rows.groupby("role")}


# The file.


def test_the_page_needs_no_network(text: str) -> None:
    assert set(re.findall(r"\w+://[\w./-]+", text)) == {"http://www.w3.org/2000/svg"}, (
        "a name, not an address"
    )
    loading = r"<link|<img|<iframe|\bsrc=|\bhref=|url\(|@import|\bfetch\(|XMLHttpRequest|import\("
    assert re.findall(loading, text) == []


def test_no_placeholder_is_left(text: str) -> None:
    assert re.findall(r"@[A-Z]+@", text) == []


def test_names_do_not_break_the_page(text: str) -> None:
    assert STRANGE not in text
    assert STRANGE in window_of(text)["jobs"]["id"]
    assert text.count("</script>") == 3, "data, window and code"
    assert "<!--<script" not in text  # after this, browsers look for two ends of a script


def test_the_table_has_the_numbers_of_the_summary(folder: Path, text: str) -> None:
    kept = json.loads((folder / "summary.json").read_text())
    for policy, numbers in kept["mean_over_windows"].items():
        row = re.search(rf"<tr><td>{policy}</td>(.*?)</tr>", text)
        assert row
        cells = re.findall(r"<td>(.*?)</td>", row[1])
        ratio = kept["mean_jct_ratio"][policy]["ratio"]
        assert cells[:2] == [f"{numbers['mean_jct_s']:,.0f}", f"{ratio:.3f}"], "beside the name, in sight"


def test_the_page_has_its_provenance(folder: Path, text: str) -> None:
    provenance = json.loads((folder / "provenance.json").read_text())
    assert provenance["versions"]["numpy"] in text
    assert (provenance["commit"] or "not from a checkout") in text
    assert "Drawn, not measured:" in text
    assert all(escape(line) in text for line in provenance["column_origins"])
    rows = dict(re.findall(r'<tr><td>([\w: ]+)</td><td class="word">(.*?)</td></tr>', text))
    assert rows["trace"].endswith(".csv")
    assert (rows["cluster"], rows["policy"]) == ("2x8", "fifo, srtf, gandiva")
    assert rows["windows"] == "the whole trace as one episode"
    assert {"scenario: physics", "scenario: seed"} <= set(rows)


# The finding.


def found(
    ratios: dict[str, tuple[float, float, float]], asked: list[str], verdict: Sequence[str] = ()
) -> str:
    """Return the title for these ratios over 20 windows with their limits; the reference is the first."""
    windows = 20
    names = list(ratios)
    rows = {
        name: {"ratio": ratio, "low": low, "high": high, "wins": 0, "windows": windows}
        for name, (ratio, low, high) in ratios.items()
    }
    summary = {
        "reference": names[0],
        "mean_jct_ratio": rows,
        "mean_over_windows": {name: {"mean_jct_s": 7200.0} for name in names},
    }
    jobs = pd.DataFrame({"window": range(windows)})
    facts = {"verdict": [*verdict]}
    made = Run(Path(), {"policy": asked}, summary, facts, dict.fromkeys(names, jobs), {}, {})
    return html_report.finding(made).title


@pytest.mark.parametrize(
    ("ratios", "asked", "title"),
    [
        ({"fifo": (1, 1, 1), "xion": (0.771, 0.7, 0.8)}, ["xion"], "xion: mean JCT 23 % below fifo"),
        (
            {"fifo": (1, 1, 1), "xion": (0.8, 0.7, 0.9), "srtf": (0.5, 0.4, 0.6)},
            ["xion"],
            "xion: mean JCT 20 % below fifo",
        ),
        (
            {"fifo": (1, 1, 1), "xion": (0.8, 0.7, 0.9), "srtf": (0.5, 0.4, 0.6)},
            ["xion", "srtf"],
            "srtf: mean JCT 50 % below fifo",
        ),
        ({"fifo": (1, 1, 1), "las": (1.3, 1.1, 1.6)}, ["las"], "las: mean JCT 30 % above fifo"),
        (
            {"fifo": (1, 1, 1), "las": (0.97, 0.9, 1.02)},
            ["las"],
            "las: mean JCT not clearly different from fifo",
        ),
        (
            {"fifo": (1, 1, 1), "first_legal": (0.3, 0.2, 0.4), "srtf_oracle": (0.2, 0.1, 0.3)},
            ["fifo"],
            "fifo: mean JCT 2.00 hours",
        ),
    ],
)
def test_the_title_is_the_finding(
    ratios: dict[str, tuple[float, float, float]], asked: list[str], title: str
) -> None:
    assert found(ratios, asked) == title


@pytest.mark.parametrize(
    ("verdict", "title"),
    [
        ("sjf would have cut the mean wait by 30 %.", "sjf would have cut the mean wait by 30 %"),
        ("No verdict on sjf: the error is too large.", "sjf: no verdict on this log"),
        ("sjf_2 would have cut the mean wait by 30 %.", "sjf: no verdict on this log"),
        (
            "sjf would have raised the mean wait by 26 % (9 to 40).",
            "sjf would have raised the mean wait by 26 %",
        ),
        (
            "sjf would have cut the mean wait by 4.5 % (2 to 6); the simulator's own error is 1.0 %.",
            "sjf would have cut the mean wait by 4.5 %",
        ),
    ],
)
def test_a_title_about_a_log_is_its_verdict(verdict: str, title: str) -> None:
    ratios = {"recorded": (1.0, 1.0, 1.0), "sjf": (0.9, 0.8, 0.95)}
    assert found(ratios, ["sjf", "recorded"], [verdict]) == title


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("sjf would have cut the mean wait by 30 %.", "sjf would have cut the mean wait by 30 %"),
        ("easy would have cut the mean wait by 9 %.", "easy would have cut the mean wait by 9 %"),
        ("No verdict on sjf: its mean wait is 3 % lower.", "sjf: mean JCT 10 % below easy in simulation"),
    ],
)
def test_a_verdict_is_the_title_beside_any_reference(line: str, title: str) -> None:
    """The title speaks of the mean wait as the verdict does, although the ratios are of mean JCT to `easy`."""
    assert found({"easy": (1.0, 1.0, 1.0), "sjf": (0.9, 0.8, 0.95)}, ["easy", "sjf"], [line]) == title


def test_a_title_about_a_log_is_of_a_policy_with_a_verdict() -> None:
    ratios = {"recorded": (1.0, 1.0, 1.0), "srtf": (0.8, 0.7, 0.9), "sjf": (0.85, 0.8, 0.9)}
    verdict = [
        "No verdict on srtf: jobs were paused 9 times under it.",
        "sjf would have cut the mean wait by 30 % (20 to 40).",
    ]
    assert found(ratios, ["srtf", "sjf"], verdict) == "sjf would have cut the mean wait by 30 %"
    assert found(ratios, ["srtf", "sjf"], verdict[:1]) == "srtf: no verdict on this log"


@pytest.mark.parametrize(
    ("named", "reference", "verdict", "pair"),
    [
        (["runs/ppo", "srtf"], "agent", [], ["agent", "srtf"]),
        (["runs/ppo"], "fifo", [], ["agent", "srtf"]),
        (["all"], "fifo", [], ["fifo", "srtf"]),
        (["runs/ppo", "srtf", "sjf"], "agent", ["sjf would have cut the mean wait by 9 %"], ["agent", "sjf"]),
    ],
)
def test_the_replay_opens_on_the_policy_named_first_and_that_of_the_verdict_or_the_best_other(
    named: list[str], reference: str, verdict: list[str], pair: list[str]
) -> None:
    """An agent's folder is named by its path; floors and oracles are no rivals, and the title is about the agent."""
    ratios = {"agent": 0.9, "fifo": 1.0, "srtf": 0.8, "sjf": 0.85, "srtf_oracle": 0.7, "first_legal": 0.6}
    rows = {
        name: {"ratio": ratio, "low": ratio, "high": ratio, "wins": 0, "windows": 1}
        for name, ratio in ratios.items()
    }
    summary = {"reference": reference, "mean_jct_ratio": rows}
    jobs = dict.fromkeys(ratios, pd.DataFrame({"window": [0]}))
    made = Run(Path(), {"policy": named}, summary, {"verdict": verdict}, jobs, jobs, {})
    assert html_report.pair(made) == pair
    if len(named) == 1 and named != ["all"]:
        assert html_report.finding(made).title == "agent: mean JCT 10 % below fifo"


def test_ratios_on_the_page_are_rounded_once(run: Run, text: str) -> None:
    """0.69949 is 0.699, and 0.700 where it was first rounded to four digits."""
    shown = {each["policy"]: each["ratio"] for each in data_of(text)["ratios"]}
    assert shown == {name: pytest.approx(each.ratio, abs=1e-6) for name, each in run.ratios.items()}


def test_waits_and_slowdowns_have_ratios_and_intervals_beside_mean_jct() -> None:
    """Waits of 100 and 200 s against 200 and 800 s: a mean ratio of 0.375; none where the reference never waits."""
    waits = {"fifo": [200.0, 800.0], "srtf": [100.0, 200.0]}
    by_window = {
        name: [
            {"window": at, "seed": 0, "mean_jct_s": 1000.0, "mean_wait_s": wait_s, "mean_slowdown": 2.0}
            | dict.fromkeys(("max_wait_s", "shared_gpu_hours"), 0.0)
            for at, wait_s in enumerate(each)
        ]
        for name, each in waits.items()
    }
    summary = {"reference": "fifo", "by_window": by_window, "lower_bound_mean_jct_s": 900.0}
    equal = {"ratio": 1.0, "low": 1.0, "high": 1.0, "wins": 0, "windows": 2}
    summary["mean_jct_ratio"] = dict.fromkeys(waits, equal)
    jobs = dict.fromkeys(waits, pd.DataFrame({"window": [0, 1]}))
    made = Run(Path(), {}, summary, {}, jobs, {}, {})
    for first, shown in ((200.0, [["0.375", "0.250-0.500"]]), (0.0, [])):
        by_window["fifo"][0]["mean_wait_s"] = first
        rows = re.findall(r"<tr.*?</tr>", html_report._table(made))
        cells = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row) for row in rows]
        found = [at for at, each in enumerate(cells[0]) if escape("mean wait / fifo") in each]
        assert [cells[2][at : at + 2] for at in found] == shown
        assert [cells[0][at + 1] for at in found] == ["95 % interval"] * len(shown)
        at = cells[0].index(escape("mean slowdown / fifo"))
        assert cells[2][at : at + 2] == ["1.000", "1.000-1.000"]


# The replay's data.


def test_lives_match_the_record(run: Run, text: str) -> None:
    """Phases, GPUs and times of every job are those of `segments.csv`, up to rounding to seconds."""
    win = window_of(text)
    for policy, segments in run.segments.items():
        lives = lives_of(win, policy)
        assert set(lives) == set(segments["job_id"])
        for job, own in segments.groupby("job_id"):
            life = lives[str(job)]
            assert life[0][1] == pytest.approx(own["from_s"].min(), abs=0.5)
            assert life[-1][2] == pytest.approx(own["to_s"].max(), abs=0.5)
            for phase, gpus in {(each[0], each[3]) for each in life}:
                chosen = own[(own["phase"] == phase) & (own["gpus"] == gpus)]
                lasted = sum(
                    end - begin for what, begin, end, where in life if (what, where) == (phase, gpus)
                )
                assert lasted == pytest.approx((chosen["to_s"] - chosen["from_s"]).sum(), abs=len(life))


def test_lives_give_the_results(run: Run, text: str) -> None:
    """JCT and wait as the page computes them are those of `jobs.csv`, up to rounding."""
    win = window_of(text)
    for policy, jobs in run.jobs.items():
        lives = lives_of(win, policy)
        for row in jobs.to_dict("records"):
            life = lives[row["job_id"]]
            waits = sum(
                end - begin for what, begin, end, _ in life if what in ("queued", "reserved", "restarting")
            )
            assert life[-1][2] - life[0][1] == pytest.approx(row["jct_s"], abs=1)
            assert waits == pytest.approx(row["wait_s"], abs=len(life))


def test_reasons_match_the_record(run: Run, text: str) -> None:
    """Each row of `decisions.csv` and `compared.csv` is in the page with its texts, jobs and keys, in tenths."""
    win = window_of(text)
    assert {*run.decisions} == {"fifo", "srtf"}
    for policy, decisions in run.decisions.items():
        why, jobs = win["policies"][policy]["why"], win["jobs"]["id"]
        entries = {
            role: iter(zip(why[role]["job"], why[role]["key"], strict=True))
            for role in ("earlier", "later", "cause")
        }
        assert len(why["time"]) == len(decisions)
        for place, row in enumerate(decisions.to_dict("records")):
            compared = compared_by(run, policy, 0, place)
            assert row["decision"] == place
            assert sum(why["time"][: place + 1]) == round(row["time_s"])
            assert ("start", "pause", "resize")[why["kind"][place]] == row["action"]
            assert jobs[why["job"][place]] == row["job_id"]
            assert [why["texts"][why[name][place]] for name in ("rule", "keys")] == [row["rule"], row["keys"]]
            assert why["key"][place] == pytest.approx(10 * row["key"], abs=0.51)
            for name in ("place", "ranked", "skipped"):
                assert why[name][place] == row[name]
            for role, each in entries.items():
                listed = [next(each) for _ in range(why[role]["count"][place])]
                own = compared.get(role, [])
                assert [jobs[job] for job, _ in listed] == [entry["job_id"] for entry in own]
                assert [key for _, key in listed] == pytest.approx(
                    [10 * entry["value"] for entry in own], abs=0.51
                )
        assert all(next(each, None) is None for each in entries.values())


def test_reasons_of_a_page_by_hand() -> None:
    """Two decisions on jobs x and y of a window; job z is not shown, so that its decision and entries are left out."""
    decisions = pd.DataFrame(
        {
            "decision": [0, 1, 2],
            "time_s": [10.2, 11.0, 15.0],
            "action": ["start", "start", "pause"],
            "job_id": ["x", "z", "y"],
            "rule": ["In order.", "In order.", "The best move."],
            "keys": ["run time, s", "run time, s", "gain, s"],
            "key": [1.26, 2.0, math.inf],
            "place": [1, 2, 3],
            "ranked": [4, 5, 6],
            "skipped": [0, 1, 2],
        }
    )
    rows = [
        (0, "later", "", "y", 3.0, math.nan),
        (0, "later", "", "z", 4.0, math.nan),
        (1, "earlier", "", "x", 5.0, math.nan),
        (2, "cause", "", "x", 6.0, math.nan),
        (2, "term", "head, job", "x", math.nan, math.nan),
        (2, "term", "gain, s", "", 7.5, math.nan),
        (2, "option", "wait", "", 0.5, math.nan),
    ]
    compared = pd.DataFrame(rows, columns=["decision", "role", "name", "job_id", "value", "minimum"])
    found = replay.why(decisions, compared, ["y", "x"])
    texts = found["texts"]
    assert (found["time"], found["kind"], found["job"], found["key"]) == ([10, 5], [0, 1], [1, 0], [13, None])
    assert [texts[place] for place in found["rule"]] == ["In order.", "The best move."]
    assert [texts[place] for place in found["keys"]] == ["run time, s", "gain, s"]
    assert (found["place"], found["ranked"], found["skipped"]) == ([1, 3], [4, 6], [0, 2])
    assert found["earlier"] == {"count": [0, 0], "job": [], "key": []}
    assert found["later"] == {"count": [1, 0], "job": [0], "key": [30]}
    assert found["cause"] == {"count": [0, 1], "job": [1], "key": [60]}
    terms, options = found["terms"], found["options"]
    assert (terms["count"], [texts[place] for place in terms["name"]]) == ([0, 2], ["head, job", "gain, s"])
    assert terms["value"] == [1, 75]
    assert (options["count"], [texts[place] for place in options["name"]]) == ([0, 1], ["wait"])
    assert (options["job"], options["value"], options["minimum"]) == ([-1], [5], [None])


def test_decisions_that_compared_nothing_have_reasons(tmp_path: Path) -> None:
    """Jobs a week apart start alone, so that `compared.csv` has no row."""
    table = tiny.jobs(8)
    folder = ran(tmp_path, table.assign(submit_s=604_800.0 * np.arange(8)), "--report", "--policy", "fifo")
    assert run_tables.read(folder).compared["fifo"].empty
    why = window_of((folder / "report.html").read_text(encoding="utf-8"))["policies"]["fifo"]["why"]
    assert (why["place"], why["ranked"]) == ([1] * 8, [1] * 8)
    assert why["later"] == {"count": [0] * 8, "job": [], "key": []}


def test_the_time_shown_ends_where_scheduling_does() -> None:
    """Hand-worked: starts at 0, 100 and 200 s, the last job runs to 90,000 s; the page ends soon after 200 s."""
    segments = pd.DataFrame(
        {
            "window": 0,
            "job_id": ["a", "b", "b", "c", "c"],
            "phase": ["running", "queued", "running", "queued", "running"],
            "from_s": [0.0, 0.0, 100.0, 0.0, 200.0],
            "to_s": [100.0, 100.0, 200.0, 200.0, 90_000.0],
        }
    )
    jobs = pd.DataFrame({"window": 0, "job_id": ["a", "b", "c"], "finish_s": [100.0, 200.0, 90_000.0]})
    made = Run(Path(), {}, {}, {}, {"fifo": jobs}, {"fifo": segments}, {})
    shown_s, end_s = replay.time_shown(made, 0)
    assert end_s == 90_000
    assert 198 <= shown_s <= 200 * replay.TAIL


def test_windows_beyond_the_budget_are_not_replayed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MAX_SEGMENTS", 10)
    text = html_report.text(run)
    assert data_of(text)["replayed"] == []
    assert "too many changes to be replayed" in text
    assert "share of GPUs allocated, a row per GPU" in text


def test_a_run_that_was_not_recorded_has_no_replay(tmp_path: Path) -> None:
    run = run_tables.read(ran(tmp_path, tiny.jobs(8), "--policy", "fifo"))
    text = html_report.text(run)
    assert data_of(text)["replayed"] == []
    assert "Schedules were not recorded" in text


def test_the_record_of_an_older_version_is_refused(tmp_path: Path) -> None:
    """Older versions wrote a text `reason` per decision, and no file of what was compared."""
    folder = ran(tmp_path, tiny.jobs(8), "--report", "--policy", "fifo")
    again = f"repeat the run with --again {re.escape(str(folder))}$"
    (folder / "fifo" / "compared.csv").unlink()
    with pytest.raises(
        ValueError, match=f"older version recorded fifo/decisions.csv without compared.csv; {again}"
    ):
        html_report.write(folder)
    decisions = folder / "fifo" / "decisions.csv"
    pd.DataFrame({"window": [0], "seed": [0], "reason": ["first"]}).to_csv(decisions, index=False)
    (folder / "fifo" / "compared.csv").write_text("window\n")
    with pytest.raises(ValueError, match=f"decisions.csv without the columns .*time_s.*; {again}"):
        html_report.write(folder)


# The page in a browser.


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


def opened(page: Browser, folder: Path, **how: Any) -> None:
    page.open(folder / "report.html", **how)
    page.until("document.getElementById('clock').textContent")


SIZES = [(1280, 900), (390, 844)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_its_window_without_errors(
    page: Browser, folder: Path, size: tuple[int, int], scheme: str
) -> None:
    opened(page, folder, width=size[0], height=size[1], prefers_color_scheme=scheme)
    assert page.errors == []
    assert page.run("document.documentElement.scrollWidth") <= size[0]
    assert page.run("document.body.innerText.match(/NaN|undefined|Infinity/)") is None
    assert page.run("document.querySelectorAll('canvas').length") == 6, (
        "grid, queue and chart of two policies"
    )
    background = page.run("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.parametrize("size", SIZES)
def test_ratio_and_interval_stay_in_sight(page: Browser, folder: Path, size: tuple[int, int]) -> None:
    opened(page, folder, width=size[0], height=size[1])
    page.run("scrollTo(0, 1500)")
    top, bottom = page.run(
        "(({top, bottom}) => [top, bottom])(document.querySelector('.verdict').getBoundingClientRect())"
    )
    assert top == 0
    assert bottom < size[1] / 6
    assert page.run("document.querySelector('.verdict').innerText").startswith("mean JCT, ")
    ratio = page.run("document.querySelector('.verdict b').textContent")
    assert (
        ratio == f"{json.loads((folder / 'summary.json').read_text())['mean_jct_ratio']['srtf']['ratio']:.3f}"
    )


@pytest.mark.parametrize("size", SIZES)
def test_a_heading_is_not_broken_within_a_short_word(
    page: Browser, folder: Path, size: tuple[int, int]
) -> None:
    opened(page, folder, width=size[0], height=size[1])
    lines = page.run(
        "[...document.querySelectorAll('.fates th')].map((each) => { const text = document.createRange(); "
        "text.selectNodeContents(each); return [each.textContent, text.getClientRects().length]; })"
    )
    assert ["GPUs", 1] in lines


def state_at(run: Run, policy: str, time_s: float) -> tuple[int, int]:
    """Return the number of GPUs held and of jobs queued at a time, from the record."""
    segments = run.segments[policy]
    now = segments[(segments["from_s"] <= time_s) & (time_s < segments["to_s"])]
    held = {gpu for text in now["gpus"] for gpu in parse_intervals(text)}
    return len(held), int(now["phase"].isin(["queued", "reserved", "restarting"]).sum())


def test_the_slider_shows_the_state_of_the_record(page: Browser, folder: Path, run: Run) -> None:
    """The counts beside each grid are those of the record at 25 times halfway between whole seconds."""
    opened(page, folder)
    last = page.run("replay.range[1]")
    for time_s in np.linspace(0, last - 1, 25).round() + 0.5:
        page.run(f"moveTo({time_s})")
        told = page.run("replay.sides.map((side) => [side.policy, side.now.textContent])")
        for policy, text in told:
            held, queued = state_at(run, policy, float(time_s))
            assert text == f"{held} of 16 GPUs held · {queued} queued"


FOCUS = "document.activeElement"


def test_the_keyboard_moves_the_slider_and_focus_is_visible(page: Browser, folder: Path) -> None:
    """Tab walks over the controls in the order of the page, each with an outline; arrow keys move the time."""
    opened(page, folder)
    page.press("Tab")
    order: list[str] = []
    while page.run(f"{FOCUS} !== document.body") and len(order) < 60:
        order.append(page.run(f"{FOCUS}.id || {FOCUS}.ariaLabel || {FOCUS}.className"))
        assert page.run(f"getComputedStyle({FOCUS}).outlineStyle") != "none", order
        page.press("Tab")
    controls = [
        "window",
        "left",
        "right",
        "find",
        "play",
        "before",
        "after",
        "speed",
        "closer",
        "wider",
        "slider",
    ]
    assert order[: len(controls)] == controls
    canvases = [f"{what} under {policy}" for policy in ("fifo", "srtf") for what in ("GPUs by job", "queue")]
    assert [each.partition(":")[0] for each in order[len(controls) :][:4]] == canvases
    page.run("document.getElementById('slider').focus()")
    before = page.run("replay.at")
    page.press("ArrowRight")
    assert page.run("replay.at") > before
    page.press("Home")
    assert page.run("replay.at") == 0
    assert page.run("document.getElementById('slider').getAttribute('aria-valuetext')").startswith("00:00:00")


def test_the_keyboard_reaches_a_job(page: Browser, folder: Path) -> None:
    """Arrow keys walk over the GPUs; Enter selects the job there, whose life then appears for both policies."""
    opened(page, folder)
    page.run("moveTo(600); replay.sides[1].grid.focus()")
    for _ in range(3):
        page.press("ArrowRight")
    said = page.run("document.getElementById('said').textContent")
    assert said.startswith("node 0 (GPU 3): job ")
    page.press("Enter")
    name = page.run("nameOf(replay.job)")
    assert f"job {name}," in said
    card = page.run("document.getElementById('card').innerText")
    assert card.startswith(f"Job {name}")
    assert page.run("document.querySelectorAll('#card ol').length") == 2


def test_a_life_on_the_page_is_that_of_the_record(page: Browser, folder: Path, run: Run) -> None:
    """Each line of a job's life begins at the time of a segment, and the last is its end."""
    opened(page, folder)
    for job in range(0, 32, 5):
        page.run(f"select({job})")
        name = page.run("nameOf(replay.job)")
        for place, policy in enumerate(page.run("replay.sides.map((side) => side.policy)")):
            items = f"document.querySelectorAll('#card ol')[{place}].querySelectorAll('li')"
            lines = page.run(f"[...{items}].map((each) => each.innerText)")
            own = run.segments[policy][run.segments[policy]["job_id"] == name].sort_values("from_s")
            end_s = round(float(own["to_s"].max()))
            assert lines[-1].startswith(clock(end_s))
            assert lines[0].startswith(clock(round(float(own["from_s"].min()))))
            paused = int(run.jobs[policy].set_index("job_id").loc[name, "preemptions"])
            overhead = (own["phase"] == "pausing").sum()
            assert sum("is paused" in line for line in lines) == overhead <= paused or len(lines) > 20


def clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def test_ten_random_decisions_are_explained_as_recorded(page: Browser, folder: Path, run: Run) -> None:
    """The page names key, place and cause of `decisions.csv`; tests/simulator checks these against the rules."""
    opened(page, folder)
    rng = np.random.default_rng(0)
    for place, policy in enumerate(page.run("replay.sides.map((side) => side.policy)")):
        decisions = run.decisions[policy]
        for row in rng.choice(len(decisions), 5, replace=False).tolist():
            found = decisions.loc[row]
            time_s, action, job = (found[name] for name in ("time_s", "action", "job_id"))
            compared = compared_by(run, policy, int(found["window"]), int(found["decision"]))
            page.run(f"select(replay.win.jobs.id.indexOf({json.dumps(job)}))")
            told = page.run(
                f"""[...document.querySelectorAll('#card ol')[{place}].querySelectorAll('li')]
                .filter((each) => each.innerText.startsWith('{clock(round(time_s))}')).map((each) => each.innerText)"""
            )
            submitted = f"replay.win.jobs.submit[replay.win.jobs.id.indexOf({json.dumps(job)})]"
            own = page.run(f"keyText({json.dumps(found['keys'])}, {found['key']:.1f}, {submitted})")
            if action == "pause":
                parts = [f"Why: for job {compared['cause'][0]['job_id']}", own]
            else:
                where = "first" if found["place"] == 1 else f"number {found['place']}"
                parts = [f"Why: {where} of {found['ranked']} by ", own]
                others = (*compared.get("earlier", ()), *compared.get("later", ()))
                parts += [f"{each['job_id']} (" for each in others]
            assert any(all(part in line for part in parts) for line in told), (parts, told)


def test_decisions_of_union_are_explained(page: Browser, tmp_path: Path) -> None:
    """The page states order and costs of a start, the gain of a pause, and what a move gains."""
    folder = ran(tmp_path, tiny.mixed(seed=1), "--report", "--policy", "union", "fifo", "--no-floors")
    opened(page, folder)
    place = page.run("replay.sides.map((side) => side.policy)").index("union")
    run = run_tables.read(folder)
    first = run.decisions["union"].drop_duplicates(["action", "rule"])
    assert {*first["action"]} == {"start", "pause", "resize"}
    for found in first.to_dict("records"):
        time_s, action, job = (found[name] for name in ("time_s", "action", "job_id"))
        compared = compared_by(run, "union", int(found["window"]), int(found["decision"]))
        page.run(f"select(replay.win.jobs.id.indexOf({json.dumps(job)}))")
        said = page.run(
            f"""[...document.querySelectorAll('#card ol')[{place}].querySelectorAll('li')]
            .filter((each) => each.innerText.startsWith('{clock(round(time_s))}')).map((each) => each.innerText)"""
        )
        wanted = {
            "start": f"of {found['ranked']} by ",
            "pause": f"Why: for job {compared.get('cause', [{'job_id': ''}])[0]['job_id']}",
            "resize": f"Why: {found['rule']} Its estimated remaining time is ",
        }[action]
        terms = [
            page.run(f"termText({json.dumps(each['name'])}, {json.dumps(finite(each['value']))}, replay.win)")
            for each in compared.get("term", ())
        ]
        assert any(all(part in line for part in (wanted, *terms)) for line in said), (wanted, terms, said)


def finite(value: float) -> float | None:
    """Return a value as the page has it: rounded to tenths, None for infinity."""
    return None if math.isnan(value) else round(value, 1)


def test_probabilities_of_an_agent_are_explained(page: Browser, folder: Path) -> None:
    """Largest first, in percent, for starts and for pauses."""
    opened(page, folder)
    row = [0, None, 0, 0, 1, 12.5, 2, 3, 1, [[1, 50.0]], [[2, 0.1]], 0, [[2, 37.5]], []]
    texts = ["Actions are drawn.", "probability, %", "% for waiting"]
    names = page.run("replay.win.jobs.id.slice(0, 3)")
    for kind in (0, 1):
        row[1] = kind
        said = page.run(f"reasonText({json.dumps(texts)}, replay.win, {json.dumps(row)})")
        assert said.startswith(
            f"Why: number 2 of 3 by probability: 12.5 %. Before it, 1 queued job not started: {names[1]} (50 %)."
        )
        assert said.endswith("Compared: 37.5 % for waiting.")


def test_times_of_submission_count_from_the_first_one(page: Browser, folder: Path) -> None:
    """As in the job's history, although a key of the record counts from the begin of the episode, days before."""
    opened(page, folder)
    row = [200_000, 0, 3, 0, 1, 172_800.0, 1, 2, 0, [], [[4, 172_900.0]], 0, [], []]
    said = page.run(f"reasonText(['In order.', 'time of submission, s'], replay.win, {json.dumps(row)})")
    submitted = [clock(time_s) for time_s in page.run("replay.win.jobs.submit.slice(3, 5)")]
    name = page.run("replay.win.jobs.id[4]")
    assert said == f"Why: first of 2 by time of submission: {submitted[0]}. Next: {name} ({submitted[1]})."


def test_compared_moves_are_explained(page: Browser, folder: Path) -> None:
    """First the move that was made; a value of seconds is a duration, and other jobs are named."""
    opened(page, folder)
    options = [[2, 1, 600, 120.0], [3, -1, 0, None], [2, 2, -5, 7.5]]
    texts = ["Moves are tried.", "mean total JCT saved, s", "start {job} on 1 GPU of node 0", "wait"]
    row = [0, 0, 1, 0, 1, 600, 1, 9, 0, [], [], 0, [], options]
    names = page.run("replay.win.jobs.id.slice(0, 3)")
    said = page.run(f"reasonText({json.dumps(texts)}, replay.win, {json.dumps(row)})")
    assert said == (
        f"Why: of 9 compared moves, by mean total JCT saved: start job {names[1]} on 1 GPU of node 0 (10 min, more "
        f"than 2 min required). Others: wait (0 s); start job {names[2]} on 1 GPU of node 0 (-5 s) "
        "and 6 more."
    )


def test_a_policy_without_reasons_says_so(page: Browser, folder: Path) -> None:
    opened(page, folder)
    page.run("document.getElementById('right').value = 'gandiva'; showWindow()")
    page.until("replay.sides[1].policy === 'gandiva'")
    card = "document.querySelectorAll('#card .panels > div')"
    assert "gives no reasons for its decisions" in page.run(f"{card}[1].innerText")
    assert "gives no reasons" not in page.run(f"{card}[0].innerText")


def test_jobs_whose_fate_differs_most_come_first(page: Browser, folder: Path, run: Run) -> None:
    opened(page, folder)
    left, right = page.run("replay.sides.map((side) => side.policy)")
    gaps = (run.jobs[right].set_index("job_id")["jct_s"] - run.jobs[left].set_index("job_id")["jct_s"]).abs()
    names = page.run("[...document.querySelectorAll('#fates button')].map((each) => each.textContent)")
    assert len(names) == min(12, int((gaps >= 1).sum()))
    shown = gaps.loc[names].to_numpy()
    assert shown[0] == gaps.max()
    assert (np.diff(shown) <= 1).all(), "rounded to seconds"


def test_play_moves_on_and_steps_where_motion_is_reduced(page: Browser, folder: Path) -> None:
    for motion in ("no-preference", "reduce"):
        opened(page, folder, prefers_reduced_motion=motion)
        page.run("window.moves = 0; const move = drawMoment; drawMoment = () => { window.moves++; move(); };")
        before = page.run("replay.at")
        page.run("document.getElementById('play').focus()")
        page.press("Enter")
        page.until(f"replay.at > {before}")
        assert page.run("document.getElementById('play').textContent") == "Pause"
        page.run("new Promise((done) => setTimeout(done, 1000))")
        page.press("Enter")
        at = page.run("replay.at")
        moves = page.run("window.moves")
        assert moves > 4 if motion == "no-preference" else moves <= 4
        page.run("new Promise((done) => setTimeout(done, 300))")
        assert page.run("replay.at") == at


def import_s() -> float:
    """Return the CPU time in which a new process imports what builds the page, s."""
    code = "import time; import gpu_cluster_gym.evaluation.html_report; print(time.process_time())"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


QUICK = "--workload quick --windows 20"
WEEK = "--trace philly --cluster 62x8 --full-trace --jobs 2500 --target-load 0.85 --drop-too-large"


@pytest.mark.slow(reason="a hundred windows are simulated for three minutes")
@pytest.mark.parametrize(("flags", "max_mb"), [(QUICK, 5), (WEEK, 20)])
def test_a_page_opens_within_two_seconds_and_its_size(
    page: Browser, tmp_path: Path, flags: str, max_mb: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five policies on twenty windows within 5 MB, and on a week of 496 GPUs within 20 MB."""
    policies = "--policy fifo srtf las xion union --no-floors --report"
    assert main([*policies.split(), *flags.split(), "--out", str(tmp_path / "out")]) == 0
    began = time.process_time()
    file = html_report.write(tmp_path / "out")
    built_s, began = time.process_time() - began, time.monotonic()
    opened(page, tmp_path / "out")
    shown_s, megabytes = time.monotonic() - began, file.stat().st_size / 1e6
    with capsys.disabled():
        figures = (
            f"{megabytes:.1f} MB, built in {built_s:.1f} s of CPU after imports of {import_s():.1f} s, "
            f"shown after {shown_s:.2f} s"
        )
        sys.stdout.write(f"{flags}: {figures}\n")
    assert page.errors == []
    assert megabytes <= max_mb
    assert shown_s <= 2


def test_a_click_on_a_gpu_selects_its_job(page: Browser, folder: Path) -> None:
    opened(page, folder)
    page.run("moveTo(600); replay.sides[0].grid.scrollIntoView({block: 'center'})")
    x, y, job = page.run(
        """(() => { const side = replay.sides[0];
        const gpu = [...Array(data.gpus).keys()].find((each) => holders(side, each, 600).length === 1);
        const [x, y] = cellOf(side.layout, gpu), box = side.grid.getBoundingClientRect();
        return [box.left + x + 4, box.top + y + 4, side.job[holders(side, gpu, 600)[0]]]; })()"""
    )
    page.click(x, y)
    assert page.run("replay.job") == job
