"""CODA: give each training job the CPU cores it needs, and CPU jobs the others (Zhao et al., IEEE ICDCS 2020).

Claim: an adaptive CPU allocator, a contention eliminator and a multi-array scheduler raise the utilisation of GPUs
by 20.8 %, and CPU jobs do not queue longer. Whether that is points or per cent is not said, nor over what: held here
in both, against a fixed 3 cores a GPU (`fixed_cores`) and against the cores that users ask for (`fifo`).

Inferred: everything else. A day of training jobs of nine models on ten nodes of eight GPUs and 40 cores, at a GPU load
of 1.1, beside CPU jobs that take a quarter of the cores and of which a fifth are heavy on memory bandwidth.
Utilisation, the busy share, is what GPUs compute relative to what they could with plenty of cores, alone and near each
other, from the first submission to the last; a GPU that is held and waits for its input counts as idle.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from gpu_cluster_gym.baselines.coda import Coda
from gpu_cluster_gym.evaluation.comparison import Estimate, estimate
from gpu_cluster_gym.experiments import _coda_needs, _figure, _tables
from gpu_cluster_gym.experiments._claims import Claim
from gpu_cluster_gym.experiments._paper import Paper
from gpu_cluster_gym.experiments._trials import Found, Setting, by_default, changed, drawn
from gpu_cluster_gym.workloads import Workload, seed_of_jobs
from gpu_cluster_gym.workloads.coda_mix import HEAVY_SHARE, WIDTHS, with_heavy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpu_cluster_gym.evaluation.report import SideBySide

HEADLINE = 0.208
SHARES = (0.0, 0.2, 0.4, 0.7, 1.0)  # of CPU jobs, that are heavy on bandwidth
BASELINES = {"fixed_cores": "a fixed 3 cores a GPU", "fifo": "the cores users ask for"}
FEWER = 2  # times, for all but the usual case
CODA, UNTUNED, UNTHROTTLED, ONE_QUEUE = "coda", "coda, no tuning", "coda, no eliminator", "coda, no arrays"
BY_WIDTH = "coda, arrays by width"
UTILISATION, CPU_WAIT, GPU_WAIT = "gpu_busy_share", "mean_cpu_wait_s", "mean_gpu_wait_s"


def heavy(share: float) -> str:
    """Return the name of the setting with this share of heavy CPU jobs."""
    return f"heavy share {share:g}"


USUAL = heavy(HEAVY_SHARE)


def settings(trials: int, seed: int) -> list[Setting]:
    """Return the usual case with the baselines and each part of CODA left out, then other shares of heavy jobs."""
    loads = drawn("coda_mix", trials, seed)
    parts = {
        UNTUNED: partial(Coda, tuning=False),
        UNTHROTTLED: partial(Coda, eliminator=False),
        ONE_QUEUE: partial(Coda, arrays=False),
        BY_WIDTH: partial(Coda, by_width=True),
    }
    both = by_default("fixed_cores", CODA) | {UNTHROTTLED: parts[UNTHROTTLED]}
    others = [share for share in SHARES if share != HEAVY_SHARE]
    few = loads[: max(1, trials // FEWER)]
    return [
        Setting(USUAL, loads, by_default(*BASELINES, CODA) | parts),
        *(Setting(heavy(share), with_share(few, share), both) for share in others),
        *_coda_needs.settings(loads[0]),
    ]


def with_share(loads: Sequence[Workload], share: float) -> list[Workload]:
    """Return the same trials with another share of heavy CPU jobs: some of the same, or the same and more."""
    seeds = [seed_of_jobs(load.scenario, load.window) for load in loads]
    changes = [partial(with_heavy, share=share, seed=seed) for seed in seeds]
    return [changed([load], change)[0] for load, change in zip(loads, changes, strict=True)]


def tables(found: Found) -> "list[SideBySide]":
    """Return the policies, and what the eliminator does by share of heavy jobs."""
    numbers = (
        (UTILISATION, "busy\nshare", "{:.1%}"),
        ("cpu_utilisation", "CPU\nutil.", "{:.1%}"),
        (GPU_WAIT, "GPU\nwait", "{:,.0f}"),
        (CPU_WAIT, "CPU\nwait", "{:,.1f}"),
        ("mean_jct_s", "mean\nJCT", "{:,.0f}"),
    )
    ratios = ((UTILISATION, "busy share"), (CPU_WAIT, "CPU wait"))
    usual = _tables.comparison("A day", found, USUAL, "fixed_cores", numbers=numbers, ratios=ratios)
    return [usual, _gains(found), _by_heavy_share(found), _by_width(found), _coda_needs.table(found)]


def _gains(found: Found) -> "SideBySide":
    """Return what CODA gains over each baseline, in points and relatively, and how long CPU jobs wait."""
    rows = []
    for baseline, text in BASELINES.items():
        points, relative, wait = gains(found, baseline)
        shares = [" ".join(_tables.texts(each, "{:.1%}")) for each in (points, relative)]
        rows.append([text, *shares, " ".join(_tables.texts(wait, "{:+.1f}"))])
    headings = ["over", "points of GPU\nutilisation", "relative", "CPU jobs' wait,\ns more"]
    return _tables.grid("What CODA gains (paper: 20.8 %, of which kind it does not say)", headings, rows)


def gains(found: Found, baseline: str) -> tuple[Estimate, Estimate, Estimate]:
    """Return by how much GPUs are used more under CODA, in points and relatively, and by how many s CPU jobs wait more.

    Of their wait it is the difference: in some trials no CPU job waits with the cores that users ask for.
    """
    ours, theirs = (USUAL, CODA), (USUAL, baseline)
    relative = Estimate(*(figure - 1 for figure in found.ratio(ours, theirs, UTILISATION)))
    return found.difference(ours, theirs, UTILISATION), relative, found.difference(ours, theirs, CPU_WAIT)


def _by_heavy_share(found: Found) -> "SideBySide":
    """Return what the eliminator does to GPU utilisation and to CPU jobs, by the share of them that are heavy."""
    rows = []
    for share in SHARES:
        ours, without = (heavy(share), CODA), (heavy(share), UNTHROTTLED)
        each = [found.mean(case, UTILISATION) for case in ((heavy(share), "fixed_cores"), without, ours)]
        gained = found.difference(ours, without, UTILISATION)
        waits = [
            f"{found.mean(case, CPU_WAIT).mean:,.0f}"
            for case in ((heavy(share), "fixed_cores"), without, ours)
        ]
        shares = [_tables.texts(one, "{:.1%}")[0] for one in each]
        rows.append([f"{share:.0%}", *shares, " ".join(_tables.texts(gained, "{:.1%}")), *waits])
    headings = [
        "heavy",
        *(f"GPU util.,\n{name}" for name in ("fixed", "no elim.", "CODA")),
        "eliminator,\npoints",
    ]
    headings += [f"CPU wait,\n{name}" for name in ("fixed", "no elim.", "CODA")]
    trials = found.counts()[heavy(SHARES[0])]
    return _tables.grid(f"By share of CPU jobs that are heavy on bandwidth ({trials} trials)", headings, rows)


def _by_width(found: Found) -> "SideBySide":
    """Return the mean wait of jobs with GPUs by how many they ask for."""
    rows = []
    for policy in ("fixed_cores", CODA, BY_WIDTH):
        jobs = found.results[USUAL, policy]
        waits = [jobs[jobs["num_gpus"] == width].groupby("window")["wait_s"].mean() for width in WIDTHS]
        rows.append([policy, *(" ".join(_tables.texts(estimate(each), "{:,.0f}")) for each in waits)])
    return _tables.grid("Mean wait by GPUs asked for, s", ["policy", *map(str, WIDTHS)], rows)


def claims(found: Found) -> list[Claim]:
    """Return that GPUs are used more and CPU jobs wait no longer, over each baseline."""
    return [claim for baseline in BASELINES for claim in _over(found, baseline)]


def _over(found: Found, baseline: str) -> list[Claim]:
    points, relative, wait = gains(found, baseline)
    than = f"with {BASELINES[baseline]}"
    used, more = "GPU utilisation is at least 20.8 points higher", "GPU utilisation is at least 20.8 % higher"
    return [
        Claim(f"{used} than {than}.", points, "at least", paper=HEADLINE, form="{:.1%}"),
        Claim(f"{more} than {than}.", relative, "at least", paper=HEADLINE, form="{:.1%}"),
        Claim(f"CPU jobs wait at most 0 s longer than {than}.", wait, "at most", paper=0, form="{:.1f}"),
    ]


def remarks(found: Found) -> list[str]:
    """Say what each part of CODA is worth."""
    parts = {UNTUNED: "tuning", UNTHROTTLED: "the eliminator", ONE_QUEUE: "the arrays"}
    ours = found.mean((USUAL, CODA), CPU_WAIT).mean
    lines = []
    for policy, part in parts.items():
        points = found.difference((USUAL, policy), (USUAL, CODA), UTILISATION)
        mean, low, high = (f"{100 * figure:+.1f}" for figure in points)
        wait = found.mean((USUAL, policy), CPU_WAIT).mean
        lines.append(
            f"Without {part}: {mean} points of GPU utilisation ({low} to {high}), and CPU jobs wait {wait:,.1f} s "
            f"instead of {ours:,.1f} s."
        )
    return lines


ROWS = {
    "fifo": "cores asked for",
    "fixed_cores": "3 cores a GPU",
    UNTUNED: "CODA, no tuning",
    UNTHROTTLED: "CODA, no eliminator",
    ONE_QUEUE: "CODA, no arrays",
    CODA: "CODA",
}


def figure(found: Found) -> "Figure":
    """Draw, by policy, GPU utilisation over that of fixed cores, and how long CPU jobs wait."""
    drawing, (used, waits) = _figure.side_by_side()
    fixed = (USUAL, "fixed_cores")
    points = {text: found.difference((USUAL, policy), fixed, UTILISATION) for policy, text in ROWS.items()}
    wait = {text: found.mean((USUAL, policy), CPU_WAIT) for policy, text in ROWS.items()}
    _figure.dots(used, points, _figure.BLUE)
    _figure.dots(waits, wait, _figure.BLUE)
    _figure.percent(used.xaxis, symbol="")
    used.set_title("GPU utilisation against 3 cores a GPU")
    used.set_xlabel("Points more")
    used.axvline(0, color=_figure.GREY, linewidth=0.8)
    _figure.mark(used, HEADLINE, "paper: 20.8")
    waits.set_title("Mean wait of CPU jobs")
    waits.set_xlabel("Seconds")
    _figure.logarithmic(waits, (1, 10, 100))
    _figure.caption(drawing, found.counts()[USUAL])
    return drawing


paper = Paper(
    about=__doc__,
    trials=16,
    settings=settings,
    tables=tables,
    claims=claims,
    remarks=remarks,
    figure=figure,
)
