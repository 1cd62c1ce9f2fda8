"""CODA: give each training job the CPU cores it needs, and the remaining cores to CPU jobs (Zhao et al., ICDCS 2020).

Claim: an adaptive CPU allocator, a contention eliminator and a multi-array scheduler raise GPU utilisation by 20.8 %,
and CPU jobs do not queue longer. The abstract states neither whether this is in points or relative, nor the baseline:
tested here in both readings, against a fixed 3 cores per GPU (`fixed_cores`) and the cores that users request (`fifo`).

Inferred: everything else. A day of training jobs of nine models on ten nodes of eight GPUs and 40 cores, at a GPU load
of 1.1, with CPU jobs that take a quarter of the cores; a fifth of the CPU jobs are heavy on memory bandwidth. An
allocated GPU is busy for this share of the time: a job's iteration time with plenty of cores, alone and in one place,
divided by its actual one; a GPU that waits for input counts as idle. Utilisation, the busy share, is busy GPU time
divided by the number of GPUs and the time from the first submission to the last.

Inferred for the core needs by configuration: each network runs alone with one core per GPU, two, and so on. Its need is
the smallest number with which it is at most 2 % slower than with sixteen. The cost of input is fitted to Synergy's
curves (`models.csv`) and proportional to the GPUs, so on one node the need per GPU does not depend on their number.
Across nodes, cores also move gradients (the part `exchange` of physics, which is off in `coda_mix`), and the fewer GPUs
a node has, the fewer cores share that work.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gpu_cluster_gym.baselines.coda import Coda
from gpu_cluster_gym.baselines.fixed_cores import FixedCores
from gpu_cluster_gym.evaluation.comparison import Estimate, estimate
from gpu_cluster_gym.evaluation.plot.style import BLUE, GREY, percent
from gpu_cluster_gym.experiments import _output
from gpu_cluster_gym.experiments._paper import Claim, Paper
from gpu_cluster_gym.experiments._trials import (
    Outcome,
    Setting,
    change_trials,
    default_policies,
    sample_trials,
)
from gpu_cluster_gym.workloads import Window, Workload, prepare, seed_of_jobs
from gpu_cluster_gym.workloads.coda_mix import HEAVY_SHARE, MODELS, WIDTHS, with_heavy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpu_cluster_gym.evaluation.runner import Maker
    from gpu_cluster_gym.evaluation.table import ResultTable


HEADLINE = 0.208
HEAVY_SHARES = (0.0, 0.2, 0.4, 0.7, 1.0)  # of CPU jobs that are heavy on memory bandwidth
BASELINES = {"fixed_cores": "a fixed 3 cores per GPU", "fifo": "the cores that users request"}
FEWER = 2  # factor by which the settings with other shares of heavy jobs have fewer trials
CODA, UNTUNED, UNTHROTTLED, ONE_QUEUE = "coda", "coda, no tuning", "coda, no eliminator", "coda, no arrays"
IN_ORDER, LATE = "coda, GPU jobs in order", "coda, late eliminator"
UTILISATION, CPU_WAIT, GPU_WAIT = "gpu_busy_share", "mean_cpu_wait_s", "mean_gpu_wait_s"


def heavy(share: float) -> str:
    """Return the name of the setting with this share of heavy CPU jobs."""
    return f"heavy share {share:g}"


USUAL = heavy(HEAVY_SHARE)


def settings(trials: int, seed: int) -> list[Setting]:
    """Return the default case with ablations of CODA, other shares of heavy jobs, and the core needs."""
    loads = sample_trials("coda_mix", trials, seed)
    parts = {
        UNTUNED: partial(Coda, tuning=False),
        UNTHROTTLED: partial(Coda, eliminator=False),
        ONE_QUEUE: partial(Coda, arrays=False),
        IN_ORDER: partial(Coda, by_width=False),
        LATE: partial(Coda, hurts_from=1.0),
    }
    both = default_policies("fixed_cores", CODA) | {name: parts[name] for name in (UNTHROTTLED, LATE)}
    others = [share for share in HEAVY_SHARES if share != HEAVY_SHARE]
    few = loads[: max(1, trials // FEWER)]
    return [
        Setting(USUAL, loads, default_policies(*BASELINES, CODA) | parts),
        *(Setting(heavy(share), with_share(few, share), both) for share in others),
        *needs_settings(loads[0]),
    ]


def with_share(loads: Sequence[Workload], share: float) -> list[Workload]:
    """Return the same trials with another share of heavy CPU jobs; the jobs of a smaller share stay heavy."""
    seeds = [seed_of_jobs(load.scenario, load.window) for load in loads]
    changes = [partial(with_heavy, share=share, seed=seed) for seed in seeds]
    return [change_trials([load], change)[0] for load, change in zip(loads, changes, strict=True)]


def tables(outcome: Outcome) -> "list[ResultTable]":
    """Return tables of the policies, CODA's gains, the eliminator by share of heavy jobs, waits, and core needs."""
    numbers = (
        (UTILISATION, "busy\nshare", "{:.1%}"),
        ("cpu_utilisation", "CPU\nutil.", "{:.1%}"),
        (GPU_WAIT, "GPU\nwait", "{:,.0f}"),
        (CPU_WAIT, "CPU\nwait", "{:,.1f}"),
        ("mean_jct_s", "mean\nJCT", "{:,.0f}"),
    )
    ratios = ((UTILISATION, "busy share"), (CPU_WAIT, "CPU wait"))
    usual = _output.comparison("A day", outcome, USUAL, "fixed_cores", numbers=numbers, ratios=ratios)
    return [usual, _gains(outcome), _by_heavy_share(outcome), _by_width(outcome), needs_table(outcome)]


def _gains(outcome: Outcome) -> "ResultTable":
    """Return CODA's gain over each baseline, in points and relative, and the change of the CPU jobs' wait."""
    rows = []
    for baseline, text in BASELINES.items():
        points, relative, wait = gains(outcome, baseline)
        shares = [" ".join(_output.texts(each, "{:.1%}")) for each in (points, relative)]
        rows.append([text, *shares, " ".join(_output.texts(wait, "{:+.1f}"))])
    headings = ["baseline", "GPU utilisation,\npoints", "relative", "CPU jobs' wait,\nchange in s"]
    return _output.grid("Gain of CODA (paper: 20.8 %, points or relative)", headings, rows)


def gains(outcome: Outcome, baseline: str) -> tuple[Estimate, Estimate, Estimate]:
    """Return CODA's gain of GPU utilisation, in points and relative, and the change of the CPU jobs' wait in s.

    The wait is compared by its difference, since with the cores that users request no CPU job waits in some trials.
    """
    ours, theirs = (USUAL, CODA), (USUAL, baseline)
    relative = Estimate(*(figure - 1 for figure in outcome.ratio(ours, theirs, UTILISATION)))
    return outcome.difference(ours, theirs, UTILISATION), relative, outcome.difference(ours, theirs, CPU_WAIT)


def _by_heavy_share(outcome: Outcome) -> "ResultTable":
    """Return the eliminator's effect on GPU utilisation and CPU jobs, by the share of heavy CPU jobs.

    late: CPU jobs are throttled only once all bandwidth of a node is drawn.
    """
    rows, names = [], ("fixed", "no elim.", "late", "CODA")
    for share in HEAVY_SHARES:
        ours, without = (heavy(share), CODA), (heavy(share), UNTHROTTLED)
        cases = (heavy(share), "fixed_cores"), without, (heavy(share), LATE), ours
        each = [outcome.mean(case, UTILISATION) for case in cases]
        gained = outcome.difference(ours, without, UTILISATION)
        waits = [f"{outcome.mean(case, CPU_WAIT).mean:,.0f}" for case in cases]
        shares = [_output.texts(one, "{:.1%}")[0] for one in each]
        rows.append([f"{share:.0%}", *shares, " ".join(_output.texts(gained, "{:.1%}")), *waits])
    headings = [
        "heavy",
        *(f"GPU util.,\n{name}" for name in names),
        "eliminator,\npoints",
    ]
    headings += [f"CPU wait,\n{name}" for name in names]
    trials = outcome.counts()[heavy(HEAVY_SHARES[0])]
    return _output.grid(f"By share of CPU jobs heavy on memory bandwidth ({trials} trials)", headings, rows)


def _by_width(outcome: Outcome) -> "ResultTable":
    """Return the mean wait of GPU jobs by requested GPUs."""
    rows = []
    for policy in ("fixed_cores", CODA, IN_ORDER):
        jobs = outcome.results[USUAL, policy]
        waits = [jobs[jobs["num_gpus"] == width].groupby("window")["wait_s"].mean() for width in WIDTHS]
        rows.append([policy, *(" ".join(_output.texts(estimate(each), "{:,.0f}")) for each in waits)])
    return _output.grid("Mean wait by requested GPUs, s", ["policy", *map(str, WIDTHS)], rows)


def claims(outcome: Outcome) -> list[Claim]:
    """Return the claims on GPU utilisation and the CPU jobs' wait, against each baseline."""
    return [claim for baseline in BASELINES for claim in _over(outcome, baseline)]


def _over(outcome: Outcome, baseline: str) -> list[Claim]:
    points, relative, wait = gains(outcome, baseline)
    than = f"with {BASELINES[baseline]}"
    in_points = "GPU utilisation is at least 20.8 points higher"
    in_percent = "GPU utilisation is at least 20.8 % higher"
    return [
        Claim(f"{in_points} than {than}.", points, "at least", paper=HEADLINE, form="{:.1%}"),
        Claim(f"{in_percent} than {than}.", relative, "at least", paper=HEADLINE, form="{:.1%}"),
        Claim(f"CPU jobs wait at most 0 s longer than {than}.", wait, "at most", paper=0, form="{:.1f}"),
    ]


def remarks(outcome: Outcome) -> list[str]:
    """Return a sentence on the contribution of each part of CODA."""
    parts = {
        UNTUNED: "tuning",
        UNTHROTTLED: "the eliminator",
        ONE_QUEUE: "the arrays",
        IN_ORDER: "turns by number of GPUs",
    }
    ours = outcome.mean((USUAL, CODA), CPU_WAIT).mean
    lines = []
    for policy, part in parts.items():
        points = outcome.difference((USUAL, policy), (USUAL, CODA), UTILISATION)
        mean, low, high = (f"{100 * figure:+.1f}" for figure in points)
        wait = outcome.mean((USUAL, policy), CPU_WAIT).mean
        lines.append(
            f"Without {part}: {mean} points of GPU utilisation ({low} to {high}), and CPU jobs wait {wait:,.1f} s "
            f"instead of {ours:,.1f} s."
        )
    return lines


ROWS = {
    "fifo": "requested cores",
    "fixed_cores": "3 cores per GPU",
    UNTUNED: "CODA, no tuning",
    UNTHROTTLED: "CODA, no eliminator",
    ONE_QUEUE: "CODA, no arrays",
    CODA: "CODA",
}


def figure(outcome: Outcome) -> "Figure":
    """Draw the gain of GPU utilisation over fixed cores, and the CPU jobs' wait, by policy."""
    drawing, (used, waits) = _output.side_by_side()
    fixed = (USUAL, "fixed_cores")
    points = {text: outcome.difference((USUAL, policy), fixed, UTILISATION) for policy, text in ROWS.items()}
    wait = {text: outcome.mean((USUAL, policy), CPU_WAIT) for policy, text in ROWS.items()}
    _output.dots(used, points, BLUE)
    _output.dots(waits, wait, BLUE)
    percent(used.xaxis, symbol="")
    used.set_title("GPU utilisation over 3 cores per GPU")
    used.set_xlabel("Gain, points")
    used.axvline(0, color=GREY, linewidth=0.8)
    _output.mark(used, HEADLINE, "paper: 20.8")
    waits.set_title("Mean wait of CPU jobs")
    waits.set_xlabel("Seconds")
    _output.logarithmic(waits, (1, 10, 100))
    _output.caption(drawing, outcome.counts()[USUAL])
    return drawing


# Core needs by configuration.

CONFIGURATIONS = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 2), (2, 4), (2, 8))  # nodes, GPUs
MAX_CORES = 16  # per GPU: plenty
TOLERANCE = 0.02  # of the run time with plenty of cores
RUN_S = 7_200.0


def configuration_name(nodes: int, gpus: int) -> str:
    """Return the setting of a configuration in the notation of CODA's authors: 2N4G for eight GPUs on two nodes."""
    return f"{nodes}N{gpus // nodes}G"


def needs_settings(day: Workload) -> list[Setting]:
    """Return settings with a job of each network alone, for each configuration, number of cores, and for CODA."""
    policies: dict[str, Maker] = {cores(each): partial(FixedCores, each) for each in range(1, MAX_CORES + 1)}
    policies[CODA] = Coda
    return [Setting(configuration_name(*each), [alone(day, *each)], policies) for each in CONFIGURATIONS]


def cores(each: int) -> str:
    """Return the name of the policy with this number of cores per GPU."""
    return f"{each} cores"


def alone(day: Workload, nodes: int, gpus: int) -> Workload:
    """Return a job of each network, far apart in time, on a cluster of just the GPUs that it requests."""
    rows = day.table[day.table["kind"] == "gpu"].drop_duplicates("model").set_index("model")
    table = rows.loc[list(MODELS)].reset_index()
    table = table.assign(
        job_id=table["model"],
        submit_s=10 * RUN_S * np.arange(len(table)),
        num_gpus=gpus,
        cpu_cores=MAX_CORES * gpus,
        **dict.fromkeys(("duration_s", "profiled_duration_s", "predicted_duration_s"), RUN_S),
    )
    each = gpus // nodes
    machines, physics = f"{nodes}x{each}-{MAX_CORES * each}c", f"{day.scenario.physics},links,exchange"
    scenario = replace(day.scenario, cluster=machines, physics=physics)
    return prepare(table[list(day.table)], scenario, window=Window("test", 0))


def needs(outcome: Outcome, configuration: tuple[int, int]) -> pd.DataFrame:
    """Return the cores per GPU that each network needs, and their mean number under CODA."""
    place = configuration_name(*configuration)
    runs = pd.DataFrame(
        {
            each: outcome.results[place, cores(each)].set_index("job_id")["run_s"]
            for each in range(1, MAX_CORES + 1)
        }
    )
    enough = runs.le((1 + TOLERANCE) * runs[MAX_CORES], axis="index")
    tuned = outcome.results[place, CODA].set_index("job_id")
    given = tuned["core_s"] / tuned["run_s"] / configuration[1]
    return pd.DataFrame({"needs": enough.idxmax(axis="columns"), CODA: given})


def needs_table(outcome: Outcome) -> "ResultTable":
    """Return cores per GPU, needed and under CODA, by network and configuration."""
    each = {configuration: needs(outcome, configuration) for configuration in CONFIGURATIONS}
    rows = [
        [model, *(f"{one['needs'][model]} / {one[CODA][model]:.1f}" for one in each.values())]
        for model in MODELS
    ]
    headings = ["network", *(configuration_name(*configuration) for configuration in CONFIGURATIONS)]
    return _output.grid("Cores per GPU: needed / mean under CODA, by nodes and GPUs per node", headings, rows)


paper = Paper(
    about=__doc__,
    trials=40,
    settings=settings,
    tables=tables,
    claims=claims,
    remarks=remarks,
    figure=figure,
)
