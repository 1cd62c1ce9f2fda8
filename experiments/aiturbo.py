"""AITurbo: resize the jobs that can be predicted, and keep parameter servers off the GPUs (Zhao et al., HPDC 2021).

Claim: mean JCT is 3 times shorter than the state of the art's. Whose that is the abstract does not say; held here
against Tiresias handicapped as in a later prototype of the same lab, where each of its parameter servers takes a GPU
and AITurbo's take five CPU cores, against Tiresias with its servers on cores, without that handicap, and Optimus.

Inferred: the mechanism as far as it is that prototype's (see baselines/aiturbo.py), and the workload. 120 jobs
through one or two servers come one by one to 16 GPUs; 45 % are predictable from the start, 40 % become so on the way,
15 % never; a restart takes a minute. A load of 0.7 is what the workers ask for: with the servers, where they take GPUs,
it is 1.03, so that what the handicapped baseline is asked for is more than there is. Beside it stand arrivals as bursty
as Philly's, and a burst of jobs like that lab's sixty. Its feedback queues come by the points that order jobs within
them, so they are without effect, here as there.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from math import log
from typing import TYPE_CHECKING

import numpy as np

from gpu_cluster_gym import traces
from gpu_cluster_gym.baselines.aiturbo import Aiturbo
from gpu_cluster_gym.baselines.optimus import Optimus
from gpu_cluster_gym.baselines.tiresias import Tiresias
from gpu_cluster_gym.evaluation.comparison import Estimate, estimate
from gpu_cluster_gym.experiments import _aiturbo_lab, _figure, _tables
from gpu_cluster_gym.experiments._claims import Claim
from gpu_cluster_gym.experiments._figure import Look
from gpu_cluster_gym.experiments._paper import Paper
from gpu_cluster_gym.experiments._tables import share, times
from gpu_cluster_gym.experiments._trials import Found, Setting, by_default, changed, drawn
from gpu_cluster_gym.simulator import measurements
from gpu_cluster_gym.simulator.kernel import calls
from gpu_cluster_gym.simulator.kernel.cluster.layout import MAX_SERVERS
from gpu_cluster_gym.simulator.source import source_of
from gpu_cluster_gym.simulator.speed_model import fit, seconds
from gpu_cluster_gym.workloads import Workload, prepare, seed_of_jobs
from gpu_cluster_gym.workloads import aiturbo_ps as trace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from gpu_cluster_gym.evaluation.report import SideBySide

HEADLINE = 3.0
LOADS = (0.5, 0.7, 0.9)
TRIALS = 40
FEWER = 3  # times, for what changes the workload
FITTED = 4  # trials on whose jobs the model of speed is tried

AITURBO, BASELINE, TIRESIAS = "aiturbo", "tiresias, handicapped", "tiresias"
OPTIMUS, ASTRAY = "optimus", "optimus, 3 times astray"
NO_BORDA, RIGID, NO_CPU, ON_GPUS, ALL = (
    f"aiturbo, {what}"
    for what in ("no Borda", "no elasticity", "no CPU workers", "servers on GPUs", "all resized")
)
PARTS = (NO_BORDA, RIGID, NO_CPU, ON_GPUS, ALL)
COMPARED = ("fifo", "las", "srtf", OPTIMUS, ASTRAY, TIRESIAS, BASELINE, AITURBO)
FREE, BURSTY = "free exchange", "arrivals as bursty as Philly's"
BESIDE = ("fifo", "srtf", OPTIMUS, TIRESIAS, BASELINE)  # where the workload is another
LABS = {"fifo_strict": "fifo_strict", "fifo": "", "srtf": "srtf", OPTIMUS: "optimus", TIRESIAS: ""}
LABS |= {
    BASELINE: "tiresias",
    AITURBO: "",
    ALL: "",
}  # policies on the lab's jobs, and what of its plots each is
ROUNDS_S = {"fifo_strict": 0.0, "srtf": 120.0, OPTIMUS: 300.0, BASELINE: 240.0, AITURBO: 240.0}
"""Seconds between two rounds in the lab's prototype, each of which restarts what runs; 0 for none."""


def at(load: float) -> str:
    """Return the name of the setting with this load."""
    return f"load {load:g}"


USUAL = at(trace.LOAD)


USED = (("gpu_allocated_share", "GPUs\nheld", "{:.0%}"), ("cpu_utilisation", "cores\nheld", "{:.0%}"))


def settings(trials: int, seed: int) -> list[Setting]:
    """Return the usual load with AITurbo's parts left out, other loads, and on fewer trials other workloads."""
    loads = drawn("aiturbo_ps", trials, seed)
    policies = by_default("fifo", "las", "srtf") | {
        OPTIMUS: Optimus,
        ASTRAY: partial(Optimus, error=log(3)),
        TIRESIAS: Tiresias,
        BASELINE: partial(Tiresias, servers_on_gpus=True),
        AITURBO: Aiturbo,
    }
    parts = {
        NO_BORDA: partial(Aiturbo, borda=False),
        RIGID: partial(Aiturbo, elastic=False),
        NO_CPU: partial(Aiturbo, cpu_workers=False),
        ON_GPUS: partial(Aiturbo, servers_on_gpus=True),
        ALL: partial(Aiturbo, predictable="all"),
    }
    others = [load for load in LOADS if load != trace.LOAD]
    few = loads[: max(8, trials // FEWER)]
    some = {name: policies[name] for name in (*BESIDE, AITURBO)}
    burst = by_default("fifo_strict") | policies | {ALL: parts[ALL]}
    burst = {name: burst[name] for name in LABS}
    return [
        Setting(USUAL, loads, policies | parts),
        *(Setting(at(load), changed(loads, partial(trace.with_load, load=load)), some) for load in others),
        Setting(BURSTY, [as_bursty_as_philly(load) for load in loads], some),
        *(Setting(name, changed(few, change), some) for name, change in CHANGES.items()),
        *_aiturbo_lab.settings(loads, burst, ROUNDS_S),
    ]


def as_bursty_as_philly(load: Workload) -> Workload:
    """Return the same jobs at the times of as many of Philly's generator, stretched to the same span, hence load."""
    seed = traces.seed_from(seed_of_jobs(load.scenario, load.window), "bursts")
    times = traces.load("philly", seed=seed, jobs=len(load.table))["submit_s"].to_numpy()
    span_s = load.table["submit_s"].iloc[-1]
    submit_s = (times - times[0]) * span_s / (times[-1] - times[0])
    return prepare(load.table.assign(submit_s=submit_s), load.scenario, window=load.window)


def _with(**columns: float) -> "partial[pd.DataFrame]":
    """Return what gives every job the same in some columns."""
    return partial(_assign, columns=columns)


def _assign(table: "pd.DataFrame", columns: dict[str, float]) -> "pd.DataFrame":
    return table.assign(**columns)


def _at_most_four(table: "pd.DataFrame") -> "pd.DataFrame":
    return table.assign(max_workers=np.maximum(table["num_gpus"], 4))


CHANGES: "dict[str, Callable[[pd.DataFrame], pd.DataFrame]]" = {
    "all predictable": trace.all_predictable,
    "none predictable": trace.none_predictable,
    "free restarts": partial(trace.with_restart, mean_s=0.0),
    "restarts of 250 s": partial(trace.with_restart, mean_s=250.0),
    "one server each": _with(servers=1),
    "two servers each": _with(servers=2),
    FREE: _with(sync_gb=0.0),
    "four workers at most": _at_most_four,
}
"""What else the workload might be, on fewer trials; a restart of 250 s is resnet50's in models.csv."""


def tables(found: Found) -> "list[SideBySide]":
    """Return the usual load, AITurbo's parts, other loads and workloads, the lab's jobs, and how its model fits."""
    numbers = (
        *_tables.TIMES,
        ("preemptions", "preemp-\ntions", "{:,.1f}"),
        ("resizes", "moves", "{:,.1f}"),
        *USED,
    )
    title = f"The usual case: load {trace.LOAD:g}"
    over = {at(load): f"load {load:g}" for load in LOADS}
    others = {BURSTY: BURSTY, **{name: name for name in CHANGES}}
    few = found.counts()[next(iter(CHANGES))]
    return [
        _tables.comparison(title, found, USUAL, AITURBO, numbers=numbers),
        _times(f"Mean JCT / AITurbo's by load ({found.counts()[USUAL]} trials)", found, over, BESIDE),
        _times(f"Mean JCT / AITurbo's in other workloads ({few} trials, bursts: all)", found, others, BESIDE),
        _aiturbo_lab.table(found, AITURBO, LABS),
        _fit(found),
    ]


def times_as_long(found: Found, setting: str, policy: str, than: str = AITURBO) -> Estimate:
    """Return how many times as long as another's a policy's mean JCT is."""
    return found.ratio((setting, policy), (setting, than))


def _times(title: str, found: Found, settings: dict[str, str], policies: Sequence[str]) -> "SideBySide":
    rows = [
        [
            heading,
            *("\n".join(_tables.texts(times_as_long(found, name, policy), "{:.2f}")) for policy in policies),
        ]
        for name, heading in settings.items()
    ]
    return _tables.grid(title, ["", *(policy.replace(", ", ",\n") for policy in policies)], rows)


def _fit(found: Found) -> "SideBySide":
    """Return by model of network how far AITurbo's model of speed is off, in the shapes profiled and in others."""
    errors = fit_errors(found)
    kinds = {"profiled": "where\nprofiled", "others": "else-\nwhere", "on_cpu": "on\ncores"}
    rows = []
    for name, jobs in [*errors.groupby("model"), ("all", errors)]:
        means = [_tables.texts(estimate(jobs[kind]), "{:.1%}")[0] for kind in kinds]
        worst = _tables.texts(estimate([jobs["worst"].max()]), "{:.0%}")[0]
        rows.append([name, *means, worst, f"{jobs['least_ms'].min():.0f}"])
    title = f"By how much of an iteration AITurbo's model of speed is off, {len(errors)} jobs"
    return _tables.grid(title, ["model", *kinds.values(), "worst", "least,\nms"], rows)


def fit_errors(found: Found) -> "pd.DataFrame":
    """Return what the model of speed errs for each job of the first trials; see `errors_of_fit`."""
    import pandas as pd

    seed = int(found.summaries[USUAL, AITURBO]["seed"].iloc[0])
    loads = drawn("aiturbo_ps", FITTED, seed)
    return pd.DataFrame([row for load in loads for row in errors_of_fit(load)])


def errors_of_fit(load: Workload) -> Iterator[dict[str, str | float]]:
    """Yield by how much of an iteration the model of speed is off, on the mean over shapes, for each job of a trial.

    profiled: on GPUs, in the shapes measured; others: on GPUs, in all others that there may be; on_cpu: on cores, in
    any; worst: in the worst of all. least_ms: the shortest iteration that it predicts.
    """
    episode = load.episode()
    shapes = np.array(list(product(range(1, trace.MOST_WORKERS + 1), range(1, MAX_SERVERS + 1), (0, 1))))
    on_cpu, source = shapes[:, 2] == 1, source_of(episode.view)
    for job, model in enumerate(load.table["model"]):
        profile = measurements.profile(source, job)
        predicted = seconds(fit(profile), *shapes.T)
        truth = np.empty(len(shapes))
        calls.iterations(episode.states, 0, episode.jobs, job, shapes, truth)
        error = np.abs(predicted / truth - 1)
        known = (shapes[:, None] == profile[None, :, :3]).all(axis=2).any(axis=1)
        yield {
            "model": model,
            "profiled": error[known & ~on_cpu].mean(),
            "others": error[~known & ~on_cpu].mean(),
            "on_cpu": error[on_cpu].mean(),
            "worst": error.max(),
            "least_ms": 1000 * predicted.min(),
        }


WHOSE = {BASELINE: "Tiresias handicapped by servers on GPUs", TIRESIAS: "Tiresias", OPTIMUS: "Optimus"}


def claims(found: Found) -> list[Claim]:
    """Return what the abstract says, against Tiresias with its servers on GPUs and on cores, and Optimus."""
    cases = [(USUAL, policy) for policy in WHOSE]
    cases += [(BURSTY, BASELINE), (_aiturbo_lab.lab("1 Gb/s"), BASELINE)]
    return [_beaten(found, *case) for case in cases]


def _beaten(found: Found, setting: str, policy: str) -> Claim:
    claim = f"The mean JCT of {WHOSE[policy]} is at least 3 times AITurbo's ({setting})."
    return Claim(claim, times_as_long(found, setting, policy), "at least", paper=HEADLINE)


def remarks(found: Found) -> list[str]:
    """Say what of the gain is where the servers are and what is scheduling, and what AITurbo's parts are worth."""
    place = times(found.ratio((USUAL, BASELINE), (USUAL, TIRESIAS)))
    rest = times(times_as_long(found, USUAL, TIRESIAS))
    parts = {NO_BORDA: "Borda counts", RIGID: "elasticity", NO_CPU: "workers on CPU cores"}
    parts |= {ON_GPUS: "cores for servers"}
    without = [f"{times(times_as_long(found, USUAL, name))} without {part}" for name, part in parts.items()]
    held = times(times_as_long(found, USUAL, ALL))
    each = {name: times_as_long(found, USUAL, name) for name in COMPARED[:-1]}
    shorter = [f"{name}, {times(ratio)}" for name, ratio in each.items() if ratio.mean < 1]
    errors = fit_errors(found)
    profiled, others = (share(estimate(errors[kind])) for kind in ("profiled", "others"))
    free, free_rest = (times(times_as_long(found, FREE, name)) for name in (BASELINE, TIRESIAS))
    return [
        f"At load {trace.LOAD:g} handicapped Tiresias' mean JCT is {place} that of Tiresias with servers on cores, "
        f"and that is {rest} AITurbo's: so much of the claim is where the servers are, and so much is all else.",
        f"Where exchange is free, w workers being w / (1 + a (w - 1)) times as fast as one, it is {free} AITurbo's and "
        f"{free_rest} with servers on cores: the rest is that users ask for servers which suit a model badly.",
        f"AITurbo's mean JCT becomes {', '.join(without)}, and {held} if it holds all jobs predictable; if it holds "
        "none so, it has no elasticity.",
        f"Shorter than AITurbo's is the mean JCT there of: {'; '.join(shorter) or 'none of the others'}.",
        f"The model of speed is off by {profiled} of an iteration in the shapes profiled, with an error of 5 %, and by "
        f"{others} in others; the shortest iteration it predicts takes {errors['least_ms'].min():.0f} ms.",
        _aiturbo_lab.remark(found, AITURBO),
    ]


LOOKS = {
    "fifo": Look("FIFO", _figure.GREY, width=1.2),
    "srtf": Look("SRTF", _figure.GREEN, "--", 1.2),
    OPTIMUS: Look("Optimus", _figure.ORANGE),
    TIRESIAS: Look("Tiresias (cores)", _figure.RED, "--", 1.2),
    BASELINE: Look("Tiresias,\nhandicapped", _figure.RED, width=2.6),
}
ROWS = {
    NO_BORDA: "no Borda",
    NO_CPU: "no CPU workers",
    RIGID: "no elasticity",
    ON_GPUS: "servers on GPUs",
    ALL: "all resized",
}


def figure(found: Found) -> "Figure":
    """Draw how many times as long JCTs are as AITurbo's: over load, in other workloads, and without its parts."""
    drawing, (loads, others, parts) = _figure.one_and_two()
    lines = {name: [times_as_long(found, at(load), name) for load in LOADS] for name in LOOKS}
    _figure.curves(loads, LOADS, lines, LOOKS)
    _figure.level(loads, HEADLINE, "paper: 3 times", LOADS[1])
    _figure.level(loads, 1, "AITurbo", LOADS[0] + 0.01)
    _figure.dots(
        parts, {text: times_as_long(found, USUAL, name) for name, text in ROWS.items()}, _figure.BLUE
    )
    changes = {name: times_as_long(found, name, BASELINE) for name in CHANGES}
    _figure.dots(others, changes, LOOKS[BASELINE].colour)
    _figure.mark(others, HEADLINE, "paper: 3", beyond=True)
    parts.axvline(1, color=_figure.GREY, linewidth=0.8)
    loads.set_xticks(LOADS)
    loads.set_xlabel("Offered load")
    loads.set_title("Mean job completion time / AITurbo's, by load\n(Tiresias: servers on GPUs or on cores)")
    others.set_title("Tiresias (GPUs) / AITurbo,\nwhere jobs are others")
    parts.set_title("AITurbo changed /\nAITurbo")
    _figure.caption(drawing, found.counts()[USUAL])
    return drawing


paper = Paper(
    about=__doc__,
    trials=TRIALS,
    settings=settings,
    tables=tables,
    claims=claims,
    remarks=remarks,
    figure=figure,
)
