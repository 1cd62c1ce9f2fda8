"""Xonar: let jobs share GPUs by their profiles, and never run out of memory (Shin et al., IEEE CLOUD 2022).

Claim: jobs that share GPUs without regard to memory run out of it, and the unlucky one begins anew; ordering the
queue by profiles ends that, and the tail of completion times is 44 % shorter. Neither the tail nor the baseline is
defined in what we know: the tail is here the 95th percentile of a trial's JCTs, and the longest beside it, which is the
makespan since all jobs come at once; the baselines are the two that the authors' code keeps, one slot, and two slots
with a memory test, and a FIFO that knows nothing of memory, with either victim.

Inferred: 10 jobs, as in the authors' trials, or 30 wait for one pair of 32 GB GPUs, at most two at a time, drawn like
their 600 profiles (mix) or like those above 8 GB (memory). How two slow each other down, and what a job takes besides
its iterations, is fitted to one of their measured queues, which is replayed. "Unlucky" is any job on the GPU, or the
newcomer, whose memory grows; the victim begins anew, its start-up included.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gpu_cluster_gym.baselines.packed_fifo import PackedFifo
from gpu_cluster_gym.baselines.xonar import Xonar
from gpu_cluster_gym.evaluation.comparison import Estimate, estimate
from gpu_cluster_gym.experiments import _figure, _tables, _xonar_replay
from gpu_cluster_gym.experiments._claims import Claim
from gpu_cluster_gym.experiments._figure import Look
from gpu_cluster_gym.experiments._paper import Paper
from gpu_cluster_gym.experiments._trials import Case, Found, Setting, by_default, changed, drawn
from gpu_cluster_gym.experiments._xonar_replay import CONTENTIONS
from gpu_cluster_gym.traces import stream
from gpu_cluster_gym.workloads import Workload, prepare, seed_of_jobs
from gpu_cluster_gym.workloads.xonar_mix import STARTUP_S

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpu_cluster_gym.evaluation.report import SideBySide

HEADLINE = 0.44
SETS = tuple(f"{kind} {jobs}" for kind in ("mix", "memory") for jobs in (10, 30))
AS_TRIED = tuple(name for name in SETS if name.endswith("10"))  # with as many jobs as the authors' trials
RESTART_S = STARTUP_S  # of the workloads
OTHER_SCORES: tuple[Literal[1, 2, 3, 4, 5, 6, 8], ...] = (1, 2, 3, 4, 5, 6, 8)  # 7 is Xonar's default
DELAYS_S = (RESTART_S, 60.0, 120.0, 300.0, 600.0)
PEAKS = (0.0, 0.25, 0.5, 0.75, 0.95)
ERRORS = (0.1, 0.2)  # deviations of the logarithm of a profiled memory; 0 is the usual case
PROFILING_S = (10.0, 56.0)  # the latter is the median of the authors' profiling runs; 0 is the usual case
NEWCOMER = "newcomer"
ALONE, BLIND, HEAD, FIRST_FIT, XONAR = "fifo", "fifo_blind", "packed_fifo, strict", "packed_fifo", "xonar"
TAIL, LONGEST, VARIANCE = "p95_jct_s", "max_jct_s", "jct_variance_s2"


def delayed(name: str, seconds: float) -> str:
    """Return the name of the setting of a set in which a restart takes so long."""
    return name if seconds == RESTART_S else f"{name}, restart after {seconds:g} s"


def peaking(name: str, share: float) -> str:
    """Return the name of the setting of a set in which memory peaks at that share of a run."""
    return f"{name}, peak at {share:g}" if share else name


def erring(name: str, error: float) -> str:
    """Return the name of the setting of a set in which profiled memory is off by so much."""
    return f"{name}, memory off by {error:g}" if error else name


def profiling(name: str, seconds: float) -> str:
    """Return the name of the setting of a set in which a profile takes so long."""
    return f"{name}, profiled in {seconds:g} s" if seconds else name


def against(name: str) -> dict[str, Case]:
    """Return the baselines that Xonar is compared with in a set: what each is called, and where it is found."""
    return {
        "one slot": (name, ALONE),
        "two slots with a memory test": (name, HEAD),
        "blind FIFO, the newcomer failing": (f"{name}, {NEWCOMER}", BLIND),
        "blind FIFO, anybody failing": (name, BLIND),
    }


def settings(trials: int, seed: int) -> list[Setting]:
    """Return the four sets with all policies, what changes the cost of failing or of profiles, and the replay.

    Failing costs nothing to a policy under which no job does, so only the blind one runs again.
    """
    policies = (
        by_default(ALONE, BLIND) | {HEAD: partial(PackedFifo, strict=True)} | by_default(FIRST_FIT, XONAR)
    )
    scores = {f"xonar, score {score}": partial(Xonar, score) for score in OTHER_SCORES}
    found = []
    for name in SETS:
        kind, jobs = name.split()
        loads = drawn(f"xonar_{kind}", trials, seed, jobs=int(jobs))
        found.append(Setting(name, loads, policies | (scores if name in AS_TRIED else {})))
        found += _dear_failures(name, loads)
        found += _poor_profiles(name, loads)
        for other, choices in CONTENTIONS.items():
            found.append(
                Setting(f"{name}, {other}", changed(loads, **choices), by_default(ALONE, BLIND, XONAR))
            )
    return [*found, *_xonar_replay.settings()]


def _dear_failures(name: str, loads: Sequence[Workload]) -> list[Setting]:
    costs: dict[str, dict[str, Any]] = {f"{name}, {NEWCOMER}": {"oom_victim": NEWCOMER}}
    if name in AS_TRIED:
        costs |= {delayed(name, seconds): {"restart_delay": seconds} for seconds in DELAYS_S[1:]}
        costs |= {peaking(name, peak): {"peak_at": peak} for peak in PEAKS[1:]}
    return [Setting(other, changed(loads, **choices), by_default(BLIND)) for other, choices in costs.items()]


def _poor_profiles(name: str, loads: Sequence[Workload]) -> list[Setting]:
    found = [Setting(erring(name, error), misprofiled(loads, error), by_default(XONAR)) for error in ERRORS]
    for seconds in PROFILING_S:
        profiled = changed(loads, physics=_with_profiles(loads[0]), profiling=seconds)
        found.append(Setting(profiling(name, seconds), profiled, by_default(XONAR)))
    return found


def misprofiled(loads: Sequence[Workload], error: float) -> list[Workload]:
    """Return the same trials with profiled memories that are off by a lognormal factor, and all else exact."""
    found = []
    for load in loads:
        rng = stream(seed_of_jobs(load.scenario, load.window), "profiled memory")
        factor = np.exp(error * rng.standard_normal(len(load.table)))
        table = load.table.assign(profiled_memory_gib=load.table["gpu_memory_gib"] * factor)
        scenario = replace(load.scenario, physics=_with_profiles(load))
        found.append(prepare(table, scenario, window=load.window))
    return found


def _with_profiles(load: Workload) -> str:
    return f"{load.scenario.physics},profiles"


def tail(found: Found, name: str, number: str = TAIL, than: str | None = None) -> Estimate:
    """Return by what share Xonar's tail is shorter than that of blind FIFO, there or in another setting."""
    return found.saving((name, XONAR), (than or name, BLIND), number)


def title(name: str) -> str:
    """Return a set's name in words."""
    kind, jobs = name.split()
    return f"{jobs} jobs of the {kind} set"


def tables(found: Found) -> "list[SideBySide]":
    """Return the four sets, Xonar against each baseline, on what that depends, poor profiles, and the replay."""
    numbers = (
        ("mean_jct_s", "mean\nJCT", "{:,.0f}"),
        (TAIL, "p95\nJCT", "{:,.0f}"),
        (LONGEST, "longest,\nmakespan", "{:,.0f}"),
        (VARIANCE, "variance,\ns²", "{:,.0f}"),
        ("oom_restarts", "out of\nmemory", "{:,.1f}"),
        ("shared_gpu_hours", "shared\nGPU-h", "{:.2f}"),
    )
    sets = [
        _tables.comparison(title(name), found, name, ALONE, numbers=numbers, ratios=[(TAIL, "p95")])
        for name in SETS
    ]
    return [*sets, _against(found), _depends(found), _profiles(found), _xonar_replay.table(found)]


def _against(found: Found) -> "SideBySide":
    rows = []
    for name in SETS:
        for baseline, case in against(name).items():
            each = [found.saving((name, XONAR), case, number) for number in (TAIL, LONGEST, VARIANCE)]
            failures = f"{found.mean(case, 'oom_restarts').mean:.1f}"
            rows.append([name, baseline, *(_share(saved) for saved in each), failures])
    headings = ["set", "than", "p95", "longest,\nmakespan", "variance", "out of\nmemory"]
    return _tables.grid("By what share Xonar's JCTs are shorter, of each trial", headings, rows, words=2)


def _share(saved: Estimate) -> str:
    return " ".join(_tables.texts(saved, "{:.1%}"))


def _depends(found: Found) -> "SideBySide":
    headings = ["set", "as it is", *(f"{name.split()[2]}\npairs" for name in CONTENTIONS)]
    headings += ["than\nfirst fit", "than\nscore 3", "44 % if a\nrestart takes"]
    rows = []
    for name in SETS:
        each = [tail(found, name), *(tail(found, f"{name}, {other}") for other in CONTENTIONS)]
        each.append(found.saving((name, XONAR), (name, FIRST_FIT), TAIL))
        texts = ["\n".join(_tables.texts(found_here, "{:.1%}")) for found_here in each]
        if name in AS_TRIED:
            score = found.saving((name, XONAR), (name, "xonar, score 3"), TAIL)
            texts += ["\n".join(_tables.texts(score, "{:.1%}")), _crossing(found, name)]
        else:
            texts += ["", ""]
        rows.append((name, *texts))
    what = "By what share Xonar's p95 is shorter than blind FIFO's, anybody failing, and on what that depends"
    return _tables.grid(what, headings, rows)


def _profiles(found: Found) -> "SideBySide":
    errors = (0.0, *ERRORS)
    headings = ["set", *(f"{what},\noff {100 * error:.0f} %" for what in ("OoM", "p95") for error in errors)]
    headings += [f"p95,\n{seconds:g} s" for seconds in PROFILING_S]
    rows = []
    for name in SETS:
        off = [erring(name, error) for error in errors]
        failures = [_tables.texts(found.mean((other, XONAR), "oom_restarts"), "{:.2f}") for other in off]
        others = [*off, *(profiling(name, seconds) for seconds in PROFILING_S)]
        saved = [found.saving((other, XONAR), (name, HEAD), TAIL) for other in others]
        shares = [_tables.texts(each, "{:.1%}") for each in saved]
        rows.append([name, *("\n".join(texts) for texts in (*failures, *shares))])
    what = (
        "Xonar where profiled memory is off, or a profile takes time: failures, p95 against the memory test's"
    )
    return _tables.grid(what, headings, rows)


def _crossing(found: Found, name: str) -> str:
    """Say which delay of a restart makes the paper's figure come true."""
    savings = [tail(found, name, than=delayed(name, seconds)).mean for seconds in DELAYS_S]
    for (before, low), (after, high) in pairwise(zip(DELAYS_S, savings, strict=True)):
        if low < HEADLINE <= high:
            return f"{np.interp(HEADLINE, (low, high), (before, after)):.0f} s"
    return f"over {DELAYS_S[-1]:.0f} s" if savings[0] < HEADLINE else f"up to {DELAYS_S[0]:.0f} s"


def claims(found: Found) -> list[Claim]:
    """Return that no job runs out of memory, with exact profiles and with others, and how much shorter the tail is."""
    off = ERRORS[0]
    blind = "Under blind FIFO, jobs run out of memory more than 0 times a trial."
    exact = "Under Xonar with exact profiles, they do exactly 0 times (true by construction)."
    poor = f"Under Xonar with memory profiled {off:.0%} off, they do exactly 0 times.".replace("%", " %")
    return [
        Claim(blind, _failures(found, BLIND, SETS), "more than", paper=0, form="{:.2f}"),
        Claim(exact, _failures(found, XONAR, SETS), "exactly", paper=0, form="{:g}"),
        Claim(poor, _failures(found, XONAR, [erring(name, off) for name in SETS]), "exactly", paper=0),
        *(_shorter(found, name, than) for name in SETS[:2] for than in against(name)),
        *(_shorter(found, SETS[0], than, LONGEST) for than in against(SETS[0])),
    ]


def _failures(found: Found, policy: str, places: Sequence[str]) -> Estimate:
    return estimate(np.concatenate([found.summaries[name, policy]["oom_restarts"] for name in places]))


def _shorter(found: Found, name: str, than: str, number: str = TAIL) -> Claim:
    what = {TAIL: "p95 of JCT", LONGEST: "longest JCT"}[number]
    claim = f"{title(name)}: Xonar's {what} is at least 44 % shorter than with {than}."
    saved = found.saving((name, XONAR), against(name)[than], number)
    return Claim(claim, saved, "at least", paper=HEADLINE, form="{:.1%}")


def remarks(found: Found) -> list[str]:
    """Say what most of the gain is, what the best single trial has, and what the replay rests on."""
    gained = {
        name: found.saving((name, FIRST_FIT), (name, BLIND), TAIL).mean / tail(found, name).mean
        for name in SETS
    }
    parts = ", ".join(f"{100 * share:.0f} % ({name})" for name, share in gained.items())
    alone = {name: found.summaries[name, XONAR][TAIL] / found.summaries[name, ALONE][TAIL] for name in SETS}
    best = ", ".join(f"{100 * (1 - each.min()):.0f} % ({name})" for name, each in alone.items())
    return [
        "Of what Xonar's p95 gains over blind FIFO, anybody failing, first fit with the memory test has this share: "
        f"{parts}.",
        f"In the best single trial Xonar's p95 is shorter than with one slot by {best}.",
        "The memory test ends failures only as far as profiles are exact; the trace's are, so that is no finding.",
        _xonar_replay.remark(found),
    ]


LOOKS = {
    "memory 10": Look("memory", _figure.BLUE, width=2.2),
    "mix 10": Look("mix", _figure.RED, width=2.2),
}
ROWS = {ALONE: "no sharing", HEAD: "head waits", FIRST_FIT: "first fit", XONAR: "Xonar"}


def figure(found: Found) -> "Figure":
    """Draw how much shorter the tail is over the cost of a restart, and by policy."""
    drawing, (delays, peaks, parts) = _figure.one_and_two()
    for axes, places, setting in ((delays, DELAYS_S, delayed), (peaks, PEAKS, peaking)):
        lines = {name: [tail(found, name, than=setting(name, place)) for place in places] for name in LOOKS}
        _figure.curves(axes, places, lines, LOOKS, names=axes is delays)
        _figure.percent(axes.yaxis)
        axes.set_ylim(bottom=min(axes.get_ylim()[0], 0))
    for name, offset in zip(AS_TRIED, (-0.13, 0.13), strict=True):
        each = {text: found.saving((name, policy), (name, BLIND), TAIL) for policy, text in ROWS.items()}
        _figure.dots(parts, each, LOOKS[name].colour, offset)
    _figure.percent(parts.xaxis)
    parts.axvline(0, color=_figure.GREY, linewidth=0.8)
    _figure.level(delays, HEADLINE, "paper: 44 %", DELAYS_S[0] + 2)
    delays.set_title("95th percentile of job completion time:\nhow much shorter than that of blind FIFO")
    delays.set_xlabel("Delay of a restart, s")
    _figure.logarithmic(delays, DELAYS_S)
    peaks.set_title("The same, by when\nmemory peaks")
    peaks.set_xlabel("Share of run before it")
    parts.set_title("The same by policy")
    _figure.caption(drawing, found.counts()[SETS[0]])
    return drawing


paper = Paper(
    about=__doc__,
    trials=100,
    settings=settings,
    tables=tables,
    claims=claims,
    remarks=remarks,
    figure=figure,
)
