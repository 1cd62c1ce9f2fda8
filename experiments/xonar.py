"""Xonar: let jobs share GPUs according to their profiles, without running out of memory (Shin et al., CLOUD 2022).

Claim: jobs that share GPUs without regard to memory run out of it, and the unlucky one starts again; ordering the queue
by profiles prevents that, and the tail of completion times is 44 % shorter. Our sources define neither the tail nor the
baseline. The tail is here the 95th percentile of a trial's JCTs, and also the longest JCT, which is the makespan since
all jobs are submitted at once. The baselines are the two in the authors' code (one slot, and two slots with a memory
test) and a FIFO without knowledge of memory, with either choice of the victim.

Inferred: 10 jobs, as in the authors' trials, or 30 wait for one pair of 32 GB GPUs, at most two on a GPU, sampled like
their 600 profiles (mix) or like those above 8 GB (memory). The slowdown of co-located jobs, and a job's time outside
its iterations, are fitted to one of their measured queues, which is replayed. The "unlucky" job is a random one on the
GPU, or the newcomer, when memory grows; the victim starts again, including its start-up.

Inferred for the replay: two queues of ten jobs with known profiles, whose makespans the authors measured on two V100s.
Two numbers are fitted, both to the queue of trial5: a job's time outside its iterations, to the makespan of jobs one
after another (862.6 s), and the loss of two jobs on a GPU beyond their demand, to the makespan of two slots with a
memory test (634.8 s). Xonar's makespan of that queue is then a prediction, although the form of the loss was chosen
with knowledge of it (4 % per neighbour, plus the demand beyond a GPU, would give a gain of 18 % instead of 12 %). Both
makespans of the other queue are predictions too. That this queue, which is commented out in the authors' code, belongs
to the second measurement is a guess, so its results are printed but support no claim.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from gpu_cluster_gym.baselines.packed_fifo import PackedFifo
from gpu_cluster_gym.baselines.xonar import Xonar
from gpu_cluster_gym.evaluation.comparison import Estimate, estimate
from gpu_cluster_gym.evaluation.plot.style import BLUE, GREY, RED, percent
from gpu_cluster_gym.experiments import _output
from gpu_cluster_gym.experiments._output import Look
from gpu_cluster_gym.experiments._paper import Claim, Paper
from gpu_cluster_gym.experiments._trials import (
    Case,
    Outcome,
    Setting,
    change_trials,
    default_policies,
    sample_trials,
)
from gpu_cluster_gym.simulator.choice import changed
from gpu_cluster_gym.simulator.physics import CONTENTION_OF_EXCESS
from gpu_cluster_gym.traces import STATISTICS, stream
from gpu_cluster_gym.workloads import Window, Workload, filled, named, prepare, seed_of_jobs
from gpu_cluster_gym.workloads.xonar_mix import STARTUP_S, jobs_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpu_cluster_gym.evaluation.runner import Maker
    from gpu_cluster_gym.evaluation.table import ResultTable


HEADLINE = 0.44
SETS = tuple(f"{kind} {jobs}" for kind in ("mix", "memory") for jobs in (10, 30))
SETS_OF_TEN = tuple(name for name in SETS if name.endswith("10"))  # the size of the authors' trials
RESTART_S = STARTUP_S  # delay of a restart in the workloads
# Score 2, which was timed, is the default.
OTHER_SCORES: tuple[Literal[1, 3, 4, 5, 6, 7, 8], ...] = (1, 3, 4, 5, 6, 7, 8)
DELAYS_S = (RESTART_S, 60.0, 120.0, 300.0, 600.0)
PEAKS = (0.0, 0.25, 0.5, 0.75, 0.95)
ERRORS = (0.1, 0.2)  # std. dev. of the log error of profiled memory; 0 by default
PROFILING_S = (10.0, 56.0)  # the latter is the median of the authors' profiling runs; 0 by default
NEWCOMER = "newcomer"
ALONE, BLIND, HEAD, FIRST_FIT, XONAR = "fifo", "fifo_blind", "packed_fifo, strict", "packed_fifo", "xonar"
TAIL, LONGEST, MEAN, VARIANCE = "p95_jct_s", "max_jct_s", "mean_jct_s", "jct_variance_s2"


def delayed(name: str, seconds: float) -> str:
    """Return the name of a set's setting with this delay of a restart."""
    return name if seconds == RESTART_S else f"{name}, restart after {seconds:g} s"


def peaking(name: str, share: float) -> str:
    """Return the name of a set's setting in which memory peaks after this share of a run."""
    return f"{name}, peak at {share:g}" if share else name


def erring(name: str, error: float) -> str:
    """Return the name of a set's setting with this error of profiled memory."""
    return f"{name}, memory off by {error:g}" if error else name


def profiling(name: str, seconds: float) -> str:
    """Return the name of a set's setting in which profiling takes this long."""
    return f"{name}, profiled in {seconds:g} s" if seconds else name


def baseline_cases(name: str) -> dict[str, Case]:
    """Return the baselines of a set: their names in tables, and their cases."""
    return {
        "one slot": (name, ALONE),
        "two slots with a memory test": (name, HEAD),
        "blind FIFO, newcomer fails": (f"{name}, {NEWCOMER}", BLIND),
        "blind FIFO, any job fails": (name, BLIND),
    }


def settings(trials: int, seed: int) -> list[Setting]:
    """Return the four sets with all policies, variants of the costs of failures and profiles, and the replay.

    The cost of a failure matters only to the blind policy, since under the others no job fails.
    """
    policies = (
        default_policies(ALONE, BLIND)
        | {HEAD: partial(PackedFifo, strict=True)}
        | default_policies(FIRST_FIT, XONAR)
    )
    scores = {f"xonar, score {score}": partial(Xonar, score) for score in OTHER_SCORES}
    found = []
    for name in SETS:
        kind, jobs = name.split()
        loads = sample_trials(f"xonar_{kind}", trials, seed, jobs=int(jobs))
        found.append(Setting(name, loads, policies | (scores if name in SETS_OF_TEN else {})))
        found += _costly_failures(name, loads)
        found += _inexact_profiles(name, loads)
        for other, choices in CONTENTIONS.items():
            found.append(
                Setting(
                    f"{name}, {other}", change_trials(loads, **choices), default_policies(ALONE, BLIND, XONAR)
                )
            )
    return [*found, *replay_settings()]


def _costly_failures(name: str, loads: Sequence[Workload]) -> list[Setting]:
    costs: dict[str, dict[str, Any]] = {f"{name}, {NEWCOMER}": {"oom_victim": NEWCOMER}}
    if name in SETS_OF_TEN:
        costs |= {delayed(name, seconds): {"restart_delay": seconds} for seconds in DELAYS_S[1:]}
        costs |= {peaking(name, peak): {"peak_at": peak} for peak in PEAKS[1:]}
    return [
        Setting(other, change_trials(loads, **choices), default_policies(BLIND))
        for other, choices in costs.items()
    ]


def _inexact_profiles(name: str, loads: Sequence[Workload]) -> list[Setting]:
    variants = [
        Setting(erring(name, error), misprofiled(loads, error), default_policies(XONAR)) for error in ERRORS
    ]
    for seconds in PROFILING_S:
        profiled = change_trials(loads, physics=_with_profiles(loads[0]), profiling=seconds)
        variants.append(Setting(profiling(name, seconds), profiled, default_policies(XONAR)))
    return variants


def misprofiled(loads: Sequence[Workload], error: float) -> list[Workload]:
    """Return the same trials with a lognormal error of profiled memory, and all else exact."""
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


def tail(outcome: Outcome, name: str, than: str | None = None) -> Estimate:
    """Return the share by which Xonar's tail is shorter than blind FIFO's, in setting `than` if given."""
    return outcome.saving((name, XONAR), (than or name, BLIND), TAIL)


def title(name: str) -> str:
    """Return the title of a set."""
    kind, jobs = name.split()
    return f"{jobs} jobs of the {kind} set"


def tables(outcome: Outcome) -> "list[ResultTable]":
    """Return tables of the four sets, the baselines, sensitivity, inexact profiles, and the replay."""
    numbers = (
        (MEAN, "mean\nJCT", "{:,.0f}"),
        (TAIL, "p95\nJCT", "{:,.0f}"),
        (LONGEST, "longest,\nmakespan", "{:,.0f}"),
        (VARIANCE, "variance,\ns²", "{:,.0f}"),
        ("oom_restarts", "out of\nmemory", "{:,.1f}"),
        ("shared_gpu_hours", "shared\nGPU-h", "{:.2f}"),
    )
    sets = [
        _output.comparison(
            title(name), outcome, name, ALONE, numbers=numbers, ratios=[(TAIL, "p95"), (MEAN, "mean JCT")]
        )
        for name in SETS
    ]
    return [*sets, _against(outcome), _sensitivity(outcome), _profiles(outcome), replay_table(outcome)]


def _against(outcome: Outcome) -> "ResultTable":
    rows = []
    for name in SETS:
        for baseline, case in baseline_cases(name).items():
            each = [outcome.saving((name, XONAR), case, number) for number in (TAIL, LONGEST, MEAN, VARIANCE)]
            failures = f"{outcome.mean(case, 'oom_restarts').mean:.1f}"
            rows.append([name, baseline, *(_share(saved) for saved in each), failures])
    headings = ["set", "baseline", "p95", "longest,\nmakespan", "mean", "variance", "out of\nmemory"]
    return _output.grid("Reduction of JCTs by Xonar, mean over trials", headings, rows, labels=2)


def _share(saved: Estimate) -> str:
    return " ".join(_output.texts(saved, "{:.1%}"))


def _sensitivity(outcome: Outcome) -> "ResultTable":
    headings = ["set", "default", *(f"{name.split()[2]}\npairs" for name in CONTENTIONS)]
    headings += ["over\nfirst fit", "over\nscore 3", "44 % at a\nrestart of"]
    rows = []
    for name in SETS:
        each = [tail(outcome, name), *(tail(outcome, f"{name}, {other}") for other in CONTENTIONS)]
        each.append(outcome.saving((name, XONAR), (name, FIRST_FIT), TAIL))
        texts = ["\n".join(_output.texts(saved, "{:.1%}")) for saved in each]
        if name in SETS_OF_TEN:
            score = outcome.saving((name, XONAR), (name, "xonar, score 3"), TAIL)
            texts += ["\n".join(_output.texts(score, "{:.1%}")), _crossing(outcome, name)]
        else:
            texts += ["", ""]
        rows.append((name, *texts))
    what = "Reduction of p95 by Xonar over blind FIFO in which any job fails, and its sensitivity"
    return _output.grid(what, headings, rows)


def _profiles(outcome: Outcome) -> "ResultTable":
    errors = (0.0, *ERRORS)
    headings = ["set", *(f"{what},\noff {100 * error:.0f} %" for what in ("OoM", "p95") for error in errors)]
    headings += [f"p95,\n{seconds:g} s" for seconds in PROFILING_S]
    rows = []
    for name in SETS:
        off = [erring(name, error) for error in errors]
        failures = [_output.texts(outcome.mean((other, XONAR), "oom_restarts"), "{:.2f}") for other in off]
        others = [*off, *(profiling(name, seconds) for seconds in PROFILING_S)]
        saved = [outcome.saving((other, XONAR), (name, HEAD), TAIL) for other in others]
        shares = [_output.texts(each, "{:.1%}") for each in saved]
        rows.append([name, *("\n".join(texts) for texts in (*failures, *shares))])
    what = "Xonar with inexact memory profiles or with profiling time: failures, reduction of p95 over the memory test"
    return _output.grid(what, headings, rows)


def _crossing(outcome: Outcome, name: str) -> str:
    """Return the delay of a restart at which the reduction reaches the paper's number."""
    savings = [tail(outcome, name, than=delayed(name, seconds)).mean for seconds in DELAYS_S]
    for (before, low), (after, high) in pairwise(zip(DELAYS_S, savings, strict=True)):
        if low < HEADLINE <= high:
            return f"{np.interp(HEADLINE, (low, high), (before, after)):.0f} s"
    return f"over {DELAYS_S[-1]:.0f} s" if savings[0] < HEADLINE else f"up to {DELAYS_S[0]:.0f} s"


def claims(outcome: Outcome) -> list[Claim]:
    """Return the claims on running out of memory, with exact and inexact profiles, and on the tail."""
    off = ERRORS[0]
    blind = (
        f"Under blind FIFO, jobs run out of memory more than 0 times per trial (mean of {len(SETS)} sets)."
    )
    exact = "Under Xonar with exact profiles, jobs run out of memory exactly 0 times (true by construction)."
    percent_off = f"{100 * off:.0f} %"
    inexact = (
        f"Under Xonar with an error of {percent_off} in profiled memory, jobs run out of it exactly 0 times (mean of "
        f"{len(SETS)} sets)."
    )
    return [
        Claim(blind, _failures(outcome, BLIND, SETS), "more than", paper=0, form="{:.2f}"),
        Claim(exact, _failures(outcome, XONAR, SETS), "exactly", paper=0, form="{:g}"),
        Claim(inexact, _failures(outcome, XONAR, [erring(name, off) for name in SETS]), "exactly", paper=0),
        *(_shorter(outcome, name, than) for name in SETS[:2] for than in baseline_cases(name)),
        *(_shorter(outcome, SETS[0], than, LONGEST) for than in baseline_cases(SETS[0])),
    ]


def _failures(outcome: Outcome, policy: str, places: Sequence[str]) -> Estimate:
    return estimate(np.concatenate([outcome.summaries[name, policy]["oom_restarts"] for name in places]))


def _shorter(outcome: Outcome, name: str, than: str, number: str = TAIL) -> Claim:
    what = {TAIL: "p95 of JCT", LONGEST: "longest JCT"}[number]
    claim = f"{title(name)}: Xonar's {what} is at least 44 % shorter than with {than}."
    saved = outcome.saving((name, XONAR), baseline_cases(name)[than], number)
    return Claim(claim, saved, "at least", paper=HEADLINE, form="{:.1%}")


def remarks(outcome: Outcome) -> list[str]:
    """Return sentences on the source of the gain, the best single trial, exact profiles and the replay."""
    gained = {
        name: outcome.saving((name, FIRST_FIT), (name, BLIND), TAIL).mean / tail(outcome, name).mean
        for name in SETS
    }
    parts = ", ".join(f"{100 * share:.0f} % ({name})" for name, share in gained.items())
    alone = {
        name: outcome.summaries[name, XONAR][TAIL] / outcome.summaries[name, ALONE][TAIL] for name in SETS
    }
    best = ", ".join(f"{100 * (1 - each.min()):.0f} % ({name})" for name, each in alone.items())
    means = {name: outcome.saving((name, XONAR), (name, FIRST_FIT), MEAN) for name in SETS}
    than_first_fit = ", ".join(f"{_share(saved)} ({name})" for name, saved in means.items())
    return [
        f"Xonar's mean JCT is shorter than that of first fit with the memory test by {than_first_fit}.",
        "Share of Xonar's gain in p95 over blind FIFO, any job failing, that first fit with the memory test reaches: "
        f"{parts}.",
        f"In the best single trial Xonar's p95 is shorter than with one slot by {best}.",
        "The memory test prevents failures only as far as profiles are exact. The trace's profiles are exact, so the "
        "absence of failures is not a finding.",
        replay_remark(outcome),
    ]


LOOKS = {
    "memory 10": Look("memory", BLUE, width=2.2),
    "mix 10": Look("mix", RED, width=2.2),
}
ROWS = {ALONE: "no sharing", HEAD: "memory test", FIRST_FIT: "first fit", XONAR: "Xonar"}


def figure(outcome: Outcome) -> "Figure":
    """Draw the reduction of the tail over the delay of a restart and over the time of peak memory, and by policy."""
    drawing, (delays, peaks, parts) = _output.one_and_two()
    for axes, places, setting in ((delays, DELAYS_S, delayed), (peaks, PEAKS, peaking)):
        lines = {name: [tail(outcome, name, than=setting(name, place)) for place in places] for name in LOOKS}
        _output.curves(axes, places, lines, LOOKS, names=axes is delays)
        percent(axes.yaxis)
        axes.set_ylim(bottom=min(axes.get_ylim()[0], 0))
    for name, offset in zip(SETS_OF_TEN, (-0.13, 0.13), strict=True):
        each = {text: outcome.saving((name, policy), (name, BLIND), TAIL) for policy, text in ROWS.items()}
        _output.dots(parts, each, LOOKS[name].colour, offset)
    percent(parts.xaxis)
    parts.axvline(0, color=GREY, linewidth=0.8)
    _output.level(delays, HEADLINE, "paper: 44 %", DELAYS_S[0] + 2)
    delays.set_title("95th percentile of job completion time:\nreduction by Xonar over blind FIFO")
    delays.set_xlabel("Delay of a restart, s")
    _output.logarithmic(delays, DELAYS_S)
    peaks.set_title("The same, by time of\npeak memory")
    peaks.set_xlabel("Share of run before peak")
    parts.set_title("The same by policy")
    _output.caption(drawing, outcome.counts()[SETS[0]])
    return drawing


# Replay of the authors' measured queues.

QUEUES, MEASURED = (STATISTICS.with_name(f"xonar_{name}.csv") for name in ("queues", "measured"))
FITTED, OTHER = "trial5", "first_commented_maybe_trial1"  # keys of the queues
MEASURED_AS = {FITTED: "trial5", OTHER: "trial1"}  # keys of the measurements
ONE, TWO = "fifo", "packed_fifo, strict"
XONAR_2 = "xonar, score 2"  # the score that is hard-coded in trial5's scheduler
AS_MEASURED = {
    ONE: "fifo, one slot",
    TWO: "fifo with memory test, two slots",
    XONAR_2: "Xonar (earlier score), two slots",
}
"""Names of the policies in the measurements."""
OVERFEAT_GIB = 8.841  # of overfeat in the authors' other table; its memory in trial5 is missing
OTHER_OVERFEAT_GIB = (0.933, 17.031, 31.137)
CONTENTIONS: dict[str, dict[str, float]] = {
    "contention of Lucid's pairs": {"contention_loss": 0.04},
    "contention of Gavel's pairs": {"contention": CONTENTION_OF_EXCESS, "contention_loss": 0.0},
}
"""Milder losses than the fitted one: 4 % per neighbour, or 0.48 of the demand beyond a GPU."""


def replay(queue: str, unknown_gib: float = OVERFEAT_GIB) -> str:
    """Return the name of the setting that replays a queue."""
    other = "" if unknown_gib == OVERFEAT_GIB else f", overfeat of {unknown_gib:g} GB"
    return f"replay of {queue}{other}"


def replay_settings() -> list[Setting]:
    """Return both queues, and the first with other values of the unknown memory or with other contention."""
    policies: dict[str, Maker] = default_policies(ONE)
    policies |= {TWO: partial(PackedFifo, strict=True), XONAR_2: partial(Xonar, 2)}
    cases = [(FITTED, OVERFEAT_GIB), (OTHER, OVERFEAT_GIB), *((FITTED, gib) for gib in OTHER_OVERFEAT_GIB)]
    found = [Setting(replay(*case), [measured_queue(*case)], policies) for case in cases]
    for name, choices in CONTENTIONS.items():
        load = measured_queue(FITTED, OVERFEAT_GIB, **choices)
        found.append(Setting(f"{replay(FITTED)}, {name}", [load], policies))
    return found


def measured_queue(queue: str, unknown_gib: float = OVERFEAT_GIB, **choices: float) -> Workload:
    """Return the jobs of a queue as a workload; choices: fields of the scenario that differ."""
    rows = queued(queue)
    memory_gib = (rows["memory_mb"] / 1000).where(rows["memory_mb"] > 0, unknown_gib)
    columns = {"job_id": rows["job"], "gpu_memory_gib": memory_gib}
    table = jobs_table(columns | {name: rows[name] for name in ("active_ms", "idle_ms")})
    scenario = changed(named("xonar_mix"), choices)
    return prepare(filled(table, scenario, seed=0), scenario, window=Window("test", 0))


@cache
def queued(queue: str) -> pd.DataFrame:
    """Return the profiles of a queue's jobs, in order."""
    rows = pd.read_csv(QUEUES)
    return rows[rows["queue"] == queue].sort_values("place").reset_index(drop=True)


@cache
def makespans(queue: str) -> Mapping[str, float]:
    """Return the measured makespans of a queue by policy, s, each the mean of ten runs."""
    rows = pd.read_csv(MEASURED)
    here = rows[rows["queue"] == MEASURED_AS[queue]]
    seconds = dict(zip(here["policy"], here["makespan_s"], strict=True))
    return {policy: float(seconds[name]) for policy, name in AS_MEASURED.items() if name in seconds}


def simulated(outcome: Outcome, policy: str, queue: str = FITTED, unknown_gib: float = OVERFEAT_GIB) -> float:
    """Return a queue's simulated makespan, s."""
    return outcome.mean((replay(queue, unknown_gib), policy), "makespan_s").mean


def gain(of: Callable[[str], float]) -> float:
    """Return the share by which Xonar's makespan is shorter than that of two slots with the memory test."""
    return 1 - of(XONAR_2) / of(TWO)


def replay_table(outcome: Outcome) -> "ResultTable":
    """Return measured and simulated makespans of both queues, and Xonar's gain."""
    rows = []
    for queue, role in ((FITTED, "trial5"), (OTHER, "other queue,\nperhaps trial1")):
        timed = makespans(queue)
        for policy, seconds in timed.items():
            ours = simulated(outcome, policy, queue)
            note = {ONE: "fitted", TWO: "fitted"}.get(policy, "") if queue == FITTED else "held out"
            rows.append(
                [role, policy, f"{seconds:.1f} s", f"{ours:.1f} s", f"{ours / seconds - 1:+.1%}", note]
            )
        here = gain(lambda policy, queue=queue: simulated(outcome, policy, queue))  # type: ignore[misc]
        there = gain(timed.__getitem__)
        rows.append([role, "gain over two slots", f"{there:.1%}", f"{here:.1%}", f"{here - there:+.1%}", ""])
    headings = ["queue", "makespan", "measured", "simulated", "error", ""]
    return _output.grid("Replay of the authors' queues of ten jobs", headings, rows, labels=2)


def replay_remark(outcome: Outcome) -> str:
    """Return a sentence on the fitted numbers and the sensitivity to the unknown memory."""
    each = [f"{simulated(outcome, XONAR_2, FITTED, gib):.0f} s at {gib:.1f} GB" for gib in OTHER_OVERFEAT_GIB]
    usual = f"{simulated(outcome, XONAR_2):.0f} s at {OVERFEAT_GIB:.1f} GB"
    gains = {name: _gain_with(outcome, name) for name in CONTENTIONS}
    others = " and ".join(f"{share:.1%} with {name}".replace("%", " %") for name, share in gains.items())
    return (
        f"In the replay, a job's time outside its iterations ({STARTUP_S:g} s) and the loss of two jobs on a GPU are "
        f"fitted to trial5. The memory of its job overfeat is unknown; Xonar's makespan is {usual}, overfeat's memory "
        f"in the authors' other table, and {', '.join(each)}. The gain over two slots would be {others}."
    )


def _gain_with(outcome: Outcome, contention: str) -> float:
    place = f"{replay(FITTED)}, {contention}"
    return gain(lambda policy: outcome.mean((place, policy), "makespan_s").mean)


paper = Paper(
    about=__doc__,
    trials=100,
    settings=settings,
    tables=tables,
    claims=claims,
    remarks=remarks,
    figure=figure,
)
